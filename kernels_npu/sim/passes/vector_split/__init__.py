"""`T.Kernel(threads=2)`: the automatic split of work over the two vector cores of a block.

`analysis` finds what is split, `reduction` rewrites the kernel by its meaning, `compiler` models
what the compiler's pass does, and `divergence` notes where the two differ.
"""

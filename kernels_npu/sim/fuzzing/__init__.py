"""Random kernels: correct ones with their NumPy result, damaged texts, and unfit arguments.

Generators take their decisions from a `Draw`, so that hypothesis can shrink what fails.
"""

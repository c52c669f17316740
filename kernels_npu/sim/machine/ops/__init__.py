"""Operation tables: one module per family, each row one operation of the dialect.

Importing this package fills `instruction.LOWERINGS`.
"""

from kernels_npu.sim.machine.ops import (
    blocks,
    convert,
    copy,
    cube,
    elementwise,
    generate,
    indexed,
    leading,
    masks,
    predicate,
    reduce,
    repeat_reduce,
    row_expand,
    shape,
    sorting,
)

__all__ = [
    "blocks",
    "convert",
    "copy",
    "cube",
    "elementwise",
    "generate",
    "indexed",
    "leading",
    "masks",
    "predicate",
    "reduce",
    "repeat_reduce",
    "row_expand",
    "shape",
    "sorting",
]

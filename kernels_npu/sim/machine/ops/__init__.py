"""Operation tables: one module per family, each row one operation of the dialect.

Importing this package fills `instruction.LOWERINGS`.
"""

from kernels_npu.sim.machine.ops import (
    convert,
    copy,
    cube,
    elementwise,
    generate,
    indexed,
    predicate,
    reduce,
    shape,
)

__all__ = [
    "convert",
    "copy",
    "cube",
    "elementwise",
    "generate",
    "indexed",
    "predicate",
    "reduce",
    "shape",
]

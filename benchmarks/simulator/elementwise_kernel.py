"""An addition in tiles of 16 rows, one block per 64 rows."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
from kernels_npu.dialect import T, tilelang

COLUMNS, TILE = 1024, 16


@tilelang.jit(out_idx=[2], target="ascendc")
def add_kernel(rows):
    """c = a + b, float32 [rows, 1024]; each vector core has every other tile of a block."""

    @T.prim_func
    def add(
        a: T.Tensor([rows, COLUMNS], "float32"),
        b: T.Tensor([rows, COLUMNS], "float32"),
        c: T.Tensor([rows, COLUMNS], "float32"),
    ):
        with T.Kernel(rows // (4 * TILE), is_npu=True) as (cid, vid):
            x = T.alloc_ub([TILE, COLUMNS], "float32")
            y = T.alloc_ub([TILE, COLUMNS], "float32")
            with T.Scope("V"):
                for i in T.serial(2):
                    row = ((cid * 2 + i) * 2 + vid) * TILE
                    if i > 0:
                        T.wait_flag("mte3", "mte2", 0)
                    T.copy(a[row : row + TILE, :], x)
                    T.copy(b[row : row + TILE, :], y)
                    T.set_flag("mte2", "v", 0)
                    T.wait_flag("mte2", "v", 0)
                    T.tile.add(x, x, y)
                    T.set_flag("v", "mte3", 0)
                    T.wait_flag("v", "mte3", 0)
                    T.copy(x, c[row : row + TILE, :])
                    if i < 1:
                        T.set_flag("mte3", "mte2", 0)

    return add

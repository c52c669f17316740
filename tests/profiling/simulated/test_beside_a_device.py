"""Counters beside those of a device: vector addition of [128, 256] float32, one block.

The device's figures are of `msprof op` with CANN 8.5.2 on a 910B2, of a kernel in the same dialect:
per vector core 128 KiB from and 64 KiB to global memory, 3 MTE2 and 2 MTE3 instructions, 16,640
vector operations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernels_npu.sim.frontend.shims import tilelang
from profiling import FileKind
from profiling.simulated import profile_simulated

T = tilelang.language
ROWS, COLS = 128, 256


def add_kernel() -> Any:
    @tilelang.jit(out_idx=[2], target="ascendc")
    def factory() -> Any:
        @T.prim_func
        def vector_add(
            a: T.Tensor([ROWS, COLS], "float32"),
            b: T.Tensor([ROWS, COLS], "float32"),
            c: T.Tensor([ROWS, COLS], "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (cid, vid):
                x = T.alloc_ub([ROWS // 2, COLS], "float32")
                y = T.alloc_ub([ROWS // 2, COLS], "float32")
                with T.Scope("V"):
                    T.copy(a[cid * ROWS + vid * (ROWS // 2), 0], x)
                    T.copy(b[cid * ROWS + vid * (ROWS // 2), 0], y)
                    T.barrier_all()
                    T.tile.add(x, x, y)
                    T.barrier_all()
                    T.copy(x, c[cid * ROWS + vid * (ROWS // 2), 0])

        return vector_add

    return factory()


def test_vector_addition(tmp_path: Path) -> None:
    from kernels_npu.sim import device

    device.enable()
    a, b = (torch.randn(ROWS, COLS, device="npu") for _ in range(2))
    with profile_simulated(tmp_path / "p") as run:
        torch.testing.assert_close(add_kernel()(a, b).cpu(), a.cpu() + b.cpu())
    (kernel,) = run.kernels
    assert kernel.info is not None
    assert (kernel.info.op_type, kernel.info.block_dim, kernel.info.mix_block_dim) == ("mix", 1, 2)
    memory, arithmetic = kernel.rows(FileKind.MEMORY), kernel.rows(FileKind.ARITHMETIC)
    assert [row["sub_block_id"] for row in memory] == ["vector0", "vector1"]
    for row in memory:
        assert (row["gm_to_ub_datas_kb"], row["ub_to_gm_datas_kb"]) == (128.0, 64.0)
        # The device's counters have one instruction more of each pipe, the cores' own start-up.
        assert (row["aiv_mte2_instructions"], row["aiv_mte3_instructions"]) == (2, 1)
    for row in arithmetic:
        assert row["aiv_vec_fops"] == ROWS * COLS // 2
        assert abs(16_640 / (row.number("aiv_vec_fops") or 1) - 1) < 0.02

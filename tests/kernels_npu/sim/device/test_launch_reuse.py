"""Many launches of one kernel, and launches from several host threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from kernels_npu.sim import collect_report
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine import compiled, variants

ROWS = 5


@tilelang.jit(out_idx=[-1])
def add(columns):
    rows = T.symbolic("rows")

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "float32"),
        B: T.Tensor((rows, columns), "float32"),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(rows, is_npu=True) as (cid, vid):
            a = T.alloc_ub((1, columns), "float32")
            b = T.alloc_ub((1, columns), "float32")
            with T.Scope("V"):
                if vid == 0:
                    T.copy(A[cid, 0], a)
                    T.copy(B[cid, 0], b)
                    T.barrier_all()
                    T.tile.add(a, a, b)
                    T.barrier_all()
                    T.copy(a, C[cid, 0])

    return main


def test_two_hundred_launches_compile_once(monkeypatch: pytest.MonkeyPatch):
    lowered, generated = [], []
    lower, variant = compiled.lower, variants.Variant
    monkeypatch.setattr(compiled, "lower", lambda *a: lowered.append(a) or lower(*a))
    monkeypatch.setattr(variants, "Variant", lambda *a: generated.append(a) or variant(*a))
    with collect_report() as report:
        for i in range(200):
            a, b = torch.randn(2, ROWS + i % 3, 72, device="npu")
            out = add(72)(a, b)
            if i % 50 == 0:
                torch.testing.assert_close(out, a + b)
    assert report.kernels["main"].launches == 200
    assert (len(lowered), len(generated)) == (1, 1)


def test_launches_from_several_threads():
    kernel = add(40)

    def work(seed: int) -> bool:
        generator = torch.Generator().manual_seed(seed)
        a, b = (torch.randn(ROWS + seed, 40, generator=generator).npu() for _ in range(2))
        return all(torch.equal(kernel(a, b).cpu(), (a + b).cpu()) for _ in range(5))

    with collect_report() as report, ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))
    assert report.kernels["main"].launches == 60 and not report.failed

"""`tilelang.autotune`, the profiler and the carver: what they choose; no time is claimed."""

from __future__ import annotations

import logging
import math
import pickle

import pytest
import torch

from kernels_npu.errors import AscendInferError, KernelSourceError
from kernels_npu.evidence import Evidence
from kernels_npu.sim import collect_report, configure, device
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.no_time import NoTime

ROWS, COLUMNS = 96, 64


@pytest.fixture(autouse=True)
def npu() -> None:
    device.enable()


@tilelang.jit(out_idx=[-1])
def scale(rows, cols, tile=16, factor=2.0, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((rows, cols), dtype), B: T.Tensor((rows, cols), dtype)):
        with T.Kernel(rows // tile, is_npu=True) as (cid, vid):
            a = T.alloc_ub((tile, cols), dtype)
            with T.Scope("V"):
                if vid == 0:
                    T.copy(A[cid * tile, 0], a)
                    T.barrier_all()
                    T.tile.mul(a, a, factor)
                    T.barrier_all()
                    T.copy(a, B[cid * tile, 0])

    return main


def tuned(**options):
    return tilelang.autotune(ref_prog=lambda a: 2 * a, **options)(scale)


def test_the_configuration_of_fewest_modelled_cycles_is_chosen():
    factory = tuned(configs=[{"tile": 1}, {"tile": 32}, {"tile": 4}])
    with collect_report() as report:
        kernel = factory(ROWS, COLUMNS)
    assert report.kernels["main"].launches == 3, "each configuration is launched once"
    result = kernel.get_tuner_result()
    costs = {
        tile: tilelang.profiler.do_bench(scale(ROWS, COLUMNS, tile).get_profiler().run_once)
        for tile in (1, 32, 4)
    }
    assert result["config"] == kernel.config == {"tile": min(costs, key=costs.__getitem__)}
    assert kernel.latency.cycles == min(cost.cycles for cost in costs.values()) > 0
    assert factory(ROWS, COLUMNS) is kernel, "tuned once"


def data() -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, device="npu")


def test_a_cheaper_configuration_that_is_wrong_is_not_chosen(caplog):
    configs = [{"tile": 32, "factor": 3.0}, {"tile": 4, "factor": 2.0}, {"tile": 4096}]
    with caplog.at_level(logging.INFO), collect_report() as report:
        kernel = tuned(configs=configs)(ROWS, COLUMNS)
    assert kernel.config == configs[1]
    assert report.kernels["main"].launches == 1, "refused ones are no finding and no launch"
    assert not report.findings
    assert "elements are off" in caplog.text
    with pytest.raises(KernelSourceError, match=r"AI-SRC-038.*elements are off"):
        tuned(configs=configs[:1])(ROWS, COLUMNS)


def test_what_is_compared_can_be_chosen():
    seen = []
    wrong = {"tile": 4, "factor": 3.0}
    assert tuned(configs=[wrong], skip_check=True)(ROWS, COLUMNS).config == wrong
    kernel = tuned(configs=[wrong], manual_check_prog=lambda a, b: seen.append((a, b)))(
        ROWS, COLUMNS
    )
    ((found, expected),) = seen
    torch.testing.assert_close(found[0] * 2, expected[0] * 3)
    given = data()
    params = []

    def supply(names):
        params.extend(names)
        return [given]

    tuned(configs=[{"tile": 4}], supply_prog=supply)(ROWS, COLUMNS)
    assert [(p.name, p.shape, p.dtype) for p in params] == [("A", (ROWS, COLUMNS), torch.float32)]
    with tilelang.set_autotune_inputs(given), collect_report():
        assert tuned(configs=[{"tile": 4}])(ROWS, COLUMNS).config == {"tile": 4}
    assert kernel.ref_latency.cycles == 0


def test_a_call_that_leaves_nothing_open_is_not_tuned():
    factory = tuned(configs=lambda *_: [{"tile": 16}, {"tile": 32}])
    with collect_report() as report:
        kernel = factory(ROWS, COLUMNS, tile=8)
    assert kernel is scale(ROWS, COLUMNS, tile=8) and not report.kernels
    with pytest.raises(KernelSourceError, match="AI-SRC-036"):
        kernel.get_tuner_result()


@pytest.mark.parametrize(
    "use, code",
    [
        (lambda: tuned(configs=[])(ROWS, COLUMNS), "AI-SRC-038"),
        (lambda: tuned(configs=[{"tiles": 4}])(ROWS, COLUMNS), "AI-SRC-038"),
        (lambda: tilelang.autotune(configs=[{}])(print), "AI-SRC-036"),
        (lambda: scale(ROWS, COLUMNS).get_profiler("Normal"), "AI-SRC-036"),
    ],
)
def test_wrong_use_is_refused(use, code):
    with pytest.raises(AscendInferError) as caught:
        use()
    assert caught.value.code == code


def test_a_benchmark_returns_no_time():
    kernel = scale(ROWS, COLUMNS)
    x = data()
    cost = tilelang.profiler.do_bench(lambda: kernel(x))
    assert math.isnan(cost) and cost.evidence is Evidence.MODELLED
    assert f"{cost:.3f} ms" == f"{cost} ms" and "no time" in f"{cost:8.1f}"
    assert "modelled cycles" in str(cost) and math.isnan(cost / 2 + 1)
    assert cost < math.inf and not cost < 1e8 and not cost > 0
    assert pickle.loads(pickle.dumps(cost)).cycles == cost.cycles
    torch_cost = tilelang.profiler.do_bench(lambda: x + x)
    assert torch_cost.cycles == 0 and "no kernel" in f"{torch_cost:.1f}"
    assert min([NoTime(7), NoTime(3), NoTime(5)]).cycles == 3
    both = tilelang.profiler.do_bench(lambda: kernel(x), quantiles=[0.2, 0.8])
    assert [c.cycles for c in both] == [cost.cycles] * 2
    with configure(soc="910B4"):
        assert tilelang.profiler.do_bench(lambda: kernel(x)).cycles >= cost.cycles


def test_waves_of_blocks_count():
    few, many = (scale(rows, COLUMNS, tile=1) for rows in (24, 25))
    costs = [tilelang.profiler.do_bench(k.get_profiler().run_once).cycles for k in (few, many)]
    assert costs[1] == 2 * costs[0], "one block more than cores is a second wave"


def test_the_profiler_compares_with_a_reference():
    profiler = scale(ROWS, COLUMNS).get_profiler(tilelang.TensorSupplyType.Uniform)
    profiler.assert_allclose(lambda a: a + a)
    profiler.assert_consistent(repeat=2)
    with pytest.raises(AssertionError, match="elements are off"):
        profiler.assert_allclose(lambda a: 2.5 * a)

    def one_off(a):
        out = 2 * a
        out[3, 5] += 1
        return out

    profiler.assert_allclose(one_off)
    with pytest.raises(AssertionError, match=r"0\.02%"):
        profiler.assert_allclose(one_off, max_mismatched_ratio=0)
    assert profiler.do_bench().cycles > 0
    assert profiler.run_once().shape == (ROWS, COLUMNS)
    with pytest.raises(AssertionError, match="returns 1 tensors"):
        profiler.assert_allclose(lambda a: [a, a])


@pytest.mark.parametrize("kind", list(tilelang.TensorSupplyType))
@pytest.mark.parametrize("dtype", ["float16", "int32", "uint8", "bfloat16"])
def test_inputs_are_made_up_in_the_kernel_s_dtype(kind, dtype):
    (x,) = scale(ROWS, COLUMNS, dtype=dtype).get_profiler(kind).inputs() if dtype != "uint8" else (
        unsigned_inputs(kind)
    )  # fmt: skip
    assert x.device.type == "npu" and str(x.dtype) == f"torch.{dtype}"
    values = x.cpu().double()
    if kind.name in ("Zero", "One"):
        assert values.unique().tolist() == [float(kind.name == "One")]
    elif dtype in ("float16", "bfloat16"):
        assert values.std() > 0.1


def unsigned_inputs(kind):
    @T.prim_func
    def main(A: T.Tensor((ROWS, COLUMNS), "uint8"), B: T.Tensor((ROWS, COLUMNS), "uint8")):
        with T.Kernel(1, is_npu=True) as (_cid, _vid):
            a = T.alloc_ub((ROWS, COLUMNS), "uint8")
            with T.Scope("V"):
                T.copy(A, a)
                T.barrier_all()
                T.copy(a, B)

    return tilelang.compile(main, out_idx=[-1]).get_profiler(kind).inputs()


def test_a_symbolic_shape_cannot_be_made_up():
    @tilelang.jit(out_idx=[-1])
    def factory():
        n = T.symbolic("n")

        @T.prim_func
        def main(A: T.Tensor((n, 64), "float32"), B: T.Tensor((n, 64), "float32")):
            with T.Kernel(n, is_npu=True) as (cid, _):
                a = T.alloc_ub((1, 64), "float32")
                with T.Scope("V"):
                    T.copy(A[cid, 0], a)
                    T.barrier_all()
                    T.copy(a, B[cid, 0])

        return main

    with pytest.raises(KernelSourceError, match=r"AI-SRC-036.*'n'"):
        factory().get_profiler().run_once()


def test_the_carver_proposes_tiles_that_fit():
    from kernels_npu.sim.frontend.carver import Ascend, MatmulTemplate

    template = MatmulTemplate(M=1024, N=512, K=768).with_arch(Ascend())
    hints = template.recommend_hints(topk=8)
    assert len(hints) == 8
    moved = [hint.moved_bytes for hint in hints]
    assert moved == sorted(moved)
    for hint in hints:
        rows, columns = hint.block
        (step,) = hint.rstep
        assert 1024 % rows == 512 % columns == 768 % step == 0
        assert rows * columns * 4 <= 131072 and 4 * (rows + columns) * step <= 524032
        assert max(rows, columns) * min(step, 256) * 2 <= 65536
    with pytest.raises(KernelSourceError, match="AI-SRC-038"):
        MatmulTemplate(M=1000, N=7, K=768).recommend_hints()


def test_the_compiler_s_errors_are_the_factory_s():
    with pytest.raises(KernelSourceError) as caught:

        @tilelang.compile
        @T.prim_func
        def main(A: T.Tensor((4, 8, 64), "float32")):
            with T.Kernel(1, is_npu=True) as (_cid, _vid):
                a = T.alloc_ub((4, 8, 64), "float32")
                with T.Scope("V"):
                    for i, j, k in T.Parallel(4, 8, 64):
                        a[i, j, k] = A[i, j, k]

    assert isinstance(caught.value, tilelang.tvm.TVMError)
    assert str(caught.value.where).startswith(__file__)


def test_operations_on_buffers_of_no_kernel_are_nodes(monkeypatch):
    tir = tilelang.tvm.tir
    source, target = tir.decl_buffer((4, 8), "float32"), tir.decl_buffer((4,), "float32")
    node = T.reduce_sum(source, target, dim=1)
    assert isinstance(node, tir.Call)
    assert node.op.same_as(tir.op.Op.get("tl.ascend_reduce"))
    assert not node.op.same_as(tir.op.Op.get("tl.ascend_copy"))
    with pytest.raises(ValueError, match="axis"):
        T.reduce_max(source, target, dim=2)
    seen = []
    monkeypatch.setattr(T.reduce_ascend, "_reduce_with_clear", lambda *args: seen.append(args[2:]))
    T.reduce_min(source, target, -2, [4, 8], False)
    assert seen == [("reduce_min", 0, False, [4, 8])]
    with pytest.raises(KernelSourceError, match=r"tvm\.tir has no attribute"):
        _ = tir.IntImm

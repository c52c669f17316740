"""Output of `T.printf` and `T.dump_tensor`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim.frontend import T, tilelang
from kernels_npu.sim.machine.printing import parse_format

EXPERT: dict[str, bool] = {}


def printing(body: Callable[..., Any], **options: Any) -> Any:
    """Two blocks; each vector core prints `body(x, cid, vid)` after a load without a fence."""

    @tilelang.jit(out_idx=[1], pass_configs=EXPERT, **options)
    def factory() -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((4, 8), "float32"), b: T.Tensor((4, 8), "float32")):
            with T.Kernel(2, is_npu=True) as (cid, vid):
                x = T.alloc_ub((1, 8), "float32")
                with T.Scope("V"):
                    T.copy(a[cid * 2 + vid, 0], x)
                    body(x, cid, vid)
                    T.set_flag("mte2", "mte3", 0)
                    T.wait_flag("mte2", "mte3", 0)
                    T.copy(x, b[cid * 2 + vid, 0])

        return kernel

    return factory()


@pytest.mark.parametrize("schedule", [("eager", 0), ("late", 0), ("random", 3)])
def test_each_core_prints_what_it_has(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    capsys: pytest.CaptureFixture[str],
    schedule: tuple[str, int],
) -> None:
    a = rng.integers(-99, 99, (4, 8)).astype(np.float32)
    kernel = printing(lambda x, cid, vid: T.dump_tensor(x, 7, 5))
    result = launch(kernel, a, schedule=schedule)
    assert result.codes == set()
    np.testing.assert_array_equal(result.outputs[0], a)
    lines = capsys.readouterr().out.splitlines()
    for row in range(4):
        head = f"[block {row // 2} aiv{row % 2}] "
        own = [line.removeprefix(head) for line in lines if line.startswith(head)]
        assert own == [
            "dump_tensor desc=7 x (float32, UB), 5 elements",
            " ".join(f"{v:.6g}" for v in a[row, :5]),
        ]


def test_printf_like_c(launch: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    kernel = printing(
        lambda x, cid, vid: T.printf("%d|%3u|%5.2f|%x|%s|%%|%ld", cid, vid, 1.5, -1, "hi", 7)
    )
    launch(kernel, np.ones((4, 8), np.float32))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[block 0 aiv0] 0|  0| 1.50|ffffffff|hi|%|7"
    assert "[block 1 aiv1] 1|  1| 1.50|ffffffff|hi|%|7" in lines


def test_a_shape_gives_rows(launch: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    kernel = printing(lambda x, cid, vid: T.dump_tensor(x, 0, 8, (4, 2)))
    launch(kernel, np.arange(32, dtype=np.float32).reshape(4, 8))
    own = [s for s in capsys.readouterr().out.splitlines() if s.startswith("[block 0 aiv1]")]
    assert own[1:] == [f"[block 0 aiv1] {v} {v + 1}" for v in (8, 10, 12, 14)]


def test_printing_orders_nothing(launch: Callable[..., Any]) -> None:
    """A missing fence is reported although the print waits for the load."""

    @tilelang.jit(out_idx=[1], pass_configs=EXPERT)
    def factory(dumps: bool) -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((2, 8), "float32"), b: T.Tensor((2, 8), "float32")):
            with T.Kernel(1, is_npu=True) as (_cid, vid):
                x = T.alloc_ub((1, 8), "float32")
                with T.Scope("V"):
                    T.copy(a[vid, 0], x)
                    if dumps:
                        T.dump_tensor(x, 0, 8)
                    T.copy(x, b[vid, 0])

        return kernel

    a = np.ones((2, 8), np.float32)
    assert launch(factory(True), a).codes == launch(factory(False), a).codes == {"AI-RACE-001"}


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [("%d", []), ("%d", ["float32"]), ("%f", ["int32"]), ("no", ["int32"]), ("%q", ["int32"])],
)
def test_formats_that_do_not_fit(text: str, dtypes: list[str]) -> None:
    from kernels_npu.errors import SourceLocation

    with pytest.raises(KernelSourceError, match="AI-SRC-066"):
        parse_format(text, dtypes, SourceLocation("kernel.py", 3))

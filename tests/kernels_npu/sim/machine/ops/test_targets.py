"""Operations that one code generator lacks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.errors import UnsupportedError
from kernels_npu.sim.frontend import T
from tests.kernels_npu.sim.machine.ops.conftest import UNUSED, tile_kernel

#: Lowered by the real compiler (codegen): which target refuses the operation.
LACKING: list[tuple[str, Callable[..., Any], str]] = [
    ("sin", lambda z, x: T.tile.sin(z, x), "pto"),
    ("cos", lambda z, x: T.tile.cos(z, x), "pto"),
    ("init_sort_buf", lambda z, x: T.tile.init_sort_buf(z, 64, 64), "pto"),
    ("wholereducesum", lambda z, x: T.tile.wholereducesum(z, x, 64, 1, 1, 1, 8), "pto"),
    ("block_reduce_max", lambda z, x: T.tile.block_reduce_max(z, x, 1, 64, 1, 1, 8), "pto"),
    ("sub_experiment", lambda z, x: T.tile.sub_experiment(z, x, x, 64), "pto"),
    ("reduce_sum_experiment", lambda z, x: T.tile.reduce_sum_experiment(z, x, 64), "pto"),
    ("fill_experiment", lambda z, x: T.tile.fill_experiment(z, 1.0, [3], 1, 1, 8), "pto"),
    ("row_expand_mul", lambda z, x: T.tile.row_expand_mul(z, x, x[0, :1]), "ascendc"),
]


@pytest.mark.parametrize(("name", "body", "lacking"), LACKING)
def test_the_target_is_named(
    launch: Callable[..., Any], name: str, body: Callable[..., Any], lacking: str
) -> None:
    a = np.ones((1, 64), np.float32)

    def run(target: str) -> None:
        kernel = tile_kernel(
            lambda z, x, y, w: body(z, x),
            ((1, 64), "float32"),
            ((1, 64), "float32"),
            target=target,
        )
        launch(kernel, a, UNUSED, UNUSED, a)

    with pytest.raises(
        UnsupportedError, match=f"AI-SRC-065: target {lacking} has no T.tile.{name}"
    ):
        run(lacking)


@pytest.mark.parametrize(("step", "codes"), [(1, set()), (-1, set()), (3, {"AI-BOUND-036"})])
def test_pto_counts_in_ones(launch: Callable[..., Any], step: int, codes: set[str]) -> None:
    before = np.zeros(40, np.int32)
    kernel = tile_kernel(
        lambda z, x, y, w: T.tile.arith_progression(z, 7, step, 40),
        ((8,), "float32"),
        ((40,), "int32"),
        target="pto",
    )
    result = launch(kernel, UNUSED, UNUSED, UNUSED, before)
    assert result.codes == codes
    if not codes:
        np.testing.assert_array_equal(result.outputs[0], 7 + step * np.arange(40))

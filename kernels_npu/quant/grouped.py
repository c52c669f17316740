"""Products of quantised matrices: integer sums within groups, scales between them.

    y = sum over g of  s_a[g] * s_w[g] * sum over k in g of (a[k] - z_a[g]) * (w[k] - z_w[g])

Sums of different groups have different units. They must not be added before they are scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import UsageError
from kernels_npu.quant.affine import Floats
from kernels_npu.quant.tensor import QuantisedTensor


def grouped_matmul(a: QuantisedTensor, w: QuantisedTensor, *, accumulator: str = "int32") -> Floats:
    """`a[M, K] @ w[N, K].T` in float64, from exact integer sums.

    The two may be grouped differently, also with groups that do not divide K: K is cut wherever a
    scale or zero point of either changes. Vectors `[K]` count as one row, and the result of two
    vectors has shape [1, 1].

    Args:
        accumulator: integer type that holds the sum of one cut.

    Raises:
        UsageError: AI-QUANT-004 for shapes that do not fit; AI-QUANT-007 when some order of
            adding a cut's products leaves the accumulator's range.
    """
    left, right = _Rows(a), _Rows(w)
    depth = left.values.shape[1]
    if right.values.shape[1] != depth:
        raise UsageError(
            "AI-QUANT-004",
            f"a has {depth} columns, w has {right.values.shape[1]}",
            rule="both operands are rows along K: a[M, K] and w[N, K]",
            fix="transpose() the operand that has K first; its scales follow",
        )
    limits = _limits(accumulator)
    result = np.zeros((len(left.values), len(right.values)))
    changes = left.changes() | right.changes()
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()] if depth else []
    for start, end in zip(starts, [*starts[1:], depth], strict=True):
        sums = left.values[:, start:end] @ right.values[:, start:end].T
        _require_fit(left, right, sums, (start, end), limits)
        result += np.multiply.outer(left.scales[:, start], right.scales[:, start]) * sums
    return result


class _Rows:
    """An operand as rows along K: codes less zero points, and the scale of every element."""

    def __init__(self, tensor: QuantisedTensor) -> None:
        shape = tensor.codes.shape
        if len(shape) not in (1, 2):
            raise UsageError(
                "AI-QUANT-004",
                f"an operand of shape {list(shape)}",
                rule="operands are vectors or matrices",
                fix="reshape before quantising, or multiply slice by slice",
            )
        zeros = tensor.granularity.expand(tensor.zero_points, shape).astype(np.int64)
        scales = tensor.granularity.expand(tensor.scales, shape).astype(np.float64)
        self.zeros = np.atleast_2d(np.broadcast_to(zeros, shape))
        self.scales = np.atleast_2d(np.broadcast_to(scales, shape))
        self.values = np.atleast_2d(tensor.codes.astype(np.int64)) - self.zeros

    def changes(self) -> NDArray[np.bool_]:
        """Between which neighbours along K some row's parameters differ."""
        either = (np.diff(self.scales) != 0) | (np.diff(self.zeros) != 0)
        return np.asarray(either.any(axis=0))


def _limits(accumulator: str) -> np.iinfo[Any]:
    try:
        return np.iinfo(np.dtype(accumulator))
    except (TypeError, ValueError) as error:
        raise UsageError(
            "AI-QUANT-007",
            f"accumulator {accumulator!r} is no integer type",
            rule="integer products are added in an integer type",
            fix="take int32, which holds 131071 products of any two int8 codes",
        ) from error


def _require_fit(
    left: _Rows,
    right: _Rows,
    sums: NDArray[Any],
    cut: tuple[int, int],
    limits: np.iinfo[Any],
) -> None:
    """No order of adding the products of a cut may leave the accumulator's range.

    The largest partial sum of any order is the sum of the positive products.
    """
    k = slice(*cut)
    magnitudes = np.abs(left.values[:, k]) @ np.abs(right.values[:, k]).T
    high = int(((magnitudes + sums) // 2).max(initial=0))
    low = -int(((magnitudes - sums) // 2).max(initial=0))
    if low < limits.min or high > limits.max:
        raise UsageError(
            "AI-QUANT-007",
            f"products of K {cut[0]}..{cut[1] - 1} add up to between {low} and {high}, "
            f"{limits.dtype} holds {limits.min}..{limits.max}",
            rule="the accumulator holds every partial sum; the input's type says nothing about it",
            fix="take a wider accumulator, or shorter groups",
        )

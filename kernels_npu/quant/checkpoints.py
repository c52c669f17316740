"""Zero points as GPTQ checkpoints store them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kernels_npu.errors import UsageError
from kernels_npu.quant.affine import UINT4, Integers, require_zero_points
from kernels_npu.quant.tensor import require_codes

#: checkpoint_format of a quantisation config -> what is subtracted before zero points are stored.
#: AutoGPTQ's first format stores zero points less one and adds it back when it loads them.
_STORED_LESS = {"gptq": 1, "gptq_v2": 0}


def gptq_zero_points(stored: ArrayLike, checkpoint_format: str = "gptq") -> Integers:
    """Zero points from unpacked `qzeros`, 0..16.

    Raises:
        UsageError: AI-QUANT-008 for an unknown format; AI-QUANT-006 for what is no 4-bit code.
    """
    codes = np.asarray(stored)
    require_codes(codes, UINT4)
    return codes.astype(np.int32) + _less(checkpoint_format)


def gptq_zeros_to_store(zero_points: ArrayLike, checkpoint_format: str = "gptq") -> Integers:
    """What to pack into `qzeros`.

    Raises:
        UsageError: AI-QUANT-005 for a zero point that the format cannot hold: 0 in the first one,
            where less one it would be -1 and spill into the neighbours when packed.
    """
    stored = np.asarray(zero_points) - _less(checkpoint_format)
    require_zero_points(stored, UINT4)
    return stored.astype(np.uint8)


def _less(checkpoint_format: str) -> int:
    if checkpoint_format not in _STORED_LESS:
        raise UsageError(
            "AI-QUANT-008",
            f"checkpoint format {checkpoint_format!r}",
            rule=f"zero points are known to be stored as in {', '.join(_STORED_LESS)}",
            fix="take checkpoint_format from quantize_config.json; it is gptq where it is missing",
        )
    return _STORED_LESS[checkpoint_format]

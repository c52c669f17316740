"""Bytes of a group that a format lays out by itself."""

from __future__ import annotations

from kernels_npu.errors import UsageError


def group_bytes(
    group_size: int, *, code_bits: int = 4, scale_bits: int = 16, zero_bits: int = 0, align: int = 1
) -> int:
    """Bytes of codes, scale and zero point of one group, padded to a multiple of `align` bytes.

    66 for 128 codes of 4 bits and a 16-bit scale, 80 where groups are aligned to 16. Formats that
    keep scales in a tensor of their own do not pad groups; `ascend_infer.estimates` counts those.

    Raises:
        UsageError: AI-QUANT-004 for sizes that no format has.
    """
    if min(group_size, code_bits, align) < 1 or min(scale_bits, zero_bits) < 0:
        raise UsageError(
            "AI-QUANT-004",
            f"groups of {group_size} codes of {code_bits} bits, scales of {scale_bits}, zero "
            f"points of {zero_bits}, padded to {align} bytes",
            rule="sizes are positive; scales and zero points may be absent (0 bits)",
            fix="for example group_bytes(128)",
        )
    size = -(-group_size * code_bits // 8) + -(-(scale_bits + zero_bits) // 8)
    return -(-size // align) * align

"""What quantised weights occupy: codes, scales and zero points, and padding of groups."""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class GroupStorage:
    """One group as a format stores it.

    group_size: elements that share a scale. align: bytes that every group is padded to a multiple
    of; 1 when groups are not padded.

    Raises:
        UsageError: AI-QUANT-004 for sizes that no format has.
    """

    group_size: int
    code_bits: int = 4
    scale_bits: int = 16
    zero_bits: int = 0
    align: int = 1

    def __post_init__(self) -> None:
        if (
            min(self.group_size, self.code_bits, self.align) < 1
            or min(self.scale_bits, self.zero_bits) < 0
        ):
            raise UsageError(
                "AI-QUANT-004",
                f"groups of {self.group_size} codes of {self.code_bits} bits, scales of "
                f"{self.scale_bits}, zero points of {self.zero_bits}, padded to {self.align} bytes",
                rule="sizes are positive; scales and zero points may be absent (0 bits)",
                fix="for example GroupStorage(group_size=128)",
            )

    @property
    def bits_per_element(self) -> float:
        """Codes and metadata without padding: 4.125 for 128 codes of 4 bits and a 16-bit scale."""
        return self.code_bits + (self.scale_bits + self.zero_bits) / self.group_size

    @property
    def group_bytes(self) -> int:
        """Of one whole group, padding included."""
        bits = self.group_size * self.code_bits
        metadata = self.scale_bits + self.zero_bits
        size = -(-bits // 8) + -(-metadata // 8)
        return -(-size // self.align) * self.align

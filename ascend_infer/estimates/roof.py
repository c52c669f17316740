"""The two limits of a device that bound a step: peaks by dtype and bandwidth of its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.evidence import Evidence
from profiling.devices import Chip, ChipFigure, get_chip


@dataclass(frozen=True, kw_only=True)
class Roof:
    """What a step is bounded by.

    peaks: dtype -> rate of matrix products. any_peak: for every dtype, where the caller gave one.
    bandwidth: of the device memory. cores: that share attention's work.
    """

    name: str
    peaks: Mapping[str, ChipFigure]
    any_peak: ChipFigure | None = None
    bandwidth: ChipFigure
    memory_bytes: int | None = None
    cores: int = 1

    def knows(self, dtype: str) -> bool:
        """Whether a peak for `dtype` is known."""
        return self.any_peak is not None or dtype in self.peaks

    def peak(self, dtype: str) -> ChipFigure:
        """FLOP/s of matrix products with operands of `dtype`.

        Raises:
            UnsupportedError: AI-DEV-014.
        """
        figure = self.any_peak or self.peaks.get(dtype)
        if figure is None:
            raise UnsupportedError(
                "AI-DEV-014",
                f"no peak of {self.name} for {dtype} is known",
                rule=f"peaks are known for {', '.join(self.peaks) or 'no dtype'}",
                fix="choose dtypes among these, or give --peak-tflops",
            )
        return figure

    def balance(self, dtype: str) -> float:
        """FLOP per byte at which compute and memory traffic take equally long."""
        return self.peak(dtype).value / self.bandwidth.value

    def compute_seconds(self, flops: float, dtype: str) -> float:
        return flops / self.peak(dtype).value if flops else 0.0

    def memory_seconds(self, size: float) -> float:
        return size / self.bandwidth.value

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        peaks = self.peaks if self.any_peak is None else {"all dtypes": self.any_peak}
        return {
            "device": self.name,
            "peaks": {dtype: figure.to_dict() for dtype, figure in peaks.items()},
            "bandwidth": self.bandwidth.to_dict(),
            "memory_bytes": self.memory_bytes,
        }


def roof_of(
    device: str,
    *,
    peak_tflops: float | None = None,
    bandwidth_tbs: float | None = None,
    memory_gib: float | None = None,
) -> Roof:
    """The limits of the chip called `device`, some of them replaced by the caller's figures.

    Args:
        peak_tflops: 10^12 FLOP/s, for every dtype. bandwidth_tbs: 10^12 B/s. memory_gib: 2^30 B.

    Raises:
        AscendInferError: AI-DEV-010 for an unknown chip, AI-DEV-014 when its bandwidth is not
            known, AI-EST-001 for a figure that cannot be meant.
    """
    chip: Chip = get_chip(device)
    for name, value in (
        ("peak", peak_tflops),
        ("bandwidth", bandwidth_tbs),
        ("memory", memory_gib),
    ):
        if value is not None and not 1e-6 <= value <= 1e6:
            raise UsageError(
                "AI-EST-001",
                f"the {name} of the device is {value}",
                rule="peaks are in TFLOP/s, bandwidths in TB/s, memories in GiB, 1e-6 to 1e6",
                fix=f"correct the {name}",
            )
    return Roof(
        name=chip.name,
        peaks=chip.peaks,
        any_peak=None if peak_tflops is None else _given(peak_tflops * 1e12, "FLOP/s"),
        bandwidth=chip.bandwidth()
        if bandwidth_tbs is None
        else _given(bandwidth_tbs * 1e12, "B/s"),
        memory_bytes=chip.memory_bytes if memory_gib is None else int(memory_gib * 2**30),
        cores=chip.cores,
    )


def _given(value: float, unit: str) -> ChipFigure:
    return ChipFigure(
        value=value, unit=unit, evidence=Evidence.MODELLED, source="given by the caller"
    )

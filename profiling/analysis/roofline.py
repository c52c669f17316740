"""A launch under the roofline of a chip: what moving its bytes and computing take at least.

A device's file has times, and bounds are microseconds. A simulated launch has none: its bounds are
cycles of the chip's rated clock, beside the cycles of the named cost model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernels_npu.evidence import Evidence
from profiling.analysis.figures import number
from profiling.analysis.traffic import Traffic, traffic_of
from profiling.devices import Chip, ChipFigure
from profiling.records.kernel import OpProfile
from profiling.records.table import Figure, FileKind

#: The chip's rates per second, in rates per microsecond.
_PER_US = 1e-6
#: Operations of each unit: (unit, columns of ArithmeticUtilization).
_OPERATIONS = (
    ("cube", ("aic_cube_fops",)),
    ("vector", ("aiv_vec_fops", "aic_vec_fops")),
)
#: Shares of a unit's active cycles by dtype; the rates of the named dtype hold for them.
_SHARES = {
    "cube": (("float16", "aic_cube_fp16_ratio"), ("int8", "aic_cube_int8_ratio")),
    "vector": (("float16", "aiv_vec_fp16_ratio"), ("float32", "aiv_vec_fp32_ratio")),
}


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """One bound: what a unit of the chip takes at least.

    Args:
        unit: `memory`, `cube` or `vector`.
        work: bytes or operations.
        rate: of the chip per microsecond or cycle, whatever `Roofline.unit` is.
        of: the chip's figure behind the rate.
        dtype: whose peak it is; empty for memory.
    """

    unit: str
    work: float
    rate: float
    of: ChipFigure
    dtype: str = ""

    @property
    def bound(self) -> float:
        """The least length, in `Roofline.unit`."""
        return self.work / self.rate


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """One launch on one chip.

    Args:
        chip: which.
        traffic: its bytes.
        operations: by unit, those that the unit's lanes made.
        ceilings: one per unit that had work, memory first.
        length: how long the launch took; None where the file does not say.
        unit: of lengths: `us`, or `cycles`.
        refs: the figures of the operations.
    """

    chip: Chip
    traffic: Traffic
    operations: Mapping[str, float]
    ceilings: tuple[Ceiling, ...]
    length: Figure | None
    unit: str
    refs: tuple[Figure, ...]

    @property
    def intensity(self) -> float:
        """Operations per byte of global memory."""
        moved = self.traffic.total
        return sum(self.operations.values()) / moved if moved else 0.0

    @property
    def achieved(self) -> float | None:
        """Operations per `unit`; None without a length."""
        length = number(self.length)
        return sum(self.operations.values()) / length if length else None

    @property
    def highest(self) -> Ceiling:
        """The ceiling with the largest bound."""
        return max(self.ceilings, key=lambda ceiling: ceiling.bound)

    @property
    def usage(self) -> float | None:
        """The largest bound's part of the length: achieved over attainable; None without one."""
        length = number(self.length)
        return self.highest.bound / length if length else None


def roofline_of(kernel: OpProfile, chip: Chip) -> Roofline | None:
    """Where a launch is under the roofline of `chip`.

    None when no file has its bytes, or the chip has no known memory bandwidth or clock.
    """
    traffic = traffic_of(kernel)
    if traffic is None or not traffic.total or chip.memory_bandwidth is None:
        return None
    in_cycles = traffic.whole.evidence is Evidence.SIMULATED
    length = kernel.info_figure("task_cycles" if in_cycles else "task_duration_us")
    if in_cycles and chip.cube_mhz is None:
        return None
    per = 1 / (chip.cube_mhz * 1e6) if in_cycles and chip.cube_mhz else _PER_US
    counted = dict(_operations(kernel))
    ceilings = [
        Ceiling(
            unit="memory",
            work=traffic.total,
            rate=chip.memory_bandwidth.value * per,
            of=chip.memory_bandwidth,
        )
    ]
    for unit, (count, _) in counted.items():
        dtype, peak = _peak(kernel, chip, unit)
        if peak is not None and count:
            ceilings.append(
                Ceiling(unit=unit, work=count, rate=peak.value * per, of=peak, dtype=dtype)
            )
    return Roofline(
        chip=chip,
        traffic=traffic,
        operations={unit: count for unit, (count, _) in counted.items()},
        ceilings=tuple(ceilings),
        length=length,
        unit="cycles" if in_cycles else "us",
        refs=tuple(figure for _, figure in counted.values()),
    )


def _operations(kernel: OpProfile) -> Iterator[tuple[str, tuple[float, Figure]]]:
    """Per unit: its operations, and the figure of the core with the most."""
    for unit, keys in _OPERATIONS:
        figures = [f for key in keys for _, f in kernel.figures(FileKind.ARITHMETIC, key)]
        if figures:
            yield unit, (sum(map(number, figures)), max(figures, key=number))


def _peak(kernel: OpProfile, chip: Chip, unit: str) -> tuple[str, ChipFigure | None]:
    """The fastest rate among the dtypes that the unit worked in, so that the bound is one."""
    peaks = chip.peaks if unit == "cube" else chip.vector_peaks
    used = [
        (dtype, peaks[dtype])
        for dtype, key in _SHARES[unit]
        if dtype in peaks and any(number(f) for _, f in kernel.figures(FileKind.ARITHMETIC, key))
    ]
    known = used or [(dtype, peaks[dtype]) for dtype, _ in _SHARES[unit] if dtype in peaks]
    return max(known, key=lambda pair: pair[1].value, default=("", None))

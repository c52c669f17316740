"""One chip, and one figure of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels_npu.errors import UnsupportedError
from kernels_npu.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class ChipFigure:
    """A figure of a chip: what it is, how it is known, and where it stands or how it is computed.

    unit: `FLOP/s` (integer operations count as well) or `B/s`, powers of ten.
    source: a document, or the formula with its numbers where `evidence` is `modelled`.
    """

    value: float
    unit: str
    evidence: Evidence
    source: str

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return vars(self) | {"evidence": str(self.evidence)}


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One device as software sees it: of a package with two dies, one die.

    Attributes:
        name: the SoC version, as `torch.npu.get_device_name()` prints it, or a product's name.
        vendor, family: such as `Huawei`, `Atlas A2`.
        arch: NPU architecture number of the platform file, such as `2201`, or `sm_90`.
        cores: AI cores, or streaming multiprocessors.
        cube_cores, vector_cores: AICs and AIVs; equal to `cores` where one core does both.
        cube_mhz, vector_mhz: rated clocks; None where the platform file gives none.
        memory_bytes: device memory; None where unknown, as all that follows.
        l2_bytes: last-level cache of the device.
        on_chip: memory -> bytes per core, as the platform file gives them. A compiler may use
            less; `kernels_npu.sim.soc` has what the adapter's uses.
        vector_bytes: bytes that a vector unit computes with per cycle.
        peaks: dtype -> rate of matrix products. vector_peaks: of elementwise arithmetic.
        memory_bandwidth, l2_bandwidth: of the whole device.
        other_bandwidths: what further sources say of the device memory, which differ.
        source: where cores, clocks and sizes come from.
        notes: what is easily mistaken.
    """

    name: str
    vendor: str
    family: str
    arch: str
    cores: int
    cube_cores: int
    vector_cores: int
    cube_mhz: int | None
    vector_mhz: int | None
    memory_bytes: int | None
    l2_bytes: int | None
    on_chip: Mapping[str, int]
    vector_bytes: int | None
    peaks: Mapping[str, ChipFigure]
    vector_peaks: Mapping[str, ChipFigure]
    memory_bandwidth: ChipFigure | None
    l2_bandwidth: ChipFigure | None = None
    other_bandwidths: tuple[ChipFigure, ...] = ()
    source: str
    notes: tuple[str, ...] = ()

    def peak(self, dtype: str = "float16") -> ChipFigure:
        """The rate of matrix products with operands of `dtype`, in FLOP/s.

        Raises:
            UnsupportedError: AI-DEV-014 when no rate is known.
        """
        figure = self.peaks.get(dtype)
        if figure is None:
            raise UnsupportedError(
                "AI-DEV-014",
                f"no peak of {self.name} for {dtype} is known",
                rule=f"peaks of {self.name} are known for: {', '.join(self.peaks) or 'no dtype'}",
                fix="choose one of these dtypes or another chip, or state the peak yourself",
            )
        return figure

    def bandwidth(self) -> ChipFigure:
        """Bytes per second between device memory and cores.

        Raises:
            UnsupportedError: AI-DEV-014 when none is known.
        """
        if self.memory_bandwidth is None:
            raise UnsupportedError(
                "AI-DEV-014",
                f"no memory bandwidth of {self.name} is known",
                rule="a bound by memory traffic needs the bandwidth of the device memory",
                fix="choose another chip, or state the bandwidth yourself",
            )
        return self.memory_bandwidth

    def balance(self, dtype: str = "float16") -> float:
        """FLOP per byte at which products of `dtype` and memory traffic take equally long."""
        return self.peak(dtype).value / self.bandwidth().value

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields."""

        def plain(value: object) -> object:
            if isinstance(value, ChipFigure):
                return value.to_dict()
            if isinstance(value, Mapping):
                return {key: plain(item) for key, item in value.items()}
            if isinstance(value, tuple):
                return [plain(item) for item in value]
            return value

        return {key: plain(value) for key, value in vars(self).items()}

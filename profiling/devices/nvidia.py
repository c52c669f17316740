"""GPUs that estimates are compared with, from NVIDIA's public data sheets.

Matrix peaks are dense: half of the sheets' figures, which assume structured sparsity. `80 GB` and
`141 GB` are GiB in fact, as `nvidia-smi` shows, of which the driver keeps a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernels_npu.evidence import Evidence
from profiling.devices.chip import Chip, ChipFigure

_GIB = 1 << 30
#: Dense rates of the tensor cores of Hopper relative to float16.
_RELATIVE = {"float16": 1.0, "bfloat16": 1.0, "tfloat32": 0.5, "int8": 2.0, "float8": 2.0}


@dataclass(frozen=True, kw_only=True)
class HopperRow:
    """A product. float16: dense TFLOP/s of tensor cores. memory: TB/s, 10^12."""

    name: str
    multiprocessors: int
    boost_mhz: int | None
    memory_gib: int
    float16: float
    float32: float
    memory: float
    source: str
    notes: tuple[str, ...] = ()


_SHEET = "NVIDIA {} data sheet"
ROWS = (
    HopperRow(
        name="H100",
        multiprocessors=132,
        boost_mhz=1830,
        memory_gib=80,
        float16=989.4,
        float32=66.9,
        memory=3.35,
        source=_SHEET.format("H100, SXM5"),
        notes=("the announcement's rounder figures are those of H100-announced",),
    ),
    HopperRow(
        name="H100-announced",
        multiprocessors=132,
        boost_mhz=None,
        memory_gib=80,
        float16=1000,
        float32=60,
        memory=3.0,
        source="NVIDIA's Hopper announcement of March 2022, preliminary figures of SXM5",
    ),
    HopperRow(
        name="H100-PCIe",
        multiprocessors=114,
        boost_mhz=None,
        memory_gib=80,
        float16=756,
        float32=51,
        memory=2.0,
        source=_SHEET.format("H100, PCIe"),
    ),
    HopperRow(
        name="H100-NVL",
        multiprocessors=132,
        boost_mhz=None,
        memory_gib=94,
        float16=835.5,
        float32=60,
        memory=3.9,
        source=_SHEET.format("H100 NVL"),
    ),
    HopperRow(
        name="H200",
        multiprocessors=132,
        boost_mhz=1830,
        memory_gib=141,
        float16=989.4,
        float32=66.9,
        memory=4.8,
        source=_SHEET.format("H200, SXM"),
    ),
    HopperRow(
        name="H200-NVL",
        multiprocessors=132,
        boost_mhz=None,
        memory_gib=141,
        float16=835.5,
        float32=60,
        memory=4.8,
        source=_SHEET.format("H200 NVL"),
    ),
)


def chips() -> Iterator[Chip]:
    """Every product of the table."""
    for row in ROWS:
        yield _chip(row)


def _chip(row: HopperRow) -> Chip:
    def reported(value: float, unit: str) -> ChipFigure:
        return ChipFigure(
            value=value, unit=unit, evidence=Evidence.VENDOR_REPORTED, source=row.source
        )

    peaks: Mapping[str, ChipFigure] = {
        dtype: reported(row.float16 * relative * 1e12, "FLOP/s")
        for dtype, relative in _RELATIVE.items()
    }
    return Chip(
        name=row.name,
        vendor="NVIDIA",
        family="Hopper",
        arch="sm_90",
        cores=row.multiprocessors,
        cube_cores=row.multiprocessors,
        vector_cores=row.multiprocessors,
        cube_mhz=row.boost_mhz,
        vector_mhz=row.boost_mhz,
        memory_bytes=row.memory_gib * _GIB,
        l2_bytes=50 << 20,
        on_chip=MappingProxyType({"shared memory": 228 << 10, "registers": 256 << 10}),
        vector_bytes=None,
        peaks=MappingProxyType(peaks),
        vector_peaks=MappingProxyType({"float32": reported(row.float32 * 1e12, "FLOP/s")}),
        memory_bandwidth=reported(row.memory * 1e12, "B/s"),
        source=row.source,
        notes=row.notes,
    )

"""Ascend chips, from the vendor's platform files (`platform_config/<SoC>.ini` of the CANN runtime).

How figures come about:
  matrix peak         cube cores x 2 x m x n x k of the cube x clock, times what a dtype does more
                      per cycle (`_RATES`)
  vector peak         vector units x lanes x clock
  memory bandwidth    msopprof's roofline table where it has the chip, else `ddr_rate` of the
                      platform file x cores x clock. The file gives no unit; bytes per cycle and
                      core is inferred from the magnitudes
  L2 bandwidth        the same two sources
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernels_npu.evidence import Evidence
from profiling.devices.ascend_rows import FAMILIES, AscendFamily, AscendRow
from profiling.devices.chip import Chip, ChipFigure

#: Dtype -> bytes of an element in a vector unit.
_VECTOR_DTYPES = {"float16": 2, "float32": 4}


@dataclass(frozen=True, kw_only=True)
class CubeRates:
    """What the cubes of one architecture multiply per cycle, relative to float16; and whence."""

    relative: Mapping[str, float]
    source: str


_COUNTERS = "rates per cycle as in msopprof's counters"
_PRODUCTS = "float16 from the cube's shape, int8 at twice the rate as in product data sheets"
_WITHOUT_BF16 = CubeRates(relative={"float16": 1, "int8": 2}, source=_PRODUCTS)
_RATES: dict[str, CubeRates] = {
    "1001": _WITHOUT_BF16,
    "2002": _WITHOUT_BF16,
    "3002": _WITHOUT_BF16,
    "3004": CubeRates(relative={"float16": 1}, source="from the cube's shape"),
    "2201": CubeRates(relative={"float16": 1, "bfloat16": 1, "int8": 2}, source=_COUNTERS),
    "3510": CubeRates(
        relative={"float16": 1, "bfloat16": 1, "float32": 1 / 2, "int8": 2, "float8": 2}
        | {"float4": 4},
        source=_COUNTERS,
    ),
}


@dataclass(frozen=True, kw_only=True)
class RooflineRow:
    """Bandwidths of msopprof's roofline table in TB/s; it has two makers of device memory."""

    memory: float
    other_memory: float
    l2: float

    @staticmethod
    def figure(terabytes: float, which: str = "") -> ChipFigure:
        """One of them, taking a terabyte as 10^12 bytes."""
        return ChipFigure(
            value=terabytes * 1e12,
            unit="B/s",
            evidence=Evidence.VENDOR_REPORTED,
            source=f"msopprof, roofline table{which}",
        )


_ROOFLINE = {
    "Ascend910B1": RooflineRow(memory=1.8, other_memory=1.34, l2=8.0),
    "Ascend910B2": RooflineRow(memory=1.75, other_memory=1.3, l2=7.78),
    "Ascend910B3": RooflineRow(memory=1.75, other_memory=1.3, l2=7.78),
    "Ascend910B4": RooflineRow(memory=0.8, other_memory=1.25, l2=4.0),
    "Ascend910B4-1": RooflineRow(memory=0.8, other_memory=1.25, l2=4.0),
}

_PRESS_910C = ChipFigure(
    value=1.6e12,
    unit="B/s",
    evidence=Evidence.VENDOR_REPORTED,
    source="press on the 910C: half of 3.2 TB/s per package of two dies",
)
_OTHER_CLOCK = "msopprof assumes 1650 MHz, the platform file says 1500"
_NOTES = {
    "Ascend910B.ini": "the platform file of that name; what people call 910B is Ascend910B1 .. B4",
    "Ascend910B4": _OTHER_CLOCK,
    "Ascend910B4-1": _OTHER_CLOCK,
    "Ascend950DT_9573": "the file's memory size is 100,000 bytes above 126 GiB",
}


def chips() -> Iterator[Chip]:
    """Every chip of the platform files."""
    for family in FAMILIES:
        for row in family.rows:
            yield _chip(family, row)


def _chip(family: AscendFamily, row: AscendRow) -> Chip:
    core, table = family.core, _ROOFLINE.get(row.name)
    by_file = _rate(row, row.memory_rate or core.memory_rate, "ddr_rate")
    l2_by_file = _rate(row, core.l2_rate, "l2_rate")
    others = []
    if table is not None:
        others += [by_file, table.figure(table.other_memory, ", the other maker's memory")]
    if family.name == "Atlas A3":
        others.append(_PRESS_910C)
    return Chip(
        name=row.name,
        vendor="Huawei",
        family=family.name,
        arch=core.arch,
        cores=row.cores,
        cube_cores=row.cores,
        vector_cores=row.vector_units,
        cube_mhz=row.cube_mhz,
        vector_mhz=row.vector_mhz or row.cube_mhz,
        memory_bytes=row.memory_bytes,
        l2_bytes=row.l2_bytes,
        on_chip=MappingProxyType(core.on_chip),
        vector_bytes=2 * core.vector_lanes,
        peaks=MappingProxyType(dict(_peaks(family, row))),
        vector_peaks=MappingProxyType(dict(_vector_peaks(family, row))),
        memory_bandwidth=by_file if table is None else table.figure(table.memory),
        l2_bandwidth=l2_by_file if table is None else table.figure(table.l2),
        other_bandwidths=tuple(figure for figure in others if figure is not None),
        source=f"CANN platform_config/{row.name.removesuffix('.ini')}.ini",
        notes=(_NOTES[row.name],) if row.name in _NOTES else (),
    )


def _rate(row: AscendRow, rate: int | None, key: str) -> ChipFigure | None:
    if rate is None or row.cube_mhz is None:
        return None
    return ChipFigure(
        value=rate * row.cores * row.cube_mhz * 1e6,
        unit="B/s",
        evidence=Evidence.MODELLED,
        source=f"{key} {rate} B per cycle and core x {row.cores} cores x {row.cube_mhz} MHz",
    )


def _peaks(family: AscendFamily, row: AscendRow) -> Iterator[tuple[str, ChipFigure]]:
    rates = _RATES.get(family.core.arch)
    if rates is None or row.cube_mhz is None:
        return
    m, n, k = family.core.cube_shape
    for dtype, relative in rates.relative.items():
        per_cycle = 2 * m * n * k * relative
        figure = ChipFigure(
            value=row.cores * per_cycle * row.cube_mhz * 1e6,
            unit="FLOP/s",
            evidence=Evidence.MODELLED,
            source=f"{row.cores} cubes x {per_cycle:g} FLOP per cycle x {row.cube_mhz} MHz; "
            f"{rates.source}",
        )
        yield dtype, figure


def _vector_peaks(family: AscendFamily, row: AscendRow) -> Iterator[tuple[str, ChipFigure]]:
    clock = row.vector_mhz or row.cube_mhz
    if clock is None:
        return
    for dtype, size in _VECTOR_DTYPES.items():
        lanes = 2 * family.core.vector_lanes // size
        figure = ChipFigure(
            value=row.vector_units * lanes * clock * 1e6,
            unit="FLOP/s",
            evidence=Evidence.MODELLED,
            source=f"{row.vector_units} vector units x {lanes} lanes x {clock} MHz",
        )
        yield dtype, figure

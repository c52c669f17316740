"""The rows of the CANN platform files: what differs between chips, and what their cores share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True, kw_only=True)
class AscendCore:
    """A core of one architecture.

    cube_shape: m, n, k of one cycle's product. vector_lanes: 16-bit elements per cycle.
    on_chip: bytes per core. memory_rate, l2_rate: bytes per cycle and core; None where the file
    has none or, for memory, where each chip has its own.
    """

    arch: str
    cube_shape: tuple[int, int, int] = (16, 16, 16)
    vector_lanes: int = 128
    on_chip: dict[str, int]
    memory_rate: int | None = None
    l2_rate: int | None = None


class AscendRow(NamedTuple):
    """A chip; sizes in bytes, None where the file has no value.

    vector_units: vector cores; where a core does both, one per core and those beside them.
    vector_mhz: None for the cube's clock. memory_rate: None for the core's.
    """

    name: str
    cores: int
    vector_units: int
    cube_mhz: int | None
    vector_mhz: int | None
    memory_bytes: int | None
    l2_bytes: int | None
    memory_rate: int | None = None


@dataclass(frozen=True, kw_only=True)
class AscendFamily:
    """Chips with the same cores."""

    name: str
    core: AscendCore
    rows: tuple[AscendRow, ...]


def _kib(l0a: int, l0b: int, l0c: int, l1: int, ub: int) -> dict[str, int]:
    sizes = {"UB": ub, "L1": l1, "L0A": l0a, "L0B": l0b, "L0C": l0c}
    return {memory: kib * KIB for memory, kib in sizes.items()}


_C100 = AscendCore(arch="1001", on_chip=_kib(64, 64, 256, 1024, 256), memory_rate=32, l2_rate=110)
_C220 = AscendCore(arch="2201", on_chip=_kib(64, 64, 128, 512, 192), memory_rate=32, l2_rate=110)
_C310 = AscendCore(arch="3510", on_chip=_kib(64, 64, 256, 512, 248), l2_rate=100)
_M200 = AscendCore(arch="2002", on_chip=_kib(64, 64, 256, 1024, 256), memory_rate=17, l2_rate=114)
_M300 = AscendCore(arch="3002", on_chip=_kib(64, 64, 128, 1024, 248), memory_rate=17, l2_rate=256)
_T300 = AscendCore(
    arch="3004", vector_lanes=16, on_chip=_kib(8, 8, 16, 64, 30), memory_rate=17, l2_rate=256
)


def _split(name: str, cores: int, mhz: int, gib: int | None, l2_mib: int) -> AscendRow:
    """A chip of the A2 and A3 series: two vector cores per cube core, one clock."""
    memory = None if gib is None else gib * GIB
    return AscendRow(name, cores, 2 * cores, mhz, None, memory, l2_mib * MIB)


def _a5(suffix: str, cores: int, mhz: int, memory: int, l2_mib: int, rate: int) -> AscendRow:
    name = f"Ascend{suffix}"
    return AscendRow(name, cores, 2 * cores, mhz, mhz, memory, l2_mib * MIB, rate)


def _lone(
    family: str, row: AscendRow, arch: str, shape: tuple[int, int, int], lanes: int, **on_chip: int
) -> AscendFamily:
    """A chip whose core is like no other's."""
    core = AscendCore(arch=arch, cube_shape=shape, vector_lanes=lanes, on_chip=on_chip)
    return AscendFamily(name=family, core=core, rows=(row,))


FAMILIES: tuple[AscendFamily, ...] = (
    AscendFamily(
        name="Atlas A2",
        core=_C220,
        rows=(
            _split("Ascend910B1", 24, 1850, 64, 192),
            _split("Ascend910B2", 24, 1800, 64, 192),
            _split("Ascend910B2C", 24, 1800, None, 192),
            _split("Ascend910B3", 20, 1800, 64, 192),
            _split("Ascend910B4", 20, 1500, 32, 96),
            _split("Ascend910B4-1", 20, 1500, 32, 168),
        ),
    ),
    AscendFamily(
        name="Atlas A3",
        core=_C220,
        rows=(
            _split("Ascend910_9391", 24, 1850, 64, 192),
            _split("Ascend910_9392", 24, 1850, 64, 192),
            _split("Ascend910_9381", 24, 1800, 64, 192),
            _split("Ascend910_9382", 24, 1800, 64, 192),
            _split("Ascend910_9372", 20, 1800, 64, 192),
            _split("Ascend910_9362", 20, 1500, 64, 168),
            _split("Ascend910_9363", 20, 1500, 32, 168),
        ),
    ),
    AscendFamily(
        name="Ascend 950PR",
        core=_C310,
        rows=(
            _a5("950PR_9599", 36, 1800, 128 * GIB, 128, 31),
            _a5("950PR_9589", 32, 1650, 128 * GIB, 128, 31),
            _a5("950PR_958b", 32, 1650, 112 * GIB, 112, 27),
            _a5("950PR_9579", 28, 1650, 128 * GIB, 128, 31),
            _a5("950PR_957b", 28, 1650, 112 * GIB, 112, 27),
            _a5("950PR_957bx", 28, 1650, 112 * GIB, 112, 27),
            _a5("950PR_957c", 28, 1650, 84 * GIB, 112, 27),
            _a5("950PR_957d", 28, 1650, 96 * GIB, 96, 23),
            _a5("950PR_950z", 4, 1650, 24 * GIB, 16, 4),
        ),
    ),
    AscendFamily(
        name="Ascend 950DT",
        core=_C310,
        rows=(
            _a5("950DT_95A1", 36, 1800, 144 * GIB, 128, 80),
            _a5("950DT_95A2", 36, 1800, 96 * GIB, 128, 80),
            _a5("950DT_9591", 36, 1800, 144 * GIB, 128, 80),
            _a5("950DT_9592", 36, 1800, 96 * GIB, 128, 80),
            _a5("950DT_9595", 36, 1800, 96 * GIB, 128, 61),
            _a5("950DT_9596", 36, 1800, 64 * GIB, 128, 61),
            _a5("950DT_9581", 32, 1650, 144 * GIB, 128, 80),
            _a5("950DT_9581x", 32, 1650, 144 * GIB, 128, 80),
            _a5("950DT_9582", 32, 1650, 96 * GIB, 128, 80),
            _a5("950DT_9582x", 32, 1650, 96 * GIB, 128, 80),
            _a5("950DT_9583", 32, 1650, 126 * GIB, 112, 70),
            _a5("950DT_9584", 32, 1650, 84 * GIB, 112, 70),
            _a5("950DT_9585", 32, 1650, 96 * GIB, 128, 61),
            _a5("950DT_9586", 32, 1650, 64 * GIB, 128, 61),
            _a5("950DT_9587", 32, 1650, 84 * GIB, 112, 54),
            _a5("950DT_9588", 32, 1650, 56 * GIB, 112, 54),
            _a5("950DT_9571", 28, 1650, 144 * GIB, 128, 80),
            _a5("950DT_9572", 28, 1650, 96 * GIB, 128, 80),
            _a5("950DT_9573", 28, 1650, 126 * GIB + 100_000, 112, 70),
            _a5("950DT_9574", 28, 1650, 84 * GIB, 112, 70),
            _a5("950DT_9575", 28, 1650, 96 * GIB, 128, 61),
            _a5("950DT_9576", 28, 1650, 64 * GIB, 128, 61),
            _a5("950DT_9577", 28, 1650, 84 * GIB, 112, 54),
            _a5("950DT_9578", 28, 1650, 56 * GIB, 112, 54),
            _a5("950DT_950x", 8, 1650, 24 * GIB, 32, 19),
            _a5("950DT_950y", 8, 1650, 16 * GIB, 32, 14),
        ),
    ),
    AscendFamily(
        name="Ascend 350",
        core=_C310,
        rows=(
            _a5("350_354f", 14, 1650, 56 * GIB, 56, 27),
            _a5("350_355e", 16, 1650, 64 * GIB, 64, 31),
        ),
    ),
    AscendFamily(
        name="Ascend 910",
        core=_C100,
        rows=(
            AscendRow("Ascend910A", 32, 32, 1000, None, None, 32 * MIB),
            AscendRow("Ascend910B.ini", 30, 30, 900, None, None, 32 * MIB),
            AscendRow("Ascend910ProA", 32, 32, 1100, None, None, 32 * MIB),
            AscendRow("Ascend910ProB", 30, 30, 1150, None, None, 32 * MIB),
            AscendRow("Ascend910PremiumA", 32, 32, 1220, None, None, 32 * MIB),
        ),
    ),
    AscendFamily(
        name="Ascend 310P",
        core=_M200,
        rows=(
            AscendRow("Ascend310P1", 10, 10 + 8, 1060, 1000, 24_000_000_000, 16 * MIB),
            AscendRow("Ascend310P3", 8, 8 + 7, 1060, 1000, 24_000_000_000, 16 * MIB),
            AscendRow("Ascend310P5", 8, 8 + 7, 800, 1000, 24_000_000_000, 16 * MIB),
            AscendRow("Ascend310P7", 8, 8 + 7, 550, 1000, 24_000_000_000, 16 * MIB),
        ),
    ),
    AscendFamily(
        name="Ascend 310B",
        core=_M300,
        rows=(
            AscendRow("Ascend310B1", 1, 1, 1224, 1224, 32 * GIB, 4 * MIB),
            AscendRow("Ascend310B2", 1, 1, 1224, 1224, None, 4 * MIB),
            AscendRow("Ascend310B3", 1, 1, 1224, 1224, None, 4 * MIB),
            AscendRow("Ascend310B4", 1, 1, 500, 500, None, 4 * MIB, 8),
        ),
    ),
    AscendFamily(
        name="Ascend 031",
        core=_T300,
        rows=(AscendRow("Ascend031", 1, 1, 330, 1024, None, 4 * MIB),),
    ),
    *(
        _lone(
            "Ascend 035",
            AscendRow(name, 1, 1, mhz, None, None, None),
            arch="3505",
            shape=(1, 16, 16),
            lanes=4,
            UB=ub * KIB,
        )
        for name, mhz, ub in (
            ("Ascend035", 150, 32),
            ("Ascend035A", 200, 128),
            ("Ascend035B", 200, 256),
        )
    ),
    *(
        _lone(
            "Kirin",
            AscendRow(name, cores, cores, None, None, None, None),
            arch=arch,
            shape=shape,
            lanes=lanes,
            **{m: kib * KIB for m, kib in zip(("UB", "L1", "L0A", "L0B", "L0C"), sizes) if kib},
        )
        for name, arch, cores, shape, lanes, sizes in (
            ("KirinDev0000", "5101", 4, (16, 16, 8), 32, (128, 1536, 0, 128, 0)),
            ("KirinDev0001", "5161", 5, (16, 16, 8), 32, (128, 1280, 0, 64, 0)),
            ("KirinDev0002", "5165", 1, (16, 16, 8), 16, (128, 384, 0, 16, 0)),
            ("KirinDev0003", "5163", 5, (16, 16, 8), 32, (128, 1024, 0, 64, 0)),
            ("Kirin9030", "3113", 1, (16, 8, 16), 128, (128, 512, 32, 32, 64)),
            ("KirinX90", "3003", 1, (16, 8, 16), 128, (128, 1024, 64, 64, 128)),
        )
    ),
)

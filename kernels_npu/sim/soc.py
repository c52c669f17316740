"""The chips that can be simulated: core counts, on-chip memories, missing vector arithmetic.

Sources, by field:
  cores, clock, L2 and device memory   the vendor's platform files
                                       (`platform_config/<SoC>.ini` of CANN)
  ub_bytes, l1_bytes, l0c_bytes        what the adapter compiler's planner and generated code may
                                       use: 192 KiB and 512 KiB less 256 bytes each on A2/A3; on A5
                                       the smaller of the compiler's constant and the platform file
  alignment                            upstream's programming guide (UB/L1 32, L0A/L0B 512, L0C 64)
  no_vector_arithmetic                 AscendC API reference: vector add/mul/exp ... per chip
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kernels_npu.errors import UsageError

#: Memories a kernel can allocate in, by the names that reports use.
MEMORIES = ("UB", "L1", "L0A", "L0B", "L0C")

#: Scope of a buffer after scope inference -> memory.
MEMORY_OF_SCOPE = {"ub": "UB", "l1": "L1", "l0a": "L0A", "l0b": "L0B", "l0c": "L0C"}


@dataclass(frozen=True, kw_only=True)
class Soc:
    """One chip.

    Attributes:
        name: the SoC version, as `torch.npu.get_device_name()` prints it.
        platform: the compiler's platform, `A2`, `A3` or `A5`.
        arch: NPU architecture number of the platform file, such as `2201`.
        cube_cores, vector_cores: AICs and AIVs of one device.
        clock_mhz: rated clock of the cores.
        ub_bytes, l1_bytes, l0a_bytes, l0b_bytes, l0c_bytes: usable bytes per core.
        l2_bytes: last-level cache of the device.
        memory_bytes: device memory, 0 where the platform file gives none.
        no_vector_arithmetic: dtypes that move and convert but have no vector arithmetic.
        no_cube_products: dtypes that the cube cannot multiply.
        source: the file that the counts come from.
    """

    name: str
    platform: str
    arch: str
    cube_cores: int
    vector_cores: int
    clock_mhz: int
    ub_bytes: int
    l1_bytes: int
    l0a_bytes: int = 65536
    l0b_bytes: int = 65536
    l0c_bytes: int
    l2_bytes: int
    memory_bytes: int
    alignment: dict[str, int] = field(
        default_factory=lambda: {"UB": 32, "L1": 32, "L0A": 512, "L0B": 512, "L0C": 64},
        hash=False,
    )
    no_vector_arithmetic: frozenset[str]
    no_cube_products: frozenset[str]
    source: str

    def __post_init__(self) -> None:
        if self.platform not in ("A2", "A3", "A5"):
            raise ValueError(f"platform must be A2, A3 or A5, not {self.platform!r}")
        if self.vector_cores != 2 * self.cube_cores:
            raise ValueError(f"{self.name}: a block pairs one AIC with two AIVs")

    def capacity(self, memory: str) -> int:
        """Usable bytes of `memory` (`UB`, `L1`, `L0A`, `L0B` or `L0C`) per core."""
        return {
            "UB": self.ub_bytes,
            "L1": self.l1_bytes,
            "L0A": self.l0a_bytes,
            "L0B": self.l0b_bytes,
            "L0C": self.l0c_bytes,
        }[memory]


_FP8 = frozenset({"float8_e4m3", "float8_e5m2"})
_NARROW_INTS = frozenset({"int4", "int8", "uint8", "bool"})
_NO_ARITHMETIC_220 = _NARROW_INTS | _FP8 | {"bfloat16", "int64", "uint64", "float64"}
_NO_ARITHMETIC_310 = _NARROW_INTS | _FP8 | {"float64"}


def _a2a3(name: str, platform: str, cores: int, mhz: int, l2_mib: int, hbm_gib: int) -> Soc:
    return Soc(
        name=name,
        platform=platform,
        arch="2201",
        cube_cores=cores,
        vector_cores=2 * cores,
        clock_mhz=mhz,
        ub_bytes=196608 - 256,
        l1_bytes=524288 - 256,
        l0c_bytes=131072,
        l2_bytes=l2_mib << 20,
        memory_bytes=hbm_gib << 30,
        no_vector_arithmetic=_NO_ARITHMETIC_220,
        no_cube_products=_FP8,
        source=f"CANN platform_config/{name}.ini",
    )


def _a5(name: str, cores: int, mhz: int, l2_mib: int, memory_bytes: int) -> Soc:
    return Soc(
        name=name,
        platform="A5",
        arch="3510",
        cube_cores=cores,
        vector_cores=2 * cores,
        clock_mhz=mhz,
        ub_bytes=253952,
        l1_bytes=524288 - 256,
        l0c_bytes=262144,
        l2_bytes=l2_mib << 20,
        memory_bytes=memory_bytes,
        no_vector_arithmetic=_NO_ARITHMETIC_310,
        no_cube_products=frozenset(),
        source=f"CANN platform_config/{name}.ini",
    )


SOCS: dict[str, Soc] = {
    soc.name: soc
    for soc in (
        _a2a3("Ascend910B1", "A2", 24, 1850, 192, 64),
        _a2a3("Ascend910B2", "A2", 24, 1800, 192, 64),
        _a2a3("Ascend910B2C", "A2", 24, 1800, 192, 0),
        _a2a3("Ascend910B3", "A2", 20, 1800, 192, 64),
        _a2a3("Ascend910B4", "A2", 20, 1500, 96, 32),
        _a2a3("Ascend910B4-1", "A2", 20, 1500, 168, 32),
        _a2a3("Ascend910_9391", "A3", 24, 1850, 192, 64),
        _a2a3("Ascend910_9392", "A3", 24, 1850, 192, 64),
        _a2a3("Ascend910_9381", "A3", 24, 1800, 192, 64),
        _a2a3("Ascend910_9382", "A3", 24, 1800, 192, 64),
        _a2a3("Ascend910_9372", "A3", 20, 1800, 192, 64),
        _a2a3("Ascend910_9362", "A3", 20, 1500, 168, 64),
        _a5("Ascend950PR_9599", 36, 1800, 128, 137438953472),
        _a5("Ascend950PR_9589", 32, 1650, 128, 137438953472),
        _a5("Ascend950PR_9579", 28, 1650, 128, 137438953472),
        _a5("Ascend950DT_9591", 36, 1800, 128, 154618822656),
        _a5("Ascend950DT_95A1", 36, 1800, 128, 154618822656),
    )
}

#: Marketing and family names; the first product of the family stands for it.
_ALIASES = {
    "ascend910b": "Ascend910B1",
    "ascend910c": "Ascend910_9391",
    "ascend91093": "Ascend910_9391",
    "ascend950": "Ascend950PR_9599",
    "ascend950pr": "Ascend950PR_9599",
    "ascend950dt": "Ascend950DT_9591",
    "a2": "Ascend910B1",
    "a3": "Ascend910_9391",
    "a5": "Ascend950PR_9599",
}

DEFAULT_SOC = "Ascend910B1"


def _key(name: str) -> str:
    text = re.sub(r"[^a-z0-9]", "", name.lower())
    return text if text.startswith("ascend") or text in _ALIASES else f"ascend{text}"


_BY_KEY = {_key(name): soc for name, soc in SOCS.items()} | {
    alias: SOCS[name] for alias, name in _ALIASES.items()
}


def get_soc(name: str = DEFAULT_SOC) -> Soc:
    """The chip called `name`: a SoC version, `910B3`, a family (`Ascend910C`) or a platform (`A2`).

    Case, `-` and `_` do not matter.

    Raises:
        UsageError: AI-DEV-010 for a name that no table row answers to.
    """
    soc = _BY_KEY.get(_key(name))
    if soc is None:
        raise UsageError(
            "AI-DEV-010",
            f"unknown SoC {name!r}",
            rule="known SoCs are " + ", ".join(SOCS),
            fix=f"choose one of them; the default is {DEFAULT_SOC}",
        )
    return soc

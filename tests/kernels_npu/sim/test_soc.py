"""The chip table against the figures of the platform files."""

from __future__ import annotations

import pytest

from kernels_npu.errors import UsageError
from kernels_npu.sim.soc import DEFAULT_SOC, MEMORIES, SOCS, Soc, get_soc


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Ascend910B1", "Ascend910B1"),
        ("910b3", "Ascend910B3"),
        ("ASCEND910B4-1", "Ascend910B4-1"),
        ("Ascend910C", "Ascend910_9391"),
        ("910_93", "Ascend910_9391"),
        ("A2", "Ascend910B1"),
        ("a3", "Ascend910_9391"),
        ("950", "Ascend950PR_9599"),
    ],
)
def test_lookup_accepts_versions_families_and_platforms(spelling: str, name: str) -> None:
    assert get_soc(spelling).name == name


def test_unknown_name_is_a_coded_error_that_lists_the_choices() -> None:
    with pytest.raises(UsageError) as caught:
        get_soc("Ascend910X")
    assert caught.value.code == "AI-DEV-010"
    assert "Ascend910B4" in str(caught.value)


def test_a2_figures() -> None:
    soc = get_soc()
    assert soc.name == DEFAULT_SOC
    capacity = {memory: soc.capacity(memory) for memory in MEMORIES}
    assert capacity == {"UB": 196352, "L1": 524032, "L0A": 65536, "L0B": 65536, "L0C": 131072}
    assert (soc.cube_cores, soc.vector_cores) == (24, 48)
    assert get_soc("910B3").cube_cores == 20


def test_bf16_arithmetic_exists_from_a5_on() -> None:
    assert "bfloat16" in get_soc("A2").no_vector_arithmetic
    assert "bfloat16" in get_soc("A3").no_vector_arithmetic
    assert "bfloat16" not in get_soc("A5").no_vector_arithmetic
    assert get_soc("A5").l0c_bytes == 2 * get_soc("A3").l0c_bytes


def test_rows_are_hashable_and_validated() -> None:
    assert len({hash(soc) for soc in SOCS.values()}) > 1
    row = SOCS[DEFAULT_SOC]
    fields = {name: getattr(row, name) for name in Soc.__dataclass_fields__}
    with pytest.raises(ValueError, match="platform"):
        Soc(**{**fields, "platform": "A4"})
    with pytest.raises(ValueError, match="two AIVs"):
        Soc(**{**fields, "vector_cores": 24})

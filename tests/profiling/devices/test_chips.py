"""The table of devices: names, figures with their origin, agreement with the simulator's table."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.evidence import Evidence
from kernels_npu.sim.soc import SOCS, Soc, get_soc
from profiling.devices import CHIPS, Chip, ChipFigure, get_chip


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Ascend910B2", "Ascend910B2"),
        ("910b3", "Ascend910B3"),
        ("Ascend 910B4-1", "Ascend910B4-1"),
        ("910B2C", "Ascend910B2C"),
        ("Huawei Ascend910B1", "Ascend910B1"),
        ("Ascend910B", "Ascend910B1"),
        ("A2", "Ascend910B1"),
        ("a3", "Ascend910_9391"),
        ("910_93", "Ascend910_9391"),
        ("910C", "Ascend910_9391"),
        ("ascend910_9362", "Ascend910_9362"),
        ("950", "Ascend950PR_9599"),
        ("950DT", "Ascend950DT_9591"),
        ("950dt_95a2", "Ascend950DT_95A2"),
        ("310P", "Ascend310P3"),
        ("910A", "Ascend910A"),
        ("Ascend910B.ini", "Ascend910B.ini"),
        ("kirin9030", "Kirin9030"),
        ("H100", "H100"),
        ("nvidia h100 sxm5", "H100"),
        ("h100_pcie", "H100-PCIe"),
        ("H200", "H200"),
    ],
)
def test_names_that_people_use(spelling: str, name: str) -> None:
    assert get_chip(spelling).name == name


@pytest.mark.parametrize("name", CHIPS)
def test_every_chip_answers_to_its_own_name(name: str) -> None:
    assert get_chip(name) is get_chip(name.lower()) is CHIPS[name]


def test_an_unknown_name_offers_near_ones() -> None:
    with pytest.raises(UsageError) as caught:
        get_chip("Ascend910B5")
    assert caught.value.code == "AI-DEV-010"
    assert "Ascend910B4" in str(caught.value.fix)


@given(st.text(max_size=200))
def test_any_text_is_a_chip_or_a_coded_error(text: str) -> None:
    try:
        name = get_chip(text).name
    except UsageError as error:
        name = error.code
    assert name in CHIPS or name == "AI-DEV-010"


@pytest.mark.parametrize("soc", SOCS.values(), ids=SOCS)
def test_agrees_with_the_simulators_table(soc: Soc) -> None:
    chip = get_chip(soc.name)
    assert (chip.cube_cores, chip.vector_cores) == (soc.cube_cores, soc.vector_cores)
    assert (chip.cube_mhz, chip.arch) == (soc.clock_mhz, soc.arch)
    assert (chip.l2_bytes, chip.memory_bytes or 0) == (soc.l2_bytes, soc.memory_bytes)
    for memory in ("L0A", "L0B", "L0C"):
        assert chip.on_chip[memory] == soc.capacity(memory)
    for memory in ("UB", "L1"):  # of which the compiler's planner keeps 256 bytes
        assert chip.on_chip[memory] - soc.capacity(memory) in (0, 256)


@pytest.mark.parametrize("family", ["Ascend910B", "910C", "A2", "A3", "A5", "950", "950DT"])
def test_families_mean_the_same_chip_as_in_the_simulator(family: str) -> None:
    assert get_chip(family).name == get_soc(family).name


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("910B1", 364),
        ("910B2", 354),
        ("910B3", 295),
        ("910B4", 246),
        ("910_9391", 364),
        ("950PR_9599", 531),
        ("950DT_9581", 433),
        ("950DT_9571", 378),
        ("310P3", 69),
        ("310P1", 87),
        ("310B1", 10),
    ],
)
def test_float16_peaks_by_cores_cube_and_clock(name: str, tflops: int) -> None:
    peak = get_chip(name).peak("float16")
    assert peak.evidence is Evidence.MODELLED
    assert int(peak.value / 1e12) in (tflops, tflops - 1)


def test_vector_and_int8_peaks() -> None:
    chip = get_chip("910B1")
    assert chip.vector_peaks["float16"].value == 48 * 128 * 1.85e9
    assert chip.vector_peaks["float32"].value == 48 * 64 * 1.85e9
    assert chip.peak("int8").value == 2 * chip.peak("float16").value
    assert get_chip("950PR_9599").peak("float4").value == 36 * 32768 * 1.8e9


def test_bandwidth_is_the_vendors_where_there_is_one_and_the_formula_elsewhere() -> None:
    reported, computed = get_chip("910B1"), get_chip("910_9391")
    assert reported.bandwidth().evidence is Evidence.VENDOR_REPORTED
    assert reported.bandwidth().value == 1.8e12
    assert computed.bandwidth().evidence is Evidence.MODELLED
    assert computed.bandwidth().value == 32 * 24 * 1.85e9
    # The formula's figure is kept beside the vendor's.
    assert computed.bandwidth().value in {f.value for f in reported.other_bandwidths}
    assert get_chip("950DT_9581").bandwidth().value == pytest.approx(4.224e12)


def test_balance_of_the_announced_h100() -> None:
    assert get_chip("H100-announced").balance() == pytest.approx(1000 / 3)


def figures(chip: Chip) -> list[ChipFigure]:
    single = (chip.memory_bandwidth, chip.l2_bandwidth, *chip.other_bandwidths)
    many = (*chip.peaks.values(), *chip.vector_peaks.values())
    return [*(figure for figure in single if figure is not None), *many]


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_every_figure_has_unit_evidence_and_source(chip: Chip) -> None:
    for figure in figures(chip):
        assert figure.value > 0 and figure.source and figure.unit in ("FLOP/s", "B/s")
        assert figure.evidence in (Evidence.MODELLED, Evidence.VENDOR_REPORTED)
    assert chip.source and chip.on_chip and chip.cores > 0
    assert json.loads(json.dumps(chip.to_dict()))["name"] == chip.name


def test_what_is_not_known_is_a_coded_error() -> None:
    phone = get_chip("Kirin9030")
    with pytest.raises(UnsupportedError, match="no peak") as caught:
        phone.peak("float16")
    assert caught.value.code == "AI-DEV-014"
    with pytest.raises(UnsupportedError, match="no memory bandwidth"):
        phone.bandwidth()
    with pytest.raises(UnsupportedError) as caught:
        get_chip("910B1").peak("float8")
    assert "float16" in str(caught.value.rule)

"""Every seeded fault is found on the simulated NPU and on CUDA, under its code and by its cause."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphs.device_api import DeviceApi, device_api
from graphs.verification import verify
from tests.graphs.conftest import simulated_npu
from tests.graphs.harness import make_rig
from tests.graphs.verification.seeded import TWINS, Twin, two_runners

DEVICES = ["npu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> DeviceApi:
    if request.param == "npu":
        return simulated_npu()
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return device_api("cuda:0")


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_the_fault_is_found(device: DeviceApi, twin: Twin) -> None:
    found = twin.check(device)
    code, says = twin.code, [twin.says]
    if device.simulated:
        code = twin.npu_code or code
        says.append(twin.npu_says)
    named = [finding for finding in found if finding.code == code]
    assert named, [str(finding) for finding in found]
    assert all(text in named[0].message for text in says), named[0].message


def test_without_a_fault_nothing_is_found(device: DeviceApi) -> None:
    rig = make_rig(device)
    report = verify(rig.runner, rig.model.state, rounds=2, invariance=True, soak=400)
    report.raise_for_findings()
    assert report.soak is not None and report.soak.replays == 400 and not report.soak.drifted
    assert [bucket.bucket for bucket in report.invariance] == [1, 2, 4]
    assert not two_runners(ordered=True)(device)


def test_the_documented_table_is_the_one_in_code() -> None:
    page = Path(__file__).parents[3] / "docs" / "graph-verification.md"
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if "`AI-" in line]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    documented = {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}
    assert documented == {
        name: (twin.npu_code or twin.code, twin.code) for name, twin in TWINS.items()
    }

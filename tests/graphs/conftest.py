"""`api`: every device with graphs that this machine offers, and one made of plain CPU tensors."""

from __future__ import annotations

import pytest
import torch

from graphs.device_api import DeviceApi, device_api
from tests.graphs.recording_device import RecordingDeviceApi


def simulated_npu() -> DeviceApi:
    """The simulated NPU, enabled for this process."""
    device = pytest.importorskip("kernels_npu.sim.device")
    if not hasattr(device, "enable"):
        pytest.skip("the simulated device cannot be enabled")
    device.enable()
    return device_api("npu:0")


def cuda() -> DeviceApi:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return device_api("cuda:0")


DEVICES = {"recording": RecordingDeviceApi, "npu": simulated_npu, "cuda": cuda}


@pytest.fixture(params=["recording", "npu", pytest.param("cuda", marks=pytest.mark.gpu)])
def api(request: pytest.FixtureRequest) -> DeviceApi:
    """A device with graphs."""
    made: DeviceApi = DEVICES[request.param]()
    return made

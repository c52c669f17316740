"""What every test gets: one thread per process, its own seed, no network; and `schedule`."""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy or torch start their pools
os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
    TORCH_DEVICE_BACKEND_AUTOLOAD="0",  # the simulated device and torch_npu cannot share a process
)

import random
import sys
import zlib
from collections.abc import Iterator

import hypothesis
import numpy as np
import pytest

#: (schedule, seed) under which every kernel must give the same bits and no hazard.
SCHEDULES = [("eager", 0), ("late", 0), ("random", 0), ("random", 1), ("random", 2)]

# Reproducible from the source alone, and never judged by a clock: the machine may be busy.
hypothesis.settings.register_profile(
    "repository",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("repository")


@pytest.fixture(autouse=True)
def node_seed(request: pytest.FixtureRequest) -> int:
    """Seed the global generators from the test's id: the same data when it is run alone."""
    value = zlib.crc32(request.node.nodeid.encode())
    random.seed(value)
    np.random.seed(value)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(value)
    return value


@pytest.fixture
def rng(node_seed: int) -> np.random.Generator:
    """A NumPy generator seeded like everything else in this test."""
    return np.random.default_rng(node_seed)


@pytest.fixture(params=SCHEDULES, ids=lambda p: p[0] if p[0] != "random" else f"random{p[1]}")
def schedule(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """Run the test once per schedule of the simulated NPU, with that schedule in force."""
    from kernels_npu.sim.config import configure

    name, seed = request.param
    with configure(schedule=name, seed=seed):
        yield name, seed

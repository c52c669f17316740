"""What is kept of a launch's arguments, and what is put back."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kernels_npu.sim.machine import GmArg
from kernels_npu.sim.mutation.capture import Recorder, Snapshot, capture


def argument(memory: np.ndarray, name: str) -> GmArg:
    return GmArg(memory, (memory.size,), "uint8", name)


def data(snapshot: Snapshot, position: int) -> np.ndarray:
    arg = snapshot.arguments()[position]
    assert isinstance(arg, GmArg)
    return arg.data


def test_what_a_kernel_writes_is_put_back(rng: np.random.Generator) -> None:
    read, written = (rng.integers(0, 255, 37, dtype=np.uint8) for _ in range(2))
    snapshot = Snapshot([argument(read, "x"), argument(written, "y"), 3], frozenset({"y"}))
    assert snapshot.size == 74
    assert np.array_equal(data(snapshot, 0), read)
    before = snapshot.contents()
    data(snapshot, 1)[5] ^= 1
    assert not snapshot.holds(before)
    assert np.array_equal(data(snapshot, 1), written)
    assert snapshot.holds(before)


def test_a_tensor_that_shares_bytes_with_a_written_one_is_put_back_too(
    rng: np.random.Generator,
) -> None:
    memory = rng.integers(0, 255, 64, dtype=np.uint8)
    whole, part = argument(memory, "whole"), argument(memory[17:], "part")
    snapshot = Snapshot([whole, part], frozenset({"part"}))
    data(snapshot, 1)[0] ^= 1
    assert np.array_equal(data(snapshot, 0), memory)
    assert np.shares_memory(data(snapshot, 0), data(snapshot, 1))


def test_a_driver_takes_the_place_of_the_script_that_it_knows(tmp_path: Path) -> None:
    script = tmp_path / "kernels.py"
    script.write_text("raise SystemExit(3)\n")
    driven = []

    def driver(file: str) -> bool:
        driven.append(file)
        return len(driven) == 1

    assert capture(script, Recorder(), driver) == ""
    assert capture(script, Recorder(), driver) == "exit code 3"
    assert driven == [str(script)] * 2

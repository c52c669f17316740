"""The benchmark measures what it says; no figure is judged."""

from __future__ import annotations

import argparse

import pytest
import torch
from rich.console import Console

from benchmarks.graphs import replay
from graphs.toy_model import ToyDecoder


def arguments(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    replay.add_options(parser)
    return parser.parse_args(["--batch", "1", "3", "--layers", "2", "--repeats", "3", *options])


@pytest.mark.parametrize("device", ["host", "sim"])
def test_every_figure_is_there(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    figures = replay.run(arguments("--device", device), Console(width=100))
    assert figures["evidence"] == "cpu-verified" and "not the speed" in str(figures["meaning"])
    results = figures["results"]
    assert isinstance(results, list) and [r["batch"] for r in results] == [1, 3]
    for result in results:
        assert all(value > 0 for name, value in result.items() if name != "launches")
        assert (result["launches"] is None) == (device == "host")
    assert "not the speed of an NPU" in " ".join(capsys.readouterr().out.split())


def test_the_stack_is_several_models() -> None:
    stack, batch = replay.Stack(torch.device("cpu"), 3, 4), replay.batch_of(4)
    expected = torch.zeros(4, stack.vocab_size)
    for layer in range(3):
        model = ToyDecoder(
            "cpu", hidden=64, vocab_size=1000, num_blocks=33, block_size=16, seed=layer
        )
        expected += model.step(batch)
    torch.testing.assert_close(stack.step(batch), expected)

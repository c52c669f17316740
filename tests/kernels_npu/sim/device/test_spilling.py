"""Results that memory does not hold are written to a temporary file, with the same values."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch

from kernels_npu.sim.device import arguments, spilling

Tensor = torch.Tensor


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, device: object) -> list[int]:
    """The host has no memory left; sizes of the results in files are collected."""
    sizes: list[int] = []
    in_file = spilling._in_file

    def counted(folder: str, nbytes: int, like: Tensor) -> Tensor:
        sizes.append(nbytes)
        return in_file(folder, nbytes, like)

    monkeypatch.setattr(arguments, "_LARGE", 0)
    monkeypatch.setattr(spilling, "LARGE", 1 << 12)
    monkeypatch.setattr(spilling, "available_memory", lambda: 0)
    monkeypatch.setattr(spilling, "_in_file", counted)
    return sizes


def both(operation: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, Tensor]:
    return operation(*(t.to("npu") for t in inputs)).cpu(), operation(*inputs)


X, Y, MASK = torch.randn(3, 37, 65), torch.randn(3, 65, 41), torch.rand(3, 1, 65) < 0.5

OPERATIONS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "product": (torch.bmm, (X, Y)),
    "einsum": (lambda a, b: torch.einsum("bmk,bkn->bnm", a, b), (X, Y)),
    "masked": (lambda a, m: a.masked_fill(~m, float("-inf")), (X, MASK)),
    "scaled": (lambda a: a.mul(0.25), (X,)),
    "broadcast": (torch.add, (X, X[:, :1])),
    "softmax": (lambda a: a.softmax(dim=-1), (X,)),
    "permuted copy": (lambda a: a.transpose(0, 1).reshape(37, -1), (X,)),
    "half": (lambda a: a * 3, (X.half(),)),
    "comparison": (lambda a, b: a > b, (torch.cat([X, X]), torch.cat([X, -X]))),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_are_those_of_memory(made: list[int], name: str) -> None:
    operation, inputs = OPERATIONS[name]
    found, expected = both(operation, *inputs)
    assert len(made) == 1, "the result was to be in a file"
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_chain_keeps_its_inputs_and_leaves_no_file(
    made: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    score = torch.bmm(X.to("npu"), Y.to("npu"))
    kept = score.cpu()
    p = score.masked_fill(score < 0, float("-inf")).mul(0.5).softmax(-1)
    expected = kept.masked_fill(kept < 0, float("-inf")).mul(0.5).softmax(-1)
    assert torch.equal(score.cpu(), kept) and len(made) >= 4
    torch.testing.assert_close(p.cpu(), expected)
    p += 1  # a result in a file is memory like any other
    torch.testing.assert_close(p.cpu(), expected + 1)
    assert not os.listdir(tmp_path)


def test_small_results_and_other_operations_stay_in_memory(made: list[int]) -> None:
    assert torch.equal(X.to("npu").sum(-1).cpu(), X.sum(-1))
    assert torch.equal(X.to("npu")[:1, :2].mul(2).cpu(), X[:1, :2] * 2)
    assert not made


def test_no_room_anywhere_is_an_error(made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilling, "_SPARE", 1 << 62)
    with pytest.raises(RuntimeError, match="AI-DEV-013") as error:
        X.to("npu").mul(2)
    assert "TMPDIR" in str(error.value)


def test_available_memory_is_known_here() -> None:
    available = spilling.available_memory()
    assert available is None or available > 1 << 20

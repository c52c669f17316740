"""What a session refuses before it allocates anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_infer import memory_budget
from ascend_infer.devices import open_device
from ascend_infer.model.catalogue import resolve
from ascend_infer.session import SessionOptions, open_session
from kernels_npu.errors import UsageError


def failure(path: Path, **options: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        open_session(
            resolve(str(path)).open(),
            open_device("cpu"),
            SessionOptions(**options),  # type: ignore[arg-type]
        )
    return caught.value


@pytest.mark.parametrize(
    "options",
    [
        {"num_blocks": 2 * 10**9},
        {"block_size": 10**9},
        {"block_size": 10**20},
        {"buckets": (10**9,)},
        {"buckets": (10**24,)},
        {"max_tokens": 10**13},
        {"max_batch": 10**10},
    ],
    ids=str,
)
def test_more_than_there_is_memory_for(llama_dir: Path, options: dict[str, object]):
    error = failure(llama_dir, **options)
    assert error.code == "AI-MODEL-035" and "--num-blocks" in (error.fix or "")


def test_sizes_are_stated(llama_dir: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_budget, "available_bytes", lambda api: 100_000)
    # Three layers of two heads of 16 float16 elements: 384 bytes per token.
    error = failure(llama_dir, max_tokens=128, block_size=16, num_blocks=32)
    assert (
        "32 blocks of 16 tokens takes 192 KiB" in error.what and "97.7 KiB are free" in error.what
    )


@pytest.mark.parametrize(
    "size, text", [(0, "0 B"), (1023, "1.02e+03 B"), (1024, "1 KiB"), (10**30, "8.88e+14 PiB")]
)
def test_sizes_in_words(size: int, text: str):
    assert memory_budget.in_words(size) == text


def test_strict_needs_graphs(llama_dir: Path):
    assert failure(llama_dir, strict=True).code == "AI-CLI-003"


@pytest.mark.parametrize("num_blocks, fits", [(4, False), (5, True), (0, True)])
def test_room_to_verify(num_blocks: int, fits: bool):
    """Three rows are padded to a bucket of four, and one block belongs to nobody."""
    options = SessionOptions(max_batch=3, num_blocks=num_blocks)
    if fits:
        options.require_room_to_verify()
        return
    with pytest.raises(UsageError, match="AI-VERIFY-002") as caught:
        options.require_room_to_verify()
    assert "--num-blocks 9" in (caught.value.fix or "")

"""scripts/npu/check_capture.py: the block holds, and each mistake in capturing it is found."""

from __future__ import annotations

import json

import pytest
import torch

from kernels_npu import ops


@pytest.fixture
def check(program, call, monkeypatch):
    """The results by check, with `decode_block` replaced by what a mistake makes of it."""
    module = program("check_capture")

    def run(mistake=None) -> dict[str, str]:
        if mistake is not None:
            good = module.decode_block
            monkeypatch.setattr(module, "decode_block", lambda w, s: mistake(good, w, s))
        status, printed, _ = call(module, "--device", "sim", "--rounds", "2", "--json")
        answer = json.loads(printed)
        assert answer["passed"] == (status == 0)
        return {row["check"]: row["detail"] for row in answer["results"] if not row["passed"]}

    return run


def capturing() -> bool:
    return torch.npu.is_current_stream_capturing()


def test_the_block_holds(check):
    assert check() == {}


@pytest.mark.gpu
def test_the_block_holds_on_cuda(program, call):
    status, printed, _ = call(program("check_capture"), "--device", "cuda", "--json")
    assert status == 0, printed


def test_kernels_outside_the_graph_are_found(check):
    """The graph holds a copy of a result that was computed before."""
    kept = []

    def mistake(good, w, s):
        if capturing():
            return kept[-1]
        kept.append(good(w, s))
        return kept[-1]

    failed = check(mistake)
    assert failed["output"].startswith("AI-VERIFY-007")
    assert failed["KV cache"].startswith("AI-VERIFY-008")
    assert failed["launches of a replay"].startswith("AI-VERIFY-012")


def test_an_output_that_is_not_written_is_found(check):
    def mistake(good, w, s):
        result = good(w, s)
        return torch.full_like(result, float("nan")) if capturing() else result

    assert check(mistake)["output written"].startswith("AI-VERIFY-004")


def test_a_cache_that_is_not_written_is_found(check, monkeypatch):
    write = ops.reshape_and_cache

    def skipping(*arguments):
        return None if capturing() else write(*arguments)

    monkeypatch.setattr(ops, "reshape_and_cache", skipping)
    failed = check()
    assert failed["KV cache"].startswith("AI-VERIFY-008")
    assert "reshape_and_cache" not in failed["launches of a replay"].partition("instead")[0]


def test_a_synchronisation_in_the_capture_is_named(check):
    def mistake(good, w, s):
        s["seq_lens"][0].item()
        return good(w, s)

    assert check(mistake)["capture"].startswith("AI-CAP-001")


def test_launches_that_overtake_their_inputs_are_found(check, monkeypatch):
    """The kernel sees what was in its input one launch before."""
    norm, before = ops.rms_norm, []

    def stale(x, weight, eps):
        before.append(x.clone())
        return norm(before[-2] if len(before) > 1 else x, weight, eps)

    monkeypatch.setattr(ops, "rms_norm", stale)
    assert check()["order on a side stream"].startswith("AI-VERIFY-019")


@pytest.mark.parametrize("rounds", ["0", "-3", "two"])
def test_no_rounds_are_no_check(program, call, capfd, rounds):
    """Nothing compared would read as if everything held."""
    with pytest.raises(SystemExit) as ended:
        call(program("check_capture"), "--device", "sim", "--rounds", rounds)
    assert ended.value.code == 2
    assert "--rounds" in capfd.readouterr().err


def test_a_device_without_graphs_is_wrong_use(program, call):
    status, _, error = call(program("check_capture"), "--device", "cpu")
    assert status == 2
    assert "AI-GRAPH-002" in error

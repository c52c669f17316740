"""What is counted, and said once."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from ascend_infer.vllm_plugin import calls


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, empty in (
        ("layers", Counter()),
        ("attention_calls", Counter()),
        ("_warned", set()),
    ):
        monkeypatch.setattr(calls, name, empty)


def test_ours_and_each_reason_are_counted_apart() -> None:
    for reason in (None, "a bias", None, "a bias", "no weight"):
        calls.built("rms_norm", reason)
        calls.attended(reason)
    calls.built("attention", None)
    who = {"a bias": 2, calls.OURS: 2, "no weight": 1}
    found = {"layers": {"attention": {calls.OURS: 1}, "rms_norm": who}, "attention_calls": who}
    assert calls.as_json() == found


def test_a_reason_is_said_once_per_operator(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger=calls.logger.name):
        for op in ("rms_norm", "rms_norm", "attention"):
            calls.built(op, "a reason")
        calls.built("rms_norm", None)
        calls.attended("a reason")  # each step, hence only counted
    assert [record.getMessage() for record in caplog.records] == [
        "ascend-infer: the host's rms_norm serves: a reason",
        "ascend-infer: the host's attention serves: a reason",
    ]

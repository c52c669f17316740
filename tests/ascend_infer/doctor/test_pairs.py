"""Installed versions against the published combinations."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_infer.doctor.checks.pairs import adapter_pair, cann_pair, serving, torch_pair
from ascend_infer.doctor.known_good import COMBINATIONS
from tests.ascend_infer.doctor.answers import CANN, HOST, diagnosis, found


@pytest.mark.parametrize(
    ("torch_npu", "torch", "verdict"),
    [
        ("2.13.0", "2.13.0+cpu", "ok"),
        ("2.9.0.post9", "2.9.0", "ok"),
        ("2.9.0.post1+git4c901a4", "2.9.0+cpu", "ok"),
        ("2.12.0.post3", "2.13.0", "broken"),
        ("2.7.1", "2.7.0", "broken"),
        ("unknown", "2.13.0", "warning"),
    ],
)
def test_torch(torch_npu: str, torch: str, verdict: str):
    finding = torch_pair(torch_npu, torch)
    assert finding.verdict == verdict
    assert torch_npu in finding.evidence and torch in finding.evidence
    assert bool(finding.advice) is (verdict != "ok")


@pytest.mark.parametrize(
    ("torch_npu", "cann", "verdict", "words"),
    [
        ("2.12.0", "9.1.0", "ok", "COMPATIBILITY.md"),
        ("2.12.0", "9.1.0.1", "ok", ""),
        ("2.12.0", "9.0.0", "warning", "lists CANN 9.1.0"),
        ("2.7.1", "8.3.RC1", "ok", ""),
        ("2.7.1", "8.3.RC2", "warning", "8.3.RC1"),
        ("2.9.0.post1+git4c901a4", "8.5.1", "ok", "versioning_policy"),
        ("2.14.0", "9.2.0", "warning", "no source here lists"),
    ],
)
def test_cann(torch_npu: str, cann: str, verdict: str, words: str):
    finding = cann_pair(torch_npu, cann)
    assert finding.verdict == verdict and words in finding.evidence


@pytest.mark.parametrize(
    ("cann", "verdict"),
    [("8.2.RC1", "warning"), ("8.3.RC1", "ok"), ("8.3.RC2", "ok"), ("8.5.0", "ok"), ("9.1", "ok")],
)
def test_the_adapter_asks_for_a_least_cann(cann: str, verdict: str):
    assert adapter_pair(cann).verdict == verdict


@pytest.mark.parametrize(
    ("number", "others", "verdict", "words"),
    [
        ("0.23.0", {"vllm": "0.23.0", "torch_npu": "2.10.0.post4", "CANN": "9.1.0"}, "ok", ""),
        ("0.23.0", {"vllm": "0.23.0", "torch_npu": "2.10.0.post4", "CANN": None}, "ok", ""),
        (
            "0.18.0",
            {"vllm": "0.23.0+empty", "torch_npu": "2.9.0", "CANN": "8.5.1"},
            "warning",
            "vllm 0.18.0, torch_npu 2.9.0.post1",
        ),
        ("0.18.0", {"vllm": None, "torch_npu": None, "CANN": None}, "warning", "vllm 0.18.0"),
        ("9.9.9", {"vllm": "1", "torch_npu": "2", "CANN": "3"}, "warning", "versioning policy"),
    ],
)
def test_serving(number: str, others: dict[str, Any], verdict: str, words: str):
    finding = serving(number, others)
    assert finding.verdict == verdict and words in finding.advice


def test_pairs_are_found_in_the_answers():
    older = {**CANN, "version": "8.2.RC1"}
    sick = diagnosis(
        HOST,
        torch={"version": "2.11.0+cpu"},
        versions={"vllm-ascend": "0.23.0", "vllm": "0.23.0"},
        cann={"at_home": older},
    )
    verdicts = {
        name: finding.verdict
        for name, finding in found(sick).items()
        if name.startswith("versions")
    }
    assert verdicts == {
        "versions: torch and torch_npu": "broken",
        "versions: torch_npu and CANN": "warning",
        "versions: tilelang-ascend and CANN": "warning",
        "versions: vllm-ascend": "warning",
    }


def test_each_combination_names_its_source_and_a_matching_torch():
    for row in COMBINATIONS:
        assert "/" in row.source and row.torch_npu.startswith(row.torch)

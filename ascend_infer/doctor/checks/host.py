"""NPU devices, npu-smi, driver and firmware."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ascend_infer.doctor.report import ABSENT, BROKEN, OK, WARNING, Finding, Situation

_CONTAINER = (
    "in a container, pass --device /dev/davinci0 --device /dev/davinci_manager "
    "--device /dev/devmm_svm --device /dev/hisi_hdc"
)


def devices(situation: Situation) -> Iterator[Finding]:
    """Device nodes and what the PCI bus has."""
    name, found = "NPU devices", situation.values("devices")
    if failure := situation.failure("devices"):
        yield Finding(
            name=name,
            verdict=WARNING,
            evidence=failure,
            advice="look at /dev and /sys/bus/pci by hand",
        )
    elif not found["nodes"]:
        yield Finding(
            name=name,
            verdict=BROKEN if found["pci"] else ABSENT,
            evidence=f"{found['pci']} on the PCI bus, but no /dev/davinci*"
            if found["pci"]
            else "none; the simulated NPU needs none",
            advice=f"install the driver; {_CONTAINER}" if found["pci"] else "",
        )
    elif found["closed"] or found["missing"]:
        closed, missing = ", ".join(found["closed"]), ", ".join(found["missing"])
        yield Finding(
            name=name,
            verdict=BROKEN,
            evidence=f"this user may not open {closed}" if closed else f"no /dev/{missing}",
            advice="add the user to the driver's group (HwHiAiUser), and log in again"
            if closed
            else _CONTAINER,
        )
    else:
        yield Finding(name=name, verdict=OK, evidence=", ".join(found["nodes"]))


def npu_smi(situation: Situation) -> Iterator[Finding]:
    """The driver's tool answers, and finds its NPUs healthy."""
    name, found = "npu-smi", situation.values("npu-smi")
    failure = situation.failure("npu-smi") or found.get("failure", "")
    if failure:
        yield Finding(
            name=name,
            verdict=situation.grave(),
            evidence=f"{found.get('program', name)}: {failure}",
            advice="the driver does not answer: see `dmesg | grep -i davinci`, and restart the host"
            if situation.npu_host
            else "remove it from PATH, or ignore it: no NPU is here",
        )
    elif not found["found"]:
        yield Finding(
            name=name,
            verdict=WARNING if situation.npu_host else ABSENT,
            evidence="not on PATH",
            advice="mount /usr/local/bin/npu-smi into the container, or add it to PATH"
            if situation.npu_host
            else "",
        )
    elif not found["npus"]:
        yield Finding(
            name=name,
            verdict=situation.grave(),
            evidence=f"{found['program']} lists no NPU"
            + (f", but says: {found['said']}" if found.get("said") else ""),
            advice="run `npu-smi info` and compare with its documentation",
        )
    else:
        npus = found["npus"]
        sick = [f"NPU {n['index']}: {n['health']}" for n in npus if n["health"] != "OK"]
        names = ", ".join(sorted({n["name"] for n in npus}))
        yield Finding(
            name=name,
            verdict=WARNING if sick else OK,
            evidence=f"{len(npus)} x {names}, version {found['version']}"
            + (f"; {', '.join(sick)}" if sick else ""),
            advice="see `npu-smi info -t health -i ID`" if sick else "",
        )


def driver(situation: Situation) -> Iterator[Finding]:
    """The driver's version file."""
    yield _version(situation, "driver")


def firmware(situation: Situation) -> Iterator[Finding]:
    """The firmware's version file, and whether the driver takes that firmware."""
    found = situation.values("firmware")
    version, ranges = found.get("version"), situation.values("driver").get("compatible") or ""
    if version and ranges and fits(version, ranges) is False:
        yield Finding(
            name="firmware",
            verdict=BROKEN,
            evidence=f"{version}, while driver {situation.values('driver')['version']} takes "
            f"{ranges}",
            advice="install driver and firmware of one HDK release: the firmware first, then the "
            "driver",
        )
    else:
        yield _version(situation, "firmware")


def _version(situation: Situation, name: str) -> Finding:
    found = situation.values(name)
    why = situation.failure(name) or found.get("why", "")
    if why:
        return Finding(
            name=name,
            verdict=WARNING,
            evidence=f"{found.get('file', 'its version file')} cannot be read: {why}",
            advice="make it readable, or install the package again",
        )
    if not found["found"]:
        in_view = situation.npu_host and name == "driver"
        return Finding(
            name=name,
            verdict=WARNING if in_view else ABSENT,
            evidence=f"no {found['file']}",
            advice="mount the driver's folder and version.info into the container"
            if in_view
            else "",
        )
    package = f" (package {found['package']})" if found.get("package") else ""
    return Finding(name=name, verdict=OK, evidence=f"{found['version']}{package}")


def fits(version: str, ranges: str) -> bool | None:
    """Whether `7.7.0.1.231` is in one of `[6.4.0,6.4.99],[7.0.0,7.7.99]`; None if unreadable."""
    number = _numbers(version)
    bounds = [tuple(map(_numbers, pair)) for pair in re.findall(r"\[([^,\]]+),([^\]]+)\]", ranges)]
    if not number or not bounds or not all(low and high for low, high in bounds):
        return None
    return any(low <= number[: len(low)] and number[: len(high)] <= high for low, high in bounds)


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    match = re.match(r"\d+(?:\.\d+)*", version.strip())
    return tuple(map(int, match[0].split("."))) if match else ()

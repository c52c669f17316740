"""What the files of a profile tell about the conditions under which they were collected."""

from __future__ import annotations

import dataclasses
import shlex

from kernels_npu.evidence import Evidence
from profiling.conditions import Conditions
from profiling.manifest import Manifest
from profiling.records.profile import Profile

#: Levels whose figures are the same in every repetition.
WITHOUT_NOISE = frozenset(
    {Evidence.STATIC_CHECK, Evidence.CPU_VERIFIED, Evidence.SIMULATED, Evidence.MODELLED}
)
#: Of measured times the files tell little; what is not known stays missing.
_MEASURED = Conditions(formulas="duration of a task, as the profiler's file has it")
#: Counts of a simulated launch follow from its inputs and the chip alone.
_COUNTED = Conditions(
    parallelism="one device",
    load="one launch at a time",
    formulas="counts of a simulated launch",
    warm_up_and_caches="counts do not depend on them",
    graph_mode="counts are the same in a graph",
)


def conditions_of(profile: Profile, *, aggregation: str, baseline: str) -> Conditions:
    """The conditions as far as files and manifests tell them; the others stay missing.

    aggregation, baseline: which only those know who make a report of the profile.
    """
    levels = {column.evidence for table in profile.tables for column in table.columns[:1]}
    levels |= {tasks.evidence for tasks in profile.tasks}
    known = _COUNTED if levels and levels <= WITHOUT_NOISE else _MEASURED
    told = {name: text for name in _TOLD if (text := _together(profile, name))}
    return dataclasses.replace(known, aggregation=aggregation, baseline=baseline, **told)


def _hardware(manifest: Manifest) -> str:
    chip = manifest.settings.get("soc", "")
    if manifest.evidence in WITHOUT_NOISE:
        return f"{manifest.made_by}, {chip}" if chip else manifest.made_by
    return chip


def _software(manifest: Manifest) -> str:
    return ", ".join(f"{name} {version}" for name, version in manifest.versions.items())


def _reproduction(manifest: Manifest) -> str:
    return shlex.join(manifest.command)


_OF_A_MANIFEST = {
    "hardware": _hardware,
    "software": _software,
    "reproduction": _reproduction,
}
#: Conditions that who collects may write into the settings, under their own names.
_OF_SETTINGS = (
    "model",
    "parallelism",
    "lengths",
    "load",
    "warm_up_and_caches",
    "graph_mode",
)
_TOLD = (*_OF_A_MANIFEST, *_OF_SETTINGS)


def _told(manifest: Manifest, name: str) -> str:
    read = _OF_A_MANIFEST.get(name)
    return read(manifest) if read else manifest.settings.get(name, "")


def _together(profile: Profile, name: str) -> str:
    """What the manifests say, each thing once; nothing when one of them does not say it."""
    told = [_told(manifest, name) for manifest in profile.manifests]
    return "; ".join(dict.fromkeys(told)) if all(told) else ""

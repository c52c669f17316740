"""Environment variables that break or slow something."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_infer.doctor.report import OK, WARNING, Finding, Situation
from ascend_infer.doctor.settings import SETTINGS, Setting


def variables(situation: Situation) -> Iterator[Finding]:
    """One finding for each setting that applies, or one for all."""
    applying = [setting for setting in SETTINGS if _matters(setting, situation)]
    for setting in applying:
        value = situation.environment.get(setting.variable)
        shown = f"{setting.variable} is not set" if value is None else f"{setting.variable}={value}"
        yield Finding(
            name=f"environment variables: {setting.variable}",
            verdict=WARNING,
            evidence=f"{shown}: {setting.effect}",
            advice=setting.advice,
        )
    if not applying:
        yield Finding(
            name="environment variables",
            verdict=OK,
            evidence=f"none of {len({s.variable for s in SETTINGS})} known ones is set to a value "
            "that breaks something",
        )


def _matters(setting: Setting, situation: Situation) -> bool:
    there = {
        "": True,
        "torch_npu": situation.torch_npu_installed,
        "vllm-ascend": bool(situation.values("versions").get("vllm-ascend")),
        "adapter": situation.values("dialect").get("installed") == "adapter",
    }
    return there[setting.needs] and setting.applies(situation.environment.get(setting.variable))

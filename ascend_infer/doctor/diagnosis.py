"""Ask the probes, then run the checks over their answers."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ascend_infer.doctor.asking import Answer, ask_all
from ascend_infer.doctor.checks import CHECKS
from ascend_infer.doctor.report import Diagnosis, Situation


def diagnose(*, timeout_s: float) -> Diagnosis:
    """Ask all probes side by side, each with `timeout_s` seconds, and judge their answers."""
    return judge(ask_all(timeout_s=timeout_s), os.environ)


def judge(answers: Mapping[str, Answer], environment: Mapping[str, str]) -> Diagnosis:
    """What the probes' answers mean."""
    situation = Situation(answers=answers, environment=environment)
    findings = tuple(finding for check in CHECKS for finding in check.run(situation))
    return Diagnosis(findings=findings, devices=situation.devices)

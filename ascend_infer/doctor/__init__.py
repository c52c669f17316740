"""The environment check: probes in child processes, and what their answers mean."""

from __future__ import annotations

from ascend_infer.doctor.diagnosis import diagnose
from ascend_infer.doctor.report import Diagnosis, Finding

__all__ = ["Diagnosis", "Finding", "diagnose"]

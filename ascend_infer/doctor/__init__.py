"""The environment check: probes in child processes, and what their answers mean."""

from __future__ import annotations

from ascend_infer.doctor.diagnosis import Diagnosis, Finding, diagnose

__all__ = ["Diagnosis", "Finding", "diagnose"]

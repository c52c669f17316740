"""Diagnosis of CANN host logs and captured stderr: the first cause, and evidence of captures."""

from __future__ import annotations

from ascend_infer.diagnose.report import LogDiagnosis, diagnose_logs

__all__ = ["LogDiagnosis", "diagnose_logs"]

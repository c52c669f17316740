"""A profile as one HTML file for a browser and for paper.

write(build(read_profile("OPPROF_..."), conditions), Path("report.html"))
"""

from __future__ import annotations

from profiling.report.build import ReportOptions, build
from profiling.report.html import render, write
from profiling.report.view import Page

__all__ = ["Page", "ReportOptions", "build", "render", "write"]

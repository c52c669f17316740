"""A profile as a page."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from profiling import analysis
from profiling.analysis.listing import files_of
from profiling.conditions import Conditions
from profiling.devices import Chip
from profiling.records import Profile
from profiling.report import kernels, sources, summary, tasks, traces
from profiling.report.view import Page, Section


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """How much a page shows.

    rows: of each table. details: kernels with a section of their own.
    """

    rows: int = 200
    details: int = 12


def build(
    profile: Profile,
    conditions: Conditions,
    chip: Chip | None = None,
    options: ReportOptions = ReportOptions(),
) -> Page:
    """The page of a profile.

    chip: whose roofline is drawn; by default the one that the profile's manifests name.

    Raises:
        EnvironmentProblem: AI-PROF-070, matplotlib is missing.
    """
    chip = chip or analysis.chip_of(profile)
    details = list(kernels.kernel_sections(profile, chip, options.details))
    timelines = list(traces.trace_sections(profile, options.rows))
    applications = list(tasks.task_sections(profile, options.rows))
    tables = tuple(tasks.table_sections(profile, options.rows))
    told = [*details, *timelines, *applications, *tables]
    anchors = {section.title: section.anchor for section in details}
    sections = [summary.summary_section(profile, told, options.rows, anchors)]
    if profile.kernels:
        sections.append(kernels.roofline_section(profile, chip))
        sections.append(kernels.launches_section(profile, chip, options.rows, anchors))
    sections += timelines
    if details:
        more = len({kernel.name for kernel in profile.kernels}) - len(details)
        left_out = f" {more} further kernels have no section." if more > 0 else ""
        sections.append(
            Section(
                anchor="kernels",
                title="Kernels",
                lead=f"What the figures of each kernel say, with the rule behind it.{left_out}",
                sections=tuple(details),
            )
        )
    if applications:
        sections.append(
            Section(anchor="operators", title="Operators", sections=tuple(applications))
        )
    if tables:
        sections.append(Section(anchor="tables", title="Tables", sections=tables))
    sections.append(sources.sources_section(profile, conditions, options.rows))
    return Page(
        title="Profile report",
        path=profile.path,
        made=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        headline=conditions.headline,
        evidence=tuple(sorted({evidence for _, _, evidence, _ in files_of(profile)})),
        facts=tuple(summary.facts(profile, chip)),
        sections=tuple(sections),
        notes=profile.notes,
    )

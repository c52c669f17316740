"""What a reader wants to know first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from profiling import analysis
from profiling.analysis import KernelTotal
from profiling.analysis.figures import digits
from profiling.devices import Chip
from profiling.printable import shortened
from profiling.records import Profile
from profiling.report.view import (
    Fact,
    Finding,
    Grid,
    Section,
    limited,
    number_cell,
    origin,
    text_cell,
)

#: Findings that the summary names.
MOST_FINDINGS = 10


def summary_section(
    profile: Profile, sections: Sequence[Section], most: int, anchors: Mapping[str, str]
) -> Section:
    """The sentences on the whole, what asks for a change in `sections`, and totals by kernel.

    anchors: of the kernels that have a section.
    """
    totals = analysis.kernel_totals(profile)
    found = [
        Finding(anchor=section.anchor, of=section.title, sentence=sentence)
        for section in sections
        for sentence in section.sentences
        if sentence.flagged
    ]
    sentences = tuple(analysis.profile_sentences(profile))
    return Section(
        anchor="summary",
        title="Summary",
        lead="" if sentences or found or totals else "No kernels, and nothing asks for a change.",
        sentences=sentences,
        findings=tuple(found[:MOST_FINDINGS]),
        more_findings=max(0, len(found) - MOST_FINDINGS),
        grids=(_totals(totals, most, anchors),) if totals else (),
    )


def facts(profile: Profile, chip: Chip | None) -> Iterator[Fact]:
    """The figures at the top."""
    totals = analysis.kernel_totals(profile)
    if totals:
        launches = sum(total.launches for total in totals)
        yield Fact(
            label="launches",
            value=f"{launches:,}",
            origin=f"{len(totals):,} kernel" + "s" * (len(totals) != 1),
        )
    moved = [total for total in totals if total.gm_bytes]
    if moved:
        top = moved[0]
        whole = sum(total.gm_bytes or 0.0 for total in moved)
        yield Fact(
            label="global memory",
            value=_bytes(whole),
            origin="" if top.most_bytes is None else str(top.most_bytes.evidence),
        )
        yield Fact(
            label="moves most bytes",
            value=shortened(top.name, 40),
            origin=f"{(top.gm_bytes or 0.0) / whole:.1%} of all bytes",
        )
    timed = [total for total in totals if total.length]
    if timed:
        top = max(timed, key=lambda total: total.length or 0.0)
        unit = "modelled cycles" if top.unit == "cycles" else "µs"
        yield Fact(
            label="takes longest",
            value=shortened(top.name, 40),
            origin=f"{digits(top.length or 0.0)} {unit}",
        )
    tasks = sum(len(tasks) for tasks in profile.tasks)
    if tasks:
        yield Fact(label="tasks", value=f"{tasks:,}", origin=f"files: {len(profile.tasks)}")
    if chip is not None:
        yield Fact(label="chip", value=chip.name, origin=chip.source)


def _totals(totals: list[KernelTotal], most: int, anchors: Mapping[str, str]) -> Grid:
    rows = [
        (
            text_cell(total.name, link=anchors.get(total.name, "")),
            number_cell(total.launches),
            number_cell(
                total.gm_bytes,
                origin="" if total.most_bytes is None else origin(total.most_bytes),
            ),
            number_cell(
                total.length, origin="" if total.longest is None else origin(total.longest)
            ),
            text_cell(total.unit),
            text_cell(_evidence(total)),
        )
        for total in totals
    ]
    kept, left_out = limited(rows, most)
    return Grid(
        title="Kernels",
        columns=("kernel", "launches", "global memory, bytes", "length", "unit", "evidence"),
        rows=kept,
        left_out=left_out,
        note="Sums over all launches of a kernel.",
    )


def _evidence(total: KernelTotal) -> str:
    """Of a simulated launch bytes are counted, and its length is a model's."""
    length = total.longest
    if length is None or length.evidence is total.evidence:
        return str(total.evidence)
    return f"{total.evidence}, length {length.evidence}"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:,.4g} {unit}"
        value /= 1024
    raise AssertionError("the loop returns")

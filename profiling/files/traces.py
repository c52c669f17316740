"""trace.json and trace_view.json; of a half-written file, the whole events are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from kernels_npu.errors import SourceLocation
from kernels_npu.evidence import Evidence
from profiling.files.cells import NotThatQuantity, exact
from profiling.files.sources import Source
from profiling.files.text import decode
from profiling.records.note import Note, Notes, Severity
from profiling.records.trace import Span, Trace

#: The processes of cores in the vendor's simulator (`core0.veccore1`, `core3.cubecore0`), whose
#: time is a model's, and in ours (`rms_norm #0 block 3 AIV1`), whose axis is modelled cycles.
_SIMULATED_CORE = re.compile(r"core\d+\.(vec|cube)core\d+")
_CORE_IN_CYCLES = re.compile(r"#\d+ block \d+ (AIC|AIV[01])$")
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


def read_trace(source: Source, notes: Notes) -> Trace | None:
    """The file's spans; None when it is no Chrome trace. What is wrong goes to `notes`.

    Raises:
        OSError, zipfile.BadZipFile: the bytes cannot be read.
    """
    text = decode(source.read(), source.name, notes)
    events = _events(text, source.name, notes)
    if events is None:
        return None
    spans = tuple(_spans(events, source.name, notes))
    if not spans:
        notes.add(_without_spans(source.name, len(events)))
    in_cycles = any(_CORE_IN_CYCLES.search(span.process) for span in spans)
    simulated = in_cycles or any(_SIMULATED_CORE.search(span.process) for span in spans)
    return Trace(
        file=source.name,
        spans=spans,
        others=len(events) - len(spans),
        evidence=Evidence.MODELLED if simulated else source.evidence,
        unit="cycles" if in_cycles else "us",
    )


def _events(text: str, file: str, notes: Notes) -> list[Any] | None:
    """The list of events; None when the file holds other JSON."""
    try:
        whole = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation):
        return _whole_events(text, file, notes)
    if isinstance(whole, dict):
        whole = whole.get("traceEvents")
    if not isinstance(whole, list):
        return None
    # Profilers leave other lists, too; an empty one may be a trace in which nothing happened.
    is_trace = not whole or any(isinstance(event, dict) and "ph" in event for event in whole)
    return whole if is_trace else None


def _whole_events(text: str, file: str, notes: Notes) -> list[Any] | None:
    """The events before the damage, when the file begins as a trace does."""
    start = _EVENTS.search(text)
    place = start.end() if start else text.find("[") + 1
    if not start and text[:place].strip() != "[":
        notes.add(_damaged(file, 1, "no list of events"))
        return None
    decoder = json.JSONDecoder(parse_float=Decimal)
    events: list[Any] = []
    while True:
        gap = _BETWEEN.match(text, place)
        place = gap.end() if gap else place
        try:
            event, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError, InvalidOperation):
            break
        events.append(event)
    if text[place : place + 1] != "]":
        line = text.count("\n", 0, place) + 1
        notes.add(_damaged(file, line, f"only {len(events):,} whole events"))
    return events


def _spans(events: list[Any], file: str, notes: Notes) -> Iterator[Span]:
    names = _names(events)
    for place, event in enumerate(events):
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        try:
            start, duration = exact(str(event["ts"])), exact(str(event["dur"]))
        except (KeyError, NotThatQuantity):
            notes.add(_without_times(file, place, event))
            continue
        process, track = str(event.get("pid", "")), str(event.get("tid", ""))
        yield Span(
            name=str(event.get("name", "")),
            process=names.get((process, ""), process),
            track=names.get((process, track), track),
            start=start,
            duration=duration,
            category=str(event.get("cat", "")),
        )


def _names(events: list[Any]) -> dict[tuple[str, str], str]:
    """What metadata events call processes (process, "") and tracks (process, track)."""
    names = {}
    for event in events:
        if isinstance(event, dict) and event.get("ph") == "M":
            arguments = event.get("args")
            name = arguments.get("name") if isinstance(arguments, dict) else None
            process, track = str(event.get("pid", "")), str(event.get("tid", ""))
            if name and event.get("name") == "process_name":
                names[process, ""] = str(name)
            elif name and event.get("name") == "thread_name":
                names[process, track] = str(name)
    return names


def _damaged(file: str, line: int, found: str) -> Note:
    return Note(
        code="AI-PROF-027",
        what=f"JSON that ends early or is damaged: {found}",
        where=SourceLocation(file, line),
        rule="a trace is one list of events; those before the damage are read",
        fix="export again: the analysis was interrupted, or the disk was full",
        severity=Severity.DAMAGE,
    )


def _without_times(file: str, place: int, event: dict[str, Any]) -> Note:
    return Note(
        code="AI-PROF-025",
        what=f"event {place} ({str(event.get('name', ''))[:40]!r}) has no ts and dur",
        where=file,
        rule="a complete event has a start and a duration",
        fix="export again",
        severity=Severity.DAMAGE,
    )


def _without_spans(file: str, events: int) -> Note:
    return Note(
        code="AI-PROF-031",
        what=f"a trace of {events:,} events without one that has a duration",
        where=file,
        rule="a simulated kernel leaves instructions, a profiled one kernels",
        fix="check that the kernel ran: with a simulator the program has to be linked against it",
    )

"""From a line to an error: its time, place, text and explanation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ascend_infer.diagnose.catalogue import explain
from ascend_infer.diagnose.codes import Explanation, Role
from ascend_infer.diagnose.signatures import recognise

_PLOG = re.compile(
    r"\[(?P<level>[A-Z]+)\] ?(?P<module>\w+)\((?P<pid>\d+),[^)]*\):(?P<time>[\d:.-]{19,27}) ?"
    r"\[(?P<place>[^\]]*)\](?P<text>.*)"
)
#: Of an error in the runtime's log.
LEVELS = ("ERROR", "CRITICAL")
#: In every line of the runtime's: a search for it is much faster than one for the pattern.
TIME = "):2"
_LEVEL = r"(?:ERROR|CRITICAL|WARNING|INFO|DEBUG)"
_STAMP = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]?\d*"
#: What a launcher, a server, a container's log or a logger writes before a line of its own.
_PREFIX = re.compile(
    r"(?:\(\w+ ?[^()]*pid=\d+[^()]*\) ?|\[(?:default)?\d*\]:|\[rank\d+\]:? ?"
    r"|\[\d+,\d+\]<std\w+>:? ?"
    rf"|{_LEVEL} \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[^\]]*\] ?"
    rf"|{_STAMP}(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?"
    rf"|{_STAMP} [-\w. ]*{_LEVEL}[-: ]+|{_STAMP} \| {_LEVEL} +\| [^ ]+ - "
    rf"|\[{_STAMP}[^\]]*\] ?(?:\[[^\]]*\] ?)*|{_LEVEL}:[\w.]+:"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?: "
    r"|[\w.-]* *[|+] )+"
)
_QUIET = re.compile(r"\b(?:INFO|DEBUG)\b")
#: What of a prefix differs from line to line of one writer.
_STAMPS = re.compile(
    rf"{_STAMP}(?:Z|[+-]\d\d:\d\d)?|\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
)
#: What a terminal takes as a colour.
COLOUR = r"\x1b\[[\d;]*[A-Za-z]"
_COLOUR = re.compile(COLOUR)
_SCREEN_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[- T](\d\d:\d\d:\d\d)")
#: A runtime's code, as a decimal or hexadecimal number, and what must stand before it.
#: It begins with one of four digits, so that the search is one for them; it looks back afterwards.
_NUMBER = re.compile(r"[0125](?:(?<!\d\d)(?<=[125])07\d{3}(?!\d)|(?<=0)[xX]0*([0-9a-fA-F]{5})\b)")
_BEFORE_NUMBER = re.compile(
    r"(?:[Cc]ode|[Rr]et|[Rr]esult|[Ee]rr(?:or)?|return|status)[A-Za-z_ ]{0,12}[\s:=,(\[]*$"
)
#: Characters before a number in which they stand.
_BEFORE = 40
_RUNTIME_CODE = re.compile(r"[125]07\d{3}")
# It begins with a letter and looks back afterwards: so the search is one for that letter.
_TEXT_CODE = re.compile(r"E(?<!\wE)(?:RR\d{5}|[A-Z]\d{4}|[1-9]\d{4})(?=[:)\]!\s]|$)")
_EXCEPTION = re.compile(
    r"((?:[A-Za-z_][\w.]*(?:Error|Exception|Expired|Interrupt|Exit|OutOfMemory|[a-z]Timeout)"
    r"|[A-Za-z_][\w.]*\.(?:Timeout|Empty|Full|Again)|Exception|StopIteration))(?:: |:?$)"
)
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)')
#: What is looked at of one line.
LINE = 4096
#: What a traceback begins with, by the order of its frames.
_OLDEST_FIRST = "Traceback (most recent call last)"
TRACEBACKS = (_OLDEST_FIRST, f"Exception Group {_OLDEST_FIRST}")
NEWEST_FIRST = "(most recent call first)"
#: The interpreter reports an exception that it does not pass on.
IGNORED = "Exception ignored in"


@dataclass(frozen=True, kw_only=True)
class LogError:
    """One line that reports an error. `time` is "" where the line has none.

    exception: it is the last line of a Python traceback, or looks like it.
    plog: the runtime or the driver logged it, and no screen showed it.
    """

    explanation: Explanation
    place: str
    time: str
    text: str
    exception: bool = False
    plog: bool = False


@dataclass(frozen=True, kw_only=True)
class ReadLine:
    """A line as it was read. context: it belongs to a traceback and is not its exception."""

    prefix: str
    text: str
    context: bool
    error: LogError | None


def read_line(line: bytes) -> ReadLine:
    """What a line says by itself, whatever is before it."""
    text = line[:LINE].decode("utf-8", errors="replace").rstrip("\r")
    prefix, rest = split_prefix(text)
    context = _begins_context(rest) or python_frame(rest) is not None
    error = None
    if not context and not is_quiet(prefix, rest):
        error = parse_error(rest)
        if error is None and len(line) > LINE:
            error = parse_error(_part_that_matters(line))
        if error is not None and prefix and not error.time:
            error = replace(error, time=line_time(prefix))
    writer = _STAMPS.sub("", prefix).strip() if prefix else prefix
    return ReadLine(prefix=writer, text=rest, context=context, error=error)


def is_quiet(prefix: str, rest: str) -> bool:
    """Whether the writer of a line says that it reports no error."""
    return _QUIET.search(prefix) is not None or _QUIET.match(rest) is not None


def _begins_context(text: str) -> bool:
    return ("most recent call" in text or IGNORED in text) and (
        text.lstrip().startswith((*TRACEBACKS, IGNORED)) or NEWEST_FIRST in text
    )


def _part_that_matters(line: bytes) -> str:
    found = re.search(rb"rror|ERROR|[125]07\d{3}", line)
    start = max(0, found.start() - LINE // 2) if found else 0
    return line[start : start + LINE].decode("utf-8", errors="replace")


def split_prefix(text: str) -> tuple[str, str]:
    """`(Worker pid=7) ERROR 05-02 10:11:12 [a.py:1] x` as prefix and `x`; without colours."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    found = _PREFIX.match(text)
    return ("", text) if found is None else (found[0], text[found.end() :])


def python_frame(text: str) -> tuple[str, int] | None:
    """File and line of a frame of a Python traceback."""
    found = _FRAME.match(text) if 'File "' in text else None
    return (found[1], int(found[2])) if found else None


def line_time(text: str) -> str:
    """The time in a line, in the runtime's notation; "" where it has none."""
    plog = _PLOG.search(text) if TIME in text else None
    if plog:
        return plog["time"]
    found = _SCREEN_TIME.search(text)
    return f"{found[1]}-{found[2]}" if found else ""


def runtime_kind(line: bytes, code: str) -> tuple[str, str] | None:
    """Key and place of a line that begins with the runtime's own head and has no text that a table
    explains; None where the head is damaged. code: what `code_in` finds in it, or ""."""
    plog = _PLOG.match(line.decode("utf-8", errors="replace"))
    return (explain(code or plog["module"]).key, plog["place"]) if plog else None


def parse_error(text: str) -> LogError | None:
    """The error that a line, without its prefix, reports; None where it reports none."""
    plog = _PLOG.search(text) if TIME in text else None
    if plog:
        if plog["level"] not in LEVELS:
            return None
        message = plog["text"].lstrip("0123456789 ")
        return LogError(
            # The module names what no table knows, so that its lines form one group per place.
            explanation=_explained(message) or explain(plog["module"]),
            place=plog["place"],
            time=plog["time"],
            text=message[:400],
            plog=True,
        )
    message = text.strip()
    exception = _EXCEPTION.match(text)
    explanation = _explained(message)
    if explanation is None and exception:
        explanation = Explanation(
            key=exception[1],
            meaning="a Python exception",
            fix="read the exception and the frame that raised it",
            role=Role.UNKNOWN,
        )
    if explanation is None:
        return None
    return LogError(
        explanation=explanation,
        place="",
        time=line_time(text),
        text=message[:400],
        exception=exception is not None,
    )


def _explained(message: str) -> Explanation | None:
    signature = recognise(message)
    if signature is not None:
        return signature
    code = code_in(message)
    return explain(code) if code else None


def code_in(message: str) -> str | None:
    """The first number that is named as a code, else the first code with letters."""
    for found in _NUMBER.finditer(message) if _has_number(message) else ():
        # Hexadecimal return codes are the same numbers: 0x7bc87 is 507015.
        code = str(int(found[1], 16)) if found[1] else found[0]
        before = message[max(0, found.start() - _BEFORE) : found.start()]
        if _RUNTIME_CODE.fullmatch(code) and _BEFORE_NUMBER.search(before):
            return code
    named = _TEXT_CODE.search(message)
    return named[0] if named else None


def _has_number(message: str) -> bool:
    return "07" in message or "0x" in message or "0X" in message

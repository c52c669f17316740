"""From a line to an error: its time, place, text and explanation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ascend_infer.diagnose.codes import Explanation, Role, explain
from ascend_infer.diagnose.signatures import recognise

_PLOG = re.compile(
    r"\[(?P<level>[A-Z]+)\] ?(?P<module>\w+)\((?P<pid>\d+),[^)]*\):(?P<time>[\d:.-]{19,27}) ?"
    r"\[(?P<place>[^\]]*)\](?P<text>.*)"
)
_SCREEN_TIME = re.compile(r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d")
_NUMBER = re.compile(
    r"(?:[Cc]ode|[Rr]et|[Rr]esult|[Ee]rr(?:or)?|return|status)[A-Za-z_ ]{0,12}[\s:=,(\[]*"
    r"(?<!\d)([125]07\d{3})(?!\d)"
)
_TEXT_CODE = re.compile(r"\b(ERR\d{5}|E(?:[A-Z]\d{4}|[1-9]\d{4}))(?=[:)\]!\s]|$)")
_EXCEPTION = re.compile(r"\s*([A-Za-z_][\w.]*(?:Error|Exception))(?:: |$)")
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)')


@dataclass(frozen=True, kw_only=True)
class LogError:
    """One line that reports an error. `time` is "" where the line has none."""

    explanation: Explanation
    place: str
    time: str
    text: str


def python_frame(text: str) -> str | None:
    """`file:line` of a frame of a Python traceback."""
    found = _FRAME.match(text)
    return f"{found[1]}:{found[2]}" if found else None


def parse_error(text: str) -> LogError | None:
    """The error that a line reports; None where it reports none."""
    plog = _PLOG.search(text)
    if plog:
        if plog["level"] not in ("ERROR", "CRITICAL"):
            return None
        message, place, time = plog["text"].lstrip("0123456789 "), plog["place"], plog["time"]
        # Text codes in a message of the log name what the user will read, not another error.
        explanation = _explained(message) or explain(plog["module"])
    else:
        message, place = text.strip(), ""
        stamp = _SCREEN_TIME.search(text)
        time = stamp[0] if stamp else ""
        found = _explained(message)
        exception = _EXCEPTION.match(text)
        if found is None and exception:
            found = Explanation(
                key=exception[1],
                meaning="a Python exception",
                fix="read the exception and the frame that raised it",
                role=Role.UNKNOWN,
            )
        if found is None:
            return None
        explanation = found
    return LogError(explanation=explanation, place=place, time=time, text=message[:400])


def _explained(message: str) -> Explanation | None:
    signature = recognise(message)
    if signature is not None:
        return signature
    number = _NUMBER.search(message)
    if number:
        return explain(number[1])
    code = _TEXT_CODE.search(message)
    return explain(code[1]) if code else None

"""From a line to an error: its time, place, text and explanation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ascend_infer.diagnose.catalogue import explain
from ascend_infer.diagnose.codes import Explanation, Role
from ascend_infer.diagnose.signatures import recognise

_PLOG = re.compile(
    r"\[(?P<level>[A-Z]+)\] ?(?P<module>\w+)\((?P<pid>\d+),[^)]*\):(?P<time>[\d:.-]{19,27}) ?"
    r"\[(?P<place>[^\]]*)\](?P<text>.*)"
)
#: What a launcher, a server or a logger writes before a line of its own.
_PREFIX = re.compile(
    r"(?:\((?:\w+) ?[^()]*pid=\d+\) ?|\[(?:default)?\d*\]:|\[rank\d+\]:? ?"
    r"|(?:ERROR|CRITICAL|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[^\]]*\] ?"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]?\d* [-\w. ]*(?:ERROR|CRITICAL)[-: ]+)+"
)
_SCREEN_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[- T](\d\d:\d\d:\d\d)")
_WORD = r"(?:[Cc]ode|[Rr]et|[Rr]esult|[Ee]rr(?:or)?|return|status)[A-Za-z_ ]{0,12}[\s:=,(\[]*"
_NUMBER = re.compile(_WORD + r"(?:(?<!\d)([125]07\d{3})(?!\d)|0[xX]0*([0-9a-fA-F]{5})\b)")
_RUNTIME_CODE = re.compile(r"[125]07\d{3}")
# It begins with a letter and looks back afterwards: so the search is one for that letter.
_TEXT_CODE = re.compile(r"E(?<!\wE)(?:RR\d{5}|[A-Z]\d{4}|[1-9]\d{4})(?=[:)\]!\s]|$)")
_EXCEPTION = re.compile(
    r"([A-Za-z_][\w.]*(?:Error|Exception|Expired|Interrupt|Exit|OutOfMemory)|Exception)(?:: |:?$)"
)
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)')
TRACEBACK = "Traceback (most recent call last)"


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


def split_prefix(text: str) -> tuple[str, str]:
    """`(Worker pid=7) ERROR 05-02 10:11:12 [a.py:1] x` as prefix and `x`."""
    found = _PREFIX.match(text)
    return ("", text) if found is None else (found[0], text[found.end() :])


def python_frame(text: str) -> tuple[str, int] | None:
    """File and line of a frame of a Python traceback."""
    found = _FRAME.match(text)
    return (found[1], int(found[2])) if found else None


def line_time(text: str) -> str:
    """The time in a line, in the runtime's notation; "" where it has none."""
    plog = _PLOG.search(text)
    if plog:
        return plog["time"]
    found = _SCREEN_TIME.search(text)
    return f"{found[1]}-{found[2]}" if found else ""


def parse_error(text: str) -> LogError | None:
    """The error that a line, without its prefix, reports; None where it reports none."""
    plog = _PLOG.search(text)
    if plog:
        if plog["level"] not in ("ERROR", "CRITICAL"):
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
    for found in _NUMBER.finditer(message) if _has_number(message) else ():
        # Hexadecimal return codes are the same numbers: 0x7bc87 is 507015.
        code = found[1] or str(int(found[2], 16))
        if _RUNTIME_CODE.fullmatch(code):
            return explain(code)
    named = _TEXT_CODE.search(message)
    return explain(named[0]) if named else None


def _has_number(message: str) -> bool:
    return "07" in message or "0x" in message or "0X" in message

"""How often each batch size occurs: a histogram of decode steps, from counts or from a trace.

A histogram maps a batch size to a number of decode steps. A joint histogram maps a pair, the batch
size and the blocks of the longest sequence in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphs.errors import PlanInputError

Steps = Mapping[int, int]
JointSteps = Mapping[tuple[int, int], int]


def uniform(max_batch: int) -> dict[int, int]:
    """One step of every batch size: what to assume when nothing is known of the traffic."""
    return dict.fromkeys(range(1, max_batch + 1), 1)


def parse_histogram(text: str, origin: str = "histogram") -> dict[int, int]:
    """Counts from `size:steps` pairs (`1:500 8:20`), or from a JSON object of the same.

    Pairs are separated by spaces, commas or line ends; a size that occurs twice is added up.

    Raises:
        PlanInputError: AI-GRAPH-040 naming the entry that is not a pair of whole numbers.
    """
    if text.lstrip().startswith("{"):
        entries: Iterable[tuple[object, object]] = _json(text, origin, dict).items()
    else:
        entries = (_pair(word, origin, "size:steps") for word in _words(text))
    steps: Counter[int] = Counter()
    for size, count in entries:
        steps[_whole(size, 0, origin, "a batch size")] += _whole(
            count, 0, origin, "a number of steps"
        )
    return _counted(steps, origin)


def parse_trace(text: str, origin: str = "trace") -> dict[int, int]:
    """Counts from the batch size of every step, as numbers or as a JSON list.

    Where a step is a pair `batch:blocks`, its blocks are left out.

    Raises:
        PlanInputError: AI-GRAPH-040 naming the entry that is not a whole number.
    """
    return _counted(Counter(batch for batch, _ in _trace(text, origin)), origin)


def parse_joint_trace(text: str, origin: str = "trace") -> dict[tuple[int, int], int]:
    """Counts from a trace of pairs `batch:blocks`, or of a JSON list of `[batch, blocks]`.

    `blocks` are the cache blocks of the longest sequence of the step.

    Raises:
        PlanInputError: AI-GRAPH-040 naming the entry that is no such pair.
    """
    steps: Counter[tuple[int, int]] = Counter()
    for batch, blocks in _trace(text, origin):
        if blocks is None:
            raise _unreadable(origin, batch, "batch:blocks, as in 12:40")
        steps[batch, blocks] += 1
    return _counted(steps, origin)


def _trace(text: str, origin: str) -> Iterator[tuple[int, int | None]]:
    entries = _json(text, origin, list) if text.lstrip().startswith("[") else _words(text)
    for entry in entries:
        pair = _pair(entry, origin, "batch:blocks") if _is_pair(entry) else (entry, None)
        batch = _whole(pair[0], 0, origin, "a batch size")
        yield batch, None if pair[1] is None else _whole(pair[1], 1, origin, "a number of blocks")


def _is_pair(entry: object) -> bool:
    return isinstance(entry, list) or (isinstance(entry, str) and ":" in entry)


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _pair(entry: object, origin: str, form: str) -> tuple[object, object]:
    parts = entry.split(":") if isinstance(entry, str) else entry
    if not isinstance(parts, list) or len(parts) != 2:
        raise _unreadable(origin, entry, form)
    return parts[0], parts[1]


def _json(text: str, origin: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(origin, f"JSON ({error})", "valid JSON") from error
    if not isinstance(value, kind):
        raise _unreadable(origin, type(value).__name__, kind.__name__)
    return value


def _whole(value: object, smallest: int, origin: str, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):  # 2.5 and true count nothing
        raise _unreadable(origin, value, f"{what}, a whole number")
    try:
        number = int(value)
    except ValueError:
        raise _unreadable(origin, value, f"{what}, a whole number") from None
    if number < smallest:
        raise _unreadable(origin, value, f"{what} of at least {smallest}")
    return number


def _counted(steps: Counter[Any], origin: str) -> dict[Any, int]:
    """Without the steps that have no batch, which compute nothing; refuses what has no other."""

    kept = {key: steps[key] for key in sorted(steps) if steps[key] and key != 0}
    if not kept:
        raise _unreadable(origin, "no step with a batch", "at least one")
    return kept


def _unreadable(origin: str, found: object, expected: str) -> PlanInputError:
    return PlanInputError(
        "AI-GRAPH-040",
        f"{origin}: found {str(found)[:60]!r}, expected {expected}",
        rule="a histogram is size:steps pairs or a JSON object; a trace is one batch size, or one "
        "batch:blocks pair, per decode step",
        fix="for example --histogram 1:500,8:40,32:7, or a file with one batch size per line",
    )

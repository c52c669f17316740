"""The verdicts as text: one line per file, then totals by finding and by argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kernels_npu.sim.mutation.trial import FOUND, NOT_REACHED, NOT_TRIED, REDUNDANT, SURVIVOR

_COLUMNS = (FOUND, REDUNDANT, SURVIVOR, NOT_REACHED, NOT_TRIED)
_TITLES = ("deleted", "found", "redundant", "survivors", "unreached", "untried")


def print_header() -> None:
    """The column titles."""
    print(" ".join(f"{title:>9}" for title in _TITLES), "file", flush=True)


def print_file(name: str, result: Mapping[str, Any]) -> None:
    """One line, and one more for every survivor."""
    if "failed" in result:
        print(f"{'-':>9} " * len(_TITLES) + f"{name}: {result['failed']}", flush=True)
        return
    counts = Counter(d["outcome"] for d in result["deletions"])
    numbers = (len(result["deletions"]), *(counts[column] for column in _COLUMNS))
    remarks = [*result["refused"], *filter(None, [result["script"]])]
    if result["without_deletion"]:
        remarks.append(f"nothing deleted: {', '.join(result['without_deletion'])}")
    note = f"  ({'; '.join(remarks)})" if remarks else ""
    print(" ".join(f"{n:>9}" for n in numbers), name + note, flush=True)
    for deletion in result["deletions"]:
        if deletion["outcome"] == SURVIVOR:
            print(f"{'':>10}survivor: {_places(deletion)}: {deletion['reason']}", flush=True)


def _places(deletion: Mapping[str, Any]) -> str:
    return " and ".join(f"{p['statement']} at line {p['line']}" for p in deletion["places"])


def _deletions(results: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for result in results.values():
        yield from result.get("deletions", ())


def print_totals(results: Mapping[str, Any]) -> None:
    """Sums over all files; codes of what was found, and the kinds of argument."""
    everything = list(_deletions(results))
    counts = Counter(d["outcome"] for d in everything)
    print(" ".join(f"{n:>9}" for n in (len(everything), *(counts[c] for c in _COLUMNS))), "all")
    by_kind = Counter((d["kind"], d["outcome"]) for d in everything)
    for kind in sorted({d["kind"] for d in everything}):
        parts = (f"{by_kind[kind, c]} {c}" for c in _COLUMNS if by_kind[kind, c])
        print(f"  {kind}: {', '.join(parts)}")
    print("found by:")
    found = Counter((d["code"], d["schedule"]) for d in everything if d["outcome"] == FOUND)
    for (code, schedule), count in found.most_common():
        print(f"  {count:>5} {code} ({schedule})")
    print("redundant because:")
    reasons = Counter(d["reason"].split(":")[0] for d in everything if d["outcome"] == REDUNDANT)
    for reason, count in reasons.most_common():
        print(f"  {count:>5} {reason}")
    print(f"survivors: {counts[SURVIVOR]} ({survivors(results):.1%} of what was tried)")


def survivors(results: Mapping[str, Any]) -> float:
    """The share of survivors among the deletions that were tried."""
    counts = Counter(d["outcome"] for d in _deletions(results))
    tried = sum(counts[outcome] for outcome in (FOUND, REDUNDANT, SURVIVOR))
    return counts[SURVIVOR] / tried if tried else 0.0

"""Errors of the graphs package; the codes are listed in `kernels_npu.error_codes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernels_npu.errors import AscendInferError, UsageError

if TYPE_CHECKING:
    from graphs.report import VerificationReport


class GraphError(AscendInferError):
    """A decode graph cannot be planned, captured or replayed as asked (family GRAPH)."""


class PlanInputError(GraphError, UsageError):
    """What a bucket plan was asked for contradicts itself or cannot be read."""


class VerificationError(AscendInferError):
    """Replay is not proved to equal eager (family VERIFY).

    `report` holds everything that was found; it is None when verification could not start.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        rule: str | None = None,
        fix: str | None = None,
        report: VerificationReport | None = None,
    ) -> None:
        super().__init__(code, what, rule=rule, fix=fix)
        self.report = report


def capture_failed(bucket: int, error: BaseException) -> GraphError:
    """A strict runner meets a bucket without a graph; `error` is what its capture raised first."""
    rule = (
        "the captured region only enqueues work on its stream: no synchronisation, no .item(), "
        "no pageable host copies, no default stream"
    )
    fix = (
        "remove what the message names from the step, or run with strict=False to leave this "
        "bucket eager"
    )
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, AscendInferError):
        what, rule, fix = f"{error.code}: {error.what}", error.rule or rule, error.fix or fix
    return GraphError(
        "AI-GRAPH-007", f"capturing bucket {bucket} failed first with {what}", rule=rule, fix=fix
    )


def leaves_graph(rows: int, reason: str, sizes: Sequence[int], device: str) -> GraphError:
    """A strict runner gets a batch that no graph serves; `sizes` are the plan's capture sizes."""
    what = f"a batch of {rows} rows cannot be replayed on {device}: {reason}"
    rule = "a strict runner never leaves the graph"
    if rows > max(sizes, default=0):
        return GraphError(
            "AI-GRAPH-009",
            f"{what} (capture sizes {list(sizes)})",
            rule=rule,
            fix=f"add {rows} to the capture sizes or lower the scheduler's largest batch",
        )
    return GraphError(
        "AI-GRAPH-010",
        what,
        rule=rule,
        fix="call capture() on a device with graphs, or make the runner with strict=False",
    )


def moved(name: str, captured: int, now: int | None) -> GraphError:
    """A tensor is not where the graphs expect it; addresses, None when it is gone."""
    where = "it is gone now" if now is None else f"it is at {now:#x} now"
    return GraphError(
        "AI-GRAPH-006",
        f"static tensor {name} was at {captured:#x} when the graphs were captured, {where}",
        rule="a graph holds addresses: a reallocated tensor would be ignored by every replay",
        fix=f"write into {name} in place, or call capture() again after replacing it",
    )

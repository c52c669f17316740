"""Bucket plans: for which batch sizes a decode graph is captured, and what that choice costs.

A batch of `n` rows is replayed by the smallest captured size that is at least `n`; the difference
is padding. Everything here is plain data and arithmetic: no device, no torch.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from graphs.errors import PlanInputError

# From this size on, a bucket whose smallest batch fills less than half of it is worth a warning;
# below it the padding is a few rows and costs nothing next to reading the weights.
_GAP_WARNING_FROM = 8


@dataclass(frozen=True, kw_only=True)
class PlanWarning:
    """Something about a plan that its user would want to know before serving with it.

    kind: stable identifier, such as `largest-batch-not-captured`.
    message: what it means, with the numbers, and what to change.
    severity: `error` where steps leave the graph or capture cannot succeed; `warning` where the
        plan works and costs speed or memory for nothing.
    """

    kind: str
    message: str
    severity: Literal["error", "warning"] = "warning"

    def to_dict(self) -> dict[str, str]:
        return {"kind": self.kind, "severity": self.severity, "message": self.message}


@dataclass(frozen=True, kw_only=True)
class PaddingReport:
    """What a plan makes of a histogram of batch sizes; all figures count decode steps or rows.

    rows: rows that carry a sequence, in steps that a graph serves.
    padded_rows: rows added by rounding up to a bucket.
    steps_by_bucket, padded_by_bucket: graph steps and padded rows of each bucket of the plan.
    eager_steps: steps whose batch is larger than the largest bucket.
    """

    rows: int
    padded_rows: int
    steps_by_bucket: Mapping[int, int]
    padded_by_bucket: Mapping[int, int]
    eager_steps: int

    @property
    def waste(self) -> float:
        """Padded rows as a share of all rows computed by graphs, 0.0 to 1.0."""
        computed = self.rows + self.padded_rows
        return self.padded_rows / computed if computed else 0.0

    def to_dict(self) -> dict[str, object]:
        return {
            "rows": self.rows,
            "padded_rows": self.padded_rows,
            "waste": self.waste,
            "steps_by_bucket": {str(bucket): n for bucket, n in self.steps_by_bucket.items()},
            "padded_by_bucket": {str(bucket): n for bucket, n in self.padded_by_bucket.items()},
            "eager_steps": self.eager_steps,
        }


@dataclass(frozen=True)
class BucketPlan:
    """The batch sizes for which a graph is captured.

    Args:
        sizes: positive, ascending, without repetition; `BucketPlan.of` sorts and deduplicates. May
            be empty: then every step runs eagerly.
        max_batch: the largest batch that the scheduler will ever form (`max_num_seqs`), when known.

    Raises:
        PlanInputError: AI-GRAPH-001 when a size is not a positive integer or the order is wrong.
    """

    sizes: tuple[int, ...]
    max_batch: int | None = None

    def __post_init__(self) -> None:
        limits = () if self.max_batch is None else (self.max_batch,)
        for size in (*self.sizes, *limits):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise PlanInputError(
                    "AI-GRAPH-001",
                    f"a batch size of the plan is {size!r}",
                    rule="capture sizes and max_batch are integers of at least 1",
                    fix="remove the entry from the list of capture sizes",
                )
        if any(a >= b for a, b in zip(self.sizes, self.sizes[1:], strict=False)):
            raise PlanInputError(
                "AI-GRAPH-001",
                f"the capture sizes {list(self.sizes)} are not strictly ascending",
                fix="build the plan with BucketPlan.of(sizes), which sorts and removes repetitions",
            )

    @classmethod
    def of(cls, sizes: Iterable[int], *, max_batch: int | None = None) -> BucketPlan:
        """The plan of any list of sizes, in any order."""
        return cls(tuple(sorted(set(sizes))), max_batch)

    @classmethod
    def up_to(cls, max_batch: int, *, stride: int = 8) -> BucketPlan:
        """1, 2, 4, then every multiple of `stride` below `max_batch`, and `max_batch` itself."""
        ladder = [1, 2, 4, *range(stride, max_batch, stride)]
        return cls.of([*(s for s in ladder if s < max_batch), max_batch], max_batch=max_batch)

    @property
    def largest(self) -> int:
        """The largest capture size, 0 for an empty plan."""
        return self.sizes[-1] if self.sizes else 0

    @cached_property
    def capture_order(self) -> tuple[int, ...]:
        """Largest first: what the largest graph allocates, the smaller ones reuse from the pool."""
        return self.sizes[::-1]

    def bucket_for(self, batch_size: int) -> int | None:
        """The smallest capture size that holds `batch_size` rows; None when none does."""
        index = bisect.bisect_left(self.sizes, batch_size)
        return self.sizes[index] if index < len(self.sizes) else None

    def smallest_batch(self, bucket: int) -> int:
        """The smallest batch that `bucket` serves: one row more than the next smaller bucket."""
        index = self.sizes.index(bucket)
        return self.sizes[index - 1] + 1 if index else 1

    def padding(self, histogram: Mapping[int, int]) -> PaddingReport:
        """What the plan makes of `histogram`: batch size -> number of decode steps with that size.

        Steps with an empty batch compute nothing and are not counted.
        """
        steps, padded = (dict.fromkeys(self.sizes, 0) for _ in range(2))
        rows = eager = 0
        for batch_size, count in histogram.items():
            if batch_size == 0:
                continue
            bucket = self.bucket_for(batch_size)
            if bucket is None:
                eager += count
                continue
            steps[bucket] += count
            rows += batch_size * count
            padded[bucket] += (bucket - batch_size) * count
        return PaddingReport(
            rows=rows,
            padded_rows=sum(padded.values()),
            steps_by_bucket=steps,
            padded_by_bucket=padded,
            eager_steps=eager,
        )

    def warnings(self, histogram: Mapping[int, int] | None = None) -> tuple[PlanWarning, ...]:
        """What a user of this plan would want to know before serving with it."""
        return (*self._limit_warnings(), *self._gap_warnings(), *self._use_warnings(histogram))

    def _limit_warnings(self) -> Iterable[PlanWarning]:
        if self.max_batch is None:
            return
        top = self.bucket_for(self.max_batch)
        if top is None:
            yield PlanWarning(
                kind="largest-batch-not-captured",
                severity="error",
                message=(
                    f"batches of {self.largest + 1} to {self.max_batch} rows leave the graph: the "
                    f"largest capture size is {self.largest}; add {self.max_batch} to the sizes"
                ),
            )
            return
        if top != self.max_batch:
            yield PlanWarning(
                kind="largest-batch-not-captured",
                message=(
                    f"your largest batch, {self.max_batch}, is not a capture size and is padded to "
                    f"{top} on every step at full load; add {self.max_batch} to the sizes"
                ),
            )
        unreachable = [size for size in self.sizes if size > top]
        if unreachable:
            yield PlanWarning(
                kind="unreachable-bucket",
                message=(
                    f"the graphs for {unreachable} are captured and never replayed, because a "
                    f"batch has at most {self.max_batch} rows; remove them"
                ),
            )

    def _gap_warnings(self) -> Iterable[PlanWarning]:
        for bucket in self.sizes:
            smallest = self.smallest_batch(bucket)
            if bucket >= _GAP_WARNING_FROM and 2 * smallest < bucket:
                yield PlanWarning(
                    kind="wide-gap",
                    message=(
                        f"a batch of {smallest} is padded to {bucket}: more than half of the rows "
                        f"are padding; add a size near {(smallest + bucket) // 2}"
                    ),
                )

    def _use_warnings(self, histogram: Mapping[int, int] | None) -> Iterable[PlanWarning]:
        if not histogram:
            return
        report = self.padding(histogram)
        # The bucket of the largest batch is wanted although this histogram does not come to it.
        top = None if self.max_batch is None else self.bucket_for(self.max_batch)
        unused = [
            bucket
            for bucket, steps in report.steps_by_bucket.items()
            if not steps and bucket != top
        ]
        if unused:
            yield PlanWarning(
                kind="unused-bucket",
                message=f"no step of the histogram uses the graphs for {unused}; remove them",
            )
        if report.eager_steps:
            yield PlanWarning(
                kind="leaves-graph",
                severity="error",
                message=(
                    f"{report.eager_steps} steps of the histogram are larger than the largest "
                    f"capture size {self.largest} and run eagerly"
                ),
            )

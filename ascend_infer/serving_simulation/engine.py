"""The simulation: from event to event, with all decode steps between two events at once.

Between two events the batch stays as it is: nobody ends, nobody can be admitted, no block is
missing. The steps up to the next event are one `Stretch`, whose ends are a formula, so that the
cost of simulating does not depend on how many they are. A stretch of n steps is n decode steps:
each gives every live sequence one token at its own time.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

from ascend_infer.progress import Reporter, Silent
from ascend_infer.serving_simulation.paged_cache import PagedCache
from ascend_infer.serving_simulation.scheduler import BATCHINGS, Scheduler
from ascend_infer.serving_simulation.sequence import Sequence
from ascend_infer.serving_simulation.source import Source
from ascend_infer.serving_simulation.step_time import StepTime
from ascend_infer.serving_simulation.timeline import (
    PrefillStep,
    Stint,
    Stretch,
    Timeline,
    end_of,
    steps_until,
)
from ascend_infer.serving_simulation.workload import Workload

_NO_LIMIT = 1 << 60
#: Finished requests between two words to the reporter.
_REPORT_EVERY = 4096


class Engine:
    """One run over a workload; `run` gives the timeline.

    cache: holds what was counted of tokens. preemptions: sequences that were thrown out.
    """

    def __init__(
        self,
        workload: Workload,
        scheduler: Scheduler,
        step_time: StepTime,
        reporter: Reporter | None = None,
    ) -> None:
        self.source = Source(workload)
        self.timeline = Timeline()
        self.cache = PagedCache(scheduler.cache)
        self.preemptions = 0
        self._scheduler = scheduler
        self._step_time = step_time
        self._reporter = reporter or Silent()
        self._batching = BATCHINGS[scheduler.batching]
        size = scheduler.cache.block_size
        sharing = scheduler.cache.share_prefixes
        self._requests = list(
            zip(
                workload.prompt_tokens.tolist(),
                workload.output_tokens.tolist(),
                workload.prefixes.tolist() if sharing else [-1] * len(workload.prefixes),
                (workload.prefix_tokens // size).tolist(),
                strict=True,
            )
        )
        self._now = 0.0
        self._step = 0
        self._waiting: deque[Sequence] = deque()
        self._running: dict[int, Sequence] = {}  # in the order of admission
        self._prefilling: list[Sequence] = []
        self._endings: list[tuple[int, int, Sequence]] = []  # heap; entries may be outdated
        self._tick = 0
        self._live = 0
        self._context = 0
        self._held = 0
        self._over = 0

    def run(self) -> Timeline:
        """Until every request is finished or refused."""
        self._reporter.stage(self._scheduler.batching, total=len(self._requests))
        while True:
            self._arrive(self._now)
            if not (self._running or self._waiting):
                if self.source.next_time == math.inf:
                    break
                self._now = max(self._now, self.source.next_time)
                continue
            while self.cache.is_short(self._step):
                self._preempt()
            chunks = self._compose()
            if chunks:
                self._prefill(chunks)
            elif self._live:
                self._decode()
        self._reporter.step(self._over)
        return self.timeline

    # ---------------------------------------------------------------------------- admission

    def _arrive(self, until: float) -> None:
        """Requests that came up to a time, with slots as they are."""
        if self.source.next_time > until:
            return
        limit = self._scheduler.max_waiting
        free = self._free_slots()
        while self.source.next_time <= until:
            arrived = self.source.next_time
            index = self.source.pop()
            prompt, target, prefix, prefix_blocks = self._requests[index]
            if not self.cache.could_hold(prompt, target):
                self._refuse(index, arrived, "longer than the KV cache")
            elif limit is not None and len(self._waiting) >= limit + free:
                self._refuse(index, arrived, "too many waiting")
            else:
                self._waiting.append(Sequence(index, prompt, target, prefix, prefix_blocks))

    def _arrive_before_now(self) -> None:
        """Requests that came during a step find the slots that were free then."""
        if self._scheduler.max_waiting is not None:
            self._arrive(math.nextafter(self._now, -math.inf))

    def _free_slots(self) -> int:
        if self._batching.static and self._running:
            return 0
        return self._scheduler.slots - len(self._running)

    def _refuse(self, index: int, time: float, why: str) -> None:
        self.timeline.refused[index] = why
        self._count_over(time)

    def _count_over(self, time: float) -> None:
        self.source.over(time)
        self._over += 1
        if self._over % _REPORT_EVERY == 0:
            self._reporter.step(self._over)

    def _compose(self) -> list[tuple[Sequence, int]]:
        """The prompt tokens of the next step: of sequences under way, then of admitted ones."""
        if not self._prefilling and not (self._waiting and self._free_slots()):
            return []
        budget = self._scheduler.token_budget - self._live if self._batching.mixed else _NO_LIMIT
        chunks = []
        for sequence in self._prefilling:
            if not budget:
                break
            tokens = min(sequence.goal - sequence.computed, budget)
            budget -= tokens
            chunks.append((sequence, tokens))
        if not self._waiting or not self._free_slots():
            return chunks
        slots = self._scheduler.slots
        while budget and self._waiting and len(self._running) < slots:
            if not self.cache.admit(self._waiting[0], self._step, alone=not self._running):
                break
            sequence = self._waiting.popleft()
            self._running[sequence.index] = sequence
            self._prefilling.append(sequence)
            tokens = min(sequence.goal - sequence.computed, budget)
            budget -= tokens
            chunks.append((sequence, tokens))
        if self._batching.static:
            self._held = len(self._running)
        return chunks

    # -------------------------------------------------------------------------------- steps

    def _prefill(self, chunks: list[tuple[Sequence, int]]) -> None:
        """One step with these prompt tokens, and with decoding where steps are mixed."""
        parts = [(tokens, sequence.computed) for sequence, tokens in chunks]
        live = self._live if self._batching.mixed else 0
        if live:
            step = (live, live, self._context + live)
            seconds = self._step_time.decode(*step) + self._step_time.prefill(parts, *step)
            if self._scheduler.buckets is not None:
                seconds += self._scheduler.eager_seconds
            self._advance(1, seconds, 0.0, mixed=True)
        else:
            start = self._now
            self._now += self._step_time.prefill(parts, 0, 0, 0)
            self._arrive_before_now()
            self.timeline.prefills.append(PrefillStep(start, self._now, self.cache.used))
        ready = []
        for sequence, tokens in chunks:
            sequence.computed += tokens
            if sequence.computed == sequence.goal:
                ready.append(sequence)
        if len(ready) == len(self._prefilling):
            self._prefilling.clear()
        else:
            self._prefilling = [s for s in self._prefilling if s.computed < s.goal]
        for sequence in ready:
            self._begin_decoding(sequence)

    def _begin_decoding(self, sequence: Sequence) -> None:
        """Its prompt is in the cache and its first token, or next one, is there."""
        self.cache.begin(sequence, self._step)
        sequence.emitted += 1
        sequence.first_token = self._now
        sequence.begin = self._step
        sequence.finish = self._step + sequence.target - sequence.emitted
        self._live += 1
        self._context += sequence.goal
        if sequence.finish == self._step:
            self._finish(sequence)
            return
        self._tick += 1
        heapq.heappush(self._endings, (sequence.finish, self._tick, sequence))

    def _line(self, steps: int) -> tuple[float, float]:
        """Seconds of the next decode step, and how much longer each of `steps` takes than the one
        before."""
        live, plan = self._live, self._scheduler.buckets
        rows = self._held if self._batching.static else live
        extra = 0.0
        if plan is not None:
            bucket = plan.bucket_for(rows)
            rows, extra = (bucket, extra) if bucket else (rows, self._scheduler.eager_seconds)
        first = self._step_time.decode(rows, live, self._context + live)
        if steps == 1:
            return first + extra, 0.0
        last = self._step_time.decode(rows, live, self._context + steps * live)
        return first + extra, (last - first) / (steps - 1)

    def _decode(self) -> None:
        """Decode steps up to the next event."""
        endings = self._endings
        while endings[0][2].finish != endings[0][0]:
            heapq.heappop(endings)
        steps = endings[0][0] - self._step
        first, longer = self._line(steps)
        arrival = self.source.next_time
        if arrival != math.inf and not self._waiting and self._free_slots():
            steps = steps_until(arrival, self._now, first, longer, steps)
        self._advance(self.cache.affordable(self._step, steps), first, longer)

    def _advance(self, steps: int, first: float, longer: float, *, mixed: bool = False) -> None:
        """`steps` decode steps, then those end whose last token came."""
        live, start, used = self._live, self._now, self.cache.used
        new = self.cache.grow(self._step, steps)
        rows = self._held if self._batching.static else live
        self.timeline.stretches.append(
            Stretch(start, first, longer, steps, live, rows, mixed, used, used + new)
        )
        self._now = end_of(start, first, longer, steps)
        self._arrive_before_now()
        self._step += steps
        self._context += steps * live
        endings = self._endings
        while endings and endings[0][0] <= self._step:
            finish, _, sequence = heapq.heappop(endings)
            if sequence.finish == finish:
                self._finish(sequence)

    # ------------------------------------------------------------------------- end of a stay

    def _finish(self, sequence: Sequence) -> None:
        del self._running[sequence.index]
        self._stop_decoding(sequence)
        self._count_over(self._now)

    def _preempt(self) -> None:
        """Take the last admitted sequence out; it waits in front and computes everything anew."""
        _, sequence = self._running.popitem()
        self.preemptions += 1
        if sequence.finish < 0:
            self.cache.lose(sequence, sequence.computed)
            self.cache.release(sequence)
            self._prefilling.remove(sequence)
        else:
            self.cache.lose(sequence, sequence.goal + self._step - sequence.begin)
            self._stop_decoding(sequence)
        sequence.goal = sequence.prompt + sequence.emitted
        self._waiting.appendleft(sequence)

    def _stop_decoding(self, sequence: Sequence) -> None:
        decoded = self._step - sequence.begin
        stint = Stint(sequence.first_token, sequence.begin, self._step)
        self.timeline.stints.setdefault(sequence.index, []).append(stint)
        sequence.emitted += decoded
        sequence.finish = -1
        self._live -= 1
        context = sequence.goal + decoded
        self._context -= context
        self.cache.end(sequence, context)

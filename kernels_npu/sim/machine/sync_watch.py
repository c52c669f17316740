"""Finds flags and barriers that tell nothing new: what they order is ordered without them.

While a kernel runs for the first time, each core counts what every pipe knows of the work of the
others, in instructions. A wait or a barrier from which, in all its executions, no pipe learns of
work that it did not know of could be taken out. As soon as all of a core's are known to be of use,
or were looked at often enough, nothing is counted any more; nor after many executions in all, when
those that were seen too seldom are left unjudged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from kernels_npu.sim import ir
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.machine.sites import Site

#: Executions of a wait or barrier after which it is no longer looked at.
ENOUGH = 256

#: Executions of all waits and barriers of a core after which it is no longer looked at.
ENOUGH_IN_ALL = 32 * ENOUGH

#: Pipes whose work is counted; what the scalar unit does is not.
_PIPES = ("MTE1", "MTE2", "MTE3", "M", "V", "FIX")
_INDEX = {pipe: index for index, pipe in enumerate(_PIPES)}

Work = list[int]


class SyncWatch:
    """The waits and barriers of one core. counts: executions per site of the core's program."""

    def __init__(self, sites: Sequence[Site], counts: list[int]) -> None:
        self._sites = sites
        self._counts = counts
        self._of_pipe = [[s.index for s in sites if s.pipe == pipe] for pipe in _PIPES]
        #: the vector unit's flags cover the scalar unit, whose work is not counted
        self._uncounted = any(s.element for s in sites)
        self._known: list[Work] = [[0] * len(_PIPES) for _ in _PIPES]
        #: what a flag carries, and the site that set it
        self._flags: dict[tuple[str, str, int], deque[tuple[Work, int]]] = {}
        #: sites of the flags that a wait has met
        self._met: dict[int, set[int]] = {}
        self._executions: dict[int, int] = {}
        self._left = ENOUGH_IN_ALL
        self._undecided = {
            s.index
            for s in sites
            if (
                isinstance(s.stmt, ir.WaitFlag)
                and s.stmt.src != "S"
                and s.stmt.dst != "S"
                and not (s.stmt.src == "V" and self._uncounted)
            )
            or isinstance(s.stmt, ir.PipeBarrier)
        }

    @property
    def done(self) -> bool:
        """Whether nothing is left to find out, or nothing more is to be."""
        return not self._undecided

    def start_block(self) -> None:
        """Everything before is over."""
        self._flags.clear()
        self._all_know()

    def set_flag(self, site: int, src: str, dst: str, event: int) -> None:
        """A flag is set at `site`: it carries what `src` has done and knows of."""
        if src != "S":
            queue = self._flags.setdefault((src, dst, event), deque())
            queue.append((self._release(src), site))

    def wait_flag(self, site: int, src: str, dst: str, event: int) -> None:
        """A flag is waited for at `site`."""
        queue = self._flags.get((src, dst, event))
        if not queue:
            self._undecided.discard(site)  # unpaired: reported as such
            return
        work, setter = queue.popleft()
        self._met.setdefault(site, set()).add(setter)
        if dst == "S":
            for known in self._known:
                _learn(known, work)
        else:
            self._decide(site, _learn(self._known[_INDEX[dst]], work))

    def fence(self, src: str, dst: str) -> None:
        """A set and wait inside an operation."""
        if src == "S":
            return
        work = self._release(src)
        for pipe in _PIPES if dst == "S" else (dst,):
            _learn(self._known[_INDEX[pipe]], work)

    def barrier(self, site: int = -1) -> None:
        """All pipes drain; at `site` when the program says so itself."""
        before, work = self._known, self._all_know()
        if site >= 0 and self._undecided:
            news = any(
                known[other] < work[other]
                for index, known in enumerate(before)
                for other in range(len(_PIPES))
                if other != index
            )
            self._decide(site, news or self._uncounted)

    def useless(self) -> Iterator[tuple[ir.Stmt, int]]:
        """Statements that told nothing new, with how often they were looked at.

        A wait counts only if it has met every T.set_flag of its event: a loop that ends after one
        iteration has waited for nothing but the flags that were set before it.
        """
        for site, count in self._executions.items():
            if self._sets_of(site) <= self._met.get(site, set()):
                yield self._sites[site].stmt, count

    def _sets_of(self, site: int) -> set[int]:
        wait = self._sites[site].stmt
        if not isinstance(wait, ir.WaitFlag):
            return set()
        event = format_expr(wait.event_id)
        return {
            s.index
            for s in self._sites
            if isinstance(s.stmt, ir.SetFlag)
            and (s.stmt.src, s.stmt.dst) == (wait.src, wait.dst)
            and format_expr(s.stmt.event_id) == event
        }

    def useful(self) -> Iterator[ir.Stmt]:
        """Waits and barriers that are of use, or that were not judged."""
        for site in self._sites:
            if isinstance(site.stmt, (ir.WaitFlag, ir.PipeBarrier)):
                if site.index not in self._executions and site.index not in self._undecided:
                    yield site.stmt

    def _decide(self, site: int, news: bool) -> None:
        self._left -= 1
        if self._left == 0:
            for seldom in self._undecided:
                self._executions.pop(seldom, None)
            self._undecided.clear()
        if site not in self._undecided:
            return
        if news:
            self._undecided.discard(site)
            self._executions.pop(site, None)
            return
        self._executions[site] = self._executions.get(site, 0) + 1
        if self._executions[site] >= ENOUGH:
            self._undecided.discard(site)

    def _work(self, index: int) -> int:
        return sum(map(self._counts.__getitem__, self._of_pipe[index]))

    def _release(self, pipe: str) -> Work:
        index = _INDEX[pipe]
        work = self._known[index].copy()
        work[index] = self._work(index)
        return work

    def _all_know(self) -> Work:
        """Every pipe has seen the work of every other one, which is the result."""
        work = [self._work(index) for index in range(len(_PIPES))]
        self._known = [work.copy() for _ in _PIPES]
        return work


def _learn(known: Work, work: Work) -> bool:
    """Join `work` into `known`; whether that told anything new."""
    news = False
    for index, count in enumerate(work):
        if count > known[index]:
            known[index] = count
            news = True
    return news

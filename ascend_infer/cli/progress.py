"""A progress bar on a terminal; silence elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ascend_infer.progress import Reporter, Silent

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class _Bar:
    """Shows one line per stage."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def stage(self, name: str, total: int | None = None) -> None:
        self.finish()
        self._task = self._progress.add_task(name, total=total)

    def step(self, done: int | None = None) -> None:
        if self._task is None:
            return
        if done is None:
            self._progress.advance(self._task)
        else:
            self._progress.update(self._task, completed=done)

    def finish(self) -> None:
        """Mark the present stage as complete, however many units it took."""
        if self._task is not None:
            task = self._progress.tasks[-1]
            self._progress.update(
                self._task, total=task.completed or 1, completed=task.completed or 1
            )


@contextlib.contextmanager
def bar(*, enabled: bool) -> Iterator[Reporter]:
    """A reporter for the body: a bar on standard error when that is a terminal."""
    if not (enabled and sys.stderr.isatty()):
        yield Silent()
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError:
        yield Silent()
        return

    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        shown = _Bar(progress)
        yield shown
        shown.finish()

"""Watching which kernels a program makes, without launching any: what `lint` listens to."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kernels_npu.sim.frontend.entry import PrimFuncObject
    from kernels_npu.sim.frontend.jit import JITFactory, JITKernel


class Collector(Protocol):
    """What a listener offers. Its answers take the place of launches and of failed factories."""

    def parsed(self, func: PrimFuncObject) -> None:
        """A prim_func was parsed."""

    def made(self, kernel: JITKernel) -> None:
        """A kernel was made of a prim_func, by a factory or by `tilelang.compile`."""

    def defined(self, factory: JITFactory) -> None:
        """`@tilelang.jit` decorated a function."""

    def called(self, factory: JITFactory, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A factory is called; returns the kernel, or what stands for it when it failed."""

    def launched(self, kernel: JITKernel, args: tuple[Any, ...]) -> Any:
        """A kernel is called; returns what stands for its outputs."""


_collector: contextvars.ContextVar[Collector | None] = contextvars.ContextVar(
    "kernel_collector", default=None
)


def collector() -> Collector | None:
    """The listener of this context; with one, nothing is launched."""
    return _collector.get()


@contextlib.contextmanager
def collecting(listener: Collector) -> Iterator[None]:
    """Report every kernel that the body makes to `listener`."""
    token = _collector.set(listener)
    try:
        yield
    finally:
        _collector.reset(token)

"""Runs a file's module level and records the kernels that come into being."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernels_npu.errors import AscendInferError, SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.frontend.entry import PrimFuncObject
from kernels_npu.sim.frontend.jit import JITFactory, JITKernel
from kernels_npu.sim.lint.inert import INERT, DataFree, is_unknown
from kernels_npu.sim.passes.rewriting import static_int


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A kernel to check, or the error that kept it from being made."""

    made_by: str
    loc: SourceLocation | None
    kernel: JITKernel | None = None
    error: AscendInferError | None = None


@dataclass
class Recorder:
    """Collects kernels; see `kernels_npu.sim.frontend.collection.Collector`."""

    data: DataFree
    candidates: list[Candidate] = field(default_factory=list)
    factories: list[JITFactory] = field(default_factory=list)
    instantiated: set[int] = field(default_factory=set)
    unknown_calls: dict[int, str] = field(default_factory=dict)
    _prim_funcs: dict[int, PrimFuncObject] = field(default_factory=dict)
    _calls: list[str] = field(default_factory=list)
    _rejected: dict[tuple[int, str], AscendInferError] = field(default_factory=dict)

    def parsed(self, func: PrimFuncObject) -> None:
        """Remember it: nobody may make a kernel of it."""
        self._prim_funcs[id(func.ir)] = func

    def made(self, kernel: JITKernel) -> None:
        """A kernel to check."""
        self._prim_funcs.pop(id(kernel.prim_func), None)
        made_by = self._calls[-1] if self._calls else "tilelang.compile"
        self.candidates.append(Candidate(made_by=made_by, loc=kernel.prim_func.loc, kernel=kernel))

    def defined(self, factory: JITFactory) -> None:
        """A factory, which something may call."""
        self.factories.append(factory)

    def called(self, factory: JITFactory, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Build the kernel; an error is recorded once, and the caller goes on without it."""
        self.data.renew()
        text = call_text(factory.func.__name__, args, kwargs)
        if is_unknown((args, dict(kwargs))):
            self.unknown_calls[id(factory)] = text
            return INERT
        if (id(factory), text) in self._rejected:
            return INERT
        self._calls.append(text)
        try:
            kernel = factory.build(*args, **kwargs)
            self.instantiated.add(id(factory))
            return kernel
        except AscendInferError as error:
            self.instantiated.add(id(factory))
            self._rejected[id(factory), text] = error
            self.candidates.append(Candidate(made_by=text, loc=location_of(factory), error=error))
            return INERT
        finally:
            self._calls.pop()

    def launched(self, kernel: JITKernel, args: tuple[Any, ...]) -> Any:
        """Outputs without data."""
        self.data.renew()
        outputs = [_output(kernel.prim_func.params[index]) for index in kernel.out_idx]
        return outputs[0] if len(outputs) == 1 else outputs

    def open_factories(self, file: str) -> list[JITFactory]:
        """The factories of `file` that have made no kernel yet."""
        return [
            factory
            for factory in self.factories
            if id(factory) not in self.instantiated and location_of(factory).file == file
        ]

    def leftovers(self) -> list[PrimFuncObject]:
        """The prim_funcs that no kernel was made of."""
        return list(self._prim_funcs.values())


def call_text(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """A factory call as its author would write it."""
    parts = [repr(a) for a in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    return f"{name}({', '.join(parts)})"


def location_of(factory: JITFactory) -> SourceLocation:
    """The line of the factory's definition."""
    code = factory.func.__code__
    return SourceLocation(code.co_filename, code.co_firstlineno)


def _output(param: ir.Buffer | ir.Var) -> Any:
    """A tensor without data, when its shape is known."""
    assert isinstance(param, ir.Buffer)
    shape = [static_int(extent) for extent in param.shape]
    if any(extent is None for extent in shape):
        return INERT
    try:
        import torch
    except ImportError:
        return INERT
    dtype = getattr(torch, param.dtype, None)
    return (
        INERT if dtype is None else torch.empty([e or 0 for e in shape], dtype=dtype, device="meta")
    )

"""`tilelang.jit` and `tilelang.compile`: kernels that can be called with tensors."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.collection import collector
from kernels_npu.sim.frontend.diagnostics import at, fail
from kernels_npu.sim.frontend.entry import PrimFuncObject
from kernels_npu.sim.frontend.jit_options import (
    execution_backend_of,
    freeze,
    parameter_positions,
    refuse,
)
from kernels_npu.sim.frontend.pass_config import normalize
from kernels_npu.sim.frontend.values import describe

if TYPE_CHECKING:
    from kernels_npu.sim.frontend.profiler import Profiler
    from kernels_npu.sim.machine import CompiledKernel

TARGETS = ("auto", "ascendc", "pto")

#: What `target="auto"` means; `sim run --target` sets it for the script that it runs.
auto_target = "ascendc"


class JITKernel:
    """A kernel ready to be called.

    Attributes:
        prim_func: the IR.
        params: tensors and scalars in the order of the signature.
        out_idx, workspace_idx: non-negative positions that a call allocates.
        target: `ascendc` or `pto`.
        pass_configs: options by string key.
        config, latency, ref_latency: what `tilelang.autotune` chose and found; None without it.

    Raises:
        KernelSourceError: AI-SRC-036 for positions, targets or options that do not exist.
    """

    def __init__(
        self,
        func: PrimFuncObject | ir.PrimFunc,
        out_idx: Sequence[int] | int | None = None,
        workspace_idx: Sequence[int] | int | None = None,
        execution_backend: str = "cython",
        target: Any = "auto",
        target_host: Any = None,
        platform: str = "auto",
        verbose: bool = False,
        pass_configs: Mapping[Any, Any] | None = None,
    ) -> None:
        del target_host
        if not isinstance(func, (PrimFuncObject, ir.PrimFunc)):
            fail(
                "AI-SRC-036",
                f"a kernel is made from {describe(func)}",
                rule="the factory returns a @T.prim_func",
                fix="return the decorated function",
            )
        self._text = func.source if isinstance(func, PrimFuncObject) else None
        self.prim_func = func.ir if isinstance(func, PrimFuncObject) else func
        with at(self.prim_func.loc):
            self.target = _target(target)
            self.execution_backend = execution_backend_of(execution_backend)
            self.out_idx = parameter_positions("out_idx", out_idx, self.prim_func)
            self.workspace_idx = parameter_positions("workspace_idx", workspace_idx, self.prim_func)
            self.pass_configs = normalize(pass_configs)
        self.platform = platform
        self.verbose = verbose
        self.config: Mapping[str, Any] | None = None
        self.latency: float | None = None
        self.ref_latency: float | None = None
        self._compiled: dict[str, CompiledKernel] = {}
        self._lock = threading.Lock()
        if (listener := collector()) is not None:
            listener.made(self)

    @property
    def params(self) -> tuple[ir.Buffer | ir.Var, ...]:
        """Tensors and scalars in the order of the signature."""
        return self.prim_func.params

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel compiled for the SoC of the current configuration; compiled on first use."""
        from kernels_npu.sim.config import current_config
        from kernels_npu.sim.machine import compile_kernel
        from kernels_npu.sim.soc import get_soc

        soc = get_soc(current_config().soc)
        with self._lock:
            if soc.name not in self._compiled:
                self._compiled[soc.name] = compile_kernel(
                    self.prim_func, target=self.target, pass_configs=self.pass_configs, soc=soc
                )
            return self._compiled[soc.name]

    def __call__(self, *args: Any, stream: Any = None) -> Any:
        """Launch on the current (or given) stream; returns the tensors of `out_idx`."""
        if (listener := collector()) is not None:
            return listener.launched(self, args)
        from kernels_npu.sim.device.launch import call_jit_kernel

        return call_jit_kernel(self, args, stream)

    def __repr__(self) -> str:
        return f"<JITKernel {self.prim_func.name} for {self.target} at {self.prim_func.loc}>"

    def get_kernel_source(self) -> str:
        """The user's text: the simulated NPU executes it and generates no AscendC."""
        text = self._text or self.script()
        return f"// executed by the simulated NPU from this source; no AscendC is generated\n{text}"

    def get_host_source(self) -> str:
        """There is no host source; see `get_kernel_source`."""
        return "// the simulated NPU launches kernels directly; there is no host source\n"

    def script(self) -> str:
        """The kernel after parsing, as readable text."""
        from kernels_npu.sim.ir_printer import format_func

        return format_func(self.prim_func)

    def get_profiler(self, tensor_supply_type: Any = None) -> Profiler | Any:
        """Checks against a reference, and benchmarks that count modelled cycles."""
        if (listener := collector()) is not None:
            return listener.launched(self, ())
        from kernels_npu.sim.frontend.profiler import Profiler, supply_type_of

        return Profiler(self, supply_type_of(tensor_supply_type))

    def update_tuner_result(
        self, latency: float, config: Mapping[str, Any], ref_latency: float
    ) -> JITKernel:
        """Note what the tuner found out about this kernel; returns it."""
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        """`latency`, `config` and `ref_latency` of a tuned kernel; neither latency is a time.

        Raises:
            KernelSourceError: AI-SRC-036 for a kernel that was not tuned.
        """
        if self.config is None:
            fail(
                "AI-SRC-036",
                f"{self.prim_func.name} was not tuned",
                rule="only a kernel that tilelang.autotune chose has a tuner's result",
                fix="leave the tunables open when you call the factory",
            )
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}

    def export_library(self, kernel_file: str) -> None:
        """Not available: there is no device library."""
        refuse(f"JITKernel.export_library({kernel_file!r})", "no device library is generated")


def _target(target: Any) -> str:
    if target not in TARGETS:
        fail(
            "AI-SRC-036",
            f"target={target!r}",
            rule="targets of the adapter dialect are "
            + ", ".join(TARGETS)
            + "; mainline's are others",
            fix='use target="ascendc" or "pto"',
        )
    return auto_target if target == "auto" else str(target)


def compile(func: Any = None, **options: Any) -> JITKernel:
    """`tilelang.compile(func, out_idx=..., workspace_idx=..., target=..., pass_configs=...)`.

    Raises:
        AscendInferError: what the compiler rejects, and AI-SRC-036 for options it does not have.
    """
    try:
        kernel = JITKernel(func, **options)
    except TypeError as exc:
        fail(
            "AI-SRC-036",
            f"tilelang.compile: {exc}",
            rule="options are out_idx, workspace_idx, execution_backend, target, target_host, "
            "platform, verbose, pass_configs; `compile_flags` is mainline's",
            fix="remove the unknown option",
        )
    return _built(kernel)


def _built(kernel: JITKernel) -> JITKernel:
    """`kernel`, compiled now: what the compiler rejects is an error of the factory's call."""
    if collector() is None:
        _ = kernel.compiled
    return kernel


class JITFactory:
    """`@tilelang.jit`: calling it builds the kernel for these arguments, once.

    Attributes:
        func: the user's factory.
        options: what `tilelang.jit(...)` was given.
    """

    def __init__(self, func: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.func = func
        self.options = dict(options)
        self._kernels: dict[Hashable, JITKernel] = {}
        self._lock = threading.RLock()
        functools.update_wrapper(self, func)
        # The name under which scripts find the options of a decorated factory upstream.
        self.__jit_impl__ = SimpleNamespace(func=func, **self.options)
        if (listener := collector()) is not None:
            listener.defined(self)

    def __call__(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments."""
        if (listener := collector()) is not None:
            kernel: JITKernel = listener.called(self, args, kwargs)
            return kernel
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments, also while kernels are collected."""
        tuned = kwargs.pop("__tune_params", {})
        key = (freeze(args), freeze(kwargs))
        with self._lock:
            if key not in self._kernels:
                program = self.func(*args, **kwargs, **tuned)
                self._kernels[key] = _built(JITKernel(program, **self.options))
            return self._kernels[key]


def jit(
    func: Callable[..., Any] | None = None,
    *,
    out_idx: Any = None,
    workspace_idx: Any = None,
    target: Any = "auto",
    target_host: Any = None,
    platform: str = "auto",
    execution_backend: str = "cython",
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    debug_root_path: str | None = None,
    **unknown: Any,
) -> Any:
    """`@tilelang.jit` or `@tilelang.jit(out_idx=..., ...)` on a function that returns a prim_func.

    Raises:
        KernelSourceError: AI-SRC-036 for options that the adapter's `jit` does not have. Errors of
            the kernel are raised when the factory is called, with the kernel's file and line.
    """
    del debug_root_path
    if unknown:
        fail(
            "AI-SRC-036",
            f"tilelang.jit has no option {', '.join(sorted(unknown))}",
            rule="options are out_idx, workspace_idx, target, target_host, platform, "
            "execution_backend, verbose, pass_configs, debug_root_path; "
            "`compile_flags` is mainline's",
            fix="remove the option",
        )
    _target(target), execution_backend_of(execution_backend)
    options = {
        "out_idx": out_idx,
        "workspace_idx": workspace_idx,
        "target": target,
        "target_host": target_host,
        "platform": platform,
        "execution_backend": execution_backend,
        "verbose": verbose,
        "pass_configs": normalize(pass_configs),
    }
    if func is None:
        return lambda decorated: JITFactory(decorated, options)
    if isinstance(func, PrimFuncObject) or not callable(func):
        fail(
            "AI-SRC-036",
            f"tilelang.jit decorates {describe(func)}",
            rule="tilelang.jit decorates the factory that returns the prim_func",
            fix="use tilelang.compile(prim_func, ...), or wrap it in a factory",
        )
    return JITFactory(func, options)

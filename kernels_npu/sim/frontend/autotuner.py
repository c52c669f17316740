"""`tilelang.autotune`: the configuration of a kernel that the cost model prefers.

On a device the fastest configuration wins. Here there is no time: each configuration is compiled,
launched once under all checks and compared with the reference, and among those that are right the
one with the fewest modelled cycles is taken (evidence: modelled). Measure on a device before you
rely on the choice.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from kernels_npu.errors import AscendInferError
from kernels_npu.sim.frontend.collection import collector
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.jit import JITFactory, JITKernel
from kernels_npu.sim.frontend.jit_options import freeze
from kernels_npu.sim.frontend.profiler import Profiler, do_bench, supply_type_of
from kernels_npu.sim.no_time import NoTime
from kernels_npu.sim.reporting import trial_launches

_log = logging.getLogger(__name__)
_given_inputs: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar(
    "autotune_inputs", default=None
)
Config = Mapping[str, Any]


@contextlib.contextmanager
def set_autotune_inputs(*tensors: Any) -> Iterator[None]:
    """Tune on these inputs, given one by one or as a list, inside the `with` block."""
    single = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
    token = _given_inputs.set(list(tensors[0]) if single else list(tensors))
    try:
        yield
    finally:
        _given_inputs.reset(token)


@dataclass(frozen=True, kw_only=True)
class Examination:
    """How a configuration is judged; the options of `tilelang.autotune` of these names."""

    supply_type: Any = None
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None

    def cost(self, kernel: JITKernel) -> NoTime:
        """The modelled cycles of one launch of `kernel`.

        Raises:
            AssertionError: its result is not the reference's.
        """
        profiler = Profiler(kernel, supply_type_of(self.supply_type))
        inputs = self._inputs(profiler)
        if self.skip_check or self.ref_prog is None:
            return _single(profiler.do_bench(input_tensors=inputs))
        expected = self.ref_prog(*inputs)  # first: the kernel may work in place

        def check() -> None:
            if self.manual_check_prog is not None:
                profiler.manual_assert_close(lambda *_: expected, inputs, self.manual_check_prog)
            else:
                profiler.assert_allclose(
                    lambda *_: expected,
                    inputs,
                    atol=self.atol,
                    rtol=self.rtol,
                    max_mismatched_ratio=self.max_mismatched_ratio,
                )

        return _single(do_bench(check))

    def _inputs(self, profiler: Profiler) -> list[Any]:
        given = _given_inputs.get()
        if given is not None:
            return given
        return profiler.inputs() if self.supply_prog is None else self.supply_prog(profiler.params)


def _single(cost: NoTime | list[NoTime]) -> NoTime:
    return cost[0] if isinstance(cost, list) else cost


class TunedFactory:
    """A factory whose tunables may be left open."""

    def __init__(self, factory: JITFactory, configs: Any, examination: Examination) -> None:
        self.factory = factory
        self.configs = configs
        self.examination = examination
        self._signature = inspect.signature(factory.func)
        self._chosen: dict[Any, JITKernel] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments; tuned when they leave the tunables open."""
        configs = list(_resolve(self.configs, args, kwargs))
        if not configs:
            _refuse(self._name, "there is no configuration", "give configs at least one entry")
        tunables = set().union(*configs)
        unknown = sorted(tunables - set(self._signature.parameters))
        if unknown:
            _refuse(
                self._name,
                f"configs set {', '.join(unknown)}, which it does not take",
                "name parameters of the factory",
            )
        if tunables & set(self._signature.bind_partial(*args, **kwargs).arguments):
            return self.factory(*args, **kwargs)
        if collector() is not None:  # every configuration is looked at, none is launched
            kernels = [self.factory(*args, **kwargs, **config) for config in configs]
            return kernels[0]
        key = (freeze(args), freeze(kwargs))
        if key not in self._chosen:
            self._chosen[key] = self._tune(configs, args, kwargs)
        return self._chosen[key]

    @property
    def _name(self) -> str:
        return str(getattr(self.factory.func, "__name__", "the factory"))

    def _tune(
        self, configs: Sequence[Config], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> JITKernel:
        best: tuple[NoTime, Config, JITKernel] | None = None
        refused: list[str] = []
        for config in configs:
            try:
                kernel = self.factory(*args, **kwargs, **config)
                with trial_launches() as launches:
                    cost = self.examination.cost(kernel)
            except (AscendInferError, AssertionError) as error:
                # What is wrong with a configuration is no finding about the one that is taken.
                reason = str(error).partition("\n")[0]
                _log.warning("%s %s: not taken: %s", self._name, dict(config), reason)
                refused.append(f"{dict(config)}: {reason}")
                continue
            launches.accept()
            _log.info("%s %s: %s", self._name, dict(config), cost)
            if best is None or cost < best[0]:
                best = cost, config, kernel
        if best is None:
            _refuse(
                self._name,
                "no configuration compiles and gives the reference's result: " + "; ".join(refused),
                "correct the kernel, or add configurations that fit",
            )
        cost, config, kernel = best
        return kernel.update_tuner_result(cost, dict(config), NoTime(0))


def _refuse(name: str, what: str, fix: str) -> NoReturn:
    fail(
        "AI-SRC-038",
        f"tilelang.autotune of {name}: {what}",
        rule="a configuration gives values to parameters of the factory that the call leaves open",
        fix=fix,
    )


def _resolve(configs: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Config]:
    """The configurations; a callable gets the factory's arguments as a tuple and as pairs."""
    if not callable(configs):
        return configs or ()
    both = (args, tuple(sorted(kwargs.items())))
    try:
        inspect.signature(configs).bind(*both)
    except TypeError:
        return configs() or ()
    return configs(*both) or ()


def autotune(
    func: Any = None,
    *,
    configs: Any,
    warmup: int = 25,
    rep: int = 100,
    timeout: int = 100,
    cache_input_tensors: bool = False,
    **examination: Any,
) -> Any:
    """`@tilelang.autotune(configs=...)` above `@tilelang.jit`.

    A call that leaves the tunables open returns the configuration of the fewest modelled cycles
    among those whose result is the reference's; see `Examination` for the other options.

    Raises:
        KernelSourceError: AI-SRC-036 for wrong use, AI-SRC-038 when no configuration is right.
    """
    del warmup, rep, timeout, cache_input_tensors
    judged = Examination(**examination)

    def decorate(factory: Any) -> TunedFactory:
        if not isinstance(factory, JITFactory):
            fail(
                "AI-SRC-036",
                f"tilelang.autotune decorates {factory!r}",
                rule="tilelang.autotune stands above tilelang.jit",
                fix="write @tilelang.autotune(configs=...) on the line above @tilelang.jit",
            )
        return TunedFactory(factory, configs, judged)

    return decorate if func is None else decorate(func)

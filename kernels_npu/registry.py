"""Which implementation of an operator runs, why, and how often: nothing falls back in silence.

The decision depends on the device (`cpu`: reference, or kernels after `simulate_on_cpu`; `cuda`:
Triton kernels in half precision, else reference; `npu`: the simulated device or torch_npu) and on
what the operator's kernel can serve. It is made once per kind of call, logged once with its reason,
and every launch is counted. What a kernel cannot serve is an error (strict, the default) or, in
`with strict(False):`, runs the reference on the same device, counted and warned about.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kernels_npu import cuda, dialect, reference
from kernels_npu.checking import different_devices
from kernels_npu.errors import EnvironmentProblem, UnsupportedError

logger = logging.getLogger(__name__)

_strict: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "strict", default=os.environ.get("ASCEND_INFER_STRICT", "1") != "0"
)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The implementation chosen for one kind of call.

    name: `npu`, `sim`, `triton` or `reference`. function: what runs. reason: one sentence.
    counted: launches are counted here; the simulated device counts its own, also at replay.
    unserved: why the kernel cannot serve the call, when the reference stands in for it.
    """

    name: str
    function: Callable[..., Any]
    reason: str
    counted: bool = True
    unserved: UnsupportedError | None = None


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator's implementations.

    name: as in `torch.ops.ascend_infer`.
    kernel: returns the function that launches the kernel; imported at the first use on an NPU.
    arguments: `(*arguments) -> None`, raises UsageError for a wrong call; before a decision and
        before the reference. The kernel's function checks its arguments itself.
    requires: `(*arguments) -> None`, raises UnsupportedError for a valid call that the kernel does
        not cover; called once per kind of call.
    kind: `(*arguments) -> what the decision depends on`, beside the device; for wrong calls too.
    parameters: names of the arguments.
    """

    name: str
    parameters: tuple[str, ...]
    kernel: Callable[[], Callable[..., Any]]
    arguments: Callable[..., None]
    requires: Callable[..., None]
    kind: Callable[..., Hashable]
    decisions: dict[Hashable, Decision] = field(default_factory=dict)

    def __call__(self, *args: Any) -> Any:
        key = (args[0].device.type, self.kind(*args))
        decision = self.decisions.get(key)
        if decision is None:
            decision = self.decisions[key] = self._decide(args)
        if decision.unserved is not None and _strict.get():
            raise _refused(self.name, decision.unserved)
        if decision.name in ("reference", "triton"):
            self.arguments(*args)
            self._require_one_device(args)
        result = decision.function(*args)
        if decision.counted:
            recorded = _recording.get()
            with _counting:
                (_counts if recorded is None else recorded)[self.name, decision.name] += 1
        return result

    def _require_one_device(self, args: tuple[Any, ...]) -> None:
        device = args[0].device
        for name, value in zip(self.parameters, args):
            if isinstance(value, torch.Tensor) and value.device != device:
                raise different_devices(self.name, name, value, self.parameters[0], args[0])

    def _decide(self, args: tuple[Any, ...]) -> Decision:
        self.arguments(*args)
        device = args[0].device.type
        reference_function = getattr(reference, self.name)
        fused = cuda.implementation(self.name, args) if device == "cuda" else None
        if fused is not None:
            decision = Decision(
                name="triton", function=fused, reason="tensors are on cuda, in half precision"
            )
        elif device == "npu" or (device == "cpu" and _cpu_is_simulated):
            decision = self._decide_npu(args, reference_function)
        elif device in ("cpu", "cuda"):
            decision = Decision(
                name="reference",
                function=reference_function,
                reason=f"tensors are on {device}, where references run",
            )
        else:
            raise UnsupportedError(
                "AI-OP-007",
                f"{self.name} has no implementation for device {device!r}",
                rule="kernels run on npu and cuda, references on cpu and cuda",
                fix="move the tensors to npu, cpu or cuda",
            )
        level = logging.WARNING if decision.unserved else logging.INFO
        logger.log(level, "%s runs as %s: %s", self.name, decision.name, decision.reason)
        return decision

    def _decide_npu(
        self, args: tuple[Any, ...], reference_function: Callable[..., Any]
    ) -> Decision:
        device = args[0].device.type
        simulated = device == "cpu" or dialect.device_is_simulated()
        try:
            self.requires(*args)
        except UnsupportedError as unserved:
            return Decision(
                name="reference",
                function=reference_function,
                reason=f"{unserved.code}: {unserved.what}",
                unserved=unserved,
            )
        if simulated:
            return Decision(
                name="sim",
                function=_kernel(self, simulated),
                reason="npu is the simulated device"
                if device == "npu"
                else "memory of the CPU is the simulated NPU's in this process",
                counted=False,
            )
        return Decision(
            name="npu", function=_kernel(self, simulated), reason="npu is torch_npu's device"
        )


Launches = Counter[tuple[str, str]]
_counting = threading.Lock()
_counts: Launches = Counter()
_recording: contextvars.ContextVar[Launches | None] = contextvars.ContextVar(
    "recording", default=None
)
_simulated_before: Counter[str] = Counter()
_cpu_is_simulated = False
OPERATORS: dict[str, Operator] = {}


def register(operator: Operator) -> Operator:
    """Make `operator` known under its name."""
    OPERATORS[operator.name] = operator
    return operator


def simulate_on_cpu() -> None:
    """From now on kernels serve CPU tensors too, on the simulated NPU and in the CPU's memory.

    For a process that cannot have the device `npu`: see `kernels_npu.sim.device.host_memory`.
    """
    global _cpu_is_simulated
    from kernels_npu.sim.device import host_memory

    host_memory.allow()
    _cpu_is_simulated = True
    for operator in OPERATORS.values():
        operator.decisions.clear()  # of references, for the same tensors


@contextlib.contextmanager
def strict(enabled: bool = True) -> Iterator[None]:
    """Inside, a call that a kernel cannot serve raises AI-OP-008; with False it runs the reference.

    Outside any such block it raises, unless ASCEND_INFER_STRICT=0 is set.
    """
    token = _strict.set(enabled)
    try:
        yield
    finally:
        _strict.reset(token)


@contextlib.contextmanager
def recording() -> Iterator[Launches]:
    """Around the capture of a graph: what launches inside is given to the caller, not counted.

    The caller says at each replay that it has happened (`count_launches`).
    """
    recorded: Launches = Counter()
    token = _recording.set(recorded)
    try:
        yield recorded
    finally:
        _recording.reset(token)


def count_launches(launches: Mapping[tuple[str, str], int]) -> None:
    """Count what the replay of a graph has launched, as `recording` gave it."""
    with _counting:
        _counts.update(launches)


def launch_counts() -> dict[tuple[str, str], int]:
    """(operator, implementation) -> launches since the last reset.

    Launches that really executed: eager and replayed ones, not captured ones. Replays are counted
    by the simulated device for its kernels, and by the runner of the graphs for everything else.
    """
    with _counting:
        counts = Counter(_counts)
        simulated = _simulated_launches() - _simulated_before
    for op, launches in simulated.items():
        counts[op, "sim"] += launches
    return dict(counts)


def reset_launch_counts() -> None:
    """Start counting from zero."""
    with _counting:
        _counts.clear()
        _simulated_before.clear()
        _simulated_before.update(_simulated_launches())


def _simulated_launches() -> Counter[str]:
    """Launches of our kernels on the simulated device, by operator."""
    counters = sys.modules.get("kernels_npu.sim.device.counters")
    if counters is None:
        return Counter()
    launches = counters.snapshot().launches
    return Counter({op: launches[op] for op in OPERATORS if launches.get(op)})


def _kernel(operator: Operator, simulated: bool) -> Callable[..., Any]:
    """The function that launches the kernel, built with the dialect that belongs to the device."""
    kernel = operator.kernel()
    if simulated != (dialect.name == "simulator"):
        device = "the simulated NPU" if simulated else "a real NPU"
        raise EnvironmentProblem(
            "AI-ENV-013",
            f"{operator.name}: the device is {device}, but kernels are built with the "
            f"{dialect.name}'s dialect",
            rule="the adapter's kernels run on a real NPU, the simulator's on the simulated one",
            fix="enable the simulated device before the first kernel, "
            f"or set {dialect.VARIABLE}=sim"
            if simulated
            else "install the adapter tilelang on this host, or choose --device sim",
        )
    return kernel


def _refused(op: str, unserved: UnsupportedError) -> UnsupportedError:
    return UnsupportedError(
        "AI-OP-008",
        f"{op}: no kernel serves this call ({unserved.code}: {unserved.what})",
        rule=unserved.rule
        or "a call that no kernel serves is an error unless fallbacks are allowed",
        fix=f"{unserved.fix}; or allow the reference with `with registry.strict(False):`",
    )


def is_strict() -> bool:
    """Whether a call that no kernel serves raises here."""
    return _strict.get()

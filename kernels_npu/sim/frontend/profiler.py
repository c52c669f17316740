"""`tilelang.profiler`: checks of a kernel against a reference, and benchmarks without time.

A simulator has no time. What scripts print as milliseconds is `NoTime` here, which knows the
modelled cycles of the launches that were made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernels_npu.sim.frontend.collection import collector
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.tensor_supply import KernelParam, TensorSupplyType, supply
from kernels_npu.sim.no_time import NoTime
from kernels_npu.sim.reporting import SimReport, collect_report

if TYPE_CHECKING:
    import torch

    from kernels_npu.sim.frontend.jit import JITKernel


def modelled_cycles(report: SimReport, cores: int) -> int:
    """Cycles of the busiest pipe of one core, summed over the launches of `report`.

    A launch of n blocks keeps a core busy for ceil(n / cores) of them.
    """
    total = 0.0
    for kernel in report.kernels.values():
        if not kernel.blocks:
            continue
        waves = math.ceil(kernel.blocks / kernel.launches / cores) * kernel.launches
        total += max(kernel.cycles.values(), default=0) / kernel.blocks * waves
    return round(total)


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    return_mode: str = "mean",
) -> NoTime | list[NoTime]:
    """Call `fn` once; the modelled cycles of its launches as `NoTime`, one per quantile if asked.

    Repetitions would count the same cycles again, so `warmup`, `rep` and what else concerns them
    has no effect.
    """
    del warmup, rep, _n_warmup, _n_repeat, fast_flush
    if return_mode not in ("min", "max", "mean", "median"):
        raise ValueError(f"return_mode must be min, max, mean or median, not {return_mode!r}")
    if collector() is not None:
        return NoTime(0)  # nothing is launched
    for tensor in grad_to_none or ():
        tensor.grad = None
    from kernels_npu.sim.config import current_config
    from kernels_npu.sim.soc import get_soc

    with collect_report() as report:
        fn()
    cost = NoTime(modelled_cycles(report, get_soc(current_config().soc).cube_cores))
    return [cost] * len(quantiles) if quantiles is not None and len(quantiles) > 1 else cost


class Profiler:
    """What `kernel.get_profiler()` returns."""

    def __init__(self, kernel: JITKernel, supply_type: TensorSupplyType) -> None:
        self.kernel = kernel
        self.supply_type = supply_type

    def __call__(self, *args: Any) -> Any:
        """Launch the kernel."""
        return self.kernel(*args)

    @property
    def params(self) -> list[KernelParam]:
        """The inputs of a call."""
        allocated = {*self.kernel.out_idx, *self.kernel.workspace_idx}
        return [KernelParam.of(p) for i, p in enumerate(self.kernel.params) if i not in allocated]

    def inputs(self) -> list[Any]:
        """Fresh random inputs of a call."""
        return [supply(param, self.supply_type) for param in self.params]

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Call the kernel, or `func`, with fresh inputs."""
        return (func or self.kernel)(*self.inputs())

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 1,
        n_repeat: int = 1,
        input_tensors: Sequence[Any] | None = None,
    ) -> NoTime | list[NoTime]:
        """See the function `do_bench`; of the kernel, or of `func` on the same inputs."""
        del warmup, rep, n_warmup, n_repeat
        inputs = self.inputs() if input_tensors is None else input_tensors
        return do_bench(lambda: (func or self.kernel)(*inputs))

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Raise AssertionError unless the kernel's outputs are those of `reference_program`.

        max_mismatched_ratio: part of the elements of an output that may be off.
        """
        found, expected = self._outputs(reference_program, input_tensors)
        for position, (left, right) in enumerate(zip(found, expected)):
            _assert_mostly_close(
                left, right, rtol, atol, max_mismatched_ratio, f"output {position}"
            )

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[list[Any], list[Any]], None] | None = None,
    ) -> None:
        """Hand the outputs of kernel and reference to `manual_check_prog`."""
        found, expected = self._outputs(reference_program, input_tensors)
        if manual_check_prog is not None:
            manual_check_prog(found, expected)

    def assert_consistent(self, repeat: int = 10) -> None:
        """Raise AssertionError unless every one of `repeat` calls gives the same bits."""
        import torch

        inputs = self.inputs()
        first = _as_list(self.kernel(*inputs))
        for _ in range(repeat):
            again = _as_list(self.kernel(*inputs))
            if not all(torch.equal(a, b) for a, b in zip(first, again)):
                raise AssertionError(f"{self.kernel.prim_func.name} gives different results")

    def _outputs(
        self, reference: Callable[..., Any], inputs: Sequence[Any] | None
    ) -> tuple[list[Any], list[Any]]:
        taken = self.inputs() if inputs is None else list(inputs)
        expected = _as_list(reference(*taken))
        found = _as_list(self.kernel(*taken))
        if len(found) != len(expected):
            raise AssertionError(
                f"the kernel returns {len(found)} tensors, the reference {len(expected)}"
            )
        return found, expected


def _as_list(outputs: Any) -> list[Any]:
    if outputs is None:
        return []
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _assert_mostly_close(
    found: torch.Tensor,
    expected: torch.Tensor,
    rtol: float,
    atol: float,
    allowed: float,
    name: str,
) -> None:
    import torch

    if found.shape != expected.shape:
        raise AssertionError(f"{name} has shape {tuple(found.shape)}, not {tuple(expected.shape)}")
    left, right = found.detach().cpu().float(), expected.detach().cpu().float()
    off = ~torch.isclose(left, right, rtol=rtol, atol=atol)
    ratio = off.float().mean().item() if off.numel() else 0.0
    if ratio > allowed:
        worst = (left - right).abs().nan_to_num(math.inf).max().item()
        raise AssertionError(
            f"{name}: {ratio:.2%} of the elements are off (allowed {allowed:.2%}), "
            f"the largest difference is {worst:g}"
        )


def supply_type_of(value: Any) -> TensorSupplyType:
    """The kind of inputs that a script asked for; None is `Auto`."""
    if value is None:
        return TensorSupplyType.Auto
    if not isinstance(value, TensorSupplyType):
        fail(
            "AI-SRC-036",
            f"tensor_supply_type={value!r}",
            rule="inputs are made by a tilelang.TensorSupplyType",
            fix="use tilelang.TensorSupplyType.Auto",
        )
    return value

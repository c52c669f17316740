"""One specification per operator: what tests, benchmarks and roofline estimates know about it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

#: Bytes per element of the dtypes that operators take.
ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "int64": 8}


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far a kernel may be from its reference: `|a - b| <= atol + rtol * |b|`, and why."""

    atol: float
    rtol: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A named problem of a real model.

    name: `<model>-<phase>`. dims: the sizes and options that `make_inputs`, `traffic` and `flops`
        read.
    """

    name: str
    dims: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.dims[key]

    def get(self, key: str, default: Any) -> Any:
        """An option that the workload may leave out."""
        return self.dims.get(key, default)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Global-memory bytes of one tensor in one call.

    workspace: the tensor is a scratch buffer of the kernel, not an argument; its bytes are an
    implementation's cost and no part of a roofline.
    scalar: read element by element through the scalar unit's cache, past the counters of the data
        pipes.
    """

    read: int = 0
    written: int = 0
    workspace: bool = False
    scalar: bool = False


@dataclass(frozen=True, kw_only=True)
class OpSpec:
    """An operator.

    Attributes:
        name: as in `torch.ops.ascend_infer`.
        workloads: named problems of real models.
        make_inputs: `(workload, dtype, device, generator) -> arguments by name`; the generator is a
            CPU generator, so that every device gets the same numbers.
        reference: the function of `kernels_npu.reference` with the operator's signature.
        traffic: `(workload, dtype name) -> bytes by tensor name`, counted on the simulated NPU.
        flops: `(workload) -> operations`, where a multiply-add counts as two.
        tolerance: by dtype name.
        results: names of what it returns; none where it returns nothing.
        updated: arguments changed in place.
    """

    name: str
    workloads: tuple[Workload, ...]
    make_inputs: Callable[[Workload, torch.dtype, Any, torch.Generator], dict[str, Any]]
    reference: Callable[..., Any]
    traffic: Callable[[Workload, str], dict[str, Traffic]]
    flops: Callable[[Workload], int]
    tolerance: Mapping[str, Tolerance]
    results: tuple[str, ...] = ("output",)
    updated: tuple[str, ...] = ()

    def outputs(self, returned: Any, arguments: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """What a call gave, by name: what it `returned`, and its arguments changed in place."""
        several = returned if isinstance(returned, tuple) else (returned,)
        return {
            **dict(zip(self.results, several)),
            **{name: arguments[name] for name in self.updated},
        }

    def min_bytes(self, workload: Workload, dtype: str) -> int:
        """Bytes that any implementation has to move: the traffic without workspaces."""
        return sum(
            t.read + t.written for t in self.traffic(workload, dtype).values() if not t.workspace
        )

    def intensity(self, workload: Workload, dtype: str) -> float:
        """Operations per byte that has to be moved."""
        return self.flops(workload) / max(self.min_bytes(workload, dtype), 1)


#: Operator -> the module that has its `SPEC`.
_MODULES = {
    "rms_norm": "kernels_npu.normalization.rms_norm",
    "add_rms_norm": "kernels_npu.normalization.add_rms_norm",
    "fused_add_rms_norm": "kernels_npu.normalization.fused_add_rms_norm",
    "rotary_embedding": "kernels_npu.rotary.rotary_embedding",
    "split_qkv_rmsnorm_rope": "kernels_npu.rotary.split_qkv_rmsnorm_rope",
    "reshape_and_cache": "kernels_npu.kv_cache.reshape_and_cache",
    "paged_decode_attention": "kernels_npu.attention.paged_decode_attention",
    "silu_and_mul": "kernels_npu.activation.silu_and_mul",
}
#: The operators' names, known without importing torch.
OPERATORS = tuple(_MODULES)


def kernel_name(operator: str) -> str:
    """How the name of the operator's kernel begins on a device.

    The adapter's compiler appends `_kernel` to the name of the prim_func, which is the operator's;
    profilers show `_mix_aic` behind it where cube and vector cores share the kernel.
    """
    return f"{operator}_kernel"


def all_specs() -> dict[str, OpSpec]:
    """Every operator's specification by name."""
    return {name: importlib.import_module(module).SPEC for name, module in _MODULES.items()}

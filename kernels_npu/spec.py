"""One specification per operator: what tests, benchmarks and roofline estimates know about it."""

from __future__ import annotations

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
        updated: arguments changed in place.
    """

    name: str
    workloads: tuple[Workload, ...]
    make_inputs: Callable[[Workload, torch.dtype, Any, torch.Generator], dict[str, Any]]
    reference: Callable[..., Any]
    traffic: Callable[[Workload, str], dict[str, Traffic]]
    flops: Callable[[Workload], int]
    tolerance: Mapping[str, Tolerance]
    updated: tuple[str, ...] = ()

    def min_bytes(self, workload: Workload, dtype: str) -> int:
        """Bytes that any implementation has to move: the traffic without workspaces."""
        return sum(
            t.read + t.written for t in self.traffic(workload, dtype).values() if not t.workspace
        )

    def intensity(self, workload: Workload, dtype: str) -> float:
        """Operations per byte that has to be moved."""
        return self.flops(workload) / max(self.min_bytes(workload, dtype), 1)


def all_specs() -> dict[str, OpSpec]:
    """Every operator's specification by name."""
    from kernels_npu.activation.silu_and_mul import SPEC as silu_and_mul
    from kernels_npu.attention.paged_decode_attention import SPEC as paged_decode_attention
    from kernels_npu.kv_cache.reshape_and_cache import SPEC as reshape_and_cache
    from kernels_npu.normalization.add_rms_norm import SPEC as add_rms_norm
    from kernels_npu.normalization.rms_norm import SPEC as rms_norm
    from kernels_npu.rotary.rotary_embedding import SPEC as rotary_embedding

    specs = (
        rms_norm,
        add_rms_norm,
        rotary_embedding,
        reshape_and_cache,
        paged_decode_attention,
        silu_and_mul,
    )
    return {spec.name: spec for spec in specs}

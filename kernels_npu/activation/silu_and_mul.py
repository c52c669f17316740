"""SwiGLU's activation: silu(gate) * up."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
import functools
from typing import Any

import torch

from kernels_npu import arguments, reference, requirements
from kernels_npu.checking import KERNEL_DTYPES, dialect_dtype, require_dtype, require_together
from kernels_npu.dialect import T, tilelang
from kernels_npu.launch import block_count, launch
from kernels_npu.spec import ITEMSIZE, OpSpec, Tolerance, Traffic, Workload

#: Widest tile: two slots of inputs and three float32 tiles of it fit the unified buffer.
_MAX_WIDTH = 4096


def tile_width(inter: int) -> int:
    """Columns of a tile: the largest divisor of `inter` that is a multiple of 16 and fits.

    A divisor, because a tile that reached past the gate would read the up half.
    """
    steps = inter // 16
    return 16 * next(n for n in range(min(steps, _MAX_WIDTH // 16), 0, -1) if steps % n == 0)


@tilelang.jit(out_idx=[1], target="ascendc")
def silu_and_mul_kernel(inter: int, width: int, dtype: str, max_blocks: int):
    """Tiles of rows are dealt to the vector cores: one row of a decode step uses many of them."""
    tiles = inter // width
    slots, lag = 2, 1  # loads run one tile ahead
    rows = T.symbolic("rows")

    @T.prim_func
    def silu_and_mul(
        x: T.Tensor([rows, 2 * inter], dtype),
        out: T.Tensor([rows, inter], dtype),
    ):
        with T.Kernel(
            T.Select(rows * tiles < 2 * max_blocks, T.ceildiv(rows * tiles, 2), max_blocks),
            is_npu=True,
        ) as (cid, vid):
            gate_16 = T.alloc_ub([slots, 1, width], dtype)
            up_16 = T.alloc_ub([slots, 1, width], dtype)
            gate = T.alloc_ub([1, width], "float32")
            up = T.alloc_ub([1, width], "float32")
            denominator = T.alloc_ub([1, width], "float32")

            with T.Scope("V"):
                workers = 2 * T.Select(
                    rows * tiles < 2 * max_blocks, T.ceildiv(rows * tiles, 2), max_blocks
                )
                worker = 2 * cid + vid
                count = T.ceildiv(rows * tiles - worker, workers)
                for n in T.serial(count + lag):
                    if n < count:
                        task = worker + n * workers
                        column = task % tiles * width
                        # The slot is free when the result of two tiles before has left it.
                        if n >= slots:
                            T.wait_flag("mte3", "mte2", n % slots)
                        T.copy(x[task // tiles, column : column + width], gate_16[n % slots, :, :])
                        T.copy(
                            x[task // tiles, inter + column : inter + column + width],
                            up_16[n % slots, :, :],
                        )
                        T.set_flag("mte2", "v", n % slots)
                    if n >= lag:
                        m = n - lag
                        done = worker + m * workers
                        left = done % tiles * width
                        T.wait_flag("mte2", "v", m % slots)
                        T.tile.cast(gate, gate_16[m % slots, :, :], "CAST_NONE", width)
                        T.tile.cast(up, up_16[m % slots, :, :], "CAST_NONE", width)
                        # x / (1 + exp(-x)): for x < -88 exp gives infinity, and x / inf is -0.
                        T.tile.mul(denominator, gate, -1.0)
                        T.tile.exp(denominator, denominator)
                        T.tile.add(denominator, denominator, 1.0)
                        T.tile.div(gate, gate, denominator)
                        T.tile.mul(gate, gate, up)
                        T.tile.cast(gate_16[m % slots, :, :], gate, "CAST_RINT", width)
                        T.set_flag("v", "mte3", m % slots)
                        T.wait_flag("v", "mte3", m % slots)
                        T.copy(gate_16[m % slots, :, :], out[done // tiles, left : left + width])
                        if m + slots < count:
                            T.set_flag("mte3", "mte2", m % slots)

    return silu_and_mul


_compiled = functools.cache(silu_and_mul_kernel)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up` of rows `[gate | up]`; float32 inside, rounded once.

    Args:
        x: `[rows, 2 * inter]` float16 or bfloat16, contiguous; 0 rows launch nothing. inter: a
            multiple of 16.

    Returns:
        `[rows, inter]` of x's dtype.

    Raises:
        UsageError: AI-OP-001 to AI-OP-004. UnsupportedError: AI-OP-006 for another size.
    """
    check(x)
    inter = x.shape[1] // 2
    if x.shape[0] == 0:
        return x.new_empty((0, inter))
    kernel = _compiled(inter, tile_width(inter), dialect_dtype(x.dtype), block_count(x.device))
    out: torch.Tensor = launch(kernel, x)
    return out


def check(x: torch.Tensor) -> None:
    """Refuse what the kernel would misread."""
    require_dtype("silu_and_mul", "x", x, *KERNEL_DTYPES)
    arguments.silu_and_mul(x)
    require_together("silu_and_mul", x=x)
    requirements.silu_and_mul(x)


def make_inputs(
    workload: Workload, dtype: torch.dtype, device: Any, generator: torch.Generator
) -> dict[str, Any]:
    """Projections of a few units, with gates far out on both sides."""
    x = 3 * torch.randn(workload["rows"], 2 * workload["inter"], generator=generator)
    x[:, : workload["inter"] : 97] *= 40
    return {"x": x.to(dtype).to(device)}


def traffic(workload: Workload, dtype: str) -> dict[str, Traffic]:
    """Each element once."""
    elements = workload["rows"] * workload["inter"] * ITEMSIZE[dtype]
    return {"x": Traffic(read=2 * elements), "out": Traffic(written=elements)}


_MODELS = {"smollm2-135m": 1536, "qwen2.5-7b": 18944, "llama-3-8b": 14336}

SPEC = OpSpec(
    name="silu_and_mul",
    workloads=tuple(
        Workload(name=f"{model}-{phase}", dims={"rows": rows, "inter": inter})
        for model, inter in _MODELS.items()
        for phase, rows in {"decode-1": 1, "decode-32": 32}.items()
    ),
    make_inputs=make_inputs,
    reference=reference.silu_and_mul,
    traffic=traffic,
    flops=lambda w: 5 * w["rows"] * w["inter"],
    tolerance={
        # atol: the smallest normal number; results below it may round to zero on either side.
        "float16": Tolerance(
            atol=2**-14, rtol=2**-10, reason="one rounding of 2^-11, float32 inside"
        ),
        "bfloat16": Tolerance(
            atol=1e-30, rtol=2**-7, reason="one rounding of 2^-8, float32 inside"
        ),
    },
)

"""What the normalisation kernels share: tiling of a row, workloads, tolerance."""

from __future__ import annotations

import torch

from kernels_npu.spec import Tolerance, Workload

#: Widest piece of a row in one vector instruction: scratch of this size has to fit beside a row.
_MAX_WIDTH = 2048

_MODELS = {"smollm2-135m": 576, "qwen2.5-7b": 3584, "llama-3-8b": 4096, "qwen2.5-72b": 8192}
WORKLOADS = tuple(
    Workload(name=f"{model}-{phase}", dims={"rows": rows, "hidden": hidden})
    for model, hidden in _MODELS.items()
    for phase, rows in {"decode-1": 1, "decode-32": 32}.items()
)

#: One rounding at the end: half a unit in the last place (2^-11, 2^-8), plus float32 noise. Models
#: that round before multiplying by the weight (transformers' LlamaRMSNorm) differ from this by one
#: more rounding, which `rtol` covers too.
TOLERANCE = {
    "float16": Tolerance(atol=1e-5, rtol=2**-10, reason="two roundings of 2^-11"),
    "bfloat16": Tolerance(atol=1e-5, rtol=2**-7, reason="two roundings of 2^-8"),
}


#: The sum is rounded before it is normalised.
SUM_TOLERANCE = {
    "float16": Tolerance(atol=1e-5, rtol=3 * 2**-11, reason="three roundings of 2^-11"),
    "bfloat16": Tolerance(atol=1e-5, rtol=3 * 2**-8, reason="three roundings of 2^-8"),
}

#: Blocks that traffic formulas assume where a workload does not say: one per cube core of a 910B1.
BLOCKS = 24


def row_tiles(hidden: int) -> tuple[int, int]:
    """(number of pieces, elements of a piece) of a row.

    Equal pieces where there are some not much shorter than possible; else the last one is padded
    with zeros by its copy, which only the AscendC back end does for a part of a buffer.
    """
    steps, fewest = hidden // 16, -(-hidden // _MAX_WIDTH)
    for tiles in range(fewest, 4 * fewest + 1):
        if steps % tiles == 0:
            return tiles, 16 * (steps // tiles)
    return fewest, 16 * -(-steps // fewest)


def activations(workload: Workload, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """`[rows, hidden]` of unit variance; one column in 64 is 20 times larger, as in real models."""
    rows, hidden = workload["rows"], workload["hidden"]
    x = torch.randn(rows, hidden, generator=generator)
    x[:, ::64] *= 20
    return x.to(dtype)


def norm_weight(workload: Workload, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """`[hidden]` around 1."""
    return (1 + 0.25 * torch.randn(workload["hidden"], generator=generator)).to(dtype)

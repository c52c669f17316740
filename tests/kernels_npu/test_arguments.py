"""Wrong calls of every operator: a coded error names the argument, on the NPU and the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernels_npu import ops
from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.spec import Workload, all_specs

SPECS = all_specs()
DIMS = {
    "rms_norm": {"rows": 3, "hidden": 64},
    "add_rms_norm": {"rows": 3, "hidden": 64},
    "fused_add_rms_norm": {"rows": 3, "hidden": 64},
    "silu_and_mul": {"rows": 3, "inter": 64},
    "rotary_embedding": {"tokens": 3, "q_heads": 4, "kv_heads": 2, "head_dim": 64},
    "split_qkv_rmsnorm_rope": {"tokens": 3, "q_heads": 4, "kv_heads": 2, "head_dim": 64},
    "reshape_and_cache": {"tokens": 3, "kv_heads": 2, "head_dim": 64, "block_size": 16},
    "paged_decode_attention": {
        "q_heads": 4,
        "kv_heads": 2,
        "head_dim": 64,
        "block_size": 16,
        "seq_lens": (5, 20),
    },
}
CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "scalar": lambda t: t.flatten()[0],
    "extra-dimension": lambda t: t.unsqueeze(0),
    "one-row": lambda t: t[:1].contiguous(),
    "short-row": lambda t: t[..., :-1].contiguous(),
    "int16": lambda t: t.to(torch.int16),
}
#: One row more or less of a tensor that has its own number of rows is no mistake.
FREE_ROWS = {
    ("rms_norm", "x"),
    ("silu_and_mul", "x"),
    ("rotary_embedding", "cos_sin_cache"),
    ("split_qkv_rmsnorm_rope", "cos_sin_cache"),
}
FREE_COLUMNS = {("paged_decode_attention", "block_table")}


def inputs(name: str) -> dict:
    workload = Workload(name="small", dims=DIMS[name])
    return SPECS[name].make_inputs(workload, torch.float16, "cpu", torch.Generator().manual_seed(1))


CASES = [
    (name, argument, change)
    for name in SPECS
    for argument, value in inputs(name).items()
    for change in CHANGES
    if isinstance(value, torch.Tensor)
    and not (change == "one-row" and (name, argument) in FREE_ROWS)
    and not (change == "short-row" and (name, argument) in FREE_COLUMNS)
]


@pytest.mark.parametrize("device", ["npu", "cpu"])
@pytest.mark.parametrize(("name", "argument", "change"), CASES)
def test_a_wrong_tensor_is_a_coded_error(name, argument, change, device, npu):
    values = inputs(name)
    values[argument] = CHANGES[change](values[argument])
    arguments = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    with pytest.raises((UsageError, UnsupportedError)) as caught:
        getattr(ops, name)(**arguments)
    assert caught.value.code.startswith("AI-OP")
    assert name in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize("name", SPECS)
def test_tensors_of_two_devices_are_refused(name, npu):
    values = inputs(name)
    tensors = [k for k, v in values.items() if isinstance(v, torch.Tensor)]
    for left_behind in tensors if len(tensors) > 1 else []:
        mixed = {
            k: v.to(npu) if k in tensors and k != left_behind else v for k, v in values.items()
        }
        with pytest.raises(UsageError) as caught:
            getattr(ops, name)(**mixed)
        assert caught.value.code == "AI-OP-002"
        assert "cpu" in caught.value.what
        assert f"{left_behind}.to('npu:0')" in caught.value.fix


@pytest.mark.parametrize("name", SPECS)
def test_the_right_call_is_accepted_after_all(name, npu):
    values = inputs(name)
    getattr(ops, name)(
        **{k: v.to(npu) if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    )

"""The custom operators: schemas, fake implementations, torch.compile, one specification each."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernels_npu import ops, reference, registry
from kernels_npu.spec import ITEMSIZE, Workload, all_specs

SPECS = all_specs()
SMALL = {
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


def inputs(name: str) -> dict:
    generator = torch.Generator().manual_seed(1)
    workload = Workload(name="small", dims=SMALL[name])
    return SPECS[name].make_inputs(workload, torch.float16, "cpu", generator)


def test_every_operator_has_a_specification_a_reference_and_a_function():
    assert set(SPECS) == set(registry.OPERATORS) == set(SMALL) == set(reference.__all__)
    for name in SPECS:
        schema = getattr(torch.ops.ascend_infer, name).default._schema
        parameters = [a.name for a in schema.arguments]
        assert list(inspect.signature(getattr(ops, name)).parameters) == parameters
        assert list(inspect.signature(getattr(reference, name)).parameters) == parameters
        written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
        assert tuple(written) == SPECS[name].updated


@pytest.mark.parametrize("name", SPECS)
def test_torchs_own_checks_of_a_custom_operator(name):
    overload = getattr(torch.ops.ascend_infer, name).default
    arguments = inputs(name)
    if name == "paged_decode_attention":  # NaN slots would not compare equal
        arguments["key_cache"].nan_to_num_()
        arguments["value_cache"].nan_to_num_()
    torch.library.opcheck(
        overload,
        tuple(arguments.values()),
        test_utils=("test_schema", "test_faketensor"),
    )


@pytest.mark.parametrize("name", SPECS)
def test_a_fake_result_has_the_real_shape(name):
    real_inputs = inputs(name)
    real = getattr(ops, name)(**real_inputs)
    with FakeTensorMode() as mode:
        fake_inputs = {
            k: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v
            for k, v in real_inputs.items()
        }
        fake = getattr(ops, name)(**fake_inputs)
    expected = SPECS[name].outputs(real, real_inputs)
    assert (real is None) == (fake is None)
    for output, tensor in SPECS[name].outputs(fake, fake_inputs).items():
        assert (tensor.shape, tensor.dtype) == (expected[output].shape, expected[output].dtype)


def test_torch_compile_sees_one_node_per_operator():
    seen = []

    def backend(module, example_inputs):
        seen.extend(node.target for node in module.graph.nodes if node.op == "call_function")
        return module.forward

    x, residual, weight = (
        torch.randn(2, 64).half(),
        torch.randn(2, 64).half(),
        torch.ones(64).half(),
    )
    torch.compile(ops.add_rms_norm, backend=backend, fullgraph=True)(x, residual, weight, 1e-5)
    assert [str(target) for target in seen if "ascend_infer" in str(target)] == [
        "ascend_infer.add_rms_norm.default"
    ]


@pytest.mark.parametrize("name", SPECS)
def test_workloads_are_named_once_and_have_bytes_and_operations(name):
    spec = SPECS[name]
    names = [workload.name for workload in spec.workloads]
    assert len(set(names)) == len(names) > 1
    for workload in spec.workloads:
        assert spec.min_bytes(workload, "bfloat16") > 0
        assert spec.flops(workload) >= 0
    assert set(spec.tolerance) == {"float16", "bfloat16"}


def test_attention_moves_little_beside_keys_and_values():
    spec = SPECS["paged_decode_attention"]
    workload = next(w for w in spec.workloads if w.name == "llama-3-8b-decode-1x1k")
    cache = 2 * 1024 * 8 * 128 * ITEMSIZE["float16"]
    assert cache < spec.min_bytes(workload, "float16") < 1.02 * cache
    assert 3.5 < spec.intensity(workload, "float16") < 4.5  # 4 query heads per KV head

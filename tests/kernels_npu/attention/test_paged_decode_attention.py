"""paged_decode_attention on the simulated NPU: values, bytes, options, padding, refusals.

`make_inputs` fills everything that belongs to no sequence with NaN and points unused table entries
far outside the cache, so that reading too far shows.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels_npu.attention.paged_decode_attention import SPEC, check
from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.sim.config import configure


def dims(q_heads, kv_heads, head_dim, block_size, *seq_lens, **options):
    return {
        "q_heads": q_heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "block_size": block_size,
        "seq_lens": seq_lens,
        **options,
    }


#: The comment says what the case covers.
CASES = [
    dims(
        9, 3, 64, 128, 1, 0, 300, 129
    ),  # group of 3: the second vector core has no rows; padding row
    dims(28, 4, 128, 64, 128, 257),  # group of 7, two pages per tile, a full last tile
    dims(32, 8, 96, 16, 17, 127, 640),  # eight pages per tile, a page of one key
    dims(64, 8, 192, 32, 1, 400),  # two slices of 96
    dims(4, 4, 256, 128, 385),  # no sharing, two slices of 128
    dims(9, 1, 64, 48, 95, 96, 97),  # tiles of 96 keys; 8 rows on one vector core, 1 on the other
    dims(16, 1, 80, 112, 113),  # both vector cores full; a head_dim between the usual ones
    dims(71, 1, 64, 80, 200),  # Falcon-7B: five row groups in one tile
    dims(128, 1, 128, 128, 150),  # the largest tile
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_the_reference_and_reads_keys_and_values_once(case, dtype, run, assert_traffic):
    assert_traffic(run(SPEC, case, dtype), SPEC, case, dtype)


def test_the_kv_cache_is_read_once_per_kv_head(run):
    """The formula itself, written down a second time for one case."""
    outcome = run(SPEC, dims(32, 8, 128, 64, 0, 1, 500), torch.float16)
    assert outcome.gm_read["key_cache"] == 501 * 8 * 128 * 2
    assert outcome.gm_read["value_cache"] == 501 * 8 * 128 * 2
    assert outcome.blocks == 3 * 8


def test_padding_rows_are_zero_and_read_nothing(run):
    outcome = run(SPEC, dims(9, 3, 64, 32, 0, 0), torch.float16)
    assert not outcome.tensors["output"].any()
    assert outcome.gm_read == {}


@pytest.mark.parametrize(
    "options",
    [
        {"sliding_window": 1},
        {"sliding_window": 100},
        {"sliding_window": 128},
        {"sliding_window": 1000},
        {"logits_soft_cap": 5.0},
        {"logits_soft_cap": 30.0, "scale": 8.0},  # both ends of tanh
        {"sliding_window": 200, "logits_soft_cap": 20.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("block_size", [16, 128])
def test_window_and_soft_cap(options, block_size, run, assert_traffic):
    case = dims(9, 3, 64, block_size, 1, 0, 130, 577, **options)
    assert_traffic(run(SPEC, case, torch.float16), SPEC, case, torch.float16)


def test_a_window_reads_its_own_keys_only(run):
    window = run(SPEC, dims(8, 1, 64, 16, 1000, sliding_window=100), torch.float16)
    assert window.gm_read["key_cache"] == window.gm_read["value_cache"] == 100 * 64 * 2


@pytest.mark.parametrize("block_size", [16, 48, 128])
def test_what_left_the_window_is_not_used(block_size, npu):
    """The rest of the window's first block holds keys and values that were visible once."""
    from kernels_npu import ops, reference

    case = dims(6, 2, 64, block_size, 300, 128, 77, sliding_window=41)
    inputs = SPEC.make_inputs(_workload(case), torch.float16, "cpu", torch.Generator())
    for row, length in enumerate(case["seq_lens"]):
        for position in range(length - 41):
            block = inputs["block_table"][row, position // block_size]
            inputs["key_cache"][block, position % block_size] = float("nan")
            inputs["value_cache"][block, position % block_size] = float("inf")
    expected = reference.paged_decode_attention(**inputs)
    on_npu = {k: v.to(npu) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    got = ops.paged_decode_attention(**on_npu).cpu()
    torch.testing.assert_close(got, expected, atol=2**-9, rtol=2**-9)


@pytest.mark.parametrize("window", [1, 47, 48, 49, 95, 96, 97, 144, 1000])
def test_a_window_may_end_anywhere(window, run, assert_traffic):
    """Tiles of two blocks of 48 keys: edges of a block, of a tile, and one beside each."""
    case = dims(3, 1, 64, 48, 1, 48, 95, 97, 193, 311, sliding_window=window)
    assert_traffic(run(SPEC, case, torch.float16), SPEC, case, torch.float16)


@pytest.mark.parametrize(
    "case",
    [dims(9, 3, 64, 128, 1, 0, 700, 129), dims(18, 2, 192, 32, 600, 5, sliding_window=300)],
    ids=["smollm2", "two-slices-window"],
)
def test_same_bits_under_every_schedule(case, run, schedule):
    with configure(schedule="eager"):
        expected = run(SPEC, case, torch.bfloat16).tensors["output"]
    assert torch.equal(run(SPEC, case, torch.bfloat16).tensors["output"], expected)


@pytest.mark.parametrize("head_dim", [64, 192])
@pytest.mark.parametrize("keys", [0.0, 12.0, -12.0, "signs"])
def test_scores_far_out_are_stable(keys, head_dim, npu):
    """Scores of ±9216 and more, all equal or of both signs; what no sequence owns is infinite."""
    from kernels_npu import ops, reference

    case = dims(6, 2, head_dim, 32, 1, 300, 33, scale=1.0)
    inputs = SPEC.make_inputs(_workload(case), torch.float16, "cpu", torch.Generator())
    inputs["query"].fill_(12.0)
    cache = inputs["key_cache"]
    cache.copy_(12 * cache.sign() if keys == "signs" else torch.full_like(cache, keys))
    unowned = inputs["value_cache"].isnan()
    cache[unowned] = inputs["value_cache"][unowned] = float("inf")
    expected = reference.paged_decode_attention(**inputs)
    on_npu = {k: v.to(npu) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    got = ops.paged_decode_attention(**on_npu).cpu()
    torch.testing.assert_close(got, expected, atol=2**-9, rtol=2**-9)


def test_a_row_does_not_depend_on_the_others(run):
    alone = run(SPEC, dims(9, 3, 64, 32, 200), torch.float16).tensors["output"]
    inputs = SPEC.make_inputs(
        _workload(dims(9, 3, 64, 32, 200)), torch.float16, "cpu", torch.Generator().manual_seed(0)
    )
    from kernels_npu import ops

    table, query = inputs["block_table"], inputs["query"]
    batched = ops.paged_decode_attention(
        query.repeat(3, 1, 1).to("npu"),
        inputs["key_cache"].to("npu"),
        inputs["value_cache"].to("npu"),
        table.repeat(3, 1).to("npu"),
        torch.tensor([77, 200, 0], dtype=torch.int32, device="npu"),
        inputs["scale"],
    ).cpu()
    assert torch.equal(batched[1], alone[0])
    assert not batched[2].any()


def _workload(case):
    from kernels_npu.spec import Workload

    return Workload(name="test", dims=case)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kv_heads=st.integers(1, 3),
    group=st.sampled_from([1, 2, 3, 5, 8, 9, 16, 17]),
    head_dim=st.sampled_from([16, 64, 96, 160]),
    block_size=st.sampled_from([16, 32, 48, 64, 96, 128]),
    seq_lens=st.lists(st.integers(0, 400), min_size=1, max_size=3),
    window=st.sampled_from([0, 0, 7, 150]),
)
def test_any_shape(kv_heads, group, head_dim, block_size, seq_lens, window, run, assert_traffic):
    case = dims(kv_heads * group, kv_heads, head_dim, block_size, *seq_lens, sliding_window=window)
    assert_traffic(run(SPEC, case, torch.float16), SPEC, case, torch.float16)


def test_a_block_number_outside_the_cache_is_found(npu):
    from kernels_npu import ops
    from kernels_npu.sim.machine import HazardError

    inputs = SPEC.make_inputs(
        _workload(dims(9, 3, 64, 32, 100)), torch.float16, npu, torch.Generator()
    )
    inputs["block_table"][0, 1] = 1000
    with pytest.raises(HazardError) as caught:
        ops.paged_decode_attention(**inputs)
    assert caught.value.code.startswith("AI-BOUND")
    assert "key_cache" in str(caught.value)


def test_a_length_beyond_the_table_is_found(npu):
    from kernels_npu import ops
    from kernels_npu.sim.machine import HazardError

    inputs = SPEC.make_inputs(
        _workload(dims(9, 3, 64, 32, 100)), torch.float16, npu, torch.Generator()
    )
    inputs["seq_lens"][0] = 100_000
    with pytest.raises(HazardError) as caught:
        ops.paged_decode_attention(**inputs)
    assert caught.value.code.startswith("AI-BOUND")


def test_an_empty_batch_launches_nothing(npu):
    from kernels_npu import ops

    cache = torch.zeros(2, 16, 3, 64, dtype=torch.float16, device=npu)
    out = ops.paged_decode_attention(
        torch.zeros(0, 9, 64, dtype=torch.float16, device=npu),
        cache,
        cache,
        torch.zeros(0, 2, dtype=torch.int32, device=npu),
        torch.zeros(0, dtype=torch.int32, device=npu),
        0.125,
    )
    assert out.shape == (0, 9, 64)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"query": torch.zeros(2, 9, 64)}, "AI-OP-001"),
        ({"value_cache": torch.zeros(4, 16, 3, 64, dtype=torch.bfloat16)}, "AI-OP-001"),
        ({"block_table": torch.zeros(2, 4, dtype=torch.int64)}, "AI-OP-001"),
        ({"seq_lens": torch.zeros(2, dtype=torch.int64)}, "AI-OP-001"),
        ({"key_cache": torch.zeros(4, 16, 3, 32, dtype=torch.float16)}, "AI-OP-004"),
        ({"block_table": torch.zeros(3, 4, dtype=torch.int32)}, "AI-OP-004"),
        ({"seq_lens": torch.zeros(3, dtype=torch.int32)}, "AI-OP-004"),
        ({"block_table": torch.zeros(4, 2, dtype=torch.int32).t()}, "AI-OP-003"),
        ({"scale": 0.0}, "AI-OP-005"),
        ({"scale": float("inf")}, "AI-OP-005"),
        ({"scale": float("nan")}, "AI-OP-005"),
        ({"sliding_window": -1}, "AI-OP-005"),
        ({"sliding_window": 2**31}, "AI-OP-005"),
        ({"logits_soft_cap": -1.0}, "AI-OP-005"),
        ({"logits_soft_cap": float("inf")}, "AI-OP-005"),
        ({"logits_soft_cap": 1e-42}, "AI-OP-005"),  # 2 * scale / cap is no float32
    ],
)
def test_wrong_arguments_are_named(change, code):
    arguments = {
        "query": torch.zeros(2, 9, 64, dtype=torch.float16),
        "key_cache": torch.zeros(4, 16, 3, 64, dtype=torch.float16),
        "value_cache": torch.zeros(4, 16, 3, 64, dtype=torch.float16),
        "block_table": torch.zeros(2, 4, dtype=torch.int32),
        "seq_lens": torch.zeros(2, dtype=torch.int32),
        "scale": 0.125,
        "sliding_window": 0,
        "logits_soft_cap": 0.0,
        **change,
    }
    with pytest.raises(UsageError) as caught:
        check(**arguments)
    assert caught.value.code == code
    assert next(iter(change)) in caught.value.what
    assert caught.value.fix


def test_a_head_dim_without_a_kernel_is_refused(npu):
    from kernels_npu import ops, registry

    cache = torch.zeros(2, 16, 1, 72, dtype=torch.float16, device=npu)
    arguments = (
        torch.zeros(1, 4, 72, dtype=torch.float16, device=npu),
        cache,
        cache,
        torch.zeros(1, 2, dtype=torch.int32, device=npu),
        torch.ones(1, dtype=torch.int32, device=npu),
        0.125,
    )
    with registry.strict(), pytest.raises(UnsupportedError) as caught:
        ops.paged_decode_attention(*arguments)
    assert "head_dim 72" in caught.value.what
    assert caught.value.fix

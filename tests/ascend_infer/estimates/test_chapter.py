"""Published figures of the method, each at its printed precision, from formulas and shapes."""

from __future__ import annotations

import pytest

from ascend_infer.estimates import (
    MODELS,
    Parallel,
    Precision,
    Roof,
    StepEstimate,
    Work,
    boundary_seconds,
    capacity,
    estimate_step,
    flip_rows,
    get_format,
    kv_ledger,
    load_decoder,
    quantise_count,
    read_decoder,
    roof_of,
    roofline_ledger,
    weight_ledger,
)
from ascend_infer.estimates.models import Decoder

MIB, GIB = 2**20, 2**30
BF16 = get_format("bfloat16")
#: The card's rounded count, with which the published budget was computed.
CARD = 7.61e9


@pytest.fixture(scope="module")
def qwen() -> Decoder:
    return load_decoder("qwen2.5-7b")


@pytest.fixture(scope="module")
def h100() -> Roof:
    """1000 TFLOP/s and 3 TB/s."""
    return roof_of("H100-announced")


def step(decoder: Decoder, roof: Roof, batch: int, context: int) -> StepEstimate:
    return estimate_step(decoder, Work.batch(batch, context), roof)


# ---------------------------------------------------------------------------------- parameters


def test_parameters_by_shape(qwen: Decoder) -> None:
    ledger = weight_ledger(qwen)
    (layers,) = ledger.groups
    assert layers.count == 28
    assert f"{layers.matrix_elements / 1e6:.2f}" == "233.05"
    assert f"{ledger.vocabulary_elements / 1e6:.2f}" == "1089.99"
    # The published sum leaves out biases and norms; with them it is the checkpoint's count.
    assert f"{ledger.matrix_elements / 1e9:.3f}" == "7.615"
    assert f"{ledger.matrix_elements / CARD - 1:.4%}" == "0.0694%"
    assert ledger.parameters == 7_615_616_512
    assert f"{ledger.non_embedding / 1e9:.2f}" == "6.53"


# ------------------------------------------------------------------------------ keys and values


def test_keys_and_values(qwen: Decoder) -> None:
    ledger = kv_ledger(qwen, BF16, context=131072, block_size=16)
    (layers,) = ledger.layers
    assert layers.token_bytes == 2048
    assert ledger.token_bytes / 2**10 == 56.0
    assert ledger.sequence_bytes / GIB == 7.0
    assert ledger.mha_sequence_bytes / GIB == 49.0
    assert ledger.block_bytes / 2**10 == 896
    # What reads dwarf at long contexts: one token per sequence is written.
    assert ledger.write_bytes == ledger.token_bytes == ledger.read_bytes // 131072
    assert kv_ledger(qwen, BF16, context=8192).read_bytes / MIB == 448


def test_budget_of_an_80_gib_device(qwen: Decoder) -> None:
    """80 "GB" are GiB in it, and the weights are the card's 7.61 B."""
    weights = round(CARD * 2)
    assert f"{weights / GIB:.2f}" == "14.17"
    room = capacity(
        80 * GIB, weights, kv_ledger(qwen, BF16, context=1, block_size=16), (8192, 131072)
    )
    assert f"{room.kv_budget / GIB:.2f}" == "57.83"
    assert room.sequences == {8192: 132, 131072: 8}


def test_budgets_of_the_other_chapter() -> None:
    """3 B parameters in 4 bit; KV of 28 layers with 8 heads of 128, 8192 tokens, 16 bit."""
    ledger = quantise_count(3_000_000_000, get_format("int4", scales=False))
    assert ledger.bytes / 1e9 == 1.5
    assert f"{ledger.bytes / GIB:.2f}" == "1.40"
    for layers, kv_heads, figure in ((28, 8, 896 * MIB), (32, 8, GIB), (32, 32, 4 * GIB)):
        config = {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 1,
            "vocab_size": 1,
            "num_hidden_layers": layers,
            "num_attention_heads": 32,
            "num_key_value_heads": kv_heads,
        }
        assert kv_ledger(read_decoder(config), BF16, context=8192).sequence_bytes == figure


# ------------------------------------------------------------------------------------- roofline


def test_flip_points(h100: Roof) -> None:
    assert f"{h100.balance('float16'):.0f}" == "333"
    assert flip_rows(h100.balance("bfloat16"), 18944, 3584) == 375
    assert flip_rows(h100.balance("bfloat16"), 3584, 4608) == 400
    # The rounded balance would give one row less for the second shape.
    assert flip_rows(333, 3584, 4608) == 399


def test_floor_of_the_weights(qwen: Decoder, h100: Roof) -> None:
    one, eight = (roofline_ledger(qwen, h100, rows=rows) for rows in (1, 8))
    assert f"{one.weight_bytes / 1e9:.2f}" == "15.23"
    assert f"{one.floor_seconds * 1e3:.2f}" == "5.08"
    assert f"{one.tokens_per_second:.0f}" == "197"
    assert f"{one.weight_bytes / 8 / 1e9:.2f}" == "1.90"
    assert f"{eight.batch_tokens_per_second:.0f}" == "1576"
    assert one.simplified_flip == pytest.approx(1000 / 3)
    assert one.attention_intensity == 7


def test_grouped_queries_raise_the_intensity_of_attention(qwen: Decoder, h100: Roof) -> None:
    """By 2 Hq / (Hkv b): 7 with four KV heads, 1 with one per query head; a seventh, not seven."""
    config = MODELS["qwen2.5-7b"].config
    per_head = read_decoder({**config, "num_key_value_heads": config["num_attention_heads"]})
    grouped, alone = (roofline_ledger(d, h100).attention_intensity for d in (qwen, per_head))
    assert (grouped, alone) == (7, 1)


# ------------------------------------------------------------------------------------ the step


@pytest.mark.parametrize(
    ("batch", "context", "attention", "weights", "milliseconds"),
    [
        (1, 8192, "3.2%", "96.8%", "4.87"),
        (1, 131072, "34.7%", "65.3%", "7.22"),
        (32, 8192, "51.2%", "48.7%", "9.79"),
        (32, 131072, "94.4%", "5.6%", "84.95"),
    ],
)
def test_shares_and_bounds_of_a_decode_step(
    qwen: Decoder,
    h100: Roof,
    batch: int,
    context: int,
    attention: str,
    weights: str,
    milliseconds: str,
) -> None:
    estimate = step(qwen, h100, batch, context)
    assert f"{estimate.share('attention'):.1%}" == attention
    assert f"{estimate.share('weights'):.1%}" == weights
    assert f"{estimate.seconds * 1e3:.2f}" == milliseconds


def test_shares_of_the_mlp(qwen: Decoder, h100: Roof) -> None:
    estimate = step(qwen, h100, 1, 8192)
    assert f"{estimate.line('gate_up_proj').seconds / estimate.seconds:.1%}" == "52.0%"
    assert f"{estimate.line('down_proj').seconds / estimate.seconds:.1%}" == "26.0%"


def test_the_step_is_below_the_floor_of_all_weights(qwen: Decoder, h100: Roof) -> None:
    """5.08 ms count the embedding table, of which a step reads one row; 4.87 ms do not."""
    estimate, floor = step(qwen, h100, 1, 8192), roofline_ledger(qwen, h100).floor_seconds
    table = qwen.embedding.elements * 2 / h100.bandwidth.value
    assert estimate.seconds < floor
    assert estimate.seconds > floor - table


def test_five_largest_operators_with_queries_and_keys_apart(qwen: Decoder, h100: Roof) -> None:
    """95.3%, where the projections of queries and of keys and values are two operators."""
    total = step(qwen, h100, 1, 8192).seconds
    sizes = {line.name: line.count * line.bytes for line in weight_ledger(qwen).lines}
    launches = (
        sizes["gate_proj"] + sizes["up_proj"],
        *(sizes[name] for name in ("down_proj", "lm_head", "q_proj", "o_proj")),
    )
    shares = [100 * h100.memory_seconds(size) / total for size in launches]
    assert f"{sum(shares):.1f}" == "95.3"


def test_what_ledgers_leave_out_comes_as_lines_of_its_own(qwen: Decoder, h100: Roof) -> None:
    batch, context, splits = 4, 8192, 8
    estimate = estimate_step(qwen, Work.batch(batch, context), h100, kv_splits=splits)
    written = estimate.line("kv_write")
    assert written.bytes == batch * 57344 and written.kind == "further"
    # Outputs and a log-sum-exp per head and part in float32, written once and read once.
    partials = 4 * batch * 28 * splits * (128 + 1)
    assert estimate.line("split_kv_write").bytes == 28 * partials
    assert estimate.line("split_kv_combine").bytes == 28 * partials
    assert estimate.workspace_bytes == partials
    assert estimate.seconds == step(qwen, h100, batch, context).seconds
    names = {line.name for line in step(qwen, h100, batch, context).lines}
    assert not any(name.startswith("split_kv") for name in names)


def test_scales_that_a_step_reads(qwen: Decoder, h100: Roof) -> None:
    int4 = Precision(weights=get_format("int4", group=128, scale_bits=16))
    estimate = estimate_step(qwen, Work.batch(1, 8192), h100, int4)
    layers = sum(m.elements for layer in qwen.layers for m in layer.matrices)
    assert estimate.metadata_bytes == layers / 128 * 2
    assert step(qwen, h100, 1, 8192).metadata_bytes == 0


def test_tensor_parallel_steps_divide_and_copy_kv_heads(qwen: Decoder, h100: Roof) -> None:
    whole = step(qwen, h100, 32, 131072)
    for ranks, kv_share in ((2, 2), (4, 4), (28, 4)):
        divided = estimate_step(qwen, Work.batch(32, 131072), h100, parallel=Parallel(tensor=ranks))
        ratio = whole.line("attention").kv_bytes / divided.line("attention").kv_bytes
        assert ratio == kv_share


# ------------------------------------------------------------------- quantisation and boundaries


def test_bits_per_weight_with_scales() -> None:
    ledger = quantise_count(8_000_000_000, get_format("int4", group=128, scale_bits=16))
    assert ledger.data_bytes / 1e9 == 4.0
    assert ledger.metadata_bytes / 1e9 == 0.125
    assert ledger.bytes / 1e9 == 4.125
    assert ledger.bits_per_weight == 4.125
    assert f"{ledger.compression:.2f}" == "3.88"
    bare = quantise_count(8_000_000_000, get_format("int4", scales=False))
    assert f"{bare.bytes / GIB:.2f}" == "3.73"


def test_reading_four_gigabytes_at_100_gigabytes_per_second() -> None:
    assert roof_of("H100", bandwidth_tbs=0.1).memory_seconds(4e9) == pytest.approx(0.040)


def test_boundaries() -> None:
    assert boundary_seconds(28, 2, 50e-6) == pytest.approx(2.8e-3)
    assert boundary_seconds(28, 2, 50e-6, steps=128) == pytest.approx(358.4e-3)

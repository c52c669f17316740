"""SmolLM2 with its real weights in each mode, offline: our kernels beside the stock host's.

The cache is so small that a batch does not fit to its end, and prompts come again.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.verification.vllm.engine import graph_mode
from ascend_infer.verification.vllm.rounds import LENGTHS
from tests.vllm.agreement import Reference, compare
from tests.vllm.conftest import with_plugin
from tests.vllm.test_modes import MODES

LAYERS, BLOCK, BLOCKS = 30, 128, 6  # the host keeps one block for padding
NEW_TOKENS, TOKEN_BUDGET, SIZES = 8, 256, (1, 4)
#: Steps that decode and others; ALONE: a prompt of one token, which a graph takes for the former.
DECODES, PREFILLS, ALONE = 34, 6, 1
#: Between the buckets up and down, with padding, and a prompt that has been there.
ROUNDS = ([0], [3, 4, 5, 6], [1, 2, 7], [7])
KERNEL, STOCK_KERNEL = "paged_decode_attention", "npu_fused_infer_attention_score"


@pytest.fixture(scope="session")
def rounds(smollm2: Path) -> list[list[list[int]]]:
    """Pieces of a text that everybody has, cut anywhere."""
    from transformers import AutoTokenizer

    text = Path(__file__).parents[2].joinpath("LICENSE").read_text(encoding="utf-8")
    tokens = AutoTokenizer.from_pretrained(smollm2)(" ".join(text.split()))["input_ids"]
    where = random.Random(0)
    starts = [where.randrange(len(tokens) - n) for n in LENGTHS]
    pieces = [tokens[start : start + n] for start, n in zip(starts, LENGTHS)]
    return [[pieces[i] for i in chosen] for chosen in ROUNDS]


@pytest.fixture(scope="session")
def references(smollm2: Path) -> dict[str, Reference]:
    return {dtype: Reference(smollm2, dtype) for dtype in ("float16", "bfloat16")}


def attentions(found: dict[str, Any], name: str, what: str) -> dict[str, int]:
    """How often an attention ran while serving, where it did: "eager" and "replayed"."""
    serving = found["serving"]
    counts = {"eager": serving[f"eager_{what}"].get(name, 0)}
    replayed = f"{name}.out" if what == "ops" else name
    counts["replayed"] = serving[f"replayed_{what}"].get(replayed, 0)
    return {where: count for where, count in counts.items() if count}


#: What a run without `-m slow` takes; our attention makes FULL another FULL_DECODE_ONLY.
USUAL = ("PIECEWISE", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")


@pytest.mark.parametrize(
    ("mode", "dtype"),
    [
        *((mode, "float16") for mode in USUAL),
        *(pytest.param(mode, "float16", marks=pytest.mark.slow) for mode in ("eager", "FULL")),
        pytest.param("FULL_DECODE_ONLY", "bfloat16", marks=pytest.mark.slow),
    ],
)
def test_the_hosts_tokens_by_our_kernels(mode, dtype, decode, smollm2, rounds, references):
    arguments = {
        "model": str(smollm2),
        **graph_mode(mode, SIZES),
        "max_num_batched_tokens": TOKEN_BUDGET,
        "num_gpu_blocks_override": BLOCKS,
        "new_tokens": NEW_TOKENS,
        "sampling": {"logprobs": 8},
    }
    ours, stock = (
        decode(mode, rounds, **with_plugin(ops, **arguments, dtype=dtype)) for ops in ("all", "off")
    )
    agreement = compare(ours, stock, rounds, references[dtype])
    print(agreement)
    assert not agreement.errors
    for found in (ours, stock):
        assert found["metrics"]["vllm:num_preemptions"] > 0
        assert found["metrics"]["vllm:prompt_tokens_cached"] >= 2 * BLOCK
    theirs = attentions(stock, STOCK_KERNEL, "ops")
    left, served = attentions(ours, STOCK_KERNEL, "ops"), attentions(ours, KERNEL, "launches")
    if MODES[mode][1]:
        decodes, others = LAYERS * (DECODES + ALONE), LAYERS * PREFILLS
        assert served == {"replayed": decodes} and left == {"eager": others}
        assert theirs == {"replayed": decodes, "eager": others}
        assert stock["serving"]["task_updates"] == decodes
    else:
        decodes, others = LAYERS * DECODES, LAYERS * (PREFILLS + ALONE)
        assert served == {"eager": decodes} and left == {"eager": others}
        assert theirs == {"eager": decodes + others}
    assert ours["serving"]["task_updates"] == ours["start"]["task_groups"] == 0

"""`vllm serve` with real weights on the simulated NPU: our operators beside the stock host's.

Two servers that differ in the plugin only are asked the same. Their cache is small, so that two
long sequences do not fit, and their token budget is smaller than the long prompts.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from ascend_infer.verification.vllm.engine import graph_mode
from tests.vllm.hosted.server import Server, start, wait

psutil = pytest.importorskip("psutil")

LAYERS, BLOCK = 30, 128
BLOCKS = 6  # the host keeps one for padding
TOKEN_BUDGET = 128
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The server with our operators, and the stock one."""

    ours: Server
    stock: Server


@pytest.fixture(scope="module")
def pair(
    smollm2: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        both = {
            name: stack.enter_context(
                start(
                    smollm2,
                    logs / f"{name}.log",
                    {**environment, "ASCEND_INFER_VLLM_OPS": ops},
                    dtype="float16",
                    max_model_len=512,
                    max_num_seqs=4,
                    max_num_batched_tokens=TOKEN_BUDGET,
                    num_gpu_blocks_override=BLOCKS,
                    enable_prompt_tokens_details=True,
                    **graph_mode("FULL_DECODE_ONLY", (1, 2, 4)),
                )
            )
            for name, ops in (("ours", "all"), ("stock", "off"))
        }
        for server in both.values():
            wait(server)
        yield Pair(**both)


@pytest.fixture(scope="module")
def text(smollm2: Path) -> list[int]:
    """Counting, as tokens: what follows depends on all digits before, and is never a near tie."""
    from transformers import AutoTokenizer

    counted = ", ".join(str(i) for i in range(1, 200))
    tokens: list[int] = AutoTokenizer.from_pretrained(smollm2)(counted)["input_ids"]
    return tokens


def chat(server: Server, **options: Any) -> Any:
    model = server.api.models.list().data[0].id
    return server.api.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=24, **options
    )


def test_a_chat_request_is_answered_as_transformers_answers_it(pair: Pair, smollm2: Path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_dict=True)
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    expected = model.generate(
        torch.tensor([prompt["input_ids"]]), max_new_tokens=24, do_sample=False, pad_token_id=2
    )[0, len(prompt["input_ids"]) :].tolist()
    for server in (pair.ours, pair.stock):
        answer = chat(server, extra_body={"return_token_ids": True})
        assert answer.choices[0].token_ids == expected
        assert answer.choices[0].message.content == "The capital of France is Paris."
        assert answer.choices[0].finish_reason == "stop"


def test_a_stream_has_the_same_text_in_pieces(pair: Pair):
    for server in (pair.ours, pair.stock):
        pieces = [chunk.choices[0].delta.content or "" for chunk in chat(server, stream=True)]
        assert "".join(pieces) == "The capital of France is Paris."
        assert len([piece for piece in pieces if piece]) > 3


def test_each_decode_step_runs_our_kernels_and_updates_no_task(pair: Pair, text: list[int]):
    prompt, new_tokens = text[:20], 9
    ran = {}
    for name, server in (("ours", pair.ours), ("stock", pair.stock)):
        before = server.workers("device_counts")[0]
        ran[name] = server.complete(prompt, new_tokens)
        after = server.workers("device_counts")[0]
        steps = after["replays"] - before["replays"]
        assert steps == new_tokens - 1  # the prefill chooses the first
        launches = Counter(after["replayed_launches"]) - Counter(before["replayed_launches"])
        updates = after["task_updates"] - before["task_updates"]
        if name == "ours":
            assert launches["paged_decode_attention"] == LAYERS * steps
            assert sum(launches.values()) == (LAYERS * 4 + 1) * steps, launches
            assert updates == 0
        else:
            assert not launches
            assert updates == LAYERS * steps
    assert ran["ours"] == ran["stock"]


def test_the_worker_says_which_operators_serve(pair: Pair):
    (found,) = pair.ours.workers("ascend_infer_status")
    assert found["layers"] == {
        "attention": {"ascend-infer": LAYERS},
        "rms_norm": {"ascend-infer": 2 * LAYERS + 1},
        "rotary_embedding": {"ascend-infer": 1},
    }
    assert found["attention_calls"]["ascend-infer"] > 0
    (stock,) = pair.stock.workers("ascend_infer_status")
    assert not stock["layers"] and not stock["launches"] and not stock["hooks_installed"]


def test_requests_of_different_lengths_at_once(pair: Pair, text: list[int]):
    prompts = [text[i : i + n] for i, n in enumerate((5, 17, 100, 129))]
    alone = [pair.stock.complete(prompt, 8) for prompt in prompts]
    assert at_once(pair.ours, prompts, 8) == alone


def test_a_prompt_longer_than_the_token_budget_and_its_prefix_again(pair: Pair, text: list[int]):
    prompt = text[100:400]
    assert len(prompt) > 2 * TOKEN_BUDGET
    found = {}
    for name, server in (("ours", pair.ours), ("stock", pair.stock)):
        hits = server.metric("prefix_cache_hits_total")
        first = server.complete(prompt, 12)
        assert server.metric("prefix_cache_hits_total") == hits
        again = server.complete(prompt, 12)
        assert server.metric("prefix_cache_hits_total") - hits == 2 * BLOCK
        assert again == first
        found[name] = first
    assert found["ours"] == found["stock"]


def test_preempted_requests_are_computed_again(pair: Pair, text: list[int]):
    """Two of two blocks each that grow to three: five are there."""
    prompts = [text[i * 50 : i * 50 + 250] for i in (1, 2)]
    alone = [pair.stock.complete(prompt, 12) for prompt in prompts]
    before = pair.ours.metric("num_preemptions_total")
    assert at_once(pair.ours, prompts, 12) == alone
    assert pair.ours.metric("num_preemptions_total") > before


def test_a_cancelled_stream_frees_its_blocks_and_disturbs_nobody(pair: Pair, text: list[int]):
    server = pair.ours
    model = server.api.models.list().data[0].id
    expected = pair.stock.complete(text[:40], 30)
    with ThreadPoolExecutor() as threads:
        other = threads.submit(server.complete, text[:40], 30)
        stream = server.api.completions.create(
            model=model,
            prompt=text[50:200],
            max_tokens=300,
            temperature=0,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        for _, _chunk in zip(range(3), stream):
            pass
        assert server.metric("kv_cache_usage_perc") > 0
        stream.close()
        assert other.result() == expected
    until(lambda: server.metric("num_requests_running") == 0, "a request still runs")
    assert server.metric("kv_cache_usage_perc") == 0
    assert server.is_healthy()
    # Far from its 300 tokens.
    assert server.complete(text[50:200], 4) == pair.stock.complete(text[50:200], 4)


def test_a_kernel_that_fails_in_the_middle_ends_the_engine(pair: Pair, text: list[int]):
    """The last test of the servers: vLLM does not outlive its engine. Nobody gets wrong tokens."""
    import openai

    server, prompt = pair.ours, text[:20]
    expected = pair.stock.complete(prompt, 40)
    stream = server.api.completions.create(
        model=server.api.models.list().data[0].id,
        prompt=prompt,
        max_tokens=400,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True, "return_token_ids": True},
    )
    received: list[int] = []

    def receive(chunks: Any) -> None:
        for chunk in chunks:
            received.extend(chunk.choices[0].token_ids or [])

    with ThreadPoolExecutor() as threads:
        receive(islice(stream, 6))
        waiting = threads.submit(server.complete, text[20:60], 400)
        server.workers("fail_launches", "paged_decode_attention")
        with pytest.raises(openai.APIError, match="EngineCore"):
            receive(stream)
        with pytest.raises(HTTPError, match="500"):
            waiting.result()
    assert 5 <= len(received) < 400
    assert received[:40] == expected[: len(received)]
    try:
        status = server.process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the server neither serves nor ends: {server.tail()}")
    assert "error code is 507035" in server.log.read_text(errors="replace")
    # vLLM's own: a supervisor that looks at the exit status alone takes it for a wanted end.
    assert status == 0, server.tail()
    until(lambda: not alive(server.process.pid), "its engine or a worker is left")


def at_once(server: Server, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    with ThreadPoolExecutor(len(prompts)) as threads:
        return list(threads.map(lambda prompt: server.complete(prompt, new_tokens), prompts))


def alive(group: int) -> list[str]:
    """Processes of a server; one that ended and that nobody has asked about is none."""
    ours = (p for p in psutil.process_iter(["status", "name"]) if os.getpgid(p.pid) == group)
    return [p.info["name"] for p in ours if p.info["status"] != psutil.STATUS_ZOMBIE]


def until(holds: Any, what: str) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.1)
    pytest.fail(what)

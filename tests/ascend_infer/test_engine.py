"""The engine on the CPU references, against transformers in float32 on tiny random models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ascend_infer.devices import open_device
from ascend_infer.engine import Generation, Request
from ascend_infer.model.catalogue import resolve
from ascend_infer.model.decoder import DecoderModel
from ascend_infer.reference import reference_model
from ascend_infer.reference_check import check_against_reference
from ascend_infer.sampling import SamplingParams
from ascend_infer.session import Session, SessionOptions, open_session
from kernels_npu.errors import AscendInferError

pytest.importorskip("transformers")

Spoil = Callable[[DecoderModel], None]

MODELS = ("llama_dir", "qwen2_dir", "mistral_dir")
PROMPTS = ((3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9), (7,), (20, 30, 40, 50))


def session(path: Path, **options: object) -> Session:
    values: dict[str, object] = {
        "dtype": "float32",
        "max_batch": 3,
        "max_tokens": 64,
        "block_size": 16,
    }
    chosen = SessionOptions(**{**values, **options})  # type: ignore[arg-type]
    return open_session(resolve(str(path)).open(), open_device("cpu"), chosen)


def run(used: Session, requests: list[Request], *, keep_logits: bool = False) -> list[Generation]:
    with torch.no_grad():
        return used.engine.generate(requests, keep_logits=keep_logits)


def requests(new: int = 20, **options: object) -> list[Request]:
    return [
        Request(prompt_token_ids=p, max_new_tokens=new, ignore_eos=True, **options)  # type: ignore[arg-type]
        for p in PROMPTS
    ]


@pytest.mark.parametrize("model", MODELS)
def test_tokens_and_logits_equal_transformers(model: str, request: pytest.FixtureRequest):
    used = session(request.getfixturevalue(model))
    generations = run(used, requests(), keep_logits=True)
    report = check_against_reference(used.source, generations, torch.float32)
    assert report.steps == 3 * 19
    assert report.max_abs_logit_diff < 1e-3 and report.prefill_max_abs_logit_diff < 1e-3
    assert report.top1_agreement == 1.0 and report.passed
    reference = reference_model(used.source)
    for generation in generations:
        prompt = torch.tensor([generation.prompt_token_ids])
        expected = reference.generate(
            prompt, max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        assert expected[0, prompt.shape[1] :].tolist() == list(generation.output_token_ids)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("model", MODELS)
def test_half_precision_is_within_its_tolerance(
    model: str, dtype: str, request: pytest.FixtureRequest
):
    used = session(request.getfixturevalue(model), dtype=dtype)
    generations = run(used, requests(), keep_logits=True)
    report = check_against_reference(used.source, generations, used.model.dtype)
    assert report.passed
    assert 0 < report.max_abs_logit_diff < 2 * report.tolerance


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_gives_what_its_requests_give_alone(model: str, request: pytest.FixtureRequest):
    used = session(request.getfixturevalue(model))
    together = run(used, requests())
    alone = [run(used, [one])[0] for one in requests()]
    assert [g.output_token_ids for g in together] == [g.output_token_ids for g in alone]


def test_sampling_in_a_batch_draws_as_alone(llama_dir: Path):
    used = session(llama_dir)
    params = SamplingParams(temperature=0.8, top_k=20, top_p=0.9, seed=11)
    together = run(used, requests(sampling=params))
    alone = [run(used, [one])[0] for one in requests(sampling=params)]
    assert [g.output_token_ids for g in together] == [g.output_token_ids for g in alone]
    greedy = run(used, requests())
    assert [g.output_token_ids for g in together] != [g.output_token_ids for g in greedy]


def test_all_blocks_come_back_and_finished_rows_leave(llama_dir: Path):
    used = session(llama_dir)
    sizes: list[int] = []
    step = used.runner.step
    used.runner.step = lambda batch: (sizes.append(batch.size), step(batch))[1]
    limits = (9, 2, 5)
    generations = run(
        used,
        [
            Request(prompt_token_ids=p, max_new_tokens=n, ignore_eos=True)
            for p, n in zip(PROMPTS, limits)
        ],
    )
    assert [len(g.output_token_ids) for g in generations] == list(limits)
    assert sizes == [3, 2, 2, 2, 1, 1, 1, 1]
    assert used.engine.blocks.num_free == used.engine.blocks.num_blocks


@pytest.mark.parametrize("max_batch, num_blocks", [(1, 0), (2, 0), (3, 3)])
def test_waiting_requests_take_free_places(llama_dir: Path, max_batch: int, num_blocks: int):
    expected = [run(session(llama_dir), [one])[0].output_token_ids for one in requests()]
    used = session(llama_dir, max_batch=max_batch, num_blocks=num_blocks)
    assert [g.output_token_ids for g in run(used, requests())] == expected


def test_end_of_sequence_stops_and_can_be_ignored(llama_dir: Path):
    used = session(llama_dir)
    free = run(used, [Request(prompt_token_ids=(5,), max_new_tokens=12, ignore_eos=True)])[0]
    eos = free.output_token_ids[3]
    object.__setattr__(used.model.config, "eos_token_ids", (eos,))
    stopped = run(used, [Request(prompt_token_ids=(5,), max_new_tokens=12)])[0]
    first = free.output_token_ids.index(eos)
    assert stopped.output_token_ids == free.output_token_ids[: first + 1]
    assert stopped.finish_reason == "stop" and free.finish_reason == "length"


def test_one_token_needs_no_decode_step(llama_dir: Path):
    used = session(llama_dir)
    generation = run(used, requests(new=1), keep_logits=True)[0]
    assert len(generation.output_token_ids) == 1 and used.runner.stats.eager_steps == 0


@pytest.mark.parametrize(
    "request_, code",
    [
        (Request(prompt_token_ids=(), max_new_tokens=1), "AI-MODEL-032"),
        (Request(prompt_token_ids=(96,), max_new_tokens=1), "AI-MODEL-032"),
        (Request(prompt_token_ids=(-1,), max_new_tokens=1), "AI-MODEL-032"),
        (Request(prompt_token_ids=(1,), max_new_tokens=0), "AI-CLI-001"),
        (Request(prompt_token_ids=(1,) * 100, max_new_tokens=30), "AI-MODEL-031"),
        (Request(prompt_token_ids=(1,) * 100, max_new_tokens=20), "AI-MODEL-030"),
    ],
)
def test_requests_that_cannot_run_are_refused_before_anything_runs(
    llama_dir: Path, request_: Request, code: str
):
    used = session(llama_dir, num_blocks=6)
    good = Request(prompt_token_ids=(1,), max_new_tokens=2)
    with pytest.raises(AscendInferError) as caught:
        run(used, [good, request_])
    assert caught.value.code == code
    assert used.engine.blocks.num_free == 6


def test_a_wrong_weight_is_noticed(llama_dir: Path):
    """The reference check's own twin: one corrupted matrix must fail it."""
    used = session(llama_dir)
    layer = used.model.weights.layers[1]
    object.__setattr__(layer, "down", -layer.down)
    generations = run(used, requests(), keep_logits=True)
    assert not check_against_reference(used.source, generations, torch.float32).passed


def _without_mask(model: DecoderModel) -> None:
    attend = model._causal_attention

    def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        everything = torch.ones(len(query), len(query), dtype=torch.bool)
        return attend(query, key, value, everything)

    model._causal_attention = attention  # type: ignore[method-assign]


def _other_scale(model: DecoderModel) -> None:
    attend = model._causal_attention
    model._causal_attention = lambda q, k, v, mask: attend(q * 1.3, k, v, mask)  # type: ignore[method-assign]


def _later_positions(model: DecoderModel) -> None:
    prefill = model.prefill
    model.prefill = lambda tokens, positions, slots: prefill(tokens, positions + 1, slots)  # type: ignore[method-assign]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("spoil", [_without_mask, _other_scale, _later_positions])
def test_a_wrong_prefill_is_noticed(llama_dir: Path, spoil: Spoil, dtype: str):
    """Top-1 is often right all the same; the distance of the logits is not."""
    used = session(llama_dir, dtype=dtype)
    spoil(used.model)
    generations = run(used, requests(4), keep_logits=True)
    report = check_against_reference(used.source, generations, used.model.dtype)
    assert not report.passed and report.worst_row > report.row_limit

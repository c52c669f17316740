"""What `ascend-infer generate` does, as a function: options in, one result object out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ascend_infer import launches
from ascend_infer.devices import open_device
from ascend_infer.engine import Generation, Request, check_request
from ascend_infer.model.catalogue import resolve
from ascend_infer.progress import Reporter, Silent
from ascend_infer.reference import require_reference
from ascend_infer.reference_check import check_against_reference
from ascend_infer.sampling import SamplingParams
from ascend_infer.session import DTYPES, Session, SessionOptions, open_session
from ascend_infer.simulation import SimulationOptions, simulating
from ascend_infer.step_profile import FirstStepProfiled, ProfileOptions
from ascend_infer.tokenizer import Tokenizer, load_tokenizer
from graphs.device_api import device_api
from graphs.kv_state import KvState
from graphs.report import VerificationReport
from graphs.verification import verify
from kernels_npu import registry
from kernels_npu.errors import AscendInferError, UsageError
from kernels_npu.evidence import Evidence

if TYPE_CHECKING:
    from profiling.simulated import SimulatedRun

#: Rounds of the eager/replay comparison in `generate --verify`;
#: `ascend-infer verify model` does more.
_ROUNDS = 2


@dataclass(frozen=True, kw_only=True)
class GenerateOptions:
    """All options of the command; `prompts` or `prompt_token_ids` is empty."""

    model: str = "smollm2"
    device: str = "auto"
    prompts: tuple[str, ...] = ()
    prompt_token_ids: tuple[tuple[int, ...], ...] = ()
    chat: bool = True
    max_new_tokens: int = 32
    ignore_eos: bool = False
    sampling: SamplingParams = field(default_factory=SamplingParams)
    graph: bool = True
    strict: bool = False
    verify: bool = False
    buckets: tuple[int, ...] = ()
    dtype: str = "float16"
    block_size: int = 128
    num_blocks: int = 0
    simulation: SimulationOptions = field(default_factory=SimulationOptions)
    profile: ProfileOptions | None = None


@dataclass(frozen=True, kw_only=True)
class SequenceResult:
    """One prompt and its continuation; texts are None for token ids without a tokenizer."""

    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    text: str | None
    finish_reason: str


@dataclass(frozen=True, kw_only=True)
class GenerateResult:
    """Everything the command shows; see `to_dict` for the JSON form."""

    device: str
    device_reason: str
    model: str
    dtype: str
    sequences: tuple[SequenceResult, ...]
    graph: dict[str, Any]
    launches: dict[str, dict[str, int]]
    verify: dict[str, Any] | None
    evidence: Evidence
    profile: SimulatedRun | None = None

    @property
    def passed(self) -> bool:
        """False when a verification was asked for and failed."""
        parts = [] if self.verify is None else [part for part in self.verify.values() if part]
        return all(part["passed"] for part in parts)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object. `prompt_token_ids`, `output_token_ids` and `text` are those of the first
        prompt; `sequences` has all of them."""
        sequences = [vars(sequence) for sequence in self.sequences]
        first = sequences[0]
        return {
            "device": self.device,
            "model": self.model,
            "dtype": self.dtype,
            "prompt_token_ids": first["prompt_token_ids"],
            "output_token_ids": first["output_token_ids"],
            "text": first["text"],
            "sequences": sequences,
            "graph": self.graph,
            "launches": self.launches,
            "verify": self.verify,
            "profile": None if self.profile is None else self.profile.to_dict(),
            "evidence": str(self.evidence),
        }


def generate(options: GenerateOptions, reporter: Reporter | None = None) -> GenerateResult:
    """Decode the prompts as one batch.

    Raises:
        AscendInferError: with a code for every wrong input; nothing is decoded then.
    """
    report = reporter or Silent()
    location = resolve(options.model)
    tokenizer = _tokenizer(options, location)
    prompts = _token_ids(options, tokenizer)
    source = location.open()
    requests = [
        Request(
            prompt_token_ids=tuple(prompt),
            max_new_tokens=options.max_new_tokens,
            sampling=options.sampling,
            ignore_eos=options.ignore_eos,
        )
        for prompt in prompts
    ]
    for request in requests:
        check_request(request, source.config)
    device, settings = open_device(options.device), _session_options(options, prompts)
    if options.profile is not None and device.name != "sim":
        raise UsageError(
            "AI-CLI-003",
            f"--opprof profiles the simulated NPU, and the device is {device.name}",
            fix="pass --device sim; on a host, collect with ascend-infer profile op",
        )
    if options.verify:
        require_reference(source)
        if settings.graph and device_api(device.torch_device).supports_graphs:
            settings.require_room_to_verify()
    report.stage("load weights")
    session = open_session(source, device, settings)
    with running(device.name, strict=options.strict, simulation=options.simulation):
        session.engine.check(requests)
        report.stage("capture graphs")
        session.runner.capture()
        # Warm-up launches before capture are not part of the decoding that is reported.
        launches.reset_launch_counts()
        profiled = _profiled(session, options)
        report.stage("decode", total=options.max_new_tokens * len(requests))
        generations = session.engine.generate(
            requests, keep_logits=options.verify, on_token=lambda _key, _token: report.step()
        )
        counts = launches.launch_counts()
        proof = _verify(session, generations, report) if options.verify else None
    return GenerateResult(
        device=device.name,
        device_reason=device.reason,
        model=options.model,
        dtype=options.dtype,
        sequences=tuple(_sequences(options, generations, tokenizer)),
        graph=graph_summary(session),
        launches=counts,
        verify=proof,
        evidence=device.evidence,
        profile=None if profiled is None else profiled.result,
    )


def _profiled(session: Session, options: GenerateOptions) -> FirstStepProfiled | None:
    """Let the engine's next decode step be profiled, when that is asked for."""
    if options.profile is None:
        return None
    profiled = FirstStepProfiled(session.runner, options.profile)
    session.engine.runner = profiled
    return profiled


def graph_summary(session: Session) -> dict[str, Any]:
    """Captured buckets, and how many decode steps were replayed or left the graph, with reasons."""
    stats = session.runner.stats.to_dict()
    return {
        "buckets": list(session.runner.captured_buckets),
        "captures": stats["captures"],
        "replays": stats["replays"],
        "replays_by_bucket": stats["replays_by_bucket"],
        "padded_rows": stats["padded_rows"],
        "eager_steps": stats["eager_steps"],
        "fallbacks": stats["fallbacks"],
        "capture_failures": stats["capture_failures"],
    }


def verify_replay(
    session: Session,
    *,
    rounds: int,
    every_bucket: bool,
    report: Reporter,
    invariance: bool = False,
    soak: int = 0,
) -> VerificationReport | None:
    """Compare eager with replay on the session's graphs; None when none were to be captured.

    Buckets whose capture failed are findings of the report.
    """
    if not (session.runner.captured_buckets or session.runner.failures):
        return None
    block_size = session.options.block_size
    report.stage("verify eager vs replay", total=None)
    return verify(
        session.runner,
        KvState(tensors=session.model.cache.by_name(), block_size=block_size),
        rounds=rounds,
        # Two blocks: lengths on both sides of a block border, at a bearable cost per
        # simulated step.
        max_context=min(2 * block_size, session.model.config.max_position),
        depth="every-bucket" if every_bucket else "smallest-bucket",
        invariance=invariance,
        soak=soak,
        layers=session.model,
        progress=lambda done, _total: report.step(done),
    )


def _verify(
    session: Session, generations: Sequence[Generation], report: Reporter
) -> dict[str, Any]:
    replay = verify_replay(session, rounds=_ROUNDS, every_bucket=False, report=report)
    report.stage("compare with transformers")
    return {
        "eager_vs_replay": None if replay is None else replay.to_dict(),
        "reference": _reference(session, generations),
    }


def _reference(session: Session, generations: Sequence[Generation]) -> dict[str, Any]:
    """The comparison with transformers; a failed one keeps what was decoded."""
    dtype = DTYPES[session.options.dtype]
    try:
        report = check_against_reference(session.source, generations, dtype, isolated=True)
    except AscendInferError as error:
        return {"passed": False, "error": error.to_dict()}
    return report.to_dict()


@contextlib.contextmanager
def running(device: str, *, strict: bool, simulation: SimulationOptions) -> Iterator[None]:
    """The settings under which a session on `device` runs."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if device == "sim":
            stack.enter_context(simulating(simulation))
        stack.enter_context(registry.strict(strict))
        yield


def _tokenizer(options: GenerateOptions, location: Any) -> Tokenizer | None:
    """Needed for text prompts; for token ids it only decodes, and may be absent."""
    try:
        return load_tokenizer(location)
    except AscendInferError:
        if options.prompts:
            raise
        return None


def _token_ids(options: GenerateOptions, tokenizer: Tokenizer | None) -> list[Sequence[int]]:
    if tokenizer is None or not options.prompts:
        return list(options.prompt_token_ids)
    if any(not prompt for prompt in options.prompts):
        raise UsageError("AI-MODEL-032", "a prompt is empty", fix="pass a prompt with some text")
    encode = tokenizer.encode_chat if options.chat else tokenizer.encode
    return [encode(prompt) for prompt in options.prompts]


def _session_options(options: GenerateOptions, prompts: Sequence[Sequence[int]]) -> SessionOptions:
    return SessionOptions(
        dtype=options.dtype,
        graph=options.graph,
        strict=options.strict,
        buckets=options.buckets,
        max_batch=len(prompts),
        max_tokens=max(len(prompt) for prompt in prompts) + options.max_new_tokens,
        block_size=options.block_size,
        num_blocks=options.num_blocks,
    )


def _sequences(
    options: GenerateOptions, generations: Sequence[Generation], tokenizer: Tokenizer | None
) -> list[SequenceResult]:
    prompts: Sequence[str | None] = options.prompts or [None] * len(generations)
    return [
        SequenceResult(
            prompt=prompt,
            prompt_token_ids=generation.prompt_token_ids,
            output_token_ids=generation.output_token_ids,
            text=None if tokenizer is None else tokenizer.decode(generation.output_token_ids),
            finish_reason=generation.finish_reason,
        )
        for prompt, generation in zip(prompts, generations)
    ]

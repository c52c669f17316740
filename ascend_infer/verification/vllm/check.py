"""`ascend-infer vllm verify`: an engine without our operators, then one per mode with them."""

from __future__ import annotations

import functools
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ascend_infer.progress import Reporter, Silent
from ascend_infer.verification.result import CheckReport, CheckResult
from ascend_infer.verification.vllm.compare import compare, describe
from ascend_infer.verification.vllm.engine import (
    LIMIT_S,
    Decoded,
    EngineEnded,
    Request,
    graph_mode,
    run,
)
from ascend_infer.verification.vllm.rounds import random_prompts, rounds
from ascend_infer.vllm_plugin.calls import OURS
from ascend_infer.vllm_plugin.host import installed
from ascend_infer.vllm_plugin.settings import OPS_VARIABLE, REFUSAL_VARIABLE, from_environment
from kernels_npu.errors import EnvironmentProblem, UsageError
from kernels_npu.evidence import Evidence

#: Of how many tokens an engine reports the logits; vLLM's limit unless told otherwise.
_REPORTED = 20
_KERNEL = "paged_decode_attention"
#: Tokens of a block of the host's paged cache.
_BLOCK = 128


@dataclass(frozen=True, kw_only=True)
class VllmOptions:
    """What is asked of the engines.

    model: as vLLM takes it. ops: as `ASCEND_INFER_VLLM_OPS`. lengths: tokens of each prompt.
    batch: sequences that decode together at most. dtype: as vLLM takes it. engine: further
    arguments of `vllm.LLM`, which win. tolerance: in ulps, see `compare.tolerance`.
    """

    model: str
    modes: Sequence[str]
    ops: str = "all"
    lengths: Sequence[int]
    new_tokens: int
    batch: int
    dtype: str = "auto"
    engine: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float | None = None
    limit_s: float = LIMIT_S


def verify_vllm(options: VllmOptions, reporter: Reporter | None = None) -> CheckReport:
    """Decode the same prompts without and with our operators, and compare.

    What the engines print is kept, and named in the report's notes, unless all is well.

    Raises:
        UsageError: AI-VLLM-001 for a wrong `ops`, AI-MODEL-005 for a model without a config,
            AI-MODEL-001 for a config without a vocabulary.
        EnvironmentProblem: AI-VLLM-006 when there is no vLLM, or when it ends without a result
            also without our operators.
    """
    say = reporter or Silent()
    from_environment({OPS_VARIABLE: options.ops})
    if not installed().vllm:
        raise EnvironmentProblem(
            "AI-VLLM-006",
            "vLLM is not installed in this environment",
            rule="the engines that are compared are the host's own",
            fix="run this beside vllm-ascend, or: scripts/vllm-sim -- ascend-infer vllm verify ...",
        )
    planned = rounds(random_prompts(options.lengths, _vocabulary(options)), options.batch)
    logs = Path(tempfile.mkdtemp(prefix="ascend-infer-vllm-logs-"))
    results: list[CheckResult] = []
    try:
        say.stage("stock vLLM, eager")
        reference = _reference(options, planned, logs)
        for mode in options.modes:
            say.stage(f"{options.ops} replaced, {mode}")
            results += _mode(options, mode, planned, reference, logs)
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(logs, ignore_errors=True)  # who gives up does not ask why it went wrong
        raise
    passed = all(result.passed for result in results)
    if passed:
        shutil.rmtree(logs, ignore_errors=True)
    return CheckReport(
        scope="vllm",
        device=reference.model["device"],
        results=tuple(results),
        notes=() if passed else (f"what the engines printed: {logs}",),
    )


def _vocabulary(options: VllmOptions) -> int:
    from transformers import PretrainedConfig

    try:
        values, _ = PretrainedConfig.get_config_dict(options.model)
    except OSError as error:
        raise UsageError(
            "AI-MODEL-005",
            f"transformers finds no config of {options.model}: {str(error).splitlines()[0]}",
            fix="name a folder with config.json, which `ascend-infer export-model` writes of a "
            "built-in model, or a model that vLLM serves by this name",
        ) from error
    size = (values.get("text_config") or values).get("vocab_size")
    if not isinstance(size, int) or size < 1:
        raise UsageError(
            "AI-MODEL-001",
            f"the config of {options.model} has vocab_size {size!r}",
            rule="prompts are random token ids of the model's vocabulary",
            fix="complete the model's config.json",
        )
    return size


def _request(options: VllmOptions, mode: str, planned: list[list[list[int]]]) -> Request:
    """An engine with room for a batch of the longest prompts, and no more."""
    tokens = max(options.lengths) + options.new_tokens
    blocks = options.batch * math.ceil(tokens / _BLOCK) + 1  # one is the host's, for padding
    return Request(
        engine={
            "model": options.model,
            "skip_tokenizer_init": True,
            "dtype": options.dtype,
            "seed": 0,
            "max_model_len": tokens,
            "max_num_seqs": options.batch,
            "num_gpu_blocks_override": blocks,
            "logprobs_mode": "raw_logits",
            **graph_mode(mode),
            **options.engine,
        },
        rounds=planned,
        new_tokens=options.new_tokens,
        sampling={"logprobs": _REPORTED},
    )


def _reference(options: VllmOptions, planned: list[list[list[int]]], logs: Path) -> Decoded:
    try:
        return run(
            _request(options, "eager", planned),
            logs / "stock-eager.log",
            environment={**os.environ, OPS_VARIABLE: "off"},
            limit_s=options.limit_s,
        )
    except EngineEnded as error:
        raise EnvironmentProblem(
            "AI-VLLM-006",
            f"{error}: {error.last_error}",
            rule="the host has to serve the model without this project's operators first",
            fix=f"read {error.log}; what the engine needs goes into --engine",
        ) from error


def _mode(
    options: VllmOptions,
    mode: str,
    planned: list[list[list[int]]],
    reference: Decoded,
    logs: Path,
) -> list[CheckResult]:
    on_npu = reference.model["device"] == "npu" and reference.serving is None
    result = functools.partial(
        CheckResult,
        subject=mode,
        evidence=Evidence.NPU_MEASURED if on_npu else Evidence.SIMULATED,
    )
    try:
        found = run(
            _request(options, mode, planned),
            logs / f"{mode}.log",
            # An operator that cannot be replaced must show in the result, not end the engine.
            environment={**os.environ, OPS_VARIABLE: options.ops, REFUSAL_VARIABLE: "host"},
            limit_s=options.limit_s,
        )
    except EngineEnded as error:
        return [result(check="serves", passed=False, detail=f"{error}: {error.last_error}")]
    compared = compare(reference, found, options.tolerance)
    results = [
        result(
            check="tokens",
            passed=compared.passed,
            detail=describe(compared),
            values={"comparison": asdict(compared)},
        )
    ]
    results += [result(**values) for values in _served(found.plugin, options.ops)]
    if OURS in found.plugin["layers"].get("attention", {}):
        results.append(result(check="decode attention", **_attended(found)))
    return results


def _served(plugin: Mapping[str, Any], ops: str) -> list[dict[str, Any]]:
    """Whether each operator that was asked for serves, where the model has layers of it.

    An operator that is named serves; of all of them, some do. Without this, an engine into which
    the plugin was never loaded would be compared with itself.
    """
    named = {name.strip() for name in ops.split(",")}
    asked = {op: of for op, of in plugin["ops"].items() if of["asked"]}
    checks: list[dict[str, Any]] = []
    for op, of in asked.items():
        layers = plugin["layers"].get(op, {})
        if layers or of["refusal"] or op in named:
            checks.append({"check": op, "passed": OURS in layers, "detail": _built(of, layers)})
    if asked and not plugin["hooks_installed"]:
        checks = [_failed_plugin("vLLM has not loaded it: see `ascend-infer vllm status`")]
    elif asked and not checks:
        checks = [_failed_plugin("no layer of the model has an operator that it replaces")]
    return checks


def _failed_plugin(detail: str) -> dict[str, Any]:
    return {"check": "plugin", "passed": False, "detail": detail}


def _built(asked: Mapping[str, Any], layers: Mapping[str, int]) -> str:
    if asked["refusal"]:
        return f"the host's serves: {asked['refusal']}"
    if not layers:
        return "no layer of the model is built with it"
    left = [f"{count} are the host's: {why}" for why, count in layers.items() if why != OURS]
    return "; ".join([f"{layers.get(OURS, 0)} layers are ours", *left])


def _attended(found: Decoded) -> dict[str, Any]:
    """Whether decode steps reach the kernel; on the simulated device also inside graphs.

    On an NPU nobody counts what a replayed graph launches: calls are those from the host, which
    include the one of each capture.
    """
    calls = dict(found.plugin["attention_calls"])
    ours = calls.pop(OURS, 0)
    detail = [f"{ours} calls from the host are ours"]
    detail += [f"{count} the host's: {why}" for why, count in calls.items()]
    passed = ours > 0
    if found.serving is not None:
        replays, updates = found.serving["replays"], found.serving["task_updates"]
        launches = found.serving["replayed_launches"].get(_KERNEL, 0)
        detail.append(f"{replays} replays with {launches} launches and {updates} task updates")
        # Layers that are left to the host need updates, as they do without us.
        passed = passed and (updates == 0 or len(found.plugin["layers"]["attention"]) > 1)
        # What tokens would not show: whole steps are replayed, with the host's attention in them.
        passed = passed and bool(launches or not replays or not found.model["full_graphs"])
    return {"passed": passed, "detail": "; ".join(detail)}

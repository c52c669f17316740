"""Two runners that replay at the same time: each must give what it gives alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphs.compare import find_mismatch
from graphs.kv_state import KvState, first_difference
from graphs.report import Finding
from graphs.runner import DecodeGraphRunner
from graphs.verification.findings import Findings, Where
from graphs.verification.proof_runs import ProofRuns, Run
from graphs.verification.scenarios import Scenario, ScenarioMaker
from kernels_npu.errors import AscendInferError

Pair = tuple[DecodeGraphRunner, KvState]


def verify_together(
    first: Pair, second: Pair, *, rounds: int = 3, seed: int = 0
) -> tuple[Finding, ...]:
    """Replay two runners on two streams without order between them; empty when neither minds.

    Both are on one device, captured, and each has a KV cache of its own. Graphs that share a memory
    pool, or two runners on the same static buffers, overwrite each other's intermediates: the
    simulated device says so, a real one shows it in the values. Both caches get their content back.
    """
    findings = Findings()
    pairs = (first, second)
    makers = [ScenarioMaker.for_runner(runner, state, seed) for runner, state in pairs]
    with first[1].preserved(), second[1].preserved():
        for number in range(rounds):
            scenarios = [
                maker.make(runner.captured_buckets[-1])
                for maker, (runner, _) in zip(makers, pairs, strict=True)
            ]
            alone = [
                ProofRuns(runner, state).replay(s.content, [s.batch])
                for (runner, state), s in zip(pairs, scenarios, strict=True)
            ]
            if not _judge(findings, pairs, number, alone, _at_once(pairs, scenarios)):
                break
    return findings.ranked()


def _at_once(pairs: Sequence[Pair], scenarios: Sequence[Scenario]) -> list[Run]:
    api = pairs[0][0].api
    for (_, state), scenario in zip(pairs, scenarios, strict=True):
        state.write(scenario.content)
    before = api.current_stream()
    api.stall()  # both streams wait for it, so that they start at the same moment
    streams = [api.new_stream() for _ in pairs]
    for stream in streams:
        stream.wait_stream(before)
    results: list[torch.Tensor] = []
    try:
        for (runner, _), scenario, stream in zip(pairs, scenarios, streams, strict=True):
            with api.use_stream(stream):
                results.append(runner.run(scenario.batch).clone())
        api.synchronize()
    except AscendInferError as error:
        api.synchronize()
        return [Run(cache={}, error=error)]
    return [
        Run(logits=(logits.cpu(),), cache=state.snapshot())
        for logits, (_, state) in zip(results, pairs, strict=True)
    ]


def _judge(
    findings: Findings,
    pairs: Sequence[Pair],
    number: int,
    alone: Sequence[Run],
    at_once: Sequence[Run],
) -> bool:
    """False when a run raised and the rest would repeat it."""
    for run in (*alone, *at_once):
        if run.error is not None:
            findings.add(run.error.code, _where(pairs[0][0], number), run.error.what)
            return False
    for (runner, _), expected, actual in zip(pairs, alone, at_once, strict=True):
        mismatch = find_mismatch("logits", expected.logits[0], actual.logits[0])
        mismatch = mismatch or first_difference(expected.cache, actual.cache)
        if mismatch is not None:
            findings.add(
                "AI-VERIFY-020",
                _where(runner, number),
                "a runner gives other values while another one replays: they share a memory pool "
                "or static buffers, and nothing orders their streams",
                mismatch,
            )
    return True


def _where(runner: DecodeGraphRunner, number: int) -> Where:
    bucket = runner.captured_buckets[-1]
    return Where(check="two runners at once", bucket=bucket, batch_size=bucket, round=number)

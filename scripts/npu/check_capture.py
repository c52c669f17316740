"""A decode block of our kernels in one graph: captured, replayed, compared with eager, counted.

    python scripts/npu/check_capture.py [--device npu:0] [--rounds 5] [--json]

Uses torch.npu's graphs directly, without the runner and without a model, so that a failure is
one of the kernels, of their stream, or of the host. `ascend-infer verify block` goes on from here.
For the runtime's own word that graphs were captured and replayed, run it as

    ascend-infer diagnose --expect-captures 1 run -- python scripts/npu/check_capture.py

Exit status: 0 everything holds, 1 something does not, 2 no such device.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from decode_block import EPS, OPERATORS, Tensors, decode_block, random_inputs, random_weights

from ascend_infer.cli import output
from ascend_infer.cli.options import integer
from ascend_infer.devices import Device, open_device
from ascend_infer.verification.result import CheckResult
from graphs.capture import CapturedStep
from graphs.device_api import DeviceApi, device_api
from kernels_npu import ops, registry
from kernels_npu.errors import AscendInferError, UsageError


class Bench:
    """The static tensors of the graph, and what is captured from them."""

    def __init__(self, api: DeviceApi) -> None:
        self.api, self.generator = api, torch.Generator().manual_seed(0)
        self.weights = self._on_device(random_weights(self.generator))
        self.static = self._on_device(random_inputs(self.generator))
        self.out = torch.empty_like(self.static["hidden"])

    def _on_device(self, tensors: Tensors) -> Tensors:
        return {name: tensor.to(self.api.device) for name, tensor in tensors.items()}

    def step(self) -> None:
        """What is captured, and what eager runs."""
        self.out.copy_(decode_block(self.weights, self.static))

    def capture(self) -> CapturedStep:
        """A graph of the step, warmed up before on the stream that is captured."""
        stream, graph = self.api.new_stream(), self.api.new_graph()
        self.api.synchronize()
        with self.api.use_stream(stream):
            self.step()  # compiles kernels, loads libraries
        self.api.synchronize()
        with (
            registry.recording() as launches,
            self.api.capture(graph, pool=self.api.new_pool(), stream=stream),
        ):
            self.step()
        return CapturedStep(graph=graph, launches=dict(launches))

    def result_of(self, run: Any, inputs: Tensors) -> Tensors:
        """The output and both caches after `run`, from these inputs and a poisoned output."""
        for name, tensor in inputs.items():
            self.static[name].copy_(tensor)
        self.out.fill_(float("nan"))
        run()
        changed = {"out": self.out, **{n: self.static[n] for n in ("key_cache", "value_cache")}}
        return {name: tensor.cpu() for name, tensor in changed.items()}


def check_replay(bench: Bench, rounds: int) -> Iterator[tuple[str, str]]:
    """(check, what is wrong or an empty string); replay and eager from the same inputs."""
    graph = bench.capture()
    before = bench.api.replay_counters()
    found: dict[str, str] = dict.fromkeys(("output written", "output", "KV cache"), "")
    for number in range(rounds):
        inputs = random_inputs(bench.generator)
        replayed, eager = (bench.result_of(run, inputs) for run in (graph.replay, bench.step))
        caches = ("key_cache", "value_cache")
        if replayed["out"].isnan().all():
            found["output written"] = f"AI-VERIFY-004: round {number} left the poison"
        elif not torch.equal(replayed["out"], eager["out"]):
            worst = (replayed["out"].float() - eager["out"].float()).abs().max()
            found["output"] = f"AI-VERIFY-007: round {number} is off by up to {worst:.3g}"
        if not all(torch.equal(replayed[cache], eager[cache]) for cache in caches):
            found["KV cache"] = f"AI-VERIFY-008: round {number} leaves another cache"
    yield from found.items()
    yield "launches of a replay", _launches(graph)
    after = bench.api.replay_counters()
    if before and after:
        counted, asked = after.replays - before.replays, rounds + 1
        wrong = f"AI-VERIFY-012: the device counted {counted}" if counted != asked else ""
        yield f"{asked} replays counted", wrong
    graph.reset()


def _launches(graph: CapturedStep) -> str:
    """What is wrong with the kernels that one replay launches, or an empty string."""
    registry.reset_launch_counts()
    graph.replay()
    counts = registry.launch_counts()
    kernels = {op: count for (op, kind), count in counts.items() if kind != "reference"}
    if kernels == dict.fromkeys(OPERATORS, 1):
        return ""
    return f"AI-VERIFY-012: {counts} instead of each operator's kernel once"


def check_order(bench: Bench, launches: int = 100) -> str:
    """Launches behind slow operations of torch, on a side stream; what is wrong, or ''."""
    api, size = bench.api, 64 if bench.api.simulated else 4096
    slow = torch.randn(size, size, generator=bench.generator).half().to(api.device)
    source = torch.randn(launches, *bench.out.shape, generator=bench.generator).half()
    source = source.to(api.device)
    x = torch.empty_like(source[0])
    api.synchronize()
    seen = []
    with api.use_stream(api.new_stream()):
        for values in source:
            slow = (slow @ slow).clamp(-1, 1)
            x.copy_(values)
            seen.append(ops.rms_norm(x, bench.weights["norm"], EPS))
        api.synchronize()
        expected = [ops.rms_norm(values, bench.weights["norm"], EPS) for values in source]
        api.synchronize()
    wrong = sum(not torch.equal(a.cpu(), b.cpu()) for a, b in zip(seen, expected))
    return f"AI-VERIFY-019: {wrong} of {launches} launches overtook their inputs" if wrong else ""


def check(device: Device, rounds: int) -> list[CheckResult]:
    """All checks; an error of the capture is the last of them."""
    api = device_api(device.torch_device)
    if not api.supports_graphs:
        raise UsageError(
            "AI-GRAPH-002", f"{device.name} has no graphs", fix="choose --device npu, sim or cuda"
        )
    bench = Bench(api)
    found: list[tuple[str, str]] = []
    with torch.no_grad(), registry.strict():
        try:
            found.append(("order on a side stream", check_order(bench)))
            found += check_replay(bench, rounds)
        except AscendInferError as error:
            found.append(("capture", str(error)))
        except RuntimeError as error:
            # Ending a failed capture raises again; the first error is the one that says why.
            found.append(("capture", f"AI-GRAPH-007: {error.__context__ or error}"))
    return [
        CheckResult(
            subject="decode block",
            check=name,
            passed=not wrong,
            detail=wrong or "holds",
            evidence=device.evidence,
        )
        for name, wrong in found
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu", help="npu, npu:1, cuda or sim (default: npu)")
    parser.add_argument("--rounds", type=integer(1), default=5, help="with other inputs each")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    try:
        results = check(open_device(options.device), options.rounds)
    except AscendInferError as error:
        output.print_error(error, as_json=options.json)
        return 2
    passed = all(result.passed for result in results)
    if options.json:
        rows = [result.to_dict() for result in results]
        output.print_json({"passed": passed, "results": rows})
    else:
        output.print_table(
            f"decode block on {options.device}",
            ("check", "verdict", "detail", "evidence"),
            [(r.check, "passed" if r.passed else "FAILED", r.detail, r.evidence) for r in results],
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

"""Decode steps per second of SmolLM2 on the simulated NPU, beside the plain torch reference.

    python benchmarks/decode.py [--context 256] [--tokens 16] [--rounds 3] [--json FILE]

What is measured is how fast *this CPU simulates* the decode graph, with checks off and with all
checks on. It is not, and does not suggest, the speed of an NPU. The variants take turns in one
process, `--rounds` times, so the ratios hold on a busy machine; the digits do not.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from ascend_infer.devices import open_device
from ascend_infer.engine import Request
from ascend_infer.model import catalogue
from ascend_infer.session import Session, SessionOptions, open_session
from kernels_npu.evidence import Evidence
from kernels_npu.sim.config import Checks, configure

MODEL = "smollm2"


@dataclass(kw_only=True)
class Variant:
    """One way to run the same decode steps; `seconds` has one entry per step."""

    name: str
    device: str
    evidence: str
    session: Session = field(repr=False)
    settings: Callable[[], contextlib.AbstractContextManager[object]] = field(repr=False)
    seconds: list[float] = field(default_factory=list)

    @property
    def steps_per_second(self) -> float:
        return 1 / statistics.median(self.seconds)


def variants(context: int, tokens: int) -> Iterator[Variant]:
    """The reference and both settings of the simulator; weights are loaded once per device."""
    source = catalogue.resolve(MODEL).open()
    options = SessionOptions(max_batch=1, max_tokens=context + tokens, buckets=(1,))
    cpu = open_session(source, open_device("cpu"), options)
    yield Variant(
        name="torch reference on this CPU",
        device="cpu",
        evidence=str(Evidence.CPU_VERIFIED),
        session=cpu,
        settings=contextlib.nullcontext,
    )
    simulated = open_session(source, open_device("sim"), options)
    simulated.runner.capture()
    for name, checks in (("checks off", Checks.none()), ("all checks on", Checks())):
        yield Variant(
            name=f"simulated NPU, {name}",
            device="sim",
            evidence=str(Evidence.SIMULATED),
            session=simulated,
            settings=lambda checks=checks: configure(checks=checks),
        )


def measure(variant: Variant, context: int, tokens: int) -> tuple[int, ...]:
    """Decode `tokens` tokens after a prompt of `context`; adds the time of each decode step."""
    prompt = tuple((7 * i + 3) % 1000 + 100 for i in range(context))
    arrivals: list[float] = []
    request = Request(prompt_token_ids=prompt, max_new_tokens=tokens, ignore_eos=True)
    with variant.settings():
        (result,) = variant.session.engine.generate(
            [request], on_token=lambda _key, _token: arrivals.append(time.perf_counter())
        )
    # The first token comes from the prefill; every later one from one decode step.
    variant.seconds += [b - a for a, b in itertools.pairwise(arrivals)]
    return result.output_token_ids


def check_graph_only(variant: Variant) -> None:
    """A step that left the graph would be timed as something else than it is called."""
    stats = variant.session.runner.stats
    if variant.device == "sim" and stats.eager_steps:
        raise SystemExit(f"{stats.eager_steps} steps of {variant.name} ran eagerly: {stats.eager}")


def table(measured: list[Variant]) -> str:
    """The result as text; the first variant is the base of the ratios."""
    base = measured[0].steps_per_second
    lines = [f"{'variant':32} {'tokens/s':>9} {'x reference':>12}  evidence of the tokens"]
    lines += [
        f"{v.name:32} {v.steps_per_second:9.2f} {v.steps_per_second / base:12.4f}  {v.evidence}"
        for v in measured
    ]
    return "\n".join(lines)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--context", type=int, default=256, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=16, help="new tokens per round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
    options = parser.parse_args()

    measured = list(variants(options.context, options.tokens))
    agreed: set[tuple[int, ...]] = set()
    for _ in range(options.rounds):
        for variant in measured:
            tokens = measure(variant, options.context, options.tokens)
            check_graph_only(variant)
            if variant.device == "sim":
                agreed.add(tokens)
    if len(agreed) != 1:
        raise SystemExit("the simulated runs do not agree on the tokens: nothing to measure")

    title = f"SmolLM2-135M, batch 1, context {options.context}, float16, graph replay"
    print(f"{title}\nwall time of the simulation on this CPU, not the speed of an NPU\n")
    print(table(measured))
    if options.json is not None:
        write_json(options.json, title, measured)
    return 0


def write_json(path: Path, title: str, measured: list[Variant]) -> None:
    """All step times, and what they were measured on. Written under another name, then moved."""
    base = measured[0].steps_per_second
    result = {
        "benchmark": "decode",
        "title": title,
        "meaning": "wall time of the simulation on this CPU, not the speed of an NPU",
        "host": {
            "cpus": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torch_threads": torch.get_num_threads(),
        },
        "variants": [
            {
                "name": v.name,
                "device": v.device,
                "evidence_of_tokens": v.evidence,
                "tokens_per_second": v.steps_per_second,
                "ratio_to_reference": v.steps_per_second / base,
                "step_seconds": v.seconds,
            }
            for v in measured
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".partial")
    temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main())

"""Decode graphs on a CUDA device in a minute or two: capture, replay, verification and seeded
faults.

    python scripts/gpu/graph_smoke.py [--device cuda:0]

Needs torch and this repository, nothing else. Prints one JSON object; exit status 0 when
everything holds. Times are medians of the host's clock around many steps, with the device idle at
the start and the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.device_api import DeviceApi, device_api
from graphs.errors import GraphError
from graphs.runner import DecodeGraphRunner
from graphs.toy_model import ToyDecoder
from graphs.verification import verify
from tests.graphs.verification.seeded import TWINS, two_runners

SIZES = (1, 2, 4, 8, 16, 32)
MAX_BLOCKS = 16
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def build(
    api: DeviceApi,
    dtype: torch.dtype,
    wrap: Callable[[Any], Any] = lambda step: step,
) -> tuple[ToyDecoder, DecodeGraphRunner]:
    model = ToyDecoder(
        api.device, vocab_size=1000, hidden=128, num_blocks=96, block_size=16, dtype=dtype
    )
    plan = BucketPlan.of(SIZES)
    buffers = DecodeBuffers.allocate(
        api,
        max_batch=plan.largest,
        max_blocks=MAX_BLOCKS,
        vocab_size=model.vocab_size,
        logits_dtype=dtype,
    )
    runner = DecodeGraphRunner(wrap(model.step), buffers, plan, api)
    runner.capture()
    return model, runner


def seeded_faults(api: DeviceApi) -> dict[str, dict[str, Any]]:
    """Fault -> whether it was found under its code, and what was found first."""
    results: dict[str, dict[str, Any]] = {}
    for name, twin in TWINS.items():
        found = twin.check(api)
        named = [f for f in found if f.code == twin.code and twin.says in f.message]
        results[name] = {
            "code": twin.code,
            "found": bool(named),
            "first": str(named[0] if named else found[0]) if found else None,
        }
    return results


def failed_capture(api: DeviceApi) -> dict[str, Any]:
    """One bucket synchronises while it is captured; the others must work and the state be
    restored.
    """

    def wrap(step: Any) -> Any:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits: torch.Tensor = step(batch)
            if batch.size == 4 and api.is_capturing():
                logits[0, 0].item()
            return logits

        return wrapped

    before = api.current_stream()
    model, runner = build(api, torch.float32, wrap=wrap)
    report = verify(runner, model.state, rounds=1)
    return {
        "captured": list(runner.captured_buckets),
        "first_error": runner.stats.capture_failures.get(4),
        "stream_restored": api.current_stream() == before,
        "codes": sorted({finding.code for finding in report.findings}),
        "others_bitwise_equal": report.bitwise_equal,
    }


def host_batch(rows: int) -> DecodeBatch:
    return DecodeBatch.from_lists(
        token_ids=range(rows),
        positions=[17] * rows,
        slot_mapping=[(2 * row + 1) * 16 + 1 for row in range(rows)],
        block_table=[[2 * row, 2 * row + 1] for row in range(rows)],
        seq_lens=[18] * rows,
    )


def microseconds(api: DeviceApi, step: Callable[[], object], steps: int = 300) -> float:
    """Median over 7 series of the host time per step, the device being idle before and after."""
    series = []
    for _ in range(7):
        api.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            step()
        api.synchronize()
        series.append((time.perf_counter() - start) / steps * 1e6)
    return statistics.median(series)


def step_times(api: DeviceApi) -> dict[str, dict[str, float]]:
    """Batch -> microseconds of a bare replay, of the runner, of its fill alone and of an eager
    step.
    """
    _, runner = build(api, torch.bfloat16)
    times: dict[str, dict[str, float]] = {}
    for rows in (1, 8, 32):
        batch, graph = host_batch(rows), runner._graphs[rows]
        device_batch = batch.to(api.device)
        with torch.no_grad():
            times[str(rows)] = {
                "bare_replay_us": microseconds(api, graph.replay),
                "runner_us": microseconds(api, lambda b=batch: runner.run(b)),  # type: ignore[misc]
                "fill_us": microseconds(api, lambda b=batch: runner.buffers.fill(b, b.size)),  # type: ignore[misc]
                "eager_us": microseconds(api, lambda b=device_batch: runner.step(b)),  # type: ignore[misc]
            }
    return times


def stale_staging(api: DeviceApi, steps: int = 200) -> bool:
    """Whether steps enqueued without waiting each saw their own inputs.

    A long kernel keeps the device behind the host, so copies from staging are really in flight.
    """
    _, runner = build(api, torch.float32)
    busy = torch.randn(2048, 2048, device=api.device)
    batches = [host_batch(1 + i % 32) for i in range(steps)]
    for i, batch in enumerate(batches):
        batch.token_ids.add_(i)
    results = []
    for batch in batches:
        busy = (busy @ busy).clamp(-1, 1)
        runner.run(batch)
        results.append(runner.buffers.token_ids[: batch.size].clone())
    api.synchronize()
    return all(torch.equal(r.cpu(), b.token_ids) for r, b in zip(results, batches))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    device = parser.parse_args().device
    try:
        api = device_api(device)
    except GraphError as error:
        print(error, file=sys.stderr)
        return 2
    start = time.perf_counter()
    result: dict[str, Any] = {"device": device, "torch": torch.__version__, "verify": {}}
    if api.device.type == "cuda":
        result["name"] = torch.cuda.get_device_name(api.device)
    for name, dtype in DTYPES.items():
        model, runner = build(api, dtype)
        report = verify(runner, model.state, invariance=True, soak=1000)
        result["verify"][name] = report.to_dict()
        result.setdefault("stats", {})[name] = runner.stats.to_dict()
    result["seeded_faults"] = seeded_faults(api)
    result["two_runners"] = [str(finding) for finding in two_runners(ordered=True)(api)]
    result["failed_capture"] = failed_capture(api)
    result["staging_is_safe"] = stale_staging(api)
    result["step_times"] = step_times(api)
    result["seconds"] = round(time.perf_counter() - start, 1)
    failed = result["failed_capture"]
    result["passed"] = (
        all(report["passed"] for report in result["verify"].values())
        and all(fault["found"] for fault in result["seeded_faults"].values())
        and not result["two_runners"]
        and failed["captured"] == [size for size in SIZES if size != 4]
        and failed["stream_restored"]
        and failed["codes"] == ["AI-VERIFY-011"]
        and result["staging_is_safe"]
    )
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())

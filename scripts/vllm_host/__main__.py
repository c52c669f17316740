"""`python -m vllm_host`: decode with the stock host in each mode and compare with transformers."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ascend_infer.cli import output
from ascend_infer.cli.options import integer_list
from ascend_infer.verification.vllm.engine import MODES, EngineEnded, Request, graph_mode, run
from ascend_infer.verification.vllm.rounds import LENGTHS
from vllm_host import tiny_model
from vllm_host.changes import AS_PLUGIN, AT_IMPORT_OF_TORCH

_LIMIT_S = 300.0
_MAX_MODEL_LEN, _MAX_NEW_TOKENS = 512, 32


@dataclass(frozen=True, kw_only=True)
class Run:
    """One mode. start, serving: what the device counted (`counters.Snapshot`)."""

    mode: str
    equal: bool
    start: dict[str, Any]
    serving: dict[str, Any]
    tokens: list[list[list[int]]]


def engine_arguments(folder: Path, mode: str, **changed: Any) -> dict[str, Any]:
    """Arguments of `vllm.LLM` for `mode`, small enough for a laptop."""
    return {
        "model": str(folder),
        "skip_tokenizer_init": True,
        "dtype": "float32",
        "max_model_len": _MAX_MODEL_LEN,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 512,
        "num_gpu_blocks_override": 512,
        "seed": 0,
        **graph_mode(mode, (1, 2, 4)),
        **changed,
    }


def main() -> int:
    """Exit code 0 when all tokens are transformers', 1 when some differ, 2 when a run fails."""
    options = _options()
    if options.changes:
        _print_changes(as_json=options.json)
        return 0
    with tempfile.TemporaryDirectory(prefix="vllm-host-model-") as name:
        folder = Path(name)
        tiny_model.write(folder)
        prompts = tiny_model.prompts(options.prompt_lengths)
        expected = tiny_model.greedy(folder, prompts, options.new_tokens)
        try:
            runs = [_compare(folder, mode, prompts, expected, options) for mode in options.modes]
        except EngineEnded as error:
            print("\n".join(error.printed.splitlines()[-40:]), file=sys.stderr)
            print(f"error: {error}", file=sys.stderr)
            return 2
    if options.json:
        print(json.dumps({"evidence": "simulated", "runs": [asdict(r) for r in runs]}))
    else:
        _print_runs(runs, len(prompts), options.new_tokens)
    return 0 if all(r.equal for r in runs) else 1


def _compare(
    folder: Path,
    mode: str,
    prompts: list[list[int]],
    expected: list[list[int]],
    options: argparse.Namespace,
) -> Run:
    print(f"  {mode} ...", file=sys.stderr, flush=True)
    request = Request(
        engine=engine_arguments(folder, mode, dtype=options.dtype),
        rounds=[prompts],
        new_tokens=options.new_tokens,
    )
    found = run(request, folder / f"{mode}.log", limit_s=_LIMIT_S)
    assert found.start is not None and found.serving is not None  # the device is simulated
    return Run(
        mode=mode,
        equal=found.tokens == [expected],
        start=found.start,
        serving=found.serving,
        tokens=found.tokens,
    )


def _options() -> argparse.Namespace:
    longest = _MAX_MODEL_LEN - _MAX_NEW_TOKENS
    parser = argparse.ArgumentParser(
        prog="scripts/vllm-sim",
        description="Decode with stock vllm-ascend on the simulated NPU, a process per mode, and "
        "compare the tokens with transformers' greedy decoding in float32.",
    )
    parser.add_argument(
        "--mode", dest="modes", action="append", choices=MODES, help="one of them; default: all"
    )
    parser.add_argument(
        "--prompt-lengths",
        type=integer_list(1),
        default=LENGTHS,
        metavar="N,N",
        help=f"tokens of each prompt, up to {longest} (default: {','.join(map(str, LENGTHS))})",
    )
    parser.add_argument(
        "--new-tokens",
        type=int,
        default=16,
        choices=range(1, _MAX_NEW_TOKENS + 1),
        metavar="N",
        help=f"to decode after each prompt, up to {_MAX_NEW_TOKENS} (default: 16)",
    )
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument(
        "--changes", action="store_true", help="list what differs from a host with an NPU, and end"
    )
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    options = parser.parse_args()
    if max(options.prompt_lengths) > longest:
        parser.error(f"--prompt-lengths: {max(options.prompt_lengths)} is more than {longest}")
    options.modes = options.modes or list(MODES)
    return options


def _print_changes(*, as_json: bool) -> None:
    changes = [*AT_IMPORT_OF_TORCH, *AS_PLUGIN]
    if as_json:
        rows = [{"what": c.what, "why": c.why, "hosts": c.hosts} for c in changes]
        print(json.dumps(rows))
        return
    output.print_table(
        "what differs from a host with an NPU",
        ("changed in the process", "because", "vLLM"),
        [(change.what, change.why, ", ".join(change.hosts)) for change in changes],
    )


def _print_runs(runs: list[Run], prompts: int, new_tokens: int) -> None:
    output.print_table(
        f"stock vllm-ascend on the simulated NPU: {prompts} prompts, {new_tokens} new tokens",
        ("mode", "tokens", "captures", "replays", "task groups", "task updates"),
        [
            (
                found.mode,
                "equal" if found.equal else "DIFFERENT",
                found.start["captures"],
                found.serving["replays"],
                found.start["task_groups"],
                found.serving["task_updates"],
            )
            for found in runs
        ],
        note="tokens: against transformers in float32. Counts: simulated. No times are.",
    )


if __name__ == "__main__":
    sys.exit(main())

"""An engine of vLLM in a process of its own: what it is asked, what comes back, how it may end."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from profiling.child_process import Ended, Stream, run_to_end

LIMIT_S = 1800.0
#: Where vLLM puts its sockets, whose paths the system cuts at about 100 characters.
SOCKETS_VARIABLE = "VLLM_RPC_BASE_PATH"
#: Without graphs, and vLLM's `cudagraph_mode`.
MODES = ("eager", "PIECEWISE", "FULL_DECODE_ONLY", "FULL", "FULL_AND_PIECEWISE")


def graph_mode(mode: str, sizes: Sequence[int] = ()) -> dict[str, Any]:
    """Arguments of `vllm.LLM` for one of `MODES`; sizes: capture sizes, the host's own without."""
    if mode == "eager":
        return {"enforce_eager": True}
    chosen = {"cudagraph_capture_sizes": list(sizes)} if sizes else {}
    return {"compilation_config": {"cudagraph_mode": mode, **chosen}}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run. engine: arguments of `vllm.LLM`; rounds: lists of prompts (token ids) that are
    decoded together, one list after the other; sampling: further arguments of `SamplingParams`,
    which is greedy without.
    """

    engine: dict[str, Any]
    rounds: list[list[list[int]]]
    new_tokens: int
    sampling: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What a run gave.

    tokens: per round and prompt. scores: the same, per step a mapping of token (as a string) ->
        what the engine's `logprobs_mode` says, of as many tokens as `sampling` asked for as
        `logprobs`; empty without.
    model: its dtype, its layers, the type of the device, and whether whole steps are replayed.
    start, serving: what the simulated device of rank 0 counted until the engine was ready and
        while it served (`counters.Snapshot`); None on another device.
    plugin: `ascend_infer.vllm_plugin.status` of rank 0. metrics: vLLM's own counters.
    wall_s: of this machine, `start` and `decode`.
    """

    tokens: list[list[list[int]]]
    scores: list[list[list[dict[str, float]]]]
    model: dict[str, Any]
    start: dict[str, Any] | None
    serving: dict[str, Any] | None
    plugin: dict[str, Any]
    metrics: dict[str, int]
    wall_s: dict[str, float]

    @classmethod
    def from_json(cls, text: str) -> Decoded:
        """From what the child wrote."""
        values = json.loads(text)
        return cls(**{f.name: values[f.name] for f in fields(cls)})


class EngineEnded(RuntimeError):
    """An engine ended without a result. log: the file with all that it printed."""

    def __init__(self, ended: Ended, log: Path, limit_s: float) -> None:
        how = f"no result within {limit_s:g} s" if ended.timed_out else f"exit code {ended.status}"
        super().__init__(f"vLLM ended without a result: {how}")
        self.log = log

    @property
    def printed(self) -> str:
        """The text of `log`."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def last_error(self) -> str:
        """The line of the log that names the last exception; its last line where none does.

        With the line below it where that is indented: pydantic names a class, then what is wrong.
        """
        lines = [line.rstrip() for line in self.printed.splitlines() if line.strip()]
        if not lines:
            return "nothing was printed"
        named = [i for i, line in enumerate(lines) if _EXCEPTION.search(line)]
        if not named:
            return lines[-1].strip()
        error, *below = lines[named[-1] :]
        if below and below[0].startswith("  "):
            return f"{error.strip()}: {below[0].strip()}"
        return error.strip()


#: `package.SomeError: text`, the last line of a traceback, which vLLM's log may prefix.
_EXCEPTION = re.compile(r"(^|\s)[\w.]*(Error|Exception|Problem): ")


def run(
    request: Request,
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> Decoded:
    """Decode in a process of its own, which prints into `log`; nothing of it outlives the call.

    environment: of the process; this one's without. vLLM puts its sockets into the temporary
    folder and leaves them there: it is given one of its own.

    Raises:
        EngineEnded: when it ends without a result, or after `limit_s` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-") as folder, log.open("wb") as out:
        asked, answered = Path(folder, "request.json"), Path(folder, "result.json")
        asked.write_text(json.dumps(asdict(request)), encoding="utf-8")
        # Both outputs into one file; the child makes one of them, and here is what precedes that.
        printed = Stream(onward=out, kept=Path(os.devnull))
        ended = run_to_end(
            [sys.executable, "-m", f"{__package__}.child", str(asked), str(answered)],
            {**(os.environ if environment is None else environment), SOCKETS_VARIABLE: folder},
            out=printed,
            err=printed,
            limit_s=limit_s,
        )
        if ended.timed_out or ended.status != 0 or not answered.exists():
            raise EngineEnded(ended, log, limit_s)
        return Decoded.from_json(answered.read_text(encoding="utf-8"))

"""One run of the host in this process: `python -m vllm_host.decode REQUEST RESULT`.

REQUEST is a JSON file with `engine` (arguments of `vllm.LLM`), `rounds` (lists of prompts that are
decoded together, one list after the other), `new_tokens` and `sampling` (further arguments of
`SamplingParams`, greedy without); RESULT is written with the tokens and
what the device counted. vLLM keeps its graphs in module globals, hence a process per run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Read the request, decode, write the result."""
    # `collective_rpc` sends a function to the workers by pickle.
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    result = decode(**request)
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


def decode(
    engine: dict[str, Any],
    rounds: list[list[list[int]]],
    new_tokens: int,
    sampling: dict[str, Any],
) -> dict[str, Any]:
    """Tokens of every prompt of every round, and what device and plugin of rank 0 counted."""
    from vllm import LLM, SamplingParams
    from vllm.v1.metrics.reader import Counter

    from ascend_infer.vllm_plugin import worker_status
    from vllm_host import counting

    start = time.monotonic()
    llm = LLM(**engine)
    started = time.monotonic()
    at_start = llm.collective_rpc(counting.take)
    parameters = SamplingParams(
        **{"temperature": 0.0, **sampling},
        max_tokens=new_tokens,
        ignore_eos=True,
        detokenize=False,
    )
    tokens = []
    for prompts in rounds:
        inputs = [{"prompt_token_ids": prompt} for prompt in prompts]
        outputs = llm.generate(inputs, parameters, use_tqdm=False)
        tokens.append([list(output.outputs[0].token_ids) for output in outputs])
    return {
        "tokens": tokens,
        "start": at_start[0],
        "serving": llm.collective_rpc(counting.take)[0],
        "plugin": llm.collective_rpc(worker_status)[0],
        "metrics": {m.name: m.value for m in llm.get_metrics() if isinstance(m, Counter)},
        "wall_s": {"start": started - start, "decode": time.monotonic() - started},
    }


if __name__ == "__main__":
    main()

"""One engine of vLLM in this process: `python -m ascend_infer.verification.vllm.child IN OUT`.

IN is the JSON of `engine.Request`, OUT that of `engine.Decoded`. vLLM keeps its graphs and its
configuration in module globals, hence a process per engine.
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
    os.dup2(1, 2)  # one pipe, so that the log has everything in the order it was printed in
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
    """Decode each round's prompts together, one round after the other."""
    from vllm import LLM, SamplingParams
    from vllm.v1.metrics.reader import Counter

    from ascend_infer.vllm_plugin import worker_status

    began = time.monotonic()
    llm = LLM(**{"disable_log_stats": False, **engine})
    started = time.monotonic()
    at_start = llm.collective_rpc(take_counts)
    parameters = SamplingParams(
        **{"temperature": 0.0, **sampling},
        max_tokens=new_tokens,
        ignore_eos=True,
        detokenize=False,
    )
    outputs = [
        llm.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts], parameters, use_tqdm=False
        )
        for prompts in rounds
    ]
    return {
        "tokens": [[list(o.outputs[0].token_ids) for o in batch] for batch in outputs],
        "scores": [[_scores(o.outputs[0]) for o in batch] for batch in outputs],
        "model": {
            **describe(llm.llm_engine.model_config),
            "full_graphs": llm.collective_rpc(has_full_graphs)[0],
        },
        "start": at_start[0],
        "serving": llm.collective_rpc(take_counts)[0],
        "plugin": llm.collective_rpc(worker_status)[0],
        "metrics": {m.name: m.value for m in llm.get_metrics() if isinstance(m, Counter)},
        "wall_s": {"start": started - began, "decode": time.monotonic() - started},
    }


def describe(config: Any) -> dict[str, Any]:
    """What a tolerance depends on, and where the model ran."""
    from vllm.platforms import current_platform

    return {
        "dtype": str(config.dtype).removeprefix("torch."),
        "layers": config.hf_text_config.num_hidden_layers,
        "device": current_platform.device_type,
    }


def has_full_graphs(worker: Any) -> bool:
    """Whether decode steps are replayed whole, as the worker has settled it with its back end."""
    mode = worker.vllm_config.compilation_config.cudagraph_mode
    return bool(mode.has_full_cudagraphs())


def _scores(output: Any) -> list[dict[str, float]]:
    """Per step, token -> score; JSON has strings as keys."""
    return [
        {str(token): entry.logprob for token, entry in step.items()}
        for step in output.logprobs or ()
    ]


def take_counts(worker: object) -> dict[str, Any] | None:
    """What the simulated device of a worker counted since the last call; None on another one."""
    from kernels_npu.sim import device

    if not device.is_enabled():
        return None
    from kernels_npu.sim.device import counters

    found = counters.snapshot().to_dict()
    counters.reset()
    return found


if __name__ == "__main__":
    main()

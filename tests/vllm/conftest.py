"""The stock host, a process per run; skipped where it is not installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.verification.vllm.engine import Decoded, EngineEnded, Request, run
from ascend_infer.verification.vllm.rounds import LENGTHS
from tests.vllm.hosted.plugins import beside_ours
from tests.vllm.hosted.preloaded import Preloaded

MISSING = [m for m in ("vllm", "vllm_ascend") if importlib.util.find_spec(m) is None]
#: The release of vLLM that the suite runs, which is what `scripts/vllm-sim --host` made.
HOST = "" if MISSING else importlib.metadata.version("vllm").partition("+")[0]
#: What is run with an older host than that of `scripts/vllm-sim` as well.
WITH_OLDER_HOSTS = (
    "test_modes",
    "test_plugin_modes",
    "test_plugin_refusals",
    "test_plugin_traps",
    "test_scheduling",
)
NEWEST_HOST = "0.23.0"
#: What runs first, so that no process is left alone with them at the end.
LONGEST = ("test_serving", "test_smollm2", "test_tensor_parallel")
NEW_TOKENS = 16
ENGINE_LIMIT_S = 300.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    skip = pytest.mark.skip(reason=f"{', '.join(MISSING)} not installed: scripts/test --vllm")
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            if MISSING:
                item.add_marker(skip)
            elif HOST != NEWEST_HOST and item.path.stem not in WITH_OLDER_HOSTS:
                item.add_marker(pytest.mark.skip(reason=f"not run with vLLM {HOST}"))
    if not MISSING:
        items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much memory a laptop needs for the largest of the processes, all of which ended."""
    if not MISSING:
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        terminalreporter.write_line(f"largest process of the host or of a test: {most:.1f} GiB")


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of the host's processes: `import torch` makes the device there."""
    kept = {k: v for k, v in os.environ.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    return {
        **kept,
        "VLLM_DISABLE_COMPILE_CACHE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one process to start instead of two
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # `collective_rpc` sends functions by pickle
    }


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 with random weights."""
    import vllm_host
    from vllm_host import tiny_model

    vllm_host.autoload()  # which the environment of tests switches off; transformers needs it here
    folder = tmp_path_factory.mktemp("model")
    tiny_model.write(folder)
    return folder


@pytest.fixture(scope="session")
def prompts() -> list[list[int]]:
    from vllm_host import tiny_model

    return tiny_model.prompts(LENGTHS)


@pytest.fixture(scope="session")
def expected(model: Path, prompts: list[list[int]]) -> list[list[int]]:
    """What transformers decodes."""
    from vllm_host import tiny_model

    return tiny_model.greedy(model, prompts, NEW_TOKENS)


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2 with its real weights, in float16, as vLLM loads it."""
    import torch
    import vllm_host

    from ascend_infer.model.catalogue import resolve
    from ascend_infer.model_export import export_model

    vllm_host.autoload()
    folder = tmp_path_factory.mktemp("exported") / "smollm2"
    return export_model(resolve("smollm2"), folder, torch.float16)


@pytest.fixture(scope="session")
def preloaded(environment: dict[str, str]) -> Iterator[Preloaded]:
    """Where engines run that start no process of their own."""
    process = Preloaded(environment)
    yield process
    process.close()


@pytest.fixture(scope="session")
def engine(
    model: Path,
    environment: dict[str, str],
    preloaded: Preloaded,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Decoded]:
    """`engine(mode, rounds, **arguments)`: one run of the host.

    Beside the arguments of `vllm.LLM`: `variables` of the environment, `sampling`, `new_tokens`,
    and `alone` for a process that shares nothing with another run.
    """
    from vllm_host.__main__ import engine_arguments

    def call(
        mode: str,
        rounds: list[list[list[int]]],
        *,
        variables: dict[str, str] | None = None,
        sampling: dict[str, Any] | None = None,
        new_tokens: int = NEW_TOKENS,
        alone: bool = False,
        **arguments: Any,
    ) -> Decoded:
        request = Request(
            engine=engine_arguments(model, mode, **arguments),
            rounds=rounds,
            new_tokens=new_tokens,
            sampling=sampling or {},
        )
        log = tmp_path_factory.mktemp("engine") / "log"
        added = variables or {}
        if alone:
            environ = {**environment, **added}
            return run(request, log, environment=environ, limit_s=ENGINE_LIMIT_S)
        return preloaded.run(request, log, variables=added, limit_s=ENGINE_LIMIT_S)

    return call


@pytest.fixture(scope="session")
def decode(engine: Callable[..., Decoded]) -> Callable[..., dict[str, Any]]:
    """Like `engine`, for a run that must succeed: `engine.Decoded` as a dictionary."""

    def call(mode: str, rounds: list[list[list[int]]], **arguments: Any) -> dict[str, Any]:
        try:
            return asdict(engine(mode, rounds, **arguments))
        except EngineEnded as error:
            pytest.fail(f"{error}\n{error.printed[-6000:]}")

    return call


@pytest.fixture(scope="session")
def stock(decode: Callable[..., dict[str, Any]], prompts: list[list[int]]) -> list[list[int]]:
    """The stock host's tokens in float16, eagerly; the plugin is loaded and asked for nothing."""
    found = decode("eager", [prompts], dtype="float16")
    assert found["plugin"]["hooks_installed"] and not found["plugin"]["layers"]
    tokens: list[list[int]] = found["tokens"][0]
    return tokens


def with_plugin(ops: str = "all", **engine: Any) -> dict[str, Any]:
    """Arguments of a run in float16 with our operators."""
    variables = {"ASCEND_INFER_VLLM_OPS": ops, **engine.pop("variables", {})}
    return {"dtype": "float16", "variables": variables, **engine}


@pytest.fixture(scope="session")
def ours(decode: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """`ours(mode, rounds, ops="all", **engine)`: one run with the plugin."""
    return lambda mode, rounds, **engine: decode(mode, rounds, **with_plugin(**engine))


@pytest.fixture(scope="session")
def ours_fails(engine: Callable[..., Decoded]) -> Callable[..., str]:
    """Like `ours`, where the engine ends without a result: what it printed."""

    def call(mode: str, rounds: list[list[list[int]]], **arguments: Any) -> str:
        with pytest.raises(EngineEnded) as raised:
            engine(mode, rounds, **with_plugin(**arguments))
        return raised.value.printed

    return call


@pytest.fixture
def plugin(tmp_path: Path) -> Any:
    """`plugins.beside_ours` of a folder of the test's own."""
    return partial(beside_ours, tmp_path)

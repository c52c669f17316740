"""Whether an operator is replaced in this process: asked for, and known to fit the host."""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Sequence
from typing import Any

from ascend_infer.vllm_plugin import calls
from ascend_infer.vllm_plugin.host import ASCEND, installed
from ascend_infer.vllm_plugin.settings import OnRefusal, Settings, from_config, from_environment
from kernels_npu.errors import EnvironmentProblem


class Decision:
    """What is decided of each operator, once; `settings` as soon as they are known."""

    def __init__(self) -> None:
        self.settings: Settings | None = from_environment()
        self._ours: frozenset[str] | None = None  # of the engine that is being built

    def learn(self, vllm_config: Any) -> None:
        """Take the switches of a server's configuration where the environment has none."""
        if vllm_config is not None and (
            self.settings is None or self.settings.source != "environment"
        ):
            self.settings = from_config(vllm_config)

    def of_engine(self, vllm_config: Any, ops: Sequence[str]) -> list[str]:
        """Which of `ops` are ours in the engine that is built next.

        Raises:
            EnvironmentProblem: AI-VLLM-002, as `replaces`.
        """
        self.learn(vllm_config)
        ours = [op for op in ops if self.replaces(op)]
        self._ours = frozenset(ours)
        return ours

    def left_out(self, op: str) -> str | None:
        """Why a layer is the host's though an earlier engine of this process replaced `op`."""
        if self._ours is None or op in self._ours:
            return None
        return "this engine does not ask for it"

    def replaces(self, op: str) -> bool:
        """Whether `op` is ours.

        Raises:
            EnvironmentProblem: AI-VLLM-002 where it was asked for, cannot be, and `on_refusal` is
                "stop".
        """
        settings = self.settings
        if settings is None or op not in settings.ops:
            return False
        reason = refusal(op)
        if reason is None:
            return True
        self.refuse(op, reason)
        return False

    def refuse(self, op: str, reason: str, cause: BaseException | None = None) -> None:
        """Leave `op` to the host, loudly, or end the process where it must not stand in.

        Raises:
            EnvironmentProblem: AI-VLLM-002 where `on_refusal` is "stop".
        """
        if self.settings is not None and self.settings.on_refusal is OnRefusal.STOP:
            raise EnvironmentProblem(
                "AI-VLLM-002",
                f"{op} cannot be replaced: {reason}",
                rule="only a host whose text is known is changed, and only with kernels that run",
                fix=f"mend that, or leave {op} out of what is asked for, "
                "or let the host's serve: on_refusal=host",
            ) from cause
        calls.warn(op, reason)


@functools.cache
def refusal(op: str) -> str | None:
    """Why this host's `op` is not replaced."""
    return installed().refusal(op) or dialect_refusal()


@functools.cache
def dialect_refusal() -> str | None:
    """Why no kernel can be built on this NPU, by the files of tilelang; None off an NPU."""
    try:
        importlib.metadata.version("torch_npu")
    except importlib.metadata.PackageNotFoundError:
        return None
    from kernels_npu import dialect  # what is not asked for imports nothing
    from kernels_npu.dialect import installation

    if installed().kind is not ASCEND or dialect.device_is_simulated():
        return None
    found = installation.installed()
    wish = os.environ.get(dialect.VARIABLE, "auto")
    try:
        chosen = dialect.choose(found, wish, simulated=False)
    except EnvironmentProblem as error:
        return str(error).splitlines()[0]
    if chosen == "adapter":
        return None
    asked = f", {dialect.VARIABLE}={wish}" if wish != "auto" else ""
    return f"{found}{asked}; kernels on an NPU are built with tilelang-ascend"


@functools.cache
def decision() -> Decision:
    """The decision of this process."""
    return Decision()

"""Environment variables that break or slow something: data.

Sources: torch_npu's NPUStream.cpp, NPUGraph.cpp and documentation of environment variables
(Ascend/pytorch); CANN's documentation of environment variables (hicann/runtime, docs/zh/env_vars);
apache-tvm-ffi 0.1.12; set_env.sh of tile-ai/tilelang-ascend; vllm/plugins (vllm-project/vllm).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from graphs.environment import ENVIRONMENT, EnvironmentRule


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A value of a variable that has a consequence.

    value: as shown in the documentation. applies: to the value, None when the variable is not set.
    effect: what happens. advice: what to do. needs: `torch_npu`, `vllm-ascend` or `adapter` when it
    only matters where that is installed.
    """

    variable: str
    value: str
    applies: Callable[[str | None], bool]
    effect: str
    advice: str
    needs: str = ""


def _equals(*values: str) -> Callable[[str | None], bool]:
    return lambda value: value in values


def _not_ascending(value: str | None) -> bool:
    """Whether the list has a gap for the runtime: it stops at the first id that is not larger."""
    if value is None:
        return False
    ids = [part.strip() for part in value.split(",")]
    if not all(re.fullmatch(r"\d+", part) for part in ids):
        return True
    numbers = list(map(int, ids))
    return numbers != sorted(set(numbers))


def _capture(rule: EnvironmentRule) -> Setting:
    """What stands in the way of a graph capture, or of its use."""
    return Setting(
        variable=rule.variable,
        value=rule.contains,
        applies=lambda value: rule.applies({rule.variable: value or ""}, rule.device),
        effect=f"captures fail: {rule.rule}" if rule.severity == "error" else rule.rule,
        advice=rule.fix,
    )


SETTINGS: tuple[Setting, ...] = (
    *map(_capture, ENVIRONMENT),
    Setting(
        variable="PER_STREAM_QUEUE",
        value="1",
        applies=_equals("1"),
        effect="torch_npu queues operators per stream (experimental): a raw launch is ordered with "
        "one queue only",
        advice="unset PER_STREAM_QUEUE",
    ),
    Setting(
        variable="STREAMS_PER_DEVICE",
        value="neither 8 nor 32",
        applies=lambda value: value not in (None, "", "8", "32"),
        effect="torch_npu takes 8 or 32 only",
        advice="unset STREAMS_PER_DEVICE",
    ),
    Setting(
        variable="ASCEND_RT_VISIBLE_DEVICES",
        value="not an ascending list of numbers",
        applies=_not_ascending,
        effect="the runtime stops at the first id that is wrong or not larger than the one before, "
        "and later NPUs are invisible",
        advice="give ascending numbers, such as 0,1,2",
    ),
    Setting(
        variable="ASCEND_RT_VISIBLE_DEVICES",
        value="set",
        applies=lambda value: value is not None and not _not_ascending(value),
        effect="the runtime does not support it together with profiling",
        advice="unset it for msprof, and choose the NPU in the program",
    ),
    Setting(
        variable="TORCH_DEVICE_BACKEND_AUTOLOAD",
        value="0",
        applies=_equals("0"),
        effect="`import torch` does not load torch_npu: right for --device sim, while a script for "
        "the NPU has to import torch_npu itself",
        advice="unset it for --device npu",
        needs="torch_npu",
    ),
    Setting(
        variable="TVM_FFI_SKIP_DLPACK_C_EXCHANGE_API",
        value="1",
        applies=_equals("1"),
        effect="kernels called through TVM-FFI run on the null stream, outside of captures",
        advice="unset TVM_FFI_SKIP_DLPACK_C_EXCHANGE_API",
    ),
    Setting(
        variable="ACL_OP_INIT_MODE",
        value="not 1",
        applies=lambda value: value != "1",
        effect="torch_npu may load CANN's TVM beside tilelang's; the adapter's set_env.sh sets 1",
        advice="source tilelang-ascend's set_env.sh, or export ACL_OP_INIT_MODE=1",
        needs="adapter",
    ),
    Setting(
        variable="VLLM_PLUGINS",
        value="without `ascend`",
        applies=lambda value: value is not None and "ascend" not in value.split(","),
        effect="vllm loads the plugins of this list only, and so has no NPU",
        advice="add ascend to VLLM_PLUGINS, or unset it",
        needs="vllm-ascend",
    ),
    Setting(
        variable="ASCEND_GLOBAL_LOG_LEVEL",
        value="0 or 1",
        applies=_equals("0", "1"),
        effect="CANN logs every call, which slows each launch",
        advice="unset it, except to look for captures with `ascend-infer diagnose`",
    ),
    Setting(
        variable="ASCEND_SLOG_PRINT_TO_STDOUT",
        value="1",
        applies=_equals("1"),
        effect="CANN writes no log files",
        advice="unset it: `ascend-infer diagnose` reads files",
    ),
)

"""Which operators are replaced: nothing, unless an environment variable or the server's
configuration names it."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernels_npu.errors import UsageError

#: Operators by their switch: `all`, or names with commas between them.
OPS = ("rms_norm", "rotary_embedding", "qk_norm_rope", "attention")
OPS_VARIABLE = "ASCEND_INFER_VLLM_OPS"
REFUSAL_VARIABLE = "ASCEND_INFER_VLLM_ON_REFUSAL"
#: What stands for no operator, where nothing else is named.
_NOTHING = {"", "off", "none"}
#: The key in vLLM's `--additional-config`, with `ops` and `on_refusal`.
CONFIG_KEY = "ascend_infer"


class OnRefusal(enum.Enum):
    """What happens where an operator that was asked for cannot be replaced."""

    #: The host's own operator serves; a warning says so.
    HOST = "host"
    #: The process ends with the reason.
    STOP = "stop"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What was asked for, and where: "environment", "additional_config", or "default"."""

    ops: frozenset[str] = frozenset()
    on_refusal: OnRefusal = OnRefusal.HOST
    source: str = "default"


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings | None:
    """The settings of the environment, which win; None where it has none.

    Raises:
        UsageError: AI-VLLM-001.
    """
    if OPS_VARIABLE not in environment:
        return None
    return Settings(
        ops=_ops(environment[OPS_VARIABLE].split(","), OPS_VARIABLE),
        on_refusal=_on_refusal(environment.get(REFUSAL_VARIABLE, "host"), REFUSAL_VARIABLE),
        source="environment",
    )


def from_config(vllm_config: Any, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a server's `additional_config`; `on_refusal` is the environment's if it has
    one.

    Raises:
        UsageError: AI-VLLM-001.
    """
    additional = getattr(vllm_config, "additional_config", None) or {}
    given = additional.get(CONFIG_KEY) if isinstance(additional, Mapping) else None
    if given is None:
        return Settings()
    where = f"additional_config[{CONFIG_KEY!r}]"
    if not isinstance(given, Mapping) or set(given) - {"ops", "on_refusal"}:
        raise _wrong(where, given, "an object with ops and on_refusal")
    ops = given.get("ops", [])
    if not isinstance(ops, (str, list)) or not all(isinstance(name, str) for name in ops):
        raise _wrong(f"{where}['ops']", ops, "a list of names")
    return Settings(
        ops=_ops(ops.split(",") if isinstance(ops, str) else ops, f"{where}['ops']"),
        on_refusal=_on_refusal(environment[REFUSAL_VARIABLE], REFUSAL_VARIABLE)
        if REFUSAL_VARIABLE in environment
        else _on_refusal(given.get("on_refusal", "host"), f"{where}['on_refusal']"),
        source="additional_config",
    )


def _ops(names: list[str], where: str) -> frozenset[str]:
    asked = {name.strip() for name in names}
    if asked <= _NOTHING:
        return frozenset()
    unknown = asked - {*OPS, "all"}
    if unknown:
        raise _wrong(where, ",".join(sorted(unknown)), f"off, all, or of {', '.join(OPS)}")
    return frozenset(OPS) if "all" in asked else frozenset(asked)


def _on_refusal(value: Any, where: str) -> OnRefusal:
    for choice in OnRefusal:
        if value == choice.value:
            return choice
    raise _wrong(where, value, " or ".join(choice.value for choice in OnRefusal))


def _wrong(where: str, value: Any, rule: str) -> UsageError:
    return UsageError(
        "AI-VLLM-001", f"{where} is {value!r}", rule=f"it is {rule}", fix="see docs/vllm-ascend.md"
    )

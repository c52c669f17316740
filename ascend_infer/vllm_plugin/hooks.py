"""What the plugin does in any host: decide, replace, say so.

Where a host is taken hold of, its own module knows (`ascend_hooks`, `cpu_hooks`). A plugin that
registers operators under a host's names instead is refused by vLLM, whoever comes first.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping
from typing import Any

from ascend_infer.vllm_plugin import calls
from ascend_infer.vllm_plugin.decision import decision
from ascend_infer.vllm_plugin.host import installed
from ascend_infer.vllm_plugin.settings import OPS, from_environment

#: Key in vLLM's `additional_config` under which the plugin leaves the operators that are ours.
REPLACED_KEY = "ascend_infer_replaces"
#: The same for what of them cannot be built.
NOT_BUILT_KEY = "ascend_infer_not_built"
#: On a function that stands before one of the host's: that one.
MARK = "_ascend_infer_wraps"


def install() -> None:
    """Wrap what is not wrapped yet; nothing where the environment switches all off."""
    settings = from_environment()
    if settings is not None and not settings.ops:
        return
    host = installed()
    if host.package is not None:
        importlib.import_module(host.kind.hooks).install()


def is_installed() -> bool:
    """Whether the host's functions are wrapped in this process."""
    hooks = sys.modules.get(installed().kind.hooks)
    return hooks is not None and bool(hooks.is_installed())


def wrap_backend_choice(platform: Any, backends: Mapping[str, str]) -> None:
    """Let a platform name our attention back end where it names its own, once.

    backends: the host's -> ours.
    """
    if hasattr(platform.get_attn_backend_cls, MARK):
        return
    choose = platform.get_attn_backend_cls.__func__

    @functools.wraps(choose)
    def get_attn_backend_cls(cls: Any, *args: Any, **kwargs: Any) -> Any:
        name = choose(cls, *args, **kwargs)
        if name not in backends:
            return name
        decision().learn(current_config())
        return backends[name] if decision().replaces("attention") else name

    setattr(get_attn_backend_cls, MARK, choose)
    platform.get_attn_backend_cls = classmethod(get_attn_backend_cls)


def decide(vllm_config: Any) -> list[str]:
    """The operators that are ours, once the configuration is known and before the model is built.

    Raises:
        EnvironmentProblem: AI-VLLM-002, as `Decision.replaces`.
    """
    ours = decision().of_engine(vllm_config, OPS)
    _forget_backends()
    tell_graphs_apart(vllm_config, REPLACED_KEY, ours)
    _announce(ours)
    return ours


def _forget_backends() -> None:
    """vLLM keeps its choice of a back end for the whole process; this engine may want another."""
    selector = sys.modules.get("vllm.v1.attention.selector")
    choose = getattr(selector, "_cached_get_attn_backend", None)
    if choose is not None:
        choose.cache_clear()


def tell_graphs_apart(vllm_config: Any, key: str, what: list[str]) -> None:
    """Add `what` to a list in the configuration, which vLLM keeps compiled graphs by.

    A graph that was compiled ahead of time is looked for by the configuration and by vLLM's own
    variables. Without this, one of the host's operators would be found and run in silence.
    """
    additional = getattr(vllm_config, "additional_config", None)
    if what and isinstance(additional, dict):
        known = additional.get(key, [])
        additional[key] = known + [name for name in what if name not in known]


@functools.cache
def log(text: str) -> None:
    """Say something once per process."""
    calls.logger.info(text)


def _announce(ours: list[str]) -> None:
    settings = decision().settings
    if settings is None or not settings.ops:
        return
    host = installed()
    log(
        f"ascend-infer: {', '.join(ours) or 'nothing'} replaced in {host.label} "
        f"(asked for in {settings.source})"
    )


def current_config() -> Any:
    """The configuration of the engine that is being built; None outside of one."""
    from vllm.config import get_current_vllm_config

    try:
        return get_current_vllm_config()
    except AssertionError:
        return None

"""Where the plugin takes hold of the host: two of its functions are wrapped, once.

The choice of the attention back end is a function of the platform that returns a name; the table of
operators is filled by a function that each worker calls before the model is built. A plugin that
registers operators under the host's names instead is refused by vLLM, whoever comes first.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ascend_infer.vllm_plugin import calls
from ascend_infer.vllm_plugin.decision import decision
from ascend_infer.vllm_plugin.host import installed
from ascend_infer.vllm_plugin.settings import from_environment

HOST_BACKEND = "vllm_ascend.attention.attention_v1.AscendAttentionBackend"
OUR_BACKEND = "ascend_infer.vllm_plugin.attention.Backend"
#: Key in vLLM's `additional_config` under which the plugin leaves the operators that are ours.
REPLACED_KEY = "ascend_infer_replaces"
#: The same for what of them cannot be built.
NOT_BUILT_KEY = "ascend_infer_not_built"
_MARK = "_ascend_infer_wraps"


def install() -> None:
    """Wrap what is not wrapped yet; nothing where the environment switches all off."""
    settings = from_environment()
    if settings is not None and not settings.ops:
        return
    if installed().package is None:
        return
    from vllm_ascend import utils
    from vllm_ascend.platform import NPUPlatform

    if not hasattr(NPUPlatform.get_attn_backend_cls, _MARK):
        wrapped = _choosing(NPUPlatform.get_attn_backend_cls.__func__)
        NPUPlatform.get_attn_backend_cls = classmethod(wrapped)
    if not hasattr(utils.register_ascend_customop, _MARK):
        utils.register_ascend_customop = _registering(utils.register_ascend_customop)
    worker = sys.modules.get("vllm_ascend.worker.worker")
    if worker is not None:  # it has the name already
        worker.register_ascend_customop = utils.register_ascend_customop  # type: ignore[attr-defined]


def is_installed() -> bool:
    """Whether the host's functions are wrapped in this process."""
    utils = sys.modules.get("vllm_ascend.utils")
    return utils is not None and hasattr(utils.register_ascend_customop, _MARK)


def _choosing(choose: Any) -> Any:
    @functools.wraps(choose)
    def get_attn_backend_cls(cls: Any, *args: Any, **kwargs: Any) -> Any:
        name = choose(cls, *args, **kwargs)
        if name != HOST_BACKEND:
            return name
        decision().learn(current_config())
        return OUR_BACKEND if decision().replaces("attention") else name

    setattr(get_attn_backend_cls, _MARK, choose)
    return get_attn_backend_cls


def _registering(register: Any) -> Any:
    @functools.wraps(register)
    def register_ascend_customop(vllm_config: Any = None) -> None:
        register(vllm_config)
        config = vllm_config if vllm_config is not None else current_config()
        decision().learn(config)
        in_table = [op for op in ("rms_norm", "rotary_embedding") if decision().replaces(op)]
        if in_table:
            from ascend_infer.vllm_plugin import layers

            layers.replace(in_table)
        fused = ["qk_norm_rope"] if decision().replaces("qk_norm_rope") else []
        if fused:
            from ascend_infer.vllm_plugin import qk_norm_rope

            qk_norm_rope.replace()
        ours = in_table + fused + (["attention"] if decision().replaces("attention") else [])
        tell_graphs_apart(config, REPLACED_KEY, ours)
        _announce(in_table, ours)

    setattr(register_ascend_customop, _MARK, register)
    return register_ascend_customop


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
def _log(text: str) -> None:
    calls.logger.info(text)


def _announce(in_table: list[str], ours: list[str]) -> None:
    settings = decision().settings
    if settings is None or not settings.ops:
        return
    _log(
        f"ascend-infer: {', '.join(ours) or 'nothing'} replaced in vllm-ascend "
        f"{installed().vllm_ascend} (asked for in {settings.source})"
    )
    if in_table:
        _log(
            "ascend-infer: the host's fusions around RMSNorm and rotary embedding look for the "
            "operators of torch_npu and do not find ours; qk_norm_rope is such a fusion for Qwen3"
        )


def current_config() -> Any:
    """The configuration of the engine that is being built; None outside of one."""
    from vllm.config import get_current_vllm_config

    try:
        return get_current_vllm_config()
    except AssertionError:
        return None

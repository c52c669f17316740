"""Where the plugin takes hold of vllm-ascend: two of its functions are wrapped, once.

The choice of the attention back end is a function of the platform that returns a name; the table of
operators is filled by a function that each worker calls before the model is built.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ascend_infer.vllm_plugin import hooks

#: The host's attention back end, and ours that takes its place.
BACKENDS = {
    "vllm_ascend.attention.attention_v1.AscendAttentionBackend": (
        "ascend_infer.vllm_plugin.attention.Backend"
    ),
}
#: What the host puts into Qwen3's layers, and where these are.
_QWEN3_PATCH = "vllm_ascend.patch.worker.patch_qwen3vl"
_QWEN3_FORWARD = "forward_with_split_qkv_rmsnorm_mrope"
_QWEN3 = {
    "vllm.model_executor.models.qwen3": "Qwen3Attention",
    "vllm.model_executor.models.qwen3_moe": "Qwen3MoeAttention",
}


def install() -> None:
    """Wrap what is not wrapped yet."""
    from vllm_ascend import utils
    from vllm_ascend.platform import NPUPlatform

    hooks.wrap_backend_choice(NPUPlatform, BACKENDS)
    if not hasattr(utils.register_ascend_customop, hooks.MARK):
        utils.register_ascend_customop = _registering(utils.register_ascend_customop)
    worker = sys.modules.get("vllm_ascend.worker.worker")
    if worker is not None:  # it has the name already
        worker.register_ascend_customop = utils.register_ascend_customop  # type: ignore[attr-defined]


def is_installed() -> bool:
    """Whether both are wrapped in this process; this one is the last."""
    utils = sys.modules.get("vllm_ascend.utils")
    return utils is not None and hasattr(utils.register_ascend_customop, hooks.MARK)


def qwen3_layers() -> dict[Any, Any]:
    """The classes with queries and keys that are normalised, and the `forward` put into them."""
    known = getattr(sys.modules.get(_QWEN3_PATCH), _QWEN3_FORWARD, None)
    layers = (getattr(sys.modules.get(module), name, None) for module, name in _QWEN3.items())
    return {layer: known for layer in layers if layer is not None}


def _registering(register: Any) -> Any:
    @functools.wraps(register)
    def register_ascend_customop(vllm_config: Any = None) -> None:
        register(vllm_config)
        ours = hooks.decide(vllm_config if vllm_config is not None else hooks.current_config())
        in_table = [op for op in ours if op in ("rms_norm", "rotary_embedding")]
        if in_table:
            from ascend_infer.vllm_plugin import layers

            layers.replace(in_table)
            hooks.log(
                "ascend-infer: the host's fusions around RMSNorm and rotary embedding look for the "
                "operators of torch_npu and do not find ours; qk_norm_rope is such a fusion for "
                "Qwen3"
            )
        if "qk_norm_rope" in ours:
            from ascend_infer.vllm_plugin import qk_norm_rope

            qk_norm_rope.replace(qwen3_layers())

    setattr(register_ascend_customop, hooks.MARK, register)
    return register_ascend_customop

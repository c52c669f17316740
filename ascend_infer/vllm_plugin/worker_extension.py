"""What vLLM's option `--worker-extension-cls` adds to each worker: the plugin's state by name.

By name is the only way over HTTP, and into an engine in a process of its own: vLLM sends functions
there only with VLLM_ALLOW_INSECURE_SERIALIZATION=1.
"""

from __future__ import annotations

from typing import Any

from ascend_infer.vllm_plugin import status


class StatusExtension:
    """A base class that vLLM gives its worker."""

    def ascend_infer_status(self) -> dict[str, Any]:
        """`ascend_infer.vllm_plugin.status` of this worker's process."""
        return status()

    def ascend_infer_kv_contract(self) -> dict[str, Any]:
        """`ascend_infer.vllm_plugin.kv.worker_contract` of this worker."""
        from ascend_infer.vllm_plugin.kv import worker_contract

        return worker_contract(self)

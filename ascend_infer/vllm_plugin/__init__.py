"""Our operators inside stock vllm-ascend, or vLLM on its CPU platform: RMSNorm, rotary embedding,
both fused for Qwen3, and paged decode attention.

vLLM calls `register` in every process that it starts, before the host has registered its own
operators. Nothing is replaced unless the user asks (see `settings`); nothing heavy is imported
until a model is built.
"""

from __future__ import annotations

from typing import Any


def register() -> None:
    """The entry point `vllm.general_plugins`; may be called any number of times.

    Raises:
        UsageError: AI-VLLM-001 for a wrong switch, which ends the process: vLLM would only log
            an error of the import and serve without us.
    """
    from ascend_infer.vllm_plugin.hooks import install

    install()


def status() -> dict[str, Any]:
    """What is asked for, what is installed and what was called in this process, JSON-ready.

    In a server: `worker_extension.StatusExtension`.
    """
    from ascend_infer.vllm_plugin.report import report

    return report()


def worker_status(_worker: object) -> dict[str, Any]:
    """`status` of a worker's process: `llm.collective_rpc(worker_status)`, in the same process."""
    return status()

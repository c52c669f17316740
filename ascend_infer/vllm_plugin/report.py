"""The plugin's state as data: what `ascend-infer vllm status` prints."""

from __future__ import annotations

from typing import Any

from ascend_infer.vllm_plugin import calls
from ascend_infer.vllm_plugin.decision import decision, refusal
from ascend_infer.vllm_plugin.hooks import is_installed
from ascend_infer.vllm_plugin.host import installed
from ascend_infer.vllm_plugin.settings import OPS


def report() -> dict[str, Any]:
    """JSON-ready; of the process that asks, not of its server's others."""
    host, settings = installed(), decision().settings
    asked = settings.ops if settings is not None else frozenset()
    return {
        "host": {
            "name": host.kind.name,
            "version": host.version,
            "counts_as": host.release,
            "label": host.label,
            "vllm": host.vllm,
            "supported": list(host.kind.supported),
        },
        "asked_in": settings.source if settings is not None else "default",
        "on_refusal": settings.on_refusal.value if settings is not None else "host",
        "ops": {
            op: {
                "asked": op in asked,
                "refusal": refusal(op),
                "differences": [str(found) for found in host.differences(op)],
            }
            for op in OPS
        },
        "hooks_installed": is_installed(),
        **calls.as_json(),
        "launches": _launches(),
    }


def _launches() -> dict[str, int]:
    """Kernel launches by operator and who served them; nothing where no kernel was loaded."""
    import sys

    registry = sys.modules.get("kernels_npu.registry")
    counts = registry.launch_counts() if registry is not None else {}
    return {f"{op} ({who})": count for (op, who), count in sorted(counts.items())}

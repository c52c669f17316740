"""Checks our calls into torch_npu, tilelang, vllm and vllm-ascend against those packages' files."""

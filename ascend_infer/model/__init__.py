"""Decoder models of the Llama/Qwen2 kind: configuration, weights and the forward pass."""

from __future__ import annotations

"""Rotary embedding kernels."""

"""Activation kernels."""

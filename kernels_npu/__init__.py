"""Decode kernels in the adapter dialect and everything needed to define and launch one."""

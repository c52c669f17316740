"""Profiler files, roofline and reports. Reserved: nothing is implemented here yet."""

"""Benchmarks of decode graphs; `python -m benchmarks.graphs` from the repository's root."""

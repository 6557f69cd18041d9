"""Benchmarks: `python -m tools.bench` measures this library beside its peers in one process."""

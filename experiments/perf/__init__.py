"""Benchmarks of the runtime itself: `python -m experiments perf core | runtime`."""

"""Benchmarks of the runtime itself: `python -m experiments perf core | runtime | simulation | calls`."""

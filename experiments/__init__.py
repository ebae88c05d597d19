"""What is run and reported: `python -m experiments list | run | report | trace | compare | replay | perf | doctor`.

Here live the data sets and graders, the phases of a run, run folders, reports, benchmarks, and one folder for
each paper with its claims, commands and numbers.
"""

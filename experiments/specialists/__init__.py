"""Small models that we train ourselves, unequal on purpose: a constructed pool of unlike agents on real engines.

`python -m experiments.specialists.train NAME` trains one; `python -m experiments.specialists.evaluate` measures
all of them on fresh problems through the real vLLM engine. The weights are shipped in `serving/specialists`.
"""

"""The experiments of this paper."""

from pathlib import Path

from experiments.registry import Experiment

POOLS = Path(__file__).parent / "pools"

EXPERIMENTS = (
    Experiment(
        name="deals",
        summary="warm-up, freeze, test: one pool, one data set, backpressure with quality",
        pool=POOLS / "smollm2-x3.yaml",
    ),
    Experiment(
        name="demo",
        summary="the same, small: three real SmolLM2-135M engines on generated problems",
        pool=POOLS / "demo.yaml",
        defaults={"dataset": {"name": "families"}, "warmup": 36, "test": 54},
    ),
)

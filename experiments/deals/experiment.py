"""The experiments of this paper."""

from pathlib import Path

from experiments.registry import Experiment

POOLS = Path(__file__).parent / "pools"

AGENTNET = (
    "ingress=best_ability",
    "pool.settings.executor.kind=agentnet",
    "pool.settings.mechanism.policy=keep",
)
DEMO_TYPES = [
    "boolean_expressions",
    "last_letters",
    "word_sorting",
    "object_counting",
    "multistep_arithmetic",
]
"""Families that some specialist of the demo's pool was trained on."""
EXPERIMENTS = (
    Experiment(
        name="deals",
        summary="warm-up, freeze, test: one pool, one data set, backpressure with quality",
        pool=POOLS / "smollm2-x3.yaml",
    ),
    Experiment(
        name="agentnet",
        summary="AgentNet as published, on the same agents: the model routes, one task after the other",
        pool=POOLS / "smollm2-x3.yaml",
        defaults={"arrivals": {"kind": "closed", "under_way": 1}},
        changes=AGENTNET,
    ),
    Experiment(
        name="agentnet-concurrent",
        summary="the same with all tasks at once on the same slots",
        pool=POOLS / "smollm2-x3.yaml",
        changes=AGENTNET,
    ),
    Experiment(
        name="demo",
        summary="a constructed pool of specialists on real engines finds out who can do what: V=0, then V=80",
        pool=POOLS / "specialists.yaml",
        defaults={
            "dataset": {"name": "families", "types": DEMO_TYPES, "difficulty": 1},
            "warmup": 100,
            "test": 90,
        },
        weights=(0, 80),
    ),
)

"""What an operator sees on Ray's metrics port."""

import asyncio
import urllib.request
from collections import defaultdict

import pytest
import ray
from prometheus_client.parser import text_string_to_metric_families

from actors.cluster.ray_runtime import RayCluster
from actors.config import ExecutorSettings
from actors.metrics import DecisionRecord, ExecutionRecord
from tests.actors.plans import KINDS, Ran, make_agent_settings, make_plan, run_all

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("local_ray"),
]

PLAN = make_plan(
    2,
    options={"split_rate": 0.3, "complete_rate": 0.6},
    settings=make_agent_settings(executor=ExecutorSettings(kind="deliberate")),
)
PREFIX = "ray_tradewinds_"
OWN_LABELS = ("agent", "task_type", "kind", "le")
Samples = dict[str, dict[tuple[str, ...], float]]
"""Values by name and the values of our own labels, summed over the processes that emit them."""


def scrape() -> tuple[Samples, dict[str, set[str]]]:
    (node,) = ray.nodes()
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    samples: Samples = defaultdict(lambda: defaultdict(float))
    labels: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(PREFIX):
                mine = {name: sample.labels[name] for name in OWN_LABELS if name in sample.labels}
                samples[sample.name.removeprefix(PREFIX)][tuple(mine.values())] += sample.value
                for name, value in mine.items():
                    labels[name].add(value)
    return samples, labels


async def scrape_when_complete(ran: Ran) -> tuple[Samples, dict[str, set[str]]]:
    """Ray brings its port up to date about every ten seconds."""
    for _ in range(60):
        samples, labels = scrape()
        if sum(samples["decisions_total"].values()) == len(ran.of(DecisionRecord)):
            return samples, labels
        await asyncio.sleep(1.0)
    raise AssertionError(f"incomplete after a minute: {dict(samples['decisions_total'])}")


@pytest.fixture(scope="module")
def scraped(local_ray: None) -> tuple[Ran, Samples, dict[str, set[str]]]:
    async def use() -> tuple[Ran, Samples, dict[str, set[str]]]:
        cluster = RayCluster(PLAN)
        try:
            await cluster.start()
            ran = await run_all(cluster, PLAN, 60)
            await asyncio.sleep(0.2)  # the last view of each agent, at most a gossip interval later
            return ran, *await scrape_when_complete(ran)
        finally:
            await cluster.close()

    return asyncio.run(use())


def test_counters_agree_with_the_records(scraped: tuple[Ran, Samples, dict[str, set[str]]]) -> None:
    ran, samples, _ = scraped
    decisions, steps = ran.of(DecisionRecord), ran.of(ExecutionRecord)
    assert sum(samples["forwards_total"].values()) == sum(d.chosen is not None for d in decisions) > 0
    assert sum(samples["splits_total"].values()) == sum(step.kind == "split" for step in steps) > 0
    assert sum(samples["step_seconds_count"].values()) == len(steps)
    within = sum(value for labels, value in samples["step_seconds_bucket"].items() if labels[-1] == "0.01")
    assert within == sum(step.duration_s <= 0.01 for step in steps)
    of_first = [decision for decision in decisions if decision.agent == 0 and decision.task_type == KINDS[0]]
    assert samples["decisions_total"]["a1", KINDS[0]] == len(of_first)
    for i, name in enumerate(("a1", "a2")):
        mine = [step for step in steps if step.agent == i]
        assert samples["tokens_total"][name, "prompt"] == sum(step.prompt_tokens for step in mine)
        assert samples["tokens_total"][name, "completion"] == sum(step.completion_tokens for step in mine)


def test_gauges_stand_at_rest_when_the_work_is_done(
    scraped: tuple[Ran, Samples, dict[str, set[str]]],
) -> None:
    _, samples, _ = scraped
    assert samples["queue_length"] == {(name, kind): 0 for name in ("a1", "a2") for kind in KINDS}
    assert samples["slots_busy"] == {("a1",): 0, ("a2",): 0}


def test_labels_come_from_closed_sets(scraped: tuple[Ran, Samples, dict[str, set[str]]]) -> None:
    _, _, labels = scraped
    assert labels["agent"] == {"a1", "a2"}
    assert labels["task_type"] == set(KINDS)
    assert labels["kind"] == {"prompt", "completion"}

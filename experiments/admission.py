"""Where and when tasks enter: what an experiment decides before the agents do."""

from collections import Counter

from actors.cluster.api import Verdict
from actors.task import AgentId
from experiments.record import StreamTask
from experiments.settings import RunSettings


class Admission:
    """The arrival agent of each task: as drawn with the stream, or picked centrally when it enters."""

    def __init__(self, settings: RunSettings) -> None:
        self._central = settings.ingress == "best_ability"
        self._agents = len(settings.pool.agents)
        self._successes: Counter[tuple[str, int]] = Counter()

    def verdict(self, verdict: Verdict) -> None:
        """Counts a verdict that the agents count as well."""
        if verdict.success:
            self._successes.update((verdict.task_type, agent) for agent in verdict.agents)

    def agent(self, task: StreamTask) -> AgentId:
        """AgentNet starts at the agent of the highest mean ability for the type (arXiv 2504.00587): abilities grow
        by a fixed step with each success, so that is the agent with most successes; ties go to the smallest index.
        Before any success the arrival agent stays as drawn."""
        if not self._central:
            return task.ingress
        successes_N = [self._successes[task.row.task_type, agent] for agent in range(self._agents)]
        best = max(range(self._agents), key=lambda agent: (successes_N[agent], -agent))
        return AgentId(best) if successes_N[best] else task.ingress

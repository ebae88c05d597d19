"""Application metrics on Ray's metrics port, from the records that agents write anyway.

Ray exports them as `ray_tradewinds_...`, counters with `_total`. Labels come from closed sets only: an
agent's name, a task type of the plan, a kind of token.
"""

from collections.abc import Mapping, Sequence

from ray.util.metrics import Counter, Gauge, Histogram

from actors.metrics import DecisionRecord, ExecutionRecord, QueueRecord, Record
from actors.task import AgentId, TaskType

# Ray passes on how many values fell into each bucket and estimates their sum from that.
STEP_BOUNDARIES_S = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]


class _Meters:
    """The instruments of one process. Ray registers them where they are made."""

    def __init__(self) -> None:
        self.queue_length = Gauge(
            "tradewinds_queue_length", "Tasks that wait at an agent", ("agent", "task_type")
        )
        self.slots_busy = Gauge("tradewinds_slots_busy", "Occupied executor slots", ("agent",))
        self.decisions = Counter("tradewinds_decisions", "Routing decisions", ("agent", "task_type"))
        self.forwards = Counter(
            "tradewinds_forwards", "Decisions to hand a task over", ("agent", "task_type")
        )
        self.splits = Counter("tradewinds_splits", "Steps that split a task", ("agent", "task_type"))
        self.failures = Counter("tradewinds_failures", "Steps that failed", ("agent", "task_type"))
        self.step_seconds = Histogram(
            "tradewinds_step_seconds",
            "Duration of an execution step",
            boundaries=STEP_BOUNDARIES_S,
            tag_keys=("agent", "task_type"),
        )
        self.tokens = Counter("tradewinds_tokens", "Tokens of model calls", ("agent", "kind"))


class RayMetrics:
    """Counts an agent host's records. Travels to the host's process and makes its instruments there."""

    def __init__(self, names: Mapping[AgentId, str], types: Sequence[TaskType]) -> None:
        self._names = dict(names)
        self._types = tuple(types)
        self._meters: _Meters | None = None

    def __call__(self, record: Record) -> None:
        if self._meters is None:
            self._meters = _Meters()
        meters, agent = self._meters, self._names[record.agent]
        match record:
            case QueueRecord(waiting_T=waiting_T, in_service=in_service):
                for task_type, waiting in zip(self._types, waiting_T, strict=True):
                    meters.queue_length.set(waiting, {"agent": agent, "task_type": task_type})
                meters.slots_busy.set(in_service, {"agent": agent})
            case DecisionRecord(task_type=task_type, chosen=chosen):
                labels = {"agent": agent, "task_type": str(task_type)}
                meters.decisions.inc(1, labels)
                if chosen is not None:
                    meters.forwards.inc(1, labels)
            case ExecutionRecord():
                self._execution(meters, agent, record)

    @staticmethod
    def _execution(meters: _Meters, agent: str, record: ExecutionRecord) -> None:
        labels = {"agent": agent, "task_type": str(record.task_type)}
        meters.step_seconds.observe(record.duration_s, labels)
        if record.kind == "split":
            meters.splits.inc(1, labels)
        if record.kind == "failed":
            meters.failures.inc(1, labels)
        for kind, tokens in (("prompt", record.prompt_tokens), ("completion", record.completion_tokens)):
            if tokens:
                meters.tokens.inc(tokens, {"agent": agent, "kind": kind})

"""Benchmarks of the pure decision core: `python -m experiments perf core`."""

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rich.console import Console

from actors.agent.events import Delivered, Event, Executed, Received
from actors.agent.identity import AgentIdentity
from actors.agent.state import AgentState
from actors.backpressure.mechanism import Backpressure
from actors.config import AgentSettings
from actors.messages import Address, AgentView, Body, Forward, Gossip, SetPhase, Submit, about, agent_address
from actors.routing.policies import Situation, deals
from actors.routing.scores import backpressure_scores, best_columns, graph_scores
from actors.steps.moves import StepResult
from actors.task import AgentId, StepRecord, Task, TaskId, TaskType
from experiments.perf.figures import Figure, figure, interleaved_us, show
from experiments.perf.plain_loop import best_neighbour, best_per_type

TYPES = 14
WEIGHT = 20.0
INTAKE = Address("intake:0")


def main(console: Console) -> int:
    figures = [
        *decision_figures(100, target_us=20.0),
        *decision_figures(10),
        *policy_figures(10),
        *policy_figures(100),
        *graph_figures(),
        *handle_figures(),
        *prompt_size_figures(),
    ]
    show(figures, "decision core (medians over interleaved repeats, one process)", console)
    return 0


class Pool:
    """Random backlogs and qualities of one agent and `degree` neighbours, as arrays and as lists."""

    def __init__(self, degree: int, seed: int = 1) -> None:
        chance = np.random.default_rng(seed)
        self.waiting_T1 = chance.integers(0, 20, (TYPES, 1)).astype(float)
        self.waiting_TJ = chance.integers(0, 20, (TYPES, degree)).astype(float)
        self.quality_T1, self.quality_TJ = chance.random((TYPES, 1)), chance.random((TYPES, degree))
        self.waiting_lists: list[list[float]] = self.waiting_TJ.tolist()
        self.quality_lists: list[list[float]] = self.quality_TJ.tolist()
        self.waiting_list: list[float] = self.waiting_T1[:, 0].tolist()
        self.quality_list: list[float] = self.quality_T1[:, 0].tolist()

    def kernel(self) -> tuple[list[int], list[float]]:
        """Best neighbour of each type, vectorised."""
        scores_TJ = backpressure_scores(
            self.waiting_T1, self.waiting_TJ, self.quality_T1, self.quality_TJ, WEIGHT
        )
        best_T, score_T = best_columns(scores_TJ)
        return best_T.tolist(), score_T.tolist()

    def loop(self) -> list[tuple[int, float]]:
        """The same, one by one."""
        return best_per_type(
            self.waiting_list, self.quality_list, self.waiting_lists, self.quality_lists, WEIGHT
        )


def decision_figures(degree: int, target_us: float | None = None) -> list[Figure]:
    """All types at once: kernel scores and best neighbour per type, beside the loop."""
    pool = Pool(degree)
    kernel, loop = interleaved_us([pool.kernel, pool.loop])
    shape = f"{TYPES} types x {degree} neighbours"
    looped = figure(f"{shape}: plain loop", loop, "us")
    return [
        figure(f"{shape}: kernel", kernel, "us", target=target_us if target_us is not None else looped.value),
        looped,
    ]


def policy_figures(degree: int) -> list[Figure]:
    """One task: the policy as the mechanism calls it, beside the loop over one type."""
    pool = Pool(degree)
    situation = Situation(
        waiting=pool.waiting_list[3],
        waiting_J=pool.waiting_TJ[3],
        load=pool.waiting_list[3],
        load_J=pool.waiting_TJ[3],
        slots=9,
        slots_J=np.full(degree, 9.0),
        service_s=1.0,
        service_s_J=np.ones(degree),
        quality=pool.quality_list[3],
        quality_J=pool.quality_TJ[3],
        closed=(1,),
        quality_weight=WEIGHT,
        margin=1.0,
    )
    rng = np.random.default_rng(1)

    def loop() -> object:
        return best_neighbour(
            pool.waiting_list[3], pool.quality_list[3], pool.waiting_lists[3], pool.quality_lists[3], WEIGHT
        )

    policy, looped = interleaved_us([lambda: deals(situation, rng), loop])
    return [
        figure(f"1 type x {degree} neighbours: deals()", policy, "us"),
        figure(f"1 type x {degree} neighbours: plain loop", looped, "us"),
    ]


def graph_figures(agents: int = 1000, degree: int = 100) -> list[Figure]:
    """The kernel over every edge of a large graph."""
    chance = np.random.default_rng(1)
    from_E = np.repeat(np.arange(agents), degree)
    to_E = (from_E + 1 + np.tile(np.arange(degree), agents)) % agents
    waiting_TN = chance.integers(0, 20, (TYPES, agents)).astype(float)
    quality_TN = chance.random((TYPES, agents))
    (whole_us,) = interleaved_us(
        [lambda: graph_scores(from_E, to_E, waiting_TN, quality_TN, WEIGHT)], repeats=7
    )
    edges = agents * degree
    name = f"graph_scores, {agents:,} agents x {degree} x {TYPES} types"
    return [
        figure(f"{name}: an edge", [us * 1e3 / edges for us in whole_us], "ns"),
        figure(f"{name}: a score", [us * 1e3 / (edges * TYPES) for us in whole_us], "ns"),
    ]


class Life:
    """One agent among `degree` neighbours, fed the same rounds of events for ever. Each round begins and ends
    with an agent that holds nothing; a millisecond passes between events."""

    def __init__(self, degree: int = 10, problem: str = "x" * 100) -> None:
        settings = AgentSettings()
        neighbours = tuple(AgentId(j) for j in range(1, degree + 1))
        identity = AgentIdentity(
            agent=AgentId(0),
            epoch=1,
            types=tuple(TaskType(f"type {c}") for c in range(TYPES)),
            out_neighbours=neighbours,
            in_neighbours=neighbours,
            slots=9,
            intake=INTAKE,
        )
        mechanism = Backpressure(settings.mechanism, settings.recorded_candidates)
        self._state = AgentState(identity, settings, mechanism)
        self._rng = np.random.default_rng(1)
        self._numbers = itertools.count()
        self._task = Task(task_id=TaskId(""), task_type=identity.types[0], problem=problem)
        self._now_s = 0.0
        phase = SetPhase(phase="test", quality_weight=WEIGHT, frozen=True)
        self._us_of([self._message(phase, INTAKE)])

    def kept_us(self, rounds: int = 300) -> float:
        """Microseconds an event: a task is submitted and executed here."""
        events: list[Event] = []
        for _ in range(rounds):
            task = self._new_task()
            record = StepRecord(agent=AgentId(0), kind="executed", result="42")
            events.append(self._message(Submit(task=task), INTAKE, task))
            events.append(Executed(task_id=task.task_id, result=StepResult(record=record, answer="42")))
        return self._us_of(events)

    def forwarded_us(self, rounds: int = 300) -> float:
        """Microseconds an event: a task comes from neighbour 2 and is handed over to neighbour 1."""
        self._us_of([self._message(Gossip(view=self._view(1, 0.9)), agent_address(AgentId(1)))])
        events: list[Event] = []
        for _ in range(rounds):
            task = self._new_task()
            body = Forward(task=task, view=self._view(2, 0.5))
            events.append(self._message(body, agent_address(AgentId(2)), task))
            view = self._view(1, 0.9)
            events.append(Delivered(task_id=task.task_id, forwards=1, to=AgentId(1), view=view))
        took_us = self._us_of(events)
        self._us_of([self._message(Gossip(view=self._view(1, 0.5)), agent_address(AgentId(1)))])
        return took_us

    def heard_us(self, rounds: int = 300) -> float:
        """Microseconds an event: gossip of a neighbour."""
        sender = agent_address(AgentId(3))
        return self._us_of([self._message(Gossip(view=self._view(3, 0.5)), sender) for _ in range(rounds)])

    def _us_of(self, events: Sequence[Event]) -> float:
        handle, rng, now_s = self._state.handle, self._rng, self._now_s
        began_s = time.perf_counter()
        for event in events:
            now_s += 0.001
            handle(event, now_s, rng)
        took_s = time.perf_counter() - began_s
        self._now_s = now_s
        assert not self._state.held(), "a round must leave nothing behind"
        return took_s / len(events) * 1e6

    def _new_task(self) -> Task:
        return replace(self._task, task_id=TaskId(str(next(self._numbers))))

    def _view(self, number: int, quality: float) -> AgentView:
        return AgentView(
            agent=AgentId(number),
            version=next(self._numbers),
            epoch=1,
            waiting_T=(0,) * TYPES,
            quality_T=(quality,) * TYPES,
            in_service=0,
            slots=9,
        )

    def _message(self, body: Body, sender: Address, task: Task | None = None) -> Received:
        return Received(envelope=about(task, sender=sender, epoch=1, sequence=next(self._numbers), body=body))


def handle_figures(repeats: int = 15) -> list[Figure]:
    """AgentState.handle as a whole: queue, decision, records, commands."""
    figures = []
    for degree in (10, 100):
        life = Life(degree)
        rounds = [(life.kept_us(), life.forwarded_us(), life.heard_us()) for _ in range(repeats)]
        for what, samples in zip(
            ("task kept", "task forwarded", "gossip heard"), zip(*rounds, strict=True), strict=True
        ):
            figures.append(figure(f"handle, degree {degree}: {what}, an event", samples, "us"))
    return figures


def prompt_size_figures(repeats: int = 15) -> list[Figure]:
    """A problem of 100 B beside one of 100 kB: a decision reads no text."""
    small, large = Life(problem="x" * 100), Life(problem="x" * 100_000)
    pairs = [
        (small.kept_us() + small.forwarded_us(), large.kept_us() + large.forwarded_us())
        for _ in range(repeats)
    ]
    ratio = statistics.median(b for _, b in pairs) / statistics.median(a for a, _ in pairs)
    return [
        figure("handle, problem of 100 B: an event", [a / 2 for a, _ in pairs], "us"),
        figure("handle, problem of 100 kB: an event", [b / 2 for _, b in pairs], "us"),
        figure("handle, 100 kB over 100 B", [ratio], "x", target=1.2),
    ]

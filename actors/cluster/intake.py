"""Accepts tasks, keeps them until their result is collected, and passes verdicts on. A plain class."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.clock import Clock
from actors.cluster.api import Finished, Verdict
from actors.cluster.plan import INTAKE
from actors.errors import Final, Retryable
from actors.messages import Address, Body, Credit, Envelope, Report, Submit, about, agent_address
from actors.peer import Peer, answered
from actors.task import AgentId, Task, TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnderWay:
    task: Task
    accepted_s: float


class Intake:
    """One intake of a plan. Exactly one result a task id: a second report is ignored."""

    def __init__(self, connect: Callable[[Address], Peer], clock: Clock, epoch: int) -> None:
        self._connect = connect
        self._clock = clock
        self._epoch = epoch
        self._peers: dict[Address, Peer] = {}
        self._sequences: dict[Address, int] = {}
        self._under_way: dict[TaskId, _UnderWay] = {}
        self._finished: list[Finished] = []
        self._news = asyncio.Event()

    async def submit(self, tasks: Sequence[tuple[AgentId, Task]]) -> None:
        """Accepts tasks; a task whose agent does not answer is offered to it until it does."""
        ids: set[TaskId] = set()
        for _, task in tasks:
            if task.task_id in self._under_way or task.task_id in ids:
                raise Final(f"task {task.task_id!r} is already under way; give each task an id of its own")
            ids.add(task.task_id)
        now_s = self._clock.now_s()
        for _, task in tasks:
            self._under_way[task.task_id] = _UnderWay(task=task, accepted_s=now_s)
        await asyncio.gather(*(self._offer(agent, task) for agent, task in tasks))

    async def credit(self, verdicts: Sequence[Verdict]) -> None:
        await asyncio.gather(
            *(
                self._deliver(
                    agent_address(agent),
                    Credit(task_id=verdict.task_id, task_type=verdict.task_type, success=verdict.success),
                )
                for verdict in verdicts
                for agent in verdict.agents
            )
        )

    async def collect(self, timeout_s: float) -> list[Finished]:
        if not self._finished:
            self._news.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return []
        finished, self._finished = self._finished, []
        return finished

    async def broadcast(self, agents: Sequence[AgentId], body: Body) -> None:
        """A control message to each agent; returns when all have it."""
        await asyncio.gather(*(self._deliver(agent_address(agent), body) for agent in agents))

    async def on(self, envelope: Envelope) -> None:
        """Takes a report in."""
        if not isinstance(envelope.body, Report):
            raise Final(f"an intake takes reports, not {type(envelope.body).__name__}")
        outcome = envelope.body.outcome
        under_way = self._under_way.pop(outcome.task.task_id, None)
        if under_way is None:
            return
        latency_s = self._clock.now_s() - under_way.accepted_s
        self._finished.append(Finished(outcome=outcome, latency_s=latency_s, finished_wall_s=time.time()))
        self._news.set()

    async def _offer(self, agent: AgentId, task: Task) -> None:
        try:
            await self._deliver(agent_address(agent), Submit(task=task), task)
        except Final:  # nobody has it, so no result will come
            del self._under_way[task.task_id]
            raise

    async def on_batch(self, envelopes: Sequence[Envelope]) -> list[Exception | None]:
        """Takes reports in, in order; one that is refused does not harm the others."""
        return [await answered(self.on(envelope)) for envelope in envelopes]

    async def _deliver(self, to: Address, body: Body, task: Task | None = None) -> None:
        sequence = self._sequences.get(to, 0)
        self._sequences[to] = sequence + 1
        envelope = about(task, sender=INTAKE, epoch=self._epoch, sequence=sequence, body=body)
        peer = self._peers.get(to)
        if peer is None:
            peer = self._peers[to] = self._connect(to)
        while True:
            try:
                await peer.send(envelope)
            except Retryable as error:
                await asyncio.sleep(error.after_s)
            else:
                return

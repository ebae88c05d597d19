"""The state of one agent: `handle(event, now_s, rng) -> commands`. Pure; nothing else changes it.

The same code runs on Ray, in one process and in tests. It never awaits, reads no clock and draws no chance of
its own, so a recorded list of (event, now, rng state) gives the same commands again.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from actors.agent.duplicates import RecentTasks, SeenMessages
from actors.agent.events import (
    Abort,
    Command,
    Delivered,
    Event,
    Execute,
    Executed,
    Received,
    Remember,
    Restore,
    Send,
    Undelivered,
    Wake,
    Woken,
)
from actors.agent.identity import AgentIdentity
from actors.agent.learning import Learning, MeanStep
from actors.agent.notes import Notebook
from actors.agent.outbox import Outbox
from actors.agent.queues import TypedQueues, aged
from actors.agent.slots import Held, Slots
from actors.agent.teller import Teller, colleagues
from actors.config import AgentSettings
from actors.mechanism import (
    Arrived,
    Completed,
    Dispatched,
    ForwardTo,
    Idle,
    Keep,
    LocalView,
    Mechanism,
    MechanismEvent,
    PeerSaid,
    SetTimer,
    Tell,
    TimerFired,
)
from actors.messages import (
    Address,
    AgentView,
    Cancel,
    Credit,
    Envelope,
    Forward,
    Gossip,
    MechanismBody,
    SetPhase,
    Submit,
    agent_address,
    agent_of,
)
from actors.routing.view import NeighbourTable
from actors.steps.machines import ROUTING_MACHINES
from actors.steps.moves import Colleague, Surroundings
from actors.task import AgentId, ProgressPart, Task, TaskId

GOSSIP = "gossip"
MECHANISM = "mechanism:"
"""Prefix of the mechanism's own timers."""
CANCELLED_LIMIT = 10_000
"""Cancelled tasks that are remembered, for those that were on their way here."""


class AgentState:
    """One agent's queues, slots, views and learned estimates."""

    def __init__(self, identity: AgentIdentity, settings: AgentSettings, mechanism: Mechanism) -> None:
        self.identity = identity
        self._settings = settings
        self._routing = settings.mechanism
        self._tells_surroundings = settings.executor.kind in ROUTING_MACHINES
        self._tells_tries = self._routing.exploration != "none" or "least_tried" in {
            self._routing.policy,
            self._routing.warmup_policy,
        }
        self._mechanism = mechanism
        self._queues = TypedQueues(identity.types)
        self._slots = Slots(identity.slots)
        self.learning = Learning(len(identity.types), settings)
        prior = settings.quality
        prior_quality = prior.prior_successes / (prior.prior_successes + prior.prior_failures)
        self._neighbours = NeighbourTable(identity.out_neighbours, len(identity.types), prior_quality)
        self._unreachable: frozenset[AgentId] = frozenset()
        self._phase = SetPhase(phase="start", quality_weight=0.0, frozen=False)
        self._seen = SeenMessages()
        self._notes = Notebook(identity.agent, wanted=settings.notes)
        self._outbox = Outbox(identity.agent, identity.epoch, identity.intake)
        self._version = 0
        self._teller = Teller(settings.gossip_interval_s)
        self._cancelled = RecentTasks(CANCELLED_LIMIT)
        self._mean_step = MeanStep()

    def handle(self, event: Event, now_s: float, rng: np.random.Generator) -> list[Command]:
        """Takes one event in; returns what is to be done, in order. `now_s` never goes back."""
        self._version += 1
        commands = self._take(event, now_s, rng)
        commands += self._dispatch(now_s, rng)
        if self._routing.pull and self._slots.free and not len(self._queues):
            commands += self._consult(Idle(), now_s, rng)
        commands += self._gossip(now_s)
        return commands

    def view(self) -> AgentView:
        """This agent as its neighbours shall see it; two views of one version are equal."""
        return AgentView(
            agent=self.identity.agent,
            version=self._version,
            epoch=self.identity.epoch,
            waiting_T=self._queues.waiting(),
            quality_T=tuple(self.learning.estimates.quality_T.tolist()),
            in_service=len(self._slots),
            slots=self._slots.capacity,
            service_s=self._mean_step.mean_s,
            tries_T=tuple(self.learning.estimates.tries_T.astype(int).tolist()) if self._tells_tries else (),
        )

    def _told_view(self) -> AgentView:
        """The view as of now, where the same event may change more: what follows is of a later version."""
        view = self.view()
        self._version += 1
        return view

    def held(self) -> list[Task]:
        """Every task in a queue or a slot."""
        return self._queues.tasks() + self._slots.tasks()

    # Events

    def _take(self, event: Event, now_s: float, rng: np.random.Generator) -> list[Command]:
        match event:
            case Received(envelope=envelope):
                return self._receive(envelope, now_s, rng)
            case Executed():
                return self._executed(event, now_s, rng)
            case Delivered(to=to, view=view):
                self._end_hand_over(event)
                self._heard(to, view, now_s)
                return []
            case Undelivered():
                return self._undelivered(event, now_s)
            case Woken(key=key) if key == GOSSIP:
                self._teller.woken()
                return []
            case Woken(key=key):
                return self._consult(TimerFired(key=key.removeprefix(MECHANISM)), now_s, rng)
            case Restore(counts=counts, credited=credited):
                self.learning.restore(counts, credited)
                return []

    def _receive(self, envelope: Envelope, now_s: float, rng: np.random.Generator) -> list[Command]:
        body = envelope.body
        if isinstance(body, Gossip):  # versions order these; they need no other guard
            self._heard(body.view.agent, body.view, now_s)
            return []
        if not self._seen.first_time(envelope):
            return self._notes.count("duplicate message")
        match body:
            case Submit(task=task):
                return self._enqueue(task, "submitted", envelope.sender, now_s, rng)
            case Forward(task=task, view=view):
                self._heard(view.agent, view, now_s)
                return self._enqueue(task, "forwarded", envelope.sender, now_s, rng)
            case Credit(task_id=task_id, task_type=task_type, success=success):
                index = self._queues.index.get(task_type)
                if index is None:
                    return self._notes.count("credit for an unknown task type")
                confirmed = self.learning.credit(task_id, index, success=success)
                return [Remember(trajectory=trajectory) for trajectory in confirmed]
            case SetPhase():
                self._phase = body
                self._notes.phase = body.phase
                self.learning.freeze(frozen=body.frozen)
                self._teller.forget()  # neighbours hear of the new phase's estimates at once
                return []
            case Cancel(task_id=task_id):
                return self._cancel(task_id, now_s)
            case MechanismBody():
                sender = agent_of(envelope.sender)
                self._heard(sender, envelope.view, now_s)
                return self._consult(PeerSaid(sender=sender, body=body), now_s, rng)
            case _:
                return self._notes.count(f"unexpected message {type(body).__name__}")

    def _enqueue(
        self,
        task: Task,
        how: Literal["submitted", "forwarded"],
        sender: Address,
        now_s: float,
        rng: np.random.Generator,
    ) -> list[Command]:
        if task.task_type not in self._queues.index:
            known = ", ".join(self.identity.types)
            return [
                self._outbox.report(
                    task, error=f"unknown task type {task.task_type!r}; this plan has: {known}"
                )
            ]
        held = self._slots.get(task.task_id)
        if held is not None and held.doing == "handing over":
            # It came round before the answer to its hand-over: its being here is the answer.
            self._handed_over(held)
        elif held is not None or task.task_id in self._queues:
            # A sender that heard no answer has sent it by another way as well.
            return self._notes.count("task already here")
        if task.task_id in self._cancelled:
            return [self._outbox.give_up(task)]
        arrived = self._notes.arrived(task, how, sender)
        if self._routing.route_on_arrival:
            self._slots.hold(Held(task=task, since_s=now_s, doing="routing", in_slot=False))
            commands = self._consult(Arrived(task=task), now_s, rng)
            held = self._slots.get(task.task_id)
            if held is None or held.doing != "routing":
                return [*arrived, *commands]
            self._slots.release(task.task_id, now_s)
        self._queues.push(task, now_s)
        return arrived

    def _handed_over(self, held: Held) -> None:
        """Ends a hand-over: frees its slot, if it held one."""
        assert held.to is not None
        self._neighbours.landed(held.to, self._queues.index[held.task.task_type])
        self._slots.discard(held.task.task_id)

    def _end_hand_over(self, event: Delivered | Undelivered) -> Held | None:
        """What was handed over; None if the task's return has already ended it."""
        held = self._slots.get(event.task_id)
        if held is None or held.doing != "handing over" or held.task.forwards + 1 != event.forwards:
            return None
        self._handed_over(held)
        return held

    def _undelivered(self, event: Undelivered, now_s: float) -> list[Command]:
        """The task is back, and its receiver avoided until it is heard of."""
        self._unreachable |= {event.to}
        held = self._end_hand_over(event)
        if held is None:
            return []
        task = aged(held.task, now_s - held.since_s)
        if event.task_id in self._cancelled:
            return [self._outbox.give_up(task)]
        self._queues.push_front(task, now_s)
        return self._notes.arrived(task, "returned", agent_address(event.to))

    def _executed(self, event: Executed, now_s: float, rng: np.random.Generator) -> list[Command]:
        held = self._slots.get(event.task_id)
        if held is None or held.doing != "executing":
            return self._notes.count("end of a step that is not under way")
        record = event.result.record
        self._slots.discard(event.task_id)
        task = aged(held.task, now_s - held.since_s, steps=(*held.task.steps, record))
        if record.kind != "forwarded":
            self._mean_step.ended(record.duration_s)
        commands: list[Command] = [*self._notes.executed(task)]
        if record.kind == "failed":
            error = "cancelled" if event.task_id in self._cancelled else record.result
            return [*commands, self._outbox.report(task, error=error)]
        if dropped := self.learning.worked(task, len(task.steps) - 1):
            commands += self._notes.count("pending trajectory dropped") * dropped
        if event.result.forward_to is not None:
            return [*commands, self._hand_over(task, event.result.forward_to, now_s, in_slot=True)]
        if event.result.answer is not None:
            commands.append(self._outbox.report(task, answer=event.result.answer))
            if self._routing.latency_target_s is not None:
                commands += self._consult(Completed(age_s=task.age_s), now_s, rng)
            return commands
        return commands + self._split(task, now_s)

    def _split(self, task: Task, now_s: float) -> list[Command]:
        """The unfinished rest goes back to the local queue; hops and previous agent start anew."""
        if task.task_id in self._cancelled:
            return [self._outbox.give_up(task)]
        done = task.steps[-1]
        part = ProgressPart(agent=done.agent, part=done.part, result=done.result)
        task = replace(task, progress=(*task.progress, part), hops=0, previous=None)
        self._queues.push(task, now_s)
        return self._notes.arrived(task, "split", agent_address(self.identity.agent))

    def _cancel(self, task_id: TaskId, now_s: float) -> list[Command]:
        self._cancelled.add(task_id)  # also where it is not: it may be on its way here
        if (task := self._queues.remove(task_id, now_s)) is not None:
            return [self._outbox.give_up(task)]
        held = self._slots.get(task_id)
        if held is not None and held.doing == "routing":
            return [self._outbox.give_up(self._slots.release(task_id, now_s))]
        return [Abort(task_id=task_id)] if held is not None and held.doing == "executing" else []

    # Dispatch and routing

    def _dispatch(self, now_s: float, rng: np.random.Generator) -> list[Command]:
        """Fills free slots from the longest queue, as long as there is one of each."""
        commands: list[Command] = []
        while self._slots.free and len(self._queues):
            task = self._queues.pop_next(self._routing.queue_order, now_s)
            if task.remaining_s is not None and task.remaining_s <= 0:
                commands.append(
                    self._outbox.report(task, error="deadline passed before the task was executed")
                )
                continue
            self._slots.hold(Held(task=task, since_s=now_s, doing="routing"))
            commands += self._consult(Dispatched(task=task), now_s, rng)
        return commands

    def _consult(self, event: MechanismEvent, now_s: float, rng: np.random.Generator) -> list[Command]:
        view = LocalView(
            agent=self.identity.agent,
            type_index=self._queues.index,
            waiting_T=self._queues.waiting_T,
            quality_T=self.learning.estimates.quality_T,
            tries_T=self.learning.estimates.tries_T,
            slots=self._slots.capacity,
            in_service=len(self._slots),
            service_s=self._mean_step.mean_s,
            neighbours=self._neighbours,
            quality_weight=self._phase.quality_weight,
            learning=not self.learning.frozen,
            warmup=self._phase.warmup,
            queued=self._queues,
            unreachable=self._unreachable,
        )
        commands: list[Command] = []
        for answer in self._mechanism.on_event(event, view, now_s, rng):
            match answer:
                case Keep() | ForwardTo():
                    commands += self._settle(answer, now_s)
                case Tell(to=to, body=body):
                    commands.append(self._outbox.send(agent_address(to), body, view=self._told_view()))
                case SetTimer(key=key, after_s=after_s):
                    commands.append(Wake(key=MECHANISM + key, after_s=after_s))
        return commands

    def _settle(self, answer: Keep | ForwardTo, now_s: float) -> list[Command]:
        """Carries a mechanism's decision on one task out."""
        held = self._slots.get(answer.task_id)
        if held is not None and held.doing == "routing" and (held.in_slot or isinstance(answer, ForwardTo)):
            task = self._slots.release(answer.task_id, now_s)
        elif isinstance(answer, ForwardTo) and (waiting := self._queues.remove(answer.task_id, now_s)):
            task = waiting
        else:
            return self._notes.count("decision on a task that is not being routed")
        c = self._queues.index[task.task_type]
        waiting, quality = self._queues.waiting_T[c] + 1, self.learning.estimates.quality_T[c]
        note = self._notes.decided(task, answer, waiting=waiting, quality=quality)
        if isinstance(answer, Keep):
            self._slots.hold(Held(task=task, since_s=now_s, doing="executing"))
            may_split = self._phase.warmup or self.learning.split_pays(c, self._phase.quality_weight)
            return [*note, Execute(task=task, surroundings=self._surroundings(task), may_split=may_split)]
        in_slot = held is not None and held.in_slot and self._routing.forwards_hold_slots
        return [*note, self._hand_over(task, answer.to, now_s, in_slot=in_slot)]

    def _hand_over(self, task: Task, to: AgentId, now_s: float, *, in_slot: bool) -> Send:
        """The task as it was stays here until the receiver has it."""
        handed = replace(task, hops=task.hops + 1, forwards=task.forwards + 1, previous=self.identity.agent)
        self._slots.hold(Held(task=task, since_s=now_s, doing="handing over", to=to, in_slot=in_slot))
        self._neighbours.sent(to, self._queues.index[task.task_type])
        return self._outbox.send(agent_address(to), Forward(task=handed, view=self._told_view()), handed)

    def _surroundings(self, task: Task) -> Surroundings | None:
        """For steps that route by themselves."""
        if not self._tells_surroundings:
            return None
        load, c = len(self._queues) + len(self._slots), self._queues.index[task.task_type]
        quality, slots = float(self.learning.estimates.quality_T[c]), self._slots.capacity
        own = Colleague(agent=self.identity.agent, quality=quality, load=load, slots=slots)
        closed = self._unreachable if task.previous is None else self._unreachable | {task.previous}
        return Surroundings(own=own, neighbours=colleagues(self._neighbours, c, closed))

    # Views

    def _heard(self, agent: AgentId, view: AgentView | None, now_s: float) -> None:
        if agent in self._unreachable:
            self._unreachable -= {agent}
        if view is not None:
            self._neighbours.merge(view, now_s)

    def _gossip(self, now_s: float) -> list[Command]:
        """Tells the in-neighbours of a change, at most once an interval."""
        if self._teller.waits(now_s):
            return []
        news = (self._queues.waiting(), len(self._slots), self.learning.estimates.changes)
        wait_s = self._teller.wait_s(news, now_s)
        if wait_s:
            return [Wake(key=GOSSIP, after_s=wait_s)]
        if wait_s is None:
            return []
        fresh = self.view()
        body = Gossip(view=fresh)
        sends = [self._outbox.send(agent_address(to), body) for to in self.identity.in_neighbours]
        return [*self._notes.told(fresh), *sends]

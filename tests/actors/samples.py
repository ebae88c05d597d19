"""Small values that the tests of `actors` are made of."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from actors.agent.events import Command, Event, Execute, Executed, Note, Received, Send, Wake
from actors.agent.identity import AgentIdentity
from actors.agent.state import GOSSIP, AgentState
from actors.backpressure.mechanism import Backpressure
from actors.config import AgentSettings
from actors.mechanism import Mechanism
from actors.messages import Address, AgentView, Body, Envelope, Gossip, Submit, about, agent_address
from actors.metrics import CountRecord
from actors.routing.policies import Situation
from actors.steps.moves import StepResult
from actors.task import AgentId, StepRecord, Task, TaskId, TaskType

INTAKE = Address("intake:0")
A, B, C = TaskType("a"), TaskType("b"), TaskType("c")
TYPES = (A, B, C)


def agent(number: int) -> AgentId:
    return AgentId(number)


def agents(*numbers: int) -> tuple[AgentId, ...]:
    return tuple(AgentId(number) for number in numbers)


def make_task(name: str, task_type: TaskType = A, **changes: object) -> Task:
    return Task(task_id=TaskId(name), task_type=task_type, problem=f"problem of {name}", **changes)  # type: ignore[arg-type]


def make_view(
    number: int,
    *,
    version: int = 1,
    epoch: int = 1,
    waiting: Sequence[int] = (0, 0, 0),
    quality: Sequence[float] = (0.5, 0.5, 0.5),
    in_service: int = 0,
    slots: int = 9,
    age_s: float = 0.0,
) -> AgentView:
    return AgentView(
        agent=AgentId(number),
        version=version,
        epoch=epoch,
        waiting_T=tuple(waiting),
        quality_T=tuple(quality),
        in_service=in_service,
        slots=slots,
        age_s=age_s,
    )


def make_situation(waiting: float, of_others: Sequence[float], **changes: object) -> Situation:
    """One task of a type of which `of_others[j]` wait at neighbour j, on equal agents with one slot each that
    hold nothing else."""
    count = len(of_others)
    values: dict[str, object] = {
        "waiting": waiting,
        "waiting_J": np.array(of_others, dtype=float),
        "load": waiting,
        "load_J": np.array(of_others, dtype=float),
        "slots": 1,
        "slots_J": np.ones(count),
        "service_s": 0.0,
        "service_s_J": np.zeros(count),
        "quality": 0.5,
        "quality_J": np.full(count, 0.5),
        "closed": (),
        "quality_weight": 0.0,
        "margin": 1.0,
    }
    return Situation(**(values | changes))  # type: ignore[arg-type]


def step_record(number: int, kind: str = "executed", **changes: object) -> StepRecord:
    return StepRecord(agent=AgentId(number), kind=kind, **changes)  # type: ignore[arg-type]


def answered(number: int, answer: str = "42") -> StepResult:
    record = step_record(number, result=answer, key_text="key", demonstration="shown")
    return StepResult(record=record, answer=answer)


def split_off(number: int, part: str = "part", result: str = "partial") -> StepResult:
    return StepResult(record=step_record(number, "split", part=part, result=result, key_text="key"))


def failed(number: int, why: str = "broken") -> StepResult:
    return StepResult(record=step_record(number, "failed", result=why))


class OneAgent:
    """An `AgentState` under test: feeds events by hand and numbers the messages it is sent."""

    def __init__(
        self,
        number: int = 0,
        *,
        out: Sequence[int] = (1, 2),
        into: Sequence[int] = (1, 2),
        slots: int = 1,
        types: tuple[TaskType, ...] = TYPES,
        settings: AgentSettings | None = None,
        mechanism: Mechanism | None = None,
    ) -> None:
        settings = settings if settings is not None else AgentSettings()
        identity = AgentIdentity(
            agent=AgentId(number),
            epoch=1,
            types=types,
            out_neighbours=agents(*out),
            in_neighbours=agents(*into),
            slots=slots,
            intake=INTAKE,
        )
        if mechanism is None:
            mechanism = Backpressure(settings.mechanism, settings.recorded_candidates)
        self.state = AgentState(identity, settings, mechanism)
        self.now_s = 0.0
        self._rng = np.random.default_rng(1)
        self._sequences: dict[Address, int] = {}

    def feed(self, event: Event, after_s: float = 0.0) -> list[Command]:
        """Everything the state asks for."""
        self.now_s += after_s
        return self.state.handle(event, self.now_s, self._rng)

    def acts(self, event: Event, after_s: float = 0.0) -> list[Command]:
        """What it asks for beside measurements and gossip."""
        return without_notes(self.feed(event, after_s))

    def message(self, body: Body, sender: Address = INTAKE, task: Task | None = None) -> Received:
        sequence = self._sequences.get(sender, 0)
        self._sequences[sender] = sequence + 1
        return Received(envelope=about(task, sender=sender, epoch=1, sequence=sequence, body=body))

    def says(self, number: int, body: Body) -> Received:
        return self.message(body, sender=agent_address(AgentId(number)))

    def envelope(
        self, to: Address, sequence: int, body: Body, task: Task | None = None, view: AgentView | None = None
    ) -> Send:
        """What this agent should have sent."""
        sender = agent_address(self.state.identity.agent)
        envelope = about(task, sender=sender, epoch=1, sequence=sequence, body=body)
        return Send(to=to, envelope=replace(envelope, view=view))


def is_gossip(command: Command) -> bool:
    """Gossip itself, and the timer for the next."""
    if isinstance(command, Send):
        return isinstance(command.envelope.body, Gossip)
    return isinstance(command, Wake) and command.key == GOSSIP


def without_notes(commands: Sequence[Command]) -> list[Command]:
    return [command for command in commands if not isinstance(command, Note) and not is_gossip(command)]


def noted(commands: Sequence[Command], kind: type) -> list[object]:
    return [c.record for c in commands if isinstance(c, Note) and isinstance(c.record, kind)]


def sent(commands: Sequence[Command], kind: type) -> list[Envelope]:
    return [c.envelope for c in commands if isinstance(c, Send) and isinstance(c.envelope.body, kind)]


def submit(name: str, kind: str = "a", **changes: object) -> Submit:
    return Submit(task=make_task(name, kind, **changes))  # type: ignore[arg-type]


def busy(**arguments: object) -> OneAgent:
    """One slot, and `first` is executed in it."""
    one = OneAgent(**arguments)  # type: ignore[arg-type]
    assert one.acts(one.message(submit("first"))) == [Execute(task=make_task("first"))]
    return one


def executed(name: str, number: int = 0) -> Executed:
    return Executed(task_id=TaskId(name), result=answered(number))


def counts(commands: list[Command]) -> list[str]:
    return [r.what for r in noted(commands, CountRecord) if isinstance(r, CountRecord)]

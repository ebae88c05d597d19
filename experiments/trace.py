"""One task's life, from its arrival to its grade, with what each decision rested on (DEALS, case study)."""

import difflib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from actors.errors import SettingsError
from actors.messages import Address, agent_of
from actors.metrics import ArrivalRecord, Candidate, DecisionRecord, ExecutionRecord, Stamped
from actors.task import AgentId, CallRecord, StepRecord
from experiments.grid import Grid
from experiments.record import Result, RunFolder, StreamTask
from experiments.settings import RunSettings
from experiments.summary import SIMULATED, backend_label

SHOWN_CHARACTERS = 700
"""Longer texts are cut in the middle."""


def trace(folder: RunFolder, task_id: str) -> RenderableType:
    """One task's life, to be printed. `task_id` may be the beginning of just one task's id.

    Works for a task that is not finished, from its measurements so far. Raises SettingsError, with near
    matches, where no task or more than one begins so.
    """
    task = find_task(folder.tasks(), task_id)
    own = (r for r in folder.results() if r.finished.outcome.task.task_id == task.row.task_id)
    result = next(own, None)
    events = folder.events(task_id=task.row.task_id)
    return Group(*_Story(settings=folder.settings(), task=task, result=result, events=events).told())


def find_task(tasks: Sequence[StreamTask], task_id: str) -> StreamTask:
    """The task of this id, or the one whose id begins so. Raises SettingsError."""
    by_id = {task.row.task_id: task for task in tasks}
    if task_id in by_id:
        return by_id[task_id]
    found = [name for name in by_id if task_id and name.startswith(task_id)]
    if len(found) == 1:
        return by_id[found[0]]
    if found:
        raise SettingsError(f"{len(found)} tasks begin with {task_id!r}; say which: {_some(found)}")
    near = difflib.get_close_matches(task_id, by_id, n=5, cutoff=0.4)
    near += [name for name in by_id if task_id and task_id in name and name not in near]
    known = f"near: {_some(near)}" if near else f"this run has, for example: {_some(list(by_id))}"
    raise SettingsError(f"no task {task_id!r} in this run; {known}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


@dataclass(slots=True, kw_only=True)
class _Spent:
    """Where a task's time went (s), by the measurements of its last attempt."""

    by_doing: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    since_s: float = 0.0
    doing: str = ""

    def turn(self, doing: str, wall_s: float) -> None:
        """Ends what it was doing and begins `doing`."""
        if self.doing:
            self.by_doing[self.doing] += max(0.0, wall_s - self.since_s)
        self.doing, self.since_s = doing, wall_s


@dataclass(slots=True, kw_only=True)
class _Story:
    settings: RunSettings
    task: StreamTask
    result: Result | None
    events: Sequence[Stamped]
    spent: _Spent = field(default_factory=_Spent)
    steps_left: list[StepRecord] = field(default_factory=list)
    previous: AgentId | None = None
    began_s: float = 0.0

    def told(self) -> Iterator[RenderableType]:
        yield self._heading()
        events = [
            e for e in self.events if isinstance(e.record, ArrivalRecord | DecisionRecord | ExecutionRecord)
        ]
        last = max((i for i, e in enumerate(events) if _submitted(e)), default=0)
        if last:
            yield Rule(Text("earlier attempt: the run was interrupted"))
            self.began_s = events[0].wall_s
            for stamped in events[:last]:
                yield from self._told_of(stamped)
            yield Rule(Text("submitted again"))
        self.spent = _Spent()
        if self.result is not None:
            self.steps_left = list(self.result.finished.outcome.task.steps)
        if events:
            self.began_s = events[last].wall_s
        for stamped in events[last:]:
            yield from self._told_of(stamped)
        while self.steps_left:
            yield _line(
                "", f"{self._name(self.steps_left[0].agent)} worked on it (its measurements were lost)"
            )
            yield from self._step(self.steps_left.pop(0))
        yield from self._end()

    def _told_of(self, stamped: Stamped) -> Iterator[RenderableType]:
        at = f"+{stamped.wall_s - self.began_s:.3f} s"
        match stamped.record:
            case ArrivalRecord() as arrival:
                self.spent.turn("waiting", stamped.wall_s)
                yield _line(at, self._arrival(arrival))
            case DecisionRecord() as decision:
                self.spent.turn("executing" if decision.chosen is None else "handing over", stamped.wall_s)
                yield from self._decision(at, decision)
            case ExecutionRecord() as execution:
                self.spent.turn("", stamped.wall_s)
                yield _line(at, self._execution(execution))
                if self.steps_left and self.steps_left[0].agent == execution.agent:
                    yield from self._step(self.steps_left.pop(0))

    # Beginning and end

    def _heading(self) -> RenderableType:
        row, mechanism = self.task.row, self.settings.pool.settings.mechanism
        lines = [
            f"{row.task_type}, {self.task.phase} phase, {row.grader} grader",
            f"policy {mechanism.policy}, V = {self._weight():g}, margin {mechanism.margin:g}, "
            + _many(mechanism.max_hops, "hop")
            + " at most",
            "view age: since the neighbour last changed and said so; local execution: without action, thought, check",
            "",
            _short(row.problem),
            "",
            *([f"choices: {_short(', '.join(row.choices))}"] if row.choices else []),
            f"expected answer: {row.answer}",
            f"due at {self._name(self.task.ingress)}, {self.task.arrival_s:.3f} s after the phase began",
            f"agents: {self._agents()}",
        ]
        return Panel(Text("\n".join(lines)), title=Text(f"task {row.task_id}"), title_align="left")

    def _agents(self) -> str:
        """Those that had the task in hand, with their models."""
        seen = dict.fromkeys([self.task.ingress, *(stamped.record.agent for stamped in self.events)])
        agents = [self.settings.pool.agents[agent] for agent in seen]
        line = ", ".join(f"{agent.name} ({backend_label(agent.backend)})" for agent in agents)
        return f"{line}; {SIMULATED}" if any(a.backend.kind == "simulated" for a in agents) else line

    def _end(self) -> Iterator[RenderableType]:
        yield Rule()
        if self.result is None:
            yield Text(self._unfinished(), style="yellow")
            return
        finished = self.result.finished
        outcome, name = finished.outcome, self._name(finished.outcome.finisher)
        grade = "correct" if self.result.correct else "wrong"
        if outcome.error is not None:
            yield Text(f"{name} ended it with an error: {_short(outcome.error)}", style="red")
        else:
            text = (
                f"{name} answers: {_short(outcome.answer or '')}  ({grade}; expected {self.result.expected})"
            )
            yield Text(text, style="bold green" if self.result.correct else "bold red")
        task, spent = outcome.task, self.spent.by_doing
        yield Text(f"{_many(task.forwards, 'forward')}, {_many(task.splits, 'split')}")
        yield Text(
            f"latency {finished.latency_s:.3f} s: waiting in queues {spent['waiting']:.3f} s, "
            f"executing {spent['executing']:.3f} s, handing over {spent['handing over']:.3f} s, "
            f"submission and report {finished.latency_s - sum(spent.values()):.3f} s"
        )

    def _unfinished(self) -> str:
        if not self.events:
            return "not finished; no agent has recorded its arrival yet"
        last = self.events[-1]
        doing = self.spent.doing or "done with a step"
        return (
            f"not finished; last seen {doing} at {self._name(last.record.agent)}, "
            f"{last.wall_s - self.began_s:.3f} s after it arrived"
        )

    # What happened

    def _arrival(self, arrival: ArrivalRecord) -> str:
        name = self._name(arrival.agent)
        match arrival.how:
            case "submitted":
                self.previous = None
                return f"{name} receives the task"
            case "forwarded":
                self.previous = agent_of(Address(arrival.sender))
                return f"{name} receives it from {self._name(self.previous)}"
            case "split":
                self.previous = None
                return f"{name} puts the unfinished rest back into its queue"
            case "returned":
                return f"{name} takes it back: {self._name(agent_of(Address(arrival.sender)))} did not answer"

    def _decision(self, at: str, decision: DecisionRecord) -> Iterator[RenderableType]:
        name = self._name(decision.agent)
        yield _line(
            at,
            f"{name} decides: own backlog {decision.waiting} (this task included), own quality "
            f"{decision.quality:.3f}, hops so far {decision.hops}",
        )
        if decision.candidates:
            yield Padding(self._candidates(decision).rich(), (0, 0, 0, 4))
        margin = self.settings.pool.settings.mechanism.margin
        best = max((candidate.score for candidate in decision.candidates), default=None)
        scored = "" if best is None else f" (best score {best:.2f}, margin {margin:g})"
        what = "keeps it" if decision.chosen is None else f"forwards it to {self._name(decision.chosen)}"
        yield _line("", f"{name} {what}: {decision.reason}{scored}", style="bold cyan")

    def _candidates(self, decision: DecisionRecord) -> Grid:
        kept = self.settings.pool.settings.recorded_candidates
        notes = [
            *(
                [f"{self._name(self.previous)} handed it over and is left out"]
                if self.previous is not None
                else []
            ),
            *([f"the best {kept} are recorded"] if len(decision.candidates) == kept else []),
        ]
        return Grid(
            title="",
            header=("neighbour", "waiting", "quality", "view age", self._formula(), "score", ""),
            rows=tuple(
                (
                    self._name(candidate.agent),
                    str(candidate.waiting),
                    f"{candidate.quality:.3f}",
                    "never heard" if candidate.age_s is None else f"{1000 * candidate.age_s:.0f} ms",
                    self._spelled(candidate, decision),
                    f"{candidate.score:.2f}",
                    "chosen" if candidate.agent == decision.chosen else "",
                )
                for candidate in decision.candidates
            ),
            note="; ".join(notes),
        )

    def _formula(self) -> str:
        return "backlog difference + V × quality difference" if self._by_the_paper() else "policy"

    def _spelled(self, candidate: Candidate, decision: DecisionRecord) -> str:
        """The paper's score in figures; other policies have their own, of which only the value is known."""
        if not self._by_the_paper():
            return self.settings.pool.settings.mechanism.policy
        return (
            f"({decision.waiting} - {candidate.waiting}) + {self._weight():g} × "
            f"({candidate.quality:.3f} - {decision.quality:.3f})"
        )

    def _execution(self, execution: ExecutionRecord) -> str:
        what = {
            "executed": "completes a step",
            "split": "splits off a part",
            "forwarded": "hands the task on by its own choice",
            "failed": "fails",
        }[execution.kind]
        return (
            f"{self._name(execution.agent)} {what}: {_many(execution.calls, 'call')}, "
            f"{execution.prompt_tokens} + {execution.completion_tokens} tokens, {execution.duration_s:.3f} s "
            f"(local execution {execution.execution_s:.3f} s)"
        )

    def _step(self, step: StepRecord) -> Iterator[RenderableType]:
        recalled = ", ".join(f"{name} (score {score:.3f})" for name, score in step.recalled)
        yield _line("", f"demonstrations: {recalled or 'none'}", style="dim")
        if step.recall_skipped:
            yield _line("", f"{_many(step.recall_skipped, 'retrieval')} left out: no answer", style="yellow")
        for call in step.calls:
            yield from _call(call)
        if step.kind == "failed":
            yield _line("", f"error: {_short(step.result)}", style="red")
        elif step.part:
            verdict = "incomplete: the rest goes on" if step.kind == "split" else "complete: the task is done"
            yield _line("", f"part done here: {_short(step.part)}")
            yield _line("", f"partial result: {_short(step.result)}")
            yield _line("", f"the check says {verdict}", style="bold cyan")

    def _name(self, agent: AgentId) -> str:
        return self.settings.pool.agents[agent].name

    def _weight(self) -> float:
        mechanism = self.settings.pool.settings.mechanism
        warmup = self.task.phase == "warmup"
        return mechanism.warmup_quality_weight if warmup else mechanism.quality_weight

    def _by_the_paper(self) -> bool:
        return self.settings.pool.settings.mechanism.policy == "deals"


def _submitted(stamped: Stamped) -> bool:
    return isinstance(stamped.record, ArrivalRecord) and stamped.record.how == "submitted"


def _call(call: CallRecord) -> Iterator[RenderableType]:
    yield _line(
        "",
        f"{call.purpose}: {call.prompt_tokens} + {call.completion_tokens} tokens, {call.duration_s:.3f} s",
        style="bold",
    )
    if call.text:
        yield Padding(Text(_short(call.text)), (0, 0, 0, 16))
    if call.fallback:
        yield _line("", f"not used as it stands: {call.fallback}", style="yellow")
    if call.dropped_demonstrations:
        text = f"{_many(call.dropped_demonstrations, 'demonstration')} dropped: the prompt was too long"
        yield _line("", text, style="yellow")


def _line(at: str, text: str, style: str = "") -> RenderableType:
    line = Table.grid(padding=(0, 2))
    line.add_column(width=11, justify="right", style="dim")
    line.add_column(overflow="fold")
    line.add_row(at, Text(text, style=style))
    return line


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _short(text: str) -> str:
    text = text.strip()
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]} [… {len(text) - 2 * half} characters …] {text[-half:]}"

"""AgentNet's step: which calls it makes, where a task goes, and that a task always ends."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from actors.agent.events import Delivered, Execute, Executed, Undelivered
from actors.config import AgentSettings, BackpressureSettings, ExecutorSettings
from actors.messages import Credit, Forward, Gossip, Report
from actors.steps.agentnet import agentnet
from actors.steps.moves import Colleague, Generate, Recall, Recollection, StepResult, Surroundings
from actors.task import AgentId, StepRecord, Task, TaskId
from experiments.phases import workers
from serving.api import Completion, Usage
from tests.actors.plans import make_agent_settings, make_plan
from tests.actors.samples import A, OneAgent, agent, make_task, make_view, sent, submit

TASK = make_task("t")
TEAM = Surroundings(
    own=Colleague(agent=AgentId(0), quality=0.25, load=4, slots=9),
    neighbours=(
        Colleague(agent=AgentId(3), quality=0.75, load=2, slots=9),
        Colleague(agent=AgentId(5), quality=0.5, load=0, slots=1),
    ),
)


def run(
    texts: dict[str, str], task: Task = TASK, team: Surroundings | None = TEAM
) -> tuple[list[Generate], StepResult]:
    """The calls of one step and its result."""
    calls: list[Generate] = []
    step = agentnet(task, AgentId(0), ExecutorSettings(kind="agentnet"), team)
    try:
        move = next(step)
        while True:
            if isinstance(move, Recall):
                move = step.send(Recollection())
                continue
            calls.append(move)
            reply = texts.get(move.purpose, f"<{move.purpose}>")
            usage = Usage(prompt_tokens=10, completion_tokens=3)
            move = step.send(Completion(text=reply, usage=usage, duration_s=1.0))
    except StopIteration as stop:
        return calls, stop.value


def route(**reply: object) -> dict[str, str]:
    return {"router": json.dumps({"part": ""} | reply)}


def test_a_forward_takes_one_call_and_names_its_receiver() -> None:
    calls, result = run(route(action="forward", agent=5))
    assert [call.purpose for call in calls] == ["router"]
    assert (result.forward_to, result.answer, result.record.kind) == (5, None, "forwarded")
    assert len(result.record.calls) == 1, "what it cost is on record"


def test_executing_and_splitting_take_four_calls() -> None:
    calls, result = run(route(action="execute") | {"answer": "42"})
    assert [call.purpose for call in calls] == ["router", "thought", "execute", "answer"]
    assert result.answer == "42"
    calls, result = run(route(action="split", part="the first half") | {"check": "incomplete"})
    assert [call.purpose for call in calls] == ["router", "thought", "part", "check"]
    assert (result.record.kind, result.record.part, result.answer) == ("split", "the first half", None)


def test_the_router_reads_abilities_and_loads_of_all_who_may_have_the_task() -> None:
    (router, *_), _ = run(route(action="execute"))
    text = router.prompt.tail
    assert "agent 0 (you): success 0.25, load 4 of 9" in text
    assert "agent 3: success 0.75, load 2 of 9" in text
    assert "agent 5: success 0.50, load 0 of 1" in text
    schema = router.sampling.json_schema
    assert schema is not None
    assert schema["properties"]["action"]["enum"] == ["execute", "split", "forward"]
    assert schema["properties"]["agent"]["enum"] == [3, 5]


@pytest.mark.parametrize(
    ("changes", "actions"),
    [
        ({"hops": 3}, ["execute", "split"]),
        ({"hops": 2}, ["execute", "split", "forward"]),
    ],
)
def test_after_three_forwards_only_work_is_left(changes: dict[str, int], actions: list[str]) -> None:
    (router, *_), _ = run(route(action="execute"), make_task("t", **changes))
    assert router.sampling.json_schema is not None
    assert router.sampling.json_schema["properties"]["action"]["enum"] == actions


@pytest.mark.parametrize(
    "reply",
    [
        "no JSON at all",
        json.dumps({"action": "forward", "part": "", "agent": 4}),
        json.dumps({"action": "forward", "part": ""}),
        json.dumps({"action": "forward", "part": "", "agent": True}),
        json.dumps({"action": "split", "part": "  "}),
        json.dumps({"action": "sing", "part": ""}),
        json.dumps(["execute"]),
    ],
)
def test_a_reply_that_cannot_be_followed_means_execute_and_is_recorded(reply: str) -> None:
    calls, result = run({"router": reply, "answer": "42"})
    assert [call.purpose for call in calls] == ["router", "thought", "execute", "answer"]
    assert result.answer == "42"
    assert result.record.calls[0].fallback


def test_without_any_choice_the_router_is_not_asked() -> None:
    alone = replace(TEAM, neighbours=())
    calls, _ = run({}, make_task("t", progress=()), alone)
    assert calls[0].purpose == "router", "a split may still be chosen"
    step = agentnet(make_task("t"), AgentId(0), ExecutorSettings(kind="agentnet", max_splits=0), alone)
    assert isinstance(next(step), Recall)
    move = step.send(Recollection())
    assert isinstance(move, Generate)
    assert move.purpose == "thought"


# In an agent


def one_agent(**arguments: object) -> OneAgent:
    settings = AgentSettings(
        mechanism=BackpressureSettings(policy="keep"), executor=ExecutorSettings(kind="agentnet")
    )
    return OneAgent(settings=settings, **arguments)  # type: ignore[arg-type]


def forwarded(to: int) -> StepResult:
    return StepResult(record=StepRecord(agent=AgentId(0), kind="forwarded"), forward_to=AgentId(to))


def test_a_step_is_told_who_may_have_its_task() -> None:
    one = one_agent()
    one.feed(one.says(1, Gossip(view=make_view(1, quality=(0.9, 0, 0), waiting=(2, 1, 0), in_service=3))))
    (command,) = one.acts(one.message(submit("t", previous=AgentId(2), hops=1)))
    assert isinstance(command, Execute)
    assert command.surroundings == Surroundings(
        own=Colleague(agent=agent(0), quality=0.5, load=1, slots=1),
        neighbours=(Colleague(agent=agent(1), quality=0.9, load=6, slots=9),),
    )


def test_a_forwarded_task_keeps_its_slot_until_its_receiver_has_it() -> None:
    one = one_agent(slots=1)
    one.feed(one.message(submit("t")))
    one.feed(one.message(submit("next")))
    commands = one.acts(Executed(task_id=TaskId("t"), result=forwarded(1)))
    (envelope,) = sent(commands, Forward)
    task = envelope.body.task
    assert (task.hops, task.forwards, task.previous) == (1, 1, 0)
    assert [step.kind for step in task.steps] == ["forwarded"]
    assert not any(isinstance(command, Execute) for command in commands)
    commands = one.acts(Delivered(task_id=TaskId("t"), forwards=1, to=agent(1), view=None))
    assert [type(command) for command in commands] == [Execute]


def test_a_forward_that_fails_comes_back_and_its_receiver_is_left_out() -> None:
    one = one_agent(slots=1)
    one.feed(one.message(submit("t")))
    one.feed(Executed(task_id=TaskId("t"), result=forwarded(1)))
    commands = one.acts(Undelivered(task_id=TaskId("t"), forwards=1, to=agent(1)))
    (command,) = commands
    assert isinstance(command, Execute)
    assert command.surroundings is not None
    assert [each.agent for each in command.surroundings.neighbours] == [2]
    assert command.task.hops == 0


def test_handing_on_earns_nothing() -> None:
    one = one_agent()
    one.feed(one.message(submit("t")))
    one.feed(Executed(task_id=TaskId("t"), result=forwarded(1)))
    commands = one.feed(one.message(Credit(task_id=TaskId("t"), task_type=A, success=True)))
    assert not [c for c in commands if type(c).__name__ == "Remember"]
    done = StepRecord(agent=AgentId(1), kind="executed")
    first = StepRecord(agent=AgentId(0), kind="forwarded")
    task = make_task("t", steps=(first, done))
    report = Report(outcome=_outcome(task))
    assert workers(report.outcome) == (1,)


def _outcome(task: Task):  # type: ignore[no-untyped-def]
    from actors.task import Outcome

    return Outcome(task=task, finisher=AgentId(1), answer="42")


def test_every_task_ends_once_though_models_send_them_about() -> None:
    """Three agents whose models forward half of the time, under virtual time."""
    from actors.cluster.simulation import Simulation

    settings = make_agent_settings(
        mechanism=BackpressureSettings(policy="keep"), executor=ExecutorSettings(kind="agentnet")
    )
    plan = replace(
        make_plan(settings=settings, options={"forward_rate": 0.5, "split_rate": 0.2, "service_s": 1.0}),
        encoder=None,
    )
    simulation = Simulation(plan)
    names = [f"t{number}" for number in range(60)]
    simulation.submit(
        [(0.1 * n, AgentId(n % 3), make_task(name, plan.types[n % 3])) for n, name in enumerate(names)]
    )
    outcomes = [finished.outcome for finished in simulation.run()]
    assert Counter(outcome.task.task_id for outcome in outcomes) == Counter(names)
    assert all(outcome.answer is not None for outcome in outcomes)
    steps = [[step.kind for step in outcome.task.steps] for outcome in outcomes]
    assert max(outcome.task.forwards for outcome in outcomes) >= 2
    assert all(kinds[-1] == "executed" for kinds in steps)
    for outcome in outcomes:
        agents = [step.agent for step in outcome.task.steps]
        kinds = [step.kind for step in outcome.task.steps]
        for position in range(len(kinds) - 2):
            if kinds[position : position + 2] == ["forwarded", "forwarded"]:
                assert agents[position + 2] != agents[position], "never straight back"

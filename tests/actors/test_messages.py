"""What crosses a process border survives it."""

import pickle

import pytest

from actors import errors
from actors.errors import Retryable
from actors.messages import (
    Address,
    Body,
    Cancel,
    Credit,
    Forward,
    Gossip,
    MechanismBody,
    Report,
    SetPhase,
    Submit,
    about,
    agent_address,
    agent_of,
)
from actors.task import Outcome, TaskId
from tests.actors.samples import A, agent, make_task, make_view, step_record

TASK = make_task(
    "t", steps=(step_record(0),), remaining_s=3.0, age_s=1.0, tenant="me", trace_id="x", attempt=2
)
BODIES: list[Body] = [
    Submit(task=TASK),
    Forward(task=TASK, view=make_view(0)),
    Gossip(view=make_view(0)),
    Report(outcome=Outcome(task=TASK, finisher=agent(0), answer="a")),
    Credit(task_id=TaskId("t"), task_type=A, success=True),
    Cancel(task_id=TaskId("t")),
    SetPhase(phase="p", quality_weight=1.0, frozen=True),
    MechanismBody(),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_messages_survive_pickling(body: Body) -> None:
    envelope = about(TASK, sender=agent_address(agent(0)), epoch=1, sequence=0, body=body)
    assert pickle.loads(pickle.dumps(envelope)) == envelope


@pytest.mark.parametrize(
    "kind",
    [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)],
)
def test_errors_survive_pickling(kind: type[Exception]) -> None:
    error = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(error), str(error)) == (kind, "what happened")
    assert pickle.loads(pickle.dumps(Retryable("later", 9.0))).after_s == 9.0


def test_an_envelope_repeats_what_its_task_says() -> None:
    envelope = about(TASK, sender=Address("intake:0"), epoch=1, sequence=5, body=Submit(task=TASK))
    assert (envelope.task_id, envelope.attempt, envelope.remaining_s, envelope.age_s) == ("t", 2, 3.0, 1.0)
    assert (envelope.tenant, envelope.trace_id) == ("me", "x")


def test_an_agents_address_leads_back_to_it() -> None:
    assert agent_of(agent_address(agent(12))) == 12
    with pytest.raises(ValueError, match="intake"):
        agent_of(Address("intake:0"))

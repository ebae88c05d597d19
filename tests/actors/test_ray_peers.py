"""Ray's exceptions in the project's terms, and what travels to Ray's processes. Nothing here starts Ray."""

import asyncio
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from actors.cluster.ray_metrics import RayMetrics
from actors.cluster.ray_peers import CALLS_IN_FLIGHT, RayConnect, RayEmbedder, RayModel, RayPeer
from actors.cluster.ray_replicas import ModelHost
from actors.errors import Final, Retryable
from actors.messages import Address, Cancel, Envelope, about, agent_address
from actors.peer import Peer
from actors.task import AgentId, TaskId, TaskType
from serving.api import BackendSpec, Prompt, Request, Sampling
from serving.errors import FinalServingError, ReplicaStartError, RetryableServingError

ENVELOPE: Envelope = about(
    None, sender=Address("driver"), epoch=1, sequence=0, body=Cancel(task_id=TaskId("k"))
)
REQUEST = Request(
    request_id="r", prompt=Prompt(system="", head="", tail="say it"), sampling=Sampling(max_tokens=5)
)
DEAD = ActorDiedError()
RESTARTING = ActorUnavailableError("the actor is restarting", b"0" * 16)


def raised_there(cause: Exception) -> Exception:
    """What Ray raises here when an actor's method raised `cause`."""
    error: Exception = RayTaskError("on", "traceback", cause).as_instanceof_cause()
    return error


def actor_that(fails: Exception) -> Any:
    async def call(*_: object) -> None:
        raise fails

    method = SimpleNamespace(remote=call)
    return SimpleNamespace(on_batch=method, generate=method, encode=method)


async def come_to_rest() -> None:
    """Lets everything run that can without an answer from elsewhere."""
    for _ in range(10):
        await asyncio.sleep(0)


async def send(peer: Peer) -> None:
    await peer.send(ENVELOPE)


@pytest.mark.parametrize("trouble", [DEAD, RESTARTING], ids=["dead", "restarting"])
def test_a_peer_that_does_not_answer_is_worth_another_try(
    trouble: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "get_actor", lambda name, namespace: actor_that(trouble))
    with pytest.raises(Retryable, match="a2 does not answer") as raised:
        asyncio.run(send(RayPeer(agent_address(AgentId(1)), "a2", "run")))
    assert "\n" not in str(raised.value)


def test_a_peer_whose_actor_is_not_there_is_worth_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_actor(name: str, namespace: str) -> Any:
        raise ValueError(f"Failed to look up actor with name {name!r}")

    monkeypatch.setattr(ray, "get_actor", get_actor)
    with pytest.raises(Retryable, match="intake is not there"):
        asyncio.run(send(RayPeer(Address("intake:0"), "intake", "run")))


@pytest.mark.parametrize("cause", [Retryable("full", 7.0), Final("never"), KeyError("a defect")])
def test_what_a_peer_raises_arrives_as_it_was_raised(
    cause: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "get_actor", lambda name, namespace: actor_that(raised_there(cause)))
    with pytest.raises(type(cause)) as raised:
        asyncio.run(send(RayPeer(agent_address(AgentId(1)), "a2", "run")))
    assert type(raised.value) is type(cause)
    assert raised.value.args == cause.args


def test_a_message_sent_when_all_calls_have_just_ended_is_not_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[asyncio.Future[list[None]]] = []

    def on_batch(*_: object) -> asyncio.Future[list[None]]:
        asked.append(asyncio.get_running_loop().create_future())
        return asked[-1]

    actor = SimpleNamespace(on_batch=SimpleNamespace(remote=on_batch))
    monkeypatch.setattr(ray, "get_actor", lambda name, namespace: actor)

    async def again(peer: Peer) -> None:
        await peer.send(ENVELOPE)
        await peer.send(ENVELOPE)  # in the very moment in which the first is answered

    async def use() -> None:
        peer = RayPeer(agent_address(AgentId(1)), "a2", "run")
        first = asyncio.ensure_future(again(peer))
        await come_to_rest()
        others = []
        for _ in range(CALLS_IN_FLIGHT - 1):
            others.append(asyncio.ensure_future(send(peer)))
            await come_to_rest()
        assert len(asked) == CALLS_IN_FLIGHT
        for answer in asked:
            answer.set_result([None])
        await come_to_rest()
        assert len(asked) == CALLS_IN_FLIGHT + 1, "the second message goes at once"
        asked[-1].set_result([None])
        await asyncio.gather(first, *others)

    asyncio.run(use())


CALLS: list[Callable[[Any], Any]] = [
    lambda actor: RayModel(actor, "a1-replica").generate(REQUEST),
    lambda actor: RayEmbedder(actor, "a1-replica").encode(["text"]),
]


@pytest.mark.parametrize("call", CALLS, ids=["model", "encoder"])
@pytest.mark.parametrize(
    ("trouble", "arrives"),
    [
        (DEAD, RetryableServingError),
        (RESTARTING, RetryableServingError),
        (raised_there(RetryableServingError("busy", 2.0)), RetryableServingError),
        (raised_there(FinalServingError("no such thing")), FinalServingError),
        (raised_there(ZeroDivisionError("a defect")), ZeroDivisionError),
    ],
    ids=["dead", "restarting", "busy", "final", "defect"],
)
def test_serving_errors_say_whether_another_try_is_worth_it(
    call: Callable[[Any], Any], trouble: Exception, arrives: type[Exception]
) -> None:
    async def use() -> None:
        await call(actor_that(trouble))

    with pytest.raises(arrives) as raised:
        asyncio.run(use())
    assert type(raised.value) is arrives


def test_a_cancelled_call_is_cancelled_in_its_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[tuple[object, bool]] = []
    monkeypatch.setattr(ray, "cancel", lambda ref, recursive: cancelled.append((ref, recursive)))

    async def use() -> asyncio.Future[None]:
        ref: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        actor = SimpleNamespace(generate=SimpleNamespace(remote=lambda request: ref))
        call = asyncio.ensure_future(RayModel(actor, "a1-replica").generate(REQUEST))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return ref

    ref = asyncio.run(use())
    assert cancelled == [(ref, False)]


def test_what_an_agent_host_is_given_survives_the_journey() -> None:
    connect = RayConnect(namespace="run", names={agent_address(AgentId(0)): "a1"})
    assert pickle.loads(pickle.dumps(connect)) == connect
    metrics = RayMetrics({AgentId(0): "a1"}, [TaskType("sums")])
    assert isinstance(pickle.loads(pickle.dumps(metrics)), RayMetrics)


# A replica whose process was started again


class Flaky:
    """Loads at the second try, and counts."""

    def __init__(self) -> None:
        self.loads = 0

    async def start(self) -> None:
        self.loads += 1
        await asyncio.sleep(0.01)
        if self.loads == 1:
            raise ReplicaStartError("model m: the GPU is still full")


def flaky_host(monkeypatch: pytest.MonkeyPatch) -> tuple[ModelHost, Flaky]:
    """A host whose model is loaded by `Flaky`, then for real."""
    flaky = Flaky()
    host = ModelHost(BackendSpec(kind="simulated", model="m"))
    start = host._replica.start

    async def load() -> None:
        await flaky.start()
        await start()

    monkeypatch.setattr(host._loading, "_load", load)
    return host, flaky


def test_a_restarted_replica_loads_once_for_all_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    host, flaky = flaky_host(monkeypatch)
    flaky.loads = 1

    async def use() -> None:
        await asyncio.gather(*(host.generate(REQUEST) for _ in range(5)))
        assert (await host.status()).served == 5

    asyncio.run(use())
    assert flaky.loads == 2


def test_a_reload_that_fails_is_tried_again_but_a_first_start_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    host, flaky = flaky_host(monkeypatch)

    async def use() -> None:
        answers = await asyncio.gather(*(host.generate(REQUEST) for _ in range(3)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [RetryableServingError] * 3
        assert flaky.loads == 1
        await host.generate(REQUEST)

    asyncio.run(use())
    host, _ = flaky_host(monkeypatch)
    with pytest.raises(ReplicaStartError, match="still full"):
        asyncio.run(host.start())


def test_a_caller_that_gives_up_does_not_stop_the_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    host, flaky = flaky_host(monkeypatch)
    flaky.loads = 1

    async def use() -> None:
        impatient = asyncio.ensure_future(host.generate(REQUEST))
        await asyncio.sleep(0)
        impatient.cancel()
        await host.generate(REQUEST)

    asyncio.run(use())
    assert flaky.loads == 2

"""Whether the actors of a run are still there: what turns a death into an error instead of a wait."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from ray.exceptions import ActorDiedError, RayError

from actors.cluster.ray_peers import ActorHandle, own_error
from actors.errors import ClusterError

PING_S = 5.0
RETRY_S = 0.5


class Watch:
    """Looks after agent hosts and replicas.

    An agent host holds a queue and is never started again: its death ends the run. A replica is started again;
    only one that has used its restarts up is gone for good. The encoder is not watched: recall does without it.
    """

    def __init__(self, silence_limit_s: float) -> None:
        self._silence_limit_s = silence_limit_s
        self._hosts: Mapping[str, ActorHandle] = {}
        self._replicas: Mapping[str, ActorHandle] = {}
        self._heard_at_s: dict[str, float] = {}

    def over(self, hosts: Mapping[str, ActorHandle], replicas: Mapping[str, ActorHandle]) -> None:
        """From now on, look after these."""
        self._hosts, self._replicas = hosts, replicas
        self._heard_at_s = dict.fromkeys(hosts, time.monotonic())

    async def check(self) -> None:
        """Raises ClusterError naming a host or replica that is gone, or a host silent for too long."""
        hosts, replicas = dict(self._hosts), dict(self._replicas)
        replies = await asyncio.gather(*(_ping(actor) for actor in (*hosts.values(), *replicas.values())))
        answers = dict(zip(hosts, replies, strict=False))
        for name, answer in zip(replicas, replies[len(hosts) :], strict=True):
            if answer is None:
                raise ClusterError(
                    f"{name} is gone for good: its restarts are used up. See its log, "
                    f"give it more memory or another model, and go on with `--resume`"
                )
        for name, answer in answers.items():
            if answer is None:
                raise gone(f"agent {name}")
            if answer:
                self._heard_at_s[name] = time.monotonic()
            elif time.monotonic() - self._heard_at_s[name] > self._silence_limit_s:
                raise silent(f"agent {name}", self._silence_limit_s)

    async def ask(self, method: Any, who: str) -> Any:
        """The answer to a control call without arguments. Raises ClusterError where there will be none."""
        try:
            async with asyncio.timeout(self._silence_limit_s):
                return await _answer(method)
        except TimeoutError:
            raise silent(who, self._silence_limit_s) from None
        except ActorDiedError as error:
            raise gone(who) from error


async def _answer(method: Any) -> Any:
    """Asks until there is an answer: a connection may break and come back. Raises ActorDiedError."""
    while True:
        try:
            return await method.remote()
        except ActorDiedError:
            raise
        except RayError as error:
            if (own := own_error(error)) is not None:
                raise own from None
            await asyncio.sleep(RETRY_S)


async def _ping(actor: ActorHandle) -> bool | None:
    """True: there; False: no answer now; None: gone for good."""
    try:
        async with asyncio.timeout(PING_S):
            await actor.__ray_ready__.options(concurrency_group="control").remote()
    except ActorDiedError:
        return None
    except (TimeoutError, RayError):
        return False
    return True


def gone(who: str) -> ClusterError:
    return ClusterError(f"{who} is gone and its queue with it; go on with `--resume`")


def silent(who: str, limit_s: float) -> ClusterError:
    return ClusterError(f"{who} has not answered for {limit_s:g} s; end the run and go on with `--resume`")

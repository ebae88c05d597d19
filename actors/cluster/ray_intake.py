"""The driver's side of the intake actor."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ray.exceptions import RayError

from actors.cluster.api import Finished, Verdict
from actors.cluster.ray_health import Watch, gone
from actors.cluster.ray_peers import ActorHandle, own_error
from actors.errors import ClusterError
from actors.messages import Body
from actors.task import AgentId, Task

CHECK_EVERY_S = 5.0


class RayIntakePort:
    """Calls the intake in its process; while it waits, it looks whether what it waits for is still alive."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._intake: ActorHandle = None
        self._collecting: asyncio.Future[list[Finished]] | None = None

    def attach(self, intake: ActorHandle) -> None:
        """The actor is there."""
        self._intake = intake

    async def submit(self, tasks: Sequence[tuple[AgentId, Task]]) -> None:
        await self._call("submit", list(tasks))

    async def credit(self, verdicts: Sequence[Verdict]) -> None:
        await self._call("credit", list(verdicts))

    async def broadcast(self, agents: Sequence[AgentId], body: Body) -> None:
        """A control message to each agent; returns when all have it."""
        await self._call("broadcast", list(agents), body)

    async def collect(self, timeout_s: float) -> list[Finished]:
        """Results since the last call. A call that is cancelled loses none: the next one takes its answer."""
        if self._collecting is None:
            self._collecting = asyncio.ensure_future(self._call("collect", timeout_s))
        collecting = self._collecting
        try:
            finished = await asyncio.shield(collecting)
        finally:
            if collecting.done():
                self._collecting = None
        if not finished:  # nothing came: because there is nothing, or because nobody is left to report
            await self._watch.check()
        return finished

    async def _call(self, method: str, *arguments: Any) -> Any:
        """Raises what the intake raises, or ClusterError where no answer can come any more."""
        if self._intake is None:
            raise ClusterError("the intake is not there yet: start the cluster first")
        answer = asyncio.ensure_future(self._answer(method, *arguments))
        try:
            while not (await asyncio.wait({answer}, timeout=CHECK_EVERY_S))[0]:
                await self._watch.check()
        except BaseException:
            answer.cancel()
            raise
        return answer.result()

    async def _answer(self, method: str, *arguments: Any) -> Any:
        try:
            return await getattr(self._intake, method).remote(*arguments)
        except RayError as error:
            if (own := own_error(error)) is not None:
                raise own from None
            raise gone("the intake") from error

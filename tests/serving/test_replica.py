import asyncio
from dataclasses import replace
from typing import Any

import pytest

from serving.api import BackendSpec, EncoderSpec, Prompt, Request, Sampling
from serving.errors import FinalServingError, RetryableServingError
from serving.replica import EncoderReplica, Replica

REQUEST = Request(
    request_id="r",
    prompt=Prompt(system="", head="hello", tail=""),
    sampling=Sampling(),
    task_id="t",
    purpose="answer",
)


def spec(**options: Any) -> BackendSpec:
    return BackendSpec(kind="simulated", model="m", options=options)


def test_status_counts_what_was_served_failed_cancelled_and_is_in_flight() -> None:
    async def scenario() -> None:
        replica = Replica(spec(service_s_by_purpose={"thought": 60}, answers={"bad": "C"}))
        await replica.start()
        await replica.start()  # nothing happens
        completion = await replica.generate(REQUEST)
        bad = replace(REQUEST, task_id="bad", sampling=Sampling(choices=("A", "B")))
        with pytest.raises(FinalServingError):
            await replica.generate(bad)
        slow = asyncio.create_task(replica.generate(replace(REQUEST, purpose="thought")))
        await asyncio.sleep(0)
        assert (await replica.status()).in_flight == 1
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        status = await replica.status()
        assert (status.served, status.failed, status.cancelled, status.in_flight) == (1, 1, 1, 0)
        assert status.healthy
        assert status.prompt_tokens == completion.usage.prompt_tokens > 0
        assert status.completion_tokens == completion.usage.completion_tokens > 0
        await replica.close()
        await replica.close()
        assert not (await replica.status()).healthy
        with pytest.raises(RetryableServingError, match="m is not started"):
            await replica.generate(REQUEST)

    asyncio.run(scenario())


def test_a_spec_that_cannot_be_built_fails_at_start_and_can_be_asked_for_its_status() -> None:
    async def scenario() -> None:
        replica = Replica(spec(unknown=1))
        with pytest.raises(FinalServingError, match="unknown"):
            await replica.start()
        assert not (await replica.status()).healthy
        await replica.close()

    asyncio.run(scenario())


def test_encoder_replica_counts() -> None:
    async def scenario() -> None:
        replica = EncoderReplica(EncoderSpec(kind="hashing", options={"dimensions": 8}))
        with pytest.raises(RetryableServingError, match="hashing is not started"):
            await replica.encode(["a"])
        await replica.start()
        assert (await replica.encode(["a", "b"])).shape == (2, 8)
        status = await replica.status()
        assert (status.served, status.failed, status.healthy) == (1, 0, True)
        await replica.close()

    asyncio.run(scenario())

"""What is particular to vLLM. The engines are real and small; each start takes seconds."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.api import Backend, BackendSpec, Completion, Prompt, Request, Sampling
from serving.build import build_backend
from serving.errors import FinalServingError, ReplicaStartError, RetryableServingError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

SHARED_HEAD = "Here is what every call of this step shares. " * 12


def build(model: str = "tiny-random-llama", **options: Any) -> Backend:
    options = {"max_model_len": 1024, **options}
    return build_backend(BackendSpec(kind="vllm_engine", model=model, options=options, tensor_parallel=0))


def ask(request_id: str = "r", head: str = "What is two and two?", **sampling: Any) -> Request:
    prompt = Prompt(system="You are brief.", head=head, tail="Answer.")
    return Request(request_id=request_id, prompt=prompt, sampling=Sampling(**{"max_tokens": 32, **sampling}))


@pytest.fixture(scope="module")
def engine() -> Iterator[Backend]:
    backend = build()
    asyncio.run(backend.start())
    yield backend
    asyncio.run(backend.close())


def test_a_shared_head_is_served_from_the_prefix_cache(engine: Backend) -> None:
    async def scenario() -> tuple[Completion, Completion]:
        first = await engine.generate(ask(head=SHARED_HEAD + "One."))
        return first, await engine.generate(ask(head=SHARED_HEAD + "Two."))

    first, second = asyncio.run(scenario())
    assert first.usage.cached_tokens == 0
    assert second.usage.cached_tokens >= 0.7 * second.usage.prompt_tokens
    assert first.first_token_s is not None
    assert 0 < first.first_token_s < first.duration_s


def test_a_cancelled_request_costs_the_engine_no_more_steps(
    engine: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm import LLMEngine

    steps = 0
    real_step = LLMEngine.step

    def counted_step(self: Any) -> Any:
        nonlocal steps
        steps += 1
        return real_step(self)

    monkeypatch.setattr(LLMEngine, "step", counted_step)

    async def scenario() -> None:
        pending = asyncio.create_task(engine.generate(ask("long", max_tokens=900)))
        await asyncio.sleep(0.2)
        assert not pending.done()
        assert steps > 3
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        await asyncio.sleep(0.2)
        after_abort = steps
        await asyncio.sleep(0.3)
        assert steps == after_abort
        await engine.generate(ask("next", max_tokens=4))
        assert steps > after_abort

    asyncio.run(scenario())


def test_a_schema_the_engine_cannot_keep_is_refused_and_harms_no_other(engine: Backend) -> None:
    async def scenario() -> None:
        good = asyncio.create_task(engine.generate(ask("good", max_tokens=100)))
        with pytest.raises(FinalServingError, match="tiny-random-llama refuses"):
            await engine.generate(ask("bad", json_schema={"type": "objekt"}))
        assert (await good).usage.completion_tokens == 100

    asyncio.run(scenario())


def test_sampling_with_a_seed_repeats(engine: Backend) -> None:
    async def scenario() -> tuple[str, str, str]:
        texts = [
            (await engine.generate(ask(temperature=1.0, seed=seed, max_tokens=16))).text for seed in (1, 1, 2)
        ]
        return texts[0], texts[1], texts[2]

    first, again, other = asyncio.run(scenario())
    assert first == again != other


def test_closing_one_engine_of_a_process_leaves_the_others(engine: Backend) -> None:
    async def scenario() -> None:
        other = build()
        await other.start()
        mine, its = await asyncio.gather(engine.generate(ask("mine")), other.generate(ask("its")))
        assert mine.text == its.text
        await other.close()
        assert (await engine.generate(ask("after"))).text == mine.text

    asyncio.run(scenario())


def test_a_step_that_raises_fails_all_who_wait_and_the_engine_is_unhealthy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from vllm import LLMEngine

    def failing_step(self: Any) -> Any:
        raise RuntimeError("the device is lost")

    async def scenario() -> None:
        backend = build()
        await backend.start()
        assert await backend.healthy()
        monkeypatch.setattr(LLMEngine, "step", failing_step)
        calls = [backend.generate(ask(f"r{number}")) for number in range(3)]
        outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)
        assert all(isinstance(outcome, RetryableServingError) for outcome in outcomes), outcomes
        assert "the device is lost" in str(outcomes[0])
        assert not await backend.healthy()
        await backend.close()

    asyncio.run(scenario())


def start(backend: Backend) -> None:
    async def scenario() -> None:
        try:
            await backend.start()
        finally:
            await backend.close()

    asyncio.run(scenario())


def test_a_start_that_fails_names_model_cause_and_remedy_and_harms_no_other(
    engine: Backend, tmp_path: Path
) -> None:
    with pytest.raises(ReplicaStartError, match=r"tiny-random-llama .*float99.*correct the option"):
        start(build(dtype="float99"))
    with pytest.raises(ReplicaStartError, match=r"tiny-random-llama .*lower max_model_len"):
        start(build(kv_cache_memory_bytes=1 << 12))
    with pytest.raises(ReplicaStartError, match=str(tmp_path)):
        start(build(str(tmp_path)))
    assert asyncio.run(engine.generate(ask())).text


def test_async_engine_generates_cancels_and_closes() -> None:
    async def scenario() -> None:
        backend = build(engine="async")
        await backend.start()
        completion = await backend.generate(ask(choices=("yes", "no")))
        assert completion.text in {"yes", "no"}
        assert completion.first_token_s is not None
        pending = asyncio.create_task(backend.generate(ask("long", max_tokens=900)))
        await asyncio.sleep(0.2)
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        with pytest.raises(FinalServingError, match="refuses"):
            await backend.generate(ask(json_schema={"type": "objekt"}))
        assert await backend.healthy()
        await backend.close()
        await backend.close()
        assert not await backend.healthy()

    asyncio.run(scenario())


def test_the_packaged_model_answers() -> None:
    async def scenario() -> Completion:
        backend = build("smollm2-135m-instruct")
        await backend.start()
        try:
            prompt = Prompt(system="", head="What is the capital of France?", tail="")
            sampling = Sampling(max_tokens=24)
            return await backend.generate(Request(request_id="r", prompt=prompt, sampling=sampling))
        finally:
            await backend.close()

    completion = asyncio.run(scenario())
    assert "Paris" in completion.text
    assert completion.finish_reason == "stop"

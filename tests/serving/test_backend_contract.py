"""What every backend keeps, whatever stands behind it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from serving.api import Backend, BackendSpec, Completion, Demonstration, Prompt, Request, Sampling
from serving.build import build_backend
from serving.errors import PromptTooLongError, RetryableServingError

ACTION_SCHEMA = {
    "type": "object",
    "properties": {
        "action": {"enum": ["execute", "split"]},
        "part": {"type": "string", "maxLength": 200},
    },
    "required": ["action", "part"],
    "additionalProperties": False,
}
CONTEXT_TOKENS = 512
ENGINE_OPTIONS = {"max_model_len": CONTEXT_TOKENS}


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of backend under test: how to build one, and one that many tests share if building is slow."""

    build: Callable[[], Backend]
    slow_down: Callable[[], None]
    """The next request will take long."""
    wait_for_slow: Callable[[], object]
    """Blocks until that request is being worked on."""
    shared: Backend | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Backend]:
        if self.shared is not None:
            yield self.shared
            return
        backend = self.build()
        await backend.start()
        try:
            yield backend
        finally:
            await backend.close()

    def run(self, scenario: Callable[[Backend], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            async with self.running() as backend:
                await scenario(backend)

        asyncio.run(whole())


@pytest.fixture(scope="module")
def tiny_engine() -> Iterator[Backend]:
    """One real engine for the whole module: it takes many seconds to start."""
    backend = build_engine()
    asyncio.run(backend.start())
    yield backend
    asyncio.run(backend.close())


def build_engine() -> Backend:
    return build_backend(
        BackendSpec(kind="vllm_engine", model="tiny-random-llama", options=ENGINE_OPTIONS, tensor_parallel=0)
    )


@pytest.fixture(
    params=[
        "simulated",
        "replay",
        "openai_http",
        pytest.param(
            "vllm_engine",
            marks=[pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")],
        ),
    ]
)
def case(request: pytest.FixtureRequest) -> Case:
    if request.param in {"simulated", "replay"}:
        options: dict[str, Any] = {"max_model_len": CONTEXT_TOKENS, "service_s_by_purpose": {"slow": 60}}
        if request.param == "replay":
            options["verdicts"] = {"t": True}
        spec = BackendSpec(kind=request.param, model="m", options=options)
        return Case(lambda: build_backend(spec), lambda: None, lambda: time.sleep(0.02))
    if request.param == "openai_http":
        server = request.getfixturevalue("openai_server")
        fault = request.getfixturevalue("fault")
        server.context_tokens, server.tells_context = CONTEXT_TOKENS, True
        spec = BackendSpec(kind="openai_http", model="m", options={"base_url": server.base_url})
        return Case(
            lambda: build_backend(spec),
            lambda: server.faults.append(fault(then="hang", after_chunks=1)),
            lambda: server.hanging.wait(10),
        )
    return Case(
        build_engine, lambda: None, lambda: time.sleep(0.1), shared=request.getfixturevalue("tiny_engine")
    )


def ask(
    request_id: str = "r", *, prompt: Prompt | None = None, purpose: str = "", **sampling: Any
) -> Request:
    return Request(
        request_id=request_id,
        prompt=prompt or Prompt(system="You are brief.", head="What is two and two?", tail="Answer."),
        sampling=Sampling(**{"max_tokens": 64, **sampling}),
        task_id="t",
        purpose=purpose,
    )


def assert_sane(completion: Completion, max_tokens: int = 64) -> None:
    usage = completion.usage
    assert 0 < usage.prompt_tokens < CONTEXT_TOKENS
    assert 0 < usage.completion_tokens <= max_tokens
    assert 0 <= usage.cached_tokens <= usage.prompt_tokens
    assert 0 <= (completion.first_token_s or 0) <= completion.duration_s < 60
    assert completion.finish_reason in {"stop", "length"}
    assert completion.dropped_demonstrations == 0


def test_a_completion_has_text_and_usage(case: Case) -> None:
    async def scenario(backend: Backend) -> None:
        completion = await backend.generate(ask())
        assert completion.text
        assert_sane(completion)
        assert await backend.healthy()

    case.run(scenario)


@pytest.mark.parametrize("choices", [("complete", "incomplete"), ("(A)", "(B)", "(C)"), ("only",)])
@pytest.mark.parametrize("purpose", ["answer", "other"])
def test_choices_are_kept(case: Case, choices: tuple[str, ...], purpose: str) -> None:
    async def scenario(backend: Backend) -> None:
        for number in range(3):
            completion = await backend.generate(ask(f"r{number}", purpose=purpose, choices=choices))
            assert completion.text in choices
            assert_sane(completion)

    case.run(scenario)


@pytest.mark.parametrize("purpose", ["action", "other"])
def test_a_json_schema_is_kept(case: Case, purpose: str) -> None:
    async def scenario(backend: Backend) -> None:
        request = ask(purpose=purpose, json_schema=ACTION_SCHEMA, max_tokens=256)
        reply = json.loads((await backend.generate(request)).text)
        assert set(reply) == {"action", "part"}
        assert reply["action"] in {"execute", "split"}
        assert isinstance(reply["part"], str)
        assert len(reply["part"]) <= 200

    case.run(scenario)


def test_equal_requests_get_equal_answers(case: Case) -> None:
    async def scenario(backend: Backend) -> None:
        first = await backend.generate(ask())
        assert (await backend.generate(ask())).text == first.text

    case.run(scenario)


def test_every_request_in_flight_is_answered_and_equal_ids_do_not_clash(case: Case) -> None:
    async def scenario(backend: Backend) -> None:
        requests = [ask(f"r{number // 2}", max_tokens=64) for number in range(40)]
        completions = await asyncio.gather(*(backend.generate(request) for request in requests))
        assert len(completions) == 40
        for completion in completions:
            assert_sane(completion)

    case.run(scenario)


def test_a_cancelled_request_ends_at_once_and_the_next_is_served(case: Case) -> None:
    async def scenario(backend: Backend) -> None:
        case.slow_down()
        pending = asyncio.create_task(backend.generate(ask("slow", purpose="slow", max_tokens=400)))
        await asyncio.to_thread(case.wait_for_slow)
        assert not pending.done()
        pending.cancel()
        began_s = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await pending
        assert time.monotonic() - began_s < 1
        assert_sane(await backend.generate(ask("next")))

    case.run(scenario)


def test_a_demonstration_too_many_is_the_lowest_scored_and_is_counted(case: Case) -> None:
    long = " ".join(["word"] * 150)
    shown = tuple(Demonstration(text=f"{long} d{n}", score=score) for n, score in enumerate((0.9, 0.7, 0.8)))

    async def scenario(backend: Backend) -> None:
        both = Prompt(system="s", head="h", tail="t", demonstrations=(shown[0],))
        whole = Prompt(system="s", head="h", tail="t", demonstrations=shown)
        fitting = await backend.generate(ask("fitting", prompt=both))
        assert fitting.dropped_demonstrations == 0
        completion = await backend.generate(ask("overflowing", prompt=whole))
        assert completion.dropped_demonstrations in {1, 2}
        kept = 3 - completion.dropped_demonstrations
        assert completion.usage.prompt_tokens == pytest.approx(fitting.usage.prompt_tokens * kept, rel=0.2)

    case.run(scenario)


def test_a_prompt_too_long_without_demonstrations_is_final(case: Case) -> None:
    prompt = Prompt(system="s", head=" ".join(["word"] * 2000), tail="t")

    async def scenario(backend: Backend) -> None:
        with pytest.raises(PromptTooLongError):
            await backend.generate(ask(prompt=prompt))
        assert_sane(await backend.generate(ask("next")))

    case.run(scenario)


def test_more_tokens_than_the_context_has_are_cut_to_what_is_left(case: Case) -> None:
    async def scenario(backend: Backend) -> None:
        completion = await backend.generate(ask(max_tokens=100_000))
        assert_sane(completion, max_tokens=CONTEXT_TOKENS)

    case.run(scenario)


def test_odd_text_is_served(case: Case) -> None:
    async def scenario(backend: Backend) -> None:
        for text in ("", "\x00\ufffd", "日本語 🙂", "<|im_start|>system"):
            prompt = Prompt(system="", head=text, tail="?")
            assert_sane(await backend.generate(ask(prompt=prompt)))

    case.run(scenario)


def test_closing_twice_answers_who_waits_and_refuses_who_comes(case: Case) -> None:
    async def scenario() -> None:
        backend = case.build()
        with pytest.raises(RetryableServingError):
            await backend.generate(ask())
        await backend.start()
        assert await backend.healthy()
        await backend.close()
        await backend.close()
        assert not await backend.healthy()
        with pytest.raises(RetryableServingError):
            await backend.generate(ask())

    asyncio.run(scenario())

import asyncio
import time
from typing import Any

import httpx
import pytest

from serving import openai_http
from serving.api import Completion, Demonstration, Prompt, Request, Sampling
from serving.errors import (
    FinalServingError,
    PromptTooLongError,
    ReplicaStartError,
    RetryableServingError,
)
from serving.openai_http import OpenAIHttpBackend, OpenAIHttpOptions

PROMPT = Prompt(system="You are brief.", head="Add one and two.", tail="Answer.")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_http, "FIRST_WAIT_S", 0.01)


def ask(prompt: Prompt = PROMPT, **sampling: Any) -> Request:
    return Request(request_id="r", prompt=prompt, sampling=Sampling(**{"max_tokens": 32, **sampling}))


def generate(server: Any, request: Request, **options: Any) -> Completion:
    async def scenario() -> Completion:
        backend = OpenAIHttpBackend("m", OpenAIHttpOptions(base_url=server.base_url, **options))
        await backend.start()
        try:
            return await backend.generate(request)
        finally:
            await backend.close()

    return asyncio.run(scenario())


def test_the_request_carries_what_the_sampling_says(openai_server: Any) -> None:
    generate(openai_server, ask(temperature=0.5, seed=7))
    (body,) = openai_server.bodies
    assert body["model"] == "m"
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.5, 7, 32)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert not {"structured_outputs", "guided_choice", "response_format"} & set(body)


@pytest.mark.parametrize("choices_as", ["structured_outputs", "guided_choice", "none"])
def test_choices_go_by_the_field_the_server_knows(openai_server: Any, choices_as: str) -> None:
    completion = generate(openai_server, ask(choices=("A", "B")), choices_as=choices_as)
    (body,) = openai_server.bodies
    assert body.get("structured_outputs") == (
        {"choice": ["A", "B"]} if choices_as == "structured_outputs" else None
    )
    assert body.get("guided_choice") == (["A", "B"] if choices_as == "guided_choice" else None)
    assert (completion.text == "A") == (choices_as != "none")


def test_a_schema_goes_as_response_format(openai_server: Any) -> None:
    schema = {"type": "object", "properties": {}}
    generate(openai_server, ask(json_schema=schema))
    assert openai_server.bodies[0]["response_format"]["json_schema"]["schema"] == schema


def test_times_and_usage_are_the_stream_s(openai_server: Any) -> None:
    openai_server.delay_s = 0.1
    completion = generate(openai_server, ask())
    assert completion.first_token_s is not None
    assert 0.1 <= completion.first_token_s <= completion.duration_s
    assert completion.usage.cached_tokens == 1
    openai_server.sends_usage = False
    assert 0 < generate(openai_server, ask()).usage.completion_tokens < 32  # estimated


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_passing_fault_is_tried_again(openai_server: Any, fault: Any, status: int) -> None:
    openai_server.faults.extend([fault(status=status)] * 2)
    assert generate(openai_server, ask()).text.endswith("Answer.")
    assert len(openai_server.bodies) == 3


@pytest.mark.parametrize("then", ["drop", "end", "garbage", "error"])
def test_a_broken_stream_is_asked_for_again_and_its_pieces_are_not_kept(
    openai_server: Any, fault: Any, then: str
) -> None:
    whole = generate(openai_server, ask()).text
    openai_server.faults.append(fault(then=then, after_chunks=2))
    assert generate(openai_server, ask()).text == whole
    assert len(openai_server.bodies) == 3


def test_tries_are_bounded_and_the_server_s_message_is_kept(openai_server: Any, fault: Any) -> None:
    openai_server.faults.extend([fault(status=503, body='{"error": {"message": "overloaded"}}')] * 10)
    with pytest.raises(RetryableServingError, match=r"m at http.* answers 503: overloaded .*3 of 3 tries"):
        generate(openai_server, ask(), max_retries=2)
    assert len(openai_server.bodies) == 3


def test_the_wait_is_the_server_s(openai_server: Any, fault: Any) -> None:
    openai_server.faults.append(fault(status=429, headers={"Retry-After": "1"}))
    assert generate(openai_server, ask()).duration_s >= 1.0


def test_too_long_a_wait_is_left_to_the_caller(openai_server: Any, fault: Any) -> None:
    openai_server.faults.append(fault(status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(RetryableServingError) as caught:
        generate(openai_server, ask())
    assert caught.value.after_s == 3600
    assert len(openai_server.bodies) == 1


@pytest.mark.parametrize(("told", "least_s", "most_s"), [
    ("7", 7, 7), ("-3", 0, 0), ("", 0, 0), ("soon", 0, 0),
    ("Fri, 31 Dec 1999 23:59:59 GMT", 0, 0), ("Fri, 31 Dec 2100 23:59:59 GMT", 1e9, 1e11),
])  # fmt: skip
def test_retry_after_in_each_form(told: str, least_s: float, most_s: float) -> None:
    assert least_s <= openai_http._retry_after_s({"retry-after": told}) <= most_s


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_final_and_not_repeated(openai_server: Any, fault: Any, status: int) -> None:
    openai_server.faults.append(fault(status=status, body='{"error": {"message": "no such field"}}'))
    with pytest.raises(FinalServingError, match=f"answers {status}: no such field"):
        generate(openai_server, ask())
    assert len(openai_server.bodies) == 1


def test_silence_ends_in_an_error(openai_server: Any, fault: Any) -> None:
    openai_server.faults.append(fault(then="hang"))
    with pytest.raises(RetryableServingError, match="ReadTimeout"):
        generate(openai_server, ask(), timeout_s=0.2, max_retries=0)


def test_cancelling_closes_the_stream(openai_server: Any, fault: Any) -> None:
    async def scenario() -> None:
        backend = OpenAIHttpBackend("m", OpenAIHttpOptions(base_url=openai_server.base_url))
        await backend.start()
        openai_server.faults.append(fault(then="hang", after_chunks=1))
        pending = asyncio.create_task(backend.generate(ask()))
        assert await asyncio.to_thread(openai_server.hanging.wait, 5)
        assert not openai_server.hung_up.is_set()
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        assert await asyncio.to_thread(openai_server.hung_up.wait, 5)
        await backend.close()

    asyncio.run(scenario())


def test_requests_share_the_time(openai_server: Any) -> None:
    openai_server.delay_s = 0.3

    async def scenario() -> float:
        backend = OpenAIHttpBackend("m", OpenAIHttpOptions(base_url=openai_server.base_url))
        await backend.start()
        began_s = time.monotonic()
        await asyncio.gather(*(backend.generate(ask()) for _ in range(120)))
        await backend.close()
        return time.monotonic() - began_s

    assert asyncio.run(scenario()) < 5  # one after another: 36 seconds
    assert openai_server.most_in_flight > 100


def test_an_overflow_costs_the_lowest_scored_demonstrations_one_by_one(openai_server: Any) -> None:
    openai_server.context_tokens = 100
    shown = tuple(
        Demonstration(text=" ".join([f"d{number}"] * 40), score=score)
        for number, score in enumerate((0.7, 0.9, 0.8))
    )
    completion = generate(openai_server, ask(Prompt(system="", head="h", tail="t", demonstrations=shown)))
    assert completion.dropped_demonstrations == 2
    assert [
        len(set(str(body["messages"]).split()) & {"d0", "d1", "d2"}) for body in openai_server.bodies
    ] == [3, 2, 1]
    assert "d1" in str(openai_server.bodies[-1]["messages"])


def test_an_overflow_without_demonstrations_costs_answer_tokens_then_is_final(openai_server: Any) -> None:
    openai_server.context_tokens = 60
    completion = generate(openai_server, ask(max_tokens=128))
    assert [body["max_tokens"] for body in openai_server.bodies] == [128, 64, 32]
    assert completion.dropped_demonstrations == 0
    openai_server.context_tokens = 10
    with pytest.raises(PromptTooLongError, match="maximum context length is 10"):
        generate(openai_server, ask())


def test_an_estimate_too_low_costs_answer_tokens_before_demonstrations(openai_server: Any) -> None:
    openai_server.context_tokens, openai_server.tells_context = 400, True
    many_short_words = Demonstration(text=" ".join("a" * 200), score=1.0)  # 200 words in 399 characters
    completion = generate(
        openai_server,
        ask(Prompt(system="", head="h", tail="t", demonstrations=(many_short_words,)), max_tokens=2048),
    )
    assert completion.dropped_demonstrations == 0
    assert [body["max_tokens"] for body in openai_server.bodies][-1] == 100


def test_a_missing_server_is_named_at_the_start() -> None:
    async def scenario() -> None:
        backend = OpenAIHttpBackend("m", OpenAIHttpOptions(base_url="http://127.0.0.1:9/v1"))
        with pytest.raises(
            ReplicaStartError, match=r"no server answers at http://127\.0\.0\.1:9/v1 for model m"
        ):
            await backend.start()
        assert not await backend.healthy()

    asyncio.run(scenario())


def test_a_server_that_goes_away_is_unhealthy_and_retryable(openai_server: Any) -> None:
    async def scenario() -> None:
        backend = OpenAIHttpBackend("m", OpenAIHttpOptions(base_url=openai_server.base_url, max_retries=1))
        await backend.start()
        assert await backend.healthy()
        backend._base_url = "http://127.0.0.1:9/v1"
        assert not await backend.healthy()
        with pytest.raises(RetryableServingError, match="ConnectError"):
            await backend.generate(ask())
        await backend.close()

    asyncio.run(scenario())


def test_the_key_comes_from_the_environment(openai_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(ReplicaStartError, match=r"SOME_KEY .* is not set"):
        generate(openai_server, ask(), api_key_env="SOME_KEY")
    monkeypatch.setenv("SOME_KEY", "secret-of-test")
    generate(openai_server, ask(), api_key_env="SOME_KEY")
    assert set(openai_server.authorizations) == {"bearer secret-of-test"}


def test_httpx_errors_never_escape(openai_server: Any, fault: Any) -> None:
    openai_server.faults.extend([fault(then="drop", after_chunks=1)] * 2)
    with pytest.raises(RetryableServingError) as caught:
        generate(openai_server, ask(), max_retries=0)
    assert not isinstance(caught.value, httpx.HTTPError)

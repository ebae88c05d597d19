"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, Ollama, llama.cpp, a hosted API.

The home of the HTTP client. Replies are streamed, so that the time to the first token is known and a
cancelled call closes its stream, which tells the server to stop.
"""

import asyncio
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt

from serving.api import Completion, Prompt, Request, Sampling, Usage
from serving.errors import FinalServingError, PromptTooLongError, ReplicaStartError, RetryableServingError
from serving.prompt import (
    LEAST_ANSWER_TOKENS,
    FittedPrompt,
    approximate_tokens,
    chat_messages,
    fit_context,
    without_lowest,
)

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
"""Waits between tries double from the first up to the longest; who is told to wait longer raises instead."""

_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
_OVERFLOW = re.compile(r"context_length_exceeded|maximum context length|context (size|window|length)", re.I)


class OpenAIHttpOptions(BaseModel):
    """Settings of one OpenAI-compatible server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str
    """With the version: http://host:8000/v1."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key."""
    timeout_s: PositiveFloat = 600.0
    """Longest silence: to the first token and between two."""
    max_retries: NonNegativeInt = 4
    """Further tries after a refused, failed or broken one."""
    choices_as: Literal["structured_outputs", "guided_choice", "none"] = "structured_outputs"
    """How closed choices are told: vLLM's field, its older field, or not at all (the reply may be anything)."""
    context_tokens: PositiveInt | None = None
    """The model's context; None to take what the server says, if it does. Prompts are then fitted by an
    estimate before they are sent."""


@dataclass(slots=True)
class _Reply:
    """What has come in of one stream."""

    text: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    first_token_s: float | None = None


class _ContextOverflow(Exception):  # noqa: N818 - a signal between two methods, never seen outside
    """The server says that the prompt does not fit."""


class OpenAIHttpBackend:
    """A `Backend` over HTTP."""

    def __init__(self, model: str, options: OpenAIHttpOptions) -> None:
        self._model = model
        self._options = options
        self._base_url = options.base_url.rstrip("/")
        self._client: httpx.AsyncClient | None = None
        self._context_tokens = options.context_tokens
        self._jitter = random.Random()

    async def start(self) -> None:
        """Check that the server answers. Raises ReplicaStartError naming it."""
        timeout = httpx.Timeout(self._options.timeout_s, connect=10.0)
        unbounded = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.AsyncClient(headers=self._headers(), timeout=timeout, limits=unbounded)
        try:
            answer = await self._client.get(f"{self._base_url}/models", timeout=10.0)
        except (httpx.HTTPError, httpx.InvalidURL) as cause:
            await self.close()
            raise ReplicaStartError(
                f"no server answers at {self._base_url} for model {self._model} "
                f"({type(cause).__name__}: {cause}): start it, or correct base_url"
            ) from cause
        if answer.status_code in {401, 403}:
            await self.close()
            raise ReplicaStartError(
                f"{self._base_url} refuses the key for model {self._model} ({_message(answer.content)}): "
                f"set api_key_env to the name of an environment variable that holds a valid one"
            )
        if self._context_tokens is None:
            self._context_tokens = _served_context(answer.content, self._model)

    async def generate(self, request: Request) -> Completion:
        began_s = time.monotonic()
        fitted = self._fit(request)
        while True:
            try:
                body = self._body(fitted.prompt, request.sampling, fitted.max_tokens)
                reply = await self._with_retries(body, began_s)
                break
            except _ContextOverflow as overflow:
                fitted = self._smaller(fitted, str(overflow))
        return Completion(
            text=reply.text,
            usage=_usage(reply, fitted.prompt),
            duration_s=time.monotonic() - began_s,
            first_token_s=reply.first_token_s,
            finish_reason="length" if reply.finish_reason == "length" else "stop",
            dropped_demonstrations=fitted.dropped_demonstrations,
        )

    async def healthy(self) -> bool:
        if self._client is None:
            return False
        try:
            answer = await self._client.get(f"{self._base_url}/models", timeout=5.0)
        except httpx.HTTPError:
            return False
        return answer.status_code < 500

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _headers(self) -> dict[str, str]:
        name = self._options.api_key_env
        if name is None:
            return {}
        if not os.environ.get(name):
            raise ReplicaStartError(
                f"the environment variable {name} (api_key_env of model {self._model}) is not set: "
                f"export it where the replica starts"
            )
        return {"Authorization": f"Bearer {os.environ[name]}"}

    def _fit(self, request: Request) -> FittedPrompt:
        max_tokens = request.sampling.max_tokens
        if self._context_tokens is None:
            return FittedPrompt(prompt=request.prompt, max_tokens=max_tokens, dropped_demonstrations=0)
        return fit_context(
            request.prompt, approximate_tokens, max_tokens=max_tokens, context_tokens=self._context_tokens
        )

    def _smaller(self, fitted: FittedPrompt, overflow: str) -> FittedPrompt:
        """What to try after an overflow: a shorter answer where the estimate gave it more than a quarter of
        the context, else a demonstration less, else half the answer. Raises PromptTooLongError."""
        enough_tokens = self._context_tokens // 4 if self._context_tokens else fitted.max_tokens
        if fitted.max_tokens > enough_tokens:
            return replace(fitted, max_tokens=enough_tokens)
        if fitted.prompt.demonstrations:
            return replace(
                fitted,
                prompt=without_lowest(fitted.prompt, 1),
                dropped_demonstrations=fitted.dropped_demonstrations + 1,
            )
        if fitted.max_tokens >= 2 * LEAST_ANSWER_TOKENS:
            return replace(fitted, max_tokens=fitted.max_tokens // 2)
        raise PromptTooLongError(
            f"{self._model} at {self._base_url}: the prompt does not fit even without demonstrations "
            f"({overflow}): shorten the task or serve the model with a longer context"
        )

    def _body(self, prompt: Prompt, sampling: Sampling, max_tokens: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": chat_messages(prompt),
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if sampling.json_schema is not None:
            schema = {"name": "reply", "schema": dict(sampling.json_schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if sampling.choices and self._options.choices_as == "structured_outputs":
            body["structured_outputs"] = {"choice": list(sampling.choices)}
        if sampling.choices and self._options.choices_as == "guided_choice":
            body["guided_choice"] = list(sampling.choices)
        return body

    async def _with_retries(self, body: Mapping[str, Any], began_s: float) -> _Reply:
        tries = self._options.max_retries + 1
        for attempt in range(tries):
            if self._client is None:
                raise RetryableServingError(f"the backend for {self._base_url} is not started, or is closed")
            try:
                return await self._stream(self._client, body, began_s)
            except RetryableServingError as error:
                own_wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt) * self._jitter.uniform(0.5, 1.0)
                wait_s = max(error.after_s, own_wait_s)
                if attempt + 1 == tries or error.after_s > LONGEST_WAIT_S:
                    raise RetryableServingError(
                        f"{error} (after {attempt + 1} of {tries} tries)", wait_s
                    ) from error
                await asyncio.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _stream(self, client: httpx.AsyncClient, body: Mapping[str, Any], began_s: float) -> _Reply:
        reply = _Reply()
        try:
            async with client.stream("POST", f"{self._base_url}/chat/completions", json=body) as answer:
                if answer.status_code != 200:
                    self._raise_for(answer.status_code, await answer.aread(), answer.headers)
                async for event in _events(answer):
                    self._take(event, reply, lambda: time.monotonic() - began_s)
        except httpx.HTTPError as cause:
            raise RetryableServingError(
                f"{self._model} at {self._base_url}: {type(cause).__name__}: {cause}", 0.0
            ) from cause
        if reply.finish_reason is None:
            raise RetryableServingError(f"{self._model} at {self._base_url}: the stream ended early", 0.0)
        return reply

    def _take(self, event: Mapping[str, Any], reply: _Reply, elapsed_s: Callable[[], float]) -> None:
        """Add one event of the stream to the reply."""
        if "error" in event:
            code = event["error"].get("code") if isinstance(event["error"], dict) else None
            self._raise_for(code if isinstance(code, int) else 500, json.dumps(event).encode(), {})
        if event.get("usage"):
            reply.usage = event["usage"]
        for choice in event.get("choices") or ():
            content = (choice.get("delta") or {}).get("content")
            if content:
                if reply.first_token_s is None:
                    reply.first_token_s = elapsed_s()
                reply.text += content
            reply.finish_reason = choice.get("finish_reason") or reply.finish_reason

    def _raise_for(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        message = _message(content)
        said = f"{self._model} at {self._base_url} answers {status}: {message}"
        if status in {400, 413, 422} and _OVERFLOW.search(content.decode(errors="replace")):
            raise _ContextOverflow(message)
        if status in _RETRYABLE_STATUSES or status >= 500:
            raise RetryableServingError(said, _retry_after_s(headers))
        raise FinalServingError(said)


async def _events(answer: httpx.Response) -> AsyncIterator[Mapping[str, Any]]:
    """The JSON objects of a stream of server-sent events, up to `[DONE]`."""
    async for line in answer.aiter_lines():
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        try:
            event = json.loads(data)
        except json.JSONDecodeError:
            raise RetryableServingError(
                f"the stream of {answer.url} is broken: {data[:100]!r}", 0.0
            ) from None
        if isinstance(event, dict):
            yield event


def _message(content: bytes) -> str:
    """What a server says in the body of an error."""
    text = content.decode(errors="replace")
    try:
        body = json.loads(text)
    except json.JSONDecodeError:
        return text[:500]
    error = body.get("error", body) if isinstance(body, dict) else body
    said = error.get("message", error) if isinstance(error, dict) else error
    return str(said)[:500]


def _served_context(content: bytes, model: str) -> int | None:
    """The context length that vLLM and SGLang tell in their list of models."""
    try:
        served = json.loads(content)["data"]
        lengths = [entry.get("max_model_len") for entry in served if entry.get("id") == model]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return lengths[0] if lengths and isinstance(lengths[0], int) else None


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """Seconds of a Retry-After header, in either of its forms; 0 without one."""
    told = headers.get("retry-after", "")
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _usage(reply: _Reply, prompt: Prompt) -> Usage:
    """As the server counts; estimated where it does not."""
    if reply.usage is None:
        answer = [{"role": "assistant", "content": reply.text}]
        return Usage(
            prompt_tokens=approximate_tokens(chat_messages(prompt)),
            completion_tokens=approximate_tokens(answer),
        )
    details = reply.usage.get("prompt_tokens_details") or {}
    return Usage(
        prompt_tokens=int(reply.usage.get("prompt_tokens") or 0),
        completion_tokens=int(reply.usage.get("completion_tokens") or 0),
        cached_tokens=int(details.get("cached_tokens") or 0),
    )

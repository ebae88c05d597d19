"""A model that is not there: seeded service times, seeded success, right answers from a key. No weights.

Every draw is a hash of the seed, the model's name and what the draw is about, never of the order of calls:
a run repeats under any interleaving, and two arms of a comparison see the same luck. Whether a model solves
a task is one draw per task; service time, splitting and faults are drawn per request.
"""

import asyncio
import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, model_validator

from serving.api import Completion, Request, Usage, VirtualReply
from serving.errors import FinalServingError, RetryableServingError
from serving.prompt import approximate_tokens, chat_messages, fit

Rate = Annotated[float, Field(ge=0, le=1)]

_UNPARSEABLE = "(no answer in the form that was asked for)"


class SimulatedOptions(BaseModel):
    """Settings of one simulated model."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: int = 1
    service_s: NonNegativeFloat = 0.0
    """Mean seconds of a call. With 0 nothing sleeps; the call still yields to the others."""
    service_s_by_purpose: Mapping[str, NonNegativeFloat] = Field(default_factory=dict)
    """Takes the place of `service_s` for these purposes."""
    service_factor_by_type: Mapping[str, NonNegativeFloat] = Field(default_factory=dict)
    """Multiplies the mean for these task types."""
    distribution: Literal["fixed", "exponential", "lognormal", "measured"] = "fixed"
    service_cv: NonNegativeFloat = 0.5
    """Coefficient of variation (standard deviation / mean) of a lognormal service time."""
    service_shape: tuple[NonNegativeFloat, ...] = ()
    """Of a measured service time: times of a real model, in any unit. A call takes its mean, times one of them that
    is drawn for it, over the mean of them all."""
    slowdown_exponent: NonNegativeFloat = 0.0
    """A call that starts with n in flight, itself included, takes n ** this as long. What starts or ends later
    does not change it; see `tests/actors/test_processor_sharing.py` for how little that matters."""
    success_rate: Rate = 1.0
    """Share of tasks whose answer is right."""
    success_rate_by_type: Mapping[str, Rate] = Field(default_factory=dict)
    split_rate: Rate = 0.0
    """Share of action selections, and of AgentNet's router calls, that split."""
    forward_rate: Rate = 0.0
    """Share of AgentNet's router calls that forward, to any of the agents that may have the task."""
    complete_rate: Rate = 1.0
    """Share of completion checks that say complete."""
    failure_rate: Rate = 0.0
    """Share of tries that raise RetryableServingError."""
    unparseable_rate: Rate = 0.0
    """Share of constrained requests (choices, schema, action, check) answered with neither."""
    answers: Mapping[str, str] = Field(default_factory=dict)
    """The right answer by task id."""
    wrong: Mapping[str, str] = Field(default_factory=dict)
    """What a failure answers, by task id."""
    max_model_len: PositiveInt | None = None
    """Context in (estimated) tokens; None for no bound."""

    @model_validator(mode="after")
    def _shape_where_measured(self) -> Self:
        if self.distribution == "measured" and not sum(self.service_shape):
            raise ValueError("distribution measured needs service_shape, the times that were measured")
        return self


class SimulatedModel:
    """The model itself: a function of the request. Neither sleeps nor keeps anything, so it also serves a
    simulation that moves its own clock."""

    def __init__(self, model: str, options: SimulatedOptions) -> None:
        self._model = model
        self._options = options
        self._shape_mean = sum(options.service_shape) / max(1, len(options.service_shape))

    def reply(self, request: Request, *, in_flight: int = 1, attempt: int = 0) -> VirtualReply:
        """Raises RetryableServingError at `failure_rate`, PromptTooLongError, and FinalServingError where
        the answer key contradicts the request. `attempt` numbers the tries of one request id from 0."""
        prompt, dropped = request.prompt, 0
        if self._options.max_model_len is not None:
            prompt, dropped = fit(prompt, approximate_tokens, self._options.max_model_len)
        rate = self._options.failure_rate
        if rate and self._draw("failure", request.request_id, str(attempt)) < rate:
            raise RetryableServingError(f"simulated failure of {self._model} on {request.request_id}", 0.0)
        return VirtualReply(
            text=self._text(request),
            service_s=self._service_s(request) * in_flight**self._options.slowdown_exponent,
            prompt_tokens=approximate_tokens(chat_messages(prompt)),
            dropped_demonstrations=dropped,
        )

    def succeeds(self, task_id: str, task_type: str) -> bool:
        """Whether this model answers the task rightly: one draw per task."""
        rate = self._options.success_rate_by_type.get(task_type, self._options.success_rate)
        return self._draw("success", task_id) < rate

    def _draw(self, *about: str) -> float:
        """Uniform in [0, 1), the same for the same seed, model and `about`."""
        key = "\x1f".join((str(self._options.seed), self._model, *about)).encode()
        return int.from_bytes(hashlib.blake2b(key, digest_size=7).digest()) / 2**56

    def _pick(self, among: Sequence[Any], *about: str) -> Any:
        return among[int(self._draw(*about) * len(among))]

    def _service_s(self, request: Request) -> float:
        options = self._options
        mean_s = options.service_s_by_purpose.get(request.purpose, options.service_s)
        mean_s *= options.service_factor_by_type.get(request.task_type, 1.0)
        draw = self._draw("service", request.request_id, request.purpose)
        if options.distribution == "exponential":
            return -mean_s * math.log1p(-draw)
        if options.distribution == "measured":
            shape = options.service_shape
            return mean_s * shape[int(draw * len(shape))] / self._shape_mean
        if options.distribution == "lognormal" and options.service_cv > 0:
            variance = math.log1p(options.service_cv**2)
            normal = NormalDist().inv_cdf(max(draw, 1e-12))
            return mean_s * math.exp(math.sqrt(variance) * normal - variance / 2)
        return mean_s

    def _text(self, request: Request) -> str:
        sampling = request.sampling
        constrained = bool(sampling.choices or sampling.json_schema) or request.purpose in {
            "action",
            "router",
            "check",
        }
        if constrained and self._draw("form", request.request_id) < self._options.unparseable_rate:
            return _UNPARSEABLE
        if request.purpose == "action":
            return self._action(request)
        if request.purpose == "router":
            return self._route(request)
        if request.purpose == "check":
            complete = self._draw("check", request.request_id) < self._options.complete_rate
            return self._allowed("complete" if complete else "incomplete", request)
        return self._content(request)

    def _content(self, request: Request) -> str:
        sampling = request.sampling
        if sampling.json_schema is not None:
            return json.dumps(self._instance(sampling.json_schema, request.request_id))
        if request.purpose in {"answer", "direct"}:
            return self._answer(request)
        if sampling.choices:
            return str(self._pick(sampling.choices, "choice", request.request_id))
        return f"{request.purpose or 'reply'} on {request.task_id or request.request_id}"

    def _action(self, request: Request) -> str:
        splits = self._draw("action", request.request_id) < self._options.split_rate
        action, part = ("split", f"a part of {request.task_id or 'the task'}") if splits else ("execute", "")
        if request.sampling.choices:
            return self._allowed(action, request)
        return json.dumps({"action": action, "part": part})

    def _route(self, request: Request) -> str:
        """A reply to AgentNet's router call, among what its schema allows."""
        schema = request.sampling.json_schema or {}
        receivers = schema.get("properties", {}).get("agent", {}).get("enum", [])
        draw = self._draw("route", request.request_id)
        action, part = "execute", ""
        if receivers and draw < self._options.forward_rate:
            action = "forward"
        elif draw > 1 - self._options.split_rate:
            action, part = "split", f"a part of {request.task_id or 'the task'}"
        reply: dict[str, Any] = {"action": action, "part": part}
        if receivers:
            reply["agent"] = self._pick(receivers, "receiver", request.request_id)
        return json.dumps(reply)

    def _answer(self, request: Request) -> str:
        key = request.task_id or request.request_id
        choices = request.sampling.choices
        right = self._options.answers.get(request.task_id)
        if right is None:
            right = str(self._pick(choices, "key", key)) if choices else f"answer to {key}"
        if self.succeeds(key, request.task_type):
            return self._allowed(right, request)
        if request.task_id in self._options.wrong:
            return self._allowed(self._options.wrong[request.task_id], request)
        others = [choice for choice in choices if choice != right]
        return str(self._pick(others, "wrong", key)) if others else self._allowed(f"not {right}", request)

    def _allowed(self, text: str, request: Request) -> str:
        choices = request.sampling.choices
        if choices and text not in choices:
            raise FinalServingError(
                f"simulated model {self._model}: the reply {text!r} to task {request.task_id!r} is not among "
                f"the choices {choices}: make the answer key and the task's choices agree"
            )
        return text

    def _instance(self, schema: Mapping[str, Any], key: str) -> Any:
        """The simplest value of a JSON schema; enumerations are drawn."""
        kind = "enum" if "enum" in schema else schema.get("type", "object")
        value: Any = None
        match kind:
            case "enum":
                value = self._pick(schema["enum"], "enum", key)
            case "object":
                properties = schema.get("properties", {})
                names = schema.get("required", properties)
                value = {name: self._instance(properties.get(name, {}), f"{key}.{name}") for name in names}
            case "array":
                value = [self._instance(schema.get("items", {}), key)] * int(schema.get("minItems", 0))
            case "integer" | "number":
                value = schema.get("minimum", 0)
            case "boolean":
                value = self._pick((False, True), "boolean", key)
            case "string":
                value = "x" * int(schema.get("minLength", 0))
        return value


class SimulatedBackend:
    """A `Backend` around a `SimulatedModel` that takes its service time on the event loop's clock."""

    def __init__(self, model: SimulatedModel) -> None:
        self._simulated = model
        self._in_flight = 0
        self._failures: Counter[str] = Counter()
        """Failed tries by request id, until one succeeds."""
        self._open = False

    async def start(self) -> None:
        self._open = True

    async def generate(self, request: Request) -> Completion:
        if not self._open:
            raise RetryableServingError("the simulated backend is not started, or is closed")
        began_s = time.monotonic()
        self._in_flight += 1
        try:
            reply = self._reply(request)
            await asyncio.sleep(reply.service_s)
        finally:
            self._in_flight -= 1
        return Completion(
            text=reply.text,
            usage=Usage(
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=max(1, approximate_tokens([{"role": "assistant", "content": reply.text}])),
            ),
            duration_s=time.monotonic() - began_s,
            dropped_demonstrations=reply.dropped_demonstrations,
        )

    async def healthy(self) -> bool:
        return self._open

    async def close(self) -> None:
        self._open = False

    def _reply(self, request: Request) -> VirtualReply:
        try:
            reply = self._simulated.reply(
                request, in_flight=self._in_flight, attempt=self._failures[request.request_id]
            )
        except RetryableServingError:
            self._failures[request.request_id] += 1
            raise
        self._failures.pop(request.request_id, None)
        return reply

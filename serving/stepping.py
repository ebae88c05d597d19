"""An engine that must be stepped, driven by one thread and awaited from any event loop. No engine is imported.

The thread builds the engine, steps it while there is work and sleeps otherwise. Whatever happens to it, every
caller is answered: a step that raises fails all who wait, and the engine counts as dead from then on.
"""

import asyncio
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from serving.errors import FinalServingError, RetryableServingError

_ENGINE_CODE = threading.Lock()
"""Engines of one process share global state (vLLM's forward context, its distributed groups): whatever runs
inside one keeps the others out. With one engine a process, as on Ray, nobody ever waits here."""
_YIELD_S = 1e-4
"""Between two steps, so that a thread that waits for the lock gets it; a step takes a hundred times longer."""

RESTART_S = 5.0
"""What a caller should wait for a new engine."""


class SteppableEngine(Protocol):
    """What vLLM's `LLMEngine` offers of itself."""

    def add_request(self, request_id: str, prompt: Any, params: Any) -> Any: ...

    def abort_request(self, request_ids: list[str]) -> None: ...

    def has_unfinished_requests(self) -> bool: ...

    def step(self) -> Iterable[Any]:
        """Progress since the last step, as objects that `EngineOutput.add` understands."""


@dataclass(slots=True)
class EngineOutput:
    """What an engine has said so far to one request; grows by deltas."""

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    first_token_at_s: float | None = None
    """Monotonic time."""
    finish_reason: str | None = None
    """None until finished."""

    def add(self, delta: Any) -> None:
        """Add one of vLLM's `RequestOutput`s, made with output kind DELTA."""
        (part,) = delta.outputs
        if part.token_ids and self.first_token_at_s is None:
            self.first_token_at_s = time.monotonic()
        self.text += part.text
        self.completion_tokens += len(part.token_ids)
        self.prompt_tokens = len(delta.prompt_token_ids or ()) or self.prompt_tokens
        self.cached_tokens = max(self.cached_tokens, delta.num_cached_tokens or 0)
        if delta.finished:
            self.finish_reason = part.finish_reason or "stop"


@dataclass(slots=True, eq=False)
class _Call:
    """One request on its way through the thread."""

    engine_id: str
    prompt: Any
    params: Any
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[EngineOutput]
    output: EngineOutput = field(default_factory=EngineOutput)


class SteppingThread:
    """Owns a `SteppableEngine` and the thread that steps it."""

    def __init__(
        self,
        name: str,
        build: Callable[[], SteppableEngine],
        release: Callable[[SteppableEngine], None],
    ) -> None:
        self._name = name
        self._build = build
        self._release = release
        self._numbers = itertools.count()
        self._wake = threading.Condition()
        self._arrived: deque[_Call] = deque()
        self._aborted: deque[_Call] = deque()
        self._stopping = False
        self._gone = ""
        """Why no call can be answered any more; empty while they can."""
        self._waiting: dict[str, _Call] = {}
        """By engine id; touched by the thread alone."""
        self._thread: threading.Thread | None = None

    async def start(self) -> SteppableEngine:
        """Build the engine in the thread. Raises whatever `build` raises."""
        loop = asyncio.get_running_loop()
        built: asyncio.Future[SteppableEngine] = loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(loop, built), name=f"engine {self._name}", daemon=True
        )
        self._thread.start()
        return await built

    async def run(self, request_id: str, prompt: Any, params: Any) -> EngineOutput:
        """The finished output. Cancelling aborts the request in the engine.

        Raises FinalServingError if the engine refuses the request, RetryableServingError if it dies or closes.
        """
        loop = asyncio.get_running_loop()
        call = _Call(
            engine_id=f"{request_id}#{next(self._numbers)}",  # the engine's ids must differ, a retry's need not
            prompt=prompt,
            params=params,
            loop=loop,
            answer=loop.create_future(),
        )
        with self._wake:
            if self._gone:
                raise RetryableServingError(self._gone, RESTART_S)
            self._arrived.append(call)
            self._wake.notify()
        try:
            return await call.answer
        except asyncio.CancelledError:
            with self._wake:
                self._aborted.append(call)
                self._wake.notify()
            raise

    def alive(self) -> bool:
        """Whether calls are being answered."""
        return self._thread is not None and self._thread.is_alive() and not self._gone

    async def close(self) -> None:
        """Stop after the current step, fail who still waits, free the engine. May be called twice."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _run(self, loop: asyncio.AbstractEventLoop, built: asyncio.Future[SteppableEngine]) -> None:
        try:
            with _ENGINE_CODE:
                engine = self._build()
        except BaseException as error:
            self._end(f"engine {self._name} did not start")
            _answer(loop, built, error)
            return
        why = f"engine {self._name} was closed"
        try:
            _answer(loop, built, engine)
            self._step_until_stopped(engine)
        except BaseException as error:
            why = f"engine {self._name} died ({type(error).__name__}: {error}): start the replica again"
        finally:
            self._end(why)
            with _ENGINE_CODE:
                self._release(engine)

    def _step_until_stopped(self, engine: SteppableEngine) -> None:
        while True:
            with self._wake:
                while not (self._stopping or self._arrived or self._aborted or self._waiting):
                    self._wake.wait()
                if self._stopping:
                    return
                arrived, aborted = list(self._arrived), list(self._aborted)
                self._arrived.clear()
                self._aborted.clear()
            with _ENGINE_CODE:
                for call in arrived:
                    self._admit(engine, call)
                gone = [call.engine_id for call in aborted if self._waiting.pop(call.engine_id, None)]
                if gone:
                    engine.abort_request(gone)
                if engine.has_unfinished_requests():
                    for delta in engine.step():
                        self._take(delta)
                elif self._waiting:
                    raise RuntimeError(f"the engine lost {len(self._waiting)} requests")
            time.sleep(_YIELD_S)

    def _admit(self, engine: SteppableEngine, call: _Call) -> None:
        try:
            engine.add_request(call.engine_id, call.prompt, call.params)
        except Exception as error:
            refusal = FinalServingError(
                f"engine {self._name} refuses the request ({type(error).__name__}: {error})"
            )
            _answer(call.loop, call.answer, refusal)
        else:
            self._waiting[call.engine_id] = call

    def _take(self, delta: Any) -> None:
        call = self._waiting.get(delta.request_id)
        if call is None:  # aborted meanwhile
            return
        call.output.add(delta)
        if call.output.finish_reason is not None:
            del self._waiting[call.engine_id]
            _answer(call.loop, call.answer, call.output)

    def _end(self, why: str) -> None:
        """Refuse what comes, fail what waits."""
        with self._wake:
            self._gone = why
            unanswered = [*self._waiting.values(), *self._arrived]
            self._waiting.clear()
            self._arrived.clear()
        for call in unanswered:
            _answer(call.loop, call.answer, RetryableServingError(why, RESTART_S))


def _answer(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any) -> None:
    """Resolve a future of another thread's loop; who gave up, or whose loop has ended, gets nothing."""

    def resolve() -> None:
        if future.done():
            return
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    try:
        loop.call_soon_threadsafe(resolve)
    except RuntimeError:  # the loop is closed, so nobody waits
        return

"""The thread around an engine, with an engine of paper: fast, and it can fail on demand."""

import asyncio
import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from serving.errors import FinalServingError, RetryableServingError
from serving.stepping import SteppingThread


@dataclass
class PaperEngine:
    """Gives each request as many one-letter tokens as its params say, one a step."""

    left: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    aborted: list[str] = field(default_factory=list)
    fails_at_step: int = -1
    loses_requests: bool = False
    threads: set[str] = field(default_factory=set)
    began: threading.Event = field(default_factory=threading.Event)
    aborts: threading.Event = field(default_factory=threading.Event)

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        if params < 1:
            raise ValueError("max_tokens must be at least 1")
        if not self.loses_requests:
            self.left[request_id] = params

    def abort_request(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self.aborted.append(request_id)
            self.left.pop(request_id, None)
        self.aborts.set()

    def has_unfinished_requests(self) -> bool:
        return bool(self.left)

    def step(self) -> list[Any]:
        self.steps += 1
        self.began.set()
        self.threads.add(threading.current_thread().name)
        if self.steps == self.fails_at_step:
            raise MemoryError("out of memory")
        time.sleep(0.001)
        deltas = []
        for request_id in list(self.left):
            self.left[request_id] -= 1
            finished = self.left[request_id] == 0
            if finished:
                del self.left[request_id]
            part = SimpleNamespace(text="x", token_ids=[1], finish_reason="length" if finished else None)
            deltas.append(
                SimpleNamespace(
                    request_id=request_id,
                    outputs=[part],
                    prompt_token_ids=[1, 2],
                    num_cached_tokens=1,
                    finished=finished,
                )
            )
        return deltas


def thread_of(engine: PaperEngine, released: list[Any] | None = None) -> SteppingThread:
    return SteppingThread("paper", lambda: engine, (released if released is not None else []).append)


def test_outputs_are_put_together_and_the_thread_sleeps_without_work() -> None:
    engine = PaperEngine()
    released: list[Any] = []

    async def scenario() -> None:
        thread = thread_of(engine, released)
        assert await thread.start() is engine
        outputs = await asyncio.gather(*(thread.run("same id", None, tokens) for tokens in (3, 5, 1)))
        assert [output.text for output in outputs] == ["xxx", "xxxxx", "x"]
        assert [output.completion_tokens for output in outputs] == [3, 5, 1]
        assert {(output.prompt_tokens, output.cached_tokens) for output in outputs} == {(2, 1)}
        steps = engine.steps
        await asyncio.sleep(0.1)
        assert engine.steps == steps
        assert thread.alive()
        await thread.close()
        await thread.close()
        assert not thread.alive()

    asyncio.run(scenario())
    assert engine.threads == {"engine paper"}
    assert released == [engine]


def test_calls_from_different_loops_are_answered() -> None:
    thread = thread_of(PaperEngine())
    asyncio.run(thread.start())
    assert asyncio.run(thread.run("a", None, 2)).text == "xx"
    assert asyncio.run(thread.run("b", None, 3)).text == "xxx"
    asyncio.run(thread.close())


def test_cancelling_reaches_the_engine_which_spends_no_more_steps() -> None:
    engine = PaperEngine()

    async def scenario() -> None:
        thread = thread_of(engine)
        await thread.start()
        pending = asyncio.create_task(thread.run("long", None, 1_000_000))
        assert await asyncio.to_thread(engine.began.wait, 5)
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        assert await asyncio.to_thread(engine.aborts.wait, 5)
        await asyncio.sleep(0.02)
        steps = engine.steps
        await asyncio.sleep(0.1)
        assert engine.steps == steps
        assert engine.left == {}
        await thread.close()

    asyncio.run(scenario())
    assert engine.aborted == ["long#0"]


def test_a_refused_request_harms_no_other() -> None:
    async def scenario() -> None:
        thread = thread_of(PaperEngine())
        await thread.start()
        good = asyncio.create_task(thread.run("good", None, 50))
        with pytest.raises(FinalServingError, match=r"paper refuses .*max_tokens must be at least 1"):
            await thread.run("bad", None, 0)
        assert (await good).completion_tokens == 50
        await thread.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("engine", [PaperEngine(fails_at_step=10), PaperEngine(loses_requests=True)])
def test_a_dead_engine_fails_all_who_wait_and_all_who_come(engine: PaperEngine) -> None:
    async def scenario() -> None:
        thread = thread_of(engine)
        await thread.start()
        outcomes = await asyncio.wait_for(
            asyncio.gather(*(thread.run("r", None, 1000) for _ in range(5)), return_exceptions=True), 10
        )
        assert all(isinstance(outcome, RetryableServingError) for outcome in outcomes), outcomes
        assert not thread.alive()
        with pytest.raises(RetryableServingError, match="paper died"):
            await asyncio.wait_for(thread.run("late", None, 1), 1)
        await thread.close()

    asyncio.run(scenario())


def test_closing_fails_who_waits() -> None:
    async def scenario() -> None:
        thread = thread_of(PaperEngine())
        await thread.start()
        pending = asyncio.create_task(thread.run("long", None, 1_000_000))
        await asyncio.sleep(0.02)
        await thread.close()
        with pytest.raises(RetryableServingError, match="closed"):
            await asyncio.wait_for(pending, 1)

    asyncio.run(scenario())


def test_a_failed_build_is_the_caller_s_error() -> None:
    def build() -> PaperEngine:
        raise OSError("no such model")

    async def scenario() -> None:
        thread = SteppingThread("paper", build, lambda engine: None)
        with pytest.raises(OSError, match="no such model"):
            await thread.start()
        assert not thread.alive()
        with pytest.raises(RetryableServingError, match="did not start"):
            await asyncio.wait_for(thread.run("r", None, 1), 1)
        await thread.close()

    asyncio.run(scenario())


def test_an_ended_loop_does_not_end_the_engine() -> None:
    engine = PaperEngine()
    thread = thread_of(engine)
    asyncio.run(thread.start())

    async def give_up() -> None:
        asyncio.create_task(thread.run("orphan", None, 200))  # noqa: RUF006 - dropped on purpose
        await asyncio.sleep(0.02)

    asyncio.run(give_up())
    assert asyncio.run(thread.run("next", None, 1)).text == "x"
    asyncio.run(thread.close())

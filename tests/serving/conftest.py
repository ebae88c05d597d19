"""A small server that speaks OpenAI's streaming chat API, with faults on demand."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

ACTION = {"action": "execute", "part": "all of it"}


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to one request instead of an answer."""

    status: int = 0
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    after_chunks: int = 0
    """With `then`: how many chunks of the answer come first."""
    then: str = ""
    """drop: the connection breaks. end: the stream ends without a finish reason. hang: nothing more comes.
    garbage: a line that is not JSON. error: an error event."""


class OpenAIServer:
    """Counts words as tokens. Runs on its own loop in a thread."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.authorizations: list[str] = []
        self.faults: deque[Fault] = deque()
        self.hanging = threading.Event()
        self.hung_up = threading.Event()
        """A client closed its stream while the server was hanging."""
        self.context_tokens: int | None = None
        self.tells_context = False
        self.sends_usage = True
        self.delay_s = 0.0
        self.in_flight = self.most_in_flight = 0
        self.port = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> "OpenAIServer":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._request(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        self.authorizations.append(headers.get("authorization", ""))
        if head.startswith("GET /v1/models "):
            model: dict[str, Any] = {"id": "m"}
            if self.tells_context:
                model["max_model_len"] = self.context_tokens
            self._plain(writer, 200, json.dumps({"data": [model]}), {})
            return
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.bodies.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self._complete(body, reader, writer)
        finally:
            self.in_flight -= 1

    async def _complete(
        self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        fault = self.faults.popleft() if self.faults else Fault()
        if fault.status:
            self._plain(writer, fault.status, fault.body, fault.headers)
            return
        prompt_tokens = sum(len(message["content"].split()) for message in body["messages"])
        if self.context_tokens is not None and prompt_tokens + body["max_tokens"] > self.context_tokens:
            said = f"This model's maximum context length is {self.context_tokens} tokens. However, ..."
            self._plain(writer, 400, json.dumps({"error": {"message": said, "code": 400}}), {})
            return
        await asyncio.sleep(self.delay_s)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        text = answer_to(body)
        chunks = [text[at : at + 4] for at in range(0, len(text), 4)]
        for number, chunk in enumerate(chunks):
            if fault.then and number == fault.after_chunks:
                await self._misbehave(fault, reader, writer)
                return
            event(writer, {"choices": [{"delta": {"content": chunk}, "finish_reason": None}]})
            await writer.drain()
        event(writer, {"choices": [{"delta": {}, "finish_reason": "stop"}]})
        if self.sends_usage and body.get("stream_options") == {"include_usage": True}:
            usage = {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": len(chunks),
                "prompt_tokens_details": {"cached_tokens": 1},
            }
            event(writer, {"choices": [], "usage": usage})
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()

    async def _misbehave(
        self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await writer.drain()
        if fault.then == "drop":
            writer.transport.abort()
        elif fault.then == "garbage":
            writer.write(b"data: {not json\n\n")
        elif fault.then == "error":
            event(writer, {"error": {"message": "the engine has gone", "code": 503}})
        elif fault.then == "hang":
            self.hanging.set()
            await reader.read()  # returns when the client closes the stream
            self.hung_up.set()

    @staticmethod
    def _plain(writer: asyncio.StreamWriter, status: int, body: str, headers: dict[str, str]) -> None:
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        size = len(body.encode())
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {size}\r\nConnection: close\r\n{extra}\r\n"
        writer.write((head + body).encode())


def event(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    writer.write(f"data: {json.dumps(value)}\n\n".encode())


def answer_to(body: dict[str, Any]) -> str:
    """The first of the choices, an action where there is a schema, else the end of the last message."""
    choices = body.get("structured_outputs", {}).get("choice") or body.get("guided_choice")
    if choices:
        return str(choices[0])
    if "response_format" in body:
        return json.dumps(ACTION)
    return "you said: " + str(body["messages"][-1]["content"])[-20:]


@pytest.fixture
def openai_server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def fault() -> type[Fault]:
    return Fault

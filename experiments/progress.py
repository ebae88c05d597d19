"""What a person sees while a run goes on: a live line on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from actors.metrics import QueueRecord, Stamped
from actors.task import AgentId
from experiments.record import Phase, Result

PLAIN_EVERY_S = 10.0


class Progress:
    """Counts what has ended and shows it."""

    def __init__(self, console: Console, agents: Sequence[str]) -> None:
        self._console = console
        self._agents = agents
        self._live = (
            Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        )
        self._phase: Phase = "warmup"
        self._total = self._finished = self._correct = self._forwards = self._splits = self._errors = 0
        self._started_s = self._shown_s = time.monotonic()
        self._load: dict[AgentId, int] = {}

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """One line that stays."""
        self._console.print(text, highlight=False)

    def begin(self, phase: Phase, *, total: int) -> None:
        self._phase, self._total = phase, total
        self._finished = self._correct = self._forwards = self._splits = self._errors = 0
        self._started_s = self._shown_s = time.monotonic()
        self.say(f"{phase}: {total} tasks")

    def add(self, results: Sequence[Result]) -> None:
        for result in results:
            task = result.finished.outcome.task
            self._finished += 1
            self._correct += result.correct
            self._errors += result.finished.outcome.error is not None
            self._forwards += task.forwards
            self._splits += task.splits
        self._show(last=self._finished >= self._total)

    def observe(self, events: Sequence[Stamped]) -> None:
        for stamped in events:
            if isinstance(stamped.record, QueueRecord):
                self._load[stamped.record.agent] = sum(stamped.record.waiting_T) + stamped.record.in_service
        self._show(last=False)

    def _show(self, *, last: bool) -> None:
        now_s = time.monotonic()
        if self._live is not None:
            self._live.update(Text(self._line(now_s)))
        if last or (self._live is None and now_s - self._shown_s >= PLAIN_EVERY_S):
            self._shown_s = now_s
            self.say(self._line(now_s, last=last))

    def _line(self, now_s: float, *, last: bool = False) -> str:
        minutes = max(now_s - self._started_s, 1e-9) / 60
        load = " ".join(f"{self._agents[agent]}:{count}" for agent, count in sorted(self._load.items())[:12])
        errors = f", {self._errors} ended with an error" if self._errors else ""
        return (
            f"{self._phase} {self._finished}/{self._total}: {self._correct} right{errors}, "
            f"{self._finished / minutes:.0f} tasks/min, their forwards {self._forwards}, splits {self._splits}"
            + ("" if last or not load else f"; waiting and in service {load}")
        )

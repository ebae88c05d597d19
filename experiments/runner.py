"""Runs a stream through a cluster: phases, verification, records, progress, resume."""

import asyncio
import time
from collections.abc import Sequence

from actors.cluster.api import Cluster, Finished, Verdict
from actors.errors import ClusterError
from actors.messages import SetPhase
from actors.metrics import Stamped
from experiments.admission import Admission
from experiments.datasets.graders import grade
from experiments.phases import PHASES, task_of, workers
from experiments.progress import Progress
from experiments.record import Phase, Result, RunFolder, StreamTask
from experiments.settings import RunSettings

DRAIN_S = 1.0
"""How often measurements are fetched; also how soon a dead agent is noticed."""
EVENTS_FLUSH_S = 5.0
"""Measurements reach the disk at least this often; a crash loses no more of them."""


class Runner:
    """One run over one cluster. Whatever is in the folder already is not done again."""

    def __init__(
        self, settings: RunSettings, folder: RunFolder, cluster: Cluster, progress: Progress
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._cluster = cluster
        self._progress = progress
        self._stream = folder.tasks()
        self._by_id = {task.row.task_id: task for task in self._stream}
        earlier = folder.results()
        self._done = {result.finished.outcome.task.task_id for result in earlier}
        self._events: list[Stamped] = []
        self._flushed_s = time.monotonic()
        self._admission = Admission(settings)
        for result in earlier:
            if not self._frozen(result.phase):
                self._admission.verdict(_verdict(result))
        self._free = asyncio.Semaphore()

    async def run(self) -> None:
        """All phases. Raises ClusterError where the cluster cannot go on; the folder can be resumed then."""
        watching = asyncio.create_task(self._watch())
        working = asyncio.create_task(self._phases())
        try:
            await asyncio.wait({watching, working}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                await watching  # it only ends by an error
            await working
        finally:
            for running in (watching, working):
                running.cancel()
            await asyncio.gather(watching, working, return_exceptions=True)
            self._flush_events()
        await self._drain()
        self._flush_events()
        if self._settings.record_logs:
            self._folder.add_logs(await self._cluster.snapshots())

    async def _phases(self) -> None:
        mechanism = self._settings.pool.settings.mechanism
        weights = {"warmup": mechanism.warmup_quality_weight, "test": mechanism.quality_weight}
        for phase in PHASES:
            left = [
                task for task in self._stream if task.phase == phase and task.row.task_id not in self._done
            ]
            if not left:
                continue
            await self._cluster.broadcast(
                SetPhase(
                    phase=phase,
                    quality_weight=weights[phase],
                    frozen=self._frozen(phase),
                    warmup=phase == "warmup",
                )
            )
            self._folder.mark(phase, "begin")
            await self._run_phase(phase, left)
            self._folder.mark(phase, "end")

    def _frozen(self, phase: Phase) -> bool:
        return phase == "test" and not self._settings.online

    async def _run_phase(self, phase: Phase, left: Sequence[StreamTask]) -> None:
        self._progress.begin(phase, total=len(left))
        feeding = asyncio.create_task(self._feed(left))
        missing = {task.row.task_id for task in left}
        last_news_s = time.monotonic()
        try:
            while missing:
                finished = await self._cluster.intake.collect(timeout_s=DRAIN_S)
                if feeding.done():
                    await feeding
                if finished:
                    last_news_s = time.monotonic()
                    await self._take_in(phase, finished)
                    missing -= {item.outcome.task.task_id for item in finished}
                elif feeding.done() and time.monotonic() - last_news_s > self._settings.stall_s:
                    raise ClusterError(await self._stalled(missing))
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _feed(self, left: Sequence[StreamTask]) -> None:
        """Submits each task at its time; what is due together goes together."""
        if self._settings.arrivals.kind == "closed":
            await self._feed_closed(left)
            return
        start_s = time.monotonic()
        first_s = left[0].arrival_s
        position = 0
        while position < len(left):
            now_s = time.monotonic() - start_s + first_s
            due = position
            while due < len(left) and left[due].arrival_s <= now_s:
                due += 1
            if due > position:
                await self._submit(left[position:due])
                position = due
            else:
                await asyncio.sleep(left[position].arrival_s - now_s)

    async def _feed_closed(self, left: Sequence[StreamTask]) -> None:
        """Each end lets the next task in."""
        self._free = asyncio.Semaphore(self._settings.arrivals.under_way)
        for task in left:
            await self._free.acquire()
            await self._submit([task])

    async def _submit(self, tasks: Sequence[StreamTask]) -> None:
        await self._cluster.intake.submit([(self._admission.agent(task), task_of(task)) for task in tasks])

    async def _take_in(self, phase: Phase, finished: Sequence[Finished]) -> None:
        """Grades, writes, and only then passes the verdicts on (warm-up verifies each task at once)."""
        results = [await self._graded(phase, item) for item in finished]
        self._folder.add_results(results)
        self._progress.add(results)
        verdicts = [_verdict(result) for result in results]
        await self._cluster.intake.credit(verdicts)
        for verdict in verdicts:
            if not self._frozen(phase):
                self._admission.verdict(verdict)
            self._free.release()

    async def _graded(self, phase: Phase, finished: Finished) -> Result:
        row = self._by_id[finished.outcome.task.task_id].row
        correct = await asyncio.to_thread(grade, row, finished.outcome.answer)
        return Result(phase=phase, correct=correct, expected=row.answer, finished=finished)

    async def _watch(self) -> None:
        """Fetches measurements until cancelled; a dead agent shows here, as a ClusterError."""
        while True:
            await asyncio.sleep(DRAIN_S)
            await self._drain()
            if time.monotonic() - self._flushed_s > EVENTS_FLUSH_S:
                self._flush_events()

    async def _drain(self) -> None:
        events = await self._cluster.drain()
        self._progress.observe(events)
        self._events += events

    def _flush_events(self) -> None:
        self._folder.add_events(self._events)
        self._events = []
        self._flushed_s = time.monotonic()

    async def _stalled(self, missing: set[str]) -> str:
        holding = {snapshot.agent: len(snapshot.holding) for snapshot in await self._cluster.snapshots()}
        names = self._settings.pool.agents
        where = ", ".join(f"{names[agent].name} holds {count}" for agent, count in holding.items())
        return (
            f"no task ended for {self._settings.stall_s:.0f} s and {len(missing)} are missing ({where}); "
            f"see the agents' logs, then go on with --resume {self._folder.run_id}"
        )


def _verdict(result: Result) -> Verdict:
    outcome = result.finished.outcome
    return Verdict(
        task_id=outcome.task.task_id,
        task_type=outcome.task.task_type,
        agents=workers(outcome),
        success=result.correct,
    )

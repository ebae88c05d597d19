from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from actors.metrics import (
    ArrivalRecord,
    CountRecord,
    DecisionRecord,
    ExecutionRecord,
    QueueRecord,
    Record,
)
from actors.task import AgentId, TaskId, TaskType
from experiments.stats import Proportion
from experiments.summary import summarise, summary_tables


def execution(agent: int, task: str, kind: Any = "executed", phase: str = "test", **work: int) -> Record:
    figures = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "calls": 4,
        "dropped_demonstrations": 1,
        "fallbacks": 0,
        "recall_skipped": 0,
    }
    return ExecutionRecord(
        agent=AgentId(agent),
        task_id=TaskId(task),
        task_type=TaskType("sums"),
        phase=phase,
        kind=kind,
        duration_s=1.0,
        execution_s=0.5,
        **(figures | work),
    )


def arrival(agent: int, task: str, how: Any, sender: str = "intake:0") -> Record:
    return ArrivalRecord(
        agent=AgentId(agent),
        task_id=TaskId(task),
        task_type=TaskType("sums"),
        phase="test",
        how=how,
        sender=sender,
    )


def decision(agent: int, task: str, chosen: int | None) -> Record:
    return DecisionRecord(
        agent=AgentId(agent),
        task_id=TaskId(task),
        task_type=TaskType("sums"),
        phase="test",
        chosen=None if chosen is None else AgentId(chosen),
        reason="best score above the margin",
        waiting=1,
        quality=0.5,
        candidates=(),
        hops=0,
        task_age_s=0.0,
    )


def load(agent: int, waiting_T: tuple[int, ...], in_service: int, phase: str = "test") -> Record:
    return QueueRecord(
        agent=AgentId(agent), phase=phase, waiting_T=waiting_T, in_service=in_service, quality_T=(0.5, 0.5)
    )


def printed(folder: Any) -> str:
    output = StringIO()
    console = Console(file=output, width=200)
    for table in summary_tables(summarise(folder)):
        console.print(table)
    return output.getvalue()


@pytest.fixture
def finished(runs: Any) -> Any:
    """One warm-up task, four test tasks of two types over two agents, one of them an error."""
    warm = runs.task("w", phase="warmup")
    sums = [runs.task("s1"), runs.task("s2"), runs.task("s3")]
    word = runs.task("v1", task_type="words")
    split, whole = runs.step(0, "split", part="p"), runs.step(1)
    results = [
        runs.result(warm, at_s=4, finisher=1, steps=[whole]),
        runs.result(sums[0], at_s=16, latency_s=2, finisher=1, forwards=1, steps=[split, whole]),
        runs.result(sums[1], at_s=22, latency_s=4, finisher=1, correct=False, steps=[whole]),
        runs.result(word, at_s=28, latency_s=6, finisher=0, forwards=2, steps=[runs.step(0)]),
        runs.result(sums[2], at_s=30, latency_s=90, finisher=0, correct=False, error="[/b] replica gone"),
    ]
    events = [
        (3.0, execution(1, "w", phase="warmup")),
        (10.0, arrival(0, "s1", "submitted")),
        (11.0, load(0, (2, 1), 3)),
        (12.0, execution(0, "s1", "split", prompt_tokens=70, fallbacks=1)),
        (12.1, arrival(0, "s1", "split", "agent:0")),
        (12.2, decision(0, "s1", 1)),
        (12.3, arrival(0, "s1", "returned", "agent:1")),  # that hand-over did not arrive
        (12.4, decision(0, "s1", 1)),
        (12.5, arrival(1, "s1", "forwarded", "agent:0")),
        (16.0, execution(1, "s1", recall_skipped=2)),
        (17.0, load(0, (0, 0), 1)),
        (22.0, execution(1, "s2")),
        (28.0, execution(0, "v1")),
        (29.0, CountRecord(agent=AgentId(0), phase="test", what="duplicate message")),
        (29.5, CountRecord(agent=AgentId(0), phase="", what="message not delivered")),
        (2.5, CountRecord(agent=AgentId(0), phase="", what="message not delivered")),
    ]
    marks = [("warmup", "begin", 1), ("warmup", "end", 5), ("test", "begin", 10), ("test", "end", 34)]
    return runs.folder(
        "whole",
        [warm, *sums, word],
        machine={"dataset_label": "sums and words"},
        results=results,
        events=events,
        marks=marks,
    )


def test_a_finished_run_in_figures(finished: Any) -> None:
    summary = summarise(finished)
    assert [phase.phase for phase in summary.phases] == ["warmup", "test"]
    assert summary.complete
    assert not summary.simulated
    assert summary.notes == ()
    assert summary.data_set == "sums and words"
    assert summary.backends == (("vllm_engine little-model", 2),)
    test = summary.test
    assert (test.tasks, test.finished, test.answered, test.errors) == (4, 4, 3, 1)
    assert test.error_messages == (("[/b] replica gone", 1),)
    assert test.accuracy == Proportion(successes=2, total=4)
    assert test.types_T == ("sums", "words")
    assert test.accuracy_T == (Proportion(successes=1, total=3), Proportion(successes=1, total=1))
    assert test.answers_AT == ((0, 1), (2, 0))
    assert [agent.accuracy for agent in test.agents_A] == [
        Proportion(successes=1, total=2),
        Proportion(successes=1, total=2),
    ]
    assert test.throughput_per_min == pytest.approx(60 * 3 / 24)
    assert test.latency_median_s == 4
    assert test.latency_p95_s == pytest.approx(5.8)
    assert (test.forwards, test.tasks_forwarded, test.splits) == (3, 2, 1)
    assert test.tasks_by_forwards == ((0, 2), (1, 1), (2, 1))
    assert test.counts == {"duplicate message": 1, "message not delivered": 1}
    assert summary.phases[0].counts == {"message not delivered": 1}
    assert test.finished_at_s == (6, 12, 18)


def test_work_is_counted_where_it_was_done(finished: Any) -> None:
    first, second = summarise(finished).test.agents_A
    assert (first.executed, first.splits, first.failed) == (1, 1, 0)
    assert (first.forwards_sent, first.forwards_received) == (1, 0)
    assert (second.forwards_sent, second.forwards_received) == (0, 1)
    assert (first.prompt_tokens, first.completion_tokens, first.calls) == (170, 20, 8)
    assert (first.fallbacks, second.recall_skipped, second.dropped_demonstrations) == (1, 2, 2)
    assert first.queue.at_s_P == pytest.approx((1.0, 7.0))
    assert (first.queue.waiting_P, first.queue.in_service_P) == ((3, 0), (3, 1))
    warmup = summarise(finished).phases[0]
    assert warmup.total("prompt_tokens") == 100


def test_tables_show_the_figures_and_take_nothing_for_markup(finished: Any) -> None:
    text = printed(finished)
    assert "[/b] replica gone" in text
    assert "50.0 % [15.0, 85.0]" in text  # Wilson of 2 of 4
    assert "2 (100 %)" in text
    assert "duplicate message" in text


def test_a_resumed_run_counts_its_active_segments_only(runs: Any) -> None:
    tasks = [runs.task(f"t{i}") for i in range(3)]
    results = [runs.result(task, at_s=at_s) for task, at_s in zip(tasks, (4, 1006, 1008), strict=True)]
    marks = [("test", "begin", 0), ("test", "begin", 1000), ("test", "end", 1010)]
    summary = summarise(
        runs.folder("resumed", tasks, results=results, marks=marks, events=[(1003.0, load(0, (1,), 0))])
    )
    assert [segment.length_s for segment in summary.test.time.segments] == [4, 10]
    assert summary.test.throughput_per_min == pytest.approx(60 * 3 / 14)
    assert summary.test.finished_at_s == pytest.approx((4.0, 10.0, 12.0))
    assert summary.test.agents_A[0].queue.at_s_P == pytest.approx((7.0,))
    assert any("interrupted" in note for note in summary.notes)


def test_an_unfinished_run_with_a_torn_last_line_says_so(runs: Any) -> None:
    tasks = [runs.task(f"t{i}") for i in range(3)]
    folder = runs.folder("torn", tasks, results=[runs.result(tasks[0], at_s=5)], marks=[("test", "begin", 0)])
    with (folder.path / "results.jsonl").open("ab") as file:
        file.write(b'{"phase":"test","correct":tr')
    summary = summarise(folder)
    assert (summary.test.finished, summary.complete) == (1, False)
    assert summary.test.throughput_per_min == pytest.approx(12)
    assert any("1 of 3 test tasks" in note for note in summary.notes)
    assert "unfinished" in printed(folder)


def test_a_run_that_has_only_begun_has_no_figures_yet(runs: Any) -> None:
    summary = summarise(runs.folder("begun", [runs.task("t")]))
    assert summary.test.throughput_per_min is None
    assert summary.test.accuracy.value is None
    assert printed(runs.folder("begun-too", [runs.task("t")]))


def test_lost_measurements_are_pointed_out(runs: Any) -> None:
    task = runs.task("t")
    results = [runs.result(task, steps=[runs.step(0, "split"), runs.step(0)])]
    summary = summarise(runs.folder("lost", [task], results=results, events=[(1.0, execution(0, "t"))]))
    assert any("1 step(s)" in note for note in summary.notes)


def test_a_simulated_backend_is_never_passed_over(runs: Any) -> None:
    task = runs.task("t")
    folder = runs.folder("sim", [task], settings=runs.settings(kind="simulated"), results=[runs.result(task)])
    summary = summarise(folder)
    assert summary.simulated
    assert "no model answered" in summary.backend_label
    assert "no model answered" in printed(folder).replace("\n", " ")


def test_many_agents_share_a_column(runs: Any) -> None:
    task = runs.task("t")
    folder = runs.folder(
        "many", [task], settings=runs.settings(agents=50), results=[runs.result(task, finisher=49)]
    )
    text = printed(folder)
    assert "42 others" in text
    assert "a49" in text

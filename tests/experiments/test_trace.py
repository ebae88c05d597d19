from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from actors.errors import SettingsError
from actors.metrics import ArrivalRecord, Candidate, DecisionRecord, ExecutionRecord, Record
from actors.task import AgentId, CallRecord, TaskId, TaskType
from experiments.trace import find_task, trace


def arrival(agent: int, how: Any, sender: str = "intake:0") -> Record:
    return ArrivalRecord(
        agent=AgentId(agent),
        task_id=TaskId("bbh/films/7"),
        task_type=TaskType("films"),
        phase="test",
        how=how,
        sender=sender,
    )


def decision(
    agent: int, chosen: int | None, waiting: int, quality: float, *candidates: Candidate, hops: int = 0
) -> Record:
    return DecisionRecord(
        agent=AgentId(agent),
        task_id=TaskId("bbh/films/7"),
        task_type=TaskType("films"),
        phase="test",
        chosen=None if chosen is None else AgentId(chosen),
        reason="no score above the margin" if chosen is None else "best score above the margin",
        waiting=waiting,
        quality=quality,
        candidates=candidates,
        hops=hops,
        task_age_s=0.0,
    )


def candidate(agent: int, score: float, waiting: int, quality: float, age_s: float | None) -> Candidate:
    return Candidate(agent=AgentId(agent), score=score, waiting=waiting, quality=quality, age_s=age_s)


def execution(agent: int, kind: Any) -> Record:
    return ExecutionRecord(
        agent=AgentId(agent),
        task_id=TaskId("bbh/films/7"),
        task_type=TaskType("films"),
        phase="test",
        kind=kind,
        duration_s=2.0,
        execution_s=1.25,
        prompt_tokens=300,
        completion_tokens=40,
        calls=2,
        dropped_demonstrations=0,
        fallbacks=0,
        recall_skipped=0,
    )


def call(purpose: str, text: str, fallback: str = "") -> CallRecord:
    return CallRecord(
        purpose=purpose,
        prompt_tokens=150,
        completion_tokens=20,
        duration_s=1.0,
        text=text,
        fallback=fallback,
    )


LIFE: list[tuple[float, Record]] = [
    (10.0, arrival(1, "submitted")),
    (11.0, decision(1, None, 1, 0.5, candidate(0, -1.0, 2, 0.5, 0.25), candidate(2, 0.6, 4, 0.68, None))),
    (13.0, execution(1, "split")),
    (13.0, arrival(1, "split", "agent:1")),
    (13.5, decision(1, 2, 3, 0.5, candidate(0, 0.0, 3, 0.5, 0.031), candidate(2, 5.6, 1, 0.68, 0.0421))),
    (13.6, arrival(2, "forwarded", "agent:1")),
    (14.0, decision(2, None, 1, 0.68, candidate(0, -3.6, 1, 0.5, 0.009), hops=1)),
    (16.0, execution(2, "executed")),
]
"""The paper's case study: in at a1, split there, the rest forwarded to a2, which answers."""


@pytest.fixture
def films(runs: Any) -> Any:
    return runs.task(
        "bbh/films/7",
        task_type="films",
        ingress=1,
        problem="Find a movie similar to [a] Batman, The Mask " + "and so on " * 200,
        answer="(A)",
    )


@pytest.fixture
def steps(runs: Any) -> list[Any]:
    first = runs.step(
        1,
        "split",
        part="describe the films",
        result="[bold]gloomy[/bold] heroes",
        calls=[call("part", "gloomy heroes"), call("check", "incomplete")],
    )
    second = runs.step(
        2,
        calls=[call("action", "hm", "unparseable action: execute"), call("answer", "(A)")],
        recalled=(("bbh/films/3:0", 0.9134),),
    )
    return [first, second]


def printed(renderable: RenderableType) -> str:
    output = StringIO()
    Console(file=output, width=170).print(renderable)
    return output.getvalue()


def in_order(text: str, *parts: str) -> None:
    """Asserts that the parts follow one another; how far apart words stand is no matter."""
    text, at = " ".join(text.split()), 0
    for part in (" ".join(part.split()) for part in parts):
        found = text.find(part, at)
        assert found >= 0, f"{part!r} is missing after {text[max(0, at - 200) : at]!r}"
        at = found + len(part)


def test_a_life_is_told_in_order_with_scores_and_ages(runs: Any, films: Any, steps: list[Any]) -> None:
    result = runs.result(films, at_s=16.1, latency_s=6.2, finisher=2, forwards=1, answer="(A)", steps=steps)
    folder = runs.folder(
        "case", [films, runs.task("other")], settings=runs.settings(agents=3), results=[result], events=LIFE
    )
    text = printed(trace(folder, "bbh/films/7"))
    in_order(
        text,
        "task bbh/films/7",
        "V = 20",
        "similar to [a] Batman",
        "characters …",
        "expected answer: (A)",
        "+0.000 s  a1 receives the task",
        "+1.000 s  a1 decides: own backlog 1",
        "250 ms │ (1 - 2) + 20 × (0.500 - 0.500) │ -1.00",
        "never heard │ (1 - 4) + 20 × (0.680 - 0.500) │  0.60",
        "a1 keeps it: no score above the margin (best score 0.60, margin 1)",
        "a1 splits off a part: 2 calls, 300 + 40 tokens, 2.000 s (local execution 1.250 s)",
        "part: 150 + 20 tokens",
        "check: 150 + 20 tokens",
        "part done here: describe the films",
        "partial result: [bold]gloomy[/bold] heroes",
        "the check says incomplete",
        "a1 puts the unfinished rest back",
        "42 ms │ (3 - 1) + 20 × (0.680 - 0.500) │  5.60 │ chosen",
        "a1 forwards it to a2: best score above the margin (best score 5.60, margin 1)",
        "+3.600 s  a2 receives it from a1",
        "a1 handed it over and is left out",
        "demonstrations: bbh/films/3:0 (score 0.913)",
        "not used as it stands: unparseable action: execute",
        "a2 answers: (A)  (correct; expected (A))",
        "1 forward, 1 split",
        # 1 + 0.5 + 0.4 waiting; 2 + 2 executing; 0.1 on the way; the rest of 6.2
        "waiting in queues 1.900 s, executing 4.000 s, handing over 0.100 s, submission and report 0.200 s",
    )


def test_an_unfinished_task_is_told_as_far_as_it_came(runs: Any, films: Any) -> None:
    folder = runs.folder("going", [films], settings=runs.settings(agents=3), events=LIFE[:6])
    text = printed(trace(folder, "bbh"))
    in_order(text, "a1 splits off a part", "a2 receives it", "not finished; last seen waiting at a2, 3.600 s")
    idle = printed(trace(runs.folder("idle", [films]), "bbh"))
    assert "no agent has recorded its arrival" in idle


def test_a_resumed_task_keeps_its_attempts_apart(runs: Any, films: Any, steps: list[Any]) -> None:
    again = [(at_s + 100, record) for at_s, record in LIFE]
    result = runs.result(films, at_s=116.1, latency_s=6.2, finisher=2, forwards=1, steps=steps)
    folder = runs.folder(
        "resumed",
        [films],
        settings=runs.settings(agents=3),
        results=[result],
        events=[*LIFE[:3], *again],
    )
    text = printed(trace(folder, "bbh"))
    in_order(text, "earlier attempt", "a1 splits off a part", "submitted again", "part done here")
    assert text.count("part done here") == 1  # what the interrupted attempt said was never reported
    assert "waiting in queues 1.900 s" in text


def test_steps_without_measurements_and_errors_are_told_too(runs: Any, films: Any) -> None:
    failed = runs.step(0, "failed", result="replica [gone]")
    result = runs.result(films, finisher=0, correct=False, error="replica [gone]", steps=[failed])
    text = printed(trace(runs.folder("failed", [films], results=[result]), "bbh"))
    in_order(
        text, "a0 worked on it (its measurements were lost)", "a0 ended it with an error: replica [gone]"
    )


def test_another_policy_shows_its_score_without_the_papers_formula(runs: Any, films: Any) -> None:
    settings = runs.settings(agents=3)
    values = settings.model_dump()
    values["pool"]["settings"]["mechanism"]["policy"] = "drain_time"
    other = type(settings).model_validate(values)
    text = printed(trace(runs.folder("policy", [films], settings=other, events=LIFE), "bbh"))
    assert "drain_time" in text
    assert "× (" not in text
    assert "5.60" in text


def test_a_task_is_found_by_a_unique_beginning(runs: Any) -> None:
    tasks = [runs.task(name) for name in ("sums/1", "sums/12", "words/1")]
    assert find_task(tasks, "sums/1").row.task_id == "sums/1"
    assert find_task(tasks, "w").row.task_id == "words/1"
    with pytest.raises(SettingsError, match=r"2 tasks begin with 'sum'.*sums/1, sums/12"):
        find_task(tasks, "sum")
    with pytest.raises(SettingsError, match=r"near: .*words/1"):
        find_task(tasks, "word/1")
    with pytest.raises(SettingsError, match=r"for example: sums/1"):
        find_task(tasks, "???")

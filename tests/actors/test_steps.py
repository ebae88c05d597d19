"""The step machines: which moves they make, and what they do with the replies."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from actors.config import ExecutorSettings
from actors.steps.agentnet import agentnet
from actors.steps.deliberate import deliberate
from actors.steps.direct import direct
from actors.steps.log import LOCAL_EXECUTION
from actors.steps.machines import STEP_MACHINES
from actors.steps.moves import Generate, Recall, Recollection, StepMachine, StepResult
from actors.task import ProgressPart, Task
from retrieval.api import Recalled, Trajectory
from serving.api import Completion, Usage
from tests.actors.samples import agent, make_task

DURATIONS_S = {
    "action": 1.0,
    "thought": 2.0,
    "execute": 4.0,
    "answer": 8.0,
    "part": 16.0,
    "check": 32.0,
    "direct": 64.0,
}
EXECUTE = json.dumps({"action": "execute", "part": ""})
SPLIT = json.dumps({"action": "split", "part": "describe the films"})


@dataclass
class Trace:
    """The moves of a step and its result."""

    calls: list[Generate] = field(default_factory=list)
    recalls: list[str] = field(default_factory=list)
    result: StepResult | None = None

    @property
    def purposes(self) -> list[str]:
        return [call.purpose for call in self.calls]

    def call(self, purpose: str) -> Generate:
        (call,) = (call for call in self.calls if call.purpose == purpose)
        return call

    def text(self, purpose: str) -> str:
        """Everything the model reads in this call."""
        prompt = self.call(purpose).prompt
        return "\n".join((prompt.system, prompt.head, *(d.text for d in prompt.demonstrations), prompt.tail))

    def end(self) -> StepResult:
        assert self.result is not None
        return self.result


def shown(name: str) -> Recalled:
    trajectory = Trajectory(
        trajectory_id=name, task_type="a", key_text="k", text=f"shown {name}", duration_s=1.0
    )
    return Recalled(trajectory=trajectory, score=0.9)


def run(
    machine: StepMachine,
    task: Task,
    texts: dict[str, str],
    *,
    settings: ExecutorSettings | None = None,
    recall: Callable[[str], Recollection] = lambda key: Recollection(),
) -> Trace:
    trace = Trace()
    step = machine(task, agent(0), settings if settings is not None else ExecutorSettings(), None)
    try:
        move = next(step)
        while True:
            if isinstance(move, Recall):
                trace.recalls.append(move.key_text)
                move = step.send(recall(move.key_text))
            else:
                trace.calls.append(move)
                move = step.send(
                    Completion(
                        text=texts.get(move.purpose, f"<{move.purpose}>"),
                        usage=Usage(prompt_tokens=10, completion_tokens=3),
                        duration_s=DURATIONS_S[move.purpose],
                        dropped_demonstrations=1,
                    )
                )
    except StopIteration as stop:
        trace.result = stop.value
    return trace


TASK = make_task("t", answer_format="One letter.", choices=("A", "B"))


def test_executing_takes_exactly_four_calls() -> None:
    trace = run(deliberate, TASK, {"action": EXECUTE, "answer": " A "})
    assert trace.purposes == ["action", "thought", "execute", "answer"]
    assert trace.end().answer == "A"
    assert trace.end().record.kind == "executed"
    assert trace.end().record.part == ""


def test_a_split_takes_exactly_four_calls() -> None:
    trace = run(deliberate, TASK, {"action": SPLIT, "part": "three heist films", "check": "incomplete"})
    assert trace.purposes == ["action", "thought", "part", "check"]
    end = trace.end()
    assert end.answer is None
    assert (end.record.kind, end.record.part, end.record.result) == (
        "split",
        "describe the films",
        "three heist films",
    )


def test_a_split_that_completes_the_task_is_its_answer() -> None:
    trace = run(deliberate, TASK, {"action": SPLIT, "part": "A", "check": "complete"})
    assert trace.end().answer == "A"
    assert trace.end().record.kind == "executed"
    assert [call.purpose for call in trace.end().record.calls] == trace.purposes


@pytest.mark.parametrize("action", [EXECUTE, SPLIT])
def test_execution_time_leaves_out_action_thought_and_check(action: str) -> None:
    record = run(deliberate, TASK, {"action": action}).end().record
    assert record.execution_s == (12.0 if action == EXECUTE else 16.0)
    assert record.duration_s == (15.0 if action == EXECUTE else 51.0)
    assert frozenset(DURATIONS_S) - LOCAL_EXECUTION == {"action", "thought", "check"}


def test_the_second_retrieval_is_keyed_by_the_thought() -> None:
    trace = run(deliberate, TASK, {"action": EXECUTE, "thought": "compare the genres"})
    assert trace.recalls == ["problem of t", "compare the genres"]


def test_the_first_retrieval_is_keyed_by_problem_progress_and_part() -> None:
    task = make_task("t", progress=(ProgressPart(agent=agent(1), part="first part", result="its result"),))
    trace = run(deliberate, task, {"action": SPLIT, "check": "incomplete"})
    assert trace.recalls[0] == "problem of t\n- first part: its result\ndescribe the films"
    assert trace.end().record.key_text == trace.recalls[0]


def recall_by_key(key: str) -> Recollection:
    return Recollection(found=(shown("second"),) if key == "<thought>" else (shown("first"), shown("both")))


def test_demonstrations_of_the_first_retrieval_go_to_the_thought_and_of_the_second_to_the_work() -> None:
    trace = run(deliberate, TASK, {"action": EXECUTE}, recall=recall_by_key)
    texts = {call.purpose: [d.text for d in call.prompt.demonstrations] for call in trace.calls}
    assert texts == {
        "action": [],
        "thought": ["shown first", "shown both"],
        "execute": ["shown second"],
        "answer": ["shown second"],
    }
    assert dict(trace.end().record.recalled) == {"first": 0.9, "both": 0.9, "second": 0.9}


def test_skipped_retrievals_are_counted() -> None:
    trace = run(deliberate, TASK, {"action": EXECUTE}, recall=lambda key: Recollection(skipped=True))
    assert trace.end().record.recall_skipped == 2


def test_prompts_contain_what_they_must() -> None:
    part = ProgressPart(agent=agent(1), part="the first film", result="it is a heist")
    task = make_task("t", answer_format="One letter.", progress=(part,))
    executing = run(deliberate, task, {"action": EXECUTE, "thought": "PLAN", "execute": "REASONING"})
    splitting = run(deliberate, task, {"action": SPLIT, "thought": "PLAN", "part": "PARTIAL"})
    for trace in (executing, splitting):
        for call in trace.calls:
            text = trace.text(call.purpose)
            assert "problem of t" in text
            assert "the first film: it is a heist" in text
    assert "execute" in executing.text("action")
    assert "split" in executing.text("action")
    assert "PLAN" in executing.text("execute")
    assert "REASONING" in executing.text("answer")
    assert "One letter." in executing.text("answer")
    assert "describe the films" in splitting.text("thought")
    assert all(words in splitting.text("part") for words in ("PLAN", "describe the films", "One letter."))
    assert all(words in splitting.text("check") for words in ("describe the films", "PARTIAL", "complete"))


def test_all_calls_of_a_step_share_their_head() -> None:
    """What an engine's prefix cache can keep."""
    heads = {(c.prompt.system, c.prompt.head) for c in run(deliberate, TASK, {"action": SPLIT}).calls}
    assert len(heads) == 1


def test_braces_in_a_problem_or_reply_are_plain_text() -> None:
    trace = run(deliberate, make_task("{t}"), {"action": EXECUTE, "thought": "{plan}", "execute": "{0}"})
    assert "{plan}" in trace.text("execute")
    assert "{0}" in trace.text("answer")


def test_sampling_follows_the_settings_and_closed_answers_are_constrained() -> None:
    settings = ExecutorSettings(max_tokens=7, temperature=0.5, seed=3)
    trace = run(deliberate, TASK, {"action": EXECUTE}, settings=settings)
    assert {(c.sampling.max_tokens, c.sampling.temperature, c.sampling.seed) for c in trace.calls} == {
        (7, 0.5, 3)
    }
    assert trace.call("answer").sampling.choices == ("A", "B")
    assert trace.call("action").sampling.json_schema is not None
    assert trace.call("thought").sampling.choices == ()
    split = run(deliberate, TASK, {"action": SPLIT})
    assert split.call("check").sampling.choices == ("complete", "incomplete")


def fallbacks(trace: Trace) -> list[tuple[str, str]]:
    return [(call.purpose, call.fallback) for call in trace.end().record.calls if call.fallback]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I shall execute.", "unparseable action: execute"),
        ("", "unparseable action: execute"),
        ("[1, 2]", "unparseable action: execute"),
        ('"split"', "unparseable action: execute"),
        ("{}", "unparseable action: execute"),
        ('{"action": "split", "part": 7}', "unparseable action: execute"),
        ("[" * 100_000, "unparseable action: execute"),
        ("9" * 5_000, "unparseable action: execute"),
        ('{"action": "split", "part": "  "}', "split without a part: execute"),
        ('{"action": "split", "part": null}', "split without a part: execute"),
        ('{"action": "split"}', "split without a part: execute"),
        ('{"action": "ponder", "part": "x"}', "unknown action: execute"),
    ],
)
def test_an_action_that_cannot_be_used_means_execute_and_is_counted(text: str, why: str) -> None:
    trace = run(deliberate, TASK, {"action": text})
    assert trace.purposes == ["action", "thought", "execute", "answer"]
    assert fallbacks(trace) == [("action", why)]


def test_an_action_that_can_be_used_is_no_fallback() -> None:
    assert fallbacks(run(deliberate, TASK, {"action": EXECUTE})) == []
    assert fallbacks(run(deliberate, TASK, {"action": '{"action": "execute"}'})) == []
    assert fallbacks(run(deliberate, TASK, {"action": SPLIT, "check": "incomplete"})) == []


def test_a_check_that_cannot_be_read_means_complete_and_is_counted() -> None:
    trace = run(deliberate, TASK, {"action": SPLIT, "part": "A", "check": "who knows"})
    assert trace.end().answer == "A"
    assert fallbacks(trace) == [("check", "unparseable check: complete")]
    assert run(deliberate, TASK, {"action": SPLIT, "check": "Incomplete."}).end().answer is None


def parts(count: int) -> tuple[ProgressPart, ...]:
    return tuple(ProgressPart(agent=agent(0), part=f"p{n}", result="r") for n in range(count))


def test_the_sixth_part_is_not_split_off() -> None:
    """Where nothing may be split off any more, nothing is asked: three calls."""
    assert run(deliberate, make_task("t", progress=parts(4)), {"action": SPLIT}).purposes[2] == "part"
    trace = run(deliberate, make_task("t", progress=parts(5)), {"action": SPLIT})
    assert trace.purposes == ["thought", "execute", "answer"]


def test_call_records_keep_measurements_and_text() -> None:
    record = run(deliberate, TASK, {"action": EXECUTE, "answer": " A "}).end().record
    assert [call.prompt_tokens for call in record.calls] == [10] * 4
    assert [call.completion_tokens for call in record.calls] == [3] * 4
    assert [call.dropped_demonstrations for call in record.calls] == [1] * 4
    assert record.calls[-1].text == " A "


def test_what_a_later_prompt_shows_holds_problem_reasoning_and_answer() -> None:
    record = run(deliberate, TASK, {"action": EXECUTE, "execute": "because", "answer": "A"}).end().record
    assert all(words in record.demonstration for words in ("problem of t", "because", "Answer: A"))


def test_direct_takes_one_call_and_one_retrieval() -> None:
    found: Sequence[Recalled] = (shown("x"),)
    trace = run(direct, TASK, {"direct": "B"}, recall=lambda key: Recollection(found=tuple(found)))
    assert trace.purposes == ["direct"]
    assert trace.recalls == ["problem of t"]
    assert trace.end().answer == "B"
    assert all(words in trace.text("direct") for words in ("problem of t", "One letter.", "shown x"))
    assert trace.end().record.execution_s == 64.0
    assert trace.call("direct").sampling.choices == ("A", "B")


def test_the_machines_are_registered() -> None:
    assert dict(STEP_MACHINES) == {"deliberate": deliberate, "direct": direct, "agentnet": agentnet}

import asyncio
import json
import time
from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError

from serving.api import Completion, Prompt, Request, Sampling
from serving.errors import FinalServingError, RetryableServingError
from serving.simulated import SimulatedBackend, SimulatedModel, SimulatedOptions

PROMPT = Prompt(system="s", head="h", tail="t")
TASKS = [f"task-{index}" for index in range(400)]


def ask(task_id: str, *, purpose: str = "answer", **sampling: Any) -> Request:
    return Request(
        request_id=f"{task_id}/{purpose}",
        prompt=PROMPT,
        sampling=Sampling(**sampling),
        task_id=task_id,
        task_type="sums",
        purpose=purpose,
    )


def simulated(model: str = "m", **options: Any) -> SimulatedModel:
    return SimulatedModel(model, SimulatedOptions(**options))


def right_share(model: SimulatedModel) -> float:
    return sum(model.reply(ask(task)).text == "42" for task in TASKS) / len(TASKS)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_share_of_right_answers_is_the_rate(rate: float) -> None:
    model = simulated(success_rate=rate, answers=dict.fromkeys(TASKS, "42"))
    assert right_share(model) == pytest.approx(rate, abs=0 if rate in {0.0, 1.0} else 0.07)


def test_a_rate_by_task_type_takes_precedence() -> None:
    answers = dict.fromkeys(TASKS, "42")
    assert right_share(simulated(success_rate=1.0, success_rate_by_type={"sums": 0.0}, answers=answers)) == 0
    assert right_share(simulated(success_rate=0.0, success_rate_by_type={"other": 1.0}, answers=answers)) == 0


def test_success_depends_on_seed_model_and_task_alone() -> None:
    def verdicts(model: SimulatedModel) -> list[bool]:
        return [model.succeeds(task, "sums") for task in TASKS]

    first = verdicts(simulated(success_rate=0.5))
    assert verdicts(simulated(success_rate=0.5)) == first
    assert (
        list(reversed([simulated(success_rate=0.5).succeeds(task, "") for task in reversed(TASKS)])) == first
    )
    assert verdicts(simulated(success_rate=0.5, seed=2)) != first
    assert verdicts(simulated("other", success_rate=0.5)) != first
    agreement = sum(
        a == b for a, b in zip(first, verdicts(simulated("other", success_rate=0.5)), strict=True)
    )
    assert agreement / len(TASKS) == pytest.approx(0.5, abs=0.08)  # independent models, not opposite ones


def test_a_higher_rate_solves_all_that_a_lower_one_solves() -> None:
    low, high = simulated(success_rate=0.3), simulated(success_rate=0.6)
    assert all(high.succeeds(task, "") for task in TASKS if low.succeeds(task, ""))


def test_a_wrong_answer_is_another_choice_or_the_given_one() -> None:
    model = simulated(success_rate=0.0, answers={"a": "B", "b": "B"}, wrong={"b": "C"})
    assert model.reply(ask("a", choices=("A", "B"))).text == "A"
    assert model.reply(ask("b", choices=("A", "B", "C"))).text == "C"
    assert model.reply(ask("b")).text == "C"
    assert model.reply(ask("a")).text not in {"", "B"}


def test_an_answer_key_that_contradicts_the_choices_is_an_error() -> None:
    with pytest.raises(FinalServingError, match=r"'\(B\)' to task 'a' is not among .*'A', 'B'"):
        simulated(answers={"a": "(B)"}).reply(ask("a", choices=("A", "B")))


def test_split_and_complete_rates() -> None:
    schema = {"type": "object"}
    model = simulated(split_rate=0.25, complete_rate=0.75)
    actions = [
        json.loads(model.reply(ask(task, purpose="action", json_schema=schema)).text) for task in TASKS
    ]
    assert all(set(action) == {"action", "part"} for action in actions)
    splits = [action for action in actions if action["action"] == "split"]
    assert len(splits) / len(TASKS) == pytest.approx(0.25, abs=0.07)
    assert all(action["part"] for action in splits)
    choices = ("complete", "incomplete")
    checks = [model.reply(ask(task, purpose="check", choices=choices)).text for task in TASKS]
    assert set(checks) == set(choices)
    assert checks.count("complete") / len(TASKS) == pytest.approx(0.75, abs=0.07)


@pytest.mark.parametrize("distribution", ["fixed", "exponential", "lognormal", "measured"])
def test_service_times_have_the_mean_of_purpose_and_type(distribution: str) -> None:
    model = simulated(
        distribution=distribution,
        service_s=1.0,
        service_s_by_purpose={"answer": 2.0},
        service_factor_by_type={"sums": 3.0},
        service_shape=(3.0, 4.0, 5.0, 28.0),
    )
    many = [f"task-{index}" for index in range(4000)]
    times_s = [model.reply(ask(task)).service_s for task in many]
    assert sum(times_s) / len(times_s) == pytest.approx(6.0, rel=0.05)
    assert (len(set(times_s)) == 1) == (distribution == "fixed")
    thoughts_s = [model.reply(ask(task, purpose="thought")).service_s for task in many]
    assert sum(thoughts_s) / len(thoughts_s) == pytest.approx(3.0, rel=0.05)


def test_measured_times_keep_their_shape_in_any_unit() -> None:
    model = simulated(distribution="measured", service_s=2.0, service_shape=(300.0, 500.0, 1000.0, 2200.0))
    times_s = Counter(model.reply(ask(f"task-{index}")).service_s for index in range(2000))
    assert set(times_s) == {0.6, 1.0, 2.0, 4.4}
    assert min(times_s.values()) > 400
    with pytest.raises(ValidationError, match="needs service_shape"):
        SimulatedOptions(distribution="measured")


def test_calls_in_flight_slow_each_other() -> None:
    model = simulated(service_s=1.0, slowdown_exponent=0.5)
    assert model.reply(ask("a"), in_flight=4).service_s == pytest.approx(2.0)


def test_unparseable_replies_spare_free_text() -> None:
    model = simulated(unparseable_rate=1.0, answers={"a": "A"})
    with pytest.raises(json.JSONDecodeError):
        json.loads(model.reply(ask("a", purpose="action")).text)
    assert model.reply(ask("a", choices=("A", "B"))).text not in {"A", "B"}
    assert model.reply(ask("a")).text == "A"


def test_a_failed_try_can_be_repeated_and_the_failures_repeat_with_the_seed() -> None:
    async def failures_until_served() -> list[int]:
        backend = SimulatedBackend(SimulatedModel("m", SimulatedOptions(failure_rate=0.5)))
        await backend.start()
        counts = []
        for task in TASKS[:50]:
            failures = 0
            while True:
                try:
                    await backend.generate(ask(task))
                    break
                except RetryableServingError:
                    failures += 1
            counts.append(failures)
        return counts

    first = asyncio.run(failures_until_served())
    assert sum(first) / len(first) == pytest.approx(1.0, abs=0.6)
    assert asyncio.run(failures_until_served()) == first


def test_service_time_passes_for_all_calls_at_once() -> None:
    async def scenario() -> tuple[list[Completion], float]:
        backend = SimulatedBackend(SimulatedModel("m", SimulatedOptions(service_s=0.1)))
        await backend.start()
        began_s = time.monotonic()
        replies = await asyncio.gather(*(backend.generate(ask(task)) for task in TASKS[:20]))
        return list(replies), time.monotonic() - began_s

    replies, took_s = asyncio.run(scenario())
    assert all(reply.duration_s >= 0.09 for reply in replies)
    assert took_s < 1.0  # one after another they would take two seconds


def test_without_service_time_others_still_get_a_turn() -> None:
    async def scenario() -> bool:
        backend = SimulatedBackend(SimulatedModel("m", SimulatedOptions()))
        await backend.start()
        turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(turn.set)
        await backend.generate(ask("a"))
        return turn.is_set()

    assert asyncio.run(scenario())

"""Recorded verdicts as a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.api import BackendSpec, Prompt, Request, Sampling
from serving.build import build_virtual_model
from serving.errors import FinalServingError

CHOICES = ("A", "B", "C", "D")


def request_of(task_id: str, purpose: str = "direct") -> Request:
    prompt = Prompt(system="", head="Question", tail="Answer.")
    return Request(
        request_id=f"{task_id}/1",
        prompt=prompt,
        sampling=Sampling(choices=CHOICES),
        task_id=task_id,
        task_type="law",
        purpose=purpose,
    )


@given(
    st.dictionaries(
        st.text("abc", min_size=1), st.tuples(st.booleans(), st.sampled_from(CHOICES)), min_size=1
    )
)
def test_it_is_right_exactly_where_the_model_was(recorded: dict[str, tuple[bool, str]]) -> None:
    options = {
        "verdicts": {task_id: right for task_id, (right, _) in recorded.items()},
        "answers": {task_id: answer for task_id, (_, answer) in recorded.items()},
        "success_rate": 0.0,
    }
    model = build_virtual_model(BackendSpec(kind="replay", model="m", options=options))
    for task_id, (right, answer) in recorded.items():
        for purpose in ("direct", "answer"):
            said = model.reply(request_of(task_id, purpose)).text
            assert said in CHOICES
            assert (said == answer) == right


def test_a_question_without_a_verdict_is_an_error_that_names_model_and_task() -> None:
    model = build_virtual_model(BackendSpec(kind="replay", model="gemma", options={"answers": {"q": "A"}}))
    with pytest.raises(FinalServingError, match=r"gemma on task 'q'.*data set"):
        model.reply(request_of("q"))

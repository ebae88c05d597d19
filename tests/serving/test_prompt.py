import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.api import Demonstration, Prompt
from serving.errors import PromptTooLongError
from serving.prompt import ChatMessage, approximate_tokens, chat_messages, fit, without_lowest


def make_prompt(*scores: float, words_each: int = 10) -> Prompt:
    shown = tuple(
        Demonstration(text=" ".join([f"d{index}"] * words_each), score=score)
        for index, score in enumerate(scores)
    )
    return Prompt(system="be brief", head="the task", tail="answer now", demonstrations=shown)


def count_words(messages: list[ChatMessage]) -> int:
    return sum(len(message["content"].split()) for message in messages)


def test_user_message_has_the_shared_head_first_and_the_tail_last() -> None:
    system, user = chat_messages(make_prompt(0.8, 0.9))
    assert system == {"role": "system", "content": "be brief"}
    assert user["role"] == "user"
    assert user["content"].startswith("the task\n\n")
    assert user["content"].endswith("\n\nanswer now")
    assert user["content"].index("d0") < user["content"].index("d1")


def test_empty_parts_leave_neither_a_message_nor_a_gap() -> None:
    assert chat_messages(Prompt(system="", head="", tail="hello")) == [{"role": "user", "content": "hello"}]


def test_lowest_scored_go_first_and_the_order_of_the_others_stays() -> None:
    kept = without_lowest(make_prompt(0.9, 0.1, 0.5, 0.1), 2)
    assert [shown.text.split()[0] for shown in kept.demonstrations] == ["d0", "d2"]
    of_equal_ones = without_lowest(make_prompt(0.5, 0.5, 0.5), 1)
    assert [shown.text.split()[0] for shown in of_equal_ones.demonstrations] == ["d0", "d1"]


@given(scores=st.lists(st.floats(0, 1), max_size=12), budget=st.integers(6, 140))
def test_fit_drops_as_few_as_possible_and_counts_seldom(scores: list[float], budget: int) -> None:
    prompt = make_prompt(*scores)
    counted: list[int] = []

    def count(messages: list[ChatMessage]) -> int:
        counted.append(count_words(messages))
        return counted[-1]

    fitting, dropped = fit(prompt, count, budget)
    assert fitting == without_lowest(prompt, dropped)
    assert count_words(chat_messages(fitting)) <= budget
    if dropped:
        assert count_words(chat_messages(without_lowest(prompt, dropped - 1))) > budget
    else:
        assert len(counted) == 1
    assert len(counted) <= 2 + 4  # all, none, and a bisection of at most twelve


def test_a_prompt_too_long_without_demonstrations_names_both_numbers() -> None:
    with pytest.raises(PromptTooLongError, match=r"takes 6 tokens .* leaves 5"):
        fit(make_prompt(0.5), count_words, 5)


def test_estimate_grows_with_length_and_never_rounds_down() -> None:
    assert approximate_tokens([{"role": "user", "content": ""}]) == 0
    assert approximate_tokens([{"role": "user", "content": "a"}]) == 1
    assert approximate_tokens([{"role": "user", "content": "a" * 35}]) == 10

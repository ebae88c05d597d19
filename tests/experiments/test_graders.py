"""The rules of grading on answers as models write them."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.datasets.graders import boxed, extract, grade
from experiments.datasets.math_answers import MathComparer
from experiments.datasets.rows import GraderName, Row


def row(answer: str, grader: GraderName = "text", choices: tuple[str, ...] = ()) -> Row:
    return Row(
        task_id="t",
        task_type="t",
        problem="?",
        answer=answer,
        answer_format="",
        grader=grader,
        choices=choices,
    )


OPTION = row("(B)", choices=("(A)", "(B)", "(C)"))
YES = row("Yes", choices=("Yes", "No"))
TRUE = row("True", choices=("True", "False"))
VALID = row("valid", choices=("valid", "invalid"))
WORDS = row("apple bear cat")
COUNT = row("12")
NEGATIVE = row("-11520")
BRACKETS = row("] ) }")
TITLE = row("Monsters, Inc")
LETTER = row("B", "letter", tuple("ABCDEFGHIJ"))
NUMBER = row("1234", "number")

RIGHT = [
    (OPTION, "(B)"),
    (OPTION, "B"),
    (OPTION, "b"),
    (OPTION, "b."),
    (OPTION, "B)"),
    (OPTION, " (b) . "),
    (OPTION, "**(B)**"),
    (OPTION, "\\boxed{B}"),
    (OPTION, "$\\boxed{\\text{(B)}}$"),
    (OPTION, "Option B"),
    (OPTION, "(B) A film of that name"),
    (OPTION, "(B), because (A) is too old"),
    (OPTION, "The answer is B because it fits"),
    (OPTION, "The answer is (B)."),
    (OPTION, "the ANSWER IS: (B)"),
    (OPTION, "Answer: (B)"),
    (OPTION, "**Answer:** (B)"),
    (OPTION, "**Final Answer**: B"),
    (OPTION, "The answer is not (A), the answer is (B)"),
    (OPTION, "The answer is (A)? No.\nSo the answer is (B).\nI am sure of (C) not."),
    (OPTION, "Answer:\n\n(B)\n"),
    (OPTION, "It was said above.\n(B)"),
    (OPTION, "(B)\nThis follows from the first clue."),
    (YES, "yes"),
    (YES, "Yes."),
    (YES, "Yes, because they met."),
    (YES, "So the answer is Yes\nNo more to say"),
    (TRUE, "The answer is: **True**."),
    (TRUE, "true"),
    (VALID, "The argument is\nValid."),
    (WORDS, "apple bear cat"),
    (WORDS, "The answer is Apple  bear cat."),
    (COUNT, "The answer is 12."),
    (COUNT, "12.0"),
    (NEGATIVE, "-11,520"),
    (NEGATIVE, "the answer is \u221211520"),
    (BRACKETS, "So the answer is ] ) }."),
    (TITLE, "Monsters, Inc."),
    (LETTER, "B"),
    (LETTER, "The answer is (B)."),
    (LETTER, "The answer is B, since it is."),
    (LETTER, "The answer is B as shown"),
    (LETTER, "answer: b"),
    (NUMBER, "1234"),
    (NUMBER, "She pays $1,234."),
    (NUMBER, "1,234.00 dollars"),
    (NUMBER, "5 + 1229 = 1234"),
    (NUMBER, "#### 1234"),
    (NUMBER, "The answer is 1234. It took 3 steps."),
    (NUMBER, "Answer: $1{,}234$"),
    (NUMBER, "\\boxed{1234} after 7 steps"),
    (row("-5", "number"), "-$5"),
    (row("7", "number"), "10-3=7"),
    (row("3", "number"), "5-3"),
    (row("18.5", "number"), "18.50"),
    (row("0.5", "number"), "It is .5"),
    (row("0", "number"), "-0.0"),
]

WRONG = [
    (OPTION, "(A)"),
    (OPTION, "The answer is not (B)"),
    (OPTION, "The answer is not (B). The answer is (A)."),
    (OPTION, "(A) or (B)"),
    (OPTION, "(B) or (A)"),
    (OPTION, "The answer is B or C"),
    (OPTION, "(B)/(C)"),
    (OPTION, "The answer is"),
    (OPTION, "be careful"),
    (OPTION, "(BB)"),
    (row("(A)"), "A good film, I think"),
    (YES, "No"),
    (YES, "yesterday"),
    (YES, "Yes or no"),
    (YES, "Yes, no, who knows"),
    (YES, "not yes"),
    (VALID, "invalid"),
    (VALID, "not valid"),
    (TRUE, "True/False"),
    (WORDS, "apple cat bear"),
    (WORDS, "apple bear cat dog"),
    (COUNT, "112"),
    (COUNT, "12 or 13"),
    (NEGATIVE, "11520"),
    (BRACKETS, "] ) } }"),
    (BRACKETS, "] )"),
    (LETTER, "K"),
    (LETTER, "I do not know"),
    (LETTER, "The answer is A or B"),
    (row("B", "letter", ("A", "B")), "C"),
    (NUMBER, "234"),
    (NUMBER, "1234.5"),
    (NUMBER, "1234 or 1235"),
    (NUMBER, "no number"),
    (NUMBER, "x1234"),
]


@pytest.mark.parametrize(("asked", "answer"), RIGHT, ids=[answer for _, answer in RIGHT])
def test_right_answers(asked: Row, answer: str) -> None:
    assert grade(asked, answer), extract(asked, answer)


@pytest.mark.parametrize(("asked", "answer"), WRONG, ids=[answer for _, answer in WRONG])
def test_wrong_answers(asked: Row, answer: str) -> None:
    assert not grade(asked, answer), extract(asked, answer)


ALL_ROWS = [OPTION, YES, WORDS, COUNT, BRACKETS, LETTER, NUMBER, row("1", "math")]


@pytest.mark.parametrize("asked", ALL_ROWS, ids=lambda asked: f"{asked.grader} {asked.answer}")
@pytest.mark.parametrize("answer", [None, "", "  \n ", "The answer is ", "####", "answer:", "."])
def test_no_answer_is_wrong(asked: Row, answer: str | None) -> None:
    assert not grade(asked, answer)


@given(
    asked=st.sampled_from(ALL_ROWS),
    text=st.text(alphabet=st.sampled_from("ab(B) \n.,0159-$\\boxed{}answer is:#yesNo*"), max_size=60)
    | st.text(max_size=60),
)
def test_extract_takes_any_text(asked: Row, text: str) -> None:
    assert isinstance(extract(asked, text), str)


@given(st.sampled_from(ALL_ROWS[:-1]), st.text(alphabet="ab. \n", max_size=40))
def test_words_before_the_marker_change_nothing(asked: Row, before: str) -> None:
    assert grade(asked, f"{before}\nThe answer is {asked.answer}")


def test_digits_without_end_are_no_error() -> None:
    assert not grade(NUMBER, "9" * 20_000)
    assert grade(row("9" * 5_000, "number"), "0" + "9" * 5_000 + ".0")
    assert not grade(row("9" * 5_000, "number"), "9" * 4_999 + "8")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("\\boxed{1}", "1"),
        ("\\boxed{1} and \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed {x}", "x"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("\\boxed{1} but \\boxed{2", "1"),
        ("\\boxed{", None),
        ("none", None),
    ],
)
def test_boxed_is_the_last_complete_one(text: str, content: str | None) -> None:
    assert boxed(text) == content


MATH_RIGHT = [
    ("\\frac{1}{2}", "The answer is $\\boxed{0.5}$."),
    ("\\frac{1}{2}", "So the answer is 1/2."),
    ("\\frac{1}{2}", "\\dfrac12"),
    ("x+1", "\\boxed{1+x}"),
    ("\\left[2,5\\right)", "\\boxed{[2, 5)}"),
    ("(3, \\frac{\\pi}{2})", "\\boxed{(3,\\pi/2)}"),
    ("\\text{Evelyn}", "\\boxed{Evelyn}"),
    ("2\\sqrt{3}", "First \\boxed{4}, no: \\boxed{\\sqrt{12}}"),
    ("5", "\\boxed{x = 5}"),
]
MATH_WRONG = [
    ("\\frac{1}{2}", "\\boxed{\\frac{1}{3}}"),
    ("x+1", "\\boxed{x-1}"),
    ("[2,5)", "\\boxed{[2,5]}"),
    ("5", "It is 5 or so \\boxed{6}"),
    ("5", "\\boxed{\\frac{}"),
    ("5", "}{"),
    ("5", "\\boxed{" + "(" * 300 + "}"),
]


@pytest.mark.parametrize(("answer", "text"), MATH_RIGHT)
def test_math_is_compared_by_value(answer: str, text: str) -> None:
    assert grade(row(answer, "math"), text)


@pytest.mark.parametrize(("answer", "text"), MATH_WRONG)
def test_math_of_another_value_is_wrong(answer: str, text: str) -> None:
    assert not grade(row(answer, "math"), text)


def test_math_is_graded_from_many_threads_at_once() -> None:
    questions = [(f"\\frac{{1}}{{{n}}}", f"\\boxed{{2/{2 * n}}}") for n in range(2, 20)]
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(lambda pair: grade(row(pair[0], "math"), pair[1]), questions))
    assert verdicts == [True] * len(questions)


@pytest.fixture
def comparer() -> MathComparer:
    return MathComparer(timeout_s=1.5)


def test_a_power_tower_is_wrong_in_time_and_the_next_answer_is_graded(comparer: MathComparer) -> None:
    try:
        assert comparer.equal("1/2", "0.5")
        started_s = time.monotonic()
        verdicts: list[bool] = []
        thread = threading.Thread(target=lambda: verdicts.append(comparer.equal("9", "9^{9^{9^{9}}}")))
        thread.start()
        thread.join(10)
        assert verdicts == [False]
        assert time.monotonic() - started_s < 8
        assert comparer.equal("1/2", "0.5")
    finally:
        comparer.close()


def test_a_closed_comparer_starts_again(comparer: MathComparer) -> None:
    try:
        assert comparer.equal("1/4", "0.25")
        comparer.close()
        comparer.close()
        assert comparer.equal("1/4", "0.25")
    finally:
        comparer.close()


def test_a_grader_that_cannot_start_says_how_to_see_why(
    comparer: MathComparer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.datasets.math_answers.sys.executable", "/bin/false")
    with pytest.raises(RuntimeError, match=r"did not start .* run `/bin/false"):
        comparer.equal("1/2", "0.5")


def test_grading_loads_no_math_library_into_this_process() -> None:
    code = (
        "import sys\n"
        "from experiments.datasets.math_answers import equal_in_value\n"
        "assert equal_in_value('1/2', '0.5')\n"
        "assert not {'sympy', 'math_verify'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=100)

"""Whether an answer is right. Each rule first extracts what was answered, then compares.

Rules (`Row.grader`):
  text    BBH: what follows the last answer marker up to the line end, lower case; options without brackets
  letter  MMLU-Pro: one letter out of the row's choices
  number  GSM8K: the last number of the answer, without separators and currency
  math    MATH: the boxed expression, compared by value (math-verify)
An answer that cannot be read is a wrong answer; nothing here raises for what a model wrote.
"""

import re
from decimal import Decimal

from experiments.datasets.math_answers import equal_in_value
from experiments.datasets.rows import Row

_MARKER = re.compile(r"answer\s+is\b\s*:?|answer\b\W{0,4}:|####", re.IGNORECASE)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_OPTION = re.compile(r"(?:option\s+|choice\s+)?(?:\(([a-z])\)|([a-z])(?=[).,:;]|$))", re.IGNORECASE)
_SECOND_OPTION = re.compile(r"[\s,;/&]*(?:or|and)?\s*\(([a-z])\)", re.IGNORECASE)
_WORD_ANSWERS = frozenset({"yes", "no", "true", "false", "valid", "invalid"})
_WORD = re.compile(r"([a-z]+)(?=[.,;:!(\u2013\u2014]|$)")
_NUMBER = re.compile(
    r"(?<![\w.)])-?\s?\$?\s?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.)])-?\$?\.\d+"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_TRIM = " \t\r\n*`_\"'.,;:!"


def extract(row: Row, answer_text: str | None) -> str:
    """What was answered, in the form that is compared; empty where nothing can be read."""
    text = (answer_text or "").strip()
    if not text:
        return ""
    if row.grader == "math":
        return _math_answer(text)
    if row.grader == "number":
        return _last_number(text)
    answered = _after_marker(text)
    if row.grader == "letter":
        option = _option(answered)
        return option if option in {choice.lower() for choice in row.choices} else ""
    expected = _plain(row.answer)
    if re.fullmatch(r"\([a-z]\)", expected):
        return _option(answered) or _plain(answered)
    if expected in _WORD_ANSWERS:
        word = _WORD.match(_plain(answered))
        return word.group(1) if word else _plain(answered)
    if _as_number(expected):
        return _as_number(_plain(answered)) or _plain(answered)
    return _plain(answered)


def grade(row: Row, answer_text: str | None) -> bool:
    """Whether the answer is right. May be called from any thread; `math` may take up to its time-out."""
    answered = extract(row, answer_text)
    if not answered:
        return False
    if row.grader == "math":
        return equal_in_value(row.answer, answered)
    return answered == extract(row, row.answer)


def boxed(text: str) -> str | None:
    """The content of the last complete `\\boxed{...}`, None where there is none."""
    for start in reversed([match.end() for match in _BOXED.finditer(text)]):
        depth = 1
        for position in range(start, len(text)):
            character = text[position]
            if text[position - 1] == "\\":  # an escaped brace belongs to the content
                continue
            depth += (character == "{") - (character == "}")
            if depth == 0:
                return text[start:position].strip()
    return None


def _after_marker(text: str) -> str:
    """What follows the last answer marker up to the line end; the last line where there is no marker.

    Where the marker ends its line, the next line that says something counts.
    """
    markers = list(_MARKER.finditer(text))
    if markers:
        lines = [line for line in text[markers[-1].end() :].splitlines() if line.strip(_TRIM)]
        return lines[0].strip() if lines else ""
    return text.splitlines()[-1].strip()


def _plain(text: str) -> str:
    """Lower case, single spaces, no mark-up around, no punctuation at the end."""
    inner = boxed(text)
    text = inner if inner is not None else text
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).replace("$", "")
    return " ".join(text.lower().split()).strip(_TRIM)


def _option(answered: str) -> str:
    """The option letter an answer begins with, lower case; empty where none or more than one is named."""
    plain = _plain(answered)
    match = _OPTION.match(plain)
    if match is None:
        return ""
    letter = match.group(1) or match.group(2)
    second = _SECOND_OPTION.match(plain, match.end())
    if second is not None and second.group(1) != letter:
        return ""
    return letter


def _as_number(text: str) -> str:
    """A text that is one number and nothing else, normalised; otherwise empty."""
    text = text.replace("\u2212", "-")
    return _normal_number(text) if _NUMBER.fullmatch(text) else ""


def _last_number(text: str) -> str:
    """The last number of the answer; after a marker, of the first sentence there."""
    text = text.replace("\u2212", "-").replace("\\$", "$").replace("\\!", "").replace("{,}", ",")
    inner = boxed(text)
    if inner is None and _MARKER.search(text):
        inner = _SENTENCE_END.split(_after_marker(text))[0]
    numbers = _NUMBER.findall(inner if inner is not None else text)
    return _normal_number(numbers[-1]) if numbers else ""


def _normal_number(text: str) -> str:
    value = Decimal(re.sub(r"[\s,$]", "", text))
    return "0" if value == 0 else f"{value.normalize():f}"


def _math_answer(text: str) -> str:
    inner = boxed(text)
    if inner is not None:
        return inner
    return _SENTENCE_END.split(_after_marker(text))[0].strip(" \t$*`.:")

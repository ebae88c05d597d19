"""Whether an answer is right. Each rule first extracts what was answered, then compares.

Rules (`Row.grader`):
  text    BBH: what follows the last answer marker up to the line end, lower case; options without brackets
  letter  MMLU-Pro: one letter out of the row's choices
  number  GSM8K: the last number of the answer, without separators and currency
  math    MATH: the boxed expression, compared by value (math-verify)
An answer that cannot be read is a wrong answer; nothing here raises for what a model wrote.
"""

import re

from experiments.datasets.math_answers import equal_in_value
from experiments.datasets.rows import Row

_MARKER = re.compile(r"answer\s+is\b\s*:?|answer\b\W{0,4}:|####", re.IGNORECASE)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
# A bare letter must end the text or be followed by punctuation or a reason: "a good film" names no option.
_OPTION = re.compile(
    r"(?:(?:[Oo]ption|[Cc]hoice)\s+)?"
    r"(?:\(([A-Za-z])\)|([A-Za-z])(?=\s*(?:[).,:;]|$|\(|-\s))|([A-Za-z])(?=\s+(?:because|since|as)\b)"
    r"|([B-HJ-Z])(?=\s))"
)
_SECOND_OPTION = re.compile(
    r"(?:\s|[,;/&]|or\b|and\b)*\(([A-Za-z])\)|\s*(?:[,;/&]|or\b|and\b)\s*([A-Z])(?=[\s.,;)]|$)"
)
_WORD_ANSWERS = frozenset({"yes", "no", "true", "false", "valid", "invalid"})
_WORD = re.compile(r"([a-z]+)(?=\s*(?:[.,;:!(\u2013\u2014-]|$))")
_SECOND_WORD = re.compile(r"[\s,;/]*(?:or|and)?\s*([a-z]+)")
_NUMBER = re.compile(
    r"(?<![\w.)])-?\s?\$?\s?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.)])-?\$?\.\d+", re.ASCII
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_MARK_UP = " \t\r\n*`_\"'"
_PUNCTUATION = ".,;:!"


def extract(row: Row, answer_text: str | None) -> str:
    """What was answered, in the form that is compared; empty where nothing can be read."""
    text = (answer_text or "").strip()
    if not text:
        return ""
    if row.grader == "math":
        return _math_answer(text)
    if row.grader == "number":
        return _last_number(text)
    lines = _answer_lines(text)
    if row.grader == "letter":
        letters = {choice.lower() for choice in row.choices}
        return next((option for line in lines if (option := _option(line)) in letters), "")
    expected = _plain(row.answer)
    if re.fullmatch(r"\([a-z]\)", expected):
        return next((option for line in lines if (option := _option(line))), _plain(lines[0]))
    if expected in _WORD_ANSWERS:
        return next((word for line in lines if (word := _word(line))), _plain(lines[0]))
    answered = _plain(lines[0])
    return (_as_number(answered) if _as_number(expected) else "") or answered


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


def _answer_lines(text: str) -> list[str]:
    """Where the answer may stand, most likely place first; never empty.

    What follows the last answer marker up to the line end, or, where the marker ends its line, the next line
    that says something. Without a marker the last line, then the first: an answer comes after its reasons or
    before them.
    """
    markers = list(_MARKER.finditer(text))
    if markers:
        lines = [
            line for line in text[markers[-1].end() :].splitlines() if line.strip(_MARK_UP + _PUNCTUATION)
        ]
        return [lines[0].strip() if lines else ""]
    lines = text.splitlines()
    return [lines[-1].strip(), lines[0].strip()]


def _clean(text: str) -> str:
    """Single spaces, no mark-up around, no punctuation at the end."""
    inner = boxed(text)
    text = inner if inner is not None else text
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).replace("$", "")
    return " ".join(text.split()).strip(_MARK_UP).lstrip(":").lstrip(_MARK_UP).rstrip(_MARK_UP + _PUNCTUATION)


def _plain(text: str) -> str:
    return _clean(text).lower()


def _option(line: str) -> str:
    """The option letter an answer begins with, lower case; empty where none or more than one is named."""
    text = _clean(line)
    match = _OPTION.match(text)
    if match is None:
        return ""
    letter = next(group for group in match.groups() if group)
    rest = text[match.end() :].lstrip(")")
    second = _SECOND_OPTION.match(rest)
    if second is not None and (second.group(1) or second.group(2)).lower() != letter.lower():
        return ""
    return letter.lower()


def _word(line: str) -> str:
    """The yes, no, true ... an answer begins with; empty where none or more than one is named."""
    text = _plain(line)
    match = _WORD.match(text)
    if match is None or match.group(1) not in _WORD_ANSWERS:
        return ""
    second = _SECOND_WORD.match(text, match.end())
    if second is not None and second.group(1) in _WORD_ANSWERS - {match.group(1)}:
        return ""
    return match.group(1)


def _as_number(text: str) -> str:
    """A text that is one number and nothing else, normalised; otherwise empty."""
    text = text.replace("\u2212", "-")
    return _normal_number(text) if _NUMBER.fullmatch(text) else ""


def _last_number(text: str) -> str:
    """The last number of the answer; after a marker, of the first sentence there."""
    text = text.replace("\u2212", "-").replace("\\$", "$").replace("\\!", "").replace("{,}", ",")
    inner = boxed(text)
    if inner is None and _MARKER.search(text):
        inner = _SENTENCE_END.split(_answer_lines(text)[0])[0]
    numbers = _NUMBER.findall(inner if inner is not None else text)
    return _normal_number(numbers[-1]) if numbers else ""


def _normal_number(text: str) -> str:
    """The same text for the same value; digits are never converted, so no length is too long."""
    digits = re.sub(r"[-\s,$]", "", text)
    whole, _, fraction = digits.partition(".")
    value = (whole.lstrip("0") or "0") + (f".{kept}" if (kept := fraction.rstrip("0")) else "")
    return f"-{value}" if "-" in text and value != "0" else value


def _math_answer(text: str) -> str:
    inner = boxed(text)
    if inner is not None:
        return inner
    return _SENTENCE_END.split(_answer_lines(text)[0])[0].strip(" \t$*`.:")

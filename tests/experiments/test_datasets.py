"""Rows, splits, and the readers of recorded files: on small files of our own, and on the real ones if present."""

import json
import os
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.datasets import bbh
from experiments.datasets.graders import grade
from experiments.datasets.registry import NAMES, default_cache_dir, load
from experiments.datasets.rows import DataSet, DataSetError, Part, Row, split

RECORDED = Path(os.environ.get("TRADEWINDS_DATA_DIR", Path(__file__).parents[2] / ".." / "shared" / "data"))


def row(task_id: str, task_type: str = "a", problem: str | None = None, part: Part = "any") -> Row:
    return Row(
        task_id=task_id,
        task_type=task_type,
        problem=problem if problem is not None else task_id,
        answer="1",
        answer_format="",
        grader="number",
        part=part,
    )


def data_set(*rows: Row) -> DataSet:
    return DataSet(name="tiny", label="tiny", rows=rows)


MANY = data_set(*(row(f"{task_type}{i}", task_type) for i in range(30) for task_type in "abc"))


@given(st.integers(0, 10), st.integers(0, 10), st.integers(0, 1000))
def test_a_split_is_disjoint_and_balanced(warm_up: int, test: int, seed: int) -> None:
    parts = split(MANY, warm_up_per_type=warm_up, test_per_type=test, seed=seed)
    assert not {r.problem for r in parts.warm_up} & {r.problem for r in parts.test}
    assert Counter(r.task_type for r in parts.test) == {t: test for t in "abc" if test}
    assert Counter(r.task_type for r in parts.warm_up) == {t: warm_up for t in "abc" if warm_up}
    assert parts == split(MANY, warm_up_per_type=warm_up, test_per_type=test, seed=seed)


def test_the_test_rows_depend_on_the_seed_but_not_on_the_rest() -> None:
    parts = split(MANY, warm_up_per_type=5, test_per_type=10, seed=1)
    assert split(MANY, warm_up_per_type=None, test_per_type=10, seed=1).test == parts.test
    alone = split(MANY, warm_up_per_type=5, test_per_type=10, seed=1, types=["b"])
    assert alone.test == tuple(r for r in parts.test if r.task_type == "b")
    assert split(MANY, warm_up_per_type=5, test_per_type=10, seed=2).test != parts.test


def test_a_problem_that_is_recorded_twice_is_in_one_phase_only() -> None:
    twins = data_set(*(row(f"{i}", problem=f"p{i // 2}") for i in range(20)))
    for seed in range(20):
        parts = split(twins, warm_up_per_type=5, test_per_type=5, seed=seed)
        assert len({r.problem for r in parts.warm_up + parts.test}) == 10
    with pytest.raises(DataSetError, match=r"5 warm-up rows .* and 6"):
        split(twins, warm_up_per_type=6, test_per_type=5, seed=1)


def test_a_published_split_holds() -> None:
    published = data_set(
        *(row(f"w{i}", part="warm_up") for i in range(5)), *(row(f"t{i}", part="test") for i in range(4))
    )
    parts = split(published, warm_up_per_type=None, test_per_type=None, seed=1)
    assert sorted(r.task_id for r in parts.warm_up) == [f"w{i}" for i in range(5)]
    assert sorted(r.task_id for r in parts.test) == [f"t{i}" for i in range(4)]
    with pytest.raises(DataSetError, match="4 test rows of type 'a' of data set 'tiny'"):
        split(published, warm_up_per_type=0, test_per_type=5, seed=1)
    with pytest.raises(DataSetError, match="no published split"):
        split(MANY, warm_up_per_type=0, test_per_type=None, seed=1)


def test_bad_requests_are_named() -> None:
    with pytest.raises(DataSetError, match="no type 'z'; known: a, b, c"):
        split(MANY, warm_up_per_type=1, test_per_type=1, seed=1, types=["z"])
    with pytest.raises(DataSetError, match="-1 test rows"):
        split(MANY, warm_up_per_type=1, test_per_type=-1, seed=1)
    with pytest.raises(DataSetError, match="no rows"):
        data_set()
    with pytest.raises(DataSetError, match="twice"):
        data_set(row("1"), row("1"))
    with pytest.raises(DataSetError, match="known: families, bbh"):
        load("mmlu")


def test_errors_and_rows_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(DataSetError("what and remedy")))
    assert (type(error), str(error)) == (DataSetError, "what and remedy")
    assert pickle.loads(pickle.dumps(MANY)) == MANY


# Readers, on small files


def write_bbh(folder: Path) -> None:
    for task in bbh.TASKS:
        examples = [{"input": f"{task} {i}\nOptions:\n(A) x\n(B) y", "target": "(B)"} for i in range(3)]
        (folder / f"{task}.json").write_text(json.dumps({"canary": "c", "examples": examples}))


QUESTION = {
    "question_id": 7,
    "question": "Which?",
    "options": ["x", "y", "z"],
    "answer": "C",
    "answer_index": 1,
    "category": "law",
}
PROBLEM = {"problem": "1+1?", "level": "Level 1", "type": "Counting & Probability", "solution": "\\boxed{2}"}


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        path = tmp_path / name
        path.mkdir(exist_ok=True)
        return path

    return make


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_bbh_rows(tmp_path: Path, folder: Callable[[str], Path]) -> None:
    write_bbh(folder("bbh"))
    free = {"input": "Sort: b a", "target": "a b"}
    odd = {"input": "Which?\nOptions:\n(A) Monsters\n(B) Inc", "target": "Monsters, Inc"}
    truth = {"input": "True and True is", "target": "True"}
    (tmp_path / "bbh" / "word_sorting.json").write_text(json.dumps({"examples": [free, odd, truth]}))
    loaded = load("bbh", data_dir=tmp_path)
    assert loaded.types == bbh.TASKS
    assert loaded.label == "BBH (27 tasks, 81 recorded rows)"
    assert loaded.rows[0].task_id == "bbh/boolean_expressions/0"
    assert loaded.rows[0].choices == ("(A)", "(B)")
    assert [r.choices for r in loaded.rows_of("word_sorting")] == [(), (), ("True", "False")]
    assert "separated by single spaces" in loaded.rows_of("word_sorting")[0].answer_format


def test_bbh_with_the_rows_of_agentnet(tmp_path: Path, folder: Callable[[str], Path]) -> None:
    write_bbh(folder("bbh"))
    with pytest.raises(DataSetError, match=r"agentnet_split_indices\.json"):
        load("bbh", data_dir=tmp_path, agentnet_split=True)
    path = tmp_path / "bbh" / bbh.SPLIT_FILE
    path.write_text(json.dumps({"splits": {"train": {"snarks": [2, 2]}, "test": {"snarks": [0]}}}))
    loaded = load("bbh", data_dir=tmp_path, agentnet_split=True)
    assert [(r.task_id, r.part) for r in loaded.rows] == [
        ("bbh/snarks/0", "test"),
        ("bbh/snarks/2", "warm_up"),
    ]
    for splits, message in (
        ({"train": {"snarks": [9]}, "test": {"snarks": [0]}}, "do not have"),
        ({"train": {"snarks": [0]}, "test": {"snarks": [0]}}, "both splits"),
        ({"train": {"snarks": [0]}}, "no split 'test'"),
    ):
        path.write_text(json.dumps({"splits": splits}))
        with pytest.raises(DataSetError, match=message):
            load("bbh", data_dir=tmp_path, agentnet_split=True)


def test_mmlu_pro_rows(tmp_path: Path, folder: Callable[[str], Path]) -> None:
    (folder("mmlu_pro") / "questions.jsonl").write_text(
        lines(QUESTION, {**QUESTION, "question_id": 8}) + "\n"
    )
    loaded = load("mmlu_pro", data_dir=tmp_path)
    assert loaded.label == "MMLU-Pro (1 categories, 2 recorded rows)"
    first = loaded.rows[0]
    assert first.problem == "Which?\nOptions:\n(A) x\n(B) y\n(C) z"
    assert (first.task_id, first.task_type, first.answer) == ("mmlu_pro/7", "law", "C")
    assert first.choices == ("A", "B", "C")


def test_gsm8k_rows(tmp_path: Path, folder: Callable[[str], Path]) -> None:
    record = {"question": "How many?", "answer": "10 * <<10*100=1000>>100\n#### 1,000"}
    (folder("gsm8k") / "test.jsonl").write_text(lines(record))
    loaded = load("gsm8k", data_dir=tmp_path)
    assert [(r.task_id, r.answer, r.part) for r in loaded.rows] == [("gsm8k/test/1", "1000", "any")]
    (tmp_path / "gsm8k" / "train.jsonl").write_text(lines(record, record))
    both = load("gsm8k", data_dir=tmp_path)
    assert [r.part for r in both.rows] == ["warm_up", "warm_up", "test"]
    assert both.label == "GSM8K (train and test, 3 recorded rows)"


def test_math_rows_of_both_layouts(tmp_path: Path, folder: Callable[[str], Path]) -> None:
    for part in ("train", "test"):
        (folder("math") / part / "algebra").mkdir(parents=True)
        (tmp_path / "math" / part / "algebra" / "1.json").write_text(json.dumps(PROBLEM))
    hub = {"problem": "2+2?", "subject": "Algebra", "answer": "4", "solution": "none boxed"}
    (tmp_path / "math" / "test.jsonl").write_text(lines(hub))
    loaded = load("math", data_dir=tmp_path)
    assert {(r.task_id, r.task_type, r.answer, r.part) for r in loaded.rows} == {
        ("math/train/algebra/1", "counting_and_probability", "2", "warm_up"),
        ("math/test/algebra/1", "counting_and_probability", "2", "test"),
        ("math/test/1", "algebra", "4", "test"),
    }
    assert {r.grader for r in loaded.rows} == {"math"}
    (tmp_path / "math" / "train" / "algebra" / "1.json").unlink()
    assert {r.part for r in load("math", data_dir=tmp_path).rows} == {"any"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "families"])
def test_missing_data_names_the_path_and_the_remedies(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRADEWINDS_DATA_DIR", raising=False)  # the reader's own
    for arguments in ({"data_dir": tmp_path}, {"cache_dir": tmp_path}):
        with pytest.raises(DataSetError) as caught:
            load(name, **arguments)  # type: ignore[arg-type]
        assert str(tmp_path / name) in str(caught.value)
        assert "--data-dir" in str(caught.value)
        assert "--download" in str(caught.value)


DAMAGE = [
    ("mmlu_pro", "questions.jsonl", lines(QUESTION) + "{", "line 2: not JSON"),
    (
        "mmlu_pro",
        "questions.jsonl",
        lines({**QUESTION, "answer": "D"}),
        "line 1: answer: 'D' is none of the 3",
    ),
    ("mmlu_pro", "questions.jsonl", lines({**QUESTION, "answer": ""}), "line 1: answer: '' is none"),
    ("mmlu_pro", "questions.jsonl", lines({**QUESTION, "options": ["x"]}), "line 1: options"),
    (
        "mmlu_pro",
        "questions.jsonl",
        lines({k: v for k, v in QUESTION.items() if k != "answer"}),
        "line 1: answer",
    ),
    ("mmlu_pro", "questions.jsonl", lines({**QUESTION, "question": " "}), "line 1: question"),
    ("mmlu_pro", "questions.jsonl", lines(QUESTION, QUESTION), "twice"),
    ("mmlu_pro", "questions.jsonl", "\n\n", "holds no rows"),
    (
        "gsm8k",
        "test.jsonl",
        lines({"question": "?", "answer": "so it is 12"}),
        "line 1: answer: no final number",
    ),
    (
        "gsm8k",
        "test.jsonl",
        lines({"question": "?", "answer": "#### many"}),
        "line 1: answer: no final number",
    ),
    ("gsm8k", "test.jsonl", lines(["?"]), "line 1: record"),
    ("math", "a.jsonl", lines({**PROBLEM, "solution": "2"}), "line 1: neither an answer nor a boxed"),
    ("math", "a.json", "[1", "line 1: not JSON"),
    ("math", "a.json", json.dumps({**PROBLEM, "problem": ""}), "problem"),
    ("bbh", "snarks.json", "[]", "record"),
    ("bbh", "snarks.json", json.dumps({"examples": []}), "no rows"),
    (
        "bbh",
        "snarks.json",
        json.dumps({"examples": [{"input": "?", "target": "x"}, {"input": "?"}]}),
        "row 1: target",
    ),
    ("bbh", "snarks.json", json.dumps({"examples": [{"input": "?", "target": " "}]}), "row 0: target"),
]


@pytest.mark.parametrize(("name", "file", "content", "message"), DAMAGE)
def test_damaged_files_name_file_and_row(
    name: str, file: str, content: str, message: str, tmp_path: Path, folder: Callable[[str], Path]
) -> None:
    if name == "bbh":
        write_bbh(folder("bbh"))
    (folder(name) / file).write_text(content)
    with pytest.raises(DataSetError) as caught:
        load(name, data_dir=tmp_path)
    assert message in str(caught.value)
    if message != "twice":
        assert str(tmp_path / name / file) in str(caught.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path, folder: Callable[[str], Path]) -> None:
    (folder("gsm8k") / "test.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataSetError, match=r"test\.jsonl cannot be read"):
        load("gsm8k", data_dir=tmp_path)


def test_the_cache_follows_the_users_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "tradewinds" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_dir() == Path.home() / ".cache" / "tradewinds" / "data"


# The recorded files themselves


@pytest.mark.parametrize(
    ("name", "rows", "types"), [("bbh", 6511, 27), ("gsm8k", 1319, 1), ("mmlu_pro", 8025, 14)]
)
def test_recorded_data_is_read_whole_and_grades_its_own_answers(name: str, rows: int, types: int) -> None:
    if not (RECORDED / name).is_dir():
        pytest.skip(f"no recorded data at {RECORDED / name}; set TRADEWINDS_DATA_DIR")
    loaded = load(name, data_dir=RECORDED)
    if name == "gsm8k":
        loaded = DataSet(
            name=name, label=name, rows=tuple(r for r in loaded.rows if r.task_id.startswith("gsm8k/test/"))
        )
    assert (len(loaded.rows), len(loaded.types)) == (rows, types)
    for one in loaded.rows:
        assert one.answer in one.choices or not one.choices
        assert grade(one, one.answer), one.task_id
        assert grade(one, f"Step by step ...\nThe answer is {one.answer}"), one.task_id
        for wrong in one.choices:
            assert grade(one, f"The answer is {wrong}.") == (wrong == one.answer), one.task_id


def test_agentnets_rows_are_as_published() -> None:
    if not (RECORDED / "bbh" / bbh.SPLIT_FILE).is_file():
        pytest.skip(f"no recorded split at {RECORDED / 'bbh'}; set TRADEWINDS_DATA_DIR")
    loaded = load("bbh", data_dir=RECORDED, agentnet_split=True)
    parts = split(loaded, warm_up_per_type=None, test_per_type=None, seed=1)
    assert Counter(r.task_type for r in parts.test) == dict.fromkeys(loaded.types, 5)
    assert len(loaded.types) == 20
    assert sum(r.part == "warm_up" for r in loaded.rows) == 624

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import SettingsError
from experiments.datasets.rows import DataSetError, Row
from experiments.pools import plan_of
from experiments.settings import RunSettings, checked, load_pool, override

ROOT = Path(__file__).resolve().parents[2]
POOLS = sorted((ROOT / "experiments").rglob("pools/*.yaml"))
ROWS = (
    Row(
        task_id="t1", task_type="sums", problem="1+1?", answer="2", answer_format="a number", grader="number"
    ),
)


def values(**changes: Any) -> dict[str, Any]:
    agents = [
        {"name": "a1", "backend": {"kind": "simulated"}},
        {"name": "a2", "backend": {"kind": "simulated"}},
    ]
    return {"experiment": "deals", "pool": {"name": "p", "agents": agents}} | changes


def write_verdicts(folder: Path, models: Sequence[str], verdicts: Sequence[Sequence[str]]) -> None:
    """A file like the recorded one: question 1, 2, ... and one column a model."""
    (folder / "mmlu_pro").mkdir()
    lines = [",".join(["question_id", "category", *models])]
    lines += [",".join([str(number), "law", *line]) for number, line in enumerate(verdicts, start=1)]
    (folder / "mmlu_pro" / "official_model_correctness.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("path", POOLS, ids=lambda path: path.stem)
def test_every_shipped_pool_makes_a_plan(path: Path, tmp_path: Path) -> None:
    pool = load_pool(path)
    recorded = [a["backend"]["model"] for a in pool["agents"] if a["backend"]["kind"] == "replay"]
    rows = [replace(row, task_id=f"mmlu_pro/{number}") for number, row in enumerate(ROWS, start=1)]
    write_verdicts(tmp_path, recorded, [["1"] * len(recorded)] * len(rows))
    settings = checked(
        {"experiment": "deals", "pool": pool, "dataset": {"data_dir": str(tmp_path)}}, str(path)
    )
    plan = plan_of(settings, rows, {})
    assert plan.name == path.stem
    assert [agent.agent for agent in plan.agents] == list(range(len(plan.agents)))


def replay_settings(data_dir: Path, model: str = "m") -> RunSettings:
    agents = [{"name": "a1", "backend": {"kind": "replay", "model": model}}]
    return checked(
        {
            "experiment": "deals",
            "pool": {"name": "p", "agents": agents},
            "dataset": {"data_dir": str(data_dir)},
        },
        "here",
    )


def test_replay_agents_are_told_the_verdicts_of_their_rows_only(tmp_path: Path) -> None:
    write_verdicts(tmp_path, ["other", "m"], ["01", "10", "11"])
    rows = [replace(ROWS[0], task_id=f"mmlu_pro/{number}") for number in (1, 2)]
    plan = plan_of(replay_settings(tmp_path), rows, {})
    assert plan.agents[0].backend.options["verdicts"] == {"mmlu_pro/1": True, "mmlu_pro/2": False}


def test_missing_verdicts_name_the_model_or_the_task(tmp_path: Path) -> None:
    write_verdicts(tmp_path, ["m"], ["1", [""]])
    row = replace(ROWS[0], task_id="mmlu_pro/7")
    with pytest.raises(SettingsError, match=r"'x'.*there are: m"):
        plan_of(replay_settings(tmp_path, "x"), [row], {})
    with pytest.raises(SettingsError, match=r"mmlu_pro/7.*--dataset mmlu_pro"):
        plan_of(replay_settings(tmp_path), [row], {})


def test_a_damaged_verdict_file_is_named(tmp_path: Path) -> None:
    write_verdicts(tmp_path, ["m"], ["1", "2"])
    with pytest.raises(DataSetError, match=r"official_model_correctness\.csv, line 3"):
        plan_of(replay_settings(tmp_path), ROWS[:1], {})


def test_there_are_pools() -> None:
    assert {path.stem for path in POOLS} >= {"specialists", "smollm2-x3", "simulated-x3", "recorded-x3"}


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("pool.settings.mechanism.quality_weight=-1", "quality_weight"),
        ("pool.agents.0.slots=0", "slots"),
        ("pool.settings.mechanism.colour=red", "colour"),
        ("warmup=-1", "warmup"),
        ("test=0", "test"),
        ("arrivals.rate_per_s=0", "rate_per_s"),
        ("runtime=moon", "runtime"),
        ("pool.agents.1.name=a1", "a1"),
        ("pool.agents.0.backend.kind=oracle", "kind"),
        ("pool.settings.mechanism.quality_weight=.inf", "quality_weight"),
        ("stall_s=.inf", "stall_s"),
        ("ingress_alpha=1.0e+308", "ingress_alpha"),
        ("arrivals.rate_per_s=1.0e-310", "rate_per_s"),
        ("dataset.types=[a, b, a]", "'a'"),
        ("pool.name=../x", r"pool\.name"),
        (f"pool.name={'x' * 300}", r"pool\.name"),
    ],
)
def test_a_wrong_setting_is_named(assignment: str, named: str) -> None:
    wrong = values()
    override(wrong, assignment)
    with pytest.raises(SettingsError, match=named):
        checked(wrong, "run deals")


def test_a_wrong_pool_is_not_printed_whole() -> None:
    wrong = values()
    override(wrong, "pool.agents.1.name=a1")
    with pytest.raises(SettingsError) as error:
        checked(wrong, "run deals")
    assert "simulated" not in str(error.value)


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("pool.agents.0.backend.options.wait_s=1", "wait_s"),
        ("pool.agents.0.backend.options.service_s=.inf", "service_s"),
        ("pool.settings.mechanism.policy=guess", "guess"),
        ("pool.topology={kind: edges, edges: [[0, 1]]}", "agent 0"),
        ("pool.agents.0.backend={kind: vllm_engine, model: no-such-model}", "no-such-model"),
    ],
)
def test_a_pool_that_cannot_be_built_is_refused_before_anything_starts(assignment: str, named: str) -> None:
    wrong = values()
    override(wrong, assignment)
    with pytest.raises(SettingsError, match=named):
        plan_of(checked(wrong, "run deals"), ROWS, {})


@pytest.mark.parametrize("assignment", ["seed", "=1", "pool.agents.9.slots=1", "pool.agents.x=1", "seed={"])
def test_an_assignment_that_leads_nowhere_is_refused(assignment: str) -> None:
    with pytest.raises(SettingsError):
        override(values(), assignment)


def test_a_pool_file_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        load_pool(tmp_path / "nowhere.yaml")
    (tmp_path / "torn.yaml").write_text("agents: [")
    with pytest.raises(SettingsError, match="torn"):
        load_pool(tmp_path / "torn.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="bytes"):
        load_pool(tmp_path / "bytes.yaml")
    (tmp_path / "list.yaml").write_text("- a1")
    with pytest.raises(SettingsError, match="mapping"):
        load_pool(tmp_path / "list.yaml")


@given(
    seed=st.integers(0, 2**31),
    warmup=st.integers(0, 10**6),
    weight=st.floats(0, 1e6),
    slots=st.integers(1, 99),
)
def test_saved_settings_read_back_the_same(seed: int, warmup: int, weight: float, slots: int) -> None:
    given_values = values(seed=seed, warmup=warmup)
    override(given_values, f"pool.settings.mechanism.quality_weight={yaml.safe_dump(weight).split()[0]}")
    override(given_values, f"pool.agents.0.slots={slots}")
    settings = checked(given_values, "run deals")
    assert RunSettings.model_validate_json(settings.model_dump_json()) == settings
    assert settings.pool.agents[0].slots == slots

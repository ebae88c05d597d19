"""Studies on a user's own pool and data: what is asked for is what is run, and what cannot count is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from actors.errors import SettingsError
from experiments.__main__ import main
from experiments.deals.studies.arms import deals, mechanism
from experiments.deals.studies.arrivals import capacity_of
from experiments.deals.studies.catalogue import STUDIES
from experiments.deals.studies.cells import Arm, Cell, run_cell
from experiments.deals.studies.command import study_settings
from experiments.deals.studies.pools import backend_of, capacity_per_s, pool
from experiments.deals.studies.study import StudyFolder, is_study, point_values

SIMULATED, REPLAY, REAL = pool("simulated-unlike-x3"), pool("recorded-x3"), pool("specialists")


def write_pool(folder: Path, raw: dict[str, Any]) -> Path:
    path = folder / f"{raw['name']}.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


def mine(folder: Path, name: str = "mine", rate: float = 1.0) -> Path:
    backend = {"kind": "simulated", "model": "m", "options": {"success_rate": rate, "service_s": 1.0}}
    agents = [{"name": f"agent-{n}", "backend": backend} for n in range(2)]
    settings = {"executor": {"kind": "direct"}, "memory": {"kind": "none"}}
    return write_pool(folder, {"name": name, "agents": agents, "settings": settings})


def test_a_given_pool_is_what_is_run(tmp_path: Path) -> None:
    settings = study_settings("deals-vsweep", pools=[mine(tmp_path)], seeds=1, warmup=12, test=12)
    assert settings.backend == "simulated"
    found = STUDIES["deals-vsweep"].cells(settings)
    assert {cell.settings().pool.name for cell in found} == {"mine"}
    assert run_cell(found[0])["accuracy"] == 1.0, "its agents are always right"


def test_each_pool_is_a_point_where_a_study_takes_several(tmp_path: Path) -> None:
    pools = [mine(tmp_path, "weak", 0.2), mine(tmp_path, "strong", 0.9)]
    settings = study_settings("deals-accuracy", pools=pools, seeds=1, warmup=12, test=12)
    assert {cell.point for cell in STUDIES["deals-accuracy"].cells(settings)} == {"weak", "strong"}
    with pytest.raises(SettingsError, match="takes one pool, 2 were given"):
        study_settings("deals-vsweep", pools=pools)


def test_the_data_set_that_is_asked_for_is_what_is_run(tmp_path: Path) -> None:
    asked = study_settings("deals-vsweep", backend="simulated", dataset={"types": ["word_sorting"]}, test=4)
    (cell, *_) = STUDIES["deals-vsweep"].cells(asked)
    assert cell.settings().dataset.types == ("word_sorting",)
    other = study_settings("deals-vsweep", backend="vllm", dataset={"name": "bbh"})
    (cell, *_) = STUDIES["deals-vsweep"].cells(other)
    assert (cell.settings().dataset.name, cell.settings().dataset.types) == ("bbh", ())
    own = study_settings("deals-vsweep", backend="vllm")
    (cell, *_) = STUDIES["deals-vsweep"].cells(own)
    assert "word_sorting" in cell.settings().dataset.types
    assert cell.settings().runtime == "ray"


def test_backends_are_told_by_their_agents_and_never_mixed() -> None:
    assert [backend_of([raw]) for raw in (SIMULATED, REPLAY, REAL)] == ["simulated", "replay", "vllm"]
    with pytest.raises(SettingsError, match=r"all recorded, all simulated, or all real.*replay, simulated"):
        backend_of([SIMULATED, REPLAY])
    with pytest.raises(SettingsError, match="pool broken cannot be run"):
        backend_of([{"name": "broken", "agents": []}])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["deals-vsweep", "--quality-weight", "3"], "leave out --quality-weight"),
        (["deals-vsweep", "--record-logs"], "leave out --record-logs"),
        (["deals-vsweep", "--backend", "replay", "--runtime", "ray"], "under virtual time"),
        (["deals-vsweep", "--backend", "vllm", "--runtime", "simulation"], "real time"),
        (["deals-arrivals", "--backend", "vllm"], "give it with --rate"),
        (["deals-arrivals", "--rate", "-1"], "above 0"),
        (["deals-vsweep", "--pool", "nothing.yaml"], "no pool file nothing.yaml"),
    ],
)
def test_what_a_study_would_ignore_is_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments, "--runs-dir", str(tmp_path)]) == 1
    assert said in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.parametrize(
    "flag", [["--seeds", "3"], ["--jobs", "2"], ["--half", "tune"], ["--backend", "replay"]]
)
def test_what_only_a_study_takes_is_refused_by_a_run(
    flag: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "deals", *flag, "--runs-dir", str(tmp_path)]) == 2
    assert f"only studies (see `list`) take {flag[0]}" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_study_of_before_pools_were_kept_is_still_read(tmp_path: Path) -> None:
    folder = StudyFolder.create(tmp_path, study_settings("deals-router", seeds=1))
    kept = json.loads((folder.path / "settings.json").read_text())
    for name in ("pools", "dataset", "runtime", "capacity_per_s"):
        del kept[name]
    (folder.path / "settings.json").write_text(json.dumps(kept))
    study = STUDIES["deals-router"]
    filled = study.settings_of(folder)
    assert [raw["name"] for raw in filled.pools] == ["recorded-x3"]
    (cell, *_) = study.cells(filled)
    assert cell.settings().dataset.name == "mmlu_pro"
    assert cell.settings().arrivals.rate_per_s == 3.0, "as its finished cells had it"
    (folder.path / "settings.json").write_text("{}")
    with pytest.raises(SettingsError, match=r"settings\.json is damaged"):
        folder.settings()


def test_studies_and_runs_are_told_apart_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = StudyFolder.create(tmp_path, study_settings("deals-vsweep", seeds=1)).path
    never_started = tmp_path / "deals-x"  # its task stream, written last, is missing
    never_started.mkdir()
    for name in ("settings.json", "machine.json"):
        (never_started / name).write_text("{}")
    assert [is_study(path) for path in (study, never_started, tmp_path / "nothing")] == [True, False, False]
    assert main(["list", "--runs-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"studies:\n{study.name}" in said
    assert "deals-x" not in said
    assert main(["run", "--resume", "deals-x", "--runs-dir", str(tmp_path)]) == 1
    assert "not a run folder" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("executor", ["direct", "deliberate"])
def test_capacity_is_what_full_slots_serve(executor: str) -> None:
    raw = json.loads(json.dumps(SIMULATED))
    raw["settings"]["executor"] = {"kind": executor}
    settings = study_settings("deals-vsweep", backend="simulated", seeds=1, warmup=0, test=2000)
    values = point_values(raw, settings)
    figures = run_cell(
        Cell(arm=Arm(name="a", changes=mechanism(policy="join_shortest")), point="", seed=1, values=values)
    )
    rate_per_s = float(figures["throughput_per_min"]) / 60  # type: ignore[arg-type]
    busy = float(figures["utilisation"])  # type: ignore[arg-type]
    assert rate_per_s / busy == pytest.approx(capacity_per_s(raw), rel=0.05)


def test_a_pool_that_takes_no_time_has_no_capacity() -> None:
    raw = json.loads(json.dumps(SIMULATED))
    raw["agents"][0]["backend"]["options"]["service_s"] = 0
    with pytest.raises(SettingsError, match="'a1' of pool 'simulated-unlike-x3' takes no time"):
        capacity_per_s(raw)
    real = study_settings("deals-arrivals", backend="vllm", capacity_per_s=5.0)
    assert capacity_of(real) == 5.0


def _left(group: int, patience_s: float = 60.0) -> list[str]:
    """What of a process group still runs after a while. One that has ended but that nobody has waited for, as where
    no init adopts orphans, does not count."""
    until = time.monotonic() + patience_s
    while True:
        left = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(process.cmdline()))
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.2)


def test_a_terminated_study_says_how_to_go_on_and_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments", "run", "deals-vsweep", "--backend", "simulated"]
    command += ["--seeds", "200", "--jobs", "2", "--runs-dir", str(tmp_path)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("*/cells.jsonl")) and time.monotonic() < until:
            time.sleep(0.1)
        os.kill(started.pid, signal.SIGTERM)
        said, _ = started.communicate(timeout=60)
        assert _left(started.pid) == []
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 130
    assert "go on with: run --resume" in said
    (folder,) = tmp_path.iterdir()
    assert StudyFolder(folder).done()


def test_the_paper_s_pools_are_its_models_and_settings() -> None:
    models = {
        "Qwen/Qwen2.5-7B-Instruct",
        "mistralai/Mistral-7B-Instruct-v0.3",
        "meta-llama/Llama-3.1-8B-Instruct",
    }
    for size in (3, 5, 7):
        raw = pool(f"paper-mixed-x{size}")
        settings = study_settings("deals-vsweep", backend="vllm")
        checked = Cell(arm=deals(80), point="", seed=1, values=point_values(raw, settings)).settings().pool
        assert len(checked.agents) == size
        assert {agent.backend.model for agent in checked.agents} == models
        assert {agent.slots for agent in checked.agents} == {9}
        executor = checked.settings.executor
        assert (executor.kind, executor.max_tokens, executor.temperature, executor.seed) == (
            "deliberate",
            2048,
            0,
            1,
        )
        assert checked.encoder is not None
        assert checked.encoder.model == "BAAI/bge-large-en-v1.5"

"""CONTRIBUTING's "Add a policy", followed to the letter."""

import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from actors.routing import policies
from experiments.__main__ import main
from tests.actors.samples import make_situation

ROOT = Path(__file__).resolve().parents[2]


def section() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return text.split("## Add a policy")[1].split("\n## ")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section(), flags=re.DOTALL)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> policies.Policy:
    """The policy of the tutorial, entered where it says."""
    (code,) = blocks("python")
    module = types.ModuleType("actors.routing.half_full")
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    assert '"half_full": half_full' in section()
    monkeypatch.setitem(policies.POLICIES, "half_full", module.half_full)  # type: ignore[arg-type]
    found: policies.Policy = module.half_full
    return found


def test_the_tutorials_policy_does_what_its_docstring_says(added: policies.Policy) -> None:
    rng = np.random.default_rng(1)

    def choose(loads: list[float], qualities: list[float]) -> int | None:
        situation = make_situation(
            1, loads, slots_J=np.full(len(loads), 9.0), quality_J=np.array(qualities, dtype=float)
        )
        return added(situation, rng).column

    assert choose([0, 0], [0.6, 0.9]) == 1
    assert choose([0, 5], [0.6, 0.9]) == 0, "more than half full"
    assert choose([0, 0], [0.4, 0.5]) is None, "not better than oneself"
    assert choose([], []) is None


def test_the_tutorials_commands_run(
    added: policies.Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    runs = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]
    assert len(runs) == 2
    for line in runs:
        python, _, module, *arguments = shlex.split(line)
        assert (python, module) == ("python", "experiments")
        assert main([*arguments, "--runs-dir", str(tmp_path)]) == 0
    first, second = sorted(path.name for path in tmp_path.iterdir())
    assert main(["compare", first, second, "--runs-dir", str(tmp_path)]) == 0
    assert sys.modules.get("actors.routing.half_full") is None, "nothing of the tutorial stays"

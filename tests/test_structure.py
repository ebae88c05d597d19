"""docs/structure.md is the picture of the tree: each says what the other has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("actors", "serving", "retrieval", "experiments")


def modules() -> set[str]:
    """Every module and package of the product, as a path from the root."""
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            place = path.relative_to(ROOT).as_posix()
            found.add(place.removesuffix("__init__.py") if path.name == "__init__.py" else place)
    return found


def documented() -> set[str]:
    text = (ROOT / "docs/structure.md").read_text()
    return set(re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE))


def test_the_module_table_lists_the_tree() -> None:
    assert documented() == modules()


def test_the_top_level_is_what_tools_and_users_expect() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=False, capture_output=True, text=True
    ).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    assert {path.split("/")[0] for path in tracked} <= {
        *PACKAGES,
        *("tests", "docs", "pyproject.toml", "cluster.yaml", "README.md", "Makefile", "CONTRIBUTING.md"),
        *("CHANGELOG.md", "LICENSE", ".ci", ".github", ".gitignore", ".rayignore"),
    }


@pytest.mark.parametrize(
    "module", ["experiments.settings", "actors.agent.state", "serving.api", "retrieval.api"]
)
def test_light_modules_load_nothing_heavy(module: str) -> None:
    heavy = (
        "ray",
        "torch",
        "vllm",
        "faiss",
        "transformers",
        "sentence_transformers",
        "matplotlib",
        "pyarrow",
    )
    code = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"

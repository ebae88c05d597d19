"""Fetches data sets from where their authors publish them into the user's cache. Only when asked to.

Repository files come from a pinned commit. Hub files are converted from Parquet to JSON lines once.
"""

import http.client
import json
import os
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from experiments.datasets import bbh, gsm8k, mmlu_pro
from experiments.datasets.rows import DataSetError

BBH_URL = "https://raw.githubusercontent.com/suzgunmirac/BIG-Bench-Hard/9ee07bd481feebf959a6b59d61ea57bdcf30964d/bbh"
GSM8K_URL = (
    "https://raw.githubusercontent.com/openai/grade-school-math/3101c7d5072418e28b9008a6636bde82a006892c"
    "/grade_school_math/data"
)
MMLU_PRO_REPOSITORY = "TIGER-Lab/MMLU-Pro"
MATH_REPOSITORY = "EleutherAI/hendrycks_math"
MATH_SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)

_TIMEOUT_S = 60.0


def download_bbh(folder: Path, source_url: str = BBH_URL) -> None:
    """All task files that the folder lacks. Raises DataSetError."""
    for task in bbh.TASKS:
        _fetch(f"{source_url}/{task}.json", folder / f"{task}.json")


def download_gsm8k(folder: Path, source_url: str = GSM8K_URL) -> None:
    """The train and test files that the folder lacks. Raises DataSetError."""
    for name in (gsm8k.TRAIN_FILE, gsm8k.TEST_FILE):
        _fetch(f"{source_url}/{name}", folder / name)


def download_mmlu_pro(folder: Path, source_url: str | None = None) -> None:
    """The test questions from the hub; `source_url` names another hub endpoint. Raises DataSetError."""
    _fetch_hub_table(
        MMLU_PRO_REPOSITORY, "data/test-00000-of-00001.parquet", folder / mmlu_pro.FILE, source_url
    )


def download_math(folder: Path, source_url: str | None = None) -> None:
    """Train and test of every subject from the hub. Raises DataSetError."""
    for part in ("train", "test"):
        for subject in MATH_SUBJECTS:
            name = f"{subject}/{part}-00000-of-00001.parquet"
            _fetch_hub_table(MATH_REPOSITORY, name, folder / part / f"{subject}.jsonl", source_url)


def _fetch(url: str, target: Path) -> None:
    if target.is_file():
        return
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
            content: bytes = response.read()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DataSetError(
            f"{url} could not be fetched ({error}); get the file by other means and name its folder with --data-dir"
        ) from error
    _write(target, content)


def _fetch_hub_table(repository: str, name: str, target: Path, endpoint: str | None) -> None:
    if target.is_file():
        return
    from huggingface_hub import hf_hub_download
    from pyarrow import ArrowException, parquet

    where = f"{name} of the hub's data set {repository}"
    try:
        path = hf_hub_download(repository, name, repo_type="dataset", endpoint=endpoint)
    except (OSError, ValueError) as error:  # the hub's own errors are among these
        raise DataSetError(
            f"{where} could not be fetched ({error}); "
            "get the rows by other means and name their folder with --data-dir"
        ) from error
    try:
        records: list[Mapping[str, object]] = parquet.read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise DataSetError(
            f"{where}, kept at {path}, is no Parquet table ({error}); remove it and retry"
        ) from error
    _write(target, "".join(json.dumps(record) + "\n" for record in records).encode())


def _write(target: Path, content: bytes) -> None:
    """Whole or not at all: an interrupted download leaves no half file that a later run would read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

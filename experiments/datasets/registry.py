"""Data sets by name."""

import os
from collections.abc import Callable
from pathlib import Path

from experiments.datasets import download as downloads
from experiments.datasets.bbh import load_bbh
from experiments.datasets.competition_math import load_math
from experiments.datasets.families.catalogue import load_families
from experiments.datasets.gsm8k import load_gsm8k
from experiments.datasets.mmlu_pro import load_mmlu_pro
from experiments.datasets.rows import DataSet, DataSetError
from serving.models import cache_folder

_READERS: dict[str, Callable[[Path], DataSet]] = {
    "bbh": load_bbh,
    "gsm8k": load_gsm8k,
    "math": load_math,
    "mmlu_pro": load_mmlu_pro,
}
_DOWNLOADS: dict[str, Callable[..., None]] = {
    "bbh": downloads.download_bbh,
    "gsm8k": downloads.download_gsm8k,
    "math": downloads.download_math,
    "mmlu_pro": downloads.download_mmlu_pro,
}
NAMES = ("families", *_READERS)


def default_cache_dir() -> Path:
    """Where downloads are kept: beside the models, in the user's cache folder."""
    return cache_folder() / "data"


def default_data_dir() -> Path | None:
    """The folder that `$TRADEWINDS_DATA_DIR` names; None where it names none."""
    named = os.environ.get("TRADEWINDS_DATA_DIR")
    return Path(named).expanduser() if named else None


def load(
    name: str,
    *,
    data_dir: Path | None = None,
    download: bool = False,
    cache_dir: Path | None = None,
    source_url: str | None = None,
    agentnet_split: bool = False,
    seed: int = 1,
    rows_per_type: int = 200,
    difficulty: int = 2,
) -> DataSet:
    """One of `NAMES`. Raises DataSetError, naming the path and the remedy.

    Recorded rows are read from `<data_dir>/<name>` (`$TRADEWINDS_DATA_DIR` if no folder is given), else from
    `<cache_dir>/<name>`, where `download` fetches them to if they are not there; `source_url` names another
    place than the authors'. `agentnet_split` is for bbh; `seed`, `rows_per_type` and `difficulty` are for
    families.
    """
    if name == "families":
        return load_families(seed=seed, rows_per_type=rows_per_type, difficulty=difficulty)
    if name not in _READERS:
        raise DataSetError(f"no data set {name!r}; known: {', '.join(NAMES)}")
    data_dir = data_dir if data_dir is not None else default_data_dir()
    folder = (data_dir if data_dir is not None else cache_dir or default_cache_dir()) / name
    if download and not (data_dir is not None and folder.is_dir()):
        folder = (cache_dir or default_cache_dir()) / name
        if source_url is None:
            _DOWNLOADS[name](folder)
        else:
            _DOWNLOADS[name](folder, source_url)
    if name == "bbh":
        return load_bbh(folder, agentnet_split=agentnet_split)
    return _READERS[name](folder)

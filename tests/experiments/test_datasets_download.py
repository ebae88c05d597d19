"""Downloads, from a server on this machine."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from experiments.datasets import bbh
from experiments.datasets.registry import load
from experiments.datasets.rows import DataSetError

GSM8K = json.dumps({"question": "How many?", "answer": "#### 3"}).encode() + b"\n"
BBH = json.dumps({"examples": [{"input": "?", "target": "yes"}]}).encode()


@pytest.fixture(autouse=True)
def no_data_folder_of_the_readers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRADEWINDS_DATA_DIR", raising=False)


class FileServer(http.server.ThreadingHTTPServer):
    """Serves bytes by path, and what a hub says of a file; remembers what was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.cut_short: set[str] = set()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        self._reply(with_body=True)

    def do_HEAD(self) -> None:
        self._reply(with_body=False)

    def _reply(self, with_body: bool) -> None:
        if with_body:
            self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", f'"{sha256(content).hexdigest()}"')
        self.end_headers()
        if with_body:
            cut = self.path in self.server.cut_short
            self.wfile.write(content[: len(content) // 2] if cut else content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_files_are_fetched_once_and_then_read_from_the_cache(server: FileServer, tmp_path: Path) -> None:
    server.files = {"/train.jsonl": GSM8K, "/test.jsonl": GSM8K}
    for _ in range(2):
        loaded = load("gsm8k", download=True, cache_dir=tmp_path, source_url=server.url)
        assert [row.part for row in loaded.rows] == ["warm_up", "test"]
    assert server.asked == ["/train.jsonl", "/test.jsonl"]
    assert load("gsm8k", cache_dir=tmp_path) == loaded


def test_bbh_fetches_all_tasks(server: FileServer, tmp_path: Path) -> None:
    server.files = {f"/{task}.json": BBH for task in bbh.TASKS}
    loaded = load("bbh", download=True, cache_dir=tmp_path, source_url=server.url)
    assert len(loaded.rows) == len(bbh.TASKS) == 27


def test_a_users_folder_comes_before_a_download(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "own" / "gsm8k").mkdir(parents=True)
    (tmp_path / "own" / "gsm8k" / "test.jsonl").write_bytes(GSM8K * 2)
    loaded = load(
        "gsm8k",
        data_dir=tmp_path / "own",
        download=True,
        cache_dir=tmp_path / "cache",
        source_url=server.url,
    )
    assert len(loaded.rows) == 2
    assert server.asked == []


def test_a_file_that_is_not_there_is_named_with_the_remedy(server: FileServer, tmp_path: Path) -> None:
    server.files = {"/train.jsonl": GSM8K}
    with pytest.raises(DataSetError, match=rf"{server.url}/test\.jsonl .*404.*--data-dir"):
        load("gsm8k", download=True, cache_dir=tmp_path, source_url=server.url)


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataSetError, match="could not be fetched"):
        load("gsm8k", download=True, cache_dir=tmp_path, source_url="http://127.0.0.1:9")
    with pytest.raises(DataSetError, match="could not be fetched"):
        load("gsm8k", download=True, cache_dir=tmp_path, source_url="no address")


def test_half_a_file_is_not_kept(server: FileServer, tmp_path: Path) -> None:
    server.files = {"/train.jsonl": GSM8K, "/test.jsonl": GSM8K}
    server.cut_short = {"/test.jsonl"}
    with pytest.raises(DataSetError, match=r"test\.jsonl could not be fetched"):
        load("gsm8k", download=True, cache_dir=tmp_path, source_url=server.url)
    assert [path.name for path in (tmp_path / "gsm8k").iterdir()] == ["train.jsonl"]
    server.cut_short = set()
    assert len(load("gsm8k", download=True, cache_dir=tmp_path, source_url=server.url).rows) == 2


HUB_LOAD = """
import sys
from pathlib import Path
from experiments.datasets.registry import load
from experiments.datasets.rows import DataSetError
name, cache, url = sys.argv[1:]
try:
    data_set = load(name, download=True, cache_dir=Path(cache), source_url=url)
except DataSetError as error:
    print("error:", error)
else:
    print(len(data_set.rows), data_set.types, sorted({row.part for row in data_set.rows}))
"""


def load_from_hub(name: str, url: str, folder: Path) -> str:
    """In a process of its own: the hub's client reads its settings, `offline` among them, when imported."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(folder / "hub"),
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, "-c", HUB_LOAD, name, str(folder / "cache"), url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout.strip()


def parquet(folder: Path, records: list[dict[str, object]]) -> bytes:
    from pyarrow import Table
    from pyarrow import parquet as tables

    tables.write_table(Table.from_pylist(records), folder / "table.parquet")
    return (folder / "table.parquet").read_bytes()


def test_hub_tables_become_rows(server: FileServer, tmp_path: Path) -> None:
    question = {
        "question_id": 1,
        "question": "Which?",
        "options": ["x", "y"],
        "answer": "A",
        "answer_index": 0,
        "cot_content": "",
        "category": "law",
        "src": "s",
    }
    problem: dict[str, object] = {
        "problem": "1+1?",
        "level": "1",
        "type": "Algebra",
        "solution": "\\boxed{2}",
    }
    mmlu_path = "/datasets/TIGER-Lab/MMLU-Pro/resolve/main/data/test-00000-of-00001.parquet"
    server.files[mmlu_path] = parquet(tmp_path, [question])
    table = parquet(tmp_path, [problem])
    for subject in (
        "algebra",
        "counting_and_probability",
        "geometry",
        "intermediate_algebra",
        "number_theory",
        "prealgebra",
        "precalculus",
    ):
        for part in ("train", "test"):
            name = f"{subject}/{part}-00000-of-00001.parquet"
            server.files[f"/datasets/EleutherAI/hendrycks_math/resolve/main/{name}"] = table
    assert load_from_hub("mmlu_pro", server.url, tmp_path) == "1 ('law',) ['any']"
    assert load_from_hub("math", server.url, tmp_path) == "14 ('algebra',) ['test', 'warm_up']"


def test_hub_failures_name_the_table(server: FileServer, tmp_path: Path) -> None:
    reply = load_from_hub("mmlu_pro", server.url, tmp_path)
    assert reply.startswith(
        "error: data/test-00000-of-00001.parquet of the hub's data set TIGER-Lab/MMLU-Pro"
    )
    assert "--data-dir" in reply
    path = "/datasets/TIGER-Lab/MMLU-Pro/resolve/main/data/test-00000-of-00001.parquet"
    server.files[path] = b"no table"
    assert "is no Parquet table" in load_from_hub("mmlu_pro", server.url, tmp_path)


def test_nothing_heavy_is_loaded_for_families() -> None:
    code = (
        "import sys\n"
        "from experiments.datasets.registry import load\n"
        "load('families', rows_per_type=2)\n"
        "assert not {'huggingface_hub', 'pyarrow', 'math_verify', 'sympy', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

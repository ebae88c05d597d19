import subprocess
import sys
from pathlib import Path

import pytest

from serving.api import BackendSpec, EncoderSpec
from serving.build import build_backend, build_encoder, environment
from serving.errors import FinalServingError


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(FinalServingError, match=r"'vlm'.*simulated, replay, openai_http, vllm_engine"):
        build_backend(BackendSpec(kind="vlm"))
    with pytest.raises(FinalServingError, match=r"'bm25'.*sentence_transformers, hashing"):
        build_encoder(EncoderSpec(kind="bm25"))


@pytest.mark.parametrize("kind", ["simulated", "replay", "openai_http", "vllm_engine"])
def test_an_unknown_option_lists_the_known_ones(kind: str) -> None:
    options = {"temprature": 1}
    if kind == "openai_http":
        options["base_url"] = "http://127.0.0.1:9/v1"  # type: ignore[assignment]
    with pytest.raises(FinalServingError, match=r"temprature: .*known options: \w+, \w+"):
        build_backend(BackendSpec(kind=kind, model="m", options=options))


def test_an_impossible_value_names_its_option() -> None:
    with pytest.raises(FinalServingError, match="success_rate: input should be less than or equal to 1"):
        build_backend(BackendSpec(kind="simulated", options={"success_rate": 1.5}))
    with pytest.raises(FinalServingError, match=r"dimensions: .*known options: dimensions"):
        build_encoder(EncoderSpec(kind="hashing", options={"dimensions": 0}))


def test_only_engines_that_thread_need_an_environment() -> None:
    assert environment(BackendSpec(kind="simulated")) == {}
    assert environment(EncoderSpec(kind="sentence_transformers"))["OMP_NUM_THREADS"] == "1"
    packaged = environment(BackendSpec(kind="vllm_engine", model="tiny-random-llama"))
    assert packaged["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert packaged["HF_HUB_OFFLINE"] == "1"
    from_a_hub = environment(BackendSpec(kind="vllm_engine", model="Qwen/Qwen2.5-7B-Instruct"))
    assert "HF_HUB_OFFLINE" not in from_a_hub


def test_building_loads_no_heavy_library() -> None:
    program = """
import sys
from serving.api import BackendSpec, EncoderSpec
from serving.build import build_backend, build_encoder, environment
build_backend(BackendSpec(kind="vllm_engine", model="tiny-random-llama"))
build_backend(BackendSpec(kind="simulated"))
build_encoder(EncoderSpec(kind="sentence_transformers", model="all-minilm-l6-v2"))
environment(BackendSpec(kind="vllm_engine", model="tiny-random-llama"))
import serving.replica
print(*sorted({"vllm", "torch", "transformers", "sentence_transformers", "httpx", "ray"} & set(sys.modules)))
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""

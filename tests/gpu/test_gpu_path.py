"""The GPU path end to end: run by `make gpu-check` on a machine with one NVIDIA GPU and the official vllm."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from actors.steps.prompts import ACTION_SCHEMA
from serving.api import BackendSpec, Prompt, Request, Sampling
from serving.build import build_backend

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA GPU on this machine"),
]


def test_an_engine_on_the_gpu_answers_in_the_forms_that_are_asked_for() -> None:
    async def answers() -> list[str]:
        spec = BackendSpec(
            kind="vllm_engine", model="smollm2-135m-instruct", options={"gpu_memory_utilization": 0.3}
        )
        backend = build_backend(spec)
        await backend.start()
        try:
            samplings = [
                Sampling(max_tokens=32),
                Sampling(max_tokens=32, choices=("yes", "no")),
                Sampling(max_tokens=128, json_schema=ACTION_SCHEMA),
            ]
            prompt = Prompt(system="Answer.", head="Is the sky blue?", tail="")
            requests = [
                Request(request_id=str(number), prompt=prompt, sampling=sampling)
                for number, sampling in enumerate(samplings)
            ]
            return [each.text for each in await asyncio.gather(*map(backend.generate, requests))]
        finally:
            await backend.close()

    free, chosen, structured = asyncio.run(answers())
    assert free.strip()
    assert chosen in {"yes", "no"}
    assert json.loads(structured)["action"] in {"execute", "split"}


def test_a_run_on_ray_pins_its_agent_to_the_gpu(tmp_path: Path) -> None:
    pool = tmp_path / "gpu-x1.yaml"
    pool.write_text(
        "name: gpu-x1\n"
        "agents:\n"
        "  - name: a1\n"
        "    backend: {kind: vllm_engine, model: smollm2-135m-instruct, options: {gpu_memory_utilization: 0.3}}\n"
        "settings: {executor: {kind: deliberate, max_tokens: 64}}\n"
    )
    command = [sys.executable, "-m", "experiments", "run", "deals", "--pool", str(pool)]
    command += ["--warmup", "12", "--test", "12", "--runs-dir", str(tmp_path), "--set", "ray.gpus=always"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    results = next(tmp_path.glob("deals-*/results.jsonl")).read_text().splitlines()
    outcomes = [json.loads(line)["finished"]["outcome"] for line in results]
    assert len(outcomes) == 24
    assert all(outcome["error"] is None for outcome in outcomes)

"""From checked settings to a plan: every pool, whatever its models, becomes the same value."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.agent.learning import Learned
from actors.backpressure.mechanism import Backpressure
from actors.cluster.graphs import build_topology
from actors.cluster.plan import AgentPlan, Plan
from actors.errors import SettingsError
from actors.task import AgentId, TaskType
from experiments.datasets.rows import Row
from experiments.settings import BackendSettings, RunSettings
from experiments.verdicts import recorded_verdicts
from serving.api import BackendSpec, EncoderSpec
from serving.build import build_backend, build_encoder, build_virtual_model
from serving.errors import ServingError
from serving.models import check_name


def plan_of(settings: RunSettings, rows: Sequence[Row], learned: Mapping[AgentId, Learned]) -> Plan:
    """The plan of a run over `rows`. Raises SettingsError for a model, option or graph that cannot be built."""
    pool = settings.pool
    agents = tuple(
        AgentPlan(
            agent=AgentId(position),
            name=agent.name,
            slots=agent.slots,
            backend=_backend_spec(agent.backend, position, rows, settings.dataset.data_dir),
        )
        for position, agent in enumerate(pool.agents)
    )
    encoder = None
    if pool.encoder is not None and pool.settings.memory.kind != "none":
        encoder = EncoderSpec(
            kind=pool.encoder.kind, model=pool.encoder.model, options=dict(pool.encoder.options)
        )
    plan = Plan(
        name=pool.name,
        types=tuple(TaskType(name) for name in dict.fromkeys(row.task_type for row in rows)),
        agents=agents,
        topology=build_topology(len(agents), pool.topology),
        settings=pool.settings,
        encoder=encoder,
        seed=settings.seed,
        agents_per_actor=pool.agents_per_actor,
        record_logs=settings.record_logs,
        learned=learned,
    )
    _check(plan, virtual=settings.runtime == "simulation")
    return plan


def _backend_spec(
    backend: BackendSettings, position: int, rows: Sequence[Row], data_dir: Path | None
) -> BackendSpec:
    options: dict[str, Any] = dict(backend.options)
    if backend.kind in {"simulated", "replay"}:
        # What a real model knows, a simulated one must be told; and agents of a pool differ in their luck.
        options.setdefault("answers", {row.task_id: row.answer for row in rows})
        options.setdefault("seed", position + 1)
    if backend.kind == "replay" and "verdicts" not in options:
        options["verdicts"] = _verdicts(backend.model, rows, data_dir)
    return BackendSpec(
        kind=backend.kind, model=backend.model, options=options, tensor_parallel=backend.tensor_parallel
    )


def _verdicts(model: str, rows: Sequence[Row], data_dir: Path | None) -> dict[str, bool]:
    """Recorded verdicts of a model on the rows of a run. Raises SettingsError where there are none."""
    known = recorded_verdicts(data_dir)
    if model not in known:
        raise SettingsError(f"no recorded verdicts of model {model!r}; there are: {', '.join(sorted(known))}")
    question = {row.task_id: row.task_id.partition("#")[0] for row in rows}  # of a copy: its original's
    lacking = [task_id for task_id in question.values() if task_id not in known[model]]
    if lacking:
        raise SettingsError(
            f"no recorded verdict of {model!r} on task {lacking[0]!r}; replay agents run on --dataset mmlu_pro"
        )
    return {task_id: known[model][original] for task_id, original in question.items()}


def _check(plan: Plan, *, virtual: bool) -> None:
    """Building is cheap and loads nothing: a wrong option shows here and not after minutes."""
    Backpressure(plan.settings.mechanism, plan.settings.recorded_candidates)  # raises SettingsError
    for agent in plan.agents:
        try:
            if virtual:
                build_virtual_model(agent.backend)
            build_backend(agent.backend)
            if agent.backend.kind == "vllm_engine":
                check_name(agent.backend.model)
        except ServingError as error:
            raise SettingsError(f"agent {agent.name!r} of pool {plan.name!r}: {error}") from error
    if plan.encoder is not None:
        try:
            build_encoder(plan.encoder)
            if plan.encoder.kind == "sentence_transformers":
                check_name(plan.encoder.model)
        except ServingError as error:
            raise SettingsError(f"encoder of pool {plan.name!r}: {error}") from error

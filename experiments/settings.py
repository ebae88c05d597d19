"""Settings of a run, as files and command lines give them: strict, frozen, saved whole with each run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, NonNegativeInt, ValidationError, field_validator, model_validator

from actors.cluster.ray_settings import RaySettings
from actors.cluster.simulation_settings import SimulationSettings
from actors.cluster.topology import TopologySettings
from actors.config import AgentSettings, Settings
from actors.errors import SettingsError
from experiments.datasets.halves import Half


class BackendSettings(Settings):
    """Which model an agent is pinned to."""

    kind: Literal["vllm_engine", "openai_http", "simulated", "replay"]
    model: str = ""
    options: Mapping[str, Any] = Field(default_factory=dict)
    tensor_parallel: int = Field(default=1, ge=1)


class EncoderSettings(Settings):
    """Which encoder all agents share."""

    kind: Literal["sentence_transformers", "hashing"]
    model: str = ""
    options: Mapping[str, Any] = Field(default_factory=dict)


class PoolAgent(Settings):
    """One agent of a pool."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    backend: BackendSettings
    slots: int = Field(default=9, ge=1)
    """Tasks it works on at a time (the paper: 9)."""


class PoolSettings(Settings):
    """A pool file: agents, their models, their graph, and how they work."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=100)
    """Part of the name of run folders."""
    agents: tuple[PoolAgent, ...] = Field(min_length=1)
    encoder: EncoderSettings | None = None
    topology: TopologySettings = TopologySettings()
    settings: AgentSettings = AgentSettings()
    agents_per_actor: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _names_differ(self) -> "PoolSettings":
        names = [agent.name for agent in self.agents]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two agents are named {name!r}; give each a name of its own")
        return self


class DatasetSettings(Settings):
    """Where the tasks come from."""

    name: str = "families"
    data_dir: Path | None = None
    """Folder that holds the data set; None: only generated data, or what `download` fetched."""
    download: bool = False
    types: tuple[str, ...] = ()
    """Task types to use; empty: all."""
    agentnet_split: bool = False
    """Of bbh: draw from the rows that AgentNet used for training and test."""
    half: Half = "all"
    """tune: only the rows that settings may be chosen on; report: test tasks from all other rows."""
    difficulty: int = Field(default=2, ge=1, le=5)
    """Of families: size of the generated problems."""

    @field_validator("types")
    @classmethod
    def _types_differ(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        for name in types:
            if types.count(name) > 1:
                raise ValueError(f"type {name!r} is named twice; its tasks would be run twice")
        return types


class ArrivalSettings(Settings):
    """When tasks arrive."""

    kind: Literal["all_at_once", "poisson", "trace", "closed"] = "all_at_once"
    rate_per_s: float = Field(default=1.0, ge=1e-9)
    """Of poisson."""
    under_way: int = Field(default=1, ge=1)
    """Of closed: how many tasks are under way at any time; each end lets the next one in. 1: one after the other."""
    trace: Path | None = None
    """Of trace: a text file with one arrival time in seconds on each line, ascending; repeated to fill."""
    trace_rate_per_s: float | None = Field(default=None, gt=0)
    """Of trace: each phase takes a stretch of the file that begins where the seed says, with its gaps scaled to this
    mean rate; None: from the file's beginning, as it is."""


class RunSettings(Settings):
    """One run, whole: what `settings.json` of a run folder holds."""

    experiment: str
    pool: PoolSettings
    dataset: DatasetSettings = DatasetSettings()
    runtime: Literal["ray", "local", "simulation"] = "ray"
    simulation: SimulationSettings = SimulationSettings()
    ray: RaySettings = RaySettings()
    warmup: int = Field(default=54, ge=0)
    """Tasks of the warm-up, over all types."""
    test: int = Field(default=54, ge=1)
    """Tasks of the test, over all types."""
    seed: int = Field(default=1, ge=0)
    ingress_alpha: float = Field(default=0.7, gt=0, le=1e6)
    """Dirichlet parameter of the arrival agents, drawn per task type (appendix A)."""
    ingress: Literal["dirichlet", "best_ability"] | NonNegativeInt = "dirichlet"
    """Where tasks arrive: by chance, at the agent that succeeded most often at the task's type so far (a central
    pick, as AgentNet's), or all at one agent, given by its position in the pool."""
    online: bool = False
    """Whether verdicts of the test phase count too; the paper freezes what was learned in the warm-up."""
    arrivals: ArrivalSettings = ArrivalSettings()
    """Of both phases."""
    record_logs: bool = False
    """Whether each agent's (event, now, rng state) log is kept and saved."""
    stall_s: float = Field(default=600.0, gt=0)
    """A run in which no task ends for so long stops with an error that says where the tasks are."""


def load_pool(path: Path) -> dict[str, Any]:
    """The raw content of a pool file. Raises SettingsError naming the file."""
    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise SettingsError(f"no pool file {path}; see experiments/deals/pools for examples") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"pool file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"pool file {path} must be a mapping with name and agents")
    return content


def checked(values: Mapping[str, Any], source: str) -> RunSettings:
    """The settings, or a SettingsError that names each wrong key, its value and the rule it breaks."""
    try:
        return RunSettings.model_validate(values)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
            + ("" if _says_enough(problem) else f" (it is {problem['input']!r})")
            for problem in error.errors()
        ]
        raise SettingsError(f"{source} cannot be run:\n" + "\n".join(lines)) from None


def _says_enough(problem: Mapping[str, Any]) -> bool:
    """Whether the input would add nothing: the key is the problem, or the input is a whole group of settings."""
    return problem["type"] == "extra_forbidden" or isinstance(problem["input"], Mapping)


def override(values: dict[str, Any], assignment: str) -> None:
    """Applies `dotted.key=value` in place; the value is read as YAML. List items are reached by position."""
    key, separator, text = assignment.partition("=")
    if not separator or not key:
        raise SettingsError(f"--set {assignment!r} is not of the form dotted.key=value")
    *path, last = key.split(".")
    target: Any = values
    try:
        for part in path:
            target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
        if isinstance(target, list):
            target[int(last)] = yaml.safe_load(text)
        else:
            target[last] = yaml.safe_load(text)
    except (ValueError, IndexError, AttributeError, TypeError):
        raise SettingsError(f"--set {key!r}: no such place in the settings") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"--set {key!r}: the value {text!r} is not YAML: {error}") from error

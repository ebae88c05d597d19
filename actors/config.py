"""Settings of the agents: checked at the border, frozen, and saved with every run. Loads nothing heavy."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """A group of settings: unknown keys are errors, values never change, numbers are finite (JSON has no others)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BackpressureSettings(Settings):
    """Routing by backlog and quality differentials (DEALS section 3.2, appendix A)."""

    kind: Literal["backpressure"] = "backpressure"
    policy: str = "deals"
    """How a neighbour is scored and chosen; see `actors.routing.policies`."""
    quality_weight: float = Field(default=20.0, ge=0)
    """V of the test phase: backlog units one would pay for certainty of success. 0: backlog only."""
    warmup_quality_weight: float = Field(default=0.0, ge=0)
    """V of the warm-up; 0 samples all agents evenly (the paper is silent)."""
    margin: float = Field(default=1.0, ge=0)
    """m: a forward needs a score strictly above it."""
    max_hops: int = Field(default=3, ge=0)
    """After so many forwards the holder executes."""


class QualitySettings(Settings):
    """Success estimate (s + prior_successes) / (s + f + prior_successes + prior_failures)."""

    prior_successes: float = Field(default=1.0, gt=0)
    prior_failures: float = Field(default=1.0, gt=0)


class ExecutorSettings(Settings):
    """How an agent works on a task."""

    kind: Literal["deliberate", "direct"] = "deliberate"
    """deliberate: the paper's four calls; direct: one call."""
    max_tokens: int = Field(default=2048, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    seed: int = 1
    max_splits: int = Field(default=5, ge=0)
    """Parts a task may lose to splits; then it is executed (the paper names no limit; AgentNet has 5)."""
    call_timeout_s: float = Field(default=600.0, gt=0)
    """How long one model call may take; beyond it the call is cancelled, down to the engine, and counts as not
    answered."""
    call_patience_s: float = Field(default=120.0, ge=0)
    """How long one model call is tried again while its replica does not answer; then the task ends with an
    error instead of hanging."""


class MemorySettings(Settings):
    """Trajectory memory (DEALS section 3.3, appendix A)."""

    kind: Literal["faiss", "exact", "none"] = "faiss"
    capacity: int = Field(default=40, ge=1)
    limit: int = Field(default=3, ge=0)
    """Demonstrations in a prompt, at most."""
    minimum_score: float = 0.7
    time_weight: float = Field(default=0.2, ge=0)
    recall_patience_s: float = Field(default=10.0, gt=0)
    """How long a retrieval waits for the encoder before the step goes on without (counted)."""
    pending_limit: int = Field(default=10_000, ge=1)
    """Trajectories that wait for a verdict; the oldest is dropped beyond it, and counted."""


class AgentSettings(Settings):
    """What is the same for every agent of a plan."""

    mechanism: BackpressureSettings = BackpressureSettings()
    quality: QualitySettings = QualitySettings()
    executor: ExecutorSettings = ExecutorSettings()
    memory: MemorySettings = MemorySettings()
    gossip_interval_s: float = Field(default=0.05, ge=0)
    """A view goes to the in-neighbours on change, at most this often."""
    recorded_candidates: int = Field(default=16, ge=0)
    """Neighbours a decision record keeps, best score first."""

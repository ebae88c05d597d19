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
    warmup_policy: str = ""
    """The same, of the warm-up; empty: as `policy`."""
    quality_weight: float = Field(default=20.0, ge=0)
    """V of the test phase: backlog units one would pay for certainty of success. 0: backlog only."""
    warmup_quality_weight: float = Field(default=0.0, ge=0)
    """V of the warm-up; 0 samples all agents evenly (the paper is silent)."""
    margin: float = Field(default=1.0, ge=0)
    """m: a forward needs a score strictly above it."""
    max_hops: int = Field(default=3, ge=0)
    """After so many forwards the holder executes."""
    route_on_arrival: bool = False
    """Whether a task is also routed when it arrives, before it is queued; the paper routes at dispatch only."""
    pull: bool = False
    """Whether an agent with a free slot and an empty queue asks a neighbour for a task."""
    forwards_hold_slots: bool = True
    """Whether a task keeps its slot until its receiver has it (appendix A); else the slot is free at once."""
    count_in_flight: bool = False
    """Whether tasks sent to a neighbour count as its backlog before it has acknowledged them."""
    margin_per_age_s: float = Field(default=0.0, ge=0)
    """What each second of a view's age adds to the margin."""
    sampled_neighbours: int = Field(default=0, ge=0)
    """Of how many neighbours, drawn anew for each decision, the best is taken; 0: of all."""
    queue_order: Literal["longest", "longest_then_oldest", "oldest"] = "longest"
    """Which typed queue supplies a free slot: the longest (appendix A; ties by type order, or by the age of the
    heads), or the one whose head has waited longest."""
    exploration: Literal["none", "upper_bound", "thompson"] = "none"
    """How decisions of a phase in which verdicts count treat uncertain estimates: as they stand, by their upper
    confidence bound, or by a draw from their posterior."""
    exploration_weight: float = Field(default=1.0, ge=0)
    """Of upper_bound: standard deviations added to each estimate."""
    latency_target_s: float | None = Field(default=None, gt=0)
    """Each agent lowers its V while tasks that end at it took longer than this, and raises it again up to
    `quality_weight`; None: V stands still."""


class QualitySettings(Settings):
    """Success estimate (s + prior_successes) / (s + f + prior_successes + prior_failures)."""

    prior_successes: float = Field(default=1.0, gt=0)
    prior_failures: float = Field(default=1.0, gt=0)
    discount: float = Field(default=1.0, gt=0, le=1)
    """What each new verdict leaves of the weight of earlier ones; below 1 for agents that change."""


class ExecutorSettings(Settings):
    """How an agent works on a task."""

    kind: Literal["deliberate", "direct", "agentnet"] = "deliberate"
    """deliberate: the paper's four calls; direct: one call; agentnet: the model decides where the task goes (use
    policy keep with it)."""
    max_forwards: int = Field(default=3, ge=0)
    """Of agentnet: after so many forwards the holder executes or splits."""
    max_tokens: int = Field(default=2048, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    seed: int = 1
    seed_by_task: bool = False
    """Whether each task samples with a seed of its own, made of `seed` and its id: for several samples of one model."""
    max_splits: int = Field(default=5, ge=0)
    """Parts a task may lose to splits; then it is executed (the paper names no limit; AgentNet has 5)."""
    splits_must_pay: bool = False
    """Whether a split is offered to the model outside of the warm-up only where it has paid: one costs another step, so
    V times what it adds to the success rate of the type, by this agent's verdicts, must be above 1. With False it is
    always offered, as in the paper."""
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
    notes: bool = True
    """Whether agents note measurements; off only where nobody reads them."""
    recorded_candidates: int = Field(default=16, ge=0)
    """Neighbours a decision record keeps, best score first."""

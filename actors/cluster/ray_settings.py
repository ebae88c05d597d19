"""How a plan runs on Ray. Kept apart from what imports ray, so that settings load quickly."""

from typing import Literal

from pydantic import Field

from actors.config import Settings


class RaySettings(Settings):
    """How a plan runs on Ray."""

    address: str | None = None
    """A running Ray to join; None: RAY_ADDRESS if set (inside a job it is), else a new Ray on this machine."""
    include_dashboard: bool = True
    """Of a Ray started here."""
    log_to_driver: bool = False
    """Whether what workers print comes to this terminal."""
    object_store_memory_bytes: int = Field(default=200 << 20, ge=80 << 20)
    """Of a Ray started here; messages are small."""
    replica_cpus: float = Field(default=0.1, gt=0)
    """Logical CPUs of one replica. Small, so that one machine holds several; not zero, so that none lands on a
    head node that offers no CPUs."""
    gpus: Literal["auto", "always", "never"] = "auto"
    """Whether models ask for GPUs; auto: if the cluster has any when the plan starts. An autoscaling cluster
    without a GPU node yet needs always."""
    max_restarts: int = Field(default=3, ge=0)
    """How often a replica or the encoder is started again after its process died."""
    placement_timeout_s: float = Field(default=600.0, gt=0)
    """How long to wait for nodes; a Ray started here cannot grow and is given LOCAL_PLACEMENT_TIMEOUT_S."""
    start_timeout_s: float = Field(default=900.0, gt=0)
    """How long a model may take to load."""
    control_timeout_s: float = Field(default=60.0, gt=0)
    """How long an agent or the intake may be silent before the run is given up."""

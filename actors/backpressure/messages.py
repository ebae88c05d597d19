"""What agents that pull say to each other. Pure."""

from dataclasses import dataclass

from actors.messages import MechanismBody
from actors.task import TaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest(MechanismBody):
    """The sender has a free slot and would take a task of this type; its view rides on the envelope."""

    task_type: TaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRefused(MechanismBody):
    """Nothing here gains by going to the asker; the view on the envelope says what is left."""

"""An agent's log, lived again: the same events at the same times with the same chance give the same commands."""

from collections.abc import Iterable

import numpy as np

from actors.agent.actor import build_state
from actors.agent.events import Command
from actors.agent.identity import AgentIdentity
from actors.agent.shell import LogEntry
from actors.config import AgentSettings


def replay(log: Iterable[LogEntry], identity: AgentIdentity, settings: AgentSettings) -> list[list[Command]]:
    """What a fresh agent answers to each event of a log that was recorded from the agent's first event on.

    `identity` must be the recorded one, its epoch included: it is written into every envelope.
    """
    state = build_state(identity, settings)
    rng = np.random.Generator(np.random.PCG64())
    answers = []
    for entry in log:
        rng.bit_generator.state = entry.rng_state
        answers.append(state.handle(entry.event, entry.now_s, rng))
    return answers

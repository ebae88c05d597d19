"""Messages of one agent on their way out: each envelope numbered by receiver. Pure."""

from dataclasses import replace

from actors.agent.events import Send
from actors.messages import Address, AgentView, Body, Report, about, agent_address
from actors.task import AgentId, Outcome, Task


class Outbox:
    """Numbers the messages of one incarnation of an agent."""

    def __init__(self, agent: AgentId, epoch: int, intake: Address) -> None:
        self._agent = agent
        self._address = agent_address(agent)
        self._epoch = epoch
        self._intake = intake
        self._sequences: dict[Address, int] = {}

    def send(self, to: Address, body: Body, task: Task | None = None, view: AgentView | None = None) -> Send:
        """A message, about `task` if given; `view` rides on the envelope."""
        sequence = self._sequences.get(to, 0)
        self._sequences[to] = sequence + 1
        envelope = about(task, sender=self._address, epoch=self._epoch, sequence=sequence, body=body)
        return Send(to=to, envelope=envelope if view is None else replace(envelope, view=view))

    def report(self, task: Task, *, answer: str | None = None, error: str | None = None) -> Send:
        """The end of a task, to its intake."""
        outcome = Outcome(task=task, finisher=self._agent, answer=answer, error=error)
        return self.send(self._intake, Report(outcome=outcome), task)

    def give_up(self, task: Task) -> Send:
        """A cancelled task's report."""
        return self.report(task, error="cancelled")

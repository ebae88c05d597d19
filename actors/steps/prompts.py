"""What the model reads: the words of each call of a step. Pure."""

from collections.abc import Sequence

from actors.steps.moves import Surroundings
from actors.task import AgentId, ProgressPart, StepRecord, Task
from retrieval.api import Recalled
from serving.api import Demonstration, Prompt

SYSTEM = "You solve problems carefully and answer in the required format."

ACTION_SCHEMA = {
    "type": "object",
    "properties": {
        "action": {"enum": ["execute", "split"]},
        "part": {"type": "string", "maxLength": 200},
    },
    "required": ["action", "part"],
    "additionalProperties": False,
}

_ACTION = (
    "Decide how to go on. Choose execute to solve all that is left now. Choose split only if one part can be "
    "done on its own here and the rest is better left for later; then name that part in one sentence. "
    'Reply with JSON, for example {"action": "execute", "part": ""} or '
    '{"action": "split", "part": "list the facts"}.'
)
_THOUGHT = "Write a short plan for {subject}. Do not solve it yet."
_EXECUTE = "Plan:\n{plan}\n\nFollow the plan and work out the problem step by step."
_ANSWER = "Reasoning:\n{reasoning}\n\nState the final answer only. {answer_format}"
_PART = "Plan:\n{plan}\n\nDo only this part, and nothing beyond it: {part}\n{answer_format}"
_CHECK = (
    "This part has just been done: {part}\nResult:\n{result}\n\n"
    "Is the whole problem now answered? Reply complete or incomplete."
)
_DIRECT = "Solve the problem. {answer_format}"


_ROUTER = (
    "You are agent {own}. Decide how to go on with this problem.\n{team}\n"
    "Success is the share of earlier problems of this kind that an agent solved; load is how many tasks it holds "
    "for how many slots.\n"
    "execute: solve all that is left yourself. split: do one part that can be done on its own and leave the rest; "
    "name that part in one sentence. forward: hand the whole problem to the agent that fits it better.\n"
    "Reply with JSON, for example {example}. Possible actions: {actions}."
)


def router_schema(actions: Sequence[str], receivers: Sequence[AgentId]) -> dict[str, object]:
    """What a routing reply may look like."""
    properties: dict[str, object] = {
        "action": {"enum": list(actions)},
        "part": {"type": "string", "maxLength": 200},
    }
    if receivers:
        properties["agent"] = {"enum": list(receivers)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def router(
    task: Task, surroundings: Surroundings, actions: Sequence[str], shown: Sequence[Recalled]
) -> Prompt:
    """AgentNet's router: own and neighbours' abilities, loads and similar solved problems."""
    team = "\n".join(
        f"- agent {each.agent}{' (you)' if each.agent == surroundings.own.agent else ''}: "
        f"success {each.quality:.2f}, load {each.load} of {each.slots}"
        for each in (surroundings.own, *surroundings.neighbours)
    )
    example = '{"action": "execute", "part": ""' + (
        f', "agent": {surroundings.neighbours[0].agent}}}' if "forward" in actions else "}"
    )
    tail = _ROUTER.format(own=surroundings.own.agent, team=team, example=example, actions=", ".join(actions))
    return _prompt(task, tail, shown)


def head(task: Task) -> str:
    """The problem and what has been done of it: what all calls of a step share."""
    text = f"Problem:\n{task.problem}\n"
    if task.progress:
        text += "\nAlready done:\n" + progress_text(task.progress) + "\n"
    return text


def progress_text(progress: Sequence[ProgressPart]) -> str:
    return "\n".join(f"- {part.part}: {part.result}" for part in progress)


def recall_key(task: Task, part: str) -> str:
    """What a trajectory is found by: problem, progress and part description (AgentNet)."""
    return "\n".join(piece for piece in (task.problem, progress_text(task.progress), part) if piece)


def demonstration_text(task: Task, part: str, reasoning: str, answer: str) -> str:
    """What a later prompt shows of finished work."""
    pieces = [f"Problem:\n{task.problem}"]
    if task.progress:
        pieces.append(f"Already done:\n{progress_text(task.progress)}")
    if part:
        pieces.append(f"Part: {part}")
    if reasoning:
        pieces.append(f"Reasoning:\n{reasoning}")
    pieces.append(f"Answer: {answer}")
    return "\n".join(pieces)


def _prompt(task: Task, tail: str, shown: Sequence[Recalled]) -> Prompt:
    demonstrations = tuple(Demonstration(text=r.trajectory.text, score=r.score) for r in shown)
    return Prompt(system=SYSTEM, head=head(task), tail=tail, demonstrations=demonstrations)


def action(task: Task) -> Prompt:
    return _prompt(task, _ACTION, ())


def thought(task: Task, part: str, shown: Sequence[Recalled]) -> Prompt:
    subject = f"this part: {part}" if part else "the problem"
    return _prompt(task, _THOUGHT.format(subject=subject), shown)


def execute(task: Task, plan: str, shown: Sequence[Recalled]) -> Prompt:
    return _prompt(task, _EXECUTE.format(plan=plan), shown)


def answer(task: Task, reasoning: str, shown: Sequence[Recalled]) -> Prompt:
    return _prompt(task, _ANSWER.format(reasoning=reasoning, answer_format=task.answer_format), shown)


def part(task: Task, plan: str, part_text: str, shown: Sequence[Recalled]) -> Prompt:
    tail = _PART.format(plan=plan, part=part_text, answer_format=task.answer_format)
    return _prompt(task, tail, shown)


def check(task: Task, done: StepRecord) -> Prompt:
    return _prompt(task, _CHECK.format(part=done.part, result=done.result), ())


def direct(task: Task, shown: Sequence[Recalled]) -> Prompt:
    return _prompt(task, _DIRECT.format(answer_format=task.answer_format), shown)

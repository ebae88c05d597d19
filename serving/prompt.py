"""From a `Prompt` to chat messages, and what is left out where they would not fit. Pure."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from serving.api import Prompt
from serving.errors import PromptTooLongError

ChatMessage = dict[str, str]
"""One chat message, as servers and chat templates take it: `role` and `content`."""

CHARACTERS_PER_TOKEN = 3.5
"""A cautious figure for English; code and other languages take more tokens."""

LEAST_ANSWER_TOKENS = 16
"""Room that an answer needs to be worth a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPrompt:
    """A prompt that a context can take, with room for the answer."""

    prompt: Prompt
    max_tokens: int
    """What was asked for, or what the context leaves."""
    dropped_demonstrations: int


def chat_messages(prompt: Prompt) -> list[ChatMessage]:
    """The system message (left out if empty) and the user message: head, demonstrations, tail.

    The demonstrations keep the order of the prompt.
    """
    shown = (prompt.head, *(demonstration.text for demonstration in prompt.demonstrations), prompt.tail)
    user: ChatMessage = {"role": "user", "content": "\n\n".join(part for part in shown if part)}
    return [{"role": "system", "content": prompt.system}, user] if prompt.system else [user]


def approximate_tokens(messages: list[ChatMessage]) -> int:
    """Tokens of the messages, estimated from their length: for backends without a tokenizer."""
    return sum(math.ceil(len(message["content"]) / CHARACTERS_PER_TOKEN) for message in messages)


def without_lowest(prompt: Prompt, count: int) -> Prompt:
    """The prompt without its `count` lowest-scored demonstrations; of equal ones the later goes first."""
    demonstrations = prompt.demonstrations
    by_score = sorted(range(len(demonstrations)), key=lambda index: (demonstrations[index].score, -index))
    dropped = set(by_score[:count])
    kept = tuple(shown for index, shown in enumerate(demonstrations) if index not in dropped)
    return replace(prompt, demonstrations=kept)


def fit(
    prompt: Prompt, count_tokens: Callable[[list[ChatMessage]], int], budget_tokens: int
) -> tuple[Prompt, int]:
    """Drop the lowest-scored demonstrations until the prompt takes at most `budget_tokens`.

    Returns the prompt and how many demonstrations were dropped. Counts once where everything fits, else by
    bisection. Raises PromptTooLongError if it does not fit without any demonstration.
    """
    if count_tokens(chat_messages(prompt)) <= budget_tokens:
        return prompt, 0
    too_few, enough = 0, len(prompt.demonstrations)
    bare_tokens = count_tokens(chat_messages(without_lowest(prompt, enough)))
    if bare_tokens > budget_tokens:
        raise PromptTooLongError(
            f"the prompt takes {bare_tokens} tokens without demonstrations, the model's context leaves "
            f"{budget_tokens}: shorten the task, lower max_tokens or raise the context length"
        )
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if count_tokens(chat_messages(without_lowest(prompt, middle))) <= budget_tokens:
            enough = middle
        else:
            too_few = middle
    return without_lowest(prompt, enough), enough


def fit_context(
    prompt: Prompt,
    count_tokens: Callable[[list[ChatMessage]], int],
    *,
    max_tokens: int,
    context_tokens: int,
) -> FittedPrompt:
    """Share a context between prompt and answer.

    The answer is promised `max_tokens`, but at most a quarter of the context; demonstrations that would not
    leave it that are dropped. Whatever the prompt leaves beyond, the answer may use. Raises
    PromptTooLongError if the prompt without demonstrations leaves less than 16 tokens.
    """
    promised_tokens = min(max_tokens, context_tokens // 4)
    try:
        fitting, dropped = fit(prompt, count_tokens, context_tokens - promised_tokens)
    except PromptTooLongError:
        dropped = len(prompt.demonstrations)
        bare = without_lowest(prompt, dropped)
        fitting, _ = fit(bare, count_tokens, context_tokens - min(max_tokens, LEAST_ANSWER_TOKENS))
    left_tokens = context_tokens - count_tokens(chat_messages(fitting))
    return FittedPrompt(
        prompt=fitting, max_tokens=min(max_tokens, left_tokens), dropped_demonstrations=dropped
    )

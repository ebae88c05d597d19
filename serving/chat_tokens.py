"""Chat messages to token ids, by a tokenizer's own chat template. The tokenizer is handed in."""

from typing import Any

from serving.prompt import ChatMessage


class ChatTokens:
    """Encodes chats the way the model was trained on them.

    Without a chat template the contents are joined by blank lines; with one that knows no system role (as
    Mistral's first ones) the system message opens the user's.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._has_template = bool(getattr(tokenizer, "chat_template", None))
        self._takes_system = self._has_template and self._renders_system()
        self._last: tuple[list[ChatMessage], list[int]] = ([], [])

    def encode(self, messages: list[ChatMessage]) -> list[int]:
        """Token ids of the whole prompt, the opening of the answer included."""
        if messages != self._last[0]:  # fitting a prompt and then sending it encodes it once
            self._last = (messages, self._encode(messages))
        return self._last[1]

    def count(self, messages: list[ChatMessage]) -> int:
        """Tokens of the whole prompt."""
        return len(self.encode(messages))

    def _encode(self, messages: list[ChatMessage]) -> list[int]:
        if not self._has_template:
            text = "\n\n".join(message["content"] for message in messages) + "\n\n"
            return list(self._tokenizer.encode(text))
        text = self._render(messages if self._takes_system else _folded(messages))
        return list(self._tokenizer.encode(text, add_special_tokens=False))  # the template brings them

    def _render(self, messages: list[ChatMessage]) -> str:
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _renders_system(self) -> bool:
        trial = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        try:
            self._render(trial)
        except Exception:  # a template refuses by raising whatever it likes
            return False
        return True


def _folded(messages: list[ChatMessage]) -> list[ChatMessage]:
    """The system message put at the head of the first user message."""
    if len(messages) < 2 or messages[0]["role"] != "system":
        return messages
    system, user, *others = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}, *others]

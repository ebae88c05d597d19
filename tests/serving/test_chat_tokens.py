from typing import Any

import pytest

from serving.chat_tokens import ChatTokens

MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]


class WordTokenizer:
    """Stands for a tokenizer: words are ids in order of appearance; 0 opens a text with special tokens."""

    def __init__(self, chat_template: str | None, *, system: bool = True) -> None:
        self.chat_template = chat_template
        self.system = system
        self.encoded: list[str] = []

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        self.encoded.append(text)
        return [0] * add_special_tokens + [len(word) for word in text.split()]

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        assert options == {"tokenize": False, "add_generation_prompt": True}
        if not self.system and messages[0]["role"] == "system":
            raise ValueError("roles must alternate user/assistant")
        return " ".join(f"<{message['role']}> {message['content']}" for message in messages) + " <assistant>"


def test_the_template_is_used_and_special_tokens_are_not_doubled() -> None:
    tokenizer = WordTokenizer("template")
    tokens = ChatTokens(tokenizer).encode(MESSAGES)
    assert tokenizer.encoded == ["<system> be brief <user> hello <assistant>"]
    assert tokens[0] != 0


def test_a_template_without_a_system_role_gets_it_in_the_user_message() -> None:
    tokenizer = WordTokenizer("template", system=False)
    ChatTokens(tokenizer).encode(MESSAGES)
    assert tokenizer.encoded == ["<user> be brief\n\nhello <assistant>"]


def test_without_a_template_the_contents_follow_each_other() -> None:
    tokenizer = WordTokenizer(None)
    tokens = ChatTokens(tokenizer).encode(MESSAGES)
    assert tokenizer.encoded == ["be brief\n\nhello\n\n"]
    assert tokens[0] == 0


@pytest.mark.parametrize("template", [None, "template"])
def test_counting_and_then_encoding_encodes_once(template: str | None) -> None:
    tokenizer = WordTokenizer(template)
    chat = ChatTokens(tokenizer)
    assert chat.count(MESSAGES) == len(chat.encode(MESSAGES))
    assert len(tokenizer.encoded) == 1
    assert chat.encode(MESSAGES[1:]) != chat.encode(MESSAGES)

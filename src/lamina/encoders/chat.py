"""Chat templates: what a tokenizer puts around the user's message."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lamina.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Around(NamedTuple):
    """The ids of a conversation with one message, cut where the message begins and ends."""

    lead: str
    """The text before the message."""
    before: tuple[int, ...]
    """Its ids."""
    message: list[int]
    after: tuple[int, ...]


def chat_around(tokenizer: PreTrainedTokenizerFast, message: str) -> Around:
    """The ids of `message` in the tokenizer's chat template, up to where the model's answer would begin.

    The message is found in the finished text, whatever the template strips or adds around it, and its ids by their
    place in that text: a space before the message may be part of its first piece.
    """
    text = _conversation(tokenizer, message)
    if text.count(message) != 1:
        raise ModelError(
            f"{tokenizer.name_or_path}: its chat template shows the user's message {text.count(message)} times, or "
            "changes it, so words cannot be aligned; leave out --chat"
        )
    start = text.index(message)
    end = start + len(message)
    made = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    ids, places = made.ids, made.offsets
    first = next((i for i, (_, stop) in enumerate(places) if stop > start), len(ids))
    last = next((i for i in range(first, len(ids)) if places[i][0] >= end), len(ids))
    return Around(text[:start], tuple(ids[:first]), ids[first:last], tuple(ids[last:]))


def _conversation(tokenizer: PreTrainedTokenizerFast, message: str) -> str:
    if not tokenizer.chat_template:
        raise ModelError(
            f"{tokenizer.name_or_path}: its tokenizer has no chat template; leave out --chat, or take a model that was "
            "tuned to chat"
        )
    said = [{"role": "user", "content": message}]
    try:
        text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    except Exception as error:
        # A template is a program of its own and fails in its own ways.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(
            f"{tokenizer.name_or_path}: its chat template cannot be used with one message of the user ({reason}); "
            "leave out --chat"
        ) from error
    return str(text)

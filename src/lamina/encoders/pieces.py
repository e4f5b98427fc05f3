"""Words to word pieces, one word at a time, for any fast Hugging Face tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lamina.encoders.chat import chat_around
from lamina.encoders.contract import SPECIAL, Tokens
from lamina.errors import ModelError
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_SAMPLE = ("The", "cats", "sat", ",", "unhesitatingly", ".")
_MOST_REMEMBERED = 200_000


class _Template(NamedTuple):
    """The special tokens that a tokenizer puts before, between and after segments."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second_type: int
    """The token type of every segment but the first."""


class Reading(NamedTuple):
    """How the words of a text become the tokens that a model reads."""

    one_segment: bool = False
    """Whether the segments of a text, still separated, all have segment id 0."""
    chat: bool = False
    """Whether the text is the user's message in the tokenizer's chat template."""
    decoder_start: int | None = None
    """For the decoder of an encoder-decoder: the token before the text; what closes the text is not read."""


class Pieces:
    """Splits words into the pieces that the joined text would have, and records which word each came from.

    Tokenizers differ in how they mark the start of a word: WordPiece and SentencePiece do it by
    themselves, byte-level BPE needs a space before every word but the first (otherwise pre-split words are silently
    joined). The kind is found by testing a sample, not guessed from names.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, reading: Reading | None = None) -> None:
        reading = reading or Reading()
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ModelError(f"{tokenizer.name_or_path}: its tokenizer has no fast version, which word alignment needs")
        self._backend = backend
        # Some tokenizer files set a truncation (minilm: 128 pieces).
        self._backend.no_truncation()
        self._backend.no_padding()
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, bool], tuple[int, ...]] = {}
        self._template = _template(tokenizer)
        if reading.one_segment:
            self._template = self._template._replace(second_type=0)
        self._lead = ""
        """What a chat template writes before a text: the first word may be cut differently after it."""
        self._spaced = self._needs_spaces()
        if reading.chat:
            self._chat()
        if reading.decoder_start is not None:
            before = (reading.decoder_start, *self._template.before)
            self._template = self._template._replace(before=before, after=())
        stand_ins = (tokenizer.unk_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, 0)
        self._unknown = next(token_id(token) or 0 for token in stand_ins if token is not None)

    def definition(self) -> str:
        """Everything that determines the ids: part of an encoder's fingerprint."""
        lead = f"|{self._lead}" if self._lead else ""
        return f"{self._backend.to_str()}|{self._template}|{self._spaced}|{self._unknown}{lead}"

    @property
    def tells_segments(self) -> bool:
        """Whether segments differ in their ids."""
        return self._template.second_type != 0

    def joined_ids(self, words: Sequence[str]) -> list[int]:
        """The tokenizer's own pieces for the words joined by spaces; `__call__` should give the same."""
        return self._after_lead(" ".join(words))

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids before and after every text."""
        return self._template.before, self._template.after

    def __call__(self, text: Text) -> tuple[Tokens, list[int], int, int]:
        """Tokens of a text, their token types, and the number of tokens before and after the last segment."""
        ids: list[int] = list(self._template.before)
        words: list[int] = [SPECIAL] * len(ids)
        types: list[int] = [0] * len(ids)
        unknown = 0
        head = len(ids)
        for number, segment in enumerate(text.segments):
            kind = self._template.second_type if number else 0
            if number:
                ids += self._template.between
                words += [SPECIAL] * len(self._template.between)
                # A separator closes the segment before it.
                types += [types[-1] if types else 0] * len(self._template.between)
                head = len(ids)
            for word in segment:
                pieces = self._word(text.words[word], first=word == segment.start)
                if not pieces:
                    pieces = (self._unknown,)
                    unknown += 1
                ids += pieces
                words += [word] * len(pieces)
                types += [kind] * len(pieces)
        tail = len(self._template.after)
        ids += self._template.after
        words += [SPECIAL] * tail
        types += [types[-1]] * tail
        return Tokens(np.array(ids, np.int32), np.array(words, np.int32), unknown), types, head, tail

    def _word(self, word: str, *, first: bool) -> tuple[int, ...]:
        key = (word, first)
        if key not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            if first:
                ids = self._after_lead(word)
            else:
                ids = self._backend.encode(" " + word if self._spaced else word, add_special_tokens=False).ids
            self._known[key] = tuple(ids)
        return self._known[key]

    def _after_lead(self, text: str) -> list[int]:
        made = self._backend.encode(self._lead + text, add_special_tokens=False)
        if not self._lead:
            return made.ids
        before = self._template.before
        if tuple(made.ids[: len(before)]) == before:
            # What is left, together with a space at the end of the template, which belongs to the first word.
            return made.ids[len(before) :]
        return [token for token, (_, stop) in zip(made.ids, made.offsets, strict=True) if stop > len(self._lead)]

    def _chat(self) -> None:
        """Put texts into the chat template, which is cut around a sample that stands for the user's message."""
        found = chat_around(self._tokenizer, " ".join(_SAMPLE))
        between = self._template.between or tuple(self._backend.encode("\n", add_special_tokens=False).ids)
        self._lead, self._template = found.lead, _Template(found.before, between, found.after, 0)
        self._known.clear()
        if self._cut_sample() != found.message:
            raise ModelError(
                f"{self._tokenizer.name_or_path}: inside its chat template, words are cut into other pieces than "
                "outside, so they cannot be aligned; leave out --chat"
            )

    def _cut_sample(self) -> list[int]:
        return [piece for i, word in enumerate(_SAMPLE) for piece in self._word(word, first=i == 0)]

    def _needs_spaces(self) -> bool:
        expected = self.joined_ids(_SAMPLE)
        for spaced in (False, True):
            self._spaced = spaced
            made = self._cut_sample()
            self._known.clear()
            if made == expected:
                return spaced
        raise ModelError(
            f"{self._tokenizer.name_or_path}: pieces of single words do not add up to the pieces of the joined text, "
            "so words cannot be aligned; lamina needs a tokenizer that splits at spaces"
        )


def token_id(found: Any) -> int | None:
    """A special token's id from transformers, if it has one."""
    return found if isinstance(found, int) else None


def _template(tokenizer: PreTrainedTokenizerFast) -> _Template:
    one = tokenizer("a", return_special_tokens_mask=True)
    two = tokenizer("a", "a", return_special_tokens_mask=True, return_token_type_ids=True)
    before, after = _around(one["input_ids"], one["special_tokens_mask"])
    mask = two["special_tokens_mask"]
    pieces = [i for i, special in enumerate(mask) if not special]
    between = tuple(two["input_ids"][i] for i in range(pieces[0], pieces[-1]) if mask[i])
    return _Template(before, between, after, two["token_type_ids"][pieces[-1]])


def _around(ids: list[int], mask: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    first = mask.index(0)
    last = len(mask) - 1 - mask[::-1].index(0)
    return tuple(ids[:first]), tuple(ids[last + 1 :])

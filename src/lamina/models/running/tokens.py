"""Words to tokens, one word at a time, for any fast Hugging Face tokenizer."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lamina.errors import ModelError
from lamina.models.contract import SPECIAL, Tokens
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


# The tokens of the words seen so far, stored so that many texts are tokenised at once by array operations.

BEFORE, BETWEEN, AFTER, UNKNOWN = range(4)
"""Numbers of what every table holds: special tokens before, between and after segments, and the unknown token."""


class TokenSequence(NamedTuple):
    """Tokens of a sequence of entries."""

    ids: np.ndarray
    """[token]"""
    sizes: np.ndarray
    """[entry] Its number of tokens."""


class TokenTable:
    """Numbered entries of token ids.

    Example:
        >>> table = TokenTable([(101,), (102,), (102,), (100,)])
        >>> table.add([[7, 8], [9]])
        >>> table.lay(np.array([BEFORE, 4, 5, AFTER])).ids.tolist()
        [101, 7, 8, 9, 102]
    """

    def __init__(self, fixed: Sequence[Sequence[int]]) -> None:
        self._ids = np.empty(1024, np.int32)
        self._starts, self._sizes = np.empty(256, np.int64), np.empty(256, np.int64)
        self._entries = self._filled = 0
        self.add(fixed)

    def __len__(self) -> int:
        return self._entries

    def add(self, entries: Sequence[Sequence[int]]) -> None:
        """Add entries; they are numbered on."""
        sizes = [len(entry) for entry in entries]
        stops = list(accumulate(sizes, initial=self._filled))
        first, last = self._entries, self._entries + len(entries)
        self._ids = _grown(self._ids, stops[-1])
        self._starts, self._sizes = _grown(self._starts, last), _grown(self._sizes, last)
        self._ids[self._filled : stops[-1]] = [token for entry in entries for token in entry]
        self._starts[first:last], self._sizes[first:last] = stops[:-1], sizes
        self._entries, self._filled = last, stops[-1]

    def lay(self, numbers: np.ndarray) -> TokenSequence:
        """The tokens of these entries, one after the other."""
        sizes = self._sizes[numbers]
        stops = np.cumsum(sizes)
        places = np.repeat(self._starts[numbers] - (stops - sizes), sizes)
        places += np.arange(len(places))
        return TokenSequence(self._ids[places], sizes)


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger


# Chat templates: the tokens around the user's message.


class ChatFrame(NamedTuple):
    """The ids of a conversation with one message, cut where the message begins and ends."""

    lead: str
    """The text before the message."""
    before: tuple[int, ...]
    """Its ids."""
    message: list[int]
    after: tuple[int, ...]


def chat_around(tokenizer: PreTrainedTokenizerFast, message: str) -> ChatFrame:
    """The ids of `message` in the tokenizer's chat template, up to where the model's answer would begin.

    The message is found in the finished text, whatever the template strips or adds around it, and its ids by their
    place in that text: a space before the message may be part of its first token.
    """
    text = _conversation(tokenizer, message)
    if text.count(message) != 1:
        raise ModelError(
            f"{tokenizer.name_or_path}: its chat template shows the user's message {text.count(message)} times, or "
            "changes it, so words cannot be aligned; leave out --chat"
        )
    start = text.index(message)
    end = start + len(message)
    encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    ids, places = encoding.ids, encoding.offsets
    first = next((i for i, (_, stop) in enumerate(places) if stop > start), len(ids))
    last = next((i for i in range(first, len(ids)) if places[i][0] >= end), len(ids))
    return ChatFrame(text[:start], tuple(ids[:first]), ids[first:last], tuple(ids[last:]))


def _conversation(tokenizer: PreTrainedTokenizerFast, message: str) -> str:
    if not tokenizer.chat_template:
        raise ModelError(
            f"{tokenizer.name_or_path}: its tokenizer has no chat template; leave out --chat, or take a model that was "
            "tuned to chat"
        )
    messages = [{"role": "user", "content": message}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:
        # A template is a program of its own and fails in its own ways.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(
            f"{tokenizer.name_or_path}: its chat template cannot be used with one message of the user ({reason}); "
            "leave out --chat"
        ) from error
    return str(text)


_SAMPLE = ("The", "cats", "sat", ",", "unhesitatingly", ".")
_MOST_REMEMBERED = 200_000
_cutting = threading.Lock()
"""Texts are tokenised in a thread ahead of the model, and by other callers: only one of them adds words at a time."""


class _Template(NamedTuple):
    """The special tokens that a tokenizer puts before, between and after segments."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second_type: int
    """The token type of every segment but the first."""


class InputFormat(NamedTuple):
    """How the words of a text become the tokens that a model reads."""

    one_segment: bool = False
    """Whether the segments of a text, still separated, all have segment id 0."""
    chat: bool = False
    """Whether the text is the user's message in the tokenizer's chat template."""
    decoder_start: int | None = None
    """For the decoder of an encoder-decoder: the token before the text; what closes the text is not read."""


class TokenizedText(NamedTuple):
    """A text cut into tokens."""

    tokens: Tokens
    types: np.ndarray
    """[token] Token types (segment ids); of an ELMo, [token, character] what it reads instead of ids."""
    head: int
    """Number of tokens before the last segment."""
    tail: int
    """Number of tokens after the last segment."""


class _EntryLayout(NamedTuple):
    """Texts as entries: before each text, words and what separates segments, after each text."""

    begins: np.ndarray
    """[text] Its first entry."""
    stops: np.ndarray
    """[text] One past its last entry."""
    lasts: np.ndarray
    """[text] The entry at which its last segment begins."""
    firsts: np.ndarray
    """[segment] Its first word, counted over all texts."""
    is_word: np.ndarray
    """[entry]"""
    words: np.ndarray
    """[entry] The number of the word in its text; SPECIAL for the others."""
    second: np.ndarray | None
    """[entry] Whether it is in a segment after the first or closes one; None if there are none."""

    @classmethod
    def of(cls, texts: Sequence[Text]) -> _EntryLayout:
        segments = np.array([len(text.segments) for text in texts])
        sizes = np.array([segment.end - segment.start for text in texts for segment in text.segments])
        text = np.repeat(np.arange(len(texts)), segments)
        last = np.cumsum(segments) - 1
        firsts = np.cumsum(sizes) - sizes
        # Before a segment: the words so far, one entry for each segment so far, one for each text that has ended.
        before = firsts + np.arange(len(sizes)) + text
        stops = before[last] + sizes[last] + 2
        begins = np.concatenate(([0], stops[:-1]))
        is_word = np.ones(stops[-1], bool)
        is_word[before] = is_word[stops - 1] = False
        words = np.full(len(is_word), SPECIAL, np.int32)
        words[is_word] = np.arange(firsts[-1] + sizes[-1]) - np.repeat(firsts[last - segments + 1][text], sizes)
        second = None
        if len(sizes) > len(texts):
            # A separator closes the segment before it.
            number = np.arange(len(sizes)) - (last - segments + 1)[text]
            second = np.repeat(number > 0, sizes + 1 + (np.arange(len(sizes)) == last[text]))
            second[before] = number > 1
        return cls(begins, stops, before[last] + 1, firsts, is_word, words, second)


class WordTokenizer:
    """Splits words into the tokens that the joined text would have, and records the word of each token.

    Tokenizers differ in how they mark the start of a word: WordPiece and SentencePiece do it by
    themselves, byte-level BPE needs a space before every word but the first (otherwise pre-split words are silently
    joined). The kind is found by testing a sample, not guessed from names.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, reading: InputFormat | None = None) -> None:
        reading = reading or InputFormat()
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ModelError(f"{tokenizer.name_or_path}: its tokenizer has no fast version, which word alignment needs")
        self._backend = backend
        # Some tokenizer files set a truncation (minilm: 128 tokens).
        self._backend.no_truncation()
        self._backend.no_padding()
        self._tokenizer = tokenizer
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
        self._forget()

    def describe(self) -> dict[str, Any]:
        """Everything that cutting texts takes, as JSON has it; `restored` reads it back."""
        parts = {"spaced": self._spaced, "lead": self._lead, "unknown": self._unknown}
        return {"backend": self._backend.to_str(), "template": self._template, **parts}

    @classmethod
    def restored(cls, description: Mapping[str, Any]) -> WordTokenizer:
        """The tokenizer that `describe` wrote; transformers is not imported."""
        from tokenizers import Tokenizer

        before, between, after, second_type = description["template"]
        restored = cls.__new__(cls)
        restored._backend = Tokenizer.from_str(description["backend"])
        restored._template = _Template(tuple(before), tuple(between), tuple(after), second_type)
        restored._spaced, restored._lead, restored._unknown = (
            description["spaced"],
            description["lead"],
            description["unknown"],
        )
        restored._forget()
        return restored

    def definition(self) -> str:
        """Everything that determines the ids: part of an encoder's fingerprint."""
        lead = f"|{self._lead}" if self._lead else ""
        return f"{self._backend.to_str()}|{self._template}|{self._spaced}|{self._unknown}{lead}"

    @property
    def tells_segments(self) -> bool:
        """Whether segments differ in their ids."""
        return self._template.second_type != 0

    def joined_ids(self, words: Sequence[str]) -> list[int]:
        """The tokenizer's own tokens for the words joined by spaces; `__call__` should give the same."""
        return self._tokens([" ".join(words)], first=True)[0]

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids before and after every text."""
        return self._template.before, self._template.after

    def __call__(self, text: Text) -> TokenizedText:
        """A text cut into tokens."""
        return self.cut([text])[0]

    def cut(self, texts: Sequence[Text]) -> list[TokenizedText]:
        """Texts cut into tokens: new words by one call of the tokenizer, all texts by array operations."""
        texts = [*texts]
        if not texts:
            return []
        layout = _EntryLayout.of(texts)
        with _cutting:
            return self._split(layout, self._entries(texts, layout))

    def _entries(self, texts: Sequence[Text], layout: _EntryLayout) -> np.ndarray:
        """The entries of the table that the texts consist of."""
        words = self._numbers(self._known, [text.words for text in texts], first=self._firsts is self._known)
        if self._firsts is not self._known:
            firsts = [text.words[segment.start] for text in texts for segment in text.segments]
            words[layout.firsts] = self._numbers(self._firsts, [firsts], first=True)
        entries = np.full(len(layout.is_word), BETWEEN)
        entries[layout.is_word] = words
        entries[layout.begins], entries[layout.stops - 1] = BEFORE, AFTER
        return entries

    def _numbers(self, known: dict[str, int], words: Sequence[Sequence[str]], *, first: bool) -> np.ndarray:
        count = sum(map(len, words))
        entries = np.fromiter(map(known.get, chain.from_iterable(words), repeat(-1)), np.int64, count)
        if (entries < 0).any():
            self._remember(set(chain.from_iterable(words)).difference(known), known, first=first)
            entries = np.fromiter(map(known.__getitem__, chain.from_iterable(words)), np.int64, count)
        return entries

    def _remember(self, words: Collection[str], known: dict[str, int], *, first: bool) -> None:
        tokens = dict(zip(words, self._tokens(list(words), first=first), strict=True))
        spelled = {word: ids for word, ids in tokens.items() if ids}
        known.update(dict.fromkeys(tokens.keys() - spelled.keys(), UNKNOWN))
        known.update(zip(spelled, range(len(self._table), len(self._table) + len(spelled)), strict=True))
        self._table.add(list(spelled.values()))

    def _forget(self) -> None:
        self._table = TokenTable([*self._template[:3], (self._unknown,)])
        self._known: dict[str, int] = {}
        # Where a word is cut alike everywhere, it is remembered once.
        self._firsts: dict[str, int] = {} if self._spaced or self._lead else self._known

    def _split(self, layout: _EntryLayout, entries: np.ndarray) -> list[TokenizedText]:
        """One Cut per text of a sequence of entries."""
        ids, sizes = self._table.lay(entries)
        if len(self._table) > _MOST_REMEMBERED:
            self._forget()
        types = np.zeros(len(ids), np.int8)
        if self.tells_segments and layout.second is not None:
            types[np.repeat(layout.second, sizes)] = self._template.second_type
        words, tail = np.repeat(layout.words, sizes), len(self._template.after)
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        starts, ends, heads = bounds[layout.begins], bounds[layout.stops], bounds[layout.lasts]
        missed = entries == UNKNOWN
        unknown = np.add.reduceat(missed, layout.begins, dtype=int) if missed.any() else np.zeros(len(starts), int)
        places = zip(starts.tolist(), ends.tolist(), (heads - starts).tolist(), unknown.tolist(), strict=True)
        return [
            TokenizedText(Tokens(ids[start:end], words[start:end], count), types[start:end], head, tail)
            for start, end, head, count in places
        ]

    def _tokens(self, words: Sequence[str], *, first: bool) -> list[list[int]]:
        """The tokens of each word, as the first of a segment or not."""
        if first:
            lead = self._lead
            encodings = self._backend.encode_batch([lead + word for word in words], add_special_tokens=False)
            return [self._after_lead(encoding) for encoding in encodings]
        space = " " if self._spaced else ""
        encodings = self._backend.encode_batch([space + word for word in words], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _after_lead(self, encoding: Any) -> list[int]:
        if not self._lead:
            return encoding.ids
        before = self._template.before
        if tuple(encoding.ids[: len(before)]) == before:
            # What is left, together with a space at the end of the template, which belongs to the first word.
            return encoding.ids[len(before) :]
        return [
            token for token, (_, stop) in zip(encoding.ids, encoding.offsets, strict=True) if stop > len(self._lead)
        ]

    def _chat(self) -> None:
        """Put texts into the chat template, which is cut around a sample that stands for the user's message."""
        frame = chat_around(self._tokenizer, " ".join(_SAMPLE))
        between = self._template.between or tuple(self._backend.encode("\n", add_special_tokens=False).ids)
        self._lead, self._template = frame.lead, _Template(frame.before, between, frame.after, 0)
        if self._cut_sample() != frame.message:
            raise ModelError(
                f"{self._tokenizer.name_or_path}: inside its chat template, words are cut into other tokens than "
                "outside, so they cannot be aligned; leave out --chat"
            )

    def _cut_sample(self) -> list[int]:
        cut = self._tokens(_SAMPLE[:1], first=True) + self._tokens(_SAMPLE[1:], first=False)
        return [token for word in cut for token in word]

    def _needs_spaces(self) -> bool:
        expected = self.joined_ids(_SAMPLE)
        for spaced in (False, True):
            self._spaced = spaced
            if self._cut_sample() == expected:
                return spaced
        raise ModelError(
            f"{self._tokenizer.name_or_path}: tokens of single words do not add up to the tokens of the joined text, "
            "so words cannot be aligned; lamina needs a tokenizer that splits at spaces"
        )


def token_id(value: Any) -> int | None:
    """A special token's id from transformers, if it has one."""
    return value if isinstance(value, int) else None


def _template(tokenizer: PreTrainedTokenizerFast) -> _Template:
    one = tokenizer("a", return_special_tokens_mask=True)
    two = tokenizer("a", "a", return_special_tokens_mask=True, return_token_type_ids=True)
    before, after = _around(one["input_ids"], one["special_tokens_mask"])
    mask = two["special_tokens_mask"]
    inside = [i for i, special in enumerate(mask) if not special]
    between = tuple(two["input_ids"][i] for i in range(inside[0], inside[-1]) if mask[i])
    return _Template(before, between, after, two["token_type_ids"][inside[-1]])


def _around(ids: list[int], mask: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    first = mask.index(0)
    last = len(mask) - 1 - mask[::-1].index(0)
    return tuple(ids[:first]), tuple(ids[last + 1 :])

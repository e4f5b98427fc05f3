"""The positions at which a lens is read: every next piece of a causal model, hidden words of a masked one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lamina.encoders.language_model import LanguageModel
from lamina.encoders.passages import Passage, cut_passages
from lamina.encoders.pieces import Cut
from lamina.encoders.rows import Row
from lamina.encoders.scoring import Wanted, asked_in
from lamina.types import Text

HIDDEN = 0.15
"""Share of a text's words that are hidden from a masked model, one at a time."""

PER_TEXT = 10
"""Positions that are asked for in one text, where there are enough texts: pieces of one text are alike."""
_AT_ONCE = 64
"""Texts that are cut into pieces together."""


class Positions(NamedTuple):
    """Pieces that are asked for, and the texts they are of."""

    wanted: Wanted
    text: np.ndarray
    """[piece] The number of its text."""
    texts: tuple[Text, ...]

    def __len__(self) -> int:
        return len(self.text)


def draw_positions(model: LanguageModel, texts: Iterable[Text], most: int, *, seed: int) -> Positions:
    """At most about so many positions, of texts in an order drawn by hash of their ids.

    A causal model is asked for pieces of a text after those before them. From a masked model a share of the text's
    words is hidden, one word with all its pieces at a time. Which ones follows from the text's id.
    """
    drawn = sorted(texts, key=lambda text: _hash(seed, text.id))
    chosen: list[Text] = []
    parts: list[LensRow] = []
    owners: list[int] = []
    of_each = max(PER_TEXT, math.ceil(most / max(1, len(drawn))))
    # Texts are cut only until there are enough.
    for start in range(0, len(drawn), _AT_ONCE):
        if len(owners) >= most:
            break
        some = drawn[start : start + _AT_ONCE]
        for text, cut in zip(some, cut_passages(model, [Passage.of(text) for text in some]), strict=True):
            if len(owners) >= most:
                break
            drawn_parts = _some_of(list(_parts_of(model, text, cut, seed)), of_each, _rng(seed, text.id))
            owners += [len(chosen)] * sum(len(part.places) for part in drawn_parts)
            parts += drawn_parts
            chosen.append(text)
    return Positions(wanted_of(parts), np.array(owners, np.int64), tuple(chosen))


def _some_of(parts: Sequence[LensRow], most: int, rng: np.random.Generator) -> list[LensRow]:
    """At most so many of the positions of a text."""
    if not parts:
        # None of its hidden words has a piece of its own.
        return []
    sizes = [len(part.places) for part in parts]
    chosen = np.zeros(sum(sizes), bool)
    chosen[rng.permutation(len(chosen))[:most]] = True
    by_part = zip(parts, np.split(chosen, np.cumsum(sizes)[:-1]), strict=True)
    return [LensRow(part.row, part.places[mask], part.targets[mask]) for part, mask in by_part if mask.any()]


class LensRow(NamedTuple):
    """One row, and what is asked of it."""

    row: Row
    places: np.ndarray
    """The tokens whose states the head reads ..."""
    targets: np.ndarray
    """... and the ids of the pieces asked for."""


def wanted_of(parts: Sequence[LensRow]) -> Wanted:
    """Several rows with what is asked of them, as one."""
    owners = np.repeat(np.arange(len(parts)), [len(part.places) for part in parts])
    places, targets = (
        np.concatenate([np.zeros(0, np.int64), *arrays]).astype(np.int64)
        for arrays in ([part.places for part in parts], [part.targets for part in parts])
    )
    return Wanted([part.row for part in parts], owners, places, targets)


def _parts_of(model: LanguageModel, text: Text, cut: Cut, seed: int) -> Iterator[LensRow]:
    rows = model.encoder.rows(0, cut)
    if model.kind == "causal":
        for row in rows:
            tokens = asked_in(row, cut)
            yield LensRow(row, tokens - 1, row.ids[tokens])
        return
    for word in hidden_words(text, seed).tolist():
        for row in rows:
            tokens = asked_in(row, cut)
            inside = row.words == word
            places = tokens[inside[tokens]]
            # A word of a long text is in several windows, and asked for where it has most context.
            if len(places):
                ids = np.where(inside, model.mask or 0, row.ids)
                yield LensRow(row._replace(ids=ids), places, row.ids[places])


def hidden_words(text: Text, seed: int) -> np.ndarray:
    """The words of a text that are hidden, by number, as they are drawn: a share of them, at least one.

    Example:
        >>> text = Text("s1", tuple("the dogs bark at the cats that sleep on the mat".split()))
        >>> len(hidden_words(text, 0)), hidden_words(text, 0).tolist() == hidden_words(text, 0).tolist()
        (2, True)
    """
    words = len(text.words)
    return _rng(seed, text.id).permutation(words)[: max(1, round(HIDDEN * words))]


def _rng(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(_hash(seed, name)[:8], "big"))


def _hash(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()

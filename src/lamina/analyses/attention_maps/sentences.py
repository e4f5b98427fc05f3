"""One typed sentence inside a model: its attention maps, and the words or pieces they link."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.attention_maps.rollout import rollout
from lamina.analyses.watched import Watched, WatchedBatch, to_words
from lamina.analyses.watching import Meter, Weighting, refuse_without_maps, watch
from lamina.corpora.tokenising import split_words
from lamina.encoders import SPECIAL, Encoder, Tokens
from lamina.errors import InputError
from lamina.types import Text

Level = Literal["word", "piece"]
ROLLOUT: Final = "rollout"
"""In place of a head: what all heads of all layers together pass on."""
HeadOrRollout = tuple[int, int] | Literal["rollout"]
"""Layer and head, both from 1, or all of them together."""


class Units(NamedTuple):
    """The rows and columns of a map: words or pieces, and special tokens."""

    names: list[str]
    owners: Int[np.ndarray, " token"]
    """The unit each token belongs to."""
    special: Bool[np.ndarray, " unit"]
    """Whether it is a special token."""


def see(
    encoder: Encoder,
    sentence: str | Sequence[str],
    meters: Sequence[Meter] = (),
    *,
    most: int | None = None,
    weights: Weighting = "attention",
) -> Watched:
    """Every head's attention on one sentence, shown to the meters too.

    Args:
        encoder: whose heads.
        sentence: running text, split as anything typed is, or the words themselves.
        meters: who else watches.
        most: tokens, where less than the model takes; maps grow with their square.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> see(TinyEncoder(), "Dogs bark.").maps.shape
        torch.Size([2, 2, 7, 7])
    """
    refuse_without_maps(encoder)
    words = split_words(sentence).words if isinstance(sentence, str) else tuple(sentence)
    if not words:
        raise InputError("the sentence has no words; give some")
    _refuse_broken(words)
    text = Text("typed", words)
    _refuse_too_long(encoder, text, most)
    kept = _Keeper()
    watch(encoder, [text], [*meters, kept], weights=weights)
    return kept.watched


class _Keeper:
    """Keeps the one text there is."""

    watched: Watched

    def update(self, batch: WatchedBatch) -> None:
        (self.watched,) = batch.singly


def _refuse_broken(words: Sequence[str]) -> None:
    """An unpaired surrogate can be sent, but no tokenizer reads it."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"{word!r} is not valid Unicode: it contains an unpaired surrogate; remove it") from None


def _refuse_too_long(encoder: Encoder, text: Text, most: int | None) -> None:
    size = len(encoder.tokenize(text).ids)
    if size > encoder.limit:
        raise InputError(
            f"the sentence has {size} tokens and {encoder.name} takes {encoder.limit} at once; give a shorter one"
        )
    if most is not None and size > most:
        raise InputError(f"the sentence has {size} tokens; at most {most} are shown here; give a shorter one")


def head_of(encoder: Encoder, said: str) -> tuple[int, int]:
    """Layer and head of `3-7`, both from 1.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> head_of(TinyEncoder(), "2-1")
        (2, 1)
    """
    refuse_without_maps(encoder)
    found = re.fullmatch(r"\s*(\d+)-(\d+)\s*", said)
    if found is None:
        raise InputError(f"the head {said!r} cannot be read; write LAYER-HEAD, as 3-7")
    layer, head = int(found[1]), int(found[2])
    if not (1 <= layer <= encoder.blocks and 1 <= head <= encoder.heads):
        raise InputError(
            f"there is no head {layer}-{head}: {encoder.name} has layers 1 to {encoder.blocks} "
            f"with heads 1 to {encoder.heads}"
        )
    return layer, head


def units_of(encoder: Encoder, text: Text, tokens: Tokens, level: Level) -> Units:
    """The words or pieces of a text, with its special tokens.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> text = Text("a", ("Dogs", "bark"))
        >>> units_of(TinyEncoder(), text, TinyEncoder().tokenize(text), "word").names
        ['[special]', 'Dogs', 'bark', '[special]']
    """
    special = tokens.words == SPECIAL
    # A unit starts with every piece, or with every special token and the first piece of every word.
    starts = np.r_[True, tokens.words[1:] != tokens.words[:-1]] | special | (level == "piece")
    named = encoder.names(tokens) or [
        "[special]" if word == SPECIAL else text.words[word] for word in tokens.words.tolist()
    ]
    names = [
        named[at] if special[at] or level == "piece" else text.words[tokens.words[at]]
        for at in np.flatnonzero(starts).tolist()
    ]
    return Units(names, np.cumsum(starts) - 1, special[starts])


def reach(watched: Watched) -> Float[np.ndarray, "block head"]:
    """How far each head looks: the mean of a word's largest weight on words more than one away.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> reach(see(TinyEncoder(), "Dogs bark.")).shape
        (2, 2)
    """
    maps = watched.words.maps
    size = maps.shape[-1]
    near = (torch.arange(size)[:, None] - torch.arange(size)).abs() <= 1
    return maps.masked_fill(near, 0).amax(-1).mean(-1).numpy()


FLOOR, MOST = 0.01, 24
"""The smallest weight that is a link, and the most links of one word."""


class Links(NamedTuple):
    """The links of each row, strongest first; the rest of a row is kept as a sum."""

    counts: Int[np.ndarray, " unit"]
    """Links of each row."""
    to: Int[np.ndarray, " link"]
    """The unit attended to."""
    weight: Float[np.ndarray, " link"]
    rest: Float[np.ndarray, " unit"]
    """What each row gives to everything else."""


class Lines(NamedTuple):
    """One sentence and the links of a few heads on it."""

    units: Units
    words: list[int]
    """The word each unit belongs to; -1 for special tokens."""
    links: list[Links]
    """Of each head, in the order asked for."""


def lines(
    encoder: Encoder,
    sentence: str | Sequence[str],
    heads: Sequence[HeadOrRollout],
    *,
    level: Level = "word",
    most: int | None = None,
    weights: Weighting = "attention",
) -> Lines:
    """Where some heads look in a sentence, as links between words or pieces.

    Args:
        encoder: whose heads.
        sentence: running text, or the words themselves.
        heads: layer and head of each, from 1; `rollout` for all of them together, down to the input.
        level: words, or the model's pieces.
        most: tokens, where less than the model takes.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> found = lines(TinyEncoder(), "Dogs bark.", [(2, 1)])
        >>> found.units.names, found.words, found.links[0].counts.tolist()
        (['[special]', 'Dogs', 'bark', '.', '[special]'], [-1, 0, 1, 2, -1], [5, 5, 5, 5, 5])
    """
    seen = see(encoder, sentence, most=most, weights=weights)
    units = units_of(encoder, seen.text, seen.tokens, level)
    wanted = [rollout(seen.maps)[-1] if each == ROLLOUT else seen.maps[each[0] - 1, each[1] - 1] for each in heads]
    maps = to_words(torch.stack(wanted)[None], units.owners).maps[0].numpy()
    firsts = np.flatnonzero(np.diff(units.owners, prepend=-1))
    return Lines(units, seen.tokens.words[firsts].tolist(), [strongest(each) for each in maps])


def strongest(weights: Float[np.ndarray, "unit unit"], *, floor: float = FLOOR, most: int = MOST) -> Links:
    """The links of each row: weights of at least the floor, and of those the largest.

    Example:
        >>> found = strongest(np.array([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4]]), floor=0.15, most=2)
        >>> found.counts.tolist(), found.to.tolist(), found.rest.round(2).tolist()
        ([2, 1, 2], [0, 1, 2, 2, 0], [0.1, 0.0, 0.3])
    """
    order = np.argsort(-weights, axis=1, kind="stable")[:, :most]
    best = np.take_along_axis(weights, order, axis=1)
    kept = best >= floor
    rest = np.maximum(weights.sum(1) - np.where(kept, best, 0).sum(1), 0)
    return Links(kept.sum(1), order[kept], best[kept], rest)

"""One sentence and the attention of a few heads on it, to be drawn as lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.analyses.attention_maps.surface import SurfaceMeter
from lamina.analyses.attention_maps.watching import Watched, refuse_without_maps, watch
from lamina.analyses.attention_maps.words import to_words
from lamina.corpora import corpus_from
from lamina.corpora.words import split_words
from lamina.encoders import SPECIAL, Encoder, Tokens
from lamina.errors import InputError
from lamina.results import Provenance, Result
from lamina.types import Text

Level = Literal["word", "piece"]

ATTENTION = ("layer", "head", "from", "from_word", "to", "to_word", "weight")
"""Columns of `attention.csv`."""

STANDING_OUT = {
    "to_previous": "previous token",
    "to_next": "next token",
    "to_first": "first token",
    "to_separator": "separator",
    "entropy": "broadest (entropy)",
}
"""Measure -> in words. Where no head is named, the head with the most of each is shown, and the most far-reaching."""
FAR = "farther words"
ASKED = "asked for"


class Chosen(NamedTuple):
    """A head to show, and why."""

    layer: int
    head: int
    why: str
    value: float
    """Of what it stands out by; not a number where it was asked for."""


class _Units(NamedTuple):
    """What stands in the picture: words or pieces, and special tokens."""

    names: list[str]
    owners: np.ndarray
    """[token] The unit each token belongs to."""
    special: np.ndarray
    """[unit] Whether it is a special token."""


def look(
    encoder: Encoder,
    sentence: str | Sequence[str],
    *,
    heads: Sequence[str] = (),
    level: Level = "word",
    special: bool = True,
    focus: str | None = None,
) -> Result:
    """The attention of chosen heads on one sentence.

    Tables: `attention` (`layer,head,from,from_word,to,to_word,weight`, every pair of words; positions count from 0)
    and `heads` (which are shown, and why). At word level, attention to a split word is the sum over its pieces and
    attention from it their mean. Without special tokens the weights of a row sum to less than 1.

    Args:
        encoder: whose heads.
        sentence: running text, split as anything typed is, or the words themselves.
        heads: as `layer-head`, both from 1; by default the head that stands out most on this sentence by each of a
            few measures: attention to the previous, next and first token and to separators, entropy, and the mean of
            a word's largest weight on words more than one away.
        level: words, or the model's pieces.
        special: show special tokens.
        focus: a word, or its position: the figure has lines from it and to it alone.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> found = look(TinyEncoder(), "Dogs bark.", heads=["2-1"], special=False)
        >>> found.tables["attention"][["from_word", "to_word"]].values.tolist()[:3]
        [['Dogs', 'Dogs'], ['Dogs', 'bark'], ['Dogs', '.']]
    """
    refuse_without_maps(encoder)
    asked = [_head(encoder, said) for said in heads]
    words = split_words(sentence).words if isinstance(sentence, str) else tuple(sentence)
    if not words:
        raise InputError("the sentence has no words; give some, in quotes")
    text = Text("typed", words)
    _refuse_too_long(encoder, text)
    surface, kept = SurfaceMeter(encoder, samples=1), _Keeper()
    watch(encoder, [text], [surface, kept])
    units = _units(encoder, text, kept.watched.tokens, level)
    chosen = asked or _standing_out(surface.table(), kept.watched)
    maps = to_words(kept.watched.maps, units.owners).maps
    table = pd.DataFrame(_rows(maps, units, chosen, special=special), columns=list(ATTENTION))
    at = None if focus is None else _position(table, focus)
    parameters = {"words": list(words), "heads": list(heads), "level": level, "special": special, "focus": at}
    about = corpus_from([text], name="a typed sentence").describe() | {"split": ""}
    tables = {"attention": table, "heads": pd.DataFrame(chosen, columns=list(Chosen._fields))}
    return Result("look", tables, Provenance(encoder.describe(), about, parameters))


class _Keeper:
    """Keeps the one text there is."""

    watched: Watched

    def update(self, watched: Watched) -> None:
        self.watched = watched


def _head(encoder: Encoder, said: str) -> Chosen:
    found = re.fullmatch(r"\s*(\d+)-(\d+)\s*", said)
    if found is None:
        raise InputError(f"the head {said!r} cannot be read; write LAYER-HEAD, as 3-7")
    layer, head = int(found[1]), int(found[2])
    if not (1 <= layer <= encoder.blocks and 1 <= head <= encoder.heads):
        raise InputError(
            f"there is no head {layer}-{head}: {encoder.name} has layers 1 to {encoder.blocks} "
            f"with heads 1 to {encoder.heads}"
        )
    return Chosen(layer, head, ASKED, float("nan"))


def _refuse_too_long(encoder: Encoder, text: Text) -> None:
    size = len(encoder.tokenize(text).ids)
    if size > encoder.limit:
        raise InputError(
            f"the sentence has {size} tokens and {encoder.name} takes {encoder.limit} at once; give a shorter one"
        )


def _standing_out(surface: pd.DataFrame, watched: Watched) -> list[Chosen]:
    """One head a measure; a head that leads several is shown once."""
    rows = list(surface[["layer", "head", "measure", "value"]].itertuples(index=False))
    found = [
        max((Chosen(layer, head, why, value) for layer, head, name, value in rows if name == measure), key=_value)
        for measure, why in STANDING_OUT.items()
    ]
    found.append(_farthest(watched))
    first: dict[tuple[int, int], Chosen] = {}
    for each in found:
        if each.value > 0:
            first.setdefault((each.layer, each.head), each)
    return list(first.values())


def _value(chosen: Chosen) -> float:
    return -1.0 if np.isnan(chosen.value) else chosen.value


def _farthest(watched: Watched) -> Chosen:
    maps = watched.words.maps
    size = maps.shape[-1]
    near = (torch.arange(size)[:, None] - torch.arange(size)).abs() <= 1
    reach = maps.masked_fill(near, 0).amax(-1).mean(-1)
    layer, head = divmod(int(reach.argmax()), reach.shape[1])
    return Chosen(layer + 1, head + 1, FAR, float(reach.max()))


def _units(encoder: Encoder, text: Text, tokens: Tokens, level: Level) -> _Units:
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
    return _Units(names, np.cumsum(starts) - 1, special[starts])


def _rows(
    maps: Float[torch.Tensor, "block head unit unit"], units: _Units, chosen: Iterable[Chosen], *, special: bool
) -> Iterator[tuple]:
    shown = [at for at, hidden in enumerate(units.special) if special or not hidden]
    for layer, head, *_ in chosen:
        weights = maps[layer - 1, head - 1][shown][:, shown].tolist()
        for one, row in enumerate(weights):
            for other, weight in enumerate(row):
                yield layer, head, one, units.names[shown[one]], other, units.names[shown[other]], weight


def _position(table: pd.DataFrame, focus: str) -> int:
    words = dict(zip(table["from"], table["from_word"], strict=True))
    places = [at for at, word in words.items() if word.lower() == focus.lower()]
    if not places and focus.isdecimal() and int(focus) in words:
        places = [int(focus)]
    if len(places) != 1:
        listed = ", ".join(f"{at}:{word}" for at, word in words.items() if not places or at in places)
        found = f"stands there {len(places)} times" if places else "does not stand there"
        raise InputError(f"{focus!r} {found}; give the word's number: {listed}")
    return places[0]

"""One sentence and the attention of a few heads on it, to be drawn as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.analyses.attention_maps.sentences import Level, Units, head_of, reach, see, units_of
from lamina.analyses.attention_maps.surface import SurfaceMeter
from lamina.analyses.attention_maps.watching import refuse_without_maps
from lamina.analyses.attention_maps.words import to_words
from lamina.corpora import corpus_from
from lamina.encoders import Encoder
from lamina.errors import InputError
from lamina.results import Provenance, Result

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
    asked = [Chosen(*head_of(encoder, said), ASKED, float("nan")) for said in heads]
    surface = SurfaceMeter(encoder, samples=1)
    seen = see(encoder, sentence, [surface])
    units = units_of(encoder, seen.text, seen.tokens, level)
    chosen = asked or standing_out(surface.table(), reach(seen))
    maps = to_words(seen.maps, units.owners).maps
    table = pd.DataFrame(_rows(maps, units, chosen, special=special), columns=list(ATTENTION))
    at = None if focus is None else _position(table, focus)
    parameters = {"words": list(seen.text.words), "heads": list(heads), "level": level, "special": special, "focus": at}
    about = corpus_from([seen.text], name="a typed sentence").describe() | {"split": ""}
    tables = {"attention": table, "heads": pd.DataFrame(chosen, columns=list(Chosen._fields))}
    return Result("look", tables, Provenance(encoder.describe(), about, parameters))


def standing_out(surface: pd.DataFrame, far: Float[np.ndarray, "block head"]) -> list[Chosen]:
    """The head with the most of each measure, and the most far-reaching; one that leads several is named once."""
    rows = list(surface[["layer", "head", "measure", "value"]].itertuples(index=False))
    found = [
        max((Chosen(layer, head, why, value) for layer, head, name, value in rows if name == measure), key=_value)
        for measure, why in STANDING_OUT.items()
    ]
    layer, head = divmod(int(far.argmax()), far.shape[1])
    found.append(Chosen(layer + 1, head + 1, FAR, float(far.max())))
    first: dict[tuple[int, int], Chosen] = {}
    for each in found:
        if each.value > 0:
            first.setdefault((each.layer, each.head), each)
    return list(first.values())


def _value(chosen: Chosen) -> float:
    return -1.0 if np.isnan(chosen.value) else chosen.value


def _rows(
    maps: Float[torch.Tensor, "block head unit unit"], units: Units, chosen: Iterable[Chosen], *, special: bool
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

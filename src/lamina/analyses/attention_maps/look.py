"""One sentence: the attention of a few heads on it, to be drawn as lines, and what all heads together pass on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.analyses.attention_maps.rollout import rollout
from lamina.analyses.attention_maps.sentences import Level, Units, head_of, reach, see, units_of
from lamina.analyses.attention_maps.surface import SurfaceMeter
from lamina.analyses.declaration import Table, Tables, analysis
from lamina.analyses.inputs import Sentence
from lamina.analyses.settings import Setting, Weights
from lamina.analyses.watched import to_words
from lamina.analyses.watching import refuse_without_maps
from lamina.encoders import Encoder
from lamina.errors import InputError
from lamina.findings import Finding, Source, not_tested, number, rows_of
from lamina.results import Result

ATTENTION = ("layer", "head", "from", "from_word", "to", "to_word", "weight")
"""Columns of `attention.csv`."""
ROLLOUT = ("layer", "from", "from_word", "to", "to_word", "weight")
"""Columns of `rollout.csv`."""

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
    """Of what it stands out by; NaN where it was asked for."""


@analysis(
    title="Attention on one sentence",
    question="Where do chosen heads look in this sentence?",
    method=(
        "Each head's attention on the sentence is taken from one pass of the model. Between words, attention to a "
        "split word is the sum over its pieces and attention from it their mean. Rollout multiplies the blocks' maps, "
        "averaged over heads and mixed half and half with the token itself, down to the input."
    ),
    cites=("Clark et al. 2019", "Abnar and Zuidema 2020"),
    reads=Sentence(),
    version=2,  # a table of rollout
    tables={
        "attention": Table("One row per head and pair of words; positions count from 0.", ATTENTION),
        "heads": Table("One row per head shown: why, and how much it has of what it stands out by.", Chosen._fields),
        "rollout": Table(
            "One row per layer and pair of words: how much of the input word's vector is mixed into the other there.",
            ROLLOUT,
        ),
    },
    chapter="heads",
    needs=("maps",),
    example='lamina look minilm "The dog that chased the cats barked." --head 3-1 --head 3-9',
)
def look(
    encoder: Encoder,
    sentence: str | Sequence[str],
    *,
    heads: Annotated[
        Sequence[str],
        Setting(
            "A head, both numbers from 1; by default the heads that stand out.", option="--head", metavar="LAYER-HEAD"
        ),
    ] = (),
    level: Annotated[Level, Setting("Words, or the model's pieces.")] = "word",
    special: Annotated[bool, Setting("Show special tokens ([CLS], [SEP]).")] = True,
    focus: Annotated[
        str | None, Setting("Draw only the lines of this word, or of the word at this position.", metavar="WORD")
    ] = None,
    weights: Weights = "attention",
) -> Tables:
    """Where chosen heads look in a sentence, drawn as lines between its words.

    Where no head is named, those are shown that stand out on the sentence: most attention to the previous, next and
    first token and to separators, the largest entropy, and the largest mean of a word's strongest weight on words more
    than one position away. Without special tokens the weights of a row sum to less than 1.

    `rollout` follows attention through all blocks: what of each input word has been mixed into a word after a layer.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> found = look(TinyEncoder(), "Dogs bark.", heads=["2-1"], special=False)
        >>> found.tables["attention"][["from_word", "to_word"]].values.tolist()[:3]
        [['Dogs', 'Dogs'], ['Dogs', 'bark'], ['Dogs', '.']]
    """
    refuse_without_maps(encoder)
    asked = [Chosen(*head_of(encoder, said), ASKED, float("nan")) for said in heads]
    surface = SurfaceMeter(encoder, samples=1)
    seen = see(encoder, sentence, [surface], weights=weights)
    units = units_of(encoder, seen.text, seen.tokens, level)
    chosen = asked or standing_out(surface.table(), reach(seen))
    maps = to_words(seen.maps, units.owners).maps
    shown = np.flatnonzero(~units.special | special)
    table = pd.DataFrame(_rows(maps, units, chosen, shown), columns=list(ATTENTION))
    at = None if focus is None else _position(table, focus)
    tables = {
        "attention": table,
        "heads": pd.DataFrame(chosen, columns=list(Chosen._fields)),
        "rollout": _rolled(to_words(rollout(seen.maps)[:, None], units.owners).maps[:, 0], units, shown),
    }
    return Tables(tables, data={"words": list(seen.text.words), "focus": at})


@look.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The heads that stand out; one sentence can test nothing."""
    shown = result.tables["heads"].dropna(subset=["value"])
    if len(shown):
        named = ", ".join(f"{row.layer}-{row.head} ({row.why}: {number(row.value)})" for row in rows_of(shown))
        whether = f"the heads that stand out on this sentence, {named}, do so on others"
        yield not_tested(whether, "one sentence has no interval", source=[Source("heads")])


@look.shows
def _overview(result: Result) -> Iterable[str]:
    """One line per head."""
    for layer, head, why, value in rows_of(result.tables["heads"]):
        yield f"{layer}-{head}  {why}" + ("" if np.isnan(value) else f" {value:.2f}")


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
    maps: Float[torch.Tensor, "block head unit unit"], units: Units, chosen: Iterable[Chosen], shown: np.ndarray
) -> Iterator[tuple]:
    for layer, head, *_ in chosen:
        weights = maps[layer - 1, head - 1][shown][:, shown].tolist()
        for one, row in enumerate(weights):
            for other, weight in enumerate(row):
                yield layer, head, one, units.names[shown[one]], other, units.names[shown[other]], weight


def _rolled(rolled: Float[torch.Tensor, "block unit unit"], units: Units, shown: np.ndarray) -> pd.DataFrame:
    weights = rolled.numpy()[:, shown[:, None], shown]
    layer, one, other = (axis.ravel() for axis in np.indices(weights.shape))
    names = np.array(units.names, object)[shown]
    columns = (layer + 1, one, names[one], other, names[other], weights.ravel())
    return pd.DataFrame(dict(zip(ROLLOUT, columns, strict=True)))


def _position(table: pd.DataFrame, focus: str) -> int:
    words = dict(zip(table["from"], table["from_word"], strict=True))
    places = [at for at, word in words.items() if word.lower() == focus.lower()]
    if not places and focus.isdecimal() and int(focus) in words:
        places = [int(focus)]
    if len(places) != 1:
        listed = ", ".join(f"{at}:{word}" for at, word in words.items() if not places or at in places)
        found = f"is in the sentence {len(places)} times" if places else "is not in the sentence"
        raise InputError(f"{focus!r} {found}; give the word's number: {listed}")
    return places[0]

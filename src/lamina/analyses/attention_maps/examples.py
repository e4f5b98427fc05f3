"""Sentences in which the best heads can be seen at work, as in the paper's figure 5."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import pandas as pd

from lamina.analyses.attention_maps.relations import ALL, NO_PUNCTUATION, dependencies
from lamina.analyses.attention_maps.watching import Watched, watch
from lamina.analyses.attention_maps.words import From
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.types import Text

EXAMPLES = (
    "relation", "direction", "layer", "head", "text_id", "word_from", "word_to", "from", "to", "weight", "gold",
)  # fmt: skip
"""Columns of `examples.csv`."""
SPECIAL_TOKENS = "(special tokens)"
"""What a word gives to all special tokens together; its position is -1."""
WORDS = range(5, 16)
"""Lengths that can be drawn and say something."""
_RELATIONS = 6
_EACH = 2
_COUNTED = 30
"""Dependencies that a relation must have been scored on."""


class Shown(NamedTuple):
    """A head and the relation it finds."""

    relation: str
    direction: str
    layer: int
    head: int


def examples_table(encoder: Encoder, corpus: Corpus, best: pd.DataFrame, rows: From) -> pd.DataFrame:
    """Whole word-level maps of the heads that lead their offset by most, each on the first sentences that fit.

    Sentences are taken in the order of the corpus, whether the head is right about them or not: a picture of the
    best sentences would say nothing.
    """
    texts = _texts(corpus, shown := _worth_showing(best))
    drawer = _Drawer(texts)
    watch(encoder, {text.id: text for some in texts.values() for text in some}.values(), [drawer], rows=rows)
    ordered = [row for each in shown for row in drawer.found if row[:4] == each]
    return pd.DataFrame(ordered, columns=list(EXAMPLES))


def _worth_showing(best: pd.DataFrame) -> list[Shown]:
    own = best[~best["relation"].isin([ALL, NO_PUNCTUATION])]
    own = own.assign(lead=own["accuracy"] - own["offset_accuracy"])
    ahead = pd.DataFrame(own[(own["count"] >= min(_COUNTED, own["count"].max())) & (own["lead"] > 0)])
    ranked = ahead.sort_values("lead", ascending=False, kind="stable").head(_RELATIONS)
    return [Shown(*row) for row in ranked[list(Shown._fields)].itertuples(index=False)]


def _texts(corpus: Corpus, shown: Sequence[Shown]) -> dict[Shown, list[Text]]:
    """The first texts that fit, each for the first relation that still wants one."""
    texts: dict[Shown, list[Text]] = {each: [] for each in shown}
    for text in corpus:
        wanting = [each for each in shown if len(texts[each]) < _EACH]
        if not wanting:
            break
        if len(text.words) in WORDS:
            relations = {edge.labels[0] for edge in dependencies(text)}
            for each in [each for each in wanting if each.relation in relations][:1]:
                texts[each].append(text)
    return texts


class _Drawer:
    """Keeps the maps of a few heads on a few short texts."""

    def __init__(self, texts: dict[Shown, list[Text]]) -> None:
        self._shown = [(text.id, shown) for shown, some in texts.items() for text in some]
        self.found: list[tuple] = []

    def update(self, watched: Watched) -> None:
        words, special = watched.words
        for text_id, shown in self._shown:
            if text_id != watched.text.id:
                continue
            weights = words[shown.layer - 1, shown.head - 1].tolist()
            rest = special[shown.layer - 1, shown.head - 1].tolist()
            links = _links(watched.text, shown)
            said = watched.text.words
            for one, other in product(range(len(said)), range(-1, len(said))):
                to, weight = (SPECIAL_TOKENS, rest[one]) if other < 0 else (said[other], weights[one][other])
                self.found.append((*shown, text_id, said[one], to, one, other, weight, (one, other) in links))


def _links(text: Text, shown: Shown) -> set[tuple[int, int]]:
    """From whom to whom a head of this direction should attend."""
    pairs = [
        (edge.span.start, edge.other.start)
        for edge in dependencies(text)
        if edge.other is not None and edge.labels[0] == shown.relation
    ]
    return set(pairs) if shown.direction == "dependent" else {(head, dependent) for dependent, head in pairs}

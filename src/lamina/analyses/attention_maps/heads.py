"""Which head finds which dependency: every head as an untrained classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Annotated, NamedTuple

import pandas as pd

from lamina.analyses.attention_maps.relations import (
    ALL,
    NO_PUNCTUATION,
    RELATIONS,
    SYSTEMS,
    RelationMeter,
    baselines_table,
    best_table,
    dependencies,
    picks,
    relations_of,
    relations_table,
)
from lamina.analyses.declaration import Table, Tables, analysis
from lamina.analyses.findings import finding, rows_of
from lamina.analyses.inputs import Treebank
from lamina.analyses.resampling import CHOOSING, SCORED, halve
from lamina.analyses.settings import Rows, Samples, Seed, Setting
from lamina.analyses.watching import (
    From,
    Watch,
    Watched,
    Watching,
    first_token,
    refuse_without_maps,
    watch,
)
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.results import Finding, Result
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
"""Dependencies that a relation must have been scored on to be shown."""
_OFTEN = 20
"""Dependencies that a relation must have been scored on for a finding."""


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


@analysis(
    title="Heads that find dependencies",
    question="Which single head points from a word to its syntactic head?",
    method=(
        "A head's answer for a word is the other word with the largest weight in its row or its column, special tokens "
        "left out. Head, direction and fixed offset are chosen on one half of the documents and scored on the other; "
        "intervals resample texts."
    ),
    cites=("Clark et al. 2019",),
    reads=Treebank(),
    version=2,  # bootstrap weights follow from a text's id, no longer from the order of texts
    tables={
        "relations": Table("One row per head, relation and direction.", RELATIONS),
        "best": Table("One row per relation: its best head beside the best fixed offset.", RELATIONS),
        "baselines": Table("One row per relation and simple system.", SYSTEMS),
        "examples": Table("One row per pair of words in an example sentence.", EXAMPLES),
    },
    chapter="heads",
    report={"samples": 500},
    example="lamina heads minilm --corpus ud_english_ewt --split dev --out results/heads",
)
def heads(
    encoder: Encoder,
    corpus: Corpus,
    *,
    rows: Rows = "mean",
    faithful: Annotated[
        bool, Setting("Choose the best heads on the texts they are scored on, as in the paper.")
    ] = False,
    samples: Samples = 500,
    seed: Seed = 0,
) -> Watching:
    """How many dependencies each head finds, by relation and direction, beside the best fixed offset.

    A head's answer for a word is the other word with the largest weight in the word's row (`dependent`: the dependent
    attends to its head) or in its column (`head`: the head attends to its dependent); special tokens do not count. In
    a decoder no word attends to a later one, so only one of the two directions can find a given dependency; and where
    its tokenizer puts no special token first, the text's first word draws the attention that special tokens draw
    elsewhere, and hides what a row says (provenance says which it was).

    `best` picks head, direction and offset on one half of the documents and scores them on the other: the winner of
    hundreds of heads is lucky on the data that made it win, and nowhere else. Intervals (95 %) resample texts.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt", "dev")  # doctest: +SKIP
        >>> heads(encoder, corpus).tables["best"].head(1)["relation"].tolist()  # doctest: +SKIP
        ['punct']
    """
    refuse_without_maps(encoder)
    found = _relations(corpus)
    halves = halve(corpus, seed)
    if not faithful and not halves.choosing:
        raise CorpusError(
            f"{corpus.name}: one half of the texts chooses heads and the other is scored, and there is one text only; "
            "give more, or choose and score on the same one (faithful)"
        )
    meter = RelationMeter(encoder.blocks * encoder.heads, found, halves, samples=samples, seed=seed)
    skipped = yield Watch(encoder, corpus, [meter], rows=rows, total=len(corpus))
    chosen, scored = (None, None) if faithful else (CHOOSING, SCORED)
    best = best_table(meter, picks(meter, chosen), scored, encoder.heads)
    everywhere = relations_table(meter, encoder.heads)
    skipped["dependencies lost where their text was cut"] = found[ALL] - _counted(meter)
    skipped["relations that only one half of the texts has, without a best head"] = len(found) - len(best)
    tables = {
        "relations": everywhere,
        "best": best,
        "baselines": baselines_table(meter),
        "examples": examples_table(encoder, corpus, best, rows),
    }
    return Tables(tables, skipped, model={"first_token": first_token(encoder)})


@heads.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The relation that a head finds far better than any offset, and how often heads do so at all."""
    best = result.tables.get("best")
    if best is None or best.empty:
        return
    scored = best.dropna(subset=["accuracy", "low", "high", "offset_accuracy"])
    own = scored[(scored["count"] >= _OFTEN) & ~scored["relation"].isin([ALL, NO_PUNCTUATION])]
    leading = own.assign(lead=own["low"] - own["offset_accuracy"]).nlargest(1, "lead")
    for row in rows_of(leading):
        claim = (
            f"The relation that a head finds most clearly is {row.relation}"
            if row.low > row.offset_accuracy
            else f"No head clearly finds a relation better than a fixed offset; the closest is {row.relation}"
        )
        yield finding(
            f"{claim}: head {row.layer}-{row.head} finds {{number}} of {row.count:,}; the best fixed offset finds "
            "{against}.",
            row.accuracy, row.low, row.high, row.offset_accuracy,
        )  # fmt: skip
    for row in rows_of(scored[scored["relation"] == NO_PUNCTUATION]):
        yield finding(
            f"Over all relations the best single head, {row.layer}-{row.head}, finds {{number}} of dependencies "
            "without punctuation; the best fixed offset finds {against}.",
            row.accuracy, row.low, row.high, row.offset_accuracy,
        )  # fmt: skip


def _relations(corpus: Corpus) -> Counter[str]:
    """The relations of the corpus, `all` first and then the most frequent first."""
    if "dep" not in corpus.annotations:
        has = ", ".join(corpus.annotations) or "none"
        raise CorpusError(
            f"{corpus.name} has no dependencies (annotation dep; it has: {has}); name a treebank, for example ewt"
        )
    found = relations_of(corpus)
    if not found:
        raise CorpusError(f"{corpus.name} ({corpus.split}) has no dependency: all its sentences have one word")
    together = {name: found[name] for name in (ALL, NO_PUNCTUATION) if name in found}
    return Counter(together | dict(found.most_common()))


def _counted(meter: RelationMeter) -> int:
    return int(meter.sums().counts[meter.relations.index(ALL)])

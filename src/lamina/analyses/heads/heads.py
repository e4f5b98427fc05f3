"""Which head finds which dependency: every head as an untrained classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Annotated, NamedTuple

import pandas as pd

from lamina.analyses.heads.relations import (
    ALL,
    BEST,
    NO_PUNCTUATION,
    RELATION,
    RELATIONS,
    SYSTEMS,
    RelationMeter,
    baselines_table,
    best_table,
    dependencies,
    lead_over_offset,
    relation_findings,
    relations_of,
    relations_table,
)
from lamina.corpora import Corpus
from lamina.errors import CorpusError
from lamina.framework.declare import Table, Tables, analysis
from lamina.framework.inputs import Treebank
from lamina.framework.settings import Rows, Samples, Seed, Setting, Weights
from lamina.framework.watch import (
    From,
    Watch,
    WatchedBatch,
    WatchedText,
    Watching,
    Weighting,
    first_token,
    refuse_without_maps,
    watch,
)
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import Finding, rows_of
from lamina.stats.units import halve
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


class RelationHead(NamedTuple):
    """A head and the relation it finds."""

    relation: str
    direction: str
    layer: int
    head: int


def examples_table(
    encoder: Encoder, corpus: Corpus, best: pd.DataFrame, rows: From, weights: Weighting
) -> pd.DataFrame:
    """Whole word-level maps of the heads that lead their offset by most and clearly, on the first sentences that fit.

    Sentences are taken in the order of the corpus, whether the head is right about them or not: a picture of the
    best sentences would say nothing.
    """
    texts = _texts(corpus, examples := _worth_showing(best))
    drawer = _ExampleMaps(texts)
    shown_texts = {text.id: text for some in texts.values() for text in some}.values()
    watch(encoder, shown_texts, [drawer], rows=rows, weights=weights)
    ordered = [row for example in examples for row in drawer.found if row[:4] == example]
    return pd.DataFrame(ordered, columns=list(EXAMPLES))


def _worth_showing(best: pd.DataFrame) -> list[RelationHead]:
    """The heads whose lead is established, the largest leads first."""
    clear = pd.DataFrame(best[(best["kind"] == RELATION) & best["ahead"]])
    ranked = clear.sort_values("difference", ascending=False, kind="stable").head(_RELATIONS)
    return [RelationHead(*row) for row in ranked[list(RelationHead._fields)].itertuples(index=False)]


def _texts(corpus: Corpus, examples: Sequence[RelationHead]) -> dict[RelationHead, list[Text]]:
    """The first texts that fit, each for the first relation that still wants one."""
    texts: dict[RelationHead, list[Text]] = {example: [] for example in examples}
    for text in corpus:
        wanting = [example for example in examples if len(texts[example]) < _EACH]
        if not wanting:
            break
        if len(text.words) in WORDS:
            relations = {edge.labels[0] for edge in dependencies(text)}
            for example in [example for example in wanting if example.relation in relations][:1]:
                texts[example].append(text)
    return texts


class _ExampleMaps:
    """Keeps the maps of a few heads on a few short texts."""

    def __init__(self, texts: dict[RelationHead, list[Text]]) -> None:
        self._shown = [(text.id, example) for example, some in texts.items() for text in some]
        self.found: list[tuple] = []

    def update(self, batch: WatchedBatch) -> None:
        for watched in batch.singly:
            self._draw(watched)

    def _draw(self, watched: WatchedText) -> None:
        words, special = watched.words
        for text_id, example in self._shown:
            if text_id != watched.text.id:
                continue
            weights = words[example.layer - 1, example.head - 1].tolist()
            rest = special[example.layer - 1, example.head - 1].tolist()
            links = _links(watched.text, example)
            names = watched.text.words
            for one, other in product(range(len(names)), range(-1, len(names))):
                to, weight = (SPECIAL_TOKENS, rest[one]) if other < 0 else (names[other], weights[one][other])
                self.found.append((*example, text_id, names[one], to, one, other, weight, (one, other) in links))


def _links(text: Text, example: RelationHead) -> set[tuple[int, int]]:
    """From whom to whom a head of this direction should attend."""
    pairs = [
        (edge.span.start, edge.other.start)
        for edge in dependencies(text)
        if edge.other is not None and edge.labels[0] == example.relation
    ]
    return set(pairs) if example.direction == "dependent" else {(head, dependent) for dependent, head in pairs}


@analysis(
    title="Heads that find dependencies",
    question="Which single head points from a word to its syntactic head?",
    method=(
        "A head's answer for a word is the other word with the largest weight in its row or its column, special tokens "
        "left out. Every head is compared with the relation's best fixed offset on the same documents, by flipping the "
        "signs of whole documents, one-sided; one family of all heads, directions and relations of at least 30 "
        "dependencies (max-T). Accuracies of a chosen head are also cross-fitted: chosen on one half of the documents, "
        "scored on the other, and the other way round."
    ),
    cites=("Clark et al. 2019",),
    reads=Treebank(),
    # Both halves choose and are scored; documents are resampled; head and offset are paired (3). Max-T instead of Holm;
    # the contrast that is tested is the one that is told, cross-fitted scores stand beside it (4).
    version=4,
    tables={
        "relations": Table(
            "One row per head, relation and direction. `difference`: head minus best fixed offset; `p_adjusted` and "
            "`diff_low` are one-sided (more than the offset), of one family: all heads, directions and relations of at "
            "least 30 dependencies. `needed` above 0: untested.",
            RELATIONS,
        ),
        "best": Table(
            "One row per relation: the head that finds most of it, with its row of `relations`; `kind` says whether "
            "the relation counts as syntax, `ahead` whether the head is clearly ahead of the offset, `crossfit_` are "
            "scores of heads that other documents chose.",
            BEST,
        ),
        "baselines": Table("One row per relation and simple system.", SYSTEMS),
        "examples": Table("One row per pair of words in an example sentence.", EXAMPLES),
    },
    chapter="heads",
    takes=4,
    report={"samples": 500},
    example="lamina heads minilm --corpus ud_english_ewt --split dev --out results/heads",
)
def heads(
    encoder: Encoder,
    corpus: Corpus,
    *,
    rows: Rows = "mean",
    weights: Weights = "attention",
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

    `difference` is head minus the relation's best offset on the same documents. `p_adjusted` (one-sided: does the head
    find more?) and `diff_low` belong to one family of all heads, directions and relations of at least 30 dependencies:
    any of them could have been the best. The offset is the best on these documents, so the test is conservative.

    `best` has the head that finds most of each relation; it earns the relation's name where `p_adjusted` is below .05
    (`ahead`). `crossfit_accuracy` is what such a choice is worth on other documents: head, direction and offset are
    chosen on one half of the documents and scored on the other, then the other way round, and both are pooled; `agrees`
    says whether both halves chose the head that is shown. The winner of hundreds of heads is a little lucky on the data
    that made it win.
    Documents are what varies in all intervals and tests; texts, where the corpus is one document.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt", "dev")  # doctest: +SKIP
        >>> heads(encoder, corpus).tables["best"].head(1)["relation"].tolist()  # doctest: +SKIP
        ['punct']
    """
    refuse_without_maps(encoder)
    counts = _relations(corpus)
    halves = halve(corpus, seed)
    if not faithful and not halves.choosing:
        raise CorpusError(
            f"{corpus.name}: one half of the texts chooses heads and the other is scored, and there is one text only; "
            "give more, or choose and score on the same one (faithful)"
        )
    meter = RelationMeter(encoder.blocks * encoder.heads, counts, halves, samples=samples, seed=seed)
    skipped = yield Watch(encoder, corpus, [meter], rows=rows, total=len(corpus), weights=weights)
    everywhere = relations_table(meter, encoder.heads)
    best = best_table(meter, everywhere, faithful=faithful)
    skipped["dependencies lost where their text was cut"] = counts[ALL] - _counted(meter)
    if not faithful:
        lone = int(best["crossfit_accuracy"].isna().sum())
        skipped["relations that only one half of the texts has, without a cross-fitted score"] = lone
    tables = {
        "relations": everywhere,
        "best": best,
        "baselines": baselines_table(meter),
        "examples": examples_table(encoder, corpus, best, rows, weights),
    }
    scored = {"dependencies": _counted(meter)}
    return Tables(tables, skipped, model={"first_token": first_token(encoder)}, scored=scored)


@heads.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The relations that heads find most clearly, how many there are, and all relations together."""
    best = result.tables.get("best")
    if best is None or best.empty or not set(BEST) <= set(best):
        return
    yield from relation_findings(best, "best")
    for row in rows_of(best[best["relation"] == NO_PUNCTUATION].dropna(subset=["diff_low"])):
        yield lead_over_offset(row, "best", "all dependencies without punctuation", ("answers", "beats control"))


def _relations(corpus: Corpus) -> Counter[str]:
    """The relations of the corpus, `all` first and then the most frequent first."""
    if "dep" not in corpus.annotations:
        has = ", ".join(corpus.annotations) or "none"
        raise CorpusError(
            f"{corpus.name} has no dependencies (annotation dep; it has: {has}); name a treebank, for example ewt"
        )
    counts = relations_of(corpus)
    if not counts:
        raise CorpusError(f"{corpus.name} ({corpus.split}) has no dependency: all its sentences have one word")
    together = {name: counts[name] for name in (ALL, NO_PUNCTUATION) if name in counts}
    return Counter(together | dict(counts.most_common()))


def _counted(meter: RelationMeter) -> int:
    return int(meter.sums().counts[meter.relations.index(ALL)])

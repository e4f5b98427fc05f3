"""Which head finds which dependency: every head as an untrained classifier."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Annotated, Any, NamedTuple

import pandas as pd

from lamina.analyses.heads.behaviours import LEAD, OFTEN
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
    relations_of,
    relations_table,
)
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.framework.declare import Table, Tables, analysis
from lamina.framework.inputs import Treebank
from lamina.framework.sample_size import LEAST_TARGETS
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
from lamina.results import Result
from lamina.results.finding import Finding, Source, Worth, finding, not_tested, percent, rows_of
from lamina.stats.status import Contrast
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


class Shown(NamedTuple):
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
    texts = _texts(corpus, shown := _worth_showing(best))
    drawer = _Drawer(texts)
    shown_texts = {text.id: text for some in texts.values() for text in some}.values()
    watch(encoder, shown_texts, [drawer], rows=rows, weights=weights)
    ordered = [row for each in shown for row in drawer.found if row[:4] == each]
    return pd.DataFrame(ordered, columns=list(EXAMPLES))


def _worth_showing(best: pd.DataFrame) -> list[Shown]:
    """The heads whose lead is established, the largest leads first."""
    clear = pd.DataFrame(best[(best["kind"] == RELATION) & best["ahead"]])
    ranked = clear.sort_values("difference", ascending=False, kind="stable").head(_RELATIONS)
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

    def update(self, batch: WatchedBatch) -> None:
        for watched in batch.singly:
            self._draw(watched)

    def _draw(self, watched: WatchedText) -> None:
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
    found = _relations(corpus)
    halves = halve(corpus, seed)
    if not faithful and not halves.choosing:
        raise CorpusError(
            f"{corpus.name}: one half of the texts chooses heads and the other is scored, and there is one text only; "
            "give more, or choose and score on the same one (faithful)"
        )
    meter = RelationMeter(encoder.blocks * encoder.heads, found, halves, samples=samples, seed=seed)
    skipped = yield Watch(encoder, corpus, [meter], rows=rows, total=len(corpus), weights=weights)
    everywhere = relations_table(meter, encoder.heads)
    best = best_table(meter, everywhere, faithful=faithful)
    skipped["dependencies lost where their text was cut"] = found[ALL] - _counted(meter)
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


_MOST = 3
"""Relations that are told one by one."""


def _one_sided(row: Any) -> Contrast:
    """The test of a lead, whose interval has no upper end."""
    return Contrast.of(row, *LEAD[:3])._replace(high=math.inf)


@heads.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The relations that heads find most clearly, how many there are, and all relations together."""
    best = result.tables.get("best")
    if best is None or best.empty or not set(BEST) <= set(best):
        return
    yield from relation_findings(best, "best")
    for row in rows_of(best[best["relation"] == NO_PUNCTUATION].dropna(subset=["diff_low"])):
        yield _against_offset(row, "best", "all dependencies without punctuation", ("answers", "beats control"))


def relation_findings(best: pd.DataFrame, table: str, most: int = _MOST) -> Iterable[Finding]:
    """Which relations heads find more often than the best fixed offset, and how many.

    Args:
        best: rows of `best.csv`.
        table: the name it has in the result.
        most: relations to name one by one.
    """
    relations = pd.DataFrame(best[best["kind"] == RELATION])
    whether = "a head finds any relation more often than the best fixed offset"
    if best.empty:
        return
    if relations.empty:
        yield not_tested(whether, f"no relation has {OFTEN} dependencies")
        return
    ahead = pd.DataFrame(relations[relations["ahead"]])
    if ahead.empty:
        yield _closest(relations, table, whether)
    for row in rows_of(ahead.nlargest(most, "diff_low")):
        yield _against_offset(row, table, f"{row.relation} relations", ("answers", "beats control", "localised"))
    if len(ahead) > 1:
        yield _counted_relations(ahead, relations, table)


def _closest(relations: pd.DataFrame, table: str, whether: str) -> Finding:
    """Where no lead is clear: the most certain one; of untested ones, the largest."""
    ranked = relations.sort_values(["p_adjusted", "difference"], ascending=[True, False], na_position="last")
    row = next(rows_of(ranked))
    test = _one_sided(row)
    closest = "" if test.needed else f"; head {row.layer}-{row.head} comes closest, for {row.relation}"
    return finding(
        claim=f"Head {row.layer}-{row.head} finds {row.relation} more often than the best fixed offset",
        whether=whether + closest,
        absent="No head finds a relation more often than the best fixed offset",
        contrast="difference",
        test=test,
        source=Source(table, {"relation": row.relation}),
        unit=row.unit,
        importance=("answers", "beats control"),
    )


def _against_offset(row: Any, table: str, what: str, importance: Sequence[Worth]) -> Finding:
    """One head beside the best fixed offset."""
    head = f"head {row.layer}-{row.head}"
    notes = []
    if row.crossfit_accuracy == row.crossfit_accuracy and not row.agrees:
        notes.append(f"Chosen on other documents, the best head finds {percent(row.crossfit_accuracy)}.")
    # Of all relations together, provenance says so.
    if row.count < LEAST_TARGETS and row.kind == RELATION:
        notes.append(f"Small sample: {row.count:,} targets.")
    return finding(
        claim=(
            f"{head.capitalize()} finds {percent(row.accuracy)} of {what}; the best fixed offset finds "
            f"{percent(row.offset_accuracy)}"
        ),
        whether=f"{head} finds more of {what} than the best fixed offset",
        absent=f"{head.capitalize()} finds no more of {what} than the best fixed offset",
        contrast="difference",
        test=_one_sided(row),
        source=Source(table, {"relation": row.relation}),
        unit=row.unit,
        importance=importance,
        note=" ".join(notes),
    )


def _counted_relations(ahead: pd.DataFrame, relations: pd.DataFrame, table: str) -> Finding:
    """All of them hold together; the test of the least certain one is theirs."""
    row = next(rows_of(ahead.sort_values(["p_adjusted", "diff_low"], ascending=[False, True])))
    count = f"{len(ahead)} of {len(relations)} relations"
    return finding(
        claim=f"Heads find {count} more often than the best fixed offset; the least certain is {row.relation}",
        whether=f"heads find {count} more often than the best fixed offset",
        absent=f"Heads find none of {len(relations)} relations more often than the best fixed offset",
        contrast="its difference",
        test=_one_sided(row),
        source=(
            Source(table, {"relation": row.relation}),
            Source(table, {"kind": RELATION}),
            Source(table, {"kind": RELATION, "ahead": True}),
        ),
        unit=row.unit,
    )


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

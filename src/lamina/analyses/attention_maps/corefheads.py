"""Which head finds antecedents: the coreference analysis of the attention paper, whose code was never released."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import pandas as pd

from lamina.analyses.attention_maps.coreference import ALL, BASELINES, KINDS, Among, CorefMeter, anaphors
from lamina.analyses.declaration import Table, Tables, analysis
from lamina.analyses.findings import number, rows_of, status_of
from lamina.analyses.inputs import Documents
from lamina.analyses.resampling import CHOOSING, SCORED, document_of, halve, intervals
from lamina.analyses.settings import Rows, Samples, Seed, Setting
from lamina.analyses.watching import CUT, Watch, Watching, first_token, refuse_without_maps
from lamina.corpora import Corpus
from lamina.corpora.corpus import with_unique_ids
from lamina.encoders import SPECIAL, Encoder
from lamina.errors import CorpusError
from lamina.results import Finding, Result
from lamina.types import Edge, Span, Text


def windows(encoder: Encoder, texts: Iterable[Text], most: int) -> Iterator[Text]:
    """Each text in as few windows of whole sentences as fit `most` tokens, special ones included.

    Sentences are those of the annotation `sentence`; a text without them stays whole, and a sentence longer than a
    window is one by itself. Targets that lie in two windows are lost.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> sentences = tuple(Edge((str(at),), Span(at, at + 2)) for at in (0, 2, 4))
        >>> text = Text("d", ("We", "ran", "He", "sat", "It", "fell"), edges={"sentence": sentences})
        >>> [(each.id, each.words) for each in windows(TinyEncoder(), [text], most=6)]
        [('d:1', ('We', 'ran', 'He', 'sat')), ('d:2', ('It', 'fell'))]
    """
    for text in texts:
        tokens = encoder.tokenize(text).words
        ends = sorted({edge.span.end for edge in text.edges.get("sentence", ())} - {len(text.words)})
        if len(tokens) <= most or not ends or len(text.segments) > 1:
            yield text
            continue
        own = tokens[tokens != SPECIAL]
        # Pieces before each word: a window's size without cutting it into pieces again.
        before = np.r_[0, np.cumsum(np.bincount(own, minlength=len(text.words)))]
        borders = _borders([0, *ends, len(text.words)], before, most - (len(tokens) - len(own)))
        for at, (start, end) in enumerate(pairwise(borders), start=1):
            yield _part(text, Span(start, end), at)


def _borders(ends: Sequence[int], before: np.ndarray, room: int) -> list[int]:
    borders = [0]
    for this, following in zip(ends[1:], [*ends[2:], None], strict=True):
        if following is None or before[following] - before[borders[-1]] > room:
            borders.append(this)
    return borders


def _part(text: Text, kept: Span, number: int) -> Text:
    edges = {
        name: tuple(edge.shift(-kept.start) for edge in found if _inside(edge, kept))
        for name, found in text.edges.items()
    }
    return Text(f"{text.id}:{number}", text.words[kept.start : kept.end], edges=edges, doc=document_of(text))


def _inside(edge: Edge, kept: Span) -> bool:
    return all(
        kept.start <= span.start and span.end <= kept.end for span in (edge.span, edge.other) if span is not None
    )


COLUMNS = ("system", "layer", "head", "mention_type", "count", "accuracy", "low", "high")
"""Of `coref.csv`."""
PAPER_PIECES = 128
"""What the paper cut documents to."""
BEST = "best head"
_CALLED = {"nearest": "taking the nearest mention", "head match": "matching head words", "rules": "the rules"}
"""Baseline -> in words."""


@analysis(
    title="Heads that find antecedents",
    question="Which head points from a mention to one it corefers with?",
    method=(
        "For each mention with an antecedent in its window: is the word that its head word attends most to the head "
        "word of an antecedent? The best head is chosen on one half of the documents; it and three rule baselines are "
        "scored on the other, and intervals resample documents."
    ),
    cites=("Clark et al. 2019",),
    reads=Documents(),
    version=2,  # bootstrap weights are drawn by another generator
    tables={"coref": Table("One row per system and type of mention; the system `head` has one per head.", COLUMNS)},
    chapter="heads",
    example="lamina corefheads minilm --corpus gum_open --split dev --out results/corefheads",
)
def corefheads(
    encoder: Encoder,
    corpus: Corpus,
    *,
    among: Annotated[
        Among, Setting("A head picks among all other words, or among the candidates that the baselines pick from.")
    ] = "words",
    window: Annotated[int, Setting("Most tokens of a window, where the model takes more.", min=16)] = 512,
    rows: Rows = "mean",
    faithful: Annotated[bool, Setting("Only the first 128 tokens of each document, as in the paper.")] = False,
    samples: Samples = 1000,
    seed: Seed = 0,
) -> Watching:
    """How often each attention head finds a mention's antecedent, beside three simple baselines.

    Documents with `chains` of mentions are cut at sentence ends into windows that fit the model; antecedents in
    another window are out of reach and counted. Texts with pairs of mentions (`coref`, as in GAP) stay as they are.

    The system `head` has one row per head, on all documents. `best head` is chosen on one half of the documents, over
    all types of mention, and scored on the other; the baselines are scored on that same half, so that the four
    compare. Intervals (95 %) resample documents.

    Example:
        >>> corpus = lamina.load_corpus("gum_open", "dev", unit="document")  # doctest: +SKIP
        >>> corefheads(lamina.load_encoder("minilm"), corpus).tables["coref"]["system"].iloc[0]  # doctest: +SKIP
        'best head'
    """
    refuse_without_maps(encoder)
    asked = _asked(corpus)
    halves = halve(corpus, seed)
    if halves.by != "document":
        raise CorpusError(
            f"{corpus.name} ({corpus.split}) is one document; one half of the documents chooses a head and the other "
            "is scored, so give at least two (--split all has most)"
        )
    meter = CorefMeter(encoder.blocks * encoder.heads, halves, among=among, samples=samples, seed=seed)
    texts, most = _cut(encoder, corpus, window=window, faithful=faithful)
    skipped = yield Watch(encoder, texts, [meter], rows=rows, limit=most)
    counts = [meter.sums(half).counts[KINDS.index(ALL)] for half in (CHOOSING, SCORED)]
    if not all(counts):
        raise CorpusError(
            f"{corpus.name} ({corpus.split}): one half of the documents has no mention with an antecedent in reach; "
            "give more documents, or load them with --unit document"
        )
    skipped["mentions whose antecedents all lie outside their window"] = asked - int(sum(counts))
    tables = {"coref": coref_table(meter, encoder.heads)}
    return Tables(tables, _named(skipped, most), model={"first_token": first_token(encoder)})


@corefheads.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The best head against each baseline, over all types of mention."""
    table = result.tables.get("coref")
    if table is None:
        return
    scored = table[(table["mention_type"] == ALL) & (table["count"] > 0)].dropna(subset=["accuracy", "low", "high"])
    systems = {row.system: row for row in rows_of(scored[scored["system"] != "head"])}
    best = systems.get(BEST)
    for name, called in _CALLED.items():
        if best is not None and name in systems:
            yield _compared(best, systems[name], called)


def _compared(best: Any, other: Any, called: str) -> Finding:
    """Clear where the two intervals do not overlap: cautious, since both are of the same mentions."""
    head = f"best single head, {best.layer}-{best.head},"
    status = status_of(best.low, best.high, other.accuracy, (other.low, other.high))
    claim = {
        "clear": f"The {head} finds {'more' if best.accuracy > other.accuracy else 'fewer'} antecedents than {called}",
        "open": f"Whether the {head} finds more antecedents than {called} is undecided",
        "null": f"The {head} finds as many antecedents as {called}",
    }[status]
    own, its = (number(each.accuracy, each.low, each.high) for each in (best, other))
    text = f"{claim}: {own} against {its} of {best.count:,} mentions."
    return Finding(text, status, best.accuracy, best.low, best.high, other.accuracy)


def _cut(encoder: Encoder, corpus: Corpus, *, window: int, faithful: bool) -> tuple[Iterable[Text], int]:
    """What is watched, and the most tokens of it: windows of documents, or the documents for their first 128."""
    if faithful:
        return corpus, PAPER_PIECES
    most = min(window, encoder.limit)
    return with_unique_ids(windows(encoder, corpus, most)), most


def _named(skipped: Mapping[str, int], most: int) -> dict[str, int]:
    """The counts, saying how many tokens were kept of what was cut."""
    return {f"texts cut to their first {most} tokens" if why == CUT else why: count for why, count in skipped.items()}


def _asked(corpus: Corpus) -> int:
    """How many mentions of the corpus have an antecedent."""
    if not {"chains", "coref"} & set(corpus.annotations):
        has = ", ".join(corpus.annotations) or "none"
        raise CorpusError(
            f"{corpus.name} has no coreference (annotation chains or coref; it has: {has}); "
            "name a corpus that has, for example gum_open or gap_coreference"
        )
    asked = sum(len(anaphors(text)) for text in corpus)
    if not asked:
        raise CorpusError(f"{corpus.name} ({corpus.split}): no mention has an antecedent; load it with --unit document")
    return asked


def coref_table(meter: CorefMeter, per_block: int) -> pd.DataFrame:
    """What a meter has counted, as `coref.csv`; `per_block` heads make a block."""
    table = pd.DataFrame(list(_rows(meter, per_block)), columns=list(COLUMNS))
    return table.astype({"layer": "Int64", "head": "Int64"})


def _rows(meter: CorefMeter, per_block: int) -> Iterator[tuple]:
    heads = meter.sums().systems.shape[-1] - len(BASELINES)
    best = int(meter.sums(CHOOSING).systems[KINDS.index(ALL), :heads].argmax())
    named = [(BEST, best), *((name, heads + at) for at, name in enumerate(BASELINES))]
    yield from _scored(meter, SCORED, named, per_block, heads)
    yield from _scored(meter, None, [("head", head) for head in range(heads)], per_block, heads)


def _scored(
    meter: CorefMeter, half: int | None, systems: list[tuple[str, int]], per_block: int, heads: int
) -> Iterator[tuple]:
    sums, samples = meter.sums(half), meter.samples(half)
    spread = [intervals(samples.systems[:, kind], samples.counts[:, kind]) for kind in range(len(KINDS))]
    for name, at in systems:
        place = (at // per_block + 1, at % per_block + 1) if at < heads else (None, None)
        for kind, mention_type in enumerate(KINDS):
            count = sums.counts[kind]
            accuracy = sums.systems[kind, at] / count if count else np.nan
            low, high = (float(end[at]) for end in spread[kind])
            yield name, *place, mention_type, int(count), float(accuracy), low, high

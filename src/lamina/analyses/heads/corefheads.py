"""Which head finds antecedents: the coreference analysis of the attention paper, whose code was never released."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from lamina.analyses.heads.behaviours import LEAD
from lamina.analyses.heads.coreference import (
    ALL,
    BEST_ANTECEDENTS,
    COLUMNS,
    KINDS,
    Among,
    CorefMeter,
    anaphors,
    best_table,
    coref_table,
)
from lamina.corpora import Corpus
from lamina.corpora.corpus import with_unique_ids
from lamina.errors import CorpusError
from lamina.framework.declare import Table, Tables, analysis
from lamina.framework.inputs import Documents
from lamina.framework.settings import Rows, Samples, Seed, Setting, Weights
from lamina.framework.watch import CUT, Watch, Watching, first_token, refuse_without_maps
from lamina.models import SPECIAL, Encoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, percent, rows_of
from lamina.stats.status import Contrast
from lamina.stats.units import CHOOSING, SCORED, document_of, halve
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
        word_tokens = tokens[tokens != SPECIAL]
        # Pieces before each word: a window's size without cutting it into pieces again.
        before = np.r_[0, np.cumsum(np.bincount(word_tokens, minlength=len(text.words)))]
        borders = _borders([0, *ends, len(text.words)], before, most - (len(tokens) - len(word_tokens)))
        for number, (start, end) in enumerate(pairwise(borders), start=1):
            yield _part(text, Span(start, end), number)


def _borders(ends: Sequence[int], before: np.ndarray, room: int) -> list[int]:
    borders = [0]
    for this, following in zip(ends[1:], [*ends[2:], None], strict=True):
        if following is None or before[following] - before[borders[-1]] > room:
            borders.append(this)
    return borders


def _part(text: Text, span: Span, number: int) -> Text:
    edges = {
        name: tuple(edge.shift(-span.start) for edge in annotated if _inside(edge, span))
        for name, annotated in text.edges.items()
    }
    return Text(f"{text.id}:{number}", text.words[span.start : span.end], edges=edges, doc=document_of(text))


def _inside(edge: Edge, window: Span) -> bool:
    return all(
        window.start <= span.start and span.end <= window.end for span in (edge.span, edge.other) if span is not None
    )


PAPER_PIECES = 128
"""What the paper cut documents to."""
_CALLED = {"nearest": "taking the nearest mention", "head match": "matching head words", "rules": "the rules"}
"""Baseline -> in words."""


@analysis(
    title="Heads that find antecedents",
    question="Which head points from a mention to one it corefers with?",
    method=(
        "For each mention with an antecedent in its window: is the word that its head word attends most to the head "
        "word of an antecedent? The best head of each type of mention is compared with three baselines on the same "
        "documents, by flipping the signs of whole documents, two-sided; one family of all heads, types and baselines "
        "(max-T). Its accuracy is also cross-fitted: the head is chosen on one half of the documents and scored on the "
        "other, then the other way round."
    ),
    cites=("Clark et al. 2019",),
    reads=Documents(),
    # Both halves choose and are scored; a best head per type; head and baselines are paired (3). Max-T instead of Holm;
    # the contrast that is tested is the one that is told, cross-fitted scores stand beside it (4).
    version=4,
    tables={
        "coref": Table("One row per system and type of mention; the system `head` has one per head.", COLUMNS),
        "best": Table(
            "One row per type of mention and baseline: the type's best head against it. `difference`: head minus "
            "baseline; its interval and `p_adjusted` are two-sided, of one family: all heads, types and baselines. "
            "`needed` above 0: untested. `crossfit_` are scores of heads that other documents chose.",
            BEST_ANTECEDENTS,
        ),
    },
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
    weights: Weights = "attention",
    faithful: Annotated[
        bool,
        Setting(
            "As in the paper: the first 128 tokens of each document, and one best head for all types of mention, "
            "chosen on the documents it is scored on."
        ),
    ] = False,
    samples: Samples = 1000,
    seed: Seed = 0,
) -> Watching:
    """How often each attention head finds a mention's antecedent, beside three simple baselines.

    Documents with `chains` of mentions are cut at sentence ends into windows that fit the model; antecedents in
    another window are out of reach and counted. Texts with pairs of mentions (`coref`, as in GAP) stay as they are.

    The system `head` has one row per head, on all documents, `best head` the best of them for each type of mention, and
    `best head, cross-fitted` what such a choice is worth on other documents: a head is chosen on one half of the
    documents and scored on the other, then the other way round, and both are pooled.
    `best` compares it with every baseline: `difference` is head minus baseline on the same documents; its interval and
    `p_adjusted` (two-sided) belong to one family of all heads, types and baselines, since any of them could have been
    the best. Documents are what varies in all of them.

    Example:
        >>> corpus = lamina.load_corpus("gum_open", "dev", unit="document")  # doctest: +SKIP
        >>> corefheads(lamina.load_encoder("minilm"), corpus).tables["coref"]["system"].iloc[0]  # doctest: +SKIP
        'best head'
    """
    refuse_without_maps(encoder)
    mentions = _count_mentions(corpus)
    halves = halve(corpus, seed)
    if halves.by != "document":
        raise CorpusError(
            f"{corpus.name} ({corpus.split}) is one document; one half of the documents chooses a head and the other "
            "is scored, so give at least two (--split all has most)"
        )
    meter = CorefMeter(encoder.blocks * encoder.heads, halves, among=among, samples=samples, seed=seed)
    texts, most = _cut(encoder, corpus, window=window, faithful=faithful)
    skipped = yield Watch(encoder, texts, [meter], rows=rows, limit=most, weights=weights)
    counts = [meter.sums(half).counts[KINDS.index(ALL)] for half in (CHOOSING, SCORED)]
    if not all(counts):
        raise CorpusError(
            f"{corpus.name} ({corpus.split}): one half of the documents has no mention with an antecedent in reach; "
            "give more documents, or load them with --unit document"
        )
    skipped["mentions whose antecedents all lie outside their window"] = mentions - int(sum(counts))
    best = best_table(meter, encoder.heads, faithful=faithful)
    tables = {"coref": coref_table(meter, encoder.heads, best), "best": best}
    scored = {"mentions": int(sum(counts))}
    return Tables(tables, _named(skipped, most), model={"first_token": first_token(encoder)}, scored=scored)


@corefheads.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The best head against each baseline, over all types of mention."""
    best = result.tables.get("best")
    if best is None or not set(BEST_ANTECEDENTS) <= set(best):
        return
    for row in rows_of(best[(best["mention_type"] == ALL) & (best["count"] > 0)]):
        yield _compared(row, _CALLED[str(row.baseline)])


def _compared(row: Any, called: str) -> Finding:
    head = f"best single head, {row.layer}-{row.head},"
    more = "more" if row.difference > 0 else "fewer"
    note = f"Chosen on other documents, the best head finds {percent(row.crossfit_accuracy)}." if not row.agrees else ""
    return finding(
        claim=(
            f"The {head} finds {more} antecedents than {called}: {percent(row.accuracy)} against "
            f"{percent(row.baseline_accuracy)}"
        ),
        whether=f"the {head} finds more or fewer antecedents than {called}",
        absent=f"The {head} finds as many antecedents as {called}",
        contrast="difference",
        test=Contrast.of(row, *LEAD[:3]),
        source=Source("best", {"mention_type": row.mention_type, "baseline": row.baseline}),
        importance=("answers", "beats control", "localised") if row.difference > 0 else ("answers",),
        note=note,
    )


def _cut(encoder: Encoder, corpus: Corpus, *, window: int, faithful: bool) -> tuple[Iterable[Text], int]:
    """What is watched, and the most tokens of it: windows of documents, or the documents for their first 128."""
    if faithful:
        return corpus, PAPER_PIECES
    most = min(window, encoder.limit)
    return with_unique_ids(windows(encoder, corpus, most)), most


def _named(skipped: Mapping[str, int], most: int) -> dict[str, int]:
    """The counts, saying how many tokens were kept of what was cut."""
    return {f"texts cut to their first {most} tokens" if why == CUT else why: count for why, count in skipped.items()}


def _count_mentions(corpus: Corpus) -> int:
    """How many mentions of the corpus have an antecedent."""
    if not {"chains", "coref"} & set(corpus.annotations):
        has = ", ".join(corpus.annotations) or "none"
        raise CorpusError(
            f"{corpus.name} has no coreference (annotation chains or coref; it has: {has}); "
            "name a corpus that has, for example gum_open or gap_coreference"
        )
    mentions = sum(len(anaphors(text)) for text in corpus)
    if not mentions:
        raise CorpusError(f"{corpus.name} ({corpus.split}): no mention has an antecedent; load it with --unit document")
    return mentions

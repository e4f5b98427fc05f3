"""Which head finds antecedents: the coreference analysis of the attention paper, whose code was never released."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd

from lamina.analyses.attention_maps.antecedents import BASELINES, anaphors
from lamina.analyses.attention_maps.coreference import ALL, KINDS, Among, CorefMeter
from lamina.analyses.attention_maps.halves import CHOOSING, SCORED, halve, intervals
from lamina.analyses.attention_maps.roles import first_token
from lamina.analyses.attention_maps.watching import CUT, refuse_without_maps, watch
from lamina.analyses.attention_maps.windows import windows
from lamina.analyses.attention_maps.words import From
from lamina.corpora import Corpus
from lamina.corpora.corpus import with_unique_ids
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.results import Provenance, Result
from lamina.types import Text

COLUMNS = ("system", "layer", "head", "mention_type", "count", "accuracy", "low", "high")
"""Of `coref.csv`."""
PAPER_PIECES = 128
"""What the paper cut documents to."""


def corefheads(
    encoder: Encoder,
    corpus: Corpus,
    *,
    among: Among = "words",
    window: int = 512,
    rows: From = "mean",
    faithful: bool = False,
    samples: int = 1000,
    seed: int = 0,
) -> Result:
    """How often each head finds an antecedent, by type of mention, beside the paper's three baselines.

    For every mention that has an antecedent in its window: is the word that the mention's head word attends most to
    the head word of an antecedent? Documents (load them with `unit="document"`) are cut at sentence ends into windows
    that fit the model; antecedents in another window are out of reach and counted.

    The system `head` has a row for each head, on all documents. `best head` is picked on one half of the documents,
    over all types of mention, and scored on the other; the baselines are scored on that same half, so that the four
    compare. Intervals (95 %) resample documents.

    Args:
        encoder: whose heads.
        corpus: documents with `chains`, or pairs of mentions (`coref`, as in GAP).
        among: whether a head picks among all other words, or among the candidates that the baselines pick from.
        window: the most tokens of a window, where the model takes more.
        rows: how rows of split words become one: mean, or first.
        faithful: only the first 128 tokens of each document, as in the paper.
        samples: bootstrap samples for the intervals.
        seed: of the halves and the bootstrap.

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
    texts, most = cut(encoder, corpus, window=window, faithful=faithful)
    skipped = watch(encoder, texts, [meter], rows=rows, limit=most)
    counts = [meter.sums(half).counts[KINDS.index(ALL)] for half in (CHOOSING, SCORED)]
    if not all(counts):
        raise CorpusError(
            f"{corpus.name} ({corpus.split}): one half of the documents has no mention with an antecedent in reach; "
            "give more documents, or load them with --unit document"
        )
    skipped["mentions whose antecedents all lie outside their window"] = asked - int(sum(counts))
    tables = {"coref": coref_table(meter, encoder.heads)}
    parameters = {
        "among": among,
        "window": window,
        "rows": rows,
        "faithful": faithful,
        "samples": samples,
        "seed": seed,
    }
    model = encoder.describe() | {"first_token": first_token(encoder)}
    provenance = Provenance(model, corpus.describe(), parameters, (seed,), _named(skipped, most))
    return Result("corefheads", tables, provenance)


def cut(encoder: Encoder, corpus: Corpus, *, window: int, faithful: bool) -> tuple[Iterable[Text], int]:
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
    named = [("best head", best), *((name, heads + at) for at, name in enumerate(BASELINES))]
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

"""Which layers and heads of two models correspond, whatever their depth: CKA of all layers, heads that attend alike."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lamina.analyses.heads.look import sink_words, to_words
from lamina.comparison.similarity import LeaveOneOut, grouped, jackknife_draws, word_vectors
from lamina.corpora import Corpus
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import TwoModels
from lamina.framework.settings import Samples, Seed, Setting
from lamina.framework.watch import TOO_LONG
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, layers_in_words, number, rows_of, weakest
from lamina.stats.best import leads
from lamina.stats.family import bootstrap_family, sign_flip_family
from lamina.stats.intervals import column_intervals
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast
from lamina.stats.units import CHOOSING, SCORED, UnitSums, halve, unit_of
from lamina.training.provenance import unseen
from lamina.types import Text

SHORTEST, LONGEST = 4, 30
"""Words of a text that is read: long enough for attention to differ, short enough for many texts."""
OTHER_LENGTH = f"texts of fewer than {SHORTEST} or more than {LONGEST} words"
BEYOND = "texts beyond the maximum number of words"


class WordRelations(NamedTuple):
    """What a model makes of some texts, word by word."""

    kernels: Float[torch.Tensor, "layer word word"]
    """Dot products of the vectors of all words, without the diagonal."""
    maps: tuple[Float[torch.Tensor, "head word other"] | None, ...]
    """Attention between the words of each text, heads of block 1 first; to sinks and to a word itself it is 0. Empty
    for a model without maps, None for a text that has none."""
    sinks: tuple[int, ...]
    """Words that are sinks, of all words: a decoder's first word of each text, whose vectors are of another size."""
    heads: int
    """Of each block."""
    causal: bool


def draw_texts(texts: Iterable[Text], *, words: int, seed: int) -> tuple[list[Text], Counter[str]]:
    """Texts of readable length, `words` words together at most, from all over a corpus; and how many were left out.

    Example:
        >>> texts = [Text("a", ("Hi",)), Text("b", ("Dogs", "chase", "cats", "."))]
        >>> drawn, left_out = draw_texts(texts, words=500, seed=0)
        >>> [text.id for text in drawn], left_out[OTHER_LENGTH]
        (['b'], 1)
    """
    left_out: Counter[str] = Counter()
    fitting = []
    for place, text in enumerate(texts):
        if SHORTEST <= len(text.words) <= LONGEST:
            fitting.append((hashlib.sha256(f"{seed}:{text.id}".encode()).digest(), place, text))
        else:
            left_out[OTHER_LENGTH] += 1
    drawn: list[tuple[int, Text]] = []
    left = words
    for _, place, text in sorted(fitting, key=lambda entry: entry[:2]):
        left -= len(text.words)
        if left < 0:
            break
        drawn.append((place, text))
    left_out[BEYOND] = len(fitting) - len(drawn)
    return [text for _, text in sorted(drawn, key=lambda entry: entry[0])], left_out


def read_texts(encoder: Encoder, texts: Sequence[Text], *, attention: bool = True) -> WordRelations:
    """Read some texts with one model.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> read_texts(TinyEncoder(), [Text("a", ("Dogs", "chase", "old", "cats", "."))]).kernels.shape
        torch.Size([3, 5, 5])
    """
    attention = attention and encoder.has_maps and encoder.refusal("maps") is None
    read = list(encoder.encode(texts, ("states", "maps") if attention else ("states",)))
    kernels = []
    for layer in range(encoder.layers):
        vectors = word_vectors(read, layer)[0].cpu()
        # Of scaled vectors: CKA does not change, and squares of large activations stay within float32.
        vectors = vectors / vectors.norm(dim=1).mean().clamp(min=1e-12)
        kernels.append((vectors @ vectors.T).fill_diagonal_(0))
    maps: list[torch.Tensor | None] = []
    sinks, start = [], 0
    for text, activations in zip(texts, read, strict=True):
        of_text = sink_words(activations.tokens, causal=encoder.causal_maps)
        sinks += [start + word for word in of_text]
        start += len(text.words)
        if not attention or activations.maps is None:
            maps.append(None)
            continue
        between, _ = to_words(activations.maps.cpu(), activations.tokens.words)
        hidden = torch.eye(between.shape[-1], dtype=torch.bool)
        hidden[:, of_text] = True
        maps.append(between.float().masked_fill(hidden, 0).flatten(0, 1))
    seen = tuple(maps) if attention else ()
    return WordRelations(torch.stack(kernels), seen, tuple(sinks), encoder.heads, encoder.causal_maps)


def layer_similarities(
    one: WordRelations, other: WordRelations, groups: Sequence[Sequence[int]]
) -> list[list[LeaveOneOut]]:
    """Debiased linear CKA of every layer of one model with every layer of the other, on the same words without sinks.

    1 for spaces that differ by rotation and scale, about 0 for unrelated ones.

    Args:
        one: a model.
        other: another one, of any depth.
        groups: numbers of words that are left out together.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> reading = read_texts(TinyEncoder(), [Text("a", ("Dogs", "chase", "old", "cats", ".", "Why", "?"))])
        >>> [round(row[layer].value, 6) for layer, row in enumerate(layer_similarities(reading, reading, []))]
        [1.0, 1.0, 1.0]
    """
    sinks = {*one.sinks, *other.sinks}
    words = [word for word in range(one.kernels.shape[1]) if word not in sinks]
    whole = _cka(one.kernels, other.kernels, words)
    without = [_cka(one.kernels, other.kernels, sorted({*words} - {*group})) for group in groups if len(groups) > 1]
    apart = np.stack(without) if without else np.empty((0, *whole.shape))
    return [
        [LeaveOneOut(float(value), apart[:, layer, beside]) for beside, value in enumerate(row)]
        for layer, row in enumerate(whole)
    ]


def _cka(
    one: Float[torch.Tensor, "layer word word"], other: Float[torch.Tensor, "other word word"], words: Sequence[int]
) -> Float[np.ndarray, "layer other"]:
    chosen = torch.tensor(words, dtype=torch.long)
    k, m = (kernels[:, chosen][:, :, chosen].double() for kernels in (one, other))
    spread = [torch.stack([_hsic(kernel[None], kernel[None])[0, 0] for kernel in kernels]) for kernels in (k, m)]
    scale = (spread[0].clamp(min=0)[:, None] * spread[1].clamp(min=0)[None]).sqrt()
    return torch.where(scale > 0, _hsic(k, m) / scale, torch.nan).numpy()


def _hsic(
    k: Float[torch.Tensor, "layer word word"], m: Float[torch.Tensor, "other word word"]
) -> Float[torch.Tensor, "layer other"]:
    """The unbiased estimate (Song et al. 2012), of kernel matrices without their diagonals; of fewer than four words
    there is none."""
    n = k.shape[1]
    if n < 4:
        return torch.full((len(k), len(m)), torch.nan, dtype=torch.double)
    rows_k, rows_m = k.sum(2), m.sum(2)
    trace = k.flatten(1) @ m.flatten(1).T
    beside = rows_k.sum(1)[:, None] * rows_m.sum(1)[None] / ((n - 1) * (n - 2))
    return (trace + beside - 2 * (rows_k @ rows_m.T) / (n - 2)) / (n * (n - 3))


class HeadOverlaps(NamedTuple):
    """How much every head of one model attends to the same words as every head of the other."""

    sums: Float[np.ndarray, "unit head other"]
    """Overlaps (Bhattacharyya coefficients) of rows, summed over each document."""
    rows: Float[np.ndarray, " unit"]
    """Words that attend, of each document."""
    halves: Int[np.ndarray, " unit"]
    kind: str
    """What a unit is."""
    left_out: int
    """Texts without maps in one of the models."""


def head_overlaps(one: WordRelations, other: WordRelations, texts: Sequence[Text], *, seed: int) -> HeadOverlaps | None:
    """Overlaps of attention between words: 1 where two heads attend to the same words alike, 0 where they share none.

    Where a model looks back only, both are compared on earlier words. None without maps of two texts.
    """
    both = [
        (text, left, right)
        for text, left, right in zip(texts, one.maps, other.maps, strict=False)
        if left is not None and right is not None
    ]
    if len(both) < 2:
        return None
    directed = one.causal or other.causal
    heads, others = len(both[0][1]), len(both[0][2])
    sums = UnitSums(heads * others + 1, halve([text for text, _, _ in both], seed))
    for text, left, right in both:
        overlaps = (_roots(left, directed=directed) @ _roots(right, directed=directed).T).numpy()
        # A word with nothing before it has no row.
        sums.add(np.append(overlaps.ravel(), left.shape[1] - directed), text)
    values = sums.values().astype(float)
    shape = (len(values), heads, others)
    return HeadOverlaps(values[:, :-1].reshape(shape), values[:, -1], sums.halves(), sums.kind, len(texts) - len(both))


def _roots(maps: Float[torch.Tensor, "head word other"], *, directed: bool) -> Float[torch.Tensor, "head weight"]:
    """Square roots of rows that sum to 1: their products are overlaps."""
    weights = maps.tril(-1) if directed else maps
    sums = weights.sum(-1, keepdim=True)
    return torch.where(sums > 0, weights / sums.clamp(min=1e-12), 0).sqrt().flatten(1)


class HeadMatch(NamedTuple):
    """One row of `heads.csv`: a head of the first model, and the head of the second that attends most alike."""

    layer: int
    head: int
    match_layer: int
    match_head: int
    value: float
    """Overlap of the two, on the half of the documents that did not choose the match."""
    baseline: float
    """Its mean overlap with all heads of the second model, on the same documents."""
    agrees: bool
    """Whether the documents that score would have chosen the same match."""
    mutual: bool
    """Whether the match's own best match is this head, on the documents that choose."""
    difference: float
    diff_low: float
    diff_high: float
    p_adjusted: float
    units: int
    needed: int
    unit: str


def match_heads(overlaps: HeadOverlaps, heads: tuple[int, int], *, seed: int) -> list[HeadMatch]:
    """For every head of one model the head of the other with the largest overlap; `heads` are those per block of both.

    One half of the documents chooses matches, and says whether they are mutual; the other half scores them.
    """
    chosen, scored = (overlaps.sums[overlaps.halves == half] for half in (CHOOSING, SCORED))
    best, back = chosen.sum(0).argmax(1), chosen.sum(0).argmax(0)
    again, rows = scored.sum(0).argmax(1), overlaps.rows[overlaps.halves == SCORED]
    hits, means = scored[:, np.arange(len(best)), best], scored.mean(2)
    tests = sign_flip_family(hits - means, rows, bounds=(-1.0, 1.0), seed=seed)
    columns = zip(*(column.tolist() for column in tests), strict=True)
    return [
        HeadMatch(
            *_place(head, heads[0]), *_place(int(best[head]), heads[1]),
            float(hits[:, head].sum() / rows.sum()), float(means[:, head].sum() / rows.sum()),
            bool(again[head] == best[head]), bool(back[best[head]] == head),
            lead, low, high, p, int(units), int(needed), overlaps.kind,
        )
        for head, (lead, low, high, p, units, needed) in enumerate(columns)
    ]  # fmt: skip


def _place(head: int, heads: int) -> tuple[int, int]:
    return head // heads + 1, head % heads + 1


LAYERS = (
    "layer", "other_layer", "value", "low", "high", "baseline", "difference", "diff_low", "diff_high", "p_adjusted",
    "lead", "lead_low", "lead_high", "p_beaten", "among_best", "units", "needed", "lead_needed", "unit",
)  # fmt: skip
"""Columns of `layers`."""


@analysis(
    title="Layers and heads that correspond",
    question="Which layers of two models hold similar spaces, and which of their heads attend alike?",
    method=(
        "Both models read the same words. For every layer of one and every layer of the other we take the debiased "
        "linear CKA of the words' vectors, beside that with an untrained twin of the second model; 95 % intervals "
        "leave out groups of documents. For every head of the first model, one half of the documents chooses the head "
        "of the second that attends most alike (Bhattacharyya coefficient of attention between words), and the other "
        "half scores it beside the mean over all heads of the second model."
    ),
    cites=("Kornblith et al. 2019",),
    reads=TwoModels(),
    version=1,
    tables={
        "layers": Table(
            "One row per layer of the first model and layer of the second. value: CKA; low, high: 95 %, of this pair "
            "alone; baseline: CKA with the same layer of an untrained twin of the second model; difference: value - "
            "baseline, with simultaneous intervals, two-sided; family: all pairs of layers. lead: how much higher the "
            "highest CKA of this layer of the first model is; p_beaten: that another layer of the second is more "
            "alike, below .05 the layer is not among_best; family: the layers of the second model.",
            LAYERS,
        ),
        "heads": Table(
            "One row per head of the first model: the head of the second that attends most alike, their overlap on "
            "documents that did not choose it (value), the mean overlap with all heads of the second (baseline) and "
            "the difference, with simultaneous intervals, two-sided; family: all heads (sign flips of documents, "
            "max-T). mutual: on the documents that chose, the match's best match is this head; agrees: those that "
            "score would have chosen it too.",
            HeadMatch._fields,
            optional=True,
        ),
    },
    chapter="layers",
    example="lamina correspondence minilm mpnet --corpus ewt --out results/correspondence",
)
def correspondence(
    a: Sequence[Encoder],
    b: Sequence[Encoder],
    texts: Corpus,
    *,
    words: Annotated[
        int,
        Setting("Maximum number of words that both models read, in texts from all over the corpus.", min=20, max=2000),
    ] = 500,
    attention: Annotated[bool, Setting("Match attention heads too.")] = True,
    samples: Samples = 1000,
    seed: Seed = 0,
) -> Tables:
    """Which layers and heads of two models correspond; they may have any depth and any tokenizer.

    Words are means of their tokens; a decoder's first word, a sink, is left out. Attention is compared between words,
    without sinks and a word itself. Texts have 4 to 30 words; those that lamina fine-tuned either model on are left
    out.

    Example:
        >>> import lamina
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> texts = [text.words for text in SAMPLE_TEXTS]
        >>> result = lamina.correspondence(TinyEncoder(), TinyEncoder(blocks=3, seed=1), texts, samples=20)
        >>> len(result.tables["layers"])
        12
    """
    one, other = (_single(side) for side in (a, b))
    corpus, seen = unseen(texts, (one, other))
    drawn, skipped = draw_texts(corpus, words=words, seed=seed)
    if len(drawn) < 2:
        raise CorpusError(
            f"{corpus.name}: {len(drawn)} texts of {SHORTEST} to {LONGEST} words; a comparison needs at least 2"
        )
    skipped["texts that a model was fine-tuned on, left out"] = seen
    left, right = (read_texts(encoder, drawn, attention=attention) for encoder in (one, other))
    twin = read_texts(other.random_twin(seed), drawn, attention=False) if other.blocks else None
    tables = {"layers": layer_table(left, right, twin, drawn, samples=samples, seed=seed)}
    overlaps = head_overlaps(left, right, drawn, seed=seed) if attention else None
    if overlaps is not None:
        matches = match_heads(overlaps, (one.heads, other.heads), seed=seed)
        tables["heads"] = pd.DataFrame(matches, columns=list(HeadMatch._fields))
        skipped[TOO_LONG] = overlaps.left_out
    elif attention:
        for encoder in (one, other):
            why = encoder.refusal("maps") if encoder.has_maps else "it has no attention maps"
            if why is not None:
                skipped[f"heads of {encoder.name}, not matched: {why.rstrip('.')}"] = encoder.blocks * encoder.heads
    read = {"texts_read": len(drawn), "words_read": sum(len(text.words) for text in drawn)}
    directed = one.causal_maps or other.causal_maps
    return Tables(tables, dict(skipped), data={**texts.describe(), **read, "directed": directed})


def _single(encoders: Sequence[Encoder]) -> Encoder:
    if len(encoders) > 1:
        raise InputError(
            f"{encoders[0].name} holds the models of {len(encoders)} seeds, and one is compared here; name one of them"
        )
    return encoders[0]


def layer_table(
    one: WordRelations,
    other: WordRelations,
    twin: WordRelations | None,
    texts: Sequence[Text],
    *,
    samples: int,
    seed: int,
) -> pd.DataFrame:
    """See the table `layers`; `twin` is that of the second model."""
    by = unit_of(texts)
    documents = [by.of(text) for text in texts]
    starts = np.cumsum([0, *(len(text.words) for text in texts)])
    groups = [[word for text in some for word in range(starts[text], starts[text + 1])] for some in grouped(documents)]
    trained = layer_similarities(one, other, groups)
    shape = (len(trained), len(trained[0]))
    values, draws = _with_draws(trained, samples=samples, seed=seed)
    base = np.full(shape, math.nan)
    if twin is None:
        apart, drawn = base, np.full(draws.shape, math.nan)
    else:
        base, base_draws = _with_draws(layer_similarities(one, twin, groups), samples=samples, seed=seed)
        apart, drawn = values - base, draws - base_draws
    units = len(set(documents))
    # Draws follow Student's t already.
    tests = bootstrap_family(apart, drawn, units, widen=False, bounds=(-2.0, 2.0))
    low, high = column_intervals(draws.reshape(samples, -1).clip(-1, 1))
    low, high = low.reshape(shape), high.reshape(shape)
    rows = []
    for layer in range(shape[0]):
        leading = leads(values[layer], draws[:, layer], units)
        for beside in range(shape[1]):
            place = (layer, beside)
            lead, lead_low, lead_high, p_beaten, _, lead_needed = (numbers[beside] for numbers in leading.contrasts)
            rows.append((
                layer, beside, values[place], low[place], high[place], base[place],
                *(numbers[place] for numbers in tests[:4]), lead, lead_low, lead_high, p_beaten,
                bool(leading.best.among[beside]), units, int(tests.needed[place]), int(lead_needed), by.by,
            ))  # fmt: skip
    return pd.DataFrame(rows, columns=list(LAYERS))


def _with_draws(
    similarities: Sequence[Sequence[LeaveOneOut]], *, samples: int, seed: int
) -> tuple[Float[np.ndarray, "layer other"], Float[np.ndarray, "sample layer other"]]:
    values = np.array([[similarity.value for similarity in row] for row in similarities])
    drawn = [
        np.stack([jackknife_draws(similarity, samples=samples, seed=seed) for similarity in row], 1)
        for row in similarities
    ]
    return values, np.stack(drawn, 1)


def _names(result: Result) -> tuple[str, str]:
    model = result.provenance.model
    one, other = model["a"]["name"], model["b"]["name"]
    return (one, other) if one != other else (f"{one} (first)", f"{other} (second)")


@correspondence.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Which layer the last one is most like, whether training makes them so, and heads that attend alike."""
    one, other = _names(result)
    table = result.tables["layers"]
    last = list(rows_of(table[table["layer"] == table["layer"].max()]))
    yield from _nearest_layer(last, one, other)
    yield from _beyond_twin(last, one, other)
    if "heads" in result.tables:
        yield from _alike_heads(list(rows_of(result.tables["heads"])), one, other)


def _nearest_layer(rows: Sequence[Any], one: str, other: str) -> Iterator[Finding]:
    first = next((row for row in rows if row.lead != row.lead and row.among_best), None)
    others = [row for row in rows if row.lead == row.lead]
    if first is None or not others:
        return
    outside = [row for row in others if not row.among_best]
    row = max(outside, key=lambda row: (row.p_beaten, -row.lead)) if outside else max(others, key=lambda row: row.lead)
    best = layers_in_words(row.other_layer for row in rows if row.among_best)
    values = (
        f"CKA {number(first.value)} with layer {first.other_layer}, {number(row.value)} with layer {row.other_layer}"
    )
    yield finding(
        claim=f"The last layer of {one} is most like {best} of {other}: {values}",
        whether=f"the last layer of {one} is more like one layer of {other} than like another",
        absent=f"The last layer of {one} is as much like one layer of {other} as like another: {values}",
        contrast="difference",
        test=Contrast(row.lead, row.lead_low, row.lead_high, row.p_beaten, int(row.units), int(row.lead_needed)),
        source=Source("layers", {"layer": first.layer}),
        unit=first.unit,
        importance=("answers", "localised"),
    )


def _beyond_twin(rows: Sequence[Any], one: str, other: str) -> Iterator[Finding]:
    row = rows[-1]
    if row.difference != row.difference:
        return
    more = "more" if row.difference > 0 else "less"
    values = f"CKA {number(row.value)}, with the untrained twin {number(row.baseline)}"
    yield finding(
        claim=f"The last layers of {one} and {other} are {more} alike than with an untrained {other}: {values}",
        whether=f"training makes the last layers of {one} and {other} alike",
        absent=f"The last layer of {one} is as much like that of {other} as like that of its untrained twin: {values}",
        contrast="difference",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=Source("layers", {"layer": row.layer, "other_layer": row.other_layer}),
        unit=row.unit,
        importance=("localised",),
        margin=NEGLIGIBLE,
    )


def _alike_heads(rows: Sequence[Any], one: str, other: str) -> Iterator[Finding]:
    """The head that is most like its match beside others, of those whose match is mutual."""
    # Not `agrees`: the documents that are tested must not choose what is claimed.
    sure = [row for row in rows if row.mutual]
    if not sure:
        return
    clear = [row for row in sure if row.p_adjusted < SURE and row.difference > 0]
    row = max(clear or sure, key=lambda row: row.difference)
    head, match = f"head {row.layer}-{row.head}", f"head {row.match_layer}-{row.match_head}"
    yield finding(
        claim=(
            f"{head.capitalize()} of {one} attends like {match} of {other}: overlap {number(row.value)}, with the "
            f"heads of {other} on average {number(row.baseline)}"
        ),
        whether=f"{head} of {one} attends more like {match} of {other} than like its heads on average",
        absent=f"{head.capitalize()} of {one} attends like {match} of {other} no more than like its heads on average",
        contrast="difference",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=Source("heads", {"layer": row.layer, "head": row.head}),
        unit=row.unit,
        importance=("answers", "localised"),
        margin=NEGLIGIBLE,
    )
    if len(clear) > 1:
        row = weakest(clear)
        values = f"{number(row.value)} with {row.match_layer}-{row.match_head}, on average {number(row.baseline)}"
        yield finding(
            claim=(
                f"{len(clear)} of {len(rows)} heads of {one} attend like a head of {other} whose best match they are; "
                f"overlap of the least sure, {row.layer}-{row.head}: {values}"
            ),
            whether=f"{len(clear)} heads of {one} attend like a head of {other} whose best match they are",
            absent="",
            contrast=f"difference of head {row.layer}-{row.head}",
            test=Contrast.of(row, "difference", "diff_low", "diff_high"),
            source=Source("heads", {}),
            unit=row.unit,
            importance=("answers",),
            margin=0,
        )


@correspondence.costs
def _cost(
    estimator: Estimator,
    _a: Sequence[Encoder],
    _b: Sequence[Encoder],
    texts: Corpus,
    *,
    words: int,
    seed: int,
    **_: object,
) -> Cost:
    """Reading some words three times, and comparing every layer with every other one for each group left out."""
    drawn, _left_out = draw_texts(texts, words=words, seed=seed)
    return estimator.reading(passes=3, data=replace(texts, source=lambda: iter(drawn)))


@correspondence.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Each layer with those that it is most like, and the matches that are mutual."""
    one, other = _names(result)
    table = result.tables["layers"]
    rows = []
    for layer, group in table.groupby("layer"):
        there = group.dropna(subset=["value"])
        if there.empty:
            continue
        best = there.iloc[there["value"].argmax()]
        # Of few documents there are no draws, and nothing is known of the best.
        alike = layers_in_words(there.loc[there["among_best"], "other_layer"]) if there["among_best"].any() else "n/a"
        rows.append((layer, alike, cell(best["value"], best["low"], best["high"]), cell(best["baseline"])))
    yield Overview(
        f"Layers of {one} and {other}", (f"layer of {one}", f"most like, of {other}", "CKA", "untrained twin"), rows
    )
    if "heads" in result.tables:
        matches = result.tables["heads"]
        sure = matches[matches["mutual"]].sort_values("difference", ascending=False)
        yield Overview(
            f"Heads of {one} and {other} that attend alike ({len(sure)} of {len(matches)} match both ways; first 12)",
            ("head", "match", "overlap", "mean of all heads", "p"),
            [
                (f"{row.layer}-{row.head}", f"{row.match_layer}-{row.match_head}", cell(row.value), cell(row.baseline),
                 cell(row.p_adjusted))
                for row in rows_of(sure.head(12))
            ],
        )  # fmt: skip

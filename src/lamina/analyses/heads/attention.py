"""Where every head's attention goes, what types of map it has, and the gradient of the loss with respect to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch

from lamina.analyses.heads.behaviours import FIRST, LEAD, digits_of
from lamina.analyses.heads.surface import (
    ENCODER,
    INDUCTION,
    LAYERS,
    MEASURES,
    PATTERN_TRUST,
    REPEATED,
    SHARE_OF_TEXTS,
    SURFACE,
    TOO_FEW,
    UNCLASSIFIED,
    HeadMeans,
    InductionMeter,
    PatternMeter,
    SurfaceMeter,
    head_table,
    induction_heads,
    induction_table,
    layer_table,
    sequences_of,
)
from lamina.corpora import Corpus
from lamina.errors import CorpusError
from lamina.framework.declare import FEW_NATS, ComparedLayers, LayerMeasure, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import Texts
from lamina.framework.settings import Samples, Seed, Setting, Weights
from lamina.framework.watch import (
    CUT,
    Watch,
    Watching,
    first_token,
    fit,
    punctuation_ids,
    refuse_without_maps,
    roles_of,
)
from lamina.models import Encoder
from lamina.models.interventions.edited_runs import HOW, AttentionGradients, HeadLoss
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, number, percent, rows_of, weakest
from lamina.stats.bootstrap import DRAWS, draws_table
from lamina.stats.status import Contrast
from lamina.stats.units import BY_DOCUMENT, Unit, unit_of
from lamina.types import Span, Text

SEGMENTS, LENGTH = 1000, 128
"""The paper's: number of pairs, and the most tokens of one."""


@dataclass(frozen=True, eq=False)
class SampledTexts:
    """Texts read again on every iteration, like their corpus; a seeded sample if not all are needed.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> shown = SampledTexts(corpus_from([["Dogs", "bark"], ["Cats", "purr"]], name="pets"), most=1)
        >>> len(shown), len(list(shown)), shown.describe()
        (1, 1, '1 of 2 texts, drawn at random')
    """

    corpus: Corpus
    pairs: bool = False
    """Two consecutive texts at a time."""
    most: int | None = None
    """The most texts or pairs; None for all."""
    seed: int = 0

    @cached_property
    def there(self) -> int:
        """How many there are to draw from."""
        count = sum(1 for _ in pair_up(self.corpus)) if self.pairs else len(self.corpus)
        if not count:
            raise CorpusError(
                f"{self.corpus.name}: a pair is two consecutive texts of one document, and there is none; name a "
                "corpus whose texts say their document (in plain text a line ` = Title = ` starts one)"
            )
        return count

    def __len__(self) -> int:
        return self.there if self.most is None else min(self.there, self.most)

    def __iter__(self) -> Iterator[Text]:
        texts = pair_up(self.corpus) if self.pairs else iter(self.corpus)
        if len(self) == self.there:
            yield from texts
            return
        drawn = np.zeros(self.there, bool)
        drawn[np.random.default_rng(self.seed).choice(self.there, len(self), replace=False)] = True
        yield from (text for text, wanted in zip(texts, drawn, strict=True) if wanted)

    def describe(self) -> str:
        """In words, for provenance."""
        what = "pairs of consecutive texts of one document" if self.pairs else "texts"
        if len(self) == self.there:
            return f"all {self.there:,} {what}"
        return f"{len(self):,} of {self.there:,} {what}, drawn at random"


def pair_up(texts: Iterable[Text]) -> Iterator[Text]:
    """Two consecutive texts of a document as one text of two segments; each text is used once, headings never.

    A text without a document joins nothing.

    Example:
        >>> texts = [Text(name, (name,), doc="d") for name in "abcde"]
        >>> [(pair.id, pair.words) for pair in pair_up(texts)]
        [('a+b', ('a', 'b')), ('c+d', ('c', 'd'))]
    """
    written = (text for text in texts if text.doc is not None and not _is_heading(text))
    for _, document in groupby(written, key=lambda text: text.doc):
        for turn, (one, other) in enumerate(pairwise(document)):
            if turn % 2 == 0:
                yield _joined(one, other)


def _joined(one: Text, other: Text) -> Text:
    border = len(one.words)
    words = (*one.words, *other.words)
    return Text(f"{one.id}+{other.id}", words, (Span(0, border), Span(border, len(words))), doc=one.doc)


def _is_heading(text: Text) -> bool:
    """Whether it is a heading of wikitext: ` = = Description = = `."""
    return len(text.words) > 2 and text.words[0] == "=" == text.words[-1]


def split_pairs(texts: Iterable[Text]) -> Iterator[Text]:
    """The texts of pairs one by one, as they were before they were paired."""
    for text in texts:
        for index, (start, end) in enumerate((segment.start, segment.end) for segment in text.segments):
            yield Text(f"{text.id}/{index}", text.words[start:end], doc=text.doc)


def sample_texts(
    corpus: Corpus, *, pairs: bool, length: int | None, segments: int | None, seed: int
) -> tuple[SampledTexts, int | None]:
    """The texts or pairs that are looked at, and the most tokens of each; None for the model's own limit."""
    most = SEGMENTS if pairs and segments is None else segments
    return SampledTexts(corpus, pairs, most, seed), LENGTH if pairs and length is None else length


TARGETS = (FIRST, "separator", "punctuation", "other")
"""What attention goes to; the text's first token, [CLS] where there is one, is none of the others: it is a sink."""
GRADIENTS = ("layer", "head", "target", "value", "low", "high")
"""Columns of `gradients.csv`."""

UNPREDICTED = "texts with nothing to predict, without gradients"
UNCUT = "texts whose first words alone are longer than the model's limit, without gradients"


class GradientMeter:
    """The mean magnitude of a text's gradients by what attention goes to, then over texts that have such a token."""

    def __init__(self, encoder: Encoder, *, samples: int = 1000, seed: int = 0, unit: Unit = BY_DOCUMENT) -> None:
        self._causal = encoder.causal_maps
        self._punctuation = punctuation_ids(encoder)
        self.means = HeadMeans(len(TARGETS), encoder, samples=samples, seed=seed, unit=unit)
        """Kinds are `TARGETS`."""

    def update(self, text: Text, gradients: AttentionGradients) -> None:
        """Take one text's gradients in."""
        roles = roles_of(gradients.tokens, self._punctuation, causal=self._causal)
        size = len(gradients.tokens.ids)
        first = torch.arange(size) == 0
        # The loss has a gradient for every weight, but a decoder has no weights for what comes later.
        seen = torch.ones(size, size).tril() if self._causal else torch.ones(size, size)
        # For decoders, the first token counts as a separator elsewhere; here it counts as the first token only.
        separators = roles.separators & ~first
        signs = roles.punctuation & ~roles.separators & ~first
        columns = torch.stack([first, separators, signs, ~(first | separators | signs)], -1)
        cells = seen[..., None] * columns
        counts = cells.sum((0, 1))
        chosen = (cells.flatten(0, 1) / counts.clamp_min(1)).to(gradients.weights.device)
        means = gradients.weights.float().abs().flatten(2) @ chosen
        self.means.add(means.permute(2, 0, 1)[None].cpu(), (counts > 0)[None].float(), [text])

    def table(self) -> pd.DataFrame:
        """`layer,head,target,value,low,high`; without targets that no text has."""
        return _there(head_table(self.means.heads(), TARGETS, GRADIENTS), "target")

    def layers(self) -> pd.DataFrame:
        """Rows of `layers.csv`: the first token and separators beside other tokens of the same layer."""
        tests = self.means.layer_tests([0, 1], TARGETS.index("other"))
        return _there(layer_table(self.means.layers(), TARGETS, "gradients", [tests]), "kind")


def _there(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Without the kinds that are never there."""
    absent = [kind for kind, rows in table.groupby(column, sort=False) if rows["value"].isna().all()]
    return table[~table[column].isin(absent)].reset_index(drop=True)


def measure_gradients(
    meter: GradientMeter,
    loss: HeadLoss,
    encoder: Encoder,
    texts: Iterable[Text],
    *,
    limit: int | None = None,
    total: int | None = None,
) -> Counter[str]:
    """Show the gradients of all texts to the meter; returns what was left out. Texts are cut as `watch` cuts them.

    Args:
        meter: takes them in.
        loss: of the model with its head.
        encoder: the same model, for its tokens.
        texts: on which the loss is taken.
        limit: the most tokens of a text, where less than the model takes.
        total: how many texts there are, for the progress bar.
    """
    skipped: Counter[str] = Counter()
    with progress(f"gradients of {encoder.name}", total) as advance:
        for text in texts:
            fitted = fit(encoder, text, limit)
            advance()
            if len(encoder.tokenize(fitted).ids) > encoder.limit:
                skipped[UNCUT] += 1
                continue
            slopes = loss(fitted)
            if slopes is None:
                skipped[UNPREDICTED] += 1
            else:
                meter.update(fitted, slopes)
    return skipped


PAIRED = ("to_self", "to_previous", "to_next", "to_first", "to_separator", "to_punctuation", "entropy")
"""Measures that models are compared by."""


@analysis(
    title="What heads look at",
    question="Where does the attention of every head go, and how broadly is it spread?",
    method=(
        "For every head we take the share of attention that goes to the token itself, its neighbours, the first token, "
        "separators and punctuation, and the entropy of its rows: means over a text's tokens and then over texts, "
        "beside the value of uniform attention; 95 % intervals resample documents (texts where there is one document). "
        "Differences from uniform attention, or of a layer from all layers, are tested two-sided by flipping the "
        "signs of whole documents (max-T). "
        "Maps are sorted into the five types of Kovaleva et al. (2019) by a rule that was checked on maps labelled by "
        "eye: a part counts where, of the attention that the other parts leave, it holds at least 0.35 of what uniform "
        "attention would not give it. Of a decoder, induction is the share of attention that goes from a repeated "
        "token to the token after its earlier copy, on random tokens said twice, beside the same tokens without a copy "
        "and the random-weights twin (Olsson et al. 2022); intervals are over sequences, and heads are tested by "
        "flipping the signs of whole sequences, two-sided, in one family (max-T)."
    ),
    cites=("Clark et al. 2019", "Kovaleva et al. 2019", "Olsson et al. 2022"),
    reads=Texts(),
    # Bootstrap weights follow from a text's id, no longer from the order of texts (2). Intervals resample documents;
    # another rule for patterns; a decoder's first token no longer counts as a separator (3). Of decoders, induction,
    # and nothing about the next token, which they cannot see (4). Draws that pair models are kept (5). What a sentence
    # claims is tested, by max-T; gradients of the first token ([CLS]) have rows of their own (6).
    version=6,
    tables={
        "surface": Table(
            "One row per head and measure, beside its value under uniform attention. `difference`: share minus "
            "uniform; its interval and `p_adjusted` are two-sided, of one family: all heads and shares.",
            SURFACE,
        ),
        "patterns": Table(
            "One row per head and type of map: the share of texts with such a map. Types are assigned by a rule that "
            "agrees with labels by eye on 67 % of maps it was not made from (kappa .54); intervals do not cover that.",
            SHARE_OF_TEXTS,
        ),
        "induction": Table(
            "One row per head of a decoder: attention from repeated tokens to the token after their copy (`copy`: to "
            "the copy itself), uniform attention, the same tokens unrepeated, the paired difference, and the "
            "random-weights twin. Interval of the difference and `p_adjusted` are two-sided, of one family: all heads. "
            "`induction`: at least .30 of its attention, and clearly more than without a copy.",
            INDUCTION,
            optional=True,
        ),
        "gradients": Table("One row per head and kind of token attended to.", GRADIENTS, optional=True),
        "layers": Table(
            "One row per layer and number of the other tables: the mean over its heads. `difference`: it minus "
            "`beside`, which is uniform attention (shares), the mean over layers (entropies, types of maps) or the "
            "gradient of other tokens; interval and `p_adjusted` are two-sided, of one family per kind of comparison: "
            "all layers and shares, all layers of one entropy, all layers and types, all layers and sinks.",
            LAYERS,
        ),
        "draws": Table(
            "One row per measure that models are compared by, layer and bootstrap sample: the mean over the layer's "
            "heads, what `compare` pairs models by.",
            DRAWS,
            format="parquet",
        ),
    },
    chapter="heads",
    takes=4,
    report={"segments": 1000},
    compares=ComparedLayers(
        "layers",
        (
            LayerMeasure("to_self", "Attention to oneself", "share of attention"),
            LayerMeasure("to_previous", "Attention to the previous token", "share of attention"),
            LayerMeasure("to_next", "Attention to the next token", "share of attention"),
            LayerMeasure("to_first", "Attention to the first token", "share of attention"),
            LayerMeasure("to_separator", "Attention to separators", "share of attention"),
            LayerMeasure("to_punctuation", "Attention to full stops and commas", "share of attention"),
            LayerMeasure("entropy", "Entropy of attention", "nats", margin=FEW_NATS),
        ),
        column="kind",
        rows={"of": "surface"},
        apart="each model in its own tokens",
        directed=True,
    ),
    example="lamina attention minilm --corpus ewt --split dev --out results/attention",
)
def attention(
    encoder: Encoder,
    corpus: Corpus,
    *,
    pairs: Annotated[
        bool, Setting("Show two consecutive texts of a document as two segments, as in the paper.")
    ] = False,
    length: Annotated[
        int | None,
        Setting(
            "Maximum number of tokens of a text or pair; 128 for pairs, otherwise the model's own limit by default.",
            min=8,
        ),
    ] = None,
    segments: Annotated[
        int | None, Setting("Draw this many texts or pairs; 1000 for pairs, otherwise all by default.", min=1)
    ] = None,
    gradients: Annotated[bool, Setting("Add the gradient of the model's own loss with respect to attention.")] = False,
    repeated: Annotated[
        int, Setting("Random sequences repeated once, to find the induction heads of a decoder; 0 for none.", min=0)
    ] = REPEATED,
    weights: Weights = "attention",
    faithful: Annotated[bool, Setting("Give every token segment id 0, as in the paper.")] = False,
    seed: Seed = 0,
    samples: Samples = 1000,
) -> Watching:
    """Where every head's attention goes: neighbours, the first token, separators, punctuation; how broad it is.

    `surface` has each measure of each head with its interval and its value under uniform attention, `patterns` the
    share of texts on which a head's map is of each type, `induction` (of a decoder) how much attention goes from a
    repeated token to the token after its earlier copy, and `gradients` (where asked for) the mean magnitude of the
    gradient of the model's own loss with respect to attention to each kind of token. `layers` has the means over a
    layer's heads. Every number has a 95 % interval. Blocks and heads count from 1.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> result = attention(TinyEncoder(), [["Dogs", "bark", "."], ["Cats", "do", "not", "."]], samples=100)
        >>> table = result.tables["surface"]
        >>> table[table["measure"] == "to_self"][["layer", "head"]].values.tolist()
        [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    refuse_without_maps(encoder)
    sampled, limit = sample_texts(corpus, pairs=pairs, length=length, segments=segments, seed=seed)
    about = {"first_token": first_token(encoder)} | ({"segment_ids": _segment_ids(encoder)} if faithful else {})
    watched = encoder.with_one_segment() if faithful else encoder
    # A model without a head is refused before the work, not after it.
    loss = HeadLoss(watched, seed=seed) if gradients else None
    unit = unit_of(sampled)
    surface = SurfaceMeter(watched, samples=samples, seed=seed, unit=unit)
    patterns = PatternMeter(watched, samples=samples, seed=seed, unit=unit)
    skipped = yield Watch(watched, sampled, [surface, patterns], limit=limit, total=len(sampled), weights=weights)
    skipped[UNCLASSIFIED] = patterns.undecided
    about["patterns"] = PATTERN_TRUST
    tables = {"surface": _visible(encoder, surface.table(), "measure"), "patterns": patterns.table()}
    layers = [
        _visible(encoder, surface.layers(), "kind"),
        patterns.layers(),
    ]
    if loss is not None:
        slopes = GradientMeter(watched, samples=samples, seed=seed, unit=unit)
        skipped += measure_gradients(slopes, loss, watched, sampled, limit=limit, total=len(sampled))
        tables["gradients"] = slopes.table()
        layers.append(slopes.layers())
        about["loss"] = HOW[loss.kind]
    if repeated:
        sequences = sequences_of(watched, repeated, seed=seed) if watched.causal_maps else None
        about["induction"] = TOO_FEW if watched.causal_maps else ENCODER
        if sequences is not None:
            about["induction"] = f"{repeated} sequences of {sequences.size} random tokens, said twice"
            meters = []
            for model in (watched, watched.random_twin(seed)):
                meters.append(InductionMeter(sequences.size))
                texts = sequences.repeated + sequences.unrepeated
                yield Watch(model, texts, meters[-1:], total=len(texts), weights=weights)
            tables["induction"] = induction_table(*meters)
    tables["layers"] = pd.concat(layers, ignore_index=True)
    drawn = surface.means.layer_draws()
    paired = {name: drawn[:, MEASURES.index(name)] for name in _paired(encoder)}
    tables["draws"] = draws_table(paired, range(1, encoder.blocks + 1))
    units = {f"{unit.by}s": len({unit.of(text) for text in sampled})}
    data = {"shown": sampled.describe(), "resampled": f"{unit.by}s", "drawn": units}
    return Tables(tables, _named(skipped, limit), model=about, data=data)


def _paired(encoder: Encoder) -> list[str]:
    return [name for name in PAIRED if not (encoder.causal_maps and name == "to_next")]


def _visible(encoder: Encoder, table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Without what no head of a decoder can look at: the next token, and separators where its texts have none."""
    if not encoder.causal_maps:
        return table
    absent = [kind for kind, rows in table.groupby(column, sort=False) if rows["value"].isna().all()]
    return table[~table[column].isin(["to_next", *absent])].reset_index(drop=True)


def _segment_ids(encoder: Encoder) -> str:
    """What `faithful` changes, for provenance."""
    changed = encoder.with_one_segment() is not encoder
    return "0 for every token" if changed else "the model has none; faithful changes nothing"


@attention.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    about = result.provenance
    yield f"{about.corpus.get('shown', 'texts')}; first token: {about.model.get('first_token', 'unknown')}"
    if "segment_ids" in about.model:
        yield f"segment ids: {about.model['segment_ids']}"
    if (induction := result.tables.get("induction")) is not None:
        heads = induction_heads(induction)
        rows = [
            (int(row.layer), int(row.head), cell(row.value, row.low, row.high), cell(row.unrepeated), cell(row.twin))
            for row in rows_of((heads if len(heads) else induction.nlargest(1, "value")).head(_MOST_NAMED))
        ]
        title = f"Induction: {len(heads)} of {len(induction)} heads; {about.model.get('induction', '')}"
        yield Overview(title, ("layer", "head", "after the copy", "without a copy", "twin"), rows)


_SINKS = {"to_first": "the first token", "to_separator": "separators", "to_punctuation": "full stops and commas"}
_PLACES = {"to_previous": "the previous token", "to_next": "the next token", "to_self": "the token itself"}
"""Measure -> in words."""
_MOST_NAMED = 8
"""Induction heads that are named."""
_NATS = 0.05
"""A difference between entropies that means nothing."""


@attention.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The strongest sink, the clearest positional head, induction, a layer's type of map, breadth, and gradients."""
    table, layers = result.tables.get("surface"), result.tables.get("layers")
    if table is None or layers is None or not (set(LEAD) <= set(table) and set(LAYERS) <= set(layers)):
        return
    unit = str(result.provenance.corpus.get("resampled", "documents")).removesuffix("s")
    surface = layers[layers["of"] == "surface"]
    for row in _most(surface, _SINKS):
        yield _sink(row, unit)
    # Of a decoder, the head that says what came before is the one that induction builds on.
    decoder = "induction" in result.tables
    for row in _most(table.rename(columns={"measure": "kind"}), ["to_previous"] if decoder else _PLACES):
        yield _positional(row, unit)
    yield from _induction(result.tables.get("induction"))
    yield from _types(layers[layers["of"] == "patterns"], unit)
    slopes = layers[layers["of"] == "gradients"]
    yield from _breadth(surface, unit) if slopes.empty else _no_op(surface, slopes, unit)


def _sink(row: Any, unit: str) -> Finding:
    """The layer that leads uniform attention by most, on tokens that say little."""
    place = _SINKS[row.kind]
    return finding(
        claim=(
            f"The heads of layer {row.layer} give {percent(row.value)} of their attention to {place}; uniform "
            f"attention would give {percent(row.baseline)}"
        ),
        whether=f"any layer is a sink; the heads of layer {row.layer} come closest, with their attention to {place}",
        absent=(
            f"No layer is a sink: the heads of layer {row.layer} come closest, and give about as much of their "
            f"attention to {place} as uniform attention would"
        ),
        contrast="difference",
        test=Contrast.of(row, *LEAD[:3]),
        source=Source("layers", {"of": "surface", "layer": row.layer, "kind": row.kind}),
        unit=unit,
        importance=("answers", "localised"),
        digits=digits_of(row.difference),
    )


def _positional(row: Any, unit: str) -> Finding:
    """The head that leads uniform attention by most, on a token at a fixed place."""
    head, place = f"head {row.layer}-{row.head}", _PLACES[row.kind]
    return finding(
        claim=(
            f"{head.capitalize()} gives {percent(row.value)} of its attention to {place}; uniform attention would give "
            f"{percent(row.baseline)}"
        ),
        whether=f"any head prefers a place; {head} comes closest, with its attention to {place}",
        absent=f"No head prefers a place: {head} comes closest, and gives {place} as much as uniform attention would",
        contrast="difference",
        test=Contrast.of(row, *LEAD[:3]),
        source=Source("surface", {"layer": row.layer, "head": row.head, "measure": row.kind}),
        unit=unit,
        importance=("answers", "localised"),
        digits=digits_of(row.difference),
    )


def _induction(table: pd.DataFrame | None) -> Iterable[Finding]:
    """Which heads find what came after an earlier copy; or that none does."""
    if table is None or table.empty or not set(INDUCTION) <= set(table):
        return
    heads = induction_heads(table)
    row = next(rows_of(table.nlargest(1, "value") if heads.empty else heads))
    head = f"head {row.layer}-{row.head}"
    shares = (
        f"gives {percent(row.value)} of its attention from repeated tokens to the token after their earlier copy; "
        f"without a copy it gives {percent(row.unrepeated)}"
    )
    little = ", too little for an induction head" if heads.empty else ""
    yield finding(
        claim=f"{head.capitalize()} {shares}{little}",
        whether=f"any head is an induction head; {head} attends most to the token after an earlier copy",
        absent=(
            f"No head is an induction head: {head} attends most to the token after an earlier copy, and as much "
            "without a copy"
        ),
        contrast="difference",
        test=Contrast.of(row, *LEAD[:3]),
        source=Source("induction", {"layer": row.layer, "head": row.head}),
        unit="sequence",
        importance=("answers", "beats control", "localised"),
    )
    if len(heads) > 1:
        yield _counted_heads(heads, len(table))


def _counted_heads(heads: pd.DataFrame, of: int) -> Finding:
    """All of them hold together; the test of the least certain one is theirs."""
    names = [f"{row.layer}-{row.head}" for row in rows_of(heads)]
    listed = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    row = weakest(rows_of(heads), lambda row: row.diff_low)
    count = f"{len(heads)} of {of} heads"
    return finding(
        claim=f"{count} are induction heads ({listed}); the least certain is {row.layer}-{row.head}",
        whether=f"{count} are induction heads",
        absent=f"None of {of} heads is an induction head",
        contrast="its difference",
        test=Contrast.of(row, *LEAD[:3]),
        source=(
            Source("induction"),
            Source("induction", {"induction": True}),
        ),
        unit="sequence",
        importance=("answers",),
    )


def _types(patterns: pd.DataFrame, unit: str) -> Iterable[Finding]:
    """The layer that has more maps of one type than layers have on average."""
    for row in _most(patterns, [kind for kind in patterns["kind"].unique() if kind != "heterogeneous"]):
        yield finding(
            claim=(
                f"At layer {row.layer}, {percent(row.value)} of the heads' maps are {row.kind}; over all layers "
                f"{percent(row.beside)} are"
            ),
            whether=f"any layer has its type of map; most of all, layer {row.layer} has maps that are {row.kind}",
            absent=(
                f"No layer has its type of map: layer {row.layer} comes closest, with as many maps that are "
                f"{row.kind} as all layers"
            ),
            contrast="difference",
            test=Contrast.of(row, *LEAD[:3]),
            source=Source("layers", {"of": "patterns", "layer": row.layer, "kind": row.kind}),
            unit=unit,
            importance=("localised",),
            note="Types are assigned by a rule, which agrees with labels by eye on two maps of three.",
        )


def _breadth(surface: pd.DataFrame, unit: str) -> Iterable[Finding]:
    """The layer whose heads look more broadly than those of all layers."""
    for row in _most(surface, ["entropy"]):
        digits = digits_of(row.value, row.beside)
        yield finding(
            claim=(
                f"Attention is broader at layer {row.layer} than over all layers: its entropy is "
                f"{number(row.value, digits=digits)} nats, over all layers {number(row.beside, digits=digits)}"
            ),
            whether=f"attention is broader at any layer than over all layers; layer {row.layer} is the broadest",
            absent="Attention is about as broad at all layers",
            contrast="difference",
            test=Contrast.of(row, *LEAD[:3]),
            source=Source("layers", {"of": "surface", "layer": row.layer, "kind": row.kind}),
            unit=unit,
            importance=("localised",),
            margin=_NATS,
            digits=digits_of(row.difference),
        )


def _no_op(surface: pd.DataFrame, slopes: pd.DataFrame, unit: str) -> Iterable[Finding]:
    """At the layer that attends most to separators or the first token: does the loss hang on that?"""
    attended = surface[surface["kind"].isin([f"to_{kind}" for kind in (FIRST, "separator")])]
    for most in rows_of(attended.dropna(subset=["value"]).nlargest(1, "value")):
        kind = most.kind.removeprefix("to_")
        for row in rows_of(slopes[(slopes["layer"] == most.layer) & (slopes["kind"] == kind)]):
            yield _gradient(row, _SINKS[most.kind], unit)


def _gradient(row: Any, place: str, unit: str) -> Finding:
    digits = digits_of(row.value, row.beside)
    less = "less" if row.difference < 0 else "more"
    where = f"of layer {row.layer}, which attends most to {place}"
    return finding(
        claim=(
            f"The loss hangs {less} on attention to {place} than to other tokens in the heads {where}: mean gradient "
            f"{number(row.value, digits=digits)} against {number(row.beside, digits=digits)}"
        ),
        whether=f"the loss hangs less on attention to {place} than to other tokens in the heads {where}",
        absent=f"The loss hangs on attention to {place} as much as to other tokens in the heads {where}",
        contrast="difference",
        test=Contrast.of(row, *LEAD[:3]),
        source=Source("layers", {"of": "gradients", "layer": row.layer, "kind": row.kind}),
        unit=unit,
        importance=("answers", "surprises"),
        # Gradients have no scale of their own: a tenth is negligible.
        margin=row.beside / 10,
        digits=digits_of(row.difference),
    )


def _most(table: pd.DataFrame, kinds: Collection[str]) -> Iterable[Any]:
    """The row with the largest difference; of equals, that of the first kind. What could not vary is left out."""
    varies = table["p_adjusted"].notna() & (table["diff_high"] > table["diff_low"])
    tested = table[varies | (table["needed"] > 0)]
    parts = [tested[tested["kind"] == kind].dropna(subset=["difference"]) for kind in kinds]
    if not any(len(part) for part in parts):
        return
    rows = pd.concat([part for part in parts if len(part)])
    # A decoder's first token may be among separators too: the two differ by rounding only.
    yield from rows_of(rows.assign(lead=rows["difference"].round(6)).nlargest(1, "lead"))


@attention.costs
def _cost(
    estimator: Estimator,
    encoder: Encoder,
    corpus: Corpus,
    *,
    pairs: bool,
    length: int | None,
    segments: int | None,
    gradients: bool,
    seed: int,
    **_: object,
) -> Cost:
    """Of the texts or pairs that are shown; gradients are a second pass."""
    sampled, limit = sample_texts(corpus, pairs=pairs, length=length, segments=segments, seed=seed)
    texts, tokens = estimator.count(fit(encoder, text, limit) for text in sampled)
    read = replace(corpus, source=lambda: split_pairs(sampled))
    return replace(estimator.reading(passes=1 + gradients, data=read), texts=texts, tokens=tokens)


def _named(skipped: Counter[str], limit: int | None) -> dict[str, int]:
    """The counts, naming the limit where it was not the model's own."""
    cut = CUT if limit is None else f"texts longer than {limit} tokens, cut at the last whole word"
    return {cut if reason == CUT else reason: count for reason, count in skipped.items()}

"""What every head looks at: its surface behaviour, the patterns of its maps, and whether the loss hangs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Annotated, Any

import pandas as pd

from lamina.analyses.attention_maps.behaviours import FIRST
from lamina.analyses.attention_maps.head_means import LAYERS, layer_table
from lamina.analyses.attention_maps.induction import (
    ENCODER,
    INDUCTION,
    REPEATED,
    TOO_FEW,
    InductionMeter,
    induction_heads,
    induction_table,
    sequences_of,
)
from lamina.analyses.attention_maps.loss_gradients import GRADIENTS, GradientMeter, measure_gradients
from lamina.analyses.attention_maps.pairs import apart, shown_of
from lamina.analyses.attention_maps.surface import (
    MEASURES,
    PATTERNS,
    SHARE_OF_TEXTS,
    SURFACE,
    UNTOLD,
    PatternMeter,
    SurfaceMeter,
)
from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator
from lamina.analyses.inputs import Texts
from lamina.analyses.legacy import finding, legacy_finding, status_of
from lamina.analyses.settings import Samples, Seed, Setting, Weights
from lamina.analyses.watching import CUT, Watch, Watching, first_token, fit, refuse_without_maps
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.encoders.gradients import HOW, OwnLoss
from lamina.findings import Finding, cell, number, p_in_words, rows_of
from lamina.results import Result
from lamina.stats.bootstrap import DRAWS, draws_table
from lamina.stats.status import NEGLIGIBLE
from lamina.stats.units import unit_of

PAIRED = ("to_self", "to_previous", "to_next", "to_first", "to_separator", "to_punctuation", "entropy")
"""Measures that models are compared by."""


@analysis(
    title="What heads look at",
    question="Where does the attention of every head go, and how broadly is it spread?",
    method=(
        "For every head we take the share of attention that goes to the token itself, its neighbours, the first token, "
        "separators and punctuation, and the entropy of its rows: means over a text's tokens and then over texts, "
        "beside the value of uniform attention; 95 % intervals resample documents (texts where there is one document). "
        "Maps are sorted into the five types of Kovaleva et al. (2019) by a rule that was checked on maps labelled by "
        "eye: a part counts where, of the attention that the other parts leave, it holds at least 0.35 of what uniform "
        "attention would not give it. Of a decoder, induction is the share of attention that goes from a repeated "
        "token to the token after its earlier copy, on random tokens said twice, beside the same tokens without a copy "
        "and the random-weights twin (Olsson et al. 2022); intervals are over sequences."
    ),
    cites=("Clark et al. 2019", "Kovaleva et al. 2019", "Olsson et al. 2022"),
    reads=Texts(),
    # Bootstrap weights follow from a text's id, no longer from the order of texts (2). Intervals resample documents;
    # another rule for patterns; a decoder's first token no longer stands in for separators (3). Of decoders, induction,
    # and nothing about the next token, which they cannot see (4). Draws that pair models are kept (5).
    version=5,
    tables={
        "surface": Table("One row per head and measure, beside its value under uniform attention.", SURFACE),
        "patterns": Table("One row per head and type of map: the share of texts with such a map.", SHARE_OF_TEXTS),
        "induction": Table(
            "One row per head of a decoder: attention from repeated tokens to the token after their copy (`copy`: to "
            "the copy itself), uniform attention, the same tokens unrepeated, the paired difference, and the "
            "random-weights twin; `p_adjusted` is corrected over heads.",
            INDUCTION,
            optional=True,
        ),
        "gradients": Table("One row per head and kind of token attended to.", GRADIENTS, optional=True),
        "layers": Table("One row per layer and number of the other tables: the mean over its heads.", LAYERS),
        "draws": Table(
            "One row per measure that models are compared by, layer and bootstrap sample: the mean over the layer's "
            "heads, what `compare` pairs models by.",
            DRAWS,
            kept="parquet",
        ),
    },
    chapter="heads",
    takes=4,
    report={"segments": 1000},
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
        Setting("Most tokens of a text or pair; 128 for pairs, otherwise the model's own limit by default.", min=8),
    ] = None,
    segments: Annotated[
        int | None, Setting("Draw this many texts or pairs; 1000 for pairs, otherwise all by default.", min=1)
    ] = None,
    gradients: Annotated[bool, Setting("Add the gradient of the model's own loss with respect to attention.")] = False,
    repeated: Annotated[
        int, Setting("Random sequences said twice, to find the induction heads of a decoder; 0 for none.", min=0)
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
    shown, limit = shown_of(corpus, pairs=pairs, length=length, segments=segments, seed=seed)
    said = {"first_token": first_token(encoder)} | ({"segment_ids": _segment_ids(encoder)} if faithful else {})
    seen = encoder.with_one_segment() if faithful else encoder
    # A model without a head is refused before the work, not after it.
    loss = OwnLoss(seen, seed=seed) if gradients else None
    unit = unit_of(shown)
    surface = SurfaceMeter(seen, samples=samples, seed=seed, unit=unit)
    patterns = PatternMeter(seen, samples=samples, seed=seed, unit=unit)
    skipped = yield Watch(seen, shown, [surface, patterns], limit=limit, total=len(shown), weights=weights)
    skipped[UNTOLD] = patterns.untold
    tables = {"surface": _visible(encoder, surface.table(), "measure"), "patterns": patterns.table()}
    layers = [
        _visible(encoder, layer_table(surface.means.layers(), MEASURES, "surface"), "kind"),
        layer_table(patterns.means.layers(), PATTERNS, "patterns"),
    ]
    if loss is not None:
        slopes = GradientMeter(seen, samples=samples, seed=seed, unit=unit)
        skipped += measure_gradients(slopes, loss, seen, shown, limit=limit, total=len(shown))
        tables["gradients"] = slopes.table()
        layers.append(layer_table(slopes.means.layers(), slopes.targets, "gradients"))
        said["loss"] = HOW[loss.kind]
    if repeated:
        made = sequences_of(seen, repeated, seed=seed) if seen.causal_maps else None
        said["induction"] = TOO_FEW if seen.causal_maps else ENCODER
        if made is not None:
            said["induction"] = f"{repeated} sequences of {made.size} random tokens, said twice"
            meters = []
            for each in (seen, seen.random_twin(seed)):
                meters.append(InductionMeter(made.size))
                texts = made.repeated + made.unrepeated
                yield Watch(each, texts, meters[-1:], total=len(texts), weights=weights)
            tables["induction"] = induction_table(*meters)
    tables["layers"] = pd.concat(layers, ignore_index=True)
    drawn = surface.means.layer_draws()
    kept = {name: drawn[:, MEASURES.index(name)] for name in _paired(encoder)}
    tables["draws"] = draws_table(kept, range(1, encoder.blocks + 1))
    units = {f"{unit.by}s": len({unit.of(text) for text in shown})}
    data = {"shown": shown.describe(), "resampled": f"{unit.by}s", "drawn": units}
    return Tables(tables, _named(skipped, limit), model=said, data=data)


def _paired(encoder: Encoder) -> list[str]:
    return [name for name in PAIRED if not (encoder.causal_maps and name == "to_next")]


def _visible(encoder: Encoder, table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Without what no head of a decoder can look at: the next token, and separators where its texts have none."""
    if not encoder.causal_maps:
        return table
    absent = [kind for kind, own in table.groupby(column, sort=False) if own["value"].isna().all()]
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
            for row in rows_of((heads if len(heads) else induction.nlargest(1, "value")).head(_SHOWN))
        ]
        title = f"Induction: {len(heads)} of {len(induction)} heads; {about.model.get('induction', '')}"
        yield Overview(title, ("layer", "head", "after the copy", "without a copy", "twin"), rows)


_SINKS = {"to_first": "the first token", "to_separator": "separators", "to_punctuation": "full stops and commas"}
_PLACES = {"to_previous": "the previous token", "to_next": "the next token", "to_self": "the token itself"}
"""Measure -> in words."""
_SHOWN = 8
"""Induction heads that are named."""
_NUMBERS = ["value", "low", "high", "baseline"]


@attention.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The strongest sink, the clearest positional head, the type of map of one layer, and what the loss hangs on."""
    table = result.tables.get("surface")
    if table is None or table.empty:
        return
    measured = table.dropna(subset=_NUMBERS).rename(columns={"measure": "kind"})
    layers = result.tables.get("layers")
    if layers is None:
        # Results of older versions: the mean of heads' intervals is wider than the layer's own.
        layers = measured.groupby(["kind", "layer"], sort=False, as_index=False)[_NUMBERS].mean().assign(of="surface")
    sinks = layers[layers["of"] == "surface"].dropna(subset=_NUMBERS)
    for row in _most(sinks, _SINKS):
        found = row.low > row.baseline
        claim = f"The strongest sink is at layer {row.layer}" if found else "No layer is a sink"
        heads = "its heads give" if found else f"at most, the heads of layer {row.layer} give"
        yield finding(
            f"{claim}: {heads} {{number}} of their attention to {_SINKS[row.kind]}; uniform attention would give "
            "{against}.",
            row.value, row.low, row.high, row.baseline,
        )  # fmt: skip
    # Of a decoder, the head that says what came before is the one that induction builds on.
    decoder = "induction" in result.tables
    for row in _most(measured, ["to_previous"] if decoder else _PLACES):
        yield finding(
            f"The clearest {'previous-token' if decoder else 'positional'} head is {row.layer}-{row.head}: it gives "
            f"{{number}} of its attention to {_PLACES[row.kind]}; uniform attention would give {{against}}.",
            row.value, row.low, row.high, row.baseline,
        )  # fmt: skip
    yield from _induction(result.tables.get("induction"))
    yield from _types(layers[layers["of"] == "patterns"])
    slopes = layers[layers["of"] == "gradients"]
    yield from _breadth(measured) if slopes.empty else _no_op(sinks, slopes)


def _induction(table: pd.DataFrame | None) -> Iterable[Finding]:
    """Which heads find what came after an earlier copy; or that none does."""
    if table is None or table.empty:
        return
    heads = induction_heads(table)
    row = next(rows_of(table.nlargest(1, "value") if heads.empty else heads))
    numbers = (
        f"{number(row.value, row.low, row.high)} of its attention from repeated tokens to the token after their "
        f"earlier copy; without a copy {number(row.unrepeated)} (difference "
        f"{number(row.difference, row.diff_low, row.diff_high)}, {p_in_words(row.p_adjusted)}), the random-weights twin "
        f"{number(row.twin)}, uniform attention {number(row.baseline)}."
    )
    about = row.value, row.low, row.high, row.unrepeated
    if heads.empty:
        status = "null" if row.diff_high <= NEGLIGIBLE else "open"
        said = f"No head is an induction head: at most, {row.layer}-{row.head} gives {numbers}"
        yield legacy_finding(said, status, *about)
        return
    named = [f"{each.layer}-{each.head}" for each in rows_of(heads)]
    listed = ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else "")
    count = f"{len(named)} of {len(table)} heads are induction heads ({listed})"
    count = count if len(named) > 1 else f"One of {len(table)} heads is an induction head ({listed})"
    yield legacy_finding(f"{count}; the clearest, {named[0]}, gives {numbers}", "clear", *about)


def _types(patterns: pd.DataFrame) -> Iterable[Finding]:
    """The layer with most maps of one type, beside that type's share over all layers."""
    told = patterns[patterns["kind"] != "heterogeneous"].dropna(subset=["value", "low", "high"])
    for row in rows_of(told.nlargest(1, "value")):
        overall = float(told.loc[told["kind"] == row.kind, "value"].mean())
        yield finding(
            f"Layer {row.layer} has most maps of one type: {{number}} of its heads' maps are {row.kind}; over all "
            "layers {against} are.",
            row.value, row.low, row.high, overall,
        )  # fmt: skip


def _breadth(measured: pd.DataFrame) -> Iterable[Finding]:
    """The narrowest and the broadest head."""
    entropies = measured[measured["kind"] == "entropy"]
    ends = zip(rows_of(entropies.nsmallest(1, "value")), rows_of(entropies.nlargest(1, "value")), strict=True)
    for narrow, broad in ends:
        yield finding(
            f"The narrowest head is {narrow.layer}-{narrow.head}: entropy {{number}} nats; the broadest, "
            f"{broad.layer}-{broad.head}, has {{against}}, and uniform attention {number(broad.baseline)}.",
            narrow.value, narrow.low, narrow.high, broad.value, (broad.low, broad.high),
        )  # fmt: skip


def _no_op(sinks: pd.DataFrame, slopes: pd.DataFrame) -> Iterable[Finding]:
    """At the layer that attends most to separators (or the first token): does the loss hang on that?"""
    target = FIRST if FIRST in set(slopes["kind"]) else "separator"
    attended = sinks[sinks["kind"] == f"to_{target}"]
    for row in rows_of(attended.nlargest(1, "value")):
        own, other = (
            next(rows_of(slopes[(slopes["layer"] == row.layer) & (slopes["kind"] == kind)]))
            for kind in (target, "other")
        )
        # Gradients have no scale of their own: a tenth is negligible.
        status = status_of(own.low, own.high, other.value, (other.low, other.high), negligible=other.value / 10)
        claim = {
            "clear": f"hangs {'less' if own.value < other.value else 'more'} on that than on attention to other tokens",
            "open": "may hang on that as much as on attention to other tokens",
            "null": "hangs on that as much as on attention to other tokens",
        }[status]
        numbers = (number(each.value, each.low, each.high, digits=4) for each in (own, other))
        yield legacy_finding(
            f"Layer {row.layer} gives most attention to {_SINKS[row.kind]} ({number(row.value)}), and the loss {claim}:"
            f" mean gradient {' against '.join(numbers)}.",
            status, own.value, own.low, own.high, other.value,
        )  # fmt: skip


def _most(table: pd.DataFrame, measures: Collection[str]) -> Iterable[Any]:
    """The row that leads uniform attention by most; of equals, that of the first measure."""
    own = pd.concat([table[table["kind"] == measure] for measure in measures])
    # Older results have a decoder's first token among separators too: the two differ by rounding only.
    return rows_of(own.assign(lead=(own["low"] - own["baseline"]).round(6)).nlargest(1, "lead"))


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
    shown, limit = shown_of(corpus, pairs=pairs, length=length, segments=segments, seed=seed)
    texts, tokens = estimator.count(fit(encoder, text, limit) for text in shown)
    read = replace(corpus, source=lambda: apart(shown), limit=None)
    return replace(estimator.trial(passes=1 + gradients, data=read), texts=texts, tokens=tokens)


def _named(skipped: Counter[str], limit: int | None) -> dict[str, int]:
    """The counts, naming the limit where it was not the model's own."""
    cut = CUT if limit is None else f"texts longer than {limit} tokens, cut at the last whole word"
    return {cut if reason == CUT else reason: count for reason, count in skipped.items()}

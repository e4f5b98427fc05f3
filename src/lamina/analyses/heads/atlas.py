"""All heads at a glance: one number per head and measure, on one sentence or on a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.analyses.heads.behaviours import BEHAVIOURS, DIFFERENCE, LEAD, is_ahead, with_tests
from lamina.analyses.heads.coreference import BASELINES
from lamina.analyses.heads.look import OutstandingHead, reach, standing_out, watch_sentence
from lamina.analyses.heads.surface import MEASURES, SurfaceMeter, constant_measures
from lamina.framework.watch import Weighting
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import rows_of
from lamina.stats.status import SURE

SHARE, NATS, ACCURACY = "share of attention", "nats", "accuracy"
SENTENCE = "sentence"
"""Where measures of one sentence come from; others are named by their analysis."""

TITLES = {
    "to_self": "to itself",
    "to_previous": "to the previous token",
    "to_next": "to the next token",
    "to_first": "to the first token",
    "to_separator": "to separators",
    "to_punctuation": "to full stops and commas",
    "separator_to_separator": "from separators to separators",
    "other_to_separator": "from other tokens to separators",
    "entropy": "entropy",
    "entropy_first": "entropy of the first token's attention",
    "reach": "to farther words (the largest, more than one away)",
}
"""Measure -> in words."""

OFTEN = 20
"""Words that a relation must have: a few lucky hits say little about a head."""


class HeadMeasure(NamedTuple):
    """One number per head."""

    source: str
    """`sentence`, or the analysis that measured it."""
    name: str
    """Unique within its source."""
    title: str
    unit: str
    values: Float[np.ndarray, "block head"]
    """NaN where there is none."""
    baseline: float = float("nan")
    """What uniform attention, or the best simple rule, would give; NaN where there is none."""
    names: tuple[str, ...] = ()
    """Where the measure is a category: value i means the i-th name."""
    rule: str = "uniform attention"
    """What gives the baseline."""


class SentenceAtlas(NamedTuple):
    """One sentence, as every head looks at it."""

    measures: list[HeadMeasure]
    outstanding: list[OutstandingHead]
    """The heads that stand out on it, and by what."""
    tokens: int


def sentence_atlas(
    encoder: Encoder, sentence: str, *, most: int | None = None, weights: Weighting = "attention"
) -> SentenceAtlas:
    """The surface measures of every head on one sentence, and how far it looks.

    Args:
        encoder: whose heads.
        sentence: running text.
        most: tokens, where less than the model takes.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> found = sentence_atlas(TinyEncoder(), "Dogs bark.")
        >>> found.measures[0].title, found.measures[0].values.shape
        ('to itself', (2, 2))
    """
    surface = SurfaceMeter(encoder, samples=1)
    seen = watch_sentence(encoder, sentence, [surface], most=most, weights=weights)
    far, measured = reach(seen), surface.measured()
    constant = constant_measures(surface.table())
    measures = [
        HeadMeasure(SENTENCE, name, TITLES[name], _unit(name), value, float(baseline))
        for name, value, baseline in zip(MEASURES, measured.value, measured.baseline, strict=True)
        if np.isfinite(value).any() and name not in constant
    ]
    measures.append(HeadMeasure(SENTENCE, "reach", TITLES["reach"], SHARE, far.astype(float)))
    return SentenceAtlas(measures, standing_out(surface.table(), far), len(seen.tokens.ids))


def result_atlas(result: Result, blocks: int, heads: int) -> list[HeadMeasure]:
    """What a saved result of `attention`, `heads`, `corefheads`, `headmap`, `ablate` or `roles` says of every head.

    Nothing of others.

    Example:
        >>> import lamina
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> result = lamina.attention(TinyEncoder(), lamina.corpus_from(SAMPLE_TEXTS, name="samples"), samples=10)
        >>> [measure.title for measure in result_atlas(result, 2, 2)][:2]
        ['to itself', 'to the previous token']
    """
    read = _READERS.get(result.analysis)
    return [] if read is None else read(result, (blocks, heads))


def _attention(result: Result, shape: tuple[int, int]) -> list[HeadMeasure]:
    measures = []
    constant = constant_measures(result.tables["surface"])
    for name, rows in _grouped(result.tables["surface"], "measure"):
        values, baseline = _grid(rows, "value", shape), float(rows["baseline"].to_numpy()[0])
        # A decoder has no separators, and no token of it sees the next one.
        if np.isfinite(values).any() and name not in constant:
            measures.append(HeadMeasure("attention", name, TITLES.get(name, name), _unit(name), values, baseline))
    for name, rows in _grouped(result.tables["patterns"], "pattern"):
        values = _grid(rows, "share", shape)
        measures.append(HeadMeasure("attention", f"pattern {name}", f"maps that are {name}", "share of texts", values))
    return measures


def _heads(result: Result, shape: tuple[int, int]) -> list[HeadMeasure]:
    """The better of both directions, relations by how common they are."""
    measures = []
    for name, rows in _grouped(result.tables["relations"].sort_values("accuracy"), "relation"):
        title = f"finds the head of {name if name != 'all' else 'any word'}"
        count, baseline = int(rows["count"].to_numpy().max()), float(rows["offset_accuracy"].to_numpy().max())
        values = _grid(rows, "accuracy", shape)
        measures.append(
            (count, HeadMeasure("heads", name, title, ACCURACY, values, baseline, rule="best fixed offset"))
        )
    return [measure for count, measure in sorted(measures, key=lambda pair: -pair[0]) if count >= OFTEN]


def _corefheads(result: Result, shape: tuple[int, int]) -> list[HeadMeasure]:
    coref = result.tables["coref"]
    rules = coref[coref["system"].isin(list(BASELINES))].sort_values("accuracy", ascending=False, kind="stable")
    best = {str(row.mention_type): row for row in rows_of(rules.drop_duplicates("mention_type"))}
    measures = []
    for name, rows in _grouped(pd.DataFrame(coref[coref["system"] == "head"]), "mention_type"):
        title, values = f"finds the antecedent: {name}", _grid(rows, "accuracy", shape)
        rule = best.get(name)
        beside = {} if rule is None else {"baseline": float(rule.accuracy), "rule": str(rule.system)}
        measures.append(HeadMeasure("corefheads", name, title, ACCURACY, values, **beside))
    return measures


def _headmap(result: Result, shape: tuple[int, int]) -> list[HeadMeasure]:
    points, pairs, sums = result.tables["points"], result.tables["divergences"], np.zeros(shape)
    for side in "ab":
        np.add.at(sums, _places(pairs, f"layer_{side}", f"head_{side}"), pairs["mean"].to_numpy(float))
    codes = pd.DataFrame(points).assign(code=[BEHAVIOURS.index(name) for name in points["behaviour"]])
    return [
        HeadMeasure("headmap", "role", "role", "role", _grid(codes, "code", shape), names=BEHAVIOURS),
        HeadMeasure("headmap", "apart", "mean divergence from all other heads", NATS, sums / max(1, sums.size - 1)),
    ]


def _ablate(result: Result, shape: tuple[int, int]) -> list[HeadMeasure]:
    """What breaks without each head: one measure per target and way of taking it away."""
    effects = result.tables["effects"]
    heads, measures = pd.DataFrame(effects[effects["component"] == "head"]), []
    for (target, how), rows in heads.groupby(["target", "how"], sort=False):
        title, unit = f"effect on {target} without it ({how})", NATS if target == "loss" else "score"
        values = _grid(pd.DataFrame(rows), "effect", shape)
        measures.append(HeadMeasure("ablate", f"{target} {how}", title, unit, values, 0.0, rule="no change"))
    return measures


def _roles(result: Result, shape: tuple[int, int]) -> list[HeadMeasure]:
    """The role that a head with one matters for more than the others of its layer do, the most certain first."""
    table = result.tables["roles"]
    sure = pd.DataFrame(table[_matters(table)]).sort_values("p_adjusted", ascending=False, kind="stable")
    names = (NOTHING, *dict.fromkeys(map(str, table["role"])))
    codes = [names.index(str(role)) for role in sure["role"]]
    # Where a head has several rows the last counts, so that it is nothing only where no row is sure.
    every = pd.concat([table.assign(code=0), sure.assign(code=codes)])
    return [HeadMeasure("roles", "matters for", "matters for", "role", _grid(every, "code", shape), names=names)]


def _matters(table: pd.DataFrame) -> pd.Series:
    """Whether what needs the role is surely worse without the head than without others of its layer."""
    worse = table["difference"].where(table["target"] == "loss", -table["difference"]) > 0
    return worse & (table["p_adjusted"] < SURE)


_READERS: dict[str, Callable[[Result, tuple[int, int]], list[HeadMeasure]]] = {
    "attention": _attention,
    "heads": _heads,
    "corefheads": _corefheads,
    "headmap": _headmap,
    "ablate": _ablate,
    "roles": _roles,
}
READ = tuple(_READERS)
"""The analyses whose saved results tell of every head ..."""
EXPECTED = READ[:4]
"""... and those that are missed where there is none: the others take long."""


def _unit(measure: str) -> str:
    return NATS if measure.startswith("entropy") else SHARE


def _grouped(table: pd.DataFrame, column: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each value of a column, in order of appearance."""
    for name, rows in table.groupby(column, sort=False):
        yield str(name), pd.DataFrame(rows)


def _grid(table: pd.DataFrame, column: str, shape: tuple[int, int]) -> Float[np.ndarray, "block head"]:
    """The column, laid out by layer and head; where a head has several rows the last counts."""
    values = np.full(shape, np.nan)
    values[_places(table, "layer", "head")] = table[column].to_numpy(float)
    return values


def _places(table: pd.DataFrame, layer: str, head: str) -> tuple[np.ndarray, np.ndarray]:
    return table[layer].to_numpy(int) - 1, table[head].to_numpy(int) - 1


NEIGHBOURS = 8
RELATIONS = 10

RELATION = (
    "relation", "direction", "count", "accuracy", "low", "high", "offset", "offset_accuracy", *DIFFERENCE, "ahead",
    "held_out",
)  # fmt: skip
PATTERN = ("title", "value", "low", "high", "baseline", "rank", "of", *LEAD)
NEIGHBOUR = ("layer", "head", "divergence", "behaviour")
POINT = ("layer", "head", "x", "y", "behaviour")
BEHAVIOUR = ("behaviour", "what", "value", "over", *DIFFERENCE, "status")
COREFERENCE = ("mention_type", "count", "accuracy", "low", "high")
SHAPE = ("pattern", "share")
MATTERS = ("role", "target", "effect", "low", "high", "others", *DIFFERENCE, "matters")
NOTHING = "nothing that was asked"


class HeadCard(NamedTuple):
    """What is known about a head; a table is empty where its analysis was not run."""

    role: str
    """Its name on the map of heads; empty where there is none."""
    behaviours: pd.DataFrame
    """Every behaviour it shows, with the evidence; `status` is that of the test corrected for all heads."""
    relations: pd.DataFrame
    """Dependencies it finds, by its lead over the best offset, on the whole split. `ahead`: surely, after correcting
    for everything tried. `held_out`: it is the relation's best head, and the head that other documents chose."""
    coreference: pd.DataFrame
    """`mention_type,count,accuracy,low,high`."""
    pattern: pd.DataFrame
    """Surface measures with intervals, and the head's rank among all heads (1 has the most)."""
    shapes: pd.DataFrame
    """`pattern,share`: of its maps."""
    matters: pd.DataFrame
    """What breaks without it: for its roles beside the other heads of its layer, and what `ablate` found for any head
    (without a role). `matters`: surely, after correcting for everything tried."""
    neighbours: pd.DataFrame
    """The heads that attend most alike."""
    points: pd.DataFrame
    """The map: `layer,head,x,y,behaviour` of all heads."""


def card(layer: int, head: int, results: Mapping[str, Result]) -> HeadCard:
    """Everything that results say about a head.

    Args:
        layer: the head's block, from 1.
        head: its number there, from 1.
        results: of `attention`, `heads`, `corefheads`, `headmap`, `ablate` and `roles`, by analysis, as far as there
            are any.

    Example:
        >>> import lamina
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> result = lamina.headmap(TinyEncoder(), lamina.corpus_from(SAMPLE_TEXTS, name="samples"), samples=10)
        >>> found = card(2, 1, {"headmap": result})
        >>> len(found.neighbours), len(found.points), len(found.relations)
        (3, 4, 0)
    """
    tables = {(name, table): results[name].tables[table] for name in results for table in results[name].tables}
    points = tables.get(("headmap", "points"), pd.DataFrame(columns=list(POINT)))
    role = [str(name) for name in _of(points, layer, head)["behaviour"]]
    return HeadCard(
        role="".join(role[:1]),
        behaviours=_rows_of_head(tables.get(("headmap", "behaviours")), layer, head, BEHAVIOUR),
        relations=_relations(tables.get(("heads", "relations")), tables.get(("heads", "best")), layer, head),
        coreference=_rows_of_head(_each_head(tables.get(("corefheads", "coref"))), layer, head, COREFERENCE),
        pattern=_rows_of_head(_ranked(tables.get(("attention", "surface"))), layer, head, PATTERN),
        shapes=_rows_of_head(tables.get(("attention", "patterns")), layer, head, SHAPE),
        matters=_rows_of_head(
            _uses(tables.get(("roles", "roles")), tables.get(("ablate", "effects"))), layer, head, MATTERS
        ),
        neighbours=_neighbours(tables.get(("headmap", "divergences")), points, layer, head),
        points=points,
    )


def _of(table: pd.DataFrame, layer: int, head: int) -> pd.DataFrame:
    return pd.DataFrame(table[(table["layer"] == layer) & (table["head"] == head)])


def _rows_of_head(table: pd.DataFrame | None, layer: int, head: int, columns: Sequence[str]) -> pd.DataFrame:
    """The head's rows; none where there is no table. Columns that an older version did not write are empty."""
    if table is None:
        return pd.DataFrame(columns=list(columns))
    return _of(table, layer, head).reindex(columns=list(columns))


def _doing(tables: Mapping[tuple[str, str], pd.DataFrame]) -> pd.DataFrame | None:
    found = tables.get(("headmap", "behaviours"))
    return None if found is None else with_tests(found, tables.get(("attention", "surface")))


def _each_head(coref: pd.DataFrame | None) -> pd.DataFrame | None:
    """Without the baselines and the best head, which was scored on other documents."""
    return None if coref is None else pd.DataFrame(coref[coref["system"] == "head"])


def _ranked(surface: pd.DataFrame | None) -> pd.DataFrame | None:
    if surface is None:
        return None
    # Where all heads are alike by construction, no rank tells anything.
    surface = surface[~surface["measure"].isin(constant_measures(surface))]
    among = surface.groupby("measure")["value"]
    return surface.assign(
        title=[TITLES.get(str(name), str(name)) for name in surface["measure"]],
        rank=among.rank(method="min", ascending=False),
        of=among.transform("count"),
    )


def _relations(whole: pd.DataFrame | None, best: pd.DataFrame | None, layer: int, head: int) -> pd.DataFrame:
    if whole is None or best is None:
        return pd.DataFrame(columns=list(RELATION))
    best_rows = _of(best, layer, head)
    chosen = best_rows["agrees"].astype(bool) if "agrees" in best_rows else True
    won = best_rows.assign(held_out=chosen)
    others = _of(whole, layer, head).assign(held_out=False).sort_values("accuracy", ascending=False)
    others = others.drop_duplicates("relation")
    others = pd.DataFrame(others[(others["count"] >= OFTEN) & ~others["relation"].isin(won["relation"])])
    ordered = pd.concat([part.iloc[(part["offset_accuracy"] - part["accuracy"]).argsort()] for part in (won, others)])
    # Older versions did not test differences: nothing of theirs is surely ahead.
    rows = ordered.reindex(columns=list(RELATION))
    return rows.assign(ahead=is_ahead(rows)).head(max(RELATIONS, len(won)))


def _uses(roles: pd.DataFrame | None, effects: pd.DataFrame | None) -> pd.DataFrame | None:
    """What breaks without each head, by its roles and in general."""
    parts = [] if roles is None else [roles.assign(matters=_matters(roles))]
    if effects is not None:
        heads = pd.DataFrame(effects[effects["component"] == "head"])
        parts.append(heads.assign(role="", matters=heads["p_adjusted"] < SURE))
    return pd.concat(parts, ignore_index=True) if parts else None


def _neighbours(pairs: pd.DataFrame | None, points: pd.DataFrame, layer: int, head: int) -> pd.DataFrame:
    if pairs is None:
        return pd.DataFrame(columns=list(NEIGHBOUR))
    roles = {(one, other): role for one, other, role in points[["layer", "head", "behaviour"]].itertuples(index=False)}
    neighbours = []
    for *heads, mean in pairs[["layer_a", "head_a", "layer_b", "head_b", "mean"]].itertuples(index=False):
        first, second = tuple(heads[:2]), tuple(heads[2:])
        if (layer, head) in (first, second):
            other = second if first == (layer, head) else first
            neighbours.append((*other, mean, roles.get(other, "")))
    return pd.DataFrame(sorted(neighbours, key=lambda row: row[2])[:NEIGHBOURS], columns=list(NEIGHBOUR))

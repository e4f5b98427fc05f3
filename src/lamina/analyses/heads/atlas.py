"""All heads at a glance: one number per head and measure, and what is known about one head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.analyses.heads.behaviours import (
    BEHAVIOURS,
    BROADLY,
    COREFERENCE,
    DIFFERENCE,
    INDUCTION,
    LEAD,
    SHARES,
    SYNTACTIC,
    is_ahead,
    with_tests,
)
from lamina.analyses.heads.corefheads import BASELINES
from lamina.analyses.heads.look import OutstandingHead, reach, standing_out, watch_sentence
from lamina.analyses.heads.surface import MEASURES, SurfaceMeter, constant_measures
from lamina.framework.watch import Weighting
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import number, rows_of
from lamina.stats.status import SURE, Status, status_of
from lamina.tasks.catalogue import in_words

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
COREFERENCE_COLUMNS = ("mention_type", "count", "accuracy", "low", "high")
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
        behaviours=_rows_of_head(_doing(tables), layer, head, BEHAVIOUR),
        relations=_relations(tables.get(("heads", "relations")), tables.get(("heads", "best")), layer, head),
        coreference=_rows_of_head(_each_head(tables.get(("corefheads", "coref"))), layer, head, COREFERENCE_COLUMNS),
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
    """The head's rows; empty if the table is missing. Columns that an older version did not write are empty."""
    if table is None:
        return pd.DataFrame(columns=list(columns))
    return _of(table, layer, head).reindex(columns=list(columns))


def _doing(tables: Mapping[tuple[str, str], pd.DataFrame]) -> pd.DataFrame | None:
    doing = tables.get(("headmap", "behaviours"))
    return None if doing is None else with_tests(doing, tables.get(("attention", "surface")))


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


_NAN = float("nan")
_UNITS = dict.fromkeys(TITLES.values(), SHARE) | {TITLES["entropy"]: NATS, TITLES["entropy_first"]: NATS}


class HeadEvidence(NamedTuple):
    """One row: a number, its interval, and what it is compared with."""

    kind: Literal["finds", "looks", "matters"]
    title: str
    """What was measured; empty where nothing was."""
    unit: str = ""
    value: float = _NAN
    low: float = _NAN
    high: float = _NAN
    beside: float = _NAN
    """What it is compared with ..."""
    rule: str = ""
    """... and what gives that."""
    note: str = ""
    """How much it was measured on, or its rank; where nothing was measured, why."""
    status: Status | Literal["missing"] = "missing"
    needs: tuple[str, ...] = ()
    """Analyses that would tell, where nothing was measured."""


def evidence(card: HeadCard) -> list[HeadEvidence]:
    """The strongest evidence of each kind; a row without a number where its analysis was not run.

    Example:
        >>> import lamina
        >>> from lamina.analyses.heads.atlas import card
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> result = lamina.attention(TinyEncoder(), lamina.corpus_from(SAMPLE_TEXTS, name="samples"), samples=10)
        >>> [(row.kind, row.status) for row in evidence(card(2, 1, {"attention": result}))]
        [('finds', 'missing'), ('looks', 'open'), ('matters', 'missing')]
    """
    return [_finds(card), _looks(card), _effect_evidence(card)]


def in_a_sentence(card: HeadCard) -> str:
    """What the head does, as far as it was measured.

    Example:
        >>> from lamina.analyses.heads.atlas import card
        >>> in_a_sentence(card(1, 1, {}))
        'Nothing was measured of it on a corpus yet.'
    """
    row = next(rows_of(card.behaviours), None)
    finds, looks = _finds(card), _looks(card)
    if card.role in (SYNTACTIC, COREFERENCE) and finds.status != "missing":
        return f"{_capital(finds.title)}: {_against(finds)}."
    copied = next(rows_of(card.behaviours[card.behaviours["behaviour"] == INDUCTION]), None)
    if card.role == INDUCTION and copied is not None:
        more = number(copied.difference, copied.diff_low, copied.diff_high)
        return (
            f"At a repeated token it looks to the token after the earlier copy: {number(copied.value)} of its "
            f"attention on random tokens, {more} more than without a copy."
        )
    if card.role in SHARES and looks.status != "missing":
        return f"Looks {looks.title}: {_against(looks)}."
    if card.role == BROADLY and row is not None:
        return f"Spreads its attention over many words: entropy {number(row.value)} nats, over {number(row.over)}."
    if looks.status != "missing":
        start = "Has no role, since nothing it does passes a threshold; it looks" if card.role else "Looks"
        return f"{start} mostly {looks.title}: {_against(looks)}."
    if finds.status != "missing":
        return f"{_capital(finds.title)}: {_against(finds)}."
    if row is not None:
        return f"Its role is {card.role}: {number(row.value)}, which had to be over {number(row.over)}."
    return "Nothing was measured of it on a corpus yet."


def _against(row: HeadEvidence) -> str:
    unit = {SHARE: "of its attention", NATS: "nats"}.get(row.unit, row.unit)
    return f"{number(row.value, row.low, row.high)} {unit}; {row.rule} {number(row.beside)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _finds(card: HeadCard) -> HeadEvidence:
    """The relation with the largest lead, or the antecedents of a coreference head."""
    mention = next(rows_of(card.coreference.sort_values("accuracy", ascending=False)), None)
    known = next(rows_of(card.behaviours[card.behaviours["behaviour"] == COREFERENCE]), None)
    if mention is not None and (known is not None or card.relations.empty):
        beside, rule = (known.over, "best simple rule") if known is not None else (_NAN, "no rule was scored")
        return HeadEvidence(
            "finds", f"finds the antecedent of {mention.mention_type} mentions", "accuracy", mention.accuracy,
            mention.low, mention.high, beside, rule, f"{mention.count:,} mentions",
            # Only heads that are clearly ahead of every rule have the behaviour.
            "open" if known is None else "clear",
        )  # fmt: skip
    # Relations that earn a name first; of the rest, the one with the largest lead.
    often = card.relations[(card.relations["count"] >= OFTEN) | card.relations["ahead"].astype(bool)]
    ordered = often.assign(sure=often["ahead"].astype(bool))
    row: Any = next(rows_of(ordered.sort_values("sure", ascending=False, kind="stable")), None)
    if row is None:
        return HeadEvidence("finds", "", note="dependencies were not looked for", needs=("heads",))
    way = "from a word to its head" if row.direction == "dependent" else "from a word to its dependent"
    scope = "also where other documents chose the head" if row.held_out else "on the split it was chosen on"
    # The paired and corrected test says so.
    status = "clear" if row.ahead else "open"
    return HeadEvidence(
        "finds", f"looks {way} in the relation {in_words(str(row.relation))}", "accuracy", row.accuracy, row.low,
        row.high, row.offset_accuracy,
        f"the best fixed offset ({row.offset:+d})", f"{row.count:,} words, {scope}", status,
    )  # fmt: skip


def _looks(card: HeadCard) -> HeadEvidence:
    """The measure that gave the head its role, else the one farthest above uniform attention."""
    named = SHARES.get(card.role, ("entropy" if card.role == BROADLY else "", 0))[0]
    shares = card.pattern[card.pattern["title"].isin([title for title in _UNITS if _UNITS[title] == SHARE])]
    named_rows = card.pattern[card.pattern["title"] == TITLES.get(named, "")]
    lead = (shares["value"] - shares["baseline"]).sort_values(ascending=False, kind="stable")
    row: Any = next(rows_of(named_rows if len(named_rows) else pd.DataFrame(shares.loc[lead.index])), None)
    if row is None:
        return HeadEvidence("looks", "", note="its pattern was not measured", needs=("attention",))
    return HeadEvidence(
        "looks", row.title, _UNITS.get(row.title, SHARE), row.value, row.low, row.high, row.baseline,
        "uniform attention", f"rank {row.rank:.0f} of {row.of:.0f} heads",
        status_of(row.diff_low, row.diff_high, row.p_adjusted, needed=row.needed),
    )  # fmt: skip


def _effect_evidence(card: HeadCard) -> HeadEvidence:
    """What breaks without it: what surely does first, then the largest effect."""
    if card.matters.empty:
        return HeadEvidence("matters", "", note="it was not switched off yet", needs=("roles", "ablate"))
    table = card.matters.assign(sure=card.matters["matters"].astype(bool), size=card.matters["effect"].abs())
    row: Any = next(rows_of(table.sort_values(["sure", "size"], ascending=False, kind="stable")))
    of_role = isinstance(row.role, str) and row.role != ""
    unit = NATS if row.target == "loss" else "score"
    beside, rule = (row.others, "other heads of its layer") if of_role else (0.0, "no change")
    status = "clear" if row.matters else "open"
    return HeadEvidence(
        "matters", f"{row.target} without it, minus with it", unit, row.effect, row.low, row.high, beside, rule,
        f"asked of its role {row.role}" if of_role else "asked of any head", status,
    )  # fmt: skip

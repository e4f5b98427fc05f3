"""All results of a model at a glance: what each layer can do, what each head does, and the five chapters.

Nothing is measured here: tables of saved results are put side by side, for the report's first screen and for the app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from lamina.results import Result
from lamina.results.finding import rows_of
from lamina.stats.status import Status
from lamina.tasks import title_of

if TYPE_CHECKING:
    from lamina.analyses.layers.probe.findings import AbilityReading

ABILITIES = (
    "ability", "analysis", "metric", "layer", "score", "low", "high", "twin", "constant", "above", "peak", "peak_low",
    "peak_high", "among_best", "converged", "count", "baseline", "status",
)  # fmt: skip
"""Columns of `ability_layers`."""


def ability_layers(results: Iterable[Result]) -> pd.DataFrame:
    """One row per ability and layer: how well the layer alone does, beside what it is compared with.

    `twin` is the random-weights twin at the same layer, `constant` the best answer without context, and `baseline` says
    what that is (a constant answer, static vectors); `above` is the score minus the larger of the two. `status` says
    whether the score was shown to be above all it is compared with (clear, open or untested). `peak` marks the highest
    score; `among_best` the layers that can be the best (the confidence set of the result, `peak_low` to
    `peak_high` being its ends), where the result has tested that. Where probes had not converged there is no peak.

    Example:
        >>> from lamina.results import Provenance
        >>> rows = [("layer", "model", 0, 0.5), ("layer", "model", 1, 0.9), ("layer", "random", 1, 0.6)]
        >>> scores = pd.DataFrame(rows, columns=["probe", "of", "layer", "value"]).assign(
        ...     model="m", task="pos", seed="all", metric="f1", count=99, low=lambda t: t["value"] - 0.01,
        ...     high=lambda t: t["value"] + 0.01)
        >>> table = ability_layers([Result("probe", {"scores": scores}, Provenance({"name": "m"}, {}, {}))])
        >>> table[["ability", "layer", "above", "peak"]].round(2).values.tolist()
        [['Part of speech', 0, 0.5, False], ['Part of speech', 1, 0.3, True]]
    """
    rows = [row for result in results if (read := _READERS.get(result.analysis)) for row in read(result)]
    return pd.DataFrame(rows, columns=list(ABILITIES))


class AbilityLine(NamedTuple):
    """One ability by layer, before it is compared."""

    ability: str
    metric: str
    scores: pd.DataFrame
    """layer, value, low, high, and count where known."""
    twin: Mapping[int, float]
    constant: float
    baseline: str
    """What the constant is."""
    converged: bool = True
    among_best: tuple[int, ...] = ()
    """The confidence set of best layers; empty where the result has none."""
    statuses: Mapping[int, Status] = {}
    """Layer -> whether its score was shown to be above what it is compared with; other layers were not tested."""

    def rows(self, analysis: str) -> Iterator[tuple[Any, ...]]:
        line = self.scores.dropna(subset=["value"]).sort_values("layer")
        if line.empty:
            return
        best = line.iloc[int(line["value"].to_numpy().argmax())]
        among = sorted({*self.among_best} & {*map(int, line["layer"])}) if self.converged else []
        ends = (among[0], among[-1]) if among else (float("nan"), float("nan"))
        for row in rows_of(line):
            layer, twin = int(row.layer), self.twin.get(int(row.layer), float("nan"))
            known = [value for value in (twin, self.constant) if value == value]
            above = row.value - max(known) if known else row.value
            peak = self.converged and layer == int(best["layer"])
            numbers = (row.value, row.low, row.high, twin, self.constant, above)
            count = int(row[line.columns.get_loc("count")]) if "count" in line else 0
            about = (layer in among, self.converged, count, self.baseline, self.statuses.get(layer, "untested"))
            yield (self.ability, analysis, self.metric, layer, *numbers, peak, *ends, *about)


def _probed(result: Result) -> Iterator[tuple[Any, ...]]:
    """Every task at every layer alone (where only mixed layers were probed, at those up to it)."""
    from lamina.analyses.layers.probe.findings import best_readings

    for read in best_readings(result.tables):
        twin = dict(zip(read.twin_rows["layer"].astype(int), read.twin_rows["value"], strict=True))
        line = AbilityLine(
            title_of(read.task), read.metric, read.rows, twin, read.constant, "best constant answer", read.converged,
            read.among_best, _above_baselines(result.tables.get("readings"), read),
        )  # fmt: skip
        yield from line.rows(result.analysis)


def _above_baselines(readings: pd.DataFrame | None, read: AbilityReading) -> dict[int, Status]:
    """Layer -> the status of its scores beside twin and constant answer, tested as one family by `probe`."""
    if readings is None:
        return {}
    probe = str(read.rows["probe"].iloc[0])
    return _all_above(readings[(readings["task"] == read.task) & (readings["probe"] == probe)])


def _all_above(contrasts: pd.DataFrame) -> dict[int, Status]:
    """Layer -> clear where it is clearly above all it is compared with; untested where one of these was not tested."""
    from lamina.analyses.heads.behaviours import is_ahead

    statuses: dict[int, Status] = {}
    for layer, rows in contrasts.groupby("layer"):
        known = rows["p_adjusted"].notna().all()
        statuses[int(str(layer))] = ("clear" if is_ahead(rows).all() else "open") if known else "untested"
    return statuses


def _in_context(result: Result) -> Iterator[tuple[Any, ...]]:
    """Semantic classes of words in context, beside the best vectors without context."""
    from lamina.analyses.words.contextualize.scores import overall

    if "sclass" not in result.tables:
        return
    split = "dev" if result.provenance.parameters.get("faithful") else "test"
    scores = overall(result.tables["sclass"], split)
    scores_of_model = scores[scores["representation"] == result.provenance.model["name"]]
    static = scores[scores["layer"].isna() & ~scores["representation"].str.startswith("P-")]["value"].max()
    line = AbilityLine(
        "Semantic classes in context", "micro-F1", scores_of_model, {}, float(static), "best vectors without context",
        among_best=_best_layers(result.tables.get("best")),
        statuses=above_static(result.tables.get("contrasts"), result.provenance.model["name"]),
    )  # fmt: skip
    yield from line.rows(result.analysis)


def above_static(contrasts: pd.DataFrame | None, model: str) -> dict[int, Status]:
    """Layer -> the status of its score beside all vectors without context."""
    from lamina.analyses.words.contextualize.scores import STATIC

    if contrasts is None or contrasts.empty:
        return {}
    scores_of_model = (
        (contrasts["comparison"] == STATIC) & (contrasts["family"] == "layers") & (contrasts["task"] == "none")
    )
    return _all_above(contrasts[scores_of_model & (contrasts["representation"] == model)])


def _best_layers(table: pd.DataFrame | None) -> tuple[int, ...]:
    """The confidence set of a table of layers; empty where there is none."""
    if table is None or not {"layer", "among_best"} <= set(table):
        return ()
    return tuple(int(layer) for layer in table.loc[table["among_best"].astype(bool), "layer"])


def _predicted_by_lens(result: Result) -> Iterator[tuple[Any, ...]]:
    """Whether a layer, through the model's own head, says the piece that is there."""
    lens = result.tables["lens"]
    for name in ("plain", "tuned"):
        trained, twin = (
            _of_lens(result.tables.get(table, lens.iloc[:0]), "plain" if table == "twin" else name)
            for table in ("lens", "twin")
        )
        baseline = result.tables.get("baseline")
        constant = float("nan")
        if baseline is not None:
            constant = float(baseline.loc[baseline["measure"] == "accuracy", "value"].max())
        beside = dict(zip(twin["layer"].astype(int), twin["value"], strict=True))
        line = AbilityLine(f"Next word, {name} lens", "accuracy", trained, beside, constant, "most frequent piece")
        yield from line.rows(result.analysis)


def _of_lens(table: pd.DataFrame, lens: str) -> pd.DataFrame:
    return table[(table["lens"] == lens) & (table["measure"] == "accuracy")]


_READERS: Mapping[str, Callable[[Result], Iterator[tuple[Any, ...]]]] = {
    "probe": _probed,
    "contextualize": _in_context,
    "lens": _predicted_by_lens,
}
"""Analysis -> its abilities by layer."""

ROLES = ("layer", "head", "role", "what", "measure", "value", "low", "high", "over", "status", "named")
"""Columns of `head_roles`."""


def head_roles(results: Iterable[Result]) -> pd.DataFrame:
    """One row per head and role that holds of it; `named` marks the most telling one, which the head is called by.

    Heads without a role have one row, with the role `other`. `value` is what `measure` says: a share of attention, the
    share of uniform attention's entropy, or (syntactic and coreference heads) the lead over the best simple rule;
    `over` is what it has to exceed. `status` is that of the test corrected for all heads: shares of attention against
    uniform attention, induction against the same tokens without a copy, syntactic and coreference heads against the
    best simple rule; empty without a role. Untested are broad heads, and shares where `attention` did not test them.

    Example:
        >>> from lamina.results import Provenance
        >>> columns = ["layer", "head", "measure", "value", "low", "high", "baseline"]
        >>> rows = [(1, 1, "to_next", 0.7, 0.6, 0.8, 0.1), (1, 2, "to_next", 0.1, 0.0, 0.2, 0.1)]
        >>> surface = pd.DataFrame(rows, columns=columns)
        >>> surface[["difference", "diff_low", "diff_high", "p_adjusted"]] = [(0.6, 0.5, 0.7, 0.01), (0, -0.1, 0.1, 1)]
        >>> table = head_roles([Result("attention", {"surface": surface}, Provenance({}, {}, {}))])
        >>> table[["layer", "head", "role", "status"]].values.tolist()
        [[1, 1, 'next', 'clear'], [1, 2, 'other', '']]
    """
    # It is slow to import: the page is found up to date without it.
    from lamina.analyses.heads.behaviours import behaviours, named, with_tests

    tables = {row.analysis: row.tables for row in results}
    surface, induction = (tables.get("attention", {}).get(name) for name in ("surface", "induction"))
    points = tables.get("headmap", {}).get("points")
    if points is not None:
        behaviours_found, heads = tables["headmap"]["behaviours"], points[["layer", "head"]]
    elif surface is not None:
        best, coref = (tables.get(name, {}).get("best") for name in ("heads", "corefheads"))
        behaviours_found, heads = (
            behaviours(surface, best, coref, induction),
            surface[["layer", "head"]].drop_duplicates(),
        )
    else:
        return pd.DataFrame(columns=list(ROLES))
    behaviours_found, measured = with_tests(behaviours_found, surface), _measured(surface, induction)
    rows = []
    for layer, head in heads.sort_values(["layer", "head"]).itertuples(index=False):
        here = behaviours_found[(behaviours_found["layer"] == layer) & (behaviours_found["head"] == head)]
        called = named(behaviours_found, layer, head)
        roles_of_head = [_role(row, measured) for row in rows_of(_clearest(here))] or [_no_role(layer, head)]
        rows += [(*row, row[2] == called) for row in roles_of_head]
    return pd.DataFrame(rows, columns=list(ROLES))


def _measured(
    surface: pd.DataFrame | None, induction: pd.DataFrame | None
) -> dict[tuple[int, int, str], tuple[float, float, float]]:
    """Layer, head and measure -> value with interval, as `attention` found them; entropy as a share of uniform."""
    from lamina.analyses.heads.behaviours import INDUCTION

    if surface is None:
        return {}
    measured = {}
    if induction is not None:
        measured = {(row.layer, row.head, INDUCTION): (row.value, row.low, row.high) for row in rows_of(induction)}
    for row in rows_of(surface):
        scale = row.baseline if row.measure == "entropy" else 1.0
        measured[row.layer, row.head, row.measure] = (row.value / scale, row.low / scale, row.high / scale)
    return measured


def _clearest(roles: pd.DataFrame) -> pd.DataFrame:
    """One row per role: of several relations the one with the largest lead."""
    ordered = roles.sort_values("difference", ascending=False, kind="stable", na_position="last")
    return ordered.drop_duplicates("behaviour")


def _role(row: Any, measured: Mapping[tuple[int, int, str], tuple[float, float, float]]) -> tuple[Any, ...]:
    from lamina.analyses.heads.behaviours import BROAD, BROADLY, COREFERENCE, INDUCTION, SHARES, SYNTACTIC

    place = (int(row.layer), int(row.head), row.behaviour, row.what if isinstance(row.what, str) else "")
    if row.behaviour in (SYNTACTIC, COREFERENCE):
        lead = (row.difference, row.diff_low, row.diff_high)
        return (*place, "lead in accuracy over the best simple rule", *lead, 0.0, row.status)
    if row.behaviour == INDUCTION:
        value, low, high = measured.get((row.layer, row.head, INDUCTION), (row.value, float("nan"), float("nan")))
        return (*place, "share of attention to the token after a copy", value, low, high, row.over, row.status)
    broad = row.behaviour == BROADLY
    measure, over = ("entropy", BROAD) if broad else SHARES[row.behaviour]
    plain = row.value / row.over * BROAD if broad else row.value
    value, low, high = measured.get((row.layer, row.head, measure), (plain, float("nan"), float("nan")))
    measured_as = "share of uniform attention's entropy" if broad else "share of attention"
    return (*place, measured_as, value, low, high, over, row.status)


def _no_role(layer: int, head: int) -> tuple[Any, ...]:
    from lamina.analyses.heads.behaviours import OTHER

    none = float("nan")
    return (int(layer), int(head), OTHER, "", "", none, none, none, none, "")

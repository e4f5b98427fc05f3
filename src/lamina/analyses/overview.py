"""All results of a model at a glance: what each layer can do, what each head does, and the five chapters.

Nothing is measured here: tables of saved results are put side by side, for the report's first screen and for the app.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from lamina.results import Result
from lamina.results.finding import (
    Finding,
    Source,
    Worth,
    best_in_words,
    finding,
    not_tested,
    number,
    percent,
    rows_of,
    strongest_first,
)
from lamina.stats.status import SURE, Contrast, Status
from lamina.tasks import title_of
from lamina.tasks.catalogue import plural_of, word_for

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

    for read in best_readings(result.tables) if "scores" in result.tables else ():
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
    """Whether a layer, through the model's own head, predicts the token that is there."""
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
        line = AbilityLine(f"Next word, {name} lens", "accuracy", trained, beside, constant, "most frequent token")
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


# The model in one paragraph: what it reads and where, what its heads find, what it uses, what could not be shown.

MOST_READ = 2
"""Abilities that the paragraph names."""
_USED = ("ablate", "erase", "roles")
"""Analyses that change the model and see what breaks: they alone show what it uses."""
_SAYS = ("pairs", "cloze", "surprisal")
"""Analyses of what a language model says."""


class SummaryCard(NamedTuple):
    """One of the three findings that stand out."""

    title: str
    finding: Finding


def summary(results: Sequence[Result]) -> list[Finding]:
    """A model's results in a paragraph: a finding per subject, the most important of each, in plain words.

    What it reads best and where, what its heads find, what context adds, what it says, and what it uses, or that this
    was not measured. Of results that have none of these, the strongest finding of each.

    Example:
        >>> from lamina.results import Provenance
        >>> seen = Finding("Layers differ", "lead", "clear", 0.4, 0.3, 0.5, 0.01)
        >>> [found.claim for found in summary([Result("diff", {}, Provenance({}, {}, {}), findings=(seen,))])]
        ['Layers differ']
    """
    by_name = {result.analysis: result for result in reversed(results)}
    subjects = [*_reading_summary(by_name), *_head_summary(by_name), *_context_summary(by_name)]
    subjects += _most_important(by_name[name] for name in _SAYS if name in by_name)[:1]
    if not subjects:
        return [top for result in results if (top := next(iter(strongest_first(result.findings)), None))][:3]
    return [*subjects, *_use_summary(by_name)]


def _most_important(results: Iterable[Result]) -> list[Finding]:
    """Their clear findings, the most important first."""
    findings = strongest_first(entry for result in results for entry in result.findings)
    return [entry for entry in findings if entry.status == "clear"]


def _reading_summary(results: Mapping[str, Result]) -> Iterator[Finding]:
    """Abilities ahead of their harder baseline, fewest best layers first; of two tests, the less certain one."""
    from lamina.analyses.layers.probe.findings import highest_tested

    probe = results.get("probe")
    if probe is None or not {"readings", "best_layers"} <= probe.tables.keys():
        return
    readings, best = probe.tables["readings"], probe.tables["best_layers"]
    highest = [highest_tested(rows) for _, rows in readings.groupby("task", sort=False)]
    ahead = [row for row in highest if row is not None and row.p_adjusted < SURE and row.difference > 0]
    if not ahead:
        return
    where = {row.task: _best_in_words(best[best["task"] == row.task]) for row in ahead}
    layers = {row.task: int(best.loc[best["task"] == row.task, "among_best"].astype(bool).sum()) for row in ahead}
    # A place is worth more than a score without one, and few layers are more of a place than nearly all.
    named = sorted(ahead, key=lambda row: (not where[row.task], layers[row.task], -row.difference))[:MOST_READ]
    phrases = [
        f"{_inside(title_of(row.task))} {f'best at {where[row.task]} ' if where[row.task] else ''}({_score(row)})"
        for row in named
    ]
    weakest = max(named, key=lambda row: (row.p_adjusted, -row.difference))
    what = f"{_inside(title_of(weakest.task))} minus {weakest.baseline}"
    yield finding(
        claim=f"{_name(probe)} reads {' and '.join(phrases)}",
        whether=f"{_name(probe)} reads {_inside(title_of(weakest.task))}",
        absent=f"{_name(probe)} does not read {_inside(title_of(weakest.task))}",
        contrast=what if len(named) == 1 else f"the less certain lead, {what}",
        test=Contrast.of(weakest, "difference"),
        source=[
            source
            for row in named
            for source in (
                Source("readings", {"task": row.task, "layer": row.layer, "baseline": row.baseline}),
                Source("best_layers", {"task": row.task}),
            )
        ],
        unit=weakest.unit,
        importance=("answers", "beats control", "localised"),
        note="" if any(where.values()) else "No layer was shown to be better than another.",
    )


def _best_in_words(layers: pd.DataFrame) -> str:
    return best_in_words([*layers["layer"].astype(int)], [*layers["among_best"].astype(bool)])


def _score(row: Any) -> str:
    """A score as a share of right answers where it is one, else by its name."""
    from lamina.tasks.task import METRIC_NAMES

    if row.metric in ("f1", "accuracy"):
        return percent(row.value)
    return f"{METRIC_NAMES.get(row.metric, row.metric)} {number(row.value)}"


def _head_summary(results: Mapping[str, Result]) -> Iterator[Finding]:
    """The head that leads by most beside the best fixed offset, and how many heads have no known role."""
    counted = _unknown_in_words(head_roles(results.values()))
    row = _leading_head(results)
    if row is None:
        if counted:
            reason = f"no treebank was read. {counted}"
            yield not_tested("a head finds a syntactic relation", reason, importance=("answers",))
        return
    yield _head_finding(row, note=counted)


def _leading_head(results: Mapping[str, Result]) -> Any | None:
    """Of relations with a clear lead whose head both halves of the documents chose, the one with the largest."""
    if "heads" not in results:
        return None
    best = results["heads"].tables["best"]
    relations = best[(best["kind"] == "relation") & best["difference"].notna()]
    best = relations[relations["ahead"].astype(bool)]
    if best.empty:
        # None is clear: the largest lead says with its own test what is open.
        return next(rows_of(relations.sort_values("difference", ascending=False, kind="stable")), None)
    agreed = best[best["agrees"].astype(bool) & best["crossfit_accuracy"].notna()]
    if agreed.empty:
        return next(rows_of(best.sort_values("difference", ascending=False, kind="stable")))
    lead = agreed["crossfit_accuracy"] - agreed["crossfit_offset_accuracy"]
    return next(rows_of(agreed.loc[[lead.idxmax()]]))


def _head_finding(row: Any, *, note: str = "", importance: tuple[Worth, ...] = ("answers", "beats control")) -> Finding:
    """One head in plain words, by the shares that other documents than those that chose it give."""
    fitted = row.crossfit_accuracy == row.crossfit_accuracy
    share = row.crossfit_accuracy if fitted else row.accuracy
    rule = row.crossfit_offset_accuracy if fitted else row.offset_accuracy
    head, what = f"{row.layer}-{row.head}", plural_of(str(row.relation))
    return finding(
        claim=f"One head, {head}, finds {percent(share)} of {what}; the best fixed offset finds {percent(rule)}",
        whether=f"head {head} finds more of {what} than the best fixed offset",
        absent=f"Head {head} finds no more of {what} than the best fixed offset",
        contrast="lead on all documents",
        test=Contrast.of(row, "difference", "diff_low", "diff_high")._replace(high=math.inf),
        source=Source("best", {"relation": row.relation}),
        unit=row.unit,
        importance=importance,
        note=note,
    )


def _unknown_in_words(roles: pd.DataFrame) -> str:
    heads = roles[roles["named"].astype(bool)]
    unknown = int((heads["role"] == "other").sum())
    return f"{unknown} of {len(heads)} heads have no known role." if len(heads) else ""


def _context_summary(results: Mapping[str, Result]) -> Iterator[Finding]:
    """What a vector per context tells beyond one per word, in points of F1, at the layer that other words chose."""
    from lamina.analyses.words.contextualize.scores import AVERAGE, CHOSEN

    result = results.get("contextualize")
    table = None if result is None else result.tables.get("contrasts")
    if table is None:
        return
    rows = table[(table["family"] == CHOSEN) & (table["comparison"] == AVERAGE)].dropna(subset=["value", "baseline"])
    for row in rows_of(rows.head(1)):
        test = Contrast.of(row, estimate="difference")
        if test.p != test.p and not test.needed:
            return
        points = [100 * value for value in (row.difference, row.low, row.high)]
        more = "adds" if row.difference > 0 else "takes away"
        points = points if row.difference > 0 else [-points[0], -points[2], -points[1]]
        yield finding(
            claim=f"Context {more} {number(*points, digits=1)} points of F1 in telling word classes",
            whether="context adds to telling word classes",
            absent="Context adds next to nothing to telling word classes",
            contrast=f"layer {int(row.layer)}, vectors per context minus their average",
            test=test,
            source=Source("contrasts", {"family": CHOSEN, "comparison": AVERAGE}),
            unit="word type",
            importance=("answers",),
        )


def _use_summary(results: Mapping[str, Result]) -> Iterator[Finding]:
    """What the model uses, where something was taken out of it; else that this was not measured."""
    measured = [results[name] for name in _USED if name in results]
    effects = _most_important(measured)
    if effects:
        yield from effects[:2]
        return
    reason = "no effect was clear" if measured else "nothing was taken out of it (lamina ablate, lamina erase)"
    yield not_tested("the model uses what its layers hold", reason, importance=("answers",))


def cards(results: Sequence[Result]) -> list[SummaryCard]:
    """Findings that stand out: the strongest, which layer to use, the most surprising, and the most important open one.

    The strongest is cross-fitted where a result allows it: the largest of many is lucky.

    Example:
        >>> from lamina.results import Provenance
        >>> seen = Finding("heads differ", "lead", "open", 0.4, -0.3, 0.5, 0.4)
        >>> (card,) = cards([Result("diff", {}, Provenance({}, {}, {}), findings=(seen,))])
        >>> card.title, card.finding.claim
        ('Not shown', 'heads differ')
    """
    by_name = {result.analysis: result for result in reversed(results)}
    row = _leading_head(by_name)
    findings = [entry for result in results for entry in result.findings]
    clear = _most_important(results)
    strongest = None
    if row is not None and row.ahead and row.crossfit_accuracy == row.crossfit_accuracy:
        strongest = SummaryCard("Strongest, on documents that did not choose it", _head_finding(row))
    elif clear:
        strongest = SummaryCard("Strongest", max(clear, key=lambda entry: (entry.weight, -(entry.p or 0.0))))
    surprising = [entry for entry in clear if "surprises" in entry.importance]
    surprising += [entry for entry in findings if entry.status == "null"]
    missing = [entry for entry in strongest_first(findings) if entry.status in ("open", "untested")]
    chosen = [strongest]
    answers = by_name["choose"].findings if "choose" in by_name else ()
    chosen += [SummaryCard("Which layer", entry) for entry in answers if _is_the_choice(entry)]
    chosen += [SummaryCard("Most surprising", surprising[0])] if surprising else []
    chosen += [SummaryCard("Not shown", missing[0])] if missing else []
    return [card for card in chosen if card is not None]


def _is_the_choice(entry: Finding) -> bool:
    """Whether a finding of `choose` says which layer to use."""
    return any(source.table == "answer" and source.where.get("what") == "chosen" for source in entry.source)


class Spine(NamedTuple):
    """What the first figure is drawn from: layers as columns, and what is known of each."""

    abilities: pd.DataFrame
    """`ability_layers`: lanes."""
    heads: pd.DataFrame
    """Named heads, the most telling first: layer, head, role, word, lead, status."""
    uses: pd.DataFrame
    """What was taken out and what it did, one row per layer: what, measure, layer, effect, low, high, status."""

    last: int
    """The last layer."""


PINNED = ("coreference", "syntactic", "induction", "previous", "next")
"""Roles by which a head is pinned at its layer; the others say where it looks when it finds nothing."""
_PIN_WORDS = {"coreference": "coreference", "induction": "induction", "previous": "previous word", "next": "next word"}
_USES = ("what", "measure", "layer", "effect", "low", "high", "status")


def spine(results: Sequence[Result]) -> Spine:
    """Abilities, named heads and what is used, by layer; what was not measured has no row.

    Example:
        >>> spine([]).last
        0
    """
    abilities = ability_layers(results)
    roles = head_roles(results)
    pinned = roles[roles["named"].astype(bool) & roles["role"].isin(PINNED) & (roles["status"] == "clear")]
    words = [_PIN_WORDS.get(row.role, word_for(str(row.what).split(" (")[0])) for row in rows_of(pinned)]
    heads = pinned.assign(word=words, rank=[PINNED.index(role) for role in pinned["role"]])
    heads = heads.sort_values(["rank", "value"], ascending=[True, False], kind="stable")
    heads = heads.rename(columns={"value": "lead"})[["layer", "head", "role", "word", "lead", "status"]]
    uses = pd.DataFrame([row for result in results for row in _uses(result)], columns=list(_USES))
    last = max((int(table["layer"].max()) for table in (abilities, roles, uses) if len(table)), default=0)
    return Spine(abilities, heads.reset_index(drop=True), uses, last)


def _uses(result: Result) -> Iterator[tuple[Any, ...]]:
    """Rows of `Spine.uses`: whole layers that were ablated, and concepts that were erased."""
    if result.analysis == "ablate":
        table = result.tables["effects"]
        layers = table[(table["component"] == "block") & (table["target"] == table["target"].iloc[0])]
        for row in rows_of(layers[layers["how"] == layers["how"].iloc[0]] if len(layers) else layers):
            status = "clear" if row.p_adjusted < SURE else "untested" if row.needed else "open"
            yield "block ablated", str(row.target), int(row.layer), row.effect, row.low, row.high, status
    elif result.analysis == "erase":
        # A report without it does not load its analysis.
        from lamina.analyses.cause.erasure import UNUSED, USED

        table = result.tables["erase"]
        table = table[(table["what"] == "concept") & (table["target"] == table["target"].iloc[0])]
        for row in rows_of(table):
            status = {USED: "clear", UNUSED: "null"}.get(row.verdict, "open")
            what = f"{_inside(title_of(row.task))} erased"
            yield what, str(row.target), int(row.layer), row.effect, row.low, row.high, status


def _name(result: Result) -> str:
    return str(result.provenance.model.get("name", "the model"))


def _inside(title: str) -> str:
    """A title within a sentence."""
    return title[0].lower() + title[1:] if title[1:2].islower() else title

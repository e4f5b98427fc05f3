"""What a model says before and after fine-tuning: the same suites asked of both, item by item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from lamina.analyses.behaviour.inputs import SpokenSuite, speaking
from lamina.analyses.behaviour.item_comparison import ALL, Answers, Apart, Asked, Estimate, shared_items
from lamina.analyses.comparison_findings import Lead, leads_in_words
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import InputError
from lamina.framework.declare import Overview
from lamina.framework.inputs import LoadedInputs, TwoModels
from lamina.framework.registry import get_analysis
from lamina.results.finding import Source, cell, rows_of
from lamina.stats.status import NEGLIGIBLE, Contrast

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.framework.declare import Analysis
    from lamina.framework.estimate import Cost
    from lamina.models import Encoder
    from lamina.results.finding import Finding

ASKED = ("pairs", "cloze")
"""The analyses that both models are asked, and the settings of `diff` that name their suites."""
BEFORE, AFTER = "before", "after"
_FEW = 12
"""Groups that a terminal shows, changed or not."""
_ALONE = {"twin": False, "ngrams": None, "samples": 100}
"""Settings of an analysis whose baselines and intervals are not looked at, only its items."""


class Changed(NamedTuple):
    """One row of `behaviour.csv`: the items of a group, before and after."""

    analysis: str
    """pairs or cloze."""
    suite: str
    group: str
    """A paradigm, part or relation; `all` is the mean over groups."""
    metric: str
    """accuracy, or the mean of whatever number items have."""
    items: int
    before: float
    before_low: float
    before_high: float
    after: float
    after_low: float
    after_high: float
    difference: float
    """after - before, paired by item."""
    low: float
    """95 %, simultaneous over the groups of the suite; of the mean over groups, its own."""
    high: float
    p_adjusted: float
    """Two-sided, by flipped signs and max-T over the groups of the suite; the mean over groups is a test by itself."""
    units: int
    """Items."""
    needed: int
    """0, or how many items a test would need at least."""


ITEMS = ("item", "group", "analysis", "suite", "before", "after", "difference")
"""Columns of the table of items."""


@dataclass(frozen=True)
class TwoSpeakers(TwoModels):
    """Two models and texts; where suites are asked, both need a language-model head."""

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        suites = {name: settings[name] for name in ASKED if settings.get(name) is not None}
        if not suites and settings.get("items") is not None:
            raise InputError("--items is for suites; name one with --pairs or --cloze")
        loaded = super().load(given, options, settings, runtime)
        if not suites:
            return loaded
        a, b, _ = loaded.arguments
        prints = [speaking(each)["fingerprint"] for each in (*a, *b)]
        read = {name: _read(get_analysis(name), suite).describe() for name, suite in suites.items()}
        texts = fingerprint_of(loaded.data["fingerprint"], *(each["fingerprint"] for each in read.values()))
        model = {**loaded.model, "fingerprint": fingerprint_of(loaded.model["fingerprint"], *prints)}
        return replace(loaded, model=model, data={**loaded.data, "fingerprint": texts, "suites": read})


def _read(analysis: Analysis, suite: str) -> Any:
    """The suite as the analysis reads it when it is given by name or path alone."""
    if not isinstance(analysis.reads, SpokenSuite):
        raise InputError(f"{analysis.name} does not read a suite")
    return analysis.reads.read(suite, analysis.option_checker.check({}))


class Changes(NamedTuple):
    """What became of the items of one suite."""

    rows: list[Changed]
    items: pd.DataFrame
    left_out: dict[str, int]


def changed_items(
    name: str,
    suite: str,
    before: Sequence[Encoder],
    after: Sequence[Encoder],
    *,
    items: int | None,
    samples: int,
    seed: int,
    runtime: Runtime,
) -> Changes:
    """Ask all models the items of a suite; of several seeds the mean of each item is compared.

    Args:
        name: of the analysis that asks.
        suite: a name or a path.
        before: the model before, or one per seed.
        after: the model after, or one per seed.
        items: most items per group.
        samples: of the bootstrap.
        seed: of the bootstrap and of the analysis.
        runtime: where models run.
    """
    analysis = get_analysis(name)
    settings = _settings(analysis, items, seed)
    read = _read(analysis, suite)
    results = [analysis(encoder, read, **settings, runtime=runtime) for encoder in (*before, *after)]
    asked = [Asked(str(at), (result,)) for at, result in enumerate(results)]
    answers = _two_sides(shared_items(asked), len(before))
    estimates, apart = answers.compare(samples=samples, seed=seed)
    called = Path(read.name).stem
    left_out = {why: count for each in results for why, count in each.provenance.skipped.items()}
    if lost := sum(answers.left_out.values()):
        left_out[f"items of {called} that not all models answered"] = lost
    table = answers.table.rename(columns={0: BEFORE, 1: AFTER}).assign(analysis=name, suite=called)
    table["difference"] = table[AFTER] - table[BEFORE]
    rows = [Changed(name, called, *each) for each in _rows(answers.metric, estimates, apart)]
    return Changes(rows, table[list(ITEMS)], left_out)


def _settings(analysis: Analysis, items: int | None, seed: int) -> dict[str, Any]:
    wanted = {**_ALONE, "limit": items, "seed": seed}
    return {name: value for name, value in wanted.items() if name in analysis.settings}


def _two_sides(answers: Answers, before: int) -> Answers:
    """The mean over the models of either side."""
    values = answers.table[list(range(len(answers.models)))]
    sides = {0: values.iloc[:, :before].mean(axis="columns"), 1: values.iloc[:, before:].mean(axis="columns")}
    return Answers((BEFORE, AFTER), answers.table[["group", "item"]].join(pd.DataFrame(sides)), answers.left_out)


def _rows(metric: str, estimates: Sequence[Estimate], apart: Sequence[Apart]) -> Iterator[tuple[Any, ...]]:
    values = {(row.group, row.model): row[3:] for row in estimates}
    for row in apart:
        # Pairs of models are a - b: before - after.
        change = (0.0 - row.difference, 0.0 - row.high, 0.0 - row.low, row.p_adjusted, row.units, row.needed)
        yield row.group, metric, row.items, *values[row.group, BEFORE], *values[row.group, AFTER], *change


def changes_in_words(table: pd.DataFrame) -> Iterator[Finding]:
    """For each suite, whether the model after answers it better or worse: over all groups, and at which group."""
    for (_, suite), own in table.groupby(["analysis", "suite"], sort=False):
        overall = own[own["group"] == ALL]
        for some in (overall, own[own["group"] != ALL]):
            leads = [_lead(row, of_several=len(overall) > 0) for row in rows_of(some)]
            yield from leads_in_words(leads, f"groups of {suite}")


def _lead(row: Any, *, of_several: bool) -> Lead:
    accuracy = row.metric == "accuracy"
    mean = "in the mean over groups of"
    where = f"{mean} {row.suite}" if row.group == ALL else f"at {row.group} of {row.suite}" if of_several else ""
    return Lead(
        f"the model {AFTER}",
        f"the model {BEFORE}",
        (row.after, row.before),
        Contrast.of(row, "difference"),
        "accuracy" if accuracy else "mean value",
        where or f"on {row.suite}",
        (Source("behaviour", {"analysis": row.analysis, "suite": row.suite, "group": row.group}),),
        "item",
        NEGLIGIBLE if accuracy else 0.0,
    )


def changes_shown(table: pd.DataFrame) -> Overview:
    """The means over groups, and the groups that changed clearly; all where there are few."""
    few = len(table) <= _FEW
    rows = [
        (row.suite, row.group, row.items, cell(row.before), cell(row.after), cell(row.difference, row.low, row.high),
         cell(row.p_adjusted))
        for row in rows_of(table)
        if few or row.group == ALL or _lead(row, of_several=True).status == "clear"
    ]  # fmt: skip
    title = "What both models say, paired by item" + ("" if few else "; groups that changed clearly")
    return Overview(title, ("suite", "group", "items", "before", "after", "difference", "p"), rows)


def asking_cost(suites: Mapping[str, str], encoders: Iterable[Encoder], *, items: int | None, seed: int) -> list[Cost]:
    """What asking all models would take."""
    models = list(encoders)
    return [
        analysis.estimate(encoder, suite, **_settings(analysis, items, seed))
        for analysis, suite in ((get_analysis(name), suite) for name, suite in suites.items())
        for encoder in models
    ]

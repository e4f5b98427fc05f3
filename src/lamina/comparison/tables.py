"""The tables of `lamina compare`: what one row holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number
from lamina.stats.status import NEGLIGIBLE, Contrast, Status, status_of

SCORES = ("score_first", "score_full", "score_best_layer")
PLACES = ("center_of_gravity", "expected_layer")
STATISTICS = (*SCORES, *PLACES)
METRICS = {"f1": "F1", "macro_f1": "macro-F1", "accuracy": "accuracy", "r2": "R2", "correlation": "correlation"}
"""Metric -> what it is called."""


class ModelValue(NamedTuple):
    """One row of `compare.csv`; NaN where something is not available."""

    task: str
    metric: str
    statistic: str
    """score_first and score_full (of P(0) and P(L)), score_best_layer (of the single layer with the least loss on the
    texts that decide when to stop, which are not scored); highest, mean_over_layers and last_layer (of a measure by
    layer); center_of_gravity and expected_layer, as shares of the depth L; items, the mean over the items of a group
    (of pairs and clozes)."""
    model: str
    value: float
    low: float
    high: float
    spread: str
    """What low and high are: an `interval`, or a `range` over seeds where there are too few for one."""
    layer: int | None
    """The layer of a score."""
    reason: str
    """Why something is not available, or not compared: probes that had not converged."""


class ModelDifference(NamedTuple):
    """One row of `differences.csv`: a - b, on the same draws of texts."""

    task: str
    metric: str
    statistic: str
    a: str
    b: str
    difference: float
    low: float
    """95 %, simultaneous over the family that `p_adjusted` is corrected for; of a `range`, the farthest that any two
    seeds are apart."""
    high: float
    spread: str
    p_adjusted: float
    """Two-sided, by max-T over all tasks (or measures) and pairs of models of the statistic; of items, over groups and
    pairs, and over pairs for the mean over groups."""
    units: int
    """How many units were resampled, or had their signs flipped."""
    needed: int
    """0; where even the best outcome could not reach .05, how many units a test needs at least."""
    unit: str
    """What these are: document, text, item, word type, seed."""
    reason: str
    """Why something is not available, or not paired."""


class DepthScore(NamedTuple):
    """One row of `depth.csv`: the score of a probe, all seeds together."""

    model: str
    task: str
    metric: str
    probe: str
    layer: int
    relative_depth: float
    """layer / L."""
    value: float
    low: float
    high: float


class RankedLayer(NamedTuple):
    """One row of `best_layers.csv`: the score of one layer of one model alone."""

    task: str
    rank: int
    """1 is the best layer of all models."""
    model: str
    layer: int
    relative_depth: float
    value: float
    low: float
    high: float
    p_beaten: float
    """That another layer of any of these models is better, by max-T over all of them; NaN of a probe that had not
    converged."""
    among_best: bool
    """Whether no other layer of any of these models was shown to be better."""
    chosen: bool
    """Whether it has the least loss of its model's layers on the texts that decide when to stop."""
    normalised: float
    """0 at the model's worst layer for this task, 1 at its best; NaN where all are equal."""


@dataclass(frozen=True, eq=False)
class ModelResults:
    """One model with all its results: one per corpus or suite."""

    name: str
    results: tuple[Result, ...]

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        provenances = [result.provenance for result in self.results]
        return {
            "name": self.name,
            "model": dict(provenances[0].model),
            "keys": [result.key for result in self.results],
            "corpora": [about.corpus.get("name", "") for about in provenances],
            "train": [dict(about.corpus.get("train") or {}).get("fingerprint", "") for about in provenances],
            "parameters": [dict(about.parameters) for about in provenances],
        }


def results_by_model(results: Sequence[Result]) -> list[ModelResults]:
    """The results by model, in the order given; results of one model alone are compared with each other."""
    by_model: dict[str, list[Result]] = {}
    for result in results:
        by_model.setdefault(str(result.provenance.model.get("fingerprint", "")), []).append(result)
    groups = list(by_model.values()) if len(by_model) > 1 else [[result] for result in results]
    names = [str(group[0].provenance.model.get("name", "")) for group in groups]
    numbered = [f"{name} ({place})" if names.count(name) > 1 else name for place, name in enumerate(names, start=1)]
    return [ModelResults(name, tuple(group)) for name, group in zip(numbered, groups, strict=True)]


def unlike_settings(models: Sequence[Mapping[str, Any]], harmless: Iterable[str] = ()) -> list[str]:
    """The settings in which results of models (`ModelResults.describe`) differ, with the values of each model.

    Example:
        >>> models = [{"name": "a", "parameters": [{"steps": 100}]}, {"name": "b", "parameters": [{"steps": 500}]}]
        >>> unlike_settings(models), unlike_settings(models, ["steps"])
        (['steps: a 100, b 500'], [])
    """
    values: dict[str, dict[str, str]] = {}
    for model in models:
        for name in sorted({name for settings in model["parameters"] for name in settings} - {*harmless}):
            different = dict.fromkeys(str(settings.get(name)) for settings in model["parameters"])
            values.setdefault(name, {})[model["name"]] = " and ".join(different)
    return [
        f"{name}: {', '.join(f'{model} {value}' for model, value in by_model.items())}"
        for name, by_model in values.items()
        if len({*by_model.values()}) > 1
    ]


def in_words(names: Iterable[str]) -> str:
    """Names in a list.

    Example:
        >>> in_words(["minilm", "mpnet", "smollm2"])
        'minilm, mpnet and smollm2'
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


# What a comparison of models shows, in words: who is ahead where, and what was not tested.


class ModelLead(NamedTuple):
    """A tested difference of two models, a - b."""

    a: str
    b: str
    values: tuple[float, float]
    """Of a and of b."""
    test: Contrast
    measure: str
    """What the values are, such as accuracy."""
    where: str
    """At which task or group, as in "at Dependencies"."""
    source: tuple[Source, ...]
    """The row of the difference, and those of the values."""
    unit: str = "document"
    """What pairs the models."""
    margin: float = NEGLIGIBLE
    note: str = ""
    """What follows every sentence about it."""

    @property
    def status(self) -> Status:
        """Of the difference."""
        return status_of(*self.test[1:4], needed=self.test.needed, margin=self.margin)

    @property
    def clear(self) -> bool:
        """Whether a is clearly ahead."""
        return self.status == "clear" and self.test.estimate > 0

    def turned(self) -> ModelLead:
        """b - a."""
        test = self.test._replace(estimate=0.0 - self.test.estimate, low=-self.test.high, high=-self.test.low)
        return self._replace(a=self.b, b=self.a, values=self.values[::-1], test=test)


def leads_in_words(leads: Sequence[ModelLead], places: str) -> Iterator[Finding]:
    """Of every model that is clearly ahead somewhere its largest lead; else the surest difference, clear or not.

    Where there are more than two models, one is ahead where it clearly beats every other; the sentence has the lead
    over the rival that is hardest to tell from it.

    Args:
        leads: of one family: every pair of models at every place.
        places: what the places are, such as "tasks".

    Example:
        >>> test = Contrast(0.05, 0.03, 0.07, 0.001, 40)
        >>> (found,) = leads_in_words([ModelLead("a", "b", (0.9, 0.85), test, "F1", "at Dependencies", ())], "tasks")
        >>> found.text
        'a has a higher F1 than b at Dependencies: .90 and .85 (difference .05 [.03, .07]).'
    """
    by_place: dict[str, list[ModelLead]] = {}
    for lead in leads:
        by_place.setdefault(lead.where, []).extend((lead, lead.turned()))
    wins: dict[str, list[ModelLead]] = {}
    several: set[str] = set()
    for where, both in by_place.items():
        models = dict.fromkeys(lead.a for lead in both)
        several.update([where] if len(models) > 2 else [])
        for model in models:
            over_others = [lead for lead in both if lead.a == model]
            if all(lead.clear for lead in over_others):
                hardest = max(over_others, key=lambda lead: (lead.test.p, -lead.test.estimate))
                wins.setdefault(model, []).append(hardest)
    total = len(by_place)
    for won in sorted(wins.values(), key=len, reverse=True):
        top = max(won, key=lambda lead: lead.test.estimate)
        count = f"It is clearly ahead at {len(won)} of {total} {places}." if total > 1 else ""
        yield _ahead(top, every=top.where in several, count=count)
    if wins or not leads:
        return
    clear = [lead for both in by_place.values() for lead in both if lead.clear]
    if clear:
        yield _ahead(max(clear, key=lambda lead: lead.test.estimate), every=False, count="")
        return
    if all(lead.status == "null" for lead in leads):
        top = max(leads, key=lambda lead: abs(lead.test.estimate))
        yield _ahead(top, every=False, count=f"So it is at all {total} {places}." if total > 1 else "")
        return
    known = [lead for lead in leads if lead.status == "open"] or leads
    top = min(known, key=lambda lead: (_missing_last(lead.test.p), -abs(lead.test.estimate)))
    yield _ahead(top, every=False, count=f"At none of {total} {places} is a difference clear." if total > 1 else "")


def _missing_last(p: float) -> float:
    return p if p == p else 2.0


def _ahead(lead: ModelLead, *, every: bool, count: str) -> Finding:
    lead = lead if lead.test.estimate >= 0 else lead.turned()
    a, b, (one, other), where = lead.a, lead.b, map(number, lead.values), f" {lead.where}" if lead.where else ""
    claim = f"{a} has a higher {lead.measure} than {b}{where}: {one} and {other}"
    if every:
        claim = f"{a} has a higher {lead.measure} than every other model{where}: {one}; {b} has {other}"
    return finding(
        claim=_sentence(claim),
        whether=f"{a} or {b} has the higher {lead.measure}{where}",
        absent=_sentence(f"{a} and {b} have about the same {lead.measure}{where}"),
        contrast=f"difference from {b}" if every else "difference",
        test=lead.test,
        source=lead.source,
        unit=lead.unit,
        importance=("answers", "localised") if lead.where else ("answers",),
        margin=lead.margin,
        note=" ".join(filter(None, (count, lead.note))),
    )


def _sentence(text: str) -> str:
    """Names of models keep their first letter."""
    return f"T{text[1:]}" if text.startswith("the ") else text


def unlike_in_words(what: str, unlike: Iterable[str]) -> Iterator[Finding]:
    """Where models were probed or asked in different ways, a difference is not one of the models alone."""
    reasons = "; ".join(unlike)
    if reasons:
        yield not_tested(
            "the differences come from the models alone",
            f"{what} in different ways ({reasons}), and part of any difference may come from that",
        )

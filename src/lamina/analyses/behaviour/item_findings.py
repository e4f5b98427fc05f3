"""What a comparison of models by their items shows, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lamina.analyses.behaviour.item_comparison import ALL, asked_unlike
from lamina.analyses.legacy import legacy_finding, status_of_difference
from lamina.findings import Finding, number, p_in_words
from lamina.stats.status import NEGLIGIBLE


class Lead(NamedTuple):
    """The difference of two models on the items of a group, as tables hold it."""

    group: str
    a: str
    b: str
    difference: float
    low: float
    high: float
    p_adjusted: float

    @property
    def status(self) -> Any:
        """Clear where the interval and the corrected test agree."""
        return status_of_difference(self.low, self.high, self.p_adjusted)

    def turned(self) -> Lead:
        """b - a."""
        return self._replace(a=self.b, b=self.a, difference=-self.difference, low=-self.high, high=-self.low)

    def ahead(self) -> Lead:
        """With the larger value first."""
        return self if self.difference >= 0 else self.turned()


def leads_in_words(leads: Sequence[Lead], values: dict[tuple[str, str], float], measure: str) -> Iterator[Finding]:
    """Who is better over all groups, and at how many of them.

    Args:
        leads: of every group and pair of models.
        values: (group, model) -> its value.
        measure: what the values are, such as accuracy.
    """
    groups = [lead for lead in leads if lead.group != ALL]
    overall = [lead for lead in leads if lead.group == ALL] or groups
    best = _best(overall)
    if best is not None:
        own, rival = values[best.group, best.a], values[best.group, best.b]
        over = f"over {len({lead.group for lead in groups})} groups" if best.group == ALL else f"at {best.group}"
        said = {
            "clear": f"{best.a} has a higher {measure} than {best.b}",
            "open": f"Whether {best.a} has a higher {measure} than {best.b} is undecided",
            "null": f"{best.a} and {best.b} differ by less than {number(NEGLIGIBLE)} in {measure}",
        }[best.status]
        yield legacy_finding(
            f"{said} {over}: {number(own)} and {number(rival)}, a difference of "
            f"{number(best.difference, best.low, best.high)}, {p_in_words(best.p_adjusted)}; equal is 0.",
            best.status, best.difference, best.low, best.high, 0.0,
        )  # fmt: skip
    if len({lead.group for lead in groups}) > 1:
        yield _by_group(groups, measure)


def _best(leads: Sequence[Lead]) -> Lead | None:
    """The lead of the best model over its closest rival."""
    turned = [each for lead in leads for each in (lead, lead.turned())]
    tops = [model for model in dict.fromkeys(lead.a for lead in turned)
            if all(lead.difference >= 0 for lead in turned if lead.a == model)]  # fmt: skip
    if not tops:
        return None
    return min((lead for lead in turned if lead.a == tops[0]), key=lambda lead: lead.difference)


def _by_group(leads: Sequence[Lead], measure: str) -> Finding:
    """At how many groups two models are clearly apart, and where most."""
    clear = [lead.ahead() for lead in leads if lead.status == "clear"]
    top = max(clear or [lead.ahead() for lead in leads], key=lambda lead: lead.difference)
    told = f"{measure} {number(top.difference, top.low, top.high)} higher than {top.b}, {p_in_words(top.p_adjusted)}"
    if not clear:
        null = all(lead.status == "null" for lead in leads)
        return legacy_finding(
            f"No group is clearly answered better by one model ({len(leads)} comparisons): most apart are {top.a} and "
            f"{top.b} at {top.group}, by {number(top.difference, top.low, top.high)}, {p_in_words(top.p_adjusted)}; equal "
            "is 0.",
            "null" if null else "open", top.difference, top.low, top.high, 0.0,
        )  # fmt: skip
    ahead = [f"{model} {sum(lead.a == model for lead in clear)}" for model in dict.fromkeys(lead.a for lead in clear)]
    return legacy_finding(
        f"Groups that one model clearly answers better: {', '.join(ahead)} (of {len(leads)} comparisons, Holm). Most "
        f"at {top.group}: {top.a}, {told}.",
        "clear", top.difference, top.low, top.high, 0.0,
    )  # fmt: skip


def unlike_in_words(models: Sequence[Any]) -> Iterator[Finding]:
    """Where models were asked in different ways, a difference is not one of the models alone."""
    unlike = asked_unlike(models)
    if unlike:
        yield legacy_finding(
            f"The models were asked in different ways ({'; '.join(unlike)}): part of any difference may come from "
            "that.",
            "open",
        )

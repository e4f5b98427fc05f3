"""Findings: one tested claim each, and the sentences made of them.

A finding has the contrast that was tested for its claim; the status belongs to that contrast. How each status is worded
is worded here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from lamina.stats.status import NEGLIGIBLE, SURE, Contrast, Status, status_of

if TYPE_CHECKING:
    import pandas

Worth = Literal["answers", "beats control", "localised", "surprises"]
"""What a claim is worth to a reader: it answers the chapter's question, shows more than a control or baseline, says
where in the network, contradicts what one would expect."""
_WEIGHTS: dict[str, int] = {"answers": 8, "beats control": 4, "localised": 2, "surprises": 1}
_STRENGTH: dict[str, int] = {"clear": 0, "null": 1, "open": 2, "untested": 3}


@dataclass(frozen=True)
class Source:
    """Rows of a table that the numbers of a finding stand in.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"relation": ["obj", "det"], "head": ["3-1", "2-4"]})
        >>> Source("best", {"relation": "det"}).rows(table)["head"].tolist()
        ['2-4']
    """

    table: str
    where: Mapping[str, Any] = field(default_factory=dict)
    """Column -> the value of these rows; all rows where empty."""

    def rows(self, table: pandas.DataFrame) -> pandas.DataFrame:
        """Its rows of the table of that name."""
        keep = [True] * len(table)
        for column, value in self.where.items():
            same = table[column].isna() if value is None else (table[column] == value).fillna(False)
            keep = [before and bool(now) for before, now in zip(keep, same, strict=True)]
        return table[keep]


@dataclass(frozen=True)
class Finding:
    """One claim, the contrast that was tested for it, and where its numbers stand.

    Example:
        >>> Finding("head 2-1 finds more objects than any fixed offset", "difference", "open", 0.1, -0.1, 0.3).text
        'It is not known whether head 2-1 finds more objects than any fixed offset (difference .10 [-.10, .30]).'
    """

    claim: str
    """What is claimed. Of open and untested findings, what is not known: a clause that continues "whether"."""
    contrast: str
    """What was tested, in a few words, as in "F1 minus that of the untrained twin"; it is 0 if the claim is wrong."""
    status: Status
    estimate: float | None = None
    """Of the contrast."""
    low: float | None = None
    """Lower end of its 95 % interval, simultaneous over the family."""
    high: float | None = None
    p: float | None = None
    """Adjusted for the family."""
    n: int = 0
    """How many units were resampled or flipped."""
    unit: str = ""
    """What these are: document, text, item, word type, seed."""
    source: tuple[Source, ...] = ()
    """Where every number of the sentence stands."""
    importance: tuple[Worth, ...] = ()
    needed: int = 0
    """Units that a test would need at least, where it could not succeed."""
    margin: float = NEGLIGIBLE
    """A contrast this close to 0 means nothing."""
    digits: int = 2
    """Decimals of estimate and interval in the sentence."""
    note: str = ""
    """What follows the sentence: a small sample, the reason why something was not tested."""
    chapter: str = ""
    """Chapter of the report."""

    @property
    def text(self) -> str:
        """The finding as a sentence."""
        return sentence(self)

    @property
    def weight(self) -> int:
        """How much its claim is worth, for ordering."""
        return sum(_WEIGHTS[worth] for worth in set(self.importance))


def finding(
    *,
    claim: str,
    whether: str,
    absent: str,
    contrast: str,
    test: Contrast,
    source: Source | Sequence[Source],
    unit: str = "document",
    importance: Sequence[Worth] = ("answers",),
    margin: float = NEGLIGIBLE,
    digits: int = 2,
    note: str = "",
    unvarying: str = "",
) -> Finding:
    """A finding whose status, and with it the wording, follows from the test of its contrast.

    Args:
        claim: stated where the contrast is clear; at most two numbers besides its estimate.
        whether: the same as a clause, used where it is open or untested.
        absent: stated where the contrast is null.
        contrast: what was tested, in a few words.
        test: estimate, simultaneous interval, adjusted p.
        source: rows with every number of the sentence.
        unit: what was resampled.
        importance: what the claim is worth.
        margin: what means nothing on the scale of the contrast; 0 where no margin can be declared.
        digits: decimals of estimate and interval.
        note: a sentence to follow.
        unvarying: why nothing was tested, where the contrast is the same in every draw and so has no p.

    Example:
        >>> found = finding(
        ...     claim="Head 2-1 finds 75 % of case markers; the best fixed offset finds 36 %",
        ...     whether="head 2-1 finds more case markers than the best fixed offset",
        ...     absent="Head 2-1 finds as many case markers as the best fixed offset",
        ...     contrast="difference",
        ...     test=Contrast(0.38, 0.32, 0.44, 0.004, 13),
        ...     source=Source("best", {"relation": "case"}),
        ... )
        >>> found.status, found.text
        ('clear', 'Head 2-1 finds 75 % of case markers; the best fixed offset finds 36 % (difference .38 [.32, .44]).')
    """
    sources = (source,) if isinstance(source, Source) else tuple(source)
    status = status_of(test.low, test.high, test.p, needed=test.needed, margin=margin)
    if math.isnan(test.p) and not test.needed and (unvarying or (status == "open" and not test.high > test.low)):
        return not_tested(whether, unvarying or f"the {contrast} does not vary between {unit}s", source=sources)
    statement = {"clear": claim, "null": absent}.get(status, whether)
    numbers = (None if value != value else float(value) for value in (test.estimate, test.low, test.high, test.p))
    return Finding(
        statement,
        contrast,
        status,
        *numbers,
        n=int(test.units),
        unit=unit,
        source=sources,
        importance=tuple(importance),
        needed=int(test.needed),
        margin=margin,
        digits=digits,
        note=note,
    )


def not_tested(
    whether: str, reason: str, *, source: Sequence[Source] = (), importance: Sequence[Worth] = ()
) -> Finding:
    """A claim that was not tested for another reason than too few units, as probes that had not converged.

    Example:
        >>> not_tested("layer 3 is best", "2 of 7 probes had not converged").text
        'It was not tested whether layer 3 is best: 2 of 7 probes had not converged.'
    """
    return Finding(
        whether, "", "untested", note=f"{reason.rstrip('.')}.", source=tuple(source), importance=tuple(importance)
    )


def saved_finding(finding: Finding) -> dict[str, Any]:
    """A finding as `result.json` holds it, with its sentence for other programs."""
    return {"text": finding.text, **asdict(finding)}


def read_finding(saved: Mapping[str, Any]) -> Finding:
    """A finding from `result.json`; of older formats, its sentence and status alone.

    Example:
        >>> found = Finding("Layer 3 is best", "", "clear", source=(Source("best", {"layer": 3}),))
        >>> read_finding(saved_finding(found)) == found
        True
    """
    if not isinstance(saved, Mapping) or saved.get("status") not in _STRENGTH or not isinstance(saved["text"], str):
        raise ValueError("a finding is not as lamina writes it")
    if "claim" not in saved:
        return Finding(saved["text"], "", saved["status"])
    values: dict[str, Any] = {entry.name: saved[entry.name] for entry in fields(Finding) if entry.name in saved}
    values["source"] = tuple(Source(entry["table"], dict(entry["where"])) for entry in saved.get("source", ()))
    values["importance"] = tuple(saved.get("importance", ()))
    return Finding(**values)


def sentence(finding: Finding) -> str:
    """A finding in words: the one place where statuses are worded.

    Example:
        >>> sentence(Finding("heads differ", "", "untested", n=5, unit="document", needed=6))
        '5 documents are too few to test whether heads differ; at least 6 are needed.'
    """
    if finding.status == "untested" and not finding.needed:
        return f"It was not tested whether {finding.claim}: {finding.note or 'no reason was recorded.'}"
    after = f" {finding.note}" if finding.note else ""
    if finding.status == "untested":
        counted = f"{finding.n:,} {finding.unit}{'' if finding.n == 1 else 's'} {'is' if finding.n == 1 else 'are'}"
        return f"{counted} too few to test whether {finding.claim}; at least {finding.needed:,} are needed.{after}"
    start = f"It is not known whether {finding.claim}" if finding.status == "open" else finding.claim
    return f"{start}{_statistics(finding)}.{after}"


def plainly(finding: Finding) -> str:
    """A finding without its statistics: for titles, and for a summary whose tests stand beside it.

    Example:
        >>> plainly(Finding("Head 2-1 finds objects", "lead", "clear", 0.4, 0.3, 0.5))
        'Head 2-1 finds objects.'
        >>> plainly(Finding("heads differ", "lead", "open", 0.1, -0.3, 0.5, note="Small sample."))
        'It is not known whether heads differ. Small sample.'
    """
    return sentence(finding if finding.status == "untested" else replace(finding, contrast=""))


def statistics_of(finding: Finding) -> str:
    """What was tested, with its estimate and interval; empty where nothing was.

    Example:
        >>> statistics_of(Finding("Head 2-1 finds objects", "lead", "clear", 0.4, 0.3, 0.5))
        'lead .40 [.30, .50]'
    """
    return _statistics(finding).strip(" ()")


def counts_in_words(findings: Iterable[_Rankable]) -> str:
    """How many findings have which status.

    Example:
        >>> counts_in_words([Finding("a", "", "clear"), Finding("b", "", "open"), Finding("c", "", "open")])
        'Of 3 claims, 1 is clear and 2 are open.'
    """
    statuses = [finding.status for finding in findings]
    parts = [
        f"{count} {'is' if count == 1 else 'are'} {status}" for status in _STRENGTH if (count := statuses.count(status))
    ]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "none was tested"
    return f"Of {len(statuses)} claim{'s' * (len(statuses) != 1)}, {listed}."


def _statistics(finding: Finding) -> str:
    """The contrast with its interval; p where it decided against the interval."""
    if finding.estimate is None or not finding.contrast:
        return ""
    text = f"{finding.contrast} {number(finding.estimate, finding.low, finding.high, finding.digits)}"
    low, high = finding.low, finding.high
    if low is not None and high is not None and finding.p is not None and math.isfinite(low):
        excludes = low > 0 or high < 0
        if excludes != (finding.p < SURE):
            # Tests are stepwise and their intervals are not, so that one can be sharper than the other; p decides.
            value, ends = number(finding.estimate, digits=finding.digits), text.removeprefix(f"{finding.contrast} ")
            caution = "less" if excludes else "more"
            text = (
                f"{finding.contrast} {value}, {p_in_words(finding.p)}; the interval, of a {caution} cautious test, is "
                f"{ends.removeprefix(value).strip(', ')}"
            )
    return f" ({text})"


class _Rankable(Protocol):
    @property
    def status(self) -> str: ...
    @property
    def weight(self) -> int: ...


AnyFinding = TypeVar("AnyFinding", bound=_Rankable)


def strongest_first(findings: Iterable[AnyFinding]) -> tuple[AnyFinding, ...]:
    """Clear findings, then nulls, open and untested ones; of one status, the most important first.

    Example:
        >>> weak = Finding("POS comes before dependencies", "", "open", importance=("answers",))
        >>> strong = Finding("Layer 3 is best", "", "clear")
        >>> [found.claim for found in strongest_first([weak, strong])]
        ['Layer 3 is best', 'POS comes before dependencies']
    """
    return tuple(sorted(findings, key=lambda item: (_STRENGTH[item.status], -item.weight)))


def number(value: float, low: float | None = None, high: float | None = None, digits: int = 2) -> str:
    """A number as findings write it, with its interval where it has one.

    Example:
        >>> number(0.9, 0.89, 0.91), number(-0.04), number(12.345), number(float("nan"))
        ('.90 [.89, .91]', '-.04', '12.35', 'n/a')
        >>> number(0.3, 0.2, math.inf)  # of a one-sided test
        '.30, at least .20'
    """
    if not math.isfinite(value):
        return "n/a"
    text = f"{value:.{digits}f}"
    text = text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text
    text = text.lstrip("-") if float(text) == 0 else text
    if low is None or not math.isfinite(low):
        return text
    if high is None or not math.isfinite(high):
        return f"{text}, at least {number(low, digits=digits)}"
    return f"{text} [{number(low, digits=digits)}, {number(high, digits=digits)}]"


def percent(value: float) -> str:
    """A share in words.

    Example:
        >>> percent(0.734), percent(0.9971)
        ('73 %', '99.7 %')
    """
    text = f"{100 * value:.0f}"
    return f"{100 * value:.1f} %" if text in ("0", "100") and 0 < value < 1 else f"{text} %"


def p_in_words(p: float) -> str:
    """A p-value as findings write it.

    Example:
        >>> p_in_words(0.0312), p_in_words(1e-9), p_in_words(1.0)
        ('p = .031', 'p < .001', 'p = 1.000')
    """
    return "p < .001" if p < 0.001 else f"p = {number(p, digits=3)}"


def rows_of(table: pandas.DataFrame) -> Iterator[Any]:
    """The rows of a table, whose values are attributes; without types, since what pandas guesses refuses numbers.

    Example:
        >>> import pandas as pd
        >>> [row.value for row in rows_of(pd.DataFrame({"value": [0.5, 0.25]}))]
        [0.5, 0.25]
    """
    return table.itertuples(index=False)


def best_in_words(layers: Sequence[int], among: Sequence[bool], thing: str = "layer") -> str:
    """A confidence set as sentences say it; empty where no member was shown to be worse than another.

    Example:
        >>> best_in_words([0, 1, 2, 3], [False, False, True, True]), best_in_words([0, 1], [False, True])
        ('layers 2 and 3', 'layer 1')
        >>> best_in_words([0, 1], [True, True])
        ''
    """
    chosen = [int(layer) for layer, inside in zip(layers, among, strict=True) if inside]
    if not chosen or len(chosen) == len(layers) > 1:
        return ""
    return f"{thing}{'s' * (len(chosen) > 1)} {numbers_in_words(chosen)}"


def recommendation(costs: Mapping[str, str], labels: int, *, enough: bool) -> str:
    """What other choices cost, with intervals, and whether some number of labels is enough.

    Example:
        >>> recommendation({"the last layer": ".05 [.03, .07]"}, 200, enough=True)
        'The last layer costs .05 [.03, .07]. 200 labels are enough.'
        >>> recommendation({}, 96, enough=False)
        'More labels than the 96 at hand may help.'
    """
    others = "; ".join(f"{what} costs {cost}" for what, cost in costs.items())
    amount = f"{labels:,} labels are enough." if enough else f"More labels than the {labels:,} at hand may help."
    return f"{others[0].upper()}{others[1:]}. {amount}" if others else amount


def where_best(
    rows: Iterable[Any],
    words: str = "{} can be the best",
    nowhere: str = "no layer was shown to be better than another",
    *,
    source: Source,
) -> tuple[str, list[Source]]:
    """What a claim about one layer adds: which layers can be the best, and the rows that say so.

    Args:
        rows: of all layers, with `layer` and `among_best`.
        words: where some layers were shown to be worse than others.
        nowhere: where none was.
        source: the rows of the layers that can be the best; not used where no layer was shown to be worse.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"layer": [1, 2, 3], "among_best": [False, True, True]})
        >>> where_best(rows_of(table), source=Source("best", {"among_best": True}))[0]
        '; layers 2 and 3 can be the best'
    """
    layers = list(rows)
    among = best_in_words([row.layer for row in layers], [bool(row.among_best) for row in layers])
    return (f"; {words.format(among)}", [source]) if among else (f"; {nowhere}", [])


def weakest(rows: Iterable[Any], size: Callable[[Any], float] = lambda row: abs(row.difference)) -> Any:
    """Of rows that a claim is about, the one with the weakest test: the claim is as sure as this one.

    One that was not tested comes first, then the largest adjusted p, then the smallest difference.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"layer": [1, 2, 3], "difference": [0.3, 0.1, 0.2], "p_adjusted": [0.01, 0.01, 0.001]})
        >>> weakest(rows_of(table)).layer
        2
    """
    return max(rows, key=lambda row: (row.p_adjusted != row.p_adjusted, _known(row.p_adjusted), -_known(size(row))))


def _known(value: float) -> float:
    return float(value) if value == value else 0.0


def numbers_in_words(numbers: Sequence[int]) -> str:
    """Numbers in order, runs of three and more in short.

    Example:
        >>> numbers_in_words([5, 2, 3]), numbers_in_words([1, 2, 3, 4, 7]), numbers_in_words([0, 1, 2])
        ('2, 3 and 5', '1 to 4 and 7', '0 to 2')
    """
    runs: list[list[int]] = []
    for number in sorted({int(value) for value in numbers}):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(number) for number in run]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def layers_in_words(layers: Iterable[int]) -> str:
    """Layers in order, runs of them in short.

    Example:
        >>> layers_in_words([4, 2, 5, 6]), layers_in_words([3])
        ('layers 2 and 4 to 6', 'layer 3')
    """
    numbers = [int(layer) for layer in layers]
    return f"layer{'s' * (len(set(numbers)) > 1)} {numbers_in_words(numbers)}"


def cell(value: float, low: float | None = None, high: float | None = None) -> str:
    """A number as terminal tables show it: three places, a dash where it is not available.

    Example:
        >>> cell(0.5), cell(0.5, 0.25, 0.75), cell(float("nan"), 0, 1)
        ('0.500', '0.500 [0.250, 0.750]', '-')
    """
    if math.isnan(value):
        return "-"
    spread = "" if low is None or high is None or math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
    return f"{value:.3f}{spread}"

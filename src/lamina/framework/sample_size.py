"""How much was scored, with a warning if that is too little: one rule for all analyses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.tasks import TASKS

LEAST_TARGETS = 200
"""Minimum number of scored targets; the 95 % interval of a share of 200 is about 0.14 wide."""
LEAST_DOCUMENTS = 10
"""Minimum of scored documents; intervals that resample fewer are too narrow."""

_TITLES = {task.name: task.title for task in TASKS}


@dataclass(frozen=True)
class Sample:
    """What an analysis scored.

    Example:
        >>> Sample({"coref": 120, "pos": 25_000}, 9).warnings()[0]
        'Small sample: fewer than 200 targets are scored (coref: 120); scores from so few are uncertain.'
    """

    targets: Mapping[str, int] = field(default_factory=dict)
    """What was scored (a task, dependencies) -> number of targets."""
    documents: int | None = None
    """Number of documents they come from; None if there are enough, or none were read."""
    unit: str = "documents"
    """`texts` if documents are not known."""
    varies: str = "document"
    """What is resampled: `text` if documents are not known, or there is only one."""
    inherited: tuple[str, ...] = ()
    """Warnings of the results that were read."""

    def describe(self) -> dict[str, Any]:
        """Entries in the provenance of the data; `of` reads them."""
        few = {} if self.documents is None else {"scored_from": {self.unit: self.documents}}
        return ({"scored": dict(self.targets)} if self.targets else {}) | {"varies": self.varies} | few

    @classmethod
    def of(cls, provenance: Provenance) -> Sample:
        """The sample of a result."""
        few: dict[str, int] = provenance.corpus.get("scored_from", {})
        sample = cls(provenance.corpus.get("scored", {}), varies=provenance.corpus.get("varies", "document"))
        for unit, count in few.items():
            sample = replace(sample, documents=count, unit=unit)
        known = sample.warnings()
        return replace(sample, inherited=tuple(warning for warning in provenance.warnings if warning not in known))

    @property
    def few(self) -> dict[str, int]:
        """What was scored on too few targets -> their number."""
        return {name: count for name, count in self.targets.items() if count < LEAST_TARGETS}

    def warnings(self) -> tuple[str, ...]:
        """One sentence per quantity that is too small."""
        sentences: list[str] = []
        if self.few:
            listed = ", ".join(f"{name}: {count:,}" for name, count in self.few.items())
            sentences.append(
                f"Small sample: fewer than {LEAST_TARGETS} targets are scored ({listed}); scores from so few are "
                "uncertain."
            )
        if self.documents is not None:
            one = _counted(self.documents, self.unit.removesuffix("s"))
            sentences.append(
                f"Small sample: {one} (fewer than {LEAST_DOCUMENTS}); intervals that resample so few may be too narrow."
            )
        return tuple(dict.fromkeys([*sentences, *self.inherited]))

    def with_remarks(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings with a remark on those from too small a sample, unless that is why they are untested."""
        named = (replace(finding, unit="text") if self._are_texts(finding) else finding for finding in findings)
        return tuple(finding if finding.needed else self._with_remark(finding) for finding in named)

    def _are_texts(self, finding: Finding) -> bool:
        return finding.unit == "document" and self.varies == "text"

    def _with_remark(self, finding: Finding) -> Finding:
        remark = self._remark(finding.text).strip()
        return replace(finding, note=" ".join(filter(None, (finding.note, remark))))

    def _remark(self, text: str) -> str:
        few = [count for name, count in self.few.items() if len(self.targets) == 1 or _mentions(text, name)]
        parts = [_counted(min(few), "target")] if few else []
        if self.documents is not None:
            parts.append(_counted(self.documents, self.unit.removesuffix("s")))
        if not parts:
            return " Small sample." if self.inherited else ""
        return f" Small sample: {' in '.join(parts)}."


def sample_of(inputs: Sequence[Any], targets: Mapping[str, int]) -> Sample:
    """The sample among the inputs of an analysis.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> sample_of([corpus_from([["Dogs", "bark"]] * 9)], {}).warnings()
        ('Small sample: 9 texts (fewer than 10); intervals that resample so few may be too narrow.',)
        >>> sample_of([corpus_from([["Dogs", "bark"]] * 10)], {"pos": 200}).warnings()
        ()
    """
    results = [source for given in inputs for source in (given if isinstance(given, list | tuple) else (given,))]
    inherited = tuple(
        dict.fromkeys(
            warning for source in results if isinstance(source, Result) for warning in source.provenance.warnings
        )
    )
    smallest: tuple[int, str] | None = None
    varies = "document"
    for texts in scored_corpora(inputs):
        names: set[str] = set()
        known = False
        for text in texts:
            names.add(text.doc or text.id)
            known |= text.doc is not None
            if len(names) >= LEAST_DOCUMENTS:
                varies = "document" if known else "text"
                break
        else:
            varies = "document" if known and len(names) > 1 else "text"
            sampled = (len(names), "documents" if known else "texts")
            smallest = sampled if smallest is None else min(smallest, sampled)
    if smallest is None:
        return Sample(targets, inherited=inherited, varies=varies)
    return Sample(targets, *smallest, inherited=inherited, varies=varies)


def scored_corpora(inputs: Sequence[Any]) -> Iterator[Iterable[Any]]:
    """The scored texts of each corpus among the inputs."""
    from lamina.corpora import Corpus, Splits
    from lamina.training.objective import text_of
    from lamina.training.reading import Sets

    for given in inputs:
        if isinstance(given, Sets):
            yield map(text_of, given.scored)
        elif isinstance(given, Splits):
            yield given.scored
        elif isinstance(given, Corpus):
            yield given
        elif isinstance(scored := getattr(given, "scored", None), Corpus):
            # Data of causal analyses (`lamina.analyses.cause.effects`).
            yield scored
        elif isinstance(given, list | tuple):
            yield from scored_corpora(given)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _mentions(text: str, name: str) -> bool:
    """Whether a sentence mentions a task by its name or title."""
    plain = name.partition(" (")[0]
    names = "|".join(re.escape(title) for title in dict.fromkeys((name, plain, _TITLES.get(plain, plain))))
    return re.search(rf"(?<!\w)(?:{names})(?!\w)", text, re.IGNORECASE) is not None

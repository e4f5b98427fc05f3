"""Suites: several tasks, each from the corpus that has it, in one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.analyses.inputs import Loaded, TrainedTexts, as_encoder, as_splits, short_name
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.learning import Splits
from lamina.corpora.loading import known_splits
from lamina.errors import InputError, LaminaError

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.tasks import Task

SUITES: dict[str, dict[str, str]] = {
    "pipeline": {
        "pos": "ewt",
        "const": "propbank_ewt",
        "dep": "ewt",
        "ner": "gum_open",
        "srl": "propbank_ewt",
        "coref": "gum_open",
        "spr": "ewt",
        "rel": "semeval2010_task8",
    },
}
"""Suite -> task -> the corpus it is taken from. `pipeline`: the eight tasks of Tenney, Das and Pavlick (2019)."""


class Source(NamedTuple):
    """A corpus, and the tasks that are taken from it; None: all that it carries."""

    splits: Splits
    tasks: tuple[str | Task, ...] | None


@dataclass(frozen=True)
class ProbedTexts(TrainedTexts):
    """A model, and the texts of one corpus, or of every corpus of a suite."""

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`."""
        suite, asked = settings["suite"], settings["tasks"]
        if suite is None:
            one = super().load(given, options, settings, runtime)
            encoder, splits = one.arguments
            return Loaded((encoder, (Source(splits, asked),)), one.model, one.data, one.names)
        if given["data"] != self.default:
            raise InputError(f"the suite {suite} has its own corpora; give --suite or --corpus, not both")
        sources = _sources(suite, asked, options)
        encoder = as_encoder(given["model"], options, runtime)
        corpora = [source.splits.describe() for source in sources]
        data = {
            "name": f"{suite} suite",
            "split": options["split"],
            "fingerprint": fingerprint_of("suite", [each["fingerprint"] for each in corpora]),
            "corpora": corpora,
        }
        return Loaded((encoder, sources), encoder.describe(), data, (short_name(given["model"], encoder), suite))


def _sources(suite: str, asked: Sequence[str | Task] | None, options: Mapping[str, Any]) -> tuple[Source, ...]:
    tasks = SUITES[suite]
    strangers = [str(getattr(each, "name", each)) for each in asked or () if each not in tasks]
    if strangers:
        raise InputError(f"the suite {suite} has no task {strangers[0]!r}; it has: {', '.join(tasks)}")
    chosen = {task: corpus for task, corpus in tasks.items() if asked is None or task in asked}
    missing: dict[str, str] = {}
    for corpus in dict.fromkeys(chosen.values()):
        try:
            known_splits(corpus)
        except LaminaError as error:
            missing[corpus] = str(error).rstrip(".")
    if missing:
        raise InputError(_not_at_hand(suite, chosen, missing))
    return tuple(
        Source(as_splits(corpus, options), _tasks_of(chosen, corpus)) for corpus in dict.fromkeys(chosen.values())
    )


def _not_at_hand(suite: str, chosen: Mapping[str, str], missing: Mapping[str, str]) -> str:
    """Each corpus with how to get it, and what can be asked without them."""
    named = [f"{corpus} (for {', '.join(_tasks_of(chosen, corpus))}): {why}" for corpus, why in missing.items()]
    left = [f"--task {task}" for task, corpus in chosen.items() if corpus not in missing]
    without = f"; without them you can ask for {' '.join(left)}" if left else ""
    are = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of the corpora of the suite {suite} {are} not at hand: {'; '.join(named)}{without}"


def _tasks_of(chosen: Mapping[str, str], corpus: str) -> tuple[str, ...]:
    return tuple(task for task, its in chosen.items() if its == corpus)

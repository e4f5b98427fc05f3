"""Suites: several tasks, each from the corpus that has it, in one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.loading import known_splits
from lamina.corpora.splits import Splits
from lamina.errors import InputError, LaminaError
from lamina.framework.inputs import (
    VIEW,
    LoadedInputs,
    TrainedTexts,
    as_encoders,
    as_splits,
    chosen_view,
    describe_models,
    model_and,
    short_name,
)
from lamina.framework.settings import DeclaredSetting
from lamina.models import Encoder
from lamina.tasks import Task, get_task
from lamina.training.provenance import seed_folders

if TYPE_CHECKING:
    from lamina.activations import Runtime

PROBES = ("cumulative", "layer", "mix")
"""Kinds of probes."""


@dataclass(frozen=True)
class ProbeSuite:
    """The tasks of one paper."""

    corpora: Mapping[str, str]
    """Task -> the corpus it is taken from."""
    probes: tuple[str, ...] = PROBES
    """Kinds of probes that are trained where none are asked for."""
    over_all_labels: bool = False
    """Whether every task is scored by macro-F1 over all labels, whatever its own score is."""

    def task(self, name: str) -> str | Task:
        """The task as the paper asks it."""
        return get_task(name).over_all_labels() if self.over_all_labels else name


SUITES = {
    "pipeline": ProbeSuite(
        {
            "pos": "ewt",
            "const": "propbank_ewt",
            "dep": "ewt",
            "ner": "gum_open",
            "srl": "propbank_ewt",
            "coref": "gum_open",
            "spr": "ewt",
            "rel": "semeval2010_task8",
        }
    ),
    "qa": ProbeSuite(
        {
            "ner": "gum_open",
            "coref": "gum_open",
            "rel": "semeval2010_task8",
            "ques": "trec_qtypes",
            "sup": "squad_v1.1_dev",
        },
        probes=("layer",),
        over_all_labels=True,
    ),
}
"""`pipeline`: the eight tasks of Tenney, Das and Pavlick (2019). `qa`: the five of van Aken et al. (2019)."""


def probes_of(asked: Sequence[str] | None, suite: str | None) -> list[str]:
    """The kinds of probes to train: what was asked for, else the suite's, else all.

    Example:
        >>> probes_of(None, "qa"), probes_of(["mix"], "qa")
        (['layer'], ['mix'])
    """
    if asked is not None:
        return list(asked)
    return list(PROBES if suite is None else SUITES[suite].probes)


class TaskSource(NamedTuple):
    """A corpus, and the tasks that are taken from it; None: all that it carries."""

    splits: Splits
    tasks: tuple[str | Task, ...] | None


@dataclass(frozen=True)
class ProbedTexts(TrainedTexts):
    """A model, or one per fine-tuning seed, and the texts of one corpus, or of every corpus of a suite.

    Questions are shown as they were shown to the model when it was fine-tuned.
    """

    seeds = True

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (*super().options, VIEW)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        suite, asked = settings["suite"], settings["tasks"]
        shown = {**options, "view": chosen_view(options, *_tuned(given["model"]))}
        if suite is None:
            splits = as_splits(given["data"], shown)
            encoders = as_encoders(given["model"], options, runtime)
            one = model_and(encoders, splits, given["model"])
            return LoadedInputs((encoders, (TaskSource(splits, asked),)), one.model, one.data, one.names)
        if given["data"] != self.default:
            raise InputError(f"the suite {suite} has its own corpora; give --suite or --corpus, not both")
        sources = _sources(suite, asked, shown)
        encoders = as_encoders(given["model"], options, runtime)
        corpora = [source.splits.describe() for source in sources]
        data = {
            "name": f"{suite} suite",
            "split": options["split"],
            "fingerprint": fingerprint_of("suite", [each["fingerprint"] for each in corpora]),
            "corpora": corpora,
        }
        names = (short_name(given["model"], encoders[0]), suite)
        return LoadedInputs((encoders, sources), describe_models(encoders), data, names)


def _tuned(model: Any) -> tuple[Encoder | Path, ...]:
    """The first of the models, or its folder, where there is one: its view is known before it is loaded."""
    first = model[0] if isinstance(model, list) and model else model
    if isinstance(first, str | Path):
        return (next(iter(seed_folders(first)), Path(first)),)
    return (first,) if isinstance(first, Encoder) else ()


def _sources(suite: str, asked: Sequence[str | Task] | None, options: Mapping[str, Any]) -> tuple[TaskSource, ...]:
    whole = SUITES[suite]
    tasks = whole.corpora
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
        TaskSource(as_splits(corpus, options), tuple(whole.task(name) for name in _tasks_of(chosen, corpus)))
        for corpus in dict.fromkeys(chosen.values())
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

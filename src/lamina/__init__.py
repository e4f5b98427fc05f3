"""lamina: what every layer and every head of a transformer knows.

Names are loaded on first use, so that `import lamina` is fast. Every analysis is a public name:
`lamina.geometry(model, data, **settings)`.

Example:
    >>> import lamina
    >>> lamina.Span(0, 2)
    Span(start=0, end=2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.activations import ActivationStore, Runtime, extract
    from lamina.corpora import Corpus, Questions, Splits, corpus_from, load_corpus, load_questions, load_splits
    from lamina.corpora.corpus import View
    from lamina.errors import LaminaError
    from lamina.framework.watch import Meter, WatchedBatch, watch
    from lamina.models import Activations, Encoder, load_encoder
    from lamina.models.interventions.edited_runs import Edit
    from lamina.models.interventions.interventions import Interventions
    from lamina.models.language.language_model import LanguageModel, WrittenPassage, language_model, score_passages
    from lamina.models.language.slots import Gap, fill_gaps
    from lamina.models.series import Series, load_series
    from lamina.probes.bank import Schedule, train_probes
    from lamina.probes.text_probe import TextProbe, load_probe
    from lamina.report import make_report
    from lamina.results import Finding, Provenance, Result
    from lamina.tasks import Task
    from lamina.types import Edge, Span, Text

_HOME = {
    "ActivationStore": "lamina.activations",
    "Activations": "lamina.models",
    "Corpus": "lamina.corpora",
    "Edge": "lamina.types",
    "Edit": "lamina.models.interventions.edited_runs",
    "Encoder": "lamina.models",
    "Finding": "lamina.results",
    "Gap": "lamina.models.language.slots",
    "Interventions": "lamina.models.interventions.interventions",
    "LaminaError": "lamina.errors",
    "LanguageModel": "lamina.models.language.language_model",
    "Meter": "lamina.framework.watch",
    "Provenance": "lamina.results",
    "Questions": "lamina.corpora",
    "Result": "lamina.results",
    "Runtime": "lamina.activations",
    "Schedule": "lamina.probes.bank",
    "Series": "lamina.models.series",
    "Span": "lamina.types",
    "Splits": "lamina.corpora",
    "Task": "lamina.tasks",
    "Text": "lamina.types",
    "TextProbe": "lamina.probes.text_probe",
    "View": "lamina.corpora.corpus",
    "WatchedBatch": "lamina.framework.watch",
    "WrittenPassage": "lamina.models.language.language_model",
    "corpus_from": "lamina.corpora",
    "extract": "lamina.activations",
    "fill_gaps": "lamina.models.language.slots",
    "language_model": "lamina.models.language.language_model",
    "load_corpus": "lamina.corpora",
    "load_encoder": "lamina.models",
    "load_probe": "lamina.probes.text_probe",
    "load_questions": "lamina.corpora",
    "load_series": "lamina.models.series",
    "load_splits": "lamina.corpora",
    "make_report": "lamina.report",
    "score_passages": "lamina.models.language.language_model",
    "train_probes": "lamina.probes.bank",
    "watch": "lamina.framework.watch",
}
"""Where each public name is defined; analyses are found by name. Names for authors are in `lamina.framework`."""

_MODULES = ("stats",)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"lamina.{name}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name == "__all__" or not name.startswith("_"):
        from lamina.framework.registry import get_analysis, names

        if name == "__all__":
            return [*_HOME, *_MODULES, *names()]
        if name in names():
            return get_analysis(name)
    raise AttributeError(f"module 'lamina' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))

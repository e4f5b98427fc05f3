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
    from lamina.corpora.questions.views import View
    from lamina.errors import LaminaError
    from lamina.framework.declare import Analysis, Table, Tables, analysis
    from lamina.framework.estimate import Cost
    from lamina.framework.inputs import (
        Documents,
        QuestionSet,
        SavedResults,
        Sentence,
        Texts,
        TrainedTexts,
        Treebank,
        TwoModels,
    )
    from lamina.framework.settings import Setting
    from lamina.models import Activations, Encoder, load_encoder
    from lamina.models.loading.series import Series, load_series
    from lamina.probes.bank import Schedule
    from lamina.report import make_report
    from lamina.results import Provenance, Result
    from lamina.results.finding import Finding, Source, finding
    from lamina.tasks import Task
    from lamina.types import Edge, Span, Text

_HOME = {
    "ActivationStore": "lamina.activations",
    "Activations": "lamina.models",
    "Analysis": "lamina.framework.declare",
    "Corpus": "lamina.corpora",
    "Cost": "lamina.framework.estimate",
    "Documents": "lamina.framework.inputs",
    "Edge": "lamina.types",
    "Encoder": "lamina.models",
    "Finding": "lamina.results",
    "LaminaError": "lamina.errors",
    "Provenance": "lamina.results",
    "QuestionSet": "lamina.framework.inputs",
    "Questions": "lamina.corpora",
    "Result": "lamina.results",
    "Runtime": "lamina.activations",
    "SavedResults": "lamina.framework.inputs",
    "Schedule": "lamina.probes.bank",
    "Series": "lamina.models.loading.series",
    "Sentence": "lamina.framework.inputs",
    "Setting": "lamina.framework.settings",
    "Source": "lamina.results.finding",
    "Span": "lamina.types",
    "Splits": "lamina.corpora",
    "Table": "lamina.framework.declare",
    "Tables": "lamina.framework.declare",
    "Task": "lamina.tasks",
    "Text": "lamina.types",
    "Texts": "lamina.framework.inputs",
    "TrainedTexts": "lamina.framework.inputs",
    "Treebank": "lamina.framework.inputs",
    "TwoModels": "lamina.framework.inputs",
    "View": "lamina.corpora.questions.views",
    "analysis": "lamina.framework.declare",
    "corpus_from": "lamina.corpora",
    "extract": "lamina.activations",
    "finding": "lamina.results.finding",
    "load_corpus": "lamina.corpora",
    "load_encoder": "lamina.models",
    "load_questions": "lamina.corpora",
    "load_series": "lamina.models.loading.series",
    "load_splits": "lamina.corpora",
    "make_report": "lamina.report",
}
"""Where each public name lives; analyses are found by `lamina.analyses`."""

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

"""For authors of analyses: how an analysis is declared, given its inputs, run, cached, estimated and verified.

declare      the decorator `analysis`: what an analysis says of itself
settings     what a setting is; settings that several analyses share
inputs       models, texts, questions and saved results, by name, by path or in memory
run          run an analysis; those that watch the same maps share a pass
cache        answers that are saved already; folders of runs that continue
estimate     time, memory and disk space before anything is run, from counts
profile      how fast this machine is, measured in real runs
requests     an analysis with inputs and settings as a table
watch        attention maps while they stream, and the meters that reduce them
sample_size  warnings where too little is scored
passports    what an analysis needs of a model
verify       findings against the tables they are derived from
registry     all analyses by name
outline      what they declare, without importing them
chapters     the chapters of the report

Names are loaded on first use.

Example:
    >>> from lamina.framework import Setting, Table, Tables, Texts, analysis
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis, Declaration, Overview, Query, Table, Tables, analysis
    from lamina.framework.estimate import Cost, Estimator
    from lamina.framework.inputs import (
        Documents,
        Input,
        LoadedInputs,
        OneQuestion,
        QuestionSet,
        Reads,
        SavedResults,
        Sentence,
        Texts,
        TrainedTexts,
        Treebank,
        TwoModels,
    )
    from lamina.framework.registry import all_analyses, get_analysis
    from lamina.framework.settings import Samples, Seed, Setting, Twin
    from lamina.framework.verify import check_findings
    from lamina.framework.watch import Meter, Watch, WatchedBatch, Watching
    from lamina.results.finding import Source, finding, rows_of

_HOME = {
    "Analysis": "declare",
    "Cost": "estimate",
    "Declaration": "declare",
    "Documents": "inputs",
    "Estimator": "estimate",
    "Input": "inputs",
    "LoadedInputs": "inputs",
    "Meter": "watch",
    "OneQuestion": "inputs",
    "Overview": "declare",
    "Query": "declare",
    "QuestionSet": "inputs",
    "Reads": "inputs",
    "Samples": "settings",
    "SavedResults": "inputs",
    "Seed": "settings",
    "Sentence": "inputs",
    "Setting": "settings",
    "Source": "lamina.results.finding",
    "Table": "declare",
    "Tables": "declare",
    "Texts": "inputs",
    "TrainedTexts": "inputs",
    "Treebank": "inputs",
    "Twin": "settings",
    "TwoModels": "inputs",
    "Watch": "watch",
    "WatchedBatch": "watch",
    "Watching": "watch",
    "all_analyses": "registry",
    "analysis": "declare",
    "check_findings": "verify",
    "finding": "lamina.results.finding",
    "get_analysis": "registry",
    "rows_of": "lamina.results.finding",
}
"""Where each public name is defined, in this folder where no other one is named."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lamina.framework' has no attribute {name!r}")
    home = _HOME[name]
    return getattr(import_module(home if home.startswith("lamina.") else f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return list(__all__)

"""lamina: what every layer and every head of a transformer knows.

Names resolve when they are first used, so that `import lamina` costs next to nothing.

Example:
    >>> import lamina
    >>> lamina.Span(0, 2)
    Span(start=0, end=2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.activations import ActivationStore, extract
    from lamina.analyses import (
        attention,
        compare,
        contextualize,
        corefheads,
        diff,
        geometry,
        headmap,
        heads,
        load_splits,
        look,
        neighbours,
        parse,
        phases,
        probe,
        token_map,
    )
    from lamina.corpora import Corpus, corpus_from, load_corpus
    from lamina.encoders import Activations, Encoder, load_encoder
    from lamina.errors import LaminaError
    from lamina.results import Provenance, Result
    from lamina.training.finetune import finetune
    from lamina.types import Edge, Span, Text

_HOME = {
    "ActivationStore": "lamina.activations",
    "Activations": "lamina.encoders",
    "Corpus": "lamina.corpora",
    "Edge": "lamina.types",
    "Encoder": "lamina.encoders",
    "LaminaError": "lamina.errors",
    "Provenance": "lamina.results",
    "Result": "lamina.results",
    "Span": "lamina.types",
    "Text": "lamina.types",
    "attention": "lamina.analyses",
    "compare": "lamina.analyses",
    "contextualize": "lamina.analyses",
    "finetune": "lamina.training.finetune",
    "corefheads": "lamina.analyses",
    "corpus_from": "lamina.corpora",
    "diff": "lamina.analyses",
    "extract": "lamina.activations",
    "geometry": "lamina.analyses",
    "headmap": "lamina.analyses",
    "heads": "lamina.analyses",
    "load_corpus": "lamina.corpora",
    "load_encoder": "lamina.encoders",
    "load_splits": "lamina.analyses",
    "look": "lamina.analyses",
    "neighbours": "lamina.analyses",
    "parse": "lamina.analyses",
    "phases": "lamina.analyses",
    "probe": "lamina.analyses",
    "token_map": "lamina.analyses",
}

__all__ = [
    "ActivationStore",
    "Activations",
    "Corpus",
    "Edge",
    "Encoder",
    "LaminaError",
    "Provenance",
    "Result",
    "Span",
    "Text",
    "attention",
    "compare",
    "contextualize",
    "corefheads",
    "corpus_from",
    "diff",
    "extract",
    "finetune",
    "geometry",
    "headmap",
    "heads",
    "load_corpus",
    "load_encoder",
    "load_splits",
    "look",
    "neighbours",
    "parse",
    "phases",
    "probe",
    "token_map",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""The questions: one module a question, plain functions returning `Result`."""

from lamina.analyses.asking import ask
from lamina.analyses.attention_maps.attention import attention
from lamina.analyses.attention_maps.corefheads import corefheads
from lamina.analyses.attention_maps.headmap import headmap
from lamina.analyses.attention_maps.heads import heads
from lamina.analyses.attention_maps.look import look
from lamina.analyses.attention_maps.parse import parse
from lamina.analyses.compare import compare
from lamina.analyses.contextualization.contextualize import contextualize
from lamina.analyses.geometry import geometry
from lamina.analyses.probing.probe import probe
from lamina.analyses.probing.splits import load_splits

__all__ = [
    "ask",
    "attention",
    "compare",
    "contextualize",
    "corefheads",
    "geometry",
    "headmap",
    "heads",
    "load_splits",
    "look",
    "parse",
    "probe",
]

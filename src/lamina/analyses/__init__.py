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
from lamina.analyses.contextualization.neighbours import neighbours
from lamina.analyses.diff import diff
from lamina.analyses.geometry import geometry
from lamina.analyses.probing.probe import probe
from lamina.analyses.probing.splits import load_splits
from lamina.analyses.questions.phases import phases
from lamina.analyses.questions.reading import load_questions
from lamina.analyses.questions.tokenmap import token_map

__all__ = [
    "ask",
    "attention",
    "compare",
    "contextualize",
    "corefheads",
    "diff",
    "geometry",
    "headmap",
    "heads",
    "load_questions",
    "load_splits",
    "look",
    "neighbours",
    "parse",
    "phases",
    "probe",
    "token_map",
]

"""The questions lamina asks: one module per question, each with a function that declares itself.

`ANALYSES` lists them; a module is imported when its analysis is asked for. Other packages add theirs by an entry point
in the group `lamina.analyses`, whose value is `module:name` of a declared function.
"""

from __future__ import annotations

import ast
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis

__all__ = ["ANALYSES", "all_analyses", "first_lines", "get_analysis", "names"]

ANALYSES = (
    "lamina.analyses.geometry:geometry",
    "lamina.analyses.probing.probe:probe",
    "lamina.analyses.probing.trace:trace",
    "lamina.analyses.probing.order:order",
    "lamina.analyses.layers.structure.structure:structure",
    "lamina.analyses.compare:compare",
    "lamina.analyses.heads.attention:attention",
    "lamina.analyses.heads.attention_distance:attention_distance",
    "lamina.analyses.heads.heads:heads",
    "lamina.analyses.heads.headmap:headmap",
    "lamina.analyses.heads.corefheads:corefheads",
    "lamina.analyses.heads.parse:parse",
    "lamina.analyses.heads.look:look",
    "lamina.analyses.words.contextualize.contextualize:contextualize",
    "lamina.analyses.words.neighbours:neighbours",
    "lamina.analyses.words.senses.senses:senses",
    "lamina.analyses.windows:windows",
    "lamina.analyses.behaviour.surprisal:surprisal",
    "lamina.analyses.behaviour.pairs.pairs:pairs",
    "lamina.analyses.behaviour.cloze.cloze:cloze",
    "lamina.analyses.behaviour.perturb.perturb:perturb",
    "lamina.analyses.behaviour.lens.lens:lens",
    "lamina.analyses.behaviour.probe_vs_lens.probe_vs_lens:probe_vs_lens",
    "lamina.analyses.cause.ablate:ablate",
    "lamina.analyses.cause.prune.prune:prune",
    "lamina.analyses.cause.erase.erase:erase",
    "lamina.analyses.cause.restore.restore:restore",
    "lamina.analyses.cause.patch.patch:patch",
    "lamina.analyses.cause.roles.roles:roles",
    "lamina.analyses.finetune:finetune",
    "lamina.analyses.answering.token_map:token_map",
    "lamina.analyses.answering.phases:phases",
    "lamina.analyses.diff:diff",
)
"""Every analysis, in the order of the report."""

GROUP = "lamina.analyses"
"""The group of entry points by which other packages add analyses."""


@cache
def _homes() -> dict[str, str]:
    """Name -> `module:name`; lamina's own first, and never replaced by another package's."""
    own = {each.partition(":")[2]: each for each in ANALYSES}
    added = {point.value.partition(":")[2]: point.value for point in sorted(entry_points(group=GROUP))}
    return own | {name: home for name, home in added.items() if name not in own}


def names() -> tuple[str, ...]:
    """The names of all analyses, lamina's own first.

    Example:
        >>> names()[:2]
        ('geometry', 'probe')
    """
    return tuple(_homes())


def get_analysis(name: str) -> Analysis:
    """The analysis of this name.

    Example:
        >>> get_analysis("geometry").title
        'Geometry of the layers'
    """
    if name not in _homes():
        close = get_close_matches(str(name), names(), n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise InputError(f"there is no analysis {name!r}; {meant}known: {', '.join(names())}")
    module, _, function = _homes()[name].partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        if name in {each.partition(":")[2] for each in ANALYSES}:
            raise
        raise InputError(f"the analysis {name!r} of {module} cannot be loaded: {error}") from error
    return found


def all_analyses() -> tuple[Analysis, ...]:
    """Every analysis, in the order of the report."""
    return tuple(map(get_analysis, names()))


@cache
def first_lines() -> dict[str, str]:
    """Name -> the first line of its description, read without importing anything heavy: help has to be instant."""
    return {name: _first_line(*home.partition(":")[::2]) for name, home in _homes().items()}


def _first_line(module: str, function: str) -> str:
    if not module.startswith("lamina."):
        return f"From the package {module.partition('.')[0]}."
    spec = find_spec(module)
    source = Path(spec.origin or "").read_text(encoding="utf-8") if spec else ""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""

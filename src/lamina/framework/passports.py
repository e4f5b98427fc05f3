"""What an analysis needs of a model, which models it refuses, and what results record of their models' passports."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.models.checks.passports import Passport


def needs_of(analysis: Analysis, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """What an analysis needs of its models: states or attention maps, and norms of values for weighted maps.

    One that watches maps is a generator, so it need not say so.

    Example:
        >>> from lamina.framework.registry import get_analysis
        >>> needs_of(get_analysis("heads"), {"weights": "norm"}), needs_of(get_analysis("geometry"), {})
        (('maps', 'norms'), ('states',))
    """
    if all(given.kind != "model" for given in analysis.reads.given):
        return ()
    needs = analysis.needs
    if needs is None:
        watches = inspect.isgeneratorfunction(inspect.unwrap(analysis.function))
        needs = ("maps",) if watches else ("states",)
    return (*needs, "norms") if "maps" in needs and settings.get("weights") == "norm" else needs


def refuse_unfit(analysis: Analysis, settings: Mapping[str, Any], arguments: Iterable[Any]) -> None:
    """Raise a ModelError if the passport of a model refuses what the analysis needs."""
    from lamina.models import Encoder

    needs = needs_of(analysis, settings)
    for argument in arguments:
        for one in argument if isinstance(argument, list | tuple) else (argument,):
            if isinstance(one, Encoder):
                one.refuse(needs)


def refused_analyses(passport: Passport, analyses: Iterable[Analysis]) -> dict[str, str]:
    """Analysis -> why it refuses a model, with its default settings.

    Example:
        >>> from lamina.framework.registry import all_analyses
        >>> from lamina.models.checks.passports import passport_of
        >>> from lamina.testing import TinyEncoder
        >>> refused_analyses(passport_of(TinyEncoder()), all_analyses())
        {}
    """
    refused = {}
    for analysis in analyses:
        reasons = [why for need in needs_of(analysis, {}) if (why := passport.refuses(need)) is not None]
        if reasons:
            refused[analysis.name] = reasons[0]
    return refused


def verdict(passport: Passport) -> list[str]:
    """A passport in sentences: which checks fail, which analyses refuse the model, what works, where attention goes.

    Example:
        >>> from lamina.models.checks.passports import Check, Passport
        >>> ahead = Check("look-ahead", "fails", "Maps look ahead.", 0.4, ("maps",))
        >>> one = Passport("m", "FalconModel", "f", 1, "5", "2", 1.0, True, None, (0, 1), ("heads",), None, (ahead,))
        >>> fails, refused, works = verdict(one)
        >>> fails, "heads" in refused, works
        ('look-ahead: Maps look ahead.', True, 'All other analyses work.')
    """
    from lamina.framework.registry import all_analyses

    sentences = [f"{check.name}: {check.message}" for check in passport.failed]
    if passport.failed or not passport.maps:
        declared = [analysis for analysis in all_analyses() if needs_of(analysis, {})]
        refused = refused_analyses(passport, declared)
        also = [_ALSO_REFUSED[need] for need in _ALSO_REFUSED if passport.refuses(need) is not None]
        if not passport.maps:
            sentences.append("It has no attention maps.")
        if refused or also:
            sentences.append(f"Refused: {', '.join([*refused, *also])}.")
        sentences.append(_what_works(passport) if len(refused) < len(declared) else "No analysis works.")
    if passport.sink:
        sentences.append(f"Attention that no token gets goes to {passport.sink}.")
    return sentences


def _what_works(passport: Passport) -> str:
    if passport.language_head is None and not passport.ablatable:
        return "Analyses of its states work; those that take parts away or need a language-model head do not."
    return "All other analyses work."


_ALSO_REFUSED = {
    "norms": "--weights norm",
    "windows": "texts longer than the model's limit",
    "ablation": "ablation",
}
"""Needs that no analysis has by default -> what is refused, in words."""


# Passports in provenance; results of older versions have none.


def passports_in(models: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The passports in the provenance of several results.

    Example:
        >>> passports_in([{"name": "a", "passport": {"fails": {}}}, {"name": "of an older lamina"}])
        {'passports': {'a': {'fails': {}}}}
    """
    passports = {str(name): passport for model in models for name, passport in _named(model)}
    return {"passports": passports} if passports else {}


def passport_notes(model: Mapping[str, Any]) -> list[str]:
    """Notes on the models of a result, one sentence each: checks that fail, and sinks.

    Example:
        >>> passport_notes({"name": "m", "passport": {"sink": "a learned sink per head", "fails": {"padding": "No."}}})
        ['m fails the check "padding": No.', 'm: attention that no token gets goes to a learned sink per head.']
        >>> passport_notes({"name": "a result of an older lamina"})
        []
    """
    return list(dict.fromkeys(note for name, passport in _named(model) for note in _notes(name, passport)))


def _named(model: Mapping[str, Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """The passports in the provenance of one model, of several seeds, of two models or of several results."""
    if isinstance(passport := model.get("passport"), Mapping):
        yield model.get("name", "the model"), passport
    seeds = model.get("seeds")
    for part in (*(seeds if isinstance(seeds, list) else ()), model.get("a"), model.get("b")):
        if isinstance(part, Mapping):
            yield from _named(part)
    if isinstance(several := model.get("passports"), Mapping):
        yield from ((name, passport) for name, passport in several.items() if isinstance(passport, Mapping))


def _notes(name: Any, passport: Mapping[str, Any]) -> Iterator[str]:
    fails = passport.get("fails")
    for check, why in fails.items() if isinstance(fails, Mapping) else ():
        yield f'{name} fails the check "{check}": {why}'
    if passport.get("sink"):
        yield f"{name}: attention that no token gets goes to {passport['sink']}."

"""What results say of the passports of their models, read from provenance; older results say nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def passports_in(models: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What provenance says of the passports of models that several results are of.

    Example:
        >>> passports_in([{"name": "a", "passport": {"fails": {}}}, {"name": "of an older lamina"}])
        {'passports': {'a': {'fails': {}}}}
    """
    found = {str(name): passport for model in models for name, passport in _named(model)}
    return {"passports": found} if found else {}


def passport_notes(model: Mapping[str, Any]) -> list[str]:
    """What a reader of a result should know of its models, one sentence each: checks that fail, and sinks.

    Example:
        >>> passport_notes({"name": "m", "passport": {"sink": "a learned sink per head", "fails": {"padding": "No."}}})
        ['m fails the check "padding": No.', 'm: attention that no token gets goes to a learned sink per head.']
        >>> passport_notes({"name": "a result of an older lamina"})
        []
    """
    return list(dict.fromkeys(note for name, passport in _named(model) for note in _notes(name, passport)))


def _named(model: Mapping[str, Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """The passports in what provenance says of one model, of several seeds, of two models or of several results."""
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
    for check, said in fails.items() if isinstance(fails, Mapping) else ():
        yield f'{name} fails the check "{check}": {said}'
    if passport.get("sink"):
        yield f"{name}: attention that no token gets goes to {passport['sink']}."

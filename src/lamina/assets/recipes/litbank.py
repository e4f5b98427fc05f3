"""LitBank: 100 works of English fiction, about 2,000 words of each; coreference and nested entities as two corpora."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lamina.assets.origins import read_manifest
from lamina.assets.recipes.recipe import Recipe, as_is
from lamina.assets.sources import Card

_LITBANK = read_manifest("litbank")


def _mentions(content: bytes) -> Mapping[str, int]:
    rows = [line.split("\t") for line in content.decode("utf-8").splitlines() if "\t" in line]
    return {"tokens": len(rows), "mentions": sum(row[-1].count("(") for row in rows)}


def _entities(content: bytes) -> Mapping[str, int]:
    rows = [line.split("\t") for line in content.decode("utf-8").splitlines() if line.strip()]
    return {"tokens": len(rows), "entities": sum(cell.startswith("B-") for row in rows for cell in row[1:])}


def _card(
    name: str, what: str, files: str, size: int, count: Callable[[bytes], Mapping[str, int]], counts: dict[str, int]
) -> Card:
    origin = _LITBANK.only(files)
    recipe = Recipe(
        (origin,),
        as_is({path: path for path in origin.files}, count),
        counts={files: counts},
        licence="CC BY 4.0",
        changes="none; the files as published",
    )
    return Card(name, "corpus", what, "CC BY 4.0", (files,), size, (recipe,), origin=_LITBANK.page)


CHAINS = _card(
    "litbank",
    "LitBank: coreference in 100 works of English fiction, singletons included",
    "coref/conll/*.conll",
    13_019_000,
    _mentions,
    {"files": 100, "tokens": 210_532, "mentions": 29_103},
)

ENTITIES = _card(
    "litbank_entities",
    "LitBank: nested entities (PER, FAC, GPE, LOC, VEH, ORG) in 100 works of English fiction",
    "entities/tsv/*.tsv",
    3_154_000,
    _entities,
    {"files": 100, "tokens": 210_532, "entities": 13_912},
)

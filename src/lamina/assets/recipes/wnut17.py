"""WNUT17: emerging entities in social media, train, dev and the annotated test as published."""

from __future__ import annotations

from collections.abc import Mapping

from lamina.assets.origins import read_manifest
from lamina.assets.recipes.recipe import Recipe, as_is
from lamina.assets.sources import Card

_WNUT = read_manifest("wnut17")


def count_entities(content: bytes) -> Mapping[str, int]:
    """How many sentences and entities a file has; sentences are separated by lines that are blank or hold tabs."""
    rows = [line.strip().split("\t") for line in content.decode("utf-8").split("\n")]
    starts = sum(bool(row[0]) and not before[0] for before, row in zip([[""], *rows], rows, strict=False))
    return {"sentences": starts, "entities": sum(row[-1].startswith("B-") for row in rows)}


CARD = Card(
    "wnut17",
    "corpus",
    "WNUT17: rare and emerging entities (person, location, group, product, ...) in social media",
    "CC BY 4.0",
    tuple(_WNUT.files),
    802_000,
    (
        Recipe(
            (_WNUT,),
            as_is({path: path for path in _WNUT.files}, count_entities),
            counts={
                "wnut17train.conll": {"sentences": 3_394, "entities": 1_975},
                "emerging.dev.conll": {"sentences": 1_009, "entities": 836},
                "emerging.test.annotated": {"sentences": 1_287, "entities": 1_079},
            },
            licence="CC BY 4.0",
            changes="none; the files as published",
        ),
    ),
    origin=_WNUT.page,
)

"""Universal NER on English Web Treebank, as released."""

from __future__ import annotations

from collections.abc import Mapping

from lamina.assets.origins import read_manifest
from lamina.assets.recipes.ewt import SPLITS
from lamina.assets.recipes.recipe import Recipe, as_is
from lamina.assets.sources import Card

_UNER = read_manifest("uner")
_RELEASED = {f"en_ewt-ud-{split}.iob2": f"en_ewt-ud-{split}.iob2" for split in SPLITS}
_TAG = 2


def _count(content: bytes) -> Mapping[str, int]:
    text = content.decode("utf-8")
    rows = [row for line in text.split("\n") if len(row := line.split("\t")) > _TAG]
    return {
        "sentences": text.count("# sent_id"),
        "tokens": len(rows),
        "entities": sum(row[_TAG].startswith("B-") for row in rows),
    }


CARD = Card(
    "uner_english_ewt",
    "corpus",
    "Universal NER on EWT: entities (PER, ORG, LOC)",
    "CC BY-SA 4.0",
    tuple(_RELEASED),
    6_200_000,  # estimated: train was not at hand
    (
        Recipe(
            (_UNER,),
            as_is(_RELEASED, _count),
            counts={
                # Train was not at hand to be counted; its blob id is checked as every other.
                "en_ewt-ud-train.iob2": {},
                "en_ewt-ud-dev.iob2": {"sentences": 2_001, "tokens": 25_149, "entities": 966},
                "en_ewt-ud-test.iob2": {"sentences": 2_077, "tokens": 25_097, "entities": 1_088},
            },
            licence="CC BY-SA 4.0",
            changes="none; the files as released",
        ),
    ),
    origin=_UNER.page,
)

"""WikiText-2 as PyTorch's examples have it: pre-tokenised, with `<unk>`."""

from __future__ import annotations

from collections.abc import Mapping

from lamina.assets.origins import Origin, read_manifest
from lamina.assets.recipes.recipe import Recipe, as_is
from lamina.assets.sources import Card

_WHOLE = read_manifest("wikitext2")
_SCORED = _WHOLE.only("*/valid.txt", "*/test.txt")


def _paragraphs(content: bytes) -> Mapping[str, int]:
    lines = [line.split() for line in content.decode("utf-8").split("\n")]
    return {"paragraphs": sum(bool(line) for line in lines), "tokens": sum(map(len, lines))}


def _recipe(origin: Origin, more: Mapping[str, Mapping[str, int]], changes: str) -> Recipe:
    return Recipe(
        (origin,),
        as_is({path: path.rpartition("/")[2] for path in origin.files}, _paragraphs),
        counts={
            **more,
            "valid.txt": {"paragraphs": 2_461, "tokens": 213_886},
            "test.txt": {"paragraphs": 2_891, "tokens": 241_211},
        },
        licence="CC BY-SA 3.0",
        changes=changes,
    )


CARD = Card(
    "wikitext2",
    "corpus",
    "WikiText-2: plain Wikipedia text, pre-tokenised",
    "CC BY-SA 3.0",
    ("train.txt", "valid.txt", "test.txt"),
    13_200_000,
    (
        _recipe(_WHOLE, {"train.txt": {}}, "none; the files as published"),
        # train is too large for some copies of the repository.
        _recipe(_SCORED, {}, "train.txt is left out, since it could not be had"),
    ),
    origin=_WHOLE.page,
)

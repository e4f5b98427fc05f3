"""MASC with word senses of the New Oxford American Dictionary, as Google published it (Yuan et al., 2016)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lamina.assets.origins import read_manifest
from lamina.assets.recipes.recipe import Recipe, as_is
from lamina.assets.sources import Card

_SENSES = read_manifest("masc")


def _senses(content: bytes) -> Mapping[str, int]:
    words = re.findall(rb"<word [^>]*>", content)
    return {"words": len(words), "senses": sum(b' sense="' in word for word in words)}


PATHS = {path: path.removeprefix("masc/").replace(":", "-") for path in _SENSES.files}
"""Path in the repository -> path here: not every system allows a colon in a name (`newspaper:newswire`)."""

CARD = Card(
    "masc_senses",
    "corpus",
    "MASC: word senses (New Oxford American Dictionary) in 390 documents, spoken and written",
    "CC BY 4.0; texts open (MASC)",
    ("spoken/*/*.xml", "written/*/*.xml"),
    40_530_000,
    (
        Recipe(
            (_SENSES,),
            as_is(PATHS, _senses),
            counts={"*.xml": {"files": 390, "words": 596_333, "senses": 136_544}, "license.txt": {}},
            licence="CC BY 4.0; texts open (MASC)",
            changes="the folder newspaper:newswire is called newspaper-newswire; the files as published",
        ),
    ),
    origin=_SENSES.page,
)

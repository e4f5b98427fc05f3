"""bAbI and a sample of HotpotQA: question sets that others published in their repositories, as they are there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from lamina.assets.origins import Origin, OriginFiles, read_manifest
from lamina.assets.recipes.recipe import Part, Recipe, as_is
from lamina.assets.sources import Card

_BABI = read_manifest("babi")
_MISSING = "qa3_three-supporting-facts_train.txt"
"""Too large for some copies of the repository, which have all the others."""


def _asked(content: bytes) -> Mapping[str, int]:
    """In bAbI, the lines with a question have the answer behind a tab."""
    return {"questions": sum(b"\t" in line for line in content.splitlines())}


def _stories(origin: Origin, more: Mapping[str, Mapping[str, int]], changes: str) -> Recipe:
    return Recipe(
        (origin,),
        as_is({path: path.removeprefix("DataModel/") for path in origin.files}, _asked),
        counts={
            **more,
            "qa*_train.txt": {"files": 19, "questions": 190_000},
            "qa*_test.txt": {"files": 20, "questions": 20_000},
        },
        licence="CC BY 3.0",
        changes=changes,
    )


_WITHOUT = replace(_BABI, files={path: blob for path, blob in _BABI.files.items() if not path.endswith(_MISSING)})

BABI = Card(
    "babi_en",
    "corpus",
    "bAbI v1.2 (en-10k): 20 tasks of stories with questions, 10,000 to train and 1,000 to test each",
    "CC BY 3.0",
    ("qa*_train.txt", "qa*_test.txt"),
    33_000_000,
    (
        _stories(_BABI, {_MISSING: {}}, "none; the files as published"),
        _stories(_WITHOUT, {}, f"{_MISSING} is left out, since it could not be had"),
    ),
    note="stories has questions of the same kind and needs no download.",
    origin=_BABI.page,
)

_TRAIN, _DEV = read_manifest("hotpot_train"), read_manifest("hotpot_dev")


def _sample(files: Mapping[str, OriginFiles]) -> list[Part]:
    found = []
    for origin, target in ((_TRAIN, "hotpot_train_100.json"), (_DEV, "hotpot_dev_distractor_100.json")):
        content = files[origin.repo].read(next(iter(origin.files)))
        found.append(Part(target, content, {"questions": len(json.loads(content))}))
    return found


HOTPOT = Card(
    "hotpotqa_sample",
    "corpus",
    "HotpotQA, 100 train and 100 dev questions: supporting facts in two of ten paragraphs",
    "CC BY-SA 4.0",
    ("hotpot_train_100.json", "hotpot_dev_distractor_100.json"),
    1_537_000,
    (
        Recipe(
            (_TRAIN, _DEV),
            _sample,
            counts={
                "hotpot_train_100.json": {"questions": 100},
                "hotpot_dev_distractor_100.json": {"questions": 100},
            },
            licence="CC BY-SA 4.0",
            changes="the files that two projects took from HotpotQA, renamed",
        ),
    ),
    note="The whole HotpotQA works by path: give the file you downloaded from hotpotqa.github.io.",
    origin="https://hotpotqa.github.io",
)

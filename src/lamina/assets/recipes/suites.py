"""Test suites for language models: minimal pairs, surprisals of regions, cloze items. All as published."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from lamina.assets.origins import Origin, read_manifest
from lamina.assets.recipes.recipe import CorpusRecipe, as_is
from lamina.assets.sources import Card

Count = Callable[[bytes], Mapping[str, int]]


def _lines(what: str) -> Count:
    """Count the lines that are not empty, under this name."""
    return lambda content: {what: sum(bool(line.strip()) for line in content.splitlines())}


def _items(content: bytes) -> Mapping[str, int]:
    """Count the items of a SyntaxGym suite; a licence has none."""
    return {"items": len(json.loads(content)["items"])} if content.lstrip().startswith(b"{") else {}


def _published(
    origin: Origin, folders: Mapping[str, str], count: Count, counts: Mapping[str, Mapping[str, int]], licence: str
) -> tuple[CorpusRecipe]:
    """The files of an origin, with other names for its folders ("" for none)."""
    paths = {}
    for path in origin.files:
        folder = next((name for name in folders if path.startswith(name)), "")
        paths[path] = folders.get(folder, "") + path.removeprefix(folder)
    changes = "none; the files as published"
    return (CorpusRecipe((origin,), as_is(paths, count), counts=counts, licence=licence, changes=changes),)


_BLIMP, _SYNTAXGYM, _DIAGNOSTICS, _PARAREL = map(read_manifest, ("blimp", "syntaxgym", "lm_diagnostics", "pararel"))

BLIMP = Card(
    "blimp",
    "suite",
    "BLiMP: 67,000 minimal pairs of 67 paradigms (agreement, islands, NPI licensing ...)",
    "CC BY 4.0",
    ("*.jsonl",),
    29_577_000,
    _published(_BLIMP, {"data/": ""}, _lines("pairs"), {"*.jsonl": {"files": 67, "pairs": 67_000}}, "CC BY 4.0"),
    origin=_BLIMP.page,
)

SYNTAXGYM = Card(
    "syntaxgym",
    "suite",
    "SyntaxGym: 34 suites of sentences in regions, with predictions about their surprisals",
    "MIT",
    ("*.json",),
    4_239_000,
    _published(
        _SYNTAXGYM,
        {"test_suites/json/": ""},
        _items,
        {"*.json": {"files": 34, "items": 842}, "LICENSE": {}},
        "MIT",
    ),
    origin=_SYNTAXGYM.page,
)

LM_DIAGNOSTICS = Card(
    "lm_diagnostics",
    "suite",
    "Psycholinguistic cloze diagnostics: CPRAG-102, NEG-136 and ROLE-88",
    "MIT",
    ("CPRAG-102/*.tsv", "NEG-136/*.tsv", "ROLE-88/*.tsv"),
    29_400,
    _published(
        _DIAGNOSTICS,
        {"datasets/": ""},
        _lines("lines"),
        {
            "CPRAG-102/CPRAG-102.tsv": {"lines": 35},
            "CPRAG-102/CPRAG-explanations.tsv": {},
            "NEG-136/NEG-136-NAT.tsv": {"lines": 17},
            "NEG-136/NEG-136-SIMP.tsv": {"lines": 19},
            "ROLE-88/ROLE-88.tsv": {"lines": 89},
            "*README.md": {"files": 3},
            "LICENSE": {},
        },
        "MIT",
    ),
    origin=_DIAGNOSTICS.page,
)

PARAREL = Card(
    "pararel",
    "suite",
    "ParaRel: 29,411 facts of 41 relations, and 329 cloze patterns that paraphrase 39 of them",
    "MIT; facts (T-REx) CC BY-SA 4.0",
    ("trex_lms_vocab/*.jsonl", "patterns/*.jsonl"),
    3_107_500,
    _published(
        _PARAREL,
        {"data/pattern_data/graphs_json/": "patterns/", "data/": ""},
        _lines("lines"),
        {
            "trex_lms_vocab/*.jsonl": {"files": 41, "lines": 29_411},
            "patterns/*.jsonl": {"files": 39, "lines": 329},
            "LICENSE": {},
        },
        "MIT; facts (T-REx) CC BY-SA 4.0",
    ),
    origin=_PARAREL.page,
)

SUITES = (BLIMP, SYNTAXGYM, LM_DIAGNOSTICS, PARAREL)
"""Every suite."""

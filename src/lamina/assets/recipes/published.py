"""Corpora and test suites as they were published: WikiText-2, WNUT17, LitBank, MASC, bAbI, HotpotQA, BLiMP ...."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from lamina.assets.origins import Origin, OriginFiles, read_manifest
from lamina.assets.recipes import CorpusRecipe, DerivedFile, as_is
from lamina.assets.sources import Card

# WikiText-2 as PyTorch's examples have it: pre-tokenised, with `<unk>`.

_WHOLE = read_manifest("wikitext2")
_SCORED = _WHOLE.only("*/valid.txt", "*/test.txt")


def _paragraphs(content: bytes) -> Mapping[str, int]:
    lines = [line.split() for line in content.decode("utf-8").split("\n")]
    return {"paragraphs": sum(bool(line) for line in lines), "tokens": sum(map(len, lines))}


def _wikitext_recipe(origin: Origin, more: Mapping[str, Mapping[str, int]], changes: str) -> CorpusRecipe:
    return CorpusRecipe(
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


WIKITEXT_CARD = Card(
    "wikitext2",
    "corpus",
    "WikiText-2: plain Wikipedia text, pre-tokenised",
    "CC BY-SA 3.0",
    ("train.txt", "valid.txt", "test.txt"),
    13_200_000,
    (
        _wikitext_recipe(_WHOLE, {"train.txt": {}}, "none; the files as published"),
        # train is too large for some copies of the repository.
        _wikitext_recipe(_SCORED, {}, "train.txt is left out, since it could not be had"),
    ),
    origin=_WHOLE.page,
)


# WNUT17: emerging entities in social media, train, dev and the annotated test as published.

_WNUT = read_manifest("wnut17")


def count_entities(content: bytes) -> Mapping[str, int]:
    """How many sentences and entities a file has; sentences are separated by lines that are blank or hold tabs."""
    rows = [line.strip().split("\t") for line in content.decode("utf-8").split("\n")]
    starts = sum(bool(row[0]) and not before[0] for before, row in zip([[""], *rows], rows, strict=False))
    return {"sentences": starts, "entities": sum(row[-1].startswith("B-") for row in rows)}


WNUT17_CARD = Card(
    "wnut17",
    "corpus",
    "WNUT17: rare and emerging entities (person, location, group, product, ...) in social media",
    "CC BY 4.0",
    tuple(_WNUT.files),
    802_000,
    (
        CorpusRecipe(
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


# LitBank: 100 works of English fiction, about 2,000 words of each; coreference and nested entities as two corpora.

_LITBANK = read_manifest("litbank")


def _count_mentions(content: bytes) -> Mapping[str, int]:
    rows = [line.split("\t") for line in content.decode("utf-8").splitlines() if "\t" in line]
    return {"tokens": len(rows), "mentions": sum(row[-1].count("(") for row in rows)}


def _count_nested_entities(content: bytes) -> Mapping[str, int]:
    rows = [line.split("\t") for line in content.decode("utf-8").splitlines() if line.strip()]
    return {"tokens": len(rows), "entities": sum(cell.startswith("B-") for row in rows for cell in row[1:])}


def _litbank_card(
    name: str, what: str, files: str, size: int, count: Callable[[bytes], Mapping[str, int]], counts: dict[str, int]
) -> Card:
    origin = _LITBANK.only(files)
    recipe = CorpusRecipe(
        (origin,),
        as_is({path: path for path in origin.files}, count),
        counts={files: counts},
        licence="CC BY 4.0",
        changes="none; the files as published",
    )
    return Card(name, "corpus", what, "CC BY 4.0", (files,), size, (recipe,), origin=_LITBANK.page)


LITBANK_CHAINS = _litbank_card(
    "litbank",
    "LitBank: coreference in 100 works of English fiction, singletons included",
    "coref/conll/*.conll",
    13_019_000,
    _count_mentions,
    {"files": 100, "tokens": 210_532, "mentions": 29_103},
)

LITBANK_ENTITIES = _litbank_card(
    "litbank_entities",
    "LitBank: nested entities (PER, FAC, GPE, LOC, VEH, ORG) in 100 works of English fiction",
    "entities/tsv/*.tsv",
    3_154_000,
    _count_nested_entities,
    {"files": 100, "tokens": 210_532, "entities": 13_912},
)


# MASC with word senses of the New Oxford American Dictionary, as Google published it (Yuan et al., 2016).

_MASC = read_manifest("masc")


def _count_senses(content: bytes) -> Mapping[str, int]:
    words = re.findall(rb"<word [^>]*>", content)
    return {"words": len(words), "senses": sum(b' sense="' in word for word in words)}


MASC_PATHS = {path: path.removeprefix("masc/").replace(":", "-") for path in _MASC.files}
"""Path in the repository -> path here: not every system allows a colon in a name (`newspaper:newswire`)."""

MASC_CARD = Card(
    "masc_senses",
    "corpus",
    "MASC: word senses (New Oxford American Dictionary) in 390 documents, spoken and written",
    "CC BY 4.0; texts open (MASC)",
    ("spoken/*/*.xml", "written/*/*.xml"),
    40_530_000,
    (
        CorpusRecipe(
            (_MASC,),
            as_is(MASC_PATHS, _count_senses),
            counts={"*.xml": {"files": 390, "words": 596_333, "senses": 136_544}, "license.txt": {}},
            licence="CC BY 4.0; texts open (MASC)",
            changes="the folder newspaper:newswire is called newspaper-newswire; the files as published",
        ),
    ),
    origin=_MASC.page,
)


# bAbI and a sample of HotpotQA: question sets that others published in their repositories, as they are there.

_BABI = read_manifest("babi")
_LARGE_BABI_FILE = "qa3_three-supporting-facts_train.txt"
"""Too large for some copies of the repository, which have all the others."""


def _count_questions(content: bytes) -> Mapping[str, int]:
    """In bAbI, the lines with a question have the answer behind a tab."""
    return {"questions": sum(b"\t" in line for line in content.splitlines())}


def _babi_recipe(origin: Origin, more: Mapping[str, Mapping[str, int]], changes: str) -> CorpusRecipe:
    return CorpusRecipe(
        (origin,),
        as_is({path: path.removeprefix("DataModel/") for path in origin.files}, _count_questions),
        counts={
            **more,
            "qa*_train.txt": {"files": 19, "questions": 190_000},
            "qa*_test.txt": {"files": 20, "questions": 20_000},
        },
        licence="CC BY 3.0",
        changes=changes,
    )


_BABI_WITHOUT_LARGE = replace(
    _BABI, files={path: blob for path, blob in _BABI.files.items() if not path.endswith(_LARGE_BABI_FILE)}
)

BABI = Card(
    "babi_en",
    "corpus",
    "bAbI v1.2 (en-10k): 20 tasks of stories with questions, 10,000 to train and 1,000 to test each",
    "CC BY 3.0",
    ("qa*_train.txt", "qa*_test.txt"),
    33_000_000,
    (
        _babi_recipe(_BABI, {_LARGE_BABI_FILE: {}}, "none; the files as published"),
        _babi_recipe(_BABI_WITHOUT_LARGE, {}, f"{_LARGE_BABI_FILE} is left out, since it could not be had"),
    ),
    note="stories has questions of the same kind and needs no download.",
    origin=_BABI.page,
)

_HOTPOT_TRAIN, _HOTPOT_DEV = read_manifest("hotpot_train"), read_manifest("hotpot_dev")


def _hotpot_sample(files: Mapping[str, OriginFiles]) -> list[DerivedFile]:
    parts = []
    for origin, target in ((_HOTPOT_TRAIN, "hotpot_train_100.json"), (_HOTPOT_DEV, "hotpot_dev_distractor_100.json")):
        content = files[origin.repo].read(next(iter(origin.files)))
        parts.append(DerivedFile(target, content, {"questions": len(json.loads(content))}))
    return parts


HOTPOT = Card(
    "hotpotqa_sample",
    "corpus",
    "HotpotQA, 100 train and 100 dev questions: supporting facts in two of ten paragraphs",
    "CC BY-SA 4.0",
    ("hotpot_train_100.json", "hotpot_dev_distractor_100.json"),
    1_537_000,
    (
        CorpusRecipe(
            (_HOTPOT_TRAIN, _HOTPOT_DEV),
            _hotpot_sample,
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

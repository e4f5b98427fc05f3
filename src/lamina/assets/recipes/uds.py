"""Universal Decompositional Semantics 1.0 on English Web Treebank: proto-roles, noun supersenses, factuality.

The annotations name words by sentence (`ewt-dev-8`) and position, from 1. `ud_ids.json` gives the treebank's name of
the sentence; words are the treebank's. The span of an argument is derived: the words around its head that belong to the
head's subtree, without dependents of the head that are no part of the phrase (`_NOT_IN_PHRASE`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from zipfile import ZipFile

from lamina.assets.origins import OriginFiles, read_manifest
from lamina.assets.recipes.ewt import EWT, SPLITS, Sentence, treebank
from lamina.assets.recipes.recipe import Part, Recipe, as_lines
from lamina.assets.sources import Card
from lamina.errors import AssetError

_DECOMP = read_manifest("decomp")
_IDS = "decomp/data/ud_ids.json"
_NOT_IN_PHRASE = {"case", "punct", "cc", "conj", "appos", "parataxis"}
_LARGEST = 100_000_000
"""Bytes of an annotation file; the largest has 36 million."""

Annotated = Mapping[str, Mapping[str, Any]]
"""Sentence -> node or edge -> what was annotated."""
Annotate = Callable[[str, Sentence], Mapping[str, Any] | None]
"""From the name of a sentence, and the sentence, to the fields of its row; None if it has none."""


def _zip(subject: str) -> str:
    return f"decomp/data/1.0/normalized/sentence/annotations/{subject}.zip"


def _annotations(files: Mapping[str, OriginFiles], subject: str) -> Annotated:
    """Sentence (`ewt-dev-8`) -> node or edge -> the values of one subject."""
    with ZipFile(io.BytesIO(files[_DECOMP.repo].read(_zip(subject)))) as archive:
        if archive.getinfo(f"{subject}.json").file_size > _LARGEST:
            raise AssetError(f"{_zip(subject)} unpacks to more than {_LARGEST:,} bytes; nothing was kept")
        data = json.loads(archive.read(f"{subject}.json"))["data"]
    return {name: {node: said[subject] for node, said in nodes.items()} for name, nodes in data.items()}


def _joined(
    files: Mapping[str, OriginFiles], stem: str, names: Iterable[str], annotate: Annotate
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Path and rows of each split: the annotated sentences in UDS's order, with the treebank's words."""
    found = {sentence.id: sentence for _, sentences in treebank(files) for sentence in sentences}
    ids = json.loads(files[_DECOMP.repo].read(_IDS))
    for split in SPLITS:
        rows: list[dict[str, Any]] = []
        for name in sorted((name for name in names if name.split("-")[1] == split), key=_position):
            sentence = found[ids[name]["sentence_id"]]
            if annotations := annotate(name, sentence):
                about = {"uds_id": name, "sent_id": sentence.id, "tokens": list(sentence.words)}
                rows.append(about | dict(annotations))
        yield f"{stem}.{split}.jsonl", rows


def _position(node: str) -> int:
    """The number at the end of a name: of a sentence in its split, of a word in its sentence."""
    return int(node.rpartition("-")[2])


def derive_protoroles(files: Mapping[str, OriginFiles]) -> Iterator[Part]:
    """Every edge from a predicate to an argument, with the rated properties."""
    annotated = _annotations(files, "protoroles")

    def annotate(name: str, sentence: Sentence) -> Mapping[str, Any]:
        pairs = {tuple(_position(node) - 1 for node in pair.split("%%")): of for pair, of in annotated[name].items()}
        edges = [
            {
                "pred": predicate,
                "arg_head": head,
                "arg_span": phrase_of(head, sentence.heads, sentence.relations),
                "props": {name: [one["value"], one["confidence"]] for name, one in sorted(rated.items())},
            }
            for (predicate, head), rated in sorted(pairs.items())
        ]
        return {"edges": edges}

    for path, rows in _joined(files, "protoroles", annotated, annotate):
        yield Part(path, as_lines(rows), {"sentences": len(rows), "edges": sum(len(row["edges"]) for row in rows)})


def phrase_of(head: int, heads: Sequence[int], relations: Sequence[str]) -> list[int]:
    """Start and end (exclusive) of the phrase around a head.

    Example:
        >>> phrase_of(2, [2, 2, 3, -1], ["case", "det", "obl", "root"])  # "to the city went"
        [1, 3]
    """
    left_out = {
        at
        for at, relation in enumerate(relations)
        if heads[at] == head and (relation.partition(":")[0] in _NOT_IN_PHRASE or relation == "acl:relcl")
    }
    inside = {head}
    while more := {at for at, its in enumerate(heads) if its in inside} - inside - left_out:
        inside |= more
    start, end = head, head + 1
    while start - 1 in inside:
        start -= 1
    while end in inside:
        end += 1
    return [start, end]


def derive_wordsense_factuality(files: Mapping[str, OriginFiles]) -> Iterator[Part]:
    """Supersenses of nouns that were judged to fit, best first, and the factuality of predicates."""
    senses, facts = _annotations(files, "wordsense"), _annotations(files, "factuality")

    def annotate(name: str, sentence: Sentence) -> Mapping[str, Any] | None:
        nouns = [(_position(node) - 1, _fitting(rated)) for node, rated in senses.get(name, {}).items()]
        events = [(_position(node) - 1, rated["factual"]) for node, rated in facts.get(name, {}).items()]
        # The treebank has split or shortened a few sentences since: words behind their end are gone.
        end = len(sentence.words)
        supersenses = [[at, labels] for at, labels in sorted(nouns) if labels and at < end]
        graded = [[at, event["value"], event["confidence"]] for at, event in sorted(events) if at < end]
        return {"noun_supersense": supersenses, "factuality": graded} if supersenses or graded else None

    for path, rows in _joined(files, "uds", senses.keys() | facts.keys(), annotate):
        counts = {field: sum(len(row[field]) for row in rows) for field in ("noun_supersense", "factuality")}
        counted = {"sentences": len(rows), "nouns": counts["noun_supersense"], "predicates": counts["factuality"]}
        yield Part(path, as_lines(rows), counted)


def _fitting(rated: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The supersenses with a positive value, best first; values that agree to three digits count as equal."""
    found = [
        (round(one["value"], 3), name.removeprefix("supersense-noun."))
        for name, one in rated.items()
        if one["value"] > 0
    ]
    return [sense for _, sense in sorted(found, reverse=True)]


PROTOROLES = Card(
    "uds_protoroles",
    "corpus",
    "UDS semantic proto-roles on EWT",
    "CC BY-SA 4.0",
    ("protoroles.*.jsonl",),
    3_797_165,
    (
        Recipe(
            (_DECOMP.only(_zip("protoroles"), _IDS), EWT),
            derive_protoroles,
            counts={
                "protoroles.train.jsonl": {"sentences": 2_191, "edges": 5_669},
                "protoroles.dev.jsonl": {"sentences": 291, "edges": 751},
                "protoroles.test.jsonl": {"sentences": 276, "edges": 670},
            },
            licence="CC BY-SA 4.0",
            changes="joined to the treebank's words; arg_span derived from the treebank's dependencies",
        ),
    ),
    note="ewt carries the same annotation.",
    origin=_DECOMP.page,
)

WORDSENSE_FACTUALITY = Card(
    "uds_wordsense_factuality",
    "corpus",
    "UDS noun supersenses in context and event factuality on EWT",
    "CC BY-SA 4.0",
    ("uds.*.jsonl",),
    4_092_434,
    (
        Recipe(
            (_DECOMP.only(_zip("wordsense"), _zip("factuality"), _IDS), EWT),
            derive_wordsense_factuality,
            counts={
                "uds.train.jsonl": {"sentences": 9_736, "nouns": 16_497, "predicates": 22_206},
                "uds.dev.jsonl": {"sentences": 1_358, "nouns": 1_850, "predicates": 2_646},
                "uds.test.jsonl": {"sentences": 1_328, "nouns": 1_793, "predicates": 2_548},
            },
            licence="CC BY-SA 4.0",
            changes="joined to the treebank's words; noun supersenses kept where their value is above 0, best first",
        ),
    ),
    note="ewt carries the same annotation.",
    origin=_DECOMP.page,
)

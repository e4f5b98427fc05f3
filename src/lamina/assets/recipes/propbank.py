"""PropBank on English Web Treebank: published skeletons, whose words are masked, with the treebank's words put back.

A skeleton and a document of the treebank have the same name. Their sentences are paired in order by their number of
words; a pair whose Penn Treebank tags agree on less than 70 % of the words is dropped. Tags, parse and roles are the
skeleton's, words and `sent_id` the treebank's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Any

from lamina.assets.origins import OriginFiles, read_manifest
from lamina.assets.recipes.ewt import EWT, Sentence, treebank
from lamina.assets.recipes.recipe import Part, Recipe, as_lines
from lamina.assets.sources import Card
from lamina.errors import AssetError

_PROPBANK = read_manifest("propbank")
_TAG, _PARSE, _ROLESET, _ROLES = 4, 5, 7, 8
_SMALLEST_AGREEMENT = 0.7

Skeleton = list[list[str]]
"""The rows of a sentence."""
Argument = tuple[str, int, int]
"""Label, start, end (exclusive)."""


def derive(files: Mapping[str, OriginFiles]) -> Iterator[Part]:
    """One file of JSON lines per split."""
    skeletons = files[_PROPBANK.repo]
    paths = {_document(path): path for path in skeletons.paths}
    for split, sentences in treebank(files):
        documents: dict[str, list[Sentence]] = defaultdict(list)
        for sentence in sentences:
            documents[sentence.document].append(sentence)
        rows = [
            _row(sentence, skeleton)
            for name, its in documents.items()
            if name in paths
            for sentence, skeleton in _pairs(its, _skeletons(skeletons.text(paths[name]), paths[name]))
        ]
        yield Part(f"ewt_srl_const.{split}.jsonl", as_lines(rows), _count(rows))


def _document(path: str) -> str:
    """The treebank's name of the document: `reviews-003418` for `.../reviews/00/003418.xml.gold_skel`."""
    genre = PurePosixPath(path).parts[-3]
    return f"{genre}-{PurePosixPath(path).name.removesuffix('.gold_skel').removesuffix('.xml')}"


def _skeletons(text: str, path: str) -> list[Skeleton]:
    blocks = ([line.split() for line in block.splitlines() if line.strip()] for block in text.split("\n\n"))
    found = [block for block in blocks if block]
    for skeleton in found:
        predicates = sum(row[_ROLESET : _ROLESET + 1] != ["-"] for row in skeleton)
        if {len(row) for row in skeleton} != {_ROLES + predicates}:
            raise AssetError(f"{_PROPBANK.repo}/{path} has a sentence without one column per predicate")
    return found


def _pairs(sentences: Sequence[Sentence], skeletons: Sequence[Skeleton]) -> Iterator[tuple[Sentence, Skeleton]]:
    """Sentences with their skeletons: the longest runs of equal lengths, where the tags agree."""
    lengths = [len(sentence.words) for sentence in sentences], [len(skeleton) for skeleton in skeletons]
    for first, other, size in SequenceMatcher(None, *lengths, autojunk=False).get_matching_blocks():
        for sentence, skeleton in zip(sentences[first : first + size], skeletons[other : other + size], strict=True):
            agreeing = sum(row[_TAG] == tag for row, tag in zip(skeleton, sentence.tags, strict=True))
            if agreeing >= _SMALLEST_AGREEMENT * len(skeleton):
                yield sentence, skeleton


def _row(sentence: Sentence, skeleton: Skeleton) -> dict[str, Any]:
    predicates = [at for at, row in enumerate(skeleton) if row[_ROLESET] != "-"]
    return {
        "sent_id": sentence.id,
        "tokens": list(sentence.words),
        "pos": [row[_TAG] for row in skeleton],
        "parse": [row[_PARSE] for row in skeleton],
        "props": [
            _frame(skeleton, at, roles([row[column] for row in skeleton]))
            for column, at in enumerate(predicates, _ROLES)
        ],
    }


def _frame(skeleton: Skeleton, at: int, arguments: list[Argument]) -> dict[str, Any]:
    """A predicate with its arguments; it is where its `V` starts, which is not the marked word in "hung up".

    Of the few whose roleset is at a later word, the roleset is left out (`-`), as in the cut of this corpus that
    earlier results were made with.
    """
    at = next((start for label, start, _ in arguments if label == "V"), at)
    return {"pred": at, "roleset": skeleton[at][_ROLESET], "args": arguments}


def roles(cells: Sequence[str]) -> list[Argument]:
    """The arguments that a column of brackets marks: label, start, end (exclusive).

    Example:
        >>> roles(["(ARG0*", "*)", "(V*)", "*"])
        [('ARG0', 0, 2), ('V', 2, 3)]
    """
    found: list[Argument] = []
    for at, cell in enumerate(cells):
        label, _, close = cell.partition("*")
        if label:
            found.append((label.removeprefix("("), at, at + 1))
        if close:
            found[-1] = (*found[-1][:2], at + 1)
    return found


def _count(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    frames = [frame for row in rows for frame in row["props"]]
    arguments = [argument for frame in frames for argument in frame["args"] if argument[0] != "V"]
    return {"sentences": len(rows), "predicates": len(frames), "arguments": len(arguments)}


CARD = Card(
    "propbank_ewt",
    "corpus",
    "PropBank on EWT: semantic roles, constituents",
    "CC BY-SA 4.0",
    ("ewt_srl_const.*.jsonl",),
    10_848_087,
    (
        Recipe(
            (_PROPBANK, EWT),
            derive,
            counts={
                "ewt_srl_const.train.jsonl": {"sentences": 12_506, "predicates": 40_423, "arguments": 81_405},
                "ewt_srl_const.dev.jsonl": {"sentences": 1_963, "predicates": 4_960, "arguments": 9_576},
                "ewt_srl_const.test.jsonl": {"sentences": 2_054, "predicates": 4_795, "arguments": 9_337},
            },
            licence="CC BY-SA 4.0 (both)",
            changes="words put back from the treebank, by document and sentence (paired by number of words; dropped "
            "where fewer than 70 % of the tags agree)",
        ),
    ),
    origin=_PROPBANK.page,
)

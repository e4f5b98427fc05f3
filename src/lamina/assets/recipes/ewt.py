"""English Web Treebank (UD v2) as released, and its words by sentence for the corpora annotated on top of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lamina.assets.origins import OriginFiles, read_manifest
from lamina.assets.recipes.recipe import Recipe, as_is
from lamina.assets.sources import Card

SPLITS = ("train", "dev", "test")
EWT = read_manifest("ewt")
_RELEASED = {f"en_ewt-ud-{split}.conllu": f"en_ewt-ud-{split}.conllu" for split in SPLITS}
_ID, _FORM, _XPOS, _HEAD, _DEPREL, _COLUMNS = 0, 1, 4, 6, 7, 10


class Sentence(NamedTuple):
    """A sentence of the treebank, words only (no empty nodes, no multi-word tokens)."""

    id: str
    document: str
    """`reviews-003418`: the genre and the file."""
    words: tuple[str, ...]
    tags: tuple[str, ...]
    """Penn Treebank tags."""
    heads: tuple[int, ...]
    """Position of each word's head, from 0; -1 for the root."""
    relations: tuple[str, ...]


def sentences_of(text: str) -> Iterator[Sentence]:
    """Every sentence of a CoNLL-U file of the treebank.

    Example:
        >>> rows = ["# sent_id = weblog-a-0001", *("1\\tGo\\tgo\\tVERB\\tVB\\t_\\t0\\troot\\t_\\t_".splitlines())]
        >>> next(sentences_of("\\n".join(rows)))[:4]
        ('weblog-a-0001', 'weblog-a', ('Go',), ('VB',))
    """
    for block in text.split("\n\n"):
        lines = block.split("\n")
        name = next((line.removeprefix("# sent_id = ").strip() for line in lines if line.startswith("# sent_id")), None)
        rows = [row for line in lines if len(row := line.split("\t")) == _COLUMNS and row[_ID].isdecimal()]
        if name is not None and rows:
            yield Sentence(
                name,
                name.rpartition("-")[0],
                tuple(row[_FORM] for row in rows),
                tuple(row[_XPOS] for row in rows),
                tuple(int(row[_HEAD]) - 1 for row in rows),
                tuple(row[_DEPREL] for row in rows),
            )


def treebank(files: Mapping[str, OriginFiles]) -> Iterator[tuple[str, list[Sentence]]]:
    """The sentences of each split, in the order of the release."""
    for split in SPLITS:
        yield split, list(sentences_of(files[EWT.repo].text(f"en_ewt-ud-{split}.conllu")))


def _count(content: bytes) -> Mapping[str, int]:
    lengths = [len(sentence.words) for sentence in sentences_of(content.decode("utf-8"))]
    return {"sentences": len(lengths), "tokens": sum(lengths)}


CARD = Card(
    "ud_english_ewt",
    "corpus",
    "UD English Web Treebank (UD v2 labels): POS, dependencies",
    "CC BY-SA 4.0",
    tuple(_RELEASED),
    17_813_442,
    (
        Recipe(
            (EWT,),
            as_is(_RELEASED, _count),
            counts={
                "en_ewt-ud-train.conllu": {"sentences": 12_544, "tokens": 204_577},
                "en_ewt-ud-dev.conllu": {"sentences": 2_001, "tokens": 25_147},
                "en_ewt-ud-test.conllu": {"sentences": 2_077, "tokens": 25_094},
            },
            licence="CC BY-SA 4.0",
            changes="none; the files as released",
        ),
    ),
    origin=EWT.page,
)

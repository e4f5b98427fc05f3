"""STREUSLE: the released `.conllulex` files, and the supersenses of their expressions as JSON lines.

An expression is a single word or a strong multi-word expression without a gap. An expression with a gap has no span, so
it and its words are left out; weak expressions (`~`) are their parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from lamina.assets.origins import OriginFiles, read_manifest
from lamina.assets.recipes.ewt import SPLITS
from lamina.assets.recipes.recipe import Part, Recipe, as_lines
from lamina.assets.sources import Card

_STREUSLE = read_manifest("streusle")
_COLUMNS = 19
_FORM, _STRONG, _CATEGORY, _SENSE, _FUNCTION = 1, 10, 11, 13, 14


def derive(files: Mapping[str, OriginFiles]) -> Iterator[Part]:
    """Two files per split: as released, and as JSON lines."""
    (streusle,) = files.values()
    for split in SPLITS:
        content = streusle.read(f"{split}/streusle.ud_{split}.conllulex")
        rows = list(_sentences(content.decode("utf-8")))
        counts = {"sentences": len(rows), "tokens": sum(len(row["tokens"]) for row in rows)}
        yield Part(f"streusle.ud_{split}.conllulex", content, counts)
        senses = sum("." in (sense or "") for row in rows for *_, sense, _function in row["exprs"])
        yield Part(f"supersenses.{split}.jsonl", as_lines(rows), {**counts, "supersenses": senses})


def _sentences(text: str) -> Iterator[dict[str, Any]]:
    for block in text.split("\n\n"):
        lines = block.split("\n")
        name = next((line.removeprefix("# sent_id = ").strip() for line in lines if line.startswith("# sent_id")), None)
        rows = [row for line in lines if len(row := line.split("\t")) == _COLUMNS and row[0].isdecimal()]
        if name is not None and rows:
            yield {"sent_id": name, "tokens": [row[_FORM] for row in rows], "exprs": list(expressions(rows))}


def expressions(rows: list[list[str]]) -> Iterator[list[str | int | None]]:
    """Start, end (exclusive), lexical category, supersense and function of every expression without a gap.

    Example:
        >>> cells = {"Rusted": "1:1 V.VPC.semi _ v.stative _", "out": "1:2 _ _ _ _", "cars": "_ N _ n.ARTIFACT _"}
        >>> rows = [[str(at), word, *"_" * 8, *cells[word].split(), *"_" * 4] for at, word in enumerate(cells, 1)]
        >>> list(expressions(rows))
        [[0, 2, 'V.VPC.semi', 'v.stative', None], [2, 3, 'N', 'n.ARTIFACT', None]]
    """
    words: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        words[row[_STRONG].partition(":")[0] if row[_STRONG] != "_" else f"word {at}"].append(at)
    for start, *more in words.values():
        end = start + 1 + len(more)
        if not more or more[-1] == end - 1:
            category, sense, function = (_value(rows[start][column]) for column in (_CATEGORY, _SENSE, _FUNCTION))
            # Opaque possessives repeat their mark (`$) as a function; it is none.
            yield [start, end, category, sense, function if function and function.startswith("p.") else None]


def _value(cell: str) -> str | None:
    return None if cell == "_" else cell


CARD = Card(
    "streusle",
    "corpus",
    "STREUSLE: noun, verb and preposition supersenses on EWT reviews",
    "CC BY-SA 4.0",
    ("supersenses.*.jsonl", "streusle.ud_*.conllulex"),
    9_000_000,  # estimated: train was not at hand
    (
        Recipe(
            (_STREUSLE,),
            derive,
            counts={
                # Train was not at hand to be counted; its blob id is checked as every other.
                "streusle.ud_train.conllulex": {},
                "supersenses.train.jsonl": {},
                "streusle.ud_dev.conllulex": {"sentences": 554, "tokens": 5_396},
                "supersenses.dev.jsonl": {"sentences": 554, "supersenses": 2_136},
                "streusle.ud_test.conllulex": {"sentences": 535, "tokens": 5_381},
                "supersenses.test.jsonl": {"sentences": 535, "supersenses": 2_140},
            },
            licence="CC BY-SA 4.0",
            changes="conllulex as released; JSON lines derived from it, without expressions that have a gap",
        ),
    ),
    origin=_STREUSLE.page,
)

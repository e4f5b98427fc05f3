"""PropBank rows in JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lamina.corpora.formats import propbank
from lamina.corpora.reading import Fault
from lamina.errors import FormatError
from lamina.types import Edge, Span

ROW: dict[str, Any] = {
    "sent_id": "s1",
    "tokens": ["They", "grew", "up", "there"],
    "pos": ["PRP", "VBD", "RP", "RB"],
    "parse": ["(TOP(S(NP*)", "(VP*", "(PRT*)", "(ADVP*))))"],
    "props": [
        {"pred": 1, "roleset": "grow_up.04", "args": [["ARG1", 0, 1], ["V", 1, 3], ["ARGM-LOC", 3, 4]]},
        {"pred": 3, "roleset": "x.01", "args": [["ARG0", 0, 2]]},
    ],
}


def write(folder: Path, *rows: object) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows(tmp_path: Path) -> None:
    path = write(tmp_path, ROW)
    (text,) = propbank.read(path)
    assert propbank.looks_like(path)
    assert (text.id, text.words) == ("s1", ("They", "grew", "up", "there"))
    assert [edge.labels[0] for edge in text.edges["pos"]] == ["PRP", "VBD", "RP", "RB"]
    assert [edge.labels[0] for edge in text.edges["const"]] == ["S", "NP", "VP", "PRT", "ADVP"]
    assert text.edges["srl"] == (
        Edge(("ARG1",), Span(1, 3), Span(0, 1)),
        Edge(("ARGM-LOC",), Span(1, 3), Span(3, 4)),
        Edge(("ARG0",), Span(3, 4), Span(0, 2)),
    )


def test_the_id_tells_the_document(tmp_path: Path) -> None:
    ids = ("reviews-1-0001", "reviews-1-0002", "s1", "train-7", "train-1000", 5)
    texts = propbank.read(write(tmp_path, *({**ROW, "sent_id": name} for name in ids)))
    assert [text.doc for text in texts] == ["reviews-1", "reviews-1", None, None, None, None]


def frame(**changes: object) -> dict[str, Any]:
    return {**ROW, "props": [{**ROW["props"][0], **changes}]}


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({key: value for key, value in ROW.items() if key != "parse"}, "no field 'parse'"),
        ({**ROW, "pos": ["PRP"]}, "4 tokens, 1 tags and 4 parse bits"),
        ({**ROW, "parse": ["(S*", "*", "*", "*"]}, "never closed"),
        (frame(pred=0), "has its V somewhere else"),
        (frame(pred="1"), "not the index of a word"),
        (frame(args=[["ARG0", 0, 9]]), "outside its 4 words"),
        (frame(args=[["ARG0", 2, 2]]), "start"),
        (frame(args=[["ARG0", 2]]), ""),
        (frame(args=[[7, 0, 1]]), "7"),
        ([], "not a JSON object"),
    ],
)
def test_faults(tmp_path: Path, row: object, what: str) -> None:
    faults: list[Fault] = []
    texts = list(propbank.read(write(tmp_path, ROW, row, ROW), faults.append))
    assert [fault.line for fault in faults] == [2]
    assert what in faults[0].what
    assert len(texts) == 2
    with pytest.raises(FormatError, match=r"rows\.jsonl:1: "):
        list(propbank.read(write(tmp_path, row)))


def test_looks_like_no_other_json(tmp_path: Path) -> None:
    assert not propbank.looks_like(write(tmp_path, {"text": "Dogs bark", "targets": []}))
    assert not propbank.looks_like(tmp_path)

"""STREUSLE as JSON lines and as .conllulex."""

from __future__ import annotations

import json

import pytest

from lamina.corpora.formats import streusle
from lamina.types import Edge, Span

RECORD = {
    "sent_id": "reviews-1-0002",
    "tokens": ["Rusted", "out", "cars", "at", "my", "shop"],
    "exprs": [
        [0, 2, "V.VPC.semi", "v.stative", None],
        [2, 3, "N", "n.ARTIFACT", None],
        [3, 4, "P", "p.Locus", "p.Goal"],
        [4, 5, "PRON.POSS", "`$", None],
        [5, 6, "N", None, None],
    ],
}


def _row(place, word, upos, head, deprel, strong="_", sense="_", function="_"):
    syntax = [str(place), word, word, upos, upos[:2], "_", str(head), deprel, "_", "_"]
    return "\t".join([*syntax, strong, "X", word, sense, function, "_", "_", "_", "O"])


LEX = "\n".join(
    [
        "# newdoc id = reviews-1",
        "# sent_id = reviews-1-0001",
        _row(1, "Take", "VERB", 0, "root", "1:1", "v.motion"),
        _row(2, "it", "PRON", 1, "obj"),
        _row(3, "off", "ADP", 1, "compound", "1:2"),
        "",
        "# sent_id = reviews-1-0002",
        _row(1, "Rusted", "VERB", 3, "amod", "1:1", "v.stative"),
        _row(2, "out", "ADP", 1, "compound", "1:2"),
        _row(3, "cars", "NOUN", 0, "root", sense="n.ARTIFACT"),
        "3.1" + _row(3, "x", "X", 0, "dep")[1:],
        _row(4, "of", "ADP", 3, "case", sense="p.Gestalt", function="p.Whole"),
        "",
    ]
)


def _file(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def test_records(tmp_path):
    path = _file(tmp_path, "supersenses.jsonl", json.dumps(RECORD))
    (text,) = streusle.read(path)
    assert streusle.looks_like(path)
    assert text.doc == "reviews-1"
    assert text.edges == {
        "supersense": (Edge(("n.ARTIFACT",), Span(2, 3)),),
        "supersense_verb": (Edge(("v.stative",), Span(0, 2)),),
        "supersense_prep": (Edge(("p.Locus",), Span(3, 4)),),
        "supersense_prep_function": (Edge(("p.Goal",), Span(3, 4)),),
    }


def test_conllulex(tmp_path):
    path = _file(tmp_path, "s.conllulex", LEX)
    gappy, text = streusle.read(path)
    assert streusle.looks_like(path)
    assert gappy.edges["supersense_verb"] == ()
    assert (text.id, text.doc) == ("reviews-1-0002", "reviews-1")
    assert text.words == ("Rusted", "out", "cars", "of")
    assert text.edges["supersense_verb"] == (Edge(("v.stative",), Span(0, 2)),)
    assert text.edges["supersense_prep_function"] == (Edge(("p.Whole",), Span(3, 4)),)
    assert text.edges["pos"][2] == Edge(("NOUN",), Span(2, 3))
    assert text.edges["dep"][0] == Edge(("amod",), Span(0, 1), Span(2, 3))
    assert text.edges["dep"][2] == Edge(("root",), Span(2, 3), Span(2, 3))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("1\tone\ttwo", "3 columns"),
        (_row(2, "cars", "NOUN", 0, "root"), "word 2"),
        (_row(1, "cars", "NOUN", "_", "root"), "head '_'"),
        (_row(1, "cars", "NOUN", 7, "root"), "head '7'"),
        ("# only = comment", "without words"),
    ],
)
def test_faults_of_conllulex_name_the_line(tmp_path, line, what):
    faults = []
    texts = list(streusle.read(_file(tmp_path, "s.conllulex", LEX + "\n" + line + "\n\n" + LEX), faults.append))
    assert len(texts) == 4
    assert [fault.line for fault in faults] == [14]
    assert what in faults[0].what


def test_faults_of_records(tmp_path):
    broken = RECORD | {"exprs": [[0, 9, "N", "n.ACT", None]]}
    faults = []
    path = _file(tmp_path, "s.jsonl", "\n".join(json.dumps(record) for record in (RECORD, broken)))
    assert len(list(streusle.read(path, faults.append))) == 1
    assert faults[0].line == 2

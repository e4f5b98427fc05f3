"""GAP: offsets to words."""

from __future__ import annotations

import pytest

from lamina.corpora.formats.marked_pairs import HEADER, looks_like_gap, read_gap
from lamina.errors import FormatError

TEXT = "Bob Suter is Dehner's uncle. His cousin is Ryan."
ROW = ["test-1", TEXT, "His", "29", "Bob Suter", "0", "FALSE", "Dehner", "13", "TRUE", "http://en.wikipedia.org/wiki/D"]


def _file(tmp_path, *rows, header=HEADER):
    path = tmp_path / "gap.tsv"
    path.write_text("\n".join("\t".join(row) for row in (header, *rows)) + "\n", encoding="utf-8")
    return path


def _with(**changes):
    return [changes.get(name.replace("-", "_"), value) for name, value in zip(HEADER, ROW, strict=True)]


def test_pairs_of_words(tmp_path):
    path = _file(tmp_path, ROW)
    (text,) = read_gap(path)
    assert looks_like_gap(path)
    assert (text.id, text.doc) == ("test-1", "http://en.wikipedia.org/wiki/D")
    found = [
        (edge.labels, " ".join(text.words[i] for i in edge.span), " ".join(text.words[i] for i in edge.other))
        for edge in text.edges["coref"]
    ]
    assert found == [(("0",), "His", "Bob Suter"), (("1",), "His", "Dehner")]


def test_offsets_count_characters_and_cut_words(tmp_path):
    words = "Zoë 😀 met Bobby."
    row = _with(Text=words, Pronoun="Zoë", Pronoun_offset="0", A="Bob", A_offset="10", B="met", B_offset="6")
    (text,) = read_gap(_file(tmp_path, row))
    assert text.words == ("Zoë", "😀", "met", "Bob", "by", ".")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (_with(A_offset="1"), "A-offset 1 points at 'ob Suter '"),
        (_with(B_offset="-13"), "B-offset is '-13'"),
        (_with(A_coref="maybe"), "A-coref is 'maybe'"),
        (_with(A=" ", A_offset="3"), "A has no word"),
        (ROW[:-1], "10 columns"),
    ],
)
def test_faults_name_the_line(tmp_path, row, what):
    faults = []
    assert len(list(read_gap(_file(tmp_path, ROW, row, ROW), faults.append))) == 2
    assert [fault.line for fault in faults] == [3]
    assert what in faults[0].what


def test_another_header_is_refused(tmp_path):
    path = _file(tmp_path, ROW, header=("ID", "Text"))
    assert not looks_like_gap(path)
    with pytest.raises(FormatError, match="not the header"):
        list(read_gap(path))
    assert list(read_gap(path, lambda fault: None)) == []

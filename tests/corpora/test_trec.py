"""TREC question types."""

from __future__ import annotations

from lamina.corpora.formats.lines import REPEATED, looks_like_trec, read_trec
from lamina.corpora.reading import Notes
from lamina.types import Span

LINES = "DESC:manner How did serfdom end ?\nHUM:ind Who was José ?\n\nDESC:manner How did  serfdom end ?\n"


def test_types_of_whole_questions_without_repeats(tmp_path):
    path = tmp_path / "types.txt"
    path.write_text(LINES, encoding="utf-8")
    noted = Notes()
    first, second = read_trec(path, noted=noted)
    assert looks_like_trec(path)
    assert first.words == ("How", "did", "serfdom", "end", "?")
    assert [(edge.labels, edge.span) for edge in first.edges["ques"]] == [(("DESC:manner",), Span(0, 5))]
    assert first.edges["ques_coarse"][0].labels == ("DESC",)
    assert (first.id, second.id) == ("types-1", "types-2")
    assert noted.ids == {REPEATED: ("types-4",)}


def test_the_original_is_latin_1(tmp_path):
    path = tmp_path / "types.txt"
    path.write_bytes(LINES.encode("latin-1"))
    assert "José" in list(read_trec(path))[1].words


def test_faults_name_the_line(tmp_path):
    path = tmp_path / "types.txt"
    path.write_text(LINES + "Who ?\nHUM:gr Who was José ?\nHUM:ind\n", encoding="utf-8")
    faults = []
    assert len(list(read_trec(path, faults.append))) == 2
    assert [fault.line for fault in faults] == [5, 6, 7]
    assert "HUM:gr here and HUM:ind before" in faults[1].what

"""Plain text and wikitext."""

from __future__ import annotations

from lamina.corpora.formats.lines import looks_like_plain, read_plain

WIKI = """
 = <unk> <unk> =

 The well @-@ known lobster , a crab , is blue .

 = = Description = =

 It is large , not St. small .

 = <unk> <unk> =

 Another , one .
"""


def _file(tmp_path, content, name="some.txt"):
    path = tmp_path / name
    path.write_bytes(content.encode())
    return path


def test_wikitext_is_split_at_whitespace_and_headings_start_documents(tmp_path):
    texts = list(read_plain(_file(tmp_path, WIKI)))
    assert [text.doc for text in texts] == ["<unk> <unk>"] * 4 + ["<unk> <unk> (2)"] * 2
    assert texts[1].words[:4] == ("The", "well", "@-@", "known")
    assert texts[2].words == ("=", "=", "Description", "=", "=")
    assert "St." in texts[3].words
    assert [text.id for text in texts][:2] == ["some-2", "some-4"]


def test_running_text_is_split_into_words(tmp_path):
    texts = list(read_plain(_file(tmp_path, "Ann, don't go.\r\n\r\n   \r\nStay, she said.\r\n")))
    assert [text.words for text in texts] == [
        ("Ann", ",", "do", "n't", "go", "."),
        ("Stay", ",", "she", "said", "."),
    ]
    assert texts[0].doc is None
    assert texts[0].edges == {}


def test_a_line_that_is_not_utf8_is_a_fault(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"fine\ncaf\xe9\nfine again\n")
    faults = []
    assert len(list(read_plain(path, faults.append))) == 2
    assert [fault.line for fault in faults] == [2]


def test_what_is_called_text(tmp_path):
    assert looks_like_plain(_file(tmp_path, "a", "wiki.valid.tokens"))
    assert not looks_like_plain(_file(tmp_path, "a", "tree.conllu"))
    assert list(read_plain(_file(tmp_path, "", "empty.txt"))) == []

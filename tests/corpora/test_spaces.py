"""Which words are written without a space before them: read, kept, joined, and used where a text is written out."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import corpus_from, load_corpus
from lamina.corpora.caching import from_line, to_line
from lamina.corpora.corpus import in_units
from lamina.errors import SpanError
from lamina.models.language.language_model import WrittenPassage
from lamina.types import Text, text_key

SENTENCES = (
    ("Don't go (im Haus).", ("1-2 Don't _", "1 Do _", "2 n't _", "3 go _", "4 ( SpaceAfter=No", "5-6 im _", "5 in _",
                             "6 dem _", "7 Haus X=1|SpaceAfter=No", "8 ) SpaceAfter=No", "9 . SpaceAfter=No")),
    ("We ca n't.", ("1 We _", "2 ca _", "3-4 n't. _", "3 n't SpaceAfter=No", "4 . _")),
)  # fmt: skip


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    lines = []
    for number, (_, rows) in enumerate(SENTENCES):
        lines += ["# newdoc id = d"] * (number == 0) + [f"# sent_id = s{number}"]
        for row in rows:
            at, form, misc = row.split()
            tree = [*"____"] if "-" in at else ["_", "_", str(int(at) - 1), "root" if at == "1" else "dep"]
            lines.append("\t".join([at, form, "_", "_", *tree, "_", misc]))
        lines.append("")
    path = tmp_path / "own-dev.conllu"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_treebank_says_where_spaces_are(treebank: Path) -> None:
    first, second = load_corpus(treebank, "dev")
    # Parts that spell their token are glued; `in dem` does not spell `im`.
    assert first.words == ("Do", "n't", "go", "(", "in", "dem", "Haus", ")", ".")
    assert first.glued == (1, 4, 7, 8)
    assert WrittenPassage.of(first).text == "Don't go (in dem Haus)."
    assert WrittenPassage.of(second).text == "We ca n't."
    again = list(load_corpus(treebank, "dev"))
    assert [each.glued for each in again] == [first.glued, second.glued], "kept with the parsed texts"
    (joined,) = load_corpus(treebank, "dev", unit="document")
    assert WrittenPassage.of(joined).text == "Don't go (in dem Haus). We ca n't."


def test_running_text_is_written_as_it_was(tmp_path: Path) -> None:
    sentence = "Ann didn't pay $5 (or 6), though."
    (text,) = corpus_from([sentence])
    assert WrittenPassage.of(text).text == sentence
    (row,) = corpus_from([{"sentence1": "Is it?", "sentence2": "It isn't."}])
    assert WrittenPassage.of(row).text == "Is it? It isn't."
    path = tmp_path / "own.txt"
    path.write_text(sentence + "\n")
    (read,) = load_corpus(path, "all")
    assert WrittenPassage.of(read).text == sentence


def test_spaces_change_neither_what_encoders_read_nor_its_key() -> None:
    plain, glued = Text("a", ("do", "n't")), Text("a", ("do", "n't"), glued=(1,))
    assert text_key(plain) == text_key(glued)
    assert from_line(to_line(glued)) == glued != plain
    assert from_line(to_line(plain)) == plain
    with_origin = Text("a", ("do", "n't"), origin="o", glued=(1,))
    assert from_line(to_line(with_origin)) == with_origin
    assert len({corpus_from([each]).fingerprint for each in (plain, glued)}) == 2, "what a model says may differ"
    joined = in_units(
        [Text("a", ("Go", "."), doc="d", glued=(1,)), Text("b", ("No", "!"), doc="d", glued=(1,))], "document"
    )
    assert next(joined).glued == (1, 3)


@pytest.mark.parametrize("glued", [(0,), (2,), (1, 1)])
def test_words_that_cannot_be_glued_are_refused(glued: tuple[int, ...]) -> None:
    with pytest.raises(SpanError, match="glued words are numbers from 1 to 1"):
        Text("a", ("do", "n't"), glued=glued)

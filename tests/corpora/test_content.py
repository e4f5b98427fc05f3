"""Running text and data are told apart: a table is never read as plain text, and prose is never taken for a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.detection import detect
from lamina.corpora.formats.lines import looks_like_plain, not_running_text
from lamina.errors import CorpusError

PROSE = [
    "Dogs, cats and cows.\nBirds, too.\n",
    "Ann, go.\nBob, stay.\nCid, run.\n",
    "She said: yes; now.\nHe said: no; never.\n",
    "Dogs bark , cats mew .\nCows moo , birds sing .\n",
    "\tIndented, the first paragraph of a longer text.\n\tThe second paragraph of it, also indented.\n",
    "a\tb\tc d\nx y\nz\tq\n",
    " = Title = \n\n Text , more . \n",
    "[1] Smith said so.\n[2] Jones did not.\n",
    "<unk> the <unk>\n<unk> of it\n",
    "In 1,000 days\nIn 2,000 days he left us\nand more\n",
    "Title, text and more\nSome, line\n",
    "Question, I have one.\nAnswer, I have none.\n",
    "Word\nanother\nthird\n",
    "One line only\tyes\n",
    "In 1990 and 1991\nIn 2000 and 2001\n",
]
DATA = {
    "a table": [
        "text,label\na b c,1\n",
        "Dogs\tanimal\nOslo\tplace\n",
        "id;text;stars\n1;Very good;5\n2;Bad;1\n",
        "word|tag\nDogs|NOUN\nbark|VERB\n",
        "\tDT\tThe\n\tNN\tdog\n",
        "0,Dogs bark\n1,Cats mew\n0,Cows moo\n",
        "the 0.418 0.24968 -0.41242\nof 0.70853 0.57088 -0.4716\n",
    ],
    "JSON": ['{"a": 1}\n{"a": 2}\n', '[\n {"text": "x"}\n]\n', '["a", "b"]'],
    "XML": ["<?xml version='1.0'?>\n<a>text</a>\n", "<doc id='1'>\ntext\n</doc>\n"],
    "a list of numbers": ["1\n0\n1\n", "3.5\n-1\n"],
    "binary": ["a\0b"],
    "carriage returns": ["one\rtwo\r"],
}


@pytest.mark.parametrize("text", PROSE)
def test_running_text_is_plain(text: str, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text(text)
    assert not_running_text(path) is None
    assert detect(path).name == "plain"


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in DATA.items() for text in texts])
def test_data_is_not_plain(kind: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_bytes(text.encode())
    assert kind in (not_running_text(path) or "")
    assert not looks_like_plain(path)


def test_utf16_says_so(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("Dogs bark", encoding="utf-16")
    with pytest.raises(CorpusError, match="UTF-16 data, not text in UTF-8"):
        load_corpus(path)

"""What a corpus is: read anew each time, ids unique, fingerprinted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.corpora.corpus import Corpus, with_unique_ids
from lamina.errors import CorpusError
from lamina.types import Edge, Span, Text


def made(*texts: Text, **more: object) -> tuple[Corpus, list[int]]:
    """A corpus of these texts, and a list that grows with every text read."""
    read: list[int] = []

    def source() -> Iterator[Text]:
        for number, text in enumerate(texts):
            read.append(number)
            yield text

    fields = {"name": "c", "split": "dev", "unit": "sentence", "scheme": "UD v2", "fingerprint": "f"} | more
    return Corpus(source=source, **fields), read


def test_it_can_be_read_again_and_again() -> None:
    corpus, _ = made(Text("a", ("x",)), Text("b", ("y",)))

    assert list(corpus) == list(corpus)


def test_it_reads_no_more_than_asked() -> None:
    corpus, read = made(Text("a", ("x",)), Text("b", ("y",)), Text("c", ("z",)))

    next(iter(corpus))

    assert read == [0]
    assert [text.id for text in corpus.take(2)] == ["a", "b"]
    assert read == [0, 0, 1]


def test_length_is_counted_once() -> None:
    corpus, read = made(Text("a", ("x",)), Text("b", ("y",)))

    assert len(corpus) == len(corpus) == 2
    assert read == [0, 1]


def test_what_was_read_to_its_end_is_counted_already() -> None:
    corpus, read = made(Text("a", ("x",)), Text("b", ("y",)))

    for _ in corpus:
        pass

    assert len(corpus) == 2
    assert read == [0, 1]


def test_doubled_ids_get_a_number() -> None:
    texts = [Text(name, ("x",)) for name in ("a", "a", "b", "a", "a#2", "a#4", "a")]

    ids = [text.id for text in with_unique_ids(texts)]

    assert ids == ["a", "a#2", "b", "a#3", "a#2#2", "a#4", "a#5"]


def test_annotations_are_those_of_the_texts_or_those_declared() -> None:
    texts = (
        Text("a", ("x",), edges={"pos": (Edge(("X",), Span(0, 1)),)}),
        Text("b", ("x",), edges={"pos": (), "ner": ()}),
    )

    assert made(*texts)[0].annotations == ("pos", "ner")
    assert made(*texts, declared=("spr",))[0].annotations == ("spr",)


def rare(count: int) -> list[Text]:
    """Texts, of which only the last has `ner`."""
    return [
        Text(f"t{number}", ("x",), edges={"pos": ()} | ({"ner": ()} if number == count else {}))
        for number in range(1, count + 1)
    ]


def test_an_annotation_of_a_late_text_is_found_in_one_pass() -> None:
    corpus, read = made(*rare(500))

    assert corpus.annotations == ("pos", "ner")
    assert len(corpus) == len(read) == 500
    assert corpus.take(499).annotations == ("pos",)


def test_a_pass_made_anyway_finds_the_annotations() -> None:
    corpus, read = made(*rare(3))

    for _ in corpus:
        pass

    assert corpus.annotations == ("pos", "ner")
    assert len(read) == 3


def test_annotations_of_many_texts_are_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.corpora.corpus._MANY", 3)
    first, _ = made(*rare(3))
    again, read = made(*rare(3))
    few, _ = made(*rare(2), fingerprint="few")

    assert few.annotations == ("pos", "ner")
    assert not cache.exists()
    assert first.annotations == again.annotations == ("pos", "ner")
    assert not read
    (cache / "annotations.json").write_text("{")
    assert made(*rare(3))[0].annotations == ("pos", "ner")
    assert again.annotations == ("pos", "ner")
    assert json.loads((cache / "annotations.json").read_text())["f"] == ["pos", "ner"]


def test_remembered_annotations_do_not_grow_without_end(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.corpora.corpus._MANY", 1)
    monkeypatch.setattr("lamina.corpora.corpus._MOST_REMEMBERED", 2)
    for name in "abc":
        assert made(*rare(1), fingerprint=name)[0].annotations == ("pos", "ner")

    assert [*json.loads((cache / "annotations.json").read_text())] == ["b", "c", "checksum"]


def test_without_a_cache_to_write_to_annotations_are_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.corpora.corpus._MANY", 1)
    cache.write_text("a file where the folder should be")

    assert made(*rare(2))[0].annotations == ("pos", "ner")


def test_taking_some_changes_the_fingerprint() -> None:
    corpus, _ = made(Text("a", ("x",)), Text("b", ("y",)))

    prints = {corpus.fingerprint, corpus.take(1).fingerprint, corpus.take(2).fingerprint}

    assert len(prints) == 3
    assert len(corpus.take(1)) == 1
    assert corpus.take(1).take(5) == corpus.take(1)
    assert corpus.take(1).describe()["first"] == 1


def test_taking_nothing_is_refused() -> None:
    with pytest.raises(CorpusError, match="at least 1 text"):
        made(Text("a", ("x",)))[0].take(0)


def test_it_describes_itself() -> None:
    corpus, _ = made(Text("a", ("x",)), files={"a.conllu": "00ff"}, made_split="dev is some")

    assert corpus.describe() == {
        "name": "c",
        "split": "dev",
        "unit": "sentence",
        "scheme": "UD v2",
        "fingerprint": "f",
        "files": {"a.conllu": "00ff"},
        "made_split": "dev is some",
    }

"""Texts as lines of JSON, the cache of parsed files, remembered hashes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.caching import damaged_caches, from_line, parsed_once, to_line
from lamina.files import checking
from lamina.files.checking import sha256_of
from lamina.types import Edge, Span, Text

WORDS = st.text(min_size=1, max_size=6)
LABELS = st.lists(st.text(max_size=5), max_size=3).map(tuple)
VALUES = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def whole_texts(draw: st.DrawFn) -> Text:
    words = draw(st.lists(WORDS, min_size=1, max_size=8).map(tuple))
    cut = draw(st.integers(1, len(words)))
    segments = (Span(0, cut),) if cut == len(words) else (Span(0, cut), Span(cut, len(words)))
    span = st.tuples(st.integers(0, len(words) - 1), st.integers(1, 8)).map(
        lambda pair: Span(pair[0], min(len(words), pair[0] + pair[1]))
    )
    edge = st.builds(Edge, LABELS, span, st.none() | span, st.none() | LABELS, VALUES)
    edges = draw(st.dictionaries(st.text(max_size=5), st.lists(edge, max_size=3).map(tuple), max_size=3))
    return Text(draw(WORDS), words, segments, edges, draw(st.none() | WORDS))


@given(whole_texts())
def test_a_line_reads_back_the_same(text: Text) -> None:
    line = to_line(text)

    assert "\n" not in line
    assert from_line(line) == text


class Slow:
    """A reader that counts how often it is asked."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> Iterator[Text]:
        self.reads += 1
        yield Text("1", ("Ärger", "naht"))
        yield Text("2", ("a\u2028b",))


def test_texts_are_parsed_once(cache: Path) -> None:
    slow = Slow()

    first = list(parsed_once(["k"], slow))

    assert list(parsed_once(["k"], slow)) == first
    assert slow.reads == 1
    list(parsed_once(["other"], slow))
    assert slow.reads == 2


def test_deleting_the_cache_is_safe(cache: Path) -> None:
    slow = Slow()
    first = list(parsed_once(["k"], slow))
    for path in (cache / "parsed").iterdir():
        path.unlink()

    assert list(parsed_once(["k"], slow)) == first


def test_half_a_reading_leaves_nothing(cache: Path) -> None:
    reading = parsed_once(["k"], Slow())
    next(reading)
    reading.close()

    assert list((cache / "parsed").iterdir()) == []


def test_a_fault_leaves_nothing(cache: Path) -> None:
    def faulty() -> Iterator[Text]:
        yield Text("1", ("a",))
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(parsed_once(["k"], faulty))

    assert list((cache / "parsed").iterdir()) == []


def test_reading_goes_on_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "file"))
    slow = Slow()

    assert len(list(parsed_once(["k"], slow))) == len(list(parsed_once(["k"], slow))) == 2
    assert slow.reads == 2


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def cut_at_a_line(content: bytes) -> bytes:
    return content[: content.index(b"\n") + 1]


def without_a_text(content: bytes) -> bytes:
    return content[content.index(b"\n") + 1 :]


def flipped(content: bytes) -> bytes:
    return content.replace(b"naht", b"nahd")


def zeroed(content: bytes) -> bytes:
    return bytes(len(content))


@pytest.mark.parametrize("damage", [cut, cut_at_a_line, without_a_text, flipped, zeroed, lambda _: b""])
def test_a_damaged_cache_is_parsed_again(cache: Path, damage, capfd: pytest.CaptureFixture[str]) -> None:
    slow = Slow()
    first = list(parsed_once(["k"], slow))
    (kept,) = (cache / "parsed").iterdir()
    sound = kept.read_bytes()
    assert damaged_caches() == []
    kept.write_bytes(damage(sound))

    assert damaged_caches() == [kept]
    assert list(parsed_once(["k"], slow)) == first
    assert slow.reads == 2
    assert "is damaged" in capfd.readouterr().err
    assert kept.read_bytes() == sound
    assert list(parsed_once(["k"], slow)) == first
    assert slow.reads == 2


def test_a_full_disk_only_means_no_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lamina.corpora.caching.sync", full)
    assert len(list(parsed_once(["k"], Slow()))) == 2
    assert list((cache / "parsed").iterdir()) == []


def test_a_large_file_is_hashed_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * (1 << 20))
    os.utime(path, (1_000_000, 1_000_000))
    expected = hashlib.sha256(b"x" * (1 << 20)).hexdigest()
    assert sha256_of(path) == expected

    checking._HERE.clear()
    monkeypatch.setattr(checking, "hash_file", lambda _: pytest.fail("hashed again"))

    assert sha256_of(path) == expected


def test_a_changed_file_is_hashed_again(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "large"
    for number, content in enumerate((b"x" * (1 << 20), b"y" * (1 << 20)), start=1):
        path.write_bytes(content)
        os.utime(path, (1_000_000 * number, 1_000_000 * number))
        assert sha256_of(path) == hashlib.sha256(content).hexdigest()


def test_a_broken_memory_of_hashes_is_no_harm(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * (1 << 20))
    os.utime(path, (1_000_000, 1_000_000))
    cache.mkdir()
    for broken in ("{", "[]"):
        (cache / "hashes.json").write_text(broken)
        assert sha256_of(path) == hashlib.sha256(b"x" * (1 << 20)).hexdigest()

"""Static vectors: the three file formats, and what happens to words that are not in them."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
import torch

import lamina
from lamina.errors import AssetError, FormatError, InputError, ModelError
from lamina.models import static
from lamina.models.static import StaticEncoder
from lamina.testing import check_encoder
from lamina.types import Text

WORDS = ["the", "Dog", "dog", "new york"]
VECTORS = np.array([[0.5, -1, 2], [1, 1, 1], [3, 0, 0.25], [-2, 4, 8]], np.float32)
LINES = [f"{word} {' '.join(str(float(x)) for x in vector)}" for word, vector in zip(WORDS, VECTORS, strict=True)]


@pytest.fixture(params=["glove.txt", "headed.vec", "word2vec.bin", "newlines.bin"])
def file(request, tmp_path):
    """The same vectors in every format; in the binary one, a newline after each vector is optional."""
    path = tmp_path / request.param
    head = f"{len(WORDS)} 3\n"
    if path.suffix == ".bin":
        end = b"\n" if path.stem == "newlines" else b""
        known = list(zip(WORDS, VECTORS, strict=True))
        path.write_bytes(
            head.encode()
            + b"".join(w.replace(" ", "_").encode() + b" " + struct.pack("<3f", *v) + end for w, v in known)
        )
    else:
        path.write_text((head if path.suffix == ".vec" else "") + "\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_every_format_gives_the_same_vectors(file):
    encoder = lamina.load_encoder(str(file))
    assert (encoder.name, encoder.layers, encoder.heads, encoder.width) == (file.stem, 1, 0, 3)
    (made,) = encoder.encode([Text("t", ("dog", "Dog", "the", "THE"))])
    assert torch.equal(made.states, torch.from_numpy(VECTORS[[2, 1, 0, 0]]).unsqueeze(1))
    assert made.tokens.words.tolist() == [0, 1, 2, 3]
    assert made.tokens.unknown == 0
    check_encoder(encoder)


def test_vectors_have_aliases_too(tmp_path, monkeypatch):
    monkeypatch.setattr("lamina.assets.locate", lambda name: tmp_path)
    with pytest.raises(AssetError, match="holds no file of word vectors"):
        lamina.load_encoder("glove")
    (tmp_path / "SOURCE.txt").write_text("where it came from", encoding="utf-8")
    (tmp_path / "glove.6B.3d.txt").write_text("\n".join(LINES), encoding="utf-8")
    encoder = lamina.load_encoder("glove")
    assert (encoder.name, encoder.width) == ("glove", 3)


def test_a_word_may_hold_spaces(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    (made,) = lamina.load_encoder(str(path)).encode([Text("t", ("new york",))])
    assert made.states[0, 0].tolist() == VECTORS[3].tolist()


@pytest.mark.parametrize(
    "odd", ["a +1 2e-3 3", "b 1 2 3 ", "the moon 1 2 3", " 1 2 3", '"quoted 1 2 3', "\udcff 1 2 3", "\ufeffmark 1 2 3"]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_read_at_once_as_one_by_one(tmp_path, odd, end):
    path = tmp_path / "v.txt"
    lines = ["dog 0.1 -0.30000001192092896 1e-45", "null 7 8 9", odd, "nan 1 2 3"]
    content = (end.join(lines) + end).encode("utf-8", "surrogateescape")
    path.write_bytes(content)
    slow_words, slow = static._parsed_by_line(content, 3, path, 1)
    words, vectors = static.read_vectors(path)
    assert words == slow_words
    assert vectors.tolist() == slow.tolist()
    plain, plain_vectors = static._parsed_at_once(end.join(lines[:2]).encode(), 3)
    assert plain == words[:2]
    assert plain_vectors.tolist() == vectors[:2].tolist()


def test_unknown_words_are_drawn_from_a_normal_and_always_alike():
    encoder = StaticEncoder(["dog"], np.zeros((1, 50), np.float32), name="v")
    words = tuple(f"word{n}" for n in range(200))
    (made,) = encoder.encode([Text("t", (*words, "dog"))])
    (again,) = encoder.encode([Text("u", words[::-1])])
    assert made.tokens.unknown == 200
    assert torch.equal(made.states[:200], again.states.flip(0))
    drawn = made.states[:200].numpy()
    assert abs(drawn.mean()) < 0.05
    assert abs(drawn.std() - 1) < 0.05
    assert not made.states[200].any()


def test_the_first_of_two_equal_words_counts():
    encoder = StaticEncoder(["a", "a"], np.array([[1.0], [2.0]]), name="v")
    (made,) = encoder.encode([Text("t", ("a",))])
    assert made.states.dtype == torch.float32
    assert made.states.item() == 1


def test_fingerprint_follows_words_and_vectors():
    made = [
        StaticEncoder(words, vectors, name="v").fingerprint
        for words, vectors in [(WORDS, VECTORS), (WORDS, VECTORS * 2), (WORDS[::-1], VECTORS), (WORDS, VECTORS.copy())]
    ]
    assert made[0] == made[3]
    assert len(set(made)) == 3


def test_there_are_no_maps_and_no_twin():
    encoder = StaticEncoder(WORDS, VECTORS, name="v")
    with pytest.raises(ModelError, match="no attention maps"):
        next(encoder.encode([Text("t", ("dog",))], ("maps",)))
    with pytest.raises(ModelError, match="is meaningless"):
        encoder.random_twin()
    with pytest.raises(ModelError, match="4 words but 3 vectors"):
        StaticEncoder(WORDS, VECTORS[:3], name="v")


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("short.txt", "the 1 2 3\ndog 1 2\n", "short.txt:2: expected a word and 3 numbers, got 3 fields"),
        ("letters.txt", "the 1 2 3\ndog 1 x 3\n", "letters.txt:2: expected a word and 3 numbers"),
        ("blank.txt", "\nthe 1 2 3\n", "blank.txt:1: expected a word and its numbers, got 1 fields"),
        ("gap.txt", "the 1 2 3\n\ndog 1 2 3\n", "gap.txt:2: expected a word and 3 numbers, got 1 fields"),
        ("empty.txt", "", "empty.txt: contains no vectors"),
        ("cut.vec", "3 2\nthe 1 2\n", "cut.vec:1: the header says 3 words, but the file has 1"),
        ("header.vec", "3 x\nthe 1 2\n", "header.vec:1: expected a header"),
        ("wide.txt", "the " + "1 " * 50_001 + "\n", "wide.txt:1: vectors of 50,001 numbers"),
        ("zero.vec", "0 0\n", "zero.vec:1: expected a header"),
        ("text.bin", "hello\n", "text.bin:1: expected a header"),
        ("long.bin", "99999999999 300\nx", "long.bin: too short for the 99999999999 vectors"),
        ("nospace.bin", "1 2\n" + "x" * 20, "nospace.bin: ends in vector 1 of 1"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(tmp_path, name, content, where):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(FormatError) as caught:
        lamina.load_encoder(str(tmp_path / name))
    assert where in str(caught.value)


def test_a_pipe_is_refused_and_a_long_header_is_cut(tmp_path):
    for name in ("pipe.txt", "pipe.bin"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError, match="is a named pipe, not a regular file"):
            StaticEncoder.read(tmp_path / name, name="v")
    (tmp_path / "v.txt").write_text("9" * 5000 + " 3\n")
    with pytest.raises(FormatError, match="expected a header") as said:
        StaticEncoder.read(tmp_path / "v.txt", name="v")
    assert len(str(said.value)) < 400

"""Model folders that were made to stop whoever loads them: refused in one sentence, before a library reads them."""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.cli.terminal import in_one_sentence
from lamina.errors import InputError, ModelError
from lamina.models.weights import bounds
from lamina.models.weights.bounds import check_tokenizer, repeats_within_repeats
from lamina.models.weights.quantised import check_metadata

KNOWN_PATTERNS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{M}]*[\p{Ll}\p{M}]+(?i:'s|'t|'re)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+",
    r"\d{1,3}(?=(?:\d{3})*\b)",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
)
"""Of GPT-2, Llama 3, BLOOM, GPT-4o, Command R and DeepSeek."""


@pytest.mark.parametrize("pattern", KNOWN_PATTERNS)
def test_patterns_of_known_tokenizers_are_read(pattern):
    assert not repeats_within_repeats(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"((\w+\.?)+)+X",
        r"(a|aa)+$",
        r"(?:a*)*b",
        r"(x+x+)+y",
        r"([a-z]+)*$",
        r"(a{1,})+b",
        r"((a)|(b+))*c",
        "(a+){2,}b",
    ],
)
def test_patterns_that_never_end_are_known(pattern):
    assert repeats_within_repeats(pattern)


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(change(content)), encoding="utf-8")

    return apply


def larger(name: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.truncate(1 << 40)

    return apply


def header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 50) + b"{}")


SPLIT = {"type": "Split", "pattern": {"Regex": r"((\w+\.?)+)+X"}, "behavior": "Isolated", "invert": False}
GROW = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 8}
CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "tokenizer that searches without end": (
        changed("tokenizer.json", lambda content: content | {"pre_tokenizer": SPLIT}),
        "whose search may never end",
    ),
    "tokenizer that blows texts up": (
        changed(
            "tokenizer.json",
            lambda content: content | {"normalizer": {"type": "Sequence", "normalizers": [GROW] * 10}},
        ),
        "makes texts up to 1,073,741,824 times as long",
    ),
    "tokenizer that pads": (
        changed(
            "tokenizer.json",
            lambda content: content | {"padding": {"strategy": {"Fixed": 10**10}, "direction": "Right"}},
        ),
        "pads every text to 10000000000 tokens",
    ),
    "tokenizer of a terabyte": (larger("tokenizer.json"), "at most 134,217,728 are read"),
    "tokenizer of many levels": (
        lambda folder: (folder / "tokenizer.json").write_text("[" * 10**5 + "]" * 10**5),
        "nested deeper than",
    ),
    "config of a terabyte": (larger("config.json"), "at most 4,194,304 are read"),
    "chat template of a terabyte": (larger("tokenizer_config.json"), "at most 16,777,216 are read"),
    "long chat template": (
        changed("tokenizer_config.json", lambda content: content | {"chat_template": "x" * (2 << 20)}),
        "the chat template has 2,097,152 characters",
    ),
    "header of a petabyte": (header, ""),
    "vocabulary of a terabyte": (
        lambda folder: larger("vocab.txt")(folder),
        "vocab.txt has 1,099,511,627,776 bytes",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_folder_is_refused_at_once_in_one_sentence(model_folder, tmp_path, case):
    harm, reason = CASES[case]
    folder = shutil.copytree(model_folder("bert"), tmp_path / "odd")
    harm(folder)
    start = time.process_time()
    with pytest.raises(ModelError) as caught:
        lamina.load_encoder(str(folder), device="cpu")
    assert time.process_time() - start < 2
    assert reason in str(caught.value)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_tokenizers_of_real_architectures_are_read(model_folder):
    for name in ("bert", "mpnet"):
        check_tokenizer(json.loads((model_folder(name) / "tokenizer.json").read_text(encoding="utf-8")))


def gguf_file(path: Path, entries: bytes = b"", tensors: int = 0, count: int = 1) -> Path:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, tensors, count) + entries)
    return path


def text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


@pytest.mark.parametrize(
    ("entries", "tensors", "count", "reason"),
    [
        (b"", 0, 1 << 60, "says that it has 1,152,921,504,606,846,976 entries; at most 10,000 are read"),
        (b"", 1 << 40, 0, "1,099,511,627,776 tensors"),
        (struct.pack("<Q", 1 << 50), 0, 1, "bytes in a string"),
        (text(b"k") + struct.pack("<IIQ", 9, 4, 1 << 50), 0, 1, "elements; at most 4,000,000 are read"),
        (text(b"k") + struct.pack("<IIQ", 9, 4, 3_999_999), 0, 1, "is cut short"),
        (text(b"k") + struct.pack("<IIQ", 9, 9, 1), 0, 1, "unknown kind 9"),
        (text(b"k") + struct.pack("<I", 77), 0, 1, "unknown kind 77"),
        (text(b"t") + struct.pack("<I", 1 << 30), 1, 0, "tensor of 1073741824 dimensions"),
    ],
)
def test_gguf_metadata_is_bounded(tmp_path, entries, tensors, count, reason):
    path = gguf_file(tmp_path / "odd.gguf", entries, tensors, count)
    with pytest.raises(ModelError) as caught:
        lamina.load_encoder(str(path), device="cpu")
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_sound_gguf_metadata_is_passed(tmp_path):
    entries = text(b"a") + struct.pack("<I", 8) + text(b"llama") + text(b"b") + struct.pack("<IIQ", 9, 8, 2)
    entries += text(b"x") + text(b"y") + text(b"c") + struct.pack("<If", 6, 1.0)
    check_metadata(gguf_file(tmp_path / "sound.gguf", entries, 0, 3))


def test_headers_of_weights_are_read_up_to_a_size(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    content = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content + b"\0" * 8)
    assert bounds.stored_values(tmp_path) == 2
    monkeypatch.setattr(bounds, "LARGEST_HEADER", 10)
    assert bounds.stored_values(tmp_path) is None


def test_options_of_an_elmo_are_bounded(tmp_path):
    larger("options.json")(tmp_path)
    (tmp_path / "x_weights.hdf5").touch()
    with pytest.raises(InputError, match="at most 1,048,576 are read here"):
        lamina.load_encoder(str(tmp_path), device="cpu")


def test_a_panic_of_a_library_is_one_sentence_on_the_command_line():
    class PanicException(BaseException):
        """As Python knows a panic of a library in Rust: no `Exception`."""

    sentence = in_one_sentence(PanicException("Onig: retry limit\nmore"))
    assert sentence is not None
    assert "failed (Onig: retry limit); take another tokenizer" in sentence

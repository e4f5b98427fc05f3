"""Reading what comes from outside: regular files only, JSON of bounded depth."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.errors import InputError
from lamina.files.reading import DEEPEST, BoundedJson, check_regular, open_regular, parse_json, read_regular


def test_a_regular_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "link").symlink_to(tmp_path / "a")

    assert read_regular(tmp_path / "link") == b"one"
    with open_regular(tmp_path / "a") as file:
        assert file.read(1) == b"o"
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")

    for path, kind in (("pipe", "a named pipe"), ("link", "a named pipe"), ("", "a folder"), ("/dev/null", "a device")):
        for read in (open_regular, read_regular, check_regular):
            with pytest.raises(InputError, match=f"is {kind}, not a regular file; "):
                read(tmp_path / path)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "text", ['{"a": "[[[\\"{"}', nested(DEEPEST), json.dumps(["[" * 200] * 200), '"\\\\ud800 \\ud83d\\ude00"']
)
def test_sound_json_is_parsed(text: str) -> None:
    assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (nested(DEEPEST + 1), "nested deeper than 100 levels"),
        (nested(100_000), "nested deeper than 100 levels"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested deeper than 100 levels"),
        ('{"a": ["\\\\", "\\"", ' + nested(200) + "]}", "nested deeper than 100 levels"),
        ("9" * 5000, "a number with more than 4,300 digits"),
        ('["a\\ud800b"]', r"unpaired surrogate \(\\ud800\)"),
        ('"\\\\\\uDC00"', r"unpaired surrogate \(\\uDC00\)"),
    ],
)
def test_json_that_nothing_can_handle_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_json(text)


def test_text_that_is_no_json_says_where() -> None:
    with pytest.raises(json.JSONDecodeError, match="column 5"):
        parse_json('{"a"')


def pieces(file: BoundedJson, size: int) -> Iterator[bytes]:
    while piece := file.read(size):
        yield piece


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_depth_is_followed_from_piece_to_piece(size: int) -> None:
    sound = json.dumps([["\\", '"[[[', "]" * 5], {"a": "[" * 300 + '\\"'}] * 20).encode()
    deep = sound[:-1] + b", " + nested(DEEPEST).encode() + b"]"

    assert b"".join(pieces(BoundedJson(io.BytesIO(sound)), size)) == sound
    with pytest.raises(ValueError, match="nested deeper"):
        list(pieces(BoundedJson(io.BytesIO(deep)), size))

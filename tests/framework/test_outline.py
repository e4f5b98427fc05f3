"""What the command line knows of analyses without importing them is what they declare."""

from __future__ import annotations

import pytest

from checks.signatures import STUB, stub
from lamina.framework import get_analysis
from lamina.framework.outline import INDEX, outline_of, read_index, write_index
from lamina.framework.registry import homes

OURS = [name for name, home in homes().items() if home.startswith("lamina.")]


def test_the_index_is_written_anew_when_declarations_change(tmp_path) -> None:
    write_index(tmp_path / "index.json")

    assert (tmp_path / "index.json").read_text() == INDEX.read_text(), "declarations have changed: run `make index`"


def test_the_types_of_calls_are_written_anew_when_declarations_change() -> None:
    assert stub() == STUB.read_text(), "declarations have changed: run `make index`"


@pytest.mark.parametrize("name", OURS)
def test_an_outline_gives_the_command_what_the_declaration_would(name: str) -> None:
    read, declared = read_index(name), outline_of(get_analysis(name))

    assert read is not None
    for setting, other in zip((*read.options, *read.settings), (*declared.options, *declared.settings), strict=True):
        assert (setting.name, setting.option, setting.many, setting.text) == (
            other.name, other.option, other.many, other.text,
        )  # fmt: skip
        assert setting.choices == other.choices
        assert setting.required == other.required
        assert setting.about.group == other.about.group
        assert str(setting.default) == str(other.default)
    assert read.inputs == declared.inputs
    assert (read.title, read.chapter, read.in_report) == (declared.title, declared.chapter, declared.in_report)


def test_an_edited_declaration_is_read_from_its_module(monkeypatch) -> None:
    monkeypatch.setattr("lamina.framework.outline.declared_in", lambda home: "edited")

    assert read_index("heads") is None

"""Test suites by name: listed and shown; where a corpus is needed, the message says what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina.cli.main import app
from lamina.corpora import load_corpus
from lamina.errors import CorpusError

SYNTAXGYM = {
    "items": [
        {
            "item_number": 1,
            "conditions": [
                {"condition_name": "match", "regions": [{"content": "The dog"}, {"content": "barks"}]},
                {"condition_name": "mismatch", "regions": [{"content": "The dogs"}, {"content": "barks"}]},
            ],
        }
    ]
}


@pytest.fixture(autouse=True)
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two suites in LAMINA_DATA."""
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path))
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "blimp").mkdir()
    pairs = [{"sentence_good": f"Dogs bark {n}.", "sentence_bad": "Dogs barks."} for n in range(9)]
    (tmp_path / "blimp" / "first.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (tmp_path / "syntaxgym").mkdir()
    (tmp_path / "syntaxgym" / "number.json").write_text(json.dumps(SYNTAXGYM))


def output(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def test_suites_are_listed_with_their_licences() -> None:
    listed = output("data", "list").partition("Test suites")[2]
    assert "blimp  (on this machine)" in listed
    assert "lm_diagnostics  (not on this machine)" in listed
    assert "facts (T-REx) CC BY-SA 4.0" in listed


def test_a_suite_shows_its_first_items() -> None:
    shown = output("data", "show", "blimp", "--limit", "2")
    assert "A test suite for language models, not a corpus" in shown
    assert "Dogs bark 1." in shown
    assert "Dogs bark 2." not in shown
    assert "item 1, mismatch: The dogs | barks" in output("data", "show", "syntaxgym")


@pytest.mark.parametrize("content", ["[1]", '{"items": 3}', "{", "null"])
def test_a_damaged_suite_is_one_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "syntaxgym" / "number.json").write_text(content)
    done = CliRunner().invoke(app, ["data", "show", "syntaxgym"])
    assert isinstance(done.exception, CorpusError)
    assert "number.json is not a SyntaxGym suite" in str(done.exception)


@pytest.mark.parametrize(
    ("name", "what"),
    [("blimp", "a test suite for language models"), ("minilm", "a model"), ("glove", "a set of word vectors")],
)
def test_what_is_no_corpus_says_what_it_is(name: str, what: str) -> None:
    with pytest.raises(CorpusError, match=f"{name} is {what}, not a corpus of texts with labels"):
        load_corpus(name)

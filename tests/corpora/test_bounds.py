"""Every reader: bounded digits and depth, regular files only, time linear in the size of a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.corpus import View
from lamina.corpora.detection import detect
from lamina.corpora.formats.catalogue import get_format
from lamina.corpora.question_sets import read_questions
from lamina.corpora.reading import Fault
from lamina.errors import CorpusError, InputError, LaminaError
from lamina.types import Text

LONG = "9" * 5000
DEEP = "[" * 20_000 + "]" * 20_000
ROW = "{}\tw\t_\tX\t_\t_\t{}\tdep\t_\t_\n"
CONLLULEX = "{}\tw\t_\tX\tX\t_\t{}\tdep" + "\t_" * 11 + "\n"
GAP = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
EDGES = {"text": "Dogs bark", "targets": [{"span1": [0, 1], "label": "X"}]}
UDS = {"uds_id": "u", "sent_id": "s", "tokens": ["a"]}
STREUSLE = {"sent_id": "s-1", "tokens": ["a"], "exprs": []}
PROPBANK = {"sent_id": "s", "tokens": ["a"], "pos": ["X"], "parse": ["(S*)"], "props": []}
HOTPOT = {"question": "Who?", "answer": "Bob", "supporting_facts": [["T", 0]], "context": [["T", ["Bob went."]]]}


def squad(context: str, *asked: dict[str, Any]) -> str:
    return json.dumps({"data": [{"title": "T", "paragraphs": [{"context": context, "qas": asked}]}]}, indent=0)


def asked(id: object = "q", start: int = 0, text: str = "Bob") -> dict[str, Any]:
    return {"id": id, "question": "Who?", "answers": [{"text": text, "answer_start": start}]}


def checked(path: Path, form: str) -> tuple[list[Text], list[Fault]]:
    faults: list[Fault] = []
    return list(get_format(form).read(path, faults.append)), faults


@pytest.mark.parametrize(
    ("form", "name", "content", "what"),
    [
        ("conllu", "x.conllu", ROW.format(LONG, 0), "id '999"),
        ("conllu", "x.conllu", ROW.format(f"1-{LONG}", "_") + ROW.format(1, 0), "id '1-999"),
        ("conllu", "x.conllu", ROW.format(1, LONG), "head '999"),
        ("conllu", "x.conllu", ROW.format("\u0661", 0), "id '\u0661'"),
        ("conllu", "x.conllu", ROW.format("1-999999999", "_") + ROW.format(1, 0), "up to word 999999999"),
        ("conllu", "x.conllu", ROW.format(1, 0) + ROW.format(2, "00"), "head '00' is not a number"),
        ("babi", "x.txt", f"{LONG} Ann went.\n", "not the next line of a story"),
        ("babi", "x.txt", f"1 Ann went.\n2 Where?\tx\t{LONG}\n", "is not complete"),
        ("gap", "x.tsv", f"{GAP}x\tHe met Bob\tHe\t{LONG}\tBob\t7\tTRUE\tHe\t0\tFALSE\tu\n", "Pronoun-offset is '999"),
        (
            "gap",
            "x.tsv",
            f"{GAP}x\tHe met Bob\tHe\t\u00b2\tBob\t7\tTRUE\tHe\t0\tFALSE\tu\n",
            "Pronoun-offset is '\u00b2'",
        ),
        ("streusle", "x.conllulex", CONLLULEX.format(LONG, 0), "word 999"),
        ("streusle", "x.conllulex", CONLLULEX.format(1, LONG), "head '999"),
        ("streusle", "x.conllulex", CONLLULEX.format("1-2", 0) + CONLLULEX.format(1, 2), "head '2'"),
        ("streusle", "x.jsonl", json.dumps(STREUSLE | {"exprs": [[0, 1, "N"]]}), "not enough values"),
        ("streusle", "x.jsonl", json.dumps(STREUSLE | {"exprs": [[0, 1, "N", 3, None]]}), "'3' is not a name"),
        ("streusle", "x.jsonl", json.dumps(STREUSLE | {"sent_id": True}), "'True' is not a name"),
        ("edge_jsonl", "x.jsonl", json.dumps(EDGES | {"info": {"annotation": 3}}), "'3' is not a name"),
        ("edge_jsonl", "x.jsonl", DEEP, "JSON nested deeper than 100 levels"),
        ("edge_jsonl", "x.jsonl", f'{{"text": "a", "targets": [], "x": {DEEP}}}', "JSON nested deeper than 100 levels"),
        ("edge_jsonl", "x.jsonl", f'{{"text": {LONG}}}', "a number with more than 4,300 digits"),
        ("edge_jsonl", "x.jsonl", '{"text": "a \\ud800", "targets": []}', "unpaired surrogate"),
        (
            "edge_jsonl",
            "x.jsonl",
            json.dumps(EDGES | {"targets": [{"label": "X", "span1": [0, 10**4299]}]}),
            "not a span",
        ),
        ("uds_jsonl", "x.jsonl", json.dumps(UDS | {"factuality": [[10**4299, 1, 1]]}), "not the index of a word"),
        ("uds_jsonl", "x.jsonl", json.dumps(UDS | {"factuality": [[0, 10**400, 1]]}), "is not a number"),
        ("uds_jsonl", "x.jsonl", json.dumps(UDS | {"factuality": [[0, float("nan"), 1]]}), "'nan' is not a number"),
        ("propbank", "x.jsonl", json.dumps(PROPBANK | {"sent_id": ["s"]}), "is not a name"),
        ("squad", "x.json", DEEP, "JSON nested deeper than 100 levels"),
        ("squad", "x.json", f'{{"data": {LONG}}}', "a number with more than 4,300 digits"),
        ("hotpot", "x.json", json.dumps([HOTPOT | {"context": [["T", "Bob"]]}]), "cannot be read"),
        ("hotpot", "x.json", json.dumps([HOTPOT | {"answer": "a" * 10_001}]), "the answer is too long"),
        ("uds", "x.json", f'{{"metadata": {{}}, "data": {{"g": {DEEP}}}}}', "JSON nested deeper than 100 levels"),
        ("uds", "x.json", f'{{"metadata": {{}}, "data": {{"g": {LONG}}}}}', "not JSON (parse error: integer overflow)"),
    ],
)
def test_what_no_reader_can_use_is_a_fault_in_words(
    form: str, name: str, content: str, what: str, tmp_path: Path
) -> None:
    (tmp_path / "ud_ids.json").write_text("{}")
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")

    texts, faults = checked(path, form)

    assert not texts
    assert what in faults[0].what
    assert len(str(faults[0])) < 1000
    with pytest.raises(LaminaError):
        list(get_format(form).read(path))


@pytest.mark.parametrize("ids", [DEEP, f'{{"a": {LONG}}}', "[]", "\xff"])
def test_a_list_of_ids_that_cannot_be_used_is_one_fault(ids: str, tmp_path: Path) -> None:
    (tmp_path / "ud_ids.json").write_text(ids, encoding="latin-1")
    (tmp_path / "uds-x.json").write_text('{"metadata": {}, "data": {"a": {}, "b": {}}}')

    texts, faults = checked(tmp_path / "uds-x.json", "uds")

    assert not texts
    assert [fault.path.name for fault in faults] == ["ud_ids.json"]


def test_deep_brackets_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.mrg"
    path.write_text("(S " * 20_000 + "(NN x)" + ")" * 20_000)

    texts, faults = checked(path, "ptb")

    assert not faults
    assert len(texts[0].edges["const"]) == 20_000


def test_a_sentence_without_an_end_is_one_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.corpora.reading._MOST_LINES", 10)
    path = tmp_path / "x.conllu"
    path.write_text(ROW.format(1, 0) + "\n" + "1\n" * 100 + "\n" + ROW.format(1, 0))

    texts, faults = checked(path, "conllu")

    assert len(texts) == 2
    assert [(fault.line, fault.what) for fault in faults] == [(3, "more than 10 lines without a blank line")]


def test_a_story_and_its_answers_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("".join(f"{n} Ann went.\n" for n in range(1, 600)) + "600 Where?\thome\t1\n")
    assert [fault.what for fault in checked(path, "babi")[1]] == ["the story is too long"]

    path.write_text(f"1 Ann went {'x ' * 6000}.\n2 Bo went home.\n3 Where is Bo?\thome\t2\n")
    assert [fault.what for fault in checked(path, "babi")[1]] == ["a line of 12,012 characters"]

    path.write_text("".join(f"1 Ann went.\n2 Where?\tx{n}\t1\n" for n in range(1001)))
    texts, faults = checked(path, "babi")
    assert not texts
    assert [fault.what for fault in faults] == ["task x has 1,001 different answers"]
    assert sum(1 for _ in read_questions(path, format="babi", view=View(babi="classification"))) == 1001


def test_a_split_list_that_is_not_utf8_is_said_so(tmp_path: Path, treebank: Callable[..., str]) -> None:
    (tmp_path / "a.conllu").write_text(treebank("s1"))
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "train.txt").write_bytes(b"\xff")

    with pytest.raises(CorpusError, match=r"train.txt is not UTF-8; save it as UTF-8"):
        load_corpus(tmp_path, "train", format="conllu")


@pytest.mark.parametrize("form", [None, "conllu", "plain", "squad", "edge_jsonl", "gum", "uds"])
def test_a_pipe_is_no_corpus(form: str | None, tmp_path: Path, cache: Path) -> None:
    os.mkfifo(tmp_path / "pipe.conllu")

    with pytest.raises(InputError, match=r"pipe.conllu is a named pipe, not a regular file"):
        load_corpus(tmp_path / "pipe.conllu", "all", format=form)
    with pytest.raises(InputError, match="is a named pipe"):
        detect(tmp_path / "pipe.conllu")


def test_a_pipe_in_a_folder_is_never_opened(tmp_path: Path, treebank: Callable[..., str], cache: Path) -> None:
    (tmp_path / "a.conllu").write_text(treebank("s1"))
    os.mkfifo(tmp_path / "b.conllu")
    assert len(load_corpus(tmp_path, "all")) == 1

    gum = tmp_path / "gum"
    for name in ("dep", "const"):
        (gum / name).mkdir(parents=True)
    (gum / "dep" / "d.conllu").write_text(treebank("s1"))
    os.mkfifo(gum / "const" / "d.ptb")
    with pytest.raises(CorpusError, match="file not found; expected the trees of"):
        load_corpus(gum, "all")
    os.mkfifo(gum / "dep" / "e.conllu")
    with pytest.raises(InputError, match=r"e.conllu is a named pipe"):
        load_corpus(gum, "all")


def test_a_read_error_in_the_middle_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    path.write_text("One .\nTwo .\n")
    corpus = load_corpus(path, "all", format="plain")

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("lamina.corpora.reading.open_regular", fails)
    with pytest.raises(CorpusError, match=r"x.txt cannot be read: .*Input/output error"):
        list(corpus)


def _misplaced(count: int) -> str:
    return squad("Bob went home.", *(asked(f"q{n}", 5) for n in range(count)))


def _chain(count: int) -> str:
    return "".join(ROW.format(n, n + 1 if n < count else 0) for n in range(1, count + 1))


# Quadratic time would be many seconds each.
@pytest.mark.parametrize(
    ("form", "content", "faults"),
    [
        pytest.param("squad", lambda: _misplaced(10_000), 10_000, id="every answer misplaced"),
        pytest.param("squad", lambda: squad("." * 100_000 + "Bob", asked(start=100_000)), 0, id="stops"),
        pytest.param(
            "squad",
            lambda: squad("Bob ran. " * 5000, asked() | {"answers": asked()["answers"] * 5000}),
            0,
            id="answers and sentences",
        ),
        pytest.param(
            "hotpot",
            lambda: json.dumps([HOTPOT | {"answer": "a b " * 2000 + "c", "context": [["T", ["a b " * 50_000]]]}]),
            0,
            id="almost an answer",
        ),
        pytest.param("conllu", lambda: "# a" + " " * 100_000 + "x\n" + ROW.format(1, 0), 0, id="spaces in a comment"),
        pytest.param("conllu", lambda: _chain(15_000), 0, id="a chain of heads"),
    ],
)
def test_time_is_linear_in_the_size(form: str, content: Callable[[], str], faults: int, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(content())

    start = time.process_time()
    _, found = checked(path, form)

    assert time.process_time() - start < 3
    assert len(found) == faults


def test_a_fault_of_a_question_has_the_line_of_its_own_id(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    qas = [asked("a", 5), asked('b"\u00e9\\', 5), asked("a", 5), asked(7, 5), asked("c"), asked("a", 5)]
    path.write_text(squad("Bob went home.", *qas))
    ids = [number for number, line in enumerate(path.read_text().splitlines(), start=1) if line.startswith('"id"')]

    _, faults = checked(path, "squad")

    assert [(fault.line, fault.what.partition(":")[0]) for fault in faults] == [
        (ids[0], "question a"),
        (ids[1], 'question b"\u00e9\\'),
        (ids[2], "question a"),
        (ids[3], "question 7"),
        (ids[5], "question a"),
    ]


def test_texts_may_be_numbered(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(STREUSLE | {"sent_id": 3}) + "\n", encoding="utf-8")

    assert [text.id for text in get_format("streusle").read(path)] == ["3"]

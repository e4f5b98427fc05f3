"""`lamina data`: list, show, stats, check, convert."""

from __future__ import annotations

import csv
import errno
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lamina.cli.data import app
from lamina.corpora.catalogue import names
from lamina.errors import CorpusError, DiskFullError, InputError

TREEBANK = """\
# newdoc id = d1
# sent_id = s1
1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_

# sent_id = s2
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_

"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "bark"
    root.mkdir()
    for split in ("train", "dev", "test"):
        (root / f"xx-ud-{split}.conllu").write_text(TREEBANK)
    return root


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(arg) for arg in args])


def output(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_every_corpus() -> None:
    listed = output("list")

    assert all(name in listed for name in names())
    assert "CORPUS" not in listed
    assert "on this machine" in listed


def test_show_prints_texts_with_their_edges(folder: Path) -> None:
    shown = output("show", folder, "--split", "dev")

    assert shown.startswith("s1  (document d1)\n  Dogs bark\n  pos: Dogs/NOUN bark/VERB\n")
    assert "    nsubj  [0:1] Dogs -> [1:2] bark\n" in shown


def test_show_keeps_to_what_is_asked(folder: Path) -> None:
    shown = output("show", folder, "--split", "dev", "--limit", 1, "--annotation", "dep")

    assert "nsubj" in shown
    assert "NOUN" not in shown
    assert "s2" not in shown
    assert output("show", folder, "--split", "dev", "--unit", "document").startswith("d1  (document d1)\n")


def test_show_of_graded_and_empty_annotations(tmp_path: Path) -> None:
    (tmp_path / "uds.dev.jsonl").write_text(
        '{"uds_id": "u", "sent_id": "s", "tokens": ["Dogs", "bark"], "noun_supersense": [],'
        ' "factuality": [[1, -1.25, 1.0]]}\n'
    )

    shown = output("show", tmp_path / "uds.dev.jsonl")

    assert "  supersense: nothing found\n" in shown
    assert "    -  [1:2] bark  value -1.25\n" in shown


def test_an_annotation_that_is_not_there_is_refused(folder: Path) -> None:
    for command in (("show",), ("stats",), ("convert", folder / "out.jsonl")):
        result = run(command[0], folder, *command[1:], "--annotation", "srl")
        assert isinstance(result.exception, CorpusError)
        assert "has no 'srl'; it has" in str(result.exception)


def test_stats_counts_every_split(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "out" / "stats.csv"

    printed = output("stats", folder, "--csv", table)

    assert "UD, as annotated" in printed
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["split"] for row in rows} == {"train", "dev", "test"}
    pos = next(row for row in rows if row["split"] == "dev" and row["annotation"] == "pos")
    assert pos == {
        "split": "dev",
        "texts": "2",
        "words": "3",
        "annotation": "pos",
        "annotated": "2",
        "targets": "3",
        "labels": "3",
    }


def test_stats_of_one_annotation_counts_its_labels(folder: Path, tmp_path: Path) -> None:
    output("stats", folder, "--annotation", "dep", "--csv", tmp_path / "dep.csv")

    with (tmp_path / "dep.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["dep", "train", "dev", "test"],
            ["root", "2", "2", "2"],
            ["nsubj", "1", "1", "1"],
        ]


def test_stats_says_what_was_made(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("".join(f"Line {number} .\n" for number in range(100)))

    assert "dev is 10 % of the documents of the corpus, by hash with seed 0" in output("stats", path)
    assert "made:" not in output("stats", path, "--split", "all")


def test_check_finds_no_fault(folder: Path) -> None:
    assert output("check", folder / "xx-ud-dev.conllu") == "no faults: 2 texts, 3 words, read as conllu\n"
    assert output("check", folder).endswith("no faults: 6 texts, 9 words, read as conllu\n")


def test_check_reports_every_fault_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(TREEBANK + "1\tDogs\tdog\n\n" + TREEBANK.replace("\t2\tnsubj", "\tx\tnsubj"))

    result = run("check", path)

    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"{path}:9: ")
    assert lines[1].startswith(f"{path}:13: ")
    assert lines[2].startswith("2 kinds of faults; 2 in all; valid: 3 texts")


def test_check_of_very_many_faults_is_short(tmp_path: Path) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(TREEBANK + "".join(f"1\tword{number}\n\n" for number in range(2000)))

    result = run("check", path)

    lines = result.output.splitlines()
    assert result.exit_code == 1
    assert len(lines) == 7
    assert all(line.startswith(f"{path}:") for line in lines[:5])
    assert lines[5:] == [
        "  ... and 1,995 more like these",
        "1 kind of faults; 2,000 in all; --all shows all of them; valid: 2 texts, 3 words, read as conllu",
    ]
    every = run("check", path, "--all").output.splitlines()
    assert len(every) == 2001
    assert every[-1] == "1 kind of faults; 2,000 in all; valid: 2 texts, 3 words, read as conllu"


def test_check_of_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.conllu")
    for options in ((), ("--format", "conllu")):
        assert isinstance(run("check", tmp_path / "pipe.conllu", *options).exception, InputError)

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "a.txt").write_text("a")
    monkeypatch.setattr("lamina.corpora.reading.open_regular", fails)
    said = run("check", tmp_path / "a.txt", "--format", "plain").exception
    assert isinstance(said, CorpusError)
    assert "a.txt cannot be read: " in str(said)


def test_a_full_disk_leaves_the_old_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lamina.files.writing.sync", full)
    out = tmp_path / "out"
    out.write_text("old")
    for command in (("convert", folder, out, "--annotation", "pos"), ("stats", folder, "--csv", out)):
        assert isinstance(run(*command).exception, DiskFullError)
        assert out.read_text() == "old"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bark", "out"]


def test_check_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.conllu").touch()

    result = run("check", tmp_path / "empty.conllu", "--format", "conllu")

    assert result.exit_code == 1
    assert "contains no text" in result.output
    assert isinstance(run("check", tmp_path / "nowhere").exception, CorpusError)


def test_convert_writes_what_can_be_read_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "dep-dev.jsonl"

    said = output("convert", folder, out, "--annotation", "dep", "--split", "dev")

    assert said == f"{out}: 2 texts, 3 targets of dep\n"
    assert output("show", out, "--split", "dev") == output("show", folder, "--split", "dev", "--annotation", "dep")


def test_help_teaches() -> None:
    for command in ("list", "show", "stats", "check", "convert"):
        assert command in output("--help")
        assert "Usage" in output(command, "--help")


def test_check_tells_what_is_left_out_or_changed(tmp_path: Path) -> None:
    path = tmp_path / "types.txt"
    path.write_text("HUM:ind Who was it ?\nHUM:ind Who was it ?\n")

    assert output("check", path) == (
        "questions that are duplicates: 1 (first: types-2)\nno faults: 1 texts, 4 words, read as trec\n"
    )


def test_questions_with_contexts_are_shown_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "qa1_where_test.txt"
    path.write_text("1 Ann went home.\n2 Bob went out.\n3 Where is Ann?\thome\t1\n4 Who?\tBob\t9\n")

    shown = run("check", path)

    assert shown.exit_code == 1
    fault = "qa1_where_test.txt:4: question qa1_where_test-4: supporting line 9 is not a fact before the question"
    assert fault in shown.output
    path.write_text("1 Ann went home.\n2 Bob went out.\n3 Where is Ann?\thome\t1\n")
    text = output("show", path)
    assert "answer: home/home" in text
    assert "    1  [0:4] Where is Ann ? -> [4:8] Ann went home .\n" in text
    assert "stories-qa1-dev-1" in output("show", "stories", "--split", "dev", "--first", "1")

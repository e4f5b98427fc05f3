"""What errors advise works: commands and options that they name exist, and the advice is followed, by kind."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import typer

import lamina
from lamina.cli import main
from lamina.cli.analyses import evaluation_command
from tests import german_treebank
from tests.cli.conftest import Done

SOURCE = Path(lamina.__file__).parent
OTHERS = {
    *("--no-deps", "--only-binary", "--ignore-requires-python", "--no-input", "--dest"),  # of pip
    *("--ignore-scripts", "--silent", "--pack-destination"),  # of npm
    *("--array", "--job-name", "--output"),  # of Slurm
    *("--error-unmatch", "--always", "--dirty", "--abbrev"),  # of git
    *("--commit", "--archive", "--unknown"),  # of a script of the assets
    *("--splitt", "--layers", "--lr", "--text", "--from", "--no-", "--help", "--paper"),  # examples, parts of options
}
FEW = ("--samples", 10, "--no-twin")


def commands() -> dict[tuple[str, ...], set[str]]:
    """Every command -> its options; a group of commands has none."""
    known: dict[tuple[str, ...], set[str]] = {}

    def collect(command: click.Command, path: tuple[str, ...]) -> None:
        inner = getattr(command, "whole", command)
        known[path] = {name for option in inner.params for name in (*option.opts, *option.secondary_opts)}
        if hasattr(command, "list_commands"):
            context = click.Context(command)
            for name in command.list_commands(context):  # pyright: ignore[reportAttributeAccessIssue]
                collect(command.get_command(context, name), (*path, name))  # pyright: ignore[reportAttributeAccessIssue]

    collect(typer.main.get_command(main.app), ())
    return known


def evaluation_options() -> set[str]:
    """Options of `lamina choose --evaluate-label-free`, which has its own."""
    return {name for option in evaluation_command().params for name in option.opts}


def messages() -> Iterator[tuple[str, str]]:
    """Every text in the source, with its place; what an f-string fills in is `{}`."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts: set[int] = set()
        # Nodes come before what is in them.
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts.update(map(id, node.values))
                text = "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", text
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node.value


def test_every_command_that_a_message_names_exists_with_its_options() -> None:
    known, wrong = commands(), []
    known[("choose",)] |= evaluation_options()
    options = set().union(*known.values()) | OTHERS
    groups = {path[:length] for path in known for length in range(len(path))}
    for place, text in messages():
        wrong += [f"{place}: {name}" for name in re.findall(r"(?<![\w`-])--[a-z][a-z-]*", text) if name not in options]
        for words in (match.split() for match in re.findall(r"`lamina ([^`]*)`", text)):
            path: tuple[str, ...] = ()
            while len(path) < len(words) and (*path, words[len(path)]) in known:
                path = (*path, words[len(path)])
            rest = words[len(path) :]
            if not path and not rest[0].startswith(("{", "--help")):
                wrong.append(f"{place}: no command {rest[0]}")
            if path in groups and path and rest and not rest[0].startswith(("{", ".")):
                wrong.append(f"{place}: no command {' '.join(words)}")
            wrong += [
                f"{place}: `{' '.join(words)}`: no {word}"
                for word in rest
                if path and word.startswith("--") and word.rstrip(",.;") not in known[path]
            ]
    assert wrong == []


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A treebank with dev only."""
    return german_treebank.write(tmp_path / "bank", dev=240)


def refused(done: Done, pattern: str) -> re.Match[str]:
    """The advice in the sentence of a refused command."""
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    said = " ".join(done.output.replace("│", " ").split())
    found = re.search(pattern, said)
    assert found, said
    return found


def followed(done: Done) -> None:
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "command",
    [
        ("structure", "--rank", 2, "--layer", 1, "--attention", 0, "--no-control"),
        ("order", "--split", "dev", "--task", "index", "--items", 40, "--steps", 2, "--seeds", 1),
        ("probe", "--task", "pos", "--seeds", 1, "--schedule", "steps=4"),
    ],
    ids=lambda words: words[0],
)
def test_a_treebank_with_dev_only(
    run: Callable[..., Done], bert: Path, bank: Path, tmp_path: Path, command: tuple[object, ...]
) -> None:
    name, *settings = command
    asked = (name, bert, "--corpus", bank, *settings, *FEW, "--out", tmp_path / "out")
    advice = refused(run(*asked), r"divide it by document with (--split-from) (\w+)")
    followed(run(*asked, *advice.groups()))


def test_a_file_of_no_known_format(run: Callable[..., Done], bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.odd"
    path.write_text("\x01 the dog barked\n\x01 a cat ran\n" * 6)
    asked = ("geometry", bert, "--corpus", path, "--split", "all", *FEW, "--out", tmp_path / "out")
    advice = refused(run(*asked), r"give it with (--format) \(([^)]*)\)")
    assert "plain" in advice[2].split(", ")
    followed(run(*asked, advice[1], "plain"))


def test_a_folder_of_several_formats(run: Callable[..., Done], bert: Path, bank: Path, tmp_path: Path) -> None:
    (bank / "trees.mrg").write_text("( (S (NP (NNS Dogs)) (VP (VBP bark))) )\n" * 5)
    asked = ("geometry", bert, "--corpus", bank, "--split", "all", *FEW, "--out", tmp_path / "out")
    refused(run(*asked), r"choose one with --format, or files with (--include)")
    followed(run(*asked, "--include", "*.conllu"))
    followed(run(*asked, "--format", "conllu", "--replace"))


def test_a_faulty_sentence(run: Callable[..., Done], bert: Path, bank: Path, tmp_path: Path) -> None:
    path = bank / "de-dev.conllu"
    path.write_text(path.read_text().replace("3\t", "three\t", 1))
    asked = ("geometry", bert, "--corpus", path, "--split", "all", *FEW, "--out", tmp_path / "out")
    advice = refused(run(*asked), r"leave out up to 5 % of the texts with (--skip-faulty) (0\.05)")
    followed(run(*asked, *advice.groups()))


def test_a_result_that_is_there(run: Callable[..., Done], bert: Path, bank: Path, tmp_path: Path) -> None:
    asked = ("geometry", bert, "--corpus", bank, "--split", "all", "--no-twin", "--out", tmp_path / "out", "--samples")
    followed(run(*asked, 10))
    advice = refused(run(*asked, 11), r"use (--replace)")
    followed(run(*asked, 11, advice[1]))


def test_names_that_are_misspelt(run: Callable[..., Done], bert: Path, bank: Path, tmp_path: Path) -> None:
    asked = ("geometry", bert, "--split", "all", *FEW, "--out", tmp_path / "out")
    assert refused(run(*asked, "--corpus", "ewtt"), r"did you mean (\w+)\?")[1] == "ewt"
    assert refused(run("geometry", "minilmm"), r"did you mean (\w+)\?")[1] == "minilm"
    advice = refused(run(*asked, "--corpsu", bank), r"Possible options: (--\w+)")
    followed(run(*asked, advice[1], bank))


def test_a_table_whose_columns_say_nothing(run: Callable[..., Done], bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("id\tp\tq\n" + "".join(f"{n}\t{n * 3}\tthe dog ran {n}\n" for n in range(40)))
    asked = ("geometry", bert, "--corpus", path, "--split", "all", *FEW, "--out", tmp_path / "out")
    done = run(*asked)
    if done.exit_code:
        advice = refused(done, r"--format '(table:text=)COLUMN,label=COLUMN'")
        followed(run(*asked, "--format", f"{advice[1]}q"))


def test_pairs_of_equal_sentences(run: Callable[..., Done], speaker: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("good\tbad\nThe dog ran.\tThe dog ran.\n" + "the cat ran.\tthe cat cat.\n" * 8)
    asked = ("pairs", speaker, "--suite", path, "--ngrams", "none", *FEW, "--out", tmp_path / "out")
    advice = refused(run(*asked), r"leave out all that are equal with (--skip-equal)")
    followed(run(*asked, advice[1]))


def test_a_saved_point_of_an_order_that_is_not_run(
    run: Callable[..., Done], speaker: Path, treebank: Path, tmp_path: Path
) -> None:
    few = ("--target", "loss", "--items", 4, "--step", 4, "--draws", 1)
    asked = ("prune", speaker, "--corpus", treebank, *few, *FEW, "--save", "top:1", "--out", tmp_path / "out")
    advice = refused(run(*asked, "--by", "bottom"), r"name the order with (--by) (top)")
    followed(run(*asked, "--by", "bottom", *advice.groups()))


def test_a_sentence_without_its_model(run: Callable[..., Done], bert: Path, bank: Path, tmp_path: Path) -> None:
    probing = ("--task", "pos", "--seeds", 1, "--schedule", "steps=4", "--split-from", "dev", *FEW)
    followed(run("probe", bert, "--corpus", bank, *probing, "--out", tmp_path / "probed"))
    asked = ("trace", tmp_path / "probed", "der Hund lobt", "--out", tmp_path / "out")
    advice = refused(run(*asked), r"name the model that was probed with (--model)")
    followed(run(*asked, advice[1], bert))

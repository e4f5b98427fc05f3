"""The command `lamina` itself: mistakes answered in words, help, version, completion."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from safetensors import SafetensorError
from typer.testing import CliRunner

from lamina import __main__
from lamina.activations import ActivationStore
from lamina.cli import main


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"model": "no/such-model"}, "there is no model 'no/such-model'"),
        ({"model": "ewt"}, "is a corpus, not a model"),
        ({"--corpus": "ewtt"}, "did you mean ewt"),
        ({"--corpus": "missing/file.conllu"}, "file or folder not found: missing/file.conllu"),
        ({"--split": "validation"}, "validation"),
        ({"--unit": "paragraph"}, "paragraph"),
        ({"--unit": "window:0"}, "window"),
        ({"--format": "docx"}, "docx"),
        ({"--dtype": "float8"}, "float8"),
        ({"--device": "toaster"}, "toaster"),
        ({"--limit": "0"}, "limit"),
        ({"--max-tokens": "1"}, "1"),
        ({"--store": "own-dev.conllu"}, "cannot create a store"),
        ({"--nonsense": "1"}, "nonsense"),
    ],
    ids=str,
)
def test_a_mistake_is_answered_in_words(
    changed: dict[str, str],
    why: str,
    bert: Path,
    treebank: Path,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(treebank.parent)
    given = {"model": str(bert), "--corpus": str(treebank), "--store": str(store)} | changed
    options = [part for name, value in given.items() if name != "model" for part in (name, value)]
    monkeypatch.setattr(sys, "argv", ["lamina", "encode", given["model"], *options])

    with pytest.raises(SystemExit) as stopped:
        __main__.main()

    told = capsys.readouterr().err
    assert stopped.value.code in (1, 2)
    assert why in told
    assert "Traceback" not in told
    if not told.startswith("Usage: "):
        assert told.startswith("lamina: ")
        assert told.count("\n") == 1


def test_a_folder_of_something_else_is_not_overwritten(
    bert: Path, treebank: Path, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["geometry", str(bert), "--corpus", str(treebank), "--store", str(store), "--out", str(treebank.parent)]
    monkeypatch.setattr(sys, "argv", ["lamina", *asked])

    with pytest.raises(SystemExit, match="2"):
        __main__.main()

    assert "holds something other than a result" in capsys.readouterr().err
    assert treebank.exists()


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whether a command sees to it that its process ends; this one goes on."""
    seen: list[str] = []
    monkeypatch.setattr(__main__, "end_soon", lambda: seen.append("soon"))
    return seen


def test_stopping_by_hand_says_that_work_is_kept(
    bert: Path,
    treebank: Path,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ended: list[str],
) -> None:
    def stopped(*args: object, **settings: object) -> ActivationStore:
        raise KeyboardInterrupt

    monkeypatch.setattr(ActivationStore, "of", stopped)
    monkeypatch.setattr(sys, "argv", ["lamina", "encode", str(bert), "--corpus", str(treebank), "--store", str(store)])

    with pytest.raises(SystemExit, match="130"):
        __main__.main()

    assert "run the same command to continue" in capsys.readouterr().err
    assert ended == ["soon"]


def test_a_thread_that_never_ends_does_not_keep_a_stopped_command() -> None:
    program = """
import threading, lamina.__main__ as program
program._PATIENCE = 0.1
threading.Thread(target=threading.Event().wait).start()
program.end_soon()
"""

    done = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)

    assert done.returncode == 130


def test_python_dash_m_tells_its_version() -> None:
    told = subprocess.run([sys.executable, "-m", "lamina", "--version"], capture_output=True, text=True, check=True)

    assert re.fullmatch(r"lamina \d+\.\d+\.\d+( \(commit [0-9a-f]+(-dirty)?\))?\n", told.stdout)


def test_without_arguments_there_is_help() -> None:
    told = CliRunner().invoke(main.app, [])

    assert "See what every layer" in told.output
    assert all(command in told.output for command in ("encode", "geometry", "report", "assets", "data", "store"))


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("lamina geo", "geometry"), ("lamina ver", "verify"), ("lamina assets show mini", "minilm")],
)
def test_shells_complete_commands_and_names(typed: str, offered: str) -> None:
    words = typed.split()
    asked = {"_LAMINA_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}

    told = CliRunner(env=asked).invoke(main.app, [], prog_name="lamina")

    assert offered in told.stdout.split()


def test_a_completion_script_is_made() -> None:
    told = CliRunner(env={"_LAMINA_COMPLETE": "source_bash"}).invoke(main.app, [], prog_name="lamina")

    assert told.exit_code == 0
    assert "_LAMINA_COMPLETE=complete_bash" in told.stdout
    assert "complete -o default -F _lamina_completion lamina" in told.stdout


def test_stopping_while_modules_are_loaded_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: list[str]
) -> None:
    class Interrupted(ModuleType):
        @property
        def main(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "lamina.cli.main", Interrupted("lamina.cli.main"))

    with pytest.raises(SystemExit, match="130"):
        __main__.main()

    assert capsys.readouterr().err == "lamina: stopped; finished work is saved, run the same command to continue\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left on the disk; finished work is saved"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "no space left on the disk"),
        (PermissionError(errno.EACCES, "Permission denied", "results"), "results: Permission denied"),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system"),
        (MemoryError(), "not enough memory; finished work is saved"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 64 bytes"), "not enough memory"),
    ],
    ids=["full", "full-safetensors", "forbidden", "read-only", "memory", "memory-torch"],
)
def test_what_the_machine_lacks_is_told_in_one_sentence(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(main, "app", fails)

    with pytest.raises(SystemExit, match="1"):
        main.main()

    told = capsys.readouterr().err
    assert told.startswith(f"lamina: {said}")
    assert told.count("\n") == 1


@pytest.mark.parametrize("bug", [ZeroDivisionError(), RuntimeError("shapes differ"), OSError("odd")])
def test_a_bug_keeps_its_traceback(bug: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise bug

    monkeypatch.setattr(main, "app", fails)

    with pytest.raises(type(bug)):
        main.main()


HEAVY = ("torch", "transformers", "pandas", "altair", "scipy", "sklearn", "pyarrow", "fastapi", "numpy", "tokenizers")
MISTAKES = (
    ["hedas"],
    ["heads", "minilm", "--nope"],
    ["heads", "minilmm"],
    ["heads", "minilm", "--corpus", "ewtt"],
    ["heads", "minilm", "--samples", "-1"],
    ["report", "minilmm"],
    ["encode", "minilmm"],
    ["model", "check", "minilmm"],
    ["run", "no-such-request.toml"],
)
CALLS = """
import io, sys, typer
from contextlib import redirect_stderr, redirect_stdout
from lamina.cli.main import main
heavy, mistakes = eval(sys.stdin.read())

def call(words):
    sys.argv = ["lamina", *words]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            status = end.code
    analyses = [name for name in sys.modules if name.startswith("lamina.analyses.")]
    if loaded := [*(name for name in heavy if name in sys.modules), *analyses]:
        raise SystemExit(f"{words} imports {loaded}")
    return status

def helps(command, path):
    assert call([*path, "--help"]) == 0, path
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        helps(command.get_command(None, name), [*path, name])

from lamina.cli.main import app
helps(typer.main.get_command(app), [])
assert [call(words) for words in mistakes] == [2] * len(mistakes)
"""


def test_help_and_mistakes_are_answered_without_heavy_packages_or_analyses(tmp_path: Path) -> None:
    """One process for all commands: a module that one of them imports stays imported, and names it."""
    done = subprocess.run(
        [sys.executable, "-c", CALLS],
        cwd=tmp_path,
        input=repr((HEAVY, MISTAKES)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


FAULTY = """
import sys
from lamina.cli.main import main
for words in eval(sys.stdin.read()):
    sys.argv = ["lamina", *words]
    try:
        main()
    except SystemExit as end:
        print(end.code, file=sys.stderr)
print(sorted({"torch", "transformers", "sklearn"} & set(sys.modules)))
"""


def test_faults_of_small_files_are_told_before_torch_is_imported(tmp_path: Path) -> None:
    """Importing torch takes seconds, reading the file takes none."""
    (tmp_path / "own.jsonl").write_text('{"text": "Dogs bark .", "label": "a"}\n' * 30 + '{"text": \n')
    (tmp_path / "own.csv").write_text("right,wrong\nDogs bark.,Dogs barks.\n")
    (tmp_path / "cloze.csv").write_text("text,word\nDogs ___.,bark\n")
    commands = [
        ["heads", "minilm", "--corpus", "own.jsonl", "--split", "all"],
        ["probe", "minilm", "--corpus", "own.jsonl", "--task", "label"],
        ["report", "minilm", "--corpus", "own.jsonl", "--split", "all"],
        ["encode", "minilm", "--corpus", "own.jsonl", "--split", "all"],
        ["pairs", "minilm", "--suite", "own.csv"],
        ["cloze", "minilm", "--suite", "cloze.csv"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", FAULTY],
        cwd=tmp_path,
        input=repr(commands),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["[]"], done
    line = "lamina: own.jsonl:31: not JSON (Expecting value at column 10); expected one JSON object per line. "
    line += "Mend the line, or leave out up to 5 % of the texts with --skip-faulty 0.05"
    said = done.stderr.splitlines()
    assert said[:8] == [line, "2"] * 4
    assert said[8].startswith("lamina: own.csv:1: no column 'good' (the columns are: right, wrong); ")
    assert said[10].startswith("lamina: cloze.csv:1: no column 'answer' (the columns are: text, word); ")
    assert (said[9], said[11], len(said)) == ("2", "2", 12)


def test_completion_needs_no_heavy_package() -> None:
    """What a shell calls to complete `lamina hea<TAB>`."""
    asked = {"_LAMINA_COMPLETE": "complete_bash", "COMP_WORDS": "lamina hea", "COMP_CWORD": "1"}
    script = (
        "import sys; sys.argv = ['lamina']\n"
        "from lamina.cli.main import app\n"
        "try: app(prog_name='lamina')\n"
        "except SystemExit: pass\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], env=os.environ | asked, capture_output=True, text=True)
    assert {"heads", "headmap", "[]"} <= set(done.stdout.split()), done

"""`lamina report` from the shell's side: it prints the page's path, plans, and refuses in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import lamina.models
from lamina.cli.main import app
from lamina.errors import InputError
from lamina.framework.outline import outline
from lamina.framework.registry import get_analysis
from lamina.report import report as making
from lamina.testing import TinyEncoder


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `lamina report tiny` on a small text, in this process."""
    text = tmp_path / "pets.txt"
    text.write_text("the dog saw the cat\nthe cat ran\na dog ran\n" * 5, encoding="utf-8")
    monkeypatch.setattr(lamina.models, "load_encoder", lambda name, **_: TinyEncoder())
    monkeypatch.setattr("lamina.cli.terminal.refuse_misspelt", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    given = ["report", "tiny", "--corpus", "pets.txt", "--split", "all", "--format", "plain", "--store", "store"]

    def run_with(*more: str):
        return CliRunner().invoke(app, [*given, *more], catch_exceptions=True)

    return run_with


def test_it_prints_the_path_of_the_page(run):
    done = run("--out", "here", "--only", "geometry")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == str(Path("here/index.html"))
    assert Path("here/index.html").is_file()


def test_a_dry_run_counts_and_writes_nothing(run):
    done = run("--out", "here", "--dry-run", "--limit", "3")
    assert done.exit_code == 0
    assert "passes" in done.stdout
    assert "memory   about" in done.stdout
    assert not Path("here").exists()


def test_names_are_separated_by_commas_or_options_are_repeated(run, monkeypatch):
    asked = []
    monkeypatch.setattr(making.ReportRun, "write", lambda self, names, **_: asked.append(list(names)))
    for given in (["--only", "geometry,attention"], ["--only", "geometry", "--only", "attention"]):
        assert run(*given).exit_code == 0
    assert run("--only", "heads,geometry,attention", "--without", "heads").exit_code == 0
    assert asked == [["geometry", "attention"]] * 3
    refused = run("--without", "answring")
    assert str(refused.exception).startswith("a report has no analysis 'answring'; it has: geometry")


def test_a_dry_run_counts_fine_tuning(run, monkeypatch):
    from lamina.framework.estimate import Cost

    few = {name: outline(name) for name in ("geometry", "finetune")}
    monkeypatch.setattr(making, "in_report", lambda: few)
    asked = SimpleNamespace(analysis=get_analysis("finetune"), loaded=SimpleNamespace(model={"name": "tiny"}))

    def question(self, name, tuned=None):
        return asked if name == "finetune" else SimpleNamespace(analysis=few[name])

    monkeypatch.setattr(making.ReportRun, "question", question)
    monkeypatch.setattr("lamina.framework.estimate.estimate", lambda asked: Cost(steps=9, seconds=5))
    monkeypatch.setattr(making, "finetuning_cost", lambda asked: (Cost(steps=9, seconds=40), 71.0))
    told = run("--dry-run").stdout
    assert "time     about 45 s on this machine" in told
    assert told.endswith(
        "of this, fine-tuning tiny on stories (9 steps): about 71 s of CPU time; leave it out with --without finetune\n"
    )
    assert "time     about 5 s" in run("--dry-run", "--without", "answering").stdout
    assert "time     about 5 s" in run("--dry-run", "--limit", "3").stdout


@pytest.mark.parametrize("plan", [True, False])
def test_the_model_computes_in_what_was_asked_for(run, monkeypatch, plan):
    asked = []

    def load(name, **how):
        asked.append(how["dtype"])
        return TinyEncoder()

    monkeypatch.setattr(lamina.models, "load_encoder", load)
    done = run("--only", "geometry", "--dtype", "bfloat16", *(["--dry-run"] if plan else []))
    assert done.exit_code == 0
    assert asked == ["bfloat16"]


def test_targets_of_edge_jsonl_get_their_name(run, monkeypatch):
    line = '{"text": "dogs bark", "targets": [{"span1": [0, 1], "label": "NOUN"}, {"span1": [1, 2], "label": "VERB"}]}'
    Path("mine.jsonl").write_text(f"{line}\n" * 20, encoding="utf-8")
    seen = []
    monkeypatch.setattr(making.ReportRun, "write", lambda self, *_, **__: seen.append(self.texts.annotations))
    done = run("--corpus", "mine.jsonl", "--format", "edge_jsonl", "--annotation", "pos")
    assert done.exit_code == 0
    assert seen == [("pos",)]
    refused = run("--annotation", "pos")
    assert "pets.txt: it has no annotation that could be named 'pos'" in str(refused.exception)


def test_an_unknown_analysis_is_refused_before_anything_is_loaded(run, monkeypatch):
    monkeypatch.delattr(lamina.models, "load_encoder")
    done = run("--only", "geometry, prob")
    assert isinstance(done.exception, InputError)
    assert str(done.exception).startswith(
        "a report has no analysis 'prob'; it has: geometry, probe, choose, attention,"
    )


def test_a_text_without_annotations_is_not_probed(run, monkeypatch):
    monkeypatch.setattr(making, "in_report", lambda: {name: outline(name) for name in ("geometry", "probe")})
    done = run("--out", "here")
    assert done.exit_code == 0
    assert "Edge probing is left out" in Path("here/index.html").read_text(encoding="utf-8")
    refused = run("--out", "there", "--only", "probe")
    assert "too small to be cut into train and dev" in str(refused.exception)
    assert not Path("there").exists()


def test_a_dry_run_counts_what_probing_trains(run, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "in_report", lambda: {name: outline(name) for name in ("geometry", "probe")})
    folder = tmp_path / "tagged"
    folder.mkdir()
    for split, count in (("train", 40), ("dev", 5)):
        lines = []
        for number in range(count):
            lines += [f"# newdoc id = {split}{number}", f"1\tdog{number}\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_"]
            lines += ["2\tran\t_\tVERB\t_\t_\t0\troot\t_\t_", ""]
        (folder / f"tagged-{split}.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = run("--corpus", "tagged", "--split", "dev", "--format", "conllu", "--out", "here", "--dry-run")
    assert done.exit_code == 0, done.exception
    steps = next(line for line in done.stdout.splitlines() if line.startswith("steps"))
    assert int(steps.split()[1].replace(",", "")) > 0
    assert not Path("here").exists()

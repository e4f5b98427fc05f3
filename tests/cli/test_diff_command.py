"""`lamina diff`, from the command line to a folder of results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner
from typer.testing import Result as Told

from lamina.cli.main import app
from lamina.corpora import load_corpus
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.verify import check_findings
from lamina.results import Result
from lamina.training.provenance import TEXTS, text_hash


def run(command: str, *args: object) -> Told:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, *(str(arg) for arg in args)])


@pytest.fixture
def tuned(bert: Path, tmp_path: Path) -> Path:
    """The tiny BERT with its weights a little moved, as fine-tuning would."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = tmp_path / "tuned"
    model = AutoModel.from_pretrained(bert)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "encoder.layer.1" in name:
                weight += 0.1 * torch.randn(weight.shape, generator=draw)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder


@pytest.fixture
def shallow(bert: Path, tmp_path: Path) -> Path:
    from transformers import AutoConfig, AutoTokenizer, BertModel

    folder = tmp_path / "shallow"
    config = AutoConfig.from_pretrained(bert)
    config.num_hidden_layers = 1
    BertModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder


def test_what_changed_is_where_weights_changed(bert, tuned, treebank, store, tmp_path):
    out = tmp_path / "out"
    told = run("diff", bert, tuned, "--corpus", treebank, "--store", store, "--samples", 20, "--out", out)
    assert told.exit_code == 0, (told.output, told.exception)
    assert told.stdout.splitlines()[-1] == str(out)
    assert "in brackets: the baseline" in told.stdout
    table = pd.read_csv(out / "diff.csv")
    assert ",".join(table.columns) == (
        "layer,head,measure,value,low,high,baseline,difference,diff_low,diff_high,p_adjusted,units,needed,unit,seeds"
    )
    assert not check_findings(Result.load(out))
    cosine = table[table["measure"] == "cosine"].set_index("layer")["value"]
    assert cosine[[0, 1]].tolist() == pytest.approx([1, 1], abs=1e-4)
    assert cosine[2] < 0.999
    heads = table[table["measure"] == "attention_similarity"].set_index(["layer", "head"])["value"]
    assert heads[1].tolist() == pytest.approx([1, 1], abs=1e-4)
    assert Result.load(out).provenance.model["name"] == f"{bert.name} and tuned"


@pytest.mark.usefixtures("hasty_probes")
def test_probes_asked_for_or_given(bert, tuned, treebank, store, tmp_path):
    # Other sentences than those scored, for probes do not learn from what they are scored on.
    treebank.write_text(
        treebank.read_text().replace("\tthe\tX\t", "\tthe\tDET\t").replace("\tThe\tX\t", "\tThe\tDET\t")
    )
    learned = treebank.read_text().replace(" = s", " = t").replace("\tthe\t", "\ta\t").replace("\tThe\t", "\tA\t")
    (treebank.parent / "own-train.conllu").write_text(learned)
    few = ("--store", store, "--samples", 20, "--seeds", 1)
    corpus = ("--corpus", treebank.parent, "--format", "conllu")
    told = run(
        "diff", bert, tuned, *corpus, *few, "--probe", "pos", "--no-attention", "--no-twin", "--out", tmp_path / "a"
    )
    assert told.exit_code == 0, (told.output, told.exception)
    asked = Result.load(tmp_path / "a").tables["diff"]
    assert {"probe_a:pos", "probe_b:pos", "probe_difference:pos"} < set(asked["measure"])
    for side, model in (("a", bert), ("b", tuned)):
        told = run(
            "probe",
            model,
            *corpus,
            *few,
            "--task",
            "pos",
            "--probes",
            "layer",
            "--no-twin",
            "--out",
            tmp_path / f"probed-{side}",
        )
        assert told.exit_code == 0, (told.output, told.exception)
    given = ("--probed", tmp_path / "probed-a", "--probed", tmp_path / "probed-b")
    told = run("diff", bert, tuned, *corpus, *few, *given, "--no-attention", "--no-twin", "--out", tmp_path / "b")
    assert told.exit_code == 0, (told.output, told.exception)
    pd.testing.assert_frame_equal(Result.load(tmp_path / "b").tables["diff"], asked)
    told = run("compare", tmp_path / "probed-a", tmp_path / "probed-b", "--out", tmp_path / "both")
    assert told.exit_code == 0, (told.output, told.exception)
    assert "The best single layer" in told.stdout
    assert (tmp_path / "both" / "heatmap.svg").exists()
    told = run("compare", tmp_path / "probed-a", "--out", tmp_path / "one")
    assert isinstance(told.exception, InputError)


def test_dry_run_computes_nothing(bert, tuned, treebank, store, tmp_path):
    told = run("diff", bert, tuned, "--corpus", treebank, "--store", store, "--dry-run", "--out", tmp_path / "out")
    assert told.exit_code == 0, (told.output, told.exception)
    assert told.stdout.splitlines()[:2] == ["passes   5", "texts    6"]
    assert not (tmp_path / "out").exists()


def test_texts_it_was_tuned_on(bert, tuned, treebank, store, tmp_path):
    texts = list(load_corpus(str(treebank), "all"))
    (tuned / TEXTS).write_text("\n".join(text_hash(text) for text in texts[:2]))
    settings = ("--corpus", treebank, "--split", "dev", "--store", store)
    told = run("diff", bert, tuned, *settings, "--samples", 20, "--no-attention", "--out", tmp_path / "out")
    assert told.exit_code == 0, (told.output, told.exception)
    assert "2 texts that a model was fine-tuned on, left out" in told.stdout
    (tuned / TEXTS).write_text("\n".join(text_hash(text) for text in texts))
    told = run("diff", bert, tuned, *settings, "--out", tmp_path / "none")
    assert isinstance(told.exception, CorpusError)
    assert "was fine-tuned on every text of" in str(told.exception)


def test_mistakes_are_told(bert, tuned, shallow, treebank, store, tmp_path):
    told = run("diff", bert, shallow, "--corpus", treebank, "--store", store, "--out", tmp_path / "out")
    assert isinstance(told.exception, ModelError)
    assert "has 2 blocks and shallow has 1; layers are compared one with one" in str(told.exception)
    told = run("diff", bert, tuned, "--corpus", treebank, "--store", store, "--probed", tmp_path)
    assert isinstance(told.exception, InputError)
    assert "probed takes two results of `lamina probe`, of the model before and of the model after; got 1" in str(
        told.exception
    )

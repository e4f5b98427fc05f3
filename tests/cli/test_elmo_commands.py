"""An ELMo by its folder, from the command line to the files: it is checked, encoded, measured and probed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from lamina.analyses.layers.probe.training import PRESETS
from lamina.probes.bank import Schedule
from lamina.results import Result
from tests.elmo_folders import OPTIONS, elmo_arrays, save_elmo

WORDS = {"the": "DET", "dog": "NOUN", "unhesitatingly": "ADV", "barked": "VERB"}


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_elmo(tmp_path_factory.mktemp("models") / "tinyelmo")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words drawn at random, each hanging on the one before."""
    folder, draw = tmp_path_factory.mktemp("corpora") / "own", random.Random(0)
    folder.mkdir()
    for split, count in {"train": 60, "dev": 16}.items():
        lines = []
        for number in range(count):
            lines += [f"# newdoc id = {split}{number // 4}"] * (number % 4 == 0) + [f"# sent_id = {split}-{number}"]
            for at, word in enumerate(draw.choices(list(WORDS), k=6), start=1):
                lines.append(
                    f"{at}\t{word}\t{word}\t{WORDS[word]}\t_\t_\t{at - 1}\t{'dep' if at > 1 else 'root'}\t_\t_"
                )
            lines.append("")
        (folder / f"own-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


def test_it_has_a_passport(run, elmo):
    done = run("model", "check", elmo)
    assert done.exit_code == 0
    assert "ElmoEncoder" in done.output
    assert "sees the whole text; 2 blocks, no attention heads, 12 wide; no attention maps" in done.output
    assert "It has no attention maps." in done.output
    assert (
        "Analyses of its states work; those that take parts away or need a language-model head do not." in done.output
    )


def test_it_is_encoded_and_cut_words_are_counted(run, elmo, corpus, store):
    asked = ("encode", elmo, "--corpus", corpus, "--split", "dev", "--store", store)
    planned = run(*asked, "--dry-run")
    assert planned.exit_code == 0
    assert "tokens   96" in planned.output
    done = run(*asked)
    assert done.exit_code == 0
    assert "16 texts, 96 tokens, 3 layers of 12" in done.output
    cut = (corpus / "own-dev.conllu").read_text().count("\tunhesitatingly\tunh")
    assert f"{cut} words of more than 10 bytes, of which the first 10 were read" in done.output


def test_its_geometry_has_three_layers_and_a_twin(run, elmo, corpus, store, tmp_path):
    done = run("geometry", elmo, "--corpus", corpus, "--store", store, "--samples", 20, "--out", tmp_path / "g")
    assert done.exit_code == 0, done.output
    layers = pd.read_csv(tmp_path / "g" / "layers.csv")
    assert set(layers["model"]) == {"tinyelmo", "tinyelmo (random)"}
    assert sorted(set(layers["layer"])) == [0, 1, 2]


def test_it_is_probed_and_the_appendix_tables_are_there(run, elmo, corpus, store, tmp_path, monkeypatch):
    patience = {"halve_after": 1, "stop_after": 2, "min_gain": 0.05, "min_learning_rate": 3e-3}
    short = Schedule(learning_rate=1e-2, validate_every=5, max_validations=40, **patience, batch_texts=16, hidden=16)
    monkeypatch.setitem(PRESETS, "quick", replace(PRESETS["quick"], schedule=short, small=short))
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    asked = ("--corpus", corpus, "--task", "pos", "--samples", 20, "--store", store, "--out", tmp_path / "p")
    done = run("probe", elmo, *asked)
    assert done.exit_code == 0, done.output
    tables = Result.load(tmp_path / "p").tables
    # Figure A.1: the weights of P(2); figures A.2 and A.3: its other columns and the steps.
    full = tables["mixing"].query("upto == 2")
    assert sorted(set(full["layer"])) == [0, 1, 2]
    assert full.groupby("seed")["weight"].sum().tolist() == pytest.approx([1.0] * full["seed"].nunique(), abs=1e-5)
    assert {"f1_first", "f1_full", "center_of_gravity", "expected_layer"} < set(tables["summary"])
    assert sorted(set(tables["steps"].query("probe == 'cumulative'")["layer"])) == [1, 2]
    assert set(tables["scores"]["of"]) == {"model", "control", "random"}


def test_maps_and_heads_are_refused_in_words(run, elmo, corpus, tmp_path):
    for command, said in {
        "attention": "its attention maps cannot be used: it has no attention heads that look from token to token",
        "ablate": "is not a transformer, so it has no heads or blocks to ablate",
        "surprisal": "has no language-model head",
    }.items():
        done = run(command, elmo, "--corpus", corpus, "--out", tmp_path / command)
        assert done.exit_code == 2, command
        assert said in done.output, command
    faithful = run("probe", elmo, "--corpus", corpus, "--faithful", "--out", tmp_path / "f")
    assert faithful.exit_code == 2
    assert "has no token embeddings to put in place of its layer 0" in faithful.output


def test_bad_files_are_a_sentence_and_status_2(run, corpus, tmp_path):
    lacks = save_elmo(tmp_path / "lacks", arrays=elmo_arrays(OPTIONS) | {"CNN/b_cnn_1": None})
    other = save_elmo(tmp_path / "other", arrays={"0": [1.0, 2.0]})
    broken = save_elmo(tmp_path / "broken")
    (broken / "tiny_weights.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n and nothing more")
    for folder, said in {
        lacks: "tiny_weights.hdf5 lacks the tensor CNN/b_cnn_1, which options.json asks for",
        other: "tiny_weights.hdf5 is not the weights of an ELMo: it holds none of its tensors, such as char_embed",
        broken: "tiny_weights.hdf5 cannot be read as HDF5",
    }.items():
        for command in (("encode", folder, "--corpus", corpus), ("model", "check", folder)):
            done = run(*command)
            assert done.exit_code == 2
            assert said in done.output
            assert "Traceback" not in done.output

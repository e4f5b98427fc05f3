"""Several seeds: every model is kept in a folder of its own, scores are means, and analyses take them together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from safetensors.torch import load_file

from lamina.activations.runtime import Runtime
from lamina.analyses.answering.finetune import finetune
from lamina.comparison.diff import diff
from lamina.corpora import corpus_from
from lamina.corpora.corpus import View
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.inputs import as_encoder, as_encoders, describe_models
from lamina.results import Result
from lamina.results.index import ResultIndex
from lamina.stats.seeds import ENOUGH_SEEDS, draws_over_seeds
from lamina.training.provenance import (
    ABOUT,
    GUARD,
    guard_of,
    read_about,
    refuse_unlike,
    refuse_used,
    seed_folders,
    used_texts,
    view_of,
)
from lamina.training.reading import Sets

SETTINGS: dict[str, Any] = {"task": "squad", "max_steps": 3, "epochs": 99, "batch": 8, "lr": 1e-2, "device": "cpu"}
VIEW = View(setting="support", max_words=50)


@pytest.fixture(scope="module")
def sets(toy_questions) -> Sets:
    return Sets("toy", toy_questions(8, 1), toy_questions(8, 2), toy_questions(8, 3), view=VIEW)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results") / "several"


@pytest.fixture(scope="module")
def several(model_folder, sets: Sets, out: Path) -> Result:
    """Two seeds, in `out`."""
    return finetune(str(model_folder("bert")), sets, out=out, seeds=2, seed=3, **SETTINGS)


def test_every_seed_is_a_complete_model_and_scores_are_means(several, model_folder, sets, out, tmp_path) -> None:
    folders = seed_folders(out)
    assert [each.name for each in folders] == ["seed-3", "seed-4"]
    assert not (out / "config.json").exists()
    single = [
        finetune(str(model_folder("bert")), sets, out=tmp_path / str(seed), seed=seed, **SETTINGS) for seed in (3, 4)
    ]
    for seed, folder in zip((3, 4), folders, strict=True):
        # One seed alone is in the folder itself, with the very same weights.
        alone = load_file(tmp_path / str(seed) / "model.safetensors")
        assert all(torch.equal(part, alone[name]) for name, part in load_file(folder / "model.safetensors").items())
        about = read_about(folder)
        assert (about["plan"]["seed"], about["guard"], about["layers"]) == (seed, GUARD, 4)
        assert view_of(folder) == VIEW
        assert guard_of(folder) == GUARD
        with pytest.raises(CorpusError, match="was fine-tuned on 8 of the texts of mine"):
            refuse_used(folder, [item.text for item in sets.train], "mine")
    assert used_texts(folders[0]) == used_texts(folders[1])
    means = pd.concat([each.tables["scores"] for each in single]).groupby("metric", sort=False)["value"].mean()
    assert several.tables["scores"]["value"].tolist() == pytest.approx(means.tolist())
    assert several.tables["scores"]["seeds"].tolist() == [2, 2]
    by_seed = several.tables["seeds"].set_index(["metric", "seed"])["value"]
    for seed, each in zip("34", single, strict=True):
        own = each.tables["scores"].set_index("metric")["value"]
        assert [by_seed[metric, seed] for metric in own.index] == own.tolist()
        assert "seeds" not in each.tables
    assert sorted(several.tables["curve"]["seed"].unique()) == [3, 4]
    assert any("Over 2 seeds it ranges from" in each.text for each in several.findings)
    assert "2 seeds; dashed lines" in " ".join(several.chart("learning").to_dict()["title"]["subtitle"])


def test_asked_again_it_is_read(several, model_folder, sets, out) -> None:
    assert finetune(str(model_folder("bert")), sets, out=out, seeds=2, seed=3, **SETTINGS).key == several.key


def test_a_folder_of_seeds_is_several_models_and_never_one(several, out: Path) -> None:
    encoders = as_encoders(out, {}, Runtime(None, "cpu", None))
    assert [each.name for each in encoders] == ["several", "several"]
    assert encoders[0].fingerprint != encoders[1].fingerprint
    about = describe_models(encoders)
    assert [each["name"] for each in about["seeds"]] == ["seed-3", "seed-4"]
    assert about["fingerprint"] not in [each.fingerprint for each in encoders]
    with pytest.raises(ModelError, match=r"holds the models of 2 seeds.*such as .*seed-3"):
        as_encoder(out, {}, Runtime(None, "cpu", None))


def test_the_app_lists_every_seed(several, out: Path) -> None:
    listed = ResultIndex((out.parent,)).models()
    assert list(listed.values()) == [str(out / "seed-3"), str(out / "seed-4")]
    assert [name.rsplit("/", 1)[1] for name in listed] == ["seed-3", "seed-4"]


def fake(folder: Path, **about: Any) -> Path:
    """What lamina says of a model, without the model."""
    folder.mkdir(parents=True)
    said = {"format": 1, "task": "babi", "head": "QuestionAnswering", "labels": [], "layers": 4, "view": None}
    (folder / ABOUT).write_text(json.dumps({**said, "base": {"fingerprint": "x"}, **about}))
    return folder


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        ({"labels": ["a", "b"]}, "labels"),
        ({"task": "squad"}, "task"),
        ({"layers": 7}, "number of layers"),
        ({"view": View(tasks=(1,)).describe()}, "view of the data"),
        ({"base": {"fingerprint": "y"}}, "model they started from"),
    ],
    ids=["labels", "task", "layers", "view", "base"],
)
def test_seeds_that_disagree_are_refused(tmp_path: Path, differs: dict[str, Any], said: str) -> None:
    fake(tmp_path / "seed-0")
    fake(tmp_path / "seed-1")
    refuse_unlike(seed_folders(tmp_path))
    fake(tmp_path / "seed-10", **differs)
    with pytest.raises(ModelError, match=f"seed-0 and .*seed-10 differ in their {said}"):
        as_encoders(tmp_path, {}, Runtime(None, "cpu", None))


def test_what_changed_is_the_mean_over_seeds(several, model_folder, toy_texts, out: Path, tmp_path: Path) -> None:
    corpus = corpus_from(list(toy_texts(12, 7)), name="toys", split="dev")
    base, settings = str(model_folder("bert")), {"samples": 50, "store": tmp_path, "device": "cpu"}
    together = diff(base, str(out), corpus, **settings).tables["diff"]
    each = [diff(base, str(folder), corpus, **settings).tables["diff"] for folder in seed_folders(out)]
    assert set(together["seeds"]) == {2}
    assert together["value"].to_numpy() == pytest.approx(np.mean([one["value"] for one in each], axis=0), abs=1e-6)
    inside = (together["low"] <= together["value"] + 1e-6) & (together["value"] <= together["high"] + 1e-6)
    assert inside.all()
    # Both sides may have seeds, as many as the other.
    same = diff(str(out), str(out), corpus, attention=False, twin=False, **settings).tables["diff"]
    assert same["value"].to_numpy() == pytest.approx(np.ones(len(same)), abs=1e-4)
    three = [str(folder) for folder in (*seed_folders(out), seed_folders(out)[0])]
    with pytest.raises(ModelError, match=r"2 seeds and .* has 3; seeds are compared one with one"):
        diff(str(out), three, corpus, **settings)


def test_seeds_are_drawn_together_with_documents_from_five_on() -> None:
    rng = np.random.default_rng(0)
    seeds, samples = 6, 200_000
    models = rng.normal(size=seeds)
    # Without documents to vary, the interval is that of scipy for a mean of so few numbers.
    drawn = draws_over_seeds(models, np.tile(models[:, None], samples))
    expected = scipy.stats.t.interval(0.95, seeds - 1, models.mean(), models.std(ddof=1) / seeds**0.5)
    assert np.quantile(drawn, [0.025, 0.975]) == pytest.approx(expected, abs=0.02)
    # A sample's deviation and a model's add up: so do their variances (that of Student's t is 5 / 3 with 6 seeds).
    documents = rng.normal(size=samples)
    together = draws_over_seeds(models, models[:, None] + documents)
    assert together.var() == pytest.approx(1 + 5 / 3 * models.var(ddof=1) / seeds, rel=0.05)
    few = models[: ENOUGH_SEEDS - 1, None] + documents
    assert np.allclose(draws_over_seeds(models[: ENOUGH_SEEDS - 1], few), few.mean(0))


@pytest.mark.parametrize("vary", ["init", "order"])
def test_seeds_vary_new_weights_or_the_order_alone(model_folder, sets: Sets, tmp_path: Path, vary: str) -> None:
    """A step of rate 0 leaves the new weights as they were drawn: these are what a seed of init changes."""
    still = SETTINGS | {"lr": 1e-12, "max_steps": 1}
    result = finetune(str(model_folder("bert")), sets, out=tmp_path / vary, seeds=2, seed=3, vary=vary, **still)
    first, second = (load_file(folder / "model.safetensors") for folder in seed_folders(tmp_path / vary))
    alike = torch.allclose(first["qa_outputs.weight"], second["qa_outputs.weight"], atol=1e-6)
    assert alike == (vary == "order")
    spread = result.tables["spread"]
    assert (spread["varied"] == vary).all()
    assert (spread["seeds"] == 2).all()
    plan = read_about(seed_folders(tmp_path / vary)[1])["plan"]
    assert (plan["init_seed"], plan["order_seed"]) == ((None, 3) if vary == "init" else (3, None))


def test_what_seeds_vary_is_refused_where_there_is_one(model_folder, sets: Sets, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--vary init says what several seeds vary; give --seeds too"):
        finetune(str(model_folder("bert")), sets, out=tmp_path / "one", vary="init", **SETTINGS)

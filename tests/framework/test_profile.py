"""Estimates from counts and rates: nothing is run for them, and they learn from what runs took."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

import lamina
from lamina.activations import Runtime
from lamina.corpora import corpus_from
from lamina.errors import ModelError
from lamina.files.checking import read_json
from lamina.framework import estimate
from lamina.framework.estimate import (
    ENCODING,
    Estimator,
    MachineProfile,
    Rate,
    operations_of,
    profile_of,
    profiles,
    wall_seconds,
)
from lamina.framework.inputs import as_encoder
from lamina.framework.registry import get_analysis
from lamina.models.checks.passports import states_of
from lamina.results import Result
from lamina.testing import TinyEncoder

TEXTS = [["Dogs", "bark", "at", "cats"], ["Cats", "see", "the", "dogs"], ["Dogs", "sleep", "all", "day"]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_estimate_runs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = get_analysis("geometry").ask(TinyEncoder(), corpus_from(TEXTS), store=tmp_path)
    monkeypatch.setattr(TinyEncoder, "encode", lambda *_, **__: pytest.fail("encoded"))
    cost = estimate.estimate(query)

    assert (cost.texts, cost.passes) == (3, 2)
    assert cost.cpu > 0
    assert cost.seconds > 0


def test_costs_are_counts_times_rates(tmp_path: Path) -> None:
    encoder, corpus = TinyEncoder(), corpus_from(TEXTS)
    profile = profile_of(encoder, "cpu")
    rates = {"attention": Rate(2.0, 1.0, 0, 0, 1, "2026-11-19")}
    replace(profile, rates=rates).save()
    query = get_analysis("attention").ask(encoder, corpus, store=tmp_path)
    estimator = Estimator(query)
    texts, tokens = estimator.count()
    cost = estimator.cost()

    assert (texts, tokens) == (3, sum(len(encoder.tokenize(text).ids) for text in corpus))
    assert cost.cpu == pytest.approx(2.0 * tokens * operations_of(encoder))
    twice = Estimator(get_analysis("attention").ask(encoder, corpus_from(TEXTS * 2), store=tmp_path)).cost()
    assert twice.cpu == pytest.approx(2 * cost.cpu), "twice the tokens, twice the time"


def test_a_profile_learns_from_runs_and_is_refreshed_when_off_by_two() -> None:
    profile = MachineProfile("a model", "cpu", "float32")
    one = profile.with_run("heads", operations=100, foreseen=50, took=10, wall=5)
    near = one.with_run("heads", operations=100, foreseen=10, took=15, wall=20)
    off = near.with_run("heads", operations=100, foreseen=10, took=25, wall=20)

    assert [each.rates["heads"].seconds for each in (one, near, off)] == [0.1, 0.1, 0.25]
    assert (off.rates["heads"].runs, off.rates["heads"].off, off.rates["heads"].cores) == (3, 2.5, 2.0)
    off.save()
    assert MachineProfile.read("a model", "cpu", "float32") == off
    assert list(profiles()) == [off]
    assert one.with_run("heads", operations=100, foreseen=10, took=0.1, wall=1) == one, "too short to tell"


def test_a_rate_of_a_large_run_is_not_replaced_by_that_of_a_small_one() -> None:
    large = MachineProfile("m", "cpu", "float32").with_run("heads", operations=1000, foreseen=0, took=40, wall=40)
    small = large.with_run("heads", operations=10, foreseen=0.4, took=4, wall=4)
    larger = small.with_run("heads", operations=2000, foreseen=80, took=20, wall=20)

    assert small.rates["heads"].seconds == 0.04
    assert small.rates["heads"].off == 10, "how far it was off is told all the same"
    assert larger.rates["heads"].seconds == 0.01


def test_a_rate_of_another_model_here_is_better_than_one_from_elsewhere() -> None:
    unknown = MachineProfile("another model", "cpu", "float32")
    elsewhere = unknown.rate("heads")
    MachineProfile("a model", "cpu", "float32", {"heads": Rate(9.0, 2.0, 1, 1, 1, "2026-11-19")}).save()

    assert unknown.rate("heads").seconds == 9.0
    assert elsewhere.seconds != 9.0
    assert elsewhere.runs == 0
    assert unknown.rate(ENCODING).runs == 0
    on_card = MachineProfile("another model", "some GPU", "float32")
    assert on_card.rate("heads").runs == 0, "a CPU says nothing of a GPU"


@pytest.mark.parametrize("content", ["{", "[]", '{"rates": 3}', '{"rates": {"heads": {"x": 1}}, "model": "m"}'])
def test_a_damaged_profile_is_measured_again(content: str) -> None:
    profile = MachineProfile("m", "cpu", "float32", {"heads": Rate(1.0, 1.0, 1, 1, 1, "2026-11-19")})
    profile.save()
    profile.path.write_text(content)

    assert MachineProfile.read("m", "cpu", "float32").rates == {}
    assert list(profiles()) == []


def test_wall_time_depends_on_the_load_and_cpu_time_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = (TinyEncoder(), corpus_from(TEXTS))
    costs = []
    for load in (0.0, 16.0):
        monkeypatch.setattr("lamina.framework.estimate.other_load", lambda load=load: load)
        costs.append(lamina.attention.estimate(*asked, store=tmp_path))
        assert wall_seconds(10.0, 1.0) == pytest.approx(10.0 * max(1.0, (1 + load) / len(_cores())))

    assert costs[0].cpu == costs[1].cpu
    assert costs[1].seconds > 3 * costs[0].seconds


def _cores() -> list[int]:
    import os

    return list(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0] * (os.cpu_count() or 1)


def test_provenance_has_what_was_foreseen_and_what_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_WORTH_COUNTING", 0.0)
    result = lamina.geometry(TinyEncoder(), corpus_from(TEXTS), samples=20, store=tmp_path, out=tmp_path / "out")
    cost = Result.load(tmp_path / "out").provenance.cost

    assert cost == result.provenance.cost
    assert set(cost) == {"foreseen_cpu_seconds", "cpu_seconds", "seconds"}
    assert all(value >= 0 for value in cost.values())
    head = json.loads((tmp_path / "out" / "result.json").read_text())
    assert head["provenance"]["cost"] == cost
    without = replace(result.provenance, cost={})
    assert asdict(without)["cost"] == {}


@pytest.fixture
def folder(model_folder, tmp_path: Path) -> Path:
    """A copy of a tiny BERT that a test may change."""
    return shutil.copytree(model_folder("bert"), tmp_path / "bert")


def test_a_model_that_was_loaded_before_is_not_loaded_for_an_estimate(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Mock(side_effect=lamina.load_encoder)
    monkeypatch.setattr("lamina.models.load_encoder", loaded)
    geometry = get_analysis("geometry")
    first = geometry.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")
    twin_drawn = geometry.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")
    loaded.reset_mock()
    again = geometry.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")
    heads = get_analysis("attention").estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")

    loaded.assert_not_called()
    assert replace(first, seconds=0, memory=0) == replace(again, seconds=0, memory=0)
    assert replace(twin_drawn, seconds=0, memory=0) == replace(again, seconds=0, memory=0)
    assert again.memory >= first.memory, "the model will be loaded for the answer"
    assert heads.tokens == again.tokens


def test_a_folder_whose_files_changed_is_loaded_for_its_estimate(folder: Path, tmp_path: Path) -> None:
    attention = get_analysis("attention")
    attention.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")
    (folder / "model.safetensors").write_bytes(b"damaged")

    with pytest.raises(ModelError, match="cannot be loaded"):
        attention.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")


def test_other_weights_of_the_same_size_and_date_are_loaded_for_their_estimate(folder: Path, tmp_path: Path) -> None:
    attention, weights = get_analysis("attention"), folder / "model.safetensors"
    attention.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")
    about = weights.stat()
    weights.write_bytes(bytes(about.st_size))
    os.utime(weights, ns=(about.st_atime_ns, about.st_mtime_ns))

    with pytest.raises(ModelError, match="cannot be loaded"):
        attention.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")


def test_a_model_whose_files_change_while_it_is_loaded_is_not_described(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str, **options: Any) -> Any:
        encoder = load_encoder(name, **options)
        (folder / "config.json").touch()
        return encoder

    load_encoder = lamina.load_encoder
    monkeypatch.setattr("lamina.models.load_encoder", load)
    as_encoder(str(folder), {}, Runtime(device="cpu"))
    assert not list((cache / "passports" / "models").glob("*"))


@pytest.mark.parametrize("content", ["", "{", "{}", '{"name": "bert"}'])
def test_a_damaged_description_is_not_counted_with(content: str, folder: Path, tmp_path: Path, cache: Path) -> None:
    attention = get_analysis("attention")
    first = attention.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu")
    (description,) = (cache / "passports" / "models").iterdir()
    description.write_text(content, encoding="utf-8")

    assert attention.estimate(str(folder), corpus_from(TEXTS), store=tmp_path, device="cpu").tokens == first.tokens
    assert read_json(description)["name"] == "bert", "it is written again"


def test_a_described_model_is_loaded_for_whatever_is_not_in_its_description(folder: Path) -> None:
    whole = as_encoder(str(folder), {}, Runtime(device="cpu"))
    described = as_encoder(str(folder), {}, Runtime(device="cpu", described=True))
    text = next(iter(corpus_from(TEXTS)))
    for name in ("name", "blocks", "heads", "width", "limit", "causal", "dtype", "fingerprint", "map_blocks", "source"):
        assert getattr(described, name) == getattr(whole, name), name
    assert described.tokenize(text).ids.tolist() == whole.tokenize(text).ids.tolist()
    assert described.random_twin(3).fingerprint == whole.random_twin(3).fingerprint
    one, other = (states_of(next(encoder.encode([text]))) for encoder in (described, whole))
    assert torch.equal(one, other)
    assert not hasattr(described, "nothing")


def test_an_estimate_imports_no_model_classes(folder: Path, tmp_path: Path) -> None:
    """They take longer to import than everything else."""
    (tmp_path / "texts.txt").write_text("Dogs bark at cats .\nCats sleep .\n", encoding="utf-8")
    options = ("--split", "all", "--device", "cpu", "--dry-run")
    asked = ["lamina", "attention", str(folder), "--corpus", str(tmp_path / "texts.txt"), *options]
    get_analysis("attention").estimate(str(folder), corpus_from(TEXTS), device="cpu")
    script = f"import sys; sys.argv = {asked!r}; from lamina.cli.main import main\n"
    script += "try: main()\nexcept SystemExit: pass\nprint('transformers.modeling_utils' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "texts    2" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"

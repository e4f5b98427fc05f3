"""Layers that are frozen keep their weights, and layers that are re-initialised do not."""

from __future__ import annotations

import pytest
import torch

import lamina
from lamina.analyses.answering.finetune import finetune
from lamina.errors import InputError
from lamina.models import load_encoder
from lamina.models.interventions.pruned import layer_weights
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.training.answering import FinetunedFolder
from lamina.training.reading import Sets

SHORT = {"task": "pos", "epochs": 99.0, "batch": 8, "device": "cpu"}


def loaded(folder: object) -> HuggingFaceEncoder:
    encoder = load_encoder(str(folder), device="cpu")
    assert isinstance(encoder, HuggingFaceEncoder)
    return encoder


@pytest.fixture
def sets(toy_texts) -> Sets:
    return Sets("toy", toy_texts(8, 1), toy_texts(8, 2), toy_texts(8, 3))


def test_frozen_layers_keep_their_weights_and_all_others_learn(model_folder, sets, tmp_path) -> None:
    before = loaded(model_folder("bert"))
    finetune(str(model_folder("bert")), sets, freeze=2, max_steps=3, lr=1e-2, out=tmp_path / "out", **SHORT)
    tuned = FinetunedFolder.of(loaded(tmp_path / "out"))
    assert (tuned.plan.freeze, tuned.plan.reset, tuned.task) == (2, 0, "pos")
    for layer, names in enumerate(layer_weights(tuned.encoder)):
        same = [
            torch.equal(tuned.encoder.model.get_parameter(name), before.model.get_parameter(name)) for name in names
        ]
        assert all(same) if layer <= 2 else not any(each for each in same), layer


def test_top_blocks_begin_as_the_random_twin(model_folder, sets, tmp_path) -> None:
    before = loaded(model_folder("bert"))
    # Steps of no size: what is saved is what training began with.
    finetune(str(model_folder("bert")), sets, reset=1, max_steps=1, lr=1e-12, seed=4, out=tmp_path / "out", **SHORT)
    after, twin = loaded(tmp_path / "out"), before.random_twin(4)
    layers = layer_weights(before)
    for source, own in ((before, layers[:-1]), (twin, layers[-1:])):
        for name in [name for names in own for name in names]:
            assert torch.allclose(after.model.get_parameter(name), source.model.get_parameter(name), atol=1e-6), name


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"freeze": 9}, "freeze: .* has the layers 0 to 3; got 9"),
        ({"reset": 9}, "reset: .* has 3 blocks; got 9"),
        ({"freeze": 3, "reset": 1}, "layer 3 would be re-initialised and could not learn"),
    ],
    ids=["freeze", "reset", "both"],
)
def test_layers_that_are_not_there_are_refused_before_training(model_folder, sets, tmp_path, settings, said) -> None:
    with pytest.raises(InputError, match=said):
        lamina.finetune(str(model_folder("bert")), sets, out=tmp_path / "out", **SHORT, **settings)
    assert list(tmp_path.iterdir()) == []

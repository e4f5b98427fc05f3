"""Tuned lenses on states whose translators are known."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import rel_entr, softmax

from lamina.models.language.language_model import LanguageModel, language_model
from lamina.models.language.lens import ending_of, lens_logits
from lamina.probes.translators import TranslatorExamples, Translators, divergence, fit_translators
from tests.language_models import tiny_causal


def planted(model: LanguageModel, count: int, seed: int) -> TranslatorExamples:
    """Layer 0 is an affine map of what the last block made, layer 1 that itself; layer 2 knows nothing."""
    made = torch.Generator().manual_seed(seed)
    width = model.encoder.width
    goal = 3 * torch.randn(count, width, generator=made)
    mixed = torch.randn(width, width, generator=torch.Generator().manual_seed(99))
    noise = torch.randn(count, width, generator=made)
    last = ending_of(model.encoder)(goal)
    return TranslatorExamples(torch.stack([goal @ mixed + 5, goal, noise, last], 1), goal)


def kl(model: LanguageModel, test: TranslatorExamples, layer: int, translators: Translators | None) -> float:
    own = test.states[:, layer]
    with torch.no_grad():
        said = lens_logits(model, own if translators is None else translators(own, layer), layer)
        return divergence(model.logits(test.states[:, -1]), said).mean().item()


def test_a_planted_translator_is_found_and_what_is_right_already_is_left_alone() -> None:
    model = language_model(tiny_causal())
    learn, select, test = (planted(model, count, seed) for seed, count in enumerate((400, 80, 80)))
    found = fit_translators(model, learn, select, steps=8)
    assert kl(model, test, 0, None) > 0.5
    assert kl(model, test, 0, found) < 0.01
    assert found.chosen[1] == "plain" or kl(model, test, 1, found) < 1e-5
    # Nothing is known at layer 2: no more can be learned than which pieces are likely at all.
    assert kl(model, test, 2, found) < kl(model, test, 2, None)
    assert kl(model, test, 2, found) > 0.05
    assert torch.equal(found(test.states[:, 3], 3), test.states[:, 3]), "the last layer is left as it is"


def test_steps_only_help_on_the_selection_part_and_follow_from_the_seed() -> None:
    model = language_model(tiny_causal())
    learn, select = planted(model, 200, 0), planted(model, 60, 1)
    without, trained, again = (fit_translators(model, learn, select, steps=steps, seed=3) for steps in (0, 24, 24))
    assert torch.allclose(trained.weights, again.weights, atol=1e-6)
    for layer in range(3):
        plain, ridge, tuned = (kl(model, select, layer, each) for each in (None, without, trained))
        assert tuned <= ridge + 1e-6 <= plain + 2e-6
    assert trained.chosen[2] == "kl"


def test_the_divergence_is_scipys() -> None:
    draw = np.random.default_rng(0)
    final, said = draw.normal(size=(2, 5, 7))
    expected = rel_entr(softmax(final, 1), softmax(said, 1)).sum(1)
    found = divergence(torch.from_numpy(final), torch.from_numpy(said))
    assert np.allclose(found.numpy(), expected)

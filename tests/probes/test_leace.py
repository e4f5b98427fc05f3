"""Erasing concepts: the theorem, the closed form of the paper, and random subspaces beside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from sklearn.linear_model import LogisticRegression

from lamina.probes.erasers import Eraser, StateMoments, Whitened

WIDTH, LABELS = 12, 4


def drawn(seed: int = 0, many: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
    """Correlated states whose classes have different means."""
    made = torch.Generator().manual_seed(seed)
    classes = torch.randint(0, LABELS, (many,), generator=made)
    mixing, means = (torch.randn(size, WIDTH, generator=made, dtype=torch.float64) for size in (WIDTH, LABELS))
    states = torch.randn(many, WIDTH, generator=made, dtype=torch.float64) @ mixing + 2 * means[classes] + 5
    return states, classes


def whitened(states: torch.Tensor, classes: torch.Tensor) -> Whitened:
    moments = StateMoments(layers=1, width=WIDTH, labels=[LABELS])
    for some in torch.arange(len(states)).split(256):
        moments.add(states[some, None])
        moments.add_labelled(states[some, None], [classes[some]])
    return Whitened(moments, 0)


def test_every_class_has_the_mean_of_all_and_no_linear_probe_finds_anything() -> None:
    states, classes = drawn()
    eraser = whitened(states, classes).concept(0)
    erased = eraser(states)
    assert eraser.rank == LABELS - 1
    for label in range(LABELS):
        torch.testing.assert_close(erased[classes == label].mean(0), states.mean(0), atol=1e-9, rtol=0)
    scaled = [((each - each.mean(0)) / states.std(0)).numpy() for each in (states, erased)]
    before, after = (LogisticRegression(solver="newton-cholesky").fit(each, classes.numpy()) for each in scaled)
    assert before.score(scaled[0], classes.numpy()) > 0.8
    assert np.abs(after.coef_).max() < 1e-6
    torch.testing.assert_close(eraser(erased), erased, atol=1e-9, rtol=0)


def test_it_is_the_closed_form_of_the_paper() -> None:
    """P = I - W^+ (W S_xz) (W S_xz)^+ W, W the inverse root of the covariance (Belrose et al. 2023, theorem 4.3)."""
    states, classes = drawn(1)
    given, told = states.numpy(), np.eye(LABELS)[classes.numpy()]
    apart = given - given.mean(0)
    whitening = np.linalg.inv(np.real(sqrtm(apart.T @ apart / len(given))))
    seen = whitening @ (apart.T @ (told - told.mean(0)) / len(given))
    projection = np.linalg.inv(whitening) @ seen @ np.linalg.pinv(seen, rcond=1e-9) @ whitening
    expected = given - apart @ projection.T
    found = whitened(states, classes).concept(0)
    np.testing.assert_allclose(found(states).numpy(), expected, atol=1e-8)
    lost = 1 - expected.var(0).sum() / given.var(0).sum()
    assert found.variance == pytest.approx(lost, abs=1e-9)


def test_states_that_have_no_class_are_changed_as_little_as_can_be() -> None:
    """The mean differences of the labelled ones are gone all the same."""
    states, classes = drawn(2)
    others = 3 + torch.randn(2000, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    moments = StateMoments(layers=1, width=WIDTH, labels=[LABELS])
    moments.add_labelled(states[:, None], [classes])
    moments.add(torch.cat([states, others])[:, None])
    eraser, alone = Whitened(moments, 0).concept(0), whitened(states, classes).concept(0)
    means = torch.stack([eraser(states)[classes == label].mean(0) for label in range(LABELS)])
    assert (means - means[0]).abs().max() < 1e-9
    every = torch.cat([states, others])
    changed, changed_alone = ((each(every) - every).square().sum() for each in (eraser, alone))
    assert changed < 0.9 * changed_alone


@pytest.mark.parametrize("variance", [False, True])
def test_a_random_subspace_has_the_rank_and_touches_nothing_of_the_concept(variance: bool) -> None:
    states, classes = drawn()
    space = whitened(states, classes)
    concept = space.concept(0)
    draws = [space.random(concept, torch.Generator().manual_seed(seed), variance=variance) for seed in (0, 0, 1)]
    for each in draws:
        assert each.rank == concept.rank
        erased = each(states)
        torch.testing.assert_close(erased.mean(0), states.mean(0), atol=1e-9, rtol=0)
        gaps = [state[classes == 0].mean(0) - state[classes == 1].mean(0) for state in (states, erased)]
        torch.testing.assert_close(gaps[0], gaps[1], atol=1e-8, rtol=0)
    assert (draws[0].variance == pytest.approx(concept.variance, rel=1e-3)) is variance
    torch.testing.assert_close(draws[0].left, draws[1].left)
    assert not torch.allclose(draws[0].left, draws[2].left)


def test_outliers_and_constant_dimensions_do_no_harm_in_single_precision() -> None:
    """Models have dimensions a thousand times as large as others, and sums that are always 0."""
    states, classes = drawn(4)
    states[:, 0] *= 1e4
    states[:, 1] = 7.0
    eraser = whitened(states.float(), classes).concept(0)
    erased = eraser(states.float())
    assert erased.dtype == torch.float32
    assert torch.equal(erased[:, 1], states[:, 1].float())
    spread = erased.std(0).clamp_min(1e-3)
    for label in range(LABELS):
        assert ((erased[classes == label].mean(0) - erased.mean(0)) / spread).abs().max() < 1e-4


def test_too_few_free_dimensions_lower_the_rank_of_a_random_subspace() -> None:
    states, _ = drawn()
    moments = StateMoments(layers=1, width=3, labels=[3])
    classes = torch.arange(600) % 3
    moments.add(states[:, None, :3])
    moments.add_labelled(states[:, None, :3], [classes])
    space = Whitened(moments, 0)
    concept = space.concept(0)
    assert concept.rank == 2
    random: Eraser = space.random(concept, torch.Generator().manual_seed(0))
    assert random.rank == 1

"""Structural probes: losses and gradients against the definition, planted trees given back, independent probes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.analyses.layers.structure.probing import (
    StructureIntervals,
    apply_maps,
    links_tally,
    root_tally,
    sentences_of,
)
from lamina.analyses.layers.structure.trees import GoldTree
from lamina.probes.structural import (
    PAPER,
    StructuralBank,
    StructuralGroup,
    StructuralSchedule,
    TreeSentences,
    depth_loss,
    distance_loss,
)

WIDTH = 12


def planted(count: int, *, noise: float, seed: int) -> tuple[torch.Tensor, list[GoldTree]]:
    """Words as sums of one direction per link on the way to the root, turned and with noise: distances are exact."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(99).normal(size=(WIDTH, WIDTH)))[0]
    vectors, trees = [], []
    for number in range(count):
        size = int(rng.integers(3, 9))
        heads, sums = np.zeros(size, int), np.zeros((size, WIDTH))
        order = rng.permutation(size)
        for at, word in enumerate(order[1:], 1):
            head = order[rng.integers(at)]
            heads[word] = head + 1
            sums[word] = sums[head]
            sums[word, at - 1] += 1
        vectors.append(sums @ turn + noise * rng.normal(size=(size, WIDTH)))
        trees.append(GoldTree(heads, np.zeros(size, bool), str(number), str(number), ("w",) * size))
    return torch.tensor(np.concatenate(vectors), dtype=torch.float32)[None], trees


def _score(
    bank: StructuralBank, group: StructuralGroup, vectors: torch.Tensor, trees: list[GoldTree], first: int
) -> float:
    values = apply_maps(bank.trained_[group].maps, vectors, trees, group.kind)[first:]
    tallies = (
        links_tally(values, trees[first:])
        if group.kind == "distance"
        else root_tally(values, trees[first:], faithful=False)
    )
    return StructureIntervals(trees[first:], samples=2, seed=0).estimate(tallies[0]).value


def test_planted_trees_are_given_back() -> None:
    vectors, trees = planted(360, noise=0.02, seed=0)
    learn, stop = sentences_of(vectors, trees, range(240)), sentences_of(vectors, trees, range(240, 300))
    distance, depth, flat = (
        StructuralGroup("distance", WIDTH, 0),
        StructuralGroup("depth", WIDTH, 0),
        StructuralGroup("distance", 1, 0),
    )
    bank = StructuralBank([distance, depth, flat]).fit(learn, stop)
    assert bank.trained_[distance].converged.all()
    assert _score(bank, distance, vectors, trees, 300) > 0.98
    assert _score(bank, depth, vectors, trees, 300) > 0.98
    # One dimension cannot hold trees that branch.
    assert _score(bank, flat, vectors, trees, 300) < 0.8


@pytest.mark.parametrize("kind", ["distance", "depth"])
def test_losses_and_gradients_are_those_of_the_definition(kind: str) -> None:
    """Against the definition pair by pair, differentiated by torch."""
    vectors, trees = planted(5, noise=0.3, seed=3)
    batch = sentences_of(vectors, trees).batch(np.arange(5))
    maps = torch.randn(1, WIDTH, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    total, start, losses = torch.zeros(()), 0, []
    for tree in trees:
        size = len(tree)
        projected = vectors[0, start : start + size] @ maps[0]
        start += size
        if kind == "distance":
            differences = projected[:, None] - projected[None]
            errors = (differences.square().sum(-1) - torch.tensor(tree.distances.astype(np.float32))).abs()
            losses.append(errors.sum() / size**2)
        else:
            errors = (projected.square().sum(-1) - torch.tensor(tree.depths.astype(np.float32))).abs()
            losses.append(errors.sum() / size)
    total = torch.stack(losses).mean()
    total.backward()
    with torch.no_grad():
        made = (distance_loss if kind == "distance" else depth_loss)(batch.padded(batch.words @ maps), batch)
        gradient = batch.words.transpose(1, 2) @ batch.packed(made.gradient)
    # Sums in another order.
    assert torch.allclose(made.by_sentence[0], torch.stack(losses).detach(), rtol=1e-4, atol=1e-4)
    assert maps.grad is not None
    assert torch.allclose(gradient, maps.grad, rtol=1e-3, atol=1e-4)


def test_a_probe_does_not_depend_on_the_others_in_its_bank() -> None:
    vectors, trees = planted(90, noise=0.1, seed=1)
    other = torch.cat([vectors, vectors.flip(-1) * 0.5 + 0.01])
    schedule = StructuralSchedule(max_validations=2, validate_every=5)
    group = StructuralGroup("distance", 3, 0)

    def fitted(words: torch.Tensor, groups: list[StructuralGroup]) -> torch.Tensor:
        learn, stop = sentences_of(words, trees, range(60)), sentences_of(words, trees, range(60, 90))
        return StructuralBank(groups, schedule).fit(learn, stop).trained_[group].maps[0]

    # Products of other shapes sum in another order.
    alone, together = fitted(vectors, [group]), fitted(other, [StructuralGroup("depth", 5, 1), group])
    assert torch.allclose(alone, together, atol=1e-3)


def test_a_probe_that_still_gains_has_not_converged() -> None:
    vectors, trees = planted(60, noise=0.1, seed=2)
    sentences = sentences_of(vectors, trees)
    made = StructuralBank([StructuralGroup("distance", 4, 0)], StructuralSchedule(max_validations=1)).fit(
        sentences, sentences
    )
    assert not made.trained_[StructuralGroup("distance", 4, 0)].converged.any()


def test_the_papers_schedule() -> None:
    assert (PAPER.learning_rate, PAPER.batch, PAPER.max_validations, PAPER.decay) == (1e-3, 20, 40, 0.1)
    assert PAPER.validate_every is None
    vectors, trees = planted(40, noise=0.1, seed=2)
    sentences: TreeSentences = sentences_of(vectors, trees)
    few = StructuralSchedule(**{**PAPER.describe(), "max_validations": 2})
    made = (
        StructuralBank([StructuralGroup("depth", 4, 0)], few)
        .fit(sentences, sentences)
        .trained_[StructuralGroup("depth", 4, 0)]
    )
    assert made.epochs.tolist() == [2.0]

"""Tuned lenses: one affine map per inner layer, from its states to those of the last block (Belrose et al. 2023).

A translator is trained so that the head says the same of the translated state as of the model's last one: by the
Kullback-Leibler divergence from the final distribution. Training starts from ridge regression onto the last block's
states, which is most of the way, and goes on by Adam from there. Of every layer, the translator that does best on texts
set aside is kept; no translator at all (the plain lens) is one of the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lamina.models.language.lens import lens_logits
from lamina.progress import progress

if TYPE_CHECKING:
    from lamina.models.language.language_model import LanguageModel

PENALTIES = ((1e-2, 1e-1, 1.0, 10.0), (1e-3, 1e-4, 1e-5))
"""Of ridge regression, relative to the mean variance of a layer's states: upwards and downwards, while it helps."""
BATCH = 64
"""Positions per step."""
RATES = (5e-4, 2e-2)
"""Of Adam, for weights on whitened states and for biases: the few biases cannot learn positions by heart."""
_EVALUATIONS = 4
"""How often the selection part is looked at during training."""
_LOGITS = 2**24
"""Logits computed at a time."""


class TranslatorExamples(NamedTuple):
    """Positions to learn from, or to select by."""

    states: Float[Tensor, "position layer width"]
    """Of all layers, the last as it leaves the model."""
    goal: Float[Tensor, "position width"]
    """What the last block made."""


@dataclass(frozen=True, eq=False)
class Translators:
    """One affine map per inner layer: `state + state @ weight + bias`.

    Example:
        >>> same = Translators(torch.zeros(2, 3, 3), torch.zeros(2, 3), ("plain", "plain"))
        >>> same(torch.ones(4, 3), layer=1).tolist() == torch.ones(4, 3).tolist()
        True
    """

    weights: Float[Tensor, "layer width width"]
    biases: Float[Tensor, "layer width"]
    chosen: tuple[str, ...]
    """Of each layer, what did best on the selection part: plain, ridge or kl."""

    def __call__(self, states: Float[Tensor, "*shape width"], layer: int) -> Float[Tensor, "*shape width"]:
        """States of a layer, translated; the last layer's as they are."""
        if layer >= len(self.weights):
            return states
        weight, bias = (tensor[layer].to(states) for tensor in (self.weights, self.biases))
        return states + states @ weight + bias

    def tensors(self) -> dict[str, Tensor]:
        """As files hold them."""
        return {"weights": self.weights, "biases": self.biases}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], chosen: tuple[str, ...]) -> Translators:
        """Read back."""
        return cls(tensors["weights"], tensors["biases"], chosen)


def divergence(
    final: Float[Tensor, "position piece"], predicted: Float[Tensor, "position piece"]
) -> Float[Tensor, " position"]:
    """KL(final || said) of logits, in nats.

    Example:
        >>> round(divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 1.0]])).item(), 3)
        0.12
    """
    final = final.log_softmax(-1)
    return (final.exp() * (final - predicted.log_softmax(-1))).sum(-1)


def fit_translators(
    model: LanguageModel, learn: TranslatorExamples, select: TranslatorExamples, *, steps: int, seed: int = 0
) -> Translators:
    """Train one translator per inner layer.

    Args:
        model: whose head is asked.
        learn: positions to learn from.
        select: positions of other documents, by which penalties and the number of steps are chosen.
        steps: of Adam, after ridge regression; 0 for none.
        seed: of the batches.
    """
    inner = learn.states.shape[1] - 1
    selection = _Selection.of(model, select)
    with progress(f"translators of {model.name}", inner + steps) as advance:
        fits = []
        for layer in range(inner):
            fits.append(_Fit.of(model, learn, selection, layer))
            advance(note=f"layer {layer}, by regression")
        for step in _train(model, fits, learn, selection, steps, seed):
            advance(note=f"step {step}")
    width = learn.states.shape[2]
    if not fits:
        return Translators(torch.zeros(0, width, width), torch.zeros(0, width), ())
    return Translators(
        torch.stack([fit.best[0] for fit in fits]).cpu(),
        torch.stack([fit.best[1] for fit in fits]).cpu(),
        tuple(fit.chosen for fit in fits),
    )


class _Selection(NamedTuple):
    """Positions by which translators are chosen, with the final distribution at each."""

    states: Tensor
    final: Tensor
    """[position, token] Logits."""

    @classmethod
    @torch.no_grad()
    def of(cls, model: LanguageModel, select: TranslatorExamples) -> _Selection:
        most = max(1, _LOGITS // model.vocabulary)
        return cls(select.states, torch.cat([model.logits(some) for some in select.states[:, -1].split(most)]))

    @torch.no_grad()
    def divergence(self, model: LanguageModel, layer: int, translator: tuple[Tensor, Tensor]) -> float:
        """Mean over positions."""
        most, total = max(1, _LOGITS // model.vocabulary), 0.0
        for states, final in zip(self.states[:, layer].split(most), self.final.split(most), strict=True):
            total += (
                divergence(final, lens_logits(model, states + states @ translator[0] + translator[1], layer))
                .sum()
                .item()
            )
        return total / len(self.states)


class _Fit:
    """The translator of one layer while it is trained."""

    def __init__(self, layer: int, width: int, like: Tensor) -> None:
        self.layer = layer
        self.best: tuple[Tensor, Tensor] = (like.new_zeros(width, width), like.new_zeros(width))
        self.chosen, self.loss = "plain", float("inf")
        self.whiten = self.mean = self.scale = like
        """Of the layer's states, for Adam; set by regression."""
        self.change: tuple[Tensor, Tensor] = self.best
        """What Adam learns, on whitened states and scaled outputs."""
        self.start = self.best

    @classmethod
    def of(cls, model: LanguageModel, learn: TranslatorExamples, select: _Selection, layer: int) -> _Fit:
        """The best of no translator and of ridge regressions with several penalties."""
        states, goal = learn.states[:, layer].double(), learn.goal.double()
        fit = cls(layer, states.shape[1], learn.states)
        fit.consider(model, select, fit.best, "plain")
        # What follows scales each position to one length: without weights, a few very long vectors would decide.
        weight = 1 / goal.square().sum(1, keepdim=True).clamp_min(1e-12)
        weight = weight / weight.mean()
        mean, goal_mean = (weight * states).mean(0), (weight * goal).mean(0)
        centred, missing = states - mean, (goal - goal_mean) - (states - mean)
        values, vectors = torch.linalg.eigh(centred.mT @ (weight * centred) / len(states))
        values = values.clamp_min(0)
        known = vectors.mT @ (centred.mT @ (weight * missing)) / len(states)
        for penalties in PENALTIES:
            for penalty in penalties:
                slope = vectors @ (known / (values + penalty * values.mean())[:, None])
                bias = goal_mean - mean - mean @ slope
                if not fit.consider(model, select, (slope.to(learn.states), bias.to(learn.states)), "ridge"):
                    break
        floor = values + 1e-3 * values.mean()
        fit.whiten = (vectors / floor.sqrt()).to(learn.states)
        fit.mean = mean.to(learn.states)
        fit.scale = (weight * (goal - goal_mean).square()).mean(0).sqrt().to(learn.states)
        fit.start = fit.best
        fit.change = (torch.zeros_like(fit.best[0]).requires_grad_(), torch.zeros_like(fit.best[1]).requires_grad_())
        return fit

    def current(self) -> tuple[Tensor, Tensor]:
        """The translator as it is now."""
        slope = self.whiten @ self.change[0] * self.scale
        return self.start[0] + slope, self.start[1] + self.change[1] * self.scale - self.mean @ slope

    def consider(self, model: LanguageModel, select: _Selection, translator: tuple[Tensor, Tensor], kind: str) -> bool:
        """Keep it if it does better on the selection part, and say whether it does."""
        loss = select.divergence(model, self.layer, translator)
        better = loss < self.loss
        if better:
            self.best, self.chosen, self.loss = (translator[0].detach(), translator[1].detach()), kind, loss
        return better


def _train(
    model: LanguageModel, fits: list[_Fit], learn: TranslatorExamples, select: _Selection, steps: int, seed: int
) -> Iterator[int]:
    """Adam, on all layers at once: each batch's final distribution is computed once. Gives the steps that are done."""
    if not fits or not steps:
        return
    optimizer = torch.optim.Adam([{"params": [fit.change[kind] for fit in fits], "lr": RATES[kind]} for kind in (0, 1)])
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1 / steps, total_iters=steps)
    generator = torch.Generator().manual_seed(seed)
    every = max(1, steps // _EVALUATIONS)
    for step in range(1, steps + 1):
        drawn = torch.randint(len(learn.states), (min(BATCH, len(learn.states)),), generator=generator)
        batch = learn.states[drawn.to(learn.states.device)]
        with torch.no_grad():
            final = model.logits(batch[:, -1])
        optimizer.zero_grad()
        for fit in fits:
            states = batch[:, fit.layer]
            slope, bias = fit.current()
            divergence(final, lens_logits(model, states + states @ slope + bias, fit.layer)).mean().backward()
        optimizer.step()
        schedule.step()
        if step % every == 0 or step == steps:
            for fit in fits:
                fit.consider(model, select, fit.current(), "kl")
        yield step

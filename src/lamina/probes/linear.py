"""A linear probe with several classes: softmax regression with a penalty, fitted until nothing changes any more.

The loss is convex, so there is one answer, whatever the order of examples and without a seed. The penalty is chosen on
examples of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.probes.edge import LayerCut
from lamina.probes.learner import LearningRecord
from lamina.probes.streams import ProbeBatch, ProbeTargets, SpanTokens, StateSource, Stream

PENALTIES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4)
"""Tried from strong to weak, until a weaker one does worse; of the mean loss per example."""
_ROUNDS = 1000
_TOLERANCE = 1e-4
"""Largest slope of the mean loss at which a fit counts as done; scikit-learn's default, too."""


class SoftmaxProbe(NamedTuple):
    """A fitted probe."""

    weights: Float[np.ndarray, "width label"]
    bias: Float[np.ndarray, " label"]
    middle: Float[np.ndarray, " width"]
    """Subtracted from vectors first."""
    spread: Float[np.ndarray, " width"]
    """Divided by."""
    penalty: float
    converged: bool
    """Whether the loss could not fall any further with any penalty; otherwise its answers should not be used."""

    def probabilities(self, vectors: Float[np.ndarray, "example width"]) -> Float[np.ndarray, "example label"]:
        """Of each class."""
        return _softmax(((vectors - self.middle) / self.spread) @ self.weights + self.bias)


class LabelledVectors(NamedTuple):
    """Vectors with their classes."""

    vectors: Float[np.ndarray, "example width"]
    gold: Int[np.ndarray, " example"]


def fit_softmax(
    learn: LabelledVectors, select: LabelledVectors, labels: int, device: torch.device | str = "cpu"
) -> SoftmaxProbe:
    """Fit a probe; of the penalties with which it converges, the one with the lowest loss on `select` is kept.

    Products run in float32 on `device`, sums of parameters in float64.

    Example:
        >>> vectors, gold = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
        >>> probe = fit_softmax(LabelledVectors(vectors, gold), LabelledVectors(vectors, gold), 2)
        >>> probe.converged, probe.probabilities(np.array([[3.0]])).argmax(1).tolist()
        (True, [1])
    """
    middle = learn.vectors.mean(0, dtype=np.float64)
    spread = learn.vectors.std(0, dtype=np.float64)
    # A feature that never varies tells nothing; divided by its rounding errors it would seem to.
    spread = np.where(spread > 1e-6 * max(float(spread.max()), 1e-30), spread, np.inf)
    known, select_vectors = ((examples.vectors - middle) / spread for examples in (learn, select))
    task = SoftmaxLoss.of(known, learn.gold, labels, torch.device(device))
    parameters = np.zeros((known.shape[1] + 1, labels))
    best, lowest = None, np.inf
    for penalty in PENALTIES:
        parameters, converged = minimised(task, penalty, parameters)
        if not converged:
            # A weaker penalty would take longer still.
            break
        probabilities = _softmax(select_vectors @ parameters[:-1] + parameters[-1])
        loss = float(-np.log(np.maximum(probabilities[np.arange(len(probabilities)), select.gold], 1e-300)).mean())
        if loss >= lowest:
            break
        lowest = loss
        best = SoftmaxProbe(parameters[:-1], parameters[-1], middle, spread, penalty, True)
    if best is None:
        nothing = np.full_like(parameters, np.nan)
        return SoftmaxProbe(nothing[:-1], nothing[-1], middle, spread, np.nan, False)
    return best


class SoftmaxLoss(NamedTuple):
    """What is to be fitted, where it is computed."""

    vectors: Float[Tensor, "example width"]
    gold: Float[Tensor, "example label"]
    """1 for the class, 0 for the others."""

    @classmethod
    def of(cls, vectors: np.ndarray, gold: np.ndarray, labels: int, device: torch.device) -> SoftmaxLoss:
        gold_matrix = torch.zeros(len(gold), labels)
        gold_matrix[torch.arange(len(gold)), torch.from_numpy(np.asarray(gold))] = 1
        return cls(torch.from_numpy(vectors.astype(np.float32)).to(device), gold_matrix.to(device))

    def loss(self, weights: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        """The mean loss with its penalty, and its slope."""
        parameters = torch.from_numpy(weights.astype(np.float32)).to(self.vectors.device)
        logprobs = (self.vectors @ parameters[:-1] + parameters[-1]).log_softmax(1)
        value = -(logprobs * self.gold).sum(dtype=torch.float64).item() / len(logprobs)
        error = (logprobs.exp() - self.gold) / len(logprobs)
        slope = torch.cat([self.vectors.T @ error, error.sum(0, keepdim=True)]).double().cpu().numpy()
        slope[:-1] += penalty * weights[:-1]
        return value + penalty / 2 * float(np.square(weights[:-1]).sum()), slope.ravel()


@runtime_checkable
class Convex(Protocol):
    """A loss with one lowest place."""

    def loss(self, weights: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        """The mean loss with its penalty, and its slope as one row of numbers."""
        ...


def minimised(task: Convex, penalty: float, start: np.ndarray) -> tuple[np.ndarray, bool]:
    """The weights with the lowest loss, searched for from `start`, and whether the search ended there."""
    from scipy.optimize import minimize

    settings = {"maxiter": _ROUNDS, "maxfun": 2 * _ROUNDS, "gtol": _TOLERANCE, "ftol": 0.0}
    result = minimize(
        lambda flat: task.loss(flat.reshape(start.shape), penalty),
        start.ravel(), jac=True, method="L-BFGS-B", options=settings,
    )  # fmt: skip
    return result.x.reshape(start.shape), bool(np.abs(result.jac).max() <= _TOLERANCE)


def _softmax(logits: Float[np.ndarray, "example label"]) -> Float[np.ndarray, "example label"]:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


# Softmax regression on the mean of every span, one per layer: the probe of SentEval and of Lin et al. (2019).

_LEAST = 1e-7
"""Probabilities are kept this far from 0 and 1: as logits they would not be finite."""


class LinearSpans:
    """Fitted probes, applied as edge probes are."""

    def __init__(self, probes: Sequence[SoftmaxProbe], cuts: Sequence[LayerCut]) -> None:
        self.cuts = list(cuts)
        self.seeds = (0,)
        """The loss is convex: there is nothing to be drawn."""
        self.gamma = torch.zeros(0)
        self._probes = list(probes)

    def __call__(self, batch: ProbeBatch) -> Float[Tensor, "member target label"]:
        """The log odds of every label: above 0 where it is more likely than all others together."""
        states = _states(batch)
        odds = np.stack([_odds(probe, states[cut.layer]) for probe, cut in zip(self._probes, self.cuts, strict=True)])
        return torch.from_numpy(odds)

    def weights(self) -> Float[Tensor, "mixing layer"]:
        """No layers are mixed."""
        return torch.zeros(0, 0)

    def tensors(self) -> dict[str, Tensor]:
        """What was fitted, by layer."""
        parts = {
            f"{cut.layer}/{name}": getattr(probe, name)
            for probe, cut in zip(self._probes, self.cuts, strict=True)
            for name in ("weights", "bias", "middle", "spread")
        }
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in parts.items()}


def fit_linear(
    cuts: Sequence[LayerCut], learn: Stream, stop: Stream, labels: tuple[ProbeTargets, ProbeTargets]
) -> tuple[LinearSpans, LearningRecord]:
    """One probe per layer; `labels` are what is learned and what chooses the penalty, target by target."""
    known, chosen = (_read(stream, given) for stream, given in zip((learn, stop), labels, strict=True))
    classes = len(labels[0].labels)
    probes, losses = [], []
    for cut in cuts:
        given, select = (LabelledVectors(vectors[cut.layer], gold) for vectors, gold in (known, chosen))
        probes.append(fit_softmax(given, select, classes))
        likelihoods = probes[-1].probabilities(select.vectors)[np.arange(len(select.gold)), select.gold]
        losses.append(float(-np.log(np.maximum(likelihoods, 1e-300)).mean()) if probes[-1].converged else np.inf)
    count = len(probes)
    converged = np.array([probe.converged for probe in probes])
    steps, gain = (np.zeros(count, int), np.zeros(count, int)), np.zeros(count)
    learned = LearningRecord(np.array(losses), *steps, gain, converged, np.zeros(count, bool), np.zeros(count))
    return LinearSpans(probes, cuts), learned


def _read(stream: Stream, targets: ProbeTargets) -> tuple[np.ndarray, np.ndarray]:
    """[layer, target, width] The vectors of the targets that have a label, and its number."""
    vectors, rows = [], []
    for batch in stream.in_order():
        vectors.append(_states(batch))
        rows.append(batch.rows)
    every = np.concatenate(rows)
    known = targets.rated[every].all(1) & targets.gold[every].any(1)
    return np.concatenate(vectors, 1)[:, known], targets.gold[every][known].argmax(1)


def _states(batch: ProbeBatch) -> Float[np.ndarray, "layer target width"]:
    """Of every target, whose span is one vector."""
    (span,) = batch.spans
    token = span.token if isinstance(span, SpanTokens) else span.bounds[:, 0]
    return batch.states.index_select(1, token).cpu().numpy()


def _odds(probe: SoftmaxProbe, vectors: Float[np.ndarray, "target width"]) -> Float[np.ndarray, "target label"]:
    if not probe.converged:
        return np.zeros((len(vectors), len(probe.bias)), np.float32)
    likely = probe.probabilities(vectors).clip(_LEAST, 1 - _LEAST)
    return np.log(likely / (1 - likely)).astype(np.float32)


# Spans as one vector each, the mean of their tokens: what a probe of whole sentences reads without pooling itself.


class SpanMeans:
    """States of targets instead of tokens: a text has as many as it has targets, in their order.

    Example:
        >>> class Two:
        ...     resident, token_bytes = None, 8
        ...     def start(self, index): return 0
        ...     def size(self, index): return 2
        ...     def load(self, index): return torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
        >>> none = np.zeros((1, 0), bool)
        >>> spans = np.array([[[0, 2]]])
        >>> whole = ProbeTargets(("a",), np.array([0]), spans, spans, *[np.ones((1, 1), bool)] * 3, none, 1)
        >>> means, targets = SpanMeans.of(Two(), whole)
        >>> means.load(0).tolist(), targets.tokens.tolist()
        ([[[2.0, 3.0]]], [[[0, 1]]])
    """

    resident: torch.Tensor | None = None

    def __init__(self, states: Float[torch.Tensor, "target layer width"], rows: dict[int, np.ndarray]) -> None:
        self._states = states
        self._rows = rows

    @classmethod
    def of(cls, stored: StateSource, targets: ProbeTargets) -> tuple[SpanMeans, ProbeTargets]:
        """The means of the first span of all targets, and the same targets where each is a token of its own."""
        rows = {int(text): np.flatnonzero(targets.text == text) for text in np.unique(targets.text)}
        means = torch.empty(0, 0, 0)
        places = np.zeros_like(targets.tokens)
        for text, target_rows in rows.items():
            states = stored.load(text).float()
            if not len(means):
                means = torch.empty(len(targets), *states.shape[1:])
            for place, row in enumerate(target_rows.tolist()):
                start, end = targets.tokens[row, 0]
                means[row] = states[start:end].mean(0)
                places[row] = (place, place + 1)
        return cls(means, rows), replace(targets, tokens=places)

    @property
    def token_bytes(self) -> int:
        """See `StateSource`."""
        return self._states[:1].numel() * self._states.element_size()

    def start(self, index: int) -> int:
        """See `StateSource`; nothing is held in one piece."""
        raise NotImplementedError

    def size(self, index: int) -> int:
        """See `StateSource`."""
        return len(self._rows.get(index, ()))

    def load(self, index: int) -> torch.Tensor:
        """See `StateSource`."""
        return self._states[torch.from_numpy(self._rows[index])]


# A linear probe that points at one token of every text, such as where an answer starts.
#
# Softmax regression over the tokens of a text: each token gets one number from its vector. As in `softmax`, the loss is
# convex and has a penalty that is chosen on texts of their own, so there is one answer.


class PointingProbe(NamedTuple):
    """A fitted probe."""

    weights: Float[np.ndarray, " width"]
    """Of vectors as they are; adding the same number to all tokens of a text changes nothing, so there is no bias."""
    penalty: float
    converged: bool
    """Whether the loss could not fall any further with any penalty; otherwise its answers should not be used."""

    def logits(self, vectors: Float[np.ndarray, "token width"]) -> Float[np.ndarray, " token"]:
        """Of each token: the highest of a text is what it points at."""
        return vectors @ self.weights


class PointingTexts(NamedTuple):
    """Texts, one after the other, with the gold token of each."""

    vectors: Float[np.ndarray, "token width"]
    sizes: Int[np.ndarray, " text"]
    """Tokens of each text."""
    gold: Int[np.ndarray, " text"]
    """The token of each text, counted from its first."""


def fit_pointing(learn: PointingTexts, select: PointingTexts, device: torch.device | str = "cpu") -> PointingProbe:
    """Fit a probe; of the penalties with which it converges, the one with the lowest loss on `select` is kept.

    In float64: with few answers and many tokens, the search would not converge in float32.

    Example:
        >>> vectors = np.array([[0.0], [2.0], [1.0], [3.0], [0.0]])
        >>> texts = PointingTexts(vectors, np.array([2, 3]), np.array([1, 1]))
        >>> probe = fit_pointing(texts, texts)
        >>> probe.converged, int(probe.logits(np.array([[1.0], [5.0], [2.0]])).argmax())
        (True, 1)
    """
    spread = learn.vectors.std(0, dtype=np.float64)
    # A feature that never varies tells nothing; divided by its rounding errors it would seem to.
    spread = np.where(spread > 1e-6 * max(float(spread.max()), 1e-30), spread, np.inf)
    # A mean that all tokens share points at none of them.
    middle = learn.vectors.mean(0, dtype=np.float64)
    tasks = [
        PointingLoss.of(texts._replace(vectors=(texts.vectors - middle) / spread), torch.device(device))
        for texts in (learn, select)
    ]
    parameters = np.zeros(learn.vectors.shape[1])
    best, lowest = None, np.inf
    for penalty in PENALTIES:
        parameters, converged = minimised(tasks[0], penalty, parameters)
        if not converged:
            # A weaker penalty would take longer still.
            break
        loss, _ = tasks[1].loss(parameters, 0.0)
        if loss >= lowest:
            break
        lowest, best = loss, PointingProbe(parameters / spread, penalty, True)
    return best or PointingProbe(np.full_like(parameters, np.nan), np.nan, False)


class PointingLoss(NamedTuple):
    """What is to be fitted, where it is computed."""

    vectors: Float[Tensor, "token width"]
    owner: Int[Tensor, " token"]
    """The number of each token's text."""
    gold: Int[Tensor, " text"]
    """The gold token of each text, among all tokens."""

    @classmethod
    def of(cls, texts: PointingTexts, device: torch.device) -> PointingLoss:
        owner = np.repeat(np.arange(len(texts.sizes)), texts.sizes)
        gold_tokens = np.cumsum(texts.sizes) - texts.sizes + texts.gold
        tensors = [torch.from_numpy(np.asarray(array)).to(device) for array in (owner, gold_tokens)]
        return cls(torch.from_numpy(texts.vectors.astype(np.float64)).to(device), tensors[0], tensors[1])

    def loss(self, weights: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        """See `Convex.loss`."""
        vector = torch.from_numpy(weights).to(self.vectors.device)
        logits = self.vectors @ vector
        texts = len(self.gold)
        # Subtracting each text's highest keeps exponentials in range and changes no probability.
        top = torch.full((texts,), -torch.inf, dtype=torch.float64, device=logits.device)
        top = top.scatter_reduce(0, self.owner, logits, "amax")
        raised = (logits - top[self.owner]).exp()
        sums = torch.zeros_like(top).scatter_add(0, self.owner, raised)
        value = (sums.log() + top - logits[self.gold]).mean().item()
        error = raised / sums[self.owner]
        error[self.gold] -= 1
        slope = (self.vectors.T @ (error / texts)).cpu().numpy()
        return value + penalty / 2 * float(np.square(weights).sum()), slope + penalty * weights

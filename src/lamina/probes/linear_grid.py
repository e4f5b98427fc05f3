"""Linear probes of many folds and penalties at once: softmax, logistic and ridge regression on the same vectors.

All members of a grid read the same vectors, so that their products are one matrix product. The vectors are rotated once
to the axes of their covariance, where the curvature of every loss is nearly diagonal. L-BFGS starts from the curvature
of each label, measured on the rows that are least certain, instead of from the identity. Weak penalties start from the
answers of stronger ones. Rows are read in blocks, and a member learns from some blocks (all folds but one, the first
200 labels), so nothing is copied. The losses are convex: the answer does not depend on where the search starts.
Products run in float32, sums over examples in float64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

GRID_PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Tried for every fold; of the mean loss per example."""
_TOLERANCE = 1e-4
"""Largest slope of the mean loss, by standardised feature, at which a member is done; scikit-learn's default, too."""
_ROUNDS = 1000
_MEMORY = 20
"""Steps that L-BFGS remembers."""
_ARMIJO = 1e-4
"""Share of the expected decrease that a step has to reach."""
_HALVINGS = 25
_CELLS = 2**20
"""Numbers of logits that are held at a time on a CPU; more on a GPU."""
_SMALLEST = 1e-7
"""Share of the largest variance below which an axis counts as rounding."""

GridLoss = Literal["softmax", "logistic", "ridge"]
"""One label out of all; a yes or no about every label; the squared error of values."""


@dataclass(frozen=True)
class GridMembers:
    """What every member learns from, and its penalty.

    Example:
        >>> GridMembers.crossed([[False, True], [True, False]], (0.1, 0.01)).penalty.tolist()
        [0.1, 0.01, 0.1, 0.01]
    """

    blocks: Bool[np.ndarray, "member block"]
    """The blocks of examples that a member learns from."""
    penalty: Float[np.ndarray, " member"]

    @classmethod
    def crossed(
        cls, blocks: Bool[np.ndarray, "set block"] | Sequence[Sequence[bool]], penalties: Sequence[float]
    ) -> GridMembers:
        """Every set of blocks with every penalty, penalties varying fastest."""
        sets = np.asarray(blocks, bool)
        return cls(np.repeat(sets, len(penalties), 0), np.tile(np.asarray(penalties, float), len(sets)))

    def __len__(self) -> int:
        return len(self.penalty)


class Standardised(NamedTuple):
    """Vectors with mean 0 and variance 1 by feature, and what that took."""

    vectors: Float[Tensor, "example width"]
    middle: Float[Tensor, " width"]
    spread: Float[Tensor, " width"]
    """Infinite where a feature never varies."""

    @classmethod
    def of(cls, vectors: Float[Tensor, "example width"]) -> Standardised:
        """Mean and variance in float64; labels are not looked at.

        Example:
            >>> Standardised.of(torch.tensor([[1.0, 5.0], [3.0, 5.0]])).vectors.tolist()
            [[-1.0, 0.0], [1.0, 0.0]]
        """
        parts = vectors.split(_ROWS)
        count = max(1, len(vectors))
        zero = torch.zeros(vectors.shape[1], dtype=torch.float64, device=vectors.device)
        middle = sum((part.double().sum(0) for part in parts), zero) / count
        variance = sum(((part.double() - middle).square().sum(0) for part in parts), zero) / count
        spread = variance.sqrt()
        # A feature that never varies tells nothing; divided by its rounding errors it would seem to.
        least = 1e-6 * float(spread.max()) if len(spread) else 0.0
        spread = torch.where(spread > max(least, 1e-30), spread, torch.inf)
        return cls((vectors.float() - middle.float()) / spread.float(), middle.float(), spread.float())


_ROWS = 8192
"""Rows that are summed at a time in float64."""


@dataclass(frozen=True, eq=False)
class GridFit:
    """Fitted probes; they read standardised vectors.

    Example:
        >>> fit = GridFit(torch.ones(1, 2, 3), torch.zeros(1, 2), np.array([True]), np.array([4]))
        >>> fit.logits(torch.ones(5, 3), [0]).shape
        torch.Size([1, 5, 2])
    """

    weights: Float[Tensor, "member label width"]
    bias: Float[Tensor, "member label"]
    converged: Bool[np.ndarray, " member"]
    """Whether the search ended; otherwise a member's answers should not be used."""
    rounds: Int[np.ndarray, " member"]
    """Steps taken."""

    def logits(
        self, vectors: Float[Tensor, "example width"], members: Sequence[int] | np.ndarray
    ) -> Float[Tensor, "member example label"]:
        """Of some members; of ridge members, the values they predict."""
        some = torch.as_tensor(np.asarray(members, np.int64), device=self.weights.device)
        weights, bias = self.weights[some], self.bias[some]
        flat = vectors @ weights.flatten(0, 1).T + bias.flatten()
        return flat.reshape(len(vectors), *bias.shape).transpose(0, 1)


def fit_grid(
    vectors: Float[Tensor, "example width"],
    gold: Float[np.ndarray, "example label"],
    blocks: Int[np.ndarray, " example"],
    members: GridMembers,
    *,
    loss: GridLoss = "softmax",
    rated: Bool[np.ndarray, "example label"] | None = None,
) -> GridFit:
    """Fit every member, on the device of the vectors.

    Args:
        vectors: standardised, float32.
        gold: 1 for labels that hold (softmax: exactly one per example), values for ridge.
        blocks: the block of every example.
        members: what each learns from, and with which penalty.
        loss: what is minimised: the mean over examples (logistic: over all decisions of an example), plus half the
            penalty times the sum of squared weights.
        rated: which decisions count (logistic only); all by default.

    Example:
        >>> vectors = Standardised.of(torch.tensor([[-1.0], [-2.0], [1.0], [2.0]])).vectors
        >>> members = GridMembers.crossed([[True]], (0.1, 0.01))
        >>> fit = fit_grid(vectors, np.eye(2)[[0, 0, 1, 1]], np.zeros(4, int), members)
        >>> fit.logits(vectors, [0, 1]).argmax(-1).tolist()
        [[0, 0, 1, 1], [0, 0, 1, 1]]
    """
    order = np.argsort(blocks, kind="stable")
    rows = torch.from_numpy(order).to(vectors.device)
    counts = np.bincount(blocks, minlength=members.blocks.shape[1])
    labelled = torch.from_numpy(np.ascontiguousarray(gold[order], np.float32)).to(vectors.device)
    axes = _Axes.of(vectors)
    turned = axes.turn(vectors)[rows]
    problem = _Problem(turned, labelled, counts, loss, axes, None)
    if rated is not None and loss == "logistic":
        mask = torch.from_numpy(np.ascontiguousarray(rated[order], np.float32)).to(vectors.device)
        problem = problem._replace(rated=mask)
    if loss == "ridge":
        parameters = _ridge(problem, members)
        done, rounds = np.ones(len(members), bool), np.ones(len(members), int)
    else:
        parameters, done, rounds = _minimised(problem, members)
    return GridFit(parameters[..., :-1] @ axes.directions.T, parameters[..., -1].contiguous(), done, rounds)


class _Axes(NamedTuple):
    """The axes of a covariance, without those that only rounding reaches."""

    directions: Float[Tensor, "width axis"]
    variances: Float[Tensor, " axis"]

    @classmethod
    def of(cls, vectors: Float[Tensor, "example width"]) -> _Axes:
        if len(vectors) < vectors.shape[1]:
            # No more axes than examples: those of the products of examples are the same, and fewer.
            whole = vectors.double()
            variances, sides = torch.linalg.eigh(whole @ whole.T / max(1, len(vectors)))
            wanted = variances > _SMALLEST * variances[-1].clamp_min(1e-30)
            directions = whole.T @ sides[:, wanted]
            directions /= directions.norm(dim=0)
            return cls(directions.float().contiguous(), variances[wanted].float())
        total = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64, device=vectors.device)
        for part in vectors.split(_ROWS):
            total += (part.T @ part).double()
        total /= max(1, len(vectors))
        variances, directions = torch.linalg.eigh(total)
        wanted = variances > _SMALLEST * variances[-1].clamp_min(1e-30)
        return cls(directions[:, wanted].float().contiguous(), variances[wanted].float())

    def turn(self, vectors: Float[Tensor, "example width"]) -> Float[Tensor, "example axis"]:
        """Vectors along the axes, and a last column of ones for the bias."""
        ones = torch.ones(len(vectors), 1, device=vectors.device)
        return torch.cat([vectors @ self.directions, ones], 1)


class _Problem(NamedTuple):
    """Turned vectors, sorted by block, with their labels."""

    turned: Float[Tensor, "example axis"]
    gold: Float[Tensor, "example label"]
    counts: Int[np.ndarray, " block"]
    loss: GridLoss
    axes: _Axes
    rated: Float[Tensor, "example label"] | None

    def chunks(self, columns: int) -> list[tuple[int, int, int]]:
        """(block, first row, one past the last): rows of one block, few enough for the logits of all members."""
        cells = _CELLS if self.turned.device.type == "cpu" else 64 * _CELLS
        most = max(64, cells // max(1, columns))
        parts, start = [], 0
        for block, count in enumerate(self.counts.tolist()):
            for first in range(start, start + count, most):
                parts.append((block, first, min(first + most, start + count)))
            start += count
        return parts


class _Evaluation(NamedTuple):
    """Of some members: the loss, and its slope."""

    value: Float[Tensor, " member"]
    """float64."""
    slope: Float[Tensor, "member label axis"]


def _evaluated(
    problem: _Problem,
    members: GridMembers,
    parameters: Float[Tensor, "member label axis"],
    penalty: Float[Tensor, " member"],
) -> _Evaluation:
    """The mean loss with its penalty; each block is read by the members that learn from it."""
    device, count, labels = parameters.device, *parameters.shape[:2]
    value = torch.zeros(count, dtype=torch.float64, device=device)
    slope = torch.zeros_like(parameters)
    learners: dict[int, Tensor | None] = {}
    weights: dict[int, Tensor] = {}
    sums: dict[int, Tensor] = {}
    for block, first, last in problem.chunks(count * labels):
        if block not in learners:
            _settle(sums, learners, slope)
            some = np.flatnonzero(members.blocks[:, block])
            learners[block] = None if len(some) == count else torch.from_numpy(some).to(device)
            chosen = learners[block]
            weights = {block: (parameters if chosen is None else parameters[chosen]).flatten(0, 1)}
        if not len(weights[block]):
            continue
        turned, gold = problem.turned[first:last], problem.gold[first:last].T
        logits = (weights[block] @ turned.T).unflatten(0, (-1, labels))
        if problem.loss == "softmax":
            error = torch.softmax(logits, 1)
            right = (error * gold).sum(1) if labels <= _FEW else error.gather(1, _places(gold, len(error)))[:, 0]
            losses = right.clamp_min_(torch.finfo(torch.float32).tiny).log_().sum(1, dtype=torch.float64).neg_()
            error -= gold
        else:
            rated = 1.0 if problem.rated is None else problem.rated[first:last].T
            decisions = (torch.nn.functional.softplus(logits) - logits * gold) * rated
            losses = decisions.sum((1, 2), dtype=torch.float64)
            error = (torch.sigmoid(logits) - gold) * rated
        step = error.flatten(0, 1) @ turned
        sums[block] = sums[block] + step if block in sums else step
        chosen = learners[block]
        value += losses if chosen is None else torch.zeros_like(value).index_add_(0, chosen, losses)
    _settle(sums, learners, slope)
    examples = torch.from_numpy((members.blocks * problem.counts).sum(1).clip(1)).to(device)
    value /= examples
    slope /= examples.float()[:, None, None]
    inner = parameters[..., :-1]
    value += 0.5 * penalty.double() * inner.double().square().sum((1, 2))
    slope[..., :-1] += penalty[:, None, None] * inner
    return _Evaluation(value, slope)


_FEW = 4
"""Labels up to which a product with the gold labels is faster than picking."""


def _places(gold: Float[Tensor, "label example"], members: int) -> Int[Tensor, "member one example"]:
    return gold.argmax(0)[None, None].expand(members, 1, -1)


def _settle(sums: dict[int, Tensor], learners: dict[int, Tensor | None], slope: Tensor) -> None:
    """Add the slopes of a block to those of its members, and forget them."""
    for block, total in sums.items():
        shaped, chosen = total.unflatten(0, (-1, slope.shape[1])), learners[block]
        if chosen is None:
            slope += shaped
        else:
            slope.index_add_(0, chosen, shaped)
    sums.clear()


def _minimised(problem: _Problem, members: GridMembers) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """Parameters, whether the search ended, and the rounds of each member.

    Strong penalties first: the next weaker one starts from their answers, and from the curvature that the loss has
    there.
    """
    device, labels = problem.turned.device, problem.gold.shape[1]
    shares = _shares(problem, members)
    final = torch.zeros(len(members), labels, problem.turned.shape[1], device=device)
    final[..., -1] = shares.log() if problem.loss == "softmax" else torch.logit(shares)
    done, rounds = np.zeros(len(members), bool), np.zeros(len(members), int)
    names = [row.tobytes() for row in members.blocks]
    solved: dict[bytes, int] = {}
    together = _Together.of(problem, members, final)
    for penalty in sorted(set(members.penalty.tolist()), reverse=True):
        some = np.flatnonzero(members.penalty == penalty)
        if together is None or penalty < _LED:
            steps, bend = None, None
        else:
            steps, bend = together.descend(problem, penalty)
        for number in some.tolist():
            if names[number] in solved:
                final[number] = final[solved[names[number]]]
            solved[names[number]] = number
        place = torch.from_numpy(some).to(device)
        stage = GridMembers(members.blocks[some], members.penalty[some])
        final[place], done[some], rounds[some], _ = _descended(problem, stage, penalty, final[place], bend, steps)
    return final, done, rounds


_LED = 1e-3
"""Penalty down to which members are led by a search with all examples. Where little but the penalty curves the loss, a
search stops as far from its end as slope by penalty: near `_TOLERANCE`, far enough to lean towards labels that are left
out."""
_ALIKE = 0.5
"""Share of all examples from which on what members learn from is much the same."""
_SEVERAL = 3
"""Members from which on a search with all examples pays: it costs less than one of theirs per step."""


class _SearchMemory(NamedTuple):
    """What L-BFGS remembers: moves, and how slopes turned on them."""

    moves: list[Tensor]
    turns: list[Tensor]
    bends: list[Tensor]

    def some(self, members: Tensor | int) -> _SearchMemory:
        """Those of some members; of one, for as many others."""
        if isinstance(members, int):
            return _SearchMemory(*([one.expand(members, *one.shape[1:]) for one in part] for part in self))
        return _SearchMemory(*([one[members] for one in part] for part in self))


class _Together:
    """One member that learns from everything: the others begin with the curvature that its search has met.

    Not where it has ended: that place knows the labels of what the others leave out, and a search that stops at a small
    slope could still lean towards it.
    """

    def __init__(self, members: GridMembers, start: Tensor, points: int, bend: _Bend) -> None:
        self.members, self.parameters, self.points, self.bend = members, start, points, bend

    @classmethod
    def of(cls, problem: _Problem, members: GridMembers, start: Tensor) -> _Together | None:
        """None where members are few, learn from too little of it, or where examples are few for their axes."""
        used = np.atleast_1d(members.blocks.any(0))
        shares = (members.blocks * problem.counts).sum(1) / max(1, int(problem.counts[used].sum()))
        most = max(Counter(members.penalty.tolist()).values(), default=0)
        rows, axes = problem.turned.shape
        if most < _SEVERAL or float(shares.min()) < _ALIKE or rows < 2 * axes:
            return None
        first = start.mean(0, keepdim=True)
        points = min(_POINTS, 2 * _WORTH * most * rows // axes)
        if points < axes // 2 or rows < _DETERMINED * axes or start.shape[1] * axes**2 > _LARGEST:
            points = 0
        return cls(GridMembers(used[None], members.penalty[:1]), first, points, _Bend.of(problem, first))

    def descend(self, problem: _Problem, penalty: float) -> tuple[_SearchMemory, _Bend]:
        """Go to where the loss is lowest; what its search remembers, and the curvature there."""
        members = GridMembers(self.members.blocks, np.array([penalty]))
        self.parameters, _, _, steps = _descended(
            problem, members, penalty, self.parameters, self.bend, points=self.points
        )
        self.bend = _Bend.of(problem, self.parameters, self.points)
        return steps, self.bend


def _descended(
    problem: _Problem,
    members: GridMembers,
    penalty: float,
    start: Tensor,
    bend: _Bend | None = None,
    known: _SearchMemory | None = None,
    points: int = 0,
) -> tuple[Tensor, np.ndarray, np.ndarray, _SearchMemory]:
    """L-BFGS of members with one penalty, side by side; with the steps that the last one remembers.

    Curvature that is not known is measured on the diagonal alone, and again on some points after many rounds.
    """
    device = start.device
    penalties = torch.full((len(members),), penalty, device=device)
    final, done, rounds = start.clone(), np.zeros(len(members), bool), np.zeros(len(members), int)
    left = np.arange(len(members))
    search = _Search(members, penalties, start, _evaluated(problem, members, start, penalties))
    if known is not None:
        search.known = known.some(len(members))
    for round_ in range(_ROUNDS + 1):
        steep = _steepest(search.now.slope, problem.axes)
        stopped = (steep <= _TOLERANCE).cpu().numpy() | search.stuck | (round_ == _ROUNDS)
        if stopped.any():
            those = torch.from_numpy(np.flatnonzero(stopped)).to(device)
            final[torch.from_numpy(left[stopped]).to(device)] = search.parameters[those]
            done[left[stopped]] = (steep.cpu().numpy() <= _NEARLY * _TOLERANCE)[stopped]
            rounds[left[stopped]] = round_
            left = left[~stopped]
            if not len(left):
                break
            search.keep(~stopped)
        if round_ % _RENEWED == 0:
            if bend is None or round_:
                bend = _Bend.of(problem, search.parameters, points)
            search.curvature = bend.at(penalty)
        search.step(problem)
    return final, done, rounds, search.known


_RENEWED = 50
"""Rounds after which curvature is measured again."""
_POINTS = 3072
"""Rows that the curvature of a label is measured on, about."""
_WORTH = 8
"""Rounds of all members whose time may be spent on measuring curvature."""
_DETERMINED = 10
"""Examples per axis from which on the curvature of labels is measured. Where there are fewer examples than axes, it
would lead members towards labels that they leave out."""


_LARGEST = 2**26
"""Numbers of the curvature of all labels; beyond that, diagonals have to do."""


class _Bend(NamedTuple):
    """How the loss without its penalty curves, label by label: how long first steps are, and where they turn.

    It decides how long the search takes, not where it ends, so that rows of all blocks may be used.
    """

    diagonal: Float[Tensor, "label axis"]
    whole: Float[Tensor, "label axis axis"] | None
    """None where it takes longer to measure than it saves."""

    @classmethod
    def of(cls, problem: _Problem, parameters: Float[Tensor, "member label axis"], points: int = 0) -> _Bend:
        """At the mean of all members' parameters; the diagonal alone if on no points.

        Of each label, rows are drawn at equal distances of their summed curvature: where a probe is certain there is
        none, and few rows have most of it.
        """
        turned = problem.turned
        labels, axes = parameters.shape[1], turned.shape[1]
        logits = parameters.mean(0) @ turned.T
        likely = torch.softmax(logits, 0) if problem.loss == "softmax" else torch.sigmoid(logits)
        curved = likely * (1 - likely) / len(turned)
        if problem.rated is not None:
            curved *= problem.rated.T
        if not points:
            return cls((curved @ turned.square()).clamp_min(_SMALLEST), None)
        whole = torch.empty(labels, axes, axes, device=turned.device)
        for label, curvature in enumerate(curved):
            sums = curvature.double().cumsum(0)
            marks = torch.floor(sums / sums[-1].clamp_min(1e-300) * points).long()
            passed = torch.diff(marks, prepend=marks.new_zeros(1))
            chosen = torch.nonzero(passed)[:, 0]
            some = turned[chosen]
            shares = passed[chosen].float() * (sums[-1] / points).float()
            torch.mm((some * shares[:, None]).T, some, out=whole[label])
        return cls(whole.diagonal(dim1=1, dim2=2).clamp_min(_SMALLEST), whole)

    def at(self, penalty: float) -> _Curvature:
        """With a penalty."""
        diagonal = self.diagonal.clone()
        diagonal[:, :-1] += penalty
        if self.whole is None:
            return _Curvature(diagonal, None)
        # Divided by its diagonal first: axes differ by orders of magnitude.
        sizes = diagonal.rsqrt()
        scaled = self.whole * sizes[:, :, None] * sizes[:, None, :]
        scaled.diagonal(dim1=1, dim2=2).copy_(torch.full_like(diagonal, 1 + _JITTER))
        factor, failed = torch.linalg.cholesky_ex(scaled)
        if bool(failed.any()):
            return _Curvature(diagonal, None)
        inverse = torch.cholesky_inverse(factor)
        return _Curvature(diagonal, inverse.mul_(sizes[:, :, None]).mul_(sizes[:, None, :]))


_JITTER = 3e-5
"""Share that is added to every axis: sums in float32 may be wrong by as much."""


class _Curvature(NamedTuple):
    """What a slope is divided by for a first step."""

    diagonal: Float[Tensor, "label axis"]
    inverse: Float[Tensor, "label axis axis"] | None
    """Of the whole curvature; the diagonal alone is used where None."""

    def divide(self, slopes: Float[Tensor, "member label axis"]) -> Float[Tensor, "member label axis"]:
        """Slopes by curvature."""
        if self.inverse is None:
            return slopes / self.diagonal
        return torch.bmm(slopes.transpose(0, 1), self.inverse).transpose(0, 1)


_NEARLY = 10
"""A search that rounding ends counts as done this many tolerances from a slope of 0: predictions no longer change."""


def _shares(problem: _Problem, members: GridMembers) -> Float[Tensor, "member label"]:
    """How often each label holds among what a member learns from, never 0 or 1."""
    rated = torch.ones_like(problem.gold) if problem.rated is None else problem.rated
    parts = [
        torch.stack([(gold * mask).sum(0, dtype=torch.float64), mask.sum(0, dtype=torch.float64)])
        for gold, mask in zip(
            problem.gold.split(problem.counts.tolist()), rated.split(problem.counts.tolist()), strict=True
        )
    ]
    used = torch.from_numpy(members.blocks).double().to(problem.gold.device)
    positive, counted = torch.einsum("mb,bkl->kml", used, torch.stack(parts))
    shares = ((positive + 0.5) / (counted + 1)).float()
    return shares / shares.sum(1, keepdim=True) if problem.loss == "softmax" else shares


def _steepest(slope: Float[Tensor, "member label axis"], axes: _Axes) -> Float[Tensor, " member"]:
    """The largest slope by standardised feature, as other implementations measure it.

    Members that are surely above the tolerance get a lower bound of it: the length of a slope is the same along any
    axes, and the largest of its features is at least that length by the root of their number.
    """
    steepest = slope[..., -1].abs().amax(1)
    least = slope[..., :-1].square().sum(2).amax(1).sqrt() / len(axes.directions) ** 0.5
    steepest = torch.maximum(steepest, least)
    if len(near := torch.nonzero(steepest <= _NEARLY * _TOLERANCE)[:, 0]):
        by_feature = (slope[near, :, :-1] @ axes.directions.T).abs().amax((1, 2))
        steepest[near] = torch.maximum(steepest[near], by_feature)
    return steepest


class _Search:
    """L-BFGS of all members that have not stopped."""

    curvature: _Curvature

    def __init__(self, members: GridMembers, penalty: Tensor, parameters: Tensor, now: _Evaluation) -> None:
        self.members, self.penalty, self.parameters, self.now = members, penalty, parameters, now
        self.stuck = np.zeros(len(members), bool)
        """Whether rounding lets the loss fall no further."""
        self.known = _SearchMemory([], [], [])

    def keep(self, wanted: np.ndarray) -> None:
        """Go on with some members."""
        some = torch.from_numpy(np.flatnonzero(wanted)).to(self.parameters.device)
        self.members = GridMembers(self.members.blocks[wanted], self.members.penalty[wanted])
        self.penalty, self.parameters = self.penalty[some], self.parameters[some]
        self.now = _Evaluation(self.now.value[some], self.now.slope[some])
        self.stuck = self.stuck[wanted]
        self.known = self.known.some(some)

    def step(self, problem: _Problem) -> None:
        """One step of every member, halved until its loss falls enough."""
        direction = self._direction()
        downhill = (direction * self.now.slope).sum((1, 2), dtype=torch.float64)
        length = torch.ones(len(direction), device=direction.device)
        parameters, now = self.parameters + direction, None
        waiting = np.arange(len(direction))
        value, slope = torch.empty_like(self.now.value), torch.empty_like(self.now.slope)
        for _ in range(_HALVINGS):
            some = torch.from_numpy(waiting).to(direction.device)
            members = GridMembers(self.members.blocks[waiting], self.members.penalty[waiting])
            tried = _evaluated(problem, members, parameters[some], self.penalty[some])
            value[some], slope[some] = tried.value, tried.slope
            enough = (
                self.now.value[some] + _ARMIJO * length[some] * downhill[some] + _SLACK * self.now.value[some].abs()
            )
            waiting = waiting[~(tried.value <= enough).cpu().numpy()]
            if not len(waiting):
                break
            some = torch.from_numpy(waiting).to(direction.device)
            length[some] /= 2
            parameters[some] = self.parameters[some] + length[some][:, None, None] * direction[some]
        now = _Evaluation(value, slope)
        self.stuck |= np.isin(np.arange(len(direction)), waiting)
        self._remember(parameters - self.parameters, now.slope - self.now.slope)
        self.parameters, self.now = parameters, now

    def _remember(self, move: Tensor, turn: Tensor) -> None:
        bend = (move * turn).sum((1, 2))
        # A pair that rounding has spoilt is forgotten by its member: 0 leaves the direction as it is.
        good = bend > 1e-10 * turn.square().sum((1, 2)).clamp_min(1e-30)
        self.known.moves.append(move)
        self.known.turns.append(turn)
        self.known.bends.append(torch.where(good, 1 / bend.clamp_min(1e-30), 0.0))
        if len(self.known.moves) > _MEMORY:
            for history in self.known:
                del history[0]

    def _direction(self) -> Float[Tensor, "member label axis"]:
        rest = self.now.slope
        shares = []
        pairs = list(zip(*self.known, strict=True))
        for move, turn, bend in reversed(pairs):
            share = bend * (move * rest).sum((1, 2))
            rest = torch.addcmul(rest, turn, share[:, None, None], value=-1)
            shares.append(share)
        rest = self.curvature.divide(rest)
        if pairs:
            move, turn, bend = pairs[-1]
            size = (move * turn).sum((1, 2)) / (turn * self.curvature.divide(turn)).sum((1, 2)).clamp_min(1e-30)
            rest = rest * torch.where(bend > 0, size, 1.0)[:, None, None]
        for (move, turn, bend), share in zip(pairs, reversed(shares), strict=True):
            back = bend * (turn * rest).sum((1, 2))
            rest = torch.addcmul(rest, move, (share - back)[:, None, None])
        return -rest


_SLACK = 1e-7
"""Share of the loss that sums in float32 may be wrong by."""


def _ridge(problem: _Problem, members: GridMembers) -> Float[Tensor, "member label axis"]:
    """Closed form: products of vectors are summed by block once; a set of blocks is turned once for all penalties."""
    sizes = problem.counts.tolist()
    turned, gold = problem.turned.double(), problem.gold.double()
    products = torch.stack([part.T @ part for part in turned.split(sizes)])
    crossed = torch.stack(
        [part.T @ labels for part, labels in zip(turned.split(sizes), gold.split(sizes), strict=True)]
    )
    solved = torch.zeros(len(members), gold.shape[1], turned.shape[1], device=turned.device)
    sets, owner = np.unique(members.blocks, axis=0, return_inverse=True)
    for number, blocks in enumerate(sets):
        some = torch.from_numpy(np.flatnonzero(blocks)).to(turned.device)
        count = max(1, int(problem.counts[blocks].sum()))
        product, cross = products[some].sum(0) / count, crossed[some].sum(0) / count
        # The last axis is 1: the bias takes the means away.
        means, gold_means = product[-1, :-1], cross[-1]
        inner = product[:-1, :-1] - torch.outer(means, means)
        values, vectors = torch.linalg.eigh(inner)
        projected = vectors.T @ (cross[:-1] - torch.outer(means, gold_means))
        for member in np.flatnonzero(owner.ravel() == number).tolist():
            weights = vectors @ (projected / (values.clamp_min(0) + float(members.penalty[member]))[:, None])
            solved[member, :, :-1] = weights.T.float()
            solved[member, :, -1] = (gold_means - means @ weights).float()
    return solved

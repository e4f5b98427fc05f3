"""One group of a bank while it learns: Adam for many probes at once, patience and best weights of each probe.

On a GPU the gradients are written by hand: what automatic differentiation would also do, and is not needed here (keep
the loss, copy halves of the stack together and apart), costs more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.optim.adam import adam

from lamina.probes.edge import HIDDEN, EdgeProbes, Masks, span_shares
from lamina.probes.streams import ProbeBatch, ProbeTargets, SpanBounds, Spans, Stream
from lamina.progress import say
from lamina.stats import student_interval
from lamina.tasks.task import Metric

Slope = Callable[[Float[Tensor, "member target label"]], Float[Tensor, "member target label"]]
"""From logits to the derivatives of the loss by them."""


class _Passed(NamedTuple):
    """What the forward pass leaves for the way back."""

    scaled: Float[Tensor, "mixing layer"]
    inputs: tuple[Tensor, Tensor]
    """Of the members that mix layers, and of those that read one: [member, token, width]."""
    tokens: Float[Tensor, "member token hidden_by_span"]
    shares: list[Float[Tensor, "member target token"]]
    """Of every span."""
    pooled: Float[Tensor, "member target hidden_by_span"]
    raised: Float[Tensor, "member target hidden"]
    """After the tanh."""
    normed: Float[Tensor, "member target hidden"]
    mean: Tensor
    spread: Tensor
    dropped: Float[Tensor, "member target hidden"]
    """After dropout."""
    logits: Float[Tensor, "member target label"]


def set_gradients(
    probes: EdgeProbes,
    states: Float[Tensor, "layer token width"],
    spans: tuple[SpanBounds, ...],
    masks: Masks,
    slope: Slope,
) -> None:
    """Give every parameter its gradient, by one pass there and one back."""
    with torch.no_grad():
        passed = _forward(probes, states, spans, masks)
        gradients = _backward(probes, states, masks, passed, slope(passed.logits))
    passed.scaled.backward(gradients.pop("scaled"))
    for name, gradient in gradients.items():
        getattr(probes, name).grad = gradient


def _forward(probes: EdgeProbes, states: Tensor, spans: tuple[SpanBounds, ...], masks: Masks) -> _Passed:
    with torch.enable_grad():
        scaled = probes.gamma.unsqueeze(1) * probes.weights()
    layers, count, width = states.shape
    members, mixing, hidden = len(probes.cuts), probes.mixing, probes.hidden
    mixed = (scaled.detach() @ states.view(layers, count * width)).view(mixing, count, width)
    _by_seed(mixed, masks.tokens).mul_(masks.tokens.unsqueeze(1))
    alone = (states[probes.alone] * masks.tokens.unsqueeze(1)).view(members - mixing, count, width)
    tokens = states.new_empty(members, count, probes.arity * hidden)
    for half, seen in _halves(probes, mixed, alone):
        torch.baddbmm(probes.project_bias[half], seen, probes.project[half], out=tokens[half])
    pooled = states.new_empty(members, len(spans[0].bounds), probes.arity * hidden)
    shares = []
    for which, (span, part) in enumerate(zip(spans, tokens.split(hidden, -1), strict=True)):
        shares.append(span_shares(part, probes.attend[:, which], span))
        torch.bmm(shares[-1], part, out=pooled.split(hidden, -1)[which])
    raised = torch.baddbmm(probes.inner_bias, pooled, probes.inner).tanh_()
    normed, mean, spread = torch.native_layer_norm(raised, (hidden,), None, None, 1e-5)
    dropped = torch.addcmul(probes.norm_bias, normed, probes.norm)
    _drop(probes, dropped, masks)
    logits = torch.baddbmm(probes.outer_bias, dropped, probes.outer)
    return _Passed(scaled, (mixed, alone), tokens, shares, pooled, raised, normed, mean, spread, dropped, logits)


def _backward(probes: EdgeProbes, states: Tensor, masks: Masks, passed: _Passed, slope: Tensor) -> dict[str, Tensor]:
    """The gradient of every parameter by name; that of the mixing weights and gamma together, as of `scaled`."""
    gradients = {"outer": torch.bmm(passed.dropped.mT, slope), "outer_bias": slope.sum(1, keepdim=True)}
    back = torch.bmm(slope, probes.outer.mT)
    _drop(probes, back, masks)
    gradients |= {"norm": (back * passed.normed).sum(1, keepdim=True), "norm_bias": back.sum(1, keepdim=True)}
    back = torch.ops.aten.native_layer_norm_backward(
        back.mul_(probes.norm), passed.raised, [probes.hidden], passed.mean, passed.spread, None, None,
        [True, False, False],
    )[0]  # fmt: skip
    back = torch.ops.aten.tanh_backward(back, passed.raised)
    gradients |= {"inner": torch.bmm(passed.pooled.mT, back), "inner_bias": back.sum(1, keepdim=True)}
    gradients["attend"], back = _through_pooling(probes, passed, torch.bmm(back, probes.inner.mT))
    gradients |= {"project": torch.empty_like(probes.project), "project_bias": back.sum(1, keepdim=True)}
    for half, seen in _halves(probes, *passed.inputs):
        torch.bmm(seen.mT, back[half], out=gradients["project"][half])
    back = torch.bmm(back[: probes.mixing], probes.project[: probes.mixing].mT)
    _by_seed(back, masks.tokens).mul_(masks.tokens.unsqueeze(1))
    # Token by token: as one product, this would be a sum over all tokens and widths, slow on a GPU.
    return gradients | {"scaled": torch.bmm(back.transpose(0, 1), states.permute(1, 2, 0)).sum(0)}


def _through_pooling(probes: EdgeProbes, passed: _Passed, back: Tensor) -> tuple[Tensor, Tensor]:
    """From the derivatives by what is pooled to those by the scores' weights and by tokens."""
    to_attend, to_tokens = torch.empty_like(probes.attend), torch.empty_like(passed.tokens)
    parts = zip(
        *(tensor.split(probes.hidden, -1) for tensor in (passed.tokens, passed.pooled, back, to_tokens)), strict=True
    )
    for which, (tokens, pooled, by_pooled, by_tokens) in enumerate(parts):
        share = passed.shares[which].mT
        torch.bmm(share, by_pooled, out=by_tokens)
        # Of the softmax: share * (derivative - its mean under the shares of the span), summed over targets.
        mean = (by_pooled * pooled).sum(-1, keepdim=True)
        by_score = (tokens * by_tokens).sum(-1, keepdim=True) - torch.bmm(share, mean)
        to_attend[:, which] = torch.bmm(tokens.mT, by_score)
        by_tokens.addcmul_(by_score, probes.attend[:, which].mT)
    return to_attend, to_tokens


def _halves(probes: EdgeProbes, mixed: Tensor, alone: Tensor) -> list[tuple[slice, Tensor]]:
    """The members that mix layers and those that read one, where there are any, with what they see."""
    slices = (slice(0, probes.mixing), slice(probes.mixing, len(probes.cuts)))
    return [(half, seen) for half, seen in zip(slices, (mixed, alone), strict=True) if len(seen)]


def _by_seed(members: Tensor, masks: Tensor) -> Tensor:
    """Members that are sorted by seed, [seed, member, ...]."""
    return members.view(len(masks), len(members) // len(masks), *members.shape[1:])


def _drop(probes: EdgeProbes, hidden: Tensor, masks: Masks) -> None:
    """Dropout, in place; members of each half are sorted by seed."""
    for half in hidden.tensor_split([probes.mixing]):
        _by_seed(half, masks.hidden).mul_(masks.hidden.unsqueeze(1))


class StackedAdam:
    """Adam (AMSGrad by default) for stacked parameters; the first dimension is the member, each has its own rate.

    On a GPU, a kernel of our own takes the whole step at once (`adam_kernel`). Elsewhere, torch's fused Adam does the
    arithmetic for all members in one call, at a rate of 1 and on zeros: what it leaves there are the members' steps,
    which then are taken at their own rates.
    """

    def __init__(
        self,
        parameters: list[torch.nn.Parameter],
        members: int,
        boosts: Mapping[int, float] | None = None,
        *,
        amsgrad: bool = True,
    ) -> None:
        """`boosts`: number of a parameter -> its learning rate, as a multiple of the others'."""
        self._parameters = parameters
        self._amsgrad = amsgrad
        self._members = members
        self._boosts = dict(boosts or {})
        self._moments = [tuple(torch.zeros_like(p) for _ in range(3)) for p in parameters]
        device = parameters[0].device if parameters else None
        self._steps = torch.zeros(len(parameters), device=device)
        """[parameter] Steps taken, counted on the device, where a recorded step counts on."""
        self._taken = [torch.zeros_like(p) for p in parameters]

    def some(self, parameters: list[torch.nn.Parameter], members: list[int]) -> StackedAdam:
        """The optimiser of these members, whose parameters are given; it goes on from where this one is."""
        few = StackedAdam(parameters, len(members), self._boosts, amsgrad=self._amsgrad)
        few._steps = self._steps.clone()
        for mine, whole in zip(few._moments, self._moments, strict=True):
            for target, source in zip(mine, whole, strict=True):
                target.copy_(source[[member for member in members if member < len(source)]])
        return few

    def state(self) -> dict[str, Tensor]:
        """Everything one step passes to the next, apart from the parameters; the tensors themselves, not copies."""
        moments = {
            f"{number}/{which}": m for number, triple in enumerate(self._moments) for which, m in enumerate(triple)
        }
        return moments | {"steps": self._steps}

    def step(self, rates: np.ndarray | Tensor, clip: float) -> None:
        """Clip each member's gradient, update each with its own rate (0: not at all), and clear the gradients.

        A parameter may belong to the first members only, as mixing weights do, or to none.
        """
        filled = [number for number, parameter in enumerate(self._parameters) if parameter.numel()]
        grads = {number: _grad(self._parameters[number]) for number in filled}
        device = self._parameters[filled[0]].device
        member_rates = torch.as_tensor(rates).to(device, torch.float32)
        scale = self._scale(list(grads.values()), clip)
        with torch.no_grad():
            if self._amsgrad and device.type == "cuda" and (take_step := _kernel(device)) is not None:
                self._step_by_kernel(take_step, grads, member_rates, scale)
            else:
                self._by_torch(grads, member_rates, scale)
            for number in filled:
                self._parameters[number].grad = None

    def _by_torch(self, grads: Mapping[int, Tensor], rates: Tensor, scale: Tensor) -> None:
        if scale.is_cuda or bool((scale < 1).any()):
            # Asking a GPU whether it is needed would take longer than doing it.
            for grad in grads.values():
                grad *= scale[: len(grad)].view(-1, *[1] * (grad.dim() - 1))
        for number in grads:
            self._taken[number].zero_()
        first, second, most = ([self._moments[number][which] for number in grads] for which in range(3))
        steps = [self._steps[number] for number in grads]
        adam(
            [self._taken[number] for number in grads], list(grads.values()), first, second,
            most if self._amsgrad else [], steps,
            fused=True, amsgrad=self._amsgrad, beta1=_BETAS[0], beta2=_BETAS[1], lr=1.0, weight_decay=0.0, eps=_EPSILON,
            maximize=False,
        )  # fmt: skip
        for number in grads:
            parameter = self._parameters[number]
            rate = rates[: len(parameter)] * self._boosts.get(number, 1.0)
            parameter.addcmul_(self._taken[number], rate.view(-1, *[1] * (parameter.dim() - 1)))

    def _step_by_kernel(
        self, take_step: Callable[..., None], grads: Mapping[int, Tensor], rates: Tensor, scale: Tensor
    ) -> None:
        self._steps += 1
        first, second = (1 - torch.pow(beta, self._steps[0].double()) for beta in _BETAS)
        corrections = torch.stack([first, second.sqrt()]).float()
        about = {"rates": rates, "scales": scale, "corrections": corrections, "betas": _BETAS, "epsilon": _EPSILON}
        for number, grad in grads.items():
            parameter, boost = self._parameters[number], self._boosts.get(number, 1.0)
            take_step(parameter, grad.contiguous(), self._moments[number], **about, boost=boost)

    def _scale(self, grads: list[Tensor], most: float) -> Tensor:
        """[member] What a member's gradient is multiplied by, so that it is not longer than the most."""
        squares = torch.zeros(self._members, device=grads[0].device)
        for grad in grads:
            flat = grad.flatten(1) if grad.dim() > 1 else grad.unsqueeze(1)
            squares[: len(grad)] += torch.linalg.vector_norm(flat, dim=1).square()
        return (most / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)


_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


@cache
def _kernel(device: torch.device) -> Callable[..., None] | None:
    """What takes a step at once on a GPU; None, with a word, where it cannot be compiled."""
    try:
        from lamina.probes.adam_kernel import take_step, works_on

        return take_step if works_on(device) else None
    except Exception as error:
        # Whatever a compiler may say: without it, the step is taken by torch.
        say(f"Adam is not compiled for this GPU ({type(error).__name__}: {error}); probes are trained a little slower")
        return None


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    return parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)


@dataclass(frozen=True)
class Schedule:
    """How probes are trained. The defaults are the pipeline paper's, but for what chooses the weights: loss, not F1."""

    learning_rate: float = 1e-4
    mixing_rate: float = 1.0
    """Learning rate of the mixing weights, as a multiple of the others': Adam moves a weight by about the rate per step
    whatever its scale, and mixing weights have further to go."""
    validate_every: int = 1000
    """Steps between validations."""
    max_validations: int = 250
    halve_after: int = 5
    """Validations without gain before the learning rate is halved."""
    stop_after: int = 20
    """Validations without gain before the probe stops: it has converged, unless the first of all was the best."""
    min_gain: float = 1e-4
    """Share of the lowest loss so far by which a validation has to be lower to count as a gain."""
    enough: float = 0.0
    """A loss per target (nats) below which a probe of classes has converged: its scores could not change."""
    min_learning_rate: float = 1e-6
    """Below this, the rate is not halved any more."""
    ends_below: bool = False
    """Whether a probe stops instead, as in the paper's code, where its rate would be halved below that."""
    selects: Literal["loss", "f1"] = "loss"
    """What validations go by. By F1 (the task's own), a gain is `min_gain` of it, not a share of the loss."""
    clip: float = 5.0
    """Maximum gradient norm of a probe."""
    batch_texts: int = 32
    """Texts of a step."""
    batch_targets: int | None = None
    """About how many targets a step has, in whole texts; None: `batch_texts` texts."""
    hidden: int = HIDDEN
    """Width of the probe."""
    growth: float | None = None
    """Training in cycles, in each of which the rate rises and falls to 0, with a validation at its end. A cycle ends
    after this many times the steps after which the one before it ended; the first takes `validate_every` steps, or one
    pass over the data where that is less. A probe stops after a cycle that was not shown to lower its loss by
    `min_gain`, by an interval over the stopping texts. None: the rate is halved where the loss falls no more."""

    @property
    def max_steps(self) -> int:
        """Upper limit for all probes."""
        return self.end_of(self.max_validations)

    def end_of(self, validation: int) -> int:
        """The steps before a validation, counted from 1.

        Example:
            >>> [Schedule(validate_every=10, growth=2.0).end_of(number) for number in (0, 1, 2, 3)]
            [0, 10, 20, 40]
        """
        if self.growth is None or validation == 0:
            return self.validate_every * validation
        # However short cycles are, each has a step.
        return max(round(self.validate_every * self.growth ** (validation - 1)), self.validate_every + validation - 1)

    def validations_by(self, steps: int) -> int:
        """How many validations there are in this many steps."""
        number = 0
        while number < self.max_validations and self.end_of(number + 1) <= steps:
            number += 1
        return number

    def rate_share(self, step: int) -> float:
        """What the learning rate is multiplied by in a step, counted from 1.

        Example:
            >>> [round(Schedule(validate_every=10, growth=2.0).rate_share(step), 2) for step in (1, 2, 6, 10, 11)]
            [0.5, 0.94, 0.5, 0.06, 0.5]
        """
        if self.growth is None:
            return 1.0
        before = self.validations_by(step - 1)
        start, end = self.end_of(before), self.end_of(before + 1)
        done = (step - start - 0.5) / (end - start)
        return min(done / _RISING, (1 - done) / (1 - _RISING))

    def fitted_to(self, targets: ProbeTargets) -> Schedule:
        """The schedule on these targets: its first cycle is no longer than one pass over them."""
        if self.growth is None or not len(targets):
            return self
        epoch = -(-len(np.unique(targets.text)) // self.texts_of(targets))
        return replace(self, validate_every=min(self.validate_every, max(epoch, _SHORTEST)))

    def describe(self) -> dict[str, float | int | None]:
        """Its fields, for provenance and keys."""
        return asdict(self)

    def texts_of(self, targets: ProbeTargets) -> int:
        """Texts of a step on these targets."""
        if self.batch_targets is None:
            return self.batch_texts
        carrying = len(np.unique(targets.text))
        return max(1, round(self.batch_targets * carrying / max(len(targets), 1)))


_RISING = 0.1
"""Share of a cycle in which the rate rises: Adam's moments are of another rate."""
_SHORTEST = 10
"""Steps of a first cycle at the least."""


class LearningRecord(NamedTuple):
    """How the training of a group's members went; each [member]."""

    loss: Float[np.ndarray, " member"]
    """The lowest on the texts that decide when to stop, that of the weights that were kept."""
    steps: Int[np.ndarray, " member"]
    best_step: Int[np.ndarray, " member"]
    """After which the weights were kept."""
    last_gain: Float[np.ndarray, " member"]
    """Share by which the last `stop_after` validations lowered the loss."""
    converged: Bool[np.ndarray, " member"]
    """Whether training ended because the loss fell no more, after it had been seen to fall; otherwise it was cut off by
    the most steps, or the probe has overfitted."""
    overfitted: Bool[np.ndarray, " member"]
    """Whether no validation was better than the first one: the best weights lie before it, unseen."""
    reach: Float[np.ndarray, " member"]
    """How far a mixing weight's logit can have moved from 0 to the weights that were kept: the sum of its rates."""

    def of(self, members: np.ndarray) -> LearningRecord:
        """Of these members only."""
        return LearningRecord(*(values[members] for values in self))


Loss = Literal["binary", "categorical", "squared"]
"""Cross-entropy of a yes or no about every label; of one label out of all; or the squared error of a value."""


@dataclass(eq=False)
class ProbeGroup:
    """Probes that learn the same labels from the same states and run as one module."""

    probes: EdgeProbes
    learn: ProbeTargets
    """What they learn: the labels may be others than the stream's own, as control labels are."""
    stop: ProbeTargets
    """What decides when they stop."""
    streams: tuple[Stream, Stream]
    """Of the same targets, for learning and for stopping. All groups trained together have the same texts in both."""
    loss: Loss = "binary"
    metric: Metric = "f1"
    """What validations go by where they do not go by the loss."""


class Learner:
    """Training state of one group: optimiser, patience and best weights of each member.

    Members that have stopped leave the stack, and the rest goes on in a smaller one: see `shrink`.
    """

    def __init__(self, group: ProbeGroup, schedule: Schedule) -> None:
        device = group.streams[0].device
        self.group = group
        self.schedule = schedule
        self.full = group.probes.to(device)
        self.probes = self.full
        count = len(self.full.cuts)
        self.members = np.arange(count)
        """Those still in the stack."""
        self.stacked = np.ones(count, bool)
        """The same, one yes or no per member."""
        self.optimiser = self._optimiser()
        self.rates = np.full(count, schedule.learning_rate)
        self.since = np.zeros(count, int)
        self.running = np.ones(count, bool)
        self.best_step = np.zeros(count, int)
        self.moved = np.zeros(count)
        """An upper bound on how far mixing logits have moved so far ..."""
        self.reach = np.zeros(count)
        """... and up to the best weights: Adam moves a parameter by about its rate per step at most."""
        self.history = np.full((schedule.max_validations, count), np.nan)
        """[validation, member] The lowest loss so far."""
        self.texts, self._text = np.unique(group.stop.text, return_inverse=True)
        """The stopping texts; of every target, its text among them."""
        self.best_losses = np.full((count, len(self.texts)), np.inf)
        """[member, text] What every stopping text adds to the lowest loss."""
        self.enough = 0.0 if group.loss == "squared" else schedule.enough * len(group.stop) / max(self._decisions, 1)
        """The same of the mean over decisions, of which a target has several."""
        self.worse = np.zeros(count, bool)
        """Whether the last validation was shown to be worse than the best one."""
        self.best_weights = {name: value.detach().clone() for name, value in self.full.named_parameters()}
        self.unit = _unit(group) if group.loss == "squared" else (0.0, 1.0)
        self._learn, self._stop = (
            _gold_labels(targets, group.loss, self.unit, device) for targets in (group.learn, group.stop)
        )
        self._rates = torch.zeros(count, device=device)
        """[member of the stack] The rates of those still running in this step, where they are needed ..."""
        self._highest = torch.zeros(count, device=device)
        """... and at the height of a cycle."""
        self._tell_rates()

    def step(self, batch: ProbeBatch, number: int) -> None:
        """One gradient step of every member still running."""
        self.set_rates(number)
        self.learn(batch.states, batch.spans, self.probes.draw_masks(batch, number), self._rows_of(batch))

    def set_rates(self, number: int) -> None:
        """Set the rates of step `number`, counted from 1, where recorded steps read them too."""
        if self.schedule.growth is not None:
            torch.mul(self._highest, self.schedule.rate_share(number), out=self._rates)

    def learn(self, states: Tensor, spans: Spans, masks: Masks, rows: Tensor) -> None:
        """The same from its parts; `rows` are the targets by number, one past the last for none."""
        if bounds := tuple(span for span in spans if isinstance(span, SpanBounds)):
            set_gradients(
                self.probes,
                states,
                bounds,
                masks,
                partial(_slopes, gold_labels=self._learn, rows=rows, loss=self.group.loss),
            )
        else:
            sums, count = _losses(self.probes.logits(states, spans, masks), self._learn, rows, self.group.loss)
            (sums / count.clamp_min(1)).sum().backward()
        self.optimiser.step(self._rates, self.schedule.clip)

    def stopping_losses(self, batch: ProbeBatch) -> Float[Tensor, "member target"]:
        """The loss of every member in the stack on some stopping targets, over all their decisions."""
        return self.stopping_loss(batch.states, batch.spans, self._rows_of(batch))

    def stopping_loss(self, states: Tensor, spans: Spans, rows: Tensor) -> Float[Tensor, "member target"]:
        """The same from its parts."""
        with torch.no_grad():
            return _target_losses(self.probes.logits(states, spans), self._stop, rows, self.group.loss)[0]

    def losses_by_text(self, losses: Float[np.ndarray, "member target"]) -> Float[np.ndarray, "member text"]:
        """What every stopping text adds to the mean loss, of the loss on every stopping target."""
        sums = np.zeros((len(losses), len(self.texts)))
        np.add.at(sums.T, self._text, losses.T)
        return sums / max(self._decisions, 1)

    @property
    def _decisions(self) -> int:
        """How many decisions the mean loss is over."""
        rated = self.group.stop.rated
        return int((rated[:, 0] if self.group.loss == "categorical" else rated).sum())

    def validate(self, losses: Float[np.ndarray, "stacked text"], number: int) -> None:
        """Process the losses of validation `number` (from 1): keep weights that improve, slow down or stop others.

        Args:
            losses: what every stopping text adds to the mean loss of the members in the stack.
            number: of the validation.
        """
        current = np.full(len(self.running), np.inf)
        current[self.members] = losses.sum(1)
        before = self.history[number - 2] if number > 1 else np.full(len(current), np.inf)
        cycles = self.schedule.growth is not None
        # Of F1, what is validated is 1 minus it.
        by_f1 = self.schedule.selects == "f1"
        bar = before - self.schedule.min_gain if by_f1 else before * (1 - (0 if cycles else self.schedule.min_gain))
        # The first loss that is a number is the best so far, whatever counts as a gain.
        better = self.running & (current < np.where(np.isfinite(before), bar, np.inf))
        # An F1 is one number: a cycle that did not raise it is the last.
        going_on = better if by_f1 else self._going_on(losses, before) if cycles else self.running
        self._keep(np.flatnonzero(better))
        steps = self.schedule.end_of(number) - self.schedule.end_of(number - 1)
        # Within a cycle the rate is half of its height on average.
        moved = self.rates * self.schedule.mixing_rate * steps * (0.5 if cycles else 1)
        self.moved += np.where(self.running, moved, 0)
        self.reach[better] = self.moved[better]
        self.best_step[better] = self.schedule.end_of(number)
        self.history[number - 1] = np.where(better, current, before)
        self.since = np.where(better, 0, self.since + self.running)
        if cycles:
            self.running &= going_on
        else:
            halved = self.running & (self.since > 0) & (self.since % self.schedule.halve_after == 0)
            least = self.schedule.min_learning_rate
            if self.schedule.ends_below:
                self.running &= ~(halved & (self.rates / 2 < least))
            self.rates = np.where(halved, np.maximum(self.rates / 2, least), self.rates)
            self.running &= self.since < self.schedule.stop_after
        if not by_f1:
            self.running &= ~(self.history[number - 1] < self.enough)
        self.shrink()
        self._tell_rates()

    def _going_on(self, losses: Float[np.ndarray, "stacked text"], before: np.ndarray) -> Bool[np.ndarray, " member"]:
        """Which members' losses a cycle was shown to lower, and by enough; all after the first cycle."""
        going_on = self.running.copy()
        texts = losses.shape[1]
        for place, member in enumerate(self.members.tolist()):
            if self.running[member] and np.isfinite(before[member]):
                gains = self.best_losses[member] - losses[place]
                low, high = (end * texts for end in student_interval(gains))
                going_on[member] = low > 0 and gains.sum() > self.schedule.min_gain * abs(before[member])
                self.worse[member] = high < 0
            if self.running[member] and losses[place].sum() < before[member]:
                self.best_losses[member] = losses[place]
        return going_on

    def shrink(self) -> None:
        """Leave stopped members behind: after a cycle all of them, else where they are at least half of the stack.

        Seeds in one stack, as on a GPU, see the same layers: a member leaves when it has stopped in every seed.
        """
        learning = {self.probes.cuts[place] for place in np.flatnonzero(self.running[self.members])}
        left = np.flatnonzero([cut in learning for cut in self.probes.cuts])
        # Cycles end rarely, other validations often, and a smaller stack has to be copied.
        most = len(self.members) - 1 if self.schedule.growth is not None else len(self.members) // 2
        if 0 < len(left) <= most:
            self._go_on_with(left)

    def resume(self) -> None:
        """Have the stack that the restored state was saved with: in another one, numbers would round otherwise."""
        if not self.stacked.all():
            self._go_on_with(np.flatnonzero(self.stacked))
        self._tell_rates()

    def _go_on_with(self, left: np.ndarray) -> None:
        """Members of the stack, by their places in it."""
        few = left.tolist()
        self.probes = self.probes.some(few)
        self.optimiser = self._optimiser(few)
        self.members = self.members[left]
        self.stacked = np.isin(np.arange(len(self.stacked)), self.members)

    def state(self) -> dict[str, Tensor]:
        """Everything one validation passes to the next.

        As long as all members are in the stack, the tensors and arrays themselves; after that, copies with what has
        been left behind as zeros.
        """
        weights, adam = dict(self.probes.named_parameters()), self.optimiser.state()
        if len(self.members) < len(self.running):
            sizes = {name: len(value) for name, value in self.full.named_parameters()}
            of = list(sizes.values())
            weights = {name: self._widened(value, sizes[name]) for name, value in weights.items()}
            adam = {
                # Moments are named by the number of their parameter.
                name: value if name == "steps" else self._widened(value, of[int(name.partition("/")[0])])
                for name, value in adam.items()
            }
        progress = {
            name: torch.from_numpy(getattr(self, name))
            for name in (
                "rates",
                "since",
                "running",
                "best_step",
                "moved",
                "reach",
                "history",
                "stacked",
                "best_losses",
                "worse",
            )
        }
        parts = {"weights": weights, "kept": self.best_weights, "adam": adam, "told": progress}
        return {f"{part}/{name}": value for part, tensors in parts.items() for name, value in tensors.items()}

    def finish(self) -> LearningRecord:
        """Give every member its best weights; of graded targets, in the values' own unit."""
        with torch.no_grad():
            for name, value in self.full.named_parameters():
                value.copy_(self.best_weights[name])
            mean, deviation = self.unit
            self.full.outer.mul_(deviation)
            self.full.outer_bias.mul_(deviation).add_(mean)
        self.full.zero_grad(set_to_none=True)
        return self._learned()

    def _learned(self) -> LearningRecord:
        done = int((~np.isnan(self.history)).any(1).sum())
        steps = np.empty(len(self.running), int)
        gain = np.full(len(self.running), np.nan)
        for member in range(len(self.running)):
            # A member that has stopped has the same lowest loss ever after: it was trained `since` validations longer.
            last = min(done, self.schedule.validations_by(int(self.best_step[member])) + int(self.since[member]))
            steps[member] = self.schedule.end_of(last)
            history = self.history[:last, member]
            if len(history):
                before = history[max(0, len(history) - 1 - self.schedule.stop_after)]
                # Infinite where no loss has been a number.
                with np.errstate(invalid="ignore"):
                    gain[member] = (before - history[-1]) / abs(before) if before else 0.0
        loss = self.history[done - 1] if done else np.full(len(self.running), np.nan)
        ended = ~self.running & np.isfinite(loss)
        # A first cycle that another one could not better is the best of all unless the other one was worse.
        overfitted = ended & (self.best_step == self.schedule.end_of(1))
        overfitted &= self.worse | (self.schedule.growth is None)
        overfitted &= ~(loss < self.enough)
        return LearningRecord(loss, steps, self.best_step, gain, ended & ~overfitted, overfitted, self.reach)

    def _rows_of(self, batch: ProbeBatch) -> Tensor:
        return torch.from_numpy(batch.rows).to(self._rates.device)

    def _tell_rates(self) -> None:
        now = torch.from_numpy(np.where(self.running, self.rates, 0.0)[self.members]).float()
        if len(now) != len(self._rates):
            self._rates, self._highest = self._rates[: len(now)].clone(), self._highest[: len(now)].clone()
        # In place: a recorded step goes on reading from the same memory.
        self._rates.copy_(now)
        self._highest.copy_(now)

    def _optimiser(self, some: list[int] | None = None) -> StackedAdam:
        parameters = list(self.probes.parameters())
        if some is not None:
            return self.optimiser.some(parameters, some)
        boosts = {
            number: self.schedule.mixing_rate
            for number, (name, _) in enumerate(self.probes.named_parameters())
            if name in ("mix", "gamma")
        }
        return StackedAdam(parameters, len(self.members), boosts)

    def _widened(self, value: Tensor, members: int) -> Tensor:
        whole = torch.zeros(members, *value.shape[1:], dtype=value.dtype, device=value.device)
        whole[self.members[self.members < members]] = value.detach()
        return whole

    def _keep(self, members: np.ndarray) -> None:
        place = {member: position for position, member in enumerate(self.members.tolist())}
        for name, value in self.probes.named_parameters():
            # Only cumulative members, which come first, have mixing weights.
            some = [member for member in members.tolist() if member < len(self.best_weights[name])]
            self.best_weights[name][some] = value.detach()[[place[member] for member in some]]


class _GoldLabels(NamedTuple):
    """What targets are compared with; one more row, which counts for nothing, fills batches up."""

    gold: Tensor
    """[target, label] As numbers: 1 where a label holds, or the value in its unit."""
    rated: Tensor
    """[target, label] Which decisions count."""


def _gold_labels(targets: ProbeTargets, loss: Loss, unit: tuple[float, float], device: str) -> _GoldLabels:
    gold = targets.gold
    if loss == "squared":
        gold = (np.asarray(targets.values)[:, None] - unit[0]) / unit[1]
    filled = (
        np.concatenate([column, np.zeros_like(column[:1], shape=(1, column.shape[1]))])
        for column in (gold, targets.rated)
    )
    return _GoldLabels(*(torch.from_numpy(column).float().to(device) for column in filled))


def _unit(group: ProbeGroup) -> tuple[float, float]:
    """Mean and deviation of the values learned from."""
    values = np.asarray(group.learn.values)
    return float(values.mean()), float(values.std()) or 1.0


def _losses(
    logits: Float[Tensor, "member target label"], gold_labels: _GoldLabels, rows: Int[Tensor, " target"], loss: Loss
) -> tuple[Float[Tensor, " member"], Tensor]:
    """Every member's loss, summed over what counts, and how much that is."""
    losses, counted = _target_losses(logits, gold_labels, rows, loss)
    return losses.sum(1), counted


def _target_losses(
    logits: Float[Tensor, "member target label"], gold_labels: _GoldLabels, rows: Int[Tensor, " target"], loss: Loss
) -> tuple[Float[Tensor, "member target"], Tensor]:
    """Every member's loss on every target, summed over what counts, and how much that is in all."""
    gold, rated = gold_labels.gold[rows], gold_labels.rated[rows]
    if loss == "categorical":
        counted = rated[:, 0]
        return -(logits.log_softmax(-1) * gold).sum(-1) * counted, counted.sum()
    if loss == "squared":
        return ((logits - gold).square() * rated).sum(2), rated.sum()
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, gold.expand_as(logits), rated, reduction="none"
    )
    return losses.sum(2), rated.sum()


def _slopes(
    logits: Float[Tensor, "member target label"], gold_labels: _GoldLabels, rows: Int[Tensor, " target"], loss: Loss
) -> Float[Tensor, "member target label"]:
    """The derivatives of every member's mean loss by its logits."""
    gold, rated = gold_labels.gold[rows], gold_labels.rated[rows]
    if loss == "categorical":
        counted = rated[:, :1]
        return (logits.softmax(-1) * gold.sum(-1, keepdim=True) - gold) * (counted / counted.sum().clamp_min(1))
    share = rated / rated.sum().clamp_min(1)
    return (logits - gold) * (2 * share) if loss == "squared" else logits.sigmoid().sub_(gold).mul_(share)

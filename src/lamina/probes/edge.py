"""Edge probes (Tenney et al. 2019), many at a time: parameters stacked along a first dimension, results independent.

    h = gamma * sum_l softmax(a)_l h_l      -> dropout -> projection -> attention within the span -> MLP -> labels

A member is a layer cut: it mixes layers 0..l (`cumulative`) or reads only layer l (`layer`). Members of one seed share
initial weights, batches and dropout masks: they differ only in the layers they see.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from lamina.errors import DamagedError, ResultError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.streams import ProbeBatch, SpanBounds, Spans, SpanTokens, Standard

# Dropout masks made of (seed, step) alone: a counter-based generator gives the same bits on every device.

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of SplitMix64 (Steele, Lea and Flood 2014)."""
_LANES = 4
"""Masked numbers per 64 bits: each is decided by 16 of them, so a rate is right to 1 in 65,536."""


def dropout_mask(
    shape: tuple[int, ...], rate: float, *, key: tuple[int, ...], device: str | torch.device
) -> Bool[Tensor, ...]:
    """Which numbers are kept when a share of `rate` is dropped; `key` (numbers of at least 0) says which draw.

    Example:
        >>> one, same, other = (dropout_mask((2, 9), 0.5, key=(0, step), device="cpu") for step in (7, 7, 8))
        >>> torch.equal(one, same), torch.equal(one, other)
        (True, False)
    """
    return dropout_masks(torch.tensor([draw_start(key)], device=device), shape, rate)[0]


def dropout_masks(starts: Int64[Tensor, " draw"], shape: tuple[int, ...], rate: float) -> Bool[Tensor, ...]:
    """Several draws at once, each from its own start; on a GPU nothing but the starts has to be copied there."""
    count = torch.Size(shape).numel()
    counters = torch.arange(1, -(-count // _LANES) + 1, device=starts.device)
    bits = _mixed(counters * _signed(_GOLDEN) + starts.unsqueeze(1)).view(torch.int16)
    # The smallest share of the 2**16 values, from the least one up, is dropped.
    return (bits[:, :count] >= round(rate * 2**16) - 2**15).view(len(starts), *shape)


def _mixed(z: Tensor) -> Tensor:
    """SplitMix64's output function; products of 64-bit integers wrap around on every device."""
    z = (z ^ _shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(_SECOND)
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """To the right, filled with zeros: torch's own shift copies the sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def draw_start(key: tuple[int, ...]) -> int:
    """One number of 64 bits, with a sign, out of several: where a draw begins."""
    state = 0
    for part in key:
        z = (state + part * _GOLDEN + _GOLDEN) % 2**64
        z = (z ^ (z >> 30)) * _FIRST % 2**64
        z = (z ^ (z >> 27)) * _SECOND % 2**64
        state = z ^ (z >> 31)
    return _signed(state)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


INPUT_DROPOUT = 0.2
HIDDEN_DROPOUT = 0.3
HIDDEN = 256
"""Width of the projection and of the classifier in the paper."""


class LayerCut(NamedTuple):
    """The layers one probe sees."""

    probe: Literal["cumulative", "layer"]
    layer: int


class Masks(NamedTuple):
    """Dropout of one training step: one draw per seed, shared by all members of that seed."""

    tokens: Float[Tensor, "seed token width"]
    hidden: Float[Tensor, "seed target hidden"]


class EdgeProbes(torch.nn.Module):
    """Probes of one task, one per cut and seed, as one module.

    Order of the members: cumulative before single-layer, then by seed, then by layer; `cuts` and `seed_of` identify
    them. Members of one seed have the same initial weights and dropout masks.
    """

    closed: Tensor
    """[mixing, layer] Layers that a cumulative member does not see."""
    alone: Tensor
    """[single] The layer each single-layer member reads, for one seed."""
    owner: Tensor
    """[member] Index of its seed."""

    def __init__(
        self,
        cuts: Sequence[LayerCut],
        *,
        layers: int,
        width: int,
        labels: int,
        arity: int,
        seed: int | tuple[int, ...],
        hidden: int = HIDDEN,
    ) -> None:
        super().__init__()
        self.arity, self.hidden = arity, hidden
        self.seeds = (seed,) if isinstance(seed, int) else seed
        members = [(number, cut) for number in range(len(self.seeds)) for cut in cuts]
        members.sort(key=lambda member: (member[1].probe, member[0], member[1].layer))
        self.cuts = [cut for _, cut in members]
        self.seed_of = [self.seeds[number] for number, _ in members]
        self.mixing = sum(cut.probe == "cumulative" for cut in self.cuts)
        until = torch.tensor([cut.layer for cut in self.cuts[: self.mixing]], dtype=torch.long)
        alone = sorted(cut.layer for cut in cuts if cut.probe == "layer")
        self.register_buffer("closed", torch.arange(layers) > until.unsqueeze(1))
        self.register_buffer("alone", torch.tensor(alone, dtype=torch.long))
        self.register_buffer("owner", torch.tensor([number for number, _ in members]))
        self.mix = torch.nn.Parameter(torch.zeros(self.mixing, layers))
        self.gamma = torch.nn.Parameter(torch.ones(self.mixing))
        draws = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        # The projections of both spans side by side: one product for the two.
        self.project = self._drawn((width, arity * hidden), width, draws)
        self.project_bias = self._drawn((1, arity * hidden), width, draws)
        self.attend = self._drawn((arity, hidden, 1), hidden, draws)
        self.inner = self._drawn((arity * hidden, hidden), arity * hidden, draws)
        self.inner_bias = self._drawn((1, hidden), arity * hidden, draws)
        self.norm = torch.nn.Parameter(torch.ones(len(members), 1, hidden))
        self.norm_bias = torch.nn.Parameter(torch.zeros(len(members), 1, hidden))
        self.outer = self._drawn((hidden, labels), hidden, draws)
        self.outer_bias = self._drawn((1, labels), hidden, draws)

    def forward(self, batch: ProbeBatch, masks: Masks | None = None) -> Float[Tensor, "member target label"]:
        """Logits of every label for every target, from every member."""
        return self.logits(batch.states, batch.spans, masks)

    def logits(
        self,
        states: Float[Tensor, "layer token width"],
        spans: Spans,
        masks: Masks | None = None,
    ) -> Float[Tensor, "member target label"]:
        """The same, of states and spans."""
        mixed, alone = self._inputs(states, masks)
        # Two products: single layers have no mixing weights, so they need no gradient.
        sizes = [self.mixing, len(self.cuts) - self.mixing]
        parts = zip((mixed, alone), self.project_bias.split(sizes), self.project.split(sizes), strict=True)
        projected = [torch.baddbmm(bias, seen, weight) for seen, bias, weight in parts if len(seen)]
        tokens = projected[0] if len(projected) == 1 else torch.cat(projected)
        pooled = [
            _pool(span_tokens, self.attend[:, which], span)
            for which, (span_tokens, span) in enumerate(zip(tokens.split(self.hidden, dim=-1), spans, strict=True))
        ]
        hidden = torch.baddbmm(self.inner_bias, torch.cat(pooled, dim=-1), self.inner).tanh()
        hidden = torch.nn.functional.layer_norm(hidden, (self.hidden,)) * self.norm + self.norm_bias
        if masks is not None:
            hidden = hidden * (masks.hidden if len(self.seeds) == 1 else masks.hidden[self.owner])
        return torch.baddbmm(self.outer_bias, hidden, self.outer)

    def weights(self) -> Float[Tensor, "mixing layer"]:
        """The mixing weights of cumulative members: softmax over the layers each may see."""
        return self.mix.masked_fill(self.closed, -torch.inf).softmax(-1)

    def draw_masks(self, batch: ProbeBatch, step: int) -> Masks:
        """The dropout of one step: depends only on (seed, step), so that no member depends on the others."""
        _, tokens, width = batch.states.shape
        starts = torch.tensor(self.mask_starts(step), device=batch.states.device)
        return self.masks_from(starts, tokens, len(batch.rows), width)

    def mask_starts(self, step: int) -> list[list[int]]:
        """[tokens or hidden, seed] Where the dropout masks of a step begin."""
        return [[draw_start((seed, step, which)) for seed in self.seeds] for which in range(2)]

    def masks_from(self, starts: Int64[Tensor, "2 seed"], tokens: int, targets: int, width: int) -> Masks:
        """The dropout masks that begin there; those of fewer tokens and targets are the first rows of those of more."""
        of_tokens = dropout_masks(starts[0], (tokens, width), INPUT_DROPOUT).float() / (1 - INPUT_DROPOUT)
        of_hidden = dropout_masks(starts[1], (targets, self.hidden), HIDDEN_DROPOUT).float() / (1 - HIDDEN_DROPOUT)
        return Masks(of_tokens, of_hidden)

    def of_seed(self, seed: int) -> EdgeProbes:
        """The members of one seed, with copies of their weights."""
        return self.some([member for member, member_seed in enumerate(self.seed_of) if member_seed == seed])

    def some(self, members: Sequence[int]) -> EdgeProbes:
        """These members in their order, of every seed the same cuts, with copies of their weights."""
        seeds = tuple(dict.fromkeys(self.seed_of[member] for member in members))
        few = EdgeProbes(
            list(dict.fromkeys(self.cuts[member] for member in members)),
            layers=self.closed.shape[1],
            width=self.project.shape[1],
            labels=self.outer.shape[-1],
            arity=self.arity,
            seed=seeds,
            hidden=self.hidden,
        ).to(self.project.device)
        with torch.no_grad():
            for mine, whole in zip(few.parameters(), self.parameters(), strict=True):
                mine.copy_(whole[[member for member in members if member < len(whole)]])
        return few

    def _inputs(self, states: Float[Tensor, "layer token width"], masks: Masks | None) -> tuple[Tensor, Tensor]:
        layers, tokens, width = states.shape
        seeds = len(self.seeds)
        seen = states.expand(seeds, -1, -1, -1) if masks is None else states * masks.tokens.unsqueeze(1)
        scaled = self.gamma.unsqueeze(1) * self.weights()
        if states.is_cuda:
            # Token by token: as one product, the gradient would be a sum over all tokens and widths, slow on a GPU.
            # Layers are mixed before dropout, which is the same for all members of a seed: one product for all seeds.
            mixed = (scaled @ states.transpose(0, 1)).transpose(0, 1)
            if masks is not None:
                mixed = mixed.reshape(seeds, -1, tokens, width) * masks.tokens.unsqueeze(1)
        else:
            mixed = scaled.view(seeds, -1, layers) @ seen.reshape(seeds, layers, tokens * width)
        mixed = mixed.reshape(self.mixing, tokens, width)
        # With all layers in their order there is nothing to pick.
        alone = seen if len(self.alone) == layers else seen[:, self.alone]
        return mixed, alone.reshape(-1, tokens, width)

    def _drawn(self, shape: tuple[int, ...], fan_in: int, draws: list[torch.Generator]) -> torch.nn.Parameter:
        """One draw per seed, as torch initialises a linear layer, repeated for every member of the seed."""
        one = torch.stack([(torch.rand(shape, generator=draw) * 2 - 1) * fan_in**-0.5 for draw in draws])
        return torch.nn.Parameter(one[self.owner])


def _pool(
    tokens: Float[Tensor, "member token hidden"],
    attend: Float[Tensor, "member hidden 1"],
    span: SpanTokens | SpanBounds,
) -> Float[Tensor, "member target hidden"]:
    """Within each span: one score per token, softmax, weighted sum."""
    return _pool_bounds(tokens, attend, span) if isinstance(span, SpanBounds) else _pool_pairs(tokens, attend, span)


def _pool_bounds(tokens: Tensor, attend: Tensor, span: SpanBounds) -> Tensor:
    """On a GPU: a softmax over all tokens, in which those outside of the span have no share, and one product.

    More to compute than needed, and yet several times faster than sums of uneven length; in the same order every time.
    """
    return torch.bmm(span_shares(tokens, attend, span), tokens)


def span_shares(
    tokens: Float[Tensor, "member token hidden"], attend: Float[Tensor, "member hidden 1"], span: SpanBounds
) -> Float[Tensor, "member target token"]:
    """The share of every token in what is pooled for every target."""
    places = torch.arange(tokens.shape[1], device=tokens.device)
    outside = (places < span.bounds[:, :1]) | (places >= span.bounds[:, 1:])
    return torch.bmm(tokens, attend).mT.masked_fill(outside, -torch.inf).softmax(-1)


def _pool_pairs(tokens: Tensor, attend: Tensor, span: SpanTokens) -> Tensor:
    """On a CPU: over the tokens of each span alone."""
    picked = tokens.index_select(1, span.token)
    if span.single:
        return picked
    scores = torch.bmm(picked, attend).squeeze(-1)
    # The span's top score is subtracted before the exponential, to avoid overflow.
    where = span.target.expand_as(scores)
    top = torch.full((len(tokens), len(span.sizes)), -torch.inf)
    top = top.scatter_reduce(1, where, scores.detach(), "amax")
    raised = (scores - top[:, span.target]).exp()
    total = _sums(raised, span)
    share = (raised / total[:, span.target]).unsqueeze(-1)
    return _sums(picked * share, span)


def _sums(values: Float[Tensor, "member pair *rest"], span: SpanTokens) -> Float[Tensor, "member target *rest"]:
    """Sums over the tokens of each span."""
    out = torch.zeros(len(values), len(span.sizes), *values.shape[2:])
    return out.index_add(1, span.target, values)


FORMAT = 2


class SavedEdgeProbes:
    """Probes of one task and seed with the names of their labels, loaded from a file."""

    def __init__(self, path: Path) -> None:
        try:
            tensors, head = load_tensors(path)
            if head["format"] != FORMAT:
                raise ValueError(f"format {head['format']}, but this lamina reads {FORMAT}")
            self._build(head, {name: tensors[name] for name in head["tensors"]})
        except (OSError, LookupError, TypeError, ValueError, RuntimeError, DamagedError) as error:
            raise ResultError(f"{path} holds no readable probes ({error}); probe again") from error

    def _build(self, head: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        self.task: str = head["task"]
        self.seed: int = head["seed"]
        self.encoder: str = head["encoder"]
        """Fingerprint of the encoder that the probes were trained on."""
        self.labels: tuple[str, ...] = tuple(head["labels"])
        self.graded: bool = head["graded"]
        """Whether the probes predict a number instead of labels."""
        self.standard = Standard(tensors.pop(_SHIFT), tensors.pop(_SCALE)) if _SHIFT in tensors else None
        """How states are standardised before the probes see them; None: not at all."""
        self.probes = EdgeProbes(
            [LayerCut(*cut) for cut in head["cuts"]],
            layers=head["layers"],
            width=head["width"],
            labels=len(self.labels),
            arity=head["arity"],
            seed=self.seed,
            hidden=head["hidden"],
        )
        self.probes.load_state_dict(tensors)
        self.probes.requires_grad_(False)


_SHIFT, _SCALE = "standard.shift", "standard.scale"


def save_probes(
    path: Path,
    probes: EdgeProbes,
    *,
    task: str,
    labels: tuple[str, ...],
    encoder: str,
    standard: Standard | None = None,
    graded: bool = False,
) -> None:
    """Write the probes of one seed so that `SavedEdgeProbes` reads them back."""
    tensors = dict(probes.state_dict())
    if standard is not None:
        tensors |= {_SHIFT: standard.shift, _SCALE: standard.scale}
    head = {
        "format": FORMAT,
        "task": task,
        "seed": probes.seeds[0],
        "encoder": encoder,
        "labels": labels,
        "graded": graded,
        "cuts": probes.cuts,
        "layers": probes.closed.shape[1],
        "width": probes.project.shape[1],
        "arity": probes.arity,
        "hidden": probes.hidden,
        "tensors": sorted(tensors),
    }
    save_tensors(path, tensors, head)


def predict(saved: SavedEdgeProbes, batch: ProbeBatch) -> Float[torch.Tensor, "member target label"]:
    """From every member, for every target: the probability of every label, or the predicted value."""
    logits = saved.probes(batch)
    return logits if saved.graded else logits.sigmoid()

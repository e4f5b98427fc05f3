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
from jaxtyping import Float
from torch import Tensor

from lamina.errors import DamagedError, ResultError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.streams import Batch, SpanTokens

INPUT_DROPOUT = 0.2
HIDDEN_DROPOUT = 0.3
HIDDEN = 256


class Cut(NamedTuple):
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
        self, cuts: Sequence[Cut], *, layers: int, width: int, labels: int, arity: int, seed: int | tuple[int, ...]
    ) -> None:
        super().__init__()
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
        self.project = self._drawn((arity, width, HIDDEN), width, draws)
        self.project_bias = self._drawn((arity, 1, HIDDEN), width, draws)
        self.attend = self._drawn((arity, HIDDEN, 1), HIDDEN, draws)
        self.inner = self._drawn((arity * HIDDEN, HIDDEN), arity * HIDDEN, draws)
        self.inner_bias = self._drawn((1, HIDDEN), arity * HIDDEN, draws)
        self.norm = torch.nn.Parameter(torch.ones(len(members), 1, HIDDEN))
        self.norm_bias = torch.nn.Parameter(torch.zeros(len(members), 1, HIDDEN))
        self.outer = self._drawn((HIDDEN, labels), HIDDEN, draws)
        self.outer_bias = self._drawn((1, labels), HIDDEN, draws)

    def forward(self, batch: Batch, masks: Masks | None = None) -> Float[Tensor, "member target label"]:
        """Logits of every label for every target, from every member."""
        mixed, alone = self._inputs(batch.states, masks)
        pooled = []
        for which, span in enumerate(batch.spans):
            weight, bias = self.project[:, which], self.project_bias[:, which]
            # Two products: single layers have no mixing weights, so they need no gradient.
            tokens = torch.cat(
                [
                    torch.baddbmm(bias[: self.mixing], mixed, weight[: self.mixing]),
                    torch.baddbmm(bias[self.mixing :], alone, weight[self.mixing :]),
                ]
            )
            pooled.append(_pool(tokens, self.attend[:, which], span, len(batch.rows)))
        hidden = torch.baddbmm(self.inner_bias, torch.cat(pooled, dim=-1), self.inner).tanh()
        hidden = torch.nn.functional.layer_norm(hidden, (HIDDEN,)) * self.norm + self.norm_bias
        if masks is not None:
            hidden = hidden * (masks.hidden if len(self.seeds) == 1 else masks.hidden[self.owner])
        return torch.baddbmm(self.outer_bias, hidden, self.outer)

    def weights(self) -> Float[Tensor, "mixing layer"]:
        """The mixing weights of cumulative members: softmax over the layers each may see."""
        return self.mix.masked_fill(self.closed, -torch.inf).softmax(-1)

    def draw_masks(self, batch: Batch, step: int) -> Masks:
        """The dropout of one step: depends only on (seed, step), so that no member depends on the others."""
        device = batch.states.device
        _, tokens, width = batch.states.shape
        kept, hidden = [], []
        for seed in self.seeds:
            draw = torch.Generator(device).manual_seed(seed * 1_000_003 + step)
            kept.append(torch.rand(tokens, width, generator=draw, device=device) >= INPUT_DROPOUT)
            hidden.append(torch.rand(len(batch.rows), HIDDEN, generator=draw, device=device) >= HIDDEN_DROPOUT)
        return Masks(
            torch.stack(kept).float() / (1 - INPUT_DROPOUT), torch.stack(hidden).float() / (1 - HIDDEN_DROPOUT)
        )

    def of_seed(self, seed: int) -> EdgeProbes:
        """The members of one seed, with copies of their weights."""
        chosen = [member for member, each in enumerate(self.seed_of) if each == seed]
        cuts = [self.cuts[member] for member in chosen]
        arity, width = self.project.shape[1:3]
        shape = {"layers": self.closed.shape[1], "width": width, "labels": self.outer.shape[-1], "arity": arity}
        one = EdgeProbes(cuts, **shape, seed=seed).to(self.project.device)
        with torch.no_grad():
            for mine, whole in zip(one.parameters(), self.parameters(), strict=True):
                mine.copy_(whole[[member for member in chosen if member < len(whole)]])
        return one

    def _inputs(self, states: Float[Tensor, "layer token width"], masks: Masks | None) -> tuple[Tensor, Tensor]:
        layers, tokens, width = states.shape
        seeds = len(self.seeds)
        seen = states.expand(seeds, -1, -1, -1) if masks is None else states * masks.tokens.unsqueeze(1)
        scaled = (self.gamma.unsqueeze(1) * self.weights()).view(seeds, -1, layers)
        # Token by token: as one product, the gradient would be a sum over all tokens and widths, slow on a GPU.
        mixed = (scaled.unsqueeze(1) @ seen.transpose(1, 2)).transpose(1, 2).reshape(self.mixing, tokens, width)
        return mixed, seen[:, self.alone].reshape(-1, tokens, width)

    def _drawn(self, shape: tuple[int, ...], fan_in: int, draws: list[torch.Generator]) -> torch.nn.Parameter:
        """One draw per seed, as torch initialises a linear layer, repeated for every member of the seed."""
        one = torch.stack([(torch.rand(shape, generator=draw) * 2 - 1) * fan_in**-0.5 for draw in draws])
        return torch.nn.Parameter(one[self.owner])


def _pool(
    tokens: Float[Tensor, "member token hidden"],
    attend: Float[Tensor, "member hidden 1"],
    span: SpanTokens,
    targets: int,
) -> Float[Tensor, "member target hidden"]:
    """Within each span: one score per token, softmax, weighted sum."""
    picked = tokens[:, span.token]
    if span.single:
        return picked
    scores = torch.bmm(tokens, attend).squeeze(-1)[:, span.token]
    # The span's top score is subtracted before the exponential, to avoid overflow.
    where = span.target.expand_as(scores)
    top = torch.full((len(tokens), targets), -torch.inf, device=tokens.device)
    top = top.scatter_reduce(1, where, scores.detach(), "amax")
    raised = (scores - top[:, span.target]).exp()
    total = _sums(raised, span)
    share = (raised / total[:, span.target]).unsqueeze(-1)
    return _sums(picked * share, span)


def _sums(values: Float[Tensor, "member pair *rest"], span: SpanTokens) -> Float[Tensor, "member target *rest"]:
    """Sums over the tokens of each span, in token order on any device, so that runs are reproducible."""
    if values.is_cuda:
        # On a GPU, index_add adds in the order of its threads.
        lengths = span.sizes.expand(len(values), -1).contiguous()
        return torch.segment_reduce(values, "sum", lengths=lengths, axis=1, unsafe=True)
    out = torch.zeros(len(values), len(span.sizes), *values.shape[2:])
    return out.index_add(1, span.target, values)


FORMAT = 1


class SavedProbes:
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
        self.probes = EdgeProbes(
            [Cut(*cut) for cut in head["cuts"]],
            layers=head["layers"],
            width=head["width"],
            labels=len(self.labels),
            arity=head["arity"],
            seed=self.seed,
        )
        self.probes.load_state_dict(tensors)
        self.probes.requires_grad_(False)


def save_probes(path: Path, probes: EdgeProbes, *, task: str, labels: tuple[str, ...], encoder: str) -> None:
    """Write the probes of one seed so that `SavedProbes` reads them back."""
    head = {
        "format": FORMAT,
        "task": task,
        "seed": probes.seeds[0],
        "encoder": encoder,
        "labels": labels,
        "cuts": probes.cuts,
        "layers": probes.closed.shape[1],
        "width": probes.project.shape[2],
        "arity": probes.project.shape[1],
        "tensors": sorted(probes.state_dict()),
    }
    save_tensors(path, probes.state_dict(), head)


def predict(saved: SavedProbes, batch: Batch) -> Float[torch.Tensor, "member target label"]:
    """The probability of every label for every target, from every member."""
    return saved.probes(batch).sigmoid()

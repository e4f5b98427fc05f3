"""The stacked program against the architecture written down plainly, one probe at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import Stream

HIDDEN = 24
CUTS = [
    LayerCut("layer", 2),
    LayerCut("cumulative", 0),
    LayerCut("cumulative", 2),
    LayerCut("layer", 0),
    LayerCut("cumulative", 1),
]


class Plain(torch.nn.Module):
    """One edge probe, as METHODS has it."""

    def __init__(self, cut: LayerCut, *, width: int, labels: int, arity: int) -> None:
        super().__init__()
        self.cut = cut
        self.mix = torch.nn.Parameter(torch.zeros(cut.layer + 1))
        self.gamma = torch.nn.Parameter(torch.ones(()))
        self.project: Any = torch.nn.ModuleList(torch.nn.Linear(width, HIDDEN) for _ in range(arity))
        self.attend: Any = torch.nn.ModuleList(torch.nn.Linear(HIDDEN, 1, bias=False) for _ in range(arity))
        self.inner = torch.nn.Linear(arity * HIDDEN, HIDDEN)
        self.norm = torch.nn.LayerNorm(HIDDEN)
        self.outer = torch.nn.Linear(HIDDEN, labels)

    def forward(self, states: torch.Tensor, spans: list[tuple[int, int]], token_mask=1.0, hidden_mask=1.0):
        """Logits of one target of one text: its states are [token, layer, width]."""
        if self.cut.probe == "layer":
            mixed = states[:, self.cut.layer]
        else:
            share = self.mix.softmax(0)
            mixed = self.gamma * sum(share[layer] * states[:, layer] for layer in range(self.cut.layer + 1))
        pooled = []
        for (start, end), project, attend in zip(spans, self.project, self.attend, strict=True):
            inside = project((mixed * token_mask)[start:end])
            pooled.append((attend(inside).softmax(0) * inside).sum(0))
        return self.outer(self.norm(self.inner(torch.cat(pooled)).tanh()) * hidden_mask)

    def take(self, stacked: EdgeProbes, member: int) -> None:
        """The weights of one member."""
        with torch.no_grad():
            if self.cut.probe == "cumulative":
                self.mix.copy_(stacked.mix[member, : self.cut.layer + 1])
                self.gamma.copy_(stacked.gamma[member])
            for which, (project, attend) in enumerate(zip(self.project, self.attend, strict=True)):
                own = slice(which * HIDDEN, (which + 1) * HIDDEN)
                project.weight.copy_(stacked.project[member, :, own].T)
                project.bias.copy_(stacked.project_bias[member, 0, own])
                attend.weight.copy_(stacked.attend[member, which].T)
            self.inner.weight.copy_(stacked.inner[member].T)
            self.inner.bias.copy_(stacked.inner_bias[member, 0])
            self.norm.weight.copy_(stacked.norm[member, 0])
            self.norm.bias.copy_(stacked.norm_bias[member, 0])
            self.outer.weight.copy_(stacked.outer[member].T)
            self.outer.bias.copy_(stacked.outer_bias[member, 0])


def shaken(targets, seed: int | tuple[int, ...] = 0) -> EdgeProbes:
    """Probes whose members differ in every weight."""
    shape = {"layers": 3, "width": 16, "labels": len(targets.labels), "arity": targets.arity, "hidden": HIDDEN}
    probes = EdgeProbes(CUTS, **shape, seed=seed)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in probes.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=draw)
    return probes


def plain_logits(probes: EdgeProbes, targets, stored, rows, masks: Any = None, places: Any = None) -> torch.Tensor:
    """What the plain probes say of these targets, one by one."""
    each = []
    for member, cut in enumerate(probes.cuts):
        plain = Plain(cut, width=16, labels=len(targets.labels), arity=targets.arity)
        plain.take(probes, member)
        said = []
        for at, row in enumerate(rows):
            text = int(targets.text[row])
            dropped = {} if masks is None else {"token_mask": places[text], "hidden_mask": masks.hidden[0, at]}
            said.append(plain(stored.load(text).float(), targets.tokens[row].tolist(), **dropped))
        each.append(torch.stack(said))
    return torch.stack(each)


@pytest.mark.parametrize("task", ["pos", "ner", "dep", "srl"])
def test_the_stack_says_what_plain_probes_say(task, find, stored):
    targets = find(task).all
    probes = shaken(targets)

    batch = next(iter(Stream(stored, targets, batch_texts=12).epoch(3, 0)))
    sizes = {end - start for start, end in targets.tokens[batch.rows].reshape(-1, 2).tolist()}

    assert len(sizes) > 1, "spans of one token only would not test pooling"
    torch.testing.assert_close(probes(batch), plain_logits(probes, targets, stored, batch.rows), atol=1e-4, rtol=1e-4)


def test_dropout_is_over_mixed_tokens_and_hidden_units_and_keeps_their_mean(find, stored):
    targets = find("dep").all
    probes = shaken(targets)
    batch = next(iter(Stream(stored, targets, batch_texts=12).in_order()))
    masks = probes.draw_masks(batch, step=7)
    # The batch's tokens are those that some span needs, text after text.
    places, at = {}, 0
    for text in sorted(set(targets.text[batch.rows].tolist())):
        inside = targets.tokens[batch.rows][targets.text[batch.rows] == text].reshape(-1, 2).tolist()
        needed = sorted({token for start, end in inside for token in range(start, end)})
        places[text] = torch.zeros(stored.size(text), 16)
        places[text][needed] = masks.tokens[0, at : at + len(needed)]
        at += len(needed)

    assert masks.tokens.shape == (1, at, 16)
    expected = plain_logits(probes, targets, stored, batch.rows, masks, places)
    torch.testing.assert_close(probes(batch, masks), expected, atol=1e-4, rtol=1e-4)
    for mask, rate in ((masks.tokens, 0.2), (masks.hidden, 0.3)):
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - rate)])
        assert (mask == 0).float().mean().item() == pytest.approx(rate, abs=0.03)


def test_masks_depend_on_seed_and_step_alone(find, stored):
    targets = find("pos").all
    batch = next(iter(Stream(stored, targets).in_order()))
    shape = {"layers": 3, "width": 16, "labels": 3, "arity": 1}

    def masks(cuts: list[LayerCut], seed: int | tuple[int, ...], step: int) -> torch.Tensor:
        return torch.cat([part.flatten(1) for part in EdgeProbes(cuts, **shape, seed=seed).draw_masks(batch, step)], 1)

    one = masks(CUTS, 1, 2)
    assert torch.equal(one, masks([LayerCut("layer", 1)], 1, 2))
    assert torch.equal(one[0], masks(CUTS, (0, 1), 2)[1])
    assert not torch.equal(one, masks(CUTS, 1, 3))
    assert not torch.equal(one, masks(CUTS, 2, 2))


@pytest.mark.parametrize("task", ["ner", "srl"])
def test_some_members_say_what_they_said_in_the_whole_stack(task, find, stored):
    targets = find(task).all
    probes = shaken(targets, seed=3)
    batch = next(iter(Stream(stored, targets, batch_texts=12).in_order()))
    masks = probes.draw_masks(batch, 4)

    for members in ([0, 1, 2, 3, 4], [1, 4], [2], [3, 4]):
        few = probes.some(members)
        assert few.cuts == [probes.cuts[member] for member in members]
        assert few.seeds == (3,)
        assert few.mixing == sum(cut.probe == "cumulative" for cut in few.cuts)
        for mine, whole in zip(few.draw_masks(batch, 4), masks, strict=True):
            assert torch.equal(mine, whole)
        torch.testing.assert_close(few(batch, masks), probes(batch, masks)[members], atol=1e-5, rtol=1e-5)
        with torch.no_grad():
            few.outer.zero_()
    assert probes.outer.any(), "weights are copies"


def test_of_seed_takes_the_members_of_a_seed(find, stored):
    targets = find("srl").all
    probes = shaken(targets, seed=(4, 9))
    batch = next(iter(Stream(stored, targets, batch_texts=12).in_order()))
    said, dropped = probes(batch), probes(batch, probes.draw_masks(batch, 2))

    for seed in (4, 9):
        own = probes.of_seed(seed)
        members = [member for member, each in enumerate(probes.seed_of) if each == seed]
        assert (own.seeds, own.cuts) == ((seed,), sorted(CUTS))
        torch.testing.assert_close(own(batch), said[members], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(own(batch, own.draw_masks(batch, 2)), dropped[members], atol=1e-5, rtol=1e-5)


def test_members_start_alike_and_mix_evenly_what_they_may_see():
    probes = EdgeProbes(CUTS, layers=3, width=16, labels=4, arity=2, seed=0)

    assert probes.cuts == sorted(CUTS)
    torch.testing.assert_close(
        probes.weights(), torch.tensor([[1.0, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]), atol=1e-6, rtol=0
    )
    for name in ("project", "attend", "inner", "outer"):
        stacked = getattr(probes, name)
        assert torch.equal(stacked, stacked[:1].expand_as(stacked))
        assert stacked.abs().max() <= stacked.shape[-2] ** -0.5
    again, other = (EdgeProbes(CUTS, layers=3, width=16, labels=4, arity=2, seed=seed) for seed in (0, 1))
    assert torch.equal(probes.outer, again.outer)
    assert not torch.equal(probes.outer, other.outer)


def test_scores_far_apart_do_not_overflow(find, stored):
    targets = find("ner").all
    probes = shaken(targets)
    with torch.no_grad():
        probes.attend.mul_(1e4)

    assert torch.isfinite(probes(next(iter(Stream(stored, targets).in_order())))).all()

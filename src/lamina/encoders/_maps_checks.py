"""Checks of a model's attention maps: do they sum to 1, look where they may, and make the states they belong to?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from lamina.encoders._trial import Trial, by_layer, maps_of
from lamina.encoders.anatomy import attention_by
from lamina.encoders.attention_calls import Attention, recorded
from lamina.encoders.comparing import SHARE, apart
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.passport import Check, fails, holds, not_applicable
from lamina.encoders.values import SHOWN_BY_LAYERS, mixings

_ROWS = {torch.float32: 1e-4, torch.float64: 1e-6, torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""How far a row of rounded numbers may be from a sum of 1."""
_FAR = -1e4
"""A sink's logit that leaves it no attention."""
_NEEDS = ("maps", "norms")


def check_states_with_maps(trial: Trial, eager: Eager | None = None) -> Check:
    """States are the same when maps are asked for as well."""
    name = "states with maps"
    if not trial.has_maps:
        return not_applicable(name, "there are no attention maps")
    (both,) = trial.encoder.encode([trial.texts["plain"]], ("states", "maps"))
    moved = trial.differ(both, trial.alone["plain"])
    moved = max(moved, trial.apart(maps_of(both), trial.maps["plain"]))
    if moved > trial.bar:
        said = f"asking for maps and states together changes them by {moved:.1e} of their norm"
        return fails(name, said, ("states", *_NEEDS), moved)
    within = 0.0 if eager is None else trial.apart(eager.hidden, eager.without)
    if within > trial.bar:
        said = f"where attention maps are handed out, states change by {within:.1e} of their norm"
        return fails(name, said, _NEEDS, within)
    return holds(name, f"states with and without maps differ by {max(moved, within):.0e} of their norm at most", within)


def check_fast_path(encoder: HuggingFaceEncoder, trial: Trial, eager: Eager | None, *, sound: bool) -> Check:
    """The attention that gives the states agrees with the one that gives the maps."""
    name, own = "fast path", str(encoder.model.config._attn_implementation)
    if own == "eager":
        return not_applicable(name, "the model has one implementation of attention (eager)")
    if eager is None:
        return not_applicable(name, "there are no attention maps to take from another implementation")
    moved = trial.apart(eager.without, by_layer(trial.alone["plain"]))
    if moved <= trial.bar:
        return holds(name, f"states by {own} and by eager differ by {moved:.0e} of their norm at most", moved)
    if trial.dtype in SHARE and _has_experts(encoder):
        said = "rounding sends tokens to other experts in half precision, so implementations can be compared in float32"
        return not_applicable(name, f"{said} only")
    said = f"states by {own} and by eager, which hands out the maps, differ by {moved:.1e} of their norm"
    if sound:
        # The maps make what they should: it may as well be the other path that is wrong.
        return fails(
            name, f"{said}; which one is right cannot be told", ("states", *_NEEDS, "windows", "ablation"), moved
        )
    return fails(name, said, _NEEDS, moved)


def _has_experts(encoder: HuggingFaceEncoder) -> bool:
    return any("experts" in name for name, _ in encoder.model.named_parameters())


def check_every_block(trial: Trial) -> Check:
    """Whether all blocks have maps."""
    name, encoder = "every block", trial.encoder
    if not trial.has_maps:
        return not_applicable(name, "there are no attention maps")
    if len(encoder.map_blocks) == encoder.blocks:
        return holds(name, f"all {encoder.blocks} blocks have attention maps")
    listed = ", ".join(str(block + 1) for block in encoder.map_blocks)
    said = f"only block {listed} of {encoder.blocks} attends from token to token; analyses of maps need all blocks"
    return fails(name, said, _NEEDS)


def check_look_ahead(trial: Trial) -> Check:
    """Maps look where the states' direction says."""
    name, encoder = "look-ahead", trial.encoder
    if not trial.has_maps:
        return not_applicable(name, "there are no attention maps")
    ahead = trial.maps["plain"].double().triu(1).sum(-1).amax(dim=(1, 2))
    worst = ahead.max().item()
    if encoder.causal_maps:
        if not worst <= 1e-6:
            block = encoder.map_blocks[int(ahead.argmax())] + 1
            said = f"the states are causal, but maps of block {block} look ahead with up to {worst:.2f} of a row"
            return fails(name, said, _NEEDS, worst)
        return holds(name, "maps look back only, as the states do", worst)
    if ahead.min() <= 1e-6:
        block = encoder.map_blocks[int(ahead.argmin())] + 1
        return fails(name, f"later words matter, but maps of block {block} look back only", _NEEDS, ahead.min().item())
    return holds(name, f"maps look both ways: up to {worst:.2f} of a row looks ahead", worst)


class Rows(NamedTuple):
    """How rows of maps add up."""

    check: Check
    sink: str | None = None


def check_rows(trial: Trial, calls: Sequence[Attention]) -> Rows:
    """Rows sum to 1, or what is missing is a sink's."""
    name = "rows"
    if not trial.has_maps:
        return Rows(not_applicable(name, "there are no attention maps"))
    maps = trial.maps["plain"].double()
    model = getattr(trial.encoder, "model", None)
    bar = _ROWS[model.dtype if model is not None else torch.float32]
    sums = maps.sum(-1)
    off = (sums - 1).abs().max().item()
    if off <= bar and maps.min() >= -bar:
        return Rows(holds(name, f"rows sum to 1 (to {off:.0e})", off))
    if maps.min() < -bar or sums.max() > 1 + bar or not torch.isfinite(maps).all():
        said = f"rows of attention sum to {sums.min():.2f} to {sums.max():.2f}, with values from {maps.min():.2f}"
        return Rows(fails(name, said, _NEEDS, off))
    missing = f"up to {1 - sums.min().item():.2f} of a row is missing"
    wrong = _unlike_a_sink([call for call in calls if _sinks(call.module) is not None])
    if wrong is None:
        return Rows(fails(name, f"rows do not sum to 1: {missing}, and no learned sink was found", _NEEDS, off))
    if wrong > bar:
        return Rows(fails(name, f"{missing}, which is not what the learned sinks take ({wrong:.1e} off)", _NEEDS, off))
    sink = f"a learned sink per head takes up to {1 - sums.min().item():.2f} of a row"
    return Rows(holds(name, f"{sink}; with it, rows sum to 1 (to {wrong:.0e})", wrong), sink)


def _unlike_a_sink(calls: Sequence[Attention]) -> float | None:
    """How far rows are from those without sinks, cut by one factor per row; None if no block has sinks."""
    worst = None
    for call in calls:
        sinks: Any = _sinks(call.module)
        kept = sinks.data
        sinks.data = torch.full_like(kept, _FAR)
        try:
            with torch.no_grad():
                free = call.again().double()
        finally:
            sinks.data = kept
        weights = call.weights.double()
        proportional = (weights - weights.sum(-1, keepdim=True) * free).abs().max().item()
        worst = max(worst or 0.0, proportional, (free.sum(-1) - 1).abs().max().item())
    return worst


def _sinks(module: Module) -> Tensor | None:
    found = getattr(module, "sinks", None)
    return found if isinstance(found, torch.nn.Parameter) else None


class Eager(NamedTuple):
    """The plain text by the attention that hands out maps."""

    without: Tensor
    """[layer, token, width] States when no maps are asked for ..."""
    hidden: Tensor
    """... and when they are."""
    maps: list[Tensor]
    """As the model's output has them, [row, head, token, token]."""
    calls: list[Attention]


def run_eager(encoder: HuggingFaceEncoder, trial: Trial) -> Eager:
    """Run the plain text with and without maps, and note what its attention does."""
    calls: list[Attention] = []
    with torch.no_grad(), attention_by(encoder.model, "eager"):
        inputs = encoder.inputs(encoder.rows(0, encoder.pieces(trial.texts["plain"])))
        without = encoder._layers(inputs)
        with recorded(encoder.model, calls):
            out = encoder.model(**inputs, output_attentions=True, output_hidden_states=True)
    maps = [out.attentions[place] for place in encoder.anatomy.maps.values()]
    # Where layers are taken from the blocks, those of the output are other ones.
    hidden = without if encoder.anatomy.shifted is not None else out.hidden_states
    return Eager(_stacked(without), _stacked(hidden), maps, calls)


def _stacked(layers: Sequence[Tensor]) -> Tensor:
    return torch.stack([layer[0].float().cpu() for layer in layers])


class Made(NamedTuple):
    """What maps make."""

    output: Check
    groups: Check


_OUTPUT, _GROUPS = "maps make the output", "grouped heads"


def check_output(encoder: HuggingFaceEncoder, trial: Trial, eager: Eager | None) -> Made:
    """Values, mixed by the maps that are handed out, are what the block passes on."""
    if eager is None:
        return Made(not_applicable(_OUTPUT, "there are no attention maps"), _groups(encoder.heads, encoder.heads))
    with attention_by(encoder.model, "eager"):
        found = mixings(encoder.model, heads=encoder.heads, maps=encoder.anatomy.maps, bar=max(trial.bar, 1e-3))
    blocks = [block + 1 for block in encoder.map_blocks]
    for at, each in enumerate(found):
        if each is not None and not each.own:
            said = (
                f"the output of block {blocks[at]} is not made with its maps, but with those of {blocks[each.maps_of]}"
            )
            return Made(fails(_OUTPUT, said, _NEEDS), not_applicable(_GROUPS, said))
        if each is not None and each.tiled:
            return _wrongly_shared(blocks[at])
    if None in found:
        return _by_function(encoder, trial, eager)
    said = f"values mixed by the maps are what each of {len(found)} blocks passes on"
    shared = min(each.groups for each in found if each is not None)
    return Made(holds(_OUTPUT, said), _groups(encoder.heads, shared))


def _groups(heads: int, shared: int) -> Check:
    if shared == heads:
        return not_applicable(_GROUPS, "no head shares keys and values with another")
    return holds(_GROUPS, f"{heads} heads share {shared} heads of keys and values, in order")


def _wrongly_shared(block: int) -> Made:
    said = f"in block {block}, heads that share keys and values are matched with the wrong ones"
    needs = ("states", *_NEEDS, "windows", "ablation")
    return Made(fails(_OUTPUT, said, needs), fails(_GROUPS, said, needs))


def _by_function(encoder: HuggingFaceEncoder, trial: Trial, eager: Eager) -> Made:
    """By the model's own attention function, where its linear layers do not show the values."""
    if len(eager.calls) != len(eager.maps) and encoder.model.config.model_type in SHOWN_BY_LAYERS:
        said = "the maps are not those that mixed the values into the output of its attention"
        return Made(fails(_OUTPUT, said, _NEEDS), not_applicable(_GROUPS, said))
    if len(eager.calls) != len(eager.maps):
        said = "what the maps mix is not among the model's linear layers, so it could not be recomputed"
        return Made(not_applicable(_OUTPUT, said), not_applicable(_GROUPS, said))
    shared = encoder.heads
    for block, call, maps in zip(encoder.map_blocks, eager.calls, eager.maps, strict=True):
        if apart(maps, call.weights) > trial.bar:
            said = f"the maps handed out for block {block + 1} are not those that its attention used"
            return Made(fails(_OUTPUT, said, _NEEDS), not_applicable(_GROUPS, said))
        own = call.value.shape[1]
        shared = min(shared, own)
        if call.makes(call.value.repeat_interleave(encoder.heads // own, dim=1)) > trial.bar:
            if call.makes(call.value.repeat(1, encoder.heads // own, 1, 1)) <= trial.bar:
                return _wrongly_shared(block + 1)
            said = f"in block {block + 1}, the values mixed by the maps are not what attention passes on"
            return Made(fails(_OUTPUT, said, _NEEDS), not_applicable(_GROUPS, said))
    said = f"values mixed by the maps are what attention passes on in each of {len(eager.maps)} blocks"
    return Made(holds(_OUTPUT, said), _groups(encoder.heads, shared))

"""All checks of a passport, in the order in which they are listed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.checks.passports import (
    CHANGED,
    PASSPORT_VERSION,
    Check,
    EncoderTrial,
    Passport,
    by_layer,
    fails,
    features,
    holds,
    maps_of,
    not_applicable,
    states_of,
)
from lamina.models.contract import IN_ONE_BATCH, SHARE, Encoder, apart
from lamina.models.elmo import ElmoEncoder
from lamina.models.interventions.edited_runs import Edit
from lamina.models.interventions.interventions import Interventions
from lamina.models.running.anatomy import attention_by, embedding_table, only_causal, watch_blocks
from lamina.models.running.attention_maps import VALUES_IN_LINEAR_LAYERS, AttentionCall, mixings, recorded_attention
from lamina.models.running.devices import weights
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.types import Text

# Checks of hidden states: batch invariance, padding, windows, maps, order of layers.

_WINDOW = 20
"""Tokens of a window in the trial; real limits would take long texts."""


def check_alive(trial: EncoderTrial) -> Check:
    """Finite numbers that differ between words, layers and texts."""
    name, needs = "alive", ("states", "maps", "norms", "windows", "ablation")
    states, layers = trial.alone["plain"].double(), trial.encoder.layers
    if states.shape[1] != layers:
        return fails(name, f"{states.shape[1]} layers were given, not {layers}", needs)
    if not torch.isfinite(states).all():
        layer = int((~torch.isfinite(states)).any(-1).any(0).nonzero()[0])
        return fails(name, f"states are not finite from layer {layer} on", needs)
    if states.abs().max() == 0 or (len(states) > 1 and (states - states[:1]).abs().max() == 0):
        return fails(name, "all tokens have the same states", needs)
    still = [layer for layer in range(1, states.shape[1]) if torch.equal(states[:, layer], states[:, layer - 1])]
    if still:
        return fails(name, f"layer {still[0]} is the same as layer {still[0] - 1}", needs)
    return holds(name, "states are finite, and differ between tokens and layers")


def check_company(trial: EncoderTrial) -> Check:
    """A text beside another one of the same length."""
    texts = [trial.texts["plain"], trial.texts["turned"]]
    return _together(trial, "company", texts, "other texts in the batch change")


def check_padding(trial: EncoderTrial) -> Check:
    """Texts beside longer and shorter ones."""
    texts = [trial.texts[name] for name in ("plain", "longer", "short")]
    check = _together(trial, "padding", texts, "padding changes")
    encoder = trial.encoder
    if check.verdict == "fails" or not isinstance(encoder, HuggingFaceEncoder) or encoder.anatomy.pads:
        return check
    without = "so texts of different lengths are not put into one batch"
    if "attention_mask" not in encoder.inputs(encoder.rows(0, encoder.word_tokenizer(texts[0]))):
        return not_applicable("padding", f"the model takes no mask, {without}")
    return fails("padding", f"the model ignores its mask: padding changes states, {without}", ())


def _together(trial: EncoderTrial, name: str, texts: list[Text], what: str) -> Check:
    needs = ("states", "windows")
    compared = [activations for activations in trial.encode(texts) if activations.text in trial.alone]
    worst = max(trial.differ(activations, trial.alone[activations.text]) for activations in compared)
    if worst > trial.bar:
        return fails(name, f"{what} states by {worst:.1e} of their norm", needs, worst)
    message = f"{what} states by {worst:.0e} of their norm at most"
    if trial.has_maps:
        with_maps = [activations for activations in trial.encode(texts, maps=True) if activations.text in trial.maps]
        moved = max(trial.apart(maps_of(activations), trial.maps[activations.text]) for activations in with_maps)
        if moved > trial.bar:
            return fails(name, f"{what} attention maps by {moved:.1e} of their norm", ("maps", "norms"), moved)
        message, worst = (
            f"{what} states by {worst:.0e} and maps by {moved:.0e} of their norm at most",
            max(worst, moved),
        )
    return holds(name, message, worst)


def check_direction(trial: EncoderTrial) -> Check:
    """What depends on later words, in every layer, at several positions."""
    name, encoder = "causal", trial.encoder
    if not encoder.blocks:
        return not_applicable(name, "there are no blocks, so words do not depend on others")
    seen = torch.zeros(encoder.layers, dtype=torch.double)
    size = len(trial.texts["plain"].words)
    places = [
        position
        for position in (CHANGED if size > CHANGED[0] else range(1, size))
        if position < size and _can_change(trial, position)
    ]
    if not places:
        return not_applicable(name, f"in {encoder.limit} tokens there are no later words that its tokens tell apart")
    # In one batch, where what is not changed is computed alike; that company changes nothing is looked at apart.
    plain, *others = trial.encode([trial.texts["plain"], *(trial.changed(position) for position in places)])
    for position, activations in zip(places, others, strict=True):
        before = int(np.argmax(activations.tokens.words >= position))
        both = states_of(activations)[:before], states_of(plain)[:before]
        moved = [apart(one, other) for one, other in zip(*map(by_layer, both), strict=True)]
        seen = torch.maximum(seen, torch.tensor(moved, dtype=torch.double))
    ahead = [layer for layer, moved in enumerate(seen.tolist()) if moved > IN_ONE_BATCH[trial.dtype]]
    worst = seen.max().item()
    if encoder.causal and ahead:
        message = (
            f"layer {ahead[0]} depends on later words, by {worst:.1e} of its norm; the model is taken to be causal"
        )
        return fails(name, message, ("states", "maps", "norms", "windows"), worst)
    if not encoder.causal and not ahead:
        return fails(
            name, "no layer depends on later words, but the model is not taken to be causal", ("windows",), worst
        )
    if not encoder.causal and _should_be_causal(encoder):
        message = (
            f"its attention is declared causal, but layer {ahead[0]} depends on later words, by {worst:.1e} of its norm"
        )
        return fails(name, message, ("states", "maps", "norms", "windows"), worst)
    if encoder.causal:
        return holds(name, f"causal: later words change earlier ones by {worst:.0e} of their norm at most", worst)
    return holds(name, f"not causal: later words change earlier ones from layer {ahead[0]} on", worst)


def _can_change(trial: EncoderTrial, position: int) -> bool:
    """Whether the text with other words from `at` on has other ids, and fits into one window."""
    plain, changed = (trial.encoder.tokenize(text).ids for text in (trial.texts["plain"], trial.changed(position)))
    return len(changed) <= trial.encoder.limit and plain.tolist() != changed.tolist()


def _should_be_causal(encoder: Encoder) -> bool:
    """Whether the model's attention says that it looks back only, and no other attention shows it the whole text."""
    if not isinstance(encoder, HuggingFaceEncoder) or encoder.causal_maps:
        return False
    config: Any = encoder.model.config
    if getattr(config, "is_causal", None) is False or getattr(config, "use_bidirectional_attention", None):
        return False
    declared = {getattr(module, "is_causal", None) for module in encoder.model.modules()} & {True, False}
    if declared:
        return declared == {True}
    # Older ones do not say: bodies of language models that only predict the next word.
    return only_causal(config.model_type) and type(encoder.model).__name__.endswith("Model")


def check_windows(trial: EncoderTrial) -> Check:
    """A text in windows: each token once, in its place, as its window gives it."""
    name, encoder = "windows", trial.encoder
    if not isinstance(encoder, HuggingFaceEncoder | ElmoEncoder):
        return not_applicable(name, "the encoder does not cut texts into windows")
    text = Text("long", trial.texts["longer"].words * 2)
    narrow = copy.copy(encoder)
    narrow.limit = min(_WINDOW, encoder.limit)
    (activations,) = narrow.encode([text])
    states, rows = states_of(activations), narrow.rows(0, narrow.word_tokenizer(text))
    if activations.windows != len(rows) or activations.windows < 2:
        return not_applicable(name, "no text of the trial is longer than a window")
    worst = 0.0
    covered = np.zeros(len(activations.tokens.ids), int)
    for row in rows:
        covered[row.to] += 1
        if not np.array_equal(activations.tokens.ids[row.to], row.ids[row.keep]):
            return fails(name, "windows are put together in the wrong place", ("windows",))
    for row in (rows[0], rows[-1]):
        alone = narrow.hidden([row])
        expected = torch.stack([layer[0, row.keep].float().cpu() for layer in alone])
        worst = max(worst, trial.apart(expected, by_layer(states[row.to])))
    if (covered != 1).any():
        return fails(name, "some tokens are in no window, or in two", ("windows",))
    if worst > trial.bar:
        return fails(name, f"put together, windows change states by {worst:.1e} of their norm", ("windows",), worst)
    message = f"{len(rows)} windows cover each token once, as they give it alone (to {worst:.0e} of its norm)"
    if encoder.causal and len(activations.tokens.ids) <= encoder.limit:
        first = rows[0]
        (plain,) = encoder.encode([text])
        whole = trial.apart(by_layer(states_of(plain)[first.to]), by_layer(states[first.to]))
        if whole > trial.bar:
            return fails(
                name, f"the first window differs from the whole text by {whole:.1e} of its norm", ("windows",), whole
            )
        message, worst = f"{message}, and the first window as the whole text gives it", max(whole, worst)
    return holds(name, message, worst)


def check_layer_order(encoder: HuggingFaceEncoder, trial: EncoderTrial) -> Check:
    """Each layer is what the next block reads; the last is what the last block made, or that after a final norm."""
    name, needs = "layer order", ("states", "maps", "norms", "windows", "ablation")
    with torch.no_grad(), attention_by(encoder.model, None):
        inputs = encoder.inputs(encoder.rows(0, encoder.word_tokenizer(trial.texts["plain"])))
        watched = watch_blocks(encoder.model, inputs)
    blocks, reads = encoder.blocks, watched.reads
    if watched.path is None:
        return not_applicable(name, "its blocks were not found among its modules, so their inputs were not compared")
    if len(reads) != blocks:
        return fails(
            name, f"{len(reads)} blocks ran, but there are {blocks + 1} layers instead of {len(reads) + 1}", needs
        )
    given = trial.alone["plain"].transpose(0, 1)
    read = [call.given[0].float().cpu() for call in reads]
    for layer in range(blocks):
        if apart(read[layer], given[layer]) > trial.bar:
            truly = next((block for block in range(blocks) if apart(read[block], given[layer]) <= trial.bar), None)
            instead = f"but what block {truly + 1} reads" if truly is not None else "and no other block reads it"
            return fails(name, f"layer {layer} is not what block {layer + 1} reads, {instead}", needs)
    if watched.chained and watched.ends and not watched.ends_with(given[-1:], trial.bar):
        return fails(name, f"layer {blocks} is not what block {blocks} made, nor that after a norm", needs)
    if encoder.anatomy.shifted is not None:
        message = "transformers hands out layers that blocks do not read; they are taken from the blocks themselves"
        return fails(name, message, ())
    return holds(name, f"each layer is what the next of {blocks} blocks reads, and the last is what they made")


# Checks of attention maps: rows sum to 1, respect causality, and produce the states they belong to.

_ROWS = {torch.float32: 1e-4, torch.float64: 1e-6, torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""How far a row of rounded numbers may be from a sum of 1."""
_FAR = -1e4
"""A sink's logit that leaves it no attention."""
_NEEDS = ("maps", "norms")


def check_states_with_maps(trial: EncoderTrial, eager: EagerRun | None = None) -> Check:
    """States are the same when maps are asked for as well."""
    name = "states with maps"
    if not trial.has_maps:
        return not_applicable(name, "there are no attention maps")
    (both,) = trial.encoder.encode([trial.texts["plain"]], ("states", "maps"))
    moved = trial.differ(both, trial.alone["plain"])
    moved = max(moved, trial.apart(maps_of(both), trial.maps["plain"]))
    if moved > trial.bar:
        message = f"asking for maps and states together changes them by {moved:.1e} of their norm"
        return fails(name, message, ("states", *_NEEDS), moved)
    within = 0.0 if eager is None else trial.apart(eager.hidden, eager.without)
    if within > trial.bar:
        message = f"where attention maps are handed out, states change by {within:.1e} of their norm"
        return fails(name, message, _NEEDS, within)
    return holds(name, f"states with and without maps differ by {max(moved, within):.0e} of their norm at most", within)


def check_fast_path(encoder: HuggingFaceEncoder, trial: EncoderTrial, eager: EagerRun | None, *, sound: bool) -> Check:
    """The attention that gives the states agrees with the one that gives the maps."""
    name, implementation = "fast path", str(encoder.model.config._attn_implementation)
    if implementation == "eager":
        return not_applicable(name, "the model has one implementation of attention (eager)")
    if eager is None:
        return not_applicable(name, "there are no attention maps to take from another implementation")
    moved = trial.apart(eager.without, by_layer(trial.alone["plain"]))
    if moved <= trial.bar:
        return holds(
            name, f"states by {implementation} and by eager differ by {moved:.0e} of their norm at most", moved
        )
    if trial.dtype in SHARE and _has_experts(encoder):
        message = (
            "rounding sends tokens to other experts in half precision, so implementations can be compared in float32"
        )
        return not_applicable(name, f"{message} only")
    message = f"states by {implementation} and by eager, which hands out the maps, differ by {moved:.1e} of their norm"
    if sound:
        # The maps make what they should: it may as well be the other path that is wrong.
        return fails(
            name, f"{message}; it is not known which one is right", ("states", *_NEEDS, "windows", "ablation"), moved
        )
    return fails(name, message, _NEEDS, moved)


def _has_experts(encoder: HuggingFaceEncoder) -> bool:
    return any("experts" in name for name, _ in encoder.model.named_parameters())


def check_every_block(trial: EncoderTrial) -> Check:
    """Whether all blocks have maps."""
    name, encoder = "every block", trial.encoder
    if not trial.has_maps:
        return not_applicable(name, "there are no attention maps")
    if len(encoder.map_blocks) == encoder.blocks:
        return holds(name, f"all {encoder.blocks} blocks have attention maps")
    listed = ", ".join(str(block + 1) for block in encoder.map_blocks)
    message = f"only block {listed} of {encoder.blocks} attends from token to token; analyses of maps need all blocks"
    return fails(name, message, _NEEDS)


def check_look_ahead(trial: EncoderTrial) -> Check:
    """Maps look where the states' direction says."""
    name, encoder = "look-ahead", trial.encoder
    if not trial.has_maps:
        return not_applicable(name, "there are no attention maps")
    ahead = trial.maps["plain"].double().triu(1).sum(-1).amax(dim=(1, 2))
    worst = ahead.max().item()
    if encoder.causal_maps:
        if not worst <= 1e-6:
            block = encoder.map_blocks[int(ahead.argmax())] + 1
            message = f"the states are causal, but maps of block {block} look ahead with up to {worst:.2f} of a row"
            return fails(name, message, _NEEDS, worst)
        return holds(name, "maps look back only, as the states do", worst)
    if ahead.min() <= 1e-6:
        block = encoder.map_blocks[int(ahead.argmin())] + 1
        return fails(name, f"later words matter, but maps of block {block} look back only", _NEEDS, ahead.min().item())
    return holds(name, f"maps look both ways: up to {worst:.2f} of a row looks ahead", worst)


class RowSumCheck(NamedTuple):
    """How rows of maps add up."""

    check: Check
    sink: str | None = None


def check_rows(trial: EncoderTrial, calls: Sequence[AttentionCall]) -> RowSumCheck:
    """Rows sum to 1, or a learned sink takes the rest."""
    name = "rows"
    if not trial.has_maps:
        return RowSumCheck(not_applicable(name, "there are no attention maps"))
    maps = trial.maps["plain"].double()
    model = getattr(trial.encoder, "model", None)
    bar = _ROWS[model.dtype if model is not None else torch.float32]
    sums = maps.sum(-1)
    off = (sums - 1).abs().max().item()
    if off <= bar and maps.min() >= -bar:
        return RowSumCheck(holds(name, f"rows sum to 1 (to {off:.0e})", off))
    if maps.min() < -bar or sums.max() > 1 + bar or not torch.isfinite(maps).all():
        message = f"rows of attention sum to {sums.min():.2f} to {sums.max():.2f}, with values from {maps.min():.2f}"
        return RowSumCheck(fails(name, message, _NEEDS, off))
    missing = f"up to {1 - sums.min().item():.2f} of a row is missing"
    wrong = _unlike_a_sink([call for call in calls if _sinks(call.module) is not None])
    if wrong is None:
        return RowSumCheck(fails(name, f"rows do not sum to 1: {missing}, and no learned sink was found", _NEEDS, off))
    if wrong > bar:
        return RowSumCheck(
            fails(name, f"{missing}, which is not what the learned sinks take ({wrong:.1e} off)", _NEEDS, off)
        )
    sink = f"a learned sink per head takes up to {1 - sums.min().item():.2f} of a row"
    return RowSumCheck(holds(name, f"{sink}; with it, rows sum to 1 (to {wrong:.0e})", wrong), sink)


def _unlike_a_sink(calls: Sequence[AttentionCall]) -> float | None:
    """How far rows are from those without sinks, cut by one factor per row; None if no block has sinks."""
    worst = None
    for call in calls:
        sinks: Any = _sinks(call.module)
        original = sinks.data
        sinks.data = torch.full_like(original, _FAR)
        try:
            with torch.no_grad():
                free = call.again().double()
        finally:
            sinks.data = original
        weights = call.weights.double()
        proportional = (weights - weights.sum(-1, keepdim=True) * free).abs().max().item()
        worst = max(worst or 0.0, proportional, (free.sum(-1) - 1).abs().max().item())
    return worst


def _sinks(module: Module) -> Tensor | None:
    sinks = getattr(module, "sinks", None)
    return sinks if isinstance(sinks, torch.nn.Parameter) else None


class EagerRun(NamedTuple):
    """The plain text by the attention that hands out maps."""

    without: Tensor
    """[layer, token, width] States when no maps are asked for ..."""
    hidden: Tensor
    """... and when they are."""
    maps: list[Tensor]
    """As the model's output has them, [row, head, token, token]."""
    calls: list[AttentionCall]


def run_eager(encoder: HuggingFaceEncoder, trial: EncoderTrial) -> EagerRun:
    """Run the plain text with and without maps, and note what its attention does."""
    calls: list[AttentionCall] = []
    with torch.no_grad(), attention_by(encoder.model, "eager"):
        inputs = encoder.inputs(encoder.rows(0, encoder.word_tokenizer(trial.texts["plain"])))
        without = encoder._layers(inputs)
        with recorded_attention(encoder.model, calls):
            out = encoder.model(**inputs, output_attentions=True, output_hidden_states=True)
    maps = [out.attentions[place] for place in encoder.anatomy.maps.values()]
    # Where layers are taken from the blocks, those of the output are other ones.
    hidden = without if encoder.anatomy.shifted is not None else out.hidden_states
    return EagerRun(_stacked(without), _stacked(hidden), maps, calls)


def _stacked(layers: Sequence[Tensor]) -> Tensor:
    return torch.stack([layer[0].float().cpu() for layer in layers])


class OutputChecks(NamedTuple):
    """What maps make."""

    output: Check
    groups: Check


_OUTPUT, _GROUPS = "maps make the output", "grouped heads"


def check_output(encoder: HuggingFaceEncoder, trial: EncoderTrial, eager: EagerRun | None) -> OutputChecks:
    """Values, mixed by the maps that are handed out, are what the block passes on."""
    if eager is None:
        return OutputChecks(
            not_applicable(_OUTPUT, "there are no attention maps"), _groups(encoder.heads, encoder.heads)
        )
    with attention_by(encoder.model, "eager"):
        block_mixings = mixings(encoder.model, heads=encoder.heads, maps=encoder.anatomy.maps, bar=max(trial.bar, 1e-3))
    blocks = [block + 1 for block in encoder.map_blocks]
    for number, mixing in enumerate(block_mixings):
        if mixing is not None and not mixing.uses_block_maps:
            message = f"block {blocks[number]} mixes its values by the maps of block {blocks[mixing.maps_of]}"
            return OutputChecks(fails(_OUTPUT, message, _NEEDS), not_applicable(_GROUPS, message))
        if mixing is not None and mixing.tiled:
            return _wrongly_shared(blocks[number])
    if None in block_mixings:
        return _by_function(encoder, trial, eager)
    message = f"values mixed by the maps are what each of {len(block_mixings)} blocks passes on"
    shared = min(mixing.groups for mixing in block_mixings if mixing is not None)
    return OutputChecks(holds(_OUTPUT, message), _groups(encoder.heads, shared))


def _groups(heads: int, shared: int) -> Check:
    if shared == heads:
        return not_applicable(_GROUPS, "no head shares keys and values with another")
    return holds(_GROUPS, f"{heads} heads share {shared} heads of keys and values, in order")


def _wrongly_shared(block: int) -> OutputChecks:
    message = f"in block {block}, heads that share keys and values are matched with the wrong ones"
    needs = ("states", *_NEEDS, "windows", "ablation")
    return OutputChecks(fails(_OUTPUT, message, needs), fails(_GROUPS, message, needs))


def _by_function(encoder: HuggingFaceEncoder, trial: EncoderTrial, eager: EagerRun) -> OutputChecks:
    """By the model's own attention function, where its linear layers do not show the values."""
    if len(eager.calls) != len(eager.maps) and encoder.model.config.model_type in VALUES_IN_LINEAR_LAYERS:
        message = "the maps are not those that mixed the values into the output of its attention"
        return OutputChecks(fails(_OUTPUT, message, _NEEDS), not_applicable(_GROUPS, message))
    if len(eager.calls) != len(eager.maps):
        message = "what the maps mix is not among the model's linear layers, so it could not be recomputed"
        return OutputChecks(not_applicable(_OUTPUT, message), not_applicable(_GROUPS, message))
    shared = encoder.heads
    for block, call, maps in zip(encoder.map_blocks, eager.calls, eager.maps, strict=True):
        if apart(maps, call.weights) > trial.bar:
            message = f"the maps handed out for block {block + 1} are not those that its attention used"
            return OutputChecks(fails(_OUTPUT, message, _NEEDS), not_applicable(_GROUPS, message))
        groups = call.value.shape[1]
        shared = min(shared, groups)
        if call.makes(call.value.repeat_interleave(encoder.heads // groups, dim=1)) > trial.bar:
            if call.makes(call.value.repeat(1, encoder.heads // groups, 1, 1)) <= trial.bar:
                return _wrongly_shared(block + 1)
            message = f"in block {block + 1}, the values mixed by the maps are not what attention passes on"
            return OutputChecks(fails(_OUTPUT, message, _NEEDS), not_applicable(_GROUPS, message))
    message = f"values mixed by the maps are what attention passes on in each of {len(eager.maps)} blocks"
    return OutputChecks(holds(_OUTPUT, message), _groups(encoder.heads, shared))


# Checks of parts: which can be ablated, which head the model was saved with, whether its weights are unchanged.

AblatablePart = Literal["attention", "heads", "layers"]
_LARGE = 2 * 2**30
"""Bytes of weights that are not hashed a second time."""


class AblationCheck(NamedTuple):
    """What can be switched off."""

    check: Check
    parts: tuple[str, ...]


def check_ablation(encoder: HuggingFaceEncoder, trial: EncoderTrial) -> AblationCheck:
    """Switch a head, all heads and the whole of the first block off: its own output changes, its input does not."""
    name = "ablation"
    try:
        parts = Interventions(encoder, heads=False, spread=True)
    except ModelError as error:
        return AblationCheck(not_applicable(name, str(error)), ())
    row = encoder.rows(0, encoder.word_tokenizer(trial.texts["plain"]))[0]
    first = min((block for block, _ in parts.heads), default=0)
    edits: dict[AblatablePart, Edit] = {"layers": Edit(skipped=frozenset({0}))}
    if parts.heads:
        edits["heads"] = parts.without(first, heads=[0])
        edits["attention"] = parts.without(first, heads=range(encoder.heads))
    every = parts.run([row], list(edits.values()), layers=range(encoder.layers))
    by_edit = {outcome.edit: outcome.states for outcome in every}
    ablatable: list[AblatablePart] = []
    for number, (part, edit) in enumerate(edits.items()):
        layer, plain, states = edit.first, by_edit[None], by_edit[number]
        before, after = apart(states[layer], plain[layer]), apart(states[layer + 1], plain[layer + 1])
        if before <= trial.bar < after and all(torch.isfinite(outcome).all() for outcome in states.values()):
            ablatable.append(part)
    if not ablatable:
        return AblationCheck(not_applicable(name, "none of its parts was found to switch off"), ())
    listed = ", ".join(sorted(ablatable))
    without = "" if parts.heads else f"; single heads cannot be changed: {parts.no_heads}"
    return AblationCheck(holds(name, f"switched off in the first block: {listed}{without}"), tuple(sorted(ablatable)))


def check_weights(encoder: HuggingFaceEncoder) -> Check:
    """The weights in memory are finite, and those that the fingerprint was taken of."""
    name, needs = "weights", ("states", "maps", "norms", "windows", "ablation")
    size = 0
    trained = {path for path, _ in encoder.model.named_parameters()}
    for path, weight in weights(encoder.model):
        if path not in trained:
            continue
        size += weight.nbytes
        if weight.is_floating_point() and not torch.isfinite(weight).all():
            return fails(name, f"{path} has values that are not numbers", needs)
    if size > _LARGE:
        return holds(name, "all weights are finite")
    if encoder.weigh() != encoder.weights_fingerprint:
        return fails(name, "the weights are not those that the model was fingerprinted with: load it again", needs)
    return holds(name, "all weights are finite, and those of the fingerprint")


def check_vocabulary(encoder: HuggingFaceEncoder) -> Check:
    """Every id of the tokenizer has a row in the embedding table."""
    name = "vocabulary"
    table = embedding_table(encoder.model)
    if table is None:
        return not_applicable(name, "the model has no table of token embeddings")
    rows = table.num_embeddings
    added = set(encoder.tokenizer.get_added_vocab().values())
    outside = sorted(token for token in encoder.tokenizer.get_vocab().values() if token >= rows)
    ordinary = [token for token in outside if token not in added]
    if ordinary:
        message = (
            f"{len(ordinary):,} ids of the tokenizer, from {ordinary[0]} on, are not among the model's {rows:,} tokens"
        )
        return fails(name, f"{message}: it is the tokenizer of another model", ("states", "maps", "norms", "windows"))
    if outside:
        return holds(
            name, f"{len(outside)} added tokens of the tokenizer have no embedding; texts must not contain them"
        )
    return holds(name, f"all {len(encoder.tokenizer):,} tokens of the tokenizer are among the model's {rows:,}")


def language_head(encoder: HuggingFaceEncoder) -> Literal["masked", "causal"] | None:
    """The language-model head that the checkpoint has, by its class and its weights."""
    from lamina.models.running.task_heads import head_kind

    kind = head_kind(encoder)
    if kind not in ("masked-LM", "causal-LM"):
        return None
    head_type: Literal["masked", "causal"] = "masked" if kind == "masked-LM" else "causal"
    stored = _stored(Path(str(encoder.model.name_or_path or "")))
    if encoder.whole is not None or stored is None:
        return head_type
    return head_type if stored >= _head_weights(encoder, head_type) else None


def _stored(folder: Path) -> set[str] | None:
    """Names of the weights in a folder's safetensors; None if there are none to read."""
    from safetensors import SafetensorError, safe_open

    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() and folder.name else []
    names: set[str] = set()
    try:
        for file in files:
            with safe_open(file, framework="pt") as weights:
                names.update(weights.keys())
    except (OSError, SafetensorError):
        return None
    return names or None


def _head_weights(encoder: HuggingFaceEncoder, kind: str) -> set[str]:
    """Weights that a language-model head has beside the body's and those it shares with the body."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    auto = AutoModelForMaskedLM if kind == "masked" else AutoModelForCausalLM
    try:
        with torch.device("meta"):
            whole: Any = auto.from_config(encoder.model.config)
    except (ValueError, RuntimeError):
        return set()
    shared = set(getattr(whole, "all_tied_weights_keys", None) or ())
    below = f"{whole.base_model_prefix}."
    return {name for name, _ in whole.named_parameters() if not name.startswith(below) and name not in shared}


class _CheckResults(NamedTuple):
    checks: list[Check]
    sink: str | None = None
    ablatable: tuple[str, ...] = ()
    language_head: Literal["masked", "causal"] | None = None


def examined(encoder: Encoder) -> Passport:
    """See `lamina.models.checks.passports.examine`."""
    start = perf_counter()
    trial = EncoderTrial(encoder)
    alive = check_alive(trial)
    if alive.verdict == "fails":
        # Everything else would compare numbers that mean nothing.
        results = _CheckResults([alive])
    elif isinstance(encoder, HuggingFaceEncoder) and encoder.model.training:
        # With dropout on, two runs of the model differ; only what the encoder hands out can be compared.
        results = _CheckResults([alive, check_company(trial), check_padding(trial)])
    elif isinstance(encoder, HuggingFaceEncoder):
        results = _of_transformers(encoder, trial, alive)
    else:
        results = _of_any(trial, alive)
    return Passport(
        model=encoder.name,
        architecture=type(encoder.model).__name__
        if isinstance(encoder, HuggingFaceEncoder)
        else type(encoder).__name__,
        fingerprint=encoder.fingerprint,
        version=PASSPORT_VERSION,
        transformers=version("transformers"),
        torch=str(torch.__version__),
        seconds=perf_counter() - start,
        causal=encoder.causal,
        sink=results.sink,
        maps=encoder.map_blocks,
        ablatable=results.ablatable,
        language_head=results.language_head,
        checks=tuple(results.checks),
        features=features(trial.alone["plain"]),
    )


def _of_any(trial: EncoderTrial, alive: Check) -> _CheckResults:
    rows = check_rows(trial, ())
    states = [check_company(trial), check_padding(trial), check_direction(trial), check_windows(trial)]
    maps = [check_states_with_maps(trial), check_every_block(trial), check_look_ahead(trial), rows.check]
    return _CheckResults([alive, *states, *maps], rows.sink)


def _of_transformers(encoder: HuggingFaceEncoder, trial: EncoderTrial, alive: Check) -> _CheckResults:
    eager = run_eager(encoder, trial) if trial.has_maps else None
    rows = check_rows(trial, () if eager is None else eager.calls)
    ahead = check_look_ahead(trial)
    output_checks = check_output(encoder, trial, eager)
    sound = "fails" not in (rows.check.verdict, ahead.verdict, output_checks.output.verdict)
    ablation = check_ablation(encoder, trial)
    checks = [
        check_weights(encoder),
        check_vocabulary(encoder),
        alive,
        check_layer_order(encoder, trial),
        check_company(trial),
        check_padding(trial),
        check_windows(trial),
        check_direction(trial),
        check_states_with_maps(trial, eager),
        check_fast_path(encoder, trial, eager, sound=sound),
        check_every_block(trial),
        ahead,
        rows.check,
        output_checks.output,
        output_checks.groups,
        ablation.check,
    ]
    return _CheckResults(checks, rows.sink, ablation.parts, language_head(encoder))

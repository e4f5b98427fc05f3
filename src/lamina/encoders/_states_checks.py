"""Checks of a model's hidden states: in company, with padding, in windows, with maps, in the order of layers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from lamina.encoders._trial import CHANGED, Trial, by_layer, maps_of, states_of
from lamina.encoders.anatomy import attention_by, only_causal
from lamina.encoders.blocks import watch_blocks
from lamina.encoders.comparing import IN_ONE_BATCH, apart
from lamina.encoders.contract import Encoder
from lamina.encoders.elmo import ElmoEncoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.passport import Check, fails, holds, not_applicable
from lamina.types import Text

_WINDOW = 20
"""Tokens of a window in the trial; real limits would take long texts."""


def check_alive(trial: Trial) -> Check:
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


def check_company(trial: Trial) -> Check:
    """A text beside another one of the same length."""
    texts = [trial.texts["plain"], trial.texts["turned"]]
    return _together(trial, "company", texts, "other texts in the batch change")


def check_padding(trial: Trial) -> Check:
    """Texts beside longer and shorter ones."""
    texts = [trial.texts[name] for name in ("plain", "longer", "short")]
    found = _together(trial, "padding", texts, "padding changes")
    encoder = trial.encoder
    if found.verdict == "fails" or not isinstance(encoder, HuggingFaceEncoder) or encoder.anatomy.pads:
        return found
    without = "so texts of different lengths are not put into one batch"
    if "attention_mask" not in encoder.inputs(encoder.rows(0, encoder.pieces(texts[0]))):
        return not_applicable("padding", f"the model takes no mask, {without}")
    return fails("padding", f"the model ignores its mask: padding changes states, {without}", ())


def _together(trial: Trial, name: str, texts: list[Text], what: str) -> Check:
    needs = ("states", "windows")
    compared = [made for made in trial.encode(texts) if made.text in trial.alone]
    worst = max(trial.differ(made, trial.alone[made.text]) for made in compared)
    if worst > trial.bar:
        return fails(name, f"{what} states by {worst:.1e} of their norm", needs, worst)
    said = f"{what} states by {worst:.0e} of their norm at most"
    if trial.has_maps:
        found = [made for made in trial.encode(texts, maps=True) if made.text in trial.maps]
        moved = max(trial.apart(maps_of(made), trial.maps[made.text]) for made in found)
        if moved > trial.bar:
            return fails(name, f"{what} attention maps by {moved:.1e} of their norm", ("maps", "norms"), moved)
        said, worst = f"{what} states by {worst:.0e} and maps by {moved:.0e} of their norm at most", max(worst, moved)
    return holds(name, said, worst)


def check_direction(trial: Trial) -> Check:
    """What depends on later words, in every layer, at several positions."""
    name, encoder = "causal", trial.encoder
    if not encoder.blocks:
        return not_applicable(name, "there are no blocks, so words do not depend on others")
    seen = torch.zeros(encoder.layers, dtype=torch.double)
    size = len(trial.texts["plain"].words)
    places = [at for at in (CHANGED if size > CHANGED[0] else range(1, size)) if at < size and _can_change(trial, at)]
    if not places:
        return not_applicable(name, f"in {encoder.limit} tokens there are no later words that its pieces tell apart")
    # In one batch, where what is not changed is computed alike; that company changes nothing is looked at apart.
    plain, *others = trial.encode([trial.texts["plain"], *(trial.changed(at) for at in places)])
    for at, made in zip(places, others, strict=True):
        before = int(np.argmax(made.tokens.words >= at))
        both = states_of(made)[:before], states_of(plain)[:before]
        moved = [apart(one, other) for one, other in zip(*map(by_layer, both), strict=True)]
        seen = torch.maximum(seen, torch.tensor(moved, dtype=torch.double))
    ahead = [layer for layer, moved in enumerate(seen.tolist()) if moved > IN_ONE_BATCH[trial.dtype]]
    worst = seen.max().item()
    if encoder.causal and ahead:
        said = f"layer {ahead[0]} depends on later words, by {worst:.1e} of its norm; the model is taken to be causal"
        return fails(name, said, ("states", "maps", "norms", "windows"), worst)
    if not encoder.causal and not ahead:
        return fails(
            name, "no layer depends on later words, but the model is not taken to be causal", ("windows",), worst
        )
    if not encoder.causal and _should_be_causal(encoder):
        said = (
            f"its attention is declared causal, but layer {ahead[0]} depends on later words, by {worst:.1e} of its norm"
        )
        return fails(name, said, ("states", "maps", "norms", "windows"), worst)
    if encoder.causal:
        return holds(name, f"causal: later words change earlier ones by {worst:.0e} of their norm at most", worst)
    return holds(name, f"not causal: later words change earlier ones from layer {ahead[0]} on", worst)


def _can_change(trial: Trial, at: int) -> bool:
    """Whether the text with other words from `at` on has other ids, and fits into one window."""
    plain, changed = (trial.encoder.tokenize(text).ids for text in (trial.texts["plain"], trial.changed(at)))
    return len(changed) <= trial.encoder.limit and plain.tolist() != changed.tolist()


def _should_be_causal(encoder: Encoder) -> bool:
    """Whether the model's attention says that it looks back only, and no other attention shows it the whole text."""
    if not isinstance(encoder, HuggingFaceEncoder) or encoder.causal_maps:
        return False
    config: Any = encoder.model.config
    if getattr(config, "is_causal", None) is False or getattr(config, "use_bidirectional_attention", None):
        return False
    said = {getattr(module, "is_causal", None) for module in encoder.model.modules()} & {True, False}
    if said:
        return said == {True}
    # Older ones do not say: bodies of language models that only predict the next word.
    return only_causal(config.model_type) and type(encoder.model).__name__.endswith("Model")


def check_windows(trial: Trial) -> Check:
    """A text in windows: each token once, in its place, as its window gives it."""
    name, encoder = "windows", trial.encoder
    if not isinstance(encoder, HuggingFaceEncoder | ElmoEncoder):
        return not_applicable(name, "the encoder does not cut texts into windows")
    text = Text("long", trial.texts["longer"].words * 2)
    narrow = copy.copy(encoder)
    narrow.limit = min(_WINDOW, encoder.limit)
    (made,) = narrow.encode([text])
    states, rows = states_of(made), narrow.rows(0, narrow.pieces(text))
    if made.windows != len(rows) or made.windows < 2:
        return not_applicable(name, "no text of the trial is longer than a window")
    worst = 0.0
    covered = np.zeros(len(made.tokens.ids), int)
    for row in rows:
        covered[row.to] += 1
        if not np.array_equal(made.tokens.ids[row.to], row.ids[row.keep]):
            return fails(name, "windows are put together in the wrong place", ("windows",))
    for row in (rows[0], rows[-1]):
        alone = narrow.hidden([row])
        own = torch.stack([layer[0, row.keep].float().cpu() for layer in alone])
        worst = max(worst, trial.apart(own, by_layer(states[row.to])))
    if (covered != 1).any():
        return fails(name, "some tokens are in no window, or in two", ("windows",))
    if worst > trial.bar:
        return fails(name, f"put together, windows change states by {worst:.1e} of their norm", ("windows",), worst)
    said = f"{len(rows)} windows cover each token once, as they give it alone (to {worst:.0e} of its norm)"
    if encoder.causal and len(made.tokens.ids) <= encoder.limit:
        first = rows[0]
        (plain,) = encoder.encode([text])
        whole = trial.apart(by_layer(states_of(plain)[first.to]), by_layer(states[first.to]))
        if whole > trial.bar:
            return fails(
                name, f"the first window differs from the whole text by {whole:.1e} of its norm", ("windows",), whole
            )
        said, worst = f"{said}, and the first window as the whole text gives it", max(whole, worst)
    return holds(name, said, worst)


def check_layer_order(encoder: HuggingFaceEncoder, trial: Trial) -> Check:
    """Each layer is what the next block reads; the last is what the last block made, or that after a final norm."""
    name, needs = "layer order", ("states", "maps", "norms", "windows", "ablation")
    with torch.no_grad(), attention_by(encoder.model, None):
        inputs = encoder.inputs(encoder.rows(0, encoder.pieces(trial.texts["plain"])))
        watched = watch_blocks(encoder.model, inputs)
    blocks, reads = encoder.blocks, watched.reads
    if watched.path is None:
        return not_applicable(
            name, "the modules that are its blocks cannot be told, so what they read was not compared"
        )
    if len(reads) != blocks:
        return fails(
            name, f"{len(reads)} blocks ran, but there are {blocks + 1} layers instead of {len(reads) + 1}", needs
        )
    given = trial.alone["plain"].transpose(0, 1)
    read = [each.given[0].float().cpu() for each in reads]
    for layer in range(blocks):
        if apart(read[layer], given[layer]) > trial.bar:
            truly = next((at for at in range(blocks) if apart(read[at], given[layer]) <= trial.bar), None)
            instead = f"but what block {truly + 1} reads" if truly is not None else "and no other block reads it"
            return fails(name, f"layer {layer} is not what block {layer + 1} reads, {instead}", needs)
    if watched.chained and watched.ends and not watched.ends_with(given[-1:], trial.bar):
        return fails(name, f"layer {blocks} is not what block {blocks} made, nor that after a norm", needs)
    if encoder.anatomy.shifted is not None:
        said = "transformers hands out layers that blocks do not read; they are taken from the blocks themselves"
        return fails(name, said, ())
    return holds(name, f"each layer is what the next of {blocks} blocks reads, and the last is what they made")

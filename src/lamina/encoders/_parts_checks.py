"""Which parts of a model can be switched off, which head it was saved with, and whether its weights are its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from lamina.encoders._trial import Trial
from lamina.encoders.anatomy import embedding_table
from lamina.encoders.comparing import apart
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.interventions import Edit, Interventions
from lamina.encoders.passport import Check, fails, holds, not_applicable
from lamina.encoders.placement import weights
from lamina.errors import ModelError

Part = Literal["attention", "heads", "layers"]
_LARGE = 2 * 2**30
"""Bytes of weights that are not hashed a second time."""


class Ablation(NamedTuple):
    """What can be switched off."""

    check: Check
    parts: tuple[str, ...]


def check_ablation(encoder: HuggingFaceEncoder, trial: Trial) -> Ablation:
    """Switch a head, all heads and the whole of the first block off: its own output changes, its input does not."""
    name = "ablation"
    try:
        parts = Interventions(encoder, heads=False, spread=True)
    except ModelError as error:
        return Ablation(not_applicable(name, str(error)), ())
    row = encoder.rows(0, encoder.pieces(trial.texts["plain"]))[0]
    first = min((block for block, _ in parts.heads), default=0)
    edits: dict[Part, Edit] = {"layers": Edit(skipped=frozenset({0}))}
    if parts.heads:
        edits["heads"] = parts.without(first, heads=[0])
        edits["attention"] = parts.without(first, heads=range(encoder.heads))
    every = parts.run([row], list(edits.values()), layers=range(encoder.layers))
    made = {each.edit: each.states for each in every}
    found: list[Part] = []
    for number, (part, edit) in enumerate(edits.items()):
        at, plain, states = edit.first, made[None], made[number]
        before, own = apart(states[at], plain[at]), apart(states[at + 1], plain[at + 1])
        if before <= trial.bar < own and all(torch.isfinite(each).all() for each in states.values()):
            found.append(part)
    if not found:
        return Ablation(not_applicable(name, "none of its parts was found to switch off"), ())
    listed = ", ".join(sorted(found))
    without = "" if parts.heads else f"; its heads cannot be told apart: {parts.no_heads}"
    return Ablation(holds(name, f"switched off in the first block: {listed}{without}"), tuple(sorted(found)))


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
        return not_applicable(name, "the model has no table of piece embeddings")
    rows = table.num_embeddings
    added = set(encoder.tokenizer.get_added_vocab().values())
    outside = sorted(each for each in encoder.tokenizer.get_vocab().values() if each >= rows)
    ordinary = [each for each in outside if each not in added]
    if ordinary:
        said = (
            f"{len(ordinary):,} ids of the tokenizer, from {ordinary[0]} on, are not among the model's {rows:,} tokens"
        )
        return fails(name, f"{said}: it is the tokenizer of another model", ("states", "maps", "norms", "windows"))
    if outside:
        return holds(
            name, f"{len(outside)} added tokens of the tokenizer have no embedding; texts must not contain them"
        )
    return holds(name, f"all {len(encoder.tokenizer):,} tokens of the tokenizer are among the model's {rows:,}")


def language_head(encoder: HuggingFaceEncoder) -> Literal["masked", "causal"] | None:
    """The language-model head that the checkpoint has, by its class and its weights."""
    from lamina.encoders.heads import head_kind

    kind = head_kind(encoder)
    if kind not in ("masked-LM", "causal-LM"):
        return None
    found: Literal["masked", "causal"] = "masked" if kind == "masked-LM" else "causal"
    stored = _stored(Path(str(encoder.model.name_or_path or "")))
    if encoder.whole is not None or stored is None:
        return found
    return found if stored >= _own_weights(encoder, found) else None


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


def _own_weights(encoder: HuggingFaceEncoder, kind: str) -> set[str]:
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

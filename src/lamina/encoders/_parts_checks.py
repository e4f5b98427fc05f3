"""Which parts of a model can be switched off, which head it was saved with, and whether its weights are its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from lamina.encoders._trial import Trial
from lamina.encoders.anatomy import attention_by, block_number, embedding_table
from lamina.encoders.comparing import apart
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.passport import Check, fails, holds, not_applicable
from lamina.encoders.placement import weights
from lamina.encoders.values import Mixing, is_linear

Part = Literal["heads", "mlp", "attention", "layers"]
_LARGE = 2 * 2**30
"""Bytes of weights that are not hashed a second time."""


class Ablation(NamedTuple):
    """What can be switched off."""

    check: Check
    parts: tuple[str, ...]


def check_ablation(encoder: HuggingFaceEncoder, trial: Trial, mixing: Mixing | None) -> Ablation:
    """Switch parts of the first block off: its own output changes, what comes before does not."""
    name = "ablation"
    plain = trial.alone["plain"].transpose(0, 1)
    found: list[str] = []
    for part, module, cut in _cuts(encoder, trial, mixing):
        try:
            with _cutting(module, cut):
                without = _states(encoder, trial)
        except Exception:  # noqa: S112 - whatever a model's code does without a part: it cannot be switched off
            continue
        before, own = apart(without[:1], plain[:1]), apart(without[1:], plain[1:])
        if part not in found and before <= trial.bar < own and torch.isfinite(without).all():
            found.append(part)
    if not found:
        return Ablation(not_applicable(name, "none of its parts was found to switch off"), ())
    return Ablation(holds(name, f"switched off in the first block: {', '.join(found)}"), tuple(found))


def _cuts(
    encoder: HuggingFaceEncoder, trial: Trial, mixing: Mixing | None
) -> list[tuple[Part, Module, Callable[[Any, Any], Any]]]:
    """Part, the module to hook, and what becomes of (given, made)."""
    cuts: list[tuple[Part, Module, Callable[[Any, Any], Any]]] = []
    calls, block = _first_block(encoder, trial)
    if mixing is not None and mixing.out in calls:
        size = mixing.values.size
        cuts.append(
            ("heads", mixing.out, lambda given, _made, layer=mixing.out: _without_a_head(layer, given[0], size))
        )
        cuts.append(("attention", mixing.out, lambda _given, made: torch.zeros_like(made)))
        after = [layer for layer in calls if layer is not mixing.out and layer is not mixing.layer]
        if after:
            cuts.append(("mlp", after[-1], lambda _given, made: torch.zeros_like(made)))
    if block is not None:
        cuts.append(("layers", block, _skip))
    return cuts


def _first_block(encoder: HuggingFaceEncoder, trial: Trial) -> tuple[list[Module], Module | None]:
    """The linear layers of the first block that give a vector per token, as they run, and the block itself."""
    ran: list[Module] = []
    whole: list[tuple[str, Module]] = []

    def watch(path: str) -> Callable[[Module, Any, Any], None]:
        def note(module: Module, _given: Any, made: Any) -> None:
            shown = made[0] if isinstance(made, tuple) and made else made
            if not isinstance(shown, Tensor) or shown.dim() != 3 or shown.shape[-1] != encoder.width:
                return
            if is_linear(module):
                ran.append(module)
            elif path.rpartition(".")[2] == "0":
                whole.append((path, module))

        return note

    inside = [(path, module) for path, module in encoder.model.named_modules() if block_number(path) == 0]
    handles = [module.register_forward_hook(watch(path)) for path, module in inside]
    try:
        _states(encoder, trial)
    finally:
        for handle in handles:
            handle.remove()
    outermost = min(whole, key=lambda each: each[0].count("."), default=None)
    return ran, None if outermost is None else outermost[1]


def _without_a_head(layer: Any, given: Tensor, size: int) -> Tensor:
    given = given.clone()
    given[..., :size] = 0
    return layer.forward(given)


def _skip(given: Any, made: Any) -> Any:
    """A block that passes on what it read."""
    return (given[0], *made[1:]) if isinstance(made, tuple) else given[0]


@contextmanager
def _cutting(module: Module, cut: Callable[[Any, Any], Any]) -> Any:
    def hook(_module: Module, given: Any, named: Any, made: Any) -> Any:
        return cut(given or tuple(named.values()), made)

    handle = module.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _states(encoder: HuggingFaceEncoder, trial: Trial) -> Tensor:
    """[layer, token, width] of the plain text."""
    with torch.no_grad(), attention_by(encoder.model, None):
        inputs = encoder.inputs(encoder.rows(0, encoder.pieces(trial.texts["plain"])))
        return torch.stack([layer[0].float().cpu() for layer in encoder._layers(inputs)])


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

"""Which weights of a model belong to which layer, and weights of some layers exchanged for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.interventions.block_calls import blocks_of
from lamina.models.running.anatomy import attention_by, given
from lamina.models.running.huggingface import HuggingFaceEncoder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Layers = tuple[tuple[str, ...], ...]
"""By layer, the names of its weights in the model without a head."""


def layer_weights(encoder: HuggingFaceEncoder) -> Layers:
    """The names of the weights of every layer, as `encode` counts layers.

    Layer l has the weights of block l. Layer 0 has everything that is used before the first block: embeddings, their
    norm, and positions that all blocks share (MPNet, DeBERTa). What is used after the last block, such as a final norm,
    belongs to the last layer.

    Example:
        >>> layers = layer_weights(lamina.load_encoder("minilm"))  # doctest: +SKIP
        >>> len(layers), layers[1][0]  # doctest: +SKIP
        (7, 'encoder.layer.0.attention.self.query.weight')
    """
    blocks = blocks_of(encoder)
    owners: dict[int, int] = {}
    for number, block in enumerate(blocks, start=1):
        for part in block.parameters():
            if id(part) in owners:
                raise ModelError(
                    f"{encoder.name} ({type(encoder.model).__name__}): its blocks share their weights, so no layer's "
                    "can be exchanged, frozen or re-initialised without those of the others; models like BERT, GPT-2 "
                    "or Llama work"
                )
            owners[id(part)] = number
    late = _used_after(encoder, blocks[-1])
    layers: list[list[str]] = [[] for _ in range(encoder.layers)]
    for name, part in encoder.model.named_parameters():
        # A pooler is part of the head that reads it.
        if not name.startswith("pooler."):
            layers[owners.get(id(part), encoder.blocks if id(part) in late else 0)].append(name)
    return tuple(map(tuple, layers))


def _used_after(encoder: HuggingFaceEncoder, last: Module) -> set[int]:
    """The weights of modules that first run after the last block."""
    ended = False
    before: set[int] = set()
    after: set[int] = set()

    def note(module: Module, _given: Any) -> None:
        (after if ended else before).update(id(part) for part in module.parameters(recurse=False))

    def end(_module: Module, _given: Any, _output: Any) -> None:
        nonlocal ended
        ended = True

    model = encoder.model
    handles = [module.register_forward_pre_hook(note) for module in model.modules()]
    handles.append(last.register_forward_hook(end))
    ids = torch.tensor(encoder.trial_ids)[None].to(encoder.device)
    try:
        with torch.no_grad(), attention_by(model, None):
            model(**given(model, ids))
    finally:
        for handle in handles:
            handle.remove()
    return after - before


def weights_of(encoder: HuggingFaceEncoder, names: Iterable[str]) -> dict[str, Tensor]:
    """Weights by name, as they are now."""
    return {name: encoder.model.get_parameter(name).detach() for name in names}


def refuse_unlike(one: HuggingFaceEncoder, other: HuggingFaceEncoder, layers: Layers) -> None:
    """Raise a ModelError where the weights of the first, by layer, have no counterpart in the second."""
    counterparts = dict(other.model.named_parameters())
    for layer, names in enumerate(layers):
        for name in names:
            part = one.model.get_parameter(name)
            counterpart = counterparts.get(name)
            if counterpart is None or counterpart.shape != part.shape:
                has = "has none" if counterpart is None else f"has one of {_shape(counterpart)}"
                raise ModelError(
                    f"{one.name} ({type(one.model).__name__}, {one.blocks} blocks) and {other.name} "
                    f"({type(other.model).__name__}, {other.blocks} blocks) are of different architectures: layer "
                    f"{layer} of the first has the weight {name} of {_shape(part)}, and the second {has}; name the "
                    "model that the first was tuned from"
                )


def _shape(part: Tensor) -> str:
    return " x ".join(map(str, part.shape)) or "one number"


@contextmanager
def exchanged(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """While it is open, a model has other weights, by their names in its body; afterwards its own again."""
    parameters = {name: model.base_model.get_parameter(name) for name in weights}
    originals = {name: part.detach().clone() for name, part in parameters.items()}
    try:
        set_weights(model, weights)
        yield
    finally:
        set_weights(model, originals)


def set_weights(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> None:
    """Give a model other weights, by their names in its body."""
    with torch.no_grad():
        for name, part in weights.items():
            model.base_model.get_parameter(name).copy_(part)

"""The logit lens: the language-model head on the states of every layer (nostalgebraist 2020).

The head expects states as they leave the model. A decoder's inner layers have not been through its final norm, so they
go through everything the model does after its last block. Those modules are found by recording a run: they lie outside
the blocks and turn the last block's output into the model's last states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.contract import TOLERANCE, apart
from lamina.models.running.anatomy import SAME, ModuleCall, attention_by, given, states_in, watch_blocks
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.models.language.language_model import LanguageModel, TokenQueries
    from lamina.models.running.batching import InputRow
    from lamina.models.running.huggingface import HuggingFaceEncoder

_SAMPLE = Text("sample", ("the", "lazy", "dog", "runs", "far", "away"))
_endings: WeakKeyDictionary[Module, ModelEnding] = WeakKeyDictionary()


class ModelEnding(NamedTuple):
    """What a model does after its last block."""

    modules: tuple[Module, ...]
    """In the order in which they run: a final norm, a projection; none in BERT."""
    names: tuple[str, ...]
    """Their paths in the model."""

    def __call__(self, states: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape width"]:
        """States as a block made them -> as they leave the model."""
        for module in self.modules:
            states = module(states)
        return states


def lens_logits(
    model: LanguageModel, states: Float[Tensor, "*shape width"], layer: int
) -> Float[Tensor, "*shape token"]:
    """The logits of states of one layer (0: embeddings), by the model's own way from its last block to its head.

    The last layer's logits are the model's own.

    Args:
        model: with its head.
        states: of one layer, as `Encoder.encode` gives them.
        layer: which one.
    """
    return model.logits(as_model_output(model, states, layer))


def as_model_output(
    model: LanguageModel, states: Float[Tensor, "*shape width"], layer: int
) -> Float[Tensor, "*shape width"]:
    """States of a layer as the head expects them; those of the last layer are unchanged."""
    encoder = model.encoder
    if not 0 <= layer < encoder.layers:
        raise ModelError(f"{model.name} has layers 0 to {encoder.layers - 1}; got {layer}")
    if layer == encoder.layers - 1:
        return states
    ending = ending_of(encoder)
    weight = next((parameter for module in ending.modules for parameter in module.parameters()), None)
    return ending(states if weight is None else states.to(weight.device, weight.dtype))


def ending_of(encoder: HuggingFaceEncoder) -> ModelEnding:
    """What the model does after its last block; a ModelError where that is not found."""
    known = _endings.get(encoder.model)
    if known is None:
        known = _endings[encoder.model] = _watch(encoder)
    return known


def layer_states(
    model: LanguageModel, wanted: TokenQueries, *, raw: bool = False
) -> Iterator[tuple[np.ndarray, Float[Tensor, "token layer width"]]]:
    """The states from which the requested tokens are predicted, of all layers, with the tokens' numbers; in batches.

    With `raw`, one more layer at the end: what the last block made, before whatever the model does after it.
    """
    encoder = model.encoder
    order = np.argsort(wanted.row, kind="stable")
    bounds = np.searchsorted(wanted.row[order], np.arange(len(wanted.rows) + 1))
    for batch in encoder.row_groups([len(row.ids) for row in wanted.rows]):
        numbers = np.concatenate([order[bounds[row] : bounds[row + 1]] for row in batch])
        if not len(numbers):
            continue
        layers = _layers(encoder, [wanted.rows[row] for row in batch], raw=raw)
        inside = torch.from_numpy(np.repeat(np.arange(len(batch)), [bounds[row + 1] - bounds[row] for row in batch]))
        places = torch.from_numpy(wanted.place[numbers])
        yield numbers, torch.stack([layer[inside, places].to(encoder.device) for layer in layers], 1).float()


def _layers(encoder: HuggingFaceEncoder, rows: Sequence[InputRow], *, raw: bool) -> list[Tensor]:
    if not raw:
        return list(encoder.hidden(rows))
    if not ending_of(encoder).modules:
        layers = list(encoder.hidden(rows))
        return [*layers, layers[-1]]
    inputs: list[Tensor] = []

    handle = (
        ending_of(encoder)
        .modules[0]
        .register_forward_pre_hook(lambda _module, args: inputs.append(args[0].detach().clone()))
    )
    try:
        return [*encoder.hidden(rows), inputs[-1]]
    finally:
        handle.remove()


def _sample_ids(encoder: HuggingFaceEncoder) -> Tensor:
    return torch.from_numpy(encoder.tokenize(_SAMPLE).ids).long()[None].to(encoder.device)


class _CallAfterBlocks(NamedTuple):
    path: str
    module: Module
    read: ModuleCall


def _watch(encoder: HuggingFaceEncoder) -> ModelEnding:
    """Watch a run twice: which modules are the blocks, then what runs after the last of them."""
    model, ids = encoder.model, _sample_ids(encoder)
    with torch.no_grad(), attention_by(model, None):
        watched = watch_blocks(model, given(model, ids))
        output = watched.reads[-1].output if watched.reads else None
        if watched.path is None or output is None or watched.final is None:
            raise _cannot_tell(encoder)
        calls = _calls_after(model, ids, watched.path)
        chain = _chain(output, watched.final, calls)
        if chain is None:
            raise _cannot_tell(encoder)
        ending = ModelEnding(tuple(call.module for call in chain), tuple(call.path for call in chain))
        try:
            remade = ending(output)
        except (TypeError, RuntimeError) as error:
            raise _cannot_tell(encoder) from error
        last = watched.final if encoder.anatomy.shifted else watched.hidden[-1].to(output.device)
        if max(apart(remade, watched.final), apart(remade, last)) > TOLERANCE[model.dtype] / 100:
            raise _cannot_tell(encoder)
    return ending


def _calls_after(model: Module, ids: Tensor, blocks: str) -> list[_CallAfterBlocks]:
    """The calls of modules outside the blocks that began after the last block, in order."""
    calls: list[_CallAfterBlocks] = []
    ended: list[bool] = []

    def note(path: str):
        def hook(module: Module, args: tuple[object, ...], named: dict[str, object], output: object) -> None:
            read = states_in((*args, *named.values()), ids.shape)
            if read is not None and ended:
                calls.append(_CallAfterBlocks(path, module, ModuleCall(read, states_in(output, ids.shape))))

        return hook

    def after_block(*_: object) -> None:
        # A block that runs again (ALBERT's are one module) was not the last one.
        calls.clear()
        ended.append(True)

    inside = f"{blocks}."
    handles = []
    for path, module in model.named_modules():
        if path.startswith(inside):
            if path.removeprefix(inside).isdigit():
                handles.append(module.register_forward_hook(after_block))
        elif path and not inside.startswith(f"{path}."):
            handles.append(module.register_forward_hook(note(path), with_kwargs=True))
    try:
        model(**given(model, ids))  # pyright: ignore[reportArgumentType]
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _chain(start: Tensor, end: Tensor, calls: list[_CallAfterBlocks]) -> list[_CallAfterBlocks] | None:
    """The fewest calls, each reading what the one before made, that lead from one tensor to another."""
    reached: list[tuple[Tensor, list[_CallAfterBlocks]]] = [(start, [])]
    # Grows while it is read: shorter chains come first.
    for states, chain in reached:
        if apart(states, end) <= SAME:
            return chain
        used = {id(call) for call in chain}
        for call in calls:
            output = call.read.output
            if output is not None and id(call) not in used and apart(call.read.given, states) <= SAME:
                reached.append((output, [*chain, call]))
    return None


def _cannot_tell(encoder: HuggingFaceEncoder) -> ModelError:
    return ModelError(
        f"{encoder.name} ({type(encoder.model).__name__}): what it does between its last block and its head is not "
        "known, so its inner layers cannot be put through the head; the lens is for models whose last states are made "
        "of the last block's by modules of their own (a final norm)"
    )

"""Layers that are kept as they are, or begin anew, when a model is fine-tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.layer_weights import layer_weights, set_weights, weights_of
from lamina.errors import InputError
from lamina.training.recipes import Plan

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def refuse_layers(encoder: HuggingFaceEncoder, *, freeze: int | None, reset: int) -> None:
    """Raise an InputError for layers that the model does not have, or that could never learn."""
    if freeze is not None and freeze > encoder.blocks:
        raise InputError(f"freeze: {encoder.name} has the layers 0 to {encoder.blocks}; got {freeze}")
    if reset > encoder.blocks:
        raise InputError(f"reset: {encoder.name} has {encoder.blocks} blocks; got {reset}")
    if reset and freeze is not None and freeze > encoder.blocks - reset:
        raise InputError(
            f"freeze and reset: layer {freeze} would be drawn anew and could not learn; with --reset {reset}, freeze "
            f"at most {encoder.blocks - reset}"
        )


def prepare_layers(model: PreTrainedModel, encoder: HuggingFaceEncoder, plan: Plan) -> None:
    """Freeze and draw anew what a plan says, in a model with a head that was made from the encoder.

    New weights are those of the encoder's random twin with the plan's seed. The head, and a pooler that it reads, are
    always trained.
    """
    if plan.freeze is None and not plan.reset:
        return
    layers = layer_weights(encoder)
    if plan.reset:
        names = [name for own in layers[-plan.reset :] for name in own]
        set_weights(model, weights_of(encoder.random_twin(plan.seed), names))
    for name in [name for own in layers[: 0 if plan.freeze is None else plan.freeze + 1] for name in own]:
        model.base_model.get_parameter(name).requires_grad_(False)


def layers_in_words(plan: Plan, encoder: HuggingFaceEncoder) -> str:
    """What a plan does with layers, to be added to its other settings; nothing where all are trained as they are."""
    frozen = "" if plan.freeze is None else f", layers 0 to {plan.freeze} frozen"
    return frozen + (f", layers from {encoder.blocks - plan.reset + 1} on drawn anew" if plan.reset else "")

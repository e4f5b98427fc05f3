"""Weights in 8 bits: what quantisation of a model's linear layers takes away, on any machine.

As torch's dynamic quantisation does it on CPU, every row of a linear layer's weights (one output) has a scale of its
own and 255 values, symmetric around 0. The rounded weights are computed with in float32, so that everything that can be
asked of a model can be asked of the rounded one; activations are not rounded. Embeddings, norms and biases stay, and so
does an output layer that shares its weights with the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

INT8 = "int8"
"""The precision by its name."""
_LARGEST = 127


def rounded(weight: Float[Tensor, "output input"]) -> Float[Tensor, "output input"]:
    """Each row in steps of its largest value divided by 127.

    Example:
        >>> rounded(torch.tensor([[1.27, 0.004], [0.0, 0.0]])).tolist()
        [[1.2699999809265137, 0.0], [0.0, 0.0]]
    """
    scale = weight.abs().amax(1, keepdim=True) / _LARGEST
    steps = torch.where(scale > 0, weight / torch.where(scale > 0, scale, torch.ones_like(scale)), 0)
    return steps.round().clamp(-_LARGEST, _LARGEST) * scale


def round_weights(model: PreTrainedModel) -> int:
    """Round the weights of a model's linear layers in place; how many layers there were."""
    embeddings = model.get_input_embeddings()
    shared = getattr(embeddings, "weight", None)
    layers = 0
    with torch.no_grad():
        for module in model.modules():
            weight = getattr(module, "weight", None)
            # GPT-2 has its linear layers the other way round.
            turned = type(module).__name__ == "Conv1D"
            if weight is None or weight is shared or not (isinstance(module, torch.nn.Linear) or turned):
                continue
            weight.copy_(rounded(weight.T).T if turned else rounded(weight))
            layers += 1
    return layers

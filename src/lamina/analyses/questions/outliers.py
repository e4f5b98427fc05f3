"""Tokens whose vectors are of another size than all others.

Decoders (GPT-2, Llama and their kin) give the first token, and now and then another one that carries no meaning,
activations hundreds of times as large as the rest: whatever is fitted with it shows that token and nothing else.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float

TIMES = 10.0
"""A token is an outlier at a layer where its vector is more than so many times as long as the text's median one.

Measured on SQuAD: the longest vectors of MiniLM and MPNet are at most 4 times the median, those of SmolLM2 are below 3
in most layers and 5 to 11 in layers 3 to 9; its first token is at 14 to 184 in layers 12 to 29.
"""


def ordinary(states: Float[torch.Tensor, "token layer width"]) -> Bool[torch.Tensor, "token layer"]:
    """Where a token is no outlier.

    Example:
        >>> states = torch.ones(4, 2, 3)
        >>> states[0, 1] *= 100
        >>> ordinary(states)[0].tolist()
        [True, False]
    """
    lengths = states.norm(dim=-1)
    return lengths <= TIMES * lengths.median(0).values

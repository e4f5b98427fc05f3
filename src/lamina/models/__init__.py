"""Words -> hidden states, attention maps and scores; with training/, the only folder that imports transformers."""

from lamina.models.contract import SPECIAL, Activations, Encoder, Tokens
from lamina.models.loading import load_encoder

__all__ = ["SPECIAL", "Activations", "Encoder", "Tokens", "load_encoder"]

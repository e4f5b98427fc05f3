"""Words -> vectors and attention maps; with training/, the only folder that imports transformers."""

from lamina.encoders.contract import SPECIAL, Activations, Encoder, Tokens
from lamina.encoders.loading import load_encoder

__all__ = ["SPECIAL", "Activations", "Encoder", "Tokens", "load_encoder"]

"""Words to vectors and maps: the only folder that knows transformers."""

from lamina.encoders.contract import SPECIAL, Activations, Encoder, Tokens
from lamina.encoders.loading import load_encoder

__all__ = ["SPECIAL", "Activations", "Encoder", "Tokens", "load_encoder"]

"""How an encoder is made again in another process, where it was not loaded by name (`models.loading.ByName`).

The encoder made there has the same fingerprint; the worker checks it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lamina.errors import ModelError
from lamina.models.contract import Encoder

if TYPE_CHECKING:
    from torch import Tensor

    from lamina.models.running.tokens import InputFormat


class EncoderLoader(Protocol):
    """Loads an encoder, in any process."""

    def make(self, device: str) -> Encoder:
        """The encoder, on a device of this process."""
        ...


@dataclass(frozen=True)
class ByWeights:
    """A transformers model in memory: a random-weights twin, a model given as an object."""

    architecture: type
    config: Any
    weights: dict[str, Tensor] = field(repr=False)
    tokenizer: Any
    name: str
    limit: int
    reading: InputFormat

    def make(self, device: str) -> Encoder:
        """See `EncoderLoader.make`."""
        import torch

        from lamina.models.running.huggingface import HuggingFaceEncoder

        model = self.architecture(self.config)
        dtype = next((tensor.dtype for tensor in self.weights.values() if tensor.is_floating_point()), torch.float32)
        torch.nn.Module.to(model, dtype=dtype)
        # What an encoder does without, such as the pooler, is not sent and is dropped again.
        model.load_state_dict(self.weights, strict=False)
        model.to(device)
        return HuggingFaceEncoder(model, self.tokenizer, name=self.name, limit=self.limit, reading=self.reading)


@dataclass(frozen=True)
class WithDropout:
    """A `DropoutEncoder`."""

    base: EncoderLoader
    seed: int

    def make(self, device: str) -> Encoder:
        """See `EncoderLoader.make`."""
        from lamina.models.running.variants import DropoutEncoder

        base: Any = self.base.make(device)
        return DropoutEncoder(base, self.seed)


@dataclass(frozen=True)
class WithLexicalFirst:
    """A `LexicalFirst`."""

    base: EncoderLoader

    def make(self, device: str) -> Encoder:
        """See `EncoderLoader.make`."""
        from lamina.models.running.variants import LexicalFirst

        return LexicalFirst(self.base.make(device))


@dataclass(frozen=True)
class RandomTwin:
    """The twin of an encoder that draws its own, such as an ELMo."""

    base: EncoderLoader
    seed: int
    keep_embeddings: bool

    def make(self, device: str) -> Encoder:
        """See `EncoderLoader.make`."""
        return self.base.make(device).random_twin(self.seed, keep_embeddings=self.keep_embeddings)


@dataclass(frozen=True)
class AsItIs:
    """An encoder that needs nothing of transformers: word vectors, or one of your own."""

    encoder: Encoder = field(repr=False)

    def make(self, device: str) -> Encoder:
        """See `EncoderLoader.make`."""
        return self.encoder


def loader_of(encoder: Encoder) -> EncoderLoader:
    """How to make an encoder in another process.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> tiny = TinyEncoder()
        >>> loader_of(tiny).make("cpu").fingerprint == tiny.fingerprint
        True
    """
    from lamina.models.running.devices import is_spread
    from lamina.models.running.huggingface import HuggingFaceEncoder
    from lamina.models.running.variants import DropoutEncoder, LexicalFirst

    if isinstance(encoder, LexicalFirst):
        return WithLexicalFirst(loader_of(encoder._base))
    if isinstance(encoder, DropoutEncoder):
        return WithDropout(loader_of(encoder._base), encoder._seed)
    if isinstance(encoder, HuggingFaceEncoder):
        if is_spread(encoder.model):
            raise ModelError(
                f"{encoder.name} is spread over several devices, and a worker has one; leave --engine out, or choose a "
                "--dtype in which it fits one device"
            )
        return encoder.loader or _by_weights(encoder)
    return encoder.loader or AsItIs(encoder)


def _by_weights(encoder: Any) -> ByWeights:
    model = encoder.model
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    config, reading = copy.deepcopy(model.config), encoder.reading
    return ByWeights(type(model), config, weights, encoder.tokenizer, encoder.name, encoder.limit, reading)

"""A few short texts, encoded in several ways; the checks of a passport compare the runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from lamina.errors import ModelError
from lamina.models.contract import SHARE, TOLERANCE, Activations, Encoder, apart
from lamina.types import Text


def _text(name: str, words: str) -> Text:
    return Text(name, tuple(words.split()))


PLAIN = _text("plain", "the quick fox and the lazy dogs barked at nobody .")
TURNED = _text("turned", "the lazy dogs barked at nobody . quick fox and the")
"""As long as the plain one, in other words."""
LONGER = _text("longer", f"{' '.join(PLAIN.words)} while the rain fell on the old river bank all night long .")
SHORT = _text("short", "who barked")
CHANGED = (3, 6, 10)
"""Words from which on the plain text is replaced, to see what depends on them ..."""
_OTHERS = _text("others", "rain fell on old river bank all night long who far").words
"""... and what it is replaced by."""


class EncoderTrial:
    """The runs of one encoder, each made when it is first needed."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.texts = {text.id: self._fitting(text) for text in (PLAIN, TURNED, LONGER, SHORT)}

    def _fitting(self, text: Text) -> Text:
        """The text without its last words where the model takes fewer tokens."""
        words = text.words
        # The longer text stays longer than the plain one.
        limit = self.encoder.limit if text is LONGER else self.encoder.limit - 3
        while len(words) > 1 and len(self.encoder.tokenize(Text(text.id, words)).ids) > limit:
            words = words[:-1]
        return Text(text.id, words)

    @cached_property
    def dtype(self) -> torch.dtype:
        """The precision of the computation."""
        model = getattr(self.encoder, "model", None)
        return self.encoder.dtype if model is None else model.dtype

    @property
    def bar(self) -> float:
        """The relative error up to which two runs agree."""
        return TOLERANCE[self.dtype]

    def apart(self, one: Tensor, other: Tensor) -> float:
        """How far vectors [layer, token, width], or rows of maps, are apart, relative to their norms."""
        return apart(one, other, SHARE.get(self.dtype, 1.0))

    def differ(self, one: Activations, other: Tensor) -> float:
        """How far the states of a text are from others [token, layer, width]."""
        return self.apart(by_layer(states_of(one)), by_layer(other))

    @cached_property
    def alone(self) -> dict[str, Tensor]:
        """The states [token, layer, width] of the plain text and the short one, each on its own."""
        return {name: states_of(self.encode([self.texts[name]])[0]) for name in ("plain", "short")}

    @cached_property
    def maps(self) -> dict[str, Tensor]:
        """The maps [block, head, token, token] of the plain text and the short one, each on its own."""
        return {name: maps_of(self.encode([self.texts[name]], maps=True)[0]) for name in ("plain", "short")}

    @cached_property
    def has_maps(self) -> bool:
        """Whether there are maps to look at."""
        return bool(self.encoder.heads and self.encoder.map_blocks)

    def encode(self, texts: Sequence[Text], *, maps: bool = False) -> list[Activations]:
        """The encoder's states, or its maps."""
        return list(self.encoder.encode(texts, ("maps",) if maps else ("states",)))

    def changed(self, start: int) -> Text:
        """The plain text with other words from word `at` on."""
        words = self.texts["plain"].words
        return Text(f"changed {start}", (*words[:start], *_OTHERS[: len(words) - start]))


def states_of(activations: Activations) -> Tensor:
    """The states that were asked for."""
    if activations.states is None:
        raise ModelError(f"{activations.text!r}: states were requested but are missing")
    return activations.states


def maps_of(activations: Activations) -> Tensor:
    """The maps that were asked for."""
    if activations.maps is None:
        raise ModelError(f"{activations.text!r}: maps were requested but are missing")
    return activations.maps


def by_layer(states: Tensor) -> Tensor:
    """[layer, token, width]"""
    return states.transpose(0, 1)

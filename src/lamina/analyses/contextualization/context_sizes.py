"""Words with only so many words around them: each distinct window is encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.activations import StoredActivations
from lamina.analyses.contextualization.representations import gather
from lamina.analyses.contextualization.words_in_context import WordsInContext
from lamina.encoders import Encoder
from lamina.types import Span, Text


class Windows(NamedTuple):
    """The windows of several sizes around every occurrence, size after size."""

    whole: tuple[Text, ...]
    """Texts that are some window from end to end; encoded already."""
    cut: tuple[Text, ...]
    """All other windows, each once."""
    text: np.ndarray
    """[size * occurrence] Among `whole`, then `cut`."""
    spans: tuple[Span, ...]
    """[size * occurrence] The occurrence within its window."""


def windows(data: WordsInContext, sizes: Sequence[int]) -> Windows:
    """`size` words before the occurrence, the occurrence, `size` words after it: as far as its text goes."""
    cut: dict[tuple[str, ...], int] = {}
    numbers, spans = [], []
    for size in sizes:
        for text, span in zip(data.text.tolist(), data.spans, strict=True):
            words = data.texts[text].words
            start, end = max(0, span.start - size), min(len(words), span.end + size)
            whole = end - start == len(words)
            number = text if whole else len(data.texts) + cut.setdefault(words[start:end], len(cut))
            numbers.append(number)
            spans.append(span.shift(-start))
    made = tuple(Text(f"window {number}", words) for words, number in cut.items())
    return Windows(data.texts, made, np.array(numbers), tuple(spans))


def window_vectors(
    encoder: Encoder,
    data: WordsInContext,
    sizes: Sequence[int],
    *,
    stored: StoredActivations | None = None,
    bag: bool = False,
) -> dict[int, Float[torch.Tensor, "layer occurrence width"]]:
    """Every occurrence at every layer, the model having seen the window alone; by size.

    Windows that are a whole text are read from `stored`, where given. Vectors are kept as precisely as those.
    """
    seen = windows(data, sizes)
    texts = (*seen.whole, *seen.cut)
    if stored is None:
        made, dtype = encoder.encode(texts, ordered=False), torch.float16
    else:
        made = chain(iter(stored), encoder.encode(seen.cut, ordered=False))
        # Where the store had to keep float32, half of it would not do here either.
        dtype = torch.float16 if stored.token_bytes == 2 * encoder.layers * encoder.width else torch.float32
    flat = gather(made, texts, seen.text, seen.spans, encoder, bag=bag, dtype=dtype)
    by_size = flat.view(encoder.layers, len(sizes), len(data.spans), encoder.width)
    return {size: by_size[:, at] for at, size in enumerate(sizes)}

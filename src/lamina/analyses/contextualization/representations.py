"""Vectors of words: what a model makes of them in their contexts, and what knows no context."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.activations import Runtime, StoredActivations
from lamina.analyses.contextualization.words_in_context import WordsInContext
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import SPECIAL, Activations, Encoder, load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.static import StaticEncoder, train_skipgram
from lamina.errors import ModelError
from lamina.progress import progress
from lamina.types import Span, Text

RANDOM_WIDTH = 300
"""Of N(0, I) and of skip-gram vectors, as in the paper."""


@dataclass(frozen=True, eq=False)
class Representation:
    """Rows of vectors that are probed alike: one per layer."""

    name: str
    """What tables call it."""
    layers: tuple[int | None, ...]
    """[row] None where there are no layers."""
    vectors: Float[torch.Tensor, "row item width"]
    of_types: bool = False
    """Whether an item is a word, whatever its contexts, or an occurrence."""


def as_corpus(texts: Sequence[Text]) -> Corpus:
    """Texts of words, to be encoded."""
    return Corpus(
        name="words in context",
        split="all",
        unit="sentence",
        scheme="",
        fingerprint=fingerprint_of([text.words for text in texts]),
        source=lambda: iter(texts),
    )


def contextual(encoder: Encoder, data: WordsInContext, runtime: Runtime) -> tuple[Representation, StoredActivations]:
    """Every layer of the model, and the stored activations it comes from."""
    stored = runtime.extract(encoder, as_corpus(data.texts))
    vectors = gather(stored, data.texts, data.text, data.spans, encoder)
    return Representation(encoder.name, tuple(range(encoder.layers)), vectors), stored


def averaged(whole: Representation, data: WordsInContext, name: str) -> Representation:
    """One vector per word: the mean over all its contexts, layer by layer."""
    owner = torch.from_numpy(data.word)
    counts = torch.bincount(owner, minlength=len(data.words)).unsqueeze(1)
    sums = torch.zeros(len(whole.layers), len(data.words), whole.vectors.shape[2])
    for row, vectors in enumerate(whole.vectors):
        sums[row].index_add_(0, owner, vectors.float())
    return Representation(name, whole.layers, sums / counts, of_types=True)


def without_context(
    encoder: Encoder, data: WordsInContext, texts: Iterable[Text], vectors: Sequence[str], seed: int
) -> list[tuple[Encoder, Representation]]:
    """One vector per word: static vectors, skip-gram trained on `texts`, N(0, I), the model's input embeddings.

    Each with the encoder that gives it, for bags of the same vectors.
    """
    encoders: list[Encoder] = [load_encoder(name) for name in vectors]
    encoders += [train_skipgram(texts, width=RANDOM_WIDTH, seed=seed), random_vectors()]
    if isinstance(encoder, HuggingFaceEncoder):
        encoders.append(encoder.lexical())
    return [(each, averaged(_in_place(each, data), data, name_of(each))) for each in encoders]


def bags(encoders: Iterable[Encoder], data: WordsInContext) -> list[Representation]:
    """P-: the word is the mean of all vectors of its text, its own among them."""
    made = []
    for each in encoders:
        texts = _as_seen(each, data.texts)
        vectors = gather(each.encode(texts, ordered=False), texts, data.text, data.spans, each, bag=True)
        made.append(Representation(f"P-{name_of(each)}", (None,), vectors))
    return made


def random_vectors() -> StaticEncoder:
    """N(0, I): a vocabulary without words, in which every word is unknown and drawn by its letters."""
    return StaticEncoder(["\0"], np.zeros((1, RANDOM_WIDTH), np.float32), name="random")


def name_of(encoder: Encoder) -> str:
    """What a table calls vectors without context.

    Example:
        >>> name_of(random_vectors())
        'random'
    """
    return encoder.name.replace(" (lexical)", " input")


def _in_place(encoder: Encoder, data: WordsInContext) -> Representation:
    texts = _as_seen(encoder, data.texts)
    vectors = gather(encoder.encode(texts, ordered=False), texts, data.text, data.spans, encoder)
    return Representation(name_of(encoder), (None,), vectors)


def _as_seen(encoder: Encoder, texts: Sequence[Text]) -> Sequence[Text]:
    """Random and skip-gram vectors belong to lower-cased words; others are looked up as written first."""
    if encoder.name not in ("random", "skip-gram"):
        return texts
    return [replace(text, words=tuple(word.lower() for word in text.words), edges={}) for text in texts]


def gather(
    made: Iterable[Activations],
    texts: Sequence[Text],
    text_of: np.ndarray,
    spans: Sequence[Span],
    encoder: Encoder,
    *,
    bag: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Float[torch.Tensor, "layer occurrence width"]:
    """The mean of each occurrence's pieces (`bag`: of all pieces of its text), at every layer.

    `made` may come in any order; nothing but the wanted vectors is kept.
    """
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(text_of.tolist()):
        wanted[texts[text].id].append(number)
    vectors = torch.zeros(encoder.layers, len(spans), encoder.width, dtype=dtype)
    with progress(f"words of {encoder.name}", len(texts)) as advance:
        for each in made:
            words, states = each.tokens.words, each.states
            for number in wanted.pop(each.text, ()):
                inside = words != SPECIAL if bag else (words >= spans[number].start) & (words < spans[number].end)
                if states is not None:
                    vectors[:, number] = states[torch.from_numpy(inside)].float().mean(0)
            advance()
    _check(vectors, encoder)
    return vectors


def _check(vectors: torch.Tensor, encoder: Encoder) -> None:
    if not torch.isfinite(vectors).all():
        raise ModelError(f"{encoder.name} gave vectors with values that are not numbers; look at its weights or file")


def unknown_words(encoders: Iterable[Encoder], data: WordsInContext) -> Counter[str]:
    """How many words of the data each file of vectors lacks: they are drawn from N(0, I)."""
    lacking: Counter[str] = Counter()
    for each in encoders:
        if isinstance(each, StaticEncoder) and each.name != "random":
            spoken = (each.tokenize(Text(word, tuple(word.split()))) for word in data.words)
            lacking[f"words that {each.name} lacks, drawn from N(0, I)"] = sum(own.unknown > 0 for own in spoken)
    return lacking


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

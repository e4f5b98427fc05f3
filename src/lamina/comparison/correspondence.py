"""Which layers and heads of two models of any shape correspond: CKA of every pair of layers, and the best match of
every head by how much two heads attend to the same words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.heads.look import sink_words, to_words
from lamina.comparison.similarity import word_vectors
from lamina.models import Encoder
from lamina.types import Text

MOST_WORDS = 500
"""Kernel matrices are of words by words, one per layer."""


class ReadTexts(NamedTuple):
    """What a model makes of some texts, word by word."""

    kernels: Float[torch.Tensor, "layer word word"]
    """Dot products of the vectors of all words, without the diagonal."""
    maps: tuple[Float[torch.Tensor, "head word other"], ...]
    """Attention between the words of each text, heads of block 1 first; to sinks and to a word itself it is 0. Empty
    for a model without maps."""
    sinks: tuple[int, ...]
    """Words that are sinks, of all words: a decoder's first word of each text, whose vectors are of another size."""
    blocks: int
    heads: int
    causal: bool

    def pack(self) -> bytes:
        """As bytes, for another process; attention is rounded to half precision."""
        size = self.kernels.shape[1]
        arrays: dict[str, Any] = {"kernels": self.kernels[:, *np.triu_indices(size, 1)].numpy()}
        arrays["about"] = np.array([size, self.blocks, self.heads, self.causal])
        arrays["sinks"] = np.array(self.sinks, int)
        arrays |= {f"map{number}": maps.half().numpy() for number, maps in enumerate(self.maps)}
        file = BytesIO()
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def unpack(cls, packed: bytes) -> ReadTexts:
        """What `pack` gave.

        Example:
            >>> from lamina.testing import TinyEncoder
            >>> reading = read_texts(TinyEncoder(), [Text("a", ("Dogs", "chase", "old", "cats", "."))])
            >>> torch.allclose(ReadTexts.unpack(reading.pack()).kernels, reading.kernels)
            True
        """
        with np.load(BytesIO(packed), allow_pickle=False) as arrays:
            size, blocks, heads, causal = arrays["about"].tolist()
            kernels = torch.zeros(len(arrays["kernels"]), size, size)
            rows, columns = np.triu_indices(size, 1)
            kernels[:, rows, columns] = kernels[:, columns, rows] = torch.from_numpy(arrays["kernels"])
            names = [name for name in arrays.files if name.startswith("map")]
            maps = tuple(torch.from_numpy(arrays[name]).float() for name in names)
            sinks = tuple(arrays["sinks"].tolist())
        return cls(kernels, maps, sinks, blocks, heads, bool(causal))


def some_texts(texts: Iterable[Text], *, shortest: int = 4, longest: int = 30) -> list[Text]:
    """The first texts of readable length, `MOST_WORDS` words together at most.

    Example:
        >>> [text.id for text in some_texts([Text("a", ("Hi",)), Text("b", ("Dogs", "chase", "cats", "."))])]
        ['b']
    """
    chosen: list[Text] = []
    left = MOST_WORDS
    for text in texts:
        if shortest <= len(text.words) <= longest:
            left -= len(text.words)
            if left < 0:
                break
            chosen.append(text)
    return chosen


def read_texts(encoder: Encoder, texts: Sequence[Text]) -> ReadTexts:
    """Read some texts with one model; see `some_texts` for how many."""
    read = list(encoder.encode(texts, ("states", "maps") if encoder.has_maps else ("states",)))
    kernels = []
    for layer in range(encoder.layers):
        vectors, _ = word_vectors(read, layer)
        # Of scaled vectors: CKA does not change, and squares of large activations stay within float32.
        vectors = vectors / vectors.norm(dim=1).mean().clamp(min=1e-12)
        kernels.append((vectors @ vectors.T).fill_diagonal_(0))
    maps, sinks, start = [], [], 0
    for text, activations in zip(texts, read, strict=True):
        sinks += [start + word for word in sink_words(activations.tokens, causal=encoder.causal_maps)]
        start += len(text.words)
    for activations in read if encoder.has_maps else ():
        if activations.maps is None:
            continue
        between, _ = to_words(activations.maps, activations.tokens.words)
        hidden = torch.eye(between.shape[-1], dtype=torch.bool)
        hidden[:, sink_words(activations.tokens, causal=encoder.causal_maps)] = True
        maps.append(between.float().masked_fill(hidden, 0).flatten(0, 1))
    return ReadTexts(
        torch.stack(kernels), tuple(maps), tuple(sinks), encoder.blocks, encoder.heads, encoder.causal_maps
    )


def layer_matrix(one: ReadTexts, other: ReadTexts) -> Float[np.ndarray, "layer layer"]:
    """Debiased linear CKA of every layer of one model with every layer of the other, on the same words without sinks.

    1 for spaces that differ by rotation and scale, about 0 for unrelated ones.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> reading = read_texts(TinyEncoder(), [Text("a", ("Dogs", "chase", "old", "cats", ".", "Why", "?"))])
        >>> matrix = layer_matrix(reading, reading)
        >>> matrix.shape, matrix.diagonal().round(6).tolist()
        ((3, 3), [1.0, 1.0, 1.0])
    """
    words = [word for word in range(one.kernels.shape[1]) if word not in {*one.sinks, *other.sinks}]
    one, other = (side._replace(kernels=side.kernels[:, words][:, :, words]) for side in (one, other))
    spread = [torch.stack([_hsic(kernel, kernel) for kernel in side.kernels]) for side in (one, other)]
    both = torch.stack([torch.stack([_hsic(kernel, beside) for beside in other.kernels]) for kernel in one.kernels])
    scale = (spread[0].clamp(min=0)[:, None] * spread[1].clamp(min=0)[None]).sqrt()
    return torch.where(scale > 0, both / scale, torch.nan).numpy()


def _hsic(k: Float[torch.Tensor, "word word"], m: Float[torch.Tensor, "word word"]) -> torch.Tensor:
    """The unbiased estimate (Song et al. 2012), of kernel matrices without their diagonals."""
    n = len(k)
    rows_k, rows_m = k.sum(1, dtype=torch.double), m.sum(1, dtype=torch.double)
    trace = (k * m).sum(dtype=torch.double)
    beside = rows_k.sum() * rows_m.sum() / ((n - 1) * (n - 2))
    return (trace + beside - 2 * (rows_k @ rows_m) / (n - 2)) / (n * (n - 3))


class HeadMatch(NamedTuple):
    """A head of one model, and the head of the other that attends most alike."""

    head: str
    """LAYER-HEAD, from 1."""
    match: str
    overlap: float
    """Of the two, on texts that did not choose the match."""
    others: float
    """The mean over all heads of the other model, on the same texts."""
    agrees: bool
    """Whether both halves of the texts choose the same match."""
    mutual: bool
    """Whether the match's own best match is this head."""


def match_heads(one: ReadTexts, other: ReadTexts) -> list[HeadMatch]:
    """For every head of one model the head of the other with the largest overlap (Bhattacharyya coefficient) of
    attention between words: 1 where both attend to the same words alike, 0 where they share none.

    Each half of the texts chooses matches that the other half scores; both are pooled. Where a model looks back only,
    both are compared on earlier words. Without maps, or with one text, there are no matches.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> texts = [Text(str(at), ("Dogs", "chase", "old", "cats", ".")) for at in range(4)]
        >>> reading = read_texts(TinyEncoder(), texts)
        >>> all(match.match == match.head for match in match_heads(reading, reading))
        True
    """
    directed = one.causal or other.causal
    if min(len(one.maps), len(other.maps)) < 2:
        return []
    halves, rows = [], []
    for half in (0, 1):
        sums, count = torch.zeros(len(one.maps[0]), len(other.maps[0])), 0
        for a, b in list(zip(one.maps, other.maps, strict=True))[half::2]:
            left, right = _roots(a, directed=directed), _roots(b, directed=directed)
            sums += left @ right.T
            # A word with nothing before it has no row.
            count += a.shape[1] - directed
        halves.append(sums)
        rows.append(count)
    scores = [sums / max(count, 1) for sums, count in zip(halves, rows, strict=True)]
    both = (halves[0] + halves[1]) / max(sum(rows), 1)
    best, back = both.argmax(1), both.argmax(0)
    chosen = [scores[half].argmax(1) for half in (0, 1)]
    every = torch.arange(len(both))
    # Scored on the half that did not choose.
    overlap = (halves[1][every, chosen[0]] + halves[0][every, chosen[1]]) / max(sum(rows), 1)
    return [
        HeadMatch(
            _name(head, one.heads),
            _name(int(best[head]), other.heads),
            float(overlap[head]),
            float(both[head].mean()),
            bool(chosen[0][head] == chosen[1][head]),
            bool(back[best[head]] == head),
        )
        for head in range(len(both))
    ]


def _roots(maps: Float[torch.Tensor, "head word other"], *, directed: bool) -> Float[torch.Tensor, "head weight"]:
    """Square roots of rows that sum to 1: their products are overlaps."""
    weights = maps.tril(-1) if directed else maps
    sums = weights.sum(-1, keepdim=True)
    return torch.where(sums > 0, weights / sums.clamp(min=1e-12), 0).sqrt().flatten(1)


def _name(head: int, heads: int) -> str:
    return f"{head // heads + 1}-{head % heads + 1}"

"""Intervals of sums over texts that stream past: memory does not grow with the corpus."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Real

from lamina.types import Text

DRAWS = ("measure", "layer", "sample", "value")
"""Columns of `draws`: what pairs models whose measures are no sums over texts, or would be large text by text."""
_KEYS, _TEXTS = 128, 1024
"""Keys, and texts, whose sums are held until they are weighed together ..."""
_HELD = 2**22
"""... and numbers in these sums: where there are many of them, fewer keys are held."""
_REMEMBERED = 1024
"""Keys whose weights are remembered: several sums of one pass draw the same documents."""
_DRAWS = 2**16
"""Equally likely draws that a weight is looked up by: its chances are right to 1 in 65,536."""


def _poisson_table() -> np.ndarray:
    """[draw] The Poisson(1) weight of each draw."""
    below = np.cumsum([math.exp(-1) / math.factorial(weight) for weight in range(12)])
    return np.searchsorted(below, (np.arange(_DRAWS) + 0.5) / _DRAWS).astype(np.float32)


_WEIGHTS = _poisson_table()


@lru_cache(maxsize=_REMEMBERED)
def weights_of(key: str, *, samples: int, seed: int) -> Float[np.ndarray, " sample"]:
    """How often each bootstrap sample draws the text or document of this key: Poisson(1), the same on every call.

    Example:
        >>> weights_of("s1", samples=8, seed=0).tolist() == weights_of("s1", samples=1000, seed=0)[:8].tolist()
        True
    """
    digest = hashlib.blake2b(f"{seed}:{key}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    # A counter-based generator: its key says all, so there is no state that depends on what was drawn before.
    drawn = np.random.Philox(key=int.from_bytes(digest, "big")).random_raw(-(-samples // 4))
    weights = _WEIGHTS[drawn.astype("<u8").view("<u2")[:samples]]
    weights.flags.writeable = False
    return weights


class StreamedBootstrap:
    """Sums over texts, and the same sums over texts drawn with replacement, kept up to date text by text.

    Every text weighs Poisson(1) in every sample: the bootstrap of a stream, whose length is not known beforehand
    (Chamandy et al. 2012). The weights follow from the seed and the text's key alone, so that the order of texts
    changes nothing beyond rounding; texts of one key (a document's) are drawn together. Ratios of sums are means;
    take them of `value` and of `samples` alike.

    Example:
        >>> sums = StreamedBootstrap(2, samples=500, seed=0)
        >>> for text, hits in (("a", 1), ("b", 0), ("c", 1), ("d", 1)):
        ...     sums.add(np.array([hits, 1]), text)
        >>> sums.value.tolist(), sums.samples.shape
        ([3.0, 4.0], (500, 2))
    """

    def __init__(self, size: int, *, samples: int, seed: int) -> None:
        self._seed = seed
        self._samples = torch.zeros(samples, size)
        self._value = torch.zeros(size, dtype=torch.float64)
        # Texts of one key are drawn together, so they are summed first.
        self._held = torch.zeros(max(8, min(_KEYS, _HELD // size)), size, dtype=torch.float64)
        self._rows: dict[str, int] = {}
        self._texts = 0

    def add(self, values: Real[np.ndarray, " size"], key: str) -> None:
        """One text's part of every sum; `key` is what is drawn: the text's id, or its document's."""
        self.add_all(torch.as_tensor(values)[None], [key])

    def add_all(self, values: Real[torch.Tensor, "text size"], keys: Sequence[str]) -> None:
        """Several texts' parts; they stay on the device that they are on, and so do the sums from then on."""
        self._move(values.device)
        most = len(self._held)
        for start in range(0, len(keys), most):
            some = keys[start : start + most]
            if len(self._rows.keys() | set(some)) > most or self._texts >= _TEXTS:
                self._weigh()
            rows = [self._rows.setdefault(key, len(self._rows)) for key in some]
            at = torch.tensor(rows, device=values.device)
            self._held.index_add_(0, at, values[start : start + most].double())
            self._texts += len(some)

    @property
    def value(self) -> Float[np.ndarray, " size"]:
        """The sums themselves."""
        self._weigh()
        return self._value.cpu().numpy()

    @property
    def samples(self) -> Float[np.ndarray, "sample size"]:
        """The sums over resampled texts."""
        self._weigh()
        return self._samples.cpu().numpy()

    def _move(self, device: torch.device) -> None:
        if self._held.device != device:
            self._samples, self._value, self._held = (
                each.to(device) for each in (self._samples, self._value, self._held)
            )

    def _weigh(self) -> None:
        if not self._rows:
            return
        held = self._held[: len(self._rows)]
        drawn = np.stack([weights_of(key, samples=len(self._samples), seed=self._seed) for key in self._rows])
        self._value += held.sum(0)
        self._samples.addmm_(torch.from_numpy(drawn).to(held.device).T, held.float())
        held.zero_()
        self._rows.clear()
        self._texts = 0


CHOOSING, SCORED = 0, 1
"""The two halves."""


@dataclass(frozen=True)
class Halves:
    """Which half a text belongs to."""

    choosing: frozenset[str]
    """The documents (or texts) that choose."""
    by: str
    """What is never torn apart: document or text."""

    def of(self, text: Text) -> int:
        """`CHOOSING` or `SCORED`."""
        return CHOOSING if (document_of(text) if self.by == "document" else text.id) in self.choosing else SCORED


def document_of(text: Text) -> str:
    """The document a text comes from; the text itself where that is not known."""
    return text.doc or text.id


@dataclass(frozen=True)
class Unit:
    """What is drawn with replacement: documents, since texts of one are alike, or texts."""

    by: Literal["document", "text"]

    def of(self, text: Text) -> str:
        """The key of a text's weights in bootstrap samples."""
        return document_of(text) if self.by == "document" else text.id


BY_DOCUMENT, BY_TEXT = Unit("document"), Unit("text")


def unit_of(texts: Iterable[Text]) -> Unit:
    """Documents; texts where there is one document only, which cannot be resampled.

    Example:
        >>> unit_of([Text("a", ("word",), doc="d"), Text("b", ("word",), doc="d")]).by
        'text'
    """
    documents: set[str] = set()
    for text in texts:
        documents.add(document_of(text))
        if len(documents) > 1:
            return BY_DOCUMENT
    return BY_TEXT


def halve(texts: Iterable[Text], seed: int) -> Halves:
    """Cut a corpus in two by document, in an order drawn by hash; by text where there is one document only.

    The scored half is the larger one where the number is odd, and the whole of a corpus of one text.

    Example:
        >>> texts = [Text(str(i), ("word",), doc=f"d{i // 2}") for i in range(8)]
        >>> halves = halve(texts, seed=0)
        >>> [halves.of(text) for text in texts].count(SCORED), halves.of(texts[0]) == halves.of(texts[1])
        (4, True)
    """
    # Dictionaries keep what they are given once, in order.
    documents: dict[str, None] = {}
    ids: list[str] = []
    for text in texts:
        documents.setdefault(document_of(text))
        if len(documents) < 2:
            ids.append(text.id)
    by, names = ("document", list(documents)) if len(documents) > 1 else ("text", ids)
    drawn = sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    return Halves(frozenset(drawn[: len(drawn) // 2]), by)


def intervals(
    hits: Real[np.ndarray, " sample *kinds"], counts: Real[np.ndarray, " sample"]
) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of `hits / counts` over samples; not available where no sample drew anything.

    Example:
        >>> low, high = intervals(np.array([[1.0], [2.0], [0.0]]), np.array([2.0, 2.0, 0.0]))
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([0.5125], [0.9875])
    """
    drawn = counts > 0
    if not drawn.any():
        return np.full(hits.shape[1:], np.nan), np.full(hits.shape[1:], np.nan)
    shares = hits[drawn] / counts[drawn].reshape(-1, *[1] * (hits.ndim - 1))
    low, high = np.quantile(shares, [0.025, 0.975], axis=0)
    return np.asarray(low), np.asarray(high)


def draws_table(drawn: Mapping[str, Float[np.ndarray, "sample layer"]], layers: Sequence[int]) -> pd.DataFrame:
    """Measures in every bootstrap sample, as a table that is kept with the result.

    Which texts a sample draws follows from the seed and the texts alone, so that sample 7 of one model and sample 7 of
    another are of the same texts: the difference of the two is a draw of the paired difference.

    Example:
        >>> draws_table({"entropy": np.array([[0.5, 0.25]])}, [1, 2]).values.tolist()
        [['entropy', 1, 0, 0.5], ['entropy', 2, 0, 0.25]]
    """
    tables = []
    for measure, values in drawn.items():
        layer, sample = np.indices(values.T.shape)
        numbers = {"layer": np.asarray(layers, np.int16)[layer.ravel()], "sample": sample.ravel().astype(np.int32)}
        tables.append(pd.DataFrame({"measure": measure, **numbers, "value": values.T.ravel().astype(np.float32)}))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(DRAWS))

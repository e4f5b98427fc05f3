"""The shape of each layer's space: how alike are words in general, in other contexts, in one sentence?

After Ethayarajh (2019), with exact means over all pairs where the original drew a sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.activations import ReadActivations, Runtime
from lamina.activations.reading import WordVectors, sum_rows
from lamina.analyses.declaration import Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator
from lamina.analyses.inputs import Texts
from lamina.analyses.legacy import finding
from lamina.analyses.settings import Samples, Seed, Setting, Twin
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.findings import Finding, layers_in_words, rows_of
from lamina.progress import progress
from lamina.results import Result
from lamina.stats.bootstrap import DRAWS, draws_table

_AT_ONCE = 100
"""Bootstrap samples computed together, to bound memory."""
_WORDS_AT_ONCE = 2**14
"""Words whose product matrices are computed together."""


PAIRED = (
    "anisotropy",
    "self_similarity_adjusted",
    "intra_similarity_adjusted",
    "max_explainable_variance_adjusted",
)
"""Measures that models are compared by."""


class _Words(NamedTuple):
    """The words of a corpus, without their vectors."""

    lengths: list[int]
    """Words of each text."""
    type_of: torch.Tensor
    """[word] The frequent type a word occurrence belongs to; -1 for rare ones."""
    rare_types: int


class _Samples(NamedTuple):
    """A measure at one layer: its value, and its value in each bootstrap sample."""

    value: float
    spread: np.ndarray


@analysis(
    title="Geometry of the layers",
    question="How are a layer's word vectors spread, and how much of a vector comes from the word's context?",
    method=(
        "A word is the mean of its pieces, special tokens left out; at each layer we take the mean cosine of "
        "words from different texts (anisotropy), of the occurrences of one lower-cased word type "
        "(self-similarity) and of words with their text's mean (intra-sentence similarity), and how much of a "
        "word type's occurrences one static vector could explain (maximum explainable variance). Adjusted "
        "similarities subtract the layer's anisotropy, adjusted explainable variance that of as many random words; "
        "95 % intervals are bootstrapped over texts or word types, and the twin with random weights shows what the "
        "architecture does before any training."
    ),
    cites=("Ethayarajh 2019",),
    reads=Texts(),
    # Explainable variance has its baseline beside it (2). All layers and models see the same draws (3).
    version=3,
    tables={
        "layers": Table("One row per model, layer and measure.", "model, layer, measure, value, low, high"),
        "draws": Table(
            "One row per measure that models are compared by, layer and bootstrap sample (not of the twin): what "
            "`compare` pairs models by.",
            DRAWS,
            kept="parquet",
        ),
    },
    chapter="layers",
    takes=26,
    report={"samples": 1000},
    example="lamina geometry minilm --corpus ewt --split dev --out results/geometry",
)
def geometry(
    encoder: Encoder,
    corpus: Corpus,
    *,
    samples: Samples = 1000,
    min_count: Annotated[int, Setting("Occurrences a word type needs.", min=2)] = 5,
    twin: Twin = True,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """Anisotropy, self-similarity, intra-sentence similarity and maximum explainable variance by layer.

    - `anisotropy`: mean cosine of two words from different texts, over all such pairs.
    - `self_similarity`: mean cosine of two occurrences of the same word, averaged over words.
    - `intra_similarity`: mean cosine of a word with the mean of its text, averaged over texts.
    - `..._adjusted`: the same minus the layer's anisotropy.
    - `max_explainable_variance`: share of the first singular value (squared) in the occurrences of a word,
      averaged over words.
    - `max_explainable_variance_baseline`: the same for as many words drawn at random from the whole corpus; the
      fewer there are, the larger is any first share. `..._adjusted` is the difference, word by word.

    A word is the mean of its pieces, special tokens left out. Word types are lower-cased and need
    `min_count` occurrences. Intervals (95 %) resample texts for anisotropy and intra-similarity, and word
    types for self-similarity and explainable variance.
    """
    words = _count_words(corpus, min_count)
    rows, skipped = [], {}
    drawn: dict[str, list[np.ndarray]] = {}
    encoders = [encoder]
    if twin and encoder.blocks:
        encoders.append(encoder.random_twin(seed))
    for each in encoders:
        stored = runtime.extract(each, corpus)
        skipped |= _left_out(each, stored)
        with progress(f"geometry of {each.name}", each.layers) as advance:
            vectors = WordVectors(stored, words.lengths)
            type_of = words.type_of.to(vectors.text.device)
            for layer in range(each.layers):
                found = _measures(vectors.layer(layer), vectors.text, type_of, samples, seed)
                rows += _rows(each.name, layer, found)
                if each is encoder:
                    for measure in PAIRED:
                        drawn.setdefault(measure, []).append(found[measure].spread)
                advance()
    skipped |= {
        f"word types with fewer than {min_count} occurrences": words.rare_types,
        "texts of one word, without intra-sentence similarity": words.lengths.count(1),
    }
    kept = {measure: np.stack(each, axis=1) for measure, each in drawn.items() if all(map(len, each))}
    tables = {
        "layers": pd.DataFrame(rows, columns=list(geometry.tables["layers"].columns)),
        "draws": draws_table(kept, range(encoder.layers)),
    }
    units = {"texts": len(words.lengths), "word types": int(words.type_of.max()) + 1}
    return Tables(tables, skipped, data={"drawn": units})


_EXTREMES = {
    "self_similarity_adjusted": (
        False,
        "Two occurrences of a word are least alike at layer {layer}{tied}: mean cosine",
    ),
    "anisotropy": (True, "Two words of different texts are most alike at layer {layer}{tied}: mean cosine"),
    "max_explainable_variance_adjusted": (
        False,
        "One static vector per word explains least at layer {layer}{tied}: a share of the variance",
    ),
}
"""Measure -> whether its largest value is told (else its smallest), and how."""
_ABOVE = {
    "self_similarity_adjusted": " above that of different texts",
    "max_explainable_variance_adjusted": " above that of as many random words",
}
"""Measure -> what was subtracted."""


@geometry.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Where a word's occurrences differ most and where all words are most alike, beside the twin."""
    table = result.tables["layers"].dropna(subset=["value", "low", "high"])
    model = result.provenance.model["name"]
    for measure, (largest, text) in _EXTREMES.items():
        rows = list(rows_of(table[(table["measure"] == measure) & (table["layer"] > 0)]))
        own = [row for row in rows if row.model == model]
        if not own:
            continue
        best = (max if largest else min)(own, key=lambda row: row.value)
        tied = [row.layer for row in own if row.layer != best.layer and row.low <= best.high and best.low <= row.high]
        said = text.format(
            layer=best.layer, tied=f" (not clearly more so than {layers_in_words(tied)})" if tied else ""
        )
        said += f" {{number}}{_ABOVE.get(measure, '')}"
        twin = next((row for row in rows if row.model != model and row.layer == best.layer), None)
        beside = "no likeness would be {against}" if twin is None else "the random-weights twin has {against}"
        against, interval = (0.0, None) if twin is None else (twin.value, (twin.low, twin.high))
        yield finding(f"{said}; {beside}.", best.value, best.low, best.high, against, interval)


@geometry.costs
def _cost(estimator: Estimator, encoder: Encoder, _: Corpus, *, twin: bool, **__: object) -> Cost:
    """One layer of all words is held in float32, and its unit vectors beside it."""
    return estimator.trial(passes=1 + (twin and encoder.blocks > 0), grows=3 * 4 * encoder.width)


def _count_words(corpus: Corpus, min_count: int) -> _Words:
    spoken, lengths = [], []
    for text in corpus:
        spoken += [word.lower() for word in text.words]
        lengths.append(len(text.words))
    if len(lengths) < 2:
        raise CorpusError(f"{corpus.name}: geometry compares words of different texts and needs at least 2 of them")
    counts = Counter(spoken)
    frequent = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n >= min_count))}
    return _Words(lengths, torch.tensor([frequent.get(word, -1) for word in spoken]), len(counts) - len(frequent))


def _measures(
    vectors: Float[torch.Tensor, "word width"], text: torch.Tensor, type_of: torch.Tensor, samples: int, seed: int
) -> dict[str, _Samples]:
    """All measures of one layer."""
    # Of the seed alone: all layers of all models see the same draws, so that differences are paired.
    rng = np.random.default_rng(seed)
    unit = torch.nn.functional.normalize(vectors, dim=1)
    alike, intra = _across_and_within_texts(vectors, unit, text, rng, samples)
    self_similarity, explained, by_chance, gain = _within_types(vectors, unit, type_of, rng, samples, seed)
    return {
        "anisotropy": alike,
        "self_similarity": self_similarity,
        "intra_similarity": intra,
        "self_similarity_adjusted": _minus(self_similarity, alike),
        "intra_similarity_adjusted": _minus(intra, alike),
        "max_explainable_variance": explained,
        "max_explainable_variance_baseline": by_chance,
        "max_explainable_variance_adjusted": gain,
    }


def _rows(model: str, layer: int, measures: Mapping[str, _Samples]) -> Iterator[tuple]:
    for measure, (value, spread) in measures.items():
        # A sample that drew one text again and again, or texts of one word only, has no pair to measure.
        measured = spread[np.isfinite(spread)]
        low, high = np.quantile(measured, [0.025, 0.975]) if len(measured) else (np.nan, np.nan)
        yield model, layer, measure, value, float(low), float(high)


def _across_and_within_texts(
    vectors: torch.Tensor, unit: torch.Tensor, text: torch.Tensor, rng: np.random.Generator, samples: int
) -> tuple[_Samples, _Samples]:
    """Anisotropy and intra-sentence similarity, resampled together over texts.

    The sum of cosines over all pairs of words is the squared length of the sum of unit vectors, so no
    pair has to be visited; pairs within a text are taken off again.
    """
    count = int(text.max()) + 1
    sizes = torch.bincount(text, minlength=count).double()
    sums = sum_rows(unit, text, count).double()
    means = sum_rows(vectors, text, count)
    cosines = (unit * torch.nn.functional.normalize(means, dim=1)[text]).sum(1).double()
    within = sum_rows(cosines[:, None], text, count)[:, 0] / sizes
    several = (sizes > 1).double()
    own = sums.square().sum(1)

    def measure(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pairs = (weights @ sizes).square() - weights.square() @ sizes.square()
        alike = ((weights @ sums).square().sum(1) - weights.square() @ own) / pairs
        return alike, weights @ (within * several) / (weights @ several)

    drawn = []
    for done in range(0, samples, _AT_ONCE):
        some = rng.multinomial(count, np.full(count, 1 / count), size=min(_AT_ONCE, samples - done))
        drawn.append(measure(torch.from_numpy(some).to(sums)))
    alike, intra = measure(sums.new_ones(1, count))
    spread = [torch.cat(part).cpu().numpy() for part in zip(*drawn, strict=True)] if drawn else [np.empty(0)] * 2
    return _Samples(alike.item(), spread[0]), _Samples(intra.item(), spread[1])


def _within_types(
    vectors: torch.Tensor, unit: torch.Tensor, type_of: torch.Tensor, rng: np.random.Generator, samples: int, seed: int
) -> tuple[_Samples, _Samples, _Samples, _Samples]:
    """Self-similarity, and explainable variance with its baseline and their difference, resampled over word types."""
    frequent = torch.nonzero(type_of >= 0).squeeze(1)
    order = frequent[torch.argsort(type_of[frequent], stable=True)]
    sizes = torch.bincount(type_of[frequent])
    if not len(sizes):
        nothing = _Samples(float("nan"), np.empty(0))
        return nothing, nothing, nothing, nothing
    counts = sizes.double()
    sums = sum_rows(unit[frequent], type_of[frequent], len(sizes)).double()
    similarity = ((sums.square().sum(1) - counts) / (counts * (counts - 1))).cpu().numpy()
    explained = _first_shares(vectors, [rows.numpy() for rows in order.cpu().split(sizes.tolist())])
    by_chance = _first_shares(vectors, list(_random_words(len(vectors), sizes, seed)))
    chosen = rng.integers(len(sizes), size=(samples, len(sizes)))
    each = (similarity, explained, by_chance, explained - by_chance)
    first, second, third, fourth = (_Samples(one.mean().item(), one[chosen].mean(1)) for one in each)
    return first, second, third, fourth


def _random_words(words: int, sizes: torch.Tensor, seed: int) -> Iterator[np.ndarray]:
    """For each word type as many words as it has occurrences; the same at every layer of every model."""
    rng = np.random.default_rng(seed)
    for size in sizes.tolist():
        yield rng.choice(words, size, replace=False)


def _first_shares(vectors: Float[torch.Tensor, "word width"], members: Sequence[np.ndarray]) -> np.ndarray:
    """For each set of words, the largest squared singular value's share of all."""
    shares = np.empty(len(members))
    for some in _of_like_size([len(rows) for rows in members]):
        # Those that are shorter are filled up with zeros, which change no singular value but add some that are 0.
        words = np.zeros((len(some), max(len(members[at]) for at in some)), np.int64)
        there = np.zeros(words.shape, bool)
        for row, at in enumerate(some):
            words[row, : len(members[at])], there[row, : len(members[at])] = members[at], True
        index, kept = (torch.from_numpy(each).to(vectors.device) for each in (words, there))
        shares[some] = _first_share(vectors[index] * kept[..., None]).numpy()
    return shares


def _of_like_size(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of sets of about the same size, that are computed together."""
    some: list[int] = []
    for at in np.argsort(sizes, kind="stable").tolist():
        if some and (sizes[at] > 1.2 * sizes[some[0]] or len(some) * sizes[at] > _WORDS_AT_ONCE):
            yield some
            some = []
        some.append(at)
    if some:
        yield some


def _first_share(occurrences: Float[torch.Tensor, "type occurrence width"]) -> Float[torch.Tensor, " type"]:
    """By way of the smaller of the two product matrices; eigenvalues of small matrices are found sooner on a CPU."""
    wide = occurrences.shape[1] <= occurrences.shape[2]
    product = (occurrences @ occurrences.mT if wide else occurrences.mT @ occurrences).cpu()
    return torch.linalg.eigvalsh(product)[:, -1] / product.diagonal(dim1=1, dim2=2).sum(1)


def _minus(one: _Samples, other: _Samples) -> _Samples:
    both = len(one.spread) and len(other.spread)
    return _Samples(one.value - other.value, one.spread - other.spread if both else np.empty(0))


def _left_out(encoder: Encoder, stored: ReadActivations) -> dict[str, int]:
    return {
        f"{encoder.name}: {encoder.replaced}": stored.unknown,
        f"{encoder.name}: texts longer than the model's limit, encoded in windows": stored.windowed,
    }

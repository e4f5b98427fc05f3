"""The shape of each layer's space: how alike are words in general, in other contexts, in one sentence?

After Ethayarajh (2019), with exact means over all pairs where the original drew a sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.activations import ReadActivations, Runtime
from lamina.activations.reading import WordVectors, sum_rows
from lamina.corpora import Corpus
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import ComparedLayers, LayerMeasure, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import Texts
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import SPECIAL, Encoder
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, number, rows_of, where_best
from lamina.stats.best import best_set
from lamina.stats.bootstrap import DRAWS, draws_table
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import column_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import Units, document_of

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


CONTRASTS = (
    "measure", "layer", "against", "value", "baseline", "difference", "low", "high", "p_adjusted", "units", "needed",
    "p_beaten", "among_best",
)  # fmt: skip
"""Columns of `contrasts`."""


SPECIAL_COLUMNS = (
    "measure", "layer", "value", "low", "high", "against", "baseline", "difference", "diff_low", "diff_high",
    "p_adjusted", "units", "needed",
)  # fmt: skip
"""Columns of `special`."""
WITH, ALIKE, CENTRING = "anisotropy_with", "first_alike", "first_centring"
"""Measures of special tokens."""


class GeometryWords(NamedTuple):
    """The words of a corpus, without their vectors."""

    lengths: list[int]
    """Words of each text."""
    type_of: torch.Tensor
    """[word] The frequent type a word occurrence belongs to; -1 for rare ones."""
    rare_types: int
    texts: Units
    """Documents, or texts where there is one document only."""
    types: Units
    """The frequent word types."""


class DrawnMeasure(NamedTuple):
    """A measure at one layer: its value, and its value in each bootstrap sample."""

    value: float
    draws: Float[np.ndarray, " sample"]


class GeometryWeights(NamedTuple):
    """How often each bootstrap sample draws each unit; the same for all layers and models."""

    texts: Float[np.ndarray, "sample unit"]
    types: Float[np.ndarray, "sample unit"]


@analysis(
    title="Geometry of the layers",
    question="How are a layer's word vectors spread, and how much of a vector comes from the word's context?",
    method=(
        "A word is the mean of its tokens, special tokens left out; at each layer we take the mean cosine of "
        "words from different texts (anisotropy), of the occurrences of one lower-cased word type "
        "(self-similarity) and of words with their text's mean (intra-sentence similarity), and how much of a "
        "word type's occurrences one static vector could explain (maximum explainable variance). Adjusted "
        "similarities subtract the layer's anisotropy, adjusted explainable variance that of as many random words. "
        "95 % intervals resample documents or word types. Each layer is compared with that of the twin with random "
        "weights, which shows what the architecture does before any training (max-T over layers)."
    ),
    cites=("Ethayarajh 2019", "Zhou et al. 2019"),
    reads=Texts(),
    # Explainable variance has its baseline beside it (2). All layers and models see the same draws (3). Documents are
    # resampled, not texts; each layer is tested against the twin's (4).
    version=4,
    tables={
        "layers": Table("One row per model, layer and measure.", "model, layer, measure, value, low, high"),
        "contrasts": Table(
            "One row per measure and layer: the model minus its twin (without a twin: minus 0). Two-sided max-T over "
            "the layers of a measure; low and high are simultaneous. `p_beaten`: that another layer is more extreme "
            "(higher for anisotropy, lower for the others); below .05 the layer is not `among_best`.",
            CONTRASTS,
        ),
        "draws": Table(
            "One row per measure that models are compared by, layer and bootstrap sample (not of the twin): what "
            "`compare` pairs models by.",
            DRAWS,
            format="parquet",
        ),
        "special": Table(
            "One row per measure of special tokens and layer, with --special only: anisotropy_with (of words and "
            "special tokens together, minus that of words), first_alike (mean cosine of the first special tokens of "
            "different texts, [CLS] in BERT, minus that of words) and first_centring (length of their mean divided by "
            "their mean length: 0 where they are centred, 1 where all are one vector; minus the twin's). Two-sided "
            "max-T over the layers of a measure.",
            SPECIAL_COLUMNS,
            optional=True,
        ),
    },
    chapter="layers",
    takes=26,
    report={"samples": 1000},
    compares=ComparedLayers(
        "layers",
        (
            LayerMeasure("anisotropy", "Anisotropy", "mean cosine", ("documents", "texts")),
            LayerMeasure("self_similarity_adjusted", "Adjusted self-similarity", "difference of cosines"),
            LayerMeasure(
                "intra_similarity_adjusted",
                "Adjusted intra-sentence similarity",
                "difference of cosines",
                ("documents", "texts"),
            ),
            LayerMeasure(
                "max_explainable_variance_adjusted",
                "Adjusted explainable variance",
                "share of variance",
                ("word types",),
            ),
        ),
    ),
    example="lamina geometry minilm --corpus ewt --split dev --out results/geometry",
)
def geometry(
    encoder: Encoder,
    corpus: Corpus,
    *,
    samples: Samples = 1000,
    min_count: Annotated[int, Setting("Occurrences a word type needs.", min=2)] = 5,
    special: Annotated[
        bool, Setting("Look at special tokens too: anisotropy with them, and whether the first one is centred.")
    ] = False,
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

    A word is the mean of its tokens, special tokens left out. Word types are lower-cased and need
    `min_count` occurrences. Intervals (95 %) resample documents for anisotropy and intra-similarity, and word
    types for self-similarity and explainable variance.
    """
    words = _count_words(corpus, min_count)
    weights = GeometryWeights(*(units.weights(samples=samples, seed=seed) for units in (words.texts, words.types)))
    skipped: dict[str, int] = {}
    encoders = [encoder]
    if twin and encoder.blocks:
        encoders.append(encoder.random_twin(seed))
    measured: list[list[dict[str, DrawnMeasure]]] = []
    specials: list[list[dict[str, DrawnMeasure]]] = []
    for model in encoders:
        stored = runtime.extract(model, corpus)
        skipped |= _left_out(model, stored)
        with progress(f"geometry of {model.name}", model.layers) as advance:
            vectors = WordVectors(stored, words.lengths)
            first = SpecialVectors(stored, model) if special else None
            layers = []
            of_special: list[dict[str, DrawnMeasure]] = []
            for layer in range(model.layers):
                of_layer = vectors.layer(layer)
                layers.append(_measures(of_layer, vectors.text, words, weights, seed))
                if first is not None:
                    of_special.append(first.measures(layer, of_layer, vectors.text, words.texts, weights.texts))
                advance()
        measured.append(layers)
        specials.append(of_special)
    skipped |= {
        f"word types with fewer than {min_count} occurrences": words.rare_types,
        "texts of one word, without intra-sentence similarity": words.lengths.count(1),
    }
    of_model = {measure: [layer[measure] for layer in measured[0]] for measure in PAIRED}
    draws = {measure: np.stack([layer.draws for layer in by_layer], 1) for measure, by_layer in of_model.items()}
    beside = {measure: [layer[measure] for layer in measured[1]] for measure in PAIRED} if len(measured) > 1 else {}
    rows = [
        row for model, layers in zip(encoders, measured, strict=True) for layer, measures in enumerate(layers)
        for row in _rows(model.name, layer, measures)
    ]  # fmt: skip
    contrasts = [
        layer_contrasts(measure, by_layer, beside.get(measure), _units(measure, words))
        for measure, by_layer in of_model.items()
    ]
    tables = {
        "layers": pd.DataFrame(rows, columns=list(geometry.tables["layers"].columns)),
        "contrasts": pd.concat(contrasts, ignore_index=True),
        "draws": draws_table({name: array for name, array in draws.items() if array.size}, range(encoder.layers)),
    }
    if special:
        tables["special"] = special_table(
            specials[0], measured[0], specials[1] if len(specials) > 1 else None, len(words.texts)
        )
    drawn = {f"{words.texts.kind}s": len(words.texts), "word types": len(words.types)}
    return Tables(tables, skipped, data={"drawn": drawn})


def _units(measure: str, words: GeometryWords) -> int:
    """How many units vary in a measure; the fewer ones where two kinds do."""
    if measure.startswith("max_explainable"):
        return len(words.types)
    return min(len(words.texts), len(words.types)) if measure.startswith("self") else len(words.texts)


def layer_contrasts(
    measure: str, model: Sequence[DrawnMeasure], twin: Sequence[DrawnMeasure] | None, units: int
) -> pd.DataFrame:
    """Every layer of a measure minus the twin's, or minus 0, as one family; and which layers can be the extreme one.

    Args:
        measure: its name; anisotropy is looked at where it is highest, others where they are lowest.
        model: the model's, layer by layer.
        twin: the twin's, on the same draws.
        units: how many units were resampled.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = [DrawnMeasure(value, value + rng.normal(0, 0.01, 400)) for value in (0.8, 0.5)]
        >>> layer_contrasts("self_similarity_adjusted", drawn, None, 50)["among_best"].tolist()
        [False, True]
    """
    values, draws = _side_by_side(model)
    beside, theirs = (np.zeros_like(values), np.zeros_like(draws)) if twin is None else _side_by_side(twin)
    family = bootstrap_family(values - beside, draws - theirs, units, bounds=(-2.0, 2.0))
    best = best_set(values, draws, units, higher=measure == "anisotropy")
    columns = {"measure": measure, "layer": range(len(values)), "against": "zero" if twin is None else "twin"}
    columns |= {"value": values, "baseline": beside, "difference": family.estimate, **family.columns()}
    columns |= {"p_beaten": best.p, "among_best": best.among}
    return pd.DataFrame(columns)[list(CONTRASTS)]


def _side_by_side(
    layers: Sequence[DrawnMeasure],
) -> tuple[Float[np.ndarray, " layer"], Float[np.ndarray, "sample layer"]]:
    return np.array([layer.value for layer in layers]), np.stack([layer.draws for layer in layers], 1)


class SpecialVectors:
    """The special tokens of a list of texts, one layer at a time."""

    def __init__(self, stored: ReadActivations, encoder: Encoder) -> None:
        """An encoder that adds none is refused."""
        tokens = [tokens.words == SPECIAL for tokens in stored.tokenized()]
        if not all(of_text.any() for of_text in tokens):
            raise InputError(f"{encoder.name} adds no special tokens; leave --special out")
        places, owners = np.concatenate(tokens), np.repeat(np.arange(len(tokens)), [len(one) for one in tokens])
        self._stored = stored
        self._tokens, self._text = (torch.from_numpy(part) for part in (np.flatnonzero(places), owners[places]))
        self._first = torch.from_numpy(np.flatnonzero(np.diff(owners[places], prepend=-1)))

    def measures(
        self,
        layer: int,
        words: Float[torch.Tensor, "word width"],
        text: torch.Tensor,
        units: Units,
        weights: Float[np.ndarray, "sample unit"],
    ) -> dict[str, DrawnMeasure]:
        """Anisotropy of words and special tokens, and how alike and how centred the first tokens are."""
        tokens = self._stored.layer(layer)[self._tokens.to(words.device)].float()
        owner, first = self._text.to(words.device), tokens[self._first.to(words.device)]
        of_first = torch.arange(len(first), device=words.device)
        both, whose = torch.cat([words, tokens]), torch.cat([text, owner])
        normal = torch.nn.functional.normalize
        return {
            WITH: _across_and_within_texts(both, normal(both, dim=1), whose, units, weights)[0],
            ALIKE: _across_and_within_texts(first, normal(first, dim=1), of_first, units, weights)[0],
            CENTRING: _centring(first, units, weights),
        }


def _centring(
    vectors: Float[torch.Tensor, "text width"], units: Units, weights: Float[np.ndarray, "sample unit"]
) -> DrawnMeasure:
    """The length of the mean vector divided by the mean length."""
    sums = units.sums(vectors.double().cpu().numpy())
    lengths = units.sums(vectors.double().norm(dim=1).cpu().numpy())
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = np.linalg.norm(weights @ sums, axis=1) / (weights @ lengths)
    return DrawnMeasure(float(np.linalg.norm(sums.sum(0)) / lengths.sum()), draws)


def special_table(
    special: Sequence[Mapping[str, DrawnMeasure]],
    words: Sequence[Mapping[str, DrawnMeasure]],
    twin: Sequence[Mapping[str, DrawnMeasure]] | None,
    units: int,
) -> pd.DataFrame:
    """Measures of special tokens beside those of words, or beside the twin's; layers of a measure are one family."""
    parts = []
    for measure in (WITH, ALIKE, CENTRING):
        values, draws = _side_by_side([layer[measure] for layer in special])
        beside, theirs, against = np.zeros_like(values), np.zeros_like(draws), "zero"
        if measure != CENTRING:
            beside, theirs = _side_by_side([layer["anisotropy"] for layer in words])
            against = "words"
        elif twin is not None:
            beside, theirs = _side_by_side([layer[measure] for layer in twin])
            against = "twin"
        tests = bootstrap_family(values - beside, draws - theirs, units, bounds=(-2.0, 2.0))
        low, high = column_intervals(draws)
        columns = {"measure": measure, "layer": range(len(values)), "value": values, "low": low, "high": high}
        columns |= {"against": against, "baseline": beside, **tests.columns("diff_")}
        parts.append(pd.DataFrame(columns).rename(columns={"diff_estimate": "difference"}))
    return pd.concat(parts, ignore_index=True)[list(SPECIAL_COLUMNS)]


def _special_finding(table: pd.DataFrame, corpus: Mapping[str, Any]) -> Iterator[Finding]:
    """How far from centred the first special tokens are, where they differ most from the twin's."""
    rows = table[table["measure"] == CENTRING].dropna(subset=["value", "difference"])
    if rows.empty:
        return
    # At layer 0 it is one vector by construction, in any model.
    row = next(rows_of(rows.sort_values("difference", key=abs, ascending=False, kind="stable")))
    against = {"twin": "the random-weights twin's", "zero": "0"}[str(row.against)]
    drawn: dict[str, int] = corpus.get("drawn", {})
    kinds = [what for what, count in drawn.items() if count == row.units]
    yield finding(
        claim=f"The first special tokens of texts are not centred: at layer {row.layer} their mean has "
        f"{number(row.value)} of their length; {against} {number(row.baseline)}",
        whether=f"at layer {row.layer} the first special tokens are centred otherwise than {against} (mean of "
        f"{number(row.value)} of their length)",
        absent=f"At layer {row.layer} the first special tokens are as centred as {against}: their mean has "
        f"{number(row.value)} of their length",
        contrast="difference",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=Source("special", {"measure": CENTRING, "layer": row.layer}),
        unit=kinds[0].removesuffix("s") if kinds else "document",
        importance=("answers", "localised"),
    )


class GeometryClaim(NamedTuple):
    """How findings speak of a measure."""

    name: str
    """As sentences call it."""
    less: str
    """What it means that the model has less than its twin."""
    more: str
    extreme: str
    """Which layers are looked for: lowest or highest."""


_CLAIMS = {
    "self_similarity_adjusted": GeometryClaim(
        "self-similarity adjusted for anisotropy",
        "two occurrences of a word are less alike",
        "two occurrences of a word are more alike",
        "lowest",
    ),
    "anisotropy": GeometryClaim(
        "anisotropy", "words of different texts are less alike", "words of different texts are more alike", "highest"
    ),
    "max_explainable_variance_adjusted": GeometryClaim(
        "explainable variance above that of random words",
        "one static vector explains less of a word's occurrences",
        "one static vector explains more of a word's occurrences",
        "lowest",
    ),
}
"""Measure -> how findings speak of it."""


@geometry.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Each measure at its most extreme layer, beside the twin; and which layers can be the most extreme."""
    if "contrasts" not in result.tables:
        return
    table = result.tables["contrasts"].dropna(subset=["value", "difference"])
    for measure, claim in _CLAIMS.items():
        rows = [*rows_of(table[table["measure"] == measure])]
        if len(rows) > 1:
            chosen = (max if claim.extreme == "highest" else min)(rows, key=lambda row: row.value)
            yield _claim(measure, claim, rows, chosen, result.provenance.corpus)
    if "special" in result.tables:
        yield from _special_finding(result.tables["special"], result.provenance.corpus)


def _claim(measure: str, claim: GeometryClaim, rows: Sequence[Any], row: Any, corpus: Mapping[str, Any]) -> Finding:
    there, twin = f"layer {row.layer}", row.against == "twin"
    against = "the random-weights twin" if twin else "0"
    beside = f", twin {number(row.baseline)}" if twin else ""
    best = Source("contrasts", {"measure": measure, "among_best": True})
    where, best_rows = where_best(
        rows, f"it is {claim.extreme} at {{}}", f"no layer was shown to have the {claim.extreme}", source=best
    )
    numbers = f"{claim.name} {number(row.value)}{beside}"
    test = Contrast.of(row, estimate="difference")
    meaning = f"{claim.less if row.difference < 0 else claim.more} than in {against}: {numbers}"
    if not twin:
        meaning = f"the {claim.name} is {number(row.value)}, {'below' if row.difference < 0 else 'above'} 0"
    drawn: dict[str, int] = corpus.get("drawn", {})
    kinds = [what for what, count in drawn.items() if count == test.units]
    return finding(
        claim=f"At {there} {meaning}{where}",
        whether=f"at {there} the {claim.name} differs from {'that of ' * twin}{against}",
        absent=f"At {there} the {claim.name} is {'that of ' * twin}{against}: {numbers}",
        contrast="difference",
        test=test,
        source=[Source("contrasts", {"measure": measure, "layer": row.layer}), *best_rows],
        unit=kinds[0].removesuffix("s") if kinds else "document",
        importance=("answers", "beats control", "localised") if twin else ("answers", "localised"),
        unvarying="it does not vary between the units that are resampled",
    )


@geometry.costs
def _cost(estimator: Estimator, encoder: Encoder, _: Corpus, *, twin: bool, **__: object) -> Cost:
    """One layer of all words is held in float32, and its unit vectors beside it."""
    return estimator.reading(passes=1 + (twin and encoder.blocks > 0), grows=3 * 4 * encoder.width)


def _count_words(corpus: Corpus, min_count: int) -> GeometryWords:
    spoken, lengths, names, known = [], [], [], False
    for text in corpus:
        spoken += [word.lower() for word in text.words]
        lengths.append(len(text.words))
        names.append((text.id, document_of(text)))
        known |= text.doc is not None
    if len(lengths) < 2:
        raise CorpusError(f"{corpus.name}: geometry compares words of different texts and needs at least 2 of them")
    counts = Counter(spoken)
    frequent = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n >= min_count))}
    ids, documents = zip(*names, strict=True)
    texts = Units.of(documents, "document") if known and len(set(documents)) > 1 else Units.of(ids, "text")
    types = Units.of(frequent, "word type")
    type_of = torch.tensor([frequent.get(word, -1) for word in spoken])
    return GeometryWords(lengths, type_of, len(counts) - len(frequent), texts, types)


def _measures(
    vectors: Float[torch.Tensor, "word width"],
    text: torch.Tensor,
    words: GeometryWords,
    weights: GeometryWeights,
    seed: int,
) -> dict[str, DrawnMeasure]:
    """All measures of one layer."""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    alike, intra = _across_and_within_texts(vectors, unit, text, words.texts, weights.texts)
    self_similarity, explained, by_chance, gain = _within_types(vectors, unit, words, weights.types, seed)
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


def _rows(model: str, layer: int, measures: Mapping[str, DrawnMeasure]) -> Iterator[tuple]:
    """Samples that drew one text alone, or texts of one word only, have no pair to measure and are left out."""
    low, high = column_intervals(np.stack([drawn.draws for drawn in measures.values()], 1))
    for column, (measure, (value, _)) in enumerate(measures.items()):
        yield model, layer, measure, value, float(low[column]), float(high[column])


def _across_and_within_texts(
    vectors: torch.Tensor,
    unit: torch.Tensor,
    text: torch.Tensor,
    units: Units,
    weights: Float[np.ndarray, "sample unit"],
) -> tuple[DrawnMeasure, DrawnMeasure]:
    """Anisotropy and intra-sentence similarity, resampled together over documents.

    The sum of cosines over all pairs of words is the squared length of the sum of unit vectors, so no pair has to be
    visited; pairs within a text are taken off again. Of a document that is drawn twice, pairs of its own texts count
    twice, as one does of other pairs.
    """
    count = int(text.max()) + 1
    sizes = torch.bincount(text, minlength=count).double()
    sums = sum_rows(unit, text, count).double()
    means = sum_rows(vectors, text, count)
    cosines = (unit * torch.nn.functional.normalize(means, dim=1)[text]).sum(1).double()
    several = (sizes > 1).double()
    within = sum_rows(cosines[:, None], text, count)[:, 0] / sizes * several
    owner = torch.tensor(units.owner, device=text.device)
    parts = torch.stack([sizes, sizes.square(), sums.square().sum(1), within, several], 1)
    words, own_pairs, own_alike, within, several = sum_rows(parts, owner, len(units)).double().unbind(1)
    sums = sum_rows(sums, owner, len(units)).double()
    inside = sums.square().sum(1)

    def measure(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        squared = weights.square()
        pairs = (weights @ words).square() - squared @ words.square() + weights @ (words.square() - own_pairs)
        alike = (weights @ sums).square().sum(1) - squared @ inside + weights @ (inside - own_alike)
        # A sample that drew one text alone has no pair; sums that cancel are not exactly 0.
        return torch.where(pairs > 0.5, alike / pairs, torch.nan), weights @ within / (weights @ several)

    drawn = [measure(torch.from_numpy(some).to(sums)) for some in np.array_split(weights, -(-len(weights) // _AT_ONCE))]
    alike, intra = measure(sums.new_ones(1, len(units)))
    draws = [torch.cat(part).cpu().numpy() for part in zip(*drawn, strict=True)]
    return DrawnMeasure(alike.item(), draws[0]), DrawnMeasure(intra.item(), draws[1])


def _within_types(
    vectors: torch.Tensor,
    unit: torch.Tensor,
    words: GeometryWords,
    weights: Float[np.ndarray, "sample unit"],
    seed: int,
) -> tuple[DrawnMeasure, DrawnMeasure, DrawnMeasure, DrawnMeasure]:
    """Self-similarity, and explainable variance with its baseline and their difference, resampled over word types."""
    type_of = words.type_of.to(vectors.device)
    frequent = torch.nonzero(type_of >= 0).squeeze(1)
    order = frequent[torch.argsort(type_of[frequent], stable=True)]
    sizes = torch.bincount(type_of[frequent])
    if not len(sizes):
        nothing = DrawnMeasure(float("nan"), np.full(len(weights), np.nan))
        return nothing, nothing, nothing, nothing
    counts = sizes.double()
    sums = sum_rows(unit[frequent], type_of[frequent], len(sizes)).double()
    similarity = ((sums.square().sum(1) - counts) / (counts * (counts - 1))).cpu().numpy()
    explained = _first_shares(vectors, [rows.numpy() for rows in order.cpu().split(sizes.tolist())])
    by_chance = _first_shares(vectors, list(_random_words(len(vectors), sizes, seed)))
    per_type = (similarity, explained, by_chance, explained - by_chance)
    first, second, third, fourth = (drawn_mean(words.types.sums(one), weights) for one in per_type)
    return first, second, third, fourth


def drawn_mean(values: Float[np.ndarray, " unit"], weights: Float[np.ndarray, "sample unit"]) -> DrawnMeasure:
    """A mean over units and its bootstrap draws; NaN where a sample draws none.

    Example:
        >>> drawn_mean(np.array([1.0, 3.0]), np.array([[1.0, 1.0], [0.0, 2.0]])).draws.tolist()
        [2.0, 3.0]
    """
    total = weights.sum(1).astype(float)
    draws = np.divide(weights @ values, total, out=np.full(len(weights), np.nan), where=total > 0)
    return DrawnMeasure(float(values.mean()), draws)


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
        words = np.zeros((len(some), max(len(members[position]) for position in some)), np.int64)
        there = np.zeros(words.shape, bool)
        for row, position in enumerate(some):
            words[row, : len(members[position])], there[row, : len(members[position])] = members[position], True
        index, present = (torch.from_numpy(array).to(vectors.device) for array in (words, there))
        shares[some] = _first_share(vectors[index] * present[..., None]).numpy()
    return shares


def _of_like_size(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of sets of about the same size, that are computed together."""
    some: list[int] = []
    for position in np.argsort(sizes, kind="stable").tolist():
        if some and (sizes[position] > 1.2 * sizes[some[0]] or len(some) * sizes[position] > _WORDS_AT_ONCE):
            yield some
            some = []
        some.append(position)
    if some:
        yield some


def _first_share(occurrences: Float[torch.Tensor, "type occurrence width"]) -> Float[torch.Tensor, " type"]:
    """By way of the smaller of the two product matrices; eigenvalues of small matrices are found sooner on a CPU."""
    wide = occurrences.shape[1] <= occurrences.shape[2]
    product = (occurrences @ occurrences.mT if wide else occurrences.mT @ occurrences).cpu()
    return torch.linalg.eigvalsh(product)[:, -1] / product.diagonal(dim1=1, dim2=2).sum(1)


def _minus(one: DrawnMeasure, other: DrawnMeasure) -> DrawnMeasure:
    return DrawnMeasure(one.value - other.value, one.draws - other.draws)


def _left_out(encoder: Encoder, stored: ReadActivations) -> dict[str, int]:
    return {
        f"{encoder.name}: {encoder.replaced}": stored.unknown,
        f"{encoder.name}: texts longer than the model's limit, encoded in windows": stored.windowed,
    }

"""Which layers distinguish the senses of a word, and how much of its vectors is its position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.activations import Runtime
from lamina.analyses.words.senses.position import (
    BINS,
    DESIGNS,
    FrequentWordPlaces,
    OccurrencePairs,
    WordMovements,
    bin_of,
    chance_share,
    draw_texts,
    explained,
    find_pairs,
    find_places,
    likeness,
    mean_distance,
    movements,
    pair_means,
)
from lamina.analyses.words.senses.predictions import (
    BAGS,
    BEST,
    CONSTANTS,
    DIFFERENCES,
    LAYER_0,
    MOST_FREQUENT,
    SCORED_MAJORITY,
    SENSES,
    TWIN,
    ClusteredWord,
    ClusterMethod,
    PairedHits,
    ResampledRatios,
    SenseAgreement,
    SenseRow,
    SenseScores,
    WordMeans,
    agreement,
    best_rows,
    chosen_clusters,
    clusters_of,
    drawn_rows,
    paired_rows,
    predict_across,
    predict_within,
    words_to_cluster,
)
from lamina.analyses.words.senses.targets import (
    SenseTargets,
    SpanVectors,
    averaged_contexts,
    bag_name,
    bag_of,
    read_targets,
    static_encoders,
)
from lamina.corpora import Splits
from lamina.errors import InputError
from lamina.framework.declare import ComparedLayers, LayerMeasure, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import TrainedTexts
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, number, percent, rows_of, where_best
from lamina.stats.intervals import interval
from lamina.stats.status import Contrast
from lamina.training.provenance import folder_of, used_texts
from lamina.types import Text

WORDS = ("word", "layer", "senses", "train", "scored", "most_frequent", "value", "ami")
POSITION = ("model", "layer", "counted_from", "place", "words", "similarity", "low", "high")
_TWIN_DESIGNS = ("both", "inner")
"""Shares that are measured in the twin too."""


@analysis(
    title="Word senses and position",
    question="At which layer do a word's vectors distinguish its senses, and how much of them is the word's position?",
    method=(
        "The sense of a word in a scored text is that of its nearest training occurrences by cosine (k nearest "
        "neighbours, and nearest centroid), among occurrences of the same word; words with one sense in training get "
        "it, unseen words the most frequent sense of all. Baselines are each word's best constant answer, the same "
        "neighbours over averaged static vectors of the words around it (in windows, and in the whole text), and the "
        "twin with random weights. A word's occurrences are clustered and compared with the senses by adjusted mutual "
        "information. Position is the share of the variance within a word that places explain in unseen documents, "
        "and how far vectors move when the same sentence is encoded further on. Differences are paired by scored "
        "document (clusters and pairs: by word) and corrected by max-T; 95 % intervals."
    ),
    cites=("Wiedemann et al. 2019", "Reif et al. 2019", "Mickus et al. 2020"),
    reads=TrainedTexts(),
    # Windows of words as bags, the harder constant answer, families by max-T, enough starts of k-means (2).
    version=2,
    tables={
        "senses": Table(
            "One row per layer and measure; no layer for static vectors (`NAME.wK`: of K words on each side, `NAME`: "
            "of the whole text) and constant answers. Baseline: what the measure is compared with (most frequent "
            "sense; clusters: shuffled senses; position: shuffled places; near: far; moved: the twin).",
            SENSES,
        ),
        "differences": Table(
            "One row per layer, measure and what it is compared with. All rows of one measure and `family` are "
            "corrected together (two-sided max-T, simultaneous intervals): neighbours by sign flips of documents, "
            "clusters by bootstrap over words, position by bootstrap over documents. No layer: the layer chosen on "
            "other documents.",
            DIFFERENCES,
        ),
        "best": Table(
            "One row per measure and layer. `p_beaten`: that another layer is higher; below .05 the layer is not "
            "`among_best`.",
            BEST,
        ),
        "words": Table("One row per layer and ambiguous word that is scored; ami where it was clustered.", WORDS),
        "position": Table(
            "One row per model, layer and place: cosine of a word there with the mean of its other occurrences.",
            POSITION,
        ),
    },
    chapter="words",
    compares=ComparedLayers(
        "senses",
        (
            LayerMeasure("ami", "Clusters of occurrences and senses", "adjusted mutual information", ability=True),
            LayerMeasure("knn1.ambiguous", "Senses by the nearest neighbour", "accuracy", ability=True),
            LayerMeasure("knn5.ambiguous", "Senses by five neighbours", "accuracy", ability=True),
            LayerMeasure("position.both", "Position in the sentence", "share of variance"),
        ),
        draws="",
    ),
    example="lamina senses minilm --corpus ewt --texts 1000 --out results/senses",
)
def senses(
    encoder: Encoder,
    splits: Splits,
    *,
    annotation: Annotated[
        Sequence[str] | None,
        Setting("The annotations that have the senses; by default sense, sclass or supersense, whichever is there."),
    ] = None,
    k: Annotated[Sequence[int], Setting("Neighbours that vote; findings are about the first number.", min=1)] = (5, 1),
    vectors: Annotated[
        Sequence[str],
        Setting("Static vectors to compare with: skip-gram, input, an asset such as glove, or a file.", file=True),
    ] = ("skip-gram", "input"),
    windows: Annotated[
        Sequence[int],
        Setting(
            "Words on each side of the word in windowed bags of static vectors, in addition to the whole text.", min=1
        ),
    ] = (1, 2, 4, 8),
    texts: Annotated[
        int | None,
        Setting("Approximate number of training texts, as whole documents drawn at random; all by default.", min=2),
    ] = None,
    clustering: Annotated[ClusterMethod, Setting("How a word's occurrences are clustered.")] = "kmeans",
    clustered: Annotated[int, Setting("Words to cluster, the most frequent first.", min=0)] = 60,
    moved: Annotated[int, Setting("Sentences to encode again at other positions.", min=0)] = 200,
    moved_by: Annotated[int, Setting("Positions that they are shifted by.", min=1)] = 20,
    faithful: Annotated[
        bool, Setting("Keep k within the occurrences of the word's rarest sense (Wiedemann et al. 2019).")
    ] = False,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """Word senses by nearest neighbours, clusters of senses, and the share of position, at every layer.

    - `knnK.ambiguous`, `knnK.all`: accuracy of the K nearest neighbours, of words with several senses in training and
      of all words. `centroid.*`: of the nearest mean of a sense. `acrossK.all`: neighbours are other words only.
    - `chosen.ambiguous`: accuracy at the layer that the other half of the documents finds best.
    - `ami`, `ami.silhouette`: agreement of clusters with senses, as many clusters as senses or by silhouette;
      `ami.stability`: of clusters from other starts with each other (adjusted Rand index).
    - `position.*`: share of the variance within words that places explain. `near`: cosine at the same place.
    - `moved.*`: squared distance a word moves, as a share of that between two of its occurrences.
    - `twin.*`, `skip-gram.*`, `skip-gram.w1.*`, `input.*`: the same of the twin, of bags of static vectors of the
      whole text, and of the words up to K away.
    - `most_frequent.ambiguous`, `scored_majority.ambiguous`: always each word's most frequent sense in training, and
      in the other half of the scored documents.

    Example:
        >>> result = lamina.senses("minilm", "streusle", annotation=["supersense_prep"])  # doctest: +SKIP
        >>> result.tables["senses"].columns.tolist()  # doctest: +SKIP
        ['layer', 'measure', 'value', 'low', 'high', 'baseline']
    """
    if not k:
        raise InputError("senses: name at least one number of neighbours, such as --k 5")
    ks = tuple(dict.fromkeys(k))
    folder = folder_of(encoder)
    used = frozenset() if folder is None else used_texts(folder)
    data = read_targets(splits, annotation, most=texts, used=used, seed=seed)
    skipped = Counter(data.skipped)
    study = _SenseStudy(
        data, ks, clustering, faithful, samples, seed, _about(encoder, data, clustered, moved, moved_by, seed)
    )
    of_model = study.model(encoder, runtime, skipped)
    beside = study.twin(encoder.random_twin(seed), runtime) if twin and encoder.blocks else None
    static = {
        bag: predicted
        for name, vectors_encoder in static_encoders(encoder, data, vectors, skipped, seed)
        for bag, predicted in study.static(name, vectors_encoder, windows, skipped)
    }
    return study.tables(encoder, of_model, beside, static, skipped)


@senses.costs
def _cost(estimator: Estimator, encoder: Encoder, _: Splits, *, twin: bool, **__: Any) -> Cost:
    """One layer of all tokens is read at a time."""
    return estimator.reading(passes=1 + (twin and encoder.blocks > 0), grows=2 * 4 * encoder.width)


class _SenseInputs(NamedTuple):
    """Clustered words, places, pairs and texts, besides the targets."""

    words: list[ClusteredWord]
    places: FrequentWordPlaces
    pairs: OccurrencePairs
    moving: list[Text]
    by: int
    """Positions that sentences are shifted by."""


def _about(encoder: Encoder, data: SenseTargets, clustered: int, moved: int, by: int, seed: int) -> _SenseInputs:
    return _SenseInputs(
        words_to_cluster(data, most=clustered, seed=seed),
        find_places(data.texts, data.units, encoder, seed=seed),
        find_pairs(data, seed=seed),
        draw_texts(data.texts, moved, seed),
        by,
    )


class _ModelSenses:
    """Measurements of one model, layer by layer."""

    def __init__(self) -> None:
        self.rows: list[SenseRow] = []
        self.right: list[np.ndarray] = []
        """[layer] Which scored targets the first k gets right."""
        self.by_word: list[dict[int, float]] = []
        """[layer] Word -> agreement of its clusters."""
        self.agreements: list[list[SenseAgreement]] = []
        """[layer] Of each clustered word."""
        self.position: list[tuple] = []
        self.shares: dict[str, list[np.ndarray]] = {}
        """Design -> [layer] By document: squared errors, those of shuffled places, and squared distances."""
        self.apart: list[float] = []
        """[layer] Mean squared distance of two occurrences of a word."""
        self.moved: dict[str, WordMovements] = {}


class _SenseStudy:
    """The same measurements for the model, its twin and static vectors."""

    def __init__(
        self,
        data: SenseTargets,
        ks: tuple[int, ...],
        clustering: ClusterMethod,
        faithful: bool,
        samples: int,
        seed: int,
        about: _SenseInputs,
    ) -> None:
        self.data, self.ks, self.faithful = data, ks, faithful
        self.clustering: ClusterMethod = clustering
        self.samples, self.seed, self.about = samples, seed, about
        self.scores = SenseScores(data, samples=samples, seed=seed)
        names = [data.units[text] for text in about.places.text]
        self._places = ResampledRatios.of(names, self.scores.units.kind, samples=samples, seed=seed)
        sizes = np.array([len(word.rows) for word in about.words])
        clustered = [data.words[word.word] for word in about.words]
        self._words_clustered = WordMeans(clustered, sizes, samples=samples, seed=seed)

    @property
    def main(self) -> str:
        """The measure that findings are about."""
        return f"knn{self.ks[0]}"

    def model(self, encoder: Encoder, runtime: Runtime, skipped: Counter[str]) -> _ModelSenses:
        """All measurements, of every layer."""
        return self._with_moves(self._layers(encoder, runtime, prefix="", skipped=skipped), encoder, skipped)

    def twin(self, encoder: Encoder, runtime: Runtime) -> _ModelSenses:
        """The same of the untrained twin. It skips what the model skips, so nothing is counted again."""
        return self._with_moves(
            self._layers(encoder, runtime, prefix=f"{TWIN}.", skipped=Counter()), encoder, Counter()
        )

    def static(
        self, name: str, encoder: Encoder, windows: Sequence[int], skipped: Counter[str]
    ) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        """Predictions by the words of the text, and by those around the word, whatever their order."""
        for window, bags in averaged_contexts(encoder, self.data, windows, skipped):
            yield bag_name(name, window), predict_within(self.data, bags, self.ks, capped=self.faithful)

    def _layers(self, encoder: Encoder, runtime: Runtime, *, prefix: str, skipped: Counter[str]) -> _ModelSenses:
        data, about, model_senses = self.data, self.about, _ModelSenses()
        stored = runtime.extract(encoder, data.corpus)
        skipped["words without a token, replaced by the unknown token"] += stored.unknown
        skipped["texts longer than the model's limit, encoded in windows"] += stored.windowed
        targets = SpanVectors(stored, data.text, data.spans)
        places = SpanVectors(stored, about.places.text, about.places.spans) if len(about.places) else None
        with progress(f"senses in {encoder.name}", encoder.layers) as advance:
            for layer in range(encoder.layers):
                tokens = stored.layer(layer)
                vectors = targets.of(tokens)
                at_places = None if places is None else places.of(tokens)
                del tokens  # the largest of all
                self._senses(model_senses, layer, vectors, prefix)
                self._clusters(model_senses, layer, vectors, prefix)
                if not prefix:
                    self._near(model_senses, layer, vectors)
                if at_places is not None:
                    self._position(model_senses, layer, at_places, prefix, encoder.name)
                advance()
        return model_senses

    def _senses(
        self, model_senses: _ModelSenses, layer: int, vectors: Float[torch.Tensor, "target width"], prefix: str
    ) -> None:
        predicted = predict_within(self.data, vectors, self.ks, capped=self.faithful)
        model_senses.right.append(self.data.right(predicted[self.main]))
        if not self.data.own_labels:
            predicted |= predict_across(self.data, vectors, self.ks)
        model_senses.rows += self.scores.rows(layer, predicted, prefix)

    def _clusters(
        self, model_senses: _ModelSenses, layer: int, vectors: Float[torch.Tensor, "target width"], prefix: str
    ) -> None:
        words = self.about.words
        model_senses.by_word.append({})
        if not words:
            return
        from threadpoolctl import threadpool_limits

        kinds: dict[str, list[SenseAgreement]] = {"ami": []} | ({} if prefix else {"ami.silhouette": []})
        stability = []
        # With few vectors, threads would only wait for each other.
        with threadpool_limits(1):
            for word in words:
                vectors_of_word = vectors[word.rows].cpu().numpy()
                groups = {"ami": clusters_of(vectors_of_word, int(word.senses.max()) + 1, self.clustering, self.seed)}
                stability.append(groups["ami"].stability)
                if not prefix:
                    groups["ami.silhouette"] = chosen_clusters(vectors_of_word, self.clustering, self.seed)
                for name, clusters in groups.items():
                    kinds[name].append(agreement(clusters.of, word.senses, seed=(self.seed, word.word)))
                model_senses.by_word[-1][word.word] = kinds["ami"][-1].ami
        model_senses.agreements.append(kinds["ami"])
        mean, sizes = self._words_clustered.mean, np.array([len(word.rows) for word in words])
        for name, agreements in kinds.items():
            null = sizes @ np.stack([agreed.null for agreed in agreements]) / sizes.sum()
            values = mean(np.array([agreed.ami for agreed in agreements]))
            model_senses.rows.append(SenseRow(layer, f"{prefix}{name}", *values, float(null.mean())))
            if not prefix:
                model_senses.rows.append(SenseRow(layer, f"{name}.null", float(null.mean()), *interval(null), 0.0))
        if not prefix:
            model_senses.rows.append(SenseRow(layer, "ami.stability", *mean(np.array(stability)), 0.0))

    def _near(self, model_senses: _ModelSenses, layer: int, vectors: Float[torch.Tensor, "target width"]) -> None:
        if not len(self.about.pairs.first):
            return
        words, means = pair_means(self.about.pairs, vectors)
        names = [self.data.words[word] for word in words]
        over_words = WordMeans(names, np.ones(len(words)), samples=self.samples, seed=self.seed)
        for name, values, beside in (
            ("near", means[:, 0], float(means[:, 1].mean())),
            ("near_minus_far", means[:, 0] - means[:, 1], 0.0),
        ):
            model_senses.rows.append(SenseRow(layer, name, *over_words.mean(values), beside))

    def _position(
        self,
        model_senses: _ModelSenses,
        layer: int,
        vectors: Float[torch.Tensor, "place width"],
        prefix: str,
        name: str,
    ) -> None:
        places = self.about.places
        sums = self._places.units.sums
        for design in _TWIN_DESIGNS if prefix else DESIGNS:
            share, shuffled = explained(places, vectors, design), chance_share(places, vectors, design)
            missing = np.isnan(share.value)
            parts = np.stack([sums(part) for part in (share.error, shuffled.error, share.total)])
            model_senses.shares.setdefault(design, []).append(np.full_like(parts, np.nan) if missing else parts)
            _, low, high = self._places.ratio(share.total - share.error, share.total)
            numbers = [float("nan")] * 4 if missing else [share.value, low, high, shuffled.value]
            model_senses.rows.append(SenseRow(layer, f"{prefix}position.{design}", *numbers))
        model_senses.apart.append(mean_distance(places, vectors))
        alike = likeness(places, vectors)
        for counted_from, where in (("start", places.start), ("end", places.end)):
            bins = bin_of(where)
            for bin_number, place in enumerate(BINS):
                in_bin = bins == bin_number
                if in_bin.any():
                    likely = self._places.ratio(alike * in_bin, in_bin)
                    model_senses.position.append((name, layer, counted_from, place, int(in_bin.sum()), *likely))

    def _with_moves(self, model_senses: _ModelSenses, encoder: Encoder, skipped: Counter[str]) -> _ModelSenses:
        if self.about.moving and model_senses.apart:
            model_senses.moved = movements(
                encoder, self.about.moving, by=self.about.by, seed=self.seed, skipped=skipped
            )
        return model_senses

    def _move_rows(self, model_senses: _ModelSenses, beside: _ModelSenses | None) -> Iterable[SenseRow]:
        """How far words move as a share of how far occurrences of a word are apart at that layer."""
        for name, moved in model_senses.moved.items():
            moves = ResampledRatios.of(moved.documents, "document", samples=self.samples, seed=self.seed)
            other = beside.moved.get(name) if beside else None
            for layer, scale in enumerate(model_senses.apart):
                value, low, high = (
                    _per(distance, scale) for distance in moves.ratio(moved.sums[:, layer], moved.words)
                )
                theirs = float("nan")
                if beside is not None and other is not None:
                    theirs = _per(float(other.sums[:, layer].sum() / other.words.sum()), beside.apart[layer])
                yield SenseRow(layer, f"moved.{name}", value, low, high, theirs)

    def tables(
        self,
        encoder: Encoder,
        model_senses: _ModelSenses,
        beside: _ModelSenses | None,
        static: dict[str, dict[str, np.ndarray]],
        skipped: Counter[str],
    ) -> Tables:
        """All tables, and what was counted."""
        data, scores = self.data, self.scores
        best, hits = scores.chosen(model_senses.right)
        rows = [*model_senses.rows, scores.chosen_row(best, hits), *self._move_rows(model_senses, beside)]
        rows += scores.constant_rows()
        for name, predicted in static.items():
            rows += scores.rows(None, predicted, f"{name}.")
        if beside is not None:
            twins_best, twins = scores.chosen(beside.right)
            rows += [*beside.rows, scores.chosen_row(twins_best, twins, f"{TWIN}.")]
        bags = {name: scores.ambiguous(data.right(predicted[self.main])) for name, predicted in static.items()}
        gaps = [
            *self._paired(model_senses, beside, hits, bags),
            *self._clustered(model_senses),
            *self._placed(model_senses, beside),
        ]
        best_layers = [*scores.best(f"{self.main}.ambiguous", model_senses.right), *self._best_clusters(model_senses)]
        best_layers += self._best_places(model_senses)
        known = data.known[data.word[data.scored]]
        skipped["scored words not seen in training, given the most frequent sense of all"] += int((known == 0).sum())
        skipped["scored words with one sense in training, given it"] += int((known == 1).sum())
        lacking = ~(data.gold[data.scored] & (data.frequency[data.word[data.scored]] > 0)).any(1) & data.ambiguous
        skipped["scored senses of ambiguous words that the word has not in training, counted as errors"] += int(
            lacking.sum()
        )
        position = [*model_senses.position, *(beside.position if beside else ())]
        return Tables(
            {
                "senses": pd.DataFrame(rows, columns=list(SENSES)).astype({"layer": "Int64"}),
                "differences": pd.DataFrame(gaps, columns=list(DIFFERENCES)).astype(
                    {"layer": "Int64", "window": "Int64"}
                ),
                "best": pd.DataFrame(best_layers, columns=list(BEST)),
                "words": pd.DataFrame(self._words(model_senses), columns=list(WORDS)),
                "position": pd.DataFrame(position, columns=list(POSITION)),
            },
            dict(+skipped),
            data={
                "annotations": list(data.annotations),
                "senses": len(data.labels),
                "training_targets": int(data.train.sum()),
                "clustered_words": len(self.about.words),
                "resampled": scores.units.kind,
            },
            scored={"senses": len(data.scored), "ambiguous words": int(data.ambiguous.sum())},
        )

    def _paired(
        self, model_senses: _ModelSenses, beside: _ModelSenses | None, hits: np.ndarray, bags: Mapping[str, np.ndarray]
    ) -> Iterator[tuple]:
        """Neighbours against constant answers, layer 0, static vectors and the twin, document by document."""
        scores = self.scores
        ours = [scores.ambiguous(right) for right in model_senses.right]
        constants = {
            MOST_FREQUENT: scores.ambiguous(scores.most_frequent),
            SCORED_MAJORITY: scores.ambiguous(scores.scored_majority),
        }
        theirs: dict[str, list[np.ndarray]] = {
            name: [hits_of_name] * len(ours) for name, hits_of_name in {**constants, LAYER_0: ours[0], **bags}.items()
        }
        families = {CONSTANTS: constants, BAGS: bags, LAYER_0: {LAYER_0: ours[0]} if len(ours) > 1 else {}}
        if beside is not None:
            theirs[TWIN] = [scores.ambiguous(right) for right in beside.right]
            families[TWIN] = {TWIN: scores.chosen(beside.right)[1]}
        for against, other in theirs.items():
            first = 1 if against == LAYER_0 else 0
            pairs = [PairedHits(layer, against, ours[layer], other[layer]) for layer in range(first, len(ours))]
            yield from paired_rows(f"{self.main}.ambiguous", f"{against}, layers", pairs, scores.counts)
        for family, others in families.items():
            pairs = [PairedHits(None, name, hits, hits_of_name) for name, hits_of_name in others.items()]
            yield from paired_rows("chosen.ambiguous", family, pairs, scores.counts)

    def _clustered(self, model_senses: _ModelSenses) -> Iterator[tuple]:
        """Agreement of clusters with senses minus that with shuffled senses, word by word."""
        if not model_senses.agreements:
            return
        ami, null = self._agreed(model_senses)
        values = np.stack([self._words_clustered.by_layer(agreed)[0] for agreed in (ami, null)], 1)
        draws = self._words_clustered.by_layer(ami - null)[1]
        yield from drawn_rows("ami", "shuffled senses", values, draws, len(self._words_clustered))

    def _best_clusters(self, model_senses: _ModelSenses) -> Iterator[tuple]:
        if model_senses.agreements:
            yield from best_rows(
                "ami", *self._words_clustered.by_layer(self._agreed(model_senses)[0]), len(self._words_clustered)
            )

    def _agreed(self, model_senses: _ModelSenses) -> np.ndarray:
        """[ami or null, word, layer]"""
        layers = [
            [(agreed.ami, float(agreed.null.mean())) for agreed in of_layer] for of_layer in model_senses.agreements
        ]
        return np.array(layers).transpose(2, 1, 0)

    def _placed(self, model_senses: _ModelSenses, beside: _ModelSenses | None) -> Iterator[tuple]:
        """What places explain minus what shuffled places do, and minus what they explain in the twin."""
        if "both" not in model_senses.shares:
            return
        error, shuffled, total = np.stack(model_senses.shares["both"], 2)
        units = len(self._places.units)
        ours, chance = (1 - errors.sum(0) / total.sum(0) for errors in (error, shuffled))
        draws = self._places.draws(shuffled - error, total)
        yield from drawn_rows("position.both", "shuffled places", np.stack([ours, chance], 1), draws, units)
        if beside is not None and "both" in beside.shares:
            theirs, _, of_twin = np.stack(beside.shares["both"], 2)
            draws = self._places.draws(theirs, of_twin) - self._places.draws(error, total)
            values = np.stack([ours, 1 - theirs.sum(0) / of_twin.sum(0)], 1)
            yield from drawn_rows("position.both", TWIN, values, draws, units)

    def _best_places(self, model_senses: _ModelSenses) -> Iterator[tuple]:
        if "both" in model_senses.shares:
            error, _, total = np.stack(model_senses.shares["both"], 2)
            draws = 1 - self._places.draws(error, total)
            yield from best_rows("position.both", 1 - error.sum(0) / total.sum(0), draws, len(self._places.units))

    def _words(self, model_senses: _ModelSenses) -> Iterable[tuple]:
        data, place = self.data, np.full(len(self.data.word), -1)
        place[data.scored] = np.arange(len(data.scored))
        for word, queries, rows in data.by_word():
            numbers = place[queries]
            about = int(data.known[word]), len(rows), len(queries), float(self.scores.most_frequent[numbers].mean())
            for layer, right in enumerate(model_senses.right):
                ami = model_senses.by_word[layer].get(word, float("nan"))
                yield data.words[word], layer, *about, float(right[numbers].mean()), ami


def _per(value: float, scale: float) -> float:
    """Not available where occurrences of a word are all the same, as at layer 0 without positions."""
    return value / scale if scale > 1e-6 else float("nan")


_CHOSEN = "chosen.ambiguous"
_NAMED = {
    MOST_FREQUENT: "each word's most frequent sense in training",
    SCORED_MAJORITY: "each word's most frequent sense in other scored documents",
    LAYER_0: "layer 0",
    TWIN: "the untrained twin",
}


@senses.finds
def tell_findings(result: Result) -> Iterator[Finding]:
    """Senses against the best constant answer and the best bag of words; clusters; position."""
    if "best" not in result.tables:
        return
    yield from _beside_constants(result)
    yield from _beside_bags(result)
    yield from _clusters(result)
    yield from _position(result)


def described(against: str) -> str:
    """What the model is compared with, in words.

    Example:
        >>> described("skip-gram.w1"), described("input")
        ('averaged skip-gram vectors of up to 1 word away', 'averaged input embeddings of the text')
    """
    if against in _NAMED:
        return _NAMED[against]
    name, window = bag_of(against)
    vectors = "input embeddings" if name == "input" else f"{name} vectors"
    where = "the text" if window is None else f"up to {window} word{'s' * (window != 1)} away"
    return f"averaged {vectors} of {where}"


def _hardest(result: Result, family: str) -> Any | None:
    """Of the comparisons of the chosen layer in one family, the one with the most right answers."""
    gaps = result.tables["differences"]
    rows = [*rows_of(gaps[(gaps["measure"] == _CHOSEN) & (gaps["family"] == family)])]
    return max(rows, key=lambda row: row.baseline) if rows else None


def _best(result: Result, measure: str, **words: str) -> tuple[str, list[Source]]:
    """Which layers can be the best in words, and the rows that show it."""
    table = result.tables["best"]
    rows = rows_of(table[(table["measure"] == measure) & table["value"].notna()])
    return where_best(rows, source=Source("best", {"measure": measure, "among_best": True}), **words)


def _beside_constants(result: Result) -> Iterator[Finding]:
    row = _hardest(result, CONSTANTS)
    if row is None:
        return
    where, source = _best(result, f"knn{result.provenance.parameters['k'][0]}.ambiguous")
    share, theirs = percent(row.value), percent(row.baseline)
    always = f"always answering {described(row.against)}"
    ahead = f"Neighbours find the sense of ambiguous words in {share}; {always}, in {theirs}"
    behind = f"{always.capitalize()} is right for {theirs} of ambiguous words; neighbours for {share}"
    yield _compared(
        result, row, ahead + where if row.difference > 0 else behind,
        whether=f"neighbours find the sense of ambiguous words more or less often than {always}",
        absent=f"Neighbours find the sense of ambiguous words as often as {always}: {share} and {theirs}",
        source=source if row.difference > 0 else [], importance=("answers", "beats control", "localised"),
    )  # fmt: skip


def _beside_bags(result: Result) -> Iterator[Finding]:
    row = _hardest(result, BAGS)
    if row is None:
        return
    share, theirs, bag = percent(row.value), percent(row.baseline), f"{described(row.against)}, the best bag of words"
    yield _compared(
        result, row,
        f"Neighbours of the model's vectors find {share} of the senses of ambiguous words; those of {bag}, {theirs}",
        whether=f"the model's vectors predict senses of ambiguous words better or worse than {bag}",
        absent=f"The model's vectors predict senses of ambiguous words as well as {bag}: {share} and {theirs}",
        source=[], importance=("answers", "beats control"),
    )  # fmt: skip


def _compared(
    result: Result, row: Any, claim: str, *, whether: str, absent: str, source: list[Source], importance: tuple
) -> Finding:  # fmt: skip
    differences = Source("differences", {"measure": row.measure, "family": row.family, "against": row.against})
    return finding(
        claim=claim, whether=whether, absent=absent, contrast="difference", source=[differences, *source],
        test=Contrast.of(row, estimate="difference"), unit=_unit(result), importance=importance,
        unvarying="no document has different answers of the two",
    )  # fmt: skip


def _unit(result: Result) -> str:
    return str(result.provenance.corpus.get("resampled", "document"))


def _highest(result: Result, measure: str, against: str) -> Any | None:
    """The row of the layer where a measure is highest."""
    gaps = result.tables["differences"]
    rows = gaps[(gaps["measure"] == measure) & (gaps["against"] == against)].dropna(subset=["value", "layer"])
    return next(rows_of(rows.loc[[rows["value"].idxmax()]])) if len(rows) else None


def _clusters(result: Result) -> Iterator[Finding]:
    row = _highest(result, "ami", "shuffled senses")
    if row is None:
        return
    where, source = _best(result, "ami")
    table = result.tables["senses"]
    stability = Source("senses", {"measure": "ami.stability", "layer": row.layer})
    stable = stability.rows(table)
    differences = Source("differences", {"measure": "ami", "against": "shuffled senses", "layer": row.layer})
    yield finding(
        claim=f"Clusters of a word's occurrences agree with its senses at layer {row.layer}: AMI {number(row.value)}, "
        f"with shuffled senses {number(row.baseline)}{where}",
        whether=f"clusters of a word's occurrences agree with its senses at layer {row.layer}",
        absent=f"Clusters of a word's occurrences agree with its senses at layer {row.layer} as with shuffled senses",
        contrast="difference",
        test=Contrast.of(row, estimate="difference"),
        source=[differences, *source, *([stability] if len(stable) else [])],
        unit="word type",
        importance=("answers", "localised"),
        note=_stability(float(stable["value"].iloc[0])) if len(stable) else "",
        unvarying="agreement does not vary between words",
    )


def _stability(value: float) -> str:
    return f"Clusters from other starts agree with an adjusted Rand index of {number(value)}."


def _position(result: Result) -> Iterator[Finding]:
    """Where places explain most; what they explain at the last layer, against the twin."""
    row = _highest(result, "position.both", "shuffled places")
    if row is not None:
        yield _highest_share(result, row)
    gaps = result.tables["differences"]
    twins = gaps[(gaps["measure"] == "position.both") & (gaps["against"] == TWIN)].dropna(subset=["difference"])
    if len(twins):
        last = max(rows_of(twins), key=lambda row: row.layer)
        less = "less" if last.difference < 0 else "more"
        yield _share(
            result, last, f"At layer {last.layer} the place explains {less} of a word's variance than in the "
            f"untrained twin: {percent(last.value)}, twin {percent(last.baseline)}",
            whether=f"the place explains more or less of a word's variance at layer {last.layer} than in the "
            "untrained twin",
            absent=f"At layer {last.layer} the place explains as much of a word's variance as in the random-weights "
            f"twin: {percent(last.value)}, twin {percent(last.baseline)}",
            source=[], importance=("beats control", "localised"),
        )  # fmt: skip


def _highest_share(result: Result, row: Any) -> Finding:
    nowhere = "no layer was shown to be higher than another"
    where, source = _best(result, "position.both", words="{} can be the highest", nowhere=nowhere)
    return _share(
        result, row,
        f"At layer {row.layer} the place in the sentence explains {percent(row.value)} of a word's variance; shuffled "
        f"places explain {percent(row.baseline)}{where}",
        whether=f"the place in the sentence explains variance within words at layer {row.layer}",
        absent=f"At layer {row.layer} the place in the sentence explains no more of a word's variance than shuffled "
        "places",
        source=source, importance=("answers", "localised"),
    )  # fmt: skip


def _share(
    result: Result, row: Any, claim: str, *, whether: str, absent: str, source: list[Source], importance: tuple
) -> Finding:  # fmt: skip
    differences = Source("differences", {"measure": row.measure, "against": row.against, "layer": row.layer})
    return finding(
        claim=claim, whether=whether, absent=absent, contrast="difference", source=[differences, *source],
        test=Contrast.of(row, estimate="difference"), unit=_unit(result), importance=importance,
        unvarying="the share does not vary between documents",
    )  # fmt: skip


@senses.shows
def describe(result: Result) -> Iterable[Overview]:
    """One row per layer: neighbours, the twin, clusters, position."""
    table, about = result.tables["senses"], result.provenance
    main = f"knn{about.parameters['k'][0]}.ambiguous"
    headings = {
        main: main,
        f"{TWIN}.{main}": "twin",
        "ami": "ami",
        "position.both": "position",
        "moved.shifted": "shifted",
    }
    there = {measure: heading for measure, heading in headings.items() if (table["measure"] == measure).any()}
    by_layer = {(row.layer, row.measure): row for row in rows_of(table) if row.measure in there}
    layers = sorted({int(layer) for layer, _ in by_layer if not pd.isna(layer)})
    rows: list[tuple[str | int, ...]] = [
        (layer, *(_cell(by_layer.get((layer, measure)), spread=measure == main) for measure in there))
        for layer in layers
    ]
    baseline = float(table.loc[table["measure"] == main, "baseline"].iloc[0])
    title = f"{about.model['name']} on {about.corpus['name']}: most frequent sense {number(baseline, digits=3)}"
    yield Overview(title, ("layer", *there.values()), rows)


def _cell(row: Any, *, spread: bool) -> str:
    if row is None:
        return "-"
    return cell(row.value, row.low, row.high) if spread else cell(row.value)

"""`lamina.senses`: which sense of a word its vectors tell at each layer, and how much of them is its position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.activations import Runtime
from lamina.analyses.word_senses.clusters import (
    Agreement,
    Clustered,
    Method,
    agreement,
    chosen_clusters,
    clusters_of,
    words_to_cluster,
)
from lamina.analyses.word_senses.findings import describe, tell_findings
from lamina.analyses.word_senses.knn import predict_across, predict_within
from lamina.analyses.word_senses.moved import Moved, draw_texts, movements
from lamina.analyses.word_senses.position import (
    BINS,
    DESIGNS,
    Pairs,
    Places,
    apart,
    bin_of,
    chance_share,
    explained,
    find_pairs,
    find_places,
    likeness,
    pair_means,
)
from lamina.analyses.word_senses.scores import (
    BAGS,
    BEST,
    CONSTANTS,
    DIFFERENCES,
    LAYER_0,
    MOST_FREQUENT,
    SCORED_MAJORITY,
    SENSES,
    TWIN,
    Pair,
    Resampled,
    Row,
    Scores,
    WordMeans,
    best_rows,
    drawn_rows,
    paired_rows,
)
from lamina.analyses.word_senses.static import averaged_contexts, bag_name, static_encoders
from lamina.analyses.word_senses.targets import SenseTargets, SpanVectors, read_targets
from lamina.corpora import Splits
from lamina.encoders import Encoder
from lamina.errors import InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import TrainedTexts
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import Finding
from lamina.stats.intervals import interval
from lamina.training.provenance import folder_of, used_texts
from lamina.types import Text

WORDS = ("word", "layer", "senses", "train", "scored", "most_frequent", "value", "ami")
POSITION = ("model", "layer", "counted_from", "place", "words", "similarity", "low", "high")
_TWIN_DESIGNS = ("both", "inner")
"""Shares that are measured in the twin too."""


@analysis(
    title="Word senses and position",
    question="At which layer do a word's vectors tell its senses apart, and how much of them is the word's position?",
    method=(
        "The sense of a word in a scored text is that of its nearest training occurrences by cosine (k nearest "
        "neighbours, and nearest centroid), among occurrences of the same word; words with one sense in training get "
        "it, unseen words the most frequent sense of all. Beside it are each word's best constant answer, the same "
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
        Setting("Words on each side of the word in windowed bags of static vectors, beside the whole text.", min=1),
    ] = (1, 2, 4, 8),
    texts: Annotated[
        int | None, Setting("Training texts, about, as whole documents drawn at random; all by default.", min=2)
    ] = None,
    clustering: Annotated[Method, Setting("How a word's occurrences are clustered.")] = "kmeans",
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
      whole text, and of the words up to so far away.
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
    asked = _Asked(
        data, ks, clustering, faithful, samples, seed, _about(encoder, data, clustered, moved, moved_by, seed)
    )
    found = asked.model(encoder, runtime, skipped)
    beside = asked.twin(encoder.random_twin(seed), runtime) if twin and encoder.blocks else None
    static = {
        bag: predicted
        for name, each in static_encoders(encoder, data, vectors, skipped, seed)
        for bag, predicted in asked.static(name, each, windows, skipped)
    }
    return asked.tables(encoder, found, beside, static, skipped)


@senses.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Senses beside the most frequent one, beside static vectors, clusters, position."""
    return tell_findings(result)


@senses.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per layer."""
    return describe(result)


@senses.costs
def _cost(estimator: Estimator, encoder: Encoder, _: Splits, *, twin: bool, **__: Any) -> Cost:
    """One layer of all tokens is read at a time."""
    return estimator.trial(passes=1 + (twin and encoder.blocks > 0), grows=2 * 4 * encoder.width)


class _About(NamedTuple):
    """What is looked at beside the targets."""

    words: list[Clustered]
    places: Places
    pairs: Pairs
    moving: list[Text]
    by: int
    """Positions that sentences are shifted by."""


def _about(encoder: Encoder, data: SenseTargets, clustered: int, moved: int, by: int, seed: int) -> _About:
    return _About(
        words_to_cluster(data, most=clustered, seed=seed),
        find_places(data.texts, data.units, encoder, seed=seed),
        find_pairs(data, seed=seed),
        draw_texts(data.texts, moved, seed),
        by,
    )


class _Found:
    """What one model shows, layer by layer."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.right: list[np.ndarray] = []
        """[layer] Which scored targets the first k gets right."""
        self.by_word: list[dict[int, float]] = []
        """[layer] Word -> agreement of its clusters."""
        self.agreements: list[list[Agreement]] = []
        """[layer] Of each clustered word."""
        self.position: list[tuple] = []
        self.shares: dict[str, list[np.ndarray]] = {}
        """Design -> [layer] By document: squared errors, those of shuffled places, and squared distances."""
        self.apart: list[float] = []
        """[layer] Mean squared distance of two occurrences of a word."""
        self.moved: dict[str, Moved] = {}


class _Asked:
    """The question, asked of the model, of its twin and of static vectors alike."""

    def __init__(
        self, data: SenseTargets, ks: tuple[int, ...], clustering: Method, faithful: bool, samples: int, seed: int,
        about: _About,
    ) -> None:  # fmt: skip
        self.data, self.ks, self.faithful = data, ks, faithful
        self.clustering: Method = clustering
        self.samples, self.seed, self.about = samples, seed, about
        self.scores = Scores(data, samples=samples, seed=seed)
        names = [data.units[at] for at in about.places.text]
        self._places = Resampled.of(names, self.scores.units.kind, samples=samples, seed=seed)
        sizes = np.array([len(each.rows) for each in about.words])
        clustered = [data.words[each.word] for each in about.words]
        self._words_clustered = WordMeans(clustered, sizes, samples=samples, seed=seed)

    @property
    def main(self) -> str:
        """The measure that is told."""
        return f"knn{self.ks[0]}"

    def model(self, encoder: Encoder, runtime: Runtime, skipped: Counter[str]) -> _Found:
        """Everything, of every layer."""
        return self._with_moves(self._layers(encoder, runtime, prefix="", skipped=skipped), encoder, skipped)

    def twin(self, encoder: Encoder, runtime: Runtime) -> _Found:
        """The same of random weights; what it lacks is what the model lacks."""
        return self._with_moves(
            self._layers(encoder, runtime, prefix=f"{TWIN}.", skipped=Counter()), encoder, Counter()
        )

    def static(
        self, name: str, encoder: Encoder, windows: Sequence[int], skipped: Counter[str]
    ) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        """Predictions by the words of the text, and by those around the word, whatever their order."""
        for window, bags in averaged_contexts(encoder, self.data, windows, skipped):
            yield bag_name(name, window), predict_within(self.data, bags, self.ks, capped=self.faithful)

    def _layers(self, encoder: Encoder, runtime: Runtime, *, prefix: str, skipped: Counter[str]) -> _Found:
        data, about, found = self.data, self.about, _Found()
        stored = runtime.extract(encoder, data.corpus)
        skipped["words without a piece, replaced by the unknown token"] += stored.unknown
        skipped["texts longer than the model's limit, encoded in windows"] += stored.windowed
        targets = SpanVectors(stored, data.text, data.spans)
        places = SpanVectors(stored, about.places.text, about.places.spans) if len(about.places) else None
        with progress(f"senses in {encoder.name}", encoder.layers) as advance:
            for layer in range(encoder.layers):
                tokens = stored.layer(layer)
                vectors = targets.of(tokens)
                at_places = None if places is None else places.of(tokens)
                del tokens  # the largest of all
                self._senses(found, layer, vectors, prefix)
                self._clusters(found, layer, vectors, prefix)
                if not prefix:
                    self._near(found, layer, vectors)
                if at_places is not None:
                    self._position(found, layer, at_places, prefix, encoder.name)
                advance()
        return found

    def _senses(self, found: _Found, layer: int, vectors: Float[torch.Tensor, "target width"], prefix: str) -> None:
        predicted = predict_within(self.data, vectors, self.ks, capped=self.faithful)
        found.right.append(self.data.right(predicted[self.main]))
        if not self.data.own_labels:
            predicted |= predict_across(self.data, vectors, self.ks)
        found.rows += self.scores.rows(layer, predicted, prefix)

    def _clusters(self, found: _Found, layer: int, vectors: Float[torch.Tensor, "target width"], prefix: str) -> None:
        words = self.about.words
        found.by_word.append({})
        if not words:
            return
        from threadpoolctl import threadpool_limits

        kinds: dict[str, list[Agreement]] = {"ami": []} | ({} if prefix else {"ami.silhouette": []})
        stability = []
        # So few vectors: threads would only wait for each other.
        with threadpool_limits(1):
            for each in words:
                own = vectors[each.rows].cpu().numpy()
                groups = {"ami": clusters_of(own, int(each.senses.max()) + 1, self.clustering, self.seed)}
                stability.append(groups["ami"].stability)
                if not prefix:
                    groups["ami.silhouette"] = chosen_clusters(own, self.clustering, self.seed)
                for name, clusters in groups.items():
                    kinds[name].append(agreement(clusters.of, each.senses, seed=(self.seed, each.word)))
                found.by_word[-1][each.word] = kinds["ami"][-1].ami
        found.agreements.append(kinds["ami"])
        mean, sizes = self._words_clustered.mean, np.array([len(each.rows) for each in words])
        for name, own in kinds.items():
            null = sizes @ np.stack([each.null for each in own]) / sizes.sum()
            values = mean(np.array([each.ami for each in own]))
            found.rows.append(Row(layer, f"{prefix}{name}", *values, float(null.mean())))
            if not prefix:
                found.rows.append(Row(layer, f"{name}.null", float(null.mean()), *interval(null), 0.0))
        if not prefix:
            found.rows.append(Row(layer, "ami.stability", *mean(np.array(stability)), 0.0))

    def _near(self, found: _Found, layer: int, vectors: Float[torch.Tensor, "target width"]) -> None:
        if not len(self.about.pairs.first):
            return
        words, means = pair_means(self.about.pairs, vectors)
        names = [self.data.words[word] for word in words]
        over_words = WordMeans(names, np.ones(len(words)), samples=self.samples, seed=self.seed)
        for name, values, beside in (
            ("near", means[:, 0], float(means[:, 1].mean())),
            ("near_minus_far", means[:, 0] - means[:, 1], 0.0),
        ):
            found.rows.append(Row(layer, name, *over_words.mean(values), beside))

    def _position(
        self, found: _Found, layer: int, vectors: Float[torch.Tensor, "place width"], prefix: str, name: str
    ) -> None:
        places = self.about.places
        sums = self._places.units.sums
        for design in _TWIN_DESIGNS if prefix else DESIGNS:
            share, shuffled = explained(places, vectors, design), chance_share(places, vectors, design)
            missing = np.isnan(share.value)
            parts = np.stack([sums(part) for part in (share.error, shuffled.error, share.total)])
            found.shares.setdefault(design, []).append(np.full_like(parts, np.nan) if missing else parts)
            _, low, high = self._places.ratio(share.total - share.error, share.total)
            numbers = [float("nan")] * 4 if missing else [share.value, low, high, shuffled.value]
            found.rows.append(Row(layer, f"{prefix}position.{design}", *numbers))
        found.apart.append(apart(places, vectors))
        alike = likeness(places, vectors)
        for counted_from, where in (("start", places.start), ("end", places.end)):
            bins = bin_of(where)
            for at, place in enumerate(BINS):
                own = bins == at
                if own.any():
                    likely = self._places.ratio(alike * own, own)
                    found.position.append((name, layer, counted_from, place, int(own.sum()), *likely))

    def _with_moves(self, found: _Found, encoder: Encoder, skipped: Counter[str]) -> _Found:
        if self.about.moving and found.apart:
            found.moved = movements(encoder, self.about.moving, by=self.about.by, seed=self.seed, skipped=skipped)
        return found

    def _move_rows(self, found: _Found, beside: _Found | None) -> Iterable[Row]:
        """How far words move as a share of how far occurrences of a word are apart at that layer."""
        for name, moved in found.moved.items():
            moves = Resampled.of(moved.documents, "document", samples=self.samples, seed=self.seed)
            other = beside.moved.get(name) if beside else None
            for layer, scale in enumerate(found.apart):
                value, low, high = (_per(each, scale) for each in moves.ratio(moved.sums[:, layer], moved.words))
                theirs = float("nan")
                if beside is not None and other is not None:
                    theirs = _per(float(other.sums[:, layer].sum() / other.words.sum()), beside.apart[layer])
                yield Row(layer, f"moved.{name}", value, low, high, theirs)

    def tables(
        self, encoder: Encoder, found: _Found, beside: _Found | None, static: dict[str, dict[str, np.ndarray]],
        skipped: Counter[str],
    ) -> Tables:  # fmt: skip
        """All tables, and what was counted."""
        data, scores = self.data, self.scores
        best, hits = scores.chosen(found.right)
        rows = [*found.rows, scores.chosen_row(best, hits), *self._move_rows(found, beside)]
        rows += scores.constant_rows()
        for name, predicted in static.items():
            rows += scores.rows(None, predicted, f"{name}.")
        if beside is not None:
            twins_best, twins = scores.chosen(beside.right)
            rows += [*beside.rows, scores.chosen_row(twins_best, twins, f"{TWIN}.")]
        bags = {name: scores.ambiguous(data.right(predicted[self.main])) for name, predicted in static.items()}
        gaps = [*self._paired(found, beside, hits, bags), *self._clustered(found), *self._placed(found, beside)]
        best_layers = [*scores.best(f"{self.main}.ambiguous", found.right), *self._best_clusters(found)]
        best_layers += self._best_places(found)
        known = data.known[data.word[data.scored]]
        skipped["scored words not seen in training, given the most frequent sense of all"] += int((known == 0).sum())
        skipped["scored words with one sense in training, given it"] += int((known == 1).sum())
        lacking = ~(data.gold[data.scored] & (data.frequency[data.word[data.scored]] > 0)).any(1) & data.ambiguous
        skipped["scored senses of ambiguous words that the word has not in training, counted as errors"] += int(
            lacking.sum()
        )
        position = [*found.position, *(beside.position if beside else ())]
        return Tables(
            {
                "senses": pd.DataFrame(rows, columns=list(SENSES)).astype({"layer": "Int64"}),
                "differences": pd.DataFrame(gaps, columns=list(DIFFERENCES)).astype(
                    {"layer": "Int64", "window": "Int64"}
                ),
                "best": pd.DataFrame(best_layers, columns=list(BEST)),
                "words": pd.DataFrame(self._words(found), columns=list(WORDS)),
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
        self, found: _Found, beside: _Found | None, hits: np.ndarray, bags: Mapping[str, np.ndarray]
    ) -> Iterator[tuple]:
        """Neighbours beside constant answers, layer 0, static vectors and the twin, document by document."""
        scores = self.scores
        own = [scores.ambiguous(each) for each in found.right]
        constants = {
            MOST_FREQUENT: scores.ambiguous(scores.most_frequent),
            SCORED_MAJORITY: scores.ambiguous(scores.scored_majority),
        }
        theirs: dict[str, list[np.ndarray]] = {
            name: [each] * len(own) for name, each in {**constants, LAYER_0: own[0], **bags}.items()
        }
        families = {CONSTANTS: constants, BAGS: bags, LAYER_0: {LAYER_0: own[0]} if len(own) > 1 else {}}
        if beside is not None:
            theirs[TWIN] = [scores.ambiguous(each) for each in beside.right]
            families[TWIN] = {TWIN: scores.chosen(beside.right)[1]}
        for against, other in theirs.items():
            first = 1 if against == LAYER_0 else 0
            pairs = [Pair(at, against, own[at], other[at]) for at in range(first, len(own))]
            yield from paired_rows(f"{self.main}.ambiguous", f"{against}, layers", pairs, scores.counts)
        for family, others in families.items():
            pairs = [Pair(None, name, hits, each) for name, each in others.items()]
            yield from paired_rows("chosen.ambiguous", family, pairs, scores.counts)

    def _clustered(self, found: _Found) -> Iterator[tuple]:
        """Agreement of clusters with senses minus that with shuffled senses, word by word."""
        if not found.agreements:
            return
        ami, null = self._agreed(found)
        values = np.stack([self._words_clustered.by_layer(each)[0] for each in (ami, null)], 1)
        draws = self._words_clustered.by_layer(ami - null)[1]
        yield from drawn_rows("ami", "shuffled senses", values, draws, len(self._words_clustered))

    def _best_clusters(self, found: _Found) -> Iterator[tuple]:
        if found.agreements:
            yield from best_rows(
                "ami", *self._words_clustered.by_layer(self._agreed(found)[0]), len(self._words_clustered)
            )

    def _agreed(self, found: _Found) -> np.ndarray:
        """[ami or null, word, layer]"""
        layers = [[(each.ami, float(each.null.mean())) for each in own] for own in found.agreements]
        return np.array(layers).transpose(2, 1, 0)

    def _placed(self, found: _Found, beside: _Found | None) -> Iterator[tuple]:
        """What places explain minus what shuffled places do, and minus what they explain in the twin."""
        if "both" not in found.shares:
            return
        error, shuffled, total = np.stack(found.shares["both"], 2)
        units = len(self._places.units)
        own, chance = (1 - each.sum(0) / total.sum(0) for each in (error, shuffled))
        draws = self._places.draws(shuffled - error, total)
        yield from drawn_rows("position.both", "shuffled places", np.stack([own, chance], 1), draws, units)
        if beside is not None and "both" in beside.shares:
            theirs, _, of_twin = np.stack(beside.shares["both"], 2)
            draws = self._places.draws(theirs, of_twin) - self._places.draws(error, total)
            values = np.stack([own, 1 - theirs.sum(0) / of_twin.sum(0)], 1)
            yield from drawn_rows("position.both", TWIN, values, draws, units)

    def _best_places(self, found: _Found) -> Iterator[tuple]:
        if "both" in found.shares:
            error, _, total = np.stack(found.shares["both"], 2)
            draws = 1 - self._places.draws(error, total)
            yield from best_rows("position.both", 1 - error.sum(0) / total.sum(0), draws, len(self._places.units))

    def _words(self, found: _Found) -> Iterable[tuple]:
        data, place = self.data, np.full(len(self.data.word), -1)
        place[data.scored] = np.arange(len(data.scored))
        for word, queries, rows in data.by_word():
            own = place[queries]
            about = int(data.known[word]), len(rows), len(queries), float(self.scores.most_frequent[own].mean())
            for layer, right in enumerate(found.right):
                ami = found.by_word[layer].get(word, float("nan"))
                yield data.words[word], layer, *about, float(right[own].mean()), ami


def _per(value: float, scale: float) -> float:
    """Not available where occurrences of a word are all the same, as at layer 0 without positions."""
    return value / scale if scale > 1e-6 else float("nan")

"""Structural probes of a model, its twin and the control: trained together, applied and scored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.activations import Runtime
from lamina.activations.reading import WordVectors
from lamina.analyses.heads.trees import spanning_trees
from lamina.analyses.layers.structure.trees import GoldTree, gold_of, smallest_tree
from lamina.corpora import Corpus
from lamina.corpora.splits import Splits, divide
from lamina.errors import CorpusError, DamagedError
from lamina.files.checking import load_tensors, save_tensors
from lamina.models import Encoder
from lamina.probes.parsers import ROOT
from lamina.probes.structural import (
    Kind,
    StructuralBank,
    StructuralGroup,
    StructuralSchedule,
    TrainedMaps,
    TreeSentences,
    squared_distances,
)
from lamina.progress import progress, say
from lamina.stats.best import best_set
from lamina.stats.correlations import rank_correlation
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import widened_intervals
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.units import Units, unit_of

# Sentences as structural probes see them: the vectors of their words at every layer, and their trees.

MOST_STOP = 600
"""Sentences by which training stops, at most."""


class SplitTrees(NamedTuple):
    """The trees of three disjoint sets of sentences."""

    train: list[GoldTree]
    """Of all training texts."""
    learn: tuple[int, ...]
    """Numbers of the training texts that are learned from ..."""
    stop: tuple[int, ...]
    """... and of those by which training stops."""
    scored: list[GoldTree]
    repeated: int
    """Training texts that are scored, too, and left out."""


def read_trees(splits: Splits, *, faithful: bool, seed: int) -> SplitTrees:
    """All trees, checked."""
    train, scored = (_trees(corpus, faithful=faithful) for corpus in (splits.train, splits.scored))
    division = divide(splits, seed=seed, most_stop=MOST_STOP)
    if not any(len(tree.links) for tree in scored):
        raise CorpusError(f"{splits.name} ({splits.scored.split}): no sentence has two linked words to score")
    return SplitTrees(train, division.learn, division.stop, scored, division.left_out)


def _trees(corpus: Corpus, *, faithful: bool) -> list[GoldTree]:
    texts = list(corpus)
    unit = unit_of(texts)
    return [gold_of(text, unit.of(text), faithful=faithful) for text in texts]


def shuffled(tree: GoldTree, seed: int) -> GoldTree:
    """The control: the same tree over the same sentence, its places exchanged among the words.

    A word's vector then has nothing to do with the place in the tree that it is given. The order follows from the text.

    Example:
        >>> tree = GoldTree(np.array([2, 0, 2]), np.zeros(3, bool), "a", "a", ("the", "dog", "barks"))
        >>> sorted(shuffled(tree, 0).depths.tolist())
        [0, 1, 1]
    """
    digest = int.from_bytes(tree.key.encode("utf-8", "surrogatepass")[-8:], "little")
    place = np.random.default_rng([seed, len(tree), digest]).permutation(len(tree))
    heads = np.full(len(tree), ROOT)
    heads[place] = np.where(tree.heads == ROOT, ROOT, place[tree.heads - 1] + 1)
    punctuation = np.zeros(len(tree), bool)
    punctuation[place] = tree.punctuation
    return replace(tree, heads=heads, punctuation=punctuation)


_LOUD = 10.0
"""A direction whose spread is this many times the median direction's is made no louder than that."""


def scale_layers(
    vectors: Float[torch.Tensor, "layer word width"], rows: Int[np.ndarray, " word"], *others: torch.Tensor
) -> None:
    """Bring layers to one scale, in place, so that one learning rate serves all; `others` by the same numbers.

    Words are on average 1 away from the mean of their layer. A few directions of some models are a thousand times
    louder than the rest (the first token's, in decoders) and would be all that a probe learns to get rid of; they are
    turned down. Both are invertible, so that a map can still be anything it could be. The mean itself stays: depths
    are squared norms, and with it they can follow any direction, not only its square. On 800 texts, the correlation
    of depths at layer 5 of minilm is .68 with it and was .49 without.
    """
    numbers = torch.from_numpy(rows).to(vectors.device)
    for number in range(len(vectors)):
        centred = vectors[number, numbers].float()
        centred = centred - centred.mean(0)
        variances, directions = torch.linalg.eigh((centred.T @ centred / len(centred)).double())
        most = _LOUD**2 * variances.clamp_min(0).median()
        loud = variances > most.clamp_min(1e-12)
        turned = directions[:, loud].float()
        down = (1 - (most / variances[loud]).sqrt()).float()
        centred -= centred @ turned * down @ turned.T
        length = centred.square().sum(1).mean().sqrt().clamp_min(1e-6)
        for layer in (vectors[number], *(other[number] for other in others)):
            scaled = layer.float()
            scaled -= scaled @ turned * down @ turned.T
            layer.copy_(scaled / length)


def layer_vectors(
    encoder: Encoder, corpus: Corpus, layers: Sequence[int], runtime: Runtime, *, decay: bool = False
) -> Float[torch.Tensor, "layer word width"]:
    """The words of all texts at some layers, means of their tokens; with `decay`, then the average of neighbours."""
    sizes = [len(text.words) for text in corpus]
    stored = runtime.extract(encoder, corpus)
    words = WordVectors(stored, sizes)
    device = words.text.device
    dtype = torch.float16 if device.type == "cpu" else torch.float32
    vectors = torch.empty(len(layers) + decay, sum(sizes), encoder.width, dtype=dtype, device=device)
    for number, layer in enumerate(layers):
        of_layer = words.layer(layer)
        largest = float(of_layer.abs().max()) if len(of_layer) else 0.0
        if largest > torch.finfo(vectors.dtype).max:
            vectors = vectors.float()
        vectors[number] = of_layer
    if decay:
        vectors[-1] = neighbours_average(words.layer(0), sizes)
    return vectors


def neighbours_average(
    words: Float[torch.Tensor, "word width"], sizes: Sequence[int]
) -> Float[torch.Tensor, "word width"]:
    """Each word as the average of its sentence's words, whose weights halve with every word in between.

    Example:
        >>> neighbours_average(torch.tensor([[1.0], [0.0], [0.0]]), [3])[:2].flatten().tolist()
        [0.5714285969734192, 0.25]
    """
    parts = []
    for part in words.split(list(sizes)):
        place = torch.arange(len(part), device=words.device)
        weights = 0.5 ** (place[:, None] - place).abs().float()
        parts.append(weights / weights.sum(1, keepdim=True) @ part.float())
    return torch.cat(parts)


def sentences_of(
    vectors: Float[torch.Tensor, "layer word width"], trees: Sequence[GoldTree], numbers: Sequence[int] | None = None
) -> TreeSentences:
    """Some sentences with their trees; `vectors` are those of all trees."""
    sizes = np.array([len(tree) for tree in trees])
    starts = sizes.cumsum() - sizes
    chosen = np.arange(len(trees)) if numbers is None else np.array(numbers, int)
    chosen_trees = [trees[int(number)] for number in chosen]
    return TreeSentences(
        vectors,
        starts[chosen],
        sizes[chosen],
        [tree.distances for tree in chosen_trees],
        [tree.depths for tree in chosen_trees],
    )


def rows_of_sentences(trees: Sequence[GoldTree], numbers: Sequence[int]) -> Int[np.ndarray, " word"]:
    """The places of these sentences' words among those of all trees."""
    sizes = np.array([len(tree) for tree in trees])
    starts = sizes.cumsum() - sizes
    return np.concatenate([np.arange(starts[number], starts[number] + sizes[number]) for number in numbers])


# Scores of predicted distances and depths (UUAS, roots, Spearman correlations by length) and their contrasts.

UUAS, ROOT_ACCURACY, DSPR, NSPR = MEASURES = ("uuas", "root", "dspr", "nspr")
SHORTEST, LONGEST = 5, 50
"""Lengths of sentences whose correlations count."""
MODEL, TWIN, PROJECTION, CHAIN, DECAY, CONTROL = OF = ("model", "twin", "projection", "chain", "decay", "control")
TESTED = (UUAS, ROOT_ACCURACY)
"""Measures that the model is compared by."""
BEST = ("measure", "layer", "value", "low", "high", "p_beaten", "among_best", "units")
"""Columns of `best.csv`."""
CONTRASTS = (
    *("measure", "layer", "against", "value", "other"),
    *("estimate", "low", "high", "p_adjusted", "units", "needed", "unit"),
)
"""Columns of `contrasts.csv`."""


class SentenceTally(NamedTuple):
    """What every sentence adds to a score: the mean over strata of ratios of sums."""

    hits: Float[np.ndarray, " sentence"]
    of: Float[np.ndarray, " sentence"]
    strata: Int[np.ndarray, " sentence"]
    """Lengths, where they are averaged first; 0 otherwise."""


class StructureEstimate(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


class ResampledScore(NamedTuple):
    """A score and the same over resampled units; all scores of a split share the draws."""

    value: float
    draws: Float[np.ndarray, " sample"]


Scores = Mapping[tuple[str, int | None, str], Sequence[ResampledScore]]
"""Of what (`OF`), at which layer, by which measure -> one score per seed."""


class StructureIntervals:
    """Bootstrap over documents; over sentences where all are of one document. All scores share the draws."""

    def __init__(self, trees: Sequence[GoldTree], *, samples: int, seed: int) -> None:
        documents = len({tree.unit for tree in trees}) > 1
        names = [tree.unit if documents else tree.key for tree in trees]
        self.units = Units.of(names, "document" if documents else "text")
        self._weights = self.units.weights(samples=samples, seed=seed).astype(float)

    def score(self, tally: SentenceTally) -> ResampledScore:
        """The score, and its draws; NaN where nothing counts."""
        strata, stratum = np.unique(tally.strata, return_inverse=True)
        in_stratum = np.arange(len(strata)) == stratum[:, None]
        hits, of = (self.units.sums(np.where(in_stratum, part[:, None], 0.0)) for part in (tally.hits, tally.of))
        there = of.sum(0) > 0
        if not there.any():
            return ResampledScore(float("nan"), np.full(len(self._weights), np.nan))
        hits, of = hits[:, there], of[:, there]
        drawn, counts = self._weights @ hits, self._weights @ of
        known = counts > 0
        ratios = np.divide(drawn, counts, out=np.zeros_like(drawn), where=known)
        # A sample that drew no sentence of a length has no score for it.
        many = known.sum(1)
        draws = np.divide(ratios.sum(1), many, out=np.full(len(many), np.nan), where=many > 0)
        return ResampledScore(float((hits.sum(0) / of.sum(0)).mean()), draws)

    def estimate(self, tally: SentenceTally) -> StructureEstimate:
        """The score, and its interval."""
        return self.of(self.score(tally))

    def of(self, score: ResampledScore) -> StructureEstimate:
        """A score with its interval."""
        low, high = widened_intervals(np.array(score.value), score.draws, len(self.units))
        return StructureEstimate(score.value, float(low), float(high))


def pooled(by_seed: Sequence[ResampledScore]) -> ResampledScore:
    """The mean over seeds; from 5 on, seeds vary too."""
    values, draws = (np.array([score[part] for score in by_seed]) for part in (0, 1))
    return ResampledScore(float(values.mean()), draws_over_seeds(values, draws))


def best_rows(scores: Scores, units: Units) -> list[tuple[Any, ...]]:
    """Which layers of the model can be the best, by every measure; rows of `best.csv`.

    A layer without a score (its probe had not converged) is left out.
    """
    rows: list[tuple[Any, ...]] = []
    for measure in MEASURES:
        layers = {
            layer: pooled(by_seed) for (of, layer, by), by_seed in scores.items() if of == MODEL and by == measure
        }
        known = {layer: score for layer, score in layers.items() if np.isfinite(score.value)}
        if not known:
            continue
        values, draws = np.array([score.value for score in known.values()]), _columns(known.values())
        best_layers = best_set(values, draws, len(units))
        low, high = widened_intervals(values, draws, len(units))
        parts = zip(known, values, low, high, best_layers.p, best_layers.among, strict=True)
        rows += [
            (measure, layer, float(value), float(start), float(end), float(p), bool(inside), len(units))
            for layer, value, start, end, p, inside in parts
        ]
    return rows


def contrast_rows(scores: Scores, units: Units) -> list[tuple[Any, ...]]:
    """Every layer of the model minus every baseline, as one family; rows of `contrasts.csv`."""
    pairs = [
        (measure, layer, against, pooled(scores[MODEL, layer, measure]), pooled(beside))
        for measure in TESTED
        for layer in sorted(layer for of, layer, by in scores if of == MODEL and by == measure and layer is not None)
        for against in (CHAIN, DECAY, TWIN, PROJECTION, CONTROL)
        if (beside := _beside(scores, against, layer, measure)) is not None
    ]
    pairs = [pair for pair in pairs if np.isfinite([pair[3].value, pair[4].value]).all()]
    if not pairs:
        return []
    estimates = np.array([ours.value - other.value for *_, ours, other in pairs])
    draws = _columns([ResampledScore(0.0, ours.draws - other.draws) for *_, ours, other in pairs])
    tests = bootstrap_family(estimates, draws, len(units), bounds=(-1.0, 1.0)).columns()
    return [
        (*place, ours.value, other.value, *(float(column[number]) for column in tests.values()), units.kind)
        for number, (*place, ours, other) in enumerate(pairs)
    ]


def _beside(scores: Scores, against: str, layer: int, measure: str) -> Sequence[ResampledScore] | None:
    """Words in a row have no layer; averaged neighbours are of layer 0."""
    place = {CHAIN: None, DECAY: 0}.get(against, layer)
    return scores.get((against, place, measure))


def _columns(scores: Any) -> Float[np.ndarray, "sample score"]:
    return np.stack([score.draws for score in scores], 1)


def links_tally(distances: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[SentenceTally]:
    """Links found by minimum spanning trees; `distances` of a sentence are [probe, word, word]."""
    hits = [links_hit(of_sentence, tree) for of_sentence, tree in zip(distances, trees, strict=True)]
    of = np.array([len(tree.links) for tree in trees], float)
    return [SentenceTally(row, of, np.zeros(len(trees), int)) for row in np.array(hits, float).T]


def links_hit(distances: Float[np.ndarray, "probe word word"], tree: GoldTree) -> Int[np.ndarray, " probe"]:
    """How many links of a sentence each probe's minimum spanning tree has, punctuation left out."""
    links, words = tree.links, tree.unpunctuated
    if not len(links):
        return np.zeros(len(distances), int)
    if tree.repaired:
        gold = set(map(tuple, links.tolist()))
        return np.array(
            [len(gold & set(map(tuple, smallest_tree(of_probe, words).tolist()))) for of_probe in distances]
        )
    via = spanning_trees(-distances[:, words[:, None], words])
    one, other = np.searchsorted(words, links).T
    return ((via[:, one] == other) | (via[:, other] == one)).sum(1)


def root_tally(depths: Sequence[np.ndarray], trees: Sequence[GoldTree], *, faithful: bool) -> list[SentenceTally]:
    """Roots found: the word that is least deep, punctuation left out; `depths` of a sentence are [probe, word].

    Sentences with one word that is not punctuation, or none, or with punctuation as root, do not count; they do in the
    released code.
    """
    hits, of = [], []
    for of_sentence, tree in zip(depths, trees, strict=True):
        words = tree.unpunctuated
        counted = faithful or (len(words) > 1 and not tree.punctuation[tree.root])
        # The released code takes the least deep of all words where there is nothing but punctuation.
        among = words if len(words) else np.arange(len(tree))
        hits.append((among[of_sentence[:, among].argmin(1)] == tree.root) * counted)
        of.append(float(counted))
    return [SentenceTally(row, np.array(of), np.zeros(len(trees), int)) for row in np.array(hits, float).T]


def distance_correlations(distances: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[SentenceTally]:
    """Spearman's correlation of each word's distances to all words, by length of the sentence."""
    sums = [
        _row_correlations(values, tree.distances).sum(-1) if _counts(tree) else np.zeros(len(values))
        for values, tree in zip(distances, trees, strict=True)
    ]
    of = np.array([float(len(tree)) if _counts(tree) else 0.0 for tree in trees])
    sizes = np.array([len(tree) for tree in trees])
    return [SentenceTally(row, of, sizes) for row in np.array(sums).T]


def depth_correlations(depths: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[SentenceTally]:
    """Spearman's correlation of the depths of a sentence's words, by length of the sentence."""
    sums = [
        _row_correlations(values[:, None], tree.depths[None])[:, 0] if _counts(tree) else np.zeros(len(values))
        for values, tree in zip(depths, trees, strict=True)
    ]
    of = np.array([float(_counts(tree)) for tree in trees])
    sizes = np.array([len(tree) for tree in trees])
    return [SentenceTally(row, of, sizes) for row in np.array(sums).T]


def _counts(tree: GoldTree) -> bool:
    return SHORTEST <= len(tree) <= LONGEST


def _row_correlations(
    predicted: Float[np.ndarray, "probe row word"], gold: Int[np.ndarray, "row word"]
) -> Float[np.ndarray, "probe row"]:
    """Spearman's correlation of each row; 0 where a prediction is the same for all words."""
    return np.nan_to_num(rank_correlation(predicted, np.broadcast_to(gold, predicted.shape)))


TRAINING = ("layer", "rank", "of", "seed", "kind", "loss", "constant", "epochs", "converged")
STRUCTURE = ("layer", "rank", "of", "seed", "measure", "value", "low", "high")
BY_KIND: dict[Kind, tuple[str, str]] = {"distance": (UUAS, DSPR), "depth": (ROOT_ACCURACY, NSPR)}
"""Measures of distances and of depths."""


class StructureSettings(NamedTuple):
    """Settings of all probes."""

    schedule: StructuralSchedule
    faithful: bool
    samples: int
    seed: int


class StructureScores(NamedTuple):
    """Scores of the probes of one encoder."""

    rows: list[tuple[Any, ...]]
    training: list[tuple[Any, ...]]
    scores: dict[tuple[str, int | None, str], list[ResampledScore]]
    """Of the largest rank: what, layer and measure -> one per seed, NaN where a probe had not converged."""
    predicted: dict[tuple[int, Kind], list[np.ndarray]]
    """Layer and kind -> distances or depths of the scored sentences; of the model's largest rank and first seed, where
    the probe converged."""


class StructureProbing:
    """Trains and scores structural probes over one encoder at a time, on the same sentences."""

    def __init__(
        self,
        splits: Splits,
        trees: SplitTrees,
        layers: Sequence[int],
        how: StructureSettings,
        runtime: Runtime,
        work: Path | None = None,
    ) -> None:
        """`work` keeps trained probes until the result is saved: the same command continues with them."""
        self._work = work
        self._splits, self._trees, self._layers, self._how, self._runtime = splits, trees, tuple(layers), how, runtime
        self._intervals = StructureIntervals(trees.scored, samples=how.samples, seed=how.seed)

    @property
    def units(self) -> Units:
        """What is resampled."""
        return self._intervals.units

    def probe(
        self,
        encoder: Encoder,
        of: str,
        groups: Sequence[StructuralGroup],
        *,
        decay: bool = False,
        projections: bool = False,
    ) -> StructureScores:
        """All layers of an encoder; of the control, with trees whose places were exchanged."""
        train, scored = self._vectors(encoder, decay=decay)
        trees = self._trees
        if of == CONTROL:
            exchanged = ([shuffled(tree, self._how.seed) for tree in some] for some in (trees.train, trees.scored))
            trees = trees._replace(**dict(zip(("train", "scored"), exchanged, strict=True)))
        learn, stop = (sentences_of(train, trees.train, numbers) for numbers in (trees.learn, trees.stop))
        what = f"structural probes of {encoder.name}" + (" (control)" if of == CONTROL else "")
        trained_maps = self._trained(of, what, groups, learn, stop)
        names: list[tuple[str, int | None]] = [*((of, layer) for layer in self._layers), *[(DECAY, 0)] * decay]
        rows: list[tuple[Any, ...]] = []
        scores: dict[tuple[str, int | None, str], list[ResampledScore]] = defaultdict(list)
        predicted: dict[tuple[int, Kind], list[np.ndarray]] = {}
        largest = max(group.rank for group in groups)
        for group in groups:
            trained = trained_maps[group]
            values = apply_maps(trained.maps, scored, trees.scored, group.kind)
            largest_scores = scores if group.rank == largest else defaultdict(list)
            rows += self._rows(group, names, values, trees.scored, trained.converged, largest_scores)
            if of == MODEL and group.rank == largest and group.seed == min(other.seed for other in groups):
                for number, layer in enumerate(self._layers):
                    if trained.converged[number]:
                        predicted[layer, group.kind] = [value[number] for value in values]
            if projections:
                drawn = torch.randn(
                    trained.maps.shape[1:], generator=torch.Generator().manual_seed(group.seed + self._how.seed)
                )
                maps = drawn.to(trained.maps.device).expand(len(self._layers), -1, -1)
                beside = apply_maps(maps, scored[: len(self._layers)], trees.scored, group.kind)
                names_of: list[tuple[str, int | None]] = [(PROJECTION, layer) for layer in self._layers]
                rows += self._rows(group, names_of, beside, trees.scored, np.ones(len(names_of), bool), largest_scores)
        constants = constant_losses(learn, stop)
        training = [
            (layer, group.rank, name, group.seed, group.kind, loss, constants[group.kind], *numbers)
            for group, trained in trained_maps.items()
            for (name, layer), loss, *numbers in zip(
                names, trained.losses.tolist(), trained.epochs.tolist(), trained.converged.tolist(), strict=True
            )
        ]
        return StructureScores(rows, training, dict(scores), predicted)

    def _trained(
        self, of: str, what: str, groups: Sequence[StructuralGroup], learn: TreeSentences, stop: TreeSentences
    ) -> dict[StructuralGroup, TrainedMaps]:
        """The probes: of a run of the same command that was stopped, or trained now."""
        path = None if self._work is None else self._work / f"{of}.maps"
        if path is not None and path.exists():
            try:
                return _read_maps(path, groups, learn.vectors.device)
            except DamagedError as error:
                say(f"{error}; these probes are trained again")
        bank = StructuralBank(groups, self._how.schedule)
        with progress(what, self._how.schedule.max_validations) as advance:
            bank.fit(learn, stop, seed=self._how.seed, advance=lambda _: advance(1))
        if path is not None:
            tensors = {
                f"{number} {part}": torch.as_tensor(getattr(bank.trained_[group], part))
                for number, group in enumerate(groups)
                for part in TrainedMaps._fields
            }
            save_tensors(path, tensors, {"groups": list(map(list, groups))})
        return bank.trained_

    def chain(self) -> StructureScores:
        """Words in a row: distances are those in the sentence, depths those from the best place for a root."""
        trees = self._trees
        place = best_place([trees.train[number] for number in trees.learn])
        distances = [chain_distances(len(tree))[None] for tree in trees.scored]
        depths = [chain_depths(len(tree), place)[None] for tree in trees.scored]
        by_kind = [(StructuralGroup("distance", 0, 0), distances), (StructuralGroup("depth", 0, 0), depths)]
        scores: dict[tuple[str, int | None, str], list[ResampledScore]] = defaultdict(list)
        rows = [
            row
            for group, values in by_kind
            for row in self._rows(group, [(CHAIN, None)], values, trees.scored, np.ones(1, bool), scores)
        ]
        return StructureScores([(None, None, CHAIN, None, *row[4:]) for row in rows], [], dict(scores), {})

    def _vectors(self, encoder: Encoder, *, decay: bool) -> tuple[torch.Tensor, torch.Tensor]:
        splits = self._splits
        train, scored = (
            layer_vectors(encoder, corpus, self._layers, self._runtime, decay=decay)
            for corpus in (splits.train, splits.scored)
        )
        if not self._how.faithful:
            scale_layers(train, rows_of_sentences(self._trees.train, self._trees.learn), scored)
        return train, scored

    def _rows(
        self,
        group: StructuralGroup,
        names: Sequence[tuple[str, int | None]],
        values: Sequence[np.ndarray],
        trees: Sequence[GoldTree],
        converged: np.ndarray,
        scores: dict[tuple[str, int | None, str], list[ResampledScore]],
    ) -> list[tuple[Any, ...]]:
        first, second = BY_KIND[group.kind]
        tallies: tuple[list[SentenceTally], list[SentenceTally]]
        if group.kind == "distance":
            tallies = links_tally(values, trees), distance_correlations(values, trees)
        else:
            tallies = root_tally(values, trees, faithful=self._how.faithful), depth_correlations(values, trees)
        rows: list[tuple[Any, ...]] = []
        for measure, by_name in zip((first, second), tallies, strict=True):
            for (of, layer), tally, whole in zip(names, by_name, converged, strict=True):
                score = self._intervals.score(tally)
                # A number that has not converged is not shown as one.
                estimate = self._intervals.of(score) if whole else StructureEstimate(*[float("nan")] * 3)
                rows.append((layer, group.rank, of, group.seed, measure, *estimate))
                scores[of, layer, measure].append(score if whole else score._replace(value=float("nan")))
        return rows


def _read_maps(
    path: Path, groups: Sequence[StructuralGroup], device: torch.device
) -> dict[StructuralGroup, TrainedMaps]:
    """The probes of a run that was stopped; a DamagedError if the file is damaged or of other probes."""
    tensors, about = load_tensors(path)
    if about.get("groups") != list(map(list, groups)):
        raise DamagedError(f"{path} holds other probes")
    return {
        group: TrainedMaps(
            tensors[f"{number} maps"].to(device),
            *(tensors[f"{number} {part}"].numpy() for part in TrainedMaps._fields[1:]),
        )
        for number, group in enumerate(groups)
    }


def apply_maps(maps: torch.Tensor, vectors: torch.Tensor, trees: Sequence[GoldTree], kind: Kind) -> list[np.ndarray]:
    """Squared distances [layer, word, word], or squared norms [layer, word], of every sentence."""
    by_sentence = []
    sizes = [len(tree) for tree in trees]
    projected = torch.stack(
        [layer_vectors.float() @ layer_map for layer_vectors, layer_map in zip(vectors, maps, strict=True)]
    )
    for part in projected.split(sizes, dim=1):
        values = squared_distances(part) if kind == "distance" else part.square().sum(-1)
        by_sentence.append(values.cpu().numpy())
    return by_sentence


def constant_losses(learn: TreeSentences, stop: TreeSentences) -> dict[Kind, float]:
    """What the loss on stopping sentences is where all pairs have one distance, and all words one depth.

    Example:
        >>> some = TreeSentences(torch.zeros(1, 2, 1), np.zeros(1, int), np.full(1, 2), [1 - np.eye(2)], [np.arange(2)])
        >>> constant_losses(some, some)
        {'distance': 0.0, 'depth': 0.5}
    """
    apart = [tree[~np.eye(len(tree), dtype=bool)] for tree in learn.distances]
    distance = float(np.median(np.concatenate(apart))) if sum(map(len, apart)) else 0.0
    depth = float(np.median(np.concatenate(list(learn.depths))))
    distances = [np.abs(tree - distance * (1 - np.eye(len(tree)))).mean() for tree in stop.distances]
    return {
        "distance": float(np.mean(distances)),
        "depth": float(np.mean([np.abs(tree - depth).mean() for tree in stop.depths])),
    }


def chain_distances(size: int) -> np.ndarray:
    """Words in between, and one.

    Example:
        >>> chain_distances(3).tolist()
        [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    place = np.arange(size, dtype=float)
    return np.abs(place[:, None] - place)


def chain_depths(size: int, place: int) -> np.ndarray:
    """Words from a place, counted from the start (0, 1, ...) or from the end (-1, -2, ...)."""
    root = min(place, size - 1) if place >= 0 else max(size + place, 0)
    return np.abs(np.arange(size) - root).astype(float)


def best_place(trees: Sequence[GoldTree]) -> int:
    """The place that is most often the root's, from the start or from the end."""
    starts = np.bincount([tree.root for tree in trees], minlength=1)
    ends = np.bincount([len(tree) - 1 - tree.root for tree in trees], minlength=1)
    return int(starts.argmax()) if starts.max() >= ends.max() else -1 - int(ends.argmax())

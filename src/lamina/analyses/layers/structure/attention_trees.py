"""Directed trees from attention: maximum spanning arborescences of heads, layers and combinations, and parsers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.heads.trees import ParserTrainer, right_branching, static_vectors, to_sentence
from lamina.analyses.layers.structure.probing import SentenceTally, StructureIntervals, chain_distances
from lamina.analyses.layers.structure.trees import GoldTree, arborescence, directed_from, rooted, smallest_tree
from lamina.framework.watch import WatchedBatch, WatchedText, watch
from lamina.models import Encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.probes.parsers import AttentionAndWords, AttentionOnly, DistanceAndWords, ParserProbe
from lamina.stats.family import sign_flip_family
from lamina.stats.units import Units
from lamina.types import Text

HEAD, LAYER, BEST_HEAD, COMBINED = "attention_head", "attention_layer", "attention_best_head", "attention_combined"
PARSERS = {
    "attention_parser": AttentionOnly,
    "attention_words_parser": AttentionAndWords,
    "distance_words_parser": None,
}
"""Source -> parser of `lamina parse`; the last sees no attention."""
PROBE, CHAIN, RIGHT, OFFSET = "structural_probe", "chain", "right_branching", "offset"
GIVEN, FREE, UNDIRECTED = "gold root", "free root", "no"
"""How a tree is directed."""
UAS, UUAS = "uas", "uuas"
TREES = ("source", "layer", "head", "directed", "measure", "value", "low", "high")
CHOSEN = ("source", "layer", "head", "direction", "train_uas", "chosen")
TREE_CONTRASTS = (
    *("source", "against", "value", "other"),
    *("estimate", "low", "high", "p_adjusted", "units", "needed", "unit"),
)
WITHOUT = "distance_words_parser"
"""The parser that sees no attention."""
COMPARED = (
    *((source, against) for source in (BEST_HEAD, COMBINED, "attention_parser") for against in (RIGHT, OFFSET)),
    ("attention_words_parser", WITHOUT),
)
"""Sources of trees, and what each is compared with: UAS, its root free."""
DIRECTIONS = ("dependent", "head")
"""Who attends: the dependent to its head, or the head to its dependent."""
CHOOSING = 200
"""Training sentences that heads are chosen on."""
_TOGETHER = (1, 2, 3, 4, 6, 8, 12, 16)
"""How many of the best heads may be combined."""

Place = tuple[str, int | None, int | None]
"""Source, layer, head; both counted from 1, as everywhere."""


class UnpunctuatedTree(NamedTuple):
    """A tree without its punctuation; words are counted without it, too."""

    heads: Int[np.ndarray, " word"]
    """-1 for the root; -2 where the head is punctuation."""
    words: Int[np.ndarray, " word"]

    @property
    def root(self) -> int | None:
        """None where it is punctuation."""
        roots = np.flatnonzero(self.heads == -1)
        return int(roots[0]) if len(roots) else None


def without_punctuation(tree: GoldTree) -> UnpunctuatedTree:
    """Leave punctuation out.

    Example:
        >>> tree = GoldTree(np.array([2, 0, 2]), np.array([False, False, True]), "a", "a", ("Dogs", "bark", "."))
        >>> without_punctuation(tree).heads.tolist()
        [1, -1]
    """
    words = tree.unpunctuated
    place = np.full(len(tree) + 1, -2)
    place[0] = -1
    place[words + 1] = np.arange(len(words))
    return UnpunctuatedTree(place[tree.heads[words]], words)


def hits(heads: Int[np.ndarray, " word"], gold: UnpunctuatedTree, *, given: bool) -> Float[np.ndarray, " 4"]:
    """Right heads, words, right links and links. With the root `given`, it is not counted as a word."""
    counted = gold.heads >= (0 if given else -1)
    below = np.flatnonzero(gold.heads >= 0)
    above = gold.heads[below]
    linked = (heads[below] == above) | (heads[above] == below)
    return np.array([(heads == gold.heads)[counted].sum(), counted.sum(), linked.sum(), len(below)], float)


class _TreeCounts:
    """Of every tree source: what each scored sentence adds."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Place, str], dict[str, np.ndarray]] = defaultdict(dict)

    def add(self, place: Place, directed: str, key: str, counts: np.ndarray) -> None:
        self._counts[place, directed][key] = counts

    def rows(self, trees: Sequence[GoldTree], *, samples: int, seed: int) -> list[tuple[Any, ...]]:
        intervals = StructureIntervals(trees, samples=samples, seed=seed)
        rows = []
        for (place, directed), by_key in self._counts.items():
            counts = np.array([by_key.get(tree.key, np.zeros(4)) for tree in trees])
            flat = np.zeros(len(trees), int)
            for measure, column in ((UAS, 0), (UUAS, 2)):
                # Trees that were directed afterwards have the same links whatever their root.
                once = directed == UNDIRECTED if place[0] in (PROBE, CHAIN) else True
                if once if measure == UUAS else directed != UNDIRECTED:
                    estimate = intervals.estimate(SentenceTally(counts[:, column], counts[:, column + 1], flat))
                    rows.append((*place, directed, measure, *estimate))
        return rows

    def contrasts(self, trees: Sequence[GoldTree], *, seed: int) -> list[tuple[Any, ...]]:
        """`COMPARED` on the same words, with their sums by document."""
        counts_by_source = {place[0]: by_key for (place, directed), by_key in self._counts.items() if directed == FREE}
        units = StructureIntervals(trees, samples=1, seed=seed).units
        sums = {
            source: units.sums(np.array([counts_by_source[source].get(tree.key, np.zeros(4)) for tree in trees])[:, :2])
            for source in {source for pair in COMPARED for source in pair} & counts_by_source.keys()
        }
        return contrast_rows(sums, units)


def contrast_rows(sums: Mapping[str, Float[np.ndarray, "unit 2"]], units: Units) -> list[tuple[Any, ...]]:
    """`COMPARED` as one family, from right heads and words by unit; rows of `tree_contrasts.csv`."""
    pairs = [(source, against) for source, against in COMPARED if source in sums and against in sums]
    if not pairs:
        return []
    differences = np.stack([sums[source][:, 0] - sums[against][:, 0] for source, against in pairs], 1)
    counts = np.stack([sums[source][:, 1] for source, _ in pairs], 1)
    tests = sign_flip_family(differences, counts, bounds=(-1.0, 1.0)).columns()
    shares = {
        source: float(sums_of_source[:, 0].sum() / max(sums_of_source[:, 1].sum(), 1))
        for source, sums_of_source in sums.items()
    }
    return [
        (*pair, *(shares[source] for source in pair), *(float(column[number]) for column in tests.values()), units.kind)
        for number, pair in enumerate(pairs)
    ]


def both_ways(maps: Float[np.ndarray, "map word word"]) -> Float[np.ndarray, "2 map word word"]:
    """Attention from row to column as scores of (row) as the head of (column): the dependent's, and the head's."""
    return np.stack([maps.transpose(0, 2, 1), maps])


def with_layers(watched: WatchedText) -> Float[np.ndarray, "map word word"]:
    """Every head's map between words, then every layer's mean."""
    maps = watched.words.maps.float()
    return torch.cat([maps.flatten(0, 1), maps.mean(1)]).numpy()


class _HeadChooser:
    """How well every map's trees, read both ways, are directed on training sentences; keeps their maps."""

    def __init__(self, trees: Mapping[str, GoldTree]) -> None:
        self._trees = trees
        self.maps: list[tuple[np.ndarray, UnpunctuatedTree]] = []

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter`."""
        for watched in batch.singly:
            tree = self._trees[watched.text.id]
            # A text that was cut has lost a part of its tree.
            if len(watched.text.words) == len(tree) and len(self.maps) < CHOOSING:
                gold = without_punctuation(tree)
                if len(gold.words) > 1:
                    self.maps.append((with_layers(watched)[:, gold.words[:, None], gold.words], gold))

    def scores(self) -> Float[np.ndarray, "2 map"]:
        """UAS of every map, its root free."""
        return self._uas(lambda maps: both_ways(maps).reshape(-1, *maps.shape[1:])).reshape(2, -1)

    def combined(self, order: Sequence[tuple[int, int]]) -> Float[np.ndarray, " number"]:
        """UAS of the mean of the first maps of `order` (direction and number), for several numbers of maps."""
        return self._uas(lambda maps: np.stack([mean_of(maps, order[:many]) for many in _TOGETHER]))

    def _uas(self, scores: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        sums = None
        for maps, gold in self.maps:
            counts = np.array([hits(arborescence(score), gold, given=False) for score in scores(maps)])
            sums = counts if sums is None else sums + counts
        return np.zeros(0) if sums is None else sums[:, 0] / np.maximum(sums[:, 1], 1)


def mean_of(maps: Float[np.ndarray, "map word word"], which: Iterable[tuple[int, int]]) -> np.ndarray:
    """The mean of maps, each read in its direction."""
    return np.mean([maps[number].T if way == 0 else maps[number] for way, number in which], 0)


class _ChosenHeads(NamedTuple):
    """What was chosen on training sentences."""

    ways: Int[np.ndarray, " map"]
    best: int
    together: list[tuple[int, int]]
    rows: list[tuple[Any, ...]]


class _TreeScorer:
    """Every source's trees on the scored sentences."""

    def __init__(
        self, encoder: Encoder, trees: Mapping[str, GoldTree], chosen: _ChosenHeads, parsers: Mapping[str, ParserProbe],
        vectors: Encoder | None, offset: int,
    ) -> None:  # fmt: skip
        self._encoder, self._trees, self._chosen, self._parsers = encoder, trees, chosen, parsers
        self._vectors, self._offset = vectors, offset
        self.counts = _TreeCounts()
        self.seen: set[str] = set()

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter`."""
        for watched in batch.singly:
            tree = self._trees[watched.text.id]
            if len(watched.text.words) == len(tree):
                self._score(watched, tree)

    def _score(self, watched: WatchedText, tree: GoldTree) -> None:
        gold = without_punctuation(tree)
        self.seen.add(tree.key)
        if len(gold.words) < 2:
            return
        maps = with_layers(watched)[:, gold.words[:, None], gold.words]
        for number, way in enumerate(self._chosen.ways):
            self._trees_of(self._place(number), maps[number].T if way == 0 else maps[number], gold, tree.key)
        best = self._chosen.best
        _, layer, head = self._place(best)
        self._trees_of((BEST_HEAD, layer, head), mean_of(maps, [(self._chosen.ways[best], best)]), gold, tree.key)
        self._trees_of((COMBINED, None, None), mean_of(maps, self._chosen.together), gold, tree.key)
        self._parsed(watched, gold, tree.key)
        self._baselines(gold, len(tree), tree.key)

    def _place(self, number: int) -> Place:
        return place_of(number, self._encoder)

    def _trees_of(self, place: Place, scores: np.ndarray, gold: UnpunctuatedTree, key: str) -> None:
        self.counts.add(place, FREE, key, hits(arborescence(scores), gold, given=False))
        if gold.root is not None:
            self.counts.add(place, GIVEN, key, hits(arborescence(scores, gold.root), gold, given=True))

    def _parsed(self, watched: WatchedText, gold: UnpunctuatedTree, key: str) -> None:
        if self._vectors is None:
            return
        sentence = to_sentence(watched, self._vectors, causal=self._encoder.causal_maps)
        for source, probe in self._parsers.items():
            with torch.no_grad():
                chances = probe(sentence).log_softmax(1).double().numpy()
            # A word itself is no candidate: minus infinity is more than the tree's sums can bear.
            chances = np.maximum(chances, -1e3)
            scores, roots = chances[gold.words[:, None], gold.words + 1].T, chances[gold.words, 0]
            place: Place = (source, None, None)
            self.counts.add(place, FREE, key, hits(rooted(scores, roots), gold, given=False))
            if gold.root is not None:
                self.counts.add(place, GIVEN, key, hits(arborescence(scores, gold.root), gold, given=True))

    def _baselines(self, gold: UnpunctuatedTree, size: int, key: str) -> None:
        many = len(gold.words)
        links = np.stack([np.arange(many - 1), np.arange(1, many)], 1)
        if gold.root is not None:
            self.counts.add(
                (CHAIN, None, None), GIVEN, key, hits(directed_from(links, many, gold.root), gold, given=True)
            )
        right = right_branching(many) - 1
        self.counts.add((RIGHT, None, None), FREE, key, hits(right, gold, given=False))
        place = np.arange(many) + self._offset
        fixed = np.where((place < 0) | (place >= many), -1, place)
        self.counts.add((OFFSET, None, None), FREE, key, hits(fixed, gold, given=False))


def place_of(number: int, encoder: Encoder) -> Place:
    """Which head or layer a map is of."""
    single = encoder.blocks * encoder.heads
    if number < single:
        return HEAD, number // encoder.heads + 1, number % encoder.heads + 1
    return LAYER, number - single + 1, None


class AttentionTrees(NamedTuple):
    """Rows of the tables, and what was left out."""

    trees: list[tuple[Any, ...]]
    contrasts: list[tuple[Any, ...]]
    chosen: list[tuple[Any, ...]]
    skipped: Counter[str]
    scored: int


def trees_from_attention(
    encoder: Encoder,
    train: Sequence[Text],
    train_trees: Mapping[str, GoldTree],
    scored: Sequence[Text],
    scored_trees: Mapping[str, GoldTree],
    probed: Mapping[int, Mapping[str, tuple[np.ndarray, np.ndarray]]],
    *,
    samples: int,
    seed: int,
) -> AttentionTrees:
    """Choose and train on training sentences, score on others.

    Args:
        encoder: whose maps.
        train: sentences to choose heads and train parsers on.
        train_trees: their trees, by id.
        scored: sentences to score.
        scored_trees: their trees, by id.
        probed: layer -> id -> distances and depths that structural probes gave.
        samples: bootstrap samples.
        seed: of parsers and samples.
    """
    chooser = _HeadChooser(train_trees)
    parsers, vectors = _parsers(encoder, seed)
    learner = ParserTrainer(parsers, vectors, causal=encoder.causal_maps, seed=seed) if vectors is not None else None
    cut = watch(encoder, train, [chooser] if learner is None else [chooser, learner], total=len(train))
    if learner is not None:
        learner.finish()
    chosen = _choose(chooser, encoder)
    scorer = _TreeScorer(encoder, scored_trees, chosen, parsers, vectors, best_offset(list(train_trees.values())))
    cut_scored = watch(encoder, scored, [scorer], total=len(scored))
    trees = [tree for key, tree in scored_trees.items() if key in scorer.seen]
    _undirected(scorer.counts, trees, probed)
    skipped: Counter[str] = Counter({f"attention, training: {why}": many for why, many in cut.items()})
    skipped.update({f"attention, scored: {why}": many for why, many in cut_scored.items()})
    counts = scorer.counts
    rows, contrasts = counts.rows(trees, samples=samples, seed=seed), counts.contrasts(trees, seed=seed)
    return AttentionTrees(rows, contrasts, chosen.rows, skipped, len(trees))


def _parsers(encoder: Encoder, seed: int) -> tuple[dict[str, ParserProbe], Encoder | None]:
    """The parsers of `lamina parse`; none where words have no static vectors."""
    if not isinstance(encoder, HuggingFaceEncoder):
        return {}, None
    vectors = static_vectors(encoder, None)
    maps = encoder.blocks * encoder.heads
    only, words, distance = PARSERS
    return {
        only: AttentionOnly(maps),
        words: AttentionAndWords(maps, vectors.width),
        distance: DistanceAndWords(vectors.width, seed=seed),
    }, vectors


def _choose(chooser: _HeadChooser, encoder: Encoder) -> _ChosenHeads:
    scores = chooser.scores()
    ways = scores.argmax(0)
    single = encoder.blocks * encoder.heads
    best_way = scores.max(0)
    best = int(best_way[:single].argmax())
    order = [(int(ways[number]), int(number)) for number in np.argsort(-best_way[:single], kind="stable")]
    combined = chooser.combined(order)
    many = int(combined.argmax())
    rows: list[tuple[Any, ...]] = [
        (*place_of(number, encoder), DIRECTIONS[way], float(scores[way, number]), bool(ways[number] == way))
        for number in range(scores.shape[1])
        for way in range(2)
    ]
    for way, number in order[: _TOGETHER[many]]:
        _, layer, head = place_of(number, encoder)
        rows.append((COMBINED, layer, head, DIRECTIONS[way], float(combined[many]), True))
    return _ChosenHeads(ways, best, order[: _TOGETHER[many]], rows)


def best_offset(trees: Sequence[GoldTree]) -> int:
    """The fixed place of the head, as seen from the word, that is most often right."""
    counts: Counter[int] = Counter()
    for tree in trees:
        gold = without_punctuation(tree)
        below = np.flatnonzero(gold.heads >= 0)
        counts.update((gold.heads[below] - below).tolist())
    return counts.most_common(1)[0][0] if counts else 1


def _undirected(
    counts: _TreeCounts,
    trees: Sequence[GoldTree],
    probed: Mapping[int, Mapping[str, tuple[np.ndarray, np.ndarray]]],
) -> None:
    """Structural probes and the chain: minimum spanning trees, directed from the least deep word or the gold root."""
    for tree in trees:
        gold = without_punctuation(tree)
        if len(gold.words) < 2:
            continue
        everything = np.arange(len(gold.words))
        row = smallest_tree(chain_distances(len(gold.words)), everything)
        counts.add(
            (CHAIN, None, None), UNDIRECTED, tree.key, hits(directed_from(row, len(everything), 0), gold, given=True)
        )
        for layer, by_key in probed.items():
            distances, depths = by_key[tree.key]
            links = smallest_tree(distances[gold.words[:, None], gold.words], everything)
            place: Place = (PROBE, layer, None)
            shallow = int(depths[gold.words].argmin())
            free = hits(directed_from(links, len(everything), shallow), gold, given=False)
            counts.add(place, FREE, tree.key, free)
            counts.add(place, UNDIRECTED, tree.key, free)
            if gold.root is not None:
                given = hits(directed_from(links, len(everything), gold.root), gold, given=True)
                counts.add(place, GIVEN, tree.key, given)

"""Weighted sets of heads: how well do several heads together find a relation, and how many does it take?

As in Clark et al.'s attention-only probe, every candidate word gets a weighted sum of what heads give to it and get
from it, and the largest sum is the answer; here by relation. Weights are learned on one half of the documents and
scored on the other, then the other way round.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.analyses.heads.behaviours import LEAD, OFTEN
from lamina.corpora import Corpus
from lamina.framework.watch import From, WatchedBatch, Weighting, watch
from lamina.models import Encoder
from lamina.results.finding import Finding, Source, finding, number, percent, rows_of
from lamina.stats.family import sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import CHOOSING, SCORED, Halves, UnitSums
from lamina.tasks.catalogue import in_words, plural_of
from lamina.types import Text

COMBINATIONS = (
    "relation", "baseline", "count", "heads", "heads_other", "accuracy", "low", "high", "baseline_accuracy", *LEAD,
    "unit",
)  # fmt: skip
"""Columns of `combinations.csv`."""
WEIGHTS = ("relation", "half", "layer", "head", "direction", "weight")
"""Columns of `combination_weights.csv`."""
SINGLE, OFFSET, TWIN = "best head", "best offset", "untrained twin"
"""What a combination is compared with."""
MOST_RELATIONS = 12
"""The most frequent relations that combinations are learned of."""
MOST_TARGETS = 400
"""About how many targets of a relation are used, drawn by their names."""
_SIZES = (1, 2, 4, 8, 16, 32)
"""Sizes of sets that are tried, beside all heads."""
_NEARLY = 0.01
"""A smaller set is enough where it finds at most this much less than the best one."""
_LEARNED = 2 / 3
"""Share of the learning half that weights are learned on; the rest says how many heads are enough."""
_PENALTY = 1e-3
_STEPS = 30
"""Of the search for weights, which ends earlier where nothing is gained."""


class RelationTarget(NamedTuple):
    """A word, what every head gives and gets there, and where its answer is."""

    text: Text
    features: Float[np.ndarray, "word direction*head"]
    """What the word gives to each other word, head by head, and then what it gets from it."""
    right: tuple[int, int]
    """The words that are right: first, and one past the last."""
    word: int


class CombinationMeter:
    """Collects the attention of some targets of every relation."""

    def __init__(self, counts: Mapping[str, int], *, seed: int) -> None:
        """`counts` are the relations that combinations are learned of, with their targets."""
        self._share = {relation: MOST_TARGETS / count for relation, count in counts.items()}
        self._seed = seed
        self.targets: dict[str, list[RelationTarget]] = {relation: [] for relation in counts}

    def as_drawn_by(self, other: CombinationMeter) -> CombinationMeter:
        """The same, taking the targets that another one took."""
        self._share = {relation: share for relation, share in other._share.items() if relation in self.targets}
        return self

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        for number_of_text, text in enumerate(batch.texts):
            chosen = [edge for edge in text.edges.get("dep", ()) if self._draws(text, edge)]
            if not chosen:
                continue
            size = len(text.words)
            maps = torch.cat([group[number_of_text, :, :size, :size] for group in batch.words]).float().cpu()
            for edge in chosen:
                word = edge.span.start
                features = torch.cat([maps[:, word, :], maps[:, :, word]]).T.numpy().astype(np.float16)
                right = (edge.other.start, edge.other.end) if edge.other is not None else (word, word + 1)
                self.targets[edge.labels[0]].append(RelationTarget(text, features, right, word))

    def _draws(self, text: Text, edge: Any) -> bool:
        if edge.other is None or edge.other == edge.span or edge.labels[0] not in self._share:
            return False
        name = f"{self._seed} {text.id} {edge.span.start} {edge.other.start}"
        drawn = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(drawn) / 2**64 < self._share[edge.labels[0]]


def relations_to_combine(counts: Mapping[str, int], together: Sequence[str]) -> dict[str, int]:
    """The most frequent relations, of at least as many targets as a head needs to earn a name; punctuation left out.

    Example:
        >>> relations_to_combine({"all": 99, "punct": 50, "obj": 40, "iobj": 2}, ["all"])
        {'obj': 40}
    """
    kinds = (
        (name, count)
        for name, count in Counter(dict(counts)).most_common()
        if name not in together and name.partition(":")[0] != "punct" and count >= OFTEN
    )
    return dict([*kinds][:MOST_RELATIONS])


class _Batch(NamedTuple):
    """Targets as tensors; the features of all their candidates stand below each other, without padding."""

    features: Float[Tensor, "candidate feature"]
    candidates: Tensor
    """[target, word] The words that could be the answer: all of the text but the word itself."""
    right: Tensor
    """[target, word]"""

    @classmethod
    def of(cls, targets: Sequence[RelationTarget]) -> _Batch:
        longest = max(len(target.features) for target in targets)
        candidates = torch.zeros(len(targets), longest, dtype=torch.bool)
        right = torch.zeros_like(candidates)
        features = []
        for row, target in enumerate(targets):
            candidates[row, : len(target.features)] = True
            candidates[row, target.word] = False
            right[row, slice(*target.right)] = True
            features.append(np.delete(target.features, target.word, 0))
        return cls(torch.from_numpy(np.concatenate(features).astype(np.float32)), candidates, right & candidates)

    def rows(self, rows: np.ndarray) -> _Batch:
        chosen = torch.from_numpy(rows)
        owners = self.candidates.nonzero()[:, 0]
        return _Batch(self.features[chosen[owners]], self.candidates[chosen], self.right[chosen])

    def logits(self, scores: Float[Tensor, " candidate"]) -> Float[Tensor, "target word"]:
        """Scores in their places; minus infinity everywhere else."""
        empty = torch.full(self.candidates.shape, -torch.inf)
        return empty.masked_scatter(self.candidates, scores)

    def hits(self, scores: Float[Tensor, " candidate"]) -> np.ndarray:
        answers = self.logits(scores).argmax(-1)
        return self.right[torch.arange(len(answers)), answers].numpy().astype(float)


class HeadSet(NamedTuple):
    """Heads with their weights."""

    features: Int[np.ndarray, " feature"]
    weights: Float[np.ndarray, " feature"]
    heads: int

    def hits(self, batch: _Batch) -> np.ndarray:
        """[target] Whether the word with the largest weighted sum is right."""
        return batch.hits(batch.features[:, self.features] @ torch.from_numpy(self.weights).float())


def _learned(batch: _Batch, features: np.ndarray) -> Float[np.ndarray, " feature"]:
    """Weights that make the right words likely, by logistic regression over the candidates of each target."""
    inputs = batch.features[:, features]
    spread = inputs.std(0).clamp(min=1e-6)
    inputs = inputs / spread
    weights = torch.zeros(len(features), requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        logits = batch.logits(inputs @ weights)
        right = logits.masked_fill(~batch.right, -torch.inf).logsumexp(-1)
        value = (logits.logsumexp(-1) - right).mean() + _PENALTY * weights.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return (weights.detach() / spread).numpy()


def best_set(batch: _Batch, units: Sequence[str]) -> HeadSet:
    """The smallest weighted set of heads that finds nearly as much as any, on targets of some units.

    Two thirds of the units learn weights; heads are ranked by how far they move the sum, and sets of the first 1, 2,
    4 ... of them learn again. The other units say which set is enough; it learns from all units at last.
    """
    names = sorted(set(units), key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest())
    learning = set(names[: max(1, round(_LEARNED * len(names)))])
    learns = np.array([unit in learning for unit in units])
    if learns.all():
        learns[::3] = False
    half = batch.features.shape[-1] // 2
    every = np.arange(2 * half)
    first = batch.rows(learns)
    weights = _learned(first, every)
    moved = np.abs(weights) * first.features.std(0).numpy()
    ranked = np.argsort(-np.maximum(moved[:half], moved[half:]), kind="stable")
    others = batch.rows(~learns)
    tried: list[tuple[float, np.ndarray]] = []
    for size in (*(size for size in _SIZES if size < half), half):
        heads = ranked[:size]
        features = np.sort(np.concatenate([heads, heads + half]))
        hits = HeadSet(features, _learned(first, features), size).hits(others)
        tried.append((float(hits.mean()), features))
    enough = max(accuracy for accuracy, _ in tried) - _NEARLY
    features = next(features for accuracy, features in tried if accuracy >= enough)
    return HeadSet(features, _learned(batch, features), len(features) // 2)


class CombinedRelation(NamedTuple):
    """One relation: right answers by target, each scored by what the other half learned."""

    relation: str
    texts: list[Text]
    hits: dict[str, np.ndarray]
    """System -> [target]; the combination's under an empty name."""
    sets: tuple[HeadSet, HeadSet]


def combine(
    relation: str,
    targets: Sequence[RelationTarget],
    twin: Sequence[RelationTarget] | None,
    halves: Halves,
    offsets: Sequence[int],
) -> CombinedRelation | None:
    """Learn on each half and score on the other; None where a half has too few targets."""
    half = np.array([halves.of(target.text) for target in targets])
    if min((half == CHOOSING).sum(), (half == SCORED).sum()) < OFTEN // 3:
        return None
    units = [target.text.doc if halves.by == "document" and target.text.doc else target.text.id for target in targets]
    sets: list[HeadSet] = []
    hits = {name: np.zeros(len(targets)) for name in ("", SINGLE, OFFSET, *([TWIN] if twin else []))}
    batches = {"": _Batch.of(targets), TWIN: _Batch.of(twin) if twin else None}
    placed = np.array([[_is_right(target, offset) for offset in offsets] for target in targets], float)
    batch = batches[""]
    single = np.stack(
        [batch.hits(batch.features[:, feature]) for feature in range(batch.features.shape[-1])], 1
    ) if batch is not None else placed  # fmt: skip
    for learning, scored in ((CHOOSING, SCORED), (SCORED, CHOOSING)):
        learns, scores = half == learning, half == scored
        named = [unit for unit, chosen in zip(units, learns, strict=True) if chosen]
        for system in ("", TWIN):
            of_system = batches[system]
            if of_system is not None:
                chosen = best_set(of_system.rows(learns), named)
                hits[system][scores] = chosen.hits(of_system.rows(scores))
                sets += [chosen] if not system else []
        hits[SINGLE][scores] = single[scores, int(single[learns].sum(0).argmax())]
        hits[OFFSET][scores] = placed[scores, int(placed[learns].sum(0).argmax())]
    return CombinedRelation(relation, [target.text for target in targets], hits, (sets[0], sets[1]))


def combined_tables(
    encoder: Encoder,
    corpus: Corpus,
    meter: CombinationMeter,
    halves: Halves,
    offsets: Sequence[int],
    *,
    rows: From,
    weights: Weighting,
    samples: int,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Sets of heads of every relation, beside sets of the twin's heads on the same targets."""
    counts = {relation: len(targets) for relation, targets in meter.targets.items() if targets}
    beside = CombinationMeter(counts, seed=seed).as_drawn_by(meter)
    there = {target.text.id for targets in meter.targets.values() for target in targets}
    texts = [text for text in corpus if text.id in there]
    watch(encoder.random_twin(seed), texts, [beside], rows=rows, weights=weights)
    sets = (
        combine(relation, targets, beside.targets.get(relation), halves, offsets)
        for relation, targets in meter.targets.items()
        if targets
    )
    learned = [chosen for chosen in sets if chosen is not None]
    return combination_tables(learned, halves, encoder.heads, samples=samples, seed=seed)


def _is_right(target: RelationTarget, offset: int) -> bool:
    return target.right[0] <= target.word + offset < target.right[1]


def combination_tables(
    combined: Sequence[CombinedRelation], halves: Halves, per_block: int, *, samples: int, seed: int
) -> dict[str, pd.DataFrame]:
    """Every relation beside its baselines, and the weights of its sets of heads."""
    systems = ("", SINGLE, OFFSET, TWIN)
    size = len(systems) + 1
    sums = UnitSums(max(1, len(combined)) * size, halves)
    for place, of_relation in enumerate(combined):
        columns = [of_relation.hits.get(system, np.zeros(len(of_relation.texts))) for system in systems]
        for row, text in enumerate(of_relation.texts):
            values = np.zeros(max(1, len(combined)) * size)
            values[place * size : (place + 1) * size] = [*(column[row] for column in columns), 1]
            sums.add(values, text)
    units = sums.values().reshape(-1, max(1, len(combined)), size)
    drawn = sums.weights(samples=samples, seed=seed)
    members = [
        (place, number_of) for place, of_relation in enumerate(combined) for number_of, system in enumerate(systems)
        if system in of_relation.hits and system
    ]  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    if members:
        ahead = np.stack([units[:, place, 0] - units[:, place, system] for place, system in members], 1)
        counts = np.stack([units[:, place, -1] for place, _ in members], 1)
        tests = sign_flip_family(ahead, counts, alternative="greater", bounds=(-1.0, 1.0), seed=seed)
        for member, (place, system) in enumerate(members):
            of_relation, of_units = combined[place], units[:, place]
            count = of_units[:, -1].sum()
            low, high = ratio_intervals(drawn @ of_units[:, 0], drawn @ of_units[:, -1])
            rows.append((
                of_relation.relation, systems[system], int(count), *(chosen.heads for chosen in of_relation.sets),
                of_units[:, 0].sum() / count, float(low), float(high), of_units[:, system].sum() / count,
                *tests.member(member), halves.by,
            ))  # fmt: skip
    weights = [
        (of_relation.relation, number_of + 1, head // per_block + 1, head % per_block + 1, direction, float(weight))
        for of_relation in combined
        for number_of, chosen in enumerate(of_relation.sets)
        for head, direction, weight in _placed(chosen)
    ]
    return {
        "combinations": pd.DataFrame(rows, columns=list(COMBINATIONS)),
        "combination_weights": pd.DataFrame(weights, columns=list(WEIGHTS)),
    }


def _placed(chosen: HeadSet) -> Iterator[tuple[int, str, float]]:
    """Head, direction and weight, the head counted over all blocks; both directions of each head stand together."""
    heads = sorted(set(chosen.features[: chosen.heads].tolist()))
    for place, head in enumerate(heads):
        yield head, "dependent", float(chosen.weights[place])
        yield head, "head", float(chosen.weights[chosen.heads + place])


def combination_findings(table: pd.DataFrame, most: int = 2) -> Iterator[Finding]:
    """Where several heads find clearly more than the best single one."""
    rows = pd.DataFrame(table[table["baseline"] == SINGLE])
    if rows.empty:
        return
    ranked = rows.sort_values(["p_adjusted", "difference"], ascending=[True, False], na_position="last")
    clear = ranked[(ranked["p_adjusted"] < 0.05) & (ranked["difference"] > 0)].nlargest(most, "difference")
    for row in rows_of(clear if len(clear) else ranked.head(1)):
        what = plural_of(str(row.relation))
        fewest, largest = sorted((int(row.heads), int(row.heads_other)))
        heads = f"{fewest} heads" if fewest == largest else f"{fewest} to {largest} heads"
        yield finding(
            claim=f"A weighted sum of {heads} finds {percent(row.accuracy)} of {what}; the best single head finds "
            f"{percent(row.baseline_accuracy)}",
            whether=f"several heads together find more of {in_words(str(row.relation))} than the best single head",
            absent=f"Several heads together find no more of {what} than the best single head",
            contrast="difference",
            test=Contrast.of(row, *LEAD[:3])._replace(high=math.inf),
            source=Source("combinations", {"relation": row.relation, "baseline": SINGLE}),
            unit=row.unit,
            importance=("answers", "beats control"),
            note=f"Learned on other documents; {number(float(row.count), digits=0)} targets."
            if row.count < OFTEN
            else "",
        )

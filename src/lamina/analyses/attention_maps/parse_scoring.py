"""Parsers scored on texts they have not learned from, as the maps of those texts stream past."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from lamina.analyses.attention_maps.parse_sentences import to_sentence
from lamina.analyses.attention_maps.parse_training import NOBODY, Choice, picked, with_mean
from lamina.analyses.attention_maps.trees import Tree, gold_tree, links_found, right_branching
from lamina.analyses.attention_maps.watching import Watched
from lamina.analyses.resampling import StreamedBootstrap
from lamina.encoders import Encoder
from lamina.probes.parsers import ROOT, AttentionAndWords, AttentionOnly, ParserProbe, Sentence

RIGHT = "right-branching"


class Score(NamedTuple):
    """One system on the scored texts."""

    system: str
    uas: float
    uuas: float
    low: float
    high: float


class _Parsed(NamedTuple):
    """What one system says of a text: each word's head, or weights for a spanning tree, or both."""

    heads: np.ndarray | None
    weights: np.ndarray | None


class Scorer:
    """Counts right heads and right links of every system, and of every system in resampled texts."""

    def __init__(
        self,
        probes: Mapping[str, ParserProbe],
        vectors: Encoder,
        *,
        causal: bool,
        samples: int,
        seed: int,
        trees: Mapping[str, Choice] | None = None,
        picks: Mapping[str, Choice] | None = None,
        baseline: bool = False,
    ) -> None:
        self._probes, self._vectors, self._causal = probes, vectors, causal
        self._trees, self._picks, self._baseline = trees or {}, picks or {}, baseline
        self.systems = [*([RIGHT] if baseline else []), *probes, *self._trees, *self._picks]
        # Right heads of each system, right links of each, words, links.
        self._sums = StreamedBootstrap(2 * len(self.systems) + 2, samples=samples, seed=seed)
        self._weighed = {name: _MeanWeights(probe) for name, probe in probes.items() if isinstance(probe, WEIGHED)}
        self.lone = 0
        """Texts of one word."""
        self.empty = 0
        """Texts without a word to score."""

    def update(self, watched: Watched) -> None:
        """See `Meter`."""
        tree = gold_tree(watched.text)
        self.lone += len(tree.heads) == 1
        self.empty += not tree.scored.any()
        said = self._parse(watched, tree)
        nothing = np.full(len(tree.heads), NOBODY)
        heads = np.stack([nothing if each.heads is None else each.heads for each in said])
        flat = np.zeros((len(tree.heads),) * 2)
        weights = np.stack([flat if each.weights is None else each.weights for each in said])
        right = (heads == tree.heads)[:, tree.scored].sum(1)
        self._sums.add(np.r_[right, links_found(weights, tree), tree.scored.sum(), len(tree.links)])

    def scores(self) -> list[Score]:
        """UAS and UUAS of every system; the interval is of UAS, or of UUAS where there is no UAS."""
        count = len(self.systems)
        value, spread = _ratios(self._sums.value[None], count)[0], _ratios(self._sums.samples, count)
        rows = []
        for at, system in enumerate(self.systems):
            uas = float("nan") if system in self._trees else value[at]
            uuas = float("nan") if system in self._picks else value[count + at]
            drawn = spread[:, count + at if system in self._trees else at]
            drawn = drawn[np.isfinite(drawn)]
            low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) else (np.nan, np.nan)
            rows.append(Score(system, float(uas), float(uuas), float(low), float(high)))
        return rows

    def weights(self) -> dict[str, np.ndarray]:
        """System -> [4, map]: mean weights, over scored words and their true heads, of the dependent's row and column
        in the scores of words, and of the first token and separators in the root's."""
        return {name: mean.value for name, mean in self._weighed.items()}

    def _parse(self, watched: Watched, tree: Tree) -> list[_Parsed]:
        size = len(tree.heads)
        place = np.arange(size)
        said = [_Parsed(right_branching(size), -np.abs(place[:, None] - place).astype(float))] * self._baseline
        sentence = to_sentence(watched, self._vectors, causal=self._causal)
        with torch.no_grad():
            for name, probe in self._probes.items():
                chances = probe(sentence).softmax(1).numpy()
                said.append(_Parsed(chances.argmax(1), chances[:, 1:]))
                if name in self._weighed:
                    self._weighed[name].add(sentence, tree)
        if self._trees or self._picks:
            maps = with_mean(watched)
            said += [_Parsed(None, maps[each.map].numpy()) for each in self._trees.values()]
            found = picked(maps)
            said += [_Parsed(found[int(each.column), each.map], None) for each in self._picks.values()]
        return said


WEIGHED = (AttentionOnly, AttentionAndWords)
"""Probes that weigh maps."""


class _MeanWeights:
    """Means of the weights that true heads got, without keeping any."""

    def __init__(self, probe: AttentionOnly | AttentionAndWords) -> None:
        self._probe = probe
        maps = probe.words.shape[-1]
        self._sums = np.zeros((2, 2, maps))
        self._counts = np.zeros((2, 1, 1))

    def add(self, sentence: Sentence, tree: Tree) -> None:
        heads, scored = torch.from_numpy(tree.heads), torch.from_numpy(tree.scored)
        # Words that are not scored are given some head, and their weights thrown away.
        heads = heads.masked_fill(~scored, ROOT)
        words, root = self._probe.weights(sentence, heads)
        below = heads != ROOT
        for at, kept in enumerate((words, root[scored[~below]])):
            self._sums[at] += kept.double().sum(0).numpy()
            self._counts[at] += len(kept)

    @property
    def value(self) -> np.ndarray:
        return (self._sums / np.maximum(self._counts, 1)).reshape(4, -1)


def _ratios(sums: np.ndarray, systems: int) -> np.ndarray:
    """[sample, 2 * systems] Shares of right heads and of right links."""
    words, links = sums[:, -2:-1], sums[:, -1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.concatenate([sums[:, :systems] / words, sums[:, systems:-2] / links], 1)

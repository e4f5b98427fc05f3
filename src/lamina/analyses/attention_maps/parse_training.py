"""Parser probes learn, and the best heads are chosen, while maps of training texts stream past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.attention_maps.parse_sentences import to_sentence
from lamina.analyses.attention_maps.relations import most_attended
from lamina.analyses.attention_maps.trees import UNKNOWN, gold_tree, links_found
from lamina.analyses.attention_maps.watching import Watched
from lamina.encoders import Encoder
from lamina.probes.parsers import ParserProbe, Sentence
from lamina.types import Text

LEARNING_RATE = 0.002
NOBODY = -2
"""An answer that is never right; unlike UNKNOWN, which is what annotation says where it says nothing."""

_HELD_TEXTS = 1024
_HELD_BYTES = 256 * 2**20


class Learner:
    """Trains probes on one sentence at a time, all of them on the same stream.

    Texts come batch by batch, the longest first. A bounded number of them is held, in half precision, and learned from
    in an order drawn with the seed, so that lengths are mixed.
    """

    def __init__(self, probes: Mapping[str, ParserProbe], vectors: Encoder, *, causal: bool, seed: int) -> None:
        self._probes, self._vectors, self._causal = probes, vectors, causal
        # Adam moves each number by its own gradients alone: one optimiser for all is one for each.
        weights = [weight for probe in probes.values() for weight in probe.parameters()]
        self._adam = torch.optim.Adam(weights, lr=LEARNING_RATE, fused=True)
        self._rng = np.random.default_rng(seed)
        self._held: list[tuple[Sentence, torch.Tensor]] = []
        self._bytes = 0
        self.sentences = 0
        """Learned from so far."""
        self.lone = 0
        """Of them, those of one word."""

    def update(self, watched: Watched) -> None:
        """See `Meter`."""
        heads = torch.from_numpy(gold_tree(watched.text).heads)
        if bool((heads == UNKNOWN).all()):
            return
        sentence = Sentence(*(part.half() for part in to_sentence(watched, self._vectors, causal=self._causal)))
        self._held.append((sentence, heads))
        self._bytes += sum(part.nbytes for part in sentence)
        if len(self._held) >= _HELD_TEXTS or self._bytes >= _HELD_BYTES:
            self.finish()

    def finish(self) -> None:
        """Learn from what is still held."""
        for number in self._rng.permutation(len(self._held)):
            sentence, heads = self._held[number]
            self._step(Sentence(*(part.float() for part in sentence)), heads)
        self._held.clear()
        self._bytes = 0

    def _step(self, sentence: Sentence, heads: torch.Tensor) -> None:
        known = heads != UNKNOWN
        self.sentences += 1
        self.lone += len(heads) == 1
        loss = torch.zeros(())
        for probe in self._probes.values():
            scores = probe(sentence)[known]
            # The sum: each word counts the same, whatever the length of its sentence.
            loss = loss + torch.nn.functional.cross_entropy(scores, heads[known], reduction="sum")
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()


class Choice(NamedTuple):
    """The map that did best on the training texts; the last one is the mean of all heads."""

    map: int
    column: bool
    """Whether a word's head is the word that attends most to it, rather than the one it attends most to."""
    score: float


class HeadChoice:
    """How well each single map, and the mean of all, finds heads (by argmax) and links (by spanning tree)."""

    def __init__(self, maps: int) -> None:
        self._heads = np.zeros((2, maps + 1), int)
        self._links = np.zeros(maps + 1, int)
        self._words = self._pairs = 0

    def update(self, watched: Watched) -> None:
        """See `Meter`."""
        tree = gold_tree(watched.text)
        maps = with_mean(watched)
        self._heads += (picked(maps) == tree.heads)[..., tree.scored].sum(-1)
        self._links += links_found(maps.numpy(), tree)
        self._words += int(tree.scored.sum())
        self._pairs += len(tree.links)

    def best_for_heads(self, *, mean: bool = False) -> Choice:
        """The map and direction whose argmax is most often right: of single heads, or of their mean."""
        return self._best(self._heads, self._words, mean=mean)

    def best_for_links(self, *, mean: bool = False) -> Choice:
        """The map whose spanning trees have most links."""
        return self._best(self._links[None], self._pairs, mean=mean)

    def _best(self, hits: np.ndarray, of: int, *, mean: bool) -> Choice:
        among = hits[:, -1:] if mean else hits[:, :-1]
        column, at = np.unravel_index(int(among.argmax()), among.shape)
        number = hits.shape[1] - 1 if mean else int(at)
        return Choice(number, bool(column), float(among[column, at]) / of if of else float("nan"))


def with_mean(watched: Watched) -> Float[torch.Tensor, "map word word"]:
    """Every head's map between words, and after them their mean."""
    maps = watched.words.maps.flatten(0, 1)
    return torch.cat([maps, maps.mean(0, keepdim=True)])


def picked(maps: Float[torch.Tensor, "map word word"]) -> Int[np.ndarray, "direction map word"]:
    """As candidate numbers, the other word each word gives most to, and the one it gets most from; NOBODY for none."""
    found = most_attended(maps[None])
    return np.where(found < 0, NOBODY, found + 1)


def shuffled(texts: Iterable[Text], seed: int) -> list[Text]:
    """All texts, in an order drawn with the seed: treebanks are sorted by genre."""
    held = list(texts)
    return [held[number] for number in np.random.default_rng(seed).permutation(len(held))]

"""Which word a probe links another to, while parts of the model are changed: attachment, and antecedents.

One run gives the share of links found of every relation, since the same states tell all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.corpora.splits import Splits, divide, thin
from lamina.errors import CorpusError, TaskError
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.probes import parsers as linking
from lamina.stats.units import unit_of
from lamina.targets.probes import TOO_LONG, TRAINING_TEXTS
from lamina.targets.target import Target, TargetScores, link_name
from lamina.types import Text

ALL_LINKS = "all"
BESIDES = "all but "
"""Before a relation: all others together."""


class WordLink(NamedTuple):
    """A word, and those it belongs to."""

    word: int
    right: frozenset[int]
    relation: str


LinksOf = Callable[[Text], Sequence[WordLink]]


class LinksTarget(Target):
    """The share of links that a probe finds at one layer, in all and by relation; an item is a text."""

    def __init__(
        self,
        encoder: HuggingFaceEncoder,
        links_of: LinksOf,
        layer: int,
        texts: Sequence[Text],
        splits: Splits,
        *,
        seed: int = 0,
    ) -> None:
        """The probe learns from the training texts; `texts` are asked about."""
        self._given = (links_of, layer, texts, splits)
        self._seed, self._layer = seed, layer
        self.layers, self.name = (layer,), link_name(ALL_LINKS, layer)
        linked = [text for text in texts if links_of(text)]
        cuts = encoder.word_tokenizer.cut(linked)
        fits = [index for index, cut in enumerate(cuts) if len(cut.tokens.ids) <= encoder.limit]
        readable = [linked[index] for index in fits]
        if not readable:
            raise CorpusError(f"{self.name}: none of the texts has a link that {encoder.name} can read")
        self.rows = [encoder.rows(index, cuts[number])[0] for index, number in enumerate(fits)]
        self.owners = np.arange(len(readable))
        unit = unit_of(readable)
        self.items, self.units = tuple(text.id for text in readable), tuple(unit.of(text) for text in readable)
        self.skipped = +Counter(
            {"texts without a link": len(texts) - len(linked), TOO_LONG: len(linked) - len(readable)}
        )
        self._links = [list(links_of(text)) for text in readable]
        counted = Counter(link.relation for links in self._links for link in links)
        self.relations = tuple(relation for relation, _ in counted.most_common())
        if len(self.relations) == 1:
            self.name = link_name(self.relations[0], layer)
        self.counts = {**counted, ALL_LINKS: counted.total()}
        self._numbers = {relation: index for index, relation in enumerate(self.relations)}
        self._totals = np.zeros((len(readable), len(self.relations)))
        for index, links in enumerate(self._links):
            for link in links:
                self._totals[index, self._numbers[link.relation]] += 1
        self.probe = _trained(encoder, links_of, layer, splits, seed)

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: links found, of each relation."""
        with torch.no_grad():
            answers = self._logits(rows, states).argmax(-1).cpu().numpy()
        right = np.zeros((len(rows), len(self.relations)))
        for index, row in enumerate(rows):
            for link in self._links[row]:
                right[index, self._numbers[link.relation]] += int(answers[index, link.word]) in link.right
        return right

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`: of all links."""
        return self.scores(values, ALL_LINKS)

    def scores(self, values: Float[np.ndarray, "row kept"], relation: str) -> TargetScores:
        """Of the links of one relation, of all, or of all but one."""
        if relation == ALL_LINKS:
            chosen = np.ones(len(self.relations), bool)
        else:
            one = np.arange(len(self.relations)) == self._numbers[relation.removeprefix(BESIDES)]
            chosen = ~one if relation.startswith(BESIDES) else one
        return TargetScores(values[:, chosen].sum(1), self._totals[:, chosen].sum(1))

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: the probe's own, the mean over the row's links."""
        logits = self._logits(rows, states).log_softmax(-1)
        losses = []
        for index, row in enumerate(rows):
            by_link = [-logits[index, link.word, list(link.right)].logsumexp(0) for link in self._links[row]]
            losses.append(torch.stack(by_link).mean())
        return torch.stack(losses)

    def of(self, encoder: HuggingFaceEncoder) -> LinksTarget:
        """See `Target.of`: with a probe of its own, trained on the other encoder's states."""
        return LinksTarget(encoder, *self._given, seed=self._seed)

    def _logits(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, "row word word"]:
        vectors, words = word_means(states[self._layer], [self.rows[row].words for row in rows])
        return self.probe.logits(vectors, words)


def word_means(
    states: Float[Tensor, "row token width"], words: Sequence[Int[np.ndarray, " token"]]
) -> tuple[Float[Tensor, "row word width"], Bool[Tensor, "row word"]]:
    """The mean state of every word's tokens, and which words there are; special tokens belong to none.

    Example:
        >>> means, there = word_means(torch.arange(4.0).reshape(1, 4, 1), [np.array([-1, 0, 0, 1])])
        >>> means.flatten().tolist(), there.tolist()
        ([1.5, 3.0], [[True, True]])
    """
    longest = max(int(numbers.max()) + 1 for numbers in words)
    owner = np.full(states.shape[:2], longest)
    for row, numbers in enumerate(words):
        owner[row, : len(numbers)] = np.where(numbers >= 0, numbers, longest)
    into = torch.from_numpy(owner).to(states.device)
    sums = states.new_zeros(len(words), longest + 1, states.shape[-1], dtype=torch.float32)
    sums = sums.scatter_add(1, into[..., None].expand_as(states), states.float())[:, :longest]
    pieces = torch.zeros(len(words), longest + 1, device=states.device)
    pieces = pieces.scatter_add(1, into, torch.ones_like(into, dtype=torch.float32))[:, :longest]
    return sums / pieces.clamp(min=1)[..., None], pieces > 0


def _trained(
    encoder: HuggingFaceEncoder, links_of: LinksOf, layer: int, splits: Splits, seed: int
) -> linking.LinkingProbe:
    """A probe trained on some of the training texts; texts that are scored are never learned from."""
    train = thin(splits.train, TRAINING_TEXTS, seed)
    division = divide(Splits(train, splits.scored), seed=seed)
    learning = set(division.learn)
    chosen = {*division.learn, *division.stop}
    numbered = [(number, text) for number, text in enumerate(train) if number in chosen and links_of(text)]
    parts: dict[bool, list[linking.LinkedText]] = {True: [], False: []}
    for (number, _), vectors in zip(
        numbered, _vectors(encoder, [text for _, text in numbered], links_of, layer), strict=True
    ):
        parts[number in learning].append(vectors)
    if not parts[True] or not parts[False]:
        raise TaskError(f"the training texts of {splits.name} have too few links for a probe to learn")
    probe = linking.train_linking_probe(parts[True], parts[False], seed=seed, device=encoder.device)
    if not probe.converged:
        raise TaskError(f"a probe of links at layer {layer} of {encoder.name} did not converge")
    return probe


def _vectors(
    encoder: HuggingFaceEncoder, texts: Sequence[Text], links_of: LinksOf, layer: int
) -> Iterable[linking.LinkedText]:
    tokens = encoder.tokenize_all(texts)
    for text, cut, encoded in zip(texts, tokens, encoder.encode(texts), strict=True):
        if encoded.states is not None:
            vectors, _ = word_means(encoded.states[None, :, layer].float(), [cut.words])
            links = tuple((link.word, link.right) for link in links_of(text))
            yield linking.LinkedText(vectors[0].cpu().numpy(), links)

"""n-gram models against Kneser-Ney written out by hand and by definition."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from lamina.analyses.behaviour.inputs import NGrams
from lamina.errors import CorpusError, InputError

Gram = tuple[str, ...]


def drawn(count: int, letters: str, seed: int) -> list[list[str]]:
    """Texts of letters, the first ones more often."""
    draw = np.random.default_rng(seed)
    chances = 1 / np.arange(1, len(letters) + 1)
    return [
        [str(each) for each in draw.choice([*letters], draw.integers(1, 9), p=chances / chances.sum())]
        for _ in range(count)
    ]


class ByDefinition:
    """Interpolated Kneser-Ney with three discounts, one sum at a time."""

    def __init__(self, texts: Sequence[Sequence[str]], order: int) -> None:
        seen: list[Counter[Gram]] = [Counter() for _ in range(order + 1)]
        for text in texts:
            read = ("<start>", *text)
            for end in range(2, len(read) + 1):
                for size in range(1, min(order, end) + 1):
                    seen[size][read[end - size : end]] += 1
        self.order, self.vocabulary = order, len({word for text in texts for word in text})
        self.counts: list[dict[Gram, int]] = [{} for _ in range(order)] + [dict(seen[order])]
        for size in range(1, order):
            before = defaultdict(set)
            for gram in seen[size + 1]:
                before[gram[1:]].add(gram[0])
            self.counts[size] = {
                gram: count if gram[0] == "<start>" else len(before[gram]) for gram, count in seen[size].items()
            }
        self.discounts = [self._discounts(Counter(each.values())) for each in self.counts]

    @staticmethod
    def _discounts(many: Counter[int]) -> list[float]:
        if all(many[times] for times in (1, 2, 3, 4)):
            share = many[1] / (many[1] + 2 * many[2])
            found = [times - (times + 1) * share * many[times + 1] / many[times] for times in (1, 2, 3)]
            if all(0 <= each <= most for most, each in enumerate(found, 1)):
                return [0.0, *found]
        return [0.0, 0.5, 1.0, 1.5]

    def chance(self, word: str, context: Gram) -> float:
        shorter = self.chance(word, context[1:]) if context else 1 / (self.vocabulary + 1)
        level = len(context) + 1
        follow = {gram[-1]: count for gram, count in self.counts[level].items() if gram[:-1] == context}
        if not follow:
            return shorter
        off = self.discounts[level]
        own = follow.get(word, 0)
        freed = sum(off[min(count, 3)] for count in follow.values())
        return (own - off[min(own, 3)] + freed * shorter) / sum(follow.values())

    def logprobs(self, words: Sequence[str]) -> list[float]:
        read = ("<start>", *words)
        return [math.log(self.chance(read[at], read[max(0, at - self.order + 1) : at])) for at in range(1, len(read))]


def test_a_bigram_worked_out_on_paper() -> None:
    model = NGrams.of([["the", "cat", "sat"], ["the", "dog", "sat"]], order=2)
    # Preceded by: the 1 (the start), cat 1, dog 1, sat 2; discounts .5 .5 .5 1 leave half to 5 words, one unknown.
    alone = {"the": 0.2, "cat": 0.2, "dog": 0.2, "sat": 0.3, "cow": 0.1}
    first = 1 / 2 + 1 / 2 * alone["the"]
    then = 0.5 / 2 + 1 / 2 * alone["cat"]
    last = 0.5 / 1 + 0.5 * alone["sat"]
    assert np.exp(model.logprobs(["the", "cat", "sat"])) == pytest.approx([first, then, last])
    # An unknown word is no context: what follows it is told by frequency alone.
    assert np.exp(model.logprobs(["cow", "cat"])) == pytest.approx([1 / 2 * alone["cow"], alone["cat"]])
    assert model.total(["the", "cat"]) == pytest.approx(math.log(first * then))


def test_words_alone_are_told_by_their_frequency() -> None:
    model = NGrams.of([["a"] * 6, ["a", "b", "b"]], order=1)
    # 7 and 2 of 9, less 1.5 and 1; the rest is shared by a, b and the unknown word.
    freed = 2.5 / 9 / 3
    expected = [5.5 / 9 + freed, 1 / 9 + freed, freed]
    assert np.exp(model.logprobs(["a", "b", "c"])) == pytest.approx(expected)
    assert (model.name, model.vocabulary, model.knows("b"), model.knows("c")) == ("unigram", 2, True, False)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_definition_is_met_and_probabilities_sum_to_one(order: int) -> None:
    texts = drawn(60, "abcdefghijklmnop", seed=order)
    model, slow = NGrams.of(texts, order), ByDefinition(texts, order)
    for asked in (*drawn(8, "abcdefgz", seed=9), texts[0]):
        assert model.logprobs(asked) == pytest.approx(slow.logprobs(asked), abs=1e-12)
    words = [*{word for text in texts for word in text}, "unknown"]
    for context in ([], ["a"], ["a", "b"], ["unknown", "a"], ["c", "a", "b", "a"], texts[0]):
        chances = [math.exp(model.logprobs([*context, word])[-1]) for word in words]
        assert sum(chances) == pytest.approx(1, abs=1e-12)


def test_what_cannot_be_learned_from_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        NGrams.of([["a"]], order=0)
    with pytest.raises(CorpusError, match="at least one word"):
        NGrams.of([])

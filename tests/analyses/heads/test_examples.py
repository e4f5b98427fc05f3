"""Examples of what heads do: the strongest links, and misses that agree with the scores of `heads`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lamina.analyses.heads.heads import heads
from lamina.analyses.heads.look import MOST_EXAMPLES, LinkQuery, examples_of, queries_for
from lamina.models import Tokens
from lamina.testing import TinyEncoder
from lamina.types import Text
from tests.analyses.heads.test_heads import CHASE, MAPS, WORDS, Painted, corpus_of, dep, to

ENDS = ("one", "two", "three", "four", "five", "six", "seven")


def texts_of(count: int = 4) -> list[Text]:
    return [Text(f"s{end}", (*WORDS[:3], end), edges={"dep": CHASE}) for end in ENDS[:count]]


def test_a_miss_is_the_word_chosen_beside_the_right_one():
    texts = texts_of(1)
    found = examples_of(
        Painted({texts[0].id: MAPS}), texts, {(1, 1): LinkQuery("obj", "head"), (1, 2): LinkQuery("obj", "dependent")}
    )
    # Head 1 sends every word to the verb but the verb to the stop: nothing but itself attends to the object.
    (miss,) = found[1, 2].misses
    assert (miss.word, miss.chosen, miss.right, miss.relation) == (2, 3, 1, "obj")
    assert (miss.weight, miss.right_weight) == pytest.approx((0.4, 0.0))
    assert (found[1, 2].targets, found[1, 2].hits) == (1, 0)
    # What no word attends to has no answer: it counts as missed, and there is nothing to show.
    assert found[1, 1][1:4] == ([], 1, 0)


def test_the_strongest_link_runs_from_who_attends_in_either_direction():
    texts = texts_of(1)
    sought = {(1, 1): LinkQuery("obj", "dependent"), (1, 2): LinkQuery("obj", "head")}
    found = examples_of(Painted({texts[0].id: MAPS}), texts, sought)
    (one,), (other,) = found[1, 1].best, found[1, 2].best
    assert (one.source, one.target, one.relation) == (2, 1, "obj")
    assert (other.source, other.target, other.relation) == (1, 2, "obj")
    assert found[1, 1].misses == found[1, 2].misses == []


def test_five_misses_are_kept_one_per_sentence_those_with_the_most_on_a_wrong_word():
    texts = texts_of(7)
    maps = {}
    for at, text in enumerate(texts):
        wrong = to(1, 3, 3, 1)
        wrong[2, 3] = 0.1 + 0.05 * at
        maps[text.id] = wrong[None, None]
    # The last sentence is in the corpus twice.
    twice = replace(texts[-1], id="again")
    maps["again"] = maps[texts[-1].id]
    shown = examples_of(Painted(maps), [*texts, twice], {(1, 1): LinkQuery("obj", "dependent")})[1, 1]
    assert [each.weight for each in shown.misses] == pytest.approx([0.4, 0.35, 0.3, 0.25, 0.2])
    assert len({each.text.id for each in shown.misses}) == MOST_EXAMPLES
    assert (shown.targets, shown.hits) == (8, 0)


def test_words_next_to_each_other_can_be_missed_too_and_any_link_cannot():
    text = Text("s", WORDS, edges={"dep": CHASE})
    # Word 3 looks at the first one, not at the one before it.
    maps = torch.stack([to(1, 0, 1, 0), to(1, 0, 1, 0)])[None]
    found = examples_of(Painted({"s": maps}), [text], {(1, 1): LinkQuery(offset=-1), (1, 2): LinkQuery()})
    assert (found[1, 1].targets, found[1, 1].hits) == (3, 2)
    assert [(each.word, each.chosen, each.right) for each in found[1, 1].misses] == [(3, 0, 2)]
    assert (found[1, 2].targets, found[1, 2].misses) == (0, [])


class WithoutStart(TinyEncoder):
    """A decoder whose texts begin with their first word."""

    def tokenize(self, text: Text) -> Tokens:
        tokens = super().tokenize(text)
        return tokens._replace(words=np.where(np.arange(len(tokens.words)), tokens.words, 0))


def test_links_to_the_first_word_of_a_decoder_are_no_examples_but_counted():
    any_link = {(1, 1): LinkQuery()}
    sunk = examples_of(WithoutStart(causal=True), texts_of(3), any_link)[1, 1]
    plain = examples_of(TinyEncoder(causal=True), texts_of(3), any_link)[1, 1]
    assert {each.target for each in plain.best} == {0}
    assert 0 not in {each.target for each in sunk.best}
    assert sunk.to_sinks > 0


def test_the_sign_of_a_possessor_is_asked_as_it_is_scored():
    edges = (dep("nmod:poss", 0, 2), dep("case", 1, 0), dep("root", 2, 2))
    text = Text("s", ("Kim", "'s", "dog"), edges={"dep": edges})
    shown = examples_of(Painted({"s": to(1, 2, 0)[None, None]}), [text], {(1, 1): LinkQuery("nmod:poss", "dependent")})
    assert (shown[1, 1].hits, shown[1, 1].best[0].source) == (1, 1)


@pytest.mark.parametrize("relation", ["obj", "all", "all without punctuation"])
@pytest.mark.parametrize("causal", [False, True])
def test_counts_are_those_of_the_analysis_in_the_direction_that_finds_more(relation, causal):
    """The same texts, the same rule: accuracies have to be equal."""
    texts, encoder = texts_of(7), TinyEncoder(blocks=2, heads=3, width=24, causal=causal)
    result = heads(encoder, corpus_of(texts), samples=2)
    sought = queries_for(relation, {"heads": result}, 2, 3)
    table = result.tables["relations"]
    scored = table[table["relation"] == relation].groupby(["layer", "head"])["accuracy"].max()
    for place, shown in examples_of(encoder, texts, sought).items():
        assert shown.hits / shown.targets == pytest.approx(scored[place])
        assert len(shown.misses) <= shown.targets - shown.hits
        assert all(miss.chosen != miss.right and miss.weight >= miss.right_weight for miss in shown.misses)

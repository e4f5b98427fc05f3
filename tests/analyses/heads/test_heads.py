"""Heads as dependency classifiers, on maps made by hand whose answers are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.analyses.heads.heads import DIRECTIONS, OFFSETS, RelationMeter, heads, most_attended, relations_of
from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.framework.verify import check_findings
from lamina.framework.watch import WatchedBatch, WatchedText, watch
from lamina.models import SPECIAL, Activations, Encoder, Tokens
from lamina.stats.units import CHOOSING, SCORED, Halves, halve
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text


class Painted(Encoder):
    """Gives every text the map between words that was painted for it; the rest of a row goes to [SEP]."""

    name, blocks, heads, width = "painted", 1, 1, 1

    def __init__(self, maps: Mapping[str, torch.Tensor]) -> None:
        """Text id -> [block, head, word, word]."""
        self._maps = maps
        self.blocks, self.heads = next(iter(maps.values())).shape[:2]

    @property
    def fingerprint(self) -> str:
        return "painted"

    def tokenize(self, text: Text) -> Tokens:
        words = [SPECIAL, *range(len(text.words)), SPECIAL]
        return Tokens(np.arange(len(words)), np.array(words))

    def encode(self, texts: Iterable[Text], want=("states",), *, ordered: bool = True) -> Iterator[Activations]:
        for text in texts:
            between = self._maps[text.id]
            size = between.shape[-1] + 2
            whole = torch.zeros(*between.shape[:2], size, size)
            whole[..., 1:-1, 1:-1] = between
            whole[..., -1] = 1 - whole.sum(-1)
            yield Activations(text.id, self.tokenize(text), None, whole)


def corpus_of(texts: list[Text]) -> Corpus:
    return Corpus("own", "dev", "sentence", "none", fingerprint_of([text.id for text in texts]), lambda: iter(texts))


def dep(relation: str, dependent: int, head: int) -> Edge:
    return Edge((relation,), Span(dependent, dependent + 1), Span(head, head + 1))


def to(*targets: int) -> torch.Tensor:
    """Word i gives 0.5 to itself and 0.4 to the i-th target."""
    weights = torch.eye(len(targets)) * 0.5
    for word, target in enumerate(targets):
        weights[word, target] = 0.4
    return weights


CHASE = (dep("nsubj", 0, 1), dep("root", 1, 1), dep("obj", 2, 1), dep("punct", 3, 1))
WORDS = ("Dogs", "chase", "cats", ".")
# The first head sends all words to the verb, and the verb to the stop; the second sends the verb to its object.
MAPS = torch.stack([torch.stack([to(1, 3, 1, 1), to(3, 2, 3, 0)])])


@pytest.fixture
def chasing() -> tuple[Painted, Corpus]:
    texts = [Text(f"s{number}", WORDS, edges={"dep": CHASE}) for number in range(4)]
    return Painted({text.id: MAPS for text in texts}), corpus_of(texts)


def accuracy(table: pd.DataFrame, relation: str, direction: str, head: int) -> float:
    found = table[(table["relation"] == relation) & (table["direction"] == direction) & (table["head"] == head)]
    return found["accuracy"].item()


def test_both_directions_of_every_head_are_scored_without_the_diagonal(chasing):
    table = heads(*chasing, samples=10).tables["relations"]
    assert list(table.columns) == [
        "relation", "direction", "layer", "head", "count", "accuracy", "low", "high", "offset", "offset_accuracy",
        "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed",
    ]  # fmt: skip
    known = {
        ("nsubj", "dependent", 1): 1, ("obj", "dependent", 1): 1, ("punct", "dependent", 1): 1,
        ("nsubj", "head", 1): 0, ("obj", "head", 1): 0, ("punct", "head", 1): 1,
        ("nsubj", "dependent", 2): 0, ("obj", "head", 2): 1, ("punct", "head", 2): 0,
        ("all", "dependent", 1): 1, ("all", "head", 1): 1 / 3, ("all without punctuation", "head", 1): 0,
        ("all without punctuation", "head", 2): 1 / 2,
    }  # fmt: skip
    for (relation, direction, head), share in known.items():
        assert accuracy(table, relation, direction, head) == pytest.approx(share), (relation, direction, head)
    counts = table.drop_duplicates("relation").set_index("relation")["count"].to_dict()
    assert counts == {"all": 12, "all without punctuation": 8, "nsubj": 4, "obj": 4, "punct": 4}
    assert "root" not in set(table["relation"])
    assert set(table["layer"]) == {1}


def test_best_offsets_and_right_branching(chasing):
    tables = heads(*chasing, samples=10).tables
    offsets = tables["relations"].drop_duplicates("relation").set_index("relation")
    assert offsets["offset"].to_dict() == {
        "all": -2, "all without punctuation": -1, "nsubj": 1, "obj": -1, "punct": -2,
    }  # fmt: skip
    assert offsets.loc["all", "offset_accuracy"] == pytest.approx(1 / 3)
    assert offsets.loc["obj", "offset_accuracy"] == 1
    baselines = tables["baselines"]
    assert list(baselines.columns) == ["system", "relation", "count", "accuracy", "low", "high"]
    right = baselines[baselines["system"] == "right-branching"].set_index("relation")["accuracy"]
    assert right.to_dict() == {"all": pytest.approx(1 / 3), "all without punctuation": 0.5}
    assert len(baselines) == len(OFFSETS) * 5 + 2


def test_where_a_possessor_is_followed_by_its_sign_the_sign_answers():
    words = ("Kim", "'s", "dog", "barks")
    edges = (dep("nmod:poss", 0, 2), dep("case", 1, 0), dep("nsubj", 2, 3), dep("root", 3, 3))
    # Kim attends to the verb, its sign to the dog.
    texts = [
        Text("a", words, edges={"dep": edges}),
        Text("b", ("Her", "dog"), edges={"dep": (dep("nmod:poss", 0, 1),)}),
    ]
    encoder = Painted({"a": to(3, 2, 3, 0)[None, None], "b": to(1, 0)[None, None]})
    tables = heads(encoder, corpus_of(texts), samples=10, faithful=True).tables
    assert accuracy(tables["relations"], "nmod:poss", "dependent", 1) == 1
    assert accuracy(tables["relations"], "case", "dependent", 1) == 0
    # The dog is one to the right of the sign, and one to the right of Her.
    row = tables["best"].set_index("relation").loc["nmod:poss"]
    assert (row["offset"], row["offset_accuracy"]) == (1, 1)
    # A tree in which every word hangs on the next knows no such rule: of the four words only dog and Her do.
    right = tables["baselines"].query("system == 'right-branching' and relation == 'all'")
    assert right["accuracy"].item() == pytest.approx(2 / 4)


def test_nobody_attends_to_a_decoders_last_word():
    causal = torch.tril(torch.rand(1, 3, 3))
    causal[..., 0, 0] = 0.1
    found = most_attended(causal)
    assert found[0, 0, 0] == -1
    assert found[1, 0, 2] == -1
    assert found[1, 0, 0] in (1, 2)


def test_each_half_is_scored_by_the_head_that_the_other_chose():
    texts = [Text(f"s{i}", WORDS, edges={"dep": CHASE}, doc=f"d{i % 6}") for i in range(12)]
    halves = halve(texts, seed=3)
    # In the choosing half the first head finds objects; in the other half only the second does.
    fooled = torch.stack([torch.stack([to(3, 3, 1, 2), to(3, 3, 3, 2)])])
    turned = torch.stack([torch.stack([to(3, 3, 3, 2), to(3, 3, 1, 2)])])
    maps = {text.id: fooled if halves.of(text) == CHOOSING else turned for text in texts}
    corpus = corpus_of(texts)
    best = heads(Painted(maps), corpus, samples=10, seed=3).tables["best"].set_index("relation").loc["obj"]
    assert (best["direction"], best["crossfit_accuracy"], best["count"], best["agrees"]) == ("dependent", 0, 12, False)
    assert (best["crossfit_low"], best["crossfit_high"]) == (0, 0)
    # The best offset finds all objects, in both halves; the best head those of one half.
    assert (best["offset"], best["crossfit_offset_accuracy"], best["offset_accuracy"]) == (-1, 1, 1)
    assert (best["accuracy"], best["difference"]) == (0.5, -0.5)
    lucky = heads(Painted(maps), corpus, samples=10, seed=3, faithful=True).tables["best"].set_index("relation")
    assert (lucky.loc["obj", "accuracy"], lucky.loc["obj", "count"]) == (0.5, 12)
    assert np.isnan(lucky.loc["obj", "crossfit_accuracy"])


def test_relations_of_too_few_dependencies_are_not_tested():
    texts = [Text(f"s{i}", WORDS, edges={"dep": CHASE}) for i in range(29)]
    tables = heads(Painted({text.id: MAPS for text in texts}), corpus_of(texts), samples=10).tables
    for name in ("relations", "best"):
        tested = tables[name].dropna(subset=["p_adjusted"])
        assert set(tested["relation"]) == {"all", "all without punctuation"}
    best = tables["best"].set_index("relation")
    assert best["kind"].to_dict() == {
        "all": "together", "all without punctuation": "together", "nsubj": "rare", "obj": "rare",
        "punct": "punctuation",
    }  # fmt: skip
    # All documents say the same: no flip but the one that changes nothing reaches it, and p does not grow with the
    # family.
    row = best.loc["all"]
    assert row["p_adjusted"] == pytest.approx(1 / 10_001)
    assert (row["accuracy"], row["offset_accuracy"], row["agrees"]) == (1, pytest.approx(1 / 3), True)


def documents_of(lengths: list[int]) -> tuple[Painted, Corpus]:
    """Documents of so many sentences; the first head finds all nouns' heads, offsets one in two."""
    texts, maps = [], {}
    for document, length in enumerate(lengths):
        for at in range(length):
            turned = at % 2 == 0
            words = ("Dogs", "chase", "cats", "now") if turned else ("cats", "now", "chase", "Dogs")
            verb = 1 if turned else 2
            edges = (dep("root", verb, verb), *(dep("obj", word, verb) for word in range(4) if word != verb))
            name = f"d{document}s{at}"
            texts.append(Text(name, words, edges={"dep": edges}, doc=f"d{document}"))
            maps[name] = to(*(verb if word != verb else (verb + 1) % 4 for word in range(4)))[None, None]
    return Painted(maps), corpus_of(texts)


def test_wrong_1_a_lead_is_named_with_13_documents_however_many_tests():
    lengths = np.random.default_rng(0).integers(5, 40, 13).tolist()
    encoder, corpus = documents_of(lengths)
    found = heads(encoder, corpus, samples=50)
    first = found.findings[0]
    assert (first.status, first.n, first.unit) == ("clear", 13, "document")
    assert first.text.startswith("Head 1-1 finds 100 % of objects; the best fixed offset finds ")
    assert check_findings(found) == []


def test_wrong_1_few_documents_are_untested_and_the_sentence_says_how_many_are_needed():
    encoder, corpus = documents_of([9, 12, 15, 18, 21])
    found = heads(encoder, corpus, samples=50)
    assert found.findings[0].status == "untested"
    assert found.findings[0].text.startswith(
        "5 documents are too few to test whether a head finds any relation more often than the best fixed offset; at "
        "least 6 are needed."
    )
    assert found.tables["best"]["p_adjusted"].isna().all()
    assert check_findings(found) == []


def test_wrong_1_texts_are_units_where_there_is_one_document():
    encoder, corpus = documents_of([20])
    found = heads(encoder, corpus, samples=50)
    assert (found.findings[0].status, found.findings[0].unit, found.findings[0].n) == ("clear", "text", 20)


def test_a_relation_of_one_half_only_has_no_cross_fitted_score_and_is_counted():
    rare = (*CHASE[:2], dep("iobj", 2, 1), CHASE[3])
    texts = [Text(f"s{i}", WORDS, edges={"dep": CHASE}) for i in range(4)]
    halves = halve(texts, seed=0)
    odd = next(i for i, text in enumerate(texts) if halves.of(text) == SCORED)
    texts[odd] = replace(texts[odd], edges={"dep": rare})
    result = heads(Painted({text.id: MAPS for text in texts}), corpus_of(texts), samples=10)
    assert "iobj" in set(result.tables["relations"]["relation"])
    assert np.isnan(result.tables["best"].set_index("relation").loc["iobj", "crossfit_accuracy"])
    assert result.provenance.skipped["relations that only one half of the texts has, without a cross-fitted score"] == 1


@given(st.lists(st.integers(2, 7), min_size=2, max_size=5), st.integers(0, 99))
def test_the_meter_agrees_with_counting_one_by_one(lengths: list[int], seed: int):
    draw = np.random.default_rng(seed)
    texts, maps, found = [], {}, []
    for number, size in enumerate(lengths):
        tree = [(word, int(draw.integers(size)), str(draw.choice(["nsubj", "obj", "punct"]))) for word in range(size)]
        edges = tuple(dep(relation, word, head) for word, head, relation in tree)
        texts.append(Text(str(number), ("w",) * size, edges={"dep": edges}))
        maps[str(number)] = torch.from_numpy(draw.dirichlet(np.ones(size), (2, 3, size))).float() * 0.9
        for block in range(2):
            for head in range(3):
                weights = maps[str(number)][block, head].numpy() * (1 - np.eye(size))
                for direction, matrix in zip(DIRECTIONS, (weights, weights.T), strict=True):
                    found += [
                        (relation, direction, block * 3 + head, matrix[word].argmax() == up)
                        for word, up, relation in tree
                        if word != up
                    ]
    relations = relations_of(texts)
    meter = RelationMeter(6, relations, halve(texts, 0), samples=5, seed=0)
    watch(Painted(maps), texts, [meter])
    slow = pd.DataFrame(found, columns=["relation", "direction", "head", "right"])
    for relation in set(relations) - {"all", "all without punctuation"}:
        for at, direction in enumerate(DIRECTIONS):
            own = slow[(slow["relation"] == relation) & (slow["direction"] == direction)]
            expected = own.groupby("head")["right"].sum().to_numpy()
            np.testing.assert_array_equal(meter.sums().heads[at, :, meter.relations.index(relation)], expected)
    assert meter.sums().counts.tolist() == [relations[name] for name in meter.relations]


def test_intervals_cover_the_share_and_shrink_with_more_texts():
    def width(count: int) -> float:
        texts = [Text(str(i), WORDS, edges={"dep": CHASE}) for i in range(count)]
        maps = {text.id: MAPS if int(text.id) % 2 else MAPS.flip(1) for text in texts}
        row = heads(Painted(maps), corpus_of(texts), samples=300).tables["relations"].query("relation == 'obj'").iloc[0]
        assert row["low"] < row["accuracy"] < row["high"]
        return row["high"] - row["low"]

    few, many = width(16), width(256)
    assert 3 < few / many < 5.5


def test_halves_keep_documents_together_and_are_the_same_on_every_machine():
    texts = [Text(str(i), ("w",), doc=f"d{i % 5}") for i in range(20)]
    halves = halve(texts, seed=1)
    assert halves == halve(reversed(texts), seed=1)
    assert len(halves.choosing) == 2
    assert {len({halves.of(text) for text in texts if text.doc == f"d{i}"}) for i in range(5)} == {1}
    assert any(halve(texts, seed=seed) != halves for seed in range(2, 8))
    alone = halve([replace(text, doc="d") for text in texts], seed=1)
    assert (alone.by, len(alone.choosing)) == ("text", 10)


def test_wrong_16_examples_are_whole_maps_of_the_heads_that_clearly_lead_their_offset():
    words = ("Dogs", "always", "chase", "small", "cats")
    edges = (dep("nsubj", 0, 2), dep("advmod", 1, 2), dep("root", 2, 2), dep("amod", 3, 4), dep("obj", 4, 2))
    moved = (dep("nsubj", 0, 4), dep("advmod", 1, 2), dep("root", 2, 2), dep("amod", 3, 4), dep("obj", 4, 2))
    texts = [Text(f"s{i}", words, edges={"dep": moved if i % 2 else edges}) for i in range(40)]
    maps = {text.id: to(4 if i % 2 else 2, 0, 1, 0, 0)[None, None] for i, text in enumerate(texts)}
    table = heads(Painted(maps), corpus_of(texts), samples=10, faithful=True).tables["examples"]
    assert list(table.columns) == [
        "relation", "direction", "layer", "head", "text_id", "word_from", "word_to", "from", "to", "weight", "gold",
    ]  # fmt: skip
    assert set(table["relation"]) == {"nsubj"}
    assert list(table["text_id"].unique()) == ["s0", "s1"]
    assert len(table) == 2 * 5 * 6
    gold = table[table["gold"]]
    assert gold[["word_from", "word_to", "from", "to"]].to_numpy().tolist() == [
        ["Dogs", "chase", 0, 2], ["Dogs", "cats", 0, 4],
    ]  # fmt: skip
    assert table.groupby(["text_id", "from"])["weight"].sum().to_numpy() == pytest.approx(1)


def test_words_from_the_first_piece_or_from_all_are_two_questions():
    texts = [Text(str(i), ("unhesitating", "dogs", "barked", "."), edges={"dep": CHASE}) for i in range(4)]
    mean, first = (heads(TinyEncoder(), corpus_of(texts), rows=rows, samples=5) for rows in ("mean", "first"))
    assert mean.key != first.key
    assert first.provenance.parameters == {
        "rows": "first", "weights": "attention", "faithful": False, "stanford": False, "relations": "dep",
        "combine": False, "samples": 5, "seed": 0,
    }  # fmt: skip


def test_a_meter_keeps_sums_and_nothing_of_a_text():
    meter = RelationMeter(2, {"nsubj": 1, "all": 1}, Halves(frozenset(), "text"), samples=5, seed=0)
    text = Text("t", ("Dogs", "bark"), edges={"dep": (dep("root", 1, 1),)})
    watched = WatchedText(text, Painted({"t": MAPS}).tokenize(text), torch.rand(1, 2, 4, 4))
    meter.update(WatchedBatch.of([watched]))
    assert meter.sums().counts.tolist() == [0, 0]

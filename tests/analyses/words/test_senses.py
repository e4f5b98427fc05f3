"""`lamina.senses` as a whole: tables, baselines, comparisons, and input that has no senses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import lamina
from lamina.analyses.words.senses.predictions import (
    BEST,
    DIFFERENCES,
    PairedHits,
    SenseScores,
    best_rows,
    drawn_rows,
    paired_rows,
)
from lamina.analyses.words.senses.targets import annotations_of, averaged_contexts, read_targets
from lamina.corpora import Splits, corpus_from
from lamina.errors import CorpusError, InputError
from lamina.figures.senses import draw
from lamina.framework.verify import check_findings
from lamina.models.static import StaticEncoder
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text
from tests.analyses.words.planted_senses import splits, targets

TRAIN = 56
"""Texts among which no word has two senses equally often."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    where = tmp_path_factory.mktemp("store")
    return lamina.senses(TinyEncoder(), splits(TRAIN, 30), vectors=["skip-gram"], samples=50, moved=5, store=where)


def test_every_measure_has_a_baseline_and_an_interval(result: Result) -> None:
    table = result.tables["senses"]
    assert list(table.columns) == ["layer", "measure", "value", "low", "high", "baseline"]
    names = set(table["measure"])
    assert {"knn5.ambiguous", "knn1.all", "centroid.all", "twin.knn5.ambiguous", "skip-gram.knn5.all"} <= names
    assert {"skip-gram.w1.knn5.all", "skip-gram.w8.knn5.ambiguous", "scored_majority.ambiguous"} <= names
    assert {"chosen.ambiguous", "ami", "ami.null", "ami.stability", "position.both", "moved.sentence", "near"} <= names
    told = table.dropna(subset=["value", "low"])
    assert (told["low"] <= told["value"] + 1e-9).all()
    assert (told["value"] <= told["high"] + 1e-9).all()
    assert told["baseline"].notna().all()
    assert table.loc[table["measure"].str.startswith("skip-gram"), "layer"].isna().all()


def test_the_baseline_is_the_most_frequent_sense_counted_by_hand(result: Result) -> None:
    train, dev = ([*each] for each in (splits(TRAIN, 30).train, splits(TRAIN, 30).scored))

    def senses(texts: list[Text]) -> list[tuple[str, str]]:
        return [(text.words[edge.span.start], edge.labels[0]) for text in texts for edge in text.edges["supersense"]]

    counts: dict[str, dict[str, int]] = {}
    for word, label in senses(train):
        counts.setdefault(word, {}).setdefault(label, 0)
        counts[word][label] += 1
    asked = [(word, label) for word, label in senses(dev) if len(counts[word]) > 1]
    # Where two senses are as frequent, any of them may be taken.
    assert all(len(set(own.values())) == len(own) for own in counts.values())
    right = [max(counts[word], key=lambda each: counts[word][each]) == label for word, label in asked]
    table = result.tables["senses"]
    assert table.loc[table["measure"] == "knn5.ambiguous", "baseline"].iloc[0] == pytest.approx(np.mean(right))
    assert result.provenance.corpus["scored"]["ambiguous words"] == len(asked)


def test_differences_are_of_the_same_targets(result: Result) -> None:
    table, gaps = result.tables["senses"], result.tables["differences"]
    bags = {"skip-gram", *(f"skip-gram.w{size}" for size in (1, 2, 4, 8))}
    named = set(gaps["against"])
    assert named >= {"most_frequent", "scored_majority", "layer_0", "twin", *bags}
    assert named - {"most_frequent", "scored_majority", "layer_0", "twin", *bags} == {
        "shuffled senses",
        "shuffled places",
    }
    own = table[table["measure"] == "knn5.ambiguous"].set_index("layer")
    beside = gaps[(gaps["measure"] == "knn5.ambiguous") & (gaps["against"] == "most_frequent")].set_index("layer")
    expected = (own["value"] - own["baseline"]).to_numpy()
    assert beside["difference"].to_numpy() == pytest.approx(expected)
    assert (beside["family"] == "most_frequent, layers").all()
    chosen = gaps[gaps["measure"] == "chosen.ambiguous"]
    assert set(chosen[chosen["family"] == "bags of words"]["against"]) == bags
    assert 1 <= len(result.findings) <= 6
    assert check_findings(result) == []
    assert set(draw(result)) == {"senses", "position"}


def made_result(rows: list[tuple], best: Sequence[tuple] = ()) -> Result:
    """A result with these rows of differences."""
    tables = {
        "senses": pd.DataFrame(columns=["layer", "measure", "value", "low", "high", "baseline"]),
        "differences": pd.DataFrame(rows, columns=list(DIFFERENCES)).astype({"layer": "Int64", "window": "Int64"}),
        "best": pd.DataFrame(best, columns=list(BEST)),
    }
    return Result("senses", tables, Provenance({"name": "m"}, {"name": "c"}, {"k": [5]}))


def test_wrong_11_the_model_is_compared_with_the_best_bag_of_words_windows_among_them() -> None:
    """A bag of +-1 words had .574 of the model's .608; beside the whole sentence (.432) "order and depth" added."""
    rng = np.random.default_rng(0)
    model = rng.binomial(20, 0.608, 40).astype(float)
    near = model - rng.integers(-3, 4, 40)
    whole = rng.binomial(20, 0.432, 40).astype(float)
    pairs = [PairedHits(None, "input", model, whole), PairedHits(None, "input.w1", model, near)]
    result = made_result([*paired_rows("chosen.ambiguous", "bags of words", pairs, np.full(40, 20.0))])
    (told,) = lamina.senses.findings(result)
    assert told.status in ("open", "null")
    assert "input embeddings of up to 1 word away, the best bag of words" in told.text
    assert "rder and depth" not in told.text
    assert check_findings(replace(result, findings=(told,))) == []


def test_wrong_11_the_harder_constant_answer_is_told_where_training_and_scored_texts_differ_in_their_majority() -> None:
    """CoarseWSD: the training majority is the rare sense of the scored texts, and the other constant gives .952."""
    train = [text(f"t{at}", "mole", "spy" if at % 10 else "animal", doc=f"t{at}") for at in range(40)]
    dev = [text(f"d{at}", "mole", "animal" if at % 20 else "spy", doc=f"d{at // 2}") for at in range(120)]
    data = read_targets(Splits(corpus_from(train), corpus_from(dev)), None)
    scores = SenseScores(data, samples=50, seed=0)
    assert scores.most_frequent.mean() == pytest.approx(0.05)
    assert scores.scored_majority.mean() == pytest.approx(0.95)
    hits = scores.ambiguous(scores.scored_majority)
    pairs = [
        PairedHits(None, name, hits, scores.ambiguous(getattr(scores, name)))
        for name in ("most_frequent", "scored_majority")
    ]
    rows = [*paired_rows("chosen.ambiguous", "constant answers", pairs, scores.counts)]
    (told,) = lamina.senses.findings(made_result(rows))
    assert "each word's most frequent sense in other scored documents" in told.text
    assert told.status != "clear", "no better than that constant"


def test_a_word_that_is_scored_once_does_not_choose_its_own_constant() -> None:
    train = [text(f"t{at}{sense}", f"w{at}", sense, doc=f"t{at}") for at in range(30) for sense in ("a", "a", "b")]
    dev = [text(f"d{at}", f"w{at}", "b", doc=f"d{at}") for at in range(30)]
    data = read_targets(Splits(corpus_from(train), corpus_from(dev)), None)
    assert SenseScores(data, samples=10, seed=0).scored_majority.sum() == 0


def test_windows_of_static_vectors_are_the_words_around_the_word() -> None:
    words = ("far", "left", "mole", "right", "beyond")
    train = [Text(sense, ("mole", sense), edges={"sense": (Edge((sense,), Span(0, 1)),)}) for sense in "ab"]
    scored = Text("z", words, edges={"sense": (Edge(("a",), Span(2, 3)),)})
    data = read_targets(Splits(corpus_from(train), corpus_from([scored])), None)
    vectors = StaticEncoder([*words], np.eye(5, dtype=np.float32), name="eye")
    found = {size: bag[-1] for size, bag in averaged_contexts(vectors, data, (1, 2, 9), Counter())}
    third = 3**-0.5
    assert found[1].tolist() == pytest.approx([0, third, third, third, 0])
    assert found[2].tolist() == found[9].tolist() == found[None].tolist() == pytest.approx([5**-0.5] * 5)


def test_too_few_documents_are_untested() -> None:
    own, theirs = np.full(5, 9.0), np.full(5, 1.0)
    rows = [
        *paired_rows("chosen.ambiguous", "constant answers", [PairedHits(None, "most_frequent", own, theirs)], own + 1)
    ]
    (told,) = lamina.senses.findings(made_result(rows))
    assert told.text.startswith("5 documents are too few to test whether neighbours find the sense of ambiguous words")


def test_position_and_clusters_are_told_with_the_set_of_layers() -> None:
    rng = np.random.default_rng(0)
    own, shuffled = np.array([0.5, 0.1]), np.zeros(2)
    draws = own + rng.normal(0, 0.02, (500, 2))
    rows = [*drawn_rows("position.both", "shuffled places", np.stack([own, shuffled], 1), draws, 30)]
    rows += drawn_rows("position.both", "twin", np.stack([own, own + 0.3], 1), draws - own - 0.3, 30)
    (high, last) = lamina.senses.findings(made_result(rows, [*best_rows("position.both", own, draws, 30)]))
    assert high.text.startswith(
        "At layer 0 the place in the sentence explains 50 % of a word's variance; shuffled places explain 0 %; layer 0 "
        "can be the highest (difference .50 [."
    )
    assert last.text.startswith(
        "At layer 1 the place explains less of a word's variance than in the untrained twin: 10 %, twin 40 %"
    )
    assert {high.status, last.status} == {"clear"}


def test_words_add_up_to_the_whole(result: Result) -> None:
    words, table = result.tables["words"], result.tables["senses"]
    own = words[words["layer"] == 1]
    told = table[(table["measure"] == "knn5.ambiguous") & (table["layer"] == 1)]["value"].iloc[0]
    assert (own["value"] * own["scored"]).sum() / own["scored"].sum() == pytest.approx(told)


def test_the_chosen_layer_is_scored_on_other_documents() -> None:
    data = targets()
    scores = SenseScores(data, samples=20, seed=0)
    rng = np.random.default_rng(0)
    # 40 layers that know nothing: the best of them looks good, what others choose does not.
    layers = [data.right(np.where(rng.random(len(data.scored)) < 0.5, 0, 1)) for _ in range(40)]
    counts = scores.counts.sum()
    best, hits = scores.chosen(layers)
    assert hits.sum() / counts < scores.ambiguous(layers[best]).sum() / counts


def text(name: str, word: str, *labels: str, doc: str = "d") -> Text:
    return Text(name, ("a", word, name), edges={"sense": (Edge(labels, Span(1, 2)),)}, doc=doc)


def test_labels_name_their_word_and_several_senses_share_a_vote() -> None:
    train = [text("1", "moles", "mole%0"), text("2", "mole", "mole%1"), text("3", "Moles", "mole%0", "mole%1")]
    data = read_targets(Splits(corpus_from(train), corpus_from([text("4", "moles", "mole%1")])), None)
    assert data.words == ("mole",)
    assert data.own_labels
    assert data.frequency.tolist() == [[1.5, 1.5]]
    assert data.ambiguous.tolist() == [True]


def test_training_texts_that_are_scored_are_left_out() -> None:
    same = text("x", "mole", "b")
    train = [text("1", "mole", "a"), text("2", "mole", "b"), same]
    data = read_targets(Splits(corpus_from(train), corpus_from([same])), None)
    assert data.train.sum() == 2
    assert any("also scored" in reason for reason in data.skipped)


def test_annotations_are_found_by_name() -> None:
    def corpus(*names: str):
        return corpus_from([Text("a", ("b",), edges={name: (Edge(("c",), Span(0, 1)),) for name in names})])

    assert annotations_of([corpus("pos", "supersense_verb", "supersense")], None) == ("supersense",)
    assert annotations_of([corpus("pos", "my_senses")], None) == ("my_senses",)
    assert annotations_of([corpus("pos", "role")], ["role"]) == ("role",)
    for names, asked, said in (((), None, "no senses or supersenses"), (("sense",), ["role"], "no annotation 'role'")):
        with pytest.raises(CorpusError, match=said):
            annotations_of([corpus("pos", *names)], asked)


def test_what_cannot_be_asked_is_said() -> None:
    with pytest.raises(InputError, match="at least one number of neighbours"):
        lamina.senses(TinyEncoder(), splits(TRAIN, 30), k=[])
    one = Splits(corpus_from([text("1", "mole", "a")]), corpus_from([text("2", "mole", "a")]))
    with pytest.raises(CorpusError, match="no scored word has two senses"):
        lamina.senses(TinyEncoder(), one)

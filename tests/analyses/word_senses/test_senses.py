"""`lamina.senses` as a whole: tables, baselines, comparisons, and input that has no senses."""

from __future__ import annotations

import numpy as np
import pytest

import lamina
from lamina.analyses.word_senses.scores import Scores
from lamina.analyses.word_senses.targets import annotations_of, read_targets
from lamina.corpora import Splits, corpus_from
from lamina.errors import CorpusError, InputError
from lamina.figures.senses import draw
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text
from tests.analyses.word_senses.planted import splits, targets

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
    assert {"chosen.ambiguous", "ami", "ami.null", "position.both", "moved.sentence", "near"} <= names
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
    assert set(gaps["against"]) == {"most_frequent", "layer_0", "skip-gram", "twin"}
    own = table[table["measure"] == "knn5.ambiguous"].set_index("layer")
    beside = gaps[(gaps["measure"] == "knn5.ambiguous") & (gaps["against"] == "most_frequent")].set_index("layer")
    expected = (own["value"] - own["baseline"]).to_numpy()
    assert beside["difference"].to_numpy() == pytest.approx(expected)
    assert 1 <= len(result.findings) <= 4
    assert set(draw(result)) == {"senses", "position"}


def test_words_add_up_to_the_whole(result: Result) -> None:
    words, table = result.tables["words"], result.tables["senses"]
    own = words[words["layer"] == 1]
    told = table[(table["measure"] == "knn5.ambiguous") & (table["layer"] == 1)]["value"].iloc[0]
    assert (own["value"] * own["scored"]).sum() / own["scored"].sum() == pytest.approx(told)


def test_the_chosen_layer_is_scored_on_other_documents() -> None:
    data = targets()
    scores = Scores(data, samples=20, seed=0)
    rng = np.random.default_rng(0)
    # 40 layers that know nothing: the best of them looks good, what others choose does not.
    layers = [data.right(np.where(rng.random(len(data.scored)) < 0.5, 0, 1)) for _ in range(40)]
    counts = scores.units.sums(data.ambiguous).sum()
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

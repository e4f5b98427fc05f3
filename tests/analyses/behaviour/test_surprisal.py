"""Surprisal by word against the scorer, planted counts and hand-made means."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import lamina
from lamina.analyses.behaviour.inputs import NGrams
from lamina.analyses.behaviour.surprisal import CorpusWords, WordSurprisals, counted_by, folds_case, more_bits
from lamina.corpora import Splits, corpus_from
from lamina.errors import CorpusError, ModelError
from lamina.figures.surprisal import draw
from lamina.framework.verify import check_findings
from lamina.models.language.language_model import WrittenPassage, language_model, score_passages
from lamina.results import Result
from lamina.results.finding import rows_of
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text
from tests.language_models import tiny_causal, tiny_masked

KNOWN = ("the", "dog", "barked", "at", "a", "cat", "and", "ran", ".")


def texts(count: int, seed: int) -> list[Text]:
    """Sentences of 2 to 7 words in documents of two, with parts of speech."""
    draw = np.random.default_rng(seed)
    made = []
    for at in range(count):
        words = tuple(str(each) for each in draw.choice(KNOWN, 2 + at % 6))
        tags = tuple(Edge(("PUNCT" if word == "." else "X",), Span(i, i + 1)) for i, word in enumerate(words))
        made.append(Text(f"s{at}", words, edges={"pos": tags}, doc=f"d{at // 2}"))
    return made


SPLITS = Splits(
    corpus_from(texts(80, 0), name="own", split="train"), corpus_from(texts(24, 1), name="own", split="dev")
)


@pytest.fixture(scope="module")
def causal() -> Result:
    return lamina.surprisal(tiny_causal(), SPLITS, samples=50)


def test_a_word_is_the_sum_of_its_pieces_in_bits(causal: Result) -> None:
    words = causal.tables["words"]
    assert words.columns.tolist() == ["text", "index", "word", "surprisal"]
    model = language_model(tiny_causal())
    for each in score_passages(model, map(WrittenPassage.of, list(SPLITS.scored)[:3])):
        own = words[words["text"] == each.id]
        assert own["surprisal"].to_numpy() == pytest.approx(-each.by_span / math.log(2), abs=1e-4)
        assert own["index"].tolist() == list(range(len(own)))
    assert words["word"].tolist() == [word for text in SPLITS.scored for word in text.words]


def test_means_and_baselines_are_those_of_the_words(causal: Result) -> None:
    summary = causal.tables["summary"].set_index(["model", "measure"])["value"]
    bits = causal.tables["words"]["surprisal"]
    name, twin, *counted = dict.fromkeys(causal.tables["summary"]["model"])
    assert counted == ["unigram", "3-gram"]
    assert summary[name, "bits_per_word"] == pytest.approx(bits.mean())
    assert summary[name, "perplexity_per_word"] == pytest.approx(2 ** bits.mean())
    scored = list(score_passages(language_model(tiny_causal()), map(WrittenPassage.of, SPLITS.scored)))
    nats = -sum(each.total for each in scored) / sum(each.pieces for each in scored)
    assert summary[name, "perplexity_per_piece"] == pytest.approx(math.exp(nats), rel=1e-4)
    grams = NGrams.of([text.words for text in SPLITS.train], 3)
    expected = np.concatenate([grams.logprobs(text.words) for text in SPLITS.scored]) / -math.log(2)
    assert causal.tables["baselines"]["ngram"].to_numpy() == pytest.approx(expected)
    differences = causal.tables["differences"].set_index("against")
    assert differences["difference"]["3-gram"] == pytest.approx(bits.mean() - expected.mean(), abs=1e-4)
    assert set(differences.index) == {twin, "unigram", "3-gram"}
    for table in ("summary", "bands", "correlations", "differences"):
        rows = causal.tables[table].dropna()
        value = rows[{"bands": "surprisal", "differences": "difference"}.get(table, "value")]
        assert ((rows["low"] - 1e-6 <= value) & (value <= rows["high"] + 1e-6)).mean() > 0.9
    items = causal.tables["items"]
    assert items["words"].sum() == len(bits)
    assert np.average(items["value"], weights=items["words"]) == pytest.approx(bits.mean())
    assert list(items["item"]) == [f"d{at}" for at in range(12)]


def test_frequency_is_counted_in_training_and_punctuation_left_out(causal: Result) -> None:
    counts = pd.Series([word for text in SPLITS.train for word in text.words]).value_counts()
    baselines = causal.tables["baselines"]
    words = causal.tables["words"]["word"]
    assert baselines["frequency"].tolist() == [int(counts.get(word, 0)) for word in words]
    correlations = causal.tables["correlations"]
    assert set(correlations["words"]) == {int((words != ".").sum())}
    rho = correlations.set_index(["model", "with", "given", "kind"])["value"]
    assert rho["unigram", "log_frequency", "nothing", "spearman"] == pytest.approx(-1)
    bands = causal.tables["bands"]
    own = bands[bands["model"] == bands["model"].iloc[0]]
    assert own[own["by"] == "length"]["words"].sum() == int((words != ".").sum())
    assert own[own["by"] == "pos"].set_index("band")["words"]["PUNCT"] == int((words == ".").sum())
    left_out = causal.provenance.skipped
    assert any("without a letter" in why and count == int((words == ".").sum()) for why, count in left_out.items())


def test_findings_and_figure_say_what_was_measured(causal: Result) -> None:
    assert len(causal.findings) == 4
    assert any("3-gram model of the training texts" in each.text for each in causal.findings)
    assert check_findings(causal) == []
    assert not any("pseudo" in each.text for each in causal.findings)
    described = draw(causal)["surprisal"].to_dict()["description"]
    assert described.startswith("Mean surprisal by occurrences in the training texts: tiny gpt2")


def test_correlations_are_compared_pair_by_pair_not_by_their_intervals(causal: Result) -> None:
    rows = causal.tables["correlations"].query("kind == 'spearman'")
    rho = {(row.model, row[1], row.given): row.value for row in rows_of(rows)}
    for row in rows_of(causal.tables["contrasts"]):
        own, other = (rho[name, row[2], row.given] for name in (row.model, row.against))
        assert row.difference == pytest.approx(own - other, abs=1e-6, nan_ok=True)
    tested = causal.tables["contrasts"].dropna(subset=["p_adjusted"])
    assert len(tested)
    assert (tested["low"] <= tested["difference"]).all()


def test_a_difference_in_bits_is_tested_over_documents() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(80, 10, 5)
    few = more_bits(np.column_stack([base - 5, base]), np.full(5, 10.0))
    assert few.needed.tolist() == [6], "5 documents cannot decide"
    base = rng.normal(80, 10, 12)
    (p,) = more_bits(np.column_stack([base - 5, base]), np.full(12, 10.0)).p
    assert p == pytest.approx(2 / 2**12)


def test_a_masked_model_has_pseudo_surprisal_and_may_hide_whole_words() -> None:
    encoder = tiny_masked()
    by_piece = lamina.surprisal(encoder, SPLITS, samples=20, twin=False)
    assert any("pseudo-surprisal" in each.text and "only the words before" in each.text for each in by_piece.findings)
    assert set(by_piece.tables["summary"]["model"]) == {encoder.name, "unigram", "3-gram"}
    assert by_piece.tables["baselines"]["twin"].isna().all()
    by_word = lamina.surprisal(encoder, SPLITS, samples=20, twin=False, masking="word", order=2)
    pieces = [len(encoder.tokenize(Text("", (word,))).ids) for word in by_word.tables["words"]["word"]]
    one = np.array(pieces) == min(pieces)
    first, second = (each.tables["words"]["surprisal"].to_numpy() for each in (by_piece, by_word))
    assert first[one] == pytest.approx(second[one], abs=1e-4), "a word of one piece has no later pieces"
    assert not one.all()
    assert not np.allclose(first[~one], second[~one])
    assert "pseudo-surprisal" in draw(by_piece)["surprisal"].to_dict()["title"]["subtitle"]


def test_words_that_the_vocabulary_cannot_spell_are_left_out_and_counted() -> None:
    odd = [Text(f"o{at}", ("the", "\N{SNOWMAN}", "dog"), doc=f"o{at}") for at in range(12)]
    splits = Splits(SPLITS.train, corpus_from(odd, name="odd", split="dev"))
    result = lamina.surprisal(tiny_masked(), splits, samples=10, twin=False)
    words = result.tables["words"]
    assert words["surprisal"].isna().tolist() == [False, True, False] * 12
    assert any("cannot spell" in why and count == 12 for why, count in result.provenance.skipped.items())
    assert result.tables["items"]["words"].tolist() == [2] * 12


def test_words_of_one_piece_are_told_together() -> None:
    texts = [Text("a", ("I", "can", "not", "bark"), glued=(2,)), Text("b", ("can", "not"))]
    own = WordSurprisals(np.array([1.0, 5.0, np.nan, 2.0, 3.0, 4.0]), np.array([1, 2, 0, 1, 1, 1]))
    words = CorpusWords(texts, own, {"can": 3})
    assert words.owner.tolist() == [0, 1, 1, 3, 4, 5]
    assert words.shared == 1
    grams = NGrams.of([["I", "can", "bark"]], 1)
    each = [grams.logprobs(text.words) / -math.log(2) for text in texts]
    together = [each[0][0], each[0][1] + each[0][2], np.nan, each[0][3], *each[1]]
    assert counted_by(grams, words, fold=False).bits == pytest.approx(together, nan_ok=True)
    # What is told together has no length or frequency of its own.
    assert words.spelled.tolist() == [True, False, False, True, True, True]


def test_all_of_a_text_of_ones_own_is_scored_beside_counts_of_other_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    known = replace(SPLITS.train, name="ud_english_ewt")
    monkeypatch.setattr("lamina.corpora.load_corpus", lambda *_: known)
    own = [f"The dog didn't see cat {number}." for number in range(12)]
    result = lamina.surprisal(tiny_causal(), own, split="all", samples=5, twin=False)
    assert set(result.tables["words"]["text"]) == {f"data-{number}" for number in range(1, 13)}
    assert result.provenance.corpus["train"]["name"] == "ud_english_ewt"
    assert any("of the training texts of ud_english_ewt" in each.text for each in result.findings)
    with pytest.raises(CorpusError, match="score its dev or test"):
        lamina.surprisal(tiny_causal(), known, split="all")


def test_lower_casing_models_are_compared_with_lower_casing_counts() -> None:
    assert folds_case(tiny_masked())
    assert not folds_case(tiny_causal())


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(ModelError, match="no language-model head"):
        lamina.surprisal(TinyEncoder(), SPLITS)

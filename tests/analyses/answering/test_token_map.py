"""One question in two dimensions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from lamina.analyses.answering.roles import is_cut
from lamina.analyses.answering.token_map import ONE_KIND, OTHER_TASK, explained, project, token_map
from lamina.corpora.question_sets import questions_from, typed_question
from lamina.errors import CorpusError, InputError, SpanError
from lamina.models import load_encoder
from lamina.testing import TinyEncoder
from lamina.training.answering import answerer_of
from lamina.training.provenance import TEXTS, text_hash

COLUMNS = "example,method,fit,layer,token,word,sentence,question,support,gold,predicted,x,y,cluster"


def test_every_token_is_there_at_every_layer(toys) -> None:
    encoder = TinyEncoder()
    found = token_map(encoder, toys, example="q1")
    tokens = found.tables["tokens"]
    size = len(encoder.tokenize(next(iter(toys.find("q1")))).ids)
    assert ",".join(tokens.columns) == COLUMNS
    assert len(tokens) == size * encoder.layers
    assert tokens["word"].tolist()[0] == "[special]"
    assert set(tokens.loc[tokens["gold"], "word"]) == {"cat"}
    assert not tokens["predicted"].any()
    assert set(tokens["sentence"]) == {-1, 0, 1, 2}
    assert tokens[["x", "y"]].notna().all(axis=None)
    assert found.tables["projection"]["layer"].tolist() == [0, 1, 2]
    assert any("no head that answers" in reason and count for reason, count in found.provenance.skipped.items())


def test_the_first_right_and_wrong_answer_of_one_task_are_shown(toys, answering_folder) -> None:
    encoder = load_encoder(str(answering_folder), device="cpu")
    asked = [replace(each, task=f"qa{1 + (at > 5)}") for at, each in enumerate(toys.questions())]
    answerer = answerer_of(encoder)
    assert answerer is not None
    said = {each.question: each for each in answerer.answer(asked)}
    # What it says to one question becomes its accepted answer: right there, and wrong everywhere else.
    known = [
        replace(each, answers=(said[each.text.id].text,) if at == 8 else ("no such answer",))
        for at, each in enumerate(asked)
    ]
    found = token_map(encoder, questions_from(known, "toys", "test"), both=True)
    answer = found.tables["answer"]
    # The first wrong answers are of the other task.
    assert answer["example"].tolist() == ["q8", "q6"]
    assert answer["exact_match"].tolist() == [1.0, 0.0]
    assert set(found.tables["projection"]["example"]) == set(found.tables["tokens"]["example"]) == {"q8", "q6"}
    assert found.provenance.corpus["example"] == "q8, q6"
    assert [each.status for each in found.findings] == ["untested"]
    assert "two questions are no sample" in found.findings[0].text
    others = [replace(each, task="qa3") if each.text.id == "q8" else each for each in known]
    apart = token_map(encoder, questions_from(others, "toys", "test"), both=True)
    assert apart.tables["answer"]["example"].tolist() == ["q8", "q0"]
    assert apart.provenance.skipped[OTHER_TASK] == 1
    alike = token_map(encoder, questions_from(known[:6], "toys", "test"), both=True)
    assert (len(alike.tables["answer"]), alike.provenance.skipped[ONE_KIND]) == (1, 1)
    with pytest.raises(InputError, match="not both of them"):
        token_map(encoder, toys, both=True, example="q1")


@pytest.mark.parametrize("method", ["pca", "tsne", "ica"])
@pytest.mark.parametrize("fit", ["layer", "all"])
def test_all_methods_and_fits_are_repeatable(toys, method, fit) -> None:
    one, same = (token_map(TinyEncoder(), toys, method=method, fit=fit, clusters=3) for _ in range(2))
    pd.testing.assert_frame_equal(one.tables["tokens"], same.tables["tokens"])
    assert set(one.tables["projection"]["clusters"]) == {3}
    assert one.tables["projection"]["explained_x"].isna().all() == (method != "pca")


def test_pca_is_scikit_learns_but_for_the_signs() -> None:
    states = np.random.default_rng(0).normal(size=(2, 9, 5)).astype(np.float32)
    keep = np.ones((2, 9), bool)
    keep[1, 0] = False
    places = project(states, keep, "pca", "layer", seed=0)
    shares = explained(states, keep, places)
    for layer, kept in enumerate(keep):
        fitted = PCA(2).fit(states[layer, kept])
        expected = fitted.transform(states[layer, kept])
        np.testing.assert_allclose(np.abs(places[layer, kept]), np.abs(expected), atol=1e-4)
        np.testing.assert_allclose(shares[layer], fitted.explained_variance_ratio_, atol=1e-4)
    assert np.isnan(places[1, 0]).all()


def test_axes_point_the_way_they_did_a_layer_before() -> None:
    layer = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)
    places = project(np.stack([layer, -layer, layer]), np.ones((3, 9), bool), "pca", "layer", seed=0)
    assert ((places[1] * places[0]).sum(0) > 0).all()
    assert ((places[2] * places[1]).sum(0) > 0).all()


class _Loud(TinyEncoder):
    """Its first token shouts, as GPT-2's does."""

    def encode(self, *args, **kwargs):
        for activations in super().encode(*args, **kwargs):
            assert activations.states is not None
            activations.states[0, 1:] *= 500
            yield activations


def test_an_outlier_is_left_out_and_counted(toys) -> None:
    found = token_map(_Loud(), toys)
    tokens = found.tables["tokens"]
    first = tokens[tokens["token"] == 0]
    assert first["x"].isna().tolist() == [False, True, True]
    assert first["cluster"].tolist()[1:] == [-1, -1]
    assert tokens.loc[tokens["token"] != 0, "x"].notna().all()
    assert found.tables["projection"]["left_out"].tolist() == [0, 1, 1]
    assert [count for reason, count in found.provenance.skipped.items() if "as long as the median" in reason] == [1]


def test_a_model_that_answers_has_its_answer_drawn(answering_folder, toys) -> None:
    encoder = load_encoder(str(answering_folder), device="cpu")
    found = token_map(encoder, toys, example="q2")
    answer = found.tables["answer"].iloc[0]
    tokens = found.tables["tokens"]
    words = tokens.loc[tokens["predicted"] & (tokens["layer"] == 0), "word"].drop_duplicates()
    assert answer["predicted"].split()[0].startswith(words.iloc[0])
    assert 0 < answer["confidence"] < 1
    assert answer["exact_match"] in (0.0, 1.0)


def test_texts_it_was_fine_tuned_on_are_refused(answering_folder, toys) -> None:
    (answering_folder / TEXTS).write_text(text_hash(next(iter(toys.find("q2")))) + "\n")
    encoder = load_encoder(str(answering_folder), device="cpu")
    with pytest.raises(CorpusError, match="was fine-tuned on 1 of the texts of toys"):
        token_map(encoder, toys, example="q2")
    assert len(token_map(encoder, toys, example="q3").tables["tokens"])


def test_a_long_context_takes_windows_and_says_so(pretrained) -> None:
    found = token_map(pretrained, typed_question("who sat?", "the fox sat. " * 60))
    tokens = found.tables["tokens"]
    assert len(tokens) > 60 * 4 * pretrained.layers
    assert any("overlapping windows" in reason and count > 1 for reason, count in found.provenance.skipped.items())


def test_a_question_that_leaves_no_room_for_the_context_is_refused(answering_folder) -> None:
    encoder = load_encoder(str(answering_folder), device="cpu")
    with pytest.raises(SpanError, match="'typed': its question takes 66 of 40 tokens"):
        token_map(encoder, typed_question("who sat? " * 20, "the fox sat. a cat ran."))


@pytest.mark.parametrize(("words", "cut"), [(64, False), (65, True)])
def test_a_question_longer_than_its_limit_is_told(words: int, cut: bool) -> None:
    question = next(typed_question("a " * words, "the fox sat.").questions())
    assert is_cut(TinyEncoder().tokenize(question.text), question) is cut


def test_a_typed_question_has_gold_and_support_where_they_are_given() -> None:
    context = "Dogs bark at night. Cats mew. It is loud."
    loaded = token_map.ask(
        TinyEncoder(), question="Who barks?", context=context, answer="dogs", support=["It is loud"]
    ).loaded
    (question,) = loaded.arguments[1].questions()
    assert question.answers == ("Dogs",)
    assert [edge.labels for edge in question.text.edges["sup"]] == [("0",), ("0",), ("1",)]
    with pytest.raises(InputError, match="the support 'Birds sing' is not in the context"):
        typed_question("Who barks?", context, "Dogs", ["Birds sing"])
    with pytest.raises(InputError, match="--answer and --support belong to a typed question"):
        token_map.ask(TinyEncoder(), answer="Dogs")


def test_the_first_token_is_left_out_on_request(toys) -> None:
    kept = token_map(TinyEncoder(), toys, example="q1").tables["projection"]
    left = token_map(TinyEncoder(), toys, example="q1", without_first=True).tables
    assert (left["projection"]["left_out"] >= 1).all()
    assert (left["projection"]["tokens"] == kept["tokens"] - (kept["left_out"] == 0)).all()
    first = left["tokens"][left["tokens"]["token"] == 0]
    assert (first["cluster"] == -1).all()


def test_what_cannot_be_asked_is_refused(toys) -> None:
    with pytest.raises(InputError, match="clusters must be a whole number of at least 2"):
        token_map(TinyEncoder(), toys, clusters=1)
    with pytest.raises(InputError, match="too many"):
        token_map(TinyEncoder(), toys, clusters=500)
    with pytest.raises(InputError, match="no question 'q99'"):
        token_map(TinyEncoder(), toys, example="q99")

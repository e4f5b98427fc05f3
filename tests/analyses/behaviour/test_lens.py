"""Layers through the head against loops by hand, transformers' own numbers and the scorer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import log_softmax, rel_entr

import lamina
from lamina.analyses.behaviour import layer_predictions as readings_module
from lamina.analyses.behaviour.layer_predictions import (
    above,
    draw_positions,
    read_layers,
    read_lens_suite,
    suite_tables,
    token_table,
)
from lamina.analyses.behaviour.lens import TWIN_CONTRAST, depth_contrasts, lens_findings
from lamina.corpora import Splits, corpus_from
from lamina.errors import InputError, ModelError
from lamina.figures import to_svg
from lamina.figures.lens import draw
from lamina.framework.verify import check_findings
from lamina.models.language.language_model import WrittenPassage, language_model, score_passages
from lamina.models.language.slots import Gap, fill_gaps
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.types import Text
from tests.language_models import tiny_causal, tiny_masked

KNOWN = ("the", "dog", "barked", "at", "a", "cat", "and", "ran", ".")
TYPED = "the quick fox and the lazy dog"


def texts(count: int, seed: int) -> list[Text]:
    """Sentences of 3 to 8 words in documents of two."""
    draw = np.random.default_rng(seed)
    words = (tuple(str(each) for each in draw.choice(KNOWN, 3 + at % 6)) for at in range(count))
    return [Text(f"{seed}-{at}", each, doc=f"{seed}-d{at // 2}") for at, each in enumerate(words)]


SPLITS = Splits(
    corpus_from(texts(80, 0), name="own", split="train"), corpus_from(texts(24, 1), name="own", split="dev")
)
QUICK: dict[str, Any] = {"positions": 80, "learned": 200, "steps": 8, "samples": 60}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suites") / "own.tsv"
    rows = [
        ("the dog barked .", "the barked dog ."),
        ("a cat ran .", "a ran cat ."),
        ("the cat and the dog", "the and"),
    ]
    path.write_text("good\tbad\n" + "".join(f"{good}\t{bad}\n" for good, bad in rows))
    return path


@pytest.fixture(scope="module")
def causal(store: Path, pairs: Path) -> Result:
    return lamina.lens(tiny_causal(), SPLITS, text=TYPED, suite=str(pairs), store=store, **QUICK)


def test_the_table_is_the_contract(causal: Result) -> None:
    table = causal.tables["lens"]
    assert table.columns.tolist() == ["layer", "lens", "measure", "value", "low", "high"]
    assert len(table) == 4 * 2 * 4, "layers, lenses, measures"
    assert ((table["low"] <= table["value"] + 1e-9) & (table["value"] <= table["high"] + 1e-9)).all()
    last = table[table["layer"] == 3].set_index(["lens", "measure"])["value"]
    assert last["plain", "kl"] == pytest.approx(0, abs=1e-6)
    assert last["plain", "agreement"] == 1
    assert last["tuned", "accuracy"] == last["plain", "accuracy"]
    wide = table[table["measure"] == "kl"].pivot_table(index="layer", columns="lens", values="value")
    assert (wide["tuned"] < wide["plain"])[:3].all(), "closer at every inner layer, on texts of other documents"
    assert check_findings(causal) == []
    gain = causal.tables["gain"].set_index(["layer", "measure"])["difference"]
    assert gain[1, "kl"] == pytest.approx(wide["tuned"][1] - wide["plain"][1])
    reached, depth = causal.tables["reached"], causal.tables["depth"].set_index(["model", "lens"])["mean_layer"]
    own = reached[(reached["model"] == "model") & (reached["lens"] == "tuned")]
    assert own["share"].sum() == pytest.approx(1)
    assert depth["model", "tuned"] == pytest.approx((own["share"] * own["layer"]).sum())
    assert set(causal.tables["twin"]["lens"]) == {"plain"}
    assert causal.tables["baseline"]["measure"].tolist() == ["kl", "accuracy", "probability", "agreement"]


def test_every_number_is_that_of_a_loop_by_hand() -> None:
    encoder = tiny_causal()
    model, whole = language_model(encoder), encoder.whole
    drawn = draw_positions(model, SPLITS.scored, 40, seed=0)
    found = read_layers(model, drawn.wanted)[0]["plain"]
    for number in (0, 7, 23):
        row, place = drawn.wanted.rows[drawn.wanted.row[number]], drawn.wanted.place[number]
        with torch.no_grad():
            out: Any = whole(input_ids=torch.from_numpy(row.ids)[None], output_hidden_states=True)  # type: ignore[misc]
            inner = [whole.transformer.ln_f(out.hidden_states[layer]) for layer in range(3)]  # type: ignore[union-attr]
            said = [whole.lm_head(each)[0, place].double().numpy() for each in inner]  # type: ignore[union-attr,operator]
        logprobs = [log_softmax(each) for each in (*said, out.logits[0, place].double().numpy())]
        target = drawn.wanted.target[number]
        assert target == row.ids[place + 1], "what comes next"
        for layer, own in enumerate(logprobs):
            assert found.kl[number, layer] == pytest.approx(rel_entr(np.exp(logprobs[-1]), np.exp(own)).sum(), abs=1e-5)
            assert found.logprob[number, layer] == pytest.approx(own[target], abs=1e-5)
            assert found.rank[number, layer] == 1 + (own > own[target]).sum()
            assert found.top[number, layer] == own.argmax()


def test_a_word_is_hidden_with_all_its_pieces_and_no_other_one() -> None:
    model = language_model(tiny_masked())
    drawn = draw_positions(model, SPLITS.scored, 60, seed=0)
    wanted = drawn.wanted
    for number in range(len(drawn)):
        row = wanted.rows[wanted.row[number]]
        hidden = np.flatnonzero(row.ids == model.mask)
        assert wanted.place[number] in hidden
        assert len(set(row.words[hidden])) == 1
        assert set(hidden) == set(np.flatnonzero(row.words == row.words[hidden[0]]))
    # Which positions are asked for follows from the texts, not from their order.
    again = draw_positions(model, list(SPLITS.scored)[::-1], 60, seed=0)
    assert [text.id for text in again.texts] == [text.id for text in drawn.texts]
    assert np.array_equal(again.wanted.target, wanted.target)


def test_translators_are_trained_once(causal: Result, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(readings_module, "fit_translators", refuse)
    again = lamina.lens(tiny_causal(), SPLITS, store=store, twin=False, **QUICK)
    assert np.allclose(again.tables["lens"]["value"], causal.tables["lens"]["value"], atol=1e-6)
    with pytest.raises(AssertionError, match="trained again"):
        lamina.lens(tiny_causal(), SPLITS, store=store, twin=False, **(QUICK | {"steps": 9}))


def test_tokens_of_a_typed_text(causal: Result) -> None:
    table = causal.tables["tokens"]
    model = language_model(tiny_causal())
    pieces = next(score_passages(model, [WrittenPassage.typed("typed", TYPED)]))
    # One more place than pieces: what comes after the text.
    assert table["index"].nunique() == pieces.pieces + 1
    assert table.groupby(["index", "layer", "lens"])["rank"].apply(list).map(lambda own: own == [1, 2, 3, 4, 5]).all()
    last = table[(table["layer"] == 3) & (table["rank"] == 1) & (table["lens"] == "plain")]
    assert np.allclose(np.log(last["probability_of_actual"])[:-1], pieces.logprobs, atol=1e-5)
    assert np.isnan(last["probability_of_actual"].iloc[-1])
    assert last["token"].iloc[-1] == ""
    # A space of its own has no name but the vocabulary's.
    assert "".join(last["token"]).replace("\u0120", " ").strip() == TYPED
    assert np.allclose(last["kl"], 0, atol=1e-5)
    masked = language_model(tiny_masked())
    rows = [row for row in token_table(masked, TYPED, None, 1) if row[2] == 3]
    assert np.allclose(
        np.log([row[7] for row in rows]),
        next(score_passages(masked, [WrittenPassage.typed("typed", TYPED)])).logprobs,
        atol=1e-5,
    )


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_pairs_at_the_last_layer_are_the_scorers(kind: str, pairs: Path) -> None:
    model = language_model(tiny_causal() if kind == "causal" else tiny_masked())
    suite = read_lens_suite(str(pairs), 10, seed=0)
    rows = suite_tables(model, suite, None, samples=50, seed=0)[0]["pairs"]
    sentences = [sentence for pair in suite.pairs for sentence in (pair.good, pair.bad)]
    totals = [each.total for each in score_passages(model, [WrittenPassage.typed(each, each) for each in sentences])]
    expected = np.mean([good > bad for good, bad in zip(totals[::2], totals[1::2], strict=True)])
    last = [row for row in rows if row[:3] == (3, "plain", "all")]
    assert last[0][3] == pytest.approx(expected)


def test_clozes_at_the_last_layer_are_the_scorers(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("text\tanswer\nthe ___ barked .\tdog\nthe lazy ___ ran .\tcat\nthe ___ ran .\tunhesitatingly\n")
    model = language_model(tiny_masked())
    suite = read_lens_suite(str(path), 10, seed=0)
    tables, left_out = suite_tables(model, suite, None, samples=50, seed=0)
    slots = [Gap("1", "the ", " barked ."), Gap("2", "the lazy ", " ran .")]
    expected = np.mean([np.exp(each[0].logprob) for each in fill_gaps(model, slots, [["dog"], ["cat"]])])
    last = [row for row in tables["cloze"] if row[:4] == (3, "plain", "all", "probability")]
    assert last[0][4] == pytest.approx(expected, rel=1e-4)
    assert list(left_out.values()) == [1], "an answer of several pieces is counted"


def test_charts_and_findings(causal: Result) -> None:
    charts = draw(causal)
    assert list(charts) == ["lens", "reached", "tokens", "pairs"]
    assert all("<svg" in to_svg(chart) for chart in charts.values())
    told = " ".join(each.text for each in causal.findings)
    assert "twin with random weights" in told
    assert "the plain lens at" in told
    assert "good sentence of a pair" in told
    assert {each.contrast for each in causal.findings} >= {
        "model minus twin, in layers",
        "tuned minus plain, in layers",
    }


def test_wrong_13_the_twin_that_reaches_its_final_answer_first_is_told_beside_the_model(causal: Result) -> None:
    """Wrong 13: the twin reached its at layer 2.05, the model at 4.82, and that was not told."""
    depth = causal.tables["depth"].set_index(["model", "lens"])["mean_layer"]
    differences = causal.tables["contrasts"].set_index("contrast")["difference"]
    assert differences[TWIN_CONTRAST] == pytest.approx(depth["model", "plain"] - depth["twin", "plain"])
    rng = np.random.default_rng(0)
    model, twin = rng.normal(4.8, 0.3, (40, 1)), rng.normal(2.05, 0.3, (40, 1))
    depths = {"model": model.mean(), "twin": twin.mean()}
    test = depth_contrasts(10 * (model - twin), np.full(40, 10.0))
    tables = {
        "lens": pd.DataFrame({"layer": range(7)}),
        "reached": pd.DataFrame({"model": "model", "lens": "plain", "layer": range(7)}),
        "depth": pd.DataFrame([(name, "plain", value) for name, value in depths.items()],
                              columns=["model", "lens", "mean_layer"]),
        "contrasts": pd.DataFrame([(TWIN_CONTRAST, *test.one(), "document")],
                                  columns=["contrast", "difference", "low", "high", "p_adjusted", "units", "needed",
                                           "unit"]),
    }  # fmt: skip
    (found,) = lens_findings(Result("lens", tables, causal.provenance))
    assert found.status == "clear"
    assert found.text.startswith(
        f"The model reaches its final answer at layer {depths['model']:.2f} of 6 on average, its twin with random "
        f"weights at layer {depths['twin']:.2f} (model minus twin, in layers 2."
    )


def test_layers_are_compared_with_chance_together() -> None:
    right = np.where(np.random.default_rng(0).random((60, 4)) < [0.5, 0.5, 0.8, 0.9], 0.5, -0.5)
    tests = above(right, ["a"] * 40 + ["b"] * 20, "all", most=0.5)
    assert (tests.p < 0.05).tolist() == [False, False, True, True]
    assert tests.estimate == pytest.approx((right[:40].mean(0) + right[40:].mean(0)) / 2)
    assert tests.high.tolist() == [0.5] * 4, "one-sided"


def test_what_cannot_be_asked_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has no language-model head"):
        lamina.lens(TinyEncoder(), SPLITS)
    with pytest.raises(InputError, match="the text is empty"):
        lamina.lens(tiny_causal(), SPLITS, text="  ")
    with pytest.raises(InputError, match="the text has 201 tokens, tiny gpt2 reads 40 at once"):
        lamina.lens(tiny_causal(), SPLITS, text="." * 200)
    path = tmp_path / "own.tsv"
    path.write_text("sentence\nDogs bark.\n")
    with pytest.raises(InputError, match=r"neither a suite of minimal pairs .* nor one of clozes"):
        lamina.lens(tiny_causal(), SPLITS, suite=str(path))


def test_a_text_whose_hidden_word_has_no_piece_is_passed_over() -> None:
    model = language_model(tiny_masked())
    found = draw_positions(model, [Text("blank", ("\u200b",)), Text("full", ("the", "dog"))], 10, seed=0)
    assert len(found.wanted.rows) == 1
    assert [found.texts[owner].id for owner in set(found.text.tolist())] == ["full"]

"""Layers of a tuned model put back: what was never changed costs nothing, and sentences say what the numbers do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import lamina
from lamina.analyses.cause.restore import restore
from lamina.analyses.cause.restore_transfer import linear_heads
from lamina.corpora.questions import make_question
from lamina.encoders import load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.figures.restore import draw
from lamina.results import Provenance, Result
from lamina.training.classes import Classifying
from lamina.training.objective import Item, means, text_of
from lamina.training.reading import Sets
from lamina.training.spans import Answering
from lamina.types import Edge, Span, Text

SAID = "the quick brown fox jumps over lazy dog cats sat on mat barked why who"
WORDS = SAID.split()


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def texts(count: int, seed: int) -> tuple[Text, ...]:
    """Tags are a word's first letter; the class is that of the first word."""
    draw = np.random.default_rng(seed)
    made = []
    for number in range(count):
        words = tuple(str(word) for word in draw.choice(WORDS, 5))
        edges = {
            "pos": tuple(Edge((word[0],), Span(at, at + 1)) for at, word in enumerate(words)),
            "label": (Edge(("low" if words[0] < "l" else "high",), Span(0, 5)),),
        }
        made.append(Text(f"{seed}-{number}", words, edges=edges, doc=f"doc-{seed}-{number // 2}"))
    return tuple(made)


def sets(train: int = 40, scored: int = 16) -> Sets:
    return Sets("toy", texts(train, 1), texts(12, 2), texts(scored, 3))


@pytest.fixture(scope="module")
def top_tuned(model_folder, tmp_path_factory) -> Path:
    """A tagger of three blocks whose last block alone was tuned."""
    out = tmp_path_factory.mktemp("tuned") / "pos"
    learning = {"epochs": 99.0, "max_steps": 12, "lr": 1e-2, "batch": 8, "device": "cpu"}
    lamina.finetune(str(model_folder("bert")), sets(), task="pos", freeze=2, out=out, **learning)
    return out


def test_layers_that_were_not_tuned_can_go_back_for_nothing(top_tuned: Path, tmp_path: Path) -> None:
    result = restore(str(top_tuned), sets(), out=tmp_path / "out", transfer=False, samples=50, device="cpu")
    table = result.tables["restore"]
    assert list(table.columns) == ["how", "first", "last", "value", "low", "high"]
    tuned = Result.load(top_tuned).tables["scores"].set_index("metric")["value"]["accuracy"]
    references = result.tables["references"].set_index("what")["value"]
    assert references["tuned"] == pytest.approx(tuned), "scored as after fine-tuning"
    below, above = table[table["last"] <= 2], table[table["last"] == 3]
    assert (below["value"] == tuned).all()
    # Above, whatever else goes back with the last block, the model is the same.
    assert above["value"].nunique() == 1
    assert above["value"].iloc[0] < tuned - 0.05
    effects = result.tables["effects"]
    own = effects[effects["how"] == "restore"]
    assert (own[own["last"] <= 2][["effect", "low", "high"]] == 0).all(axis=None)
    assert np.allclose(own["effect"], own["value"] - own["baseline"])
    said = [each.text for each in result.findings]
    assert any(text.startswith("What fine-tuning changed in the lower half hardly matters") for text in said), said
    assert any("the tuning of layer 3 matters most" in text for text in said), said


def test_points_choose_layers_and_the_twin_can_be_left_out(top_tuned: Path, tmp_path: Path) -> None:
    settings = {"points": 2, "twin": False, "items": 6, "learn": 12, "samples": 20, "device": "cpu"}
    result = restore(str(top_tuned), sets(), out=tmp_path / "out", **settings)
    table = result.tables["restore"]
    assert list(zip(table["first"], table["last"], strict=True)) == [(0, 0), (0, 3), (1, 3), (3, 3)]
    assert set(result.tables) == {"restore", "effects", "references", "transfer"}
    assert result.tables["transfer"]["layer"].tolist() == [0, 1, 2, 3]
    assert result.provenance.skipped["scored texts beyond the 6 drawn"] == 10
    assert result.provenance.skipped["training texts beyond the 12 for linear heads"] == 28


def test_a_masked_model_is_scored_by_its_loss_and_gets_no_linear_head(model_folder, tmp_path: Path) -> None:
    learning = {"epochs": 99.0, "max_steps": 3, "lr": 1e-2, "batch": 8, "device": "cpu"}
    lamina.finetune(str(model_folder("bert")), sets(), task="mlm", out=tmp_path / "mlm", **learning)
    result = restore(str(tmp_path / "mlm"), sets(), out=tmp_path / "out", points=1, twin=False, device="cpu")
    assert result.tables["references"]["metric"].tolist()[:2] == ["loss", "accuracy"]
    # With everything put back but the head, the loss is another; the same pieces are hidden each time.
    own = result.tables["effects"]
    assert own["baseline"].nunique() == 1
    assert (own["effect"] != 0).all()
    assert "transfer" not in result.tables
    assert result.provenance.skipped["linear heads: mlm has no classes or spans that one could learn"] == 4


def test_a_linear_head_is_logistic_regression_on_the_mean_of_words(model_folder) -> None:
    encoder = load_encoder(str(model_folder("bert")), device="cpu")
    assert isinstance(encoder, HuggingFaceEncoder)
    given = sets(60, 40)
    objective = Classifying.learn(encoder.pieces, 128, given.train)
    found = {head.layer: head.outcomes for head in linear_heads(encoder, objective, given)}
    assert sorted(found) == [0, 1, 2, 3]

    def read(part: Sequence[Item]) -> tuple[np.ndarray, list[str]]:
        given = [text_of(item) for item in part]
        states = []
        for each in encoder.encode(given):
            assert each.states is not None
            states.append(each.states.numpy()[np.flatnonzero(each.tokens.words >= 0)].mean(0))
        return np.stack(states), [text.edges["label"][0].labels[0] for text in given]

    train, gold = read(given.train)
    scored, wanted = read(given.scored)
    for layer in (0, 3):
        middle, spread = train[:, layer].mean(0), train[:, layer].std(0)
        best = max(
            LogisticRegression(C=1 / (len(gold) * penalty), max_iter=5000)
            .fit((train[:, layer] - middle) / spread, gold)
            .score((scored[:, layer] - middle) / spread, wanted)
            for penalty in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4)
        )
        outcomes = found[layer]
        assert outcomes is not None
        # One of the penalties, chosen on texts of its own.
        assert best - 0.1 <= means(outcomes)["accuracy"] <= best


def test_a_linear_head_finds_answers_that_a_token_shows(model_folder) -> None:
    encoder = load_encoder(str(model_folder("bert")), device="cpu")
    assert isinstance(encoder, HuggingFaceEncoder)

    def questions(count: int, seed: int) -> tuple:
        draw = np.random.default_rng(seed)
        made = []
        for number in range(count):
            words = [str(word) for word in draw.permutation([word for word in WORDS if word != "fox"])[:7]]
            words.insert(int(draw.integers(8)), "fox")
            context, start = " ".join(words), len(" ".join(words[: words.index("fox")]))
            start += start > 0
            place = (start, start + 3)
            made.append(
                make_question(
                    f"{seed}-{number}", "who", context, [(0, len(context))], [place], {0}, doc=f"{seed}-{number}"
                )
            )
        return tuple(made)

    given = Sets("toy", questions(30, 1), questions(10, 2), questions(10, 3))
    first = next(iter(linear_heads(encoder, Answering(encoder.pieces, 64), given)))
    assert first.outcomes is not None
    assert means(first.outcomes)["exact_match"] >= 0.9


def shown(effects: list[tuple], metric: str = "accuracy", tuned: float = 0.9) -> Result:
    """A result of a model of four blocks with these differences: how, first, last, effect, and half an interval."""
    columns = list(restore.tables["effects"].columns)
    rows = [
        (how, first, last, tuned, tuned + effect, effect, effect - half, effect + half, 0.01)
        for how, first, last, effect, half in effects
    ]
    table = pd.DataFrame(rows, columns=columns)
    scores = table[["how", "first", "last", "value"]].assign(low=table["value"] - 0.01, high=table["value"] + 0.01)
    tables = {
        "restore": scores[scores["how"].isin(["restore", "freeze", "reset"])].reset_index(drop=True),
        "effects": table,
        "references": pd.DataFrame(
            [
                ("tuned", metric, 100, tuned, tuned - 0.01, tuned + 0.01),
                ("most frequent answer", metric, 100, 0.2, 0.1, 0.3),
            ],
            columns=list(restore.tables["references"].columns),
        ),
    }
    linear = scores[scores["how"] == "transfer"]
    if len(linear):
        tables["transfer"] = linear.rename(columns={"first": "layer"})[["layer", "value", "low", "high"]]
    return Result("restore", tables, Provenance({"name": "runs/pos", "task": "pos"}, {"name": "ewt"}, {}))


def said(result: Result) -> dict[str, str]:
    return {each.text: each.status for each in restore.findings(result)}


def test_lower_layers_that_matter_are_said_to() -> None:
    told = said(
        shown(
            [
                ("restore", 0, 0, 0.0, 0.001),
                ("restore", 0, 2, -0.2, 0.02),
                ("restore", 0, 4, -0.8, 0.02),
                ("restore", 3, 4, -0.05, 0.01),
                ("restore", 4, 4, -0.01, 0.001),
            ]
        )
    )
    assert told == {
        "What fine-tuning changed in the lower half matters: with layers 0 to 2 of 4 put back accuracy is .70, a "
        "difference of -.200 [-.220, -.180] from the tuned model's .90 [.89, .91]; layers 3 to 4 put back instead: "
        "-.050 [-.060, -.040].": "clear",
        "Of single layers, the tuning of layer 4 matters most: put back alone it costs .010 [.009, .011] of accuracy "
        ".90 [.89, .91]; next is layer 0 with .000 [-.001, .001].": "clear",
        "Layer 0 can be put back within 1 point: a difference of .000 [-.001, .001] from .90; of layers 0 to 2 it is "
        "-.200 [-.220, -.180].": "null",
    }  # fmt: skip


def test_of_a_loss_more_is_worse_and_freezing_is_told_beside_its_own_baseline() -> None:
    told = said(shown([("freeze", 0, 0, 0.5, 0.1), ("freeze", 0, 4, 1.5, 0.1)], metric="loss", tuned=2.0))
    assert told == {
        "Not even layer 0 can be frozen while tuning surely within 1 point: loss 2.50, a difference of .500 [.400, "
        ".600] from 2.00 (one run each: other seeds are not in the interval).": "clear"
    }  # fmt: skip


def test_the_chart_has_a_panel_for_every_kind_of_layers() -> None:
    rows = [("restore", 0, at, -0.1 * at, 0.01) for at in range(5)] + [("restore", at, 4, -0.1, 0.01) for at in (1, 4)]
    rows += [("reset", 3, 4, -0.1, 0.01), ("freeze", 0, 2, -0.1, 0.01), ("transfer", 1, 1, -0.1, 0.01)]
    (chart,) = draw(shown(rows)).values()
    spec = chart.to_dict()
    titles = [panel["title"] for panel in spec["concat"]]
    assert titles == ["Layers 0 to l", "Layers l to the top", "Layer l alone", "Linear head on frozen layer l"]
    assert "drawn anew, then tuned, accuracy by l: 3 0.800." in spec["description"]
    assert spec["title"]["subtitle"].startswith("dashed: tuned (.900); dotted: most frequent answer (.200)")

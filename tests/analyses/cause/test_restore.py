"""Layers of a tuned model restored: what was never changed costs nothing, and sentences say what the numbers do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModelForTokenClassification, AutoTokenizer

import lamina
from lamina.analyses.cause.restore import best_table, effect_table, restore
from lamina.analyses.cause.restored_layers import ChangedLayers, LayerRange, linear_heads, width_of
from lamina.corpora.questions.question import make_question
from lamina.figures.restore import draw
from lamina.framework.verify import check_findings
from lamina.models import load_encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Provenance, Result
from lamina.training.objective import Item, Sum, TextOutcome, means, text_of
from lamina.training.reading import Sets
from lamina.training.spans import SpanObjective
from lamina.training.tags import ClassObjective
from lamina.types import Edge, Text
from lamina.types import Span as Words

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
            "pos": tuple(Edge((word[0],), Words(at, at + 1)) for at, word in enumerate(words)),
            "label": (Edge(("low" if words[0] < "l" else "high",), Words(0, 5)),),
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
    # Eight documents: .10 [-.02, .22] is not enough to tell the last layer from the others.
    assert any("whether the tuning of any single layer matters more" in text for text in said), said
    assert not check_findings(result)


def test_the_loss_along_the_line_is_that_of_the_weights_at_its_ends(top_tuned: Path, model_folder, tmp_path) -> None:
    settings = {"points": 1, "transfer": False, "samples": 50, "device": "cpu", "line": True}
    result = restore(str(top_tuned), sets(), out=tmp_path / "out", **settings)
    line = result.tables["line"].set_index("position")
    assert len(line) == 9
    # Independently: the loss of the tagger as saved, by transformers and torch alone.
    tokenizer, model = (kind.from_pretrained(top_tuned) for kind in (AutoTokenizer, AutoModelForTokenClassification))
    model.eval()
    total, count = 0.0, 0
    for text in map(text_of, sets().scored):
        batch = tokenizer([list(text.words)], is_split_into_words=True, return_tensors="pt")
        words = batch.word_ids()
        last = [max(at for at, word in enumerate(words) if word == number) for number in range(len(text.words))]
        gold = [model.config.label2id[edge.labels[0]] for edge in text.edges["pos"]]
        with torch.no_grad():
            logits = model(**batch).logits[0, last]
        total += float(torch.nn.functional.cross_entropy(logits, torch.tensor(gold), reduction="sum"))
        count += len(gold)
    assert line["value"][1.0] == pytest.approx(total / count, rel=1e-4)  # float32, batches of one
    assert line["random"][1.0] == line["value"][1.0], "no step, whatever its direction"
    assert line["value"][0.0] > line["value"][1.0] + 0.05, "tuning lowered the loss"
    assert line["random"][0.0] != line["value"][0.0]
    assert line["difference"].to_numpy() == pytest.approx((line["value"] - line["random"]).to_numpy(), abs=1e-9)
    widths = result.tables["widths"].set_index("direction")["value"]
    assert 0 < widths["line"] <= 2
    assert not check_findings(result)
    assert any(
        "the weights before fine-tuning the loss" in said.text or "halfway back" in said.text
        for said in result.findings
    )
    assert set(draw(result)) >= {"line"}


@pytest.mark.parametrize(("curve", "width"), [(0.0, 2.0), (4.0, 1.0), (16.0, 0.5)])
def test_the_width_of_a_parabola_is_where_it_crosses(curve: float, width: float) -> None:
    positions = np.linspace(0, 2, 2001)
    losses = curve * (positions - 1) ** 2
    assert width_of(positions, losses, 1.0) == pytest.approx(width, abs=1e-3)
    assert width_of(positions, np.stack([losses, losses]), np.ones(2)).tolist() == pytest.approx([width] * 2, abs=1e-3)


def test_points_choose_layers_and_the_twin_can_be_left_out(top_tuned: Path, tmp_path: Path) -> None:
    settings = {"points": 2, "twin": False, "items": 6, "learn": 12, "samples": 20, "device": "cpu"}
    result = restore(str(top_tuned), sets(), out=tmp_path / "out", **settings)
    table = result.tables["restore"]
    assert list(zip(table["first"], table["last"], strict=True)) == [(0, 0), (0, 3), (1, 3), (3, 3)]
    assert set(result.tables) == {"restore", "effects", "best", "references", "transfer"}
    assert result.tables["transfer"]["layer"].tolist() == [0, 1, 2, 3]
    assert result.provenance.skipped["scored texts beyond the 6 drawn"] == 10
    assert result.provenance.skipped["training texts beyond the 12 for linear heads"] == 28


def test_a_masked_model_is_scored_by_its_loss_and_gets_no_linear_head(model_folder, tmp_path: Path) -> None:
    learning = {"epochs": 99.0, "max_steps": 3, "lr": 1e-2, "batch": 8, "device": "cpu"}
    lamina.finetune(str(model_folder("bert")), sets(), task="mlm", out=tmp_path / "mlm", **learning)
    result = restore(str(tmp_path / "mlm"), sets(), out=tmp_path / "out", points=1, twin=False, device="cpu")
    assert result.tables["references"]["metric"].tolist()[:2] == ["loss", "accuracy"]
    # With everything restored but the head, the loss is another; the same tokens are masked each time.
    own = result.tables["effects"]
    assert own["baseline"].nunique() == 1
    assert (own["effect"] != 0).all()
    assert "transfer" not in result.tables
    assert result.provenance.skipped["linear heads: mlm has no classes or spans to learn"] == 4


def test_a_linear_head_is_logistic_regression_on_the_mean_of_words(model_folder) -> None:
    encoder = load_encoder(str(model_folder("bert")), device="cpu")
    assert isinstance(encoder, HuggingFaceEncoder)
    given = sets(60, 40)
    objective = ClassObjective.learn(encoder.word_tokenizer, 128, given.train)
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
    first = next(iter(linear_heads(encoder, SpanObjective(encoder.word_tokenizer, 64), given)))
    assert first.outcomes is not None
    assert means(first.outcomes)["exact_match"] >= 0.9


def outcomes(value: float, metric: str, documents: int, spread: float = 0.0, seed: int = 0) -> list[TextOutcome]:
    """Documents of 100 words whose scores differ, in all models alike but for `spread`."""
    level = np.random.default_rng(0).normal(0, 0.01, documents)
    own = np.random.default_rng([seed, int(1000 * abs(value))]).normal(0, spread, documents)
    return [
        TextOutcome(f"d{at}", {metric: Sum(100 * float(value + level[at] + own[at]), 100, 100)})
        for at in range(documents)
    ]


def shown(
    effects: list[tuple], metric: str = "accuracy", tuned: float = 0.9, *, spread: float = 0.001, documents: int = 20
) -> Result:
    """A result of a model of four blocks with about these differences: how, first, last, effect."""
    own = [outcomes(tuned, metric, documents)]
    changed = [
        ChangedLayers(how, LayerRange(first, last), [outcomes(tuned + effect, metric, documents, spread, at)], own)
        for at, (how, first, last, effect) in enumerate(effects)
    ]
    table = effect_table(changed, metric, "document", seed=0)
    linear = [each for each in changed if each.how == "transfer"]
    scores = table[["how", "first", "last", "value"]].assign(low=table["value"] - 0.01, high=table["value"] + 0.01)
    tables = {
        "restore": scores[scores["how"].isin(["restore", "freeze", "reset"])].reset_index(drop=True),
        "effects": table,
        "best": best_table(changed, linear, metric, "document", samples=400, seed=0),
        "references": pd.DataFrame(
            [
                ("tuned", metric, 100, tuned, tuned - 0.01, tuned + 0.01),
                ("most frequent answer", metric, 100, 0.2, 0.1, 0.3),
            ],
            columns=list(restore.tables["references"].columns),
        ),
    }
    rows = scores[scores["how"] == "transfer"]
    if len(rows):
        tables["transfer"] = rows.rename(columns={"first": "layer"})[["layer", "value", "low", "high"]]
    result = Result("restore", tables, Provenance({"name": "runs/pos", "task": "pos"}, {"name": "ewt"}, {}))
    result = replace(result, findings=restore.findings(result))
    assert not check_findings(result)
    return result


def said(result: Result) -> dict[str, str]:
    return {each.text: each.status for each in result.findings}


LOWER = [
    ("restore", 0, 0, 0.0),
    ("restore", 0, 2, -0.2),
    ("restore", 0, 4, -0.8),
    ("restore", 3, 4, -0.05),
    ("restore", 4, 4, -0.03),
]


def test_lower_layers_that_matter_are_said_to() -> None:
    told = said(shown(LOWER))
    assert [text.split(":")[0] for text in told] == [
        "What fine-tuning changed in the lower half matters",
        "Of single layers, the tuning of layer 4 matters most",
        "Layer 0 can be restored within 1 point",
    ]
    assert list(told.values()) == ["clear", "clear", "null"]
    assert "with layers 0 to 2 restored, accuracy is .70, with layers 3 to 4 restored .85 (layers 0" in next(iter(told))


def test_of_layers_that_matter_alike_none_is_said_to_matter_most() -> None:
    near = [("restore", 0, 0, -0.2), ("restore", 2, 2, -0.2), ("restore", 4, 4, -0.21)]
    told = said(shown(near, spread=0.03))
    (text,) = [text for text in told if "tuning of any single layer matters more" in text]
    assert told[text] == "open"
    assert not any("matters most" in each for each in told)
    # One layer that matters less leaves the two others together.
    told = said(shown([*near[1:], ("restore", 0, 0, 0.0)], spread=0.03))
    assert any(text.startswith("Of single layers, the tuning of layers 2 and 4 matters most") for text in told)


def test_four_documents_are_too_few() -> None:
    assert set(said(shown(LOWER, documents=4)).values()) == {"untested"}


def test_of_a_loss_more_is_worse_and_freezing_is_told_beside_its_own_baseline() -> None:
    told = said(shown([("freeze", 0, 0, 0.5), ("freeze", 0, 4, 1.5)], metric="loss", tuned=2.0))
    ((text, status),) = told.items()
    assert status == "clear"
    assert text.startswith("With layer 0 frozen while tuning the model does worse: loss 2.49")
    assert text.endswith("One training each: how much other seeds differ is not in the interval.")


def test_linear_heads_are_compared_with_tuning_and_with_each_other() -> None:
    told = said(shown([("transfer", 0, 0, -0.3), ("transfer", 1, 1, -0.1), ("transfer", 2, 2, -0.2)]))
    assert list(told.values()) == ["clear", "clear"]
    assert any(text.startswith("No linear head on a frozen layer does as well as tuning all layers") for text in told)
    assert any(text.startswith("A linear head does best on frozen layer 1: accuracy .7") for text in told)


def test_the_chart_has_a_panel_for_every_kind_of_layers() -> None:
    rows = [("restore", 0, at, -0.1 * at) for at in range(5)] + [("restore", at, 4, -0.1) for at in (1, 4)]
    rows += [("reset", 3, 4, -0.1), ("freeze", 0, 2, -0.1), ("transfer", 1, 1, -0.1)]
    (chart,) = draw(shown(rows)).values()
    spec = chart.to_dict()
    titles = [panel["title"] for panel in spec["concat"]]
    assert titles == ["Layers 0 to l", "Layers l to the top", "Layer l alone", "Linear head on frozen layer l"]
    assert "re-initialised, then tuned, accuracy by l: 3 0.79" in spec["description"]
    assert spec["title"]["subtitle"].startswith("dashed: tuned (.900); dotted: most frequent answer (.200)")

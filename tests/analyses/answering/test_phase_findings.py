"""What phases and maps say of themselves: with an effect, without one, and where something is missing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pandas as pd
import pytest

import lamina
from lamina.analyses.answering.failure import (
    ADDED,
    ADDED_OVER_TWIN,
    CHANCE,
    CONTRAST,
    FAILURE_CONTRASTS,
    OVER_CONFIDENCE,
    OVER_TWIN,
)
from lamina.analyses.answering.phases import ANSWERING, answering_table, phases
from lamina.analyses.answering.streaming import DIFFERENCES, LAYERS, PHASES
from lamina.analyses.answering.token_map import token_map
from lamina.framework.verify import check_findings
from lamina.models import load_encoder
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.web.api.questions import map_of

NULLS = ("pseudo roles", "random")


def measured(
    apart: tuple[float, float, float],
    *,
    half: float = 0.01,
    p: float = 0.001,
    answers: float | None = 0.4,
    failure: pd.DataFrame | None = None,
    contrast: pd.DataFrame | None = None,
    groups: tuple[str, ...] = ("all",),
) -> Result:
    """Layer 1 has these values of `answer_apart` for the model, pseudo roles and the twin; layer 0 has none.

    The model answers so many questions more than a constant; without a head where None.
    """
    own, *nulls = apart
    values, differences = [], []
    for group, layer in product(groups, (0, 1)):
        start = (layer, group, "answer_apart", 1)
        for model, value in zip(("m", *(f"m ({null})" for null in NULLS)), apart, strict=True):
            ends = (value * layer, value * layer - half, value * layer + half)
            values.append((model, *start, 40, *ends, float("nan")))
        for against, null in zip(NULLS, nulls, strict=True):
            gap = (own - null) * layer
            at = p if layer else 0.9
            numbers = (own * layer, null * layer, gap, gap - half, gap + half, at, 10, 0, "document")
            differences.append(("m", against, *start, 40, *numbers))
    layers = [("answer_apart", layer, own * layer, 0, 1, 1.0 if layer else 0.01, bool(layer), 10) for layer in (0, 1)]
    tables = {
        "phases": pd.DataFrame(values, columns=list(PHASES)),
        "differences": pd.DataFrame(differences, columns=list(DIFFERENCES)),
        "layers": pd.DataFrame(layers, columns=list(LAYERS)),
        "contrast": pd.DataFrame(columns=list(CONTRAST)) if contrast is None else contrast,
    }
    if answers is not None:
        row = (40, 0.2 + answers, 0.2, answers, answers - 0.1, answers + 0.1, 0.001 if answers > 0.1 else 0.4)
        tables["answering"] = pd.DataFrame([(*row, 10, 0, "document")], columns=list(ANSWERING))
    tables |= {} if failure is None else {"failure_contrasts": failure}
    corpus = {"name": "c", "fingerprint": "g"}
    return Result("phases", tables, Provenance({"name": "m", "fingerprint": "f"}, corpus, {}))


def predicted(
    own: float, twin: float | None, *, gain: float = 0.0, twin_gain: float = 0.0, half: float = 0.03, p: float = 0.01,
    p_twin: float = 0.01, p_gain: float = 0.5, p_sure: float = 0.01,
) -> pd.DataFrame:  # fmt: skip
    """Layer 1 has this AUC, and adds `gain` nats to the confidence, whose AUC is .6; layer 0 tells nothing."""
    rows = []
    for layer, auc in ((0, 0.5), (1, own)):
        some = {CHANCE: (auc, 0.5, p), OVER_CONFIDENCE: (auc, 0.6, p_sure), ADDED: (gain * layer, 0.0, p_gain)}
        if twin is not None:
            some |= {OVER_TWIN: (auc, 0.5 if not layer else twin, p_twin)}
            some |= {ADDED_OVER_TWIN: (gain * layer, twin_gain * layer, p_twin)}
        for name, (value, other, at) in some.items():
            lead, reach = value - other, half / (3 if "added" in name else 1)
            at = at if layer else 0.9
            rows.append((name, layer, value, other, lead, lead - reach, lead + reach, at, 10, 0, "document"))
    return pd.DataFrame(rows, columns=list(FAILURE_CONTRASTS)).astype({"layer": "Int64"})


def found(result: Result, containing: str) -> list[Finding]:
    return [each for each in phases.findings(result) if containing in each.text]


def apart_of(result: Result) -> Finding:
    (one,) = found(result, "apart from all other words")
    return one


def test_an_answer_apart_is_clear_only_beyond_pseudo_roles_and_twin() -> None:
    clear = apart_of(measured((0.2, 0.01, 0.05)))
    assert clear.status == "clear"
    # Of both nulls, the one that is closer.
    assert clear.text == (
        "At layer 1 the answer stands farther apart from all other words than with random weights: by a cosine of .20 "
        "against .05; the highest value is at layer 1 (difference .15 [.14, .16])."
    )
    assert apart_of(measured((0.2, 0.01, 0.05), p=0.06)).status == "open"
    assert apart_of(measured((0.055, 0.05, 0.05))).status == "null"
    assert "as far apart from all other words as" in apart_of(measured((0.055, 0.05, 0.05))).text
    below = apart_of(measured((-0.2, 0.01, 0.05)))
    assert (below.status, "stands less far apart" in below.text) == ("clear", True)


@pytest.mark.parametrize(("answers", "said"), [(None, "no head that answers"), (0.02, "not shown to answer better")])
def test_phases_are_not_told_for_a_model_that_cannot_answer(answers: float | None, said: str) -> None:
    told = phases.findings(measured((0.2, 0.01, 0.05), answers=answers, failure=predicted(0.75, 0.5)))
    assert not any("apart from all other words" in each.text or "predicts" in each.text for each in told)
    (one,) = [each for each in told if each.status == "untested"]
    assert said in one.text


def test_a_model_answers_where_it_beats_a_tasks_most_frequent_answer() -> None:
    judged = [(f"d{number}", "qa1", number % 5 > 0, ("garden",) if number % 4 else ("hall",)) for number in range(40)]
    (row,) = answering_table([judged]).to_dict("records")
    assert (row["value"], row["other"], row["units"]) == (0.8, 0.75, 40)
    assert row["p_adjusted"] > 0.05
    better = [(*each[:2], True, (str(number),)) for number, each in enumerate(judged)]
    assert answering_table([better])["p_adjusted"].iloc[0] < 0.001


def test_failures_are_predicted_only_where_layer_beats_twin_and_chance() -> None:
    def told(table: pd.DataFrame) -> Finding:
        (one,) = found(measured((0.2, 0, 0), failure=table), "which answers are wrong")
        return one

    clear = told(predicted(0.75, 0.56))
    assert clear.text == (
        "Layer 1 predicts which answers are wrong with an AUC of .75, with random weights .56 (difference .19 [.16, "
        ".22])."
    )
    # Chance is another contrast: told where it is the less sure one.
    assert "better than chance" in told(predicted(0.75, 0.56, p=0.2)).text
    assert told(predicted(0.75, 0.56, p=0.2)).status == "open"
    assert told(predicted(0.75, 0.56, p_twin=0.06)).status == "open"
    nothing = told(predicted(0.57, 0.565, p_twin=0.6))
    assert (nothing.status, "no better than the same layer with random weights" in nothing.text) == ("null", True)
    alone = told(predicted(0.75, None))
    assert (alone.status, alone.contrast) == ("clear", "difference")
    assert "; chance is .50" in alone.text


def test_failures_are_compared_with_the_models_confidence_by_a_contrast_of_its_own() -> None:
    """An AUC against .5 does not say that a layer knows more than the confidence, whose AUC is .6."""
    (ahead,) = found(measured((0.2, 0, 0), failure=predicted(0.75, 0.5)), "better than the model's confidence")
    assert (ahead.status, ahead.estimate) == ("clear", pytest.approx(0.15))
    (unsure,) = found(measured((0.2, 0, 0), failure=predicted(0.65, 0.5, p_sure=0.3)), "model's confidence does")
    assert unsure.status == "open"
    table = predicted(0.55, 0.5)
    behind = table["contrast"] == OVER_CONFIDENCE
    table.loc[behind, "p_adjusted"] = 0.01
    (confidence,) = found(measured((0.2, 0, 0), failure=table), "better than any layer does")
    assert confidence.status == "clear"
    assert "AUC .60, layer 1 .55" in confidence.text


@pytest.mark.parametrize(
    ("gain", "twin", "p_gain", "p_twin", "status", "said"),
    [
        (0.1, 0.0, 0.01, 0.01, "clear", "Layer 1 adds to what the model's confidence says of wrong answers: .100 nats"),
        (0.1, 0.1, 0.01, 0.9, "open", "adds more than the same layer with random weights to what"),
        (0.1, 0.0, 0.2, 0.01, "open", "It is not known whether layer 1 adds to what the model's confidence says"),
    ],
)
def test_gains_over_the_confidence(
    gain: float, twin: float, p_gain: float, p_twin: float, status: str, said: str
) -> None:
    table = predicted(0.75, 0.5, gain=gain, twin_gain=twin, p_gain=p_gain, p_twin=p_twin, half=0.09)
    (one,) = found(measured((0.2, 0, 0), failure=table), "says of wrong answers")
    assert said in one.text or "adds" in one.text
    assert one.status == status


def contrasted(difference: float, half: float, p: float, layer: int = 5, task: str = "all") -> tuple:
    sides = (0.5 + difference, 0.4, 0.9, 0.5, 0.4, 0.6)
    tested = (difference, difference - half, difference + half, p, 12, 0, "document")
    return ("m", task, layer, "answer_apart", 1, *sides, *tested, 80, 60, 4)


@pytest.mark.parametrize(
    ("difference", "p", "status", "said"),
    [
        (0.3, 0.001, "clear", "Where the answer is right, the gold answer stands more apart, at layer 5: .80 against"),
        (-0.3, 0.001, "clear", "the gold answer stands less apart"),
        (0.1, 0.4, "open", "right and wrong answers to similar questions differ (most in answer_apart at layer 5)"),
    ],
)
def test_right_and_wrong_answers_are_contrasted(difference: float, p: float, status: str, said: str) -> None:
    # A single task is not what the finding is about.
    rows = [contrasted(difference, 0.1, p + 0.1, 4), contrasted(difference, 0.1, p)]
    rows.append(contrasted(difference, 0.1, p / 2, 3, "qa1"))
    (one,) = found(measured((0.2, 0, 0), contrast=pd.DataFrame(rows, columns=list(CONTRAST))), said)
    assert (one.status, one.estimate) == (status, pytest.approx(difference))
    assert "80 wrong answers stand beside right ones" in one.text


def test_right_and_wrong_answers_that_differ_by_nothing_are_a_null_only_where_all_measures_do() -> None:
    nothing, wide = contrasted(0.001, 0.011, 1.0), contrasted(0.0, 0.2, 1.0, 4)
    (one,) = found(measured((0.2, 0, 0), contrast=pd.DataFrame([nothing], columns=list(CONTRAST))), "similar questions")
    assert one.status == "null"
    both = pd.DataFrame([nothing, wide], columns=list(CONTRAST))
    (one,) = found(measured((0.2, 0, 0), contrast=both), "similar questions")
    assert (one.status, one.source[0].where["layer"]) == ("open", 4)


def test_tasks_without_both_kinds_of_answers_are_said() -> None:
    result = measured((0.2, 0, 0))
    tasks = pd.DataFrame({"task": ["qa1", "qa15"], "questions": [100, 58], "right": [100, 0], "compared": False})
    result.tables["tasks"] = tasks.reindex(columns=list(phases.tables["tasks"].columns))
    (one,) = found(result, "no task has both")
    assert one.status == "untested"
    assert "(100 of 100 right in qa1, 0 of 58 right in qa15)" in one.text


def test_what_cannot_be_told_is_said_or_left_out() -> None:
    nothing = pd.DataFrame(columns=list(FAILURE_CONTRASTS))
    (one,) = found(measured((0.2, 0, 0), failure=nothing, groups=("all", "wrong")), "can be predicted")
    assert (one.status, one.estimate) == ("untested", None)
    assert "all answers are wrong" in one.text
    (answers,) = phases.findings(measured((float("nan"),) * 3))
    assert "exactly" in answers.text


def test_what_is_declared_is_what_comes_and_the_checkpoint_is_read_once(answering_folder, toys, monkeypatch) -> None:
    from transformers import PreTrainedModel

    original, read = PreTrainedModel.from_pretrained.__func__, []

    def counted(cls, source, *args, **kwargs):
        read.append(str(source))
        return original(cls, source, *args, **kwargs)

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(counted))
    result = lamina.phases(str(answering_folder), toys, samples=20, clustered=3, device="cpu")
    assert read == [str(answering_folder)]
    assert {name: tuple(table.columns) for name, table in result.tables.items()} == {
        name: table.columns for name, table in phases.tables.items()
    }
    assert result.findings
    assert check_findings(result) == []
    assert result.provenance.parameters["predicted"] == 2000


def test_a_head_that_the_checkpoint_lacks_answers_nothing(answering_folder, toys) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(answering_folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("qa_outputs")}
    save_file(kept, answering_folder / "model.safetensors", metadata={"format": "pt"})
    encoder = load_encoder(str(answering_folder), device="cpu")
    assert encoder.span_model is None
    assert token_map(encoder, toys).tables["answer"]["predicted"].tolist() == [""]


def test_a_model_in_memory_answers_with_its_own_head(answering_folder, toys) -> None:
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = AutoModelForQuestionAnswering.from_pretrained(answering_folder)
    pair = model, AutoTokenizer.from_pretrained(answering_folder)
    of_pair, of_folder = (
        token_map(each, toys, device="cpu").tables["answer"] for each in (pair, str(answering_folder))
    )
    pd.testing.assert_frame_equal(of_pair, of_folder)


def test_a_map_says_how_little_it_shows(answering_folder, toys) -> None:
    result = token_map(str(answering_folder), toys, example="q2", device="cpu")
    (grouped,) = result.findings
    # One question decides nothing.
    assert grouped.status == "untested"
    assert "one question is no sample; memberships agree over seeds" in grouped.text
    assert check_findings(result) == []


def test_wrong_14_no_layer_has_the_clearest_clusters_of_one_question(answering_folder, toys) -> None:
    """'Tokens form the clearest clusters at layer 5, silhouette .28' held for one seed of k-means."""
    result = token_map(str(answering_folder), toys, example="q2", device="cpu")
    projection = result.tables["projection"]
    assert projection["stability"].between(-1, 1).all()
    assert not any("clearest" in found.text for found in result.findings)
    projection["stability"] = 0.5
    (told,) = token_map.findings(result)
    assert told.text.endswith("at no layer.")


def test_wrong_14_the_app_outlines_clusters_only_where_other_seeds_find_them(answering_folder, toys) -> None:
    result = token_map(str(answering_folder), toys, example="q2", device="cpu")
    projection = result.tables["projection"]
    projection["stability"] = [0.3] + [0.9] * (len(projection) - 1)
    shown = map_of(result).layers
    assert [layer.stability for layer in shown] == projection["stability"].tolist()
    assert [layer.stable for layer in shown] == [False] + [True] * (len(shown) - 1)
    # Of an older version, which did not measure it.
    older = map_of(replace(result, tables={**result.tables, "projection": projection.drop(columns="stability")}))
    assert {(layer.stability, layer.stable) for layer in older.layers} == {(None, True)}


def test_costs_are_counted(answering_folder, toys) -> None:
    told = phases.estimate(str(answering_folder), toys, samples=20, device="cpu")
    assert (told.passes, told.texts) == (3, 12)
    assert told.seconds > 0
    one = token_map.estimate(str(answering_folder), toys, example="q3", device="cpu")
    assert (one.passes, one.texts) == (2, 1)


def test_of_stories_that_are_answered_too_rarely_no_phases_are_told() -> None:
    result = measured((0.2, 0, 0))
    rows = [("qa1", 100, 70, 0.7, 0.6, 0.79, 20, 0, 0, True), ("qa2", 100, 30, 0.3, 0.2, 0.4, 10, 55, 3, True)]
    result.tables["tasks"] = pd.DataFrame(rows, columns=list(phases.tables["tasks"].columns))
    texts = [finding.text for finding in phases.findings(result)]
    start = "The model answers 70 % of the questions about where somebody is after several moves (qa1) and 30 %"
    assert texts[0].startswith(start)
    assert "it answers no task of the stories in 85 % of the cases" in texts[1]
    assert len(texts) == 2

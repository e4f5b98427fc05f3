"""What phases and maps say of themselves: with an effect, without one, and where something is missing."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

import lamina
from lamina.analyses.questions.contrast import CONTRAST
from lamina.analyses.questions.failure import FAILURE
from lamina.analyses.questions.phases import phases
from lamina.analyses.questions.streaming import DIFFERENCES, PHASES
from lamina.analyses.questions.token_map import token_map
from lamina.analyses.verification import check_findings
from lamina.encoders import load_encoder
from lamina.findings import Finding, number
from lamina.results import Provenance, Result

NULLS = ("pseudo roles", "random")


def measured(
    apart: tuple[float, float, float],
    *,
    half: float = 0.01,
    p: float = 0.001,
    failure: pd.DataFrame | None = None,
    contrast: pd.DataFrame | None = None,
    groups: tuple[str, ...] = ("all",),
) -> Result:
    """Layer 1 has these values of `answer_apart` for the model, pseudo roles and the twin; layer 0 has none."""
    own, *nulls = apart
    values, differences = [], []
    for group, layer in product(groups, (0, 1)):
        start = (layer, group, "answer_apart", 1)
        for model, value in zip(("m", *(f"m ({null})" for null in NULLS)), apart, strict=True):
            values.append((model, *start, 40, value * layer, value * layer - half, value * layer + half))
        for against, null in zip(NULLS, nulls, strict=True):
            gap = (own - null) * layer
            numbers = (own * layer, null * layer, gap, gap - half, gap + half, p, p)
            differences.append(("m", against, *start, 10, 40, *numbers))
    tables = {
        "phases": pd.DataFrame(values, columns=list(PHASES)),
        "differences": pd.DataFrame(differences, columns=list(DIFFERENCES)),
    }
    tables |= {} if failure is None else {"failure": failure}
    tables |= {} if contrast is None else {"contrast": contrast}
    corpus = {"name": "c", "fingerprint": "g"}
    return Result("phases", tables, Provenance({"name": "m", "fingerprint": "f"}, corpus, {}))


def predicted(
    own: float,
    twin: float | None,
    *,
    gain: float = 0.0,
    twin_gain: float = 0.0,
    half: float = 0.03,
    p: float = 0.01,
    p_gain: float = 0.5,
    p_twin: float = 0.01,
    tasks: int = 1,
) -> pd.DataFrame:
    """Layer 1 has this AUC, and adds `gain` to the confidence, whose AUC is .6."""
    common = {"count": 200, "documents": 10, "tasks": tasks, "seeds": 1, "p": p, "p_adjusted": p}

    def row(model: str, layer: object, feature: str, auc: float, **more: float) -> dict[str, object]:
        return common | {"model": model, "layer": layer, "feature": feature, **_ends("auc", auc, half)} | more

    rows = [row("m", pd.NA, "confidence", 0.6)]
    for layer, auc in ((0, 0.5), (1, own)):
        gains = _ends("gain_auc", gain * layer, half / 2) | _ends("gain_log_loss", gain * layer, half / 2)
        tests = {"p_gain": p_gain, "p_gain_holm": p_gain}
        ahead = {}
        if twin is not None:
            ahead = _ends("over_twin", auc - twin, half) | _ends("gain_over_twin", (gain - twin_gain) * layer, half / 2)
            ahead |= {f"p_{name}_holm": p_twin for name in ("over_twin", "gain_over_twin")}
        rows.append(row("m", layer, "vectors", auc, **gains, **tests, **ahead))
        if twin is not None:
            rows.append(row("m (random)", layer, "vectors", twin))
    return pd.DataFrame(rows, columns=list(FAILURE)).astype({"layer": "Int64"})


def _ends(name: str, value: float, half: float) -> dict[str, float]:
    start = "" if name == "auc" else f"{name}_"
    return {name: value, f"{start}low": value - half, f"{start}high": value + half}


def found(result: Result, containing: str) -> list[Finding]:
    return [each for each in phases.findings(result) if containing in each.text]


def test_an_answer_apart_is_clear_only_beyond_pseudo_roles_and_twin() -> None:
    (clear,) = phases.findings(measured((0.2, 0.01, 0.05)))
    assert clear.status == "clear"
    assert clear.text == (
        "The answer stands apart most at layer 1: its words are .20 [.19, .21] farther (cosine) from all other words "
        "than those are from each other; another span of that length gives .01 (difference .19 [.18, .20], p = .001); "
        "the random-weights twin gives .05 (difference .15 [.14, .16], p = .001)."
    )
    assert (clear.value, clear.against, clear.chapter) == (0.2, 0.05, "answering")
    (unproven,) = phases.findings(measured((0.2, 0.01, 0.05), p=0.06))
    assert unproven.status == "open"
    (overlapping,) = phases.findings(measured((0.2, 0.01, 0.17), half=0.05))
    assert overlapping.status == "open"
    assert "undecided" in overlapping.text
    (nothing,) = phases.findings(measured((0.055, 0.01, 0.05)))
    assert nothing.status == "null"
    assert "hardly stands apart" in nothing.text
    # Farther than nulls that are below 0, and yet not apart.
    (tiny,) = phases.findings(measured((0.009, -0.1, -0.1)))
    assert tiny.status == "null"


def test_failures_are_predicted_only_where_layer_beats_twin() -> None:
    (clear,) = found(measured((0.2, 0, 0), failure=predicted(0.75, 0.56)), "can be predicted from")
    assert clear.status == "clear"
    assert clear.text == (
        "Wrong answers can be predicted from layer 1: AUC .75 [.72, .78] on 200 questions, p = .010; the "
        "random-weights twin reaches .56 (difference .19 [.16, .22], p = .010)."
    )
    (within,) = found(measured((0.2, 0, 0), failure=predicted(0.75, 0.56, tasks=3)), "can be predicted from")
    assert "on 200 questions compared within 3 tasks, p = .010" in within.text
    (untested,) = found(measured((0.2, 0, 0), failure=predicted(0.75, 0.56, p_twin=0.06)), "predicted is undecided")
    assert untested.status == "open"
    (nothing,) = found(measured((0.2, 0, 0), failure=predicted(0.57, 0.56)), "cannot be predicted")
    assert (nothing.status, nothing.against) == ("null", 0.56)
    (unsure,) = found(measured((0.2, 0, 0), failure=predicted(0.62, 0.58, half=0.05)), "predicted is undecided")
    assert unsure.status == "open"
    (unproven,) = found(measured((0.2, 0, 0), failure=predicted(0.75, 0.56, p=0.2)), "predicted is undecided")
    assert unproven.status == "open"
    (as_twin,) = found(measured((0.2, 0, 0), failure=predicted(0.88, 0.88)), "AUC .88")
    assert as_twin.status == "null"
    assert as_twin.text.startswith(
        "Wrong answers can be predicted from layer 1, but no better than by an untrained model"
    )
    # As wide as intervals of a few hundred questions are: a lead of nothing is a null, one of .04 is not.
    wide = {"half": 0.08, "p_twin": 0.9}
    (nothing,) = found(measured((0.2, 0, 0), failure=predicted(0.87, 0.87, **wide)), "AUC .87")
    assert (nothing.status, nothing.against) == ("null", 0.87)
    (unsure,) = found(measured((0.2, 0, 0), failure=predicted(0.87, 0.83, **wide)), "AUC .87")
    assert unsure.status == "open"
    (alone,) = found(measured((0.2, 0, 0), failure=predicted(0.75, None)), "chance is .50")
    assert alone.status == "clear"


@pytest.mark.parametrize(
    ("gain", "twin", "p", "status", "said"),
    [
        (0.1, 0.0, 0.01, "clear", "Layer 1 knows of failures what the model's confidence does not say"),
        (0.1, 0.1, 0.01, "null", "but so does an untrained model"),
        (0.1, 0.075, 0.01, "open", "Whether a layer adds to the model's confidence is undecided"),
        (0.1, 0.0, 0.2, "open", "Whether a layer adds to the model's confidence is undecided"),
        (0.001, 0.0, 0.6, "null", "No layer adds to the model's confidence"),
    ],
)
def test_failures_are_compared_with_the_models_confidence(
    gain: float, twin: float, p: float, status: str, said: str
) -> None:
    # A lead of .025 is more than nothing, and not tested well enough to be sure of.
    table = predicted(0.75, 0.5, gain=gain, twin_gain=twin, p_gain=p, p_twin=0.2 if twin == 0.075 else 0.01)
    (one,) = found(measured((0.2, 0, 0), failure=table), said)
    assert (one.status, one.value, one.against) == (status, pytest.approx(gain), 0.0)
    assert "confidence alone has an AUC of .60" in one.text
    assert f"the random-weights twin adds {number(twin)} (difference" in one.text


@pytest.mark.parametrize(
    ("difference", "p", "status", "said"),
    [
        (0.3, 0.001, "clear", "Where the answer is right, the gold answer stands more apart, most clearly at layer 5"),
        (-0.3, 0.001, "clear", "the gold answer stands less apart"),
        (0.1, 0.4, "open", "are not told apart by any measure at any layer: most by answer_apart at layer 5"),
    ],
)
def test_right_and_wrong_answers_are_contrasted(difference: float, p: float, status: str, said: str) -> None:
    row = ("m", "all", 5, "answer_apart", 1, 12, 0.5 + difference, 0.4, 0.9, 0.5, 0.4, 0.6)
    row += (difference, difference - 0.1, difference + 0.1, p, p, 80, 60, 4)
    weaker = ("m", "all", 4, *row[3:15], p + 0.1, p + 0.1, *row[17:])
    # A single task is not what the finding is about.
    single = ("m", "qa1", 3, *row[3:15], p / 2, p / 2, *row[17:])
    result = measured((0.2, 0, 0), contrast=pd.DataFrame([weaker, row, single], columns=list(CONTRAST)))
    (one,) = found(result, said)
    assert (one.status, one.value, one.against) == (status, difference, 0.0)
    assert "80 wrong answers, each beside right ones of the same task, question word and length of answer" in one.text
    assert "(60 in the same document; 4 unmatched)" in one.text


def test_right_and_wrong_answers_that_differ_by_nothing_are_a_null() -> None:
    row = (
        "m",
        "all",
        5,
        "answer_apart",
        1,
        12,
        0.5,
        0.49,
        0.51,
        0.5,
        0.49,
        0.51,
        0.001,
        -0.01,
        0.012,
        0.9,
        1.0,
        80,
        60,
        4,
    )
    (one,) = found(measured((0.2, 0, 0), contrast=pd.DataFrame([row], columns=list(CONTRAST))), "not told apart")
    assert one.status == "null"


def test_tasks_without_both_kinds_of_answers_are_said() -> None:
    result = measured((0.2, 0, 0), contrast=pd.DataFrame(columns=list(CONTRAST)))
    rows = [("qa1", 100, 100, 0, 0, False), ("qa15", 58, 0, 55, 3, False)]
    result.tables["tasks"] = pd.DataFrame(rows, columns=list(phases.tables["tasks"].columns))
    (one,) = found(result, "cannot be compared")
    assert one.status == "open"
    assert "no task has both (100 of 100 right in qa1, 0 of 58 right in qa15)" in one.text


def test_what_cannot_be_told_is_open_or_left_out() -> None:
    nothing = pd.DataFrame(columns=list(FAILURE))
    (one,) = found(measured((0.2, 0, 0), failure=nothing, groups=("all", "wrong")), "is unknown")
    assert (one.status, one.value) == ("open", None)
    assert "all answers are wrong" in one.text
    (nan,) = phases.findings(measured((0.2, 0.01, 0.05), half=float("nan")))
    assert nan.status == "open"
    assert phases.findings(measured((float("nan"),) * 3)) == ()


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


def test_costs_are_counted(answering_folder, toys) -> None:
    told = phases.estimate(str(answering_folder), toys, samples=20, device="cpu")
    assert (told.passes, told.texts) == (3, 12)
    assert told.seconds > 0
    one = token_map.estimate(str(answering_folder), toys, example="q3", device="cpu")
    assert (one.passes, one.texts) == (2, 1)

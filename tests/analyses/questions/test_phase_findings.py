"""What phases and maps say of themselves: with an effect, without one, and where something is missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lamina
from lamina.analyses.questions.failure import FAILURE
from lamina.analyses.questions.phases import PHASES, phases
from lamina.analyses.questions.token_map import token_map
from lamina.encoders import load_encoder
from lamina.results import Finding, Provenance, Result
from lamina.testing import TinyEncoder

MODELS = ("m", "m (shuffled roles)", "m (random)")


def measured(
    apart: tuple[float, float, float],
    *,
    half: float = 0.01,
    failure: pd.DataFrame | None = None,
    groups: tuple[str, ...] = ("all",),
) -> Result:
    """Layer 1 has these values of `answer_apart` for the model, shuffled roles and the twin; layer 0 has none."""
    rows = [
        (model, layer, group, "answer_apart", 40, value * layer, value * layer - half, value * layer + half)
        for model, value in zip(MODELS, apart, strict=True)
        for layer in (0, 1)
        for group in groups
    ]
    tables = {"phases": pd.DataFrame(rows, columns=list(PHASES))}
    if failure is not None:
        tables["failure"] = failure
    corpus = {"name": "c", "fingerprint": "g"}
    return Result("phases", tables, Provenance({"name": "m", "fingerprint": "f"}, corpus, {}))


def predicted(
    own: float, twin: float | None, confidence: float, *, half: float = 0.03, p: float = 0.01
) -> pd.DataFrame:
    rows = [("m", pd.NA, "confidence", 200, confidence, confidence - half, confidence + half, p, np.nan)]
    for layer, auc in ((0, 0.5), (1, own)):
        rows.append(("m", layer, "vectors", 200, auc, auc - half, auc + half, p, p))
        gap = auc - confidence
        rows.append(("m", layer, "vectors - confidence", 200, gap, gap - half, gap + half, p, p))
        if twin is not None:
            rows.append(("m (random)", layer, "vectors", 200, twin, twin - half, twin + half, p, p))
    return pd.DataFrame(rows, columns=list(FAILURE)).astype({"layer": "Int64"})


def found(result: Result, containing: str) -> list[Finding]:
    return [each for each in phases.findings(result) if containing in each.text]


def test_an_answer_apart_is_clear_only_beyond_shuffled_roles_and_twin() -> None:
    (clear,) = phases.findings(measured((0.2, 0.01, 0.05)))
    assert clear.status == "clear"
    assert clear.text.startswith("The answer stands apart most at layer 1: its words are .20 [.19, .21] farther")
    assert "shuffled roles .01 [.00, .02], random-weights twin .05 [.04, .06]" in clear.text
    assert (clear.value, clear.against, clear.chapter) == (0.2, 0.05, "answering")
    (overlapping,) = phases.findings(measured((0.2, 0.01, 0.17), half=0.05))
    assert overlapping.status == "open"
    assert "undecided" in overlapping.text
    (nothing,) = phases.findings(measured((0.055, 0.01, 0.05)))
    assert nothing.status == "null"
    assert "hardly stands apart" in nothing.text
    # Farther than controls that are below 0, and yet not apart.
    (tiny,) = phases.findings(measured((0.009, -0.1, -0.1)))
    assert tiny.status == "null"


def test_failures_are_predicted_only_where_layer_beats_twin() -> None:
    (clear,) = found(measured((0.2, 0, 0), failure=predicted(0.75, 0.56, 0.6)), "can be predicted from")
    assert clear.status == "clear"
    assert clear.text == (
        "Wrong answers can be predicted from layer 1: AUC .75 [.72, .78] on 200 questions; the random-weights twin "
        "reaches .56 [.53, .59], the model's own confidence .60 [.57, .63]."
    )
    (nothing,) = found(measured((0.2, 0, 0), failure=predicted(0.58, 0.56, 0.6)), "cannot be predicted")
    assert (nothing.status, nothing.against) == ("null", 0.56)
    (unsure,) = found(measured((0.2, 0, 0), failure=predicted(0.62, 0.58, 0.6, half=0.05)), "predicted is undecided")
    assert unsure.status == "open"
    (unproven,) = found(measured((0.2, 0, 0), failure=predicted(0.75, 0.56, 0.6, p=0.2)), "predicted is undecided")
    assert unproven.status == "open"
    (as_twin,) = found(measured((0.2, 0, 0), failure=predicted(0.88, 0.88, 0.77)), "AUC .88")
    assert as_twin.status == "null"
    assert as_twin.text.startswith(
        "Wrong answers can be predicted from layer 1, but no better than by an untrained model"
    )
    (alone,) = found(measured((0.2, 0, 0), failure=predicted(0.75, None, 0.6)), "chance is .50")
    assert alone.status == "clear"


@pytest.mark.parametrize(
    ("own", "status", "said"),
    [(0.75, "clear", "better than"), (0.8, "null", "as well as"), (0.7, "clear", "less well than")],
)
def test_failures_are_compared_with_the_models_confidence(own: float, status: str, said: str) -> None:
    sure = 0.62 if said == "better than" else 0.8
    (one,) = found(measured((0.2, 0, 0), failure=predicted(own, 0.5, sure)), f"{said} the model's own confidence")
    assert one.status == status
    assert one.value == pytest.approx(own - sure)


def test_nothing_is_said_of_confidence_that_intervals_do_not_carry() -> None:
    unsure = measured((0.2, 0, 0), failure=predicted(0.7, 0.5, 0.66, half=0.06))
    assert [each.status for each in found(unsure, "own confidence is undecided")] == ["open"]
    # An untrained model tells as much: that a layer beats confidence says nothing of what was learned.
    as_twin = measured((0.2, 0, 0), failure=predicted(0.88, 0.88, 0.6))
    assert not found(as_twin, "better than the model's own confidence")


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
    answered, shown, grouped = result.findings
    assert answered.text.startswith("The model answers ")
    assert answered.text.endswith(("which is right.", "which is wrong."))
    assert "of a layer's variance" in shown.text
    assert "this is one question only" in grouped.text
    # One question decides nothing.
    assert {each.status for each in result.findings} == {"open"}
    silent = token_map(TinyEncoder(), toys, method="ica")
    assert len(silent.findings) == 1


def test_costs_are_counted(answering_folder, toys) -> None:
    told = phases.estimate(str(answering_folder), toys, samples=20, device="cpu")
    assert (told.passes, told.texts) == (3, 12)
    assert told.seconds > 0
    one = token_map.estimate(str(answering_folder), toys, example="q3", device="cpu")
    assert (one.passes, one.texts) == (2, 1)

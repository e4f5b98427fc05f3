"""What language models say about typed text, as a program asks the server."""

from __future__ import annotations

import pytest

from lamina.models.language.language_model import WrittenPassage, language_model, score_passages
from lamina.models.language.slots import Gap, fill_gaps, token_logprobs
from lamina.testing import TinyEncoder
from lamina.web.api.behaviour import MOST_CANDIDATES, MOST_TOKENS
from tests.language_models import tiny_causal, tiny_masked

GOOD, BAD = "the dog sees the cat", "the dog see the cat"
GAP = "the dog sees the [MASK]"


@pytest.fixture(scope="module")
def models():
    return {"masked": tiny_masked(), "causal": tiny_causal(), "headless": TinyEncoder()}


def test_a_typed_pair_is_scored_by_every_model(client, models):
    asked = {"models": ["masked", "causal", "masked"], "good": GOOD, "bad": BAD}
    answer = client(models).post("/api/behaviour/pairs", json=asked).json()
    assert [(each["model"], each["kind"]) for each in answer] == [("masked", "masked"), ("causal", "causal")]
    for each in answer:
        expected = [
            found.total
            for found in score_passages(
                language_model(models[each["model"]]), [WrittenPassage.typed(text, text) for text in (GOOD, BAD)]
            )
        ]
        assert [each["good"]["logprob"], each["bad"]["logprob"]] == pytest.approx(expected, abs=1e-4)
        assert each["margin"] == pytest.approx(expected[0] - expected[1], abs=1e-4)
        assert each["right"] == float(each["margin"] > 0)
        assert [word["word"] for word in each["good"]["words"]] == GOOD.split()
        assert sum(word["logprob"] for word in each["good"]["words"]) == pytest.approx(expected[0], abs=1e-4)


@pytest.mark.parametrize("name", ["masked", "causal"])
def test_a_typed_gap_is_filled(client, models, name):
    asked = {"models": [name], "text": GAP, "candidates": ["dog", "cat"], "top": 3}
    (answer,) = client(models).post("/api/behaviour/cloze", json=asked).json()
    model, slot = language_model(models[name]), Gap("1", "the dog sees the ")
    every = next(token_logprobs(model, [slot])).exp()
    assert [each["probability"] for each in answer["top"]] == pytest.approx(every.topk(3).values.tolist(), abs=1e-5)
    filled = next(fill_gaps(model, [slot], [["dog", "cat"]]))
    assert [each["logprob"] for each in answer["candidates"]] == pytest.approx([e.logprob for e in filled], abs=1e-4)
    assert answer["sees_after"] is (name == "masked")
    alone = client(models).post("/api/behaviour/cloze", json={"models": [name], "text": GAP}).json()
    assert (len(alone[0]["top"]), alone[0]["candidates"]) == (10, [])


def test_the_logit_lens_is_a_grid_of_tokens_and_layers(client, models):
    encoder = models["causal"]
    answer = client(models).post("/api/behaviour/logit_lens", json={"model": "causal", "text": GOOD, "top": 2}).json()
    # What comes after the text is told too; its token is not there.
    assert answer["tokens"][-1] == ""
    assert answer["layers"] == encoder.layers
    assert {len(row) for row in answer["cells"]} == {encoder.layers}
    assert [row[-1]["kl"] for row in answer["cells"]] == pytest.approx([0.0] * len(answer["tokens"]), abs=1e-5)
    last = answer["cells"][-1]
    assert last[0]["actual"] is None
    said = next(token_logprobs(language_model(encoder), [Gap("1", f"{GOOD} ")])).exp().topk(2).values.tolist()
    assert [each["probability"] for each in last[-1]["top"]] == pytest.approx(said, abs=1e-5)
    reached, pieces = answer["reached"][-1], [cell["top"][0]["piece"] for cell in last]
    assert set(pieces[reached:]) == {pieces[-1]}
    assert reached == 0 or pieces[reached - 1] != pieces[-1]


@pytest.mark.parametrize(
    ("path", "asked", "code", "said"),
    [
        ("pairs", {"models": ["headless"], "good": GOOD, "bad": BAD}, 400, "has no language-model head; these have"),
        ("pairs", {"models": ["masked"], "good": GOOD, "bad": GOOD}, 400, "expected two sentences that differ"),
        ("pairs", {"models": ["masked"], "good": GOOD, "bad": " "}, 400, "the typed pair"),
        ("pairs", {"models": ["masked"], "good": GOOD, "bad": "the " * 300}, 413, f"at most {MOST_TOKENS}"),
        ("pairs", {"models": [], "good": GOOD, "bad": BAD}, 422, "models"),
        ("pairs", {"models": ["nobody"], "good": GOOD, "bad": BAD}, 404, "'nobody' was not named"),
        ("cloze", {"models": ["masked"], "text": GOOD}, 400, "no slot in"),
        ("cloze", {"models": ["masked"], "text": "the ___ sees the ___"}, 400, "2 slots in"),
        ("cloze", {"models": ["masked"], "text": GAP, "candidates": ["\u2603"]}, 400, "cannot spell '\u2603'"),
        ("cloze", {"models": ["masked"], "text": GAP, "candidates": ["a"] * (MOST_CANDIDATES + 1)}, 422, "candidates"),
        ("logit_lens", {"model": "headless", "text": GOOD}, 400, "has no language-model head"),
        ("logit_lens", {"model": "causal", "text": "  "}, 400, "type some words"),
        ("logit_lens", {"model": "causal", "text": "the " * 300}, 413, "tokens"),
        ("logit_lens", {"model": "causal", "text": GOOD, "top": 1000}, 422, "top"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_words(client, models, path, asked, code, said):
    answer = client(models).post(f"/api/behaviour/{path}", json=asked)
    assert answer.status_code == code, answer.text
    assert said in answer.json()["error"]

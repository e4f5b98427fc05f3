"""A typed sentence with heads and blocks disabled, as a program asks the server."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import language_model
from lamina.models.language.slots import Gap, token_logprobs
from lamina.models.loading import encoder_from
from lamina.testing import TinyEncoder
from tests.language_models import tiny_causal, tiny_masked
from tests.models.tiny_models import ARCHITECTURES

SENTENCE = "the dog sees the cat"


def _answering():
    tiny = ARCHITECTURES["bert"]
    tokenizer = tiny.make_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = transformers.AutoModelForQuestionAnswering.from_config(tiny.make_config(len(tokenizer)))
    return encoder_from(model, tokenizer, name="tiny answers")


@pytest.fixture(scope="module")
def models():
    return {"masked": tiny_masked(), "causal": tiny_causal(), "answering": _answering(), "other": TinyEncoder()}


def ask(client, models, **asked):
    return client(models).post("/api/interventions", json={"sentence": SENTENCE, **asked})


def test_without_a_head_the_model_says_something_else(client, models):
    asked = {"model": "causal", "heads": ["2-1"], "top": 3, "linked": ["1-1", "2-1", "3-1"]}
    answer = ask(client, models, **asked).json()
    encoder = models["causal"]
    model, slot = language_model(encoder), Gap("1", f"{SENTENCE} ")
    before = next(token_logprobs(model, [slot])).exp().topk(3).values.tolist()
    out: Any = Interventions(encoder).out(1)
    size = encoder.width // encoder.heads
    kept = out.weight.data.clone()
    try:
        # GPT-2 has its weights turned: inputs are rows.
        out.weight.data[:size] = 0
        after = next(token_logprobs(model, [slot])).exp().topk(3).values.tolist()
    finally:
        out.weight.data = kept
    assert [each["probability"] for each in answer["before"]["guesses"]] == pytest.approx(before, abs=1e-5)
    assert [each["probability"] for each in answer["after"]["guesses"]] == pytest.approx(after, abs=1e-5)
    links = {side: {each["head"]: each for each in answer[side]["links"]} for side in ("before", "after")}
    assert links["before"]["2-1"] == links["after"]["2-1"], "what it looks at is decided before it hands anything on"
    assert links["before"]["3-1"] != links["after"]["3-1"]
    assert answer["before"]["measures"] != answer["after"]["measures"]
    assert answer["before"]["answer"] is None
    # Nothing stays disabled.
    assert next(token_logprobs(model, [slot])).exp().topk(3).values.tolist() == pytest.approx(before, abs=1e-6)


def test_a_gap_is_filled_and_a_question_answered_without_a_block(client, models):
    gap = ask(client, models, model="masked", sentence="the dog sees the [MASK]", layers=[1, 3], top=2).json()
    assert [len(gap[side]["guesses"]) for side in ("before", "after")] == [2, 2]
    assert gap["before"]["guesses"] != gap["after"]["guesses"]
    assert ask(client, models, model="masked").json()["after"]["guesses"] is None, "there is no gap"
    told = ask(client, models, model="answering", question="who sees?", layers=[2], heads=["1-2"], how="mean").json()
    assert told["before"]["answer"]["confidence"] != told["after"]["answer"]["confidence"]
    assert told["before"]["guesses"] is None
    assert told["words"] == SENTENCE.split()
    assert told["tokens"] == len(told["units"]) or len(told["units"]) == len(told["words"]) + 2


def test_nothing_switched_off_changes_nothing(client, models):
    told = ask(client, models, model="masked", marked=[]).json()
    assert told["before"] == told["after"]


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ({"model": "causal", "heads": ["9-1"]}, 400, "9-1"),
        ({"model": "causal", "layers": [9]}, 400, "has no layer 9; it has 3, counted from 1"),
        ({"model": "other", "layers": [1]}, 400, "is not a transformer"),
        ({"model": "masked", "sentence": "the [MASK] sees ___"}, 400, "the sentence has 2 gaps"),
        ({"model": "causal", "sentence": " "}, 400, "has no words"),
        ({"model": "causal", "sentence": "dog " * 60}, 413, "tokens of tiny gpt2; at most"),
        ({"model": "causal", "heads": ["one"]}, 422, "heads"),
        ({"model": "causal", "layers": [0]}, 422, "layers"),
        ({"model": "nobody"}, 404, "nobody"),
    ],
    ids=["head", "layer", "kind", "gaps", "empty", "long", "unread", "zero", "model"],
)
def test_what_cannot_be_asked_is_said(client, models, asked, code, said):
    answer = ask(client, models, **asked)
    assert answer.status_code == code, answer.text
    assert said in answer.json()["error"]

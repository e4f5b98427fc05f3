"""States of one text put into another, against the same done by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

from lamina.analyses.behaviour.judging import score_pairs
from lamina.analyses.cause.effects import PatchTokens, put_in
from lamina.analyses.cause.exchanged_states import CONTRASTS as PAIR_CONTRASTS
from lamina.analyses.cause.exchanged_states import (
    CONTROLS,
    DIFFERENCES,
    EFFECTS,
    EVERYWHERE,
    GAPS,
    PATCH,
    POSITIONS,
    RANDOM,
    ROLE_TOKENS,
    ROLES,
    UNCHANGED,
    PairPatch,
    TwoContexts,
    ask_pairs,
    find_pairs,
    measure_pairs,
    measure_turns,
    pair_tables,
    places_of,
    turned_tables,
)
from lamina.analyses.cause.patch import findings_of
from lamina.corpora.questions.question import Question, answer_text, make_question
from lamina.corpora.suites.minimal_pairs import pairs_from
from lamina.framework.verify import check_findings
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import language_model
from lamina.models.loading import encoder_from
from lamina.models.running.batching import InputRow
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import head_on_states
from lamina.results import Provenance, Result
from lamina.tasks.task import best
from lamina.training.answering import Answerer, answerer_of
from lamina.training.spans import best_spans
from tests.language_models import tiny_causal, tiny_masked
from tests.models.tiny_models import ARCHITECTURES

PAIRS = pairs_from(
    [
        ("the cat sees the dog.", "the fox sees the dog."),
        ("the quick fox sees a dog.", "the quick cat sees a dog."),
        ("a cat and the fox.", "a fox and the fox."),
        ("the cat", "the fox"),
        ("the dog sees", "the unquick sees"),
    ]
).pairs


@pytest.fixture(scope="module")
def answering() -> HuggingFaceEncoder:
    """A small BERT with a span head, and random weights as uneven as trained ones."""
    tiny = ARCHITECTURES["bert"]
    tokenizer = tiny.make_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = transformers.AutoModelForQuestionAnswering.from_config(tiny.make_config(len(tokenizer)))
        for weight in model.parameters():
            weight.data += 0.6 * torch.randn_like(weight)
    encoder = encoder_from(model, tokenizer, name="tiny answers")
    assert isinstance(encoder, HuggingFaceEncoder)
    return encoder


@pytest.fixture(scope="module")
def answerer(answering: HuggingFaceEncoder) -> Answerer:
    found = answerer_of(answering)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def questions(answerer: Answerer) -> list[Question]:
    """Questions whose accepted answer is what the model says."""
    made = []
    for number in range(24):
        rng = np.random.default_rng(number)
        one, two, three = rng.permutation(["Cat", "Dog", "Fox"])
        words = rng.choice(["bark", "quick", "the", "a", "un", "5", "1", "0"], 8)
        context = f"a {one} {words[0]} {words[1]}. the {two} {' '.join(words[2:5])}. un {three} {' '.join(words[5:])}."
        ends = [at + 1 for at, letter in enumerate(context) if letter == "."]
        sentences = list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))
        asked = f"the {one}?"
        plain = make_question(f"q{number}", asked, context, sentences, [], set(), doc=f"d{number}")
        (answer,) = answerer.answer([plain])
        assert answer.span is not None
        place = plain.characters(answer.span)
        held = {at for at, (start, end) in enumerate(sentences) if start <= place[0] < end}
        made.append(make_question(f"q{number}", asked, context, sentences, [place], held, doc=f"d{number}"))
    return made


def test_all_states_of_another_text_make_what_that_text_makes() -> None:
    encoder = tiny_masked()
    parts = Interventions(encoder, heads=False)
    # Rows of different lengths in one batch: donors are padded as the rows are, and not drawn out.
    rows, donors = (
        [_row(at, np.array(ids)) for at, ids in enumerate(own)]
        for own in (([5, 6, 7, 8, 9, 10], [5, 6, 7]), ([11, 12, 13, 14, 15, 16], [17, 18, 19]))
    )
    edits = [
        put_in(layer, [PatchTokens.alike(np.arange(len(row.ids))) for row in rows]) for layer in range(encoder.layers)
    ]
    found = {(made.edit, row): states for made in parts.run(rows, edits, donors=donors)
             for row, states in zip(made.rows, made.states[encoder.blocks], strict=True)}  # fmt: skip
    expected = {row: states for made in parts.run(donors, [])
                for row, states in zip(made.rows, made.states[encoder.blocks], strict=True)}  # fmt: skip
    for (edit, row), states in found.items():
        if edit is not None:
            size = len(rows[row].ids)
            torch.testing.assert_close(states[:size], expected[row][:size], atol=1e-4, rtol=1e-4)


def _row(number: int, ids: np.ndarray) -> InputRow:
    whole = slice(0, len(ids))
    return InputRow(number, ids, np.zeros_like(ids), np.arange(len(ids)), whole, whole)


def test_turned_answers_are_those_of_a_run_patched_by_hand(
    answering: HuggingFaceEncoder, answerer: Answerer, questions: list[Question]
) -> None:
    found = find_pairs(answerer, questions, "asked", most=6, seed=0)
    assert len(found.pairs) >= 2, found.skipped
    assert len(found.pairs) + found.skipped.total() == len(questions)
    for pair in found.pairs:
        (told,) = answerer.answer([pair.exchanged])
        assert (told.span, told.text) == (pair.other_answer, pair.turned[0])
        tokens = np.concatenate([each.to for each in places_of(pair).values()])
        assert sorted(tokens) == list(range(len(pair.window.ids))), "each token has one role"
    parts, head = Interventions(answering, heads=False), head_on_states(answering, "question-answering")
    layers = range(answering.layers)
    turned = measure_turns(parts, head, found.pairs, "asked", layers, samples=50, seed=0)
    table = pd.DataFrame(turned.patch, columns=list(PATCH)).set_index(["layer", "role"])
    for layer in layers:
        for role in ROLES:
            own = [pair for pair in found.pairs if len(places_of(pair)[role].to)]
            by_hand = [best(_by_hand(answering, pair, role, layer), pair.turned).exact for pair in own]
            assert table.loc[(layer, role), "n"] == len(own)
            if own:
                assert table.loc[(layer, role), "turned"] == pytest.approx(np.mean(by_hand)), (layer, role)
    assert {row[4] for row in turned.controls if row[1] == UNCHANGED} == {0.0}


def _by_hand(encoder: HuggingFaceEncoder, pair: TwoContexts, role: str, layer: int) -> str:
    """The answer when a hook puts states of the other run in."""
    model: Any = encoder.span_model
    places = places_of(pair)[role]
    inputs = [
        {"input_ids": torch.tensor(each.ids)[None].long(), "token_type_ids": torch.tensor(each.types)[None].long()}
        for each in (pair.window, pair.donor)
    ]
    with torch.no_grad():
        states = model(**inputs[1], output_hidden_states=True).hidden_states[layer]

        def put(own: torch.Tensor) -> torch.Tensor:
            made = own.clone()
            made[:, places.to] = states[:, places.source]
            return made

        blocks = model.base_model.encoder.layer
        if layer < len(blocks):
            handle = blocks[layer].register_forward_pre_hook(lambda _module, args: (put(args[0]), *args[1:]))
        else:
            handle = model.qa_outputs.register_forward_pre_hook(lambda _module, args: (put(args[0]),))
        try:
            made = model(**inputs[0])
        finally:
            handle.remove()
    (guess,) = best_spans([pair.window], made.start_logits, made.end_logits)
    return answer_text(pair.question, guess.span)


def test_exchanged_answers_turn_where_states_hold_their_positions(
    answering: HuggingFaceEncoder, answerer: Answerer
) -> None:
    asked = [_number_question(answerer, number) for number in range(40)]
    found = find_pairs(answerer, [each for each in asked if each is not None], "answer", most=5, seed=0)
    assert found.pairs
    parts, head = Interventions(answering, heads=False), head_on_states(answering, "question-answering")
    turned = measure_turns(parts, head, found.pairs, "answer", [0], samples=50, seed=0)
    shares = {role: share for _, role, share, *_ in turned.patch}
    # Nothing else differs at layer 0, and BERT's states say where they are.
    assert shares["answer"] == 1
    assert {shares[role] for role in ("question", "support", "special")} == {0}
    assert np.isnan(shares["rest"]), "a context of one sentence has no rest"


def _number_question(answerer: Answerer, number: int) -> Question | None:
    """A question that the model answers with a number, if it does."""
    rng = np.random.default_rng(number)
    one, two, three = rng.permutation(["0", "1", "5"])
    words = rng.choice(["cat", "dog", "fox", "bark", "quick"], 6)
    context = " ".join([words[0], one, words[1], words[2], two, words[3], three, words[4]])
    places = [(context.index(each), context.index(each) + 1) for each in (one, two, three)]
    whole = [(0, len(context))]
    made = [make_question(f"n{number}", f"the {words[5]}?", context, whole, [place], {0}) for place in places]
    (answer,) = answerer.answer([made[0]])
    return next((each for each in made if each.answers == (answer.text,)), None)


@pytest.mark.parametrize("make", [tiny_masked, tiny_causal], ids=["masked", "causal"])
def test_pairs_change_by_what_both_sentences_share(make) -> None:
    encoder = make()
    model, skipped = language_model(encoder), Counter()
    asked = ask_pairs(model, PAIRS, skipped)
    assert skipped == {"pairs whose sentences have different numbers of tokens": 1}
    found = measure_pairs(Interventions(encoder, heads=False), model, asked, range(encoder.layers), seed=0)
    gaps = pd.DataFrame(found.gaps, columns=list(GAPS)).set_index("words")["gap"]
    scored = score_pairs(model, asked.pairs)
    assert gaps["all"] == pytest.approx(float((scored.good - scored.bad).mean()), abs=1e-4)
    assert gaps["shared"] + gaps["differing"] == pytest.approx(gaps["all"], abs=1e-5)
    table = pd.DataFrame(found.effects, columns=list(EFFECTS))
    effects = {name: own.set_index("layer")["effect"] for name, own in table.groupby("position")}
    assert set(effects) == {*POSITIONS, EVERYWHERE}
    np.testing.assert_allclose(effects[EVERYWHERE], -gaps["shared"], atol=1e-4)
    # At layer 0 nothing differs but the words that do.
    assert effects["word"][0] == pytest.approx(-gaps["shared"], abs=1e-4)
    if model.kind == "causal":
        np.testing.assert_allclose(effects["before"], 0, atol=1e-5)
    assert set(table[table["position"] == "last"]["n"]) == {3}, "one pair ends with the word that differs"


def turns(shares: dict[str, tuple[int, ...]], many: int = 40) -> Result:
    """Tables of questions of which so many turn, by role and layer; of random tokens two do."""
    outcomes: dict[tuple[str, int, str], np.ndarray] = {}
    for role, own in shares.items():
        for layer, turned in enumerate(own):
            for kind, number in ((ROLE_TOKENS, turned), (RANDOM, 2)):
                outcomes[kind, layer, role] = np.where(np.arange(many) < number, "turned", "kept")
    units = np.array([f"d{at:02}" for at in range(many)])
    there = {role: np.ones(many, bool) for role in shares}
    found = turned_tables("asked", outcomes, there, units, samples=50, seed=0)
    columns = {"asked": PATCH, "controls": CONTROLS, "differences": DIFFERENCES}
    rows = {"asked": found.patch, "controls": found.controls, "differences": found.differences}
    tables = {name: pd.DataFrame(own, columns=list(columns[name])) for name, own in rows.items()}
    result = Result("patch", tables, Provenance({"name": "m"}, {"name": "c"}, {}))
    findings = tuple(findings_of(result))
    assert check_findings(replace(result, findings=findings)) == []
    return replace(result, findings=findings)


def test_findings_say_where_the_answer_takes_over() -> None:
    early, late, question = turns({"support": (32, 30, 0), "answer": (0, 4, 36), "question": (2, 2, 2)}).findings
    assert [each.status for each in (early, late, question)] == ["clear", "clear", "open"]
    assert early.text.startswith(
        "At layers 0 and 1 states of the support turn more answers than those of the answers (layer 0: .80 and .00) "
        "(layer 0: answers minus support -.80 ["
    )
    assert late.text.startswith("At layer 2 states of the answers turn more answers than those of the support")
    assert question.text.startswith("It is not known whether states of the question turn more answers than random")


def test_few_documents_are_untested() -> None:
    result = turns({"support": (5, 5), "answer": (0, 0), "question": (0, 0)}, many=5)
    assert {each.status for each in result.findings} == {"untested"}
    assert result.findings[0].text == (
        "5 documents are too few to test whether states of the support or the answers' own turn more answers at any "
        "layer; at least 6 are needed."
    )


def test_pairs_are_compared_with_random_tokens_in_pairs() -> None:
    rng = np.random.default_rng(0)
    gap = np.column_stack([rng.normal(2, 0.5, 60), np.zeros(60)])
    every = np.arange(60)
    patches = [
        PairPatch(layer, position, every, gap[:, 0] * (1 - share), gap[:, 0] * 0.9)
        for layer, position, share in ((0, "word", 1.0), (1, "word", 0.1), (0, "after", 0.0), (1, "after", 0.9))
    ]
    found = pair_tables(gap, patches, [f"p{at:02}" for at in every])
    columns = {"pairs": EFFECTS, "contrasts": PAIR_CONTRASTS, "gaps": GAPS}
    rows = {"pairs": found.effects, "contrasts": found.contrasts, "gaps": found.gaps}
    tables = {name: pd.DataFrame(own, columns=list(columns[name])) for name, own in rows.items()}
    result = Result("patch", tables, Provenance({"name": "m"}, {"name": "c"}, {}))
    likelier, word, after = findings = tuple(findings_of(result))
    assert check_findings(replace(result, findings=findings)) == []
    assert [each.status for each in findings] == ["clear"] * 3
    assert likelier.text.startswith("On the words that both sentences of a pair have, good sentences are likelier")
    assert "at layer 0 (layer 0: change -2.0" in word.text
    assert "at layer 1 (layer 1: change -1.8" in after.text

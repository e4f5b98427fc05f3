"""Perturbed input scored by hand: the model's own logits, words without context, answers cut out of new contexts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
import transformers

import lamina
from lamina.analyses.behaviour.perturb.perturbations import PerturbableText, Perturbation, order_of, plan
from lamina.analyses.behaviour.perturb.scores import (
    PerturbationPlan,
    PerturbedItems,
    answer_items,
    beyond,
    changes,
    loss_items,
    perturbed_question,
    score_of,
    score_rows,
    train_reader,
)
from lamina.corpora import Splits, corpus_from
from lamina.corpora.questions.question import answer_text, make_question
from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.errors import CorpusError, ModelError, TaskError
from lamina.figures.perturb import CAPTIONS, draw
from lamina.framework.verify import check_findings
from lamina.models.language.language_model import language_model
from lamina.models.loading import encoder_from
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Result
from lamina.targets.answers import random_answerer, span_answerer
from lamina.targets.target import some_pairs
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text
from tests.language_models import tiny_causal, tiny_masked
from tests.models.tiny_models import ARCHITECTURES

TAGS = {"the": "DET", "a": "DET", "dog": "NOUN", "cats": "NOUN", "barked": "VERB", "ran": "VERB", ".": "PUNCT"}
EVERY = ("shuffled", "cut_last", "positions")


def texts(count: int, seed: int) -> list[Text]:
    """Sentences whose words each have one part of speech, closed by a full stop."""
    rng = np.random.default_rng(seed)
    made = []
    for at in range(count):
        words = (*(str(word) for word in rng.choice(list(TAGS)[:-1], 3 + at % 5)), ".")
        pos = tuple(Edge((TAGS[word],), Span(i, i + 1)) for i, word in enumerate(words))
        made.append(Text(f"s{seed}-{at}", words, edges={"pos": pos}, doc=f"d{seed}-{at // 2}"))
    return made


SPLITS = Splits(
    corpus_from(texts(120, 0), name="own", split="train"), corpus_from(texts(16, 1), name="own", split="dev")
)


def drawing(*asked: Perturbation, draws: int = 1) -> PerturbationPlan:
    return PerturbationPlan(asked, 0, draws, Counter())


def loss_by_hand(encoder: HuggingFaceEncoder, words: list[str]) -> np.ndarray:
    """[piece] Of a causal model, after its begin token: from the logits of the whole model."""
    ids = encoder.tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]
    start = language_model(encoder).start
    assert encoder.whole is not None
    with torch.no_grad():
        logits = encoder.whole(torch.tensor([[start, *ids]])).logits[0, :-1]
    return -logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)].numpy()


def test_loss_is_that_of_the_models_own_logits_on_the_shuffled_text() -> None:
    encoder = tiny_causal()
    some = list(SPLITS.scored)[:4]
    shuffled = Perturbation("shuffled", 1)
    (items,) = loss_items(language_model(encoder), some, drawing(shuffled, draws=2))
    for at, text in enumerate(some):
        orders = [order_of(shuffled, PerturbableText.of(text), seed=0, draw=draw) for draw in (0, 1)]
        moved = [loss_by_hand(encoder, [text.words[word] for word in order]) for order in orders]
        assert items.hits[at] == pytest.approx(np.mean([each.sum() for each in moved]), abs=1e-3)
        assert items.counts[at] == np.mean([len(each) for each in moved])
        assert items.base_hits[at] == pytest.approx(loss_by_hand(encoder, list(text.words)).sum(), abs=1e-3)


def test_words_that_stay_are_compared_with_themselves() -> None:
    """What a causal model has not read yet cannot change its loss; what a masked one hides from both sides does."""
    cut = Perturbation("cut_last", 0.5)
    some = [Text("t", ("the", "dog", "ran", "a", "cats", "barked"))]
    (causal,) = loss_items(language_model(tiny_causal()), some, drawing(cut))
    assert causal.value == pytest.approx(causal.baseline, abs=1e-5)
    assert causal.counts[0] == causal.base_counts[0]
    (masked,) = loss_items(language_model(tiny_masked()), some, drawing(cut))
    assert abs(masked.value - masked.baseline) > 1e-3


def test_differences_are_paired_and_what_remains_is_measured_from_chance() -> None:
    rng = np.random.default_rng(0)
    base = (rng.random(400) < 0.9).astype(float)
    own = base * (rng.random(400) < 0.7)
    names, one = tuple(map(str, range(400))), np.ones(400)
    items = PerturbedItems("pairs", Perturbation("shuffled", 1), names, names, own, one, base, one, chance=0.5)
    told = score_rows([items], samples=800, seed=0)
    value, low, high, baseline, difference, diff_low, diff_high, p, units = told.scores[0][3:12]
    remains, less, more, above = told.remains[0][4:8]
    assert above == pytest.approx(value - 0.5)
    assert (p, units) == (pytest.approx(1e-4, abs=1e-4), 400)
    assert (value, baseline, difference) == pytest.approx((own.mean(), base.mean(), (own - base).mean()))
    # Of a mean of independent items, 1.96 standard errors.
    assert (low, high) == pytest.approx((value - 0.047, value + 0.047), abs=0.008)
    error = 1.96 * (own - base).std() / 20
    assert (diff_low, diff_high) == pytest.approx((difference - error, difference + error), abs=0.006)
    assert remains == pytest.approx((own.mean() - 0.5) / (base.mean() - 0.5))
    assert less < remains < more
    assert score_of(names, own, one, samples=800, seed=0) == pytest.approx((value, low, high))
    unclear = PerturbedItems("pairs", Perturbation("shuffled", 1), names, names, own, one, one / 2, one, chance=0.5)
    assert np.isnan(score_rows([unclear], samples=50, seed=0).remains[0][4]), "nothing above chance, nothing to lose"


def test_pairs_are_drawn_evenly_over_paradigms() -> None:
    pairs = [MinimalPair(str(n), "-", "-", f"p{n % 3}", "a b", "a c") for n in range(30)]
    assert Counter(pair.paradigm for pair in some_pairs(pairs, 6, seed=0)) == {"p0": 2, "p1": 2, "p2": 2}
    assert some_pairs(pairs, 6, seed=0) == some_pairs(pairs[::-1], 6, seed=0)


@pytest.fixture(scope="module")
def probed() -> Result:
    """A model without blocks: a word's vector knows nothing of other words."""
    how = ("shuffled", "shuffled_within", "cut_first", "content", "phrases", "positions")
    with pytest.MonkeyPatch.context() as patched:
        # On words that tell their class without fail, the loss falls for ever.
        patched.setattr(
            "lamina.analyses.behaviour.perturb.perturb.train_reader",
            lambda *asked: train_reader(*asked)._replace(converged=True),
        )
        return lamina.perturb(TinyEncoder(blocks=0), SPLITS, how=how, samples=50, steps=200)


def test_a_probe_that_has_not_converged_has_no_score() -> None:
    with pytest.raises(CorpusError, match="probes that had not converged, whose scores would mean nothing"):
        lamina.perturb(TinyEncoder(blocks=0), SPLITS, how=("shuffled",), samples=10, steps=2)


def test_a_probe_of_words_without_context_survives_every_perturbation(probed: Result) -> None:
    table = probed.tables["perturb"]
    assert set(table["target"]) == {"probe:pos"}
    assert set(table["how"]) == {"shuffled", "shuffled_within", "cut_first", "content"}
    assert table["difference"].abs().max() == 0
    left = probed.tables["remains"].set_index(["how", "strength"])
    assert left["remains"].to_numpy() == pytest.approx(1.0)
    assert left["chance"]["content"].item() > left["chance"]["shuffled"].iloc[0], "of the words that stay"
    skipped = probed.provenance.skipped
    assert skipped["texts without dependencies: not perturbed by phrases"] == 16
    assert skipped["positions not shifted: tiny has no positions to shift"] == 1
    controls = probed.tables["controls"].set_index("control")["value"]
    assert controls["most frequent label of the word"] == 1.0
    above, by_word = sorted(probed.findings, key=lambda each: each.contrast, reverse=True)
    assert "100 %: 100 % of its lead over chance is left" in by_word.text + above.text
    assert check_findings(probed) == []


def test_wrong_12_what_survives_shuffling_is_told_as_measured_not_as_no_syntax(probed: Result) -> None:
    """Wrong 12: what survives shuffling `was not syntax`."""
    told = " ".join(each.text for each in probed.findings) + " ".join(CAPTIONS.values())
    assert "syntax" not in told
    assert {each.contrast for each in probed.findings} == {"a probe's accuracy on pos minus chance", "difference"}


def test_perturbations_of_a_target_are_one_family_and_beside_the_twin() -> None:
    rng = np.random.default_rng(0)
    names, one = tuple(map(str, range(40))), np.ones(40)
    lost = [np.zeros(40), rng.normal(0, 1, 40), rng.normal(2, 1, 40)]
    made = [
        PerturbedItems("loss", Perturbation("shuffled", at + 1), names, names, each + 5, one, 5 * one, one)
        for at, each in enumerate(lost)
    ]
    tests = changes(made)
    assert tests.p.round(3).tolist()[0] == 1.0
    assert (tests.p < 0.05).tolist() == [False, False, True]
    assert tests.estimate == pytest.approx([each.mean() for each in lost])
    same = beyond(made, made)
    assert same.estimate == pytest.approx([0, 0, 0])
    # Texts whose number of tokens changes when they are perturbed.
    longer = PerturbedItems("loss", Perturbation("shuffled", 1), names, names, 12 * one, 2 * one, 5 * one, one)
    assert changes([longer]).estimate == pytest.approx([longer.value - longer.baseline])


def test_the_items_of_a_result_are_its_scores(probed: Result) -> None:
    items = probed.tables["items"]
    assert items.columns.tolist()[:3] == ["item", "group", "value"]
    assert items["item"].is_unique
    assert set(items["group"]) == {
        f"probe:pos {h} {s:g}" for h, s in probed.tables["perturb"][["how", "strength"]].values
    }


def test_targets_are_what_model_and_data_can_give() -> None:
    with pytest.raises(ModelError, match="tiny has no language-model head; these have"):
        lamina.perturb(TinyEncoder(), SPLITS, targets=["loss"])
    bare = [["a", "dog", "ran"], ["the", "cats"]] * 20
    with pytest.raises(ModelError, match="no head that can be asked, and data no parts of speech"):
        lamina.perturb(TinyEncoder(), bare)
    with pytest.raises(TaskError, match="does not carry dep"):
        lamina.perturb(TinyEncoder(), SPLITS, targets=["probe:dep"])


def test_answers_are_cut_out_of_the_perturbed_context() -> None:
    tiny = ARCHITECTURES["bert"]
    tokenizer = tiny.make_tokenizer()
    torch.manual_seed(3)
    model = transformers.BertForQuestionAnswering(tiny.make_config(len(tokenizer)))
    encoder = encoder_from(model, tokenizer, name="tiny qa")
    assert isinstance(encoder, HuggingFaceEncoder)
    context = "The dog barked. The cats ran away."
    question = make_question("q", "Who ran ?", context, [(0, 15), (16, 34)], [(20, 24)], {1}, doc="story")
    moved = perturbed_question(question, [3, 1, 5, 0])
    assert moved.context == ". dog cats The"
    assert answer_text(moved, Span(4, 6)) == "dog cats"
    asked = plan(["shuffled_within", "cut_first", "positions"], ngrams=[1], cuts=[0.5], shifts=[4])
    for answerer in (span_answerer(encoder), random_answerer(encoder, 0)):
        told = drawing(*asked)
        same, cut = answer_items(answerer, [question], told, None)
        assert same.value == same.baseline
        assert 0 <= cut.value <= 1
        assert cut.units == ("story",)
        assert any(why.startswith("positions not shifted") for why in told.skipped)


def test_a_language_model_is_told_beside_its_twin_and_drawn() -> None:
    result = lamina.perturb(
        tiny_causal(), SPLITS, targets=["loss"], how=EVERY, ngrams=[1], cuts=[0.5], shifts=[5], items=4, samples=20
    )
    table, twin = result.tables["perturb"], result.tables["twin"]
    assert table[["how", "strength", "target"]].equals(twin[["how", "strength", "target"]])
    assert table["how"].tolist() == list(EVERY)
    assert "head" in result.provenance.model
    uniform = result.tables["controls"]["value"].item()
    assert uniform == pytest.approx(np.log(language_model(tiny_causal()).vocabulary))
    (chart,) = draw(result).values()
    assert "all words shuffled" in str(chart.to_dict()["description"])

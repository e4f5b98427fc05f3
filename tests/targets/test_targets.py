"""Every target asks of states what the existing code asks of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from lamina.analyses.behaviour.judging import score_pairs
from lamina.analyses.cause.effects import measure
from lamina.corpora import corpus_from
from lamina.corpora.question_sets import questions_from, typed_question
from lamina.corpora.splits import Splits
from lamina.corpora.suites.minimal_pairs import pairs_from
from lamina.errors import InputError, LaminaError
from lamina.models.interventions.edited_runs import masked_tokens
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import WrittenPassage, language_model, score_passages
from lamina.models.loading import encoder_from
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import head_on_states
from lamina.probes.edge import EdgeProbes, LayerCut, SavedEdgeProbes, save_probes
from lamina.probes.streams import Standard
from lamina.results import Provenance, Result
from lamina.targets.answers import AnswersTarget
from lamina.targets.choice import ClassesTarget, TagsTarget, TargetData, chosen_targets, targets_of
from lamina.targets.loss import LossTarget, PairsTarget
from lamina.targets.probes import BatchSpans, ProbeTarget, SavedReader, linear_readers, spans_of
from lamina.targets.target import Target, TargetScores
from lamina.tasks import get_task
from lamina.tasks.task import best
from lamina.training.answering import answerer_of
from lamina.types import Edge, Span, Text
from tests.language_models import tiny_causal, tiny_masked
from tests.models.tiny_models import ARCHITECTURES

WORDS = ("the", "dog", "sees", "a", "cat", "and", "runs", "far", "away")
TAGS = ("DET", "NOUN", "VERB", "DET", "NOUN", "CCONJ", "VERB", "ADV", "ADV")


def texts(many: int = 8) -> list[Text]:
    rng = np.random.default_rng(0)
    made = []
    for at in range(many):
        drawn = rng.choice(len(WORDS), 3 + at % 5)
        edges = tuple(Edge((TAGS[word],), Span(place, place + 1)) for place, word in enumerate(drawn))
        whole = (Edge(("LABEL_1" if 1 in drawn else "LABEL_0",), Span(0, len(drawn))),)
        words = tuple(WORDS[word] for word in drawn)
        made.append(Text(f"s{at}", words, edges={"pos": edges, "label": whole}, doc=f"d{at // 2}"))
    return made


def splits(many: int = 60) -> Splits:
    every = texts(many)
    return Splits(corpus_from(every[8:], name="own", split="train"), corpus_from(every[:8], name="own", split="dev"))


def tuned(head: str, architecture: str = "bert", **config: Any) -> HuggingFaceEncoder:
    tiny = ARCHITECTURES[architecture]
    tokenizer = tiny.make_tokenizer()
    settings = tiny.make_config(len(tokenizer))
    for name, value in config.items():
        setattr(settings, name, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = getattr(transformers, f"AutoModelFor{head}").from_config(settings)
        for weight in model.parameters():
            weight.data += 0.3 * torch.randn_like(weight)
    encoder = encoder_from(model, tokenizer, name="tuned")
    assert isinstance(encoder, HuggingFaceEncoder)
    return encoder


def clean(encoder: HuggingFaceEncoder, target: Target) -> TargetScores:
    return measure(Interventions(encoder, heads=False), target, [])[0]


def test_the_loss_of_a_causal_model_is_its_surprisal_in_windows_too() -> None:
    encoder = tiny_causal()
    long = Text("long", tuple(WORDS[at % 9] for at in range(encoder.limit)), doc="d9")
    asked = [*texts(), long]
    target = LossTarget(language_model(encoder), asked)
    scored = list(score_passages(language_model(encoder), [WrittenPassage.of(text) for text in asked]))
    found = clean(encoder, target)
    np.testing.assert_allclose(found.hits, [-each.total for each in scored], atol=1e-4)
    np.testing.assert_array_equal(found.counts, [each.pieces for each in scored])
    assert target.skipped == {"texts longer than the model's limit, read in overlapping windows": 1}
    assert len(target.rows) > len(asked) == len(target.items)


def test_the_loss_of_a_masked_model_is_that_of_pieces_hidden_at_once() -> None:
    encoder = tiny_masked()
    found = clean(encoder, LossTarget(language_model(encoder), texts(), seed=5))
    whole: Any = encoder.whole
    for at, text in enumerate(texts()):
        ids = np.array(encoder.tokenizer(" ".join(text.words))["input_ids"])
        hidden = masked_tokens(text.id, np.arange(1, len(ids) - 1), 5)
        shown = torch.from_numpy(ids.copy())
        shown[hidden] = language_model(encoder).mask or 0
        with torch.no_grad():
            said = whole(shown[None]).logits[0].log_softmax(-1)
        assert found.hits[at] == pytest.approx(-said[hidden, ids[hidden]].sum().item(), abs=1e-4)
        assert found.counts[at] == len(hidden)


@pytest.mark.parametrize("make", [tiny_causal, tiny_masked], ids=["causal", "masked"])
def test_pairs_are_judged_as_the_analysis_of_pairs_does(make: Callable[[], HuggingFaceEncoder]) -> None:
    encoder = make()
    suite = pairs_from(
        [
            ("the dog runs away", "the dog run away"),
            ("the cat sees a dog", "a cat the dog sees"),
            ("the cat", "far cat"),
        ]
    )
    target = PairsTarget(language_model(encoder), suite.pairs)
    scored = score_pairs(language_model(encoder), suite.pairs)
    np.testing.assert_array_equal(clean(encoder, target).hits, scored.verdicts().value["plain"])
    states = encoder.last(target.rows)
    every = range(len(target.rows))
    margins = np.bincount(target.owners, -target.loss(every, {encoder.blocks: states}).numpy())
    np.testing.assert_allclose(margins, scored.good - scored.bad, atol=1e-4)


def test_tags_are_those_that_the_model_says_at_first_pieces() -> None:
    labels = sorted(set(TAGS))
    encoder = tuned("TokenClassification", id2label=dict(enumerate(labels)), label2id={})
    target = TagsTarget(head_on_states(encoder, "token-classification"), texts(), "pos")
    whole: Any = encoder.whole
    right = []
    for text in texts():
        cut = encoder.tokenizer(list(text.words), is_split_into_words=True)
        with torch.no_grad():
            said = whole(torch.tensor([cut["input_ids"]])).logits[0].argmax(-1).tolist()
        first = {word: said[at] for at, word in reversed(list(enumerate(cut.word_ids()))) if word is not None}
        right.append(sum(labels[first[at]] == edge.labels[0] for at, edge in enumerate(text.edges["pos"])))
    np.testing.assert_array_equal(clean(encoder, target).hits, right)
    assert clean(encoder, target).counts.sum() == sum(len(text.words) for text in texts())


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_classes_are_those_of_the_pooled_or_last_token(architecture: str) -> None:
    encoder = tuned("SequenceClassification", architecture, num_labels=2)
    target = ClassesTarget(head_on_states(encoder, "sequence-classification"), texts())
    whole: Any = encoder.whole
    if encoder.pooler is not None:
        whole.base_model.register_module("pooler", encoder.pooler)
    right = []
    for text, row in zip(texts(), target.rows, strict=True):
        with torch.no_grad():
            said = int(whole(torch.from_numpy(row.ids).long()[None]).logits[0].argmax())
        right.append(text.edges["label"][0].labels[0] == f"LABEL_{said}")
    if encoder.pooler is not None:
        whole.base_model.register_module("pooler", None)
    np.testing.assert_array_equal(clean(encoder, target).hits, right)


def test_answers_are_those_of_the_answerer() -> None:
    encoder = tuned("QuestionAnswering")
    asked = [
        question
        for at, text in enumerate(texts())
        for question in typed_question("the dog sees ?", " ".join((*text.words, *WORDS)), WORDS[at]).questions()
    ]
    asked = [_renamed(question, str(at)) for at, question in enumerate(asked)]
    target = AnswersTarget(head_on_states(encoder, "question-answering"), asked)
    answerer = answerer_of(encoder)
    assert answerer is not None
    f1 = [best(said.text, each.answers).f1 for each, said in zip(asked, answerer.answer(asked), strict=True)]
    np.testing.assert_allclose(clean(encoder, target).hits, f1)
    assert target.units == target.items


def _renamed(question: Any, id: str) -> Any:
    return replace(question, text=replace(question.text, id=id))


def test_a_linear_probe_reads_what_it_reads_of_encoded_texts() -> None:
    encoder, task = tiny_masked(), get_task("pos")
    (reader,) = linear_readers(encoder, [(task, 1)], splits(), seed=0)
    target = ProbeTarget(encoder, task, reader, texts(), splits=splits())
    right = []
    for made, text in zip(encoder.encode(texts()), texts(), strict=True):
        assert made.states is not None
        vectors = np.stack([made.states[made.tokens.words == at, 1].mean(0).numpy() for at in range(len(text.words))])
        said = reader.probe.probabilities(vectors).argmax(1)
        right.append(
            sum(reader.labels[each] == TAGS[WORDS.index(word)] for each, word in zip(said, text.words, strict=True))
        )
    np.testing.assert_array_equal(clean(encoder, target).hits, right)
    tags = Counter(TAGS[WORDS.index(word)] for text in texts() for word in text.words)
    assert target.chance == pytest.approx(max(tags.values()) / tags.total())


@pytest.mark.parametrize("cut", [LayerCut("layer", 1), LayerCut("cumulative", 1)], ids=["layer", "mix"])
def test_saved_probes_are_asked_of_the_layers_they_read(cut: LayerCut, tmp_path: Path) -> None:
    encoder = tiny_masked()
    shape: dict[str, Any] = {"layers": encoder.layers, "width": encoder.width, "labels": 3, "arity": 2, "hidden": 8}
    probes = EdgeProbes(
        [LayerCut("layer", 1), LayerCut("layer", 2), LayerCut("cumulative", 1), LayerCut("cumulative", 2)],
        **shape,
        seed=0,
    )
    with torch.no_grad():
        probes.mix.data += torch.randn(probes.mix.shape, generator=torch.Generator().manual_seed(0))
    standard = Standard(torch.randn(encoder.layers, encoder.width), torch.rand(encoder.layers, encoder.width) + 1)
    path = tmp_path / "dep-0.safetensors"
    save_probes(path, probes, task="dep", labels=("a", "b", "c"), encoder="", standard=standard)
    reader = SavedReader([SavedEdgeProbes(path)], cut)
    states = torch.randn(2, 6, encoder.layers, encoder.width, generator=torch.Generator().manual_seed(1))
    asked = BatchSpans(np.array([0, 1, 1]), np.array([[[1, 2], [3, 6]], [[0, 2], [2, 3]], [[4, 5], [0, 3]]]))
    found = reader.logits({layer: states[:, :, layer] for layer in reader.layers}, asked)
    for at in range(3):
        flat = standard.of(states[asked.row[at]].transpose(0, 1))
        own = probes.logits(flat, spans_of(asked.tokens[at : at + 1], flat.device))[probes.cuts.index(cut), 0]
        torch.testing.assert_close(found[0, at], own.detach(), atol=1e-5, rtol=1e-4)
    assert reader.layers == ((1,) if cut.probe == "layer" else (0, 1))


@pytest.mark.parametrize("name", ["loss", "pairs", "probe:pos@2"])
def test_the_twin_is_asked_the_same_with_a_random_head_and_gradients_reach_states(name: str) -> None:
    encoder = tiny_masked()
    material = TargetData(splits(), pairs_from([("the dog runs", "the dog run"), ("a cat sees", "a cat see")]))
    (target,) = targets_of(encoder, chosen_targets(encoder, [name], material), material, items=4, seed=0)
    twin = encoder.random_twin(0)
    other = target.of(twin)
    assert other.items == target.items
    assert other.units == target.units
    assert clean(twin, other).value != clean(encoder, target).value or name == "pairs"
    layer = target.layers[-1]
    states = encoder.hidden([target.rows[0], target.rows[1]])[layer].clone().requires_grad_()
    loss = target.loss([0, 1], {layer: states})
    assert loss.shape == (2,)
    assert torch.autograd.grad(loss.sum(), states)[0].abs().sum() > 0


def test_a_model_with_a_head_for_tags_is_asked_for_them_by_default() -> None:
    encoder = tuned("TokenClassification", id2label=dict(enumerate(sorted(set(TAGS)))), label2id={})
    material = TargetData(splits())
    assert chosen_targets(encoder, None, material) == ("tags",)
    (target,) = targets_of(encoder, ("tags",), material, items=3, seed=0)
    twin = encoder.random_twin(0)
    assert len(target.items) == 3
    assert 0 <= clean(twin, target.of(twin)).value <= 1
    assert chosen_targets(tiny_causal(), None, material) == ("loss",)
    bare = tuned("SequenceClassification", num_labels=2)
    assert chosen_targets(bare, None, material) == ("classes",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("loss", "it has no language-model head; these have: .*--target probe:pos@3"),
        ("qa", "no head for question-answering; `lamina finetune MODEL --task squad` gives it one"),
        ("tags", "no annotation with the labels of the head"),
        ("probe:pos@9", "has no layer 9; it has layers 0 \\(embeddings\\) to 3"),
        ("probe:colour@1", "does not carry colour"),
        ("probe:pos@x", "write probe:TASK@LAYER"),
        ("mood", "unknown target 'mood'; name loss, pairs, qa"),
    ],
)
def test_what_cannot_be_asked_is_said(name: str, said: str) -> None:
    encoder = tuned("TokenClassification", num_labels=3)
    with pytest.raises(InputError, match=said):
        chosen_targets(encoder, [name], TargetData(splits()))


def test_probes_of_another_model_are_refused(tmp_path: Path) -> None:
    encoder = tiny_masked()
    probes = EdgeProbes([LayerCut("layer", 1)], layers=3, width=encoder.width, labels=2, arity=1, seed=0, hidden=4)
    path = tmp_path / "pos-0.safetensors"
    save_probes(path, probes, task="pos", labels=("DET", "NOUN"), encoder="another")
    learned = Result("probe", {}, Provenance({"name": "mpnet"}, {}, {}, (0,)), files={path.name: path})
    with pytest.raises(LaminaError, match="trained on mpnet with other weights or settings than this tiny bert"):
        chosen_targets(encoder, ["probe:pos@1"], TargetData(splits(), probes=learned))


def test_questions_without_a_set_of_them_are_asked_for() -> None:
    encoder = tuned("QuestionAnswering")
    with pytest.raises(InputError, match="name some with --questions"):
        chosen_targets(encoder, ["qa"], TargetData(splits()))
    some = questions_from(list(typed_question("who ?", "the dog sees a cat", "dog").questions()), "own")
    assert chosen_targets(encoder, None, TargetData(splits(), questions=some)) == ("qa",)

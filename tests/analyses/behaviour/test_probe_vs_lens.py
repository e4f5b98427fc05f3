"""Probe and lens: planted layers, masses by hand, and which words are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import lamina
from lamina.analyses.behaviour import masked_words as answers_module
from lamina.analyses.behaviour.masked_words import (
    RELATION,
    TREEBANK_TASKS,
    ClassedTexts,
    MaskedWordClass,
    relation_data,
    vocabularies,
)
from lamina.analyses.behaviour.probe_vs_lens import NOT_ABOVE, LayerCurve, first, gains
from lamina.corpora import Splits, corpus_from
from lamina.corpora.suites.cloze import Fact, Pattern, Relation, Relations
from lamina.figures.probe_vs_lens import draw
from lamina.framework.verify import check_findings
from lamina.models.language.language_model import language_model
from lamina.results import Result
from lamina.types import Edge, Span, Text
from tests.language_models import tiny_masked

TAGS = {"the": "DET", "dog": "NOUN", "fox": "NOUN", "cat": "NOUN", "bark": "VERB", "un": "VERB"}
"""Words that are one piece each."""
TASKS = {task.name: task for task in TREEBANK_TASKS}


def tagged(words: tuple[str, ...], id: str, doc: str) -> Text:
    edges = tuple(Edge(TAGS[word], Span(at, at + 1)) for at, word in enumerate(words))
    return Text(id, words, edges={"pos": edges}, doc=doc)


def texts(count: int, split: str) -> list[Text]:
    """A noun after `the`, then one or two verbs."""
    draw = np.random.default_rng(len(split))
    made = []
    for at in range(count):
        noun, verb, other = draw.choice(["dog", "fox", "cat"]), *draw.choice(["bark", "un"], 2)
        words = ("the", str(noun), str(verb), *([str(other)] if at % 3 == 0 else []))
        # Other words in scored texts: training texts that are scored too are left out.
        words = words if split == "train" else (*words, "the", str(noun))
        made.append(tagged(words, f"{split}{at}", f"{split} {at // 2}"))
    return made


SPLITS = Splits(
    corpus_from(texts(80, "train"), name="own", split="train"), corpus_from(texts(40, "dev"), name="own", split="dev")
)


def compared(**settings: object) -> Result:
    given = {"facts": None, "twin": False, "seen": False, "samples": 60} | settings
    return lamina.probe_vs_lens(tiny_masked(), SPLITS, **given)


def test_what_is_planted_at_layers_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """From layer 1 on, states tell the class; from layer 2 on, the head predicts a word of it."""
    encoder = tiny_masked()
    pieces = {word: encoder.tokenizer.convert_tokens_to_ids(word) for word in TAGS}
    kinds = sorted(set(TAGS.values()))
    kind_of = {piece: kinds.index(TAGS[word]) for word, piece in pieces.items()}
    noise = np.random.default_rng(0)

    def states_of(model, wanted) -> Iterator:
        found = torch.from_numpy(noise.normal(size=(len(wanted.target), 4, 16))).float()
        for at, piece in enumerate(wanted.target.tolist()):
            found[at, 1:, kind_of[piece]] += 8
        yield np.arange(len(found)), found

    def lens(model, states, layer):
        logits = torch.zeros(len(states), model.vocabulary)
        if layer >= 2:
            for kind, word in enumerate(("the", "fox", "un")):
                logits[:, pieces[word]] = 30.0 * (states[:, :3].argmax(1) == kind)
        return logits

    monkeypatch.setattr(answers_module, "layer_states", states_of)
    monkeypatch.setattr(answers_module, "lens_logits", lens)
    result = compared(words=100)
    table = result.tables["layers"].set_index(["measure", "of"])["layer"]
    assert (table["probability", "probe"], table["probability", "lens"], table["probability", "later"]) == (1, 2, 1)
    assert result.findings[0].status == "clear"
    assert result.findings[0].text.startswith(
        "Part of speech: the probe reads it from layer 1 on, the lens from layer 2 on (layers from probe to lens 1.0 ["
    )
    assert check_findings(result) == []
    best = result.tables["scores"].query("model == 'model' and measure == 'probability' and of == 'probe'")
    assert best["among_best"].tolist() == ["no", "yes", "yes", "yes"], "a set, not the layer with the highest number"
    joint = result.tables["joint"].set_index(["layer", "probe", "lens"])["share"]
    assert joint[3, "yes", "yes"] > 0.98
    assert joint.groupby(level=0).sum().tolist() == pytest.approx([1] * 4)
    shown = result.tables["examples"]
    assert set(shown[shown["layer"] == 1]["kind"]) == {"probe, not lens"}
    assert all(row.word in TAGS and "___" in row.sentence for row in shown.itertuples())
    chart = draw(result)["probability"]
    assert "Part of speech: probe" in chart.to_dict()["description"]


def test_the_lens_is_the_mass_on_words_of_the_class() -> None:
    """Against the whole model run by hand with one word masked."""
    result = compared(words=20, learn=60)
    encoder = tiny_masked()
    counts = {word: sum(text.words.count(word) for text in SPLITS.train) for word in TAGS}
    kinds = sorted(set(TAGS.values()))
    items = result.tables["items"]
    assert items.columns[:3].tolist() == ["item", "group", "value"]
    assert all(counts.values())
    by_id = {text.id: text for text in SPLITS.scored}
    for row in items.head(6).itertuples():
        id, _, part = row.item.removeprefix("pos/").rpartition(":")
        words = list(by_id[id].words)
        gold = TAGS[words[int(part)]]
        words[int(part)] = "[MASK]"
        given = encoder.tokenizer(" ".join(words), return_tensors="pt")
        place = int((given["input_ids"][0] == encoder.tokenizer.mask_token_id).nonzero())
        with torch.no_grad():
            chances = encoder.whole(**given).logits[0, place].softmax(-1)
        mass = dict.fromkeys(kinds, 0.0)
        for word, tag in TAGS.items():
            mass[tag] += float(chances[encoder.tokenizer.convert_tokens_to_ids(word)])
        assert row.lens_probability == pytest.approx(mass[gold] / sum(mass.values()), abs=1e-4)
        assert row.value == float(max(mass, key=mass.__getitem__) == gold)


def test_baselines_and_intervals_are_beside_every_score() -> None:
    result = compared(words=30, learn=60, seen=True, twin=True)
    table = result.tables["scores"]
    assert set(zip(table["of"], table["model"], strict=True)) == {
        ("probe", "model"), ("lens", "model"), ("seen", "model"), ("gap", "model"), ("probe", "twin"), ("lens", "twin"),
    }  # fmt: skip
    own = table[(table["measure"] == "accuracy") & table["of"].isin(["probe", "lens"])]
    assert (own["low"] <= own["value"] + 1e-9).all()
    assert (own["value"] <= own["high"] + 1e-9).all()
    gold = result.tables["items"]["gold"]
    train = [tag for text in SPLITS.train for edge in text.edges["pos"] for tag in edge.labels]
    most = max(set(train), key=train.count)
    assert own["baseline"].unique() == pytest.approx([(gold == most).mean()])


def test_the_estimate_grows_with_words_and_models() -> None:
    cost = lamina.probe_vs_lens.estimate(tiny_masked(), SPLITS, facts=None, words=40, learn=40, samples=5)
    assert cost.passes == 3
    assert cost.texts == 90
    assert cost.seconds > 0


def test_a_piece_counts_with_the_share_of_its_words() -> None:
    model = language_model(tiny_masked())
    made = [tagged(("the", "dog"), "a", "a")] * 10 + [
        Text("b", ("dog", "un"), edges={"pos": (Edge("VERB", Span(0, 1)), Edge("VERB", Span(1, 2)))})
    ] * 30
    found = vocabularies(model, ClassedTexts.of(made, [TASKS["pos"]]), ["pos"])["pos"]
    dog = model.encoder.tokenizer.convert_tokens_to_ids("dog")
    assert found.labels == ("DET", "NOUN", "VERB")
    assert found.shares[dog].tolist() == [0, 0.25, 0.75]
    assert found.prior.tolist() == pytest.approx([0.125, 0.125, 0.75])
    assert found.shares.sum() == pytest.approx(3), "pieces that training does not have count for nothing"


def test_words_that_show_number_and_role() -> None:
    words = ("I", "think", "dogs", "that", "she", "sees", "are", "happy")
    tags = ("PRP", "VBP", "NNS", "WDT", "PRP", "VBZ", "VBP", "JJ")
    pos = ("PRON", "VERB", "NOUN", "PRON", "PRON", "VERB", "AUX", "ADJ")
    heads = {0: ("nsubj", 1), 2: ("nsubj", 7), 3: ("obj", 5), 4: ("nsubj", 5), 5: ("acl", 2), 6: ("cop", 7)}
    text = Text(
        "s", words,
        edges={
            "pos": tuple(Edge(tag, Span(at, at + 1)) for at, tag in enumerate(pos)),
            "xpos": tuple(Edge(tag, Span(at, at + 1)) for at, tag in enumerate(tags)),
            "dep": tuple(Edge(name, Span(at, at + 1), Span(to, to + 1)) for at, (name, to) in heads.items()),
        },
    )  # fmt: skip
    assert TASKS["number"].mark(text) == {2: MaskedWordClass("plural")}
    # After `I` the form does not tell the number; `are` agrees with the subject of the word that it leans on.
    assert TASKS["agreement"].mark(text) == {
        1: MaskedWordClass("plural", maskable=False), 5: MaskedWordClass("singular"), 6: MaskedWordClass("plural")
    }  # fmt: skip
    assert TASKS["role"].mark(text) == {0: MaskedWordClass("subject"), 4: MaskedWordClass("subject")}


def test_facts_share_no_pattern_and_no_subject_with_those_scored() -> None:
    cities, notes = ("Rome", "Oslo", "Bern"), ("piano", "drums")
    patterns = tuple(Pattern(f"[X] {verb} ", ".") for verb in ("likes", "sees", "has", "owns", "wants", "gets"))
    made = [
        Relation(name, name, tuple(Fact(f"{name}{at}", objects[at % len(objects)]) for at in range(40)),
                 (*patterns, Pattern("", " is of [X].")))
        for name, objects in (("born", cities), ("died", cities), ("plays", notes))
    ]  # fmt: skip
    data, skipped = relation_data(Relations("own", "1", tuple(made)), causal=True, seed=0)
    assert skipped["relation: patterns whose subject comes after the object"] == 3
    documents = [{item.document for item in part.items} for part in data[:3]]
    assert all(documents)
    assert not documents[0] & documents[1]
    assert not documents[2] & (documents[0] | documents[1])
    subjects = [{item.passage.text.split()[0] for item in part.items} for part in data[:3]]
    assert not subjects[2] & (subjects[0] | subjects[1])
    kinds = {mark.label for item in data.scored.items for mark in item.marks[RELATION].values()}
    assert len(kinds) == 2, "relations with the same objects are one class"


def test_what_is_never_above_the_baseline_has_no_layer() -> None:
    draws = np.random.default_rng(0).normal(0.5, 0.05, (200, 3))
    baseline = LayerCurve(np.array([0.5]), np.full((200, 1), 0.5))
    found = first(LayerCurve(np.full(3, 0.5), draws), baseline, sure=False)
    assert np.isnan(found.layer)
    assert found.reason == NOT_ABOVE
    missing = first(LayerCurve(np.full(3, np.nan), draws), baseline, sure=False)
    assert missing.reason == "no probe has converged"


def test_the_best_of_many_layers_has_to_beat_the_baseline_as_the_best_of_many() -> None:
    """A layer chosen as the best is above the baseline by choice alone."""
    rng = np.random.default_rng(0)
    chosen = 0
    for _ in range(40):
        tests = gains(rng.normal(0, 1, (30, 2, 12)), np.full(30, 4.0))
        chosen += bool((tests.p < 0.05).any())
    assert chosen <= 6
    planted = rng.normal(0, 1, (30, 2, 12)) + np.where(np.arange(12) > 6, 1.0, 0.0)
    planted[:, 0, 3] = np.nan
    tests = gains(planted, np.full(30, 4.0))
    assert (tests.p[:, 7:] < 0.05).all()
    assert np.isnan(tests.p[0, 3]), "a layer whose probe has not converged"

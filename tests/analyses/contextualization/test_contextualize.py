"""The whole question, on a tiny model and made-up texts."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lamina.activations import Runtime
from lamina.analyses.contextualization import finetuning
from lamina.analyses.contextualization.answers import PRESETS, Setup, answer
from lamina.analyses.contextualization.contextualize import contextualize
from lamina.analyses.contextualization.finetuning import attention_similarity, load_finetuned
from lamina.analyses.contextualization.representations import (
    averaged,
    bags,
    contextual,
    random_vectors,
    window_vectors,
    windows,
)
from lamina.analyses.contextualization.words_in_context import find_words
from lamina.errors import FormatError, InputError, ModelError
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.training.provenance import text_hash

COLUMNS = ["representation", "layer", "context", "class", "seed", "split", "count", "value", "low", "high"]
SETTINGS = {"vectors": [], "context_sizes": [0, 1], "samples": 50}


class Counting(TinyEncoder):
    """Remembers what it encoded."""

    def __init__(self, **more):
        super().__init__(**more)
        self.encoded = []

    def encode(self, texts, want=("states",), *, ordered=True):
        texts = list(texts)
        self.encoded += [text.words for text in texts]
        return super().encode(texts, want, ordered=ordered)


@pytest.fixture(scope="module")
def asked(corpus, tmp_path_factory):
    """A saved result and the encoder that was asked."""
    encoder = Counting(blocks=1)
    folder = tmp_path_factory.mktemp("asked")
    places = {"out": folder / "out", "store": folder / "store", "device": "cpu"}
    result = contextualize(encoder, corpus, **places, **SETTINGS)
    return result, encoder, folder


def overall(table, split="test"):
    return table[(table["class"] == "all") & (table["seed"] == "all") & (table["split"] == split)]


def test_every_row_is_there_with_its_columns(asked):
    result, _, folder = asked
    declared = {name: table.columns for name, table in contextualize.tables.items() if not table.optional}
    assert {name: tuple(table.columns) for name, table in result.tables.items()} == declared
    for name in ("sclass", "recall", "frequent", "words", "context"):
        assert list(result.tables[name].columns) == COLUMNS
    rows = overall(result.tables["sclass"])
    assert list(rows["representation"]) == [
        *["tiny"] * 2, *["AVG-tiny"] * 2, "skip-gram", "random", "P-random", "permuted tiny",
    ]  # fmt: skip
    assert (rows["low"] <= rows["value"]).all()
    assert (rows["value"] <= rows["high"]).all()
    one = result.tables["sclass"].query("representation == 'tiny' and layer == 0 and split == 'test' and seed == '0'")
    assert list(one["class"]) == ["food", "person", "place", "thing", "all"]
    assert one["count"].iloc[-1] == one["count"].iloc[:-1].sum()
    assert set(overall(result.tables["words"])["representation"]) == {"AVG-tiny", "skip-gram", "random"}
    saved = (folder / "out" / "sclass.csv").read_text().splitlines()[0]
    assert saved == ",".join(COLUMNS)


def test_a_word_that_tells_its_class_beats_the_controls(asked):
    scores = overall(asked[0].tables["sclass"]).groupby("representation")["value"].max()
    assert scores["tiny"] > 0.6
    assert scores["tiny"] > scores["permuted tiny"] + 0.2
    assert scores["tiny"] > scores["random"] + 0.2


def test_the_histogram_and_the_sample_are_told(asked):
    result = asked[0]
    contexts = result.tables["contexts"]
    used = result.provenance.corpus["used"]
    assert contexts.groupby("split")["pairs"].sum().to_dict() == used["pairs"]
    assert result.provenance.corpus["settings"]["training"]["hidden"] == 8
    assert set(result.provenance.parameters) == {
        "annotation", "context_sizes", "vectors", "finetuned", "preset", "seeds", "faithful", "seed", "samples",
    }  # fmt: skip


def test_every_pair_tells_whether_its_class_was_found(asked):
    result = asked[0]
    pairs = result.tables["pairs"]
    assert list(pairs.columns) == ["representation", "layer", "context", "word", "class", "contexts", "found"]
    assert set(pairs["context"]) == {"full", "0", "1"}
    recall = overall(result.tables["recall"]).query("representation == 'tiny' and layer == 1")["value"].item()
    shown = pairs.query("representation == 'tiny' and layer == 1 and context == 'full'")
    assert shown["found"].mean() == pytest.approx(recall)
    assert len(shown) == result.provenance.corpus["used"]["pairs"]["test"]


def test_findings_are_of_the_best_layer_and_survive_saving(asked):
    result, _, folder = asked
    assert 1 <= len(result.findings) <= 4
    assert Result.load(folder / "out").findings == result.findings
    assert any("random vectors reach" in each.text for each in result.findings if each.status == "clear")


def test_an_estimate_counts_every_row_that_is_trained(asked, corpus, tmp_path):
    result, _, _ = asked
    cost = contextualize.estimate(TinyEncoder(blocks=1), corpus, store=tmp_path, device="cpu", **SETTINGS)
    used, training = result.provenance.corpus["used"], PRESETS["quick"].training
    in_context, of_words = (-(-used[what]["train"] // training.batch) for what in ("contexts", "words"))
    # Two layers with three sizes of context, permuted classes and a bag; layers, skip-gram and random as words.
    assert cost.steps == training.epochs * ((2 * 3 + 1 + 1) * in_context + (2 + 2) * of_words)
    assert cost.seconds > 0
    assert not list(tmp_path.rglob("*.safetensors")), "nothing is stored"


def test_the_same_question_is_answered_from_the_folder(asked, corpus):
    result, encoder, folder = asked
    before = len(encoder.encoded)
    places = {"out": folder / "out", "store": folder / "store", "device": "cpu"}
    again = contextualize(encoder, corpus, **places, **SETTINGS)
    assert len(encoder.encoded) == before
    assert again.provenance.created == result.provenance.created


def test_each_distinct_window_is_encoded_once(asked, corpus):
    _, encoder, _ = asked
    data = find_words(corpus, encoder, most_contexts=8)
    seen = windows(data, [0, 1])
    cut = {text.words for text in seen.cut}
    assert len(cut) == len(seen.cut)
    assert sorted(encoder.encoded) == sorted({text.words for text in data.texts} | cut)


def test_a_window_is_what_the_model_sees_alone(corpus, tmp_path):
    encoder = TinyEncoder()
    data = find_words(corpus, encoder, most_contexts=3)
    whole, stored = contextual(encoder, data, Runtime(tmp_path))
    by_size = window_vectors(encoder, data, [0, 1, 50], stored=stored)
    assert torch.allclose(by_size[50].float(), whole.vectors, atol=2e-3)
    text, span = data.texts[data.text[5]], data.spans[5]
    alone = next(encoder.encode([type(text)("w", text.words[span.start - 1 : span.end + 1])]))
    inside = torch.from_numpy(alone.tokens.words == 1)
    assert torch.allclose(by_size[1][:, 5].float(), alone.states[inside].mean(0), atol=2e-3)


def test_averages_and_bags(corpus, tmp_path):
    encoder = TinyEncoder()
    data = find_words(corpus, encoder, most_contexts=3)
    whole, _ = contextual(encoder, data, Runtime(tmp_path))
    mean = averaged(whole, data, "AVG")
    assert torch.allclose(mean.vectors[1, 4], whole.vectors[1, data.word == 4].mean(0), atol=1e-5)
    (bag,) = bags([random_vectors()], data)
    words = [word.lower() for word in data.texts[data.text[7]].words]
    each = [next(random_vectors().encode([type(data.texts[0])("w", (word,))])).states[0, 0] for word in words]
    assert torch.allclose(bag.vectors[0, 7], torch.stack(each).mean(0), atol=1e-5)


def test_wrong_settings_are_said(corpus):
    with pytest.raises(InputError, match="preset must be one of quick, paper; got 'slow'"):
        contextualize(TinyEncoder(), corpus, preset="slow")
    with pytest.raises(InputError, match="context_sizes takes a list, each item a whole number of at least 0"):
        contextualize(TinyEncoder(), corpus, context_sizes=[-1])
    with pytest.raises(InputError, match="every size is named once; got 2, 2"):
        contextualize(TinyEncoder(), corpus, context_sizes=[2, 2])


def test_vectors_of_another_width_or_with_nan_are_refused(corpus, tmp_path):
    (tmp_path / "wide.txt").write_text("dog 1 2 3\ncat 1 2\n")
    with pytest.raises(FormatError, match=r"wide\.txt:2: expected a word and 3 numbers"):
        contextualize(TinyEncoder(), corpus, vectors=[str(tmp_path / "wide.txt")], store=tmp_path)
    (tmp_path / "nan.txt").write_text("dog 1 2 3\ncat 1 nan 2\n")
    with pytest.raises(FormatError, match=r"nan\.txt: the vector of 'cat' has values that are not numbers"):
        contextualize(TinyEncoder(), corpus, vectors=[str(tmp_path / "nan.txt")], store=tmp_path)


@pytest.fixture
def models(monkeypatch):
    """Fine-tuned folders by name, without any folder."""
    known = {"same": TinyEncoder(), "other": TinyEncoder(seed=5), "deeper": TinyEncoder(blocks=3)}
    monkeypatch.setattr(finetuning, "load_encoder", lambda name: known[name.rpartition("/")[2]])
    return known


def test_a_model_of_another_architecture_is_refused(models):
    with pytest.raises(ModelError, match=r"deeper is not tiny fine-tuned: it has 3 blocks .* tiny has 2 blocks"):
        load_finetuned(TinyEncoder(), ["deeper"])


def test_an_unchanged_model_keeps_its_scores_in_both_setups(models, corpus, tmp_path):
    folder = tmp_path / "same"
    folder.mkdir()
    first = next(iter(corpus))
    (folder / "lamina.json").write_text(json.dumps({"format": 1, "task": "pos"}))
    (folder / "lamina_texts.txt").write_text(text_hash(first))
    result = contextualize(
        TinyEncoder(), corpus, vectors=[], context_sizes=[], finetuned=[str(folder), "other"], samples=20,
        device="cpu", store=tmp_path / "store",
    )  # fmt: skip
    assert set(result.tables) == set(contextualize.tables)
    assert result.provenance.skipped["texts that a model was fine-tuned on, left out"] >= 1
    table = result.tables["finetuning"]
    assert list(table.columns) == ["task", "setup", "layer", "value", "low", "high"]
    values = table.pivot_table(index="layer", columns=["task", "setup"], values="value")
    for setup in ("a", "b"):
        assert np.allclose(values["pos", setup], values["pos", "pretrained"])
    assert (values["other", "a"] < values["other", "pretrained"] - 0.1).any()
    heads = result.tables["attention_similarity"]
    assert list(heads.columns) == ["task", "layer", "head", "value", "baseline"]
    assert np.allclose(heads[heads["task"] == "pos"]["value"], 1)
    assert (heads["baseline"] < heads["value"])[heads["task"] == "pos"].all()


def test_attention_similarity_by_hand(models, corpus):
    base, texts = TinyEncoder(), list(corpus)[:5]
    table = attention_similarity(base, load_finetuned(base, ["other"]), texts)
    cosine = torch.nn.functional.cosine_similarity
    pairs = zip(base.encode(texts, ("maps",)), models["other"].encode(texts, ("maps",)), strict=True)
    maps = [(before.maps[1], after.maps[1]) for before, after in pairs]
    expected = np.mean([cosine(before[0].flatten(), after[0].flatten(), dim=0) for before, after in maps])
    other = np.mean([cosine(before[1].flatten(), after[0].flatten(), dim=0) for before, after in maps])
    row = table[(table["layer"] == 2) & (table["head"] == 1)].iloc[0]
    assert row["value"] == pytest.approx(expected, abs=1e-5)
    assert row["baseline"] == pytest.approx(other, abs=1e-5)


def test_faithful_takes_vectors_as_they_are_and_the_last_epoch(corpus, tmp_path):
    encoder = TinyEncoder(scale=100.0)
    data = find_words(corpus, encoder, most_contexts=3)
    whole, _ = contextual(encoder, data, Runtime(tmp_path))
    said = [next(answer(Setup(data, PRESETS["quick"], 0, faithful, "cpu"), whole)).said for faithful in (True, False)]
    assert not np.array_equal(*said)

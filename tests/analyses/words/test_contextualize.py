"""The whole question, on a tiny model and made-up texts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from lamina.analyses.words.contextualize import finetuning
from lamina.analyses.words.contextualize.contextualize import contextualize
from lamina.analyses.words.contextualize.finetuning import attention_similarity, load_finetuned
from lamina.analyses.words.contextualize.scores import PRESETS, ClassProbeSetup, answer
from lamina.analyses.words.occurrences import find_words
from lamina.errors import FormatError, InputError, ModelError
from lamina.framework.verify import check_findings
from lamina.models.checks.passports import passport_of
from lamina.probes.mlp import load_probes
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.training.provenance import text_hash

COLUMNS = ["representation", "layer", "context", "class", "seed", "split", "chose", "count", "value", "low", "high"]
SETTINGS = {"vectors": [], "context_sizes": [0, 1], "samples": 50}


class Counting(TinyEncoder):
    """Remembers what it encoded."""

    def __init__(self, **more):
        super().__init__(**more)
        self.passport = passport_of(TinyEncoder(**more))  # what it encodes to be examined is not counted
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
    assert list(pairs.columns) == ["representation", "layer", "context", "word", "class", "contexts", "share"]
    assert set(pairs["context"]) == {"full", "0", "1"}
    recall = overall(result.tables["recall"]).query("representation == 'tiny' and layer == 1")["value"].item()
    shown = pairs.query("representation == 'tiny' and layer == 1 and context == 'full'")
    assert shown["share"].mean() == pytest.approx(recall)
    assert len(shown) == result.provenance.corpus["used"]["pairs"]["test"]


def test_findings_are_of_the_best_layer_and_survive_saving(asked):
    result, _, folder = asked
    assert len(result.findings) == 3
    assert Result.load(folder / "out").findings == result.findings
    for each in (result, Result.load(folder / "out")):
        assert not check_findings(each), "; ".join(check_findings(each))
    assert any("the best vectors without context" in found.text for found in result.findings)


def test_contrasts_are_the_differences_of_what_is_scored(asked):
    """Whole text against the word alone was called open by overlapping intervals; the draws are shared."""
    tables = asked[0].tables
    scores = overall(tables["sclass"]).set_index(["representation", "layer"])["value"]
    alone = overall(tables["context"]).query("context == '0'").set_index("layer")["value"]
    rows = tables["contrasts"].query("comparison == 'less context' and window == 0 and family == 'layers'")
    expected = [scores["tiny", layer] - alone[layer] for layer in rows["layer"]]
    assert rows["difference"].to_numpy() == pytest.approx(expected)
    by_word = tables["contrasts"].query("comparison == 'average'")
    assert set(by_word["family"]) == {"layers", "chosen layer"}
    dev = overall(tables["sclass"], "dev").query("representation == 'tiny'")
    (chosen,) = by_word.loc[by_word["family"] == "chosen layer", "layer"]
    assert chosen == dev.loc[dev["value"].idxmax(), "layer"], "the words that are scored do not choose the layer"
    assert set(tables["best"]["layer"]) == {0, 1}


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
    texts = list(data.texts)
    seen = {text.words for text in texts}
    for size in (0, 1):
        for at, (start, end) in zip(data.text, data.spans, strict=True):
            seen.add(texts[at].words[max(0, start - size) : end + size])
    assert sorted(encoder.encoded) == sorted(seen)


def test_dev_scores_of_words_that_chose_the_epoch_are_marked(asked, corpus, tmp_path):
    table = asked[0].tables["sclass"]
    assert (table["chose"] == (table["split"] == "dev")).all()
    paper = contextualize(
        TinyEncoder(blocks=1), corpus, vectors=[], context_sizes=[], samples=5, faithful=True, device="cpu",
        store=tmp_path,
    )  # fmt: skip
    assert not paper.tables["sclass"]["chose"].any()
    (shown,) = contextualize.overview(paper)
    assert shown.columns[-1] == "micro-F1, dev words"
    assert len(shown.rows) == len(overall(paper.tables["sclass"], "dev"))


def test_occurrence_predictions_are_those_that_were_scored(asked, corpus):
    result, encoder, folder = asked
    told = pd.read_parquet(folder / "out" / "occurrences.parquet")
    data = find_words(corpus, encoder, most_contexts=8)
    test = data.of("test")
    # Two layers with the whole text and two sizes, two seeds.
    assert len(told) == len(test) * 2 * 3 * 2
    one = told.query("layer == 1 and context == 'full' and seed == 0").reset_index()
    texts = {text.id: text for text in data.texts}
    for row, at in zip(one.to_dict("records"), test, strict=True):
        words = texts[row["text_id"]].words[row["start"] : row["end"]]
        assert " ".join(words).lower() == row["word"] == data.words[data.word[at]]
        assert set(row["classes"]) == set(np.array(data.classes)[data.gold[at]])
    # Decided pair by pair from the file, as it is scored: at least half of the contexts.
    pairs = result.tables["pairs"].query("representation == 'tiny' and layer == 1 and context == 'full'")
    by_seed = [told.query(f"layer == 1 and context == 'full' and seed == {seed}").reset_index() for seed in (0, 1)]
    order = {int(at): number for number, at in enumerate(test)}
    scored = [pair for pair in data.pairs if data.split[pair.word] == "test"]
    for pair, found in zip(scored, pairs["share"], strict=True):
        name = data.classes[pair.label]
        votes = [np.mean([name in own["predicted"][order[int(at)]] for at in pair.contexts]) >= 0.5 for own in by_seed]
        assert found == np.mean(votes)


def test_saved_probes_answer_as_they_did(asked, corpus):
    _, encoder, folder = asked
    data = find_words(corpus, encoder, most_contexts=8)
    probes = load_probes(folder / "out" / "probes-layer-1.safetensors")
    assert probes.about["classes"] == list(data.classes)
    assert (probes.about["model"], probes.about["layer"]) == ("tiny", 1)
    told = pd.read_parquet(folder / "out" / "occurrences.parquet").query("layer == 1 and context == 'full'")
    texts = list(data.texts)
    vectors = []
    for at in data.of("test"):
        made = next(TinyEncoder(blocks=1).encode([texts[data.text[at]]]))
        start, end = data.spans[at]
        inside = torch.from_numpy((made.tokens.words >= start) & (made.tokens.words < end))
        vectors.append(made.states[inside, 1].mean(0))
    said = probes.says(torch.stack(vectors))
    for probe, own in zip(probes.trained.probes, said, strict=True):
        before = [data.classes[probe.label] in each for each in told.query(f"seed == {probe.seed}")["predicted"]]
        assert np.mean(own != np.array(before)) < 0.05


def test_wrong_settings_are_said(corpus):
    with pytest.raises(InputError, match="preset must be one of quick, standard, paper; got 'slow'"):
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
    monkeypatch.setattr(finetuning, "load_encoder", lambda name: known[str(name).rpartition("/")[2]])
    return known


def about(folder, **said):
    folder.mkdir(parents=True)
    (folder / "lamina.json").write_text(json.dumps({"format": 1, **said}))
    return str(folder)


def test_a_model_of_another_architecture_is_refused(models):
    with pytest.raises(ModelError, match=r"deeper is not tiny fine-tuned: it has 3 blocks .* tiny has 2 blocks"):
        load_finetuned(TinyEncoder(), ["deeper"])


def test_a_folder_given_twice_is_refused(models):
    with pytest.raises(InputError, match="other is given twice; name every fine-tuned folder once"):
        load_finetuned(TinyEncoder(), ["other", "other"])


def test_a_window_needs_a_transformer(models, tmp_path):
    folder = about(tmp_path / "same", task="pos", attention_window=2)
    with pytest.raises(ModelError, match="tiny has no attention that can be limited to a window"):
        load_finetuned(TinyEncoder(), [folder])


def test_seeds_of_one_task_are_one_task_and_other_settings_are_not(models, tmp_path):
    first = about(tmp_path / "pos" / "same", task="pos", plan={"lr": 1, "seed": 0}, best_step=10)
    second = about(tmp_path / "pos" / "other", task="pos", plan={"lr": 1, "seed": 1}, best_step=20)
    assert [(each.task, each.seed) for each in load_finetuned(TinyEncoder(), [first, second])] == [
        ("pos", "0"), ("pos", "1"),
    ]  # fmt: skip
    third = about(tmp_path / "faster" / "other", task="pos", plan={"lr": 2, "seed": 1}, best_step=20)
    named = [(each.task, each.seed) for each in load_finetuned(TinyEncoder(), [first, second, third])]
    assert named == [("same", "0"), ("same", "1"), ("other", "1")]


def test_an_unchanged_model_keeps_its_scores_in_both_setups(models, corpus, tmp_path):
    folder = about(tmp_path / "same", task="pos")
    first = next(iter(corpus))
    (tmp_path / "same" / "lamina_texts.txt").write_text(text_hash(first))
    result = contextualize(
        TinyEncoder(), corpus, vectors=[], context_sizes=[], finetuned=[folder, "other"], samples=20,
        device="cpu", store=tmp_path / "store",
    )  # fmt: skip
    assert set(result.tables) == set(contextualize.tables)
    assert result.provenance.skipped["texts that a model was fine-tuned on, left out"] >= 1
    table = result.tables["finetuning"]
    assert list(table.columns) == ["task", "window", "setup", "layer", "seed", "value", "low", "high"]
    mean = table[table["seed"] == "all"]
    values = mean.pivot_table(index="layer", columns=["task", "setup"], values="value")
    for setup in ("a", "b"):
        assert np.allclose(values["pos", setup], values["pos", "pretrained"])
    assert (values["other", "a"] < values["other", "pretrained"] - 0.1).any()
    heads = result.tables["attention_similarity"]
    assert list(heads.columns) == ["task", "seed", "layer", "head", "value", "baseline"]
    assert np.allclose(heads[heads["task"] == "pos"]["value"], 1)
    assert (heads["baseline"] < heads["value"])[heads["task"] == "pos"].all()


def test_several_seeds_have_their_mean(models, corpus, tmp_path):
    folders = [about(tmp_path / name, task="pos", plan={"seed": seed}) for seed, name in enumerate(("same", "other"))]
    result = contextualize(
        TinyEncoder(), corpus, vectors=[], context_sizes=[], finetuned=folders, samples=20, device="cpu",
        store=tmp_path / "store",
    )  # fmt: skip
    table = result.tables["finetuning"].query("setup == 'a'")
    wide = table.pivot_table(index="layer", columns="seed", values="value")
    assert np.allclose(wide["all"], (wide["0"] + wide["1"]) / 2)
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()


def test_attention_similarity_by_hand(models, corpus):
    base, texts = TinyEncoder(), list(corpus)[:5]
    table = attention_similarity(load_finetuned(base, ["other"]), texts)
    cosine = torch.nn.functional.cosine_similarity
    pairs = zip(base.encode(texts, ("maps",)), models["other"].encode(texts, ("maps",)), strict=True)
    maps = [(before.maps[1], after.maps[1]) for before, after in pairs]
    expected = np.mean([cosine(before[0].flatten(), after[0].flatten(), dim=0) for before, after in maps])
    other = np.mean([cosine(before[1].flatten(), after[0].flatten(), dim=0) for before, after in maps])
    row = table[(table["layer"] == 2) & (table["head"] == 1)].iloc[0]
    assert row["value"] == pytest.approx(expected, abs=1e-5)
    assert row["baseline"] == pytest.approx(other, abs=1e-5)


def test_faithful_takes_vectors_as_they_are_and_the_last_epoch(corpus, made, tmp_path):
    encoder = TinyEncoder(scale=100.0)
    data = find_words(corpus, encoder, most_contexts=3)
    whole = made(data).contextual(encoder)
    said = [
        next(answer(ClassProbeSetup(data, PRESETS["quick"], 0, faithful, "cpu", tmp_path), whole)).predicted
        for faithful in (True, False)
    ]
    assert not np.array_equal(*said)

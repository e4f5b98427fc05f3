"""The same call everywhere: models and data by name, by path, or as objects in memory; wrong things give sentences."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import lamina
from lamina.corpora import Corpus, Splits, corpus_from
from lamina.errors import CorpusError, InputError, LaminaError, ModelError
from lamina.framework.inputs import as_corpus, as_splits
from lamina.testing import TinyEncoder

SENTENCES = [
    (["Dogs", "bark", "."], {"pos": ["NOUN", "VERB", "PUNCT"]}),
    (["Cats", "do", "not"], {"pos": ["NOUN", "AUX", "PART"]}),
]
OPTIONS = {"split": "dev"}


def words(corpus: Corpus) -> list[tuple[str, ...]]:
    return [text.words for text in corpus]


TRAIN, DEV = corpus_from(SENTENCES * 3, name="pets", split="train"), corpus_from(SENTENCES, name="pets", split="dev")


def datasets_dict():
    datasets = pytest.importorskip("datasets")
    rows = {"tokens": [tokens for tokens, _ in SENTENCES], "pos": [edges["pos"] for _, edges in SENTENCES]}
    made = datasets.Dataset.from_dict(rows)
    return datasets.DatasetDict({"train": made, "validation": made})


@pytest.mark.parametrize(
    "data",
    [
        DEV,
        (TRAIN, DEV),
        Splits(TRAIN, DEV),
        {"train": TRAIN, "dev": DEV},
        {"train": TRAIN, "validation": DEV},
        SENTENCES,
        [list(tokens) for tokens, _ in SENTENCES],
        pd.DataFrame({"words": [tokens for tokens, _ in SENTENCES]}),
        datasets_dict,
    ],
    ids=["corpus", "pair", "splits", "dict", "validation", "list", "words", "frame", "datasets"],
)
def test_data_in_every_form_gives_the_same_texts(data) -> None:
    given = data() if callable(data) else data
    assert words(as_corpus(given, OPTIONS)) == [("Dogs", "bark", "."), ("Cats", "do", "not")]
    result = lamina.geometry(TinyEncoder(), given, samples=5, min_count=2, twin=False)
    assert set(result.tables["layers"]["model"]) == {"tiny"}


def test_a_path_is_read(tmp_path: Path) -> None:
    (tmp_path / "pets.txt").write_text("Dogs bark .\nCats do not\n")
    assert len(as_corpus(str(tmp_path / "pets.txt"), {"split": "all"})) == 2
    assert len(as_corpus(tmp_path / "pets.txt", {"split": "all", "limit": 1})) == 1


@pytest.mark.parametrize(
    "data", [(TRAIN, DEV), {"train": TRAIN, "dev": DEV}, datasets_dict], ids=["pair", "dict", "datasets"]
)
def test_training_texts_are_found_where_they_are_given(data) -> None:
    splits = as_splits(data() if callable(data) else data, OPTIONS)
    assert (splits.train.split, splits.scored.split) == ("train", "dev")


def test_where_no_training_texts_are_given_a_split_by_document_is_made_and_recorded() -> None:
    texts = [lamina.Text(f"t{n}", ("Dogs", str(n)), doc=f"d{n // 4}") for n in range(200)]
    splits = as_splits(corpus_from(texts, name="pets"), OPTIONS)

    train, scored = ({text.doc for text in part} for part in (splits.train, splits.scored))
    assert train.isdisjoint(scored)
    assert len(scored) > 0
    assert splits.scored.made_split == "dev is 10 % of the documents of the corpus, by hash with seed 0"
    assert splits.describe()["train"]["made_split"].startswith("train is 80 %")
    with pytest.raises(CorpusError, match="too small to be cut"):
        as_splits(corpus_from(SENTENCES, name="pets"), OPTIONS)


@pytest.mark.parametrize(
    "data",
    [7, None, object(), {"train": 3}, (TRAIN, 3), {"dev": None}],
    ids=["number", "none", "object", "no dev", "half a pair", "empty dev"],
)
def test_wrong_data_gives_a_sentence(data) -> None:
    with pytest.raises(LaminaError) as caught:
        lamina.geometry(TinyEncoder(), data)
    assert str(caught.value)[0].islower()


@pytest.mark.parametrize(
    "model",
    [7, None, object(), ("a", "b"), (1, 2, 3), [TinyEncoder()]],
    ids=["number", "none", "object", "names", "three", "list"],
)
def test_a_wrong_model_gives_a_sentence(model) -> None:
    with pytest.raises(ModelError, match=r"a (model is|pair must be)"):
        lamina.geometry(model, DEV)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: lamina.geometry(), "model is missing; call it as lamina.geometry(model, data, **settings)"),
        (lambda: lamina.geometry(TinyEncoder(), DEV, 3), "geometry takes 2 inputs, not 3"),
        (lambda: lamina.geometry(TinyEncoder(), DEV, data=DEV), "data is given twice"),
        (
            lambda: lamina.geometry(TinyEncoder(), DEV, sample=3),
            "geometry has no setting 'sample'; did you mean samples?",
        ),
        (lambda: lamina.geometry(TinyEncoder(), DEV, unit="document"), "unit is for data given by name or path"),
        (lambda: lamina.geometry(TinyEncoder(), DEV, dtype="float16"), "dtype is for a model given by name"),
        (lambda: lamina.geometry(TinyEncoder(), DEV, runtime=3), "runtime is a lamina.Runtime"),
        (lambda: lamina.heads(TinyEncoder(), corpus_from([["a", "b"]], name="x")), "has no dependencies"),
    ],
)
def test_a_wrong_call_gives_a_sentence(call, said: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert said in str(caught.value)


def test_a_model_in_memory_is_asked_as_it_is(model_folder) -> None:
    from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

    folder = model_folder("bert")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    by_name = lamina.load_encoder(str(folder), device="cpu")
    in_memory = AutoModel.from_pretrained(folder)
    given = lamina.geometry.ask((in_memory, tokenizer), DEV).loaded.arguments[0]

    assert (given.blocks, given.heads, given.width) == (by_name.blocks, by_name.heads, by_name.width)
    assert given.fingerprint == by_name.fingerprint
    result = lamina.geometry((in_memory, tokenizer), DEV, samples=5, min_count=2)
    assert len(result.tables["layers"])
    with_head = AutoModelForMaskedLM.from_config(in_memory.config)
    assert lamina.geometry.ask((with_head, tokenizer), DEV).loaded.arguments[0].blocks == given.blocks

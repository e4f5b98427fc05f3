"""Heads as dependency classifiers on every architecture, on odd and on bad input, and on real sentences."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from lamina import load_corpus, load_encoder
from lamina.analyses.heads.heads import heads
from lamina.corpora import corpus_from
from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.errors import CorpusError, ModelError
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text


def corpus_of(texts: list[Text]) -> Corpus:
    return Corpus("own", "dev", "sentence", "none", fingerprint_of([text.id for text in texts]), lambda: iter(texts))


def dep(relation: str, dependent: int, head: int) -> Edge:
    return Edge((relation,), Span(dependent, dependent + 1), Span(head, head + 1))


WORDS = ("Dogs", "chase", "cats", ".")
CHASE = (dep("nsubj", 0, 1), dep("root", 1, 1), dep("obj", 2, 1), dep("punct", 3, 1))
TREE = (dep("det", 0, 2), dep("amod", 1, 2), dep("nsubj", 2, 3), dep("root", 3, 3))


def test_what_is_cut_off_is_counted():
    encoder = TinyEncoder()
    encoder.limit = 5
    texts = [Text(str(i), ("Dogs", "see", "a", "cat"), edges={"dep": CHASE}) for i in range(2)]
    result = heads(encoder, corpus_of(texts), samples=5)
    # Two special tokens and two pieces of Dogs leave room for one word more: the subject is all that remains.
    assert result.provenance.skipped["dependencies lost where their text was cut"] == 4
    assert result.tables["relations"].set_index("relation").loc["all", "count"].unique().tolist() == [2]


def test_bad_input_is_refused_in_one_sentence():
    encoder = TinyEncoder()
    with pytest.raises(CorpusError, match=r"own has no dependencies .*it has: none.*for example ewt"):
        heads(encoder, corpus_from([["Dogs", "bark"]], name="own"))
    ones = corpus_of([Text(str(i), ("Yes",), edges={"dep": (dep("root", 0, 0),)}) for i in range(3)])
    with pytest.raises(CorpusError, match="all its sentences have one word"):
        heads(encoder, ones)
    single = corpus_of([Text("s", WORDS, edges={"dep": CHASE})])
    with pytest.raises(CorpusError, match="one text only"):
        heads(encoder, single)
    assert len(heads(encoder, single, faithful=True, samples=5).tables["best"]) == 5
    encoder.heads = 0
    with pytest.raises(ModelError, match="no attention heads"):
        heads(encoder, single)


def test_odd_texts_are_scored_like_others():
    odd = [
        Text(
            "punctuation", (".", "!", "?"), edges={"dep": (dep("punct", 0, 1), dep("root", 1, 1), dep("punct", 2, 1))}
        ),
        Text("emoji", ("😀", "👍🏽"), edges={"dep": (dep("root", 0, 0), dep("discourse", 1, 0))}),
        Text("right to left", ("שלום", "עולם"), edges={"dep": (dep("root", 0, 0), dep("vocative", 1, 0))}),
        Text("one word", ("Yes",), edges={"dep": (dep("root", 0, 0),)}),
        Text("none", ("Yes", "no"), edges={"dep": ()}),
        Text("not annotated", ("Yes", "no")),
    ]
    table = heads(TinyEncoder(), corpus_of(odd), samples=5, faithful=True).tables["relations"]
    counts = table.drop_duplicates("relation").set_index("relation")["count"].to_dict()
    assert counts == {"all": 4, "all without punctuation": 2, "punct": 2, "discourse": 1, "vocative": 1}


def _tiny_models():
    path = Path(__file__).parents[2] / "models" / "tiny_models.py"
    spec = importlib.util.spec_from_file_location("tiny_models_of_heads", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ARCHITECTURES = ["albert", "bert", "deberta-v2", "distilbert", "electra", "gpt2", "llama", "mpnet", "roberta"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_answers_and_decoders_look_back(architecture: str, tmp_path: Path):
    models = _tiny_models()
    assert sorted(models.ARCHITECTURES) == ARCHITECTURES
    encoder = load_encoder(str(models.build(architecture, tmp_path / architecture)), device="cpu")
    texts = [Text(str(i), ("The", "unhesitating", "dogs", "barked"), edges={"dep": TREE}) for i in range(4)]
    result = heads(encoder, corpus_of(texts), samples=5)
    table = result.tables["relations"]
    assert len(table) == 2 * 3 * 2 * 5
    assert table["accuracy"].between(0, 1).all()
    assert ("no special token was prepended" in result.provenance.model["first_token"]) == (architecture == "gpt2")
    if encoder.causal:
        # All heads of this tree come after their dependents, where no dependent can look.
        assert (table.loc[table["direction"] == "dependent", "accuracy"] == 0).all()
        assert (table.loc[table["direction"] == "head", "accuracy"] > 0).any()


@pytest.mark.data
def test_a_single_head_finds_most_objects(real_encoder, data_dir):
    corpus = load_corpus(data_dir / "ud_english_ewt", "dev", first=400)
    best = heads(real_encoder, corpus, samples=20).tables["best"].set_index("relation")
    assert best.loc["obj", "accuracy"] > 0.5
    assert best.loc["obj", "offset_accuracy"] < 0.45

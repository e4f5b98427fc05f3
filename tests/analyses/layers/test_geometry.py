"""Geometry against plain loops, scikit-learn and numpy's SVD."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics.pairwise import cosine_similarity

from lamina import geometry
from lamina.analyses.layers.geometry import DrawnMeasure, layer_contrasts
from lamina.corpora import Corpus, corpus_from, load_corpus
from lamina.errors import AssetError, CorpusError, InputError
from lamina.framework.verify import check_findings
from lamina.models import SPECIAL, Activations, Encoder, Tokens
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.types import Text

MEASURES = [
    "anisotropy",
    "self_similarity",
    "intra_similarity",
    "self_similarity_adjusted",
    "intra_similarity_adjusted",
    "max_explainable_variance",
    "max_explainable_variance_baseline",
    "max_explainable_variance_adjusted",
]
ENCODER = TinyEncoder()


class ByHand(Encoder):
    """Every occurrence of a word has the vector written down for it: [text][word]."""

    name, blocks, heads, width = "by hand", 0, 0, 2
    fingerprint = "f" * 64

    def __init__(self, vectors: dict[str, list[tuple[float, float]]]) -> None:
        self._vectors = vectors

    def tokenize(self, text: Text) -> Tokens:
        size = len(text.words)
        return Tokens(np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32))

    def encode(self, texts, want=("states",), *, ordered=True) -> Iterator[Activations]:
        for text in texts:
            states = torch.tensor(self._vectors[" ".join(text.words)]).unsqueeze(1)
            yield Activations(text.id, self.tokenize(text), states)


def spoken(count: int, seed: int = 0) -> Corpus:
    """Texts of 1 to 9 words out of 12, so that most types are frequent."""
    draw = np.random.default_rng(seed)
    known = ["The", "the", "dog", "Dogs", "barked", "at", "a", "cat", "extraordinary", "and", "ran", "."]
    words = [[str(word) for word in draw.choice(known, 1 + i % 9)] for i in range(count)]
    return corpus_from(words, name="spoken")


@pytest.fixture
def ask(tmp_path: Path):
    """Geometry's table with `measure` -> row, of one model's layer."""

    def table(encoder: Encoder, corpus: Corpus, **settings) -> pd.DataFrame:
        return geometry(encoder, corpus, store=tmp_path / "store", **{"samples": 200} | settings).tables["layers"]

    return table


def at(table: pd.DataFrame, model: str, layer: int, column: str = "value") -> dict[str, float]:
    rows = table[(table["model"] == model) & (table["layer"] == layer)]
    return dict(zip(rows["measure"], rows[column], strict=True))


def first_share(vectors: np.ndarray) -> float:
    squares = np.linalg.svd(vectors, compute_uv=False) ** 2
    return squares[0] / squares.sum()


def plainly(encoder: Encoder, corpus: Corpus, layer: int, min_count: int) -> dict[str, float]:
    """The same measures by brute force, out of what the encoder says itself (kept as float16)."""
    texts, types, at_text = [], defaultdict(list), []
    for number, (text, each) in enumerate(zip(corpus, encoder.encode(corpus), strict=True)):
        states = each.states.half().double().numpy()[:, layer]
        vectors = [states[each.tokens.words == word].mean(0) for word in range(len(text.words))]
        assert (each.tokens.words == SPECIAL).any()
        texts.append(np.array(vectors))
        at_text += [number] * len(vectors)
        for word, vector in zip(text.words, vectors, strict=True):
            types[word.lower()].append(vector)
    cosines = cosine_similarity(np.concatenate(texts))
    apart = np.array(at_text)[:, None] != np.array(at_text)[None]
    frequent = [np.array(vectors) for vectors in types.values() if len(vectors) >= min_count]
    same = [cosine_similarity(v)[np.triu_indices(len(v), 1)].mean() for v in frequent]
    intra = [cosine_similarity(v, v.mean(0, keepdims=True)).mean() for v in texts if len(v) > 1]
    words = np.concatenate(texts)
    draw = np.random.default_rng(0)
    sizes = [len(types[word]) for word in sorted(types) if len(types[word]) >= min_count]
    value = {
        "anisotropy": cosines[apart].mean(),
        "self_similarity": np.mean(same),
        "intra_similarity": np.mean(intra),
        "max_explainable_variance": np.mean([first_share(v) for v in frequent]),
        "max_explainable_variance_baseline": np.mean(
            [first_share(words[draw.choice(len(words), size, replace=False)]) for size in sizes]
        ),
    }
    value["max_explainable_variance_adjusted"] = (
        value["max_explainable_variance"] - value["max_explainable_variance_baseline"]
    )
    for measure in ("self_similarity", "intra_similarity"):
        value[f"{measure}_adjusted"] = value[measure] - value["anisotropy"]
    return value


def test_the_table_is_as_promised(ask) -> None:
    table = ask(ENCODER, spoken(40))

    assert list(table.columns) == ["model", "layer", "measure", "value", "low", "high"]
    expected = [(m, k, each) for m in ("tiny", "tiny (random)") for k in range(3) for each in MEASURES]
    assert list(table[["model", "layer", "measure"]].itertuples(index=False, name=None)) == expected


@pytest.mark.parametrize("min_count", [2, 5])
def test_every_measure_equals_the_brute_force(ask, min_count: int) -> None:
    corpus = spoken(40)
    table = ask(ENCODER, corpus, min_count=min_count)

    for encoder, model in ((ENCODER, "tiny"), (ENCODER.random_twin(0), "tiny (random)")):
        for layer in range(3):
            expected = plainly(encoder, corpus, layer, min_count)
            assert at(table, model, layer) == pytest.approx(expected, abs=1e-5)


def test_an_example_worked_by_hand(ask) -> None:
    # "a" points east, then north; "b" east, then south-west.
    vectors = {"a b": [(2.0, 0.0), (1.0, 0.0)], "A b": [(0.0, 3.0), (-1.0, -1.0)]}
    half = math.sqrt(0.5)

    value = at(ask(ByHand(vectors), corpus_from([["a", "b"], ["A", "b"]]), min_count=2), "by hand", 0)

    # Pairs across texts: east-north 0 and east-south-west -cos 45, each twice.
    assert value["anisotropy"] == pytest.approx(-half / 2)
    # "a": cos 90; "b": -cos 45.
    assert value["self_similarity"] == pytest.approx(-half / 2)
    # The first text's words lie on its mean; the second's mean is (-1/2, 1), of length sqrt(5)/2.
    second = (1 / (math.sqrt(5) / 2) + (0.5 - 1) / (math.sqrt(2) * math.sqrt(5) / 2)) / 2
    assert value["intra_similarity"] == pytest.approx((1 + second) / 2)
    # "a": squared singular values 9 and 4; "b": of [[1, 0], [-1, -1]], (3 +- sqrt 5) / 2.
    assert value["max_explainable_variance"] == pytest.approx((9 / 13 + (3 + math.sqrt(5)) / 6) / 2)
    # Two of four words are drawn for "a", and two for "b".
    words, draw = np.array([*vectors["a b"], *vectors["A b"]]), np.random.default_rng(0)
    by_chance = [first_share(words[draw.choice(4, 2, replace=False)]) for _ in range(2)]
    assert value["max_explainable_variance_baseline"] == pytest.approx(np.mean(by_chance))
    assert value["self_similarity_adjusted"] == pytest.approx(0, abs=1e-6)


class Wider(ByHand):
    width = 8


@pytest.mark.parametrize("own", [0.0, 1.5])
def test_explainable_variance_above_random_words_tells_a_words_own_vector_from_none(ask, own: float) -> None:
    draw = np.random.default_rng(1)
    of_type = {word: own * draw.normal(size=8) for word in "abcdefghij"}
    texts = [[str(word) for word in draw.choice(list(of_type), 6, replace=False)] for _ in range(40)]
    vectors = {" ".join(text): [tuple(of_type[word] + draw.normal(size=8)) for word in text] for text in texts}

    table = ask(Wider(vectors), corpus_from(texts))
    value, low, high = (at(table, "by hand", 0, column) for column in ("value", "low", "high"))

    # Even vectors drawn from nothing have a first share well above 1/8: only the difference says that it is nothing.
    assert value["max_explainable_variance"] > 0.2
    adjusted = "max_explainable_variance_adjusted"
    assert (low[adjusted] <= 0 <= high[adjusted]) == (own == 0)
    assert value[adjusted] > 0.1 or own == 0


def test_random_words_are_the_same_at_every_layer_and_for_every_bootstrap(ask) -> None:
    few, many = (ask(ENCODER, spoken(40), samples=samples) for samples in (20, 60))
    measure = "max_explainable_variance_baseline"
    assert at(few, "tiny", 1)[measure] == pytest.approx(at(many, "tiny", 1)[measure])


def test_intervals_hold_the_value_and_shrink_with_more_texts(ask) -> None:
    few, many = ask(ENCODER, spoken(40)), ask(ENCODER, spoken(400))

    for table in (few, many):
        assert (table["low"] <= table["value"]).all()
        assert (table["value"] <= table["high"]).all()
    widths = [
        (table["high"] - table["low"])[table["measure"].isin(["anisotropy", "intra_similarity"])]
        for table in (few, many)
    ]
    assert (widths[1].to_numpy() < widths[0].to_numpy()).all()


def test_a_seed_gives_the_same_numbers_and_another_other_intervals(ask) -> None:
    first, again, other = (ask(ENCODER, spoken(40), seed=seed) for seed in (0, 0, 1))

    pd.testing.assert_frame_equal(first, again)
    model = first["model"] == "tiny"
    # The words that explainable variance is compared with are drawn too.
    by_draw = first["measure"].isin(MEASURES[-2:])
    assert ((first["value"] == other["value"]) != by_draw)[model].all()
    assert (first["low"] != other["low"])[model].all()
    assert not np.allclose(first["value"][~model & (first["layer"] > 0)], other["value"][~model & (other["layer"] > 0)])


def test_words_alike_everywhere_have_all_similarities_one(ask) -> None:
    east = {"a b": [(1.0, 0.0)] * 2, "b a": [(2.0, 0.0)] * 2, "a": [(0.5, 0.0)]}
    table = ask(ByHand(east), corpus_from([["a", "b"], ["b", "a"], ["a"]]), min_count=2)

    value, low = at(table, "by hand", 0), at(table, "by hand", 0, "low")
    expected = [1, 1, 1, 0, 0, 1, 1, 0]
    assert [value[measure] for measure in MEASURES] == pytest.approx(expected, abs=1e-6)
    # Bootstrap samples that drew a single text have no pair to measure, and spoil nothing.
    assert [low[measure] for measure in MEASURES] == pytest.approx(expected, abs=1e-6)


def test_without_frequent_words_there_is_no_number_and_no_crash(ask) -> None:
    table = ask(ENCODER, corpus_from([["one", "two"], ["three", "four"], ["five"]]))

    value, low = at(table, "tiny", 1), at(table, "tiny", 1, "low")
    for measure in MEASURES:
        by_type = measure.startswith("self") or measure.startswith("max")
        assert math.isnan(value[measure]) == math.isnan(low[measure]) == by_type, measure


def test_texts_of_one_word_have_no_intra_similarity(ask) -> None:
    table = ask(ENCODER, corpus_from([["one"], ["two"], ["three"]]))

    value = at(table, "tiny", 1)
    assert math.isnan(value["intra_similarity"])
    assert not math.isnan(value["anisotropy"])


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    result = geometry(ENCODER, corpus_from([["a"], ["b", "a"], ["c"]]), store=tmp_path, samples=10, min_count=2)

    skipped = result.provenance.skipped
    assert skipped["word types with fewer than 2 occurrences"] == 2
    assert skipped["texts of one word, without intra-sentence similarity"] == 2
    assert result.provenance.seeds == (0,)
    assert result.provenance.model["fingerprint"] == ENCODER.fingerprint


def test_the_twin_can_be_left_out_and_is_where_there_are_no_blocks(ask) -> None:
    assert set(ask(ENCODER, spoken(9), twin=False)["model"]) == {"tiny"}
    assert set(ask(ByHand({"a": [(1.0, 0.0)], "b": [(0.0, 1.0)]}), corpus_from([["a"], ["b"]]))["model"]) == {"by hand"}


def test_what_cannot_be_measured_is_refused(ask) -> None:
    with pytest.raises(CorpusError, match="at least 2"):
        ask(ENCODER, corpus_from([["only", "one"]]))
    with pytest.raises(InputError, match="min_count must be a whole number of at least 2; got 1"):
        ask(ENCODER, spoken(9), min_count=1)


@pytest.mark.real
def test_minilm_on_real_sentences(real_encoder: Encoder, tmp_path: Path) -> None:
    try:
        corpus = load_corpus("ewt", split="dev", first=100)
    except AssetError as error:
        pytest.skip(f"cannot be had here: {error}")

    table = geometry(real_encoder, corpus, store=tmp_path, samples=50).tables["layers"]

    assert table.groupby("model")["layer"].nunique().to_dict() == {"minilm": 7, "minilm (random)": 7}
    assert table["value"].between(-1, 1).all()
    assert (table["low"] <= table["high"]).all()
    wide = table.pivot(index=["model", "layer"], columns="measure", values="value")
    assert wide.loc[("minilm", 0), "self_similarity"] > wide.loc[("minilm", 6), "self_similarity"] > 0
    assert (wide["self_similarity"] > wide["anisotropy"]).all()
    assert wide["max_explainable_variance"].gt(0).all()


def by_hand(
    own: list[float],
    twin: list[float] | None,
    *,
    measure: str = "self_similarity_adjusted",
    spread: float = 0.01,
    units: int = 60,
) -> Result:
    """A measure of a model and its twin by layer, with normal draws."""
    rng = np.random.default_rng(0)

    def drawn(values: list[float]) -> list[DrawnMeasure]:
        return [DrawnMeasure(value, value + rng.normal(0, spread, 600)) for value in values]

    table = layer_contrasts(measure, drawn(own), None if twin is None else drawn(twin), units)
    about = {"name": "c", "drawn": {"documents": 300, "word types": units}}
    return Result("geometry", {"contrasts": table}, Provenance({"name": "m"}, about, {}))


def test_each_layer_is_tested_against_the_twin_and_the_measure_is_named() -> None:
    """Raw self-similarity fell to layer 6, and "least alike at layer 5" was the adjusted one, which was not said."""
    (clear,) = geometry.findings(by_hand([0.7, 0.6, 0.4], [0.72, 0.7, 0.7]))
    assert clear.status == "clear"
    assert clear.text.startswith(
        "At layer 2 two occurrences of a word are less alike than in the random-weights twin: self-similarity adjusted "
        "for anisotropy .40, twin .70; it is lowest at layer 2 (difference -.30 [-."
    )
    assert (clear.unit, clear.n) == ("word type", 60)
    (variance,) = geometry.findings(by_hand([0.3, 0.2], [0.1, 0.1], measure="max_explainable_variance_adjusted"))
    assert variance.text.startswith(
        "At layer 1 one static vector explains more of a word's occurrences than in the random-weights twin: "
        "explainable variance above that of random words .20, twin .10; it is lowest at layer 1"
    )


def test_the_lowest_layers_are_a_set_not_a_list_of_overlaps() -> None:
    (tied,) = geometry.findings(by_hand([0.7, 0.41, 0.4], [0.72, 0.7, 0.7]))
    assert "; it is lowest at layers 1 and 2 (" in tied.text
    (equal,) = geometry.findings(by_hand([0.41, 0.4], [0.7, 0.7]))
    assert "; no layer was shown to have the lowest (" in equal.text


def test_statuses_follow_the_paired_contrast() -> None:
    (wide,) = geometry.findings(by_hand([0.6, 0.59], [0.7, 0.7], spread=0.2))
    assert wide.text.startswith(
        "It is not known whether at layer 1 the self-similarity adjusted for anisotropy differs"
    )
    (alike,) = geometry.findings(by_hand([0.7, 0.698], [0.7, 0.7], spread=0.001))
    assert alike.status == "null"
    (few,) = geometry.findings(by_hand([0.6, 0.4], [0.7, 0.7], units=5))
    assert few.text.startswith("5 word types are too few to test whether at layer 1 the self-similarity adjusted for")
    (alone,) = geometry.findings(by_hand([0.6, 0.4], None))
    assert alone.text.startswith("At layer 1 the self-similarity adjusted for anisotropy is .40, above 0; ")
    assert geometry.findings(by_hand([float("nan")] * 2, [0.7, 0.7])) == ()
    (still,) = geometry.findings(by_hand([0.6, 0.4], None, spread=0.0))
    assert still.text.endswith("it does not vary between the units that are resampled.")


def test_findings_are_borne_out_by_their_tables(tmp_path: Path) -> None:
    result = geometry(ENCODER, spoken(60), store=tmp_path, samples=200)
    assert len(result.findings) == 3
    assert check_findings(result) == []
    assert check_findings(Result.load(result.save(tmp_path / "out", charts=False))) == []


def test_documents_are_resampled_not_their_texts(ask) -> None:
    """Texts of one document are drawn together; a document that is there twice as two texts adds no certainty."""
    draw = np.random.default_rng(0)
    known = list("abcdefghij")
    lines = [[str(word) for word in draw.choice(known[3 * (at % 3) :][:4], 6)] for at in range(12)]
    twice = [Text(f"{at}-{copy}", tuple(words), doc=f"d{at}") for at, words in enumerate(lines) for copy in range(4)]
    alone = [Text(text.id, text.words, doc=text.id) for text in twice]
    widths = {}
    for name, texts in (("documents", twice), ("texts", alone)):
        table = ask(ENCODER, corpus_from(texts, name=name), twin=False)
        rows = table[(table["measure"] == "intra_similarity") & (table["layer"] == 1)]
        widths[name] = float((rows["high"] - rows["low"]).iloc[0])
    assert widths["documents"] > 1.5 * widths["texts"]


class Constant(TinyEncoder):
    """A first token that is the same vector in every text at layer 1, and points any way at layer 0."""

    def encode(self, texts, want=("states",), *, ordered: bool = True):
        for text, activations in zip(texts := list(texts), super().encode(texts, want), strict=True):
            states = activations.states.clone()
            states[0, 0] = torch.from_numpy(np.random.default_rng([*" ".join(text.words).encode()]).normal(size=16))
            states[0, 1] = 1.0
            yield replace(activations, states=states)

    @property
    def fingerprint(self) -> str:
        return "c" * 64

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> TinyEncoder:
        return TinyEncoder(seed=seed + 1)


def test_special_tokens_are_looked_at_where_wanted(tmp_path) -> None:
    texts = [Text(f"t{n}", tuple(f"w{(3 * n + k) % 23}" for k in range(5)), doc=f"t{n}") for n in range(40)]
    corpus = corpus_from(texts, name="own")
    result = geometry(Constant(), corpus, special=True, samples=100, store=tmp_path, device="cpu")
    rows = result.tables["special"].set_index(["measure", "layer"])
    assert rows.loc[("first_centring", 1), "value"] == pytest.approx(1, abs=1e-3)
    assert rows.loc[("first_centring", 0), "value"] < 0.4
    assert rows.loc[("first_alike", 1), "value"] == pytest.approx(1, abs=1e-3)
    assert abs(rows.loc[("first_alike", 0), "value"]) < 0.1
    words = result.tables["layers"].query("measure == 'anisotropy' and layer == 1")["value"].iloc[0]
    assert rows.loc[("anisotropy_with", 1), "baseline"] == pytest.approx(words)
    # By hand, at layer 1: all pairs of vectors of different texts.
    vectors = [next(iter(Constant().encode([text]))).states[:, 1].float() for text in texts]
    whole = [
        torch.nn.functional.normalize(_with_words(text, one), dim=1) for text, one in zip(texts, vectors, strict=True)
    ]
    pairs = [(a @ b.T).flatten() for n, a in enumerate(whole) for b in whole[n + 1 :]]
    assert rows.loc[("anisotropy_with", 1), "value"] == pytest.approx(float(torch.cat(pairs).mean()), abs=1e-4)
    assert any("not centred" in each.claim for each in result.findings)
    assert "special" not in geometry(TinyEncoder(), corpus, samples=20, store=tmp_path, device="cpu").tables


def _with_words(text: Text, states: torch.Tensor) -> torch.Tensor:
    """Special tokens as they are, words as the means of their tokens."""
    owner = TinyEncoder().tokenize(text).words
    words = [states[owner == word].mean(0) for word in range(len(text.words))]
    return torch.stack([*words, *states[owner < 0]])

"""Numbers: values planted in one layer are read there, inside the learned range and outside, as by scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import lamina
from lamina.analyses.layers.numbers import character_features, number_set, spelled, state_features
from lamina.errors import InputError
from lamina.framework import check_findings
from lamina.models import Activations, Encoder, Tokens
from lamina.testing import TinyEncoder
from lamina.types import Text

WIDTH, LAYERS, PLANTED = 6, 3, 1


class Counting(Encoder):
    """Noise by word; at layer 1 of the trained model, one direction grows with the value of a word of digits."""

    name, blocks, heads, width = "counting", LAYERS - 1, 0, WIDTH

    def __init__(self, *, trained: bool = True) -> None:
        self._trained = trained

    @property
    def fingerprint(self) -> str:
        return ("a" if self._trained else "b") * 64

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> Counting:
        return Counting(trained=False)

    def tokenize(self, text: Text) -> Tokens:
        size = len(text.words)
        return Tokens(np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32))

    def encode(self, texts, want=("states",), *, ordered: bool = True) -> Iterator[Activations]:
        for text in texts:
            states = np.zeros((len(text.words), LAYERS, WIDTH))
            for place, word in enumerate(text.words):
                drawn = np.random.default_rng([*word.encode(), self._trained])
                states[place] = drawn.normal(size=(LAYERS, WIDTH))
                if self._trained and word.replace(".", "").isdigit():
                    states[place, PLANTED, 0] += float(word)
            yield Activations(text.id, self.tokenize(text), torch.from_numpy(states).float())


@pytest.fixture(scope="module")
def result():
    return lamina.numbers(Counting(), forms=["integers"], top=100, items=120, samples=50)


def row(result, task: str, where: str, layer: int = PLANTED, baseline: str = "characters"):
    rows = result.tables["readings"].set_index(["task", "range", "layer", "baseline"])
    return rows.loc[(task, where, layer, baseline)]


def test_what_is_planted_is_read_inside_and_outside_the_learned_range(result) -> None:
    for task in ("decoding", "maximum", "addition"):
        for where in ("inside", "outside"):
            assert row(result, task, where)["value"] > 0.8, (task, where)
            assert row(result, task, where, baseline="untrained twin")["p_adjusted"] < 0.01
        assert row(result, task, "outside")["p_adjusted"] < 0.05, "places of digits say nothing of larger numbers"
    assert {each.status for each in result.findings if "outside" in each.claim} == {"clear"}
    assert not check_findings(result)


def test_nothing_is_read_where_nothing_was_planted(result) -> None:
    readings = result.tables["readings"]
    other = readings[(readings["layer"] != PLANTED) & (readings["baseline"] == "untrained twin")]
    # Outside the range, a probe of noise may be wrong by any amount.
    assert (other.loc[other["range"] == "inside", "difference"].abs() < 0.3).all()
    # Six families are looked at, each with its own 5 %.
    assert ((other["p_adjusted"] > 0.01) | (other["difference"] < 0)).all()


def test_scikit_learn_decodes_the_same_at_the_layer(result) -> None:
    made = number_set("decoding", "integers", top=100, items=120, seed=0)
    x, y = {}, {}
    for part, items in made.parts.items():
        x[part] = state_features(Counting(), items).states[:, 0, PLANTED]
        y[part] = np.array([item.values[0] for item in items])
    plain = LinearRegression().fit(x["learned"], y["learned"])
    for where in ("inside", "outside"):
        assert row(result, "decoding", where)["value"] == pytest.approx(plain.score(x[where], y[where]), abs=0.02)


def test_no_number_that_is_scored_was_learned() -> None:
    for task in ("decoding", "maximum", "addition"):
        parts = number_set(task, "words", top=60, items=60, seed=3).parts
        values = {part: {value for item in items for value in item.values} for part, items in parts.items()}
        assert not values["inside"] & values["learned"]
        assert max(values["learned"] | values["inside"]) <= 60 < min(values["outside"])


def test_words_decimals_and_characters_stand_for_the_values() -> None:
    assert [spelled(value) for value in (7, 13, 90, 110, 999_999)][3:] == [
        "one hundred ten", "nine hundred ninety nine thousand nine hundred ninety nine",
    ]  # fmt: skip
    item = number_set("addition", "decimals", top=60, items=40, seed=0).parts["learned"][0]
    written = [float(item.text.words[start]) for start, _ in item.spans]
    assert written == pytest.approx(list(item.values))
    assert character_features([item], "0123456789.").shape == (1, 2, 32 * 11)


def test_bad_settings_are_told_in_a_sentence() -> None:
    with pytest.raises(InputError, match="number words go up to a million"):
        lamina.numbers(TinyEncoder(), top=600_000)
    with pytest.raises(InputError, match="top"):
        lamina.numbers(TinyEncoder(), top=3)

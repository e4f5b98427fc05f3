"""Order and subjects by layer: what is planted is found, and numbers agree with scikit-learn's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
import torch

import lamina
from lamina.analyses.probing.order_changes import Change, middle
from lamina.analyses.probing.tables import Score
from lamina.corpora import Splits
from lamina.corpora.learning import divide
from lamina.encoders import Activations
from lamina.probes.span_means import SpanMeans
from lamina.probes.targets import find_targets
from lamina.results import Result
from lamina.tasks import label_set
from lamina.tasks.order_making import make_order_tasks
from lamina.testing import TinyEncoder
from tests.tasks.test_order_making import bank

LAYERS = 4
PLANTED = 2
"""The layer that has each word's position; in all others it is another text's."""


class Positions(TinyEncoder):
    """Noise, and in one layer the position of each word as one dimension per position."""

    def __init__(self) -> None:
        super().__init__(blocks=LAYERS - 1, width=24)
        self.name = "positions"

    @property
    def fingerprint(self) -> str:
        return "positions-1"

    def encode(self, texts: Any, want: Any = ("states",), *, ordered: bool = True) -> Iterator[Activations]:
        for activations in super().encode(texts, want, ordered=ordered):
            words = activations.tokens.words
            draw = np.random.default_rng(crc32(activations.tokens.ids.tobytes()))
            states = draw.normal(size=(len(words), LAYERS, self.width)).astype(np.float32) * 0.1
            for token, word in enumerate(words.tolist()):
                if 0 <= word < 12:
                    states[token, PLANTED, word] += 1
            yield replace(activations, states=torch.from_numpy(states))


@pytest.fixture(scope="module")
def splits() -> Splits:
    return bank(240, 120)


@pytest.fixture(scope="module")
def found(splits: Splits, settings: dict[str, Any]) -> Result:
    asked = {"tasks": ["index", "tense"], "items": 400, "seeds": 1, "twin": False}
    return lamina.order(Positions(), splits, **asked, **settings)


def accuracy(result: Result, task: str) -> pd.Series:
    table = result.tables["order"]
    own = table[(table["task"] == task) & (table["metric"] == "accuracy") & (table["seed"] == "all")]
    return own[(own["probe"] == "layer") & (own["of"] == "model")].set_index("layer")["value"]


def test_columns_are_those_of_probe(found: Result) -> None:
    assert list(found.tables["order"].columns) == list(Score.__annotations__)


def test_what_is_planted_is_found_and_nothing_else(found: Result) -> None:
    index = accuracy(found, "index")
    assert index[PLANTED] == 1.0
    # Ten classes, some 300 targets: three standard errors above chance are .15.
    assert (index.drop(PLANTED) < 0.2).all()
    # The position says nothing of tense, whose words are not in both sets.
    assert accuracy(found, "tense").max() < 0.75
    row = found.tables["changes"].set_index("task").loc["index"]
    assert row["best_layer"] == PLANTED
    assert row["best"] == 1.0
    # Layers 1 | 2, 3: the upper half has one layer that knows and one that does not.
    by_hand = index[[2, 3]].mean() - index[1]
    assert row["change"] == pytest.approx(by_hand)
    assert row["change_low"] <= by_hand <= row["change_high"]
    assert row["fall"] == pytest.approx(index[3] - 1)
    assert row["fall_high"] < -0.6


def test_findings_say_what_was_planted(found: Result) -> None:
    (first, *_) = [each for each in found.findings if each.text.startswith("Index")]
    assert first.text.startswith("Index of a word is best read at layer 2: accuracy 1.00 [")
    assert first.status == "clear"
    assert "layers 2-3 read it better by" in first.text
    assert "the best constant answer .10" in first.text


def test_linear_probes_agree_with_scikit_learn(splits: Splits, settings: dict[str, Any]) -> None:
    """The same vectors and the same penalty give the same accuracy, up to answers at the boundary."""
    from sklearn.linear_model import LogisticRegression

    asked = {"tasks": ["tense"], "items": 120, "twin": False, "faithful": True}
    encoder = TinyEncoder()
    ours = accuracy(lamina.order(encoder, splits, **asked, **settings), "tense")
    made = make_order_tasks(splits, ["tense"], items=120, seed=0, faithful=True)
    (task,) = made.tasks
    learn = divide(made.splits, seed=0).learn
    labels = label_set(task, made.splits.train)
    vectors, gold = [], []
    for corpus in (made.splits.train, made.splits.scored):
        encoded = list(encoder.encode(list(corpus)))
        targets = find_targets(task, corpus, [each.tokens for each in encoded], labels)
        source = _Encoded(encoded)
        means, _ = SpanMeans.of(source, targets)
        kept = np.isin(targets.text, learn) if corpus is made.splits.train else np.ones(len(targets), bool)
        every = torch.cat([means.load(int(text)) for text in np.unique(targets.text)]).numpy()
        vectors.append(every[kept])
        gold.append(targets.gold.argmax(1)[kept])
    for layer in range(encoder.layers):
        train, test = (each[:, layer] for each in vectors)
        middle_, spread = train.mean(0), train.std(0)
        theirs = []
        # The mean loss with a penalty p is the sum with 1 / (p n).
        for penalty in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4):
            model = LogisticRegression(C=1 / (penalty * len(train)), max_iter=5000, tol=1e-6)
            model.fit((train - middle_) / spread, gold[0])
            theirs.append(model.score((test - middle_) / spread, gold[1]))
        # Which penalty is chosen by loss on other texts; states are kept in half precision: one answer may differ.
        assert min(abs(ours[layer] - each) for each in theirs) <= 1.5 / len(test)


class _Encoded:
    held, token_bytes = None, 1

    def __init__(self, activations: list[Activations]) -> None:
        self._activations = activations

    def start(self, index: int) -> int:
        return 0

    def size(self, index: int) -> int:
        return len(self._activations[index].tokens.ids)

    def load(self, index: int) -> torch.Tensor:
        states = self._activations[index].states
        assert states is not None
        return states


def test_the_middle_of_the_layers() -> None:
    assert [middle(count) for count in (2, 3, 7, 13, 31)] == [1, 1, 3, 6, 15]
    assert Change._fields[:2] == ("task", "kind")

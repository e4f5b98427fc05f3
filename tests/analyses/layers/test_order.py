"""Order and subjects by layer: what is planted is found, and numbers agree with scikit-learn's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
import torch

import lamina
from lamina.analyses.layers.order import (
    OrderChange,
    OrderReading,
    beside_rows,
    change_rows,
    half_contrasts,
    layer_rows,
    middle,
    texts_to_count,
)
from lamina.analyses.layers.probe.tables import ProbeScore
from lamina.corpora import Splits
from lamina.corpora.splits import divide
from lamina.framework.verify import check_findings
from lamina.models import Activations
from lamina.probes.linear import SpanMeans
from lamina.probes.streams import find_targets
from lamina.results import Result
from lamina.results.finding import Finding
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
    assert list(found.tables["order"].columns) == list(ProbeScore.__annotations__)


def test_what_is_planted_is_found_and_nothing_else(found: Result) -> None:
    index = accuracy(found, "index")
    assert index[PLANTED] == 1.0
    # Ten classes, some 300 targets: three standard errors above chance are .15.
    assert (index.drop(PLANTED) < 0.2).all()
    # The position says nothing of tense, whose words are not in both sets.
    assert accuracy(found, "tense").max() < 0.75
    row = found.tables["changes"].set_index("task").loc["index"]
    assert row["stopping_layer"] == PLANTED
    assert row["chosen"] == 1.0
    layers = found.tables["layers"]
    index_layers = layers[layers["task"] == "index"].set_index("layer")
    assert index_layers.index[index_layers["among_best"]].tolist() == [PLANTED]
    # Layers 1 | 2, 3: the upper half has one layer that knows and one that does not.
    by_hand = index[[2, 3]].mean() - index[1]
    assert row["change"] == pytest.approx(by_hand)
    assert row["change_low"] <= by_hand <= row["change_high"]
    assert row["fall"] == pytest.approx(index[3] - 1)
    assert row["fall_high"] < -0.6


def test_findings_say_what_was_planted(found: Result) -> None:
    first, changed = sorted(_about(found, "index"), key=lambda each: "better than layer" in each.text)[:2]
    start = (
        f"The index of a word is read best at layer {PLANTED}: layer {PLANTED} reads it with accuracy 1.00, the best"
    )
    assert first.claim.startswith(f"{start} constant answer")
    assert (first.status, changed.status) == ("clear", "clear")
    assert changed.claim.startswith("Layers 2 and 3 read the index of a word better than layer 1: accuracy ")
    assert check_findings(found) == []


def _about(found: Result, word: str) -> list[Finding]:
    return [each for each in found.findings if word in each.text]


def reading(task: str, value: list[float], *, noise: float = 0.03, seed: int = 0, stopping: int = 0) -> OrderReading:
    """Accuracies whose draws have this standard error, half of it shared by the layers."""
    rng = np.random.default_rng(seed)
    values = np.array(value)
    drawn = values + noise / np.sqrt(2) * (rng.normal(size=(400, 1)) + rng.normal(size=(400, len(values))))
    constant = np.full(len(values), 0.5), np.full((400, len(values)), 0.5)
    converged = np.ones(len(values), bool)
    return OrderReading(task, values, drawn, {"constant": constant}, stopping, 200, "document", converged, "", "")


def test_wrong_4_the_layer_of_lowest_loss_is_not_called_best() -> None:
    """Layer 6 has the lowest loss and .70; layers 2 to 5 are .80 to .85."""
    read = reading("main_auxiliary", [0.55, 0.6, 0.8, 0.84, 0.85, 0.82, 0.7], stopping=6)
    rows = pd.DataFrame(layer_rows([read]))
    among = rows.loc[rows["among_best"], "layer"].tolist()
    assert 4 in among
    assert not {0, 1, 6} & set(among)
    (change,) = change_rows([read])
    assert (change.stopping_layer, change.chosen) == (6, 0.7)


def test_p_values_reach_05_however_many_tasks_there_are() -> None:
    tasks = ["index", "bigram_shift", "main_auxiliary", "subject", "depth", "coordination", "tense", "object_number"]
    values = [[0.5, 0.9, 0.9, 0.5, 0.5] if number % 2 else [0.5] * 5 for number, _ in enumerate(tasks)]
    rows = change_rows([reading(*pair, seed=number) for number, pair in enumerate(zip(tasks, values, strict=True))])
    assert [row.p_adjusted < 0.05 for row in rows] == [bool(number % 2) for number in range(8)]
    pairs = half_contrasts([reading(*pair, seed=at) for at, pair in enumerate(zip(tasks, values, strict=True))])
    assert {row.linear for row in pairs} == {"index", "bigram_shift"}
    assert all((row.p_adjusted < 0.05) == (abs(row.difference) > 0.1) for row in pairs)


def test_few_texts_are_untested_and_the_number_needed_is_told() -> None:
    (row,) = change_rows([reading("index", [0.5, 0.9, 0.5])._replace(units=5)])
    assert (row.units, row.needed, row.p_adjusted == row.p_adjusted) == (5, 6, False)
    beside = beside_rows([reading("index", [0.5, 0.9, 0.5])._replace(units=5)])
    assert {each.needed for each in beside} == {6}


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
    resident, token_bytes = None, 1

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


def test_frequencies_are_counted_in_training_texts_or_in_all_where_there_are_none(tmp_path: Path) -> None:
    def write(split: str, word: str) -> None:
        (tmp_path / f"en-ud-{split}.conllu").write_text(f"1\t{word}\t{word}\tNOUN\tNN\t_\t0\troot\t_\t_\n\n")

    for split in ("dev", "test"):
        write(split, split)
    assert sorted(word for text in texts_to_count(str(tmp_path)) for word in text.words) == ["dev", "test"]
    write("train", "train")
    assert [word for text in texts_to_count(str(tmp_path)) for word in text.words] == ["train"]


def test_the_middle_of_the_layers() -> None:
    assert [middle(count) for count in (2, 3, 7, 13, 31)] == [1, 1, 3, 6, 15]
    assert OrderChange._fields[:2] == ("task", "kind")

"""Labels of trees planted in one layer are read there and nowhere else, as by scikit-learn's regression."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from lamina import Edge, Result, Span, Text, corpus_from, probe
from lamina.corpora.splits import Splits
from lamina.models import Activations
from lamina.models.contract import STATES, Want
from lamina.tasks import get_task
from lamina.testing import TinyEncoder

LABELS = ("NP", "VP", "PP")
PLANTED, LAYER = "grandparent", 1


def sentence(name: str) -> Text:
    """Six words of no meaning: three constituents of two words, each within one of the same words."""
    rng = Random(name)
    const = [Edge("S", Span(0, 6))]
    for start in (0, 2, 4):
        const += [Edge(rng.choice(LABELS), Span(start, start + 2)), Edge(rng.choice(LABELS), Span(start, start + 2))]
    return Text(name, tuple(f"w{rng.randrange(5000)}" for _ in range(6)), edges={"const": tuple(const)}, doc=name)


class Planting(TinyEncoder):
    """Noise that knows the text's name alone, and at one layer the label of every word's grandparent."""

    def __init__(self, texts: Iterable[Text], layer: int | None = LAYER) -> None:
        super().__init__(width=8)
        self._texts = {text.words: text for text in texts}
        self._layer = layer

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"planted {self._layer}".encode()).hexdigest()

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> Planting:
        return Planting(self._texts.values(), None)

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        given = list(texts)
        for text, activations in zip(given, super().encode(given, want), strict=True):
            rng = np.random.default_rng([*" ".join(text.words).encode(), self._layer is None])
            states = rng.normal(size=(len(activations.tokens.ids), self.layers, self.width)).astype(np.float32)
            for edge in get_task(PLANTED).targets(self._texts[text.words]) if self._layer is not None else ():
                states[activations.tokens.words == edge.span.start, LAYER, LABELS.index(edge.labels[0])] += 4
            yield replace(activations, states=torch.from_numpy(states))


@pytest.fixture(scope="module")
def texts() -> dict[str, list[Text]]:
    return {split: [sentence(f"{split}-{n}") for n in range(many)] for split, many in (("train", 60), ("dev", 30))}


@pytest.fixture(scope="module")
def result(texts: dict[str, list[Text]], settings: dict[str, Any]) -> Result:
    splits = Splits(*(corpus_from(texts[split], name="trees", split=split) for split in ("train", "dev")))
    encoder = Planting([*texts["train"], *texts["dev"]])
    return probe(encoder, splits, tasks=[PLANTED, "parent"], probes=["layer"], **settings)


def scores(result: Result, task: str) -> dict[int, float]:
    rows = result.tables["scores"]
    rows = rows[(rows["task"] == task) & (rows["of"] == "model") & (rows["probe"] == "layer") & (rows["seed"] == "all")]
    return rows[rows["metric"] == "accuracy"].set_index("layer")["value"].to_dict()


def test_the_label_is_read_at_its_layer_and_told(result: Result) -> None:
    found = scores(result, PLANTED)
    assert found[LAYER] > 0.95
    assert max(found[layer] for layer in found if layer != LAYER) < 0.5

    told = [finding for finding in result.findings if finding.claim.startswith("Grandparent constituents can be read")]
    assert [finding.status for finding in told] == ["clear"]
    assert "best at layer 1" in told[0].claim


def test_what_is_not_planted_is_not_found(result: Result) -> None:
    assert max(scores(result, "parent").values()) < 0.5
    assert not [each for each in result.findings if each.status == "clear" and each.claim.startswith("Parent")]


def test_scikit_learn_reads_the_same_layers(result: Result, texts: dict[str, list[Text]]) -> None:
    encoder = Planting([*texts["train"], *texts["dev"]])
    for layer, ours in scores(result, PLANTED).items():
        (x, y), (seen, gold) = (_matrix(encoder, texts[split], layer) for split in ("train", "dev"))
        theirs = float((LogisticRegression(max_iter=500).fit(x, y).predict(seen) == gold).mean())
        assert theirs == pytest.approx(ours, abs=0.12)


def _matrix(encoder: Planting, texts: list[Text], layer: int) -> tuple[np.ndarray, list[str]]:
    rows, labels = [], []
    for text, activations in zip(texts, encoder.encode(texts), strict=True):
        assert activations.states is not None
        words = activations.tokens.words
        for edge in get_task(PLANTED).targets(text):
            rows.append(activations.states[words == edge.span.start, layer].mean(0).numpy())
            labels.append(edge.labels[0])
    return np.array(rows), labels

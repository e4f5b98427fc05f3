"""A part-of-speech probe of every layer, on the same vectors: all in lamina's bank, one by one in torch, scikit-learn.

`python -m benchmarks.peer_programs.probing NAME FOLDER`: FOLDER/probing.npz holds vectors, labels and texts. lamina and
torch train the same network on the same number of batches, once per seed; scikit-learn's logistic regression has no
seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.peer_programs.turns import take_turns

SEEDS = 3
STEPS = 100
BATCH_TEXTS = 32
RATE = 1e-3
HIDDEN = 256


class Part(NamedTuple):
    """Targets of one token each."""

    states: np.ndarray
    """[target, layer, width] in float16, as a store keeps them."""
    labels: np.ndarray
    """[target]"""
    text: np.ndarray
    """[target] Sorted."""


class Data(NamedTuple):
    """What is learned and what is scored."""

    learned: Part
    scored: Part

    @classmethod
    def of(cls, folder: Path) -> Data:
        """As the driver wrote it."""
        saved = np.load(folder / "probing.npz")
        return cls(*(Part(*(saved[f"{part}_{name}"] for name in Part._fields)) for part in cls._fields))

    @property
    def layers(self) -> int:
        return self.learned.states.shape[1]

    @property
    def classes(self) -> int:
        return int(max(part.labels.max() for part in self)) + 1


Train = Callable[[], np.ndarray]
"""Trains all probes; returns the accuracy of each, [probe]."""


def by_sklearn(data: Data) -> tuple[str, Train]:
    """Logistic regression per layer."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def train() -> np.ndarray:
        scores = []
        for layer in range(data.layers):
            learned, scored = (part.states[:, layer].astype(np.float32) for part in data)
            probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, C=0.1))
            probe.fit(learned, data.learned.labels)
            scores.append(probe.score(scored, data.scored.labels))
        return np.array(scores)

    return "scikit-learn", train


def by_torch(data: Data) -> tuple[str, Train]:
    """One network after another, with torch's own layers and optimiser."""

    def train() -> np.ndarray:
        return np.array([_alone(data, layer, seed) for layer in range(data.layers) for seed in range(SEEDS)])

    return "torch", train


def _alone(data: Data, layer: int, seed: int) -> float:
    learned, scored = (torch.from_numpy(part.states[:, layer]).float() for part in data)
    mean, deviation = learned.mean(0), learned.std(0) * learned.shape[1] ** 0.5
    learned, scored = (learned - mean) / deviation, (scored - mean) / deviation
    labels = torch.from_numpy(data.learned.labels)
    torch.manual_seed(seed)
    probe = torch.nn.Sequential(
        torch.nn.Dropout(0.2),
        torch.nn.Linear(learned.shape[1], HIDDEN),
        torch.nn.Linear(HIDDEN, HIDDEN),
        torch.nn.Tanh(),
        torch.nn.LayerNorm(HIDDEN),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(HIDDEN, data.classes),
    )
    optimiser = torch.optim.Adam(probe.parameters(), lr=RATE)
    for rows in _batches(data.learned.text, seed):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(probe(learned[rows]), labels[rows]).backward()
        torch.nn.utils.clip_grad_norm_(probe.parameters(), 5.0)
        optimiser.step()
    probe.eval()
    with torch.no_grad():
        return float((probe(scored).argmax(1) == torch.from_numpy(data.scored.labels)).float().mean())


def _batches(text: np.ndarray, seed: int) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    own = np.split(np.arange(len(text)), np.flatnonzero(np.diff(text)) + 1)
    made: list[torch.Tensor] = []
    while len(made) < STEPS:
        order = rng.permutation(len(own))
        for at in range(0, len(order), BATCH_TEXTS):
            made.append(torch.from_numpy(np.concatenate([own[i] for i in order[at : at + BATCH_TEXTS]])))
    return made[:STEPS]


def by_lamina(data: Data) -> tuple[str, Train]:
    """The bank: all layers and seeds on one stream of batches."""
    from lamina.probes.bank import train_probes as train_bank
    from lamina.probes.edge import EdgeProbes, LayerCut
    from lamina.probes.learner import ProbeGroup, Schedule
    from lamina.probes.streams import ProbeTargets, Stream

    class Kept:
        """The vectors of one part, as a store would give them."""

        resident = None

        def __init__(self, part: Part) -> None:
            self._texts = [torch.from_numpy(each) for each in np.split(part.states, _starts(part.text))]

        @property
        def token_bytes(self) -> int:
            return self._texts[0][0].nbytes

        def start(self, index: int) -> int:
            return 0

        def size(self, index: int) -> int:
            return len(self._texts[index])

        def load(self, index: int) -> torch.Tensor:
            return self._texts[index]

    def targets(part: Part) -> ProbeTargets:
        number = np.cumsum(np.r_[0, np.diff(part.text) != 0])
        first = np.r_[0, _starts(part.text)]
        token = np.arange(len(part.text)) - first[number]
        spans = np.stack([token, token + 1], -1)[:, None]
        gold = np.eye(data.classes, dtype=bool)[part.labels]
        every = np.ones_like(gold)
        names = tuple(map(str, range(data.classes)))
        return ProbeTargets(names, number, spans, spans, gold, every, every, np.zeros((len(gold), 0), bool), len(first))

    def train() -> np.ndarray:
        stream = Stream(Kept(data.learned), targets(data.learned), batch_texts=BATCH_TEXTS)
        scored = Stream(Kept(data.scored), targets(data.scored), batch_texts=BATCH_TEXTS)
        standard = stream.look().standard
        stream, scored = stream.standardised(standard), scored.standardised(standard)
        shape = {"layers": data.layers, "width": data.learned.states.shape[2], "labels": data.classes}
        cuts = [LayerCut("layer", layer) for layer in range(data.layers)]
        groups = [
            ProbeGroup(
                EdgeProbes(cuts, **shape, arity=1, seed=seed, hidden=HIDDEN),
                stream.targets,
                scored.targets,
                (stream, scored),
                "categorical",
            )
            for seed in range(SEEDS)
        ]
        schedule = Schedule(learning_rate=RATE, validate_every=STEPS, max_validations=1)
        train_bank(groups, schedule, order_seed=0, what="probing")
        return np.concatenate([_accuracy(group.probes, scored) for group in groups])

    return "lamina", train


def _accuracy(probes, scored) -> np.ndarray:
    right = 0.0
    with torch.no_grad():
        for batch in scored.in_order():
            gold = torch.from_numpy(scored.targets.gold[batch.rows].argmax(1))
            right = right + (probes(batch).argmax(-1) == gold).sum(1)
    return np.asarray(right) / len(scored.targets)


def _starts(text: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.diff(text)) + 1


PROGRAMS = {"scikit-learn": by_sklearn, "torch, one by one": by_torch, "lamina": by_lamina}


def main() -> None:
    """Name, folder."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    package, train = PROGRAMS[name](Data.of(folder))
    scores = train()
    told = {"probes": len(scores), "accuracy": float(scores.mean()), "best": float(scores.max())}
    take_turns(package, train, warm=True, **told)


if __name__ == "__main__":
    main()

"""What a probe reads from a layer while parts below it are changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lamina.analyses.cause.probe_readers import BatchSpans, ProbeReader, linear_readers
from lamina.analyses.cause.targets import Target, TargetScores
from lamina.corpora.learning import Splits
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import CorpusError, TaskError
from lamina.probes.targets import find_targets
from lamina.stats.units import unit_of
from lamina.tasks import Task
from lamina.types import Text

PROBE = "probe:"
"""Before TASK@LAYER, a target."""
TOO_LONG = "texts longer than the model's limit"


def probe_name(task: str, layer: int) -> str:
    """In tables and on the command line.

    Example:
        >>> probe_name("pos", 6)
        'probe:pos@6'
    """
    return f"{PROBE}{task}@{layer}"


class ProbeTarget(Target):
    """The share of targets of a task about which a probe's highest answer is right; an item is a text.

    Probes of several seeds are asked one by one, and right answers are averaged, as `lamina probe` does.
    """

    def __init__(
        self,
        encoder: HuggingFaceEncoder,
        task: Task,
        reader: ProbeReader,
        texts: Sequence[Text],
        *,
        splits: Splits | None = None,
        seed: int = 0,
    ) -> None:
        """`splits` has the texts that a probe of the twin learns from."""
        self.reader, self.task = reader, task
        self.layers, self.name = reader.layers, probe_name(task.name, reader.layers[-1])
        self._splits, self._texts, self._seed = splits, texts, seed
        asked = [text for text in texts if task.targets(text)]
        cuts = encoder.pieces.cut(asked)
        fits = [at for at, cut in enumerate(cuts) if len(cut.tokens.ids) <= encoder.limit]
        own = [asked[at] for at in fits]
        if not own:
            raise CorpusError(
                f"{self.name}: none of the texts has a target of {task.name} that {encoder.name} can read"
            )
        self._found = find_targets(task, own, [cuts[at].tokens for at in fits], reader.labels)
        if not self._found.single_label:
            raise TaskError(
                f"{self.name}: targets of {task.name} have several labels or a value instead of one label, so there is "
                "no highest answer to score; name a task such as pos, ner or dep"
            )
        self.rows = [encoder.rows(at, cuts[number])[0] for at, number in enumerate(fits)]
        self.owners = np.arange(len(own))
        unit = unit_of(own)
        self.items, self.units = tuple(text.id for text in own), tuple(unit.of(text) for text in own)
        self.skipped = +Counter(
            {
                f"texts without a target of {task.name}": len(texts) - len(asked),
                TOO_LONG: len(asked) - len(own),
                "labels unseen in training (scored as errors)": int(self._found.unseen.sum()),
            }
        )
        self._bounds = np.searchsorted(self._found.text, np.arange(len(own) + 1))
        self._counts = np.diff(self._bounds).astype(float)
        self.chance = _most_frequent(self._found.gold, self._found.unseen)

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: targets of the row about which the probe is right."""
        asked, numbers = self._asked(rows)
        with torch.no_grad():
            said = self.reader.logits(states, asked).argmax(-1).cpu().numpy()
        right = self._found.gold[numbers, said].mean(0)
        return np.bincount(asked.row, right, len(rows))[:, None]

    def score(self, kept: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`."""
        return TargetScores(kept[:, 0].copy(), self._counts)

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: the probe's own, the mean over the row's targets."""
        asked, numbers = self._asked(rows)
        logits = self.reader.logits(states, asked)
        gold = torch.from_numpy(self._found.gold[numbers]).to(logits)
        where = torch.from_numpy(asked.row).to(logits.device)
        sums = torch.zeros(len(rows), device=logits.device).index_add(0, where, self.reader.losses(logits, gold))
        return sums / torch.from_numpy(self._counts[list(rows)]).to(sums)

    def of(self, encoder: HuggingFaceEncoder) -> ProbeTarget:
        """See `Target.of`: a linear probe of its own, trained on the other encoder's states."""
        if self._splits is None:
            raise CorpusError(
                f"{self.name}: there are no training texts for a probe of the twin; name a corpus that has some, or do "
                "without the twin (--no-twin)"
            )
        (reader,) = linear_readers(encoder, [(self.task, self.layers[-1])], self._splits, self._seed)
        return ProbeTarget(encoder, self.task, reader, self._texts, splits=self._splits, seed=self._seed)

    def _asked(self, rows: Sequence[int]) -> tuple[BatchSpans, np.ndarray]:
        """The targets of some rows, and their numbers."""
        numbers = np.concatenate([np.arange(self._bounds[row], self._bounds[row + 1]) for row in rows])
        counts = [int(self._counts[row]) for row in rows]
        return BatchSpans(np.repeat(np.arange(len(rows)), counts), self._found.tokens[numbers]), numbers


def _most_frequent(gold: np.ndarray, unseen: np.ndarray) -> float:
    """What always answering the most frequent label of these targets scores."""
    return float(np.concatenate([gold, unseen], 1).sum(0).max() / len(gold))

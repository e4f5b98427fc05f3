"""Minimum description length by online code: how many bits the labels take when a probe learns as it reads.

Texts come in blocks of growing size (Voita and Titov 2020). The first is coded without knowledge; every next one by
probes trained on all that came before it. A layer whose vectors make the labels easy to learn has a short code, even
where two layers end at the same F1.

A probe that has seen a handful of targets is often sure and wrong. So one bit per block says whether the probe codes it
or base rates do, whichever is shorter: no code is longer than that of base rates by more than one bit per block.

A target with one label out of all costs -log2 of that label's probability (categorical code); otherwise every decision
that annotators were asked about costs -log2 of its own (binary code). Texts that decide when to stop are known
beforehand, and so is the set of labels. Graded tasks have no code.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.activations import ReadActivations
from lamina.analyses.layers.probe.training import ProbeSetup, ProbeStates, Whose, programs
from lamina.errors import DamagedError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.bank import BankCheckpoint, ProbeGroup, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import ProbeTargets, Standard, Stream, find_targets
from lamina.progress import say
from lamina.stats.best import best_set
from lamina.stats.intervals import interval, widening
from lamina.stats.seeds import seed_shares
from lamina.stats.units import Units
from lamina.tasks import Task, control_task, label_set

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Of the texts learned from: where blocks end."""
FORMAT = 1

Code = Literal["categorical", "binary"]


class CodeLength(NamedTuple):
    """One row of `mdl.csv`."""

    model: str
    task: str
    of: Whose
    layer: int
    seed: str
    """A number, with intervals over documents; or `all`: the mean code of the seeds, from 5 of them on with intervals
    over seeds and documents together."""
    targets: int
    code: Code
    """categorical: one label out of all; binary: a yes or no per rated label."""
    codelength: float
    """Bits: the first block without knowledge; every other one by the probe or by base rates, and a bit to say
    which."""
    low: float
    """95 %, for as many targets of other documents."""
    high: float
    uniform: float
    """Bits without knowledge: log2 of the number of labels per target, or one per decision."""
    prior: float
    """Bits by base rates alone, learned block by block; the same for all layers."""
    compression: float
    """uniform / codelength."""
    compression_low: float
    compression_high: float
    compression_prior: float
    """prior / codelength: above 1, the vectors tell more than base rates."""
    compression_prior_low: float
    compression_prior_high: float
    by_probe: float
    """Share of the targets that the probe codes."""
    probe_only: float
    """Bits where the probe codes every block but the first, as Voita and Titov do."""
    converged: float
    """Share of the blocks whose probe had converged. Below 1 the code is valid, but longer than it need be."""
    p_beaten: float
    """That another layer has a shorter code, by max-T over the layers of the same model, task and seed."""
    among_best: bool
    """Whether no other layer was shown to have a shorter code: the confidence set of the shortest."""


def block_ends(texts: int) -> list[int]:
    """Where blocks end, in texts; blocks of less than a text are merged with the next.

    Example:
        >>> block_ends(100)
        [1, 3, 6, 12, 25, 50, 100]
    """
    return sorted({int(texts * fraction) for fraction in FRACTIONS} - {0})


def uniform_bits(targets: ProbeTargets, code: Code) -> Float[np.ndarray, " target"]:
    """What each target costs without knowledge."""
    if code == "categorical":
        return np.full(len(targets), np.log2(len(targets.labels)))
    return targets.rated.sum(1).astype(float)


def prior_bits(targets: ProbeTargets, code: Code, block: Int[np.ndarray, " target"]) -> Float[np.ndarray, " target"]:
    """What each target costs by base rates: how often labels held in earlier blocks, each count plus a half.

    The half (Krichevsky and Trofimov) gives labels not seen so far a finite cost, and the first block that of the
    uniform code.
    """
    bits = np.zeros(len(targets))
    gold = targets.gold & targets.rated
    for number in np.unique(block):
        here, earlier = block == number, block < number
        counts = gold[earlier].sum(0) + 0.5
        if code == "categorical":
            bits[here] = gold[here] @ -np.log2(counts / counts.sum())
        else:
            yes = counts / (targets.rated[earlier].sum(0) + 1)
            bits_of_label = -np.log2(np.where(gold[here], yes, 1 - yes))
            bits[here] = (bits_of_label * targets.rated[here]).sum(1)
    return bits


def probe_bits(
    logits: Float[torch.Tensor, "member target label"], targets: ProbeTargets, rows: np.ndarray, code: Code
) -> Float[np.ndarray, "member target"]:
    """What these rows of the targets cost under each probe."""
    gold, rated = (torch.from_numpy(array[rows]).to(logits.device) for array in (targets.gold, targets.rated))
    if code == "categorical":
        nats = -(logits.double().log_softmax(-1) * gold).sum(-1)
    else:
        # The logarithm of a yes is logsigmoid of the logit, that of a no of its negative.
        nats_of_label = -torch.nn.functional.logsigmoid(torch.where(gold, logits, -logits).double())
        nats = (nats_of_label * rated).sum(-1)
    return nats.cpu().numpy() / np.log(2)


def shorter_bits(
    probe: Float[np.ndarray, "*member text"], prior: Float[np.ndarray, " text"], ends: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """[*member, text] What texts cost where every block is coded by the shorter code, and where that is the probe's.

    The bit that says which is shared by the texts of a block; the first block, coded without knowledge, needs none.

    Example:
        >>> bits, by_probe = shorter_bits(np.array([4.0, 9.0, 1.0, 1.0]), np.array([4.0, 4.0, 3.0, 3.0]), [1, 2, 4])
        >>> bits.tolist(), by_probe.tolist()
        ([4.0, 5.0, 1.5, 1.5], [False, False, True, True])
    """
    bits, by_probe = probe.copy(), np.zeros(probe.shape, bool)
    for start, end in pairwise(ends):
        of_probe, of_prior = probe[..., start:end], prior[start:end]
        shorter = (of_probe.sum(-1) < of_prior.sum())[..., None]
        bits[..., start:end] = np.where(shorter, of_probe, of_prior) + 1 / (end - start)
        by_probe[..., start:end] = shorter
    return bits, by_probe


def online_code(
    task: Task,
    setup: ProbeSetup,
    states: ProbeStates,
    twin: ProbeStates | None,
    model: str,
    folder: Path,
    *,
    samples: int,
) -> list[CodeLength]:
    """Code lengths of a task's labels on every single layer, none for graded tasks.

    The code lengths so far are saved in `folder` after every block, so that a stopped run continues.
    """
    if task.graded:
        return []
    senders = _senders(task, setup, states, twin)
    learn = senders[0].learn
    # Texts in the order in which they are sent: the same for model, control and twin.
    texts = np.random.default_rng([setup.seed, 2]).permutation(np.unique(learn.text))
    ends = block_ends(len(texts))
    place = np.empty(learn.texts, np.int64)
    place[texts] = np.arange(len(texts))
    sent = OnlineCode(
        task,
        "categorical" if learn.single_label else "binary",
        ends,
        place[learn.text],
        {sender.of: np.zeros((sender.seeds, sender.states.layers, len(texts))) for sender in senders},
        {sender.of: np.ones((len(ends) - 1, sender.seeds, sender.states.layers), bool) for sender in senders},
    )
    _send_all(sent, senders, setup, folder)
    corpus = [*setup.splits.train]
    units = Units.of_texts(corpus[number] for number in texts.tolist())
    return list(_rows(sent, senders, units, model, samples, setup.seed))


@dataclass(frozen=True, eq=False)
class CodeSender:
    """Whose labels are coded on which states."""

    of: Whose
    learn: ProbeTargets
    """What is coded."""
    stop: ProbeTargets
    stop_on: ReadActivations
    """Of the texts that decide when to stop."""
    states: ProbeStates
    seeds: int


@dataclass(frozen=True, eq=False)
class OnlineCode:
    """The code of one task as far as it has come."""

    task: Task
    code: Code
    ends: list[int]
    place: Int[np.ndarray, " target"]
    """Where the text of a target comes in the order of texts."""
    bits: dict[Whose, Float[np.ndarray, "seed layer text"]]
    """By the probe; texts in the order in which they are sent."""
    converged: dict[Whose, np.ndarray]
    """[block, seed, layer] Of every block but the first."""

    @property
    def block(self) -> Int[np.ndarray, " target"]:
        """The number of each target's block."""
        return np.searchsorted(self.ends, self.place, side="right")

    def by_text(self, bits: Float[np.ndarray, " target"]) -> Float[np.ndarray, " text"]:
        """The sum of every text's own, in the order in which they are sent."""
        return np.bincount(self.place, bits, minlength=self.ends[-1])

    def arrays(self) -> dict[str, np.ndarray]:
        """What is kept, by name."""
        named = {"bits": self.bits, "converged": self.converged}
        return {f"{name}/{of}": array for name, by_sender in named.items() for of, array in by_sender.items()}

    def head(self) -> dict[str, Any]:
        """What makes it this code; a user's task may have the name of another."""
        return {
            "format": FORMAT,
            "task": json.loads(json.dumps(self.task.describe())),
            "code": self.code,
            "ends": self.ends,
        }


def _senders(task: Task, setup: ProbeSetup, states: ProbeStates, twin: ProbeStates | None) -> list[CodeSender]:
    learned = setup.learned
    labels = label_set(task, learned)
    control = control_task(task, learned, setup.seed)

    def sender(of: Whose, sent_task: Task, states: ProbeStates, seeds: int) -> CodeSender:
        train = find_targets(sent_task, setup.splits.train, states.train.tokenized(), labels)
        learn = train.among(setup.division.learn)
        if not setup.does("stop"):
            return CodeSender(of, learn, train.among(setup.division.stop), states.train, states, seeds)
        stop = find_targets(sent_task, setup.splits.scored, states.scored.tokenized(), labels)
        return CodeSender(of, learn, stop, states.scored, states, seeds)

    senders = [sender("model", task, states, setup.seeds), sender("control", control, states, setup.beside_seeds)]
    return senders if twin is None else [*senders, sender("random", task, twin, setup.beside_seeds)]


def _send_all(sent: OnlineCode, senders: list[CodeSender], setup: ProbeSetup, folder: Path) -> None:
    """Code every block that has not been coded by a run before."""
    path = folder / f"{sent.task.name}.bits.safetensors"
    done = _restore(sent, path)
    if not done:
        # What training left of another code must not be taken for this one's.
        for left in folder.glob(f"{glob.escape(sent.task.name)}.bits-*.partial"):
            left.unlink()
        for sender in senders:
            blind = sent.by_text(uniform_bits(sender.learn, sent.code))
            sent.bits[sender.of][..., : sent.ends[0]] = blind[: sent.ends[0]]
        done = 1
        _save(sent, path, done)
    for number in range(done, len(sent.ends)):
        partial = folder / f"{sent.task.name}.bits-{number}.partial"
        _send(sent, senders, setup, number, BankCheckpoint(partial))
        _save(sent, path, number + 1)
        partial.unlink(missing_ok=True)


def _save(sent: OnlineCode, path: Path, done: int) -> None:
    tensors = {name: torch.from_numpy(array) for name, array in sent.arrays().items()}
    save_tensors(path, tensors, sent.head() | {"done": done})


def _restore(sent: OnlineCode, path: Path) -> int:
    """Fill in what was kept of this code; returns the number of blocks, 0 if there is nothing that can be used."""
    try:
        tensors, head = load_tensors(path)
    except FileNotFoundError:
        return 0
    except (OSError, DamagedError) as error:
        say(f"{error}; the labels of {sent.task.name} are coded again")
        return 0
    arrays = sent.arrays()
    same = {name: tuple(array.shape) for name, array in tensors.items()} == {
        n: array.shape for n, array in arrays.items()
    }
    if not same or {name: value for name, value in head.items() if name != "done"} != sent.head():
        return 0
    for name, array in arrays.items():
        array[...] = tensors[name].numpy()
    return int(head["done"])


class CodeStreams(NamedTuple):
    """The streams of one encoder for one block."""

    learn: Stream
    stop: Stream
    block: Stream


def _send(
    sent: OnlineCode, senders: list[CodeSender], setup: ProbeSetup, number: int, checkpoint: BankCheckpoint
) -> None:
    """Train on all blocks before this one, and add what this one costs."""
    before, here = sent.block < number, np.flatnonzero(sent.block == number)
    # Model and control read the same states.
    readers = {sender.states.encoder: sender for sender in senders}
    channels = {encoder: _channel(sender, setup, before, here) for encoder, sender in readers.items()}
    known = senders[0].learn.chosen(before)
    schedule = setup.schedule(known)
    groups: list[tuple[CodeSender, ProbeGroup]] = []
    for sender in senders:
        channel = channels[sender.states.encoder]
        cuts = [LayerCut("layer", layer) for layer in range(sender.states.layers)]
        shape = {"layers": sender.states.layers, "width": sender.states.width, "labels": len(known.labels)}
        for seeds in programs(sender.seeds, setup.device):
            probes = EdgeProbes(cuts, **shape, arity=known.arity, seed=seeds, hidden=schedule.hidden)
            streams = (channel.learn, channel.stop)
            groups.append((sender, ProbeGroup(probes, sender.learn.chosen(before), sender.stop, streams, sent.code)))
    what = f"{sent.task.name}: code after {len(known):,} targets"
    records = train_probes(
        [group for _, group in groups], schedule, order_seed=setup.seed, what=what, checkpoint=checkpoint
    )
    start, end = sent.ends[number - 1 : number + 1]
    for (sender, group), learned in zip(groups, records, strict=True):
        seeds = list(group.probes.seeds)
        shape = (len(seeds), sender.states.layers)
        sent.converged[sender.of][number - 1, seeds] = learned.converged.reshape(shape)
        cost = code_length(group.probes, channels[sender.states.encoder].block, sender.learn, here, sent.code)
        by_text = np.stack([np.bincount(sent.place[here] - start, bits, minlength=end - start) for bits in cost])
        sent.bits[sender.of][seeds, :, start:end] = by_text.reshape(*shape, -1)


def _channel(sender: CodeSender, setup: ProbeSetup, before: np.ndarray, here: np.ndarray) -> CodeStreams:
    """Layers are standardised by what has been learned from: what is still to be coded is not known yet."""
    known, stored = sender.learn.chosen(before), sender.states.train
    standard: Standard | None = None
    if not setup.does("raw"):
        standard = Stream(stored, known, device=setup.device).look().standard
    settings = {"device": setup.device, "standard": standard}
    return CodeStreams(
        Stream(stored, known, batch_texts=setup.schedule(known).texts_of(known), **settings),
        Stream(sender.stop_on, sender.stop, batch_texts=_APPLIED, **settings),
        Stream(stored, sender.learn.chosen(here), batch_texts=_APPLIED, **settings),
    )


_APPLIED = 64
"""Texts at a time where probes are applied, not trained."""


def code_length(
    probes: EdgeProbes, block: Stream, learn: ProbeTargets, here: np.ndarray, code: Code
) -> Float[np.ndarray, "member target"]:
    """What the targets of a block cost under each probe."""
    bits = np.empty((len(probes.cuts), len(here)))
    with torch.no_grad():
        for batch in block.in_order():
            bits[:, batch.rows] = probe_bits(probes(batch), learn, here[batch.rows], code)
    return bits


def _rows(
    sent: OnlineCode, senders: list[CodeSender], units: Units, model: str, samples: int, seed: int
) -> Iterator[CodeLength]:
    for sender in senders:
        targets = sent.by_text(np.ones(len(sender.learn)))
        resampled = ResampledLengths(units, targets, samples=samples, seed=seed)
        of_prior = sent.by_text(prior_bits(sender.learn, sent.code, sent.block))
        prior = CodeBaseline.of(of_prior, resampled)
        uniform = CodeBaseline.of(sent.by_text(uniform_bits(sender.learn, sent.code)), resampled)
        bits, by_probe = shorter_bits(sent.bits[sender.of], of_prior, sent.ends)
        settled = sent.converged[sender.of]
        # [seed, layer] each.
        measures = CodeMeasures(
            bits.sum(-1),
            by_probe @ targets / targets.sum(),
            sent.bits[sender.of].sum(-1),
            settled.mean(0) if len(settled) else np.full(settled.shape[1:], np.nan),
        )
        # Seeds of the same number start from the same weights: model, twin and control draw the same ones.
        shares = seed_shares(sender.seeds, samples, np.random.default_rng([seed, 3]))
        sums = resampled.lengths(bits)
        pooled = sums.mean(1) + shares @ (measures.length - measures.length.mean(0))
        seeds = [
            (str(number), CodeMeasures(*(part[number] for part in measures)), sums[:, number])
            for number in range(sender.seeds)
        ]
        for name, seed_measures, draws in (*seeds, ("all", CodeMeasures(*(part.mean(0) for part in measures)), pooled)):
            # Draws are spread for few documents already.
            shortest = best_set(seed_measures.length, draws, len(units), higher=False, widen=False)
            for layer, some in enumerate(draws.T):
                length, by_probe_share, probe_only, converged = (float(part[layer]) for part in seed_measures)
                about = (model, sent.task.name, sender.of, layer, name, len(sender.learn), sent.code)
                ratios = (*uniform.over(length, some), *prior.over(length, some))
                bits_of = (length, *interval(some), uniform.bits, prior.bits)
                rest = (by_probe_share, probe_only, converged)
                best = (float(shortest.p[layer]), bool(shortest.among[layer]))
                yield CodeLength(*about, *bits_of, *ratios, *rest, *best)


class CodeMeasures(NamedTuple):
    """The measures of every probe, as in `CodeLength`."""

    length: np.ndarray
    by_probe: np.ndarray
    probe_only: np.ndarray
    converged: np.ndarray


class ResampledLengths:
    """Code lengths of as many targets in resampled documents.

    All documents are resampled together: the first blocks are too small to resample within them. A draw with more
    targets has more bits, so bits are taken per target. Draws are spread as `widening` says.
    """

    def __init__(self, units: Units, targets: Float[np.ndarray, " text"], *, samples: int, seed: int) -> None:
        """`targets` are how many each text has; units have texts in the same order."""
        self._units = units
        self._weights = units.weights(samples=samples, seed=seed).astype(float)
        drawn = self._weights @ units.sums(targets)
        self._scale = np.divide(targets.sum(), drawn, out=np.full(len(drawn), np.nan), where=drawn > 0)

    def lengths(self, bits: Float[np.ndarray, " *kinds text"]) -> Float[np.ndarray, " sample *kinds"]:
        """Of every draw."""
        by_unit = self._units.sums(np.moveaxis(bits, -1, 0))
        drawn = np.tensordot(self._weights, by_unit, 1) * self._scale.reshape(-1, *[1] * (bits.ndim - 1))
        whole = bits.sum(-1)
        return whole + (drawn - whole) * widening(len(self._units))


class CodeBaseline(NamedTuple):
    """What a code is compared with."""

    bits: float
    draws: Float[np.ndarray, " sample"]

    @classmethod
    def of(cls, by_text: Float[np.ndarray, " text"], resampled: ResampledLengths) -> CodeBaseline:
        return cls(float(by_text.sum()), resampled.lengths(by_text))

    def over(self, length: float, draws: Float[np.ndarray, " sample"]) -> tuple[float, float, float]:
        """The compression of a code, and its interval: both are of the same documents in every draw."""
        return (self.bits / length, *interval(self.draws / draws))

"""What a probe reads from perturbed texts: trained on texts as they are, asked about the same words elsewhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from lamina.activations import Runtime
from lamina.analyses.behaviour.perturb_items import PerturbedItems
from lamina.analyses.behaviour.perturb_targets import PerturbationPlan, in_words
from lamina.analyses.behaviour.perturbations import PerturbableText
from lamina.analyses.probing.planning import Amounts, Plan, plan_run
from lamina.analyses.probing.running import Setup, loss_of
from lamina.analyses.probing.suites import Source
from lamina.corpora.learning import Splits
from lamina.encoders import Activations, Encoder
from lamina.encoders.positions import with_positions_shifted
from lamina.errors import ModelError, TaskError
from lamina.probes.bank import Group, train
from lamina.probes.edge import EdgeProbes
from lamina.probes.streams import Standard, Stream
from lamina.probes.targets import find_targets
from lamina.progress import progress
from lamina.stats.units import unit_of
from lamina.tasks import Task, label_set
from lamina.types import Edge, Span, Text

PROBE = "probe:"
"""Before the name of a task, a target."""
CONSTANT, BY_WORD = "most frequent label", "most frequent label of the word"
"""Baselines: what training says of nothing, and of the word alone."""
_TARGETS = "asked"
"""The annotation that holds the targets, wherever their words are."""
_AT_ONCE = 64
"""Texts whose states are held at a time."""


class ProbedTask(NamedTuple):
    """A task, the texts it is learned from, and the words it is asked about."""

    task: Task
    setup: Setup
    labels: tuple[str, ...]
    texts: tuple[Text, ...]
    """Those that have targets."""
    targets: tuple[tuple[Edge, ...], ...]
    """Of each text: those whose spans are single words, which stay whole wherever they go."""
    longer: int
    """Targets left out because they are of several words."""

    @property
    def name(self) -> str:
        """In tables."""
        return f"{PROBE}{self.task.name}"


def plan_task(name: str, splits: Splits, *, layers: int, steps: int | None, seed: int, device: str) -> Plan:
    """How a probe of a mix of all layers learns a task: with the quick preset of `lamina probe`, one seed."""
    amounts = Amounts(seeds=1, steps=steps)
    return plan_run(
        layers, Source(splits, (name,)), probes=["mix"], preset="quick", amounts=amounts, faithful=False, metric=None,
        seed=seed, device=device,
    )  # fmt: skip


def ask_task(plan: Plan, texts: Sequence[Text]) -> ProbedTask:
    """What is learned and asked; a TaskError where the texts have no target of single words with one label."""
    (task,) = plan.tasks
    found = [task.targets(text) for text in texts]
    single = [tuple(edge for edge in edges if len(edge.span) == len(edge.other or edge.span) == 1) for edges in found]
    own = [(text, edges) for text, edges in zip(texts, single, strict=True) if edges]
    if task.graded or not own or any(len(edge.labels) != 1 for _, edges in own for edge in edges):
        raise TaskError(
            f"{PROBE}{task.name}: the texts of {plan.setup.splits.name} have no targets of single words with one label "
            "each"
        )
    longer = sum(map(len, found)) - sum(map(len, single))
    labels = label_set(task, plan.setup.learned)
    return ProbedTask(task, plan.setup, labels, tuple(t for t, _ in own), tuple(e for _, e in own), longer)


class PerturbProbe(NamedTuple):
    """A trained probe of an encoder."""

    encoder: Encoder
    probes: EdgeProbes
    standard: Standard
    asked: ProbedTask
    converged: bool
    """Whether training ended because the loss fell no more."""

    def right(self, texts: Sequence[Text]) -> list[np.ndarray]:
        """[text][target] Whether the highest answer is right; targets are in the annotation `asked`."""
        task, labels = self.asked.task, self.asked.labels
        bare = Task(task.name, task.title, _TARGETS, task.arity)
        device = self.asked.setup.device
        found: list[np.ndarray] = []
        waiting = iter(texts)
        while some := list(islice(waiting, _AT_ONCE)):
            made = list(self.encoder.encode(some))
            targets = find_targets(bare, some, [each.tokens for each in made], labels)
            right = np.zeros(len(targets), bool)
            with torch.no_grad():
                for batch in Stream(_EncodedTexts(made), targets, device=device, standard=self.standard).in_order():
                    said = self.probes(batch)[0].argmax(-1).cpu().numpy()
                    right[batch.rows] = targets.gold[batch.rows, said]
            found += [right[targets.text == number] for number in range(len(some))]
        return found


def train_reader(encoder: Encoder, asked: ProbedTask, runtime: Runtime) -> PerturbProbe:
    """A probe over a mix of all layers, trained on texts as they are with the quick schedule of `lamina probe`."""
    task, setup = asked.task, asked.setup
    stored = runtime.extract(encoder, setup.splits.train)
    found = find_targets(task, setup.splits.train, stored.tokenized(), asked.labels)
    learn, stop = found.among(setup.division.learn), found.among(setup.division.stop)
    schedule = setup.schedule(learn)
    stream = Stream(stored, learn, device=setup.device, batch_texts=schedule.texts_of(learn))
    standard = stream.look().standard
    streams = (
        stream.standardised(standard),
        Stream(stored, stop, device=setup.device, batch_texts=_AT_ONCE, standard=standard),
    )
    shape = {"layers": encoder.layers, "width": encoder.width, "labels": len(asked.labels), "arity": task.arity}
    probes = EdgeProbes(setup.cuts, **shape, seed=setup.seed, hidden=schedule.hidden)
    group = Group(probes, learn, stop, streams, loss_of(task))
    (learned,) = train([group], schedule, order_seed=setup.seed, what=f"{task.name}: a probe of {encoder.name}")
    return PerturbProbe(encoder, probes.requires_grad_(False), standard, asked, bool(learned.converged.all()))


def probe_items(reader: PerturbProbe, drawing: PerturbationPlan) -> Iterator[PerturbedItems]:
    """The share of words the probe is right about, in the perturbed texts and in the texts as they are."""
    asked = reader.asked
    if not reader.converged:
        drawing.note({f"{asked.name}: probes that had not converged, whose scores would mean nothing (--steps)": 1})
        return
    written = [PerturbableText.of(text) for text in asked.texts]
    unit = unit_of(asked.texts)
    as_it_is = [list(range(len(each.words))) for each in written]
    clean = reader.right([_moved(*each) for each in zip(asked.texts, asked.targets, as_it_is, strict=True)])
    constant = guesses(asked)[CONSTANT]
    for each in drawing.plan:
        perturbation, orders = drawing.orders(each, written, "texts")
        encoder = drawing.shifted(perturbation, lambda by: with_positions_shifted(reader.encoder, by), reader.encoder)
        if encoder is None or not orders:
            continue
        sums = np.zeros((5, len(written)))
        moved = [_moved(asked.texts[at], asked.targets[at], order) for at, own in orders.items() for order in own]
        with progress(f"{asked.name} of {encoder.name}, {in_words(perturbation)}"):
            right = iter(reader._replace(encoder=encoder).right(moved))
        for at, own in orders.items():
            for order in own:
                stay = np.array([_stays(edge, set(order)) for edge in asked.targets[at]], bool)
                sums[:, at] += (
                    next(right).sum(),
                    stay.sum(),
                    clean[at][stay].sum(),
                    stay.sum(),
                    constant[at][stay].sum(),
                )
            sums[:, at] /= len(own)
        kept = [at for at in orders if sums[1, at]]
        if kept:
            names, units = tuple(asked.texts[at].id for at in kept), tuple(unit.of(asked.texts[at]) for at in kept)
            chance = float(sums[4, kept].sum() / sums[3, kept].sum())
            yield PerturbedItems(asked.name, perturbation, names, units, *sums[:4, kept], chance=chance, kind=unit.by)


def guesses(asked: ProbedTask) -> dict[str, list[np.ndarray]]:
    """Answers that need no model -> [text][target] whether they are right: the most frequent label, and the word's own.

    A pair of words is looked up as a pair.
    """
    counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for text in asked.setup.learned:
        for edge in asked.task.targets(text):
            counts[_words(text, edge)][edge.labels[0]] += 1
    most = sum(counts.values(), Counter()).most_common(1)[0][0]
    by_word = {words: labels.most_common(1)[0][0] for words, labels in counts.items()}
    each = list(zip(asked.texts, asked.targets, strict=True))
    return {
        CONSTANT: [np.array([most == edge.labels[0] for edge in edges]) for _, edges in each],
        BY_WORD: [
            np.array([by_word.get(_words(text, edge), most) == edge.labels[0] for edge in edges])
            for text, edges in each
        ],
    }


def _words(text: Text, edge: Edge) -> tuple[str, ...]:
    spans = (edge.span,) if edge.other is None else (edge.span, edge.other)
    return tuple(" ".join(text.words[span.start : span.end]).lower() for span in spans)


def _stays(edge: Edge, kept: set[int]) -> bool:
    return edge.span.start in kept and (edge.other is None or edge.other.start in kept)


def _moved(text: Text, targets: Sequence[Edge], order: Sequence[int]) -> Text:
    """The words in their new order, and the targets whose words stay, where these are now."""
    place = {word: at for at, word in enumerate(order)}

    def span(old: Span) -> Span:
        return Span(place[old.start], place[old.start] + 1)

    edges = tuple(
        Edge(edge.labels, span(edge.span), None if edge.other is None else span(edge.other))
        for edge in targets
        if _stays(edge, set(order))
    )
    return Text(text.id, tuple(text.words[word] for word in order), edges={_TARGETS: edges})


class _EncodedTexts:
    """The states of a few texts, as a stream of targets asks for them."""

    held = None

    def __init__(self, made: Sequence[Activations]) -> None:
        states = [each.states for each in made if each.states is not None]
        if len(states) < len(made):
            raise ModelError("some texts were encoded without their states")
        self._states = states
        self.token_bytes = states[0][0].nbytes

    def start(self, index: int) -> int:
        return 0

    def size(self, index: int) -> int:
        return len(self._states[index])

    def load(self, index: int) -> torch.Tensor:
        return self._states[index]

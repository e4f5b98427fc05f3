"""What a linear probe reads at a layer is erased there: does anything above change?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd

from lamina.analyses.cause.asking import TargetData, chosen_targets, targets_of
from lamina.analyses.cause.erase_concepts import WHATS, Concept, LayerErasers, fitted_erasers, plan_concepts
from lamina.analyses.cause.erase_effects import (
    DIFFERENCES,
    ERASE,
    Tokens,
    compare_layers,
    difference_rows,
    effect_rows,
    measure_target,
)
from lamina.analyses.cause.erase_findings import describe, tell_findings
from lamina.analyses.cause.erase_readable import READABLE, ReadableLayer, probe_layer, readable_layers
from lamina.analyses.cause.inputs import AskedQuestions, CauseInputs, Items, Probes, Suite
from lamina.analyses.cause.probed import probe_name
from lamina.analyses.cause.targets import Target
from lamina.corpora.learning import Splits
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.interventions import Interventions
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now, time_call
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.results.finding import Finding
from lamina.results.result import Result
from lamina.stats.seeds import ENOUGH_SEEDS

_SUBSPACES = ("task", "layer", "what", "draw", "rank", "variance")
_TRIED = 16
"""Items that are tried to tell how long all of them take."""


@analysis(
    title="Readable or used",
    question="Does a model use what a linear probe can read from its layers?",
    method=(
        "What tells the classes of a task apart at a layer is erased from the states of all words in closed form "
        "(LEACE), so that no linear probe reads it there any more, and everything above is measured: loss, minimal "
        "pairs, answers, what probes read. Beside it are random subspaces of the same rank that take as much of the "
        "variance, uncorrelated with the concept, and the subspace of a control task, in which each word has a random "
        "class. Effects are paired by document (minimal pairs: by pair); all layers of a task are tested together "
        "(max-T), with simultaneous 95 % intervals."
    ),
    cites=("Belrose et al. 2023", "Elazar et al. 2021", "Hewitt and Liang 2019"),
    reads=CauseInputs(),
    version=2,
    tables={
        "erase": Table(
            "One row per task, layer, target and what is erased (random_subspace: mean of several draws); effect: "
            "value minus baseline, two-sided; one family: the layers of a task, target and kind. The verdict is in "
            "the row of the concept.",
            ERASE,
        ),
        "differences": Table(
            "One row per task, layer, target and what the concept is compared with; difference: value (without the "
            "concept) minus other; variance, other_variance: what both take of it. p: one-sided, that the concept does "
            "more harm; the interval is two-sided; one family: the layers of a task, target and kind. Against random "
            "subspaces, documents and draws vary.",
            DIFFERENCES,
        ),
        "readable": Table(
            "One row per task and layer: accuracy of a linear probe on held-out documents, before and after erasing; "
            "elsewhere: learned from documents that the eraser was not fitted on. ahead: before minus the constant "
            "answer, p one-sided; left: after minus the constant answer, two-sided; one family each: the layers of a "
            "task. known: p below .05; gone: left_high below .05.",
            READABLE,
        ),
        "subspaces": Table("One row per task, layer and subspace: share of the variance it takes away.", _SUBSPACES),
        "twin": Table("Effects in the twin with random weights.", ERASE, optional=True),
    },
    chapter="abilities",
    needs=("states", "ablation"),
    example="lamina erase minilm --corpus ewt --task pos --items 200 --out results/erase",
)
def erase(
    encoder: HuggingFaceEncoder,
    material: TargetData,
    *,
    tasks: Annotated[
        Sequence[str], Setting("Tasks of single spans, or annotations of the corpus, to erase.", option="--task")
    ] = ("pos",),
    layers: Annotated[
        Sequence[int] | None,
        Setting("Layers to erase at (0: embeddings); all between the first and the last by default.", option="--layer"),
    ] = None,
    targets: Annotated[
        Sequence[str] | None,
        Setting(
            "What is measured: loss, pairs, qa, qa_em, tags, classes or probe:TASK@LAYER; by default what the model "
            "and the data can give, and what a probe reads of each task at the last layer.",
            option="--target",
        ),
    ] = None,
    # Which pairs, questions and probes that means is found when inputs are loaded.
    suite: Suite = None,  # noqa: ARG001
    questions: AskedQuestions = None,  # noqa: ARG001
    probes: Probes = None,  # noqa: ARG001
    items: Items = 300,
    learn: Annotated[int, Setting("Words (or spans) that erasers are fitted on, about.", min=20)] = 20_000,
    words: Annotated[int, Setting("Words (or spans) that probes are scored on, about.", min=20)] = 4000,
    tokens: Annotated[
        Tokens, Setting("Whose states are erased: words that the model sees, or all tokens (special ones, masks).")
    ] = "words",
    random: Annotated[
        Literal["rank", "variance"],
        Setting(
            "What random subspaces have in common with the concept's: the rank, or also the variance they take. With "
            "the rank alone there is no verdict where they take another share of the variance."
        ),
    ] = "variance",
    draws: Annotated[int, Setting("Random subspaces of each layer.", min=ENOUGH_SEEDS)] = ENOUGH_SEEDS,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """What is readable at a layer is erased there, and everything above is measured.

    - `known and used`: readable, and erasing it harms, more than random subspaces of equal variance do and more than
      the control task does.
    - `known and not used`: readable, and erasing it changes less than .02 (loss: .05 nats per piece), or as much as
      random subspaces or the control do within that margin.
    - `cannot be told`: neither; or a probe still reads it afterwards, or random subspaces took another share of the
      variance. `not known`: no probe was shown to read it in the first place.

    Example:
        >>> result = lamina.erase("smollm2", "ewt", layers=[15], targets=["loss"], items=50)  # doctest: +SKIP
        >>> result.tables["erase"].columns.tolist()[:4]  # doctest: +SKIP
        ['task', 'layer', 'what', 'rank']
    """
    how = _ErasureSettings(learn, words, tokens, random == "variance", draws, samples, seed)
    asked = _ErasureRequest(_splits(material), tuple(dict.fromkeys(tasks)), layers, how)
    names = _targets(encoder, targets, asked.tasks, material)
    concepts = asked.concepts(encoder)
    chosen = targets_of(encoder, names, material, items=items, seed=seed)
    own = asked.erase(encoder, concepts, chosen)
    tables = {
        "erase": pd.DataFrame(own.rows, columns=list(ERASE)),
        "differences": pd.DataFrame(own.differences, columns=list(DIFFERENCES)),
        "readable": pd.DataFrame(own.readable, columns=list(READABLE)),
        "subspaces": pd.DataFrame(own.subspaces, columns=list(_SUBSPACES)),
    }
    if twin:
        other = encoder.random_twin(seed)
        beside = asked.erase(other, concepts, [target.of(other) for target in chosen])
        tables["twin"] = pd.DataFrame(beside.rows, columns=list(ERASE))
    skipped = Counter({f"{target.name}: {why}": many for target in chosen for why, many in target.skipped.items()})
    for concept in concepts:
        skipped.update({f"{concept.task.name}: {why}": many for why, many in concept.skipped.items()})
    skipped["probes that did not converge"] = sum(own.unconverged)
    return Tables(
        tables,
        dict(+skipped),
        scored={concept.task.name: len(concept.scored) for concept in concepts} | own.scored,
    )


@erase.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Task by task and target by target: where what is readable is used."""
    return tell_findings(result)


@erase.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One table per task and target, one row per layer."""
    return describe(result)


@erase.costs
def _cost(
    _: Estimator, encoder: HuggingFaceEncoder, material: TargetData, *, tasks: Sequence[str],
    layers: Sequence[int] | None, targets: Sequence[str] | None, items: int, learn: int, words: int, draws: int,
    twin: bool, seed: int, **__: Any,
) -> Cost:  # fmt: skip
    """Fitting and probes are tried at one layer with few words, effects with few items in the middle of the model."""
    how = _ErasureSettings(min(learn, 4 * encoder.width), min(words, 4 * encoder.width), "words", False, 2, 20, seed)
    every = _ErasureRequest(_splits(material), tuple(dict.fromkeys(tasks)), layers, how)
    tried = replace(every, tasks=every.tasks[:1], layers=[encoder.blocks // 2])
    chosen: list[Target] = []
    names = _targets(encoder, targets, every.tasks, material)
    few = min(items, _TRIED)
    asking = time_call(lambda: chosen.extend(targets_of(encoder, names, material, items=few, seed=seed)))
    concepts = tried.concepts(encoder)
    fitting = time_call(lambda: tried.erase(encoder, concepts, []))
    effects = time_call(lambda: tried.erase(encoder, concepts, chosen)) - fitting
    many = len(every.layers_of(encoder)) * len(every.tasks) * (1 + twin)
    texts = min(items, len(material.scored))
    grown = (learn + words) / (how.learn + how.words)
    edits = (len(WHATS) - 1 + draws) / (len(WHATS) - 1 + how.draws)
    return Cost(
        passes=many * (len(WHATS) - 1 + draws),
        texts=texts,
        seconds=asking * (1 + twin) + many * (fitting * grown + max(0.0, effects) * edits * texts / few),
        memory=memory_now() + 4 * encoder.width * (2 * learn + words),
    )


class _ErasureRows(NamedTuple):
    """Rows of tables."""

    rows: list[tuple[Any, ...]]
    differences: list[tuple[Any, ...]]
    readable: list[tuple[Any, ...]]
    subspaces: list[tuple[Any, ...]]
    unconverged: list[int]
    scored: dict[str, int]


class _ErasureSettings(NamedTuple):
    """Settings that are the same for all tasks and layers."""

    learn: int
    words: int
    tokens: Tokens
    variance: bool
    draws: int
    samples: int
    seed: int


@dataclass(frozen=True)
class _ErasureRequest:
    """What is to be erased from a model, and from its twin alike."""

    splits: Splits
    tasks: tuple[str, ...]
    layers: Sequence[int] | None
    how: _ErasureSettings

    def concepts(self, encoder: HuggingFaceEncoder) -> list[Concept]:
        """The targets of each task."""
        if not self.tasks:
            raise InputError("nothing is to be erased: name a task with --task, such as pos")
        # A layer that does not exist is told before anything is read.
        self.layers_of(encoder)
        how = self.how
        return plan_concepts(self.tasks, encoder, self.splits, learn=how.learn, words=how.words, seed=how.seed)

    def layers_of(self, encoder: HuggingFaceEncoder) -> list[int]:
        """The layers asked for; by default those between the embeddings and the last, or all where there are none."""
        if self.layers is None:
            return list(range(1, encoder.blocks)) or list(range(encoder.layers))
        for layer in self.layers:
            if not 0 <= layer <= encoder.blocks:
                raise InputError(
                    f"--layer {layer}: {encoder.name} has layers 0 (embeddings) to {encoder.blocks}, no other"
                )
        return sorted(set(self.layers))

    def erase(
        self, encoder: HuggingFaceEncoder, concepts: Sequence[Concept], targets: Sequence[Target]
    ) -> _ErasureRows:
        """Fit, check and measure, task by task."""
        parts = Interventions(encoder, heads=False)
        found = _ErasureRows([], [], [], [], [], {})
        for concept in concepts:
            name = concept.task.name
            erasers, readable = self._fitted(encoder, concept)
            found.readable.extend(each.row(name, layer) for layer, each in readable.items())
            found.subspaces.extend(_subspace_rows(name, erasers))
            found.unconverged.extend(each.unconverged for each in readable.values())
            for target in targets:
                what = f"{target.name} of {encoder.name} without {name}"
                scores = measure_target(parts, target, erasers, tokens=self.how.tokens, what=what)
                measured = compare_layers(scores, samples=self.how.samples, seed=self.how.seed)
                harm = 1 if target.lower_is_better else -1
                found.rows.extend(effect_rows(name, target.name, measured, readable, harm))
                found.differences.extend(difference_rows(name, target.name, measured))
                if measured:
                    found.scored[target.name] = measured[0].scored
        return found

    def _fitted(
        self, encoder: HuggingFaceEncoder, concept: Concept
    ) -> tuple[list[LayerErasers], dict[int, ReadableLayer]]:
        how = self.how
        erasers: list[LayerErasers] = []
        probed = {}
        made = fitted_erasers(
            encoder, concept, self.layers_of(encoder), draws=how.draws, variance=how.variance, seed=how.seed
        )
        for each, states in made:
            erasers.append(each)
            probed[each.layer] = probe_layer(concept, states, each.concept, encoder.device)
        constant = (concept.scored.gold == concept.constant).astype(float)
        readable = readable_layers(probed, constant, concept.scored.units, samples=how.samples, seed=how.seed)
        return erasers, readable


def _splits(material: TargetData) -> Splits:
    if material.splits is None:
        raise CorpusError(
            f"{material.texts.name} has no training texts to fit erasers on; name a corpus that has some, such as ewt"
        )
    return material.splits


def _targets(
    encoder: HuggingFaceEncoder, asked: Sequence[str] | None, tasks: Sequence[str], material: TargetData
) -> tuple[str, ...]:
    """The targets asked for; by default also what a probe reads of each erased task at the last layer."""
    names = chosen_targets(encoder, asked, material)
    if asked is not None or material.probes is not None:
        return names
    return tuple(dict.fromkeys([*names, *(probe_name(task, encoder.blocks) for task in tasks)]))


def _subspace_rows(task: str, erasers: Iterable[LayerErasers]) -> Iterator[tuple[Any, ...]]:
    for each in erasers:
        for what in WHATS:
            for draw, eraser in enumerate(each.of(what)):
                yield task, each.layer, what, draw, eraser.rank, eraser.variance

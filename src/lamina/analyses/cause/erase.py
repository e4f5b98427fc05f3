"""What a linear probe reads at a layer is erased there: does anything above change?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd

from lamina.analyses.cause.effects import AskedQuestions, CauseInputs, Items, Probes, Suite, margin_of, unit_of_target
from lamina.analyses.cause.erasure import (
    CONCEPT,
    CONTROL,
    DIFFERENCES,
    ERASE,
    OPEN,
    RANDOM,
    READABLE,
    UNKNOWN,
    UNUSED,
    USED,
    WHATS,
    Concept,
    LayerErasers,
    ReadableLayer,
    Tokens,
    compare_layers,
    difference_rows,
    effect_rows,
    fitted_erasers,
    measure_target,
    plan_concepts,
    probe_layer,
    readable_layers,
    variances_alike,
)
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models.interventions.interventions import Interventions
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, layers_in_words, not_tested, number, percent, rows_of
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import Contrast, status_of
from lamina.targets.choice import TargetData, chosen_targets, targets_of
from lamina.targets.target import LOSS, Target, phrase_at_start, phrase_of, probe_name
from lamina.tasks import TASKS

_TITLES = {task.name: task.title for task in TASKS}
_OTHERS = {
    RANDOM: "random subspaces of equal variance",
    CONTROL: "the subspace of a control task",
    CONCEPT: "nothing",
}
_SUBSPACES = ("task", "layer", "what", "draw", "rank", "variance")
_TRIED = 16
"""Items that are timed to estimate the time of all."""


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
    cites=("Belrose et al. 2023b", "Elazar et al. 2021a", "Hewitt and Liang 2019"),
    reads=CauseInputs(),
    # 3: open effects have the verdict "open".
    version=3,
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
    learn: Annotated[
        int, Setting("Approximate number of words (or spans) that erasers are fitted on.", min=20)
    ] = 20_000,
    words: Annotated[int, Setting("Approximate number of words (or spans) that probes are scored on.", min=20)] = 4000,
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
    - `known and not used`: readable, and erasing it changes less than .02 (loss: .05 nats per token), or as much as
      random subspaces or the control do within that margin.
    - `open`: neither; or a probe still reads it afterwards, or random subspaces took another share of the
      variance. `not known`: no probe was shown to read it in the first place.

    Example:
        >>> result = lamina.erase("smollm2", "ewt", layers=[15], targets=["loss"], items=50)  # doctest: +SKIP
        >>> result.tables["erase"].columns.tolist()[:4]  # doctest: +SKIP
        ['task', 'layer', 'what', 'rank']
    """
    how = _ErasureSettings(learn, words, tokens, random == "variance", draws, samples, seed)
    request = _ErasureRequest(_splits(material), tuple(dict.fromkeys(tasks)), layers, how)
    names = _targets(encoder, targets, request.tasks, material)
    concepts = request.concepts(encoder)
    chosen = targets_of(encoder, names, material, items=items, seed=seed)
    measured = request.erase(encoder, concepts, chosen)
    tables = {
        "erase": pd.DataFrame(measured.rows, columns=list(ERASE)),
        "differences": pd.DataFrame(measured.differences, columns=list(DIFFERENCES)),
        "readable": pd.DataFrame(measured.readable, columns=list(READABLE)),
        "subspaces": pd.DataFrame(measured.subspaces, columns=list(_SUBSPACES)),
    }
    if twin:
        other = encoder.random_twin(seed)
        beside = request.erase(other, concepts, [target.of(other) for target in chosen])
        tables["twin"] = pd.DataFrame(beside.rows, columns=list(ERASE))
    skipped = Counter({f"{target.name}: {why}": many for target in chosen for why, many in target.skipped.items()})
    for concept in concepts:
        skipped.update({f"{concept.task.name}: {why}": many for why, many in concept.skipped.items()})
    skipped["probes that did not converge"] = sum(measured.unconverged)
    return Tables(
        tables,
        dict(+skipped),
        scored={concept.task.name: len(concept.scored) for concept in concepts} | measured.scored,
    )


@erase.finds
def findings_of(result: Result) -> Iterator[Finding]:
    """One sentence per task and target."""
    table = result.tables["erase"]
    for (task, target), rows in table.groupby(["task", "target"], sort=False):
        yield _finding(result, str(task), str(target), rows[rows["what"] == CONCEPT])


@erase.shows
def overview_of(result: Result) -> Iterator[Overview]:
    """One table per task and target: what is readable, and what erasing it does."""
    table = result.tables["erase"]
    readable = {(row.task, row.layer): row for row in rows_of(result.tables["readable"])}
    for (task, target), of_target in table.groupby(["task", "target"], sort=False):
        rows: list[tuple[str | int, ...]] = []
        for layer in map(int, dict.fromkeys(of_target["layer"])):
            by_what = {row.what: row for row in rows_of(of_target[of_target["layer"] == layer])}
            read = readable[task, layer]
            probe = f"{cell(read.before)} -> {cell(read.after)}"
            effects = [
                cell(effect.effect, effect.low, effect.high)
                for effect in (by_what[kind] for kind in (CONCEPT, RANDOM, CONTROL))
            ]
            rows.append((layer, probe, *effects, by_what[CONCEPT].verdict))
        constant = cell(readable[task, int(of_target["layer"].iloc[0])].constant)
        baseline = cell(float(of_target["baseline"].iloc[0]))
        yield Overview(
            f"{result.provenance.model['name']}: {task} erased, {target} ({baseline} as it is)",
            ("layer", f"probe (constant {constant})", "concept", "random subspace", "control", "verdict"),
            rows,
        )


@erase.costs
def _cost(
    estimator: Estimator, encoder: HuggingFaceEncoder, material: TargetData, *, tasks: Sequence[str],
    layers: Sequence[int] | None, targets: Sequence[str] | None, items: int, learn: int, words: int, draws: int,
    twin: bool, seed: int, **__: Any,
) -> Cost:  # fmt: skip
    """Per task and layer: erasers and probes of the words, and the items of each target with every subspace erased."""
    how = _ErasureSettings(learn, words, "words", False, draws, 20, seed)
    request = _ErasureRequest(_splits(material), tuple(dict.fromkeys(tasks)), layers, how)
    names = _targets(encoder, targets, request.tasks, material)
    many = len(request.layers_of(encoder)) * len(request.tasks) * (1 + twin)
    edits = len(WHATS) - 1 + draws
    texts, tokens = estimator.items(material.scored, items)
    # Half of the blocks come after a layer, on average; fitting grows with the square of the width.
    work = many * edits * len(names) * tokens * estimator.per_token / 2
    work += many * (learn + words) * edits * 2e-9 * encoder.width**2
    memory = memory_now() + 4 * encoder.width * (2 * learn + words)
    return Cost(many * edits, texts, tokens, memory=memory, work=work)


def _finding(result: Result, task: str, target: str, concept: pd.DataFrame) -> Finding:
    layers = {verdict: list(map(int, rows["layer"])) for verdict, rows in concept.groupby("verdict")}
    if USED in layers:
        # Of each layer the contrast that holds least; of these the one with the largest difference.
        least = [_least(result, task, target, layer) for layer in layers[USED]]
        _, kind, row = max(least, key=lambda contrast: abs(contrast[0].estimate))
        return _by_contrast(result, task, target, kind, row, layers[USED], USED)
    if UNUSED in layers and set(layers) <= {UNUSED, UNKNOWN}:
        nulls = [_null(result, task, target, layer) for layer in layers[UNUSED]]
        _, kind, row = max(nulls, key=lambda contrast: max(abs(contrast[0].low), abs(contrast[0].high)))
        return _by_contrast(result, task, target, kind, row, layers[UNUSED], UNUSED)
    reasons = {layer: _reason(result, task, layer) for layer in layers.get(OPEN, [])}
    open_ = [layer for layer, reason in reasons.items() if not reason]
    if open_:
        least = [_least(result, task, target, layer) for layer in open_]
        _, kind, row = min(least, key=lambda contrast: (contrast[0].p != contrast[0].p, contrast[0].p))
        return _by_contrast(result, task, target, kind, row, open_, OPEN)
    reason = next(iter(reasons.values()), "no linear probe was shown to read it")
    readable = Source("readable", {"task": task})
    whether = f"{phrase_of(target)} needs {_title(task)} where it is readable"
    return not_tested(whether, reason, source=[readable], importance=["answers"])


def _contrasts(result: Result, task: str, target: str, layer: int) -> list[tuple[Contrast, str, Any]]:
    """What has to harm for a concept to be used at a layer: contrast, what it is compared with, its row."""
    where = {"task": task, "target": target, "layer": layer}
    contrasts: list[tuple[Contrast, str, Any]] = []
    for kind in (RANDOM, CONTROL):
        row = next(rows_of(Source("differences", {**where, "against": kind}).rows(result.tables["differences"])))
        contrasts.append((Contrast.of(row, "difference"), kind, row))
    row = next(rows_of(Source("erase", {**where, "what": CONCEPT}).rows(result.tables["erase"])))
    return [*contrasts, (Contrast.of(row, "effect"), CONCEPT, row)]


def _least(result: Result, task: str, target: str, layer: int) -> tuple[Contrast, str, Any]:
    """The contrast of a layer that holds least: the claim is as sure as that."""
    untested = [contrast for contrast in _contrasts(result, task, target, layer) if contrast[0].needed]
    harm = 1 if target == LOSS else -1
    # A clear effect in the other direction is no harm.
    return next(
        iter(untested),
        max(
            _contrasts(result, task, target, layer),
            key=lambda contrast: (contrast[0].p == contrast[0].p and contrast[0].estimate * harm < 0, contrast[0].p),
        ),
    )


def _null(result: Result, task: str, target: str, layer: int) -> tuple[Contrast, str, Any]:
    """The contrast of a layer that is known to be within the margin."""
    return next(
        contrast for contrast in _contrasts(result, task, target, layer) if _status(contrast[0], target) == "null"
    )


def _status(test: Contrast, target: str) -> str:
    return status_of(test.low, test.high, test.p, needed=test.needed, margin=margin_of(target))


def _by_contrast(
    result: Result, task: str, target: str, kind: str, row: Any, layers: list[int], verdict: str
) -> Finding:
    """A finding about a concept at some layers, by one contrast at one of them."""
    where, title = layers_in_words(layers), _title(task)
    other = row.other if kind != CONCEPT else row.baseline
    beside = _OTHERS[kind] if kind != CONCEPT else "nothing"
    claim = (
        f"{phrase_at_start(target)} needs {title} at {where}, where it is readable: without it at layer {row.layer} "
        f"it is {number(row.value, digits=3)}, without {beside} {number(other, digits=3)}"
    )
    no_more = "leaves it as it is" if kind == CONCEPT else f"does no more to it than erasing {_OTHERS[kind]}"
    at_layer = {"task": task, "layer": row.layer, "target": target}
    rows = {"task": task, "target": target, "what": CONCEPT}
    return finding(
        claim=claim,
        whether=f"{phrase_of(target)} needs {title} at {where}, where it is readable",
        absent=(
            f"{phrase_at_start(target)} does not need {title} at {where}, where it is readable: erasing it {no_more}"
        ),
        contrast=f"layer {row.layer}: concept minus {'whole model' if kind == CONCEPT else _OTHERS[kind]}",
        test=Contrast.of(row, "effect" if kind == CONCEPT else "difference"),
        source=[
            Source("erase", rows | {"verdict": verdict}),
            *([Source("erase", at_layer | {"what": CONCEPT})] if kind == CONCEPT else []),
            # The remark states the variances of all that is erased.
            Source("differences", at_layer),
        ],
        unit=unit_of_target(result, target),
        importance=("answers", "beats control", "localised"),
        margin=margin_of(target),
        digits=3,
        note=_variances(result, task, target, int(row.layer)),
    )


def _variances(result: Result, task: str, target: str, layer: int) -> str:
    """What the subspaces take of the variance, in words."""
    rows = Source("differences", {"task": task, "target": target, "layer": layer}).rows(result.tables["differences"])
    by = {row.against: row for row in rows_of(rows)}
    return (
        f"The concept takes {percent(by[RANDOM].variance)} of the variance at layer {layer}, random subspaces "
        f"{percent(by[RANDOM].other_variance)}, the control task {percent(by[CONTROL].other_variance)}."
    )


def _reason(result: Result, task: str, layer: int) -> str:
    """Why a layer has no verdict whatever its effects; empty where effects decide."""
    read = next(rows_of(Source("readable", {"task": task, "layer": layer}).rows(result.tables["readable"])))
    if read.before != read.before or read.after != read.after:
        return f"probes did not converge at layer {layer}"
    if read.needed:
        return f"{int(read.units):,} documents are too few to tell what is readable; at least {read.needed} are needed"
    if not read.gone:
        return f"a probe may still read it after erasing at layer {layer}"
    for row in rows_of(Source("differences", {"task": task, "layer": layer}).rows(result.tables["differences"])):
        if row.against == RANDOM and not variances_alike(row.variance, row.other_variance):
            return (
                f"the concept takes {percent(row.variance)} of the variance at layer {layer}, random subspaces "
                f"{percent(row.other_variance)}"
            )
    return ""


def _title(task: str) -> str:
    """Within a sentence."""
    title = _TITLES.get(task, task)
    return title[:1].lower() + title[1:]


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
        # A layer that does not exist is refused before anything is read.
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
        rows = _ErasureRows([], [], [], [], [], {})
        for concept in concepts:
            name = concept.task.name
            erasers, readable = self._fitted(encoder, concept)
            rows.readable.extend(layer_readable.row(name, layer) for layer, layer_readable in readable.items())
            rows.subspaces.extend(_subspace_rows(name, erasers))
            rows.unconverged.extend(layer_readable.unconverged for layer_readable in readable.values())
            for target in targets:
                what = f"{target.name} of {encoder.name} without {name}"
                scores = measure_target(parts, target, erasers, tokens=self.how.tokens, what=what)
                measured = compare_layers(scores, samples=self.how.samples, seed=self.how.seed)
                harm = 1 if target.lower_is_better else -1
                rows.rows.extend(effect_rows(name, target.name, measured, readable, harm))
                rows.differences.extend(difference_rows(name, target.name, measured))
                if measured:
                    rows.scored[target.name] = measured[0].scored
        return rows

    def _fitted(
        self, encoder: HuggingFaceEncoder, concept: Concept
    ) -> tuple[list[LayerErasers], dict[int, ReadableLayer]]:
        how = self.how
        erasers: list[LayerErasers] = []
        probed = {}
        fitted = fitted_erasers(
            encoder, concept, self.layers_of(encoder), draws=how.draws, variance=how.variance, seed=how.seed
        )
        for layer_erasers, states in fitted:
            erasers.append(layer_erasers)
            probed[layer_erasers.layer] = probe_layer(concept, states, layer_erasers.concept, encoder.device)
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
    encoder: HuggingFaceEncoder, names_given: Sequence[str] | None, tasks: Sequence[str], material: TargetData
) -> tuple[str, ...]:
    """The targets asked for; by default also what a probe reads of each erased task at the last layer."""
    names = chosen_targets(encoder, names_given, material)
    if names_given is not None or material.probes is not None:
        return names
    return tuple(dict.fromkeys([*names, *(probe_name(task, encoder.blocks) for task in tasks)]))


def _subspace_rows(task: str, erasers: Iterable[LayerErasers]) -> Iterator[tuple[Any, ...]]:
    for layer_erasers in erasers:
        for what in WHATS:
            for draw, eraser in enumerate(layer_erasers.of(what)):
                yield task, layer_erasers.layer, what, draw, eraser.rank, eraser.variance

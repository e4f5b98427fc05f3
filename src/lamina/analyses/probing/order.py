"""`lamina.order`: where the order of words is known, and where their hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd

from lamina.activations import Runtime
from lamina.activations.engines import RunsTasks
from lamina.analyses.probing.order_changes import (
    CONSTANT,
    TWIN,
    Beside,
    Change,
    Contrast,
    LayerScore,
    beside_rows,
    change_rows,
    half_contrasts,
    layer_rows,
    middle,
    read_runs,
)
from lamina.analyses.probing.order_texts import OrderTexts
from lamina.analyses.probing.planning import Plan, TrainingAmounts, bootstrap_seconds, plan_run, training_cost
from lamina.analyses.probing.probe import kept_folder, left_out_of, run_all, saved_answers, train_elsewhere
from lamina.analyses.probing.running import Setup
from lamina.analyses.probing.suites import Source
from lamina.analyses.probing.summary import Summary
from lamina.analyses.probing.tables import Control, Probed, Score, Training, make_tables
from lamina.corpora.learning import Splits
from lamina.errors import InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.settings import Samples, Seed, Seeds, Setting
from lamina.framework.settings import Twin as TwinSetting
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import (
    Finding,
    best_in_words,
    cell,
    finding,
    layers_in_words,
    not_tested,
    number,
    numbers_in_words,
    rows_of,
)
from lamina.results.finding import Source as Place
from lamina.stats.status import Contrast as Test
from lamina.stats.units import Units
from lamina.tasks import describe_task
from lamina.tasks.order_making import Made, make_order_tasks
from lamina.tasks.order_rules import BY_NAME
from lamina.training.provenance import refuse_seen

_TASKS = ("task", "kind", "part", "targets", "classes", "label", "count", "left_out", "reason")


@analysis(
    title="Order and subjects by layer",
    question="At which layers is the order of words known, and at which their hierarchy?",
    method=(
        "Probing tasks are made from a treebank by rules: the index of a word, the main clause's auxiliary and subject "
        "among other auxiliaries and nouns, sentence length, tense, number, exchanged words and clauses. Classes are "
        "balanced; where a word could be remembered, training and scored texts share none. A probe per layer reads "
        "the word's mean vector, or the sentence's, and is scored on other documents, beside the best constant answer "
        "and a twin of the model with random weights."
    ),
    cites=("Lin et al. 2019", "Conneau et al. 2018", "Jawahar et al. 2019", "Rogers et al. 2020"),
    reads=OrderTexts(),
    version=2,  # best layers are confidence sets; families by max-T over tasks (and layers)
    tables={
        "order": Table("One row per task, metric, probe, layer and seed, as `scores` of `probe`.",
                       Score.__annotations__),
        "layers": Table("One row per task and layer whose probes have converged: accuracy, and whether the layer can "
                        "be the best (p_beaten: that another one is better, max-T over layers, one-sided).",
                        LayerScore._fields),
        "beside": Table("One row per task, layer and what stands beside it (twin, constant answer): the model minus "
                        "that on the same texts; one family over all rows (max-T, bootstrap, two-sided).",
                        Beside._fields),
        "changes": Table("One row per task: accuracy at layer 0, at the layer with the lowest stopping loss and at the "
                         "last one; upper minus lower half of the layers. Change, its interval and p_adjusted are of "
                         "one family over the tasks (max-T, bootstrap, two-sided); differences are paired.",
                         Change._fields),
        "contrasts": Table("One row per linear and structural task: their changes from the lower to the upper half "
                           "compared; one family over all rows (max-T, bootstrap, two-sided).",
                           Contrast._fields, optional=True),
        "tasks": Table("One row per task, part of the corpus and class, and one per reason for leaving out.", _TASKS),
        "training": Table("One row per probe: how its training went, and whether it has converged.", Training._fields),
        "summary": Table("One row per task, as `summary` of `probe`.", Summary._fields),
        "control": Table("One row per task: model and control on targets whose words training has seen.",
                         Control._fields),
    },
    chapter="abilities",
    example="lamina order minilm --corpus ewt --task index --task main_auxiliary --out results/order",
)  # fmt: skip
def order(
    encoder: Encoder,
    splits: Splits,
    *,
    tasks: Annotated[
        Sequence[str] | None,
        Setting(
            f"A task: {', '.join(BY_NAME)}; by default all that the treebank allows.", option="--task", metavar="NAME"
        ),
    ] = None,
    items: Annotated[int, Setting("The most targets of a task, in training and in scored texts.", min=20)] = 1000,
    preset: Annotated[
        Literal["quick", "standard"],
        Setting("How long probes are trained: quick (2 seeds, minutes) or standard (5 seeds)."),
    ] = "quick",
    seeds: Seeds = None,
    steps: Annotated[int, Setting("Most steps; training ends earlier on a plateau.", min=1)] = 3000,
    faithful: Annotated[
        bool,
        Setting(
            "As the originals did it: logistic regression on the mean vector, and every word of a sentence a candidate "
            "for the main auxiliary and the subject."
        ),
    ] = False,
    twin: TwinSetting = True,
    seed: Seed = 0,
    samples: Samples = 1000,
    runtime: Runtime,
) -> Tables:
    """Where the order of words is known and where their hierarchy: probing tasks made from any treebank by rules.

    Linear: `index`, `bigram_shift`. Surface: `length`, `word_content`. Structure: `main_auxiliary`, `subject`,
    `subject_number_verb`, `depth`, `top_constituents`, `coordination`. Inflection: `subject_number`,
    `subject_number_noun`, `object_number`, `tense`, `tense_verb`.

    Probes learn from the treebank's train, a part of which decides when they stop, and are scored on dev and test.
    Intervals (95 %) resample documents and, from 5 seeds on, seeds. What is made of probes that have not converged is
    not available. Which layers can be the best is a confidence set (`layers`), not the layer with the lowest loss.

    Example:
        >>> result = order("minilm", "ewt", tasks=["index", "subject"])  # doctest: +SKIP
        >>> result.tables["changes"][["task", "lower", "upper", "change"]]  # doctest: +SKIP
    """
    made = make_order_tasks(splits, tasks, items=items, seed=seed, faithful=faithful)
    for part in (made.splits.train, made.splits.scored):
        refuse_seen(encoder, part)
    plan = _plan(encoder, made, _Asked(preset, seeds, steps, faithful, seed), runtime.training_device)
    trained_by = {"order": plan.setup.reads, "seed": seed, "twin": twin}
    if isinstance(runtime.engine, RunsTasks):
        train_elsewhere([encoder], [plan], trained_by, runtime.engine, runtime)
    with kept_folder([encoder], plan, trained_by, runtime) as work:
        runs = run_all(plan, encoder, work, twin=twin, runtime=runtime)
        files = saved_answers(runs, plan.setup, work)
        probed = [Probed(runs, plan.setup.splits)]
        tables = make_tables(probed, encoder.name, samples=samples, seed=seed)
    readings = read_runs(runs, Units.of_texts(made.splits.scored), samples=samples, seed=seed)
    contrasts = half_contrasts(readings)
    kept = {name: tables[name] for name in ("training", "summary", "control")}
    return Tables(
        {
            "order": tables["scores"],
            "layers": pd.DataFrame(layer_rows(readings), columns=list(LayerScore._fields)),
            "beside": pd.DataFrame(beside_rows(readings), columns=list(Beside._fields)),
            "changes": pd.DataFrame(change_rows(readings), columns=list(Change._fields)),
            **({"contrasts": pd.DataFrame(contrasts, columns=list(Contrast._fields))} if contrasts else {}),
            "tasks": pd.DataFrame(list(_told(made)), columns=list(_TASKS)),
            **kept,
        },
        left_out_of(probed, [plan]) | {f"{name}: not made, {why}": 1 for name, why in made.not_made.items()},
        data={"tasks": {run.task.name: describe_task(run.task, made.splits.scored).as_json() for run in runs}},
        seeds=(seed, *range(plan.setup.seeds)),
        files=files,
        scored={run.task.name: len(run.targets.text) for run in runs},
    )


class _Asked(NamedTuple):
    """How probes are to be trained."""

    preset: str
    seeds: int | None
    steps: int
    faithful: bool
    seed: int


def _plan(encoder: Encoder, made: Made, asked: _Asked, device: str) -> Plan:
    if encoder.layers < 2:
        raise InputError(f"{encoder.name} has no layers to compare; name a model with some")
    # What is made is of the right size: nothing is thinned out, and all stopping texts stop.
    every = len(made.splits.train)
    seeds = 1 if asked.faithful else asked.seeds
    amounts = TrainingAmounts(seeds=seeds, steps=asked.steps, train_texts=every, stop_texts=every)
    plan = plan_run(
        encoder.layers, Source(made.splits, made.tasks), probes=("layer",), preset=asked.preset, amounts=amounts,
        faithful=False, metric=None, seed=asked.seed, device=device,
    )  # fmt: skip
    return plan._replace(setup=replace(plan.setup, reads="linear" if asked.faithful else "means"))


def _told(made: Made) -> Iterator[tuple[Any, ...]]:
    for task, both in made.parts.items():
        if task in made.not_made:
            continue
        for name, part in zip(("training", "scored"), both, strict=True):
            place = (task, BY_NAME[task].kind, name, part.targets, len(part.classes))
            yield from ((*place, label, count, None, "") for label, count in part.classes.items())
            yield from ((*place, "", None, count, why) for why, count in part.left_out.items())


@order.costs
def _cost(
    estimator: Estimator, encoder: Encoder, splits: Splits, *, tasks: Sequence[str] | None, items: int, preset: str,
    seeds: int | None, steps: int, faithful: bool, twin: bool, seed: int, samples: int, **_: Any,
) -> Cost:  # fmt: skip
    """Encoding, training on single vectors, and the bootstrap; as if no run had been kept."""
    made = make_order_tasks(splits, tasks, items=items, seed=seed, faithful=faithful)
    plan = _plan(encoder, made, _Asked(preset, seeds, steps, faithful, seed), estimator.runtime.training_device)
    both = [encoder, *([encoder.random_twin(seed)] if twin and encoder.blocks else [])]
    cost = estimator.encoding((made.splits.train, made.splits.scored), both)
    cost += training_cost(estimator, _one_word(plan), both, mdl=False)
    return cost + Cost(passes=0, seconds=2 * bootstrap_seconds(plan, samples))


def _one_word(plan: Plan) -> Plan:
    """The same plan with targets of one word: probes read one vector, however long a sentence is."""
    setup: Setup = plan.setup

    def cut(corpus: Any) -> Any:
        texts = tuple(
            replace(text, edges={name: tuple(replace(e, span=type(e.span)(e.span.start, e.span.start + 1)) for e in own)
                                 for name, own in text.edges.items()})
            for text in corpus
        )  # fmt: skip
        return replace(corpus, source=lambda: iter(texts))

    few = Splits(cut(setup.splits.train), cut(setup.splits.scored))
    return plan._replace(setup=replace(setup, splits=few))


_TOLD = ("index", "main_auxiliary", "subject")
"""The tasks of the primer's picture."""


@order.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The index, the main auxiliary and the subject, or what else there is; then whether one falls as others rise."""
    changes = result.tables["changes"].set_index("task", drop=False)
    linear, structure = (
        [name for name in [*_TOLD, *changes.index] if name in changes.index and changes["kind"][name] == kind]
        for kind in ("linear", "structure")
    )
    for name in list(dict.fromkeys([*linear[:1], *structure[:2], *changes.index]))[:3]:
        yield from _read_at(result, name)
        yield from _changed(result, name)
    yield from _contrasted(result, linear, structure)


def _read_at(result: Result, task: str) -> Iterator[Finding]:
    """The layer that is read best beside twin and constant answer, and which layers can be best."""
    title, layers = _title(task), result.tables["layers"]
    own, beside = layers[layers["task"] == task], result.tables["beside"]
    if own.empty:
        reason = str(result.tables["changes"].set_index("task")["reason"][task])
        yield not_tested(f"{title} is read at any layer", reason, importance=("answers",))
        return
    layer = int(own["layer"].iloc[int(own["value"].to_numpy().argmax())])
    rows = beside[(beside["task"] == task) & (beside["layer"] == layer)]
    if rows.empty:
        return
    # Ahead of both where it is ahead of the one that it is least surely ahead of.
    untested = rows["p_adjusted"].isna()
    some = rows[untested] if untested.any() else rows[rows["p_adjusted"] == rows["p_adjusted"].max()]
    row = next(rows_of(some.sort_values("estimate")))
    other = {TWIN: "the untrained twin", CONSTANT: "the best constant answer"}[row.against]
    among = best_in_words(own["layer"].tolist(), own["among_best"].astype(bool).tolist())
    best = f"{title[0].upper()}{title[1:]} is read{' best' * (len(own) > 1)} at {among}"
    best = best if among else f"No layer was shown to read {title} better than another"
    numbers = f"layer {layer} reads it with accuracy {number(row.value)}, {other} {number(row.other)}"
    yield finding(
        claim=f"{best}: {numbers}",
        whether=f"layer {layer} reads {title} better than {other}",
        absent=f"Layer {layer} reads {title} no better than {other}",
        contrast="difference",
        test=Test.of(row),
        source=(
            Place("beside", {"task": task, "layer": layer, "against": row.against}),
            Place("layers", {"task": task, "among_best": True}),
        ),
        unit=row.unit,
        importance=("beats control", "localised"),
    )


def _changed(result: Result, task: str) -> Iterator[Finding]:
    """Whether the upper half of the layers reads a task otherwise than the lower half."""
    title, table = _title(task), result.tables["changes"]
    row = next(rows_of(table[table["task"] == task]))
    layers = int(pd.to_numeric(result.tables["order"]["layer"]).max()) + 1
    cut = middle(layers)
    above, below = layers_in_words(range(cut + 1, layers)), layers_in_words(range(1, cut + 1))
    one = cut + 2 == layers
    if pd.isna(row.change):
        reason = row.reason if isinstance(row.reason, str) else "there is one block only"
        yield not_tested(f"{title} is read otherwise in upper than in lower layers", reason, importance=("answers",))
        return
    said = f"{above} read{'s' * one} {title}"
    yield finding(
        claim=f"{said[0].upper()}{said[1:]} {'better' if row.change > 0 else 'worse'} than {below}: accuracy "
        f"{number(row.upper)} and {number(row.lower)}",
        whether=f"{said} otherwise than {below}",
        absent=f"{said[0].upper()}{said[1:]} as well as {below}",
        contrast="difference",
        test=Test.of(row, "change", "change_low", "change_high"),
        source=(Place("changes", {"task": task}), Place("layers", {"task": task})),
        unit=row.unit,
        importance=("answers", "localised"),
    )


def _contrasted(result: Result, linear: Sequence[str], structure: Sequence[str]) -> Iterator[Finding]:
    table = result.tables.get("contrasts")
    if table is None or not linear or not structure:
        return
    own = table[(table["linear"] == linear[0]) & (table["structure"] == structure[0])]
    for row in rows_of(own):
        names = _title(row.linear), _title(row.structure)
        halves = "from the lower to the upper half of the layers"
        yield finding(
            claim=f"F{halves[1:]}, accuracy changes by {number(row.linear_change)} for {names[0]} and by "
            f"{number(row.structure_change)} for {names[1]}",
            whether=f"{names[0]} and {names[1]} change differently {halves}",
            absent=f"F{halves[1:]}, {names[0]} and {names[1]} change alike",
            contrast="difference",
            test=Test.of(row, "difference"),
            source=Place("contrasts", {"linear": row.linear, "structure": row.structure}),
            unit=row.unit,
            importance=("answers", "surprises"),
        )


def _title(task: str) -> str:
    """As it is called within a sentence."""
    title = BY_NAME[task].title
    return f"the {title[0].lower()}{title[1:]}" if task in _TOLD else f"{title[0].lower()}{title[1:]}"


@order.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    """One line per task."""
    about = result.provenance
    columns = ("task", "layers that can be best", "highest accuracy", "upper minus lower half")
    layers = result.tables["layers"]
    rows: list[tuple[str | int, ...]] = []
    for row in rows_of(result.tables["changes"]):
        own = layers[layers["task"] == row.task]
        top = own.sort_values("value", ascending=False).head(1)
        highest = next((cell(best.value, best.low, best.high) for best in rows_of(top)), "-")
        best = numbers_in_words(own.loc[own["among_best"].astype(bool), "layer"].tolist()) if len(own) else "-"
        rows.append((row.task, best, highest, cell(row.change, row.change_low, row.change_high)))
    yield Overview(f"{about.model['name']} on {about.corpus['name']} ({about.corpus.get('split', '')})", columns, rows)
    reasons = result.tables["changes"].set_index("task")["reason"].dropna()
    yield from (f"{task}: {reason}" for task, reason in reasons.items() if reason)

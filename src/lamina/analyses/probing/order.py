"""`lamina.order`: where the order of words is known, and where their hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd

from lamina.activations import Runtime
from lamina.activations.engines import RunsTasks
from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.analyses.probing.order_changes import Change, Contrast, change_rows, middle
from lamina.analyses.probing.order_texts import OrderTexts
from lamina.analyses.probing.planning import Amounts, Plan, bootstrap_seconds, plan_run, training_cost
from lamina.analyses.probing.probe import kept_folder, left_out_of, run_all, saved_answers, train_elsewhere
from lamina.analyses.probing.running import Setup
from lamina.analyses.probing.suites import Source
from lamina.analyses.probing.summary import Summary
from lamina.analyses.probing.tables import Control, Probed, Score, Training, make_tables
from lamina.analyses.settings import Samples, Seed, Seeds, Setting, Twin
from lamina.corpora.learning import Splits
from lamina.encoders import Encoder
from lamina.errors import InputError
from lamina.findings import Finding, cell, layers_in_words, number, rows_of
from lamina.results import Result
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
    version=1,
    tables={
        "order": Table("One row per task, metric, probe, layer and seed, as `scores` of `probe`.",
                       Score.__annotations__),
        "changes": Table("One row per task: best layer, rise from layer 0, fall to the last layer, upper minus lower "
                         "half of the layers; accuracy, differences paired by text.", Change._fields),
        "contrasts": Table("One row per linear and structural task: their changes from the lower to the upper half "
                           "compared.", Contrast._fields, optional=True),
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
    twin: Twin = True,
    seed: Seed = 0,
    samples: Samples = 1000,
    runtime: Runtime,
) -> Tables:
    """Where the order of words is known and where their hierarchy: probing tasks made from any treebank by rules.

    Linear: `index`, `bigram_shift`. Surface: `length`, `word_content`. Structure: `main_auxiliary`, `subject`,
    `subject_number_verb`, `depth`, `top_constituents`, `coordination`. Inflection: `subject_number`,
    `subject_number_noun`, `object_number`, `tense`, `tense_verb`.

    Probes learn from the treebank's train, a part of which decides when they stop, and are scored on dev and test.
    Intervals (95 %) resample texts and, from 5 seeds on, seeds. What is made of probes that have not converged is not
    available.

    Example:
        >>> result = order("minilm", "ewt", tasks=["index", "subject"])  # doctest: +SKIP
        >>> result.tables["changes"][["task", "best_layer", "change"]]  # doctest: +SKIP
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
    changes, contrasts = change_rows(runs, samples=samples, seed=seed)
    kept = {name: tables[name] for name in ("training", "summary", "control")}
    return Tables(
        {
            "order": tables["scores"],
            "changes": pd.DataFrame(changes, columns=list(Change._fields)),
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
    amounts = Amounts(seeds=seeds, steps=asked.steps, train_texts=every, stop_texts=every)
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
    layers = int(pd.to_numeric(result.tables["order"]["layer"]).max()) + 1
    linear, structure = (
        [name for name in [*_TOLD, *changes.index] if name in changes.index and changes["kind"][name] == kind]
        for kind in ("linear", "structure")
    )
    told = list(dict.fromkeys([*linear[:1], *structure[:2], *changes.index]))[: 3 if linear and structure else 4]
    for name in told:
        yield _changed(result, next(rows_of(changes.loc[[name]])), layers)
    yield from _contrasted(result, linear, structure)


def _changed(result: Result, row: Any, layers: int) -> Finding:
    title = BY_NAME[row.task].title
    if pd.isna(row.best):
        return legacy_finding(f"{title}: not available, {row.reason}.", "open")
    beside = _beside(result, row.task, row.best_layer)
    read = f"{title} is best read at layer {row.best_layer}: accuracy {number(row.best, row.best_low, row.best_high)}"
    if row.best_layer:
        read += f", {number(row.rise, row.rise_low, row.rise_high)} more than at layer 0"
    if pd.isna(row.change):
        why = f"; how it changes is not available, {row.reason}" if row.reason else ""
        return legacy_finding(f"{read}{beside}{why}.", "open", row.best, row.best_low, row.best_high)
    status = status_of(row.change_low, row.change_high, 0.0)
    cut = middle(layers)
    above, below = layers_in_words(range(cut + 1, layers)), layers_in_words(range(1, cut + 1))
    one = cut + 2 == layers
    moved = number(abs(row.change), *sorted((abs(row.change_low), abs(row.change_high))))
    if status == "clear":
        said = f"{above} read{'s' * one} it {'better' if row.change > 0 else 'worse'} by {moved} than {below}"
    else:
        change = number(row.change, row.change_low, row.change_high)
        known = f"do{'es' * one} not differ from" if status == "null" else "cannot be told from"
        said = f"{above} {known} {below} (difference {change})"
    return legacy_finding(f"{read}{beside}; {said}.", status, row.change, row.change_low, row.change_high, 0.0)


def _beside(result: Result, task: str, layer: int) -> str:
    scores = result.tables["order"]
    own = scores[(scores["task"] == task) & (scores["metric"] == "accuracy") & (scores["seed"].astype(str) == "all")]
    twin = own[(own["of"] == "random") & (own["layer"] == layer)]["value"]
    constant = own[(own["probe"] == "constant") & (own["of"] == "model")]["value"]
    told = [("an untrained twin", twin), ("the best constant answer", constant)]
    said = ", ".join(f"{name} {number(each.iloc[0])}" for name, each in told if len(each))
    return f" ({said})" if said else ""


def _contrasted(result: Result, linear: Sequence[str], structure: Sequence[str]) -> Iterator[Finding]:
    table = result.tables.get("contrasts")
    if table is None or not linear or not structure:
        return
    own = table[(table["linear"] == linear[0]) & (table["structure"] == structure[0])]
    changes = result.tables["changes"].set_index("task")
    for row in rows_of(own):
        status = status_of(row.low, row.high, 0.0)
        falls, rises = changes["change_high"][row.linear] < 0, changes["change_low"][row.structure] > 0
        names = BY_NAME[row.linear].title.lower(), BY_NAME[row.structure].title.lower()
        apart = number(row.difference, row.low, row.high)
        if status == "clear" and row.difference > 0:
            claim = "falls while" if falls and rises else "loses more than" if falls else "gains less than"
            tail = "rises" if falls and rises else "does"
        elif status == "clear":
            claim, tail = "gains more or loses less than", "does"
        else:
            claim, tail = "cannot be told to change otherwise than", "does"
        yield legacy_finding(
            f"From the lower to the upper half of the layers, the {names[0]} {claim} the {names[1]} {tail}: "
            f"{number(row.linear_change)} and {number(row.structure_change)}, difference {apart}.",
            status, row.difference, row.low, row.high, 0.0,
        )  # fmt: skip


@order.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    """One line per task."""
    about = result.provenance
    columns = ("task", "best layer", "accuracy", "upper minus lower half")
    rows = [
        (
            row.task, int(row.best_layer), cell(row.best, row.best_low, row.best_high),
            cell(row.change, row.change_low, row.change_high),
        )
        for row in rows_of(result.tables["changes"])
    ]  # fmt: skip
    yield Overview(f"{about.model['name']} on {about.corpus['name']} ({about.corpus.get('split', '')})", columns, rows)
    reasons = result.tables["changes"].set_index("task")["reason"].dropna()
    yield from (f"{task}: {reason}" for task, reason in reasons.items() if reason)

"""`lamina.probe`: every task at every layer, beside what the scores have to be compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd

from lamina.activations import Runtime
from lamina.activations.runtime import RunsTasks
from lamina.analyses.layers.probe.description_length import CodeLength, online_code
from lamina.analyses.layers.probe.findings import probe_findings, probe_overview
from lamina.analyses.layers.probe.planning import (
    ProbedTexts,
    ProbePlan,
    TaskSource,
    TrainingAmounts,
    bootstrap_work,
    plan_run,
    probes_of,
    schedule_parts,
    training_cost,
)
from lamina.analyses.layers.probe.predictions import TEXTS, WORDS, TraceRow, write_predictions, write_texts
from lamina.analyses.layers.probe.summary import LayerReading, LayerStep, TaskLayer, TaskOrder, TaskSummary
from lamina.analyses.layers.probe.tables import (
    ControlScore,
    CorpusRuns,
    MixingWeight,
    ProbeScore,
    ProbeTraining,
    ScoreBreakdown,
    make_tables,
)
from lamina.analyses.layers.probe.training import (
    PRACTICES,
    PortableTask,
    ProbeSetup,
    ProbeStates,
    StoredStates,
    TaskRun,
    load_run,
    merge_runs,
    portable,
    probes_path,
    train_and_save,
)
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.splits import Splits
from lamina.errors import InputError
from lamina.framework.declare import ComparedTasks, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.run import run_folder
from lamina.framework.settings import Samples, Seed, Seeds, Setting, Twin
from lamina.models import Encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.variants import DropoutEncoder, LexicalFirst
from lamina.probes.bank import Schedule
from lamina.results import Result
from lamina.results.finding import Finding
from lamina.results.folder import answer_key, question_key
from lamina.tasks import Task, describe_task
from lamina.training.provenance import folder_of, refuse_seen, seed_of

# What the pipeline paper reports for BERT, to be compared with.

SOURCE = "Tenney, Das and Pavlick (2019)"

_TASKS = ("pos", "const", "dep", "ner", "srl", "coref", "spr", "rel")
_PAPER = {
    ("BERT-large", 24, "expected_layer"): (3.39, 3.79, 5.69, 4.64, 6.54, 9.47, 9.93, 9.40),
    ("BERT-large", 24, "center_of_gravity"): (11.68, 13.06, 13.75, 13.16, 13.63, 15.80, 12.72, 12.83),
    ("BERT-base", 12, "expected_layer"): (1.76, 2.38, 2.52, 2.42, 2.59, 3.62, 4.29, 4.16),
}
"""Model, its layers and statistic -> the values of `_TASKS`. They are in the paper's figures only, not in its text, and
are copied from the project's notes on methods. The notes lack the centres of gravity of BERT-base: so does this."""


class PaperPlace(NamedTuple):
    """One row of `reference.csv`: where the paper places a task."""

    task: str
    model: str
    layers: int
    """Without the embeddings."""
    statistic: str
    """expected_layer or center_of_gravity."""
    value: float
    depth: float
    """The value as a share of the layers: models of different depth are compared by it."""
    source: str


def reference_table(tasks: Iterable[str]) -> pd.DataFrame:
    """The paper's values for these tasks; it has none for tasks other than its own eight.

    Its probes learned from other texts (OntoNotes, mostly), and its tasks are not in all details ours.

    Example:
        >>> table = reference_table(["pos", "xpos"])
        >>> table["task"].tolist(), table["value"].tolist()
        (['pos', 'pos', 'pos'], [3.39, 11.68, 1.76])
    """
    requested = set(tasks)
    rows = [
        PaperPlace(task, model, layers, statistic, value, value / layers, SOURCE)
        for (model, layers, statistic), values in _PAPER.items()
        for task, value in zip(_TASKS, values, strict=True)
        if task in requested
    ]
    return pd.DataFrame(rows, columns=list(PaperPlace._fields))


@analysis(
    title="Edge probing",
    question="At which layers can the answer to each linguistic question be read from the vectors?",
    method=(
        "A probe is a small network that sees the vectors of the marked words and nothing else; it learns a task's "
        "labels on training texts until the loss on training documents kept apart falls no more, and is scored on "
        "other texts. P(l) mixes layers 0 to l with learned weights. Every score is compared with the best constant "
        "answer, with a twin of the model that has random weights, and with control labels drawn at random per word, "
        "which a probe can only memorise."
    ),
    cites=("Tenney et al. 2019", "Hewitt and Liang 2019", "Voita and Titov 2020"),
    reads=ProbedTexts(),
    # 2: trained to a plateau, weights chosen by loss, layers standardised, masks from a counter-based generator,
    # selectivity on seen words, intervals over seeds by Student's t.
    # 3: `quick` trains tasks of fewer than 2,000 targets more carefully; no centre of gravity of equal weights.
    # 4: documents are resampled; families by max-T, best layers as sets, no order below 5 seeds; mixing weights have a
    # rate of their own; expected layers of gains alone; a probe that has overfitted has not converged.
    # 5: `standard` trains in cycles. 7: in up to fourteen of them.
    version=7,
    tables={
        "scores": Table("One row per task, metric, probe, layer and seed; `all` stands for all seeds.",
                        ProbeScore.__annotations__),
        "training": Table("One row per probe: how its training went, and whether it has converged.",
                          ProbeTraining._fields),
        "mixing": Table("One row per task, seed, cumulative probe and layer it mixes.", MixingWeight._fields),
        "summary": Table("One row per task.", TaskSummary._fields),
        "readings": Table("One row per task, layer and baseline: the score minus the baseline's; two-sided, max-T over "
                          "all rows.", LayerReading._fields),
        "best_layers": Table("One row per task and layer: whether another layer is better, by max-T over the other "
                             "layers.", TaskLayer._fields),
        "steps": Table("One row per task, kind of probe and layer: what it adds to the layer before it; two-sided, "
                       "max-T over all rows of the kind of probe.", LayerStep._fields),
        "order": Table("One row per pair of tasks and statistic: which comes first; two-sided, max-T over all pairs of "
                       "the statistic.", TaskOrder._fields),
        "traces": Table("One row per ambiguous target, label, layer and seed.", TraceRow._fields),
        "words": Table("One row per word of the texts in `traces`.", WORDS),
        "breakdown": Table("One row per task, group of targets and layer.", ScoreBreakdown.__annotations__),
        "control": Table("One row per task: model and control on targets whose words training has seen; two-sided, "
                         "max-T over the tasks.", ControlScore._fields),
        "mdl": Table("One row per task, layer and seed, with --mdl only.", CodeLength._fields, optional=True),
        "reference": Table("One row per task, model of the paper and statistic, with --reference only.",
                           PaperPlace._fields, optional=True),
    },
    chapter="abilities",
    takes=177,
    report={"preset": "quick"},
    compares=ComparedTasks(
        places={"center_of_gravity": "centre of gravity", "expected_layer": "expected layer"},
        harmless=("tasks", "suite", "probes", "mdl", "twin", "reference", "seed", "samples"),
    ),
    example="lamina probe minilm --corpus ewt --task pos --task dep --out results/probe",
)  # fmt: skip
def probe(
    encoders: Sequence[Encoder],
    sources: Sequence[TaskSource],
    *,
    # Which texts and tasks that means is found when inputs are loaded.
    tasks: Annotated[  # noqa: ARG001
        Sequence[str | Task] | None,
        Setting(
            "A task, or any annotation of the corpus; by default the tasks of the catalogue that it carries, and all "
            "annotations of data that names its own. Made where named: chunk, parent, grandparent, great_grandparent "
            "(from constituents), arc, conjunct (from dependencies).",
            option="--task",
        ),
    ] = None,
    suite: Annotated[
        Literal["pipeline", "qa", "liu", "npi"] | None,
        Setting(
            "Instead of a corpus: the tasks of a paper, each from the corpus that has it; the eight of the pipeline "
            "paper, the five of the paper on question answering (single layers, macro-F1 over all labels), 13 of the "
            "16 of Liu et al., or three of negative polarity made of BLiMP (both single layers)."
        ),
    ] = None,
    probes: Annotated[
        Sequence[Literal["cumulative", "layer", "mix"]] | None,
        Setting(
            "Probes: cumulative (layers 0 to l mixed, for every l), layer (layer l alone), mix (all mixed); all by "
            "default, only layer in the suites qa, liu and npi."
        ),
    ] = None,
    preset: Annotated[
        Literal["quick", "standard", "paper"],
        Setting(
            "How long probes are trained: quick (minutes), standard (all texts, 5 seeds) or paper (as in the paper)."
        ),
    ] = "quick",
    seeds: Seeds = None,
    schedule: Annotated[
        str | Schedule | dict | None,
        Setting(
            "How probes are trained, where not as the preset says: steps, batch, lr, hidden, train_texts, stop_texts, "
            "or fields of `lamina.Schedule`, as in steps=2000,batch=64.",
            metavar="NAME=VALUE,...",
            parts=schedule_parts,
        ),
    ] = None,
    faithful: Annotated[
        bool,
        Setting(
            "As the paper's code did it: all of --practice, with the paper's schedule and widths (of --preset paper, "
            "where no other is given)."
        ),
    ] = False,
    practices: Annotated[
        Sequence[Literal["f1", "rate", "stop", "raw", "layer0", "dropout", "roots"]],
        Setting(
            "Single practices of the paper's code: f1 (weights chosen by F1), rate (ends below a rate of 1e-6), stop "
            "(on the scored texts), raw (layers not standardised), layer0 (raw token embeddings), dropout (the "
            "model's stays on), roots (kept).",
            option="--practice",
        ),
    ] = (),
    metric: Annotated[
        Literal["micro", "macro"] | None,
        Setting("F1 of all decisions together (micro) or the labels' mean F1 (macro); the task's own by default."),
    ] = None,
    mdl: Annotated[bool, Setting("Measure the description length of the labels too.")] = False,
    twin: Twin = True,
    reference: Annotated[
        bool, Setting("Mark the paper's numbers for BERT-base and BERT-large in the figures.")
    ] = False,
    seed: Seed = 0,
    samples: Samples = 1000,
    runtime: Runtime,
) -> Tables:
    """How well each layer tells part of speech, dependencies, roles and more, and where the answers appear.

    Probes learn from the corpus's train, a part of which decides when they stop, and are scored on dev (or test).
    Beside every score: the best constant answer, the random-weights twin, and a control task that only memory can
    learn. Intervals (95 %) resample documents and, from 5 seeds on, seeds; with fewer seeds the order of tasks is not
    tested. A folder of `finetune --seeds` is probed model by model: scores are means over the models, intervals over
    documents and, from 5 models on, models.

    A task is scored by macro-F1 where that is its custom (`ques`, `sup`, the suite `qa`), else by micro-F1, and by the
    share of right highest answers where a target has one label; graded annotations (`factuality`) by R2 and
    correlation. What is made of probes that have not converged is not available. Predictions (Parquet) and trained
    probes (safetensors) come with the result. A run that was stopped continues when the same is asked again.

    Example:
        >>> result = probe("minilm", "ewt", tasks=["pos"])  # doctest: +SKIP
        >>> result.tables["summary"]["task"].tolist()  # doctest: +SKIP
        ['pos']
    """
    _refuse(encoders, sources, mdl=mdl)
    amounts = TrainingAmounts.read(schedule, seeds)
    kinds = probes_of(probes, suite)
    settings: dict[str, Any] = {"probes": kinds, "preset": preset, "faithful": faithful, "metric": metric}
    settings |= {"seed": seed, "amounts": amounts, "device": runtime.training_device, "practices": practices}
    plans = [plan_run(encoders[0].layers, source, **settings) for source in sources]
    seen = [probing_encoder(encoder, faithful=faithful, practices=practices, seed=seed) for encoder in encoders]
    probed, files, lengths = [], {}, []
    trained_by = {"probes": kinds, "metric": metric, "seed": seed, "faithful": faithful, "twin": twin}
    trained_by |= {"practices": sorted(practices)} if practices else {}
    if isinstance(runtime.engine, RunsTasks):
        train_elsewhere(seen, plans, trained_by, runtime.engine, runtime)
    for plan in plans:
        with training_folder(seen, plan, trained_by, runtime) as work:
            runs, saved = _run_models(seen, plan, trained_by, work, runtime)
            probed.append(CorpusRuns(runs, plan.setup.splits))
            files |= saved | saved_answers(runs, plan.setup, work)
            if mdl:
                lengths += _code_lengths(plan, seen[0], work, twin=twin, samples=samples, runtime=runtime)
            if plan is plans[-1]:
                files[TEXTS] = write_texts([plan.setup.splits.scored for plan in plans], work)
    tables = make_tables(probed, encoders[0].name, samples=samples, seed=seed, faithful=faithful)
    if mdl:
        tables["mdl"] = pd.DataFrame(lengths, columns=list(CodeLength._fields))
    if reference:
        tables["reference"] = reference_table(tables["summary"]["task"])
    note = f"layer 0 raw token embeddings with LayerNorm; dropout on, seed {seed}"
    return Tables(
        tables,
        left_out_of(probed, plans),
        model={"faithful": note}
        if faithful
        else {"practices": [PRACTICES[name] for name in practices]}
        if practices
        else {},
        data={"tasks": _described(probed)}
        | ({"train": plans[0].setup.splits.train.describe()} if len(plans) == 1 else {}),
        seeds=(seed, *range(plans[0].setup.seeds)),
        files=files,
        scored={run.task.name: len(run.targets.text) for corpus_runs in probed for run in corpus_runs.runs},
    )


def _described(probed: Sequence[CorpusRuns]) -> dict[str, Any]:
    """Task -> what its targets turned out to be and how they are scored."""
    descriptions = (
        describe_task(run.task, corpus_runs.splits.scored) for corpus_runs in probed for run in corpus_runs.runs
    )
    return {description.task.name: description.as_json() for description in descriptions}


@probe.finds
def _findings(result: Result) -> Iterable[Finding]:
    return probe_findings(result.tables)


@probe.costs
def _cost(
    estimator: Estimator,
    encoders: Sequence[Encoder],
    sources: Sequence[TaskSource],
    *,
    suite: str | None,
    probes: Sequence[str] | None,
    preset: str,
    twin: bool,
    mdl: bool,
    samples: int,
    faithful: bool,
    practices: Sequence[str],
    metric: Any,
    seed: int,
    seeds: int | None,
    schedule: str | Schedule | dict | None,
    **_: Any,
) -> Cost:
    """Encoding, training and scoring, and the bootstrap; as if no run had been kept."""
    amounts = TrainingAmounts.read(schedule, seeds)
    settings: dict[str, Any] = {"probes": probes_of(probes, suite), "preset": preset, "faithful": faithful}
    settings |= {"metric": metric, "seed": seed, "amounts": amounts, "device": estimator.runtime.training_device}
    settings |= {"practices": practices}
    total = Cost(passes=0)
    for number, encoder in enumerate(encoders):
        seen = probing_encoder(encoder, faithful=faithful, practices=practices, seed=seed)
        both = [seen, *([seen.random_twin(seed)] if twin and seen.blocks and not number else [])]
        for source in sources:
            plan = plan_run(encoder.layers, source, **settings)
            splits = plan.setup.splits
            cost = estimator.encoding((splits.train, splits.scored), both)
            cost += training_cost(estimator, plan, both, mdl=mdl)
            # While a task is trained, the states of both encoders are in memory as they are stored.
            stored = estimator.runtime.residence(seen, 0).device is None
            memory = cost.memory + stored * 2 * cost.tokens * encoder.layers * encoder.width
            total += cost + Cost(passes=0, work=bootstrap_work(plan, samples), memory=memory)
    return total


@probe.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    return probe_overview(result)


def probing_encoder(encoder: Encoder, *, faithful: bool, seed: int, practices: Sequence[str] = ()) -> Encoder:
    """With `faithful`, the model's own dropout stays on, and layer 0 is its raw token embeddings with LayerNorm."""
    if (faithful or "dropout" in practices) and isinstance(encoder, HuggingFaceEncoder):
        encoder = DropoutEncoder(encoder, seed)
    return LexicalFirst(encoder) if faithful or "layer0" in practices else encoder


def _refuse(encoders: Sequence[Encoder], sources: Sequence[TaskSource], *, mdl: bool) -> None:
    """What cannot be asked, before anything is encoded."""
    if mdl and len(encoders) > 1:
        raise InputError(
            f"--mdl codes the labels by the probes of one model, and {encoders[0].name} is {len(encoders)} models; "
            "name one of its folders seed-N, or leave --mdl out"
        )
    for encoder in encoders:
        for source in sources:
            for part in (source.splits.train, source.splits.scored):
                refuse_seen(encoder, part)


def training_folder(
    encoders: Sequence[Encoder], plan: ProbePlan, trained_by: Mapping[str, Any], runtime: Runtime
) -> AbstractContextManager[Path]:
    """The folder of what was trained on one model, or was put together from several."""
    models = [encoder.fingerprint for encoder in encoders]
    model = models[0] if len(models) == 1 else fingerprint_of(models)
    # The settings themselves and not only the preset's name, whose meaning may change between versions.
    settings = {**trained_by, "preset": str(plan.setup.preset)}
    question = question_key("probe", model, plan.setup.splits.fingerprint, settings)
    return run_folder(answer_key(question, probe.version), runtime.store)


def _run_models(
    encoders: Sequence[Encoder], plan: ProbePlan, trained_by: Mapping[str, Any], work: Path, runtime: Runtime
) -> tuple[list[TaskRun], dict[str, Path]]:
    """The tasks of a plan on every model, put together, and the trained probes by name."""
    if len(encoders) == 1:
        runs = run_all(plan, encoders[0], work, twin=trained_by["twin"], runtime=runtime)
        return runs, _probes(runs, plan.setup, work)
    by_model, files = [], {}
    seeds = tuning_seeds(encoders)
    for seed, encoder in zip(seeds, encoders, strict=True):
        model_settings = _trained_by(trained_by, encoder, encoders)
        with training_folder([encoder], plan, model_settings, runtime) as folder:
            by_model.append(run_all(plan, encoder, folder, twin=model_settings["twin"], runtime=runtime))
            files |= _probes(by_model[-1], plan.setup, folder, of=f"-seed-{seed}")
    return [merge_runs(runs, seeds) for runs in zip(*by_model, strict=True)], files


def _trained_by(trained_by: Mapping[str, Any], encoder: Encoder, encoders: Sequence[Encoder]) -> dict[str, Any]:
    """What one of several models is trained by: random weights know nothing of the fine-tuning, one twin serves all."""
    return {**trained_by, "twin": trained_by["twin"] and encoder is encoders[0]}


def train_elsewhere(
    encoders: Sequence[Encoder],
    plans: Sequence[ProbePlan],
    trained_by: Mapping[str, Any],
    engine: RunsTasks,
    runtime: Runtime,
) -> None:
    """Train all tasks of all plans that are not kept yet on the engine's workers, some at once."""
    with ExitStack() as folders:
        tasks: list[Callable[[], object]] = []
        for plan in plans:
            setup = portable(plan.setup)
            for encoder in encoders:
                model_settings = _trained_by(trained_by, encoder, encoders)
                work = folders.enter_context(training_folder([encoder], plan, model_settings, runtime))
                todo = [task for task in plan.tasks if load_run(task, work / f"{task.name}.run") is None]
                if todo:
                    _both_states(encoder, plan.setup, runtime, twin=model_settings["twin"])
                    stored = StoredStates.of(encoder, runtime.store)
                    twin = model_settings["twin"] and encoder.blocks and encoder.random_twin(setup.seed)
                    beside = StoredStates.of(twin, runtime.store) if twin else None
                    tasks += [PortableTask(task, setup, stored, beside, work.resolve()) for task in todo]
        if tasks:
            engine.run_tasks(tasks, what="probing tasks", device=plans[0].setup.device)


def tuning_seeds(encoders: Sequence[Encoder]) -> tuple[int, ...]:
    """The fine-tuning seed of each model, as its folder is named; their numbers where folders do not tell.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> tuning_seeds([TinyEncoder(), TinyEncoder()])
        (0, 1)
    """
    folders = [folder_of(encoder) for encoder in encoders]
    named = tuple(seed for folder in folders if folder is not None and (seed := seed_of(folder)) is not None)
    return named if len(set(named)) == len(encoders) else tuple(range(len(encoders)))


def run_all(plan: ProbePlan, encoder: Encoder, work: Path, *, twin: bool, runtime: Runtime) -> list[TaskRun]:
    """Each task trained, or taken from where a run that was stopped left it."""
    runs = {task.name: load_run(task, work / f"{task.name}.run") for task in plan.tasks}
    todo = [task for task in plan.tasks if runs[task.name] is None]
    if todo:
        states, beside = _both_states(encoder, plan.setup, runtime, twin=twin)
        for task in todo:
            runs[task.name] = train_and_save(task, plan.setup, states, beside, work)
    return [run for run in runs.values() if run is not None]


def saved_answers(runs: list[TaskRun], setup: ProbeSetup, work: Path) -> dict[str, Path]:
    written = [write_predictions(run, setup.splits.scored, work) for run in runs]
    return {path.name: path for path in written}


def _probes(runs: list[TaskRun], setup: ProbeSetup, work: Path, of: str = "") -> dict[str, Path]:
    """The trained probes by name, with the model that they are `of` where there are several."""
    saved = [(run.task.name, number) for run in runs for number in range(setup.seeds)]
    return {f"{task}{of}-{number}.safetensors": probes_path(work, task, number) for task, number in saved}


def _code_lengths(
    plan: ProbePlan, encoder: Encoder, work: Path, *, twin: bool, samples: int, runtime: Runtime
) -> list[CodeLength]:
    states, beside = _both_states(encoder, plan.setup, runtime, twin=twin)
    coded = (plan.setup, states, beside, encoder.name, work)
    return [row for task in plan.tasks for row in online_code(task, *coded, samples=samples)]


def _both_states(
    encoder: Encoder, setup: ProbeSetup, runtime: Runtime, *, twin: bool
) -> tuple[ProbeStates, ProbeStates | None]:
    """Of the encoder and of its random-weights twin."""
    beside = _states(encoder.random_twin(setup.seed), setup.splits, runtime) if twin and encoder.blocks else None
    return _states(encoder, setup.splits, runtime), beside


def _states(encoder: Encoder, splits: Splits, runtime: Runtime) -> ProbeStates:
    train, scored = (runtime.extract(encoder, corpus) for corpus in (splits.train, splits.scored))
    return ProbeStates(train, scored, encoder.layers, encoder.width, encoder.fingerprint)


def left_out_of(probed: Sequence[CorpusRuns], plans: Sequence[ProbePlan]) -> dict[str, int]:
    left_out = {
        "training texts that are also in the scored split, left out": sum(
            plan.setup.division.left_out for plan in plans
        )
    }
    for plan in plans:
        left_out |= {f"{task}: no targets, or all with one label: nothing to learn": 1 for task in plan.unusable}
    for runs, splits in probed:
        corpus = f"{splits.name}, " if len(probed) > 1 else ""
        left_out |= {f"{corpus}{reason}": count for reason, count in splits.left_out().items()}
        for run in runs:
            if far := run.task.too_many(splits.scored):
                left_out[f"{run.task.name}: scored pairs of mentions with too many mentions between them"] = far
            unseen = int(run.targets.unseen.sum())
            left_out[f"{run.task.name}: scored labels unseen in training (scored as errors)"] = unseen
            late = sum(int((~outcome.learned.converged).sum()) for outcome in run.outcomes)
            overfitted = sum(int(outcome.learned.overfitted.sum()) for outcome in run.outcomes)
            left_out[f"{run.task.name}: probes that had not converged when their steps ended"] = late - overfitted
            left_out[f"{run.task.name}: probes that had overfitted at the first validation"] = overfitted
    return left_out

"""`lamina.probe`: every task at every layer, beside what the scores have to be compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from lamina.activations import Runtime
from lamina.activations.engines import RunsTasks
from lamina.analyses.probing.ambiguity import WORDS, Trace
from lamina.analyses.probing.breakdown import Part
from lamina.analyses.probing.checkpoints import TaskRun, kept_run, probes_path, together
from lamina.analyses.probing.elsewhere import StoredStates, TaskElsewhere, portable, train_and_keep
from lamina.analyses.probing.findings import probe_findings, probe_overview
from lamina.analyses.probing.mdl import CodeLength, online_code
from lamina.analyses.probing.planning import (
    Plan,
    TrainingAmounts,
    bootstrap_seconds,
    plan_run,
    schedule_parts,
    training_cost,
)
from lamina.analyses.probing.predictions import TEXTS, write_predictions, write_texts
from lamina.analyses.probing.reference import Reference, reference_table
from lamina.analyses.probing.running import Setup, States
from lamina.analyses.probing.suites import ProbedTexts, Source, probes_of
from lamina.analyses.probing.summary import BestLayer, Order, Reading, Step, Summary
from lamina.analyses.probing.tables import Control, Mixing, Probed, Score, Training, make_tables
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.learning import Splits
from lamina.errors import InputError
from lamina.framework.cache import run_folder
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
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
    version=4,
    tables={
        "scores": Table("One row per task, metric, probe, layer and seed; `all` stands for all seeds.",
                        Score.__annotations__),
        "training": Table("One row per probe: how its training went, and whether it has converged.", Training._fields),
        "mixing": Table("One row per task, seed, cumulative probe and layer it mixes.", Mixing._fields),
        "summary": Table("One row per task.", Summary._fields),
        "readings": Table("One row per task, layer and baseline: the score minus the baseline's; two-sided, max-T over "
                          "all rows.", Reading._fields),
        "best_layers": Table("One row per task and layer: whether another layer is better, by max-T over the other "
                             "layers.", BestLayer._fields),
        "steps": Table("One row per task, kind of probe and layer: what it adds to the layer before it; two-sided, "
                       "max-T over all rows of the kind of probe.", Step._fields),
        "order": Table("One row per pair of tasks and statistic: which comes first; two-sided, max-T over all pairs of "
                       "the statistic.", Order._fields),
        "traces": Table("One row per ambiguous target, label, layer and seed.", Trace._fields),
        "words": Table("One row per word of the texts in `traces`.", WORDS),
        "breakdown": Table("One row per task, group of targets and layer.", Part.__annotations__),
        "control": Table("One row per task: model and control on targets whose words training has seen; two-sided, "
                         "max-T over the tasks.", Control._fields),
        "mdl": Table("One row per task, layer and seed, with --mdl only.", CodeLength._fields, optional=True),
        "reference": Table("One row per task, model of the paper and statistic, with --reference only.",
                           Reference._fields, optional=True),
    },
    chapter="abilities",
    takes=177,
    report={"preset": "quick"},
    example="lamina probe minilm --corpus ewt --task pos --task dep --out results/probe",
)  # fmt: skip
def probe(
    encoders: Sequence[Encoder],
    sources: Sequence[Source],
    *,
    # Which texts and tasks that means is found when inputs are loaded.
    tasks: Annotated[  # noqa: ARG001
        Sequence[str | Task] | None,
        Setting(
            "A task, or any annotation of the corpus; by default the tasks of the catalogue that it carries, and all "
            "annotations of data that names its own.",
            option="--task",
        ),
    ] = None,
    suite: Annotated[
        Literal["pipeline", "qa"] | None,
        Setting(
            "Instead of a corpus: the tasks of a paper, each from the corpus that has it; the eight of the pipeline "
            "paper, or the five of the paper on question answering (single layers, macro-F1 over all labels)."
        ),
    ] = None,
    probes: Annotated[
        Sequence[Literal["cumulative", "layer", "mix"]] | None,
        Setting(
            "Probes: cumulative (layers 0 to l mixed, for every l), layer (layer l alone), mix (all mixed); all by "
            "default, only layer in the suite qa."
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
            "As the paper's code did it: scored texts decide when to stop, raw layer 0, dropout on, roots kept, layers "
            "not standardised."
        ),
    ] = False,
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
    learn. Intervals (95 %) resample documents and, from 5 seeds on, seeds; with fewer seeds no order of tasks is told.
    A folder of `finetune --seeds` is probed model by model: scores are means over the models, intervals over documents
    and, from 5 models on, models.

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
    asked: dict[str, Any] = {"probes": kinds, "preset": preset, "faithful": faithful, "metric": metric}
    asked |= {"seed": seed, "amounts": amounts, "device": runtime.training_device}
    plans = [plan_run(encoders[0].layers, source, **asked) for source in sources]
    seen = [seen_by_probes(encoder, faithful=faithful, seed=seed) for encoder in encoders]
    probed, files, lengths = [], {}, []
    trained_by = {"probes": kinds, "metric": metric, "seed": seed, "faithful": faithful, "twin": twin}
    if isinstance(runtime.engine, RunsTasks):
        train_elsewhere(seen, plans, trained_by, runtime.engine, runtime)
    for plan in plans:
        with kept_folder(seen, plan, trained_by, runtime) as work:
            runs, saved = _run_models(seen, plan, trained_by, work, runtime)
            probed.append(Probed(runs, plan.setup.splits))
            files |= saved | saved_answers(runs, plan.setup, work)
            if mdl:
                lengths += _code_lengths(plan, seen[0], work, twin=twin, samples=samples, runtime=runtime)
            if plan is plans[-1]:
                files[TEXTS] = write_texts([each.setup.splits.scored for each in plans], work)
    tables = make_tables(probed, encoders[0].name, samples=samples, seed=seed, faithful=faithful)
    if mdl:
        tables["mdl"] = pd.DataFrame(lengths, columns=list(CodeLength._fields))
    if reference:
        tables["reference"] = reference_table(tables["summary"]["task"])
    told = f"layer 0 raw piece embeddings with LayerNorm; dropout on, seed {seed}"
    return Tables(
        tables,
        left_out_of(probed, plans),
        model={"faithful": told} if faithful else {},
        data={"tasks": _described(probed)}
        | ({"train": plans[0].setup.splits.train.describe()} if len(plans) == 1 else {}),
        seeds=(seed, *range(plans[0].setup.seeds)),
        files=files,
        scored={run.task.name: len(run.targets.text) for each in probed for run in each.runs},
    )


def _described(probed: Sequence[Probed]) -> dict[str, Any]:
    """Task -> what its targets turned out to be and how they are scored."""
    told = (describe_task(run.task, each.splits.scored) for each in probed for run in each.runs)
    return {each.task.name: each.as_json() for each in told}


@probe.finds
def _findings(result: Result) -> Iterable[Finding]:
    return probe_findings(result.tables)


@probe.costs
def _cost(
    estimator: Estimator,
    encoders: Sequence[Encoder],
    sources: Sequence[Source],
    *,
    suite: str | None,
    probes: Sequence[str] | None,
    preset: str,
    twin: bool,
    mdl: bool,
    samples: int,
    faithful: bool,
    metric: Any,
    seed: int,
    seeds: int | None,
    schedule: str | Schedule | dict | None,
    **_: Any,
) -> Cost:
    """Encoding, training and scoring, and the bootstrap; as if no run had been kept."""
    amounts = TrainingAmounts.read(schedule, seeds)
    asked: dict[str, Any] = {"probes": probes_of(probes, suite), "preset": preset, "faithful": faithful}
    asked |= {"metric": metric, "seed": seed, "amounts": amounts, "device": estimator.runtime.training_device}
    total = Cost(passes=0)
    for number, encoder in enumerate(encoders):
        seen = seen_by_probes(encoder, faithful=faithful, seed=seed)
        both = [seen, *([seen.random_twin(seed)] if twin and seen.blocks and not number else [])]
        for source in sources:
            plan = plan_run(encoder.layers, source, **asked)
            splits = plan.setup.splits
            cost = estimator.encoding((splits.train, splits.scored), both)
            cost += training_cost(estimator, plan, both, mdl=mdl)
            # While a task is trained, the states of both encoders are in memory as they are stored.
            stored = estimator.runtime.residence(seen, 0).device is None
            held = cost.memory + stored * 2 * cost.tokens * encoder.layers * encoder.width
            total += cost + Cost(passes=0, seconds=bootstrap_seconds(plan, samples), memory=held)
    return total


@probe.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    return probe_overview(result)


def seen_by_probes(encoder: Encoder, *, faithful: bool, seed: int) -> Encoder:
    """With `faithful`, the model's own dropout stays on, and layer 0 is its raw piece embeddings with LayerNorm."""
    if not faithful:
        return encoder
    return LexicalFirst(DropoutEncoder(encoder, seed) if isinstance(encoder, HuggingFaceEncoder) else encoder)


def _refuse(encoders: Sequence[Encoder], sources: Sequence[Source], *, mdl: bool) -> None:
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


def kept_folder(
    encoders: Sequence[Encoder], plan: Plan, trained_by: Mapping[str, Any], runtime: Runtime
) -> AbstractContextManager[Path]:
    """The folder of what was trained on one model, or was put together from several."""
    models = [encoder.fingerprint for encoder in encoders]
    model = models[0] if len(models) == 1 else fingerprint_of(models)
    # Whatever a preset of this name means elsewhere: what is kept was trained with these very settings.
    settings = {**trained_by, "preset": str(plan.setup.preset)}
    question = question_key("probe", model, plan.setup.splits.fingerprint, settings)
    return run_folder(answer_key(question, probe.version), runtime.store)


def _run_models(
    encoders: Sequence[Encoder], plan: Plan, trained_by: Mapping[str, Any], work: Path, runtime: Runtime
) -> tuple[list[TaskRun], dict[str, Path]]:
    """The tasks of a plan on every model, put together, and the trained probes by name."""
    if len(encoders) == 1:
        runs = run_all(plan, encoders[0], work, twin=trained_by["twin"], runtime=runtime)
        return runs, _probes(runs, plan.setup, work)
    by_model, files = [], {}
    seeds = tuning_seeds(encoders)
    for seed, encoder in zip(seeds, encoders, strict=True):
        own = _own(trained_by, encoder, encoders)
        with kept_folder([encoder], plan, own, runtime) as folder:
            by_model.append(run_all(plan, encoder, folder, twin=own["twin"], runtime=runtime))
            files |= _probes(by_model[-1], plan.setup, folder, of=f"-seed-{seed}")
    return [together(runs, seeds) for runs in zip(*by_model, strict=True)], files


def _own(trained_by: Mapping[str, Any], encoder: Encoder, encoders: Sequence[Encoder]) -> dict[str, Any]:
    """What one of several models is trained by: random weights know nothing of the fine-tuning, one twin serves all."""
    return {**trained_by, "twin": trained_by["twin"] and encoder is encoders[0]}


def train_elsewhere(
    encoders: Sequence[Encoder],
    plans: Sequence[Plan],
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
                own = _own(trained_by, encoder, encoders)
                work = folders.enter_context(kept_folder([encoder], plan, own, runtime))
                todo = [task for task in plan.tasks if kept_run(task, work / f"{task.name}.run") is None]
                if todo:
                    _both_states(encoder, plan.setup, runtime, twin=own["twin"])
                    stored = StoredStates.of(encoder, runtime.store)
                    twin = own["twin"] and encoder.blocks and encoder.random_twin(setup.seed)
                    beside = StoredStates.of(twin, runtime.store) if twin else None
                    tasks += [TaskElsewhere(task, setup, stored, beside, work.resolve()) for task in todo]
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


def run_all(plan: Plan, encoder: Encoder, work: Path, *, twin: bool, runtime: Runtime) -> list[TaskRun]:
    """Each task trained, or taken from where a run that was stopped left it."""
    runs = {task.name: kept_run(task, work / f"{task.name}.run") for task in plan.tasks}
    todo = [task for task in plan.tasks if runs[task.name] is None]
    if todo:
        states, beside = _both_states(encoder, plan.setup, runtime, twin=twin)
        for task in todo:
            runs[task.name] = train_and_keep(task, plan.setup, states, beside, work)
    return [run for run in runs.values() if run is not None]


def saved_answers(runs: list[TaskRun], setup: Setup, work: Path) -> dict[str, Path]:
    written = [write_predictions(run, setup.splits.scored, work) for run in runs]
    return {path.name: path for path in written}


def _probes(runs: list[TaskRun], setup: Setup, work: Path, of: str = "") -> dict[str, Path]:
    """The trained probes by name, with the model that they are `of` where there are several."""
    saved = [(run.task.name, number) for run in runs for number in range(setup.seeds)]
    return {f"{task}{of}-{number}.safetensors": probes_path(work, task, number) for task, number in saved}


def _code_lengths(
    plan: Plan, encoder: Encoder, work: Path, *, twin: bool, samples: int, runtime: Runtime
) -> list[CodeLength]:
    states, beside = _both_states(encoder, plan.setup, runtime, twin=twin)
    coded = (plan.setup, states, beside, encoder.name, work)
    return [row for task in plan.tasks for row in online_code(task, *coded, samples=samples)]


def _both_states(encoder: Encoder, setup: Setup, runtime: Runtime, *, twin: bool) -> tuple[States, States | None]:
    """Of the encoder and of its random-weights twin."""
    beside = _states(encoder.random_twin(setup.seed), setup.splits, runtime) if twin and encoder.blocks else None
    return _states(encoder, setup.splits, runtime), beside


def _states(encoder: Encoder, splits: Splits, runtime: Runtime) -> States:
    train, scored = (runtime.extract(encoder, corpus) for corpus in (splits.train, splits.scored))
    return States(train, scored, encoder.layers, encoder.width, encoder.fingerprint)


def left_out_of(probed: Sequence[Probed], plans: Sequence[Plan]) -> dict[str, int]:
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

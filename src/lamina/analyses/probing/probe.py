"""`lamina.probe`: every task at every layer, beside what the scores have to be compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from lamina.activations import Runtime
from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator
from lamina.analyses.findings import cell, rows_of
from lamina.analyses.inputs import TrainedTexts
from lamina.analyses.probing.checkpoints import TaskRun, keep_run, kept_run, probes_path, run_folder
from lamina.analyses.probing.findings import probe_findings
from lamina.analyses.probing.mdl import CodeLength, online_code
from lamina.analyses.probing.planning import PROBES, bootstrap_seconds, plan_run, training_cost
from lamina.analyses.probing.running import Setup, States, partials, run_task
from lamina.analyses.probing.statistics import Order, OrderTest, Summary
from lamina.analyses.probing.tables import Mixing, Part, Score, make_tables, write_predictions
from lamina.analyses.probing.trace import WORDS, Trace
from lamina.analyses.settings import Preset, Samples, Seed, Seeds, Setting, Twin
from lamina.corpora.learning import Splits
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.variants import DropoutEncoder, LexicalFirst
from lamina.results import Finding, Result, answer_key, question_key
from lamina.tasks import Task
from lamina.training.provenance import refuse_seen


@analysis(
    title="Edge probing",
    question="At which layers can the answer to each linguistic question be read from the vectors?",
    method=(
        "A probe is a small network that sees the vectors of the marked words and nothing else; it learns a task's "
        "labels on training texts, stops by training documents kept apart, and is scored by F1 on other texts. P(l) "
        "mixes layers 0 to l with learned weights. Every score is compared with the best constant answer, with a twin "
        "of the model that has random weights, and with control labels drawn at random per word, which a probe can "
        "only memorise."
    ),
    cites=("Tenney et al. 2019", "Hewitt and Liang 2019", "Voita and Titov 2020"),
    reads=TrainedTexts(),
    version=1,
    tables={
        "scores": Table("One row per task, probe, layer and seed; `all` stands for all seeds.", Score.__annotations__),
        "mixing": Table("One row per task, seed, cumulative probe and layer it mixes.", Mixing._fields),
        "summary": Table("One row per task.", Summary._fields),
        "order": Table("One row per pair of tasks and statistic.", Order._fields),
        "order_tests": Table("One row per pair of tasks and statistic.", OrderTest._fields),
        "traces": Table("One row per ambiguous target, label, layer and seed.", Trace._fields),
        "words": Table("One row per word of the texts in `traces`.", WORDS),
        "breakdown": Table("One row per task, group of targets and layer.", Part.__annotations__),
        "control": Table("One row per task: the share of scored targets whose words were seen in training.",
                         "task, share_seen"),
        "mdl": Table("One row per task, layer and seed, with --mdl only.", CodeLength._fields, optional=True),
    },
    chapter="abilities",
    report={"preset": "quick"},
    example="lamina probe minilm --corpus ewt --task pos --task dep --out results/probe",
)  # fmt: skip
def probe(
    encoder: Encoder,
    splits: Splits,
    *,
    tasks: Annotated[
        Sequence[str] | None,
        Setting("A task to probe; all that the corpus has labels for by default.", option="--task"),
    ] = None,
    probes: Annotated[
        Sequence[Literal["cumulative", "layer", "mix"]],
        Setting("Probes: cumulative (layers 0 to l mixed, for every l), layer (layer l alone), mix (all mixed)."),
    ] = PROBES,
    seeds: Seeds = None,
    preset: Preset = "quick",
    faithful: Annotated[
        bool,
        Setting("As the paper's code did it: scored texts decide when to stop, raw layer 0, dropout on, roots kept."),
    ] = False,
    metric: Annotated[
        Literal["micro", "macro"] | None,
        Setting("F1 of all decisions together (micro) or the labels' mean F1 (macro); the task's own by default."),
    ] = None,
    mdl: Annotated[bool, Setting("Measure the description length of the labels too.")] = False,
    twin: Twin = True,
    seed: Seed = 0,
    samples: Samples = 1000,
    runtime: Runtime,
) -> Tables:
    """How well each layer tells part of speech, dependencies, roles and more, and where the answers appear.

    Probes learn from the corpus's train, a part of which decides when they stop, and are scored on dev (or test).
    Beside every score: the best constant answer, the random-weights twin, and a control task that only memory can
    learn. Intervals (95 %) resample seeds and texts together.

    By default a task is scored by macro-F1 where that is its custom (`ques`, `sup`), else by micro-F1; what decides
    when to stop is micro-F1 either way. Predictions (Parquet) and trained probes (safetensors) come with the result.
    A run that was stopped continues when the same is asked again.

    Example:
        >>> encoder, splits = lamina.load_encoder("minilm"), lamina.load_splits("ewt")  # doctest: +SKIP
        >>> probe(encoder, splits, tasks=["pos"]).tables["summary"]["task"].tolist()  # doctest: +SKIP
        ['pos']
    """
    for part in (splits.train, splits.scored):
        refuse_seen(encoder, part)
    asked = {"probes": list(probes), "preset": preset, "faithful": faithful, "metric": metric, "seed": seed}
    chosen, setup = plan_run(
        encoder.layers, splits, tasks=tasks, seeds=seeds, device=runtime.training_device, **asked
    )  # fmt: skip
    seen = seen_by_probes(encoder, faithful=faithful, seed=seed)
    # Whatever a preset of this name means elsewhere: what is kept was trained with these very settings.
    trained_by = asked | {"twin": twin, "seeds": setup.seeds, "preset": str(setup.preset)}
    question = question_key("probe", seen.fingerprint, setup.splits.fingerprint, trained_by)
    with run_folder(answer_key(question, probe.version), runtime.store) as work:
        runs = _run_all(chosen, setup, seen, work, twin=twin, runtime=runtime)
        files = _files(runs, setup, work)
        tables = make_tables(runs, setup.splits, encoder.name, samples=samples, seed=seed)
        if mdl:
            tables["mdl"] = _code_lengths(chosen, setup, seen, work, twin=twin, runtime=runtime)
    told = f"layer 0 raw piece embeddings with LayerNorm; dropout on, seed {seed}"
    return Tables(
        tables,
        _left_out(runs, setup),
        model={"faithful": told} if faithful else {},
        data={"train": setup.splits.train.describe()},
        seeds=(seed, *range(setup.seeds)),
        files=files,
    )


@probe.finds
def _findings(result: Result) -> Iterable[Finding]:
    return probe_findings(result.tables)


@probe.costs
def _cost(
    estimator: Estimator,
    encoder: Encoder,
    whole: Splits,
    *,
    twin: bool,
    mdl: bool,
    samples: int,
    faithful: bool,
    seed: int,
    **settings: Any,
) -> Cost:
    """Encoding, training and scoring, and the bootstrap; as if no run had been kept."""
    device = estimator.runtime.training_device
    plan = plan_run(encoder.layers, whole, faithful=faithful, seed=seed, device=device, **settings)
    seen = seen_by_probes(encoder, faithful=faithful, seed=seed)
    encoders = [seen, *([seen.random_twin(seed)] if twin and seen.blocks else [])]
    splits = plan.setup.splits
    cost = estimator.encoding((splits.train, splits.scored), encoders)
    cost += training_cost(estimator, plan, encoders, mdl=mdl)
    # While a task is trained, the states of one encoder are held as they are stored.
    held = cost.memory + 2 * cost.tokens * encoder.layers * encoder.width
    return cost + Cost(passes=0, seconds=bootstrap_seconds(plan, samples), memory=held)


@probe.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Scores of the first and the full probe, and where each task is resolved."""
    corpus = result.provenance.corpus
    columns = ("task", "F1 of P(0)", "F1 of P(L)", "centre of gravity", "expected layer", "selectivity")
    rows = [
        (
            row.task,
            cell(row.f1_first),
            cell(row.f1_full),
            cell(row.center_of_gravity, row.cog_low, row.cog_high),
            cell(row.expected_layer, row.el_low, row.el_high),
            cell(row.selectivity),
        )
        for row in rows_of(result.tables["summary"])
    ]
    yield Overview(f"{result.provenance.model['name']} on {corpus['name']} ({corpus.get('split', '')})", columns, rows)


def seen_by_probes(encoder: Encoder, *, faithful: bool, seed: int) -> Encoder:
    """With `faithful`, the model's own dropout stays on, and layer 0 is its raw piece embeddings with LayerNorm."""
    if not faithful:
        return encoder
    return LexicalFirst(DropoutEncoder(encoder, seed) if isinstance(encoder, HuggingFaceEncoder) else encoder)


def _run_all(
    tasks: list[Task], setup: Setup, encoder: Encoder, work: Path, *, twin: bool, runtime: Runtime
) -> list[TaskRun]:
    """Each task trained, or taken from where a run that was stopped left it."""
    runs = {task.name: kept_run(task, work / f"{task.name}.run") for task in tasks}
    todo = [task for task in tasks if runs[task.name] is None]
    if todo:
        states, beside = _both_states(encoder, setup, runtime, twin=twin)
        for task in todo:
            runs[task.name] = run = run_task(task, setup, states, beside, work)
            keep_run(run, work / f"{task.name}.run")
            for partial in partials(task, work):
                partial.unlink(missing_ok=True)
    return [run for run in runs.values() if run is not None]


def _files(runs: list[TaskRun], setup: Setup, work: Path) -> dict[str, Path]:
    """Predictions and trained probes, by name."""
    written = [write_predictions(run, setup.splits.scored, work) for run in runs]
    probes = [probes_path(work, run.task.name, number) for run in runs for number in range(setup.seeds)]
    return {path.name: path for path in (*written, *probes)}


def _code_lengths(
    tasks: list[Task], setup: Setup, encoder: Encoder, work: Path, *, twin: bool, runtime: Runtime
) -> pd.DataFrame:
    states, beside = _both_states(encoder, setup, runtime, twin=twin)
    rows = [row for task in tasks for row in online_code(task, setup, states, beside, encoder.name, work)]
    return pd.DataFrame(rows, columns=list(CodeLength._fields))


def _both_states(encoder: Encoder, setup: Setup, runtime: Runtime, *, twin: bool) -> tuple[States, States | None]:
    """Of the encoder and of its random-weights twin."""
    beside = _states(encoder.random_twin(setup.seed), setup.splits, runtime) if twin and encoder.blocks else None
    return _states(encoder, setup.splits, runtime), beside


def _states(encoder: Encoder, splits: Splits, runtime: Runtime) -> States:
    train, scored = (runtime.extract(encoder, corpus) for corpus in (splits.train, splits.scored))
    return States(train, scored, encoder.layers, encoder.width, encoder.fingerprint)


def _left_out(runs: list[TaskRun], setup: Setup) -> dict[str, int]:
    left_out = {"training texts that are also in the scored split, left out": setup.division.left_out}
    for run in runs:
        if far := run.task.too_many(setup.splits.scored):
            left_out[f"{run.task.name}: scored pairs of mentions with too many mentions between them"] = far
        unseen = int(run.targets.unseen.sum())
        left_out[f"{run.task.name}: scored labels unseen in training (scored as errors)"] = unseen
    return left_out

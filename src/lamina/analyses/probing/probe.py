"""`lamina.probe`: every task, every layer, beside what the numbers have to be compared with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lamina.activations import extract
from lamina.analyses.probing.faithful import described, seen_by_probes
from lamina.analyses.probing.keeping import run_folder
from lamina.analyses.probing.mdl import CodeLength, online_code
from lamina.analyses.probing.outcomes import TaskRun, keep_run, kept_run
from lamina.analyses.probing.planning import PROBES, plan_run
from lamina.analyses.probing.predictions import write_predictions
from lamina.analyses.probing.running import Setting, States, partials, run_task
from lamina.analyses.probing.splits import Splits, load_splits
from lamina.analyses.probing.tables import make_tables
from lamina.analyses.unseen import refuse_seen
from lamina.encoders import Encoder
from lamina.results import Provenance, Result, result_key
from lamina.tasks import Task


def probe(
    encoder: Encoder,
    corpus: Splits | str | Path,
    *,
    tasks: Sequence[str] | None = None,
    probes: Sequence[str] = PROBES,
    preset: str = "quick",
    seeds: int | None = None,
    twin: bool = True,
    faithful: bool = False,
    metric: str | None = None,
    seed: int = 0,
    samples: int = 1000,
    mdl: bool = False,
    device: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Result:
    """Edge probing: how well each layer's vectors tell the labels of a task, and at which layers the answer appears.

    Args:
        encoder: whose layers.
        corpus: a name or path (train is learned from, dev is scored), or `load_splits(...)`.
        tasks: names of tasks; all that the corpus carries if not given.
        probes: `cumulative` (mixing layers 0..l, for every l), `layer` (layer l alone), `mix` (all layers mixed).
        preset: `quick` (a laptop, minutes) or `paper` (the paper's schedule).
        seeds: how many; the preset's number if not given.
        twin: put the random-weights twin beside the model.
        faithful: as the paper's code did it: stopping on the scored split, layer 0 the raw word embeddings with
            LayerNorm, the model's own dropout left on, dependency roots kept.
        metric: `micro` (F1 of all decisions together) or `macro` (the mean of the labels' F1, over labels that hold of
            some scored target); the task's own if not given: macro for `ques` and `sup`, else micro. When to stop is
            decided by micro-F1 either way.
        seed: of the division of training documents, the order of texts, control labels, the twin and the bootstrap.
        samples: bootstrap samples.
        mdl: measure the labels' description length by online code too, on every single layer.
        device: where probes are trained; the encoder's own if not given.
        root: where activations are stored.
    """
    whole = corpus if isinstance(corpus, Splits) else load_splits(corpus, seed=seed)
    for part in (whole.train, whole.scored):
        refuse_seen(encoder, part)
    chosen, setting = plan_run(
        encoder.layers,
        whole,
        tasks=tasks,
        probes=probes,
        preset=preset,
        seeds=seeds,
        faithful=faithful,
        metric=metric,
        seed=seed,
        device=device,
    )
    splits = setting.splits
    seen = seen_by_probes(encoder, faithful=faithful, seed=seed)
    asked = {
        "probes": list(probes),
        "preset": preset,
        "twin": twin,
        "faithful": faithful,
        "metric": metric,
        "seed": seed,
    }
    # Whatever a preset of this name means elsewhere: what is kept was trained by these very settings.
    trained_by = asked | {"seeds": setting.seeds, "preset": str(setting.preset)}
    key = result_key("probe", seen.fingerprint, splits.fingerprint, trained_by)
    with run_folder(key, root) as work:
        runs = _run_all(chosen, setting, seen, work, twin=twin, root=root)
        files = _files(runs, setting, work)
        tables = make_tables(runs, splits, encoder.name, samples=samples, seed=seed)
        if mdl:
            tables["mdl"] = _code_lengths(chosen, setting, seen, work, twin=twin, root=root)
    parameters = asked | {"tasks": tasks and list(tasks), "seeds": seeds, "samples": samples, "mdl": mdl}
    model = described(encoder, faithful=faithful, seed=seed)
    texts = whole.describe() | {"train": splits.train.describe()}
    used = (seed, *range(setting.seeds))
    provenance = Provenance(model, texts, parameters, used, _left_out(runs, setting))
    return Result("probe", tables, provenance, files)


def _run_all(
    tasks: list[Task],
    setting: Setting,
    encoder: Encoder,
    work: Path,
    *,
    twin: bool,
    root: str | os.PathLike[str] | None,
) -> list[TaskRun]:
    """Each task trained, or taken from where a run that was stopped left it."""
    runs = {task.name: kept_run(task, work / f"{task.name}.run") for task in tasks}
    todo = [task for task in tasks if runs[task.name] is None]
    if todo:
        states, beside = _both_states(encoder, setting, root, twin=twin)
        for task in todo:
            runs[task.name] = run = run_task(task, setting, states, beside, work)
            keep_run(run, work / f"{task.name}.run")
            for partial in partials(task, work):
                partial.unlink(missing_ok=True)
    return [run for run in runs.values() if run is not None]


def _files(runs: list[TaskRun], setting: Setting, work: Path) -> dict[str, Path]:
    """Predictions and trained probes, by name."""
    written = [write_predictions(run, setting.splits.scored, work) for run in runs]
    probes = [work / f"{run.task.name}-{number}.safetensors" for run in runs for number in range(setting.seeds)]
    return {path.name: path for path in (*written, *probes)}


def _code_lengths(
    tasks: list[Task],
    setting: Setting,
    encoder: Encoder,
    work: Path,
    *,
    twin: bool,
    root: str | os.PathLike[str] | None,
) -> pd.DataFrame:
    states, beside = _both_states(encoder, setting, root, twin=twin)
    rows = [row for task in tasks for row in online_code(task, setting, states, beside, encoder.name, work)]
    return pd.DataFrame(rows, columns=list(CodeLength._fields))


def _both_states(
    encoder: Encoder, setting: Setting, root: str | os.PathLike[str] | None, *, twin: bool
) -> tuple[States, States | None]:
    """Of the encoder and of its random-weights twin."""
    beside = _states(encoder.random_twin(setting.seed), setting.splits, root) if twin and encoder.blocks else None
    return _states(encoder, setting.splits, root), beside


def _states(encoder: Encoder, splits: Splits, root: str | os.PathLike[str] | None) -> States:
    train, scored = (extract(encoder, corpus, root=root) for corpus in (splits.train, splits.scored))
    return States(train, scored, encoder.layers, encoder.width, encoder.fingerprint)


def _left_out(runs: list[TaskRun], setting: Setting) -> dict[str, int]:
    left_out = {"training texts that stand in the scored split too": setting.division.left_out}
    for run in runs:
        if far := run.task.too_many(setting.splits.scored):
            left_out[f"{run.task.name}: scored pairs of mentions with too many mentions between them"] = far
        left_out[f"{run.task.name}: scored labels that training never saw, counted as missed"] = int(
            run.targets.unseen.sum()
        )
    return left_out

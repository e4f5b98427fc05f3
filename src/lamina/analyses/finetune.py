"""Fine-tuning a model on a task: the result is a model folder, with its learning curve and its scores."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pandas as pd

from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator, memory_now
from lamina.analyses.given_data import as_part
from lamina.analyses.inputs import FORMAT, LIMIT, MODEL, Input, Loaded, Reads
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.analyses.models import as_encoder, describe_models, short_name
from lamina.analyses.settings import Declared, Seed, Setting
from lamina.corpora.questions import Question
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import InputError, ModelError, TaskError
from lamina.findings import Finding, cell, number
from lamina.results import Result
from lamina.training.heads import source_of, with_padding
from lamina.training.layers import refuse_layers
from lamina.training.objective import ALL, COLUMNS, SEED_COLUMNS, text_of
from lamina.training.provenance import refuse_used
from lamina.training.reading import Sets, apart, load_sets, sets_of_splits
from lamina.training.recipes import LOWER_IS_BETTER, RECIPES, Plan, Schedule, Task, best_step, by_seed, make_plans

if TYPE_CHECKING:
    from lamina.activations.runtime import Runtime
    from lamina.corpora import Corpus
    from lamina.training.finetune import Finetuning

_CURVE = ("seed", "step", "epoch", "split", "metric", "value")
_BASELINE = ("metric", "value")
_GRID = ("lr", "batch", "schedule", "epochs", "step", "metric", "value", "chosen")
_METRICS = {"f1": "F1", "exact_match": "exact match"}
"""Metric -> its name in a sentence, where that is another."""
_SCORED = {
    "pos": "words",
    "tag": "words",
    "ner": "entities",
    "classify": "texts",
    "pairs": "pairs",
    "mlm": "hidden pieces",
}
"""Task -> what is counted; questions for all others."""


LEARNED = Declared(
    "annotation",
    str | None,
    None,
    Setting("The annotation to learn; by default the task's own, or the only one that fits (classify, pairs, tag)."),
)


@dataclass(frozen=True)
class TrainingSets(Reads):
    """A transformer and data with three sets: for training, for selection, and for scoring."""

    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `finetune` that another analysis does not have, with their values."""

    inputs: ClassVar = (
        MODEL,
        Input(
            "data",
            "A catalogue name (`lamina data list`), the path of a file or folder, or hf:OWNER/NAME.",
            option="--data",
            kind="questions",
        ),
    )

    @property
    def options(self) -> tuple[Declared, ...]:
        """See `Reads.options`."""
        return (FORMAT, LEARNED, replace(LIMIT, about=Setting("Take only the first N texts of each set.", min=1)))

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`; what may not be scored is refused here."""
        settings = {**self.fixed, **settings}
        task: Task = settings["task"]
        _plans(settings)
        if settings["attention_window"] is not None and RECIPES[task].kind != "tags":
            raise TaskError(f"an attention window is for pos, ner and tag, which label words; {task} does not")
        encoder = as_encoder(given["model"], {}, runtime)
        if not isinstance(encoder, HuggingFaceEncoder):
            raise ModelError(f"{encoder.name} has no blocks to fine-tune; name a transformer")
        with_padding(encoder.tokenizer)
        refuse_layers(encoder, freeze=settings["freeze"], reset=settings["reset"])
        sets = apart(as_sets(given["data"], options, settings, encoder))
        refuse_used(source_of(encoder), map(text_of, sets.scored), f"{sets.name} (scored)")
        names = (short_name(given["model"], encoder), Path(sets.name).stem, task)
        return Loaded((encoder, sets), describe_models((encoder,)), sets.describe(), names)

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """A report has a model learn to answer the stories that lamina makes."""
        return {"model": encoder, "data": "stories"}


@analysis(
    title="Learning a task",
    question="How does the model learn, step by step, and how well does it do on texts it has not seen?",
    method=(
        "The task's head is put on the model and both are trained together; settings not given are as in the task's "
        "paper. The step that does best on the selection set is kept and scored once, on texts of its own; intervals "
        "resample documents. The baseline always answers what is most frequent in training. The default report trains "
        "for a minute or two on short stories that lamina makes (Where is Ann? Where is the kite?, after the first two "
        "bAbI tasks): enough to answer some rightly and some wrongly."
    ),
    cites=("van Aken et al. 2019", "Zhao et al. 2020"),
    reads=TrainingSets(),
    # 2: the models of all seeds are kept and scores are their means; of stories to classify, the newest facts are kept.
    # 3: a limit takes as many questions of each task.
    version=3,
    tables={
        "curve": Table("One row per seed, step noted, split and metric; select is the selection set.", _CURVE),
        "scores": Table(
            "One row per task of the data (all: all together) and metric, on the scored texts; of several seeds the "
            "mean.",
            COLUMNS,
        ),
        "baseline": Table("One row per metric: the score of what is most frequent in training.", _BASELINE),
        "grid": Table("One row per setting tried; only with --grid.", _GRID, optional=True),
        "seeds": Table(
            "One row per seed and metric, on the scored texts (all: the mean); only with --seeds.",
            SEED_COLUMNS,
            optional=True,
        ),
    },
    chapter="answering",
    takes=70,
    report={
        "task": "babi",
        "babi_tasks": (1, 2),
        "max_steps": 120,
        "lr": 2e-4,
        "batch": 16,
        "schedule": "constant",
    },
    example="lamina finetune minilm --task pos --data ewt --max-steps 200 --out runs/pos",
)
def finetune(
    encoder: HuggingFaceEncoder,
    sets: Sets,
    *,
    task: Annotated[
        Task,
        Setting(
            "Task to learn: answers to questions (squad, hotpot, babi), labels of words (pos, ner; tag for any), "
            "classes of texts (classify, pairs) or masked words (mlm)."
        ),
    ],
    epochs: Annotated[float | None, Setting("How often each text is seen; the task's own by default.", min=0)] = None,
    lr: Annotated[float | None, Setting("Highest learning rate; the task's own by default.", min=0)] = None,
    batch: Annotated[int | None, Setting("Texts (or windows) per step; the task's own by default.", min=1)] = None,
    schedule: Annotated[
        Schedule | None,
        Setting(
            "Learning rate over time: constant, linear (falls to 0) or warmup (rises first); the task's by default."
        ),
    ] = None,
    max_steps: Annotated[int | None, Setting("Stop after this many steps.", min=1)] = None,
    grid: Annotated[
        bool,
        Setting(
            "Try several learning rates, batch sizes, schedules and numbers of epochs, where these are not given; keep "
            "what does best on the selection set."
        ),
    ] = False,
    length: Annotated[int | None, Setting("Most word pieces in one row; the task's own by default.", min=8)] = None,
    attention_window: Annotated[
        int | None, Setting("For pos, ner and tag: words see at most this many words to each side.", min=0)
    ] = None,
    setting: Annotated[  # noqa: ARG001 - how `TrainingSets` reads the data
        Literal["distractor", "support"],
        Setting("HotpotQA: with distractors, or the supporting sentences alone."),
    ] = "distractor",
    babi_tasks: Annotated[  # noqa: ARG001 - how `TrainingSets` reads the data
        Sequence[int] | None, Setting("Some of bAbI's tasks (or of the stories'); all by default.", min=1)
    ] = None,
    freeze: Annotated[
        int | None, Setting("Keep the weights of the layers from 0 (the embeddings) to this one.", min=0)
    ] = None,
    reset: Annotated[int, Setting("Let so many of the top blocks begin with new random weights.", min=0)] = 0,
    seeds: Annotated[
        int, Setting("How often it is trained, each time with the next seed; from 2 on in folders `seed-N`.", min=1)
    ] = 1,
    seed: Seed = 0,
    resume: Annotated[bool, Setting("Continue a run that was stopped.", counts=False)] = True,
    work: Path,
) -> Tables:
    """Fine-tune a model: train, keep the step that does best on the selection set, score once.

    Training uses the data's train, selection its dev, scoring its test. Texts that are in two of the three sets are
    left out and counted; a model is never scored on texts that it was trained on before.

    The result is a model folder that loads wherever a Hugging Face model does, and wherever lamina takes a model. A run
    that was stopped continues: run the same command again.

    Example:
        >>> result = lamina.finetune("minilm", "ewt", task="pos", out="runs/pos", max_steps=100)  # doctest: +SKIP
        >>> result.tables["scores"]  # doctest: +SKIP
    """
    asked = {"epochs": epochs, "lr": lr, "batch": batch, "schedule": schedule, "max_steps": max_steps, "grid": grid}
    asked |= {"freeze": freeze, "reset": reset}
    learning = learning_of(encoder, sets, task, length=length, attention_window=attention_window, seed=seed)
    if not resume:
        shutil.rmtree(work)
        work.mkdir()
    made = learning.run(_plans({"task": task, "seed": seed, **asked}), work, seeds=seeds)
    counts = made.tables["scores"]["count"]
    return Tables(made.tables, made.skipped, files=made.files, scored={task: int(counts.max())})


@finetune.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The score beside the baseline, the tasks of the data that differ most, and whether learning had ended."""
    scores = result.tables["scores"]
    # Tuned folders of older versions have no column for tasks where there are none.
    tasks = scores["task"] if "task" in scores.columns else pd.Series(ALL, index=scores.index)
    whole = scores[(tasks == ALL) & scores["value"].notna()]
    if whole.empty:
        return
    yield _beside_baseline(result, whole.to_dict("records")[0])
    yield from _between_seeds(result.tables.get("seeds"), str(whole["metric"].iloc[0]))
    yield from _between_tasks(scores[(tasks != ALL) & (scores["metric"] == whole["metric"].iloc[0])])
    yield from _still_learning(result.tables["curve"])


@finetune.shows
def _overview(result: Result) -> Iterable[Overview]:
    """The scores."""
    scores, about = result.tables["scores"], result.provenance
    has_tasks = "task" in scores.columns and scores["task"].nunique() > 1
    rows = [
        (*((row["task"],) if has_tasks else ()), row["metric"], f"{row['count']:,}", cell(*_interval(row)))
        for row in scores.to_dict("records")
    ]
    columns = (*(("task",) if has_tasks else ()), "metric", "count", "value")
    yield Overview(f"{about.model['name']}: {about.parameters['task']} on {about.corpus['name']}", columns, rows)


@finetune.costs
def _cost(
    _: Estimator,
    encoder: HuggingFaceEncoder,
    sets: Sets,
    *,
    task: Task,
    length: int | None,
    attention_window: int | None,
    seed: int,
    seeds: int,
    **settings: Any,
) -> Cost:
    """A few real steps, a part of an evaluation and a checkpoint are timed."""
    plans = _plans({"task": task, "seed": seed, **settings})
    learning = learning_of(encoder, sets, task, length=length, attention_window=attention_window, seed=seed)
    expected = learning.expect(plans, seeds=seeds)
    texts = len(sets.train) + len(sets.select) + len(sets.scored)
    return Cost(
        passes=len(plans) + seeds - 1,
        texts=texts,
        tokens=expected.tokens,
        steps=expected.steps,
        seconds=expected.seconds,
        memory=memory_now(),
        disk=expected.size,
    )


def learning_of(
    encoder: HuggingFaceEncoder, sets: Sets, task: Task, *, length: int | None, **settings: Any
) -> Finetuning:
    """What is to be learned; imported here, since transformers' Trainer is slow to import."""
    from lamina.training.finetune import Finetuning

    return Finetuning.of(encoder, sets, task, length=_pieces(task, encoder, length, sets), **settings)


def _plans(settings: Mapping[str, Any]) -> list[Plan]:
    names = ("epochs", "lr", "batch", "schedule", "seed", "max_steps", "grid", "freeze", "reset")
    return make_plans(RECIPES[settings["task"]], **{name: settings[name] for name in names})


def _pieces(task: Task, encoder: HuggingFaceEncoder, length: int | None, sets: Sets | None = None) -> int:
    """Most pieces in one row: as asked for, or as the task's recipe has it, within the model's limit.

    Stories whose answer is a class are as long as those whose answer is a span.
    """
    stories = task == "classify" and sets is not None and isinstance(sets.train[0], Question)
    own = RECIPES["babi" if stories else task].length
    return min(length or own, encoder.limit or own)


def as_sets(data: Any, options: Mapping[str, Any], settings: Mapping[str, Any], encoder: HuggingFaceEncoder) -> Sets:
    """The three sets of data that is named or given, for the task and the view that the settings say."""
    limit = options["limit"]
    if isinstance(data, Sets):
        return replace(data, train=data.train[:limit], select=data.select[:limit], scored=data.scored[:limit])
    task = settings["task"]
    if isinstance(data, Mapping):
        return sets_of_splits({split: as_part(data, split) for split in ("train", "dev", "test")}, task, limit)
    if not isinstance(data, str | Path):
        raise InputError(
            "data is a name, a path, train, dev and test by name (a dict, a datasets.DatasetDict) or "
            f"lamina.training.reading.Sets; got {type(data).__name__}"
        )
    chosen = {name: settings[name] for name in ("setting", "babi_tasks")}
    length = _pieces(task, encoder, settings["length"])
    return load_sets(
        task, data, format=options["format"], limit=limit, length=length, annotation=options["annotation"], **chosen
    )


def _beside_baseline(result: Result, row: Mapping[Any, Any]) -> Finding:
    metric, (value, low, high) = row["metric"], _interval(row)
    task = result.provenance.parameters["task"]
    what = f"{_METRICS.get(metric, metric)} {number(value, low, high)} on {int(row['count']):,} scored "
    what += _SCORED.get(task, "questions")
    table = result.tables.get("baseline")
    known = [] if table is None else [float(each) for each in table.loc[table["metric"] == metric, "value"]]
    if not known:
        return legacy_finding(f"The fine-tuned model reaches {what}.", "open", value, low, high)
    against = known[0]
    status = status_of(low, high, against)
    better = value < against if metric in LOWER_IS_BETTER else value > against
    if status == "clear" and better:
        said = f"The model learned {task}: {what}"
    elif status == "open":
        said = f"Whether the model learned {task} is undecided: {what}"
    else:
        said = f"The model learned no more than what is most frequent in training: {what}"
    text = f"{said}; always answering what is most frequent in training gives {number(against)}."
    return legacy_finding(text, status, value, low, high, against)


def _between_tasks(rows: pd.DataFrame) -> Iterator[Finding]:
    """The strongest and the weakest task of the data, where there are several."""
    ranked = sorted(rows[rows["value"].notna()].to_dict("records"), key=lambda row: row["value"])
    if len(ranked) < 2:
        return
    worst, best = ranked[0], ranked[-1]
    said = [f"{each['task']} ({number(*_interval(each))})" for each in (best, worst)]
    clear = worst["high"] < best["low"]
    text = f"It does best on {said[0]} and worst on {said[1]}" + ("." if clear else "; the intervals overlap.")
    yield legacy_finding(text, "clear" if clear else "open", *_interval(best), against=float(worst["value"]))


def _between_seeds(table: pd.DataFrame | None, metric: str) -> Iterator[Finding]:
    """How far models of other seeds differ."""
    if table is None:
        return
    own = table[table["metric"] == metric]
    mean, single = own[own["seed"] == ALL].to_dict("records")[0], own[own["seed"] != ALL]["value"]
    yield legacy_finding(
        f"Over {len(single)} seeds {_METRICS.get(metric, metric)} is {number(*_interval(mean))} on average, from "
        f"{number(single.min())} to {number(single.max())}.",
        "open", *_interval(mean),
    )  # fmt: skip


def _interval(row: Mapping[Any, Any]) -> tuple[float, float, float]:
    return float(row["value"]), float(row["low"]), float(row["high"])


def _still_learning(curve: pd.DataFrame) -> Iterator[Finding]:
    """Where the last step was the best, of most seeds, more steps may do better."""
    runs = by_seed(curve)
    select = runs[0][runs[0]["split"] == "select"]
    if select["step"].nunique() < 2:
        return
    metric, last = select["metric"].iloc[0], int(select["step"].max())
    ended = [best_step(each) == last for each in runs]
    if 2 * sum(ended) > len(runs):
        at_end = (curve["split"] == "select") & (curve["metric"] == metric) & (curve["step"] == last)
        value = float(curve.loc[at_end, "value"].mean())
        which = "" if len(runs) == 1 else f" for {sum(ended)} of {len(runs)} seeds"
        text = (
            f"The last step ({last:,}) was the best on the selection set{which} ({_METRICS.get(metric, metric)} "
            f"{number(value)}): longer training may do better."
        )
        yield legacy_finding(text, "open", value)

"""Fine-tuning a model on a task: the result is a model folder, with its learning curve and its scores."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pandas as pd

from lamina.corpora.questions.question import Question
from lamina.errors import InputError, ModelError, TaskError
from lamina.framework.declare import ComparedValues, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.inputs import (
    FILES,
    FIRST,
    FORMAT,
    LIMIT,
    MODEL,
    SPLIT_FROM,
    Input,
    LoadedInputs,
    Reads,
    as_encoder,
    as_part,
    describe_models,
    short_name,
)
from lamina.framework.settings import DeclaredSetting, Seed, Setting
from lamina.models import Encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, number, rows_of
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast
from lamina.training.heads import refuse_layers, source_of, with_padding
from lamina.training.objective import ALL, COLUMNS, CONTRASTS, SEED_COLUMNS, SPREAD_COLUMNS, text_of
from lamina.training.provenance import refuse_used
from lamina.training.reading import Portion, Sets, apart, load_sets, sets_of_splits
from lamina.training.settings import (
    LOWER_IS_BETTER,
    PAPER_SETTINGS,
    Schedule,
    Task,
    TrainingPlan,
    Vary,
    best_step,
    by_seed,
    make_plans,
)

if TYPE_CHECKING:
    from lamina.activations.runtime import Runtime
    from lamina.corpora import Corpus
    from lamina.training.finetune import Finetuning

CURVE_COLUMNS = ("seed", "step", "epoch", "split", "metric", "value")
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
    "mlm": "masked tokens",
}
"""Task -> what is counted; questions for all others."""


LEARNED = DeclaredSetting(
    "annotation",
    str | None,
    None,
    Setting("The annotation to learn; by default the task's own, or the only one that fits (classify, pairs, tag)."),
)


READ_BY = ("format", "include", "exclude", "skip_faulty", "split_from")
"""Options that say which files are read, and how."""
LIMITS_OF_SETS = (
    replace(LIMIT, about=Setting("Number of texts to draw from each set, as whole documents.", min=1)),
    replace(FIRST, about=Setting("Take the first N texts of each set instead of drawing some.", min=1)),
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
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (FORMAT, *FILES, SPLIT_FROM, LEARNED, *LIMITS_OF_SETS)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; what may not be scored is refused here."""
        settings = {**self.fixed, **settings}
        task: Task = settings["task"]
        _plans(settings)
        if settings["attention_window"] is not None and PAPER_SETTINGS[task].kind != "tags":
            raise TaskError(f"an attention window is for pos, ner and tag, which label words; {task} does not")
        encoder = as_encoder(given["model"], {}, runtime)
        if not isinstance(encoder, HuggingFaceEncoder):
            raise ModelError(f"{encoder.name} has no blocks to fine-tune; name a transformer")
        with_padding(encoder.tokenizer)
        refuse_layers(encoder, freeze=settings["freeze"], reset=settings["reset"])
        sets = apart(as_sets(given["data"], options, settings, encoder))
        refuse_used(source_of(encoder), map(text_of, sets.scored), f"{sets.name} (scored)")
        names = (short_name(given["model"], encoder), Path(sets.name).stem, task)
        return LoadedInputs((encoder, sets), describe_models((encoder,)), sets.describe(), names)

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """A report has a model learn to answer the stories that lamina makes."""
        return {"model": encoder, "data": "stories"}


@analysis(
    title="Learning a task",
    question="How does the model learn, step by step, and how well does it do on texts it has not seen?",
    method=(
        "The task's head is put on the model and both are trained together; settings not given are as in the task's "
        "paper. The step that does best on the selection set is kept and scored once, on texts of its own; intervals "
        "resample documents. The baseline always answers what is most frequent in training; the model is compared with "
        "it document by document. The default report trains "
        "for a minute or two on short stories that lamina makes (Where did somebody go?, and after bAbI's first task "
        "Where is Ann?): the first kind is learned sooner than the second."
    ),
    cites=("van Aken et al. 2019", "Zhao et al. 2020"),
    reads=TrainingSets(),
    # 2: the models of all seeds are kept and scores are their means; of stories to classify, the newest facts are kept.
    # 3: a limit takes as many questions of each task.
    # 4: documents are resampled by name; scores are compared with the constant answer document by document.
    # 5: a limit draws documents.
    version=5,
    tables={
        "curve": Table("One row per seed, step noted, split and metric; select is the selection set.", CURVE_COLUMNS),
        "scores": Table(
            "One row per task of the data (all: all together) and metric, on the scored texts; of several seeds the "
            "mean.",
            COLUMNS,
        ),
        "baseline": Table("One row per metric: the score of what is most frequent in training.", _BASELINE),
        "contrasts": Table(
            "One row per task (all: all together) and metric: the model's score minus that of what is most frequent in "
            "training, paired by document; two-sided. All together is a family of its own, the tasks of a metric are "
            "one (max-T).",
            CONTRASTS,
        ),
        "grid": Table("One row per setting tried; only with --grid.", _GRID, optional=True),
        "seeds": Table(
            "One row per seed and metric, on the scored texts (all: the mean); only with --seeds.",
            SEED_COLUMNS,
            optional=True,
        ),
        "spread": Table(
            "One row per metric: the standard deviation over seeds with its 95 % interval (chi-square), by what they "
            "vary; only with --seeds.",
            SPREAD_COLUMNS,
            optional=True,
        ),
    },
    chapter="answering",
    takes=70,
    report={
        "task": "babi",
        # The first is learned sooner than the second.
        "babi_tasks": (21, 1),
        "max_steps": 160,
        "lr": 3e-4,
        "batch": 16,
        "schedule": "warmup",
        "freeze": 0,
    },
    compares=ComparedValues("scores", ("task", "metric")),
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
    length: Annotated[
        int | None, Setting("Maximum number of tokens in one row; the task's own by default.", min=8)
    ] = None,
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
    reset: Annotated[int, Setting("Number of top blocks that are re-initialised before training.", min=0)] = 0,
    seeds: Annotated[
        int, Setting("How often it is trained, each time with the next seed; from 2 on in folders `seed-N`.", min=1)
    ] = 1,
    keep_steps: Annotated[
        Literal["log"] | None,
        Setting("Keep the model at log-spaced steps too, in folders `seed0-step10`: a series for `lamina grow`."),
    ] = None,
    vary: Annotated[
        Vary,
        Setting("What further seeds vary: new weights (init), the order of the texts and dropout (order), or both."),
    ] = "both",
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
    if vary != "both" and seeds == 1:
        raise InputError(f"--vary {vary} says what several seeds vary; give --seeds too, for example --seeds 5")
    choices = {"epochs": epochs, "lr": lr, "batch": batch, "schedule": schedule, "max_steps": max_steps, "grid": grid}
    choices |= {"freeze": freeze, "reset": reset}
    how = {"attention_window": attention_window, "seed": seed, "keeps": keep_steps is not None}
    learning = learning_of(encoder, sets, task, length=length, **how)
    if not resume:
        shutil.rmtree(work)
        work.mkdir()
    outcome = learning.run(_plans({"task": task, "seed": seed, **choices}), work, seeds=seeds, vary=vary)
    counts = outcome.tables["scores"]["count"]
    return Tables(outcome.tables, outcome.skipped, files=outcome.files, scored={task: int(counts.max())})


@finetune.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The score beside the constant answer, over all and for the tasks of the data."""
    # Tuned folders of older versions were not compared document by document.
    table = result.tables.get("contrasts")
    if table is None or table.empty:
        return
    metric = str(table["metric"].iloc[0])
    rows = [row for row in rows_of(table) if row.metric == metric]
    for row in rows:
        if row.family == ALL:
            yield _beside_constant(result, row)
    tasks = [row for row in rows if row.family != ALL]
    if len(tasks) > 1:
        yield _by_task(tasks)


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
    estimator: Estimator,
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
    """Steps and evaluations, by the tokens that they read."""
    plans = _plans({"task": task, "seed": seed, **settings})
    learning = learning_of(encoder, sets, task, length=length, attention_window=attention_window, seed=seed)
    expected = learning.expect(plans, seeds=seeds)
    texts = len(sets.train) + len(sets.select) + len(sets.scored)
    return Cost(
        passes=len(plans) + seeds - 1,
        texts=texts,
        tokens=expected.tokens,
        steps=expected.steps,
        work=expected.read * estimator.per_token,
        memory=memory_now(),
        disk=expected.size,
    )


def learning_of(
    encoder: HuggingFaceEncoder, sets: Sets, task: Task, *, length: int | None, **settings: Any
) -> Finetuning:
    """What is to be learned; imported here, since transformers' Trainer is slow to import."""
    from lamina.training.finetune import Finetuning

    return Finetuning.of(encoder, sets, task, length=_pieces(task, encoder, length, sets), **settings)


def _plans(settings: Mapping[str, Any]) -> list[TrainingPlan]:
    names = ("epochs", "lr", "batch", "schedule", "seed", "max_steps", "grid", "freeze", "reset")
    return make_plans(PAPER_SETTINGS[settings["task"]], **{name: settings[name] for name in names})


def _pieces(task: Task, encoder: HuggingFaceEncoder, length: int | None, sets: Sets | None = None) -> int:
    """Maximum number of tokens in one row: as requested, or by the task's recipe, within the model's limit.

    Stories whose answer is a class are as long as those whose answer is a span.
    """
    stories = task == "classify" and sets is not None and isinstance(sets.train[0], Question)
    default = PAPER_SETTINGS["babi" if stories else task].length
    return min(length or default, encoder.limit or default)


def as_sets(data: Any, options: Mapping[str, Any], settings: Mapping[str, Any], encoder: HuggingFaceEncoder) -> Sets:
    """The three sets of data that is named or given, for the task and the view that the settings say."""
    portion = Portion(options.get("limit"), options.get("first"))
    if None not in portion:
        raise InputError("limit draws texts and first takes the first ones; give one of the two")
    if isinstance(data, Sets):
        train, select, scored = (tuple(portion.of(items)) for items in (data.train, data.select, data.scored))
        return replace(data, train=train, select=select, scored=scored)
    task = settings["task"]
    if isinstance(data, Mapping):
        return sets_of_splits({split: as_part(data, split) for split in ("train", "dev", "test")}, task, *portion)
    if not isinstance(data, str | Path):
        raise InputError(
            "data is a name, a path, train, dev and test by name (a dict, a datasets.DatasetDict) or "
            f"lamina.training.reading.Sets; got {type(data).__name__}"
        )
    chosen = {name: settings[name] for name in ("setting", "babi_tasks")}
    chosen |= {name: options[name] for name in READ_BY if name in options}
    length = _pieces(task, encoder, settings["length"])
    return load_sets(
        task,
        data,
        limit=portion.limit,
        first=portion.first,
        length=length,
        annotation=options["annotation"],
        **chosen,
    )


_CONSTANT = "always answering what is most frequent in training"
_NATS = 0.05
"""A difference in loss that means nothing, in nats per token."""


def _beside_constant(result: Result, row: Any) -> Finding:
    task, metric = result.provenance.parameters["task"], _METRICS.get(row.metric, row.metric)
    scores = f"{metric} {number(row.value)} against {number(row.against)}"
    than = "better" if _better(row) else "worse"
    scored = f"{int(row.count):,} scored {_SCORED.get(task, 'questions')}"
    remarks = {
        _range(result.tables.get("seeds"), row): Source("seeds", {"metric": row.metric}),
        _still_learning(result.tables["curve"]): Source("curve", {"split": "select"}),
    }
    remarks.pop("", None)
    return finding(
        claim=f"The fine-tuned model does {than} on {task} than {_CONSTANT}: {scores} on {scored}",
        whether=f"the fine-tuned model does better on {task} than {_CONSTANT}",
        absent=f"The fine-tuned model does no better on {task} than {_CONSTANT}: {scores} on {scored}",
        contrast="difference",
        test=Contrast.of(row, "difference"),
        source=[_source(row), *remarks.values()],
        unit=row.unit,
        importance=("answers", "beats control"),
        margin=_margin(row),
        note=" ".join(remarks),
    )


def _by_task(rows: Sequence[Any]) -> Finding:
    """Which tasks of the data are done better; the contrast is that of the one of them that is least sure."""
    ahead = [row for row in rows if row.p_adjusted < SURE and _better(row) and not _small(row)]
    metric = _METRICS.get(rows[0].metric, rows[0].metric)
    # Where none is ahead, the one that is least known to be alike stands for all.
    decisive = (
        max(ahead, key=lambda row: (row.p_adjusted, -abs(row.difference)))
        if ahead
        else max(rows, key=lambda row: (not _small(row), row.needed == 0, abs(row.difference)))
    )
    which = f"All {len(rows)} tasks are" if len(ahead) == len(rows) else f"Of {len(rows)} tasks, {_listed(ahead)}"
    return finding(
        claim=f"{which} done better than by {_CONSTANT}; {decisive.task} has the least sure difference",
        whether=f"any of {len(rows)} tasks is done better than by {_CONSTANT}",
        absent=f"None of {len(rows)} tasks is done better than by {_CONSTANT}",
        contrast=f"difference in {metric} of {decisive.task}",
        test=Contrast.of(decisive, "difference"),
        source=Source("contrasts", {"family": decisive.family, "metric": decisive.metric}),
        unit=decisive.unit,
        importance=("localised",),
        margin=_margin(decisive),
    )


def _listed(rows: Sequence[Any]) -> str:
    names = [str(row.task) for row in rows]
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are" if names else ""


def _source(row: Any) -> Source:
    return Source("contrasts", {"task": row.task, "metric": row.metric})


def _better(row: Any) -> bool:
    return (row.difference > 0) != (row.metric in LOWER_IS_BETTER)


def _margin(row: Any) -> float:
    return _NATS if row.metric in LOWER_IS_BETTER else NEGLIGIBLE


def _small(row: Any) -> bool:
    return -_margin(row) <= row.low and row.high <= _margin(row)


def _range(table: pd.DataFrame | None, row: Any) -> str:
    """How far models of other seeds differ."""
    if table is None:
        return ""
    single = table.loc[(table["metric"] == row.metric) & (table["seed"] != ALL), "value"]
    return f"Over {len(single)} seeds it ranges from {number(single.min())} to {number(single.max())}."


def _still_learning(curve: pd.DataFrame) -> str:
    """Where the last step was the best, of most seeds, more steps may do better."""
    runs = by_seed(curve)
    select = runs[0][runs[0]["split"] == "select"]
    if select["step"].nunique() < 2:
        return ""
    last = int(select["step"].max())
    ended = sum(best_step(curve_of_seed) == last for curve_of_seed in runs)
    which = "" if len(runs) == 1 else f" for {ended} of {len(runs)} seeds"
    note = f"The last step ({last:,}) was the best on the selection set{which}: longer training may do better."
    return note if 2 * ended > len(runs) else ""


def _interval(row: Mapping[Any, Any]) -> tuple[float, float, float]:
    return float(row["value"]), float(row["low"]), float(row["high"])

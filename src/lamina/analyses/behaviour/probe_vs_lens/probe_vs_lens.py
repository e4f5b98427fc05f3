"""The layer at which a probe reads the class of a masked word, and the layer at which the lens predicts it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import pandas as pd

from lamina.activations import Runtime
from lamina.analyses.behaviour.inputs import SpokenSplits
from lamina.analyses.behaviour.lens.tuning import tuned_lens
from lamina.analyses.behaviour.probe_vs_lens.answers import TaskAnswers, answer
from lamina.analyses.behaviour.probe_vs_lens.scores import LATER, NOT_ABOVE, TaskScores, layer_rows
from lamina.analyses.behaviour.probe_vs_lens.tasks import (
    RELATION,
    TITLES,
    TREEBANK_TASKS,
    ClassedTexts,
    ClassVocabulary,
    MaskedWordData,
    TaskName,
    relation_data,
    vocabularies,
)
from lamina.corpora.splits import Splits, divide
from lamina.corpora.suites.pararel import Relations
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.inputs import LoadedInputs
from lamina.framework.settings import DeclaredSetting, Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.language.language_model import LanguageModel, language_model
from lamina.probes.translators import Translators
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, not_tested, numbers_in_words, rows_of
from lamina.stats.status import Contrast

FACTS = "pararel"
MASS = "probability"
"""The measure that findings are about: the mass on the right class."""
_TRIED = 100
"""Words per task of a trial."""
SAME_LAYER = 0.5
"""Layers between probe and lens that mean nothing."""
_SCORES = (
    "task", "of", "model", "lens", "layer", "measure", "value", "low", "high", "baseline", "n", "p_beaten",
    "among_best",
)  # fmt: skip
_LAYERS = (
    "task", "measure", "of", "layer", "low", "high", "best_layer", "best", "best_low", "best_high", "baseline",
    "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "unit", "reason",
)  # fmt: skip
_JOINT = ("task", "layer", "probe", "lens", "share", "low", "high")
_EXAMPLES = (
    "task", "layer", "kind", "item", "sentence", "word", "gold", "probe", "probe_probability", "lens",
    "lens_probability", "top",
)  # fmt: skip
_ITEMS = ("item", "group", "value", "gold", "probe", "lens", "probe_probability", "lens_probability")


@dataclass(frozen=True)
class SpokenFacts(SpokenSplits):
    """A language model, texts to learn from and to score, and facts."""

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        text = (
            f"Facts for the task {RELATION}: {FACTS} (left out where it is not on this machine), or a folder in its "
            "layout. Use `none` to leave the task out."
        )
        return (*super().options, DeclaredSetting("facts", str | None, FACTS, Setting(text, file=True)))

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Any
    ) -> LoadedInputs:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        loaded = super().load(given, options, settings, runtime)
        facts = _facts(options["facts"])
        data = dict(loaded.data)
        if facts is not None:
            fingerprint = fingerprint_of(str(data["fingerprint"]), facts.fingerprint)
            data |= {"fingerprint": fingerprint, "facts": facts.describe()}
        return replace(loaded, arguments=(*loaded.arguments, facts), data=data)


def _facts(name: str | None) -> Relations | None:
    from lamina import assets
    from lamina.corpora.suites.cloze import read_cloze

    if name is None or (name == FACTS and assets.local_folder(FACTS) is None):
        return None
    facts = read_cloze(name)
    if not isinstance(facts, Relations):
        raise InputError(f"facts: {name} holds no facts of relations with patterns; name {FACTS} or a folder like it")
    return facts


@analysis(
    title="Probe and logit lens",
    question="At which layer can a probe read a masked word's class, and at which layer does the model predict it?",
    method=(
        "A word is masked: a masked model reads the text with the word's tokens masked, a causal model only what comes "
        "before it. From the same hidden state, a linear probe reads the word's class (probe), and the model's own "
        "head, applied to every layer (logit lens), gives probabilities that are summed over the tokens which begin "
        "words of each class (lens). Each is reached at the first layer with 95 % of the best gain over the baseline, "
        "which knows how frequent each class is in training. 95 % intervals resample documents, for facts their "
        "patterns; the untrained twin is measured in the same way."
    ),
    cites=("nostalgebraist 2020", "Elazar et al. 2021"),
    reads=SpokenFacts(),
    version=2,  # probe and lens are compared for all tasks together, the best layers are a set
    tables={
        "scores": Table(
            "One row per task, way (of: probe, lens, seen: a probe on the visible word, gap: probe minus lens), model, "
            "layer and measure. p_beaten: that some other layer of the curve is better; among_best: yes where that was "
            "not shown.",
            _SCORES,
        ),
        "layers": Table(
            "One row per task, measure and way: the first layer that reaches it. difference: of probe and lens, the "
            "best layer minus the baseline (family: both ways and all layers of a task and measure; one-sided, above; "
            "signs of documents are flipped); of later, layers from probe to lens, interpolated between layers "
            "(family: all tasks of a measure; two-sided; documents are resampled).",
            _LAYERS,
        ),
        "joint": Table(
            "One row per task, layer and outcome: share of words that probe, lens, both or neither get right.", _JOINT
        ),
        "examples": Table(
            "One row per task, layer and word that the probe gets right and the lens does not, or the reverse.",
            _EXAMPLES,
        ),
        "items": Table("One row per task and scored word, at the last layer.", _ITEMS, format="parquet"),
    },
    chapter="abilities",
    example="lamina probe-vs-lens smollm2 --corpus ewt --words 500 --out results/probe_vs_lens",
)
def probe_vs_lens(
    encoder: Encoder,
    splits: Splits,
    facts: Relations | None,
    *,
    tasks: Annotated[
        Sequence[TaskName] | None,
        Setting("Properties of masked words; all that the data is annotated with by default."),
    ] = None,
    words: Annotated[int, Setting("Maximum number of scored words per task.", min=20)] = 1000,
    learn: Annotated[int, Setting("Maximum number of training words per task.", min=20)] = 4000,
    seen: Annotated[bool, Setting("Also probe the hidden states of the visible words, for comparison.")] = True,
    lens: Annotated[
        Literal["plain", "tuned"], Setting("Logit lens (plain), or tuned lens as in `lamina lens`.")
    ] = "plain",
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """The first layer at which a probe reads a masked word's class, and the first at which the lens predicts it.

    - `pos`: part of speech; `number`: of common nouns; `agreement`: number of verbs in the present; `role`: subject or
      object, of personal pronouns; `relation`: the kind of object that a fact's relation takes.
    - `probe`: a linear probe on the hidden state at the masked word; `lens`: the lens's probability of words of each
      class, from the same hidden state; `seen`: a probe on the hidden state of the visible word, for comparison.

    Example:
        >>> result = lamina.probe_vs_lens("smollm2", "ewt", words=500)  # doctest: +SKIP
        >>> result.tables["layers"]  # doctest: +SKIP
    """
    model = language_model(encoder)
    models = {"model": model} | ({"twin": model.random_twin(seed)} if twin else {})
    translators = _translators(model, splits, seed, runtime) if lens == "tuned" else None
    skipped: Counter[str] = Counter()
    scores: list[TaskScores] = []
    for data in _data(model, splits, facts, tasks, seed, skipped):
        classes = vocabularies(model, data.train, data.tasks)
        data = _usable(model, data, classes, tasks, skipped)
        if data.tasks:
            task_answers = answer(
                models, data, classes, most=words, learn=learn, seen=seen, translators=translators, seed=seed
            )
            scores += [TaskScores(task, samples=samples, seed=seed) for task in task_answers]
            skipped.update(_left_out(task_answers))
    if not scores:
        raise CorpusError(f"{splits.name}: too few words with classes to learn from and to score; give more texts")
    return Tables(
        _tables(scores, model, lens),
        dict(skipped),
        scored={task.answers.task: len(task.answers.gold) for task in scores},
    )


def _translators(model: LanguageModel, splits: Splits, seed: int, runtime: Runtime) -> Translators:
    """The translators that `lamina lens` trains by default on the same texts; saved ones are reused."""
    from lamina.analyses.behaviour.lens.lens import learning_of, lens

    learning, _ = learning_of(splits, seed)
    positions, steps = (lens.settings[name].default for name in ("learned", "steps"))
    return tuned_lens(model, learning, positions=positions, steps=steps, seed=seed, runtime=runtime)


def _data(
    model: LanguageModel,
    splits: Splits,
    facts: Relations | None,
    tasks: Sequence[str] | None,
    seed: int,
    skipped: Counter[str],
) -> Iterable[MaskedWordData]:
    """The treebank's tasks, then the facts'."""
    wanted = _wanted(tasks)
    has = set(splits.train.annotations) & set(splits.scored.annotations)
    available = [task for task in TREEBANK_TASKS if task.name in wanted and has.issuperset(task.needs)]
    for task in TREEBANK_TASKS:
        if task.name in wanted and task not in available:
            missing = ", ".join(sorted(set(task.needs) - has))
            if tasks is not None:
                raise CorpusError(
                    f"{splits.name} has no {missing}, which the task {task.name} needs; name a corpus that has it, for "
                    "example ewt, or other tasks"
                )
            skipped[f"tasks that the corpus has no annotation for ({task.name}: {missing})"] += 1
    if RELATION in wanted and facts is None:
        if tasks is not None:
            raise CorpusError(
                f"the task {RELATION} needs facts: run `lamina assets get {FACTS}`, or pass --facts FOLDER"
            )
        skipped[f"tasks without facts ({RELATION}); `lamina assets get {FACTS}` fetches some"] += 1
    if available:
        division = divide(splits, seed=seed)
        skipped["training texts that are also scored"] += division.left_out
        texts = list(splits.train)
        learn, select = ([texts[number] for number in numbers] for numbers in (division.learn, division.stop))
        parts = [ClassedTexts.of(texts_of_part, available) for texts_of_part in (learn, select, splits.scored)]
        yield MaskedWordData(parts[0], parts[1], parts[2], tuple(task.name for task in available))
    if RELATION in wanted and facts is not None:
        skipped.update({f"{RELATION}: {what}": count for what, count in facts.left_out.items()})
        data, left_out = relation_data(facts, causal=model.kind == "causal", seed=seed)
        skipped.update(left_out)
        yield data


def _wanted(tasks: Sequence[str] | None) -> Sequence[str]:
    if tasks is not None and not tasks:
        raise InputError(f"tasks: name at least one of {', '.join(TITLES)}")
    return tuple(TITLES) if tasks is None else tuple(tasks)


def _usable(
    model: LanguageModel,
    data: MaskedWordData,
    classes: Mapping[str, ClassVocabulary],
    tasks: Sequence[str] | None,
    skipped: Counter[str],
) -> MaskedWordData:
    """Without tasks that have fewer than two classes, or no words in one of the parts."""
    askable = []
    parts = [(part, part.firsts(model)) for part in (data.learn, data.select, data.scored)]
    for task in data.tasks:
        labels = classes[task].numbers
        skipped[f"{task}: training words of classes that are too rare"] += classes[task].rare
        there = [sum(label in labels for _, label in part.maskable_words(task, firsts)) for part, firsts in parts]
        if len(labels) >= 2 and min(there) > 0:
            askable.append(task)
        elif tasks is not None:
            raise CorpusError(
                f"the task {task} has too few words: {there[0]} to learn from, {there[1]} to select by, {there[2]} to "
                f"score, of {len(labels)} classes; give more texts"
            )
        else:
            skipped[f"tasks with too few words ({task})"] += 1
    return data._replace(tasks=tuple(askable))


def _left_out(answers: Sequence[TaskAnswers]) -> dict[str, int]:
    left_out = {}
    for task in answers:
        labels = task.vocabulary.numbers
        there = [label in labels for _, label in task.items.words_of(task.task)]
        left_out[f"{task.task}: scored words of classes that training has too few of"] = there.count(False)
        left_out[f"{task.task}: words beyond --words, or without a token"] = there.count(True) - len(task.gold)
        left_out[f"{task.task}: probes that have not converged"] = task.unconverged
    return left_out


def _tables(scores: Sequence[TaskScores], model: LanguageModel, lens: str) -> dict[str, pd.DataFrame]:
    tables = {
        "scores": (_SCORES, (row for task in scores for row in task.rows(lens))),
        "layers": (_LAYERS, layer_rows(scores)),
        "joint": (_JOINT, (row for task in scores for row in task.joint())),
        "examples": (_EXAMPLES, (row for task in scores for row in task.examples(_piece(model)))),
        "items": (_ITEMS, (row for task in scores for row in task.items())),
    }
    return {name: pd.DataFrame(list(rows), columns=list(columns)) for name, (columns, rows) in tables.items()}


def _piece(model: LanguageModel):
    """The function that writes a token as one reads it."""
    return lambda number: model.encoder.token_names([number])[0].strip()


@probe_vs_lens.finds
def _findings(result: Result) -> Iterable[Finding]:
    """For every task, the layers of probe and lens, or that one of them is not above the baseline."""
    table = result.tables["layers"]
    of_mass = table[table["measure"] == MASS]
    for task in dict.fromkeys(of_mass["task"]):
        rows = {row.of: row for row in rows_of(of_mass[of_mass["task"] == task])}
        probe, lens = rows["probe"], rows["lens"]
        if pd.isna(probe.layer) or pd.isna(lens.layer):
            yield _missing(task, probe, lens)
        else:
            yield _order(task, probe, lens, rows[LATER])


def _order(task: str, probe: Any, lens: Any, later: Any) -> Finding:
    """The first layers of probe and lens; the test is of the distance between the two."""
    title, name = TITLES[task], TITLES[task].lower()
    parts = [f"the probe reads it from layer {probe.layer:.0f} on", f"the lens from layer {lens.layer:.0f} on"]
    first, second = ("probe", "lens") if later.difference >= 0 else ("lens", "probe")
    gaps = [row.reason for row in (probe, lens) if isinstance(row.reason, str) and row.reason]
    return finding(
        claim=f"{title}: {', '.join(parts)}",
        whether=f"the {first} reads {name} at an earlier layer than the {second}",
        absent=f"{title}: {', '.join(parts)}, less than a layer apart",
        contrast="layers from probe to lens",
        test=Contrast.of(later, "difference", "diff_low", "diff_high"),
        source=[Source("layers", {"task": task, "measure": MASS, "of": of}) for of in (LATER, "probe", "lens")],
        unit=later.unit,
        importance=("answers", "localised") if first == "probe" else ("answers", "surprises"),
        margin=SAME_LAYER,
        digits=1,
        note=f"{'; '.join(gaps)}." if gaps else "",
    )


def _missing(task: str, probe: Any, lens: Any) -> Finding:
    """Probe or lens was not shown to be above the baseline: the best layer beside it."""
    row = lens if pd.isna(lens.layer) else probe
    whether = f"the {row.of} reads {TITLES[task].lower()} at any layer"
    source = Source("layers", {"task": task, "measure": MASS, "of": row.of})
    if row.reason != NOT_ABOVE:
        return not_tested(whether, str(row.reason), source=[source])
    return finding(
        claim=f"{TITLES[task]}: the {row.of} reads it",
        whether=whether,
        absent=f"{TITLES[task]}: the {row.of} reads it at no layer",
        contrast="best layer minus share in training",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=source,
        unit=row.unit,
    )


def _layer(row: Any) -> str:
    # An empty cell is read back as NaN.
    beside = f" ({row.reason})" if isinstance(row.reason, str) and row.reason else ""
    return f"{row.layer:.0f} [{row.low:.0f}, {row.high:.0f}]{beside}"


@probe_vs_lens.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per task."""
    table = result.tables["layers"]
    of_mass = table[table["measure"] == MASS]
    rows: list[tuple[str | int, ...]] = []
    for task in dict.fromkeys(of_mass["task"]):
        by = {row.of: row for row in rows_of(of_mass[of_mass["task"] == task])}
        cells = [
            part
            for of in ("probe", "lens")
            for part in (
                "-" if pd.isna(by[of].layer) else _layer(by[of]),
                cell(by[of].best, by[of].best_low, by[of].best_high),
                _best_layers(result, task, of),
            )
        ]
        rows.append((TITLES[task], *cells, cell(by["lens"].baseline)))
    about = result.provenance
    title = f"{about.model['name']} on {about.corpus['name']}: masked words, probability of the right class"
    ways = [part for of in ("probe", "lens") for part in (f"{of} at layer", "at best", "best layers")]
    yield Overview(title, ("task", *ways, "share in training"), rows)


def _best_layers(result: Result, task: str, of: str) -> str:
    """The layers that no other was shown to beat."""
    table = result.tables["scores"]
    curve = table[
        (table["task"] == task) & (table["of"] == of) & (table["model"] == "model") & (table["measure"] == MASS)
    ]
    best = curve[curve["among_best"] == "yes"]["layer"].tolist()
    return "any" if len(best) == len(curve) else numbers_in_words(best) if best else "-"


@probe_vs_lens.costs
def _cost(
    estimator: Estimator, encoder: Encoder, splits: Splits, facts: Relations | None, *,
    words: int, learn: int, seen: bool, twin: bool, **settings: Any,
) -> Cost:  # fmt: skip
    """A trial with few words, scaled up: passes, lens and probes grow with the number of words."""
    few = min(_TRIED, words, learn)
    start = time.perf_counter()
    # Without translators; `lamina lens --dry-run` estimates those.
    trial = {**settings, "words": few, "learn": few, "seen": False, "twin": False, "lens": "plain"}
    tried = probe_vs_lens.function(encoder, splits, facts, **trial, runtime=estimator.runtime)
    took = time.perf_counter() - start
    many = len(dict.fromkeys(tried.tables["items"]["group"])) * (words + 1.25 * learn)
    grown = (words + 1.25 * learn) / (2.25 * few)
    return Cost(
        passes=1 + twin + seen,
        texts=round(many),
        seconds=took * grown * (1 + twin + seen),
        memory=memory_now() + round(many) * encoder.layers * encoder.width * 4,
    )

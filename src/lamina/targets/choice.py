"""What a model can be asked while its parts are changed, given its head and the data at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from lamina.corpora import Corpus
from lamina.corpora.question_sets import Questions
from lamina.corpora.questions.question import Question
from lamina.corpora.splits import Splits
from lamina.corpora.suites.minimal_pairs import MinimalPairs
from lamina.errors import CorpusError, InputError, ModelError, ResultError, TaskError
from lamina.models import Encoder
from lamina.models.language.language_model import has_language_model, language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import Kind, class_name, head_kind, head_on_states
from lamina.probes.edge import LayerCut, SavedEdgeProbes
from lamina.results import Result
from lamina.targets.answers import SEEN_QUESTIONS, AnswersTarget, answerable
from lamina.targets.labels import SEEN_TEXTS as SEEN_TEXTS
from lamina.targets.labels import ClassesTarget, TagsTarget, refuse_other_classes, tagged_as, unseen_texts
from lamina.targets.loss import LossTarget
from lamina.targets.pairs import PairsTarget
from lamina.targets.probes import ProbeReader, ProbeTarget, SavedReader, linear_readers
from lamina.targets.target import (
    CLASSES_OF_TEXTS,
    LOSS,
    PAIRS,
    PROBE,
    QA,
    QA_EXACT,
    TAGS,
    Target,
    probe_name,
    some_pairs,
    some_texts,
)
from lamina.tasks import Task
from lamina.tasks.catalogue import choose_tasks
from lamina.training.reading import with_learned_labels
from lamina.types import Text

HEADS: dict[str, Kind] = {
    QA: "question-answering",
    QA_EXACT: "question-answering",
    TAGS: "token-classification",
    CLASSES_OF_TEXTS: "sequence-classification",
}
"""Target -> the head of a fine-tuned model that it is asked of."""
_TUNING = {QA: "squad", QA_EXACT: "squad", TAGS: "pos", CLASSES_OF_TEXTS: "classify"}
"""Target -> the task of `lamina finetune` that gives a model its head."""
_CHECKED_TEXTS = 200
"""Texts by which to tell whether the targets of a task have one label each."""
_CHOICES = f"{LOSS}, {PAIRS}, {', '.join(HEADS)} or {PROBE}TASK@LAYER, such as {PROBE}pos@6"


@dataclass(frozen=True)
class TargetData:
    """What there is to ask a model about."""

    texts: Splits | Corpus
    """With texts for probes to learn from, or without."""
    pairs: MinimalPairs | None = None
    questions: Questions | None = None
    probes: Result | None = None
    """Of `lamina probe`."""

    @property
    def scored(self) -> Corpus:
        """The texts that are asked about."""
        return self.texts.scored if isinstance(self.texts, Splits) else self.texts

    @property
    def splits(self) -> Splits | None:
        """With the texts that probes learn from; None where there are none."""
        return self.texts if isinstance(self.texts, Splits) else None


def chosen_targets(encoder: Encoder, names: Sequence[str] | None, material: TargetData) -> tuple[str, ...]:
    """The targets asked for; by default all that the model and the data give, cheapest first.

    A ModelError or an InputError says of a target that they cannot give what works instead.

    Example:
        >>> material = TargetData(load_splits("ewt"))  # doctest: +SKIP
        >>> chosen_targets(lamina.load_encoder("minilm"), None, material)  # doctest: +SKIP
        ('probe:pos@6',)
    """
    if names is None:
        return _available(encoder, material)
    return tuple(dict.fromkeys(_checked(encoder, name, material) for name in names))


def targets_of(encoder: Encoder, names: Sequence[str], material: TargetData, *, items: int, seed: int) -> list[Target]:
    """The targets of these names (see `chosen_targets`), each of at most `items` texts, pairs or questions.

    Items are drawn by the hash of their ids: the same whatever the model.

    Example:
        >>> (target,) = targets_of(encoder, ["loss"], material, items=100, seed=0)  # doctest: +SKIP
        >>> measure(Interventions(encoder), target, [])[0].value  # doctest: +SKIP
        3.49
    """
    if not isinstance(encoder, HuggingFaceEncoder):
        raise ModelError(f"{encoder.name} is not a transformer, so it has no parts that could be changed")
    texts = some_texts(material.scored, items, seed) if any(name not in (PAIRS, *HEADS) for name in names) else []
    targets: dict[str, Target] = {}
    if LOSS in names:
        targets[LOSS] = LossTarget(language_model(encoder), texts, seed=seed)
    if PAIRS in names and material.pairs is not None:
        targets[PAIRS] = PairsTarget(language_model(encoder), some_pairs(material.pairs, items, seed), seed=seed)
    for name in names:
        if name in HEADS:
            targets[name] = _of_head(encoder, name, material, items, seed)
    targets |= _probed(encoder, [name for name in names if name.startswith(PROBE)], material, texts, seed)
    return [targets[name] for name in names]


def _available(encoder: Encoder, material: TargetData) -> tuple[str, ...]:
    available = []
    if has_language_model(encoder):
        available += [LOSS] + ([PAIRS] if material.pairs is not None else [])
    else:
        available += [name for name in (TAGS, CLASSES_OF_TEXTS, QA) if _gives(encoder, name, material)]
    if material.probes is not None:
        tasks = dict.fromkeys(probe.task for probe in _saved(encoder, material.probes))
        available += [name for task in tasks if _gives(encoder, name := probe_name(task, encoder.blocks), material)]
    elif not available and material.splits is not None and "pos" in material.scored.annotations:
        available = [probe_name("pos", encoder.blocks)]
    if not available:
        raise ModelError(
            f"{encoder.name} has no head that can be asked, and {material.texts.name} no parts of speech for a probe "
            f"to learn; name a model with a head, a corpus such as ewt, or a task of this one with --target "
            f"{PROBE}TASK@LAYER"
        )
    return tuple(available)


def _checked(encoder: Encoder, name: str, material: TargetData) -> str:
    """The name of a target as tables have it; an error where model and data cannot give it."""
    if name in (LOSS, PAIRS):
        if not has_language_model(encoder):
            raise ModelError(f"{_why_no_language_model(encoder, name)}; {_instead(encoder, material)}")
        if name == PAIRS and material.pairs is None:
            raise InputError("pairs: there are no minimal pairs; name a suite or a file of pairs with --suite")
        return name
    if name in HEADS:
        _refuse_head(encoder, name, material)
        return name
    if not name.startswith(PROBE):
        raise InputError(f"unknown target {name!r}; name {_CHOICES}")
    task, layer = _task_and_layer(encoder, name)
    if material.probes is not None:
        _cut_of(_of_task(encoder, material.probes, task), layer)
    elif material.splits is None:
        raise CorpusError(
            f"{name}: {material.texts.name} has no training texts for a probe to learn from; name a corpus that has "
            "some, or saved probes with --probes"
        )
    _task(task, material)
    return probe_name(task, layer)


def _why_no_language_model(encoder: Encoder, name: str) -> str:
    """Why a model cannot be asked as a language model."""
    try:
        language_model(encoder)
    except ModelError as error:
        return f"{name}: {error}"
    return f"{name}: {encoder.name} has no language-model head"


def _instead(encoder: Encoder, material: TargetData) -> str:
    task = "pos" if "pos" in material.scored.annotations else "TASK"
    return f"of {encoder.name} itself, what a probe reads can be asked: --target {probe_name(task, encoder.blocks)}"


def _gives(encoder: Encoder, name: str, material: TargetData) -> bool:
    try:
        _checked(encoder, name, material)
    except InputError:
        return False
    return True


def _refuse_head(encoder: Encoder, name: str, material: TargetData) -> None:
    """Raise an error where a model has no head for a target, or the data nothing to ask it about."""
    kind = HEADS[name]
    if not isinstance(encoder, HuggingFaceEncoder) or head_kind(encoder) != kind:
        saved = class_name(encoder) if isinstance(encoder, HuggingFaceEncoder) else ""
        raise ModelError(
            f"{name}: {encoder.name} was saved as {saved or 'a bare model'}, which has no head for {kind}; `lamina "
            f"finetune MODEL --task {_TUNING[name]}` gives it one; {_instead(encoder, material)}"
        )
    if kind == "question-answering":
        if material.questions is None:
            raise InputError(f"{name}: there are no questions; name some with --questions, such as squad")
        return
    labels = head_on_states(encoder, kind).labels
    if name == TAGS:
        tagged_as(encoder, labels, material.scored)
    elif material.questions is not None:
        refuse_other_classes(encoder, labels, material.questions, material.questions.questions())
    else:
        corpus = _with_classes(material.scored)
        refuse_other_classes(encoder, labels, corpus, corpus)


def _with_classes(corpus: Corpus) -> Corpus:
    """The corpus with its classes under the name that fine-tuning learns, whatever the data calls them."""
    return with_learned_labels(corpus, "classify", None)


def _of_head(encoder: HuggingFaceEncoder, name: str, material: TargetData, items: int, seed: int) -> Target:
    """A target of a fine-tuned model's head, about texts and questions that it was not trained on."""
    head = head_on_states(encoder, HEADS[name])
    if name != TAGS and material.questions is not None:
        questions, seen = _some_questions(encoder, material.questions, items, seed)
        if name == CLASSES_OF_TEXTS:
            target: Target = ClassesTarget(head, questions, seed=seed)
        else:
            target = AnswersTarget(head, questions, QA if name == QA else QA_EXACT, seed=seed)
        target.skipped.update(+Counter({SEEN_QUESTIONS: seen}))
        return target
    corpus = material.scored if name == TAGS else _with_classes(material.scored)
    texts, seen = unseen_texts(encoder, corpus)
    drawn = some_texts(texts, items, seed)
    if name == TAGS:
        target = TagsTarget(head, drawn, tagged_as(encoder, head.labels, corpus), seed=seed)
    else:
        target = ClassesTarget(head, drawn, seed=seed)
    target.skipped.update(+Counter({SEEN_TEXTS: seen}))
    return target


def _some_questions(
    encoder: HuggingFaceEncoder, questions: Questions, items: int, seed: int
) -> tuple[list[Question], int]:
    """Some of the questions that the model was not fine-tuned on, and on how many it was."""
    known, seen = answerable(encoder, questions.questions())
    if not known:
        why = f"{encoder.name} was fine-tuned on all of them" if seen else "none has a context and a known answer"
        raise CorpusError(f"{questions.name} has no question to ask: {why}; name others with --questions")
    by_id = {question.text.id: question for question in known}
    return [by_id[text.id] for text in some_texts((question.text for question in known), items, seed)], seen


def _task_and_layer(encoder: Encoder, name: str) -> tuple[str, int]:
    """What `probe:TASK@LAYER` says; without a layer it is the last."""
    task, sign, layer = name.removeprefix(PROBE).partition("@")
    if not task or (sign and not layer.isdecimal()):
        raise InputError(f"{name!r} names no task and layer; write {PROBE}TASK@LAYER, such as {PROBE}pos@6")
    number = int(layer) if sign else encoder.blocks
    if number > encoder.blocks:
        raise InputError(
            f"{name}: {encoder.name} has no layer {number}; it has layers 0 (embeddings) to {encoder.blocks}"
        )
    return task, number


def _task(name: str, material: TargetData) -> Task:
    """The task of the corpus; a TaskError where it does not carry it, or where a target has no one label."""
    (task,) = choose_tasks([name], material.splits or Splits(material.scored, material.scored), faithful=False)
    some = (edge for text in islice(iter(material.scored), _CHECKED_TEXTS) for edge in task.targets(text))
    if task.graded or any(len(edge.labels) != 1 for edge in some):
        raise TaskError(
            f"{PROBE}{name}: targets of {name} have several labels or a value instead of one label, so there is no "
            "highest answer to score; name a task such as pos, ner or dep"
        )
    return task


def _probed(
    encoder: HuggingFaceEncoder, names: Sequence[str], material: TargetData, texts: Sequence[Text], seed: int
) -> dict[str, Target]:
    chosen = [(_task(task, material), layer) for task, layer in (_task_and_layer(encoder, name) for name in names)]
    readers: Sequence[ProbeReader] = ()
    if material.probes is not None:
        saved = [_of_task(encoder, material.probes, task.name) for task, _ in chosen]
        readers = [
            SavedReader(probes_of_task, _cut_of(probes_of_task, layer))
            for probes_of_task, (_, layer) in zip(saved, chosen, strict=True)
        ]
    elif chosen and material.splits is not None:
        readers = linear_readers(encoder, chosen, material.splits, seed)
    return {
        name: ProbeTarget(encoder, task, reader, texts, splits=material.splits, seed=seed)
        for name, (task, _), reader in zip(names, chosen, readers, strict=True)
    }


def _saved(encoder: Encoder, probes: Result) -> list[SavedEdgeProbes]:
    """Saved probes of this very model; any other model's states would mean nothing to them."""
    saved = [SavedEdgeProbes(path) for name, path in probes.files.items() if name.endswith(".safetensors")]
    if not saved:
        raise ResultError("--probes: the result has no saved probes; name a folder that `lamina probe` wrote")
    fitting = [probe for probe in saved if probe.encoder == encoder.fingerprint]
    if not fitting:
        raise ModelError(
            f"--probes: the probes were trained on {probes.provenance.model.get('name', 'another model')} with other "
            f"weights or settings than this {encoder.name}; probe this one first (without --faithful)"
        )
    return fitting


def _of_task(encoder: Encoder, probes: Result, task: str) -> list[SavedEdgeProbes]:
    saved = _saved(encoder, probes)
    fitting = [probe for probe in saved if probe.task == task]
    if not fitting:
        there = ", ".join(dict.fromkeys(probe.task for probe in saved))
        raise InputError(f"{PROBE}{task}: there are no saved probes of {task}; there are: {there}")
    if fitting[0].graded:
        raise InputError(f"{PROBE}{task}: its probes tell a value, so there is no answer that is right; name another")
    return fitting


def _cut_of(saved: Sequence[SavedEdgeProbes], layer: int) -> LayerCut:
    """The probes that read a layer: those that read it alone, otherwise those of a mix of all layers up to it."""
    for kind in ("layer", "cumulative"):
        if LayerCut(kind, layer) in saved[0].probes.cuts:
            return LayerCut(kind, layer)
    there = sorted({cut.layer for cut in saved[0].probes.cuts})
    raise InputError(
        f"{probe_name(saved[0].task, layer)}: no saved probe reads layer {layer}; there are probes of layers "
        f"{', '.join(map(str, there))}"
    )

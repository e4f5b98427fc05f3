"""Which target a model can be scored by while its parts are changed, given its head and the data; tags and classes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from lamina.corpora import Corpus
from lamina.corpora.question_sets import Questions
from lamina.corpora.questions.question import Question
from lamina.corpora.splits import Splits
from lamina.corpora.suites.minimal_pairs import MinimalPairs
from lamina.errors import CorpusError, InputError, ModelError, ResultError, TaskError
from lamina.models import Encoder
from lamina.models.contract import SPECIAL
from lamina.models.language.language_model import has_language_model, language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import HeadOnStates, Kind, class_name, head_kind, head_on_states
from lamina.probes.edge import LayerCut, SavedEdgeProbes
from lamina.results import Result
from lamina.stats.units import unit_of
from lamina.targets.answers import SEEN_QUESTIONS, AnswersTarget, answerable, as_row
from lamina.targets.loss import LossTarget, PairsTarget
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
    TargetScores,
    probe_name,
    some_pairs,
    some_texts,
)
from lamina.tasks import Task
from lamina.tasks.catalogue import choose_tasks
from lamina.training.objective import IGNORED, UNSEEN, Item, text_of
from lamina.training.provenance import ABOUT, folder_of, is_among, read_about, used_texts
from lamina.training.reading import LEARNED, with_learned_labels
from lamina.training.tags import CLASSES, ClassObjective, TagObjective, class_of, last_tokens, word_labels
from lamina.types import Text

_LENGTH = 512
"""Most tokens of a text, for a model that does not say what it was trained with."""
_AGREE = 0.5
"""The least share of an annotation's labels that are labels of the head."""
SEEN_TEXTS = "texts that the model was fine-tuned on"


class HeadTraining(NamedTuple):
    """How a head was trained, and on what."""

    task: str | None
    """What `lamina finetune` calls it; None where lamina did not make the model."""
    length: int
    """Maximum number of tokens of a text; longer texts are cut."""
    used: frozenset[str]
    """Hashes of the texts that it was trained on or selected by."""
    window: int | None = None
    """Words that a word could look at on either side while it was trained; None for all."""

    @classmethod
    def of(cls, encoder: HuggingFaceEncoder) -> HeadTraining:
        """Of the model's folder; nothing where lamina did not make it."""
        folder = folder_of(encoder)
        if folder is None or not (folder / ABOUT).is_file():
            return cls(None, min(_LENGTH, encoder.limit), frozenset())
        about = read_about(folder)
        length = min(int(about.get("length", _LENGTH)), encoder.limit)
        return cls(about.get("task"), length, used_texts(folder), about.get("attention_window"))


class _LabelsTarget(Target):
    """Places in rows, each with the class that a head should say there; an item is a text."""

    _counts: Float[np.ndarray, " item"]

    def __init__(self, head: HeadOnStates, seed: int) -> None:
        self._head, self._seed = head, seed
        self.layers = (head.encoder.blocks,)

    def _ask(self, texts: Sequence[Text], gold: Sequence[np.ndarray], places: Sequence[np.ndarray]) -> None:
        """`gold` are the classes at the places of each text: `IGNORED` where the head has no such class."""
        unit = unit_of(texts)
        self.items, self.units = tuple(text.id for text in texts), tuple(unit.of(text) for text in texts)
        self.owners = np.arange(len(texts))
        self._gold, self._places = gold, places

    def _logits(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits at the places of some rows, the classes there, and the row of each, counted within the batch."""
        (logits,) = self._head([self.rows[row] for row in rows], states[self.layers[0]])
        owner = np.repeat(np.arange(len(rows)), [len(self._places[row]) for row in rows])
        place = np.concatenate([self._places[row] for row in rows])
        gold = np.concatenate([self._gold[row] for row in rows])
        row, token, known = (
            torch.from_numpy(numbers.astype(np.int64)).to(logits.device) for numbers in (owner, place, gold)
        )
        return logits[row] if logits.dim() == 2 else logits[row, token], known, row

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: right answers."""
        with torch.no_grad():
            logits, gold, owner = self._logits(rows, states)
        right = (logits.argmax(1) == gold).cpu().numpy()
        return np.bincount(owner.cpu().numpy(), right, len(rows))[:, None]

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`."""
        return TargetScores(values[:, 0].copy(), self._counts)

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: cross-entropy, the mean over the row's labels that the head knows."""
        logits, gold, owner = self._logits(rows, states)
        losses = cross_entropy(logits, gold, ignore_index=IGNORED, reduction="none")
        sums = torch.zeros(len(rows), device=logits.device).index_add(0, owner, losses)
        known = torch.bincount(owner[gold != IGNORED], minlength=len(rows))
        return sums / known.clamp_min(1)

    def of(self, encoder: HuggingFaceEncoder) -> Target:
        """See `Target.of`."""
        twin = copy.copy(self)
        twin._head = self._head.on(encoder, self._seed)
        return twin


class TagsTarget(_LabelsTarget):
    """The share of words whose tag is right.

    A word is read at its last token by models that lamina fine-tuned, and at its first by all others, as is usual.
    Words that are cut off are errors, as are words whose label the head does not have.
    """

    name = TAGS

    def __init__(self, head: HeadOnStates, texts: Sequence[Text], annotation: str, *, seed: int = 0) -> None:
        super().__init__(head, seed)
        training = HeadTraining.of(head.encoder)
        objective = TagObjective(head.encoder.word_tokenizer, training.length, annotation, head.labels)
        number = {label: token for token, label in enumerate(head.labels)}
        pieces = first_tokens if training.task is None else last_tokens
        tagged, rows, gold, places, counts = [], [], [], [], []
        unknown = 0
        for text in texts:
            labels = word_labels(text, annotation) if annotation in text.edges else []
            if not any(label is not None for label in labels):
                continue
            row = objective.cut(len(tagged), text)
            there = [token for token in pieces(row.words) if labels[row.words[token]] is not None]
            gold.append(np.array([number.get(labels[row.words[token]] or "", IGNORED) for token in there], np.int64))
            places.append(np.array(there, np.int64))
            counts.append(sum(label is not None for label in labels))
            unknown += sum(label is not None and label not in number for label in labels)
            rows.append(as_row(row))
            tagged.append(text)
        if not tagged:
            raise CorpusError(f"{TAGS}: none of the texts has a label of {annotation}")
        self.rows = rows
        self._ask(tagged, gold, places)
        self._counts = np.array(counts, float)
        self.skipped = +Counter({f"texts without {annotation}": len(texts) - len(tagged), UNSEEN: unknown})
        self.skipped.update(objective.noted)
        given = Counter(label for text in tagged for label in word_labels(text, annotation) if label is not None)
        self.chance = max(given.values()) / given.total()


class ClassesTarget(_LabelsTarget):
    """The share of texts, or of questions about a story, whose class is right."""

    name = CLASSES_OF_TEXTS

    def __init__(self, head: HeadOnStates, items: Sequence[Item], *, seed: int = 0) -> None:
        super().__init__(head, seed)
        objective = ClassObjective(head.encoder.word_tokenizer, HeadTraining.of(head.encoder).length, head.labels)
        classified = [item for item in items if class_or_none(item) is not None]
        if not classified:
            raise CorpusError(f"{CLASSES_OF_TEXTS}: none of the texts has a class")
        rows = [row for index, item in enumerate(classified) for row in objective.rows(index, item)]
        self.rows = [as_row(row) for row in rows]
        texts = [text_of(item) for item in classified]
        self._ask(texts, [np.array([row.labels]) for row in rows], [np.zeros(1, np.int64)] * len(classified))
        self._counts = np.ones(len(classified))
        unknown = sum(row.labels == IGNORED for row in rows)
        self.skipped = +Counter({"texts without a class": len(items) - len(classified), UNSEEN: unknown})
        self.skipped.update(objective.noted)
        self.chance = max(Counter(map(class_of, classified)).values()) / len(classified)


def first_tokens(words: np.ndarray) -> list[int]:
    """The first token of every word.

    Example:
        >>> first_tokens(np.array([-1, 0, 1, 1, 2, -1]))
        [1, 2, 4]
    """
    before = np.append(SPECIAL, words[:-1])
    return [int(token) for token in np.flatnonzero((words != SPECIAL) & (words != before))]


def tagged_as(encoder: HuggingFaceEncoder, labels: Sequence[str], corpus: Corpus) -> str:
    """The annotation of a corpus that a head for tags was trained for: the task's own, or else that with its labels."""
    training = HeadTraining.of(encoder)
    if training.window is not None:
        raise ModelError(
            f"{TAGS}: {encoder.name} was fine-tuned with attention to {training.window} words on either side, and is "
            "asked here with all of its attention, which would be another model; fine-tune one without "
            "--attention-window"
        )
    learned = LEARNED.get(training.task or "")
    annotations = [name for name in corpus.annotations if name != "sentence"]
    candidates = [learned] if learned in annotations else annotations
    shares = {name: _share_known(islice(iter(corpus), _CHECKED_TEXTS), name, set(labels)) for name in candidates}
    best = max(shares, key=lambda name: shares[name], default=None)
    if best is None or shares[best] < _AGREE:
        raise TaskError(
            f"{TAGS}: {corpus.name} has no annotation with the labels of the head of {encoder.name} "
            f"({_some(labels)}); it has {', '.join(annotations) or 'none'}; name a corpus with these labels"
        )
    return best


def refuse_other_classes(
    encoder: HuggingFaceEncoder, labels: Sequence[str], corpus: Corpus, items: Iterable[Item]
) -> None:
    """Raise a TaskError where the texts or questions of a corpus have no class that the head of a model has."""
    given = [name for item in islice(items, _CHECKED_TEXTS) if (name := class_or_none(item)) is not None]
    if set(labels).isdisjoint(given):
        classes = _some(sorted(set(given))) or f"none (annotations: {', '.join(corpus.annotations) or 'none'})"
        raise TaskError(
            f"{CLASSES_OF_TEXTS}: the head of {encoder.name} tells {_some(labels)}; classes in {corpus.name}: {classes}"
            "; name the corpus it was fine-tuned for"
        )


def unseen_texts(encoder: HuggingFaceEncoder, corpus: Corpus) -> tuple[list[Text], int]:
    """Texts that the model was not fine-tuned on, and how many it was; a CorpusError where it was on all of them."""
    used = HeadTraining.of(encoder).used
    every = list(corpus)
    unseen = [text for text in every if not is_among(text, used)] if used else every
    if not unseen:
        raise CorpusError(
            f"{encoder.name} was fine-tuned on every text of {corpus.name} ({corpus.split}), or chosen by it; name "
            "texts it has not seen, for example with --split test"
        )
    return unseen, len(every) - len(unseen)


def _share_known(texts: Iterable[Text], annotation: str, labels: set[str]) -> float:
    """The share of an annotation's labels that a head has; 0 where they are not labels of words."""
    given: list[str] = []
    for text in texts:
        edges = text.edges.get(annotation, ())
        if annotation != "ner" and any(len(edge.span) > 1 or edge.other is not None for edge in edges):
            return 0.0
        if edges:
            given += [label for label in word_labels(text, annotation) if label is not None]
    return sum(label in labels for label in given) / len(given) if given else 0.0


def class_or_none(item: Item) -> str | None:
    """The class of a text, or the answer to a question; None where it has none.

    Example:
        >>> class_or_none(Text("s1", ("Who", "?"))) is None
        True
    """
    if isinstance(item, Question):
        return item.answers[0] if item.answers else None
    return class_of(item) if any(item.edges.get(name) for name in CLASSES) else None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


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
"""Texts that show whether the targets of a task have one label each."""
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

"""Masked words and their classes: what probes read from their hidden states, and what the lens predicts from them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.corpora.suites.cloze import Fact, Pattern, Relation, Relations
from lamina.corpora.treebanks import FEATURES
from lamina.models.language.language_model import LanguageModel, TokenQueries, WrittenPassage
from lamina.models.language.lens import layer_states, lens_logits
from lamina.models.language.slots import PassageWord, first_tokens, masked_words, unmasked_words
from lamina.probes.linear import LabelledVectors, fit_softmax
from lamina.probes.translators import Translators
from lamina.progress import progress
from lamina.stats.units import document_of
from lamina.types import Edge, Text

TaskName = Literal["pos", "number", "agreement", "role", "relation"]
"""In the order of tables and figures."""


class MaskedWordClass(NamedTuple):
    """The class of a word."""

    label: str
    maskable: bool = True
    """Whether the word can be masked and scored; otherwise it only counts as a form of its class."""


@dataclass(frozen=True)
class MaskedWordTask:
    """One property of masked words."""

    name: str
    title: str
    """In a sentence."""
    needs: tuple[str, ...]
    """Annotations that the texts must have; features stand in for `xpos`."""
    mark: Callable[[Text], Mapping[int, MaskedWordClass]]
    """Word -> its class; words of no class are missing."""


_NUMBERS = {"NN": "singular", "NNS": "plural"}
_NUMBER_FEATURES = {"Number=Sing": "singular", "Number=Plur": "plural"}
_THIRD_PERSON = frozenset({"VerbForm=Fin", "Person=3"})
_FINITE = {"VBZ": "singular", "VBP": "plural"}
_ROLES = {
    **dict.fromkeys(("nsubj", "nsubj:pass", "nsubjpass"), "subject"),
    **dict.fromkeys(("obj", "dobj", "iobj"), "object"),
}
_LEANS = ("aux", "aux:pass", "auxpass", "cop")
"""Relations of a finite verb to the word that its subject depends on."""
_NO_NUMBER = ("i", "you")
"""Subjects whose number the verb's form does not show."""
_FIRST_PERSON = ("am", "'m", "\N{RIGHT SINGLE QUOTATION MARK}m", "m")


def _tags(text: Text, annotation: str) -> dict[int, str]:
    """Word -> its tag, of tags of single words."""
    return {edge.span.start: edge.labels[0] for edge in text.edges.get(annotation, ()) if _is_one(edge)}


def _is_one(edge: Edge) -> bool:
    return len(edge.span) == 1 and len(edge.labels) == 1


def _pos(text: Text) -> dict[int, MaskedWordClass]:
    return {word: MaskedWordClass(tag) for word, tag in _tags(text, "pos").items()}


def _features(text: Text) -> dict[int, frozenset[str]]:
    """Word -> its features, of treebanks whose tags are not the Penn Treebank's."""
    return {edge.span.start: frozenset(edge.labels) for edge in text.edges.get(FEATURES, ())}


def _number_feature(features: frozenset[str]) -> str | None:
    return next((_NUMBER_FEATURES[feature] for feature in features if feature in _NUMBER_FEATURES), None)


def _number(text: Text) -> dict[int, MaskedWordClass]:
    """Common nouns: NN is singular, NNS plural; without Penn tags, nouns with the feature Number."""
    tagged = {word: _NUMBERS[tag] for word, tag in _tags(text, "xpos").items() if tag in _NUMBERS}
    nouns = {word for word, tag in _tags(text, "pos").items() if tag == "NOUN"}
    featured = {word: _number_feature(features) for word, features in _features(text).items() if word in nouns}
    return {word: MaskedWordClass(number) for word, number in (tagged | featured).items() if number is not None}


def _agreement(text: Text) -> dict[int, MaskedWordClass]:
    """Verbs in the present: VBZ goes with a singular subject, VBP with a plural one.

    Masked where there is a subject whose number the verb's form shows, so not after I and you. Without Penn tags:
    finite verbs in the third person, by their features.
    """
    heads = {edge.span.start: (edge.labels[0], edge.other.start) for edge in text.edges["dep"] if edge.other}
    subjects = {head: word for word, (label, head) in heads.items() if _ROLES.get(label) == "subject"}
    finite = {
        word: _FINITE[tag]
        for word, tag in _tags(text, "xpos").items()
        if tag in _FINITE and text.words[word].lower() not in _FIRST_PERSON
    }
    for word, features in _features(text).items():
        number = _number_feature(features) if features >= _THIRD_PERSON else None
        if number is not None:
            finite[word] = number
    marked = {}
    for word, number in finite.items():
        label, head = heads.get(word, ("", word))
        subject = subjects.get(head if label in _LEANS else word)
        maskable = subject is not None and text.words[subject].lower() not in _NO_NUMBER
        marked[word] = MaskedWordClass(number, maskable)
    return marked


def _role(text: Text) -> dict[int, MaskedWordClass]:
    """Personal pronouns that are a subject or an object: words whose form may show it (he, him)."""
    pos, tags, features = _tags(text, "pos"), _tags(text, "xpos"), _features(text)

    def is_personal(word: int) -> bool:
        known = features.get(word, frozenset())
        is_other = any(feature.startswith("PronType=") for feature in known) and "PronType=Prs" not in known
        return pos.get(word) == "PRON" and tags.get(word, "PRP") == "PRP" and not is_other

    return {
        edge.span.start: MaskedWordClass(_ROLES[edge.labels[0]])
        for edge in text.edges["dep"]
        if edge.labels[0] in _ROLES and is_personal(edge.span.start)
    }


TREEBANK_TASKS = (
    MaskedWordTask("pos", "Part of speech", ("pos",), _pos),
    MaskedWordTask("number", "Number of nouns", ("xpos",), _number),
    MaskedWordTask("agreement", "Number of verbs", ("xpos", "dep"), _agreement),
    MaskedWordTask("role", "Role of pronouns", ("pos", "dep"), _role),
)
"""Tasks of a treebank."""
RELATION = "relation"
"""The annotation of masked objects of facts, and the name of the task."""


def _relation(text: Text) -> dict[int, MaskedWordClass]:
    return {edge.span.start: MaskedWordClass(edge.labels[0]) for edge in text.edges.get(RELATION, ())}


RELATION_TASK = MaskedWordTask(RELATION, "Relation of a fact", (RELATION,), _relation)
TITLES = {task.name: task.title for task in (*TREEBANK_TASKS, RELATION_TASK)}
"""Task -> what figures and findings call it."""


# Which words are masked, and the class of each token of the vocabulary.

FEWEST_OF_CLASS = 10
"""Words of a class that training must have; rarer classes are left out."""


class ClassedText(NamedTuple):
    """A text whose words have classes."""

    passage: WrittenPassage
    document: str
    marks: Mapping[str, Mapping[int, MaskedWordClass]]
    """Task -> part of the passage -> its class."""
    counted: Sequence[int]
    """Parts that count as words of the vocabulary."""
    one_piece: bool = False
    """Whether words of several tokens are left out: their first tokens begin other words, too, and no text shows how
    often."""


@dataclass(frozen=True)
class ClassedTexts:
    """Texts whose words have classes."""

    items: Sequence[ClassedText]

    @classmethod
    def of(cls, texts: Iterable[Text], tasks: Sequence[MaskedWordTask]) -> ClassedTexts:
        """The texts of a treebank."""
        return cls(
            [
                ClassedText(
                    WrittenPassage.of(text),
                    document_of(text),
                    {task.name: task.mark(text) for task in tasks},
                    range(len(text.words)),
                )
                for text in texts
            ]
        )

    @cached_property
    def passages(self) -> list[WrittenPassage]:
        """The texts as they are written."""
        return [item.passage for item in self.items]

    def firsts(self, model: LanguageModel) -> list[Int[np.ndarray, " part"]]:
        """The first token of each part of each passage; -1 for one that cannot be masked or counted."""
        firsts = first_tokens(model, self.passages)
        return [
            np.where(pieces.sizes > 1, -1, pieces.ids) if item.one_piece else pieces.ids
            for item, pieces in zip(self.items, firsts, strict=True)
        ]

    def words_of(self, task: str) -> list[tuple[PassageWord, str]]:
        """The words that a task scores, with their classes."""
        return [
            (PassageWord(number, part), mark.label)
            for number, item in enumerate(self.items)
            for part, mark in item.marks[task].items()
            if mark.maskable
        ]

    def maskable_words(self, task: str, firsts: Sequence[Int[np.ndarray, " part"]]) -> list[tuple[PassageWord, str]]:
        """Those of them that can be masked, by what `firsts` gives."""
        return [(word, label) for word, label in self.words_of(task) if firsts[word.passage][word.part] >= 0]

    def draw(
        self, task: str, labels: Mapping[str, int], most: int, seed: int, firsts: Sequence[Int[np.ndarray, " part"]]
    ) -> list[tuple[PassageWord, int]]:
        """At most `most` words of these classes, by hash, in the order of the texts; tasks share words."""

        def place(word: PassageWord) -> bytes:
            key = f"{seed}\t{self.passages[word.passage].id}\t{word.part}"
            return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()

        known = [(word, labels[label]) for word, label in self.maskable_words(task, firsts) if label in labels]
        return sorted(sorted(known, key=lambda labelled: place(labelled[0]))[:most])

    def item_of(self, word: PassageWord) -> str:
        """The word's key, equal whatever the model."""
        return f"{self.passages[word.passage].id}:{word.part}"

    def sentence(self, word: PassageWord) -> tuple[str, str]:
        """The text with a gap, and what belongs there."""
        text, (start, stop) = self.passages[word.passage].text, self.passages[word.passage].spans[word.part]
        return f"{text[:start]}___{text[stop:]}", text[start:stop]


class MaskedWordData(NamedTuple):
    """Three sets of texts that share no document: probes learn from one, select by another, are scored on the third."""

    learn: ClassedTexts
    select: ClassedTexts
    scored: ClassedTexts
    tasks: tuple[str, ...]
    """Names of the tasks."""

    @property
    def train(self) -> ClassedTexts:
        """Everything but what is scored."""
        return ClassedTexts([*self.learn.items, *self.select.items])


class ClassVocabulary(NamedTuple):
    """The classes of a task, and the share of each token of the vocabulary in them."""

    labels: tuple[str, ...]
    shares: Float[np.ndarray, "piece label"]
    """Of the words in training that begin with this token, the share in each class."""
    prior: Float[np.ndarray, " label"]
    """Share of each class among words of any of them in training."""
    rare: int
    """Words in training whose class is too rare."""

    @property
    def numbers(self) -> dict[str, int]:
        """Class -> its number."""
        return {label: number for number, label in enumerate(self.labels)}


def vocabularies(model: LanguageModel, train: ClassedTexts, tasks: Sequence[str]) -> dict[str, ClassVocabulary]:
    """The classes of each task, from the words of the training texts."""
    firsts = train.firsts(model)
    seen = np.zeros(model.vocabulary)
    for item, first in zip(train.items, firsts, strict=True):
        pieces = first[list(item.counted)]
        np.add.at(seen, pieces[pieces >= 0], 1)
    return {task: _vocabulary(train, task, firsts, seen) for task in tasks}


def _vocabulary(
    train: ClassedTexts, task: str, firsts: Sequence[Int[np.ndarray, " part"]], seen: Float[np.ndarray, " piece"]
) -> ClassVocabulary:
    counts_by_label = Counter(label for _, label in train.maskable_words(task, firsts))
    labels = tuple(sorted(label for label, count in counts_by_label.items() if count >= FEWEST_OF_CLASS))
    numbers = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(seen), len(labels)))
    for item, first in zip(train.items, firsts, strict=True):
        for part, mark in item.marks[task].items():
            if mark.label in numbers and first[part] >= 0:
                counts[first[part], numbers[mark.label]] += 1
    total = np.array([counts_by_label[label] for label in labels], float)
    shares = counts / np.maximum(seen, 1)[:, None]
    rare = sum(count for label, count in counts_by_label.items() if label not in numbers)
    return ClassVocabulary(labels, shares, total / max(1.0, total.sum()), rare)


# Facts as sentences whose object is masked; the class is the kind of object that the relation takes.
#
# Many relations take the same objects (country, citizenship, country of origin: countries), and no word could
# distinguish them. Relations whose objects overlap are therefore one class.

OVERLAP = 0.2
"""Relations whose objects overlap by this share, in the mean over a class, are in one class."""
SCORED, SELECT = 1 / 3, 1 / 6
"""Shares of a relation's patterns that are scored, and that select; the probe learns from the others."""
_OBJECT = 1
"""The part of a sentence that is the object."""


def relation_data(relations: Relations, *, causal: bool, seed: int) -> tuple[MaskedWordData, Counter[str]]:
    """Sentences to learn from, to select by and to score, none with a pattern of another part; and what is left out.

    Each fact is one sentence. Scored sentences share no subject with others either. The unit that varies, and is never
    split, is the pattern.
    """
    kinds = object_kinds(relations.relations)
    learn, select, scored = [], [], []
    skipped: Counter[str] = Counter()
    for relation in relations.relations:
        patterns = [pattern for pattern in relation.patterns if not causal or "[X]" in pattern.before]
        skipped["relation: patterns whose subject comes after the object"] += len(relation.patterns) - len(patterns)
        patterns.sort(key=lambda pattern: _drawn(seed, relation.id, pattern.text))
        first = round(len(patterns) * SCORED)
        second = first + round(len(patterns) * SELECT)
        skipped["relation: relations with too few patterns to be scored"] += not first
        known, others = (_half(relation, which, seed) for which in (0, 1))
        scored += _sentences(relation, others, patterns[:first], kinds[relation.id], seed)
        select += _sentences(relation, known[::4], patterns[first:second], kinds[relation.id], seed)
        learn += _sentences(relation, known, patterns[second:], kinds[relation.id], seed)
    return MaskedWordData(ClassedTexts(learn), ClassedTexts(select), ClassedTexts(scored), (RELATION,)), skipped


def _sentences(
    relation: Relation, facts: Sequence[Fact], patterns: Sequence[Pattern], kind: str, seed: int
) -> Iterator[ClassedText]:
    for fact in facts:
        fitting = [pattern for pattern in patterns if pattern.fits(fact.object)]
        if fitting:
            pattern = min(fitting, key=lambda candidate: _drawn(seed, fact.id, candidate.text))
            before, after = pattern.of(fact.subject)
            id = f"{relation.id}/{fact.id}"
            passage = WrittenPassage.regions(id, [before, fact.object, after])
            marks = {RELATION: {_OBJECT: MaskedWordClass(kind)}}
            yield ClassedText(passage, f"{relation.id}/{pattern.text}", marks, (_OBJECT,), one_piece=True)


def _half(relation: Relation, which: int, seed: int) -> list[Fact]:
    return [fact for fact in relation.facts if _drawn(seed, fact.subject)[0] % 2 == which]


def _drawn(seed: int, *parts: str) -> bytes:
    return hashlib.blake2b("\t".join((str(seed), *parts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def object_kinds(relations: Sequence[Relation]) -> dict[str, str]:
    """Relation -> its class: relations that share objects are one cluster (average linkage), called by its middle one.

    Example:
        >>> facts = {"born": ("Rome", "Oslo"), "died": ("Rome", "Oslo"), "plays": ("piano", "drums")}
        >>> made = [Relation(n, n, tuple(Fact(str(i), o) for i, o in enumerate(two)), ()) for n, two in facts.items()]
        >>> object_kinds(made)
        {'born': 'born and 1 more', 'died': 'born and 1 more', 'plays': 'plays'}
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    alike = overlaps(relations)
    if len(relations) < 2:
        return {relation.id: relation.name for relation in relations}
    apart = 1 - alike[np.triu_indices(len(relations), 1)]
    cluster = fcluster(linkage(apart, "average"), 1 - OVERLAP, "distance")
    kinds = {}
    for number in dict.fromkeys(cluster.tolist()):
        members = np.flatnonzero(cluster == number).tolist()
        middle = relations[members[int(alike[np.ix_(members, members)].sum(1).argmax())]].name
        named = middle if len(members) == 1 else f"{middle} and {len(members) - 1} more"
        kinds |= {relations[number].id: named for number in members}
    return {relation.id: kinds[relation.id] for relation in relations}


def overlaps(relations: Sequence[Relation]) -> np.ndarray:
    """[relation, relation] The share of facts whose objects two relations have in common."""
    objects = {name: number for number, name in enumerate(sorted({name for one in relations for name in one.objects}))}
    shares = np.zeros((len(relations), len(objects)))
    for number, relation in enumerate(relations):
        for name, count in relation.objects.items():
            shares[number, objects[name]] = count / max(1, len(relation.facts))
    return np.stack([np.minimum(shares, one).sum(1) for one in shares])


Of = Literal["probe", "lens", "seen"]
"""A probe at the masked word, the lens there, or a probe at the visible word."""
_LOGITS = 2**23
"""Numbers that the head makes at a time."""
_AT_ONCE = 256
"""Passages that are run together: the states of more would fill the memory."""


class LayerAnswers(NamedTuple):
    """One answer per word and layer."""

    label: Int[np.ndarray, "word layer"]
    """The class that has most; -1 where the probe has not converged."""
    gold: Float[np.ndarray, "word layer"]
    """What the right class has: the probe's probability, or its share of the classes' mass."""
    top: Int[np.ndarray, "word layer"] | None = None
    """Of the lens: the token with the highest probability."""
    mass: Float[np.ndarray, "word layer"] | None = None
    """Of the lens: probability of all tokens that belong to any of the classes."""


class TaskAnswers(NamedTuple):
    """The masked words of one task, and the answers about them."""

    task: str
    words: list[PassageWord]
    gold: Int[np.ndarray, " word"]
    items: ClassedTexts
    vocabulary: ClassVocabulary
    unconverged: int
    """Probes (layers) that have not converged, of the model and of its twin."""
    answers: Mapping[tuple[str, Of], LayerAnswers]
    """(model or twin, way) -> its answers."""


class _DrawnWords(NamedTuple):
    """The words of one set of texts, by task, and all of them once."""

    by_task: dict[str, tuple[Int[np.ndarray, " word"], Int[np.ndarray, " word"]]]
    """Task -> numbers among `words`, and classes."""
    words: list[PassageWord]


def answer(
    models: Mapping[str, LanguageModel],
    data: MaskedWordData,
    vocabularies: Mapping[str, ClassVocabulary],
    *,
    most: int,
    learn: int,
    seen: bool,
    translators: Translators | None = None,
    seed: int,
) -> list[TaskAnswers]:
    """Mask words, and predict their classes with probes and lens, for every model alike.

    Args:
        models: `model`, and `twin` where there is one.
        data: texts whose words have classes.
        vocabularies: task -> its classes.
        most: scored words per task.
        learn: words per task to learn from; a quarter as many select.
        seen: whether a probe reads the words themselves, too (of the model only).
        translators: of the model's tuned lens; its plain lens by default. The twin's is always plain.
        seed: draws the words.
    """
    sizes = {"learn": learn, "select": max(1, learn // 4), "scored": most}
    parts = {
        name: _draw(models["model"], getattr(data, name), data.tasks, vocabularies, size, seed)
        for name, size in sizes.items()
    }
    answers_by_task: dict[str, dict[tuple[str, Of], LayerAnswers]] = {task: {} for task in data.tasks}
    for name, model in models.items():
        states, by_lens = _masked_states(model, data, parts, vocabularies, translators if name == "model" else None)
        for task, answers in _probed(parts, states, vocabularies, model).items():
            answers_by_task[task][name, "probe"] = answers
            answers_by_task[task][name, "lens"] = by_lens[task]
        del states
        if seen and name == "model":
            unmasked = {
                part: _states_of(unmasked_words, model, getattr(data, part), parts[part].words) for part in parts
            }
            for task, answers in _probed(parts, unmasked, vocabularies, model).items():
                answers_by_task[task][name, "seen"] = answers
    drawn = parts["scored"]
    return [
        TaskAnswers(
            task,
            [drawn.words[number] for number in drawn.by_task[task][0]],
            drawn.by_task[task][1],
            data.scored,
            vocabularies[task],
            sum(int((task_answers.label[:1] < 0).sum()) for task_answers in answers_by_task[task].values()),
            answers_by_task[task],
        )
        for task in data.tasks
    ]


def _draw(
    model: LanguageModel,
    items: ClassedTexts,
    tasks: Iterable[str],
    vocabularies: Mapping[str, ClassVocabulary],
    most: int,
    seed: int,
) -> _DrawnWords:
    firsts = items.firsts(model)
    numbers: dict[PassageWord, int] = {}
    by_task = {}
    for task in tasks:
        drawn = items.draw(task, vocabularies[task].numbers, most, seed, firsts)
        places = np.array([numbers.setdefault(word, len(numbers)) for word, _ in drawn], int)
        by_task[task] = places, np.array([label for _, label in drawn], int)
    return _DrawnWords(by_task, list(numbers))


def _masked_states(
    model: LanguageModel,
    data: MaskedWordData,
    parts: Mapping[str, _DrawnWords],
    vocabularies: Mapping[str, ClassVocabulary],
    translators: Translators | None,
) -> tuple[dict[str, np.ndarray], dict[str, LayerAnswers]]:
    """The hidden states of all masked words, and the lens's answers about those that are scored."""
    states = {part: _states_of(masked_words, model, getattr(data, part), drawn.words) for part, drawn in parts.items()}
    classes = {task: vocabularies[task] for task in data.tasks}
    masses, top = _through_lens(model, states["scored"], classes, translators)
    by_lens = {}
    for task, (places, gold) in parts["scored"].by_task.items():
        mass = masses[task][places]
        total = mass.sum(-1)
        share = mass / np.maximum(total, 1e-30)[..., None]
        right = np.take_along_axis(share, gold[:, None, None], -1)[..., 0]
        by_lens[task] = LayerAnswers(mass.argmax(-1), right, top[places], total)
    return states, by_lens


def _states_of(
    how: Callable[[LanguageModel, Sequence[WrittenPassage], Sequence[PassageWord]], TokenQueries],
    model: LanguageModel,
    items: ClassedTexts,
    words: Sequence[PassageWord],
) -> np.ndarray:
    """[word, layer, width] The hidden states from which words are predicted."""
    encoder = model.encoder
    vectors = np.empty((len(words), encoder.layers, encoder.width), np.float32)
    by_passage: dict[int, list[int]] = {}
    for number, word in enumerate(words):
        by_passage.setdefault(word.passage, []).append(number)
    passages = sorted(by_passage)
    with progress(f"{model.name}: words", len(words)) as advance:
        for start in range(0, len(passages), _AT_ONCE):
            some = passages[start : start + _AT_ONCE]
            numbers = [number for passage in some for number in by_passage[passage]]
            local = {passage: number for number, passage in enumerate(some)}
            within = [PassageWord(local[words[number].passage], words[number].part) for number in numbers]
            wanted = how(model, [items.passages[passage] for passage in some], within)
            for places, states in layer_states(model, wanted):
                vectors[np.array(numbers)[places]] = states.cpu().numpy()
            advance(len(numbers))
    return vectors


def _through_lens(
    model: LanguageModel,
    states: Float[np.ndarray, "word layer width"],
    tasks: Mapping[str, ClassVocabulary],
    translators: Translators | None = None,
) -> tuple[dict[str, np.ndarray], Int[np.ndarray, "word layer"]]:
    """Task -> [word, layer, label] the mass of each class; and the token with the highest probability."""
    device = model.encoder.device
    shares = torch.from_numpy(np.hstack([vocabulary.shares for vocabulary in tasks.values()])).float().to(device)
    masses = np.zeros((*states.shape[:2], shares.shape[1]))
    top = np.zeros(states.shape[:2], int)
    most = max(1, _LOGITS // model.vocabulary)
    with progress(f"{model.name}: lens", states.shape[1]) as advance:
        for layer in range(states.shape[1]):
            for start in range(0, len(states), most):
                some = slice(start, start + most)
                vectors = torch.from_numpy(states[some, layer]).to(device)
                vectors = vectors if translators is None else translators(vectors, layer)
                chances = lens_logits(model, vectors, layer).softmax(-1)
                masses[some, layer] = (chances @ shares).cpu().numpy()
                top[some, layer] = chances.argmax(-1).cpu().numpy()
            advance()
    bounds = np.cumsum([0, *(len(vocabulary.labels) for vocabulary in tasks.values())])
    cut = zip(tasks, bounds[:-1], bounds[1:], strict=True)
    return {task: masses[..., start:stop] for task, start, stop in cut}, top


def _probed(
    parts: Mapping[str, _DrawnWords],
    states: Mapping[str, Float[np.ndarray, "word layer width"]],
    vocabularies: Mapping[str, ClassVocabulary],
    model: LanguageModel,
) -> dict[str, LayerAnswers]:
    """Task -> what a linear probe on each layer answers."""
    by_task = {}
    tasks = parts["scored"].by_task
    with progress(f"{model.name}: probes", len(tasks) * model.encoder.layers) as advance:
        for task, (places, gold) in tasks.items():
            label, right = (
                np.full((len(places), model.encoder.layers), -1),
                np.full((len(places), model.encoder.layers), np.nan),
            )
            for layer in range(model.encoder.layers):
                learn, select = (
                    LabelledVectors(states[part][parts[part].by_task[task][0], layer], parts[part].by_task[task][1])
                    for part in ("learn", "select")
                )
                probe = fit_softmax(learn, select, len(vocabularies[task].labels), model.encoder.device)
                if probe.converged:
                    probabilities = probe.probabilities(states["scored"][places, layer])
                    label[:, layer], right[:, layer] = (
                        probabilities.argmax(1),
                        probabilities[np.arange(len(gold)), gold],
                    )
                advance()
            by_task[task] = LayerAnswers(label, right)
    return by_task

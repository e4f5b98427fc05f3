"""What probes read from the hidden states of masked words, and what the lens predicts from the same states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.behaviour.probe_vs_lens.tasks import ClassedTexts, ClassVocabulary, MaskedWordData
from lamina.models.language.language_model import LanguageModel
from lamina.models.language.lens import layer_states, lens_logits
from lamina.models.language.masked_words import PassageWord, masked_words, unmasked_words
from lamina.models.language.scoring import TokenQueries, WrittenPassage
from lamina.probes.linear import LabelledVectors, fit_softmax
from lamina.probes.translators import Translators
from lamina.progress import progress

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

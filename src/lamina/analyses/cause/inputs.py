"""What analyses that change a model's parts read: the model, texts, and what else it can be asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from lamina import assets
from lamina.analyses.behaviour.inputs import speaking, texts_to_score
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.loading import scored_split
from lamina.corpora.question_sets import Questions, load_questions
from lamina.corpora.suites.minimal_pairs import MinimalPairs, read_pairs
from lamina.errors import InputError, LaminaError
from lamina.framework.inputs import LoadedInputs, TrainedTexts, as_encoder, as_result, chosen_view, model_and
from lamina.framework.settings import DeclaredSetting, Setting
from lamina.models import Encoder
from lamina.models.language.language_model import has_language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import Kind, head_kind, head_on_states
from lamina.progress import say
from lamina.results import Result
from lamina.targets.answers import has_span_head
from lamina.targets.choice import HEADS, TargetData, chosen_targets
from lamina.targets.target import CLASSES_OF_TEXTS, LOSS, PAIRS, QA, QA_EXACT, TAGS
from lamina.training.provenance import ABOUT, folder_of, read_about, view_of

if TYPE_CHECKING:
    from lamina.activations import Runtime

_SUITE, _QUESTIONS = "blimp", "stories"
"""Pairs and questions where none are named; a model that lamina fine-tuned is asked what it was tuned for."""

# Settings that several analyses share; which pairs, questions and probes they mean is found when inputs are loaded.
Suite = Annotated[
    str | MinimalPairs | None,
    Setting("Minimal pairs: a suite or a file; blimp by default, where it is at hand.", file=True),
]
AskedQuestions = Annotated[
    str | Questions | None,
    Setting(
        "Questions for a model with a span head: a name or a path; by default what it was tuned on, or stories.",
        file=True,
    ),
]
Probes = Annotated[
    str | Result | None, Setting("A result of `lamina probe` whose probes are asked: its folder.", file=True)
]
Items = Annotated[int, Setting("Most texts, pairs and questions of each target, drawn at random.", min=2)]


@dataclass(frozen=True)
class CauseInputs(TrainedTexts):
    """A model, and what it is asked about while its parts are changed: an encoder and a `TargetData`.

    Settings of the analysis say the rest: `targets`, and the names `suite` (minimal pairs), `questions` and `probes`
    (what `lamina probe` wrote). A limit is of the texts that are asked about.
    """

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        about = "What is asked about: dev, test, or all, which leaves no texts for probes to learn from."
        return (DeclaredSetting("split", str, self.split, Setting(about)), *super().options[1:])

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; what model and data cannot give is said before anything is measured."""
        targets = settings.get("targets")
        encoder = as_encoder(given["model"], options, runtime)
        speaks = has_language_model(encoder)
        probes = settings.get("probes")
        material = TargetData(
            texts_to_score(given["data"], options, targets, self.split),
            _pairs(settings.get("suite"), targets) if speaks else None,
            _questions(settings.get("questions"), targets, encoder) if _answers(encoder) else None,
            None if probes is None else as_result(probes),
        )
        # What was named and cannot be asked is said, not left out.
        if settings.get("suite") is not None:
            chosen_targets(encoder, [PAIRS], material)
        if settings.get("questions") is not None and material.questions is None:
            chosen_targets(encoder, [QA], material)
        names = chosen_targets(encoder, targets, material)
        if targets is None:
            _say_unasked(encoder, names, material)
        loaded = model_and(encoder, material.texts, given["model"])
        read = {"pairs": material.pairs, "questions": material.questions}
        about = {name: described.describe() for name, described in read.items() if described is not None}
        prints = [described["fingerprint"] for described in about.values()]
        if material.probes is not None:
            prints.append(material.probes.key)
        data = {**loaded.data, **about, "fingerprint": fingerprint_of(loaded.data["fingerprint"], *prints)}
        model = _with_head(encoder, names, material, loaded.model)
        return replace(loaded, arguments=(encoder, material), model=model, data=data)

    def in_report(self, encoder: Encoder, texts: Any, train: Any) -> dict[str, Any] | None:
        """A report does not ask it: parts are taken away one by one, which takes long."""
        return None


def _with_head(
    encoder: Encoder, names: Sequence[str], material: TargetData, about: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What provenance says of a model: with its head, where that is asked."""
    if LOSS in names or material.pairs is not None:
        return speaking(encoder)
    spans = [QA] if has_span_head(encoder) and material.questions is not None else []
    kinds: list[Kind] = [HEADS[name] for name in (*names, *spans) if name in HEADS]
    if not kinds or not isinstance(encoder, HuggingFaceEncoder):
        return about
    head = head_on_states(encoder, kinds[0])
    return {**about, "fingerprint": head.fingerprint, "body": about["fingerprint"], "head": kinds[0]}


def _say_unasked(encoder: Encoder, names: Sequence[str], material: TargetData) -> None:
    """Say why a head that the model was fine-tuned with is not asked by default: the data have nothing for it."""
    kind = head_kind(encoder) if isinstance(encoder, HuggingFaceEncoder) else None
    for name in (TAGS, CLASSES_OF_TEXTS, QA):
        if HEADS[name] == kind and name not in names:
            try:
                chosen_targets(encoder, [name], material)
            except InputError as error:
                say(f"not asked: {error}")


def _pairs(suite: Any, targets: Sequence[str] | None) -> MinimalPairs | None:
    """The pairs asked for; by default BLiMP, where it is at hand."""
    if isinstance(suite, MinimalPairs):
        return suite
    wanted = suite is not None or (assets.local_folder(_SUITE) if targets is None else PAIRS in targets)
    return read_pairs(suite or _SUITE) if wanted else None


def _questions(named: Any, targets: Sequence[str] | None, encoder: Encoder) -> Questions | None:
    if isinstance(named, Questions):
        return named
    if named is None and targets is not None and not {QA, QA_EXACT, CLASSES_OF_TEXTS} & set(targets):
        return None
    view = chosen_view({}, encoder)
    tuned_on = _tuned_on(encoder) if named is None else None
    if tuned_on is not None:
        with suppress(LaminaError):
            return load_questions(tuned_on, scored_split(tuned_on), view=view)
    data = named or _QUESTIONS
    return load_questions(data, scored_split(data), view=view)


def _answers(encoder: Encoder) -> bool:
    """Whether a model answers questions: with a span, or with a class that lamina taught it."""
    return has_span_head(encoder) or (
        view_of(encoder) is not None
        and isinstance(encoder, HuggingFaceEncoder)
        and head_kind(encoder) == HEADS[CLASSES_OF_TEXTS]
    )


def _tuned_on(encoder: Encoder) -> str | None:
    """The data that lamina fine-tuned a model on, of which it is asked what it has not seen; None if not known."""
    folder = folder_of(encoder)
    if folder is None or not (folder / ABOUT).is_file():
        return None
    data = read_about(folder).get("data", {})
    return data.get("asked", {}).get("data") or data.get("name")

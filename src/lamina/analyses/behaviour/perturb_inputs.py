"""What `perturb` reads: a model, texts, and the pairs and questions that its head can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lamina import assets
from lamina.analyses.behaviour.inputs import speaking
from lamina.analyses.behaviour.perturb_answers import QA, has_span_head, span_answerer
from lamina.analyses.behaviour.perturb_probes import PROBE
from lamina.analyses.behaviour.perturb_targets import LOSS, PAIRS
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.learning import Splits
from lamina.corpora.loading import scored_split
from lamina.corpora.minimal_pairs import MinimalPairs, read_pairs
from lamina.corpora.question_sets import Questions, load_questions
from lamina.encoders import Encoder
from lamina.encoders.language_model import has_language_model
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.inputs import (
    LoadedInputs,
    TrainedTexts,
    as_corpus,
    as_encoder,
    as_splits,
    chosen_view,
    model_and,
)

if TYPE_CHECKING:
    from lamina.activations import Runtime

_SUITE, _QUESTIONS = "blimp", "stories"
"""Pairs and questions where none are named."""


@dataclass(frozen=True)
class PerturbedTexts(TrainedTexts):
    """A model, texts for probes to learn from and texts to perturb; pairs and questions where it has the head for them.

    The analysis's function gets the encoder, the texts (a corpus where there are none to learn from), and pairs and
    questions or None. A limit is of the texts that are perturbed.
    """

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without the head that a target needs is refused before texts are read."""
        asked = settings["targets"]
        _refuse_unknown(asked)
        encoder = as_encoder(given["model"], options, runtime)
        speaks = has_language_model(encoder)
        spoken = speaking(encoder) if speaks or {LOSS, PAIRS} & set(asked or ()) else None
        if asked is not None and QA in asked:
            span_answerer(encoder)
        pairs = _pairs(settings["suite"], asked) if speaks else None
        questions = _questions(settings["questions"], asked, encoder) if has_span_head(encoder) else None
        texts = texts_to_ask(given["data"], options, asked, self.split)
        loaded = model_and(encoder, texts, given["model"])
        read = {"pairs": pairs, "questions": questions}
        about = {name: each.describe() for name, each in read.items() if each is not None}
        prints = [each["fingerprint"] for each in about.values()]
        data = {**loaded.data, **about, "fingerprint": fingerprint_of(loaded.data["fingerprint"], *prints)}
        return replace(loaded, arguments=(encoder, texts, pairs, questions), model=spoken or loaded.model, data=data)

    def in_report(self, encoder: Encoder, texts: Any, train: Any) -> dict[str, Any] | None:
        """A report does not ask it."""
        return None


def texts_to_ask(data: Any, options: Mapping[str, Any], asked: Sequence[str] | None, split: str) -> Splits | Corpus:
    """Texts with those that probes learn from; without these where there are none and no probe is asked for."""
    try:
        splits = as_splits(data, {**options, "limit": None})
    except CorpusError:
        if any(each.startswith(PROBE) for each in asked or ()):
            raise
        return as_corpus(data, options, split)
    limit = options["limit"]
    return splits if limit is None else replace(splits, scored=splits.scored.take(limit))


def chosen_names(
    asked: Sequence[str] | None,
    encoder: Encoder,
    texts: Splits | Corpus,
    pairs: MinimalPairs | None,
    questions: Questions | None,
) -> tuple[str, ...]:
    """The targets asked for; by default all that the model and the data give."""
    if asked is not None:
        return tuple(dict.fromkeys(asked))
    there = {
        LOSS: has_language_model(encoder),
        PAIRS: pairs is not None,
        f"{PROBE}pos": isinstance(texts, Splits) and "pos" in texts.scored.annotations,
        QA: questions is not None,
    }
    found = tuple(target for target, given in there.items() if given)
    if not found:
        raise ModelError(
            f"{encoder.name} has no head that can be asked, and {texts.name} no parts of speech for a probe to learn; "
            f"name a model with a head, a corpus such as ewt, or a task of this one with --target {PROBE}TASK"
        )
    return found


def _refuse_unknown(targets: Sequence[str] | None) -> None:
    for each in targets or ():
        if each not in (LOSS, PAIRS, QA) and not (each.startswith(PROBE) and each.removeprefix(PROBE)):
            raise InputError(f"unknown target {each!r}; name {LOSS}, {PAIRS}, {QA} or {PROBE}TASK, such as {PROBE}pos")


def _pairs(suite: str | None, asked: Sequence[str] | None) -> MinimalPairs | None:
    """The pairs asked for; by default BLiMP, where it is at hand."""
    wanted = suite is not None or assets.held(_SUITE) if asked is None else PAIRS in asked
    return read_pairs(suite or _SUITE) if wanted else None


def _questions(named: str | None, asked: Sequence[str] | None, encoder: Encoder) -> Questions | None:
    if asked is not None and QA not in asked:
        return None
    data = named or _QUESTIONS
    return load_questions(data, scored_split(data), view=chosen_view({}, encoder))

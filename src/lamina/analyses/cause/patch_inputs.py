"""What `patch` reads: a model that answers with spans and questions, or a language model and minimal pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina import assets
from lamina.analyses.behaviour.inputs import speaking
from lamina.analyses.behaviour.perturb_answers import has_span_head, span_answerer
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.minimal_pairs import MinimalPairs, read_pairs
from lamina.corpora.question_sets import Questions
from lamina.encoders import Encoder
from lamina.encoders.language_model import has_language_model
from lamina.errors import InputError, ModelError
from lamina.framework.inputs import (
    LoadedInputs,
    QuestionSet,
    as_encoder,
    as_questions,
    chosen_view,
    describe_models,
    short_name,
)

if TYPE_CHECKING:
    from lamina.activations import Runtime

_SUITE, _QUESTIONS = "blimp", "stories"
"""Pairs and questions where none are named."""


@dataclass(frozen=True)
class PatchInputs(QuestionSet):
    """A model, and what its head can be asked: questions, or minimal pairs.

    The analysis's function gets the encoder, the questions or None, and the pairs or None; the setting `suite` names
    these.
    """

    default: str | None = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without the head that the data needs is refused before the data is read."""
        encoder = as_encoder(given["model"], options, runtime)
        data, suite = given["data"], settings["suite"]
        if data is not None:
            span_answerer(encoder)
        spoken = speaking(encoder) if suite is not None or has_language_model(encoder) else None
        if spoken is None and not has_span_head(encoder):
            raise ModelError(
                f"{encoder.name} has neither a head that answers with a span nor a language-model head, so there is "
                "nothing it says that a patch could turn; `lamina finetune MODEL --task squad` gives it the first, and "
                "models such as smollm2 have the second"
            )
        questions = self._asked(data, options, encoder)
        pairs = None if spoken is None else _read_suite(suite)
        read = {"questions": questions, "pairs": pairs}
        about = {name: each.describe() for name, each in read.items() if each is not None}
        names = [str(each["name"]) for each in about.values()]
        prints = [each["fingerprint"] for each in about.values()]
        data_said = {"name": " and ".join(names), "split": "", **about, "fingerprint": fingerprint_of(*prints)}
        short = (short_name(given["model"], encoder), *(Path(name).stem for name in names))
        return LoadedInputs((encoder, questions, pairs), spoken or describe_models((encoder,)), data_said, short)

    def _asked(self, data: Any, options: Mapping[str, Any], encoder: Encoder) -> Questions | None:
        if not has_span_head(encoder):
            return None
        return as_questions(_QUESTIONS if data is None else data, options, chosen_view(options, encoder))

    def in_report(self, encoder: Encoder, texts: Any, train: Any) -> dict[str, Any] | None:
        """A report does not ask it: every layer and role is a run of its own."""
        return None


def _read_suite(suite: Any) -> MinimalPairs:
    if isinstance(suite, MinimalPairs):
        return suite
    if suite is None and not assets.held(_SUITE):
        raise InputError(f"no minimal pairs are named, and {_SUITE} is not on this machine: name some with --suite")
    return read_pairs(suite or _SUITE)

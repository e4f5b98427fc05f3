"""What is read to join the roles of heads with their use: a treebank, pairs that need agreement, questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.analyses.behaviour.pairs import AGREEMENT
from lamina.analyses.behaviour.perturb_answers import has_span_head
from lamina.analyses.cause.answers import QA
from lamina.analyses.cause.inputs import CauseInputs
from lamina.corpora.agreement_pairs import agreement_pairs
from lamina.corpora.minimal_pairs import MinimalPairs, read_pairs
from lamina.encoders.language_model import has_language_model
from lamina.errors import CorpusError, LaminaError
from lamina.framework.inputs import LoadedInputs, as_encoder, short_name
from lamina.progress import say

if TYPE_CHECKING:
    from lamina.activations import Runtime

_LINKED = ("dep", "chains", "coref")


@dataclass(frozen=True)
class RoleInputs(CauseInputs):
    """A model, texts with dependencies or coreference (training texts among them), pairs and questions."""

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; texts without anything that heads could find are refused."""
        encoder = as_encoder(given["model"], options, runtime)
        suite = None
        if has_language_model(encoder):
            suite = _pairs(settings.get("suite"), given["data"], options["split"])
        targets = [QA] if has_span_head(encoder) else []
        asked = {**settings, "suite": suite, "targets": targets}
        loaded = super().load({**given, "model": encoder}, options, asked, runtime)
        _, material = loaded.arguments
        if material.splits is None:
            raise CorpusError(
                f"{material.texts.name} has no training texts to find roles in and for probes to learn from; name a "
                "corpus that has some, such as ewt"
            )
        if not set(_LINKED) & set(material.scored.annotations):
            has = ", ".join(material.scored.annotations) or "none"
            raise CorpusError(
                f"{material.texts.name} has neither dependencies nor coreference (annotation dep, chains or coref; it "
                f"has: {has}), so no head can have a role in it; name a treebank, for example ewt"
            )
        return replace(loaded, names=(short_name(given["model"], encoder), *loaded.names[1:]))


def _pairs(suite: Any, data: Any, split: str) -> MinimalPairs | None:
    """The pairs asked for; agreement is made of the corpus itself, where it is a treebank that can be read again."""
    if suite is None or isinstance(suite, MinimalPairs):
        return suite
    if str(suite) != AGREEMENT:
        return read_pairs(suite)
    if not isinstance(data, str | Path):
        say("no pairs are asked: agreement is made of a treebank given by name or path")
        return None
    try:
        return agreement_pairs(data, split)
    except LaminaError as error:
        say(f"no pairs are asked: {error}")
        return None

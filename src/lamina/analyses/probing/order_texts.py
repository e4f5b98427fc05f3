"""The treebank that order tasks are made from: more scored sentences, and features where tags are not Penn's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.corpora.learning import Splits, load_splits
from lamina.corpora.morphology import load_treebank
from lamina.errors import LaminaError
from lamina.framework.inputs import LoadedInputs, TrainedTexts, as_encoder, as_splits, model_and
from lamina.framework.settings import DeclaredSetting, Setting
from lamina.tasks.clauses import FEATURES
from lamina.types import Edge, Span, Text

if TYPE_CHECKING:
    from lamina.activations import Runtime

BOTH = "dev+test"
_PENN = {"NN", "NNS", "VBD", "VBZ", "VBP", "MD"}
_LOOKED_AT = 200
"""Sentences that tell which tags a treebank has."""


@dataclass(frozen=True)
class OrderTexts(TrainedTexts):
    """A model and a treebank: training sentences, and those of dev and test, of which few tasks have many."""

    split: str = BOTH

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        said = Setting(f"What is scored: dev, test, or {BOTH}, which has more sentences for rare tasks.")
        return (DeclaredSetting("split", str, self.split, said), *super().options[1:])

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        splits = treebank_splits(given["data"], options)
        return model_and(as_encoder(given["model"], options, runtime), splits, given["model"])


def treebank_splits(data: Any, options: Mapping[str, Any]) -> Splits:
    """Training and scored sentences; of a corpus without a training split, dev alone is scored."""
    if not isinstance(data, str | Path):
        return as_splits(data, {**options, "split": "dev" if options.get("split") == BOTH else options["split"]})
    asked = {name: options[name] for name in ("unit", "format", "annotation", "limit") if name in options}
    if options["split"] != BOTH:
        return with_features(load_splits(data, options["split"], **asked), data)
    dev, test = (load_splits(data, name, **asked) for name in ("dev", "test"))
    if dev.train.fingerprint != test.train.fingerprint:
        # Where there is no train, each of the two stands in for it when the other is scored.
        return with_features(dev, data)
    return with_features(Splits(dev.train, _together(dev.scored, test.scored)), data)


def _together(one: Corpus, other: Corpus) -> Corpus:
    return replace(
        one,
        split=BOTH,
        source=lambda: chain(one, other),
        fingerprint=fingerprint_of(BOTH, one.fingerprint, other.fingerprint),
        files={**one.files, **other.files},
        limit=None,
    )


def with_features(splits: Splits, path: str | Path) -> Splits:
    """The same sentences with their features, where their tags are not Penn's and the files have features."""
    looked_at = (text for _, text in zip(range(_LOOKED_AT), splits.train, strict=False))
    tags = {edge.labels[0] for text in looked_at for edge in text.edges.get("xpos", ())}
    if tags & _PENN:
        return splits
    try:
        bank = load_treebank(path)
    except LaminaError:
        # No treebank with features: tasks that need number or tense say so.
        return splits
    known = {each.id: each.words for each in bank.sentences}

    def featured(corpus: Corpus) -> Corpus:
        def texts() -> Iterator[Text]:
            for text in corpus:
                words = known.get(text.id, ())
                if tuple(word.form for word in words) != text.words:
                    yield text
                    continue
                labels = (tuple(f"{name}={value}" for name, value in word.features.items()) for word in words)
                edges = tuple(Edge(own, Span(at, at + 1)) for at, own in enumerate(labels) if own)
                yield replace(text, edges={**text.edges, FEATURES: edges})

        return replace(corpus, source=texts, fingerprint=fingerprint_of(FEATURES, corpus.fingerprint), limit=None)

    return Splits(featured(splits.train), featured(splits.scored))

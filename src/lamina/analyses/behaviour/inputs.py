"""What analyses of behaviour read: a model with a language-model head, and texts or a test suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from lamina.errors import CorpusError, InputError
from lamina.framework.inputs import (
    MODEL,
    MODEL_OPTIONS,
    Input,
    LoadedInputs,
    Reads,
    Texts,
    TrainedTexts,
    as_corpus,
    as_encoder,
    as_splits,
    describe_models,
    kind_of,
    model_and,
    short_name,
)
from lamina.framework.settings import DeclaredSetting, Setting
from lamina.targets.target import PROBE

if TYPE_CHECKING:
    from lamina.activations.runtime import Runtime
    from lamina.corpora import Corpus
    from lamina.corpora.splits import Splits
    from lamina.models import Encoder


MOST_SPOKEN = 100
"""Texts of a report that are scored word by word, within the report's time."""


class SuiteData(Protocol):
    """What a suite's reader gives."""

    @property
    def name(self) -> str:
        """For tables."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever an item changes."""
        ...

    def describe(self) -> dict[str, Any]:
        """Its entry in provenance, with `name` and `fingerprint`."""
        ...


def speaking(encoder: Encoder) -> dict[str, Any]:
    """Provenance of a model with its language-model head; a ModelError if it has none."""
    from lamina.models.language.language_model import language_model

    model = language_model(encoder)
    return {**describe_models((encoder,)), **model.describe()}


def texts_to_score(data: Any, options: Mapping[str, Any], targets: Sequence[str] | None, split: str) -> Splits | Corpus:
    """Texts to score, with training texts for probes; without these if there are none and no probe is a target."""
    try:
        splits = as_splits(data, {**options, "limit": None})
    except CorpusError:
        if any(target.startswith(PROBE) for target in targets or ()):
            raise
        return as_corpus(data, options, split)
    limit = options["limit"]
    return splits if limit is None else replace(splits, scored=splits.scored.take(limit))


@dataclass(frozen=True)
class SpokenTexts(Texts):
    """A language model and texts."""

    speaks: ClassVar[bool] = True

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without a head is refused before texts are read."""
        encoder = as_encoder(given["model"], options, runtime)
        model = speaking(encoder)
        loaded = super().load({**given, "model": encoder}, options, settings, runtime)
        return replace(loaded, model=model, names=(short_name(given["model"], encoder), *loaded.names[1:]))

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """In a report: only models with a language-model head."""
        from lamina.models.language.language_model import has_language_model

        return super().in_report(encoder, texts, train) if has_language_model(encoder) else None


@dataclass(frozen=True)
class SpokenSplits(TrainedTexts):
    """A language model, all training texts for the baselines, and the texts to score (up to the limit)."""

    speaks: ClassVar[bool] = True

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        text = f"What is scored: dev, test, or all; of all, baselines learn from the training texts of {self.default}."
        return (DeclaredSetting("split", str, self.split, Setting(text)), *super().options[1:])

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without a head is refused before texts are read."""
        encoder = as_encoder(given["model"], options, runtime)
        model = speaking(encoder)
        whole = {**options, "limit": None}
        splits = self._all(given["data"], whole) if options["split"] == "all" else as_splits(given["data"], whole)
        if options["limit"] is not None:
            splits = replace(splits, scored=splits.scored.take(options["limit"]))
        return replace(model_and(encoder, splits, given["model"]), model=model)

    def _all(self, data: Any, options: Mapping[str, Any]) -> Splits:
        from lamina.corpora import load_corpus
        from lamina.corpora.splits import Splits

        scored = as_corpus(data, options, "all")
        if scored.name == self.default:
            raise CorpusError(f"baselines learn from the training texts of {self.default}; score its dev or test")
        return Splits(load_corpus(self.default, "train"), scored)

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """In a report: only models with a head, and some texts, since masked models read a text once per token."""
        from lamina.models.language.language_model import has_language_model

        if not has_language_model(encoder):
            return None
        return super().in_report(encoder, texts if train is None else texts.take(MOST_SPOKEN), train)


@dataclass(frozen=True)
class SpokenSuite(Reads):
    """A language model and a test suite; the analysis's function gets the encoder and what `read` gives."""

    read: Callable[[str | Path, Mapping[str, Any]], SuiteData] = field(kw_only=True)
    """Name or path, and the data options -> the suite."""
    known: tuple[str, ...] = field(kw_only=True)
    """Names of suites that can be given."""
    more: tuple[DeclaredSetting, ...] = ()
    """Further data options."""
    sampled: ClassVar[bool] = False
    speaks: ClassVar[bool] = True

    @property
    def inputs(self) -> tuple[Input, ...]:  # type: ignore[override]
        """See `Reads.inputs`; the first known suite is the default."""
        text = f"A test suite: {', '.join(self.known)}, or the path of a file or folder."
        return (MODEL, Input("suite", text, default=self.known[0], option="--suite", kind="suite", named=self.known))

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (*self.more, *MODEL_OPTIONS)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without a head is refused before the suite is read."""
        encoder = as_encoder(given["model"], options, runtime)
        model = speaking(encoder)
        suite = given["suite"]
        if isinstance(suite, str | Path):
            suite = self.read(suite, options)
        elif not hasattr(suite, "describe"):
            raise InputError(f"a suite is a name or a path; got {kind_of(suite)}")
        return LoadedInputs(
            (encoder, suite), model, suite.describe(), (short_name(given["model"], encoder), Path(suite.name).stem)
        )

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """In a report: only models with a head, if the suite is on this machine."""
        from lamina import assets
        from lamina.models.language.language_model import has_language_model

        name = self.known[0]
        if not has_language_model(encoder) or (name in assets.cards() and not assets.local_folder(name)):
            return None
        return {"model": encoder, "suite": name}

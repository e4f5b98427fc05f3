"""What `restore` reads: a fine-tuned model, the model it came from, and the texts it was tuned and scored on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lamina.analyses.finetune import LEARNED, as_sets
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.layer_weights import layer_weights, refuse_unlike
from lamina.errors import CorpusError, LaminaError, ModelError
from lamina.framework.inputs import FORMAT, LIMIT, Input, LoadedInputs, Reads, as_encoder, describe_models, short_name
from lamina.framework.settings import DeclaredSetting, Setting
from lamina.training.heads import source_of, with_padding
from lamina.training.objective import text_of
from lamina.training.provenance import refuse_used
from lamina.training.reading import Sets, apart
from lamina.training.tuned import Tuned

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.corpora import Corpus


class TunedModel(Reads):
    """A model that lamina fine-tuned, the one it came from, and the three sets of its data.

    The analysis's function gets a `Tuned`, an encoder and `Sets`; whether these are the very model and texts of the
    fine-tuning is in the data's description as `as_tuned`.
    """

    default: ClassVar[None] = None
    inputs: ClassVar = (
        Input("model", "A folder that `lamina finetune` wrote.", metavar="TUNED", kind="model"),
        Input(
            "data",
            "Data with the tuned model's task: a name or a path; by default what it was tuned on.",
            default=None,
            option="--data",
            kind="questions",
        ),
        Input(
            "before",
            "The model before fine-tuning; by default the one that the folder names.",
            default=None,
            option="--before",
        ),
    )

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (FORMAT, LEARNED, replace(LIMIT, about=Setting("Take only the first N texts of each set.", min=1)))

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        tuned = Tuned.of(as_encoder(given["model"], {}, runtime))
        before = _before(tuned, given["before"], runtime)
        sets = _sets(tuned, given["data"], options)
        refuse_used(source_of(tuned.encoder), map(text_of, sets.scored), f"{sets.name} (scored)")
        model = describe_models((tuned.encoder,))
        # The head's weights are no part of an encoder's fingerprint.
        weights = fingerprint_of(model["fingerprint"], before.fingerprint, tuned.weights)
        model |= {"fingerprint": weights, "task": tuned.task, "before": before.describe()}
        names = (short_name(given["model"], tuned.encoder), Path(sets.name).stem, tuned.task)
        data = {**sets.describe(), "as_tuned": tuned.is_from(before, sets)}
        return LoadedInputs((tuned, before, sets), model, data, names)

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """A report is of a model that need not be tuned."""
        return None


def _before(tuned: Tuned, named: Any, runtime: Runtime) -> HuggingFaceEncoder:
    """The model before fine-tuning: as named, or as the folder says, which then has to have the same weights."""
    base = tuned.about.get("base", {})
    home = base.get("folder", "")
    known = home if home and Path(home).is_dir() else base.get("name", "")
    try:
        before = as_encoder(known if named is None else named, {}, runtime)
    except LaminaError as error:
        if named is not None:
            raise
        raise ModelError(
            f"{tuned.folder} was tuned from {known}, which cannot be loaded; name that model with --before ({error})"
        ) from error
    if not isinstance(before, HuggingFaceEncoder):
        raise ModelError(f"{before.name} has no blocks whose weights could be put back; name a transformer")
    refuse_unlike(tuned.encoder, before, layer_weights(tuned.encoder))
    if named is None and before.fingerprint != base.get("fingerprint"):
        raise ModelError(
            f"{tuned.folder} was tuned from {before.name}, and the {before.name} of today has other weights; name the "
            "model it was tuned from with --before"
        )
    with_padding(before.tokenizer)
    return before


def _sets(tuned: Tuned, data: Any, options: Mapping[str, Any]) -> Sets:
    """The three sets as named, or as the folder says."""
    about = tuned.about
    asked = about["data"].get("asked", {})
    if data is None:
        kept = {name: asked.get(name) if options[name] is None else options[name] for name in options}
        data, options = asked.get("data", about["data"]["name"]), {**options, **kept}
        named = False
    else:
        named = True
    view = about.get("view") or {}
    settings = {
        "task": tuned.task,
        "length": about["length"],
        "setting": view.get("setting", "distractor"),
        "babi_tasks": view.get("tasks"),
    }
    try:
        return apart(as_sets(data, options, settings, tuned.encoder))
    except CorpusError as error:
        if named:
            raise
        raise CorpusError(f"{tuned.folder} was tuned on {data!r}: {error}; name its data with --data") from error

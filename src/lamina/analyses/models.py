"""The models that an analysis reads: by name, by folder, or in memory; one, or one per seed of a fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import ModelError

if TYPE_CHECKING:
    from lamina.activations.runtime import Runtime
    from lamina.encoders import Encoder


def as_encoder(model: Any, options: Mapping[str, Any], runtime: Runtime) -> Encoder:
    """An encoder out of a name, a folder, an encoder, or a model with its tokenizer; examined, if it was not yet."""
    from lamina.encoders.passports import passport_of

    encoder = _loaded(model, options, runtime)
    passport_of(encoder)
    return encoder


def _loaded(model: Any, options: Mapping[str, Any], runtime: Runtime) -> Encoder:
    from lamina.encoders import Encoder, load_encoder

    chat = bool(options.get("chat"))
    if isinstance(model, Encoder):
        if chat and "chat" not in model.origin:
            raise ModelError(f"{model.name} is already loaded without its chat template; load it with chat=True")
        return model
    if isinstance(model, str | Path):
        _refuse_seeds(Path(model))
        return load_encoder(
            str(model),
            device=runtime.device,
            dtype=options.get("dtype", "float32"),
            chat=chat,
            trust_remote_code=runtime.trust_remote_code,
        )
    if isinstance(model, tuple) and len(model) == 2:
        return load_encoder(model, chat=chat)
    raise ModelError(
        f"a model is a name, a folder, an Encoder or a pair (model, tokenizer) of transformers; got {kind_of(model)}"
    )


def _refuse_seeds(folder: Path) -> None:
    from lamina.training.seed_folders import seed_folders

    if (seeds := seed_folders(folder)) and not (folder / "config.json").exists():
        raise ModelError(
            f"{folder} holds the models of {len(seeds)} seeds, and one model is needed here; name one of them, such as "
            f"{seeds[0]}"
        )


def as_encoders(model: Any, options: Mapping[str, Any], runtime: Runtime) -> tuple[Encoder, ...]:
    """One encoder per seed, of a folder that `lamina finetune --seeds` wrote or of a list of models; one of any other.

    The encoders of a folder have its name: what is measured is the mean over them.
    """
    from lamina.training.provenance import ABOUT, folder_of
    from lamina.training.seed_folders import refuse_unlike, seed_folders

    if isinstance(model, str | Path):
        folders = seed_folders(model)
        refuse_unlike(folders)
        encoders = tuple(as_encoder(folder, options, runtime) for folder in folders)
        for encoder in encoders:
            encoder.name = Path(model).resolve().name
        return encoders or (as_encoder(model, options, runtime),)
    if not isinstance(model, list) or not model:
        return (as_encoder(model, options, runtime),)
    encoders = tuple(as_encoder(each, options, runtime) for each in model)
    if len({each.layers for each in encoders}) > 1:
        raise ModelError("the models of a list are seeds of one fine-tuning; these differ in their number of layers")
    homes = [folder_of(each) for each in encoders]
    refuse_unlike([home for home in homes if home is not None and (home / ABOUT).is_file()])
    return encoders


def each_of(encoder: Encoder | Sequence[Encoder]) -> tuple[Encoder, ...]:
    """One encoder, or one per seed, as a sequence.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> tiny = TinyEncoder()
        >>> each_of(tiny) == each_of([tiny]) == (tiny,)
        True
    """
    return tuple(encoder) if isinstance(encoder, Sequence) else (encoder,)


def describe_models(encoders: Sequence[Encoder]) -> dict[str, Any]:
    """What provenance says of a model: that of the first seed; of several, a fingerprint over all, and each of them."""
    from lamina.corpora.corpus import fingerprint_of
    from lamina.training.provenance import folder_of

    first = _described(encoders[0])
    if len(encoders) == 1:
        return first
    homes = [folder_of(each) for each in encoders]
    named = [each.name if home is None else home.name for each, home in zip(encoders, homes, strict=True)]
    seeds = [{**_described(each), "name": name} for each, name in zip(encoders, named, strict=True)]
    return {**first, "fingerprint": fingerprint_of([each.fingerprint for each in encoders]), "seeds": seeds}


def _described(encoder: Encoder) -> dict[str, Any]:
    from lamina.encoders.passports import passport_of, summary

    return {**encoder.describe(), "passport": summary(passport_of(encoder))}


def short_name(model: Any, encoder: Encoder) -> str:
    """For a folder's name."""
    return Path(model).name if isinstance(model, str | Path) else Path(encoder.name).name


def kind_of(value: Any) -> str:
    """What was given instead of what was asked for, in a word.

    Example:
        >>> kind_of(3), kind_of(None), kind_of(["a"])
        ('3', 'nothing (None)', 'list')
    """
    shown = json.dumps(value)[:60] if isinstance(value, int | float | bool | None) else type(value).__name__
    return "nothing (None)" if value is None else shown

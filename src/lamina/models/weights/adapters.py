"""PEFT adapters (LoRA and others): merged into the weights of the model that they were trained on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lamina import assets
from lamina.assets.sources import Hub
from lamina.errors import ModelError
from lamina.extras import require_package
from lamina.files.checking import read_json
from lamina.models.weights.bounds import check_folder, weights_files
from lamina.models.weights.hub import ModelName, first_line, parse_name

CONFIG = "adapter_config.json"
_LARGEST_CONFIG = 1 << 20
"""Bytes of the settings of an adapter."""
_LONGEST_NAME = 1000
_LARGEST_RANK = 16_384
"""Rank of an adapter, and any other number of its settings; known ones have at most a few hundred."""
WEIGHTS = "adapter_model.safetensors"
_PICKLED = "adapter_model.bin"
_PARTS = (".lora_", ".ia3_", ".hada_", ".lokr_", ".oft_", ".boft_", ".vera_")
"""What PEFT puts after the name of a changed module."""
_NAME = re.compile(r"\^?[\w.\\-]{1,300}\$?")
"""A module's name, perhaps with escaped dots: nothing in it repeats."""
_BELOW = "base_model.model."
"""What PEFT puts before the names of the model's own weights."""


class Adapter(NamedTuple):
    """An adapter on this machine, and what it was trained on."""

    folder: Path
    base: ModelName
    """The model whose weights it changes."""
    commit: str | None
    """Of the adapter, if it comes from the hub."""

    @property
    def has_tokenizer(self) -> bool:
        """Whether a tokenizer was saved with it, which then counts instead of the base's."""
        return (self.folder / "tokenizer.json").is_file()


def find_adapter(name: ModelName) -> Adapter | None:
    """The adapter of this name; None if the name is that of a whole model."""
    config_file = _find_file(name, CONFIG)
    if config_file is None and name.base is not None:
        raise ModelError(f"{name.source} has no {CONFIG}, so it is no adapter; leave out {name.base}+")
    if config_file is None:
        return None
    # On the hub, every folder is named by its commit.
    commit = None if name.is_path else config_file.parent.name
    if name.is_path:
        check_folder(config_file.parent)
    if name.is_path and _holds_a_model(config_file.parent):
        raise ModelError(
            f"{name.source} holds both a model and an adapter ({CONFIG}); keep the adapter in a folder of its own"
        )
    if name.side:
        raise ModelError(f"{name.source} is an adapter; :{name.side} is for encoder-decoder models")
    base = _base(name, _settings(config_file))
    if base.is_path and (Path(base.source) / CONFIG).is_file():
        raise ModelError(f"{name.source}: its base {base.source} is an adapter itself; name a whole model as the base")
    if _find_file(name, WEIGHTS, commit) is None:
        pickled = _find_file(name, _PICKLED, commit) is not None
        has = f"only {_PICKLED}, which can run code when it is read" if pickled else f"no {WEIGHTS}"
        raise ModelError(f"{name.source} has {has}; save the adapter again with safe_serialization=True")
    if not name.is_path:
        _find_file(name, "tokenizer.json", commit)
        _find_file(name, "tokenizer_config.json", commit)
    return Adapter(config_file.parent, base, commit)


def merge(model: Any, adapter: Adapter, name: str) -> Any:
    """The model with the adapter added to its weights; what the adapter adds to a head is not part of the body.

    In single precision, whatever the model computes in: the sum is rounded once.
    """
    require_package("peft", f"{name} is a PEFT adapter", ModelError)
    import peft
    from safetensors.torch import load_file

    dtype = model.dtype
    weights = _of_body(load_file(adapter.folder / WEIGHTS), model)
    if not weights:
        raise ModelError(
            f"{name}: none of the adapter's weights belong to {adapter.base.source} ({type(model).__name__})"
        )
    try:
        settings = peft.PeftConfig.from_pretrained(str(adapter.folder))
        settings.inference_mode, settings.task_type = True, None
        _refuse_sizes(settings)
        _keep_known_modules(settings, model)
        _name_modules(settings, weights)
        wrapped = peft.PeftModel(model.float(), settings)
        refused = peft.set_peft_model_state_dict(wrapped, weights)
    except Exception as error:
        # PEFT and torch have an error of their own for each way in which an adapter does not fit.
        raise ModelError(_unfit(name, adapter, first_line(error))) from error
    absent = [key for key in _adapter_keys(wrapped) if key not in weights]
    odd = [*absent, *refused.unexpected_keys]
    if odd:
        raise ModelError(_unfit(name, adapter, f"{len(odd)} weights do not match, first: {odd[0]}"))
    if not hasattr(wrapped.base_model, "merge_and_unload"):
        kind = str(settings.peft_type).rpartition(".")[-1]
        raise ModelError(f"{name}: an adapter of the kind {kind} cannot be merged into the weights; LoRA can")
    return wrapped.merge_and_unload().to(dtype)


def foreign_base(folder: Path) -> str | None:
    """The base that a folder's adapter names, if it is one that has to be confirmed; None for a whole model.

    Example:
        >>> foreign_base(Path("/nowhere")) is None
        True
    """
    if not (folder / CONFIG).is_file():
        return None
    base = _named_base(ModelName(str(folder)), _settings(folder / CONFIG))
    return None if _in_catalogue(base) else base


def _settings(config_file: Path) -> dict[str, Any]:
    if config_file.stat().st_size > _LARGEST_CONFIG:
        raise ModelError(
            f"{config_file} has {config_file.stat().st_size:,} bytes, too many for the settings of an adapter"
        )
    return read_json(config_file)


def _base(name: ModelName, settings: Mapping[str, Any]) -> ModelName:
    """The model to add an adapter to: typed, or of the catalogue; a name that only its files give is not looked up."""
    named, revision = _named_base(name, settings), settings.get("revision")
    if name.base is not None:
        base = parse_name(name.base)
        known = isinstance(revision, str) and base.source == named and not base.revision and not base.is_path
        return replace(base, revision=revision or None) if known else base
    alias = _in_catalogue(named)
    if alias is None:
        raise ModelError(
            f"{name.source} is an adapter on {named!r}, which you did not name: its {CONFIG} does. If you trust both, "
            f"name them together: {named}+{name.source}"
        )
    return ModelName(alias)


def _named_base(name: ModelName, settings: Mapping[str, Any]) -> str:
    base = settings.get("base_model_name_or_path")
    if not isinstance(base, str) or not base or not base.isprintable() or len(base) > _LONGEST_NAME:
        raise ModelError(f"{name.source}: {CONFIG} does not name the model it was trained on (base_model_name_or_path)")
    return base


def _in_catalogue(base: str) -> str | None:
    """The alias of a model of the catalogue, named by it or by its address on the hub."""
    for card in assets.cards().values():
        repositories = [source.repo for source in card.sources if isinstance(source, Hub)]
        if card.kind == "model" and base in (card.name, *repositories):
            return card.name
    return None


def _holds_a_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(
        not path.name.startswith("adapter_") for path in weights_files(folder)
    )


def _find_file(name: ModelName, file: str, commit: str | None = None) -> Path | None:
    """A file of a folder or a hub repository; None if it has none, or cannot be asked (loading says why)."""
    from transformers.utils.hub import cached_file

    if name.is_path:
        path = Path(name.source) / file
        return path if path.is_file() else None
    cached = cached_file(
        name.source,
        file,
        revision=commit or name.revision,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if cached is None else Path(cached)


def _of_body(weights: Mapping[str, Any], body: Any) -> dict[str, Any]:
    """The adapter's weights under the names they have over the body alone.

    An adapter was trained over the body or over a model with a head, where the body has a name of its own (`bert.`).
    """
    children = {name for name, _ in body.named_children()}
    prefix = f"{body.base_model_prefix}."
    body_weights = {}
    for key, weight in weights.items():
        inside = key.removeprefix(_BELOW)
        if inside.startswith(prefix) and body.base_model_prefix not in children:
            inside = inside.removeprefix(prefix)
        if inside.partition(".")[0] in children:
            body_weights[_BELOW + inside] = weight
    return body_weights


def _keep_known_modules(settings: Any, body: Any) -> None:
    """Modules that were trained as a whole: those of the body are kept, a head's are not there."""
    saved = getattr(settings, "modules_to_save", None)
    if saved:
        known = {name.rpartition(".")[-1] for name, _ in body.named_modules()}
        settings.modules_to_save = [module for module in saved if module in known] or None


def _name_modules(settings: Any, weights: Mapping[str, Any]) -> None:
    """Replace patterns of foreign files by names: PEFT searches with them, and some searches do not end.

    Which modules an adapter changes is known from its weights. Ranks by pattern are kept where the pattern is a name.
    """
    modules = {key.removeprefix(_BELOW).partition(part)[0] for key in weights for part in _PARTS if part in key}
    if modules:
        settings.target_modules = modules
    for absent in ("exclude_modules", "layers_to_transform", "layers_pattern"):
        if hasattr(settings, absent):
            setattr(settings, absent, None)
    target = getattr(settings, "target_modules", None)
    patterns: list[str] = [target] if isinstance(target, str) else []
    patterns += [key for kind in ("rank_pattern", "alpha_pattern") for key in getattr(settings, kind, None) or {}]
    odd = [pattern for pattern in patterns if not _NAME.fullmatch(pattern)]
    if odd:
        raise ValueError(f"its {CONFIG} has the pattern {odd[0][:80]!r}; only names of modules are read")


def _refuse_sizes(settings: Any) -> None:
    """Ranks and the like size what PEFT builds before it reads a weight; and no module is imported by a file's name."""
    numbers = [(name, value) for name, value in vars(settings).items() if isinstance(value, int)]
    numbers += [(kind, value) for kind in ("rank_pattern",) for value in (getattr(settings, kind, None) or {}).values()]
    large = [(name, value) for name, value in numbers if not isinstance(value, int) or value > _LARGEST_RANK]
    if large:
        raise ValueError(
            f"its {CONFIG} says {large[0][0]} = {str(large[0][1])[:20]}; expected at most {_LARGEST_RANK:,}"
        )
    for module in ("megatron_config", "auto_mapping"):
        if hasattr(settings, module):
            setattr(settings, module, None)


def _adapter_keys(wrapped: Any) -> list[str]:
    import peft

    return list(peft.get_peft_model_state_dict(wrapped, save_embedding_layers=False))


def _unfit(name: str, adapter: Adapter, reason: str) -> str:
    return (
        f"{name} does not fit {adapter.base.source} ({reason}); an adapter can only be added to the model that it was "
        f"trained on, which its {CONFIG} must name"
    )

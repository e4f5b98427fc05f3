"""From a name to an encoder: an alias, a Hugging Face id, a folder, a GGUF file, an adapter, ELMo, or word vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lamina import assets
from lamina.errors import AssetError, ModelError
from lamina.models.contract import Encoder
from lamina.models.elmo import is_elmo
from lamina.models.running.devices import Placement, check_precision, choose_device
from lamina.models.weights.adapters import find_adapter, merge
from lamina.models.weights.bounds import bounded_building, check_folder, stored_values, weights_files
from lamina.models.weights.hub import (
    ModelName,
    Side,
    cannot_load,
    check_hub_files,
    code_homes,
    is_panic,
    parse_name,
    quiet_transformers,
    read_config,
    snapshot_folder,
    warn_of_code,
)
from lamina.models.weights.quantised import INT8, converted, round_weights
from lamina.results.folder import check_listed

if TYPE_CHECKING:
    from lamina.models.running.huggingface import HuggingFaceEncoder

Precision = Literal["float32", "bfloat16", "float16", "int8"]

_VECTOR_SUFFIXES = {".txt", ".vec", ".bin"}
_LEAST_ROOM = 8
"""Tokens of a text that must fit beside a chat template."""


@dataclass(frozen=True)
class ByName:
    """Loads an encoder again, with the arguments of `load_encoder`."""

    name: str
    dtype: Any = "float32"
    limit: int | None = None
    chat: bool = False
    trust_remote_code: bool = False

    def make(self, device: str) -> Encoder:
        """See `EncoderLoader.make`."""
        settings = {"dtype": self.dtype, "limit": self.limit, "chat": self.chat}
        return load_encoder(self.name, device=device, **settings, trust_remote_code=self.trust_remote_code)


def load_encoder(
    name: str | tuple[Any, Any],
    *,
    device: Placement | None = None,
    dtype: Precision = "float32",
    limit: int | None = None,
    chat: bool = False,
    trust_remote_code: bool = False,
) -> Encoder:
    """The encoder called `name`, ready to run.

    Args:
        name: an alias (`lamina assets list`); a Hugging Face id, `@` and a branch, tag or commit after it if wanted; a
            model folder; a GGUF file; a PEFT adapter, as `BASE+ADAPTER` (the base may be left out where it is in the
            catalogue); the folder of an ELMo, with options.json and
            one `*weights.hdf5`; a file of word vectors; or a pair `(model, tokenizer)` of transformers in memory. Of an
            encoder-decoder, `NAME:encoder` (the default) or `NAME:decoder`.
        device: "cpu", "cuda", "cuda:1", ...; by default a GPU if there is one. "auto" for a model that does not fit one
            card: its blocks are spread over all cards, then memory, then disk. Or say yourself where each part of the
            model goes: `{"embeddings": 0, "encoder": "cpu"}`, with numbers of cards, "cpu" and "disk".
        dtype: precision of the computation; states are always returned as float32. `int8` rounds the weights of linear
            layers to 8 bits and computes in float32.
        limit: maximum number of tokens, if less than the model's own limit.
        chat: whether each text is put as the user's message into the tokenizer's chat template.
        trust_remote_code: whether code that comes with the model may be run, with all your rights.

    Example:
        >>> encoder = lamina.load_encoder("minilm")  # doctest: +SKIP
        >>> encoder.blocks, encoder.heads, encoder.width  # doctest: +SKIP
        (6, 12, 384)
    """
    if isinstance(name, tuple):
        return _from_memory(name, device=device, dtype=dtype, limit=limit, chat=chat)
    parsed = parse_name(name)
    card = assets.cards().get(parsed.source)
    vectors = _vectors(parsed, is_card=card is not None and card.kind == "vectors")
    if vectors is not None:
        from lamina.models.static import StaticEncoder

        if chat or parsed.side or parsed.revision:
            raise ModelError(f"{parsed.source} holds word vectors: no chat template, no sides, no revisions")
        return StaticEncoder.read(vectors, name=parsed.source if card is not None else vectors.stem)
    if card is None and parsed.is_path and is_elmo(Path(parsed.source)):
        return _elmo(parsed, device=device, dtype=dtype, limit=limit, chat=chat)
    if card is not None and card.kind != "model":
        raise ModelError(f"{parsed.source!r} is a {card.kind}, not a model; `lamina assets list` shows the models")
    if card is not None and parsed.revision:
        raise ModelError(
            f"{parsed.source} is an alias for one fixed version; for revision {parsed.revision!r}, write the hub id: "
            f"OWNER/NAME@{parsed.revision} (`lamina assets show {parsed.source}` names it)"
        )
    chosen = choose_device(device)
    # Weights in 8 bits are computed with in float32.
    computed = "float32" if dtype == INT8 else dtype
    check_precision(computed, chosen)
    where = replace(parsed, source=str(_source(parsed, is_card=card is not None)))
    loaded = _load(where, computed, chosen, trust=trust_remote_code)
    if dtype == INT8:
        for model in (loaded.model, loaded.span_model):
            if model is not None:
                round_weights(model)
    encoder = _encoder(loaded, parsed, limit=limit, chat=chat)
    if dtype == INT8:
        encoder.name, encoder.rounded = f"{encoder.name} ({INT8})", True
    encoder.loader = loader_by_name(name, dtype=dtype, limit=limit, chat=chat, trust_remote_code=trust_remote_code)
    return encoder


def _elmo(name: ModelName, *, device: Placement | None, dtype: Precision, limit: int | None, chat: bool) -> Encoder:
    from lamina.models.elmo import ElmoEncoder

    if chat or name.side:
        raise ModelError(f"{name.source} is an ELMo: no chat template, no sides")
    encoder = ElmoEncoder.read(Path(name.source), name=name.display_name, device=device, dtype=dtype, limit=limit)
    encoder.loader = loader_by_name(name.source, dtype=dtype, limit=limit)
    return encoder


def encoder_from(
    model: Any,
    tokenizer: Any,
    *,
    name: str | None = None,
    limit: int | None = None,
    side: Side | None = None,
    chat: bool = False,
) -> Encoder:
    """An encoder over a transformers model that is already in memory, with its tokenizer.

    Layers are those of the body; the whole model, with its head, is kept as `whole`, and a span head answers
    questions. The model is put into evaluation mode; its weights are neither copied nor changed.

    Example:
        >>> model = AutoModel.from_pretrained("gpt2")  # doctest: +SKIP
        >>> tokenizer = AutoTokenizer.from_pretrained("gpt2")  # doctest: +SKIP
        >>> lamina.geometry((model, tokenizer), "ewt")  # doctest: +SKIP
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    if not isinstance(model, PreTrainedModel) or not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(
            "a pair must be a transformers (model, tokenizer), in this order; got "
            f"({type(model).__name__}, {type(tokenizer).__name__})"
        )
    whole: Any = model
    if next(whole.parameters(), None) is None:
        raise ModelError(f"{type(model).__name__} has no weights to run")
    label = name or Path(str(getattr(model, "name_or_path", "") or type(model).__name__)).name
    span_model = model if _has_span_head([type(model).__name__]) else None
    loaded = _LoadedParts(whole.base_model, span_model, tokenizer, {})
    encoder = _encoder(loaded, ModelName(label, None, side), limit=limit, chat=chat)
    encoder.whole = model
    return encoder


def _from_memory(
    pair: tuple[Any, ...], *, device: Placement | None, dtype: str, limit: int | None, chat: bool
) -> Encoder:
    if len(pair) != 2:
        raise ModelError(f"a pair must be a transformers (model, tokenizer); got {len(pair)} parts")
    if device is not None or dtype != "float32":
        raise ModelError("device and dtype are for a model given by name; use model.to(...) on one in memory")
    return encoder_from(*pair, limit=limit, chat=chat)


class _LoadedParts(NamedTuple):
    """What was read."""

    model: Any
    """Without a head."""
    span_model: Any
    """The same weights with their span head; None if there is none."""
    tokenizer: Any
    origin: dict[str, str]
    """For provenance."""


def _encoder(loaded: _LoadedParts, name: ModelName, *, limit: int | None, chat: bool) -> HuggingFaceEncoder:
    from lamina.models.running.huggingface import HuggingFaceEncoder
    from lamina.models.running.tokens import InputFormat

    model, reading = loaded.model, InputFormat(chat=chat)
    if model.config.is_encoder_decoder:
        if name.side == "decoder":
            from lamina.models.running.decoder_side import decoder_of

            model, reading = decoder_of(model, loaded.tokenizer, reading, name.display_name)
        else:
            model = model.get_encoder()
    elif name.side:
        raise ModelError(
            f"{name.source} ({type(model).__name__}) is not an encoder-decoder, so it has no sides; leave out "
            f":{name.side}"
        )
    encoder = HuggingFaceEncoder(
        model, loaded.tokenizer, name=name.display_name, limit=limit, span_model=loaded.span_model, reading=reading
    )
    room = encoder.limit - sum(map(len, encoder.word_tokenizer.around))
    if chat and room < _LEAST_ROOM:
        raise ModelError(
            f"{name.display_name}: its chat template leaves room for {max(room, 0)} tokens of a text; leave out --chat"
        )
    encoder.origin = loaded.origin | ({"chat": "as the user's message in the chat template"} if chat else {})
    return encoder


def _source(name: ModelName, *, is_card: bool) -> Path | str:
    """Where a model is loaded from: the folder of an asset or of an unpacked file, or what was named."""
    if is_card:
        return model_folder(name.source)
    path = Path(name.source)
    if path.suffix == ".gguf" and path.is_file():
        return converted(path)
    if path.is_file():
        raise ModelError(
            f"{path} is a file; a model is a folder with config.json, weights and tokenizer, or a .gguf file"
        )
    assets.refuse_misspelt_model(name.source)
    if path.is_dir() and not any((path / config).is_file() for config in ("config.json", "adapter_config.json")):
        folders = sorted(file.parent for file in path.glob("*/config.json"))
        if folders:
            raise ModelError(
                f"{path} holds {len(folders)} models and is none itself; name one of them, such as {folders[0]} "
                "(`lamina model series` looks at all)"
            )
    return name.source


def _vectors(name: ModelName, *, is_card: bool) -> Path | None:
    """The file of word vectors that is named; None for a model."""
    if is_card:
        return _only_file(assets.locate(name.source))
    path = assets.own_vectors(name.source) or Path(name.source)
    return path if path.suffix in _VECTOR_SUFFIXES and path.is_file() else None


def model_folder(alias: str) -> Path:
    folder = assets.locate(alias)
    packed = sorted(folder.rglob("*.gguf"))
    if packed:
        return converted(packed[0])
    # The model's own config is in the top folder; other parts (sentence-transformers' pooling) have theirs below.
    configs = sorted(folder.rglob("config.json"), key=lambda path: len(path.parts))
    return configs[0].parent if configs else folder


def _only_file(folder: Path) -> Path:
    files = [path for path in sorted(folder.rglob("*.txt")) if path.name != "SOURCE.txt"]
    if not files:
        raise AssetError(f"{folder} holds no file of word vectors; fetch the asset again")
    return files[0]


def _load(name: ModelName, dtype: str, placement: Placement, *, trust: bool) -> _LoadedParts:
    """Weights, where they run, tokenizer and where they come from; an adapter is added to its base."""
    import torch

    from lamina.models.running.devices import spread

    try:
        adapter = find_adapter(name)
    except Exception as error:
        raise cannot_load(name, error) from error
    if adapter is None:
        return _load_model(name, getattr(torch, dtype), placement, trust=trust)
    try:
        # Weights are added in memory, and only then spread.
        known = assets.cards().get(adapter.base.source)
        where = _source(adapter.base, is_card=known is not None and known.kind == "model")
        base = _load_model(replace(adapter.base, source=str(where)), torch.float32, "cpu", trust=trust)
    except ModelError as error:
        raise ModelError(
            f"{name.source} is an adapter on {adapter.base.display_name}, which cannot be loaded: {error}"
        ) from error
    if adapter.commit is not None:
        check_hub_files(name.source, adapter.commit)
    model = merge(base.model, adapter, name.display_name).to(getattr(torch, dtype))
    with _on_device(name, placement), quiet_transformers():
        spread(model, placement)
    tokenizer = (
        _load_tokenizer(ModelName(str(adapter.folder)), trust=False) if adapter.has_tokenizer else base.tokenizer
    )
    origin = {name if name != "commit" else "base_commit": value for name, value in base.origin.items()}
    origin |= {"base": adapter.base.display_name} | ({"commit": adapter.commit} if adapter.commit else {})
    # The head that comes with the base was not trained together with these weights.
    return _LoadedParts(model, None, tokenizer, origin)


def _load_model(name: ModelName, dtype: Any, placement: Placement, *, trust: bool) -> _LoadedParts:
    from lamina.models.running.devices import refuse_too_large, spread

    folder = Path(name.source) if Path(name.source).is_dir() else None
    origin: dict[str, str] = {}
    try:
        with quiet_transformers(), _bounded(folder):
            config, commit = read_config(name.source, name.revision)
            if commit is not None:
                origin["commit"] = commit
            if trust:
                origin |= _announce_code(name, config, commit)
            pinned = replace(name, revision=commit or name.revision)
            if "quantization_config" not in config:
                values = stored_values(folder or snapshot_folder(name.source, commit))
                refuse_too_large(name.source, values, dtype, placement)
            model, span_model, absent = read_weights(pinned, dtype, placement, trust=trust)
            tokenizer = _load_tokenizer(pinned, trust=trust)
            # For those who load the same model with its head.
            model.config._commit_hash = commit
    except BaseException as error:
        # Every library that reads a part of a broken folder can fail in its own way; one in Rust panics.
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise cannot_load(name, error) from error
    if folder is None:
        check_hub_files(name.source, commit)
    if absent:
        raise ModelError(
            f"{name.source}: {len(absent)} weights are missing from the checkpoint or have another shape (first: "
            f"{absent[0]}), so parts of the model would be random; a folder must hold the weights of the architecture "
            "its config.json names"
        )
    if isinstance(placement, str) and placement != "auto":
        with _on_device(name, placement):
            spread(model if span_model is None else span_model, placement)
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        # Without a tokenizer in the folder, transformers silently makes one up.
        raise ModelError(
            f"{name.source} has no tokenizer, or an empty one; save the model's tokenizer in the same folder"
        )
    return _LoadedParts(model, span_model, tokenizer, origin)


def _announce_code(name: ModelName, config: dict[str, Any], commit: str | None) -> dict[str, str]:
    """Print whose code will run, if any; returns it for provenance."""
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    homes = code_homes(name.source, config, get_tokenizer_config(name.source, revision=commit or name.revision))
    return {"remote_code": warn_of_code(homes, name.source, commit)} if homes else {}


def _load_tokenizer(name: ModelName, *, trust: bool) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        name.source, revision=name.revision, trust_remote_code=trust, local_files_only=name.is_path
    )


@contextmanager
def _on_device(name: ModelName, placement: Placement) -> Iterator[None]:
    """Report that a model does not fit its device, if its size was not known before."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise ModelError(
            f"{name.display_name}: its weights do not fit {placement}; use --dtype bfloat16, which halves them, or "
            "--device auto, which spreads them over all cards, memory and disk"
        ) from None


@contextmanager
def _bounded(folder: Path | None) -> Iterator[None]:
    """Refuse what a folder holds before and while it is loaded; the hub's models are taken as they are."""
    if folder is None:
        yield
        return
    check_folder(folder)
    # A model that lamina fine-tuned lies in the folder of a result, with the hashes of all its files.
    check_listed(folder)
    with bounded_building(weights_files(folder)):
        yield


def read_weights(name: ModelName, dtype: Any, placement: Placement, *, trust: bool) -> tuple[Any, Any, list[str]]:
    """The body, the same weights with their span head, and which weights of the body the checkpoint lacks.

    In memory, unless they are to be spread.
    """
    from transformers import MODEL_FOR_QUESTION_ANSWERING_MAPPING as ANSWERING
    from transformers import AutoConfig, AutoModel, AutoModelForQuestionAnswering

    from lamina.models.running.devices import check_parts, forget_with, loading_settings

    # Without trust, code that comes with a model is never run, and there is no prompt to allow it.
    # What a folder's files name elsewhere is not looked for.
    where = {"revision": name.revision, "trust_remote_code": trust, "local_files_only": name.is_path}
    config = AutoConfig.from_pretrained(name.source, **where)
    answers = _has_span_head(config.architectures or ()) and type(config) in ANSWERING
    settings = {"output_loading_info": True, "ignore_mismatched_sizes": True, **where}
    # Read once, with the head: only the head's class knows where the checkpoint keeps the body.
    auto = AutoModelForQuestionAnswering if answers else AutoModel
    spreading = loading_settings(placement)
    whole, info = auto.from_pretrained(name.source, dtype=dtype, **settings, **spreading)
    forget_with(whole, spreading)
    check_parts(whole, placement)
    mismatched = {key for key, *_ in info["mismatched_keys"]}
    absent = sorted(key for key in mismatched | set(info["missing_keys"]) if "pooler" not in key)
    if not answers:
        return whole, None, absent
    body = whole.base_model
    below = "" if body is whole else f"{whole.base_model_prefix}."
    of_body = [key for key in absent if key.startswith(below)]
    # A head missing from the checkpoint has random weights, so it is not used.
    return body, whole if of_body == absent else None, of_body


def _has_span_head(classes: Iterable[str]) -> bool:
    """Whether one of these classes of transformers has a span head.

    Example:
        >>> _has_span_head(["BertForQuestionAnswering"]), _has_span_head(["BertModel"])
        (True, False)
    """
    return any("ForQuestionAnswering" in name for name in classes)


def loader_by_name(name: str, **settings: Any) -> ByName:
    """The loader for a call of `load_encoder`; paths are made absolute, so that it works in any folder.

    Example:
        >>> loader_by_name("minilm", chat=True)
        ByName(name='minilm', dtype='float32', limit=None, chat=True, trust_remote_code=False)
    """
    parsed = parse_name(name)
    if parsed.is_path:
        name = str(Path(parsed.source).resolve()) + (f":{parsed.side}" if parsed.side else "")
    if parsed.base is not None:
        base = parse_name(parsed.base)
        whole = str(Path(base.source).resolve()) if base.is_path else parsed.base
        name = f"{whole}+{name if parsed.is_path else name.rpartition('+')[2]}"
    return ByName(name, **settings)

"""From a name to an encoder: an alias, a Hugging Face id, a folder, or a file of word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from lamina import assets
from lamina.encoders.contract import Encoder
from lamina.errors import AssetError, ModelError

Precision = Literal["float32", "bfloat16", "float16"]

_VECTOR_SUFFIXES = {".txt", ".vec", ".bin"}


def load_encoder(
    name: str, *, device: str | None = None, dtype: Precision = "float32", limit: int | None = None
) -> Encoder:
    """The encoder called `name`, ready to run.

    Args:
        name: an alias (`lamina assets list`), a Hugging Face id, a model folder, or a file of word vectors.
        device: "cpu", "cuda", "cuda:1", ...; by default a GPU where there is one.
        dtype: what the model computes in; states always come out as float32.
        limit: the most tokens at once, if less than the model's own limit.

    Example:
        >>> encoder = lamina.load_encoder("minilm")  # doctest: +SKIP
        >>> encoder.blocks, encoder.heads, encoder.width  # doctest: +SKIP
        (6, 12, 384)
    """
    card = assets.cards().get(name)
    if card is not None and card.kind == "vectors":
        from lamina.encoders.static import StaticEncoder

        return StaticEncoder.read(_only_file(assets.locate(name)), name=name)
    if Path(name).suffix in _VECTOR_SUFFIXES and Path(name).is_file():
        from lamina.encoders.static import StaticEncoder

        return StaticEncoder.read(Path(name), name=Path(name).stem)
    if card is not None and card.kind != "model":
        raise ModelError(f"{name!r} is a {card.kind}, not a model; `lamina assets list` shows the models")
    folder = _model_folder(name) if card is not None else None
    return _from_transformers(str(folder or name), name, device=device, dtype=dtype, limit=limit)


def _model_folder(alias: str) -> Path:
    folder = assets.locate(alias)
    packed = sorted(folder.rglob("*.gguf"))
    if packed:
        from lamina.encoders.gguf import converted

        return converted(packed[0])
    # The model's own config lies highest; parts around it (sentence-transformers' pooling) have theirs below.
    configs = sorted(folder.rglob("config.json"), key=lambda path: len(path.parts))
    return configs[0].parent if configs else folder


def _only_file(folder: Path) -> Path:
    files = [path for path in sorted(folder.rglob("*.txt")) if path.name != "SOURCE.txt"]
    if not files:
        raise AssetError(f"{folder} holds no file of word vectors; fetch the asset again")
    return files[0]


def _from_transformers(source: str, name: str, *, device: str | None, dtype: Precision, limit: int | None) -> Encoder:
    import torch

    from lamina.encoders.huggingface import HuggingFaceEncoder
    from lamina.encoders.precision import check_precision

    chosen = _device(device)
    check_precision(dtype, chosen)
    model, tokenizer = _load(source, getattr(torch, dtype))
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    shown = Path(name).name if Path(name).is_dir() else name
    return HuggingFaceEncoder(model.to(chosen), tokenizer, name=shown, limit=limit)


def _load(source: str, dtype: Any) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    from lamina.encoders.quiet import quiet_transformers

    # Code that comes with a model is never run, and nobody is asked whether it may.
    settings = {"output_loading_info": True, "ignore_mismatched_sizes": True, "trust_remote_code": False}
    try:
        with quiet_transformers():
            model, info = AutoModel.from_pretrained(source, dtype=dtype, **settings)
            prefix = _other_prefix(info)
            if prefix is not None:
                mapping = {rf"^{prefix}\.": ""}
                model, info = AutoModel.from_pretrained(source, dtype=dtype, key_mapping=mapping, **settings)
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        # A broken folder fails in as many ways as there are libraries that read parts of it.
        raise ModelError(_cannot_load(source, error)) from error
    _check_complete(source, info)
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        # What transformers makes up, silently, where a folder has no tokenizer.
        raise ModelError(f"{source} has no tokenizer, or one without words; save the model's tokenizer beside it")
    return model, tokenizer


def _other_prefix(info: dict[str, Any]) -> str | None:
    """Under which name a checkpoint with a head keeps the body, where it is not the usual one (Llama's span head)."""
    missing = set(info["missing_keys"])
    return next((key.partition(".")[0] for key in info["unexpected_keys"] if key.partition(".")[2] in missing), None)


def _check_complete(source: str, info: dict[str, Any]) -> None:
    mismatched = {key for key, *_ in info["mismatched_keys"]}
    absent = sorted(key for key in mismatched | set(info["missing_keys"]) if "pooler" not in key)
    if absent:
        raise ModelError(
            f"{source}: {len(absent)} weights are missing from the checkpoint or of another shape (first: "
            f"{absent[0]}), so parts of the model would be random; a folder must hold the weights of the architecture "
            "its config.json names"
        )


def _cannot_load(source: str, error: Exception) -> str:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if Path(source).exists():
        return f"{source} cannot be loaded as a model: {reason}"
    aliases = ", ".join(card.name for card in assets.cards().values() if card.kind == "model")
    return (
        f"there is no model {source!r} here and the hub did not give one ({reason}); "
        f"name an alias ({aliases}), a Hugging Face id, or a folder with config.json, weights and tokenizer"
    )


def _device(asked: str | None) -> str:
    import torch

    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f"device {asked!r} was asked for, but torch sees no GPU; use --device cpu")
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError):
        raise ModelError(f"{asked!r} is not a device of this machine; use cpu, cuda or cuda:N") from None
    return asked

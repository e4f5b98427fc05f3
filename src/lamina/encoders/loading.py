"""From a name to an encoder: an alias, a Hugging Face id, a folder, or a file of word vectors."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock

from lamina import assets
from lamina.assets.first_download import check_first_download
from lamina.encoders.bounds import bounded_building, check_config, check_folder, weights_files
from lamina.encoders.contract import Encoder
from lamina.errors import AssetError, DamagedError, InputError, ModelError
from lamina.files.checking import changed_files, list_files, read_json, sha256_of, write_json
from lamina.files.writing import fresh_folder, recover, told
from lamina.progress import progress, say
from lamina.result_folder import check_listed

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide progress bars and log lines below errors; restores the user's settings afterwards.

    Example:
        >>> with quiet_transformers():
        ...     pass
    """
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    verbosity, bars, hub_verbosity = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # No warnings about retries of an unreachable hub: the final error is enough.
    hub.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        hub.set_verbosity(hub_verbosity)
        if bars:
            logging.enable_progress_bar()


# Large enough to use the matrix units (AMX) that some machines announce but then refuse.
_TRY = "import torch; a = torch.ones(64, 64, dtype=torch.{dtype}); print(float((a @ a)[0, 0]))"


def check_precision(dtype: str, device: str) -> None:
    """Raise a ModelError if `device` cannot compute in `dtype`.

    Example:
        >>> check_precision("float32", "cpu")
    """
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ModelError(f"{dtype!r} is not a supported precision; use float32, bfloat16 or float16")
    if dtype != "float32" and device.startswith("cpu") and not cpu_multiplies(dtype):
        raise ModelError(f"{dtype} matrix products do not work on this machine's CPU; use float32 or a GPU")


@cache
def cpu_multiplies(dtype: str) -> bool:
    """Whether this CPU multiplies matrices in `dtype`; tested in a child process, since a failure kills the process."""
    tried = subprocess.run(
        [sys.executable, "-c", _TRY.format(dtype=dtype)], capture_output=True, text=True, check=False
    )
    return tried.returncode == 0 and tried.stdout.strip() == "64.0"


FORMAT = 2
_SEAL = "sealed.json"
"""The file of a converted folder that lists the hashes of the others."""


def converted(packed: Path) -> Path:
    """The folder with the weights, config and tokenizer of a GGUF file, created on first use.

    The weights are those of the quantised file, converted to float32. A damaged folder is converted again.
    """
    target = _conversions() / f"{packed.stem}-{sha256_of(packed)[:16]}-{FORMAT}"
    if _is_sound(target):
        return target
    with told(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        recover(target)
        # Another process may have converted it while this one waited.
        if not _is_sound(target):
            if target.exists():
                say(f"{target} is damaged; {packed.name} is converted again")
            _convert(packed, target)
    return target


def conversions() -> list[Path]:
    """All folders with converted GGUF files."""
    return sorted(path for path in _conversions().glob(f"*-{FORMAT}") if path.is_dir())


def damaged_conversions() -> list[Path]:
    """Folders with converted GGUF files that are no longer what was written, all hashed now."""
    return [folder for folder in conversions() if not _is_sound(folder, now=True)]


def _conversions() -> Path:
    return assets.cache_dir() / "converted"


def _is_sound(folder: Path, *, now: bool = False) -> bool:
    try:
        files = read_json(folder / _SEAL).get("files")
    except (OSError, DamagedError, InputError):
        return False
    return isinstance(files, dict) and not changed_files(folder, files, now=now)


def _convert(packed: Path, target: Path) -> None:
    from transformers import AutoTokenizer

    with progress(f"unpacking {packed.name}"), quiet_transformers(), fresh_folder(target) as fresh:
        try:
            model = _unpacked(packed)
            tokenizer = AutoTokenizer.from_pretrained(packed.parent, gguf_file=packed.name)
        except Exception as error:
            # The library that reads GGUF fails in its own ways on what is not GGUF.
            raise ModelError(f"{packed} cannot be read as a GGUF file ({_reason(error)}); fetch it again") from error
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        write_json(fresh / _SEAL, {"files": list_files(fresh)})


def _unpacked(packed: Path) -> PreTrainedModel:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    check_config(load_gguf_checkpoint(str(packed))["config"])
    config = AutoConfig.from_pretrained(packed.parent, gguf_file=packed.name)
    # First without memory, where one that is too large ends at once.
    with bounded_building([packed]), torch.device("meta"):
        AutoModelForCausalLM.from_config(config)
    # Not from_pretrained(gguf_file=...): it gives the same weights but needs one more package (accelerate).
    model = AutoModelForCausalLM.from_config(config)
    # Its progress bar can only be silenced through its stream; lamina shows its own.
    with redirect_stderr(StringIO()):
        weights = load_gguf_checkpoint(str(packed), return_tensors=True, model_to_load=model)["tensors"]
    absent = set(model.load_state_dict(weights, strict=False).missing_keys) - set(model.all_tied_weights_keys)
    if absent:
        raise ModelError(f"it lacks {len(absent)} of the model's weights (first: {min(absent)})")
    return model


Precision = Literal["float32", "bfloat16", "float16"]

_VECTOR_SUFFIXES = {".txt", ".vec", ".bin"}


def load_encoder(
    name: str, *, device: str | None = None, dtype: Precision = "float32", limit: int | None = None
) -> Encoder:
    """The encoder called `name`, ready to run.

    Args:
        name: an alias (`lamina assets list`), a Hugging Face id, a model folder, or a file of word vectors.
        device: "cpu", "cuda", "cuda:1", ...; by default a GPU if there is one.
        dtype: precision of the computation; states are always returned as float32.
        limit: maximum number of tokens, if less than the model's own limit.

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


def encoder_from(model: Any, tokenizer: Any, *, name: str | None = None) -> Encoder:
    """An encoder over a transformers model that is already in memory, with its tokenizer.

    Only the body is used, without a head for masked words or classes; a span head is kept to answer questions. The
    model is put into evaluation mode; its weights are neither copied nor changed.

    Example:
        >>> model = AutoModel.from_pretrained("gpt2")  # doctest: +SKIP
        >>> tokenizer = AutoTokenizer.from_pretrained("gpt2")  # doctest: +SKIP
        >>> lamina.geometry((model, tokenizer), "ewt")  # doctest: +SKIP
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from lamina.encoders.huggingface import HuggingFaceEncoder

    if not isinstance(model, PreTrainedModel) or not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(
            "a pair must be a transformers (model, tokenizer), in this order; got "
            f"({type(model).__name__}, {type(tokenizer).__name__})"
        )
    pieces: Any = tokenizer
    body: Any = model.base_model
    if body.config.is_encoder_decoder:
        body = body.get_encoder()
    if next(body.parameters(), None) is None:
        raise ModelError(f"{type(model).__name__} has no weights to run")
    said = name or Path(str(getattr(model, "name_or_path", "") or type(model).__name__)).name
    span_model = model if _has_span_head([type(model).__name__]) else None
    return HuggingFaceEncoder(body, pieces, name=said, span_model=span_model)


def _model_folder(alias: str) -> Path:
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


def _from_transformers(source: str, name: str, *, device: str | None, dtype: Precision, limit: int | None) -> Encoder:
    import torch

    from lamina.encoders.huggingface import HuggingFaceEncoder

    chosen = _device(device)
    check_precision(dtype, chosen)
    model, span_model, tokenizer = _load(source, getattr(torch, dtype))
    if span_model is not None:
        span_model.to(chosen)
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    shown = _folder_name(Path(name)) if Path(name).is_dir() else name
    return HuggingFaceEncoder(model.to(chosen), tokenizer, name=shown, limit=limit, span_model=span_model)


def _folder_name(folder: Path) -> str:
    """What the model of a folder is called; one seed of a fine-tuning together with the fine-tuning.

    Example:
        >>> _folder_name(Path("runs/squad")), _folder_name(Path("runs/squad/seed-3"))
        ('squad', 'squad/seed-3')
    """
    return "/".join(folder.parts[-2:]) if re.fullmatch(r"seed-\d+", folder.name) else folder.name


def _load(source: str, dtype: Any) -> tuple[Any, Any, Any]:
    """The body, the same weights with their span head (None if there is none), and the tokenizer."""
    from transformers import AutoTokenizer

    folder = Path(source) if Path(source).is_dir() else None
    try:
        with quiet_transformers(), _bounded(folder):
            model, span_model, absent = _read_weights(source, dtype)
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        # Every library that reads a part of a broken folder can fail in its own way.
        raise ModelError(_cannot_load(source, error)) from error
    if folder is None:
        _check_hub_files(source, model.config)
    if absent:
        raise ModelError(
            f"{source}: {len(absent)} weights are missing from the checkpoint or have another shape (first: "
            f"{absent[0]}), so parts of the model would be random; a folder must hold the weights of the architecture "
            "its config.json names"
        )
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        # Without a tokenizer in the folder, transformers silently makes one up.
        raise ModelError(f"{source} has no tokenizer, or an empty one; save the model's tokenizer in the same folder")
    return model, span_model, tokenizer


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


def _check_hub_files(repo: str, config: Any) -> None:
    """Compare the files of a model of the hub with those that were downloaded first."""
    from huggingface_hub import try_to_load_from_cache

    commit = getattr(config, "_commit_hash", None)
    found = try_to_load_from_cache(repo, "config.json", revision=commit)
    if isinstance(commit, str) and isinstance(found, str):
        snapshot = Path(found).parent
        names = [path.relative_to(snapshot).as_posix() for path in sorted(snapshot.rglob("*")) if path.is_file()]
        check_first_download(repo, commit, snapshot, names)


def _read_weights(source: str, dtype: Any) -> tuple[Any, Any, list[str]]:
    """The body, the same weights with their span head, and which weights of the body the checkpoint lacks."""
    from transformers import MODEL_FOR_QUESTION_ANSWERING_MAPPING as ANSWERING
    from transformers import AutoConfig, AutoModel, AutoModelForQuestionAnswering

    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    answers = _has_span_head(config.architectures or ()) and type(config) in ANSWERING
    # Code that comes with a model is never run, and there is no prompt to allow it.
    settings = {"output_loading_info": True, "ignore_mismatched_sizes": True, "trust_remote_code": False}
    # Read once, with the head: only the head's class knows where the checkpoint keeps the body.
    auto = AutoModelForQuestionAnswering if answers else AutoModel
    whole, info = auto.from_pretrained(source, dtype=dtype, **settings)
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


def _cannot_load(source: str, error: Exception) -> str:
    reason = _reason(error)
    if Path(source).exists():
        return f"{source} cannot be loaded as a model: {reason}"
    aliases = ", ".join(card.name for card in assets.cards().values() if card.kind == "model")
    return (
        f"there is no model {source!r} on this machine or on the hub ({reason}); "
        f"give an alias ({aliases}), a Hugging Face id, or a folder with config.json, weights and tokenizer"
    )


def _reason(error: Exception) -> str:
    """The first line of an error.

    Example:
        >>> _reason(ValueError("no header\\nand more")), _reason(KeyError())
        ('no header', 'KeyError')
    """
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _device(asked: str | None) -> str:
    import torch

    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f"device {asked!r} is not available: torch sees no GPU; use --device cpu")
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError):
        raise ModelError(f"{asked!r} is not a device of this machine; use cpu, cuda or cuda:N") from None
    return asked

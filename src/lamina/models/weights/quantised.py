"""Weights in fewer bits: GGUF files, unpacked once into a model folder, and rounding to 8 bits on any machine.

Rounding takes away what quantisation of a model's linear layers does. As in torch's dynamic quantisation on CPU, every
row of a linear layer's weights (one output) has a scale of its own and 255 values, symmetric around 0. The rounded
weights are computed with in float32, so that everything that can be asked of a model can be asked of the rounded one;
activations are not rounded. Embeddings, norms and biases stay, and so does an output layer that shares its weights with
the embeddings.
"""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import torch
from filelock import FileLock
from jaxtyping import Float
from torch import Tensor

from lamina import assets
from lamina.errors import DamagedError, InputError, ModelError
from lamina.extras import require_package
from lamina.files.checking import changed_files, list_files, read_json, sha256_of, write_json
from lamina.files.reading import open_regular
from lamina.files.writing import fresh_folder, readable_write_errors, recover
from lamina.models.weights.bounds import bounded_building, check_config
from lamina.models.weights.hub import first_line, quiet_transformers
from lamina.progress import progress, say

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
    with readable_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        recover(target)
        # Another process may have converted it while this one waited.
        if not _is_sound(target):
            if target.exists():
                say(f"{target} is damaged; {packed.name} is converted again")
            convert_gguf(packed, target)
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


def convert_gguf(packed: Path, target: Path) -> None:
    from transformers import AutoTokenizer

    require_package("gguf", f"{packed.name} is a GGUF file", ModelError)
    with progress(f"unpacking {packed.name}"), quiet_transformers(), fresh_folder(target) as fresh:
        try:
            check_metadata(packed)
            model = _unpacked(packed)
            tokenizer = AutoTokenizer.from_pretrained(packed.parent, gguf_file=packed.name)
            _add_ends(tokenizer, packed)
        except Exception as error:
            # The library that reads GGUF fails in its own ways on what is not GGUF.
            raise ModelError(f"{packed} cannot be read as a GGUF file ({first_line(error)}); fetch it again") from error
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        write_json(fresh / _SEAL, {"files": list_files(fresh)})


_MAGIC = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Kind of a value -> its bytes; 8 is a string and 9 an array."""
_STRING, _ARRAY = 8, 9
_MOST_ENTRIES, _MOST_TENSORS, _MOST_ELEMENTS, _LONGEST = 10_000, 100_000, 4_000_000, 4 * 1024**2
"""Entries of the metadata, tensors, elements of all arrays together, and bytes of a string: a vocabulary of 256,000 has
1,300,000 elements with its merges. The library that reads them needs microseconds and a kilobyte for each."""


def check_metadata(packed: Path) -> None:
    """Raise a ModelError if what a GGUF file says of itself is cut, or larger than that of any model.

    Example:
        >>> check_metadata(Path(__file__))
        Traceback (most recent call last):
        lamina.errors.ModelError: it does not begin with GGUF and version 2 or 3
    """
    with open_regular(packed) as file:
        scan = _MetadataScan(file, packed.stat().st_size)
        magic, version = scan.take(4), int.from_bytes(scan.take(4), "little")
        if magic != _MAGIC or version not in (2, 3):
            raise ModelError("it does not begin with GGUF and version 2 or 3")
        tensors, entries = scan.count("tensors", _MOST_TENSORS), scan.count("entries", _MOST_ENTRIES)
        for _ in range(entries):
            scan.skip_string()
            scan.skip_value(int.from_bytes(scan.take(4), "little"))
        for _ in range(tensors):
            scan.skip_string()
            dimensions = int.from_bytes(scan.take(4), "little")
            if dimensions > 8:
                raise ModelError(f"it has a tensor of {dimensions} dimensions")
            scan.take(8 * dimensions + 12)


class _MetadataScan:
    """Goes through the metadata of a GGUF file without keeping it."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._elements = 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        content = self._file.read(size)
        if len(content) < size:
            raise ModelError("it is cut short")
        return content

    def count(self, what: str, most: int) -> int:
        """The next number; an error if it is too large."""
        number = int.from_bytes(self.take(8), "little")
        if number > most:
            raise ModelError(f"it says that it has {number:,} {what}; at most {most:,} are read")
        return number

    def skip_string(self) -> None:
        """Pass over a string."""
        self._skip(self.count("bytes in a string", _LONGEST))

    def skip_value(self, kind: int) -> None:
        """Pass over a value."""
        if kind == _STRING:
            self.skip_string()
        elif kind == _ARRAY:
            inner = int.from_bytes(self.take(4), "little")
            number = self.count("elements", _MOST_ELEMENTS - self._elements)
            self._elements += number
            if inner == _STRING:
                for _ in range(number):
                    self.skip_string()
            else:
                self._skip(number * self._width(inner))
        else:
            self._skip(self._width(kind))

    def _width(self, kind: int) -> int:
        if kind not in _SIZES:
            raise ModelError(f"it has a value of the unknown kind {kind}")
        return _SIZES[kind]

    def _skip(self, size: int) -> None:
        if size > self._size - self._file.tell():
            raise ModelError("it is cut short")
        self._file.seek(size, 1)


def _unpacked(packed: Path) -> PreTrainedModel:
    import torch
    from transformers import AutoConfig
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    check_config(load_gguf_checkpoint(str(packed))["config"])
    config = AutoConfig.from_pretrained(packed.parent, gguf_file=packed.name)
    auto = _auto_class(config)
    # First without memory, where one that is too large ends at once.
    with bounded_building([packed]), torch.device("meta"):
        auto.from_config(config)
    # Not from_pretrained(gguf_file=...): it gives the same weights but needs one more package (accelerate).
    model = auto.from_config(config)
    # Its progress bar can only be silenced through its stream; lamina shows its own.
    with redirect_stderr(StringIO()):
        weights = load_gguf_checkpoint(str(packed), return_tensors=True, model_to_load=model)["tensors"]
    absent = set(model.load_state_dict(weights, strict=False).missing_keys) - set(model.all_tied_weights_keys)
    if absent:
        raise ModelError(f"it lacks {len(absent)} of the model's weights (first: {min(absent)})")
    return model


def _auto_class(config: Any) -> Any:
    """With the head that the architecture is packed with: most are decoders, T5 is an encoder-decoder."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
    from transformers import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING as BOTH
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    if type(config) in BOTH and config.is_encoder_decoder:
        return AutoModelForSeq2SeqLM
    return AutoModelForCausalLM if type(config) in CAUSAL else AutoModel


def _add_ends(tokenizer: Any, packed: Path) -> None:
    """Have the tokenizer put the tokens around a text that the file asks for, which transformers does not read.

    Without its first token, Gemma 3 predicts words far worse (a loss of 4.7 instead of 2.8 on two sentences).
    """
    from gguf import GGUFReader
    from tokenizers.processors import TemplateProcessing

    fields = GGUFReader(packed).fields
    ends = [end for end in ("bos", "eos") if (f := fields.get(f"tokenizer.ggml.add_{end}_token")) and f.contents()]
    known = {
        end: getattr(tokenizer, f"{end}_token") for end in ends if getattr(tokenizer, f"{end}_token_id") is not None
    }
    for end in known:
        setattr(tokenizer, f"add_{end}_token", True)
    ids = tokenizer("a")["input_ids"]
    first, last = known.get("bos"), known.get("eos")
    if (first and ids[0] != tokenizer.bos_token_id) or (last and ids[-1] != tokenizer.eos_token_id):
        one, two = (" ".join(filter(None, (first, text, last))) for text in ("$A", "$B:1"))
        special = [(token, tokenizer.convert_tokens_to_ids(token)) for token in dict.fromkeys(known.values())]
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=one, pair=f"{one} {two}", special_tokens=special
        )


INT8 = "int8"
"""The precision by its name."""
_LARGEST = 127


def rounded(weight: Float[Tensor, "output input"]) -> Float[Tensor, "output input"]:
    """Each row in steps of its largest value divided by 127.

    Example:
        >>> rounded(torch.tensor([[1.27, 0.004], [0.0, 0.0]])).tolist()
        [[1.2699999809265137, 0.0], [0.0, 0.0]]
    """
    scale = weight.abs().amax(1, keepdim=True) / _LARGEST
    steps = torch.where(scale > 0, weight / torch.where(scale > 0, scale, torch.ones_like(scale)), 0)
    return steps.round().clamp(-_LARGEST, _LARGEST) * scale


def round_weights(model: PreTrainedModel) -> int:
    """Round the weights of a model's linear layers in place; how many layers there were."""
    embeddings = model.get_input_embeddings()
    shared = getattr(embeddings, "weight", None)
    layers = 0
    with torch.no_grad():
        for module in model.modules():
            weight = getattr(module, "weight", None)
            # GPT-2 has its linear layers the other way round.
            turned = type(module).__name__ == "Conv1D"
            if weight is None or weight is shared or not (isinstance(module, torch.nn.Linear) or turned):
                continue
            weight.copy_(rounded(weight.T).T if turned else rounded(weight))
            layers += 1
    return layers

"""Models that come as GGUF: unpacked once to a folder of safetensors, since reading GGUF takes 20 seconds."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from lamina import assets
from lamina.encoders.quiet import quiet_transformers
from lamina.errors import ModelError
from lamina.progress import progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FORMAT = 1


def converted(packed: Path) -> Path:
    """The folder with the weights, config and tokenizer of a GGUF file, made on first use.

    The weights are what the quantised file holds, widened to float32.
    """
    target = assets.cache_dir() / "converted" / f"{packed.stem}-{packed.stat().st_size}-{FORMAT}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if not target.exists():
            _convert(packed, target)
    return target


def _convert(packed: Path, target: Path) -> None:
    from transformers import AutoTokenizer

    unpacking = progress(f"unpacking {packed.name}")
    with tempfile.TemporaryDirectory(dir=target.parent) as holder, unpacking, quiet_transformers():
        fresh = Path(holder) / "model"
        _unpacked(packed).save_pretrained(fresh)
        AutoTokenizer.from_pretrained(packed.parent, gguf_file=packed.name).save_pretrained(fresh)
        shutil.move(fresh, target)


def _unpacked(packed: Path) -> PreTrainedModel:
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    # Not from_pretrained(gguf_file=...): it gives the same weights but asks for one more package (accelerate).
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(packed.parent, gguf_file=packed.name))
    # It draws a bar that nothing but its stream can stop; lamina draws its own.
    with redirect_stderr(StringIO()):
        weights = load_gguf_checkpoint(str(packed), return_tensors=True, model_to_load=model)["tensors"]
    absent = set(model.load_state_dict(weights, strict=False).missing_keys) - set(model.all_tied_weights_keys)
    if absent:
        raise ModelError(f"{packed} lacks {len(absent)} weights of its model (first: {min(absent)})")
    return model

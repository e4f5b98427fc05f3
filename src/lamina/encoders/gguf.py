"""Models that come as GGUF: unpacked once to a folder of safetensors, since reading GGUF takes 20 seconds."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from filelock import FileLock

from lamina import assets
from lamina.encoders.quiet import quiet_transformers
from lamina.progress import progress

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
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    unpacking = progress(f"unpacking {packed.name}")
    with tempfile.TemporaryDirectory(dir=target.parent) as holder, unpacking, quiet_transformers():
        fresh = Path(holder) / "model"
        model = AutoModelForCausalLM.from_pretrained(packed.parent, gguf_file=packed.name, dtype=torch.float32)
        model.save_pretrained(fresh)
        AutoTokenizer.from_pretrained(packed.parent, gguf_file=packed.name).save_pretrained(fresh)
        shutil.move(fresh, target)

"""The fine-tuned model as a folder: what Hugging Face saves, and beside it what it was trained on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import ResultError
from lamina.results import Result, read_head, refuse_foreign
from lamina.training.provenance import ABOUT, FORMAT, TEXTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_KEY = "key.txt"


def model_files(
    best: Path, tokenizer: PreTrainedTokenizerFast, about: dict[str, Any], used: Iterable[str]
) -> dict[str, Path]:
    """Complete the folder of the best step: tokenizer, what it is, which texts it has seen."""
    tokenizer.save_pretrained(best)
    (best / ABOUT).write_text(json.dumps({"format": FORMAT, **about}, indent=2, default=str) + "\n", encoding="utf-8")
    (best / TEXTS).write_text("".join(f"{line}\n" for line in sorted(set(used))), encoding="utf-8")
    return {path.name: path for path in sorted(best.iterdir()) if path.is_file()}


def saved(out: Path, key: str) -> Result | None:
    """What `out` holds, where it is the answer to exactly this question; a folder of something else is refused."""
    refuse_foreign(out)
    try:
        return Result.load(out) if read_head(out).get("key") == key else None
    except ResultError:
        return None


def work_folder(out: Path, key: str, *, resume: bool) -> Path:
    """Where a training keeps its checkpoints until it is done: beside `out`, emptied where it was of another run."""
    work = out.parent / f".{out.name}.training"
    kept = work / _KEY
    if work.exists() and not (resume and kept.is_file() and kept.read_text(encoding="utf-8") == key):
        shutil.rmtree(work)
    try:
        work.mkdir(parents=True, exist_ok=True)
        kept.write_text(key, encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{work} cannot be written: {error.strerror}; name another folder") from error
    return work

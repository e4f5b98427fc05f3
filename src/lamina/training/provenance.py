"""Which texts a model was fine-tuned on, so that it is never scored on them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lamina.errors import CorpusError, ModelError
from lamina.types import Text

TEXTS = "lamina_texts.txt"
"""In a fine-tuned folder: a line a text that was learned from or that chose the checkpoint."""
ABOUT = "lamina.json"
"""In a fine-tuned folder: what it was trained to do, from what, and on what."""
FORMAT = 1
_PASSAGE = 50
"""Words from which a context is known by itself; a shorter one (a toy story) only together with its question."""


def text_hash(text: Text) -> str:
    """A name for what a text says, however it is cut into words.

    Two questions about the same paragraph have the same hash: who has seen the paragraph has seen both. Stories of a
    few facts, which come up again by chance, are told apart by their questions.

    Example:
        >>> text_hash(Text("a", ("can", "not", "."))) == text_hash(Text("b", ("cannot", ".")))
        True
    """
    last = text.segments[-1]
    words = text.words[last.start : last.end] if len(last) >= _PASSAGE else text.words
    return hashlib.blake2b("".join(words).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def used_texts(folder: str | os.PathLike[str]) -> frozenset[str]:
    """The hashes of the texts a fine-tuned folder has seen; none where lamina did not make it.

    Example:
        >>> used_texts("some-hub/model")
        frozenset()
    """
    path = Path(folder) / TEXTS
    return frozenset(path.read_text(encoding="utf-8").split()) if path.is_file() else frozenset()


def refuse_used(folder: str | os.PathLike[str], texts: Iterable[Text], what: str) -> None:
    """Raise a CorpusError where a model was fine-tuned on some of these texts."""
    used = used_texts(folder)
    seen = [text.id for text in texts if text_hash(text) in used] if used else []
    if seen:
        raise CorpusError(
            f"{folder} was fine-tuned on {len(seen):,} of the texts of {what} (first: {seen[0]}); score it on texts it "
            "has not seen"
        )


def read_about(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What `lamina finetune` says of a folder it made."""
    path = Path(folder) / ABOUT
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ModelError(
            f"{folder} is no model that lamina fine-tuned: it has no readable {ABOUT}; make one with `lamina finetune`"
        ) from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ModelError(f"{path} is of another format than this lamina reads ({FORMAT}); fine-tune the model again")
    return about

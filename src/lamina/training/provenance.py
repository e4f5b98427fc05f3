"""Which texts a model was fine-tuned on, so that it is never scored on them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import CorpusError, ModelError
from lamina.types import Text

TEXTS = "lamina_texts.txt"
"""In a fine-tuned folder: one line per text that was trained on or selected by."""
ABOUT = "lamina.json"
"""In a fine-tuned folder: what it was trained to do, from what, and on what."""
FORMAT = 1
_PASSAGE = 50
"""Words from which a context identifies a text; a shorter one (a story) does so only with its question."""


def text_hash(text: Text) -> str:
    """A hash of what a text says, however it is cut into words.

    Two questions about the same paragraph have the same hash: a model that has seen the paragraph has seen both. Short
    stories, which recur by chance, are identified together with their question.

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


def folder_of(encoder: Encoder) -> Path | None:
    """The folder a model was loaded from, where it was one.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> folder_of(TinyEncoder()) is None
        True
    """
    source = encoder.model.name_or_path if isinstance(encoder, HuggingFaceEncoder) else ""
    return Path(source) if source and Path(source).is_dir() else None


def refuse_seen(encoder: Encoder, corpus: Corpus) -> None:
    """Raise a CorpusError where lamina fine-tuned the model on some of these texts."""
    folder = folder_of(encoder)
    if folder is not None:
        refuse_used(folder, corpus, f"{corpus.name} ({corpus.split})")


def unseen(corpus: Corpus, encoders: Sequence[Encoder]) -> tuple[Corpus, int]:
    """The corpus without the texts that any of the models was fine-tuned on, and how many those are."""
    folders = [folder for each in encoders if (folder := folder_of(each)) is not None]
    used = frozenset().union(*(used_texts(folder) for folder in folders))
    seen = frozenset(text.id for text in corpus if text_hash(text) in used) if used else frozenset()
    if not seen:
        return corpus, 0
    if len(seen) == len(corpus):
        raise CorpusError(
            f"{' or '.join(map(str, folders))} was fine-tuned on every text of {corpus.name} ({corpus.split}); name "
            "texts it has not seen"
        )
    note = "without texts that a model was fine-tuned on"
    kept = replace(
        corpus,
        source=lambda: (text for text in corpus if text.id not in seen),
        fingerprint=fingerprint_of("unseen", corpus.fingerprint, sorted(seen)),
        made_split=note if corpus.made_split is None else f"{corpus.made_split}; {note}",
        limit=None,
    )
    return kept, len(seen)

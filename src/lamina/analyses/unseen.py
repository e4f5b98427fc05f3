"""Texts that a fine-tuned model has not learned from: the only ones it may be looked at with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import CorpusError
from lamina.training.provenance import refuse_used, text_hash, used_texts


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

"""Which texts a model was fine-tuned on, so that it is never scored on them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lamina.corpora import Corpus
from lamina.corpora.corpus import View, fingerprint_of, origins
from lamina.errors import CorpusError, InputError, ModelError
from lamina.files.reading import parse_json, read_regular
from lamina.models import Encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.progress import say
from lamina.types import Text

TEXTS = "lamina_texts.txt"
"""In a fine-tuned folder: one line per text that was trained on or selected by."""
ABOUT = "lamina.json"
_LARGEST = 4 * 1024**2
"""Most bytes of what a fine-tuning says of itself."""
"""In a fine-tuned folder: what it was trained to do, from what, and on what."""
FORMAT = 1
GUARD = 2
"""How the texts of a folder are recognised, written as `guard`: 2 by their origins, the same for every view of a
question. Folders without it were written before that: what they say of questions holds for one view only."""


def text_hash(text: Text) -> str:
    """What a text is recognised by: the hashes of what it was made of, however it is cut or shown.

    Example:
        >>> text_hash(Text("a", ("can", "not", "."))) == text_hash(Text("b", ("cannot", ".")))
        True
    """
    return " ".join(origins(text))


def is_among(text: Text, used: Set[str]) -> bool:
    """Whether a text, or a part of it that has an origin of its own, is among texts with these hashes.

    Example:
        >>> seen = Text("a", ("Dogs", "bark", "."))
        >>> is_among(Text("b", ("Dogs", "bark."), origin=text_hash(seen)), frozenset([text_hash(seen)]))
        True
    """
    return not used.isdisjoint(origins(text))


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
    if seen := _seen([folder], texts):
        raise CorpusError(
            f"{folder} was fine-tuned on {len(seen):,} of the texts of {what} (first: {seen[0]}); score it on texts it "
            "has not seen"
        )


def _seen(folders: Sequence[str | os.PathLike[str]], texts: Iterable[Text]) -> list[str]:
    """The ids of the texts that some of the folders were fine-tuned on."""
    used = frozenset().union(*map(used_texts, folders))
    for folder in folders:
        _say_unguarded(str(folder))
    return [text.id for text in texts if is_among(text, used)] if used else []


def unguarded(folder: str | os.PathLike[str]) -> str | None:
    """What to say of a folder whose questions are recognised in one view only; None for all others.

    Example:
        >>> unguarded("some-hub/model") is None
        True
    """
    if guard_of(folder) >= GUARD:
        return None
    return (
        f"{folder} was fine-tuned by an earlier version and is unguarded: it may have been trained on some of these "
        "questions in another view; fine-tune it again to be sure"
    )


# Once per folder: an analysis looks at several sets of texts.
@cache
def _say_unguarded(folder: str) -> None:
    warning = unguarded(folder)
    if warning is not None:
        say(warning)


def guard_of(folder: str | os.PathLike[str]) -> int:
    """How the texts that a folder has seen are recognised (see `GUARD`); a new folder tuned from it knows no more.

    Example:
        >>> guard_of("some-hub/model") == GUARD
        True
    """
    known = (Path(folder) / TEXTS).is_file() and (Path(folder) / ABOUT).is_file()
    return int(read_about(folder).get("guard", 1)) if known else GUARD


def view_of(model: Encoder | str | os.PathLike[str]) -> View | None:
    """How questions were shown to a fine-tuned model; None where it does not say.

    Example:
        >>> view_of("some-hub/model") is None
        True
    """
    folder = folder_of(model) if isinstance(model, Encoder) else Path(model)
    if folder is None or not (folder / ABOUT).is_file():
        return None
    description = read_about(folder).get("view")
    try:
        return None if description is None else View.of(description)
    except InputError as error:
        raise ModelError(f"{folder / ABOUT}: {error}; fine-tune the model again") from None


def read_about(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What `lamina finetune` says of a folder it made."""
    path = Path(folder) / ABOUT
    try:
        about = parse_json(read_regular(path, _LARGEST).decode("utf-8"))
    except (OSError, ValueError, InputError):
        raise ModelError(
            f"{folder} was not fine-tuned by lamina: it has no readable {ABOUT}; make one with `lamina finetune`"
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
    source = encoder.source if isinstance(encoder, HuggingFaceEncoder) else ""
    return Path(source) if source and Path(source).is_dir() else None


def refuse_seen(encoder: Encoder, corpus: Corpus) -> None:
    """Raise a CorpusError where lamina fine-tuned the model on some of these texts."""
    folder = folder_of(encoder)
    if folder is not None:
        refuse_used(folder, corpus, f"{corpus.name} ({corpus.split})")


def unseen(corpus: Corpus, encoders: Sequence[Encoder]) -> tuple[Corpus, int]:
    """The corpus without the texts that any of the models was fine-tuned on, and how many those are."""
    folders = [folder for encoder in encoders if (folder := folder_of(encoder)) is not None]
    seen = frozenset(_seen(folders, corpus))
    if not seen:
        return corpus, 0
    if len(seen) == len(corpus):
        raise CorpusError(
            f"{' or '.join(map(str, folders))} was fine-tuned on every text of {corpus.name} ({corpus.split}); name "
            "texts it has not seen"
        )
    note = "without texts that a model was fine-tuned on"
    remaining = replace(
        corpus,
        source=lambda: (text for text in corpus if text.id not in seen),
        fingerprint=fingerprint_of("unseen", corpus.fingerprint, sorted(seen)),
        made_split=note if corpus.made_split is None else f"{corpus.made_split}; {note}",
    )
    return remaining, len(seen)


# The models of one fine-tuning with several seeds: `OUT/seed-0`, `OUT/seed-1`, ..., each a model folder of its own.

_NAME = re.compile(r"seed-(\d+)")
_SHARED = {
    "task": "task",
    "head": "head",
    "labels": "labels",
    "layers": "number of layers",
    "view": "view of the data",
    "base": "model they started from",
}
"""What the seeds of one fine-tuning have in common: key in `lamina.json` -> its name in a sentence."""


def seed_folder(seed: int) -> str:
    """The name of the folder that holds the model of one seed.

    Example:
        >>> seed_folder(3)
        'seed-3'
    """
    return f"seed-{seed}"


def seed_of(folder: str | os.PathLike[str]) -> int | None:
    """The seed whose model a folder of that name holds; None for any other name.

    Example:
        >>> seed_of("runs/squad/seed-3"), seed_of("runs/squad")
        (3, None)
    """
    named = _NAME.fullmatch(Path(folder).name)
    return None if named is None else int(named[1])


def seed_folders(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """The model folders that `lamina finetune --seeds` made below `path`, in the order of seeds; none elsewhere.

    Example:
        >>> seed_folders("some-hub/model")
        ()
    """
    root = Path(path)
    if not root.is_dir():
        return ()
    folders = {
        int(named[1]): folder
        for folder in root.iterdir()
        if (named := _NAME.fullmatch(folder.name)) and (folder / ABOUT).is_file()
    }
    return tuple(folder for _, folder in sorted(folders.items()))


def refuse_unlike(folders: Sequence[Path]) -> None:
    """Raise a ModelError where models differ in what the seeds of one fine-tuning have in common."""
    if len(folders) < 2:
        return
    first, *others = folders
    expected = _shared(first)
    for folder in others:
        unlike = [name for key, name in _SHARED.items() if _shared(folder)[key] != expected[key]]
        if unlike:
            raise ModelError(
                f"{first} and {folder} differ in their {unlike[0]}, so they are not seeds of one fine-tuning; name one "
                "of them, or make them together with `lamina finetune --seeds`"
            )


def _shared(folder: Path) -> dict[str, Any]:
    about = read_about(folder)
    shared = {key: about.get(key) for key in _SHARED}
    base = shared["base"]
    # The same weights may have been named in two ways.
    return shared | {"base": base.get("fingerprint") if isinstance(base, dict) else base}

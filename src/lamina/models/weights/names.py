"""What a model is called: an alias, a file, a folder or a hub id, with a revision and a side."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lamina.errors import ModelError

Side = Literal["encoder", "decoder"]
"""The two halves of an encoder-decoder."""

_SIDE = re.compile(r"(?P<source>.+):(?P<side>encoder|decoder)")


@dataclass(frozen=True)
class ModelName:
    """A model's name in its parts: `SOURCE[@REVISION][:encoder|:decoder]`."""

    source: str
    """An alias, a path or a hub id."""
    revision: str | None = None
    """A branch, a tag or a commit of a hub model; None for its default branch."""
    side: Side | None = None
    """Which half of an encoder-decoder; None if the name does not say, which means the encoder."""

    @property
    def is_path(self) -> bool:
        """Whether the source is a file or a folder of this machine."""
        return _exists(self.source)

    @property
    def display_name(self) -> str:
        """In tables: a folder by its name, a file without its suffix, a hub id as it is.

        Example:
            >>> ModelName("me/t5", "v2", "decoder").display_name
            'me/t5@v2:decoder'
        """
        source = _path_name(Path(self.source)) if self.is_path else self.source
        return source + (f"@{self.revision}" if self.revision else "") + (f":{self.side}" if self.side else "")


def parse_name(name: str) -> ModelName:
    """The parts of a name; a path that exists is taken as it is, whatever characters it has.

    Example:
        >>> parse_name("EleutherAI/pythia-70m@step1000")
        ModelName(source='EleutherAI/pythia-70m', revision='step1000', side=None)
        >>> parse_name("t5-small:decoder")
        ModelName(source='t5-small', revision=None, side='decoder')
        >>> parse_name("t5-small@")
        Traceback (most recent call last):
        lamina.errors.ModelError: 't5-small@' names no revision; write MODEL@REVISION, with a branch, a tag or a commit
    """
    if not name.strip():
        raise ModelError("a model's name is empty; give an alias, a Hugging Face id or a folder")
    if "\0" in name:
        raise ModelError(f"{name!r} cannot be the name of a model: it contains a null character")
    if _exists(name):
        return ModelName(name)
    side: Side | None = None
    if match := _SIDE.fullmatch(name):
        name, side = match["source"], "decoder" if match["side"] == "decoder" else "encoder"
        if _exists(name):
            return ModelName(name, None, side)
    source, separator, revision = name.partition("@")
    if not separator:
        return ModelName(name, None, side)
    if not revision or not source:
        missing = "revision" if source else "model"
        raise ModelError(f"{name!r} names no {missing}; write MODEL@REVISION, with a branch, a tag or a commit")
    if _exists(source):
        raise ModelError(f"{source} is on this machine and has no revisions; leave out @{revision}")
    return ModelName(source, revision, side)


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:
        # Longer than a path can be.
        return False


def _path_name(path: Path) -> str:
    """What the model of a path is called; one seed of a fine-tuning together with the fine-tuning.

    Example:
        >>> _path_name(Path("runs/squad")), _path_name(Path("runs/squad/seed-3")), _path_name(Path("a/tiny.Q4.gguf"))
        ('squad', 'squad/seed-3', 'tiny.Q4')
    """
    if path.suffix == ".gguf":
        return path.stem
    return "/".join(path.parts[-2:]) if re.fullmatch(r"seed-\d+", path.name) else path.name

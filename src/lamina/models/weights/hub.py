"""What a model is called; models of the Hugging Face hub, read at one commit and compared with their first download."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lamina import assets
from lamina.assets.sources import check_first_download
from lamina.errors import ModelError

Side = Literal["encoder", "decoder"]
"""The two halves of an encoder-decoder."""

_SIDE = re.compile(r"(?P<source>.+):(?P<side>encoder|decoder)")


@dataclass(frozen=True)
class ModelName:
    """A model's name in its parts: `[BASE+]SOURCE[@REVISION][:encoder|:decoder]`."""

    source: str
    """An alias, a path or a hub id."""
    revision: str | None = None
    """A branch, a tag or a commit of a hub model; None for its default branch."""
    side: Side | None = None
    """Which half of an encoder-decoder; None if the name does not say, which means the encoder."""
    base: str | None = None
    """Of an adapter: the name of the model that it is to be added to; None if the name does not say."""

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
        ModelName(source='EleutherAI/pythia-70m', revision='step1000', side=None, base=None)
        >>> parse_name("t5-small:decoder")
        ModelName(source='t5-small', revision=None, side='decoder', base=None)
        >>> parse_name("minilm+me/adapter")
        ModelName(source='me/adapter', revision=None, side=None, base='minilm')
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
    base, plus, adapter = name.rpartition("+")
    if plus:
        if not base or not adapter:
            raise ModelError(f"{name!r} names only one model; of an adapter, write BASE+ADAPTER")
        return replace(parse_name(adapter), base=base)
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


class WrittenConfig(NamedTuple):
    """A model's config as it is written; no code was run to read it."""

    config: dict[str, Any]
    """Empty where there is none."""
    commit: str | None
    """Of the hub's repository it was read from; None for a model of this machine."""


def read_config(source: str, revision: str | None) -> WrittenConfig:
    """The config of a folder or of a hub model, which is asked for its files once: all others come from that commit."""
    from transformers import PreTrainedConfig
    from transformers.utils.hub import cached_file

    if Path(source).is_dir():
        return WrittenConfig(dict(PreTrainedConfig.get_config_dict(source)[0]), None)
    path = cached_file(source, "config.json", revision=revision, _raise_exceptions_for_missing_entries=False)
    if path is None:
        # The error of the library that needs it says why.
        return WrittenConfig({}, None)
    # The hub's cache has one folder per commit.
    commit = Path(path).parent.name if Path(path).parent.parent.name == "snapshots" else None
    return WrittenConfig(dict(PreTrainedConfig.get_config_dict(source, revision=commit or revision)[0]), commit)


def snapshot_folder(repo: str, commit: str | None) -> Path | None:
    """The folder of a hub model's files at a commit, as far as they were downloaded; None if none was."""
    from huggingface_hub import try_to_load_from_cache

    # An adapter has no config.json.
    names = ("config.json", "adapter_config.json") if commit is not None else ()
    cached = (try_to_load_from_cache(repo, name, revision=commit) for name in names)
    return next((Path(path).parent for path in cached if isinstance(path, str)), None)


def check_hub_files(repo: str, commit: str | None) -> None:
    """Compare the files of a model of the hub with those that were downloaded first."""
    snapshot = snapshot_folder(repo, commit)
    if commit is not None and snapshot is not None:
        names = [path.relative_to(snapshot).as_posix() for path in sorted(snapshot.rglob("*")) if path.is_file()]
        check_first_download(repo, commit, snapshot, names)


def code_homes(source: str, *configs: Mapping[str, Any]) -> list[str]:
    """Whose code a model's configs ask to run: hub ids, or the model's own source.

    Example:
        >>> code_homes("me/odd", {"auto_map": {"AutoModel": "modeling.Odd", "AutoConfig": "you/base--config.C"}})
        ['me/odd', 'you/base']
    """
    homes: list[str] = []
    for config in configs:
        named = config.get("auto_map")
        for classes in named.values() if isinstance(named, Mapping) else ():
            for reference in classes if isinstance(classes, list | tuple) else (classes,):
                if isinstance(reference, str):
                    homes.append(reference.partition("--")[0] if "--" in reference else source)
    return list(dict.fromkeys(homes))


def warn_of_code(homes: list[str], source: str, commit: str | None) -> str:
    """Print to standard error whose code will run, at which revision; returns that for provenance."""
    repositories = [
        f"{home}@{commit}" if home == source and commit else home if Path(home).exists() else f"{home}@main"
        for home in homes
    ]
    for repository in repositories:
        # Not a progress message: printed even where messages are switched off.
        print(
            f"lamina: warning: running the code that comes with {repository} (--trust-remote-code); it can do "
            "everything that you can do on this machine",
            file=sys.stderr,
            flush=True,
        )
    return ", ".join(repositories)


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust has panicked, which Python knows as no ordinary exception.

    Example:
        >>> is_panic(KeyboardInterrupt())
        False
    """
    return type(error).__name__ == "PanicException"


def cannot_load(name: ModelName, error: BaseException) -> ModelError:
    """Why a model cannot be had, with the hub's own reason, and what to do."""
    if isinstance(error, ModelError):
        # Errors about a folder may lack its name.
        return error if name.source in str(error) else ModelError(f"{name.source} cannot be loaded as a model: {error}")
    reason = first_line(error)
    if "trust_remote_code" in str(error):
        return ModelError(
            f"{name.source} contains custom code, which transformers needs to load it; lamina runs no code of a model "
            "unless you allow it. Read that code, and if you trust it, add --trust-remote-code (in Python "
            "trust_remote_code=True): it runs with all your rights"
        )
    if name.is_path:
        return ModelError(f"{name.source} cannot be loaded as a model: {reason}")
    return ModelError(_hub_reason(name, error) or f"{_unknown(name, reason)}; {_what_else()}")


def _hub_reason(name: ModelName, error: BaseException) -> str | None:
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    page = f"https://huggingface.co/{name.source}"
    for cause in _chain(error):
        message = _server_message(cause)
        # A gated repository counts as one that is not found, so it comes first.
        if isinstance(cause, GatedRepoError):
            return (
                f"{name.source} is gated ({message}); accept its licence at {page} with your account, then log in here "
                "with `hf auth login` (or set HF_TOKEN)"
            )
        if isinstance(cause, RevisionNotFoundError):
            return (
                f"{name.source} has no revision {name.revision!r} ({message}); its branches, tags and commits are at "
                f"{page}/tree/main"
            )
        if isinstance(cause, RepositoryNotFoundError):
            return (
                f"{_unknown(name, message)}. If it is private, log in with `hf auth login` (or set HF_TOKEN). "
                f"Otherwise {_what_else()}"
            )
        if isinstance(cause, LocalEntryNotFoundError | OfflineModeIsEnabled):
            wanted = f"{name.source}@{name.revision}" if name.revision else name.source
            return (
                f"there is no model {wanted!r} on this machine, and the hub cannot be reached; connect, or unset "
                f"HF_HUB_OFFLINE if it is set. Otherwise {_what_else()}"
            )
    return None


def _unknown(name: ModelName, reason: str) -> str:
    return f"there is no model {name.source!r} on this machine or on the hub ({reason})"


def _what_else() -> str:
    aliases = ", ".join(card.name for card in assets.cards().values() if card.kind == "model")
    return f"give an alias ({aliases}), a Hugging Face id, or a folder with config.json, weights and tokenizer"


def _server_message(error: BaseException) -> str:
    """The server's message, without the request's number and address."""
    message = getattr(error, "server_message", None) or str(error)
    lines = [line.strip() for line in message.splitlines() if line.strip() and "Request ID" not in line]
    return lines[0].rstrip(".:") if lines else type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def first_line(error: BaseException) -> str:
    """The first line of an error.

    Example:
        >>> first_line(ValueError("no header\\nand more")), first_line(KeyError())
        ('no header', 'KeyError')
    """
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


# Loading without the log lines and progress bars of transformers and the hub.


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide progress bars and log lines below errors; restores the user's settings afterwards.

    Example:
        >>> with quiet_transformers():
        ...     pass
    """
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    # It warns of parts that are kept in memory or on disk, as was asked for.
    spreading = getLogger("accelerate.big_modeling")
    spreading_level = spreading.level
    spreading.setLevel(ERROR)
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
        spreading.setLevel(spreading_level)
        if bars:
            logging.enable_progress_bar()

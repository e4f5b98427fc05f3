"""Datasets of the Hugging Face hub, by name: `hf:OWNER/NAME`, `hf:OWNER/NAME:CONFIG`, each with `@REVISION` or without.

The package `datasets` downloads and keeps them; its Arrow files are then read like any other table. Code that comes
with a dataset is never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.splits import split_of
from lamina.errors import CorpusError

PREFIX = "hf:"
_NAME = re.compile(r"(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?::(?P<config>[^:@\s]+))?(?:@(?P<revision>[^@\s]+))?")
_COMMIT = re.compile(r"[@/]([0-9a-f]{40})(?=/)")
_GRAMMAR = "hf:OWNER/NAME, hf:OWNER/NAME:CONFIG or hf:OWNER/NAME:CONFIG@REVISION"


class HubName(NamedTuple):
    """Which dataset."""

    repo: str
    config: str | None = None
    revision: str | None = None


class HubFiles(NamedTuple):
    """A dataset on this machine."""

    files: Mapping[str | None, tuple[Path, ...]]
    """Split -> its files; None holds those whose split is called like no split of lamina."""
    revision: str | None
    """The commit it was downloaded at."""


def is_hub_name(name: str) -> bool:
    """Whether a corpus is a dataset of the hub, rather than a path or a name of the catalogue."""
    return name.startswith(PREFIX) and not Path(name).exists()


def parse_hub_name(name: str) -> HubName:
    """The parts of a dataset's name.

    Example:
        >>> parse_hub_name("hf:nyu-mll/glue:sst2@main")
        HubName(repo='nyu-mll/glue', config='sst2', revision='main')
    """
    found = _NAME.fullmatch(name.removeprefix(PREFIX))
    if found is None:
        raise CorpusError(f"{name!r} is no name of a dataset of the Hugging Face hub; write {_GRAMMAR}")
    return HubName(found["repo"], found["config"], found["revision"])


@cache
def hub_files(name: str) -> HubFiles:
    """The files of a dataset, downloaded if they are not on this machine; looked up once per process."""
    wanted = parse_hub_name(name)
    if Path(wanted.repo).exists():
        raise CorpusError(
            f"{wanted.repo} is also a folder here, which the package `datasets` would read in place of {name}; give "
            "its path without hf:, or work in another folder"
        )
    loaded = _loaded(name, wanted)
    files: dict[str | None, list[Path]] = {}
    for split, table in loaded.items():
        files.setdefault(split_of(str(split)), []).extend(Path(each["filename"]) for each in table.cache_files)
    commit = wanted.revision or _commit(loaded.values())
    return HubFiles({split: tuple(paths) for split, paths in files.items() if paths}, commit)


def _loaded(name: str, wanted: HubName) -> Mapping[Any, Any]:
    try:
        import datasets
    except ImportError:
        raise CorpusError(
            f"{name} needs the package `datasets`: pip install 'lamina[datasets]', or download its files and give "
            "their path"
        ) from None
    # Versions before 4 can run a dataset's program, if they are told to or an environment variable says so.
    runs_code = "trust_remote_code" in signature(datasets.load_dataset).parameters
    never: dict[str, Any] = {"trust_remote_code": False} if runs_code else {}
    try:
        loaded = datasets.load_dataset(wanted.repo, wanted.config, revision=wanted.revision, **never)
    # What its builders and the hub raise is not listed anywhere.
    except Exception as error:
        raise CorpusError(_refusal(name, wanted, error)) from error
    if not isinstance(loaded, Mapping):
        raise CorpusError(f"{name} is not a dataset with splits; download its files and give their path")
    return loaded


def _refusal(name: str, wanted: HubName, error: Exception) -> str:
    """The hub's own reason, and what to do."""
    reason = " ".join(str(error).split()) or type(error).__name__
    page = f"https://huggingface.co/datasets/{wanted.repo}"
    low = reason.lower()
    if "gated" in low or "authenticat" in low or "401" in low or "403" in low:
        todo = f"ask for access at {page}, run `hf auth login`, and try again"
    elif "offline" in low or isinstance(error, ConnectionError):
        todo = "it is not on this machine: try again with a connection and without HF_HUB_OFFLINE"
    elif "script" in low:
        todo = "lamina runs no code of a dataset; give its files by path, or a revision with Parquet files, such as "
        todo += f"hf:{wanted.repo}@refs/convert/parquet"
    elif "config" in low:
        todo = f"name one of them: hf:{wanted.repo}:CONFIG"
    else:
        todo = f"see {page}, or download its files and give their path"
    return f"{name} cannot be loaded: {reason[:600].rstrip('.')}; {todo}"


def _commit(tables: Iterable[Any]) -> str | None:
    """The commit that files were downloaded at, which is in their addresses or in the name of their folder."""
    for table in tables:
        places = [*(table.info.download_checksums or {}), *(each["filename"] for each in table.cache_files)]
        found = next((match[1] for place in places if (match := _COMMIT.search(str(place)))), None)
        if found:
            return found
    return None

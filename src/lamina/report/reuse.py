"""Whether a report on disk is still the answer: told by hashes of files, without torch, the model or a chart.

A report is up to date where nothing that its numbers or its page depend on has changed since it was written: the files
of the model, the texts, the settings, lamina's own source, every installed package, each result and the page itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import distributions, entry_points
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina import assets
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import DamagedError, InputError, ResultError, WriteError
from lamina.files.checking import changed_files, hash_file, read_json, sha256_of, write_json
from lamina.framework.registry import GROUP
from lamina.report.page import FIGURES
from lamina.results.folder import HEAD, read_head

if TYPE_CHECKING:
    from lamina.corpora import Corpus

RECORD = "report.json"
"""Beside the page: what it was made from."""
_FORMAT = 2
"""Raised when an older record would say something else."""


def inputs_key(
    model: Any, texts: Corpus, train: Corpus | None, only: Sequence[str] | None, options: Mapping[str, Any]
) -> str | None:
    """Equal where a report would be the same; None where files cannot tell.

    Files cannot tell of a model in memory, of one on the hub (its branch may have moved), of an adapter (its base is
    elsewhere), and where other packages add analyses (their source may be edited in place).
    """
    of_model = _model_files(model)
    if of_model is None or any(entry_points(group=GROUP)):
        return None
    read = [[each.name, each.split, each.fingerprint] for each in (texts, train) if each is not None]
    installed = sorted(f"{each.name} {each.version}" for each in distributions())
    asked = sorted(only) if only else None
    return fingerprint_of(_FORMAT, str(model), of_model, read, asked, dict(options), _source_files(), installed)


def page_up_to_date(out: Path, key: str) -> Path | None:
    """The page of a report that is as it was written, results included, and was made from these inputs."""
    page = out / "index.html"
    try:
        record = read_json(out / RECORD)
        if record.get("inputs") != key or hash_file(page) != record.get("page"):
            return None
        whole = all(_is_whole(out / "results" / name, sha256) for name, sha256 in record["results"].items())
        whole = whole and all(hash_file(out / name) == sha256 for name, sha256 in record["beside"].items())
    except (OSError, DamagedError, InputError, ResultError, LookupError, AttributeError):
        return None
    return page if whole else None


def record_report(out: Path, key: str, results: Sequence[Path]) -> None:
    """Write down what the page in `out` was made from; where that cannot be written, the next report looks again."""
    with suppress(OSError, WriteError):
        heads = {folder.relative_to(out / "results").as_posix(): hash_file(folder / HEAD) for folder in results}
        beside = {f"{FIGURES}/{path.name}": hash_file(path) for path in sorted((out / FIGURES).glob("*.svg"))}
        page = hash_file(out / "index.html")
        write_json(out / RECORD, {"inputs": key, "page": page, "results": heads, "beside": beside})


def _is_whole(folder: Path, sha256: str) -> bool:
    return hash_file(folder / HEAD) == sha256 and not changed_files(folder, read_head(folder).get("hashes", {}))


def _model_files(model: Any) -> dict[str, str] | None:
    """Path -> sha256 of every file that a model given by name may be loaded from; None where that is not known."""
    if not isinstance(model, str | Path):
        return None
    card = assets.cards().get(str(model))
    source = assets.local_folder(card.name) if card is not None and card.kind == "model" else Path(model)
    if source is None or not source.exists() or (source / "adapter_config.json").exists():
        return None
    return {path.relative_to(source).as_posix(): sha256_of(path) for path in _files(source)}


def _files(source: Path) -> Iterator[Path]:
    return (path for path in sorted(source.rglob("*")) if path.is_file()) if source.is_dir() else iter([source])


def _source_files() -> str:
    """One hash of lamina's own source: readers, analyses, charts and the page's template."""
    root = Path(str(files("lamina")))
    digest = hashlib.sha256()
    for path in _files(root):
        if "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root)} {hash_file(path)}\n".encode())
    return digest.hexdigest()

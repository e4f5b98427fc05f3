"""Results that travel: one checked file without code, and what is sent to the hub once a user has seen it."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lamina.errors import InputError, LaminaError, ResultError
from lamina.files.checking import hash_file
from lamina.files.reading import read_regular
from lamina.files.writing import fresh_folder, fresh_path
from lamina.results import Result
from lamina.results.folder import HEAD

BUNDLE_FORMAT = 1
MANIFEST = "bundle.json"
SUFFIX = ".lamina"
_SUFFIXES = (".json", ".csv", ".parquet", ".svg", ".safetensors", ".txt", ".md", ".toml", ".html", ".js", ".yaml")
"""Of files in a bundle: data and pictures, nothing that is run when it is read. Pages and scripts belong to studies."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 ._=+@-]*")
_MOST_BYTES = 8 * 2**30
_MOST_FILES = 20_000
_PACKED = 300
"""What a file may unpack to, as a multiple of its packed size: tables of one value pack well, bombs better."""
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
Kind = Literal["result", "probe", "study"]


def kind_of(folder: Path) -> Kind:
    """What a folder holds: a result, a saved probe or a study.

    Example:
        >>> kind_of(Path("nowhere"))
        Traceback (most recent call last):
        ...
        lamina.errors.ResultError: nowhere is no result, saved probe or study: it has no result.json, ...
    """
    from lamina.probes.text_probe import WEIGHTS
    from lamina.studies.plan import RECORD

    for name, kind in ((HEAD, "result"), (WEIGHTS, "probe"), (RECORD, "study")):
        if (folder / name).is_file():
            return kind  # type: ignore[return-value]
    raise ResultError(
        f"{folder} is no result, saved probe or study: it has no {HEAD}, {WEIGHTS} or {RECORD}; name one of their "
        "folders"
    )


def bundle(folder: Path, out: Path | None = None) -> Path:
    """Pack a result into one file; its tables, files and charts are compared with their hashes first.

    The same result gives the same bytes.

    Example:
        >>> bundle(Path("results/probe"))  # doctest: +SKIP
        PosixPath('probe.lamina')
    """
    result = Result.load(folder)
    path = out or Path(f"{folder.resolve().name}{SUFFIX}")
    if path.is_dir():
        raise ResultError(f"{path} is a folder; name a file")
    about = {"analysis": result.analysis, "key": result.key, "command": result.provenance.command}
    return pack(files_of(folder), path, about)


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a folder by name, without hidden ones and links."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    hidden = re.compile(r"(^|/)\.")
    return {name: path for name, path in paths.items() if not hidden.search(name) and not path.is_symlink()}


def pack(files: Mapping[str, Path], out: Path, about: Mapping[str, Any]) -> Path:
    """Write a bundle of these files."""
    odd = [name for name in files if not _is_plain(name)]
    if odd:
        raise ResultError(f"{odd[0]} cannot be in a bundle; a bundle has {', '.join(_SUFFIXES)} with plain names")
    listed = {name: {"sha256": hash_file(path), "size": path.stat().st_size} for name, path in files.items()}
    manifest = {"format": BUNDLE_FORMAT, **about, "files": listed}
    out.parent.mkdir(parents=True, exist_ok=True)
    with fresh_path(out) as fresh, zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry(MANIFEST), json.dumps(manifest, indent=1, sort_keys=True))
        for name, path in files.items():
            with archive.open(_entry(name), "w") as target, path.open("rb") as source:
                while chunk := source.read(2**20):
                    target.write(chunk)
    return out


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return (
        1 <= len(parts) <= 6
        and all(_NAME.fullmatch(part) and not part.endswith(".") for part in parts)
        and name.endswith(_SUFFIXES)
    )


def open_bundle(path: Path, out: Path | None = None) -> Path:
    """Unpack a bundle into a folder, checked: names, sizes, hashes; nothing in it is run.

    Example:
        >>> open_bundle(Path("probe.lamina"))  # doctest: +SKIP
        PosixPath('results/probe')
    """
    target = out or Path("results") / path.name.removesuffix(SUFFIX)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ResultError(f"{target} is there already; name another folder with --out")
    if not path.is_file():
        raise InputError(f"there is no bundle {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            listed = _checked(archive, path)
            with fresh_folder(target) as fresh:
                for name, about in listed.items():
                    _unpack(archive, name, about, fresh / name, path)
                if (fresh / HEAD).is_file():
                    Result.load(fresh)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, RuntimeError) as error:
        if isinstance(error, LaminaError):
            raise
        raise InputError(f"{path} is not a bundle, or is damaged ({error}); get it again") from error
    return target


def _checked(archive: zipfile.ZipFile, path: Path) -> dict[str, dict[str, Any]]:
    """The files that a bundle lists, if it holds these and nothing else."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(entries) > _MOST_FILES or len(set(names)) < len(names) or MANIFEST not in names:
        raise InputError(f"{path} is not a bundle: it has no {MANIFEST}, a name twice, or too many files")
    for entry in entries:
        link = (entry.external_attr >> 16) & 0o170000 not in (0, 0o100000)
        large = entry.file_size > max(2**20, _PACKED * entry.compress_size)
        if not _is_plain(entry.filename) or link or entry.flag_bits & 1:
            raise InputError(f"{path} holds {entry.filename!r}, which no bundle has; it is not opened")
        if large:
            raise InputError(f"{path}: {entry.filename} unpacks to {entry.file_size:,} bytes; it is not opened")
    if sum(entry.file_size for entry in entries) > _MOST_BYTES:
        raise InputError(f"{path} unpacks to more than {_MOST_BYTES >> 30} GB; it is not opened")
    try:
        manifest = json.loads(archive.read(MANIFEST))
        version, listed = manifest["format"], manifest["files"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: its {MANIFEST} cannot be read ({error})") from None
    if not isinstance(version, int) or version > BUNDLE_FORMAT:
        raise InputError(f"{path} has format {version}, and this lamina reads up to {BUNDLE_FORMAT}; update lamina")
    if not isinstance(listed, dict) or set(listed) != set(names) - {MANIFEST}:
        raise InputError(f"{path} does not hold the files that its {MANIFEST} lists")
    return listed


def _unpack(archive: zipfile.ZipFile, name: str, about: Any, target: Path, path: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with archive.open(name) as source, target.open("wb") as written:
        while chunk := source.read(2**20):
            digest.update(chunk)
            size += len(chunk)
            written.write(chunk)
    if not isinstance(about, dict) or digest.hexdigest() != about.get("sha256") or size != about.get("size"):
        raise InputError(f"{path}: {name} is not what its {MANIFEST} says; get the bundle again")


# The hub: what would be sent is shown first.


@dataclass(frozen=True)
class Shipment:
    """What would be sent to a repository of the hub."""

    repo: str
    """OWNER/NAME."""
    repo_type: Literal["model", "dataset"]
    files: Mapping[str, Path | str]
    """Path in the repository -> a file, or its text."""
    pull_request: bool = False

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(part.encode()) if isinstance(part, str) else part.stat().st_size for part in self.files.values())

    def __str__(self) -> str:
        where = f"{self.repo} ({self.repo_type}{', as a pull request' if self.pull_request else ''})"
        lines = [f"to {where}: {len(self.files)} files, {self.size / 1e6:,.1f} MB"]
        for name, part in self.files.items():
            size = len(part.encode()) if isinstance(part, str) else part.stat().st_size
            lines.append(f"  {name:<60} {size:>12,}")
        return "\n".join(lines)


def shipment_of(folder: Path, repo: str, *, eval_results: str | None = None) -> Shipment:
    """What is sent of a result, a saved probe or a study, with a card made from its provenance.

    Args:
        folder: of the result, the probe or the study.
        repo: hf:OWNER/NAME.
        eval_results: a dataset of the hub; then only `.eval_results/` is sent, to the model's own repository.
    """
    name = repo.removeprefix("hf:")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(f"{repo!r} names no repository; write hf:OWNER/NAME")
    if eval_results is not None:
        result = Result.load(folder)
        path = f".eval_results/lamina-{result.analysis}-{result.key[:8]}.yaml"
        return Shipment(name, "model", {path: eval_results_yaml(result, eval_results)}, pull_request=True)
    kind = kind_of(folder)
    files: dict[str, Path | str] = {name: path for name, path in files_of(folder).items() if _is_plain(name)}
    if kind == "probe":
        return Shipment(name, "model", files)
    files["README.md"] = result_card(Result.load(folder)) if kind == "result" else study_card(folder)
    return Shipment(name, "dataset", files)


def send(shipment: Shipment) -> str:
    """Send it; the token is that of `hf auth login` or HF_TOKEN. Returns the address of the commit."""
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

    api = HfApi()
    operations = [
        CommitOperationAdd(name, part.encode() if isinstance(part, str) else str(part))
        for name, part in shipment.files.items()
    ]
    try:
        if not shipment.pull_request:
            api.create_repo(shipment.repo, repo_type=shipment.repo_type, private=True, exist_ok=True)
        commit = api.create_commit(
            shipment.repo,
            operations,
            commit_message="Add results of lamina",
            repo_type=shipment.repo_type,
            create_pr=shipment.pull_request,
        )
    except (HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled, OSError, ValueError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ResultError(
            f"{shipment.repo} took nothing: {first}; check `hf auth login`, HF_TOKEN and the name"
        ) from error
    return str(commit.commit_url)


def result_card(result: Result) -> str:
    """The card of a result: findings, what was asked of what, and how to make it again."""
    about = result.provenance
    lines = [
        *_front(["lamina", "probing", result.analysis]),
        f"# {result.analysis}: {about.model.get('name')} on {about.corpus.get('name')}",
        "",
        "Made with lamina. Numbers are in the tables (CSV or Parquet), charts in `.svg` and `.vl.json`.",
        "",
        "## Findings",
        "",
        *(f"- {finding.status}: {finding.text}" for finding in result.findings),
        *([] if result.findings else ["None was tested."]),
        "",
        "## How it was made",
        "",
        f"- command: `{about.command}`",
        f"- model: {about.model.get('name')}, fingerprint `{about.model.get('fingerprint')}`",
        f"- data: {about.corpus.get('name')} ({about.corpus.get('split')}), fingerprint "
        f"`{about.corpus.get('fingerprint')}`",
        f"- settings: `{json.dumps(dict(about.parameters), default=str)}`",
        f"- seeds: {', '.join(map(str, about.seeds)) or 'none'}",
        f"- versions: {', '.join(f'{name} {version}' for name, version in about.versions.items())}",
        f"- key of the answer: `{result.key}`",
        *(f"- left out: {count:,} {reason}" for reason, count in about.skipped.items()),
        *(f"- note: {warning}" for warning in about.warnings),
    ]
    licence = about.corpus.get("licence") or about.corpus.get("license")
    if licence:
        lines.append(f"- licence of the data: {licence}")
    return "\n".join(lines) + "\n"


def study_card(folder: Path) -> str:
    """The card of a study: its file, its cells and how to run it again."""
    from lamina.studies.plan import RECORD
    from lamina.studies.table import read_cells

    about = json.loads(read_regular(folder / RECORD))
    table = read_cells(folder)
    lines = [
        *_front(["lamina", "probing", "study"]),
        f"# {about['title']}",
        "",
        f"A study made with lamina: {table['model'].nunique()} models, {table['corpus'].nunique()} corpora, "
        f"{table['analysis'].nunique()} analyses, {len(table):,} numbers in `cells.parquet`. `index.html` shows them.",
        "",
        "Run it again with `lamina study run study.toml`.",
    ]
    return "\n".join(lines) + "\n"


def _front(tags: list[str]) -> Iterator[str]:
    yield from ("---", "tags:", *(f"- {tag}" for tag in tags), "---", "")


def eval_results_yaml(result: Result, dataset: str) -> str:
    """The numbers of a result as `.eval_results` of a model page: one entry per task, its score on this dataset.

    Args:
        result: of a model.
        dataset: of the hub, OWNER/NAME; a model page takes numbers on benchmarks of the hub only.
    """
    from huggingface_hub import EvalResultEntry
    from huggingface_hub._eval_results import eval_result_entries_to_yaml

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", dataset):
        raise InputError(f"{dataset!r} is no dataset of the hub; write OWNER/NAME")
    entries = [
        EvalResultEntry(
            dataset_id=dataset,
            task_id=task,
            value=value,
            date=result.provenance.created[:10],
            notes=f"lamina {result.analysis} (version {result.version}): {measure}, 95 % interval {low:.4g} to "
            f"{high:.4g}; {result.provenance.corpus.get('name')} ({result.provenance.corpus.get('split')}); "
            f"key {result.key[:16]}",
        )
        for task, measure, value, low, high in _scores(result)
    ]
    if not entries:
        raise InputError(f"a result of {result.analysis} has no scores by task for a model page")
    # JSON is YAML.
    return json.dumps(eval_result_entries_to_yaml(entries), indent=2, ensure_ascii=False) + "\n"


def _scores(result: Result) -> Iterator[tuple[str, str, float, float, float]]:
    """Task, measure, value and interval: of probes, the score of the probe that mixes all layers."""
    from lamina.studies.plan import StudyCell
    from lamina.studies.table import rows_of_result

    cell = StudyCell("", result.analysis, str(result.provenance.model.get("name")), "", None, "", "", {})
    table = rows_of_result(cell, result, 0.0)
    table = table[~table["measure"].str.contains("untrained twin|control labels|expected layer|center of", regex=True)]
    for (task, measure), rows in table.groupby(["task", "measure"], sort=False):
        last = rows.sort_values("layer").iloc[-1]
        if "single layer" not in str(measure):
            yield str(task) or str(measure), str(measure), float(last["value"]), float(last["low"]), float(last["high"])

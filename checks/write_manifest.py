"""Write the manifest of an origin from a clone of its repository, when adding a recipe.

    python -m checks.write_manifest NAME CLONE OWNER/NAME PATTERN... [--commit COMMIT] [--archive] [--unknown N]

Writes `manifests/NAME.txt`: the files of the commit (HEAD by default) that match a pattern, with their blob ids.
`--archive` is for hundreds of files: they are fetched as the commit's archive. `--unknown` gives the bytes of files
that a partial clone lists but does not have.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from lamina.errors import AssetError

FOLDER = Path(__file__).parents[1] / "src/lamina/assets/manifests"


class _TreeFile(NamedTuple):
    blob: str
    size: int | None
    path: str


def manifest_of(clone: Path, repo: str, patterns: Sequence[str], commit: str, *, archive: bool, unknown: int) -> str:
    """The text of a manifest."""
    commit = _git(clone, "rev-parse", f"{commit}^{{commit}}").strip()
    listed = [
        _listed(line) for line in _git(clone, "ls-tree", "-r", "-l", "-z", commit).split("\0") if " blob " in line
    ]
    taken = [file for file in listed if any(fnmatchcase(file.path, pattern) for pattern in patterns)]
    for pattern in patterns:
        if not any(fnmatchcase(file.path, pattern) for file in taken):
            raise AssetError(f"{clone} has no file {pattern} at {commit}")
    lines = [
        f"# repository: {repo}",
        f"# commit: {commit}",
        f"# bytes: {sum(file.size or 0 for file in taken) + unknown}",
        f"# archive: {sum(file.size or 0 for file in listed) + unknown if archive else 0}",
        *(f"{file.blob} {file.path}" for file in taken),
    ]
    return "\n".join(lines) + "\n"


def _listed(line: str) -> _TreeFile:
    about, _, path = line.partition("\t")
    _mode, _kind, blob, size = about.split()
    return _TreeFile(blob, int(size) if size.isdecimal() else None, path)


def _git(clone: Path, *arguments: str) -> str:
    command = ["git", "-c", f"safe.directory={clone}", "-C", str(clone), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("clone", type=Path)
    parser.add_argument("repo", metavar="OWNER/NAME")
    parser.add_argument("patterns", nargs="+", metavar="PATTERN")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--archive", action="store_true")
    parser.add_argument("--unknown", type=int, default=0)
    options = parser.parse_args()
    text = manifest_of(
        options.clone, options.repo, options.patterns, options.commit, archive=options.archive, unknown=options.unknown
    )
    target = FOLDER / f"{options.name}.txt"
    target.write_text(text, encoding="utf-8", newline="\n")
    print(f"{target}: {sum(not line.startswith('#') for line in text.splitlines())} files")


if __name__ == "__main__":
    main()

"""Parallel sentences: a table with a sentence and its translation in each row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.reading import Fault, raise_fault
from lamina.corpora.suites.files import hashes_of, suite_root, table_files, table_rows
from lamina.corpora.tokenising import words_in
from lamina.errors import CorpusError
from lamina.types import Text

_EXPECTED = "two columns, a sentence and its translation (source and target, or the names of two languages)"
_LEAST = 10


class ParallelTexts(NamedTuple):
    """Sentences and their translations, in the order of the file."""

    name: str
    fingerprint: str
    sources: tuple[Text, ...]
    targets: tuple[Text, ...]
    languages: tuple[str, str]
    """The names of the columns."""
    files: Mapping[str, str]
    left_out: Mapping[str, int]

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        about = {"name": self.name, "fingerprint": self.fingerprint, "split": "", "files": dict(self.files)}
        return about | {"pairs": len(self.sources), "languages": " and ".join(self.languages)}


def read_parallel(path: str | Path) -> ParallelTexts:
    """The pairs of a TSV, CSV or JSONL; a sentence that occurs twice on either side is left out and counted.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.tsv"
        >>> rows = [f"sentence {n}.\\tSatz {n}." for n in range(10)]
        >>> _ = path.write_text("\\n".join(["en\\tde", *rows]))
        >>> texts = read_parallel(path)
        >>> texts.languages, len(texts.sources), texts.targets[0].words
        (('en', 'de'), 10, ('Satz', '0', '.'))
    """
    root = suite_root(path)
    pairs: dict[str, str] = {}
    seen: set[str] = set()
    languages: tuple[str, str] | None = None
    repeated = 0
    files = table_files(root)
    for file in files:
        for row in table_rows(file, _EXPECTED):
            names = [str(name) for name in row.values]
            chosen = ("source", "target") if {"source", "target"} <= set(names) else tuple(names)
            if len(chosen) != 2:
                raise_fault(Fault(file, row.number, f"{len(names)} columns ({', '.join(names)[:80]})", _EXPECTED))
            source, target = (str(row.values[name] or "").strip() for name in chosen)
            if not source or not target:
                raise_fault(Fault(file, row.number, "an empty sentence", _EXPECTED))
            if source in pairs or target in seen:
                repeated += 1
                continue
            languages = languages or (chosen[0], chosen[1])
            pairs[source] = target
            seen.add(target)
    if languages is None or len(pairs) < _LEAST:
        raise CorpusError(f"{path} has {len(pairs)} pairs of different sentences; retrieval needs at least {_LEAST}")
    hashes = hashes_of(root, files)
    sides = (
        tuple(
            Text(f"{number} {side}", words_in(sentence), doc=str(number)) for number, sentence in enumerate(sentences)
        )
        for side, sentences in zip(languages, (pairs.keys(), pairs.values()), strict=True)
    )
    counted = {"pairs with a sentence that occurs before": repeated} if repeated else {}
    return ParallelTexts(
        Path(path).name, fingerprint_of("parallel 1", hashes), next(sides), next(sides), languages, hashes, counted
    )

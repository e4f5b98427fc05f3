"""Which split a file belongs to, and how missing splits are made."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.corpus import Corpus, fingerprint_of, origins
from lamina.corpora.reading import read_list
from lamina.errors import CorpusError
from lamina.types import Text

SPLITS = ("train", "dev", "test")

_WORDS = {
    "train": "train",
    "training": "train",
    "trainset": "train",
    "trn": "train",
    "dev": "dev",
    "devel": "dev",
    "devset": "dev",
    "development": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "testa": "dev",
    "test": "test",
    "testing": "test",
    "testset": "test",
    "tst": "test",
    "testb": "test",
}
"""Words in file names -> split; testa and testb are CoNLL-2003's."""

Files = Mapping[str | None, tuple[Path, ...]]
"""Split -> its files, in reading order; None holds the files without a split in their name."""


def split_of(name: str) -> str | None:
    """The split in a file or folder name, if any.

    Example:
        >>> [split_of(name) for name in ("en_ewt-ud-dev.conllu", "TRAIN_FILE.TXT", "eng.testa", "novel.txt")]
        ['dev', 'train', 'dev', None]
        >>> split_of("GermanTestSet.tsv")
        'test'
    """
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
    splits = [_WORDS[word] for word in words if word in _WORDS]
    return splits[0] if splits else None


def files_by_split(root: Path, files: Iterable[Path]) -> Files:
    """Sort the files of a folder into splits, by lists in `splits/`, by file names or by folder names."""
    listed = _listed_documents(root)
    by_split: dict[str | None, list[Path]] = {}
    for path in files:
        if listed:
            split = listed.get(path.stem)
        else:
            # The innermost name that contains a split decides; the root's name is the corpus's name.
            inner = [path.name, *(part for part in reversed(path.relative_to(root).parent.parts))]
            split = next((candidate for candidate in map(split_of, inner) if candidate), None)
        by_split.setdefault(split, []).append(path)
    if "train" not in by_split and len(by_split.get("dev", [])) > 1:
        # As in GAP: if there is a validation set, the development set is meant for training.
        given = by_split["dev"]
        by_split["train"] = [path for path in given if "development" in path.name.lower()]
        by_split["dev"] = [path for path in given if "development" not in path.name.lower()]
    return {split: tuple(paths) for split, paths in by_split.items() if paths}


def lists_documents(root: Path, path: Path) -> bool:
    """Whether a file of a folder lists the documents of a split.

    Example:
        >>> lists_documents(Path("gum"), Path("gum/splits/dev.txt")), lists_documents(Path("gum"), Path("gum/dev.txt"))
        (True, False)
    """
    return path.parent == root / "splits" and path.suffix == ".txt" and path.stem in SPLITS


def _listed_documents(root: Path) -> dict[str, str]:
    """Document -> split, from `splits/{train,dev,test}.txt`, one document per line."""
    listed = {}
    for split in SPLITS:
        path = root / "splits" / f"{split}.txt"
        if path.is_file():
            listed.update(dict.fromkeys(read_list(path), split))
    return listed


class SplitPart(NamedTuple):
    """Where a split comes from: some of the given files, complete or in part."""

    sources: tuple[str | None, ...]
    """The given splits whose files are read."""
    note: str | None = None
    """How the split was made; None if it is given. Part of the fingerprint."""
    keep: Callable[[str], bool] | None = None
    """Whether a document belongs to it; None means all of them."""

    def holds(self, text: Text) -> bool:
        """Whether a text of the sources belongs to it; a text without a document is its own."""
        return self.keep is None or self.keep(text.doc or text.id)


def part(given: Collection[str | None], split: str, seed: int) -> SplitPart:
    """How to get `split` from the given ones.

    Given splits stay whole, except train: a missing dev or test is taken from train, by document, and train is the
    rest, so that the three never share a text. Files without a split in their name are treated like train.

    Example:
        >>> part({"train", "test"}, "dev", seed=0).note
        'dev is 15 % of the documents of the given train, by hash with seed 0'
        >>> part({"train", "dev", "test"}, "dev", seed=0)
        SplitPart(sources=('dev',), note=None, keep=None)
    """
    named = [name for name in SPLITS if name in given]
    if split == "all":
        return SplitPart((*named, *([None] if None in given else [])))
    if split not in SPLITS:
        raise CorpusError(f"unknown split {split!r}; use train, dev, test or all")
    if named and "train" not in named and split not in named:
        raise CorpusError(
            f"there is no {split} here, only {' and '.join(named)}; ask for --split {named[0]} or --split all, or for "
            f"train, dev and test by document with --split-from {named[0]}"
        )
    missing = [name for name in ("dev", "test") if name not in named]
    if split in named and (split != "train" or not missing):
        # Never leave anything out silently.
        return SplitPart((split,), "files that say no split are left out" if None in given else None)
    return _cut("train" if named else None, split, missing, seed)


def divided_part(given: Collection[str | None], split_from: str, split: str, seed: int) -> SplitPart:
    """A split that is made of another one, on request: 80 % of its documents are train, 10 % dev and 10 % test.

    Example:
        >>> divided_part({"dev"}, "dev", "test", seed=0).note
        'test is 10 % of the documents of the given dev, by hash with seed 0'
    """
    named = [name for name in SPLITS if name in given]
    if split_from not in named:
        has = f"it has {' and '.join(named)}" if named else "its files name no split, and are divided anyway"
        raise CorpusError(f"--split-from {str(split_from)[:60]!r} is no split of the data: {has}")
    if split == "all":
        return SplitPart((split_from,))
    if split not in SPLITS:
        raise CorpusError(f"unknown split {split!r}; use train, dev, test or all")
    return _cut(split_from, split, ["dev", "test"], seed)


def whole_part(given: Collection[str | None], split: str) -> SplitPart:
    """A split of a corpus that has all its splits; an error for any other.

    Example:
        >>> whole_part({"train", "dev"}, "dev").sources
        ('dev',)
    """
    named = tuple(name for name in SPLITS if name in given)
    if split == "all":
        return SplitPart(named)
    if split not in named:
        raise CorpusError(f"there is no {split} here, only {' and '.join(named)}; ask for --split {named[-1]}")
    return SplitPart((split,))


def _cut(pool: str | None, split: str, missing: list[str], seed: int) -> SplitPart:
    share = 15 if len(missing) == 1 else 10
    if split == "train":
        low, high = share * len(missing), 100
    else:
        low = share * missing.index(split)
        high = low + share
    whole = f"the given {pool}" if pool else "the corpus"

    def keep(document: str) -> bool:
        return low <= _place(document, seed) < high

    return SplitPart((pool,), f"{split} is {high - low} % of the documents of {whole}, by hash with seed {seed}", keep)


def exact_part(documents: Collection[str], sizes: Mapping[str, int], split: str, seed: int) -> SplitPart:
    """How to get a split of an exact number of documents, in hash order.

    Example:
        >>> sizes = {"train": 2, "dev": 1, "test": 1}
        >>> part = exact_part(["a", "b", "c", "d"], sizes, "test", seed=0)
        >>> part.note, sum(map(part.keep, "abcd"))
        ('test is 1 of the 4 documents of the corpus, by hash with seed 0', 1)
    """
    if split not in SPLITS:
        raise CorpusError(f"unknown split {split!r}; use train, dev, test or all")
    ranked = sorted(set(documents), key=lambda document: (_place(document, seed), document))
    if len(ranked) != sum(sizes.values()):
        raise CorpusError(f"{len(ranked)} documents, not {sum(sizes.values())}: a different file; give its path")
    start = sum(sizes[before] for before in SPLITS[: SPLITS.index(split)])
    chosen = frozenset(ranked[start : start + sizes[split]])
    note = f"{split} is {len(chosen)} of the {len(ranked)} documents of the corpus, by hash with seed {seed}"
    return SplitPart((None,), note, chosen.__contains__)


def _place(document: str, seed: int) -> float:
    """Position of a document between 0 and 100: the same on every machine, whatever else the corpus holds."""
    digest = hashlib.sha256(f"{seed}:{document}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * 100 / 2**64


# Three disjoint sets of texts: probes learn from one, stop by another and are scored on the third.

STOPPING_SHARE = 0.1
"""Share of the training documents used for early stopping."""


@dataclass(frozen=True)
class Splits:
    """Training and scored texts of one corpus."""

    train: Corpus
    scored: Corpus

    @property
    def name(self) -> str:
        """The name of the corpus."""
        return self.scored.name

    @property
    def fingerprint(self) -> str:
        """Changes when either set changes."""
        return fingerprint_of(self.train.fingerprint, self.scored.fingerprint)

    def left_out(self) -> dict[str, int]:
        """What readers left out or changed in either set -> in how many texts; see `Corpus.left_out`."""
        named = (("training", self.train), ("scored", self.scored))
        return {f"{name}: {what}": count for name, corpus in named for what, count in corpus.left_out().items()}

    def describe(self) -> dict[str, Any]:
        """The entry in provenance: the scored texts and the training texts."""
        return self.scored.describe() | {"fingerprint": self.fingerprint, "train": self.train.describe()}


def split_by_document(corpus: Corpus, scored: str = "dev", *, seed: int = 0) -> Splits:
    """A corpus without splits, split by document into texts to learn from and texts to score; both record how.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> splits = split_by_document(corpus_from([["Dogs", "bark"]] * 40, name="pets"))
        >>> len(splits.train) + len(splits.scored) <= 40, splits.scored.made_split
        (True, 'dev is 10 % of the documents of the corpus, by hash with seed 0')
    """
    if scored not in ("dev", "test"):
        raise CorpusError(f"the scored split must be dev or test; got {scored!r}")

    def cut(split: str) -> Corpus:
        chosen = part({None}, split, seed)
        fingerprint = fingerprint_of("split", corpus.fingerprint, chosen.note)
        portion = replace(
            corpus,
            split=split,
            fingerprint=fingerprint,
            source=lambda: filter(chosen.holds, iter(corpus)),
            made_split=chosen.note,
        )
        if not len(portion):
            raise CorpusError(f"{corpus.name} is too small to be cut into train and {scored}: {split} would be empty")
        return portion

    return Splits(cut("train"), cut(scored))


@dataclass(frozen=True)
class Division:
    """The training texts by number: which are learned from, which are used for early stopping."""

    learn: tuple[int, ...]
    stop: tuple[int, ...]
    left_out: int
    """Texts that are also in the scored split, in whatever view, or are about a passage of it; not learned from."""


def thin(corpus: Corpus, texts: int | None, seed: int) -> Corpus:
    """About `texts` texts, as whole documents drawn in hash order; all of them if None or if there are no more.

    The drawn texts are held in memory: they are few by definition, and every task reads them several times.
    """
    if texts is None:
        return corpus
    sizes = Counter(_document(text) for text in corpus)
    if texts >= sizes.total():
        return corpus
    documents: set[str] = set()
    taken = 0
    for document in sorted(sizes, key=lambda name: _share(seed + 1, name)):
        if taken >= texts:
            break
        documents.add(document)
        taken += sizes[document]
    drawn = tuple(text for text in corpus if _document(text) in documents)
    note = f"about {texts:,} texts, documents drawn by hash with seed {seed}"
    made_split = note if corpus.made_split is None else f"{corpus.made_split}; {note}"
    fingerprint = fingerprint_of("thin", corpus.fingerprint, texts, seed)
    return replace(corpus, source=lambda: iter(drawn), fingerprint=fingerprint, made_split=made_split)


def divide(splits: Splits, *, seed: int, most_stop: int | None = None) -> Division:
    """Split the training texts by document; at most `most_stop` texts are used for early stopping.

    A hash of its name decides the side of a document, so that the split does not depend on what else is read. If
    there are so few documents that none falls on the stopping side, the nearest one is moved there.
    """
    scored = {origin for text in splits.scored for origin in origins(text)}
    usable = [(number, _document(text)) for number, text in enumerate(splits.train) if scored.isdisjoint(origins(text))]
    shares = {document: _share(seed, document) for _, document in usable}
    stopping = max(STOPPING_SHARE, min(shares.values(), default=0.0))
    stop = [number for number, document in usable if shares[document] <= stopping]
    learn = [number for number, document in usable if shares[document] > stopping]
    if not learn or not stop:
        raise CorpusError(
            f"{splits.name}: {len(usable)} training texts cannot be split by document into texts to learn "
            "from and texts for early stopping; give more documents"
        )
    return Division(tuple(learn), tuple(stop[:most_stop]), len(splits.train) - len(usable))


def _document(text: Text) -> str:
    """The unit that is never split: the document, or the text itself if its document is unknown."""
    return text.doc or text.id


def _share(seed: int, name: str) -> float:
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") / 2**64

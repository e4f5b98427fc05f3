"""Three disjoint sets of texts: probes learn from one, stop by another and are scored on the third."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from lamina.corpora.corpus import Corpus, fingerprint_of, origins
from lamina.corpora.splits import part
from lamina.errors import CorpusError
from lamina.types import Text

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
        return {f"{name}: {what}": count for name, each in named for what, count in each.left_out().items()}

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
        made = replace(
            corpus,
            split=split,
            fingerprint=fingerprint,
            source=lambda: filter(chosen.holds, iter(corpus)),
            made_split=chosen.note,
            limit=None,
        )
        if not len(made):
            raise CorpusError(f"{corpus.name} is too small to be cut into train and {scored}: {split} would be empty")
        return made

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
    held = tuple(text for text in corpus if _document(text) in documents)
    note = f"about {texts:,} texts, documents drawn by hash with seed {seed}"
    made = note if corpus.made_split is None else f"{corpus.made_split}; {note}"
    fingerprint = fingerprint_of("thin", corpus.fingerprint, texts, seed)
    return replace(corpus, source=lambda: iter(held), fingerprint=fingerprint, made_split=made, limit=None)


def divide(splits: Splits, *, seed: int, most_stop: int | None = None) -> Division:
    """Split the training texts by document; at most `most_stop` texts are used for early stopping.

    A hash of its name decides the side of a document, so that the split does not depend on what else is read. If
    there are so few documents that none falls on the stopping side, the nearest one is moved there.
    """
    scored = {origin for text in splits.scored for origin in origins(text)}
    kept = [(number, _document(text)) for number, text in enumerate(splits.train) if scored.isdisjoint(origins(text))]
    shares = {document: _share(seed, document) for _, document in kept}
    stopping = max(STOPPING_SHARE, min(shares.values(), default=0.0))
    stop = [number for number, document in kept if shares[document] <= stopping]
    learn = [number for number, document in kept if shares[document] > stopping]
    if not learn or not stop:
        raise CorpusError(
            f"{splits.name}: {len(kept)} training texts cannot be split by document into texts to learn "
            "from and texts for early stopping; give more documents"
        )
    return Division(tuple(learn), tuple(stop[:most_stop]), len(splits.train) - len(kept))


def _document(text: Text) -> str:
    """The unit that is never split: the document, or the text itself if its document is unknown."""
    return text.doc or text.id


def _share(seed: int, name: str) -> float:
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") / 2**64

"""What probes learn from, what decides when they stop, and what is scored: three sets of texts, disjoint."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lamina.activations import text_key
from lamina.corpora import Corpus, load_corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.loading import known_splits
from lamina.errors import CorpusError
from lamina.types import Text

STOPPING_SHARE = 0.1
"""Of the training documents, those that decide when to stop."""


@dataclass(frozen=True)
class Splits:
    """Training and scored texts of one corpus."""

    train: Corpus
    scored: Corpus

    @property
    def name(self) -> str:
        """The corpus."""
        return self.scored.name

    @property
    def fingerprint(self) -> str:
        """Changes with either."""
        return fingerprint_of(self.train.fingerprint, self.scored.fingerprint)

    def describe(self) -> dict[str, Any]:
        """What provenance says: the scored texts, and the training texts beside them."""
        return self.scored.describe() | {"fingerprint": self.fingerprint, "train": self.train.describe()}


def load_splits(
    corpus: str | Path,
    scored: str = "dev",
    *,
    unit: str = "sentence",
    format: str | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Splits:
    """The training texts of a corpus and the split to score; `limit` takes the first texts of each.

    Where a corpus has dev and test but no train, the one that is not scored stands in for it; its record says so.
    """
    if scored not in ("dev", "test"):
        raise CorpusError(f"what is scored is dev or test, never what is trained on; got {scored!r}")
    settings: dict[str, Any] = {"unit": unit, "format": format, "limit": limit, "seed": seed}
    given = known_splits(corpus, format)
    stand_in = {"dev": "test", "test": "dev"}[scored]
    if "train" in given or stand_in not in given:
        return Splits(load_corpus(corpus, "train", **settings), load_corpus(corpus, scored, **settings))
    train = load_corpus(corpus, stand_in, **settings)
    train = replace(train, split="train", made_split=f"there is no train: {stand_in}, not scored, stands in for it")
    return Splits(train, load_corpus(corpus, scored, **settings))


@dataclass(frozen=True)
class Division:
    """The training texts by number: which are learned from, which decide when to stop."""

    learn: tuple[int, ...]
    stop: tuple[int, ...]
    left_out: int
    """Texts that stand in the scored split too, word for word: not learned from."""


def thin(corpus: Corpus, texts: int | None, seed: int) -> Corpus:
    """About so many texts, in whole documents drawn in the order of a hash; all where None or no more are there.

    What is drawn is held in memory: it is few by definition, and every task reads it several times.
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
    """Cut the training texts by document; of those that decide when to stop, at most so many are taken.

    A document goes to one side by a hash of its name, so that the cut is the same whatever else is read. Where
    documents are so few that none falls on the stopping side, the one nearest to it goes there.
    """
    scored = {text_key(text) for text in splits.scored}
    kept = [(number, _document(text)) for number, text in enumerate(splits.train) if text_key(text) not in scored]
    shares = {document: _share(seed, document) for _, document in kept}
    stopping = max(STOPPING_SHARE, min(shares.values(), default=0.0))
    stop = [number for number, document in kept if shares[document] <= stopping]
    learn = [number for number, document in kept if shares[document] > stopping]
    if not learn or not stop:
        raise CorpusError(
            f"{splits.name}: {len(kept)} training texts cannot be cut by document into texts to learn "
            "from and texts that decide when to stop; give more documents"
        )
    return Division(tuple(learn), tuple(stop[:most_stop]), len(splits.train) - len(kept))


def _document(text: Text) -> str:
    """What is never cut: the document, or the text itself where none is known."""
    return text.doc or text.id


def _share(seed: int, name: str) -> float:
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") / 2**64

"""`lamina.neighbours`: what lies near a word, without context and at each layer in its contexts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from lamina.activations import extract
from lamina.activations.words import WordVectors
from lamina.analyses.contextualization.nearest import Neighbour, nearest
from lamina.analyses.contextualization.occurrences import Occurrences, read_words, sentences
from lamina.analyses.contextualization.sense_map import Example, best_examples, candidates, plane, separation
from lamina.corpora import Corpus
from lamina.encoders import SPECIAL, Encoder, load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.static import StaticEncoder
from lamina.errors import AssetError, InputError, ModelError
from lamina.progress import progress
from lamina.results import Provenance, Result
from lamina.types import Text

STATIC, INPUT, LAYER = "static", "input", "layer"
"""The spaces: word vectors, the model's input embeddings, one of its layers."""

_COLUMNS = ["space", "layer", "context", "text_id", "rank", "neighbour", "neighbour_text", "similarity"]


class _Near(NamedTuple):
    """A neighbour, before anyone looked up its sentence."""

    space: str
    layer: int | None
    context: int | None
    rank: int
    neighbour: str
    row: int | None
    """Among the words of the corpus; None where it has no context."""
    similarity: float


def neighbours(
    encoder: Encoder,
    corpus: Corpus,
    *,
    word: str | None = None,
    count: int = 10,
    vectors: str | None = "glove",
    annotation: str | None = None,
    most_contexts: int = 100,
    repeat: bool = False,
    seed: int = 0,
    root: str | os.PathLike[str] | None = None,
) -> Result:
    """The nearest neighbours of a word, and its contexts as a map, by layer.

    All neighbours are words of the corpus: lower-cased types in static space and among the model's input embeddings,
    single occurrences at a layer, a word being the mean of its pieces. Nearness is the cosine.

    Args:
        encoder: whose layers.
        corpus: where contexts and neighbours come from.
        word: which word, in any case; where none is named, the one whose classes lie farthest apart at the last layer.
        count: neighbours of each context.
        vectors: static vectors: an asset or a file; left out where the asset is not at hand.
        annotation: that has the classes; `sclass` or `supersense` by default, where the corpus has one of them.
        most_contexts: that are looked at, drawn with `seed`, those with a class first.
        repeat: list the nearest occurrences of all, the word's own among them, instead of each other word once.
        seed: of the draw of contexts and of shuffled classes.
        root: where activations are stored.
    """
    if min(count, most_contexts) < 1:
        raise InputError(f"count and most_contexts must be at least 1; got {count} and {most_contexts}")
    words = read_words(corpus, annotation)
    # What cannot be answered is said before the work, not after it.
    _ = candidates(words) if word is None else words.of(word)
    stored = extract(encoder, corpus, root=root)
    states = WordVectors(stored, words.lengths)
    examples = best_examples(words, states.layer(encoder.blocks)) if word is None else []
    chosen = examples[0].word if word is None else word.strip().lower()
    contexts = _draw(words, chosen, most_contexts, seed)
    skipped = Counter({"contexts beyond the most that are looked at": len(words.of(chosen)) - len(contexts)})
    skipped["words without a piece, replaced by the unknown token"] = stored.unknown
    skipped["texts longer than the model's limit, encoded in windows"] = stored.windowed
    near = list(_without_context(encoder, words, chosen, vectors, count, skipped))
    classes = [words.classes.get(int(at), "") for at in contexts]
    skipped["contexts without a class"] = classes.count("")
    group = np.arange(len(words.type_of)) if repeat else words.type_of
    mapped = _Mapped(classes, seed)
    with progress(f"neighbours in {encoder.name}", encoder.layers) as advance:
        for layer in range(encoder.layers):
            at_layer = states.layer(layer)
            near += _in_context(nearest(at_layer, contexts, group, count), words, layer)
            mapped.add(layer, at_layer[contexts].numpy())
            del at_layer  # two layers of a large corpus are one too many
            advance()
    tables = _tables(corpus, words, contexts, classes, near) | mapped.tables()
    if examples:
        tables["examples"] = pd.DataFrame(examples, columns=list(Example._fields))
    parameters = {
        "word": word,
        "count": count,
        "vectors": vectors,
        "annotation": annotation,
        "most_contexts": most_contexts,
        "repeat": repeat,
        "seed": seed,
    }
    told = corpus.describe() | {"word": chosen}
    return Result("neighbours", tables, Provenance(encoder.describe(), told, parameters, (seed,), dict(skipped)))


class _Mapped:
    """The sense map as layers come in."""

    def __init__(self, classes: Sequence[str], seed: int) -> None:
        self._classes, self._seed = classes, seed
        self._senses, self._apart, self._before = [], [], None

    def add(self, layer: int, vectors: np.ndarray) -> None:
        seen = plane(vectors, self._before)
        self._before = seen.points
        self._senses += [(layer, at, *point, self._classes[at]) for at, point in enumerate(seen.points.tolist())]
        self._apart.append((layer, *separation(vectors, self._classes, seed=self._seed), seen.explained))

    def tables(self) -> dict[str, pd.DataFrame]:
        return {
            "senses": pd.DataFrame(self._senses, columns=["layer", "context", "x", "y", "class"]),
            "separation": pd.DataFrame(self._apart, columns=["layer", "silhouette", "baseline", "high", "explained"]),
        }


def _draw(words: Occurrences, word: str, most: int, seed: int) -> np.ndarray:
    """At most so many contexts, in the order of the texts; those without a class only where there is room."""
    drawn = np.random.default_rng(seed).permutation(words.of(word)).tolist()
    return np.sort(sorted(drawn, key=lambda at: at not in words.classes)[:most])


def _without_context(
    encoder: Encoder, words: Occurrences, word: str, vectors: str | None, count: int, skipped: Counter[str]
) -> Iterator[_Near]:
    """Neighbours among word types, where a word is always the same vector."""
    static = None if vectors is None else _static(vectors, skipped)
    spaces: list[tuple[str, Encoder]] = [] if static is None else [(STATIC, static)]
    if isinstance(encoder, HuggingFaceEncoder):
        spaces.append((INPUT, encoder.lexical()))
    for space, each in spaces:
        known, rows = _types(each, words.types)
        skipped[f"words that {each.name} lacks, no neighbours there"] += len(words.types) - len(known)
        if word not in known:
            continue
        at = np.array([known.index(word)])
        for rank, (row, similarity) in enumerate(nearest(rows, at, np.arange(len(known)), count)[0], start=1):
            yield _Near(space, None, None, rank, known[row], None, similarity)


def _static(name: str, skipped: Counter[str]) -> Encoder | None:
    try:
        found = load_encoder(name)
    except AssetError:
        skipped[f"static vectors that are not at hand ({name})"] += 1
        return None
    if not isinstance(found, StaticEncoder):
        raise ModelError(f"{name} is a model, not static vectors; name an asset as glove, or a .txt, .vec or .bin file")
    return found


def _types(encoder: Encoder, types: Sequence[str]) -> tuple[list[str], torch.Tensor]:
    """Words that the encoder has a vector for, and the means of their pieces."""
    known, rows = [], []
    for each, word in zip(encoder.encode([Text(word, (word,)) for word in types]), types, strict=True):
        if not each.tokens.unknown and each.states is not None:
            known.append(word)
            rows.append(each.states[torch.from_numpy(each.tokens.words != SPECIAL), 0].float().mean(0))
    return known, torch.stack(rows) if rows else torch.empty(0, encoder.width)


def _in_context(found: Sequence[Sequence[Neighbour]], words: Occurrences, layer: int) -> Iterator[_Near]:
    for context, own in enumerate(found):
        for rank, (row, similarity) in enumerate(own, start=1):
            yield _Near(LAYER, layer, context, rank, words.types[words.type_of[row]], row, similarity)


def _tables(
    corpus: Corpus, words: Occurrences, contexts: np.ndarray, classes: Sequence[str], near: Sequence[_Near]
) -> dict[str, pd.DataFrame]:
    shown = sentences(corpus, words, [*contexts.tolist(), *(each.row for each in near if each.row is not None)])
    own = [shown[int(at)] for at in contexts]
    listed = [(at, *where, name) for at, (where, name) in enumerate(zip(own, classes, strict=True))]
    rows = []
    for each in near:
        text_id = "" if each.context is None else own[each.context][0]
        beside = "" if each.row is None else shown[each.row][1]
        where = (each.space, each.layer, each.context, text_id)
        rows.append((*where, each.rank, each.neighbour, beside, each.similarity))
    return {
        "neighbours": pd.DataFrame(rows, columns=_COLUMNS).astype({"layer": "Int64", "context": "Int64"}),
        "contexts": pd.DataFrame(listed, columns=["context", "text_id", "sentence", "class"]),
    }

"""`lamina.neighbours`: what lies near a word, without context and at each layer in its contexts."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lamina.activations import Runtime
from lamina.activations.reading import WordVectors
from lamina.analyses.contextualization.findings import neighbours_findings
from lamina.analyses.contextualization.occurrences import Occurrences, read_words, sentences
from lamina.analyses.contextualization.senses import Example, best_examples, candidates, plane, separation
from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator, time_call
from lamina.analyses.inputs import Texts
from lamina.analyses.settings import Annotation, Seed, Setting
from lamina.corpora import Corpus
from lamina.encoders import SPECIAL, Encoder, load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.static import StaticEncoder
from lamina.errors import AssetError, ModelError
from lamina.findings import Finding
from lamina.progress import progress
from lamina.results import Result
from lamina.types import Text

_AT_ONCE = 16_384
"""Vectors compared at once, to bound memory."""

_QUERIES = 32
"""Queries compared at once."""


class Neighbour(NamedTuple):
    """One vector near another."""

    row: int
    similarity: float


def nearest(
    vectors: Float[torch.Tensor, "row width"],
    queries: Int[np.ndarray, " query"],
    group: Int[np.ndarray, " row"],
    count: int,
) -> list[list[Neighbour]]:
    """For each row named by `queries`, its nearest neighbours, the nearest first.

    Of a group only the nearest row is a neighbour, and a query's own group has none; with one group per row, all are.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> nearest(vectors, np.array([0]), np.array([7, 7, 8, 8]), 5)
        [[Neighbour(row=2, similarity=0.6000000238418579)]]
    """
    _, numbered = np.unique(group, return_inverse=True)
    groups = torch.from_numpy(numbered).to(vectors.device)
    found = []
    for some in np.array_split(queries, max(1, -(-len(queries) // _QUERIES))):
        found += _nearest(vectors, torch.from_numpy(some).to(vectors.device), groups, count)
    return found


def _nearest(vectors: torch.Tensor, queries: torch.Tensor, groups: torch.Tensor, count: int) -> list[list[Neighbour]]:
    asked = _unit(vectors[queries])
    best = asked.new_full((len(asked), int(groups.max()) + 1), -torch.inf)
    for start in range(0, len(vectors), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        alike = asked @ _unit(vectors[part]).T
        best.scatter_reduce_(1, groups[part].expand(len(asked), -1), alike, "amax")
    best[torch.arange(len(asked), device=best.device), groups[queries]] = -torch.inf
    similarity, chosen = best.topk(min(count, best.shape[1]), dim=1)
    return [
        [_member(vectors, groups, query, group) for value, group in zip(values, own, strict=True) if value > -torch.inf]
        for query, values, own in zip(asked, similarity.tolist(), chosen.tolist(), strict=True)
    ]


def _member(vectors: torch.Tensor, groups: torch.Tensor, query: torch.Tensor, group: int) -> Neighbour:
    """The nearest row of a group: kept out of the pass over all rows, which needs no more than how near it is."""
    rows = torch.nonzero(groups == group).squeeze(1)
    alike = _unit(vectors[rows]) @ query
    at = int(alike.argmax())
    return Neighbour(int(rows[at]), float(alike[at]))


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)


STATIC, INPUT, LAYER = "static", "input", "layer"
"""The spaces: word vectors, the model's input embeddings, one of its layers."""

NEIGHBOURS = ("space", "layer", "context", "text_id", "rank", "neighbour", "neighbour_text", "similarity")
CONTEXTS = ("context", "text_id", "sentence", "class")
SENSES = ("layer", "context", "x", "y", "class")
SEPARATION = ("layer", "silhouette", "baseline", "high", "explained")
"""Columns of the tables."""
_TIMED_WORDS = 4000
"""Of the sample that one layer is timed on."""
_SHOWN = 3
"""Contexts in the terminal."""


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


@analysis(
    title="Neighbours and senses",
    question="What does each layer take a word for, in each of its contexts?",
    method=(
        "A word is the mean of its pieces. Its nearest words by cosine, all from this corpus, are listed without "
        "context (static vectors, the model's input embeddings) and at each layer in each context; its contexts are "
        "drawn by the first two principal components of each layer. Where no word is named, it is the one whose "
        "semantic classes (two or more, at least 5 contexts each) lie farthest apart at the last layer: chosen among "
        "many, it shows what is possible, not what is usual."
    ),
    reads=Texts(split="train"),
    version=1,
    tables={
        "neighbours": Table("One row per space, layer, context and neighbour.", NEIGHBOURS),
        "contexts": Table("One row per context of the word.", CONTEXTS),
        "senses": Table("One row per layer and context: where it lies among the others.", SENSES),
        "separation": Table("One row per layer: how far classes lie apart, also when they are shuffled.", SEPARATION),
        "examples": Table(
            "One row per word that could be shown, the chosen one first.", Example._fields, optional=True
        ),
    },
    chapter="words",
    takes=21,
    report={"count": 10},
    example="lamina neighbours minilm --word place --corpus ewt --split dev --out results/place",
)
def neighbours(
    encoder: Encoder,
    corpus: Corpus,
    *,
    word: Annotated[
        str | None, Setting("A word, in any case; by default the one whose classes lie farthest apart.")
    ] = None,
    count: Annotated[int, Setting("Neighbours of each context.", min=1)] = 10,
    vectors: Annotated[
        str | None, Setting("Static vectors to compare the model with: an asset or a file.", file=True)
    ] = "glove",
    annotation: Annotation = None,
    most_contexts: Annotated[
        int, Setting("Contexts of the word to look at; drawn at random, those with a class first.", min=1)
    ] = 100,
    repeat: Annotated[
        bool, Setting("List a word as often as it is near, the word itself too; by default each other word once.")
    ] = False,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """The nearest neighbours of a word, in static space and at each layer in its contexts; and a map of its senses.

    All neighbours are words of the corpus: lower-cased types in static space and among the model's input embeddings,
    single occurrences at a layer. Nearness is the cosine. Static vectors that are not at hand are left out.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt", "dev")  # doctest: +SKIP
        >>> neighbours(encoder, corpus, word="place").tables["contexts"].columns.tolist()  # doctest: +SKIP
        ['context', 'text_id', 'sentence', 'class']
    """
    words = read_words(corpus, annotation)
    # What cannot be answered is said before the work, not after it.
    _ = candidates(words) if word is None else words.of(word)
    stored = runtime.extract(encoder, corpus)
    states = WordVectors(stored, words.lengths)
    examples = best_examples(words, states.layer(encoder.blocks)) if word is None else []
    chosen = examples[0].word if word is None else word.strip().lower()
    contexts = _draw(words, chosen, most_contexts, seed)
    skipped = Counter({"contexts beyond the most that are looked at": len(words.of(chosen)) - len(contexts)})
    skipped[encoder.replaced] = stored.unknown
    skipped["texts longer than the model's limit, encoded in windows"] = stored.windowed
    near = list(_without_context(encoder, words, chosen, vectors, count, skipped))
    classes = [words.classes.get(int(at), "") for at in contexts]
    skipped["contexts without a class"] = classes.count("")
    group = _groups(words, repeat=repeat)
    mapped = _Mapped(classes, seed)
    with progress(f"neighbours in {encoder.name}", encoder.layers) as advance:
        for layer in range(encoder.layers):
            at_layer = states.layer(layer)
            near += _in_context(nearest(at_layer, contexts, group, count), words, layer)
            mapped.add(layer, at_layer[contexts].cpu().numpy())
            del at_layer  # two layers of a large corpus are one too many
            advance()
    tables = _tables(corpus, words, contexts, classes, near) | mapped.tables()
    if examples:
        tables["examples"] = pd.DataFrame(examples, columns=list(Example._fields))
    return Tables(tables, skipped, data={"word": chosen})


@neighbours.finds
def _findings(result: Result) -> Iterable[Finding]:
    return neighbours_findings(result)


@neighbours.costs
def _cost(
    estimator: Estimator,
    encoder: Encoder,
    corpus: Corpus,
    *,
    word: str | None,
    count: int,
    vectors: str | None,
    annotation: str | None,
    most_contexts: int,
    repeat: bool,
    **_: object,
) -> Cost:
    """Encoding, and one layer of a sample of the texts for each layer of all; parts that do not grow are done whole.

    A trial of the whole question would not do: a sample of the texts may lack the word.
    """
    start = time.perf_counter()
    words = read_words(corpus, annotation)
    found = max(map(len, candidates(words).values())) if word is None else len(words.of(word))
    # Once to read the words, once to find their sentences.
    reading = 2 * (time.perf_counter() - start)
    queries = min(found, most_contexts)
    layer = _layer_seconds(encoder, corpus, queries, count, repeat=repeat) * len(words.type_of)
    alike = np.random.default_rng(0).normal(size=(queries, encoder.width))
    apart = time_call(lambda: separation(alike, [str(at % 2) for at in range(queries)]))
    # The vectors do not matter here: one, as often as there are words.
    same = torch.ones(1, encoder.width).expand(len(words.type_of), -1)
    choosing = time_call(lambda: best_examples(words, same)) if word is None else 0.0
    alone = time_call(lambda: list(_without_context(encoder, words, words.types[0], vectors, count, Counter())))
    cost = estimator.encoding([corpus], [encoder])
    seconds = reading + choosing + alone + encoder.layers * (layer + apart)
    return cost + Cost(passes=0, seconds=seconds, memory=cost.memory + 3 * 4 * encoder.width * len(words.type_of))


def _layer_seconds(encoder: Encoder, corpus: Corpus, queries: int, count: int, *, repeat: bool) -> float:
    """Reading one layer and searching it, per word of the corpus."""
    texts = list(corpus)
    every = max(1, sum(len(text.words) for text in texts) // _TIMED_WORDS)
    sample = replace(
        corpus, source=lambda: iter(texts[::every]), limit=None, fingerprint=f"{corpus.fingerprint}/sample"
    )
    words = read_words(sample)
    with tempfile.TemporaryDirectory() as store:
        states = WordVectors(Runtime(Path(store)).extract(encoder, sample), words.lengths)
        asked = np.arange(queries) % len(words.type_of)

        def work() -> None:
            nearest(states.layer(0), asked, _groups(words, repeat=repeat), count)

        # Warm-up; not timed.
        work()
        return time_call(work) / len(words.type_of)


@neighbours.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Without context, then the first contexts at the last layer; the tables have the rest."""
    near, contexts = result.tables["neighbours"], result.tables["contexts"]
    rows = []
    for space, own in near[near["space"] != LAYER].groupby("space", sort=False):
        rows.append((str(space), "", ", ".join(own["neighbour"])))
    last = near["layer"].max()
    for context in contexts.head(_SHOWN).itertuples():
        own = near[(near["layer"] == last) & (near["context"] == context.context)]
        rows.append((f"layer {last}", context.sentence, ", ".join(own["neighbour"])))
    about = result.provenance
    title = f"{about.model['name']} on {about.corpus['name']}: near “{about.corpus['word']}”"
    yield Overview(title, ("space", "context", "nearest words"), rows)


def _groups(words: Occurrences, *, repeat: bool) -> Int[np.ndarray, " word"]:
    """What is listed once: a word, or every occurrence by itself."""
    return np.arange(len(words.type_of)) if repeat else words.type_of


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
            "senses": pd.DataFrame(self._senses, columns=list(SENSES)),
            "separation": pd.DataFrame(self._apart, columns=list(SEPARATION)),
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
        "neighbours": pd.DataFrame(rows, columns=list(NEIGHBOURS)).astype({"layer": "Int64", "context": "Int64"}),
        "contexts": pd.DataFrame(listed, columns=list(CONTEXTS)),
    }

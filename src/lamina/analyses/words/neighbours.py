"""The nearest neighbours of a word, without context and at each layer in its contexts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lamina.activations import Runtime, extract
from lamina.activations.reading import WordVectors
from lamina.analyses.words.occurrences import WordOccurrences, in_brackets, read_words, sentences_around
from lamina.analyses.words.sense_map import (
    ExampleWord,
    Separation,
    best_examples,
    candidates,
    comparable,
    plane,
    separation,
)
from lamina.corpora import Corpus
from lamina.errors import AssetError, ModelError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import Texts
from lamina.framework.settings import Annotation, Seed, Setting
from lamina.models import SPECIAL, Encoder, load_encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.static import StaticEncoder
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, number, percent, rows_of, where_best
from lamina.stats.best import best_set
from lamina.stats.family import bootstrap_family
from lamina.stats.status import Contrast
from lamina.stats.units import UnitKind, Units
from lamina.types import Text

_AT_ONCE = 16_384
"""Vectors compared at once, to bound memory."""

_QUERIES = 32
"""Queries compared at once."""


class NearbyRow(NamedTuple):
    """One vector near another."""

    row: int
    similarity: float


def nearest(
    vectors: Float[torch.Tensor, "row width"],
    queries: Int[np.ndarray, " query"],
    group: Int[np.ndarray, " row"],
    count: int,
) -> list[list[NearbyRow]]:
    """For each row named by `queries`, its nearest neighbours, the nearest first.

    Only the nearest row of a group is a neighbour, and none of the query's group; with one group per row, all are.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> nearest(vectors, np.array([0]), np.array([7, 7, 8, 8]), 5)
        [[NearbyRow(row=2, similarity=0.6000000238418579)]]
    """
    _, numbered = np.unique(group, return_inverse=True)
    groups = torch.from_numpy(numbered).to(vectors.device)
    neighbours = []
    for some in np.array_split(queries, max(1, -(-len(queries) // _QUERIES))):
        neighbours += _nearest(vectors, torch.from_numpy(some).to(vectors.device), groups, count)
    return neighbours


def _nearest(vectors: torch.Tensor, queries: torch.Tensor, groups: torch.Tensor, count: int) -> list[list[NearbyRow]]:
    unit_queries = _unit(vectors[queries])
    best = unit_queries.new_full((len(unit_queries), int(groups.max()) + 1), -torch.inf)
    for start in range(0, len(vectors), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        alike = unit_queries @ _unit(vectors[part]).T
        best.scatter_reduce_(1, groups[part].expand(len(unit_queries), -1), alike, "amax")
    best[torch.arange(len(unit_queries), device=best.device), groups[queries]] = -torch.inf
    similarity, chosen = best.topk(min(count, best.shape[1]), dim=1)
    return [
        [
            _member(vectors, groups, query, group)
            for value, group in zip(values, nearest_groups, strict=True)
            if value > -torch.inf
        ]
        for query, values, nearest_groups in zip(unit_queries, similarity.tolist(), chosen.tolist(), strict=True)
    ]


def _member(vectors: torch.Tensor, groups: torch.Tensor, query: torch.Tensor, group: int) -> NearbyRow:
    """The nearest row of a group; found apart from the pass over all rows, which only needs its similarity."""
    rows = torch.nonzero(groups == group).squeeze(1)
    alike = _unit(vectors[rows]) @ query
    place = int(alike.argmax())
    return NearbyRow(int(rows[place]), float(alike[place]))


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)


STATIC, INPUT, LAYER = "static", "input", "layer"
"""The spaces: word vectors, the model's input embeddings, one of its layers."""

NEIGHBOURS = ("space", "layer", "context", "text_id", "rank", "neighbour", "neighbour_text", "similarity")
CONTEXTS = ("context", "text_id", "sentence", "class", "silhouette")
SENSES = ("layer", "context", "x", "y", "class")
SEPARATION = (
    "layer", "silhouette", "baseline", "difference", "low", "high", "p_adjusted", "units", "needed", "unit", "contexts",
    "words", "p_beaten", "among_best", "explained",
)  # fmt: skip
SHARED = ("layer", "value", "baseline", "difference", "low", "high", "p_adjusted", "units", "needed", "unit")
"""Columns of the tables."""
_SAMPLES = 1000
"""Bootstrap samples of documents."""
_TIMED_WORDS = 4000
"""Of the sample that one layer is timed on."""
_CONTEXTS = 3
"""Contexts that the terminal shows."""


class _NeighbourEntry(NamedTuple):
    """A neighbour without its sentence."""

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
    question="Which words are nearest to a word at each layer, in each of its contexts?",
    method=(
        "A word is the mean of its tokens. Its nearest words by cosine, all from this corpus, are listed without "
        "context (static vectors, the model's input embeddings) and at each layer in each context; its contexts are "
        "drawn by the first two principal components of each layer. Where no word is named, it is the one whose "
        "semantic classes (two or more, at least 5 contexts each) lie farthest apart at the last layer: chosen among "
        "many, it shows what is possible, not what is usual. Classes are compared with shuffled ones (max-T over "
        "layers and over all words that could have been chosen), layers with layer 0; documents are resampled."
    ),
    reads=Texts(split="train"),
    # All layers and candidate words are one family, documents are resampled; what contexts share is tested (2).
    version=2,
    tables={
        "neighbours": Table("One row per space, layer, context and neighbour.", NEIGHBOURS),
        "contexts": Table(
            "One row per context of the word, with its silhouette at the layer where the classes lie farthest apart.",
            CONTEXTS,
        ),
        "senses": Table("One row per layer and context: its place among the others, in two dimensions.", SENSES),
        "separation": Table(
            "One row per layer: how far classes lie apart, and on average when they are shuffled. The difference is "
            "tested by bootstrap over documents, two-sided max-T over layers and, where the word was chosen, over all "
            "words it was chosen from (`words`); simultaneous intervals. `p_beaten`: that another layer keeps classes "
            "farther apart; below .05 it is not `among_best`.",
            SEPARATION,
        ),
        "shared": Table(
            "One row per layer: which share of their nearest words two contexts have in common, minus that at layer 0 "
            "(two-sided max-T over layers by bootstrap over documents, simultaneous intervals).",
            SHARED,
        ),
        "examples": Table(
            "One row per word that could be shown, the chosen one first.", ExampleWord._fields, optional=True
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
    single occurrences at a layer. Nearness is the cosine. Static vectors that are not on this machine are left out.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt", "dev")  # doctest: +SKIP
        >>> neighbours(encoder, corpus, word="place").tables["contexts"].columns.tolist()  # doctest: +SKIP
        ['context', 'text_id', 'sentence', 'class']
    """
    words = read_words(corpus, annotation)
    # Fails before the work, not after it, where there is no such word.
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
    classes = [words.classes.get(int(context), "") for context in contexts]
    skipped["contexts without a class"] = classes.count("")
    group = _groups(words, repeat=repeat)
    others = [words.types.index(example.word) for example in examples[1:]]
    mapped = _SenseMap(words, _documents(corpus), contexts, others, most_contexts, seed)
    with progress(f"neighbours in {encoder.name}", encoder.layers) as advance:
        for layer in range(encoder.layers):
            at_layer = states.layer(layer)
            nearest_by_context = nearest(at_layer, contexts, group, count)
            near += _in_context(nearest_by_context, words, layer)
            mapped.add(
                layer,
                at_layer,
                [
                    {words.types[words.type_of[neighbour.row]] for neighbour in nearest_here}
                    for nearest_here in nearest_by_context
                ],
            )
            del at_layer  # two layers of a large corpus may not fit into memory
            advance()
    tables = _tables(corpus, words, contexts, classes, near) | mapped.tables()
    tables["contexts"]["silhouette"] = mapped.by_context()
    if examples:
        tables["examples"] = pd.DataFrame(examples, columns=list(ExampleWord._fields))
    return Tables(tables, skipped, data={"word": chosen})


@neighbours.costs
def _cost(
    estimator: Estimator,
    encoder: Encoder,
    corpus: Corpus,
    *,
    word: str | None,
    annotation: str | None,
    most_contexts: int,
    **_: object,
) -> Cost:
    """Encoding, and a search of every layer for each of the word's contexts."""
    words = read_words(corpus, annotation)
    occurrences = max(map(len, candidates(words).values())) if word is None else len(words.of(word))
    queries = min(occurrences, most_contexts)
    # Reading a layer takes about as long as some searches of it.
    work = 2e-9 * encoder.layers * encoder.width * len(words.type_of) * (queries + _READING)
    cost = estimator.encoding([corpus], [encoder])
    return cost + Cost(passes=0, work=work, memory=cost.memory + 3 * 4 * encoder.width * len(words.type_of))


_READING = 50
"""Searches that take as long as reading a layer, sorting its groups included."""


@neighbours.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Without context, then the first contexts at the last layer; the tables have the rest."""
    near, contexts = result.tables["neighbours"], result.tables["contexts"]
    rows = []
    for space, of_space in near[near["space"] != LAYER].groupby("space", sort=False):
        rows.append((str(space), "", ", ".join(of_space["neighbour"])))
    last = near["layer"].max()
    for context in contexts.head(_CONTEXTS).itertuples():
        of_context = near[(near["layer"] == last) & (near["context"] == context.context)]
        rows.append((f"layer {last}", context.sentence, ", ".join(of_context["neighbour"])))
    about = result.provenance
    title = f"{about.model['name']} on {about.corpus['name']}: near “{about.corpus['word']}”"
    yield Overview(title, ("space", "context", "nearest words"), rows)


def _groups(words: WordOccurrences, *, repeat: bool) -> Int[np.ndarray, " word"]:
    """What is listed once: a word, or every occurrence by itself."""
    return np.arange(len(words.type_of)) if repeat else words.type_of


def _documents(corpus: Corpus) -> tuple[list[str], UnitKind]:
    """[text] Its document; the text itself where there is only one document, or none is known."""
    texts = [(text.doc, text.id) for text in corpus]
    documents = [doc or name for doc, name in texts]
    known = any(doc for doc, _ in texts) and len(set(documents)) > 1
    return (documents, "document") if known else ([name for _, name in texts], "text")


class _ResampledContexts(NamedTuple):
    """Contexts of one word, and how often each sample draws them."""

    rows: Int[np.ndarray, " context"]
    classes: list[str]
    units: Units
    weights: Float[np.ndarray, "sample unit"]

    def separation(self, vectors: Float[torch.Tensor, "word width"], seed: int) -> Separation:
        """How far its classes lie apart."""
        weights = self.weights[:, list(self.units.owner)]
        return separation(vectors[self.rows].cpu().numpy(), self.classes, seed=seed, weights=weights)


class _SenseMap:
    """The sense map as layers come in, how far classes lie apart, and the nearest words that contexts share."""

    def __init__(
        self,
        words: WordOccurrences,
        documents: tuple[list[str], UnitKind],
        contexts: np.ndarray,
        others: Sequence[int],
        most: int,
        seed: int,
    ) -> None:
        """`others` are the words that the one shown was chosen from; of each at most `most` contexts are compared."""

        def drawn(rows: np.ndarray) -> _ResampledContexts:
            names, kind = documents
            units = Units.of((names[words.place(int(row))[0]] for row in rows), kind)
            classes = [words.classes.get(int(row), "") for row in rows]
            return _ResampledContexts(rows, classes, units, units.weights(samples=_SAMPLES, seed=seed))

        self._contexts, self._seed = drawn(contexts), seed
        self._others = [drawn(_draw(words, words.types[word], most, seed)) for word in others]
        self._senses, self._apart, self._explained, self._before = [], [], [], None
        self._beside: list[list[Separation]] = []
        self._listed: list[np.ndarray] = []

    def add(self, layer: int, vectors: Float[torch.Tensor, "word width"], near: Sequence[set[str]]) -> None:
        """One layer: vectors of all words, and the nearest words of each context."""
        vectors_of_word = vectors[self._contexts.rows].cpu().numpy()
        view = plane(vectors_of_word, self._before)
        self._before = view.points
        classes = self._contexts.classes
        self._senses += [(layer, number, *point, classes[number]) for number, point in enumerate(view.points.tolist())]
        self._explained.append(view.explained)
        self._apart.append(self._contexts.separation(vectors, self._seed))
        self._beside.append([other_word.separation(vectors, self._seed) for other_word in self._others])
        sizes = np.array([[max(len(one), len(other), 1) for other in near] for one in near])
        self._listed.append(np.array([[len(one & other) for other in near] for one in near]) / sizes)

    def tables(self) -> dict[str, pd.DataFrame]:
        """`senses`, `separation` and `shared`."""
        return {
            "senses": pd.DataFrame(self._senses, columns=list(SENSES)),
            "separation": self._separation(),
            "shared": shared_table(self._listed, self._contexts.units, self._contexts.weights),
        }

    def _separation(self) -> pd.DataFrame:
        units = [len(contexts.units) for contexts in (self._contexts, *self._others)]
        table = separation_table([[one, *others] for one, others in zip(self._apart, self._beside, strict=True)], units)
        about = {"unit": self._contexts.units.kind, "contexts": len(comparable(self._contexts.classes))}
        return table.assign(**about, explained=self._explained)[list(SEPARATION)]

    def by_context(self) -> Float[np.ndarray, " context"]:
        """The silhouette of each context where the classes lie farthest apart."""
        values = [separated.silhouette for separated in self._apart]
        return (
            self._apart[int(np.nanargmax(values))].by_context
            if np.isfinite(values).any()
            else self._apart[0].by_context
        )


def separation_table(layers: Sequence[Sequence[Separation]], units: Sequence[int]) -> pd.DataFrame:
    """How far the classes of the word that is shown lie apart, layer by layer, beside shuffled ones.

    Args:
        layers: layer -> of the word that is shown, then of those that it was chosen from.
        units: of each of these words, how many documents are resampled.
    """
    every = [separated for layer in layers for separated in layer]
    shape = len(layers), len(units)
    observed, shuffled = (
        np.array([getattr(separated, name) for separated in every]).reshape(shape)
        for name in ("silhouette", "shuffled")
    )
    draws = np.stack([separated.draws for separated in every], 1).reshape(-1, *shape)
    counts = np.broadcast_to(np.asarray(units, float), shape)
    tests = bootstrap_family(observed - shuffled, draws - shuffled, counts, bounds=(-2.0, 2.0))
    of_word = {name: values[:, 0] for name, values in zip(tests._fields, tests, strict=True)}
    best = best_set(observed[:, 0], draws[:, :, 0], int(units[0]))
    columns = {"layer": range(len(layers)), "silhouette": observed[:, 0], "baseline": shuffled[:, 0]}
    columns |= {
        "difference": of_word["estimate"],
        "low": of_word["low"],
        "high": of_word["high"],
        "p_adjusted": of_word["p"],
    }
    columns |= {"units": of_word["units"], "needed": of_word["needed"], "words": len(units)}
    return pd.DataFrame({**columns, "p_beaten": best.p, "among_best": best.among})


def shared_table(
    listed: Sequence[Float[np.ndarray, "context context"]], units: Units, weights: Float[np.ndarray, "sample unit"]
) -> pd.DataFrame:
    """`shared.csv`: what two contexts have in common, layer by layer, minus that at layer 0.

    Args:
        listed: layer -> of every two contexts, the share of their nearest words that both have.
        units: the documents of the contexts.
        weights: how often each sample draws each document.
    """
    means = [_pair_mean(of_layer, units, np.concatenate([np.ones((1, len(units))), weights])) for of_layer in listed]
    values, draws = np.array([mean[0] for mean in means]), np.stack([mean[1:] for mean in means], 1)
    tests = bootstrap_family(values - values[0], draws - draws[:, :1], len(units), bounds=(-1.0, 1.0))
    columns = {"layer": range(len(listed)), "value": values, "baseline": values[0], "difference": tests.estimate}
    return pd.DataFrame({**columns, **tests.columns(), "unit": units.kind})[list(SHARED)]


def _pair_mean(
    values: Float[np.ndarray, "context context"], units: Units, weights: Float[np.ndarray, "sample unit"]
) -> Float[np.ndarray, " sample"]:
    """The mean over pairs of different contexts; pairs of one document count as often as it is drawn."""
    different = 1 - np.eye(len(values))
    sums, pairs = (units.sums(units.sums(part).T).T for part in (values * different, different))

    def total(part: np.ndarray) -> np.ndarray:
        inside = part.diagonal()
        return ((weights @ part) * weights).sum(1) - np.square(weights) @ inside + weights @ inside

    over, under = total(sums), total(pairs)
    return np.divide(over, under, out=np.full(len(weights), np.nan), where=under > 0.5)


def _draw(words: WordOccurrences, word: str, most: int, seed: int) -> np.ndarray:
    """At most `most` contexts, in the order of the texts; those without a class only if there is room."""
    drawn = np.random.default_rng(seed).permutation(words.of(word)).tolist()
    return np.sort(sorted(drawn, key=lambda row: row not in words.classes)[:most])


def _without_context(
    encoder: Encoder, words: WordOccurrences, word: str, vectors: str | None, count: int, skipped: Counter[str]
) -> Iterator[_NeighbourEntry]:
    """Neighbours among word types, where a word is always the same vector."""
    static = None if vectors is None else _static(vectors, skipped)
    spaces: list[tuple[str, Encoder]] = [] if static is None else [(STATIC, static)]
    if isinstance(encoder, HuggingFaceEncoder):
        spaces.append((INPUT, encoder.lexical()))
    for space, vectors_of_types in spaces:
        known, rows = _types(vectors_of_types, words.types)
        skipped[f"words that {vectors_of_types.name} lacks, no neighbours there"] += len(words.types) - len(known)
        if word not in known:
            continue
        query = np.array([known.index(word)])
        for rank, (row, similarity) in enumerate(nearest(rows, query, np.arange(len(known)), count)[0], start=1):
            yield _NeighbourEntry(space, None, None, rank, known[row], None, similarity)


def _static(name: str, skipped: Counter[str]) -> Encoder | None:
    try:
        encoder = load_encoder(name)
    except AssetError:
        skipped[f"static vectors that are not on this machine ({name})"] += 1
        return None
    if not isinstance(encoder, StaticEncoder):
        raise ModelError(f"{name} is a model, not static vectors; name an asset as glove, or a .txt, .vec or .bin file")
    return encoder


def _types(encoder: Encoder, types: Sequence[str]) -> tuple[list[str], torch.Tensor]:
    """Words that the encoder has a vector for, and the means of their tokens."""
    known, rows = [], []
    for encoded, word in zip(encoder.encode([Text(word, (word,)) for word in types]), types, strict=True):
        if not encoded.tokens.unknown and encoded.states is not None:
            known.append(word)
            rows.append(encoded.states[torch.from_numpy(encoded.tokens.words != SPECIAL), 0].float().mean(0))
    return known, torch.stack(rows) if rows else torch.empty(0, encoder.width)


def _in_context(
    by_context: Sequence[Sequence[NearbyRow]], words: WordOccurrences, layer: int
) -> Iterator[_NeighbourEntry]:
    for context, nearest_here in enumerate(by_context):
        for rank, (row, similarity) in enumerate(nearest_here, start=1):
            yield _NeighbourEntry(LAYER, layer, context, rank, words.types[words.type_of[row]], row, similarity)


def _tables(
    corpus: Corpus,
    words: WordOccurrences,
    contexts: np.ndarray,
    classes: Sequence[str],
    near: Sequence[_NeighbourEntry],
) -> dict[str, pd.DataFrame]:
    sentence_of = sentences_around(
        corpus, words, [*contexts.tolist(), *(neighbour.row for neighbour in near if neighbour.row is not None)]
    )
    of_contexts = [sentence_of[int(context)] for context in contexts]
    listed = [
        (number, *where, name, float("nan"))
        for number, (where, name) in enumerate(zip(of_contexts, classes, strict=True))
    ]
    rows = []
    for neighbour in near:
        text_id = "" if neighbour.context is None else of_contexts[neighbour.context][0]
        beside = "" if neighbour.row is None else sentence_of[neighbour.row][1]
        where = (neighbour.space, neighbour.layer, neighbour.context, text_id)
        rows.append((*where, neighbour.rank, neighbour.neighbour, beside, neighbour.similarity))
    return {
        "neighbours": pd.DataFrame(rows, columns=list(NEIGHBOURS)).astype({"layer": "Int64", "context": "Int64"}),
        "contexts": pd.DataFrame(listed, columns=list(CONTEXTS)),
    }


# Words of a corpus near one word of a typed sentence, layer by layer.

MOST_BYTES = 192 * 2**20
"""Most bytes of vectors in an index; of a wide or deep model it has fewer sentences."""


class CorpusNeighbour(NamedTuple):
    """A word of a corpus near a given one."""

    word: str
    sentence: str
    """The words around it, the word itself in brackets."""
    similarity: float
    """Cosine."""


class WordIndex(NamedTuple):
    """The words of some sentences at every layer, in memory."""

    units: Float[torch.Tensor, "layer word width"]
    """Of length 1."""
    types: Int[torch.Tensor, " word"]
    """The lower-cased word, as a number."""
    places: tuple[tuple[int, int], ...]
    """Word -> its sentence and its position there."""
    sentences: tuple[tuple[str, ...], ...]


def index_words(
    encoder: Encoder,
    corpus: Corpus,
    *,
    root: str | os.PathLike[str] | None = None,
    most_bytes: int = MOST_BYTES,
) -> WordIndex:
    """Every word of a corpus, from stored activations; of its first sentences only where there are too many.

    Args:
        encoder: the model.
        corpus: the sentences.
        root: folder of stored activations.
        most_bytes: most memory of the vectors.
    """
    fitting = _fitting(encoder, corpus, most_bytes)
    sentences = tuple(text.words for text in fitting)
    vectors = WordVectors(extract(encoder, fitting, root=root), [len(words) for words in sentences])
    # Filled layer by layer: gathered in a list first, everything would be in memory twice.
    units = torch.empty(encoder.layers, len(vectors.text), encoder.width)
    for layer in range(encoder.layers):
        units[layer] = _unit(vectors.layer(layer))
    places = [(number, position) for number, words in enumerate(sentences) for position in range(len(words))]
    numbers: dict[str, int] = {}
    types = [numbers.setdefault(word.lower(), len(numbers)) for words in sentences for word in words]
    return WordIndex(units, torch.tensor(types), tuple(places), sentences)


def _fitting(encoder: Encoder, corpus: Corpus, most_bytes: int) -> Corpus:
    room = max(1, most_bytes // (4 * encoder.layers * encoder.width))
    words = 0
    for texts, text in enumerate(corpus):
        words += len(text.words)
        if words > room and texts:
            return corpus.take(texts)
    return corpus


def nearest_in_corpus(
    index: WordIndex, word: Float[torch.Tensor, "layer width"], count: int = 5
) -> list[list[CorpusNeighbour]]:
    """Per layer the words nearest to one, by exact cosine; every word type once, at its nearest occurrence.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> from lamina.testing import TinyEncoder
        >>> import tempfile
        >>> pets = corpus_from([["Dogs", "bark"], ["cats", "and", "dogs"]], name="pets")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     index = index_words(TinyEncoder(), pets, root=folder)
        >>> found = nearest_in_corpus(index, index.units[:, 1])
        >>> found[2][0].word, found[2][0].sentence, round(found[2][0].similarity, 4), len(found[2])
        ('bark', 'Dogs [bark]', 1.0, 4)
    """
    alike = (index.units @ _unit(word.float()).unsqueeze(2)).squeeze(2)
    types = int(index.types.max()) + 1
    best = torch.full((len(alike), types), -torch.inf)
    best.scatter_reduce_(1, index.types.expand_as(alike), alike, "amax")
    values, chosen = best.topk(min(count, types), dim=1)
    return [
        [_nearest_of_type(index, of_layer, kind, value) for value, kind in zip(row, kinds, strict=True)]
        for of_layer, row, kinds in zip(alike, values.tolist(), chosen.tolist(), strict=True)
    ]


def _nearest_of_type(
    index: WordIndex, alike: Float[torch.Tensor, " word"], kind: int, similarity: float
) -> CorpusNeighbour:
    """The nearest occurrence of a word type."""
    occurrence = int(alike.masked_fill(index.types != kind, -torch.inf).argmax())
    sentence, position = index.places[occurrence]
    words = index.sentences[sentence]
    return CorpusNeighbour(words[position], in_brackets(words, position), min(1.0, max(-1.0, similarity)))


@neighbours.finds
def neighbours_findings(result: Result) -> Iterator[Finding]:
    """How far classes lie apart, and how much nearest words depend on the context."""
    word = result.provenance.corpus["word"]
    if "separation" in result.tables and "p_adjusted" in result.tables["separation"]:
        yield from _separated(result.tables["separation"], word)
    if "shared" in result.tables:
        yield from _shared(result.tables["shared"], word)


def _separated(separation: pd.DataFrame, word: str) -> Iterator[Finding]:
    """The largest silhouette beside that of shuffled classes; layers, and words that could be shown, are one family."""
    measured = separation.dropna(subset=["silhouette"])
    if measured.empty:
        return
    row = next(rows_of(measured.loc[[measured["silhouette"].idxmax()]]))
    best = Source("separation", {"among_best": True})
    where, source = where_best(
        rows_of(measured),
        "they can lie farthest apart at {}",
        "no layer was shown to keep them farther apart",
        source=best,
    )
    looked = f"Corrected over {len(measured)} layers" + (f" and {row.words} words." if row.words > 1 else ".")
    yield finding(
        claim=f"At layer {row.layer} the classes of “{word}” lie farther apart than shuffled classes: silhouette "
        f"{number(row.silhouette)}, shuffled {number(row.baseline)}{where}",
        whether=f"the classes of “{word}” lie apart at layer {row.layer}",
        absent=f"At layer {row.layer} the classes of “{word}” lie no farther apart than shuffled classes",
        contrast="difference",
        test=Contrast.of(row, estimate="difference"),
        source=[Source("separation", {"layer": row.layer}), *source],
        unit=str(row.unit),
        importance=("answers", "beats control", "localised"),
        note=looked,
        unvarying=f"they do not vary between {row.unit}s",
    )


def _shared(shared: pd.DataFrame, word: str) -> Iterator[Finding]:
    """How many of their nearest words two contexts share at the last layer, and at layer 0."""
    later = shared[shared["layer"] > 0].dropna(subset=["value"])
    if later.empty:
        return
    row = next(rows_of(later.loc[[later["layer"].idxmax()]]))
    how = "fewer" if row.difference < 0 else "more"
    yield finding(
        claim=f"Two contexts of “{word}” share {how} of their nearest words at layer {row.layer}: "
        f"{percent(row.value)}, at layer 0 {percent(row.baseline)}",
        whether=f"two contexts of “{word}” share more or fewer of their nearest words at layer {row.layer} than at "
        "layer 0",
        absent=f"Two contexts of “{word}” share as many of their nearest words at layer {row.layer} as at layer 0: "
        f"{percent(row.value)}, at layer 0 {percent(row.baseline)}",
        contrast="difference",
        test=Contrast.of(row, estimate="difference"),
        source=[Source("shared", {"layer": row.layer}), Source("shared", {"layer": 0})],
        unit=str(row.unit),
        importance=("answers",),
        unvarying="what contexts share does not vary between texts",
    )

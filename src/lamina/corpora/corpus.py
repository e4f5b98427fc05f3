"""A corpus: texts that can be read repeatedly, with their metadata; views and samples of one."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, get_args

from lamina.corpora.reading import Notes
from lamina.errors import CorpusError, DamagedError, InputError, WriteError
from lamina.files.checking import cache_dir, read_json, write_json
from lamina.types import Edge, Span, Text

_MANY = 5000
"""Smallest number of texts for which annotations are remembered across processes; fewer are read in seconds."""
_MOST_REMEMBERED = 1000
"""Corpora whose annotations are remembered; the oldest are forgotten."""


MOST_IN_MEMORY = 20_000
"""Texts in memory: a treebank with all its annotations takes a few hundred megabytes."""
_MOST_UNREAD = 50
"""Files that are named in provenance as not read; `lamina data check` lists them all."""


Setting = Literal["distractor", "support"]
BabiView = Literal["span", "classification"]
Segments = Literal["two", "one"]
SupportRule = Literal["sentence", "count"]

_MATTERS = {
    "squad": ("segments", "support"),
    "hotpot": ("setting", "max_words", "seed", "segments"),
    "babi": ("babi", "tasks", "segments"),
    "stories": ("tasks",),
}
"""Kind of data -> the fields that change its questions; all other kinds have a single view."""


@dataclass(frozen=True)
class View:
    """How questions are shown to a model; the default is everything as it is in the files.

    Example:
        >>> View(setting="support", tasks=(1, 2)).of_kind("babi").describe()
        {'setting': 'distractor', 'babi': 'span', 'tasks': [1, 2], 'seed': 0}
        >>> View.of(View(max_words=230).describe()) == View(max_words=230)
        True
    """

    setting: Setting = "distractor"
    """HotpotQA: all paragraphs, or the supporting facts alone."""
    babi: BabiView = "span"
    """bAbI: the possible answers are appended and the answer is a span of them, or the answer is a class."""
    tasks: tuple[int, ...] | None = None
    """Some of bAbI's twenty tasks, or of the stories'; None for all."""
    max_words: int | None = None
    """HotpotQA: whole distractor paragraphs are dropped until question and context have at most this many words."""
    seed: int = 0
    """Of that draw."""
    segments: Segments = "two"
    """Question and context are two segments, with the tokenizer's separator between them; or one, as in the released
    code of van Aken et al. (2019), which probes them so. A model that answers needs two."""
    support: SupportRule = "sentence"
    """SQuAD's supporting fact: the sentence that holds the answer, or the one that the released code of van Aken et al.
    (2019) counts to. It adds up lengths of sentences without the blanks between them and looks at the first accepted
    answer only: where that one starts near the end of its sentence, the next sentence is labelled."""

    def __post_init__(self) -> None:
        kinds = (("setting", Setting), ("babi", BabiView), ("segments", Segments), ("support", SupportRule))
        for name, kind in kinds:
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise InputError(f"a view's {name} is {' or '.join(known)}; got {value!r}")
        if self.tasks is not None and (not self.tasks or not all(_is_count(task) for task in self.tasks)):
            raise InputError(f"a view's tasks are numbers from 1 on, as in (1, 2); got {self.tasks!r}")
        if self.max_words is not None and not _is_count(self.max_words):
            raise InputError(f"a view's max_words is a number of words from 1 on; got {self.max_words!r}")
        if type(self.seed) is not int or self.seed < 0:
            raise InputError(f"a view's seed is a number from 0 on; got {self.seed!r}")

    def describe(self) -> dict[str, Any]:
        """The view as JSON, which `View.of` reads; the two choices of the released code only where they were made."""
        described = asdict(self) | {"tasks": None if self.tasks is None else list(self.tasks)}
        usual = {"segments": "two", "support": "sentence"}
        return {name: value for name, value in described.items() if usual.get(name) != value}

    def of_kind(self, kind: str) -> View:
        """The view without what makes no difference to questions of this kind (a format, or `stories`)."""
        return View(**{name: getattr(self, name) for name in _MATTERS.get(kind, ())})

    @classmethod
    def of(cls, description: Any) -> View:
        """The view that `describe` wrote; an InputError for anything else.

        Example:
            >>> View.of({"setting": "all"})
            Traceback (most recent call last):
            lamina.errors.InputError: a view's setting is distractor or support; got 'all'
        """
        known = [option.name for option in fields(cls)]
        if not isinstance(description, Mapping) or not all(name in known for name in description):
            raise InputError(f"a view is an object with {', '.join(known)}; got {str(description)[:80]}")
        tasks = description.get("tasks")
        return cls(**{**description, "tasks": tuple(tasks) if isinstance(tasks, list) else tasks})


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def fingerprint_of(*parts: Any) -> str:
    """One hash of any JSON-serialisable values; equal inputs give equal hashes.

    Example:
        >>> fingerprint_of("a", 1) == fingerprint_of("a", 1), fingerprint_of("a", 1) == fingerprint_of("a", 2)
        (True, False)
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Corpus:
    """Texts, read again on every iteration, so that memory does not grow with the corpus.

    Created by `load_corpus` and `corpus_from`.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> corpus = corpus_from([["Dogs", "bark"], ["Cats", "do", "not"]], name="pets")
        >>> len(corpus), [text.words[0] for text in corpus], len(corpus.take(1))
        (2, ['Dogs', 'Cats'], 1)
        >>> len(corpus.sample(1)), corpus.sample(1).describe()["sample_seed"]
        (1, 0)
    """

    name: str
    """Its name in the catalogue, its path, or the name it was given."""
    split: str
    """train, dev, test or all."""
    unit: str
    """What one text is: sentence, document or window:N."""
    scheme: str
    """The label scheme, such as UD v2; labels stay as annotated."""
    fingerprint: str
    """Equal for equal texts in equal order: covers files, reader, split, unit, seed and limit."""
    source: Callable[[], Iterator[Text]] = field(repr=False, compare=False)
    """Reads the texts from the beginning."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    made_split: str | None = None
    """How the split was made, if the corpus does not come with it."""
    limit: int | None = None
    """Only this many texts, drawn as whole documents; None for all."""
    first: int | None = None
    """Number of first texts that are read; None for all."""
    sample_seed: int | None = None
    """The seed of the draw, where there is a limit."""
    declared: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    """The annotations listed in the catalogue; None if they have to be found in the texts."""
    view: View = field(default=View(), repr=False)
    """How questions are shown; the default for all other texts."""
    notes: Notes = field(default_factory=Notes, repr=False, compare=False)
    """What its readers left out or changed, filled while texts are read; corpora made of this one share it."""
    unread: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Files of its folder that may hold texts and are not read -> why."""
    revision: str | None = field(default=None, repr=False, compare=False)
    """The commit of a dataset of the Hugging Face hub."""

    def __iter__(self) -> Iterator[Text]:
        size = 0
        names: dict[str, None] = {}
        for text in with_unique_ids(self.source()):
            size += 1
            names.update(dict.fromkeys(text.edges))
            yield text
        # After a complete pass both are known without another one.
        self.__dict__["_size"] = size
        self.__dict__["_annotations_read"] = tuple(names)

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _size(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def annotations(self) -> tuple[str, ...]:
        """The names of the annotations in its texts, all of them read if no catalogue lists the annotations."""
        return self._annotations_read if self.declared is None else self.declared

    @cached_property
    def _annotations_read(self) -> tuple[str, ...]:
        known = _remembered().get(self.fingerprint)
        if known is not None:
            return tuple(known)
        size = sum(1 for _ in self)
        # Left there by the complete pass.
        annotations = self.__dict__["_annotations_read"]
        if size >= _MANY:
            _remember(self.fingerprint, annotations)
        return annotations

    def take(self, n: int) -> Self:
        """The first `n` texts."""
        _refuse_none(n)
        if self.first is not None and n >= self.first:
            return self
        source, most = self.source, min(n, sys.maxsize)
        return replace(
            self,
            source=lambda: islice(source(), most),
            first=n,
            fingerprint=fingerprint_of("take", self.fingerprint, n),
        )

    def sample(self, n: int, seed: int = 0) -> Self:
        """About `n` texts in their order: whole documents drawn at random, of the last one the first texts only.

        Where every text is its own document, texts are drawn. A document's name decides when it is drawn, so that the
        sample of one seed holds all smaller ones. Nothing is read before the texts are.
        """
        _refuse_none(n)
        if self.limit is not None and n >= self.limit:
            return self
        source = SampleSource(self.source, n, seed, lambda text: text.doc or text.id)
        return replace(
            self,
            source=source,
            limit=n,
            sample_seed=seed,
            fingerprint=fingerprint_of("sample", self.fingerprint, n, seed),
            notes=self.notes.of_documents(source.holds),
        )

    def part(self, limit: int | None, first: int | None, seed: int = 0) -> Self:
        """A sample of `limit` texts, the `first` texts, or all where both are None; not both."""
        if limit is not None and first is not None:
            raise InputError("limit draws texts and first takes the first ones; give one of the two")
        if limit is not None:
            return self.sample(limit, seed)
        return self if first is None else self.take(first)

    def left_out(self) -> dict[str, int]:
        """What readers left out or changed -> in how many texts; complete after the texts were read once."""
        return self.notes.counts()

    def describe(self) -> dict[str, Any]:
        """The corpus's entry in a result's provenance."""
        entry = {
            "name": self.name,
            "split": self.split,
            "unit": self.unit,
            "scheme": self.scheme,
            "fingerprint": self.fingerprint,
            "files": dict(self.files),
        }
        if self.made_split is not None:
            entry["made_split"] = self.made_split
        if self.limit is not None:
            entry |= {"limit": self.limit, "sample_seed": self.sample_seed}
        if self.first is not None:
            entry["first"] = self.first
        if self.view != View():
            entry["view"] = self.view.describe()
        if self.revision is not None:
            entry["revision"] = self.revision
        if self.unread:
            entry["files_not_read"] = dict(islice(self.unread.items(), _MOST_UNREAD))
        return entry


def _refuse_none(n: int) -> None:
    if n < 1:
        raise CorpusError(f"a limit must be at least 1 text; got {n}")


def _remembered() -> dict[str, list[str]]:
    """Fingerprint -> the annotations found; empty if nothing is remembered, or not readably."""
    try:
        return read_json(_memory())
    except (OSError, DamagedError):
        return {}


def _remember(fingerprint: str, names: tuple[str, ...]) -> None:
    known = [*_remembered().items()][-_MOST_REMEMBERED + 1 :]
    # Without a cache to write to, the texts are read again next time.
    with suppress(OSError, WriteError):
        _memory().parent.mkdir(parents=True, exist_ok=True)
        write_json(_memory(), dict(known) | {fingerprint: names})


def _memory() -> Path:
    return cache_dir() / "annotations.json"


def with_unique_ids(texts: Iterable[Text]) -> Iterator[Text]:
    """The same texts; the second one with the same id gets the suffix `#2`, the third `#3`."""
    from lamina.keys import KeySet  # needs numpy, which the command line starts without

    met = KeySet()
    times: dict[str, int] = {}
    for text in texts:
        unique = text.id
        while not met.add(hashlib.blake2b(unique.encode("utf-8", "surrogatepass"), digest_size=16).digest()):
            times[text.id] = times.get(text.id, 1) + 1
            unique = f"{text.id}#{times[text.id]}"
        yield text if unique == text.id else replace(text, id=unique)


NAMING = ("chains", "chains_gum", "sentence")
"""Annotations whose labels identify one thing in one document (a chain), not a kind of thing."""


@dataclass
class CorpusCounts:
    """Running counts over texts.

    Example:
        >>> from lamina.types import Edge, Span
        >>> counts = CorpusCounts()
        >>> counts.add(Text("s", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)}))
        >>> counts.texts, counts.words, counts.targets["pos"], counts.labels["pos"]["NOUN"]
        (1, 2, 1, 1)
    """

    texts: int = 0
    words: int = 0
    annotated: Counter[str] = field(default_factory=Counter)
    """Annotation -> number of texts that have it."""
    targets: Counter[str] = field(default_factory=Counter)
    """Annotation -> number of edges."""
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    """Annotation -> label -> count."""

    def add(self, text: Text) -> None:
        """Count one more text."""
        self.texts += 1
        self.words += len(text.words)
        for annotation, edges in text.edges.items():
            self.annotated[annotation] += 1
            self.targets[annotation] += len(edges)
            seen = self.labels.setdefault(annotation, Counter())
            scope = f"{text.doc or text.id}: " if annotation in NAMING else ""
            seen.update(scope + label for edge in edges for label in edge.labels)


def counted(texts: Iterable[Text], *counts: CorpusCounts) -> Iterator[Text]:
    """Yield the texts unchanged and count them."""
    for text in texts:
        for one in counts:
            one.add(text)
        yield text


# A corpus in memory, for callers that read it many times.


def in_memory(corpus: Corpus, most: int = MOST_IN_MEMORY) -> Corpus:
    """The same corpus; after a complete pass its texts are in memory, unless there are more than `most`.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> pets = in_memory(corpus_from([["Dogs", "bark"], ["Cats", "do", "not"]], name="pets"))
        >>> [one is same for one, same in zip(list(pets), list(pets))]
        [True, True]
    """
    return replace(corpus, source=_MemorySource(corpus.source, most))


def joined(one: Corpus, other: Corpus) -> Corpus:
    """The texts of two splits of one corpus, one after the other.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> train, dev = (corpus_from([[word]], name="pets", split=word) for word in ("train", "dev"))
        >>> [text.words[0] for text in joined(train, dev)]
        ['train', 'dev']
    """
    known = one.declared is not None and other.declared is not None
    return replace(
        one,
        split=f"{one.split} and {other.split}",
        fingerprint=fingerprint_of("joined", one.fingerprint, other.fingerprint),
        source=lambda: chain(one.source(), other.source()),
        files={**one.files, **other.files},
        declared=tuple(dict.fromkeys([*(one.declared or ()), *(other.declared or ())])) if known else None,
    )


class _MemorySource:
    def __init__(self, source: Callable[[], Iterator[Text]], most: int) -> None:
        self._source, self._most = source, most
        self._texts: list[Text] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads them for itself, if it needs them.
        return self.__dict__ | {"_texts": None}

    def __call__(self) -> Iterator[Text]:
        return self._read() if self._texts is None else iter(self._texts)

    def _read(self) -> Iterator[Text]:
        texts: list[Text] = []
        for number, text in enumerate(self._source()):
            if number < self._most:
                texts.append(text)
            elif texts:
                texts.clear()
            yield text
        if texts:
            self._texts = texts


# Origins: hashes by which texts are recognised however they are cut, split into words or shown.

_PASSAGE = 200
"""Characters (without white space) from which a context identifies its questions; a shorter one recurs by chance."""
_SENTENCE = 40
"""Characters from which a sentence identifies the document or window it is part of ("Thank you." is in many)."""


def origin_of(question: str, context: str) -> str:
    """A hash of a question and its raw, uncut context, the same for every view of them.

    Questions about the same passage have the same hash: a model that has seen the passage has seen them all. Short
    stories, which recur by chance, are identified together with their question.

    Example:
        >>> origin_of("Who barks?", "Dogs bark.") == origin_of("Who barks ?", "Dogs  bark .")
        True
        >>> origin_of("Who barks?", "Dogs bark. " * 40) == origin_of("What do dogs do?", "Dogs bark. " * 40)
        True
    """
    whole = "".join(context.split())
    identity = whole if len(whole) >= _PASSAGE else "".join(question.split()) + whole
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def origins(text: Text) -> tuple[str, ...]:
    """The hashes of what a text was made of; where it does not say, of its words.

    Example:
        >>> origins(Text("a", ("can", "not", "."))) == origins(Text("b", ("cannot", ".")))
        True
    """
    if text.origin is not None:
        return tuple(text.origin.split())
    last = text.segments[-1]
    return (origin_of("".join(text.words[: last.start]), "".join(text.words[last.start :])),)


def origin_of_joined(sentences: Iterable[Text]) -> str | None:
    """The origin of a text that is made of several: by each of them that is not too short to tell.

    Example:
        >>> long = Text("a", ("A", "sentence", "of", "some", "length", "is", "rarely", "written", "twice", "."))
        >>> origin_of_joined([long, Text("b", ("Thanks", "."))]) == " ".join(origins(long))
        True
    """
    telling = (
        sentence for sentence in sentences if sentence.origin is not None or len("".join(sentence.words)) >= _SENTENCE
    )
    return " ".join(dict.fromkeys(origin for sentence in telling for origin in origins(sentence))) or None


# Units: a sentence, a window of whole sentences, or a document.


class TextUnit(NamedTuple):
    """What becomes one text."""

    kind: str
    """sentence, window or document."""
    size: int | None = None
    """Maximum number of words in a window."""


def parse_unit(unit: str) -> TextUnit:
    """Read `sentence`, `document` or `window:N`.

    Example:
        >>> parse_unit("window:128")
        TextUnit(kind='window', size=128)
    """
    if unit in ("sentence", "document"):
        return TextUnit(unit)
    window = re.fullmatch(r"window:([1-9][0-9]*)", unit)
    if window is None:
        raise CorpusError(
            f"unknown unit {unit!r}; use sentence, document or window:N with at most N words (window:128)"
        )
    return TextUnit("window", int(window[1]))


def in_units(texts: Iterable[Text], unit: str) -> Iterator[Text]:
    """Join consecutive texts of one document into `unit`s; a text without a document stays separate.

    Windows end where sentences end; a sentence longer than the window is its own window. Joined texts have the
    annotation `sentence`. If only some of the joined sentences have an annotation, the joined text has it.

    Example:
        >>> sentences = [Text("a", ("Dogs", "bark"), doc="d"), Text("b", ("They", "do"), doc="d")]
        >>> [(text.id, text.words) for text in in_units(sentences, "document")]
        [('d', ('Dogs', 'bark', 'They', 'do'))]
    """
    kind, size = parse_unit(unit)
    if kind == "sentence":
        yield from texts
        return
    for doc, sentences in _documents(texts):
        for number, window in enumerate(_windows(sentences, size), start=1):
            yield _joined(_name(doc, number, size) or window[0].id, doc, window)


def _name(doc: str | None, number: int, size: int | None) -> str | None:
    return doc if doc is None or size is None else f"{doc}:{number}"


def _documents(texts: Iterable[Text]) -> Iterator[tuple[str | None, Iterator[Text]]]:
    """Runs of texts of one document. A text without a document gets its own key, so that it joins nothing."""
    numbered = enumerate(texts)
    for (doc, _), run in groupby(numbered, key=lambda pair: (pair[1].doc, pair[0] if pair[1].doc is None else -1)):
        yield doc, (text for _, text in run)


def _windows(sentences: Iterator[Text], size: int | None) -> Iterator[list[Text]]:
    window: list[Text] = []
    words = 0
    for sentence in sentences:
        if window and size is not None and words + len(sentence.words) > size:
            yield window
            window, words = [], 0
        window.append(sentence)
        words += len(sentence.words)
    if window:
        yield window


def _joined(name: str, doc: str | None, sentences: list[Text]) -> Text:
    words: list[str] = []
    glued: list[int] = []
    edges: defaultdict[str, list[Edge]] = defaultdict(list)
    for sentence in sentences:
        start = len(words)
        words.extend(sentence.words)
        glued.extend(start + word for word in sentence.glued)
        if "sentence" not in sentence.edges:
            edges["sentence"].append(Edge((sentence.id,), Span(start, len(words))))
        for annotation, targets in sentence.edges.items():
            edges[annotation].extend(edge.shift(start) for edge in targets)
    # A question and its context stay two segments; consecutive sentences become one.
    segments = sentences[0].segments if len(sentences) == 1 else ()
    origin = sentences[0].origin if len(sentences) == 1 else origin_of_joined(sentences)
    joined = {key: tuple(targets) for key, targets in edges.items()}
    return Text(name, tuple(words), segments, joined, doc, origin, tuple(glued))


Item = TypeVar("Item")

_SLACK = 1000
"""Candidates in memory beyond twice those that are wanted, before some are dropped."""


def place_in_order(seed: int, name: str) -> int:
    """Where a name stands in the order of a seed: a hash, so that it does not depend on what else there is.

    Example:
        >>> place_in_order(0, "a") == place_in_order(0, "a"), place_in_order(0, "a") == place_in_order(1, "a")
        (True, False)
    """
    # Splits are hashes of names too; with another prefix, the draw does not depend on them.
    named = f"sample {seed} {name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(named, digest_size=12).digest(), "big")


def sample_of_each(
    items: Sequence[Item], most: int, group: Callable[[Item], Hashable], name: Callable[[Item], str], seed: int
) -> list[int]:
    """The numbers of at most `most` items of every group, drawn by name, in their order.

    Example:
        >>> drawn = sample_of_each(["a1", "a2", "a3", "b1"], 2, lambda item: item[0], lambda item: item, 0)
        >>> len(drawn), drawn[-1], drawn == sorted(drawn)
        (3, 3, True)
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        groups[group(item)].append(number)
    chosen: list[int] = []
    for numbers in groups.values():
        ranked = sorted(numbers, key=lambda number: place_in_order(seed, name(items[number])))
        chosen += ranked[:most]
    return sorted(chosen)


def first_of_each(items: Sequence[Item], most: int, group: Callable[[Item], Hashable]) -> list[int]:
    """The numbers of the first items of every group.

    Example:
        >>> first_of_each(["a1", "a2", "b1"], 1, lambda item: item[0])
        [0, 2]
    """
    taken: dict[Hashable, int] = defaultdict(int)
    chosen: list[int] = []
    for number, item in enumerate(items):
        taken[group(item)] += 1
        if taken[group(item)] <= most:
            chosen.append(number)
    return chosen


class TextCount(NamedTuple):
    """Texts and words, counted in one pass."""

    texts: int
    words: int
    sample: list[Text]
    """Some of the texts, at equal distances."""

    @classmethod
    def of(cls, texts: Iterable[Text], most: int) -> TextCount:
        """Count the texts, and keep `most` of them at most.

        Example:
            >>> count = TextCount.of([Text("a", ("Dogs", "bark")), Text("b", ("Yes",)), Text("c", ("No",))], 2)
            >>> count.texts, count.words, [text.id for text in count.sample]
            (3, 4, ['a', 'c'])
        """
        number = words = 0
        sample: list[Text] = []
        distance = 1
        for text in texts:
            if number % distance == 0:
                sample.append(text)
                if len(sample) > most:
                    del sample[1::2]
                    distance *= 2
            number, words = number + 1, words + len(text.words)
        return cls(number, words, sample)


@dataclass(frozen=True)
class DocumentSample:
    """Which documents are drawn: those up to a place in the order of a seed; the last one is cut."""

    seed: int
    last: int | None = None
    """Place of the last document; None if all are drawn."""
    texts_of_last: int = 0
    """How many texts of the last document are taken, from its first."""

    def holds(self, document: str) -> bool:
        """Whether a document is drawn, in whole or in part."""
        return self.last is None or place_in_order(self.seed, document) <= self.last

    def of(self, items: Iterable[Item], document: Callable[[Item], str]) -> Iterator[Item]:
        """The drawn items, in their order."""
        taken = 0
        for item in items:
            place = -1 if self.last is None else place_in_order(self.seed, document(item))
            if self.last is None or place < self.last:
                yield item
            elif place == self.last and taken < self.texts_of_last:
                taken += 1
                yield item


class SampleSource(Generic[Item]):
    """Draws about as many items as are wanted, in whole documents, when it is first read; see `Corpus.sample`.

    Items are read once to find the documents, and stay in memory where few are wanted; memory does not grow with the
    corpus.
    """

    def __init__(
        self, items: Callable[[], Iterable[Item]], most: int, seed: int, document: Callable[[Item], str]
    ) -> None:
        self._items, self._most, self._seed, self._document = items, most, seed, document
        self._sample: DocumentSample | None = None
        self._drawn: list[Item] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads them for itself, if it needs them.
        return self.__dict__ | {"_drawn": None}

    def __call__(self) -> Iterator[Item]:
        sample = self.sample
        return iter(self._drawn) if self._drawn is not None else sample.of(self._items(), self._document)

    def holds(self, document: str) -> bool:
        """Whether a document is drawn."""
        return self.sample.holds(document)

    @property
    def sample(self) -> DocumentSample:
        """The documents, found by a pass over the items."""
        if self._sample is None:
            self._sample = self._found()
        return self._sample

    def _found(self) -> DocumentSample:
        sizes: dict[int, int] = {}
        pairs: list[tuple[int, Item]] | None = [] if self._most <= MOST_IN_MEMORY else None
        seen = candidates = 0
        highest: int | None = None
        for item in self._items():
            seen += 1
            place = place_in_order(self._seed, self._document(item))
            # Of one document no more texts can be drawn than are wanted.
            if (highest is not None and place > highest) or sizes.get(place, 0) >= self._most:
                continue
            sizes[place] = sizes.get(place, 0) + 1
            candidates += 1
            if pairs is not None:
                pairs.append((place, item))
            if candidates > 2 * self._most + _SLACK:
                # Further texts can only lower the place of the last document.
                highest, _ = self._last(sizes)
                sizes = {drawn: size for drawn, size in sizes.items() if drawn <= highest}
                candidates = sum(sizes.values())
                pairs = None if pairs is None else [(place, item) for place, item in pairs if place <= highest]
        sample = DocumentSample(self._seed) if seen <= self._most else DocumentSample(self._seed, *self._last(sizes))
        if pairs is not None:
            self._drawn = list(sample.of((item for _, item in pairs), self._document))
        return sample

    def _last(self, sizes: Mapping[int, int]) -> tuple[int, int]:
        """The place of the last document, and how many of its texts are taken."""
        missing = self._most
        for place in sorted(sizes):
            if sizes[place] >= missing:
                return place, missing
            missing -= sizes[place]
        raise AssertionError("fewer items than are wanted")

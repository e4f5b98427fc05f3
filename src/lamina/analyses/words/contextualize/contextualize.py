"""How well each layer predicts the semantic class of a word in its context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.activations import Runtime
from lamina.activations.in_memory import MOST_BYTES
from lamina.analyses.words.contextualize.finetuning import (
    FINETUNING,
    SIMILARITY,
    FinetunedEncoder,
    attention_similarity,
    finetuning_table,
    load_finetuned,
    probe_finetuned,
    texts_used,
)
from lamina.analyses.words.contextualize.scores import (
    AVERAGE,
    BEST,
    CHOSEN,
    CONTEXTS,
    CONTRASTS,
    FAILURES,
    FINETUNED,
    FULL,
    LESS_CONTEXT,
    PAIRS,
    PIECES,
    PRESETS,
    SCORES,
    STATIC,
    ClassAnswers,
    ClassProbeSetup,
    ContextualizePreset,
    Scoreboard,
    answer,
    answer_permuted,
    failure_cases,
    histogram,
    overall,
    pieces_of,
    probe_files,
    scores_by_pieces,
)
from lamina.analyses.words.contextualize.vectors import (
    RANDOM_WIDTH,
    BackgroundWork,
    Representation,
    Representations,
    Workspace,
    context_free,
    name_of,
    skipgram_of,
    unknown_words,
)
from lamina.analyses.words.occurrences import SPLITS, WordsInContext, find_words
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import InputError
from lamina.files.writing import fresh_path
from lamina.framework.declare import ComparedLayers, LayerMeasure, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.inputs import Texts
from lamina.framework.settings import Annotation, Preset, Samples, Seed, Seeds, Setting
from lamina.models import Encoder, load_encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.static import skipgram_epochs
from lamina.progress import say
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, number, rows_of, where_best
from lamina.stats.status import Contrast

if TYPE_CHECKING:
    import pyarrow


_SCORED = (
    "One row per representation, layer, class, seed and split; `all` stands for all classes or seeds, `chose` marks "
    "dev words that chose the epoch of the probes."
)


@analysis(
    title="Words in context",
    question="How well does each layer predict what a word means in its context?",
    method=(
        "One small probe per semantic class is trained on the vectors of some words and scored on other words: no word "
        "is in two of train, dev and test. A word has a class where its probe says yes for at least half of its "
        "contexts. The layers are compared with vectors without context, bags of vectors, random vectors and permuted "
        "classes. 95 % intervals resample words, and from 5 seeds on seeds too; differences are paired by word and "
        "corrected by max-T."
    ),
    cites=("Zhao et al. 2020",),
    reads=Texts(split="all"),
    # From five seeds on, intervals cover seeds too (3). Words weigh by name; paired contrasts (4).
    version=4,
    tables={
        "sclass": Table(f"F1. {_SCORED}", SCORES),
        "recall": Table(f"Share of words whose own class is found. {_SCORED}", SCORES),
        "frequent": Table(f"F1 of words with at least 5 contexts. {_SCORED}", SCORES),
        "words": Table(f"F1 with each word counted once, for vectors without context. {_SCORED}", SCORES),
        "contrasts": Table(
            "One row per paired difference of micro-F1 over words. Rows of one comparison and family are corrected "
            "together (two-sided max-T, simultaneous intervals): all layers, or what the `chosen layer` (best on the "
            "words of the other split) is compared with; fine-tuning: all tasks and layers.",
            CONTRASTS,
        ),
        "best": Table(
            "One row per layer of the model with the whole text. `p_beaten`: that another layer is better; below .05 "
            "the layer is not `among_best`.",
            BEST,
        ),
        "context": Table("F1 with a part of the text. One row per context size, layer, class, seed and split.", SCORES),
        "pairs": Table("One row per test word, class, layer and context size.", PAIRS),
        "failures": Table("One row per test word and class that fails or is cut into many tokens.", FAILURES),
        "pieces": Table("One row per number of tokens that words are cut into.", PIECES),
        "contexts": Table("One row per split and number of contexts.", CONTEXTS),
        "finetuning": Table(
            "One row per task fine-tuned for, setup, layer and seed of the fine-tuning; `all` is their mean.",
            FINETUNING,
            optional=True,
        ),
        "attention_similarity": Table("One row per fine-tuned model and head.", SIMILARITY, optional=True),
    },
    chapter="words",
    takes=110,
    report={"preset": "quick", "context_sizes": (0, 4)},
    compares=ComparedLayers(
        "sclass",
        (LayerMeasure("full", "Classes of words in context", "F1", ability=True),),
        "context",
        rows={"representation": "{model}", "class": "all", "seed": "all", "split": "test"},
        draws="",
    ),
    example="lamina contextualize minilm --corpus ewt --out results/contextualize",
)
def contextualize(
    encoder: Encoder,
    corpus: Corpus,
    *,
    annotation: Annotation = None,
    context_sizes: Annotated[
        Sequence[int] | None, Setting("Words on each side that the model may see; the preset's by default.", min=0)
    ] = None,
    vectors: Annotated[
        Sequence[str], Setting("Static vectors to compare the model with: an asset or a file.", file=True)
    ] = ("glove",),
    finetuned: Annotated[
        Sequence[str],
        Setting("The folder of a model fine-tuned from this one; several seeds of one task are averaged.", file=True),
    ] = (),
    preset: Preset = "quick",
    seeds: Seeds = None,
    faithful: Annotated[
        bool, Setting("As in the paper: the last epoch, vectors not scaled, results of dev words.")
    ] = False,
    seed: Seed = 0,
    samples: Samples = 1000,
    runtime: Runtime,
) -> Tables:
    """How well each layer predicts a word's semantic class, and how much context that takes.

    All texts of the corpus are used; its words are split into train, dev and test. One binary MLP per class is trained
    on the vectors of the training words. Every (word, class) pair of the scored words gets one decision per class:
    yes where the class's probe says yes for at least half of the pair's contexts. Every context size has its own
    probes.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt", "all")  # doctest: +SKIP
        >>> contextualize(encoder, corpus).tables["contexts"].columns.tolist()  # doctest: +SKIP
        ['split', 'contexts', 'pairs']
    """
    chosen = _chosen(preset, seeds, context_sizes)
    tuned = load_finetuned(encoder, finetuned)
    static = [load_encoder(name) for name in vectors]
    data = _find(encoder, corpus, chosen, annotation, seed, texts_used(tuned))
    with ExitStack() as stack:
        size = disk_bytes(encoder, tuned, chosen, data)
        where = runtime.residence(encoder, size)
        workspace = Workspace(runtime.store, stack, None if where.stored else where.device)
        what = f"vectors of {len(data.text):,} words in context, {2 * encoder.layers * encoder.width:,} bytes each"
        if where.stored:
            workspace.refuse_full(size, what)
        else:
            say(f"{what}, are {where.why}")
        answers = workspace.folder(fingerprint_of("answers", data.places, data.labels, encoder.fingerprint))
        setup = ClassProbeSetup(data, chosen, seed, faithful, runtime.training_device, answers)
        question = _ContextProbes(setup, encoder, Representations(data, workspace))
        board = Scoreboard(data, samples=samples, seed=seed, selects=not faithful)
        # Encoded first, on all cores; then skip-gram, which takes one core, trains while the probes do.
        question.whole.read(0)
        skipgram = stack.enter_context(BackgroundWork(skipgram_of(corpus, seed, answers)))
        learned = probe_finetuned(setup, question.representations, tuned, question.whole, save=True)
        of_model = [
            answers_of_layer for answers_of_layer in learned if answers_of_layer.representation == question.whole.name
        ]
        swept = list(skipgram.during(question.sweep()))
        free = context_free(encoder, static, skipgram.result())
        tables = board.tables([*of_model, *question.beside(free)])
        tables["context"] = board.f1(swept)
        tables["pairs"] = board.pairs([*of_model, *swept])
        pieces = pieces_of(encoder, data.words)
        tables["failures"] = failure_cases(tables["pairs"], pieces)
        tables["pieces"] = scores_by_pieces(tables["pairs"], pieces)
        tables["contexts"] = histogram(data)
        split = "dev" if faithful else "test"
        tables["contrasts"], tables["best"] = board.compared(question.whole.name, split)
        if tuned:
            tables["finetuning"], changes = finetuning_table(setup, board, tuned, learned)
            tables["contrasts"] = pd.concat([tables["contrasts"], changes], ignore_index=True)
            tables["attention_similarity"] = attention_similarity(tuned, data.texts)
        predicted = answers / f"{fingerprint_of(setup.key, chosen.context_sizes)[:16]}-{NAME}"
        write_predictions(predicted, data, split, [*of_model, *swept])
        return Tables(
            tables,
            data.skipped | unknown_words(free, data),
            data={"used": _used(data), "settings": asdict(chosen)},
            seeds=(seed, *range(chosen.seeds)),
            files={NAME: predicted, **probe_files(setup, question.whole)},
            scored={"words": sum(data.split[pair.word] == split for pair in data.pairs)},
        )


@contextualize.costs
def _cost(
    estimator: Estimator,
    encoder: Encoder,
    corpus: Corpus,
    *,
    annotation: str | None,
    context_sizes: Sequence[int] | None,
    vectors: Sequence[str],
    finetuned: Sequence[str],
    preset: str,
    seeds: int | None,
    faithful: bool,
    seed: int,
    **_: object,
) -> Cost:
    """Encoding of texts and windows, skip-gram, and the training of every class probe."""
    chosen = _chosen(preset, seeds, context_sizes)
    tuned = load_finetuned(encoder, finetuned)
    data = _find(encoder, corpus, chosen, annotation, seed, texts_used(tuned))
    static = [load_encoder(name) for name in vectors]
    setup = ClassProbeSetup(data, chosen, seed, faithful, estimator.runtime.training_device, Path())
    size = disk_bytes(encoder, tuned, chosen, data)
    where = estimator.runtime.residence(encoder, size)
    cost = encoding_cost(estimator, tuned, chosen, data)
    memory = cost.memory + 2 * encoder.width * len(data.text) + size * (where.device == "cpu" and not where.stored)
    # The states of whole texts are stored too.
    disk = size + min(MOST_BYTES, 2 * encoder.layers * encoder.width * cost.tokens) if where.stored else 0
    cost += Cost(passes=0, work=skipgram_work(corpus), memory=memory, disk=disk, states=(where.why,))
    return cost + training_cost(estimator, setup, list(probed_rows(encoder, static, tuned, setup)))


@contextualize.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Micro-F1 of all vectors that were probed."""
    split = "dev" if result.provenance.parameters.get("faithful") else "test"
    rows = [
        (
            row["representation"],
            str(row["layer"]) if isinstance(row["layer"], int) else "-",
            row["context"],
            cell(row["value"], row["low"], row["high"]),
        )
        for name in ("sclass", "context")
        for row in overall(result.tables[name], split).to_dict("records")
    ]
    title = f"{result.provenance.model['name']} on {result.provenance.corpus['name']}: semantic classes of words"
    yield Overview(title, ("representation", "layer", "context", f"micro-F1, {split} words"), rows)


def _chosen(preset: str, seeds: int | None, context_sizes: Sequence[int] | None) -> ContextualizePreset:
    chosen = PRESETS[preset]
    sizes = chosen.context_sizes if context_sizes is None else tuple(context_sizes)
    if len(set(sizes)) < len(sizes):
        raise InputError(f"context_sizes: every size is named once; got {', '.join(map(str, sizes))}")
    return replace(chosen, context_sizes=sizes, seeds=chosen.seeds if seeds is None else seeds)


def _find(
    encoder: Encoder,
    corpus: Corpus,
    chosen: ContextualizePreset,
    annotation: str | None,
    seed: int,
    without: frozenset[str],
) -> WordsInContext:
    most = {"most_contexts": chosen.most_contexts, "most_pieces": chosen.most_pieces, "most_words": chosen.most_words}
    return find_words(corpus, encoder, annotation=annotation, **most, seed=seed, without=without)


class _ContextProbes:
    """All vectors that are probed, except those of fine-tuned models."""

    def __init__(self, setup: ClassProbeSetup, encoder: Encoder, representations: Representations) -> None:
        self._setup, self._encoder = setup, encoder
        self.representations = representations
        self.whole = representations.contextual(encoder)

    def beside(self, free: Sequence[Encoder]) -> Iterator[ClassAnswers]:
        """All vectors that the layers are compared with; `free` are those without context."""
        representations, whole = self.representations, self.whole
        yield from answer(self._setup, representations.averaged(whole, f"AVG-{whole.name}"))
        for vectors in free:
            in_place = representations.contextual(vectors)
            yield from answer(self._setup, representations.averaged(in_place, in_place.name))
            representations.done(in_place)
        # Of skip-gram the paper has no bag.
        for vectors in (vectors for vectors in free if vectors.name != "skip-gram"):
            yield from self._once(representations.contextual(vectors, bag=True, name=f"P-{name_of(vectors)}"))
        yield from answer_permuted(self._setup, whole)

    def sweep(self) -> Iterator[ClassAnswers]:
        """Other probes for each size: by layer, and for the bag of the model's input embeddings."""
        sizes = self._setup.preset.context_sizes
        for size in sizes:
            yield from self._once(self.representations.contextual(self._encoder, size=size), str(size))
        if isinstance(self._encoder, HuggingFaceEncoder):
            lexical = self._encoder.lexical()
            for size in sizes:
                bag = self.representations.contextual(lexical, size=size, bag=True, name=f"P-{name_of(lexical)}")
                yield from self._once(bag, str(size))

    def _once(self, representation: Representation, context: str = FULL) -> Iterator[ClassAnswers]:
        """Vectors that nothing else is made from: their disk is free afterwards."""
        yield from answer(self._setup, representation, context=context)
        self.representations.done(representation)


def _used(data: WordsInContext) -> dict[str, int | dict[str, int]]:
    """Sizes after sampling and splitting."""
    return {
        "texts": len(data.texts),
        "classes": len(data.classes),
        "words": {split: data.split.count(split) for split in SPLITS},
        "pairs": {split: sum(data.split[pair.word] == split for pair in data.pairs) for split in SPLITS},
        "contexts": {split: len(data.of(split)) for split in SPLITS},
        "contexts with several classes": int((data.gold.sum(1) > 1).sum()),
    }


NAME = "occurrences.parquet"
"""In a result folder."""


def write_predictions(path: Path, data: WordsInContext, split: str, answers: Iterable[ClassAnswers]) -> None:
    """One row per occurrence of the split's words, row of vectors and seed, one block of rows after the other.

    Columns: `text_id,start,end,word,classes,representation,layer,context,seed,predicted`; `classes` are the true ones,
    `predicted` those whose probe said yes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    items = data.of(split)
    columns = _about(data, items)
    schema = pa.schema(
        [
            *((name, column.type) for name, column in columns.items()),
            ("representation", pa.string()), ("layer", pa.int32()), ("context", pa.string()), ("seed", pa.int32()),
            ("predicted", pa.list_(pa.string())),
        ],
        metadata={"lamina": json.dumps({"classes": data.classes, "split": split})},
    )  # fmt: skip
    with fresh_path(path) as fresh, pq.ParquetWriter(fresh, schema, compression="zstd") as writer:
        for of_layer in answers:
            about = {"representation": of_layer.representation, "layer": of_layer.layer, "context": of_layer.context}
            constant = [
                pa.array([value] * len(items), schema.field(name).type)
                for name, value in {**about, "seed": of_layer.seed}.items()
            ]
            predicted = _names(of_layer.predicted[items], data.classes)
            writer.write_table(pa.table([*columns.values(), *constant, predicted], schema=schema))


def _about(data: WordsInContext, items: np.ndarray) -> dict[str, pyarrow.Array]:
    """What is the same for all probes."""
    import pyarrow as pa

    wanted = np.unique(data.text[items])
    used = set(wanted.tolist())
    ids = [text.id for number, text in enumerate(data.texts) if number in used]
    spelled = pa.array([word.encode("utf-8", "replace").decode() for word in data.words], pa.string())
    named = pa.array([name.encode("utf-8", "replace").decode() for name in ids], pa.string())
    return {
        "text_id": named.take(pa.array(np.searchsorted(wanted, data.text[items]))),
        "start": pa.array(data.spans[items, 0], pa.int32()),
        "end": pa.array(data.spans[items, 1], pa.int32()),
        "word": spelled.take(pa.array(data.word[items])),
        "classes": _names(data.gold[items], data.classes),
    }


def _names(holds: np.ndarray, classes: tuple[str, ...]) -> pyarrow.Array:
    """[item] The names of the classes that hold."""
    import pyarrow as pa

    rows, labels = np.nonzero(holds)
    starts = np.searchsorted(rows, np.arange(len(holds) + 1))
    names = pa.array(classes, pa.string()).take(pa.array(labels))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), names)


_TIMED_BATCHES = 8
_FORWARD = 1 / 3
"""Share of a training step that applying probes to as many examples takes."""
_TIMED_TEXTS = 1000
"""Texts that skip-gram is tried on."""
_TIMED_EPOCHS = 4
_ENCODED_TEXTS = 64
"""Texts that encoding is timed on."""


class ProbedRows(NamedTuple):
    """Rows of vectors, each with its own probes."""

    rows: int
    width: int
    of_types: bool = False
    """Whether a word has one vector, or one per context."""


def probed_rows(
    encoder: Encoder, static: Sequence[Encoder], tuned: Sequence[FinetunedEncoder], setup: ClassProbeSetup
) -> Iterator[ProbedRows]:
    """All that is probed, as `contextualize` does it."""
    layers, width = encoder.layers, encoder.width
    sizes = len(setup.preset.context_sizes)
    permuted = layers if setup.preset.permuted == "all" else 1
    yield ProbedRows(layers * (1 + sizes + len(tuned)) + permuted, width)
    yield ProbedRows(layers, width, of_types=True)
    for other in (*(vectors.width for vectors in static), RANDOM_WIDTH):
        yield ProbedRows(1, other)
        yield ProbedRows(1, other, of_types=True)
    # Skip-gram has no bag.
    yield ProbedRows(1, RANDOM_WIDTH, of_types=True)
    if isinstance(encoder, HuggingFaceEncoder):
        yield ProbedRows(1 + sizes, width)
        yield ProbedRows(1, width, of_types=True)


def disk_bytes(
    encoder: Encoder, tuned: Sequence[FinetunedEncoder], chosen: ContextualizePreset, data: WordsInContext
) -> int:
    """The most that vectors take on disk at once.

    Those of whole texts stay; those of other models, windows or bags are added to them one after the other.
    """
    whole = 2 * encoder.layers * encoder.width * len(data.text)
    through = {model.window for model in tuned if model.window is not None}
    beside = max((bool(chosen.context_sizes), _most_at_once(tuned, through)))
    return whole * (1 + beside) + 2 * RANDOM_WIDTH * len(data.text)


def _most_at_once(tuned: Sequence[FinetunedEncoder], through: set[int]) -> int:
    """Vectors besides the model's: the fine-tuned ones of one window, and the pretrained model's through it."""
    plain = sum(model.window is None for model in tuned)
    return max([plain, *(1 + sum(model.window == window for model in tuned) for window in through)])


def encoding_cost(
    estimator: Estimator, tuned: Sequence[FinetunedEncoder], chosen: ContextualizePreset, data: WordsInContext
) -> Cost:
    """What encoding takes: whole texts with every model, and the windows of every size."""
    texts, tokens = estimator.count(data.texts)
    per_word = tokens / max(1, sum(len(text.words) for text in data.texts))
    models = 1 + len(tuned) + len({model.window for model in tuned if model.window is not None})
    windows = sum(len(data.text) * per_word * (2 * size + 1) for size in chosen.context_sizes)
    return Cost(models, texts, tokens, memory=memory_now(), work=(models * tokens + windows) * estimator.per_token)


def training_cost(estimator: Estimator, setup: ClassProbeSetup, rows: Sequence[ProbedRows]) -> Cost:
    """What training all class probes takes. One step is one batch through the probes of one row."""
    training = setup.training
    probes = len(setup.data.classes) * setup.preset.seeds
    total = Cost(passes=0)
    for group in rows:
        train, dev, test = _items(setup.data, of_types=group.of_types)
        batches = training.epochs * ceil(train / training.batch)
        looks = training.epochs // training.validate_every if training.select else 0
        passed = _FORWARD * (looks * dev + dev + test) / training.batch
        examples = group.rows * (batches + passed) * probes * training.batch
        total += estimator.training(group.rows * batches, 6e-9 * examples * group.width * training.hidden)
    return total


def _items(data: WordsInContext, *, of_types: bool) -> tuple[int, ...]:
    """Training, dev and test items."""
    return tuple(data.split.count(split) if of_types else len(data.of(split)) for split in SPLITS)


def skipgram_work(corpus: Corpus) -> float:
    """Billions of operations that skip-gram vectors take."""
    words = sum(len(text.words) for text in corpus)
    return _SKIPGRAM * words * skipgram_epochs(words) * RANDOM_WIDTH


_SKIPGRAM = 5e-7
"""Billions of operations of a word in an epoch, per dimension: its neighbours, and the negative samples."""


@contextualize.finds
def contextualize_findings(result: Result) -> Iterator[Finding]:
    """The layer chosen on other words, against vectors without context, its average over contexts and less context."""
    if "contrasts" not in result.tables:
        return
    table = result.tables["contrasts"].dropna(subset=["value", "baseline"])
    chosen = table[table["family"] == CHOSEN]
    yield from _beside_static(result, chosen[chosen["comparison"] == STATIC])
    yield from _beside_average(chosen[chosen["comparison"] == AVERAGE])
    yield from _with_less_context(chosen[chosen["comparison"] == LESS_CONTEXT])
    yield from _after_finetuning(table[table["comparison"] == FINETUNED], result)


def _compared(row: Any, *, claim: str, whether: str, absent: str, importance: Any, **more: Any) -> Finding:
    """A finding about one row of `contrasts`."""
    names = ("comparison", "family", "task", "layer", "representation", "against", "window")
    where = {name: _plain(getattr(row, name)) for name in names if not pd.isna(getattr(row, name))}
    source = Source("contrasts", where)
    return finding(
        claim=claim,
        whether=whether,
        absent=absent,
        contrast="difference",
        test=Contrast.of(row, estimate="difference"),
        source=[source, *more.pop("source", ())],
        unit="word type",
        importance=importance,
        unvarying="the two do not differ in any word",
        **more,
    )


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return value.item() if hasattr(value, "item") else value


def _beside_static(result: Result, rows: pd.DataFrame) -> Iterator[Finding]:
    """The chosen layer against the best vectors without context; which layers can be the best."""
    rows = rows.dropna(subset=["layer"])
    if rows.empty:
        return
    row = next(rows_of(rows.loc[[rows["baseline"].idxmax()]]))
    best = rows_of(result.tables["best"].dropna(subset=["value"]))
    where, source = where_best(best, source=Source("best", {"among_best": True}))
    free = f"{row.against}, the best vectors without context"
    how = "better" if row.difference > 0 else "worse"
    numbers = f"micro-F1 {number(row.value)}, {row.against} {number(row.baseline)}"
    yield _compared(
        row,
        claim=f"Layer {row.layer} predicts the semantic classes of new words {how} than {free}: {numbers}{where}",
        whether=f"layer {row.layer} predicts the semantic classes of new words better or worse than {free}",
        absent=f"Layer {row.layer} predicts the semantic classes of new words as well as {free}: {numbers}",
        importance=("answers", "beats control", "localised"),
        source=source,
        note="Other words chose the layer.",
    )


def _beside_average(rows: pd.DataFrame) -> Iterator[Finding]:
    """Whether a vector per context predicts classes better than one per word."""
    for row in rows_of(rows):
        how = "better" if row.difference > 0 else "worse"
        numbers = f"micro-F1 {number(row.value)}, average {number(row.baseline)}"
        one, other = f"At layer {row.layer} one vector per context", "one per word, the average over its contexts"
        yield _compared(
            row,
            claim=f"{one} predicts classes {how} than {other}: {numbers}",
            whether=f"{one.replace('At', 'at', 1)} predicts classes better or worse than {other}",
            absent=f"{one} predicts classes as well as {other}: {numbers}",
            importance=("answers",),
        )


def _with_less_context(rows: pd.DataFrame) -> Iterator[Finding]:
    """The whole text against the smallest context size."""
    if rows.empty:
        return
    row = min(rows_of(rows), key=lambda candidate: int(candidate.window))
    seen = "the word alone" if row.window == 0 else f"{row.window} words on each side"
    how = "better" if row.difference > 0 else "worse"
    numbers = f"micro-F1 {number(row.value)}, {seen} {number(row.baseline)}"
    yield _compared(
        row,
        claim=f"At layer {row.layer} the whole text predicts classes {how} than {seen}: {numbers}",
        whether=f"at layer {row.layer} the whole text predicts classes better or worse than {seen}",
        absent=f"At layer {row.layer} the whole text predicts classes no better than {seen}: {numbers}",
        importance=("answers",),
    )


def _after_finetuning(rows: pd.DataFrame, result: Result) -> Iterator[Finding]:
    """Where old probes lose most, and whether new probes recover it."""
    changes = rows[(rows["representation"] == "a") & (rows["against"] == "pretrained")]
    if changes.empty:
        return
    row = next(rows_of(changes.loc[[changes["difference"].idxmin()]]))
    task, layer = row.task, row.layer
    tuned = result.tables["finetuning"]
    runs = tuned[(tuned["task"] == task) & (tuned["layer"] == layer) & (tuned["setup"] == "a")]
    note = "" if len(runs) > 2 else "One fine-tuned model: another seed may change others."
    lose = "worse" if row.difference < 0 else "better"
    numbers = f"micro-F1 {number(row.value)}, before {number(row.baseline)}"
    yield _compared(
        row,
        claim=f"After fine-tuning for {task} the old probes predict classes {lose} at layer {layer}: {numbers}",
        whether=f"fine-tuning for {task} changes what the old probes predict at layer {layer}",
        absent=f"After fine-tuning for {task} the old probes predict classes as before at layer {layer}: {numbers}",
        importance=("answers", "localised"),
        note=note,
    )
    for new in rows_of(
        rows[
            (rows["representation"] == "b")
            & (rows["against"] == "a")
            & (rows["task"] == task)
            & (rows["layer"] == layer)
        ]
    ):
        better = "better" if new.difference > 0 else "worse"
        numbers = f"micro-F1 {number(new.value)}, old {number(new.baseline)}"
        yield _compared(
            new,
            claim=f"After fine-tuning for {task} new probes predict classes {better} than old ones at layer {layer}: "
            f"{numbers}",
            whether=f"after fine-tuning for {task} new probes predict classes better than old ones at layer {layer}",
            absent=f"After fine-tuning for {task} new probes predict classes as old ones at layer {layer}: {numbers}",
            importance=("answers",),
        )

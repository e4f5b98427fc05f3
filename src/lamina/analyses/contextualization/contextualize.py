"""`lamina.contextualize`: how well each layer tells a word's semantic class in its context."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import pandas as pd

from lamina.activations import Runtime
from lamina.activations.write_through import MOST_BYTES
from lamina.analyses.contextualization.answers import (
    FULL,
    PRESETS,
    Amounts,
    Answers,
    Setup,
    answer,
    answer_permuted,
    probe_files,
)
from lamina.analyses.contextualization.beside import Beside
from lamina.analyses.contextualization.costs import (
    disk_bytes,
    encoding_cost,
    probed_rows,
    skipgram_seconds,
    training_cost,
)
from lamina.analyses.contextualization.findings import contextualize_findings
from lamina.analyses.contextualization.finetuning import (
    FINETUNING,
    SIMILARITY,
    attention_similarity,
    finetuning_table,
    load_finetuned,
    probe_finetuned,
    texts_used,
)
from lamina.analyses.contextualization.predictions import NAME, write_predictions
from lamina.analyses.contextualization.representations import (
    Representation,
    Representations,
    context_free,
    name_of,
    skipgram_of,
    unknown_words,
)
from lamina.analyses.contextualization.tables import (
    BEST,
    CONTEXTS,
    CONTRASTS,
    FAILURES,
    PAIRS,
    PIECES,
    SCORES,
    Scoreboard,
    failure_cases,
    histogram,
    overall,
    pieces_of,
    scores_by_pieces,
)
from lamina.analyses.contextualization.vectors import Workspace
from lamina.analyses.contextualization.words_in_context import SPLITS, WordsInContext, find_words
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import Encoder, load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import Texts
from lamina.framework.settings import Annotation, Preset, Samples, Seed, Seeds, Setting
from lamina.progress import say
from lamina.results import Result
from lamina.results.finding import Finding, cell

_SCORED = (
    "One row per representation, layer, class, seed and split; `all` stands for all classes or seeds, `chose` marks "
    "dev words that chose the epoch of the probes."
)


@analysis(
    title="Words in context",
    question="How well does each layer tell what a word means in its context?",
    method=(
        "One small probe per semantic class is trained on the vectors of some words and scored on other words: no word "
        "is in two of train, dev and test. A word has a class where the probe says so for at least half of its "
        "contexts. The layers are compared with vectors without context, bags of vectors, random vectors and permuted "
        "classes. 95 % intervals resample words, and from 5 seeds on seeds too; differences are paired by word and "
        "corrected by max-T."
    ),
    cites=("Zhao et al. 2020",),
    reads=Texts(split="all"),
    # Five seeds and more widen intervals as far as so few can tell (3). Words weigh by name; paired contrasts (4).
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
        "failures": Table("One row per test word and class that fails or is cut into many pieces.", FAILURES),
        "pieces": Table("One row per number of pieces that words are cut into.", PIECES),
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
    """How well each layer tells a word's semantic class, and how much of its context that takes.

    All texts of the corpus are used; its words are split into train, dev and test. One binary MLP per class is trained
    on the vectors of the training words. Every (word, class) pair of the scored words gets one decision per class:
    yes where the class's probe says yes for at least half of the pair's contexts. Context sizes have probes of their
    own.

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
        setup = Setup(data, chosen, seed, faithful, runtime.training_device, answers)
        question = _Question(setup, encoder, Representations(data, workspace))
        board = Scoreboard(data, samples=samples, seed=seed, selects=not faithful)
        # Encoded first, on all cores; then skip-gram, which takes one core, trains beside the probes.
        question.whole.read(0)
        skipgram = stack.enter_context(Beside(skipgram_of(corpus, seed, answers)))
        learned = probe_finetuned(setup, question.made, tuned, question.whole, save=True)
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


@contextualize.finds
def _findings(result: Result) -> Iterable[Finding]:
    return contextualize_findings(result)


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
    """Encoding of texts and windows, skip-gram, and the training of every class probe; a part of each is timed."""
    start = time.perf_counter()
    chosen = _chosen(preset, seeds, context_sizes)
    tuned = load_finetuned(encoder, finetuned)
    data = _find(encoder, corpus, chosen, annotation, seed, texts_used(tuned))
    static = [load_encoder(name) for name in vectors]
    # So far it is what the analysis does too.
    seconds = time.perf_counter() - start + skipgram_seconds(corpus)
    setup = Setup(data, chosen, seed, faithful, estimator.runtime.training_device, Path())
    size = disk_bytes(encoder, tuned, chosen, data)
    where = estimator.runtime.residence(encoder, size)
    cost = encoding_cost(encoder, tuned, chosen, data)
    memory = cost.memory + 2 * encoder.width * len(data.text) + size * (where.device == "cpu" and not where.stored)
    # The states of whole texts are stored too.
    disk = size + min(MOST_BYTES, 2 * encoder.layers * encoder.width * cost.tokens) if where.stored else 0
    cost += Cost(passes=0, seconds=seconds, memory=memory, disk=disk, states=(where.why,))
    return cost + training_cost(estimator, setup, list(probed_rows(encoder, static, tuned, setup)))


@contextualize.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Micro-F1 of everything that was probed."""
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


def _chosen(preset: str, seeds: int | None, context_sizes: Sequence[int] | None) -> Amounts:
    chosen = PRESETS[preset]
    sizes = chosen.context_sizes if context_sizes is None else tuple(context_sizes)
    if len(set(sizes)) < len(sizes):
        raise InputError(f"context_sizes: every size is named once; got {', '.join(map(str, sizes))}")
    return replace(chosen, context_sizes=sizes, seeds=chosen.seeds if seeds is None else seeds)


def _find(
    encoder: Encoder, corpus: Corpus, chosen: Amounts, annotation: str | None, seed: int, without: frozenset[str]
) -> WordsInContext:
    most = {"most_contexts": chosen.most_contexts, "most_pieces": chosen.most_pieces, "most_words": chosen.most_words}
    return find_words(corpus, encoder, annotation=annotation, **most, seed=seed, without=without)


class _Question:
    """What is probed besides fine-tuned models."""

    def __init__(self, setup: Setup, encoder: Encoder, representations: Representations) -> None:
        self._setup, self._encoder = setup, encoder
        self.made = representations
        self.whole = representations.contextual(encoder)

    def beside(self, free: Sequence[Encoder]) -> Iterator[Answers]:
        """Everything that the layers are compared with; `free` know no context."""
        representations, whole = self.made, self.whole
        yield from answer(self._setup, representations.averaged(whole, f"AVG-{whole.name}"))
        for vectors in free:
            in_place = representations.contextual(vectors)
            yield from answer(self._setup, representations.averaged(in_place, in_place.name))
            representations.done(in_place)
        # Of skip-gram the paper has no bag.
        for vectors in (vectors for vectors in free if vectors.name != "skip-gram"):
            yield from self._once(representations.contextual(vectors, bag=True, name=f"P-{name_of(vectors)}"))
        yield from answer_permuted(self._setup, whole)

    def sweep(self) -> Iterator[Answers]:
        """Other probes for each size: by layer, and for the bag of the model's input embeddings."""
        sizes = self._setup.preset.context_sizes
        for size in sizes:
            yield from self._once(self.made.contextual(self._encoder, size=size), str(size))
        if isinstance(self._encoder, HuggingFaceEncoder):
            lexical = self._encoder.lexical()
            for size in sizes:
                bag = self.made.contextual(lexical, size=size, bag=True, name=f"P-{name_of(lexical)}")
                yield from self._once(bag, str(size))

    def _once(self, representation: Representation, context: str = FULL) -> Iterator[Answers]:
        """Vectors that nothing else is made from: their disk is free afterwards."""
        yield from answer(self._setup, representation, context=context)
        self.made.done(representation)


def _used(data: WordsInContext) -> dict[str, int | dict[str, int]]:
    """What came of sampling and splitting."""
    return {
        "texts": len(data.texts),
        "classes": len(data.classes),
        "words": {split: data.split.count(split) for split in SPLITS},
        "pairs": {split: sum(data.split[pair.word] == split for pair in data.pairs) for split in SPLITS},
        "contexts": {split: len(data.of(split)) for split in SPLITS},
        "contexts with several classes": int((data.gold.sum(1) > 1).sum()),
    }

"""`lamina.contextualize`: how well each layer tells a word's semantic class in its context."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from lamina.activations import StoredActivations
from lamina.analyses.contextualization.answers import Answers, Setting, answer, answer_permuted
from lamina.analyses.contextualization.context_sizes import window_vectors
from lamina.analyses.contextualization.failure_cases import failure_cases, pieces_of, scores_by_pieces
from lamina.analyses.contextualization.finetuning import (
    attention_similarity,
    finetuning_table,
    load_finetuned,
    old_probes,
    texts_used,
)
from lamina.analyses.contextualization.presets import Preset, get_preset
from lamina.analyses.contextualization.representations import (
    Representation,
    averaged,
    bags,
    contextual,
    name_of,
    unknown_words,
    without_context,
)
from lamina.analyses.contextualization.tables import Scoreboard, histogram
from lamina.analyses.contextualization.words_in_context import SPLITS, WordsInContext, find_words
from lamina.corpora import Corpus, load_corpus
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import InputError
from lamina.results import Provenance, Result


def contextualize(
    encoder: Encoder,
    corpus: Corpus | str | Path,
    *,
    annotation: str | None = None,
    context_sizes: Sequence[int] | None = None,
    vectors: Sequence[str] = ("glove",),
    finetuned: Sequence[str] = (),
    preset: str = "quick",
    seeds: int | None = None,
    faithful: bool = False,
    seed: int = 0,
    samples: int = 1000,
    device: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Result:
    """Semantic class probing: every layer beside vectors without context, bags of vectors and controls.

    One binary MLP a class is trained on the vectors of some words and scored on other words: no word is in two of
    train, dev and test. A decision is made for each (word, class) pair and each class's probe: yes where it says yes
    for at least half of the pair's contexts.

    Args:
        encoder: whose layers.
        corpus: a name or path, of which all texts are used, or a corpus.
        annotation: that has the classes; `sclass` or `supersense` by default.
        context_sizes: words each side the model may see, one sweep of probes each; as the preset says by default.
        vectors: static vectors beside the model: assets or files.
        finetuned: folders of models fine-tuned from this one.
        preset: `quick` or `paper`.
        seeds: how often probes are trained; as the preset says by default.
        faithful: the paper's way: the last epoch instead of the best on dev words, vectors as they are.
        seed: of every draw.
        samples: of the bootstrap over words (and seeds).
        device: where probes are trained; a GPU where there is one.
        root: where activations are stored.
    """
    chosen = _chosen(preset, seeds, context_sizes)
    texts = corpus if isinstance(corpus, Corpus) else load_corpus(corpus, "all", seed=seed)
    tuned = load_finetuned(encoder, finetuned)
    data = find_words(
        texts,
        encoder,
        annotation=annotation,
        most_contexts=chosen.most_contexts,
        most_pieces=chosen.most_pieces,
        most_words=chosen.most_words,
        seed=seed,
        without=texts_used(tuned),
    )
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    setting = Setting(data, chosen, seed, faithful, where)
    board = Scoreboard(data, samples=samples, seed=seed)
    whole, stored = contextual(encoder, data, root)
    beside = without_context(encoder, data, texts, vectors, seed)
    changed = [contextual(each.encoder, data, root)[0] for each in tuned]
    answers = list(answer(setting, whole, instead=old_probes(tuned, changed)))
    own = [each for each in answers if each.representation == whole.name]
    swept = list(_sweep(setting, encoder, stored))
    tables = board.tables([*own, *_beside(setting, whole, beside)])
    tables["context"] = board.f1(swept)
    tables["pairs"] = board.pairs([*own, *swept])
    pieces = pieces_of(encoder, data.words)
    tables["failures"] = failure_cases(tables["pairs"], pieces)
    tables["pieces"] = scores_by_pieces(tables["pairs"], pieces)
    tables["contexts"] = histogram(data)
    if tuned:
        tables["finetuning"] = finetuning_table(setting, board, tuned, changed, answers)
        tables["attention_similarity"] = attention_similarity(encoder, tuned, data.texts)
    parameters = {
        "annotation": annotation,
        "context_sizes": None if context_sizes is None else list(context_sizes),
        "vectors": list(vectors),
        "finetuned": list(finetuned),
        "preset": preset,
        "seeds": seeds,
        "faithful": faithful,
        "seed": seed,
        "samples": samples,
    }
    skipped = dict(data.skipped | unknown_words([each for each, _ in beside], data))
    told = texts.describe() | {"used": _used(data), "settings": asdict(chosen)}
    provenance = Provenance(encoder.describe(), told, parameters, (seed, *range(chosen.seeds)), skipped)
    return Result("contextualize", tables, provenance)


def _chosen(preset: str, seeds: int | None, context_sizes: Sequence[int] | None) -> Preset:
    chosen = get_preset(preset)
    sizes = chosen.context_sizes if context_sizes is None else tuple(context_sizes)
    if any(size < 0 for size in sizes) or len(set(sizes)) < len(sizes):
        raise InputError(f"context sizes are different counts of words each side, 0 or more; got {list(sizes)}")
    return replace(chosen, context_sizes=sizes, seeds=chosen.seeds if seeds is None else seeds)


def _beside(
    setting: Setting, whole: Representation, types: Sequence[tuple[Encoder, Representation]]
) -> Iterator[Answers]:
    """Everything that the layers are compared with."""
    data = setting.data
    yield from answer(setting, averaged(whole, data, f"AVG-{whole.name}"))
    for _, one in types:
        yield from answer(setting, one)
    # Of skip-gram the paper has no bag.
    for bag in bags((each for each, _ in types if each.name != "skip-gram"), data):
        yield from answer(setting, bag)
    yield from answer_permuted(setting, whole)


def _sweep(setting: Setting, encoder: Encoder, stored: StoredActivations) -> Iterator[Answers]:
    """Other probes for each size: by layer, and for the bag of the model's input embeddings."""
    sizes = setting.preset.context_sizes
    if not sizes:
        return
    by_size = window_vectors(encoder, setting.data, sizes, stored=stored)
    layers = tuple(range(encoder.layers))
    for size, vectors in by_size.items():
        yield from answer(setting, Representation(encoder.name, layers, vectors), context=str(size))
    if isinstance(encoder, HuggingFaceEncoder):
        lexical = encoder.lexical()
        for size, vectors in window_vectors(lexical, setting.data, sizes, bag=True).items():
            yield from answer(setting, Representation(f"P-{name_of(lexical)}", (None,), vectors), context=str(size))


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

"""`lamina.parse`: how much of a sentence's dependency tree is in a model's attention maps?"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from safetensors.torch import save_file

from lamina.activations import default_root, text_key
from lamina.analyses.attention_maps.parse_scoring import Score, Scorer
from lamina.analyses.attention_maps.parse_sentences import static_vectors
from lamina.analyses.attention_maps.parse_training import Choice, HeadChoice, Learner, shuffled
from lamina.analyses.attention_maps.watching import refuse_without_maps, watch
from lamina.analyses.attention_maps.words import From
from lamina.analyses.probing.splits import Splits, load_splits, thin
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.probes.parsers import AttentionAndWords, AttentionOnly, DistanceAndWords, ParserProbe
from lamina.results import Provenance, Result, result_key
from lamina.types import Text

ONLY, WORDS, DISTANCE = "attention-only", "attention+words", "distance+words"
RANDOM = "random blocks"
TREE, PICK = "spanning tree", "argmax"
BEST, MEAN = "best head", "mean of heads"
PROBES = "probes.safetensors"
DIRECTIONS = ("dependent", "head", "first", "separator")
"""Of a weight: of the dependent's row and of its column in the scores of words; of attention to the first token and to
separators in the root's."""


class _Settings(NamedTuple):
    """What both runs, of the model and of its twin, have in common."""

    splits: Splits
    vectors: Encoder
    rows: From
    faithful: bool
    samples: int
    seed: int


class _Run(NamedTuple):
    """All that one encoder's maps gave."""

    probes: Mapping[str, ParserProbe]
    scores: list[Score]
    weights: Mapping[str, np.ndarray]
    choices: Mapping[str, Choice]
    skipped: Counter[str]


def parse(
    encoder: Encoder,
    corpus: Splits | str | Path,
    *,
    vectors: str | None = None,
    rows: From = "mean",
    faithful: bool = False,
    twin: bool = True,
    texts: int | None = None,
    seed: int = 0,
    samples: int = 1000,
    root: str | os.PathLike[str] | None = None,
) -> Result:
    """Parser probes over attention maps, beside parsers that see no maps or maps of random blocks, and bare trees.

    Each probe is trained for one epoch, one sentence at a time, and scored without punctuation on texts it has not
    learned from. Maps are encoded as they are needed and never stored.

    Args:
        encoder: whose heads.
        corpus: a name or path (train is learned from, dev is scored), or `load_splits(...)`.
        vectors: static vectors of words: `glove`, `model` (the model's own piece embeddings) or a file of vectors; if
            not given, GloVe where this machine has it, the model's own otherwise.
        rows: attention from a split word: the `mean` of its pieces, or the `first` (the paper's code).
        faithful: with the paper's slip: each candidate of attention+words is judged by its right neighbour's vector.
        twin: put the same probes over a network with the model's embeddings and random blocks beside the model.
        texts: learn from about so many texts, in whole documents drawn by hash; all if not given.
        seed: of the order of texts, the twin, the hidden layer and the bootstrap.
        samples: bootstrap samples.
        root: where trained probes are kept, among the activations of other analyses.
    """
    refuse_without_maps(encoder)
    whole = corpus if isinstance(corpus, Splits) else load_splits(corpus, seed=seed)
    _refuse_without_trees(whole)
    splits = replace(whole, train=thin(whole.train, texts, seed))
    static = static_vectors(encoder, vectors)
    settings = _Settings(splits, static, rows, faithful, samples, seed)
    runs = {encoder.name: _run(encoder, settings, bare=True)}
    if twin:
        beside = encoder.random_twin(seed, keep_embeddings=True)
        runs[beside.name] = _run(beside, settings, bare=False)
    made = list(runs.values())
    parameters = {
        "vectors": vectors,
        "rows": rows,
        "faithful": faithful,
        "twin": twin,
        "texts": texts,
        "seed": seed,
        "samples": samples,
    }
    said = encoder.describe() | {"vectors": static.describe()}
    skipped = {f"{name}: {reason}": count for name, run in runs.items() for reason, count in run.skipped.items()}
    described = whole.describe() | {"train": splits.train.describe()}
    provenance = Provenance(said, described, parameters, (seed,), skipped)
    key = result_key("parse", encoder.fingerprint, whole.fingerprint, parameters | {"vectors": static.fingerprint})
    path = Path(default_root() if root is None else root) / "parse" / key[:32] / PROBES
    _save(made, path)
    return Result("parse", _tables(made, encoder.heads), provenance, {PROBES: path})


def _run(encoder: Encoder, settings: _Settings, *, bare: bool) -> _Run:
    """Train and score over one encoder's maps; `bare`: what needs no training, or no maps, too."""
    maps, causal, seed = encoder.blocks * encoder.heads, encoder.causal, settings.seed
    of = "" if bare else f", {RANDOM}"
    width = settings.vectors.width
    probes: dict[str, ParserProbe] = {
        ONLY + of: AttentionOnly(maps),
        WORDS + of: AttentionAndWords(maps, width, faithful=settings.faithful),
    }
    if bare:
        probes[DISTANCE] = DistanceAndWords(width, seed=seed)
    learner = Learner(probes, settings.vectors, causal=causal, seed=seed)
    chooser = HeadChoice(maps)
    skipped: Counter[str] = Counter()
    train = shuffled(_disjoint(settings.splits, skipped), seed)
    meters = [learner, chooser] if bare else [learner]
    cut = watch(encoder, train, meters, rows=settings.rows, total=len(train))
    learner.finish()
    _refuse_nothing(learner.sentences, settings.splits)
    trees = {f"{TREE}, {BEST}": chooser.best_for_links(), f"{TREE}, {MEAN}": chooser.best_for_links(mean=True)}
    picks = {f"{PICK}, {BEST}": chooser.best_for_heads(), f"{PICK}, {MEAN}": chooser.best_for_heads(mean=True)}
    scorer = Scorer(
        probes,
        settings.vectors,
        causal=causal,
        samples=settings.samples,
        seed=seed,
        trees=trees if bare else None,
        picks=picks if bare else None,
        baseline=bare,
    )
    scored = settings.splits.scored
    cut_scored = watch(encoder, scored, [scorer], rows=settings.rows, total=len(scored))
    skipped.update({f"training {reason}": count for reason, count in cut.items()})
    skipped.update({f"scored {reason}": count for reason, count in cut_scored.items()})
    skipped["training texts of one word, whose only candidate is the root"] = learner.lone
    skipped["scored texts of one word, whose only candidate is the root"] = scorer.lone
    skipped["scored texts of punctuation alone, or without dependencies, that score nothing"] = scorer.empty
    return _Run(probes, scorer.scores(), scorer.weights(), trees | picks if bare else {}, skipped)


def _disjoint(splits: Splits, skipped: Counter[str]) -> Iterator[Text]:
    """Training texts that no scored text repeats, with nothing but what is learned from."""
    scored = {text_key(text) for text in splits.scored}
    for text in splits.train:
        if text_key(text) in scored:
            skipped["training texts that stand in the scored split too, left out"] += 1
        elif "dep" in text.edges:
            yield replace(text, edges={name: text.edges[name] for name in ("dep", "pos") if name in text.edges})
        else:
            skipped["training texts without dependencies, left out"] += 1


def _refuse_without_trees(splits: Splits) -> None:
    for corpus in (splits.train, splits.scored):
        if "dep" not in corpus.annotations:
            raise CorpusError(
                f"{corpus.name} ({corpus.split}) has no dependencies to parse; name a treebank, for example ewt, "
                "or a CoNLL-U file with heads"
            )


def _refuse_nothing(sentences: int, splits: Splits) -> None:
    if not sentences:
        raise CorpusError(f"{splits.name}: no training text is left to learn from; give more texts")


def _tables(runs: Sequence[_Run], heads: int) -> dict[str, pd.DataFrame]:
    scores = [score for run in runs for score in run.scores]
    weights = [
        (system, number // heads + 1, number % heads + 1, direction, float(weight))
        for run in runs
        for system, found in run.weights.items()
        for direction, row in zip(DIRECTIONS, found, strict=True)
        for number, weight in enumerate(row)
    ]
    return {
        "uas": pd.DataFrame(scores, columns=list(Score._fields)),
        "weights": pd.DataFrame(weights, columns=["system", "layer", "head", "direction", "weight"]),
        "chosen": _chosen(runs[0].choices, heads),
    }


def _chosen(choices: Mapping[str, Choice], heads: int) -> pd.DataFrame:
    """The map behind each parser that is not trained; the mean of all heads has neither layer nor head."""
    rows = []
    for system, choice in choices.items():
        single = system.endswith(BEST)
        place = (choice.map // heads + 1, choice.map % heads + 1) if single else (pd.NA, pd.NA)
        direction = "both" if system.startswith(TREE) else DIRECTIONS[choice.column]
        rows.append((system, *place, direction, choice.score))
    table = pd.DataFrame(rows, columns=["system", "layer", "head", "direction", "train_score"])
    return table.astype({"layer": "Int64", "head": "Int64"})


def _save(runs: Sequence[_Run], path: Path) -> None:
    """All trained numbers, by system and name."""
    tensors = {
        f"{system}/{name}": value.contiguous()
        for run in runs
        for system, probe in run.probes.items()
        for name, value in probe.state_dict().items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)

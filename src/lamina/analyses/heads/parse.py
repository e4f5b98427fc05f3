"""`lamina.parse`: how much of a sentence's dependency tree is in a model's attention maps?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd

from lamina.activations import Runtime, default_root
from lamina.analyses.heads.behaviours import LEAD
from lamina.analyses.heads.trees import (
    HELD_BYTES,
    RIGHT,
    Choice,
    HeadChoice,
    Learner,
    Score,
    Scorer,
    UnitHits,
    default_vectors,
    shuffled,
    static_vectors,
)
from lamina.corpora.learning import Splits, thin
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.files.checking import save_tensors
from lamina.files.writing import told
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import TrainedTexts
from lamina.framework.settings import Rows, Samples, Seed, Setting, Weights
from lamina.framework.watch import From, Weighting, refuse_without_maps, watch
from lamina.probes.parsers import AttentionAndWords, AttentionOnly, DistanceAndWords, ParserProbe
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, percent, rows_of
from lamina.results.folder import answer_key, question_key
from lamina.stats.family import sign_flip_family
from lamina.stats.status import Contrast
from lamina.stats.units import unit_of
from lamina.types import Text, text_key

ONLY, WORDS, DISTANCE = "attention-only", "attention+words", "distance+words"
RANDOM = "random blocks"
TREE, PICK = "spanning tree", "argmax"
BEST, MEAN = "best head", "mean of heads"
PROBES = "probes.safetensors"
DIRECTIONS = ("dependent", "head", "first", "separator")
"""Of a weight: of the dependent's row and of its column in the scores of words; of attention to the first token and to
separators in the root's."""
WEIGHTS = ("system", "layer", "head", "direction", "weight")
CHOSEN = ("system", "layer", "head", "direction", "train_score")
"""Columns of `weights.csv` and `chosen.csv`."""
CONTRASTS = ("system", "beside", "uas", "beside_uas", *LEAD)
"""Columns of `contrasts.csv`."""
CLAIMS = (
    (WORDS, DISTANCE, "Attention maps and word vectors", "distances and word vectors"),
    (ONLY, RIGHT, "Attention maps alone", "taking the next word as head"),
    (WORDS, f"{WORDS}, {RANDOM}", "The trained maps with word vectors", "maps of random blocks with word vectors"),
)
"""Systems that are compared, and how they are called."""


class _Settings(NamedTuple):
    """What both runs, of the model and of its twin, have in common."""

    splits: Splits
    vectors: Encoder
    rows: From
    weights: Weighting
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
    words: int
    """Scored."""
    units: UnitHits


@analysis(
    title="Parsers from attention",
    question="How much of a sentence's dependency tree is in the attention maps?",
    method=(
        "Probes learn to weight the maps of all heads, in both directions, to find each word's head: one weight per "
        "map, or weights that depend on the two words' static vectors. They are scored without punctuation on texts "
        "they have not learned from, and compared with the next word as head, with word vectors and distances, with "
        "the same probes over random blocks, and with trees taken directly from the maps; 95 % intervals resample "
        "documents (sentences where there is one document). Three pairs of systems are compared on the same documents "
        "by flipping signs, two-sided, in one family (max-T)."
    ),
    cites=("Clark et al. 2019",),
    reads=TrainedTexts(),
    # Bootstrap weights follow from a text's id, no longer from the order of texts (2). Documents are resampled; systems
    # are compared in pairs (3).
    version=3,
    tables={
        "uas": Table(
            "One row per system: UAS, UUAS, and the interval of UAS (of UUAS where there is no UAS).", Score._fields
        ),
        "contrasts": Table(
            "One row per pair of systems that is compared. `difference`: UAS of the one minus that of the other; "
            "interval and `p_adjusted` are two-sided, of one family: these pairs.",
            CONTRASTS,
        ),
        "weights": Table("One row per probe, head and direction: the weight of the head's map.", WEIGHTS),
        "chosen": Table("One row per parser without training: the map it reads, chosen on the training texts.", CHOSEN),
    },
    chapter="heads",
    needs=("maps",),
    example="lamina parse minilm --corpus ewt --out results/parse",
)
def parse(
    encoder: Encoder,
    corpus: Splits,
    *,
    vectors: Annotated[
        str | None,
        Setting(
            "Word vectors: glove, model (the model's own piece embeddings) or a file; GloVe where this machine has it, "
            "the model's own otherwise.",
            file=True,
            stands_for=default_vectors,
        ),
    ] = None,
    rows: Rows = "mean",
    weights: Weights = "attention",
    faithful: Annotated[
        bool, Setting("As in the paper's code, each candidate is judged by its right neighbour's vector.")
    ] = False,
    twin: Annotated[bool, Setting("Train the same probes over the model's embeddings and random blocks too.")] = True,
    texts: Annotated[
        int | None,
        Setting("Learn from about this many texts, in whole documents drawn by hash; all by default.", min=1),
    ] = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """Parser probes over attention maps, with one weight per head or weights that depend on the two words.

    Each probe is trained for one epoch, one sentence at a time, and scored without punctuation on texts it has not
    learned from. Beside the probes: the next word as head, word vectors with distances, the same probes over random
    blocks, and trees taken directly from the maps. Maps are encoded when they are needed and never stored.

    Example:
        >>> result = lamina.parse("minilm", "ewt", texts=1000)  # doctest: +SKIP
        >>> result.tables["uas"]["system"].tolist()[:3]  # doctest: +SKIP
        ['right-branching', 'attention-only', 'attention+words']
    """
    refuse_without_maps(encoder)
    _refuse_without_trees(corpus)
    splits = replace(corpus, train=thin(corpus.train, texts, seed))
    static = static_vectors(encoder, vectors)
    settings = _Settings(splits, static, rows, weights, faithful, samples, seed)
    runs = {encoder.name: _run(encoder, settings, bare=True)}
    if twin:
        beside = encoder.random_twin(seed, keep_embeddings=True)
        runs[beside.name] = _run(beside, settings, bare=False)
    made = list(runs.values())
    trained_by = {
        "rows": rows,
        "weights": weights,
        "faithful": faithful,
        "twin": twin,
        "seed": seed,
        "vectors": static.fingerprint,
    }
    path = _path(question_key("parse", encoder.fingerprint, splits.fingerprint, trained_by), runtime)
    _save(made, path)
    return Tables(
        _tables(made, encoder.heads),
        {f"{name}: {reason}": count for name, run in runs.items() for reason, count in run.skipped.items()},
        model={"vectors": static.describe()},
        data={"train": splits.train.describe(), "resampled": f"{unit_of(splits.scored).by}s"},
        files={PROBES: path},
        scored={"words": made[0].words},
    )


@parse.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Whether maps add to words and distances, to random maps, and what they find alone."""
    table = result.tables.get("contrasts")
    if table is None:
        return
    unit = str(result.provenance.corpus.get("resampled", "documents")).removesuffix("s")
    names = {(system, beside): (one, other) for system, beside, one, other in CLAIMS}
    for row in rows_of(table):
        one, other = names[row.system, row.beside]
        more = "more" if row.difference > 0 else "less"
        plain = one[:1].lower() + one[1:]
        yield finding(
            claim=(
                f"{one} find {more} of the tree than {other}: {percent(row.uas)} of heads against "
                f"{percent(row.beside_uas)}"
            ),
            whether=f"{plain} find more or less of the tree than {other}",
            absent=f"{one} find as much of the tree as {other}",
            contrast="difference of UAS",
            test=Contrast.of(row, *LEAD[:3]),
            source=Source("contrasts", {"system": row.system, "beside": row.beside}),
            unit=unit,
            importance=("answers", "beats control") if row.difference > 0 else ("answers",),
        )


def contrasts(runs: Iterable[UnitHits]) -> pd.DataFrame:
    """Every pair of `CLAIMS` whose systems were scored, paired by document; one family, two-sided."""
    scored = list(runs)
    right = {name: hits for run in scored for name, hits in run.right.items()}
    pairs = [(system, beside) for system, beside, *_ in CLAIMS if system in right and beside in right]
    if not pairs:
        return pd.DataFrame(columns=list(CONTRASTS))
    words = scored[0].words
    differences = np.stack([right[system] - right[beside] for system, beside in pairs], 1)
    tests = sign_flip_family(differences, words, bounds=(-1.0, 1.0))
    total = words.sum()
    shares = [[float(right[name].sum() / total) if total else np.nan for name in pair] for pair in pairs]
    rows = [
        (*pair, *share, *(values[at] for values in tests))
        for at, (pair, share) in enumerate(zip(pairs, shares, strict=True))
    ]
    return pd.DataFrame(rows, columns=list(CONTRASTS)).astype({"units": int, "needed": int})


@parse.shows
def _overview(result: Result) -> Iterable[Overview]:
    """The interval is shown where it belongs: at UAS, or at UUAS where there is no UAS."""
    about = result.provenance
    rows: list[tuple[str | int, ...]] = [
        (
            row.system,
            cell(row.uas, row.low, row.high),
            cell(row.uuas, *((row.low, row.high) if np.isnan(row.uas) else ())),
        )
        for row in rows_of(result.tables["uas"])
    ]
    title = f"{about.model['name']} on {about.corpus['name']} ({about.corpus.get('split', '')})"
    yield Overview(title, ("system", "UAS", "UUAS"), rows)


@parse.costs
def _cost(
    estimator: Estimator, encoder: Encoder, corpus: Splits, *, texts: int | None, seed: int, twin: bool, **_: object
) -> Cost:
    """Learning and scoring both grow with the tokens; sentences wait in memory to be learned from in random order."""
    refuse_without_maps(encoder)
    _refuse_without_trees(corpus)
    whole = estimator.trial(passes=1 + twin, data=replace(corpus, train=thin(corpus.train, texts, seed)))
    return replace(whole, memory=whole.memory + HELD_BYTES)


def _run(encoder: Encoder, settings: _Settings, *, bare: bool) -> _Run:
    """Train and score over one encoder's maps; `bare`: what needs no training, or no maps, too.

    The maps are watched here and not by way of the runner: what is learned depends on the order of the texts, which
    would change with whoever shared the pass.
    """
    maps, causal, seed = encoder.blocks * encoder.heads, encoder.causal_maps, settings.seed
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
    cut = watch(encoder, train, meters, rows=settings.rows, total=len(train), weights=settings.weights)
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
        unit=unit_of(settings.splits.scored),
        trees=trees if bare else None,
        picks=picks if bare else None,
        baseline=bare,
    )
    scored = settings.splits.scored
    cut_scored = watch(encoder, scored, [scorer], rows=settings.rows, total=len(scored), weights=settings.weights)
    skipped.update({f"training {reason}": count for reason, count in cut.items()})
    skipped.update({f"scored {reason}": count for reason, count in cut_scored.items()})
    skipped["training texts of one word, whose only candidate is the root"] = learner.lone
    skipped["scored texts of one word, whose only candidate is the root"] = scorer.lone
    skipped["scored texts of punctuation alone, or without dependencies, that score nothing"] = scorer.empty
    return _Run(
        probes, scorer.scores(), scorer.weights(), trees | picks if bare else {}, skipped, scorer.words, scorer.units()
    )


def _disjoint(splits: Splits, skipped: Counter[str]) -> Iterator[Text]:
    """Training texts that no scored text repeats, with nothing but what is learned from."""
    scored = {text_key(text) for text in splits.scored}
    for text in splits.train:
        if text_key(text) in scored:
            skipped["training texts that are in the scored split too, left out"] += 1
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
        "contrasts": contrasts(run.units for run in runs),
        "weights": pd.DataFrame(weights, columns=list(WEIGHTS)),
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
    table = pd.DataFrame(rows, columns=list(CHOSEN))
    return table.astype({"layer": "Int64", "head": "Int64"})


def _path(question: str, runtime: Runtime) -> Path:
    """Where trained probes are kept: among the activations of other analyses."""
    root = default_root() if runtime.store is None else runtime.store
    return root / "parse" / answer_key(question, parse.version)[:32] / PROBES


def _save(runs: Sequence[_Run], path: Path) -> None:
    """All trained numbers, by system and name."""
    tensors = {
        f"{system}/{name}": value
        for run in runs
        for system, probe in run.probes.items()
        for name, value in probe.state_dict().items()
    }
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    save_tensors(path, tensors, {"format": 1})

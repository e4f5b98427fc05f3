"""`lamina.structure`: are dependency trees in the geometry of a model's layers, and in its attention?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

import pandas as pd

from lamina.activations import Runtime
from lamina.analyses.structure.attention_trees import (
    CHOSEN,
    TREE_CONTRASTS,
    TREES,
    FromAttention,
    trees_from_attention,
)
from lamina.analyses.structure.examples import EXAMPLES, example_rows
from lamina.analyses.structure.findings import describe, first_layer, tell_findings
from lamina.analyses.structure.gold import refuse_without_heads
from lamina.analyses.structure.probing import STRUCTURE, TRAINING, How, Probed, Probing
from lamina.analyses.structure.scores import (
    BEST,
    CONTRASTS,
    CONTROL,
    MODEL,
    TWIN,
    UUAS,
    Score,
    best_rows,
    contrast_rows,
)
from lamina.analyses.structure.words import Trees, read_trees
from lamina.corpora.learning import Splits, thin
from lamina.encoders import Encoder
from lamina.errors import InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import TrainedTexts
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.framework.watch import refuse_without_maps
from lamina.probes.structural import PAPER, Group, StructuralSchedule
from lamina.results import Result
from lamina.results.finding import Finding

FULL, SOME, POWERS = "full", "some", "powers"


@analysis(
    title="Trees in layers",
    question="Are dependency trees in the geometry of a model's layers, and in its attention?",
    method=(
        "A linear map is learned under which squared distances between words are their distances in the tree, and "
        "another one whose squared norms are depths, for every layer and rank. They are scored on other texts, without "
        "punctuation, beside the words in a row, random projections, the random-weights twin, averages of neighbours "
        "and shuffled trees. Trees are also read from attention maps, as maximum spanning arborescences. 95 % "
        "intervals resample documents."
    ),
    cites=("Hewitt and Manning 2019", "Raganato and Tiedemann 2018"),
    reads=TrainedTexts(),
    # 2: best layers are confidence sets; contrasts with all baselines are tested; documents are resampled throughout.
    version=2,
    tables={
        "structure": Table(
            "One row per layer, rank, seed, measure and what is probed; of: model, twin (random weights), projection "
            "(random map), chain (words in a row), decay (layer 0 averaged over neighbours), control (shuffled trees).",
            STRUCTURE,
        ),
        "best": Table(
            "One row per measure and layer of the model at the largest rank, mean over seeds; p_beaten: that another "
            "layer is better (max-T over the other layers, one-sided); among_best: at least .05, so that the layer can "
            "be the best.",
            BEST,
        ),
        "contrasts": Table(
            "One row per measure (UUAS, root accuracy), layer and what stands beside the model: model minus other on "
            "the same texts; p_adjusted and intervals are of one family (max-T over all rows, bootstrap, two-sided).",
            CONTRASTS,
        ),
        "training": Table(
            "One row per probe: lowest loss on stopping sentences, the loss of one distance (depth) for all, epochs, "
            "whether it converged.",
            TRAINING,
        ),
        "trees": Table(
            "One row per source of trees and measure, all on the same sentences; directed: with the gold root given, "
            "with a free root, or not.",
            TREES,
            optional=True,
        ),
        "tree_contrasts": Table(
            "One row per source of trees and what it is compared with: UAS with a free root on the same sentences, "
            "source minus other; p_adjusted and intervals are of one family (max-T over all rows, signs of documents "
            "flipped, two-sided).",
            TREE_CONTRASTS,
            optional=True,
        ),
        "chosen": Table(
            "One row per map and direction of reading: UAS on training sentences, by which the direction, the best "
            "head and the combination are chosen.",
            CHOSEN,
            optional=True,
        ),
        "examples": Table(
            "One row per word of some scored sentences: its head, and the word it is linked to in the probe's tree "
            "(0: root).",
            EXAMPLES,
        ),
    },
    chapter="layers",
    needs=("states",),
    example="lamina structure minilm --corpus ewt --texts 2000 --out results/structure",
)
def structure(
    encoder: Encoder,
    corpus: Splits,
    *,
    layers: Annotated[
        Sequence[int] | None, Setting("Layers to probe (0: embeddings); all by default.", option="--layer", min=0)
    ] = None,
    ranks: Annotated[
        Sequence[str],
        Setting(
            "Ranks of the map: numbers, full (the width), some (2, 8, 32, 128 and full) or powers (of two, and full).",
            option="--rank",
        ),
    ] = (SOME,),
    seeds: Annotated[int, Setting("How often probes are trained.", min=1)] = 1,
    twin: Twin = True,
    control: Annotated[bool, Setting("Train probes on shuffled trees too.")] = True,
    faithful: Annotated[
        bool,
        Setting(
            "As in the released code: layers as they are, its schedule, its punctuation tags (xpos), gold links closed "
            "over punctuation, every sentence's root counted."
        ),
    ] = False,
    attention: Annotated[
        int,
        Setting("Scored texts whose attention is parsed, about; 0 to disable. Their other trees go beside it.", min=0),
    ] = 300,
    learn: Annotated[
        int, Setting("Training texts that heads are chosen and parsers are trained on, about.", min=1)
    ] = 600,
    texts: Annotated[
        int | None,
        Setting("Learn from about this many texts, in whole documents drawn by hash; all by default.", min=1),
    ] = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """Dependency trees as distances and depths under a linear map of each layer, and as trees from attention.

    Twin, control and the average of neighbours are probed with the largest rank. A probe that has not converged has no
    score; `training` says how far it came.

    Example:
        >>> result = lamina.structure("minilm", "ewt", texts=2000, attention=0)  # doctest: +SKIP
        >>> result.tables["structure"]["measure"].unique().tolist()  # doctest: +SKIP
        ['uuas', 'dspr', 'root', 'nspr']
    """
    refuse_without_heads((corpus.train, corpus.scored), faithful=faithful)
    if attention and encoder.heads:
        refuse_without_maps(encoder)
    splits = replace(corpus, train=thin(corpus.train, texts, seed))
    chosen, widths = _layers(encoder, layers), _ranks(encoder, ranks)
    trees = read_trees(splits, faithful=faithful, seed=seed)
    how = How(PAPER if faithful else StructuralSchedule(), faithful, samples, seed)
    probing = Probing(splits, trees, chosen, how, runtime)
    every = [
        Group(kind, rank, seed + number) for kind in ("distance", "depth") for rank in widths for number in range(seeds)
    ]
    largest = [group for group in every if group.rank == widths[-1]]
    of_model = probing.probe(encoder, MODEL, every, decay=True, projections=True)
    results = [of_model]
    if twin:
        results.append(probing.probe(encoder.random_twin(seed), TWIN, largest))
    if control:
        results.append(probing.probe(encoder, CONTROL, largest))
    results.append(probing.chain())
    rows = [row for result in results for row in result.rows]
    scores: dict[tuple[str, int | None, str], list[Score]] = {}
    for result in results:
        scores |= result.scores
    training = pd.DataFrame([row for result in results for row in result.training], columns=list(TRAINING))
    table = pd.DataFrame(rows, columns=list(STRUCTURE)).astype({"layer": "Int64", "rank": "Int64", "seed": "Int64"})
    best = pd.DataFrame(best_rows(scores, probing.units), columns=list(BEST))
    drawn_layer = first_layer(best, UUAS)
    tables = {
        "structure": table,
        "best": best,
        "contrasts": pd.DataFrame(contrast_rows(scores, probing.units), columns=list(CONTRASTS)),
        "training": training,
        "examples": pd.DataFrame(
            example_rows(trees.scored, of_model.predicted, drawn_layer, seed=seed), columns=list(EXAMPLES)
        ),
    }
    skipped: Counter[str] = Counter()
    skipped["probes that did not converge"] = int((~training["converged"].astype(bool)).sum())
    above = (training["of"] == MODEL) & (training["loss"] >= training["constant"])
    skipped["probes of the model whose loss is no lower than that of a constant, scored all the same"] = int(
        above.sum()
    )
    skipped["training texts that are in the scored split too, left out"] = trees.repeated
    scored = {"links": sum(len(tree.links) for tree in trees.scored)}
    if attention and encoder.heads:
        from_attention = _from_attention(
            encoder, splits, trees, of_model, attention=attention, learn=learn, samples=samples, seed=seed
        )
        placed = {"layer": "Int64", "head": "Int64"}
        tables["trees"] = pd.DataFrame(from_attention.trees, columns=list(TREES)).astype(placed)
        tables["tree_contrasts"] = pd.DataFrame(from_attention.contrasts, columns=list(TREE_CONTRASTS))
        tables["chosen"] = pd.DataFrame(from_attention.chosen, columns=list(CHOSEN)).astype(placed)
        skipped.update(from_attention.skipped)
        scored["sentences with trees from attention"] = from_attention.scored
    return Tables(
        tables,
        dict(+skipped),
        data={"train": splits.train.describe(), "schedule": how.schedule.describe()},
        seeds=tuple(range(seed, seed + seeds)),
        scored=scored,
    )


@structure.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Where trees are best recovered, beside what; the root; the control; attention."""
    return tell_findings(result)


@structure.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per layer, and the best of every source of trees."""
    return describe(result)


@structure.costs
def _cost(
    estimator: Estimator, encoder: Encoder, corpus: Splits, *, layers: Sequence[int] | None, ranks: Sequence[str],
    twin: bool, control: bool, faithful: bool, texts: int | None, seed: int, **_: Any,
) -> Cost:  # fmt: skip
    """A trial tells the time per token; training on a few sentences takes as many steps as on many."""
    refuse_without_heads((corpus.train, corpus.scored), faithful=faithful)
    _layers(encoder, layers)
    _ranks(encoder, ranks)
    whole = estimator.trial(passes=1 + twin, data=replace(corpus, train=thin(corpus.train, texts, seed)))
    schedule = PAPER if faithful else StructuralSchedule()
    steps = (schedule.validate_every or len(corpus.train) // schedule.batch) * schedule.max_validations
    state_bytes = 2 * encoder.layers * encoder.width * whole.tokens
    return replace(whole, steps=steps * (1 + twin + control), memory=whole.memory + state_bytes)


def _layers(encoder: Encoder, layers: Sequence[int] | None) -> list[int]:
    if layers is None:
        return list(range(encoder.layers))
    for layer in layers:
        if not 0 <= layer < encoder.layers:
            raise InputError(
                f"--layer {layer}: {encoder.name} has layers 0 (embeddings) to {encoder.layers - 1}, no other"
            )
    return sorted(set(layers))


def _ranks(encoder: Encoder, ranks: Sequence[str]) -> list[int]:
    """Ascending; the largest is the one that everything is compared at."""
    width = encoder.width
    powers = [2**power for power in range(width.bit_length()) if 2**power < width]
    chosen: set[int] = set()
    for rank in ranks or (SOME,):
        if rank == FULL:
            chosen.add(width)
        elif rank == SOME:
            chosen |= {rank for rank in (2, 8, 32, 128) if rank < width} | {width}
        elif rank == POWERS:
            chosen |= {*powers, width}
        elif rank.isdecimal() and 1 <= int(rank) <= width:
            chosen.add(int(rank))
        else:
            raise InputError(
                f"--rank {rank}: a rank is a number from 1 to {width} (the width of {encoder.name}), full, "
                "some or powers"
            )
    return sorted(chosen)


def _from_attention(
    encoder: Encoder,
    splits: Splits,
    trees: Trees,
    of_model: Probed,
    *,
    attention: int,
    learn: int,
    samples: int,
    seed: int,
) -> FromAttention:
    """Trees from maps, on a part of the texts: maps are not stored."""
    learned = {trees.train[number].key for number in trees.learn}
    train = [text for text in thin(splits.train, learn, seed) if text.id in learned]
    scored = list(thin(splits.scored, attention, seed))
    by_id = {tree.key: tree for tree in trees.train}
    gold = {tree.key: tree for tree in trees.scored}
    place = {tree.key: number for number, tree in enumerate(trees.scored)}
    probed = {
        layer: {
            text.id: (distances[place[text.id]], of_model.predicted[layer, "depth"][place[text.id]]) for text in scored
        }
        for (layer, kind), distances in of_model.predicted.items()
        if kind == "distance" and (layer, "depth") in of_model.predicted
    }
    return trees_from_attention(
        encoder, train, {text.id: by_id[text.id] for text in train}, scored,
        {text.id: gold[text.id] for text in scored}, probed, samples=samples, seed=seed,
    )  # fmt: skip

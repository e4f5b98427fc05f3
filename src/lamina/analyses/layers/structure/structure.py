"""`lamina.structure`: are dependency trees in the geometry of a model's layers, and in its attention?"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.activations import Runtime
from lamina.analyses.layers.structure.attention_trees import (
    BEST_HEAD,
    CHOSEN,
    COMBINED,
    OFFSET,
    RIGHT,
    TREE_CONTRASTS,
    TREES,
    WITHOUT,
    AttentionTrees,
    trees_from_attention,
)
from lamina.analyses.layers.structure.probing import (
    BEST,
    CHAIN,
    CONTRASTS,
    CONTROL,
    DECAY,
    DSPR,
    MEASURES,
    MODEL,
    NSPR,
    PROJECTION,
    ROOT_ACCURACY,
    STRUCTURE,
    TRAINING,
    TWIN,
    UUAS,
    ResampledScore,
    SplitTrees,
    StructureProbing,
    StructureScores,
    StructureSettings,
    best_rows,
    contrast_rows,
    read_trees,
)
from lamina.analyses.layers.structure.trees import GoldTree, directed_from, refuse_without_heads, smallest_tree
from lamina.corpora.splits import Splits, thin
from lamina.errors import InputError
from lamina.framework.declare import ComparedLayers, LayerMeasure, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import TrainedTexts
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.framework.watch import refuse_without_maps
from lamina.models import Encoder
from lamina.probes.structural import PAPER, Kind, StructuralGroup, StructuralSchedule
from lamina.results import Result
from lamina.results.finding import (
    Finding,
    Source,
    best_in_words,
    cell,
    finding,
    layers_in_words,
    not_tested,
    percent,
    rows_of,
    weakest,
)
from lamina.stats.status import SURE, Contrast

EXAMPLES = ("sentence", "layer", "position", "word", "punctuation", "head", "linked")


FULL, SOME, POWERS = "full", "some", "powers"


@analysis(
    title="Trees in layers",
    question="Are dependency trees in the geometry of a model's layers, and in its attention?",
    method=(
        "A linear map is learned under which squared distances between words are their distances in the tree, and "
        "another one whose squared norms are depths, for every layer and rank. They are scored on other texts, without "
        "punctuation, and compared with words in a row, random projections, the untrained twin, averages of neighbours "
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
            "One row per measure (UUAS, root accuracy), layer and baseline: model minus other on "
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
    compares=ComparedLayers(
        "best",
        (
            LayerMeasure("uuas", "Links of the tree (UUAS)", "share of links", ability=True),
            LayerMeasure("root", "Root", "share of sentences", ability=True),
            LayerMeasure("dspr", "Distances in the tree", "rank correlation", ability=True),
            LayerMeasure("nspr", "Depths in the tree", "rank correlation", ability=True),
        ),
        draws="",
    ),
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
        Setting("Approximate number of scored texts whose attention is parsed; 0 to disable.", min=0),
    ] = 300,
    learn: Annotated[
        int, Setting("Approximate number of training texts for choosing heads and training parsers.", min=1)
    ] = 600,
    texts: Annotated[
        int | None,
        Setting("Approximate number of training texts, as whole documents drawn by hash; all by default.", min=1),
    ] = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    runtime: Runtime,
    work: Path | None = None,
) -> Tables:
    """Dependency trees as distances and depths under a linear map of each layer, and as trees from attention.

    Twin, control and the average of neighbours are probed with the largest rank. A probe that has not converged has no
    score; `training` has its losses. A run that was stopped continues with the probes that it had trained.

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
    how = StructureSettings(PAPER if faithful else StructuralSchedule(), faithful, samples, seed)
    probing = StructureProbing(splits, trees, chosen, how, runtime, work)
    every = [
        StructuralGroup(kind, rank, seed + number)
        for kind in ("distance", "depth")
        for rank in widths
        for number in range(seeds)
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
    scores: dict[tuple[str, int | None, str], list[ResampledScore]] = {}
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


@structure.costs
def _cost(
    estimator: Estimator, encoder: Encoder, corpus: Splits, *, layers: Sequence[int] | None, ranks: Sequence[str],
    twin: bool, control: bool, faithful: bool, texts: int | None, seed: int, **_: Any,
) -> Cost:  # fmt: skip
    """Training takes as many steps on few sentences as on many; a step is a batch through all layers and ranks."""
    refuse_without_heads((corpus.train, corpus.scored), faithful=faithful)
    _layers(encoder, layers)
    _ranks(encoder, ranks)
    whole = estimator.reading(passes=1 + twin, data=replace(corpus, train=thin(corpus.train, texts, seed)))
    schedule = PAPER if faithful else StructuralSchedule()
    steps = (schedule.validate_every or len(corpus.train) // schedule.batch) * schedule.max_validations
    state_bytes = 2 * encoder.layers * encoder.width * whole.tokens
    trained = steps * (1 + twin + control)
    products = sum(_ranks(encoder, ranks)) * encoder.width * len(_layers(encoder, layers))
    work = whole.work + trained * schedule.batch * 6e-9 * whole.tokens / max(1, whole.texts) * products
    return replace(whole, steps=trained, memory=whole.memory + state_bytes, work=work)


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
    trees: SplitTrees,
    of_model: StructureScores,
    *,
    attention: int,
    learn: int,
    samples: int,
    seed: int,
) -> AttentionTrees:
    """Trees from maps, on a part of the texts: maps are not stored."""
    learned = {trees.train[number].key for number in trees.learn}
    train = [text for text in thin(splits.train, learn, seed) if text.id in learned]
    if not train:
        raise InputError(
            f"none of the training texts drawn by --learn {learn} is among those that probes learned from; "
            "give a larger --learn, a larger --texts, or --attention 0"
        )
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


_BESIDE = {
    CHAIN: "words in a row",
    DECAY: "averaged neighbours",
    TWIN: "the untrained twin",
    PROJECTION: "a random projection",
}
_ATTENTION = {
    RIGHT: "always the next word",
    OFFSET: "the best fixed offset",
    WITHOUT: "a parser without attention",
    BEST_HEAD: "The best attention head",
    COMBINED: "The best combination of attention heads",
}


class _TreeMeasure(NamedTuple):
    """What a measure counts."""

    things: str
    kind: str
    """Of the probe."""


_TREE_MEASURES = {
    UUAS: _TreeMeasure("links between words", "distance"),
    ROOT_ACCURACY: _TreeMeasure("roots of sentences", "depth"),
}


def first_layer(best: pd.DataFrame, measure: str) -> int | None:
    """The layer with the best score, which is the one in figures; others may be as good."""
    of_measure = best[best["measure"] == measure]
    return int(of_measure["layer"].iloc[int(of_measure["value"].to_numpy().argmax())]) if len(of_measure) else None


@structure.finds
def tell_findings(result: Result) -> Iterator[Finding]:
    """Links and roots against all baselines, with the layers that can be best; shuffled trees; attention."""
    for measure in _TREE_MEASURES:
        yield from _beside(result, measure)
    yield from _below_twin(result)
    yield from _control(result)
    yield from _unfitted(result.tables["training"])
    if "tree_contrasts" in result.tables:
        yield from _attention(result.tables["tree_contrasts"])


def _beside(result: Result, measure: str) -> Iterator[Finding]:
    """The layer with the best score, against the baseline with the weakest test."""
    table, best = result.tables["contrasts"], result.tables["best"]
    things, kind = _TREE_MEASURES[measure]
    layer = first_layer(best, measure)
    if layer is None:
        reason = f"no probe of {kind}s with the largest rank had converged"
        yield not_tested(f"a layer holds {things}", reason, importance=("answers",))
        return
    rows = table[(table["measure"] == measure) & (table["layer"] == layer) & table["against"].isin(list(_BESIDE))]
    if rows.empty:
        return
    row = weakest(rows_of(rows), lambda row: row.estimate)
    other = _BESIDE[row.against]
    numbers = f"layer {layer} finds {percent(row.value)} of them, {other} {percent(row.other)}"
    yield finding(
        claim=f"{_best_layers(best, measure)}: {numbers}",
        whether=f"layer {layer} finds more {things} than {other}",
        absent=f"Layer {layer} finds no more {things} than {other}",
        contrast="difference",
        test=Contrast.of(row),
        source=(
            Source("contrasts", {"measure": measure, "layer": layer, "against": row.against}),
            Source("best", {"measure": measure, "among_best": True}),
        ),
        unit=row.unit,
        importance=("answers", "beats control", "localised"),
        note=_missing(result.tables["training"], kind),
    )


def _best_layers(best: pd.DataFrame, measure: str) -> str:
    """Which layers can be best."""
    of_measure, things = best[best["measure"] == measure], _TREE_MEASURES[measure].things
    among = best_in_words(of_measure["layer"].tolist(), of_measure["among_best"].astype(bool).tolist())
    if among or len(of_measure) == 1:
        return f"{things[0].upper()}{things[1:]} are found{' best' if len(of_measure) > 1 else ''} at {among}"
    return f"No layer was shown to find {things} better than another"


def _missing(training: pd.DataFrame, kind: str) -> str:
    """Layers that have no score."""
    largest = training[(training["of"] == MODEL) & (training["kind"] == kind)]
    largest = largest[(largest["rank"] == largest["rank"].max()) & ~largest["converged"].astype(bool)]
    return f"Probes of {layers_in_words(largest['layer'])} had not converged and have no score." if len(largest) else ""


def _below_twin(result: Result) -> Iterator[Finding]:
    """Layers at which less is found than with random weights."""
    table = result.tables["contrasts"]
    beside_twin = table[(table["measure"] == UUAS) & (table["against"] == TWIN)]
    below = beside_twin[(beside_twin["estimate"] < 0) & (beside_twin["p_adjusted"] < SURE) & (beside_twin["high"] < 0)]
    if below.empty:
        return
    row = next(rows_of(below.sort_values(["p_adjusted", "estimate"], ascending=False)))
    layers = layers_in_words(below["layer"])
    links = _TREE_MEASURES[UUAS].things
    yield finding(
        claim=f"{layers[0].upper()}{layers[1:]} find{'s' * (len(below) == 1)} fewer {links} than with random weights",
        whether=f"{layers} find{'s' * (len(below) == 1)} fewer {links} than with random weights",
        absent=f"{layers[0].upper()}{layers[1:]} find as many {links} as with random weights",
        contrast=f"difference at layer {row.layer}",
        test=Contrast.of(row),
        source=[
            Source("contrasts", {"measure": UUAS, "layer": int(layer), "against": TWIN}) for layer in below["layer"]
        ],
        unit=row.unit,
        importance=("localised", "surprises"),
    )


def _control(result: Result) -> Iterator[Finding]:
    table = result.tables["contrasts"]
    layer = first_layer(result.tables["best"], UUAS)
    beside_control = table[(table["measure"] == UUAS) & (table["against"] == CONTROL) & (table["layer"] == layer)]
    for row in rows_of(beside_control):
        of = f"the probe of layer {layer}"
        yield finding(
            claim=f"{of[0].upper()}{of[1:]} finds {percent(row.value)} of annotated links, of shuffled trees' links "
            f"{percent(row.other)}",
            whether=f"{of} finds more annotated links than links of shuffled trees",
            absent=f"{of[0].upper()}{of[1:]} finds no more annotated links than links of shuffled trees",
            contrast="difference",
            test=Contrast.of(row),
            source=Source("contrasts", {"measure": UUAS, "layer": layer, "against": CONTROL}),
            unit=row.unit,
            importance=("beats control",),
        )


def _unfitted(training: pd.DataFrame) -> Iterator[Finding]:
    """Layers whose probes have settled above the loss of one answer for all: a plateau alone is no fit."""
    largest = training[(training["of"] == MODEL) & training["converged"].astype(bool)]
    largest = largest[largest["rank"] == largest["rank"].max()]
    for kind, answer in (("distance", "one distance for all pairs of words"), ("depth", "one depth for all words")):
        means = largest[largest["kind"] == kind].groupby("layer")[["loss", "constant"]].mean()
        above = means[means["loss"] >= means["constant"]]
        if len(above):
            reason = f"the probes fit no better than {answer}, so their scores only show how words are ordered"
            yield not_tested(
                f"{layers_in_words(above.index)} hold{'s' * (len(above) == 1)} tree {kind}s",
                reason,
                source=[Source("training", {"of": MODEL, "kind": kind, "layer": layer}) for layer in above.index],
            )


def _attention(table: pd.DataFrame) -> Iterator[Finding]:
    """The best head and the best combination, chosen on training sentences; what attention adds to words."""
    for source in (COMBINED, BEST_HEAD):
        of_source = table[table["source"] == source]
        if of_source.empty:
            continue
        row = weakest(rows_of(of_source), lambda row: row.estimate)
        name, other = _ATTENTION[source], _ATTENTION[row.against]
        yield finding(
            claim=f"{name} gives {percent(row.value)} of words their head, {other} {percent(row.other)}",
            whether=f"{name[0].lower()}{name[1:]} gives more words their head than {other}",
            absent=f"{name} gives no more words their head than {other}",
            contrast="difference",
            test=Contrast.of(row),
            source=Source("tree_contrasts", {"source": source, "against": row.against}),
            unit=row.unit,
            importance=("answers", "beats control") if source == COMBINED else ("beats control",),
        )
    for row in rows_of(table[table["against"] == WITHOUT]):
        yield finding(
            claim=f"A parser over attention and words gives {percent(row.value)} of words their head, one without "
            f"attention {percent(row.other)}",
            whether="attention adds to what a parser knows from words and distances",
            absent="Attention adds nothing to what a parser knows from words and distances",
            contrast="difference",
            test=Contrast.of(row),
            source=Source("tree_contrasts", {"source": row.source, "against": WITHOUT}),
            unit=row.unit,
            importance=("beats control",),
        )


_TITLES = {UUAS: "UUAS", ROOT_ACCURACY: "root", DSPR: "DSpr", NSPR: "NSpr"}


@structure.shows
def describe(result: Result) -> Iterable[Overview]:
    """Every layer at the largest rank, and the baselines."""
    table = result.tables["structure"]
    rows: list[tuple[str | int, ...]] = []
    largest = table["rank"].max()
    named: Any
    for named, of_group in table.groupby(["of", "layer"], sort=False, dropna=False):
        of, layer = named
        of_rank = of_group[(of_group["rank"] == largest) | of_group["rank"].isna()]
        of_rank = of_rank[of_rank["seed"].isna() | (of_rank["seed"] == of_rank["seed"].min())]
        cells = {row.measure: cell(row.value, row.low, row.high) for row in rows_of(of_rank)}
        rows.append((str(of), "-" if pd.isna(layer) else int(layer), *(cells.get(name, "-") for name in MEASURES)))
    about = result.provenance
    title = f"{about.model['name']} on {about.corpus['name']} ({about.corpus.get('split', '')}), rank {largest}"
    yield Overview(title, ("of", "layer", *_TITLES.values()), rows)
    if "trees" in result.tables:
        trees = result.tables["trees"]
        some = trees[~trees["source"].isin(["attention_head", "attention_layer"])]
        listed: list[tuple[str | int, ...]] = [
            (row.source, "-" if pd.isna(row.layer) else int(row.layer), row.directed, row.measure,
             cell(row.value, row.low, row.high))
            for row in rows_of(some)
        ]  # fmt: skip
        yield Overview("Trees on the same sentences", ("source", "layer", "directed", "measure", "value"), listed)


_MANY = 4
_LENGTHS = (7, 13)
"""Words that are not punctuation, fewest and most: enough to see a tree, and not too many for a line."""


def example_rows(
    trees: Sequence[GoldTree],
    predicted: Mapping[tuple[int, Kind], Sequence[np.ndarray]],
    layer: int | None,
    *,
    seed: int,
) -> list[tuple[Any, ...]]:
    """Sentences drawn by hash, whatever the probe's trees."""
    if layer is None or (layer, "depth") not in predicted:
        return []
    fit = [number for number, tree in enumerate(trees) if _LENGTHS[0] <= len(tree.unpunctuated) <= _LENGTHS[1]]
    fit = fit or [number for number, tree in enumerate(trees) if len(tree.unpunctuated) > 1]
    drawn = sorted(fit, key=lambda number: hashlib.sha256(f"{seed}:{trees[number].key}".encode()).digest())[:_MANY]
    rows = []
    for number in drawn:
        tree, distances, depths = trees[number], predicted[layer, "distance"][number], predicted[layer, "depth"][number]
        links = smallest_tree(distances, tree.unpunctuated)
        root = int(tree.unpunctuated[depths[tree.unpunctuated].argmin()])
        linked = directed_from(links, len(tree), root) + 1
        for word, text in enumerate(tree.words):
            out = bool(tree.punctuation[word])
            rows.append(
                (tree.key, layer, word + 1, text, out, int(tree.heads[word]), None if out else int(linked[word]))
            )
    return rows

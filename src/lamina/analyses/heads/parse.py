"""`lamina.parse`: how much of a sentence's dependency tree is in a model's attention maps?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lamina.activations import Runtime, default_root
from lamina.analyses.heads.behaviours import LEAD
from lamina.analyses.heads.heads import most_attended
from lamina.analyses.heads.trees import (
    WAITING_BYTES,
    DependencyTree,
    ParserTrainer,
    default_vectors,
    gold_tree,
    links_found,
    right_branching,
    static_vectors,
    to_sentence,
)
from lamina.corpora import Corpus
from lamina.corpora.splits import Splits, thin
from lamina.corpora.treebanks import in_stanford
from lamina.errors import CorpusError, InputError
from lamina.files.checking import save_tensors
from lamina.files.writing import readable_write_errors
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import TrainedTexts
from lamina.framework.settings import Rows, Samples, Seed, Setting, Weights
from lamina.framework.watch import From, WatchedBatch, WatchedText, Weighting, refuse_without_maps, watch
from lamina.models import Encoder
from lamina.probes.parsers import ROOT, AttentionAndWords, AttentionOnly, DistanceAndWords, ParserInput, ParserProbe
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, percent, rows_of
from lamina.results.folder import answer_key, question_key
from lamina.stats.family import sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import BY_DOCUMENT, Halves, Unit, UnitSums, unit_of
from lamina.types import Text, text_key

NOBODY = -2
"""An answer that is never right; unlike UNKNOWN, which marks a word without annotation."""


class MapChoice(NamedTuple):
    """The map that did best on the training texts; the last one is the mean of all heads."""

    map: int
    column: bool
    """Whether a word's head is the word that attends most to it, rather than the one it attends most to."""
    score: float


class MapChooser:
    """How well each single map, and the mean of all, finds heads (by argmax) and links (by spanning tree)."""

    def __init__(self, maps: int) -> None:
        self._heads = np.zeros((2, maps + 1), int)
        self._links = np.zeros(maps + 1, int)
        self._words = self._pairs = 0

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter`."""
        for watched in batch.singly:
            self._count(watched)

    def _count(self, watched: WatchedText) -> None:
        tree = gold_tree(watched.text)
        maps = with_mean(watched)
        self._heads += (picked(maps) == tree.heads)[..., tree.scored].sum(-1)
        self._links += links_found(maps.numpy(), tree)
        self._words += int(tree.scored.sum())
        self._pairs += len(tree.links)

    def best_for_heads(self, *, mean: bool = False) -> MapChoice:
        """The map and direction whose argmax is most often right: of single heads, or of their mean."""
        return self._best(self._heads, self._words, mean=mean)

    def best_for_links(self, *, mean: bool = False) -> MapChoice:
        """The map whose spanning trees have most links."""
        return self._best(self._links[None], self._pairs, mean=mean)

    def _best(self, hits: np.ndarray, of: int, *, mean: bool) -> MapChoice:
        among = hits[:, -1:] if mean else hits[:, :-1]
        column, index = np.unravel_index(int(among.argmax()), among.shape)
        number = hits.shape[1] - 1 if mean else int(index)
        return MapChoice(number, bool(column), float(among[column, index]) / of if of else float("nan"))


def with_mean(watched: WatchedText) -> Float[torch.Tensor, "map word word"]:
    """Every head's map between words, and after them their mean."""
    maps = watched.words.maps.flatten(0, 1)
    return torch.cat([maps, maps.mean(0, keepdim=True)])


def picked(maps: Float[torch.Tensor, "map word word"]) -> Int[np.ndarray, "direction map word"]:
    """As candidate numbers, the other word each word gives most to, and the one it gets most from; NOBODY for none."""
    answers = most_attended(maps).numpy()
    return np.where(answers < 0, NOBODY, answers + 1)


def shuffled(texts: Iterable[Text], seed: int) -> list[Text]:
    """All texts, in an order drawn with the seed: treebanks are sorted by genre."""
    ordered = list(texts)
    return [ordered[number] for number in np.random.default_rng(seed).permutation(len(ordered))]


RIGHT = "right-branching"


class ParserScore(NamedTuple):
    """One system on the scored texts."""

    system: str
    uas: float
    uuas: float
    low: float
    high: float


class _ParsedText(NamedTuple):
    """What one system says of a text: each word's head, or weights for a spanning tree, or both."""

    heads: np.ndarray | None
    weights: np.ndarray | None


class ParserHits(NamedTuple):
    """What was counted in each document, or text where there is one document."""

    words: Float[np.ndarray, " unit"]
    """Scored."""
    right: dict[str, Float[np.ndarray, " unit"]]
    """System -> words whose head it finds; systems without heads are left out."""


class ParserScorer:
    """Counts right heads and right links of every system, by document; intervals resample documents."""

    def __init__(
        self,
        probes: Mapping[str, ParserProbe],
        vectors: Encoder,
        *,
        causal: bool,
        samples: int,
        seed: int,
        unit: Unit = BY_DOCUMENT,
        trees: Mapping[str, MapChoice] | None = None,
        picks: Mapping[str, MapChoice] | None = None,
        baseline: bool = False,
    ) -> None:
        self._probes, self._vectors, self._causal = probes, vectors, causal
        self._trees, self._picks, self._baseline = trees or {}, picks or {}, baseline
        self.systems = [*([RIGHT] if baseline else []), *probes, *self._trees, *self._picks]
        # Right heads of each system, right links of each, words, links.
        self._sums = UnitSums(2 * len(self.systems) + 2, Halves(frozenset(), unit.by))
        self._samples, self._seed = samples, seed
        self._weighed = {name: _MeanWeights(probe) for name, probe in probes.items() if isinstance(probe, WEIGHED)}
        self.lone = 0
        """Texts of one word."""
        self.empty = 0
        """Texts without a word to score."""

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter`."""
        for watched in batch.singly:
            self._score(watched)

    def _score(self, watched: WatchedText) -> None:
        tree = gold_tree(watched.text)
        self.lone += len(tree.heads) == 1
        self.empty += not tree.scored.any()
        parses = self._parse(watched, tree)
        nothing = np.full(len(tree.heads), NOBODY)
        heads = np.stack([nothing if parse_.heads is None else parse_.heads for parse_ in parses])
        flat = np.zeros((len(tree.heads),) * 2)
        weights = np.stack([flat if parse_.weights is None else parse_.weights for parse_ in parses])
        right = (heads == tree.heads)[:, tree.scored].sum(1)
        self._sums.add(np.r_[right, links_found(weights, tree), tree.scored.sum(), len(tree.links)], watched.text)

    @property
    def words(self) -> int:
        """How many words were scored."""
        return int(self._sums.total()[-2])

    def units(self) -> ParserHits:
        """Words, and right heads of every system, by unit; units have one order for all who score the same texts."""
        values = self._sums.values().astype(float)
        right = {name: values[:, index] for index, name in enumerate(self.systems) if name not in self._trees}
        return ParserHits(values[:, -2], right)

    def scores(self) -> list[ParserScore]:
        """UAS and UUAS of every system; the interval is of UAS, or of UUAS where there is no UAS."""
        count = len(self.systems)
        total, units = self._sums.total(), self._sums.values()
        drawn = self._sums.weights(samples=self._samples, seed=self._seed) @ units
        rows = []
        for index, system in enumerate(self.systems):
            uas = float("nan") if system in self._trees else _share(total[index], total[-2])
            uuas = float("nan") if system in self._picks else _share(total[count + index], total[-1])
            hits, counted = (count + index, -1) if system in self._trees else (index, -2)
            low, high = ratio_intervals(drawn[:, hits], drawn[:, counted])
            rows.append(ParserScore(system, uas, uuas, float(low), float(high)))
        return rows

    def weights(self) -> dict[str, np.ndarray]:
        """System -> [4, map]: mean weights, over scored words and their true heads, of the dependent's row and column
        in the scores of words, and of the first token and separators in the root's."""
        return {name: mean.value for name, mean in self._weighed.items()}

    def _parse(self, watched: WatchedText, tree: DependencyTree) -> list[_ParsedText]:
        size = len(tree.heads)
        place = np.arange(size)
        parses = [_ParsedText(right_branching(size), -np.abs(place[:, None] - place).astype(float))] * self._baseline
        sentence = to_sentence(watched, self._vectors, causal=self._causal)
        with torch.no_grad():
            for name, probe in self._probes.items():
                chances = probe(sentence).softmax(1).numpy()
                parses.append(_ParsedText(chances.argmax(1), chances[:, 1:]))
                if name in self._weighed:
                    self._weighed[name].add(sentence, tree)
        if self._trees or self._picks:
            maps = with_mean(watched)
            parses += [_ParsedText(None, maps[choice.map].numpy()) for choice in self._trees.values()]
            answers = picked(maps)
            parses += [_ParsedText(answers[int(choice.column), choice.map], None) for choice in self._picks.values()]
        return parses


WEIGHED = (AttentionOnly, AttentionAndWords)
"""Probes that weigh maps."""


class _MeanWeights:
    """Means of the weights that true heads got, without keeping any."""

    def __init__(self, probe: AttentionOnly | AttentionAndWords) -> None:
        self._probe = probe
        maps = probe.words.shape[-1]
        self._sums = np.zeros((2, 2, maps))
        self._counts = np.zeros((2, 1, 1))

    def add(self, sentence: ParserInput, tree: DependencyTree) -> None:
        heads, scored = torch.from_numpy(tree.heads), torch.from_numpy(tree.scored)
        # Words that are not scored are given some head, and their weights thrown away.
        heads = heads.masked_fill(~scored, ROOT)
        words, root = self._probe.weights(sentence, heads)
        below = heads != ROOT
        for index, weights in enumerate((words, root[scored[~below]])):
            self._sums[index] += weights.double().sum(0).numpy()
            self._counts[index] += len(weights)

    @property
    def value(self) -> np.ndarray:
        return (self._sums / np.maximum(self._counts, 1)).reshape(4, -1)


def _share(hits: float, count: float) -> float:
    return float(hits) / float(count) if count else float("nan")


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


class _ParserSettings(NamedTuple):
    """What both runs, of the model and of its twin, have in common."""

    splits: Splits
    vectors: Encoder
    rows: From
    weights: Weighting
    faithful: bool
    samples: int
    seed: int


class _ParserRun(NamedTuple):
    """All that one encoder's maps gave."""

    probes: Mapping[str, ParserProbe]
    scores: list[ParserScore]
    weights: Mapping[str, np.ndarray]
    choices: Mapping[str, MapChoice]
    skipped: Counter[str]
    words: int
    """Scored."""
    units: ParserHits


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
            "One row per system: UAS, UUAS, and the interval of UAS (of UUAS where there is no UAS).",
            ParserScore._fields,
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
            "Word vectors: glove, model (the model's own token embeddings) or a file; GloVe where this machine has it, "
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
    stanford: Annotated[
        bool, Setting("Convert universal dependencies to basic Stanford ones by rule (see `heads`).")
    ] = False,
    structural: Annotated[
        str | None,
        Setting(
            "Folder with a result of `structure` of the same model and texts: its best layer gets a row (UUAS).",
            file=True,
            metavar="RESULT",
        ),
    ] = None,
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
    beside_probe = None if structural is None else structural_row(structural, encoder, corpus.scored)
    if stanford:
        corpus = replace(corpus, train=in_stanford(corpus.train), scored=in_stanford(corpus.scored))
    splits = replace(corpus, train=thin(corpus.train, texts, seed))
    static = static_vectors(encoder, vectors)
    settings = _ParserSettings(splits, static, rows, weights, faithful, samples, seed)
    runs = {encoder.name: _run(encoder, settings, bare=True)}
    if twin:
        beside = encoder.random_twin(seed, keep_embeddings=True)
        runs[beside.name] = _run(beside, settings, bare=False)
    parser_runs = list(runs.values())
    trained_by = {
        "rows": rows,
        "weights": weights,
        "faithful": faithful,
        "twin": twin,
        "seed": seed,
        "vectors": static.fingerprint,
    }
    path = _path(question_key("parse", encoder.fingerprint, splits.fingerprint, trained_by), runtime)
    _save(parser_runs, path)
    tables = _tables(parser_runs, encoder.heads)
    if beside_probe is not None:
        tables["uas"] = pd.concat([tables["uas"], pd.DataFrame([beside_probe])], ignore_index=True)
    return Tables(
        tables,
        {f"{name}: {reason}": count for name, run in runs.items() for reason, count in run.skipped.items()},
        model={"vectors": static.describe()},
        data={
            "train": splits.train.describe(),
            "labels": splits.scored.scheme,
            "resampled": f"{unit_of(splits.scored).by}s",
        },
        files={PROBES: path},
        scored={"words": parser_runs[0].words},
    )


STRUCTURAL = "structural probe"
"""The system whose row comes from another result: undirected, of one layer, trained on distances."""


def structural_row(folder: str, encoder: Encoder, scored: Corpus) -> ParserScore:
    """The best layer of a saved `structure` result, as a system; one of another model or other texts is refused."""
    result = Result.load(folder)
    if result.analysis != "structure":
        raise InputError(f"{folder} is a result of {result.analysis}, not of structure; run lamina structure first")
    texts = result.provenance.corpus.get("scored_fingerprint", result.provenance.corpus.get("fingerprint"))
    of_model = result.provenance.model.get("fingerprint")
    if of_model != encoder.fingerprint:
        raise InputError(f"{folder} is of another model than {encoder.name}; run lamina structure {encoder.name}")
    if result.provenance.corpus.get("name") != scored.name or texts is None:
        raise InputError(f"{folder} is of other texts than {scored.name}; run lamina structure on the same corpus")
    best = result.tables["best"]
    rows = best[best["measure"] == "uuas"]
    row = max(rows_of(rows), key=lambda layer: layer.value)
    return ParserScore(STRUCTURAL, float("nan"), float(row.value), float(row.low), float(row.high))


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


def contrasts(runs: Iterable[ParserHits]) -> pd.DataFrame:
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
        (*pair, *share, *(values[index] for values in tests))
        for index, (pair, share) in enumerate(zip(pairs, shares, strict=True))
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
    whole = estimator.reading(passes=1 + twin, data=replace(corpus, train=thin(corpus.train, texts, seed)))
    return replace(whole, memory=whole.memory + WAITING_BYTES)


def _run(encoder: Encoder, settings: _ParserSettings, *, bare: bool) -> _ParserRun:
    """Train and score over one encoder's maps; `bare`: what needs no training, or no maps, too.

    The maps are watched here and not by way of the runner: what is learned depends on the order of the texts, which
    would change with the analyses that share the pass.
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
    learner = ParserTrainer(probes, settings.vectors, causal=causal, seed=seed)
    chooser = MapChooser(maps)
    skipped: Counter[str] = Counter()
    train = shuffled(_disjoint(settings.splits, skipped), seed)
    meters = [learner, chooser] if bare else [learner]
    cut = watch(encoder, train, meters, rows=settings.rows, total=len(train), weights=settings.weights)
    learner.finish()
    _refuse_nothing(learner.sentences, settings.splits)
    trees = {f"{TREE}, {BEST}": chooser.best_for_links(), f"{TREE}, {MEAN}": chooser.best_for_links(mean=True)}
    picks = {f"{PICK}, {BEST}": chooser.best_for_heads(), f"{PICK}, {MEAN}": chooser.best_for_heads(mean=True)}
    scorer = ParserScorer(
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
    return _ParserRun(
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


def _tables(runs: Sequence[_ParserRun], heads: int) -> dict[str, pd.DataFrame]:
    scores = [score for run in runs for score in run.scores]
    weights = [
        (system, number // heads + 1, number % heads + 1, direction, float(weight))
        for run in runs
        for system, by_direction in run.weights.items()
        for direction, row in zip(DIRECTIONS, by_direction, strict=True)
        for number, weight in enumerate(row)
    ]
    return {
        "uas": pd.DataFrame(scores, columns=list(ParserScore._fields)),
        "contrasts": contrasts(run.units for run in runs),
        "weights": pd.DataFrame(weights, columns=list(WEIGHTS)),
        "chosen": _chosen(runs[0].choices, heads),
    }


def _chosen(choices: Mapping[str, MapChoice], heads: int) -> pd.DataFrame:
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


def _save(runs: Sequence[_ParserRun], path: Path) -> None:
    """All trained numbers, by system and name."""
    tensors = {
        f"{system}/{name}": value
        for run in runs
        for system, probe in run.probes.items()
        for name, value in probe.state_dict().items()
    }
    with readable_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    save_tensors(path, tensors, {"format": 1})

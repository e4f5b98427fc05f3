"""What every layer would predict: its hidden states through the model's own head, as they are or translated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch

from lamina.activations import Runtime
from lamina.analyses.behaviour.inputs import SpokenSplits
from lamina.analyses.behaviour.layer_predictions import (
    SELECTION,
    SUITE_TEST,
    Lens,
    LensPositions,
    LensReadings,
    LensSuite,
    TranslatorTexts,
    draw_positions,
    every_token,
    intervals_of,
    read_layers,
    read_lens_suite,
    suite_tables,
    token_table,
    tuned_lens,
)
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.splits import Splits, divide
from lamina.errors import CorpusError
from lamina.framework.declare import FEW_NATS, ComparedLayers, LayerMeasure, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.language.language_model import LanguageModel, WrittenPassage, cut_passages, language_model
from lamina.models.language.lens import ending_of
from lamina.probes.translators import BATCH, Translators
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, layers_in_words, number, percent, rows_of, weakest
from lamina.stats.bootstrap import DRAWS, StreamedBootstrap, draws_table
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.status import Contrast, status_of
from lamina.stats.units import Units, unit_of
from lamina.types import Text

PAIRED = ("agreement", "kl")
"""Measures of the plain lens that models are compared by."""
MEASURES = ("kl", "accuracy", "probability", "agreement")
SHARES = ("accuracy", "agreement")
"""Measures that are right or wrong at each position."""
_LENS = ("layer", "lens", "measure", "value", "low", "high")
_TEST = ("low", "high", "p_adjusted", "units", "needed")
_GAIN = ("layer", "measure", "difference", *_TEST, "unit")
_REACHED = ("model", "lens", "layer", "share", "low", "high")
_DEPTH = ("model", "lens", "mean_layer", "low", "high")
_CONTRASTS = ("contrast", "difference", *_TEST, "unit")
_BASELINE = ("baseline", "measure", "value", "low", "high")
_TOKENS = ("token", "index", "layer", "lens", "rank", "piece", "probability", "probability_of_actual", "kl")
_PAIRS = ("layer", "lens", "paradigm", "accuracy", "low", "high", *SUITE_TEST)
_CLOZE = ("layer", "lens", "part", "measure", "value", "low", "high", *SUITE_TEST)
_COUNTED = 20_000
"""Training texts whose tokens are counted for the unigram baseline."""
_TRIED = 32
"""Positions that are read to estimate the time."""


@analysis(
    title="Logit lens and tuned lens",
    question="At which layer does a language model already predict its final answer?",
    method=(
        "Hidden states of every layer go through what follows the last block of the model (a final norm) and through "
        "its head: as they are (plain lens), and after an affine translator per layer that was trained on other "
        "documents to give the final distribution (tuned lens). A causal model predicts the next token; in a masked "
        "model 15 % of the words are masked, one at a time. Each layer is compared with the last one (KL divergence, "
        "agreement of the most likely token) and with the actual token (accuracy, probability). The baselines are an "
        "untrained twin, through its own head, and the frequencies of tokens in the training texts. 95 % "
        "intervals resample documents; lenses, and model and twin, are compared at the same positions (max-T)."
    ),
    cites=("nostalgebraist 2020", "Belrose et al. 2023a"),
    reads=SpokenSplits(),
    version=4,  # items of a suite are drawn
    tables={
        "lens": Table("One row per layer, lens (plain, tuned) and measure; KL in nats.", _LENS),
        "gain": Table(
            "One row per inner layer and measure: the tuned lens minus the plain one. Family: all inner layers of a "
            "measure; two-sided; signs of documents are flipped.",
            _GAIN,
            optional=True,
        ),
        "reached": Table(
            "One row per model (model, twin), lens and layer: share of positions whose most likely token is the final "
            "one from this layer on, and not before.",
            _REACHED,
        ),
        "depth": Table("One row per model and lens: the mean layer at which the final answer is reached.", _DEPTH),
        "contrasts": Table(
            "Mean layer at which the final answer is reached: the model minus its twin (plain lens), the tuned lens "
            "minus the plain one. Family: all rows; two-sided; signs of documents are flipped.",
            _CONTRASTS,
        ),
        "twin": Table(
            "As lens, for the twin with random weights: its layers beside its last one.", _LENS, optional=True
        ),
        "draws": Table(
            "One row per measure of the plain lens that models are compared by, layer and bootstrap sample: what "
            "`compare` pairs models by.",
            DRAWS,
            format="parquet",
        ),
        "baseline": Table("One row per baseline that knows no text and measure.", _BASELINE),
        "tokens": Table(
            "With a text: one row per token, layer, lens and rank: the tokens that the lens predicts in its place.",
            _TOKENS,
            optional=True,
        ),
        "pairs": Table(
            "With a suite of pairs: one row per layer, lens and paradigm (all: their mean): share of pairs whose good "
            "sentence is more likely. difference: minus chance. Family: all layers of a lens and paradigm; one-sided "
            "(above chance); signs of pairs are flipped.",
            _PAIRS,
            optional=True,
        ),
        "cloze": Table(
            "With a suite of clozes: one row per layer, lens, part (all: the mean over parts) and measure. "
            "difference: minus layer 0. Family: all further layers of a lens, part and measure; one-sided (above layer "
            "0); signs of items are flipped.",
            _CLOZE,
            optional=True,
        ),
    },
    chapter="layers",
    report={"positions": 500, "learned": 2000, "steps": 20},
    compares=ComparedLayers(
        "lens",
        (
            LayerMeasure("agreement", "Plain lens: agreement with the output", "share of positions"),
            LayerMeasure("kl", "Plain lens: distance from the output", "nats", margin=FEW_NATS),
        ),
        rows={"lens": "plain"},
        # By definition the last layer agrees with the output.
        last_layer=False,
        questions={"causal language model": "the next token", "masked language model": "a masked word"},
        apart="each model at tokens of its own",
    ),
    example='lamina lens smollm2 --corpus ewt --text "The keys to the cabinet are on the table" --out results/lens',
)
def lens(
    encoder: Encoder,
    splits: Splits,
    *,
    text: Annotated[str | None, Setting("Your own text, shown token by token and layer by layer.")] = None,
    suite: Annotated[
        str | None,
        Setting("Minimal pairs or clozes, by layer: blimp, lm_diagnostics, pararel, or a file or folder.", file=True),
    ] = None,
    items: Annotated[int, Setting("Items of a suite to draw, per paradigm or part.", min=1)] = 10,
    tuned: Annotated[bool, Setting("Also train translators (the tuned lens).")] = True,
    positions: Annotated[int, Setting("Maximum number of scored positions (approximate).", min=10)] = 2000,
    learned: Annotated[
        int, Setting("Maximum number of training positions for translators (approximate).", min=10)
    ] = 6000,
    steps: Annotated[int, Setting("Steps of Adam after ridge regression; 0 for regression alone.", min=0)] = 60,
    top: Annotated[int, Setting("Tokens shown per token and layer of a text.", min=1, max=100)] = 5,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """Every layer through the model's own head, plain and tuned: where the final answer is reached.

    Layers are those of `lamina encode`: 0 is the embedding layer, the last one is the model's own answer. Translators
    are trained on the corpus's training texts once and saved; a later run with the same settings reuses them.

    Example:
        >>> result = lamina.lens("smollm2", "ewt", text="Dogs bark at the moon")  # doctest: +SKIP
        >>> result.tables["lens"].columns.tolist()  # doctest: +SKIP
        ['layer', 'lens', 'measure', 'value', 'low', 'high']
    """
    model = language_model(encoder)
    ending_of(model.encoder)
    # Typed text and names are checked before anything takes long.
    if text is not None:
        every_token(model, text)
    lens_suite = None if suite is None else read_lens_suite(suite, items, seed)
    learning, skipped = learning_of(splits, seed)
    translators = None
    if tuned:
        translators = tuned_lens(model, learning, positions=learned, steps=steps, seed=seed, runtime=runtime)
    scored = list(splits.scored)
    drawn = draw_positions(model, scored, positions, seed=seed)
    if not len(drawn):
        raise CorpusError(f"{splits.name}: {model.name} has no token for any of its texts; nothing can be scored")
    readings, fixed = read_layers(model, drawn.wanted, translators, {"unigram": _unigram(model, learning.learn)})
    means = {"model": _LensMeans(readings, drawn, samples, seed)}
    if twin:
        other, _ = read_layers(model.random_twin(seed), drawn.wanted)
        means["twin"] = _LensMeans(other, drawn, samples, seed)
    tables = {
        "lens": _table(_LENS, means["model"].rows()),
        "reached": _table(_REACHED, ((name, *row) for name, mean in means.items() for row in mean.reached())),
        "depth": _table(_DEPTH, ((name, *row) for name, mean in means.items() for row in mean.depth())),
        "draws": means["model"].draws(),
        "baseline": _table(_BASELINE, _baseline_rows(fixed, readings["plain"], drawn, samples, seed)),
    }
    unit, by_unit = unit_of(drawn.texts).by, _unit_sums(drawn)
    if tuned:
        tables["gain"] = _table(_GAIN, _gain_rows(readings, by_unit, unit))
    twins = None if not twin else means["twin"].readings["plain"]
    tables["contrasts"] = _table(_CONTRASTS, _depth_rows(readings, twins, by_unit, unit))
    if twin:
        tables["twin"] = _table(_LENS, means["twin"].rows())
    if text is not None:
        tables["tokens"] = _table(_TOKENS, token_table(model, text, translators, top))
    if lens_suite is not None:
        rows_by_table, left_out = suite_tables(model, lens_suite, translators, samples=samples, seed=seed)
        tables |= {name: _table({"pairs": _PAIRS, "cloze": _CLOZE}[name], rows) for name, rows in rows_by_table.items()}
        skipped |= left_out
    skipped["scored texts beyond the positions asked for"] = len(scored) - len(drawn.texts)
    return Tables(tables, skipped, scored={"positions": len(drawn)}, data=_about(lens_suite, drawn, translators))


@lens.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per layer."""
    table = result.tables["lens"]
    lenses = list(dict.fromkeys(table["lens"]))
    rows: list[tuple[str | int, ...]] = []
    for layer, of_layer in table.groupby("layer"):
        cells = {(row.lens, row.measure): cell(row.value, row.low, row.high) for row in rows_of(pd.DataFrame(of_layer))}
        rows.append(
            (str(layer), *(cells[lens_name, measure] for measure in ("kl", "agreement") for lens_name in lenses))
        )
    about = result.provenance
    columns = tuple(f"{measure}, {lens_name}" for measure in ("KL (nats)", "agreement") for lens_name in lenses)
    yield Overview(
        f"{about.model['name']} on {about.corpus['name']}: layers through its head", ("layer", *columns), rows
    )


@lens.costs
def _cost(
    estimator: Estimator, encoder: Encoder, splits: Splits, *, tuned: bool, positions: int, learned: int, steps: int,
    suite: str | None, items: int, twin: bool, seed: int, **_: Any,
) -> Cost:  # fmt: skip
    """Positions that are read through the head at every layer; training and translated layers cost multiples of it."""
    model = language_model(encoder)
    passes = 1 + tuned + twin
    # A step of training is about three passes through the head; a penalty is tried on the selection part.
    training = tuned * (3 * steps * BATCH + SELECTION * 10 + 0.1 * learned)
    suite_positions = 0 if suite is None else 10 * len(read_lens_suite(suite, items, seed)) * (1 + tuned)
    texts, tokens = estimator.count(splits.scored)
    work = (positions * passes + training + suite_positions) * encoder.layers * 2e-9 * encoder.width * model.vocabulary
    memory = memory_now() + 4 * learned * tuned * encoder.layers * encoder.width
    return Cost(passes, texts, tokens, steps * tuned, memory=memory, work=work)


def learning_of(splits: Splits, seed: int) -> tuple[TranslatorTexts, dict[str, int]]:
    """Training texts by document: to learn from, and to choose by; those that are scored too are left out."""
    division = divide(splits, seed=seed)
    train = list(splits.train)
    learn, select = ([train[number] for number in numbers] for numbers in (division.learn, division.stop))
    fingerprint = fingerprint_of(splits.train.fingerprint, [text.id for text in (*learn, *select)])
    left_out = {"training texts that are scored too": division.left_out} if division.left_out else {}
    return TranslatorTexts(learn, select, fingerprint), dict(splits.left_out()) | left_out


def _unigram(model: LanguageModel, texts: Sequence[Text]) -> torch.Tensor:
    """[token] Logarithms of the frequencies of tokens in texts, with one added to each count."""
    counts: Counter[int] = Counter()
    for cut in cut_passages(model, [WrittenPassage.of(text) for text in texts[:_COUNTED]]):
        counts.update(cut.tokens.ids[cut.head : len(cut.tokens.ids) - cut.tail].tolist())
    known = torch.ones(model.vocabulary, dtype=torch.float64)
    for piece, count in counts.items():
        known[piece] += count
    return (known / known.sum()).log().float()


class _LensMeans:
    """Means over positions by lens, measure and layer, and over resampled documents."""

    def __init__(
        self, readings_by_lens: Mapping[Lens, LensReadings], drawn: LensPositions, samples: int, seed: int
    ) -> None:
        self.readings, self.lenses = readings_by_lens, list(readings_by_lens)
        self.layers = next(iter(readings_by_lens.values())).kl.shape[1]
        columns = []
        for readings in readings_by_lens.values():
            columns += [readings.measures[measure] for measure in MEASURES]
            columns.append(readings.reached[:, None] == np.arange(self.layers))
        self.value, self.samples = _resampled(np.concatenate(columns, 1), drawn, samples, seed)
        self.units = _units(drawn)

    def of(self, lens: Lens, measure: str) -> tuple[np.ndarray, np.ndarray]:
        """[layer], [sample, layer]"""
        place = self.lenses.index(lens) * (len(MEASURES) + 1) + (*MEASURES, "reached").index(measure)
        columns = slice(place * self.layers, (place + 1) * self.layers)
        return self.value[columns], self.samples[:, columns]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Of `lens`."""
        for lens in self.lenses:
            for measure in MEASURES:
                rows = self._intervals(*self.of(lens, measure), exact=measure in SHARES)
                for layer, row in enumerate(rows):
                    # Agreement and KL compare with the last layer, so nothing was measured there.
                    known = layer == self.layers - 1 and measure == "agreement"
                    yield layer, lens, measure, *((1.0, 1.0, 1.0) if known else row)

    def draws(self) -> pd.DataFrame:
        """Of `draws`."""
        return draws_table({measure: self.of("plain", measure)[1] for measure in PAIRED}, range(self.layers))

    def reached(self) -> Iterator[tuple[Any, ...]]:
        """Of `reached`."""
        for lens in self.lenses:
            for layer, row in enumerate(self._intervals(*self.of(lens, "reached"), exact=True)):
                yield lens, layer, *row

    def depth(self) -> Iterator[tuple[Any, ...]]:
        """Of `depth`."""
        for lens in self.lenses:
            value, samples = self.of(lens, "reached")
            numbers = np.arange(self.layers)
            yield lens, *self._intervals((value @ numbers)[None], (samples @ numbers)[:, None])[0]

    def _intervals(
        self, value: np.ndarray, samples: np.ndarray, *, exact: bool = False
    ) -> list[tuple[float, float, float]]:
        return intervals_of(value, samples, self.units, exact=exact)


def _resampled(values: np.ndarray, drawn: LensPositions, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of columns [position, column] over positions, and over positions of documents drawn with replacement."""
    unit = unit_of(drawn.texts)
    sums = StreamedBootstrap(values.shape[1] + 1, samples=samples, seed=seed)
    by_text = np.zeros((len(drawn.texts), values.shape[1] + 1))
    np.add.at(by_text, drawn.text, np.concatenate([values, np.ones((len(values), 1))], 1))
    sums.add_all(torch.from_numpy(by_text), [unit.of(text) for text in drawn.texts])
    resampled = sums.samples.astype(float)
    # A sample of very few documents may have drawn none of them; it keeps its place, and has no number.
    with np.errstate(invalid="ignore"):
        return sums.value[:-1] / sums.value[-1], resampled[:, :-1] / resampled[:, -1:]


def _unit_sums(drawn: LensPositions) -> Callable[[np.ndarray], np.ndarray]:
    """Sums over the positions of a document, of values [position, ...]."""
    unit = unit_of(drawn.texts)
    units = Units.of([unit.of(drawn.texts[text]) for text in drawn.text], unit.by)
    return units.sums


def _gain_rows(
    readings: Mapping[Lens, LensReadings], by_unit: Callable[[np.ndarray], np.ndarray], unit: str
) -> Iterator[tuple[Any, ...]]:
    for measure in MEASURES:
        plain, tuned = (by_unit(readings[lens].measures[measure][:, :-1]) for lens in ("plain", "tuned"))
        tests = tuned_gain(tuned - plain, by_unit(np.ones(len(readings["plain"].target))))
        for layer, test in enumerate(zip(*tests, strict=True)):
            yield layer, measure, *map(float, test), unit


def tuned_gain(differences: np.ndarray, positions: np.ndarray) -> Contrasts:
    """The tuned lens minus the plain one, [unit, layer] sums over positions; inner layers are one family."""
    return sign_flip_family(differences, positions)


def _depth_rows(
    readings: Mapping[Lens, LensReadings],
    twin: LensReadings | None,
    by_unit: Callable[[np.ndarray], np.ndarray],
    unit: str,
) -> Iterator[tuple[Any, ...]]:
    reached = readings["plain"].reached
    differences = {} if twin is None else {TWIN_CONTRAST: reached - twin.reached}
    if "tuned" in readings:
        differences[TUNED_MINUS_PLAIN] = readings["tuned"].reached - reached
    if differences:
        tests = depth_contrasts(by_unit(np.column_stack(list(differences.values()))), by_unit(np.ones(len(reached))))
        for name, test in zip(differences, zip(*tests, strict=True), strict=True):
            yield name, *map(float, test), unit


def depth_contrasts(differences: np.ndarray, positions: np.ndarray) -> Contrasts:
    """Differences of the layer at which the final answer is reached, [unit, contrast] sums over positions."""
    return sign_flip_family(differences, positions)


def _units(drawn: LensPositions) -> int:
    """Documents, or texts, that are resampled."""
    unit = unit_of(drawn.texts)
    return len({unit.of(text) for text in drawn.texts})


def _baseline_rows(
    fixed: Mapping[str, LensReadings], model: LensReadings, drawn: LensPositions, samples: int, seed: int
) -> Iterator[tuple[Any, ...]]:
    for name, readings in fixed.items():
        # Agreement is with the model's answer.
        measures = readings.measures | {"agreement": (readings.top == model.top[:, -1:]).astype(float)}
        for measure in MEASURES:
            value, spread = _resampled(measures[measure], drawn, samples, seed)
            yield name, measure, *intervals_of(value, spread, _units(drawn), exact=measure in SHARES)[0]


def _about(suite: LensSuite | None, drawn: LensPositions, translators: Translators | None) -> dict[str, Any]:
    about: dict[str, Any] = {"positions": len(drawn), "read_texts": len(drawn.texts)}
    about["drawn"] = {f"{unit_of(drawn.texts).by}s": _units(drawn)}
    if suite is not None:
        about["suite"] = suite.describe()
    if translators is not None:
        about["translators"] = list(translators.chosen)
    return about


def _table(columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(columns))


NEGLIGIBLE_NATS = 0.02
"""A difference of divergences that means nothing."""
NEGLIGIBLE_LAYERS = 0.1
"""A difference of mean layers that means nothing."""
TWIN_CONTRAST, TUNED_MINUS_PLAIN = "model minus twin", "tuned minus plain"
"""Contrasts of the mean layer at which the final answer is reached."""


@lens.finds
def lens_findings(result: Result) -> Iterable[Finding]:
    """Where the final answer is reached; what translators gain; where pairs are distinguished and clozes answered."""
    yield from _reached_findings(result)
    yield from _gain_finding(result)
    yield from _pairs_finding(result)
    yield from _cloze_finding(result)


def _reached_findings(result: Result) -> Iterator[Finding]:
    """The mean layer at which the final answer is reached: model beside twin, tuned lens beside plain."""
    depth = {(row.model, row.lens): row.mean_layer for row in rows_of(result.tables["depth"])}
    last = int(result.tables["lens"]["layer"].max())
    plain = depth["model", "plain"]
    end = Source("reached", {"model": "model", "lens": "plain"})
    for row in rows_of(result.tables["contrasts"]):
        later = "later" if row.difference > 0 else "earlier"
        if row.contrast == TWIN_CONTRAST:
            claim = (
                f"The model reaches its final answer at layer {number(plain)} of {last} on average, its twin with "
                f"random weights at layer {number(depth['twin', 'plain'])}"
            )
            whether = f"the model reaches its final answer {later} than its twin with random weights"
            absent = "The model reaches its final answer at the same layer as its twin with random weights"
            rows = [("model", "plain"), ("twin", "plain")]
        else:
            claim = (
                f"Through the tuned lens the final answer is reached at layer {number(depth['model', 'tuned'])} of "
                f"{last} on average, through the plain lens at layer {number(plain)}"
            )
            whether = f"the tuned lens reaches the final answer {later} than the plain lens"
            absent = "The tuned lens reaches the final answer at the same layer as the plain lens"
            rows = [("model", "tuned"), ("model", "plain")]
        yield finding(
            claim=claim,
            whether=whether,
            absent=absent,
            contrast=f"{row.contrast}, in layers",
            test=Contrast.of(row, "difference"),
            source=[
                Source("contrasts", {"contrast": row.contrast}),
                *(Source("depth", {"model": model, "lens": lens}) for model, lens in rows),
                end,
            ],
            unit=row.unit,
            importance=("answers", "beats control") if row.contrast == TWIN_CONTRAST else ("localised",),
            margin=NEGLIGIBLE_LAYERS,
        )


def _gain_finding(result: Result) -> Iterator[Finding]:
    """The inner layers where the tuned lens is closer to the final distribution, with the weakest of their tests."""
    table = result.tables.get("gain")
    if table is None or table.empty:
        return
    rows = list(rows_of(table[table["measure"] == "kl"]))
    closer = [row for row in rows if row.difference < 0 and _status(row, NEGLIGIBLE_NATS) == "clear"]
    least = weakest(closer) if closer else min(rows, key=lambda row: row.difference)
    where = "every inner layer" if len(closer) == len(rows) else layers_in_words(row.layer for row in closer or [least])
    yield finding(
        claim=f"The tuned lens is closer to the final distribution than the plain lens at {where}",
        whether=f"the tuned lens is closer to the final distribution than the plain lens at {where}",
        absent="The tuned lens is as close to the final distribution as the plain lens",
        contrast=f"layer {least.layer}: KL divergence tuned minus plain",
        test=Contrast.of(least, "difference"),
        source=Source("gain", {"measure": "kl"}),
        unit=least.unit,
        importance=("localised",),
        margin=NEGLIGIBLE_NATS,
    )


def _status(row: Any, margin: float, low: str = "low", high: str = "high") -> str:
    return status_of(getattr(row, low), getattr(row, high), row.p_adjusted, needed=row.needed, margin=margin)


def _lens_of(table: Any) -> str:
    return "tuned" if "tuned" in set(table["lens"]) else "plain"


def _from_layer(rows: Sequence[Any]) -> list[Any]:
    """The last layers, all of which are clearly above; empty where the last one is not."""
    last: list[Any] = []
    for row in reversed(rows):
        if _status(row, 0.0, "diff_low", "diff_high") != "clear":
            break
        last.insert(0, row)
    return last


def _pairs_finding(result: Result) -> Iterator[Finding]:
    """The layers from which on the good sentence is preferred more often than by chance."""
    table = result.tables.get("pairs")
    if table is None or table.empty:
        return
    lens = _lens_of(table)
    where = {"paradigm": "all", "lens": lens}
    rows = sorted(rows_of(table[(table["paradigm"] == "all") & (table["lens"] == lens)]), key=lambda row: row.layer)
    above, last = _from_layer(rows), rows[-1]
    least = weakest(above) if above else last
    first = f"from layer {above[0].layer} on" if above else "at the last layer"
    yield finding(
        claim=f"The good sentence of a pair is preferred more often than by chance {first} ({lens} lens); at the last "
        f"layer in {percent(last.accuracy)} of pairs",
        whether=f"the good sentence of a pair is preferred more often than by chance {first} ({lens} lens)",
        absent=f"The good sentence of a pair is preferred as often as by chance {first} ({lens} lens)",
        contrast=f"layer {least.layer}: accuracy minus chance",
        test=Contrast.of(least, "difference", "diff_low", "diff_high"),
        source=Source("pairs", where),
        unit="item",
        importance=("answers", "localised"),
    )


def _cloze_finding(result: Result) -> Iterator[Finding]:
    """How often the answer is the most likely token, and where that is more often than at the embeddings."""
    table = result.tables.get("cloze")
    if table is None or table.empty:
        return
    lens = _lens_of(table)
    where = {"part": "all", "lens": lens, "measure": "precision_at_1"}
    chosen = (table["part"] == "all") & (table["lens"] == lens) & (table["measure"] == "precision_at_1")
    embeddings, *rows = sorted(rows_of(table[chosen]), key=lambda row: row.layer)
    above, last = _from_layer(rows), rows[-1]
    least = weakest(above) if above else last
    first = f"from layer {above[0].layer} on" if above else "at the last layer"
    yield finding(
        claim=f"The answer of a cloze is the most likely token more often than at the embeddings {first} ({lens} "
        f"lens): in {percent(last.value)} of items at the last layer, in {percent(embeddings.value)} at the embeddings",
        whether=f"the answer of a cloze is the most likely token more often than at the embeddings {first}",
        absent=f"The answer of a cloze is the most likely token as often as at the embeddings {first}",
        contrast=f"layer {least.layer}: share minus that at the embeddings",
        test=Contrast.of(least, "difference", "diff_low", "diff_high"),
        source=Source("cloze", where),
        unit="item",
        importance=("answers", "localised"),
    )

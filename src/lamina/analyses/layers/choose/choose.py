"""Which layer of which model to use for some labels, what another choice costs, and how many labels are enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import torch

from lamina.activations.runtime import Runtime
from lamina.analyses.layers.choose.cells import (
    POOLINGS,
    SURFACE,
    Cell,
    CellScore,
    ChoiceMetric,
    Pooling,
    cross_validate,
    fit_examples,
    learning_curve,
    metric_of,
    pooled_vectors,
    time_encoding,
)
from lamina.analyses.layers.choose.examples import LabelledExamples, find_examples, surface_vectors
from lamina.analyses.layers.choose.label_free import TextViews, measure_layers, views_of
from lamina.corpora import Corpus
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.inputs import SeveralModels
from lamina.framework.settings import Samples, Seed, Setting
from lamina.models import Encoder
from lamina.probes.linear_grid import GridMembers
from lamina.probes.text_probe import ProbeKind, TextProbe, calibrate, refuse_other
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, number, recommendation, rows_of
from lamina.stats.best import best_set, regrets
from lamina.stats.family import bootstrap_family, drawn_contrast
from lamina.stats.intervals import widened_intervals
from lamina.stats.status import LEAST_UNITS, Contrast

CHOICE = (
    "model", "layer", "pooling", "probe", "metric", "value", "low", "high", "regret", "regret_low", "regret_high",
    "seconds_per_1000_texts", "bytes_per_text",
)  # fmt: skip
"""Columns of `choose.csv`."""
ANSWER = (
    "what", "model", "layer", "pooling", "metric", "value", "low", "high", "difference", "difference_low",
    "difference_high", "p_adjusted", "units", "needed",
)  # fmt: skip
CURVE = ("labels", "value", "low", "high", "difference", "difference_low", "difference_high", "p_adjusted", "units",
         "needed", "enough")  # fmt: skip
CHOSEN, LAST, THIRDS, WORDS = "chosen", "last layer", "two thirds of the depth", "words and characters"
POINT = 0.01
"""What "within a point" means, on a scale from 0 to 1."""
METRICS = {"accuracy": "accuracy", "macro_f1": "macro-F1", "f1": "F1", "r2": "R2"}
_POOLED = {
    "mean": "mean of tokens",
    "first": "first token",
    "last": "last token",
    "max": "maximum over tokens",
    "attention": "tokens weighted by attention",
}


@dataclass(eq=False)
class Candidates:
    """All cells with their scores, in the order of the table."""

    examples: LabelledExamples
    metric: ChoiceMetric
    samples: int
    seed: int
    cells: list[Cell] = field(default_factory=list)
    scores: list[CellScore] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Per 1,000 texts."""
    widths: list[int] = field(default_factory=list)

    def add(self, cell: Cell, score: CellScore, seconds: float, width: int) -> None:
        """One more cell."""
        self.cells.append(cell)
        self.scores.append(score)
        self.seconds.append(seconds)
        self.widths.append(width)

    @property
    def weights(self) -> np.ndarray:
        """[sample, unit]"""
        return self.examples.units.weights(samples=self.samples, seed=self.seed).astype(float)

    def sums(self, answers: np.ndarray) -> np.ndarray:
        """[unit, sum]"""
        return self.examples.units.sums(self.metric.sums(self.examples, answers))

    def drawn(self, answers: np.ndarray) -> tuple[float, np.ndarray]:
        """The score of some answers, and the same of resampled documents."""
        sums = self.sums(answers)
        return float(self.metric.value(sums.sum(0))), self.metric.value(self.weights @ sums)

    def nested(self) -> np.ndarray:
        """Answers of the cells that were chosen for each fold on the other folds: what choosing is worth."""
        inner = np.array([np.where(score.converged, score.inner, -np.inf) for score in self.scores])
        # Cells of models only: the surface baseline is what the choice is compared with.
        inner[[cell == SURFACE for cell in self.cells]] = -np.inf
        answers = np.zeros_like(self.scores[0].answers)
        for fold, best in enumerate(inner.argmax(0).tolist()):
            rows = self.examples.fold == fold
            answers[rows] = self.scores[best].answers[rows]
        return answers


@analysis(
    title="Which layer to use",
    question="Which layer of which model reads these labels best, and what does another choice cost?",
    method=(
        "Linear probes (softmax, logistic or ridge regression) of every layer and pooling are scored by nested "
        "cross-validation: documents are never split, documents with the same texts stay together, and a fold is never "
        "scored by what chose for it. Documents are resampled; regret is how far a cell is behind the truly best one, "
        "whichever that is, and cells that no other was shown to beat form the confidence set. Words and characters "
        "alone are scored on the same folds."
    ),
    reads=SeveralModels(split="all"),
    version=2,
    tables={
        "choose": Table(
            "One row per model, layer and pooling, and one for the words and characters alone (no layer). `value`: "
            "cross-validated score; `regret`: what is lost beside the best cell; both with 95 % intervals over "
            "documents. `seconds_per_1000_texts`: measured on this machine for the whole model and shared out by "
            "depth; `bytes_per_text`: of vectors in float32.",
            CHOICE,
        ),
        "answer": Table(
            "`chosen`: the best cell, with the score of choosing (for each fold by the other folds) and its difference "
            "from the words and characters alone. Other rows: a layer that is often taken without looking, and what it "
            "costs beside the best cell.",
            ANSWER,
        ),
        "best": Table(
            "One row per cell; `best`: no other cell was shown to beat it. `p_adjusted`: that another one does.",
            ("model", "layer", "pooling", "p_adjusted", "best"),
        ),
        "front": Table(
            "Cells that none is both better and faster than (the Pareto front), from fast to slow.",
            ("model", "layer", "pooling", "probe", "value", "seconds_per_1000_texts"),
        ),
        "curve": Table(
            "One row per number of labels that the chosen cell learns from. `difference`: of learning from all labels "
            "(the last row); `enough`: the fewest that come within .01.",
            CURVE,
        ),
        "label_free": Table(
            "Measures that need no labels, by layer; `picks`: the layer that the measure would choose, and its regret.",
            ("model", "layer", "measure", "value", "picks", "regret"),
            optional=True,
        ),
    },
    chapter="abilities",
    cites=("Hansen et al. 2011", "Hsu 1981", "Skean et al. 2025"),
    needs=("states",),
    report={"poolings": ["mean"]},
    example="lamina choose minilm glove --corpus reviews.csv --task label",
)
def choose(
    encoders: tuple[Encoder, ...],
    corpus: Corpus,
    *,
    task: Annotated[
        str | None, Setting("The labels: a column, an annotation or a task; needed if there are several.")
    ] = None,
    poolings: Annotated[
        Sequence[Literal["mean", "first", "last", "max", "attention"]],
        Setting(
            "How tokens become one vector; attention weighs them by the attention that they get.", option="--pooling"
        ),
    ] = POOLINGS,
    metric: Annotated[
        Literal["accuracy", "macro_f1"], Setting("What classes are scored by; values by R2, several labels by F1.")
    ] = "accuracy",
    examples: Annotated[
        int | None, Setting("Most labelled targets; more are drawn in whole documents.", min=20)
    ] = 5000,
    label_free: Annotated[
        bool, Setting("Also compute measures that need no labels, and the layers they pick.")
    ] = False,
    save: Annotated[
        str | None,
        Setting("A folder for the probe of the best layer: weights and a card.", metavar="FOLDER", writes=True),
    ] = None,
    samples: Samples = 500,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """Find the layer of a model that reads your labels best, with its regret.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> texts = [{"text": f"{word} day {n}", "label": word} for n in range(30) for word in ("good", "bad")]
        >>> result = lamina.choose(TinyEncoder(), lamina.corpus_from(texts), task="label", samples=20)
        >>> result.tables["choose"].columns[:3].tolist(), len(result.tables["choose"])
        (['model', 'layer', 'pooling'], 13)
    """
    if save is not None:
        # Refused before the work, not after it.
        refuse_other(Path(save))
    labelled = find_examples(corpus, task, most=examples, seed=seed)
    candidates = Candidates(labelled, metric_of(labelled, metric), samples, seed)
    surface = torch.from_numpy(surface_vectors(labelled))
    views: dict[str, TextViews] = {}
    # One model after the other: the vectors of one are gone before the next one's are made.
    vectors_of_best: dict[int, torch.Tensor] = {}
    for encoder in encoders:
        _add_cells(candidates, encoder, poolings, runtime, vectors_of_best)
        if label_free:
            views[encoder.name] = views_of(encoder, labelled, runtime)
    candidates.add(SURFACE, cross_validate(surface, labelled, candidates.metric), 0.0, surface.shape[1])
    tables = _tables(candidates)
    best = candidates.cells.index(_chosen(candidates))
    tables["curve"] = _curve(candidates, candidates.scores[best], vectors_of_best[best])
    if views:
        tables["label_free"] = _picked(measure_layers(views), tables["choose"], poolings)
    if save is not None:
        encoder = next(one for one in encoders if one.name == candidates.cells[best].model)
        _probe(candidates, best, vectors_of_best[best], encoder, tables["answer"], corpus).save(save)
    failed = sum(not score.converged for score in candidates.scores)
    skipped = {**labelled.skipped, "cells whose probes did not converge (no score)": failed}
    data = {
        "task": labelled.task.name, "targets": labelled.what, "labels": list(labelled.labels), "folds": labelled.folds,
        "resampled": f"{labelled.units.kind}s",
    }  # fmt: skip
    return Tables(tables, skipped, data=data, scored={labelled.task.name: len(labelled)})


def _add_cells(
    candidates: Candidates,
    encoder: Encoder,
    poolings: Sequence[Pooling],
    runtime: Runtime,
    vectors_of_best: dict[int, torch.Tensor],
) -> None:
    examples = candidates.examples
    pooled = pooled_vectors(encoder, examples, poolings, runtime)
    cost = time_encoding(encoder, examples.texts)
    highest = max((_score(candidates, number) for number in vectors_of_best), default=-np.inf)
    with progress(f"probing {encoder.name}", pooled.layers * len(pooled.poolings)) as advance:
        for pooling, layer in pooled.items():
            vectors = pooled.of(pooling, layer).to(runtime.training_device)
            score = cross_validate(vectors, examples, candidates.metric)
            candidates.add(Cell(encoder.name, layer, pooling), score, cost.at(layer, pooled.layers), vectors.shape[1])
            number = len(candidates.cells) - 1
            if score.converged and _score(candidates, number) > highest:
                highest = _score(candidates, number)
                vectors_of_best.clear()
                vectors_of_best[number] = vectors
            advance()


def _score(candidates: Candidates, number: int) -> float:
    return float(candidates.metric.value(candidates.sums(candidates.scores[number].answers).sum(0)))


def _chosen(candidates: Candidates) -> Cell:
    """The cell of a model with the highest score, the first of those that are equal."""
    numbers = [n for n, cell in enumerate(candidates.cells) if cell != SURFACE and candidates.scores[n].converged]
    return candidates.cells[max(numbers, key=lambda n: (_score(candidates, n), -n))]


def _tables(candidates: Candidates) -> dict[str, pd.DataFrame]:
    examples, metric = candidates.examples, candidates.metric
    units = len(examples.units)
    weights = candidates.weights
    values, draws = np.full(len(candidates.cells), np.nan), np.full((candidates.samples, len(candidates.cells)), np.nan)
    for place, score in enumerate(candidates.scores):
        if score.converged:
            sums = candidates.sums(score.answers)
            values[place], draws[:, place] = metric.value(sums.sum(0)), metric.value(weights @ sums)
    low, high = widened_intervals(values, draws, units)
    behind, among = regrets(values, draws, units), best_set(values, draws, units)
    targets = len(examples) / len(examples.texts)
    layers = pd.array([cell.layer for cell in candidates.cells], dtype="Int64")
    table = pd.DataFrame(
        {
            "model": [cell.model for cell in candidates.cells],
            "layer": layers,
            "pooling": [cell.pooling for cell in candidates.cells],
            "probe": "linear",
            "metric": metric.name,
            "value": values,
            "low": low,
            "high": high,
            "regret": behind.estimate,
            "regret_low": behind.low,
            "regret_high": behind.high,
            "seconds_per_1000_texts": candidates.seconds,
            "bytes_per_text": [ceil(4 * width * targets) for width in candidates.widths],
        }
    )
    known = units >= LEAST_UNITS
    best = table[["model", "layer", "pooling"]].assign(
        p_adjusted=among.p if known else np.nan, best=among.among if known else np.isfinite(values)
    )
    answer = _answer(candidates, table, best, draws)
    return {"choose": table, "answer": answer, "best": best, "front": _front(table)}


def _answer(candidates: Candidates, table: pd.DataFrame, best: pd.DataFrame, draws: np.ndarray) -> pd.DataFrame:
    chosen = _chosen(candidates)
    units = len(candidates.examples.units)
    value, drawn = candidates.drawn(candidates.nested())
    low, high = widened_intervals(np.array([value]), drawn[:, None], units)
    surface = candidates.cells.index(SURFACE)
    ahead = drawn_contrast(value - table["value"].iloc[surface], drawn - draws[:, surface], units)
    rows: list[tuple[Any, ...]] = [
        (CHOSEN, *chosen, candidates.metric.name, value, float(low[0]), float(high[0]), *ahead)
    ]
    depth = max(cell.layer or 0 for cell in candidates.cells if cell.model == chosen.model)
    needed = 0 if units >= LEAST_UNITS else LEAST_UNITS
    named = {LAST: depth, THIRDS: round(2 * depth / 3)} if depth else {}
    others = {what: chosen._replace(layer=layer) for what, layer in named.items()} | {WORDS: SURFACE}
    models = dict.fromkeys(cell.model for cell in candidates.cells if cell.model not in (chosen.model, SURFACE.model))
    for model in models:
        there = [number for number, cell in enumerate(candidates.cells) if cell.model == model]
        others[f"best of {model}"] = candidates.cells[
            max(there, key=lambda n: np.nan_to_num(table["value"].iloc[n], nan=-1e9))
        ]
    for what, one in others.items():
        row = next(rows_of(table.iloc[[candidates.cells.index(one)]]))
        p = best["p_adjusted"].iloc[candidates.cells.index(one)]
        rows.append(
            (
                what,
                *one,
                row.metric,
                row.value,
                row.low,
                row.high,
                row.regret,
                row.regret_low,
                row.regret_high,
                p,
                units,
                needed,
            )
        )
    answer = pd.DataFrame(rows, columns=list(ANSWER))
    return answer.astype({"layer": "Int64", "units": int, "needed": int})


def _front(table: pd.DataFrame) -> pd.DataFrame:
    columns = ["model", "layer", "pooling", "probe", "value", "seconds_per_1000_texts"]
    by_cost = table.dropna(subset="value").sort_values(
        ["seconds_per_1000_texts", "value"], ascending=[True, False], kind="stable"
    )
    ahead = by_cost["value"] > by_cost["value"].cummax().shift(fill_value=-np.inf)
    return by_cost.loc[ahead, columns].reset_index(drop=True)


def _curve(candidates: Candidates, full: CellScore, vectors: torch.Tensor) -> pd.DataFrame:
    """The chosen cell with fewer labels beside all of them, one family."""
    examples = candidates.examples
    units = len(examples.units)
    points = learning_curve(vectors, examples, candidates.seed)
    value, draws = candidates.drawn(full.answers)
    drawn = [candidates.drawn(point.answers) for point in points]
    values = np.array([*(one for one, _ in drawn), value])
    all_draws = np.stack([*(one for _, one in drawn), draws], 1)
    low, high = widened_intervals(values, all_draws, units)
    tests = bootstrap_family(value - values[:-1], draws[:, None] - all_draws[:, :-1], units)
    labels = [*(point.labels for point in points), len(examples) * (examples.folds - 1) // examples.folds]
    near = np.flatnonzero(value - values <= POINT)
    # From here on all are within a point.
    far = np.flatnonzero(value - values > POINT)
    first = next((int(one) for one in near if not len(far) or one > far[-1]), len(values) - 1)
    nan = np.full(1, np.nan)
    columns = tests.columns("difference_")
    frame = pd.DataFrame({"labels": labels, "value": values, "low": low, "high": high})
    for name, column in zip(
        CURVE[4:8], ("difference_estimate", "difference_low", "difference_high", "p_adjusted"), strict=True
    ):
        frame[name] = np.concatenate([columns[column], nan])
    frame.loc[len(frame) - 1, "difference"] = 0.0
    needed = 0 if units >= LEAST_UNITS else LEAST_UNITS
    return frame.assign(units=units, needed=needed, enough=np.arange(len(frame)) == first)


def _probe(
    candidates: Candidates,
    best: int,
    vectors: torch.Tensor,
    encoder: Encoder,
    answer: pd.DataFrame,
    corpus: Corpus,
) -> TextProbe:
    """The best cell's probe, learned from all examples; calibrated on examples it had not learned from."""
    examples, cell, score = candidates.examples, candidates.cells[best], candidates.scores[best]
    members = GridMembers.crossed([[True] * examples.folds], [score.penalty])
    fit, known = fit_examples(vectors, examples, examples.fold, members)
    kind: ProbeKind = "value" if examples.graded else "class" if examples.single else "classes"
    calibration = calibrate(score.answers, examples.gold, examples.fold, kind, examples.rated)
    chosen = answer.iloc[0]
    card = {
        "task": examples.task.name, "annotation": examples.task.annotation, "labels": examples.labels, "kind": kind,
        "targets": examples.what, "layer": cell.layer, "pooling": cell.pooling, "metric": candidates.metric.name,
        "value": float(chosen["value"]), "low": float(chosen["low"]), "high": float(chosen["high"]),
        "temperature": calibration.temperature, "calibration_error": calibration.error,
        "calibration_error_before": calibration.before, "corpus": corpus.name,
        "corpus_fingerprint": corpus.fingerprint, "examples": len(examples), "penalty": score.penalty,
    }  # fmt: skip
    parts = {"weights": fit.weights[0], "bias": fit.bias[0], "middle": known.middle, "spread": known.spread}
    return TextProbe.fitted(card, {name: part.cpu() for name, part in parts.items()}, encoder)


def _picked(measured: pd.DataFrame, table: pd.DataFrame, poolings: Sequence[str]) -> pd.DataFrame:
    """Measures with the regret of the layer that each picks, in the first pooling."""
    here = table[table["pooling"] == poolings[0]][["model", "layer", "regret"]]
    joined = measured.merge(here, on=["model", "layer"], how="left")
    return joined[["model", "layer", "measure", "value", "picks", "regret"]]


@choose.finds
def _findings(result: Result) -> Iterable[Finding]:
    """What to use, what the usual choices cost, how many labels are enough, and which cells may be the best."""
    answer, curve = result.tables["answer"], result.tables["curve"]
    unit = str(result.provenance.corpus.get("resampled", "documents")).removesuffix("s")
    rows = {row.what: row for row in rows_of(answer)}
    chosen = rows[CHOSEN]
    score, named = METRICS[chosen.metric], _named(chosen)
    enough = next(rows_of(curve[curve["enough"]]))
    value, words = number(chosen.value, chosen.low, chosen.high), number(rows[WORDS].value)
    sources = [Source("answer", {"what": what}) for what in (CHOSEN, WORDS, LAST, THIRDS) if what in rows]
    sources.append(Source("curve", {"labels": int(enough.labels)}))
    better = f"Use {named}: {score} {value}, words and characters alone {words}"
    worse = f"No layer is needed: words and characters alone reach {score} {words}, the best layer ({named}) {value}"
    yield finding(
        claim=better if chosen.difference > 0 else worse,
        whether=f"{named} ({score} {value}), reads more than words and characters alone ({words})",
        absent=f"Words and characters alone do as well ({words}) as the best layer, {named} ({score} {value})",
        contrast="difference",
        test=_contrast(chosen),
        source=sources,
        unit=unit,
        importance=("answers", "beats control", "localised"),
        note=_advice(rows, curve),
    )
    yield from _costs(rows, chosen, score, unit)
    yield from _labels_enough(curve, score, unit)


def _named(row: Any) -> str:
    # Read from a file, the column has fractions, since the words alone have no layer.
    return f"layer {int(row.layer)} of {row.model}, {_POOLED.get(row.pooling, row.pooling)}"


def _advice(rows: dict[str, Any], curve: pd.DataFrame) -> str:
    """What other choices cost, and how many labels are enough."""
    costs = {
        what: number(rows[key].difference, rows[key].difference_low, rows[key].difference_high)
        for key, what in ((LAST, "the last layer"), (THIRDS, "two thirds of the depth"))
        if key in rows and rows[key].layer != rows[CHOSEN].layer
    }
    place = int(curve.index[curve["enough"]][0])
    labels = int(curve["labels"].loc[place])
    return recommendation(costs, labels, enough=place < len(curve) - 1)


def _costs(rows: dict[str, Any], chosen: Any, score: str, unit: str) -> Iterator[Finding]:
    for what, row in rows.items():
        if what == CHOSEN or (row.model, row.layer, row.pooling) == (chosen.model, chosen.layer, chosen.pooling):
            continue
        name = "reading words and characters alone" if what == WORDS else f"{_article(what)} (layer {int(row.layer)})"
        start = name[0].upper() + name[1:]
        yield finding(
            claim=f"{start} costs {score} beside the best choice",
            whether=f"{name} costs {score} beside the best choice",
            absent=f"{start} costs no {score} beside the best choice",
            contrast="regret",
            test=_contrast(row),
            source=Source("answer", {"what": what}),
            unit=unit,
            importance=("localised",),
        )


def _article(what: str) -> str:
    return what if what == THIRDS else f"the {what}"


def _labels_enough(curve: pd.DataFrame, score: str, unit: str) -> Iterator[Finding]:
    everything = int(curve["labels"].iloc[-1])
    enough = curve.index[curve["enough"]]
    if len(curve) < 2 or not len(enough):
        return
    place = min(int(enough[0]), len(curve) - 2)
    row = next(rows_of(curve.iloc[[place]]))
    yield finding(
        claim=f"More than {row.labels:,} labels still help: {score} {number(row.value)}",
        whether=f"all {everything:,} labels do better than {row.labels:,}",
        absent=f"{row.labels:,} labels are as good as {everything:,}, within a point",
        contrast="difference",
        test=_contrast(row),
        source=[Source("curve", {"labels": int(row.labels)}), Source("curve", {"labels": everything})],
        unit=unit,
        importance=("answers",),
        margin=POINT,
    )


def _contrast(row: Any) -> Contrast:
    return Contrast.of(row, "difference", "difference_low", "difference_high")


@choose.shows
def _shows(result: Result) -> Iterator[Overview | str]:
    """The best cells, and those that none is both better and faster than."""
    table, best = result.tables["choose"], result.tables["best"]
    order = table["value"].fillna(-np.inf).sort_values(ascending=False, kind="stable").index[:8]
    rows: list[tuple[str | int, ...]] = []
    for place in order:
        row = next(rows_of(table.loc[[place]]))
        layer = "-" if pd.isna(row.layer) else str(int(row.layer))
        inside = "yes" if bool(best["best"].loc[place]) else ""
        rows.append(
            (
                row.model,
                layer,
                row.pooling,
                cell(row.value, row.low, row.high),
                cell(row.regret, row.regret_low, row.regret_high),
                f"{row.seconds_per_1000_texts:.2f}",
                inside,
            )
        )
    columns = (
        "model",
        "layer",
        "pooling",
        METRICS[str(table["metric"].iloc[0])],
        "regret",
        "s per 1,000 texts",
        "may be best",
    )
    yield Overview("best layers and poolings", columns, rows)

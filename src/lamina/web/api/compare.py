"""Several models and one baseline: their saved results side by side, the differences, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from lamina.comparison.compare import (
    NO_RESULT,
    ModelEntries,
    NotComparable,
    all_layer_scores,
    comparable_results,
    layer_curves,
    newest_results,
    why_not_comparable,
)
from lamina.comparison.probes import tasks_of
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import InputError, LaminaError
from lamina.figures import captions_for, draw, spec_of
from lamina.framework.declare import ComparedLayers, ComparedValues
from lamina.framework.passports import refused_analyses
from lamina.framework.registry import get_analysis
from lamina.results import Result
from lamina.results.index import ResultIndex, SavedResult, using
from lamina.web.api.results import FigureCard, FindingCard, ResultSummary, summaries_of
from lamina.web.api.schema import ERRORS, Typed
from lamina.web.jobs import CostEstimate
from lamina.web.models import TWIN
from lamina.web.requests import job_request
from lamina.web.state import AppState, State

if TYPE_CHECKING:
    import pandas as pd


router = APIRouter(
    prefix="/compare",
    tags=["compare"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 409, 413, 422, 429, 503, 504)},
)

MOST = 100
"""Models of one comparison: a bound on one request, not on what can be drawn."""
_Name = Annotated[Typed, Field(max_length=1000)]
_SCORES = ("score_full", "score_best_layer", "items", "value")


class ComparisonRequest(BaseModel):
    """Models to compare; the first is the baseline. `NAME (random)` is a model's twin with random weights."""

    models: list[_Name] = Field(min_length=2, max_length=MOST)


class ComparisonOffer(BaseModel):
    """A model that can be compared with the baseline, or the reason why not."""

    name: str
    title: str
    twin: bool
    """Whether it is the random twin of another."""
    shares: list[str]
    """Titles of the analyses that both have, on the same texts with the same settings."""
    why: str
    """Why it is not offered; empty if it is."""


class ModelScore(BaseModel):
    """The score of one model at one task; null where it is not available."""

    analysis: str
    task: str
    title: str
    metric: str
    statistic: Literal["score_full", "score_best_layer", "items", "value"]
    model: str
    value: float | None
    low: float | None
    high: float | None
    reason: str


class ScoreDifference(ModelScore):
    """A model's score minus the baseline's."""

    p: float | None
    """Corrected for all tasks and models; null where there is no paired test."""
    paired: bool
    """Whether the interval is of the same draws of the same texts; otherwise as if both were independent."""


class TaskLayer(BaseModel):
    """A layer that a task is read from."""

    task: str
    model: str
    layer: int
    value: float
    low: float
    high: float
    among_best: bool
    """Whether it is in the confidence set of best layers of all models."""


class AnalysisCurves(BaseModel):
    """One analysis of several models in one chart: all on the same axes."""

    analysis: str
    title: str
    figure: FigureCard


class ComparisonGap(BaseModel):
    """What cannot be compared, and why."""

    what: str
    why: str


class ModelComparison(BaseModel):
    """What the saved results say about several models."""

    models: list[str]
    """The baseline first."""
    shapes: list[tuple[int, int]]
    """Blocks of each, and heads per block."""
    scores: list[ModelScore]
    differences: list[ScoreDifference]
    curves: list[AnalysisCurves]
    figures: list[FigureCard]
    """Of the probing results: as `lamina compare` draws them."""
    findings: list[FindingCard]
    layers: list[TaskLayer]
    """For each task the best layer of every model, the best of all first."""
    heads_of: list[str]
    """Analyses of heads whose results are alike for all of the models."""
    by_head: list[str]
    """Models whose heads are at the same places as the baseline's: it, its twin and those fine-tuned from it."""
    not_compared: list[ComparisonGap]
    diff: ResultSummary | None
    """The newest `diff` result of the baseline and the second model, if there is one."""


@router.get("/models/{baseline:path}")
def offers(app: State, baseline: Annotated[str, Path(max_length=1000)]) -> list[ComparisonOffer]:
    """Every model and random twin of this server: what it shares with the baseline, or why it is not offered."""
    base_results = _side(app, baseline)
    names = app.models.names()
    every = [*names, *(f"{name}{TWIN}" for name in names)]
    return [_offer(app, base_results, name) for name in every if name != baseline]


@router.post("")
def compared(app: State, several: ComparisonRequest) -> ModelComparison:
    """Saved results of several models: scores, differences from the first, and curves by layer, on shared scales."""
    names = list(dict.fromkeys(several.models))
    if len(names) < 2:
        raise InputError("a comparison needs two models; pick another")
    sides = [_side(app, name) for name in names]
    alike, unlike = comparable_results(sides)
    comparisons: list[tuple[str, Result]] = []
    for analysis in _declared(app, sides):
        comparison, why = _compared(app, analysis, sides, alike.get(analysis, []))
        if comparison is not None:
            comparisons.append((analysis, comparison))
        elif why:
            unlike.append(NotComparable(analysis, why))
    scores = [row for analysis, comparison in comparisons for row in _scores(analysis, comparison, sides)]
    differences = [row for analysis, comparison in comparisons for row in _differences(analysis, comparison, sides)]
    beside, apart = _twins(app, sides, scores)
    probed = next((comparison for analysis, comparison in comparisons if analysis == "probe"), None)
    left_out = [
        ComparisonGap(what="", why=reason) for _, comparison in comparisons for reason in comparison.provenance.skipped
    ]
    diff = app.results.newest("diff", " and ".join(_shown(side) for side in sides[:2]))
    return ModelComparison(
        models=names,
        shapes=[(shape.blocks, shape.heads) for shape in map(app.examined, names)],
        scores=[*scores, *beside],
        differences=[*differences, *apart],
        curves=list(_curves(app, alike)),
        figures=[] if probed is None else _figures(probed),
        findings=[
            FindingCard(text=finding.text, status=finding.status, weight=finding.weight)
            for _, comparison in comparisons
            for finding in comparison.findings
        ],
        layers=[] if probed is None else _layers(probed),
        heads_of=[
            name for name, holders in alike.items() if len(holders) == len(sides) and not any(s.twin for s in sides)
        ],
        by_head=_by_head(app, names),
        not_compared=[*(ComparisonGap(what=gap.what, why=gap.why) for gap in unlike), *left_out],
        diff=None if diff is None else summaries_of(app, [diff])[0],
    )


def _declared(app: AppState, sides: Sequence[ModelEntries]) -> list[str]:
    """The analyses that any of the models has and that models are compared by, in the order of the report."""
    there = {analysis for side in sides if not side.twin for analysis in side.entries}
    return [analysis.name for analysis in app.analyses if analysis.compares is not None and analysis.name in there]


class MissingResult(BaseModel):
    """What one of the models lacks to be compared with the others, and what it would take."""

    model: str
    analysis: str
    title: str
    wanted: dict[str, Any]
    """What to send to `POST /api/jobs`: on the texts and with the settings of the model that has it."""
    state: Literal["waiting", "trying", "known", "failed", "off"]
    """Of the estimate, as of `GET /api/unmeasured`."""
    seconds: float | None
    why: str
    """Why it cannot be measured, or not be estimated."""


@router.post("/missing")
def missing(app: State, several: ComparisonRequest) -> list[MissingResult]:
    """What to measure so that models can be compared: what one has and another lacks, on the same texts.

    Where none of them has anything, what a report on several models asks first.
    """
    sides = [side for side in (_side(app, name) for name in dict.fromkeys(several.models)) if not side.twin]
    wanted = []
    for analysis in _declared(app, sides) or _FIRST:
        holder = next((side.entries[analysis] for side in sides if analysis in side.entries), None)
        for side in sides:
            entry = side.entries.get(analysis)
            if entry is None or (holder is not None and why_not_comparable(holder, entry)):
                wanted.append(_missing(app, analysis, side.name, holder))
    return wanted


_FIRST = ("geometry", "probe", "attention", "heads")
"""What is offered where none of the models has anything."""


def _missing(app: AppState, name: str, model: str, holder: SavedResult | None) -> MissingResult:
    """The request that makes the model comparable with the holder of a result."""
    analysis = get_analysis(name)
    request: dict[str, Any] = {"analysis": name, "model": model, "settings": dict(analysis.report or {})}
    if holder is not None:
        options = {option.name for option in analysis.options}
        about = {key: holder.corpus.get(key) for key in ("split", "unit", "limit") if key in options}
        request["data"] = {"name": holder.corpus.get("name", ""), **_known(about)}
        usual = {key: setting.default for key, setting in analysis.settings.items()}
        settings = {key: value for key, value in holder.parameters.items() if key in usual}
        request["settings"] = {key: value for key, value in _known(settings).items() if value != usual[key]}
    return _estimated(app, request)


def _estimated(app: AppState, request: dict[str, Any]) -> MissingResult:
    """What a request would take, or why it cannot be run."""
    analysis, model = get_analysis(request["analysis"]), request["model"]
    title = app.words_of(analysis.name)[0]
    try:
        passport = app.examined(model).passport
        refused = refused_analyses(passport, [analysis]).get(analysis.name)
        if analysis.reads.speaks and passport.language_head is None:
            refused = "the model has no language-model head"
        estimate = (
            CostEstimate("failed", why=refused) if refused else app.estimates.get(job_request(app, request).table())
        )
    except LaminaError as error:
        estimate = CostEstimate("failed", why=str(error))
    about = {"model": model, "analysis": analysis.name, "title": title, "wanted": request}
    return MissingResult(**about, state=estimate.state, seconds=estimate.seconds, why=estimate.why)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


class HeadMatchCard(BaseModel):
    """A head of the first model, and the head of the second that attends most alike."""

    head: str
    match: str
    overlap: float
    """Of attention between words, 0 to 1, on documents that did not choose the match."""
    others: float
    """The mean over all heads of the second model."""
    p: float | None
    """Of the difference of both, corrected for all heads of the first model."""
    agrees: bool
    """Whether the documents that score would have chosen the same match."""
    mutual: bool
    """Whether the match's own best match is this head, on the documents that choose."""


class ModelCorrespondence(BaseModel):
    """Which layers and heads of two models correspond, by the newest `correspondence` result of them."""

    models: tuple[str, str]
    """In the order of the result."""
    cka: list[list[float | None]]
    """[layer of the first][layer of the second] Debiased linear CKA of word vectors; null without any spread."""
    twin: list[list[float | None]]
    """The same with an untrained twin of the second."""
    nearest: list[list[bool]]
    """Whether the layer of the second can be the one most like the layer of the first."""
    heads: list[HeadMatchCard]
    """Of every head of the first model; empty where one of them has no maps."""
    findings: list[FindingCard]
    directed: bool
    """Whether heads are compared on earlier words alone, since one of the models looks back only."""
    corpus: str
    texts: int
    words: int


class CorrespondenceAnswer(BaseModel):
    """What is saved of two models, or what would measure it."""

    correspondence: ModelCorrespondence | None
    missing: MissingResult | None
    """Null where it was measured, and of random twins, which are no separate models."""


@router.post("/correspondence")
def correspondence(app: State, several: ComparisonRequest) -> CorrespondenceAnswer:
    """Which layers and heads of the first two models correspond: their saved result, or how to measure it."""
    names = list(dict.fromkeys(several.models))[:2]
    if len(names) < 2:
        raise InputError("a comparison needs two models; pick another")
    if any(app.models.twin_of(name) for name in names):
        return CorrespondenceAnswer(correspondence=None, missing=None)
    prints = [app.models.fingerprint(name) for name in names]
    for order in ((0, 1), (1, 0)):
        both = fingerprint_of(*(prints[side] for side in order))
        entries = [entry for entry in app.results.of_model(both) if entry.analysis == CORRESPONDENCE]
        if entries:
            with using(entries[0]):
                measured = _corresponding((names[order[0]], names[order[1]]), app.results.result(entries[0].id))
            return CorrespondenceAnswer(correspondence=measured, missing=None)
    wanted = {"analysis": CORRESPONDENCE, "model": names[0], "other": names[1], "settings": {}}
    return CorrespondenceAnswer(correspondence=None, missing=_estimated(app, wanted))


CORRESPONDENCE = "correspondence"


def _corresponding(models: tuple[str, str], result: Result) -> ModelCorrespondence:
    table, corpus = result.tables["layers"], result.provenance.corpus

    def matrix(column: str) -> list[list[Any]]:
        return table.pivot_table(
            index="layer", columns="other_layer", values=column, dropna=False, sort=True, aggfunc="first"
        ).to_numpy().tolist()  # fmt: skip

    heads = result.tables["heads"].to_dict("records") if "heads" in result.tables else []
    return ModelCorrespondence(
        models=models,
        cka=[[_number(value) for value in row] for row in matrix("value")],
        twin=[[_number(value) for value in row] for row in matrix("baseline")],
        nearest=[[bool(value) for value in row] for row in matrix("among_best")],
        heads=[
            HeadMatchCard(
                head=f"{row['layer']}-{row['head']}",
                match=f"{row['match_layer']}-{row['match_head']}",
                overlap=row["value"],
                others=row["baseline"],
                p=_number(row["p_adjusted"]),
                agrees=row["agrees"],
                mutual=row["mutual"],
            )
            for row in heads
        ],
        findings=[
            FindingCard(text=finding.text, status=finding.status, weight=finding.weight) for finding in result.findings
        ],
        directed=bool(corpus.get("directed")),
        corpus=str(corpus.get("name", "")),
        texts=int(corpus.get("texts_read", 0)),
        words=int(corpus.get("words_read", 0)),
    )


def _side(app: AppState, name: str) -> ModelEntries:
    """The model's results, matched by its weights; those of a twin are in the results of its model."""
    base = app.models.twin_of(name)
    entries = app.results.of_model(app.models.fingerprint(base or name))
    if base is not None:
        entries = [entry for entry in entries if entry.parameters.get("twin")]
    return ModelEntries(name, base is not None, newest_results(entries))


def _offer(app: AppState, baseline: ModelEntries, name: str) -> ComparisonOffer:
    base = app.models.twin_of(name)
    title = f"{base}, random twin" if base else name
    try:
        side = _side(app, name)
        blank = base is not None and not app.examined(base).blocks
    except LaminaError as error:
        # A model that cannot be loaded is named, and the others are offered.
        return ComparisonOffer(
            name=name, title=title, twin=base is not None, shares=[], why=f"{name} cannot be loaded: {error}"
        )
    if blank:
        return ComparisonOffer(
            name=name, title=title, twin=True, shares=[], why=f"{base} has no blocks, so no random twin"
        )
    alike, unlike = comparable_results([baseline, side])
    heads = app.examined(base or name).heads and app.examined(_base(app, baseline.name)).heads
    reasons = [f"{gap.what}: {gap.why}" for gap in unlike if not gap.why.startswith(NO_RESULT)]
    nothing = "; ".join(reasons) or f"there is no analysis that both {baseline.name} and {name} have"
    shares = [app.words_of(analysis)[0] for analysis in alike]
    return ComparisonOffer(
        name=name, title=title, twin=base is not None, shares=shares, why="" if shares or heads else nothing
    )


def _base(app: AppState, name: str) -> str:
    return app.models.twin_of(name) or name


def _shown(side: ModelEntries) -> str:
    """The model's name in results."""
    entry = next(iter(side.entries.values()), None)
    model = side.name.removesuffix(TWIN) if entry is None else entry.model
    return f"{model}{TWIN}" if side.twin else model


def _compared(
    app: AppState, analysis: str, sides: Sequence[ModelEntries], alike: Sequence[ModelEntries]
) -> tuple[Result | None, str]:
    """The comparison of one analysis, or why there is none; both empty where no model has it."""
    if isinstance(get_analysis(analysis).compares, ComparedLayers | ComparedValues):
        # One result of each, of those that were made on the same texts with the same settings.
        probed = [[side.entries[analysis]] for side in alike if not side.twin]
    else:
        probed = [_asked(app, analysis, side.name) for side in sides if not side.twin]
    # Models of the same weights have the same results.
    entries = list({entry.id: entry for saved in probed for entry in saved}.values())
    if not entries:
        return None, ""
    if sum(bool(saved) for saved in probed) < 2:
        # Models without this analysis are already listed as not comparable.
        return None, ""
    try:
        with using(*entries):
            return load_comparison(app.results, tuple((entry.id, entry.saved) for entry in entries)), ""
    except LaminaError as error:
        return None, str(error)


def _asked(app: AppState, analysis: str, name: str) -> list[SavedResult]:
    """The model's newest results of an analysis that have no task of a corpus in common."""
    newest: list[SavedResult] = []
    covered: set[tuple[str, str]] = set()
    for entry in app.results.of_model(app.models.fingerprint(name)):
        if entry.analysis != analysis:
            continue
        if analysis == "probe":
            with using(entry):
                tasks = tasks_of(app.results.result(entry.id))
        else:
            tasks = [(analysis, str(entry.corpus.get("name", "")))]
        if covered.isdisjoint(tasks):
            newest.append(entry)
            covered.update(tasks)
    return newest


@lru_cache(maxsize=32)
def load_comparison(results: ResultIndex, ids: tuple[tuple[str, int], ...]) -> Result:
    """Cached as long as the folders hold the same results: reading all predictions takes seconds."""
    return get_analysis("compare")([results.result(id) for id, _ in ids])


def _names(sides: Sequence[ModelEntries]) -> dict[str, str]:
    """Names in results -> names in requests."""
    return {_shown(side): side.name for side in sides}


def _rows(comparison: Result, table: str) -> Iterator[dict]:
    frame = comparison.tables[table]
    rows = frame[frame["statistic"].isin(_SCORES)]
    plain = rows["statistic"] == "value"
    if plain.any():
        # Numbers over few things are in the tables of `lamina compare`.
        apart = comparison.tables["differences"]
        tested = set(apart.loc[(apart["statistic"] == "value") & (apart["reason"].fillna("") == ""), "task"])
        rows = rows[~plain | rows["task"].isin(tested)] if tested else rows
    yield from rows.to_dict("records")


def _scores(analysis: str, comparison: Result, sides: Sequence[ModelEntries]) -> list[ModelScore]:
    names = _names(sides)
    return [
        _score(analysis, row | {"model": names.get(row["model"], row["model"])}) for row in _rows(comparison, "compare")
    ]


def _score(analysis: str, row: dict) -> ModelScore:
    from lamina.figures.theme import title_of
    from lamina.tasks.catalogue import in_words

    return ModelScore(
        analysis=analysis,
        task=row["task"],
        title=in_words(row["task"]) if row["statistic"] == "value" else title_of(row["task"]),
        metric=row["metric"],
        statistic=row["statistic"],
        model=row["model"],
        reason=row.get("reason") or "",
        **{name: _number(row[name]) for name in ("value", "low", "high")},
    )


def _differences(analysis: str, comparison: Result, sides: Sequence[ModelEntries]) -> list[ScoreDifference]:
    """Each model minus the baseline: rows of the table are a - b."""
    names, baseline, differences = _names(sides), sides[0].name, []
    for row in _rows(comparison, "differences"):
        a, b = names.get(row["a"], row["a"]), names.get(row["b"], row["b"])
        if baseline not in (a, b):
            continue
        value, low, high = row["difference"], row["low"], row["high"]
        if a == baseline:
            value, low, high = -value, -high, -low
        score = _score(analysis, row | {"model": b if a == baseline else a, "value": value, "low": low, "high": high})
        differences.append(ScoreDifference(**score.model_dump(), p=_number(row["p_adjusted"]), paired=True))
    return differences


def _twins(
    app: AppState, sides: Sequence[ModelEntries], scores: Sequence[ModelScore]
) -> tuple[list[ModelScore], list[ScoreDifference]]:
    """Scores of random twins, whose predictions are not saved: differences have no intervals."""
    twins = {side.name for side in sides if side.twin}
    known = {score.model for score in scores if score.statistic == "score_full"}
    beside: list[ModelScore] = []
    for side in sides:
        entry = side.entries.get("probe")
        # A model that no other is compared with still has its twin beside it.
        if entry is None or not twins or side.name in known:
            continue
        with using(entry):
            layer_scores = all_layer_scores(app.results.result(entry.id), twin=side.twin)
        more = {"statistic": "score_full", "model": side.name, "reason": ""}
        beside += [_score("probe", row | more) for row in layer_scores]
    full = {(score.task, score.model): score for score in (*scores, *beside) if score.statistic == "score_full"}
    apart = []
    for (task, model), score in full.items():
        other = full.get((task, sides[0].name))
        if (
            model == sides[0].name
            or other is None
            or not twins & {model, sides[0].name}
            or score.metric != other.metric
        ):
            continue
        if score.value is not None and other.value is not None:
            # Without paired draws the difference has no interval: whether two intervals overlap is not a test.
            value = round(score.value - other.value, 6)
            about = score.model_copy(update={"value": value, "low": None, "high": None})
            apart.append(ScoreDifference(**about.model_dump(), p=None, paired=False))
    return beside, apart


def _curves(app: AppState, alike: dict[str, list[ModelEntries]]) -> Iterator[AnalysisCurves]:
    import pandas as pd

    from lamina.figures.compare import by_task
    from lamina.figures.theme import themed

    for analysis, sides in alike.items():
        parts = []
        for side in sides:
            entry = side.entries[analysis]
            with using(entry):
                curves = layer_curves(app.results.result(entry.id), twin=side.twin)
            parts.append(curves.assign(model=side.name, task=curves["series"].str.replace("_", " "), metric="value"))
        rows = pd.concat([part for part in parts if len(part)]) if any(map(len, parts)) else pd.DataFrame()
        rows = _of_several(rows)
        if rows.empty:
            continue
        title = app.words_of(analysis)[0]
        models = [side.name for side in sides if side.name in set(rows["model"])]
        with using(*(side.entries[analysis] for side in sides)):
            spec = spec_of(themed(by_task(rows, title, models)))
        caption = (
            "One panel per measure; all models on the same axes. Bars: 95 % interval of each model alone, not of the "
            "difference. Models of different depth are drawn by share of their depth."
        )
        figure = FigureCard(name="curves", spec=spec, summary=str(spec.get("description", "")), caption=caption)
        yield AnalysisCurves(analysis=analysis, title=title, figure=figure)


def _of_several(rows: pd.DataFrame) -> pd.DataFrame:
    """Only series that at least two models have."""
    if rows.empty:
        return rows
    return rows[rows.groupby("task")["model"].transform("nunique") > 1]


def _figures(comparison: Result) -> list[FigureCard]:
    captions = captions_for(comparison)
    specs = {name: spec_of(chart) for name, chart in draw(comparison).items()}
    return [
        FigureCard(name=name, spec=spec, summary=str(spec.get("description", "")), caption=captions.get(name, ""))
        for name, spec in specs.items()
    ]


def _layers(comparison: Result) -> list[TaskLayer]:
    table = comparison.tables["best_layers"]
    best = table.drop_duplicates(["task", "model"])
    return [TaskLayer(**{name: row[name] for name in TaskLayer.model_fields}) for row in best.to_dict("records")]


def _by_head(app: AppState, names: Sequence[str]) -> list[str]:
    """Models of the baseline's shape that started from the same weights, or are the random twin of such a model."""
    baseline, root = app.examined(names[0]), _root(app, names[0])
    matching = []
    for name in names:
        shape = app.examined(name)
        if (
            baseline.heads
            and (shape.blocks, shape.heads) == (baseline.blocks, baseline.heads)
            and _root(app, name) == root
        ):
            matching.append(name)
    return matching


def _root(app: AppState, name: str) -> str:
    """The fingerprint of the model that a fine-tuning started from; of any other, its own."""
    base = _base(app, name)
    for entry in app.results.entries():
        if entry.analysis == "finetune" and (base == entry.name or base.startswith(f"{entry.name}/")):
            return str(entry.head["provenance"]["model"].get("fingerprint", ""))
    return app.models.fingerprint(base)


def _number(value: float) -> float | None:
    return None if value != value else round(float(value), 6)

"""Fine-tuning undone: which layers of a tuned model can be restored, or need not be tuned at all?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from lamina.analyses.answering.finetune import LEARNED, LIMITS_OF_SETS, as_sets
from lamina.analyses.cause.restored_layers import (
    HOWS,
    POSITIONS,
    RANDOM,
    TRANSFER,
    ChangedLayers,
    How,
    LayerRange,
    LinePoint,
    along_line,
    has_linear_head,
    linear_heads,
    plans_of,
    put_back,
    score_of,
    some_items,
    spans_of,
    tuned_again,
    unchanged,
    width_of,
)
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import CorpusError, InputError, LaminaError, ModelError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.inputs import (
    FILES,
    FORMAT,
    SPLIT_FROM,
    Input,
    LoadedInputs,
    Reads,
    as_encoder,
    describe_models,
    short_name,
)
from lamina.framework.settings import DeclaredSetting, Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.interventions.pruned import layer_weights, refuse_unlike
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, best_in_words, cell, finding, number, rows_of
from lamina.stats.best import leads
from lamina.stats.intervals import interval
from lamina.stats.status import SURE, Contrast, Status, status_of
from lamina.training.answering import FinetunedFolder
from lamina.training.heads import WindowedEncoder, source_of, with_padding
from lamina.training.objective import Runs, means, score_contrasts, text_of, unit_kind
from lamina.training.provenance import refuse_used
from lamina.training.reading import Sets, apart
from lamina.training.settings import LOWER_IS_BETTER, TrainingPlan

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.corpora import Corpus

POINT = 0.01
"""Differences of scores within this margin are negligible."""
NAMES = {"f1": "F1", "exact_match": "exact match"}
"""Metric -> its name in a sentence, where that is another."""
SINGLE, LINEAR = "single layers", "linear heads"
"""Kinds of rows of the table `best`."""
_DONE = {"restore": "restored", "freeze": "frozen while tuning", "reset": "re-initialised before tuning"}
_RESTORE = ("how", "first", "last", "value", "low", "high")
_RANDOM = ("first", "last", "value", "low", "high")
_EFFECTS = (
    "how", "first", "last", "metric", "baseline", "value", "effect", "low", "high", "p_adjusted", "units", "needed",
    "unit",
)  # fmt: skip
_BEST = (
    "what", "layer", "metric", "value", "lead", "low", "high", "p_beaten", "among_best", "units", "needed", "unit",
)  # fmt: skip
_REFERENCES = ("what", "metric", "count", "value", "low", "high")
_TRANSFER = ("layer", "value", "low", "high")
_LINE = (
    "position", "value", "low", "high", "random", "difference", "diff_low", "diff_high", "p_adjusted", "units",
    "needed", "unit",
)  # fmt: skip
_WIDTHS = ("direction", "value", "low", "high")
_HALFWAY = 0.5
"""The position that the finding is about."""
TUNED, AGAIN, CONSTANT = "tuned", "tuned again", "most frequent answer"
"""Rows of `references`."""
_FEW_POINTS = 3
"""Default number of points for freeze and reset, each of which is a fine-tuning."""
_TRIED = 20
"""Texts that are timed to estimate the cost of all of them."""


class TunedModel(Reads):
    """A model that lamina fine-tuned, the one it came from, and the three sets of its data.

    The analysis's function gets a `FinetunedFolder`, an encoder and `Sets`; `as_tuned` in the data's description says
    whether these are the model and texts of the fine-tuning.
    """

    default: ClassVar[None] = None
    inputs: ClassVar = (
        Input("model", "A folder that `lamina finetune` wrote.", metavar="TUNED", kind="model"),
        Input(
            "data",
            "Data with the tuned model's task: a name or a path; by default the data it was tuned on.",
            default=None,
            option="--data",
            kind="questions",
        ),
        Input(
            "before",
            "The model before fine-tuning; by default the one that the folder names.",
            default=None,
            option="--before",
        ),
    )

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (FORMAT, *FILES, SPLIT_FROM, LEARNED, *LIMITS_OF_SETS)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        tuned = FinetunedFolder.of(as_encoder(given["model"], {}, runtime))
        before = _before(tuned, given["before"], runtime)
        sets = _sets(tuned, given["data"], options)
        refuse_used(source_of(tuned.encoder), map(text_of, sets.scored), f"{sets.name} (scored)")
        model = describe_models((tuned.encoder,))
        # The head's weights are no part of an encoder's fingerprint.
        weights = fingerprint_of(model["fingerprint"], before.fingerprint, tuned.weights)
        model |= {"fingerprint": weights, "task": tuned.task, "before": before.describe()}
        names = (short_name(given["model"], tuned.encoder), Path(sets.name).stem, tuned.task)
        data = {**sets.describe(), "as_tuned": tuned.is_from(before, sets)}
        return LoadedInputs((tuned, before, sets), model, data, names)

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """None: the model of a report need not be fine-tuned."""
        return None


@analysis(
    title="Fine-tuning undone",
    question="Which layers of a fine-tuned model can be restored, and which need not be tuned at all?",
    method=(
        "The weights of layers 0 to l of the fine-tuned model, of layers l to the top, and of single layers are "
        "restored to those before fine-tuning, and the texts are scored again; the head stays as it was tuned. "
        "Control: random weights in the same layers. With --how freeze or reset, the model is tuned again by the same "
        "recipe with layers 0 to l frozen, or with its top blocks re-initialised. A linear head on each frozen layer "
        "of the model before fine-tuning shows what can be done without tuning any layer. With --line, the loss is "
        "measured along the line through both sets of weights, beside a random direction. 95 % intervals resample "
        "documents; differences are paired by document, and adjusted for all layers."
    ),
    cites=("Hao et al. 2019", "Liu et al. 2019", "Merchant et al. 2020", "Tamkin et al. 2020", "Zhang et al. 2021"),
    reads=TunedModel(),
    # 2: all layers of one kind of change are a family with simultaneous intervals; layers that matter most are a set.
    # 3: a limit draws documents.
    version=3,
    tables={
        "restore": Table(
            "One row per change and layers from first to last: the score of the tuned model's task with these restored "
            "(restore), frozen while tuning (freeze) or re-initialised before it (reset).",
            _RESTORE,
        ),
        "random": Table("The same layers with random weights instead of pretrained ones.", _RANDOM, optional=True),
        "effects": Table(
            "One row per change and layers: the difference from the model without it, paired by document; random: "
            "random weights; transfer: a linear head on a frozen layer. All rows of one change are a family (max-T), "
            "two-sided; intervals are simultaneous.",
            _EFFECTS,
        ),
        "best": Table(
            "One row per layer restored alone, and per linear head. lead: of the layer that matters most (of the best "
            "linear head) over this one; p_beaten: p of another layer mattering more (scoring higher): below .05 the "
            "layer is not among_best. Each kind is a family.",
            _BEST,
        ),
        "references": Table(
            "One row per reference and metric: the tuned model, a model tuned again by the same recipe where steps, "
            "seeds or texts differ, and the most frequent answer of the training texts.",
            _REFERENCES,
        ),
        "transfer": Table(
            "One row per layer: a linear head on the frozen layer of the model before fine-tuning.",
            _TRANSFER,
            optional=True,
        ),
        "transfer_twin": Table("The same of the untrained twin.", _TRANSFER, optional=True),
        "line": Table(
            "With --line, one row per position on the line through the weights before fine-tuning (0) and the tuned "
            "ones (1): the loss, and the loss as far from the tuned weights in a random direction; difference: line - "
            "random, paired by document, two-sided; family: all rows (max-T).",
            _LINE,
            optional=True,
        ),
        "widths": Table(
            "With --line, one row per direction: how far the loss stays below the mean of the losses before and after "
            "fine-tuning, in shares of the way between the two; at most 2, as far as it was measured.",
            _WIDTHS,
            optional=True,
        ),
    },
    chapter="answering",
    example="lamina restore runs/pos --items 500 --out results/restore",
)
def restore(
    tuned: FinetunedFolder,
    before: HuggingFaceEncoder,
    sets: Sets,
    *,
    how: Annotated[
        Sequence[How],
        Setting(
            "What is done with layers: restore, freeze (0 to l, while tuning) or reset (re-initialise the top blocks "
            "before tuning); freeze and reset tune again for every point."
        ),
    ] = ("restore",),
    points: Annotated[
        int | None,
        Setting("Number of layers l, evenly spread; by default all for restore, 3 for freeze and reset.", min=1),
    ] = None,
    items: Annotated[int, Setting("Maximum number of scored texts, drawn at random.", min=2)] = 1000,
    transfer: Annotated[bool, Setting("Fit a linear head on every frozen layer too.")] = True,
    learn: Annotated[
        int, Setting("Maximum number of training texts of the linear heads, drawn at random.", min=2)
    ] = 2000,
    max_steps: Annotated[
        int | None,
        Setting("Freeze, reset: maximum number of steps (default: as in fine-tuning).", min=1),
    ] = None,
    seeds: Annotated[
        int, Setting("Freeze, reset: number of seeds, counted up from that of the tuned model.", min=1)
    ] = 1,
    line: Annotated[
        bool, Setting("Measure the loss along the line between the weights before and after fine-tuning, and past it.")
    ] = False,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
    work: Path,
) -> Tables:
    """Restore, freeze or re-initialise layers of a fine-tuned model, and score its task each time.

    Layer 0 is the embedding layer, layer l is block l; the head stays as it was tuned. The model is scored on the same
    texts as after fine-tuning, and by the same rules. `lamina finetune --freeze L` and `--reset N` save the models that
    `freeze` and `reset` only score. To continue a run that was stopped, run the same command again.

    Example:
        >>> result = lamina.restore("runs/pos", out="results/restore", items=500)  # doctest: +SKIP
        >>> result.tables["restore"].columns.tolist()  # doctest: +SKIP
        ['how', 'first', 'last', 'value', 'low', 'high']
    """
    chosen, own_seed = _chosen(how), seed if twin else None
    skipped: Counter[str] = Counter(sets.left_out)
    drawn_sets = replace(sets, scored=some_items(sets.scored, items, seed))
    skipped[f"scored texts beyond the {items:,} drawn"] = len(sets.scored) - len(drawn_sets.scored)
    learning = tuned.learning(drawn_sets)
    outcomes = learning.judge(tuned.model)
    skipped.update({f"scored: {why}": count for why, count in learning.objective.noted.items()})
    references: dict[str, Runs] = {TUNED: [outcomes]}
    changed: list[ChangedLayers] = []
    if "restore" in chosen:
        changed += _put_back(tuned, before, learning, outcomes, points, own_seed)
    plan = _plan(tuned, max_steps)
    seeds_used = range(plan.seed, plan.seed + seeds)
    trained: list[How] = [change for change in chosen if change != "restore"]
    if trained:
        # With the same model, texts and settings, tuning again would give the tuned model once more.
        known = outcomes if tuned.is_from(before, sets) and plan == tuned.plan else None
        again = tuned.learning(drawn_sets, before)
        base = unchanged(again, plan, known, seeds_used, work)
        if known is None or seeds > 1:
            references[AGAIN] = base
        for change in trained:
            changed += _tuned_again(change, again, plan, base, points, seeds_used, work)
    heads = _heads(tuned, before, drawn_sets, outcomes, learn, seed, own_seed, skipped) if transfer else {}
    references[CONSTANT] = [learning.objective.constant(sets.train, drawn_sets.scored)]
    metric, drawn = learning.objective.metric, {"samples": samples, "seed": seed}
    tables = _tables(changed, heads, references, metric, drawn)
    linear = heads.get("transfer", [])
    tables["effects"] = effect_table([*changed, *linear], metric, unit_kind(drawn_sets.scored), seed=seed)
    tables["best"] = best_table(changed, linear, metric, unit_kind(drawn_sets.scored), **drawn)
    if line:
        names = [name for of_layer in layer_weights(tuned.encoder) for name in of_layer]
        what = f"{tuned.encoder.name}: loss between the weights"
        measured = list(along_line(learning, tuned.model, before, names, seed=seed, what=what))
        tables |= line_tables(measured, unit_kind(drawn_sets.scored), **drawn)
    return Tables(
        tables,
        {why: count for why, count in skipped.items() if count},
        seeds=tuple(seeds_used) if trained else None,
        scored={tuned.task: score_of([outcomes], metric, **drawn).count},
    )


@restore.finds
def findings_of(result: Result) -> Iterator[Finding]:
    """The line, the lower half, how many layers can be restored, single layers, linear heads, layers tuned again."""
    if "line" in result.tables:
        yield _line_finding(result.tables["line"], result.tables["widths"])
    if result.tables["effects"].empty:
        return
    rows = list(rows_of(result.tables["effects"]))
    changed = {how: [row for row in rows if row.how == how] for how in dict.fromkeys(row.how for row in rows)}
    restored, seeds = changed.get("restore", []), int(result.provenance.parameters.get("seeds", 1))
    yield from _halves(restored)
    yield from _how_far("restore", [row for row in restored if row.first == 0], seeds)
    yield from _single(result, [row for row in restored if row.first == row.last])
    yield from _linear_findings(result, changed.get(TRANSFER, []))
    yield from _how_far("freeze", changed.get("freeze", []), seeds)
    yield from _how_far("reset", changed.get("reset", []), seeds)


@restore.shows
def overview_of(result: Result) -> Iterator[Overview]:
    """One row per change and layers, and one per linear head."""
    about, metric = result.provenance, metric_of(result)
    rows: list[tuple[str | int, ...]] = [
        (row.what, "", cell(row.value, row.low, row.high), "")
        for row in rows_of(result.tables["references"])
        if row.metric == metric
    ]
    values = _intervals(result)
    for row in rows_of(result.tables["effects"]):
        if row.how == RANDOM:
            continue
        layers = str(row.first) if row.first == row.last else f"{row.first}-{row.last}"
        score = values[(row.how, row.first, row.last)]
        rows.append((row.how, layers, cell(*score), cell(row.effect, row.low, row.high)))
    title = f"{about.model['name']}: {about.model.get('task', 'its task')} on {about.corpus['name']}"
    yield Overview(title, ("what", "layers", metric, "difference from tuned"), rows)


@restore.costs
def _cost(
    estimator: Estimator, tuned: FinetunedFolder, before: HuggingFaceEncoder, sets: Sets, *, how: Sequence[How],
    points: int | None, items: int, transfer: bool, learn: int, max_steps: int | None, seeds: int, line: bool,
    twin: bool, **_: Any,
) -> Cost:  # fmt: skip
    """Texts are scored after every change; models are trained again, and linear heads fitted."""
    chosen = _chosen(how)
    expected = tuned.learning(sets, before).expect([_plan(tuned, max_steps)])
    length = expected.tokens / max(1, len(sets.train))
    many = min(items, len(sets.scored))
    passes = 1 + ("restore" in chosen) * len(spans_of("restore", before.blocks, points)) * (1 + twin)
    passes += 2 * len(POSITIONS) * line
    read, steps = passes * many * length, 0
    trained = [span for change in chosen if change != "restore" for span in _trained_spans(change, before, points)]
    if trained:
        runs = (len(trained) + 1) * seeds
        passes, steps, read = passes + runs, runs * expected.steps, read + runs * expected.read
    if transfer:
        fitted = min(learn, len(sets.train)) + min(learn // 4, len(sets.select)) + many
        passes, read = passes + 1 + twin, read + (1 + twin) * fitted * length
    return Cost(passes, many, round(many * length), steps, memory=memory_now(), work=read * estimator.per_token)


def metric_of(result: Result) -> str:
    """The task's own metric: the first that is noted."""
    return str(result.tables["references"]["metric"].iloc[0])


def _contrast(row: Any) -> Contrast:
    return Contrast.of(row, "effect")


def _loss_of_score(row: Any) -> float:
    """Above 0 where the score is worse, whatever the metric."""
    return float(row.effect) if row.metric in LOWER_IS_BETTER else -float(row.effect)


def _status(row: Any) -> Status:
    return status_of(row.low, row.high, row.p_adjusted, needed=row.needed, margin=POINT)


def _source(row: Any) -> Source:
    return Source("effects", {"how": row.how, "first": row.first, "last": row.last})


def _name(row: Any) -> str:
    return NAMES.get(row.metric, str(row.metric))


def _finding_of(row: Any, **words: Any) -> Finding:
    """A finding about the difference of one row from the model without the change."""
    defaults = {"contrast": "difference", "test": _contrast(row), "unit": row.unit, "margin": POINT, "digits": 3}
    return finding(**{**defaults, "source": _source(row), **words})


def _line_finding(line: pd.DataFrame, widths: pd.DataFrame) -> Finding:
    """Whether the tuned weights lie flat towards those before: halfway there, beside a random direction."""
    row = next(rows_of(line[line["position"] == _HALFWAY]))
    tuned, before = (float(line.loc[line["position"] == end, "value"].iloc[0]) for end in (1, 0))
    width = widths.set_index("direction")["value"]
    beside = f"as far in a random direction {number(row.random)}"
    return finding(
        claim=f"Halfway back to the weights before fine-tuning the loss is {number(row.value)}, {beside}",
        whether=f"the loss halfway back to the weights before fine-tuning ({number(row.value)}) differs from that "
        f"{beside}",
        absent=f"Halfway back to the weights before fine-tuning the loss is that of a random direction: "
        f"{number(row.value)}, {beside}",
        contrast="difference",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=(Source("line", {"position": _HALFWAY}), Source("line", {"position": 1.0}),
                Source("line", {"position": 0.0}), Source("widths", {})),
        unit=row.unit,
        importance=("answers", "beats control"),
        margin=POINT,
        note=f"Loss {number(tuned)} as tuned, {number(before)} before; it stays below their mean for "
        f"{number(width['line'])} of the way between them, in the random direction for {number(width['random'])}.",
    )  # fmt: skip


def _halves(rows: Sequence[Any]) -> Iterator[Finding]:
    """Whether what fine-tuning changed in the lower half matters, compared with the upper half."""
    blocks = max((row.last for row in rows), default=0)
    spans = {(row.first, row.last): row for row in rows}
    half, rest = spans.get((0, blocks // 2)), spans.get((blocks // 2 + 1, blocks))
    if half is None or blocks < 2:
        return
    score = f"with {_layers(half)} restored, {_name(half)} is {number(half.value)}"
    beside = f", with {_layers(rest)} restored {number(rest.value)}" if rest is not None else ""
    yield _finding_of(
        half,
        claim=f"What fine-tuning changed in the lower half matters: {score}{beside}"
        if _loss_of_score(half) > 0
        else f"Without what fine-tuning changed in the lower half the model does better: {score}{beside}",
        whether="what fine-tuning changed in the lower half matters",
        absent=f"What fine-tuning changed in the lower half hardly matters: {score}{beside}",
        contrast=f"{_layers(half)} restored minus tuned",
        source=[_source(span_row) for span_row in (half, rest) if span_row is not None],
        importance=("answers", "localised"),
    )


def _how_far(how: str, rows: Sequence[Any], seeds: int) -> Iterator[Finding]:
    """The largest number of layers that can be changed within a point; where none can, the smallest number tried."""
    if not rows:
        return
    ordered = sorted(rows, key=lambda row: row.last - row.first)
    free = [_status(row) == "null" or (_status(row) == "clear" and _loss_of_score(row) < 0) for row in ordered]
    count = free.index(False) if False in free else len(free)
    row, done = ordered[max(count - 1, 0)], _DONE[how]
    scores = f"{_name(row)} {number(row.value, digits=3)} against {number(row.baseline, digits=3)}"
    better = "better" if _loss_of_score(row) < 0 else "worse"
    yield _finding_of(
        row,
        claim=f"With {_layers(row)} {done} the model does {better}: {scores}",
        whether=f"{_layers(row)} can be {done} within 1 point",
        absent=f"{_layers(row).capitalize()} can be {done} within 1 point: {scores}",
        importance=("answers",),
        note="One training each: how much other seeds differ is not in the interval."
        if how != "restore" and seeds == 1
        else "",
    )


def _single(result: Result, rows: Sequence[Any]) -> Iterator[Finding]:
    """The layers whose tuning matters most, if that of any does."""
    if len(rows) < 2:
        return
    if all(_status(row) == "null" for row in rows):
        most = max(rows, key=lambda row: max(abs(row.low), abs(row.high)))
        yield _finding_of(
            most,
            claim="",
            whether="",
            absent=f"No single layer needs its tuning: restored alone, each costs less than 1 point, layer "
            f"{most.first} too",
            importance=("answers", "localised"),
        )
        return
    yield from _best(
        result,
        SINGLE,
        claim="Of single layers, the tuning of {best} matters most: with layer {first} alone restored {name} is "
        "{value}, with layer {other} {other_value}",
        whether="the tuning of any single layer matters more than that of another",
        absent="The tuning of no single layer matters more than that of another",
    )


def _best(result: Result, what: str, *, claim: str, whether: str, absent: str) -> Iterator[Finding]:
    """Which layers are among the best; the contrast is that of the first with the layer outside that is closest."""
    table = result.tables["best"]
    rows = [row for row in rows_of(table) if row.what == what]
    if len(rows) < 2:
        return
    first = next(row for row in rows if row.lead != row.lead)
    outside = [row for row in rows if not row.among_best]
    others = outside or [row for row in rows if row.lead == row.lead]
    other = max(others, key=lambda row: (row.p_beaten, -row.lead)) if outside else max(others, key=lambda row: row.lead)
    best = best_in_words([row.layer for row in rows], [row.among_best for row in rows])
    scores = {"value": number(first.value, digits=3), "other_value": number(other.value, digits=3)}
    yield finding(
        claim=claim.format(best=best, first=first.layer, name=_name(first), other=other.layer, **scores),
        whether=whether,
        absent=absent,
        contrast=f"difference of layers {first.layer} and {other.layer}",
        test=Contrast(other.lead, other.low, other.high, other.p_beaten, int(other.units), int(other.needed)),
        source=Source("best", {"what": what}),
        unit=first.unit,
        importance=("localised",),
        margin=POINT,
        digits=3,
    )


def _linear_findings(result: Result, rows: Sequence[Any]) -> Iterator[Finding]:
    """Whether a linear head on a frozen layer does as well as tuning everything; which layers are best for one."""
    if not rows:
        return
    alike = [row for row in rows if _status(row) == "null" or (_status(row) == "clear" and _loss_of_score(row) < 0)]
    behind = [row for row in rows if row not in alike and row.p_adjusted < SURE and _loss_of_score(row) > 0]
    if alike:
        row = min(alike, key=_loss_of_score)
    elif len(behind) == len(rows):
        # The claim that none reaches it is decided by the difference with the largest p.
        row = max(behind, key=lambda row: (row.p_adjusted, -_loss_of_score(row)))
    else:
        row = min((row for row in rows if row not in behind), key=_loss_of_score)
    scores = f"{_name(row)} {number(row.value, digits=3)} on layer {row.first}, tuned {number(row.baseline, digits=3)}"
    head = f"a linear head on frozen layer {row.first}"
    yield _finding_of(
        row,
        claim=f"No linear head on a frozen layer does as well as tuning all layers: {scores}"
        if _loss_of_score(row) > 0
        else f"{head.capitalize()} does better than tuning all layers: {scores}",
        whether=f"{head} does as well as tuning all layers, within 1 point",
        absent=f"{head.capitalize()} does as well as tuning all layers: {scores}",
        source=Source("effects", {"how": row.how}),
        importance=("answers",),
    )
    yield from _best(
        result,
        LINEAR,
        claim="A linear head does best on frozen {best}: {name} {value} on layer {first}, {other_value} on "
        "layer {other}",
        whether="any frozen layer is better for a linear head than another",
        absent="No frozen layer is better for a linear head than another",
    )


def _layers(row: Any) -> str:
    return f"layer {row.first}" if row.first == row.last else f"layers {row.first} to {row.last}"


def _intervals(result: Result) -> dict[tuple[Any, ...], tuple[float, float, float]]:
    """How, first and last layer -> the score with its interval."""
    intervals: dict[tuple[Any, ...], tuple[float, float, float]] = {}
    for row in rows_of(result.tables["restore"]):
        intervals[row.how, row.first, row.last] = (row.value, row.low, row.high)
    if "transfer" in result.tables:
        for row in rows_of(result.tables["transfer"]):
            intervals[TRANSFER, row.layer, row.layer] = (row.value, row.low, row.high)
    return intervals


def _before(tuned: FinetunedFolder, named: Any, runtime: Runtime) -> HuggingFaceEncoder:
    """The model before fine-tuning: as named, or as recorded in the folder, with the recorded fingerprint."""
    base = tuned.about.get("base", {})
    home = base.get("folder", "")
    known = home if home and Path(home).is_dir() else base.get("name", "")
    try:
        before = as_encoder(known if named is None else named, {}, runtime)
    except LaminaError as error:
        if named is not None:
            raise
        raise ModelError(
            f"{tuned.folder} was tuned from {known}, which cannot be loaded; name that model with --before ({error})"
        ) from error
    if not isinstance(before, HuggingFaceEncoder):
        raise ModelError(f"{before.name} has no blocks whose weights could be restored; name a transformer")
    refuse_unlike(tuned.encoder, before, layer_weights(tuned.encoder))
    if named is None and before.fingerprint != base.get("fingerprint"):
        raise ModelError(
            f"{tuned.folder} was tuned from {before.name}, whose weights have changed since; name the model it was "
            "tuned from with --before"
        )
    with_padding(before.tokenizer)
    return before


def _sets(tuned: FinetunedFolder, data: Any, options: Mapping[str, Any]) -> Sets:
    """The three sets, as named or as recorded in the folder."""
    about = tuned.about
    tuned_on = dict(about["data"].get("asked", {}))
    if "sample_seed" not in tuned_on:
        # Before texts were drawn, a limit took the first ones.
        tuned_on["first"] = tuned_on.pop("limit", None)
    if any(options.get(name) is not None for name in ("limit", "first")):
        tuned_on |= {"limit": None, "first": None}
    if data is None:
        chosen = {name: options[name] or tuned_on.get(name) for name in options}
        chosen["skip_faulty"] = chosen.get("skip_faulty") or 0.0
        data, options = tuned_on.get("data", about["data"]["name"]), {**options, **chosen}
        named = False
    else:
        named = True
    view = about.get("view") or {}
    settings = {
        "task": tuned.task,
        "length": about["length"],
        "setting": view.get("setting", "distractor"),
        "babi_tasks": view.get("tasks"),
    }
    try:
        return apart(as_sets(data, options, settings, tuned.encoder))
    except CorpusError as error:
        if named:
            raise
        raise CorpusError(f"{tuned.folder} was tuned on {data!r}: {error}; name its data with --data") from error


def _trained_spans(how: How, before: HuggingFaceEncoder, points: int | None) -> list[LayerRange]:
    return spans_of(how, before.blocks, points or _FEW_POINTS)


def _chosen(how: Sequence[How]) -> list[How]:
    if not how:
        raise InputError(f"how: name at least one of {', '.join(HOWS)}")
    return [change for change in HOWS if change in how]


def _plan(tuned: FinetunedFolder, max_steps: int | None) -> TrainingPlan:
    """The recipe of the tuned model, with all layers trained."""
    plan = tuned.plan._replace(freeze=None, reset=0)
    return plan if max_steps is None else plan._replace(max_steps=max_steps)


def _put_back(
    tuned: FinetunedFolder,
    before: HuggingFaceEncoder,
    learning: Any,
    as_tuned: Any,
    points: int | None,
    twin: int | None,
) -> Iterator[ChangedLayers]:
    """Scores with pretrained, and with random, weights in some layers; `twin` is the seed of the latter, or None."""
    layers, spans = layer_weights(tuned.encoder), spans_of("restore", before.blocks, points)
    sources = {"restore": before} | ({} if twin is None else {RANDOM: before.random_twin(twin)})
    for name, source in sources.items():
        what = f"{tuned.encoder.name}: layers {'restored' if name == 'restore' else 'with random weights'}"
        for span, outcomes in put_back(learning, tuned.model, layers, source, spans, what=what):
            yield ChangedLayers(name, span, [outcomes], [as_tuned])


def _tuned_again(
    how: How, learning: Any, plan: TrainingPlan, base: Runs, points: int | None, seeds: Sequence[int], work: Path
) -> Iterator[ChangedLayers]:
    """Models tuned with some layers frozen or re-initialised."""
    for span, changed in plans_of(plan, how, _trained_spans(how, learning.encoder, points)).items():
        runs = tuned_again(learning, changed, seeds, work, f"{how}-{span.first}-{span.last}")
        yield ChangedLayers(how, span, runs, base)


def _heads(
    tuned: FinetunedFolder, before: HuggingFaceEncoder, sets: Sets, as_tuned: Any, learn: int, seed: int,
    twin: int | None, skipped: Counter[str],
) -> dict[str, list[ChangedLayers]]:  # fmt: skip
    """Table -> linear heads on each layer of the model before fine-tuning, and of its twin."""
    if not has_linear_head(tuned.objective()):
        skipped[f"linear heads: {tuned.task} has no classes or spans to learn"] = before.layers
        return {}
    # The selection set chooses no more than a penalty.
    few = max(2, learn // 4)
    taught = replace(sets, train=some_items(sets.train, learn, seed), select=some_items(sets.select, few, seed))
    skipped[f"training texts beyond the {learn:,} for linear heads"] = len(sets.train) - len(taught.train)
    skipped[f"selection texts beyond the {few:,} for linear heads"] = len(sets.select) - len(taught.select)
    bodies = _bodies(tuned, before, twin)
    return {name: list(_fit_linear_heads(tuned, body, taught, as_tuned, skipped)) for name, body in bodies.items()}


def _bodies(tuned: FinetunedFolder, before: HuggingFaceEncoder, twin: int | None) -> dict[str, HuggingFaceEncoder]:
    """What linear heads read: the model before fine-tuning and its twin, with the attention window of the tuning."""
    seen = before if tuned.window is None else WindowedEncoder(before, tuned.window)
    return {"transfer": seen} | ({} if twin is None else {"transfer_twin": seen.random_twin(twin)})


def _fit_linear_heads(
    tuned: FinetunedFolder, body: HuggingFaceEncoder, sets: Sets, as_tuned: Any, skipped: Counter[str]
) -> Iterator[ChangedLayers]:
    for head in linear_heads(body, tuned.objective(), sets):
        if head.outcomes is None:
            skipped[f"linear heads that could not be fitted ({body.name}, layer {head.layer})"] += 1
        else:
            yield ChangedLayers(TRANSFER, LayerRange(head.layer, head.layer), [head.outcomes], [as_tuned])


def _tables(
    changed: Sequence[ChangedLayers],
    heads: dict[str, list[ChangedLayers]],
    references: dict[str, Runs],
    metric: str,
    drawn: dict[str, int],
) -> dict[str, pd.DataFrame]:
    def line(runs: Runs, of: str = metric) -> tuple[float, float, float]:
        score = score_of(runs, of, **drawn)
        return score.value, *score.interval

    rows = [(change.how, *change.span, *line(change.runs)) for change in changed]
    tables = {"restore": pd.DataFrame([row for row in rows if row[0] != RANDOM], columns=list(_RESTORE))}
    if control := [row[1:] for row in rows if row[0] == RANDOM]:
        tables["random"] = pd.DataFrame(control, columns=list(_RANDOM))
    tables["references"] = pd.DataFrame(
        [
            (what, name, score_of(runs, name, **drawn).count, *line(runs, name))
            for what, runs in references.items()
            for name in runs[0][0].sums
        ],
        columns=list(_REFERENCES),
    )
    for name, fitted in heads.items():
        tables[name] = pd.DataFrame(
            [(change.span.first, *line(change.runs)) for change in fitted], columns=list(_TRANSFER)
        )
    return tables


def effect_table(changed: Sequence[ChangedLayers], metric: str, unit: str, *, seed: int) -> pd.DataFrame:
    """See the table `effects`: differences, all layers of one kind of change as a family."""
    rows = []
    for how in dict.fromkeys(change.how for change in changed):
        family = [change for change in changed if change.how == how]
        tests = score_contrasts([(change.runs, change.against) for change in family], metric, seed=seed)
        for change, *test in zip(family, *tests, strict=True):
            before, after = (_mean(runs, metric) for runs in (change.against, change.runs))
            rows.append((how, *change.span, metric, before, after, *test, unit))
    return pd.DataFrame(rows, columns=list(_EFFECTS))


def line_tables(points: Sequence[LinePoint], unit: str, *, samples: int, seed: int) -> dict[str, pd.DataFrame]:
    """See the tables `line` and `widths`."""
    pairs = [([point.line], [point.random]) for point in points]
    tests = score_contrasts(pairs, "loss", seed=seed)
    rows, scores = [], {"line": [], "random": []}
    for point, *test in zip(points, *tests, strict=True):
        along, beside = (score_of([side], "loss", samples=samples, seed=seed) for side in (point.line, point.random))
        scores["line"].append(along)
        scores["random"].append(beside)
        rows.append((point.position, along.value, *along.interval, beside.value, *test, unit))
    positions = np.array([point.position for point in points])
    ends = [int(np.flatnonzero(positions == end)[0]) for end in (0, 1)]
    both = {name: (np.array([score.value for score in side]), np.stack([score.draws for score in side], 1))
            for name, side in scores.items()}  # fmt: skip
    # The loss that bounds both stretches is that on the line.
    most = [values[..., ends].mean(-1) for values in both["line"]]
    widths = [
        (name, float(width_of(positions, values, most[0])), *interval(width_of(positions, draws, most[1])))
        for name, (values, draws) in both.items()
    ]
    return {"line": pd.DataFrame(rows, columns=list(_LINE)), "widths": pd.DataFrame(widths, columns=list(_WIDTHS))}


def best_table(
    changed: Sequence[ChangedLayers],
    linear: Sequence[ChangedLayers],
    metric: str,
    unit: str,
    *,
    samples: int,
    seed: int,
) -> pd.DataFrame:
    """See the table `best`: which single layers matter most when restored, and which linear heads are best."""
    single = [change for change in changed if change.how == "restore" and change.span.first == change.span.last]
    rows = []
    for what, family in ((SINGLE, single), (LINEAR, linear)):
        if len(family) < 2:
            continue
        scores = [score_of(change.runs, metric, samples=samples, seed=seed) for change in family]
        values, draws = np.array([change.value for change in scores]), np.stack([change.draws for change in scores], 1)
        units = len({change.unit for change in family[0].runs[0]})
        # The layer that matters most is the one with the lowest score when restored.
        higher = (what == LINEAR) != (metric in LOWER_IS_BETTER)
        best, contrasts = leads(values, draws, units, higher=higher)
        for index, (change, value) in enumerate(zip(family, values.tolist(), strict=True)):
            lead, low, high, p, _, needed = (float(values[index]) for values in contrasts)
            rows.append(
                (
                    what,
                    change.span.first,
                    metric,
                    value,
                    lead,
                    low,
                    high,
                    p,
                    bool(best.among[index]),
                    units,
                    needed,
                    unit,
                )
            )
    return pd.DataFrame(rows, columns=list(_BEST))


def _mean(runs: Runs, metric: str) -> float:
    return float(np.mean([means(run)[metric] for run in runs]))

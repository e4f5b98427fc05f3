"""Fine-tuning undone: which layers of a tuned model can go back to what they were, or need not be tuned at all?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from lamina.analyses.cause.restore_findings import LINEAR, SINGLE, describe, tell_findings
from lamina.analyses.cause.restore_inputs import TunedModel
from lamina.analyses.cause.restore_layers import (
    HOWS,
    RANDOM,
    TRANSFER,
    Changed,
    How,
    Span,
    plans_of,
    put_back,
    score_of,
    spans_of,
    tuned_again,
    unchanged,
)
from lamina.analyses.cause.restore_transfer import has_linear_head, linear_heads, some_items
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.layer_weights import layer_weights
from lamina.errors import InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now, time_call
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.results import Result
from lamina.results.finding import Finding
from lamina.stats.best import leads
from lamina.training.attention import WindowedEncoder
from lamina.training.objective import Runs, means, score_contrasts, unit_kind
from lamina.training.reading import Sets
from lamina.training.recipes import LOWER_IS_BETTER, Plan
from lamina.training.tuned import Tuned

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
TUNED, AGAIN, CONSTANT = "tuned", "tuned again", "most frequent answer"
"""Rows of `references`."""
_FEW_POINTS = 3
"""Places at which layers are frozen or begin anew, where nobody says how many: each is a fine-tuning."""
_TRIED = 20
"""Texts that are tried to tell how long all of them take."""


@analysis(
    title="Fine-tuning undone",
    question="Which layers of a fine-tuned model can go back to what they were, and which need not be tuned at all?",
    method=(
        "The weights of layers 0 to l of the fine-tuned model, of l to the top, and of single layers are put back to "
        "those before fine-tuning, and the scored texts are done again; the head stays as it was tuned. Random weights "
        "in the same layers are the control. When asked, the model is tuned again by the same recipe with layers 0 to "
        "l frozen, or with its top blocks drawn anew. A linear head on each frozen layer of the model before "
        "fine-tuning shows what no layer has to be tuned for. 95 % intervals resample documents; differences are "
        "paired by document, and adjusted for all layers that were tried."
    ),
    cites=("Hao et al. 2019", "Liu et al. 2019", "Merchant et al. 2020", "Tamkin et al. 2020", "Zhang et al. 2021"),
    reads=TunedModel(),
    # 2: all layers of one kind of change are a family with simultaneous intervals; layers that matter most are a set.
    version=2,
    tables={
        "restore": Table(
            "One row per change and layers from first to last: the score of the tuned model's task with these put back "
            "(restore), frozen while tuning (freeze) or drawn anew before it (reset).",
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
            "One row per layer put back alone, and per linear head: lead: how much more putting back the layer that "
            "matters most costs (the best linear head scores); p_beaten: that another layer matters more (scores "
            "higher), below .05 the layer is not among_best. Each kind is a family.",
            _BEST,
        ),
        "references": Table(
            "One row per model without a change and metric: as it was tuned, tuned again by the same recipe where "
            "steps, seeds or texts differ, and the most frequent answer of the training texts.",
            _REFERENCES,
        ),
        "transfer": Table(
            "One row per layer: a linear head on the frozen layer of the model before fine-tuning.",
            _TRANSFER,
            optional=True,
        ),
        "transfer_twin": Table("The same of the twin with random weights.", _TRANSFER, optional=True),
    },
    chapter="answering",
    example="lamina restore runs/pos --items 500 --out results/restore",
)
def restore(
    tuned: Tuned,
    before: HuggingFaceEncoder,
    sets: Sets,
    *,
    how: Annotated[
        Sequence[How],
        Setting(
            "What is done with layers: restore (put back), freeze (0 to l, while tuning) or reset (top blocks, before "
            "tuning); the last two tune again for every point."
        ),
    ] = ("restore",),
    points: Annotated[
        int | None,
        Setting("Layers l that are tried, evenly spread; by default all for restore, 3 for freeze and reset.", min=1),
    ] = None,
    items: Annotated[int, Setting("Most scored texts, drawn at random.", min=2)] = 1000,
    transfer: Annotated[bool, Setting("Fit a linear head on every frozen layer too.")] = True,
    learn: Annotated[int, Setting("Most training texts of the linear heads, drawn at random.", min=2)] = 2000,
    max_steps: Annotated[
        int | None,
        Setting("Freeze, reset: stop after this many steps; as the model was tuned by default.", min=1),
    ] = None,
    seeds: Annotated[
        int, Setting("Freeze, reset: how often each is tuned, from the tuned model's own seed on.", min=1)
    ] = 1,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
    work: Path,
) -> Tables:
    """Put layers of a fine-tuned model back, freeze them or draw them anew, and score its task each time.

    Layer 0 are the embeddings, layer l is block l; the head stays as it was tuned. The model is scored on the texts
    that it was scored on after fine-tuning, and by the same rules. `lamina finetune --freeze L` and `--reset N` keep
    the models that `freeze` and `reset` only score. A run that was stopped continues: run the same command again.

    Example:
        >>> result = lamina.restore("runs/pos", out="results/restore", items=500)  # doctest: +SKIP
        >>> result.tables["restore"].columns.tolist()  # doctest: +SKIP
        ['how', 'first', 'last', 'value', 'low', 'high']
    """
    chosen, own_seed = _chosen(how), seed if twin else None
    skipped: Counter[str] = Counter(sets.left_out)
    asked = replace(sets, scored=some_items(sets.scored, items, seed))
    skipped[f"scored texts beyond the {items:,} drawn"] = len(sets.scored) - len(asked.scored)
    learning = tuned.learning(asked)
    own = learning.judge(tuned.model)
    skipped.update({f"scored: {why}": count for why, count in learning.objective.noted.items()})
    references: dict[str, Runs] = {TUNED: [own]}
    found: list[Changed] = []
    if "restore" in chosen:
        found += _put_back(tuned, before, learning, own, points, own_seed)
    plan = _plan(tuned, max_steps)
    seeds_used = range(plan.seed, plan.seed + seeds)
    trained: list[How] = [each for each in chosen if each != "restore"]
    if trained:
        # With the very model, texts and settings of the tuned model, tuning again would only make it once more.
        known = own if tuned.is_from(before, sets) and plan == tuned.plan else None
        again = tuned.learning(asked, before)
        base = unchanged(again, plan, known, seeds_used, work)
        if known is None or seeds > 1:
            references[AGAIN] = base
        for each in trained:
            found += _tuned_again(each, again, plan, base, points, seeds_used, work)
    heads = _heads(tuned, before, asked, own, learn, seed, own_seed, skipped) if transfer else {}
    references[CONSTANT] = [learning.objective.constant(sets.train, asked.scored)]
    metric, drawn = learning.objective.metric, {"samples": samples, "seed": seed}
    tables = _tables(found, heads, references, metric, drawn)
    linear = heads.get("transfer", [])
    tables["effects"] = effect_table([*found, *linear], metric, unit_kind(asked.scored), seed=seed)
    tables["best"] = best_table(found, linear, metric, unit_kind(asked.scored), **drawn)
    return Tables(
        tables,
        {why: count for why, count in skipped.items() if count},
        seeds=tuple(seeds_used) if trained else None,
        scored={tuned.task: score_of([own], metric, **drawn).count},
    )


@restore.finds
def _findings(result: Result) -> Iterable[Finding]:
    """How far layers can go back; the layer that matters most; freezing, resetting and linear heads."""
    return tell_findings(result)


@restore.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per change and layers."""
    return describe(result)


@restore.costs
def _cost(
    _: Estimator, tuned: Tuned, before: HuggingFaceEncoder, sets: Sets, *, how: Sequence[How], points: int | None,
    items: int, transfer: bool, learn: int, max_steps: int | None, seeds: int, twin: bool, **_settings: Any,
) -> Cost:  # fmt: skip
    """A few scored texts are done and a few linear heads fitted; of tuning, real steps are timed."""
    chosen = _chosen(how)
    few = replace(sets, train=sets.train[:_TRIED], select=sets.select[:_TRIED], scored=sets.scored[:_TRIED])
    learning = tuned.learning(few)
    learning.judge(tuned.model)
    one = time_call(lambda: learning.judge(tuned.model)) / len(few.scored)
    many = min(items, len(sets.scored))
    passes = 1 + ("restore" in chosen) * len(spans_of("restore", before.blocks, points)) * (1 + twin)
    total = Cost(passes=passes, texts=many, seconds=passes * many * one, memory=memory_now())
    trained = [span for each in chosen if each != "restore" for span in _trained_spans(each, before, points)]
    if trained:
        expected = tuned.learning(sets, before).expect([_plan(tuned, max_steps)])
        runs = (len(trained) + 1) * seeds
        total += Cost(passes=runs, steps=runs * expected.steps, seconds=runs * expected.seconds, memory=memory_now())
    if transfer and has_linear_head(learning.objective):
        taken = time_call(lambda: list(linear_heads(before, learning.objective, few)))
        share = (min(learn, len(sets.train)) + min(learn // 4, len(sets.select)) + many) / (3 * _TRIED)
        total += Cost(passes=1 + twin, texts=many, seconds=(1 + twin) * taken * share, memory=memory_now())
    return total


def _trained_spans(how: How, before: HuggingFaceEncoder, points: int | None) -> list[Span]:
    return spans_of(how, before.blocks, points or _FEW_POINTS)


def _chosen(how: Sequence[How]) -> list[How]:
    if not how:
        raise InputError(f"how: name at least one of {', '.join(HOWS)}")
    return [each for each in HOWS if each in how]


def _plan(tuned: Tuned, max_steps: int | None) -> Plan:
    """The recipe of the tuned model, with all layers trained."""
    plan = tuned.plan._replace(freeze=None, reset=0)
    return plan if max_steps is None else plan._replace(max_steps=max_steps)


def _put_back(
    tuned: Tuned, before: HuggingFaceEncoder, learning: Any, own: Any, points: int | None, twin: int | None
) -> Iterator[Changed]:
    """Pretrained weights in some layers, and random ones; `twin` is the seed of these, None where they are left out."""
    layers, spans = layer_weights(tuned.encoder), spans_of("restore", before.blocks, points)
    sources = {"restore": before} | ({} if twin is None else {RANDOM: before.random_twin(twin)})
    for name, source in sources.items():
        what = f"{tuned.encoder.name}: layers {'put back' if name == 'restore' else 'with random weights'}"
        for span, outcomes in put_back(learning, tuned.model, layers, source, spans, what=what):
            yield Changed(name, span, [outcomes], [own])


def _tuned_again(
    how: How, learning: Any, plan: Plan, base: Runs, points: int | None, seeds: Sequence[int], work: Path
) -> Iterator[Changed]:
    """Models tuned with some layers frozen, or with some drawn anew."""
    for span, changed in plans_of(plan, how, _trained_spans(how, learning.encoder, points)).items():
        runs = tuned_again(learning, changed, seeds, work, f"{how}-{span.first}-{span.last}")
        yield Changed(how, span, runs, base)


def _heads(
    tuned: Tuned, before: HuggingFaceEncoder, sets: Sets, own: Any, learn: int, seed: int, twin: int | None,
    skipped: Counter[str],
) -> dict[str, list[Changed]]:  # fmt: skip
    """Table -> linear heads on each layer of the model before fine-tuning, and of its twin."""
    if not has_linear_head(tuned.objective()):
        skipped[f"linear heads: {tuned.task} has no classes or spans that one could learn"] = before.layers
        return {}
    # The selection set chooses no more than a penalty.
    few = max(2, learn // 4)
    taught = replace(sets, train=some_items(sets.train, learn, seed), select=some_items(sets.select, few, seed))
    skipped[f"training texts beyond the {learn:,} for linear heads"] = len(sets.train) - len(taught.train)
    skipped[f"selection texts beyond the {few:,} for linear heads"] = len(sets.select) - len(taught.select)
    bodies = _bodies(tuned, before, twin)
    return {name: list(_linear(tuned, body, taught, own, skipped)) for name, body in bodies.items()}


def _bodies(tuned: Tuned, before: HuggingFaceEncoder, twin: int | None) -> dict[str, HuggingFaceEncoder]:
    """What linear heads read: the model before fine-tuning and its twin, through the window that it was tuned with."""
    seen = before if tuned.window is None else WindowedEncoder(before, tuned.window)
    return {"transfer": seen} | ({} if twin is None else {"transfer_twin": seen.random_twin(twin)})


def _linear(tuned: Tuned, body: HuggingFaceEncoder, sets: Sets, own: Any, skipped: Counter[str]) -> Iterator[Changed]:
    for head in linear_heads(body, tuned.objective(), sets):
        if head.outcomes is None:
            skipped[f"linear heads that could not be fitted ({body.name}, layer {head.layer})"] += 1
        else:
            yield Changed(TRANSFER, Span(head.layer, head.layer), [head.outcomes], [own])


def _tables(
    found: Sequence[Changed],
    heads: dict[str, list[Changed]],
    references: dict[str, Runs],
    metric: str,
    drawn: dict[str, int],
) -> dict[str, pd.DataFrame]:
    def line(runs: Runs, of: str = metric) -> tuple[float, float, float]:
        score = score_of(runs, of, **drawn)
        return score.value, *score.interval

    rows = [(each.how, *each.span, *line(each.runs)) for each in found]
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
    for name, own in heads.items():
        tables[name] = pd.DataFrame([(each.span.first, *line(each.runs)) for each in own], columns=list(_TRANSFER))
    return tables


def effect_table(found: Sequence[Changed], metric: str, unit: str, *, seed: int) -> pd.DataFrame:
    """See the table `effects`: differences, all layers of one kind of change as a family."""
    rows = []
    for how in dict.fromkeys(each.how for each in found):
        family = [each for each in found if each.how == how]
        tests = score_contrasts([(each.runs, each.against) for each in family], metric, seed=seed)
        for each, *test in zip(family, *tests, strict=True):
            before, after = (_mean(runs, metric) for runs in (each.against, each.runs))
            rows.append((how, *each.span, metric, before, after, *test, unit))
    return pd.DataFrame(rows, columns=list(_EFFECTS))


def best_table(
    found: Sequence[Changed], linear: Sequence[Changed], metric: str, unit: str, *, samples: int, seed: int
) -> pd.DataFrame:
    """See the table `best`: which single layers matter most when they are put back, and which linear heads are best."""
    single = [each for each in found if each.how == "restore" and each.span.first == each.span.last]
    rows = []
    for what, family in ((SINGLE, single), (LINEAR, linear)):
        if len(family) < 2:
            continue
        scores = [score_of(each.runs, metric, samples=samples, seed=seed) for each in family]
        values, draws = np.array([each.value for each in scores]), np.stack([each.draws for each in scores], 1)
        units = len({each.unit for each in family[0].runs[0]})
        # What matters most is what is worst without it.
        higher = (what == LINEAR) != (metric in LOWER_IS_BETTER)
        best, contrasts = leads(values, draws, units, higher=higher)
        for at, (each, value) in enumerate(zip(family, values.tolist(), strict=True)):
            lead, low, high, p, _, needed = (float(numbers[at]) for numbers in contrasts)
            rows.append(
                (what, each.span.first, metric, value, lead, low, high, p, bool(best.among[at]), units, needed, unit)
            )
    return pd.DataFrame(rows, columns=list(_BEST))


def _mean(runs: Runs, metric: str) -> float:
    return float(np.mean([means(run)[metric] for run in runs]))

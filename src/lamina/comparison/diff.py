"""What fine-tuning changed, layer by layer: representations, heads, and what probes find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.activations import Runtime
from lamina.analyses.behaviour.inputs import SpokenSuite, speaking
from lamina.analyses.layers.probe.probe import probe
from lamina.comparison.predictions import ALL, GroupDifference, GroupMean, SharedItems, shared_items
from lamina.comparison.probes import layer_differences
from lamina.comparison.similarity import (
    SPECIAL_COLUMNS,
    LayerSimilarity,
    compare_heads,
    compare_layer,
    over_models,
    special_attention,
    special_findings,
)
from lamina.comparison.tables import ModelLead, ModelResults, leads_in_words
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.declare import ComparedItems, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import LoadedInputs, TwoModels, as_result, describe_models
from lamina.framework.registry import get_analysis
from lamina.framework.settings import Preset, Samples, Seed, Seeds, Setting, Weights
from lamina.framework.watch import Weighting
from lamina.models import Encoder
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import (
    Finding,
    Source,
    best_in_words,
    cell,
    finding,
    layers_in_words,
    number,
    rows_of,
    weakest,
)
from lamina.stats.best import leads
from lamina.stats.family import Contrasts, bootstrap_family
from lamina.stats.intervals import interval
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast
from lamina.stats.units import unit_of
from lamina.training.provenance import unseen

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis


# What a model says before and after fine-tuning: the same suites asked of both, item by item.

SUITES = ("pairs", "cloze")
"""The analyses that both models are asked, and the settings of `diff` that name their suites."""
BEFORE, AFTER = "before", "after"
_FEW = 12
"""Groups that a terminal shows, changed or not."""
_ALONE = {"twin": False, "ngrams": None, "samples": 100}
"""Settings of an analysis whose baselines and intervals are not looked at, only its items."""


class BehaviourChange(NamedTuple):
    """One row of `behaviour.csv`: the items of a group, before and after."""

    analysis: str
    """pairs or cloze."""
    suite: str
    group: str
    """A paradigm, part or relation; `all` is the mean over groups."""
    metric: str
    """accuracy, or the mean of whatever number items have."""
    items: int
    before: float
    before_low: float
    before_high: float
    after: float
    after_low: float
    after_high: float
    difference: float
    """after - before, paired by item."""
    low: float
    """95 %, simultaneous over the groups of the suite; of the mean over groups, its own."""
    high: float
    p_adjusted: float
    """Two-sided, by flipped signs and max-T over the groups of the suite; the mean over groups is a test by itself."""
    units: int
    """Items."""
    needed: int
    """0, or how many items a test would need at least."""


ITEMS = ("item", "group", "analysis", "suite", "before", "after", "difference")
"""Columns of the table of items."""


@dataclass(frozen=True)
class TwoLanguageModels(TwoModels):
    """Two models and texts; where suites are asked, both need a language-model head."""

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        suites = {name: settings[name] for name in SUITES if settings.get(name) is not None}
        if not suites and settings.get("items") is not None:
            raise InputError("--items is for suites; name one with --pairs or --cloze")
        loaded = super().load(given, options, settings, runtime)
        if not suites:
            return loaded
        a, b, _ = loaded.arguments
        prints = [speaking(encoder)["fingerprint"] for encoder in (*a, *b)]
        read = {name: _read(get_analysis(name), suite).describe() for name, suite in suites.items()}
        texts = fingerprint_of(
            loaded.data["fingerprint"], *(description["fingerprint"] for description in read.values())
        )
        model = {**loaded.model, "fingerprint": fingerprint_of(loaded.model["fingerprint"], *prints)}
        return replace(loaded, model=model, data={**loaded.data, "fingerprint": texts, "suites": read})


def _read(analysis: Analysis, suite: str) -> Any:
    """The suite as the analysis reads it when it is given by name or path alone."""
    if not isinstance(analysis.reads, SpokenSuite):
        raise InputError(f"{analysis.name} does not read a suite")
    return analysis.reads.read(suite, analysis.option_checker.check({}))


class SuiteChanges(NamedTuple):
    """What became of the items of one suite."""

    rows: list[BehaviourChange]
    items: pd.DataFrame
    left_out: dict[str, int]


def changed_items(
    name: str,
    suite: str,
    before: Sequence[Encoder],
    after: Sequence[Encoder],
    *,
    items: int | None,
    samples: int,
    seed: int,
    runtime: Runtime,
) -> SuiteChanges:
    """Ask all models the items of a suite; of several seeds the mean of each item is compared.

    Args:
        name: of the analysis that asks.
        suite: a name or a path.
        before: the model before, or one per seed.
        after: the model after, or one per seed.
        items: most items per group.
        samples: of the bootstrap.
        seed: of the bootstrap and of the analysis.
        runtime: where models run.
    """
    analysis = get_analysis(name)
    settings = _settings(analysis, items, seed)
    read = _read(analysis, suite)
    results = [analysis(encoder, read, **settings, runtime=runtime) for encoder in (*before, *after)]
    models = [ModelResults(str(number), (result,)) for number, result in enumerate(results)]
    declared = analysis.compares
    if not isinstance(declared, ComparedItems):
        raise InputError(f"{name} declares no items that models are compared by")
    answers = _two_sides(shared_items(models, declared), len(before))
    estimates, apart = answers.compare(samples=samples, seed=seed)
    called = Path(read.name).stem
    left_out = {why: count for result in results for why, count in result.provenance.skipped.items()}
    if lost := sum(answers.left_out.values()):
        left_out[f"items of {called} that not all models answered"] = lost
    table = answers.table.rename(columns={0: BEFORE, 1: AFTER}).assign(analysis=name, suite=called)
    table["difference"] = table[AFTER] - table[BEFORE]
    rows = [BehaviourChange(name, called, *numbers) for numbers in _rows(answers.metric, estimates, apart)]
    return SuiteChanges(rows, table[list(ITEMS)], left_out)


def _settings(analysis: Analysis, items: int | None, seed: int) -> dict[str, Any]:
    wanted = {**_ALONE, "limit": items, "seed": seed}
    return {name: value for name, value in wanted.items() if name in analysis.settings}


def _two_sides(answers: SharedItems, before: int) -> SharedItems:
    """The mean over the models of either side."""
    values = answers.table[list(range(len(answers.models)))]
    sides = {0: values.iloc[:, :before].mean(axis="columns"), 1: values.iloc[:, before:].mean(axis="columns")}
    return SharedItems((BEFORE, AFTER), answers.table[["group", "item"]].join(pd.DataFrame(sides)), answers.left_out)


def _rows(metric: str, estimates: Sequence[GroupMean], apart: Sequence[GroupDifference]) -> Iterator[tuple[Any, ...]]:
    values = {(row.group, row.model): row[3:] for row in estimates}
    for row in apart:
        # Pairs of models are a - b: before - after.
        change = (0.0 - row.difference, 0.0 - row.high, 0.0 - row.low, row.p_adjusted, row.units, row.needed)
        yield row.group, metric, row.items, *values[row.group, BEFORE], *values[row.group, AFTER], *change


def changes_in_words(table: pd.DataFrame) -> Iterator[Finding]:
    """For each suite, whether the model after answers it better or worse: over all groups, and at which group."""
    for (_, suite), changes in table.groupby(["analysis", "suite"], sort=False):
        overall = changes[changes["group"] == ALL]
        for some in (overall, changes[changes["group"] != ALL]):
            leads = [_lead(row, of_several=len(overall) > 0) for row in rows_of(some)]
            yield from leads_in_words(leads, f"groups of {suite}")


def _lead(row: Any, *, of_several: bool) -> ModelLead:
    accuracy = row.metric == "accuracy"
    mean = "in the mean over groups of"
    where = f"{mean} {row.suite}" if row.group == ALL else f"at {row.group} of {row.suite}" if of_several else ""
    return ModelLead(
        f"the model {AFTER}",
        f"the model {BEFORE}",
        (row.after, row.before),
        Contrast.of(row, "difference"),
        "accuracy" if accuracy else "mean value",
        where or f"on {row.suite}",
        (Source("behaviour", {"analysis": row.analysis, "suite": row.suite, "group": row.group}),),
        "item",
        NEGLIGIBLE if accuracy else 0.0,
    )


def changes_shown(table: pd.DataFrame) -> Overview:
    """The means over groups, and the groups that changed clearly; all where there are few."""
    few = len(table) <= _FEW
    rows = [
        (row.suite, row.group, row.items, cell(row.before), cell(row.after), cell(row.difference, row.low, row.high),
         cell(row.p_adjusted))
        for row in rows_of(table)
        if few or row.group == ALL or _lead(row, of_several=True).status == "clear"
    ]  # fmt: skip
    title = "What both models say, paired by item" + ("" if few else "; groups that changed clearly")
    return Overview(title, ("suite", "group", "items", "before", "after", "difference", "p"), rows)


def suite_cost(suites: Mapping[str, str], encoders: Iterable[Encoder], *, items: int | None, seed: int) -> list[Cost]:
    """What asking all models would take."""
    models = list(encoders)
    return [
        analysis.estimate(encoder, suite, **_settings(analysis, items, seed))
        for analysis, suite in ((get_analysis(name), suite) for name, suite in suites.items())
        for encoder in models
    ]


class DiffRow(NamedTuple):
    """One row of `diff.csv`."""

    layer: int
    """0 is the embedding layer; heads have layers from 1 on."""
    head: int | None
    """From 1 on; None where a measure is of the layer."""
    measure: str
    """cka, cosine, attention_similarity; of a probed task T probe_a:T, probe_b:T and probe_difference:T (b - a)."""
    value: float
    low: float
    high: float
    baseline: float
    """What the value is compared with; see `diff`."""
    difference: float = math.nan
    """What is tested: 1 - CKA; cosine of attention maps - baseline; probe_difference itself."""
    diff_low: float = math.nan
    diff_high: float = math.nan
    p_adjusted: float = math.nan
    units: float = 0
    needed: float = 0
    unit: str = ""


_BEST = ("measure", "layer", "value", "lead", "low", "high", "p_beaten", "among_best", "units", "needed", "unit")
_SAME = 1e-9
"""A CKA this close to 1 is that of equal spaces, rounded."""


@analysis(
    title="What fine-tuning changed",
    question="At which layers and in which heads does the fine-tuned model differ from the one it came from?",
    method=(
        "On texts that neither model was tuned on, we take at each layer the debiased linear CKA of word vectors and "
        "the mean cosine of a word with itself, and for each head the mean cosine of its attention maps before and "
        "after. They are compared with the random-weights twin, with words of different texts, and with the other "
        "heads of the layer; 95 % intervals leave out groups of texts (CKA) or resample texts. Suites of minimal pairs "
        "and clozes are asked of both models and compared item by item."
    ),
    cites=("Kornblith et al. 2019",),
    reads=TwoLanguageModels(),
    # 3: differences of probes are paired by text.
    # 4: documents are resampled; layers, heads and probes are tested as families.
    # 6: probes of the preset `standard` train in cycles.
    version=6,
    tables={
        "diff": Table(
            "One row per layer and measure, and per head for attention_similarity: the value, its interval and its "
            "baseline; of several seeds the mean. difference, with simultaneous intervals, two-sided: 1 - cka, all "
            "layers a family; attention_similarity - baseline, all heads a family (sign flips of documents, max-T); "
            "probe_difference, all tasks and layers a family.",
            (*DiffRow._fields, "seeds"),
        ),
        "best": Table(
            "One row per layer: lead: how much lower the lowest CKA is than that of this layer; p_beaten: that another "
            "layer changed more, below .05 the layer is not among_best, those that can have changed most.",
            _BEST,
        ),
        "behaviour": Table(
            "One row per suite and group of items (all: the mean over groups): what both models say, and the "
            "difference after - before, paired by item.",
            BehaviourChange._fields,
            optional=True,
        ),
        "special": Table(
            "One row per layer and place, with --special only: the mean share of attention of all heads and tokens to "
            "separators ([SEP]) and to the first token ([CLS]) before and after; difference: after - before, paired by "
            "document, two-sided; family: all rows (sign flips).",
            SPECIAL_COLUMNS,
            optional=True,
        ),
        "items": Table(
            "One row per item of a suite: its value before and after.", ITEMS, optional=True, format="parquet"
        ),
    },
    chapter="layers",
    example="lamina diff minilm runs/squad --corpus ewt --probe pos --out results/diff",
)
def diff(
    a: Sequence[Encoder],
    b: Sequence[Encoder],
    texts: Corpus | Splits,
    *,
    tasks: Annotated[Sequence[str], Setting("A task to probe both models for.", option="--probe", metavar="TASK")] = (),
    probed: Annotated[
        Sequence[str | Result] | None,
        Setting(
            "Instead of probing here: a result of `lamina probe` of the model before, then one of the model after.",
            file=True,
            metavar="RESULT_DIR",
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        Setting("Minimal pairs that both models are asked: blimp, syntaxgym or a file.", file=True, metavar="SUITE"),
    ] = None,
    cloze: Annotated[
        str | None,
        Setting("Clozes that both models are asked: lm_diagnostics, pararel or a file.", file=True, metavar="SUITE"),
    ] = None,
    items: Annotated[
        int | None, Setting("Maximum number of items per group of a suite; all by default.", min=1)
    ] = None,
    attention: Annotated[bool, Setting("Compare attention heads too.")] = True,
    special: Annotated[
        bool, Setting("Compare the shares of attention that go to separators and to the first token, layer by layer.")
    ] = False,
    weights: Weights = "attention",
    twin: Annotated[bool, Setting("Measure CKA with the random-weights twin of the model before too.")] = True,
    preset: Preset = "quick",
    seeds: Seeds = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """What changed from one model to another, layer by layer and head by head, on texts that neither was tuned on.

    - `cka`: debiased linear CKA of word vectors; baseline: of the model before and its random-weights twin.
    - `cosine`: mean cosine of a word before and the same word after; baseline: of words of different texts.
    - `attention_similarity`: mean cosine of a head's flattened maps; baseline: with the other heads of its layer.
    - `probe_a:TASK`, `probe_b:TASK`: F1 of single-layer probes trained and scored on the same texts; baseline: the
      best constant answer. `probe_difference:TASK` is b - a; its baseline is 0.
    - Suites (`pairs`, `cloze`) are asked of both as `lamina pairs` and `lamina cloze` ask them, and compared item by
      item; both models need a language-model head.

    Both models have one architecture: a pretrained one and what fine-tuning made of it. Either may be a folder of
    `finetune --seeds`: values are then means over its models. Texts that lamina fine-tuned either model on are left out
    and counted, of the training texts of probes too; questions are shown as they were in fine-tuning. Intervals are
    95 %: of CKA by leaving out groups of documents, of probes as `compare` makes them, else by bootstrap over
    documents; from 5 seeds on they are over documents and seeds together.

    Example:
        >>> lamina.diff("minilm", "runs/squad", "ewt", tasks=["pos"]).chart("layers")  # doctest: +SKIP
    """
    compared = _pairs(a, b)
    for one, other in compared:
        _refuse_unlike(one, other, attention=attention)
    given = _both_probed(a, b, probed, tasks)
    unseen_texts, skipped = _unseen(texts, (*a, *b))
    scored = unseen_texts.scored if isinstance(unseen_texts, Splits) else unseen_texts
    rows, best = _layers(compared, scored, twin=twin, samples=samples, seed=seed, runtime=runtime)
    untrusted = next((why for encoder in (*a, *b) if (why := encoder.refusal("maps")) is not None), None)
    if attention and untrusted is not None:
        skipped[f"heads not compared ({untrusted.rstrip('.')})"] = a[0].blocks * a[0].heads
    elif attention and a[0].heads:
        heads, left_out = _heads(compared, scored, samples=samples, seed=seed, weights=weights)
        rows += heads
        skipped |= left_out
    if special and (untrusted is not None or not a[0].heads):
        raise ModelError(
            f"{a[0].name} has no attention maps to compare ({untrusted or 'no heads'}); leave out --special"
        )
    shares = special_attention(compared, scored, weights=weights, seed=seed) if special else None
    if tasks:
        probing: dict[str, Any] = {"tasks": list(tasks), "probes": ["layer"], "preset": preset, "seeds": seeds}
        probing |= {"twin": False, "samples": samples, "seed": seed, "runtime": runtime}
        given = (probe([*a], unseen_texts, **probing), probe([*b], unseen_texts, **probing))
    rows += compare_probes(given, samples=samples, seed=seed) if given else ()
    table = pd.DataFrame(rows, columns=list(DiffRow._fields)).astype({"head": "Int64"}).assign(seeds=len(compared))
    tables = {"diff": table, "best": best} | ({} if shares is None else {"special": shares})
    suites = _suites(pairs, cloze)
    changes = [
        changed_items(name, suite, a, b, items=items, samples=samples, seed=seed, runtime=runtime)
        for name, suite in suites.items()
    ]
    if changes:
        tables["behaviour"] = pd.DataFrame(
            [row for suite_changes in changes for row in suite_changes.rows], columns=list(BehaviourChange._fields)
        )
        tables["items"] = pd.concat([suite_changes.items for suite_changes in changes], ignore_index=True)
        skipped |= {why: count for suite_changes in changes for why, count in suite_changes.left_out.items()}
    scored = given[0].provenance.corpus.get("scored", {}) if given else {}
    return Tables(tables, skipped, scored=scored, data=_about(unseen_texts, suites))


def _suites(pairs: str | None, cloze: str | None) -> dict[str, str]:
    """Analysis -> the suite that it asks."""
    return {name: suite for name, suite in zip(SUITES, (pairs, cloze), strict=True) if suite is not None}


def _about(texts: Corpus | Splits, suites: Mapping[str, str]) -> dict[str, Any]:
    """What provenance says of the texts; with suites, the fingerprint is that of all data together."""
    about = texts.describe()
    return {name: value for name, value in about.items() if name != "fingerprint"} if suites else about


_PROBED = "probe_difference:"


@diff.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Layers that changed most, heads that changed their role, and what probes read better or worse."""
    table = result.tables["diff"]
    rows = [row for row in rows_of(table.dropna(subset=["value"])) if row.difference == row.difference]
    yield from _changed_layers(result, [row for row in rows if row.measure == "cka"])
    yield from _changed_heads([row for row in rows if row.measure == "attention_similarity"])
    for measure in dict.fromkeys(row.measure for row in rows if row.measure.startswith(_PROBED)):
        yield _changed_task([row for row in rows if row.measure == measure])
    if "special" in result.tables:
        yield from special_findings(result.tables["special"])
    if "behaviour" in result.tables:
        yield from changes_in_words(result.tables["behaviour"])


def _contrast(row: Any) -> Contrast:
    return Contrast.of(row, "difference", "diff_low", "diff_high")


def _within(row: Any) -> bool:
    return row.diff_low >= -NEGLIGIBLE and row.diff_high <= NEGLIGIBLE


def _furthest(rows: Sequence[Any]) -> Any:
    """Of rows of which none is shown to differ, the one that is least known to be alike."""
    return max(rows, key=lambda row: (not _within(row), row.needed == 0, abs(row.difference)))


def _changed_layers(result: Result, rows: Sequence[Any]) -> Iterator[Finding]:
    """Whether any layer changed at all; if so, which can be those that changed most."""
    if not rows:
        return
    if all(_within(row) for row in rows):
        row = max(rows, key=lambda row: row.diff_high)
        yield finding(
            claim="",
            whether="",
            absent=f"No layer changed: CKA before and after is lowest at layer {row.layer}, "
            f"{number(row.value, digits=3)}",
            contrast="1 - CKA",
            test=_contrast(row),
            source=Source("diff", {"measure": "cka"}),
            unit=row.unit,
            digits=3,
        )
        return
    layers = [row for row in rows_of(result.tables["best"]) if row.measure == "cka"]
    outside = [row for row in layers if not row.among_best]
    others = [row for row in layers if row.lead == row.lead]
    if len(layers) < 2 or not others:
        return
    first = next(row for row in layers if row.lead != row.lead)
    other = (
        max(outside, key=lambda row: (row.p_beaten, -row.lead)) if outside else max(others, key=lambda row: row.lead)
    )
    best = best_in_words([row.layer for row in layers], [row.among_best for row in layers])
    alike = f"{number(first.value)} at layer {first.layer}, {number(other.value)} at layer {other.layer}"
    yield finding(
        claim=f"{best.capitalize()} changed most: CKA before and after is {alike}",
        whether="fine-tuning changed one layer more than another",
        absent=f"Fine-tuning changed no layer more than another: CKA before and after is {alike}",
        contrast="difference",
        test=Contrast(other.lead, other.low, other.high, other.p_beaten, int(other.units), int(other.needed)),
        source=Source("best", {"measure": "cka"}),
        unit=first.unit,
        importance=("answers", "localised"),
    )


def _changed_heads(rows: Sequence[Any]) -> Iterator[Finding]:
    """Heads that are more like the other heads of their layer than like themselves; or that all kept their role."""
    if not rows:
        return
    changed = [row for row in rows if row.p_adjusted < SURE and row.difference < 0]
    same_role = [row for row in rows if row.p_adjusted < SURE and row.difference > 0]
    if changed:
        row = weakest(changed)
    else:
        # That all heads kept their role is as sure as the head that is least so.
        row = (
            weakest(rows)
            if len(same_role) == len(rows)
            else min(rows, key=lambda row: (row in same_role, row.difference))
        )
    head = f"{row.layer}-{row.head}"
    same = "the other heads of its layer before than like itself before"
    alike = f"cosine {number(row.baseline)} against {number(row.value)}"
    names = [f"{row.layer}-{row.head}" for row in changed]
    if len(changed) == 1:
        claim = f"One of {len(rows)} heads changed its role: head {head} is more like {same}, {alike}"
    elif changed:
        claim = (
            f"Heads {', '.join(names[:-1])} and {names[-1]} changed their role: they are more like the other heads of "
            f"their layer before than like themselves before; of head {head}, the least sure, {alike}"
        )
    else:
        claim = (
            f"All {len(rows)} heads are more like themselves before than like the other heads of their layer; of head "
            f"{head}, the least sure, cosine {number(row.value)} against {number(row.baseline)}"
        )
    yield finding(
        claim=claim,
        whether=f"all {len(rows)} heads are more like themselves before than like the other heads of their layer",
        absent=f"Head {head} is no more like itself before than like the other heads of its layer",
        contrast=f"difference of head {head}",
        test=_contrast(row),
        source=Source("diff", {"measure": "attention_similarity"}),
        unit=row.unit,
        importance=("answers", "localised"),
        margin=0,
    )


def _changed_task(rows: Sequence[Any]) -> Finding:
    """At which layers F1 changed."""
    task = rows[0].measure.removeprefix(_PROBED)
    clear = [row for row in rows if row.p_adjusted < SURE and not _within(row)]
    most = max(clear or rows, key=lambda row: abs(row.difference))
    alike = [row for row in clear if (row.difference > 0) == (most.difference > 0)]
    row = weakest(alike) if alike else _furthest(rows)
    change = "better" if most.difference > 0 else "worse"
    return finding(
        claim=f"{task} is read {change} after fine-tuning at {layers_in_words(row.layer for row in alike or rows)}",
        whether=f"{task} is read as well after fine-tuning as before",
        absent=f"{task} is read as well after fine-tuning as before at all {len(rows)} layers",
        contrast=f"difference in F1 at layer {row.layer}",
        test=_contrast(row),
        source=Source("diff", {"measure": row.measure}),
        unit=row.unit,
        importance=("answers", "localised"),
    )


@diff.costs
def _cost(
    estimator: Estimator,
    a: Sequence[Encoder],
    b: Sequence[Encoder],
    texts: Corpus | Splits,
    *,
    tasks: Sequence[str],
    pairs: str | None,
    cloze: str | None,
    items: int | None,
    attention: bool,
    weights: Weighting,
    twin: bool,
    preset: str,
    seeds: int | None,
    samples: int,
    seed: int,
    **_: object,
) -> Cost:
    """Reading, probes and suites; scored texts that both encode are counted twice."""
    asking = suite_cost(_suites(pairs, cloze), (*a, *b), items=items, seed=seed)
    if not isinstance(texts, Splits):
        compared, twins = len(_pairs(a, b)), twin and a[0].blocks > 0
        passes = len(a) + len(b) + twins + 2 * compared * (attention and a[0].heads > 0)
        return sum(asking, estimator.reading(passes=passes))
    shared: dict[str, Any] = {"samples": samples, "seed": seed, "runtime": estimator.runtime}
    probing: dict[str, Any] = {"tasks": tasks, "probes": ["layer"], "preset": preset, "seeds": seeds, "twin": False}
    looking = diff.estimate([*a], [*b], texts.scored, attention=attention, weights=weights, twin=twin, **shared)
    both = [probe.estimate([*encoders], texts, **probing, **shared) for encoders in (a, b)]
    return sum(asking, looking + both[0] + both[1])


@diff.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per layer; of heads their mean."""
    about, table = result.provenance, result.tables["diff"]
    measures = list(dict.fromkeys(table["measure"]))
    means = table.groupby(["measure", "layer"])[["value", "baseline"]].mean()
    rows: list[tuple[str | int, ...]] = []
    for layer in sorted(set(table["layer"])):
        there = [means.loc[(name, layer)] if (name, layer) in means.index else None for name in measures]
        cells = ("-" if mean is None else f"{cell(mean['value'])} ({cell(mean['baseline'])})" for mean in there)
        rows.append((layer, *cells))
    title = (
        f"{about.model['name']} on {about.corpus['name']} ({about.corpus.get('split', '')}); in brackets: the baseline"
    )
    yield Overview(title, ("layer", *measures), rows)
    if "behaviour" in result.tables:
        yield changes_shown(result.tables["behaviour"])


def _pairs(a: Sequence[Encoder], b: Sequence[Encoder]) -> list[tuple[Encoder, Encoder]]:
    """One model before with each after, or the seeds of both in their order."""
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        raise ModelError(
            f"{a[0].name} has {len(a)} seeds and {b[0].name} has {len(b)}; seeds are compared one with one: name "
            "folders with as many seeds, or one model of either"
        )
    size = max(len(a), len(b))
    return list(zip(*(models if len(models) == size else [models[0]] * size for models in (a, b)), strict=True))


def _refuse_unlike(a: Encoder, b: Encoder, *, attention: bool) -> None:
    if a.layers != b.layers:
        raise ModelError(
            f"{a.name} has {a.blocks} blocks and {b.name} has {b.blocks}; layers are compared one with one: name a "
            "model and what was fine-tuned from it, or probe both and use `lamina compare`"
        )
    if attention and a.heads != b.heads:
        raise ModelError(
            f"{a.name} has {a.heads} heads per block and {b.name} has {b.heads}; heads are compared one with one: "
            "leave them out with --no-attention"
        )


def _unseen(corpus: Corpus | Splits, models: Sequence[Encoder]) -> tuple[Corpus | Splits, dict[str, int]]:
    skipped: dict[str, int] = {}
    scored, seen = unseen(corpus.scored if isinstance(corpus, Splits) else corpus, models)
    skipped["texts that a model was fine-tuned on, left out"] = seen
    if len(scored) < 2:
        raise CorpusError(f"{scored.name}: a comparison needs at least 2 texts; there are {len(scored)}")
    if not isinstance(corpus, Splits):
        return scored, skipped
    train, seen = unseen(corpus.train, models)
    skipped["training texts that a model was fine-tuned on, left out"] = seen
    return Splits(train, scored), skipped


def _layers(
    pairs: Sequence[tuple[Encoder, Encoder]],
    corpus: Corpus,
    *,
    twin: bool,
    samples: int,
    seed: int,
    runtime: Runtime,
) -> tuple[list[DiffRow], pd.DataFrame]:
    """Rows of layers, and the table `best`."""
    first, second = pairs[0]
    stored = [(runtime.extract(one, corpus), runtime.extract(other, corpus)) for one, other in pairs]
    random = runtime.extract(first.random_twin(seed), corpus) if twin and first.blocks else None
    by = unit_of(corpus)
    documents = [by.of(text) for text in corpus]
    rows: list[DiffRow] = []
    alike: list[LayerSimilarity] = []
    with progress(f"layers of {first.name} and {second.name}", first.layers) as advance:
        for layer in range(first.layers):
            similarities = [
                compare_layer(*both, random, layer, documents, samples=samples, seed=seed) for both in stored
            ]
            for measure in similarities[0]:
                one = over_models([by_measure[measure] for by_measure in similarities])
                rows.append(DiffRow(layer, None, measure, one.value, *interval(one.draws), one.baseline))
                alike += [one] if measure == "cka" else []
            advance()
    values, draws = (
        np.array([similarity.value for similarity in alike]),
        np.stack([similarity.draws for similarity in alike], 1),
    )
    units = len(set(documents))
    tests = changed_layers(values, draws, units)
    tested = [
        with_test(row, tests, row.layer, by.by) if row.measure == "cka" else row._replace(units=units, unit=by.by)
        for row in rows
    ]
    return tested, best_table(values, draws, units, by.by)


def changed_layers(
    values: Float[np.ndarray, " layer"], draws: Float[np.ndarray, "sample layer"], units: int
) -> Contrasts:
    """1 - CKA of all layers, two-sided; spaces that are equal in every draw did not change."""
    # Draws follow Student's t already.
    contrasts = bootstrap_family(1 - values, 1 - draws, units, widen=False, bounds=(0.0, 2.0))
    same = (np.abs(1 - values) < _SAME) & (np.abs(1 - draws).max(0) < _SAME) & (contrasts.needed == 0)
    estimate, low, high = (np.where(same, 0.0, ends) for ends in (contrasts.estimate, contrasts.low, contrasts.high))
    return contrasts._replace(estimate=estimate, low=low, high=high, p=np.where(same, 1.0, contrasts.p))


def best_table(
    values: Float[np.ndarray, " layer"], draws: Float[np.ndarray, "sample layer"], units: int, unit: str
) -> pd.DataFrame:
    """See the table `best`: the layers that can have changed most."""
    leading = leads(values, draws, units, higher=False)
    rows = [
        ("cka", layer, value, lead, low, high, p, bool(among), units, needed, unit)
        for layer, (value, among, lead, low, high, p, _, needed) in enumerate(
            zip(values.tolist(), leading.best.among, *(column.tolist() for column in leading.contrasts), strict=True)
        )
    ]
    return pd.DataFrame(rows, columns=list(_BEST))


def with_test(row: DiffRow, tests: Contrasts, index: Any, unit: str) -> DiffRow:
    estimate, low, high, p, units, needed = (float(numbers[index]) for numbers in tests)
    return row._replace(
        difference=estimate, diff_low=low, diff_high=high, p_adjusted=p, units=units, needed=needed, unit=unit
    )


def _heads(
    pairs: Sequence[tuple[Encoder, Encoder]], corpus: Corpus, *, samples: int, seed: int, weights: Weighting
) -> tuple[list[DiffRow], dict[str, int]]:
    similarity = compare_heads(pairs, corpus, samples=samples, seed=seed, weights=weights)
    numbers = [matrix.tolist() for matrix in similarity[:4]]
    by = unit_of(corpus).by
    rows = [
        with_test(
            DiffRow(block + 1, head + 1, "attention_similarity", *(matrix[block][head] for matrix in numbers)),
            similarity.apart,
            (block, head),
            by,
        )
        for block, head in np.ndindex(similarity.value.shape)
    ]
    return rows, dict(similarity.skipped)


def _both_probed(
    a: Sequence[Encoder], b: Sequence[Encoder], probed: Sequence[str | Result] | None, tasks: Sequence[str]
) -> tuple[Result, Result] | None:
    if not probed:
        return None
    if tasks:
        raise InputError("give tasks to probe (--probe) or two probing results (--probed), not both")
    if len(probed) != 2:
        raise InputError(
            f"probed takes two results of `lamina probe`, of the model before and of the model after; got {len(probed)}"
        )
    before, after = map(as_result, probed)
    _refuse_unfair(a, b, (before, after))
    return before, after


def compare_probes(probed: tuple[Result, Result], *, samples: int, seed: int) -> Iterator[DiffRow]:
    probed_layers = list(layer_differences(*probed, samples=samples, seed=seed))
    if not probed_layers:
        raise InputError("there are no probes of single layers in both results; probe both models with --probes layer")
    for task, layer, before, after, apart, unit in probed_layers:
        constants = [_constant(result, task) for result in probed]
        yield DiffRow(layer, None, f"probe_a:{task}", *before, constants[0])
        yield DiffRow(layer, None, f"probe_b:{task}", *after, constants[1])
        yield DiffRow(layer, None, f"probe_difference:{task}", *apart[:3], 0.0, *apart, unit)


def _refuse_unfair(a: Sequence[Encoder], b: Sequence[Encoder], probed: tuple[Result, Result]) -> None:
    for encoders, result in zip((a, b), probed, strict=True):
        model, name = result.provenance.model, encoders[0].name
        if model.get("fingerprint") != describe_models(encoders)["fingerprint"]:
            raise InputError(
                f"the probing result given for {name} is of another model, {model.get('name')}; give one of {name} as "
                "it is now"
            )
    for what in ("corpus", "parameters"):
        one, other = (getattr(result.provenance, what) for result in probed)
        if one.get("fingerprint", one) != other.get("fingerprint", other):
            raise InputError(f"the two models were probed with different {what}; probe both in the same way")


def _constant(result: Result, task: str) -> float:
    scores = result.tables["scores"]
    constants = scores.loc[(scores["task"] == task) & (scores["probe"] == "constant"), "value"]
    return float(constants.iloc[0]) if len(constants) else math.nan

"""Heads and blocks ablated one at a time: what does the model do worse without each?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.analyses.cause.effects import (
    RANDOM_COMPONENT,
    TESTED,
    AblatedPart,
    Ablation,
    AskedQuestions,
    CauseInputs,
    Component,
    Items,
    Probes,
    ScoreChange,
    Suite,
    chosen_components,
    decisive,
    does_harm,
    effects_of,
    harm_of,
    margin_of,
    mean_scores,
    measure,
    named_heads,
    plan_ablations,
    unit_of_target,
)
from lamina.analyses.cause.importance import (
    AGREED,
    IMPORTANCE,
    GateGradients,
    agreement_of,
    corrected,
    gate_gradients,
    importance_rows,
)
from lamina.errors import InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.interventions.interventions import Interventions
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Result
from lamina.results.finding import (
    Finding,
    Source,
    best_in_words,
    cell,
    finding,
    not_tested,
    number,
    p_in_words,
    rows_of,
)
from lamina.stats.best import BestSet, best_set
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import bootstrap_family
from lamina.stats.status import LEAST_UNITS, SURE, Contrast
from lamina.stats.units import Units
from lamina.targets.choice import TargetData, chosen_targets, targets_of
from lamina.targets.target import LOSS, Target, TargetScores, phrase_at_start, phrase_of

EFFECTS = (
    "component",
    "layer",
    "head",
    "how",
    "target",
    "baseline",
    "value",
    *TESTED,
    "worse",
    "p_beaten",
    "among_best",
)
CONTRASTS = (
    "component", "layer", "head", "how", "target", "against", "against_layer", "against_head", "value", "other",
    "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "worse",
)  # fmt: skip
AGREEMENT = ("target", "how", "of", "importance", *AGREED, "heads")
NORMALISED, PLAIN = "layer-normalised", "as it is"
"""Importance by the norm of its layer, and without."""
NEXT = "next"
"""In contrasts: the block that the one that matters most is compared with."""
_WEAK = 0.1
"""Rank correlations within this margin of 0 are negligible."""
_ROWS = 5
"""Heads, and blocks, of a target in the terminal."""
_TRIED = 16
"""Rows that are timed to estimate the cost of all of them."""
_BACKWARD = 3
"""Cost of a run with gradients, in runs without."""


@analysis(
    title="Heads and blocks ablated",
    question="What does a model do worse without each of its heads and blocks?",
    method=(
        "Heads are ablated one at a time (output replaced by its mean over all tokens, by zeros, or by the head's "
        "output on another text), blocks are skipped one at a time, and the same items are scored again: loss, minimal "
        "pairs, answers, tags, classes or what probes read. Effects are paired by document (minimal pairs: by pair) "
        "and tested by sign flips, all parts of one kind together (max-T), with simultaneous 95 % intervals. Each head "
        "is also compared, in pairs, with a random component as large as a head of its layer. Controls: the untrained "
        "twin, and the importance of heads by the gradient of a gate."
    ),
    cites=("Michel et al. 2019", "Voita et al. 2019", "Wang et al. 2023"),
    reads=CauseInputs(),
    version=2,
    tables={
        "effects": Table(
            "One row per part, kind of ablation (how) and target; effect: value minus baseline, two-sided; one family: "
            "all parts of one component kind, target and how. worse: clearly harmful, beyond the margin (.05 nats, "
            "else .02). p_beaten: p of another part of the family mattering more; among_best: no other part was shown "
            "to matter more. random: as many units as a head has, drawn from all heads of the layer, mean of 3 draws; "
            "zero of a block: it is skipped.",
            EFFECTS,
        ),
        "contrasts": Table(
            "One row per part, how, target and what it is compared with; difference: value minus other. against "
            "random: each head minus the random component of its layer, paired, two-sided, one family per target and "
            "how. against next: the block that matters most minus the closest block that was shown to matter less "
            "(where none was: minus the closest block), two-sided over all pairs of blocks.",
            CONTRASTS,
        ),
        "twin": Table("The same of the untrained twin.", EFFECTS, optional=True),
        "importance": Table(
            "One row per head: expected absolute gradient of its gate, normalised by layer, on the first target.",
            IMPORTANCE,
            optional=True,
        ),
        "agreement": Table(
            "One row per target, how, model or twin, and kind of importance: Spearman's rank correlation over heads of "
            "importance (by the gradient of that target) and the size of the effect. Intervals are over documents, "
            "simultaneous over the rows of model or twin; p: the larger of that over documents and that over "
            "permutations of the heads, both two-sided and for the same rows. again: the effects correlated with "
            "themselves, measured on as many other documents.",
            AGREEMENT,
            optional=True,
        ),
    },
    chapter="heads",
    needs=("states", "ablation"),
    example="lamina ablate minilm --corpus ewt --items 200 --out results/ablate",
)
def ablate(
    encoder: HuggingFaceEncoder,
    material: TargetData,
    *,
    targets: Annotated[
        Sequence[str] | None,
        Setting(
            "What is scored: loss, pairs, qa, qa_em, tags, classes or probe:TASK@LAYER; by default all that the model "
            "and the data allow.",
            option="--target",
        ),
    ] = None,
    component: Annotated[Sequence[Component] | None, Setting("What is ablated: head, block; both by default.")] = None,
    how: Annotated[
        Sequence[Ablation],
        Setting(
            "What replaces a head's output: its mean over all tokens (mean), zeros (zero) or its output on another "
            "text (resample). Blocks are skipped."
        ),
    ] = ("mean",),
    heads: Annotated[
        Sequence[str] | None,
        Setting("Only these heads, as LAYER-HEAD counted from 1; all by default.", option="--head"),
    ] = None,
    # Read when inputs are loaded.
    suite: Suite = None,  # noqa: ARG001
    questions: AskedQuestions = None,  # noqa: ARG001
    probes: Probes = None,  # noqa: ARG001
    items: Items = 500,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """The effect of ablating every head and every block, one at a time, on what a model can be asked.

    The default is mean ablation: zero ablation also removes the constant part of a head's output, and the blocks above
    are thrown off by the missing constant rather than by missing information. Importance by gradient is about zero
    ablation: add `--how zero` to compare the two on equal terms.

    Example:
        >>> result = lamina.ablate("smollm2", "ewt", targets=["loss"], items=50)  # doctest: +SKIP
        >>> result.tables["effects"].columns.tolist()[:4]  # doctest: +SKIP
        ['component', 'layer', 'head', 'how']
    """
    request = _AblationRequest(chosen_components(component, heads), tuple(how), heads, seed)
    parts = request.parts_of(encoder)
    chosen = targets_of(encoder, chosen_targets(encoder, targets, material), material, items=items, seed=seed)
    ablated = [ablate_parts(parts, target, request.plan(parts, target), seed=seed) for target in chosen]
    drawn: dict[str, Any] = {"samples": samples, "seed": seed}
    tables = {
        "effects": pd.DataFrame(effect_rows(ablated, **drawn), columns=list(EFFECTS)),
        "contrasts": pd.DataFrame(contrast_rows(ablated, **drawn), columns=list(CONTRASTS)),
    }
    agreement = agreement_rows(ablated, "model", **drawn)
    if twin:
        beside = _twin(request, encoder, chosen)
        tables["twin"] = pd.DataFrame(effect_rows(beside, **drawn), columns=list(EFFECTS))
        agreement += agreement_rows(beside, "twin", **drawn)
    if ablated[0].gradients is not None:
        rows = importance_rows(ablated[0].gradients, **drawn)
        tables["importance"] = pd.DataFrame(rows, columns=list(IMPORTANCE))
    if agreement:
        tables["agreement"] = pd.DataFrame(agreement, columns=list(AGREEMENT))
    for table in tables.values():
        for column in ("head", "against_head"):
            if column in table:
                table[column] = table[column].astype("Int64")
    return Tables(
        tables,
        _skipped(chosen, parts, request.components),
        data={"importance_by": chosen[0].name} if "importance" in tables else {},
        scored={scores.target.name: int(scores.before.counts.sum()) for scores in ablated},
    )


@ablate.finds
def findings_of(result: Result) -> Iterator[Finding]:
    """Per target: how many heads and blocks matter, and which block matters most; then gradient importance."""
    table, contrasts = result.tables["effects"], result.tables["contrasts"]
    for target in dict.fromkeys(table["target"]):
        heads, blocks = (_first_how(table, str(target), component) for component in ("head", "block"))
        beside = _first_how(contrasts[contrasts["against"] == RANDOM_COMPONENT], str(target), "head")
        if len(beside):
            yield _heads(result, beside, str(target))
        elif len(heads):
            yield _parts(result, heads, str(target))
        if len(blocks):
            yield _parts(result, blocks, str(target))
            leads = _first_how(contrasts[contrasts["against"] == NEXT], str(target), "block")
            yield from (_leading_block(result, row, blocks, str(target)) for row in rows_of(leads))
    yield from _agreement(result)


@ablate.shows
def overview_of(result: Result) -> Iterator[Overview]:
    """One table per target and kind of ablation: the parts that matter most, and a random component of their layer."""
    table = result.tables["effects"]
    for (target, how), effects in table.groupby(["target", "how"], sort=False):
        rows: list[tuple[str | int, ...]] = []
        for component in ("head", "block"):
            some = effects[effects["component"] == component]
            for row in rows_of(some.assign(harm=harm_of(some)).nlargest(_ROWS, "harm")):
                name = f"layer {row.layer}" if component == "block" else f"head {row.layer}-{int(row.head)}"
                random = _matching(table, row, component=RANDOM_COMPONENT) if component == "head" else None
                beside = "-" if random is None else cell(random.effect, random.low, random.high)
                rows.append(
                    (
                        name,
                        cell(row.effect, row.low, row.high),
                        "-" if row.p_adjusted != row.p_adjusted else p_in_words(row.p_adjusted),
                        beside,
                    )
                )
        baseline = cell(float(effects["baseline"].iloc[0]))
        yield Overview(
            f"{result.provenance.model['name']}: {target} ({baseline} unchanged), {how} ablation, largest harm",
            ("without", "effect", "p", "random component"),
            rows,
        )


@ablate.costs
def _cost(
    estimator: Estimator, encoder: HuggingFaceEncoder, material: TargetData, *, targets: Sequence[str] | None,
    component: Sequence[Component] | None, how: Sequence[Ablation], heads: Sequence[str] | None, items: int, twin: bool,
    seed: int, **__: Any,
) -> Cost:  # fmt: skip
    """The items of every target are read whole, with gradients, and without each part: from its block on."""
    request = _AblationRequest(chosen_components(component, heads), tuple(how), heads, seed)
    parts = request.parts_of(encoder)
    many = len(named_heads(parts, heads)) * len(request.hows) * ("head" in request.components)
    many += encoder.blocks * (1 + ("head" in request.components))
    names = chosen_targets(encoder, targets, material)
    texts, tokens = estimator.items(material.scored, items)
    read = len(names) * tokens * (1 + _BACKWARD + many / 2) * (1 + twin)
    return Cost((1 + many) * (1 + twin), texts, tokens, memory=memory_now(), work=read * estimator.per_token)


class AblationScores(NamedTuple):
    """The scores of a target by the whole model, and without each part."""

    target: Target
    parts: tuple[AblatedPart, ...]
    before: TargetScores
    after: tuple[TargetScores, ...]
    """Without each part; of a random component, the mean of its draws."""
    gradients: GateGradients | None
    """With respect to gates; None where no heads are ablated."""

    def families(self) -> Iterator[list[int]]:
        """Indices of the parts that are tested together: those of one kind and one kind of ablation."""
        for kind in dict.fromkeys((part.component, part.how) for part in self.parts):
            yield [index for index, part in enumerate(self.parts) if (part.component, part.how) == kind]

    def random_of(self, part: AblatedPart) -> int | None:
        """The index of the random component of a head's layer."""
        for index, other in enumerate(self.parts):
            if (other.component, other.block, other.how) == (RANDOM_COMPONENT, part.block, part.how):
                return index
        return None

    def change(self, index: int, than: int | None = None) -> ScoreChange:
        """A part's scores, against those of the whole model or of another part."""
        return ScoreChange(self.before if than is None else self.after[than], self.after[index], self.target.units)


def ablate_parts(parts: Interventions, target: Target, plan: Sequence[AblatedPart], *, seed: int) -> AblationScores:
    """Score a target with the whole model and without each part; gradients of gates where heads are among them."""
    edits = [edit for part in plan for edit in part.edits]
    what = f"{target.name} of {parts.encoder.name} without {len(plan)} parts"
    before, *ablated = measure(parts, target, edits, seed=seed, what=what)
    scores = iter(ablated)
    after = tuple(mean_scores([next(scores) for _ in part.edits]) for part in plan)
    with_heads = any(part.head is not None for part in plan)
    return AblationScores(target, tuple(plan), before, after, gate_gradients(parts, target) if with_heads else None)


def effect_rows(ablated: Iterable[AblationScores], *, samples: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """One row per target, part and how; a family are the parts of one kind, target and how."""
    for scores in ablated:
        rows: dict[int, tuple[Any, ...]] = {}
        for family in scores.families():
            effects = effects_of([scores.change(index) for index in family])
            most = _most(*_harm_draws(scores, family, samples=samples, seed=seed))
            for index, effect, p, among in zip(family, effects, most.p, most.among, strict=True):
                part = scores.parts[index]
                named = (part.component, part.block + 1, _head(part), part.how, scores.target.name)
                rows[index] = (*named, *effect, does_harm(effect, scores.target), float(p), bool(among))
        yield from (rows[index] for index in range(len(scores.parts)))


def contrast_rows(ablated: Iterable[AblationScores], *, samples: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """Heads against random components of their layers; and the block that matters most against the next.

    Differences are of scores; `worse`: the part surely does more harm than what it is compared with.
    """
    for ablation in ablated:
        sign = 1 if ablation.target.lower_is_better else -1
        for family in ablation.families():
            parts = [ablation.parts[index] for index in family]
            if parts[0].component == RANDOM_COMPONENT:
                continue
            beside = [ablation.random_of(part) if part.head is not None else None for part in parts]
            pairs = [(index, other) for index, other in zip(family, beside, strict=True) if other is not None]
            for (index, other), effect in zip(
                pairs, effects_of([ablation.change(*pair) for pair in pairs]), strict=True
            ):
                worse = does_harm(effect, ablation.target)
                yield (
                    *_places(ablation, index, other, RANDOM_COMPONENT),
                    effect.value,
                    effect.baseline,
                    *effect[2:],
                    worse,
                )
            if parts[0].component == "block" and len(family) > 1:
                first, other, test = _leading_part(ablation, family, samples=samples, seed=seed)
                low, high = (test.low, test.high) if sign > 0 else (-test.high, -test.low)
                named = _places(ablation, first, other, NEXT)
                scores = ablation.after[first].value, ablation.after[other].value
                tested = (sign * test.estimate, low, high, *test[3:])
                yield *named, *scores, *tested, bool(test.p < SURE)


def agreement_rows(ablated: Iterable[AblationScores], of: str, *, samples: int, seed: int) -> list[tuple[Any, ...]]:
    """One row per target, how and kind of importance, tested together; all heads have to be among the parts."""
    named, agreements = [], []
    for scores in ablated:
        if scores.gradients is None:
            continue
        for family in scores.families():
            chosen = [
                (scores.parts[number], scores.after[number])
                for number in family
                if scores.parts[number].head is not None
            ]
            if tuple((part.block, part.head) for part, _ in chosen) != scores.gradients.heads:
                continue
            for importance in (NORMALISED, PLAIN):
                agreement = agreement_of(
                    scores.gradients, scores.before, [after for _, after in chosen], scores.target.units,
                    normalised=importance == NORMALISED, samples=samples, seed=seed,
                )  # fmt: skip
                named.append((scores.target.name, chosen[0][0].how, of, importance))
                agreements.append(agreement)
    return [
        (*name, *numbers, scores.heads)
        for name, numbers, scores in zip(named, corrected(agreements), agreements, strict=True)
    ]


def _harm_draws(ablated: AblationScores, family: Sequence[int], *, samples: int, seed: int) -> tuple[Any, Any, int]:
    """How much worse a target is without each part: values, draws, and the number of units."""
    units = Units.of(ablated.target.units, "item")
    sign = 1 if ablated.target.lower_is_better else -1

    def drawn(scores: TargetScores) -> Float[np.ndarray, " sample"]:
        return ratio_draws(units.sums(scores.hits), units.sums(scores.counts), units, samples=samples, seed=seed)

    before = drawn(ablated.before)
    draws = np.stack([sign * (drawn(ablated.after[number]) - before) for number in family], 1)
    values = np.array([sign * (ablated.after[number].value - ablated.before.value) for number in family])
    return values, draws, len(units)


def _most(values: Float[np.ndarray, " part"], draws: Float[np.ndarray, "sample part"], units: int) -> BestSet:
    """Which parts can be those that matter most; all of them where there are too few units to test."""
    most = best_set(values, draws, units)
    return most if units >= LEAST_UNITS else most._replace(among=np.isfinite(values), p=np.full(len(values), np.nan))


def _leading_part(
    ablated: AblationScores, family: Sequence[int], *, samples: int, seed: int
) -> tuple[int, int, Contrast]:
    """The part without which the target suffers most, the part it is compared with, and by how much it leads.

    Where some parts were shown not to matter most (`best_set`), the comparison is with the closest of them; else with
    the closest of all others.
    """
    values, draws, units = _harm_draws(ablated, family, samples=samples, seed=seed)
    most = _most(values, draws, units)
    others = np.flatnonzero(~most.among) if not most.among.all() else np.arange(len(family))
    others = others[others != most.first]
    # Parts that are alike may each be left out by chance: the claim about any of them is tested over all pairs.
    one, two = np.triu_indices(len(family), 1)
    sign = np.where(values[one] >= values[two], 1, -1)
    lead, apart = sign * (values[one] - values[two]), sign * (draws[:, one] - draws[:, two])
    pairs = bootstrap_family(lead, apart, units)
    pair_of = {frozenset((a, b)): pair for pair, (a, b) in enumerate(zip(one.tolist(), two.tolist(), strict=True))}
    of = [pair_of[frozenset((most.first, int(other)))] for other in others]
    # The one with the largest p; without a p, the one with the next largest effect.
    place = int(np.lexsort((-lead[of], np.nan_to_num(pairs.p[of])))[-1])
    estimate, low, high, p = (float(column[of[place]]) for column in pairs[:4])
    test = Contrast(estimate, low, high, p, units, int(pairs.needed[of[place]]))
    return family[most.first], family[int(others[place])], test


def _places(ablated: AblationScores, number: int, other: int, against: str) -> tuple[Any, ...]:
    part, beside = ablated.parts[number], ablated.parts[other]
    named = (part.component, part.block + 1, _head(part), part.how, ablated.target.name)
    return *named, against, beside.block + 1, _head(beside)


def _head(part: AblatedPart) -> int | None:
    return None if part.head is None else part.head + 1


def _first_how(table: pd.DataFrame, target: str, component: str) -> pd.DataFrame:
    """The rows of one kind of part, for the first kind of ablation."""
    rows = table[(table["target"] == target) & (table["component"] == component)]
    return rows[rows["how"] == rows["how"].iloc[0]] if len(rows) else rows


def _heads(result: Result, rows: pd.DataFrame, target: str) -> Finding:
    """Whether heads matter more than random components of their size; the contrast is head minus random component."""
    row = decisive(rows, "difference", "diff_low", "diff_high", margin_of(target))
    many, head = int(rows["worse"].sum()), f"head {row.layer}-{int(row.head)}"
    value, other = (number(score, digits=3) for score in (row.value, row.other))
    if many:
        claim = (
            f"{_count(many, len(rows))} {_matter(many)} to {phrase_of(target)} more than random components of their "
            f"size; without {head} it is {value}, without a random component {other}"
        )
    else:
        claim = (
            f"{phrase_at_start(target)} is better without {head} ({value}) than without a random component ({other})"
        )
    where = {"component": "head", "how": row.how, "target": target}
    sources = [
        Source("contrasts", {**where, "against": RANDOM_COMPONENT, "layer": row.layer, "head": row.head}),
        Source("contrasts", {**where, "against": RANDOM_COMPONENT}),
    ]
    if many:
        sources.append(Source("contrasts", {**where, "against": RANDOM_COMPONENT, "worse": True}))
    return finding(
        claim=claim,
        whether=f"any head matters to {phrase_of(target)} more than a random component of its size",
        absent=f"No head matters to {phrase_of(target)} more than a random component of its size",
        contrast=f"{head} minus random component",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=sources,
        unit=unit_of_target(result, target),
        importance=("answers", "beats control"),
        margin=margin_of(target),
        digits=3,
    )


def _parts(result: Result, rows: pd.DataFrame, target: str) -> Finding:
    """Whether parts matter, against the model as it is: blocks, and heads where nothing is as large as they are."""
    row = decisive(rows, "effect", "low", "high", margin_of(target))
    thing = "layer" if row.component == "block" else "head"
    name = f"layer {row.layer}" if row.component == "block" else f"head {row.layer}-{int(row.head)}"
    skipped = " when skipped" if row.component == "block" else ""
    many = int(rows["worse"].sum())
    where = {"component": row.component, "how": row.how, "target": target}
    if many:
        claim = f"{_count(many, len(rows), thing)} {_matter(many)} to {phrase_of(target)}{skipped}"
    else:
        claim = f"{phrase_at_start(target)} is better without {name}"
    value, before = (number(score, digits=3) for score in (row.value, row.baseline))
    return finding(
        claim=f"{claim}; without {name} it is {value} instead of {before}",
        whether=f"any {thing} matters to {phrase_of(target)}{skipped}",
        absent=f"No {thing} matters to {phrase_of(target)}{skipped}",
        contrast=f"change without {name}",
        test=Contrast.of(row, "effect"),
        source=[Source("effects", where), *([Source("effects", {**where, "worse": True})] if many else [])],
        unit=unit_of_target(result, target),
        importance=("answers",),
        margin=margin_of(target),
        digits=3,
    )


def _leading_block(result: Result, row: Any, blocks: pd.DataFrame, target: str) -> Finding:
    """Which blocks matter most: the contrast is the first minus the strongest that is compared with it."""
    among = blocks["among_best"].astype(bool).tolist()
    best = best_in_words(blocks["layer"].tolist(), among) or f"layer {row.layer}"
    when = f"{'one of ' if best.startswith('layers') else ''}{best} is skipped"
    highest = "highest" if target == LOSS else "lowest"
    value, other = (number(score, digits=3) for score in (row.value, row.other))
    where = {"component": "block", "how": row.how, "target": target}
    return finding(
        claim=(
            f"{phrase_at_start(target)} is {highest} when {when}: without layer {row.layer} it is {value}, without "
            f"layer {row.against_layer} {other}"
        ),
        whether=f"{phrase_of(target)} is {highest} when {when}",
        absent=f"{phrase_at_start(target)} is as {highest.removesuffix('est')} without any layer",
        contrast=f"layer {row.layer} minus layer {row.against_layer}",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=[
            Source("contrasts", {**where, "against": NEXT}),
            Source("effects", where | ({"among_best": True} if any(among) else {})),
        ],
        unit=unit_of_target(result, target),
        importance=("answers", "localised"),
        margin=0,
        digits=3,
    )


def _count(many: int, of: int, thing: str = "head") -> str:
    return f"{many} of {of} {thing}{'' if of == 1 else 's'}"


def _matter(many: int) -> str:
    return "matters" if many == 1 else "matter"


def _matching(table: pd.DataFrame, row: Any, *, component: str) -> Any | None:
    """The row of another component in the same layer."""
    same = (table["component"] == component) & (table["layer"] == row.layer)
    matching = table[same & (table["how"] == row.how) & (table["target"] == row.target)]
    return next(rows_of(matching), None)


def _agreement(result: Result) -> Iterator[Finding]:
    """Whether importance by gradient predicts effects, on the first target; the contrast is the rank correlation."""
    table = result.tables.get("agreement")
    if table is None:
        return
    row = next(rows_of(table[(table["importance"] == NORMALISED) & (table["of"] == "model")]), None)
    if row is None or row.rho != row.rho:
        return
    whether = f"gradient importance predicts the effect of ablating a head on {phrase_of(row.target)}"
    where = {name: getattr(row, name) for name in ("target", "how", "of", "importance")}
    source = Source("agreement", where)
    if row.p_adjusted != row.p_adjusted and not row.needed:
        yield not_tested(
            whether, f"of {row.heads} heads no order is unlikely by chance", source=[source], importance=["answers"]
        )
        return
    against = "orders heads against their effects" if row.rho < 0 else "predicts the effect of ablating a head"
    yield finding(
        claim=f"Gradient importance {against} on {phrase_of(row.target)}",
        whether=whether,
        absent=f"Gradient importance does not predict the effect of ablating a head on {phrase_of(row.target)}",
        contrast="rank correlation",
        test=Contrast.of(row, "rho"),
        source=source,
        unit=unit_of_target(result, row.target),
        importance=("answers",) if row.rho > 0 else ("answers", "surprises"),
        margin=_WEAK,
    )


@dataclass(frozen=True)
class _AblationRequest:
    """What is ablated, of a model and of its twin."""

    components: tuple[Component, ...]
    hows: tuple[Ablation, ...]
    heads: Sequence[str] | None
    seed: int

    def parts_of(self, encoder: Encoder) -> Interventions:
        """The model's parts; an InputError where it has none of those requested."""
        if not self.components or ("head" in self.components and not self.hows):
            raise InputError("nothing to ablate: name --component head or block, and --how for heads")
        parts = Interventions(encoder, heads="head" in self.components)
        if "head" in self.components:
            named_heads(parts, self.heads)
        return parts

    def plan(self, parts: Interventions, target: Target) -> list[AblatedPart]:
        """All parts; means are over the tokens that the model reads for the target."""
        with_heads = "head" in self.components
        return plan_ablations(
            parts,
            components=self.components,
            hows=self.hows,
            heads=named_heads(parts, self.heads) if with_heads else (),
            means=parts.means(target.rows) if with_heads and "mean" in self.hows else {},
            seed=self.seed,
        )


def _twin(request: _AblationRequest, encoder: HuggingFaceEncoder, targets: Sequence[Target]) -> list[AblationScores]:
    other = encoder.random_twin(request.seed)
    parts = request.parts_of(other)
    ablated = []
    for target in targets:
        same = target.of(other)
        ablated.append(ablate_parts(parts, same, request.plan(parts, same), seed=request.seed))
    return ablated


def _skipped(targets: Sequence[Target], parts: Interventions, components: Sequence[Component]) -> Counter[str]:
    skipped = Counter({f"{target.name}: {why}": many for target in targets for why, many in target.skipped.items()})
    if "head" in components and parts.encoder.heads == 1:
        skipped["layers of one head: no random component as large as a head"] = parts.encoder.blocks
    return skipped

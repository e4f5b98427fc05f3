"""Heads and blocks taken away one at a time: what does the model do worse without each?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pandas as pd

from lamina.analyses.cause.ablate_effects import (
    AGREEMENT,
    CONTRASTS,
    EFFECTS,
    AblationScores,
    ablate_parts,
    agreement_rows,
    contrast_rows,
    effect_rows,
)
from lamina.analyses.cause.ablate_findings import describe, tell_findings
from lamina.analyses.cause.ablate_parts import (
    AblatedPart,
    Ablation,
    Component,
    chosen_components,
    named_heads,
    plan_ablations,
)
from lamina.analyses.cause.asking import TargetData, chosen_targets, targets_of
from lamina.analyses.cause.importance import IMPORTANCE, importance_rows
from lamina.analyses.cause.inputs import AskedQuestions, CauseInputs, Items, Probes, Suite
from lamina.analyses.cause.targets import Target
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.interventions import Edit, Interventions
from lamina.errors import InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now, time_call
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.results.finding import Finding
from lamina.results.result import Result

_TRIED = 16
"""Rows that are tried to tell how long all of them take."""
_BACKWARD = 3
"""A run with gradients takes about so many runs without."""


@analysis(
    title="Heads and blocks taken away",
    question="What does a model do worse without each of its heads and blocks?",
    method=(
        "One head at a time hands on its mean over all tokens (or zeros, or what it makes of another text), one block "
        "at a time hands on what it read, and the same items are scored again: loss, minimal pairs, answers, tags, "
        "classes or what probes read. Effects are paired by document (minimal pairs: by pair) and tested by flipped "
        "signs, all parts of one kind together (max-T), with simultaneous 95 % intervals. Each head is compared with a "
        "random component as large as a head of its layer, also in pairs. Beside them are the twin with random weights "
        "and the importance of heads by the gradient of a gate."
    ),
    cites=("Michel et al. 2019", "Voita et al. 2019", "Wang et al. 2023"),
    reads=CauseInputs(),
    version=2,
    tables={
        "effects": Table(
            "One row per part, how it is taken away, and target; effect: value minus baseline, two-sided; one family: "
            "all parts of one component kind, target and how. worse: surely harmful, beyond the margin (.05 nats, else "
            ".02). p_beaten: that another part of the family matters more; among_best: it can be the one that matters "
            "most. random: as many numbers as a head has, drawn from all heads of the layer, mean of 3 draws; a "
            "block's zero: it is skipped.",
            EFFECTS,
        ),
        "contrasts": Table(
            "One row per part, how, target and what it is compared with; difference: value minus other. against "
            "random: each head minus the random component of its layer, paired, two-sided, one family per target and "
            "how. against next: of blocks, what matters most minus what cannot matter most and is hardest to tell "
            "from it (or else minus what is nearest to it), two-sided over all pairs of blocks.",
            CONTRASTS,
        ),
        "twin": Table("The same of the twin with random weights.", EFFECTS, optional=True),
        "importance": Table(
            "One row per head: expected absolute gradient of its gate, normalised by layer, on the first target.",
            IMPORTANCE,
            optional=True,
        ),
        "agreement": Table(
            "One row per target, how, model or twin, and kind of importance: Spearman's rank correlation over heads of "
            "importance (by the gradient of that target) and the size of the effect. Intervals are over documents, "
            "simultaneous over the rows of model or twin; p: the larger of that over documents and that over "
            "permutations of the heads, both two-sided and for the same rows. again: the effects with themselves, "
            "measured on as many other documents.",
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
            "What is scored: loss, pairs, qa, qa_em, tags, classes or probe:TASK@LAYER; by default what the model and "
            "the data can give.",
            option="--target",
        ),
    ] = None,
    component: Annotated[
        Sequence[Component] | None, Setting("What is taken away: head, block; both by default.")
    ] = None,
    how: Annotated[
        Sequence[Ablation],
        Setting(
            "What a head hands on instead: its mean over all tokens read (mean), zeros (zero) or what it makes of "
            "another text (resample). A block is skipped."
        ),
    ] = ("mean",),
    heads: Annotated[
        Sequence[str] | None,
        Setting("Only these heads, as LAYER-HEAD counted from 1; all by default.", option="--head"),
    ] = None,
    # Which pairs, questions and probes that means is found when inputs are loaded.
    suite: Suite = None,  # noqa: ARG001
    questions: AskedQuestions = None,  # noqa: ARG001
    probes: Probes = None,  # noqa: ARG001
    items: Items = 500,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """The effect of every head and every block, one at a time, on what a model can be asked.

    By default a head hands on its mean: zeros would also take away what it hands on whatever the text says, and blocks
    above are thrown off by the missing constant rather than by missing information. Importance by gradient is about
    zeros: ask for `--how zero` too to compare the two on equal terms.

    Example:
        >>> result = lamina.ablate("smollm2", "ewt", targets=["loss"], items=50)  # doctest: +SKIP
        >>> result.tables["effects"].columns.tolist()[:4]  # doctest: +SKIP
        ['component', 'layer', 'head', 'how']
    """
    asked = _AblationRequest(chosen_components(component, heads), tuple(how), heads, seed)
    parts = asked.parts_of(encoder)
    chosen = targets_of(encoder, chosen_targets(encoder, targets, material), material, items=items, seed=seed)
    own = [ablate_parts(parts, target, asked.plan(parts, target), seed=seed) for target in chosen]
    drawn: dict[str, Any] = {"samples": samples, "seed": seed}
    tables = {
        "effects": pd.DataFrame(effect_rows(own, **drawn), columns=list(EFFECTS)),
        "contrasts": pd.DataFrame(contrast_rows(own, **drawn), columns=list(CONTRASTS)),
    }
    agreement = agreement_rows(own, "model", **drawn)
    if twin:
        beside = _twin(asked, encoder, chosen)
        tables["twin"] = pd.DataFrame(effect_rows(beside, **drawn), columns=list(EFFECTS))
        agreement += agreement_rows(beside, "twin", **drawn)
    if own[0].gradients is not None:
        rows = importance_rows(own[0].gradients, **drawn)
        tables["importance"] = pd.DataFrame(rows, columns=list(IMPORTANCE))
    if agreement:
        tables["agreement"] = pd.DataFrame(agreement, columns=list(AGREEMENT))
    for table in tables.values():
        for column in ("head", "against_head"):
            if column in table:
                table[column] = table[column].astype("Int64")
    return Tables(
        tables,
        _skipped(chosen, parts, asked.components),
        data={"importance_by": chosen[0].name} if "importance" in tables else {},
        scored={each.target.name: int(each.before.counts.sum()) for each in own},
    )


@ablate.finds
def _findings(result: Result) -> Iterable[Finding]:
    """How many heads and blocks matter, which blocks matter most, and whether gradients say the same."""
    return tell_findings(result)


@ablate.shows
def _overview(result: Result) -> Iterable[Overview]:
    """The parts that matter most, target by target."""
    return describe(result)


@ablate.costs
def _cost(
    _: Estimator, encoder: HuggingFaceEncoder, material: TargetData, *, targets: Sequence[str] | None,
    component: Sequence[Component] | None, how: Sequence[Ablation], heads: Sequence[str] | None, items: int, twin: bool,
    seed: int, **__: Any,
) -> Cost:  # fmt: skip
    """A few items are scored without a part of the first and of the last block: the others lie between."""
    asked = _AblationRequest(chosen_components(component, heads), tuple(how), heads, seed)
    parts = asked.parts_of(encoder)
    names = chosen_targets(encoder, targets, material)
    chosen: list[Target] = []
    asking = time_call(lambda: chosen.extend(targets_of(encoder, names, material, items=items, seed=seed)))
    total = Cost(passes=0, seconds=asking * (1 + twin), memory=memory_now())
    for target in chosen:
        plan = asked.plan(parts, target)
        runs = sum(len(part.edits) for part in plan)
        total += Cost(
            passes=(1 + runs) * (1 + twin),
            texts=len(target.items),
            tokens=sum(len(row.ids) for row in target.rows),
            seconds=_seconds(parts, target, plan) * (1 + twin),
            memory=memory_now(),
        )
    return total


@dataclass(frozen=True)
class _AblationRequest:
    """What is to be taken away of a model, and of its twin alike."""

    components: tuple[Component, ...]
    hows: tuple[Ablation, ...]
    heads: Sequence[str] | None
    seed: int

    def parts_of(self, encoder: Encoder) -> Interventions:
        """The model, ready to lose parts; an error in words where it has none of those asked for."""
        if not self.components or ("head" in self.components and not self.hows):
            raise InputError("nothing is to be taken away: name --component head or block, and --how for heads")
        parts = Interventions(encoder, heads="head" in self.components)
        if "head" in self.components:
            named_heads(parts, self.heads)
        return parts

    def plan(self, parts: Interventions, target: Target) -> list[AblatedPart]:
        """All parts; means are over what the model reads for the target."""
        with_heads = "head" in self.components
        return plan_ablations(
            parts,
            components=self.components,
            hows=self.hows,
            heads=named_heads(parts, self.heads) if with_heads else (),
            means=parts.means(target.rows) if with_heads and "mean" in self.hows else {},
            seed=self.seed,
        )


def _twin(asked: _AblationRequest, encoder: HuggingFaceEncoder, targets: Sequence[Target]) -> list[AblationScores]:
    other = encoder.random_twin(asked.seed)
    parts = asked.parts_of(other)
    found = []
    for target in targets:
        same = target.of(other)
        found.append(ablate_parts(parts, same, asked.plan(parts, same), seed=asked.seed))
    return found


def _skipped(targets: Sequence[Target], parts: Interventions, components: Sequence[Component]) -> Counter[str]:
    found = Counter({f"{target.name}: {why}": many for target in targets for why, many in target.skipped.items()})
    if "head" in components and parts.encoder.heads == 1:
        found["layers of one head: no random component as large as a head"] = parts.encoder.blocks
    return found


def _seconds(parts: Interventions, target: Target, plan: Sequence[AblatedPart]) -> float:
    """What a target takes as it is, without each part, and for gradients; told from a few of its rows."""
    edits = [edit for part in plan for edit in part.edits]
    some = list(range(0, len(target.rows), max(1, len(target.rows) // _TRIED)))[:_TRIED]
    rows = [target.rows[at] for at in some]

    donors = rows[::-1] if any(part.how == "resample" for part in plan) else None

    def run(tried: Sequence[Edit]) -> None:
        for made in parts.run(rows, tried, layers=target.layers, donors=donors):
            target.read([some[row] for row in made.rows], made.states)

    # The first call is slower.
    run([])
    once = time_call(lambda: run([]))
    ends = [min(edits, key=lambda edit: edit.first), max(edits, key=lambda edit: edit.first)]
    changed = max(0.0, time_call(lambda: run(ends)) - once) / len(ends)
    share = sum(len(row.ids) for row in rows) / max(1, sum(len(row.ids) for row in target.rows))
    return (once * (1 + _BACKWARD) + changed * len(edits)) / share

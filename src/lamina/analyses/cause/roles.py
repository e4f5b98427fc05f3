"""Heads with a role: does what a head finds break without it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd

from lamina.analyses.behaviour.pairs import AGREEMENT
from lamina.analyses.cause.effects import (
    Ablation,
    AskedQuestions,
    CauseInputs,
    Items,
    decisive,
    harm_of,
    margin_of,
    unit_of_target,
)
from lamina.analyses.cause.role_heads import (
    COREFERENCE,
    GROUPS,
    HEADS,
    LEAST_LINKS,
    NEXT,
    PREVIOUS,
    QA_OBJECTS,
    ROLES,
    SINK,
    HeadRole,
    RoleNeed,
    RoleTargets,
    group_rows,
    head_rows,
    measure_needs,
    role_rows,
    role_targets,
    roles_of,
)
from lamina.corpora.splits import Splits, thin
from lamina.corpora.suites.agreement_pairs import agreement_pairs
from lamina.corpora.suites.minimal_pairs import MinimalPairs, read_pairs
from lamina.errors import CorpusError, InputError, LaminaError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.inputs import LoadedInputs, as_encoder, short_name
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.framework.watch import refuse_without_maps
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import has_language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.progress import say
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, not_tested, number, p_in_words, rows_of
from lamina.stats.status import SURE, Contrast
from lamina.targets.answers import has_span_head
from lamina.targets.choice import TargetData
from lamina.targets.probes import ALL_LINKS
from lamina.targets.target import LINK, LOSS, PAIRS, QA, some_texts

if TYPE_CHECKING:
    from lamina.activations import Runtime

SURFACE = (PREVIOUS, NEXT, SINK)
"""Roles that no relation needs."""
_WEAK = 0.1
"""Rank correlations within this margin of 0 are negligible."""
_ROWS = 8
_CALLED = {
    PAIRS: "the accuracy on pairs that need agreement",
    LOSS: "the loss",
    QA_OBJECTS: "the F1 of answers that are objects",
}
_LINKED = ("dep", "chains", "coref")
_TRIED = 16
"""Rows that are timed to estimate the cost of all of them."""


@dataclass(frozen=True)
class RoleInputs(CauseInputs):
    """A model, texts with dependencies or coreference (training texts among them), pairs and questions."""

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; texts without dependencies and coreference are refused."""
        encoder = as_encoder(given["model"], options, runtime)
        suite = None
        if has_language_model(encoder):
            suite = _pairs(settings.get("suite"), given["data"], options["split"])
        targets = [QA] if has_span_head(encoder) else []
        chosen = {**settings, "suite": suite, "targets": targets}
        loaded = super().load({**given, "model": encoder}, options, chosen, runtime)
        _, material = loaded.arguments
        if material.splits is None:
            raise CorpusError(
                f"{material.texts.name} has no training texts to find roles in and for probes to learn from; name a "
                "corpus that has some, such as ewt"
            )
        if not set(_LINKED) & set(material.scored.annotations):
            has = ", ".join(material.scored.annotations) or "none"
            raise CorpusError(
                f"{material.texts.name} has neither dependencies nor coreference (annotation dep, chains or coref; it "
                f"has: {has}), so no head can have a role in it; name a treebank, for example ewt"
            )
        return replace(loaded, names=(short_name(given["model"], encoder), *loaded.names[1:]))


@analysis(
    title="Roles of heads and their use",
    question="Does what a head finds break without it?",
    method=(
        "Roles are assigned by attention on training texts: relations found clearly better than by a fixed offset, "
        "coreference, neighbours, sinks. Each head is then ablated on other texts, and targets that need its role are "
        "scored: the words that a bilinear probe attaches by the relation (or links to an antecedent), agreement on "
        "minimal pairs, answers that are objects; for neighbours and sinks all attachments, and the loss. Each head "
        "with a role is compared with the heads of its layer without it, paired by document (pairs: by pair); all "
        "heads, roles and targets are tested together (max-T). Control: the attachments of all other relations."
    ),
    cites=("Clark et al. 2019", "Voita et al. 2019", "Michel et al. 2019"),
    reads=RoleInputs(),
    version=2,
    tables={
        "roles": Table(
            "One row per head with a role and target that needs it; others: mean effect of the heads of its layer "
            "without the role; difference: effect minus others; p: one-sided (more harm than others), all rows one "
            "family; intervals two-sided and simultaneous. worse: clearly more harm, beyond the margin.",
            ROLES,
        ),
        "groups": Table(
            "One row per role and target: all heads with the role against the others of their layers, and Spearman's "
            "rho over all heads of what each finds and the harm without it, both within layers. p: two-sided, the "
            "larger of that over documents and that over permutations within layers (of which heads have the role, or "
            "of what each finds); all rows one family; NaN where there are too few heads for a permutation test.",
            GROUPS,
        ),
        "heads": Table(
            "One row per head, role and target: what the head finds, and the effect of ablating it; intervals are "
            "simultaneous over the heads of a target.",
            HEADS,
        ),
        "controls": Table(
            "As roles, for a target that does not need the role: attachments of all other relations together.", ROLES,
            optional=True,
        ),
        "twin": Table("As roles, for the same heads of the untrained twin.", ROLES, optional=True),
    },
    chapter="heads",
    needs=("states", "maps", "ablation"),
    example="lamina roles minilm --corpus ewt --items 300 --out results/roles",
)  # fmt: skip
def roles(
    encoder: HuggingFaceEncoder,
    material: TargetData,
    *,
    how: Annotated[
        Ablation,
        Setting(
            "What replaces a head's output: its mean over all tokens (mean), zeros (zero) or its output on another "
            "text (resample)."
        ),
    ] = "mean",
    layer: Annotated[
        int | None, Setting("Layer that the probe of attachments reads; the last by default.", min=1)
    ] = None,
    # Read when inputs are loaded.
    suite: Annotated[  # noqa: ARG001
        str | None,
        Setting(
            "Minimal pairs that need the subject: a suite or a file; `agreement` is derived from the corpus, if it is "
            "a treebank with number features. `none` leaves pairs out: with a masked model they take long, since every "
            "token is masked in turn.",
            file=True,
        ),
    ] = AGREEMENT,
    questions: AskedQuestions = None,  # noqa: ARG001
    watched: Annotated[
        int,
        Setting("Approximate number of training texts used to assign roles; documents are not split.", min=2),
    ] = 500,
    items: Items = 500,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """The effect of ablating each head with a role, compared with the other heads of its layer.

    Roles are assigned on training texts and effects are measured on the scored ones, so that chance does not enter
    twice. Heads above the layer that the probe of attachments reads cannot change it, and are left out.

    Example:
        >>> result = lamina.roles("minilm", "ewt", items=100)  # doctest: +SKIP
        >>> result.tables["roles"].columns.tolist()[:5]  # doctest: +SKIP
        ['layer', 'head', 'role', 'finds', 'target']
    """
    refuse_without_maps(encoder)
    parts, read = Interventions(encoder), _layer(encoder, layer)
    splits = _splits(material)
    head_roles, skipped = roles_of(encoder, list(thin(splits.train, watched, seed)), samples=samples, seed=seed)
    if not head_roles:
        raise CorpusError(
            f"no head of {encoder.name} has a role on {watched:,} training texts of {splits.name}; give more texts "
            "(--watched), or another corpus"
        )
    left_out_counts = Counter({f"roles: {why}": many for why, many in skipped.items()})
    texts = some_texts(splits.scored, items, seed)
    coreference = any(role.kind == "coreference" for role in head_roles)
    targets, left_out = role_targets(
        encoder, material, splits, texts, layer=read, items=items, seed=seed, coreference=coreference
    )
    needed, beside = measure_needs(parts, targets, head_roles, how, seed=seed)
    if not needed:
        raise CorpusError(
            f"{splits.name}: no target needs any of the roles found; score more texts (--items), or name another corpus"
        )
    tables = _tables(needed, beside, samples=samples, seed=seed)
    if twin:
        tables["twin"] = _twin(encoder, targets, head_roles, how, seed)
    left_out_counts.update(left_out)
    left_out_counts.update(_unasked(head_roles, needed))
    left_out_counts["rows of heads in layers where every head has the role: no others to compare with"] = int(
        tables["roles"]["others"].isna().sum()
    )
    return Tables(
        tables,
        +left_out_counts,
        data={"watched": watched, "read_at_layer": read},
        scored={need.without.target: int(need.without.before.counts.sum()) for need in needed},
    )


@roles.finds
def findings_of(result: Result) -> Iterator[Finding]:
    """Heads with a relation, whether finding predicts use, and heads that attend to neighbours or sinks."""
    table, groups = result.tables["roles"], result.tables["groups"]
    relational = table[~table["role"].isin(SURFACE)].dropna(subset=["difference"])
    if len(relational):
        yield _most_used(result, relational)
    ranked = groups[~groups["role"].isin(SURFACE)].dropna(subset=["rho"])
    if len(ranked):
        yield _predicted(result, ranked)
    surface = groups[groups["role"].isin(SURFACE)].dropna(subset=["difference"])
    for _, rows in surface.groupby("role", sort=False):
        yield from (_surface(result, row) for row in rows_of(rows.head(1)))


@roles.shows
def overview_of(result: Result) -> Iterator[Overview]:
    """The heads with a role whose ablation does most harm, and every role as a whole."""
    table = result.tables["roles"]
    worst = table.loc[harm_of(table, "difference").dropna().nlargest(_ROWS).index]
    rows = [
        (
            f"{row.layer}-{row.head}", row.role, cell(row.finds), row.target, cell(row.effect, row.low, row.high),
            cell(row.others), cell(row.difference, row.diff_low, row.diff_high), _p(row.p_adjusted),
        )
        for row in rows_of(worst)
    ]  # fmt: skip
    columns = ("head", "role", "finds", "target", "effect", "others", "difference", "p")
    yield Overview(f"{result.provenance.model['name']}: heads with a role, largest harm", columns, rows)
    groups = [
        (
            row.role, row.target, row.heads, cell(row.difference, row.diff_low, row.diff_high), _p(row.p_adjusted),
            cell(row.rho, row.rho_low, row.rho_high), _p(row.rho_p_adjusted),
        )
        for row in rows_of(result.tables["groups"])
    ]  # fmt: skip
    yield Overview(
        f"{result.provenance.model['name']}: roles",
        ("role", "target", "heads", "difference", "p", "rho of finding and harm", "p"),
        groups,
    )


@roles.costs
def _cost(
    estimator: Estimator, encoder: HuggingFaceEncoder, material: TargetData, *, layer: int | None, watched: int,
    items: int, twin: bool, **__: Any,
) -> Cost:  # fmt: skip
    """Texts are watched, and the items of each kind of link are read without each head."""
    refuse_without_maps(encoder)
    _splits(material)
    _layer(encoder, layer)
    runs = (1 + encoder.blocks * encoder.heads / 2) * (1 + twin)
    texts, tokens = estimator.items(material.scored, items)
    _, seen = estimator.items(material.scored, watched)
    work = (runs * tokens + seen * (1 + twin)) * estimator.per_token
    return Cost(round(runs), texts, tokens, memory=memory_now(), work=work)


def target_in_words(target: str) -> str:
    """What is scored, within a sentence.

    Example:
        >>> target_in_words("link:obj@6"), target_in_words("link:all@6")
        ('the share of obj attached (link:obj@6)', 'the share of all words attached (link:all@6)')
    """
    if not target.startswith(LINK):
        return _CALLED.get(target, target)
    relation = target.removeprefix(LINK).rpartition("@")[0]
    if relation == COREFERENCE:
        return f"the share of antecedents found ({target})"
    return f"the share of {'all words' if relation == ALL_LINKS else relation} attached ({target})"


def _most_used(result: Result, rows: pd.DataFrame) -> Finding:
    """Whether any head with a role matters more for a target that needs it; the contrast is head minus others."""
    row = decisive(rows, "difference", "diff_low", "diff_high", margin_of(""))
    target, head = target_in_words(row.target), f"head {row.layer}-{row.head}"
    effect, others = (_signed(value) for value in (row.effect, row.others))
    where = {name: getattr(row, name) for name in ("layer", "head", "role", "target")}
    return finding(
        claim=(
            f"Head {row.layer}-{row.head}, which finds {row.role}, matters for it more than the other heads of its "
            f"layer: without it {target} changes by {effect}, without another head by {others}"
        ),
        whether="any head with a role matters more than the other heads of its layer for a target that needs the role",
        absent="No head with a role matters more than the other heads of its layer for a target that needs the role",
        contrast=f"{row.role}, {head} minus others of its layer",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=Source("roles", where),
        unit=unit_of_target(result, row.target),
        importance=("answers", "beats control", "localised"),
        digits=3,
        note=f"{_counted(rows)} {_of_twin(result)}".strip(),
    )


def _counted(rows: pd.DataFrame) -> str:
    """How many heads matter for any of their roles, as a sentence."""
    many, every = (len(some[["layer", "head"]].drop_duplicates()) for some in (rows[rows["worse"]], rows))
    return f"Of {every} heads with a role {many} {'does' if many == 1 else 'do'}."


def _of_twin(result: Result) -> str:
    table = result.tables.get("twin")
    if table is None:
        return ""
    relational = table[~table["role"].isin(SURFACE)]
    many, every = (
        len(some[["layer", "head"]].drop_duplicates()) for some in (relational[relational["worse"]], relational)
    )
    return f"In the untrained twin {many} of the same {every}."


def _predicted(result: Result, rows: pd.DataFrame) -> Finding:
    """Whether what heads find predicts the harm of ablating them; the contrast is the rank correlation."""
    tests = rows.assign(
        effect=rows["rho"], low=rows["rho_low"], high=rows["rho_high"], p_adjusted=rows["rho_p_adjusted"],
        units=rows["rho_units"], needed=rows["rho_needed"], worse=(rows["rho_p_adjusted"] < SURE) & (rows["rho"] > 0),
    )  # fmt: skip
    row = decisive(tests, "effect", "low", "high", _WEAK)
    source = Source("groups", {"role": row.role, "target": row.target})
    any_role = "what heads find of any role predicts the harm of ablating them"
    if row.p_adjusted != row.p_adjusted and not row.needed:
        return not_tested(
            any_role, f"of {row.of} heads no order is unlikely by chance", source=[source], importance=["answers"]
        )
    target, more = target_in_words(row.target), "worse" if row.effect > 0 else "better"
    return finding(
        claim=f"The more heads find of {row.role}, the {more} is {target} without them",
        whether=any_role,
        absent="What heads find of their roles does not predict the harm of ablating them",
        contrast=f"{row.role}, rank correlation within layers",
        test=Contrast.of(row, "effect"),
        source=source,
        unit=unit_of_target(result, row.target),
        importance=("answers",) if row.effect > 0 else ("answers", "surprises"),
        margin=_WEAK,
    )


def _surface(result: Result, row: Any) -> Finding:
    """Whether heads that attend to neighbours or sinks matter; the contrast is these heads minus the others."""
    called = {SINK: "sinks", PREVIOUS: "heads that attend to the previous token"}.get(
        row.role, "heads that attend to the next token"
    )
    target = target_in_words(row.target)
    source = Source("groups", {"role": row.role, "target": row.target})
    harmful = row.difference * (1 if row.target == LOSS else -1) > 0
    whether = f"{called} matter more or less to {target} than the other heads of their layers"
    if row.p_adjusted != row.p_adjusted and not row.needed:
        heads = f"{row.heads} head{'s' if row.heads > 1 else ''}"
        reason = (
            f"{heads} with the role {'is' if row.heads == 1 else 'are'} too few for a permutation test within layers"
        )
        return not_tested(whether, reason, source=[source], importance=["answers"])
    return finding(
        claim=(
            f"{called[:1].upper()}{called[1:]} ({row.heads} of {row.of} heads) matter "
            f"{'more' if harmful else 'less'} to {target} than the other heads of their layers"
        ),
        whether=whether,
        absent=f"{called[:1].upper()}{called[1:]} matter to {target} as much as the other heads of their layers",
        contrast="without one of them minus without another head of its layer",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=source,
        unit=unit_of_target(result, row.target),
        importance=("beats control",),
        margin=margin_of(row.target),
        digits=3,
    )


def _p(p: float) -> str:
    return "-" if p != p else p_in_words(p)


def _signed(value: float, low: float | None = None, high: float | None = None) -> str:
    return ("+" if value >= 0 else "") + number(value, low, high, digits=3)


def _pairs(suite: Any, data: Any, split: str) -> MinimalPairs | None:
    """The pairs of a suite; `agreement` is derived from the corpus, if it is a treebank given by name or path."""
    if suite is None or isinstance(suite, MinimalPairs):
        return suite
    if str(suite) != AGREEMENT:
        return read_pairs(suite)
    if not isinstance(data, str | Path):
        say("no pairs are scored: agreement needs a treebank given by name or path")
        return None
    try:
        return agreement_pairs(data, split)
    except LaminaError as error:
        say(f"no pairs are scored: {error}")
        return None


def _tables(needed: list[RoleNeed], beside: list[RoleNeed], *, samples: int, seed: int) -> dict[str, pd.DataFrame]:
    tables = {
        "roles": pd.DataFrame(role_rows(needed), columns=list(ROLES)),
        "groups": pd.DataFrame(group_rows(needed, samples=samples, seed=seed), columns=list(GROUPS)),
        "heads": pd.DataFrame(head_rows(needed), columns=list(HEADS)),
    }
    if beside:
        tables["controls"] = pd.DataFrame(role_rows(beside), columns=list(ROLES))
    return tables


def _twin(
    encoder: HuggingFaceEncoder, targets: RoleTargets, head_roles: list[HeadRole], how: Ablation, seed: int
) -> pd.DataFrame:
    """The same heads (by layer and number) of the untrained twin."""
    other = encoder.random_twin(seed)
    needed, _ = measure_needs(Interventions(other), targets.of(other), head_roles, how, seed=seed)
    return pd.DataFrame(role_rows(needed), columns=list(ROLES))


def _splits(material: TargetData) -> Splits:
    if material.splits is None:
        raise CorpusError(
            f"{material.texts.name} has no training texts to assign roles on; name a corpus with a train split"
        )
    return material.splits


def _layer(encoder: HuggingFaceEncoder, layer: int | None) -> int:
    if layer is not None and layer > encoder.blocks:
        raise InputError(f"--layer {layer}: {encoder.name} has layers 1 to {encoder.blocks}")
    return layer or encoder.blocks


def _unasked(head_roles: list[HeadRole], needed: list[RoleNeed]) -> dict[str, int]:
    names = {need.role.name for need in needed}
    many = sum(role.name not in names for role in head_roles)
    return {f"roles with fewer than {LEAST_LINKS} links in the scored texts, or nothing that needs them": many}

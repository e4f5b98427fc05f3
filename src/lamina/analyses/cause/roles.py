"""Heads with a role: does what a head finds break without it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

import pandas as pd

from lamina.analyses.behaviour.pairs import AGREEMENT
from lamina.analyses.behaviour.perturb_targets import some_texts
from lamina.analyses.cause.ablate_parts import How
from lamina.analyses.cause.asking import Material
from lamina.analyses.cause.inputs import AskedQuestions, Items
from lamina.analyses.cause.roles_effects import GROUPS, HEADS, ROLES, Needed, group_rows, head_rows, role_rows
from lamina.analyses.cause.roles_findings import describe, tell_findings
from lamina.analyses.cause.roles_heads import Role, roles_of
from lamina.analyses.cause.roles_inputs import RoleInputs
from lamina.analyses.cause.roles_targets import LEAST_LINKS, Asked, asked_of, measured
from lamina.corpora.learning import Splits, thin
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.interventions import Interventions
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now, time_call
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.framework.watch import refuse_without_maps
from lamina.results import Result
from lamina.results.finding import Finding

_TRIED = 16
"""Rows that are tried to tell how long all of them take."""


@analysis(
    title="Roles of heads and their use",
    question="Does what a head finds break without it?",
    method=(
        "Roles are told by attention on training texts: relations found surely better than by a fixed offset, "
        "coreference, neighbours, sinks. Each head is then taken away on other texts, and what needs its role is "
        "scored: the words that a bilinear probe attaches by the relation (or links to an antecedent), agreement on "
        "minimal pairs, answers that are objects; for neighbours and sinks all attachments, and the loss. Each head "
        "with a role is compared with the heads of its layer without it, paired by document (pairs: by pair); all "
        "heads, roles and targets are tested together (max-T). All other relations are beside it."
    ),
    cites=("Clark et al. 2019", "Voita et al. 2019", "Michel et al. 2019"),
    reads=RoleInputs(),
    version=2,
    tables={
        "roles": Table(
            "One row per head with a role and target that needs it; others: mean effect of the heads of its layer "
            "without the role; difference: effect minus others; p: one-sided, that the head does more harm, all rows "
            "one family; intervals two-sided and simultaneous. worse: surely more harm, beyond the margin.",
            ROLES,
        ),
        "groups": Table(
            "One row per role and target: all heads with the role against the others of their layers, and Spearman's "
            "rho over all heads of what each finds and the harm without it, both within layers. p: two-sided, the "
            "larger of that over documents and that over permutations within layers (of which heads have the role, or "
            "of what each finds); all rows one family; NaN where no permutation of so few heads is unlikely.",
            GROUPS,
        ),
        "heads": Table(
            "One row per head, role and target: what it finds and what breaks without it; intervals are simultaneous "
            "over the heads of a target.",
            HEADS,
        ),
        "controls": Table(
            "As roles, for what does not need the role: attachments of all other relations together.", ROLES,
            optional=True,
        ),
        "twin": Table("As roles, for the same heads of the twin with random weights.", ROLES, optional=True),
    },
    chapter="heads",
    needs=("states", "maps", "ablation"),
    example="lamina roles minilm --corpus ewt --items 300 --out results/roles",
)  # fmt: skip
def roles(
    encoder: HuggingFaceEncoder,
    material: Material,
    *,
    how: Annotated[
        How,
        Setting(
            "What a head hands on instead: its mean over all tokens read, zeros, or what it makes of another text."
        ),
    ] = "mean",
    layer: Annotated[
        int | None, Setting("The layer whose states the probe of links reads; the last by default.", min=1)
    ] = None,
    # Which pairs and questions that means is found when inputs are loaded.
    suite: Annotated[  # noqa: ARG001
        str | None,
        Setting(
            "Minimal pairs that need the subject: a suite or a file; `agreement` is made of the corpus itself, where "
            "it is a treebank with numbers. Use `none` to leave pairs out: of a masked model they take long, since "
            "every piece is hidden in turn.",
            file=True,
        ),
    ] = AGREEMENT,
    questions: AskedQuestions = None,  # noqa: ARG001
    watched: Annotated[int, Setting("Training texts on which roles are told, about, in whole documents.", min=2)] = 500,
    items: Items = 500,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """What breaks without each head that has a role, against the other heads of its layer.

    Roles are told on training texts and effects are measured on the scored ones, so a head is not lucky twice. Heads
    above the layer that the probe of links reads cannot change what it reads, and are left out.

    Example:
        >>> result = lamina.roles("minilm", "ewt", items=100)  # doctest: +SKIP
        >>> result.tables["roles"].columns.tolist()[:5]  # doctest: +SKIP
        ['layer', 'head', 'role', 'finds', 'target']
    """
    refuse_without_maps(encoder)
    parts, read = Interventions(encoder), _layer(encoder, layer)
    splits = _splits(material)
    found, skipped = roles_of(encoder, list(thin(splits.train, watched, seed)), samples=samples, seed=seed)
    if not found:
        raise CorpusError(
            f"no head of {encoder.name} has a role on {watched:,} training texts of {splits.name}; give more texts "
            "(--watched), or another corpus"
        )
    told = Counter({f"roles: {why}": many for why, many in skipped.items()})
    texts = some_texts(splits.scored, items, seed)
    coreference = any(role.kind == "coreference" for role in found)
    asked, left_out = asked_of(
        encoder, material, splits, texts, layer=read, items=items, seed=seed, coreference=coreference
    )
    needed, beside = measured(parts, asked, found, how, seed=seed)
    if not needed:
        raise CorpusError(f"{splits.name}: none of the roles found is needed for anything that can be asked")
    tables = _tables(needed, beside, samples=samples, seed=seed)
    if twin:
        tables["twin"] = _twin(encoder, asked, found, how, seed)
    told.update(left_out)
    told.update(_unasked(found, needed))
    told["rows of heads in layers where every head has the role: no others to compare with"] = int(
        tables["roles"]["others"].isna().sum()
    )
    return Tables(
        tables,
        +told,
        data={"watched": watched, "read_at_layer": read},
        scored={each.without.target: int(each.without.before.counts.sum()) for each in needed},
    )


@roles.finds
def _findings(result: Result) -> Iterable[Finding]:
    """How many heads with a role matter for it more than others, which most, and whether finding foretells use."""
    return tell_findings(result)


@roles.shows
def _overview(result: Result) -> Iterable[Overview]:
    """The heads with a role that matter most for it, and the roles."""
    return describe(result)


@roles.costs
def _cost(
    _: Estimator, encoder: HuggingFaceEncoder, material: Material, *, layer: int | None, watched: int, items: int,
    twin: bool, seed: int, **__: Any,
) -> Cost:  # fmt: skip
    """A few rows are run as they are and without a head of the first and of the last block."""
    refuse_without_maps(encoder)
    parts, splits = Interventions(encoder), _splits(material)
    made: list[Asked] = []
    texts = some_texts(splits.scored, items, seed)
    read = _layer(encoder, layer)
    asking = time_call(
        lambda: made.append(asked_of(encoder, material, splits, texts, layer=read, items=items, seed=seed)[0])
    )
    total = Cost(passes=1, texts=watched, seconds=asking * (1 + twin), memory=memory_now())
    for target in made[0].targets:
        some = [target.rows[at] for at in range(0, len(target.rows), max(1, len(target.rows) // _TRIED))][:_TRIED]
        ends = [parts.without(block, heads=[head]) for block, head in (parts.heads[0], parts.heads[-1])]
        list(parts.run(some[:1], []))
        seconds = time_call(lambda some=some, ends=ends: list(parts.run(some, ends))) / 3
        share = sum(len(row.ids) for row in some) / sum(len(row.ids) for row in target.rows)
        runs = (1 + len(parts.heads)) * (1 + twin)
        total += Cost(
            passes=runs, texts=len(target.items), tokens=sum(len(row.ids) for row in target.rows),
            seconds=runs * seconds / share, memory=memory_now(),
        )  # fmt: skip
    return total


def _tables(needed: list[Needed], beside: list[Needed], *, samples: int, seed: int) -> dict[str, pd.DataFrame]:
    tables = {
        "roles": pd.DataFrame(role_rows(needed), columns=list(ROLES)),
        "groups": pd.DataFrame(group_rows(needed, samples=samples, seed=seed), columns=list(GROUPS)),
        "heads": pd.DataFrame(head_rows(needed), columns=list(HEADS)),
    }
    if beside:
        tables["controls"] = pd.DataFrame(role_rows(beside), columns=list(ROLES))
    return tables


def _twin(encoder: HuggingFaceEncoder, asked: Asked, found: list[Role], how: How, seed: int) -> pd.DataFrame:
    """The same heads, by their places, of a model that has learned nothing."""
    other = encoder.random_twin(seed)
    needed, _ = measured(Interventions(other), asked.of(other), found, how, seed=seed)
    return pd.DataFrame(role_rows(needed), columns=list(ROLES))


def _splits(material: Material) -> Splits:
    if material.splits is None:
        raise CorpusError(f"{material.texts.name} has no training texts to find roles in")
    return material.splits


def _layer(encoder: HuggingFaceEncoder, layer: int | None) -> int:
    if layer is not None and layer > encoder.blocks:
        raise InputError(f"--layer {layer}: {encoder.name} has layers 1 to {encoder.blocks}")
    return layer or encoder.blocks


def _unasked(found: list[Role], needed: list[Needed]) -> dict[str, int]:
    names = {each.role.name for each in needed}
    many = sum(role.name not in names for role in found)
    return {f"roles with fewer than {LEAST_LINKS} links in the scored texts, or nothing that needs them": many}

"""Which heads have a role, by what they attend to, and the targets that should suffer without them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from lamina.analyses.cause.effects import (
    MISSING,
    Ablation,
    Effect,
    ScoreChange,
    effects_of,
    keep,
    margin_of,
    mean_scores,
    measure,
    named_heads,
    plan_ablations,
)
from lamina.analyses.cause.importance import PERMUTED, RankAgreement, agreement_between, can_succeed, corrected
from lamina.analyses.heads.behaviours import COREFERENCE, FIRST, OFTEN, SHARES, behaviours
from lamina.analyses.heads.corefheads import ALL as ALL_MENTIONS
from lamina.analyses.heads.corefheads import KINDS, CorefMeter, anaphors
from lamina.analyses.heads.corefheads import best_table as best_antecedents
from lamina.analyses.heads.heads import ALL, NO_PUNCTUATION, RelationMeter, dependencies, relations_of, relations_table
from lamina.analyses.heads.surface import SurfaceMeter
from lamina.corpora.splits import Splits
from lamina.framework.watch import Meter, watch
from lamina.models import Encoder
from lamina.models.interventions.edited_runs import Edit
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import has_language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.stats.correlations import rank_correlation
from lamina.stats.family import permutation_family
from lamina.stats.status import SURE, status_of
from lamina.stats.units import CHOOSING, SCORED, Units, halve
from lamina.targets.choice import TargetData, targets_of
from lamina.targets.probes import ALL_LINKS, BESIDES, LinksTarget, WordLink
from lamina.targets.target import LOSS, PAIRS, QA, SubsetTarget, Target, TargetScores, link_name
from lamina.types import Text

Kind = Literal["relation", "coreference", "neighbour", "sink"]
PREVIOUS, NEXT, SINK = "previous token", "next token", "sink"
_SINKS = ("separator", FIRST, "punctuation")


@dataclass(frozen=True)
class HeadRole:
    """Something that heads do, and which of them do it."""

    name: str
    """A relation of the treebank, coreference, previous token, next token, or sink."""
    kind: Kind
    finds: Float[np.ndarray, "block head"]
    """Share of the dependents (mentions) whose head word (antecedent) a head finds, or of attention that goes there."""
    has: Bool[np.ndarray, "block head"]
    """Which heads have the role."""

    @property
    def exists(self) -> bool:
        """Whether any head has it."""
        return bool(self.has.any())


def roles_of(
    encoder: Encoder, texts: Sequence[Text], *, samples: int, seed: int
) -> tuple[list[HeadRole], Counter[str]]:
    """The roles that any head has, the commonest relation first; and what was cut or left out.

    A head has a relation where it finds it clearly better than the best fixed offset (`lamina heads`: p < .05,
    all heads, relations and directions together), coreference where it is the best head of a type of mention and
    clearly ahead of every simple rule (`lamina corefheads`), the others by the shares of attention of `lamina headmap`.
    """
    shape, heads = (encoder.blocks, encoder.heads), encoder.blocks * encoder.heads
    surface = SurfaceMeter(encoder, samples=1, seed=seed)
    halves, relation_names = halve(texts, seed), relations_of(texts)
    relations = RelationMeter(heads, relation_names, halves, samples=samples, seed=seed) if relation_names else None
    chains = any({"chains", "coref"} & set(text.edges) for text in texts) and halves.by == "document"
    mentions = CorefMeter(heads, halves, among="words", samples=samples, seed=seed) if chains else None
    meters: list[Meter] = [surface, *(meter for meter in (relations, mentions) if meter is not None)]
    skipped = watch(encoder, texts, meters, total=len(texts))
    roles = [] if relations is None else list(_relations(relations_table(relations, encoder.heads), shape))
    roles += [] if mentions is None else _coreference(mentions, shape)
    return [role for role in [*roles, *_surface(surface.table(), shape)] if role.exists], skipped


def _relations(table: pd.DataFrame, shape: tuple[int, int]) -> Iterator[HeadRole]:
    frequent = table[(table["count"] >= OFTEN) & ~table["relation"].isin([ALL, NO_PUNCTUATION])]
    frequent = frequent[[str(name).partition(":")[0] != "punct" for name in frequent["relation"]]]
    ahead = (frequent["p_adjusted"] < SURE) & (frequent["difference"] > 0)
    for name, rows in frequent.assign(ahead=ahead).groupby("relation", sort=False):
        # The better of both directions.
        finds = _most(rows, "accuracy", shape)
        yield HeadRole(str(name), "relation", finds, _most(rows, "ahead", shape) == 1)


def _coreference(meter: CorefMeter, shape: tuple[int, int]) -> list[HeadRole]:
    if not all(meter.sums(half).counts.any() for half in (CHOOSING, SCORED)):
        return []
    best = best_antecedents(meter, shape[1])
    nothing = pd.DataFrame(columns=["layer", "head", "measure", "value", "baseline"])
    sums, kind = meter.sums(), KINDS.index(ALL_MENTIONS)
    has = np.zeros(shape, bool)
    for layer, head in behaviours(nothing, coref=best)[["layer", "head"]].itertuples(index=False):
        has[int(layer) - 1, int(head) - 1] = True
    return [HeadRole(COREFERENCE, "coreference", (sums.heads[kind] / sums.counts[kind]).reshape(shape), has)]


def _surface(table: pd.DataFrame, shape: tuple[int, int]) -> Iterator[HeadRole]:
    doing = behaviours(table)
    for role, names in ((PREVIOUS, ("previous",)), (NEXT, ("next",)), (SINK, _SINKS)):
        has = np.zeros(shape, bool)
        rows = table[table["measure"].isin([SHARES[name][0] for name in names])]
        having = doing[doing["behaviour"].isin(names)]
        has[having["layer"].to_numpy(int) - 1, having["head"].to_numpy(int) - 1] = True
        yield HeadRole(role, "sink" if role == SINK else "neighbour", _most(rows, "value", shape), has)


def _most(rows: pd.DataFrame, column: str, shape: tuple[int, int]) -> Float[np.ndarray, "block head"]:
    """The largest value of each head; NaN where there is none."""
    most = np.full(shape, np.nan)
    places = (rows["layer"].to_numpy(int) - 1, rows["head"].to_numpy(int) - 1)
    np.fmax.at(most, places, rows[column].to_numpy(float))
    return most


COREFERENCE_LINK = "coreference"


# The effect of ablating a head with a role, compared with the other heads of its layer.

ROLES = (
    "layer", "head", "role", "finds", "target", "effect", "low", "high", "others", "difference", "diff_low",
    "diff_high", "p_adjusted", "units", "needed", "worse",
)  # fmt: skip
HEADS = ("layer", "head", "role", "has_role", "finds", "target", "effect", "low", "high")
GROUPS = (
    "role", "target", "heads", "of", "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "rho",
    "rho_low", "rho_high", "rho_p_adjusted", "rho_units", "rho_needed",
)  # fmt: skip

Place = tuple[int, int]
"""Block and head, from 0."""


class HeadAblations(NamedTuple):
    """The scores of a target by the whole model and without each head."""

    target: str
    lower_is_better: bool
    units: tuple[str, ...]
    before: TargetScores
    after: Mapping[Place, TargetScores]

    @property
    def harm(self) -> int:
        """1 where higher scores are worse, else -1."""
        return 1 if self.lower_is_better else -1

    def change(self, place: Place) -> ScoreChange:
        """The scores without one head, against those of the whole model."""
        return ScoreChange(self.before, self.after[place], self.units)

    def values(self, shape: tuple[int, int]) -> Float[np.ndarray, "block head"]:
        """The effect of every head; NaN where a head cannot be ablated."""
        values = np.full(shape, np.nan)
        for place, after in self.after.items():
            values[place] = after.value - self.before.value
        return values


class RoleNeed(NamedTuple):
    """A role, and a target that needs it (or, as a control, one that does not)."""

    role: HeadRole
    without: HeadAblations


def role_rows(needed: Sequence[RoleNeed]) -> list[tuple[Any, ...]]:
    """One row per head with a role and target: its effect against the mean of the heads of its layer without the role.

    Differences are paired by document; all rows are one family. p is one-sided: more harm than the others.
    """
    cases = [(role, without, place) for role, without in needed for place in _with_role(role, without)]
    others = [_others(*case) for case in cases]
    effects = effects_of([without.change(place) for _, without, place in cases])
    compared = [number for number, beside in enumerate(others) if beside is not None]
    tests = dict.fromkeys(range(len(cases)), MISSING)
    changes, signs = [], []
    for number in compared:
        _, without, place = cases[number]
        beside = others[number]
        if beside is not None:
            changes.append(ScoreChange(beside, without.after[place], without.units))
            signs.append(without.harm)
    tests |= dict(zip(compared, effects_of(changes, harm=signs), strict=True))
    rows = []
    for number, (role, without, place) in enumerate(cases):
        effect, test = effects[number], tests[number]
        status = status_of(test.low, test.high, test.p, needed=test.needed, margin=margin_of(without.target))
        worse = status == "clear" and test.effect * without.harm > 0
        named = place[0] + 1, place[1] + 1, role.name, float(role.finds[place]), without.target
        beside = test.baseline - without.before.value
        rows.append((*named, effect.effect, effect.low, effect.high, beside, *test[2:], worse))
    return rows


def head_rows(needed: Sequence[RoleNeed]) -> Iterator[tuple[Any, ...]]:
    """One row per head, role and target, whether the head has the role or not; all heads of a target are a family."""
    families: dict[str, list[Effect]] = {}
    for role, without in needed:
        places = sorted(without.after)
        if without.target not in families:
            families[without.target] = effects_of([without.change(place) for place in places])
        for place, effect in zip(places, families[without.target], strict=True):
            named = (role.name, bool(role.has[place]), float(role.finds[place]), without.target)
            yield place[0] + 1, place[1] + 1, *named, effect.effect, effect.low, effect.high


def group_rows(needed: Sequence[RoleNeed], *, samples: int, seed: int) -> list[tuple[Any, ...]]:
    """One row per role and target: all heads with the role against the others of their layers, and all heads by rank.

    Both are tested twice, and p is the larger: over documents, with the heads as they are, and over permutations within
    layers of which heads have the role, or of what each head finds; a role is clear where it holds against both. All
    rows are one family.
    """
    rows, changes, observed, permuted, ranked = [], [], [], [], []
    for role, without in needed:
        beside = {place: scores for place in _with_role(role, without) if (scores := _others(role, without, place))}
        orders = _orders(role.has.shape, seed)
        effects = without.values(role.has.shape)
        rows.append((role.name, without.target, len(beside), len(without.after)))
        if beside:
            others, with_role = (
                mean_scores(scores) for scores in (list(beside.values()), [without.after[head] for head in beside])
            )
            changes.append(ScoreChange(others, with_role, without.units))
        has = role.has & np.isfinite(effects)
        observed.append(float(_leads(effects, has)))
        permuted.append(_leads(effects, np.take_along_axis(has[None], orders, -1)))
        ranked.append(_rank_correlation(role, without, orders, samples=samples, seed=seed))
    tests = iter(effects_of(changes))
    by_chance = permutation_family(np.array(observed), np.stack(permuted, 1), alternative="two-sided")
    complete = []
    for row, chance, drawn, rho in zip(rows, by_chance, permuted, corrected(ranked), strict=True):
        test = next(tests) if row[2] else MISSING
        p = float(np.maximum(test.p, chance)) if can_succeed(drawn) else np.nan
        complete.append((*row, *test[2:5], p, test.units, test.needed, *rho[:6]))
    return complete


def within_layers(values: Float[np.ndarray, "*draws block head"]) -> Float[np.ndarray, "*draws place"]:
    """Of every head, how far it is from the mean of its layer.

    Example:
        >>> within_layers(np.array([[1.0, 3.0], [5.0, 5.0]])).tolist()
        [-1.0, 1.0, 0.0, 0.0]
    """
    centred = values - values.mean(-1, keepdims=True)
    return centred.reshape(*values.shape[:-2], -1)


def _orders(shape: tuple[int, int], seed: int) -> Int[np.ndarray, "sample block head"]:
    """Permutations of the heads of each layer; the same for all roles."""
    rng = np.random.default_rng(seed)
    return rng.permuted(np.broadcast_to(np.arange(shape[1]), (PERMUTED, *shape)).copy(), axis=-1)


def _leads(effects: Float[np.ndarray, "block head"], has: Bool[np.ndarray, "*draws block head"]) -> np.ndarray:
    """The sum over heads with a role of the difference of each from the mean of the others of its layer."""
    complete = np.isfinite(effects).all(-1)
    values, chosen = effects[complete], has[..., complete, :]
    many, total = chosen.sum(-1), values.sum(-1)
    rest = values.shape[-1] - many
    with_role = (values * chosen).sum(-1)
    lead = with_role - many * (total - with_role) / np.maximum(rest, 1)
    return np.where((many > 0) & (rest > 0), lead, 0).sum(-1)


def _rank_correlation(
    role: HeadRole, without: HeadAblations, orders: np.ndarray, *, samples: int, seed: int
) -> RankAgreement:
    """Spearman's correlation of what heads find and the harm of ablating them, both within layers."""
    blocks = sorted({block for block, _ in without.after})
    finds = role.finds[blocks]
    heads = [(block, head) for block in blocks for head in range(finds.shape[1])]
    if not np.isfinite(finds).all() or any(place not in without.after for place in heads):
        return RankAgreement(np.nan, np.full(samples, np.nan), np.full(PERMUTED, np.nan), 0, np.nan, len(heads))
    units = Units.of(without.units, "item")
    hits = np.stack([units.sums(without.after[place].hits - without.before.hits) for place in heads])
    counts = units.sums(without.before.counts)

    def harms(weights: Float[np.ndarray, "draw unit"]) -> Float[np.ndarray, "draw place"]:
        effects = without.harm * (weights @ hits.T) / np.maximum(weights @ counts, 1e-9)[:, None]
        return within_layers(effects.reshape(-1, *finds.shape))

    centred, whole = within_layers(finds), harms(np.ones((1, len(units))))[0]
    drawn = harms(units.weights(samples=samples, seed=seed).astype(float))
    shuffled = np.take_along_axis(centred.reshape(finds.shape)[None], orders[:, blocks], -1).reshape(len(orders), -1)
    return agreement_between(
        float(rank_correlation(centred, whole)),
        rank_correlation(np.broadcast_to(centred, drawn.shape), drawn),
        rank_correlation(shuffled, np.broadcast_to(whole, shuffled.shape)),
        units=len(units),
        heads=len(heads),
    )


def _with_role(role: HeadRole, without: HeadAblations) -> list[Place]:
    return [place for place in sorted(without.after) if role.has[place]]


def _others(role: HeadRole, without: HeadAblations, place: Place) -> TargetScores | None:
    """The mean over the heads of the same layer without the role; None where there are none."""
    same = [other for other in without.after if other[0] == place[0] and not role.has[other]]
    return mean_scores([without.after[other] for other in same]) if same else None


QA_OBJECTS = "qa:objects"
"""Questions whose answer is the object of a verb."""
SUBJECTS, OBJECTS = frozenset({"nsubj", "nsubjpass", "csubj"}), frozenset({"obj", "dobj"})
"""Relations by their first part: of the noun that a verb agrees with, and of the object."""
_ASKS_FOR_OBJECT = re.compile(r"^\W*(what|who|whom|which\s+\w+)\s+(did|do|does)\b", re.IGNORECASE)
"""With do-support, what is asked for is not the subject; without a preposition it is the object."""
LEAST_LINKS = 20
"""Minimum number of links of a relation for its share to be measured."""


class RoleTargets(NamedTuple):
    """The targets of a model, before any role is known."""

    attachment: LinksTarget | None
    coreference: LinksTarget | None
    others: tuple[Target, ...]
    """Loss, agreement, answers: those that the model allows."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """All of them."""
        return (*(target for target in (self.attachment, self.coreference) if target is not None), *self.others)

    def of(self, encoder: HuggingFaceEncoder) -> RoleTargets:
        """The same targets of the twin."""
        both = [None if target is None else target.of(encoder) for target in (self.attachment, self.coreference)]
        return RoleTargets(both[0], both[1], tuple(_renamed(target.of(encoder), target.name) for target in self.others))


def asks_for_object(question: str) -> bool:
    """Whether an English question asks for the object of its verb.

    Example:
        >>> [asks_for_object(text) for text in ("What did Mary drop?", "Who dropped it?", "Where did Mary go?")]
        [True, False, False]
        >>> asks_for_object("What did Mary talk about?")
        False
    """
    ends = question.rstrip(" ?.!").rpartition(" ")[2].lower()
    return bool(_ASKS_FOR_OBJECT.match(question)) and ends not in _PREPOSITIONS


_PREPOSITIONS = frozenset(
    {"about", "after", "against", "at", "before", "by", "for", "from", "in", "into", "like", "of", "off", "on", "over",
     "to", "under", "with"}
)  # fmt: skip


def role_targets(
    encoder: HuggingFaceEncoder, material: TargetData, splits: Splits, texts: Sequence[Text], *, layer: int,
    items: int, seed: int, coreference: bool = True,
) -> tuple[RoleTargets, Counter[str]]:  # fmt: skip
    """The targets that model and data allow; and counts of what was left out, with the reason."""
    skipped: Counter[str] = Counter()
    links: list[LinksTarget | None] = []
    for links_of in (attachments, antecedents):
        there = sum(bool(links_of(text)) for text in texts)
        if there and links_of is antecedents and not coreference:
            skipped["texts with coreference that are not scored: no head has that role"] = there
            there = 0
        links.append(LinksTarget(encoder, links_of, layer, texts, splits, seed=seed) if there else None)
    names = [LOSS, *([PAIRS] if material.pairs is not None else [])] if has_language_model(encoder) else []
    others = targets_of(encoder, names, material, items=items, seed=seed)
    if material.questions is not None:
        (answers,) = targets_of(encoder, [QA], material, items=items, seed=seed)
        wanted = {question.text.id for question in material.questions.questions() if asks_for_object(question.question)}
        chosen = [number for number, name in enumerate(answers.items) if name in wanted]
        if len(chosen) >= LEAST_LINKS:
            others.append(_renamed(SubsetTarget(answers, chosen), QA_OBJECTS))
        else:
            skipped["questions that ask for an object: too few to be scored"] = len(chosen)
    all_targets = RoleTargets(links[0], links[1], tuple(others))
    for target in all_targets.targets:
        skipped.update({f"{target.name}: {why}": many for why, many in target.skipped.items()})
    return all_targets, skipped


def measure_needs(
    parts: Interventions, targets: RoleTargets, roles: Sequence[HeadRole], how: Ablation, *, seed: int
) -> tuple[list[RoleNeed], list[RoleNeed]]:
    """Every role with the targets that need it; and, as controls, with targets that do not."""
    needed: list[RoleNeed] = []
    beside: list[RoleNeed] = []
    for links, kind in ((targets.attachment, "relation"), (targets.coreference, "coreference")):
        if links is None:
            continue
        edits = _edits(parts, links, how, seed)
        before, *after = keep(parts, links, list(edits.values()), seed=seed, what=_progress_text(parts, links))
        values = (before, dict(zip(edits, after, strict=True)))
        wanted = [role for role in roles if role.kind == kind and links.counts.get(role.name, 0) >= LEAST_LINKS]
        needed += [RoleNeed(role, _of_links(links, values, role.name)) for role in wanted]
        if kind == "relation":
            beside += [RoleNeed(role, _of_links(links, values, BESIDES + role.name)) for role in wanted]
            everything = _of_links(links, values, ALL_LINKS)
            needed += [RoleNeed(role, everything) for role in roles if role.kind in ("neighbour", "sink")]
    for target in targets.others:
        needing = [role for role in roles if _needs(role, target.name)]
        if needing:
            without = _measure(parts, target, how, seed)
            needed += [RoleNeed(role, without) for role in needing]
    order = {role.name: number for number, role in enumerate(roles)}
    return sorted(needed, key=lambda need: order[need.role.name]), beside


def _needs(role: HeadRole, target: str) -> bool:
    """Whether a target that is not links needs a role."""
    relation = role.name.partition(":")[0] if role.kind == "relation" else ""
    if target == PAIRS:
        return relation in SUBJECTS
    if target == QA_OBJECTS:
        return relation in OBJECTS
    return role.kind in ("neighbour", "sink")


def _measure(parts: Interventions, target: Target, how: Ablation, seed: int) -> HeadAblations:
    edits = _edits(parts, target, how, seed)
    before, *after = measure(parts, target, list(edits.values()), seed=seed, what=_progress_text(parts, target))
    return HeadAblations(
        target.name, target.lower_is_better, target.units, before, dict(zip(edits, after, strict=True))
    )


def _of_links(links: LinksTarget, read: tuple, relation: str) -> HeadAblations:
    before, after = read
    return HeadAblations(
        link_name(relation, links.layers[0]), links.lower_is_better, links.units,
        links.scores(before, relation), {place: links.scores(values, relation) for place, values in after.items()},
    )  # fmt: skip


def _edits(parts: Interventions, target: Target, how: Ablation, seed: int) -> dict[Place, Edit]:
    """The ablation of every head, as in `ablate`; heads above the layers that the target reads are left out."""
    heads = [(block, head) for block, head in named_heads(parts, None) if block < max(target.layers)]
    means = parts.means(target.rows) if how == "mean" else {}
    plan = plan_ablations(parts, components=["head"], hows=[how], heads=heads, means=means, seed=seed)
    return {(part.block, part.head): part.edits[0] for part in plan if part.head is not None}


def _progress_text(parts: Interventions, target: Target) -> str:
    return f"{target.name} of {parts.encoder.name} without each head"


def _renamed(target: Target, name: str) -> Target:
    target.name = name
    return target


def attachments(text: Text) -> list[WordLink]:
    """Every dependent and its head; the root, which has none, and punctuation are left out.

    Example:
        >>> from lamina.types import Edge, Span
        >>> edges = (Edge(("root",), Span(1, 2), Span(1, 2)), Edge(("nsubj",), Span(0, 1), Span(1, 2)))
        >>> attachments(Text("t", ("Dogs", "bark"), edges={"dep": edges}))
        [WordLink(word=0, right=frozenset({1}), relation='nsubj')]
    """
    links = []
    for edge in dependencies(text):
        one_each = edge.other is not None and len(edge.span) == len(edge.other) == 1
        if edge.other is not None and one_each and edge.labels[0].partition(":")[0] != "punct":
            links.append(WordLink(edge.span.start, frozenset({edge.other.start}), edge.labels[0]))
    return links


def antecedents(text: Text) -> list[WordLink]:
    """The head word of every mention with an antecedent, and the head words of its antecedents."""
    return [
        WordLink(anaphor.mention.head, anaphor.antecedents - {anaphor.mention.head}, COREFERENCE_LINK)
        for anaphor in anaphors(text)
        if anaphor.antecedents - {anaphor.mention.head}
    ]

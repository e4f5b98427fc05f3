"""Targets that need a role: what should break without the heads that have it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from lamina.analyses.cause.ablate_parts import Ablation, named_heads, plan_ablations
from lamina.analyses.cause.answers import QA
from lamina.analyses.cause.asking import TargetData, targets_of
from lamina.analyses.cause.effects import keep, measure
from lamina.analyses.cause.judgements import PAIRS
from lamina.analyses.cause.linked import ALL_LINKS, BESIDES, LinksTarget, antecedents, attachments, link_name
from lamina.analyses.cause.loss import LOSS
from lamina.analyses.cause.roles_effects import HeadAblations, Place, RoleNeed
from lamina.analyses.cause.roles_heads import HeadRole
from lamina.analyses.cause.some_items import SubsetTarget
from lamina.analyses.cause.targets import Target
from lamina.corpora.learning import Splits
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.interventions import Edit, Interventions
from lamina.encoders.language_model import has_language_model
from lamina.types import Text

QA_OBJECTS = "qa:objects"
"""Questions whose answer is the object of a verb."""
SUBJECTS, OBJECTS = frozenset({"nsubj", "nsubjpass", "csubj"}), frozenset({"obj", "dobj"})
"""Relations by their first part: of the noun that a verb agrees with, and of the object."""
_ASKS_FOR_OBJECT = re.compile(r"^\W*(what|who|whom|which\s+\w+)\s+(did|do|does)\b", re.IGNORECASE)
"""With do-support, what is asked for is not the subject; without a preposition it is the object."""
LEAST_LINKS = 20
"""Links of a relation from which on its share is measured."""


class RoleTargets(NamedTuple):
    """What a model is asked for, before any role is known."""

    attachment: LinksTarget | None
    coreference: LinksTarget | None
    others: tuple[Target, ...]
    """Loss, agreement, answers: as far as the model gives them."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """All of them."""
        return (*(each for each in (self.attachment, self.coreference) if each is not None), *self.others)

    def of(self, encoder: HuggingFaceEncoder) -> RoleTargets:
        """The same asked of the twin."""
        both = [None if each is None else each.of(encoder) for each in (self.attachment, self.coreference)]
        return RoleTargets(both[0], both[1], tuple(_renamed(each.of(encoder), each.name) for each in self.others))


def asks_for_object(question: str) -> bool:
    """Whether an English question asks for the object of its verb.

    Example:
        >>> [asks_for_object(each) for each in ("What did Mary drop?", "Who dropped it?", "Where did Mary go?")]
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
    """What model and data can be asked for; and what could not be, or has no head that it could need."""
    skipped: Counter[str] = Counter()
    links: list[LinksTarget | None] = []
    for links_of in (attachments, antecedents):
        there = sum(bool(links_of(text)) for text in texts)
        if there and links_of is antecedents and not coreference:
            skipped["texts with coreference that are not asked about: no head has that role"] = there
            there = 0
        links.append(LinksTarget(encoder, links_of, layer, texts, splits, seed=seed) if there else None)
    names = [LOSS, *([PAIRS] if material.pairs is not None else [])] if has_language_model(encoder) else []
    others = targets_of(encoder, names, material, items=items, seed=seed)
    if material.questions is not None:
        (answers,) = targets_of(encoder, [QA], material, items=items, seed=seed)
        wanted = {each.text.id for each in material.questions.questions() if asks_for_object(each.question)}
        chosen = [at for at, name in enumerate(answers.items) if name in wanted]
        if len(chosen) >= LEAST_LINKS:
            others.append(_renamed(SubsetTarget(answers, chosen), QA_OBJECTS))
        else:
            skipped["questions that ask for an object: too few to be asked"] = len(chosen)
    asked = RoleTargets(links[0], links[1], tuple(others))
    for target in asked.targets:
        skipped.update({f"{target.name}: {why}": many for why, many in target.skipped.items()})
    return asked, skipped


def measure_needs(
    parts: Interventions, asked: RoleTargets, roles: Sequence[HeadRole], how: Ablation, *, seed: int
) -> tuple[list[RoleNeed], list[RoleNeed]]:
    """Every role with the targets that need it; and with those beside them that do not."""
    needed: list[RoleNeed] = []
    beside: list[RoleNeed] = []
    for links, kind in ((asked.attachment, "relation"), (asked.coreference, "coreference")):
        if links is None:
            continue
        edits = _edits(parts, links, how, seed)
        before, *after = keep(parts, links, list(edits.values()), seed=seed, what=_progress_text(parts, links))
        kept = (before, dict(zip(edits, after, strict=True)))
        wanted = [role for role in roles if role.kind == kind and links.counts.get(role.name, 0) >= LEAST_LINKS]
        needed += [RoleNeed(role, _of_links(links, kept, role.name)) for role in wanted]
        if kind == "relation":
            beside += [RoleNeed(role, _of_links(links, kept, BESIDES + role.name)) for role in wanted]
            everything = _of_links(links, kept, ALL_LINKS)
            needed += [RoleNeed(role, everything) for role in roles if role.kind in ("neighbour", "sink")]
    for target in asked.others:
        own = [role for role in roles if _needs(role, target.name)]
        if own:
            without = _measure(parts, target, how, seed)
            needed += [RoleNeed(role, without) for role in own]
    order = {role.name: at for at, role in enumerate(roles)}
    return sorted(needed, key=lambda each: order[each.role.name]), beside


def _needs(role: HeadRole, target: str) -> bool:
    """Whether a role is needed for what a model is asked for besides links."""
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


def _of_links(links: LinksTarget, kept: tuple, relation: str) -> HeadAblations:
    before, after = kept
    return HeadAblations(
        link_name(relation, links.layers[0]), links.lower_is_better, links.units,
        links.scores(before, relation), {place: links.scores(each, relation) for place, each in after.items()},
    )  # fmt: skip


def _edits(parts: Interventions, target: Target, how: Ablation, seed: int) -> dict[Place, Edit]:
    """Every head taken away, as `ablate` does it; those above the layers that are looked at change nothing."""
    heads = [(block, head) for block, head in named_heads(parts, None) if block < max(target.layers)]
    means = parts.means(target.rows) if how == "mean" else {}
    plan = plan_ablations(parts, components=["head"], hows=[how], heads=heads, means=means, seed=seed)
    return {(part.block, part.head): part.edits[0] for part in plan if part.head is not None}


def _progress_text(parts: Interventions, target: Target) -> str:
    return f"{target.name} of {parts.encoder.name} without each head"


def _renamed(target: Target, name: str) -> Target:
    target.name = name
    return target

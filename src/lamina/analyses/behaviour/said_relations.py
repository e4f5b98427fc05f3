"""Facts as sentences whose object is hidden: what is asked is the kind of object that the relation takes.

Many relations take the same objects (country, citizenship, country of origin: countries), and no word could tell them
apart. Relations whose objects overlap are therefore one class.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from lamina.analyses.behaviour.said_tasks import RELATION, Marked
from lamina.analyses.behaviour.said_words import Data, Item, Items
from lamina.corpora.pararel import Fact, Pattern, Relation, Relations
from lamina.encoders.passages import Passage

OVERLAP = 0.2
"""Relations whose objects overlap by this share, in the mean over a class, are in one class."""
SCORED, SELECT = 1 / 3, 1 / 6
"""Shares of a relation's patterns that are scored, and that select; the probe learns from the others."""
_OBJECT = 1
"""The part of a sentence that is the object."""


def relation_data(relations: Relations, *, causal: bool, seed: int) -> tuple[Data, Counter[str]]:
    """Sentences to learn from, to select by and to score, none with a pattern of another part; and what is left out.

    Each fact is one sentence. Scored sentences share no subject with others either. The unit that varies, and is never
    split, is the pattern.
    """
    kinds = object_kinds(relations.relations)
    learn, select, scored = [], [], []
    skipped: Counter[str] = Counter()
    for relation in relations.relations:
        patterns = [pattern for pattern in relation.patterns if not causal or "[X]" in pattern.before]
        skipped["relation: patterns whose subject comes after the object"] += len(relation.patterns) - len(patterns)
        patterns.sort(key=lambda pattern: _drawn(seed, relation.id, pattern.text))
        first = round(len(patterns) * SCORED)
        second = first + round(len(patterns) * SELECT)
        skipped["relation: relations with too few patterns to be scored"] += not first
        known, others = (_half(relation, which, seed) for which in (0, 1))
        scored += _sentences(relation, others, patterns[:first], kinds[relation.id], seed)
        select += _sentences(relation, known[::4], patterns[first:second], kinds[relation.id], seed)
        learn += _sentences(relation, known, patterns[second:], kinds[relation.id], seed)
    return Data(Items(learn), Items(select), Items(scored), (RELATION,)), skipped


def _sentences(
    relation: Relation, facts: Sequence[Fact], patterns: Sequence[Pattern], kind: str, seed: int
) -> Iterator[Item]:
    for fact in facts:
        fitting = [pattern for pattern in patterns if pattern.fits(fact.object)]
        if fitting:
            pattern = min(fitting, key=lambda candidate: _drawn(seed, fact.id, candidate.text))
            before, after = pattern.of(fact.subject)
            id = f"{relation.id}/{fact.id}"
            passage = Passage.regions(id, [before, fact.object, after])
            marks = {RELATION: {_OBJECT: Marked(kind)}}
            yield Item(passage, f"{relation.id}/{pattern.text}", marks, (_OBJECT,), one_piece=True)


def _half(relation: Relation, which: int, seed: int) -> list[Fact]:
    return [fact for fact in relation.facts if _drawn(seed, fact.subject)[0] % 2 == which]


def _drawn(seed: int, *parts: str) -> bytes:
    return hashlib.blake2b("\t".join((str(seed), *parts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def object_kinds(relations: Sequence[Relation]) -> dict[str, str]:
    """Relation -> its class: relations that share objects are one cluster (average linkage), called by its middle one.

    Example:
        >>> facts = {"born": ("Rome", "Oslo"), "died": ("Rome", "Oslo"), "plays": ("piano", "drums")}
        >>> made = [Relation(n, n, tuple(Fact(str(i), o) for i, o in enumerate(two)), ()) for n, two in facts.items()]
        >>> object_kinds(made)
        {'born': 'born and 1 more', 'died': 'born and 1 more', 'plays': 'plays'}
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    alike = overlaps(relations)
    if len(relations) < 2:
        return {relation.id: relation.name for relation in relations}
    apart = 1 - alike[np.triu_indices(len(relations), 1)]
    cluster = fcluster(linkage(apart, "average"), 1 - OVERLAP, "distance")
    kinds = {}
    for number in dict.fromkeys(cluster.tolist()):
        members = np.flatnonzero(cluster == number).tolist()
        middle = relations[members[int(alike[np.ix_(members, members)].sum(1).argmax())]].name
        named = middle if len(members) == 1 else f"{middle} and {len(members) - 1} more"
        kinds |= {relations[number].id: named for number in members}
    return {relation.id: kinds[relation.id] for relation in relations}


def overlaps(relations: Sequence[Relation]) -> np.ndarray:
    """[relation, relation] The share of facts whose objects two relations have in common."""
    objects = {name: number for number, name in enumerate(sorted({name for one in relations for name in one.objects}))}
    shares = np.zeros((len(relations), len(objects)))
    for number, relation in enumerate(relations):
        for name, count in relation.objects.items():
            shares[number, objects[name]] = count / max(1, len(relation.facts))
    return np.stack([np.minimum(shares, one).sum(1) for one in shares])

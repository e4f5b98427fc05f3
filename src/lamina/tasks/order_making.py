"""Balanced, seeded targets of the order tasks, as texts that a probe learns from and is scored on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from typing import NamedTuple

from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.corpora.splits import Splits
from lamina.errors import TaskError
from lamina.tasks.order_rules import (
    BY_NAME,
    ORDER_TASKS,
    Clauses,
    OrderCandidate,
    OrderTask,
    Rule,
    WordCounts,
    chance,
    fit_odd,
)
from lamina.tasks.task import Task
from lamina.types import Edge, Text

LEAST = 20
"""Targets in training and in scored texts, below which a task is not made."""
_SCORED_FORMS = 1 / 2
"""Share of the words that only scored texts may have, of tasks where a word could be remembered. Training texts are the
larger part of a treebank, and have enough left."""
_VERSION = 1
"""Of the rules: part of the fingerprint of what they make."""


class OrderCounts(NamedTuple):
    """What was made of one task in training or scored texts."""

    targets: int
    classes: Mapping[str, int]
    """Label -> targets."""
    left_out: Mapping[str, int]
    """Why sentences or candidates were left out -> how many."""


class OrderTargets(NamedTuple):
    """The tasks that could be made of a treebank."""

    splits: Splits
    """Only texts with targets, each with the targets of every task that asks about it."""
    tasks: tuple[Task, ...]
    parts: Mapping[str, tuple[OrderCounts, OrderCounts]]
    """Task -> training, scored."""
    refused: Mapping[str, str]
    """Task -> why it could not be made."""


_Chosen = list[tuple[Clauses, OrderCandidate]]


def order_task(name: str) -> OrderTask:
    """The task of this name.

    Example:
        >>> order_task("subject").kind
        'structure'
    """
    if name not in BY_NAME:
        close = get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
        meant = f"did you mean {close[0]}? " if close else ""
        raise TaskError(f"unknown task {name!r}; {meant}known tasks: {', '.join(BY_NAME)}")
    return BY_NAME[name]


def make_order_tasks(
    splits: Splits,
    names: Sequence[str] | None,
    *,
    items: int,
    seed: int,
    faithful: bool = False,
    counted: Corpus | None = None,
) -> OrderTargets:
    """Make the tasks of these names, or all that the treebank allows: at most `items` targets of each, in each set.

    Every class has as many targets as every other. Sentences are drawn in hash order, the same for all tasks, so that
    tasks share sentences where they can. A task asked for by name that cannot be made is an error. `counted` are texts
    whose frequencies odd man out goes by; the training texts where none are given.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> texts = [Text(f"{n}", tuple(f"w{(n + at) % 40}" for at in range(12))) for n in range(90)]
        >>> pair = Splits(corpus_from(texts[:60], name="own"), corpus_from(texts[60:], name="own"))
        >>> made = make_order_tasks(pair, ["index"], items=100, seed=0)
        >>> made.parts["index"][0].targets, len(made.parts["index"][0].classes)
        (100, 10)
    """
    requested = [order_task(name) for name in dict.fromkeys(names)] if names is not None else _unnamed()
    annotations = {*splits.train.annotations} & {*splits.scored.annotations}
    trees = [[Clauses.of(text) for text in corpus] for corpus in (splits.train, splits.scored)]
    chosen: dict[str, tuple[_Chosen, _Chosen]] = {}
    parts: dict[str, tuple[OrderCounts, OrderCounts]] = {}
    not_made: dict[str, str] = {}
    for task in requested:
        why = _lacks(task, annotations)
        if not why:
            rule = task.faithful if faithful and task.faithful else _fitted(task, trees[0], counted)
            both = [_targets_of(task, rule, texts, items, seed, scored=bool(n)) for n, texts in enumerate(trees)]
            why = _too_few([part for _, part in both])
            chosen[task.name], parts[task.name] = (both[0][0], both[1][0]), (both[0][1], both[1][1])
        if why:
            not_made[task.name] = why
    possible = [task for task in requested if task.name not in not_made]
    if not possible or (names is not None and not_made):
        raise TaskError(_refusal(_named(splits.train), not_made, every=not possible))
    settings = ([task.name for task in possible], items, seed, faithful, _VERSION)
    settings += () if counted is None else (counted.fingerprint,)
    corpora = (
        _corpus(corpus, {task.name: chosen[task.name][number] for task in possible}, settings)
        for number, corpus in enumerate((splits.train, splits.scored))
    )
    return OrderTargets(Splits(*corpora), tuple(map(_as_task, possible)), parts, not_made)


def _unnamed() -> list[OrderTask]:
    return [task for task in ORDER_TASKS if not task.named]


def _fitted(task: OrderTask, trees: Sequence[Clauses], counted: Corpus | None) -> Rule:
    return fit_odd(trees, WordCounts.of(counted)) if task.fit is fit_odd and counted else task.fit(trees)


def _lacks(task: OrderTask, annotations: set[str]) -> str:
    called = {"dep": "heads (annotation dep)", "const": "constituents (annotation const)", "pos": "parts of speech"}
    missing = [called[need] for need in task.needs if need not in annotations]
    return f"it has no {' and no '.join(missing)}" if missing else ""


def _too_few(parts: Sequence[OrderCounts]) -> str:
    for name, part in zip(("training", "scored"), parts, strict=True):
        if part.targets and len(part.classes) < 2:
            return f"all {name} targets have one label, {next(iter(part.classes))}"
        if part.targets < LEAST:
            reasons = ", ".join(f"{why} ({count:,})" for why, count in Counter(part.left_out).most_common(2))
            return f"only {part.targets:,} balanced {name} targets, {LEAST} are needed" + (
                f"; left out: {reasons}" if reasons else ""
            )
    return ""


def _named(corpus: Corpus) -> str:
    """The corpus, and how many of its texts are taken, where that is not all."""
    if corpus.limit is not None:
        return f"{corpus.name} (with --limit {corpus.limit:,})"
    return corpus.name if corpus.first is None else f"{corpus.name} (with --first {corpus.first:,})"


def _refusal(corpus: str, not_made: Mapping[str, str], *, every: bool) -> str:
    if len(not_made) == 1 or not every:
        name, why = next(iter(not_made.items()))
        return f"{name} cannot be made from {corpus}: {why}; leave it out or name a treebank such as ewt"
    reasons = "; ".join(f"{name}: {why}" for name, why in not_made.items())
    return f"no task can be made from {corpus}; name a treebank such as ewt ({reasons})"


def _targets_of(
    task: OrderTask, rule: Rule, trees: Iterable[Clauses], items: int, seed: int, *, scored: bool
) -> tuple[_Chosen, OrderCounts]:
    candidates: _Chosen = []
    left_out: Counter[str] = Counter()
    for tree in trees:
        drawn = rule(tree, seed)
        if isinstance(drawn, str):
            left_out[drawn] += 1
            continue
        for candidate in drawn:
            if candidate.form and (chance(seed, "form", candidate.form) / 2**64 < _SCORED_FORMS) != scored:
                left_out[f"{task.lexical} is one of the other set's"] += 1
            else:
                candidates.append((tree, candidate))
    chosen = _balanced(candidates, items, seed)
    if len(chosen) < len(candidates):
        left_out["not drawn, for balance or by the limit"] += len(candidates) - len(chosen)
    classes = Counter(label for _, candidate in chosen for label, _ in candidate.targets)
    return chosen, OrderCounts(classes.total(), dict(sorted(classes.items())), dict(left_out))


def _balanced(candidates: _Chosen, items: int, seed: int) -> _Chosen:
    """Equally many of every stratum within every group, in hash order of the sentences; at most `items` targets."""
    strata = sorted({candidate.stratum for _, candidate in candidates})
    groups: dict[str, dict[str, _Chosen]] = defaultdict(lambda: {name: [] for name in strata})
    for tree, candidate in sorted(candidates, key=lambda one: chance(seed, one[0].text.id)):
        groups[candidate.group][candidate.stratum].append((tree, candidate))
    # A row has one of every stratum.
    rows = [row for group in groups.values() for row in zip(*group.values(), strict=False)]
    rows.sort(key=lambda row: chance(seed, *(tree.text.id for tree, _ in row)) if len(groups) > 1 else 0)
    chosen: _Chosen = []
    targets = 0
    for row in rows:
        more = sum(len(candidate.targets) for _, candidate in row)
        if targets + more > items:
            break
        chosen += row
        targets += more
    return chosen


def _corpus(corpus: Corpus, chosen: Mapping[str, _Chosen], settings: tuple[object, ...]) -> Corpus:
    """The texts with targets, in the order of the corpus; a changed sentence comes after its original."""
    edges: dict[str, dict[str, list[Edge]]] = defaultdict(lambda: defaultdict(list))
    changed: dict[str, list[Text]] = defaultdict(list)
    for task, drawn in chosen.items():
        for tree, candidate in drawn:
            text = candidate.text or tree.text
            if candidate.text is not None:
                changed[tree.text.id].append(candidate.text)
            edges[text.id][task] += [Edge((label,), span) for label, span in candidate.targets]
    texts = (
        replace(text, edges={task: tuple(targets) for task, targets in edges[text.id].items()})
        for original in corpus
        for text in chain([original], changed.get(original.id, ()))
        if text.id in edges
    )
    kept_texts = tuple(texts)
    return replace(
        corpus,
        source=lambda: iter(kept_texts),
        fingerprint=fingerprint_of("order", corpus.fingerprint, *settings),
        declared=tuple(chosen),
    )


def _as_task(task: OrderTask) -> Task:
    return Task(task.name, task.title, task.name, 1, what=task.what)

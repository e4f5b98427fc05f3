"""Minimal pairs and clozes through the lens: at which layer does a model prefer the right one?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lamina.analyses.behaviour.lens.readings import Lens, LensReadings, LensRow, intervals_of, read_layers, wanted_of
from lamina.corpora.corpus import sample_of_each
from lamina.corpora.suites.cloze import Clozes, read_cloze
from lamina.corpora.suites.lm_diagnostics import Completion, Diagnostics, Negation, RolePair
from lamina.corpora.suites.minimal_pairs import MinimalPair, read_pairs
from lamina.corpora.suites.pararel import Relations
from lamina.errors import InputError
from lamina.models.language.language_model import TokenQueries, WrittenPassage, cut_passages, query_every_token
from lamina.models.language.slots import Gap
from lamina.models.running.batching import InputRow
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.units import weights_of

if TYPE_CHECKING:
    from lamina.models.language.language_model import LanguageModel
    from lamina.probes.translators import Translators

ALL = "all"
"""In place of a paradigm or part: the mean over them."""
SUITE_TEST = ("difference", "diff_low", "diff_high", "p_adjusted", "units", "needed")
"""Columns of a test against chance, or against the first layer."""
_ANSWER = 1
"""The part of a filled slot that is the answer."""


class LensCloze(NamedTuple):
    """A text with a slot, and the answer that belongs into it."""

    item: str
    part: str
    slot: Gap
    answer: str


@dataclass(frozen=True)
class LensSuite:
    """The items of a suite that are read: pairs, or clozes."""

    name: str
    fingerprint: str
    pairs: tuple[MinimalPair, ...] = ()
    clozes: tuple[LensCloze, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return 2 * len(self.pairs) + len(self.clozes)

    def describe(self) -> dict[str, Any]:
        """Its entry in provenance."""
        return {"name": self.name, "fingerprint": self.fingerprint, "items": len(self.pairs) + len(self.clozes)}


def read_lens_suite(name: str, items: int, seed: int) -> LensSuite:
    """A suite of minimal pairs or of clozes: `items` of every paradigm or part, drawn at random."""
    try:
        pairs = read_pairs(name, skip_equal=True).sample(items, seed)
    except InputError as no_pairs:
        try:
            other = read_cloze(name)
        except InputError as no_clozes:
            raise InputError(
                f"--suite {name} is neither a suite of minimal pairs ({no_pairs}) nor one of clozes ({no_clozes})"
            ) from None
        every = list(_clozes_of(other))
        drawn = sample_of_each(every, items, lambda cloze: cloze.part, lambda cloze: cloze.item, seed)
        clozes = tuple(every[number] for number in drawn)
        left_out = dict(other.left_out)
        if len(clozes) < len(every):
            left_out[f"clozes not drawn: {items:,} of a part were"] = len(every) - len(clozes)
        return LensSuite(other.name, other.fingerprint, clozes=clozes, left_out=left_out)
    return LensSuite(pairs.name, pairs.fingerprint, pairs.pairs, left_out=pairs.left_out)


def _clozes_of(suite: Clozes | Diagnostics | Relations) -> Iterator[LensCloze]:
    """The slots of a suite with one answer each; of a relation, by its first pattern that ends with the object."""
    if isinstance(suite, Clozes):
        for item in suite.items:
            yield LensCloze(item.item, item.part, Gap(item.item, item.before, item.after), item.answers[0])
    elif isinstance(suite, Diagnostics):
        for part, items in suite.parts.items():
            for item in items:
                yield from _diagnostic(part, item)
    else:
        yield from _facts(suite)


def _diagnostic(part: str, item: Completion | RolePair | Negation) -> Iterator[LensCloze]:
    def cloze(condition: str, context: str, answer: str) -> LensCloze:
        name = f"{part} {condition}".strip()
        key = f"{name}/{item.id}"
        return LensCloze(key, name, Gap(key, f"{context.rstrip()} ", "."), answer)

    if isinstance(item, Completion):
        yield cloze("", item.context, item.expected)
    elif isinstance(item, RolePair):
        yield cloze("", item.good, item.target)
    else:
        yield cloze("affirmative", item.context("affirmative", item.true_affirmative), item.true_affirmative)
        yield cloze("negative", item.context("negative", item.true_negative), item.true_negative)


def _facts(suite: Relations) -> Iterator[LensCloze]:
    for relation in suite.relations:
        # A causal model sees the subject only if the object comes last.
        patterns = [pattern for pattern in relation.patterns if pattern.ends]
        for fact in relation.facts:
            pattern = next((candidate for candidate in patterns if candidate.fits(fact.object)), None)
            if pattern is not None:
                key = f"{relation.id}/{fact.id}"
                yield LensCloze(key, relation.id, Gap(key, *pattern.of(fact.subject)), fact.object)


def suite_tables(
    model: LanguageModel, suite: LensSuite, translators: Translators | None, *, samples: int, seed: int
) -> tuple[dict[str, list[tuple[Any, ...]]], dict[str, int]]:
    """The rows of `pairs` or of `cloze`, and what was left out."""
    left_out = {f"{suite.name}: {why}": count for why, count in suite.left_out.items()}
    if suite.pairs:
        return {"pairs": _pair_rows(model, suite.pairs, translators, samples, seed)}, left_out
    rows, unspelt = _cloze_rows(model, suite.clozes, translators, samples, seed)
    if unspelt:
        left_out[f"{suite.name}: clozes whose answer is not one token, or whose text is too long"] = unspelt
    return {"cloze": rows}, left_out


def _pair_rows(
    model: LanguageModel, pairs: Sequence[MinimalPair], translators: Translators | None, samples: int, seed: int
) -> list[tuple[Any, ...]]:
    sentences = list(dict.fromkeys(sentence for pair in pairs for sentence in (pair.good, pair.bad)))
    by_lens, owner = _sentences(model, sentences, translators)
    number = {sentence: place for place, sentence in enumerate(sentences)}
    good, bad = (np.array([number[getattr(pair, side)] for pair in pairs]) for side in ("good", "bad"))
    rows = []
    for lens, readings in by_lens.items():
        totals = np.zeros((len(sentences), readings.logprob.shape[1]))
        np.add.at(totals, owner, readings.logprob)
        # Equally likely sentences count as half right.
        right = 0.5 + 0.5 * np.sign(totals[good] - totals[bad])
        keys, groups = [pair.item for pair in pairs], [pair.paradigm for pair in pairs]
        for paradigm, by_layer in _by_group(right, keys, groups, samples, seed).items():
            tests = zip(*above(right - 0.5, groups, paradigm, most=0.5, seed=seed), strict=True)
            rows += [
                (layer, lens, paradigm, *interval, *map(float, test))
                for layer, (interval, test) in enumerate(zip(by_layer, tests, strict=True))
            ]
    return rows


def _sentences(
    model: LanguageModel, sentences: Sequence[str], translators: Translators | None
) -> tuple[dict[Lens, LensReadings], np.ndarray]:
    """What every token of the sentences is read as, and the sentence that each belongs to."""
    cuts = cut_passages(
        model, [WrittenPassage.typed(str(number), sentence) for number, sentence in enumerate(sentences)]
    )
    _, wanted = query_every_token(model, cuts)
    owner = np.repeat(np.arange(len(cuts)), [len(cut.tokens.ids) - cut.head - cut.tail for cut in cuts])
    return read_layers(model, wanted, translators)[0], owner


def _cloze_rows(
    model: LanguageModel, clozes: Sequence[LensCloze], translators: Translators | None, samples: int, seed: int
) -> tuple[list[tuple[Any, ...]], int]:
    readable, parts = [], []
    for cloze, part in zip(clozes, _answers(model, clozes), strict=True):
        if part is not None:
            readable.append(cloze)
            parts.append(part)
    if not readable:
        raise InputError(f"{model.name} has a single token for none of the answers of the suite; name another one")
    wanted: TokenQueries = wanted_of(parts)
    by_lens, _ = read_layers(model, wanted, translators)
    keys, groups = [cloze.item for cloze in readable], [cloze.part for cloze in readable]
    rows = []
    for lens, readings in by_lens.items():
        measures = {
            "probability": np.exp(readings.logprob),
            "precision_at_1": (readings.rank == 1).astype(float),
            "precision_at_10": (readings.rank <= 10).astype(float),
            "reciprocal_rank": 1 / readings.rank,
        }
        for measure, values in measures.items():
            for part, by_layer in _by_group(values, keys, groups, samples, seed).items():
                tests = zip(*above(values[:, 1:] - values[:, :1], groups, part, seed=seed), strict=True)
                # Layer 0 is what the others are compared with.
                tested = [[np.nan] * len(SUITE_TEST), *tests]
                rows += [
                    (layer, lens, part, measure, *row, *map(float, test))
                    for layer, (row, test) in enumerate(zip(by_layer, tested, strict=True))
                ]
    return rows, len(clozes) - len(readable)


def _answers(model: LanguageModel, clozes: Sequence[LensCloze]) -> Iterator[LensRow | None]:
    """The scored position of each cloze; None where its answer is not a single known token, or the text is too long."""
    unknown = model.encoder.tokenizer.unk_token_id
    for cut in cut_passages(model, [cloze.slot.filled(cloze.answer) for cloze in clozes]):
        ids, inside = cut.tokens.ids, np.flatnonzero(cut.tokens.words == _ANSWER)
        if len(inside) != 1 or len(ids) > model.encoder.limit or ids[inside[0]] == unknown:
            yield None
            continue
        targets, places = ids[inside], inside
        if model.kind == "masked":
            ids = ids.copy()
            ids[inside] = model.mask or 0
        else:
            ids, places = ids[: inside[0]], inside - 1
        whole = slice(0, len(ids))
        yield LensRow(
            InputRow(0, ids, cut.types[: len(ids)], cut.tokens.words[: len(ids)], whole, whole), places, targets
        )


def above(differences: np.ndarray, groups: Sequence[str], group: str, *, most: float = 1.0, seed: int = 0) -> Contrasts:
    """Whether each layer's mean difference, [item, layer], is above 0 in a group (`all`: the mean over groups).

    Layers are one family; of the mean over groups, an item counts one over the number of its group's items.

    Example:
        >>> ahead = np.array([[0.5, 0.5], [-0.5, 0.5], [0.5, 0.5], [-0.5, 0.5], [0.5, 0.5], [-0.5, 0.5]])
        >>> above(ahead, ["a"] * 6, "a").p.round(3).tolist()
        [0.656, 0.031]
    """
    names = list(dict.fromkeys(groups)) if group == ALL else [group]
    inside = np.array([name in names for name in groups])
    shares = np.array([1 / groups.count(name) / len(names) if name in names else 0.0 for name in groups])[inside]
    return sign_flip_family(
        differences[inside] * shares[:, None], shares, alternative="greater", bounds=(-most, most), seed=seed
    )


def _by_group(
    values: np.ndarray, keys: Sequence[str], groups: Sequence[str], samples: int, seed: int
) -> dict[str, list[tuple[float, float, float]]]:
    """Group -> mean, low and high of each layer over resampled items; `all` is the mean over groups.

    Args:
        values: [item, layer]
        keys: of the items, which are drawn within their group.
        groups: of the items.
        samples: of the bootstrap.
        seed: of the bootstrap.
    """
    drawn = np.stack([weights_of(key, samples=samples, seed=seed) for key in keys], 1).astype(float)
    sums: list[np.ndarray] = []
    intervals: dict[str, list[tuple[float, float, float]]] = {ALL: []}
    for group in dict.fromkeys(groups):
        inside = np.array([name == group for name in groups])
        weights = drawn[:, inside]
        with np.errstate(invalid="ignore"):
            # Not a number in a sample that drew no item of the group.
            sums.append(weights @ values[inside] / weights.sum(1, keepdims=True))
        intervals[group] = intervals_of(values[inside].mean(0), sums[-1], len(weights[0]), exact=_is_share(values))
    there = np.isfinite(np.stack(sums))
    with np.errstate(invalid="ignore"):
        together = np.where(there, np.stack(sums), 0).sum(0) / there.sum(0)
    mean = np.mean([[row[0] for row in rows] for group, rows in intervals.items() if group != ALL], axis=0)
    intervals[ALL] = intervals_of(mean, together, len(keys), exact=_is_share(values))
    return intervals


def _is_share(values: np.ndarray) -> bool:
    return bool(np.isin(values, (0, 0.5, 1)).all())

"""Edits of a model's parts (heads, blocks, random components as large as a head) and a target's score under each.

Scores are paired by document with those of the unchanged model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina import assets
from lamina.analyses.behaviour.inputs import speaking, texts_to_score
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.loading import scored_split
from lamina.corpora.question_sets import Questions, load_questions
from lamina.corpora.suites.minimal_pairs import MinimalPairs, read_pairs
from lamina.errors import InputError, LaminaError, ModelError
from lamina.framework.inputs import LoadedInputs, TrainedTexts, as_encoder, as_result, chosen_view, model_and
from lamina.framework.settings import DeclaredSetting, Setting
from lamina.models import Encoder
from lamina.models.interventions.edited_runs import RESAMPLED, CleanRun, Edit, Fill, HeadEdit, lengths_alike
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import has_language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import Kind, head_kind, head_on_states
from lamina.progress import progress, say
from lamina.results import Result
from lamina.results.finding import (
    rows_of,
)
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import ratio_differences, sign_flip_family
from lamina.stats.intervals import interval, share_interval
from lamina.stats.status import NEGLIGIBLE, SURE, status_of
from lamina.stats.units import Units
from lamina.targets.answers import has_span_head
from lamina.targets.choice import HEADS, TargetData, chosen_targets
from lamina.targets.target import CLASSES_OF_TEXTS, LOSS, PAIRS, QA, QA_EXACT, TAGS, Target, TargetScores
from lamina.training.provenance import ABOUT, folder_of, read_about, view_of
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.activations import Runtime


_SUITE, _QUESTIONS = "blimp", "stories"
"""Default pairs and questions; a model that lamina fine-tuned gets the questions that it was tuned for."""

# Settings that several analyses share; pairs, questions and probes are read when inputs are loaded.
Suite = Annotated[
    str | MinimalPairs | None,
    Setting("Minimal pairs: a suite or a file; blimp by default, if it is on this machine.", file=True),
]
AskedQuestions = Annotated[
    str | Questions | None,
    Setting(
        "Questions for a model with a span head: a name or a path; default: those it was tuned on, or stories.",
        file=True,
    ),
]
Probes = Annotated[
    str | Result | None, Setting("Folder of a `lamina probe` result whose saved probes are used.", file=True)
]
Items = Annotated[int, Setting("Maximum number of texts, pairs or questions per target, drawn at random.", min=2)]


@dataclass(frozen=True)
class CauseInputs(TrainedTexts):
    """A model, and the data of its targets: an encoder and a `TargetData`.

    Reads the settings `targets`, `suite` (minimal pairs), `questions` and `probes` (saved by `lamina probe`) of the
    analysis. A limit counts scored texts.
    """

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        about = "Split that is scored: dev, test, or all (which leaves no training texts for probes)."
        return (DeclaredSetting("split", str, self.split, Setting(about)), *super().options[1:])

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; targets that model or data do not allow are refused before anything is measured."""
        targets = settings.get("targets")
        encoder = as_encoder(given["model"], options, runtime)
        speaks = has_language_model(encoder)
        probes = settings.get("probes")
        material = TargetData(
            texts_to_score(given["data"], options, targets, self.split),
            _pairs(settings.get("suite"), targets) if speaks else None,
            _questions(settings.get("questions"), targets, encoder) if _answers(encoder) else None,
            None if probes is None else as_result(probes),
        )
        # What was named and is not possible is an error; it is never left out silently.
        if settings.get("suite") is not None:
            chosen_targets(encoder, [PAIRS], material)
        if settings.get("questions") is not None and material.questions is None:
            chosen_targets(encoder, [QA], material)
        names = chosen_targets(encoder, targets, material)
        if targets is None:
            _say_unasked(encoder, names, material)
        loaded = model_and(encoder, material.texts, given["model"])
        read = {"pairs": material.pairs, "questions": material.questions}
        about = {name: described.describe() for name, described in read.items() if described is not None}
        prints = [described["fingerprint"] for described in about.values()]
        if material.probes is not None:
            prints.append(material.probes.key)
        data = {**loaded.data, **about, "fingerprint": fingerprint_of(loaded.data["fingerprint"], *prints)}
        model = _with_head(encoder, names, material, loaded.model)
        return replace(loaded, arguments=(encoder, material), model=model, data=data)

    def in_report(self, encoder: Encoder, texts: Any, train: Any) -> dict[str, Any] | None:
        """None: ablating parts one by one takes too long for a report."""
        return None


def _with_head(
    encoder: Encoder, names: Sequence[str], material: TargetData, about: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A model's entry in the provenance: with its head, where a target uses it."""
    if LOSS in names or material.pairs is not None:
        return speaking(encoder)
    spans = [QA] if has_span_head(encoder) and material.questions is not None else []
    kinds: list[Kind] = [HEADS[name] for name in (*names, *spans) if name in HEADS]
    if not kinds or not isinstance(encoder, HuggingFaceEncoder):
        return about
    head = head_on_states(encoder, kinds[0])
    return {**about, "fingerprint": head.fingerprint, "body": about["fingerprint"], "head": kinds[0]}


def _say_unasked(encoder: Encoder, names: Sequence[str], material: TargetData) -> None:
    """Print why the head that the model was fine-tuned with is not scored by default: the data have nothing for it."""
    kind = head_kind(encoder) if isinstance(encoder, HuggingFaceEncoder) else None
    for name in (TAGS, CLASSES_OF_TEXTS, QA):
        if HEADS[name] == kind and name not in names:
            try:
                chosen_targets(encoder, [name], material)
            except InputError as error:
                say(f"left out: {error}")


def _pairs(suite: Any, targets: Sequence[str] | None) -> MinimalPairs | None:
    """The pairs of a suite; by default BLiMP, if it is on this machine."""
    if isinstance(suite, MinimalPairs):
        return suite
    wanted = suite is not None or (assets.local_folder(_SUITE) if targets is None else PAIRS in targets)
    return read_pairs(suite or _SUITE) if wanted else None


def _questions(named: Any, targets: Sequence[str] | None, encoder: Encoder) -> Questions | None:
    if isinstance(named, Questions):
        return named
    if named is None and targets is not None and not {QA, QA_EXACT, CLASSES_OF_TEXTS} & set(targets):
        return None
    view = chosen_view({}, encoder)
    tuned_on = _tuned_on(encoder) if named is None else None
    if tuned_on is not None:
        with suppress(LaminaError):
            return load_questions(tuned_on, scored_split(tuned_on), view=view)
    data = named or _QUESTIONS
    return load_questions(data, scored_split(data), view=view)


def _answers(encoder: Encoder) -> bool:
    """Whether a model answers questions: with a span, or with a class that lamina fine-tuned it for."""
    return has_span_head(encoder) or (
        view_of(encoder) is not None
        and isinstance(encoder, HuggingFaceEncoder)
        and head_kind(encoder) == HEADS[CLASSES_OF_TEXTS]
    )


def _tuned_on(encoder: Encoder) -> str | None:
    """The data that lamina fine-tuned a model on; None if not known."""
    folder = folder_of(encoder)
    if folder is None or not (folder / ABOUT).is_file():
        return None
    data = read_about(folder).get("data", {})
    return data.get("asked", {}).get("data") or data.get("name")


class Effect(NamedTuple):
    """A score without and with a change; the 95 % interval of the difference is simultaneous over a family."""

    baseline: float
    value: float
    effect: float
    """`value - baseline`: above 0 is worse for a loss, below 0 for an accuracy."""
    low: float
    """NaN where documents are too few, or too unequal in size, for an interval."""
    high: float
    p: float
    """p of no effect, adjusted for the family; NaN where it could not reach .05."""
    units: int = 0
    """Number of documents (pairs, questions) with scored items."""
    needed: int = 0
    """0, or the number of units needed where even the best outcome could not reach .05."""


MISSING = Effect(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan)
"""An effect without a comparison."""


class ScoreChange(NamedTuple):
    """The scores of the same items without and with a change, or with one change and with another."""

    before: TargetScores
    after: TargetScores
    units: Sequence[str]
    """The document of each item, or the item."""


NATS = 0.05
"""Changes in loss within this margin are negligible, in nats per token."""
TESTED = ("effect", "low", "high", "p_adjusted", "units", "needed")
"""Columns of a tested effect, in the order of `Effect`."""


def margin_of(target: str) -> float:
    """The margin within which changes of a target are negligible.

    Example:
        >>> margin_of("loss"), margin_of("pairs")
        (0.05, 0.02)
    """
    return NATS if target == LOSS else NEGLIGIBLE


def does_harm(test: Effect, target: Target) -> bool:
    """Whether a change clearly makes a target worse, by more than the margin."""
    status = status_of(test.low, test.high, test.p, needed=test.needed, margin=margin_of(target.name))
    return status == "clear" and (test.effect > 0) == target.lower_is_better


def measure(
    parts: Interventions, target: Target, edits: Sequence[Edit], *, seed: int = 0, what: str | None = None
) -> list[TargetScores]:
    """The scores of all items by the whole model, and then under each edit."""
    return [target.score(values) for values in keep(parts, target, edits, seed=seed, what=what)]


def keep(
    parts: Interventions, target: Target, edits: Sequence[Edit], *, seed: int = 0, what: str | None = None
) -> list[Float[np.ndarray, "row kept"]]:
    """What a target reads from all its rows, by the whole model and under each edit; scores are computed from it."""
    donors = lengths_alike(target.rows, seed) if any(map(_from_another_text, edits)) else None
    by_run: list[np.ndarray | None] = [None] * (len(edits) + 1)
    with progress(what or f"{target.name} of {parts.encoder.name}", len(target.rows) * len(by_run)) as advance:
        for batch in parts.run(target.rows, edits, layers=target.layers, donors=donors, places=target.places):
            run = 0 if batch.edit is None else batch.edit + 1
            read = target.read(batch.rows, batch.states)
            whole = by_run[run]
            if whole is None:
                whole = by_run[run] = np.zeros((len(target.rows), read.shape[1]))
            whole[list(batch.rows)] = read
            advance(len(batch.rows))
    return [values for values in by_run if values is not None]


def effects_of(changes: Sequence[ScoreChange], *, harm: int | Sequence[int] = 0) -> list[Effect]:
    """Effects of a family of changes on a score, paired by unit and corrected together (`sign_flip_family`).

    Changes may be of several targets with items of other documents: a unit without items counts 0. Where scores are
    ratios of unequal counts, differences are of residuals from the pooled value. Where no answer changes, the interval
    is the exact one of a share of 0.

    Args:
        changes: the family.
        harm: 1 or -1, for all or for each, tests whether scores rise or fall: p is one-sided, the interval stays
            two-sided.

    Example:
        >>> ones, names = np.ones(8), list("abcdefgh")
        >>> worse = ScoreChange(TargetScores(ones, ones), TargetScores(0 * ones, ones), names)
        >>> one_wrong = np.array([0.0, 1, 1, 1, 1, 1, 1, 1])
        >>> same = ScoreChange(TargetScores(ones, ones), TargetScores(one_wrong, ones), names)
        >>> [(round(effect.effect, 2), round(effect.p, 3)) for effect in effects_of([worse, same])]
        [(-1.0, 0.008), (-0.12, 1.0)]
    """
    if not changes:
        return []
    names = sorted({name for change in changes for name in change.units})
    rows = {name: row for row, name in enumerate(names)}
    differences, counts = np.zeros((2, len(names), len(changes)))
    for member, change in enumerate(changes):
        owner = [rows[name] for name in change.units]
        before, after = (
            np.stack([np.bincount(owner, values, len(names)) for values in scores]) for scores in change[:2]
        )
        differences[:, member], counts[:, member] = ratio_differences(after, before)
    tests = sign_flip_family(differences, counts)
    signs = np.asarray(harm)
    one_sided = sign_flip_family(signs * differences, counts, alternative="greater") if signs.any() else tests
    low, high = (np.where(np.isfinite(ends), ends, np.nan) for ends in (tests.low, tests.high))
    for member, change in enumerate(changes):
        # No right or wrong answer changed: the largest share of changes that n unchanged units allow.
        if not differences[:, member].any() and np.array_equal(change.before.hits, change.before.hits.round()):
            high[member] = share_interval(0, int(tests.units[member]))[1]
            low[member] = -high[member]
    return [
        Effect(
            change.before.value, change.after.value, float(tests.estimate[member]), float(low[member]),
            float(high[member]), float(one_sided.p[member]), int(one_sided.units[member]),
            int(one_sided.needed[member]),
        )
        for member, change in enumerate(changes)
    ]  # fmt: skip


def effect_of(before: TargetScores, after: TargetScores, units: Sequence[str]) -> Effect:
    """The effect of one change on a score, paired by unit: a family of one.

    Example:
        >>> ones = np.ones(4)
        >>> effect = effect_of(TargetScores(ones, ones), TargetScores(np.array([0.0, 1, 0, 0]), ones), list("abcd"))
        >>> round(effect.effect, 2), effect.p, effect.needed
        (-0.75, nan, 6)
    """
    return effects_of([ScoreChange(before, after, units)])[0]


def mean_scores(scores: Sequence[TargetScores]) -> TargetScores:
    """The mean of several scores of the same items, for example of several random draws."""
    return TargetScores(*(np.mean(values, axis=0) for values in zip(*scores, strict=True)))


def score_interval(scores: TargetScores, units: Sequence[str], *, samples: int, seed: int) -> tuple[float, float]:
    """The 95 % interval of a score over units; where all items are right, or none, the exact interval of a share.

    Example:
        >>> ones, texts = np.ones(20), [str(text) for text in range(20)]
        >>> [round(end, 2) for end in score_interval(TargetScores(ones, ones), texts, samples=9, seed=0)]
        [0.83, 1.0]
    """
    by = Units.of(units, "item")
    hits, counts = by.sums(scores.hits), by.sums(scores.counts)
    if np.isin(scores.hits, (0, 1)).all() and scores.value in (0, 1):
        return share_interval(len(by) * int(scores.value), len(by))
    return interval(ratio_draws(hits, counts, by, samples=samples, seed=seed))


def _from_another_text(edit: Edit) -> bool:
    return any(mixed.fill is RESAMPLED for mixed in edit.mixed.values())


def unit_of_target(result: Result, target: str) -> str:
    """What effects on a target are paired by.

    Example:
        >>> from lamina.results import Provenance
        >>> unit_of_target(Result("ablate", {}, Provenance({}, {}, {})), "pairs")
        'pair'
    """
    if target == PAIRS:
        return "pair"
    return "text" if "texts" in result.provenance.corpus.get("scored_from", {}) else "document"


def decisive(rows: pd.DataFrame, effect: str, low: str, high: str, margin: float) -> Any:
    """The row of a family that decides whether any member matters; `effect`, `low` and `high` are column names.

    The largest of the clearly harmful rows; else the largest of the clearly beneficial ones; else, unless all lie
    within the margin, the row with the smallest p. Untested rows decide only where all rows are untested.
    """
    within = (rows[low] >= -margin) & (rows[high] <= margin)
    for chosen in (rows["worse"].astype(bool), (rows["p_adjusted"] < SURE) & ~within):
        if chosen.any():
            return next(rows_of(rows.loc[[rows.loc[chosen, effect].abs().idxmax()]]))
    pools = (rows[~within & (rows["needed"] == 0)], rows[~within], rows)
    pool = next(rows_left for rows_left in pools if len(rows_left))
    # Where p is not available, the largest difference.
    order = pool.assign(size=-pool[effect].abs()).sort_values(["p_adjusted", "size"], na_position="last")
    return next(rows_of(order.head(1)))


def harm_of(rows: pd.DataFrame, column: str = "effect") -> pd.Series:
    """A column of effects with the sign changed such that above 0 is worse for every target.

    Example:
        >>> harm_of(pd.DataFrame({"target": ["loss", "pairs"], "effect": [0.5, -0.25]})).tolist()
        [0.5, 0.25]
    """
    return rows[column].where(rows["target"] == LOSS, -rows[column])


def worst_of(rows: pd.DataFrame) -> Any:
    """The row of the part without which the target suffers most.

    Example:
        >>> worst_of(pd.DataFrame({"target": ["pairs", "pairs"], "effect": [0.5, -0.25]})).effect
        -0.25
    """
    return next(rows_of(rows.assign(harm=harm_of(rows)).nlargest(1, "harm")))


Component = Literal["head", "block"]
Ablation = Literal["zero", "mean", "resample"]
RANDOM_COMPONENT = "random"
"""In tables: a random component as large as a head."""
DRAWS = 3
"""Random components of each block; their scores are averaged."""


class AblatedPart(NamedTuple):
    """A part of a model, and how it is ablated."""

    component: str
    """head, block or random."""
    block: int
    """From 0."""
    head: int | None
    """From 0; None for a block and for random components."""
    how: Ablation
    edits: tuple[Edit, ...]
    """Several for random components: one for each draw."""


def chosen_components(components: Sequence[Component] | None, heads: Sequence[str] | None) -> tuple[Component, ...]:
    """Heads and blocks by default; heads alone where some are named.

    Example:
        >>> chosen_components(None, None), chosen_components(None, ["3-2"])
        (('head', 'block'), ('head',))
    """
    if components is None:
        return ("head", "block") if heads is None else ("head",)
    if heads is not None and "head" not in components:
        raise InputError(f"--head {heads[0]} names a head, and --component {components[0]} leaves heads out; drop one")
    return tuple(dict.fromkeys(components))


def named_heads(parts: Interventions, names: Sequence[str] | None) -> tuple[tuple[int, int], ...]:
    """(block, head) from 0 of the heads named as LAYER-HEAD from 1, in the model's order; all by default."""
    if names is None:
        return parts.heads
    chosen = set()
    for name in names:
        layer, dash, head = name.partition("-")
        if not (dash and layer.isdecimal() and head.isdecimal()):
            raise InputError(f"--head {name}: name a head as LAYER-HEAD, both counted from 1, such as 3-2")
        parts.refuse_heads(int(layer) - 1, int(head) - 1)
        chosen.add((int(layer) - 1, int(head) - 1))
    return tuple(sorted(chosen))


def plan_ablations(
    parts: Interventions,
    *,
    components: Iterable[Component],
    hows: Sequence[Ablation],
    heads: Sequence[tuple[int, int]],
    means: Mapping[int, Tensor],
    seed: int,
) -> list[AblatedPart]:
    """All parts that are ablated: heads first, then random components of their blocks, then blocks."""
    plan: list[AblatedPart] = []
    if "head" in components:
        for how in dict.fromkeys(hows):
            for block, head in heads:
                edit = parts.without(block, heads=[head], fill=_fill(how, block, means))
                plan.append(AblatedPart("head", block, head, how, (edit,)))
            plan += _random_components(parts, sorted({block for block, _ in heads}), how, means, seed)
    if "block" in components:
        skipped = (Edit(skipped=frozenset({block})) for block in range(parts.encoder.blocks))
        plan += [AblatedPart("block", block, None, "zero", (edit,)) for block, edit in enumerate(skipped)]
    return plan


def _random_components(
    parts: Interventions, blocks: Sequence[int], how: Ablation, means: Mapping[int, Tensor], seed: int
) -> Iterator[AblatedPart]:
    if parts.encoder.heads < 2:
        # With one head per layer, any random component is that head.
        return
    for block in blocks:
        edits = []
        for draw in range(DRAWS):
            rng = np.random.default_rng([seed, block, draw])
            where = torch.zeros(parts.encoder.heads * parts.size, dtype=torch.bool)
            where[torch.from_numpy(rng.choice(len(where), parts.size, replace=False))] = True
            edits.append(Edit(mixed={block: HeadEdit(where, _fill(how, block, means))}))
        yield AblatedPart(RANDOM_COMPONENT, block, None, how, tuple(edits))


def _fill(how: Ablation, block: int, means: Mapping[int, Tensor]) -> Fill:
    if how == "resample":
        return RESAMPLED
    return means[block] if how == "mean" else None


# Heads and blocks disabled for one text; numbered from 1, as in tables.

DisabledBy = Literal["zero", "mean"]
"""What replaces a head's output: zeros, or its mean over the tokens of the text."""


def disabled(
    parts: Interventions,
    words: Sequence[str],
    *,
    heads: Iterable[tuple[int, int]] = (),
    layers: Iterable[int] = (),
    how: DisabledBy = "zero",
) -> Edit:
    """Heads that are ablated and blocks that are skipped, as an edit.

    Args:
        parts: of the model.
        words: of the text, over whose tokens means are taken.
        heads: layer and head, both from 1.
        layers: from 1, whose blocks are skipped.
        how: what replaces the heads' output.

    Example:
        >>> parts = Interventions(lamina.load_encoder("minilm"))  # doctest: +SKIP
        >>> disabled(parts, ["Dogs", "bark"], heads=[(3, 1)], layers=[5]).first  # doctest: +SKIP
        2
    """
    encoder = parts.encoder
    skipped = frozenset(layer - 1 for layer in layers)
    for block in sorted(skipped):
        if not 0 <= block < encoder.blocks:
            raise ModelError(f"{encoder.name} has no layer {block + 1}; it has {encoder.blocks}, counted from 1")
    by_block: dict[int, list[int]] = {}
    for layer, head in dict.fromkeys(heads):
        parts.refuse_heads(layer - 1, head - 1)
        by_block.setdefault(layer - 1, []).append(head - 1)
    means = {}
    if by_block and how == "mean":
        means = parts.means(encoder.rows(0, encoder.word_tokenizer(Text("typed", tuple(words)))))
    mixed: dict[int, HeadEdit] = {}
    for block, in_block in by_block.items():
        mixed |= parts.without(block, heads=in_block, fill=means.get(block)).mixed
    return Edit(mixed=mixed, skipped=skipped)


# Patching: states of one run put into another, at some tokens of one layer.


class PatchTokens(NamedTuple):
    """The tokens of one row that get the states of its donor."""

    to: Int[np.ndarray, " token"]
    source: Int[np.ndarray, " token"]
    """The donor's token whose state each of them gets."""

    @classmethod
    def alike(cls, tokens: Int[np.ndarray, " token"]) -> PatchTokens:
        """Tokens that get the states of the donor's tokens at the same places."""
        return cls(tokens, tokens)


def put_in(layer: int, places: Sequence[PatchTokens]) -> Edit:
    """Replace states of a layer by the donors' states at some tokens; `places` has one entry per row."""

    def change(states: Tensor, clean: CleanRun) -> Tensor:
        if clean.donor is None:
            raise ModelError("patching needs the states of another text, and none was given")
        by_row = [places[row] for row in clean.rows]
        rows = torch.from_numpy(np.repeat(np.arange(len(by_row)), [len(tokens.to) for tokens in by_row]))
        to, source = (torch.from_numpy(np.concatenate(tokens).astype(np.int64)) for tokens in zip(*by_row, strict=True))
        patched = states.clone()
        patched[rows, to] = clean.donor.states[layer][rows, source].to(patched)
        return patched

    return Edit(states={layer: change})


def put_back(layer: int) -> Edit:
    """Replace states of a layer by themselves: a control, which must change nothing."""
    return Edit(states={layer: lambda _states, clean: clean.states[layer]})


def random_tokens(among: Bool[np.ndarray, " token"], count: int, *, seed: int, key: str) -> Int[np.ndarray, " token"]:
    """`count` tokens drawn from those in `among`, or all if there are fewer; the same on every call with this key.

    Example:
        >>> random_tokens(np.array([False, True, True]), 5, seed=0, key="q1").tolist()
        [1, 2]
    """
    digest = hashlib.blake2b(f"{seed}:{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    tokens = np.flatnonzero(among)
    drawn = np.random.default_rng(int.from_bytes(digest, "big")).permutation(tokens)[:count]
    return np.sort(drawn)


def share_of(
    hits: Bool[np.ndarray, " item"], units: Sequence[str], *, samples: int, seed: int
) -> tuple[float, float, float]:
    """A share with its 95 % interval over units; where all units are alike, the exact interval of a share.

    Example:
        >>> units = [str(unit) for unit in range(20)]
        >>> [round(end, 2) for end in share_of(np.ones(20, bool), units, samples=9, seed=0)]
        [1.0, 0.83, 1.0]
    """
    if not len(hits):
        return float("nan"), float("nan"), float("nan")
    scores = TargetScores(hits.astype(float), np.ones(len(hits)))
    return scores.value, *score_interval(scores, units, samples=samples, seed=seed)

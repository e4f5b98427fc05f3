"""Numbers: is a number's value in its hidden states, inside the range that probes learned and outside it?

After Wallace et al. (2019): decoding (the value), list maximum (which of five is the largest) and addition (the sum of
two), over integers, decimals and number words. Linear probes learn from a layer's states of the numbers. The same
probes on a number's characters, and on the number of tokens it takes, say what its spelling alone gives away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.errors import InputError
from lamina.framework import Samples, Seed, Setting, Source, Table, Tables, Twin, analysis, finding, rows_of
from lamina.framework.inputs import MODEL, MODEL_OPTIONS, LoadedInputs, Reads, as_encoder, describe_models, short_name
from lamina.models import Encoder
from lamina.results import Finding, Result
from lamina.results.finding import number
from lamina.stats import Contrast, Units, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.activations import Runtime

NumberTask = Literal["decoding", "maximum", "addition"]
Form = Literal["integers", "decimals", "words"]
TASKS: tuple[NumberTask, ...] = ("decoding", "maximum", "addition")
FORMS: tuple[Form, ...] = ("integers", "decimals", "words")
IN_WORDS = {
    "decoding": "the value of a number",
    "maximum": "the largest of five numbers",
    "addition": "the sum of two numbers",
}
"""Task -> what is asked for."""
INSIDE, OUTSIDE = "inside", "outside"
MODEL_SYSTEM, TWIN, CHARACTERS, TOKENS = "model", "untrained twin", "characters", "number of tokens"
SCORES = ("task", "form", "range", "system", "layer", "measure", "value", "low", "high", "items")
READINGS = (
    "task", "form", "range", "layer", "baseline", "measure", "value", "baseline_value", "difference", "diff_low",
    "diff_high", "p_adjusted", "units", "needed",
)  # fmt: skip
_LIST = 5
_HELD_OUT = 0.2
"""Share of the numbers of the learned range that no probe learns from."""
_PENALTIES = np.logspace(-1, 5, 7)
_LONGEST = 32
_LEAST = 50
"""The smallest learned range: a tenth of it is left for a test."""
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def spelled(value: int) -> str:
    """A number below a million in words, as in American English.

    Example:
        >>> spelled(0), spelled(42), spelled(1305)
        ('zero', 'forty two', 'one thousand three hundred five')
    """
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if value >= size:
            rest = f" {spelled(value % size)}" if value % size else ""
            return f"{spelled(value // size)} {name}{rest}"
    if value < len(_ONES):
        return _ONES[value]
    return _TENS[value // 10 - 2] + (f" {_ONES[value % 10]}" if value % 10 else "")


class NumberItem(NamedTuple):
    """Some numbers in one text."""

    text: Text
    spans: tuple[tuple[int, int], ...]
    """The words of each number: first, and one past the last."""
    values: tuple[float, ...]


class NumberSet(NamedTuple):
    """The items of one task and form: learned from, scored inside the learned range, scored outside it."""

    task: NumberTask
    form: Form
    parts: Mapping[str, tuple[NumberItem, ...]]


LEARNED = "learned"


def number_set(task: NumberTask, form: Form, *, top: int, items: int, seed: int) -> NumberSet:
    """Numbers up to `top` to learn from, others up to `top` that no text of the former has, and larger ones.

    Example:
        >>> numbers_of = number_set("maximum", "integers", top=99, items=40, seed=0)
        >>> {name: len(part) for name, part in numbers_of.parts.items()}
        {'learned': 40, 'inside': 20, 'outside': 20}
        >>> max(numbers_of.parts["inside"][0].values) <= 99 < min(numbers_of.parts["outside"][0].values)
        True
    """
    rng = np.random.default_rng([seed, TASKS.index(task), FORMS.index(form)])
    numbers = rng.permutation(top + 1)
    left_out = max(_LIST, int(_HELD_OUT * len(numbers)))
    pools = {LEARNED: numbers[left_out:], INSIDE: numbers[:left_out], OUTSIDE: np.arange(top + 1, 2 * top + 2)}
    size = {"decoding": 1, "maximum": _LIST, "addition": 2}[task]
    parts: dict[str, tuple[NumberItem, ...]] = {}
    for part, pool in pools.items():
        wanted = items if part == LEARNED else items // 2
        drawn = rng.permutation(pool)[:wanted, None]
        if size > 1:
            drawn = np.stack([rng.choice(pool, size, replace=False) for _ in range(wanted)])
        parts[part] = tuple(
            _item(f"{task} {form} {part} {number_of}", [int(value) for value in row], form, rng)
            for number_of, row in enumerate(drawn)
        )
    return NumberSet(task, form, parts)


def _item(name: str, whole: Sequence[int], form: Form, rng: np.random.Generator) -> NumberItem:
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    values: list[float] = []
    for value in whole:
        tenth = int(rng.integers(0, 10)) if form == "decimals" else 0
        written = spelled(value) if form == "words" else f"{value}.{tenth}" if form == "decimals" else str(value)
        parts = written.split()
        spans.append((len(words), len(words) + len(parts)))
        # A comma between number words, so that they stay apart.
        words += [*parts, ","]
        values.append(value + tenth / 10)
    return NumberItem(Text(name, tuple(words[:-1])), tuple(spans), tuple(values))


Features = Float[np.ndarray, "item number feature"]


def character_features(items: Sequence[NumberItem], symbols: str) -> Features:
    """Each number's characters, counted from the right, one column per place and character.

    Example:
        >>> items = number_set("decoding", "integers", top=99, items=40, seed=0).parts["outside"]
        >>> float(character_features(items[:1], "0123456789").sum())
        3.0
    """
    column = {symbol: place for place, symbol in enumerate(symbols)}
    features = np.zeros((len(items), len(items[0].spans), _LONGEST * len(symbols)))
    for row, item in enumerate(items):
        for place, (start, end) in enumerate(item.spans):
            written = " ".join(item.text.words[start:end])
            for step, symbol in enumerate(reversed(written[-_LONGEST:])):
                if symbol in column:
                    features[row, place, step * len(symbols) + column[symbol]] = 1
    return features


class StateFeatures(NamedTuple):
    """What a model makes of some items."""

    states: Float[np.ndarray, "item number layer width"]
    """The mean over a number's tokens."""
    tokens: Float[np.ndarray, "item number 1"]


def state_features(encoder: Encoder, items: Sequence[NumberItem]) -> StateFeatures:
    """The states of every number at every layer, and how many tokens it takes."""
    states, counts = [], []
    for item, encoded in zip(items, encoder.encode([item.text for item in items]), strict=True):
        if encoded.states is None:
            raise InputError(f"{encoder.name} has no hidden states")
        inside = [(encoded.tokens.words >= start) & (encoded.tokens.words < end) for start, end in item.spans]
        all_states = encoded.states.float().cpu().numpy()
        states.append([all_states[tokens].mean(0) for tokens in inside])
        counts.append([[float(tokens.sum())] for tokens in inside])
    return StateFeatures(np.array(states), np.array(counts))


class NumberOutcome(NamedTuple):
    """How one system did on the items of one part: what counts against it, or for it, item by item."""

    measure: str
    """R2 or accuracy."""
    gained: Float[np.ndarray, " item"]
    """Summed and divided by the sum of `counts`: the score."""
    counts: Float[np.ndarray, " item"]


def learn_and_score(
    task: NumberTask, features: Mapping[str, Features], values: Mapping[str, Float[np.ndarray, "item number"]]
) -> dict[str, NumberOutcome]:
    """A linear probe of the learned part, on the others: ridge regression, or for lists a ranking of pairs.

    Penalties are chosen on the learned part: by leaving one item out, or by its last fifth.

    Example:
        >>> values = {part: np.arange(40.0)[:, None] for part in ("learned", "inside", "outside")}
        >>> outcome = learn_and_score("decoding", {part: x[..., None] for part, x in values.items()}, values)["inside"]
        >>> round(float(outcome.gained.sum() / outcome.counts.sum()), 3)
        1.0
    """
    learned = features[LEARNED]
    mean, spread = learned.mean((0, 1)), learned.std((0, 1))
    scaled = {part: (of_part - mean) / np.where(spread > 0, spread, 1) for part, of_part in features.items()}
    if task == "maximum":
        return _ranked(scaled, values)
    from sklearn.linear_model import RidgeCV

    flat = {part: of_part.reshape(len(of_part), -1) for part, of_part in scaled.items()}
    probe = RidgeCV(alphas=_PENALTIES).fit(flat[LEARNED], values[LEARNED].sum(1))
    outcomes: dict[str, NumberOutcome] = {}
    for part in (INSIDE, OUTSIDE):
        gold = values[part].sum(1)
        around = np.square(gold - gold.mean())
        outcomes[part] = NumberOutcome("r2", around - np.square(gold - probe.predict(flat[part])), around)
    return outcomes


def _ranked(scaled: Mapping[str, Features], values: Mapping[str, np.ndarray]) -> dict[str, NumberOutcome]:
    """A direction along which the largest of a list is ahead of the others."""
    from sklearn.linear_model import LogisticRegression

    rows, gold = scaled[LEARNED], values[LEARNED].argmax(1)
    best = rows[np.arange(len(rows)), gold]
    apart = best[:, None] - rows
    others = np.arange(rows.shape[1])[None] != gold[:, None]
    cut = int(len(rows) * (1 - _HELD_OUT))

    def weights(among: slice, strength: float) -> np.ndarray:
        ahead = apart[among][others[among]]
        both, sides = np.concatenate([ahead, -ahead]), np.repeat([1, 0], len(ahead))
        return LogisticRegression(C=strength, fit_intercept=False, max_iter=300).fit(both, sides).coef_[0]

    tried = {
        strength: float(((rows[cut:] @ weights(slice(cut), strength)).argmax(1) == gold[cut:]).mean())
        for strength in (1e-3, 1e-1)
    }
    direction = weights(slice(None), max(tried, key=tried.__getitem__))
    outcomes: dict[str, NumberOutcome] = {}
    for part in (INSIDE, OUTSIDE):
        right = (scaled[part] @ direction).argmax(1) == values[part].argmax(1)
        outcomes[part] = NumberOutcome("accuracy", right.astype(float), np.ones(len(right)))
    return outcomes


class LayerOutcomes(NamedTuple):
    """One task and form in one range: every layer of the model and of its twin, and what the spelling gives away."""

    task: NumberTask
    form: Form
    range: str
    model: list[NumberOutcome]
    twin: list[NumberOutcome]
    spelling: dict[str, NumberOutcome]
    """Baseline -> its outcome."""


def number_tables(outcomes: Iterable[LayerOutcomes], *, samples: int, seed: int) -> dict[str, pd.DataFrame]:
    """Scores of all systems, and every layer beside its baselines."""
    scores: list[tuple[Any, ...]] = []
    readings: list[tuple[Any, ...]] = []
    for of_range in outcomes:
        about = (of_range.task, of_range.form, of_range.range)
        units = Units.of([f"{' '.join(about)} {item}" for item in range(len(of_range.model[0].gained))], "item")
        weights = units.weights(samples=samples, seed=seed)
        named = [(MODEL_SYSTEM, layer, one) for layer, one in enumerate(of_range.model)]
        named += [(TWIN, layer, one) for layer, one in enumerate(of_range.twin)]
        for system, layer, one in (*named, *((name, np.nan, one) for name, one in of_range.spelling.items())):
            low, high = ratio_intervals(weights @ units.sums(one.gained), weights @ units.sums(one.counts))
            scores.append((*about, system, layer, one.measure, _score(one), float(low), float(high), len(one.gained)))
        readings += _readings(about, of_range, seed)
    return {
        "scores": pd.DataFrame(scores, columns=list(SCORES)),
        "readings": pd.DataFrame(readings, columns=list(READINGS)),
    }


def _readings(about: tuple[str, str, str], outcomes: LayerOutcomes, seed: int) -> Iterator[tuple[Any, ...]]:
    members = [
        (layer, name, one, beside[layer])
        for name, beside in (
            *((name, [one] * len(outcomes.model)) for name, one in outcomes.spelling.items()),
            *([(TWIN, outcomes.twin)] if outcomes.twin else []),
        )
        for layer, one in enumerate(outcomes.model)
    ]
    ahead = np.stack([one.gained - other.gained for _, _, one, other in members], 1)
    counts = np.stack([one.counts for _, _, one, _ in members], 1)
    tests = sign_flip_family(ahead, counts, seed=seed)
    for member, (layer, name, one, other) in enumerate(members):
        yield (*about, layer, name, one.measure, _score(one), _score(other), *tests.member(member))


def _score(outcome: NumberOutcome) -> float:
    return float(outcome.gained.sum() / outcome.counts.sum())


@dataclass(frozen=True)
class ModelAlone(Reads):
    """A model; its texts are made."""

    inputs: ClassVar = (MODEL,)
    sampled: ClassVar[bool] = False

    @property
    def options(self) -> tuple[Any, ...]:
        """See `Reads.options`."""
        return MODEL_OPTIONS

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        encoder = as_encoder(given["model"], options, runtime)
        about = {"name": "made numbers", "fingerprint": fingerprint_of("numbers 1"), "split": ""}
        return LoadedInputs((encoder,), describe_models((encoder,)), about, (short_name(given["model"], encoder),))


@analysis(
    title="Numbers",
    question="Is the value of a number in its hidden states, also outside the range that a probe learned?",
    method=(
        "Linear probes learn from the mean state of a number's tokens at one layer: the value (ridge regression), the "
        "sum of two, or a direction along which the largest of five is ahead. A fifth of the numbers of the learned "
        "range is left out of all training texts and scored (inside); numbers up to twice as large are scored too "
        "(outside). The baselines are the same probes on a number's characters by place, on the number of tokens it "
        "takes, and on the twin with random weights. Intervals resample items; differences flip their signs."
    ),
    cites=("Wallace et al. 2019b",),
    reads=ModelAlone(),
    version=1,
    tables={
        "scores": Table(
            "One row per task, form, range, system and layer (of characters and tokens: none): R2 of decoding and "
            "addition, accuracy of the maximum (chance is 1 in 5), with a 95 % interval over items.",
            SCORES,
        ),
        "readings": Table(
            "One row per task, form, range, layer and baseline: the model's score minus the baseline's on the same "
            "items; two-sided; family: all rows of a task, form and range.",
            READINGS,
        ),
    },
    chapter="abilities",
    example="lamina numbers minilm --task decoding --form integers --out results/numbers",
)
def numbers(
    encoder: Encoder,
    *,
    tasks: Annotated[
        Sequence[NumberTask],
        Setting(
            "Tasks: decoding (the value), maximum (of five) or addition (of two); all by default.", option="--task"
        ),
    ] = TASKS,
    forms: Annotated[
        Sequence[Form],
        Setting("Forms of numbers: integers, decimals (one digit) or words; all by default.", option="--form"),
    ] = FORMS,
    top: Annotated[
        int, Setting("Numbers from 0 to this one are learned; larger ones, up to twice, are outside.", min=_LEAST)
    ] = 500,
    items: Annotated[
        int, Setting("Maximum number of items that are learned from; half as many are scored in each range.", min=20)
    ] = 400,
    twin: Twin = True,
    samples: Samples = 1000,
    seed: Seed = 0,
) -> Tables:
    """How well linear probes tell the value, the maximum and the sum of numbers from each layer.

    `readings` says by how much a layer is ahead of the spelling alone: characters by place, or the number of tokens.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> result = lamina.numbers(TinyEncoder(), tasks=["decoding"], forms=["integers"], top=60, items=40, samples=20)
        >>> sorted(set(result.tables["scores"]["system"]))
        ['characters', 'model', 'number of tokens', 'untrained twin']
    """
    if not encoder.layers:
        raise InputError(f"{encoder.name} has no layers")
    if top >= 500_000:
        raise InputError(f"--top {top:,}: number words go up to a million; give at most 499,999")
    beside = encoder.random_twin(seed) if twin and encoder.blocks else None
    outcomes: list[LayerOutcomes] = []
    for task, form in product(dict.fromkeys(tasks), dict.fromkeys(forms)):
        numbers_of = number_set(task, form, top=top, items=items, seed=seed)
        outcomes += outcomes_of(numbers_of, [encoder] if beside is None else [encoder, beside])
    return Tables(
        number_tables(outcomes, samples=samples, seed=seed),
        {},
        data={"learned": f"0 to {top}", "outside": f"{top + 1} to {2 * top + 1}"},
        seeds=(seed,),
        scored={"items": sum(len(one.model[0].gained) for one in outcomes)},
    )


def outcomes_of(numbers_of: NumberSet, encoders: Sequence[Encoder]) -> list[LayerOutcomes]:
    """One task and form on every layer of a model and its twin, beside what the spelling gives away."""
    values = {part: np.array([item.values for item in of_part]) for part, of_part in numbers_of.parts.items()}
    symbols = "".join(sorted({symbol for item in numbers_of.parts[LEARNED] for symbol in " ".join(item.text.words)}))
    spelled_out = {part: character_features(of_part, symbols) for part, of_part in numbers_of.parts.items()}
    by_model: list[list[dict[str, NumberOutcome]]] = []
    tokens: dict[str, Features] = {}
    for encoder in encoders:
        read = {part: state_features(encoder, of_part) for part, of_part in numbers_of.parts.items()}
        tokens = tokens or {part: features.tokens for part, features in read.items()}
        by_model.append(
            [
                learn_and_score(
                    numbers_of.task, {part: states.states[:, :, layer] for part, states in read.items()}, values
                )
                for layer in range(encoder.layers)
            ]
        )
    spelling = {
        CHARACTERS: learn_and_score(numbers_of.task, spelled_out, values),
        TOKENS: learn_and_score(numbers_of.task, tokens, values),
    }
    return [
        LayerOutcomes(
            numbers_of.task,
            numbers_of.form,
            part,
            [layer[part] for layer in by_model[0]],
            [layer[part] for layer in by_model[1]] if len(by_model) > 1 else [],
            {name: of_part[part] for name, of_part in spelling.items()},
        )
        for part in (INSIDE, OUTSIDE)
    ]


@numbers.finds
def _findings(result: Result) -> Iterator[Finding]:
    """Of the first form: each task at its best layer beside the harder baseline, inside the range and outside it."""
    rows = result.tables["readings"]
    for task, where in product(dict.fromkeys(rows["task"]), (INSIDE, OUTSIDE)):
        form = rows["form"].iloc[0]
        of_range = rows[(rows["task"] == task) & (rows["form"] == form) & (rows["range"] == where)]
        if of_range.empty:
            continue
        best = of_range[of_range["value"] == of_range["value"].max()]
        row = next(rows_of(best.sort_values("baseline_value", ascending=False, kind="stable")))
        measure = "R2" if row.measure == "r2" else "accuracy"
        against = {CHARACTERS: "its characters", TOKENS: "the number of its tokens", TWIN: "the untrained twin"}
        beside = against.get(str(row.baseline), str(row.baseline))
        what = f"{IN_WORDS[str(task)]} ({form}, {where} the learned range)"
        more = "is read better" if row.difference > 0 else "is read worse"
        fails = row.measure == "r2" and row.value < 0
        if fails:
            more = "is predicted less badly" if row.difference > 0 else "is predicted worse"
        score = f"{measure} {number(row.value)} at layer {row.layer}, against {number(row.baseline_value)}"
        yield finding(
            claim=f"{what[0].upper()}{what[1:]} {more} from hidden states than from {beside}: {score}",
            whether=f"{what} {more} from hidden states than from {beside} ({score})",
            absent=f"{what[0].upper()}{what[1:]} is read as well from {beside} as from hidden states: {score}",
            contrast="difference",
            test=Contrast.of(row, "difference", "diff_low", "diff_high"),
            source=Source(
                "readings",
                {"task": task, "form": form, "range": where, "layer": row.layer, "baseline": row.baseline},
            ),
            unit="item",
            importance=("answers", "beats control"),
            note="A negative R2 is worse than always answering the mean." if fails else "",
        )

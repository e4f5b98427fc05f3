"""States of one text put into another: where is what a model answers, layer by layer?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd

from lamina import assets
from lamina.analyses.behaviour.inputs import speaking
from lamina.analyses.cause.effects import decisive
from lamina.analyses.cause.exchanged_states import (
    ANSWER,
    CONTRASTS,
    CONTROLS,
    DIFFERENCES,
    EFFECTS,
    EVERYWHERE,
    GAPS,
    OUTCOMES,
    PATCH,
    POSITIONS,
    RANDOM,
    ROLES,
    SUPPORT,
    SWAPS,
    PairPatchTables,
    Swap,
    ask_pairs,
    find_pairs,
    measure_pairs,
    measure_turns,
)
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.question_sets import Questions
from lamina.corpora.questions.question import Question
from lamina.corpora.suites.minimal_pairs import MinimalPairs, read_pairs
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.inputs import (
    LoadedInputs,
    QuestionSet,
    as_encoder,
    as_questions,
    chosen_view,
    describe_models,
    short_name,
)
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import LanguageModel, has_language_model, language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import head_on_states
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, layers_in_words, number, rows_of
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast
from lamina.targets.answers import has_span_head, span_answerer
from lamina.targets.target import some_pairs
from lamina.training.provenance import refuse_seen

if TYPE_CHECKING:
    from lamina.activations import Runtime

_TABLES = {"asked": "asked", "answer": "patch"}
"""What changed places -> its table; the more telling one first."""
_SWAPPED = {"asked": "what the question names", "answer": "the answer"}
_NATS = 0.05
"""A change of a difference of log-probabilities that means nothing."""
_SUITE, _QUESTIONS = "blimp", "stories"
"""Pairs and questions where none are named."""
_TRIED = 4
"""Questions and pairs that are timed to estimate the time of all."""
_MARKS = ("model", *EFFECTS)
_NAMES: dict[Swap, str] = {"answer": "patch", "asked": "asked"}
"""What changes places -> the table."""


@dataclass(frozen=True)
class PatchInputs(QuestionSet):
    """A model, and what its head can be asked: questions, or minimal pairs.

    The analysis's function gets the encoder, the questions or None, and the pairs or None; the setting `suite` names
    these.
    """

    default: str | None = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without the head that the data needs is refused before the data is read."""
        encoder = as_encoder(given["model"], options, runtime)
        data, suite = given["data"], settings["suite"]
        if data is not None:
            span_answerer(encoder)
        spoken = speaking(encoder) if suite is not None or has_language_model(encoder) else None
        if spoken is None and not has_span_head(encoder):
            raise ModelError(
                f"{encoder.name} has neither a head that answers with a span nor a language-model head, so there is "
                "nothing it says that a patch could turn; `lamina finetune MODEL --task squad` gives it the first, and "
                "models such as smollm2 have the second"
            )
        questions = self._read_questions(data, options, encoder)
        pairs = None if spoken is None else _read_suite(suite)
        read = {"questions": questions, "pairs": pairs}
        about = {name: described.describe() for name, described in read.items() if described is not None}
        names = [str(described["name"]) for described in about.values()]
        prints = [described["fingerprint"] for described in about.values()]
        data_said = {"name": " and ".join(names), "split": "", **about, "fingerprint": fingerprint_of(*prints)}
        short = (short_name(given["model"], encoder), *(Path(name).stem for name in names))
        return LoadedInputs((encoder, questions, pairs), spoken or describe_models((encoder,)), data_said, short)

    def _read_questions(self, data: Any, options: Mapping[str, Any], encoder: Encoder) -> Questions | None:
        if not has_span_head(encoder):
            return None
        return as_questions(_QUESTIONS if data is None else data, options, chosen_view(options, encoder))

    def in_report(self, encoder: Encoder, texts: Any, train: Any) -> dict[str, Any] | None:
        """A report does not ask it: every layer and role is a run of its own."""
        return None


@analysis(
    title="States from another text",
    question="At which layer and in which words is what a model answers, or finds ungrammatical?",
    method=(
        "Questions: in a second context two strings of one class (year, number, name; entities of stories) and of as "
        "many tokens have changed places: the answer and another one, or what the question names and another one, so "
        "that the answer is elsewhere. States of one layer and role are taken from the second run into the first, and "
        "we count answers that turn into the second one's; states of exchanged answers go to where the same string "
        "is. Beside it are as many random tokens, and states of the same context. Minimal pairs: states of the good "
        "sentence are put into the bad one at one place, and we take the change of the difference of log-probabilities "
        "over the tokens that both have, beside as many random tokens. Differences are paired by document (minimal "
        "pairs: by pair); all layers and roles, or positions, are tested together (max-T)."
    ),
    cites=("van Aken et al. 2019", "Vig et al. 2020", "Meng et al. 2022", "Finlayson et al. 2021"),
    reads=PatchInputs(),
    version=2,
    tables={
        "patch": Table(
            "One row per layer and role: the share of answers that turn where the answer and another string of its "
            "class have changed places.",
            PATCH,
            optional=True,
        ),
        "asked": Table(
            "The same where what the question names and another string of its class have changed places.",
            PATCH,
            optional=True,
        ),
        "outcomes": Table(
            "One row per layer, role and outcome, for both (swapped: answer, asked): the answer turned, was kept, or "
            "is another one.",
            OUTCOMES,
            optional=True,
        ),
        "controls": Table(
            "One row per control, layer and role: as many random tokens (not of exchanged answers); or all tokens, "
            "from the same context.",
            CONTROLS,
            optional=True,
        ),
        "differences": Table(
            "One row per layer, role and what it is compared with: the share that turns minus that of as many random "
            "tokens; of the answer role also minus that of the support; paired by document, two-sided. One family per "
            "table and comparison: all layers and roles.",
            DIFFERENCES,
            optional=True,
        ),
        "pairs": Table(
            "One row per layer and position: by how much the difference of log-probabilities (good minus bad sentence, "
            "shared tokens) changes; below 0 it shrinks. Two-sided; one family: all layers and positions.",
            EFFECTS,
            optional=True,
        ),
        "contrasts": Table(
            "One row per layer and position of minimal pairs: the change minus that with as many random tokens "
            "(other), paired; p: one-sided, that it is below 0; the interval is two-sided; one family: all layers and "
            "positions.",
            CONTRASTS,
            optional=True,
        ),
        "gaps": Table(
            "One row per kind of tokens: by how much good sentences are likelier, in nats per pair; each a test of its "
            "own, two-sided.",
            GAPS,
            optional=True,
        ),
        "beside": Table(
            "Minimal pairs of random tokens instead (model: random tokens) and of the twin with random weights (model: "
            "twin); one row per layer and position.",
            _MARKS,
            optional=True,
        ),
    },
    chapter="answering",
    needs=("states", "ablation"),
    example="lamina patch smollm2 --suite blimp --items 100 --out results/patch",
)
def patch(
    encoder: HuggingFaceEncoder,
    questions: Questions | None,
    minimal_pairs: MinimalPairs | None,
    *,
    # Which pairs that means is found when inputs are loaded.
    suite: Annotated[  # noqa: ARG001
        str | MinimalPairs | None,
        Setting("Minimal pairs for a language model: a suite or a file; blimp by default.", file=True),
    ] = None,
    swap: Annotated[
        Sequence[Swap],
        Setting("What changes places in the second context of a question: the answer, or what the question names."),
    ] = SWAPS,
    layers: Annotated[
        Sequence[int] | None,
        Setting("Layers, 0 being the embeddings; all by default.", option="--layer", min=0),
    ] = None,
    items: Annotated[int, Setting("Maximum number of questions and pairs, drawn at random.", min=2)] = 200,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """Which states decide: those of another context, or of the good sentence, put in by layer and role or position.

    A model with a span head (`lamina finetune --task squad|babi`) is asked questions, a language model minimal pairs.
    Only questions count whose answer is right and turns with the context; a twin with random weights answers none, so
    it is beside minimal pairs alone. Where what the question names has changed places, its states and those around it
    are all that differs at layer 0; the layer where the answers' own states take over is where the answer is decided.
    Where the answers have changed places, states go with them, and with these their positions if states hold them (as
    BERT's do): then they turn every answer at layer 0.

    Example:
        >>> result = lamina.patch("runs/squad", "squad", items=50)  # doctest: +SKIP
        >>> result.tables["patch"].columns.tolist()  # doctest: +SKIP
        ['layer', 'role', 'turned', 'low', 'high', 'n']
    """
    chosen = _chosen(encoder, layers)
    skipped: Counter[str] = Counter()
    tables: dict[str, pd.DataFrame] = {}
    scored: dict[str, int] = {}
    if questions is not None:
        refuse_seen(encoder, questions)
        every = list(questions.questions())
        tables |= _turned(encoder, every, swap, chosen, skipped, scored, most=items, samples=samples, seed=seed)
    if minimal_pairs is not None:
        pairs = some_pairs(minimal_pairs, items, seed)
        model = language_model(encoder)
        measured = _paired(model, pairs, chosen, skipped, seed=seed)
        tables |= {
            "pairs": pd.DataFrame(measured.effects, columns=list(EFFECTS)),
            "contrasts": pd.DataFrame(measured.contrasts, columns=list(CONTRASTS)),
            "gaps": pd.DataFrame(measured.gaps, columns=list(GAPS)),
        }
        marks = [("random tokens", *row) for row in measured.random]
        if twin:
            beside = _paired(model.random_twin(seed), pairs, chosen, Counter(), seed=seed)
            marks += [("twin", *row) for row in beside.effects]
        tables["beside"] = pd.DataFrame(marks, columns=list(_MARKS))
        scored["pairs"] = int(tables["gaps"]["n"].iloc[0])
    return Tables(tables, skipped, scored=scored)


@patch.finds
def findings_of(result: Result) -> Iterator[Finding]:
    """Of questions, where each role decides; of pairs, where the difference is."""
    for swapped, name in _TABLES.items():
        if name in result.tables:
            over = list(_handover(result)) if swapped == "asked" else []
            yield from over
            clear = any(handover.status == "clear" for handover in over)
            roles = ("question",) if clear else ("support", "answer", "question")
            for role in roles if swapped == "asked" else ("answer", "question"):
                yield from _role(result, swapped, role)
    if "pairs" in result.tables:
        yield from _pairs(result)


@patch.shows
def overview_of(result: Result) -> Iterator[Overview]:
    """One row per layer: the share of answers that turn by role, and the change of pairs by position."""
    for swapped, name in _TABLES.items():
        if name in result.tables:
            title = f"Answers that turn where {_SWAPPED[swapped]} has changed places"
            yield _grid(title, result.tables[name], "role", "turned", ROLES)
    if "pairs" in result.tables:
        title = "Change of the difference of log-probabilities (nats per pair)"
        yield _grid(title, result.tables["pairs"], "position", "effect", (*POSITIONS, EVERYWHERE))


@patch.costs
def _cost(
    estimator: Estimator, encoder: HuggingFaceEncoder, questions: Questions | None, minimal_pairs: MinimalPairs | None,
    *, items: int, twin: bool, layers: Sequence[int] | None, **_: Any,
) -> Cost:  # fmt: skip
    """Questions and pairs are read once for each layer and kind of patch."""
    many = len(_chosen(encoder, layers))
    tokens = 0.0
    if questions is not None:
        tokens += estimator.items(questions, items)[1]
    if minimal_pairs is not None:
        tokens += items * _PAIR * (1 + twin)
    return Cost(many, items, round(tokens), memory=memory_now(), work=tokens * many * estimator.per_token)


_PAIR = 20
"""Tokens of a minimal pair, about."""


def _handover(result: Result) -> Iterator[Finding]:
    """Where states of the support turn more answers than the answers' own, and where it is the other way round."""
    tests = _rows_with(result.tables["differences"], swapped="asked", role=ANSWER, against=SUPPORT)
    sure = tests[(tests["p_adjusted"] < SURE) & ((tests["low"] > NEGLIGIBLE) | (tests["high"] < -NEGLIGIBLE))]
    sides = [part for part in (sure[sure["difference"] < 0], sure[sure["difference"] > 0]) if len(part)]
    for part in sides or ([tests] if len(tests) else []):
        if sides:
            row = next(rows_of(part.loc[[part["difference"].abs().idxmax()]]))
        else:
            row = decisive(tests.assign(worse=False), "difference", "low", "high", NEGLIGIBLE)
        layers = [int(layer) for layer in part["layer"]] if sides else [int(row.layer)]
        more, less = ("the support", "the answers") if row.difference < 0 else ("the answers", "the support")
        shares = (row.other, row.turned) if row.difference < 0 else (row.turned, row.other)
        yield finding(
            claim=(
                f"At {layers_in_words(layers)} states of {more} turn more answers than those of {less} (layer "
                f"{row.layer}: {number(shares[0])} and {number(shares[1])})"
            ),
            whether="states of the support or the answers' own turn more answers at any layer",
            absent="States of the support turn as many answers as the answers' own at every layer",
            contrast=f"layer {row.layer}: answers minus support",
            test=Contrast.of(row, "difference"),
            source=Source("differences", {"swapped": "asked", "role": ANSWER, "against": SUPPORT}),
            unit=_unit(result),
            importance=("answers", "localised"),
        )


def _role(result: Result, swapped: str, role: str) -> Iterator[Finding]:
    """At which layers states of a role turn more answers than random tokens; the contrast is that difference."""
    where = {"swapped": swapped, "role": role, "against": RANDOM}
    tests = _rows_with(result.tables["differences"], **where)
    if tests.empty:
        return
    more = (tests["p_adjusted"] < SURE) & (tests["low"] > -NEGLIGIBLE) & (tests["high"] > NEGLIGIBLE)
    tests = tests.assign(worse=more & (tests["difference"] > 0))
    row = decisive(tests, "difference", "low", "high", NEGLIGIBLE)
    layers = [int(layer) for layer in tests.loc[tests["worse"], "layer"]] or [int(row.layer)]
    fewer = "more" if row.difference > 0 else "fewer"
    exchanged = f"{_SWAPPED[swapped]} has changed places"
    yield finding(
        claim=(
            f"Where {exchanged}, states of the {role} turn {fewer} answers than random tokens at "
            f"{layers_in_words(layers)} (layer {row.layer}: {number(row.turned)}, random tokens {number(row.other)})"
        ),
        whether=f"states of the {role} turn more answers than random tokens where {exchanged}",
        absent=f"Where {exchanged}, states of the {role} turn no more answers than random tokens",
        contrast=f"layer {row.layer}: {role} minus random tokens",
        test=Contrast.of(row, "difference"),
        source=Source("differences", where),
        unit=_unit(result),
        importance=("answers", "beats control", "localised"),
    )


def _unit(result: Result) -> str:
    """What differences of questions are paired by."""
    return "text" if "texts" in result.provenance.corpus.get("scored_from", {}) else "document"


def _pairs(result: Result) -> Iterator[Finding]:
    """Whether good sentences are likelier on shared words, and which states take that away."""
    (gap,) = rows_of(_rows_with(result.tables["gaps"], words="shared"))
    first = finding(
        claim="On the words that both sentences of a pair have, good sentences are "
        + ("likelier" if gap.gap > 0 else "less likely"),
        whether="good sentences are likelier than bad ones on the words that both have",
        absent="On the words that both sentences of a pair have, good sentences are as likely as bad ones",
        contrast="nats per pair",
        test=Contrast.of(gap, "gap"),
        source=Source("gaps", {"words": "shared"}),
        unit="pair",
        importance=("answers",),
        margin=_NATS,
    )
    yield first
    if first.status != "clear" or gap.gap <= 0:
        return
    for position, called in (("word", "the words that differ"), ("after", "the words after them")):
        tests = _rows_with(result.tables["contrasts"], position=position)
        if tests.empty:
            continue
        tests = tests.assign(worse=(tests["p_adjusted"] < SURE) & (tests["low"] < -_NATS))
        row = decisive(tests, "difference", "low", "high", _NATS)
        layers = [int(layer) for layer in tests.loc[tests["worse"], "layer"]] or [int(row.layer)]
        yield finding(
            claim=(
                f"States of {called} take away more of what makes good sentences likelier than random tokens do, at "
                f"{layers_in_words(layers)} (layer {row.layer}: change {number(row.effect)}, with random tokens "
                f"{number(row.other)})"
            ),
            whether=f"states of {called} take away more of what makes good sentences likelier than random tokens do",
            absent=f"States of {called} take away no more of what makes good sentences likelier than random tokens do",
            contrast=f"layer {row.layer}: difference in nats per pair",
            test=Contrast.of(row, "difference"),
            source=Source("contrasts", {"position": position}),
            unit="pair",
            importance=("answers", "beats control", "localised"),
            margin=_NATS,
        )


def _grid(title: str, table: pd.DataFrame, by: str, value: str, order: tuple[str, ...]) -> Overview:
    known = {(row["layer"], row[by]): row for row in table.to_dict("records")}
    there = [column for column in order if column in set(table[by])]
    rows = []
    for layer in sorted(set(table["layer"])):
        cells = [known.get((layer, column)) for column in there]
        rows.append((int(layer), *("-" if row is None else cell(row[value]) for row in cells)))
    return Overview(title, ("layer", *there), rows)


def _rows_with(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    for column, value in values.items():
        table = pd.DataFrame(table[table[column] == value])
    return table


def _read_suite(suite: Any) -> MinimalPairs:
    if isinstance(suite, MinimalPairs):
        return suite
    if suite is None and not assets.local_folder(_SUITE):
        raise InputError(f"no minimal pairs are named, and {_SUITE} is not on this machine: name some with --suite")
    return read_pairs(suite or _SUITE)


def _chosen(encoder: HuggingFaceEncoder, layers: Sequence[int] | None) -> list[int]:
    for layer in layers or ():
        if layer >= encoder.layers:
            raise InputError(f"{encoder.name} has no layer {layer}; it has layers 0 (embeddings) to {encoder.blocks}")
    return list(range(encoder.layers)) if layers is None else sorted(set(layers))


def _turned(
    encoder: HuggingFaceEncoder, questions: Sequence[Question], swaps: Sequence[Swap], layers: Sequence[int],
    skipped: Counter[str], scored: dict[str, int], *, most: int, samples: int, seed: int,
) -> dict[str, pd.DataFrame]:  # fmt: skip
    """The tables of questions; questions left out are added to `skipped`, the others are counted in `scored`."""
    answerer, head = span_answerer(encoder), head_on_states(encoder, "question-answering")
    parts = Interventions(encoder, heads=False)
    columns = {"outcomes": OUTCOMES, "controls": CONTROLS, "differences": DIFFERENCES}
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in columns}
    tables = {}
    for swap in dict.fromkeys(swaps):
        turning = find_pairs(answerer, questions, swap, most=most, seed=seed)
        skipped.update(turning.skipped)
        if turning.pairs:
            turned = measure_turns(parts, head, turning.pairs, swap, layers, samples=samples, seed=seed)
            tables[_NAMES[swap]] = pd.DataFrame(turned.patch, columns=list(PATCH))
            scored[f"questions ({swap})"] = len(turning.pairs)
            for name, of_table in rows.items():
                of_table += getattr(turned, name)
    if not tables:
        why = "; ".join(f"{reason}: {count:,}" for reason, count in skipped.most_common())
        raise CorpusError(
            f"no answer can turn: none of {len(questions):,} questions is answered differently in two contexts "
            f"({why}); name more questions, or a model that was fine-tuned to answer them"
        )
    return tables | {name: pd.DataFrame(of_table, columns=list(columns[name])) for name, of_table in rows.items()}


def _paired(
    model: LanguageModel, pairs: Sequence[Any], layers: Sequence[int], skipped: Counter[str], *, seed: int
) -> PairPatchTables:
    pair_rows = ask_pairs(model, pairs, skipped)
    return measure_pairs(Interventions(model.encoder, heads=False), model, pair_rows, layers, seed=seed)

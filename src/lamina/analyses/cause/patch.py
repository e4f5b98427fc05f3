"""States of one text put into another: where is what a model answers, layer by layer?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import pandas as pd

from lamina.analyses.behaviour.perturb_answers import span_answerer
from lamina.analyses.behaviour.perturb_targets import some_pairs
from lamina.analyses.cause.patch_findings import describe, tell_findings
from lamina.analyses.cause.patch_inputs import PatchInputs
from lamina.analyses.cause.patch_pairs import CONTRASTS, EFFECTS, GAPS, Patched, ask_pairs, measure_pairs
from lamina.analyses.cause.patch_questions import (
    CONTROLS,
    DIFFERENCES,
    OUTCOMES,
    PATCH,
    SWAPS,
    Swap,
    find_pairs,
    measure_turns,
)
from lamina.corpora.minimal_pairs import MinimalPairs
from lamina.corpora.question_sets import Questions
from lamina.corpora.questions import Question
from lamina.encoders.heads_on_states import head_on_states
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.interventions import Interventions
from lamina.encoders.language_model import LanguageModel, language_model
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now, time_call
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.results import Result
from lamina.results.finding import Finding
from lamina.training.provenance import refuse_seen

_TRIED = 4
"""Questions and pairs that are tried to tell how long all of them take."""
_MARKS = ("model", *EFFECTS)
_NAMES: dict[Swap, str] = {"answer": "patch", "asked": "asked"}
"""What changes places -> the table."""


@analysis(
    title="States from another text",
    question="At which layer and in which words is what a model answers, or finds ungrammatical?",
    method=(
        "Questions: in a second context two strings of one class (year, number, name; entities of stories) and of as "
        "many pieces have changed places: the answer and another one, or what the question names and another one, so "
        "that the answer is elsewhere. States of one layer and role are taken from the second run into the first, and "
        "we count answers that turn into the second one's; states of exchanged answers go to where the same string "
        "is. Beside it are as many random tokens, and states of the same context. Minimal pairs: states of the good "
        "sentence are put into the bad one at one place, and we take the change of the difference of log-probabilities "
        "over the pieces that both have, beside as many random tokens. Differences are paired by document (minimal "
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
            "shared pieces) changes; below 0 it shrinks. Two-sided; one family: all layers and positions.",
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
            "One row per kind of pieces: by how much good sentences are likelier, in nats per pair; each a test of its "
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
    items: Annotated[int, Setting("Most questions and pairs, drawn at random.", min=2)] = 200,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """Which states decide: those of another context, or of the good sentence, put in by layer and role or position.

    A model with a span head (`lamina finetune --task squad|babi`) is asked questions, a language model minimal pairs.
    Only questions count whose answer is right and turns with the context; a twin with random weights answers none, so
    it is beside minimal pairs alone. Where what the question names has changed places, its states and those around it
    are all that differs at layer 0; the layer where the answers' own states take over is where they are told apart.
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
        asked = some_pairs(minimal_pairs, items, seed)
        model = language_model(encoder)
        own = _paired(model, asked, chosen, skipped, seed=seed)
        tables |= {
            "pairs": pd.DataFrame(own.effects, columns=list(EFFECTS)),
            "contrasts": pd.DataFrame(own.contrasts, columns=list(CONTRASTS)),
            "gaps": pd.DataFrame(own.gaps, columns=list(GAPS)),
        }
        marks = [("random tokens", *row) for row in own.random]
        if twin:
            beside = _paired(model.random_twin(seed), asked, chosen, Counter(), seed=seed)
            marks += [("twin", *row) for row in beside.effects]
        tables["beside"] = pd.DataFrame(marks, columns=list(_MARKS))
        scored["pairs"] = int(tables["gaps"]["n"].iloc[0])
    return Tables(tables, skipped, scored=scored)


@patch.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Role by role, where answers turn; then where the difference of minimal pairs is."""
    return tell_findings(result)


@patch.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Layers by roles, and layers by positions."""
    return describe(result)


@patch.costs
def _cost(
    _: Estimator, encoder: HuggingFaceEncoder, questions: Questions | None, minimal_pairs: MinimalPairs | None,
    *, items: int, twin: bool, **settings: Any,
) -> Cost:  # fmt: skip
    """A few questions and pairs are patched at one layer in the middle and at two, and timed."""
    few = {**settings, "items": min(_TRIED, items), "twin": False}
    layers = _chosen(encoder, settings["layers"])
    middle = layers[max(0, len(layers) // 2 - 1) :][:2]
    one, two = (
        time_call(lambda some=some: patch.function(encoder, questions, minimal_pairs, **{**few, "layers": some}))
        for some in (middle[:1], middle)
    )
    a_layer = max(0.0, two - one) if len(middle) > 1 else one
    times = (1 + (twin and minimal_pairs is not None)) * items / few["items"]
    return Cost(passes=1, seconds=times * (max(0.0, one - a_layer) + a_layer * len(layers)), memory=memory_now())


def _chosen(encoder: HuggingFaceEncoder, layers: Sequence[int] | None) -> list[int]:
    for layer in layers or ():
        if layer >= encoder.layers:
            raise InputError(f"{encoder.name} has no layer {layer}; it has layers 0 (embeddings) to {encoder.blocks}")
    return list(range(encoder.layers)) if layers is None else sorted(set(layers))


def _turned(
    encoder: HuggingFaceEncoder, questions: Sequence[Question], swaps: Sequence[Swap], layers: Sequence[int],
    skipped: Counter[str], scored: dict[str, int], *, most: int, samples: int, seed: int,
) -> dict[str, pd.DataFrame]:  # fmt: skip
    """The tables of questions; what is left out is added to `skipped`, and what is not is counted in `scored`."""
    answerer, head = span_answerer(encoder), head_on_states(encoder, "question-answering")
    parts = Interventions(encoder, heads=False)
    columns = {"outcomes": OUTCOMES, "controls": CONTROLS, "differences": DIFFERENCES}
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in columns}
    tables = {}
    for swap in dict.fromkeys(swaps):
        found = find_pairs(answerer, questions, swap, most=most, seed=seed)
        skipped.update(found.skipped)
        if found.pairs:
            turned = measure_turns(parts, head, found.pairs, swap, layers, samples=samples, seed=seed)
            tables[_NAMES[swap]] = pd.DataFrame(turned.patch, columns=list(PATCH))
            scored[f"questions ({swap})"] = len(found.pairs)
            for name, own in rows.items():
                own += getattr(turned, name)
    if not tables:
        why = "; ".join(f"{reason}: {count:,}" for reason, count in skipped.most_common())
        raise CorpusError(
            f"no answer can turn: none of {len(questions):,} questions is answered differently in two contexts "
            f"({why}); name more questions, or a model that was fine-tuned to answer them"
        )
    return tables | {name: pd.DataFrame(own, columns=list(columns[name])) for name, own in rows.items()}


def _paired(
    model: LanguageModel, pairs: Sequence[Any], layers: Sequence[int], skipped: Counter[str], *, seed: int
) -> Patched:
    asked = ask_pairs(model, pairs, skipped)
    return measure_pairs(Interventions(model.encoder, heads=False), model, asked, layers, seed=seed)

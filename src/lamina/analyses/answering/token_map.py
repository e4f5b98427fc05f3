"""One question at every layer: its tokens in two dimensions, their roles and clusters (figures 1 to 5, 8 and 9)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float

from lamina.analyses.answering.groups import LEFT_OUT, MOST, STABLE, TIMES, LayerClusters, best_clusters, ordinary
from lamina.analyses.answering.roles import CUT, SILENT, QuestionRoles, ScoredAnswer, is_cut, roles_of, score_answers
from lamina.corpora import Questions
from lamina.corpora.question_sets import questions_from
from lamina.corpora.questions.question import Question
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import OneQuestion
from lamina.framework.settings import Seed, Setting
from lamina.models import SPECIAL, Activations, Encoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, layers_in_words, not_tested, number
from lamina.training.answering import answerer_of, refuse_unfit
from lamina.training.provenance import refuse_seen

Method = Literal["pca", "tsne", "ica"]
Fit = Literal["layer", "all"]
_PERPLEXITY = 30.0

States = Float[np.ndarray, "layer token width"]
LayerMask = Bool[np.ndarray, "layer token"]
Places = Float[np.ndarray, "layer token 2"]


def project(states: States, keep: LayerMask, method: Method, fit: Fit, *, seed: int) -> Places:
    """Where each token is drawn at each layer; NaN for what is not kept.

    One projection per layer, as in the paper, or one over the tokens of all layers. The sign of an axis is arbitrary;
    it is chosen so that tokens stay close to where they were one layer before.
    """
    if keep.sum(1).min() < 4:
        raise InputError("there are fewer than 4 tokens, too few to be drawn; give a longer context")
    places = np.full((*keep.shape, 2), np.nan)
    if fit == "all":
        places[keep] = _fitted(states[keep], method, seed)
        return places
    for layer, mask in enumerate(keep):
        places[layer, mask] = _fitted(states[layer, mask], method, seed)
        if layer:
            both = mask & keep[layer - 1]
            along = (places[layer, both] * places[layer - 1, both]).sum(0)
            places[layer] *= np.where(along < 0, -1, 1)
    return places


def explained(states: States, keep: LayerMask, places: Places) -> Float[np.ndarray, "layer 2"]:
    """The share of each layer's variance along each of the two axes, which must be orthonormal (PCA)."""
    shares = [
        places[layer, mask].var(0) / max(float(states[layer, mask].var(0).sum()), 1e-12)
        for layer, mask in enumerate(keep)
    ]
    return np.stack(shares)


def _fitted(points: Float[np.ndarray, "token width"], method: Method, seed: int) -> Float[np.ndarray, "token 2"]:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # FastICA that has not converged still gives a picture; its warning is of no use.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Scales of thousands (a decoder's middle layers) are no trouble in double precision.
        return _projector(method, len(points), seed).fit_transform(points.astype(np.float64))


def _projector(method: Method, tokens: int, seed: int) -> Any:
    if method == "tsne":
        from sklearn.manifold import TSNE

        return TSNE(2, perplexity=min(_PERPLEXITY, (tokens - 1) / 3), init="pca", random_state=seed)
    from sklearn.decomposition import PCA, FastICA

    if method == "ica":
        return FastICA(2, random_state=seed, max_iter=1000, tol=1e-3)
    return PCA(2, svd_solver="full")


OUTLIERS = f"tokens left out at some layer: their vectors are more than {TIMES:g} times as long as the median"
OTHER_TASK = "no task has a right and a wrong answer: the two questions are of different tasks"
ONE_KIND = "all answers are right, or all are wrong: only one question is shown"
_AT_ONCE = 32
"""Questions answered together while a right and a wrong answer are looked for."""
NO_GOLD = "questions without an accepted answer: neither gold nor support is known"


class _EncodedQuestion(NamedTuple):
    """One question inside a model."""

    question: Question
    activations: Activations
    states: torch.Tensor
    """[layer, token, width]"""
    keep: torch.Tensor
    """[layer, token] Where a token is no outlier."""
    roles: QuestionRoles
    judged: ScoredAnswer | None


@analysis(
    title="One question, layer by layer",
    question="What does each layer make of the tokens of a question and its context?",
    method=(
        "At each layer the vectors of all tokens are projected into two dimensions, after van Aken et al. (2019); "
        "clusters (k-means, the tightest of 50 starts) are found in the full space, and found again with other seeds. "
        "A token whose vector is more than ten times as long as the layer's median is left out."
    ),
    cites=("van Aken et al. 2019",),
    reads=OneQuestion(),
    # 2: one or two questions: `projection` says of which. 3: tightest of 50 starts, agreement over seeds.
    version=3,
    tables={
        "tokens": Table(
            "One row per token and layer.",
            "example method fit layer token word sentence question support gold predicted x y cluster",
        ),
        "projection": Table(
            "One row per question and layer; stability: mean adjusted Rand index of cluster memberships over 5 seeds.",
            "example layer tokens left_out explained_x explained_y clusters silhouette stability",
        ),
        "answer": Table(
            "One row per question, with the model's answer where it has a head that answers; start and end are "
            "characters of the context, empty where the answer is a class.",
            "example question accepted predicted start end confidence exact_match f1",
        ),
    },
    chapter="answering",
    takes=1,
    report={"both": True},
    example='lamina token-map minilm --question "Who barks?" --context "Dogs bark. Cats mew." --answer Dogs',
)
def token_map(
    encoder: Encoder,
    questions: Questions,
    *,
    example: Annotated[str | None, Setting("Id of the question; the first one by default.", metavar="ID")] = None,
    both: Annotated[
        bool,
        Setting(
            "Instead of one question: the first that the model answers correctly and the first that it answers "
            "incorrectly, of one task."
        ),
    ] = False,
    method: Annotated[Method, Setting("How tokens are projected into two dimensions.")] = "pca",
    fit: Annotated[Fit, Setting("One projection per layer, or one over all layers.")] = "layer",
    clusters: Annotated[
        int | None,
        Setting("Clusters per layer; by default the number from 2 to 8 with the highest silhouette.", min=2),
    ] = None,
    without_first: Annotated[
        bool,
        Setting("Leave the first token out of projections and clusters at every layer, as the paper did for GPT-2."),
    ] = False,
    seed: Seed = 0,
) -> Tables:
    """The tokens of one question, special ones too, at every layer: where they lie, their roles and clusters.

    A model that was fine-tuned to answer questions (`lamina finetune --task squad|hotpot|babi`) also gives its answer.
    A token whose vector is more than ten times as long as the layer's median is left out of projections and clusters:
    its place is empty, its cluster -1. With `both`, a question that the model could not answer stands beside one that
    it could; where there is no such pair within a task, the two are of different tasks, and where all answers are of
    one kind, only one is shown; either is counted.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> asked = lamina.load_questions("stories", "test", limit=1)
        >>> lamina.token_map(TinyEncoder(), asked).tables["projection"]["layer"].tolist()
        [0, 1, 2]
    """
    if both and example is not None:
        raise InputError("give either an example or both (a right and a wrong answer), not both of them")
    chosen = questions if example is None else questions.find(example)
    refuse_seen(encoder, chosen)
    refuse_unfit(encoder, questions.questions(), f"{questions.name} ({questions.split})")
    picked = _right_and_wrong(encoder, chosen) if both else _ChosenQuestions([*islice(chosen.questions(), 1)])
    if not picked.questions:
        raise CorpusError(f"{questions.name} ({questions.split}) has no questions")
    tables: dict[str, list[pd.DataFrame]] = {"tokens": [], "projection": [], "answer": []}
    left_out: Counter[str] = Counter()
    for question in picked.questions:
        encoded = _encode_question(encoder, question, without_first=without_first)
        states, keep = encoded.states.numpy(), encoded.keep.numpy()
        places = project(states, keep, method, fit, seed=seed)
        tried = _tried(clusters, int(keep.sum(1).min()))
        best = best_clusters(encoded.states, encoded.keep, tried, seed=seed)
        shares = explained(states, keep, places) if method == "pca" else np.full((len(states), 2), np.nan)
        tables["tokens"].append(_tokens(encoder, encoded, method, fit, places, best.labels.numpy()))
        tables["projection"].append(_projection(encoded, shares, best))
        tables["answer"].append(_answer(encoded))
        left_out.update(_left_out(encoded, encoder))
    together = {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}
    ids = ", ".join(question.text.id for question in picked.questions)
    return Tables(together, {**left_out, **picked.lacking}, data={"example": ids})


@token_map.finds
def _findings(result: Result) -> Iterable[Finding]:
    """One question is one unit: nothing about it can be tested, clusters that depend on the seed least of all."""
    projection = result.tables["projection"]
    known = projection[projection["silhouette"].notna()]
    if known.empty:
        return
    stable = known[known["stability"] >= STABLE]
    layers = layers_in_words(stable["layer"]) if len(stable) else "no layer"
    sample = "two questions are" if projection["example"].nunique() > 1 else "one question is"
    yield not_tested(
        "tokens form clearer clusters at one layer than at another",
        f"{sample} no sample; memberships agree over seeds (adjusted Rand index of {number(STABLE)} or more) at "
        f"{layers}",
        source=[Source("projection")],
    )


@token_map.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    """The question, its answers, and how much the picture shows."""
    projection = result.tables["projection"]
    for answer in result.tables["answer"].to_dict("records"):
        yield f"question   {answer['question']}"
        yield f"accepted   {answer['accepted'] or 'not known'}"
        if answer["predicted"]:
            yield f"predicted  {answer['predicted']} (confidence {answer['confidence']:.2f})"
    rows = [
        (example, *(cell(value) if isinstance(value, float) else int(value) for value in row))
        for example, *row in projection.itertuples(index=False)
    ]
    yield Overview("How much the map shows", tuple(projection.columns), rows)


@token_map.costs
def _cost(
    estimator: Estimator, encoder: Encoder, questions: Questions, *, example: str | None, both: bool, **_: object
) -> Cost:
    """One question is read, by the model and, where it has a head that answers, once more to answer it.

    How many are answered until one is right and one is wrong is not known: at least a batch of them.
    """
    if both:
        few = [*islice(questions.questions(), _AT_ONCE)]
        return estimator.reading(passes=2, data=questions_from(few, questions.name, questions.split))
    first = (question.text.id for question in questions.questions())
    chosen = questions.find(example or next(first))
    return estimator.reading(passes=1 + (answerer_of(encoder) is not None), data=chosen)


class _ChosenQuestions(NamedTuple):
    """The questions that are shown."""

    questions: list[Question]
    lacking: dict[str, int] = {}  # noqa: RUF012 - never changed
    """Why they are not as they were asked for -> 1."""


def _right_and_wrong(encoder: Encoder, questions: Questions) -> _ChosenQuestions:
    """The first question answered correctly and the first answered incorrectly, of the first task that has both."""
    answerer = answerer_of(encoder, questions.questions())
    if answerer is None:
        return _ChosenQuestions([*islice(questions.questions(), 1)])
    first: dict[tuple[str, bool], Question] = {}
    remaining = questions.questions()
    while chunk := [*islice(remaining, _AT_ONCE)]:
        for question, answer in zip(chunk, score_answers(answerer, chunk), strict=True):
            if answer.exact is None:
                continue
            right = answer.exact == 1
            first.setdefault((question.task, right), question)
            if (question.task, not right) in first:
                return _ChosenQuestions([first[question.task, True], first[question.task, False]])
    either = [
        next((question_ for (_, known), question_ in first.items() if known == right), None) for right in (True, False)
    ]
    chosen = [question_ for question_ in either if question_ is not None]
    if len(chosen) == 2:
        return _ChosenQuestions(chosen, {OTHER_TASK: 1})
    return _ChosenQuestions(chosen or [*islice(questions.questions(), 1)], {ONE_KIND: 1})


def _encode_question(encoder: Encoder, question: Question, *, without_first: bool) -> _EncodedQuestion:
    answerer = answerer_of(encoder, [question])
    answered = None if answerer is None else next(score_answers(answerer, [question]))
    activations = next(iter(encoder.encode([question.text])))
    if activations.states is None:
        raise ModelError(f"{encoder.name} gives no states, so there is nothing to map")
    roles = roles_of(question, answered.answer.span if answered else None).of_tokens(activations.tokens)
    keep = ordinary(activations.states).T
    if without_first:
        keep = keep.clone()
        keep[:, 0] = False
    return _EncodedQuestion(
        question, activations, activations.states.transpose(0, 1).contiguous(), keep, roles, answered
    )


def _tried(clusters: int | None, tokens: int) -> Sequence[int]:
    if clusters is None:
        return range(2, min(MOST, tokens - 1) + 1)
    if clusters >= tokens:
        raise InputError(f"{clusters} clusters are too many for {tokens} tokens")
    return [clusters]


def _tokens(
    encoder: Encoder, seen: _EncodedQuestion, method: str, fit: str, places: np.ndarray, labels: np.ndarray
) -> pd.DataFrame:
    tokens, words = seen.activations.tokens, seen.question.text.words
    named = encoder.names(tokens) or ["[special]"] * len(tokens.ids)
    words_of = [
        name if index == SPECIAL else words[index] for name, index in zip(named, tokens.words.tolist(), strict=True)
    ]
    layers, size = labels.shape
    columns = {
        "example": seen.question.text.id,
        "method": method,
        "fit": fit,
        "layer": np.repeat(np.arange(layers), size),
        "token": np.tile(np.arange(size), layers),
        "word": words_of * layers,
        "sentence": np.tile(seen.roles.sentence, layers),
        **{role: np.tile(getattr(seen.roles, role), layers) for role in ("question", "support", "gold", "predicted")},
        "x": places[..., 0].reshape(-1),
        "y": places[..., 1].reshape(-1),
        "cluster": labels.reshape(-1),
    }
    return pd.DataFrame(columns)


def _projection(seen: _EncodedQuestion, shares: np.ndarray, clusters: LayerClusters) -> pd.DataFrame:
    usable = seen.keep.sum(1).numpy()
    counts = [len(np.unique(layer_labels[layer_labels != LEFT_OUT])) for layer_labels in clusters.labels.numpy()]
    rows = zip(
        usable, seen.keep.shape[1] - usable, *shares.T, counts, clusters.silhouettes, clusters.stability, strict=True
    )
    columns = ["tokens", "left_out", "explained_x", "explained_y", "clusters", "silhouette", "stability"]
    table = pd.DataFrame(list(rows), columns=columns).rename_axis("layer").reset_index()
    table.insert(0, "example", seen.question.text.id)
    return table


def _answer(seen: _EncodedQuestion) -> pd.DataFrame:
    answered = seen.judged
    span = answered.answer.span if answered else None
    start, end = (None, None) if span is None else seen.question.characters(span)
    row = {
        "example": seen.question.text.id,
        "question": seen.question.question,
        "accepted": " | ".join(seen.question.answers),
        "predicted": answered.answer.text if answered else "",
        "start": start,
        "end": end,
        "confidence": answered.answer.confidence if answered else np.nan,
        "exact_match": np.nan if answered is None or answered.exact is None else answered.exact,
        "f1": np.nan if answered is None or answered.f1 is None else answered.f1,
    }
    return pd.DataFrame([row]).astype({"start": "Int64", "end": "Int64"})


def _left_out(seen: _EncodedQuestion, encoder: Encoder) -> dict[str, int]:
    usual = seen.keep if seen.activations.states is None else ordinary(seen.activations.states).T
    in_words = seen.judged is not None and seen.judged.answer.span is not None
    windows = seen.activations.windows
    return {
        OUTLIERS: int((~usual).any(0).sum()),
        encoder.replaced: seen.activations.tokens.unknown,
        "overlapping windows, since the text is longer than the model takes": windows if windows > 1 else 0,
        CUT: int(in_words and is_cut(seen.activations.tokens, seen.question)),
        SILENT: int(seen.judged is None),
        NO_GOLD: int(not seen.question.answers),
    }

"""What language models say about typed text: minimal pairs, gaps, and every layer through the head (logit lens)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import exp, isnan, log2
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.errors import InputError
from lamina.web.api.schema import ERRORS, Typed
from lamina.web.state import AppState, State, TooLongError
from lamina.web.workers import in_worker

if TYPE_CHECKING:
    from lamina.models.language.language_model import LanguageModel, PassageScore, WrittenPassage

MOST_TOKENS = 256
"""Per text: a masked model reads it once for each of its tokens."""
MOST_MODELS = 6
MOST_CANDIDATES = 50
MOST_TOP = 50
"""Answers listed for a gap."""
MOST_GRID = 10
"""Tokens listed per token and layer."""
_DIGITS = 6

router = APIRouter(
    prefix="/behaviour",
    tags=["behaviour"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 409, 413, 422, 429, 503, 504)},
)
Name = Annotated[Typed, Field(max_length=1000)]
LongText = Annotated[Typed, Field(max_length=1_000_000)]
Masking = Literal["piece", "word"]
Candidate = Annotated[Typed, Field(max_length=200)]


class TypedPair(BaseModel):
    """Two sentences, the good one first, and the models that are asked."""

    models: list[Name] = Field(min_length=1, max_length=MOST_MODELS)
    good: LongText
    bad: LongText
    masking: Masking = "piece"
    """Hidden from a masked model: the token asked for, or with it the later tokens of its word."""


class WordScore(BaseModel):
    """A word, punctuation apart, and how likely it is."""

    word: str
    logprob: float | None
    """Natural logarithm, summed over its tokens; null for a word without tokens."""


class SentenceScore(BaseModel):
    """How likely one sentence is."""

    logprob: float
    """Natural logarithm; of a masked model the pseudo-log-likelihood."""
    per_token: float
    """The same divided by the number of tokens."""
    pieces: int
    words: list[WordScore]


class PairVerdict(BaseModel):
    """What one model makes of a pair."""

    model: str
    kind: Literal["causal", "masked"]
    good: SentenceScore
    bad: SentenceScore
    right: float
    """1 where the good sentence is the likelier one, 0 where the bad one is, 0.5 for a tie."""
    right_per_token: float
    margin: float
    """Log-probability of the good sentence minus that of the bad one."""


class TypedCloze(BaseModel):
    """A text with one gap, written [MASK], [Y] or ___, and the models that are asked."""

    models: list[Name] = Field(min_length=1, max_length=MOST_MODELS)
    text: LongText
    candidates: list[Candidate] = Field(default=[], max_length=MOST_CANDIDATES)
    top: int = Field(10, ge=1, le=MOST_TOP)


class TokenGuess(BaseModel):
    """A token that a model would say."""

    piece: str
    probability: float


class RatedCandidate(BaseModel):
    """A candidate in the gap."""

    word: str
    logprob: float
    """Natural logarithm, summed over its tokens."""
    pieces: int
    rank: int
    """1 where no token of the vocabulary is likelier."""


class ClozeAnswer(BaseModel):
    """What one model says in a gap."""

    model: str
    kind: Literal["causal", "masked"]
    sees_after: bool
    """Whether it sees what follows the gap: masked models do."""
    top: list[TokenGuess]
    candidates: list[RatedCandidate]
    """In the order given."""


class LensText(BaseModel):
    """A text, and the model whose layers are put through its head."""

    model: Name
    text: LongText
    top: int = Field(5, ge=1, le=MOST_GRID)


class GridCell(BaseModel):
    """What one layer says in the place of one token."""

    top: list[TokenGuess]
    actual: float | None
    """Probability of the token itself; null after the end of the text."""
    kl: float
    """Of the last layer's distribution from this one, in nats."""


class LogitLens(BaseModel):
    """A text as a grid of tokens and layers; layer 0 is the embedding layer, the last one the model's own answer."""

    model: str
    kind: Literal["causal", "masked"]
    tokens: list[str]
    """A causal model tells each from those before it, and what follows the text, whose token is empty; from a masked
    model each is hidden in turn."""
    layers: int
    cells: list[list[GridCell]]
    """[token][layer]"""
    reached: list[int]
    """For each token, the layer from which on the most likely token is the final one."""
    surprisal: list[float | None]
    """Of each token under the last layer, in bits; null after the end of the text, or where its probability is 0."""


@router.post("/pairs")
@in_worker
def pairs(app: State, request: TypedPair) -> list[PairVerdict]:
    """Which of two sentences each model finds likelier, as `lamina pairs` scores them, and how likely each word is."""
    from lamina.corpora.suites.minimal_pairs import pairs_from

    app.check_length(request.good, request.bad)
    pair = pairs_from([(request.good, request.bad)], name="the typed pair").pairs[0]
    verdicts = []
    for name in _once(request.models):
        with _speaking(app, name) as model:
            _check_tokens(model, pair.good, pair.bad)
            verdicts.append(_verdict(name, model, pair.good, pair.bad, request.masking))
    return verdicts


@router.post("/cloze")
@in_worker
def cloze(app: State, request: TypedCloze) -> list[ClozeAnswer]:
    """What each model says in the gap of a text, and how likely the candidates are, as `lamina cloze` rates them."""
    from lamina.corpora.suites.cloze import split_slot

    app.check_length(request.text, *request.candidates)
    before, after = split_slot(request.text, Path("the typed text"), 1)
    answers = []
    for name in _once(request.models):
        with _speaking(app, name) as model:
            _check_tokens(model, request.text)
            answers.append(_answer(name, model, before, after, request))
    return answers


@router.post("/logit_lens")
@in_worker
def logit_lens(app: State, request: LensText) -> LogitLens:
    """Every layer of a text through the model's own head, token by token, as `lamina lens --text` prints it."""
    from lamina.analyses.behaviour.layer_predictions import token_table

    app.check_length(request.text)
    with _speaking(app, request.model) as model:
        _check_tokens(model, request.text)
        layers = model.encoder.layers
        rows = list(token_table(model, request.text, None, request.top))
    tokens: dict[int, str] = {}
    grid: dict[tuple[int, int], GridCell] = {}
    surprisal: dict[int, float | None] = {}
    for token, index, layer, _, _, piece, probability, actual, kl in rows:
        tokens[index] = token
        # Of the last layer, which comes last.
        surprisal[index] = round(-log2(actual), _DIGITS) if actual > 0 else None
        known = None if isnan(actual) else round(actual, _DIGITS)
        cell = grid.setdefault((index, layer), GridCell(top=[], actual=known, kl=round(kl, _DIGITS)))
        cell.top.append(TokenGuess(piece=piece, probability=round(probability, _DIGITS)))
    cells = [[grid[index, layer] for layer in range(layers)] for index in tokens]
    return LogitLens(
        model=request.model,
        kind=model.kind,
        tokens=list(tokens.values()),
        layers=layers,
        cells=cells,
        reached=[_reached([cell.top[0].piece for cell in token_cells]) for token_cells in cells],
        surprisal=[surprisal[index] for index in tokens],
    )


@contextmanager
def _speaking(app: AppState, name: str) -> Iterator[LanguageModel]:
    """The model with its language-model head; one that has none is refused in words."""
    from lamina.models.language.language_model import language_model

    with app.model(name) as encoder:
        yield language_model(encoder)


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _check_tokens(model: LanguageModel, *texts: str) -> None:
    """Refuse what would take a masked model minutes, and texts without anything to score."""
    from lamina.models.language.language_model import WrittenPassage, cut_passages

    passages = [WrittenPassage.typed("typed", text) for text in texts]
    for text, cut in zip(texts, cut_passages(model, passages), strict=True):
        size = len(cut.tokens.ids) - cut.head - cut.tail
        if not size or not text.strip():
            raise InputError(f"{model.name} has no tokens for {text!r:.60}; type some words")
        if size > MOST_TOKENS:
            raise TooLongError(f"the text has {size:,} tokens of {model.name}; at most {MOST_TOKENS} are taken here")


def _verdict(name: str, model: LanguageModel, good: str, bad: str, masking: Masking) -> PairVerdict:
    import numpy as np

    from lamina.analyses.behaviour.judging import ScoredPairs
    from lamina.models.language.language_model import score_passages
    from lamina.targets.loss import written

    passages = [written(sentence) for sentence in (good, bad)]
    both = list(score_passages(model, passages, masking=masking))
    totals, pieces = ([np.array([getattr(score, name)]) for score in both] for name in ("total", "pieces"))
    verdicts = ScoredPairs(totals[0], totals[1], pieces[0], pieces[1]).verdicts()
    sentences = [_sentence(passage, score) for passage, score in zip(passages, both, strict=True)]
    return PairVerdict(
        model=name,
        kind=model.kind,
        good=sentences[0],
        bad=sentences[1],
        right=float(verdicts.value["plain"][0]),
        right_per_token=float(verdicts.value["per_token"][0]),
        margin=round(float(verdicts.margin["plain"][0]), _DIGITS),
    )


def _sentence(passage: WrittenPassage, scored: PassageScore) -> SentenceScore:
    words = [passage.text[start:stop] for start, stop in passage.spans]
    return SentenceScore(
        logprob=round(scored.total, _DIGITS),
        per_token=round(scored.total / scored.pieces, _DIGITS),
        pieces=scored.pieces,
        words=[
            WordScore(word=word, logprob=None if isnan(value) else round(value, _DIGITS))
            for word, value in zip(words, scored.by_span.tolist(), strict=True)
        ],
    )


def _answer(name: str, model: LanguageModel, before: str, after: str, request: TypedCloze) -> ClozeAnswer:
    from lamina.models.language.slots import Gap, rate, top

    slot = Gap("the typed text", before, after)
    words = [word.strip() for word in request.candidates]
    candidates = []
    if words:
        rated = next(rate(model, [slot], [words]))
        numbers = zip(words, rated.logprobs.tolist(), rated.pieces.tolist(), strict=True)
        candidates = [
            RatedCandidate(word=word, logprob=round(logprob, _DIGITS), pieces=pieces, rank=rated.rank(index))
            for index, (word, logprob, pieces) in enumerate(numbers)
        ]
    guesses = [
        TokenGuess(piece=guess.piece, probability=round(exp(guess.logprob), _DIGITS))
        for guess in next(top(model, [slot], request.top))
    ]
    return ClozeAnswer(
        model=name, kind=model.kind, sees_after=model.kind == "masked", top=guesses, candidates=candidates
    )


def _reached(pieces: Sequence[str]) -> int:
    """The layer from which on the most likely token is the final one.

    Example:
        >>> _reached(["a", "dog", "cat", "dog", "dog"])
        3
    """
    last = len(pieces) - 1
    while last and pieces[last - 1] == pieces[-1]:
        last -= 1
    return last

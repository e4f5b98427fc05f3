"""One question at every layer: its tokens in two dimensions, their roles and clusters (figures 1 to 5, 8 and 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from lamina.analyses.questions.answering import CUT, SILENT, Judged, answerer_of, is_cut, judged
from lamina.analyses.questions.clusters import MOST, best_clusters
from lamina.analyses.questions.outliers import TIMES, ordinary
from lamina.analyses.questions.projection import Fit, Method, explained, project
from lamina.analyses.questions.reading import Questions
from lamina.analyses.questions.roles import Roles, roles_of
from lamina.analyses.unseen import refuse_seen
from lamina.corpora.questions import Question
from lamina.encoders import SPECIAL, Activations, Encoder
from lamina.errors import InputError, ModelError
from lamina.results import Provenance, Result

LEFT_OUT = -1
"""The cluster of an outlier."""
OUTLIERS = f"tokens left out at some layer: their vectors are more than {TIMES:g} times as long as the median"
NO_GOLD = "questions without an accepted answer: neither gold nor support is known"


class _Seen(NamedTuple):
    """One question inside a model."""

    question: Question
    activations: Activations
    states: torch.Tensor
    """[layer, token, width]"""
    keep: torch.Tensor
    """[layer, token] Where a token is no outlier."""
    roles: Roles
    judged: Judged | None


def token_map(
    encoder: Encoder,
    questions: Questions,
    *,
    example: str | None = None,
    method: Method = "pca",
    fit: Fit = "layer",
    clusters: int | None = None,
    seed: int = 0,
) -> Result:
    """The tokens of one question, special ones too, at every layer.

    Tables: `tokens` (a row a token and layer: where it is drawn, its roles, its sentence, its cluster), `projection`
    (a row a layer: how much the picture shows) and `answer` (`start` and `end` are characters of the context). A token
    whose vector is more than ten times as long as the layer's median is left out of fits and clusters: its place is
    empty, its cluster -1.

    Args:
        encoder: whose layers; where it was fine-tuned to answer questions, its answer is there too.
        questions: where the question is.
        example: the question's id; the first by default.
        method: pca, tsne or ica.
        fit: one for each layer, as the paper, or one over all layers together.
        clusters: how many; by default the number from 2 to 8 with the highest silhouette, layer by layer.
        seed: of t-SNE, FastICA and k-means.
    """
    if clusters is not None and clusters < 2:
        raise InputError(f"k-means needs at least 2 clusters; got {clusters}")
    chosen = questions if example is None else questions.find(example)
    refuse_seen(encoder, chosen)
    seen = _see(encoder, next(iter(chosen.questions())))
    states, keep = seen.states.numpy(), seen.keep.numpy()
    places = project(states, keep, method, fit, seed=seed)
    tried = _tried(clusters, int(keep.sum(1).min()))
    labels, silhouettes = best_clusters(seen.states, seen.keep, tried, seed=seed)
    shares = explained(states, keep, places) if method == "pca" else np.full((len(states), 2), np.nan)
    tables = {
        "tokens": _tokens(encoder, seen, method, fit, places, labels.numpy()),
        "projection": _projection(seen, shares, labels.numpy(), silhouettes),
        "answer": _answer(seen),
    }
    settings = {"example": example, "method": method, "fit": fit, "clusters": clusters, "seed": seed}
    about = questions.describe() | {"example": seen.question.text.id}
    provenance = Provenance(encoder.describe(), about, settings, (seed,), _left_out(seen))
    return Result("token_map", tables, provenance)


def _see(encoder: Encoder, question: Question) -> _Seen:
    answerer = answerer_of(encoder)
    answered = None if answerer is None else next(judged(answerer, [question]))
    activations = next(iter(encoder.encode([question.text])))
    if activations.states is None:
        raise ModelError(f"{encoder.name} gives no states, so there is nothing to map")
    roles = roles_of(question, answered.answer.span if answered else None).of_tokens(activations.tokens)
    keep = ordinary(activations.states).T
    return _Seen(question, activations, activations.states.transpose(0, 1).contiguous(), keep, roles, answered)


def _tried(clusters: int | None, tokens: int) -> Sequence[int]:
    if clusters is None:
        return range(2, min(MOST, tokens - 1) + 1)
    if clusters >= tokens:
        raise InputError(f"{clusters} clusters are too many for {tokens} tokens")
    return [clusters]


def _tokens(
    encoder: Encoder, seen: _Seen, method: str, fit: str, places: np.ndarray, labels: np.ndarray
) -> pd.DataFrame:
    tokens, words = seen.activations.tokens, seen.question.text.words
    named = encoder.names(tokens) or ["[special]"] * len(tokens.ids)
    said = [name if at == SPECIAL else words[at] for name, at in zip(named, tokens.words.tolist(), strict=True)]
    layers, size = labels.shape
    columns = {
        "example": seen.question.text.id,
        "method": method,
        "fit": fit,
        "layer": np.repeat(np.arange(layers), size),
        "token": np.tile(np.arange(size), layers),
        "word": said * layers,
        "sentence": np.tile(seen.roles.sentence, layers),
        **{role: np.tile(getattr(seen.roles, role), layers) for role in ("question", "support", "gold", "predicted")},
        "x": places[..., 0].reshape(-1),
        "y": places[..., 1].reshape(-1),
        "cluster": labels.reshape(-1),
    }
    return pd.DataFrame(columns)


def _projection(seen: _Seen, shares: np.ndarray, labels: np.ndarray, silhouettes: np.ndarray) -> pd.DataFrame:
    kept = seen.keep.sum(1).numpy()
    found = [len(np.unique(own[own != LEFT_OUT])) for own in labels]
    rows = zip(kept, seen.keep.shape[1] - kept, *shares.T, found, silhouettes, strict=True)
    columns = ["tokens", "left_out", "explained_x", "explained_y", "clusters", "silhouette"]
    return pd.DataFrame(list(rows), columns=columns).rename_axis("layer").reset_index()


def _answer(seen: _Seen) -> pd.DataFrame:
    answered = seen.judged
    start, end = seen.question.characters(answered.answer.span) if answered else (None, None)
    said = {
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
    return pd.DataFrame([said]).astype({"start": "Int64", "end": "Int64"})


def _left_out(seen: _Seen) -> dict[str, int]:
    outliers = int((~seen.keep).any(0).sum())
    windows = seen.activations.windows
    return {
        OUTLIERS: outliers,
        "words without a piece, replaced by the unknown token": seen.activations.tokens.unknown,
        "overlapping windows, since the text is longer than the model takes": windows if windows > 1 else 0,
        CUT: int(seen.judged is not None and is_cut(seen.activations.tokens, seen.question)),
        SILENT: int(seen.judged is None),
        NO_GOLD: int(not seen.question.answers),
    }

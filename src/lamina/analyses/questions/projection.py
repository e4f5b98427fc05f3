"""Tokens in two dimensions."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from lamina.errors import InputError

Method = Literal["pca", "tsne", "ica"]
Fit = Literal["layer", "all"]
METHODS = {"pca": "PCA", "tsne": "t-SNE", "ica": "FastICA"}
"""What figures call them."""
_PERPLEXITY = 30.0

States = Float[np.ndarray, "layer token width"]
Kept = Bool[np.ndarray, "layer token"]
Places = Float[np.ndarray, "layer token 2"]


def project(states: States, keep: Kept, method: Method, fit: Fit, *, seed: int) -> Places:
    """Where each token is drawn at each layer; not a number for what is not kept.

    One fit a layer, as the paper, or one over the tokens of all layers. An axis points either way; it is turned so
    that tokens stay, as far as they can, where they were one layer before.
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; use {', '.join(METHODS)}")
    if keep.sum(1).min() < 4:
        raise InputError("there are fewer than 4 tokens, too few to be drawn; give a longer context")
    places = np.full((*keep.shape, 2), np.nan)
    if fit == "all":
        places[keep] = _fitted(states[keep], method, seed)
        return places
    for layer, kept in enumerate(keep):
        places[layer, kept] = _fitted(states[layer, kept], method, seed)
        if layer:
            both = kept & keep[layer - 1]
            along = (places[layer, both] * places[layer - 1, both]).sum(0)
            places[layer] *= np.where(along < 0, -1, 1)
    return places


def explained(states: States, keep: Kept, places: Places) -> Float[np.ndarray, "layer 2"]:
    """The share of each layer's variance along each of the two axes, which must be orthonormal (PCA)."""
    shares = [
        places[layer, kept].var(0) / max(float(states[layer, kept].var(0).sum()), 1e-12)
        for layer, kept in enumerate(keep)
    ]
    return np.stack(shares)


def _fitted(points: Float[np.ndarray, "token width"], method: Method, seed: int) -> Float[np.ndarray, "token 2"]:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # FastICA that has not settled after so many rounds is still a picture, and says so to nobody's use.
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

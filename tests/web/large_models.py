"""Models of 32 x 32 and 48 x 64 heads, with roles for all of them: what a large model looks like, without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from lamina.analyses.heads.behaviours import BEHAVIOURS
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder


def tiny(name: str, blocks: int, heads: int) -> TinyEncoder:
    """A tiny encoder with as many heads as a large model."""
    encoder = TinyEncoder(blocks=blocks, heads=heads, width=2 * heads)
    encoder.name = name
    return encoder


def save_roles(encoder: TinyEncoder, folder: Path) -> None:
    """A map of heads with roles drawn at random."""
    draw = np.random.default_rng(0)
    shape = (encoder.blocks, encoder.heads)
    layer, head = (each.ravel() + 1 for each in np.indices(shape))
    shares = [0.01, 0.05, 0.01, 0.05, 0.04, 0.08, 0.15, 0.04, 0.17, 0.4]
    roles = draw.choice(np.array(BEHAVIOURS), p=shares, size=layer.size)
    x, y = draw.normal(size=(2, layer.size))
    points = pd.DataFrame({"layer": layer, "head": head, "x": x, "y": y, "behaviour": roles})
    found = points[points["behaviour"] != "other"].drop(columns=["x", "y"])
    found = found.assign(
        what="", value=0.7, over=0.5, difference=np.nan, diff_low=np.nan, diff_high=np.nan, p_adjusted=1.0
    )
    pairs = pd.DataFrame(columns=["layer_a", "head_a", "layer_b", "head_b", "value", "mean", "low", "high"])
    about = Provenance(
        {"name": encoder.name, "fingerprint": encoder.fingerprint},
        {"name": "ewt", "split": "dev", "fingerprint": "c"},
        {"weights": "attention"},
    )
    tables = {"points": points, "behaviours": found, "divergences": pairs}
    Result("headmap", tables, about).save(folder, charts=False)

"""What `attention` says of layers: sinks, types of map, and whether the loss hangs on them."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.analyses.attention_maps.attention import attention
from lamina.analyses.attention_maps.head_means import LAYERS
from lamina.analyses.attention_maps.surface import SURFACE
from lamina.findings import Finding
from lamina.results import Provenance, Result

HEAD = (1, 1, "entropy", 1.0, 0.9, 1.1, 3.0)
OTHER = (2, 1, "entropy", 2.5, 2.4, 2.6, 3.0)


def found(*layers: tuple[int, str, str, float, float, float, float]) -> tuple[Finding, ...]:
    tables = {
        "surface": pd.DataFrame([HEAD, OTHER], columns=list(SURFACE)),
        "layers": pd.DataFrame(layers, columns=list(LAYERS)),
    }
    about = {"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}
    return attention.findings(Result("attention", tables, Provenance(*about, {})))


NAN = float("nan")
SINK = (3, "surface", "to_first", 0.7, 0.68, 0.72, 0.1)


def test_a_sink_is_told_with_the_layers_own_interval():
    sink, _ = found(SINK, (2, "surface", "to_first", 0.3, 0.2, 0.4, 0.1))
    assert sink.text == (
        "The strongest sink is at layer 3: its heads give .70 [.68, .72] of their attention to the first token; "
        "uniform attention would give .10."
    )


def test_the_layer_with_most_maps_of_one_type_is_told_beside_all_layers():
    told, _ = found(
        (1, "patterns", "vertical", 0.2, 0.15, 0.25, NAN),
        (2, "patterns", "vertical", 0.6, 0.55, 0.65, NAN),
        (1, "patterns", "heterogeneous", 0.8, 0.75, 0.85, NAN),
        (2, "patterns", "heterogeneous", 0.4, 0.35, 0.45, NAN),
    )
    assert told.status == "clear"
    assert told.text == (
        "Layer 2 has most maps of one type: .60 [.55, .65] of its heads' maps are vertical; over all layers .40 are."
    )


def test_the_narrowest_head_stands_beside_the_broadest():
    (breadth,) = found((1, "surface", "to_self", 0.1, 0.1, 0.1, 0.1))
    assert breadth.text == (
        "The narrowest head is 1-1: entropy 1.00 [.90, 1.10] nats; the broadest, 2-1, has 2.50 [2.40, 2.60], and "
        "uniform attention 3.00."
    )
    assert breadth.status == "clear"


@pytest.mark.parametrize(
    ("own", "status", "words"),
    [
        ((0.004, 0.003, 0.005), "clear", "hangs less on that"),
        ((0.040, 0.035, 0.045), "clear", "hangs more on that"),
        ((0.011, 0.008, 0.014), "open", "may hang on that as much"),
        ((0.0121, 0.0119, 0.0123), "null", "hangs on that as much"),
    ],
)
def test_whether_the_loss_hangs_on_a_sink_is_told_by_both_intervals(own, status: str, words: str):
    spread = (0.0118, 0.0122) if status == "null" else (0.010, 0.014)
    gradients = (
        (3, "gradients", "first", *own, NAN),
        (3, "gradients", "other", 0.012, *spread, NAN),
        (2, "gradients", "first", 9.0, 9.0, 9.0, NAN),
        (2, "gradients", "other", 1.0, 1.0, 1.0, NAN),
    )
    _, told = found(SINK, *gradients)
    assert told.status == status
    assert told.text.startswith("Layer 3 gives most attention to the first token (.70), and the loss ")
    assert words in told.text
    assert "against .0120 [" in told.text

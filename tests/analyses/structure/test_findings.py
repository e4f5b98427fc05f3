"""What structural probes show in words."""

from __future__ import annotations

import pandas as pd

from lamina.analyses.structure.findings import best_layer, tell_findings
from lamina.analyses.structure.probing import TRAINING
from lamina.results import Provenance, Result

SCORES = ("layer", "rank", "of", "seed", "measure", "value", "low", "high")


def told(losses: dict[int, float], scores: list[tuple], constant: float = 1.1) -> list:
    training = [(layer, 64, "model", 0, "distance", loss, constant, 9, True) for layer, loss in losses.items()]
    tables = {
        "structure": pd.DataFrame(scores, columns=list(SCORES)),
        "training": pd.DataFrame(training, columns=list(TRAINING)),
    }
    return list(tell_findings(Result("structure", tables, Provenance({"name": "m"}, {"name": "c"}, {}))))


def test_the_best_layer_is_chosen_by_loss_and_not_by_score():
    training = pd.DataFrame(
        [(layer, 64, "model", 0, "distance", loss, 1.1, 9, True) for layer, loss in ((2, 0.9), (3, 0.8), (4, 1.0))],
        columns=list(TRAINING),
    )
    assert best_layer(training) == 3
    assert best_layer(training.assign(converged=False)) is None


def test_a_layer_that_fits_no_better_than_a_constant_is_named():
    scores = [(3, 64, "model", 0, "uuas", 0.6, 0.58, 0.62), (None, None, "chain", None, "uuas", 0.4, 0.39, 0.41)]
    clear, caution = told({3: 0.8, 5: 1.3, 6: 1.5}, scores)
    assert clear.status == "clear"
    assert "layer 3: UUAS .60 [.58, .62]; words in a row .40" in clear.text
    assert caution.status == "null"
    assert caution.text.startswith(
        "At layers 5, 6 the probe of distances fits no better than one distance for all pairs"
    )
    assert "loss up to 1.50, of the constant 1.10" in caution.text
    assert len(told({3: 0.8}, scores)) == 1

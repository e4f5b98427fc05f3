"""What structural probes show in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.layers.structure.attention_trees import TREE_CONTRASTS
from lamina.analyses.layers.structure.attention_trees import contrast_rows as tree_contrast_rows
from lamina.analyses.layers.structure.probing import (
    BEST,
    CONTRASTS,
    STRUCTURE,
    TRAINING,
    UUAS,
    ResampledScore,
    best_rows,
    contrast_rows,
)
from lamina.analyses.layers.structure.structure import first_layer, tell_findings
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.stats import Units

UNITS = Units.of([f"d{number}" for number in range(40)], "document")
WEIGHTS = UNITS.weights(samples=300, seed=0).astype(float)


def scored(shares: dict[tuple[str, int | None, str], float], noise: float = 0.05) -> dict:
    """Scores of 40 documents of 20 links that hardly differ between documents."""
    scores = {}
    for number, (key, share) in enumerate(shares.items()):
        hits = share + np.random.default_rng(number).normal(0, noise, 40)
        hits += share - hits.mean()
        scores[key] = [ResampledScore(float(hits.mean()), WEIGHTS @ hits / WEIGHTS.sum(1))]
    return scores


def told(scores: dict, training: Sequence[tuple] = (), trees: dict | None = None) -> list[Finding]:
    tables = {
        "structure": pd.DataFrame(columns=list(STRUCTURE)),
        "best": pd.DataFrame(best_rows(scores, UNITS), columns=list(BEST)),
        "contrasts": pd.DataFrame(contrast_rows(scores, UNITS), columns=list(CONTRASTS)),
        "training": pd.DataFrame(training, columns=list(TRAINING)),
    }
    if trees:
        tables["tree_contrasts"] = pd.DataFrame(tree_contrast_rows(trees, UNITS), columns=list(TREE_CONTRASTS))
    return list(tell_findings(Result("structure", tables, Provenance({"name": "m"}, {"name": "c"}, {}))))


def of_layers(measure: str, model: list[float], chain: float, twin: float) -> dict:
    shares = {("model", layer, measure): share for layer, share in enumerate(model)}
    shares |= {("twin", layer, measure): twin for layer in range(len(model))}
    return shares | {("chain", None, measure): chain}


def test_wrong_4_the_layer_of_lowest_loss_is_not_called_best() -> None:
    """Layer 2 has the lowest loss and .33 of roots, layer 1 has .46."""
    scores = scored(of_layers("root", [0.2, 0.46, 0.33], 0.26, 0.25))
    training = [(layer, 64, "model", 0, "depth", loss, 1.1, 9, True) for layer, loss in enumerate((0.9, 0.8, 0.7))]
    links, roots = told(scores, training)
    assert links.status == "untested"
    assert roots.status == "clear"
    assert (
        roots.claim == "Roots of sentences are found best at layer 1: layer 1 finds 46 % of them, words in a row 26 %"
    )


def test_layers_that_cannot_be_told_apart_are_all_named_or_none() -> None:
    several = told(scored(of_layers(UUAS, [0.4, 0.7, 0.7], 0.43, 0.45)))[0]
    assert "are found best at layers 1 and 2: " in several.claim
    none = told(scored(of_layers(UUAS, [0.7, 0.7, 0.7], 0.43, 0.45)))[0]
    assert none.claim.startswith("No layer was shown to find links between words better than another: layer ")


def test_a_claim_is_of_the_baseline_that_it_is_least_surely_ahead_of() -> None:
    (found, *_) = told(scored(of_layers(UUAS, [0.5, 0.6], 0.2, 0.6), noise=0.2))
    assert found.status == "open"
    assert "than the untrained twin" in found.text
    assert found.source[0].where["against"] == "twin"


def test_layers_below_their_twin_are_named() -> None:
    found = told(scored(of_layers(UUAS, [0.7, 0.3, 0.2], 0.3, 0.45)))
    (below,) = [each for each in found if "random weights" in each.text]
    assert below.claim == "Layers 1 and 2 find fewer links between words than with random weights"
    assert (below.status, below.high is not None and below.high < 0) == ("clear", True)


def test_a_probe_without_score_is_no_candidate() -> None:
    scores = scored(of_layers(UUAS, [0.5, 0.9], 0.3, 0.3))
    scores["model", 1, UUAS] = [scores["model", 1, UUAS][0]._replace(value=float("nan"))]
    training = [(layer, 64, "model", 0, "distance", 0.9, 1.1, 9, layer == 0) for layer in (0, 1)]
    found = told(scores, training)[0]
    assert found.claim.startswith("Links between words are found at layer 0: layer 0 finds 50 %")
    assert "Probes of layer 1 had not converged" in found.text


def test_a_layer_that_fits_no_better_than_a_constant_is_named() -> None:
    losses = {3: 0.8, 5: 1.3, 6: 1.5}
    training = [(layer, 64, "model", 0, "distance", loss, 1.1, 9, True) for layer, loss in losses.items()]
    (caution,) = [each for each in told({}, training) if "fit no better" in each.text]
    assert caution.status == "untested"
    assert caution.text.startswith("It was not tested whether layers 5 and 6 hold tree distances: ")


@pytest.mark.parametrize(("lead", "status"), [(3.0, "clear"), (0.0, "open")])
def test_attention_is_compared_with_the_hardest_baseline(lead: float, status: str) -> None:
    rng = np.random.default_rng(0)
    words = np.full(40, 20.0)

    def right(share: float) -> np.ndarray:
        return np.stack([rng.normal(20 * share, 2, 40), words], 1)

    trees = {"right_branching": right(0.3), "offset": right(0.35), "attention_best_head": right(0.36)}
    trees["attention_combined"] = np.stack([trees["offset"][:, 0] + rng.normal(lead, 2, 40), words], 1)
    found = [each for each in told({}, trees=trees) if "combination" in each.text]
    assert [each.status for each in found] == [status]
    assert found[0].source[0].where["against"] == "offset"


def test_the_first_layer_is_the_one_with_the_best_score() -> None:
    best = pd.DataFrame(best_rows(scored(of_layers(UUAS, [0.4, 0.7, 0.6], 0.4, 0.4)), UNITS), columns=list(BEST))
    assert first_layer(best, UUAS) == 1
    assert first_layer(best, "root") is None

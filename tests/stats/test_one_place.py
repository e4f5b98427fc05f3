"""Inference stands in `lamina.stats` and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import lamina

SOURCE = Path(lamina.__file__).parent
CUTS = {"quantile", "nanquantile", "percentile", "nanpercentile", "multinomial"}
"""Functions that cut intervals or draw units."""
TESTS = {
    "beta", "binom", "binomtest", "bootstrap", "chi2", "f", "false_discovery_control", "ks_2samp", "mannwhitneyu",
    "ndtr", "ndtri", "norm", "pearsonr", "permutation_test", "rankdata", "spearmanr", "stdtr", "stdtrit", "t",
    "ttest_1samp", "ttest_rel", "wilcoxon",
}  # fmt: skip
"""What scipy has for inference."""
NO_INFERENCE = {
    ("models/contract.py", "quantile"): "how far two models' numbers are apart: a tolerance",
}
"""(file, name) -> why it may stand there."""


def _uses(path: Path) -> set[str]:
    """Names of inference that a file uses."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in CUTS:
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module in ("scipy.stats", "scipy.special"):
            names.update(alias.name for alias in node.names if alias.name in TESTS)
        elif isinstance(node, ast.ImportFrom) and node.module == "scipy" and "stats" in [a.name for a in node.names]:
            names.add("scipy.stats")
    return names


def test_only_stats_resamples_tests_corrects_or_cuts() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "stats"
        for name in _uses(path)
    }
    assert found - NO_INFERENCE.keys() == set()
    assert NO_INFERENCE.keys() - found == set(), "an exception that nobody needs any more"


def test_every_public_name_is_there() -> None:
    assert [name for name in lamina.stats.__all__ if not hasattr(lamina.stats, name)] == []

"""Inference in one place: what varies, how it is resampled, compared, tested, corrected and called.

No other folder cuts an interval, draws units, flips signs or corrects p-values. docs/methods/statistics.md says which
analysis uses what. Names are loaded on first use: scipy takes longer to import than a finding to read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.stats.best import BestSet, CrossFit, Leads, Regrets, best_set, cross_fit, leads, regrets
    from lamina.stats.bootstrap import StreamedBootstrap, draws_table, normal_draws, ratio_draws
    from lamina.stats.correlations import kendall_correlation, rank_correlation
    from lamina.stats.family import (
        Contrasts,
        alike_in_all_units,
        bootstrap_family,
        chance_family,
        drawn_contrast,
        paired_difference,
        permutation_family,
        random_signs,
        ratio_differences,
        sign_flip_family,
        sign_flip_strata,
    )
    from lamina.stats.intervals import (
        column_intervals,
        first_possible,
        interval,
        ratio_intervals,
        share_interval,
        student_interval,
        widened_intervals,
        widening,
    )
    from lamina.stats.seeds import (
        ENOUGH_SEEDS,
        draws_over_seeds,
        seed_interval,
        seed_ratio_interval,
        seed_shares,
        shared_by_seeds,
    )
    from lamina.stats.status import LEAST_UNITS, NEGLIGIBLE, SURE, Contrast, Status, status_of
    from lamina.stats.units import Halves, Units, UnitSums, document_of, halve, unit_of, weights_of

_HOME = {
    "BestSet": "best",
    "Contrast": "status",
    "Contrasts": "family",
    "CrossFit": "best",
    "ENOUGH_SEEDS": "seeds",
    "Halves": "units",
    "LEAST_UNITS": "status",
    "Leads": "best",
    "NEGLIGIBLE": "status",
    "Regrets": "best",
    "SURE": "status",
    "Status": "status",
    "StreamedBootstrap": "bootstrap",
    "UnitSums": "units",
    "Units": "units",
    "alike_in_all_units": "family",
    "best_set": "best",
    "bootstrap_family": "family",
    "chance_family": "family",
    "column_intervals": "intervals",
    "cross_fit": "best",
    "document_of": "units",
    "drawn_contrast": "family",
    "draws_over_seeds": "seeds",
    "draws_table": "bootstrap",
    "first_possible": "intervals",
    "halve": "units",
    "interval": "intervals",
    "kendall_correlation": "correlations",
    "leads": "best",
    "normal_draws": "bootstrap",
    "paired_difference": "family",
    "permutation_family": "family",
    "random_signs": "family",
    "rank_correlation": "correlations",
    "ratio_differences": "family",
    "ratio_draws": "bootstrap",
    "ratio_intervals": "intervals",
    "regrets": "best",
    "seed_interval": "seeds",
    "seed_ratio_interval": "seeds",
    "seed_shares": "seeds",
    "share_interval": "intervals",
    "shared_by_seeds": "seeds",
    "sign_flip_family": "family",
    "sign_flip_strata": "family",
    "status_of": "status",
    "student_interval": "intervals",
    "unit_of": "units",
    "weights_of": "units",
    "widened_intervals": "intervals",
    "widening": "intervals",
}

__all__ = [
    "ENOUGH_SEEDS",
    "LEAST_UNITS",
    "NEGLIGIBLE",
    "SURE",
    "BestSet",
    "Contrast",
    "Contrasts",
    "CrossFit",
    "Halves",
    "Leads",
    "Regrets",
    "Status",
    "StreamedBootstrap",
    "UnitSums",
    "Units",
    "alike_in_all_units",
    "best_set",
    "bootstrap_family",
    "chance_family",
    "column_intervals",
    "cross_fit",
    "document_of",
    "drawn_contrast",
    "draws_over_seeds",
    "draws_table",
    "first_possible",
    "halve",
    "interval",
    "kendall_correlation",
    "leads",
    "normal_draws",
    "paired_difference",
    "permutation_family",
    "random_signs",
    "rank_correlation",
    "ratio_differences",
    "ratio_draws",
    "ratio_intervals",
    "regrets",
    "seed_interval",
    "seed_ratio_interval",
    "seed_shares",
    "share_interval",
    "shared_by_seeds",
    "sign_flip_family",
    "sign_flip_strata",
    "status_of",
    "student_interval",
    "unit_of",
    "weights_of",
    "widened_intervals",
    "widening",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"lamina.stats.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lamina.stats' has no attribute {name!r}")

"""Probing results of one model on several corpora as one, so that their tasks stand side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from lamina.corpora.corpus import fingerprint_of
from lamina.errors import InputError
from lamina.results import Result

_TABLES = ("scores", "summary")
"""What comparisons are made of."""


def by_model(results: Sequence[Result]) -> tuple[Result, Result]:
    """Two results as they are; more of them merged by model, of which there have to be two."""
    if len(results) == 2:
        return results[0], results[1]
    models: dict[str, list[Result]] = {}
    for result in results:
        models.setdefault(result.provenance.model["fingerprint"], []).append(result)
    if len(models) != 2:
        raise InputError(
            f"a comparison is of two results, or of any number of results of two models; got {_told(results)}"
        )
    first, second = (merge(each) for each in models.values())
    return first, second


def merge(results: Sequence[Result]) -> Result:
    """One model's results on several corpora as one result of their scores and summaries.

    A task probed on several of the corpora is named with its corpus, as `sup (babi_en)`.
    """
    if len(results) == 1:
        return results[0]
    wrong = next((each for each in results if each.analysis != "probe"), None)
    if wrong is not None:
        raise InputError(f"a {wrong.analysis!r} result is among them; only results of `lamina probe` can be compared")
    times = Counter(task for each in results for task in each.tables["summary"]["task"])
    corpora = [each.provenance.corpus for each in results]
    tables = {name: pd.concat([_named(each, name, times) for each in results], ignore_index=True) for name in _TABLES}
    if tables["summary"]["task"].duplicated().any():
        raise InputError(f"a task was probed twice on one corpus by one model; got {_told(results)}")
    whole = {
        "name": ", ".join(dict.fromkeys(corpus["name"] for corpus in corpora)),
        "fingerprint": fingerprint_of(*sorted(corpus["fingerprint"] for corpus in corpora)),
    }
    seeds = tuple(sorted({seed for each in results for seed in each.provenance.seeds}))
    parameters = {"merged": [each.key for each in results]}
    provenance = replace(results[0].provenance, corpus=whole, parameters=parameters, seeds=seeds, skipped={})
    return Result("probe", tables, provenance)


def _named(result: Result, name: str, times: Counter[str]) -> Any:
    table: Any = result.tables[name]
    corpus = result.provenance.corpus["name"]
    return table.assign(task=[f"{task} ({corpus})" if times[task] > 1 else task for task in table["task"]])


def _told(results: Sequence[Result]) -> str:
    return "; ".join(f"{each.provenance.model['name']} on {each.provenance.corpus['name']}" for each in results)

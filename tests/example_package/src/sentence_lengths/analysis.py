"""An analysis that lamina does not know: it declares itself, and lamina finds it by its entry point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import pandas as pd

from lamina import Corpus, Encoder, Finding, Result, Setting, Table, Tables, Texts, analysis


@analysis(
    title="Sentence lengths",
    question="How long are the sentences?",
    method="Words are counted.",
    reads=Texts(),
    version=1,
    tables={"lengths": Table("One row per number of words.", "words, sentences")},
    chapter="words",
    charts="sentence_lengths.figures",
    report={},
)
def sentence_lengths(
    encoder: Encoder,
    corpus: Corpus,
    *,
    most: Annotated[int, Setting("Longest sentence that is counted.", min=1)] = 50,
) -> Tables:
    """Count sentences by their number of words."""
    lengths = pd.Series([len(text.words) for text in corpus])
    short = lengths[lengths <= most]
    counted = short.value_counts().sort_index().rename_axis("words").reset_index(name="sentences")
    return Tables({"lengths": counted}, {"sentences that are too long": len(lengths) - len(short)})


@sentence_lengths.finds
def _findings(result: Result) -> Iterable[Finding]:
    table = result.tables["lengths"]
    mean = (table["words"] * table["sentences"]).sum() / table["sentences"].sum()
    yield Finding(f"A sentence has {mean:.1f} words on average.", "open", float(mean))

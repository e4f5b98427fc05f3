"""An analysis that lamina does not know: it declares itself, and lamina finds it by its entry point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import pandas as pd

from lamina import Corpus, Encoder, Finding, Result, stats
from lamina.framework import Setting, Source, Table, Tables, Texts, analysis, finding, rows_of

MEAN = ("mean", "usual", "estimate", "low", "high", "p_adjusted", "units", "needed")


@analysis(
    title="Sentence lengths",
    question="How long are the sentences?",
    method="Words are counted.",
    reads=Texts(),
    version=1,
    tables={
        "lengths": Table("One row per number of words.", "words, sentences"),
        "mean": Table("One row: the mean, and its difference from the usual length (two-sided, one test).", MEAN),
    },
    chapter="words",
    charts="sentence_lengths.figures",
    report={},
)
def sentence_lengths(
    encoder: Encoder,
    corpus: Corpus,
    *,
    most: Annotated[int, Setting("Longest sentence that is counted.", min=1)] = 50,
    usual: Annotated[int, Setting("Length that the mean is compared with.", min=1)] = 20,
) -> Tables:
    """Count sentences by their number of words."""
    texts = [text for text in corpus if len(text.words) <= most]
    lengths = pd.Series([len(text.words) for text in texts])
    counted = lengths.value_counts().sort_index().rename_axis("words").reset_index(name="sentences")
    # What varies are documents; texts where there is one document only.
    units = stats.Units.of_texts(texts)
    test = stats.paired_difference(units.sums(lengths.to_numpy() - usual), units.sums(lengths.to_numpy() * 0 + 1))
    mean = pd.DataFrame([(lengths.mean(), usual, *test)], columns=list(MEAN))
    return Tables({"lengths": counted, "mean": mean}, {"sentences that are too long": len([*corpus]) - len(texts)})


@sentence_lengths.finds
def _findings(result: Result) -> Iterable[Finding]:
    for row in rows_of(result.tables["mean"]):
        yield finding(
            claim=f"A sentence has {row.mean:.1f} words on average; {row.usual} are usual",
            whether=f"sentences are longer or shorter than the usual {row.usual} words",
            absent=f"Sentences are as long as usual ({row.usual} words)",
            contrast="difference",
            test=stats.Contrast.of(row),
            source=Source("mean"),
            margin=0.5,
        )

"""Parser probes over the maps of every architecture, on texts that trip others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lamina.analyses.heads.parse import parse
from lamina.corpora import corpus_from
from lamina.corpora.splits import Splits
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.types import Edge, Span, Text

ODD = {
    "plain": "The quick dogs barked .",
    "one word": "Yes",
    "signs": ". , ! ?",
    "emoji": "we 😀 you 👩‍🚀",
    "right to left": "הכלב נבח בלילה",
    "long": "the lazy dog ran far away " * 12,
}


def chained(split: str) -> list[Text]:
    """Every word hangs on the one before it."""
    texts = []
    for name, said in ODD.items():
        words = (*said.split(), split)
        edges = tuple(
            Edge(("root" if at == 0 else "dep",), Span(at, at + 1), Span(max(0, at - 1), max(1, at)))
            for at in range(len(words))
        )
        texts.append(Text(f"{split} {name}", words, edges={"dep": edges}))
    return texts


def test_every_architecture_is_parsed(
    architecture: str, tiny_encoder: Callable[[str], HuggingFaceEncoder], tmp_path: Path
):
    encoder = tiny_encoder(architecture)
    train, scored = (corpus_from(chained(split), name="odd", split=split) for split in ("train", "dev"))
    result = parse(encoder, Splits(train, scored), vectors="model", samples=20, store=tmp_path)
    table: Any = result.tables["uas"]
    assert len(table) == 10
    assert table["uas"].dropna().between(0, 1).all()
    assert not result.tables["weights"]["weight"].hasnans
    cut = [count for reason, count in result.provenance.skipped.items() if "longer than the model's limit" in reason]
    assert cut == [1, 1, 1, 1]

"""fastText's lines with labels."""

from __future__ import annotations

from pathlib import Path

from lamina.corpora.detection import detect
from lamina.corpora.formats.catalogue import get_format
from lamina.corpora.reading import Fault
from lamina.types import Edge, Span


def test_labels_and_faults(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("__label__b Yes , sure .\nNo , not so . __label__a __label__x-y\n\n__label__c\nnone\n__label__ a\n")
    faults: list[Fault] = []
    first, second = get_format("fasttext").read(path, faults.append)
    assert first.words == ("Yes", ",", "sure", ".")
    assert first.edges == {"label": (Edge(("b",), Span(0, 4)),)}
    assert second.edges["label"][0].labels == ("a", "x-y")
    assert [fault.line for fault in faults] == [4, 5, 6]
    path.write_text("__label__b Yes, sure.\n__label__c No.\n")
    assert detect(path).name == "fasttext"

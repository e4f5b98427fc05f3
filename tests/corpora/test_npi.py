"""Probing tasks of negative polarity made of minimal pairs: labels, and no lexical item in both sets."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from lamina.analyses.layers.probe.planning import probes_of
from lamina.corpora.suites.npi import npi_splits
from lamina.errors import CorpusError

FRAMES = {
    "npi_present_1": ("Even these {} have also {}.", "Even these {} have ever {}."),
    "npi_present_2": ("Many {} often {}.", "Many {} ever {}."),
    "only_npi_licensor_present": ("Only {} would ever {}.", "Even {} would ever {}."),
    "only_npi_scope": ("Only {} who they saw ever {}.", "{} who only they saw ever {}."),
}


def blimp(path: Path, many: int = 150) -> Path:
    rng, rows = Random(0), []
    for paradigm, frames in FRAMES.items():
        for number in range(many):
            filling = (
                f"noun{'abcdefghijklmnopqrst'[rng.randrange(20)]}x",
                f"verb{'abcdefghijklmnopqrst'[rng.randrange(20)]}x",
            )
            good, bad = (frame.format(*filling) for frame in frames)
            rows.append({"sentence_good": good, "sentence_bad": bad, "UID": paradigm, "pairID": str(number),
                         "field": "semantics", "linguistics_term": "npi_licensing"})  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_labels_say_what_a_sentence_has_and_no_lexical_item_is_in_both_sets(tmp_path: Path) -> None:
    splits = npi_splits(blimp(tmp_path / "own.jsonl"))
    assert set(splits.scored.annotations) == {"npi_presence", "npi_licensor", "npi_scope"}
    words = {}
    for name, corpus in (("train", splits.train), ("scored", splits.scored)):
        texts = list(corpus)
        words[name] = {
            (task, word) for text in texts for task in text.edges for word in text.words if word[:4] in ("noun", "verb")
        }
        for text in texts:
            for task, (edge,) in text.edges.items():
                assert len(edge.span) == len(text.words)
                lower = [word.lower() for word in text.words]
                expected = {
                    "npi_presence": "ever" in lower,
                    "npi_licensor": "only" in lower,
                    "npi_scope": lower[0] == "only",
                }[task]
                assert edge.labels == (str(int(expected)),)
    assert not words["train"] & words["scored"]
    assert words["train"]
    assert words["scored"]
    assert any("words of both sets" in why for why in splits.scored.notes.counts())


def test_both_sentences_of_a_pair_are_one_document(tmp_path: Path) -> None:
    splits = npi_splits(blimp(tmp_path / "own.jsonl"))
    documents = [text.doc for text in splits.scored]
    assert all(documents.count(doc) == 2 for doc in set(documents))
    assert probes_of(None, "npi") == ["layer"]


def test_a_suite_without_the_paradigms_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"fewer than 20 pairs of each of BLiMP's NPI paradigms .* such as blimp"):
        npi_splits(blimp(tmp_path / "own.jsonl", many=8))

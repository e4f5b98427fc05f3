"""A cut context of HotpotQA gives no more away by the place of its supporting facts than the uncut one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.corpora.corpus import View
from lamina.corpora.questions import hotpot
from lamina.corpora.reading import Notes

STANDARD_ERRORS = 3.5
"""How far from 0 a mean may be by chance: two-sided p = .0005."""


def simulated(count: int) -> list[dict[str, Any]]:
    """Ten paragraphs of very different lengths in random order, two of them with supporting facts."""
    draw = np.random.default_rng(0)
    items = []
    for q in range(count):
        context = [
            [
                f"P{p}",
                [f"In {q} sentence {n} of paragraph {p} says{' a' * int(draw.integers(4, 30))}." for n in range(size)],
            ]
            for p, size in enumerate(draw.integers(1, 8, size=10))
        ]
        facts = [[f"P{p}", int(draw.integers(len(context[p][1])))] for p in draw.permutation(10)[:2]]
        items.append(
            {"_id": f"q{q}", "question": "Which?", "answer": f"In {q}", "context": context, "supporting_facts": facts}
        )
    return items


def paragraphs_of(item: dict[str, Any], context: str) -> list[bool]:
    """For each paragraph that the context holds, in order, whether it has a supporting fact."""
    given, facts = item["context"], item["supporting_facts"]
    titled = list(zip(given["title"], given["sentences"], strict=True)) if isinstance(given, dict) else given
    names = set(facts["title"]) if isinstance(facts, dict) else {title for title, _ in facts}
    first = [(title, next(s.strip() for s in sentences if s.strip())) for title, sentences in titled if any(sentences)]
    return [title in names for title, sentence in first if sentence in context]


class Places:
    """Where supporting facts are, question by question."""

    def __init__(self, path: Path, view: View = View()) -> None:  # noqa: B008 - frozen
        items = {item.get("_id", item.get("id")): item for item in json.loads(path.read_text(encoding="utf-8"))}
        self.noted = Notes()
        rank, last, excess = [], [], []
        for question in hotpot.questions(path, noted=self.noted, view=view):
            kept = np.array(paragraphs_of(items[question.text.id], question.context))
            rank.append(((np.flatnonzero(kept) + 0.5) / len(kept)).mean())
            last.append(kept[-1] - kept.mean())
            support = np.array([edge.labels == ("1",) for edge in question.text.edges["sup"]])
            excess.append(support[-1] - support.mean())
        self.rank = np.array(rank)
        """Mean place of the supporting paragraphs among all, between 0 and 1."""
        self.last = np.array(last)
        """Whether the last paragraph supports, less the share of paragraphs that do: 0 on average by chance."""
        self.excess = np.array(excess)
        """The same of sentences. Facts are early in their paragraphs, cut or not."""


def is_zero(values: np.ndarray) -> bool:
    return abs(values.mean()) <= STANDARD_ERRORS * values.std(ddof=1) / np.sqrt(len(values))


def check(path: Path, uncut: Places, max_words: int) -> None:
    cut = Places(path, View(max_words=max_words))
    assert cut.noted.counts()[hotpot.SHORTENED] > 0.9 * len(cut.rank)
    assert is_zero(cut.rank - uncut.rank)
    assert is_zero(cut.last)
    assert is_zero(cut.excess - uncut.excess)


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("hotpot") / "many.json"
    path.write_text(json.dumps(simulated(200)))
    return path


@pytest.fixture(scope="module")
def uncut(many: Path) -> Places:
    return Places(many)


@pytest.mark.parametrize("max_words", [230, 410])
def test_supporting_facts_are_where_they_were(many: Path, uncut: Places, max_words: int) -> None:
    check(many, uncut, max_words)


def test_dropping_the_last_distractors_would_be_noticed(many: Path, uncut: Places, monkeypatch) -> None:
    monkeypatch.setattr(hotpot, "drawn_order", lambda seed, paragraph: paragraph)
    cut = Places(many, View(max_words=410))
    assert cut.last.mean() > 0.2
    assert not is_zero(cut.last)
    assert not is_zero(cut.excess - uncut.excess)


@pytest.mark.data
@pytest.mark.parametrize("max_words", [230, 410])
def test_in_the_real_sample_too(data_dir: Path, tmp_path: Path, max_words: int) -> None:
    files = sorted((data_dir / "hotpotqa_sample").rglob("hotpot_*.json"))
    every = [
        item | {"_id": f"{file.stem}-{n}"} for file in files for n, item in enumerate(json.loads(file.read_text()))
    ]
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps(every))
    check(path, Places(path), max_words)

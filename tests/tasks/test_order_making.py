"""What is made of a treebank: balanced, seeded, and without words in common where that would be cheating."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.corpora import Splits, corpus_from
from lamina.corpora.corpus import origins
from lamina.errors import TaskError
from lamina.tasks.order_making import OrderTargets, make_order_tasks
from lamina.types import Edge, Span, Text

NOUNS = [f"{letter}{end}" for letter, end in product("bcdfghjklmnprst", ("ab", "ig"))]


def text(number: int, split: str) -> Text:
    """`Yesterday the NOUN(s) near the NOUN(s) VERB(s|ed) very many things UNIQUE .`, of every combination in turn."""
    subject, other = NOUNS[number % len(NOUNS)], NOUNS[(number * 7 + 3) % len(NOUNS)]
    plural, past = number % 2, (number // 2) % 2
    nouns = (f"{subject}{'s' * plural}", f"{other}{'s' * ((number // 4) % 2)}")
    verb = f"v{NOUNS[(number * 11) % len(NOUNS)]}" + ("ed" if past else "" if plural else "s")
    words = (
        "Yesterday",
        "the",
        nouns[0],
        "near",
        "the",
        nouns[1],
        verb,
        "very",
        "many",
        "things",
        f"{split}{number}",
        ".",
    )
    tags = ("RB", "DT", "NNS" if plural else "NN", "IN", "DT", "NNS" if (number // 4) % 2 else "NN",
            "VBD" if past else "VBP" if plural else "VBZ", "RB", "JJ", "NNS", "RB", ".")  # fmt: skip
    heads = (6, 2, 6, 5, 5, 2, 6, 8, 9, 6, 6, 6)
    relations = ("advmod", "det", "nsubj", "case", "det", "nmod", "root", "advmod", "amod", "obj", "advmod", "punct")
    spans = [Span(at, at + 1) for at in range(len(words))]
    pos = ("NOUN" if tag[0] == "N" else "VERB" if tag[0] == "V" else "PUNCT" if tag == "." else "X" for tag in tags)
    edges = {
        "pos": tuple(Edge((tag,), span) for tag, span in zip(pos, spans, strict=True)),
        "xpos": tuple(Edge((tag,), span) for tag, span in zip(tags, spans, strict=True)),
        "dep": tuple(Edge((r,), span, spans[h]) for r, h, span in zip(relations, heads, spans, strict=True)),
    }
    return Text(f"{split}-{number}", words, edges=edges, doc=f"{split}-{number // 2}")


def bank(train: int = 240, scored: int = 160) -> Splits:
    made = (([text(n, name) for n in range(count)], name) for name, count in (("train", train), ("dev", scored)))
    return Splits(*(corpus_from(texts, name="bank", split=name) for texts, name in made))


WHOLE = bank()
"""Read by every test, changed by none."""


@pytest.fixture(scope="module")
def made() -> OrderTargets:
    return make_order_tasks(WHOLE, None, items=80, seed=0)


def test_classes_are_balanced_and_counted(made: OrderTargets) -> None:
    assert {"index", "bigram_shift", "subject_number", "tense_verb"} <= {task.name for task in made.tasks}
    for task in made.tasks:
        for part, corpus in zip(made.parts[task.name], (made.splits.train, made.splits.scored), strict=True):
            found = Counter(edge.labels[0] for each in corpus for edge in task.targets(each))
            assert found == part.classes
            assert found.total() == part.targets <= 80
            assert len(set(found.values())) == 1
    # Every sentence is drawn, or left out for a reason.
    whole = made.parts["subject_number"][0]
    assert whole.targets + sum(whole.left_out.values()) == 240
    assert made.refused["top_constituents"] == "it has no constituents (annotation const)"


@pytest.mark.parametrize(("task", "place"), [("subject_number", 2), ("subject_number_noun", 2), ("tense", 6)])
def test_no_word_is_in_both_sets(made: OrderTargets, task: str, place: int) -> None:
    forms = [
        {each.words[place].lower() for each in corpus if task in each.edges}
        for corpus in (made.splits.train, made.splits.scored)
    ]
    assert forms[0]
    assert forms[1]
    assert not forms[0] & forms[1]


def test_a_changed_sentence_is_known_by_its_original(made: OrderTargets) -> None:
    originals = {each.id: each for corpus in (WHOLE.train, WHOLE.scored) for each in corpus}
    changed = [each for corpus in (made.splits.train, made.splits.scored) for each in corpus if "~" in each.id]
    assert changed
    for each in changed:
        original = originals[each.id.partition("~")[0]]
        assert origins(each) == origins(original)
        assert each.doc == original.doc
        assert each.words != original.words
        assert set(each.edges) == {"bigram_shift"}
    shifted = {each.id.partition("~")[0] for each in changed}
    plain = {each.id for corpus in (made.splits.train, made.splits.scored) for each in corpus
             if "bigram_shift" in each.edges and "~" not in each.id}  # fmt: skip
    assert not shifted & plain


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), items=st.integers(40, 120))
def test_the_same_seed_makes_the_same_texts(seed: int, items: int) -> None:
    one, two = (make_order_tasks(WHOLE, ["index", "tense"], items=items, seed=seed) for _ in range(2))
    assert list(one.splits.train) == list(two.splits.train)
    assert one.splits.fingerprint == two.splits.fingerprint
    other = make_order_tasks(WHOLE, ["index", "tense"], items=items, seed=seed + 1)
    assert other.splits.fingerprint != one.splits.fingerprint


def test_faithful_asks_about_every_word() -> None:
    made = make_order_tasks(WHOLE, ["subject"], items=120, seed=0, faithful=True)
    assert made.parts["subject"][0].classes == {"main": 10, "other": 110}


@pytest.mark.parametrize(
    ("names", "edges", "sentence"),
    [
        (["subjct"], ("pos", "dep"), "unknown task 'subjct'; did you mean subject?"),
        (["tense"], ("pos",), "tense cannot be made from bank: it has no heads (annotation dep)"),
        (["tense"], ("pos", "dep"), "only 0 balanced training targets"),
    ],
)
def test_what_cannot_be_made_is_told(names: list[str], edges: tuple[str, ...], sentence: str) -> None:
    def bare(corpus: object) -> list[Text]:
        return [Text(t.id, t.words, edges={name: t.edges[name] for name in edges}, doc=t.doc) for t in corpus]  # type: ignore

    parts = Splits(*(corpus_from(bare(each), name="bank", split=each.split) for each in (WHOLE.train, WHOLE.scored)))
    with pytest.raises(TaskError, match=sentence.replace("(", r"\(").replace(")", r"\)").replace("?", r"\?")):
        make_order_tasks(parts, names, items=80, seed=0)


def test_no_task_at_all() -> None:
    short = [Text(f"{n}", ("Hi", "you"), doc=f"{n}") for n in range(60)]
    splits = Splits(*(corpus_from(short, name="tiny", split=name) for name in ("train", "dev")))
    with pytest.raises(TaskError, match="no task can be made from tiny"):
        make_order_tasks(splits, None, items=80, seed=0)

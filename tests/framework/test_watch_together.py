"""Several analyses share one pass: every text is encoded once, and nobody sees anything else than alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.heads.attention import attention
from lamina.analyses.heads.headmap import headmap
from lamina.analyses.heads.heads import heads
from lamina.corpora import corpus_from
from lamina.errors import CorpusError, ModelError
from lamina.framework.declare import Query
from lamina.framework.run import run, run_together
from lamina.framework.watch import CUT, TOO_LONG, UNKNOWN, Watch, WatchedBatch, watch, watch_together
from lamina.models import Activations, Tokens
from lamina.models.checks.passports import passport_of
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Edge, Span, Text


class Counting(TinyEncoder):
    """Remembers what it encoded; gives texts back in another order where asked to."""

    def __init__(self, *, backwards: bool = False, **settings: int) -> None:
        super().__init__(**settings)
        self.passport = passport_of(TinyEncoder(**settings))  # what it encodes to be examined is not counted
        self.encoded: list[tuple[str, ...]] = []
        self.passes = 0
        self._backwards = backwards

    def encode(self, texts: Iterable[Text], want=("states",), *, ordered: bool = True) -> Iterator[Activations]:
        self.passes += 1

        def noted() -> Iterator[Text]:
            for text in texts:
                self.encoded.append(text.words)
                yield text

        made = super().encode(noted(), want)
        return reversed(list(made)) if self._backwards else made


class Seen:
    """Everything that a meter is shown."""

    def __init__(self) -> None:
        self.texts: dict[str, Text] = {}
        self.maps: dict[str, np.ndarray] = {}
        self.times: Counter[str] = Counter()

    def update(self, batch: WatchedBatch) -> None:
        for watched in batch.singly:
            self.texts[watched.text.id] = watched.text
            self.maps[watched.text.id] = watched.words.maps.numpy()
            self.times[watched.text.id] += 1


def expect_as_alone(encoder: Counting, *asked: Watch) -> None:
    """Watching together shows and counts what watching alone does."""
    for each, skipped in zip(asked, watch_together(asked), strict=True):
        alone = Seen()
        counted = watch(encoder, each.texts, [alone], rows=each.rows, limit=each.limit)
        (seen,) = each.meters
        assert isinstance(seen, Seen)
        assert skipped == counted
        assert seen.texts == alone.texts
        assert set(seen.times.values()) <= {1}
        for name, maps in alone.maps.items():
            np.testing.assert_allclose(seen.maps[name], maps, rtol=1e-6)


def test_a_text_that_two_want_is_encoded_once():
    encoder = Counting()
    asked = [Watch(encoder, SAMPLE_TEXTS[:5], [Seen()]), Watch(encoder, SAMPLE_TEXTS[2:], [Seen()])]
    watch_together(asked)
    assert encoder.passes == 1
    assert sorted(encoder.encoded) == sorted(text.words for text in SAMPLE_TEXTS)
    expect_as_alone(encoder, *(replace(each, meters=[Seen()]) for each in asked))


@pytest.mark.parametrize("backwards", [False, True])
def test_subsets_limits_and_rows_of_one_pass_are_as_alone(backwards: bool):
    encoder = Counting(backwards=backwards)
    whole = list(SAMPLE_TEXTS)
    asked = [
        Watch(encoder, whole, [Seen()], total=len(whole)),
        Watch(encoder, whole, [Seen()], rows="first", total=len(whole)),
        Watch(encoder, whole, [Seen()], limit=10, total=len(whole)),
        Watch(encoder, whole[::2], [Seen()], limit=10),
        Watch(encoder, whole[1:3], [Seen()], limit=1000),
    ]
    expect_as_alone(encoder, *asked)


def test_a_text_cut_in_two_ways_is_encoded_twice_and_counted_where_it_was_cut():
    encoder = Counting()
    long, short = (next(text for text in SAMPLE_TEXTS if text.id == name) for name in ("longer", "one word"))
    whole, cut, again = (Watch(encoder, [long, short], [Seen()], limit=limit) for limit in (None, 10, 10))
    skipped = watch_together([whole, cut, again])
    assert skipped == [Counter(), Counter({CUT: 1}), Counter({CUT: 1})]
    # The long text whole and cut, the short one once for all.
    assert len(encoder.encoded) == 3
    assert Counter(encoder.encoded)[short.words] == 1


def test_texts_of_one_name_and_other_words_or_targets_are_told_apart():
    encoder = Counting()
    words = ("Dogs", "chase", "cats")
    subject, object_ = (Edge((name,), Span(at, at + 1), Span(1, 2)) for name, at in (("nsubj", 0), ("obj", 2)))
    variants = [
        Text("t", words, edges={"dep": (subject,)}),
        Text("t", words, edges={"dep": (object_,)}),
        Text("t", words, doc="d"),
        Text("t", ("Cats", "sleep")),
        Text("t", words, (Span(0, 1), Span(1, 3))),
    ]
    seen = [Seen() for _ in variants]
    watch_together([Watch(encoder, [text], [each]) for text, each in zip(variants, seen, strict=True)])
    assert [each.texts["t"] for each in seen] == variants


def test_texts_that_can_be_read_only_once_are_read_once():
    encoder = Counting()
    one, other, third = Seen(), Seen(), Seen()
    watch_together(
        [
            Watch(encoder, iter(SAMPLE_TEXTS[:3]), [one]),
            Watch(encoder, iter(SAMPLE_TEXTS), [other]),
            Watch(encoder, list(SAMPLE_TEXTS), [third], total=len(SAMPLE_TEXTS)),
        ]
    )
    assert len(encoder.encoded) == len(SAMPLE_TEXTS)
    assert list(one.texts) == [text.id for text in SAMPLE_TEXTS[:3]]
    assert other.texts == third.texts


def test_two_models_take_two_passes():
    one, other = Counting(), Counting(seed=1)
    watch_together([Watch(one, SAMPLE_TEXTS, [Seen()]), Watch(other, SAMPLE_TEXTS, [Seen()])])
    assert (one.passes, other.passes) == (1, 1)
    other.heads = 0
    with pytest.raises(ModelError, match="no attention heads"):
        watch_together([Watch(one, SAMPLE_TEXTS, [Seen()]), Watch(other, SAMPLE_TEXTS, [Seen()])])


def test_unknown_words_and_texts_without_maps_are_counted_for_those_who_wanted_them():
    class Lossy(TinyEncoder):
        def encode(self, texts: Iterable[Text], want=("states",), *, ordered: bool = True) -> Iterator[Activations]:
            for made in super().encode(texts, want):
                unknown = Tokens(made.tokens.ids, made.tokens.words, unknown=2 if made.text == "scripts" else 0)
                yield replace(made, tokens=unknown, maps=None if made.text == "longer" else made.maps)

    encoder = Lossy()
    skipped = watch_together([Watch(encoder, SAMPLE_TEXTS, [Seen()]), Watch(encoder, SAMPLE_TEXTS[:3], [Seen()])])
    assert skipped == [Counter({UNKNOWN: 2, TOO_LONG: 1}), Counter()]


def treebank(count: int = 40) -> list[Text]:
    edges = (Edge(("root",), Span(1, 2), Span(1, 2)), Edge(("nsubj",), Span(0, 1), Span(1, 2)))
    subjects = ("Dogs", "Cats", "Children", "Neighbours", "We")
    return [Text(str(at), (subjects[at % 5], "bark"), edges={"dep": edges}, doc=str(at // 2)) for at in range(count)]


def expect_same(one: dict[str, pd.DataFrame], other: dict[str, pd.DataFrame]) -> None:
    assert set(one) == set(other)
    for name, table in one.items():
        pd.testing.assert_frame_equal(table, other[name], rtol=1e-4, atol=1e-5)


@pytest.fixture
def questions() -> tuple[Counting, list[Query]]:
    encoder, corpus = Counting(), corpus_from(treebank(), name="own")
    asked = [
        heads.ask(encoder, corpus, samples=20),
        headmap.ask(encoder, corpus, samples=20),
        attention.ask(encoder, corpus, samples=20, segments=25),
        heads.ask(encoder, corpus, samples=20, rows="first"),
    ]
    return encoder, asked


def test_analyses_that_share_a_pass_answer_as_alone(questions: tuple[Counting, list[Query]]):
    encoder, asked = questions
    together = run_together(asked)
    assert len(encoder.encoded) == 40
    for each, result in zip(asked, together, strict=True):
        alone = run(each)
        assert result.key == alone.key
        declared = each.analysis.tables
        assert {name for name, table in declared.items() if not table.optional} <= set(result.tables) <= set(declared)
        assert result.provenance.skipped == alone.provenance.skipped
        assert [finding.status for finding in result.findings] == [finding.status for finding in alone.findings]
        expect_same(dict(result.tables), dict(alone.tables))


def test_the_order_of_texts_and_batches_changes_nothing(questions: tuple[Counting, list[Query]]):
    _, asked = questions
    other = Counting(backwards=True)
    for each in asked:
        turned = replace(each, loaded=replace(each.loaded, arguments=(other, *each.loaded.arguments[1:])))
        expect_same(dict(run(each).tables), dict(run(turned).tables))


def test_a_question_that_cannot_be_asked_ends_all(questions: tuple[Counting, list[Query]]):
    encoder, asked = questions
    lonely = heads.ask(encoder, corpus_from(treebank(1), name="lonely"))
    with pytest.raises(CorpusError, match="one text only"):
        run_together([*asked, lonely])
    assert encoder.encoded == []

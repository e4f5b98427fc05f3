"""Texts to rows and back: windows, labels, best spans, tags, masked tokens, scores."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.questions.question import make_question
from lamina.errors import ModelError, SpanError, TaskError
from lamina.training.objective import (
    IGNORED,
    UNSEEN,
    MaskedObjective,
    Sum,
    TextOutcome,
    TrainingRow,
    drawn_score,
    means,
    over_seeds,
    score_table,
    text_of,
)
from lamina.training.running import Collator
from lamina.training.spans import SpanObjective, best_spans, borders, place, windows
from lamina.training.tags import (
    ClassChoice,
    ClassObjective,
    TagObjective,
    class_of,
    entities,
    guess_by_word,
    last_tokens,
    word_labels,
)
from lamina.types import Edge, Span, Text

CONTEXT = " ".join(["the lazy dog barked", "cats sat on the mat", "unhesitatingly over"] * 6)


@pytest.fixture
def long_question(encoder):
    start = CONTEXT.rindex("mat")
    return make_question("q", "who barked ?", CONTEXT, [(0, len(CONTEXT))], [(start, start + 3)], {0})


@given(length=st.integers(14, 60), stride=st.integers(1, 40))
def test_windows_show_every_context_word_whole_and_the_question_always(encoder, length: int, stride: int) -> None:
    pieces = encoder("bert").word_tokenizer
    text = make_question("q", "who ?", CONTEXT, [(0, len(CONTEXT))], [(0, 3)], {0}).text
    whole = pieces(text)[0]
    sizes = Counter(whole.words.tolist())
    seen: set[int] = set()
    for window in windows(text, pieces, length, stride=stride):
        assert len(window.ids) <= length
        assert window.words[:4].tolist() == [-1, *whole.words[1:3].tolist(), whole.words[3]]
        found = Counter(window.words.tolist())
        seen |= {word for word in found if word >= 0 and found[word] == sizes[word]}
    fits = {word for word, size in sizes.items() if word >= 0 and size <= length - 7}
    assert fits <= seen


def test_a_long_question_is_cut_and_one_without_room_refused(encoder) -> None:
    question = make_question("q9", "who barked " * 20, "the dog", [(0, 7)], [(4, 7)], {0})
    made = list(windows(question.text, encoder("bert").word_tokenizer, 40, most_question=10))

    assert made[0].cut
    assert ((made[0].words >= 0) & (made[0].words < question.text.segments[1].start)).sum() == 10
    with pytest.raises(SpanError, match=r"'q9'.*no room"):
        list(windows(question.text, encoder("bert").word_tokenizer, 12, most_question=64))


def test_labels_stand_on_the_answer_or_on_the_first_token(encoder, long_question) -> None:
    objective = SpanObjective(encoder("bert").word_tokenizer, 30, stride=8)
    rows = objective.rows(0, long_question)
    answer = long_question.text.edges["answer"][0].span

    assert len(rows) > 2
    assert any(row.labels != (0, 0) for row in rows)
    for row in rows:
        first, last = row.labels
        if row.labels == (0, 0):
            assert place(row.words, answer) is None
        else:
            assert set(row.words[first : last + 1]) == set(answer)
    assert objective.noted["questions that took several windows"] == 1


WINDOWS = [
    np.array([-1, 0, 0, -1, 1, 1, 2, 3, 3, 3, 4, -1]),
    np.array([-1, 0, 0, -1, 2, 3, -1]),
    np.array([-1, 0, 0, -1, 4, -1]),
]
"""Of a question of one word and a context of four: all of it, a part, one word."""


@given(seed=st.integers(0, 10**6), most=st.integers(1, 4))
def test_the_best_spans_are_those_a_slow_search_finds(seed: int, most: int) -> None:
    context = Span(1, 5)
    rows = [TrainingRow(0, words, words, words, places=np.stack(borders(words, context))) for words in WINDOWS]
    starts, ends = torch.randn((2, 3, 12), generator=torch.Generator().manual_seed(seed), dtype=torch.double)

    for words, guess, begin, end in zip(WINDOWS, best_spans(rows, starts, ends, most), starts, ends, strict=True):
        firsts, lasts = borders(words, context)
        slow = {
            Span(int(words[a]), int(words[b]) + 1): (float(begin[a] + end[b]), a, b)
            for a in firsts
            for b in lasts
            if words[a] <= words[b] < words[a] + most
        }
        score, first, last = slow[guess.span]
        assert guess.score == pytest.approx(max(slow.values())[0], abs=1e-5) == pytest.approx(score, abs=1e-5)
        # Of the tokens of the window alone, without the padding.
        begins, stops = (logits[: len(words)].softmax(0) for logits in (begin, end))
        assert guess.confidence == pytest.approx(float(begins[first] * stops[last]), rel=1e-4)
        assert guess.null == pytest.approx(float(begins[0] * stops[0]), rel=1e-4)


def test_tags_are_on_last_tokens_and_unknown_ones_are_counted(encoder) -> None:
    pieces = encoder("bert").word_tokenizer
    text = Text("a", ("unbarked", "dog"), edges={"pos": (Edge(("V",), Span(0, 1)), Edge(("N",), Span(1, 2)))})
    objective = TagObjective.learn(pieces, 20, "pos", [text])
    row = objective.rows(0, text)[0]
    last = last_tokens(row.words)

    assert objective.labels == ("N", "V")
    assert [objective.labels[row.labels[at]] for at in last] == ["V", "N"]
    assert (row.labels != IGNORED).sum() == 2
    other = Text("b", ("dog",), edges={"pos": (Edge(("X",), Span(0, 1)),)})
    assert objective.judge(other, [{0: "N"}]).sums["accuracy"] == Sum(0, 1, 1)
    assert objective.noted[UNSEEN] == 1


def test_words_cut_away_count_as_missed(encoder, toy_texts) -> None:
    text = toy_texts(1, 0)[0]
    objective = TagObjective.learn(encoder("bert").word_tokenizer, 8, "pos", [text])
    row = objective.rows(0, text)[0]

    assert len(row.ids) == 8
    assert row.words[-1] == -1
    assert objective.noted["texts cut to 8 tokens"] == 1
    gold = word_labels(text, "pos")
    told = {int(row.words[at]): gold[row.words[at]] for at in last_tokens(row.words)}
    assert objective.judge(text, [told]).sums["accuracy"].bottom == 5


spans = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.sampled_from("AB")), max_size=4)


@given(spans)
def test_bio_tags_say_entities_that_do_not_overlap(found) -> None:
    taken: set[int] = set()
    edges = []
    for start, size, label in found:
        words = set(range(start, min(start + size, 10)))
        if words.isdisjoint(taken):
            taken |= words
            edges.append(Edge((label,), Span(start, min(start + size, 10))))
    text = Text("a", ("w",) * 10, edges={"ner": tuple(edges)})

    tags = [label or "O" for label in word_labels(text, "ner")]
    assert entities(tags) == {(edge.labels[0], edge.span) for edge in edges}


def test_of_nested_entities_the_longest_is_kept() -> None:
    edges = (Edge(("A",), Span(1, 2)), Edge(("B",), Span(0, 3)))
    assert word_labels(Text("a", ("x", "y", "z"), edges={"ner": edges}), "ner") == ["B-B", "I-B", "I-B"]


def test_missing_annotations_are_named() -> None:
    plain = Text("t7", ("x",))
    with pytest.raises(TaskError, match="'t7' has no pos annotation"):
        word_labels(plain, "pos")
    with pytest.raises(TaskError, match="'t7' has no class"):
        class_of(plain)


def test_one_class_is_nothing_to_tell_apart(encoder) -> None:
    text = Text("a", ("dog",), edges={"label": (Edge(("x",), Span(0, 1)),)})
    with pytest.raises(TaskError, match="only one class"):
        ClassObjective.learn(encoder("bert").word_tokenizer, 10, [text])


def test_two_classes_have_the_f1_of_the_second(encoder) -> None:
    def text(label: str) -> Text:
        return Text(label, ("dog",), edges={"label": (Edge((label,), Span(0, 1)),)})

    objective = ClassObjective.learn(encoder("bert").word_tokenizer, 10, [text("0"), text("1")])
    judged = [objective.judge(text(gold), [ClassChoice(told, 1.0)]) for gold, told in ("11", "10", "01", "00", "00")]
    assert means(judged) == {"accuracy": 0.6, "f1": 0.5}


def test_about_fifteen_percent_is_hidden_the_same_way_for_the_same_rows(encoder) -> None:
    bert = encoder("bert")
    texts = [Text(str(n), ("the", "lazy", "dog") * 10) for n in range(30)]
    objective = MaskedObjective(bert.word_tokenizer, 40, bert.tokenizer, seed=3)
    rows = [row for number, text in enumerate(texts) for row in objective.rows(number, text)]
    collator = Collator(objective, bert.model, bert.tokenizer)
    batch, again, other = collator(rows), collator(rows), collator(rows[::-1][1:])
    words = torch.tensor(np.concatenate([row.words for row in rows]))

    hidden = batch["labels"] != IGNORED
    assert 0.12 < hidden.sum() / (words >= 0).sum() < 0.18
    assert torch.equal(batch["input_ids"], again["input_ids"])
    assert not torch.equal(batch["input_ids"][:5], other["input_ids"][:5])
    masked = batch["input_ids"][hidden] == bert.tokenizer.mask_token_id
    assert 0.7 < masked.float().mean() < 0.9
    assert sum(len(row.ids) - 2 for row in rows) == sum(len(bert.word_tokenizer(text)[0].ids) - 2 for text in texts)


def test_a_tokenizer_without_mask_has_no_masked_model(encoder) -> None:
    with pytest.raises(ModelError, match="no mask token"):
        MaskedObjective(encoder("gpt2").word_tokenizer, 40, encoder("gpt2").tokenizer, seed=0)


def test_scores_resample_documents_and_split_by_task() -> None:
    outcomes = [TextOutcome(f"d{n // 5}", {"f1": Sum(float(n < 10), 1)}, f"qa{1 + n // 10}") for n in range(20)]
    table = score_table("scored", outcomes, seed=0)

    assert list(table.columns) == ["split", "task", "metric", "count", "seeds", "value", "low", "high"]
    assert table["value"].tolist() == [0.5, 1.0, 0.0]
    assert table["count"].tolist() == [20, 10, 10]
    assert 0 <= table["low"][0] < 0.5 < table["high"][0] <= 1
    assert score_table("scored", [TextOutcome("a", {"f1": Sum(1, 1)})], seed=0)["task"].tolist() == ["all"]


def test_a_baseline_answers_what_is_most_frequent_in_training(encoder, toy_questions) -> None:
    pieces = encoder("bert").word_tokenizer

    def tagged(*tags: str) -> Text:
        edges = {"pos": tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tags))}
        edges["label"] = (Edge((tags[0],), Span(0, len(tags))),)
        return Text("-".join(tags), ("dog",) * len(tags), edges=edges)

    train, scored = [tagged("N", "N", "V"), tagged("V"), tagged("N")], [tagged("N", "V"), tagged("V", "X")]
    tags = TagObjective.learn(pieces, 20, "pos", train)
    assert tags.baseline(train, scored) == {"accuracy": 0.25}
    # What was noted of real answers stays as it was.
    assert not tags.noted
    assert ClassObjective.learn(pieces, 20, train).baseline(train, scored) == {"accuracy": 0.5, "f1": 0.0}
    asked = toy_questions(3, 0)
    gold = asked[0].answers[0]
    expected = sum(question.answers == (gold,) for question in asked) / 3
    assert SpanObjective(pieces, 40).baseline(asked[:1], asked)["exact_match"] == pytest.approx(expected)


def test_the_baseline_of_a_masked_model_knows_how_frequent_pieces_are(encoder) -> None:
    bert = encoder("bert")
    objective = MaskedObjective(bert.word_tokenizer, 40, bert.tokenizer, seed=0)
    text = Text("a", ("dog", "dog", "the", "dog"))
    found = objective.baseline([text], [text])
    pieces = [id for row in objective.rows(0, text) for id, word in zip(row.ids, row.words, strict=True) if word >= 0]
    counts = Counter(pieces)
    assert found["accuracy"] == pytest.approx(counts.most_common(1)[0][1] / len(pieces))
    # Seen pieces are more likely than all pieces alike.
    assert 0 < found["loss"] < np.log(bert.tokenizer.vocab_size)


def test_a_question_is_its_text(toy_questions) -> None:
    question = toy_questions(1, 0)[0]
    assert text_of(question) is question.text


def test_seeds_are_drawn_from_five_on() -> None:
    draw = np.random.default_rng(0)
    right = draw.random((6, 40)) < np.linspace(0.3, 0.8, 6)[:, None]
    scores = [
        drawn_score([TextOutcome(f"d{at}", {"f1": Sum(float(hit), 1)}) for at, hit in enumerate(own)], "f1", seed=0)
        for own in right
    ]
    few, many = over_seeds(scores[::5]), over_seeds(scores)
    assert few.value == pytest.approx(right[::5].mean())
    assert many.value == pytest.approx(right.mean())
    fixed = np.mean([each.draws for each in scores], axis=0)
    # Over documents alone it would be narrower: the models differ.
    assert np.ptp(many.interval) > np.ptp(np.quantile(fixed, [0.025, 0.975]))
    assert np.allclose(few.draws, (scores[0].draws + scores[5].draws) / 2)


def test_labels_looked_up_by_word(encoder, toy_texts) -> None:
    train, scored = toy_texts(30, 1), toy_texts(4, 2)
    pieces = encoder("bert").word_tokenizer
    objective = TagObjective.learn(pieces, 64, "pos", train)
    # A word's tag is its first letter: looking it up is always right, and a new word gets the most frequent tag.
    assert means(guess_by_word(objective, train, scored)) == {"accuracy": 1.0}
    new = Text("new", ("zebra", "dog"), edges={"pos": (Edge(("z",), Span(0, 1)), Edge(("d",), Span(1, 2)))})
    assert means(guess_by_word(objective, train, [new])) == {"accuracy": 0.5}

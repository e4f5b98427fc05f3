"""The tasks: which edges are targets, with which labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import TaskError
from lamina.tasks import TASKS, annotation_task, corpora_of, get_task, tasks_of
from lamina.tasks.catalogue import NEAREST
from lamina.types import Edge, Span, Text

WORDS = tuple("abcdef")


def _text(**edges):
    return Text("s1", WORDS, edges=edges)


def test_the_catalogue():
    pairs = ["dep", "srl", "coref", "coref_window", "spr", "rel", "sup"]
    assert [task.name for task in TASKS] == ["pos", "const", "dep", "ner", *pairs[1:-1], "supersense", "ques", "sup"]
    assert [task.name for task in TASKS if task.arity == 2] == pairs


def test_an_unknown_task_is_answered_with_the_known_ones():
    with pytest.raises(TaskError, match=r"unknown task 'cooref'; did you mean coref\? known tasks: pos, const"):
        get_task("cooref")


def test_what_a_corpus_carries():
    assert [task.name for task in tasks_of({"chains", "const", "sentence"})] == [
        "const",
        "coref",
        "coref_window",
    ]
    assert [task.name for task in tasks_of({"chains", "const"})] == ["const", "coref"]
    assert tasks_of(()) == ()
    assert get_task("pos").targets(_text(ner=())) == ()


def test_any_annotation_is_a_task():
    pair = Edge(("y",), Span(0, 1), Span(1, 2))
    texts = [_text(), _text(xpos=(Edge(("NN",), Span(0, 1)),), link=(pair,))]

    xpos, link = (annotation_task(name, texts) for name in ("xpos", "link"))
    assert (xpos.name, xpos.arity, xpos.graded, xpos.metric) == ("xpos", 1, False, "f1")
    assert (link.arity, link.targets(texts[1])) == (2, (pair,))
    assert xpos.targets(texts[0]) == ()


def test_an_annotation_whose_targets_all_have_values_is_graded():
    values = tuple(Edge((), Span(at, at + 1), value=at / 2) for at in range(3))
    some = (*values, Edge(("yes",), Span(4, 5)))

    graded = annotation_task("factuality", [_text(factuality=values)])
    assert (graded.graded, graded.metric, graded.scoring) == (True, "r2", "R2 and correlation")
    assert [edge.value for edge in graded.targets(_text(factuality=values))] == [0, 0.5, 1]
    assert not annotation_task("factuality", [_text(factuality=some)]).graded


def test_an_annotation_that_is_no_task_is_said():
    mixed = (Edge(("x",), Span(0, 1)), Edge(("x",), Span(0, 1), Span(1, 2)))
    with pytest.raises(TaskError, match="no text carries the annotation 'xpos'"):
        annotation_task("xpos", [_text(pos=())])
    with pytest.raises(TaskError, match="odd: 1 targets are one span and 1 are a pair of spans; a task has one kind"):
        annotation_task("odd", [_text(odd=mixed)])


def test_a_task_describes_itself_in_plain_values():
    import json

    for task in TASKS:
        told = json.loads(json.dumps(task.describe()))
        assert told["name"] == task.name
        assert told["unscored"] == sorted(task.unscored)
    assert get_task("dep").describe() != get_task("dep", faithful=True).describe()


def test_every_task_has_a_corpus():
    assert all(corpora_of(task) for task in TASKS)
    assert set(corpora_of(get_task("coref"))) == {"gum_open", "gap_coreference", "litbank", "ontogum"}
    assert set(corpora_of(get_task("coref_window"))) == {"gum_open", "litbank", "ontogum"}
    assert set(corpora_of(get_task("sup"))) == {"squad", "squad_v1.1_dev", "xquad_en", "hotpotqa_sample", "babi_en"}
    assert corpora_of(get_task("ques")) == ("trec_qtypes",)


@pytest.mark.parametrize(
    ("annotated", "asked"),
    [("NP-SBJ-1", "NP"), ("NP", "NP"), ("S=2", "S"), ("-LRB-", "-LRB-"), ("WHNP-1", "WHNP"), ("ADVP|PRT", "ADVP")],
)
def test_constituents_lose_function_tags(annotated, asked):
    (target,) = get_task("const").targets(_text(const=(Edge((annotated,), Span(0, 2)),)))
    assert target == Edge((asked,), Span(0, 2))


def test_the_root_is_left_out_unless_faithful():
    root, other = Edge(("root",), Span(1, 2), Span(1, 2)), Edge(("nsubj",), Span(0, 1), Span(1, 2))
    text = _text(dep=(other, root))
    assert get_task("dep").targets(text) == (other,)
    assert get_task("dep", faithful=True).targets(text) == (other, root)
    assert get_task("pos", faithful=True) == get_task("pos")


def test_roles_that_are_scored():
    roles = ["ARG0", "ARG5", "ARGA", "ARGM-TMP", "A1", "AM-LOC", "C-ARG1", "R-ARG0", "V", "ARG6", "ARGM"]
    edges = tuple(Edge((role,), Span(0, 1), Span(1, 2)) for role in roles)
    assert [edge.labels[0] for edge in get_task("srl").targets(_text(srl=edges))] == roles[:6]


def test_masks_and_empty_labels_are_kept():
    edge = Edge((), Span(0, 1), Span(1, 2), rated=("volition",))
    assert get_task("spr").targets(_text(spr=(edge,))) == (edge,)


def test_labels_that_fall_together_are_one():
    (target,) = get_task("const").targets(_text(const=(Edge(("NP-SBJ", "NP"), Span(0, 1), rated=("NP-SBJ", "VP")),)))
    assert (target.labels, target.rated) == (("NP",), ("NP", "VP"))


def test_pairs_given_come_before_pairs_made():
    pair = Edge(("1",), Span(4, 5), Span(0, 1))
    assert get_task("coref").targets(_text(coref=(pair,), chains=(Edge(("c",), Span(0, 1)),))) == (pair,)


def test_mentions_pair_within_their_sentence():
    chains = (
        Edge(("c1",), Span(4, 5)),
        Edge(("c1",), Span(0, 1)),
        Edge(("c2",), Span(0, 2)),
        Edge(("c1",), Span(2, 4)),
        Edge(("c1",), Span(1, 2)),
    )
    sentences = (Edge(("1",), Span(0, 3)), Edge(("2",), Span(3, 6)))
    pairs = get_task("coref").targets(_text(chains=chains, sentence=sentences))
    assert pairs == (
        Edge(("0",), Span(0, 1), Span(0, 2)),
        Edge(("1",), Span(0, 1), Span(1, 2)),
        Edge(("0",), Span(0, 2), Span(1, 2)),
    )


def test_mentions_pair_across_sentences_in_windows():
    chains = (Edge(("c1",), Span(4, 5)), Edge(("c1",), Span(0, 1)), Edge(("c2",), Span(2, 4)))
    sentences = (Edge(("1",), Span(0, 3)), Edge(("2",), Span(3, 6)))
    task = get_task("coref_window")
    assert task.targets(_text(chains=chains, sentence=sentences)) == (
        Edge(("0",), Span(0, 1), Span(2, 4)),
        Edge(("1",), Span(0, 1), Span(4, 5)),
        Edge(("0",), Span(2, 4), Span(4, 5)),
    )
    assert task.targets(_text(chains=chains)) == (), "a sentence is no window"


@given(st.integers(0, 60))
def test_pairs_in_windows_are_bounded_and_what_is_left_out_is_counted(size):
    chains = tuple(Edge((f"c{at % 3}",), Span(at, at + 1)) for at in range(size))
    sentence = (Edge(("1",), Span(0, 60)),)
    text = Text("w", tuple("x" * 60), edges={"chains": chains, "sentence": sentence})
    task = get_task("coref_window")
    pairs = task.targets(text)
    assert len(pairs) + task.too_many([text]) == size * (size - 1) // 2
    assert all(1 <= pair.other.start - pair.span.start <= NEAREST for pair in pairs)
    assert get_task("coref").too_many([text]) == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("xyz")), max_size=8))
def test_every_two_mentions_pair_once(mentions):
    chains = tuple(Edge((chain,), Span(start, start + 2)) for start, chain in mentions)
    pairs = get_task("coref").targets(_text(chains=chains))
    size = len({edge.span for edge in chains})
    assert len(pairs) == len({(pair.span, pair.other) for pair in pairs}) == size * (size - 1) // 2
    assert all(pair.span < pair.other for pair in pairs)
    chain_of = {edge.span: {e.labels[0] for e in chains if e.span == edge.span} for edge in chains}
    assert all((pair.labels == ("1",)) == bool(chain_of[pair.span] & chain_of[pair.other]) for pair in pairs)

"""Tasks made from trees: chunks as CoNLL-2000 has them, ancestors, conjuncts and arcs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import corpus_from
from lamina.corpora.formats import ptb
from lamina.corpora.splits import Splits
from lamina.errors import TaskError
from lamina.tasks import get_task
from lamina.tasks.catalogue import SYNTAX_TASKS, choose_tasks
from lamina.types import Edge, Span, Text

# The first sentence is the one that opens CoNLL-2000's training file, with the tags that it has there.
CHUNKED = [
    (
        "(S (NP-SBJ-1 (NP (NN Confidence)) (PP-LOC (IN in) (NP (DT the) (NN pound)))) (VP (VBZ is)"
        " (VP (ADVP (RB widely)) (VBN expected) (S (NP-SBJ (-NONE- *-1))"
        " (VP (TO to) (VP (VB take) (NP (DT another) (JJ sharp) (NN dive))"
        " (SBAR-ADV (IN if) (S (NP-SBJ (NP (NN trade) (NNS figures)) (PP (IN for) (NP (NNP September))) (, ,)"
        " (ADJP (JJ due) (PP (IN for) (NP (NN release))) (NP-TMP (NN tomorrow))) (, ,)) (VP (VBP fail)"
        " (S (NP-SBJ (-NONE- *)) (VP (TO to) (VP (VB show) (NP (NP (DT a) (JJ substantial) (NN improvement))"
        " (PP (IN from) (NP (NP (NNP July) (CC and) (NNP August) (POS 's)) (JJ near-record) (NNS deficits)"
        ")))))))))))))) (. .))",
        "B-NP B-PP B-NP I-NP B-VP I-VP I-VP I-VP I-VP B-NP I-NP I-NP B-SBAR B-NP I-NP B-PP B-NP O B-ADJP B-PP B-NP B-NP"
        " O B-VP I-VP I-VP B-NP I-NP I-NP B-PP B-NP I-NP I-NP B-NP I-NP I-NP O",
    ),
    (
        "(S (NP (DT The) (ADJP (RBS most) (JJ volatile)) (NN form)) (VP (MD could) (ADVP (RB very) (RB well))"
        " (VP (VB rise) (PP (ADVP (RB well)) (IN above) (NP (NP (CD 68) (NNS years)) (CC and) (NP (NNS months))))))"
        " (. .))",
        "B-NP I-NP I-NP I-NP B-VP I-VP I-VP I-VP B-PP I-PP B-NP I-NP O B-NP O",
    ),
    (
        "(S (NP (PRP It)) (VP (VBD was) (ADJP (NP (CD 68) (NNS years)) (JJ old)) (ADVP (NP (DT a) (NN year))"
        " (RBR ago))))",
        "B-NP B-VP B-NP I-NP B-ADJP B-NP I-NP B-ADVP",
    ),
    (
        "(SINV (CONJP (RB Not) (RB only)) (VBZ does) (NP (PRP$ your) (NN dog)) (VP (VP (VB eat)) (CC and)"
        " (VP (VB dig) (PRT (RP up)))))",
        "B-CONJP I-CONJP O B-NP I-NP B-VP O B-VP B-PRT",
    ),
    ("(S (NP (PRP I)) (VP (VBD gave) (NP (NNP Ann)) (NP (DT a) (NN book))))", "B-NP B-VP B-NP B-NP I-NP"),
]


@pytest.mark.parametrize(("tree", "expected"), CHUNKED)
def test_chunks_are_those_of_conll_2000(tree: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "tree.mrg"
    path.write_text(f"( {tree} )\n")
    (text,) = ptb.read(path)

    assert " ".join(edge.labels[0] for edge in get_task("chunk").targets(text)) == expected


def test_one_word_in_two_constituents_of_its_span_has_the_inner_one_as_parent() -> None:
    const = (Edge("S", Span(0, 2)), Edge("NP-SBJ", Span(0, 1)), Edge("QP", Span(0, 1)), Edge("VP", Span(1, 2)))
    text = Text("s", ("Two", "bark"), edges={"const": const})
    labels = {
        name: [edge.labels[0] for edge in get_task(name).targets(text)]
        for name in ("parent", "grandparent", "great_grandparent")
    }
    assert labels == {"parent": ["QP", "VP"], "grandparent": ["NP", "S"], "great_grandparent": ["S", "none"]}


def test_every_arc_has_a_pair_of_words_without_one_beside_it() -> None:
    heads = [1, 1, 3, 1, 3]
    dep = tuple(
        Edge("root" if n == head else "x", Span(n, n + 1), Span(head, head + 1)) for n, head in enumerate(heads)
    )
    pairs = get_task("arc").targets(Text("s", tuple("abcde"), edges={"dep": dep}))

    linked = {(edge.span.start, edge.other.start) for edge in pairs if edge.labels == ("1",) and edge.other}
    apart = [(edge.span.start, edge.other.start) for edge in pairs if edge.labels == ("0",) and edge.other]
    assert linked == {(0, 1), (2, 3), (3, 1), (4, 3)}
    assert [word for word, _ in apart] == [0, 2, 3, 4]
    assert all(pair not in linked and pair[0] != pair[1] for pair in apart)


def test_tasks_made_by_rules_are_there_where_they_are_named_and_only_there() -> None:
    const = (Edge("S", Span(0, 2)), Edge("NP", Span(0, 1)))
    corpus = corpus_from([Text("s", ("Dogs", "bark"), edges={"const": const})], name="own")
    splits = Splits(corpus, corpus)

    assert [task.name for task in choose_tasks(None, splits, faithful=False)] == ["const"]
    assert [task.name for task in choose_tasks(["chunk", "parent"], splits, faithful=False)] == ["chunk", "parent"]
    with pytest.raises(TaskError, match=r"does not carry arc; .* made from it: chunk, parent, grandparent, great"):
        choose_tasks(["arc"], splits, faithful=False)
    assert {task.annotation for task in SYNTAX_TASKS} == {"const", "dep"}

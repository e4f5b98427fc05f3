"""Trees in brackets, starred columns and Penn Treebank files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.formats import ptb
from lamina.corpora.formats.ptb import BracketTree, read_trees, starred, unescape, without_top
from lamina.corpora.reading import Fault
from lamina.errors import FormatError
from lamina.types import Edge, Span

Node = tuple[str, "str | list[Node]"]
"""A label with its children, or a tag with its word."""


def write(folder: Path, content: str, name: str = "wsj_0001.mrg") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def faults_of(folder: Path, content: str) -> tuple[list[tuple[int, str]], list[BracketTree]]:
    faults: list[Fault] = []
    trees = list(read_trees(write(folder, content), faults.append))
    return [(fault.line, fault.what) for fault in faults], trees


PENN = """
( (S
    (NP-SBJ-1 (DT The) (NN dog) )
    (VP (VBD seemed)
      (S (NP-SBJ (-NONE- *-1) )
        (VP (TO to) (VP (VB bark) (-LRB- -LRB-) (RB
          loudly) (-RRB- -RRB-)))))
    (. .) ))
( (FRAG (UH Yes)))
"""


def test_penn_treebank(tmp_path: Path) -> None:
    first, second = ptb.read(write(tmp_path, PENN))
    assert (first.id, first.doc) == ("wsj_0001-1", "wsj_0001")
    assert first.words == ("The", "dog", "seemed", "to", "bark", "(", "loudly", ")", ".")
    tags = ["DT", "NN", "VBD", "TO", "VB", "-LRB-", "RB", "-RRB-", "."]
    assert [edge.labels[0] for edge in first.edges["pos"]] == tags
    assert [(edge.labels[0], edge.span.start, edge.span.end) for edge in first.edges["const"]] == [
        ("S", 0, 9),
        ("NP-SBJ-1", 0, 2),
        ("VP", 2, 8),
        ("S", 3, 8),
        ("VP", 3, 8),
        ("VP", 4, 8),
    ]
    assert (second.id, second.words) == ("wsj_0001-2", ("Yes",))


def test_a_folder_is_all_its_files_sorted(tmp_path: Path) -> None:
    (tmp_path / "01").mkdir()
    write(tmp_path / "01", "(ROOT (NP (NN b)))", "b.mrg")
    write(tmp_path, "(ROOT (NP (NN a)))", "z.ptb")
    write(tmp_path, "nothing", "notes.txt")
    assert [text.id for text in ptb.read(tmp_path)] == ["b-1", "z-1"]
    assert ptb.looks_like(tmp_path)


@pytest.mark.parametrize(
    ("content", "is_one"),
    [("(ROOT\n  (NP (NN a)))", True), ("( (S (NN a)))", True), ("(see above)", False), ("", False), ("Dogs", False)],
)
def test_looks_like_by_content(tmp_path: Path, content: str, is_one: bool) -> None:
    assert ptb.looks_like(write(tmp_path, content, "unnamed")) is is_one


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("(ROOT (NP (NN a))))", (1, "one closing bracket too many")),
        ("\n()", (2, "bracket () has no word")),
        ("(S (NP))", (1, "bracket (NP) has no word")),
        ("( (S\n (-NONE- *)))", (2, "the tree has no words")),
        ("stray", (1, "'stray' is outside any tree")),
        ("(NP (NN a)) stray", (1, "'stray' is outside any tree")),
        ("(NP (NN a b))", (1, "'b' is next to brackets or another word")),
        ("(NP (NN a) b)", (1, "'b' is next to brackets or another word")),
        ("(NP (NN a (NN b)))", (1, "a bracket follows the word 'a'")),
        ("(ROOT\n (NP (NN a))", (1, "the tree that starts here is never closed")),
    ],
)
def test_faults_name_the_line_and_reading_goes_on(tmp_path: Path, content: str, fault: tuple[int, str]) -> None:
    faults, trees = faults_of(tmp_path, content + "\n(ROOT (NP (NN fine)))\n")
    assert faults == [fault]
    assert trees[-1].words == ("fine",)
    with pytest.raises(FormatError, match=r"wsj_0001\.mrg:\d+: "):
        list(ptb.read(write(tmp_path, content)))


def test_a_tree_left_open_at_the_end(tmp_path: Path) -> None:
    faults, trees = faults_of(tmp_path, "(NP (NN a))\n(NP\n (NN b)\n")
    assert faults == [(2, "the tree that starts here is never closed")]
    assert len(trees) == 1


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.mrg"
    path.write_bytes(b"(NP\n (NN caf\xe9))\n(NP (NN fine))\n")
    faults: list[Fault] = []
    assert [tree.words for tree in read_trees(path, faults.append)] == [("fine",)]
    assert [fault.line for fault in faults] == [2]


def test_deep_trees_need_no_recursion(tmp_path: Path) -> None:
    (tree,) = read_trees(write(tmp_path, "(NP " * 5000 + "(NN a)" + ")" * 5000), print)
    assert len(tree.constituents) == 5000


def test_unescape() -> None:
    assert [unescape(word) for word in ("-LCB-", "d-LRB-e-RRB-", r"1\/2", "-LRB", "-")] == [
        "{",
        "d(e)",
        "1/2",
        "-LRB",
        "-",
    ]


def test_starred_columns() -> None:
    assert without_top(starred(["(TOP(S(NP*", "*)", "(VP*)))"])) == (
        Edge(("S",), Span(0, 3)),
        Edge(("NP",), Span(0, 2)),
        Edge(("VP",), Span(2, 3)),
    )
    assert starred(["(GPE)", "*"]) == (Edge(("GPE",), Span(0, 1)),)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["(S*"], "never closed"),
        (["*)"], "too many"),
        (["-"], "is not a starred cell"),
        (["(S"], "is not a starred cell"),
        (["(S*(NP*))"], "is not a starred cell"),
    ],
)
def test_starred_columns_that_break(column: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        starred(column)


_WORD = st.text(st.characters(exclude_characters="()", exclude_categories=("C", "Z")), min_size=1, max_size=4).filter(
    lambda word: unescape(word) == word
)
_LABEL = st.sampled_from(["S", "NP-SBJ", "VP", "PP|X", "NP=2"])
_LEAF = st.tuples(st.sampled_from(["NN", "VB", ":", "-LRB-"]), _WORD)
_NODE = st.recursive(_LEAF, lambda inner: st.tuples(_LABEL, st.lists(inner, min_size=1, max_size=3)), max_leaves=8)
_PHRASE = st.tuples(_LABEL, st.lists(_NODE, min_size=1, max_size=3))
_SPACE = st.sampled_from([" ", "\n", "\n    "])


def as_string(node: Node, space: str) -> str:
    label, inside = node
    if isinstance(inside, str):
        return f"({label} {inside.replace('(', '-LRB-').replace(')', '-RRB-')})"
    return f"({label}{space}{space.join(as_string(child, space) for child in inside)})"


def leaves(node: Node) -> list[tuple[str, str]]:
    label, inside = node
    return [(label, inside)] if isinstance(inside, str) else [leaf for child in inside for leaf in leaves(child)]


def spans(node: Node, start: int = 0) -> list[Edge]:
    label, inside = node
    if isinstance(inside, str):
        return []
    found = [Edge((label,), Span(start, start + len(leaves(node))))]
    for child in inside:
        found += spans(child, start)
        start += len(leaves(child))
    return found


def bits(node: Node) -> list[str]:
    label, inside = node
    if isinstance(inside, str):
        return ["*"]
    cells = [cell for child in inside for cell in bits(child)]
    cells[0] = f"({label}{cells[0]}"
    cells[-1] += ")"
    return cells


@given(st.lists(_PHRASE, min_size=1, max_size=3), _SPACE, st.sampled_from(["(ROOT {})", "( {})", "{}"]))
def test_trees_come_back(tmp_path_factory: pytest.TempPathFactory, nodes: list[Node], space: str, top: str) -> None:
    content = "\n".join(top.format(as_string(node, space)) for node in nodes)
    trees = list(read_trees(write(tmp_path_factory.mktemp("trees"), content), print))
    assert [tree.number for tree in trees] == list(range(1, len(nodes) + 1))
    for tree, node in zip(trees, nodes, strict=True):
        assert list(zip(tree.tags, tree.words, strict=True)) == leaves(node)
        assert list(tree.constituents) == spans(node)


@given(_PHRASE)
def test_parse_bits_give_what_brackets_give(node: Node) -> None:
    assert list(starred(bits(node))) == spans(node)

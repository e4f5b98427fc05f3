"""GUM: layers joined on the same sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora.formats import gum
from lamina.corpora.reading import Fault
from lamina.errors import CorpusError, FormatError
from lamina.types import Edge, Span

DEP = """\
# newdoc id = {name}
# global.Entity = GRP-etype-infstat
# sent_id = {name}-1
1	Ada	_	PROPN	NNP	_	2	nsubj	_	Entity=(1-person-new)
2	saw	_	VERB	VBD	_	0	root	_	_
3	(	_	PUNCT	-LRB-	_	2	punct	_	_

# sent_id = {name}-2
1	Her	_	PRON	PRP$	_	2	nmod	_	Entity=(2-animal-new(1-person-giv)
2	dog	_	NOUN	NN	_	0	root	_	Entity=2)
"""
CONST = "(ROOT\n  (S (NP (NNP Ada)) (VP (VBD saw)) (-LRB- -LRB-)))\n\n(ROOT (NP (PRP$ Her) (NN dog)))"
ONTOGUM = "# begin document \n0\tAda\t(7)\n1\tsaw\t_\n2\t(\t_\n3\tHer\t(7)\n4\tdog\t_\n# end document\n"
GUM = (
    "# begin document x\n0\tAda\t(person-1-Ada)\n1\tsaw\t_\n2\t(\t_\n"
    "3\tHer\t(animal-2(person-1-Ada)\n4\tdog\tanimal-2)\n\n"
)


def place(folder: Path, **layers: str) -> Path:
    """Two documents, of which `b` has the given layers instead of sound ones."""
    sound = {"dep": DEP, "const": CONST, "ontogum": ONTOGUM, "gum": GUM}
    where = {
        "dep": "dep/{}.conllu",
        "const": "const/{}.ptb",
        "ontogum": "coref/ontogum/conll/{}.conll",
        "gum": "coref/gum/conll/{}.conll",
    }
    for name, layer in (("a", {}), ("b", layers)):
        for kind, content in (sound | layer).items():
            path = folder / where[kind].format(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.replace("{name}", name), encoding="utf-8")
    (folder / "splits").mkdir(exist_ok=True)
    (folder / "splits" / "dev.txt").write_text("b\n")
    return folder


def test_layers_are_joined(tmp_path: Path) -> None:
    folder = place(tmp_path)
    assert gum.looks_like(folder)
    first, second, *others = gum.read(folder)
    assert [text.id for text in others] == ["b-1", "b-2"]
    assert (first.id, first.doc, first.words) == ("a-1", "a", ("Ada", "saw", "("))
    assert set(first.edges) == {"pos", "xpos", "dep", "const", "ner", "chains", "chains_gum"}
    assert [edge.labels[0] for edge in first.edges["const"]] == ["S", "NP", "VP"]
    assert first.edges["chains"] == (Edge(("7",), Span(0, 1)),)
    assert second.edges["chains"] == (Edge(("7",), Span(0, 1)),)
    assert second.edges["chains_gum"] == (Edge(("2",), Span(0, 2)), Edge(("1",), Span(0, 1)))
    assert second.edges["ner"] == (Edge(("animal",), Span(0, 2)), Edge(("person",), Span(0, 1)))


def test_a_split_or_one_file(tmp_path: Path) -> None:
    folder = place(tmp_path)
    assert {text.doc for text in gum.read(folder, split="dev")} == {"b"}
    assert {text.doc for text in gum.read(folder / "dep" / "a.conllu")} == {"a"}
    assert list(gum.read(folder / "dep" / "a.conllu", split="dev")) == []
    with pytest.raises(CorpusError, match="no split 'test'"):
        list(gum.read(folder, split="test"))


def test_layers_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "dep" / "a.conllu"
    path.parent.mkdir()
    path.write_text(DEP.format(name="a"))
    assert not gum.looks_like(tmp_path)
    assert set(next(gum.read(tmp_path)).edges) == {"pos", "xpos", "dep", "ner"}
    assert gum.companions(path) == ()
    place(tmp_path)
    assert [file.suffix for file in gum.companions(path)] == [".ptb", ".conll", ".conll"]


def test_ontogum_may_lose_a_word(tmp_path: Path) -> None:
    folder = place(tmp_path, ontogum=ONTOGUM.replace("\t(\t_", "\t\t_"))
    assert len(list(gum.read(folder))) == 4


@pytest.mark.parametrize(
    ("layer", "file", "line", "what"),
    [
        ({"const": CONST.replace("dog", "cat")}, "b.ptb", 4, "sentence b-2"),
        ({"const": CONST.partition("\n\n")[0]}, "b.ptb", 0, "1 trees"),
        ({"const": CONST[:-1]}, "b.ptb", 4, "never closed"),
        ({"ontogum": ONTOGUM.replace("dog", "cat")}, "b.conll", 6, "word 'cat'"),
        ({"ontogum": ONTOGUM.replace("4\tdog\t_\n", "")}, "b.conll", 0, "4 words"),
        ({"ontogum": ONTOGUM.replace("4\tdog\t_", "4\tdog")}, "b.conll", 6, "2 columns"),
        ({"gum": GUM.replace("(person-1-Ada)\n1", "(person-1-Ada\n1")}, "b.conll", 2, "sentence b-1: mention"),
        ({"dep": DEP.replace("\t0\troot", "\t9\troot", 1)}, "b.conllu", 5, "head 9"),
    ],
)
def test_faults_leave_the_document_out(tmp_path: Path, layer: dict[str, str], file: str, line: int, what: str) -> None:
    folder = place(tmp_path, **layer)
    faults: list[Fault] = []
    assert {text.doc for text in gum.read(folder, faults.append)} == {"a"}
    assert (faults[0].path.name, faults[0].line) == (file, line)
    assert what in faults[0].what
    with pytest.raises(FormatError, match=file):
        list(gum.read(folder))


def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    folder = place(tmp_path)
    (folder / "const" / "b.ptb").unlink()
    (folder / "coref" / "gum" / "conll" / "b.conll").unlink()
    faults: list[Fault] = []
    assert {text.doc for text in gum.read(folder, faults.append)} == {"a"}
    assert [(fault.path.name, fault.what) for fault in faults] == [
        ("b.ptb", "file not found"),
        ("b.conll", "file not found"),
    ]

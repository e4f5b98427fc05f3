"""UDS graphs of the decomp wheel, on a hand-written sentence."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from lamina.corpora.formats import uds
from lamina.errors import FormatError
from lamina.types import Edge, Span

NAME = "uds-ewt-sentences-dev-normalized.json"
WORDS = ["The DET DT", "old ADJ JJ", "dog NOUN NN", "barked VERB VBD", ". PUNCT ."]
HEADS = [(3, "det"), (3, "amod"), (4, "nsubj"), (0, "root"), (4, "punct")]


def _token(place: int) -> str:
    return f"ewt-dev-1-syntax-{place}" if place else "ewt-dev-1-root-0"


def _interface(kind: str, *places: int) -> list[dict]:
    return [{"domain": "interface", "type": kind, "id": _token(place)} for place in places]


def _graph() -> dict:
    """`The old dog barked .` with a gap between the argument's determiner and its noun."""
    tokens = [
        {"id": _token(i), "domain": "syntax", "type": "token", "position": i, "form": form, "upos": upos, "xpos": xpos}
        for i, (form, upos, xpos) in enumerate(map(str.split, WORDS), start=1)
    ]
    root = {"id": _token(0), "domain": "root", "type": "root", "position": 0}
    predicate = {"id": "pred-4", "domain": "semantics", "type": "predicate"}
    predicate["factuality"] = {"factual": {"value": -0.5, "confidence": 1.0}}
    argument = {"id": "arg-3", "domain": "semantics", "type": "argument"}
    argument["wordsense"] = {
        "supersense-noun.animal": {"value": 1.2, "confidence": 1.0},
        "supersense-noun.food": {"value": -0.0, "confidence": 1.0},
    }
    author = {"id": "arg-author", "domain": "semantics", "type": "argument"}
    nodes = [root, *reversed(tokens), predicate, argument, author]
    out = {node["id"]: [] for node in nodes}
    for place, (head, deprel) in enumerate(HEADS, start=1):
        out[_token(head)].append({"domain": "syntax", "type": "dependency", "deprel": deprel, "id": _token(place)})
    roles = {"volition": {"value": 0.3, "confidence": 1.0}, "awareness": {"value": -1.0, "confidence": 1.0}}
    out["pred-4"] = [
        *_interface("head", 4),
        {"domain": "semantics", "type": "dependency", "id": "arg-3", "protoroles": roles},
    ]
    out["arg-3"] = [*_interface("head", 3), *_interface("nonhead", 1, 2)]
    out["arg-author"] = [{"domain": "interface", "type": "dependency", "id": _token(0)}]
    return {"directed": True, "nodes": nodes, "adjacency": list(out.values())}


@pytest.fixture
def write(tmp_path):
    """Writes graphs as the wheel lays them out, and gives the file's path."""
    (tmp_path / "ud_ids.json").write_text(
        json.dumps({f"ewt-dev-{i}": {"document_id": "weblog-1", "sentence_id": f"weblog-1-000{i}"} for i in (1, 2)})
    )

    def write_graphs(*graphs: dict, ids: bool = True):
        folder = tmp_path / "2.0" / "sentence"
        folder.mkdir(parents=True)
        body = {"metadata": {}, "data": {f"ewt-dev-{i}": graph for i, graph in enumerate(graphs, start=1)}}
        (folder / NAME).write_text(json.dumps(body))
        if not ids:
            (tmp_path / "ud_ids.json").unlink()
        return folder / NAME

    return write_graphs


def test_every_annotation_of_a_sentence(write):
    (text,) = uds.read_graphs(write(_graph()))
    assert (text.id, text.doc) == ("weblog-1-0001", "weblog-1")
    assert text.words == ("The", "old", "dog", "barked", ".")
    assert [edge.labels[0] for edge in text.edges["pos"]] == ["DET", "ADJ", "NOUN", "VERB", "PUNCT"]
    assert [edge.labels[0] for edge in text.edges["xpos"]] == ["DT", "JJ", "NN", "VBD", "."]
    assert text.edges["dep"][2] == Edge(("nsubj",), Span(2, 3), Span(3, 4))
    assert text.edges["dep"][3] == Edge(("root",), Span(3, 4), Span(3, 4))
    assert text.edges["spr"] == (Edge(("volition",), Span(3, 4), Span(0, 3), rated=("awareness", "volition")),)
    assert text.edges["supersense"] == (Edge(("animal",), Span(2, 3), rated=("animal", "food")),)
    assert text.edges["factuality"] == (Edge((), Span(3, 4), rated=("factual",), value=-0.5),)


def test_an_argument_keeps_to_the_run_around_its_head(write):
    graph = _graph()
    argument = next(i for i, node in enumerate(graph["nodes"]) if node["id"] == "arg-3")
    graph["adjacency"][argument] = [*_interface("head", 3), *_interface("nonhead", 1, 5)]
    (text,) = uds.read_graphs(write(graph))
    assert text.edges["spr"][0].other == Span(2, 3)


def test_a_noun_of_no_class_is_an_edge_without_labels(write):
    graph = _graph()
    next(node for node in graph["nodes"] if node["id"] == "arg-3")["wordsense"]["supersense-noun.animal"]["value"] = -1
    (text,) = uds.read_graphs(write(graph))
    assert text.edges["supersense"][0].labels == ()


def test_it_is_told_from_other_json(write, tmp_path):
    assert uds.looks_like_graphs(write(_graph()))
    (tmp_path / "uds-other.json").write_bytes(b"\xff\xfe[]")
    assert not uds.looks_like_graphs(tmp_path / "uds-other.json")
    assert not uds.looks_like_graphs(tmp_path)


def test_without_ids_it_says_what_is_missing(write):
    with pytest.raises(FormatError, match=r"no ud_ids\.json next to it or in a folder above"):
        list(uds.read_graphs(write(_graph(), ids=False)))


def test_ids_that_are_no_json_are_a_fault(write, tmp_path):
    path = write(_graph())
    (tmp_path / "ud_ids.json").write_text("{")
    faults = []
    assert list(uds.read_graphs(path, faults.append)) == []
    assert faults[0].path.name == "ud_ids.json"


def _without_form(graph):
    del graph["nodes"][1]["form"]


def _gap(graph):
    graph["nodes"][1]["position"] = 9


def _no_adjacency(graph):
    graph["adjacency"].pop()


def _no_object(graph):
    graph["nodes"] = 3


@pytest.mark.parametrize(
    ("spoil", "what"),
    [(_without_form, "no 'form'"), (_gap, "without gaps"), (_no_adjacency, "shorter"), (_no_object, "not iterable")],
)
def test_a_broken_graph_is_named_and_the_next_one_read(write, spoil, what):
    bad = deepcopy(_graph())
    spoil(bad)
    faults = []
    texts = list(uds.read_graphs(write(bad, _graph()), faults.append))
    assert [text.id for text in texts] == ["weblog-1-0002"]
    assert len(faults) == 1
    assert what in faults[0].what
    assert "ewt-dev-1" in faults[0].what


def test_a_graph_that_the_ids_do_not_know(write):
    faults = []
    assert len(list(uds.read_graphs(write(_graph(), _graph(), _graph()), faults.append))) == 2
    assert "has no 'ewt-dev-3'" in faults[0].what


def test_a_file_cut_short(write):
    path = write(_graph(), _graph())
    path.write_bytes(path.read_bytes()[:-200])
    faults = []
    assert [text.id for text in uds.read_graphs(path, faults.append)] == ["weblog-1-0001"]
    assert "not JSON" in faults[0].what

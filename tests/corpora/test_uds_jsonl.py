"""UDS annotations as JSON lines."""

from __future__ import annotations

import json

import pytest

from lamina.corpora.formats.uds import looks_like_jsonl, read_jsonl
from lamina.errors import FormatError
from lamina.types import Edge, Span

BASE = {"uds_id": "ewt-dev-1", "sent_id": "weblog-1-0001", "tokens": ["The", "dog", "barked"]}
ROLE = {"pred": 2, "arg_head": 1, "arg_span": [0, 2], "props": {"volition": [0.2, 1.0], "awareness": [-0.0, 0.5]}}


def _file(tmp_path, *records):
    path = tmp_path / "uds.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_proto_roles(tmp_path):
    path = _file(tmp_path, BASE | {"edges": [ROLE]})
    (text,) = read_jsonl(path)
    assert looks_like_jsonl(path)
    assert (text.id, text.doc) == ("weblog-1-0001", "weblog-1")
    assert text.edges == {"spr": (Edge(("volition",), Span(2, 3), Span(0, 2), rated=("awareness", "volition")),)}


def test_senses_and_factuality(tmp_path):
    senses = {"noun_supersense": [[1, ["animal", "Tops"]]], "factuality": [[2, 0.9, 1.0]]}
    (text,) = read_jsonl(_file(tmp_path, BASE | senses))
    assert text.edges["supersense"] == (Edge(("animal", "Tops"), Span(1, 2)),)
    assert text.edges["factuality"] == (Edge(("factual",), Span(2, 3), rated=("factual",), value=0.9),)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (BASE, "no field 'edges'"),
        (BASE | {"edges": [{"pred": 2}]}, "no field 'props'"),
        (BASE | {"edges": [ROLE | {"pred": "2"}]}, "not the index of a word"),
        (BASE | {"edges": [ROLE | {"arg_span": [2, 2]}]}, "start < end"),
        (BASE | {"edges": [ROLE | {"arg_span": [0, 9]}]}, "outside its 3 words"),
        (BASE | {"edges": [], "tokens": []}, "not a list of words"),
        (BASE | {"factuality": [[0, "high", 1.0]]}, "not a number"),
        (BASE | {"noun_supersense": [[0, 5]]}, "neither a label nor"),
        ([1, 2], "not a JSON object"),
    ],
)
def test_faults_name_the_line(tmp_path, record, what):
    good = BASE | {"edges": [ROLE]}
    path = _file(tmp_path, good, record, good)
    faults = []
    assert len(list(read_jsonl(path, faults.append))) == 2
    assert [fault.line for fault in faults] == [2]
    assert what in faults[0].what


def test_a_line_that_is_no_json_stops_loading(tmp_path):
    path = tmp_path / "uds.jsonl"
    path.write_text('{"uds_id": \n')
    with pytest.raises(FormatError, match=r"uds\.jsonl:1: not JSON"):
        list(read_jsonl(path))
    assert not looks_like_jsonl(path)

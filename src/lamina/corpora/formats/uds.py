"""Universal Decompositional Semantics: graphs of version 2.0 (decomp wheel), and JSON lines of version 1.0.

`uds-ewt-sentences-{train,dev,test}-normalized.json` holds the graphs; `ud_ids.json`, next to it or in a folder above,
says which sentence and document each one is. The file is streamed, with one sentence in memory at a time.

Annotations: `pos`, `xpos`, `dep` (UD v1 labels, as annotated), `spr`, `supersense`, `factuality`. Values are binarised
at > 0. A proto-role not rated on an edge is left out of `rated`: unknown, never negative. A noun with only negative
supersense ratings is kept as an edge without labels, since that is what annotators said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.reading import (
    Fault,
    Record,
    Report,
    document_of,
    first_record,
    id_of,
    labels_of,
    name_of,
    number_of,
    raise_fault,
    read_records,
    span_of,
    word_span,
    words_of,
)
from lamina.files.reading import BoundedJson, open_regular, parse_json, read_regular
from lamina.types import Edge, Span, Text

IDS = "ud_ids.json"
_GRAPH = "a UDS 2.0 graph: parallel lists `nodes` and `adjacency`, tokens with `position`, `form`, `upos` and `xpos`"
_SUPERSENSE = "supersense-noun."

Node = Mapping[str, Any]


class _UdsArc(NamedTuple):
    """One arc of the graph, by node ids."""

    source: str
    target: str
    about: Node


def looks_like_graphs(path: Path) -> bool:
    """Whether the file is a UDS sentence file: a JSON object of metadata and graphs."""
    if path.suffix != ".json" or "uds" not in path.name.lower() or not path.is_file():
        return False
    with open_regular(path) as file:
        return file.read(64).lstrip().startswith(b'{"metadata"')


def read_graphs(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per sentence, with the id and document of the treebank."""
    for name, graph, ids in graphs_of(path, report):
        if (text := _checked(name, graph, ids, path, report)) is not None:
            yield text


def graphs_of(path: Path, report: Report = raise_fault) -> Iterator[tuple[str, Node, Mapping[str, Mapping[str, str]]]]:
    """The name and the graph of each sentence, and which sentence and document each name is."""
    import ijson

    ids = _read_ids(path, report)
    if ids is None:
        return
    with open_regular(path) as file:
        try:
            for name, graph in ijson.kvitems(BoundedJson(file), "data", use_float=True):
                yield name, graph, ids
        # A ValueError: bytes that are not UTF-8, or JSON nested too deeply.
        except (ijson.JSONError, ValueError) as error:
            report(Fault(path, 0, f"not JSON ({_first_line(error)})", "the complete JSON of the decomp wheel"))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _read_ids(path: Path, report: Report) -> Mapping[str, Mapping[str, str]] | None:
    for folder in path.absolute().parents:
        if (folder / IDS).is_file():
            expected = f"the {IDS} of the decomp wheel"
            try:
                ids = parse_json(read_regular(folder / IDS).decode("utf-8-sig"))
            except ValueError as error:
                return report(Fault(folder / IDS, 0, f"not JSON ({_first_line(error)})", expected))
            return ids if isinstance(ids, dict) else report(Fault(folder / IDS, 0, "not a JSON object", expected))
    report(Fault(path, 0, f"no {IDS} next to it or in a folder above", f"decomp/data/{IDS} of the decomp wheel there"))
    return None


def _checked(name: str, graph: Node, ids: Mapping[str, Mapping[str, str]], path: Path, report: Report) -> Text | None:
    """The text, or a fault if the graph breaks the format (the file has one line, so the fault names the graph)."""
    try:
        return _graph_text(graph, ids[name])
    except KeyError as error:
        what = f"{IDS} has no {name!r}" if name not in ids else f"{name}: no {error}"
        report(Fault(path, 0, what, _GRAPH))
    except (TypeError, ValueError, AttributeError) as error:
        report(Fault(path, 0, f"{name}: {error}", _GRAPH))
    return None


def _graph_text(graph: Node, identity: Mapping[str, str]) -> Text:
    nodes = {node["id"]: node for node in graph["nodes"]}
    links = [_UdsArc(s, a["id"], a) for s, out in zip(nodes, graph["adjacency"], strict=True) for a in out]
    tokens = sorted((node for node in nodes.values() if node["domain"] == "syntax"), key=lambda node: node["position"])
    places = {node["id"]: place for place, node in enumerate(tokens)}
    if [node["position"] for node in tokens] != list(range(1, len(tokens) + 1)):
        raise ValueError("token positions do not run from 1 without gaps")
    heads = {link.source: places[link.target] for link in links if _reaches(link, "head")}
    edges = {
        "pos": tuple(Edge((node["upos"],), _word(place)) for place, node in enumerate(tokens)),
        "xpos": tuple(Edge((node["xpos"],), _word(place)) for place, node in enumerate(tokens)),
        "dep": _dependencies(links, places),
        "spr": _proto_roles(links, places, heads),
        "supersense": _supersenses(nodes, heads),
        "factuality": _graph_factuality(nodes, heads),
    }
    words = words_of([node["form"] for node in tokens])
    return Text(name_of(identity["sentence_id"]), words, edges=edges, doc=name_of(identity["document_id"]))


@cache
def _word(place: int) -> Span:
    return Span(place, place + 1)


def _reaches(link: _UdsArc, kind: str) -> bool:
    """Whether the arc links a predicate or argument to a token."""
    return link.about["domain"] == "interface" and link.about["type"] == kind


def _dependencies(links: list[_UdsArc], places: Mapping[str, int]) -> tuple[Edge, ...]:
    edges = {}
    for link in links:
        if link.about["domain"] == "syntax" and link.about["type"] == "dependency":
            dependent = places[link.target]
            # The artificial root is not a token: its dependent becomes its own head.
            edges[dependent] = Edge(
                (link.about["deprel"],), _word(dependent), _word(places.get(link.source, dependent))
            )
    return tuple(edges[place] for place in sorted(edges))


def _proto_roles(links: list[_UdsArc], places: Mapping[str, int], heads: Mapping[str, int]) -> tuple[Edge, ...]:
    rated = [link for link in links if "protoroles" in link.about]
    covered = {link.target: {heads[link.target]} for link in rated}
    for link in links:
        if link.source in covered and _reaches(link, "nonhead"):
            covered[link.source].add(places[link.target])
    spans = {argument: _run(places, heads[argument]) for argument, places in covered.items()}
    edges = []
    for link in rated:
        ratings, predicate = link.about["protoroles"], _word(heads[link.source])
        edges.append(Edge(_holding(ratings), predicate, spans[link.target], rated=tuple(sorted(ratings))))
    return tuple(sorted(edges, key=lambda edge: (edge.span, edge.other)))


def _run(places: set[int], head: int) -> Span:
    """The longest run of an argument's words around its head."""
    start, end = head, head + 1
    while start - 1 in places:
        start -= 1
    while end in places:
        end += 1
    return Span(start, end)


def _holding(ratings: Mapping[str, Node], prefix: str = "") -> tuple[str, ...]:
    """The names rated above 0, without their prefix."""
    return tuple(sorted(name.removeprefix(prefix) for name, rating in ratings.items() if rating["value"] > 0))


def _supersenses(nodes: Mapping[str, Node], heads: Mapping[str, int]) -> tuple[Edge, ...]:
    edges = []
    for name, node in nodes.items():
        if "wordsense" in node:
            ratings = node["wordsense"]
            rated = tuple(sorted(sense.removeprefix(_SUPERSENSE) for sense in ratings))
            edges.append(Edge(_holding(ratings, _SUPERSENSE), _word(heads[name]), rated=rated))
    return tuple(sorted(edges, key=lambda edge: edge.span))


def _graph_factuality(nodes: Mapping[str, Node], heads: Mapping[str, int]) -> tuple[Edge, ...]:
    edges = [
        Edge(
            _holding(node["factuality"]),
            _word(heads[name]),
            rated=("factual",),
            value=number_of(node["factuality"]["factual"]["value"]),
        )
        for name, node in nodes.items()
        if "factuality" in node
    ]
    return tuple(sorted(edges, key=lambda edge: edge.span))


# UDS annotations joined to English Web Treebank tokens, as JSON lines.
#
# Two files share the shape `{uds_id, sent_id, tokens, ...}`:
#
# - proto-roles: `edges: [{pred, arg_head, arg_span: [start, end), props: {property: [value, confidence]}}]`;
# - word senses: `noun_supersense: [[word, [labels]]]` and `factuality: [[word, value, confidence]]`.
#
# A value above 0 means that the property holds; a missing property was not asked about, and is masked. The word-sense
# files only contain nouns with a positive class, so `rated` is None there.

_EXPECTED = "{uds_id, sent_id, tokens} with `edges` (proto-roles) or `noun_supersense` and `factuality` (word senses)"


def looks_like_jsonl(path: Path) -> bool:
    """Whether the first line is a record of either kind."""
    return {"uds_id", "sent_id", "tokens"} <= first_record(path).keys()


def read_jsonl(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line."""
    return read_records(path, report, _record_text, _EXPECTED)


def _record_text(record: Record, _line: int) -> Text:
    makers = {"edges": ("spr", _proto_role), "noun_supersense": ("supersense", _supersense)}
    makers["factuality"] = ("factuality", _factuality)
    edges = {
        name: tuple(make(item) for item in record[field]) for field, (name, make) in makers.items() if field in record
    }
    if not edges:
        raise KeyError("edges")
    name = id_of(record["sent_id"])
    return Text(name, words_of(record["tokens"]), edges=edges, doc=document_of(name))


def _proto_role(item: Record) -> Edge:
    values = {name: number_of(value) for name, (value, _confidence) in item["props"].items()}
    holding = tuple(sorted(name for name, value in values.items() if value > 0))
    return Edge(holding, word_span(item["pred"]), span_of(item["arg_span"]), rated=tuple(sorted(values)))


def _supersense(item: list[object]) -> Edge:
    word, labels = item
    return Edge(labels_of(labels), word_span(word))


def _factuality(item: list[object]) -> Edge:
    word, value, _confidence = item
    graded = number_of(value)
    return Edge(("factual",) if graded > 0 else (), word_span(word), rated=("factual",), value=graded)

"""PropBank over English Web Treebank: JSON lines with words, tags, a parse and the roles of each predicate.

A row is `{"sent_id", "tokens", "pos", "parse", "props": [{"pred", "roleset", "args": [[label, start, end], ...]}]}`:
`pos` are Penn Treebank tags, `parse` CoNLL parse bits (`(TOP(S(NP*`), one per word, and `args` half-open spans that
include the predicate itself as `V`. It gives `pos`, `const` and `srl`. In `srl` the first span is the predicate as
marked by `V` (with its particle: "grow up"), the second the argument. `V` itself is not an edge, but `C-V`, a later
part of the predicate, is. The counts of arguments in the corpus's SOURCE.txt exclude `V` too. The document is the part
of `sent_id` before the sentence's number (`reviews-003418-0002`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lamina.corpora.formats.ptb import starred, without_top
from lamina.corpora.reading import (
    Record,
    Report,
    document_of,
    first_record,
    id_of,
    labels_of,
    raise_fault,
    read_records,
    span_of,
    word_span,
    words_of,
)
from lamina.types import Edge, Span, Text

_FIELDS = ("sent_id", "tokens", "pos", "parse", "props")
_EXPECTED = f"an object with {', '.join(_FIELDS)}, as in PropBank rows"


def looks_like(path: Path) -> bool:
    """Whether the first line is such a row."""
    return path.is_file() and first_record(path).keys() >= set(_FIELDS)


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per row.

    Example:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
        >>> props = [{"pred": 1, "roleset": "bark.01", "args": [["ARG0", 0, 1], ["V", 1, 2]]}]
        >>> row = {"sent_id": "s1", "tokens": ["Dogs", "bark"], "pos": ["NNS", "VBP"]}
        >>> _ = path.write_text(json.dumps({**row, "parse": ["(S(NP*)", "(VP*))"], "props": props}))
        >>> [edge.labels[0] for edge in next(read(path)).edges["srl"]]
        ['ARG0']
    """
    return read_records(path, report, _text, _EXPECTED)


def _text(row: Record, _: int) -> Text:
    words, tags, bits = words_of(row["tokens"]), words_of(row["pos"]), words_of(row["parse"])
    if not len(words) == len(tags) == len(bits):
        raise ValueError(f"{len(words)} tokens, {len(tags)} tags and {len(bits)} parse bits")
    edges = {
        "pos": tuple(Edge((tag,), Span(word, word + 1)) for word, tag in enumerate(tags)),
        "const": without_top(starred(bits)),
        "srl": tuple(edge for frame in row["props"] for edge in _roles(frame)),
    }
    name = id_of(row["sent_id"])
    return Text(name, words, edges=edges, doc=document_of(name))


def _roles(frame: Record) -> Iterator[Edge]:
    """The arguments of one predicate, each paired with it."""
    arguments = [(labels_of(label), span_of([start, end])) for label, start, end in frame["args"]]
    verbs = [span for labels, span in arguments if labels == ("V",)]
    word = word_span(frame["pred"])
    if len(verbs) > 1 or (verbs and word.start not in verbs[0]):
        raise ValueError(f"predicate {frame.get('roleset')} at word {word.start + 1} has its V somewhere else")
    predicate = verbs[0] if verbs else word
    return (Edge(labels, predicate, span) for labels, span in arguments if labels != ("V",))

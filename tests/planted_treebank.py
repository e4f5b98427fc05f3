"""Sentences of the planted language as a treebank, in which the copying head finds the subject."""

from __future__ import annotations

from lamina.types import Edge, Span, Text
from tests.planted_language import said


def treebank(seed: int, many: int) -> list[Text]:
    """The noun is the `nsubj` of the cue, from which it is copied; the verb is its `xcomp`, other words `advmod`."""
    made = []
    for at, each in enumerate(said(seed, many)):
        cue = each.verb - 1
        edges = []
        for word in range(len(each.words)):
            head, relation = _head(word, each.noun, cue, each.verb, len(each.words))
            edges.append(Edge((relation,), Span(word, word + 1), Span(head, head + 1)))
        made.append(Text(f"{seed}-{at}", each.words, edges={"dep": tuple(edges)}, doc=f"{seed}-{at}"))
    return made


def conllu(texts: list[Text]) -> str:
    """The same as CoNLL-U."""
    lines = []
    for text in texts:
        lines += [f"# newdoc id = {text.doc}", f"# sent_id = {text.id}"]
        for at, (word, edge) in enumerate(zip(text.words, text.edges["dep"], strict=True), start=1):
            other = edge.other or edge.span
            head = 0 if other == edge.span else other.start + 1
            lines.append(f"{at}\t{word}\t{word}\tX\t_\t_\t{head}\t{edge.labels[0]}\t_\t_")
        lines.append("")
    return "\n".join(lines) + "\n"


def _head(word: int, noun: int, cue: int, verb: int, words: int) -> tuple[int, str]:
    if word == cue:
        return cue, "root"
    if word in (noun, verb):
        return cue, "nsubj" if word == noun else "xcomp"
    return (word + 1, "advmod") if word + 1 < words else (cue, "punct")

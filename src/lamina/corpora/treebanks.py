"""Treebanks with lemmas and features: CoNLL-U (GUM's too) and UDS graphs.

`Text` keeps what probes ask of; inflecting words needs more of a file: the lemma, the features, and how the words
were written. In CoNLL-U, `SpaceAfter=No` and multi-word tokens say so; UDS graphs do not, and words are separated by
spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.corpora.detection import ALL_FILES, FileSelection
from lamina.corpora.formats.conllu import ConlluRow, check, columns_of
from lamina.corpora.formats.uds import graphs_of
from lamina.corpora.loading import CorpusSource, find_source, part_of
from lamina.corpora.reading import Fault, Heading, Report, raise_fault, read_blocks
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, FormatError
from lamina.files.checking import sha256_of
from lamina.types import Edge, Span, Text


class TreebankWord(NamedTuple):
    """A word with what a treebank says of it; what it does not say is empty."""

    form: str
    lemma: str
    pos: str
    """Universal part of speech."""
    tag: str
    """The treebank's own."""
    features: Mapping[str, str]
    head: int
    """Position of the head; its own for the root."""
    relation: str
    before: str = " "
    """What is written before it: a space or nothing."""
    written: str | None = None
    """Where it is part of a multi-word token that is not written as its words: that token at its first word, nothing at
    the others; None for all other words."""


class TreebankSentence(NamedTuple):
    """The words of a sentence."""

    id: str
    doc: str | None
    words: tuple[TreebankWord, ...]

    def text(self, other: Mapping[int, str] = MappingProxyType({})) -> str:
        """The sentence as it was written, with other words at some positions.

        Example:
            >>> words = [TreebankWord("It", "it", "", "", {}, 1, ""), TreebankWord("is", "be", "", "", {}, 1, "")]
            >>> words.append(TreebankWord("n't", "not", "", "", {}, 1, "", before=""))
            >>> TreebankSentence("1", None, tuple(words)).text({1: "are"})
            "It aren't"
        """
        parts = []
        for place, word in enumerate(self.words):
            written = word.form if word.written is None else word.written
            parts += [word.before, other.get(place, written)]
        return "".join(parts).strip()


class LemmaTreebank(NamedTuple):
    """Sentences of one split, and of all splits."""

    name: str
    split: str
    files: Mapping[str, str]
    """File name -> sha256."""
    sentences: tuple[TreebankSentence, ...]
    """Of the split."""
    others: tuple[TreebankSentence, ...]
    """Of all other splits that are there."""
    made_split: str | None = None
    """How the split was made, if the corpus does not come with it."""


def load_treebank(name_or_path: str | Path, split: str = "all", *, seed: int = 0) -> LemmaTreebank:
    """A corpus of the catalogue or your own file or folder, if it has lemmas.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.conllu"
        >>> rows = ["1 Dogs dog NOUN _ Number=Plur 2 nsubj _ _", "2 bark bark VERB _ _ 0 root _ _"]
        >>> _ = path.write_text("\\n".join(rows).replace(" ", "\\t"))
        >>> load_treebank(path).sentences[0].words[0].features
        {'Number': 'Plur'}
    """
    source = find_source(name_or_path)
    read = _reader_of(source)
    chosen = part_of(source, split, seed)
    sentences: list[TreebankSentence] = []
    others: list[TreebankSentence] = []
    hashes: dict[str, str] = {}
    try:
        for given, path in ((given, path) for given, paths in source.files.items() for path in paths):
            hashes[path.relative_to(source.root).as_posix()] = sha256_of(path)
            for sentence in read(path):
                inside = chosen.keep is None or chosen.keep(sentence.doc or sentence.id)
                (sentences if given in chosen.sources and inside else others).append(sentence)
    except OSError as error:
        raise CorpusError(f"{name_or_path} cannot be read: {error}") from error
    if not any(word.lemma for sentence in sentences for word in sentence.words):
        raise CorpusError(f"{name_or_path} ({split}) has no lemmas; give a treebank that has, such as ud_english_ewt")
    return LemmaTreebank(str(name_or_path), split, hashes, tuple(sentences), tuple(others), chosen.note)


_ReadSentences = Callable[..., Iterator[TreebankSentence]]


def _ignored(_: Fault) -> None:
    """Faults are reported when the file is read as texts."""


def _reader_of(source: CorpusSource) -> _ReadSentences:
    read = _READERS.get(source.format.name)
    if read is None:
        raise CorpusError(
            f"{source.name} is {source.format.title}, which has no lemmas and features; give a treebank in CoNLL-U, "
            "for example ud_english_ewt"
        )
    return read


# Features as an annotation, where tags are not Penn's.

FEATURES = "feats"
"""The annotation with a word's features as labels, such as `Number=Sing`."""
_PENN = frozenset(
    (
        "CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNS", "NNP", "NNPS", "PDT", "POS",
        "PRP", "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT",
        "WP", "WP$", "WRB", "HYPH", "NFP", "ADD", "AFX", "GW", "XX",
    )
)  # fmt: skip
_LOOKED_AT = 200
"""Sentences that show which tags a treebank has."""
_MOSTLY = 0.9
"""Share of the tags that are the Penn Treebank's, if all are: others share some, such as German NN."""


def has_penn_tags(texts: Iterable[Text]) -> bool:
    """Whether tags (annotation xpos) are those of the Penn Treebank.

    Example:
        >>> tagged = (Edge((tag,), Span(n, n + 1)) for n, tag in enumerate(["DT", "NN", "VBZ"]))
        >>> german = (Edge((tag,), Span(n, n + 1)) for n, tag in enumerate(["ART", "NN", "VVFIN"]))
        >>> words = ("a", "b", "c")
        >>> [has_penn_tags([Text("s", words, edges={"xpos": tuple(tags)})]) for tags in (tagged, german)]
        [True, False]
    """
    tags = [edge.labels[0] for text in texts for edge in text.edges.get("xpos", ()) if edge.labels[0][:1].isalpha()]
    return bool(tags) and sum(tag in _PENN for tag in tags) >= _MOSTLY * len(tags)


def with_features(
    splits: Splits, path: str | Path, format: str | None = None, selection: FileSelection = ALL_FILES
) -> Splits:
    """The same sentences with their features in place of tags that are not the Penn Treebank's.

    Where the files have none, only such tags are left out: rules would take German NN for a singular.
    """
    parts = (splits.train, splits.scored)
    foreign = [not has_penn_tags(islice(part, _LOOKED_AT)) for part in parts]
    if not any(foreign):
        return splits
    known: dict[str, tuple[TreebankWord, ...]] = {}
    source = find_source(path, format, selection)
    if source.format.name in _READERS:
        read = _reader_of(source)
        files = (file for files in source.files.values() for file in files)
        known = {sentence.id: sentence.words for file in files for sentence in read(file, _ignored)}
    return Splits(*(_featured(part, known) if odd else part for part, odd in zip(parts, foreign, strict=True)))


def _featured(corpus: Corpus, known: Mapping[str, tuple[TreebankWord, ...]]) -> Corpus:
    """A corpus without tags, and with the features of the sentences that are known."""

    def texts() -> Iterator[Text]:
        for text in corpus:
            words = known.get(text.id, ())
            edges = {name: targets for name, targets in text.edges.items() if name != "xpos"}
            if tuple(word.form for word in words) == text.words:
                features = tuple(
                    Edge(labels, Span(position, position + 1))
                    for position, word in enumerate(words)
                    if (labels := tuple(f"{name}={value}" for name, value in word.features.items()))
                )
                edges |= {FEATURES: features} if features else {}
            yield replace(text, edges=edges)

    return replace(corpus, source=texts, declared=None, fingerprint=fingerprint_of(FEATURES, 2, corpus.fingerprint))


def _conllu(path: Path, report: Report = raise_fault) -> Iterator[TreebankSentence]:
    columns, heading = columns_of(path), Heading(path.stem)
    for block in read_blocks(path, report):
        about = [line.text for line in block if line.text.startswith("#")]
        lines = [(line.number, line.text.split("\t")) for line in block if not line.text.startswith("#")]
        if not lines:
            continue
        heading.next_sentence(about)
        if not columns.is_plain:
            for number, cells in lines:
                if not columns.fits(cells):
                    raise FormatError(f"{path}:{number}: {len(cells)} columns; expected {len(columns.names)}")
            lines = [(number, columns.standard(cells, n)) for n, (number, cells) in enumerate(lines, start=1)]
        rows = [ConlluRow(*line) for line in lines]
        faults = list(check(path, block[0].number, rows))
        for fault in faults:
            report(fault)
        if faults:
            continue
        yield TreebankSentence(heading.sentence, heading.doc, tuple(_words(rows)))


def _words(rows: Sequence[ConlluRow]) -> Iterator[TreebankWord]:
    before, tokens = "", {row.cells[0].partition("-")[0]: row for row in rows if row.is_range}
    words = {row.cells[0]: row for row in rows if row.is_word}
    written: dict[str, str] = {}
    glued: set[str] = set()
    for token in tokens.values():
        first, _, last = token.cells[0].partition("-")
        parts = [str(number) for number in range(int(first), int(last) + 1)]
        if "".join(words[number].form for number in parts) != token.form:
            written |= {number: token.form if number == first else "" for number in parts}
        glued |= {*parts[:-1]}
        if not _has_space(token):
            glued.add(last)
    for number, row in words.items():
        lemma, pos, tag, features = (_value_of(row.cells[column]) for column in (2, 3, 4, 5))
        head = int(row.head) - 1 if row.head not in ("_", "0") else int(number) - 1
        morphology = dict(feature.split("=", 1) for feature in features.split("|") if "=" in feature)
        yield TreebankWord(
            row.form, lemma, pos, tag, morphology, head, _value_of(row.relation), before, written.get(number)
        )
        before = " " if number not in glued and _has_space(row) else ""


def _value_of(cell: str) -> str:
    return "" if cell == "_" else cell


def _has_space(row: ConlluRow) -> bool:
    return "SpaceAfter=No" not in row.cells[9].split("|")


_NOT_FEATURES = ("domain", "type", "position", "form", "lemma", "upos", "xpos", "id")


def _uds(path: Path, _: Report = raise_fault) -> Iterator[TreebankSentence]:
    for name, graph, ids in graphs_of(path):
        try:
            about = ids[name]
            yield TreebankSentence(about["sentence_id"], about["document_id"], tuple(_tokens(graph)))
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"{path}: {name}: {error!r}; expected a UDS 2.0 graph") from None


def _tokens(graph: Mapping[str, Any]) -> Iterator[TreebankWord]:
    nodes = sorted((node for node in graph["nodes"] if node["domain"] == "syntax"), key=lambda node: node["position"])
    places = {node["id"]: place for place, node in enumerate(nodes)}
    heads: dict[int, tuple[int, str]] = {}
    for source, links in zip((node["id"] for node in graph["nodes"]), graph["adjacency"], strict=True):
        for link in links:
            if link["domain"] == "syntax" and link["type"] == "dependency":
                place = places[link["id"]]
                heads[place] = places.get(source, place), link["deprel"]
    for place, node in enumerate(nodes):
        features = {name: value for name, value in node.items() if name not in _NOT_FEATURES}
        head, relation = heads.get(place, (place, ""))
        yield TreebankWord(node["form"], node.get("lemma", ""), node["upos"], node["xpos"], features, head, relation)


_READERS: Mapping[str, _ReadSentences] = {"conllu": _conllu, "gum": _conllu, "uds": _uds}
"""Format -> its reader."""


# Basic Stanford dependencies out of universal ones, by rule.

_STANFORD = {
    "obj": "dobj", "iobj": "iobj", "nsubj:pass": "nsubjpass", "aux:pass": "auxpass", "csubj:pass": "csubjpass",
    "compound": "nn", "compound:prt": "prt", "nmod:poss": "poss", "nummod": "num", "acl:relcl": "rcmod",
    "acl": "vmod",
    "nmod:tmod": "tmod", "obl:tmod": "tmod", "obl:unmarked": "npadvmod", "nmod:unmarked": "npadvmod",
    "nmod:npmod": "npadvmod", "obl:npmod": "npadvmod", "fixed": "mwe", "flat": "nn", "name": "nn",
    "det:predet": "predet",
    "cc:preconj": "preconj", "list": "dep", "dislocated": "dep", "reparandum": "dep", "orphan": "dep",
    "vocative": "dep",
    "nsubj:outer": "nsubj", "obl:agent": "obl", "nmod:desc": "nn", "expl:impers": "expl",
}  # fmt: skip
"""Universal relation -> Stanford relation, where the name alone decides; others keep their name."""
_NOMINAL = frozenset({"nmod", "obl", "obl:agent"})
_POSSESSIVE = frozenset({"'s", "'", "\u2019s", "\u2019"})


def stanford(text: Text) -> Text:
    """The text with basic Stanford dependencies in place of universal ones.

    By rule, not by Stanford's converter: a preposition becomes the head of its noun (`prep` and `pobj`; of several, the
    first), `to` of an infinitive an `aux`, `'s` a `possessive`; all other relations keep their head and are renamed.

    Example:
        >>> from lamina.types import Edge, Span
        >>> links = [(0, "nsubj", 1), (2, "case", 3), (3, "obl", 1)]
        >>> edges = tuple(Edge((name,), Span(one, one + 1), Span(other, other + 1)) for one, name, other in links)
        >>> converted = stanford(Text("t", ("Dogs", "sleep", "on", "sofas"), edges={"dep": edges}))
        >>> [(edge.span.start, edge.labels[0], edge.other.start) for edge in converted.edges["dep"]]
        [(0, 'nsubj', 1), (2, 'prep', 1), (3, 'pobj', 2)]
    """
    edges = text.edges.get("dep")
    if edges is None:
        return text
    relation = {edge.span.start: edge.labels[0] for edge in edges}
    prepositions: dict[int, int] = {}
    for edge in edges:
        if edge.labels[0] == "case" and edge.other is not None and relation.get(edge.other.start) in _NOMINAL:
            prepositions.setdefault(edge.other.start, edge.span.start)
    heads = {edge.span.start: edge.other for edge in edges}
    converted = []
    for edge in edges:
        word, name, other = edge.span.start, edge.labels[0], edge.other
        if word in prepositions:
            place = prepositions[word]
            name, other = "pobj", Span(place, place + 1)
        elif other is not None and prepositions.get(other.start) == word:
            name, other = "prep", heads[other.start]
        elif name == "case":
            name = "possessive" if text.words[word].lower() in _POSSESSIVE else "prep"
        elif name == "mark" and text.words[word].lower() == "to":
            name = "aux"
        else:
            name = _STANFORD.get(name, name)
        converted.append(Edge((name,), edge.span, other, edge.rated, edge.value))
    return replace(text, edges={**text.edges, "dep": tuple(converted)})


STANFORD_SCHEME = "basic Stanford dependencies, by rule from {}"


def in_stanford(corpus: Corpus) -> Corpus:
    """The corpus with `stanford` dependencies; one that is not in the universal scheme is refused.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> in_stanford(corpus_from([["Dogs", "bark"]], name="pets"))
        Traceback (most recent call last):
        ...
        lamina.errors.CorpusError: pets has no universal dependencies to convert (scheme: as given); ...
    """
    if "UD" not in corpus.scheme or "dep" not in corpus.annotations:
        raise CorpusError(
            f"{corpus.name} has no universal dependencies to convert (scheme: {corpus.scheme}); leave the labels as "
            "they are annotated"
        )
    return replace(
        corpus,
        source=lambda: map(stanford, iter(corpus)),
        scheme=STANFORD_SCHEME.format(corpus.scheme),
        fingerprint=fingerprint_of("stanford", 1, corpus.fingerprint),
        limit=None,
    )

"""English Web Treebank (UD v2) with the corpora annotated on it, and GUM, the genres whose texts are free to share.

On EWT: PropBank, STREUSLE, UDS 1.0, Universal NER. GUM: all layers (`gum_open`), and OntoGUM's coreference (`ontogum`).
GUM's annotations are CC BY 4.0; its texts have licences of their own. Left out are the genres whose texts may not be
used commercially (essay, fiction, letter, podcast, whow), reddit, whose words are masked, conversation, whose licence
is stated in two ways, and GENTLE.
"""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from zipfile import ZipFile

from lamina.assets.origins import OriginFiles, read_manifest
from lamina.assets.recipes import CorpusRecipe, Derive, DerivedFile, as_is, as_lines
from lamina.assets.sources import Card
from lamina.errors import AssetError

SPLITS = ("train", "dev", "test")
EWT = read_manifest("ewt")
_EWT_FILES = {f"en_ewt-ud-{split}.conllu": f"en_ewt-ud-{split}.conllu" for split in SPLITS}
_ID, _FORM, _XPOS, _HEAD, _DEPREL, _CONLLU_COLUMNS = 0, 1, 4, 6, 7, 10


class EwtSentence(NamedTuple):
    """A sentence of the treebank, words only (no empty nodes, no multi-word tokens)."""

    id: str
    document: str
    """`reviews-003418`: the genre and the file."""
    words: tuple[str, ...]
    tags: tuple[str, ...]
    """Penn Treebank tags."""
    heads: tuple[int, ...]
    """Position of each word's head, from 0; -1 for the root."""
    relations: tuple[str, ...]


def sentences_of(text: str) -> Iterator[EwtSentence]:
    """Every sentence of a CoNLL-U file of the treebank.

    Example:
        >>> rows = ["# sent_id = weblog-a-0001", *("1\\tGo\\tgo\\tVERB\\tVB\\t_\\t0\\troot\\t_\\t_".splitlines())]
        >>> next(sentences_of("\\n".join(rows)))[:4]
        ('weblog-a-0001', 'weblog-a', ('Go',), ('VB',))
    """
    for block in text.split("\n\n"):
        lines = block.split("\n")
        name = next((line.removeprefix("# sent_id = ").strip() for line in lines if line.startswith("# sent_id")), None)
        rows = [row for line in lines if len(row := line.split("\t")) == _CONLLU_COLUMNS and row[_ID].isdecimal()]
        if name is not None and rows:
            yield EwtSentence(
                name,
                name.rpartition("-")[0],
                tuple(row[_FORM] for row in rows),
                tuple(row[_XPOS] for row in rows),
                tuple(int(row[_HEAD]) - 1 for row in rows),
                tuple(row[_DEPREL] for row in rows),
            )


def treebank(files: Mapping[str, OriginFiles]) -> Iterator[tuple[str, list[EwtSentence]]]:
    """The sentences of each split, in the order of the release."""
    for split in SPLITS:
        yield split, list(sentences_of(files[EWT.repo].text(f"en_ewt-ud-{split}.conllu")))


def _count_conllu(content: bytes) -> Mapping[str, int]:
    lengths = [len(sentence.words) for sentence in sentences_of(content.decode("utf-8"))]
    return {"sentences": len(lengths), "tokens": sum(lengths)}


EWT_CARD = Card(
    "ud_english_ewt",
    "corpus",
    "UD English Web Treebank (UD v2 labels): POS, dependencies",
    "CC BY-SA 4.0",
    tuple(_EWT_FILES),
    17_813_442,
    (
        CorpusRecipe(
            (EWT,),
            as_is(_EWT_FILES, _count_conllu),
            counts={
                "en_ewt-ud-train.conllu": {"sentences": 12_544, "tokens": 204_577},
                "en_ewt-ud-dev.conllu": {"sentences": 2_001, "tokens": 25_147},
                "en_ewt-ud-test.conllu": {"sentences": 2_077, "tokens": 25_094},
            },
            licence="CC BY-SA 4.0",
            changes="none; the files as released",
        ),
    ),
    origin=EWT.page,
)


# PropBank on English Web Treebank: published skeletons, whose words are masked, with the treebank's words put back.
#
# A skeleton and a document of the treebank have the same name. Their sentences are paired in order by their number of
# words; a pair whose Penn Treebank tags agree on less than 70 % of the words is dropped. Tags, parse and roles are the
# skeleton's, words and `sent_id` the treebank's.

_PROPBANK = read_manifest("propbank")
_PENN_TAG, _PARSE, _ROLESET, _ROLES = 4, 5, 7, 8
_SMALLEST_AGREEMENT = 0.7

Skeleton = list[list[str]]
"""The rows of a sentence."""
Argument = tuple[str, int, int]
"""Label, start, end (exclusive)."""


def derive_propbank(files: Mapping[str, OriginFiles]) -> Iterator[DerivedFile]:
    """One file of JSON lines per split."""
    skeletons = files[_PROPBANK.repo]
    paths = {_document(path): path for path in skeletons.paths}
    for split, sentences in treebank(files):
        documents: dict[str, list[EwtSentence]] = defaultdict(list)
        for sentence in sentences:
            documents[sentence.document].append(sentence)
        rows = [
            _row(sentence, skeleton)
            for name, its in documents.items()
            if name in paths
            for sentence, skeleton in _pairs(its, _skeletons(skeletons.text(paths[name]), paths[name]))
        ]
        yield DerivedFile(f"ewt_srl_const.{split}.jsonl", as_lines(rows), _count_frames(rows))


def _document(path: str) -> str:
    """The treebank's name of the document: `reviews-003418` for `.../reviews/00/003418.xml.gold_skel`."""
    genre = PurePosixPath(path).parts[-3]
    return f"{genre}-{PurePosixPath(path).name.removesuffix('.gold_skel').removesuffix('.xml')}"


def _skeletons(text: str, path: str) -> list[Skeleton]:
    blocks = ([line.split() for line in block.splitlines() if line.strip()] for block in text.split("\n\n"))
    skeletons = [block for block in blocks if block]
    for skeleton in skeletons:
        predicates = sum(row[_ROLESET : _ROLESET + 1] != ["-"] for row in skeleton)
        if {len(row) for row in skeleton} != {_ROLES + predicates}:
            raise AssetError(f"{_PROPBANK.repo}/{path} has a sentence without one column per predicate")
    return skeletons


def _pairs(sentences: Sequence[EwtSentence], skeletons: Sequence[Skeleton]) -> Iterator[tuple[EwtSentence, Skeleton]]:
    """Sentences with their skeletons: the longest runs of equal lengths, where the tags agree."""
    lengths = [len(sentence.words) for sentence in sentences], [len(skeleton) for skeleton in skeletons]
    for first, other, size in SequenceMatcher(None, *lengths, autojunk=False).get_matching_blocks():
        for sentence, skeleton in zip(sentences[first : first + size], skeletons[other : other + size], strict=True):
            agreeing = sum(row[_PENN_TAG] == tag for row, tag in zip(skeleton, sentence.tags, strict=True))
            if agreeing >= _SMALLEST_AGREEMENT * len(skeleton):
                yield sentence, skeleton


def _row(sentence: EwtSentence, skeleton: Skeleton) -> dict[str, Any]:
    predicates = [word for word, row in enumerate(skeleton) if row[_ROLESET] != "-"]
    return {
        "sent_id": sentence.id,
        "tokens": list(sentence.words),
        "pos": [row[_PENN_TAG] for row in skeleton],
        "parse": [row[_PARSE] for row in skeleton],
        "props": [
            _frame(skeleton, word, roles([row[column] for row in skeleton]))
            for column, word in enumerate(predicates, _ROLES)
        ],
    }


def _frame(skeleton: Skeleton, word: int, arguments: list[Argument]) -> dict[str, Any]:
    """A predicate with its arguments; it is where its `V` starts, which is not the marked word in "hung up".

    Of the few whose roleset is at a later word, the roleset is left out (`-`), as in the cut of this corpus that
    earlier results were made with.
    """
    word = next((start for label, start, _ in arguments if label == "V"), word)
    return {"pred": word, "roleset": skeleton[word][_ROLESET], "args": arguments}


def roles(cells: Sequence[str]) -> list[Argument]:
    """The arguments that a column of brackets marks: label, start, end (exclusive).

    Example:
        >>> roles(["(ARG0*", "*)", "(V*)", "*"])
        [('ARG0', 0, 2), ('V', 2, 3)]
    """
    arguments: list[Argument] = []
    for word, cell in enumerate(cells):
        label, _, close = cell.partition("*")
        if label:
            arguments.append((label.removeprefix("("), word, word + 1))
        if close:
            arguments[-1] = (*arguments[-1][:2], word + 1)
    return arguments


def _count_frames(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    frames = [frame for row in rows for frame in row["props"]]
    arguments = [argument for frame in frames for argument in frame["args"] if argument[0] != "V"]
    return {"sentences": len(rows), "predicates": len(frames), "arguments": len(arguments)}


PROPBANK_CARD = Card(
    "propbank_ewt",
    "corpus",
    "PropBank on EWT: semantic roles, constituents",
    "CC BY-SA 4.0",
    ("ewt_srl_const.*.jsonl",),
    10_848_087,
    (
        CorpusRecipe(
            (_PROPBANK, EWT),
            derive_propbank,
            counts={
                "ewt_srl_const.train.jsonl": {"sentences": 12_506, "predicates": 40_423, "arguments": 81_405},
                "ewt_srl_const.dev.jsonl": {"sentences": 1_963, "predicates": 4_960, "arguments": 9_576},
                "ewt_srl_const.test.jsonl": {"sentences": 2_054, "predicates": 4_795, "arguments": 9_337},
            },
            licence="CC BY-SA 4.0 (both)",
            changes="words put back from the treebank, by document and sentence (paired by number of words; dropped "
            "where fewer than 70 % of the tags agree)",
        ),
    ),
    origin=_PROPBANK.page,
)


# STREUSLE: the released `.conllulex` files, and the supersenses of their expressions as JSON lines.
#
# An expression is a single word or a strong multi-word expression without a gap. An expression with a gap has no span,
# so it and its words are left out; weak expressions (`~`) are their parts.

_STREUSLE = read_manifest("streusle")
_STREUSLE_COLUMNS = 19
_STREUSLE_FORM, _STRONG, _CATEGORY, _SENSE, _FUNCTION = 1, 10, 11, 13, 14


def derive_streusle(files: Mapping[str, OriginFiles]) -> Iterator[DerivedFile]:
    """Two files per split: as released, and as JSON lines."""
    (streusle,) = files.values()
    for split in SPLITS:
        content = streusle.read(f"{split}/streusle.ud_{split}.conllulex")
        rows = list(_streusle_sentences(content.decode("utf-8")))
        counts = {"sentences": len(rows), "tokens": sum(len(row["tokens"]) for row in rows)}
        yield DerivedFile(f"streusle.ud_{split}.conllulex", content, counts)
        senses = sum("." in (sense or "") for row in rows for *_, sense, _function in row["exprs"])
        yield DerivedFile(f"supersenses.{split}.jsonl", as_lines(rows), {**counts, "supersenses": senses})


def _streusle_sentences(text: str) -> Iterator[dict[str, Any]]:
    for block in text.split("\n\n"):
        lines = block.split("\n")
        name = next((line.removeprefix("# sent_id = ").strip() for line in lines if line.startswith("# sent_id")), None)
        rows = [row for line in lines if len(row := line.split("\t")) == _STREUSLE_COLUMNS and row[0].isdecimal()]
        if name is not None and rows:
            yield {"sent_id": name, "tokens": [row[_STREUSLE_FORM] for row in rows], "exprs": list(expressions(rows))}


def expressions(rows: list[list[str]]) -> Iterator[list[str | int | None]]:
    """Start, end (exclusive), lexical category, supersense and function of every expression without a gap.

    Example:
        >>> cells = {"Rusted": "1:1 V.VPC.semi _ v.stative _", "out": "1:2 _ _ _ _", "cars": "_ N _ n.ARTIFACT _"}
        >>> rows = [[str(at), word, *"_" * 8, *cells[word].split(), *"_" * 4] for at, word in enumerate(cells, 1)]
        >>> list(expressions(rows))
        [[0, 2, 'V.VPC.semi', 'v.stative', None], [2, 3, 'N', 'n.ARTIFACT', None]]
    """
    words: dict[str, list[int]] = defaultdict(list)
    for word, row in enumerate(rows):
        words[row[_STRONG].partition(":")[0] if row[_STRONG] != "_" else f"word {word}"].append(word)
    for start, *more in words.values():
        end = start + 1 + len(more)
        if not more or more[-1] == end - 1:
            category, sense, function = (_or_none(rows[start][column]) for column in (_CATEGORY, _SENSE, _FUNCTION))
            # Opaque possessives repeat their mark (`$) as a function; it is none.
            yield [start, end, category, sense, function if function and function.startswith("p.") else None]


def _or_none(cell: str) -> str | None:
    return None if cell == "_" else cell


STREUSLE_CARD = Card(
    "streusle",
    "corpus",
    "STREUSLE: noun, verb and preposition supersenses on EWT reviews",
    "CC BY-SA 4.0",
    ("supersenses.*.jsonl", "streusle.ud_*.conllulex"),
    9_000_000,  # estimated: train was not at hand
    (
        CorpusRecipe(
            (_STREUSLE,),
            derive_streusle,
            counts={
                # Train was not at hand to be counted; its blob id is checked as every other.
                "streusle.ud_train.conllulex": {},
                "supersenses.train.jsonl": {},
                "streusle.ud_dev.conllulex": {"sentences": 554, "tokens": 5_396},
                "supersenses.dev.jsonl": {"sentences": 554, "supersenses": 2_136},
                "streusle.ud_test.conllulex": {"sentences": 535, "tokens": 5_381},
                "supersenses.test.jsonl": {"sentences": 535, "supersenses": 2_140},
            },
            licence="CC BY-SA 4.0",
            changes="conllulex as released; JSON lines derived from it, without expressions that have a gap",
        ),
    ),
    origin=_STREUSLE.page,
)


# Universal Decompositional Semantics 1.0 on English Web Treebank: proto-roles, noun supersenses, factuality.
#
# The annotations name words by sentence (`ewt-dev-8`) and position, from 1. `ud_ids.json` gives the treebank's name of
# the sentence; words are the treebank's. The span of an argument is derived: the words around its head that belong to
# the head's subtree, without dependents of the head that are no part of the phrase (`_NOT_IN_PHRASE`).

_DECOMP = read_manifest("decomp")
_IDS = "decomp/data/ud_ids.json"
_NOT_IN_PHRASE = {"case", "punct", "cc", "conj", "appos", "parataxis"}
_LARGEST = 100_000_000
"""Bytes of an annotation file; the largest has 36 million."""

Annotated = Mapping[str, Mapping[str, Any]]
"""Sentence -> node or edge -> what was annotated."""
Annotate = Callable[[str, EwtSentence], Mapping[str, Any] | None]
"""From the name of a sentence, and the sentence, to the fields of its row; None if it has none."""


def _zip(subject: str) -> str:
    return f"decomp/data/1.0/normalized/sentence/annotations/{subject}.zip"


def _annotations(files: Mapping[str, OriginFiles], subject: str) -> Annotated:
    """Sentence (`ewt-dev-8`) -> node or edge -> the values of one subject."""
    with ZipFile(io.BytesIO(files[_DECOMP.repo].read(_zip(subject)))) as archive:
        if archive.getinfo(f"{subject}.json").file_size > _LARGEST:
            raise AssetError(f"{_zip(subject)} unpacks to more than {_LARGEST:,} bytes; nothing was kept")
        data = json.loads(archive.read(f"{subject}.json"))["data"]
    return {name: {node: annotation[subject] for node, annotation in nodes.items()} for name, nodes in data.items()}


def _annotated_rows(
    files: Mapping[str, OriginFiles], stem: str, names: Iterable[str], annotate: Annotate
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Path and rows of each split: the annotated sentences in UDS's order, with the treebank's words."""
    by_id = {sentence.id: sentence for _, sentences in treebank(files) for sentence in sentences}
    ids = json.loads(files[_DECOMP.repo].read(_IDS))
    for split in SPLITS:
        rows: list[dict[str, Any]] = []
        for name in sorted((name for name in names if name.split("-")[1] == split), key=_position):
            sentence = by_id[ids[name]["sentence_id"]]
            if annotations := annotate(name, sentence):
                about = {"uds_id": name, "sent_id": sentence.id, "tokens": list(sentence.words)}
                rows.append(about | dict(annotations))
        yield f"{stem}.{split}.jsonl", rows


def _position(node: str) -> int:
    """The number at the end of a name: of a sentence in its split, of a word in its sentence."""
    return int(node.rpartition("-")[2])


def derive_protoroles(files: Mapping[str, OriginFiles]) -> Iterator[DerivedFile]:
    """Every edge from a predicate to an argument, with the rated properties."""
    annotated = _annotations(files, "protoroles")

    def annotate(name: str, sentence: EwtSentence) -> Mapping[str, Any]:
        pairs = {tuple(_position(node) - 1 for node in pair.split("%%")): of for pair, of in annotated[name].items()}
        edges = [
            {
                "pred": predicate,
                "arg_head": head,
                "arg_span": phrase_of(head, sentence.heads, sentence.relations),
                "props": {name: [one["value"], one["confidence"]] for name, one in sorted(rated.items())},
            }
            for (predicate, head), rated in sorted(pairs.items())
        ]
        return {"edges": edges}

    for path, rows in _annotated_rows(files, "protoroles", annotated, annotate):
        yield DerivedFile(
            path, as_lines(rows), {"sentences": len(rows), "edges": sum(len(row["edges"]) for row in rows)}
        )


def phrase_of(head: int, heads: Sequence[int], relations: Sequence[str]) -> list[int]:
    """Start and end (exclusive) of the phrase around a head.

    Example:
        >>> phrase_of(2, [2, 2, 3, -1], ["case", "det", "obl", "root"])  # "to the city went"
        [1, 3]
    """
    left_out = {
        word
        for word, relation in enumerate(relations)
        if heads[word] == head and (relation.partition(":")[0] in _NOT_IN_PHRASE or relation == "acl:relcl")
    }
    inside = {head}
    while more := {word for word, its in enumerate(heads) if its in inside} - inside - left_out:
        inside |= more
    start, end = head, head + 1
    while start - 1 in inside:
        start -= 1
    while end in inside:
        end += 1
    return [start, end]


def derive_wordsense_factuality(files: Mapping[str, OriginFiles]) -> Iterator[DerivedFile]:
    """Supersenses of nouns that were judged to fit, best first, and the factuality of predicates."""
    senses, facts = _annotations(files, "wordsense"), _annotations(files, "factuality")

    def annotate(name: str, sentence: EwtSentence) -> Mapping[str, Any] | None:
        nouns = [(_position(node) - 1, _fitting(rated)) for node, rated in senses.get(name, {}).items()]
        events = [(_position(node) - 1, rated["factual"]) for node, rated in facts.get(name, {}).items()]
        # The treebank has split or shortened a few sentences since: words behind their end are gone.
        end = len(sentence.words)
        supersenses = [[word, labels] for word, labels in sorted(nouns) if labels and word < end]
        graded = [[word, event["value"], event["confidence"]] for word, event in sorted(events) if word < end]
        return {"noun_supersense": supersenses, "factuality": graded} if supersenses or graded else None

    for path, rows in _annotated_rows(files, "uds", senses.keys() | facts.keys(), annotate):
        counts = {field: sum(len(row[field]) for row in rows) for field in ("noun_supersense", "factuality")}
        counted = {"sentences": len(rows), "nouns": counts["noun_supersense"], "predicates": counts["factuality"]}
        yield DerivedFile(path, as_lines(rows), counted)


def _fitting(rated: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The supersenses with a positive value, best first; values that agree to three digits count as equal."""
    senses = [
        (round(one["value"], 3), name.removeprefix("supersense-noun."))
        for name, one in rated.items()
        if one["value"] > 0
    ]
    return [sense for _, sense in sorted(senses, reverse=True)]


PROTOROLES = Card(
    "uds_protoroles",
    "corpus",
    "UDS semantic proto-roles on EWT",
    "CC BY-SA 4.0",
    ("protoroles.*.jsonl",),
    3_797_165,
    (
        CorpusRecipe(
            (_DECOMP.only(_zip("protoroles"), _IDS), EWT),
            derive_protoroles,
            counts={
                "protoroles.train.jsonl": {"sentences": 2_191, "edges": 5_669},
                "protoroles.dev.jsonl": {"sentences": 291, "edges": 751},
                "protoroles.test.jsonl": {"sentences": 276, "edges": 670},
            },
            licence="CC BY-SA 4.0",
            changes="joined to the treebank's words; arg_span derived from the treebank's dependencies",
        ),
    ),
    note="ewt carries the same annotation.",
    origin=_DECOMP.page,
)

WORDSENSE_FACTUALITY = Card(
    "uds_wordsense_factuality",
    "corpus",
    "UDS noun supersenses in context and event factuality on EWT",
    "CC BY-SA 4.0",
    ("uds.*.jsonl",),
    4_092_434,
    (
        CorpusRecipe(
            (_DECOMP.only(_zip("wordsense"), _zip("factuality"), _IDS), EWT),
            derive_wordsense_factuality,
            counts={
                "uds.train.jsonl": {"sentences": 9_736, "nouns": 16_497, "predicates": 22_206},
                "uds.dev.jsonl": {"sentences": 1_358, "nouns": 1_850, "predicates": 2_646},
                "uds.test.jsonl": {"sentences": 1_328, "nouns": 1_793, "predicates": 2_548},
            },
            licence="CC BY-SA 4.0",
            changes="joined to the treebank's words; noun supersenses kept where their value is above 0, best first",
        ),
    ),
    note="ewt carries the same annotation.",
    origin=_DECOMP.page,
)


# Universal NER on English Web Treebank, as released.

_UNER = read_manifest("uner")
_UNER_FILES = {f"en_ewt-ud-{split}.iob2": f"en_ewt-ud-{split}.iob2" for split in SPLITS}
_IOB_TAG = 2


def _count_iob(content: bytes) -> Mapping[str, int]:
    text = content.decode("utf-8")
    rows = [row for line in text.split("\n") if len(row := line.split("\t")) > _IOB_TAG]
    return {
        "sentences": text.count("# sent_id"),
        "tokens": len(rows),
        "entities": sum(row[_IOB_TAG].startswith("B-") for row in rows),
    }


UNER_CARD = Card(
    "uner_english_ewt",
    "corpus",
    "Universal NER on EWT: entities (PER, ORG, LOC)",
    "CC BY-SA 4.0",
    tuple(_UNER_FILES),
    6_200_000,  # estimated: train was not at hand
    (
        CorpusRecipe(
            (_UNER,),
            as_is(_UNER_FILES, _count_iob),
            counts={
                # Train was not at hand to be counted; its blob id is checked as every other.
                "en_ewt-ud-train.iob2": {},
                "en_ewt-ud-dev.iob2": {"sentences": 2_001, "tokens": 25_149, "entities": 966},
                "en_ewt-ud-test.iob2": {"sentences": 2_077, "tokens": 25_097, "entities": 1_088},
            },
            licence="CC BY-SA 4.0",
            changes="none; the files as released",
        ),
    ),
    origin=_UNER.page,
)


GUM = read_manifest("gum")
_LICENCE = "CC BY 4.0; texts CC BY, CC BY-SA or public domain"
_DEP, _CONST, _CHAINS, _CHAINS_GUM = (
    "dep/*.conllu",
    "const/*.ptb",
    "coref/ontogum/conll/*.conll",
    "coref/gum/conll/*.conll",
)
_SPLIT_COUNTS = {"splits/train.txt": 117, "splits/dev.txt": 18, "splits/test.txt": 18}
_MISC_KEYS = ("SpaceAfter=", "Entity=", "Bridge=", "SplitAnte=", "CorrectForm=")
_COMMENTS = ("# meta::summary", "# meta::salientEntities", "# s_prominence", "# transition", "# newpar_block")
_CHANGES = (
    "9 of 16 genres; in dep/, MISC keeps SpaceAfter, Entity, Bridge, SplitAnte and CorrectForm alone, and the comments "
    "on summaries, salience and transitions are removed; the other files as published"
)


def without_discourse(conllu: str) -> str:
    """A CoNLL-U file without GUM's discourse annotation, which is most of its size.

    Example:
        >>> without_discourse("# transition = null\\n1\\tGo\\tgo\\tVERB\\tVB\\t_\\t0\\troot\\t_\\tMSeg=go|XML=<p>\\n")
        '1\\tGo\\tgo\\tVERB\\tVB\\t_\\t0\\troot\\t_\\t_\\n'
    """
    return "".join(_without_keys(line) for line in conllu.splitlines(keepends=True) if not line.startswith(_COMMENTS))


def _without_keys(line: str) -> str:
    if line.startswith("#") or line.count("\t") != 9:
        return line
    columns, _, misc = line.rstrip("\n").rpartition("\t")
    fields = [field for field in misc.split("|") if field.startswith(_MISC_KEYS)]
    return f"{columns}\t{'|'.join(fields) or '_'}\n"


def documents_of(splits: str) -> dict[str, list[str]]:
    """Split -> its documents, from GUM's `splits.md`.

    Example:
        >>> documents_of("## dev\\n\\n  * GUM_bio_byron\\n\\n## test\\n\\n  * GUM_bio_dvorak\\n")
        {'dev': ['GUM_bio_byron'], 'test': ['GUM_bio_dvorak']}
    """
    splits_found: dict[str, list[str]] = {}
    documents: list[str] = []
    for line in splits.splitlines():
        if heading := re.fullmatch(r"## (\w+)\s*", line):
            documents = splits_found.setdefault(heading[1], [])
        elif item := re.fullmatch(r"\s*\* (\w+)\s*", line):
            documents.append(item[1])
    return splits_found


def _sentences(text: str) -> Mapping[str, int]:
    rows = [line for line in text.splitlines() if re.match(r"[0-9]+\t", line)]
    return {"sentences": sum(line.startswith("1\t") for line in rows), "tokens": len(rows)}


def _trees(text: str) -> Mapping[str, int]:
    return {"trees": sum(line.startswith("(") for line in text.splitlines())}


def _mentions(text: str) -> Mapping[str, int]:
    cells = [line.split("\t")[-1] for line in text.splitlines() if not line.startswith("#")]
    return {"mentions": sum(cell.count("(") for cell in cells)}


_COUNTED: Mapping[str, Callable[[str], Mapping[str, int]]] = {
    "dep": _sentences,
    "const": _trees,
    "coref": _mentions,
}


def derive_layers(*layers: str) -> Derive:
    """A derivation of the files in some folders, of `splits/` and of the licence."""

    def derive(files: Mapping[str, OriginFiles]) -> Iterator[DerivedFile]:
        (origin,) = files.values()
        documents = set()
        for path in origin.paths:
            layer = path.partition("/")[0]
            if path.startswith(layers):
                text = without_discourse(origin.text(path)) if layer == "dep" else origin.text(path)
                documents.add(path.rpartition("/")[2].partition(".")[0])
                yield DerivedFile(path, text.encode(), _COUNTED[layer](text))
        yield DerivedFile("LICENSE.txt", origin.read("LICENSE.txt"), {})
        yield from _lists(documents_of(origin.text("splits.md")), documents)

    return derive


def _lists(splits: Mapping[str, list[str]], documents: set[str]) -> Iterator[DerivedFile]:
    for split in ("train", "dev", "test"):
        listed = [document for document in splits.get(split, []) if document in documents]
        documents = documents - set(listed)
        yield DerivedFile(
            f"splits/{split}.txt", "".join(f"{name}\n" for name in listed).encode(), {"documents": len(listed)}
        )
    if documents:
        raise AssetError(f"splits.md of {GUM.repo} does not list {min(documents)}")


def _recipe(counts: Mapping[str, Mapping[str, int]]) -> CorpusRecipe:
    lists = {path: {"documents": count} for path, count in _SPLIT_COUNTS.items()}
    layers = tuple(pattern.partition("*")[0] for pattern in counts)
    return CorpusRecipe(
        (GUM.only(*counts, "splits.md", "LICENSE.txt"),),
        derive_layers(*layers),
        counts={**counts, **lists, "LICENSE.txt": {}},
        licence=_LICENCE,
        changes=_CHANGES,
    )


_DEP_COUNTS = {"files": 153, "sentences": 7_368, "tokens": 148_618}
_CHAIN_COUNTS = {"files": 153, "mentions": 18_496}

OPEN = Card(
    "gum_open",
    "corpus",
    "GUM, the 9 genres with open texts: constituents, dependencies, POS, entities, coreference",
    _LICENCE,
    (_DEP, _CONST, _CHAINS_GUM, _CHAINS, "splits/*.txt"),
    20_775_247,
    (
        _recipe(
            {
                _DEP: _DEP_COUNTS,
                _CONST: {"files": 153, "trees": 7_368},
                _CHAINS_GUM: {"files": 153},
                _CHAINS: _CHAIN_COUNTS,
            }
        ),
    ),
    origin=GUM.page,
)

ONTOGUM = Card(
    "ontogum",
    "corpus",
    "OntoGUM: GUM's coreference in the OntoNotes scheme, the 9 genres with open texts",
    _LICENCE,
    (_DEP, _CHAINS, "splits/*.txt"),
    14_000_000,
    (_recipe({_DEP: _DEP_COUNTS, _CHAINS: _CHAIN_COUNTS}),),
    note="The same documents and chains as gum_open, without its other layers.",
    origin=GUM.page,
)

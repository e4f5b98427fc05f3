"""The formats lamina reads, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.formats import (
    brat,
    conllu,
    edge_jsonl,
    glue,
    gum,
    litbank,
    ner_columns,
    ontonotes,
    propbank,
    ptb,
    streusle,
    uds,
)
from lamina.corpora.formats.lines import (
    looks_like_fasttext,
    looks_like_parallel,
    looks_like_plain,
    looks_like_trec,
    parallel_companions,
    read_fasttext,
    read_parallel,
    read_plain,
    read_trec,
    trec_questions,
)
from lamina.corpora.formats.marked_pairs import looks_like_gap, looks_like_semeval, read_gap, read_semeval
from lamina.corpora.formats.uds import looks_like_jsonl, read_jsonl
from lamina.corpora.formats.word_senses import (
    coarse_wsd_companions,
    looks_like_coarse_wsd,
    looks_like_simple_wsd,
    looks_like_wiki_pse,
    looks_like_wsd_framework,
    read_coarse_wsd,
    read_simple_wsd,
    read_wiki_pse,
    read_wsd_framework,
    wiki_pse_companions,
    wsd_framework_companions,
)
from lamina.corpora.questions import babi, hotpot, squad
from lamina.corpora.questions.question import Question
from lamina.corpora.tables import reader
from lamina.errors import CorpusError
from lamina.types import Text


class Format(NamedTuple):
    """One file format of annotated texts."""

    name: str
    """Name for `--format`."""
    title: str
    scheme: str
    """The label scheme of such files."""
    read: Callable[..., Iterator[Text]]
    """The texts of one file: `read(path, report)`, and with `notes` `read(path, report, noted)`."""
    looks_like: Callable[[Path], bool]
    """Whether a file (with `is_folder`, a folder) seems to be of this format."""
    version: int = 1
    """Raised when the reader gives different texts for the same file: fingerprints and caches depend on it."""
    companions: Callable[[Path], tuple[Path, ...]] = lambda _: ()
    """The files read together with this one."""
    is_folder: bool = False
    """Whether such a corpus is a folder."""
    glob: str | None = None
    """Which files of a folder to read, if their extensions do not show it."""
    slow: bool = False
    """Whether parsing is slow enough to cache the texts."""
    notes: bool = False
    """Whether the reader notes what it left out or changed, apart from faults."""
    questions: Callable[..., Iterator[Question]] | None = None
    """The questions of one file, `questions(path, report, noted, view)`, if it has any."""
    generic: bool = False
    """Whether almost any file looks like it: in a folder with files of another format, that one is read."""
    explain: Callable[[Path], str] | None = None
    """Says what the columns of a file hold, where that is not fixed; empty if the file cannot be read."""
    documents: Callable[[Path], list[str]] | None = None
    """Lists the documents of a file without reading its texts, for splits with an exact number of documents."""


def _uds_ids(path: Path) -> tuple[Path, ...]:
    """The list of sentence and document ids, in the nearest folder above."""
    return tuple(folder / uds.IDS for folder in path.absolute().parents if (folder / uds.IDS).is_file())[:1]


FORMATS = (
    Format(
        "gum",
        "GUM folder: dep/, const/ and coref/ joined",
        "GUM",
        gum.read,
        gum.looks_like,
        companions=gum.companions,
        is_folder=True,
        glob="dep/*.conllu",
    ),
    Format(
        "uds",
        "UDS graphs from the decomp wheel (JSON)",
        "UD v1, UDS 2.0",
        uds.read_graphs,
        uds.looks_like_graphs,
        companions=_uds_ids,
        glob="**/uds-*.json",
        slow=True,
    ),
    Format(
        "uds_jsonl",
        "UDS proto-roles, supersenses, factuality (JSONL)",
        "UDS",
        read_jsonl,
        looks_like_jsonl,
        version=2,
    ),
    Format(
        "streusle",
        "STREUSLE supersenses (JSONL)",
        "STREUSLE",
        streusle.read,
        streusle.looks_like,
        version=2,
    ),
    Format(
        "propbank",
        "PropBank rows (JSONL)",
        "PropBank, PTB",
        propbank.read,
        propbank.looks_like,
        version=2,
    ),
    Format(
        "edge_jsonl",
        "edge-probing JSONL (jiant)",
        "as given",
        edge_jsonl.read,
        edge_jsonl.looks_like,
    ),
    Format(
        "squad",
        "SQuAD v1.1 and XQuAD: questions with contexts (JSON)",
        "SQuAD",
        squad.read,
        squad.looks_like,
        notes=True,
        documents=squad.documents,
        questions=squad.questions,
    ),
    Format(
        "hotpot",
        "HotpotQA, both layouts (JSON)",
        "HotpotQA",
        hotpot.read,
        hotpot.looks_like,
        notes=True,
        questions=hotpot.questions,
    ),
    Format(
        "simple_wsd",
        "word senses in XML: SemCor and MASC with NOAD senses",
        "NOAD senses",
        read_simple_wsd,
        looks_like_simple_wsd,
        notes=True,
    ),
    Format(
        "wsd_framework",
        "word senses in XML: Senseval, SemEval and SemCor in the unified evaluation framework",
        "WordNet senses",
        read_wsd_framework,
        looks_like_wsd_framework,
        companions=wsd_framework_companions,
        glob="**/*.data.xml",
    ),
    Format(
        "coarse_wsd",
        "CoarseWSD: indexed sentences and numbers of senses, one folder per word",
        "CoarseWSD senses",
        read_coarse_wsd,
        looks_like_coarse_wsd,
        companions=coarse_wsd_companions,
        glob="**/*.data.txt",
    ),
    Format(
        "litbank",
        "LitBank standoff by word: .ann beside .txt",
        "LitBank",
        litbank.read,
        litbank.looks_like,
        companions=litbank.companions,
        notes=True,
    ),
    Format(
        "brat",
        "BRAT standoff: .ann beside .txt",
        "as given",
        brat.read,
        brat.looks_like,
        companions=brat.companions,
        notes=True,
    ),
    Format(
        "babi",
        "bAbI stories",
        "bAbI",
        babi.read,
        babi.looks_like,
        companions=babi.companions,
        notes=True,
        questions=babi.questions,
    ),
    Format(
        "fasttext",
        "texts with their classes as `__label__NAME`, fastText style",
        "as given",
        read_fasttext,
        looks_like_fasttext,
    ),
    Format(
        "trec",
        "TREC question types, one `COARSE:fine question` per line",
        "Li and Roth",
        read_trec,
        looks_like_trec,
        notes=True,
        questions=trec_questions,
    ),
    Format(
        "gap",
        "GAP coreference (TSV)",
        "GAP",
        read_gap,
        looks_like_gap,
    ),
    # Version 2: STS-B's scores and CoLA are read; quotation marks that a program put around cells are removed.
    Format(
        "glue",
        "sentences or sentence pairs with a class, GLUE's files (TSV)",
        "as given",
        glue.read,
        glue.looks_like,
        version=2,
        notes=True,
        questions=glue.questions,
    ),
    Format(
        "semeval",
        "SemEval-2010 task 8",
        "SemEval-2010 task 8",
        read_semeval,
        looks_like_semeval,
    ),
    # Version 2: a layer whose column is empty in the whole file is absent, no longer annotated with nothing.
    Format(
        "ontonotes",
        "CoNLL-2012 columns: OntoNotes, OntoGUM, LitBank",
        "OntoNotes",
        ontonotes.read,
        ontonotes.looks_like,
        version=2,
        notes=True,
    ),
    # Version 2: chains of CorefUD's entities are read.
    Format(
        "conllu",
        "CoNLL-U: any Universal Dependencies treebank",
        "UD, as annotated",
        conllu.read,
        conllu.looks_like,
        version=2,
        notes=True,
    ),
    # Version 2: parts of speech and chunks of CoNLL-2003 are read, and every column of nested entities.
    Format(
        "ner_columns",
        "entities, one token per line (IOB1, IOB2, BIOES, nested)",
        "as given",
        ner_columns.read,
        ner_columns.looks_like,
        version=2,
        notes=True,
    ),
    Format(
        "ptb",
        "Penn Treebank brackets (.mrg)",
        "PTB",
        ptb.read,
        ptb.looks_like,
    ),
    Format(
        "wiki_pse",
        "Wiki-PSE: text with `@word@-class` tokens, and word lists",
        "Wiki-PSE semantic classes",
        read_wiki_pse,
        looks_like_wiki_pse,
        companions=wiki_pse_companions,
    ),
    Format(
        "parallel",
        "texts in one file and their labels in another, line by line",
        "as given",
        read_parallel,
        looks_like_parallel,
        companions=parallel_companions,
        notes=True,
    ),
    # Version 2: objects within objects have columns of their own.
    Format(
        "table",
        "tables: CSV, TSV, JSON lines or lists, Parquet, Arrow",
        "as given",
        reader.read,
        reader.looks_like,
        version=2,
        notes=True,
        generic=True,
        explain=reader.explain,
    ),
    Format(
        "plain",
        "plain text, one paragraph per line",
        "no labels",
        read_plain,
        looks_like_plain,
        generic=True,
    ),
)
"""In the order in which they are tried; plain text comes last, since any file looks like it."""


def get_format(name: str) -> Format:
    """The format of this name; `table:NAME=COLUMN,...` also says which column of a table is what.

    Example:
        >>> get_format("conllu").title
        'CoNLL-U: any Universal Dependencies treebank'
        >>> get_format("table:text=review,label=stars").name
        'table:text=review,label=stars'
    """
    kind, colon, columns = name.partition(":")
    if kind == "table" and colon:
        chosen = reader.parse_columns(columns)
        # The columns are part of the name, and so of every fingerprint.
        return get_format(kind)._replace(
            name=name,
            read=partial(reader.read, chosen=chosen),
            looks_like=partial(reader.has_columns, chosen=chosen),
            explain=partial(reader.explain, chosen=chosen),
        )
    for one in FORMATS:
        if one.name == name:
            return one
    known = [one.name for one in FORMATS]
    close = get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise CorpusError(f"unknown format {name!r}; {meant}known formats: {', '.join(known)}")


def format_names() -> str:
    """The names of all formats, for messages.

    Example:
        >>> "conllu" in format_names()
        True
    """
    return ", ".join(form.name for form in FORMATS)

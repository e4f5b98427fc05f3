"""The corpora known by name: what they are, how to read them, which files make which split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from typing import NamedTuple

from lamina.corpora.splits import SPLITS


class Entry(NamedTuple):
    """One corpus of the catalogue; its files come from the asset of the same name."""

    name: str
    title: str
    format: str
    """A name of `lamina.corpora.formats`."""
    scheme: str
    """Whose labels these are; they stay as annotated."""
    annotations: tuple[str, ...]
    files: Mapping[str, str]
    """Split -> glob of its files within the asset's folder; empty where a folder's own lists say which is which."""

    def splits_within(self, members: Iterable[str]) -> tuple[str, ...]:
        """The splits that files of these names (`*` stands for anything) make up."""
        found = [
            split
            for split, pattern in self.files.items()
            if any(fnmatch(pattern.rpartition("/")[2], member) for member in members)
        ]
        return tuple(found) if self.files else SPLITS


def _jsonl(stem: str) -> dict[str, str]:
    return {split: f"**/{stem}.{split}.jsonl" for split in SPLITS}


def _ud(suffix: str) -> dict[str, str]:
    return {split: f"**/en_ewt-ud-{split}.{suffix}" for split in SPLITS}


CATALOGUE = (
    Entry(
        "ewt",
        "English Web Treebank with Universal Decompositional Semantics 2.0",
        "uds",
        "UD v1, UDS 2.0",
        ("pos", "xpos", "dep", "spr", "supersense", "factuality"),
        {split: f"**/uds-ewt-sentences-{split}-normalized.json" for split in SPLITS},
    ),
    Entry("ud_english_ewt", "English Web Treebank", "conllu", "UD v2", ("pos", "xpos", "dep"), _ud("conllu")),
    Entry(
        "gum_open",
        "Georgetown University Multilayer corpus, the genres with open texts",
        "gum",
        "UD v2, PTB brackets, GUM entities, OntoGUM and GUM coreference",
        ("pos", "xpos", "dep", "ner", "const", "chains", "chains_gum"),
        {},
    ),
    Entry(
        "propbank_ewt",
        "PropBank roles and constituents on the English Web Treebank",
        "propbank",
        "PropBank, PTB",
        ("pos", "const", "srl"),
        _jsonl("ewt_srl_const"),
    ),
    Entry(
        "uds_protoroles",
        "Semantic proto-roles (SPR2) on the English Web Treebank",
        "uds_jsonl",
        "UDS 1.0",
        ("spr",),
        _jsonl("protoroles"),
    ),
    Entry(
        "uds_wordsense_factuality",
        "Noun supersenses and factuality on the English Web Treebank",
        "uds_jsonl",
        "UDS 1.0",
        ("supersense", "factuality"),
        _jsonl("uds"),
    ),
    Entry(
        "streusle",
        "STREUSLE: supersenses of nouns, verbs and prepositions",
        "streusle",
        "STREUSLE supersenses, SNACS",
        ("supersense", "supersense_verb", "supersense_prep", "supersense_prep_function"),
        _jsonl("supersenses"),
    ),
    Entry(
        "uner_english_ewt", "Universal NER on the English Web Treebank", "ner_columns", "UNER", ("ner",), _ud("iob2")
    ),
    Entry(
        "semeval2010_task8",
        "SemEval-2010 task 8: relations between nominals",
        "semeval",
        "SemEval-2010 task 8",
        ("rel",),
        {"train": "**/TRAIN_FILE.TXT", "test": "**/TEST_FILE_FULL.TXT"},
    ),
    Entry(
        "gap_coreference",
        "GAP: ambiguous pronouns of Wikipedia",
        "gap",
        "GAP",
        ("coref",),
        # GAP's development set is the one meant for training; validation is the small one for choosing.
        {"train": "**/gap-development.tsv", "dev": "**/gap-validation.tsv", "test": "**/gap-test.tsv"},
    ),
    Entry(
        "wikitext2",
        "WikiText-2: plain paragraphs of Wikipedia",
        "plain",
        "no labels",
        (),
        {"train": "**/train.txt", "dev": "**/valid.txt", "test": "**/test.txt"},
    ),
)
"""Every corpus that has a name; the first is the default."""


def names() -> tuple[str, ...]:
    """The names of the catalogue, the default first.

    Example:
        >>> names()[:2]
        ('ewt', 'ud_english_ewt')
    """
    return tuple(entry.name for entry in CATALOGUE)


def get_entry(name: str) -> Entry | None:
    """The corpus of this name, or None.

    Example:
        >>> entry = get_entry("semeval2010_task8")
        >>> entry.annotations if entry else None
        ('rel',)
    """
    return next((entry for entry in CATALOGUE if entry.name == name), None)

"""The corpora known by name: what they are, how to read them, which files make which split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from types import MappingProxyType
from typing import NamedTuple

from lamina.corpora.splits import SPLITS


class CorpusEntry(NamedTuple):
    """One corpus of the catalogue; its files come from the asset of the same name."""

    name: str
    title: str
    format: str
    """A format name from `lamina.corpora.formats.catalogue`."""
    scheme: str
    """The label scheme; labels stay as annotated."""
    annotations: tuple[str, ...]
    files: Mapping[str | None, str]
    """Split -> glob of its files within the asset's folder; the key None is for files without a split, and the mapping
    is empty if lists in the folder define the splits."""
    documents: Mapping[str, int] = MappingProxyType({})
    """Split -> number of documents, for corpora without splits whose made splits have an exact size."""
    complete: bool = False
    """Whether the given splits are all there are: no other is made of them."""

    def splits_within(self, members: Iterable[str]) -> tuple[str, ...]:
        """The splits that files with these names (`*` matches anything) cover."""
        splits = [
            split
            for split, pattern in self.files.items()
            if split and any(fnmatch(pattern.rpartition("/")[2], member) for member in members)
        ]
        return tuple(splits) or SPLITS


def _jsonl(stem: str) -> dict[str | None, str]:
    return {split: f"**/{stem}.{split}.jsonl" for split in SPLITS}


def _ud(suffix: str) -> dict[str | None, str]:
    return {split: f"**/en_ewt-ud-{split}.{suffix}" for split in SPLITS}


_QUESTION_ANNOTATIONS = ("question", "sentence", "answer", "sup")
_ARTICLES = MappingProxyType({"train": 36, "dev": 4, "test": 8})
"""The 48 articles of SQuAD dev. XQuAD has the same ones, so the same seed scores the same articles."""

CATALOGUE = (
    CorpusEntry(
        "ewt",
        "English Web Treebank with Universal Decompositional Semantics 2.0",
        "uds",
        "UD v1, UDS 2.0",
        ("pos", "xpos", "dep", "spr", "supersense", "factuality"),
        {split: f"**/uds-ewt-sentences-{split}-normalized.json" for split in SPLITS},
    ),
    CorpusEntry("ud_english_ewt", "English Web Treebank", "conllu", "UD v2", ("pos", "xpos", "dep"), _ud("conllu")),
    CorpusEntry(
        "gum_open",
        "Georgetown University Multilayer corpus, the genres with open texts",
        "gum",
        "UD v2, PTB brackets, GUM entities, OntoGUM and GUM coreference",
        ("pos", "xpos", "dep", "ner", "const", "chains", "chains_gum"),
        {},
    ),
    CorpusEntry(
        "propbank_ewt",
        "PropBank roles and constituents on the English Web Treebank",
        "propbank",
        "PropBank, PTB",
        ("pos", "const", "srl"),
        _jsonl("ewt_srl_const"),
    ),
    CorpusEntry(
        "uds_protoroles",
        "Semantic proto-roles (SPR2) on the English Web Treebank",
        "uds_jsonl",
        "UDS 1.0",
        ("spr",),
        _jsonl("protoroles"),
    ),
    CorpusEntry(
        "uds_wordsense_factuality",
        "Noun supersenses and factuality on the English Web Treebank",
        "uds_jsonl",
        "UDS 1.0",
        ("supersense", "factuality"),
        _jsonl("uds"),
    ),
    CorpusEntry(
        "streusle",
        "STREUSLE: supersenses of nouns, verbs and prepositions",
        "streusle",
        "STREUSLE supersenses, SNACS",
        ("supersense", "supersense_verb", "supersense_prep", "supersense_prep_function"),
        _jsonl("supersenses"),
    ),
    CorpusEntry(
        "uner_english_ewt", "Universal NER on the English Web Treebank", "ner_columns", "UNER", ("ner",), _ud("iob2")
    ),
    CorpusEntry(
        "semeval2010_task8",
        "SemEval-2010 task 8: relations between nominals",
        "semeval",
        "SemEval-2010 task 8",
        ("rel",),
        {"train": "**/TRAIN_FILE.TXT", "test": "**/TEST_FILE_FULL.TXT"},
    ),
    CorpusEntry(
        "gap_coreference",
        "GAP: ambiguous pronouns in Wikipedia",
        "gap",
        "GAP",
        ("coref",),
        # GAP's development set is meant for training; validation is the small set for model selection.
        {"train": "**/gap-development.tsv", "dev": "**/gap-validation.tsv", "test": "**/gap-test.tsv"},
    ),
    CorpusEntry(
        "squad",
        "SQuAD v1.1: questions about Wikipedia paragraphs, train and dev",
        "squad",
        "SQuAD",
        _QUESTION_ANNOTATIONS,
        {"train": "**/train-v1.1.json", "dev": "**/dev-v1.1.json"},
        # The official test is not public, and its train is used whole wherever results are compared.
        complete=True,
    ),
    CorpusEntry(
        "squad_v1.1_dev",
        "SQuAD v1.1 dev: questions about Wikipedia paragraphs",
        "squad",
        "SQuAD",
        _QUESTION_ANNOTATIONS,
        {None: "**/dev-v1.1.json"},
        _ARTICLES,
    ),
    CorpusEntry(
        "xquad_en",
        "XQuAD, English: 240 paragraphs of SQuAD dev",
        "squad",
        "SQuAD",
        _QUESTION_ANNOTATIONS,
        {None: "**/xquad.en.json"},
        _ARTICLES,
    ),
    CorpusEntry(
        "hotpotqa_sample",
        "HotpotQA, 200 questions: facts in two of ten paragraphs",
        "hotpot",
        "HotpotQA",
        _QUESTION_ANNOTATIONS,
        {"train": "**/hotpot_train_100.json", "dev": "**/hotpot_dev_distractor_100.json"},
    ),
    CorpusEntry(
        "babi_en",
        "bAbI: stories of 20 tasks, possible answers appended",
        "babi",
        "bAbI",
        _QUESTION_ANNOTATIONS,
        {"train": "**/qa*_train.txt", "test": "**/qa*_test.txt"},
    ),
    CorpusEntry(
        "trec_qtypes",
        "TREC question types (Li and Roth)",
        "trec",
        "Li and Roth",
        ("ques", "ques_coarse"),
        {None: "**/questions.txt"},
    ),
    CorpusEntry(
        "wikitext2",
        "WikiText-2: plain Wikipedia paragraphs",
        "plain",
        "no labels",
        (),
        {"train": "**/train.txt", "dev": "**/valid.txt", "test": "**/test.txt"},
    ),
    CorpusEntry(
        "wnut17",
        "WNUT17: emerging and rare entities in social media",
        "ner_columns",
        "WNUT17",
        ("ner",),
        {"train": "**/wnut17train.conll", "dev": "**/emerging.dev.conll", "test": "**/emerging.test.annotated"},
    ),
    CorpusEntry(
        "litbank",
        "LitBank: coreference in 100 works of English fiction",
        "ontonotes",
        "LitBank",
        ("chains",),
        {None: "**/*.conll"},
    ),
    CorpusEntry(
        "litbank_entities",
        "LitBank: nested entities in 100 works of English fiction",
        "ner_columns",
        "LitBank (ACE classes)",
        ("ner",),
        {None: "**/*.tsv"},
    ),
    CorpusEntry(
        "ontogum",
        "OntoGUM: GUM's coreference in the OntoNotes scheme, the genres with open texts",
        "gum",
        "UD v2, GUM entities, OntoGUM coreference",
        ("pos", "xpos", "dep", "ner", "chains"),
        {},
    ),
    CorpusEntry(
        "masc_senses",
        "MASC with word senses of the New Oxford American Dictionary",
        "simple_wsd",
        "NOAD senses",
        ("sense",),
        {None: "**/*.xml"},
    ),
    CorpusEntry(
        "coarsewsd",
        "CoarseWSD-20: senses of 20 ambiguous nouns in Wikipedia",
        "coarse_wsd",
        "CoarseWSD senses",
        ("sense",),
        {"train": "**/train.data.txt", "test": "**/test.data.txt"},
    ),
    CorpusEntry(
        "sst2",
        "SST-2: sentiment of film reviews",
        "glue",
        "SST-2",
        ("label",),
        {"train": "**/train.tsv", "dev": "**/dev.tsv"},
        # GLUE's test has no labels.
        complete=True,
    ),
    CorpusEntry(
        "mrpc",
        "MRPC: paraphrases in news",
        "glue",
        "MRPC",
        ("label",),
        {"train": "**/*train.t*", "dev": "**/dev.t*", "test": "**/msr_paraphrase_test.txt"},
    ),
)
"""Every named corpus; the first is the default."""


def names() -> tuple[str, ...]:
    """The names in the catalogue, the default first.

    Example:
        >>> names()[:2]
        ('ewt', 'ud_english_ewt')
    """
    return tuple(entry.name for entry in CATALOGUE)


def get_entry(name: str) -> CorpusEntry | None:
    """The corpus of this name, or None.

    Example:
        >>> entry = get_entry("semeval2010_task8")
        >>> entry.annotations if entry else None
        ('rel',)
    """
    return next((entry for entry in CATALOGUE if entry.name == name), None)

"""Files -> texts.

corpus       texts that can be read repeatedly, with their metadata; sentences, windows or documents
splits       which file is which split; how missing splits are made; which texts train, stop and score a probe
loading      from a name, a path or a dataset of the Hugging Face hub to a corpus
from_python  a corpus from lists, tables and datasets in memory
catalogue    the corpora known by name
detection    which format a file or folder has, and which of its files are read
reading      shared by all readers: faults, notes, lines, JSON records
caching      parse each corpus once
treebanks    sentences with lemmas and features
entities     entities and mentions from tags and brackets
tokenising   running text -> words and sentences

formats/     one reader per format
tables/      CSV, JSON, Parquet and Arrow
suites/      minimal pairs, cloze items, regions
questions/   questions with their contexts
"""

from __future__ import annotations

from lamina.corpora.corpus import Corpus
from lamina.corpora.from_python import corpus_from
from lamina.corpora.loading import load_corpus, load_splits
from lamina.corpora.question_sets import Questions, load_questions
from lamina.corpora.splits import Splits

__all__ = ["Corpus", "Questions", "Splits", "corpus_from", "load_corpus", "load_questions", "load_splits"]

"""Files -> texts: one module a format, and what makes them corpora.

formats    which formats there are, told from content
splits     which file is which split; splits made where there is none
units      what becomes one text: sentence, window, document
compact    parsed once, kept as lines of JSON
catalogue  the corpora known by name
loading    from a name or a path to a corpus
"""

from __future__ import annotations

from lamina.corpora.corpus import Corpus
from lamina.corpora.from_python import corpus_from
from lamina.corpora.loading import load_corpus

__all__ = ["Corpus", "corpus_from", "load_corpus"]

"""Files -> texts: one module per format, and the modules that turn texts into corpora.

formats        the list of formats, and how they are detected
splits         which file is which split; how missing splits are made
units          what becomes one text: sentence, window, document
views          how questions are shown: which context, which form of answer
origins        what a text was made of, the same in every view
notes          what readers left out or changed
caching        hash each file once, parse each corpus once
catalogue      the corpora known by name
loading        from a name or a path to a corpus
held           a corpus that stays in memory after it was read once
question_sets  questions with their raw contexts
learning       which texts train, stop and score a probe
"""

from __future__ import annotations

from lamina.corpora.corpus import Corpus
from lamina.corpora.from_python import corpus_from
from lamina.corpora.learning import Splits, load_splits
from lamina.corpora.loading import load_corpus
from lamina.corpora.questions.question_sets import Questions, load_questions

__all__ = ["Corpus", "Questions", "Splits", "corpus_from", "load_corpus", "load_questions", "load_splits"]

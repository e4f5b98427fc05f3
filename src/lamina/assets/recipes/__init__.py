"""Corpora that are derived here: public files at a pinned commit, a function, and the counts that have to come out.

A recipe is deterministic: the same files give the same corpus, byte for byte. Modules of this package parse their
origins themselves, as far as they need; the readers of `lamina.corpora` read what they write.

recipe       what a recipe is
ewt          English Web Treebank, and what others annotated on it: PropBank, STREUSLE, UDS, Universal NER
gum          GUM and OntoGUM
published    corpora as they were published: WikiText-2, WNUT17, LitBank, MASC, bAbI, HotpotQA
suites       test suites for language models
"""

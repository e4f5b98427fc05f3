"""What labels are called in sentences, on axes and in searches: "object (dobj)" for a reader who knows no treebank."""

from __future__ import annotations

RELATIONS = {
    # Universal Dependencies, version 2, and what version 1 and Stanford dependencies call otherwise.
    "acl": "clause of a noun", "acl:relcl": "relative clause", "rcmod": "relative clause",
    "partmod": "clause of a noun", "vmod": "clause of a noun", "infmod": "clause of a noun",
    "advcl": "adverbial clause", "advmod": "adverb", "neg": "negation", "npadvmod": "noun as an adverb",
    "amod": "adjective", "appos": "apposition", "aux": "auxiliary", "aux:pass": "passive auxiliary",
    "auxpass": "passive auxiliary", "case": "case marker", "prep": "preposition", "cc": "conjunction",
    "preconj": "preceding conjunction", "cc:preconj": "preceding conjunction", "ccomp": "clausal complement",
    "clf": "classifier", "compound": "compound", "nn": "compound noun", "compound:prt": "verb particle",
    "prt": "verb particle", "conj": "conjunct", "cop": "copula", "csubj": "clausal subject",
    "csubj:pass": "clausal passive subject", "csubjpass": "clausal passive subject", "dep": "unspecified dependent",
    "det": "determiner", "det:predet": "predeterminer", "predet": "predeterminer", "discourse": "discourse marker",
    "dislocated": "dislocated element", "expl": "expletive", "fixed": "fixed phrase", "mwe": "fixed phrase",
    "flat": "name part", "flat:name": "name part", "flat:foreign": "foreign phrase", "goeswith": "split word",
    "iobj": "indirect object", "list": "list item", "mark": "clause marker", "nmod": "noun modifier",
    "nmod:poss": "possessor", "poss": "possessor", "possessive": "possessive marker", "nmod:tmod": "time modifier",
    "nmod:npmod": "noun as an adverb", "nmod:unmarked": "noun as an adverb", "tmod": "time modifier",
    "nsubj": "subject", "nsubj:pass": "passive subject", "nsubjpass": "passive subject",
    "nsubj:outer": "outer subject", "nummod": "number", "num": "number", "number": "part of a number",
    "quantmod": "quantifier", "obj": "object", "dobj": "object", "obl": "oblique", "obl:tmod": "time oblique",
    "obl:npmod": "noun as an adverb", "obl:unmarked": "noun as an adverb", "obl:agent": "passive agent",
    "agent": "passive agent", "obl:arg": "oblique argument", "orphan": "orphan", "parataxis": "parataxis",
    "pobj": "object of a preposition", "pcomp": "clause of a preposition", "punct": "punctuation mark",
    "reparandum": "repaired word", "root": "root", "vocative": "vocative", "xcomp": "open clausal complement",
    "acomp": "adjective complement", "attr": "attribute",
}  # fmt: skip
"""Dependency relation -> what its dependent is called."""

_CLASSES = {
    "ADJ": "adjective", "ADP": "adposition", "ADV": "adverb", "AUX": "auxiliary", "CCONJ": "coordinating conjunction",
    "CONJ": "coordinating conjunction", "DET": "determiner", "INTJ": "interjection", "NOUN": "noun", "NUM": "number",
    "PART": "particle", "PRON": "pronoun", "PROPN": "proper noun", "PUNCT": "punctuation mark",
    "SCONJ": "subordinating conjunction", "SYM": "symbol", "VERB": "verb", "X": "other word",
}  # fmt: skip
_ENTITIES = {
    "PER": "person", "PERSON": "person", "ORG": "organisation", "LOC": "place", "GPE": "country or city",
    "MISC": "other name", "NORP": "nationality or group", "FAC": "building", "PRODUCT": "product", "EVENT": "event",
    "WORK_OF_ART": "work of art", "LAW": "law", "LANGUAGE": "language", "DATE": "date", "TIME": "time of day",
    "PERCENT": "percentage", "MONEY": "amount of money", "QUANTITY": "quantity", "ORDINAL": "ordinal number",
    "CARDINAL": "cardinal number",
}  # fmt: skip
_PHRASES = {
    "S": "clause", "SBAR": "subordinate clause", "SQ": "question", "SBARQ": "question word clause",
    "SINV": "inverted clause", "NP": "noun phrase", "VP": "verb phrase", "PP": "prepositional phrase",
    "ADJP": "adjective phrase", "ADVP": "adverb phrase", "QP": "quantifier phrase", "WHNP": "question noun phrase",
    "WHADVP": "question adverb phrase", "WHPP": "question prepositional phrase", "PRN": "parenthesis",
    "INTJ": "interjection", "UCP": "mixed coordination", "NX": "noun phrase head", "FRAG": "fragment",
}  # fmt: skip
_TABLES = (RELATIONS, _CLASSES, _ENTITIES, _PHRASES)
_PLURALS = {"person": "people", "apposition": "appositions", "country or city": "countries and cities"}


def word_for(label: str) -> str:
    """What a label is called, in the singular; the label itself where nobody named it.

    A subtype that is not listed is called as its relation.

    Example:
        >>> word_for("dobj"), word_for("nsubj:xyz"), word_for("PROPN"), word_for("B-17")
        ('object', 'subject', 'proper noun', 'B-17')
    """
    for table in _TABLES:
        if label in table:
            return table[label]
    return RELATIONS.get(label.partition(":")[0], label) if ":" in label else label


def in_words(label: str) -> str:
    """A label for an axis or a legend: its name, with the annotated label in brackets.

    Example:
        >>> in_words("dobj"), in_words("root"), in_words("B-17")
        ('object (dobj)', 'root', 'B-17')
    """
    word = word_for(label)
    return word if word == label else f"{word} ({label})"


def plural_of(label: str) -> str:
    """Several of what a label stands for, as sentences count them.

    Example:
        >>> plural_of("dobj"), plural_of("pobj"), plural_of("poss"), plural_of("auxpass"), plural_of("xyz")
        ('objects', 'objects of prepositions', 'possessors', 'passive auxiliaries', 'xyz relations')
    """
    word = word_for(label)
    if word == label and label not in {name for table in _TABLES for name in table}:
        return f"{label} relations"
    if word in _PLURALS:
        return _PLURALS[word]
    for singular, plural in ((" of a ", " of "), (" as an ", " as ")):
        first, joint, second = word.partition(singular)
        if joint:
            return f"{_several(first)}{plural}{_several(second)}"
    return _several(word)


def _several(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    if word.endswith("is"):
        return f"{word[:-2]}es"
    return f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"

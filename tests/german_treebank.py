"""A small treebank in German, written by rules: Stuttgart-Tuebingen tags, and features as in Universal Dependencies.

Each sentence has a finite verb in the present or the past, a subject and an object. A third of them have an
auxiliary, so that the main verb is not finite.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Word(NamedTuple):
    """A row of CoNLL-U."""

    form: str
    lemma: str
    pos: str
    tag: str
    features: str
    head: int
    relation: str


NOUNS = {
    "Sing": ("Hund", "Mann", "Wagen", "Garten", "Vogel", "Lehrer"),
    "Plur": ("Hunde", "Männer", "Wagen", "Gärten", "Vögel", "Lehrer"),
}
STEMS = (
    *("mach", "such", "hol", "zeig", "hör", "kauf", "frag", "lob", "mal", "pack", "teil", "prüf"),
    *("stör", "weck", "zähl", "schick", "pfleg", "brauch", "lieb", "rühr", "spür", "jag", "lenk", "drück"),
)
"""Of weak verbs: sucht, suchen, suchte, suchten, gesucht."""
ADJECTIVES = ("kleine", "alte", "neue", "rote", "stille", "weite")
ADVERBS = ("heute", "gern", "oft", "wieder", "dort", "bald")


def sentences(split: str, count: int) -> Iterator[tuple[str, list[Word]]]:
    """Ids and words; a document has three sentences."""
    draw = random.Random(f"german {split}")
    for number in range(count):
        yield f"{split}-{number}", _sentence(draw, perfect=number % 3 == 2)


def _sentence(draw: random.Random, *, perfect: bool) -> list[Word]:
    subject, thing = draw.choice(("Sing", "Plur")), draw.choice(("Sing", "Plur"))
    stem = draw.choice(STEMS)
    tense, ends = draw.choice((("Pres", ("t", "en")), ("Past", ("te", "ten"))))
    finite = f"Mood=Ind|Number={subject}|Person=3|Tense={tense}|VerbForm=Fin"
    # The number of the main verb's row: its dependents are written with it.
    main = 10 if perfect else 4
    words = [
        _article("Nom", subject, 3),
        _adjective(draw, 3),
        _noun(draw, "Nom", subject, main, "nsubj"),
        Word("hat" if subject == "Sing" else "haben", "haben", "AUX", "VAFIN",
             f"Mood=Ind|Number={subject}|Person=3|Tense=Pres|VerbForm=Fin", main, "aux")
        if perfect
        else Word(stem + ends[subject == "Plur"], f"{stem}en", "VERB", "VVFIN", finite, 0, "root"),
        Word(draw.choice(ADVERBS), "_", "ADV", "ADV", "_", main, "advmod"),
        _article("Acc", thing, 8),
        _adjective(draw, 8),
        _noun(draw, "Acc", thing, main, "obj"),
        Word(draw.choice(ADVERBS), "_", "ADV", "ADV", "_", main, "advmod"),
    ]  # fmt: skip
    if perfect:
        words.append(Word(f"ge{stem}t", f"{stem}en", "VERB", "VVPP", "VerbForm=Part", 0, "root"))
    return [*words, Word(".", ".", "PUNCT", "$.", "_", main, "punct")]


def _article(case: str, number: str, head: int) -> Word:
    form = "die" if number == "Plur" else "der" if case == "Nom" else "den"
    return Word(form, "der", "DET", "ART", f"Case={case}|Definite=Def|Number={number}|PronType=Art", head, "det")


def _adjective(draw: random.Random, head: int) -> Word:
    form = draw.choice(ADJECTIVES)
    return Word(form, form, "ADJ", "ADJA", "Degree=Pos", head, "amod")


def _noun(draw: random.Random, case: str, number: str, head: int, relation: str) -> Word:
    place = draw.randrange(len(NOUNS[number]))
    features = f"Case={case}|Gender=Masc|Number={number}"
    return Word(NOUNS[number][place], NOUNS["Sing"][place], "NOUN", "NN", features, head, relation)


def write(folder: Path, **counts: int) -> Path:
    """The treebank in CoNLL-U, a file per split."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in counts.items():
        lines = []
        for number, (name, words) in enumerate(sentences(split, count)):
            if number % 3 == 0:
                lines.append(f"# newdoc id = {split}{number // 3}")
            lines.append(f"# sent_id = {name}")
            lines += [
                "\t".join((str(at), word.form, word.lemma, word.pos, word.tag, word.features, str(word.head),
                           word.relation, "_", "_"))
                for at, word in enumerate(words, start=1)
            ]  # fmt: skip
            lines.append("")
        (folder / f"de-{split}.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder

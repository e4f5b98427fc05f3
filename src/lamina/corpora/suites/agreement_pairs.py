"""Subject-verb agreement in a treebank: sentences beside the same ones with the verb in the other number.

As Linzen et al. (2016) ask it, of any treebank with lemmas and numbers. The verb is the finite one that agrees with a
noun before it: the subject's head, or the copula or auxiliary of that head. The other form is one that the treebank
itself has, with the same lemma, tense and mood and the other number, so no rules of a language are needed. Attractors
are nouns of the other number between subject and verb. Beside them, where wanted, the same sentences without meaning
(Gulordava et al. 2018): every content word replaced by another one of the treebank with the same part of speech, tag
and features, so that only structure tells the number.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.suites.minimal_pairs import MinimalPair, MinimalPairs
from lamina.corpora.treebanks import LemmaTreebank, TreebankSentence, TreebankWord, load_treebank
from lamina.errors import CorpusError

FIELD, TERM = "morphology", "subject_verb_agreement"
"""As BLiMP calls the same."""
NONCE = "subject_verb_agreement_nonce"
"""The term of pairs whose content words are replaced."""
DEFAULT = "gum_open"
"""Its sentences are long enough to have attractors, and n-gram models are counted on another treebank by default."""
_MANY = 3
"""Attractors from which on sentences are one paradigm: more are rare."""
_NUMBERS = {"Sing": "Plur", "Plur": "Sing"}
_TAGS = {"VBZ": "Sing", "VBP": "Plur", "NN": "Sing", "NNP": "Sing", "NNS": "Plur", "NNPS": "Plur"}
"""Penn Treebank tags -> number, for words whose features do not say it."""
_NOUNS, _VERBS = ("NOUN", "PROPN"), ("VERB", "AUX")
_SUBJECTS = ("nsubj", "nsubj:pass", "nsubjpass", "nsubj:outer")
_CARRIERS = ("aux", "aux:pass", "auxpass", "cop")
"""Relations of the words that inflect in their head's place."""
_SAME = ("Tense", "Mood", "VerbForm", "Voice", "Aspect", "Polarity", "Evident")
"""Features that both forms of a verb share ..."""
_AGREES = ("Gender", "Animacy", "Definite", "Polite")
"""... and those in which it may agree besides number: the form that differs least in them is taken."""

_PRONOUN = "subjects that are no nouns"
_JOINED = "subjects of several nouns joined (conj)"
_AFTER = "subjects after their verb"
_UNCLEAR = "verbs or subjects whose number is not annotated"
_DISAGREE = "verbs annotated with another number than their subject"
_UNSEEN = "verbs whose form in the other number is not in the treebank"
_ALIKE = "verbs that look the same in both numbers"
_WRITTEN = "verbs written as one with the word before or with others"
_ALONE = "sentences without meaning that could not be made: no other verb of the same form with both numbers"

_CONTENT = ("NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM")
_VOWELS = tuple("aeiou")


class _InflectedForm(NamedTuple):
    """A form of a verb that occurs, and what it agrees in besides number."""

    form: str
    agrees: frozenset[tuple[str, str]]


class Inflections:
    """The forms of verbs that a treebank has, by lemma, tense and number.

    Example:
        >>> tags = {"Runs": "VBZ", "run": "VBP"}
        >>> run = [TreebankWord(form, "run", "VERB", tag, {"VerbForm": "Fin"}, 0, "") for form, tag in tags.items()]
        >>> inflections = Inflections([TreebankSentence("1", None, tuple(run))])
        >>> inflections.other(run[0]), inflections.other(run[1])
        ('Run', 'runs')
    """

    def __init__(self, sentences: Iterable[TreebankSentence]) -> None:
        self._forms: dict[tuple[str, ...], Counter[_InflectedForm]] = defaultdict(Counter)
        for sentence in sentences:
            for word in sentence.words:
                if _is_finite(word) and (number := number_of(word)) and "Typo" not in word.features:
                    self._forms[(*_lexeme(word), number)][_InflectedForm(word.form.lower(), _agreeing(word))] += 1

    def other(self, verb: TreebankWord) -> str | None:
        """The verb in the other number, written like it; None if no such form occurs, empty if it looks the same."""
        number = number_of(verb)
        if number is None:
            return None
        same, opposite = (self._forms.get((*_lexeme(verb), value), Counter()) for value in (number, _NUMBERS[number]))
        often, elsewhere = _by_form(opposite), _by_form(same)
        # One slip of an annotator does not make "is" a plural.
        known = [variant for variant in opposite if often[variant.form] > elsewhere[variant.form]]
        agreeing = _agreeing(verb)
        best = min(
            known,
            key=lambda variant: (-len(agreeing & variant.agrees), -often[variant.form], variant.form),
            default=None,
        )
        if best is None:
            return "" if verb.form.lower() in often else None
        return "" if best.form == verb.form.lower() else _like(verb.form, best.form)


def _by_form(forms: Counter[_InflectedForm]) -> Counter[str]:
    often: Counter[str] = Counter()
    for variant, times in forms.items():
        often[variant.form] += times
    return often


class ContentWords:
    """The content words of a treebank by their form: part of speech, tag and features.

    Words that occur with several parts of speech are left out, as they may be read otherwise.

    Example:
        >>> forms = (("dogs", "NNS"), ("cats", "NNS"), ("dog", "NN"))
        >>> words = [TreebankWord(form, form[:3], "NOUN", tag, {}, 0, "") for form, tag in forms]
        >>> ContentWords([TreebankSentence("1", None, tuple(words))]).others(words[0])
        ['cats']
    """

    def __init__(self, sentences: Iterable[TreebankSentence]) -> None:
        known: dict[tuple[str, ...], dict[str, TreebankWord]] = defaultdict(dict)
        parts: dict[str, set[str]] = defaultdict(set)
        for sentence in sentences:
            for word in sentence.words:
                parts[word.form.lower()].add(word.pos)
                if _is_content(word):
                    known[_form(word)].setdefault(word.form.lower(), word)
        self._words = {
            form: {name: word for name, word in sorted(words.items()) if len(parts[name]) == 1}
            for form, words in known.items()
        }

    def others(self, word: TreebankWord) -> list[str]:
        """The other words of its form, in alphabetical order."""
        return [name for name in self._words.get(_form(word), ()) if name != word.form.lower()]

    def another(self, word: TreebankWord, before: str, drawn: int, verbs: Inflections | None) -> TreebankWord | None:
        """One of them by a number, written alike, fitting a or an `before` it; with `verbs`, one with both numbers."""
        names = self.others(word)
        if before.lower() in ("a", "an"):
            names = [name for name in names if name.startswith(_VOWELS) == (before.lower() == "an")]
        words = self._words.get(_form(word), {})
        if verbs is not None:
            names = [name for name in names if verbs.other(words[name])]
        if not names:
            return None
        chosen = words[names[drawn % len(names)]]
        return word._replace(form=_like(word.form, chosen.form.lower()), lemma=chosen.lemma)


def _is_content(word: TreebankWord) -> bool:
    plain = word.form.isalpha() and word.written is None and "Typo" not in word.features
    return word.pos in _CONTENT and plain and len(word.form) > 1


def _form(word: TreebankWord) -> tuple[str, ...]:
    features = (f"{name}={value}" for name, value in sorted(word.features.items()))
    return (word.pos, word.tag, *features)


def without_meaning(
    sentence: TreebankSentence, verb: int, words: ContentWords, inflections: Inflections, seed: int
) -> TreebankSentence | None:
    """The sentence with other content words; None where its verb is one that has no other of its form."""
    changed = list(sentence.words)
    for place, word in enumerate(sentence.words):
        if not _is_content(word):
            continue
        key = hashlib.blake2b(f"{seed} {sentence.id} {place}".encode("utf-8", "surrogatepass"), digest_size=8)
        before = changed[place - 1].form if place else ""
        verbs = inflections if place == verb else None
        another = words.another(word, before, int.from_bytes(key.digest()), verbs)
        if another is None and place == verb:
            return None
        changed[place] = another or word
    return sentence._replace(words=tuple(changed))


def agreement_pairs(
    name_or_path: str | Path = DEFAULT, split: str = "all", *, nonce: bool = False, seed: int = 0
) -> MinimalPairs:
    """Pairs made of a treebank of the catalogue or of your own; other forms of verbs are looked up in all its splits.

    With `nonce`, each has one beside it whose content words are replaced.

    Example:
        >>> suite = agreement_pairs("ud_english_ewt", "dev")  # doctest: +SKIP
        >>> suite.pairs[0].good, suite.pairs[0].bad  # doctest: +SKIP
    """
    treebank = load_treebank(name_or_path, split, seed=seed)
    inflections = Inflections([*treebank.sentences, *treebank.others])
    left_out: Counter[str] = Counter()
    words = ContentWords([*treebank.sentences, *treebank.others]) if nonce else None
    pairs = [pair for sentence in treebank.sentences for pair in pairs_of(sentence, inflections, left_out, words, seed)]
    pairs = list(_once(pairs, left_out))
    if not pairs:
        raise CorpusError(_nothing(treebank, left_out))
    name = f"agreement in {treebank.name} ({split})"
    nonce_seed = ("nonce 1", seed) if nonce else ()
    fingerprint = fingerprint_of("agreement 1", dict(treebank.files), split, treebank.made_split or "", *nonce_seed)
    return MinimalPairs(name, fingerprint, tuple(sorted(pairs, key=_order)), treebank.files, dict(left_out))


def pairs_of(
    sentence: TreebankSentence,
    inflections: Inflections,
    left_out: Counter[str],
    words: ContentWords | None = None,
    seed: int = 0,
) -> Iterator[MinimalPair]:
    """The pairs of one sentence, one per verb whose subject is a noun; why others are none is counted.

    With `words`, a pair without meaning follows each.

    Example:
        >>> keys = TreebankWord("Keys", "key", "NOUN", "NNS", {}, 1, "nsubj")
        >>> rust = TreebankWord("rust", "rust", "VERB", "VBP", {}, 1, "root")
        >>> seen = TreebankSentence("2", None, (TreebankWord("rusts", "rust", "VERB", "VBZ", {}, 0, "root"),))
        >>> sentence = TreebankSentence("1", None, (keys, rust))
        >>> [pair.bad for pair in pairs_of(sentence, Inflections([seen, sentence]), Counter())]
        ['Keys rusts']
    """
    for place, subject in enumerate(sentence.words):
        if subject.relation not in _SUBJECTS:
            continue
        verb_place = _verb_of(sentence, subject.head)
        if verb_place is None:
            continue
        other = inflections.other(sentence.words[verb_place])
        why_not = _why_not(sentence, place, verb_place) or (_UNSEEN if other is None else _ALIKE if not other else None)
        if why_not or not other:
            left_out[str(why_not)] += 1
            continue
        number = number_of(subject)
        between = (word for word in sentence.words[place + 1 : verb_place] if word.pos in _NOUNS)
        attractors = sum(number_of(word) == _NUMBERS[number or ""] for word in between)
        id = f"{sentence.id}:{verb_place + 1}"
        paradigm = _paradigm_of(attractors)
        yield MinimalPair(id, FIELD, TERM, paradigm, sentence.text(), sentence.text({verb_place: other}))
        if words is None:
            continue
        changed = without_meaning(sentence, verb_place, words, inflections, seed)
        bad = None if changed is None else inflections.other(changed.words[verb_place])
        if changed is None or not bad:
            left_out[_ALONE] += 1
        else:
            texts = changed.text(), changed.text({verb_place: bad})
            yield MinimalPair(f"{id} nonce", FIELD, NONCE, f"{paradigm}, nonce", *texts)


def number_of(word: TreebankWord) -> str | None:
    """Sing or Plur, by features or else by Penn Treebank tag; None for all else, such as a dual.

    Example:
        >>> number_of(TreebankWord("dogs", "dog", "NOUN", "NNS", {}, 0, "root"))
        'Plur'
    """
    number = word.features.get("Number", _TAGS.get(word.tag))
    return number if number in _NUMBERS else None


def _why_not(sentence: TreebankSentence, place: int, verb_place: int) -> str | None:
    """Why a subject and its verb make no pair."""
    subject, verb = sentence.words[place], sentence.words[verb_place]
    if subject.pos not in _NOUNS:
        return _PRONOUN
    if any(word.head == place and word.relation.split(":")[0] == "conj" for word in sentence.words):
        return _JOINED
    if place > verb_place:
        return _AFTER
    if number_of(subject) is None or number_of(verb) is None:
        return _UNCLEAR
    if number_of(subject) != number_of(verb):
        return _DISAGREE
    if verb.written is not None or not verb.before:
        return _WRITTEN
    return None


def _verb_of(sentence: TreebankSentence, head: int) -> int | None:
    """The finite verb that agrees with the subject of `head`: the first of its auxiliaries and copulas, or itself.

    None where that has no number to agree in: a past or an infinitive of English, a modal, a headline without a verb.
    """
    carriers = [place for place, word in enumerate(sentence.words) if word.head == head and word.relation in _CARRIERS]
    place = carriers[0] if carriers else head
    word = sentence.words[place]
    return place if _is_finite(word) and (number_of(word) or "Number" in word.features) else None


def _is_finite(word: TreebankWord) -> bool:
    """Whether it can be the verb of a noun: finite, and not in the first or second person."""
    finite = word.features.get("VerbForm") == "Fin" or word.tag in ("VBZ", "VBP")
    return word.pos in _VERBS and finite and word.features.get("Person", "3") == "3"


def _agreeing(word: TreebankWord) -> frozenset[tuple[str, str]]:
    return frozenset((name, word.features[name]) for name in _AGREES if name in word.features)


def _lexeme(word: TreebankWord) -> tuple[str, ...]:
    return (word.lemma.lower(), *(word.features.get(name, "") for name in _SAME))


def _paradigm_of(attractors: int) -> str:
    if attractors >= _MANY:
        return f"{_MANY} or more attractors"
    return "1 attractor" if attractors == 1 else f"{attractors} attractors"


def _like(written: str, form: str) -> str:
    """The form in capitals where the verb is."""
    if written.isupper() and len(written) > 1:
        return form.upper()
    return form[0].upper() + form[1:] if written[0].isupper() else form


def _order(pair: MinimalPair) -> int:
    """By number of attractors; sentences keep their order."""
    return int(pair.paradigm.split()[0])


def _once(pairs: Iterable[MinimalPair], left_out: Counter[str]) -> Iterator[MinimalPair]:
    """A sentence that occurs several times ("Hope this helps") makes one pair."""
    seen: set[tuple[str, str]] = set()
    ids: set[str] = set()
    for pair in pairs:
        if (pair.good, pair.bad) in seen:
            left_out["sentences that occur before"] += 1
        elif pair.good.split() != pair.bad.split():
            seen.add((pair.good, pair.bad))
            yield pair if pair.id not in ids else pair._replace(id=f"{pair.id} ({len(ids)})")
            ids.add(pair.id)


def _nothing(treebank: LemmaTreebank, left_out: Mapping[str, int]) -> str:
    why = "; ".join(f"{reason}: {count:,}" for reason, count in left_out.items()) or "no subject of a finite verb"
    return (
        f"{treebank.name} ({treebank.split}) has no verb that agrees with a noun before it and whose other form occurs "
        f"({why}); give a treebank with lemmas and Number (or Penn Treebank tags)"
    )

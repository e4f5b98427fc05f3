"""What a text was made of: hashes by which texts are recognised however they are cut, split into words or shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from lamina.types import Text

_PASSAGE = 200
"""Characters (without white space) from which a context identifies its questions; a shorter one recurs by chance."""
_SENTENCE = 40
"""Characters from which a sentence identifies the document or window it is part of ("Thank you." is in many)."""


def origin_of(question: str, context: str) -> str:
    """A hash of a question and its raw, uncut context, the same for every view of them.

    Questions about the same passage have the same hash: a model that has seen the passage has seen them all. Short
    stories, which recur by chance, are identified together with their question.

    Example:
        >>> origin_of("Who barks?", "Dogs bark.") == origin_of("Who barks ?", "Dogs  bark .")
        True
        >>> origin_of("Who barks?", "Dogs bark. " * 40) == origin_of("What do dogs do?", "Dogs bark. " * 40)
        True
    """
    whole = "".join(context.split())
    said = whole if len(whole) >= _PASSAGE else "".join(question.split()) + whole
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def origins(text: Text) -> tuple[str, ...]:
    """The hashes of what a text was made of; where it does not say, of its words.

    Example:
        >>> origins(Text("a", ("can", "not", "."))) == origins(Text("b", ("cannot", ".")))
        True
    """
    if text.origin is not None:
        return tuple(text.origin.split())
    last = text.segments[-1]
    return (origin_of("".join(text.words[: last.start]), "".join(text.words[last.start :])),)


def origin_of_joined(sentences: Iterable[Text]) -> str | None:
    """The origin of a text that is made of several: by each of them that is not too short to tell.

    Example:
        >>> long = Text("a", ("A", "sentence", "of", "some", "length", "is", "rarely", "written", "twice", "."))
        >>> origin_of_joined([long, Text("b", ("Thanks", "."))]) == " ".join(origins(long))
        True
    """
    telling = (
        sentence for sentence in sentences if sentence.origin is not None or len("".join(sentence.words)) >= _SENTENCE
    )
    return " ".join(dict.fromkeys(origin for sentence in telling for origin in origins(sentence))) or None

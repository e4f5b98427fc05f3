"""What the sentence lens is asked, and what it answers."""

from __future__ import annotations

from pydantic import BaseModel, Field

from lamina.web.api.answers import Typed

MOST_WORDS = 512
"""Of a sentence: each is a button with its bars."""
MOST_MARKED = 32


class Sentence(BaseModel):
    """A sentence and who reads it."""

    model: Typed = Field(max_length=1000)
    sentence: Typed = Field(max_length=1_000_000)


class Mark(BaseModel):
    """Words that are asked about; a second span for tasks of pairs. Both ends are included."""

    task: Typed = Field(max_length=100)
    first: int = Field(ge=0, lt=MOST_WORDS)
    last: int = Field(ge=0, lt=MOST_WORDS)
    first2: int | None = Field(None, ge=0, lt=MOST_WORDS)
    last2: int | None = Field(None, ge=0, lt=MOST_WORDS)


class MarkedSentence(Sentence):
    """A sentence with the spans that are asked about."""

    marked: list[Mark] = Field(default_factory=list, max_length=MOST_MARKED)


class OneWord(Sentence):
    """A word of a sentence."""

    word: int = Field(ge=0, lt=MOST_WORDS)


class TaskCard(BaseModel):
    """A question that there are probes for."""

    name: str
    title: str
    about: str
    arity: int
    """Spans it asks about."""
    unasked: bool
    """Whether it is answered for every word without being asked."""
    labels: int


class Label(BaseModel):
    """One label's own probability under the probes P(0)..P(L)."""

    label: str
    probabilities: list[float]


class Belief(BaseModel):
    """What the probes make of one target; the label with the highest mean probability comes first."""

    task: str
    spans: list[tuple[int, int]]
    """First word and one past the last."""
    labels: list[Label]


class Lens(BaseModel):
    """A sentence under the probes."""

    words: list[str]
    tokens: int
    """Of the model, special ones included."""
    layers: int
    tasks: list[TaskCard]
    """Empty where no saved probes fit this model."""
    seeds: int
    """Probabilities are the mean over so many probes."""
    beliefs: list[Belief]
    interesting: int
    """The word to begin with: about which belief changes most from layer to layer."""


class Head(BaseModel):
    """A head's largest weight between the word and another one."""

    layer: int
    head: int
    word: int
    """The other one."""
    weight: float


class Heads(BaseModel):
    """All heads, the strongest first."""

    incoming: list[Head]
    """From another word to this one."""
    outgoing: list[Head]
    """From this word to another one."""


class Word(BaseModel):
    """A word on its way through the layers."""

    path: list[tuple[float, float]]
    """Its place at each layer."""
    others: list[list[tuple[float, float]]]
    """Layer by layer the places of all words of the sentence."""
    explained: tuple[float, float]
    """The share of all variance that the two axes show."""
    attended: Heads | None
    """None where the model has no heads, or the text is longer than it takes at once."""


class Neighbour(BaseModel):
    """A word of the corpus near the one asked about."""

    word: str
    sentence: str
    similarity: float


class Neighbours(BaseModel):
    """At each layer the words nearest by cosine, the nearest first."""

    corpus: str
    sentences: int
    words: int
    layers: list[list[Neighbour]]

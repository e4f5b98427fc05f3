"""What every head looks at: its surface behaviour, the patterns of its maps, and whether the loss hangs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch

from lamina.analyses.attention_maps.surface import SHARE_OF_TEXTS, SURFACE, UNTOLD, PatternMeter, SurfaceMeter
from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator
from lamina.analyses.findings import finding, rows_of
from lamina.analyses.inputs import Texts
from lamina.analyses.settings import Samples, Seed, Setting
from lamina.analyses.watching import (
    CUT,
    Watch,
    Watching,
    first_token,
    fit,
    punctuation_ids,
    refuse_without_maps,
    roles_of,
)
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.encoders.gradients import HOW, Gradients, OwnLoss
from lamina.errors import CorpusError
from lamina.progress import progress
from lamina.results import Finding, Result
from lamina.types import Span, Text

SEGMENTS, LENGTH = 1000, 128
"""The paper's: number of pairs, and the most tokens of one."""


@dataclass(frozen=True, eq=False)
class Shown:
    """Texts read anew on every iteration, like their corpus; a seeded draw of them where not all are wanted.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> shown = Shown(corpus_from([["Dogs", "bark"], ["Cats", "purr"]], name="pets"), most=1)
        >>> len(shown), len(list(shown)), shown.describe()
        (1, 1, '1 of 2 texts, drawn at random')
    """

    corpus: Corpus
    pairs: bool = False
    """Two consecutive texts at a time."""
    most: int | None = None
    """The most texts or pairs; None for all."""
    seed: int = 0

    @cached_property
    def there(self) -> int:
        """How many there are to draw from."""
        count = sum(1 for _ in pair_up(self.corpus)) if self.pairs else len(self.corpus)
        if not count:
            raise CorpusError(
                f"{self.corpus.name}: a pair is two consecutive texts of one document, and there is none; name a "
                "corpus whose texts say their document (in plain text a line ` = Title = ` starts one)"
            )
        return count

    def __len__(self) -> int:
        return self.there if self.most is None else min(self.there, self.most)

    def __iter__(self) -> Iterator[Text]:
        texts = pair_up(self.corpus) if self.pairs else iter(self.corpus)
        if len(self) == self.there:
            yield from texts
            return
        drawn = np.zeros(self.there, bool)
        drawn[np.random.default_rng(self.seed).choice(self.there, len(self), replace=False)] = True
        yield from (text for text, wanted in zip(texts, drawn, strict=True) if wanted)

    def describe(self) -> str:
        """In words, for provenance."""
        what = "pairs of consecutive texts of one document" if self.pairs else "texts"
        if len(self) == self.there:
            return f"all {self.there:,} {what}"
        return f"{len(self):,} of {self.there:,} {what}, drawn at random"


def pair_up(texts: Iterable[Text]) -> Iterator[Text]:
    """Two consecutive texts of a document as one text of two segments; each text is used once, headings never.

    A text without a document joins nothing.

    Example:
        >>> texts = [Text(name, (name,), doc="d") for name in "abcde"]
        >>> [(pair.id, pair.words) for pair in pair_up(texts)]
        [('a+b', ('a', 'b')), ('c+d', ('c', 'd'))]
    """
    written = (text for text in texts if text.doc is not None and not _is_heading(text))
    for _, own in groupby(written, key=lambda text: text.doc):
        for number, (one, other) in enumerate(pairwise(own)):
            if number % 2 == 0:
                yield _joined(one, other)


def _joined(one: Text, other: Text) -> Text:
    border = len(one.words)
    words = (*one.words, *other.words)
    return Text(f"{one.id}+{other.id}", words, (Span(0, border), Span(border, len(words))), doc=one.doc)


def _is_heading(text: Text) -> bool:
    """Whether it is a heading of wikitext: ` = = Description = = `."""
    return len(text.words) > 2 and text.words[0] == "=" == text.words[-1]


TARGETS = ("separator", "punctuation", "other")
GRADIENTS = ("layer", "head", "target", "value")
"""Columns of `gradients.csv`."""

UNPREDICTED = "texts with nothing to predict, without gradients"
UNCUT = "texts whose first words alone are longer than the model's limit, without gradients"


class GradientMeter:
    """The mean magnitude of a text's gradients by what attention goes to, then over texts that have such a token."""

    def __init__(self, encoder: Encoder) -> None:
        self._causal = encoder.causal
        self._punctuation = punctuation_ids(encoder)
        self._sums = np.zeros((encoder.blocks, encoder.heads, len(TARGETS)))
        self._texts = np.zeros(len(TARGETS))

    def update(self, gradients: Gradients) -> None:
        """Take one text's gradients in."""
        roles = roles_of(gradients.tokens, self._punctuation, causal=self._causal)
        size = len(gradients.tokens.ids)
        # The loss has a gradient for every weight, but a decoder has no weights for what comes later.
        seen = np.tri(size) if self._causal else np.ones((size, size))
        only = roles.punctuation & ~roles.separators
        cells = np.stack([seen * columns for columns in (roles.separators, only, ~(roles.separators | only))], -1)
        counts = cells.sum((0, 1))
        chosen = torch.from_numpy(cells.reshape(size * size, -1) / np.maximum(counts, 1)).float()
        self._sums += (gradients.weights.abs().flatten(2) @ chosen).double().numpy()
        self._texts += counts > 0

    def table(self) -> pd.DataFrame:
        """`layer,head,target,value`, blocks and heads counted from 1; NaN where no text has such a target."""
        value = np.divide(self._sums, self._texts, out=np.full_like(self._sums, np.nan), where=self._texts > 0)
        block, head, at = (axis.ravel() for axis in np.indices(value.shape))
        columns = (block + 1, head + 1, np.array(TARGETS, object)[at], value.ravel())
        return pd.DataFrame(dict(zip(GRADIENTS, columns, strict=True)))


def measure_gradients(
    loss: OwnLoss, encoder: Encoder, texts: Iterable[Text], *, limit: int | None = None, total: int | None = None
) -> tuple[pd.DataFrame, Counter[str]]:
    """The table of gradients over all texts, and what was left out; texts are cut as `watch` cuts them.

    Args:
        loss: of the model with its head.
        encoder: the same model, for its tokens.
        texts: on which the loss is taken.
        limit: the most tokens of a text, where less than the model takes.
        total: how many texts there are, for the progress bar.
    """
    meter = GradientMeter(encoder)
    skipped: Counter[str] = Counter()
    with progress(f"gradients of {encoder.name}", total) as advance:
        for text in texts:
            kept = fit(encoder, text, limit)
            advance()
            if len(encoder.tokenize(kept).ids) > encoder.limit:
                skipped[UNCUT] += 1
                continue
            found = loss(kept)
            if found is None:
                skipped[UNPREDICTED] += 1
            else:
                meter.update(found)
    return meter.table(), skipped


@analysis(
    title="What heads look at",
    question="Where does the attention of every head go, and how broadly is it spread?",
    method=(
        "For every head we take the share of attention that goes to the token itself, its neighbours, the first token, "
        "separators and punctuation, and the entropy of its rows: means over a text's tokens and then over texts, "
        "beside the value of uniform attention; intervals resample texts. Maps are sorted into the five types of "
        "Kovaleva et al. (2019) by a rule: a part counts where it holds at least 0.4 of what uniform attention would "
        "not give it."
    ),
    cites=("Clark et al. 2019", "Kovaleva et al. 2019"),
    reads=Texts(),
    version=2,  # bootstrap weights follow from a text's id, no longer from the order of texts
    tables={
        "surface": Table("One row per head and measure, beside its value under uniform attention.", SURFACE),
        "patterns": Table("One row per head and type of map: the share of texts with such a map.", SHARE_OF_TEXTS),
        "gradients": Table("One row per head and kind of token attended to.", GRADIENTS, optional=True),
    },
    chapter="heads",
    report={"segments": 1000},
    example="lamina attention minilm --corpus ewt --split dev --out results/attention",
)
def attention(
    encoder: Encoder,
    corpus: Corpus,
    *,
    pairs: Annotated[
        bool, Setting("Show two consecutive texts of a document as two segments, as in the paper.")
    ] = False,
    length: Annotated[
        int | None,
        Setting("Most tokens of a text or pair; 128 for pairs, otherwise the model's own limit by default.", min=8),
    ] = None,
    segments: Annotated[
        int | None, Setting("Draw this many texts or pairs; 1000 for pairs, otherwise all by default.", min=1)
    ] = None,
    gradients: Annotated[bool, Setting("Add the gradient of the model's own loss with respect to attention.")] = False,
    seed: Seed = 0,
    samples: Samples = 1000,
) -> Watching:
    """Where every head's attention goes: neighbours, the first token, separators, punctuation; how broad it is.

    `surface` has each measure of each head with its interval and its value under uniform attention, `patterns` the
    share of texts on which a head's map is of each type, and `gradients` (where asked for) the mean magnitude of the
    gradient of the model's own loss with respect to attention to each kind of token. Blocks and heads count from 1.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> result = attention(TinyEncoder(), [["Dogs", "bark", "."], ["Cats", "do", "not", "."]], samples=100)
        >>> table = result.tables["surface"]
        >>> table[table["measure"] == "to_self"][["layer", "head"]].values.tolist()
        [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    refuse_without_maps(encoder)
    shown, limit = _shown(corpus, pairs=pairs, length=length, segments=segments, seed=seed)
    # A model without a head is refused before the work, not after it.
    loss = OwnLoss(encoder, seed=seed) if gradients else None
    surface, patterns = SurfaceMeter(encoder, samples=samples, seed=seed), PatternMeter(encoder)
    skipped = yield Watch(encoder, shown, [surface, patterns], limit=limit, total=len(shown))
    tables = {"surface": surface.table(), "patterns": patterns.table()}
    skipped[UNTOLD] = patterns.untold
    said = {"first_token": first_token(encoder)}
    if loss is not None:
        tables["gradients"], without = measure_gradients(loss, encoder, shown, limit=limit, total=len(shown))
        skipped += without
        said["loss"] = HOW[loss.kind]
    return Tables(tables, _named(skipped, limit), model=said, data={"shown": shown.describe()})


@attention.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    about = result.provenance
    yield f"{about.corpus.get('shown', 'texts')}; first token: {about.model.get('first_token', 'unknown')}"


_SINKS = {"to_first": "the first token", "to_separator": "separators", "to_punctuation": "full stops and commas"}
_PLACES = {"to_previous": "the previous token", "to_next": "the next token", "to_self": "the token itself"}
"""Measure -> in words."""


@attention.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The strongest sink, the clearest positional head, and the two ends of how broadly heads look."""
    table = result.tables.get("surface")
    if table is None or table.empty:
        return
    measured = table.dropna(subset=["value", "low", "high", "baseline"])
    # A layer's interval is the mean of its heads': wider than its own, since heads see the same texts.
    columns = ["value", "low", "high", "baseline"]
    layers = measured.groupby(["measure", "layer"], sort=False, as_index=False)[columns].mean()
    for row in _most(layers, _SINKS):
        found = row.low > row.baseline
        claim = f"The strongest sink is at layer {row.layer}" if found else "No layer is a sink"
        heads = "its heads give" if found else f"at most, the heads of layer {row.layer} give"
        yield finding(
            f"{claim}: {heads} {{number}} of their attention to {_SINKS[row.measure]}; uniform attention would give "
            "{against}.",
            row.value, row.low, row.high, row.baseline,
        )  # fmt: skip
    for row in _most(measured, _PLACES):
        yield finding(
            f"The clearest positional head is {row.layer}-{row.head}: it gives {{number}} of its attention to "
            f"{_PLACES[row.measure]}; uniform attention would give {{against}}.",
            row.value, row.low, row.high, row.baseline,
        )  # fmt: skip
    entropies = measured[measured["measure"] == "entropy"]
    for ends, called in ((entropies.nsmallest(1, "value"), "narrowest"), (entropies.nlargest(1, "value"), "broadest")):
        for row in rows_of(ends):
            yield finding(
                f"The {called} head is {row.layer}-{row.head}: entropy {{number}} nats; uniform attention has "
                "{against}.",
                row.value, row.low, row.high, row.baseline,
            )  # fmt: skip


def _most(table: pd.DataFrame, measures: Collection[str]) -> Iterable[Any]:
    """The row that leads uniform attention by most; of equals, that of the first measure."""
    own = pd.concat([table[table["measure"] == measure] for measure in measures])
    # In a decoder the first token stands in for separators: the two differ by rounding only.
    return rows_of(own.assign(lead=(own["low"] - own["baseline"]).round(6)).nlargest(1, "lead"))


@attention.costs
def _cost(
    estimator: Estimator,
    encoder: Encoder,
    corpus: Corpus,
    *,
    pairs: bool,
    length: int | None,
    segments: int | None,
    gradients: bool,
    seed: int,
    **_: object,
) -> Cost:
    """Of the texts or pairs that are shown; gradients are a second pass."""
    shown, limit = _shown(corpus, pairs=pairs, length=length, segments=segments, seed=seed)
    texts, tokens = estimator.count(fit(encoder, text, limit) for text in shown)
    read = replace(corpus, source=lambda: _apart(shown), limit=None)
    return replace(estimator.trial(passes=1 + gradients, data=read), texts=texts, tokens=tokens)


def _apart(texts: Iterable[Text]) -> Iterator[Text]:
    """The texts of pairs one by one, as they were before they were paired."""
    for text in texts:
        for number, (start, end) in enumerate((segment.start, segment.end) for segment in text.segments):
            yield Text(f"{text.id}/{number}", text.words[start:end], doc=text.doc)


def _shown(
    corpus: Corpus, *, pairs: bool, length: int | None, segments: int | None, seed: int
) -> tuple[Shown, int | None]:
    """The texts or pairs that are looked at, and the most tokens of each; None for the model's own limit."""
    most = SEGMENTS if pairs and segments is None else segments
    return Shown(corpus, pairs, most, seed), LENGTH if pairs and length is None else length


def _named(skipped: Counter[str], limit: int | None) -> dict[str, int]:
    """The counts, naming the limit where it was not the model's own."""
    cut = CUT if limit is None else f"texts longer than {limit} tokens, cut at the last whole word"
    return {cut if reason == CUT else reason: count for reason, count in skipped.items()}

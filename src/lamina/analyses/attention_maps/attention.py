"""What every head looks at: its surface behaviour, the patterns of its maps, and whether the loss hangs on them."""

from __future__ import annotations

from collections import Counter

from lamina.analyses.attention_maps.gradients import measure_gradients
from lamina.analyses.attention_maps.pairs import LENGTH, SEGMENTS, Shown
from lamina.analyses.attention_maps.patterns import UNTOLD, PatternMeter
from lamina.analyses.attention_maps.roles import first_token
from lamina.analyses.attention_maps.surface import SurfaceMeter
from lamina.analyses.attention_maps.watching import CUT, refuse_without_maps, watch
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.encoders.gradients import HOW, OwnLoss
from lamina.errors import InputError
from lamina.results import Provenance, Result

SHORTEST = 8
"""Tokens: room for special tokens and a few words."""


def attention(
    encoder: Encoder,
    corpus: Corpus,
    *,
    pairs: bool = False,
    length: int | None = None,
    segments: int | None = None,
    gradients: bool = False,
    seed: int = 0,
    samples: int = 1000,
) -> Result:
    """Where the attention of every head goes, after Clark et al. (2019) and Kovaleva et al. (2019).

    Tables: `surface` (each measure of each head with its interval and its value under uniform attention),
    `patterns` (the share of texts on which a head's map is of each type) and, where asked for, `gradients` (the mean
    magnitude of the gradient of the model's own loss with respect to attention to each kind of token). Blocks and
    heads count from 1.

    Args:
        encoder: whose heads.
        corpus: on which texts.
        pairs: show two consecutive texts of a document as two segments, as in the paper.
        length: the most tokens of a text or pair, special tokens included; 128 for pairs, else what the model takes.
        segments: the most texts or pairs, drawn at random; 1000 for pairs, else all.
        gradients: take the gradients too.
        seed: of the draw, the bootstrap and the masks.
        samples: bootstrap samples.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> from lamina.testing import TinyEncoder
        >>> corpus = corpus_from([["Dogs", "bark", "."], ["Cats", "do", "not", "."]], name="pets")
        >>> table = attention(TinyEncoder(), corpus, samples=100).tables["surface"]
        >>> table[table["measure"] == "to_self"][["layer", "head"]].values.tolist()
        [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    refuse_without_maps(encoder)
    shown, limit = shown_of(corpus, pairs=pairs, length=length, segments=segments, seed=seed)
    # A model without a head is refused before the work, not after it.
    loss = OwnLoss(encoder, seed=seed) if gradients else None
    surface, patterns = SurfaceMeter(encoder, samples=samples, seed=seed), PatternMeter(encoder)
    skipped = watch(encoder, shown, [surface, patterns], limit=limit, total=len(shown))
    tables = {"surface": surface.table(), "patterns": patterns.table()}
    skipped[UNTOLD] = patterns.untold
    said = {"first_token": first_token(encoder)}
    if loss is not None:
        tables["gradients"], without = measure_gradients(loss, encoder, shown, limit=limit, total=len(shown))
        skipped += without
        said["loss"] = HOW[loss.kind]
    parameters = {
        "pairs": pairs,
        "length": length,
        "segments": segments,
        "gradients": gradients,
        "seed": seed,
        "samples": samples,
    }
    about = corpus.describe() | {"shown": shown.describe()}
    return Result(
        "attention",
        tables,
        Provenance(encoder.describe() | said, about, parameters, (seed,), _named(skipped, limit)),
    )


def shown_of(
    corpus: Corpus, *, pairs: bool, length: int | None, segments: int | None, seed: int
) -> tuple[Shown, int | None]:
    """The texts or pairs that are looked at, and the most tokens of each; None for what the model takes."""
    if length is not None and length < SHORTEST:
        raise InputError(f"a length of {length} tokens leaves no room for words; take at least {SHORTEST}")
    if segments is not None and segments < 1:
        raise InputError(f"at least 1 text or pair has to be shown, not {segments}")
    most = SEGMENTS if pairs and segments is None else segments
    return Shown(corpus, pairs, most, seed), LENGTH if pairs and length is None else length


def _named(skipped: Counter[str], limit: int | None) -> dict[str, int]:
    """The counts, naming the limit where it was not the model's own."""
    cut = CUT if limit is None else f"texts longer than {limit} tokens, cut at the last whole word"
    return {cut if reason == CUT else reason: count for reason, count in skipped.items() if count}

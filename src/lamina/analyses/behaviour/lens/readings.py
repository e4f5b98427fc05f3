"""Every layer through the head: the tuned lens, trained once; the scored positions, and the predictions there."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.corpora.corpus import fingerprint_of
from lamina.errors import CorpusError, DamagedError, InputError
from lamina.files.checking import load_tensors, save_tensors
from lamina.framework.run import run_folder
from lamina.models.language.language_model import (
    LanguageModel,
    TokenQueries,
    WrittenPassage,
    cut_passages,
    queried_tokens,
    query_every_token,
)
from lamina.models.language.lens import layer_states, lens_logits
from lamina.models.running.batching import InputRow
from lamina.models.running.tokens import TokenizedText
from lamina.probes.translators import TranslatorExamples, Translators, fit_translators
from lamina.progress import progress, say
from lamina.stats.intervals import column_intervals, share_interval
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.probes.translators import Translators

FORMAT = 1
"""Of saved translators; raised when the same texts would give others."""
SELECTION = 400
"""Positions by which translators are chosen."""
_STATES = {"cpu": 2**30, "cuda": 2**34}
"""Bytes of states that are learned from, at most."""


class TranslatorTexts(NamedTuple):
    """What translators learn from."""

    learn: Sequence[Text]
    select: Sequence[Text]
    """Of other documents: penalties and the number of steps are chosen by them."""
    fingerprint: str


def tuned_lens(
    model: LanguageModel, texts: TranslatorTexts, *, positions: int, steps: int, seed: int, runtime: Runtime
) -> Translators:
    """The translators of a model on a corpus; those of an earlier run with the same settings are used again."""
    about = {"format": FORMAT, "positions": positions, "selection": SELECTION, "steps": steps, "seed": seed}
    key = fingerprint_of("translators", model.fingerprint, texts.fingerprint, about)
    with run_folder(key, runtime.store) as folder:
        path = folder / "translators.safetensors"
        try:
            tensors, head = load_tensors(path)
        except OSError:
            pass
        except DamagedError as error:
            say(f"{error}; translators are trained again")
        else:
            say(f"translators of {model.name} were trained before")
            return Translators.of(tensors, tuple(head["chosen"]))
        learn = _examples(model, texts.learn, positions, seed)
        select = _examples(model, texts.select, SELECTION, seed)
        translators = fit_translators(model, learn, select, steps=steps, seed=seed)
        save_tensors(path, translators.tensors(), {**about, "chosen": translators.chosen})
    return translators


def _examples(model: LanguageModel, texts: Sequence[Text], positions: int, seed: int) -> TranslatorExamples:
    encoder = model.encoder
    room = _STATES["cpu" if encoder.device.type == "cpu" else "cuda"] // (4 * (encoder.layers + 1) * encoder.width)
    drawn = draw_positions(model, texts, min(positions, max(1, room)), seed=seed)
    if not len(drawn):
        raise CorpusError(f"{model.name} has no tokens for any of the training texts; translators cannot be trained")
    states: Any = torch.empty(len(drawn), encoder.layers + 1, encoder.width, device=encoder.device)
    with progress(f"states of {model.name} to learn from", len(drawn)) as advance:
        for numbers, some in layer_states(model, drawn.wanted, raw=True):
            states[torch.from_numpy(numbers).to(states.device)] = some
            advance(len(numbers))
    return TranslatorExamples(states[:, :-1], states[:, -1])


Lens = Literal["plain", "tuned"]
_LOGITS = {"cpu": 2**23, "cuda": 2**28}
"""Numbers that the head makes at a time, on a CPU and on a GPU."""


class LensReadings(NamedTuple):
    """Predictions of one lens, [position, layer]."""

    kl: np.ndarray
    """KL(final || lens), in nats."""
    logprob: np.ndarray
    """Of the actual token."""
    rank: np.ndarray
    """Of that token; 1 is the most likely one."""
    top: np.ndarray
    """Id of the most likely token."""
    target: np.ndarray
    """[position] Id of the actual token."""

    @property
    def measures(self) -> dict[str, np.ndarray]:
        """Measure -> [position, layer]."""
        return {
            "kl": self.kl,
            "accuracy": (self.top == self.target[:, None]).astype(float),
            "probability": np.exp(self.logprob),
            "agreement": (self.top == self.top[:, -1:]).astype(float),
        }

    @property
    def reached(self) -> np.ndarray:
        """[position] The first layer from which on the most likely token stays the final one.

        Example:
            >>> top = np.array([[5, 7, 5, 7, 7], [1, 2, 3, 4, 9], [8, 8, 8, 8, 8]])
            >>> LensReadings(*[np.zeros(top.shape)] * 3, top, top[:, 0]).reached.tolist()
            [3, 4, 0]
        """
        differs = self.top != self.top[:, -1:]
        behind = np.argmax(differs[:, ::-1], axis=1)
        return np.where(differs.any(1), differs.shape[1] - behind, 0)


def _empty(targets: np.ndarray, layers: int) -> LensReadings:
    """Zeros, to fill in."""
    shape = (len(targets), layers)
    return LensReadings(np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int32), np.zeros(shape, np.int32), targets)


class _FinalDistribution(NamedTuple):
    """The final distribution at some positions, which every layer is compared with."""

    numbers: np.ndarray
    """Of the positions."""
    there: Tensor
    """Ids of the actual tokens."""
    logprobs: Tensor
    """[position, token]"""
    weights: Tensor
    """[position, token] Probabilities."""
    negentropy: Tensor

    @classmethod
    def of(cls, logits: Tensor, numbers: np.ndarray, targets: np.ndarray) -> _FinalDistribution:
        logprobs = logits.log_softmax(-1)
        weights = logprobs.exp()
        there = torch.from_numpy(targets[numbers]).to(logits.device)
        return cls(numbers, there, logprobs, weights, (weights * logprobs).sum(-1))

    def note(self, readings: LensReadings, layer: int, logits: Tensor) -> None:
        """Compare logits [position, token] with it."""
        actual, total = logits.gather(1, self.there[:, None]), logits.logsumexp(-1)
        # Without a second table of log-probabilities: the sum over p (log p - logits), and what normalises them.
        kl = self.negentropy - (self.weights * logits).sum(-1) + total
        readings.kl[self.numbers, layer] = kl.clamp_min(0).double().cpu().numpy()
        readings.logprob[self.numbers, layer] = (actual[:, 0] - total).double().cpu().numpy()
        readings.rank[self.numbers, layer] = (1 + (logits > actual).sum(-1)).cpu().numpy()
        readings.top[self.numbers, layer] = logits.argmax(-1).cpu().numpy()


def read_layers(
    model: LanguageModel,
    wanted: TokenQueries,
    translators: Translators | None = None,
    fixed: Mapping[str, Tensor] | None = None,
) -> tuple[dict[Lens, LensReadings], dict[str, LensReadings]]:
    """Every layer through the plain lens and, with translators, the tuned one; at the scored positions.

    Args:
        model: with its head.
        wanted: the positions and their actual tokens.
        translators: of the tuned lens; without them, the plain lens alone.
        fixed: name -> logarithms of a distribution over tokens that is the same everywhere; each is read like a layer.
    """
    layers, fixed = model.encoder.layers, fixed or {}
    lenses: tuple[Lens, ...] = ("plain",) if translators is None else ("plain", "tuned")
    by_lens: dict[Lens, LensReadings] = {lens: _empty(wanted.target, layers) for lens in lenses}
    others = {name: _empty(wanted.target, 1) for name in fixed}
    most = most_at_once(model)
    with torch.no_grad(), progress(f"layers of {model.name} through its head", len(wanted.target)) as advance:
        for numbers, states in layer_states(model, wanted):
            for some, part in zip(np.split(numbers, range(most, len(numbers), most)), states.split(most), strict=True):
                final = _FinalDistribution.of(model.logits(part[:, -1]), some, wanted.target)
                for lens, readings in by_lens.items():
                    for layer in range(layers - 1):
                        final.note(readings, layer, logits_of_layer(model, part[:, layer], layer, lens, translators))
                    final.note(readings, layers - 1, final.logprobs)
                for name, logprobs in fixed.items():
                    final.note(others[name], 0, logprobs.to(final.logprobs)[None].expand_as(final.logprobs))
                advance(len(some))
    return by_lens, others


def logits_of_layer(
    model: LanguageModel, states: Tensor, layer: int, lens: Lens, translators: Translators | None
) -> Tensor:
    """The logits of one layer's states through one lens."""
    if lens == "tuned" and translators is not None:
        states = translators(states, layer)
    return lens_logits(model, states, layer)


def most_at_once(model: LanguageModel) -> int:
    """Positions whose logits are in memory together."""
    return max(1, _LOGITS["cpu" if model.encoder.device.type == "cpu" else "cuda"] // model.vocabulary)


def intervals_of(
    value: np.ndarray, samples: np.ndarray, units: int, *, exact: bool
) -> list[tuple[float, float, float]]:
    """Mean, low and high of each column, 95 %, given its resampled means [sample, column].

    With `exact`, shares of 0 and 1 get the exact interval of `units` units: resampling equal units shows no spread.

    Example:
        >>> intervals_of(np.array([1.0]), np.ones((9, 1)), 20, exact=True)[0][2]
        1.0
    """
    rows = []
    for mean, low, high in zip(value.tolist(), *(ends.tolist() for ends in column_intervals(samples)), strict=True):
        if exact and low == high and mean in (0, 1):
            low, high = share_interval(round(mean) * units, units)
        rows.append((mean, low, high))
    return rows


# The scored positions: every next token of a causal model, masked words of a masked one.

MASKED_SHARE = 0.15
"""Share of a text's words that are masked, one at a time."""

PER_TEXT = 10
"""Positions per text, where there are enough texts: tokens of one text are alike."""
_AT_ONCE = 64
"""Texts that are cut into tokens together."""


class LensPositions(NamedTuple):
    """Scored tokens, and their texts."""

    wanted: TokenQueries
    text: np.ndarray
    """[token] The number of its text."""
    texts: tuple[Text, ...]

    def __len__(self) -> int:
        return len(self.text)


def draw_positions(model: LanguageModel, texts: Iterable[Text], most: int, *, seed: int) -> LensPositions:
    """About `most` positions at most, of texts in an order drawn by hash of their ids.

    A causal model predicts tokens of a text from those before them. In a masked model a share of the text's words is
    masked, one word with all its tokens at a time. Which ones follows from the text's id.
    """
    drawn = sorted(texts, key=lambda text: _hash(seed, text.id))
    chosen: list[Text] = []
    parts: list[LensRow] = []
    owners: list[int] = []
    of_each = max(PER_TEXT, math.ceil(most / max(1, len(drawn))))
    # Texts are cut only until there are enough.
    for start in range(0, len(drawn), _AT_ONCE):
        if len(owners) >= most:
            break
        some = drawn[start : start + _AT_ONCE]
        for text, cut in zip(some, cut_passages(model, [WrittenPassage.of(text) for text in some]), strict=True):
            if len(owners) >= most:
                break
            drawn_parts = _some_of(list(_parts_of(model, text, cut, seed)), of_each, _rng(seed, text.id))
            owners += [len(chosen)] * sum(len(part.places) for part in drawn_parts)
            parts += drawn_parts
            chosen.append(text)
    return LensPositions(wanted_of(parts), np.array(owners, np.int64), tuple(chosen))


def _some_of(parts: Sequence[LensRow], most: int, rng: np.random.Generator) -> list[LensRow]:
    """At most `most` positions of a text."""
    if not parts:
        # None of its masked words has a token of its own.
        return []
    sizes = [len(part.places) for part in parts]
    chosen = np.zeros(sum(sizes), bool)
    chosen[rng.permutation(len(chosen))[:most]] = True
    by_part = zip(parts, np.split(chosen, np.cumsum(sizes)[:-1]), strict=True)
    return [LensRow(part.row, part.places[mask], part.targets[mask]) for part, mask in by_part if mask.any()]


class LensRow(NamedTuple):
    """One row of tokens, and the positions that are scored in it."""

    row: InputRow
    places: np.ndarray
    """The tokens whose states the head reads ..."""
    targets: np.ndarray
    """... and the ids of the tokens to predict."""


def wanted_of(parts: Sequence[LensRow]) -> TokenQueries:
    """Several rows with their scored positions, as one."""
    owners = np.repeat(np.arange(len(parts)), [len(part.places) for part in parts])
    places, targets = (
        np.concatenate([np.zeros(0, np.int64), *arrays]).astype(np.int64)
        for arrays in ([part.places for part in parts], [part.targets for part in parts])
    )
    return TokenQueries([part.row for part in parts], owners, places, targets)


def _parts_of(model: LanguageModel, text: Text, cut: TokenizedText, seed: int) -> Iterator[LensRow]:
    rows = model.encoder.rows(0, cut)
    if model.kind == "causal":
        for row in rows:
            tokens = queried_tokens(row, cut)
            yield LensRow(row, tokens - 1, row.ids[tokens])
        return
    for word in words_to_mask(text, seed).tolist():
        for row in rows:
            tokens = queried_tokens(row, cut)
            inside = row.words == word
            places = tokens[inside[tokens]]
            # A word of a long text is in several windows, and is scored where it has most context.
            if len(places):
                ids = np.where(inside, model.mask or 0, row.ids)
                yield LensRow(row._replace(ids=ids), places, row.ids[places])


def words_to_mask(text: Text, seed: int) -> np.ndarray:
    """The masked words of a text, by number, in the order drawn: a share of them, at least one.

    Example:
        >>> text = Text("s1", tuple("the dogs bark at the cats that sleep on the mat".split()))
        >>> len(words_to_mask(text, 0)), words_to_mask(text, 0).tolist() == words_to_mask(text, 0).tolist()
        (2, True)
    """
    words = len(text.words)
    return _rng(seed, text.id).permutation(words)[: max(1, round(MASKED_SHARE * words))]


def _rng(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(_hash(seed, name)[:8], "big"))


def _hash(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


# A typed text through the lens: what every layer would predict in the place of every token.

UNKNOWN = -1
"""In place of the id of the token after the text, which does not exist."""


def token_table(
    model: LanguageModel, text: str, translators: Translators | None, top: int
) -> Iterator[tuple[Any, ...]]:
    """One row per token, layer, lens and rank: token, index, layer, lens, rank, token, probability, probability of the
    token itself, KL to the final distribution.

    A causal model predicts each token from those before it, and the one after the text (`token` is empty there). In a
    masked model each token is masked in turn.
    """
    wanted = every_token(model, text)
    names = _token_names(model, wanted.target)
    lenses: tuple[Lens, ...] = ("plain",) if translators is None else ("plain", "tuned")
    rows: list[tuple[int, tuple[Any, ...]]] = []
    for numbers, states in layer_states(model, wanted):
        most = most_at_once(model)
        for some, part in zip(np.split(numbers, range(most, len(numbers), most)), states.split(most), strict=True):
            for layer in range(part.shape[1]):
                for lens in lenses:
                    top_rows = _top_pieces(model, part, layer, lens, translators, wanted.target[some], top)
                    for place, number in enumerate(some.tolist()):
                        rows += [(number, (names[number], number, layer, lens, *row)) for row in top_rows[place]]
    yield from (row for _, row in sorted(rows, key=lambda numbered: numbered[0]))


def every_token(model: LanguageModel, text: str) -> TokenQueries:
    """The tokens of a typed text, all of them scored; an InputError where it cannot be read."""
    if not text.strip():
        raise InputError("the text is empty; give some words in quotes, as in --text 'Dogs bark at the moon'")
    cut = cut_passages(model, [WrittenPassage.typed("text", text)])[0]
    size, limit = len(cut.tokens.ids), model.encoder.limit
    if size > limit:
        raise InputError(
            f"the text has {size:,} tokens, {model.name} reads {limit:,} at once; give a shorter one for the grid of "
            "tokens and layers"
        )
    if size == cut.head + cut.tail:
        raise InputError(f"{model.name} has no tokens for {text!r:.60}; give another text")
    rows, wanted = query_every_token(model, [cut])
    if model.kind == "masked":
        return wanted
    # The last token predicts what comes after the text.
    after = np.array([size - 1]), np.array([UNKNOWN])
    places, targets = (np.concatenate(parts) for parts in zip((wanted.place, wanted.target), after, strict=True))
    return TokenQueries(rows[0], np.zeros(len(places), np.int64), places, targets)


def _top_pieces(
    model: LanguageModel,
    states: torch.Tensor,
    layer: int,
    lens: Lens,
    translators: Translators | None,
    targets: np.ndarray,
    top: int,
) -> list[list[tuple[Any, ...]]]:
    """[token] Rank, token, probability, probability of the actual token, KL."""
    with torch.no_grad():
        logprobs = logits_of_layer(model, states[:, layer], layer, lens, translators).log_softmax(-1)
        final = model.logits(states[:, -1]).log_softmax(-1)
        kl = (final.exp() * (final - logprobs)).sum(-1).clamp_min(0).tolist()
        best = logprobs.topk(min(top, logprobs.shape[-1]), dim=-1)
        there = torch.from_numpy(np.maximum(targets, 0)).to(logprobs.device)
        actual = logprobs.gather(1, there[:, None])[:, 0].exp().tolist()
    rows = []
    for token, (ids, values) in enumerate(zip(best.indices, best.values.exp().tolist(), strict=True)):
        probability = float("nan") if targets[token] == UNKNOWN else actual[token]
        pieces = _token_names(model, ids.cpu().numpy())
        rows.append(
            [
                (rank, piece, value, probability, kl[token])
                for rank, (piece, value) in enumerate(zip(pieces, values, strict=True), start=1)
            ]
        )
    return rows


def _token_names(model: LanguageModel, ids: np.ndarray) -> list[str]:
    """Tokens as they are read, with the leading space if the vocabulary has it; empty for the one after the text."""
    named = model.encoder.token_names(np.maximum(ids, 0).tolist())
    return ["" if id == UNKNOWN else name for id, name in zip(ids.tolist(), named, strict=True)]

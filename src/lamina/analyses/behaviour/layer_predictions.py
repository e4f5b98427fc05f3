"""Every layer through the head: the tuned lens; the scored positions, pairs and clozes; and the predictions there."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.corpora.corpus import fingerprint_of, sample_of_each
from lamina.corpora.suites.cloze import Clozes, Completion, Diagnostics, Negation, Relations, RolePair, read_cloze
from lamina.corpora.suites.minimal_pairs import MinimalPair, read_pairs
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
from lamina.models.language.slots import Gap
from lamina.models.running.batching import InputRow
from lamina.models.running.tokens import TokenizedText
from lamina.probes.translators import TranslatorExamples, Translators, fit_translators
from lamina.progress import progress, say
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import column_intervals, share_interval
from lamina.stats.units import weights_of
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.models.language.language_model import LanguageModel
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


ALL = "all"
"""In place of a paradigm or part: the mean over them."""
SUITE_TEST = ("difference", "diff_low", "diff_high", "p_adjusted", "units", "needed")
"""Columns of a test against chance, or against the first layer."""
_ANSWER = 1
"""The part of a filled slot that is the answer."""


class LensCloze(NamedTuple):
    """A text with a slot, and the answer that belongs into it."""

    item: str
    part: str
    slot: Gap
    answer: str


@dataclass(frozen=True)
class LensSuite:
    """The items of a suite that are read: pairs, or clozes."""

    name: str
    fingerprint: str
    pairs: tuple[MinimalPair, ...] = ()
    clozes: tuple[LensCloze, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return 2 * len(self.pairs) + len(self.clozes)

    def describe(self) -> dict[str, Any]:
        """Its entry in provenance."""
        return {"name": self.name, "fingerprint": self.fingerprint, "items": len(self.pairs) + len(self.clozes)}


def read_lens_suite(name: str, items: int, seed: int) -> LensSuite:
    """A suite of minimal pairs or of clozes: `items` of every paradigm or part, drawn at random."""
    try:
        pairs = read_pairs(name, skip_equal=True).sample(items, seed)
    except InputError as no_pairs:
        try:
            other = read_cloze(name)
        except InputError as no_clozes:
            raise InputError(
                f"--suite {name} is neither a suite of minimal pairs ({no_pairs}) nor one of clozes ({no_clozes})"
            ) from None
        every = list(_clozes_of(other))
        drawn = sample_of_each(every, items, lambda cloze: cloze.part, lambda cloze: cloze.item, seed)
        clozes = tuple(every[number] for number in drawn)
        left_out = dict(other.left_out)
        if len(clozes) < len(every):
            left_out[f"clozes not drawn: {items:,} of a part were"] = len(every) - len(clozes)
        return LensSuite(other.name, other.fingerprint, clozes=clozes, left_out=left_out)
    return LensSuite(pairs.name, pairs.fingerprint, pairs.pairs, left_out=pairs.left_out)


def _clozes_of(suite: Clozes | Diagnostics | Relations) -> Iterator[LensCloze]:
    """The slots of a suite with one answer each; of a relation, by its first pattern that ends with the object."""
    if isinstance(suite, Clozes):
        for item in suite.items:
            yield LensCloze(item.item, item.part, Gap(item.item, item.before, item.after), item.answers[0])
    elif isinstance(suite, Diagnostics):
        for part, items in suite.parts.items():
            for item in items:
                yield from _diagnostic(part, item)
    else:
        yield from _facts(suite)


def _diagnostic(part: str, item: Completion | RolePair | Negation) -> Iterator[LensCloze]:
    def cloze(condition: str, context: str, answer: str) -> LensCloze:
        name = f"{part} {condition}".strip()
        key = f"{name}/{item.id}"
        return LensCloze(key, name, Gap(key, f"{context.rstrip()} ", "."), answer)

    if isinstance(item, Completion):
        yield cloze("", item.context, item.expected)
    elif isinstance(item, RolePair):
        yield cloze("", item.good, item.target)
    else:
        yield cloze("affirmative", item.context("affirmative", item.true_affirmative), item.true_affirmative)
        yield cloze("negative", item.context("negative", item.true_negative), item.true_negative)


def _facts(suite: Relations) -> Iterator[LensCloze]:
    for relation in suite.relations:
        # A causal model sees the subject only if the object comes last.
        patterns = [pattern for pattern in relation.patterns if pattern.ends]
        for fact in relation.facts:
            pattern = next((candidate for candidate in patterns if candidate.fits(fact.object)), None)
            if pattern is not None:
                key = f"{relation.id}/{fact.id}"
                yield LensCloze(key, relation.id, Gap(key, *pattern.of(fact.subject)), fact.object)


def suite_tables(
    model: LanguageModel, suite: LensSuite, translators: Translators | None, *, samples: int, seed: int
) -> tuple[dict[str, list[tuple[Any, ...]]], dict[str, int]]:
    """The rows of `pairs` or of `cloze`, and what was left out."""
    left_out = {f"{suite.name}: {why}": count for why, count in suite.left_out.items()}
    if suite.pairs:
        return {"pairs": _pair_rows(model, suite.pairs, translators, samples, seed)}, left_out
    rows, unspelt = _cloze_rows(model, suite.clozes, translators, samples, seed)
    if unspelt:
        left_out[f"{suite.name}: clozes whose answer is not one token, or whose text is too long"] = unspelt
    return {"cloze": rows}, left_out


def _pair_rows(
    model: LanguageModel, pairs: Sequence[MinimalPair], translators: Translators | None, samples: int, seed: int
) -> list[tuple[Any, ...]]:
    sentences = list(dict.fromkeys(sentence for pair in pairs for sentence in (pair.good, pair.bad)))
    by_lens, owner = _sentences(model, sentences, translators)
    number = {sentence: place for place, sentence in enumerate(sentences)}
    good, bad = (np.array([number[getattr(pair, side)] for pair in pairs]) for side in ("good", "bad"))
    rows = []
    for lens, readings in by_lens.items():
        totals = np.zeros((len(sentences), readings.logprob.shape[1]))
        np.add.at(totals, owner, readings.logprob)
        # Equally likely sentences count as half right.
        right = 0.5 + 0.5 * np.sign(totals[good] - totals[bad])
        keys, groups = [pair.item for pair in pairs], [pair.paradigm for pair in pairs]
        for paradigm, by_layer in _by_group(right, keys, groups, samples, seed).items():
            tests = zip(*above(right - 0.5, groups, paradigm, most=0.5, seed=seed), strict=True)
            rows += [
                (layer, lens, paradigm, *interval, *map(float, test))
                for layer, (interval, test) in enumerate(zip(by_layer, tests, strict=True))
            ]
    return rows


def _sentences(
    model: LanguageModel, sentences: Sequence[str], translators: Translators | None
) -> tuple[dict[Lens, LensReadings], np.ndarray]:
    """What every token of the sentences is read as, and the sentence that each belongs to."""
    cuts = cut_passages(
        model, [WrittenPassage.typed(str(number), sentence) for number, sentence in enumerate(sentences)]
    )
    _, wanted = query_every_token(model, cuts)
    owner = np.repeat(np.arange(len(cuts)), [len(cut.tokens.ids) - cut.head - cut.tail for cut in cuts])
    return read_layers(model, wanted, translators)[0], owner


def _cloze_rows(
    model: LanguageModel, clozes: Sequence[LensCloze], translators: Translators | None, samples: int, seed: int
) -> tuple[list[tuple[Any, ...]], int]:
    readable, parts = [], []
    for cloze, part in zip(clozes, _answers(model, clozes), strict=True):
        if part is not None:
            readable.append(cloze)
            parts.append(part)
    if not readable:
        raise InputError(f"{model.name} has a single token for none of the answers of the suite; name another one")
    wanted: TokenQueries = wanted_of(parts)
    by_lens, _ = read_layers(model, wanted, translators)
    keys, groups = [cloze.item for cloze in readable], [cloze.part for cloze in readable]
    rows = []
    for lens, readings in by_lens.items():
        measures = {
            "probability": np.exp(readings.logprob),
            "precision_at_1": (readings.rank == 1).astype(float),
            "precision_at_10": (readings.rank <= 10).astype(float),
            "reciprocal_rank": 1 / readings.rank,
        }
        for measure, values in measures.items():
            for part, by_layer in _by_group(values, keys, groups, samples, seed).items():
                tests = zip(*above(values[:, 1:] - values[:, :1], groups, part, seed=seed), strict=True)
                # Layer 0 is what the others are compared with.
                tested = [[np.nan] * len(SUITE_TEST), *tests]
                rows += [
                    (layer, lens, part, measure, *row, *map(float, test))
                    for layer, (row, test) in enumerate(zip(by_layer, tested, strict=True))
                ]
    return rows, len(clozes) - len(readable)


def _answers(model: LanguageModel, clozes: Sequence[LensCloze]) -> Iterator[LensRow | None]:
    """The scored position of each cloze; None where its answer is not a single known token, or the text is too long."""
    unknown = model.encoder.tokenizer.unk_token_id
    for cut in cut_passages(model, [cloze.slot.filled(cloze.answer) for cloze in clozes]):
        ids, inside = cut.tokens.ids, np.flatnonzero(cut.tokens.words == _ANSWER)
        if len(inside) != 1 or len(ids) > model.encoder.limit or ids[inside[0]] == unknown:
            yield None
            continue
        targets, places = ids[inside], inside
        if model.kind == "masked":
            ids = ids.copy()
            ids[inside] = model.mask or 0
        else:
            ids, places = ids[: inside[0]], inside - 1
        whole = slice(0, len(ids))
        yield LensRow(
            InputRow(0, ids, cut.types[: len(ids)], cut.tokens.words[: len(ids)], whole, whole), places, targets
        )


def above(differences: np.ndarray, groups: Sequence[str], group: str, *, most: float = 1.0, seed: int = 0) -> Contrasts:
    """Whether each layer's mean difference, [item, layer], is above 0 in a group (`all`: the mean over groups).

    Layers are one family; of the mean over groups, an item counts one over the number of its group's items.

    Example:
        >>> ahead = np.array([[0.5, 0.5], [-0.5, 0.5], [0.5, 0.5], [-0.5, 0.5], [0.5, 0.5], [-0.5, 0.5]])
        >>> above(ahead, ["a"] * 6, "a").p.round(3).tolist()
        [0.656, 0.031]
    """
    names = list(dict.fromkeys(groups)) if group == ALL else [group]
    inside = np.array([name in names for name in groups])
    shares = np.array([1 / groups.count(name) / len(names) if name in names else 0.0 for name in groups])[inside]
    return sign_flip_family(
        differences[inside] * shares[:, None], shares, alternative="greater", bounds=(-most, most), seed=seed
    )


def _by_group(
    values: np.ndarray, keys: Sequence[str], groups: Sequence[str], samples: int, seed: int
) -> dict[str, list[tuple[float, float, float]]]:
    """Group -> mean, low and high of each layer over resampled items; `all` is the mean over groups.

    Args:
        values: [item, layer]
        keys: of the items, which are drawn within their group.
        groups: of the items.
        samples: of the bootstrap.
        seed: of the bootstrap.
    """
    drawn = np.stack([weights_of(key, samples=samples, seed=seed) for key in keys], 1).astype(float)
    sums: list[np.ndarray] = []
    intervals: dict[str, list[tuple[float, float, float]]] = {ALL: []}
    for group in dict.fromkeys(groups):
        inside = np.array([name == group for name in groups])
        weights = drawn[:, inside]
        with np.errstate(invalid="ignore"):
            # Not a number in a sample that drew no item of the group.
            sums.append(weights @ values[inside] / weights.sum(1, keepdims=True))
        intervals[group] = intervals_of(values[inside].mean(0), sums[-1], len(weights[0]), exact=_is_share(values))
    there = np.isfinite(np.stack(sums))
    with np.errstate(invalid="ignore"):
        together = np.where(there, np.stack(sums), 0).sum(0) / there.sum(0)
    mean = np.mean([[row[0] for row in rows] for group, rows in intervals.items() if group != ALL], axis=0)
    intervals[ALL] = intervals_of(mean, together, len(keys), exact=_is_share(values))
    return intervals


def _is_share(values: np.ndarray) -> bool:
    return bool(np.isin(values, (0, 0.5, 1)).all())

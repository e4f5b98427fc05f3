"""A model with its language-model head, and log-probabilities of texts under it: by token, word and region.

For causal and for masked models.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina import assets
from lamina.errors import ModelError
from lamina.models.contract import SPECIAL, TOLERANCE, Encoder, Tokens, apart
from lamina.models.running.anatomy import attention_by
from lamina.models.running.batching import InputRow, is_out_of_memory
from lamina.models.running.devices import is_spread
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import (
    class_name,
    head_fingerprint,
    head_kind,
    head_of,
    load_with_head,
    random_model,
)
from lamina.models.running.tokens import TokenizedText, token_id
from lamina.models.running.variants import with_positions_shifted
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Kind = Literal["causal", "masked"]

_KINDS: dict[str, Kind] = {"causal-LM": "causal", "masked-LM": "masked"}
_SEPARATOR = "<|endoftext|>"
"""What many vocabularies have between texts, whatever they call bos and eos."""
_TRIAL = Text("", ("The", "dog", "sees", "the", "cat"))


class LanguageModel:
    """A causal or masked language model: an encoder, and the head that makes words of its last layer.

    The head is whatever transformers runs after the body (a projection, a norm and a projection, a cap on the logits),
    with the body's weights where the two share some.
    """

    def __init__(self, encoder: HuggingFaceEncoder, whole: PreTrainedModel, kind: Kind) -> None:
        self.encoder, self.name = encoder, encoder.name
        self.kind: Kind = kind
        self.mask = token_id(encoder.tokenizer.mask_token_id) if kind == "masked" else None
        """Id of the mask token; None for a causal model."""
        if kind == "masked" and self.mask is None:
            raise ModelError(f"{self.name}: its tokenizer has no mask token, so no word can be hidden from it")
        self.start = _start(encoder) if kind == "causal" else None
        """Token put before a text so that its first word has a probability; None where the tokenizer puts one."""
        self._class, self._config = type(whole), whole.config
        self._head = head_of(whole, encoder)
        self._dtype = next((parameter.dtype for parameter in self._head.parameters()), encoder.model.dtype)
        self.vocabulary: int = self.logits(torch.zeros(1, encoder.width)).shape[-1]
        """Number of tokens that the head predicts."""

    def logits(self, states: Float[Tensor, "*places width"]) -> Float[Tensor, "*places token"]:
        """The head's logits for states of the last layer, as `Encoder.encode` gives them; on the model's device."""
        flat = states.reshape(1, -1, states.shape[-1]).to(self.encoder.device, self._dtype)
        # A gradient is wanted where translators of inner layers are trained.
        with torch.set_grad_enabled(torch.is_grad_enabled() and states.requires_grad):
            output = self._head(inputs_embeds=flat).logits[0]
        return output.float().reshape(*states.shape[:-1], -1)

    @property
    def fingerprint(self) -> str:
        """Changes whenever its answers could change: the encoder's fingerprint, and the weights of the head alone."""
        return head_fingerprint(self._head, self.encoder, self._class.__name__, self.start)

    def shifted(self, by: int) -> LanguageModel:
        """The same model whose texts begin `by` positions later (`with_positions_shifted`); its head is the same."""
        shifted = copy.copy(self)
        shifted.encoder = with_positions_shifted(self.encoder, by)
        return shifted

    def random_twin(self, seed: int = 0) -> LanguageModel:
        """The same architecture with new random weights, those of the head included."""
        return self.random_on(self.encoder.random_twin(seed), seed)

    def random_on(self, encoder: HuggingFaceEncoder, seed: int = 0) -> LanguageModel:
        """A head with new random weights on another encoder of the same shape."""
        fresh = random_model(self._class, self._config, self._dtype, seed)
        return LanguageModel(encoder, fresh, self.kind)

    def describe(self) -> dict[str, str]:
        """Its entry in provenance; `body` is the encoder's own fingerprint, by which results of both are found."""
        about = self.encoder.describe()
        head = {"fingerprint": self.fingerprint, "body": about["fingerprint"], "head": f"{self.kind} language model"}
        if self.start is not None:
            head["text_begins_with"] = str(self.encoder.tokenizer.convert_ids_to_tokens(self.start))
        return {**about, **head}


def language_model(encoder: Encoder) -> LanguageModel:
    """An encoder's model with its language-model head, loaded once; a ModelError in words where it has none.

    Example:
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> model.kind, model.vocabulary  # doctest: +SKIP
        ('causal', 49152)
    """
    if not isinstance(encoder, HuggingFaceEncoder):
        raise ModelError(f"{encoder.name} has no language-model head; {_speakers()}")
    if encoder.language_model is None:
        encoder.language_model = _with_head(encoder)
    return encoder.language_model


def has_language_model(encoder: Encoder) -> bool:
    """Whether an encoder was saved with a language-model head, or has one in memory; nothing is loaded."""
    if not isinstance(encoder, HuggingFaceEncoder) or encoder.reading.chat:
        return False
    return head_kind(encoder) in _KINDS and not _is_sentence_encoder(encoder)


def _with_head(encoder: HuggingFaceEncoder) -> LanguageModel:
    if encoder.reading.chat:
        raise ModelError(f"{encoder.name}: what a language model says is asked of plain text; leave out --chat")
    kind = _KINDS.get(head_kind(encoder) or "")
    if kind is None or _is_sentence_encoder(encoder):
        raise ModelError(f"{encoder.name} {_without_head(encoder)}; {_speakers()}")
    whole = encoder.whole
    if whole is None:
        whole = load_with_head(encoder, otherwise="name another model")
    model = LanguageModel(encoder, whole, kind)
    _check_head(model, whole)
    return model


def _without_head(encoder: HuggingFaceEncoder) -> str:
    if _is_sentence_encoder(encoder):
        return "is a sentence encoder: it has no language-model head"
    saved = class_name(encoder)
    return f"was saved as {saved}: it has no language-model head" if saved else "has no language-model head"


def _is_sentence_encoder(encoder: HuggingFaceEncoder) -> bool:
    """Whether it was saved by sentence-transformers, which keep the name of the class they began with, not its head."""
    return encoder.whole is None and (Path(str(encoder.model.name_or_path)) / "modules.json").is_file()


def _speakers() -> str:
    """Which models have a head, as the end of an error message."""
    names = ", ".join(card.name for card in assets.cards().values() if card.kind == "model" and card.speaks)
    return f"these have: {names}, and any checkpoint that was saved with its head, such as gpt2 or bert-base-uncased"


def _start(encoder: HuggingFaceEncoder) -> int | None:
    """The token that begins a text, where the tokenizer puts none: that which separates texts in training.

    Of a model tuned for chats, bos and eos may be the marks of a turn, after which no plain text follows: with
    `<|im_start|>` before them, smollm2 passes .50 of SyntaxGym's items, with `<|endoftext|>` .63.
    """
    if encoder.word_tokenizer.around[0]:
        return None
    tokenizer = encoder.tokenizer
    named = (tokenizer.bos_token, tokenizer.eos_token, _SEPARATOR, tokenizer.pad_token)
    known = tokenizer.get_vocab()
    candidates = [str(token) for token in named if token is not None and str(token) in known]
    if not candidates:
        raise ModelError(
            f"{encoder.name}: its tokenizer has no token that begins a text, so the first word has no probability"
        )
    turns = str(tokenizer.chat_template or "")
    return known[next((token for token in candidates if token not in turns), candidates[0])]


def _check_head(model: LanguageModel, whole: Any) -> None:
    """Body and head, run separately, must give the model's own logits."""
    encoder = model.encoder
    if is_spread(encoder.model) or is_spread(whole):
        return
    inputs = encoder.inputs(encoder.rows(0, encoder.word_tokenizer(_TRIAL)))
    with torch.no_grad(), attention_by(encoder.model, None):
        apart_run = model.logits(encoder.model(**inputs).last_hidden_state)
        together = whole.to(encoder.device)(**inputs).logits
    if apart(apart_run, together.float()) > TOLERANCE[encoder.model.dtype]:
        raise ModelError(
            f"{model.name} ({type(whole).__name__}): its head reads more than its last layer, so lamina cannot ask it"
        )


# Texts as they are written, and the tokens of their words and regions.


class WrittenPassage(NamedTuple):
    """A text as it is written, and the parts of it (words, regions) whose probabilities are wanted."""

    id: str
    text: str
    spans: tuple[tuple[int, int], ...]
    """First character and one past the last of each part, in order; a part may be empty."""

    @classmethod
    def of(cls, text: Text) -> WrittenPassage:
        """The words of a corpus's text as it is written; joined by spaces where the corpus does not say how.

        Example:
            >>> WrittenPassage.of(Text("s1", ("Dogs", "bark", ".")))
            WrittenPassage(id='s1', text='Dogs bark .', spans=((0, 4), (5, 9), (10, 11)))
        """
        glued = {0, *text.glued}
        return cls.regions(text.id, [word if number in glued else f" {word}" for number, word in enumerate(text.words)])

    @classmethod
    def typed(cls, id: str, sentence: str) -> WrittenPassage:
        """A sentence as it was typed; its parts are the words between white space.

        Example:
            >>> WrittenPassage.typed("s1", "Dogs bark.").spans
            ((0, 4), (5, 10))
        """
        words = sentence.split()
        starts, position = [], 0
        for word in words:
            position = sentence.index(word, position)
            starts.append(position)
            position += len(word)
        return cls(id, sentence, tuple((start, start + len(word)) for start, word in zip(starts, words, strict=True)))

    @classmethod
    def regions(cls, id: str, regions: Sequence[str]) -> WrittenPassage:
        """Parts written one after the other; the space before a part belongs to it, but is not counted in.

        Example:
            >>> WrittenPassage.regions("s1", ["The dog", "", " barks", "."]).spans
            ((0, 7), (7, 7), (8, 13), (13, 14))
        """
        ends = list(accumulate(map(len, regions)))
        spans = tuple((end - len(region.lstrip()), end) for end, region in zip(ends, regions, strict=True))
        return cls(id, "".join(regions), spans)


def cut_passages(model: LanguageModel, passages: Sequence[WrittenPassage]) -> list[TokenizedText]:
    """Passages cut into tokens by the model's tokenizer as it cuts the whole text, each token with its part.

    A token belongs to the part in which its first character that is no space lies; `SPECIAL` where that is none.
    """
    encoder = model.encoder
    before, after = encoder.word_tokenizer.around
    if model.start is not None:
        before = (model.start,)
    if model.kind == "causal":
        # What closes a text changes nothing before it.
        after = ()
    encodings = encoder.tokenizer.backend_tokenizer.encode_batch(
        [passage.text for passage in passages], add_special_tokens=False
    )
    cuts = []
    for passage, encoding in zip(passages, encodings, strict=True):
        ids = np.array([*before, *encoding.ids, *after], np.int64)
        parts = np.full(len(ids), SPECIAL, np.int32)
        parts[len(before) : len(ids) - len(after)] = parts_at(passage, [start for start, _ in encoding.offsets])
        cuts.append(TokenizedText(Tokens(ids, parts), np.zeros(len(ids), np.int8), len(before), len(after)))
    return cuts


def parts_at(passage: WrittenPassage, starts: Sequence[int]) -> np.ndarray:
    """[token] The part that each token belongs to, given the character at which it starts.

    Example:
        >>> parts_at(WrittenPassage.typed("s1", "Dogs bark."), [0, 4, 9]).tolist()
        [0, 1, 1]
    """
    text = passage.text
    of_character = np.full(len(text) + 1, SPECIAL, np.int32)
    for part, (start, stop) in enumerate(passage.spans):
        of_character[start:stop] = part
    written = np.array([not character.isspace() for character in text] + [True])
    # The next character that is no space, at or after each.
    following = np.minimum.accumulate(np.where(written, np.arange(len(text) + 1), len(text))[::-1])[::-1]
    return of_character[following[np.asarray(starts, int)]] if len(starts) else np.zeros(0, np.int32)


Masking = Literal["piece", "word"]
"""What a masked model does not see when it predicts a token: that token, or the later tokens of its word too."""

_LOGITS = {"cpu": 2**23, "cuda": 2**28}
"""Numbers that the head makes at a time, on a CPU and on a GPU."""
_TOGETHER = {"cpu": 2**17, "cuda": 2**21}
"""Tokens that are sorted by length together."""
_MOST_PASSAGES = 1024


class PassageScore(NamedTuple):
    """The log-probability of a passage, token by token; special tokens are left out."""

    id: str
    logprobs: Float[np.ndarray, " token"]
    """Natural logarithms; of a masked model each given all that is not hidden."""
    spans: np.ndarray
    """[token] The part of the passage that it belongs to; SPECIAL where that is none."""
    parts: int
    """Parts of the passage."""
    windows: int = 1
    """Overlapping windows in which it was read; more than 1 if it is longer than the model's limit."""
    unknown: int = 0
    """Tokens that are the token for what the vocabulary lacks."""

    @property
    def total(self) -> float:
        """Of the whole passage; of a masked model its pseudo-log-likelihood."""
        return float(self.logprobs.sum())

    @property
    def pieces(self) -> int:
        """Tokens of the passage."""
        return len(self.logprobs)

    @property
    def by_span(self) -> Float[np.ndarray, " part"]:
        """Sums over the tokens of each part; NaN for a part without tokens.

        Example:
            >>> PassageScore("s1", np.array([-1.0, -2.0, -0.5]), np.array([0, 0, 2]), 3).by_span.tolist()
            [-3.0, nan, -0.5]
        """
        inside = self.spans != SPECIAL
        sums = np.bincount(self.spans[inside], self.logprobs[inside], minlength=self.parts)
        sums[np.bincount(self.spans[inside], minlength=self.parts) == 0] = np.nan
        return sums


class TokenQueries(NamedTuple):
    """Tokens whose probability is queried, and the rows that the model reads for them."""

    rows: list[InputRow]
    row: np.ndarray
    """[token] The row that predicts it ..."""
    place: np.ndarray
    """[token] ... the place in that row whose state the head reads ..."""
    target: np.ndarray
    """[token] ... and the id of the token."""


def score_passages(
    model: LanguageModel, passages: Iterable[WrittenPassage], *, masking: Masking = "piece"
) -> Iterator[PassageScore]:
    """The log-probability of each passage, in the order given.

    Causal models read a passage once, after a token that begins a text. Masked models read it once for each of its
    tokens, which is hidden (Salazar et al. 2020), with `masking="word"` together with the later tokens of its word
    (Kauf & Ivanova 2023). Passages longer than the model's limit are read in overlapping windows, and each token is
    scored where it has most context.

    Example:
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> next(score_passages(model, [WrittenPassage.typed("1", "Dogs bark.")])).total  # doctest: +SKIP
        -21.6
    """
    # The passages are read as needed: a few at first, to see how long they are.
    waiting, many = iter(passages), 64
    while chunk := list(islice(waiting, many)):
        cuts = cut_passages(model, chunk)
        yield from _score_chunk(model, chunk, cuts, masking)
        tokens = max(1, sum(_cost(model, cut) for cut in cuts))
        many = min(_MOST_PASSAGES * 16, max(1, len(chunk) * _TOGETHER[_device(model)] // tokens))


def _device(model: LanguageModel) -> str:
    return "cpu" if model.encoder.device.type == "cpu" else "cuda"


def _cost(model: LanguageModel, cut: TokenizedText) -> int:
    size = len(cut.tokens.ids)
    return size if model.kind == "causal" else size * min(size, model.encoder.limit)


def _score_chunk(
    model: LanguageModel, passages: Sequence[WrittenPassage], cuts: Sequence[TokenizedText], masking: Masking
) -> Iterator[PassageScore]:
    rows, wanted = query_every_token(model, cuts, masking)
    logprobs = logprobs_of(model, wanted)
    unknown, start = token_id(model.encoder.tokenizer.unk_token_id), 0
    for passage, cut, text_rows in zip(passages, cuts, rows, strict=True):
        size = len(cut.tokens.ids) - cut.head - cut.tail
        parts = cut.tokens.words[cut.head : cut.head + size]
        yield PassageScore(
            passage.id,
            logprobs[start : start + size],
            parts,
            len(passage.spans),
            len(text_rows),
            int((cut.tokens.ids == unknown).sum()),
        )
        start += size


def query_every_token(
    model: LanguageModel, cuts: Sequence[TokenizedText], masking: Masking = "piece"
) -> tuple[list[list[InputRow]], TokenQueries]:
    """The rows of each text, and queries of all tokens that are not special, text after text."""
    rows = [model.encoder.rows(number, cut) for number, cut in enumerate(cuts)]
    return rows, _causal(rows, cuts) if model.kind == "causal" else _masked(model, rows, cuts, masking)


def queried_tokens(row: InputRow, cut: TokenizedText) -> np.ndarray:
    """The tokens of a row that are queried: those used from it that are not special, in order."""
    tokens = np.arange(row.keep.start, row.keep.stop)
    there = np.arange(row.to.start, row.to.stop)
    return tokens[(there >= cut.head) & (there < len(cut.tokens.ids) - cut.tail)]


def _causal(rows: Sequence[Sequence[InputRow]], cuts: Sequence[TokenizedText]) -> TokenQueries:
    every: list[InputRow] = []
    places, targets, owners = [], [], []
    for cut, text_rows in zip(cuts, rows, strict=True):
        for row in text_rows:
            queried = queried_tokens(row, cut)
            places.append(queried - 1)
            targets.append(row.ids[queried])
            owners.append(np.full(len(queried), len(every)))
            every.append(row)
    return TokenQueries(every, *(np.concatenate(column).astype(np.int64) for column in (owners, places, targets)))


def _masked(
    model: LanguageModel, rows: Sequence[Sequence[InputRow]], cuts: Sequence[TokenizedText], masking: Masking
) -> TokenQueries:
    """One row per token; the same hidden words in the same sentence (as in a pair) are read once."""
    every: list[InputRow] = []
    known: dict[bytes, int] = {}
    owners, places, targets = [], [], []
    for cut, text_rows in zip(cuts, rows, strict=True):
        for row in text_rows:
            queried = queried_tokens(row, cut)
            places.append(queried)
            targets.append(row.ids[queried])
            for ids in _hidden(row, queried, model.mask or 0, masking):
                number = known.setdefault(ids.tobytes(), len(every))
                if number == len(every):
                    every.append(row._replace(ids=ids))
                owners.append(number)
    columns = (np.concatenate(column).astype(np.int64) for column in (places, targets))
    return TokenQueries(every, np.array(owners, np.int64), *columns)


def _hidden(row: InputRow, queried: np.ndarray, mask: int, masking: Masking) -> np.ndarray:
    """[query, token] The row once for each token, with that token hidden."""
    ids = np.repeat(row.ids[None], len(queried), 0)
    hide = np.arange(len(row.ids)) == queried[:, None]
    if masking == "word":
        same = (row.words == row.words[queried][:, None]) & (row.words != SPECIAL)
        hide |= same & (np.arange(len(row.ids)) > queried[:, None])
    ids[hide] = mask
    return ids


def logprobs_of(model: LanguageModel, wanted: TokenQueries) -> Float[np.ndarray, " token"]:
    """The log-probability of each token that is asked for."""
    logprobs = np.empty(len(wanted.target), np.float64)

    def take(logits: Tensor, numbers: Tensor) -> Tensor:
        targets = torch.from_numpy(wanted.target).to(logits.device)[numbers]
        return logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)

    batches = list(batched_logits(model, wanted, take))
    for numbers, values in batches:
        logprobs[numbers.cpu().numpy()] = values.double().cpu().numpy()
    return logprobs


def batched_logits(
    model: LanguageModel, wanted: TokenQueries, take: Callable[[Tensor, Tensor], Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """What `take` makes of the logits [some tokens, vocabulary], given the numbers of these tokens; with the numbers.

    Rows run in batches of similar length, and the head on no other states than those asked for.
    """
    order = np.argsort(wanted.row, kind="stable")
    bounds = np.searchsorted(wanted.row[order], np.arange(len(wanted.rows) + 1))
    most = max(1, _LOGITS[_device(model)] // model.vocabulary)
    first = order[np.minimum(bounds[:-1], max(0, len(order) - 1))] if len(order) else order
    place = _only_places(wanted, first) if model.kind == "masked" else None
    for batch, last in _last_layers(model, wanted.rows, place):
        queries = np.concatenate([order[bounds[row] : bounds[row + 1]] for row in batch])
        if not len(queries):
            continue
        inside = np.repeat(np.arange(len(batch)), [bounds[row + 1] - bounds[row] for row in batch])
        places = wanted.place[queries] if place is None else np.zeros(len(queries), np.int64)
        states = last[torch.from_numpy(inside), torch.from_numpy(places)]
        numbers = torch.from_numpy(queries).to(last.device)
        for part, some in zip(states.split(most), numbers.split(most), strict=True):
            yield some, take(model.logits(part), some)


def _only_places(wanted: TokenQueries, first: np.ndarray) -> Int[np.ndarray, " row"] | None:
    """The place of each row, where each is asked at one place alone (a mask); otherwise None.

    `first` is the number of the first token that is asked of each row.
    """
    place = wanted.place[first] if len(wanted.place) else wanted.place
    queried = np.zeros(len(wanted.rows), bool)
    queried[wanted.row] = True
    return place if queried.all() and (place[wanted.row] == wanted.place).all() else None


def _last_layers(
    model: LanguageModel, rows: Sequence[InputRow], place: Int[np.ndarray, " row"] | None
) -> Iterator[tuple[list[int], Tensor]]:
    """The last layer [row, token, width] of batches of rows, with their numbers; smaller ones if memory runs out.

    With `place`, of one token per row.
    """
    encoder = model.encoder
    waiting = encoder.row_groups([len(row.ids) for row in rows])[::-1]
    while waiting:
        batch = waiting.pop()
        places = None if place is None else torch.from_numpy(place[batch])
        try:
            last = encoder.last([rows[row] for row in batch], places)
        except RuntimeError as error:
            if len(batch) == 1 or not is_out_of_memory(error):
                raise
            half = len(batch) // 2
            waiting += [batch[half:], batch[:half]]
            continue
        yield batch, last

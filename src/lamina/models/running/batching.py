"""Batches of similar length under a token budget, and texts that stream through a model in such batches.

Batches run again in halves if memory runs out.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import accumulate, chain, groupby, islice
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from lamina.errors import ModelError
from lamina.models.contract import Extremes, Packed, Room, extremes
from lamina.models.running.tokens import TokenizedText
from lamina.types import Text

Item = TypeVar("Item")

_FULL = 0.75
"""Share of the longest item of a batch that others should have ..."""
_ENOUGH = 1 / 3
"""... once the batch has this share of its budget."""


def bucket(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices grouped so that a group's longest item times its size stays within `budget` tokens.

    Longest first, so that memory peaks at the start and not at the end. An item longer than the budget is its own
    group.

    Example:
        >>> bucket([3, 9, 4, 2], budget=9)
        [[1], [2, 0], [3]]
    """
    groups: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if groups and longest * (len(groups[-1]) + 1) <= budget:
            groups[-1].append(index)
        else:
            groups.append([index])
            longest = lengths[index]
    return groups


def chunked(items: Iterable[tuple[Item, int]], most: int, budget: int) -> Iterator[list[Item]]:
    """Consecutive items, given as (item, size) pairs, in lists of at most `most` items and a size of about `budget`.

    Example:
        >>> list(chunked([("a", 1), ("b", 5), ("c", 1)], most=2, budget=5))
        [['a', 'b'], ['c']]
    """
    chunk: list[Item] = []
    size = 0
    for item, weight in items:
        chunk.append(item)
        size += weight
        if len(chunk) >= most or size >= budget:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class WaitingItems:
    """Items that are taken in batches, longest first, under a budget that may change in between.

    An item has some rows of one length, and stays in one piece.

    Example:
        >>> waiting = WaitingItems([3, 9, 4, 2])
        >>> waiting.take(9), waiting.take(9)
        ([1], [2, 0])
        >>> waiting.put_back([2, 0])
        >>> waiting.take(4), len(waiting)
        ([2], 2)
    """

    def __init__(self, lengths: Sequence[int], rows: Sequence[int] | None = None) -> None:
        self._lengths, self._rows = lengths, rows or [1] * len(lengths)
        # The longest at the end of the list, where it is taken from.
        self._left = sorted(range(len(lengths)), key=lambda i: (lengths[i], -i))

    def __len__(self) -> int:
        return len(self._left)

    def take(self, budget: int) -> list[int]:
        """The longest items whose rows, padded to the longest, stay within `budget` tokens; at least one item.

        A batch that is large enough takes no more items that would be padding for a good part.
        """
        taken = [self._left.pop()]
        longest, rows = self._lengths[taken[0]], self._rows[taken[0]]
        while self._left:
            item = self._left[-1]
            mostly_padding = self._lengths[item] < _FULL * longest and rows * longest >= _ENOUGH * budget
            if mostly_padding or longest * (rows + self._rows[item]) > budget:
                break
            taken.append(self._left.pop())
            rows += self._rows[item]
        return taken

    def put_back(self, taken: Sequence[int]) -> None:
        """Items that were taken last are taken again."""
        self._left += reversed(taken)


class TokenWindow(NamedTuple):
    """Tokens `start:stop` go through the model; of those, `keep_start:keep_stop` are kept."""

    start: int
    stop: int
    keep_start: int
    keep_stop: int


def plan_windows(length: int, capacity: int, *, causal: bool = False) -> list[TokenWindow]:
    """Windows of at most `capacity` tokens that overlap by half; each token is kept once, where it sees most context.

    With bidirectional attention that is the window where it is closest to the middle; for a causal model, which only
    sees the tokens before it, it is the earliest window that contains it.

    Example:
        >>> plan_windows(10, 6)
        [TokenWindow(start=0, stop=6, keep_start=0, keep_stop=4), TokenWindow(start=3, stop=9, keep_start=4, \
keep_stop=6), TokenWindow(start=4, stop=10, keep_start=6, keep_stop=10)]
        >>> plan_windows(3, 6)
        [TokenWindow(start=0, stop=3, keep_start=0, keep_stop=3)]
    """
    if length <= capacity:
        return [TokenWindow(0, length, 0, length)]
    stride = max(1, capacity // 2)
    # The last window is moved back so that it is full: its tokens see as much context as all others.
    starts = [*range(0, length - capacity, stride), length - capacity]
    windows, covered = [], 0
    for index, start in enumerate(starts):
        stop = start + capacity
        if index + 1 == len(starts):
            until = length
        elif causal:
            until = stop
        else:
            until = (starts[index + 1] + stop) // 2
        windows.append(TokenWindow(start, stop, covered, until))
        covered = until
    return windows


# Rows of a batch: whole texts, or windows of texts longer than the model's limit; and the tensors made of them.


class InputRow(NamedTuple):
    """One row of a batch: a whole text, or one window of it."""

    text: int
    ids: np.ndarray
    types: np.ndarray
    words: np.ndarray
    """[token] The word of each token; SPECIAL for special tokens."""
    keep: slice
    """The tokens of the row that are kept ..."""
    to: slice
    """... and where in the text they go."""


def rows_of(text: int, cut: TokenizedText, *, limit: int, causal: bool) -> list[InputRow]:
    """The rows of a text: itself, or windows of at most `limit` tokens.

    Example:
        >>> from lamina.models.contract import Tokens
        >>> tokens = Tokens(np.arange(12, dtype=np.int32), np.array([-1, *range(10), -1], np.int32))
        >>> text = TokenizedText(tokens, np.zeros(12, int), head=1, tail=1)
        >>> [len(row.ids) for row in rows_of(0, text, limit=8, causal=False)]
        [8, 8, 8]
    """
    tokens, types, head, tail = cut
    size = len(tokens.ids)
    if size <= limit:
        whole = slice(0, size)
        return [InputRow(text, tokens.ids, types, tokens.words, whole, whole)]
    if head > limit // 2:
        # Leading segments that are too long to repeat in every window are cut into windows as well.
        head = int(np.argmax(tokens.words >= 0))
    rows = []
    for window in plan_windows(size - head - tail, limit - head - tail, causal=causal):
        first, last = window.keep_start == 0, window.keep_stop == size - head - tail
        chosen = np.r_[0:head, head + window.start : head + window.stop, size - tail : size]
        keep = slice(
            0 if first else head + window.keep_start - window.start,
            len(chosen) if last else head + window.keep_stop - window.start,
        )
        to = slice(0 if first else head + window.keep_start, size if last else head + window.keep_stop)
        rows.append(InputRow(text, tokens.ids[chosen], types[chosen], tokens.words[chosen], keep, to))
    return rows


def row_groups(lengths: Sequence[int], budget: int, *, pads: bool) -> list[list[int]]:
    """Rows that share a batch, longest first; only rows of one length where padding would change the model's states.

    Example:
        >>> row_groups([3, 4, 3], budget=12, pads=True), row_groups([3, 4, 3], budget=12, pads=False)
        ([[1, 0, 2]], [[1], [0, 2]])
    """
    groups = bucket(lengths, budget)
    if pads:
        return groups
    return [list(same) for group in groups for _, same in groupby(group, key=lengths.__getitem__)]


class Padded(NamedTuple):
    """A batch, [row, token]."""

    ids: Tensor
    types: Tensor
    mask: Tensor
    """1 for tokens, 0 for padding."""


def padded(rows: Sequence[InputRow], pad: int) -> Padded:
    """Rows as tensors, padded to the longest.

    Example:
        >>> one, two = (
        ...     InputRow(0, np.arange(size), np.zeros(size, int), np.arange(size), slice(size), slice(size))
        ...     for size in (2, 3)
        ... )
        >>> padded([one, two], pad=9).ids.tolist()
        [[0, 1, 9], [0, 1, 2]]
    """
    sizes = np.fromiter((len(row.ids) for row in rows), np.int64, len(rows))
    inside = np.arange(sizes.max()) < sizes[:, None]
    ids, types = np.full(inside.shape, pad, np.int64), np.zeros(inside.shape, np.int64)
    ids[inside] = np.concatenate([row.ids for row in rows])
    types[inside] = np.concatenate([row.types for row in rows])
    return Padded(torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(inside.astype(np.int64)))


# States of a batch without padding, on the device where the model ran, and their transfer to the host.


class UnpaddedPlaces(NamedTuple):
    """Which tokens of a padded batch are used, and their places among the tokens of its texts."""

    tokens: np.ndarray | None
    """Indices into [row * token]; None for all."""
    to: np.ndarray | slice


def unpadded_places(rows: Sequence[InputRow], starts: Sequence[int]) -> UnpaddedPlaces:
    """Where the kept tokens of rows go; `starts` says where each row's text begins.

    Example:
        >>> whole = InputRow(0, np.arange(2), np.zeros(2, int), np.arange(2), slice(0, 2), slice(0, 2))
        >>> longer = InputRow(1, np.arange(3), np.zeros(3, int), np.arange(3), slice(0, 3), slice(0, 3))
        >>> kept, to = unpadded_places([longer, whole], [0, 3])
        >>> kept.tolist(), to
        ([0, 1, 2, 3, 4], slice(0, 5, None))
    """
    width = max(len(row.ids) for row in rows)
    sizes = np.array([row.keep.stop - row.keep.start for row in rows])
    first = np.array([number * width + row.keep.start for number, row in enumerate(rows)])
    target = np.array([start + row.to.start for start, row in zip(starts, rows, strict=True)])
    stops = np.cumsum(sizes)
    offsets = np.arange(stops[-1]) - np.repeat(stops - sizes, sizes)
    indices = None if stops[-1] == width * len(rows) else np.repeat(first, sizes) + offsets
    if np.array_equal(target[1:], (target + sizes)[:-1]):
        return UnpaddedPlaces(indices, slice(int(target[0]), int(target[-1] + sizes[-1])))
    return UnpaddedPlaces(indices, np.repeat(target, sizes) + offsets)


def fill(states: Tensor, layers: Sequence[Tensor], places: UnpaddedPlaces) -> None:
    """Copy the kept tokens of padded layers [row, token, width] into states [token, layer, width]."""
    indices = None if places.tokens is None else sent(torch.from_numpy(places.tokens), layers[0].device)
    to = places.to if isinstance(places.to, slice) else sent(torch.from_numpy(places.to), states.device)
    for number, layer in enumerate(layers):
        part = layer.reshape(-1, layer.shape[-1])
        if indices is not None:
            # The layers of a large model may be on several devices.
            part = part.index_select(0, indices.to(part.device))
        if isinstance(to, slice):
            states[to, number].copy_(part, non_blocking=True)
        else:
            states[to, number] = part.to(states.device, states.dtype)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A small tensor on a device; a GPU fetches it by itself, without the host waiting."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class StatesInTransit:
    """States that a GPU may still be computing or copying."""

    def __init__(self, states: Tensor, extremes: Tensor, arrived: torch.cuda.Event | None) -> None:
        self._states, self._extremes, self._arrived = states, extremes, arrived

    def wait(self) -> tuple[Tensor, Extremes]:
        """The states and their extremes, once they are there."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._states, Extremes(*self._extremes.tolist())


class Carrier:
    """Brings states from the device to the host: from a GPU on a stream of its own, beside the next forward pass."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def leave(self, states: Tensor) -> StatesInTransit:
        """States that stay on the device."""
        return self._with_extremes(states, states)

    def carry(self, states: Tensor, room: Room | None) -> StatesInTransit:
        """States that go to the host, into memory that `room` gives."""
        if room is not None:
            host = room(len(states))
        else:
            host = torch.empty(states.shape, dtype=states.dtype, pin_memory=self._stream is not None)
        return self._with_extremes(states, host)

    def _with_extremes(self, states: Tensor, target: Tensor) -> StatesInTransit:
        # Computed where the states are: on the host it would take longer than the copy.
        bounds = extremes(states)
        if self._stream is None:
            if target is not states:
                target.copy_(states)
            return StatesInTransit(target, bounds, None)
        arriving_bounds = torch.empty(2, pin_memory=True)
        self._stream.wait_stream(torch.cuda.current_stream(states.device))
        with torch.cuda.stream(self._stream):
            arriving_bounds.copy_(bounds, non_blocking=True)
            if target is not states:
                target.copy_(states, non_blocking=True)
                # Its memory must not be used again before the copy is done.
                states.record_stream(self._stream)
            bounds.record_stream(self._stream)
            arrived = torch.cuda.Event()
            arrived.record(self._stream)
        return StatesInTransit(target, arriving_bounds, arrived)


# How many tokens share a batch: found by timing real batches, and halved when memory runs out.

_CPU_TOKENS = 2048
_FIRST_TOKENS = 8192
_MOST_TOKENS = 131_072
_TIMED = 2
"""Batches that are timed at each size."""
_GAIN = 1.05
"""A size is worth doubling as long as tokens per second rise by this much."""
_NEARLY_FULL = 0.7
"""Share of its size that a batch needs to count."""


class BatchSize:
    """The number of tokens of a batch, padding included.

    Example:
        >>> size = BatchSize(torch.device("cuda"))
        >>> for rate in (1e5, 1e6, 1e6, 1.3e6, 1.3e6, 1.2e6, 1.2e6):
        ...     size.note(size.tokens, rate, room=True)
        >>> size.tokens
        16384
        >>> size.halve(16000)
        >>> size.tokens
        8000
    """

    def __init__(self, device: torch.device, tokens: int | None = None) -> None:
        self.tokens = tokens or (_FIRST_TOKENS if device.type == "cuda" else _CPU_TOKENS)
        self.settled = tokens is not None or device.type != "cuda"
        """Whether timing can no longer change it."""
        self._rates: list[float] = []
        self._best = 0.0
        self._warm = False

    def note(self, tokens: int, rate: float, *, room: bool) -> None:
        """Tokens of a batch and its tokens per second; `room` says whether memory allows twice as many."""
        if self.settled or not _NEARLY_FULL * self.tokens <= tokens <= self.tokens:
            return
        if not self._warm:
            self._warm = True  # the first batch loads kernels; not timed
            return
        self._rates.append(rate)
        if len(self._rates) < _TIMED:
            return
        rate, self._rates = max(self._rates), []
        if rate < _GAIN * self._best:
            self.tokens //= 2
            self.settled = True
        elif room and 2 * self.tokens <= _MOST_TOKENS:
            self._best = rate
            self.tokens *= 2
        else:
            self.settled = True

    def halve(self, tokens: int) -> None:
        """A batch of `tokens` tokens did not fit into memory."""
        self.tokens = max(1, min(self.tokens, tokens) // 2)
        self.settled = True


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a GPU or this machine ran out of memory.

    Example:
        >>> is_out_of_memory(RuntimeError("CUDA error: out of memory")), is_out_of_memory(RuntimeError("shapes"))
        (True, False)
    """
    message = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in message or "can't allocate memory" in message


# Texts tokenised ahead of the model, in a thread.

_TEXTS, _WORDS = 256, 1024
"""Texts that are cut at once, and about how many words they have together."""
_PAUSE = 1e-4
"""Seconds between them: the thread that runs the model needs the interpreter for every step on a GPU."""


class TokenizesTexts(Protocol):
    """Cuts texts into tokens."""

    def cut(self, texts: Sequence[Text]) -> list[TokenizedText]:
        """Texts cut into tokens."""
        ...


class CutText(NamedTuple):
    """The id of a text, and its tokens."""

    id: str
    cut: TokenizedText


def cut_ahead(texts: Iterable[Text], tokenizer: TokenizesTexts, ahead: Callable[[], int]) -> Iterator[CutText]:
    """Texts with their tokens, in their order; a thread tokenises about `ahead` words in advance.

    The texts are read by the caller's thread: not every stream may be read by another.
    """
    sized = ((text, len(text.words)) for text in texts)
    parts = chunked(sized, _TEXTS, _WORDS)
    first = list(islice(parts, 2))
    if len(first) < 2:
        # A thread would cost more than these few.
        for part in first:
            yield from _cut(part, tokenizer)
        return
    thread = ThreadPoolExecutor(1, "tokenize")
    try:
        yield from _in_thread(chain(first, parts), tokenizer, ahead, thread)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _in_thread(
    parts: Iterator[list[Text]], tokenizer: TokenizesTexts, ahead: Callable[[], int], thread: ThreadPoolExecutor
) -> Iterator[CutText]:
    waiting: deque[Future[list[CutText]]] = deque()
    while True:
        for part in islice(parts, max(0, 1 + ahead() // _WORDS - len(waiting))):
            waiting.append(thread.submit(_cut_and_pause, part, tokenizer))
        if not waiting:
            return
        yield from waiting.popleft().result()


def _cut(texts: Sequence[Text], tokenizer: TokenizesTexts) -> list[CutText]:
    return [CutText(text.id, cut) for text, cut in zip(texts, tokenizer.cut(texts), strict=True)]


def _cut_and_pause(texts: Sequence[Text], tokenizer: TokenizesTexts) -> list[CutText]:
    cuts = _cut(texts, tokenizer)
    time.sleep(_PAUSE)
    return cuts


_BATCHES_AHEAD = 16
"""Batches whose texts are sorted by length together ..."""
_TOKENS_FIRST = 131_072
"""... but at first no more tokens than these: a GPU would wait for them."""
_BATCHES_LEAST = 4
"""Batches that texts sorted together are for, at least."""
_HOST_BYTES = 256 * 2**20
"""States that go to the host in one piece."""
_USED = 0.8
"""Share of a GPU's memory that batches may use."""

Output = TypeVar("Output")


class RunsRows(Protocol):
    """An encoder that runs rows of tokens: any transformers model, an ELMo."""

    name: str
    limit: int
    width: int
    batch_size: BatchSize

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        ...

    @property
    def layers(self) -> int:
        """Layers of states."""
        ...

    @property
    def pads(self) -> bool:
        """Whether rows of different lengths may share a batch."""
        ...

    def rows(self, text: int, cut: TokenizedText) -> list[InputRow]:
        """The rows of a text: itself, or windows of it."""
        ...

    def hidden(self, rows: Sequence[InputRow]) -> Sequence[Tensor]:
        """The states of a batch by layer, [row, token, width] with padding."""
        ...


class Chunk(NamedTuple):
    """Texts that are sorted by length together."""

    texts: list[CutText]
    most: int
    """Tokens of a batch, at most."""


def chunks(
    texts: Iterable[CutText], encoder: RunsRows, weigh: Callable[[int], int], most_bytes: int
) -> Iterator[Chunk]:
    """Consecutive texts for some batches, of about `most_bytes` at most; `weigh` gives bytes by number of tokens."""
    batch = encoder.batch_size
    room = min(_BATCHES_AHEAD * batch.tokens, _TOKENS_FIRST)
    chunk: list[CutText] = []
    tokens = weight = 0
    for text in texts:
        chunk.append(text)
        size = len(text.cut.tokens.ids)
        tokens, weight = tokens + size, weight + weigh(size)
        if tokens >= room or weight >= most_bytes:
            yield Chunk(chunk, max(1, room // _BATCHES_LEAST))
            chunk, tokens, weight = [], 0, 0
            room = max(room, min(2 * room, _BATCHES_AHEAD * batch.tokens))
    if chunk:
        yield Chunk(chunk, max(1, room // _BATCHES_LEAST))


def lookahead(encoder: RunsRows) -> int:
    """Tokens to have ready before they are needed."""
    return _BATCHES_AHEAD * encoder.batch_size.tokens


class RowBatch(NamedTuple):
    """Some texts of a chunk, as they run."""

    texts: list[CutText]
    windows: list[int]
    """Rows of each text."""
    rows: list[InputRow]
    """Of all texts."""

    @property
    def tokens(self) -> int:
        """Of all rows, padded."""
        return len(self.rows) * max(len(row.ids) for row in self.rows)


def run_batches(
    encoder: RunsRows, chunk: Chunk, run: Callable[[RowBatch], Output], most: int
) -> Iterator[tuple[list[int], Output]]:
    """The results of `run` on batches of a chunk's texts, with the numbers of the texts in the chunk.

    A batch that does not fit into memory is run again in halves, and later ones are smaller.
    """
    sizes = [len(text.cut.tokens.ids) for text in chunk.texts]
    windows = [
        1 if size <= encoder.limit else len(encoder.rows(0, text.cut))
        for size, text in zip(sizes, chunk.texts, strict=True)
    ]
    waiting = WaitingItems([min(size, encoder.limit) for size in sizes], windows)
    while waiting:
        taken = waiting.take(min(encoder.batch_size.tokens, chunk.most, most))
        texts = [chunk.texts[number] for number in taken]
        rows = [row for number, text in zip(taken, texts, strict=True) for row in encoder.rows(number, text.cut)]
        batch = RowBatch(texts, [windows[number] for number in taken], rows)
        output = _tried(encoder, batch, run)
        if output is None:
            waiting.put_back(taken)
        else:
            yield taken, output
            # Released before the next batch runs, which needs the memory.
            del output


def _tried(encoder: RunsRows, batch: RowBatch, run: Callable[[RowBatch], Output]) -> Output | None:
    """The result of `run` on a batch; None if it has to be run again with smaller batches."""
    try:
        return run(batch)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        longest = max(len(row.ids) for row in batch.rows)
        if len(batch.texts) == 1 and (len(batch.rows) == 1 or encoder.batch_size.tokens <= longest):
            size = len(batch.texts[0].cut.tokens.ids)
            raise ModelError(
                f"{encoder.name}: a text of {size:,} tokens ({batch.texts[0].id!r}) does not fit into the memory of "
                f"{encoder.device} even alone; cut texts into shorter windows (--max-tokens), compute in a narrower "
                "--dtype, or use a device with more memory"
            ) from error
        encoder.batch_size.halve(batch.tokens)
    # Not in the handler: the error still refers to the tensors that did not fit.
    if encoder.device.type == "cuda":
        torch.cuda.empty_cache()
    return None


class RunningBatch(NamedTuple):
    """A batch that a GPU may still be working on."""

    batch: RowBatch
    states: StatesInTransit
    timed: tuple[torch.cuda.Event, torch.cuda.Event] | None

    def finish(self, encoder: RunsRows) -> Packed:
        """Its states, once they are there."""
        states, bounds = self.states.wait()
        if self.timed is not None:
            begun, ended = self.timed
            # By tokens without padding: larger batches have more of it.
            size, took = len(states), begun.elapsed_time(ended) / 1e3
            encoder.batch_size.note(self.batch.tokens, size / took, room=_has_room(states.device))
        texts, windows, _ = self.batch
        names, tokens = tuple(text.id for text in texts), tuple(text.cut.tokens for text in texts)
        return Packed(names, tokens, tuple(windows), states, bounds.overflow, bounds.nan)


class Packing(NamedTuple):
    """How states are asked for; see `Encoder.packed`."""

    dtype: torch.dtype = torch.float32
    on: Literal["device", "host"] = "host"
    room: Room | None = None
    most: int | None = None


def packs(encoder: RunsRows, chunks: Iterable[Chunk], how: Packing) -> Iterator[tuple[list[int], Packed]]:
    """The states of texts, with their numbers in their chunk."""
    most = how.most or sys.maxsize
    if how.on == "host":
        most = min(most, max(1, _HOST_BYTES // (encoder.layers * encoder.width * how.dtype.itemsize)))
    carrier = Carrier(encoder.device)
    start = partial(start_batch, encoder, how=how, carrier=carrier)
    running = chain.from_iterable(run_batches(encoder, chunk, start, most) for chunk in chunks)
    # A GPU already works on the next batch while one is waited for; elsewhere that would only cost memory.
    late = _one_behind(running) if encoder.device.type == "cuda" else running
    return ((taken, batch.finish(encoder)) for taken, batch in late)


def _one_behind(items: Iterator[Output]) -> Iterator[Output]:
    before: list[Output] = []
    for item in items:
        yield from before
        before = [item]
    yield from before


def start_batch(encoder: RunsRows, batch: RowBatch, *, how: Packing, carrier: Carrier) -> RunningBatch:
    """Run a batch, and have its states packed and on their way."""
    sizes = [len(text.cut.tokens.ids) for text in batch.texts]
    starts = list(accumulate(sizes, initial=0))
    begins = [start for start, windows in zip(starts, batch.windows, strict=False) for _ in range(windows)]
    lengths = [len(row.ids) for row in batch.rows]
    groups = row_groups(lengths, encoder.batch_size.tokens, pads=encoder.pads)
    timed = _timed(encoder)
    direct = how.room if len(groups) == 1 else None
    states = torch.empty(0)
    for group in groups:
        rows = [batch.rows[number] for number in group]
        layers = encoder.hidden(rows)
        if not len(states):
            states = _space(encoder, starts[-1], how.dtype, direct)
        fill(states, layers, unpadded_places(rows, [begins[number] for number in group]))
        # Released before the next group runs, which needs the memory.
        del layers
    if timed is not None:
        timed[1].record()
    stays = how.on == "device" or (states.device.type == "cpu" and (how.room is None or direct is not None))
    return RunningBatch(batch, carrier.leave(states) if stays else carrier.carry(states, how.room), timed)


def _space(encoder: RunsRows, tokens: int, dtype: torch.dtype, room: Room | None) -> Tensor:
    if encoder.device.type == "cpu" and room is not None:
        return room(tokens)
    # Not where the last layer is: of a model over several cards, the carrier waits for the first one alone.
    return torch.empty(tokens, encoder.layers, encoder.width, dtype=dtype, device=encoder.device)


def _timed(encoder: RunsRows) -> tuple[torch.cuda.Event, torch.cuda.Event] | None:
    if encoder.batch_size.settled or encoder.device.type != "cuda":
        return None
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    return begun, ended


def _has_room(device: torch.device) -> bool:
    """Whether a GPU has room for batches twice as large as those so far."""
    if device.type != "cuda":
        device = torch.device("cuda")
    return 2 * torch.cuda.max_memory_allocated(device) < _USED * torch.cuda.get_device_properties(device).total_memory

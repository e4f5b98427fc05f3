"""From a stream of texts to batches of states: sorted by length, run together, and run again if memory runs out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Literal, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from lamina.errors import ModelError
from lamina.models.contract import Packed, Room
from lamina.models.running.batching import (
    BatchSize,
    Carrier,
    CutText,
    InputRow,
    StatesInTransit,
    WaitingItems,
    fill,
    is_out_of_memory,
    row_groups,
    unpadded_places,
)
from lamina.models.running.tokens import TokenizedText

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

"""Attention maps of many texts at a time, left on the device where the model ran: reduced there, never stored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.contract import Activations, MapBatch, Want, apart
from lamina.models.running.anatomy import Anatomy, attention_by
from lamina.models.running.batching import InputRow, row_groups
from lamina.models.running.state_batches import Carrier, Chunk, Packing, RowBatch, RunsRows, run_batches, start_batch
from lamina.models.running.tokens import TokenizedText, WordTokenizer
from lamina.models.running.value_norms import ValueNorms
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TEXTS_AHEAD = 1024
"""Texts sorted by length together."""
_CELLS = {"cpu": 2**26}
"""Numbers in the maps of one batch, all blocks together: 256 MiB ..."""
_CELLS_ELSEWHERE = 2**28
"""... and 1 GiB on an accelerator. A text of its own may need more."""


class MapEncoder(RunsRows, Protocol):
    """An encoder whose model can hand out attention maps: any transformers model."""

    heads: int
    model: PreTrainedModel
    anatomy: Anatomy
    word_tokenizer: WordTokenizer

    @property
    def map_blocks(self) -> tuple[int, ...]:
        """Blocks that have attention maps."""
        ...

    @property
    def value_norms(self) -> ValueNorms:
        """Takes the norms of values while the model runs."""
        ...

    def inputs(self, rows: Sequence[InputRow]) -> dict[str, Any]:
        """What the model is called with for a batch, on its device."""
        ...

    def row_groups(self, lengths: Sequence[int]) -> list[list[int]]:
        """Which rows share a batch, given their lengths."""
        ...

    def refuse(self, needs: Collection[str]) -> None:
        """Raise a ModelError if the passport refuses something that is needed."""
        ...


class EagerMaps(NamedTuple):
    """Maps and norms of a forward pass, padding included; empty where not requested."""

    maps: Sequence[Float[Tensor, "row head token token"]]
    """Of every block."""
    norms: Sequence[Float[Tensor, "row head token"]]
    """Of every block."""


def eager_maps(encoder: MapEncoder, rows: Sequence[InputRow], want: Collection[Want]) -> EagerMaps:
    """Run the model with the implementation of attention that returns maps (eager)."""
    with torch.no_grad(), attention_by(encoder.model, "eager"):
        inputs = encoder.inputs(rows)
        with encoder.value_norms.taken() if "norms" in want else nullcontext([]) as norms:
            out = encoder.model(**inputs, output_attentions="maps" in want)
    places = encoder.anatomy.maps.values() if "maps" in want else ()
    # Blocks of a large model may be on several devices.
    handed = [out.attentions[place].to(encoder.device) for place in places]
    return EagerMaps(handed, [block.to(encoder.device) for block in norms])


def map_batches(encoder: MapEncoder, texts: Iterable[Text], *, norms: bool) -> Iterator[MapBatch]:
    """See `Encoder.map_batches`. Texts are sorted by length, longest first, `_TEXTS_AHEAD` at a time."""
    want: tuple[Want, ...] = ("maps", "norms") if norms else ("maps",)
    if not encoder.heads:
        raise ModelError(
            f"{encoder.name} ({type(encoder.model).__name__}) has no attention maps: {encoder.anatomy.no_maps}"
        )
    encoder.refuse(want)
    left = iter(texts)
    while some := list(islice(left, _TEXTS_AHEAD)):
        ahead = [(text.id, cut) for text, cut in zip(some, encoder.word_tokenizer.cut(some), strict=True)]
        # Maps of windows would not be the text's.
        whole = [entry for entry in ahead if len(entry[1].tokens.ids) <= encoder.limit]
        for group in _groups(encoder, [len(entry.tokens.ids) for _, entry in whole]):
            yield _batch(encoder, [whole[number] for number in group], want)
        for name, entry in ahead:
            if len(entry.tokens.ids) > encoder.limit:
                yield MapBatch((name,), (entry.tokens,))


def _groups(encoder: MapEncoder, lengths: Sequence[int]) -> Iterator[list[int]]:
    heads = len(encoder.map_blocks) * encoder.heads
    most = _CELLS.get(encoder.device.type, _CELLS_ELSEWHERE)
    for group in encoder.row_groups(lengths):
        # Longest first: none of the others has larger maps.
        together = max(1, most // (heads * lengths[group[0]] ** 2))
        yield from (group[start : start + together] for start in range(0, len(group), together))


def _batch(encoder: MapEncoder, texts: Sequence[tuple[str, TokenizedText]], want: Sequence[Want]) -> MapBatch:
    rows = [row for number, (_, cut) in enumerate(texts) for row in encoder.rows(number, cut)]
    maps, norms = eager_maps(encoder, rows, want)
    cleared = without_padding([block.float() for block in maps], [len(row.ids) for row in rows])
    tokens = tuple(cut.tokens for _, cut in texts)
    return MapBatch(tuple(name for name, _ in texts), tokens, cleared, tuple(norms))


def without_padding(
    maps: Sequence[Float[Tensor, "row head token token"]], sizes: Sequence[int]
) -> tuple[Float[Tensor, "row head token token"], ...]:
    """The same maps, with 0 from and to padding, where a model may have left anything.

    Example:
        >>> without_padding([torch.ones(1, 1, 2, 2)], [1])[0].tolist()
        [[[[1.0, 0.0], [0.0, 0.0]]]]
    """
    longest = maps[0].shape[-1]
    if min(sizes) == longest:
        return tuple(maps)
    padding = np.nonzero(np.arange(longest) >= np.array(sizes)[:, None])
    row, token = torch.from_numpy(np.stack(padding)).to(maps[0].device)
    for block in maps:
        # By assignment: a row of which everything is masked may be NaN, which stays NaN when multiplied by 0.
        block[row, :, token] = 0
        block[row, :, :, token] = 0
    return tuple(maps)


def with_maps(encoder: MapEncoder, chunk: Chunk, want: Collection[Want]) -> Iterator[tuple[int, Activations]]:
    """Texts with their maps or norms, and with states if these are wanted; with their numbers in the chunk."""
    carrier, how = Carrier(encoder.device), Packing()

    def run(batch: RowBatch) -> list[Activations]:
        maps = _maps_of(encoder, batch, want)
        if "states" in want:
            activations = start_batch(encoder, batch, how=how, carrier=carrier).finish(encoder).unpack()
        else:
            entry = zip(batch.texts, batch.windows, strict=True)
            activations = (Activations(text.id, text.cut.tokens, windows=windows) for text, windows in entry)
        return [
            replace(entry, maps=text_maps.maps, norms=text_maps.norms)
            for entry, text_maps in zip(activations, maps, strict=True)
        ]

    for taken, activations in run_batches(encoder, chunk, run, chunk.most):
        yield from zip(taken, activations, strict=True)


class _TextMaps(NamedTuple):
    maps: Tensor | None = None
    norms: Tensor | None = None


def _maps_of(encoder: MapEncoder, batch: RowBatch, want: Collection[Want]) -> list[_TextMaps]:
    """The maps and norms of each text; none of a text in windows, whose maps would not be the text's."""
    by_text = [_TextMaps()] * len(batch.texts)
    if not set(want) & {"maps", "norms"}:
        return by_text
    firsts = [batch.rows[place] for place in accumulate(batch.windows[:-1], initial=0)]
    whole = [number for number, windows in enumerate(batch.windows) if windows == 1]
    sizes = [len(firsts[number].ids) for number in whole]
    for group in row_groups(sizes, encoder.batch_size.tokens, pads=encoder.anatomy.pads):
        batch_maps = eager_maps(encoder, [firsts[whole[place]] for place in group], want)
        maps, norms = [block.cpu() for block in batch_maps.maps], [block.cpu() for block in batch_maps.norms]
        for row, place in enumerate(group):
            size = sizes[place]
            by_text[whole[place]] = _TextMaps(
                torch.stack([block[row, :, :size, :size] for block in maps]).float() if maps else None,
                torch.stack([block[row, :, :size] for block in norms]) if norms else None,
            )
    return by_text


# Calls of a model's eager attention function, recorded while the model runs.


class AttentionCall(NamedTuple):
    """One call of a model's eager attention function."""

    module: Module
    value: Tensor
    """[row, key-value head, token, size]"""
    output: Tensor
    """[row, token, head, size]"""
    weights: Tensor
    """[row, head, token, token]"""
    again: Callable[[], Tensor]
    """The weights, computed again."""

    def makes(self, values: Tensor) -> float:
        """How far the values [row, head, token, size] of all heads, mixed by the weights, are from the output."""
        return apart((self.weights @ values).transpose(1, 2).flatten(2), self.output.flatten(2))


@contextmanager
def recorded_attention(model: Module, calls: list[AttentionCall]) -> Iterator[None]:
    """While it is open, calls of the attention function in the model's own source module are recorded."""
    homes = {sys.modules[type(module).__module__] for module in model.modules()}
    originals = [(home, home.eager_attention_forward) for home in homes if hasattr(home, "eager_attention_forward")]

    def noting(attend: Callable[..., Any]) -> Callable[..., Any]:
        def noted(module: Module, query: Tensor, key: Tensor, value: Tensor, *given: Any, **named: Any) -> Any:
            output, weights = attend(module, query, key, value, *given, **named)
            if weights is not None:
                again = partial(attend, module, query, key, value, *given, **named)
                calls.append(AttentionCall(module, value, output, weights, lambda: again()[1]))
            return output, weights

        return noted

    for home, attend in originals:
        home.eager_attention_forward = noting(attend)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        for home, attend in originals:
            home.eager_attention_forward = attend  # pyright: ignore[reportAttributeAccessIssue]

"""Attention maps and value norms of many texts, left on the device where the model ran: reduced there, never stored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.contract import Activations, MapBatch, Want, apart
from lamina.models.running.anatomy import Anatomy, attention_by, block_number, run
from lamina.models.running.batching import (
    Carrier,
    Chunk,
    InputRow,
    Packing,
    RowBatch,
    RunsRows,
    row_groups,
    run_batches,
    start_batch,
)
from lamina.models.running.devices import input_device, weight_of
from lamina.models.running.tokens import TokenizedText, WordTokenizer
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


CHECKED = (
    "BERT, RoBERTa, ELECTRA, ALBERT, MPNet, DistilBERT, DeBERTa-v2, ModernBERT, BART, T5, GPT-2, GPT-NeoX, OPT, BLOOM, "
    "Falcon, Gemma, Llama, Mistral, Phi-3 and Qwen"
)
"""Architectures that the tests compare with the formula; others work where their parts are found."""
VALUES_IN_LINEAR_LAYERS = {
    *("big_bird", "bloom", "deberta-v2", "falcon", "flaubert", "gpt_neo", "gpt_neox_japanese", "gptj", "imagegpt"),
    *("luke", "megatron-bert", "mpnet", "mvp", "rembert", "roformer", "tapas", "visual_bert", "xglm", "xlm"),
}
"""Model types that compute attention in their own code, and whose values are always found among the linear layers:
if they are not, the maps are wrong."""
_TOKENS = 8
"""Of the input that the parts are looked for with."""
_APART = 0.02
"""Relative error under which two vectors are the same; half precision is off by less, a wrong part by about 1."""


def weigh_by_norm(
    maps: Float[Tensor, "block head token token"], norms: Float[Tensor, "block head token"]
) -> Float[Tensor, "block head token token"]:
    """Attention times the norm of what is attended to; rows are divided by their sum.

    Example:
        >>> maps, norms = torch.tensor([[[[0.9, 0.1], [0.5, 0.5]]]]), torch.tensor([[[1.0, 9.0]]])
        >>> weigh_by_norm(maps, norms).squeeze().round(decimals=2)
        tensor([[0.5000, 0.5000],
                [0.1000, 0.9000]])
    """
    weighed = maps * norms.unsqueeze(-2)
    return weighed.div_(weighed.sum(-1, keepdim=True).clamp_min_(torch.finfo(weighed.dtype).tiny))


class _LinearCall(NamedTuple):
    """One use of a linear layer."""

    layer: Module
    block: int | None
    """Where the layer is, by the first number in its path."""
    given: Float[Tensor, "token wide"]
    output: Float[Tensor, "token wide"]


class _ValueLayout(NamedTuple):
    """Where a linear layer's output has the values, `size` numbers per head."""

    size: int
    start: int
    """The first feature that belongs to a value, where values come last (0: it makes values alone) ..."""
    by_head: bool = False
    """... unless query, key and value of each head stand together."""
    tiled: bool = False
    """Whether groups of heads are matched in the wrong order, which is only looked for to name a fault."""

    def __call__(self, output: Float[Tensor, "*token wide"], heads: int) -> Float[Tensor, "*token head size"]:
        if self.by_head:
            return output.unflatten(-1, (heads, 3, self.size))[..., 2, :]
        values = output[..., self.start :].unflatten(-1, (-1, self.size))
        # Grouped heads share their values: neighbours have the same.
        times = heads // values.shape[-2]
        if self.tiled:
            return values.repeat(*[1] * (values.dim() - 2), times, 1)
        return values.repeat_interleave(times, -2)


class _BlockValues(NamedTuple):
    values: _ValueLayout
    factors: Float[Tensor, "head size size"]
    """Of each head's output projection W: `||v W|| = ||v R'||` with the triangle R of the QR decomposition of W',
    which is as small as a head."""


class ValueNorms:
    """Taken while a model runs, in any architecture in which the values and the output projection can be found.

    They are found by testing, not by names: of a model's linear layers, the values are what the attention maps
    mix into the input of a later layer.
    """

    def __init__(self, model: PreTrainedModel, *, name: str, heads: int, maps: Mapping[int, int] | None = None) -> None:
        self._heads = heads
        self._blocks: dict[Module, _BlockValues] = {}
        for block, mixing in enumerate(mixings(model, heads=heads, maps=maps), start=1):
            if mixing is None or not mixing.sound:
                raise ModelError(
                    f"{name} ({type(model).__name__}): the values that the attention of block {block} mixes are not "
                    "among its linear layers, so attention cannot be weighted by their norms; use --weights attention, "
                    f"or a model like {CHECKED}"
                )
            # Weights that are in memory or on disk until they run are not read where the layer runs.
            factors = _factors(mixing.out, heads).to(input_device(mixing.layer))
            self._blocks[mixing.layer] = _BlockValues(mixing.values, factors)

    @contextmanager
    def taken(self) -> Iterator[list[Float[Tensor, "batch head token"]]]:
        """While it is open, the norms of every block that runs are added to the list, in the order of blocks."""
        norms: list[Tensor] = []

        def take(layer: Module, _given: Any, output: Tensor) -> None:
            values, factors = self._blocks[layer]
            # One small product per head; in single precision, whatever the model runs in.
            mixed = torch.einsum("bthd,hed->bhte", values(output.float(), self._heads), factors)
            norms.append(mixed.norm(dim=-1))

        handles = [layer.register_forward_hook(take) for layer in self._blocks]
        try:
            yield norms
        finally:
            for handle in handles:
                handle.remove()


class ValueMixing(NamedTuple):
    """How a block's values, mixed by maps, become the input of its output projection."""

    layer: Module
    """It makes the values ..."""
    values: _ValueLayout
    """... in these of its features."""
    out: Module
    """The output projection."""
    groups: int
    """Heads of values; fewer than heads where some share them."""
    uses_block_maps: bool
    """Whether they are mixed by the block's own maps."""
    maps_of: int
    """By the maps of which block, counted among those that have maps."""

    @property
    def tiled(self) -> bool:
        """Whether groups of heads are matched in the wrong order."""
        return self.values.tiled

    @property
    def sound(self) -> bool:
        """Whether it is as it should be."""
        return self.uses_block_maps and not self.tiled


def mixings(
    model: PreTrainedModel, *, heads: int, maps: Mapping[int, int] | None = None, bar: float = _APART
) -> list[ValueMixing | None]:
    """For every block with maps, what they mix; None where that is not among the block's linear layers.

    Args:
        model: of transformers.
        heads: per block.
        maps: block -> which of the model's attentions are its maps, where not all blocks have maps.
        bar: relative error up to which two vectors are the same.

    The right answer is looked for first: values of the block, mixed by its own maps, heads that share values being
    neighbours. Then the maps of other blocks and the other order of shared heads, so that a fault can be named.
    """
    handed, calls = _try(model, None if maps is None else tuple(maps.values()))
    blocks = tuple(range(len(handed)) if maps is None else maps)
    return [_mixing(number, handed, _calls_of(number, blocks, calls), heads, bar) for number in range(len(handed))]


def _mixing(
    number: int, maps: list[Tensor], calls: Sequence[_LinearCall], heads: int, bar: float
) -> ValueMixing | None:
    for tiled in (False, True):
        for other in (number, *(candidate for candidate in range(len(maps)) if candidate != number)):
            match = _find(maps[other], calls, heads, bar, tiled=tiled)
            if match is not None:
                return ValueMixing(*match, other == number, other)
    return None


def _calls_of(number: int, blocks: Sequence[int], calls: Sequence[_LinearCall]) -> Sequence[_LinearCall]:
    """The uses of linear layers within the block of the map `at`."""
    if {call.block for call in calls} >= set(blocks):
        return [call for call in calls if call.block == blocks[number]]
    # Blocks that share their layers, or are not numbered, run one after the other.
    size = len(calls) // len(blocks)
    return calls[number * size : (number + 1) * size]


def _try(model: PreTrainedModel, places: Sequence[int] | None) -> tuple[list[Tensor], list[_LinearCall]]:
    """The maps [head, token, token] of every block on a few tokens, and all uses of linear layers on the way."""
    calls: list[_LinearCall] = []

    def watch(block: int | None) -> Any:
        def note(layer: Module, given: Any, output: Any) -> None:
            # Relative positions, for example, have rows that are not tokens.
            if isinstance(output, Tensor) and output.shape[:-1] == ids.shape:
                read, wrote = (part[0].float().to(ids.device) for part in (given[0], output))
                calls.append(_LinearCall(layer, block, read, wrote))

        return note

    ids = torch.arange(1, 1 + min(_TOKENS, model.config.vocab_size - 1), device=input_device(model))[None]
    linear = [(block_number(path), layer) for path, layer in model.named_modules() if is_linear(layer)]
    handles = [layer.register_forward_hook(watch(block)) for block, layer in linear]
    try:
        with torch.no_grad():
            out = run(model, ids, maps=True)
    finally:
        for handle in handles:
            handle.remove()
    handed = out.attentions if places is None else [out.attentions[place] for place in places]
    return [maps[0].float().to(ids.device) for maps in handed], calls


def _find(
    maps: Float[Tensor, "head token token"], calls: Sequence[_LinearCall], heads: int, bar: float, *, tiled: bool
) -> tuple[Module, _ValueLayout, Module, int] | None:
    """The first two calls of which one makes the values that, mixed by the maps, are what the other is given."""
    for number, one in enumerate(calls):
        for other in calls[number + 1 :]:
            for values in _layouts(one.output.shape[-1], other.given.shape[-1], heads):
                groups = heads if values.by_head else (one.output.shape[-1] - values.start) // values.size
                if tiled and groups in (1, heads):
                    continue
                chosen = values._replace(tiled=tiled)
                mixed = torch.einsum("hij,jhd->ihd", maps, chosen(one.output, heads)).flatten(1)
                if (mixed - other.given).norm() < bar * other.given.norm():
                    return one.layer, chosen, other.layer, groups
    return None


def _layouts(features: int, mixed: int, heads: int) -> Iterator[_ValueLayout]:
    """The ways in which `made` features can hold the values of heads that are `mixed` wide together."""
    size = mixed // heads
    if mixed % heads or not size:
        return
    # Values alone, of all heads or of groups; then query, key and value in one layer.
    for width in (features, (features - mixed) // 2):
        if 0 < width <= mixed and width % size == 0 and heads % (width // size) == 0:
            yield _ValueLayout(size, features - width)
    if features == 3 * mixed:
        yield _ValueLayout(size, 0, by_head=True)


def _factors(layer: Module, heads: int) -> Float[Tensor, "head size size"]:
    weight = weight_of(layer)
    # [head, size, width]; GPT-2's layers have their weight the other way round.
    by_head = (weight if isinstance(layer, _conv1d()) else weight.T).detach().float().unflatten(0, (heads, -1))
    return torch.linalg.qr(by_head.transpose(1, 2), mode="r").R


def is_linear(layer: Module) -> bool:
    """Whether a layer multiplies by a matrix."""
    return isinstance(layer, torch.nn.Linear | _conv1d())


@cache
def _conv1d() -> type[Module]:
    from transformers.pytorch_utils import Conv1D

    return Conv1D

"""Attention maps of many texts at a time, left where the model ran: they are reduced there, and never kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.contract import Activations, MapBatch, Want, apart
from lamina.models.running.anatomy import attention_by
from lamina.models.running.batching import InputRow
from lamina.models.running.tokens import TokenizedText
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.models.running.huggingface import HuggingFaceEncoder


_TEXTS_AHEAD = 1024
"""Texts sorted by length together."""
_CELLS = {"cpu": 2**26}
"""Numbers in the maps of one batch, all blocks together: 256 MiB ..."""
_CELLS_ELSEWHERE = 2**28
"""... and 1 GiB on an accelerator. A text of its own may need more."""

_TOGETHER, _LARGE = 8, 2**20
"""Texts that an encoder gave one by one and that are padded together, and the numbers in the maps of a large one."""


class EagerMaps(NamedTuple):
    """What a pass with maps gave, padding included; empty where it was not asked for."""

    maps: Sequence[Float[Tensor, "row head token token"]]
    """Of every block."""
    norms: Sequence[Float[Tensor, "row head token"]]
    """Of every block."""


def eager_maps(encoder: HuggingFaceEncoder, rows: Sequence[InputRow], want: Collection[Want]) -> EagerMaps:
    """Run the model by the implementation of attention that hands its maps out."""
    with torch.no_grad(), attention_by(encoder.model, "eager"):
        inputs = encoder.inputs(rows)
        with encoder.value_norms.taken() if "norms" in want else nullcontext([]) as norms:
            out = encoder.model(**inputs, output_attentions="maps" in want)
    places = encoder.anatomy.maps.values() if "maps" in want else ()
    # Blocks of a large model may be on several devices.
    handed = [out.attentions[place].to(encoder.device) for place in places]
    return EagerMaps(handed, [block.to(encoder.device) for block in norms])


def map_batches(encoder: HuggingFaceEncoder, texts: Iterable[Text], *, norms: bool) -> Iterator[MapBatch]:
    """See `Encoder.map_batches`. Within every so many texts, the longest come first."""
    want: tuple[Want, ...] = ("maps", "norms") if norms else ("maps",)
    if not encoder.heads:
        raise ModelError(
            f"{encoder.name} ({type(encoder.model).__name__}) has no attention maps: {encoder.anatomy.no_maps}"
        )
    encoder.refuse(want)
    left = iter(texts)
    while some := list(islice(left, _TEXTS_AHEAD)):
        ahead = [(text.id, cut) for text, cut in zip(some, encoder.pieces.cut(some), strict=True)]
        # Maps of windows would not be the text's.
        whole = [each for each in ahead if len(each[1].tokens.ids) <= encoder.limit]
        for group in _groups(encoder, [len(each.tokens.ids) for _, each in whole]):
            yield _batch(encoder, [whole[at] for at in group], want)
        for name, each in ahead:
            if len(each.tokens.ids) > encoder.limit:
                yield MapBatch((name,), (each.tokens,))


def _groups(encoder: HuggingFaceEncoder, lengths: Sequence[int]) -> Iterator[list[int]]:
    heads = len(encoder.map_blocks) * encoder.heads
    most = _CELLS.get(encoder.device.type, _CELLS_ELSEWHERE)
    for group in encoder.row_groups(lengths):
        # Longest first: none of the others has larger maps.
        together = max(1, most // (heads * lengths[group[0]] ** 2))
        yield from (group[start : start + together] for start in range(0, len(group), together))


def _batch(encoder: HuggingFaceEncoder, texts: Sequence[tuple[str, TokenizedText]], want: Sequence[Want]) -> MapBatch:
    rows = [row for at, (_, cut) in enumerate(texts) for row in encoder.rows(at, cut)]
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


def padded_together(made: Sequence[Activations]) -> MapBatch:
    """Maps of single texts as one batch.

    Example:
        >>> from lamina.models.contract import Tokens
        >>> made = [Activations(str(size), Tokens(np.arange(size), np.arange(size)), maps=torch.ones(2, 1, size, size))
        ...         for size in (2, 3)]
        >>> [tuple(block.shape) for block in padded_together(made).maps]
        [(2, 1, 3, 3), (2, 1, 3, 3)]
    """
    longest = max(len(each.tokens.ids) for each in made)
    maps, norms = [each.maps for each in made if each.maps is not None], [e.norms for e in made if e.norms is not None]
    room = maps[0].new_zeros(maps[0].shape[0], len(made), maps[0].shape[1], longest, longest)
    beside = maps[0].new_zeros(room.shape[:-1])
    for at, each in enumerate(maps):
        room[:, at, :, : each.shape[-1], : each.shape[-1]] = each
    for at, each in enumerate(norms):
        beside[:, at, :, : each.shape[-1]] = each
    names, tokens = tuple(each.text for each in made), tuple(each.tokens for each in made)
    return MapBatch(names, tokens, room.unbind(), beside.unbind() if norms else ())


def padded_batches(made: Iterable[Activations]) -> Iterator[MapBatch]:
    """Texts that were encoded one by one, a few at a time; in their order."""
    held: list[Activations] = []
    for each in made:
        if each.maps is None:
            yield MapBatch((each.text,), (each.tokens,))
            continue
        held.append(each)
        if len(held) == _TOGETHER or each.maps.numel() > _LARGE:
            yield padded_together(held)
            held = []
    if held:
        yield padded_together(held)


# What a model's eager attention function is given and makes, noted while the model runs.


class AttentionCall(NamedTuple):
    """One call of a model's eager attention function."""

    module: Module
    value: Tensor
    """[row, key-value head, token, size]"""
    made: Tensor
    """[row, token, head, size]"""
    weights: Tensor
    """[row, head, token, token]"""
    again: Callable[[], Tensor]
    """The weights, computed again."""

    def makes(self, values: Tensor) -> float:
        """How far the values [row, head, token, size] of all heads, mixed by the weights, are from what was made."""
        return apart((self.weights @ values).transpose(1, 2).flatten(2), self.made.flatten(2))


@contextmanager
def recorded_attention(model: Module, calls: list[AttentionCall]) -> Iterator[None]:
    """While it is open, the calls of the attention function that models keep beside their classes are noted."""
    homes = {sys.modules[type(module).__module__] for module in model.modules()}
    kept = [(home, home.eager_attention_forward) for home in homes if hasattr(home, "eager_attention_forward")]

    def noting(attend: Callable[..., Any]) -> Callable[..., Any]:
        def noted(module: Module, query: Tensor, key: Tensor, value: Tensor, *given: Any, **named: Any) -> Any:
            made, weights = attend(module, query, key, value, *given, **named)
            if weights is not None:
                again = partial(attend, module, query, key, value, *given, **named)
                calls.append(AttentionCall(module, value, made, weights, lambda: again()[1]))
            return made, weights

        return noted

    for home, attend in kept:
        home.eager_attention_forward = noting(attend)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        for home, attend in kept:
            home.eager_attention_forward = attend  # pyright: ignore[reportAttributeAccessIssue]

"""What a transformers model consists of, found by running it on a few tokens: configs name things differently."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import Module

from lamina.encoders.blocks import Watched, watch_blocks
from lamina.encoders.comparing import IN_ONE_BATCH, TOLERANCE, apart
from lamina.encoders.placement import input_device, is_spread
from lamina.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LENGTH = 7
"""Tokens of the trial; no size of a head, so that what is as wide as the text is a map over its tokens."""
_CHANGED = (2, 5)
"""Positions from which on tokens are replaced, to see what depends on them."""
_KEPT = 4
"""Tokens that are left where the others are padding."""

_BOTH_WAYS = {"xlnet", "cpmant", "prophetnet"}
"""Model types that predict the next word by masks of their own, not by attention that looks back."""

_locks: WeakKeyDictionary[Module, threading.RLock] = WeakKeyDictionary()
_making = threading.Lock()


class Anatomy(NamedTuple):
    """What running a model shows."""

    blocks: int
    width: int
    dtype: torch.dtype
    """Of the states; wider than that of the weights where a model adds up in float32."""
    heads: int
    """Per block; 0 where there are no maps."""
    maps: dict[int, int]
    """Blocks (from 0) that give attention maps -> where these are among the attentions of the model's output."""
    no_maps: str
    """Why there are no maps, where there are none."""
    causal: bool
    """Whether no layer of a token depends on later tokens."""
    pads: bool
    """Whether texts of different length can share a batch: padding changes nothing."""
    shifted: str | None
    """Where the blocks are, if transformers does not hand out what they read as layers: layers are taken from them."""


def text_part(model: PreTrainedModel) -> PreTrainedModel:
    """The part of a model that reads words: itself, or the language model inside a multimodal one."""
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel):
        raise ModelError(f"{type(model).__name__} is not a transformers model of its own, so it cannot be run alone")
    text = model.config.get_text_config(decoder=False if model.config.is_encoder_decoder else None)
    if text is model.config:
        return model
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel) and part.config is text]
    return parts[0] if parts else model


def accepted(model: Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """Those inputs that a model's forward function names."""
    named = inspect.signature(model.forward).parameters
    return {name: value for name, value in inputs.items() if name in named}


@contextmanager
def attention_by(model: PreTrainedModel, implementation: str | None) -> Iterator[None]:
    """Within the block, attention is computed by an implementation of transformers (None: the model's own).

    One block at a time per model: another thread would change the implementation under a running one.
    """
    with _making:
        lock = _locks.setdefault(model, threading.RLock())
    with lock:
        found = str(model.config._attn_implementation)
        if implementation is None or implementation == found:
            yield
            return
        # Not set_attn_implementation, which some models refuse with a log line though they read this setting (Falcon).
        model.config._attn_implementation = implementation
        try:
            yield
        finally:
            model.config._attn_implementation = found


def anatomy(model: PreTrainedModel, ids: Sequence[int], *, name: str) -> Anatomy:
    """Blocks, heads, width and direction of a model; raises a ModelError if it is not one that lamina can take.

    Args:
        model: of transformers, in eval mode.
        ids: of some ordinary tokens, at least two different ones.
        name: in errors.
    """
    said = f"{name} ({type(model).__name__})"
    takes = list(inspect.signature(model.forward).parameters)
    if "input_ids" not in takes:
        raise ModelError(f"{said} does not read words, but {takes[0]}; use a text model")
    _check_table(model, ids, said)
    rows = _rows(ids).to(input_device(model))
    try:
        with torch.no_grad(), attention_by(model, None):
            hidden = _hidden(model, rows, torch.ones_like(rows))
            watched = watch_blocks(model, given(model, rows[:1]))
            padded = _padded(model, rows)
            alone = _hidden(model, rows[:1, :_KEPT], torch.ones_like(rows[:1, :_KEPT]))
        with torch.no_grad(), attention_by(model, "eager"):
            maps = _maps(model, rows[:1])
    except ModelError as error:
        raise ModelError(f"{said}: {error}") from None
    except Exception as error:
        # Each architecture fails in its own way on inputs that are not its own.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        if is_spread(model):
            raise ModelError(
                f"{said} cannot run with parts of it kept in memory or on disk ({reason}); use --device cpu or cuda, "
                "and --dtype bfloat16 if it does not fit"
            ) from error
        raise ModelError(f"{said} cannot be run on words alone ({reason}); use a text model") from error
    bar = TOLERANCE[model.dtype]
    return Anatomy(
        blocks=len(hidden) - 1,
        width=hidden[0].shape[-1],
        dtype=reduce(torch.promote_types, (each.dtype for each in (*hidden, *(read.given for read in watched.reads)))),
        heads=maps.heads,
        maps=maps.places,
        no_maps=maps.reason,
        causal=_is_causal(hidden, IN_ONE_BATCH[model.dtype]),
        pads=padded is not None and apart(padded, torch.stack([layer[0] for layer in alone])) <= bar,
        shifted=_shifted(watched),
    )


def run(model: PreTrainedModel, ids: Tensor, mask: Tensor | None = None, *, maps: bool = False) -> Any:
    """A model's output for token ids, with the states of all layers."""
    return model(**given(model, ids, mask), output_hidden_states=True, output_attentions=maps)


def given(model: PreTrainedModel, ids: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
    """Token ids and their mask as the model takes them."""
    seen = torch.ones_like(ids) if mask is None else mask
    return accepted(model, {"input_ids": ids, "attention_mask": seen, "use_cache": False})


class _Maps(NamedTuple):
    heads: int
    places: dict[int, int]
    reason: str = ""


def _maps(model: PreTrainedModel, ids: Tensor) -> _Maps:
    out = run(model, ids, maps=True)
    found = list(getattr(out, "attentions", None) or ())
    places = [place for place, each in enumerate(found) if _is_square(each, ids.shape[-1])]
    if not places:
        return _Maps(0, {}, "none of its blocks gives attention from token to token")
    heads = sorted({found[place].shape[1] for place in places})
    if len(heads) > 1:
        return _Maps(0, {}, f"its blocks have different numbers of heads ({heads[0]} to {heads[-1]})")
    if len(found) == len(out.hidden_states) - 1:
        return _Maps(heads[0], {place: place for place in places})
    # Fewer maps than blocks: some blocks mix tokens in other ways. Those that attend are found by watching them.
    blocks = _attending(model, ids)
    if len(blocks) != len(places):
        return _Maps(0, {}, f"it gives {len(places)} attention maps, and which blocks they belong to cannot be told")
    return _Maps(heads[0], dict(zip(blocks, places, strict=True)))


def _is_square(each: Any, size: int) -> bool:
    return isinstance(each, Tensor) and each.dim() == 4 and tuple(each.shape[-2:]) == (size, size)


def _attending(model: PreTrainedModel, ids: Tensor) -> list[int]:
    """The blocks, from 0, within which a module gives maps, in the order in which they run."""
    order: dict[int, None] = {}

    def watch(number: int) -> Any:
        def note(_module: Module, _given: Any, made: Any) -> None:
            parts = made if isinstance(made, tuple) else (made,)
            if any(_is_square(part, ids.shape[-1]) for part in parts):
                order[number] = None

        return note

    numbered = [(block_number(path), module) for path, module in model.named_modules()]
    handles = [module.register_forward_hook(watch(at)) for at, module in numbered if at is not None]
    try:
        run(model, ids, maps=True)
    finally:
        for handle in handles:
            handle.remove()
    return list(order)


def block_number(path: str) -> int | None:
    """The first number in a module's path.

    Example:
        >>> block_number("encoder.layer.3.attention"), block_number("embeddings")
        (3, None)
    """
    return next((int(part) for part in path.split(".") if part.isdigit()), None)


def only_causal(model_type: str) -> bool:
    """Whether models of a type are language models that predict the next word and nothing else.

    Example:
        >>> only_causal("bloom"), only_causal("bert"), only_causal("xlnet")
        (True, False, False)
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED

    return model_type in CAUSAL and model_type not in MASKED and model_type not in _BOTH_WAYS


def _check_table(model: PreTrainedModel, ids: Sequence[int], said: str) -> None:
    table = embedding_table(model)
    if table is not None and ids and max(ids) >= table.num_embeddings:
        raise ModelError(
            f"{said}: the tokenizer gives the id {max(ids)}, but the model knows {table.num_embeddings} tokens; the "
            "tokenizer is not the one of this model"
        )


def embedding_table(model: PreTrainedModel) -> torch.nn.Embedding | None:
    """The table of piece embeddings, where there is one."""
    try:
        table: Any = model.get_input_embeddings()
    except NotImplementedError:
        return None
    return table if isinstance(table, torch.nn.Embedding) else None


def _rows(ids: Sequence[int]) -> Tensor:
    """A text, and the same text with other tokens from some positions on."""
    known = list(dict.fromkeys(ids))
    base = [known[at % len(known)] for at in range(_LENGTH)]
    # Every token is replaced by the next one that is known.
    other = [known[(at + 1) % len(known)] for at in range(_LENGTH)]
    return torch.tensor([base, *([*base[:at], *other[at:]] for at in _CHANGED)])


def _hidden(model: PreTrainedModel, ids: Tensor, mask: Tensor) -> list[Tensor]:
    """The states of all layers, [row, token, width]."""
    hidden = getattr(run(model, ids, mask), "hidden_states", None)
    if not hidden:
        raise ModelError("it gives no hidden states by layer")
    shapes = {tuple(layer.shape) for layer in hidden}
    if len(shapes) > 1 or len(next(iter(shapes))) != 3 or next(iter(shapes))[:2] != tuple(ids.shape):
        said = " and ".join(str(shape) for shape in sorted(shapes))
        raise ModelError(f"its layers do not hold one vector per token, all of one width (shapes {said})")
    return [layer.to(ids.device) for layer in hidden]


def _padded(model: PreTrainedModel, rows: Tensor) -> Tensor | None:
    """[layer, token, width] The first row's states with its last tokens as padding; None if there is no mask."""
    if "attention_mask" not in accepted(model, {"attention_mask": None}):
        return None
    # Padding that is a token like others: a model that looks at it shows it.
    mask = torch.ones_like(rows[:1])
    mask[:, _KEPT:] = 0
    return torch.stack([layer[0, :_KEPT] for layer in _hidden(model, rows[:1], mask)])


def _is_causal(hidden: Sequence[Tensor], bar: float) -> bool:
    states = torch.stack([layer.float() for layer in hidden])
    return all(apart(states[:, row, :at], states[:, 0, :at]) <= bar for row, at in enumerate(_CHANGED, start=1))


def _shifted(watched: Watched) -> str | None:
    # Only where it is certain what the layers are: blocks that read what the one before made.
    sure = watched.chained and len(watched.reads) == len(watched.hidden) - 1 and watched.ends_with(watched.final)
    return watched.path if sure and not watched.ordered else None

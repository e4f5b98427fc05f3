"""What a transformers model consists of, found by running it on a few tokens, since configs name things differently."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.contract import IN_ONE_BATCH, TOLERANCE, apart
from lamina.models.running.devices import input_device, is_spread

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# The blocks of a model: their modules, inputs and outputs, found by recording a run.

SAME = 1e-5
"""Relative error up to which two tensors of one run are the same."""


class ModuleCall(NamedTuple):
    """One call of a module: the states it read and the states it returned."""

    given: Tensor
    output: Tensor | None


class WatchedRun(NamedTuple):
    """A recorded run: layers, and the calls of the blocks."""

    hidden: list[Tensor]
    """The layers that transformers hands out."""
    path: str | None
    """Where the list of blocks is; None if no modules are known to be the blocks."""
    reads: list[ModuleCall]
    """The blocks' calls."""
    chained: bool
    """Whether each block reads the output of the one before."""
    ends: list[Tensor]
    """Candidates for the last layer: the output of the last block, and of later modules (a final norm) on it."""
    final: Tensor | None
    """The model's last states."""

    def ends_with(self, layer: Tensor | None, bar: float = SAME) -> bool:
        """Whether a layer [row, token, width] is the final output of the blocks."""
        return layer is not None and any(apart(end.float().cpu(), layer.float().cpu()) <= bar for end in self.ends)

    @property
    def ordered(self) -> bool:
        """Whether the layers are the inputs of the blocks, in order."""
        same = len(self.reads) == len(self.hidden) - 1
        return same and all(
            apart(read.given, layer) <= SAME for read, layer in zip(self.reads, self.hidden, strict=False)
        )


def watch_blocks(model: PreTrainedModel, inputs: dict[str, Any]) -> WatchedRun:
    """Run a model and record the inputs of its blocks."""
    lists: dict[str, list[ModuleCall]] = {}
    others: list[ModuleCall] = []

    def watch(path: str) -> Any:
        parent, _, name = path.rpartition(".")

        def note(_module: Module, given: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
            read = states_in((*given, *named.values()), size)
            if read is not None:
                (lists.setdefault(parent, []) if name.isdigit() else others).append(
                    ModuleCall(read, states_in(output, size))
                )

        return note

    size = inputs["input_ids"].shape
    watched = [(path, module) for path, module in model.named_modules() if path]
    handles = [module.register_forward_hook(watch(path), with_kwargs=True) for path, module in watched]
    try:
        out = model(**inputs, output_hidden_states=True)
    finally:
        for handle in handles:
            handle.remove()
    hidden: list[Tensor] = list(getattr(out, "hidden_states", None) or ())
    path = _blocks_among(lists, hidden)
    reads = lists.get(path, []) if path is not None else []
    return WatchedRun(
        hidden, path, reads, _is_chain(reads), _ends(reads, others), getattr(out, "last_hidden_state", None)
    )


def _blocks_among(lists: dict[str, list[ModuleCall]], hidden: list[Tensor]) -> str | None:
    """Of lists of modules, the outermost that run one after the other, as often as there are layers if possible.

    Of two, as in an encoder-decoder, the one that begins with layer 0.
    """
    blocks = len(hidden) - 1
    chains = [parent for parent, reads in lists.items() if _is_chain(reads)] or [
        parent for parent, reads in lists.items() if len(reads) == blocks
    ]

    def rank(parent: str) -> tuple[bool, int, bool, int]:
        reads = lists[parent]
        begins = bool(hidden) and apart(reads[0].given, hidden[0]) <= SAME
        return len(reads) != blocks, parent.count("."), not begins, -len(reads)

    return min(chains, key=rank, default=None)


def _is_chain(reads: list[ModuleCall]) -> bool:
    outputs = [read.output for read in reads]
    return all(
        one is not None and one.shape == two.given.shape and apart(one, two.given) <= SAME
        for one, two in zip(outputs, reads[1:], strict=False)
    ) and bool(reads)


def _ends(reads: list[ModuleCall], others: list[ModuleCall]) -> list[Tensor]:
    output = reads[-1].output if reads else None
    if output is None:
        return []
    return [output, *(read.output for read in others if read.output is not None and apart(read.given, output) <= SAME)]


def states_in(value: Any, size: torch.Size) -> Tensor | None:
    """The first tensor of a module's input or output that has a vector per token, copied: some add to it in place."""
    for part in value if isinstance(value, tuple | list) else (value,):
        if isinstance(part, Tensor) and part.dim() == 3 and part.is_floating_point():
            if part.shape[:2] == size:
                return part.detach().clone()
            # XLNet runs tokens by rows.
            if part.shape[:2] == size[::-1]:
                return part.detach().transpose(0, 1).clone()
    return None


@contextmanager
def noted_inputs(model: PreTrainedModel, path: str) -> Iterator[list[Tensor]]:
    """While it is open, what the blocks of a list read is added to the list, in the order in which they run."""
    noted: list[Tensor] = []
    size: list[torch.Size] = []

    def begin(_module: Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids = named["input_ids"] if "input_ids" in named else given[0]
        size.append(ids.shape)

    def note(_module: Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        read = states_in((*given, *named.values()), size[-1])
        if read is not None:
            noted.append(read)

    handles = [model.register_forward_pre_hook(begin, with_kwargs=True)]
    handles += [
        block.register_forward_pre_hook(note, with_kwargs=True) for block in model.get_submodule(path).children()
    ]
    try:
        yield noted
    finally:
        for handle in handles:
            handle.remove()


_LENGTH = 7
"""Tokens of the trial; no size of a head, so that what is as wide as the text is a map over its tokens."""
_CHANGED = (2, 5)
"""Positions from which on tokens are replaced, to see what depends on them."""
_UNPADDED = 4
"""Tokens that are left where the others are padding."""

_BOTH_WAYS = {"xlnet", "cpmant", "prophetnet"}
"""Model types that predict the next word by masks of their own, not by attention that looks back."""

_locks: WeakKeyDictionary[Module, threading.RLock] = WeakKeyDictionary()
_making = threading.Lock()


class Anatomy(NamedTuple):
    """Properties of a model, found by running it."""

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
        original = str(model.config._attn_implementation)
        if implementation is None or implementation == original:
            yield
            return
        # Not set_attn_implementation, which some models refuse with a log line though they read this setting (Falcon).
        model.config._attn_implementation = implementation
        try:
            yield
        finally:
            model.config._attn_implementation = original


def anatomy(model: PreTrainedModel, ids: Sequence[int], *, name: str) -> Anatomy:
    """Blocks, heads, width and direction of a model; raises a ModelError if it is not one that lamina can take.

    Args:
        model: of transformers, in eval mode.
        ids: of some ordinary tokens, at least two different ones.
        name: in errors.
    """
    description = f"{name} ({type(model).__name__})"
    takes = list(inspect.signature(model.forward).parameters)
    if "input_ids" not in takes:
        raise ModelError(f"{description} does not read words, but {takes[0]}; use a text model")
    _check_table(model, ids, description)
    rows = _rows(ids).to(input_device(model))
    try:
        with torch.no_grad(), attention_by(model, None):
            hidden = _hidden(model, rows, torch.ones_like(rows))
            watched = watch_blocks(model, given(model, rows[:1]))
            padded = _padded(model, rows)
            alone = _hidden(model, rows[:1, :_UNPADDED], torch.ones_like(rows[:1, :_UNPADDED]))
        with torch.no_grad(), attention_by(model, "eager"):
            maps = _maps(model, rows[:1])
    except ModelError as error:
        raise ModelError(f"{description}: {error}") from None
    except Exception as error:
        # Each architecture fails in its own way on inputs that are not its own.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        if is_spread(model):
            raise ModelError(
                f"{description} cannot run with parts of it kept in memory or on disk ({reason}); use --device cpu or "
                "cuda, and --dtype bfloat16 if it does not fit"
            ) from error
        raise ModelError(f"{description} cannot be run on words alone ({reason}); use a text model") from error
    bar = TOLERANCE[model.dtype]
    return Anatomy(
        blocks=len(hidden) - 1,
        width=hidden[0].shape[-1],
        dtype=reduce(
            torch.promote_types, (tensor.dtype for tensor in (*hidden, *(read.given for read in watched.reads)))
        ),
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
    attentions = list(getattr(out, "attentions", None) or ())
    places = [place for place, attention in enumerate(attentions) if _is_square(attention, ids.shape[-1])]
    if not places:
        return _Maps(0, {}, "none of its blocks gives attention from token to token")
    heads = sorted({attentions[place].shape[1] for place in places})
    if len(heads) > 1:
        return _Maps(0, {}, f"its blocks have different numbers of heads ({heads[0]} to {heads[-1]})")
    if len(attentions) == len(out.hidden_states) - 1:
        return _Maps(heads[0], {place: place for place in places})
    # Fewer maps than blocks: some blocks mix tokens in other ways. Those that attend are found by watching them.
    blocks = _attending(model, ids)
    if len(blocks) != len(places):
        return _Maps(0, {}, f"it gives {len(places)} attention maps, and it was not found which blocks they belong to")
    return _Maps(heads[0], dict(zip(blocks, places, strict=True)))


def _is_square(value: Any, size: int) -> bool:
    return isinstance(value, Tensor) and value.dim() == 4 and tuple(value.shape[-2:]) == (size, size)


def _attending(model: PreTrainedModel, ids: Tensor) -> list[int]:
    """The blocks, from 0, within which a module gives maps, in the order in which they run."""
    order: dict[int, None] = {}

    def watch(number: int) -> Any:
        def note(_module: Module, _given: Any, output: Any) -> None:
            parts = output if isinstance(output, tuple) else (output,)
            if any(_is_square(part, ids.shape[-1]) for part in parts):
                order[number] = None

        return note

    numbered = [(block_number(path), module) for path, module in model.named_modules()]
    handles = [module.register_forward_hook(watch(block)) for block, module in numbered if block is not None]
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


def _check_table(model: PreTrainedModel, ids: Sequence[int], description: str) -> None:
    table = embedding_table(model)
    if table is not None and ids and max(ids) >= table.num_embeddings:
        raise ModelError(
            f"{description}: the tokenizer gives the id {max(ids)}, but the model knows {table.num_embeddings} tokens; "
            "the tokenizer is not the one of this model"
        )


def embedding_table(model: PreTrainedModel) -> torch.nn.Embedding | None:
    """The table of token embeddings, where there is one."""
    try:
        table: Any = model.get_input_embeddings()
    except NotImplementedError:
        return None
    return table if isinstance(table, torch.nn.Embedding) else None


def _rows(ids: Sequence[int]) -> Tensor:
    """A text, and the same text with other tokens from some positions on."""
    known = list(dict.fromkeys(ids))
    base = [known[position % len(known)] for position in range(_LENGTH)]
    # Every token is replaced by the next one that is known.
    other = [known[(position + 1) % len(known)] for position in range(_LENGTH)]
    return torch.tensor([base, *([*base[:position], *other[position:]] for position in _CHANGED)])


def _hidden(model: PreTrainedModel, ids: Tensor, mask: Tensor) -> list[Tensor]:
    """The states of all layers, [row, token, width]."""
    hidden = getattr(run(model, ids, mask), "hidden_states", None)
    if not hidden:
        raise ModelError("it gives no hidden states by layer")
    shapes = {tuple(layer.shape) for layer in hidden}
    if len(shapes) > 1 or len(next(iter(shapes))) != 3 or next(iter(shapes))[:2] != tuple(ids.shape):
        listed = " and ".join(str(shape) for shape in sorted(shapes))
        raise ModelError(f"its layers do not hold one vector per token, all of one width (shapes {listed})")
    return [layer.to(ids.device) for layer in hidden]


def _padded(model: PreTrainedModel, rows: Tensor) -> Tensor | None:
    """[layer, token, width] The first row's states with its last tokens as padding; None if there is no mask."""
    if "attention_mask" not in accepted(model, {"attention_mask": None}):
        return None
    # Padding that is a token like others: a model that looks at it shows it.
    mask = torch.ones_like(rows[:1])
    mask[:, _UNPADDED:] = 0
    return torch.stack([layer[0, :_UNPADDED] for layer in _hidden(model, rows[:1], mask)])


def _is_causal(hidden: Sequence[Tensor], bar: float) -> bool:
    states = torch.stack([layer.float() for layer in hidden])
    return all(
        apart(states[:, row, :position], states[:, 0, :position]) <= bar
        for row, position in enumerate(_CHANGED, start=1)
    )


def _shifted(watched: WatchedRun) -> str | None:
    # Only where it is certain what the layers are: blocks that read what the one before made.
    sure = watched.chained and len(watched.reads) == len(watched.hidden) - 1 and watched.ends_with(watched.final)
    return watched.path if sure and not watched.ordered else None


# The last block, run on some tokens only: after the last mixing of tokens, each token is computed alone.
#
# Which module of the block mixes last, with the residual already added, is found by trying: its output is reduced to
# one token per row, and the model must then give the same state for that token. That works for BERT and similar models;
# where no module passes (residuals added outside, blocks that share weights) all tokens are run.

_PLACES = (2, 4)
"""Tokens of the trial, one per row."""
_mixers: WeakKeyDictionary[Module, Module | None] = WeakKeyDictionary()


def last_mixer(model: PreTrainedModel, ids: Sequence[int]) -> Module | None:
    """The module after which the last block treats tokens one by one; None where there is no such module.

    `ids` are those of some ordinary tokens, for the trial.
    """
    if model not in _mixers:
        _mixers[model] = _find_mixer(model, ids)
    return _mixers[model]


@contextmanager
def only_tokens(mixer: Module, places: Tensor, rows: Tensor | None = None) -> Iterator[None]:
    """Within the block, of every row only the token at its place goes on after the mixer.

    With `rows`, places are of these: any number of them in each row, and every one is a row of its own from there on.
    """
    chosen = torch.arange(len(places)) if rows is None else rows

    def cut(_module: Module, _given: Any, output: Any) -> Any:
        states, *others = output if isinstance(output, tuple) else (output,)
        selected = states[chosen.to(states.device), places.to(states.device)][:, None]
        return (selected, *others) if isinstance(output, tuple) else selected

    handle = mixer.register_forward_hook(cut)
    try:
        yield
    finally:
        handle.remove()


class SelectedTokens(NamedTuple):
    """The only tokens of rows that go through the modules after the last block's mixer."""

    mixer: Module
    places: Tensor
    rows: Tensor

    def put_back(self, states: Float[Tensor, "place one width"], rows: int, tokens: int) -> Tensor:
        """Where they were, [row, token, width], among NaN."""
        whole = states.new_full((rows, tokens, states.shape[-1]), torch.nan)
        whole[self.rows.to(states.device), self.places.to(states.device)] = states[:, 0]
        return whole


def _find_mixer(model: PreTrainedModel, trial: Sequence[int]) -> Module | None:
    places = torch.tensor(_PLACES)
    ids = torch.tensor(trial)[None].repeat(2, 1).to(input_device(model))
    # The rows differ, so that a mixer that confuses them is noticed.
    ids[1] = ids[1].flip(0)
    with torch.no_grad(), attention_by(model, None):
        watched = watch_blocks(model, given(model, ids))
        if watched.path is None or watched.final is None:
            return None
        expected = watched.final[torch.arange(2), places][:, None]
        for mixer in list(model.get_submodule(watched.path).children())[-1].children():
            try:
                with only_tokens(mixer, places):
                    states = model(**given(model, ids)).last_hidden_state
            except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
                # What follows expects all tokens.
                continue
            if states.shape == expected.shape and apart(states, expected) <= SAME:
                return mixer
    return None

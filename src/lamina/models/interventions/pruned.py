"""Weights by layer: exchanged with those of another model, or saved without some parts."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import Linear, Module, ModuleList

from lamina.errors import ModelError
from lamina.files.writing import fresh_folder, write_text
from lamina.models.contract import TOLERANCE, apart
from lamina.models.interventions.edited_runs import Edit, blocks_of
from lamina.models.interventions.interventions import Interventions
from lamina.models.running.anatomy import attention_by, given
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.weights.hub import quiet_transformers
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


Layers = tuple[tuple[str, ...], ...]
"""By layer, the names of its weights in the model without a head."""


def layer_weights(encoder: HuggingFaceEncoder) -> Layers:
    """The names of the weights of every layer, as `encode` counts layers.

    Layer l has the weights of block l. Layer 0 has everything that is used before the first block: embeddings, their
    norm, and positions that all blocks share (MPNet, DeBERTa). What is used after the last block, such as a final norm,
    belongs to the last layer.

    Example:
        >>> layers = layer_weights(lamina.load_encoder("minilm"))  # doctest: +SKIP
        >>> len(layers), layers[1][0]  # doctest: +SKIP
        (7, 'encoder.layer.0.attention.self.query.weight')
    """
    blocks = blocks_of(encoder)
    owners: dict[int, int] = {}
    for number, block in enumerate(blocks, start=1):
        for part in block.parameters():
            if id(part) in owners:
                raise ModelError(
                    f"{encoder.name} ({type(encoder.model).__name__}): its blocks share their weights, so no layer's "
                    "can be exchanged, frozen or re-initialised without those of the others; models like BERT, GPT-2 "
                    "or Llama work"
                )
            owners[id(part)] = number
    late = _used_after(encoder, blocks[-1])
    layers: list[list[str]] = [[] for _ in range(encoder.layers)]
    for name, part in encoder.model.named_parameters():
        # A pooler is part of the head that reads it.
        if not name.startswith("pooler."):
            layers[owners.get(id(part), encoder.blocks if id(part) in late else 0)].append(name)
    return tuple(map(tuple, layers))


def _used_after(encoder: HuggingFaceEncoder, last: Module) -> set[int]:
    """The weights of modules that first run after the last block."""
    ended = False
    before: set[int] = set()
    after: set[int] = set()

    def note(module: Module, _given: Any) -> None:
        (after if ended else before).update(id(part) for part in module.parameters(recurse=False))

    def end(_module: Module, _given: Any, _output: Any) -> None:
        nonlocal ended
        ended = True

    model = encoder.model
    handles = [module.register_forward_pre_hook(note) for module in model.modules()]
    handles.append(last.register_forward_hook(end))
    ids = torch.tensor(encoder.trial_ids)[None].to(encoder.device)
    try:
        with torch.no_grad(), attention_by(model, None):
            model(**given(model, ids))
    finally:
        for handle in handles:
            handle.remove()
    return after - before


def weights_of(encoder: HuggingFaceEncoder, names: Iterable[str]) -> dict[str, Tensor]:
    """Weights by name, as they are now."""
    return {name: encoder.model.get_parameter(name).detach() for name in names}


def refuse_unlike(one: HuggingFaceEncoder, other: HuggingFaceEncoder, layers: Layers) -> None:
    """Raise a ModelError where the weights of the first, by layer, have no counterpart in the second."""
    counterparts = dict(other.model.named_parameters())
    for layer, names in enumerate(layers):
        for name in names:
            part = one.model.get_parameter(name)
            counterpart = counterparts.get(name)
            if counterpart is None or counterpart.shape != part.shape:
                has = "has none" if counterpart is None else f"has one of {_shape(counterpart)}"
                raise ModelError(
                    f"{one.name} ({type(one.model).__name__}, {one.blocks} blocks) and {other.name} "
                    f"({type(other.model).__name__}, {other.blocks} blocks) are of different architectures: layer "
                    f"{layer} of the first has the weight {name} of {_shape(part)}, and the second {has}; name the "
                    "model that the first was tuned from"
                )


def _shape(part: Tensor) -> str:
    return " x ".join(map(str, part.shape)) or "one number"


@contextmanager
def exchanged(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """While it is open, a model has other weights, by their names in its body; afterwards its own again."""
    parameters = {name: model.base_model.get_parameter(name) for name in weights}
    originals = {name: part.detach().clone() for name, part in parameters.items()}
    try:
        set_weights(model, weights)
        yield
    finally:
        set_weights(model, originals)


def set_weights(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> None:
    """Give a model other weights, by their names in its body."""
    with torch.no_grad():
        for name, part in weights.items():
            model.base_model.get_parameter(name).copy_(part)


PRUNED = "lamina_pruned.json"
"""In the folder: what was removed, and of which model."""
_FORMAT = 1
_DEPTH = re.compile(
    r"(num_hidden_layers|n_layers?|num_layers|num_blocks|(num_)?(encoder|decoder)_layers|max_window_layers)"
)
"""Settings of a config that say how many blocks there are."""
_TRIED = (
    Text("", ("The", "dogs", "that", "saw", "the", "cat", "ran", "away", ".")),
    Text("", ("Who", "did", "it", "?")),
)
"""Texts of different length, which are read with padding."""


class RemovedParts(NamedTuple):
    """Parts that are removed, counted from 0.

    Example:
        >>> RemovedParts(heads=frozenset({(1, 0), (0, 3)})).names, RemovedParts(blocks=frozenset({2})).names
        (['1-4', '2-1'], ['3'])
    """

    heads: frozenset[tuple[int, int]] = frozenset()
    """(block, head)."""
    blocks: frozenset[int] = frozenset()

    @property
    def names(self) -> list[str]:
        """Heads as LAYER-HEAD and blocks as LAYER, counted from 1."""
        heads = [f"{block + 1}-{head + 1}" for block, head in sorted(self.heads)]
        return [*heads, *(str(block + 1) for block in sorted(self.blocks))]

    @property
    def by_block(self) -> dict[int, list[int]]:
        """Block -> its heads that are removed."""
        return {
            block: [head for owner, head in sorted(self.heads) if owner == block] for block, _ in sorted(self.heads)
        }

    def edit(self, parts: Interventions) -> Edit:
        """The edit that ablates them: heads output zeros, blocks pass their input through."""
        mixed = {
            block: change
            for block, heads in self.by_block.items()
            for change in parts.without(block, heads=heads).mixed.values()
        }
        return Edit(mixed=mixed, skipped=self.blocks)


def save_pruned(parts: Interventions, removed: RemovedParts, folder: Path) -> HuggingFaceEncoder:
    """Save a model, with its head and tokenizer, without some of its parts; returns it as it was read back.

    Of a head, the part of the output projection that reads it is 0: the shape stays. Blocks are left out, and the
    config says how many there are.

    Example:
        >>> parts = Interventions(lamina.load_encoder("minilm"))  # doctest: +SKIP
        >>> save_pruned(parts, RemovedParts(blocks=frozenset({5})), Path("shorter")).blocks  # doctest: +SKIP
        5
    """
    encoder = parts.encoder
    if encoder.blocks == len(removed.blocks):
        raise ModelError(f"{encoder.name}: a model without any block cannot be saved; keep at least one")
    _refuse_shared(parts, removed)
    whole = _whole(encoder)
    body = _body_in(whole, encoder)
    for block, heads in removed.by_block.items():
        _silence(_twin_of(parts.out(block), encoder, body), parts.without(block, heads=heads).mixed[block].where)
    if removed.blocks:
        _leave_out(whole, body, parts, removed.blocks)
    about = {
        "format": _FORMAT,
        "base": encoder.describe(),
        "heads_removed": RemovedParts(heads=removed.heads).names,
        "blocks_removed": RemovedParts(blocks=removed.blocks).names,
        "counted_from": 1,
        "before": _before(encoder),
    }
    _write(folder, whole, encoder, about)
    try:
        return _read_back(parts, removed, folder)
    except ModelError:
        shutil.rmtree(folder)
        raise


def save_weights(encoder: HuggingFaceEncoder, folder: Path, about: Mapping[str, Any] | None = None) -> None:
    """Save an encoder's weights as they are in memory, with the head and tokenizer it was loaded with.

    `about` goes beside them, where a model was trained on after parts of it were removed.
    """
    whole = _whole(encoder)
    _body_in(whole, encoder)
    _write(folder, whole, encoder, {**(_before(encoder) or {}), **(about or {})})


@contextmanager
def removed_stay_zero(parts: Interventions, heads: Iterable[tuple[int, int]]) -> Iterator[None]:
    """While it is open, training does not change what is 0 for the removed heads: their gradients are 0.

    That holds for optimizers without weight decay, and with it too: what is 0 decays to 0.
    """
    with ExitStack() as open_:
        for block, removed_heads in RemovedParts(heads=frozenset(heads)).by_block.items():
            out = parts.out(block)
            weight: Any = out.weight
            silent = _reads(out, parts.without(block, heads=removed_heads).mixed[block].where.to(weight.device), weight)
            # A weight that does not learn has no gradient to change.
            open_.callback(weight.requires_grad_, weight.requires_grad)
            weight.requires_grad_(True)
            hook = weight.register_hook(lambda gradient, silent=silent: gradient.masked_fill(silent, 0))
            open_.callback(hook.remove)
        yield


def _write(folder: Path, whole: Any, encoder: HuggingFaceEncoder, about: Mapping[str, Any]) -> None:
    with fresh_folder(folder) as fresh:
        try:
            with quiet_transformers():
                whole.save_pretrained(fresh)
                encoder.tokenizer.save_pretrained(fresh)
        except OSError:
            # The caller reports what the disk refuses.
            raise
        except Exception as error:
            # A config that has rules of its own refuses another number of blocks in its own way.
            reason = str(error).strip().replace("\n", " ")
            raise ModelError(f"{encoder.name} ({type(whole).__name__}) cannot be saved so: {reason}") from error
        write_text(fresh / PRUNED, json.dumps(about, indent=2, default=str) + "\n")


def _before(encoder: HuggingFaceEncoder) -> dict[str, Any] | None:
    """What was removed of the model before, where it was loaded from such a folder."""
    path = Path(str(encoder.model.name_or_path)) / PRUNED
    return json.loads(path.read_text(encoding="utf-8")) if encoder.model.name_or_path and path.is_file() else None


def refuse_unsavable(encoder: HuggingFaceEncoder, modules: Sequence[Module]) -> None:
    """Raise a ModelError where a model, whose blocks are these modules, cannot be saved without some part."""
    _refuse_decoder(encoder)
    if len(set(modules)) < len(modules):
        raise ModelError(
            f"{encoder.name} ({type(encoder.model).__name__}): its blocks share their weights, so none of them can be "
            "saved without a part that the others keep; the curve itself needs no saved model: leave out --save"
        )


def _refuse_decoder(encoder: HuggingFaceEncoder) -> None:
    if encoder.reading.decoder_start is not None:
        raise ModelError(f"{encoder.name}: the decoder of an encoder-decoder is not saved apart; prune its encoder")


def _refuse_shared(parts: Interventions, removed: RemovedParts) -> None:
    """Blocks that are one module cannot differ, except where all of them lose the same heads."""
    modules, by_block = parts.blocks, removed.by_block
    same = not removed.blocks and all(
        by_block.get(other) == heads
        for block, heads in by_block.items()
        for other, module in enumerate(modules)
        if module is modules[block]
    )
    if not same:
        refuse_unsavable(parts.encoder, modules)


def _whole(encoder: HuggingFaceEncoder) -> Any:
    """A copy of the model to change, with its head where it has one of its own."""
    import transformers

    _refuse_decoder(encoder)
    source, config = str(encoder.model.name_or_path or ""), encoder.model.config
    # The head that comes with an adapter's base was not trained together with these weights.
    if encoder.whole is not None or not source or "base" in encoder.origin:
        return copy.deepcopy(encoder.model if encoder.whole is None else encoder.whole)
    named = [getattr(transformers, name, None) for name in config.architectures or ()]
    for kind in (*(head_class for head_class in named if head_class is not None), transformers.AutoModel):
        try:
            with quiet_transformers():
                model, info = kind.from_pretrained(
                    source,
                    revision=getattr(config, "_commit_hash", None),
                    dtype=encoder.model.dtype,
                    output_loading_info=True,
                    trust_remote_code=False,
                )
        except Exception as error:
            # As in loading: every library that reads a part of the folder can fail in its own way.
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(f"{encoder.name} cannot be read again to be saved without parts ({reason})") from error
        # A head that is not in the checkpoint is random: the body is saved without it.
        if not [key for key in info["missing_keys"] if "pooler" not in key]:
            return model.eval()
    return copy.deepcopy(encoder.model)


def _body_in(whole: Any, encoder: HuggingFaceEncoder) -> Module:
    """The part of a model that an encoder runs, with the encoder's weights as they are in memory now."""
    shapes = {name: part.shape for name, part in encoder.model.state_dict().items()}
    for part in whole.modules():
        if type(part) is type(encoder.model):
            part_shapes = {
                name: tensor.shape for name, tensor in part.state_dict().items() if not name.startswith("pooler")
            }
            if part_shapes == {name: shape for name, shape in shapes.items() if not name.startswith("pooler")}:
                part.load_state_dict(encoder.model.state_dict(), strict=False)
                return part
    raise ModelError(
        f"{encoder.name} ({type(encoder.model).__name__}): it is not found as a part of {type(whole).__name__}, so it "
        "cannot be saved without some of its heads or blocks"
    )


def _twin_of(module: Module, encoder: HuggingFaceEncoder, body: Module) -> Module:
    """The module of a copy that has the place of one of the encoder's."""
    return body.get_submodule(next(path for path, other in encoder.model.named_modules() if other is module))


def _reads(out: Module, where: Bool[Tensor, " unit"], weight: Tensor) -> Bool[Tensor, " ..."]:
    """Which numbers of an output projection's weight read some of its input."""
    # GPT-2's layers have their weight the other way round.
    read = where[None, :] if isinstance(out, Linear) else where[:, None]
    return read.expand(weight.shape)


def _silence(out: Module, where: Bool[Tensor, " unit"]) -> None:
    weight: Any = out.weight
    if not weight.is_floating_point():
        raise ModelError("its weights are quantized, so a part of them cannot be set to 0; load it in full precision")
    with torch.no_grad():
        weight.masked_fill_(_reads(out, where.to(weight.device), weight), 0)


def _leave_out(whole: Any, body: Module, parts: Interventions, removed: frozenset[int]) -> None:
    """Delete blocks, and have the config count those that stay."""
    encoder = parts.encoder
    paths = {module: path for path, module in encoder.model.named_modules()}
    lists = {paths[block].rpartition(".")[0] for block in parts.blocks}
    parent, _, name = lists.pop().rpartition(".")
    if lists:
        raise ModelError(f"{encoder.name}: its blocks are in several lists, so none can be left out of a saved model")
    every = [_twin_of(block, encoder, body) for block in parts.blocks]
    remaining = [block for number, block in enumerate(every) if number not in removed]
    _hand_down(every[0], remaining[0])
    setattr(body.get_submodule(parent), name, ModuleList(remaining))
    _count(whole.config, len(every), removed)


def _hand_down(first: Module, heir: Module) -> None:
    """What the first block alone has for all others (T5's relative positions) goes to the one that becomes first."""
    for path, module in list(first.named_modules()):
        parent, _, name = path.rpartition(".")
        modules = dict(heir.named_modules())
        if path and path not in modules and parent in modules:
            modules[parent].add_module(name, module)


def _count(config: PreTrainedConfig, blocks: int, removed: frozenset[int]) -> None:
    """Settings that count blocks, and those that say something for each of them."""
    paired = bool(getattr(config, "is_encoder_decoder", False))
    for name, value in list(config.__dict__.items()):
        # Of an encoder-decoder, the encoder's blocks are meant.
        if paired and "decoder" in name:
            continue
        if type(value).__module__.startswith("transformers.") and hasattr(value, "to_dict"):
            _count(value, blocks, removed)
        elif isinstance(value, list | tuple) and len(value) == blocks and _says_blocks(name):
            setattr(config, name, [entry for number, entry in enumerate(value) if number not in removed])
    for name, value in list(config.__dict__.items()):
        if _DEPTH.fullmatch(name) and value == blocks and not (paired and "decoder" in name):
            setattr(config, name, blocks - len(removed))


def _says_blocks(name: str) -> bool:
    """Whether a list of a config, as long as there are blocks, says something for each.

    Example:
        >>> _says_blocks("layer_types"), _says_blocks("no_rope_layers"), _says_blocks("architectures")
        (True, True, False)
    """
    return any(word in name for word in ("layer", "block", "attention", "attn", "window"))


def _read_back(parts: Interventions, removed: RemovedParts, folder: Path) -> HuggingFaceEncoder:
    """The saved model, which has to give the states of the model while its parts are ablated."""
    from lamina.models.loading import load_encoder

    encoder = parts.encoder
    precision: Any = str(encoder.model.dtype).removeprefix("torch.")
    description = f"{encoder.name} ({type(encoder.model).__name__}) without {_listed(removed.names)}"
    try:
        saved: Any = load_encoder(str(folder), device=str(encoder.device), dtype=precision, limit=encoder.limit)
    except ModelError as error:
        raise ModelError(f"{description} cannot be loaded again: {error}") from error
    saved.batch_size = encoder.batch_size
    worst = max(_differences(parts, removed, saved), default=0.0)
    if saved.blocks != encoder.blocks - len(removed.blocks) or worst > TOLERANCE[encoder.model.dtype]:
        raise ModelError(
            f"{description}: the saved model does not give the same states (they differ by {worst:.1g}), since more "
            "than a block's own weights depends on where it is; heads can be removed, or other blocks"
        )
    return saved


def _differences(parts: Interventions, removed: RemovedParts, saved: HuggingFaceEncoder) -> Iterator[float]:
    encoder = parts.encoder
    cuts = [encoder.word_tokenizer(text) for text in _TRIED]
    rows = [row for number, cut in enumerate(cuts) for row in encoder.rows(number, cut)]
    for edited in parts.run(rows, [removed.edit(parts)]):
        if edited.edit is not None:
            again = saved.last([rows[number] for number in edited.rows])
            for place, number in enumerate(edited.rows):
                size = len(rows[number].ids)
                yield apart(again[place, :size], edited.states[encoder.blocks][place, :size])


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} others" if len(names) > most else "")

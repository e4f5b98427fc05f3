"""Where the weights of a model are: on one device, or spread over cards, memory and disk.

A model that does not fit one card is spread by accelerate: each block runs on the card that holds it; blocks kept in
memory or on disk are copied to the first card when their turn comes, and their weights are empty (torch's "meta"
device) at all other times. What reads weights, or asks where a model runs, therefore asks here.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from lamina.encoders.devices import Placement, free_in_memory, free_on_card, shown_size
from lamina.errors import ModelError
from lamina.files.places import cache_dir
from lamina.files.writing import hidden_name, sweep

_FILLED = 0.8
"""Share of the free bytes of a card, or of memory, that weights may take: states and maps need the rest."""


def is_spread(model: Module) -> bool:
    """Whether parts of a model are on several devices, in memory until they run, or on disk.

    Example:
        >>> is_spread(torch.nn.Linear(2, 2))
        False
    """
    return any(hasattr(part, "_hf_hook") for part in model.modules())


def input_device(model: Module) -> torch.device:
    """The device that a model reads its input on: that of its first weights, the embeddings.

    Example:
        >>> input_device(torch.nn.Linear(2, 2))
        device(type='cpu')
    """
    name, first = next(model.named_parameters())
    return first.device if first.device.type != "meta" else _runs_on(model, name)


def running_devices(model: Module) -> list[str]:
    """The kinds of devices that a model runs on: "cpu", "cuda".

    Example:
        >>> running_devices(torch.nn.Linear(2, 2))
        ['cpu']
    """
    found = {each.device if each.device.type != "meta" else _runs_on(model, name) for name, each in _tensors(model)}
    return sorted({each.type for each in found})


def weights(model: Module) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a model's state dict, in the order of names; those kept in memory or on disk are read one by one.

    Example:
        >>> [name for name, _ in weights(torch.nn.Linear(2, 2))]
        ['bias', 'weight']
    """
    for name, tensor in sorted(model.state_dict().items()):
        yield name, tensor if tensor.device.type != "meta" else _kept(model, name).to(tensor.dtype)


def weight_of(layer: Module) -> Tensor:
    """The weight of a layer, also of one that is empty until it runs."""
    return next(tensor for name, tensor in weights(layer) if name == "weight")


def refuse_spread(model: Module, name: str, what: str) -> None:
    """Raise a ModelError where something cannot be done with a model that is spread; `what` says what."""
    if is_spread(model):
        raise ModelError(f"{name} is spread over several devices, and {what}; use --device cpu or cuda")


def loading_settings(placement: Placement) -> dict[str, Any]:
    """What `from_pretrained` is told to load a model where it belongs; nothing for a single device."""
    if isinstance(placement, str) and placement != "auto":
        return {}
    folder = hidden_name(cache_dir() / "offload" / "weights", "saving")
    sweep(folder.parent) if folder.parent.is_dir() else folder.parent.mkdir(parents=True)
    # One card after the other: a model that fits the first one is not spread at all.
    where = "sequential" if placement == "auto" else dict(placement)
    settings = {"device_map": where, "offload_folder": str(folder)}
    return settings | ({"max_memory": _allowed()} if placement == "auto" else {})


def check_parts(model: Module, placement: Placement) -> None:
    """Raise a ModelError if something is named that is not a part of the model.

    Example:
        >>> check_parts(torch.nn.Sequential(torch.nn.Linear(2, 2)), {"head": "cpu"})
        Traceback (most recent call last):
        lamina.errors.ModelError: Sequential has no part 'head'; it consists of 0, and what these consist of (0.weight)
    """
    parts = [name for name, _ in (*model.named_modules(), *model.named_parameters())]
    for part in placement if isinstance(placement, Mapping) else ():
        if part not in parts:
            outer = [name for name, _ in model.named_children()]
            inner = next((name for name in parts if "." in name), "")
            raise ModelError(
                f"{type(model).__name__} has no part {part!r}; it consists of {', '.join(outer)}, and what these "
                f"consist of ({inner})"
            )


def forget_with(model: Module, settings: Mapping[str, Any]) -> None:
    """Have the weights that were written to disk for a model deleted with it."""
    if folder := settings.get("offload_folder"):
        weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)


def spread(model: Any, placement: Placement) -> None:
    """Put a model that is in memory where it belongs."""
    from accelerate import dispatch_model, infer_auto_device_map

    if isinstance(placement, str) and placement != "auto":
        model.to(placement)
        return
    settings = loading_settings(placement)
    where = settings["device_map"]
    if placement == "auto":
        whole: list[str] = [*(getattr(model, "_no_split_modules", None) or ())]
        where = infer_auto_device_map(model, settings["max_memory"], whole)
    dispatch_model(model, where, offload_dir=settings["offload_folder"])
    forget_with(model, settings)


def refuse_too_large(name: str, values: int | None, dtype: torch.dtype, placement: Placement) -> None:
    """Raise a ModelError if the weights of a model, `values` numbers, do not fit the device they are meant for."""
    if values is None or not isinstance(placement, str) or placement == "auto":
        return
    need = values * dtype.itemsize
    on_card = placement.startswith("cuda")
    free = free_on_card(placement) if on_card else free_in_memory()
    if need <= free:
        return
    fixes = [f"--dtype bfloat16 ({shown_size(2 * values)})"] * (dtype.itemsize > 2)
    fixes.append("--device auto, which spreads them over all cards, memory and disk")
    raise ModelError(
        f"{name}: its weights need {shown_size(need)} in {str(dtype).removeprefix('torch.')}, {shown_size(free)} are "
        f"free {f'on {placement}' if on_card else 'in memory'}; use {', or '.join(fixes)}"
    )


def _allowed() -> dict[int | str, int]:
    cards = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    most: dict[int | str, int] = {card: int(_FILLED * free_on_card(f"cuda:{card}")) for card in cards}
    return most | {"cpu": int(_FILLED * free_in_memory())}


def _tensors(model: Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _kept(model: Module, name: str) -> Tensor:
    """A weight that is empty until it runs, from where it is kept."""
    for hook, rest in _hooks(model, name):
        if getattr(hook, "weights_map", None) is not None:
            return hook.weights_map[rest]
    raise ModelError(f"{type(model).__name__}: the weight {name} was never loaded (it is on the meta device)")


def _runs_on(model: Module, name: str) -> torch.device:
    """Where a weight is when it is used."""
    for hook, _ in _hooks(model, name):
        if (device := getattr(hook, "execution_device", None)) is not None:
            return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    raise ModelError(f"{type(model).__name__}: the weight {name} was never loaded (it is on the meta device)")


def _hooks(model: Module, name: str) -> Iterator[tuple[Any, str]]:
    """accelerate's hooks on the modules that a weight is in, innermost first, and the weight's name within each."""
    parts = name.split(".")
    for at in range(len(parts) - 1, -1, -1):
        hook = getattr(model.get_submodule(".".join(parts[:at])), "_hf_hook", None)
        for each in getattr(hook, "hooks", (hook,)):
            yield each, ".".join(parts[at:])

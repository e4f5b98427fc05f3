"""Where models run: devices, their free memory, and the precisions they support."""

from __future__ import annotations

import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.files.checking import cache_dir
from lamina.files.writing import hidden_name, sweep

Placement = str | Mapping[str, int | str]
"""Where a model goes: a device; "auto" for wherever its weights fit; or part of the model -> card, "cpu" or "disk"."""

_CGROUPS = Path("/sys/fs/cgroup")
_PROCESS_GROUPS = Path("/proc/self/cgroup")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")

# Large enough to use the matrix units (AMX) that some machines announce but then refuse.
_TRY = "import torch; a = torch.ones(64, 64, dtype=torch.{dtype}); print(float((a @ a)[0, 0]))"


def check_precision(dtype: str, device: Placement) -> None:
    """Raise a ModelError if `device` cannot compute in `dtype`.

    Example:
        >>> check_precision("float32", "cpu")
    """
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ModelError(f"{dtype!r} is not a supported precision; use float32, bfloat16 or float16")
    if dtype != "float32" and _runs_on_cpu(device) and not cpu_multiplies(dtype):
        raise ModelError(f"{dtype} matrix products do not work on this machine's CPU; use float32 or a GPU")


@cache
def cpu_multiplies(dtype: str) -> bool:
    """Whether this CPU multiplies matrices in `dtype`; tested in a child process, since a failure kills the process."""
    tried = subprocess.run(
        [sys.executable, "-c", _TRY.format(dtype=dtype)], capture_output=True, text=True, check=False
    )
    return tried.returncode == 0 and tried.stdout.strip() == "64.0"


def choose_device(requested: Placement | None) -> Placement:
    """The device that was asked for, if this machine has it; by default a GPU if there is one.

    Example:
        >>> choose_device("cpu"), choose_device({"embeddings": "cpu", "encoder": "disk"})
        ('cpu', {'embeddings': 'cpu', 'encoder': 'disk'})
    """
    import torch

    if requested is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if isinstance(requested, Mapping):
        if not requested:
            raise ModelError("device={} names no part of the model; use {'': 'cpu'} for all of it")
        return {part: _part_device(part, device) for part, device in requested.items()}
    if requested == "auto":
        return requested
    if requested.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f"device {requested!r} is not available: torch sees no GPU; use --device cpu")
    try:
        torch.empty(0, device=requested)
    except (RuntimeError, AssertionError):
        raise ModelError(f"{requested!r} is not a device of this machine; use cpu, cuda, cuda:N or auto") from None
    return requested


def _part_device(part: str, device: int | str) -> int | str:
    if device == "disk":
        return device
    choose_device(f"cuda:{device}" if isinstance(device, int) else device)
    if device == "auto":
        raise ModelError(f"{part}: 'auto' is for a whole model; use the number of a card, cpu or disk")
    return device


def _runs_on_cpu(device: Placement) -> bool:
    """Whether a model computes on the CPU: where parts of it are on a card, all others are copied there to run."""
    import torch

    if isinstance(device, Mapping):
        return all(part in ("cpu", "disk") for part in device.values())
    return device.startswith("cpu") or (device == "auto" and not torch.cuda.is_available())


def free_on_card(device: str) -> int:
    """Bytes that can still be allocated on a GPU, including those that torch has reserved but does not use."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def free_in_memory() -> int:
    """Bytes of memory that this process can still take: what the machine has free, and its cgroups allow.

    Example:
        >>> free_in_memory() > 0
        True
    """
    return max(0, min(psutil.virtual_memory().available, *_left_by_cgroups()))


def format_size(count: int) -> str:
    """A number of bytes in readable form.

    Example:
        >>> format_size(0), format_size(1536), format_size(310 * 2**30)
        ('0 bytes', '1.5 KiB', '310 GiB')
    """
    power = min(max(0, count.bit_length() - 1) // 10, len(_UNITS) - 1)
    size = count / 1024**power
    return f"{size:.1f} {_UNITS[power]}" if power and size < 10 else f"{size:,.0f} {_UNITS[power]}"


def _left_by_cgroups() -> Iterator[int]:
    """What each limit on this process leaves: containers and batch systems allow less than the machine has."""
    try:
        lines = _PROCESS_GROUPS.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            yield from _left(_CGROUPS, group, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            within = _CGROUPS / "memory"
            yield from _left(within, group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    yield sys.maxsize


def _left(root: Path, group: str, limit: str, usage: str, cached: str) -> Iterator[int]:
    # Inside a container, the own group may be mounted as the root.
    folder = root / group.lstrip("/")
    while folder.is_relative_to(root):
        try:
            most = (folder / limit).read_text().strip()
            if most.isdigit():
                counted = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                # Cached files count as used, but make room when memory is needed.
                used = int((folder / usage).read_text()) - int(counted.get(cached, 0))
                yield int(most) - used
        except (OSError, ValueError):
            pass  # A group that is not mounted here says nothing.
        folder = folder.parent


# Where the weights of a model are: on one device, or spread over GPUs, memory and disk.
#
# A model that does not fit one card is spread by accelerate: each block runs on the card that holds it; blocks kept in
# memory or on disk are copied to the first card when their turn comes, and their weights are empty (torch's "meta"
# device) at all other times. What reads weights, or asks where a model runs, therefore asks here.

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
    devices = {
        place.device if place.device.type != "meta" else _runs_on(model, name) for name, place in _tensors(model)
    }
    return sorted({place.type for place in devices})


def weights(model: Module) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a model's state dict, in the order of names; those kept in memory or on disk are read one by one.

    Example:
        >>> [name for name, _ in weights(torch.nn.Linear(2, 2))]
        ['bias', 'weight']
    """
    for name, tensor in sorted(model.state_dict().items()):
        yield name, tensor if tensor.device.type != "meta" else _offloaded(model, name).to(tensor.dtype)


def weight_of(layer: Module) -> Tensor:
    """The weight of a layer, also of one that is empty until it runs."""
    return next(tensor for name, tensor in weights(layer) if name == "weight")


def refuse_spread(model: Module, name: str, what: str) -> None:
    """Raise a ModelError where something cannot be done with a model that is spread; `what` says what."""
    if is_spread(model):
        raise ModelError(f"{name} is spread over several devices, and {what}; use --device cpu or cuda")


def loading_settings(placement: Placement) -> dict[str, Any]:
    """Settings of `from_pretrained` that load a model where it belongs; none for a single device."""
    if isinstance(placement, str) and placement != "auto":
        return {}
    folder = hidden_name(cache_dir() / "offload" / "weights", "saving")
    sweep(folder.parent) if folder.parent.is_dir() else folder.parent.mkdir(parents=True)
    # One card after the other: a model that fits the first one is not spread at all.
    where = "sequential" if placement == "auto" else dict(placement)
    settings = {"device_map": where, "offload_folder": str(folder)}
    return settings | ({"max_memory": allowed_memory()} if placement == "auto" else {})


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
    fixes = [f"--dtype bfloat16 ({format_size(2 * values)})"] * (dtype.itemsize > 2)
    fixes.append("--device auto, which spreads them over all cards, memory and disk")
    raise ModelError(
        f"{name}: its weights need {format_size(need)} in {str(dtype).removeprefix('torch.')}, {format_size(free)} are "
        f"free {f'on {placement}' if on_card else 'in memory'}; use {', or '.join(fixes)}"
    )


def allowed_memory() -> dict[int | str, int]:
    cards = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    most: dict[int | str, int] = {card: int(_FILLED * free_on_card(f"cuda:{card}")) for card in cards}
    return most | {"cpu": int(_FILLED * free_in_memory())}


def _tensors(model: Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _offloaded(model: Module, name: str) -> Tensor:
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
    for depth in range(len(parts) - 1, -1, -1):
        hook = getattr(model.get_submodule(".".join(parts[:depth])), "_hf_hook", None)
        for part_hook in getattr(hook, "hooks", (hook,)):
            yield part_hook, ".".join(parts[depth:])

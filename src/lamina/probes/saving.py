"""Trained probes on disk: safetensors, with everything needed to apply them to new text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from lamina.errors import ResultError
from lamina.probes.edge import Cut, EdgeProbes
from lamina.probes.streams import Batch

FORMAT = 1


class SavedProbes:
    """Probes of one task and seed with the names of their labels, loaded from a file."""

    def __init__(self, path: Path) -> None:
        try:
            with safe_open(path, framework="pt") as file:
                head = json.loads((file.metadata() or {})["lamina"])
                tensors = {name: file.get_tensor(name) for name in head["tensors"]}
            if head["format"] != FORMAT:
                raise ValueError(f"format {head['format']}, this lamina reads {FORMAT}")
            self._build(head, tensors)
        except (OSError, LookupError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
            raise ResultError(f"{path} holds no probes that can be read ({error}); probe again") from error

    def _build(self, head: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        self.task: str = head["task"]
        self.seed: int = head["seed"]
        self.encoder: str = head["encoder"]
        """Fingerprint of the encoder whose states the probes were trained on."""
        self.labels: tuple[str, ...] = tuple(head["labels"])
        self.probes = EdgeProbes(
            [Cut(*cut) for cut in head["cuts"]],
            layers=head["layers"],
            width=head["width"],
            labels=len(self.labels),
            arity=head["arity"],
            seed=self.seed,
        )
        self.probes.load_state_dict(tensors)
        self.probes.requires_grad_(False)


def save_probes(path: Path, probes: EdgeProbes, *, task: str, labels: tuple[str, ...], encoder: str) -> None:
    """Write the probes of one seed so that `SavedProbes` reads them back."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in probes.state_dict().items()}
    head = {
        "format": FORMAT,
        "task": task,
        "seed": probes.seeds[0],
        "encoder": encoder,
        "labels": labels,
        "cuts": probes.cuts,
        "layers": probes.closed.shape[1],
        "width": probes.project.shape[2],
        "arity": probes.project.shape[1],
        "tensors": sorted(tensors),
    }
    save_file(tensors, path, metadata={"lamina": json.dumps(head)})


def predict(saved: SavedProbes, batch: Batch) -> Float[torch.Tensor, "member target label"]:
    """The probability of every label for every target, by every member."""
    return saved.probes(batch).sigmoid()

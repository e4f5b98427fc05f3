"""A fine-tuned model, read back: what it learned, with which head, from which model and by which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import ModelError
from lamina.training.checkpoints import weight_hashes
from lamina.training.classes import Classifying
from lamina.training.heads import reload, with_padding
from lamina.training.masked import Masking
from lamina.training.objective import Objective
from lamina.training.provenance import ABOUT, folder_of, read_about
from lamina.training.reading import Sets
from lamina.training.recipes import RECIPES, Plan, Task
from lamina.training.spans import Answering
from lamina.training.tags import Tagging

if TYPE_CHECKING:
    from lamina.training.finetune import Finetuning


@dataclass(frozen=True)
class Tuned:
    """A folder that `lamina finetune` wrote.

    Example:
        >>> tuned = Tuned.of(lamina.load_encoder("runs/pos"))  # doctest: +SKIP
        >>> tuned.task, tuned.plan.lr  # doctest: +SKIP
        ('pos', 5e-05)
    """

    folder: Path
    about: Mapping[str, Any]
    """What `lamina.json` says."""
    encoder: HuggingFaceEncoder
    """Its model without the head."""

    @classmethod
    def of(cls, encoder: Encoder) -> Tuned:
        """The folder that an encoder was loaded from; a ModelError where lamina did not fine-tune it."""
        folder = folder_of(encoder)
        if not isinstance(encoder, HuggingFaceEncoder) or folder is None or not (folder / ABOUT).is_file():
            raise ModelError(
                f"{encoder.name} was not fine-tuned by lamina (there is no {ABOUT} beside its weights), so its task "
                "and the model it came from are not known; name a folder that `lamina finetune` wrote"
            )
        with_padding(encoder.tokenizer)
        return cls(folder, read_about(folder), encoder)

    @property
    def task(self) -> Task:
        """What it was tuned to do."""
        return self.about["task"]

    @property
    def plan(self) -> Plan:
        """The settings of its training."""
        return Plan(**self.about["plan"])

    @property
    def window(self) -> int | None:
        """How many words to each side a word could see; None where it could see all."""
        return self.about.get("attention_window")

    @cached_property
    def model(self) -> Any:
        """With its head, on the encoder's device."""
        model: Any = reload(self.folder, self.about["head"])
        return model.requires_grad_(False).to(self.encoder.device)

    @property
    def weights(self) -> dict[str, str]:
        """The hashes of its weights, the head's among them."""
        return weight_hashes(self.folder)

    def is_from(self, encoder: HuggingFaceEncoder, sets: Sets) -> bool:
        """Whether it was made from this very model with these very texts."""
        known = self.about["base"].get("fingerprint"), self.about["data"].get("fingerprint")
        return known == (encoder.fingerprint, sets.fingerprint)

    def objective(self, encoder: HuggingFaceEncoder | None = None) -> Objective:
        """What it learned, with its own labels; of another model of the same kind where one is given."""
        pieces, tokenizer = (encoder or self.encoder).pieces, (encoder or self.encoder).tokenizer
        kind, labels, length = RECIPES[self.task].kind, tuple(self.about["labels"]), self.about["length"]
        if kind == "span":
            return Answering(pieces, length)
        if kind == "class":
            return Classifying(pieces, length, labels)
        if kind == "tags":
            return Tagging(pieces, length, self.task, labels)
        return Masking(pieces, length, tokenizer, self.plan.seed)

    def learning(self, sets: Sets, encoder: HuggingFaceEncoder | None = None) -> Finetuning:
        """The same task on these texts, of this model or of the one given."""
        # transformers' Trainer is slow to import.
        from lamina.training.finetune import Finetuning

        return Finetuning(encoder or self.encoder, sets, self.task, self.objective(encoder), self.window)

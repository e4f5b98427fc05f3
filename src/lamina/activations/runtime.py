"""Where data is stored and computations run; affects speed, but never results beyond rounding."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lamina.activations.extraction import Engine, extract
from lamina.activations.reading import StoredActivations
from lamina.corpora import Corpus
from lamina.encoders import Encoder


@dataclass(frozen=True)
class Runtime:
    """Where activations are kept, on which device models and probes run, and which engine encodes.

    Example:
        >>> Runtime(device="cpu").device
        'cpu'
    """

    store: Path | None = None
    """Where activations are kept; LAMINA_STORE or lamina's cache by default."""
    device: str | None = None
    """cpu, cuda or cuda:N; by default a GPU if there is one."""
    engine: Engine | None = None
    """Where to encode; this machine by default."""
    trust_remote_code: bool = False
    """Whether code that comes with a model may run here; never set by a request file or the web app."""

    def extract(self, encoder: Encoder, corpus: Corpus) -> StoredActivations:
        """The states of every text of the corpus, encoding only what is not stored yet."""
        return extract(encoder, corpus, root=self.store, engine=self.engine)

    @property
    def training_device(self) -> str:
        """Where probes are trained."""
        import torch

        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

"""The states of every layer for every text, as each library's documentation shows it.

`python -m benchmarks.peer_programs.encoding NAME FOLDER DEVICE DTYPE`: FOLDER holds the model and the texts. States are
made and dropped; peers keep their padding, so that only lamina pays for taking it away. The states of the first texts
are written to FOLDER/NAME.npz, without padding, so that they can be compared.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peer_programs.turns import take_turns

# Peers are imported by name: they need not be installed where types are checked.

BATCH = 32
COMPARED = 32
"""Texts whose states are compared."""

Layers = Sequence[Any]
"""States of a batch, a tensor [text, token, width] per layer; only the last where a library gives no other."""


class Setting:
    """The model and the texts, as a peer finds them."""

    def __init__(self, folder: Path, device: str, dtype: str = "float32") -> None:
        self.model = str(folder / "model")
        self.device, self.dtype = device, getattr(torch, dtype)
        self.texts = [" ".join(words) for words in json.loads((folder / "texts.json").read_text())]

    def bert(self) -> Any:
        """The model by transformers."""
        from transformers import AutoModel

        return AutoModel.from_pretrained(self.model, dtype=self.dtype).to(self.device).eval()

    def batches(self, texts: Sequence[str]) -> Iterator[dict[str, torch.Tensor]]:
        """Batches in the order given, padded."""
        for at in range(0, len(texts), BATCH):
            batch = self.tokenizer(
                list(texts[at : at + BATCH]), padding=True, truncation=True, max_length=512, return_tensors="pt"
            )
            yield {name: value.to(self.device) for name, value in batch.items()}

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, loaded once."""
        if not hasattr(self, "_tokenizer"):
            from transformers import AutoTokenizer

            self._tokenizer = AutoTokenizer.from_pretrained(self.model)
        return self._tokenizer


Encode = Callable[[Sequence[str]], Iterator[tuple[Layers, torch.Tensor]]]
"""Texts -> for each batch, the layers and the mask of real tokens."""


def transformers(setting: Setting) -> Encode:
    """The loop of transformers' documentation, in the order of the file."""
    model = setting.bert()

    def encode(texts: Sequence[str]) -> Iterator[tuple[Layers, torch.Tensor]]:
        with torch.no_grad():
            for batch in setting.batches(texts):
                yield model(**batch, output_hidden_states=True).hidden_states, batch["attention_mask"]

    return encode


def transformers_sorted(setting: Setting) -> Encode:
    """The same loop over texts sorted by length."""
    encode = transformers(setting)
    return lambda texts: encode(sorted(texts, key=len))


def transformers_to_host(setting: Setting) -> Encode:
    """The sorted loop on a GPU, with every layer copied to the host as it is usually done."""
    encode = transformers_sorted(setting)
    return lambda texts: (([layer.cpu() for layer in layers], mask) for layers, mask in encode(texts))


def nnsight(setting: Setting) -> Encode:
    """A trace that saves the embeddings and every block's output."""
    library = import_module("nnsight")
    model = library.NNsight(setting.bert())

    def encode(texts: Sequence[str]) -> Iterator[tuple[Layers, torch.Tensor]]:
        with torch.no_grad():
            for batch in setting.batches(texts):
                yield _traced(library, model, batch), batch["attention_mask"]

    return encode


def _traced(library: Any, model: Any, batch: dict[str, torch.Tensor]) -> Layers:
    with model.trace(**batch):
        layers = library.save([model.embeddings.output])
        for block in model.encoder.layer:
            layers.append(block.output)
    return layers


def transformer_lens(setting: Setting) -> Encode:
    """`run_with_cache` of a bridge, keeping what is after the embeddings and every block."""
    library, hugging_face = import_module("transformer_lens.model_bridge"), import_module("transformers")
    # A bridge of BERT needs a head: this one costs nothing, unlike that over the vocabulary.
    whole = hugging_face.BertForNextSentencePrediction.from_pretrained(setting.model).to(setting.device).eval()
    model = library.TransformerBridge.boot_transformers(
        setting.model, hf_model=whole, tokenizer=setting.tokenizer, device=setting.device
    )
    names = ["embed_ln.hook_out", *(f"blocks.{block}.hook_out" for block in range(model.cfg.n_layers))]

    def encode(texts: Sequence[str]) -> Iterator[tuple[Layers, torch.Tensor]]:
        with torch.no_grad():
            for batch in setting.batches(texts):
                _, cache = model.run_with_cache(
                    batch["input_ids"], attention_mask=batch["attention_mask"], names_filter=names
                )
                yield [cache[name] for name in names], batch["attention_mask"]

    return encode


def sentence_transformers(setting: Setting) -> Encode:
    """`SentenceTransformer.encode`, which sorts by length itself and gives the last layer alone, without padding."""
    library, parts = import_module("sentence_transformers"), import_module("sentence_transformers.models")
    body = parts.Transformer(setting.model, max_seq_length=512)
    pooling = parts.Pooling(body.get_embedding_dimension())
    model = library.SentenceTransformer(modules=[body, pooling], device=setting.device)

    def encode(texts: Sequence[str]) -> Iterator[tuple[Layers, torch.Tensor]]:
        for states in model.encode(
            list(texts), batch_size=BATCH, output_value="token_embeddings", show_progress_bar=False
        ):
            yield [states[None]], torch.ones(1, len(states))

    return encode


PEERS: dict[str, tuple[str, Callable[[Setting], Encode]]] = {
    "transformers": ("transformers", transformers),
    "transformers, sorted": ("transformers", transformers_sorted),
    "transformers, sorted, to the host": ("transformers", transformers_to_host),
    "sentence-transformers": ("sentence-transformers", sentence_transformers),
    "nnsight": ("nnsight", nnsight),
    "TransformerLens": ("transformer-lens", transformer_lens),
}
"""Name -> its package, and what makes its loop."""


def lamina(folder: Path, device: str, dtype: Any, way: str) -> None:
    """lamina on the same folder: states per text without padding, all of them in a store, or left on the card."""
    from lamina.activations import ActivationStore, ThisMachine
    from lamina.models import load_encoder
    from lamina.types import Text

    encoder = load_encoder(str(folder / "model"), device=device, dtype=dtype)
    texts = [Text(str(at), tuple(words)) for at, words in enumerate(json.loads((folder / "texts.json").read_text()))]

    def encode() -> None:
        for _ in encoder.encode(texts, ordered=False):
            pass

    def fill() -> None:
        with tempfile.TemporaryDirectory() as root:
            ThisMachine().fill(encoder, texts, ActivationStore.of(encoder, root))

    def leave() -> None:
        for _ in encoder.packed(texts, on="device"):
            pass
        _finish(device)

    made = [each.states for each in encoder.encode(texts[:COMPARED])]
    _write(folder / f"{way}.npz", [states.transpose(0, 1).numpy() for states in made if states is not None])
    tokens = sum(len(encoder.tokenize(text).ids) for text in texts)
    take_turns("lamina", {"lamina": encode, "lamina, stored": fill, "lamina, on the card": leave}[way], tokens=tokens)


def peer(folder: Path, device: str, dtype: str, name: str) -> None:
    """One of `PEERS`."""
    package, make = PEERS[name]
    setting = Setting(folder, device, dtype)
    encode = make(setting)
    # One by one, so that texts keep their order whatever a peer does to it.
    found = [_real(*next(iter(encode([text])))) for text in setting.texts[:COMPARED]]
    _write(folder / f"{name}.npz", found)

    def work() -> None:
        for _ in encode(setting.texts):
            pass
        _finish(device)

    take_turns(package, work)


def _finish(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _real(layers: Layers, mask: torch.Tensor) -> np.ndarray:
    """[layer, token, width] The states of a batch of one text."""
    size = int(mask[0].sum())
    return torch.stack([layer[0, :size].detach().float().cpu() for layer in layers]).numpy()


def _write(path: Path, states: Sequence[np.ndarray]) -> None:
    np.savez(path, *states)


def main() -> None:
    """Name, folder, device, precision."""
    name, folder, device, dtype = sys.argv[1:]
    (lamina if name.startswith("lamina") else peer)(Path(folder), device, dtype, name)


if __name__ == "__main__":
    main()

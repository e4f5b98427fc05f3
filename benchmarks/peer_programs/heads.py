"""Where every head looks, over all texts: what `lamina attention` calls surface measures.

`python -m benchmarks.peer_programs.heads NAME FOLDER DEVICE DTYPE`; means over texts are written to
FOLDER/heads-NAME.npy, [measure, block, head].
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.peer_programs.encoding import Setting
from benchmarks.peer_programs.turns import take_turns


def by_numpy(folder: Path, device: str) -> tuple[str, Callable[[], np.ndarray]]:
    """Eager attention by transformers, batches of 32 sorted by length, all heads of a text at once in numpy."""
    from transformers import AutoModel

    setting = Setting(folder, device)
    model = AutoModel.from_pretrained(setting.model, attn_implementation="eager").to(device).eval()
    separator = setting.tokenizer.sep_token_id
    points = setting.tokenizer.convert_tokens_to_ids([".", ","])
    texts = sorted(setting.texts, key=len)

    def measure() -> np.ndarray:
        total = np.zeros(1)
        with torch.no_grad():
            for batch in setting.batches(texts):
                attentions = model(**batch, output_attentions=True).attentions
                for at, size in enumerate(batch["attention_mask"].sum(1).tolist()):
                    maps = torch.stack([block[at, :, :size, :size] for block in attentions]).cpu().numpy()
                    ids = batch["input_ids"][at, :size].cpu().numpy()
                    total = total + of_text(maps, ids == separator, np.isin(ids, points))
        return total / len(texts)

    return "transformers", measure


def of_text(maps: np.ndarray, separators: np.ndarray, points: np.ndarray) -> np.ndarray:
    """[measure, block, head] Of one text's maps, in the order of lamina's measures."""
    size = maps.shape[-1]
    given = maps[..., separators].sum(-1)
    entropy = -(maps * np.log(np.maximum(maps, np.finfo(np.float32).tiny))).sum(-1)
    return np.stack(
        [
            *(np.diagonal(maps, offset, -2, -1).sum(-1) / size for offset in (0, -1, 1)),
            maps[..., 0].mean(-1),
            given.mean(-1),
            maps[..., points].sum(-1).mean(-1),
            given[..., separators].mean(-1),
            given[..., ~separators].mean(-1),
            entropy.mean(-1),
            entropy[..., 0],
        ]
    )


def by_lamina(folder: Path, device: str) -> tuple[str, Callable[[], np.ndarray]]:
    """The meter of `lamina attention`, with its intervals over documents."""
    from lamina.analyses.heads.surface import SurfaceMeter
    from lamina.framework.watch import watch
    from lamina.models import load_encoder
    from lamina.types import Text

    encoder = load_encoder(str(folder / "model"), device=device)
    texts = [Text(str(at), tuple(words)) for at, words in enumerate(json.loads((folder / "texts.json").read_text()))]

    def measure() -> np.ndarray:
        meter = SurfaceMeter(encoder)
        watch(encoder, texts, [meter])
        return meter.measured().value

    return "lamina", measure


def main() -> None:
    """Name, folder, device; the precision is always single."""
    name, folder, device = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    package, measure = (by_lamina if name == "lamina" else by_numpy)(folder, device)
    np.save(folder / f"heads-{name}.npy", measure())
    take_turns(package, measure, warm=True)


if __name__ == "__main__":
    main()

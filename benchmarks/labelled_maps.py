"""Draw attention maps for labelling by eye, as contact sheets without names: `python -m benchmarks.labelled_maps OUT`.

Nothing here knows the rule that the labels are compared with. Half of the maps are drawn at random; for the other half,
maps with much weight near the diagonal, within a segment, or on both the diagonal and one column are drawn, since some
types are rare.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import lamina
from lamina.framework.watch import punctuation_ids
from lamina.models import SPECIAL, Encoder
from lamina.types import Span, Text

MODELS = ("minilm", "mpnet", "smollm2", "growing_bert/seed0")
"""Aliases, and a folder below LAMINA_DATA."""
PICKED_FROM = 0.1
"""The top share of all maps that a stratum is drawn from."""
A_SHEET, ACROSS, CELL = 20, 5, 8
"""Maps on a sheet, maps in a row of it; a cell's size in pixels."""
WHITE = 255
"""The last colour of the palette."""
Colours = np.ndarray
"""[row, column] Numbers of the palette's colours."""

SENTENCES = (
    "The old lighthouse keeper walked down the narrow stairs , counted the barrels , "
    "and wrote the number in his book .",
    "When the rain stopped , the children who had been waiting in the shed ran back to the river .",
    "No one expected that the small company would sell more bicycles than all of its rivals together",
    "She told him she would call , but her phone was dead before the train had left the station .",
    "Copper conducts heat well ; glass does not , which is why the handle of the kettle stays cool .",
    "In 1923 the committee moved to a larger building near the harbour , where it remained until the war .",
)
PAIRS = (
    (
        "Where did the keeper write the number of barrels ?",
        "He counted the barrels , and wrote the number in his book .",
    ),
    ("A man is playing a guitar on the street .", "Someone makes music outside ."),
    (
        "The bakery opens at seven , but the bread is ready at six .",
        "Most customers come before work and pay in cash .",
    ),
    (
        "Who sold the bicycles",
        "The small company sold more bicycles than all of its rivals , and nobody had expected it",
    ),
    ("The river rose two metres in a night .", "By morning the lower road was gone , and the mail came by boat ."),
    ("It is not raining .", "The children who had been waiting in the shed ran back to the river to swim ."),
)


class Draw(NamedTuple):
    """How many maps are drawn."""

    seed: int
    at_random: int
    of_each: int
    """Maps of each stratum."""


DRAWS = (Draw(2019, 52, 16), Draw(2020, 24, 8))
"""The rule was made with the first; the second is there to check it."""


class Map(NamedTuple):
    """One head's attention on one text."""

    model: str
    text: Text
    layer: int
    head: int
    weights: np.ndarray
    """[token, token]"""
    segment: np.ndarray
    """[token] Special tokens belong to the segment before them."""


def texts() -> list[Text]:
    """Sentences, and pairs as two segments."""
    made = [Text(f"sentence-{at}", tuple(line.split())) for at, line in enumerate(SENTENCES)]
    for at, pair in enumerate(PAIRS):
        first, second = (tuple(line.split()) for line in pair)
        border, end = len(first), len(first) + len(second)
        made.append(Text(f"pair-{at}", first + second, (Span(0, border), Span(border, end))))
    return made


def maps_of(name: str, encoder: Encoder) -> Iterator[Map]:
    """Every head's map of every text."""
    for text, made in zip(texts(), encoder.encode(texts(), ("maps",)), strict=True):
        assert made.maps is not None
        ends = [segment.end for segment in text.segments]
        words = made.tokens.words
        segment = np.maximum.accumulate(np.where(words == SPECIAL, 0, np.searchsorted(ends, words, "right")))
        for layer, heads in enumerate(made.maps.numpy(), 1):
            for head, weights in enumerate(heads, 1):
                yield Map(name, text, layer, head, weights, segment)


def draw(every: list[list[Map]], wanted: Draw, before: set[tuple[int, int]]) -> list[tuple[str, Map]]:
    """Why each was drawn, and the map; as many of each model, in random order. What was drawn `before` is left out."""
    rng = np.random.default_rng(wanted.seed)
    places = [(model, at) for model, own in enumerate(every) for at in range(len(own)) if (model, at) not in before]
    taken: dict[tuple[int, int], str] = {}
    strata = {"at random": _any, "diagonal": _near, "within segment": _within, "diagonal and column": _both}
    for why, strength in strata.items():
        for model in range(len(every)):
            own = [place for place in places if place[0] == model and place not in taken]
            order = sorted(own, key=lambda place: -strength(every[place[0]][place[1]]))
            pool = order if why == "at random" else order[: round(PICKED_FROM * len(order))]
            count = (wanted.at_random if why == "at random" else wanted.of_each) // len(every)
            for at in rng.choice(len(pool), count, replace=False):
                taken[pool[at]] = why
    before.update(taken)
    found = [(why, every[model][at]) for (model, at), why in taken.items()]
    return [found[at] for at in rng.permutation(len(found))]


def _any(_: Map) -> float:
    return 0.0


def _near(each: Map) -> float:
    places = np.arange(len(each.weights))
    return float((each.weights * (np.abs(places[:, None] - places) <= 1)).sum(1).mean())


def _within(each: Map) -> float:
    """The lesser of what the two segments keep to themselves; 0 for a single segment."""
    if len(each.text.segments) < 2:
        return 0.0
    kept = each.weights @ np.eye(2)[each.segment]
    return float(min(kept[each.segment == 0, 0].mean(), kept[each.segment == 1, 1].mean()))


def _both(each: Map) -> float:
    return _near(each) * float(each.weights.mean(0).max())


def sheet(maps: list[Map]) -> Colours:
    """Maps from left to right and from top to bottom, rows attend to columns; tokens and names are not shown."""
    panels = [_panel(each) for each in maps]
    side = max(len(panel) for panel in panels) + CELL
    rows, across = -(-len(panels) // ACROSS), ACROSS
    made = np.full((side * rows, side * across), WHITE, np.uint8)
    for at, panel in enumerate(panels):
        top, left = side * (at // across), side * (at % across)
        made[top : top + len(panel), left : left + len(panel)] = panel
    return made


def _panel(each: Map) -> Colours:
    """The darkest shade is no attention, the lightest the map's own 99th percentile; dots mark segments' borders."""
    top = max(float(np.quantile(each.weights, 0.99)), 1e-9)
    shades = np.round(np.clip(each.weights / top, 0, 1) * (WHITE - 1)).astype(np.uint8)
    made = shades.repeat(CELL, 0).repeat(CELL, 1)
    for border in CELL * (np.flatnonzero(np.diff(each.segment)) + 1):
        made[border, ::3] = made[::3, border] = WHITE
    return made


def png(made: Colours) -> bytes:
    """With a palette, which is a tenth of the size of true colours."""
    ends = np.array([(68, 1, 84), (33, 145, 140), (253, 231, 37)], float)
    steps = np.linspace(0, 2, WHITE)
    palette = np.stack([np.interp(steps, range(3), ends[:, channel]) for channel in range(3)], 1).astype(np.uint8)
    height, width = made.shape
    rows = np.column_stack([np.zeros(height, np.uint8), made])
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.tobytes() + b"\xff\xff\xff"),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _tokens(model: str, text: Text, encoder: Encoder) -> dict[str, object]:
    tokens = encoder.tokenize(text)
    segments = [(segment.start, segment.end) for segment in text.segments]
    pieces = {"ids": tokens.ids.tolist(), "word_of_piece": tokens.words.tolist()}
    return {"model": model, "text": text.id, "words": text.words, "segments": segments, **pieces}


def main(out: Path) -> None:
    """Write `maps.npz`, `texts.json`, `drawn.csv` (where each map comes from) and the sheets."""
    out.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ["LAMINA_DATA"])
    encoders = {name: lamina.load_encoder(str(data / name) if "/" in name else name) for name in MODELS}
    every = [list(maps_of(name, encoder)) for name, encoder in encoders.items()]
    before: set[tuple[int, int]] = set()
    drawn = [each for wanted in DRAWS for each in draw(every, wanted, before)]
    kept = {f"{number:03d}": each.weights.astype(np.float16) for number, (_, each) in enumerate(drawn)}
    np.savez_compressed(out / "maps.npz", allow_pickle=False, **kept)
    where = [(why, each.model, each.text.id, each.layer, each.head) for why, each in drawn]
    table = pd.DataFrame(where, columns=["drawn", "model", "text", "layer", "head"])
    table.to_csv(out / "drawn.csv", index_label="map")
    used = {(each.model, each.text.id): each.text for _, each in drawn}
    known = {
        "models": {
            name: {"causal": encoder.causal, "punctuation": sorted(punctuation_ids(encoder))}
            for name, encoder in encoders.items()
        },
        "texts": [_tokens(model, text, encoders[model]) for (model, _), text in sorted(used.items())],
    }
    (out / "texts.json").write_text(json.dumps(known, indent=None), encoding="utf-8")
    for start in range(0, len(drawn), A_SHEET):
        some = [each for _, each in drawn[start : start + A_SHEET]]
        (out / f"maps-{start:03d}-{start + len(some) - 1:03d}.png").write_bytes(png(sheet(some)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

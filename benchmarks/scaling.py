"""Time and memory against the size of the input: corpus, layers, width, tasks, seeds, workers.

`python -m benchmarks scaling` takes a few minutes; `python -m benchmarks.scaling --long` goes to a million texts,
`--small` takes a sixth of the texts, and `--chart FILE.svg` draws what was measured. Every point is a process of its
own. A slope is that of a straight line through the logarithms of the last two sizes, where what a run costs whatever
its size weighs least: 1 means that twice the input takes twice as long. Time is CPU time of one thread, which a busy
machine changes little.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.bars import Bar
from benchmarks.growing import Spent

STEEPEST = 1.1
"""Nothing may grow faster than its input, but for what measuring adds."""
FLAT = 1.1
"""Peak memory of the largest input against that of a tenth of it."""


class Growth(NamedTuple):
    """One thing that grows."""

    work: str
    """A name in `growing.WORKS`."""
    by: str
    """The setting that grows."""
    short: tuple[int, ...]
    """Its sizes."""
    long: tuple[int, ...]
    """Its sizes in the long form."""
    fixed: Mapping[str, int] = MappingProxyType({})
    """Other settings."""
    flat: bool = False
    """Whether memory has to stay flat; what keeps every target or text in memory grows."""


_FEW, _MANY = (3_000, 30_000), (1_000, 10_000, 100_000, 1_000_000)
_SOME = (1_000, 10_000, 100_000)
GROWTHS = (
    Growth("encode", "texts", _FEW, _MANY, flat=True),
    Growth("open", "texts", _FEW, _SOME, flat=True),
    Growth("read", "texts", _FEW, _SOME, flat=True),
    Growth("parse", "texts", _FEW, _MANY, flat=True),
    Growth("heads", "texts", (500, 5_000), _SOME, flat=True),
    Growth("geometry", "texts", (500, 5_000), (500, 5_000, 50_000)),
    Growth("probe", "texts", (500, 5_000), (500, 5_000, 50_000)),
    Growth("encode", "blocks", (4, 8), (2, 4, 8, 16), {"texts": 2_000}),
    Growth("probe", "seeds", (2, 4), (1, 2, 4, 8), {"texts": 500, "steps": 50}),
    Growth("probe", "tasks", (2, 4), (1, 2, 4, 8), {"texts": 500, "steps": 50}),
)
WIDTHS = {False: (64, 256), True: (64, 128, 256, 512)}
WORKERS = {False: (1, 2), True: (1, 2, 4)}
"""Long form or not -> sizes."""


class GrowthPoint(NamedTuple):
    """What a work took at one size."""

    work: str
    by: str
    size: int
    cpu_seconds: float
    peak_mb: float


def bars(*, long: bool = False, small: bool = False, drawn: list[GrowthPoint] | None = None) -> Iterator[Bar]:
    """A bar per growth of time, and one where memory has to stay flat; `drawn` takes the points, for a chart."""
    for growth in GROWTHS:
        sizes = growth.long if long else growth.short
        if small and growth.by == "texts":
            sizes = tuple(size // 6 for size in sizes)
        points = [point(growth.work, {**growth.fixed, growth.by: size}) for size in sizes]
        if drawn is not None:
            drawn += [
                GrowthPoint(growth.work, growth.by, size, spent.cpu_seconds, spent.peak_mb)
                for size, spent in zip(sizes, points, strict=True)
            ]
        what = f"{growth.work} against {growth.by}"
        note = f"[{_shown(sizes, [f'{each.cpu_seconds:.1f} s' for each in points])}]"
        yield Bar(f"slope of {what}", slope(sizes, [each.cpu_seconds for each in points]), STEEPEST, False, note=note)
        memory = [each.peak_mb for each in points]
        note = f"[{_shown(sizes, [f'{each:,.0f} MB' for each in memory])}; slope {slope(sizes, memory):.2f}]"
        if growth.flat:
            yield Bar(f"peak memory of {what}, last / before", memory[-1] / memory[-2], FLAT, False, note=note)
        else:
            print(f"       peak memory of {what}: {note}", flush=True)
    yield _width(long=long)
    yield _workers(long=long, drawn=drawn)


def _width(*, long: bool) -> Bar:
    """Arithmetic grows with the square of the width: what counts is encoding against the model alone."""
    sizes = WIDTHS[long]
    ratios = []
    for width in sizes:
        ours, bare = (point(work, {"texts": 1_000, "width": width}) for work in ("encode", "forward"))
        ratios.append(ours.cpu_seconds / bare.cpu_seconds)
    note = f"[{_shown(sizes, [f'{ratio:.2f}x' for ratio in ratios])} the forward pass]"
    return Bar("slope of encode / forward pass against width", slope(sizes, ratios), 0.1, False, note=note)


def _workers(*, long: bool, drawn: list[GrowthPoint] | None = None) -> Bar:
    """Shards of the same texts as processes side by side, into one store: CPU time of all of them together."""
    sizes = WORKERS[long]
    texts = 20_000 if long else 2_000
    together, walls = [], []
    for workers in sizes:
        with tempfile.TemporaryDirectory() as place:
            settings = [{"texts": texts, "shard": shard, "of": workers, "place": place} for shard in range(workers)]
            running = [_begin("encode_shard", each) for each in settings]
            spent = [_spent(each) for each in running]
        together.append(sum(each.cpu_seconds for each in spent))
        walls.append(max(each.seconds for each in spent))
        if drawn is not None:
            drawn.append(GrowthPoint("encode", "workers", workers, together[-1], sum(each.peak_mb for each in spent)))
    shown = [f"{cpu:.1f} s, {wall:.1f} s on the clock" for cpu, wall in zip(together, walls, strict=True)]
    note = f"[{texts:,} texts; {_shown(sizes, shown)}]"
    return Bar("CPU time of all workers, most / one", together[-1] / together[0], 1.5, False, note=note)


def save_chart(points: Sequence[GrowthPoint], path: Path) -> None:
    """Time and memory against what grows, a panel for each, on logarithmic scales."""
    import altair as alt
    import pandas as pd
    import vl_convert

    table = pd.DataFrame(points, columns=list(GrowthPoint._fields))
    columns = []
    for by in table["by"].unique():
        base = alt.Chart(table[table["by"] == by]).mark_line(point=True).properties(width=150, height=150)
        size = alt.X("size:Q", scale=alt.Scale(type="log"), title=by, axis=alt.Axis(tickCount=4, format="~s"))
        panels = [
            base.encode(x=size, y=alt.Y(f"{value}:Q", scale=alt.Scale(type="log"), title=title), color="work:N")
            for value, title in (("cpu_seconds", "CPU time, s"), ("peak_mb", "peak memory, MB"))
        ]
        columns.append(alt.vconcat(*panels))
    chart = alt.hconcat(*columns, background="white")
    path.write_text(vl_convert.vegalite_to_svg(chart.to_json()), encoding="utf-8")


def point(work: str, settings: dict[str, Any]) -> Spent:
    """What a work took, in a process of its own."""
    return _spent(_begin(work, settings))


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Between the last two sizes.

    Example:
        >>> slope([1, 10, 100], [3, 5, 50])
        1.0
    """
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def _begin(work: str, settings: dict[str, Any]) -> subprocess.Popen[str]:
    asked = [sys.executable, "-m", "benchmarks.growing", work, json.dumps(settings)]
    return subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _spent(running: subprocess.Popen[str]) -> Spent:
    said, errors = running.communicate()
    assert running.returncode == 0, errors
    return Spent(**json.loads(said.splitlines()[-1]))


def _shown(sizes: Sequence[int], values: Sequence[str]) -> str:
    return "; ".join(f"{size:,}: {value}" for size, value in zip(sizes, values, strict=True))


if __name__ == "__main__":
    measured: list[GrowthPoint] = []
    for found in bars(long="--long" in sys.argv[1:], small="--small" in sys.argv[1:], drawn=measured):
        print(found, flush=True)
    if "--chart" in sys.argv[1:]:
        save_chart(measured, Path(sys.argv[sys.argv.index("--chart") + 1]))

"""Mutation of sound files of all formats; inputs that reach new code of the readers are mutated further.

A file that one of lamina's readers answers badly is kept beside the campaign's folder, and named. The same seed tries
the same files in the same order, as long as the readers are the same; in the long form, how many depends on the time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from faults.campaign import Campaign
from faults.readers import Seed, format_of, judged, made_seeds, real_seeds

_SHORT = 150
"""Mutants that the short form tries."""
_LARGEST = 10_000
"""Bytes of a mutated file: time goes into many small files."""
_TWICE = 20
"""One of so many files is read twice, to see whether the answer is the same."""
_READERS = f"{os.sep}lamina{os.sep}corpora{os.sep}"

Arc = tuple[CodeType, int, int]
"""A step from one line to the next in a function of the readers."""


def run(campaign: Campaign) -> None:
    """Mutate until the time is up, or so many are tried."""
    pools: dict[str, list[Seed]] = {}
    for seed in made_seeds() + (real_seeds(campaign.corpora) if campaign.corpora else []):
        pools.setdefault(seed.format, []).append(seed)
    reached: set[Arc] = set()
    logging.disable(logging.WARNING)
    try:
        for pool in pools.values():
            for seed in pool:
                _try(campaign, seed, reached, twice=True)
        formats, at_start, number = list(pools), len(reached), 0
        while campaign.left() > 0 and (campaign.full or number < _SHORT):
            pool = pools[formats[number % len(formats)]]
            mutant = _mutated(pool, campaign.random)
            number += 1
            if _try(campaign, mutant, reached, twice=number % _TWICE == 0):
                pool.append(mutant)
    finally:
        logging.disable(logging.NOTSET)
    kept = sum(map(len, pools.values()))
    campaign.note(f"{len(reached):,} steps of the readers reached, {at_start:,} by sound files; {kept:,} inputs kept")


def _try(campaign: Campaign, seed: Seed, reached: set[Arc], *, twice: bool) -> bool:
    """Read the files of a seed; returns whether they reached code that nothing reached before."""
    folder = campaign.folder / seed.format
    path = seed.write(folder)
    before = len(reached)
    fault = judged(path, format_of(seed), twice=twice, watched=_traced(reached))
    campaign.judge(f"files: {seed.format}{f', kept as {_kept(seed)}' if fault else ''}", fault)
    for name in seed.files:
        (folder / name).unlink(missing_ok=True)
    return len(reached) > before


def _kept(seed: Seed) -> Path:
    """Where the files of a finding are kept."""
    digest = hashlib.sha256(b"\0".join(seed.files.values())).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"lamina-fault-{seed.format}-{digest}"
    seed.write(folder)
    return folder


@contextmanager
def _traced(reached: set[Arc]) -> Iterator[None]:
    """Collect the steps from line to line within the readers."""

    def enter(frame: FrameType, _event: str, _arg: object) -> Any:
        code = frame.f_code
        if _READERS not in code.co_filename:
            return None
        last = frame.f_lineno

        def step(frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal last
            if event == "line":
                reached.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def _mutated(pool: list[Seed], draw: random.Random) -> Seed:
    """A seed with one of its files changed; inputs that were kept last are chosen more often."""
    seed = pool[max(draw.randrange(len(pool)), draw.randrange(len(pool)))]
    name = draw.choice(list(seed.files))
    other = draw.choice(pool)
    content = seed.files[name]
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        content = draw.choice(_CHANGES)(content, other.files.get(name, content), draw)[:_LARGEST]
    return Seed(seed.format, seed.files | {name: content})


_ODD = (
    *(b"\t", b"\n", b"\n\n", b"\r\n", b" ", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xc2\xb2", b"\xd9\xa1"),
    *(b"(", b")", b"[", b"]", b"{}", b'"', b"'", b"*", b"|", b"-", b"_", b"#", b"@", b"=", b":", b"...", b"n't"),
    *(b"0", b"-1", b"00", b"1.5", b"99999999999", b"1e999", b"NaN", b"true", b"null", b"9" * 5000, b"[" * 2000),
    *(b"\\ud800", b"\\u0000", b"# newdoc\n", b"# sent_id = \n", b"-DOCSTART-", b"#begin document (a); part 000\n"),
    *(b"#end document\n", b"B-X", b"E-X", b"O", b"-NONE-", b"-LRB-", b"(TOP*", b"Entity=(e1-x)", b"<e1>", b"</e2>"),
)
"""Pieces that matter to some format."""


def _other_bytes(content: bytes, _other: bytes, draw: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 4))):
        if data:
            data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def _flipped_bit(content: bytes, _other: bytes, draw: random.Random) -> bytes:
    data = bytearray(content)
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _without_a_piece(content: bytes, _other: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + content[at + draw.choice((1, 1, 5, 100, 10_000)) :]


def _with_a_piece(content: bytes, _other: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(_ODD) * draw.choice((1, 1, 1, 3, 200)) + content[at:]


def _spliced(content: bytes, other: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)] + other[draw.randrange(len(other) + 1) :]


def _other_fields(content: bytes, other: bytes, draw: random.Random) -> bytes:
    """Lines or fields exchanged, dropped, doubled, replaced, or taken from another file."""
    mark = draw.choice((b"\n", b"\n", b"\n\n", b"\t", b" ", b",", b'"'))
    parts = content.split(mark)
    one, two = draw.randrange(len(parts)), draw.randrange(len(parts))
    change = draw.randrange(6)
    if change == 0:
        parts[one], parts[two] = parts[two], parts[one]
    elif change == 1:
        del parts[one]
    elif change == 2:
        parts.insert(two, parts[one])
    elif change == 3:
        parts[one] = draw.choice(_ODD)
    elif change == 4:
        parts[one] = draw.choice(other.split(mark))
    else:
        parts[one:one] = [parts[one]] * draw.choice((2, 50, 1000))
    return mark.join(parts)


def _other_number(content: bytes, _other: bytes, draw: random.Random) -> bytes:
    numbers = list(re.finditer(rb"-?\d+", content))
    if not numbers:
        return content
    found = draw.choice(numbers)
    near = str(int(found[0][:9]) + draw.choice((-2, -1, 1, 2))).encode() if found[0][:9] != b"-" else b"0"
    number = draw.choice((near, near, b"0", b"-1", b"00", b"1.0", b"2147483648", b"9" * 19, b"9" * 4400))
    return content[: found.start()] + number + content[found.end() :]


_VALUES = (
    None,
    True,
    0,
    -1,
    1.5,
    10**400,
    1e308,
    "",
    "x",
    "0",
    [],
    {},
    [[]],
    [None],
    [0, 1],
    ["a"],
    {"a": 1},
    "\n",
    "\ud800",
)


def _other_json(content: bytes, _other: bytes, draw: random.Random) -> bytes:
    """One value of the JSON exchanged for another, from the same file or odd."""
    lines = content.split(b"\n")
    whole = content.lstrip()[:1] in (b"[", b"{") and (len(lines) < 3 or not lines[0].rstrip().endswith(b"}"))
    at = draw.randrange(len(lines))
    with suppress(ValueError, RecursionError, UnicodeDecodeError):
        value = json.loads(content if whole else lines[at])
        places = list(_places(value))
        if not places:
            return content
        holder, key = draw.choice(places)
        change = draw.randrange(4)
        if change == 0:
            del holder[key]
        elif change == 1:
            other, there = draw.choice(places)
            holder[key], other[there] = other[there], holder[key]
        else:
            holder[key] = draw.choice(_VALUES)
        made = json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
        return made if whole else b"\n".join([*lines[:at], made, *lines[at + 1 :]])
    return content


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value within a JSON value, as the list or object that holds it and its key."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield value, key
        yield from _places(one)


Change = Callable[[bytes, bytes, random.Random], bytes]
_CHANGES: tuple[Change, ...] = (
    *(_other_bytes, _flipped_bit, _without_a_piece, _with_a_piece, _with_a_piece, _spliced),
    *(_other_fields, _other_fields, _other_number, _other_json, _other_json),
)

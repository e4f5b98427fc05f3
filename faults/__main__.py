"""`python -m faults`: all parts of the campaign, or those that are named; exit status 1 if a fault was found."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from faults.campaign import Campaign, merged, warm
from faults.layer import preload, unload

PARTS = {
    "kills": 3600,
    "analyses": 900,
    "saving": 300,
    "writes": 1200,
    "power": 900,
    "disk": 600,
    "inputs": 600,
    "fuzzing": 1800,
    "web": 900,
    "planted": 600,
    "supply": 120,
    "determinism": 300,
}
"""Part -> time limit of the long form, in seconds."""
SHORT = 600
"""Time limit of a part's short form, which tries as much on a busy machine as on an idle one."""


def main(argv: list[str] | None = None) -> int:
    """Run the parts; returns the exit status."""
    asked = _parser().parse_args(argv)
    if asked.merge:
        print(merged(asked.merge))
        return 0
    why = preload() if {"analyses", "writes", "power"} & set(asked.parts or PARTS) else ""
    if why:
        print(why, flush=True)
    # Not a TemporaryDirectory: every forked case would delete it as it ends.
    scratch = Path(tempfile.mkdtemp(prefix="lamina-faults-"))
    try:
        folder = (asked.folder or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        # Nothing of the user's own cache is read or changed.
        os.environ |= {"LAMINA_CACHE": str(folder / "cache"), "LAMINA_STORE": str(folder / "store")}
        warm()
        share = tuple(map(int, asked.share.split("/")))
        settings = {"seed": asked.seed, "full": asked.full, "corpora": asked.corpora, "share": share}
        campaigns = []
        for part in asked.parts or PARTS:
            seconds = asked.seconds or (PARTS[part] if asked.full else SHORT)
            campaign = Campaign(part, folder, **settings, seconds=seconds)
            import_module(f"faults.{part}").run(campaign)
            print(campaign.summary(), flush=True)
            campaign.record()
            campaigns.append(campaign)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        unload()
    return int(any(campaign.faults for campaign in campaigns))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*PARTS, []], help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=0, help="other random choices")
    parser.add_argument("--seconds", type=float, help="time limit of each part")
    parser.add_argument("--full", action="store_true", help="the long form")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")
    parser.add_argument(
        "--share", default="0/1", metavar="NUMBER/OF", help="only a share of analyses, writes and power"
    )
    parser.add_argument("--merge", type=Path, nargs="+", help="print one table of what runs in these folders tried")
    parser.add_argument("--corpora", type=Path, help="a folder with real corpora, to take files from")
    return parser


if __name__ == "__main__":
    sys.exit(main())

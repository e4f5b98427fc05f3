"""`lamina` and `python -m lamina`: the command line."""

import os
import sys
from threading import Timer

_PATIENCE = 5.0
"""Seconds to end in an orderly way after Ctrl-C."""


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line, in its first moments too, while modules are loaded."""
    try:
        from lamina.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("lamina: stopped; finished work is saved, run the same command to continue", file=sys.stderr)
        end_soon()
        raise SystemExit(130) from None


def end_soon() -> None:
    """End this process after a while in any way: Ctrl-C at an unlucky moment leaves a lock that threads wait for."""
    # Python waits for its threads at its end, but not for this one.
    last = Timer(_PATIENCE, os._exit, (130,))
    last.daemon = True
    last.start()


if __name__ == "__main__":
    main()

"""Entry point of the `coterie` command, which is also `python -m coterie_cli`."""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec

from coterie_cli.interrupts import end_at_interrupts

__all__ = ["main"]


def main() -> None:
    """Run the `coterie` command with the arguments of this process."""
    end_at_interrupts()
    for needed in ("typer", "rich"):
        if find_spec(needed) is None:
            sys.stderr.write(
                f"The coterie command needs {needed}, which is not installed:"
                " pip install 'coterie[cli]'.\n"
            )
            sys.exit(2)
    # Most commands are over before there is garbage, and a list of 100,000 groups has none; `serve`
    # sets what suits it.
    gc.set_threshold(100_000, 50, 100)
    from coterie_cli.main import main as run

    run()


if __name__ == "__main__":
    main()

"""Plant bugs that the simulator can't find, one at a time, and show which test finds each.

    python tools/planted_bugs.py [NAME ...]

Exits with 1 if a bug is not found, or if its tests fail without it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))

from tests.planted.bugs import BUGS, Bug  # noqa: E402  # needs the path set above

__all__ = ["main"]

_FOUND = re.compile(r"^(?:FAILED|ERROR) \S+?::(\S+)", re.MULTILINE)
_TIMEOUT_S = 120


def _tests_pass(bug: Bug, planted: str | None) -> tuple[bool, str]:
    """Return whether a bug's tests pass, and the first one that fails."""
    environ = {**os.environ, **({"PLANTED_BUG": planted} if planted else {})}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *bug.tests]
    try:
        result = subprocess.run(
            command,
            check=False,
            cwd=_ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return False, f"a test that takes over {_TIMEOUT_S} s"
    found = _FOUND.search(result.stdout)
    return result.returncode == 0, found[1] if found else result.stdout[-200:]


def _is_found(bug: Bug, sound: dict[tuple[str, ...], bool]) -> bool:
    """Return whether tests find a bug and pass without it; print the first one that finds it."""
    if bug.tests not in sound:
        sound[bug.tests] = _tests_pass(bug, None)[0]
    passes, test = _tests_pass(bug, bug.name)
    told = "NOT FOUND" if passes else test
    if not sound[bug.tests]:
        told = "its tests fail without it"
    print(f"{bug.name:<32} {told}", flush=True)
    return sound[bug.tests] and not passes


def main() -> int:
    """Plant the bugs named on the command line, or all; return the exit status."""
    known = [bug.name for bug in BUGS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them by default")
    names = parser.parse_args().names
    if odd := set(names) - set(known):
        parser.error(f"there is no bug called {', '.join(sorted(odd))}")
    sound: dict[tuple[str, ...], bool] = {}
    print(f"{'planted bug':<32} the test that found it")
    missed = [
        bug.name for bug in BUGS if bug.name in (names or known) and not _is_found(bug, sound)
    ]
    print(f"{len(missed)} not found" if missed else "all found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

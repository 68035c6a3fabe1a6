"""Running a function alone, in a fresh interpreter, as for measuring what it takes.

`tracemalloc` counts the memory of all threads, and CPython before 3.12.9 and 3.13.2 may crash when
it is started or stopped while another thread allocates.  The processes that run the tests in
parallel have such a thread.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["run_alone"]

T = TypeVar("T")

_ROOT = Path(__file__).resolve().parents[2]
#: It only bounds a failure, and machines may have much else to do.
_WAIT_S = 500.0


def run_alone(function: Callable[..., T], *arguments: object) -> T:
    """Call a function of a module in a process that has no other thread; return what it returns.

    What it is given and what it returns is pickled.  An exception is raised with its traceback as
    the text.
    """
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.alone"],
        input=pickle.dumps((function, arguments)),
        capture_output=True,
        cwd=_ROOT,
        timeout=_WAIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    result: T = pickle.loads(ended.stdout)  # noqa: S301  # from our own process
    return result


def _main() -> None:
    function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  # from our own process
    assert threading.active_count() == 1, threading.enumerate()
    result = function(*arguments)
    sys.stdout.buffer.write(pickle.dumps(result))


if __name__ == "__main__":
    _main()

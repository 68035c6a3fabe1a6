"""What failed tests leave open is told with them, and fails no others.

A test that fails in the middle often does not come to close what it opened.  Its traceback keeps
that alive for a while, and the warnings that come in the end would fail a test of the same process
that has no part in it.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Generator

import pytest

__all__ = ["LeftOpen"]


class LeftOpen:
    """A plugin that finalizes what a failed test held, and adds what was open to its report."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self._failed = False
        self._before: set[threading.Thread] = set()
        #: Threads that still ran when the failed tests that started them were over.
        self._left: set[threading.Thread] = set()

    def pytest_sessionstart(self) -> None:
        """Stand between the interpreter and the hooks of pytest, which are there by now."""
        unraisable_hook, thread_hook = sys.unraisablehook, threading.excepthook

        def unraisable(args: sys.UnraisableHookArgs) -> None:
            # Such a thread goes on opening things, which are finalized at any time in any thread.
            if not (self._left and isinstance(args.exc_value, ResourceWarning)):
                unraisable_hook(args)

        def in_thread(args: threading.ExceptHookArgs) -> None:
            if args.thread not in self._left:
                thread_hook(args)

        sys.unraisablehook, threading.excepthook = unraisable, in_thread

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._failed = False
        self._before = set(threading.enumerate())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._failed = self._failed or report.failed
        if call.when == "teardown" and self._failed:
            getattr(item, "funcargs", {}).clear()
            told = "\n".join([*_finalized(), *self._threads()])
            if told:
                # pytest shows with a failure what the teardown has to say, by this word.
                report.sections.append(("Left open, found after teardown", told))
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        result = yield
        if self._failed:
            # Only now is the error of a teardown gone, with all that its frames held.
            _finalized()
        return result

    def _threads(self) -> list[str]:
        left = {thread for thread in threading.enumerate() if thread not in self._before}
        self._left |= left
        return sorted(f"{thread.name} is still running" for thread in left)


def _finalized() -> list[str]:
    """Let go of the last error and of all garbage; return what was wrong with that."""
    told: list[str] = []
    passed_on = sys.unraisablehook
    sys.unraisablehook = lambda args: told.append(f"{args.object!r}: {args.exc_value!r}")
    try:
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            if hasattr(sys, name):
                delattr(sys, name)
        gc.collect()
    finally:
        sys.unraisablehook = passed_on
    return told

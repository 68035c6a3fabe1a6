"""An executor for what may take longer than the command is to take."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import Any, TypeVar

__all__ = ["DaemonThreads"]

T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """Makes each call in a thread that the end of the process does not wait for.

    What takes long here is a resolver that does not answer, and a person does not wait for that.
    """

    def submit(
        self,
        fn: Callable[..., T],
        /,
        *args: Any,  # noqa: ANN401  # the function's own
        **kwargs: Any,  # noqa: ANN401
    ) -> Future[T]:
        """Call a function in a thread of its own."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from here on, it can't be cancelled

        def call() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001  # it is raised where the result is taken
                future.set_exception(error)

        Thread(target=call, daemon=True).start()
        return future

"""The thread that alone touches the SQLite connection, and commits many calls at a time."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from coterie_server.storage._transaction import Transaction
from coterie_server.storage.abc import FencedError, StoreError
from coterie_server.storage.damage import Damage, damaged
from coterie_server.storage.guard import Guard, read_reached
from coterie_server.storage.mark import Mark, Reached, mark_path
from coterie_server.storage.schema import Connect, explain, open_database

__all__ = ["Writer"]

T = TypeVar("T")

GROUP_JOBS_MAX: Final = 1000
"""How many calls share a transaction at most: it bounds how long the first of them waits."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A call that looks at what is committed; `mends` is the shard that may take appends again."""

    future: asyncio.Future[Any]
    work: Callable[[sqlite3.Connection], object]
    mends: int | None


@dataclass(frozen=True, slots=True)
class _Write:
    """A call that changes something; `appends_to` is the shard that must not get a gap."""

    future: asyncio.Future[Any]
    work: Callable[[Transaction], object]
    appends_to: int | None


class _Watched:
    """An open database, with what notices that it is not what this process left."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, mark: Mark, *, is_behind: bool
    ) -> None:
        self.connection = connection
        self._mark = mark
        # The store may be behind its mark; until somebody accepts that for good, the mark stays.
        self._is_behind = is_behind
        self._reached = read_reached(connection)
        self._guard = Guard(path, connection)

    def check(self) -> None:
        """Raise `StoreError` if somebody has done something to the files."""
        self._guard.check(self._reached)

    def wrote(self, reached: Reached) -> None:
        """Note that a transaction is durable; raise `StoreError` if its file is gone."""
        self._reached = reached
        # First, as what went to a file that is gone is acknowledged to nobody.
        self._guard.wrote()
        if not self._is_behind:
            self._mark.write(reached)

    def accept_loss(self) -> None:
        """From now on the store is what counts, whatever the mark says."""
        if self._is_behind:
            self._is_behind = False
            self._mark.begin_anew(self._reached)

    def close(self) -> None:
        """Close the files."""
        self.connection.close()
        self._guard.close()
        self._mark.close()


_Job = _Read | _Write
_Outcomes = list[tuple[asyncio.Future[Any], object]]


class Writer:
    """Does the calls of an event loop in a thread, in their order.

    Everything that waits when the thread looks becomes one transaction, so while one commit is on
    its way to the disk, the next one gathers. Results go back to the loop once for each
    transaction, not once for each call.
    """

    def __init__(self, path: Path, connect: Connect, *, accept_loss: bool = False) -> None:
        self._path = path
        self._connect = connect
        self._accept_loss = accept_loss
        self._loop = asyncio.get_running_loop()
        self._watched: _Watched
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None is the end
        self._broken: dict[int, str] = {}
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        # A daemon: a process that forgot to close its store should still be able to end.
        self._thread = threading.Thread(target=self._run, name="coterie-store", daemon=True)

    async def start(self) -> None:
        """Open the file; a writer that could not has ended already."""
        self._thread.start()
        try:
            await self._started
        except StoreError:
            self._thread.join()
            raise
        except asyncio.CancelledError:
            self._jobs.put(None)  # nobody is going to stop it
            raise

    async def stop(self) -> None:
        """Finish what was asked for before, close the file and end the thread."""
        self._jobs.put(None)
        await self._ended
        self._thread.join()  # it has nothing left to do, so this does not hold the loop up

    def accept_loss(self) -> asyncio.Future[None]:
        """Have what the store holds count from now on, though it may be behind its mark."""
        return self.write(lambda _transaction: self._watched.accept_loss())

    def read(
        self, work: Callable[[sqlite3.Connection], T], *, mends: int | None = None
    ) -> asyncio.Future[T]:
        """Have something read, behind all that was asked for before."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Read(future, work, mends))
        return future

    def write(
        self, work: Callable[[Transaction], T], *, appends_to: int | None = None
    ) -> asyncio.Future[T]:
        """Have something written; the result is durable."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Write(future, work, appends_to))
        return future

    def _run(self) -> None:
        try:
            watched = self._open()
        except StoreError as error:
            self._post([(self._started, error)])
            return
        except Exception as error:  # noqa: BLE001  # a bug; whoever opens must not wait for ever
            self._post([(self._started, self._store_error(error))])
            return
        self._watched = watched
        self._post([(self._started, None)])
        try:
            while self._do(watched, self._wait()):
                pass
        finally:
            watched.close()
            self._post([(self._ended, None)])

    def _open(self) -> _Watched:
        mark = Mark(mark_path(self._path))
        connection = open_database(
            self._path, self._connect, mark=mark, accept_loss=self._accept_loss
        )
        try:
            return _Watched(self._path, connection, mark, is_behind=self._accept_loss)
        except BaseException:
            connection.close()
            raise

    def _wait(self) -> list[_Job | None]:
        """Return all that waits to be done, once there is something."""
        jobs = [self._jobs.get()]
        try:
            while len(jobs) < GROUP_JOBS_MAX:
                jobs.append(self._jobs.get_nowait())
        except Empty:
            pass
        return jobs

    def _do(self, watched: _Watched, jobs: Sequence[_Job | None]) -> bool:
        """Do a group of jobs; return False at the end.

        Reads divide a group, because they see only what is committed.
        """
        for kind, run in groupby(jobs, type):
            if kind is _Write:
                self._post(self._commit(watched, [job for job in run if type(job) is _Write]))
            elif kind is _Read:
                self._post(self._answer(watched, [job for job in run if type(job) is _Read]))
            else:
                return False
        return True

    def _commit(self, watched: _Watched, jobs: Sequence[_Write]) -> _Outcomes:
        """Do a group of writes in one transaction: all of them, or none but for those refused."""
        connection = watched.connection
        try:
            if connection.in_transaction:  # the last rollback failed as well
                connection.execute("ROLLBACK")
            transaction = Transaction(connection, self._broken)
            watched.check()
            outcomes: _Outcomes = []
            for job in jobs:
                try:
                    outcomes.append((job.future, job.work(transaction)))
                except (FencedError, StoreError) as refusal:
                    outcomes.append((job.future, refusal))
            watched.wrote(transaction.end())
        except Exception as error:  # noqa: BLE001  # a bug must fail its callers, not hang them
            self._roll_back(connection)
            return self._fail(jobs, error)
        return outcomes

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        # SQLite itself rolls back after some errors, and after others it is up to us. Where that
        # fails as well, the next group tries again before it begins.
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _fail(self, jobs: Sequence[_Write], error: Exception) -> _Outcomes:
        for job in jobs:
            if job.appends_to is not None:
                self._broken.setdefault(job.appends_to, str(self._store_error(error)))
        # Each caller gets an error of its own, as raising one changes it.
        return [(job.future, self._store_error(error)) for job in jobs]

    def _answer(self, watched: _Watched, jobs: Iterable[_Read]) -> _Outcomes:
        outcomes: _Outcomes = []
        for job in jobs:
            try:
                watched.check()
                outcomes.append((job.future, job.work(watched.connection)))
            except Exception as error:  # noqa: BLE001  # a bug must fail its caller, not hang it
                outcomes.append((job.future, self._store_error(error)))
            else:
                if job.mends is not None:
                    self._broken.pop(job.mends, None)
        return outcomes

    def _store_error(self, error: Exception) -> StoreError:
        if isinstance(error, sqlite3.Error):
            explained = explain(self._path, error)
        elif isinstance(error, Damage):
            explained = StoreError(damaged(self._path, str(error)))
        elif isinstance(error, StoreError):
            explained = StoreError(str(error))
        else:
            explained = StoreError(f"{self._path}: the store failed: {error!r}")
        explained.__cause__ = error
        return explained

    def _post(self, outcomes: _Outcomes) -> None:
        # Once the loop is closed, nobody waits for results any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_deliver, outcomes)


def _deliver(outcomes: _Outcomes) -> None:
    for future, outcome in outcomes:
        if future.done():
            continue  # its caller was cancelled
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

"""The thread that owns the SQLite connection, and commits many calls at a time."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeVar

from coterie_server.frames_of_errors import without_frames
from coterie_server.storage.abc import FencedError, Lease, StoreError
from coterie_server.storage.busy import give_up_soon, patiently
from coterie_server.storage.damage import Damage, damaged
from coterie_server.storage.guard import Guard, read_progress
from coterie_server.storage.mark import Mark, Progress, mark_path
from coterie_server.storage.schema import Connect, explain, open_database
from coterie_server.storage.transaction import Transaction
from coterie_server.storage.turns import Turns

__all__ = ["WriterThread"]

T = TypeVar("T")

GROUP_JOBS_MAX: Final = 1000
"""How many calls share a transaction at most: it bounds how long the first of them waits."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A call that reads what is committed."""

    future: asyncio.Future[Any]
    work: Callable[[sqlite3.Connection], object]


@dataclass(frozen=True, slots=True)
class _Write:
    """A call that writes; if it fails, nothing more is appended under its lease."""

    future: asyncio.Future[Any]
    work: Callable[[Transaction], object]
    appends_under: Lease | None


class _Database:
    """An open database, with the guard and the mark that notice when it has lost something."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, mark: Mark, *, is_behind: bool
    ) -> None:
        self.connection = connection
        self._mark = mark
        # Whether the store may be behind its mark; the mark stays until that loss is accepted.
        self._is_behind = is_behind
        self._progress = read_progress(connection)
        self._guard = Guard(path, connection)
        give_up_soon(connection)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read what is committed."""

        def attempt() -> T:
            self._guard.check()
            return work(self.connection)

        return patiently(attempt)

    def refuse_distrusted(self) -> None:
        """Raise `StoreError` if the files were found changed before."""
        self._guard.refuse_distrusted()

    def writing(self) -> AbstractContextManager[None]:
        """Check the files, then write to them; raise `StoreError` if it went to a deleted file."""
        return self._guard.writing()

    def wrote(self, progress: Progress) -> None:
        """Note that a transaction is durable."""
        self._progress = progress
        if not self._is_behind:
            self._mark.write(progress)

    def accept_loss(self) -> None:
        """Begin the mark anew at what the store holds."""
        if self._is_behind:
            self._is_behind = False
            self._mark.begin_anew(self._progress)

    def close(self) -> None:
        """Close the files."""
        with contextlib.ExitStack() as rest:  # one that can't be closed does not keep the others
            rest.callback(self._mark.close)
            rest.callback(self._guard.close)
            rest.callback(self.connection.close)


_Job = _Read | _Write
_Results = list[tuple[asyncio.Future[Any], object]]


class WriterThread:
    """Runs the calls of an event loop in a thread, in their order.

    All writes that wait when the thread looks become one transaction: while one commit is on its
    way to the disk, the next one gathers.  Results go back to the loop once for each transaction,
    not once for each call.  What comes before a commit and after it is done in turns of the thread.
    """

    def __init__(self, path: Path, connect: Connect, *, accept_loss: bool = False) -> None:
        self._path = path
        self._connect = connect
        self._accept_loss = accept_loss
        self._loop = asyncio.get_running_loop()
        self._database: _Database
        self._jobs: deque[_Job | None] = deque()  # None is the end
        self._turns = Turns(self._loop)
        self._broken: dict[int, tuple[int, str]] = {}
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        # A daemon: a process that forgot to close its store should still be able to end.
        self._thread = threading.Thread(target=self._run, name="coterie-store", daemon=True)

    async def start(self) -> None:
        """Open the file; raises `StoreError` and ends the thread if that fails."""
        self._thread.start()
        try:
            await self._started
        except StoreError:
            self._thread.join()
            raise
        except asyncio.CancelledError:
            self._put(None)  # as `stop` will not be called
            raise

    async def stop(self) -> None:
        """Finish earlier calls, close the file and end the thread."""
        self._put(None)
        await asyncio.shield(self._ended)
        self._thread.join()  # it has nothing left to do, so this does not hold the loop up

    def accept_loss(self) -> asyncio.Future[None]:
        """Accept that the store may be behind its mark: begin the mark anew."""
        return self.write(lambda _transaction: self._database.accept_loss())

    def read(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Run a reading call after all earlier calls."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._put(_Read(future, work))
        return future

    def write(
        self, work: Callable[[Transaction], T], *, appends_under: Lease | None = None
    ) -> asyncio.Future[T]:
        """Run a writing call; it is durable when the future is done."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._put(_Write(future, work, appends_under))
        return future

    @property
    def give_way(self) -> Callable[[], None]:
        """What gives the thread a turn if it should be back from the disk by now."""
        return self._turns.give_way

    def _put(self, job: _Job | None) -> None:
        self._jobs.append(job)
        self._turns.give_soon()

    def _run(self) -> None:
        try:
            database = self._open()
        except StoreError as error:
            self._post([(self._started, error)])
            return
        except Exception as error:  # noqa: BLE001  # a bug must fail `start`, not hang it
            self._post([(self._started, self._store_error(error))])
            return
        self._database = database
        self._post([(self._started, None)])
        try:
            while self._do(database, self._wait()):
                pass
        finally:
            self._turns.end()
            # What was acknowledged is durable, and who waits for the end can do nothing more.
            with contextlib.suppress(Exception):
                database.close()
            self._post([(self._ended, None)])

    def _open(self) -> _Database:
        mark = Mark(mark_path(self._path))
        connection = open_database(
            self._path, self._connect, mark=mark, accept_loss=self._accept_loss
        )
        try:
            return _Database(self._path, connection, mark, is_behind=self._accept_loss)
        except BaseException:
            connection.close()
            raise

    def _wait(self) -> list[_Job | None]:
        """Wait for a job; return all that wait."""
        while not self._jobs:
            self._turns.wait(self._jobs)
        return [self._jobs.popleft() for _ in range(min(len(self._jobs), GROUP_JOBS_MAX))]

    def _do(self, database: _Database, jobs: Sequence[_Job | None]) -> bool:
        """Do a group of jobs; return False when it is time to end.

        Reads divide a group, because they see only what is committed.
        """
        for kind, run in groupby(jobs, type):
            if kind is _Write:
                self._post(self._commit(database, [job for job in run if type(job) is _Write]))
            elif kind is _Read:
                self._post(self._answer(database, [job for job in run if type(job) is _Read]))
            else:
                return False
        return True

    def _commit(self, database: _Database, jobs: Sequence[_Write]) -> _Results:
        """Do a group of writes in one transaction: all but the refused ones, or none."""
        connection = database.connection
        try:
            database.refuse_distrusted()  # in its words, before SQLite trips over what is wrong
            if connection.in_transaction:  # the last rollback failed as well
                connection.execute("ROLLBACK")
            transaction = Transaction(connection, self._broken)
            with database.writing():
                results = _done(jobs, transaction)
                transaction.write()
                self._turns.leave()
                progress = transaction.commit()
                self._turns.come_back()
            database.wrote(progress)
        except Exception as error:  # noqa: BLE001  # a bug must fail its callers, not hang them
            self._roll_back(connection)
            return self._fail(jobs, error)
        return results

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        # SQLite rolls back by itself after some errors only.  If this fails as well, the next group
        # tries again before it begins.
        with contextlib.suppress(Exception):  # as when there is no memory
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _fail(self, jobs: Sequence[_Write], error: Exception) -> _Results:
        for job in jobs:
            lease = job.appends_under
            if lease is not None:
                # Of the epochs of a shard, only the last can be in force.
                before, _ = self._broken.get(lease.shard, (0, ""))
                if before < lease.fence.epoch:
                    why = str(self._store_error(error))
                    self._broken[lease.shard] = (lease.fence.epoch, why)
        # Raising an error changes it, so each caller gets its own.
        return [(job.future, self._store_error(error)) for job in jobs]

    def _answer(self, database: _Database, jobs: Iterable[_Read]) -> _Results:
        results: _Results = []
        for job in jobs:
            try:
                results.append((job.future, database.read(job.work)))
            except Exception as error:  # noqa: BLE001  # a bug must fail its caller, not hang it
                results.append((job.future, self._store_error(error)))
        return results

    def _store_error(self, error: Exception) -> StoreError:
        if isinstance(error, sqlite3.Error):
            explained = explain(self._path, error)
        elif isinstance(error, Damage):
            explained = StoreError(damaged(self._path, str(error)))
        elif isinstance(error, StoreError):
            explained = StoreError(str(error))
        else:
            explained = StoreError(f"{self._path}: the store failed: {error!r}")
        explained.__cause__ = without_frames(error)
        return explained

    def _post(self, results: _Results) -> None:
        # Once the loop is closed, no caller waits for results.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_deliver, results)


def _done(jobs: Sequence[_Write], transaction: Transaction) -> _Results:
    results: _Results = []
    for job in jobs:
        try:
            results.append((job.future, job.work(transaction)))
        except (FencedError, StoreError) as refusal:
            results.append((job.future, without_frames(refusal)))
    return results


def _deliver(results: _Results) -> None:
    for future, result in results:
        if future.done():
            continue  # its caller was cancelled
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

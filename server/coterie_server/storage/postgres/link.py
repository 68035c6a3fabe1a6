"""A connection that is made when it is needed, and made again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import asyncpg

from coterie_server.frames_of_errors import without_frames
from coterie_server.storage.abc import StoreError
from coterie_server.storage.postgres.address import Address
from coterie_server.storage.postgres.attempts import Attempts
from coterie_server.storage.postgres.errors import (
    FAILURES,
    ReadOnlyError,
    StandbyError,
    UnconfirmedError,
    explain,
    is_full,
    is_refusal,
    is_undone,
)

__all__ = ["ANSWER_S", "Link", "Session"]

T = TypeVar("T")
Host = tuple[str | None, int | None]

#: How long a statement may take.  Disks that stand still for seconds do recover.
ANSWER_S: Final = 10.0
_CLOSE_S: Final = 1.0
#: How much longer a statement may wait on the server than its caller, who is to give up first.
_LONGER_S: Final = 0.5
#: After how long without a call a connection is tried, before firewalls forget it, and how long
#: the answer may take.
_IDLE_S: Final = 30.0
_TRIED_S: Final = 2.0
#: After how long an attempt to connect is given up: on a slow network, to say hello takes a dozen
#: round trips, and those to a server that is silent must not pile up.
_ATTEMPT_S: Final = 5.0
#: How long to leave it at that if a connection can't be made now and no call wants one.
_LEFT_S: Final = 10.0
#: Has a transaction be durable, and the server warn if it is not.  The setting may be switched off
#: at any moment, also between the statements of one transaction.  And has it wait for locks for not
#: much longer than its caller waits for the answer.
_DURABLY: Final = (
    "SELECT set_config('synchronous_commit', coalesce("
    "nullif(current_setting('synchronous_commit'), 'off'), 'on'), true),"
    " set_config('client_min_messages', 'warning', true),"
    " set_config('lock_timeout', '{patience_ms}', true); "
)
#: The function of the server which warns that somebody has cancelled the wait for a standby.  It
#: says so in any language.
_WAITS_FOR_STANDBY: Final = "SyncRepWaitForLSN"
#: After how long the server ends a transaction of a node that is paused, with the locks it holds.
_PAUSED_MS: Final = 2000
#: Pauses between attempts to connect; the last one is repeated.
_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4)


class Session:
    """An open connection."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # asyncpg has no types
        self._connection = connection
        connection.add_log_listener(self._hear)
        self._is_unconfirmed = False
        #: What makes a transaction durable, where the server would not do so by itself.
        self.durably = ""
        #: How long a transaction may wait for a lock.  One that was given up would go on waiting
        #: on the server, where each takes up a connection.
        self.patience_ms = 0

    @property
    def is_open(self) -> bool:
        """Whether the connection is not known to be lost."""
        return not self._connection.is_closed()

    async def execute(self, statements: str) -> int:
        """Run statements, all or none; return the count in the last one's result.

        They are one message and, if there are several, one transaction.
        """
        self._is_unconfirmed = False
        durably = self.durably.format(patience_ms=self.patience_ms)
        status = await self._connection.execute(durably + statements)
        if self._is_unconfirmed:
            raise UnconfirmedError
        return int(status.rpartition(" ")[2]) if status[-1:].isdigit() else 0

    def _hear(self, _connection: object, said: Any) -> None:  # noqa: ANN401  # asyncpg's
        """Take in a warning, which comes before the answer that it concerns."""
        if getattr(said, "server_source_function", None) == _WAITS_FOR_STANDBY:
            self._is_unconfirmed = True

    async def fetch(self, query: str, *values: object) -> list[Any]:
        """Return the rows of a query."""
        # A pooler would give each step of it another session if there were no transaction.
        await self._connection.execute(
            f"BEGIN; SET LOCAL lock_timeout TO {self.patience_ms};"
            f" SET LOCAL idle_in_transaction_session_timeout TO {_PAUSED_MS}"
        )
        try:
            rows: list[Any] = await self._connection.fetch(query, *values)
        except asyncpg.PostgresError:
            if self.is_open:
                await self._connection.execute("ROLLBACK")
            raise
        # A call that is cancelled, or times out, gives its connection up: it would wait here, and
        # fail instead of being cancelled.
        await self._connection.execute("COMMIT")
        return rows

    async def close(self) -> None:
        """Say goodbye, but not for long."""
        with contextlib.suppress(*FAILURES):
            await self._connection.close(timeout=_CLOSE_S)

    def abort(self) -> None:
        """Give the connection up at once."""
        self._connection.terminate()


class Link:
    """One connection to the database, for one call at a time."""

    def __init__(
        self, address: Address, answer_s: float = ANSWER_S, *, has_spare: bool = False
    ) -> None:
        self._address = address
        self._answer_s = answer_s
        #: Whether calls go another way if the server takes no more connections, and don't wait.
        self._has_spare = has_spare
        #: The servers, the one that was last found good first.
        self._hosts: list[Host] = list(address.hosts or ((None, None),))
        self._session: Session | None = None
        #: How many connections it has made.
        self.connections = 0
        #: When it last gave an answer.
        self._good_at = 0.0
        #: When it may be seen to again, after that was in vain.
        self._left_until = 0.0
        #: How often the task of the present call had been cancelled before.
        self._cancellations = 0
        self._lock = asyncio.Lock()

    async def run(
        self,
        work: Callable[[Session], Awaitable[T]],
        *,
        repeat: bool = True,
        answer_s: float | None = None,
        connect_s: float | None = None,
    ) -> T:
        """Do some work on a connection; raises `StoreError`, and never takes much longer than told.

        If there is no connection, one is awaited for a while; another attempt begins beside one
        that takes longer than an answer may.  Work that lost its connection is tried again
        meanwhile if, with `repeat`, it may have its effect twice; and so is work that is known to
        have had no effect because of something that passes.
        """
        loop = asyncio.get_running_loop()
        answer_s = self._answer_s if answer_s is None else answer_s
        connect_s = min(self._address.connect_s, math.inf if connect_s is None else connect_s)
        async with self._taken(loop.time() + connect_s + answer_s):
            self._cancellations = _cancellations()
            until = loop.time() + connect_s
            failure: Exception = TimeoutError()
            for pause_s in _pauses():
                session = await self._connected(until, answer_s, failure)
                try:
                    return await self._try(session, work, answer_s)
                except FAILURES as error:
                    self._end_if_cancelled()
                    rejected = isinstance(error, asyncpg.PostgresError) and session.is_open
                    may_repeat = is_undone(error) or (repeat and not rejected)
                    if not may_repeat or loop.time() + pause_s > until:
                        shown = self._address.shown
                        raise explain(shown, error, is_rejection=rejected) from error
                    failure = without_frames(error)
                await asyncio.sleep(pause_s)
        raise AssertionError("pauses do not end")

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that is not known to be lost."""
        return self._session is not None and self._session.is_open

    @property
    def is_doubtful(self) -> bool:
        """Whether there is no connection, or one that was not used for long, and no call."""
        now_s = asyncio.get_running_loop().time()
        if self._lock.locked() or now_s < self._left_until:
            return False
        return not self.is_open or now_s - self._good_at >= _IDLE_S

    def suspect(self) -> None:
        """Trust the connection no longer, as one beside it is lost, until there is an answer.

        A call that is under way must get one soon.
        """
        if not self._lock.locked():
            self._good_at = -math.inf
        elif self._session is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(_TRIED_S, self._give_up, self._session, self._good_at)

    def _give_up(self, session: Session, good_at: float) -> None:
        if self._session is session and self._good_at == good_at:
            session.abort()

    async def make_sure(self) -> None:
        """Have a connection that works, so that the next call need not wait for one.

        What it takes to connect may be out of order just when other nodes fail.
        """
        try:
            await self.run(_try_out, answer_s=min(self._answer_s, _TRIED_S))
        except StoreError:  # the next call says so, too
            self._left_until = asyncio.get_running_loop().time() + _LEFT_S

    @contextlib.asynccontextmanager
    async def _taken(self, until: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout_at(until):
                await self._lock.acquire()
        except TimeoutError:
            raise StoreError(
                f"{self._address.shown}: earlier calls still wait for an answer"
            ) from None
        try:
            yield
        finally:
            self._lock.release()

    def _end_if_cancelled(self) -> None:
        """End a call that was cancelled, though what it was doing failed at that."""
        if _cancellations() > self._cancellations:
            raise asyncio.CancelledError

    @contextlib.contextmanager
    def _cancelled_by_none_but_callers(self) -> Iterator[None]:
        """Have a call that nobody has cancelled fail, whatever was cancelled within it."""
        try:
            yield
        except asyncio.CancelledError:
            self._end_if_cancelled()
            raise ConnectionAbortedError("the call was given up") from None

    async def _try(
        self, session: Session, work: Callable[[Session], Awaitable[T]], answer_s: float
    ) -> T:
        session.patience_ms = math.ceil((answer_s + _LONGER_S) * 1000)
        try:
            with self._cancelled_by_none_but_callers():
                async with asyncio.timeout(answer_s):
                    result = await work(session)
        except asyncpg.PostgresError as error:
            # A server that has become a standby stays one; the next may be the primary.
            if is_undone(error) and str(error.sqlstate).startswith(("25", "55")):
                self.abort()
            raise
        except BaseException:
            # Its answer may still be on its way, so the connection is of no more use.
            self.abort()
            raise
        self._good_at = asyncio.get_running_loop().time()
        return result

    async def _connected(self, until: float, attempt_s: float, failure: Exception) -> Session:
        """Return an open session, after connecting if need be; raises `StoreError`.

        `failure` is why the call needs another connection, which is told if there is none in time.
        """
        if self._session is not None:
            if self._session.is_open:
                return self._session
            self.abort()
        async with Attempts[Host, Session](Session.abort) as attempts:
            loop = asyncio.get_running_loop()
            for pause_s in _pauses():
                try:
                    until_next = min(until, loop.time() + attempt_s)
                    self._session = await self._connect(attempts, until_next)
                    self.connections += 1
                except (*FAILURES, StandbyError) as error:
                    without_frames(error)
                    # That the last attempt had little time left explains nothing.
                    failure = failure if isinstance(error, TimeoutError) else error
                    is_final = is_refusal(error) or (self._has_spare and is_full(error))
                    if is_final or loop.time() + pause_s > until:
                        break
                else:
                    return self._session
                await asyncio.sleep(pause_s)
        raise explain(self._address.shown, failure) from failure

    async def _connect(self, attempts: Attempts[Host, Session], until: float) -> Session:
        """Connect to the first server that can be written to, or finish an earlier attempt."""
        loop = asyncio.get_running_loop()
        failure: Exception = TimeoutError()
        for number, host in enumerate(list(self._hosts)):
            # A server that is silent must not use up the time for those after it.
            share_s = max(until - loop.time(), 0.0) / (len(self._hosts) - number)
            attempts.begin(host, asyncio.wait_for(self._connect_to(*host), _ATTEMPT_S))
            try:
                good, session = await attempts.first(share_s)
            except (*FAILURES, StandbyError) as error:
                failure = without_frames(error)
            else:
                self._hosts.remove(good)
                self._hosts.insert(0, good)
                return session
        raise failure

    async def _connect_to(self, host: str | None, port: int | None) -> Session:
        try:
            connection = await asyncpg.connect(
                self._address.dsn,
                host=host,
                port=port,
                password=self._address.password,
                # Poolers may give the next transaction another session, without the statement.
                statement_cache_size=0,
                server_settings={"application_name": "coterie"},
            )
        except (FileNotFoundError, IsADirectoryError) as error:
            # A socket may have no file as well, while its server is away.
            if host is None or host.startswith("/"):
                raise
            why = f"a file that its TLS needs: {error.strerror}"
            raise asyncpg.ClientConfigurationError(why) from error
        session = Session(connection)
        try:
            await _prepare(session)
        except BaseException:
            session.abort()
            raise
        return session

    def abort(self) -> None:
        """Give the connection up; the next call makes another."""
        session, self._session = self._session, None
        if session is not None:
            session.abort()

    async def close(self) -> None:
        """Close the connection once earlier calls are done."""
        async with self._lock:
            session, self._session = self._session, None
            if session is not None:
                await session.close()


async def _try_out(session: Session) -> None:
    await session.execute("SELECT 1")


async def _prepare(session: Session) -> None:
    """See that what is written to a session will be durable."""
    # Distributed databases lack some of these settings, or say that they have them.
    settings = dict(
        await session.fetch(
            "SELECT name, setting FROM pg_catalog.pg_settings"
            " WHERE name IN ('transaction_read_only', 'default_transaction_read_only',"
            " 'synchronous_commit')"
            " UNION ALL SELECT 'version', version()"
        )
    )
    if settings.get("transaction_read_only") == "on":
        is_told = settings.get("default_transaction_read_only") == "on"
        raise ReadOnlyError if is_told else StandbyError
    if "synchronous_commit" in settings and settings["version"].startswith("PostgreSQL"):
        session.durably = _DURABLY


def _cancellations() -> int:
    """How often the current task was cancelled, without the time limits that have passed."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _pauses() -> Iterator[float]:
    """How long to wait after each failure; nodes that lost a server do not return in step."""
    for pause_s in _PAUSES_S:
        yield pause_s * random.uniform(0.5, 1.0)  # noqa: S311  # not a secret
    while True:
        yield _PAUSES_S[-1] * random.uniform(0.5, 1.0)  # noqa: S311  # not a secret

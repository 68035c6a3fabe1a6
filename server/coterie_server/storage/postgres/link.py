"""A connection that is made when it is needed, and made again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, TypeVar

import asyncpg

from coterie_server.frames_of_errors import without_frames
from coterie_server.storage.abc import StoreError
from coterie_server.storage.lanes import RejectedError
from coterie_server.storage.postgres.address import Address
from coterie_server.storage.postgres.attempts import Attempts
from coterie_server.storage.postgres.errors import (
    FAILURES,
    StandbyError,
    UnreachedError,
    explain,
    is_full,
    is_refusal,
    is_undone,
)
from coterie_server.storage.postgres.session import Session

__all__ = ["ANSWER_S", "Link"]

T = TypeVar("T")
Host = tuple[str | None, int | None]

#: How long a statement may take.  Disks that stand still for seconds do recover.
ANSWER_S: Final = 10.0
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
#: Pauses between attempts to connect; the last one is repeated.
_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4)


def _do_nothing() -> None:
    """Have no other link give way."""


class Link:
    """One connection to the database, for one call at a time.

    With `has_spare`, calls go another way if the server takes no more connections, and don't wait.
    Otherwise `make_room` has a link give way that can.
    """

    def __init__(
        self,
        address: Address,
        answer_s: float = ANSWER_S,
        *,
        has_spare: bool = False,
        make_room: Callable[[], None] = _do_nothing,
    ) -> None:
        self._address = address
        self._answer_s = answer_s
        self._has_spare = has_spare
        self._make_room = make_room
        #: Whether the connection is to be given up as soon as no call is under way.
        self._gives_way = False
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
                        kind = RejectedError if rejected else StoreError
                        raise explain(shown, error, kind) from error
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
            if self._gives_way:
                self.abort()

    def give_way(self) -> bool:
        """Give the connection up, for another one to be made; False if there is none to give up."""
        if not self.is_open or self._gives_way:
            return False
        self._gives_way = True
        if not self._lock.locked():
            self.abort()
        return True

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
        """Return an open session, after connecting if need be; raises `UnreachedError`.

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
                    if is_full(error):
                        self._make_room()
                else:
                    return self._session
                await asyncio.sleep(pause_s)
        raise explain(self._address.shown, failure, UnreachedError) from failure

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
            await session.prepare()
        except BaseException:
            session.abort()
            raise
        return session

    def abort(self) -> None:
        """Give the connection up; the next call makes another."""
        session, self._session, self._gives_way = self._session, None, False
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

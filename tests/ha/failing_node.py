"""A coordinator that stops, at an exact point of a group's life, as a signal to itself stops it.

It takes its options as JSON on the command line, and lines on its standard input:

    arm POINT GROUP COUNT SIGNAL    send itself that signal when the group has come to that point

It prints `ready PORT HTTP_PORT`, and `hit SECONDS` of the monotonic clock when it is there.  The
points are methods of `Failpoint`.  Some count: so many members are told, so many have joined, and
those behind them are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.address import Address
from coterie_server.config.listeners import ListenerOptions
from coterie_server.config.settings import Settings
from coterie_server.group.records import GroupRow, from_stored
from coterie_server.group.states import GroupState
from coterie_server.log import configure
from coterie_server.net import Exchange
from coterie_server.server import Server, ServerOptions
from coterie_server.serving.cluster import CATALOGUE_SHARD
from coterie_server.storage import Lease, Record, Store

__all__ = ["AFTER_APPEND", "BEFORE_APPEND", "READ", "REPLIED"]

HOST: Final = "127.0.0.1"
_GROUP_ROW: Final = 1

#: A group's row is about to be stored in a state, or has just been.
BEFORE_APPEND: Final = {"rebalance_due": GroupState.PREPARING}
AFTER_APPEND: Final = {
    "rebalance_stored": GroupState.PREPARING,
    "generation_stored": GroupState.COMPLETING,
    "assignment_stored": GroupState.STABLE,
}
#: So many answers of a kind have been sent, and no further one is.
REPLIED: Final = {
    "told_to_rejoin": lambda answer: (
        isinstance(answer, m.HeartbeatResponse)
        and answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    ),
    "told_generation": lambda answer: (
        isinstance(answer, m.JoinGroupResponse) and answer.error_code == ErrorCode.NONE
    ),
    "told_assignment": lambda answer: (
        isinstance(answer, m.SyncGroupResponse) and answer.error_code == ErrorCode.NONE
    ),
}
#: A request was read: so many joins are parked, or a commit is about to be taken, is about to be
#: stored, or is stored and not answered yet.
READ: Final = ("joined", "commit_read", "commit_due", "commit_stored")


@dataclass(slots=True)
class Failpoint:
    """Where a group has to come to, and what happens then."""

    point: str
    group: str
    count: int
    number: signal.Signals
    #: Where the store is.
    store: str
    #: Whether a commit of the group is on its way to the store.
    is_committing: bool = False
    is_hit: bool = False

    def hit(self) -> None:
        """Be there; only SIGSTOP and SIGTERM ever return from this."""
        if self.is_hit:
            return
        self.is_hit = True
        print(f"hit {time.monotonic()}", flush=True)  # noqa: T201  # the test reads it
        if self.number is signal.SIGSTOP:
            _until_unlocked(self.store)
        os.kill(os.getpid(), self.number)

    # -- what the server does ------------------------------------------------------------------

    def before_request(self, message: Any) -> None:
        """A request of the group was read."""
        if isinstance(message, m.OffsetCommitRequest):
            self.is_committing = True
            if self.point == "commit_read":
                self.hit()

    def after_request(self, message: Any, server: Server) -> None:
        """A request of the group was taken."""
        if self.point == "joined" and isinstance(message, m.JoinGroupRequest):
            group = server.node.group(self.group)
            if group is not None and group.parked_joins >= self.count:
                self.hit()

    def before_append(self, records: Sequence[Record]) -> None:
        """Records are about to be stored."""
        is_due = self._stores(records, BEFORE_APPEND.get(self.point))
        if is_due or (self.point == "commit_due" and self.is_committing):
            self.hit()

    def after_append(self, records: Sequence[Record]) -> None:
        """Records are durable."""
        is_stored = self._stores(records, AFTER_APPEND.get(self.point))
        if is_stored or (self.point == "commit_stored" and self.is_committing):
            self.hit()

    def _stores(self, records: Sequence[Record], state: GroupState | None) -> bool:
        rows = [from_stored(k, v) for k, v in records if k[0] == _GROUP_ROW and v is not None]
        return any(
            isinstance(row, GroupRow) and row.group_id == self.group and row.state == state.value
            for row in rows
            if state is not None
        )

    def may_reply(self, answer: Any) -> bool:
        """Whether an answer may still be sent; those before the end leave the process first."""
        is_kind = REPLIED.get(self.point)
        if is_kind is None or not is_kind(answer):
            return True
        self.count -= 1
        if not self.count:
            # What is written in this turn of the loop is sent at its end.
            asyncio.get_running_loop().call_soon(self.hit)
        return self.count >= 0 or self.number is not signal.SIGKILL


def _until_unlocked(store: str) -> None:
    """Let a thread of this process that has SQLite's lock finish first.

    Who is suspended with it keeps it, and all nodes wait until he goes on.
    """
    path = store.removeprefix("sqlite:")
    if path == store:
        return
    with contextlib.closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


class _Watched:
    """An exchange whose reply the failpoint sees."""

    #: So that it is taken at once, and not in the event loop's next turn with others.
    comes_alone = False

    def __init__(self, exchange: Exchange, failpoint: Failpoint) -> None:
        self._exchange = exchange
        self._failpoint = failpoint

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def reply(self, message: Any) -> None:
        if self._failpoint.may_reply(message):
            self._exchange.reply(message)


class _FailingServer(Server):
    """A server with a failpoint."""

    def __init__(self, options: ServerOptions) -> None:
        super().__init__(options, gate=self._see)
        self.failpoint: Failpoint | None = None

    def _see(self, exchange: Exchange) -> bool:
        failpoint, message = self.failpoint, exchange.message
        if failpoint is None or getattr(message, "group_id", None) != failpoint.group:
            return False
        failpoint.before_request(message)
        self.node.handle(cast(Exchange, _Watched(exchange, failpoint)))
        failpoint.after_request(message, self)
        return True

    def _open_store(self) -> Store:
        store = super()._open_store()
        append = store.append

        async def watched_append(lease: Lease, records: Iterable[Record]) -> None:
            failpoint = self.failpoint if lease.shard != CATALOGUE_SHARD else None
            taken = tuple(records)
            if failpoint is not None:
                failpoint.before_append(taken)
            await append(lease, taken)
            if failpoint is not None:
                failpoint.after_append(taken)

        store.append = watched_append  # type: ignore[method-assign]
        return store

    def arm(self, point: str, group: str, count: str, number: str) -> None:
        """Set the failpoint."""
        known = [*BEFORE_APPEND, *AFTER_APPEND, *REPLIED, *READ]
        assert point in known, point
        store = self.options.store or ""
        self.failpoint = Failpoint(point, group, int(count), signal.Signals[number], store)
        print("armed", flush=True)  # noqa: T201  # the test reads it


def _listen_to_test(loop: asyncio.AbstractEventLoop, server: _FailingServer) -> None:
    orders: dict[str, Callable[..., None]] = {"arm": server.arm}

    def read() -> None:
        line = sys.stdin.readline().split()
        if line:
            orders[line[0]](*line[1:])
        else:
            loop.remove_reader(sys.stdin)

    loop.add_reader(sys.stdin, read)


async def _serve(options: ServerOptions) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    server = _FailingServer(options)
    await server.start()
    assert server.http_address is not None
    _listen_to_test(loop, server)
    print(f"ready {server.address.port} {server.http_address.port}", flush=True)  # noqa: T201
    await stopping.wait()
    await server.stop("SIGTERM")


def main() -> None:
    """Serve until SIGTERM, or until the failpoint is hit."""
    given = json.loads(sys.argv[1])
    configure("info", "json", sys.stderr)
    options = ServerOptions(
        settings=Settings(**given["settings"]),
        listeners=(ListenerOptions(Address(HOST, 0)),),
        http=Address(HOST, 0),
        store=given["store"],
        data_dir=Path(given["data_dir"]),
        topics=given["topics"],
    )
    asyncio.run(_serve(options))


if __name__ == "__main__":
    main()

"""The directory of a group: who owns what, kept up to date by a watch."""

from __future__ import annotations

import asyncio
import math
import random as _random
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self, final

from coterie_client import checks
from coterie_client.backoff import Backoff, RetryOptions
from coterie_client.directory.table import UNKNOWN, Owner, Table
from coterie_client.directory.watching import Watching, parse_addresses
from coterie_client.errors import (
    ClientClosedError,
    ConnectionLostError,
    CoterieClientError,
    DirectoryRefusedError,
    GroupMisuseError,
    NoOwnerError,
)
from coterie_client.home import Home
from coterie_client.log import ROOT, Log, in_a_line, is_power_of_ten
from coterie_client.wire.tls import Tls
from coterie_protocol.partitioner import partition_of_key

if TYPE_CHECKING:
    from coterie_client.directory.http_stream import ServerEvent
    from coterie_client.wire.addresses import TopicPartition

__all__ = ["Directory"]

#: By these, a node says that no attempt would help until something is set otherwise.
_HOPELESS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT})
_PACE: Final = RetryOptions(base_ms=100, max_ms=2_000)


@final
class Directory:
    """Knows who owns what in a group.

    ::

        async with Directory("http://127.0.0.1:9080", "billing") as directory:
            owner = await directory.owner(key="customer-17")
            print(owner.address, owner.token)

    `http` is where nodes answer HTTP; of several, any will do.  While none can be reached, the
    directory goes on with what it knew, and `age` says how old that is.
    """

    def __init__(
        self,
        http: str | Iterable[str],
        group: str,
        *,
        token: str | Callable[[], str] | None = None,
        tls: Tls | None = None,
        wait: float = 5.0,
        silence_timeout: float = 15.0,
        on_change: Callable[[Mapping[TopicPartition, Owner]], object] | None = None,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._addresses = parse_addresses(http)
        self._group = checks.text("group", group)
        if token is not None and not callable(token):
            checks.secret("token", str, "text, or a function that returns it", token)
        if tls is not None:
            checks.instance_of("tls", Tls, "a Tls", tls)
        if on_change is not None:
            checks.plain_callable("on_change", on_change)
        self._wait_s = _wait(wait)
        self._on_change = on_change
        self._table = Table()
        silence_s = checks.seconds("silence_timeout", silence_timeout)
        contexts = tls or Tls()
        self._watching = Watching(
            group,
            token if callable(token) else lambda: token,
            lambda: contexts.ready_context,
            silence_s,
        )
        self._backoff = Backoff(_PACE, random)
        self._log = Log(f"{ROOT}.directory", group=group)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._heard_s: float | None = None
        self._trouble: Exception | None = None
        self._is_closed = False
        self._home = Home("A directory")

    # -- looking -------------------------------------------------------------------------------

    @property
    def owners(self) -> Mapping[TopicPartition, Owner]:
        """All partitions by topic and number, as far as is known; it does not change by itself."""
        return self._table.owners

    @property
    def topics(self) -> Mapping[str, int]:
        """The topics of the group, and how many partitions each has."""
        return self._table.topics

    @property
    def age(self) -> float | None:
        """For how many seconds the coordinator has told nothing; None if it never has.

        While all is well, that is up to five seconds.
        """
        if self._heard_s is None:
            return None
        return max(0.0, asyncio.get_running_loop().time() - self._heard_s)

    @property
    def trouble(self) -> str | None:
        """Why the group is not being watched, if it is not."""
        trouble = self._trouble
        if isinstance(trouble, CoterieClientError | OSError) and str(trouble):
            return str(trouble)
        return None if trouble is None else in_a_line(trouble)

    async def owner(
        self,
        *,
        key: str | bytes | None = None,
        partition: int | None = None,
        topic: str | None = None,
        wait: float | None = None,
    ) -> Owner:
        """The owner of a partition, or of that of a key.

        If the partition has no owner just now, or nothing is known yet, waits for `wait` seconds at
        most, or as long as the directory was told to, and then raises `NoOwnerError`.
        """
        if (key is None) == (partition is None):
            checks.must_be("key or partition", "given, and not both", (key, partition))
        if topic is not None:
            checks.text("topic", topic)
        data = None if key is None else _key(key)
        self._require_open()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + (self._wait_s if wait is None else _wait(wait))
        while True:
            changed, found = self._changed, self._find(data, partition, topic)
            if found.is_owned:
                return found
            if found.state == UNKNOWN and (refusal := _hopeless(self._trouble)) is not None:
                raise DirectoryRefusedError(str(refusal), refusal.name, refusal.status)
            try:
                async with asyncio.timeout_at(until_s):
                    await changed.wait()
            except TimeoutError:
                raise self._no_owner(found) from None
            self._require_open()

    def _find(self, key: bytes | None, partition: int | None, topic: str | None) -> Owner:
        table = self._table
        if topic is None:
            if len(table.topics) > 1:
                known = ", ".join(sorted(table.topics))
                checks.must_be("topic", f"given, as the group has several ({known})", topic)
            topic = next(iter(table.topics), "")
        if partition is not None:
            return table.owner_of(topic, checks.whole("partition", partition, 0))
        size = table.topics.get(topic, 0)
        if not size:
            return table.owner_of(topic, -1)
        return table.owner_of(topic, partition_of_key(key or b"", size))

    def _no_owner(self, found: Owner) -> NoOwnerError:
        topics = self._table.topics
        if topics and found.topic not in topics:
            known = ", ".join(sorted(topics))
            why = f"The group {self._group!r} has no topic {found.topic}; it has {known}"
            return NoOwnerError(why, found.state)
        if self._table.is_known and not topics and self._trouble is None:
            why = f"The group {self._group!r} has no members that work on a topic"
            return NoOwnerError(why, found.state)
        which = (
            f"{found.topic}[{found.partition}]" if found.topic else f"Partition {found.partition}"
        )
        if found.partition >= (size := topics.get(found.topic, math.inf)):
            return NoOwnerError(
                f"There is no {which}: the topic has {size} partitions", found.state
            )
        if found.partition < 0:
            which = f"The topic {found.topic}" if found.topic else "The partition"
        state = {
            "on_its_way": "is on its way to another owner",
            "away": "waits for its static owner to come back",
            "unowned": "has no owner",
        }.get(found.state, "is not known yet")
        why = f"; {self.trouble}" if self._trouble is not None else ""
        return NoOwnerError(f"{which} of the group {self._group!r} {state}{why}", found.state)

    # -- entering and leaving ------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._task is not None or self._is_closed:
            raise GroupMisuseError("A directory is entered once; make another Directory.")
        self._home.settle()
        self._task = asyncio.create_task(self._run(), name=f"coterie directory {self._group}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Watch no longer; those that wait for an owner get an error.  Idempotent."""
        self._home.require()
        self._is_closed = True
        self._tell()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError("the directory was closed")
        if self._task is None:
            raise GroupMisuseError("Enter the directory first: async with Directory(...) as it.")
        self._home.require()
        if self._task.done():
            raise ClientClosedError("the task that watches for the directory was cancelled")

    # -- watching ------------------------------------------------------------------------------

    async def _run(self) -> None:
        attempt = 0
        while True:
            address = self._addresses[attempt % len(self._addresses)]
            try:
                await self._watching.run(address, self._table.last_id, self._take, self._heard)
                self._log.debug("a node has ended the watch", node=address)
                self._trouble = ConnectionLostError(f"{address} has ended the watch")
            except (OSError, TimeoutError, CoterieClientError) as error:
                self._note(error)
            except Exception as error:  # noqa: BLE001  # a bug must not end the watch without a word
                if is_power_of_ten(self._backoff.failures + 1):
                    self._log.write("error", "watching failed", {"node": address}, error)
                self._note(error)
            attempt += 1
            await asyncio.sleep(self._backoff.next_ms() / 1000)

    def _take(self, event: ServerEvent) -> None:
        if event.kind not in ("snapshot", "change"):
            return
        self._table.apply(event.kind, event.id, event.data)
        if self._trouble is not None and self._backoff.failures:
            self._log.info("the owners are watched again", failures=self._backoff.failures)
        self._trouble = None
        self._backoff.succeeded()
        self._tell()

    def _heard(self) -> None:
        self._heard_s = asyncio.get_running_loop().time()

    def _note(self, failure: Exception) -> None:
        self._trouble = failure
        if isinstance(failure, DirectoryRefusedError) and failure.name == "group_not_found":
            self._heard()
            if self._table.owners or not self._table.is_known:
                self._table.clear()
                self._tell()
        elif is_power_of_ten(self._backoff.failures + 1):
            self._log.warning("the owners can't be watched", error=in_a_line(failure))
        if _hopeless(failure) is not None:
            self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if self._on_change is None or self._is_closed:
            return
        try:
            self._on_change(self._table.owners)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # the user's own code
            self._log.write("error", "on_change failed", {"error": in_a_line(error)}, error)


def _key(key: str | bytes) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if not isinstance(key, bytes | bytearray):
        checks.must_be("key", "text or bytes, such as str(17)", key)
    return bytes(key)


def _wait(wait: float) -> float:
    what = "a number of seconds, 0 to wait for nothing"
    checks.number("wait", what, wait)
    if not 0 <= wait < float("inf"):
        checks.must_be("wait", what, wait)
    return float(wait)


def _hopeless(failure: Exception | None) -> DirectoryRefusedError | None:
    """The failure, if further attempts would not help."""
    if isinstance(failure, DirectoryRefusedError) and failure.status in _HOPELESS:
        return failure
    return None

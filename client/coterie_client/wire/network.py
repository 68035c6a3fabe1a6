"""All connections of one client: a request names a node and a lane, and is connected as needed.

Each lane is a connection of its own: a JoinGroup that is parked in lane `group` does not hold up a
heartbeat in lane `keepalive`, although a server answers each connection in order.
"""

from __future__ import annotations

import asyncio
import random as _random
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self

from coterie_client import checks
from coterie_client.backoff import Backoff, RetryOptions
from coterie_client.errors import (
    AnswerTimedOutError,
    ClientClosedError,
    ConnectionFailedError,
    ConnectionLostError,
    WrongServerError,
)
from coterie_client.log import Log, is_power_of_ten
from coterie_client.wire.addresses import (
    ANY,
    AnyNode,
    Bootstrap,
    Lane,
    NodeAddress,
    parse_bootstrap,
)
from coterie_client.wire.channel import ConnectionLimits, Counters
from coterie_client.wire.connection import Connection
from coterie_client.wire.deadlines import wait_for_task
from coterie_client.wire.dialling import Dial, default_dial, dial_tcp
from coterie_client.wire.node import Node, Slot
from coterie_client.wire.nodes import Nodes
from coterie_client.wire.security import PLAINTEXT, Security
from coterie_client.wire.versions import api_of

__all__ = ["RECONNECT", "Network"]

_log = Log(__name__)

#: Said of an address at which no server was ever reached, and that is not the user's own.
_ADVERTISED: Final = (
    "A server of the cluster named this address: if it can't be reached from here, change what that"
    " server advertises."
)

#: How long a node may take for what another one can answer, before that is asked as well.  What no
#: connection tells, as when a machine has lost its power, is not to hold up a rebalance.
_SLOW_S: Final = 2.0

#: Kafka's defaults for `reconnect.backoff.ms` and `reconnect.backoff.max.ms`.
RECONNECT: Final = RetryOptions(base_ms=50, max_ms=1_000)


class Network:
    """Connections to the nodes of one cluster, made on demand and kept while they work.

    A failed connection is attempted again with the next request, after a back-off.
    Close it with `aclose`, or use it in `async with`.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        security: Security = PLAINTEXT,
        client_id: str | None = "coterie",
        limits: ConnectionLimits | None = None,
        reconnect: RetryOptions = RECONNECT,
        dial: Dial | None = None,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        checks.secret("security", Security, "a Security(tls=..., sasl=...)", security)
        if client_id is not None:
            checks.text("client_id", client_id)
        if limits is not None:
            checks.instance_of("limits", ConnectionLimits, "a ConnectionLimits", limits)
        checks.instance_of("reconnect", RetryOptions, "a RetryOptions", reconnect)
        if dial is not None:
            checks.plain_callable("dial", dial)
        checks.plain_callable("random", random)
        self._security = security
        self._client_id = client_id
        self._limits = limits or ConnectionLimits()
        self._reconnect = reconnect
        self._dial = dial or default_dial.get() or dial_tcp
        self._random = random
        self.nodes = Nodes(self._bootstrap, self._make_node, random)
        # Replaced connections that still have pending answers.
        self._replaced: set[Connection] = set()
        self._closed = False
        #: What has happened on the connections so far.
        self.counters = Counters()
        security.tls_context()  # report unreadable files early

    @property
    def known(self) -> dict[int, NodeAddress]:
        """The cluster's nodes by id, as far as known."""
        return dict(self.nodes.known)

    def id_of(self, address: NodeAddress) -> int | None:
        """The id of the node that servers have named by an address; None if none has."""
        return self.nodes.id_of(address)

    @property
    def closed(self) -> bool:
        """Whether `aclose` was called."""
        return self._closed

    @property
    def reached(self) -> bool:
        """Whether there has been a connection to any node."""
        return self.counters.connections_opened > 0

    # Requests

    async def request(
        self,
        message: Any,
        *,
        to: NodeAddress | AnyNode = ANY,
        lane: Lane = Lane.KEEPALIVE,
        timeout_s: float,
        on_sent: Callable[[], None] | None = None,
    ) -> Any:
        """Send a request, or a `ByVersion`, and return its answer, which may carry an error.

        The timeout includes connecting. With `ANY` the nodes are tried one after another, the next
        one also while one is slow, so the request must be safe to execute twice. There are no other
        retries: failures that may be temporary raise an error with `retriable` set.

        `on_sent` is called before a request to one node is sent: from then on it may be carried
        out.
        """
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        if isinstance(to, NodeAddress):
            return await self._ask(self.nodes[to], message, lane, deadline_s, on_sent)
        return await self._ask_any(message, to, lane, deadline_s)

    async def _ask_any(self, message: Any, to: AnyNode, lane: Lane, deadline_s: float) -> Any:
        loop = asyncio.get_running_loop()
        left = self.nodes.candidates(to, lane)
        if len(left) == 1:
            return await self._ask(left[0], message, lane, deadline_s)
        asked: dict[asyncio.Task[Any], Node] = {}
        failures: list[BaseException] = []
        try:
            while left or asked:
                if left:
                    node = left.pop(0)
                    asked[loop.create_task(self._ask(node, message, lane, deadline_s))] = node
                patience_s = _SLOW_S if left else None
                done, _ = await asyncio.wait(asked, timeout=patience_s, return_when=FIRST_COMPLETED)
                for slow in asked.values() if not done else ():
                    slow.is_slow = True
                for task in done:
                    del asked[task]
                errors = [error for task in done if (error := task.exception()) is not None]
                if len(errors) < len(done):
                    return next(task.result() for task in done if task.exception() is None)
                failures += errors
                if failures and (loop.time() >= deadline_s or not _may_pass(failures)):
                    left.clear()  # but for an answer that is about to come
        finally:
            for task in asked:
                task.cancel()
        raise _sum_of(failures)

    async def _ask(
        self,
        node: Node,
        message: Any,
        lane: Lane,
        deadline_s: float,
        on_sent: Callable[[], None] | None = None,
    ) -> Any:
        loop = asyncio.get_running_loop()
        connection = await self._connected(node, lane, deadline_s, api_of(message).title)
        if on_sent is not None:
            on_sent()
        timeout_s = max(0.0, deadline_s - loop.time())
        try:
            answer = await connection.request(message, timeout_s=timeout_s)
        except (ConnectionLostError, AnswerTimedOutError):
            self._refuse_if_closed()
            node.backoff.failed(loop.time())
            raise
        node.backoff.succeeded()
        node.is_slow = False
        self.nodes.learn(answer)
        return answer

    # Connections

    async def _connected(self, node: Node, lane: Lane, deadline_s: float, title: str) -> Connection:
        """The node's connection for a lane; if there is none, all requests wait for one attempt."""
        self._refuse_if_closed()
        loop = asyncio.get_running_loop()
        node = self.nodes.use(node)
        slot = node.slots[lane]
        connection = slot.connection
        if connection is not None and connection.expired(loop.time()):
            self._retire(slot)
        elif connection is not None and not connection.closed:
            if connection.aged(loop.time()):
                # It serves on until the other is ready, which may take more than one attempt.
                self._begin_attempt(node, slot)
            return connection
        attempt = self._begin_attempt(node, slot)
        await wait_for_task(attempt, max(0.0, deadline_s - loop.time()))
        self._refuse_if_closed()
        if not attempt.done():
            raise ConnectionFailedError(
                f"Not connected to {node.address} in time for {title}. Try again."
            )
        return attempt.result()

    def _begin_attempt(self, node: Node, slot: Slot) -> asyncio.Task[Connection]:
        """The attempt to connect that is under way, or a new one."""
        if slot.attempt is None:
            slot.attempt = asyncio.get_running_loop().create_task(self._attempt(node, slot))
            slot.attempt.add_done_callback(_retrieve_exception)
        return slot.attempt

    async def _attempt(self, node: Node, slot: Slot) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(node.backoff.wait_s(loop.time()))
            self.counters.reconnects += slot.reached
            connection = await Connection.open(
                node.address,
                security=self._security,
                client_id=self._client_id,
                limits=self._limits,
                dial=self._dial,
                counters=self.counters,
            )
        except Exception as error:
            node.backoff.failed(loop.time())
            self._tell_of_failure(node, error)
            raise
        finally:
            slot.attempt = None
        node.failed_attempts = 0
        self._retire(slot)
        slot.connection = connection
        slot.reached = True
        return connection

    def _tell_of_failure(self, node: Node, error: Exception) -> None:
        is_advertised = node.address not in self._bootstrap and not node.reached
        if is_advertised and isinstance(error, ConnectionFailedError):
            error.is_advertised = True
            error.args = (f"{error} {_ADVERTISED}",)
        node.failed_attempts += 1
        # The caller gets the error, and knows whether it deserves a warning.
        log = _log.info if is_power_of_ten(node.failed_attempts) else _log.debug
        log("connection failed", node=str(node.address), error=str(error))

    def _retire(self, slot: Slot) -> None:
        """Close a connection after its last pending answer."""
        connection, slot.connection = slot.connection, None
        if connection is not None and not connection.closed:
            self._replaced = {c for c in self._replaced if not c.closed} | {connection}
            connection.finish()

    def _make_node(self, address: NodeAddress) -> Node:
        return Node(address, Backoff(self._reconnect, self._random))

    def note_slow(self, address: NodeAddress) -> None:
        """Have any other node be asked before this one, until it answers."""
        self.nodes[address].is_slow = True

    # The end

    def hang_up(self, address: NodeAddress, lane: Lane | None = None) -> None:
        """Drop the connections to a node that does not answer, or only that of one lane.

        The next request makes new ones.
        """
        for each, slot in self.nodes[address].slots.items():
            if slot.connection is not None and lane in (None, each):
                slot.connection.abort()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ClientClosedError("This client was closed; create a new one.")

    async def aclose(self) -> None:
        """Close all connections, failing pending requests. Idempotent."""
        self._closed = True
        slots = self.nodes.slots()
        attempts = [slot.attempt for slot in slots if slot.attempt is not None]
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await asyncio.wait(attempts)
        connections = {slot.connection for slot in slots if slot.connection is not None}
        closing = [connection.close() for connection in connections | self._replaced]
        await asyncio.gather(*closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _may_pass(failures: Iterable[BaseException]) -> bool:
    """Whether another node may do better."""
    return all(isinstance(each, ConnectionFailedError | ConnectionLostError) for each in failures)


def _sum_of(failures: Sequence[BaseException]) -> BaseException:
    """What to tell of the failures of several nodes."""
    for each in failures:
        if not _may_pass((each,)):
            return each
    if len(failures) == 1 or all(isinstance(each, WrongServerError) for each in failures):
        return failures[0]
    sentences = " ".join(str(failure) for failure in failures)
    return ConnectionFailedError(f"None of {len(failures)} nodes answered. {sentences}")


def _retrieve_exception(attempt: asyncio.Task[Connection]) -> None:
    """Keep asyncio from complaining about a failed attempt that no request waits for any more."""
    if not attempt.cancelled():
        attempt.exception()

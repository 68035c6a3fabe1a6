"""Sends an administrator's requests to the right node, and retries until there is a result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from coterie_client import checks
from coterie_client.admin.arguments import names
from coterie_client.admin.models import Result, Results, error_of
from coterie_client.admin.silence import WHO_IS_THERE, ask_unless_gone
from coterie_client.backoff import RetryOptions
from coterie_client.errors import (
    AnswerTimedOutError,
    BatchFailedError,
    ClientClosedError,
    ConnectionFailedError,
    ConnectionLostError,
    UnexpectedAnswerError,
    UnknownHostError,
    WrongServerError,
)
from coterie_client.home import Home
from coterie_client.log import Log
from coterie_client.wire.addresses import ANY, AnyNode, NodeAddress
from coterie_client.wire.network import Network
from coterie_client.wire.versions import ByVersion
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import (
    BrokerNotAvailableError,
    CoordinatorNotAvailableError,
    KafkaError,
    NetworkError,
    NotControllerError,
    NotCoordinatorError,
    RequestTimedOutError,
)
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataResponse,
)

__all__ = ["Attempt", "Caller", "Timing"]

_log = Log(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
E = TypeVar("E", bound=CoterieError)

#: Called with the items that have no final result yet, and the deadline.
Attempt = Callable[[list[K], float], Awaitable[Mapping[K, Result[V]]]]

#: Retriable for a consumer, whose topic may be created later; final for an administrator.
_FINAL: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
#: After these, another node may be the coordinator.
_MISPLACED: Final = (
    CoordinatorNotAvailableError,
    NetworkError,
    NotCoordinatorError,
    RequestTimedOutError,
)
#: After these, the request may or may not have been carried out.
_IN_DOUBT: Final = (AnswerTimedOutError, ConnectionLostError, RequestTimedOutError)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a call may take, and how it retries."""

    #: For a call with all its attempts; Kafka's `default.api.timeout.ms`.
    timeout_ms: int = 60_000
    #: For one request.
    request_timeout_ms: int = 15_000
    #: The back-off between attempts.
    retry: RetryOptions = field(default_factory=RetryOptions)
    #: Whether to give up at once on nodes that can't be reached and never were: a person who waits
    #: wants to know now, while a program may be started before its server.
    fail_fast: bool = False

    def __post_init__(self) -> None:
        checks.whole("timeout_ms", self.timeout_ms)
        checks.whole("request_timeout_ms", self.request_timeout_ms)
        checks.instance_of("retry", RetryOptions, "a RetryOptions", self.retry)
        checks.flag("fail_fast", self.fail_fast)


class Caller:
    """Finds the node for each request, and retries until there is a final result."""

    def __init__(self, network: Network, timing: Timing, random: Callable[[], float]) -> None:
        self.network = network
        self._timing = timing
        self._random = random
        #: Where it is used; whatever is asked for has to come from there.
        self.home = Home("An Admin")
        self._coordinators: dict[str, NodeAddress] = {}
        #: The groups whose coordinators were looked for.
        self._sought: set[str] = set()
        #: Whether the controller that was named last was none.
        self._is_misled = False

    # One request

    async def ask(self, message: Any, deadline_s: float, to: NodeAddress | AnyNode = ANY) -> Any:
        """Send a request once."""
        left_s = max(0.0, deadline_s - asyncio.get_running_loop().time())
        timeout_s = min(left_s, self._timing.request_timeout_ms / 1000)
        # The user's own address for a node may be none by which others know it.
        if not isinstance(to, NodeAddress) or self.network.id_of(to) is None:
            return await self.network.request(message, to=to, timeout_s=timeout_s)
        try:
            return await ask_unless_gone(message, to, self.network, timeout_s)
        except (NetworkError, RequestTimedOutError):
            # Or each of its groups would have to find out by itself.
            self._coordinators = {g: node for g, node in self._coordinators.items() if node != to}
            raise

    @property
    def request_timeout_ms(self) -> int:
        """The timeout that requests tell the server."""
        return min(self._timing.timeout_ms, self._timing.request_timeout_ms)

    # Until there is a final result

    async def settle(
        self,
        items: Iterable[K],
        attempt: Attempt[K, V],
        *,
        done_if: frozenset[ErrorCode] = frozenset(),
    ) -> Results[K, V]:
        """Attempt until each item has a result that another attempt would not change.

        `done_if` are the errors that mean success for an item whose former attempt was in doubt:
        what was to be deleted no longer exists.
        """
        self.home.require()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._timing.timeout_ms / 1000
        results = Results[K, V]({item: Result() for item in items})
        in_doubt: set[K] = set()
        left, attempts = list(results), 0
        while left:
            attempts += 1
            results_now = await _guarded(left, attempt(left, deadline_s))
            for item in left:
                result = _checked(item, results_now, done_if if item in in_doubt else ())
                if isinstance(result.error, _IN_DOUBT):
                    in_doubt.add(item)
                # A timeout at the very end says less than the error before it.
                if results[item].ok or not (
                    _is_timeout(result.error) and loop.time() >= deadline_s
                ):
                    results[item] = result
            left = [item for item in left if self._may_pass(results[item].error)]
            wait_s = self._timing.retry.delay_ms(attempts, self._random()) / 1000
            if not left or loop.time() + wait_s >= deadline_s:
                break
            _log.debug("trying again", items=len(left), error=str(results[left[0]].error))
            await asyncio.sleep(wait_s)
        self._annotate(results, left, in_doubt, attempts)
        return results

    def _may_pass(self, error: CoterieError | None) -> bool:
        """Whether another attempt may succeed, and is wanted."""
        if isinstance(error, BatchFailedError):
            return all(map(self._may_pass, error.errors.values()))
        if self._timing.fail_fast and isinstance(error, ConnectionFailedError):
            may_be_back = self.network.reached and not error.is_advertised
            return may_be_back and not isinstance(error, UnknownHostError)
        return _is_temporary(error)

    async def once(self, call: Callable[[float], Awaitable[V]]) -> V:
        """Attempt a call until it succeeds or fails for good."""

        async def attempt(_: list[None], deadline_s: float) -> Mapping[None, Result[V]]:
            return {None: Result(await call(deadline_s))}

        return (await self.settle([None], attempt))[None].get()

    def _annotate(
        self, results: Results[K, V], left: list[K], in_doubt: set[K], attempts: int
    ) -> None:
        """Add notes on what the errors themselves do not tell."""
        errors = results.errors
        spent = f"Given up after {attempts} attempts within {self._timing.timeout_ms} ms."
        doubt = "An earlier attempt got no answer, and may have been carried out."
        for item, error in errors.items():
            notes = getattr(error, "__notes__", ())  # several items may share an error
            if item in left and spent not in notes:
                error.add_note(spent)
            if item in in_doubt and not isinstance(error, _IN_DOUBT) and doubt not in notes:
                error.add_note(doubt)

    # To the right node

    async def to_controller(self, message: Any, deadline_s: float) -> Any:
        """Send a request once, to the controller."""
        if self.network.nodes.controller is None:
            await self.cluster(deadline_s)
        controller = self.network.nodes.controller
        if controller is None:
            raise NotControllerError("the cluster names no controller yet")
        try:
            answer = await self.ask(message, deadline_s, controller)
        except (NetworkError, RequestTimedOutError):
            self.forget_controller()
            raise
        self._is_misled = False
        return answer

    def forget_controller(self) -> None:
        """Look up the controller again before the next request to it."""
        self.network.nodes.controller, self._is_misled = None, True

    def forgetting_controller(self, error: E) -> E:
        """The same error; if it says that the node is not the controller, forget the controller."""
        if getattr(error, "code", None) == ErrorCode.NOT_CONTROLLER:
            self.forget_controller()
        return error

    def noting_controller(self, results: dict[K, Result[V]]) -> dict[K, Result[V]]:
        """The same results, of which each may say that the node is not the controller."""
        for result in results.values():
            if result.error is not None:
                self.forgetting_controller(result.error)
        return results

    async def cluster(self, deadline_s: float) -> MetadataResponse:
        """Ask for the cluster's nodes."""
        answer = await self.ask(WHO_IS_THERE, deadline_s, AnyNode(anew=self._is_misled))
        assert isinstance(answer, MetadataResponse)
        if not answer.brokers:
            raise BrokerNotAvailableError("the cluster names no nodes yet")
        return answer

    async def http_address(self, node: NodeAddress, deadline_s: float) -> str | None:
        """Where a node answers HTTP, as HOST:PORT; None if it does not say."""
        answer: ApiVersionsResponse = await self.ask(_WHERE_IS_HTTP, deadline_s, node)
        scheme, separator, found = answer.http_address.rpartition("://")
        if found.startswith(":"):
            found = str(NodeAddress(node.host, int(found[1:])))
        return f"{scheme}{separator}{found}" or None

    async def for_groups(
        self,
        groups: Iterable[str],
        ask: Callable[[NodeAddress, list[str], float], Awaitable[Mapping[str, Result[V]]]],
        *,
        done_if: frozenset[ErrorCode] = frozenset(),
    ) -> Results[str, V]:
        """Ask each group's coordinator until every group has a final result."""

        async def attempt(items: list[str], deadline_s: float) -> Mapping[str, Result[V]]:
            results: dict[str, Result[V]] = {}
            placed = await self._coordinators_of(items, deadline_s, results)
            results |= await self.by_node(placed, lambda node, its: ask(node, its, deadline_s))
            for group, result in results.items():
                self._forget_if_moved(group, result)
            return results

        return await self.settle(names(groups), attempt, done_if=done_if)

    async def in_group(
        self,
        group: str,
        items: Iterable[K],
        ask: Callable[[NodeAddress, list[K], float], Awaitable[Mapping[K, Result[V]]]],
        *,
        done_if: frozenset[ErrorCode] = frozenset(),
    ) -> Results[K, V]:
        """Ask a group's coordinator until every item of that group has a final result."""

        async def attempt(left: list[K], deadline_s: float) -> Mapping[K, Result[V]]:
            node = await self._coordinator(group, deadline_s)
            results = await _guarded(left, ask(node, left, deadline_s))
            for result in results.values():
                self._forget_if_moved(group, result)
            return results

        return await self.settle(items, attempt, done_if=done_if)

    async def by_node(
        self,
        placed: Mapping[K, NodeAddress],
        ask: Callable[[NodeAddress, list[K]], Awaitable[Mapping[K, Result[V]]]],
    ) -> dict[K, Result[V]]:
        """Ask each node about its items, all nodes concurrently."""
        items: dict[NodeAddress, list[K]] = {}
        for item, node in placed.items():
            items.setdefault(node, []).append(item)
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(_guarded(its, ask(node, its))) for node, its in items.items()
            ]
        return {item: result for task in asked for item, result in task.result().items()}

    async def _coordinators_of(
        self, groups: list[str], deadline_s: float, failed: dict[str, Result[V]]
    ) -> dict[str, NodeAddress]:
        """The groups' coordinators; errors of groups without one go into `failed`."""
        found: dict[str, NodeAddress] = {}

        async def find(group: str) -> None:
            try:
                found[group] = await self._coordinator(group, deadline_s)
            except CoterieError as error:
                failed[group] = Result(error=error)

        async with asyncio.TaskGroup() as tasks:
            for group in groups:
                tasks.create_task(find(group))
        return found

    async def _coordinator(self, group: str, deadline_s: float) -> NodeAddress:
        """A group's coordinator, looked up if it is not known."""
        if group not in self._coordinators:
            # What was told before may have come from a node that is cut off from the others.
            whom = AnyNode(anew=group in self._sought)
            self._sought.add(group)
            asked = _find_coordinator(group)
            answer: FindCoordinatorResponse = await self.ask(asked, deadline_s, to=whom)
            self._coordinators[group] = _coordinator_in(answer, group)
        return self._coordinators[group]

    def _forget_if_moved(self, group: str, result: Result[Any]) -> None:
        """Forget a group's coordinator if this result may mean that it has moved."""
        if isinstance(result.error, _MISPLACED):
            self._coordinators.pop(group, None)


_WHERE_IS_HTTP: Final = ApiVersionsRequest(
    client_software_name="coterie", client_software_version="0", wants_http=True
)


async def _guarded(
    items: Iterable[K], results: Awaitable[Mapping[K, Result[V]]]
) -> Mapping[K, Result[V]]:
    """Turn an error of the whole attempt into one of each item."""
    try:
        return await results
    except CoterieError as error:
        return {item: Result(error=error) for item in items}


def _checked(item: K, results: Mapping[K, Result[V]], done_if: Iterable[ErrorCode]) -> Result[V]:
    if item not in results:
        sentence = f"The server's answer says nothing about {item}; its version may be to blame."
        return Result(error=UnexpectedAnswerError(sentence))
    result = results[item]
    if isinstance(result.error, ClientClosedError):
        raise result.error  # it concerns the whole call, not the item
    if isinstance(result.error, KafkaError) and result.error.code in done_if:
        return Result()
    return result


def _is_timeout(error: CoterieError | None) -> bool:
    """Whether there was no answer in time, or no connection."""
    if isinstance(error, BatchFailedError):
        return all(map(_is_timeout, error.errors.values()))
    return isinstance(error, AnswerTimedOutError | ConnectionFailedError)


def _is_temporary(error: CoterieError | None) -> bool:
    """Whether another attempt may succeed."""
    if error is None or getattr(error, "code", None) in _FINAL:
        return False
    if isinstance(error, WrongServerError):
        return False
    return bool(getattr(error, "retriable", False)) or isinstance(error, BrokerNotAvailableError)


def _find_coordinator(group: str) -> ByVersion:
    """FindCoordinator for a group: since version 4 with a list of keys, before with one key."""

    def build(version: int) -> FindCoordinatorRequest:
        if version >= 4:
            return FindCoordinatorRequest(coordinator_keys=(group,))
        return FindCoordinatorRequest(key=group)

    return ByVersion(FindCoordinatorRequest, build)


def _coordinator_in(answer: FindCoordinatorResponse, group: str) -> NodeAddress:
    found = next((c for c in answer.coordinators if c.key == group), answer)
    error = error_of(found.error_code, f"group {group}", found.error_message)
    if error is not None:
        raise error
    if not found.host:
        raise UnexpectedAnswerError(f"The server's answer names no coordinator of group {group}.")
    return NodeAddress(found.host, found.port)

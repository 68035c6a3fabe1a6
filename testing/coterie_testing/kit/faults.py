"""Faults that a test orders: requests that get no answer, a late one, or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie_protocol import ApiKey, request_class
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.error_answers import can_be_refused
from coterie_server.net import Exchange, Handler
from coterie_server.serving.failures import failure

__all__ = ["Fault", "Faults"]


@dataclass(eq=False, slots=True)
class Fault:
    """A fault that requests run into, until it is lifted or over."""

    #: Which requests; None for any.
    api: ApiKey | None
    client_id: str | None
    member_id: str | None
    group: str | None
    #: What happens to them.
    apply: Callable[[Exchange], None]
    until_s: float | None
    #: How many more requests it applies to; None for all.
    left: int | None
    #: Whether it can happen to requests of a class.
    suits: Callable[[type[Any]], bool]
    #: How many requests it has applied to.
    hits: int = 0
    is_lifted: bool = False

    def lift(self) -> None:
        """End it."""
        self.is_lifted = True

    def is_over(self, now_s: float) -> bool:
        """Whether it applies to no further request."""
        is_late = self.until_s is not None and now_s >= self.until_s
        return self.is_lifted or is_late or self.left == 0

    def matches(self, exchange: Exchange) -> bool:
        """Whether it applies to a request."""
        request = exchange.request
        message = request.message
        return (
            self.api in (None, request.api_key)
            and self.suits(type(message))
            and self.client_id in (None, request.client_id)
            and (self.member_id is None or self.member_id in _members_of(message))
            and (self.group is None or self.group in _groups_of(message))
        )


def _members_of(message: object) -> Iterator[str | None]:
    """The ids of the members that a request is from, or about."""
    match message:
        case m.LeaveGroupRequest():
            yield message.member_id
            yield from (each.member_id for each in message.members)
        case m.OffsetFetchRequest():
            yield from (each.member_id for each in message.groups)
        case _:
            yield getattr(message, "member_id", None)


def _groups_of(message: object) -> Iterator[str | None]:
    """The groups that a request is about."""
    match message:
        case m.FindCoordinatorRequest(key_type=0):
            yield message.key
            yield from message.coordinator_keys
        case m.OffsetFetchRequest():
            yield message.group_id
            yield from (each.group_id for each in message.groups)
        case m.DescribeGroupsRequest():
            yield from message.groups
        case m.DeleteGroupsRequest():
            yield from message.groups_names
        case _:
            yield getattr(message, "group_id", None)


@dataclass(slots=True)
class Faults:
    """The faults that are in force.

    Each can be limited to an API, a client id, a member id or a group, to a time in `seconds`, and
    to a number of `times`. The first one that matches a request applies to it, and to all of it if
    it is about several members or groups::

        faults.drop(api=ApiKey.HEARTBEAT, client_id="worker-2", seconds=20)
        faults.refuse(ErrorCode.NOT_COORDINATOR, api=ApiKey.OFFSET_COMMIT, times=1)
    """

    #: The clock that the limits in seconds go by.
    now_s: Callable[[], float]
    #: Where requests are going just now; None while no coordinator is up.
    node: Callable[[], Handler | None]
    _faults: list[Fault] = field(default_factory=list)

    def drop(self, **limits: Any) -> Fault:  # noqa: ANN401  # as `_add` takes them
        """Leave requests unanswered; their connections stay open."""
        return self._add(lambda _exchange: None, **limits)

    def delay(self, by_s: float, **limits: Any) -> Fault:  # noqa: ANN401
        """Deliver requests late; those that a coordinator has not got to when it ends are gone."""
        _require_seconds("by_s", by_s)

        def apply(exchange: Exchange) -> None:
            asyncio.get_running_loop().call_later(by_s, self._deliver, self.node(), exchange)

        return self._add(apply, **limits)

    def _deliver(self, former: Handler | None, exchange: Exchange) -> None:
        """Hand a request to the coordinator that it came to, or to the one that was starting."""
        node = self.node()
        if node is not None and former in (None, node):
            node.handle(exchange)

    def refuse(self, error: ErrorCode, **limits: Any) -> Fault:  # noqa: ANN401
        """Answer requests with an error, but for those whose answers have no room for one."""
        _require_whole("error", "an ErrorCode, such as ErrorCode.NOT_COORDINATOR", error)

        def apply(exchange: Exchange) -> None:
            request = exchange.request
            exchange.reply(failure(request.message, request.api_version, error))

        return self._add(apply, suits=can_be_refused, **limits)

    def hang_up(self, **limits: Any) -> Fault:  # noqa: ANN401
        """Close the connections that requests come over."""
        return self._add(lambda exchange: exchange.close("a fault that a test ordered"), **limits)

    def lift_all(self) -> None:
        """End all of them."""
        for fault in tuple(self._faults):
            fault.lift()

    def gate(self, exchange: Exchange) -> bool:
        """Apply the first fault that matches a request; a `Server` takes this as its gate."""
        now_s = self.now_s()
        # Its own thread may run this while a test orders another fault.
        for fault in tuple(self._faults):
            if fault.is_over(now_s):
                self._faults.remove(fault)
            elif fault.matches(exchange):
                fault.hits += 1
                if fault.left is not None:
                    fault.left -= 1
                fault.apply(exchange)
                return True
        return False

    def _add(
        self,
        apply: Callable[[Exchange], None],
        *,
        suits: Callable[[type[Any]], bool] = lambda _: True,
        api: ApiKey | None = None,
        client_id: str | None = None,
        member_id: str | None = None,
        group: str | None = None,
        seconds: float | None = None,
        times: int | None = None,
    ) -> Fault:
        if seconds is not None:
            _require_seconds("seconds", seconds)
        if times is not None:
            _require_whole("times", "a whole number", times)
            if times < 1:
                raise ValueError(f"times must be at least 1, got {times!r}")
        until_s = None if seconds is None else self.now_s() + seconds
        if api is not None and not suits(request_class(ApiKey(api))):
            raise ValueError(f"the answer to {api.title} has no room for an error: drop it instead")
        fault = Fault(api, client_id, member_id, group, apply, until_s, times, suits)
        self._faults.append(fault)
        return fault


def _require_whole(name: str, what: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be {what}, got {value!r}")


def _require_seconds(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number of seconds, got {value!r}")
    if not value >= 0:
        raise ValueError(f"{name} must be a number of seconds from 0 on, got {value!r}")

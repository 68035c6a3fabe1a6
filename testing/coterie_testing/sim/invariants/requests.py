"""Requests and answers: what is owed is answered, and new member ids are waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    PhaseJoined,
)
from coterie_protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from coterie_server.net import Exchange

__all__ = ["RequestChecker"]

#: The requests that are looked at.
_WATCHED: Final = (JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest)


@dataclass(eq=False, slots=True)
class _Sync:
    """A sync, and whether it was answered."""

    exchange: Exchange
    #: The one before it of the same member.
    previous: _Sync | None
    is_answered: bool = False


class _Tapped:
    """An exchange whose answer is seen."""

    __slots__ = ("_checker", "_exchange", "_sync")

    def __init__(self, exchange: Exchange, sync: _Sync | None, checker: RequestChecker) -> None:
        self._exchange = exchange
        self._sync = sync
        self._checker = checker

    def reply(self, message: Any) -> None:  # noqa: ANN401  # any response
        self._checker.answered(self._exchange, self._sync, message)
        self._exchange.reply(message)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # as the exchange has it
        return getattr(self._exchange, name)


@dataclass(slots=True)
class RequestChecker:
    """Sees joins, syncs and leaves come in, and their answers go out.

    Answers leave a shard in the order in which they were decided, and so do lines of the journal.
    So an id that was handed out before the journal told of a generation was handed out before that
    generation formed.
    """

    #: By group, the newest generation in the journal of any coordinator.
    _generations: dict[str, int] = field(default_factory=dict)
    #: Violations since the last line of the journal.
    found: list[str] = field(default_factory=list)
    #: The newest sync of each member.
    _syncs: dict[tuple[str, str], _Sync] = field(default_factory=dict)
    #: By group, the ids that were handed out and with which no client has joined yet.
    _pending: dict[str, set[str]] = field(default_factory=dict)

    def tap(self, exchange: Exchange) -> Exchange:
        """Wrap a request whose answer is of interest; return others as they are."""
        message = exchange.request.message
        if not isinstance(message, _WATCHED):
            return exchange
        pending = self._pending.setdefault(message.group_id, set())
        if isinstance(message, LeaveGroupRequest):
            pending.difference_update({message.member_id, *(m.member_id for m in message.members)})
            return exchange
        pending.discard(message.member_id)
        sync = None
        if isinstance(message, SyncGroupRequest):
            key = (message.group_id, message.member_id)
            sync = self._syncs[key] = _Sync(exchange, self._syncs.get(key))
        return cast(Exchange, _Tapped(exchange, sync, self))

    def answered(self, exchange: Exchange, sync: _Sync | None, message: Any) -> None:  # noqa: ANN401
        """An answer goes out."""
        request = exchange.request.message
        if sync is not None:
            self._check_previous(sync)
        elif message.error_code == ErrorCode.MEMBER_ID_REQUIRED and not exchange.abandoned:
            self._pending[request.group_id].add(message.member_id)

    def _check_previous(self, sync: _Sync) -> None:
        """A member that syncs again supersedes its sync before, which has to be answered first."""
        sync.is_answered = True
        previous, sync.previous = sync.previous, None
        if previous is not None and not previous.is_answered and not previous.exchange.abandoned:
            request = previous.exchange.request.message
            self.found.append(f"a superseded sync was not answered: {request}")

    def heartbeat_answered(
        self, request: HeartbeatRequest, response: HeartbeatResponse | None
    ) -> None:
        """A heartbeat was answered at once, or is left to the node."""
        newest = self._generations.get(request.group_id, 0)
        if response is not None and request.generation_id < newest:
            self.found.append(f"a heartbeat was accepted although {newest} is newer: {request}")

    def crashed(self) -> None:
        """The coordinator was killed, and owes no answer any more."""
        self._syncs.clear()
        self._pending.clear()

    def journalled(
        self, event: Event, *, waits_for_members: bool, rebalance_timeout_ms: int
    ) -> Iterator[str]:
        """Look at the next line of the journal; yield what is wrong up to here."""
        yield from self.found
        self.found.clear()
        match event:
            case IdUnclaimed():
                self._pending.get(event.group, set()).discard(event.member)
            case GroupRecovered():
                self._pending.pop(event.group, None)
            case GroupEmptied():
                self._generations[event.group] = event.generation
            case PhaseJoined():
                self._generations[event.group] = event.generation
                yield from self._check_awaited(
                    event, all_awaited=waits_for_members and event.took_ms < rebalance_timeout_ms
                )

    def _check_awaited(self, event: PhaseJoined, *, all_awaited: bool) -> Iterator[str]:
        pending = self._pending.get(event.group)
        if all_awaited and pending:
            yield f"new member ids were not waited for, {sorted(pending)}: {event}"

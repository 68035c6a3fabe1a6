"""What goes over the wire, looked at from outside: answers that are owed, and ids handed out."""

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

__all__ = ["Wire"]

#: The requests that are looked at.
_WATCHED: Final = (JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest)


@dataclass(eq=False, slots=True)
class _Owed:
    """A request that has no answer yet."""

    exchange: Exchange
    #: The one that came for the same member before it.
    former: _Owed | None
    is_answered: bool = False


class _Tapped:
    """A request whose answer is seen."""

    __slots__ = ("_exchange", "_owed", "_wire")

    def __init__(self, exchange: Exchange, owed: _Owed | None, wire: Wire) -> None:
        self._exchange = exchange
        self._owed = owed
        self._wire = wire

    def reply(self, message: Any) -> None:  # noqa: ANN401  # any response
        self._wire.answered(self._exchange, self._owed, message)
        self._exchange.reply(message)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # as the exchange has it
        return getattr(self._exchange, name)


@dataclass(slots=True)
class Wire:
    """Sees joins, syncs and farewells come and their answers leave.

    Answers leave a shard in the order in which they were decided, and so do lines of the journal.
    So whoever was told an id before the journal tells of a generation was told before that
    generation was made.
    """

    #: What is wrong.
    complaints: list[str] = field(default_factory=list)
    #: The newest sync of each member.
    _syncs: dict[tuple[str, str], _Owed] = field(default_factory=dict)
    #: By group, the newest generation that the journal told of.
    _generations: dict[str, int] = field(default_factory=dict)
    #: By group, ids that were handed out and nobody came back with so far.
    _pending: dict[str, set[str]] = field(default_factory=dict)

    def tap(self, exchange: Exchange) -> Exchange:
        """The request, or what stands in for it where its answer is of interest."""
        message = exchange.request.message
        if not isinstance(message, _WATCHED):
            return exchange
        pending = self._pending.setdefault(message.group_id, set())
        if isinstance(message, LeaveGroupRequest):
            pending.difference_update({message.member_id, *(m.member_id for m in message.members)})
            return exchange
        pending.discard(message.member_id)
        owed = None
        if isinstance(message, SyncGroupRequest):
            key = (message.group_id, message.member_id)
            owed = self._syncs[key] = _Owed(exchange, self._syncs.get(key))
        return cast(Exchange, _Tapped(exchange, owed, self))

    def answered(self, exchange: Exchange, owed: _Owed | None, message: Any) -> None:  # noqa: ANN401
        """An answer leaves."""
        request = exchange.request.message
        if owed is not None:
            self._check_former(owed)
        elif message.error_code == ErrorCode.MEMBER_ID_REQUIRED and not exchange.abandoned:
            self._pending[request.group_id].add(message.member_id)

    def _check_former(self, owed: _Owed) -> None:
        """Who asks again takes its former question back, which is to be answered before."""
        owed.is_answered = True
        former, owed.former = owed.former, None
        if former is not None and not former.is_answered and not former.exchange.abandoned:
            request = former.exchange.request.message
            self.complaints.append(f"a sync that was superseded has no answer: {request}")

    def heard(self, message: HeartbeatRequest, answer: HeartbeatResponse | None) -> None:
        """A heartbeat is answered at once, or is left to be handled."""
        newest = self._generations.get(message.group_id, 0)
        if answer is not None and message.generation_id < newest:
            self.complaints.append(f"a heartbeat is welcome although {newest} is newer: {message}")

    def crashed(self) -> None:
        """The coordinator is no more, and owes nothing."""
        self._syncs.clear()
        self._pending.clear()

    def hear(self, event: Event, *, waits_for_members: bool, patience_ms: int) -> Iterator[str]:
        """Take in what the journal tells next, and say what is wrong with it."""
        yield from self.complaints
        self.complaints.clear()
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
                    event, all_awaited=waits_for_members and event.took_ms < patience_ms
                )

    def _check_awaited(self, event: PhaseJoined, *, all_awaited: bool) -> Iterator[str]:
        pending = self._pending.get(event.group)
        if all_awaited and pending:
            yield f"ids were handed out and not awaited, {sorted(pending)}: {event}"

"""Where the group's coordinator is, and what its error codes ask of a member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from coterie_client.membership.actions import Failure, FailureKind, Hangup
from coterie_client.membership.context import Context, Handler
from coterie_client.membership.events import (
    CoordinatorFound,
    CoordinatorLost,
    CoordinatorReached,
    RetryPlanned,
)
from coterie_client.wire.addresses import AnyNode, Lane, NodeAddress
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import error_for
from coterie_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

__all__ = ["CoordinatorLookup", "Reaction", "reaction_to"]


class Reaction(Enum):
    """What an error code asks of a member."""

    NONE = auto()
    #: Ask the same node again in a moment.
    RETRY = auto()
    #: Another node coordinates the group now: find it.
    FIND_COORDINATOR = auto()
    #: Join again; what is owned stays owned until then.
    REJOIN = auto()
    #: Join again with the member id that came along.
    TAKE_ID = auto()
    #: The group went on to another generation: everything owned is lost, the member id stands.
    RESET_GENERATION = auto()
    #: The coordinator does not know the member: everything owned is lost, and the member id too.
    RESET_IDENTITY = auto()
    #: Another process has joined with this member's instance id: stop.
    BE_FENCED = auto()
    #: Fail; it will not get better by itself.
    FAIL = auto()


_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.NONE: Reaction.NONE,
    # A bug in the server.  It may not strike twice, and a fleet of workers should not die of it.
    ErrorCode.UNKNOWN_SERVER_ERROR: Reaction.RETRY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    ErrorCode.MEMBER_ID_REQUIRED: Reaction.TAKE_ID,
    ErrorCode.ILLEGAL_GENERATION: Reaction.RESET_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.RESET_IDENTITY,
    # The answer to a commit when the coordinator has forgotten the whole group.
    ErrorCode.GROUP_ID_NOT_FOUND: Reaction.RESET_IDENTITY,
    ErrorCode.FENCED_INSTANCE_ID: Reaction.BE_FENCED,
    # The answer to a commit that a later one has overtaken.  The next one has a higher number.
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Reaction.RETRY,
}


def reaction_to(code: int) -> Reaction:
    """Return what an error code asks of a member; codes without a rule by whether they may pass."""
    found = _REACTIONS.get(ErrorCode.of(code))
    if found is not None:
        return found
    return Reaction.RETRY if error_for(code).retriable else Reaction.FAIL


@dataclass(slots=True)
class _Debt:
    """An answer that is awaited."""

    node: NodeAddress
    #: How long it may take, and how long until another node is asked again.
    patience_ms: int
    due_ms: int


class CoordinatorLookup:
    """Knows the coordinator's address, or looks for it.

    A coordinator whose machine has lost its power, or whose process hangs, breaks no connection: it
    just is silent.  Long before a request to it has taken too long, another node may coordinate the
    group.  So when it owes an answer for a moment, other nodes are asked, and if they name another
    one, the member goes there.
    """

    def __init__(self, context: Context) -> None:
        self._config = context.config
        self._random = context.sources.random
        self._outbox = context.outbox
        self._fail = context.fail
        self._backoff = context.backoff(context.config.lookup_backoff_max_ms)
        self._ticket: int | None = None
        self._next_ms: int | None = None
        self._has_served = False
        #: Since when there is no coordinator that serves, if that was told.
        self._missing_since_ms: int | None = None
        #: What the coordinator was asked, by ticket, as it was at the last look.
        self._debts: dict[int, _Debt] = {}
        #: How often it has been heard of since, as far as was noticed.
        self._signs = 0
        #: Whether the last answer has led to no node that serves the group, as far as is known.
        self._is_misled = False
        #: The question to another node that is under way.
        self._doubt: int | None = None
        #: None while it is looked for.
        self.address: NodeAddress | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When to look again, unless an answer is on its way."""
        if self.address is None:
            return self._next_ms if self._ticket is None else None
        if self._doubt is not None:
            return None
        return min((debt.due_ms for debt in self._owed().values()), default=None)

    def ask(self, message: object, lane: Lane, timeout_ms: int, take: Handler, now_ms: int) -> int:
        """Send a request to the coordinator, which is known, and return its ticket.

        What has the lane `group` may wait for other members for long; all else is answered at once.
        """
        assert self.address is not None
        ticket = self._outbox.send(message, self.address, lane, timeout_ms, take)
        patience_ms = self._config.silence_ms
        if lane is Lane.GROUP:
            patience_ms = max(patience_ms, self._config.heartbeat_interval_ms)
        self._debts[ticket] = _Debt(self.address, patience_ms, now_ms + patience_ms)
        return ticket

    def _owed(self) -> dict[int, _Debt]:
        return {
            ticket: debt
            for ticket, debt in self._debts.items()
            if debt.node == self.address and self._outbox.awaits(ticket)
        }

    def confirm(self, now_ms: int) -> None:
        """Note that the node has answered as a coordinator does."""
        self._backoff.succeeded()
        self._has_served, self._is_misled = True, False
        if self._missing_since_ms is not None and self.address is not None:
            after_ms = now_ms - self._missing_since_ms
            self._outbox.report(CoordinatorReached(node=str(self.address), after_ms=after_ms))
            self._missing_since_ms = None

    def forget(self, reason: str, now_ms: int, node: NodeAddress | None = None) -> None:
        """Look for the coordinator anew: the node is not, or no longer, the one.

        With a `node`, only if that is the present one: what comes late from a node that was
        forgotten before is no news.
        """
        if self.address is None or node not in (None, self.address):
            return
        lost = CoordinatorLost(node=str(self.address), reason=reason, had_served=self._has_served)
        self._outbox.report(lost)
        self._note_missing(now_ms)
        self.address, self._has_served = None, False
        # It often takes a moment until there is another, so the first question waits a little too.
        self._next_ms = now_ms + self._backoff.next_ms()

    def advance(self, now_ms: int) -> None:
        """Send FindCoordinator, if it is time to."""
        if self.address is not None:
            self._ask_others(self.address, now_ms)
            return
        if self._ticket is not None or (self._next_ms is not None and now_ms < self._next_ms):
            return
        self._ticket = self._find(self._answered)

    def _find(self, take: Handler, but: NodeAddress | None = None) -> int:
        # One that is cut off from the others may tell of a node that has died, again and again.
        whom = AnyNode(but, anew=self._is_misled)
        # By one key and not by a list of them: a version that every broker knows.
        message = FindCoordinatorRequest(key=self._config.group)
        timeout_ms = self._config.request_timeout_ms
        return self._outbox.send(message, whom, Lane.KEEPALIVE, timeout_ms, take)

    def _ask_others(self, silent: NodeAddress, now_ms: int) -> None:
        before, self._debts = self._debts, self._owed()
        if any(before[ticket].node == silent for ticket in before.keys() - self._debts.keys()):
            # It has answered something, so it is there, and has its time again for the rest.
            self._signs += 1
            for debt in self._debts.values():
                debt.due_ms = max(debt.due_ms, now_ms + debt.patience_ms)
        late = [debt for debt in self._debts.values() if debt.due_ms <= now_ms]
        if self._doubt is not None or not late:
            return
        for debt in late:
            # Not all members of a node that stands still at the same moment.
            debt.due_ms = now_ms + int(debt.patience_ms * (1 + self._random() / 2))
        signs, asked_about = self._signs, frozenset(self._debts)

        def told(answer: FindCoordinatorResponse | Failure, then_ms: int) -> None:
            self._doubt = None
            if isinstance(answer, Failure):
                return
            self._is_misled = True
            if signs == self._signs and asked_about <= self._owed().keys():
                self._heed(answer, silent, then_ms)

        # It takes long to give it up: the other node may be slow as well, and its connection would
        # be given up with the question.
        self._doubt = self._find(told, but=silent)

    def _heed(self, answer: FindCoordinatorResponse, silent: NodeAddress, now_ms: int) -> None:
        """Go where another node says that the group is coordinated by now."""
        named = NodeAddress(answer.host, answer.port)
        if reaction_to(answer.error_code) is not Reaction.NONE or named == silent:
            return
        owed = self._owed()
        self._outbox.add(Hangup(silent))
        self.forget(f"it is silent, and {named} coordinates the group", now_ms)
        self._found(named)
        # They may be waiting for a connection to be made, which nobody hangs up on.
        for ticket in owed:
            self._outbox.deliver(ticket, Failure(FailureKind.LOST), now_ms)

    def _answered(self, answer: FindCoordinatorResponse | Failure, now_ms: int) -> None:
        self._ticket = None
        if isinstance(answer, Failure):
            self._failed(answer, now_ms)
            return
        self._is_misled = True
        reaction = reaction_to(answer.error_code)
        if reaction is Reaction.NONE:
            self._found(NodeAddress(answer.host, answer.port))
            return
        error = error_for(answer.error_code, answer.error_message or None)
        if reaction is Reaction.FAIL:
            self._fail(error)
            return
        self._retry(str(error), now_ms)

    def _found(self, address: NodeAddress) -> None:
        self.address = address
        self._outbox.report(CoordinatorFound(node=str(address)))

    def _failed(self, failure: Failure, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            self._fail(failure.reason)
            return
        self._retry(str(failure), now_ms)

    def _retry(self, reason: str, now_ms: int) -> None:
        self._note_missing(now_ms)
        delay_ms = self._backoff.next_ms()
        self._next_ms = now_ms + delay_ms
        what = "look for the coordinator"
        self._outbox.report(RetryPlanned(what=what, reason=reason, delay_ms=delay_ms))

    def _note_missing(self, now_ms: int) -> None:
        if self._missing_since_ms is None:
            self._missing_since_ms = now_ms

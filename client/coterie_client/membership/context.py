"""What all parts of a membership share: its configuration, its state, and what goes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from coterie_assignors.base import NO_GENERATION
from coterie_client.backoff import Backoff, RetryOptions
from coterie_client.membership.actions import Action, ReportEvent, Send
from coterie_client.membership.config import MembershipConfig, Sources
from coterie_client.membership.events import Event
from coterie_client.membership.loads import Loads
from coterie_client.membership.phases import TRANSITIONS, Phase
from coterie_client.wire.addresses import AnyNode, Lane, NodeAddress, TopicPartition
from coterie_protocol.member_data import MemberData

__all__ = [
    "NO_MEMBER_ID",
    "Context",
    "Fail",
    "Handler",
    "Identity",
    "MemberState",
    "Outbox",
    "React",
]

NO_MEMBER_ID: Final = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the coordinator knows a member by."""

    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION

    @property
    def is_in_generation(self) -> bool:
        """Whether the member takes part in a generation."""
        return self.generation != NO_GENERATION


@dataclass(slots=True)
class MemberState:
    """The state that the parts of a membership share."""

    identity: Identity = field(default_factory=Identity)
    #: Changed by `enter` alone.
    phase: Phase = Phase.OUT
    #: The topics that the member wants to work on.
    subscribed: frozenset[str] = frozenset()
    #: Whether commits are numbered: the coordinator has issued a fencing token, so it is Coterie's,
    #: and knows what the numbers are.
    numbers_commits: bool = False
    #: What is owned, with its fencing tokens.  What is being let go of still is.
    owned: dict[TopicPartition, int] = field(default_factory=dict)
    #: What is being let go of, and whose work has not ended yet.
    finishing: set[TopicPartition] = field(default_factory=set)
    #: What is being let go of, whose work has ended and whose last commits are on their way.
    draining: set[TopicPartition] = field(default_factory=set)
    #: What was given up, until the next assignment that was made with this in mind.
    refused: set[TopicPartition] = field(default_factory=set)
    #: Why to join again; None if there is no need to.
    rejoin_reason: str | None = None
    #: What it tells of itself.
    told: MemberData | None = None
    #: Whether a static member's join is not answered: the coordinator may have it under its name,
    #: and an id that it was not told yet.
    may_be_known_by_name: bool = False
    is_leader: bool = False
    is_closing: bool = False
    #: Whether the user's own code failed as the member was to join, so that it joins no more.
    has_failed: bool = False

    @property
    def releasing(self) -> set[TopicPartition]:
        """What is being let go of."""
        return self.finishing | self.draining

    def enter(self, phase: Phase) -> None:
        """Change the phase.  Entering the present one again changes nothing."""
        if phase is not self.phase:
            if phase not in TRANSITIONS[self.phase]:
                raise AssertionError(f"a member went from {self.phase.name} to {phase.name}")
            self.phase = phase

    def request_rejoin(self, reason: str) -> None:
        """Note to join again; the first reason stays, as it is the one that started it."""
        if self.rejoin_reason is None and not self.is_closing:
            self.rejoin_reason = reason

    def telling(self, *, keeps: bool) -> MemberData | None:
        """What it tells as it joins, with the tokens of what it keeps meanwhile."""
        if self.told is None:
            return None
        return replace(self.told, tokens=dict(self.owned) if keeps else {})

    def disown(self, partitions: Iterable[TopicPartition]) -> None:
        """Own these no longer."""
        for partition in partitions:
            self.owned.pop(partition, None)
            self.finishing.discard(partition)
            self.draining.discard(partition)


#: Takes the answer to a request, or a `Failure`, and the time.
Handler: TypeAlias = Callable[[Any, int], None]


class Outbox:
    """Collects what is to be done, and knows which part waits for which answer."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._handlers: dict[int, Handler] = {}
        self._tickets = 0

    def send(
        self,
        message: object,
        to: NodeAddress | AnyNode,
        lane: Lane,
        timeout_ms: int,
        handler: Handler,
    ) -> int:
        """Send a request, and return its ticket; the handler gets the answer or a `Failure`."""
        self._tickets += 1
        self._handlers[self._tickets] = handler
        self._actions.append(Send(self._tickets, message, to, lane, timeout_ms))
        return self._tickets

    def awaits(self, ticket: int) -> bool:
        """Whether the answer to this request still matters."""
        return ticket in self._handlers

    def ignore(self, ticket: int | None) -> None:
        """Drop the answer to this request when it comes."""
        if ticket is not None:
            self._handlers.pop(ticket, None)

    def ignore_all(self) -> None:
        """Drop all answers that are still to come."""
        self._handlers.clear()

    def deliver(self, ticket: int, answer: object, now_ms: int) -> None:
        """Hand an answer to the part that waits for it, if one still does."""
        handler = self._handlers.pop(ticket, None)
        if handler is not None:
            handler(answer, now_ms)

    def add(self, action: Action) -> None:
        """Have something done."""
        self._actions.append(action)

    def report(self, event: Event) -> None:
        """Have an event reported."""
        self._actions.append(ReportEvent(event))

    def take(self) -> list[Action]:
        """Return what is to be done, in order, and forget it."""
        actions, self._actions = self._actions, []
        return actions


#: Does what an error code asks of the member; the code was an answer to the given identity.
React: TypeAlias = Callable[[int, Identity, int], None]

#: Ends the membership with an error that no retry would mend.
Fail: TypeAlias = Callable[[Exception], None]

#: Does so when all work has ended: the error is no sign that others have what the member owns.
FailInOrder: TypeAlias = Callable[[Exception, int], None]


@dataclass(frozen=True, slots=True)
class Context:
    """What each part of a membership is given."""

    config: MembershipConfig
    sources: Sources
    react: React
    fail: Fail
    fail_in_order: FailInOrder
    outbox: Outbox = field(default_factory=Outbox)
    state: MemberState = field(default_factory=MemberState)
    loads: Loads = field(default_factory=Loads)

    def backoff(self, limit_ms: int | None = None) -> Backoff:
        """Return the delays between attempts at one kind of request."""
        first_ms = self.config.retry_backoff_ms
        limit_ms = self.config.retry_backoff_max_ms if limit_ms is None else limit_ms
        return Backoff(RetryOptions(first_ms, max(first_ms, limit_ms)), self.sources.random)

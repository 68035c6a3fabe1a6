"""What is known of one group at some moment of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from coterie_pipeline.kafka_logs.holdings import Holdings
from coterie_pipeline.kafka_logs.said import Card
from coterie_pipeline.kafka_logs.stored import Generation

__all__ = ["Group", "Member", "Running", "name_before_id"]

EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"

#: What Kafka's consumers ask for (`max.poll.interval.ms`) if nothing else is set.
_LIMIT_MS: Final = 300_000

#: Brokers make member ids of the client's id, or of a static member's name, and a random id.
_RANDOM_ID: Final = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def name_before_id(member: str) -> str:
    """What a member id was made of."""
    return _RANDOM_ID.sub("", member)


@dataclass(slots=True)
class Member:
    """One member; `joined_ms` is when it joined in the phase that runs, if that is known."""

    card: Card
    joined_ms: int | None = None


@dataclass(slots=True)
class Running:
    """A rebalance that goes on."""

    started_ms: int
    cause: str
    awaited: tuple[str, ...]
    #: How many had gone when it began.
    gone_before: int
    joined_ms: int | None = None
    dropped: list[str] = field(default_factory=list)
    #: The generation as it was stored, if it was.
    stored: Generation | None = None


@dataclass(slots=True)
class Group:
    """One group."""

    name: str
    node: str
    generation: int = 0
    state: str = STABLE
    members: dict[str, Member] = field(default_factory=dict)
    #: Clients that were told their ids, and when.
    pending: dict[str, int] = field(default_factory=dict)
    #: Who went since the last generation began, and how.
    departed: dict[str, str] = field(default_factory=dict)
    #: Ids that had to be made up, by the names of their static members.
    made_up: dict[str, str] = field(default_factory=dict)
    leader: str = ""
    protocol_type: str = ""
    protocol: str = ""
    holdings: Holdings = field(default_factory=lambda: Holdings(None))
    #: Whom the last assignment asks to give something back and to join again.
    follow_up: frozenset[str] = frozenset()
    running: Running | None = None
    #: The members that a coordinator is reading back, and in which generation.
    loading: dict[str, Card] = field(default_factory=dict)
    loading_generation: int | None = None

    def id_of(self, member: str) -> str:
        """The id under which a member is known: the one made up for it, if one was."""
        if member in self.members:
            return member
        return self.made_up.get(name_before_id(member), member)

    def hear_state(self, state: str) -> None:
        """Learn the state that a line says; what matters is whether the group is empty."""
        if state == EMPTY and not self.members:
            self.state, self.holdings = EMPTY, Holdings({})

    def take(self, generation: Generation) -> None:
        """Become what was stored of a generation."""
        self.generation = generation.number
        self.members = {self.id_of(m): Member(s.card) for m, s in generation.members.items()}
        self.leader = self.id_of(generation.leader)
        self.protocol_type, self.protocol = generation.protocol_type, generation.protocol
        self.state = STABLE if generation.members else EMPTY
        given = generation.given
        self.holdings = Holdings(
            None if given is None else {self.id_of(m): parts for m, parts in given.items()}
        )

    def load(self, cards: Iterable[Card]) -> None:
        """Have these members, and keep what else is known of them."""
        self.members = {self.id_of(card.member): Member(card) for card in cards}
        for name, member in self.members.items():
            member.card = replace(member.card, member=name)
        self.state = STABLE if self.members else EMPTY
        self.running = None
        self.pending.clear()
        self.departed.clear()

    def empty(self, generation: int) -> None:
        """Have no members any more."""
        self.generation, self.state = generation, EMPTY
        self.members.clear()
        self.departed.clear()
        self.made_up.clear()
        self.leader, self.follow_up, self.running = "", frozenset(), None
        self.holdings = Holdings({})

    def last_to_join(self, *, is_whole: bool) -> str | None:
        """The member whose join has ended the first phase, where there is no doubt about that.

        Either all joins are known, or one member alone was awaited, and nobody came or went
        meanwhile.  `is_whole` tells whether all members are known.
        """
        running, joined_ms = self.running, self._joins()
        if running is None or not is_whole:
            return None
        if len(joined_ms) == len(self.members) > 0:
            return max(joined_ms, key=lambda name: (joined_ms[name], name))
        unknown = self.members.keys() - joined_ms.keys()
        is_calm = not self.pending and len(self.departed) == running.gone_before
        is_calm = is_calm and all(each == running.started_ms for each in joined_ms.values())
        is_alone = len(unknown) == 1 and unknown == set(running.awaited)
        return running.awaited[0] if is_calm and is_alone else None

    def _joins(self) -> dict[str, int]:
        joins = ((name, member.joined_ms) for name, member in self.members.items())
        return {name: joined_ms for name, joined_ms in joins if joined_ms is not None}

    def phase_limit_ms(self) -> int:
        """How long the first phase may take until those who did not come are left out."""
        return max((m.card.rebalance_ms for m in self.members.values()), default=0) or _LIMIT_MS

    def confirm(self, count: int | None) -> list[str]:
        """Those who were told their ids and must have joined, the earliest first.

        How many have, the count of members tells; without one, all of them.
        """
        room = len(self.pending) if count is None else max(count - len(self.members), 0)
        return list(self.pending)[:room]

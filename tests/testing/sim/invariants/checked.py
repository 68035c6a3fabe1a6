"""An invariant checker, and workers for it to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from coterie_client import Partition, Role
from coterie_client.membership.events import GroupJoined
from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    MemberGone,
    MemberReplaced,
)
from coterie_testing.sim.invariants.checker import InvariantChecker
from coterie_testing.sim.state import StateDisk
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Scheduler

__all__ = ["Checked", "FakeWorker", "Held", "Owned", "gone", "recovered", "replaced"]


@dataclass(frozen=True)
class Owned:
    """A partition, as a worker owns it."""

    token: int = 1
    topic: str = "t"
    number: int = 0
    is_owned: bool = True

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.number


@dataclass(frozen=True)
class Held:
    """A standby, as a worker holds it."""

    topic: str = "t"
    number: int = 0
    role: Role = Role.STANDBY
    is_held: bool = True

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.number


@dataclass(eq=False)
class FakeWorker:
    """A worker, as far as the checker looks at it."""

    name: str
    instance: str | None = None
    owned: list[Owned] = field(default_factory=list)
    group_id: str = "g"
    is_running: bool = True
    standbys: list[Held] = field(default_factory=list)
    state: StateDisk | None = None

    @property
    def options(self) -> SimpleNamespace:
        return SimpleNamespace(
            instance=self.instance, session_timeout=10.0, state=self.state, topics=("t",)
        )

    @property
    def group(self) -> SimpleNamespace:
        return SimpleNamespace(owned=self.owned, standbys=self.standbys, member_id=self.name)

    @property
    def acceptable_lag(self) -> int:
        return 0


class Checked:
    """A checker, and two workers that it is told of."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.checker = InvariantChecker(self.scheduler)
        self.ann, self.bob = FakeWorker("ann"), FakeWorker("bob")
        #: The members, by the journal.
        self.members = {"ann", "bob"}
        self.checker.__dict__["_journal"].members = lambda _: self.members

    def do(self, what: str, who: FakeWorker, partition: Owned | Held, *offset: int) -> None:
        """Tell the checker what a worker does."""
        getattr(self.checker, what)(cast(Worker, who), cast(Partition, partition), *offset)

    def joined(self, who: FakeWorker, generation: int = 0) -> None:
        """Have a worker's client tell that it is in a generation."""
        event = GroupJoined(
            member_id=who.name, generation=generation, is_leader=False, assignor="range"
        )
        self.checker.client_event(cast(Worker, who), event)

    def journal(self, event: Event) -> None:
        """Journal an event."""
        self.checker.journalled(self.scheduler.now_ms, event)

    @property
    def violation(self) -> str:
        """The first violation; empty if there is none."""
        return str(self.checker.violation or "")


def gone(member: str, how: str) -> MemberGone:
    """A member is gone."""
    return MemberGone(
        group="g",
        member=member,
        instance=None,
        host="",
        how=how,
        silent_ms=10_000,
        session_timeout_ms=10_000,
    )


def replaced(former: str) -> MemberReplaced:
    """Another process took over a name."""
    return MemberReplaced(
        group="g",
        instance="i",
        member="x",
        host="",
        former_member=former,
        former_host="",
        silent_ms=0,
    )


def recovered(*members: str) -> GroupRecovered:
    """A coordinator read the group back."""
    return GroupRecovered(group="g", state="Stable", generation=0, members=members)

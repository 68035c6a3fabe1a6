"""What must hold, seen from outside: whoever breaks it is told at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from coterie_client import Partition
from coterie_client.membership.events import CoordinatorLost, GroupJoined
from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.journal import (
    Event,
    MemberGone,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_testing.sim.excuses import Excuses
from coterie_testing.sim.node_time import NodeTime
from coterie_testing.sim.offsets import Offsets
from coterie_testing.sim.story import Story
from coterie_testing.sim.wire import Wire
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Scheduler

__all__ = ["Violation", "WatchfulEye"]

TopicPartition = tuple[str, int]

#: How members are dropped that are silent or late.
_EXPIRIES = frozenset({"session_expired", "join_expired", "rebalance_expired", "sync_expired"})


class Violation(AssertionError):  # noqa: N818  # what was looked for
    """Something that must not happen did."""


@dataclass(slots=True)
class _Seen:
    """What was seen of one partition."""

    #: Whose work is going on, with its token.
    running: dict[Worker, int] = field(default_factory=dict)
    #: The highest token that work was begun with, and that something was done with.
    token: int = -1
    #: Who began with that.
    owner: Worker | None = None


class WatchfulEye:
    """Sees what workers do and what the journal says, and raises `Violation`.

    Some can't know for a while that they are out (see `Excuses`): what they do meanwhile is what
    fencing tokens are for.  Such acts are counted as `fenced`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._world = scheduler
        self._seen: dict[TopicPartition, _Seen] = {}
        self._story = Story()
        self._expects_conflicts = False
        #: Who can't know better.
        self.excuses = Excuses(scheduler)
        #: What was committed.
        self.offsets = Offsets()
        #: What the coordinator makes of its time.
        self.node_time = NodeTime(scheduler)
        #: The first thing that must not have happened.
        self.violation: Violation | None = None
        #: What happened, by name.
        self.counts: Counter[str] = Counter()
        #: Whether nothing befalls machines and networks, so that nobody is ever late.
        self.is_calm = False

    def expect_conflicts(self) -> None:
        """The workers' assignors are broken on purpose: what they do is the guard's to mend."""
        self._expects_conflicts = True

    def _blame(self, what: str) -> None:
        """Remember the first thing that went wrong: who did it might catch an exception."""
        if self.violation is None:
            self.violation = Violation(what)

    # -- what workers do -----------------------------------------------------------------------

    def started(self, worker: Worker, partition: Partition) -> None:
        """Nobody else may be at it, and the token must be a new one."""
        seen = self._seen.setdefault(partition.key, _Seen())
        self._check_member(worker, partition, is_excused=self.excuses.is_unaware(worker))
        if partition.token < seen.token and self.excuses.cover(worker):
            # It does not know yet that it is out, and begins what another has begun since.
            seen.running[worker] = partition.token
            self.counts["unaware starts"] += 1
            return
        others = [other for other in seen.running if not self.excuses.cover(other)]
        if others:
            names = ", ".join(other.name for other in others)
            self._blame(f"{partition} has two workers: {worker.name} and {names}")
        # Who stopped by itself, as it heard nothing, has its ownership back: it is the same one.
        is_back = partition.token == seen.token and worker is seen.owner
        if partition.token <= seen.token and not (is_back and worker not in seen.running):
            self._blame(f"{partition}: token {partition.token} after {seen.token}")
        seen.token, seen.owner = partition.token, worker
        seen.running[worker] = partition.token
        self.counts["partitions taken"] += 1

    def _check_member(self, worker: Worker, partition: Partition, *, is_excused: bool) -> None:
        """Who is out knows it before the coordinator says so: its lease ends sooner."""
        member_id = worker.group.member_id
        is_there = member_id in self._story.members(worker.group_id)
        if not is_there and not is_excused:
            self._blame(f"{partition}: {worker.name} works on it, and {member_id!r} is no member")

    def resumed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """What was stored must be there."""
        for complaint in self.offsets.read(partition.key, offset, worker.name):
            self._blame(complaint)

    def touched(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Only the newest owner may do something, or a fence must be able to tell."""
        seen = self._seen[partition.key]
        self.offsets.ask(partition.key, offset)
        if not partition.is_owned:
            self._blame(f"{partition}: {worker.name} works on what its own client says is lost")
        else:
            self._check_member(worker, partition, is_excused=self.excuses.is_unaware(worker))
        if partition.token < seen.token:
            if not self.excuses.cover(worker):
                self._blame(f"{partition}: {worker.name} works on it with an old token")
            self.counts["fenced acts"] += 1
        self.counts["acts"] += 1

    def committed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """From now on the offset must not be forgotten."""
        seen = self._seen[partition.key]
        # It may have passed long before its worker hears so; the journal tells when.
        if partition.token < seen.token and not self.excuses.cover(worker):
            self._blame(f"{partition}: a commit of {worker.name} passed with an old token")
        self.offsets.confirm(partition.key, offset)
        self.counts["commits"] += 1

    def ended(self, worker: Worker, partition: Partition) -> None:
        """Somebody else may begin."""
        self._seen[partition.key].running.pop(worker, None)

    def died(self, worker: Worker) -> None:
        """Whatever it did, it does no more."""
        for seen in self._seen.values():
            seen.running.pop(worker, None)

    def happened(self, worker: Worker, event: ClientEvent) -> None:
        """Count it, and learn who is who."""
        if isinstance(event, GroupJoined):
            self.excuses.joined(worker, event.member_id)
            newest = self._story.generation(worker.group_id)
            if event.generation > newest:
                self._blame(f"{worker.name} is in generation {event.generation}, after {newest}")
        if isinstance(event, CoordinatorLost) and self.is_calm:
            self._blame(
                f"nothing is wrong with the coordinator, and {worker.name} {event.text}: {event}"
            )
        self.counts[f"client: {event.text}"] += 1

    def deletion_failed(self, topic: str, number: int, *, in_doubt: bool) -> None:
        """An administrator was told that a topic is not deleted, or was told nothing."""
        if in_doubt:
            self.offsets.deletion_unanswered(topic, number)
            return
        for complaint in self.offsets.deletion_refused(topic, number):
            self._blame(complaint)

    # -- what the coordinator tells ------------------------------------------------------------

    def journalled(self, ts_ms: int, event: Event, wire: Wire, wall_ms: int | None = None) -> None:
        """The journal tells a story that can be true, and a good one.

        `wall_ms` is what the system's clock shows on the coordinator's machine.
        """
        if wall_ms is not None:
            for complaint in self.node_time.hear(ts_ms, event, wall_ms):
                self._blame(complaint)
        for complaint in wire.hear(
            event,
            waits_for_members=self._story.waits_for_members(event.group),
            patience_ms=self._story.patience_ms(event.group),
        ):
            self._blame(complaint)
        for complaint in self._story.hear(ts_ms, event):
            self._blame(complaint)
        for complaint in self.offsets.hear(event):
            self._blame(complaint)
        self.excuses.hear(event)
        match event:
            case MemberGone() if event.how in _EXPIRIES:
                self._expired(event)
            case OwnershipConflict():
                self._conflicts(event)
            case RebalanceStarted() | PhaseJoined() | RebalanceCompleted():
                self.counts[f"{event.kind.replace('_', ' ')}: {event.cause}"] += 1
                self.counts["rebalances completed"] += isinstance(event, RebalanceCompleted)

    def _expired(self, event: MemberGone) -> None:
        """Nobody is dropped for being silent or late whom nothing has befallen."""
        self.counts[f"dropped: {event.how}"] += 1
        worker = self.excuses.worker(event.member)
        if self.is_calm and worker is not None and worker.is_running:
            self._blame(f"{worker.name} was dropped, and nothing is wrong with it: {event}")

    def _conflicts(self, event: OwnershipConflict) -> None:
        self.counts["conflicts withheld" if event.withheld else "conflicts"] += 1
        if not (self._expects_conflicts and event.withheld):
            self._blame(f"the leader gave away what another member has: {event}")

    # -- when everything has calmed down -------------------------------------------------------

    def check_topics(self, existing: Container[str]) -> None:
        """What was said of deletions is true."""
        for complaint in self.offsets.check(existing):
            self._blame(complaint)

    def check_settled(
        self, workers: Iterable[Worker], partitions: Iterable[TopicPartition]
    ) -> None:
        """Each partition has one owner, who works on it; and everybody has what it was given."""
        owners: dict[TopicPartition, str] = {}
        wanted = set(partitions)
        for worker in workers:
            for partition in worker.group.owned:
                if partition.key in owners:
                    self._blame(
                        f"{partition} is owned by {owners[partition.key]} and {worker.name}"
                    )
                owners[partition.key] = worker.name
                if worker not in self._seen[partition.key].running:
                    self._blame(f"{worker.name} owns {partition} and does not work on it")
            self._check_share(worker, wanted)
        if owners.keys() != wanted:
            odd = sorted(wanted.symmetric_difference(owners))
            self._blame(f"without an owner, or owned without being there: {odd}")

    def _check_share(self, worker: Worker, existing: set[TopicPartition]) -> None:
        """Whoever leads decides who has what, and the journal knows it."""
        share = self._story.share(worker.group_id, worker.group.member_id)
        owned = {partition.key for partition in worker.group.owned}
        if share is not None and owned != share & existing:
            self._blame(f"{worker.name} owns {sorted(owned)}, and was given {sorted(share)}")

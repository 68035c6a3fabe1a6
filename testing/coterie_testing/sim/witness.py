"""What must hold, seen from outside: whoever breaks it is told at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie_client import Partition
from coterie_client.membership.events import CoordinatorLost, GroupJoined
from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.journal import (
    Event,
    MemberGone,
    MemberReplaced,
    OffsetsCommitted,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_testing.sim.node_time import NodeTime
from coterie_testing.sim.story import Story
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import World

__all__ = ["Violation", "WatchfulEye"]

TopicPartition = tuple[str, int]

#: What a process that was paused gets to notice, once it goes on, that the world did not wait.
_GRACE_S = 1.0

#: How long a process may not know that somebody else put an end to its membership: at most as long
#: as it may go without a sign of life from the coordinator.
_UNAWARE_S = 10.0

#: How members are dropped that are silent or late.
_EXPIRIES = frozenset({"session_expired", "join_expired", "rebalance_expired", "sync_expired"})

#: How long it may take until everybody knows that a topic is not what it was.
_GOODBYE_S = 30.0


class Violation(AssertionError):  # noqa: N818  # what was looked for
    """Something that must not happen did."""


@dataclass(slots=True)
class _Seen:
    """What was seen of one partition."""

    #: Whose work is going on, with its token.
    running: dict[Worker, int] = field(default_factory=dict)
    #: The highest token that work was begun with, and that something was done with.
    token: int = -1
    #: The highest offset that somebody was told is stored, and the highest that anybody asked for.
    stored: int = 0
    asked: int = 0


class WatchfulEye:
    """Sees what workers do and what the journal says, and raises `Violation`.

    A process that was paused can't know it, and one whose membership an administrator ended, or
    whose name another process took over, learns it a little later: what they do meanwhile is
    nobody's fault, and what fencing tokens are for.  Such acts are counted as `fenced`.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[TopicPartition, _Seen] = {}
        self._excused_until_s: dict[Worker, float] = {}
        self._by_member_id: dict[str, Worker] = {}
        self._story = Story()
        #: What the coordinator makes of its time.
        self.node_time = NodeTime(world)
        #: The first thing that must not have happened.
        self.violation: Violation | None = None
        #: Until when it is no wonder that a topic's offsets are not what they were.
        self._forgotten_until_s: dict[str, float] = {}
        #: What happened, by name.
        self.counts: Counter[str] = Counter()
        #: Whether nothing befalls machines and networks, so that nobody is ever late.
        self.is_calm = False

    def expect_conflicts(self) -> None:
        """The workers' assignors are broken on purpose: what they do is the guard's to mend."""
        self._story.expects_conflicts = True

    def _blame(self, what: str) -> None:
        """Remember the first thing that went wrong: who did it might catch an exception."""
        if self.violation is None:
            self.violation = Violation(what)

    # -- what workers do -----------------------------------------------------------------------

    def started(self, worker: Worker, partition: Partition) -> None:
        """Nobody else may be at it, and the token must be a new one."""
        seen = self._seen.setdefault(partition.key, _Seen())
        if partition.token < seen.token and self._is_excused(worker):
            # It does not know yet that it is out, and begins what another has begun since.
            seen.running[worker] = partition.token
            self.counts["unaware starts"] += 1
            return
        others = [other for other in seen.running if not self._is_excused(other)]
        if others:
            names = ", ".join(other.name for other in others)
            self._blame(f"{partition} has two workers: {worker.name} and {names}")
        if partition.token <= seen.token:
            self._blame(f"{partition}: token {partition.token} after {seen.token}")
        seen.token = partition.token
        seen.running[worker] = partition.token
        self.counts["partitions taken"] += 1

    def resumed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """What was stored must be there."""
        seen = self._seen[partition.key]
        if offset < seen.stored:
            self._blame(
                f"{partition}: {worker.name} was told offset {offset}, but {seen.stored} was stored"
            )
        if offset > seen.asked:
            self._blame(f"{partition}: offset {offset} was never committed")

    def touched(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Only the newest owner may do something, or a fence must be able to tell."""
        seen = self._seen[partition.key]
        seen.asked = max(seen.asked, offset)
        if not partition.is_owned:
            self._blame(f"{partition}: {worker.name} works on what its own client says is lost")
        if partition.token < seen.token:
            if not self._is_excused(worker):
                self._blame(f"{partition}: {worker.name} works on it with an old token")
            self.counts["fenced acts"] += 1
        self.counts["acts"] += 1

    def committed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """From now on the offset must not be forgotten."""
        seen = self._seen[partition.key]
        # It may have passed long before its worker hears so; the journal tells when.
        if partition.token < seen.token and not self._is_excused(worker):
            self._blame(f"{partition}: a commit of {worker.name} passed with an old token")
        if self._world.now_s > self._forgotten_until_s.get(partition.topic, -1.0):
            seen.stored = max(seen.stored, offset)
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
            self._by_member_id[event.member_id] = worker
            newest = self._story.generation(worker.group_id)
            if event.generation > newest:
                self._blame(f"{worker.name} is in generation {event.generation}, after {newest}")
        if isinstance(event, CoordinatorLost) and self.is_calm:
            self._blame(
                f"nothing is wrong with the coordinator, and {worker.name} {event.text}: {event}"
            )
        self.counts[f"client: {event.text}"] += 1

    # -- what is done to them ------------------------------------------------------------------

    def paused(self, worker: Worker) -> None:
        """From now on it is not to blame."""
        self._excused_until_s[worker] = float("inf")

    def went_on(self, worker: Worker) -> None:
        """In a moment it is to blame again."""
        self._excuse(worker, _GRACE_S)

    def _excuse(self, worker: Worker | None, seconds: float) -> None:
        if worker is not None:
            until_s = self._world.now_s + seconds
            self._excused_until_s[worker] = max(self._excused_until_s.get(worker, 0.0), until_s)

    def _is_excused(self, worker: Worker) -> bool:
        return self._world.now_s <= self._excused_until_s.get(worker, -1.0)

    def topic_goes(self, topic: str) -> None:
        """Its offsets are forgotten, and rightly so, though not everybody knows at once."""
        self._forgotten_until_s[topic] = self._world.now_s + _GOODBYE_S
        for (name, _), seen in self._seen.items():
            if name == topic:
                seen.stored = 0

    # -- what the coordinator tells ------------------------------------------------------------

    def journalled(self, ts_ms: int, event: Event, wall_ms: int | None = None) -> None:
        """The journal tells a story that can be true, and a good one.

        `wall_ms` is what the system's clock shows on the coordinator's machine.
        """
        if wall_ms is not None:
            for complaint in self.node_time.hear(ts_ms, event, wall_ms):
                self._blame(complaint)
        for complaint in self._story.hear(ts_ms, event):
            self._blame(complaint)
        match event:
            case MemberReplaced(former_member=name):
                self._excuse(self._by_member_id.get(name), _UNAWARE_S)
            case MemberGone(member=name, how="left"):
                self._excuse(self._by_member_id.get(name), _UNAWARE_S)
            case MemberGone() if event.how in _EXPIRIES:
                self._expired(event)
            case OwnershipConflict():
                self._conflicts(event)
            case OffsetsCommitted():
                self._stored(event)
            case RebalanceStarted() | PhaseJoined() | RebalanceCompleted():
                self.counts[f"{event.kind.replace('_', ' ')}: {event.cause}"] += 1
                self.counts["rebalances completed"] += isinstance(event, RebalanceCompleted)

    def _stored(self, event: OffsetsCommitted) -> None:
        """Nobody goes back in its work, so what is stored does not either."""
        for topic, offsets in event.offsets.items():
            for number, offset in offsets.items():
                seen = self._seen.get((topic, int(number)))
                if seen is not None and offset < seen.stored:
                    what = f"a commit of {event.member} undoes a later one"
                    self._blame(f"{topic}[{number}]: {what}: {offset} after {seen.stored}")

    def _expired(self, event: MemberGone) -> None:
        """Nobody is dropped for being silent or late whom nothing has befallen."""
        self.counts[f"dropped: {event.how}"] += 1
        worker = self._by_member_id.get(event.member)
        if self.is_calm and worker is not None and worker.is_running:
            self._blame(f"{worker.name} was dropped, and nothing is wrong with it: {event}")

    def _conflicts(self, event: OwnershipConflict) -> None:
        self.counts["conflicts withheld" if event.withheld else "conflicts"] += 1
        if not self._story.expects_conflicts:
            self._blame(f"the leader gave away what another member has: {event}")

    # -- when everything has calmed down -------------------------------------------------------

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

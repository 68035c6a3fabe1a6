"""What must hold, seen from outside: whoever breaks it is told at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie_client import Partition
from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.journal import (
    CAUSES,
    Event,
    OffsetsCommitted,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import World

__all__ = ["Violation", "WatchfulEye"]

TopicPartition = tuple[str, int]

#: What a process that was paused gets to notice, once it goes on, that the world did not wait.
_GRACE_S = 1.0


class Violation(AssertionError):
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

    A process that was paused can't know it: what it does in the first moment after is not a fault
    of anybody's, and what fencing tokens are for.  Such acts are counted as `fenced`, if their
    token gives them away.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[TopicPartition, _Seen] = {}
        self._paused_until_s: dict[Worker, float] = {}
        self._generations: dict[str, int] = {}
        self._started: set[tuple[str, int]] = set()
        #: What happened, by name.
        self.counts: Counter[str] = Counter()
        #: Whether the workers' assignors are broken on purpose, so that conflicts are expected.
        self.expects_conflicts = False

    # -- what workers do -----------------------------------------------------------------------

    def started(self, worker: Worker, partition: Partition) -> None:
        """Nobody else may be at it, and the token must be a new one."""
        seen = self._seen.setdefault(partition.key, _Seen())
        others = [other for other in seen.running if not self._is_excused(other)]
        if others:
            names = ", ".join(other.name for other in others)
            raise Violation(f"{partition} has two workers: {worker.name} and {names}")
        if partition.token <= seen.token:
            raise Violation(f"{partition}: token {partition.token} after {seen.token}")
        seen.token = partition.token
        seen.running[worker] = partition.token
        self.counts["partitions taken"] += 1

    def resumed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """What was stored must be there."""
        seen = self._seen[partition.key]
        if offset < seen.stored:
            raise Violation(
                f"{partition}: {worker.name} was told offset {offset}, but {seen.stored} was stored"
            )
        if offset > seen.asked:
            raise Violation(f"{partition}: offset {offset} was never committed")

    def touched(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Only the newest owner may do something, or a fence must be able to tell."""
        seen = self._seen[partition.key]
        seen.asked = max(seen.asked, offset)
        if partition.token < seen.token:
            if not self._is_excused(worker):
                raise Violation(f"{partition}: {worker.name} works on it with an old token")
            self.counts["fenced acts"] += 1
        self.counts["acts"] += 1

    def committed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """From now on the offset must not be forgotten."""
        seen = self._seen[partition.key]
        if partition.token < seen.token:
            raise Violation(f"{partition}: a commit of {worker.name} passed with an old token")
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
        """Count it."""
        del worker
        self.counts[f"client: {event.text}"] += 1

    # -- what is done to them ------------------------------------------------------------------

    def paused(self, worker: Worker) -> None:
        """From now on it is not to blame."""
        self._paused_until_s[worker] = float("inf")

    def went_on(self, worker: Worker) -> None:
        """In a moment it is to blame again."""
        self._paused_until_s[worker] = self._world.now_s + _GRACE_S

    def _is_excused(self, worker: Worker) -> bool:
        return self._world.now_s <= self._paused_until_s.get(worker, -1.0)

    def topic_gone(self, topic: str) -> None:
        """Its offsets are forgotten, and rightly so."""
        for (name, _), seen in self._seen.items():
            if name == topic:
                seen.stored = 0

    # -- what the coordinator tells ------------------------------------------------------------

    def journalled(self, _ts_ms: int, event: Event) -> None:
        """Each rebalance has a cause, and generations never go back."""
        match event:
            case RebalanceStarted():
                if event.cause not in CAUSES:
                    raise Violation(f"a rebalance of {event.group} has no known cause: {event}")
                self._started.add((event.group, event.generation))
                self.counts[f"rebalances: {event.cause}"] += 1
            case PhaseJoined():
                self._grows(event.group, event.generation)
            case RebalanceCompleted():
                if event.generation != self._generations.get(event.group):
                    raise Violation(f"completed, but not the newest generation: {event}")
                self.counts["rebalances completed"] += 1
            case OwnershipConflict():
                self.counts["conflicts withheld" if event.withheld else "conflicts"] += 1
                if not self.expects_conflicts:
                    raise Violation(f"the leader gave away what another member has: {event}")
            case OffsetsCommitted() if event.generation >= 0:
                newest = self._generations.get(event.group, event.generation)
                if event.generation < newest:
                    raise Violation(f"a commit of an old generation passed, {newest} now: {event}")

    def _grows(self, group: str, generation: int) -> None:
        if generation <= self._generations.get(group, 0):
            before = self._generations[group]
            raise Violation(f"generation {generation} of {group} after generation {before}")
        self._generations[group] = generation

    # -- when everything has calmed down -------------------------------------------------------

    def check_settled(
        self, workers: Iterable[Worker], partitions: Iterable[TopicPartition]
    ) -> None:
        """Each partition has one owner, who works on it; and everybody has what it was given."""
        owners: dict[TopicPartition, str] = {}
        for worker in workers:
            for partition in worker.group.owned:
                if partition.key in owners:
                    raise Violation(
                        f"{partition} is owned by {owners[partition.key]} and {worker.name}"
                    )
                owners[partition.key] = worker.name
                if worker not in self._seen[partition.key].running:
                    raise Violation(f"{worker.name} owns {partition} and does not work on it")
        wanted = set(partitions)
        if owners.keys() != wanted:
            odd = sorted(wanted.symmetric_difference(owners))
            raise Violation(f"without an owner, or owned without being there: {odd}")

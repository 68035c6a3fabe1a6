"""Several coordinators and their workers, brought to a moment at which something befalls them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.journal import Event
from coterie_server.group import BundleRow, GroupState, StoredRow
from coterie_server.group import from_stored as row_of
from coterie_server.group.records import GroupRow
from coterie_server.topics import TopicRow, from_stored
from coterie_testing.sim.coordinator import SimulatedCoordinator
from coterie_testing.sim.system import GROUP, System, SystemOptions
from coterie_testing.virtual import Database

__all__ = ["Several"]

#: How long a group may be without a coordinator: a lease, and the time to notice and to read.
AWAY_S = 5.0


class Several:
    """A group at work, whose coordinator is one of several."""

    def __init__(self, seed: int, *, nodes: int = 3, workers: int = 3, running: int = 0) -> None:
        options = SystemOptions(
            workers=workers,
            nodes=nodes,
            topics={"jobs": 6, "more": 2},
            settings={"auto_create_topics_enable": False},  # or members make anew what is deleted
        )
        self.system = system = System(seed, options)
        #: What the journals and the workers have told, with the time and by whom.
        self.told: list[tuple[float, str, ClientEvent | Event]] = []
        system.on_event = self._note
        for coordinator in system.coordinators[: running or nodes]:
            coordinator.start()
        for _ in range(workers):
            system.add_worker()
        self.until(self.is_well)
        self.run(2.0)

    def _note(self, who: str, event: ClientEvent | Event | str) -> None:
        if not isinstance(event, str):
            self.told.append((self.system.scheduler.now_s, who, event))

    # -- time ----------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.system.scheduler.run(seconds)
        self.check()

    def until(self, holds: Callable[[], bool], within_s: float = 60.0) -> None:
        """Go on until something holds, and stop at that very step."""
        self.system.scheduler.run_until(holds, within_s)
        self.check()

    def check(self) -> None:
        """Raise what is wrong."""
        if self.system.checker.violation is not None:
            raise self.system.checker.violation
        errors = [each.errors for each in self.system.scheduler.processes if each.errors]
        assert not errors

    # -- what there is -------------------------------------------------------------------------

    @property
    def coordinator(self) -> SimulatedCoordinator:
        """The one that has the group."""
        return self.system.coordinator

    @property
    def topics_owner(self) -> SimulatedCoordinator:
        """The one that has the catalogue of topics."""
        return next(each for each in self.system.coordinators if -1 in each.shards)

    def state(self) -> GroupState | None:
        """The state of the group, if a coordinator has it."""
        node = self.coordinator.node
        group = node.group(GROUP) if node is not None else None
        return group.state if group is not None else None

    def is_well(self) -> bool:
        """Whether the group has exactly the running workers, and all of them are at work."""
        node = self.coordinator.node
        group = node.group(GROUP) if node is not None else None
        workers = self.system.running
        return (
            group is not None
            and group.state is GroupState.STABLE
            and all(worker.group.is_settled for worker in workers)
            and group.members.keys() == {worker.group.member_id for worker in workers}
        )

    def check_well(self) -> None:
        """All partitions have one owner, which works on them."""
        node = self.coordinator.node
        assert node is not None
        partitions = [(t, n) for t in ("jobs", "more") for n in range(node.topics.get(t, 0))]
        self.system.checker.check_settled(self.system.running, partitions)
        self.check()

    def seen(self, *kinds: type[Event | ClientEvent], since_s: float = 0.0) -> list[object]:
        """What was told of some kinds."""
        return [
            event for at_s, _, event in self.told if at_s >= since_s and isinstance(event, kinds)
        ]

    # -- what is stored ------------------------------------------------------------------------

    def stored(self) -> Iterator[StoredRow]:
        """The rows of the shard that the group is in, as they are in the database."""
        node = next(each.node for each in self.system.coordinators if each.node is not None)
        shard = zlib.crc32(GROUP.encode()) % len(node.shards)
        assert node.group_shard(GROUP).shard == shard
        for key, value in sorted(self._content.get(shard, {}).items()):
            yield row_of(key, value)

    @property
    def _content(self) -> dict[int, dict[bytes, bytes]]:
        assert isinstance(self.system.disk, Database)
        return self.system.disk.content._content.records  # noqa: SLF001  # what no node has read

    def stored_generation(self) -> int:
        """The group's generation, as it is in the database."""
        rows = self.stored()
        return next((row.generation for row in rows if isinstance(row, GroupRow)), 0)

    def stored_partitions(self, topic: str) -> int:
        """How many partitions a topic has, as it is in the database."""
        rows = (from_stored(key, value) for key, value in self._content.get(-1, {}).items())
        topics = (row for row in rows if isinstance(row, TopicRow))
        return next((row.partitions for row in topics if row.name == topic), 0)

    def stored_offsets(self, topic: str) -> int:
        """How many offsets of a topic the group has, as it is in the database."""
        bundles = (row for row in self.stored() if isinstance(row, BundleRow))
        return sum(row.topic == topic for bundle in bundles for row in bundle.rows())

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Kill everything."""
        self.system.close()

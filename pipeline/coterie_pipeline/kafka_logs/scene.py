"""What those who follow groups share: the groups, the time, who speaks, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie_pipeline.kafka_logs.dump import Dump
from coterie_pipeline.kafka_logs.group import EMPTY, Group
from coterie_pipeline.kafka_logs.holdings import Holdings
from coterie_protocol.journal import Event, GroupRecovered

__all__ = ["Happening", "Scene"]


@dataclass(frozen=True, slots=True)
class Happening:
    """An event, when it was, and the broker whose journal it belongs into."""

    ts_ms: int
    node: str
    event: Event


@dataclass(slots=True)
class Scene:
    """The state of everything at one moment."""

    dump: Dump
    node: str
    groups: dict[str, Group] = field(default_factory=dict)
    #: In which groups a `group.instance.id` was met: some lines name it and not the group.
    homes: dict[str, list[str]] = field(default_factory=dict)
    now_ms: int = 0
    happenings: list[Happening] = field(default_factory=list)

    def tell(self, event: Event) -> None:
        """Note an event of now."""
        self.happenings.append(Happening(self.now_ms, self.node, event))

    def group(self, name: str, generation: int | None = None) -> Group:
        """A group; one that is heard of for the first time is introduced.

        `generation` is the one it is in, where a line says so.
        """
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name, self.node)
            self._introduce(group, generation)
        group.node = self.node
        return group

    def quietly(self, name: str) -> Group:
        """A group, without a word about it."""
        group = self.groups.setdefault(name, Group(name, self.node))
        group.node = self.node
        return group

    def settle(self, group: Group, instance: str | None) -> None:
        """Remember that a static member of this name is of a group."""
        if instance is not None:
            homes = self.homes.setdefault(instance, [])
            if group.name not in homes:
                homes.append(group.name)

    def recovered(self, group: Group) -> None:
        """Tell how a group stands."""
        assigned = group.holdings.by_member(group.members)
        self.tell(
            GroupRecovered(
                group=group.name,
                state=group.state,
                generation=group.generation,
                members=tuple(group.members),
                assigned=assigned,
            )
        )

    def _introduce(self, group: Group, generation: int | None) -> None:
        """What is stored of the time before the log begins."""
        stored = self.dump.latest(group.name, self.now_ms)
        if stored is not None and generation in (None, stored.number):
            group.take(stored)
            if group.members:
                self.recovered(group)
        elif not generation:
            group.state = EMPTY if generation == 0 else group.state
            group.holdings = Holdings({} if generation == 0 else None)

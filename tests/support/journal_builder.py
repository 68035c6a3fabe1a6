"""Journals that a test writes by hand, line by line, in few words."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coterie_protocol.journal import (
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    Line,
    MemberFenced,
    MemberGone,
    MemberJoined,
    MemberPhase,
    MemberReplaced,
    NodeStarted,
    NodeStopped,
    OffsetsCommitted,
    OffsetsDeleted,
    Partitions,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    TopicChanged,
    write_line,
)
from coterie_protocol.journal_text import segment_name

__all__ = ["AWAY", "BEGINNING_MS", "JournalBuilder"]

#: When every story begins: on the hour.  Times in stories are counted from here.
BEGINNING_MS: Final = 1_699_999_200_000

#: Of a static member in a first phase: it does not come, and keeps its place.
AWAY: Final = None

#: What a member of a first phase says: when it joined, and which partitions it still owns.
_Word = tuple[int, Sequence[int]] | None


@dataclass(slots=True)
class JournalBuilder:
    """Writes what a node would write about one group that shares out one topic.

    Each method is one line of the journal, `at` milliseconds after the beginning.  Group, node
    and topic have one name, so that many stories make one journal.
    """

    group: str
    node: str = ""
    #: Files by name, each with its lines.
    files: dict[str, list[str]] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    generation: int = 0
    seq: int = 0
    #: Where members come from that have no address of their own.
    hosts: dict[str, str] = field(default_factory=dict)
    protocol: str = "range"
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    #: Files that are there once more, packed.
    packed: set[str] = field(default_factory=set)
    _file: str = ""
    _folder: str = ""

    def __post_init__(self) -> None:
        self.node = self.node or self.group

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.group

    def on(self, node: str) -> JournalBuilder:
        """Another node that writes about the same group."""
        return JournalBuilder(
            *(self.group, node, self.files, self.instances, self.generation),
            hosts=self.hosts,
            protocol=self.protocol,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            packed=self.packed,
        )

    # -- files ---------------------------------------------------------------------------------

    def begin_file(self) -> None:
        """Begin another file, as a node does when it starts."""
        self._file = self._folder + segment_name(self.node, self.seq + 1)

    def begin_anew(self, folder: str) -> None:
        """Begin once more, with an empty data directory."""
        self.seq, self.generation, self._folder = 0, 0, f"{folder}/"
        self.begin_file()

    def text(self, text: str) -> str:
        """Any line at all, with its line break."""
        if not self._file:
            self.begin_file()
        self.files.setdefault(self._file, []).append(f"{text}\n")
        return text

    def line(self, at: int, event: Event) -> str:
        """The next line of the node."""
        if not self._file:
            self.begin_file()
        self.seq += 1
        return self.text(write_line(Line(BEGINNING_MS + at, self.node, self.seq, event)))

    def torn(self, at: int, event: Event, characters: int) -> None:
        """So much of a line as was written when the node was killed; its number is used again."""
        line = Line(BEGINNING_MS + at, self.node, self.seq + 1, event)
        self.files[self._file].append(write_line(line)[:characters])
        self.begin_file()

    def write(self, folder: Path) -> list[Path]:
        """Write the files into a folder."""
        paths = []
        for name, texts in self.files.items():
            data = "".join(texts).encode()
            paths.append(folder / name)
            paths[-1].parent.mkdir(parents=True, exist_ok=True)
            paths[-1].write_bytes(data)
            if name in self.packed:
                paths.append(folder / f"{name}.gz")
                paths[-1].write_bytes(gzip.compress(data, mtime=0))
        return paths

    # -- the node ------------------------------------------------------------------------------

    def node_started(self, at: int) -> None:
        """The node serves."""
        self.line(at, NodeStarted(version="1", groups=0, offsets=0, load_ms=0))

    def node_stopped(self, at: int) -> None:
        """The node stopped in good order."""
        self.line(at, NodeStopped(reason="SIGTERM"))

    def recovered(
        self,
        at: int,
        state: str = "Stable",
        *,
        generation: int | None = None,
        fence: int = 0,
        **assigned: Sequence[int],
    ) -> None:
        """The group was read back, and who had what then."""
        if generation is not None:
            self.generation = generation
        event = GroupRecovered(
            group=self.group,
            state=state,
            generation=self.generation,
            members=tuple(assigned),
            assigned=self._each(assigned),
            fence=fence,
        )
        self.line(at, event)

    def topic_changed(self, at: int, change: str, before: int, after: int) -> None:
        """Something became of the topic."""
        event = TopicChanged(
            topic=self.topic, change=change, partitions_before=before, partitions=after
        )
        self.line(at, event)

    # -- members -------------------------------------------------------------------------------

    def joined(self, at: int, member: str, instance: str | None = None) -> None:
        """A member was taken in."""
        if instance is not None:
            self.instances[member] = instance
        event = MemberJoined(
            group=self.group,
            member=member,
            instance=instance,
            client_id="c",
            host=self._host(member),
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=(self.protocol,),
            topics=(self.topic,),
            reason="it is new",
        )
        self.line(at, event)

    def gone(self, at: int, member: str, how: str = "left", silent_ms: int = 0) -> None:
        """A member is out."""
        event = MemberGone(
            group=self.group,
            member=member,
            instance=self.instances.get(member),
            host=self._host(member),
            how=how,
            silent_ms=silent_ms,
            session_timeout_ms=self.session_timeout_ms,
            reason="",
        )
        self.line(at, event)

    def replaced(self, at: int, former: str, member: str) -> None:
        """A static member came back."""
        instance = self.instances[member] = self.instances[former]
        event = MemberReplaced(
            group=self.group,
            instance=instance,
            member=member,
            host=self._host(member),
            former_member=former,
            former_host=self._host(former),
            silent_ms=7,
        )
        self.line(at, event)

    def fenced(self, at: int, member: str, holder: str) -> None:
        """A process learned that its name is taken."""
        event = MemberFenced(
            group=self.group,
            instance=self.instances[member],
            member=member,
            host=self._host(member),
            holder=holder,
            holder_host=self._host(holder),
            request="Heartbeat",
        )
        self.line(at, event)

    def unclaimed(self, at: int, member: str) -> None:
        """An id was not claimed."""
        self.line(at, IdUnclaimed(group=self.group, member=member))

    # -- rebalances ----------------------------------------------------------------------------

    def started(
        self,
        at: int,
        cause: str,
        awaited: Sequence[str] = (),
        *,
        from_state: str = "Stable",
        follows: int | None = None,
        detail: str = "so it is",
    ) -> None:
        """A rebalance begins."""
        event = RebalanceStarted(
            group=self.group,
            generation=self.generation,
            from_state=from_state,
            cause=cause,
            detail=detail,
            awaited=tuple(awaited),
            deadline=None,
            follows=follows,
        )
        self.line(at, event)

    def phase(
        self, at: int, took_ms: int, members: Mapping[str, _Word], dropped: Sequence[str] = ()
    ) -> None:
        """The first phase is over: a new generation, and what each member says that it owns."""
        self.generation += 1
        event = PhaseJoined(
            group=self.group,
            generation=self.generation,
            protocol_type="consumer",
            protocol=self.protocol,
            leader=next(iter(members)),
            members=tuple(self._phase(member, word) for member, word in members.items()),
            dropped=tuple(dropped),
            last=None,
            cause="admin",
            took_ms=took_ms,
        )
        self.line(at, event)

    def completed(
        self,
        at: int,
        assigned: Mapping[str, Sequence[int]] | None,
        *,
        needs_rejoin: bool = False,
        took_ms: int = 10,
        total_ms: int = 10,
    ) -> None:
        """The assignment is in place."""
        event = RebalanceCompleted(
            group=self.group,
            generation=self.generation,
            cause="admin",
            assigned=None if assigned is None else self._each(assigned),
            moved=1,
            revoked=2,
            needs_rejoin=needs_rejoin,
            took_ms=took_ms,
            total_ms=total_ms,
        )
        self.line(at, event)

    def emptied(self, at: int) -> None:
        """The last member is gone."""
        self.generation += 1
        self.line(at, GroupEmptied(group=self.group, generation=self.generation))

    def deleted(self, at: int) -> None:
        """The group was deleted."""
        event = GroupDeleted(group=self.group, generation=self.generation, how="requested")
        self.line(at, event)

    def founded(self, at: int, **assigned: Sequence[int]) -> None:
        """All lines of a group that begins, with an assignment that is in place at that moment."""
        for member in assigned:
            self.joined(at, member, self.instances.get(member))
        self.started(at, "member_joined", from_state="Empty")
        self.phase(at, 0, dict.fromkeys(assigned, (0, ())))
        self.completed(at, assigned)

    # -- offsets -------------------------------------------------------------------------------

    def committed(self, at: int, member: str, **offsets: int) -> None:
        """Offsets were stored, of partitions that are named as in `p0=17`."""
        event = OffsetsCommitted(
            group=self.group,
            member=member,
            generation=self.generation if member else -1,
            offsets={self.topic: {name[1:]: offset for name, offset in offsets.items()}},
        )
        self.line(at, event)

    def forgotten(self, at: int, *numbers: int) -> None:
        """Offsets were deleted with the topic."""
        event = OffsetsDeleted(
            group=self.group, partitions=self._owned(numbers), how="topic_deleted"
        )
        self.line(at, event)

    # -- parts of lines ------------------------------------------------------------------------

    def _host(self, member: str) -> str:
        return self.hosts.get(member, f"/{member}")

    def _owned(self, numbers: Sequence[int]) -> Partitions:
        return {self.topic: tuple(numbers)} if numbers else {}

    def _each(self, assigned: Mapping[str, Sequence[int]]) -> Mapping[str, Partitions]:
        return {member: self._owned(numbers) for member, numbers in assigned.items()}

    def _phase(self, member: str, word: _Word) -> MemberPhase:
        joined_after_ms, owned = word or (None, ())
        return MemberPhase(
            member=member,
            instance=self.instances.get(member),
            host=self._host(member),
            joined_after_ms=joined_after_ms,
            topics=(self.topic,),
            owned=self._owned(owned),
        )

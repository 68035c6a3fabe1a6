"""Rules about who owned what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from coterie_pipeline.advice.sentences import (
    Row,
    Take,
    Times,
    advise,
    count_of,
    partition_name,
    partition_seconds,
    seconds,
)

__all__ = ["Eager", "Idle", "Overlaps", "WithoutOwner"]

#: Assignors that make everybody let go of everything first.
_EAGER: Final = ("range", "roundrobin", "sticky")
#: Less than this, or than one part of so many of the time that stood still, is not worth a change.
_WORTHWHILE_MS: Final = 1_000
_WORTHWHILE_PARTS: Final = 10
#: Until then a rebalance may just be going on.
_PATIENCE_MS: Final = 10_000


class Overlaps:
    """Two owners at once: for certain, or perhaps."""

    def __init__(self) -> None:
        self._sure = _Doubly()
        self._possible = _Doubly()

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"ownership_faults": self._note}

    def _note(self, row: Row) -> None:
        if row["fault"] == "overlap":
            (self._sure if row["sure_ms"] > 0 else self._possible).note(row)

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        yield from self._sure.rows(
            group,
            "overlap",
            "wrong",
            "Two members owned one partition at once, {}. Set group.ownership.guard=enforce to "
            "rule that out, and see which assignor the group's leader uses.",
        )
        yield from self._possible.rows(
            group,
            "possible_overlap",
            "note",
            "A partition was given on while its former owner may have been at work, {}. Make sure "
            "that what is written carries the fencing token.",
        )


class _Doubly:
    def __init__(self) -> None:
        self._times = Times()
        self._count = 0
        self._partitions: set[tuple[str, int]] = set()
        self._causes: set[str] = set()
        self._longest: tuple[tuple[Any, ...], Row] | None = None

    def note(self, row: Row) -> None:
        self._count += 1
        self._partitions.add((row["topic"], row["partition"]))
        self._causes.add(row["cause"])
        self._times.note(row["from_ms"], row["to_ms"])
        names = ("most_ms", "from_ms", "topic", "partition", "holder", "next_holder")
        order = tuple(row[name] for name in names)
        if self._longest is None or order > self._longest[0]:
            self._longest = order, row

    def rows(self, group: str, rule: str, severity: str, sentence: str) -> Iterator[Row]:
        if self._longest is None:
            return
        longest = self._longest[1]
        example = (
            f"{partition_name(longest)} had {longest['holder']} and {longest['next_holder']} "
            f"({longest['cause'].replace('_', ' ')})"
        )
        times = count_of(self._count, "time", "times")
        what = f"{times} and for up to {seconds(longest['most_ms'])}: {example}"
        evidence = {
            "times": self._count,
            "partitions": len(self._partitions),
            "longest_ms": longest["most_ms"],
            "causes": ", ".join(sorted(self._causes)),
        }
        yield advise(group, rule, severity, sentence.format(what), evidence, self._times)


class Eager:
    """Partitions that stood still and went back to where they came from."""

    def __init__(self) -> None:
        self._times = Times()
        self._protocol: str | None = None
        self._stopped_ms = 0
        self._saves_ms = 0
        self._count = 0

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"rebalances": self._note_rebalance, "ownership_faults": self._note_fault}

    def _note_rebalance(self, row: Row) -> None:
        if row["protocol"] in _EAGER:
            self._protocol = row["protocol"]

    def _note_fault(self, row: Row) -> None:
        if row["fault"] == "gap":
            self._stopped_ms += row["sure_ms"]
            if row["began"] == "let_go" and row["holder"] == row["next_holder"]:
                self._saves_ms += row["sure_ms"]
                self._count += 1
                self._times.note(row["from_ms"], row["to_ms"])

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        is_little = self._saves_ms < _WORTHWHILE_MS
        if self._protocol is None or is_little:
            return
        if self._saves_ms * _WORTHWHILE_PARTS < self._stopped_ms:
            return
        yield advise(
            group,
            "eager",
            "costly",
            f"Of {partition_seconds(self._stopped_ms)} that stood still, "
            f"{partition_seconds(self._saves_ms)} were of partitions that went back to the member "
            f"that had let go of them: {self._protocol} makes everybody stop. With "
            "cooperative-sticky they would have gone on.",
            {
                "protocol": self._protocol,
                "stopped_ms": self._stopped_ms,
                "times": self._count,
            },
            self._times,
            saves_partition_ms=self._saves_ms,
        )


class WithoutOwner:
    """Partitions that nobody works on as the journal ends."""

    def __init__(self) -> None:
        self._times = Times()
        self._count = 0
        self._stopped_ms = 0
        self._first: tuple[tuple[Any, ...], Row] | None = None

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"ownership_faults": self._note}

    def _note(self, row: Row) -> None:
        if row["fault"] == "gap" and row["is_open"]:
            self._count += 1
            self._stopped_ms += row["sure_ms"]
            self._times.note(row["from_ms"], row["to_ms"])
            order = row["from_ms"], row["topic"], row["partition"]
            if self._first is None or order < self._first[0]:
                self._first = order, row

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        if self._first is None:
            return
        length_ms = (self._times.last_ms or 0) - (self._times.first_ms or 0)
        if length_ms < _PATIENCE_MS:
            return
        yield advise(
            group,
            "without_owner",
            "wrong",
            f"{count_of(self._count, 'partition has', 'partitions have')} no owner as the journal "
            f"ends, such as {partition_name(self._first[1])} for {seconds(length_ms)}: see whether "
            "a rebalance hangs, or nobody subscribes to the topic any more.",
            {"partitions": self._count, "stopped_ms": self._stopped_ms},
            self._times,
        )


class Idle:
    """Members that have nothing to do."""

    def __init__(self) -> None:
        self._latest: Row | None = None

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"rebalances": self._note}

    def _note(self, row: Row) -> None:
        if row["outcome"] == "completed" and row["partitions"] is not None:
            self._latest = row

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        if self._latest is None:
            return
        members, partitions = self._latest["members"] or 0, self._latest["partitions"]
        if not members > partitions > 0:
            return
        times = Times()
        times.note(self._latest["ended_ms"], self._latest["ended_ms"])
        yield advise(
            group,
            "idle_members",
            "note",
            f"{count_of(members, 'member shares', 'members share')} "
            f"{count_of(partitions, 'partition', 'partitions')}: "
            f"{count_of(members - partitions, 'has', 'have')} nothing to do. Fewer members, or "
            "more partitions, would do.",
            {"members": members, "partitions": partitions},
            times,
        )

"""Rules about members that cause trouble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from coterie_pipeline.advice.sentences import (
    Row,
    Take,
    Times,
    advise,
    count_of,
    partition_name,
    seconds,
)

__all__ = ["Flapping", "OneNameForTwo", "Restarts", "Slow", "WentBack"]

#: A process that is back so soon was restarted, not scaled down.
_RESTART_MS: Final = 300_000
#: So often is no accident.
_OFTEN: Final = 3
_SLOW_MS: Final = 1_000


class Restarts:
    """Members that said goodbye and came back: static ones would have kept their places."""

    def __init__(self) -> None:
        self._times = Times()
        self._back_ms: list[int] = []
        self._members: set[str] = set()

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"member_sessions": self._note}

    def _note(self, row: Row) -> None:
        if row["kind"] != "dynamic" or row["ended"] != "left":
            return
        back_ms = row["back_after_ms"]
        if back_ms is not None and back_ms <= _RESTART_MS:
            self._back_ms.append(back_ms)
            self._members.add(row["identity"])
            self._times.note(row["ended_ms"], row["ended_ms"])

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        count = len(self._back_ms)
        if count < _OFTEN:
            return
        back_ms = sorted(self._back_ms)
        median_ms = (back_ms[(count - 1) // 2] + back_ms[count // 2]) // 2
        yield advise(
            group,
            "restarts",
            "costly",
            f"{count_of(count, 'time', 'times')} a member left and was back after "
            f"{seconds(median_ms)}, which made two rebalances each. With a group.instance.id for "
            f"each member and a session timeout above {seconds(back_ms[-1])}, restarts would have "
            "moved nothing.",
            {
                "times": count,
                "members": len(self._members),
                "median_ms": median_ms,
                "longest_ms": back_ms[-1],
            },
            self._times,
        )


@dataclass(slots=True)
class _Restless:
    times: Times = field(default_factory=Times)
    count: int = 0
    within_hour: int = 0
    last: tuple[int, int] | None = None
    how: str | None = None


class Flapping:
    """Members that come and go all the time."""

    def __init__(self) -> None:
        self._found: dict[str, _Restless] = {}

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"member_sessions": self._note}

    def _note(self, row: Row) -> None:
        if not row["is_flapping"]:
            return
        it = self._found.setdefault(row["identity"], _Restless())
        joined_ms, ended_ms = row["joined_ms"], row["ended_ms"]
        it.count += 1
        it.within_hour = max(it.within_hour, row["returns"])
        it.times.note(joined_ms, joined_ms if ended_ms is None else ended_ms)
        if row["ended"] != "open" and (it.last is None or (joined_ms, ended_ms) > it.last):
            it.last, it.how = (joined_ms, ended_ms), row["ended"]

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        for identity, it in self._found.items():
            last = "" if it.how is None else f"; it was last gone as {it.how.replace('_', ' ')}"
            yield advise(
                group,
                "flapping",
                "costly",
                f"{identity} came back up to {count_of(it.within_hour, 'time', 'times')} within an "
                f"hour{last}. See why its process ends.",
                {"times": it.count, "within_hour": it.within_hour, "how": it.how},
                it.times,
                about=identity,
            )


@dataclass(slots=True)
class _Waited:
    times: Times = field(default_factory=Times)
    count: int = 0
    waited_ms: int = 0


class Slow:
    """The one that everybody waits for."""

    def __init__(self) -> None:
        self._found: dict[str, _Waited] = {}

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"rebalances": self._note}

    def _note(self, row: Row) -> None:
        if row["prepare_ms"] is None or not row["late"]:
            return
        last = row["late"][0]
        if (last["after_ms"] or 0) < _SLOW_MS:
            return
        about = last["member"] if last["instance"] is None else last["instance"]
        if last["instance"] is None and last["host"]:
            about = last["host"]
        it = self._found.setdefault(about, _Waited())
        it.count += 1
        it.waited_ms += last["after_ms"]
        it.times.note(row["started_ms"], row["joined_ms"])

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        all_ms = sum(it.waited_ms for it in self._found.values())
        for about, it in self._found.items():
            # A member that is the last so often is no accident.
            if it.count >= _OFTEN and it.waited_ms * 2 >= all_ms:
                yield advise(
                    group,
                    "slow_member",
                    "costly",
                    f"{count_of(it.count, 'rebalance', 'rebalances')} waited longest for {about}, "
                    f"{seconds(it.waited_ms)} in all: see how long it takes to finish what it has "
                    "in hand, and how often it sends heartbeats.",
                    {"times": it.count, "waited_ms": it.waited_ms, "all_ms": all_ms},
                    it.times,
                    about=about,
                )


@dataclass(slots=True)
class _Fenced:
    times: Times = field(default_factory=Times)
    count: int = 0
    hosts: set[str] = field(default_factory=set)


class OneNameForTwo:
    """Instance ids that two processes use."""

    def __init__(self) -> None:
        self._found: dict[str, _Fenced] = {}

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"refusals": self._note}

    def _note(self, row: Row) -> None:
        it = self._found.setdefault(row["instance"], _Fenced())
        it.count += 1
        it.hosts.update(host for host in (row["host"], row["holder_host"]) if host)
        it.times.note(row["at"], row["at"])

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        for instance, it in self._found.items():
            hosts = " and ".join(sorted(it.hosts))
            where = f", at {hosts}" if hosts else ""
            yield advise(
                group,
                "one_name_for_two",
                "wrong",
                f"Two processes used the group.instance.id {instance}{where}: "
                f"{count_of(it.count, 'request was', 'requests were')} refused. Give each process "
                "a name of its own.",
                {"times": it.count, "hosts": hosts},
                it.times,
                about=instance,
            )


class WentBack:
    """Offsets that went back."""

    def __init__(self) -> None:
        self._times = Times()
        self._count = 0
        self._partitions: set[tuple[str, int]] = set()
        self._deepest: tuple[tuple[Any, ...], Row] | None = None

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"commits": self._note}

    def _note(self, row: Row) -> None:
        if not row["regressions"]:
            return
        self._count += row["regressions"]
        self._partitions.add((row["topic"], row["partition"]))
        self._times.note(row["first_ms"], row["last_ms"])
        order = row["deepest_regression"], row["last_ms"], row["topic"], row["partition"]
        if self._deepest is None or order > self._deepest[0]:
            self._deepest = order, row

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        if self._deepest is None:
            return
        (deepest, *_), example = self._deepest
        yield advise(
            group,
            "offset_went_back",
            "note",
            f"Committed offsets went back {count_of(self._count, 'time', 'times')}, by up to "
            f"{deepest:,} for {partition_name(example)}: that work was, or will be, done twice, "
            "unless somebody reset the offsets.",
            {"times": self._count, "partitions": len(self._partitions), "deepest": deepest},
            self._times,
        )

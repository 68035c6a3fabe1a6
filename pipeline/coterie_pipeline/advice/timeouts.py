"""Rules about timeouts that are too short."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie_pipeline.advice.sentences import Row, Take, Times, advise, count_of, seconds

__all__ = ["RebalanceTimeouts", "SessionTimeouts"]

#: Session timeouts that people choose.
_CHOICES_MS: Final = tuple(
    second * 1000 for second in (6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300)
)
#: One that comes back later than this is taken for dead and started anew.
_ALIVE_MS: Final = 600_000
#: So often is no accident.
_OFTEN: Final = 3
#: How many silences are given as evidence.
_SILENCES_SHOWN: Final = 100


@dataclass(slots=True)
class _GivenUp:
    times: Times = field(default_factory=Times)
    count: int = 0
    limit_ms: int = 0
    #: For how long it had really been silent, whenever it came back.
    silences_ms: list[int] = field(default_factory=list)


class SessionTimeouts:
    """Members that were given up and were there again: how long a limit would have kept them.

    The memberships of one identity come together, after the rebalances.
    """

    def __init__(self) -> None:
        self._found: dict[str, _GivenUp] = {}
        self._latest = ""
        self._rebalances = 0
        self._stopped_ms: int | None = None
        self._of_silence = 0

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"rebalances": self._note_rebalance, "member_sessions": self._note_session}

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        self._forget_latest()
        for identity, it in self._found.items():
            silences_ms = sorted(it.silences_ms)
            count = len(silences_ms)
            # The shortest limit that four of five of those who came back would have kept within.
            typical_ms = silences_ms[-(-count * 4 // 5) - 1]
            longer = (ms for ms in _CHOICES_MS if ms > it.limit_ms and ms > typical_ms)
            proposal_ms = next(longer, None)
            if proposal_ms is not None:
                yield self._row(group, identity, it, silences_ms, proposal_ms)

    def _forget_latest(self) -> None:
        """Forget one that came back too seldom: a group may have had any number of such."""
        it = self._found.get(self._latest)
        if it is not None and len(it.silences_ms) < _OFTEN:
            del self._found[self._latest]

    def _note_rebalance(self, row: Row) -> None:
        self._rebalances += 1
        if row["root_cause"] == "session_expired":
            if row["stopped_partition_ms"] is not None:
                self._stopped_ms = (self._stopped_ms or 0) + row["stopped_partition_ms"]
            # Those that follow from one are part of what it cost.
            self._of_silence += row["root"] == row["rebalance"]

    def _note_session(self, row: Row) -> None:
        # Journals that were made of Kafka's logs may not know the timeout.
        is_known = row["silent_ms"] is not None and (row["session_timeout_ms"] or 0) > 0
        if row["ended"] != "session_expired" or not is_known:
            return
        if row["identity"] != self._latest:
            self._forget_latest()
            self._latest = row["identity"]
        it = self._found.setdefault(row["identity"], _GivenUp())
        it.count += 1
        it.limit_ms = max(it.limit_ms, row["session_timeout_ms"])
        it.times.note(row["ended_ms"], row["ended_ms"])
        back_ms = row["back_after_ms"]
        if back_ms is not None and back_ms <= _ALIVE_MS:
            it.silences_ms.append(row["silent_ms"] + back_ms)

    def _row(
        self, group: str, identity: str, it: _GivenUp, silences_ms: list[int], proposal_ms: int
    ) -> Row:
        left = it.count - sum(ms < proposal_ms for ms in silences_ms)
        median_ms = silences_ms[(len(silences_ms) - 1) // 2]
        # One rebalance may be of several that were given up at once.
        share = min((it.count - left) / max(self._of_silence, 1), 1)
        saves_ms = None if self._stopped_ms is None else int(self._stopped_ms * share)
        return advise(
            group,
            "session_timeout",
            "costly",
            f"{identity} was given up as silent {count_of(it.count, 'time', 'times')} and came "
            f"back, typically {seconds(max(median_ms - it.limit_ms, 0))} over its limit of "
            f"{seconds(it.limit_ms)}; the group had "
            f"{count_of(self._rebalances, 'rebalance', 'rebalances')} in all. With "
            f"session.timeout.ms={proposal_ms} it would have been given up "
            f"{count_of(left, 'time', 'times')}, but a dead member would be missed that much "
            "later.",
            {
                "times": it.count,
                "left": left,
                "limit_ms": it.limit_ms,
                "proposal_ms": proposal_ms,
                "silences_ms": ", ".join(map(str, silences_ms[:_SILENCES_SHOWN])),
            },
            it.times,
            about=identity,
            saves_partition_ms=saves_ms,
        )


class RebalanceTimeouts:
    """Members that lost their place because they did not join again in time."""

    def __init__(self) -> None:
        self._times = Times()
        self._count = 0
        self._members: set[str] = set()
        self._limit_ms = 0
        self._first: tuple[tuple[int, str], str] | None = None

    def takes(self) -> Mapping[str, Take]:
        """What takes in the rows of tables."""
        return {"member_sessions": self._note}

    def _note(self, row: Row) -> None:
        if row["ended"] not in ("rebalance_expired", "sync_expired"):
            return
        self._count += 1
        self._members.add(row["identity"])
        self._limit_ms = max(self._limit_ms, row["rebalance_timeout_ms"] or 0)
        self._times.note(row["ended_ms"], row["ended_ms"])
        order = row["ended_ms"], row["member"]
        if self._first is None or order < self._first[0]:
            self._first = order, row["identity"]

    def rows(self, group: str) -> Iterator[Row]:
        """What there is to say."""
        if self._first is None:
            return
        # Journals that were made of Kafka's logs may not know it.
        limit = seconds(self._limit_ms) if self._limit_ms else "its limit"
        yield advise(
            group,
            "rebalance_timeout",
            "costly",
            f"{count_of(self._count, 'time', 'times')} a member did not join again within {limit} "
            f"and lost its place, such as {self._first[1]}: let it finish a piece of work sooner, "
            "or raise max.poll.interval.ms (the rebalance timeout).",
            {
                "times": self._count,
                "members": len(self._members),
                "limit_ms": self._limit_ms or None,
            },
            self._times,
            about=self._first[1],
        )

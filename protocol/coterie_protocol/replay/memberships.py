"""Who was in the group from when to when, and members that keep coming back."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from coterie_protocol.replay.members import Members
from coterie_protocol.replay.order import Placed
from coterie_protocol.replay.spool import SortedSpool

__all__ = ["Memberships"]

_HOUR_MS: Final = 3_600_000
#: So many returns within an hour count as flapping.
_FLAPPING: Final = 3

#: The fields of a join that a static member keeps when it comes back.
_TOLD_BY_JOIN: Final = (
    "client_id",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "protocols",
    "topics",
)

#: How memberships end that no member ended by itself.
_CLOSINGS: Final = {
    "group_emptied": "emptied",
    "group_deleted": "deleted",
    "group_recovered": "lost",
}
_NOT_BY_ITSELF: Final = ("emptied", "deleted", "lost", "open")

Row = dict[str, Any]


class Memberships:
    """Follows a group's lines, and gives the rows of all memberships at the end."""

    def __init__(self, group: str, members: Members) -> None:
        self._group = group
        self._members = members
        #: The latest membership of each member, until its end.
        self._present: dict[str, Row] = {}
        #: Members that are gone, and have not come again.
        self._gone: set[str] = set()
        #: Members of whom no line has told since that all are gone, or who is there.
        self._unclosed: set[str] = set()
        #: What each instance last told as it joined.
        self._told: dict[str, Row] = {}
        self._identities = _Identities()
        self._ended = SortedSpool(key=_by_identity)

    def note(self, line: Placed) -> None:
        """Take in the next line."""
        match line.kind:
            case "member_joined" | "member_replaced":
                self._come(line)
            case "phase_joined":
                for member in sorted(phase["member"] for phase in line["members"]):
                    self._be_there(member, line)
            case "group_recovered":
                for member in sorted(line["members"]):
                    self._be_there(member, line)
        if line.kind in ("member_gone", "member_replaced"):
            self._go(line)
        if line.kind in _CLOSINGS:
            self._close(line)

    def rows(self) -> Iterator[Row]:
        """All of them; there are no more lines."""
        for row in self._present.values():
            self._ended.add(row)
        for _, of_identity in groupby(self._ended, key=lambda row: row["identity"]):
            yield from _with_returns(list(of_identity))

    # -- signs of members ----------------------------------------------------------------------

    def _come(self, line: Placed) -> None:
        member = line["member"]
        former = self._present.pop(member, None)
        if former is not None:
            former["ended_ms"], former["ended"] = line.at, "lost"
            self._identities.free(former)
            self._ended.add(former)
        began = "replaced" if line.kind == "member_replaced" else "joined"
        row = self._begin(member, line, began)
        row |= {"joined_ms": line.at, "join_reason": line["reason"]}

    def _be_there(self, member: str, line: Placed) -> None:
        if member not in self._present and member not in self._gone:
            self._begin(member, line, "known")

    def _go(self, line: Placed) -> None:
        member = line["former_member"] or line["member"]
        if member in self._gone:
            return
        self._be_there(member, line)
        row = self._present.pop(member)
        told_ms = line["session_timeout_ms"]
        row |= {
            "ended_ms": line.at,
            "ended": line["how"] or "replaced",
            "end_pos": line.pos,
            "silent_ms": line["silent_ms"],
            "leave_reason": line["reason"],
        }
        if row["session_timeout_ms"] is None:
            row["session_timeout_ms"] = told_ms
        self._identities.free(row)
        self._ended.add(row)
        self._gone.add(member)
        self._unclosed.discard(member)

    def _close(self, line: Placed) -> None:
        """A line that ends memberships without an end of their own."""
        staying = frozenset(line["members"] or ())
        for member in sorted(self._unclosed - staying):
            row = self._present[member]
            if row["first_pos"] < line.pos:
                row["ended_ms"], row["ended"] = line.at, _CLOSINGS[line.kind]
                self._identities.free(row)
                self._unclosed.remove(member)

    def _begin(self, member: str, line: Placed, began: str) -> Row:
        self._gone.discard(member)
        self._unclosed.add(member)
        instance = self._members.instances.get(member)
        host = self._members.hosts.get(member)
        told = self._tell(instance, line if began == "joined" else None)
        process = _process(told["client_id"], host)
        if instance is not None:
            identity = instance
        else:
            identity = member if process is None else self._identities.take(process, member)
        row = self._present[member] = {
            "group": self._group,
            "member": member,
            "instance": instance,
            "host": host,
            "identity": identity,
            "kind": "dynamic" if instance is None else "static",
            "joined_ms": None,
            "ended_ms": None,
            "began": began,
            "ended": "open",
            "silent_ms": None,
            "join_reason": None,
            "leave_reason": None,
            "first_pos": line.pos,
            "end_pos": None,
            **told,
        }
        return row

    def _tell(self, instance: str | None, join: Placed | None) -> Row:
        """What a member told as it joined; a static one inherits that from its earlier joins."""
        before = self._told.get(instance, {}) if instance is not None else {}
        told = {name: before.get(name) for name in _TOLD_BY_JOIN}
        if join is not None:
            told |= {name: join[name] for name in _TOLD_BY_JOIN if join[name] is not None}
        if instance is not None:
            self._told[instance] = told
        return dict(told)


class _Identities:
    """Tells processes of one client id and host apart: those that are members at one time.

    A member that comes is taken for the process of that name that went last.
    """

    def __init__(self) -> None:
        #: How many there are of each name.
        self._counts: dict[str, int] = {}
        #: The name of each, and the member that it is at the moment.
        self._taken: dict[str, tuple[str, str]] = {}
        #: Those that are no member at the moment, by their names, in the order in which they went.
        self._free: dict[str, list[str]] = {}

    def take(self, name: str, member: str) -> str:
        """The identity of a member that comes."""
        free = self._free.get(name)
        if free:
            identity = free.pop()
        else:
            count = self._counts[name] = self._counts.get(name, 0) + 1
            identity = name if count == 1 else f"{name}#{count}"
        self._taken[identity] = name, member
        return identity

    def free(self, row: Row) -> None:
        """Note that a membership is over."""
        identity = row["identity"]
        name, member = self._taken.get(identity, ("", None))
        if member == row["member"]:
            del self._taken[identity]
            self._free.setdefault(name, []).append(identity)


def _process(client_id: str | None, host: str | None) -> str | None:
    return None if client_id is None or host is None else f"{client_id}@{host}"


def _by_identity(row: Row) -> tuple[str, int, str]:
    return row["identity"], row["first_pos"], row["member"]


def _with_returns(rows: list[Row]) -> Iterator[Row]:
    """How often an identity had returned within the hour, and when it returned next."""
    ends = sorted(row["ended_ms"] for row in rows if _ended_by_itself(row))
    # In the order of the lines; of one line, the end comes before the beginning.
    begins = sorted(
        (row["first_pos"], row["joined_ms"]) for row in rows if row["joined_ms"] is not None
    )
    positions = [pos for pos, _ in begins]
    for row in rows:
        joined_ms = row["joined_ms"]
        returns, back_ms = 0, None
        if joined_ms is not None:
            returns = bisect_right(ends, joined_ms) - bisect_left(ends, joined_ms - _HOUR_MS)
            # A member that was turned away at once is not its own return.
            returns -= _ended_by_itself(row) and row["ended_ms"] == joined_ms
        if _ended_by_itself(row):
            index = bisect_left(positions, row["end_pos"])
            # Time never goes back, so the next one is the first one.
            back_ms = begins[index][1] if index < len(begins) else None
        yield {
            **row,
            "back_after_ms": None if back_ms is None else back_ms - row["ended_ms"],
            "returns": returns,
            "is_flapping": returns >= _FLAPPING,
        }


def _ended_by_itself(row: Row) -> bool:
    return row["ended"] not in _NOT_BY_ITSELF

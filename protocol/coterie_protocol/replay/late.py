"""The members that a rebalance waited for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie_protocol.replay.order import Placed

__all__ = ["late"]


def late(
    since_ms: int,
    phase_ms: int,
    awaited: Iterable[str],
    joined: Placed | None,
    others: Iterable[Placed],
) -> list[dict[str, Any]]:
    """The members that were awaited and did not join at once, the slowest first.

    They were awaited since the rebalance began; joins count from `phase_ms`, which is when the node
    was restarted, if it was.  `others` are the lines of the first phase about members that went,
    were replaced, or never claimed their ids.
    """
    names = set(awaited)
    lines = list(others)
    for line in lines:
        # A static member may have come back more than once.
        if line.kind == "member_replaced" and line["former_member"] in names:
            names.add(line["member"])
    found = _joined(since_ms, phase_ms, names, joined) if joined is not None else []
    for line in lines:
        after_ms = line.at - since_ms
        if line.kind == "member_gone" and line["member"] in names:
            found.append(
                _row(line["member"], line["instance"], line["host"], after_ms, line["how"])
            )
        elif line.kind == "id_unclaimed":
            found.append(_row(line["member"], None, "", after_ms, "unclaimed"))
    found.sort(key=_slowest_first)
    return found


def _joined(since_ms: int, phase_ms: int, names: set[str], joined: Placed) -> list[dict[str, Any]]:
    found = []
    for phase in joined["members"]:
        after_ms = phase.get("joined_after_ms")
        how = "away" if after_ms is None else "joined"
        waited_ms = joined.at - since_ms if after_ms is None else phase_ms - since_ms + after_ms
        if phase["member"] in names and (after_ms is None or waited_ms > 0):
            found.append(
                _row(phase["member"], phase.get("instance"), phase["host"], waited_ms, how)
            )
    return found


def _row(member: str, instance: str | None, host: str, after_ms: int, how: str) -> dict[str, Any]:
    return {
        "member": member, "instance": instance, "host": host, "after_ms": after_ms, "how": how,
    }  # fmt: skip


def _slowest_first(row: dict[str, Any]) -> tuple[int, str, bool, str, str, str]:
    instance = row["instance"]
    return (
        -row["after_ms"], row["member"], instance is not None, instance or "", row["host"],
        row["how"],
    )  # fmt: skip

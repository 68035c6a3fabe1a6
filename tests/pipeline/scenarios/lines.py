"""Scenarios about what lines are worth, in which order they go, and what they build of a group."""

from __future__ import annotations

import json
from typing import Final

from coterie_protocol.journal import GroupEmptied
from tests.pipeline.scenarios.writing import ScenarioList
from tests.support.scribe import BEGINNING_MS, Scribe

__all__ = ["scenario"]

scenario: Final = ScenarioList()

_HOUR_MS: Final = 3_600_000


# -- lines ----------------------------------------------------------------------------------------


@scenario
def killed() -> Scribe:
    """A node is killed while it writes, starts again, and stops in good order."""
    scribe = Scribe("killed")
    scribe.node_started(0)
    scribe.founded(10, a=[0])
    scribe.torn(900, GroupEmptied(group="killed", generation=9), 60)
    scribe.recovered(1000, a=[0])
    scribe.node_started(1000)
    scribe.node_stopped(2000)
    scribe.begin_file()
    scribe.node_started(3000)
    return scribe


@scenario
def torn_whole() -> Scribe:
    """All of a line was written but its line break, and so its number was used again."""
    scribe = Scribe("torn-whole")
    scribe.founded(0, a=[0])
    scribe.torn(900, GroupEmptied(group="torn-whole", generation=9), 10_000)
    scribe.recovered(1000, a=[0])
    return scribe


@scenario
def strange() -> Scribe:
    """Lines of other programs, of other versions, of an unknown kind, and of a wrong type."""
    scribe = Scribe("strange")
    scribe.founded(0, a=[0])
    envelope = {"v": 1, "ts": BEGINNING_MS + 50, "node": "strange", "group": "strange"}
    gone = {"member": "a", "instance": None, "host": "/a", "how": "left", "silent_ms": 0}
    lines = (
        "2026-11-20 12:00:00 INFO all is well",
        '{"message": "all is well"}',
        json.dumps({**envelope, "v": 2, "seq": 5, "kind": "group_emptied", "generation": 9}),
        json.dumps({**envelope, "seq": 6, "kind": "group_blessed"}),
        json.dumps({**envelope, "seq": 7, "kind": "group_emptied", "generation": "nine"}),
        json.dumps({**envelope, "seq": 8, "kind": "member_gone", **gone}),
        json.dumps({**envelope, "v": 0, "seq": 9, "kind": "group_emptied", "generation": 9}),
    )
    for line in lines:
        scribe.text(line)
    scribe.seq = 9
    scribe.joined(100, "b")
    return scribe


@scenario
def given_twice() -> Scribe:
    """A file is there as it is and packed."""
    scribe = Scribe("given-twice")
    scribe.founded(0, a=[0])
    scribe.committed(10, "a", p0=1)
    scribe.begin_file()
    scribe.committed(20, "a", p0=2)
    scribe.packed.add("journal-given-twice-0000000000000001.jsonl")
    return scribe


@scenario
def with_holes() -> Scribe:
    """The node dropped lines in two places."""
    scribe = Scribe("with-holes")
    scribe.founded(0, a=[0])
    scribe.seq += 2
    scribe.joined(100, "b")
    scribe.seq += 1
    scribe.joined(200, "c")
    return scribe


@scenario
def without_beginning() -> Scribe:
    """The oldest files were deleted: the journal begins in the midst of a rebalance."""
    scribe = Scribe("without-beginning", seq=500, generation=41)
    scribe.phase(1000, 300, {"a": (300, []), "b": (0, [])})
    scribe.completed(1010, {"a": [0], "b": [1]}, total_ms=310)
    scribe.started(2000, "admin", ["a", "b"], follows=42)
    scribe.phase(2100, 100, {"a": (100, []), "b": (100, [])})
    scribe.completed(2110, {"a": [0], "b": [1]})
    scribe.gone(3000, "a")
    return scribe


@scenario
def handed_over() -> Scribe:
    """Another node takes the group over, whose clock is 5 s behind; then the first one again."""
    first = Scribe("handed-over", "handed-over-1")
    first.founded(10_000, a=[0], b=[1])
    second = first.on("handed-over-2")
    second.recovered(6000, generation=1, a=[0], b=[1])
    second.gone(7000, "b")
    second.started(7000, "member_left", ["a"])
    second.phase(7100, 100, {"a": (100, [0])})
    second.completed(7110, {"a": [0, 1]})
    first.begin_file()
    first.recovered(14_000, generation=2, a=[0, 1])
    first.gone(15_000, "a")
    return first


@scenario
def set_back() -> Scribe:
    """A node's clock is set back twice."""
    scribe = Scribe("set-back-twice")
    for at in (5000, 4000, 9000, 3000, 3500):
        scribe.node_started(at)
    return scribe


# -- rebalances -----------------------------------------------------------------------------------


@scenario
def endings() -> Scribe:
    """Rebalances that end in every way."""
    scribe = Scribe("endings")
    scribe.founded(0, a=[0], b=[])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, []), "b": (100, [])})
    scribe.joined(1150, "c")
    scribe.started(1150, "member_joined", ["a", "b"], from_state="CompletingRebalance")
    scribe.begin_file()
    scribe.recovered(2000, "CompletingRebalance", a=[0], b=[])
    scribe.recovered(3000, "Stable", a=[0], b=[])
    scribe.gone(4000, "b")
    scribe.started(4000, "member_left", ["a"])
    scribe.gone(4500, "a")
    scribe.emptied(4500)
    scribe.joined(6000, "d")
    scribe.started(6000, "member_joined", from_state="Empty")
    return scribe


@scenario
def waiting() -> Scribe:
    """A rebalance that waits for members in all ways."""
    scribe = Scribe("waiting", instances={"s1": "s"})
    scribe.founded(0, a=[0], b=[], c=[], s1=[])
    scribe.started(1000, "admin", ["a", "b", "c", "s1"])
    scribe.replaced(1200, "s1", "s2")
    scribe.replaced(1300, "s2", "s3")
    scribe.unclaimed(1400, "nobody")
    scribe.gone(2000, "b", "rebalance_expired", silent_ms=900)
    scribe.phase(2100, 1100, {"a": (0, []), "c": (400, []), "s3": (500, [])}, ["b"])
    scribe.unclaimed(2105, "later")
    scribe.completed(2110, {"a": [0], "c": [], "s3": []})
    return scribe


# -- members --------------------------------------------------------------------------------------


@scenario
def flapping() -> Scribe:
    """One process comes and goes, every ten minutes, and once an hour later."""
    scribe = Scribe("flapping", instances={f"f{n}": "f" for n in range(6)})
    for number, minutes in enumerate((0, 10, 20, 30, 100)):
        at = minutes * 60_000
        scribe.joined(at, f"f{number}", "f")
        scribe.gone(at + 60_000, f"f{number}", "session_expired", silent_ms=10_000)
    return scribe


@scenario
def turned_away() -> Scribe:
    """A member is turned away in the moment in which it comes."""
    scribe = Scribe("turned-away")
    scribe.joined(0, "a")
    scribe.gone(0, "a", "turned_away")
    return scribe


# -- commits --------------------------------------------------------------------------------------


@scenario
def commits() -> Scribe:
    """Two members and a tool commit, back and forth and over an hour's end."""
    scribe = Scribe("commits", generation=1)
    scribe.committed(_HOUR_MS - 120_000, "a", p0=10, p1=5)
    scribe.committed(_HOUR_MS - 60_000, "a", p0=30)
    scribe.committed(_HOUR_MS - 1, "b", p0=20)
    scribe.committed(_HOUR_MS, "b", p0=18)
    scribe.committed(_HOUR_MS + 30_000, "", p0=40)
    return scribe


# -- hours ----------------------------------------------------------------------------------------


@scenario
def hours() -> Scribe:
    """A partition is owned over an hour's end, then has no owner over the next one's."""
    scribe = Scribe("hours")
    scribe.founded(_HOUR_MS - 1000, a=[0])
    scribe.started(2 * _HOUR_MS - 500, "admin", ["a"])
    scribe.phase(2 * _HOUR_MS - 400, 100, {"a": (100, [])})
    scribe.completed(2 * _HOUR_MS + 600, {"a": [0]})
    scribe.node_stopped(2 * _HOUR_MS + 600)
    return scribe

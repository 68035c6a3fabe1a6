"""Scenarios about what lines are worth, in which order they go, and what they build of a group."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from coterie_protocol.journal import ClockStepped, GroupEmptied, ShardGiven, ShardTaken
from coterie_protocol.shards import shard_of
from tests.pipeline.scenarios.writing import ScenarioList
from tests.support.journal_builder import BEGINNING_MS, JournalBuilder

__all__ = ["scenario"]

scenario: Final = ScenarioList()

_HOUR_MS: Final = 3_600_000


# -- lines ----------------------------------------------------------------------------------------


@scenario
def killed() -> JournalBuilder:
    """A node is killed while it writes, starts again, and stops in good order."""
    builder = JournalBuilder("killed")
    builder.node_started(0)
    builder.founded(10, a=[0])
    builder.torn(900, GroupEmptied(group="killed", generation=9), 60)
    builder.recovered(1000, a=[0])
    builder.node_started(1000)
    builder.node_stopped(2000)
    builder.begin_file()
    builder.node_started(3000)
    return builder


@scenario
def torn_whole() -> JournalBuilder:
    """All of a line was written but its line break, and so its number was used again."""
    builder = JournalBuilder("torn-whole")
    builder.founded(0, a=[0])
    builder.torn(900, GroupEmptied(group="torn-whole", generation=9), 10_000)
    builder.recovered(1000, a=[0])
    return builder


@scenario
def used_twice() -> JournalBuilder:
    """A number is used again, as by a second node of one name."""
    builder = JournalBuilder("used-twice")
    builder.founded(0, a=[0])
    builder.emptied(900)
    builder.seq -= 1
    builder.begin_file()
    builder.recovered(1000, a=[0])
    return builder


@scenario
def anew_with_nothing() -> JournalBuilder:
    """A node begins anew with an empty data directory, and its former journal is there, too."""
    builder = JournalBuilder("anew-with-nothing")
    builder.node_started(0)
    builder.founded(10, a=[0], b=[1])
    builder.committed(20, "a", p0=1)
    builder.begin_file()
    builder.joined(30, "c")
    builder.begin_file()
    for at in range(40, 60):
        builder.committed(at, "a", p0=at)
    builder.emptied(100)
    builder.begin_anew("anew-with-nothing")
    builder.node_started(1000)
    builder.founded(2000, d=[0], e=[1])
    builder.committed(3000, "d", p0=5)
    builder.begin_file()
    builder.committed(3010, "d", p0=6)
    return builder


@scenario
def strange() -> JournalBuilder:
    """Lines of other programs, of other versions, of an unknown kind, and of a wrong type."""
    builder = JournalBuilder("strange")
    builder.founded(0, a=[0])
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
        builder.text(line)
    builder.seq = 9
    builder.joined(100, "b")
    return builder


@scenario
def given_twice() -> JournalBuilder:
    """A file is there as it is and packed."""
    builder = JournalBuilder("given-twice")
    builder.founded(0, a=[0])
    builder.committed(10, "a", p0=1)
    builder.begin_file()
    builder.committed(20, "a", p0=2)
    builder.packed.add("journal-given-twice-0000000000000001.jsonl")
    return builder


@scenario
def with_holes() -> JournalBuilder:
    """The node dropped lines in two places."""
    builder = JournalBuilder("with-holes")
    builder.founded(0, a=[0])
    builder.seq += 2
    builder.joined(100, "b")
    builder.seq += 1
    builder.joined(200, "c")
    return builder


@scenario
def without_beginning() -> JournalBuilder:
    """The oldest files were deleted: the journal begins in the midst of a rebalance."""
    builder = JournalBuilder("without-beginning", seq=500, generation=41)
    builder.phase(1000, 300, {"a": (300, []), "b": (0, [])})
    builder.completed(1010, {"a": [0], "b": [1]}, total_ms=310)
    builder.started(2000, "admin", ["a", "b"], follows=42)
    builder.phase(2100, 100, {"a": (100, []), "b": (100, [])})
    builder.completed(2110, {"a": [0], "b": [1]})
    builder.gone(3000, "a")
    return builder


@scenario
def handed_over() -> JournalBuilder:
    """Another node takes the group over, whose clock is 5 s behind; then the first one again."""
    first = JournalBuilder("handed-over", "handed-over-1")
    first.line(9000, ShardTaken(shard=3, epoch="7", former_owner="", how="free"))
    first.founded(10_000, a=[0], b=[1])
    first.line(10_900, ShardGiven(shard=3, epoch="7", how="handed_over"))
    second = first.on("handed-over-2")
    taken = ShardTaken(shard=3, epoch="8", former_owner="handed-over-1", how="handed_over")
    second.line(5990, taken)
    second.recovered(6000, generation=1, a=[0], b=[1])
    second.gone(7000, "b")
    second.started(7000, "member_left", ["a"])
    second.phase(7100, 100, {"a": (100, [0])})
    second.completed(7110, {"a": [0, 1]})
    second.line(8000, ShardGiven(shard=3, epoch="8", how="lost"))
    first.begin_file()
    first.line(13_990, replace(taken, epoch="9", former_owner="handed-over-2", how="expired"))
    first.recovered(14_000, generation=2, a=[0, 1])
    first.gone(15_000, "a")
    return first


@scenario
def taken_over_as_a_topic_went() -> JournalBuilder:
    """Two nodes tell that offsets went with their topic before they tell that they have the group.

    The second one has had it before, so that the line stands among those of that time.
    """
    first = JournalBuilder("forgetful", "forgetful-1")
    first.founded(1000, a=[0], b=[1])
    second = first.on("forgetful-2")
    second.forgotten(60_000, 1)
    second.recovered(60_000, generation=1, fence=2, a=[0], b=[1])
    second.gone(70_000, "b")
    second.started(70_000, "member_left", ["a"])
    second.phase(70_100, 100, {"a": (100, [0])})
    second.completed(70_110, {"a": [0, 1]})
    first.begin_file()
    first.forgotten(120_000, 0)
    first.recovered(120_000, generation=2, fence=3, a=[0, 1])
    first.gone(130_000, "a")
    return first


@scenario
def deleted_and_used_elsewhere() -> JournalBuilder:
    """A group is deleted on one node and used again on others, where nothing is left to be read.

    The second life is told of in the generation of the deletion, the third one too: in that, the
    first phase is all that comes before its node is killed.
    """
    first = JournalBuilder("anew", "anew-1")
    first.founded(1000, a=[0])
    first.gone(2000, "a")
    first.emptied(2000)
    second = first.on("anew-2")
    second.recovered(3000, "Empty", fence=2)
    third = second.on("anew-3")
    third.recovered(4000, "Empty", fence=3)
    third.deleted(5000)
    # Its clock is behind, and it was killed.
    first.begin_file()
    first.joined(4500, "b")
    first.started(4500, "member_joined", from_state="Empty")
    second.begin_file()
    second.joined(8000, "c")
    second.started(8000, "member_joined", from_state="Empty")
    second.phase(8000, 0, {"c": (0, [])})
    second.completed(9000, {"c": [0]})
    return first


@scenario
def set_back() -> JournalBuilder:
    """A node's clock is set back twice."""
    builder = JournalBuilder("set-back-twice")
    for at in (5000, 4000, 9000, 3000, 3500):
        builder.node_started(at)
    return builder


@scenario
def set_while_running() -> JournalBuilder:
    """A running node's clock is set back and forward; its dates go on at half speed."""
    builder = JournalBuilder("set-while-running")
    builder.node_started(1000)
    builder.line(5000, ClockStepped(stepped_ms=-29_999))
    builder.line(5500, ClockStepped(stepped_ms=-2000))
    builder.line(95_500, ClockStepped(stepped_ms=60_000))
    return builder


# -- rebalances -----------------------------------------------------------------------------------


@scenario
def endings() -> JournalBuilder:
    """Rebalances that end in every way."""
    builder = JournalBuilder("endings")
    builder.founded(0, a=[0], b=[])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1100, 100, {"a": (100, []), "b": (100, [])})
    builder.joined(1150, "c")
    builder.started(1150, "member_joined", ["a", "b"], from_state="CompletingRebalance")
    builder.begin_file()
    builder.recovered(2000, "CompletingRebalance", a=[0], b=[])
    builder.recovered(3000, "Stable", a=[0], b=[])
    builder.gone(4000, "b")
    builder.started(4000, "member_left", ["a"])
    builder.gone(4500, "a")
    builder.emptied(4500)
    builder.joined(6000, "d")
    builder.started(6000, "member_joined", from_state="Empty")
    return builder


@scenario
def waiting() -> JournalBuilder:
    """A rebalance that waits for members in all ways."""
    builder = JournalBuilder("waiting", instances={"s1": "s"})
    builder.founded(0, a=[0], b=[], c=[], s1=[])
    builder.started(1000, "admin", ["a", "b", "c", "s1"])
    builder.replaced(1200, "s1", "s2")
    builder.replaced(1300, "s2", "s3")
    builder.unclaimed(1400, "nobody")
    builder.gone(2000, "b", "rebalance_expired", silent_ms=900)
    builder.phase(2100, 1100, {"a": (0, []), "c": (400, []), "s3": (500, [])}, ["b"])
    builder.unclaimed(2105, "later")
    builder.completed(2110, {"a": [0], "c": [], "s3": []})
    return builder


@scenario
def hung() -> JournalBuilder:
    """A leader never brings its assignment, while the node goes on with other groups."""
    builder = JournalBuilder("hung")
    builder.founded(0, a=[0], b=[1])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1500, 500, {"a": (100, []), "b": (500, [])})
    other = JournalBuilder("working", node="hung", files=builder.files, seq=builder.seq)
    other.founded(2000, c=[0])
    for minutes in range(1, 60):
        other.committed(minutes * 60_000, "c", p0=minutes)
    return builder


@scenario
def hung_and_handed_over() -> JournalBuilder:
    """A node gives a group away while that rebalances, and goes on with other groups."""
    builder = JournalBuilder("hung-and-handed-over")
    builder.founded(0, a=[0], b=[1])
    builder.gone(1000, "b")
    builder.started(1000, "member_left", ["a"])
    mine = shard_of(builder.group, 7)
    for at, shard in ((1050, (mine + 1) % 7), (1090, mine)):
        builder.line(at, ShardGiven(shard=shard, epoch="7", how="handed_over", shards=7))
    other = JournalBuilder(
        "working-on", node="hung-and-handed-over", files=builder.files, seq=builder.seq
    )
    other.founded(2000, c=[0])
    for minutes in range(1, 60):
        other.committed(minutes * 60_000, "c", p0=minutes)
    return builder


# -- members --------------------------------------------------------------------------------------


@scenario
def flapping() -> JournalBuilder:
    """One process comes and goes, every ten minutes, and once an hour later."""
    builder = JournalBuilder("flapping", instances={f"f{n}": "f" for n in range(6)})
    for number, minutes in enumerate((0, 10, 20, 30, 100)):
        at = minutes * 60_000
        builder.joined(at, f"f{number}", "f")
        builder.gone(at + 60_000, f"f{number}", "session_expired", silent_ms=10_000)
    return builder


@scenario
def turned_away() -> JournalBuilder:
    """A member is turned away in the moment in which it comes."""
    builder = JournalBuilder("turned-away")
    builder.joined(0, "a")
    builder.gone(0, "a", "turned_away")
    return builder


# -- commits --------------------------------------------------------------------------------------


@scenario
def commits() -> JournalBuilder:
    """Two members and a tool commit, back and forth and over an hour's end."""
    builder = JournalBuilder("commits", generation=1)
    builder.committed(_HOUR_MS - 120_000, "a", p0=10, p1=5)
    builder.committed(_HOUR_MS - 60_000, "a", p0=30)
    builder.committed(_HOUR_MS - 1, "b", p0=20)
    builder.committed(_HOUR_MS, "b", p0=18)
    builder.committed(_HOUR_MS + 30_000, "", p0=40)
    return builder


@scenario
def commits_of_nodes_that_disagree() -> JournalBuilder:
    """Offsets only grow, while the group goes to a node whose clock is behind, and back."""
    first = JournalBuilder("skewed", "skewed-1")
    first.committed(5000, "", p0=1)
    first.founded(10_000, a=[0])
    for number in range(3):
        first.committed(20_000 + 1000 * number, "a", p0=10 + number)
    second = first.on("skewed-2")
    second.recovered(18_000, fence=2, generation=1, a=[0])
    for number in range(3):
        second.committed(19_000 + 1000 * number, "a", p0=20 + number)
    first.begin_file()
    first.recovered(30_000, fence=3, a=[0])
    first.committed(31_000, "a", p0=30)
    return first


@scenario
def commits_after_a_clock_was_set_back() -> JournalBuilder:
    """Offsets only grow, and the clock is set back while the node is down."""
    builder = JournalBuilder("back")
    builder.founded(0, a=[0])
    builder.committed(100_000, "a", p0=10)
    builder.committed(101_000, "a", p0=11)
    builder.begin_file()
    builder.recovered(50_000, fence=2, a=[0])
    builder.committed(51_000, "a", p0=12)
    builder.committed(102_000, "a", p0=13)
    return builder


@scenario
def commits_after_a_deletion() -> JournalBuilder:
    """Nobody tells who has a group of offsets alone: dates order what nodes write of it."""
    first = JournalBuilder("offsets-alone", "offsets-alone-1")
    first.founded(0, a=[0])
    first.committed(1000, "a", p0=5)
    first.gone(2000, "a")
    first.emptied(2000)
    first.deleted(3000)
    second = first.on("offsets-alone-2")
    second.committed(4000, "", p0=1)
    first.committed(5000, "", p0=2)
    second.committed(6000, "", p0=3)
    second.joined(7000, "b")
    second.started(7000, "member_joined", from_state="Empty")
    second.committed(8000, "", p0=4)
    return first


# -- hours ----------------------------------------------------------------------------------------


@scenario
def hours() -> JournalBuilder:
    """A partition is owned over an hour's end, then has no owner over the next one's."""
    builder = JournalBuilder("hours")
    builder.founded(_HOUR_MS - 1000, a=[0])
    builder.started(2 * _HOUR_MS - 500, "admin", ["a"])
    builder.phase(2 * _HOUR_MS - 400, 100, {"a": (100, [])})
    builder.completed(2 * _HOUR_MS + 600, {"a": [0]})
    builder.node_stopped(2 * _HOUR_MS + 600)
    return builder

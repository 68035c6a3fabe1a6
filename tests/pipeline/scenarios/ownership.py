"""Scenarios about who owned what, twice or not at all."""

from __future__ import annotations

from typing import Final

from coterie_protocol.journal import ClockStepped, MemberAway, MemberReturned
from tests.pipeline.scenarios.writing import ScenarioList
from tests.support.journal_builder import AWAY, JournalBuilder

__all__ = ["scenario"]

scenario: Final = ScenarioList()


# -- two owners -----------------------------------------------------------------------------------


@scenario
def assigned_twice() -> JournalBuilder:
    """The leader gives a partition to two members."""
    builder = JournalBuilder("assigned-twice")
    builder.founded(10, a=[0, 1], b=[1])
    builder.gone(1000, "b")
    builder.started(1000, "member_left", ["a"])
    builder.phase(1050, 50, {"a": (50, [0, 1])})
    builder.completed(1060, {"a": [0, 1]})
    return builder


@scenario
def three_owners() -> JournalBuilder:
    """The leader gives a partition to three members."""
    builder = JournalBuilder("three-owners")
    builder.founded(0, a=[0], b=[0], c=[0])
    builder.joined(1000, "d")
    return builder


@scenario
def taken_while_held() -> JournalBuilder:
    """A cooperative leader gives a partition away at once, while its owner still works on it."""
    builder = JournalBuilder("taken-while-held")
    builder.founded(0, a=[0, 1])
    builder.joined(2000, "b")
    builder.started(2000, "member_joined", ["a"])
    builder.phase(2100, 100, {"a": (100, [0, 1]), "b": (0, [])})
    builder.completed(2110, {"a": [0], "b": [1]}, needs_rejoin=True)
    builder.started(2200, "revocation_follow_up", ["a", "b"], follows=2)
    builder.phase(2300, 100, {"a": (40, [0]), "b": (100, [1])})
    builder.completed(2310, {"a": [0], "b": [1]})
    return builder


@scenario
def held_on() -> JournalBuilder:
    """An owner says again and again that it has what was given to another one."""
    builder = JournalBuilder("held-on")
    builder.founded(0, a=[0], b=[])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1100, 100, {"a": (100, [0]), "b": (100, [])})
    builder.completed(1110, {"a": [], "b": [0]}, needs_rejoin=True)
    builder.started(2000, "revocation_follow_up", ["a", "b"], follows=2)
    builder.phase(2100, 100, {"a": (50, [0]), "b": (100, [0])})
    builder.completed(2110, {"a": [], "b": [0]}, needs_rejoin=True)
    builder.started(3000, "revocation_follow_up", ["a", "b"], follows=3)
    builder.phase(3100, 100, {"a": (50, []), "b": (100, [0])})
    builder.completed(3110, {"a": [], "b": [0]})
    return builder


@scenario
def removed_alive() -> JournalBuilder:
    """An administrator removes a static member that had been heard of 200 ms ago."""
    builder = JournalBuilder("removed-alive", instances={"a": "i"})
    builder.founded(0, a=[0], b=[])
    builder.gone(1000, "a", "removed", silent_ms=200)
    builder.started(1000, "member_removed", ["b"])
    builder.phase(1100, 100, {"b": (100, [])})
    builder.completed(1110, {"b": [0]})
    builder.joined(20_000, "z")
    return builder


@scenario
def claimed() -> JournalBuilder:
    """A member says as it joins that it owns what it was not given, and what another one owns."""
    builder = JournalBuilder("claimed")
    builder.founded(0, a=[0], b=[])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1100, 100, {"a": (100, [0]), "b": (30, [0, 1])})
    builder.completed(1110, {"a": [0], "b": [1]})
    return builder


# -- static members -------------------------------------------------------------------------------


@scenario
def replaced() -> JournalBuilder:
    """A static member comes back twice, and its first process learns late that it is out."""
    builder = JournalBuilder("replaced", instances={"a1": "i"})
    builder.founded(0, a1=[0])
    builder.replaced(1000, "a1", "a2")
    builder.fenced(1300, "a1", "a2")
    builder.fenced(1400, "a1", "a2")
    builder.replaced(2000, "a2", "a3")
    builder.started(3000, "admin", ["a3"])
    builder.phase(3100, 100, {"a3": (100, [0])})
    builder.completed(3110, {"a3": [0]})
    return builder


@scenario
def away() -> JournalBuilder:
    """A static member does not come to a rebalance and keeps what it has."""
    builder = JournalBuilder("away", instances={"a": "i"})
    builder.founded(0, a=[0], b=[1])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1500, 500, {"a": AWAY, "b": (20, [])})
    builder.completed(1510, {"a": [0], "b": [1]})
    return builder


@scenario
def away_for_too_long() -> JournalBuilder:
    """A static member is away for longer than its session, is back, and then stays away."""
    builder = JournalBuilder("away-for-too-long", instances={"a": "i"})
    builder.founded(0, a=[0], b=[1])
    for at in (10_000, 40_000):
        builder.line(
            at,
            MemberAway(
                group="away-for-too-long",
                member="a",
                instance="i",
                host="/h",
                silent_ms=10_000,
                session_timeout_ms=10_000,
                registration_timeout_ms=60_000,
                until=at + 50_000,
                owned={builder.topic: (0,)},
            ),
        )
        if at == 10_000:
            back = MemberReturned(
                group="away-for-too-long", member="a", instance="i", host="/h", away_ms=15_000
            )
            builder.line(25_000, back)
    builder.gone(90_000, "a", "registration_expired", silent_ms=60_000)
    builder.started(90_000, "registration_expired", ["b"])
    builder.phase(90_400, 400, {"b": (400, [1])})
    builder.completed(90_500, {"b": [0, 1]})
    return builder


# -- none -----------------------------------------------------------------------------------------


@scenario
def eager() -> JournalBuilder:
    """Two members of an eager assignor rebalance."""
    builder = JournalBuilder("eager")
    builder.founded(0, a=[0], b=[1])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1100, 100, {"a": (100, []), "b": (20, [])})
    builder.completed(1120, {"a": [0], "b": [1]})
    return builder


@scenario
def dead() -> JournalBuilder:
    """A member dies, and the other one gets its partition."""
    builder = JournalBuilder("dead")
    builder.founded(0, a=[0], b=[1])
    builder.gone(12_000, "a", "session_expired", silent_ms=10_100)
    builder.started(12_000, "session_expired", ["b"])
    builder.phase(12_400, 400, {"b": (400, [1])})
    builder.completed(12_500, {"b": [0, 1]})
    return builder


@scenario
def dead_since_it_joined() -> JournalBuilder:
    """A member dies before it receives its assignment, and is given up when its session ends."""
    builder = JournalBuilder("dead-since-it-joined")
    builder.founded(0, a=[0, 1])
    builder.joined(2000, "b")
    builder.started(2000, "member_joined", ["a"])
    builder.phase(2100, 100, {"a": (100, [0]), "b": (10, [])})
    builder.completed(2110, {"a": [0], "b": [1]})
    builder.gone(12_010, "b", "session_expired", silent_ms=10_000)
    builder.started(12_010, "session_expired", ["a"])
    builder.phase(12_400, 390, {"a": (390, [0])})
    builder.completed(12_500, {"a": [0, 1]})
    return builder


@scenario
def dead_and_empty() -> JournalBuilder:
    """The only member dies, and another one comes to the empty group."""
    builder = JournalBuilder("dead-and-empty")
    builder.founded(0, a=[0])
    builder.gone(12_000, "a", "session_expired", silent_ms=10_100)
    builder.emptied(12_000)
    builder.founded(20_000, b=[0])
    return builder


@scenario
def one_host() -> JournalBuilder:
    """Members with their client's name for themselves come and go on one host."""
    builder = JournalBuilder("one-host", hosts=dict.fromkeys(("c-1", "c-2", "c-3", "c-4"), "/h"))
    builder.joined(0, "c-1")
    builder.joined(0, "c-2")
    builder.gone(1000, "c-1")
    builder.joined(1500, "c-3")
    builder.joined(2000, "c-4")
    return builder


@scenario
def unended() -> JournalBuilder:
    """The journal ends in a rebalance."""
    builder = JournalBuilder("unended")
    builder.founded(0, a=[0], b=[1])
    builder.gone(1000, "a")
    builder.started(1000, "member_left", ["b"])
    builder.joined(3000, "c")
    return builder


@scenario
def nobodys() -> JournalBuilder:
    """Partitions that were let go of get no new owner, on purpose."""
    builder = JournalBuilder("nobodys")
    builder.founded(0, a=[0, 1])
    builder.started(1000, "subscription_changed", ["a"])
    builder.phase(1100, 100, {"a": (60, [])})
    builder.completed(1110, {"a": [0]})
    builder.started(5000, "subscription_changed", ["a"])
    builder.phase(5100, 100, {"a": (60, [])})
    builder.completed(5110, {"a": [0, 1]})
    return builder


@scenario
def two_steps() -> JournalBuilder:
    """A cooperative assignor takes a partition, and gives it away in a second rebalance."""
    builder = JournalBuilder("two-steps")
    builder.founded(0, a=[0, 1])
    builder.joined(1000, "b")
    builder.started(1000, "member_joined", ["a"])
    builder.phase(1100, 100, {"a": (100, [0, 1]), "b": (0, [])})
    builder.completed(1110, {"a": [0], "b": []}, needs_rejoin=True)
    builder.started(1200, "revocation_follow_up", ["a", "b"], follows=2)
    builder.phase(1300, 100, {"a": (50, [0]), "b": (100, [])})
    builder.completed(1310, {"a": [0], "b": [1]})
    return builder


@scenario
def topic_deleted() -> JournalBuilder:
    """A topic is deleted while its partitions have no owner."""
    builder = JournalBuilder("topic-deleted")
    builder.topic_changed(0, "created", 0, 2)
    builder.founded(0, a=[0, 1])
    builder.started(1000, "admin", ["a"])
    builder.topic_changed(1080, "deleted", 2, 0)
    builder.phase(1100, 100, {"a": (60, [])})
    builder.completed(1110, {"a": []})
    return builder


@scenario
def topic_deleted_first() -> JournalBuilder:
    """A topic is deleted, and then the group lets go of it."""
    builder = JournalBuilder("topic-deleted-first")
    builder.founded(0, a=[0, 1])
    builder.topic_changed(1000, "deleted", 2, 0)
    builder.started(1000, "topic_changed", ["a"])
    builder.phase(1100, 100, {"a": (60, [])})
    builder.completed(1110, {"a": []})
    return builder


@scenario
def topic_deleted_before_it_was_claimed() -> JournalBuilder:
    """A static member that missed two assignments has what was deleted meanwhile."""
    builder = JournalBuilder("topic-deleted-before-claim")
    builder.founded(0, a=[0, 1])
    builder.topic_changed(500, "deleted", 2, 0)
    for at in (1000, 2000):
        builder.started(at, "topic_changed", ["a"])
        builder.phase(at + 100, 100, {"a": None})
        builder.completed(at + 110, {"a": []})
    builder.started(3000, "revocation_follow_up", ["a"])
    builder.phase(3100, 100, {"a": (0, [0, 1])})
    builder.completed(3110, {"a": []})
    builder.started(9000, "admin", ["a"])
    builder.phase(9100, 100, {"a": (0, [])})
    builder.completed(9110, {"a": []})
    return builder


@scenario
def topic_deleted_by_a_clock_ahead() -> JournalBuilder:
    """A topic is deleted by a node whose clock is 5 s ahead of that of the group's node."""
    return _deleted_elsewhere("deleted-ahead", 6000)


@scenario
def topic_deleted_by_a_clock_behind() -> JournalBuilder:
    """A topic is deleted by a node whose clock is 5 s behind."""
    return _deleted_elsewhere("deleted-behind", -4000)


def _deleted_elsewhere(group: str, deleted_at: int) -> JournalBuilder:
    builder = JournalBuilder(group)
    builder.founded(0, a=[0, 1])
    builder.started(1000, "topic_changed", ["a"], detail=f"{group} deleted")
    builder.phase(1100, 100, {"a": (60, [])})
    builder.completed(1110, {"a": []})
    builder.gone(9000, "a")
    builder.on(f"{group}-catalogue").topic_changed(deleted_at, "deleted", 2, 0)
    return builder


@scenario
def topic_made_anew() -> JournalBuilder:
    """A topic is deleted and made anew, and the group takes its time."""
    builder = JournalBuilder("topic-made-anew")
    builder.founded(0, a=[0, 1])
    builder.topic_changed(1000, "deleted", 2, 0)
    builder.topic_changed(1010, "created", 0, 1)
    builder.started(1010, "topic_changed", ["a"])
    builder.phase(9000, 7990, {"a": (10, [])})
    builder.completed(9010, {"a": [0]})
    return builder


@scenario
def topic_made_anew_and_kept() -> JournalBuilder:
    """A topic is made anew, its owner goes on with it, and later lets go of it."""
    builder = JournalBuilder("topic-made-anew-and-kept")
    builder.founded(0, a=[0])
    builder.topic_changed(1000, "deleted", 1, 0)
    builder.topic_changed(1010, "created", 0, 1)
    builder.started(1010, "topic_changed", ["a"])
    builder.phase(1100, 90, {"a": (90, [0])})
    builder.completed(1110, {"a": [0]})
    builder.started(5000, "admin", ["a"])
    builder.phase(5100, 100, {"a": (50, [])})
    builder.completed(5110, {"a": [0]})
    return builder


# -- nodes and time -------------------------------------------------------------------------------


@scenario
def restarted() -> JournalBuilder:
    """The node restarts; of two members only one is read back with what it had."""
    builder = JournalBuilder("restarted")
    builder.node_started(0)
    builder.founded(0, a=[0], b=[1])
    builder.begin_file()
    builder.recovered(5000, a=[0], b=[])
    builder.node_started(5000)
    builder.joined(6000, "c")
    return builder


@scenario
def lost_generations() -> JournalBuilder:
    """A killed node had not written down its last generations."""
    builder = JournalBuilder("lost-generations")
    builder.founded(0, a=[0], b=[1])
    builder.begin_file()
    builder.recovered(5000, generation=7, b=[0], c=[1])
    builder.node_started(5000)
    builder.gone(6000, "c")
    builder.started(6000, "member_left", ["b"])
    return builder


@scenario
def restarted_in_a_phase() -> JournalBuilder:
    """The node restarts while members are awaited, and waits for them anew."""
    builder = JournalBuilder("restarted-in-a-phase")
    builder.founded(0, a=[0], b=[1])
    builder.started(1000, "admin", ["a", "b"])
    builder.begin_file()
    builder.recovered(5000, "PreparingRebalance", a=[0], b=[1])
    builder.node_started(5000)
    builder.phase(5300, 300, {"a": (300, []), "b": (100, [])})
    builder.completed(5310, {"a": [0], "b": [1]})
    return builder


@scenario
def gone_before_a_restart() -> JournalBuilder:
    """A member dies, and the node is killed while the other one is awaited."""
    builder = JournalBuilder("gone-before-a-restart")
    builder.founded(0, a=[0, 1], b=[2])
    builder.gone(1000, "a", "session_expired", silent_ms=900)
    builder.started(1000, "session_expired", ["b"])
    builder.begin_file()
    builder.recovered(5000, "PreparingRebalance", b=[2])
    builder.node_started(5000)
    builder.phase(9000, 4000, {"b": (4000, [2])})
    builder.completed(9010, {"b": [0, 1, 2]})
    return builder


@scenario
def forgotten_by_a_restart() -> JournalBuilder:
    """A member comes and another one goes, and the node is killed before the generation begins."""
    builder = JournalBuilder("forgotten-by-a-restart")
    builder.founded(0, a=[0], b=[1])
    builder.joined(1000, "c1")
    builder.started(1000, "member_joined", ["a", "b"])
    builder.gone(2000, "b")
    builder.begin_file()
    builder.recovered(5000, "PreparingRebalance", a=[0])
    builder.node_started(5000)
    builder.joined(6000, "c2")
    builder.phase(7000, 2000, {"a": (2000, [0]), "c2": (1000, [])})
    builder.completed(7010, {"a": [0], "c2": [1]})
    return builder


@scenario
def restarted_between_rounds() -> JournalBuilder:
    """A member has given up a partition, and the node is killed before another one gets it."""
    return _between_rounds("restarted-between-rounds", needs_rejoin=True)


@scenario
def restarted_between_unasked_rounds() -> JournalBuilder:
    """So it is with a leader that asks nobody to join once more, as stock clients' never do."""
    return _between_rounds("restarted-between-unasked-rounds", needs_rejoin=False)


def _between_rounds(name: str, *, needs_rejoin: bool) -> JournalBuilder:
    builder = JournalBuilder(name)
    builder.founded(0, a=[0, 1])
    builder.joined(1000, "b")
    builder.started(1000, "member_joined", ["a"])
    builder.phase(1100, 100, {"a": (100, [0, 1]), "b": (0, [])})
    builder.completed(1110, {"a": [0], "b": []}, needs_rejoin=needs_rejoin)
    builder.begin_file()
    builder.recovered(5000, a=[0], b=[])
    builder.node_started(5000)
    builder.started(6000, "revocation_follow_up", ["a", "b"], follows=2)
    builder.phase(6100, 100, {"a": (0, [0]), "b": (100, [])})
    builder.completed(6110, {"a": [0], "b": [1]})
    return builder


@scenario
def restarted_with_less_to_do() -> JournalBuilder:
    """An eager leader leaves a partition out for good, and gives it to another one later."""
    builder = JournalBuilder("restarted-with-less-to-do")
    builder.founded(0, a=[0, 1])
    builder.joined(1000, "b")
    builder.started(1000, "member_joined", ["a"])
    builder.phase(1100, 100, {"a": (100, []), "b": (0, [])})
    builder.completed(1110, {"a": [0], "b": []})
    builder.begin_file()
    builder.recovered(5000, a=[0], b=[])
    builder.node_started(5000)
    builder.started(6000, "admin", ["a", "b"])
    builder.phase(6100, 100, {"a": (0, []), "b": (100, [])})
    builder.completed(6110, {"a": [0], "b": [1]})
    return builder


@scenario
def restarted_before_three_rounds() -> JournalBuilder:
    """The node is killed, and what a member has given up reaches another one in two steps."""
    builder = JournalBuilder("restarted-before-three-rounds")
    builder.founded(0, a=[0, 1])
    builder.joined(1000, "b")
    builder.started(1000, "member_joined", ["a"])
    builder.phase(1100, 100, {"a": (100, [0, 1]), "b": (0, [])})
    builder.completed(1110, {"a": [], "b": []}, needs_rejoin=True)
    builder.begin_file()
    builder.recovered(5000, a=[], b=[])
    builder.node_started(5000)
    builder.started(6000, "revocation_follow_up", ["a", "b"], follows=2)
    builder.phase(6100, 100, {"a": (0, []), "b": (100, [])})
    builder.completed(6110, {"a": [], "b": [0]}, needs_rejoin=True)
    builder.started(7000, "revocation_follow_up", ["a", "b"], follows=3)
    builder.phase(7100, 100, {"a": (0, []), "b": (100, [0])})
    builder.completed(7110, {"a": [], "b": [0, 1]})
    return builder


@scenario
def restarted_in_a_second_phase() -> JournalBuilder:
    """Eager members have joined without what they had, and the node is killed before the end."""
    builder = JournalBuilder("restarted-in-a-second-phase")
    builder.founded(0, a=[0], b=[1])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1100, 100, {"a": (100, []), "b": (20, [])})
    builder.begin_file()
    builder.recovered(5000, "CompletingRebalance", a=[0], b=[1])
    builder.node_started(5000)
    builder.completed(5010, {"a": [0], "b": [1]})
    return builder


@scenario
def lost_before_a_restart() -> JournalBuilder:
    """A member goes, and the node is killed before it has written down that a rebalance begins."""
    builder = JournalBuilder("lost-before-a-restart")
    builder.founded(0, a=[0], b=[1])
    builder.begin_file()
    builder.recovered(5000, "PreparingRebalance", b=[1])
    builder.node_started(5000)
    builder.phase(6000, 1000, {"b": (1000, [1])})
    builder.completed(6010, {"b": [0, 1]})
    return builder


@scenario
def set_back() -> JournalBuilder:
    """The node's clock is set back by a minute in the midst of it."""
    builder = JournalBuilder("set-back")
    builder.founded(60_000, a=[0], b=[1])
    builder.started(500, "admin", ["a", "b"])
    builder.phase(530, 30, {"a": (30, [0]), "b": (30, [])})
    builder.completed(540, {"a": [0], "b": [1]})
    builder.gone(70_000, "b")
    builder.started(70_000, "member_left", ["a"])
    builder.phase(70_100, 100, {"a": (100, [0])})
    builder.completed(70_110, {"a": [0, 1]})
    return builder


@scenario
def clock_set() -> JournalBuilder:
    """A clock is set forward within a rebalance of two seconds, and back before one of one."""
    builder = JournalBuilder("clock-set")
    builder.founded(0, a=[0], b=[1])
    builder.gone(1000, "a")
    builder.started(1000, "member_left", ["b"])
    builder.line(61_500, ClockStepped(stepped_ms=60_000))
    builder.phase(63_000, 2000, {"b": (200, [])})
    builder.completed(63_010, {"b": [0, 1]}, total_ms=2010)
    builder.line(100_000, ClockStepped(stepped_ms=-10_000))
    builder.started(101_000, "admin", ["b"])
    builder.phase(101_500, 1000, {"b": (400, [])})
    builder.completed(101_510, {"b": [0, 1]}, took_ms=20, total_ms=1020)
    builder.started(120_000, "admin", ["b"])
    builder.phase(120_500, 500, {"b": (500, [])})
    builder.completed(120_510, {"b": [0, 1]}, total_ms=510)
    return builder


@scenario
def ties() -> JournalBuilder:
    """Everything happens within one millisecond."""
    builder = JournalBuilder("ties")
    builder.founded(0, b=[0], a=[1])
    builder.gone(0, "b")
    builder.started(0, "member_left", ["a"])
    builder.phase(0, 0, {"a": (0, [1])})
    builder.completed(0, {"a": [0, 1]})
    return builder


@scenario
def restarted_and_superseded() -> JournalBuilder:
    """The node restarts in a second phase, and a rebalance begins in the same millisecond."""
    builder = JournalBuilder("restarted-and-superseded")
    builder.founded(0, a=[0], b=[])
    builder.gone(1000, "a")
    builder.started(1000, "member_left", ["b"])
    builder.phase(1100, 100, {"b": (100, [])})
    builder.begin_file()
    builder.recovered(2000, "CompletingRebalance", b=[])
    builder.started(2000, "topic_changed", ["b"], from_state="CompletingRebalance")
    builder.phase(2100, 100, {"b": (100, [])})
    builder.completed(2110, {"b": [0]})
    return builder


# -- what can't be known --------------------------------------------------------------------------


@scenario
def unreadable() -> JournalBuilder:
    """One assignment can't be read, as after a change to an unknown type of group."""
    builder = JournalBuilder("unreadable")
    builder.founded(0, a=[0])
    builder.started(1000, "admin", ["a"])
    builder.phase(1100, 100, {"a": (100, [0])})
    builder.completed(1110, None)
    builder.started(2000, "admin", ["a"])
    builder.phase(2100, 100, {"a": (100, [])})
    builder.completed(2110, {"a": [0]})
    builder.started(3000, "admin", ["a"])
    builder.phase(3100, 100, {"a": (60, [])})
    builder.completed(3110, {"a": [0]})
    return builder


@scenario
def deleted() -> JournalBuilder:
    """A group is emptied and deleted, and comes again."""
    builder = JournalBuilder("deleted")
    builder.founded(0, a=[0])
    builder.gone(1000, "a")
    builder.started(1000, "member_left")
    builder.emptied(1000)
    builder.deleted(2000)
    builder.founded(9000, b=[0])
    return builder

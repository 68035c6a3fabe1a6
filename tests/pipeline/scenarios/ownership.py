"""Scenarios about who owned what, twice or not at all."""

from __future__ import annotations

from typing import Final

from tests.pipeline.scenarios.writing import ScenarioList
from tests.support.scribe import AWAY, Scribe

__all__ = ["scenario"]

scenario: Final = ScenarioList()


# -- two owners -----------------------------------------------------------------------------------


@scenario
def assigned_twice() -> Scribe:
    """The leader gives a partition to two members."""
    scribe = Scribe("assigned-twice")
    scribe.founded(10, a=[0, 1], b=[1])
    scribe.gone(1000, "b")
    scribe.started(1000, "member_left", ["a"])
    scribe.phase(1050, 50, {"a": (50, [0, 1])})
    scribe.completed(1060, {"a": [0, 1]})
    return scribe


@scenario
def three_owners() -> Scribe:
    """The leader gives a partition to three members."""
    scribe = Scribe("three-owners")
    scribe.founded(0, a=[0], b=[0], c=[0])
    scribe.joined(1000, "d")
    return scribe


@scenario
def taken_while_held() -> Scribe:
    """A cooperative leader gives a partition away at once, while its owner still works on it."""
    scribe = Scribe("taken-while-held")
    scribe.founded(0, a=[0, 1])
    scribe.joined(2000, "b")
    scribe.started(2000, "member_joined", ["a"])
    scribe.phase(2100, 100, {"a": (100, [0, 1]), "b": (0, [])})
    scribe.completed(2110, {"a": [0], "b": [1]}, needs_rejoin=True)
    scribe.started(2200, "revocation_follow_up", ["a", "b"], follows=2)
    scribe.phase(2300, 100, {"a": (40, [0]), "b": (100, [1])})
    scribe.completed(2310, {"a": [0], "b": [1]})
    return scribe


@scenario
def held_on() -> Scribe:
    """An owner says again and again that it has what was given to another one."""
    scribe = Scribe("held-on")
    scribe.founded(0, a=[0], b=[])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, [0]), "b": (100, [])})
    scribe.completed(1110, {"a": [], "b": [0]}, needs_rejoin=True)
    scribe.started(2000, "revocation_follow_up", ["a", "b"], follows=2)
    scribe.phase(2100, 100, {"a": (50, [0]), "b": (100, [0])})
    scribe.completed(2110, {"a": [], "b": [0]}, needs_rejoin=True)
    scribe.started(3000, "revocation_follow_up", ["a", "b"], follows=3)
    scribe.phase(3100, 100, {"a": (50, []), "b": (100, [0])})
    scribe.completed(3110, {"a": [], "b": [0]})
    return scribe


@scenario
def removed_alive() -> Scribe:
    """An administrator removes a static member that had been heard of 200 ms ago."""
    scribe = Scribe("removed-alive", instances={"a": "i"})
    scribe.founded(0, a=[0], b=[])
    scribe.gone(1000, "a", "removed", silent_ms=200)
    scribe.started(1000, "member_removed", ["b"])
    scribe.phase(1100, 100, {"b": (100, [])})
    scribe.completed(1110, {"b": [0]})
    scribe.joined(20_000, "z")
    return scribe


@scenario
def claimed() -> Scribe:
    """A member says as it joins that it owns what it was not given, and what another one owns."""
    scribe = Scribe("claimed")
    scribe.founded(0, a=[0], b=[])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, [0]), "b": (30, [0, 1])})
    scribe.completed(1110, {"a": [0], "b": [1]})
    return scribe


# -- static members -------------------------------------------------------------------------------


@scenario
def replaced() -> Scribe:
    """A static member comes back twice, and its first process learns late that it is out."""
    scribe = Scribe("replaced", instances={"a1": "i"})
    scribe.founded(0, a1=[0])
    scribe.replaced(1000, "a1", "a2")
    scribe.fenced(1300, "a1", "a2")
    scribe.fenced(1400, "a1", "a2")
    scribe.replaced(2000, "a2", "a3")
    scribe.started(3000, "admin", ["a3"])
    scribe.phase(3100, 100, {"a3": (100, [0])})
    scribe.completed(3110, {"a3": [0]})
    return scribe


@scenario
def away() -> Scribe:
    """A static member does not come to a rebalance and keeps what it has."""
    scribe = Scribe("away", instances={"a": "i"})
    scribe.founded(0, a=[0], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1500, 500, {"a": AWAY, "b": (20, [])})
    scribe.completed(1510, {"a": [0], "b": [1]})
    return scribe


# -- none -----------------------------------------------------------------------------------------


@scenario
def eager() -> Scribe:
    """Two members of an eager assignor rebalance."""
    scribe = Scribe("eager")
    scribe.founded(0, a=[0], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, []), "b": (20, [])})
    scribe.completed(1120, {"a": [0], "b": [1]})
    return scribe


@scenario
def dead() -> Scribe:
    """A member dies, and the other one gets its partition."""
    scribe = Scribe("dead")
    scribe.founded(0, a=[0], b=[1])
    scribe.gone(12_000, "a", "session_expired", silent_ms=10_100)
    scribe.started(12_000, "session_expired", ["b"])
    scribe.phase(12_400, 400, {"b": (400, [1])})
    scribe.completed(12_500, {"b": [0, 1]})
    return scribe


@scenario
def unended() -> Scribe:
    """The journal ends in a rebalance."""
    scribe = Scribe("unended")
    scribe.founded(0, a=[0], b=[1])
    scribe.gone(1000, "a")
    scribe.started(1000, "member_left", ["b"])
    scribe.joined(3000, "c")
    return scribe


@scenario
def nobodys() -> Scribe:
    """Partitions that were let go of get no new owner, on purpose."""
    scribe = Scribe("nobodys")
    scribe.founded(0, a=[0, 1])
    scribe.started(1000, "subscription_changed", ["a"])
    scribe.phase(1100, 100, {"a": (60, [])})
    scribe.completed(1110, {"a": [0]})
    scribe.started(5000, "subscription_changed", ["a"])
    scribe.phase(5100, 100, {"a": (60, [])})
    scribe.completed(5110, {"a": [0, 1]})
    return scribe


@scenario
def two_steps() -> Scribe:
    """A cooperative assignor takes a partition, and gives it away in a second rebalance."""
    scribe = Scribe("two-steps")
    scribe.founded(0, a=[0, 1])
    scribe.joined(1000, "b")
    scribe.started(1000, "member_joined", ["a"])
    scribe.phase(1100, 100, {"a": (100, [0, 1]), "b": (0, [])})
    scribe.completed(1110, {"a": [0], "b": []}, needs_rejoin=True)
    scribe.started(1200, "revocation_follow_up", ["a", "b"], follows=2)
    scribe.phase(1300, 100, {"a": (50, [0]), "b": (100, [])})
    scribe.completed(1310, {"a": [0], "b": [1]})
    return scribe


@scenario
def topic_deleted() -> Scribe:
    """A topic is deleted while its partitions have no owner."""
    scribe = Scribe("topic-deleted")
    scribe.topic_changed(0, "created", 0, 2)
    scribe.founded(0, a=[0, 1])
    scribe.started(1000, "admin", ["a"])
    scribe.topic_changed(1080, "deleted", 2, 0)
    scribe.phase(1100, 100, {"a": (60, [])})
    scribe.completed(1110, {"a": []})
    return scribe


@scenario
def topic_deleted_first() -> Scribe:
    """A topic is deleted, and then the group lets go of it."""
    scribe = Scribe("topic-deleted-first")
    scribe.founded(0, a=[0, 1])
    scribe.topic_changed(1000, "deleted", 2, 0)
    scribe.started(1000, "topic_changed", ["a"])
    scribe.phase(1100, 100, {"a": (60, [])})
    scribe.completed(1110, {"a": []})
    return scribe


@scenario
def topic_made_anew() -> Scribe:
    """A topic is deleted and made anew, and the group takes its time."""
    scribe = Scribe("topic-made-anew")
    scribe.founded(0, a=[0, 1])
    scribe.topic_changed(1000, "deleted", 2, 0)
    scribe.topic_changed(1010, "created", 0, 1)
    scribe.started(1010, "topic_changed", ["a"])
    scribe.phase(9000, 7990, {"a": (10, [])})
    scribe.completed(9010, {"a": [0]})
    return scribe


@scenario
def topic_made_anew_and_kept() -> Scribe:
    """A topic is made anew, its owner goes on with it, and later lets go of it."""
    scribe = Scribe("topic-made-anew-and-kept")
    scribe.founded(0, a=[0])
    scribe.topic_changed(1000, "deleted", 1, 0)
    scribe.topic_changed(1010, "created", 0, 1)
    scribe.started(1010, "topic_changed", ["a"])
    scribe.phase(1100, 90, {"a": (90, [0])})
    scribe.completed(1110, {"a": [0]})
    scribe.started(5000, "admin", ["a"])
    scribe.phase(5100, 100, {"a": (50, [])})
    scribe.completed(5110, {"a": [0]})
    return scribe


# -- nodes and time -------------------------------------------------------------------------------


@scenario
def restarted() -> Scribe:
    """The node restarts; of two members only one is read back with what it had."""
    scribe = Scribe("restarted")
    scribe.node_started(0)
    scribe.founded(0, a=[0], b=[1])
    scribe.begin_file()
    scribe.recovered(5000, a=[0], b=[])
    scribe.node_started(5000)
    scribe.joined(6000, "c")
    return scribe


@scenario
def lost_generations() -> Scribe:
    """A killed node had not written down its last generations."""
    scribe = Scribe("lost-generations")
    scribe.founded(0, a=[0], b=[1])
    scribe.begin_file()
    scribe.recovered(5000, generation=7, b=[0], c=[1])
    scribe.node_started(5000)
    scribe.gone(6000, "c")
    scribe.started(6000, "member_left", ["b"])
    return scribe


@scenario
def restarted_in_a_phase() -> Scribe:
    """The node restarts while members are awaited, and waits for them anew."""
    scribe = Scribe("restarted-in-a-phase")
    scribe.founded(0, a=[0], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.begin_file()
    scribe.recovered(5000, "PreparingRebalance", a=[0], b=[1])
    scribe.node_started(5000)
    scribe.phase(5300, 300, {"a": (300, []), "b": (100, [])})
    scribe.completed(5310, {"a": [0], "b": [1]})
    return scribe


@scenario
def set_back() -> Scribe:
    """The node's clock is set back by a minute in the midst of it."""
    scribe = Scribe("set-back")
    scribe.founded(60_000, a=[0], b=[1])
    scribe.started(500, "admin", ["a", "b"])
    scribe.phase(530, 30, {"a": (30, [0]), "b": (30, [])})
    scribe.completed(540, {"a": [0], "b": [1]})
    scribe.gone(70_000, "b")
    scribe.started(70_000, "member_left", ["a"])
    scribe.phase(70_100, 100, {"a": (100, [0])})
    scribe.completed(70_110, {"a": [0, 1]})
    return scribe


@scenario
def ties() -> Scribe:
    """Everything happens within one millisecond."""
    scribe = Scribe("ties")
    scribe.founded(0, b=[0], a=[1])
    scribe.gone(0, "b")
    scribe.started(0, "member_left", ["a"])
    scribe.phase(0, 0, {"a": (0, [1])})
    scribe.completed(0, {"a": [0, 1]})
    return scribe


@scenario
def restarted_and_superseded() -> Scribe:
    """The node restarts in a second phase, and a rebalance begins in the same millisecond."""
    scribe = Scribe("restarted-and-superseded")
    scribe.founded(0, a=[0], b=[])
    scribe.gone(1000, "a")
    scribe.started(1000, "member_left", ["b"])
    scribe.phase(1100, 100, {"b": (100, [])})
    scribe.begin_file()
    scribe.recovered(2000, "CompletingRebalance", b=[])
    scribe.started(2000, "topic_changed", ["b"], from_state="CompletingRebalance")
    scribe.phase(2100, 100, {"b": (100, [])})
    scribe.completed(2110, {"b": [0]})
    return scribe


# -- what can't be known --------------------------------------------------------------------------


@scenario
def unreadable() -> Scribe:
    """One assignment can't be read, as after a change to an unknown type of group."""
    scribe = Scribe("unreadable")
    scribe.founded(0, a=[0])
    scribe.started(1000, "admin", ["a"])
    scribe.phase(1100, 100, {"a": (100, [0])})
    scribe.completed(1110, None)
    scribe.started(2000, "admin", ["a"])
    scribe.phase(2100, 100, {"a": (100, [])})
    scribe.completed(2110, {"a": [0]})
    scribe.started(3000, "admin", ["a"])
    scribe.phase(3100, 100, {"a": (60, [])})
    scribe.completed(3110, {"a": [0]})
    return scribe


@scenario
def deleted() -> Scribe:
    """A group is emptied and deleted, and comes again."""
    scribe = Scribe("deleted")
    scribe.founded(0, a=[0])
    scribe.gone(1000, "a")
    scribe.started(1000, "member_left")
    scribe.emptied(1000)
    scribe.deleted(2000)
    scribe.founded(9000, b=[0])
    return scribe

"""Scenarios for advice about partitions and journals, and scenarios that just miss it."""

from __future__ import annotations

from typing import Final

from coterie_protocol.journal import GroupEmptied
from tests.pipeline.scenarios.writing import ScenarioList
from tests.support.scribe import Scribe

__all__ = ["scenario"]

scenario: Final = ScenarioList()

# -- two owners -----------------------------------------------------------------------------------


@scenario
def owned_twice_over() -> Scribe:
    """Two members own two partitions at once: given to both, claimed, and given to both again."""
    scribe = Scribe("owned-twice-over")
    scribe.founded(0, a=[0, 1], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, [0, 1]), "b": (30, [0])})
    scribe.completed(1110, {"a": [0, 1], "b": [1]})
    scribe.gone(2000, "b")
    scribe.started(2000, "member_left", ["a"])
    scribe.phase(2050, 50, {"a": (50, [0, 1])})
    scribe.completed(2060, {"a": [0, 1]})
    return scribe


@scenario
def given_away_too_soon() -> Scribe:
    """Partitions are given away twice while their owner may work on them."""
    scribe = Scribe("given-away-too-soon", instances={"a": "i"})
    scribe.founded(0, a=[0, 1], b=[])
    scribe.gone(1000, "a", "removed", silent_ms=200)
    scribe.started(1000, "member_removed", ["b"])
    scribe.phase(1100, 100, {"b": (100, [])})
    scribe.completed(1110, {"b": [0, 1]})
    scribe.joined(21_000, "c")
    scribe.started(21_000, "member_joined", ["b"])
    scribe.phase(21_100, 100, {"b": (100, [0, 1]), "c": (0, [])})
    scribe.completed(21_110, {"b": [0], "c": [1]}, needs_rejoin=True)
    scribe.started(21_200, "revocation_follow_up", ["b", "c"], follows=3)
    scribe.phase(21_300, 100, {"b": (40, [0]), "c": (100, [1])})
    scribe.completed(21_310, {"b": [0], "c": [1]})
    return scribe


# -- no owner -------------------------------------------------------------------------------------


def _given_back(group: str, back_ms: int, other_ms: int, protocol: str = "range") -> Scribe:
    """A partition stands still and goes back to its owner; then one goes on to another owner."""
    scribe = Scribe(group, protocol=protocol)
    scribe.founded(0, a=[0], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1000 + back_ms, back_ms, {"a": (0, []), "b": (back_ms, [1])})
    scribe.completed(1000 + back_ms, {"a": [0], "b": [1]})
    scribe.gone(10_000, "b")
    scribe.started(10_000, "member_left", ["a"])
    scribe.phase(10_000 + other_ms, other_ms, {"a": (other_ms, [0])})
    scribe.completed(10_000 + other_ms, {"a": [0, 1]})
    return scribe


@scenario
def given_back() -> Scribe:
    """Just a second, and just a tenth."""
    return _given_back("given-back", 1000, 9000, "roundrobin")


@scenario
def given_back_less_than_a_tenth() -> Scribe:
    """A second, but a little less than a tenth."""
    return _given_back("given-back-less-than-a-tenth", 1000, 9001)


@scenario
def given_back_within_a_second() -> Scribe:
    """All of the time, but a little less than a second."""
    return _given_back("given-back-within-a-second", 999, 0)


@scenario
def given_back_by_another_protocol() -> Scribe:
    """For as long as one likes: this protocol lets members keep what they have."""
    return _given_back("given-back-by-another-protocol", 5000, 0, "cooperative-sticky")


@scenario
def given_back_often() -> Scribe:
    """The protocol changes twice, and with the second one two partitions go back."""
    scribe = Scribe("given-back-often")
    scribe.founded(0, a=[0], b=[1])
    scribe.protocol = "sticky"
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(2000, 1000, {"a": (0, []), "b": (500, [])})
    scribe.completed(2000, {"a": [0], "b": [1]})
    scribe.protocol = "cooperative-sticky"
    scribe.started(3000, "admin", ["a", "b"])
    scribe.phase(3100, 100, {"a": (0, [0]), "b": (100, [1])})
    scribe.completed(3100, {"a": [0], "b": [1]})
    return scribe


@scenario
def given_back_to_one_that_was_gone() -> Scribe:
    """A static member loses its place, comes back, and has again what it had."""
    scribe = Scribe("given-back-to-one-that-was-gone", instances={"a1": "i"})
    scribe.founded(0, a1=[0], b=[1])
    scribe.gone(1000, "a1", "session_expired", silent_ms=10_000)
    scribe.started(1000, "session_expired", ["b"])
    scribe.joined(5000, "a2", "i")
    scribe.phase(5000, 4000, {"a2": (0, []), "b": (4000, [1])})
    scribe.completed(6000, {"a2": [0], "b": [1]})
    return scribe


@scenario
def given_to_others() -> Scribe:
    """Two partitions stand still and change their owners."""
    scribe = Scribe("given-to-others")
    scribe.founded(0, a=[0], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(6000, 5000, {"a": (0, []), "b": (5000, [])})
    scribe.completed(6100, {"a": [1], "b": [0]})
    return scribe


def _stuck(group: str, until_ms: int) -> Scribe:
    """Two members leave, and the rebalance that would hand on what they had does not end."""
    scribe = Scribe(group)
    scribe.founded(0, a=[0, 1], b=[2], c=[3])
    scribe.gone(1000, "a")
    scribe.started(1000, "member_left", ["b", "c"])
    scribe.gone(5000, "b")
    scribe.joined(until_ms, "d")
    return scribe


@scenario
def stuck() -> Scribe:
    """For just ten seconds."""
    return _stuck("stuck", 11_000)


@scenario
def stuck_for_a_moment() -> Scribe:
    """For a little less than ten seconds."""
    return _stuck("stuck-for-a-moment", 10_999)


# -- too many members -----------------------------------------------------------------------------


@scenario
def idle() -> Scribe:
    """One of three members has nothing to do; what becomes of it later can't be read."""
    scribe = Scribe("idle")
    scribe.founded(10, a=[0], b=[1], c=[])
    scribe.started(1000, "admin", ["a", "b", "c"])
    scribe.phase(1100, 100, {"a": (100, [0]), "b": (100, [1]), "c": (100, [])})
    scribe.completed(1110, None)
    return scribe


@scenario
def idle_once() -> Scribe:
    """One of two members had nothing to do, and has now."""
    scribe = Scribe("idle-once")
    scribe.founded(0, a=[0], b=[])
    scribe.started(1000, "topic_changed", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, [0]), "b": (100, [])})
    scribe.completed(1110, {"a": [0], "b": [1]})
    return scribe


@scenario
def nothing_to_do() -> Scribe:
    """There are no partitions at all."""
    scribe = Scribe("nothing-to-do")
    scribe.founded(0, a=[], b=[])
    return scribe


# -- journals -------------------------------------------------------------------------------------


@scenario
def went_back_once() -> Scribe:
    """An offset goes back by one."""
    scribe = Scribe("went-back-once", generation=1)
    scribe.committed(100, "a", p0=10)
    scribe.committed(200, "a", p0=9)
    return scribe


@scenario
def went_back_often() -> Scribe:
    """Offsets of two partitions go back."""
    scribe = Scribe("went-back-often", generation=1)
    scribe.committed(100, "a", p0=10, p1=20)
    scribe.committed(200, "a", p0=9, p1=13)
    scribe.committed(300, "a", p0=8, p1=30)
    return scribe


@scenario
def with_one_hole() -> Scribe:
    """The node dropped a line."""
    scribe = Scribe("with-one-hole")
    scribe.founded(0, a=[0])
    scribe.seq += 1
    scribe.joined(100, "b")
    return scribe


@scenario
def torn_with_a_hole() -> Scribe:
    """The node was killed once it had written all of a line, and dropped another one later."""
    scribe = Scribe("torn-with-a-hole")
    scribe.founded(0, a=[0])
    scribe.torn(90, GroupEmptied(group="torn-with-a-hole", generation=9), 10_000)
    scribe.recovered(100, a=[0])
    scribe.seq += 1
    scribe.joined(200, "b")
    return scribe


@scenario
def set_back_a_little() -> Scribe:
    """A clock is set back by a little more than a tenth of a second."""
    scribe = Scribe("set-back-a-little")
    scribe.node_started(1101)
    scribe.node_started(1000)
    return scribe


@scenario
def set_back_by_next_to_nothing() -> Scribe:
    """A clock is set back by just a tenth of a second."""
    scribe = Scribe("set-back-by-next-to-nothing")
    scribe.node_started(1100)
    scribe.node_started(1000)
    return scribe


@scenario
def set_back_and_behind() -> Scribe:
    """A node takes a group over whose clock is behind, and is set back once more."""
    first = Scribe("set-back-and-behind", "set-back-and-behind-1")
    first.founded(10_000, a=[0])
    second = first.on("set-back-and-behind-2")
    second.recovered(9000, generation=1, a=[0])
    second.joined(8500, "b")
    return first


def _behind(group: str, behind_ms: int) -> Scribe:
    """Another node takes the group over whose clock is behind."""
    first = Scribe(group, f"{group}-1")
    first.founded(10_000, a=[0])
    first.on(f"{group}-2").recovered(10_000 - behind_ms, generation=1, a=[0])
    return first


@scenario
def behind_a_little() -> Scribe:
    """By a little more than a tenth of a second."""
    return _behind("behind-a-little", 101)


@scenario
def behind_by_next_to_nothing() -> Scribe:
    """By just a tenth of a second."""
    return _behind("behind-by-next-to-nothing", 100)


@scenario
def a_foreign_line() -> Scribe:
    """A line that no node wrote."""
    scribe = Scribe("a-foreign-line")
    scribe.node_started(0)
    scribe.text("all is well")
    return scribe

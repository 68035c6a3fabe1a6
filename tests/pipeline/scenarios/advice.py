"""Scenarios for advice about partitions and journals, and scenarios that just miss it."""

from __future__ import annotations

from typing import Final

from tests.pipeline.scenarios.writing import ScenarioList
from tests.support.journal_builder import JournalBuilder

__all__ = ["scenario"]

scenario: Final = ScenarioList()

# -- two owners -----------------------------------------------------------------------------------


@scenario
def owned_twice_over() -> JournalBuilder:
    """Two members own two partitions at once: given to both, claimed, and given to both again."""
    builder = JournalBuilder("owned-twice-over")
    builder.founded(0, a=[0, 1], b=[1])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1100, 100, {"a": (100, [0, 1]), "b": (30, [0])})
    builder.completed(1110, {"a": [0, 1], "b": [1]})
    builder.gone(2000, "b")
    builder.started(2000, "member_left", ["a"])
    builder.phase(2050, 50, {"a": (50, [0, 1])})
    builder.completed(2060, {"a": [0, 1]})
    return builder


@scenario
def given_away_too_soon() -> JournalBuilder:
    """Partitions are given away twice while their owner may work on them."""
    builder = JournalBuilder("given-away-too-soon", instances={"a": "i"})
    builder.founded(0, a=[0, 1], b=[])
    builder.gone(1000, "a", "removed", silent_ms=200)
    builder.started(1000, "member_removed", ["b"])
    builder.phase(1100, 100, {"b": (100, [])})
    builder.completed(1110, {"b": [0, 1]})
    builder.joined(21_000, "c")
    builder.started(21_000, "member_joined", ["b"])
    builder.phase(21_100, 100, {"b": (100, [0, 1]), "c": (0, [])})
    builder.completed(21_110, {"b": [0], "c": [1]}, needs_rejoin=True)
    builder.started(21_200, "revocation_follow_up", ["b", "c"], follows=3)
    builder.phase(21_300, 100, {"b": (40, [0]), "c": (100, [1])})
    builder.completed(21_310, {"b": [0], "c": [1]})
    return builder


# -- no owner -------------------------------------------------------------------------------------


def _given_back(group: str, back_ms: int, other_ms: int, protocol: str = "range") -> JournalBuilder:
    """A partition stands still and goes back to its owner; then one goes on to another owner."""
    builder = JournalBuilder(group, protocol=protocol)
    builder.founded(0, a=[0], b=[1])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(1000 + back_ms, back_ms, {"a": (0, []), "b": (back_ms, [1])})
    builder.completed(1000 + back_ms, {"a": [0], "b": [1]})
    builder.gone(10_000, "b")
    builder.started(10_000, "member_left", ["a"])
    builder.phase(10_000 + other_ms, other_ms, {"a": (other_ms, [0])})
    builder.completed(10_000 + other_ms, {"a": [0, 1]})
    return builder


@scenario
def given_back() -> JournalBuilder:
    """Just a second, and just a tenth."""
    return _given_back("given-back", 1000, 9000, "roundrobin")


@scenario
def given_back_less_than_a_tenth() -> JournalBuilder:
    """A second, but a little less than a tenth."""
    return _given_back("given-back-less-than-a-tenth", 1000, 9001)


@scenario
def given_back_within_a_second() -> JournalBuilder:
    """All of the time, but a little less than a second."""
    return _given_back("given-back-within-a-second", 999, 0)


@scenario
def given_back_by_another_protocol() -> JournalBuilder:
    """For as long as one likes: this protocol lets members keep what they have."""
    return _given_back("given-back-by-another-protocol", 5000, 0, "cooperative-sticky")


@scenario
def given_back_often() -> JournalBuilder:
    """The protocol changes twice, and with the second one two partitions go back."""
    builder = JournalBuilder("given-back-often")
    builder.founded(0, a=[0], b=[1])
    builder.protocol = "sticky"
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(2000, 1000, {"a": (0, []), "b": (500, [])})
    builder.completed(2000, {"a": [0], "b": [1]})
    builder.protocol = "cooperative-sticky"
    builder.started(3000, "admin", ["a", "b"])
    builder.phase(3100, 100, {"a": (0, [0]), "b": (100, [1])})
    builder.completed(3100, {"a": [0], "b": [1]})
    return builder


@scenario
def given_back_to_one_that_was_gone() -> JournalBuilder:
    """A static member loses its place, comes back, and has again what it had."""
    builder = JournalBuilder("given-back-to-one-that-was-gone", instances={"a1": "i"})
    builder.founded(0, a1=[0], b=[1])
    builder.gone(1000, "a1", "session_expired", silent_ms=10_000)
    builder.started(1000, "session_expired", ["b"])
    builder.joined(5000, "a2", "i")
    builder.phase(5000, 4000, {"a2": (0, []), "b": (4000, [1])})
    builder.completed(6000, {"a2": [0], "b": [1]})
    return builder


@scenario
def given_to_others() -> JournalBuilder:
    """Two partitions stand still and change their owners."""
    builder = JournalBuilder("given-to-others")
    builder.founded(0, a=[0], b=[1])
    builder.started(1000, "admin", ["a", "b"])
    builder.phase(6000, 5000, {"a": (0, []), "b": (5000, [])})
    builder.completed(6100, {"a": [1], "b": [0]})
    return builder


def _stuck(group: str, until_ms: int) -> JournalBuilder:
    """Two members leave, and the rebalance that would hand on what they had does not end."""
    builder = JournalBuilder(group)
    builder.founded(0, a=[0, 1], b=[2], c=[3])
    builder.gone(1000, "a")
    builder.started(1000, "member_left", ["b", "c"])
    builder.gone(5000, "b")
    builder.joined(until_ms, "d")
    return builder


@scenario
def stuck() -> JournalBuilder:
    """For just ten seconds."""
    return _stuck("stuck", 11_000)


@scenario
def stuck_for_a_moment() -> JournalBuilder:
    """For a little less than ten seconds."""
    return _stuck("stuck-for-a-moment", 10_999)


# -- too many members -----------------------------------------------------------------------------


@scenario
def idle() -> JournalBuilder:
    """One of three members has nothing to do; what becomes of it later can't be read."""
    builder = JournalBuilder("idle")
    builder.founded(10, a=[0], b=[1], c=[])
    builder.started(1000, "admin", ["a", "b", "c"])
    builder.phase(1100, 100, {"a": (100, [0]), "b": (100, [1]), "c": (100, [])})
    builder.completed(1110, None)
    return builder


@scenario
def idle_once() -> JournalBuilder:
    """One of two members had nothing to do, and has now."""
    builder = JournalBuilder("idle-once")
    builder.founded(0, a=[0], b=[])
    builder.started(1000, "topic_changed", ["a", "b"])
    builder.phase(1100, 100, {"a": (100, [0]), "b": (100, [])})
    builder.completed(1110, {"a": [0], "b": [1]})
    return builder


@scenario
def nothing_to_do() -> JournalBuilder:
    """There are no partitions at all."""
    builder = JournalBuilder("nothing-to-do")
    builder.founded(0, a=[], b=[])
    return builder


# -- journals -------------------------------------------------------------------------------------


@scenario
def went_back_once() -> JournalBuilder:
    """An offset goes back by one."""
    builder = JournalBuilder("went-back-once", generation=1)
    builder.committed(100, "a", p0=10)
    builder.committed(200, "a", p0=9)
    return builder


@scenario
def went_back_often() -> JournalBuilder:
    """Offsets of two partitions go back."""
    builder = JournalBuilder("went-back-often", generation=1)
    builder.committed(100, "a", p0=10, p1=20)
    builder.committed(200, "a", p0=9, p1=13)
    builder.committed(300, "a", p0=8, p1=30)
    return builder


@scenario
def went_back_as_far_as_can_be() -> JournalBuilder:
    """A member tried the largest numbers that a request can carry."""
    builder = JournalBuilder("went-back-as-far-as-can-be", generation=1)
    builder.committed(100, "a", p0=2**63 - 1)
    builder.committed(200, "a", p0=-(2**63))
    builder.committed(300, "a", p0=2**63 - 1)
    return builder


@scenario
def with_one_hole() -> JournalBuilder:
    """The node dropped a line."""
    builder = JournalBuilder("with-one-hole")
    builder.founded(0, a=[0])
    builder.seq += 1
    builder.joined(100, "b")
    return builder


@scenario
def twice_with_a_hole() -> JournalBuilder:
    """The node used a number twice, and dropped a line later."""
    builder = JournalBuilder("twice-with-a-hole")
    builder.founded(0, a=[0])
    builder.emptied(90)
    builder.seq -= 1
    builder.begin_file()
    builder.recovered(100, a=[0])
    builder.seq += 1
    builder.joined(200, "b")
    return builder


@scenario
def set_back_a_little() -> JournalBuilder:
    """A clock is set back by a little more than a tenth of a second."""
    builder = JournalBuilder("set-back-a-little")
    builder.node_started(1101)
    builder.node_started(1000)
    return builder


@scenario
def set_back_by_next_to_nothing() -> JournalBuilder:
    """A clock is set back by just a tenth of a second."""
    builder = JournalBuilder("set-back-by-next-to-nothing")
    builder.node_started(1100)
    builder.node_started(1000)
    return builder


@scenario
def set_back_and_behind() -> JournalBuilder:
    """A node takes a group over whose clock is behind, and is set back once more."""
    first = JournalBuilder("set-back-and-behind", "set-back-and-behind-1")
    first.founded(10_000, a=[0])
    second = first.on("set-back-and-behind-2")
    second.recovered(9000, generation=1, a=[0])
    second.joined(8500, "b")
    return first


def _behind(group: str, behind_ms: int) -> JournalBuilder:
    """Another node takes the group over whose clock is behind."""
    first = JournalBuilder(group, f"{group}-1")
    first.founded(10_000, a=[0])
    first.on(f"{group}-2").recovered(10_000 - behind_ms, generation=1, a=[0])
    return first


@scenario
def behind_a_little() -> JournalBuilder:
    """By a little more than a tenth of a second."""
    return _behind("behind-a-little", 101)


@scenario
def behind_by_next_to_nothing() -> JournalBuilder:
    """By just a tenth of a second."""
    return _behind("behind-by-next-to-nothing", 100)


@scenario
def a_foreign_line() -> JournalBuilder:
    """A line that no node wrote."""
    builder = JournalBuilder("a-foreign-line")
    builder.node_started(0)
    builder.text("all is well")
    return builder

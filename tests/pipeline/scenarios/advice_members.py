"""Scenarios for advice about members that come and go, and scenarios that just miss it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.pipeline.scenarios.writing import ScenarioList
from tests.support.journal_builder import JournalBuilder

__all__ = ["scenario"]

scenario: Final = ScenarioList()

#: How far apart things are that shall not count as flapping: no three of them fit into an hour.
_APART_MS: Final = 40 * 60_000


def _given_up(
    group: str, silences_ms: Sequence[int], *, first_stop_ms: int = 500, limit_ms: int = 10_000
) -> JournalBuilder:
    """A member is given up and comes back, again and again, after so long a silence each time.

    Its partition stands still for half a second each time, and its limit is shorter at first.
    """
    builder = JournalBuilder(group, instances={"w0": "w"}, session_timeout_ms=min(limit_ms, 6000))
    builder.founded(0, a=[0], w0=[1])
    for number, silence_ms in enumerate(silences_ms):
        at, former, member = (number + 1) * _APART_MS, f"w{number}", f"w{number + 1}"
        stop_ms = 500 if number else first_stop_ms
        builder.gone(at, former, "session_expired", silent_ms=10_000)
        builder.started(at, "session_expired", ["a"])
        builder.phase(at + stop_ms, stop_ms, {"a": (stop_ms, [0])})
        builder.completed(at + stop_ms, {"a": [0, 1]})
        builder.session_timeout_ms = limit_ms
        at += silence_ms - 10_000
        builder.joined(at, member, "w")
        builder.started(at, "member_joined", ["a"])
        builder.phase(at + 10, 10, {"a": (10, [0]), member: (0, [])})
        builder.completed(at + 10, {"a": [0], member: [1]})
    return builder


@scenario
def given_up() -> JournalBuilder:
    """Four of five silences are a little shorter than 15 s; the other one ends just in time."""
    silences_ms = (610_000, 12_000, 14_999, 13_000, 14_000)
    return _given_up("given-up", silences_ms, first_stop_ms=503)


@scenario
def given_up_longer() -> JournalBuilder:
    """One of the four silences is just 15 s, and the other one is just 20 s."""
    return _given_up("given-up-longer", (12_000, 13_000, 14_000, 15_000, 20_000))


@scenario
def given_up_thrice() -> JournalBuilder:
    """Two of three silences are two thirds of them, which is less than 80 %."""
    return _given_up("given-up-thrice", (12_000, 13_000, 25_000))


@scenario
def given_up_in_two_steps() -> JournalBuilder:
    """Each time two rebalances follow, and a partition stands still for 1400 ms."""
    builder = JournalBuilder("given-up-in-two-steps", instances={"w0": "w"})
    builder.founded(0, a=[0], w0=[1])
    for number in range(3):
        at, member = (number + 1) * _APART_MS, f"w{number + 1}"
        builder.gone(at, f"w{number}", "session_expired", silent_ms=10_000)
        builder.started(at, "session_expired", ["a"])
        builder.phase(at + 500, 500, {"a": (500, [0])})
        builder.completed(at + 500, {"a": [0]}, needs_rejoin=True)
        builder.started(at + 500, "revocation_follow_up", ["a"], follows=builder.generation)
        builder.joined(at + 1400, member, "w")
        builder.phase(at + 1400, 900, {"a": (900, [0]), member: (0, [])})
        builder.completed(at + 1400, {"a": [0], member: [1]})
    return builder


@scenario
def given_up_for_five_minutes() -> JournalBuilder:
    """The longest timeout that is proposed is just long enough."""
    return _given_up("given-up-for-five-minutes", (299_999, 299_999, 299_999))


@scenario
def given_up_twice() -> JournalBuilder:
    """That may happen."""
    return _given_up("given-up-twice", (12_000, 13_000))


@scenario
def given_up_for_good() -> JournalBuilder:
    """The third time it comes back a little more than ten minutes later."""
    return _given_up("given-up-for-good", (12_000, 13_000, 610_001))


@scenario
def given_up_and_gone() -> JournalBuilder:
    """The fourth time it comes back a little more than ten minutes later."""
    return _given_up("given-up-and-gone", (12_000, 13_000, 14_000, 610_001))


@scenario
def given_up_after_who_knows_what() -> JournalBuilder:
    """Its timeout is unknown."""
    silences_ms = (12_000, 13_000, 14_000)
    return _given_up("given-up-after-who-knows-what", silences_ms, limit_ms=0)


@scenario
def given_up_for_long() -> JournalBuilder:
    """No timeout that is proposed is longer than its silences."""
    return _given_up("given-up-for-long", (300_000, 300_000, 300_000))


@scenario
def not_in_time() -> JournalBuilder:
    """One member does not join in time twice, and another one does not ask for its assignment."""
    builder = JournalBuilder("not-in-time", rebalance_timeout_ms=30_000)
    builder.joined(0, "b")
    builder.gone(30_000, "b", "rebalance_expired", silent_ms=900)
    builder.rebalance_timeout_ms = 60_000
    builder.founded(40_000, a=[0], b=[1], c=[2])
    builder.started(41_000, "admin", ["a", "b", "c"])
    builder.gone(101_000, "b", "rebalance_expired", silent_ms=900)
    builder.phase(101_000, 60_000, {"a": (0, [0]), "c": (0, [2])}, ["b"])
    builder.gone(101_500, "c", "sync_expired", silent_ms=500)
    builder.started(101_500, "sync_expired", ["a"], from_state="CompletingRebalance")
    builder.phase(101_600, 100, {"a": (100, [0])})
    builder.completed(101_600, {"a": [0, 1, 2]})
    return builder


@scenario
def not_in_time_to_begin() -> JournalBuilder:
    """A member is out that had not joined for the first time."""
    builder = JournalBuilder("not-in-time-to-begin")
    builder.joined(0, "a")
    builder.gone(30_000, "a", "join_expired", silent_ms=900)
    return builder


@scenario
def not_in_time_together() -> JournalBuilder:
    """Two members do not join in time, and are out in one moment."""
    builder = JournalBuilder("not-in-time-together", hosts={"b": "/z", "c": "/y"})
    builder.founded(0, a=[0], b=[], c=[])
    builder.started(1000, "admin", ["a", "b", "c"])
    builder.gone(61_000, "c", "rebalance_expired", silent_ms=900)
    builder.gone(61_000, "b", "rebalance_expired", silent_ms=900)
    builder.phase(61_000, 60_000, {"a": (0, [0])}, ["b", "c"])
    builder.completed(61_000, {"a": [0]})
    return builder


@scenario
def not_in_whatever_time() -> JournalBuilder:
    """A member does not join in time that was there before the journal begins."""
    builder = JournalBuilder("not-in-whatever-time", seq=500, generation=41)
    builder.phase(1000, 300, {"a": (300, []), "b": (0, [])})
    builder.completed(1000, {"a": [0], "b": [1]})
    builder.started(2000, "admin", ["a", "b"])
    builder.gone(62_000, "b", "rebalance_expired", silent_ms=900)
    builder.phase(62_000, 60_000, {"a": (0, [0])}, ["b"])
    builder.completed(62_000, {"a": [0, 1]})
    return builder


def _restarted(
    group: str, backs_ms: Sequence[int], how: str = "left", instance: str | None = None
) -> JournalBuilder:
    """A process goes and comes back, again and again, after so long each time."""
    builder = JournalBuilder(group)
    members = [f"w{number}" for number in range(len(backs_ms) + 1)]
    builder.hosts |= dict.fromkeys(members, "/w")
    builder.joined(0, members[0], instance)
    for number, back_ms in enumerate(backs_ms):
        at = (number + 1) * _APART_MS
        builder.gone(at, members[number], how)
        builder.joined(at + back_ms, members[number + 1], instance)
    return builder


@scenario
def restarted_by_one() -> JournalBuilder:
    """Four times, once for just five minutes."""
    return _restarted("restarted-by-one", (300_000, 1000, 2001, 3000))


@scenario
def restarted_by_two() -> JournalBuilder:
    """Twice by one process, and once by another one."""
    builder = _restarted("restarted-by-two", (2000, 1000))
    builder.hosts |= {"v0": "/v", "v1": "/v"}
    builder.joined(3 * _APART_MS, "v0")
    builder.gone(4 * _APART_MS, "v0")
    builder.joined(4 * _APART_MS + 4000, "v1")
    return builder


@scenario
def restarted_twice() -> JournalBuilder:
    """That may happen."""
    return _restarted("restarted-twice", (1000, 1000))


@scenario
def restarted_slowly() -> JournalBuilder:
    """The third time it takes a little more than five minutes."""
    return _restarted("restarted-slowly", (1000, 1000, 300_001))


@scenario
def restarted_under_its_name() -> JournalBuilder:
    """A static member does."""
    return _restarted("restarted-under-its-name", (1000, 1000, 1000), instance="w")


@scenario
def restarted_unasked() -> JournalBuilder:
    """An operator or another process removed it."""
    return _restarted("restarted-unasked", (1000, 1000, 1000), how="removed")


@scenario
def restarted_as_if_dead() -> JournalBuilder:
    """It is given up a hundred times and once more, in a group with unknown rebalances."""
    backs_ms = [1000 + number for number in range(101)]
    return _restarted("restarted-as-if-dead", backs_ms, how="session_expired", instance="w")


def _flapping(group: str, endings: Sequence[str]) -> JournalBuilder:
    """A static member goes after a minute, in one way or another, and comes every ten minutes."""
    builder = JournalBuilder(group)
    for number, how in enumerate((*endings, "open")):
        at = number * 600_000
        builder.joined(at, f"f{number}", "f")
        if how != "open":
            builder.gone(at + 60_000, f"f{number}", how)
    return builder


@scenario
def flapping_on() -> JournalBuilder:
    """It is back for the fifth time."""
    return _flapping("flapping-on", ("left", "left", "left", "left", "removed"))


@scenario
def flapping_for_once() -> JournalBuilder:
    """It is back for the third time, and has not gone since."""
    return _flapping("flapping-for-once", ("left", "left", "left"))


@scenario
def flapping_hardly() -> JournalBuilder:
    """It is back for the second time."""
    return _flapping("flapping-hardly", ("left", "left"))


def _awaited(group: str, waits: Sequence[tuple[str, int]], **instances: str) -> JournalBuilder:
    """Two members keep what they have, and one of them is waited for each time."""
    builder = JournalBuilder(group, instances=instances)
    builder.founded(0, a=[0], b=[1])
    for number, (member, wait_ms) in enumerate(waits, 1):
        at = number * 10_000
        joins = {"a": (0, [0]), "b": (0, [1])}
        joins[member] = (wait_ms, joins[member][1])
        builder.started(at, "admin", ["a", "b"])
        builder.phase(at + wait_ms, wait_ms, joins)
        builder.completed(at + wait_ms + 10, {"a": [0], "b": [1]})
    return builder


@scenario
def awaited() -> JournalBuilder:
    """For just a second each of three times, which is just half of the time."""
    return _awaited("awaited", (("a", 1000), ("b", 3000), ("a", 1000), ("a", 1000)))


@scenario
def awaited_less() -> JournalBuilder:
    """For a little less than half of the time."""
    return _awaited("awaited-less", (("a", 1000), ("b", 3001), ("a", 1000), ("a", 1000)))


@scenario
def awaited_twice() -> JournalBuilder:
    """The third time is a little less than a second."""
    return _awaited("awaited-twice", (("a", 5000), ("a", 5000), ("a", 999)))


@scenario
def awaited_by_name() -> JournalBuilder:
    """It is a static member."""
    return _awaited("awaited-by-name", [("a", 2000)] * 3, a="i")


@scenario
def awaited_in_vain() -> JournalBuilder:
    """An id is not claimed, so its origin is unknown."""
    builder = JournalBuilder("awaited-in-vain")
    builder.founded(0, a=[0])
    for at in (10_000, 20_000, 30_000):
        builder.started(at, "member_joined", ["a"])
        builder.unclaimed(at + 1500, "ghost")
        builder.phase(at + 1500, 1500, {"a": (0, [0])})
        builder.completed(at + 1500, {"a": [0]})
    return builder


@scenario
def awaited_without_end() -> JournalBuilder:
    """An id is not claimed, and each time another rebalance begins before all have joined."""
    builder = JournalBuilder("awaited-without-end")
    builder.founded(0, a=[0])
    for at in (10_000, 20_000, 30_000):
        builder.started(at, "member_joined", ["a"], from_state="PreparingRebalance")
        builder.unclaimed(at + 1500, "ghost")
    return builder


@scenario
def one_name_for_two() -> JournalBuilder:
    """Two processes of one host have one name."""
    builder = JournalBuilder(
        "one-name-for-two", instances={"a1": "i"}, hosts={"a1": "/h", "a2": "/h"}
    )
    builder.founded(0, a1=[0])
    builder.replaced(1000, "a1", "a2")
    builder.fenced(1300, "a1", "a2")
    return builder


@scenario
def one_name_from_somewhere() -> JournalBuilder:
    """Of two processes with one name, the address of one is unknown."""
    builder = JournalBuilder("one-name-from-somewhere", instances={"a1": "i"}, hosts={"a1": ""})
    builder.founded(0, a1=[0])
    builder.replaced(1000, "a1", "a2")
    builder.fenced(1300, "a1", "a2")
    return builder


@scenario
def one_name_from_nowhere() -> JournalBuilder:
    """The addresses of two processes with one name are unknown."""
    builder = JournalBuilder(
        "one-name-from-nowhere", instances={"a1": "i"}, hosts={"a1": "", "a2": ""}
    )
    builder.founded(0, a1=[0])
    builder.replaced(1000, "a1", "a2")
    builder.fenced(1300, "a1", "a2")
    return builder

"""Scenarios for advice about members that come and go, and scenarios that just miss it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.pipeline.scenarios.writing import ScenarioList
from tests.support.scribe import Scribe

__all__ = ["scenario"]

scenario: Final = ScenarioList()

#: How far apart things are that shall not count as flapping: no three of them fit into an hour.
_APART_MS: Final = 40 * 60_000


def _given_up(
    group: str, silences_ms: Sequence[int], *, first_stop_ms: int = 500, limit_ms: int = 10_000
) -> Scribe:
    """A member is given up and comes back, again and again, after so long a silence each time.

    Its partition stands still for half a second each time, and its limit is shorter at first.
    """
    scribe = Scribe(group, instances={"w0": "w"}, session_timeout_ms=min(limit_ms, 6000))
    scribe.founded(0, a=[0], w0=[1])
    for number, silence_ms in enumerate(silences_ms):
        at, former, member = (number + 1) * _APART_MS, f"w{number}", f"w{number + 1}"
        stop_ms = 500 if number else first_stop_ms
        scribe.gone(at, former, "session_expired", silent_ms=10_000)
        scribe.started(at, "session_expired", ["a"])
        scribe.phase(at + stop_ms, stop_ms, {"a": (stop_ms, [0])})
        scribe.completed(at + stop_ms, {"a": [0, 1]})
        scribe.session_timeout_ms = limit_ms
        at += silence_ms - 10_000
        scribe.joined(at, member, "w")
        scribe.started(at, "member_joined", ["a"])
        scribe.phase(at + 10, 10, {"a": (10, [0]), member: (0, [])})
        scribe.completed(at + 10, {"a": [0], member: [1]})
    return scribe


@scenario
def given_up() -> Scribe:
    """Four of five silences are a little shorter than 15 s; the other one ends just in time."""
    silences_ms = (610_000, 12_000, 14_999, 13_000, 14_000)
    return _given_up("given-up", silences_ms, first_stop_ms=503)


@scenario
def given_up_longer() -> Scribe:
    """One of the four silences is just 15 s, and the other one is just 20 s."""
    return _given_up("given-up-longer", (12_000, 13_000, 14_000, 15_000, 20_000))


@scenario
def given_up_thrice() -> Scribe:
    """Two of three silences are two thirds of them, which is less than 80 %."""
    return _given_up("given-up-thrice", (12_000, 13_000, 25_000))


@scenario
def given_up_in_two_steps() -> Scribe:
    """Each time two rebalances follow, and a partition stands still for 1400 ms."""
    scribe = Scribe("given-up-in-two-steps", instances={"w0": "w"})
    scribe.founded(0, a=[0], w0=[1])
    for number in range(3):
        at, member = (number + 1) * _APART_MS, f"w{number + 1}"
        scribe.gone(at, f"w{number}", "session_expired", silent_ms=10_000)
        scribe.started(at, "session_expired", ["a"])
        scribe.phase(at + 500, 500, {"a": (500, [0])})
        scribe.completed(at + 500, {"a": [0]}, needs_rejoin=True)
        scribe.started(at + 500, "revocation_follow_up", ["a"], follows=scribe.generation)
        scribe.joined(at + 1400, member, "w")
        scribe.phase(at + 1400, 900, {"a": (900, [0]), member: (0, [])})
        scribe.completed(at + 1400, {"a": [0], member: [1]})
    return scribe


@scenario
def given_up_for_five_minutes() -> Scribe:
    """The longest timeout that is proposed is just long enough."""
    return _given_up("given-up-for-five-minutes", (299_999, 299_999, 299_999))


@scenario
def given_up_twice() -> Scribe:
    """That may happen."""
    return _given_up("given-up-twice", (12_000, 13_000))


@scenario
def given_up_for_good() -> Scribe:
    """The third time it comes back a little more than ten minutes later."""
    return _given_up("given-up-for-good", (12_000, 13_000, 610_001))


@scenario
def given_up_and_gone() -> Scribe:
    """The fourth time it comes back a little more than ten minutes later."""
    return _given_up("given-up-and-gone", (12_000, 13_000, 14_000, 610_001))


@scenario
def given_up_after_who_knows_what() -> Scribe:
    """Its timeout is unknown."""
    silences_ms = (12_000, 13_000, 14_000)
    return _given_up("given-up-after-who-knows-what", silences_ms, limit_ms=0)


@scenario
def given_up_for_long() -> Scribe:
    """No timeout that is proposed is longer than its silences."""
    return _given_up("given-up-for-long", (300_000, 300_000, 300_000))


@scenario
def not_in_time() -> Scribe:
    """One member does not join in time twice, and another one does not ask for its assignment."""
    scribe = Scribe("not-in-time", rebalance_timeout_ms=30_000)
    scribe.joined(0, "b")
    scribe.gone(30_000, "b", "rebalance_expired", silent_ms=900)
    scribe.rebalance_timeout_ms = 60_000
    scribe.founded(40_000, a=[0], b=[1], c=[2])
    scribe.started(41_000, "admin", ["a", "b", "c"])
    scribe.gone(101_000, "b", "rebalance_expired", silent_ms=900)
    scribe.phase(101_000, 60_000, {"a": (0, [0]), "c": (0, [2])}, ["b"])
    scribe.gone(101_500, "c", "sync_expired", silent_ms=500)
    scribe.started(101_500, "sync_expired", ["a"], from_state="CompletingRebalance")
    scribe.phase(101_600, 100, {"a": (100, [0])})
    scribe.completed(101_600, {"a": [0, 1, 2]})
    return scribe


@scenario
def not_in_time_to_begin() -> Scribe:
    """A member is out that had not joined for the first time."""
    scribe = Scribe("not-in-time-to-begin")
    scribe.joined(0, "a")
    scribe.gone(30_000, "a", "join_expired", silent_ms=900)
    return scribe


@scenario
def not_in_time_together() -> Scribe:
    """Two members do not join in time, and are out in one moment."""
    scribe = Scribe("not-in-time-together", hosts={"b": "/z", "c": "/y"})
    scribe.founded(0, a=[0], b=[], c=[])
    scribe.started(1000, "admin", ["a", "b", "c"])
    scribe.gone(61_000, "c", "rebalance_expired", silent_ms=900)
    scribe.gone(61_000, "b", "rebalance_expired", silent_ms=900)
    scribe.phase(61_000, 60_000, {"a": (0, [0])}, ["b", "c"])
    scribe.completed(61_000, {"a": [0]})
    return scribe


@scenario
def not_in_whatever_time() -> Scribe:
    """A member does not join in time that was there before the journal begins."""
    scribe = Scribe("not-in-whatever-time", seq=500, generation=41)
    scribe.phase(1000, 300, {"a": (300, []), "b": (0, [])})
    scribe.completed(1000, {"a": [0], "b": [1]})
    scribe.started(2000, "admin", ["a", "b"])
    scribe.gone(62_000, "b", "rebalance_expired", silent_ms=900)
    scribe.phase(62_000, 60_000, {"a": (0, [0])}, ["b"])
    scribe.completed(62_000, {"a": [0, 1]})
    return scribe


def _restarted(
    group: str, backs_ms: Sequence[int], how: str = "left", instance: str | None = None
) -> Scribe:
    """A process goes and comes back, again and again, after so long each time."""
    scribe = Scribe(group)
    members = [f"w{number}" for number in range(len(backs_ms) + 1)]
    scribe.hosts |= dict.fromkeys(members, "/w")
    scribe.joined(0, members[0], instance)
    for number, back_ms in enumerate(backs_ms):
        at = (number + 1) * _APART_MS
        scribe.gone(at, members[number], how)
        scribe.joined(at + back_ms, members[number + 1], instance)
    return scribe


@scenario
def restarted_by_one() -> Scribe:
    """Four times, once for just five minutes."""
    return _restarted("restarted-by-one", (300_000, 1000, 2001, 3000))


@scenario
def restarted_by_two() -> Scribe:
    """Twice by one process, and once by another one."""
    scribe = _restarted("restarted-by-two", (2000, 1000))
    scribe.hosts |= {"v0": "/v", "v1": "/v"}
    scribe.joined(3 * _APART_MS, "v0")
    scribe.gone(4 * _APART_MS, "v0")
    scribe.joined(4 * _APART_MS + 4000, "v1")
    return scribe


@scenario
def restarted_twice() -> Scribe:
    """That may happen."""
    return _restarted("restarted-twice", (1000, 1000))


@scenario
def restarted_slowly() -> Scribe:
    """The third time it takes a little more than five minutes."""
    return _restarted("restarted-slowly", (1000, 1000, 300_001))


@scenario
def restarted_under_its_name() -> Scribe:
    """A static member does."""
    return _restarted("restarted-under-its-name", (1000, 1000, 1000), instance="w")


@scenario
def restarted_unasked() -> Scribe:
    """An operator or another process removed it."""
    return _restarted("restarted-unasked", (1000, 1000, 1000), how="removed")


@scenario
def restarted_as_if_dead() -> Scribe:
    """It is given up a hundred times and once more, in a group with unknown rebalances."""
    backs_ms = [1000 + number for number in range(101)]
    return _restarted("restarted-as-if-dead", backs_ms, how="session_expired", instance="w")


def _flapping(group: str, endings: Sequence[str]) -> Scribe:
    """A static member goes after a minute, in one way or another, and comes every ten minutes."""
    scribe = Scribe(group)
    for number, how in enumerate((*endings, "open")):
        at = number * 600_000
        scribe.joined(at, f"f{number}", "f")
        if how != "open":
            scribe.gone(at + 60_000, f"f{number}", how)
    return scribe


@scenario
def flapping_on() -> Scribe:
    """It is back for the fifth time."""
    return _flapping("flapping-on", ("left", "left", "left", "left", "removed"))


@scenario
def flapping_for_once() -> Scribe:
    """It is back for the third time, and has not gone since."""
    return _flapping("flapping-for-once", ("left", "left", "left"))


@scenario
def flapping_hardly() -> Scribe:
    """It is back for the second time."""
    return _flapping("flapping-hardly", ("left", "left"))


def _awaited(group: str, waits: Sequence[tuple[str, int]], **instances: str) -> Scribe:
    """Two members keep what they have, and one of them is waited for each time."""
    scribe = Scribe(group, instances=instances)
    scribe.founded(0, a=[0], b=[1])
    for number, (member, wait_ms) in enumerate(waits, 1):
        at = number * 10_000
        joins = {"a": (0, [0]), "b": (0, [1])}
        joins[member] = (wait_ms, joins[member][1])
        scribe.started(at, "admin", ["a", "b"])
        scribe.phase(at + wait_ms, wait_ms, joins)
        scribe.completed(at + wait_ms + 10, {"a": [0], "b": [1]})
    return scribe


@scenario
def awaited() -> Scribe:
    """For just a second each of three times, which is just half of the time."""
    return _awaited("awaited", (("a", 1000), ("b", 3000), ("a", 1000), ("a", 1000)))


@scenario
def awaited_less() -> Scribe:
    """For a little less than half of the time."""
    return _awaited("awaited-less", (("a", 1000), ("b", 3001), ("a", 1000), ("a", 1000)))


@scenario
def awaited_twice() -> Scribe:
    """The third time is a little less than a second."""
    return _awaited("awaited-twice", (("a", 5000), ("a", 5000), ("a", 999)))


@scenario
def awaited_by_name() -> Scribe:
    """It is a static member."""
    return _awaited("awaited-by-name", [("a", 2000)] * 3, a="i")


@scenario
def awaited_in_vain() -> Scribe:
    """An id is not claimed, so its origin is unknown."""
    scribe = Scribe("awaited-in-vain")
    scribe.founded(0, a=[0])
    for at in (10_000, 20_000, 30_000):
        scribe.started(at, "member_joined", ["a"])
        scribe.unclaimed(at + 1500, "ghost")
        scribe.phase(at + 1500, 1500, {"a": (0, [0])})
        scribe.completed(at + 1500, {"a": [0]})
    return scribe


@scenario
def awaited_without_end() -> Scribe:
    """An id is not claimed, and each time another rebalance begins before all have joined."""
    scribe = Scribe("awaited-without-end")
    scribe.founded(0, a=[0])
    for at in (10_000, 20_000, 30_000):
        scribe.started(at, "member_joined", ["a"], from_state="PreparingRebalance")
        scribe.unclaimed(at + 1500, "ghost")
    return scribe


@scenario
def one_name_for_two() -> Scribe:
    """Two processes of one host have one name."""
    scribe = Scribe("one-name-for-two", instances={"a1": "i"}, hosts={"a1": "/h", "a2": "/h"})
    scribe.founded(0, a1=[0])
    scribe.replaced(1000, "a1", "a2")
    scribe.fenced(1300, "a1", "a2")
    return scribe


@scenario
def one_name_from_somewhere() -> Scribe:
    """Of two processes with one name, the address of one is unknown."""
    scribe = Scribe("one-name-from-somewhere", instances={"a1": "i"}, hosts={"a1": ""})
    scribe.founded(0, a1=[0])
    scribe.replaced(1000, "a1", "a2")
    scribe.fenced(1300, "a1", "a2")
    return scribe


@scenario
def one_name_from_nowhere() -> Scribe:
    """The addresses of two processes with one name are unknown."""
    scribe = Scribe("one-name-from-nowhere", instances={"a1": "i"}, hosts={"a1": "", "a2": ""})
    scribe.founded(0, a1=[0])
    scribe.replaced(1000, "a1", "a2")
    scribe.fenced(1300, "a1", "a2")
    return scribe

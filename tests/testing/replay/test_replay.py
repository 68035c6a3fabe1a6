"""A history that is played again happens as it did, and otherwise with other settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coterie_client import Group, Partition
from coterie_protocol.journal import Line
from coterie_testing.kit import Cluster
from coterie_testing.replay import Changes, Outcome, Play, outcome_of, play_of, replay


def worker(bootstrap: str, name: str) -> Coroutine[Any, Any, None]:
    """A worker's whole life."""

    async def work(partition: Partition) -> None:
        while True:
            await asyncio.sleep(30)
            await partition.commit(1)

    async def main() -> None:
        async with Group(
            bootstrap, "g", topics=["jobs"], client_id=name, session_timeout=10
        ) as group:
            await group.run(work)

    return main()


@pytest.fixture
def flapping(coterie_cluster: Callable[..., Cluster]) -> list[Line]:
    """The journal of a group in which one member pauses now and then, a little too long."""
    cluster = coterie_cluster({"jobs": 6})
    programs = [cluster.start(name, worker(cluster.bootstrap, name)) for name in "abc"]
    cluster.run(60)
    for _ in range(4):
        programs[0].pause(12)
        cluster.run(60)
    programs[1].kill()
    cluster.run(60)
    programs[2].stop()
    cluster.run(60)
    return cluster.journal


def played(lines: list[Line], **wishes: str) -> Outcome:
    """The outcome with other settings."""
    changes = Changes.parse({key.replace("_", "."): value for key, value in wishes.items()})
    return replay(play_of(lines, "g"), changes)


def test_history_happens_again(flapping: list[Line]) -> None:
    """The same expiries, and as many rebalances, give or take those who come at one moment."""
    before, after = outcome_of(flapping, "g"), played(flapping)
    assert after.rebalances["session_expired"] == before.rebalances["session_expired"] == 5
    assert after.rebalances["member_left"] == 1
    assert abs(after.rebalance_count - before.rebalance_count) <= 2


def test_longer_session_forgives_short_pauses(flapping: list[Line]) -> None:
    """Only who died is dropped, and it takes longer to see that."""
    short, long = played(flapping), played(flapping, session_timeout_ms="20000")
    assert long.rebalances["session_expired"] == 1
    assert long.rebalance_count < short.rebalance_count
    assert short.slowest_takeover_s is not None
    assert long.slowest_takeover_s is not None
    assert long.slowest_takeover_s > short.slowest_takeover_s + 5


def test_eager_assignor_stops_more(flapping: list[Line]) -> None:
    """Each rebalance stops everybody."""
    eager, cooperative = played(flapping, assignor="range"), played(flapping)
    assert eager.stopped_s is not None
    assert cooperative.stopped_s is not None
    assert eager.revoked > cooperative.revoked


def test_same_seed_same_outcome(flapping: list[Line]) -> None:
    """As everything in virtual time."""
    play: Play = play_of(flapping, "g")
    assert replay(play, seed=3) == replay(play, seed=3)


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"sesion.timeout.ms": "1"}, "unknown setting sesion.timeout.ms"),
        ({"session.timeout.ms": "soon"}, "no number of milliseconds"),
        ({"assignor": "fair"}, "no assignor 'fair'"),
        ({"static": "yes"}, "neither true nor false"),
    ],
)
def test_changes_that_make_no_sense(wishes: dict[str, str], sentence: str) -> None:
    """They are refused by name."""
    with pytest.raises(ValueError, match=sentence):
        Changes.parse(wishes)


def test_changes_say_what_they_are() -> None:
    """In the words in which they are given."""
    wishes = {"session.timeout.ms": "20000", "group.initial.rebalance.delay.ms": "0"}
    said = "session.timeout.ms=20000, group.initial.rebalance.delay.ms=0"
    assert str(Changes.parse(wishes)) == said
    assert str(Changes()) == "as it was"

"""A replay repeats what happened, and shows what other settings would have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace as changed
from typing import Any

import pytest

from coterie_client import Group, Partition
from coterie_protocol import ApiKey
from coterie_protocol.journal import Line, MemberGone
from coterie_testing.kit import Cluster
from coterie_testing.replay import (
    Changes,
    Cost,
    TooLongError,
    cost_of,
    read_recording,
    replay,
)


def worker(bootstrap: str, name: str, **options: Any) -> Coroutine[Any, Any, None]:
    """A worker's whole life."""
    options = {"client_id": name, "session_timeout": 10, **options}

    async def work(partition: Partition) -> None:
        while True:
            await asyncio.sleep(30)
            await partition.commit(1)

    async def main() -> None:
        async with Group(bootstrap, "g", topics=["jobs"], **options) as group:
            await group.run(work)

    return main()


@pytest.fixture(scope="module")
def flapping() -> tuple[Line, ...]:
    """The journal of a group in which one member pauses now and then, a little too long."""
    with Cluster({"jobs": 6}) as cluster:
        programs = [cluster.start(name, worker(cluster.bootstrap, name)) for name in "abc"]
        cluster.run(60)
        for _ in range(4):
            programs[0].pause(12)
            cluster.run(60)
        programs[1].kill()
        cluster.run(60)
        programs[2].stop()
        cluster.run(60)
        return tuple(cluster.journal)


@pytest.fixture
def rolling(coterie_cluster: Callable[..., Cluster]) -> list[Line]:
    """The journal of a group whose members restart one after the other, and come back at once."""
    cluster = coterie_cluster({"jobs": 6})
    programs = {name: cluster.start(name, worker(cluster.bootstrap, name)) for name in "abc"}
    cluster.run(60)
    for name in "abc":
        programs[name].stop()
        cluster.run(3)
        programs[name] = cluster.start(name, worker(cluster.bootstrap, name))
        cluster.run(30)
    return cluster.journal


@pytest.fixture
def busy(coterie_cluster: Callable[..., Cluster]) -> list[Line]:
    """The journal of a group with a member that is once too busy to join for over a minute."""
    cluster = coterie_cluster({"jobs": 6})
    for name in "abc":
        cluster.start(name, worker(cluster.bootstrap, name, rebalance_timeout=60))
    cluster.run(60)
    cluster.faults.drop(api=ApiKey.JOIN_GROUP, client_id="a", seconds=64)
    cluster.start("d", worker(cluster.bootstrap, "d", rebalance_timeout=60))
    cluster.run(200)
    return cluster.journal


def replayed(lines: Iterable[Line], **settings: str) -> Cost:
    """The cost with other settings."""
    changes = Changes.parse({key.replace("_", "."): value for key, value in settings.items()})
    return replay(read_recording(lines, "g"), changes)


@pytest.fixture(scope="module")
def unchanged(flapping: tuple[Line, ...]) -> Cost:
    """The cost of short pauses, replayed without changes."""
    return replayed(flapping)


@pytest.fixture(scope="module")
def forgiving(flapping: tuple[Line, ...]) -> Cost:
    """The cost of short pauses with a session that is longer than they are."""
    return replayed(flapping, session_timeout_ms="20000")


def test_replay_without_changes_has_the_same_rebalances(
    flapping: tuple[Line, ...], unchanged: Cost
) -> None:
    before, after = cost_of(flapping, "g"), unchanged
    assert after.rebalances["session_expired"] == before.rebalances["session_expired"] == 5
    assert after.rebalances["member_left"] == 1
    assert abs(after.rebalance_count - before.rebalance_count) <= 2


def test_longer_session_forgives_short_pauses(unchanged: Cost, forgiving: Cost) -> None:
    short, long = unchanged, forgiving
    assert long.rebalances["session_expired"] == 1
    assert long.rebalance_count < short.rebalance_count
    assert short.slowest_takeover_s is not None
    assert long.slowest_takeover_s is not None
    assert long.slowest_takeover_s > short.slowest_takeover_s + 5


def test_eager_assignor_revokes_more(flapping: tuple[Line, ...], unchanged: Cost) -> None:
    eager, cooperative = replayed(flapping, assignor="range"), unchanged
    assert eager.stopped_s is not None
    assert cooperative.stopped_s is not None
    assert eager.revoked > cooperative.revoked


def test_silence_counts_as_stopped_even_if_no_session_expires(forgiving: Cost) -> None:
    assert forgiving.rebalances["session_expired"] == 1
    # Two partitions each time, since it was last heard of; and those of the one that dies.
    assert forgiving.stopped_s is not None
    assert 4 * 2 * 12 + 2 * 20 < forgiving.stopped_s < 4 * 2 * 15 + 2 * 23


def test_stopped_time_in_the_journal_is_near_what_workers_did_not_do(unchanged: Cost) -> None:
    journalled = cost_of(unchanged.lines, "g")
    assert journalled.stopped_s is not None
    assert journalled.stopped_s == pytest.approx(unchanged.stopped_s, rel=0.15)
    assert journalled.takeovers_s == unchanged.takeovers_s


@pytest.mark.slow
def test_static_members_restart_without_rebalances(rolling: list[Line]) -> None:
    before, after = replayed(rolling), replayed(rolling, static="true")
    assert before.rebalances["member_left"] == cost_of(rolling, "g").rebalances["member_left"]
    assert before.rebalances["member_left"] == 3
    assert after.rebalances["member_left"] == 0
    assert before.rebalance_count - after.rebalance_count >= 6


@pytest.mark.slow
def test_stalled_member_is_dropped_again_unless_the_rebalance_timeout_is_longer(
    busy: list[Line],
) -> None:
    def dropped(cost: Cost) -> list[str]:
        gone = [line.event for line in cost.lines if isinstance(line.event, MemberGone)]
        return [event.how for event in gone]

    assert dropped(cost_of(busy, "g")) == ["rebalance_expired"]
    assert dropped(replayed(busy)) == ["rebalance_expired"]
    assert dropped(replayed(busy, max_poll_interval_ms="120000")) == []


def test_quiet_nights_take_hardly_any_steps(coterie_cluster: Callable[..., Cluster]) -> None:
    cluster = coterie_cluster({"jobs": 2})
    cluster.start("a", worker(cluster.bootstrap, "a"))
    cluster.run(60)
    cluster.start("b", worker(cluster.bootstrap, "b"))
    cluster.run(60)
    lines = cluster.journal
    joined = [line for line in lines if line.event.kind == "member_joined"][1]
    hour_ms = 3_600_000
    late = [changed(line, ts=line.ts + 12 * hour_ms * (line.seq >= joined.seq)) for line in lines]
    short, long = (replay(read_recording(each, "g")) for each in (lines, late))
    assert long.rebalances == short.rebalances
    assert long.steps < short.steps + 1_000


def test_replay_with_too_many_steps_is_given_up(flapping: tuple[Line, ...]) -> None:
    with pytest.raises(TooLongError, match="a replay takes more than 1,000 steps"):
        replay(read_recording(flapping, "g"), steps_max=1_000)


def test_same_seed_gives_the_same_cost(flapping: tuple[Line, ...]) -> None:
    recording = read_recording(flapping[: len(flapping) // 2], "g")
    assert replay(recording, seed=3) == replay(recording, seed=3)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"sesion.timeout.ms": "1"},
            "unknown setting sesion.timeout.ms; the nearest known one is session.timeout.ms",
        ),
        ({"foo": "1"}, "^unknown setting foo; there are session.timeout.ms, max.poll"),
        ({"group.min.session.timeout.ms": "1"}, "unknown setting group.min.session.timeout.ms"),
        ({"group.max.size": "none"}, "group.max.size"),
        ({"session.timeout.ms": "soon"}, "must be a positive number of milliseconds, got"),
        ({"assignor": "fair"}, "got 'fair'"),
        ({"static": "yes"}, "must be true or false"),
    ],
)
def test_invalid_changes_are_refused_by_name(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Changes.parse(settings)


def test_changes_print_as_they_are_given() -> None:
    settings = {"session.timeout.ms": "20000", "group.initial.rebalance.delay.ms": "0"}
    said = "session.timeout.ms=20000, group.initial.rebalance.delay.ms=0"
    assert str(Changes.parse(settings)) == said
    assert str(Changes.parse({"static": "true"})) == "static=true"
    assert str(Changes()) == "as it was"

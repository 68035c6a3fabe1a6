"""Groups of our members that are restarted one by one, on any coordinator.

A test module takes the tests over by import, and provides the fixture `address`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.live.judge import overlaps, resumed_wrongly, tokens_not_growing
from tests.live.team import Team

__all__ = [
    "team",
    "test_group_goes_over_to_cooperative_in_two_bounces",
    "test_killed_static_member_comes_back_unnoticed",
    "test_rolling_restart_of_static_members_moves_nothing",
    "test_second_process_of_a_name_fences_the_first",
]

PARTITIONS: Final = 12
NAMES: Final = ("one", "two", "three")


@pytest.fixture
def team(address: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Team]:
    """Give a group of its own to the test."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")
    with Team(address, name, tmp_path, PARTITIONS) as team:
        yield team


def test_rolling_restart_of_static_members_moves_nothing(team: Team) -> None:
    """Static members are restarted one by one: nothing is revoked, and the generation stays."""
    workers = {name: team.work(name, instance=name) for name in NAMES}
    before = after = team.settle(*workers.values())
    for name in NAMES:
        workers[name].close()
        workers[name] = team.work(f"{name} again", instance=name)
        after = team.settle(*workers.values())
    assert after.generation == before.generation
    assert all(after.of(f"{name} again") == before.of(name) for name in NAMES)
    assert _moves(team, before.at_s) == []
    runs = [run for run in team.runs if run.began_s > before.at_s]
    assert sorted(run.partition for run in runs) == sorted(team.partitions)
    assert overlaps(team.stints()) == []
    assert tokens_not_growing(team.runs) == []
    assert resumed_wrongly(team.runs) == []


def test_killed_static_member_comes_back_unnoticed(team: Team) -> None:
    """A static member is killed and comes back in time: to the other one, nothing has happened."""
    staying, dying = (team.work(name, instance=name) for name in ("staying", "dying"))
    before = team.settle(staying, dying)
    dying.die()
    coming = team.work("coming", instance="dying")
    after = team.settle(staying, coming)
    assert after.generation == before.generation
    assert after.of("coming") == before.of("dying")
    assert all(after.runs[each] is before.runs[each] for each in before.of("staying"))
    assert overlaps(team.stints()) == []
    assert resumed_wrongly(team.runs) == []


def test_second_process_of_a_name_fences_the_first(team: Team) -> None:
    """The later process of a name wins; the earlier one ends, names both, and commits no more."""
    first = team.work("first", instance="worker-1")
    team.settle(first)
    was = first.state["member"]
    second = team.work("second", instance="worker-1")
    first.wait()
    team.settle(second)
    assert first.ending is not None
    error, text = first.ending
    assert error == "FencedInstanceIdError"
    assert "'worker-1'" in text
    assert f"{was} at {socket.gethostname()} " in text
    assert f"{second.state['member']} at 127.0.0.1" in text
    # Both may have worked at a time for a moment, which only a token fences; but no commit of the
    # first passed after the second had asked where to go on.
    assert tokens_not_growing(team.runs) == []
    assert resumed_wrongly(team.runs) == []


def test_group_goes_over_to_cooperative_in_two_bounces(team: Team) -> None:
    """From range over both to cooperative-sticky, one member after the other, all at work."""
    names = NAMES[:2]
    workers = {name: team.work(name, assignor="range") for name in names}
    before = team.settle(*workers.values())
    protocols = []
    for assignors in ("cooperative-sticky,range", "cooperative-sticky"):
        for name in names:
            workers[name].close()
            workers[name] = team.work(f"{name} {assignors}", assignor=assignors)
            before = team.settle(*workers.values())
            protocols.append(team.describe().protocol)
    assert protocols == ["range", *["cooperative-sticky"] * 3]
    after = team.settle(*workers.values(), team.work("new"))
    kept = [each for each in team.partitions if after.holders[each] == before.holders[each]]
    assert len(kept) == 8
    assert all(after.runs[each] is before.runs[each] for each in kept)
    assert overlaps(team.stints()) == []
    assert tokens_not_growing(team.runs) == []
    assert resumed_wrongly(team.runs) == []


def _moves(team: Team, since_s: float) -> list[dict[str, object]]:
    """What members were told to let go of, or lost, since then although they did not stop."""
    return [
        record
        for worker in team.workers
        for record in worker.records
        if record["what"] in ("revoking", "lost")
        and record["at"] > since_s
        and record["reason"] != "closing"
    ]

"""Coterie's static members, and members that change their assignors, on any coordinator.

A test module takes the tests over by import, and provides the fixture `address`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.live.ownership import overlaps, resumed_wrongly, tokens_not_growing
from tests.live.portable_group import PortableGroup

__all__ = [
    "portable_group",
    "test_group_upgrades_to_cooperative_in_two_rolling_restarts",
    "test_killed_static_member_comes_back_unnoticed",
    "test_rolling_restart_of_static_members_moves_nothing",
    "test_second_process_with_an_instance_id_fences_the_first",
]

PARTITIONS: Final = 12
NAMES: Final = ("one", "two", "three")


@pytest.fixture
def portable_group(
    address: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[PortableGroup]:
    """A group for one test."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")
    with PortableGroup(address, name, tmp_path, PARTITIONS) as portable_group:
        yield portable_group


def test_rolling_restart_of_static_members_moves_nothing(portable_group: PortableGroup) -> None:
    workers = {name: portable_group.work(name, instance=name) for name in NAMES}
    before = after = portable_group.settle(*workers.values())
    for name in NAMES:
        workers[name].close()
        workers[name] = portable_group.work(f"{name} again", instance=name)
        after = portable_group.settle(*workers.values())
    assert after.generation == before.generation
    assert all(after.of(f"{name} again") == before.of(name) for name in NAMES)
    assert _moves(portable_group, before.at_s) == []
    runs = [run for run in portable_group.runs if run.began_s > before.at_s]
    assert sorted(run.partition for run in runs) == sorted(portable_group.partitions)
    assert overlaps(portable_group.ownerships()) == []
    assert tokens_not_growing(portable_group.runs) == []
    assert resumed_wrongly(portable_group.runs) == []


def test_killed_static_member_comes_back_unnoticed(portable_group: PortableGroup) -> None:
    staying, dying = (portable_group.work(name, instance=name) for name in ("staying", "dying"))
    before = portable_group.settle(staying, dying)
    dying.die()
    coming = portable_group.work("coming", instance="dying")
    after = portable_group.settle(staying, coming)
    assert after.generation == before.generation
    assert after.of("coming") == before.of("dying")
    assert all(after.runs[each] is before.runs[each] for each in before.of("staying"))
    assert overlaps(portable_group.ownerships()) == []
    assert resumed_wrongly(portable_group.runs) == []


def test_second_process_with_an_instance_id_fences_the_first(portable_group: PortableGroup) -> None:
    first = portable_group.work("first", instance="worker-1")
    portable_group.settle(first)
    was = first.state["member"]
    second = portable_group.work("second", instance="worker-1")
    first.wait()
    portable_group.settle(second)
    assert first.ending is not None
    error, text = first.ending
    assert error == "FencedInstanceIdError"
    assert "'worker-1'" in text
    assert f"{was} at {socket.gethostname()} " in text
    assert f"{second.state['member']} at 127.0.0.1" in text
    # Both may have worked at a time for a moment, which only a token fences; but no commit of the
    # first passed after the second had asked where to go on.
    assert tokens_not_growing(portable_group.runs) == []
    assert resumed_wrongly(portable_group.runs) == []


def test_group_upgrades_to_cooperative_in_two_rolling_restarts(
    portable_group: PortableGroup,
) -> None:
    names = NAMES[:2]
    workers = {name: portable_group.work(name, assignor="range") for name in names}
    before = portable_group.settle(*workers.values())
    protocols = []
    for assignors in ("cooperative-sticky,range", "cooperative-sticky"):
        for name in names:
            workers[name].close()
            workers[name] = portable_group.work(f"{name} {assignors}", assignor=assignors)
            before = portable_group.settle(*workers.values())
            protocols.append(portable_group.describe().protocol)
    assert protocols == ["range", *["cooperative-sticky"] * 3]
    after = portable_group.settle(*workers.values(), portable_group.work("new"))
    kept = [
        each for each in portable_group.partitions if after.holders[each] == before.holders[each]
    ]
    assert len(kept) == 8
    assert all(after.runs[each] is before.runs[each] for each in kept)
    assert overlaps(portable_group.ownerships()) == []
    assert tokens_not_growing(portable_group.runs) == []
    assert resumed_wrongly(portable_group.runs) == []


def _moves(portable_group: PortableGroup, since_s: float) -> list[dict[str, object]]:
    """What running members had to revoke, or lost, since then."""
    return [
        record
        for worker in portable_group.workers
        for record in worker.records
        if record["what"] in ("revoking", "lost")
        and record["at"] > since_s
        and record["reason"] != "closing"
    ]

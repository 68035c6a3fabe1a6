"""Coterie's members beside those of other libraries in one group, on any coordinator.

For each library of each kind of group there is a group that it leads; a few of them live at a time,
because most of it is waiting. A test module takes the tests over by import, and provides the
fixture `address`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.live.member import (
    AIOKAFKA,
    CONFLUENT_COOPERATIVE,
    KAFKA_PYTHON,
    KAFKA_PYTHON_COOPERATIVE,
    Client,
)
from tests.live.ownership import Ownership, TaskRun, overlaps, resumed_wrongly
from tests.live.portable_group import PortableGroup, Snapshot
from tests.live.worker import COTERIE, COTERIE_RANGE, COTERIE_ROUNDROBIN

__all__ = [
    "MixedGroup",
    "mixed_group",
    "mixed_groups",
    "test_first_to_come_leads",
    "test_members_agree_on_an_assignor_and_have_equal_shares",
    "test_no_partition_has_two_owners_at_a_time",
    "test_others_share_all_partitions_when_the_leader_has_left",
    "test_our_tasks_resume_at_the_committed_offset",
]

PARTITIONS: Final = 12
#: The clients that can be in one group, as all have the assignor. Ours comes first.
FAMILIES: Final = (
    (COTERIE, KAFKA_PYTHON_COOPERATIVE, CONFLUENT_COOPERATIVE),
    (COTERIE_RANGE, KAFKA_PYTHON),
    (COTERIE_ROUNDROBIN, AIOKAFKA),
)
_AT_ONCE: Final = 3


@dataclass(frozen=True, slots=True)
class MixedGroup:
    """A group of several libraries, and what happened in it."""

    leader: Client
    family: tuple[Client, ...]
    #: With all members, and without the leader.
    together: Snapshot
    without_leader: Snapshot
    #: The assignor that they had agreed on.
    protocol: str
    #: Which of our members have assigned partitions before the leader left.
    deciders: frozenset[str]
    ownerships: list[Ownership]
    runs: list[TaskRun]


def _play(leader: Client, family: tuple[Client, ...], address: str, folder: Path) -> MixedGroup:
    with PortableGroup(address, f"led-by-{leader}", folder, PARTITIONS) as portable_group:
        first = portable_group.start(leader, f"{leader}-leading")
        portable_group.settle(first)
        others = [portable_group.start(client, f"{client}-beside-{leader}") for client in family]
        together = portable_group.calm(first, *others)
        protocol = portable_group.describe().protocol
        deciders = frozenset(worker.name for worker in portable_group.workers if worker.has_decided)
        first.close()
        return MixedGroup(
            leader=leader,
            family=family,
            together=together,
            without_leader=portable_group.calm(*others),
            protocol=protocol,
            deciders=deciders,
            ownerships=portable_group.ownerships(),
            runs=portable_group.runs,
        )


@pytest.fixture(scope="module")
def mixed_groups(
    address: str, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Future[MixedGroup]]:
    """Run all groups; the result of each by its leader."""
    folder = tmp_path_factory.mktemp("mixed")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {
            leader.name: pool.submit(_play, leader, family, address, folder)
            for family in FAMILIES
            for leader in family
        }


@pytest.fixture(params=[leader.name for family in FAMILIES for leader in family])
def mixed_group(
    request: pytest.FixtureRequest, mixed_groups: Mapping[str, Future[MixedGroup]]
) -> MixedGroup:
    """The group of one leader; raises what failed in it."""
    return mixed_groups[request.param].result()


def test_members_agree_on_an_assignor_and_have_equal_shares(mixed_group: MixedGroup) -> None:
    members = len(mixed_group.family) + 1
    assert mixed_group.protocol == mixed_group.leader.assignor
    assert mixed_group.together.sizes() == [PARTITIONS // members] * members


def test_first_to_come_leads(mixed_group: MixedGroup) -> None:
    """So each library has led all the others."""
    is_ours = mixed_group.leader is mixed_group.family[0]
    assert mixed_group.deciders == ({f"{mixed_group.leader}-leading"} if is_ours else set())


def test_others_share_all_partitions_when_the_leader_has_left(mixed_group: MixedGroup) -> None:
    members = len(mixed_group.family)
    assert mixed_group.without_leader.sizes() == [PARTITIONS // members] * members


def test_no_partition_has_two_owners_at_a_time(mixed_group: MixedGroup) -> None:
    assert {ownership.partition for ownership in mixed_group.ownerships} == set(range(PARTITIONS))
    assert overlaps(mixed_group.ownerships) == []


def test_our_tasks_resume_at_the_committed_offset(mixed_group: MixedGroup) -> None:
    assert mixed_group.runs
    assert resumed_wrongly(mixed_group.runs) == []

"""Our members beside those of other libraries in one group, on any coordinator.

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

from tests.live.judge import Run, Stint, overlaps, resumed_wrongly
from tests.live.member import (
    AIOKAFKA,
    CONFLUENT_COOPERATIVE,
    KAFKA_PYTHON,
    KAFKA_PYTHON_COOPERATIVE,
    Client,
)
from tests.live.team import Snapshot, Team
from tests.live.worker import COTERIE, COTERIE_RANGE, COTERIE_ROUNDROBIN

__all__ = [
    "Outcome",
    "outcome",
    "outcomes",
    "test_all_have_equal_shares",
    "test_first_to_come_leads",
    "test_no_partition_has_two_owners_at_a_time",
    "test_others_share_what_the_leader_leaves",
    "test_ours_go_on_where_the_group_was",
]

PARTITIONS: Final = 12
#: Who can be in one group: all have the assignor. Ours comes first.
FAMILIES: Final = (
    (COTERIE, KAFKA_PYTHON_COOPERATIVE, CONFLUENT_COOPERATIVE),
    (COTERIE_RANGE, KAFKA_PYTHON),
    (COTERIE_ROUNDROBIN, AIOKAFKA),
)
_AT_ONCE: Final = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group."""

    leader: Client
    family: tuple[Client, ...]
    #: With everybody, and without the leader.
    together: Snapshot
    bereft: Snapshot
    #: The assignor that they had agreed on.
    protocol: str
    #: Who of ours has shared out partitions before the leader left.
    deciders: frozenset[str]
    stints: list[Stint]
    runs: list[Run]


def _play(leader: Client, family: tuple[Client, ...], address: str, folder: Path) -> Outcome:
    with Team(address, f"led-by-{leader}", folder, PARTITIONS) as team:
        first = team.start(leader, f"{leader}-leading")
        team.settle(first)
        others = [team.start(client, f"{client}-beside-{leader}") for client in family]
        together = team.calm(first, *others)
        protocol = team.describe().protocol
        deciders = frozenset(worker.name for worker in team.workers if worker.has_decided)
        first.close()
        return Outcome(
            leader=leader,
            family=family,
            together=together,
            bereft=team.calm(*others),
            protocol=protocol,
            deciders=deciders,
            stints=team.stints(),
            runs=team.runs,
        )


@pytest.fixture(scope="module")
def outcomes(
    address: str, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Future[Outcome]]:
    """Let all groups live, and tell what became of each, by its leader."""
    folder = tmp_path_factory.mktemp("mixed")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {
            leader.name: pool.submit(_play, leader, family, address, folder)
            for family in FAMILIES
            for leader in family
        }


@pytest.fixture(params=[leader.name for family in FAMILIES for leader in family])
def outcome(request: pytest.FixtureRequest, outcomes: Mapping[str, Future[Outcome]]) -> Outcome:
    """Tell what became of the group of one leader; raise what kept it from getting there."""
    return outcomes[request.param].result()


def test_all_have_equal_shares(outcome: Outcome) -> None:
    """Members of all libraries agree on an assignor, and settle with equal shares."""
    members = len(outcome.family) + 1
    assert outcome.protocol == outcome.leader.assignor
    assert outcome.together.sizes() == [PARTITIONS // members] * members


def test_first_to_come_leads(outcome: Outcome) -> None:
    """As long as the first member is there it leads, so each library has led all the others."""
    is_ours = outcome.leader is outcome.family[0]
    assert outcome.deciders == ({f"{outcome.leader}-leading"} if is_ours else set())


def test_others_share_what_the_leader_leaves(outcome: Outcome) -> None:
    """When the leader has left, the others share all partitions, whoever leads them now."""
    members = len(outcome.family)
    assert outcome.bereft.sizes() == [PARTITIONS // members] * members


def test_no_partition_has_two_owners_at_a_time(outcome: Outcome) -> None:
    """By what they tell, no member had a partition before the former one had let go of it."""
    assert {stint.partition for stint in outcome.stints} == set(range(PARTITIONS))
    assert overlaps(outcome.stints) == []


def test_ours_go_on_where_the_group_was(outcome: Outcome) -> None:
    """Tasks of ours go on at the offset that was committed last, whoever was there in between."""
    assert outcome.runs
    assert resumed_wrongly(outcome.runs) == []

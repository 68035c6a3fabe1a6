"""kill -9 of a coordinator in the midst of a rebalance, under the members that people have."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import pytest

from coterie_protocol import messages as m
from coterie_protocol.journal import GroupRecovered, MemberJoined, PhaseJoined
from tests.ha.conftest import PARTITIONS, TOPIC
from tests.ha.nodes import Nodes
from tests.live.daemon import eventually
from tests.live.member import KAFKA_PYTHON, KAFKA_PYTHON_COOPERATIVE, Client, MemberProcess
from tests.live.ownership import overlaps, resumed_wrongly, tokens_not_growing
from tests.live.programs.lines import Options
from tests.live.wire import Wire, run
from tests.live.worker import COTERIE, COTERIE_RANGE, Worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("store", ["postgres"], indirect=True),
]

MEMBERS: Final = 2
GROWN: Final = 8
PATIENCE_S: Final = 60.0
#: Long enough for a member to join again that looks at the topics once more.
CALM_S: Final = 1.5
OFFSET: Final = 7

#: Where the coordinator is killed, and after how many.
POINTS: Final = (
    ("rebalance_stored", 1),
    ("told_to_rejoin", 1),
    ("joined", 1),
    ("generation_stored", 1),
    ("told_generation", 1),
)

KAFKA_PYTHONS: Final = (KAFKA_PYTHON, KAFKA_PYTHON_COOPERATIVE)
COTERIES: Final = (COTERIE, COTERIE_RANGE)


class ClientGroup:
    """Members of one library, in a generation, on a node that is about to fail."""

    def __init__(self, nodes: Nodes, client: Client, folder: Path) -> None:
        self.nodes = nodes
        self.other, self.failing = nodes.both
        self.name = nodes.group_on(self.failing)
        start: Callable[..., MemberProcess] = Worker if client in COTERIES else MemberProcess
        self.members = [
            start(client, self._options(client, f"m{number}"), folder) for number in range(MEMBERS)
        ]

    def _options(self, client: Client, name: str) -> Options:
        return Options(
            bootstrap=self.nodes.address,
            group=self.name,
            topic=TOPIC,
            client=name,
            assignor=client.assignor,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.die()

    def look(self) -> dict[str, Any]:
        """The group as its coordinator shows it."""
        return self.nodes.group(self.name)

    def settle(self, partitions: int) -> dict[str, Any]:
        """Wait until the members share all partitions, and no more rebalances follow."""
        while True:
            eventually(lambda: self._is_settled(partitions), self._why_not, PATIENCE_S)
            generation = self.look()["generation"]
            time.sleep(CALM_S)
            if self._is_settled(partitions) and self.look()["generation"] == generation:
                return self.look()

    def _is_settled(self, partitions: int) -> bool:
        owned = sorted(partition for member in self.members for partition in member.owned)
        if owned != list(range(partitions)):
            return False
        try:
            group = self.look()
        except OSError:
            return False
        return group["state"] == "Stable" and len(group["members"]) == MEMBERS

    def _why_not(self) -> str:
        told = "\n".join(member.told() for member in self.members)
        return f"the members do not share all partitions\n{told}\n{self.other.log()}"

    def fail_while_growing(self, point: str, count: int) -> None:
        """Let the topic grow, and the coordinator be killed when the rebalance has come so far."""
        self.failing.arm(point, self.name, count, signal.SIGKILL)
        run(self._grow())
        self.failing.wait_until_hit()

    async def _grow(self) -> None:
        wire = await Wire.open(self.other.port)
        topic = m.CreatePartitionsTopic(name=TOPIC, count=GROWN, assignments=None)
        request = m.CreatePartitionsRequest(topics=(topic,), timeout_ms=20_000, validate_only=False)
        # The node knows who has the group, so it answers when that has been told, or has gone.
        await wire.ask(request, 1)
        wire.close()

    def check_journal(self, ids: set[str]) -> None:
        """The other node took the group over, with its members, and none of them began anew."""
        self.other.end()
        after = self.other.events(self.name)
        assert isinstance(after[0], GroupRecovered)
        assert set(after[0].members) == ids
        assert [each for each in after if isinstance(each, MemberJoined)] == []
        both = [*self.failing.events(self.name), *after]
        generations = [each.generation for each in both if isinstance(each, PhaseJoined)]
        assert generations == sorted(set(generations))


def ids_of(group: dict[str, Any]) -> set[str]:
    """The members of a group, as a node shows it."""
    return {member["member"] for member in group["members"]}


@pytest.mark.parametrize(("point", "count"), POINTS, ids=[point for point, _ in POINTS])
@pytest.mark.parametrize("client", KAFKA_PYTHONS, ids=str)
def test_stock_members_carry_on(
    nodes: Nodes, tmp_path: Path, client: Client, point: str, count: int
) -> None:
    with ClientGroup(nodes, client, tmp_path) as group:
        before = group.settle(PARTITIONS)
        for member in group.members:
            member.commit(dict.fromkeys(member.owned, OFFSET))
        group.fail_while_growing(point, count)
        after = group.settle(GROWN)
        assert ids_of(after) == ids_of(before)
        assert after["generation"] > before["generation"]
        committed: dict[int, int] = {}
        for member in group.members:
            assert member.fatal() == []
            committed |= member.offsets("committed")
        assert {committed[partition] for partition in range(PARTITIONS)} == {OFFSET}
        assert overlaps([o for member in group.members for o in member.ownerships()]) == []
        group.check_journal(ids_of(before))


@pytest.mark.parametrize(("point", "count"), POINTS, ids=[point for point, _ in POINTS])
@pytest.mark.parametrize("client", COTERIES, ids=str)
def test_members_of_ours_carry_on(
    nodes: Nodes, tmp_path: Path, client: Client, point: str, count: int
) -> None:
    with ClientGroup(nodes, client, tmp_path) as group:
        before = group.settle(PARTITIONS)
        group.fail_while_growing(point, count)
        after = group.settle(GROWN)
        assert ids_of(after) == ids_of(before)
        assert after["generation"] > before["generation"]
        workers = [member for member in group.members if isinstance(member, Worker)]
        runs = [run for worker in workers for run in worker.runs]
        assert overlaps([run.ownership for run in runs]) == []
        assert tokens_not_growing(runs) == []
        assert resumed_wrongly(runs) == []
        assert all(worker.ending is None for worker in workers)
        group.check_journal(ids_of(before))

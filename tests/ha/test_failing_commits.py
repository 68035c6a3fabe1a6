"""A coordinator that is killed or suspended while it has a commit in hand."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from dataclasses import dataclass
from typing import Any, Final

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.ha.conftest import PARTITIONS, TOPIC
from tests.ha.nodes import LEASE_MS, FailingNode, Nodes
from tests.ha.raw_group import RawGroup
from tests.live.wire import LOOK_AGAIN, Wire, run

pytestmark = pytest.mark.slow

PATIENCE_S: Final = 60.0
#: Which the group can't have come to by itself.
OFFSET: Final = 1_000
PARTITION: Final = 0


@dataclass(slots=True)
class Committing:
    """A group of one member that works no more, and a commit of it that the node has in hand."""

    nodes: Nodes
    failing: FailingNode
    #: The nodes that can answer.
    asked: tuple[FailingNode, ...]
    group: RawGroup
    wire: Wire
    request: m.OffsetCommitRequest
    number: int

    @classmethod
    async def begin(
        cls, nodes: Nodes, name: str, failing: FailingNode, point: str, number: signal.Signals
    ) -> Committing:
        """Form the group, and let the node fail at a point of the commit."""
        (other,) = (node for node in nodes.both if node is not failing)
        group = RawGroup(name, TOPIC, nodes.ports, PARTITIONS)
        (member,) = group.come()
        async with asyncio.timeout(PATIENCE_S):
            await group.until_settled()
            await group.until_committed()
        await group.go()
        failing.arm(point, name, 1, number)
        wire = await Wire.open(failing.port)
        request = member.commit_request({PARTITION: OFFSET})
        sent = wire.send(request, 7)
        await asyncio.to_thread(failing.wait_until_hit)
        return cls(nodes, failing, (other,), group, wire, request, sent)

    async def answer(self) -> ErrorCode | None:
        """What the node says to the commit; None if it hangs up."""
        with contextlib.closing(self.wire):
            try:
                async with asyncio.timeout(PATIENCE_S):
                    answer = await self.wire.receive(self.request, 7, self.number)
            except ConnectionError:
                return None
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def resume(self) -> None:
        """Let the node go on; it may be given its share of the shards again."""
        self.failing.resume()
        self.asked = self.nodes.both

    async def ask(self, message: Any, version: int) -> Any:
        """Ask the node that has the group, as soon as one has."""
        async with asyncio.timeout(PATIENCE_S):
            for node in itertools.cycle(self.asked):
                wire = await Wire.open(node.port)
                with contextlib.closing(wire):
                    answer = await wire.ask(message, version)
                if self._error_of(answer) not in LOOK_AGAIN:
                    return answer
                await asyncio.sleep(0.02)
        raise AssertionError("no node is asked")

    @staticmethod
    def _error_of(answer: Any) -> int:
        if isinstance(answer, m.OffsetCommitResponse):
            return int(answer.topics[0].partitions[0].error_code)
        return int(answer.error_code)

    async def stored(self) -> int:
        """The offset that is stored, by the node that has the group."""
        request = m.OffsetFetchRequest(group_id=self.group.name, topics=None)
        answer = await self.ask(request, 5)
        assert answer.error_code == ErrorCode.NONE
        offsets = {
            each.partition_index: each.committed_offset for each in answer.topics[0].partitions
        }
        found: int = offsets[PARTITION]
        return found

    async def commit_again(self, offset: int) -> ErrorCode:
        """Have the member commit to the node that has the group now."""
        request = self.group.members[0].commit_request({PARTITION: offset})
        return ErrorCode(self._error_of(await self.ask(request, 7)))


def test_commit_that_was_stored_and_not_answered_is_there_after_a_kill(nodes: Nodes) -> None:
    failing = nodes.both[1]
    name = nodes.group_on(failing)

    async def play() -> None:
        begun = await Committing.begin(nodes, name, failing, "commit_stored", signal.SIGKILL)
        assert await begun.answer() is None
        assert await begun.stored() == OFFSET
        # The client sends it again, as it was not answered.
        assert await begun.commit_again(OFFSET) == ErrorCode.NONE
        assert await begun.stored() == OFFSET

    run(play())


@pytest.mark.parametrize("point", ["commit_read", "commit_due"])
def test_commit_of_a_node_that_was_suspended_comes_to_nothing(nodes: Nodes, point: str) -> None:
    """It was read, or about to be stored, when the node was suspended for longer than its lease."""
    failing = nodes.both[1]
    name = nodes.group_on(failing)

    async def play() -> None:
        begun = await Committing.begin(nodes, name, failing, point, signal.SIGSTOP)
        before = begun.group.acknowledged[PARTITION]
        assert await begun.stored() == before
        assert await begun.commit_again(before + 1) == ErrorCode.NONE
        begun.resume()
        assert await begun.answer() in (*LOOK_AGAIN, None)
        assert await begun.stored() == before + 1
        await asyncio.sleep(LEASE_MS / 1000)  # what comes late would come by then
        assert await begun.stored() == before + 1

    run(play())


def test_commit_that_was_stored_before_a_node_was_suspended_stays(nodes: Nodes) -> None:
    """Whether it is acknowledged or not, when the node goes on, it was stored before the other."""
    failing = nodes.both[1]
    name = nodes.group_on(failing)

    async def play() -> None:
        begun = await Committing.begin(nodes, name, failing, "commit_stored", signal.SIGSTOP)
        assert await begun.stored() == OFFSET
        assert await begun.commit_again(OFFSET + 1) == ErrorCode.NONE
        begun.resume()
        await begun.answer()
        assert await begun.stored() == OFFSET + 1

    run(play())


def test_suspended_shorter_than_its_lease_a_node_acknowledges_and_stores(nodes: Nodes) -> None:
    failing = nodes.both[1]
    name = nodes.group_on(failing)

    async def play() -> None:
        begun = await Committing.begin(nodes, name, failing, "commit_read", signal.SIGSTOP)
        await asyncio.sleep(LEASE_MS / 1000 / 4)
        failing.resume()
        answer = await begun.answer()
        failing.end(signal.SIGKILL)
        before = begun.group.acknowledged[PARTITION]
        # A busy machine may have held it back for longer than the lease.
        assert await begun.stored() == (OFFSET if answer == ErrorCode.NONE else before)
        assert answer in (ErrorCode.NONE, *LOOK_AGAIN)

    run(play())

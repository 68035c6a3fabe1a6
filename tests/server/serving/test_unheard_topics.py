"""Commits for topics that another node has told of already."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
import structlog.testing

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.log.troubles import TroubleLog
from coterie_server.serving.unheard_topics import UnheardTopics
from coterie_server.storage import StoreError
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio


class Topics:
    """Topics that become known when a test says so."""

    may_be_behind = True

    def __init__(self) -> None:
        self.counts: Mapping[str, int] = {"old": 2}
        self.stored = dict(self.counts)
        self.gates: list[asyncio.Event] = []
        self.error: Exception | None = None

    async def refresh(self) -> None:
        """Read them, when it is let."""
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        if self.error is not None:
            raise self.error
        self.counts = dict(self.stored)

    def let_read(self) -> None:
        """Let all readings end."""
        for gate in self.gates:
            gate.set()


class Held:
    """The commits of a test, and those that have gone on."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.passed: list[Pending] = []
        pass_on = cast("Any", self.passed.append)
        self.unheard = UnheardTopics(self.topics, pass_on, TroubleLog(lambda: 0))

    def commit(self, topic: str, partition: int = 0, group: str = "g") -> Pending:
        """Take a commit."""
        entry = m.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1, committed_metadata=None
        )
        asked = m.OffsetCommitRequestTopic(name=topic, partitions=(entry,))
        commit = Pending(m.OffsetCommitRequest(group_id=group, topics=(asked,)), 7)
        self.unheard.take(cast("Any", commit))
        return commit


async def turns() -> None:
    """Let tasks go as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_known_partitions_wait_for_nothing() -> None:
    held = Held()
    commits = [held.commit("old", 0), held.commit("old", 1)]
    assert held.passed == commits
    assert held.topics.gates == []


@pytest.mark.parametrize(("topic", "partition"), [("new", 0), ("old", 2)])
async def test_unknown_partition_is_looked_for_before_it_is_refused(
    topic: str, partition: int
) -> None:
    held = Held()
    commit = held.commit(topic, partition)
    await turns()
    assert held.passed == []
    held.topics.let_read()
    await turns()
    assert held.passed == [commit]


async def test_later_commit_of_a_group_does_not_overtake_one_that_is_held() -> None:
    held = Held()
    first, second = held.commit("new"), held.commit("old")
    other = held.commit("old", group="another")
    await turns()
    assert held.passed == [other]
    held.topics.let_read()
    await turns()
    assert held.passed == [other, first, second]
    third = held.commit("old")
    assert held.passed[-1] is third


async def test_node_that_has_the_catalogue_looks_for_nothing() -> None:
    held = Held()
    held.topics.may_be_behind = False
    assert held.passed == [held.commit("new")]


async def test_client_tries_again_if_the_topics_can_not_be_read() -> None:
    held = Held()
    commit = held.commit("new")
    held.topics.error = StoreError("the database does not answer")
    await turns()
    held.topics.let_read()
    answer = await commit.answer
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert held.passed == []


async def test_many_commits_that_meet_the_same_trouble_are_one_line_of_the_log() -> None:
    held = Held()
    held.topics.error = StoreError("the database does not answer")
    with structlog.testing.capture_logs() as logs:
        commits = [held.commit("new") for _ in range(100)]
        await turns()
        held.topics.let_read()
        for commit in commits:
            await commit.answer
    assert [line["event"] for line in logs] == ["the topics can't be read"]


async def test_node_that_stops_hangs_up() -> None:
    held = Held()
    commit = held.commit("new")
    await turns()
    held.unheard.close()
    await turns()
    assert commit.closed == ["the node is stopping"]


async def test_commits_that_are_held_are_not_overtaken_once_all_topics_are_known() -> None:
    """As when the node is given the catalogue while it still looks."""
    held = Held()
    first, second = held.commit("new"), held.commit("old")
    held.topics.may_be_behind = False
    third, other = held.commit("old"), held.commit("old", group="other")
    await turns()
    assert held.passed == [other]
    held.topics.let_read()
    await turns()
    assert held.passed == [other, first, second, third]

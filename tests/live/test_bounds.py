"""A node at its limits: stock clients are told so, and existing members go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition

from coterie_protocol.error_codes import ErrorCode
from tests.live.conftest import SETTINGS, errors_in
from tests.live.daemon import Daemon, eventually
from tests.live.group import ALL, TOPIC, LiveGroup
from tests.live.member import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, Client

LIMITS: Final = {"max.groups": 1, "max.topics": 1, "max.partitions": len(ALL)}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with its one topic and its one group, whose member must notice nothing."""
    folder = tmp_path_factory.mktemp("full")
    with Daemon(folder, settings=SETTINGS | LIMITS, topics={TOPIC: len(ALL)}) as daemon:
        with LiveGroup(daemon, "first", folder) as live_group:
            before = live_group.calm(live_group.start(KAFKA_PYTHON, "one"))
            yield daemon
            assert live_group.calm(*live_group.members)["generation"] == before["generation"]
        assert errors_in(daemon.whole_log()) == []


def limits_logged(daemon: Daemon) -> set[tuple[str, int]]:
    """The limits that the log reports as reached."""
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in daemon.log().splitlines() if line.startswith("{")
    ]
    return {(line["setting"], line["limit"]) for line in lines if line["event"] == "limit reached"}


@pytest.mark.parametrize("client", [KAFKA_PYTHON, AIOKAFKA, CONFLUENT], ids=str)
def test_member_of_one_group_too_many_learns_the_policy(
    full: Daemon, client: Client, tmp_path: Path
) -> None:
    with LiveGroup(full, f"second-{client}", tmp_path) as live_group:
        member = live_group.start(client, "two")
        eventually(lambda: "policy" in member.told().lower(), "the library says why")
    eventually(lambda: ("max.groups", 1) in limits_logged(full), "the log says why")


def test_commit_of_one_group_too_many_is_refused(full: Daemon) -> None:
    key = TopicPartition(TOPIC, 0)
    with closing(KafkaAdminClient(bootstrap_servers=full.address)) as admin:
        results = admin.alter_group_offsets("second", {key: OffsetAndMetadata(1, "", -1)})
    assert {k: error.__name__ for k, error in results.items()} == {key: "PolicyViolationError"}


def test_one_topic_too_many_is_refused_with_the_setting(full: Daemon) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=full.address)) as admin:
        (created,) = admin.create_topics({"more": {"num_partitions": 1}}, raise_errors=False)[
            "topics"
        ]
        (grown,) = admin.create_partitions({TOPIC: len(ALL) + 1}, raise_errors=False).results
    policy = ErrorCode.POLICY_VIOLATION
    assert (created["error_code"], grown.error_code) == (policy, policy)
    assert created["error_message"] == "max.topics is 1, and there are 1 already."
    assert grown.error_message == "max.partitions is 6, and there would be 7."
    assert {("max.topics", 1), ("max.partitions", len(ALL))} <= limits_logged(full)

"""`kafka-consumer-groups` from Kafka's own distribution, against a live daemon."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from coterie_client import Admin
from tests.interop.java_tools import CONSUMER_GROUPS, kafka_tool, toolchain_problem
from tests.live.daemon import Daemon
from tests.live.group import ALL, LiveGroup
from tests.live.member import CONFLUENT, MemberProcess

pytestmark = pytest.mark.interop


@pytest.fixture(autouse=True)
def _toolchain() -> None:
    problem = toolchain_problem()
    if problem is not None:
        pytest.skip(problem)


@pytest.fixture
def live_group(
    daemon: Daemon, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[LiveGroup]:
    """Give a group of its own to the test."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name).strip("-")
    # A topic of its own, too: how far other groups got there shows in its ends.
    topic = f"topic-of-{name}"
    with closing(KafkaAdminClient(bootstrap_servers=daemon.address)) as admin:
        admin.create_topics({topic: {"num_partitions": len(ALL)}})
    with LiveGroup(daemon, name, tmp_path, topic=topic) as live_group:
        yield live_group


@pytest.fixture
def member(live_group: LiveGroup) -> MemberProcess:
    """Give the only member of the group, which has committed for two partitions."""
    member = live_group.start(CONFLUENT, "member")
    live_group.settle(member)
    member.commit({0: 5, 1: 6})
    return member


def commit(daemon: Daemon, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Set offsets of a group without members."""

    async def set_offsets() -> None:
        async with Admin(daemon.address) as admin:
            await admin.offsets.set(group, offsets)

    asyncio.run(set_offsets())


def tool(daemon: Daemon, *arguments: str) -> str:
    """Run the tool and return what it printed."""
    return kafka_tool(CONSUMER_GROUPS, "--bootstrap-server", daemon.address, *arguments).stdout


def table(printed: str, *columns: str) -> list[tuple[str, ...]]:
    """These columns of a table that was printed, row by row."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    start = next(at for at, words in enumerate(lines) if set(columns) <= set(words))
    places = [lines[start].index(column) for column in columns]
    return [tuple(words[place] for place in places) for words in lines[start + 1 :]]


@pytest.mark.usefixtures("member")
def test_groups_are_listed(live_group: LiveGroup) -> None:
    listed = table(tool(live_group.daemon, "--list", "--state"), "GROUP", "STATE")
    assert (live_group.group, "Stable") in listed


@pytest.mark.usefixtures("member")
def test_offsets_are_described(live_group: LiveGroup) -> None:
    printed = tool(live_group.daemon, "--describe", "--group", live_group.group)
    rows = table(printed, "PARTITION", "CURRENT-OFFSET", "CLIENT-ID", "HOST")
    offsets = {"0": "5", "1": "6"}
    assert rows == [
        (str(partition), offsets.get(str(partition), "-"), "member", "/127.0.0.1")
        for partition in sorted(ALL)
    ]


@pytest.mark.usefixtures("member")
def test_lag_is_counted_from_the_group_with_the_highest_offset(
    live_group: LiveGroup, daemon: Daemon
) -> None:
    topic = live_group.topic
    commit(daemon, f"{live_group.group}-ahead", {(topic, 0): 19})
    printed = tool(live_group.daemon, "--describe", "--group", live_group.group)
    columns = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    assert table(printed, *columns)[:3] == [
        ("0", "5", "19", "14"),
        ("1", "6", "6", "0"),
        ("2", "-", "0", "-"),
    ]


@pytest.mark.usefixtures("member")
def test_members_are_described_with_their_assignments(live_group: LiveGroup) -> None:
    printed = tool(
        live_group.daemon, "--describe", "--group", live_group.group, "--members", "--verbose"
    )
    assert table(printed, "CLIENT-ID", "#PARTITIONS", "CURRENT-ASSIGNMENT") == [
        ("member", "6", f"{live_group.topic}:0,1,2,3,4,5")
    ]


@pytest.mark.usefixtures("member")
def test_state_is_described(live_group: LiveGroup) -> None:
    printed = tool(live_group.daemon, "--describe", "--group", live_group.group, "--state")
    found = re.search(r"(?P<coordinator>\S+)\s+\(1\)\s+range\s+Stable\s+1$", printed, re.MULTILINE)
    assert found is not None
    assert found["coordinator"] == live_group.daemon.address


@pytest.mark.usefixtures("member")
def test_group_in_use_is_neither_deleted_nor_reset(live_group: LiveGroup) -> None:
    group = ("--group", live_group.group)
    assert "GroupNotEmptyException" in tool(live_group.daemon, "--delete", *group)
    deleted = tool(live_group.daemon, "--delete-offsets", *group, "--topic", live_group.topic)
    assert "GroupSubscribedToTopicException" in deleted
    reset = tool(
        live_group.daemon,
        "--reset-offsets",
        *group,
        "--topic",
        live_group.topic,
        "--to-earliest",
        "--execute",
    )
    assert "can only be reset if the group" in reset
    assert live_group.look()["offsets"] == 2


def test_group_without_members_is_deleted(live_group: LiveGroup, member: MemberProcess) -> None:
    member.close()
    printed = tool(live_group.daemon, "--delete", "--group", live_group.group)
    assert "was successful" in printed
    assert live_group.group not in tool(live_group.daemon, "--list").split()


def test_offsets_are_deleted(live_group: LiveGroup, member: MemberProcess) -> None:
    member.close()
    topic = f"{live_group.topic}:0"
    printed = tool(
        live_group.daemon, "--delete-offsets", "--group", live_group.group, "--topic", topic
    )
    assert table(printed, "TOPIC", "PARTITION", "STATUS") == [(live_group.topic, "0", "Successful")]
    described = tool(live_group.daemon, "--describe", "--group", live_group.group)
    assert table(described, "PARTITION", "CURRENT-OFFSET") == [("1", "6")]


def test_offsets_are_reset_and_a_dry_run_changes_nothing(
    live_group: LiveGroup, member: MemberProcess
) -> None:
    member.close()
    group = ("--group", live_group.group)
    printed = tool(
        live_group.daemon,
        "--reset-offsets",
        *group,
        "--topic",
        live_group.topic,
        "--to-earliest",
        "--execute",
    )
    expected = [(str(partition), "0") for partition in sorted(ALL)]
    assert sorted(table(printed, "PARTITION", "NEW-OFFSET")) == expected
    described = tool(live_group.daemon, "--describe", *group)
    assert sorted(table(described, "PARTITION", "CURRENT-OFFSET")) == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 19, 1: 6}),
        (["--to-offset", "3"], {0: 3, 1: 3}),
        (["--to-offset", "12"], {0: 12, 1: 6}),
        (["--shift-by", "-2"], {0: 3, 1: 4}),
        (["--shift-by", "1"], {0: 6, 1: 6}),
        (["--to-current"], {0: 5, 1: 6}),
        (["--to-datetime", "2020-01-01T00:00:00.000"], {0: 19, 1: 6}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_offsets_are_reset_within_the_known_ends(
    live_group: LiveGroup, member: MemberProcess, how: list[str], expected: dict[int, int]
) -> None:
    """Anywhere from 0 to where the farthest group is; what is beyond becomes that, with a warning.

    There is no record of any time, and where none is found the tool goes to the end.
    """
    member.close()
    commit(live_group.daemon, f"{live_group.group}-ahead", {(live_group.topic, 0): 19})
    chosen = ("--group", live_group.group, "--topic", f"{live_group.topic}:0,1")
    printed = tool(live_group.daemon, "--reset-offsets", *chosen, *how, "--execute")
    rows = sorted((str(partition), str(offset)) for partition, offset in expected.items())
    assert sorted(table(printed, "PARTITION", "NEW-OFFSET")) == rows
    described = tool(live_group.daemon, "--describe", "--group", live_group.group)
    assert sorted(table(described, "PARTITION", "CURRENT-OFFSET")) == rows


def test_reset_without_execute_changes_nothing(
    live_group: LiveGroup, member: MemberProcess
) -> None:
    member.close()
    group = ("--group", live_group.group)
    tool(
        live_group.daemon,
        "--reset-offsets",
        *group,
        "--topic",
        live_group.topic,
        "--to-earliest",
        "--dry-run",
    )
    described = tool(live_group.daemon, "--describe", *group)
    assert table(described, "PARTITION", "CURRENT-OFFSET") == [("0", "5"), ("1", "6")]
